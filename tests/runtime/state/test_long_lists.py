"""Long lists of numbers outside: one read, and one comparison of all items in each call."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad

COUNT = 12_000
X = np.linspace(0.5, 1.5, 50)
INTS = [(k * 37) % 50 for k in range(COUNT)]
FLOATS = [k * 0.5 for k in range(COUNT)]
PAIRS = [((k * 37) % 50, k * 0.5) for k in range(COUNT)]
FIXED = tuple(INTS)


def ints(x):
    s = 0.0
    for k in range(COUNT):
        s = s + x[INTS[k]]
    return s


def ints_gone_over(x):
    s = 0.0
    for at in INTS:
        s = s + x[at]
    return s


def floats(x):
    s = 0.0
    for k in range(len(FLOATS)):
        s = s + x[k % 50] * FLOATS[k]
    return s


def pairs(x):
    s = 0.0
    for at, factor in PAIRS:
        s = s + x[at] * factor
    return s


def fixed(x):
    s = 0.0
    for k in range(COUNT):
        s = s + x[FIXED[k]] * k
    return s


EVERY = np.arange(COUNT)
LOOPS = [  # (the loop, the places that it reads, their factors)
    (ints, INTS, np.ones(COUNT)), (ints_gone_over, INTS, np.ones(COUNT)), (floats, EVERY % 50, FLOATS),
    (pairs, INTS, FLOATS), (fixed, INTS, EVERY),
]  # fmt: skip


@pytest.mark.parametrize(("f", "places", "factors"), LOOPS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_loop_over_a_long_list_is_one_loop(f, places, factors):
    slopes = np.bincount(places, factors)
    g = compile_grad(f)
    for _ in range(3):
        value, gradient = g.value_and_grad(X)
        assert value == pytest.approx(np.dot(slopes, X), rel=1e-11)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-11)
    assert g.stats.traces <= 2 and not g.stats.live
    assert "not-rolled" not in str(g.explain(X))


def summed(space):
    def f(x):
        s = 0.0
        for k in range(len(space["values"])):
            s = s + x[k % 50] * space["values"][k]
        return s

    return f


def changes(g, f, space):
    """Whether the list is another one to the compiled function now."""
    before = g.stats.traces
    assert g.value_and_grad(X)[0] == pytest.approx(f(X), rel=1e-11)
    return g.stats.traces > before


@pytest.mark.parametrize("kind", [int, float])
def test_any_item_counts(kind):
    space = {"values": [kind(k % 7) for k in range(3000)]}
    f = summed(space)
    g = compile_grad(f)
    changes(g, f, space)
    assert not changes(g, f, space)
    space["values"][2999] = kind(40)
    assert changes(g, f, space)
    space["values"].append(kind(2))
    assert changes(g, f, space)
    del space["values"][-1]
    space["values"][2999] = kind(2999 % 7)
    assert not changes(g, f, space)


def test_an_equal_list_is_the_same():
    space = {"values": [k + 1000 for k in range(3000)]}
    f = summed(space)
    g = compile_grad(f)
    changes(g, f, space)
    space["values"] = [k + 1000 for k in range(3000)]
    assert not changes(g, f, space)
    space["values"] = [float(k + 1000) for k in range(3000)]
    assert changes(g, f, space)
    space["values"] = [k + 1000 for k in range(2999)] + [True]
    assert changes(g, f, space)
    space["values"] = tuple(range(1000, 4000))
    assert changes(g, f, space)


def test_signs_of_zeros_and_nans_count():
    space = {"values": [0.5] * 2999 + [0.0]}

    def f(x):
        s = 0.0
        for v in space["values"]:
            s = s + np.copysign(x[0], v)
        return s

    g = compile_grad(f)
    changes(g, f, space)
    space["values"] = [0.5] * 2999 + [-0.0]
    assert changes(g, f, space)
    space["values"][0] = float("nan")
    assert np.copysign(1.0, g.value_and_grad(X)[0]) == np.copysign(1.0, f(X))


def test_items_of_pairs_count():
    space = {"values": [(k % 50, 1.0) for k in range(3000)]}

    def f(x):
        s = 0.0
        for at, factor in space["values"]:
            s = s + x[at] * factor
        return s

    g = compile_grad(f)
    changes(g, f, space)
    space["values"][7] = (7, 1.0)
    assert not changes(g, f, space)
    space["values"][7] = (8, 1.0)
    assert changes(g, f, space)
    space["values"][7] = (7, 1)
    assert changes(g, f, space)


def test_a_list_that_is_written_too():
    values = [k % 5 for k in range(3000)]

    def f(x):
        s = 0.0
        for k in range(3000):
            s = s + x[k % 50] * values[k]
        values[3] = values[3] + 1
        return s

    g, start = compile_grad(f), list(values)
    found = []
    for _ in range(4):
        found.append(g.value_and_grad(X)[0])
    compiled, values[:] = list(values), start
    assert found == pytest.approx([f(X) for _ in range(4)], rel=1e-11)
    assert values == compiled


def test_two_long_lists_and_two_ways():
    first, second = [k % 5 for k in range(3000)], [k % 7 for k in range(3000)]

    def f(x, which):
        s = 0.0
        for k in range(3000):
            s = s + x[k % 50] * first[k]
        if np.sum(which) > 0:
            for k in range(3000):
                s = s + x[second[k]]
        return s

    g = compile_grad(f)
    for _ in range(2):
        for which in (np.ones(2), -np.ones(2)):
            assert g.value_and_grad(X, which)[0] == pytest.approx(f(X, which), rel=1e-11)
    traces = g.stats.traces
    first[2] = 30
    for which in (np.ones(2), -np.ones(2)):
        assert g.value_and_grad(X, which)[0] == pytest.approx(f(X, which), rel=1e-11)
    assert g.stats.traces > traces


@pytest.mark.parametrize("kind", [list, tuple])
def test_the_numbers_of_an_argument_are_inputs(kind):
    def f(values):
        total = 0.0
        for x in values:
            total = total + x * np.sin(x)
        return total

    given = np.linspace(0.1, 0.9, 2100)
    compiled = compile_grad(f)
    for x in (given, 0.5 * given):
        value, gradient = compiled.value_and_grad(kind(x.tolist()))
        assert value == pytest.approx(np.sum(x * np.sin(x)), rel=1e-12)
        assert gradient == pytest.approx(kind((np.sin(x) + x * np.cos(x)).tolist()), rel=1e-12)
