"""scipy.interpolate in compiled functions; its functions one by one are in the table of test domains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.interpolate as si
from agreement import numerical_gradient

from tracegrad import UnsupportedError, compile_grad

X = np.linspace(0.0, 2.0, 9)


def test_objects_from_outside_are_read_anew_in_each_call() -> None:
    spline, line = si.CubicSpline(X, np.sin(X)), si.interp1d(X, np.cos(X))

    @compile_grad
    def f(y: Any, rate: Any) -> Any:
        for _ in range(60):  # a search of its own in each turn, in the kernel
            y = y + 0.01 * rate * (spline(y) + line(y) / 2)
        return y

    def check(*args: float) -> None:
        value, grad = f.value_and_grad(*args)
        assert value == pytest.approx(f.__wrapped__(*args), rel=1e-12)
        assert grad == pytest.approx(float(numerical_gradient(f.__wrapped__, args)), rel=1e-6)

    for start in (0.3, 0.9, 0.4):
        check(start, 0.7)
    spline.c[-1] += 0.5
    line._y[:] *= 2
    check(0.4, 0.7)
    assert "arrays, read again in each call" in f.explain(0.4, 0.7, level="all")
    with pytest.raises(
        ValueError, match=r"\(2\.\d+\) in x_new is above the interpolation range's maximum value \(2.0\)"
    ):
        f.value_and_grad(2.1, 0.7)


@pytest.mark.slow
def test_tables_of_two_variables_in_a_loop() -> None:
    Z = np.outer(np.sin(X), np.cos(X))
    table = si.RegularGridInterpolator((X, X), Z)
    surface = si.RectBivariateSpline(X, X, Z)

    @compile_grad
    def f(p: Any) -> Any:
        a, b = p
        for _ in range(20):
            a, b = a + 0.01 * table((a, b)), b + 0.01 * surface.ev(b, a)
        return a * b

    for p in (np.array([0.3, 0.9]), np.array([0.7, 0.2])):
        value, grad = f.value_and_grad(p)
        assert value == pytest.approx(f.__wrapped__(p), rel=1e-12)
        np.testing.assert_allclose(grad, numerical_gradient(f.__wrapped__, (p,)), rtol=1e-6)
    with pytest.raises(ValueError, match="One of the requested xi is out of bounds in dimension 1"):
        f.value_and_grad(np.array([0.3, 2.1]))


def test_knots_that_fitpack_chooses_are_of_data() -> None:
    y = np.sin(X) + 0.1 * np.cos(9 * X)
    f = compile_grad(lambda t: np.sum(si.UnivariateSpline(X, y, s=0.05)(t)))
    at = np.array([0.3, 0.9])
    assert f.value_and_grad(at)[0] == pytest.approx(f.__wrapped__(at))
    with pytest.raises(UnsupportedError, match=r"FITPACK chooses the knots.*make_lsq_spline"):
        compile_grad(lambda y: np.sum(si.UnivariateSpline(X, y, s=0.05)(at))).value_and_grad(y)
