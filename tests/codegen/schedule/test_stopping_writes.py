"""Loops that stop by what they have written: the step at which one stops has written nothing."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

X = np.array([0.5, 1.0, 1.5])


def questions(x):
    t, m = x[0] * 0.5, np.linspace(0, 1, 24) + x[0]
    for j in range(20):
        if t > 0.2:
            m[19 - j] -= t
        t = t * 0.9 + 0.05 * m[j % 3] * 0.1
        if t > 0.95:
            break
    return np.sum(m * np.arange(24)) + t


def left_by_a_write(x):
    m = np.zeros(30) + x[0]
    for j in range(29):
        m[j + 1] = m[j] * 1.3 + x[1] * 0.1
        if m[j + 1] > 4.0:
            break
        m[j] = 0.0
    return np.sum(m * np.arange(30))


def while_it_is_small(x):
    m, j = np.zeros(30) + x[0], 0
    while m[j] < 4.0 and j < 29:
        m[j + 1] = m[j] * 1.3 + x[1] * 0.1
        j += 1
    return np.sum(m * np.arange(30)) + j


def by_a_sum(x):
    m, s = np.ones(40) * x[2], 0.0
    for j in range(40):
        m[j] = m[j - 1] * 0.9 + 0.2 * x[0]
        s = np.sum(m[::2] ** 2)
        if s < 20.0:
            break
    return s + m @ np.arange(40)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("plain", [questions, left_by_a_write, while_it_is_small, by_a_sum])
def test_the_step_that_stops_has_written_nothing(plain):
    f = compile_grad(plain)
    for x in (X, X * 1.1, X * 0.7, X + 0.5, X):
        value, gradient = f.value_and_grad(x)
        assert value == pytest.approx(plain(x), rel=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=1e-5, atol=1e-6)
