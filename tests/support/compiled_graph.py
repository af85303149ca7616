"""Graphs compiled for the CPU and run, to be compared with the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.codegen.cpu.program import Program, compile_canonical
from tracegrad.codegen.lower.canonical import Canonical, canonicalise
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.runtime.launch.bind import ArrayArg
from tracegrad.runtime.launch.binding import bind_graph
from tracegrad.tracer.ir.graph import Graph


def execute(
    program: Program, graph: Graph, canonical: Canonical, arrays: Sequence[np.ndarray]
) -> tuple[int, list[np.ndarray]]:
    """(failed guard or -1, results) of *program* for the sizes and constants of *graph*, whose form is *canonical*."""
    args = [ArrayArg(v.aval.dtype, v.aval.shape) for v in graph.inputs]
    bound = bind_graph(graph, canonical, program, False, args)
    found: Any = bound(*arrays)
    if found is None:  # arrays that the launcher does not take as they are
        found = bound(*[np.require(a, requirements="CA") for a in arrays])
    return (found, []) if type(found) is int else (-1, [np.asarray(r) for r in found])


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
        self.failed, results = execute(self.program, self.graph, self.canonical, arrays)
        return results


def compile_graph(graph: Graph) -> CompiledGraph:
    return CompiledGraph(graph)
