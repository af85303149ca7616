"""Draws of generators that the run has made of a seed: each iteration of a loop has its own."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tracegrad import compile_grad

X = np.array([1.0, 0.2])
DRAWS = {
    "normal": lambda rng, x: rng.normal() * x[0],
    "normal of traced ones": lambda rng, x: rng.normal(x[0], 1.0 + x[1] ** 2),
    "uniform": lambda rng, x: rng.uniform(0.0, 2.0) * x[0],
    "exponential": lambda rng, x: rng.exponential() * x[1],
    "permutation": lambda rng, x: x[rng.permutation(2)[0]],
    "choice": lambda rng, x: x[rng.choice(2)],
    "several": lambda rng, x: np.sum(rng.multivariate_normal(np.zeros(2), np.eye(2)) * x),
}


@pytest.mark.parametrize("made", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_each_iteration_has_its_own(draw, made):
    def f(x):
        rng, s = made(42), 0.0
        for _ in range(40):
            s = s * 0.9 + draw(rng, x)
        return s

    g = compile_grad(f)
    for _ in range(3):
        value, gradient = g.value_and_grad(X)
        assert value == pytest.approx(f(X), rel=1e-12)
    assert not g.stats.live
    slopes = [(f(X + e) - f(X - e)) / 2e-6 for e in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["randn", "rand", "random_sample", "standard_normal"])
def test_methods_in_c(name):
    def f(x):
        rng, s = np.random.RandomState(1), 0.0
        for _ in range(40):
            s = s * 0.9 + x[0] * getattr(rng, name)()
        return s

    g = compile_grad(f)
    assert g(X) == pytest.approx(f(X), rel=1e-12)
    assert not g.stats.live


def test_children_of_a_seed():
    def f(x):
        seeds, s = np.random.SeedSequence(4), 0.0
        for _ in range(20):
            (child,) = seeds.spawn(1)
            s = s * 0.9 + x[0] * np.random.default_rng(child).normal()
        return s

    assert compile_grad(f)(X) == pytest.approx(f(X), rel=1e-12)


def test_draws_in_a_nest():
    def f(x):
        rng, total = np.random.default_rng(1), 0.0
        for _ in range(6):
            price = x[0]
            for _ in range(20):
                price = price * np.exp(0.1 * x[1] * rng.normal())
            total = total + np.maximum(price - 1.0, 0.0)
        return total

    g = compile_grad(f)
    assert g(X) == pytest.approx(f(X), rel=1e-12)
    assert not g.stats.live


def test_draws_in_one_arm():
    def f(x):
        rng, s = np.random.default_rng(1), 0.0
        for k in range(20):
            if x[0] * k > 3.0:
                s = s + rng.normal() * x[0]
            s = s + rng.uniform() * x[1]
        return s

    g = compile_grad(f)
    for x in (X, X * 0.5, -X):
        assert g(x) == pytest.approx(f(x), rel=1e-12)


def test_draws_of_python_and_a_seed_set_anew():
    def f(x):
        rng, mt, s = random.Random(3), np.random.RandomState(1), 0.0
        for _ in range(20):
            s = s * 0.9 + x[0] * rng.gauss(0.0, 1.0)
            mt.seed(3)
            s = s + x[1] * mt.normal() + mt.uniform()
        return s + mt.normal()

    g = compile_grad(f)
    assert g(X) == pytest.approx(f(X), rel=1e-12)
    assert not g.stats.live
