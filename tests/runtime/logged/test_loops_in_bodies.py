"""Python's loops in what has a recorder of its own: bodies of compiled loops, branches, derivatives within them."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

import tracegrad
from tracegrad import autograd, compile_grad

X = np.array([0.9, 0.6])
ZS = np.linspace(0.1, 1.0, 6)


def sines(y):
    t = y
    for _ in range(20):
        t = np.sin(t)
    return np.sum(t)


def products(y):
    t = y
    for _ in range(20):
        t = np.cos(0.5 * t + 0.1 * y)
    return np.sum(t * t)


def until(y):
    t, k = y * 1.0, 0
    while k < 9:
        t, k = 0.7 * np.sin(0.5 * t + 0.3 * y), k + 1
    return np.sum(t)


def in_a_scan(x, f):
    return np.sum(tracegrad.scan(lambda c, z: (np.cos(c) * f(c) + z, z), x, ZS)[0])


def derived_in_a_scan(x, f):
    return np.sum(tracegrad.scan(lambda c, z: (autograd.grad(f)(c) + z, f(c)), x, ZS)[1])


def in_a_branch(x, f):
    return np.sum(tracegrad.cond(np.sum(x) > 0, lambda c: f(c) * c, lambda c: c, x))


def in_a_while_loop(x, f):
    steps = tracegrad.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * 0.5 + f(c[0]), c[1] + 1), (x, 0))
    return np.sum(steps[0])


def in_a_checkpoint(x, f):
    return tracegrad.checkpoint(f)(x) * x[0]


def around_a_scan(x, f):
    total = x * 0.0
    for k in range(8):
        total = total + tracegrad.scan(lambda c, z: (np.cos(c) * f(c) + z, z), x * total, ZS[:k])[0]
    return np.sum(total)


AROUND = [in_a_scan, derived_in_a_scan, in_a_branch, in_a_while_loop, in_a_checkpoint, around_a_scan]


@pytest.mark.parametrize("f", [sines, products, until])
@pytest.mark.parametrize("around", AROUND)
def test_values_and_gradients(around, f):
    compiled = compile_grad(lambda x: around(x, f))
    for x in (X, X * 1.1):
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, around(x, f), rtol=1e-10)
        np.testing.assert_allclose(gradient, numerical_gradient(lambda y: around(y, f), (x,)), rtol=1e-4, atol=1e-7)
    assert compiled.stats.live == ""
