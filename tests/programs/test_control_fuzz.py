"""Random nests of loops and branches: values, gradients and second derivatives against plain Python over NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient
from selection import seeds

import tracegrad as tg
from tracegrad import compile_grad, config

LEAVES = (
    lambda c, w: np.sin(c * w),
    lambda c, w: c * 0.9 + 0.1 * w,
    lambda c, w: np.tanh(c) + w * 0.1,
    lambda c, w: c[::-1] * w,
    lambda c, w: c - np.sum(c) * 0.01,
    lambda c, w: np.where(c > 0.2, c * 0.5, w),
    lambda c, w: np.cos(c) * w[0] + c * w[-1],
)


def sequence(rng, depth):
    first, second = nest(rng, depth - 1), nest(rng, depth - 1)
    return lambda c, w: second(first(c, w), w)


def loop_while(rng, depth):
    step, most, least = nest(rng, depth - 1), int(rng.integers(0, 6)), float(rng.uniform(0.0, 0.6))

    def f(c, w):
        start = (c, 0)
        return tg.while_loop(
            lambda s: (s[1] < most) & (np.mean(s[0] ** 2) > least), lambda s: (step(s[0], w), s[1] + 1), start
        )[0]

    return f


def branch(rng, depth):
    left, right, where = nest(rng, depth - 1), nest(rng, depth - 1), float(rng.normal() * 0.4)
    return lambda c, w: tg.cond(np.mean(c) > where, lambda c: left(c, w), lambda c: right(c, w), c)


def three_branches(rng, depth):
    parts, scale = [nest(rng, depth - 1) for _ in range(3)], float(rng.uniform(0.5, 4.0))
    return lambda c, w: tg.switch(np.floor(np.mean(c) * scale).astype(int), [lambda c, p=p: p(c, w) for p in parts], c)


def rows(rng, depth):
    step, n, reverse = nest(rng, depth - 1), int(rng.integers(0, 20)), bool(rng.integers(0, 2))
    xs = rng.normal(size=n) * 0.1

    def f(c, w):
        last, ys = tg.scan(lambda c, x: (step(c + x, w), c * x), c, xs, reverse=reverse)
        return last + np.sum(ys, axis=0) * 0.1

    return f


def numbered(rng, depth):
    step, n = nest(rng, depth - 1), int(rng.integers(0, 5))
    return lambda c, w: tg.fori_loop(0, n, lambda i, c: step(c * 0.9, w) + w[0] * i * 0.1, c)


KINDS = (sequence, loop_while, branch, three_branches, rows, numbered)


def nest(rng, depth):
    if not depth or rng.uniform() < 0.15:
        return LEAVES[rng.integers(len(LEAVES))]
    return KINDS[rng.integers(len(KINDS))](rng, depth)


@pytest.mark.parametrize("seed", seeds(6, quick=2))
def test_random_nests(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    size = (3, 18)[seed % 2]
    body = nest(rng, 3)
    start = rng.normal(size=size)
    monkeypatch.setattr(config, "check", True)
    if seed % 3 == 0:
        monkeypatch.setattr(config, "loop_memory", 200)  # checkpoints

    def f(w):
        return np.sum(body(start * w, w) ** 2)

    point = rng.uniform(0.3, 1.0, size=size)
    compiled = compile_grad(f)
    value, gradient = compiled.value_and_grad(point)
    np.testing.assert_allclose(value, f(point), rtol=1e-9)
    np.testing.assert_allclose(gradient, numerical_gradient(f, (point,)), rtol=1e-5, atol=1e-6)
    again = compiled.value_and_grad(point)  # verified
    np.testing.assert_array_equal(again[1], gradient)
    assert not compiled.stats.live
    direction = rng.normal(size=size)

    def slope(w):
        return np.sum(compiled.grad(w) * direction)

    expected = numerical_gradient(slope, (point,))
    np.testing.assert_allclose(compile_grad(slope).grad(point), expected, rtol=1e-4, atol=1e-5)
