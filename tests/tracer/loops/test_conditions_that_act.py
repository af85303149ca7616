"""Conditions of ``while`` that do more than to compute: what they do after the last iteration is done, too."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

POINTS = [np.array([1.37, 2.0]), np.array([3.1, 0.5]), np.array([51.7, 1.0])]


def binds_what_is_carried(x):
    y, n = 0.5 * x[0] + 100.0, 0
    while (y := y * 0.5) > 1:
        n += 1
    return y + n


def binds_another_name(x):
    y, n = x[0] + 100.0, 0
    while (z := y * 0.5) > 1:
        y = z * 0.9
        n += 1
    return y + n + z * x[1]


def binds_on_one_way(x):
    y, z = x[0] + 100.0, 0.0
    while y > 50 or (z := y * 0.5) > 1:
        y = y * 0.8
    return y + z * x[1]


def counts_in_a_dict(x):
    seen, y = {"n": 0}, x[0] + 100.0

    def far():
        seen["n"] += 1
        return y

    while far() > 1:
        y = y * 0.6
    return y * seen["n"]


def counts_in_a_variable(x):
    n, y = 0, x[0] + 100.0

    def far():
        nonlocal n
        n += 1
        return y

    while far() > 1:
        y = y * 0.6
    return y * n


def adds_in_an_array(x):
    total, y = np.zeros(3), x[0] + 100.0

    def far():
        total[0] += y
        return y

    while far() > 1:
        y = y * 0.6
    return y + np.sum(total)


def appends(x):
    seen, y = [], x[0] + 100.0
    while not seen.append(y) and y > 1:
        y = y * 0.6
    return sum(seen) * len(seen)


def nests(x):
    total, y = 0.0, x[0] + 9.0
    while (y := y - 1.0) > 0:
        z = y
        while (z := z * 0.5) > 0.1:
            total = total + z * x[1]
        total = total + z
    return total + y


@pytest.mark.parametrize(
    "program",
    [
        binds_what_is_carried, binds_another_name, binds_on_one_way, counts_in_a_dict, counts_in_a_variable,
        adds_in_an_array, appends, nests,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_what_the_last_condition_does_is_done(program):
    f = compile_grad(program)
    for x in POINTS * 2:
        value, gradient = f.value_and_grad(x)
        assert value == pytest.approx(program(x), rel=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(program, (x,)), rtol=1e-5, atol=1e-6)
    assert f.stats.live == "" and f.stats.traces <= 3
