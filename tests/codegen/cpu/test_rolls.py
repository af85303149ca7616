"""Rolls, shifts and joins: loops split where their conditions change, of any length."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient
from selection import some

from tracegrad import compile_grad


def waves(x):
    return np.sum((np.roll(x, 1) - 2.0 * x + np.roll(x, -1)) ** 2 * x)


def twice(x):
    y = np.sin(np.roll(x, 2) * x)
    return np.sum(np.roll(y, -1) * np.roll(y * x, 3))


def joined(x):
    return np.sum(np.concatenate([x[:1], x[1:-1] ** 2, x[-1:] * x[0], [2.0]])[::-1] * np.append(x, x[0]))


def both_axes(x):
    u = np.outer(x, x[:3])
    return np.sum((np.roll(u, 1, 0) + np.roll(u, -1, 0) * np.roll(u, 1, 1) - np.roll(u, (1, -1), (0, 1))) ** 2)


@pytest.mark.parametrize("f", some([waves, twice, joined, both_axes], quick=1))
def test_lengths(f):
    compiled = compile_grad(f)
    for n in (3, 4, 5, 6, 17, 40):
        x = np.random.default_rng(n).normal(size=n)
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=1e-5, atol=1e-6)


def test_numbers_of_formulas_are_one_number():
    def f(x, rate):
        return np.sum(np.exp(1 - x) * (1 - x)) + np.sum(rate * x) * np.sum(0.7 * x)

    text = str(compile_grad(f).explain(np.arange(5.0), 0.7, level="all"))
    program = text[text.index("--- inputs") : text.index("--- loops")]
    assert program.count("= sub 1.0") == 1
    assert program.count("reduce_sum") == 3  # a rate that is 0.7 now is no formula's number
