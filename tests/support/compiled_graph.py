"""Graphs compiled for the CPU and run, to be compared with the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.codegen.cpu.assemble import compile_canonical, execute
from tracegrad.codegen.lower.canonical import canonicalise
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.tracer.ir.graph import Graph


class CompiledGraph:
    """A graph with its program."""

    def __init__(self, graph: Graph):
        self.graph = simplify(graph)
        self.canonical = canonicalise(self.graph)
        self.program = compile_canonical(self.canonical, len(graph.inputs))

    def run(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        arrays = [
            np.ascontiguousarray(np.asarray(x, dtype=v.aval.dtype).reshape(v.aval.shape))
            for x, v in zip(inputs, self.graph.inputs, strict=True)
        ]
        arrays = [a.reshape(v.aval.shape) for a, v in zip(arrays, self.graph.inputs, strict=True)]
        self.failed, results = execute(self.program, self.canonical, [*arrays, *(a for _, a in self.graph.consts)])
        return results


def compile_graph(graph: Graph) -> CompiledGraph:
    return CompiledGraph(graph)
