"""Methods of numbers and arrays that are called through their classes do what they do in plain Python."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest

from tracegrad import compile_grad

X = np.array([0.7, 1.3, 0.4])


def written(x):
    y, z = x * 2.0, np.zeros(3)
    np.ndarray.__setitem__(y, 0, x[1])
    np.ndarray.fill(z, x[2])
    np.ndarray.sort(y)
    return y[2] * 3.0 + y[0] + z.sum()


def in_a_loop(x):
    t = x[0]
    for _ in range(20):
        t = np.float64.__add__(t, 0.1) * 0.9
    return t


CASES = {
    "a sum": lambda x: np.ndarray.sum(x) * x[0],
    "an operator of arrays": lambda x: np.ndarray.__matmul__(x, x * 2.0),
    "an operator of a scalar": lambda x: np.float64.__add__(x[0], 1.0) * np.float64.__radd__(x[1], 2.0),
    "a base class": lambda x: np.generic.__mul__(x[0], x[1]),
    "of Python's float": lambda x: float.__abs__(x[0]) + float.__mul__(float(x[1]), 2.0) * x[2],
    "what type gives": lambda x: type(x).mean(x) * type(x[0]).__abs__(x[1]),
    "arguments": lambda x: np.ndarray.reshape(x, 3, 1)[1, 0] + np.ndarray.__getitem__(x, 2),
    "map of numbers": lambda x: sum(map(float.__abs__, [1.0, x[0]])) * x[1],
    "map of arrays": lambda x: sum(map(np.ndarray.sum, [x, x * x])),
    "keys": lambda x: max([x, x * 2.0], key=np.ndarray.sum)[0] + sorted(x, key=float.__neg__)[0],
    "reduce": lambda x: functools.reduce(np.ndarray.dot, [x, x]) * x[1],
    "writes": written,
    "in a loop": in_a_loop,
}


@pytest.mark.parametrize("live", [False, True], ids=["logged", "live"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_slopes_are_pythons(name, live):
    case, move = CASES[name], np.array([0.3, -0.5, 0.2])

    def f(x):
        return case(x) + (0.0 * time.perf_counter() if live else 0.0)

    compiled = compile_grad(f)
    for x in (X, X * 1.01):
        value, gradient = compiled.value_and_grad(x.copy())
        assert value == pytest.approx(f(x), rel=1e-12)
        assert gradient @ move == pytest.approx((f(x + 1e-6 * move) - f(x - 1e-6 * move)) / 2e-6, rel=1e-6)
    assert bool(compiled.stats.live) is live


@pytest.mark.parametrize("case", [lambda x: float.__abs__(x), lambda x: np.float64.__add__(float(x[0]), 1.0)])
def test_a_value_of_another_class_is_pythons_error(case):
    with pytest.raises(TypeError) as plain:
        case(X)
    with pytest.raises(TypeError) as found:
        compile_grad(lambda x: case(x) * 1.0)(X)
    assert str(found.value) == str(plain.value)
