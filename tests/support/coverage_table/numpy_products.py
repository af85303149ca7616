"""NumPy's products, polynomials, differences and signals."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial
from numpy.polynomial import polynomial as poly

from .case import Case

V = np.array([0.3, -1.2, 2.1, 0.7])
M = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4]])
T = np.arange(12.0).reshape(2, 3, 2) / 5 - 0.9
ROW = np.array([0.9, 2.4, -1.7])
X = np.array(0.6)
GRID = np.array([0.0, 0.4, 1.5, 1.9])  # uneven

_CLASSES = (Polynomial, Chebyshev, Legendre, Hermite, HermiteE, Laguerre)

CASES = [
    Case("numpy.dot", np.dot, [M, ROW]),
    Case("numpy.dot", np.dot, [T, M], label="more-axes"),
    Case("numpy.dot", lambda x, y: np.dot(x, y), [M, X], label="number"),
    Case("numpy.vdot", np.vdot, [M, M + 1]),
    Case("numpy.vdot", lambda x: np.vdot(x + 1j, x**2 - 2j * x), [V], label="complex"),
    Case("numpy.inner", np.inner, [M, ROW]),
    Case("numpy.inner", np.inner, [M, M + 1], label="matrices"),
    Case("numpy.outer", np.outer, [M, V]),
    Case("numpy.kron", np.kron, [M, ROW]),
    Case("numpy.cross", np.cross, [M, ROW]),
    Case("numpy.cross", lambda x, y: np.cross(x, y, axisa=0, axisb=0), [M.T, M.T + 1], label="axes"),
    Case("numpy.tensordot", lambda x, y: np.tensordot(x, y, axes=([1, 0], [1, 0])), [T, M]),
    Case("numpy.tensordot", lambda x, y: np.tensordot(x, y, 1), [T, M], label="number"),
    Case("numpy.einsum", lambda x, y: np.einsum("ijk,li->jl", x, y), [T, M.T]),
    Case("numpy.einsum", lambda x: np.einsum("ij,kj->ik", x, x, optimize=True), [M], label="optimize"),
    Case("numpy.einsum", lambda x: np.einsum("...j->...", x), [T], label="dots"),
    Case("numpy.einsum", lambda x, y: np.einsum(x, [0, 1], y, [1], [0]), [M, ROW], label="lists"),
    # differences, integrals, interpolation
    Case("numpy.diff", np.diff, [M]),
    Case("numpy.diff", lambda x: np.diff(x, n=2, prepend=0.5, append=[1.0]), [V], label="ends"),
    Case("numpy.diff", lambda x: np.diff(x, axis=0), [M], label="axis"),
    Case("numpy.ediff1d", lambda x: np.ediff1d(x, to_begin=[1.0], to_end=x[0]), [V]),
    Case("numpy.gradient", np.gradient, [V]),
    Case("numpy.gradient", lambda x: np.gradient(x, 0.5, GRID[:3]), [M], label="spacings"),
    Case("numpy.gradient", lambda x, s: np.gradient(x, s, edge_order=2), [V, GRID], label="uneven"),
    Case("numpy.gradient", lambda x: np.gradient(x, axis=1), [M], label="axis"),
    Case("numpy.trapezoid", np.trapezoid, [V]),
    Case("numpy.trapezoid", lambda y, x: np.trapezoid(y, x), [V, GRID], label="points"),
    Case("numpy.trapezoid", lambda y: np.trapezoid(y, dx=0.1, axis=0), [M], label="axis"),
    Case("numpy.interp", lambda x, y: np.interp(x, GRID, y), [np.array([0.1, 1.7, 2.5]), V]),
    Case("numpy.interp", lambda x, xp, y: np.interp(x, xp, y), [np.array([0.1, 1.7]), GRID, V], label="points"),
    Case(
        "numpy.interp",
        lambda y: np.interp([0.5, 5.5], [0.0, 1.0, 3.0, 2.0], y, period=4.0),
        [V],
        label="unsorted",
    ),
    Case("numpy.interp", lambda x, y: np.interp(x, GRID, y + 1j * y**2), [np.array([0.1, 1.7]), V], label="complex"),
    Case(
        "numpy.interp",
        lambda x, y: np.interp(x, GRID, y, left=-1.0, right=y[0]),
        [np.array([-1.0, 2.5, 1.0]), V],
        label="ends",
    ),
    Case(
        "numpy.interp", lambda x, y: np.interp(x, GRID, y, period=2.0), [np.array([-0.3, 2.5, 1.0]), V], label="period"
    ),
    *[
        Case(f"numpy.{name}", lambda x, y, f=getattr(np, name), mode=mode: f(x, y, mode), [V, ROW], label=mode)
        for name in ("convolve", "correlate")
        for mode in ("full", "same", "valid")
    ],
    # polynomials
    Case("numpy.polyval", np.polyval, [V, ROW]),
    Case("numpy.polyadd", np.polyadd, [V, ROW]),
    Case("numpy.polysub", np.polysub, [V, ROW]),
    Case("numpy.polymul", np.polymul, [V, ROW]),
    Case("numpy.polydiv", np.polydiv, [V, ROW]),
    Case("numpy.polyder", np.polyder, [V]),
    Case("numpy.polyder", lambda p: np.polyder(p, 2), [V], label="second"),
    Case("numpy.polyint", np.polyint, [V]),
    Case("numpy.polyint", lambda p: np.polyint(p, 2, k=[1.0, 2.0]), [V], label="constants"),
    Case("numpy.poly", np.poly, [ROW]),
    Case("numpy.poly", np.poly, [np.array([[2.0, 0.5], [0.3, 1.0]])], label="matrix"),
    Case("numpy.roots", lambda p: np.sort(np.roots(p).real), [np.array([0.1, -0.3, -0.6, 0.8])], step=1e-4),
    Case("numpy.roots", lambda x: np.roots([1.0, x, -2.0]), [X], label="list"),
    Case("numpy.polyder", lambda x: np.polyder([x, x**2, 1.0]), [X], label="list"),
    Case("numpy.polyfit", lambda x, y: np.polyfit(x, y, 2), [GRID, V]),
    Case(
        "numpy.polyfit", lambda y, w: np.polyfit(GRID, y, 1, w=w), [V, np.array([1.0, 2.0, 1.5, 0.5])], label="weights"
    ),
    Case("numpy.polyfit", lambda y: np.polyfit(GRID, y, 1, cov=True), [V], label="cov"),
    Case("numpy.polyfit", lambda y: np.polyfit(GRID, y, 1, full=True)[:2], [V], label="full"),
    Case("numpy.poly1d", lambda p, x: np.poly1d(p)(x), [V, ROW]),
    Case("numpy.poly1d", lambda x: np.poly1d([x, 1.0, x**2])(2.0), [X], label="list"),
    Case("numpy.poly1d", lambda p, x: (np.poly1d(p) * np.poly1d(p).deriv() + 1)(x), [V, X], label="algebra"),
    Case("numpy.polynomial.polynomial.polyval2d", lambda x, c: poly.polyval2d(x, x**2, c), [ROW, M]),
    Case("numpy.polynomial.polynomial.polygrid2d", lambda x, c: poly.polygrid2d(x, x[:2], c), [ROW, M]),
    Case("numpy.polynomial.polynomial.polyval", poly.polyval, [ROW, V]),
    Case("numpy.polynomial.polynomial.polyvander", lambda x: poly.polyvander(x, 3), [ROW]),
    Case("numpy.polynomial.polynomial.polyfit", lambda y: poly.polyfit(GRID, y, 2), [V]),
    Case(
        "numpy.polynomial.polynomial.polyroots",
        lambda c: np.sort(poly.polyroots(c).real),
        [np.array([0.8, -0.6, -0.3, 0.1])],
        step=1e-4,
    ),
    Case("numpy.polynomial.polynomial.polyfromroots", poly.polyfromroots, [ROW]),
    *[Case(f"numpy.polynomial.{c.__name__}", lambda p, x, c=c: c(p)(x), [V, ROW]) for c in _CLASSES],
    *[
        Case(
            f"numpy.polynomial.{c.__name__}",
            lambda p, x, c=c: ((c(p) * c(p[:2]) + 2).deriv() - c(p).integ())(x),
            [V, X],
            label="algebra",
        )
        for c in _CLASSES
    ],
    *[
        Case(f"numpy.polynomial.{c.__name__}", lambda y, c=c: c.fit(GRID, y, 2)(0.7), [V], label="fit")
        for c in _CLASSES
    ],
    Case(
        "numpy.polynomial.Polynomial",
        lambda c: np.sort(Polynomial(c).roots().real),
        [np.array([0.8, -0.6, -0.3, 0.1])],
        step=1e-4,
        label="roots",
    ),
    Case(
        "numpy.polynomial.Chebyshev", lambda c: c[0] * Chebyshev(c).convert(kind=Polynomial).coef, [V], label="convert"
    ),
]
