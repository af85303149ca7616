"""Loops that read values of earlier turns at any distance: lists of values become arrays, the loop is rolled."""

from __future__ import annotations

import numpy as np
import pytest
from selection import some

from tracegrad import compile_grad

PARENTS = [-1, 0, 0, 1, 1, 0, 3, 2, 5, 5, 8, 1, 3, 10, 13, 0, 7, 16, 2, 4, 19, 20, 1, 22, 21]


def bones(x, w):
    """A tree: each value from that of its parent; the root has none."""
    done = []
    for k, parent in enumerate(PARENTS):
        own = np.sin(w * k + x)
        done.append(own if parent < 0 else done[parent] @ own)
    return np.sum(np.stack(done) ** 2)


def numbers(x, w):
    """Scalars; two lists, one of which is read twice in a turn."""
    a, b = [x[0, 0]], [x[0, 1], x[1, 0]]
    for k in range(1, 24):
        a.append(np.tanh(a[k // 2] * w[0, 0] + b[PARENTS[k]]))
        b.append(b[k // 3] + a[PARENTS[k]] * a[k] + w[1, 1])
    return a[-1] + b[-1] + sum(a) * sum(b[3:9])


def before(x, w):
    """Values from before the loop among them."""
    done = [x, w, x @ w]
    for k in range(3, 30):
        done.append(np.cos(done[k * 7 % 11 % k]) @ done[5 * k % (k - 1)] * 0.5)
    return np.sum(done[-1] + done[4])


def same_turn(x, w):
    """Now the value of this turn, now an earlier one."""
    done, total = [x], 0.0
    for k in range(1, 25):
        done.append(done[-1] * 0.9 + np.sin(w))
        total = total + np.sum(done[k if k % 3 else k // 2])
    return total


def branching(x, w):
    """A question about them."""
    done = [x]
    for k in range(1, 25):
        parent = done[PARENTS[k]]
        if parent[0, 0] > 2.0:
            parent = -parent
        done.append(parent * w + x)
    return np.sum(done[-1] + done[-4])


def from_both(x, w):
    """Values of two items of a turn: no loop."""
    done = [x]
    for k in range(1, 25):
        done.append(np.sin(done[PARENTS[k]]) * w)
        done.append(np.cos(done[k * 3 % 7 % k]) + x)
    return np.sum(done[-1])


def example():
    rng = np.random.default_rng(1)
    return rng.normal(size=(2, 2)), rng.normal(size=(2, 2))


def check(f, rolled):
    args = example()
    compiled = compile_grad(f, argnums=(0, 1))
    for _ in range(3):
        value, gradients = compiled.value_and_grad(*args)
    np.testing.assert_allclose(value, f(*args), rtol=1e-10)
    rng = np.random.default_rng(2)
    moves = [rng.normal(size=x.shape) for x in args]
    high, low = (f(*(x + h * m for x, m in zip(args, moves, strict=True))) for h in (1e-6, -1e-6))
    slope = sum(np.sum(g * m) for g, m in zip(gradients, moves, strict=True))
    np.testing.assert_allclose(slope, (high - low) / 2e-6, rtol=1e-6, atol=1e-6)
    assert ("rolled: the loop at test_histories.py:" in compiled.explain(*args, level="all")) == rolled


@pytest.mark.parametrize("f", some([bones, numbers, before, same_turn, branching], quick=2))
def test_a_list_that_is_read_at_any_distance_is_an_array(f):
    check(f, True)


def test_values_of_two_items_are_no_history():
    check(from_both, False)


def test_random_tables():
    rng = np.random.default_rng(0)
    for _ in range(3):
        count = int(rng.integers(16, 30))
        table = [int(rng.integers(0, k)) for k in range(1, count)]
        other = [int(rng.integers(-2, k)) for k in range(1, count)]

        def f(x, table=table, other=other):
            done = [x]
            for k, j in zip(table, other, strict=True):
                done.append(np.sin(done[k]) + 0.5 * (x * 0.1 if j < 0 else done[j]))
            return np.sum(np.stack(done) * np.arange(len(done))[:, None])

        x = rng.normal(size=3)
        compiled = compile_grad(f)
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        shifts = 1e-6 * np.eye(3)
        np.testing.assert_allclose(gradient, [(f(x + s) - f(x - s)) / 2e-6 for s in shifts], rtol=1e-6, atol=1e-6)
