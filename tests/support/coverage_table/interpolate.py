"""scipy.interpolate: of points, of values and of knots; objects made in the function and outside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.interpolate as si

from .case import Case

X = np.array([0.0, 0.15, 0.3, 0.52, 0.7, 0.81, 1.0])
Y = np.sin(3 * X) + 0.2 * X
POINTS = np.array([0.03, 0.2, 0.44, 0.76, 0.93])
BEYOND = np.array([-0.3, 0.2, 0.76, 1.4])
PAIR = np.stack([Y, Y**2 - X])
SPLINE = si.CubicSpline(X, Y)
WAVE = si.PPoly(np.ones((3, 6)), X, "periodic")


def _closed(y: np.ndarray) -> si.CubicSpline:
    return si.CubicSpline(X, np.append(y, y[:1]), bc_type="periodic")


def _filled(y: np.ndarray) -> si.interp1d:
    return si.interp1d(X, y, bounds_error=False, fill_value=(y[0], 2.0))


def _of_values(cls: Any, at: np.ndarray = POINTS, **options: Any) -> Callable[..., Any]:
    return lambda y: cls(X, y, **options)(at)


def _of_points(cls: Any, y: np.ndarray = Y, **options: Any) -> Callable[..., Any]:
    made = cls(X, y, **options)
    return lambda at: made(at)


def _case(name: str, call: Callable[..., Any], args: list[np.ndarray], label: str, **options: Any) -> Case:
    return Case(f"scipy.interpolate.{name}", call, args, label=label, **options)


_ENDS = {"natural": "natural", "clamped": "clamped", "slopes": ((1, 0.3), (2, -0.1))}
CASES = [
    _case("CubicSpline", _of_points(si.CubicSpline), [BEYOND], "points"),
    _case("CubicSpline", _of_points(si.CubicSpline, extrapolate=False), [POINTS], "inside"),
    _case("CubicSpline", _of_points(si.CubicSpline, PAIR.T), [POINTS], "columns"),
    _case("CubicSpline", _of_values(si.CubicSpline, BEYOND), [Y], "values"),
    *[
        _case("CubicSpline", _of_values(si.CubicSpline, BEYOND, bc_type=ends), [Y], label)
        for label, ends in _ENDS.items()
    ],
    _case("CubicSpline", _of_values(si.CubicSpline, axis=1), [PAIR], "axis"),
    _case("CubicSpline", lambda x: si.CubicSpline(x, Y)(POINTS), [X], "knots", step=1e-4),
    _case(
        "CubicSpline",
        lambda y: si.CubicSpline(X, np.append(y, y[:1]), bc_type="periodic")(BEYOND),
        [Y[:-1]],
        "periodic",
    ),
    _case("CubicSpline", lambda y: si.CubicSpline(X[:3], y)(POINTS), [Y[:3]], "three"),
    _case("CubicSpline.derivative", lambda y: si.CubicSpline(X, y).derivative()(POINTS), [Y], ""),
    _case("CubicSpline.derivative", lambda x: SPLINE(x, 1) + SPLINE(x, 2), [POINTS], "order"),
    _case("CubicSpline.antiderivative", lambda y: si.CubicSpline(X, y).antiderivative(2)(POINTS), [Y], ""),
    _case("CubicSpline.integrate", lambda y, b: si.CubicSpline(X, y).integrate(0.1, b), [Y, np.array(0.9)], ""),
    _case("PchipInterpolator", _of_values(si.PchipInterpolator), [Y], "values"),
    _case("PchipInterpolator", _of_points(si.PchipInterpolator), [BEYOND], "points"),
    _case("Akima1DInterpolator", _of_values(si.Akima1DInterpolator), [Y], "values"),
    _case("Akima1DInterpolator", _of_values(si.Akima1DInterpolator, method="makima"), [Y], "makima"),
    _case("CubicHermiteSpline", lambda y, d: si.CubicHermiteSpline(X, y, d)(BEYOND), [Y, np.cos(X)], ""),
    _case("PPoly", lambda c, x: si.PPoly(c, X)(x), [np.arange(18.0).reshape(3, 6) / 9, BEYOND], ""),
    _case(
        "PPoly.integrate",
        lambda a: WAVE.integrate(a, 2.6),
        [np.array(0.4)],
        "",
    ),
    _case("interp1d", _of_points(si.interp1d), [POINTS], "points"),
    _case("interp1d", _of_values(si.interp1d), [Y], "values"),
    _case("interp1d", lambda x, y: si.interp1d(x, y)(POINTS), [X, PAIR], "rows"),
    _case("interp1d", _of_values(si.interp1d, BEYOND, fill_value="extrapolate"), [Y], "extrapolate"),
    _case(
        "interp1d", lambda x, y: si.interp1d(X, y, bounds_error=False, fill_value=(y[0], 2.0))(x), [BEYOND, Y], "fill"
    ),
    *[
        _case("interp1d", _of_values(si.interp1d, kind=kind), [Y], kind)
        for kind in ("nearest", "nearest-up", "previous", "next")
    ],
]
