"""The functions of ``math`` on traced numbers: values, gradients, and Python's exceptions."""

from __future__ import annotations

import math
from math import hypot, sin, sqrt
from typing import Any

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

FUNCTIONS: dict[str, Any] = {
    "exp": lambda t: math.exp(t) + math.exp2(t) + math.expm1(t),
    "logarithms": lambda t: math.log(t) + math.log(t, 3) + math.log2(t) + math.log10(t) + math.log1p(t),
    "roots": lambda t: math.sqrt(t) + math.cbrt(t),
    "imported": lambda t: sin(t) * sqrt(t) + hypot(t, 2.0),
    "trigonometry": lambda t: math.cos(t) + math.tan(t) + math.asin(t / 9) + math.acos(t / 9) + math.atan(t),
    "hyperbolic": lambda t: (
        math.sinh(t) + math.cosh(t) + math.tanh(t) + math.asinh(t) + math.acosh(t + 1) + math.atanh(t / 9)
    ),
    "of two": lambda t: math.atan2(t, 1.0 - t) + math.pow(t, 2.5) + math.copysign(t, -1.0) + math.hypot(t, 2.0, t * t),
    "remainders": lambda t: math.fmod(5.0, t) + math.remainder(t, 0.3) + math.modf(t)[0],
    "special": lambda t: math.gamma(t) + math.lgamma(t + 1) + math.erf(t) - math.erfc(t),
    "of many": lambda t: math.fsum([t, t * t, 1.0]) + math.dist((t, 1.0), (0.0, t)) + math.prod([t, 2.0, t]),
    "others": lambda t: math.fabs(-t) + math.degrees(t) + math.radians(t) + math.ldexp(t, 3),
    "a loop": lambda t: sum(math.sqrt(t + k) for k in range(50)),
    "builtins": lambda t: max(t, 0.5) * abs(t) + round(t) * t + divmod(t, 0.3)[1] * t + pow(t, 3),
    "of an array's element": lambda t: math.sin((np.array([t, 1.0]) * 2)[0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name: str) -> None:
    f = FUNCTIONS[name]
    compiled = compile_grad(f)
    for x in (0.71, 0.71, 0.83, 1.37):
        value, slope = compiled.value_and_grad(x)
        assert value == pytest.approx(f(x), rel=1e-13)
        assert slope == pytest.approx(float(numerical_gradient(f, (x,))), rel=1e-6, abs=1e-8)
    assert compiled.stats.live == ""


RAISING: dict[str, tuple[Any, tuple[float, ...]]] = {
    "sqrt": (lambda t: math.sqrt(t), (1.0, 2.0, -1.0, 3.0, math.nan, math.inf, -2.0)),
    "exp": (lambda t: math.exp(t), (1.0, 2.0, 1000.0, 3.0, math.inf, -math.inf)),
    "log": (lambda t: math.log(t), (1.0, 2.0, 0.0, 3.0, -1.0, math.inf, math.nan)),
    "sin": (lambda t: math.sin(t), (1.0, 2.0, math.inf, 3.0)),
    "pow": (lambda t: math.pow(t, 0.5), (1.0, 2.0, -1.0, 3.0)),
    "gamma": (lambda t: math.gamma(t), (1.0, 2.0, 0.0, -1.0, 200.0)),
    "acos": (lambda t: math.acos(t), (0.1, 0.2, 1.5, 0.3)),
}


@pytest.mark.parametrize("name", RAISING)
def test_it_raises_where_math_does(name: str) -> None:
    plain, inputs = RAISING[name]
    compiled = compile_grad(plain)
    for x in inputs:
        try:
            expected = plain(x)
        except (ValueError, OverflowError) as error:
            with pytest.raises(type(error)) as raised:
                compiled(x)
            assert str(raised.value) == str(error)
        else:
            np.testing.assert_allclose(compiled(x), expected, rtol=1e-13)


def test_it_is_caught_as_in_python() -> None:
    def f(t: float) -> Any:
        try:
            return math.log(t)
        except ValueError:
            return t * 3.0

    compiled = compile_grad(f)
    for x in (0.5, 0.5, -1.0, -1.0, 2.0, -3.0):
        assert compiled.value_and_grad(x) == pytest.approx((f(x), 1 / x if x > 0 else 3.0))
