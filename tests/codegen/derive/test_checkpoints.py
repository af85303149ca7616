"""Loops whose steps would take too much memory: their reverse mode, with checkpoints, is what it is without."""

from __future__ import annotations

import math

import numpy as np
import pytest
from agreement import agree

import tracegrad as tg
from tracegrad import compile_grad, config
from tracegrad.runtime.launch.kernel_cache import kernels

V20 = np.linspace(0.5, 0.9, 20)
V3 = np.linspace(0.5, 0.9, 3)
M20 = np.random.default_rng(0).normal(size=(20, 20)) * 0.2
LENGTHS = (16, 17, 49, 53)


@pytest.fixture
def little():
    """``little(bytes)`` sets the memory that a loop may take."""
    before = config.loop_memory, config.check

    def set_to(nbytes):
        config.loop_memory, config.check = nbytes, True

    yield set_to
    config.loop_memory, config.check = before


def rows_of(n, m):
    return np.sin(np.arange(1.0 * n * m)).reshape(n, m)


def rows_and_carry(w, n):
    def step(c, x):
        new = np.sin(c * w) + 0.1 * x
        return new, (np.sum(c), c[0] * x)

    last, (a, b) = tg.scan(step, np.ones(len(w)), rows_of(n, len(w)))
    return np.sum(last) + np.sum(a**2) * 1e-2 + np.sum(b[1:] * b[:-1])


def backwards(w, n):
    def step(c, x):
        return np.sin(c * w) + 0.1 * x, c * x

    last, ys = tg.scan(step, np.ones(len(w)), rows_of(n, len(w)), reverse=True)
    return np.sum(last) + np.sum(ys[1:] * ys[:-1])


def numbered(w, n):
    """The step's number, whole and as an index."""
    long = np.sin(np.arange(n) * w[0])

    def body(i, c):
        return np.cos(c * w) + long[i] / (i + 1.0)

    return np.sum(tg.fori_loop(0, n, body, np.ones(len(w))))


def numbered_down(w, n):
    def step(c, i):
        return np.cos(c * w) + i * 0.01, c * i

    last, ys = tg.scan(step, np.ones(len(w)), np.arange(n), reverse=True)
    return np.sum(last) + np.sum(ys) * 1e-3


def gradient_of_rows(w, n):
    xs = np.outer(np.linspace(0.5, 1.5, n), w)
    return np.sum(tg.scan(lambda c, x: (np.tanh(c * x), None), w * 2.0, xs)[0])


def weights(w, n):
    return np.sum(tg.scan(lambda h, x: (np.tanh(w @ h + x), None), np.zeros(20), rows_of(n, 20))[0])


def trees(w, n):
    def step(s, x):
        velocity = s["v"] - 0.1 * w * np.sin(s["x"])
        return {"x": s["x"] + 0.1 * velocity, "v": velocity, "k": s["k"] + 1}, s["x"]

    last, path = tg.scan(step, {"x": w * 1.0, "v": w * 0.0, "k": 0}, None, length=n)
    return np.sum(last["x"] * last["v"]) + last["k"] + np.sum(path**2)


def nested(w, n):
    def outer(c, x):
        return tg.scan(lambda d, y: (np.sin(d * w) + y * 0.1, None), c, rows_of(20, len(w)) * x)[0], None

    return np.sum(tg.scan(outer, np.ones(len(w)), rows_of(n, 1)[:, 0])[0])


def branches(w, n):
    def step(c, x):
        return tg.cond(x[0] > 0, lambda c: np.sin(c * w), lambda c: c * 0.9 + 0.1 * w, c), None

    return np.sum(tg.scan(step, np.ones(len(w)), rows_of(n, len(w)))[0])


PROGRAMS = [
    (rows_and_carry, V20), (rows_and_carry, V3), (backwards, V20), (numbered, V20), (numbered_down, V3),
    (gradient_of_rows, V20), (weights, M20), (trees, V3), (nested, V20), (branches, V20),
]  # fmt: skip
EVERY = pytest.mark.parametrize(("program", "point"), PROGRAMS, ids=[f"{f.__name__}-{p.size}" for f, p in PROGRAMS])


def path_of(f):
    ((path,),) = [v.paths for e in f._dispatcher.endpoints.values() for vs in e.variants.values() for v in vs]
    return path


