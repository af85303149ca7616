"""Kernels of programs within a program: of the functions that a solver of SciPy's calls (control/sub_program.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...codegen.lower.canonical import canonicalise
from ...codegen.lower.simplify import simplify
from ...tracer.control.sub_program import Evaluator, kernel_makers
from ...tracer.ir.graph import Graph
from .binding import argument_records, bind_graph, launched
from .kernel_cache import kernels


def evaluator(graph: Graph) -> Evaluator:
    """*graph* as a function of arrays."""
    reduced = simplify(graph)
    canonical = canonicalise(reduced)
    program, _ = kernels.get(canonical, len(reduced.inputs))
    records = argument_records(reduced.inputs, [None] * len(reduced.inputs))
    launch = bind_graph(reduced, canonical, program, False, records)

    def evaluate(arrays: Sequence[np.ndarray]) -> Sequence[Any]:
        return launched(launch, arrays)

    return evaluate


kernel_makers.append(evaluator)
