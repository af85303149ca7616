"""Loops that another loop does beside its own work: one loop is left, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from functions import X, branch, counted, ended, fori, nested
from support import F64, evaluate

import tracegrad as tg
from tracegrad.codegen.derive.adjoint import jvp_all, vjp_seeded
from tracegrad.codegen.lower.covered_loops import merge_covered_loops
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.tracer.ir.check import check_graph
from tracegrad.tracer.ir.graph import Graph, structural
from tracegrad.tracer.ir.primitive import LOOP
from tracegrad.tracer.record.array import TracedArray
from tracegrad.tracer.record.recorder import Recorder, recording


def loops(graph: Graph) -> int:
    return sum(node.prim.kind == LOOP for node in graph.nodes)


def recorded(function: Any, *modes: str) -> Graph:
    """The graph of the leaves of *function*, then of their tangents; "h": of the gradient of the total and a product
    with the Hessian."""
    with recording(Recorder()) as recorder:
        x, t = recorder.add_input(X, "x"), recorder.add_input(np.array([0.5, 1.0, -2.0]), "t")
        outs = [leaf.atom for leaf in tg.tree.leaves(function(TracedArray(x, recorder)))]
        if "h" in modes:
            total = sum((np.sum(TracedArray(y, recorder)) for y in outs[1:]), np.sum(TracedArray(outs[0], recorder)))
            (gradient,), _ = vjp_seeded(recorder.nodes, [(total.atom, structural(1))], [x])
            outs = [gradient]
        if modes:
            tangents = jvp_all(recorder.nodes, {x: t}, outs)
            outs += [tangents[y] for y in outs if y in tangents]
        return recorder.finish(outs)


@pytest.mark.parametrize("mode", ["jvp", "h"])
@pytest.mark.parametrize("function", [counted, ended, fori, branch, nested], ids=lambda f: f.__name__)
def test_forward_mode_of_a_loop_is_one_loop(function, mode):
    graph = recorded(function, mode)
    found = merge_covered_loops(graph)
    check_graph(found)
    values = [X, np.array([0.5, 1.0, -2.0])]
    for a, b in zip(evaluate(found, values), evaluate(graph, values), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(evaluate(simplify(graph), values), evaluate(graph, values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
    if mode == "jvp":
        assert loops(simplify(graph)) == loops(simplify(recorded(function))) > 0
    elif function is not ended:  # which is linear: its adjoint has no tangent
        assert loops(found) < loops(graph)


def twice(first: Any, second: Any) -> Graph:
    def function(x: Any) -> Any:
        return second(x, first(x))

    return recorded(function)


ROWS, LONGER = np.ones((5, 3)), np.ones((6, 3))


def ahead(x: Any, times: Any = np.cos, rows: Any = ROWS, reverse: bool = False) -> Any:
    return tg.scan(lambda c, r: (np.sin(c) * r, times(c)), x, rows, reverse=reverse)


@pytest.mark.parametrize(
    ("second", "left"),
    [
        (lambda x, a: (a, ahead(x)), 1),
        (lambda x, a: (a, ahead(x, np.exp)), 1),  # the same recurrence, other rows
        (lambda x, a: (a, ahead(a[0])), 2),  # begins where the other ends
        (lambda x, a: (a, ahead(x, rows=a[1])), 2),  # reads what the other stacks
        (lambda x, a: (a, ahead(x, reverse=True)), 2),
        (lambda x, a: (a, ahead(x, rows=LONGER)), 2),
        (lambda x, a: (a, tg.scan(lambda c, r: (np.cos(c) * r, c), x, ROWS)), 2),
        (lambda x, a: (a, ahead(x + a[0][0] * 0)), 2),
    ],
    ids=["equal", "other rows", "after", "of its rows", "reverse", "length", "recurrence", "start"],
)
def test_loops_are_one_where_their_recurrences_are(second, left):
    graph = twice(ahead, second)
    found = merge_covered_loops(graph)
    check_graph(found)
    assert loops(graph) == 2 or left == 1
    assert loops(found) == left
    for a, b in zip(evaluate(found, [X, X]), evaluate(graph, [X, X]), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == F64
