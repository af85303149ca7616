"""Evaluating a graph with NumPy: tier 0, and the oracle of every test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tracer.ir.aval import FLOAT32, HALF, finfo
from ...tracer.ir.evaluate import run_nodes, stored
from ...tracer.ir.graph import Graph, Var


def tolerance(dtype: np.dtype) -> float:
    """Tolerance of kernels of *dtype* against the interpreter, relative to the largest element; two units in the last
    place for half precision."""
    if dtype in HALF:
        return 2 * float(finfo(dtype).eps)
    return 1e-4 if dtype == FLOAT32 else 1e-9


def evaluate(graph: Graph, inputs: Sequence[Any]) -> list[np.ndarray]:
    """The outputs of *graph* for *inputs* (arrays in the order of ``graph.inputs``)."""
    env: dict[Var, Any] = {
        var: np.asarray(value, dtype=var.aval.dtype) for var, value in zip(graph.inputs, inputs, strict=True)
    }
    env.update(graph.consts)
    run_nodes(graph.nodes, env)
    return [stored(env, out) for out in graph.outputs]
