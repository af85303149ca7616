"""Kernels of programs within a program: of the functions that a solver of SciPy's calls (control/sub_program.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...codegen.lower.canonical import canonicalise
from ...codegen.lower.simplify import simplify
from ...tracer.control.sub_program import Evaluator, kernel_makers
from ...tracer.ir.errors import ShapeError
from ...tracer.ir.graph import Graph, Var
from .bind import Arg, ArrayArg, ScalarArg
from .binding import bind_graph
from .kernel_cache import kernels


def _record(var: Var) -> Arg:
    """A variable that is one number is given as such."""
    aval = var.aval
    if aval.weak:
        return ScalarArg(aval.dtype, (float, np.float64))
    return ArrayArg(aval.dtype, aval.shape)


def evaluator(graph: Graph) -> Evaluator:
    """*graph* as a function of its inputs."""
    reduced = simplify(graph)
    canonical = canonicalise(reduced)
    program, _ = kernels.get(canonical, len(reduced.inputs))
    records = [_record(var) for var in graph.inputs]
    launch = bind_graph(reduced, canonical, program, len(graph.outputs) == 1, records)

    def evaluate(*values: Any) -> Any:
        found = launch(*values)
        return launch(*_as_declared(graph, values)) if found is None else found

    return evaluate


def _as_declared(graph: Graph, values: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = []
    for var, value in zip(graph.inputs, values, strict=True):
        aval = var.aval
        if aval.weak:
            found.append(float(value))
            continue
        array = np.array(value, aval.dtype, order="C")
        if array.shape != aval.shape:
            raise ShapeError.here(f"a function recorded for the shape {aval.shape} is called with {array.shape}")
        found.append(array)
    return found


kernel_makers.append(evaluator)
