"""Loops whose iterations call transforms and functions with rules of their own: descents, Newton's method."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

import tracegrad as tg
from tracegrad import autograd, compile_grad
from tracegrad.runtime.logged.record import Logged
from tracegrad.runtime.mode import VALUE_AND_GRAD, Mode
from tracegrad.runtime.record.call_key import flatten

X = np.array([0.3, 0.5, -0.7])


def loss(w):
    return np.sum((w**2 - 1) ** 2) + np.sum(np.sin(w))


def slope(w):
    return 4 * w * (w**2 - 1) + np.cos(w)


def curvature(w):
    return np.diag(12 * w**2 - 4 - np.sin(w))


@tg.custom_vjp
def square(x):
    return x * x


square.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
square_again = autograd.checkpoint(lambda x: x * x)


def descent(x, n, ours):
    w, v, seen = x, np.zeros(3), []
    for _ in range(n):
        g = autograd.grad(loss)(w) if ours else slope(w)
        v = 0.9 * v - 0.01 * g
        w = w + v
        seen.append(w[0])
    return loss(w) + np.sum(np.array(seen))


def newton(x, n, ours):
    w = x
    for _ in range(n):
        g, h = (autograd.grad(loss)(w), autograd.hessian(loss)(w)) if ours else (slope(w), curvature(w))
        w = w - 0.1 * np.linalg.solve(h + 5 * np.eye(3), g)
    return loss(w)


def along(x, n, ours):
    for _ in range(n):
        x = x + 0.01 * (autograd.jvp(loss, (x,), (x,))[1] if ours else slope(x) @ x)
    return np.sum(x)


def of_loops(x, n, ours):
    w = x
    for _ in range(n):

        def f(y, w=w):
            for _ in range(20):
                y = y * 0.9 + 0.01 * w
            return np.sum(y * y)

        def g(y, w=w):
            for _ in range(20):
                y = y * 0.9 + 0.01 * w
            return 2 * y * 0.9**20

        w = w - 0.1 * (autograd.grad(f)(w) if ours else g(w))
    return np.sum(w)


def batches(x, n, ours):
    for _ in range(n):
        x = x + 0.01 * (autograd.vmap(lambda r, x=x: r * np.sum(np.sin(x)))(x) if ours else x * np.sum(np.sin(x)))
    return np.sum(x)


def rules(x, n, ours):
    for _ in range(n):
        x = x - 0.01 * (square(x) + square_again(x) if ours else 2 * x * x)
    return np.sum(x)


@pytest.mark.parametrize("program", [descent, newton, along, of_loops, batches, rules])
def test_programs(program):
    value, gradient = compile_grad(lambda x: program(x, 20, True)).value_and_grad(X)
    np.testing.assert_allclose(value, program(X, 20, False), rtol=1e-10)
    expected = numerical_gradient(lambda x: program(x, 20, False), (X,))
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)

    def size(n):
        f = compile_grad(lambda x: program(x, n, True))
        call = flatten((X,), {}, f._dispatcher.static)
        found = Logged(f._fn).record(call, Mode(VALUE_AND_GRAD), f._dispatcher.learned)
        assert not any("not-rolled" in str(note) for note in found.recording.notes)
        return len(found.recording.graph.nodes)

    assert size(25) == size(50)


def test_a_value_of_a_row_that_is_kept_is_refused():
    def f(x):
        kept = [0.0]
        for _ in range(20):

            def row(r, x=x):
                kept[0] = r
                return r * np.sum(x)

            x = x + 0.01 * autograd.vmap(row)(x)
        return np.sum(x) + kept[0]

    with pytest.raises(tg.UnsupportedError, match="a value of one row of the batch was kept"):
        compile_grad(f)(X)
