"""Rewrites of a graph before it gets its signature."""

from __future__ import annotations

import numpy as np
from support import evaluate, make_graph, strict_evaluate

from tracegrad.codegen.lower.simplify import simplify
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import bind, structural
from tracegrad.tracer.ir.primitive import PRIMITIVES
from tracegrad.tracer.ops.elementwise import F, broadcast_to
from tracegrad.tracer.ops.indexing import SCATTER_ADD
from tracegrad.tracer.ops.shape import reshape, slice_axis, transpose, zeros

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


def views(build):
    """The rewritten program of *build* of an array (3, 4), and what it gives."""
    graph = make_graph([Aval(F64, (3, 4))], lambda x: [build(x)])
    found, value = simplify(graph), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(evaluate(found, [value])[0], evaluate(graph, [value])[0])
    return found


def test_views_of_views_are_one_view():
    back = views(lambda x: transpose(transpose(reshape(reshape(x, (12,)), (2, 3, 2)), (1, 0, 2)), (2, 1, 0)))
    assert [n.prim.name for n in back.nodes] == ["reshape", "transpose"]
    same = views(lambda x: transpose(reshape(transpose(reshape(x, (3, 2, 2)), (1, 0, 2)), (2, 3, 2)), (1, 0, 2)))
    assert [n.prim.name for n in same.nodes] == ["reshape"]
    zero = views(lambda x: F.add(x, transpose(reshape(zeros((2, 6), F64), (4, 3)), (1, 0))))
    assert [n.prim.name for n in zero.nodes] == ["broadcast", "add"]
    wide = views(lambda x: broadcast_to(broadcast_to(slice_axis(x, 0, 1, 1), (3, 4)), (2, 3, 4)))
    assert [n.prim.name for n in wide.nodes] == ["slice", "broadcast"]


def test_sums_of_a_few_elements_go_where_they_belong_through_views():
    def build(x):
        place = broadcast_to(structural(1, I64), (1,))
        few = reshape(slice_axis(reshape(x, (12,)), 0, 0, 3), (1, 3))
        part = bind(SCATTER_ADD, zeros((4, 3), F64), place, few)
        return F.add(transpose(F.sin(transpose(x, (1, 0))), (1, 0)), transpose(part, (1, 0)))

    names = [n.prim.name for n in views(build).nodes]
    assert (
        names.count("transpose") == 2 and names.count("broadcast") == 1 and names[-2:] == ["scatter_add", "transpose"]
    )


def test_no_alias_is_left():
    found = views(lambda x: F.add(bind(PRIMITIVES["alias"], x), bind(PRIMITIVES["alias"], F.sin(x))))
    assert [n.prim.name for n in found.nodes] == ["sin", "add"]
