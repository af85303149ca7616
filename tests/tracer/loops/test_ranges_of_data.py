"""``range`` with bounds that data says, in the iterations of another loop: rows of sparse matrices, ragged segments,
numbers of steps.  The loop over it is one loop node, whatever the bounds are."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

SIZES = np.random.default_rng(0).integers(0, 6, 90)
STARTS = np.concatenate([[0], np.cumsum(SIZES)])
COLUMNS = np.random.default_rng(1).integers(0, 4, STARTS[-1])
VALUES = np.random.default_rng(2).random(STARTS[-1])
POINTS = [np.array([0.713, 0.417, 0.329, 0.531]), np.array([-0.217, 0.911, 0.633, 0.127])]


def product(x, n):
    y = np.zeros(n)
    for i in range(n):
        s = 0.0
        for k in range(STARTS[i], STARTS[i + 1]):
            s += VALUES[k] * x[COLUMNS[k]]
        y[i] = s
    return np.sum(y**2)


def transposed(x, n):
    y = np.zeros(4)
    for i in range(n):
        for k in range(int(STARTS[i]), int(STARTS[i + 1])):
            y[COLUMNS[k]] += VALUES[k] * x[i % 4]
    return np.sum(np.tanh(y))


def powers(x, n):
    t = 0.0
    for i in range(n):
        h = x
        for j in range(SIZES[i]):
            h = h * 0.9 + 0.1 * j
        t = t + np.sum(h)
    return t


def downwards(x, n):
    best = np.zeros(21)
    for i in range(n):
        w = int(SIZES[i]) + 1
        for c in range(20, w - 1, -1):
            best[c] = np.maximum(best[c], best[c - w] + x[i % 4] * VALUES[i])
    return best[20]


def of_a_list(x, n):
    best = [0.0] * 21
    for i in range(n):
        w = int(SIZES[i]) + 1
        for c in range(20, w - 1, -1):
            best[c] = np.maximum(best[c], best[c - w] + x[i % 4] * VALUES[i])
    return best[20]


def steps(x, n):
    t = 0.0
    for i in range(n):
        h = x[0]
        for j in range(int(abs(x[i % 4]) * 5)):
            h = np.sin(h) + 0.1 * j
        t = t + h
    return t


def two_deep(x, n):
    t = x[0]
    for i in range(n):
        for j in range(SIZES[i]):
            for k in range(j, SIZES[i + 1]):
                t = t * 0.99 + 0.01 * x[k % 4] * j
    return t


def with_questions(x, n):
    t = x[0] * 0.0
    for i in range(n):
        for j in range(SIZES[i]):
            if x[j % 4] > 0.4:
                t = t * 0.9 + x[1]
            else:
                t = t + 0.1 * x[2]
    return t


ROLLED = (product, transposed, powers, downwards, steps, two_deep, with_questions)


@pytest.mark.parametrize("plain", ROLLED, ids=lambda f: f.__name__)
def test_the_loop_is_one_node(plain):
    f = compile_grad(plain)
    for n in (30, 80):
        for x in (*POINTS, *POINTS):
            value, gradient = f.value_and_grad(x, n)
            np.testing.assert_allclose(value, plain(x, n), rtol=1e-9)
            np.testing.assert_allclose(gradient, numerical_gradient(lambda u, n=n: plain(u, n), (x,)), 2e-5, 1e-6)
        assert "rolled: the loop" in f.explain(x, n, level="all").replace("not-rolled", "")
    assert not f.stats.live


def last_position(x, n):
    t, j = 0.0, 7
    for i in range(n):
        for j in range(SIZES[i]):  # noqa: B007
            t = t * 0.9 + x[0]
        t = t + j * x[1]  # of an earlier iteration, where there is none
    return t + j


def otherwise(x, n):
    t = x[0]
    for i in range(n):
        for j in range(SIZES[i]):
            t = t * 0.9 + x[j % 4]
            if t > 2.5:
                break
        else:
            t = t + 0.3
    return t


def appended(x, n):
    found = []
    for i in range(n):
        for j in range(SIZES[i]):
            found.append(x[j % 4] * i)
    return sum(found) + len(found)


def measured(x, n):
    t = x[0]
    for i in range(n):
        r = range(SIZES[i])
        t = t * 0.9 + len(r) * x[1] + sum(r) + (3 in r)
    return t


def named(x, n):
    t = x[0]
    for i in range(n):
        for j, k in zip(range(SIZES[i]), reversed(range(SIZES[i])), strict=True):
            t = t * 0.9 + x[j % 4] * k
    return t


def backwards(x, n):
    t = x[0]
    for i in range(n):
        for j in range(SIZES[i], 0, -2):
            t = t * 0.9 + x[j % 4]
    return t


def written(x, n):
    y = np.zeros(120)
    for i in range(n):
        for j in range(SIZES[i]):
            y[i + j] += x[j % 4]
    return np.sum(y * y)


@pytest.mark.parametrize(
    "plain", [
        pytest.param(of_a_list, marks=pytest.mark.slow),
        last_position, otherwise, appended, measured, named, backwards, written],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_other_uses_give_what_plain_python_gives(plain):
    f = compile_grad(plain)
    for n in (30, 80):
        for x in (*POINTS, *POINTS):
            value, gradient = f.value_and_grad(x, n)
            np.testing.assert_allclose(value, plain(x, n), rtol=1e-9)
            np.testing.assert_allclose(gradient, numerical_gradient(lambda u, n=n: plain(u, n), (x,)), 2e-5, 1e-6)


def test_other_bounds_are_no_other_recording():
    """The table is read anew in each call."""

    def plain(x):
        t = x[0]
        for i in range(40):
            for j in range(table[i]):
                t = t * 0.9 + x[j % 4] * 0.1
        return t

    table = SIZES[:40].copy()
    f = compile_grad(plain)
    f.value_and_grad(POINTS[0])
    recorded = f.stats.traces
    for k in range(5):
        table[:] = (table + k) % 6
        np.testing.assert_allclose(f.value_and_grad(POINTS[1])[0], plain(POINTS[1]), rtol=1e-12)
    assert f.stats.traces <= recorded + 1 and not f.stats.live


@pytest.mark.parametrize("grows", [True, False])
def test_what_data_says_where_an_iteration_stands_alone(grows):
    """Bounds of ranges in iterations that are no loop node are compared, as are the numbers that come of them."""

    def plain(x):
        t, text = x[0], ""
        for i in range(24):
            text = text + "a" if grows else "a"
            for j in range(starts[i], starts[i] + 2):
                t = t * 0.9 + x[j % 4] * 0.1
            for j in range(starts[i] % 3):
                t = t + 0.1 * j
            t = t + sum(range(starts[i], starts[i + 1])) * 0.01 + len(text)
        return t

    starts = STARTS[:40].copy()
    f = compile_grad(plain)
    for k in range(6):
        for x in POINTS:
            np.testing.assert_allclose(f.value_and_grad(x)[0], plain(x), rtol=1e-12)
        starts[:] = (STARTS[:40] * (k + 2)) % 7


def in_turns(x, n):
    h, k = x * 1.0, 0
    for _ in range(n):
        k = min(k + 1, 5) if int(x[0] * 2) % 2 == 0 else max(k - 1, 0)
        for j in range(k % 4):  # none at first, or one
            h = h * 0.9 + 0.01 * j
        k += 1 if int(x[0] * 2) % 2 == 0 else 2
    return np.sum(h) + k


def test_a_range_that_is_empty_in_the_run_that_is_recorded():
    points = [np.array([a, 0.5, 0.3, 0.2]) for a in (0.6, 0.1, -0.4, 1.0, -1.0)]
    for order in (points, points[::-1], points[1:] + points[:1]):
        f = compile_grad(in_turns)
        for x in order:
            for n in (8, 20):
                np.testing.assert_allclose(f.value_and_grad(x, n)[0], in_turns(x, n), rtol=1e-12)


def test_floats_and_arrays_are_no_bounds():
    def of_a_float(x):
        t = x[0]
        for i in range(40):
            for _ in range(x[i % 4] * 3):
                t = t * 0.9
        return t

    with pytest.raises(TypeError):
        compile_grad(of_a_float)(POINTS[0])
