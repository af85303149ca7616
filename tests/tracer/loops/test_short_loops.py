"""Loops of few iterations run over symbols where their iterations are long."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

X = np.array([0.3, 0.5, -0.7])
TABLE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


def long(t, x):
    for a in (0.1, 0.2, 0.3):
        for _ in range(3):
            t = t + 0.01 * np.sin(t * a + x) * np.cos(t - a) - 0.001 * np.tanh(t * x)
    return t


def rates(x, n):
    t = x
    for k in range(n):
        t = long(t, x) + 0.001 * k
    return np.sum(t)


def asked(x, n):
    t = x
    for k in range(n):
        t = long(t, x) * float(f"{TABLE[k]:.1f}")
    return np.sum(t)


def stopped(x, n):
    t = x
    for _ in range(n):
        t = long(t, x) * 1.1
        if np.sum(t) > 0.15:
            break
    return np.sum(t)


@pytest.mark.parametrize("program", [rates, asked, stopped])
def test_programs(program):
    f = compile_grad(lambda x: program(x, 10))
    for x in (X, X * 1.1, X):
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, program(x, 10), rtol=1e-10)
        expected = numerical_gradient(lambda x: program(x, 10), (x,))
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


def test_one_iteration_stands_for_all():
    """That the iterations are long is found in the first one: the run is made again."""

    def short(x):
        for _ in range(10):
            x = x * 0.9 + 0.1
        return np.sum(x)

    f, g = compile_grad(lambda x: rates(x, 10)), compile_grad(short)
    for h in (f, g):
        h(X)
        h(X)
    assert "the iterations of a loop are long" in str(f.stats) and "10 turns" in f.explain(X)
    assert f.stats.retries == 1 and not g.stats.retries
