"""Long loops whose values a recording asks for: they are run by a kernel, not step by step by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tracer.ir.aval import Aval
from ...tracer.ir.graph import Builder, Graph, Var, building
from ...tracer.ops.control import LOOP_OVER, before_consts, compiled_loops
from .binding import array_records, compiled, launched


def run_compiled(values: list[np.ndarray], params: dict[str, Any]) -> list[Any]:
    """The results of the loop with these *params* over *values*; none where values are held in another dtype."""
    declared = params["body"].inputs
    if any(v.dtype != x.aval.dtype for v, x in zip(values[before_consts(params) :], declared, strict=True)):
        return []
    inputs = [Var(Aval(v.dtype, v.shape)) for v in values]
    with building(Builder()) as builder:
        outs = builder.emit(LOOP_OVER, tuple(inputs), params)
    run, _ = compiled(Graph(inputs, builder.nodes, list(outs)), array_records(inputs))
    return [np.asarray(found) for found in launched(run, values)]


compiled_loops.append(run_compiled)
