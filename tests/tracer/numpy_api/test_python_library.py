"""Python's own library on traced values: functions as values, ``statistics``, what calls methods unseen; and arrays of
functions whose Python runs in each call."""

from __future__ import annotations

import dataclasses
import functools
import heapq
import math
import statistics
import time
from collections import namedtuple
from fractions import Fraction
from functools import partial, reduce
from math import exp, sin
from typing import Any

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

X = np.array([0.7, -1.3, 0.4, 2.2])
CALLS = (X, np.array([-0.3, 0.9, 1.4, -2.0]), X, np.array([1.0, 2.0, 3.0, 4.0]))
PROGRAMS: dict[str, Any] = {}


def program(f: Any) -> Any:
    PROGRAMS[f.__name__.replace("_", " ").strip()] = f
    return f


def check(f: Any, live: str = "", **options: Any) -> Any:
    compiled = compile_grad(f, **options)
    for x in CALLS * 2:
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-9)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=1e-5, atol=1e-6)
    traces = compiled.stats.traces
    compiled.value_and_grad(X)
    assert live in compiled.stats.live if live else not compiled.stats.live and compiled.stats.traces == traces
    return compiled


def _integral(f, a, b, n=10):
    h = (b - a) / n
    return h * (0.5 * (f(a) + f(b)) + sum(f(a + i * h) for i in range(1, n)))


def _doubled(f):
    return lambda t: f(t) * 2


class _Net:
    act = math.tanh

    def __init__(self, f):
        self.f = f

    def __call__(self, x):
        return self.f(x[0]) * _Net.act(x[1]) + self.act(x[2])


ACTIVATIONS = {"tanh": math.tanh, "exp": exp, "relu": lambda v: v if v > 0 else 0.0}
NET, DOUBLED, ZEROS = _Net(math.cos), _doubled(math.atan), np.zeros


@program
def functions_as_values(x):
    f, table = math.sin, {"e": exp}
    return f(x[0]) + table["e"](x[1]) + sum(map(math.cos, x)) + sum(map(sin, x)) + reduce(math.hypot, x)


@program
def functions_in_the_state(x, f=math.sinh):
    u = ACTIVATIONS["tanh"](x[0]) * ACTIVATIONS["exp"](x[1]) + ACTIVATIONS["relu"](x[2])
    return u + NET(x) + DOUBLED(x[3]) + f(0.1 * x[0]) + partial(math.atan2, x[0])(x[1])


@program
def functions_as_arguments(x):
    return _integral(math.sin, 0.0, x[0]) + _integral(exp, x[1], 1.0)


@program
def functions_are_equal_to_themselves(x):
    f, derivatives = math.sin, {math.sin: math.cos, math.exp: math.exp}
    return f(x[0]) * derivatives[f](x[0]) * (2.0 if f == math.sin else 3.0)


@program
def arrays_by_other_names(x):
    make, array = np.zeros, np.array
    z, rest = make(3), ZEROS(2)
    z[0], rest[1] = x[0], x[1] * 2
    return np.sum(z**2) + np.sum(rest) + np.sum(array([x[1], 2.0]))


@program
def statistics_of_numbers(x):
    data, s = list(x), statistics
    line = s.linear_regression(data, [1.0, 2.0, 4.0, 3.0])
    u = s.mean(data) + s.fmean(x) ** 2 + s.fmean(data, [1.0, 2.0, 3.0, 4.0]) + s.variance(data, 0.5) + s.pstdev(x)
    u += (
        s.variance(data) * s.stdev(x) + s.pvariance(data) + s.covariance(data, data[::-1]) + line.slope * line.intercept
    )
    return u + s.correlation(data, [1.0, 2.0, 3.0, 5.0]) + s.geometric_mean(x * x)


@functools.singledispatch
def _weight(value):
    return value * 2


@_weight.register(list)
def _(value):
    return sum(value)


@_weight.register
def _(value: np.ndarray):
    return np.sum(value**2)


@functools.total_ordering
class _Item:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value

    def __lt__(self, other):
        return self.value < other.value


@program
def functions_by_class(x):
    return _weight(x) + _weight([x[0], x[1]]) + _weight(x[2])


@program
def objects_in_order(x):
    heap = [_Item(v) for v in x]
    heapq.heapify(heap)
    first = heapq.heappop(heap).value
    return first * 2 + max(heap).value * (1.0 if _Item(x[0]) >= _Item(x[1]) else 2.0)


@program
def fractions_and_assertions(x):
    y = np.sin(x)
    np.testing.assert_allclose(y**2 + np.cos(x) ** 2, np.ones(4))
    np.testing.assert_array_less(x, 9.0)
    np.testing.assert_almost_equal(actual=x[0] + 1 - 1, desired=x[0])
    np.testing.assert_equal(y, np.sin(x))
    return x[0] * Fraction(1, 3) + Fraction(1, 2) * x[1] - y.sum() / Fraction(3, 7)


