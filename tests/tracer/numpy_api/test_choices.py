"""``min`` and ``max`` of traced numbers: choices, and questions where it shows which one was chosen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad


def _of_numbers(x: Any) -> Any:
    return max(x[0], x[1], x[2] * x[0]) * min(x[3], x[0]) + max(2.0 * x[1] - x[1], x[2])


def _of_floats(x: Any) -> Any:
    a, b, c, d = x.tolist()
    return max(a, b, 0.3) * c + min(d, b * b)


def _of_sequences(x: Any) -> Any:
    return max([v * v for v in x]) + min(v * 3 for v in x) + max(x) * min(list(x), default=0.0)


def _by_keys(x: Any) -> Any:
    return max(x, key=lambda v: -v * v) + min(x * 2, key=abs) + min(list(x), key=lambda v: v - 1.0, default=None)


def _table(a: Any) -> Any:
    b = np.array([0.1, 0.5, 0.9])
    cost = np.full((len(a) + 1, len(b) + 1), 1e9)
    cost[0, 0] = 0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost[i, j] = (a[i - 1] - b[j - 1]) ** 2 + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return cost[-1, -1]


@pytest.mark.parametrize("f", [_of_numbers, _of_floats, _of_sequences, _by_keys, _table])
def test_one_program_for_all_orders(f: Any) -> None:
    compiled = compile_grad(f)
    for seed in range(6):
        x = np.random.default_rng(seed).normal(size=4)
        value, slope = compiled.value_and_grad(x)
        assert value == pytest.approx(f(x), rel=1e-13)
        assert slope == pytest.approx(numerical_gradient(f, (x,)), rel=1e-5, abs=1e-7)
    assert compiled.stats.compiles == 1


def test_zeros_and_nan_are_those_of_python() -> None:
    """The first of those that nothing beats, whose sign and gradient it has."""

    def f(x: Any) -> Any:
        return max(x[0], x[1]), min(x[0], x[1]), max(x[1], x[0], x[1])

    compiled = compile_grad(f)
    for pair in ((0.0, -0.0), (-0.0, 0.0), (math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan), (1.0, math.inf)):
        x = np.array(pair)
        for ours, plain in zip(compiled(x), f(x), strict=True):
            assert np.float64(ours).tobytes() == plain.tobytes(), pair
    tie = compile_grad(lambda x: max(x[0], x[1]) + 3.0 * min(x[1], x[0]))
    assert tie.grad(np.array([2.0, 2.0])).tolist() == [1.0, 3.0]
    assert compiled.stats.compiles == 1


QUESTIONS = {
    "which object": lambda x: x[0] * 2.0 if max(a := x[0] * 1.0, b := x[1] * 1.0) is a else b,
    "which class": lambda x: 0.5 * x[1] if type(max(0.5, x[0])) is float else 2.0 * x[1],
    "which position": lambda x: x[max(range(2), key=lambda k: x[k])] * 3.0,
    "which pair": lambda x: min((x[0], 2.0), (x[1], 3.0))[1] * x[0],
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_shows_is_a_question(name: str) -> None:
    f = QUESTIONS[name]
    compiled = compile_grad(f)
    for pair in ((0.1, 0.7), (0.9, 0.2), (0.3, 0.4), (0.8, 0.1)):
        x = np.array(pair)
        value, slope = compiled.value_and_grad(x)
        assert value == f(x)
        assert slope == pytest.approx(numerical_gradient(f, (x,)), abs=1e-7)
    assert compiled.stats.guard_misses >= 1 or "`is` of" in compiled.stats.live


def test_plain_values_and_errors() -> None:
    def f(x: Any, n: int) -> Any:
        return x[0] * max(n, 3) * max([1, 5, 2]) * min("ba", key=ord, default="c").count("a") + max((), default=x[1])

    x = np.array([1.5, 2.0])
    assert compile_grad(f)(x, 2) == f(x, 2)
    with pytest.raises(ValueError, match="empty"):
        compile_grad(lambda x: max([v for v in x if False]))(x)
    with pytest.raises(TypeError):
        compile_grad(lambda x: max(x[0], 1.0, wrong=2))(x)  # type: ignore[call-overload]
