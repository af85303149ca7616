"""Loops over ``itertools.pairwise`` of an array: one loop node, and rows that are views as in plain Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tracegrad import compile_grad

X = np.random.default_rng(3).uniform(0.2, 0.9, (40, 3))


def differences(x):
    s = 0.0
    for a, b in pairwise(x):
        s = s * 0.9 + np.sum((b - a) ** 2 * np.sin(a))
    return s


def of_computed_rows(x):
    s = np.zeros(3)
    for a, b in pairwise(np.sin(x) * 2.0):
        s = np.tanh(s + a * b)
    return np.sum(s * b)


def of_numbers(x):
    s = 1.0
    for a, b in pairwise(x[:, 1]):
        s = s * (a - b) + 0.3
    return s + a


def written_through(x):
    m = x * 1.0
    for a, b in pairwise(m):
        b += a * 0.1
    return np.sum(m**2)


def none(x):
    s = x[0, 0]
    for a, b in pairwise(x[:1]):
        s = s + np.sum(a * b)
    return s


@pytest.mark.parametrize("f", [differences, of_computed_rows, of_numbers, written_through, none])
def test_pairs_of_rows(f):
    compiled, move = compile_grad(f), np.random.default_rng(0).normal(size=X.shape)
    for _ in range(2):
        value, gradient = compiled.value_and_grad(X)
        np.testing.assert_allclose(value, f(X), rtol=1e-12)
    slope = (f(X + 1e-6 * move) - f(X - 1e-6 * move)) / 2e-6
    np.testing.assert_allclose(np.sum(gradient * move), slope, rtol=1e-6)


def test_recording_does_not_grow_with_the_rows():
    texts = [compile_grad(differences).explain(np.tile(X, (n, 1)), level="all") for n in (1, 50)]
    counts = [text.count("rolled: the loop") for text in texts]
    assert counts[0] == counts[1] > 0
