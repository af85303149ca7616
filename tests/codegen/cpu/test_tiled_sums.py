"""Sums over an outer axis of a row, in loops that take rows in tiles: their buffers begin at zero in every row.

Of small static rows a tile holds the elements of one place side by side for all rows. What a buffer held before shows
only where another value of the kernel has had its memory, so each program has such values before.
"""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import autograd, compile_grad

A = np.array([0.3, -0.7, 1.1])


def matrix(rows):
    return np.random.default_rng(rows).normal(size=(rows, 3))


FACTORS = {
    "cos": lambda a: np.cos(np.sum(a)), "exp": lambda a: np.exp(-np.sum(a * a)), "root": lambda a: np.sqrt(1 + a @ a),
    "tanh": lambda a: np.tanh(a[0] * a[1]) + 2.0,
}  # fmt: skip
MATRICES = {
    "outer": lambda a: np.outer(a, a), "rotation": lambda a: np.outer(a, a) + np.cos(a[0]) * np.eye(3),
    "symmetric": lambda a: np.outer(a, np.sin(a)) + np.outer(np.sin(a), a), "sum": lambda a: a[:, None] * a + a,
}  # fmt: skip


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("rows", [3, 5, 12, 70])
def test_jacobians_in_reverse(name, factor, rows):
    w = matrix(rows)
    f = lambda a: w @ (FACTORS[factor](a) * MATRICES[name](a))  # noqa: E731
    np.testing.assert_allclose(autograd.jacrev(f)(A), autograd.jacfwd(f)(A), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rows", [2, 5, 70, 200])
def test_sums_over_each_axis_of_small_matrices(rows):
    x = np.random.default_rng(rows).normal(size=(rows, 3, 3))
    eyes = np.eye(rows * 9).reshape(rows * 9, rows, 3, 3)[: rows + 1].sum((0, 1))

    def f(x):
        y = np.exp(x) * np.cos(x) + np.tanh(x) * eyes
        return y.sum(1) + y.sum(2) * np.sin(y.sum((1, 2)))[:, None] + y.max(1) - y.min(1)

    plain = f(x)
    compiled = compile_grad(lambda x: np.sum(f(x) * plain))
    for _ in range(3):
        assert compiled(x) == pytest.approx(np.sum(plain * plain), rel=1e-12)
    _, slope = autograd.jvp(lambda x: np.sum(f(x) * plain), (x,), (plain[:, None] * np.ones((1, 3, 1)),))
    assert slope == pytest.approx(np.sum(compiled.grad(x) * plain[:, None]), rel=1e-9)
