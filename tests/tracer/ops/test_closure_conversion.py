"""Bodies of loops: what they read from outside, and which carries they need."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.check import check_graph
from tracegrad.tracer.ir.graph import Builder, Var, building, live_nodes, read_vars, structural
from tracegrad.tracer.ir.text import print_graph
from tracegrad.tracer.ops.closure_conversion import closed, needed_carries
from tracegrad.tracer.ops.elementwise import F

F64 = Aval(np.dtype("float64"), ())


def test_what_is_read_from_outside_comes_first_in_the_order_of_reading():
    a, b, x = Var(F64), Var(Aval(np.dtype("float64"), (), weak=True)), Var(F64)
    with building(Builder()) as builder:
        y = F.add(F.mul(x, b), a)
    graph, consts = closed(builder.nodes, [y, a, structural(1)], [x])
    check_graph(graph)
    assert consts == [b, a]
    assert print_graph(graph) == (
        "graph(a:f64*[], b:f64[], c:f64[]) {\n  d:f64[] = mul c a\n  e:f64[] = add d b\n  return e b 1.0!:f64\n}\n"
    )


def test_the_same_nodes_in_two_bodies_define_different_values():
    x = Var(F64)
    with building(Builder()) as builder:
        y = F.sin(x)
    (one, _), (other, _) = (closed(builder.nodes, [y], [x]) for _ in range(2))
    assert len({y, *one.outputs, *other.outputs}) == 3


@pytest.mark.parametrize(("first", "expected"), [([0], [0, 1, 2]), ([2], [2]), ([], []), ([3], [2, 3])])
def test_carries_that_carries_need(first, expected):
    carries = [Var(F64) for _ in range(4)]
    with building(Builder()) as builder:
        ends = [F.sin(carries[1]), F.exp(carries[2]), carries[2], F.mul(carries[2], carries[3])]

    def read_for(needed):
        roots = [ends[k] for k in needed]
        return read_vars(live_nodes(builder.nodes, roots), roots)

    found, read = needed_carries(carries, first, read_for)
    assert found == expected
    assert read == read_for(expected)


def test_a_place_without_a_carry_needs_nothing():
    x, y = Var(F64), Var(F64)
    found, _ = needed_carries([None, y], [0], lambda needed: {x})
    assert found == [0]
