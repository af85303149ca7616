"""Python loops in functions given to ``scan``, ``cond``, ``checkpoint`` and the like run over symbols, too."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

import tracegrad as tg
from tracegrad import autograd, compile_grad
from tracegrad.runtime.logged.record import Logged
from tracegrad.runtime.mode import VALUE_AND_GRAD, Mode
from tracegrad.runtime.record.call_key import flatten

X = np.array([0.3, -0.2, 0.5, 0.1])
ROWS = np.random.default_rng(0).normal(size=(6, 4))
TABLE = np.arange(100.0) / 60


def carried(x, n):
    def step(c, row):
        t = c
        for _ in range(n):
            t = t + 0.01 * np.sin(t * row)
        return t, np.sum(t)

    last, ys = tg.scan(step, x, ROWS)
    return np.sum(last) + np.sum(ys)


def written(x, n):
    def step(c, row):
        z = np.zeros(n)
        z[0] = c[0]
        for k in range(n - 1):
            z[k + 1] = np.sin(z[k]) + row[1] * c[2]
        return c + z[:4] * 0.01, z[-1]

    last, ys = tg.scan(step, x, ROWS)
    return np.sum(last) + np.sum(ys)


def listed(x, n):
    def step(c, row):
        seen = []
        for k in range(n):
            seen.append(np.sum(c * row) * k)
            c = c + 0.01 * seen[-1]
        return c * 0.1, seen[3] + seen[-1]

    last, ys = tg.scan(step, x, ROWS)
    return np.sum(last) + np.sum(ys)


def indexed(x, n):
    """By the numbers of both loops, and by data, which is checked."""
    places = tg.asarray(np.array([0, 1, 2, 3] * 20))

    def step(c, i):
        s = 0.0
        for j in range(n):
            s = s + np.sin(c[0] * tg.asarray(TABLE)[i + j]) * c[places[i + j] % 4]
        return c * 0.9 + s * 0.001, s

    last, ys = tg.scan(step, x, np.arange(8))
    return np.sum(last) + np.sum(ys)


def nested(x, n):
    def step(c, row):
        s = 0.0
        for i in range(n):
            for j in range(i):
                s = s + c[0] * row[1] * np.cos(c[2] + i - j)
        return c * 0.9 + s * 0.001, None

    return np.sum(tg.scan(step, x, ROWS)[0])


def counted(x, n):
    def step(i, c):
        k = 0
        while k < n:
            c = c + 0.01 * np.cos(c * i)
            k += 1
        return c

    return np.sum(tg.fori_loop(0, 5, step, x))


def in_a_loop(x, n):
    """Of Python's."""
    for _ in range(n):

        def step(c, row):
            for _ in range(n):
                c = c * 0.9 + 0.01 * np.sin(row * c)
            return c, None

        x, _ = tg.scan(step, x, ROWS[:3])
    return np.sum(x)


def branch(x, n):
    def long(c):
        for _ in range(n):
            c = c * 0.9 + 0.1 * np.sin(c)
        return c

    return np.sum(tg.cond(x[0] > -5, long, lambda c: c, x))


def checkpointed(x, n):
    @autograd.checkpoint
    def f(c):
        for _ in range(n):
            c = c + 0.02 * np.sin(c)
        return c

    return np.sum(f(x) * f(2 * x))


def count(nodes):
    return sum(1 + (count(n.params["body"].nodes) if "body" in n.params else 0) for n in nodes)


@pytest.mark.parametrize(
    "program", [carried, written, listed, indexed, nested, counted, in_a_loop, branch, checkpointed]
)
def test_programs(program):
    f = compile_grad(lambda x: program(x, 20))
    value, gradient = f.value_and_grad(X)
    np.testing.assert_allclose(value, program(X, 20), rtol=1e-10)
    np.testing.assert_allclose(gradient, numerical_gradient(lambda x: program(x, 20), (X,)), rtol=1e-5, atol=1e-7)

    def size(n):
        f = compile_grad(lambda x: program(x, n))
        call = flatten((X,), {}, f._dispatcher.static)
        found = Logged(f._fn).record(call, Mode(VALUE_AND_GRAD), f._dispatcher.learned)
        return count(found.recording.graph.nodes)

    assert size(25) == size(50)


def test_questions_on_numbers_of_iterations():
    """They are answered, iteration by iteration where they differ."""

    def f(x):
        def step(c, row):
            for k in range(20):
                c = c + np.sum(row) * 0.01 if k == 7 or k % 5 == 3 else c * 0.99
            return c, None

        return np.sum(tg.scan(step, x, ROWS)[0])

    np.testing.assert_allclose(compile_grad(f)(X), f(X), rtol=1e-12)


def test_checks_within_the_loop_are_errors_of_their_kind():
    def out_of_bounds(x, places):
        def step(c, row):
            for k in range(20):
                c = c + row[places[k]]
            return c, None

        return np.sum(tg.scan(step, x, ROWS)[0])

    def singular(x):
        def step(c, row):
            for _ in range(20):
                c = c + 0.01 * np.linalg.cholesky(np.diag(c * c - 0.04) + 0.0 * row[0])[0]
            return c, None

        return np.sum(tg.scan(step, x, ROWS)[0])

    places = np.arange(20) % 4
    f = compile_grad(out_of_bounds)
    np.testing.assert_allclose(f(X, places), out_of_bounds(X, places))
    with pytest.raises(IndexError):
        compile_grad(out_of_bounds)(X, places + 1)
    with pytest.raises(np.linalg.LinAlgError):
        compile_grad(singular)(X)
    np.testing.assert_allclose(compile_grad(singular)(X + 1.0), singular(X + 1.0))
