"""Large constants that follow a rule: the same bits, and no numbers in memory."""

from __future__ import annotations

import numpy as np
import pytest
from support import evaluate, make_graph

from tracegrad import compile_grad
from tracegrad.codegen.lower.ruled_constants import rule_of, with_rules
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import Graph, Var
from tracegrad.tracer.ops.elementwise import F

RULED = {
    "ones": np.ones((3, 5, 4)),
    "zeros": np.zeros(7, np.float32),
    "negative zeros": np.full((2, 3), -0.0),
    "a nan": np.full(9, np.nan),
    "numbers": np.full((4, 4), 7, np.int32),
    "true": np.ones((2, 2), bool),
    "unit matrix": np.eye(6),
    "the rest of it": 1.0 - np.eye(6),
    "small on the diagonal": 1e-6 * np.eye(5, dtype=np.float32),
    "above": np.eye(5, 7, 2),
    "below": np.eye(7, 5, -3),
    "in the corner": np.eye(4, 6, 5),
    "in the other corner": np.eye(4, 6, -3),
    "mask of a diagonal": np.eye(5, dtype=bool),
    "mask of the rest": ~np.eye(5, 4, 1, dtype=bool),
    "below and on": np.tril(np.ones((6, 6))),
    "strictly below": np.tri(6, 4, -1),
    "far above": np.tri(4, 6, 3),
    "on and above": np.triu(np.ones((5, 5))),
    "hidden": np.where(np.tri(6, 6, dtype=bool), 0.0, -np.inf),
    "mask of a triangle": np.tri(6, 6, dtype=bool),
    "mask of the other": ~np.tri(6, 6, dtype=bool),
}


@pytest.mark.parametrize("name", RULED)
def test_a_rule_gives_the_same_bits(name):
    array = RULED[name]
    rule = rule_of(array)
    assert rule is not None
    (found,) = evaluate(make_graph([], lambda: [rule()]), [])
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


@pytest.mark.parametrize("name", RULED)
def test_one_other_element_breaks_the_rule(name):
    array = RULED[name]
    for place in np.ndindex(array.shape):
        other = array.copy()
        other[place] = 0.0 if name == "negative zeros" else not other[place] if array.dtype == bool else 3
        rule = rule_of(other)
        if rule is not None:  # another one: a diagonal of one element
            (found,) = evaluate(make_graph([], lambda rule=rule: [rule()]), [])
            assert found.tobytes() == other.tobytes()


@pytest.mark.parametrize("array", [np.arange(6.0), np.eye(3) + np.eye(3, k=1), np.ones((2, 2), complex), np.ones(0)])
def test_arrays_without_a_rule(array):
    assert rule_of(array) is None


def pairs(x):
    apart = 1.0 - np.eye(len(x))
    seen = np.tril(np.ones((len(x), len(x))))
    return np.sum((x[:, None] - x) ** 2 * apart * seen + np.full((len(x), len(x)), 0.5) * x)


def test_nests_make_them_up():
    x = np.random.default_rng(0).standard_normal(70)
    f = compile_grad(pairs)
    value, gradient = f.value_and_grad(x)
    np.testing.assert_allclose(value, pairs(x), rtol=1e-13)
    step = 1e-6 * np.eye(70)
    slopes = [(pairs(x + h) - pairs(x - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-5)
    assert "const " not in f.explain(x, level="all").split("--- loops")[0]
    assert f.explain(x[:10], level="all").split("--- loops")[0].count("const ") == 3  # which the nearest cache holds


def test_libraries_read_numbers():
    def solved(x):
        return np.sum(np.linalg.solve(np.eye(len(x)) * 2.0, x))

    x = np.arange(80.0)
    f = compile_grad(solved)
    np.testing.assert_allclose(f.value_and_grad(x)[1], np.full(80, 0.5))
    assert "const " in f.explain(x, level="all").split("--- loops")[0]


def test_results_keep_theirs():
    ones = np.ones((80, 80))
    const, x = Var(Aval(ones.dtype, ones.shape)), Var(Aval(ones.dtype, ones.shape))
    graph = make_graph([x.aval], lambda x: [F.add(x, x)])
    returned = Graph(graph.inputs, graph.nodes, [const, *graph.outputs], [], [(const, ones)])
    assert with_rules(returned) is returned