@program
def classes_of_the_function_itself(x):
    @dataclasses.dataclass
    class Pair:
        a: float
        b: float = 2.0
        rest: list = dataclasses.field(default_factory=list)

        def __mul__(self, k):
            return Pair(self.a * k, dataclasses.replace(self, b=x[3]).b)

    point = namedtuple("point", "u v")(x[1], x[2])
    pair = Pair(x[0]) * point.u
    pair.rest.append(point.v)
    return pair.a * pair.b + pair.rest[0] ** 2


SLOW = {"statistics of numbers"}
LIVE = {"objects in order": "the class _Item", "classes of the function itself": "it has a class"}


@pytest.mark.parametrize(
    "f", [pytest.param(f, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, f in PROGRAMS.items()]
)
def test_programs(f):
    check(f, LIVE.get(f.__name__.replace("_", " "), ""))


def test_errors_of_statistics():
    def f(x):
        try:
            return statistics.stdev([x[0]])
        except statistics.StatisticsError as error:
            scale = 2 if "two data points" in str(error) else 0
        try:
            return scale * statistics.geometric_mean(list(x))
        except statistics.StatisticsError:
            return x[0] * scale

    compiled = compile_grad(f)
    assert [compiled(x) for x in CALLS] == pytest.approx([f(x) for x in CALLS], rel=1e-12)


def test_assertions_that_fail_are_numpys():
    f = compile_grad(lambda x: x.sum() + 0 * (np.testing.assert_allclose(x, 1.0, rtol=0.5) or 0))
    for x in (np.ones(3), np.array([1.0, 1.2, 0.1]), np.ones(3), np.array([9.0, 1.2, 1.0])):
        if x.max() > 1:
            with pytest.raises(AssertionError, match="Mismatched elements: 1 / 3"):
                f(x)
        else:
            assert f(x) == 3


def test_a_class_that_is_registered_later_counts():
    @functools.singledispatch
    def kind(value):
        return 1.0

    f = compile_grad(lambda t: kind(t) * t)
    assert [f(2.0) for _ in range(3)] == [2.0] * 3
    kind.register(float, lambda value: 3.0)
    assert [f(2.0) for _ in range(3)] == [6.0] * 3


def test_functions_that_are_kept_are_the_real_ones():
    class Model:
        def __init__(self):
            self.kept, self.count = [], 0

        def loss(self, x):
            f = math.tanh
            self.f, self.make, self.count = f, np.zeros, self.count + 1
            self.kept.append(f)
            z = self.make(2)
            z[0] = x[0]
            return f(x[0]) + sum(map(math.sin, x)) + z[0]

    model, plain = Model(), Model()
    compiled = compile_grad(model.loss)
    for x in CALLS * 2:
        assert compiled(x) == pytest.approx(plain.loss(x), rel=1e-12)
    assert model.f is math.tanh and model.make is np.zeros and model.kept == plain.kept and model.count == 8


def asks_for_identity(x):
    g = math.sin
    return g(x[0]) * (2.0 if g is math.sin else 3.0)


def test_a_function_that_is_asked_for_identity_is_itself():
    compiled = compile_grad(asks_for_identity)
    for x in CALLS:
        assert compiled(x) == pytest.approx(2.0 * math.sin(x[0]))
    assert compiled.stats.traces == 1


def test_arrays_where_python_runs_in_each_call():
    """Their runs can't be made again, so arrays that are written into are traced ones from the start."""

    def fill(x, out):
        out[0], out[1] = x[0], x[1] ** 2

    def f(x):
        time.perf_counter()
        path, rest, plain = np.zeros(5), np.empty(2), np.zeros(3)
        path[0] = x[0]
        for i in range(4):
            path[i + 1] = path[i] * np.exp(0.1 * x[i])
        fill(x, rest)
        plain[0], plain[2] = 1.0, 2.0
        for _ in range(int(plain[2])):
            plain[1] += 0.5
        return np.sum(path) + rest.sum() * np.linalg.matrix_rank(np.diag(plain)) * np.polynomial.hermite.hermval(
            0.5, plain
        )

    check(f, live="reads the clock")

    kept = []

    def g(x):
        kept.append((time.perf_counter(), np.arange(3)[1:], x[0]))
        return np.array([x[0], x[1]]).sum()

    compiled = compile_grad(g)
    for x in CALLS:
        compiled(x)
    assert all(type(array) is np.ndarray and type(value) is np.float64 for _, array, value in kept)
