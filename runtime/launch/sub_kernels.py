"""Kernels of programs within a program: of the functions that a solver of SciPy's calls (control/sub_program.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tracer.control.sub_program import Evaluator, kernel_makers
from ...tracer.ir.errors import ShapeError
from ...tracer.ir.graph import Graph
from .bind import Arg, ArrayArg, ScalarArg
from .binding import compiled


def evaluator(graph: Graph, arrays: int) -> Evaluator:
    """*graph* as a function of its inputs: *arrays*, then variables, of which Python's floats may be numbers."""
    numbers = [k for k, var in enumerate(graph.inputs) if k >= arrays and var.aval.weak]
    avals = [var.aval for var in graph.inputs]
    records: list[Arg] = [
        ScalarArg(a.dtype, (float, np.float64)) if k in numbers else ArrayArg(a.dtype, a.shape)
        for k, a in enumerate(avals)
    ]
    launch, _ = compiled(graph, records, len(graph.outputs) == 1)

    def evaluate(*values: Any) -> Any:
        found = launch(*values)
        return launch(*as_declared(values)) if found is None else found

    def as_declared(values: tuple[Any, ...]) -> list[Any]:
        found: list[Any] = []
        for k, (value, aval) in enumerate(zip(values, avals, strict=True)):
            array = np.array(value, aval.dtype, order="C")
            if array.shape != aval.shape:
                raise ShapeError.here(f"a function recorded for the shape {aval.shape} is called with {array.shape}")
            found.append(array.item() if k in numbers else array)
        return found

    return evaluate


kernel_makers.append(evaluator)