def checkpoints_of(f):
    return [note for note in path_of(f).recording.notes if "has checkpoints" in note]


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("n", LENGTHS)
def test_gradients_are_the_same(program, point, n, little):
    def f(w):
        return program(w, n)

    plain = compile_grad(f)
    expected = plain.value_and_grad(point)
    assert not checkpoints_of(plain)
    little(600)
    value, gradient = compile_grad(f).value_and_grad(point)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-10, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(("program", "point"), [(rows_and_carry, V3), (numbered, V3), (trees, V3)])
@pytest.mark.parametrize("budget", [0, 300])
def test_second_derivative(program, point, budget, little):
    """Of the loops that the split has made, too; and with chunks of chunks."""
    little(budget)
    first = compile_grad(lambda w: program(w, 53))
    product = compile_grad(lambda w: np.sum(first.grad(w) * np.array([1.0, -2.0, 0.5])))
    found = product.grad(point)
    config.loop_memory = 10**9
    again = compile_grad(lambda w: program(w, 53))
    expected = compile_grad(lambda w: np.sum(again.grad(w) * np.array([1.0, -2.0, 0.5]))).grad(point)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_it_agrees_with_finite_differences(little):
    little(100)
    for n in (16, 23):
        agree(compile_grad(lambda w, n=n: rows_and_carry(w, n)), lambda w, n=n: rows_and_carry(w, n), V3)


def workspace_of(f, point):
    f.grad(point)
    path = path_of(f)
    return path.program.plan(path.recording.canonical.sizes)[1]


def test_the_workspace_is_smaller(little):
    """The steps of a loop of n steps that carries m floats, against about 2 √n of them."""
    n, m = 2500, 20

    def f(w):
        return np.sum(tg.fori_loop(0, n, lambda i, c: np.sin(c * w) + 0.1, np.ones(m)))

    config.check = False
    whole = workspace_of(compile_grad(f), V20)
    assert whole > 8 * n * m
    little(8 * n * m - 1)
    config.check = False
    parts = compile_grad(f)
    chunked = workspace_of(parts, V20)
    assert chunked < 3 * 8 * math.isqrt(n) * m + 4096
    text = parts.explain(V20, level="all")
    assert f"the loop of {n} steps at test_checkpoints.py" in text and "has checkpoints every 50 steps" in text
    assert f"would take {8 * n * m} bytes" in text
    little(8 * n * m)
    assert "has checkpoints" not in compile_grad(f).explain(V20, level="all")


def test_what_stores_nothing_is_left_alone(little):
    little(0)
    f = compile_grad(lambda w: tg.fori_loop(0, 100, lambda i, s: s + np.sum(w * i), 0.0))
    assert f.grad(V3) == pytest.approx(4950.0 * np.ones(3))
    assert not checkpoints_of(f)


def test_the_first_rows_of_an_array_are_not_copied(little):
    """The chunks lie where the rows are, also where some are left over."""
    xs = rows_of(1000, 20)
    little(1000 * 8 * 20 - 1)
    config.check = False
    f = compile_grad(lambda w: np.sum(tg.scan(lambda c, x: (np.sin(c * w) + x, None), np.ones(20), xs)[0]))
    assert workspace_of(f, V20) < 1000 * 8 * 20 // 4


def test_the_first_rows_of_what_is_computed_are_all_that_is_stored():
    def f(w):
        xs = np.sin(np.outer(np.arange(5000.0), w))
        return np.sum(tg.scan(lambda c, x: (c * 0.5 + x, None), np.ones(20), xs[:30])[0])

    assert workspace_of(compile_grad(f), V20) < 5000 * 8 * 20 // 4


def test_lengths_share_a_kernel(little):
    little(1000)
    config.check = False
    kernels.clear()

    @compile_grad
    def f(w, xs):
        return np.sum(tg.scan(lambda c, x: (np.sin(c * w) + x, None), np.ones(20), xs)[0])

    config.loop_memory = 8 * 20 * 500
    for n in (1000, 2000, 3001):
        found = f.grad(V20, rows_of(n, 20))
        config.loop_memory = 10**9
        expected = compile_grad(f.__wrapped__).grad(V20, rows_of(n, 20))
        config.loop_memory = 8 * 20 * 500
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert f.stats.compiles == 1
