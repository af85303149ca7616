"""What a loop computes of outside data alone is another value in each iteration, and no input of the program."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad

DATA = np.linspace(0.1, 1.0, 20)
X = np.array([0.7, 0.3, 0.2])


def solved(x):
    q, kept = np.array([0.1, 0.2, 0.3]), [1.0]
    for e in DATA:
        q = np.linalg.solve(np.eye(3) + np.outer(q, q) * 0.1, q)
        kept[0] = kept[0] * x[1]
        q[0] = e
    return np.sum(q) * x[0] + kept[0]


def inverted(x):
    q, kept = np.array([0.1, 0.2, 0.3]), [x]
    for e in DATA:
        q = np.linalg.inv(np.eye(3) + np.outer(q, q) * 0.1) @ q
        kept[0] = kept[0] * 0.5
        np.put(q, [0, 2], e)
    return np.sum(q) * x[0] + np.sum(kept[0])


def swapped(x):
    q = np.array([0.1, 0.2, 0.3])
    kept = [q * 1.0]
    for e in DATA:
        q = np.linalg.inv(np.eye(3) + np.outer(q, q) * 0.1) @ q
        kept[0], kept[-1] = kept[-1], kept[0]
        q += e * 0.1
    return np.sum(q) * x[0] + np.sum(kept[0])


@pytest.mark.parametrize("f", [solved, inverted, swapped])
def test_values_are_those_of_each_iteration(f):
    compiled = compile_grad(f)
    for _ in range(2):
        value, gradient = compiled.value_and_grad(X)
        assert value == pytest.approx(f(X), rel=1e-12)
        slopes = [(f(X + d) - f(X - d)) / 2e-6 for d in 1e-6 * np.eye(3)]
        assert gradient == pytest.approx(slopes, abs=1e-7)
