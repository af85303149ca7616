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


GRID = np.linspace(0.0, 2.0, 6)
TABLE = np.sin(X)[:, None] * np.cos(GRID) + 0.3 * X[:, None] ** 2 * GRID
PAIRS = np.array([[0.13, 0.5], [0.56, 1.3], [0.87, 0.21]])
SITES = np.array([[0.1, 0.9], [0.4, 0.2], [0.8, 0.6], [0.3, 0.7], [0.95, 0.05], [0.6, 0.4]])
LINE = si.make_interp_spline(X, Y)
FITTED = si.UnivariateSpline(X, Y, s=0.01)
SURFACE = si.RectBivariateSpline(X, GRID, TABLE)
TCK = si.splrep(X, Y)
BARYCENTRIC = si.BarycentricInterpolator(X[:5], Y[:5])


def _on_grid(method: str) -> Any:
    made = si.RegularGridInterpolator((X, GRID), TABLE, method=method)
    return lambda at: made(at)


def _of_table(**options: Any) -> Any:
    return lambda z: si.RegularGridInterpolator((X, GRID), z, bounds_error=False, **options)(
        PAIRS + np.array([0.0, 0.8])
    )


def _radial(kernel: str) -> Any:
    return lambda d, at: si.RBFInterpolator(SITES, d, kernel=kernel, epsilon=1.3)(at)


def _case(name: str, call: Callable[..., Any], args: list[np.ndarray], label: str = "", **options: Any) -> Case:
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
    *[_case("interp1d", _of_values(si.interp1d, kind=k), [Y], k) for k in ("zero", "slinear", "quadratic", "cubic")],
    *[_case("make_interp_spline", _of_values(si.make_interp_spline, BEYOND, k=k), [Y], f"k={k}") for k in (0, 1, 2, 5)],
    _case("make_interp_spline", lambda y: si.make_interp_spline(X, y, bc_type="natural")(POINTS), [Y], "natural"),
    _case("make_interp_spline", lambda y: si.make_interp_spline(X, np.append(y, y[:1]), bc_type="periodic")(POINTS),
          [Y[:-1]], "periodic", order=1),
    _case("make_interp_spline", lambda x: si.make_interp_spline(x, Y)(POINTS), [X], "knots", order=1, step=1e-4),
    _case("make_lsq_spline", lambda y: si.make_lsq_spline(X, y, np.repeat([0, 0.5, 1], [4, 1, 4]))(POINTS), [Y]),
    _case("BSpline", lambda x: LINE(x) + LINE(x, 1) + LINE(x, 3), [BEYOND], "points"),
    _case("BSpline", lambda c: si.BSpline(LINE.t, c, 3, extrapolate=False)(POINTS), [PAIR.T], "columns"),
    _case("BSpline.derivative", lambda c: si.BSpline(LINE.t, c, 3).derivative(2)(POINTS), [LINE.c]),
    _case("BSpline.antiderivative", lambda c: si.BSpline(LINE.t, c, 3).antiderivative()(POINTS), [LINE.c]),
    _case("BSpline.integrate", lambda c, b: si.BSpline(LINE.t, c, 3).integrate(0.1, b), [LINE.c, np.array(0.83)]),
    _case("splev", lambda x: si.splev(x, TCK) + si.splev(x, TCK, der=2), [BEYOND]),
    *[_case("splev", lambda x, e=e: si.splev(x, TCK, ext=e), [BEYOND], f"ext {e}") for e in (1, 3)],
    _case("splrep", lambda y: si.splev(POINTS, si.splrep(X, y)), [Y]),
    _case("splder", lambda y: si.splev(POINTS, si.splder(si.splrep(X, y))), [Y]),
    _case("splantider", lambda y: si.splev(POINTS, si.splantider(si.splrep(X, y))), [Y]),
    _case("splint", lambda b: si.splint(0.1, b, TCK), [np.array(0.74)]),
    _case("UnivariateSpline", lambda x: FITTED(x) + FITTED.derivative()(x), [BEYOND]),
    _case("UnivariateSpline", lambda b: FITTED.integral(0.1, b), [np.array(0.74)], "integral"),
    _case("InterpolatedUnivariateSpline", _of_values(si.InterpolatedUnivariateSpline), [Y]),
    _case("LSQUnivariateSpline", lambda y: si.LSQUnivariateSpline(X, y, [0.5])(POINTS), [Y]),
    _case("RectBivariateSpline", lambda p: SURFACE.ev(p[:, 0], p[:, 1]) + SURFACE.ev(p[:, 0], p[:, 1], dx=1), [PAIRS]),
    _case("RectBivariateSpline", lambda p: SURFACE(p[0, 0], p[0, 1]), [PAIRS], label="a point"),
    _case("RectBivariateSpline", lambda z, x: si.RectBivariateSpline(X, GRID, z)(x, POINTS[1:3]),
          [TABLE, POINTS], "grid", order=1),
    *[_case("RegularGridInterpolator", _on_grid(m), [PAIRS], m) for m in ("linear", "nearest", "slinear")],
    *[_case("RegularGridInterpolator", _on_grid(m), [PAIRS], m, order=1) for m in ("cubic", "pchip")],
    _case("RegularGridInterpolator", _of_table(fill_value=None), [TABLE], "values"),
    _case("RegularGridInterpolator", _of_table(fill_value=7.0), [TABLE], "fill"),
    _case("interpn", lambda z, at: si.interpn((X, GRID), z, at), [TABLE, PAIRS]),
    *[_case("RBFInterpolator", _radial(k), [SITES[:, 0] ** 2, PAIRS / 2], k)
      for k in ("thin_plate_spline", "cubic", "gaussian", "multiquadric")],
    _case("KroghInterpolator", lambda y, x: si.KroghInterpolator(X[:4], y)(x), [Y[:4], POINTS]),
    _case("BarycentricInterpolator", BARYCENTRIC.__call__, [POINTS]),
]  # fmt: skip
