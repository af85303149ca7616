"""Rewrites of a graph before it gets its signature."""

from __future__ import annotations

import numpy as np
from support import make_graph, strict_evaluate

from tracegrad.codegen.lower.simplify import simplify
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import bind
from tracegrad.tracer.ir.primitive import PRIMITIVES
from tracegrad.tracer.ops.shape import zeros

F64, I64 = np.dtype("float64"), np.dtype("int64")


def added(start, step):
    """A graph that adds rows, padded by zeros, to a matrix at positions."""

    def build(index, v):
        wide = bind(PRIMITIVES["pad"], v, start=start, step=step, shape=(7, 2))
        return [bind(PRIMITIVES["scatter_add"], zeros((5, 2), F64), index, wide)]

    return make_graph([Aval(I64, (7,)), Aval(F64, (2, 2))], build)


def test_zeros_that_fill_up_what_is_added_are_left_out():
    index, v = np.array([0, 4, 1, 1, 2, 3, 0]), np.arange(1.0, 5.0).reshape(2, 2)
    for start, step, left_out in (((1, 0), (3, 1), True), ((4, 0), (-2, 1), True), ((1, 1), (3, -1), False)):
        graph = added(start, step)
        found = simplify(graph)
        assert ("pad" not in [node.prim.name for node in found.nodes]) == left_out
        np.testing.assert_array_equal(strict_evaluate(found, [index, v])[0], strict_evaluate(graph, [index, v])[0])
