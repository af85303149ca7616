"""Integers that functions of ``math`` ask of a traced number: questions of a closed run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tracegrad import compile_grad


@pytest.mark.parametrize("rounding", [math.floor, math.ceil, math.trunc])
@pytest.mark.parametrize("of", [lambda t: t, lambda t: t * 1.0 + 0.25, lambda t: np.float64(2.0) * t])
def test_an_integer_is_a_question(rounding, of):
    def f(x):
        return rounding(of(x[0])) * np.sum(x) + rounding(float(x[1])) * x[0]

    g = compile_grad(f)
    points = [np.array(p) for p in ([1.6, -1.5], [1.61, -1.55], [-2.4, 3.3], [1.6, -1.5], [0.2, 0.4])]
    for x in points:
        value, gradient = g.value_and_grad(x)
        n, m = rounding(of(x[0])), rounding(x[1])
        np.testing.assert_allclose(value, f(x))
        np.testing.assert_allclose(gradient, [n + m, n])
    assert g.stats.traces == 3 and not g._dispatcher.logged.refused
    with pytest.raises(ValueError, match="NaN"):
        g(np.array([np.nan, 1.0]))
