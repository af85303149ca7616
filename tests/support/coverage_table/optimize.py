"""scipy.optimize: solutions as functions of what the user's functions close over."""

from __future__ import annotations

import numpy as np
import scipy.optimize as so

from .case import Case

P = np.array([0.7, 1.3])


def cubic(p):
    return lambda x: x**3 + p[1] * x - p[0]


def system(x, p):
    return [x[0] + 0.3 * np.tanh(x[1]) - p[0], x[1] * p[1] - x[0] ** 2 - 1]


def inner(w, p):
    return np.sum((w - p) ** 2) + np.exp(p[0]) * w[0] ** 2 + 0.1 * w[1] ** 4


def inner_gradient(w, p):
    return 2 * (w - p) + np.array([2 * np.exp(p[0]) * w[0], 0.4 * w[1] ** 3])


def residuals(x, p):
    return np.array([x[0] - p[0], x[1] - p[1] * x[0], x[0] * x[1] - 0.5, 0.3 * x[1]])


T = np.linspace(0, 2, 7)
Y = 1.3 * np.exp(-0.7 * T) + 0.05 * np.cos(5 * T)
MATRIX = np.array([[1.0, 0.5, 0.2], [0.3, 2.0, -0.4], [0.2, -0.1, 1.5], [0.6, 0.1, 0.3]])
SQUARES = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
ROUGH = {"rtol": 1e-7, "tol": 1e-5, "step": 1e-2}  # for solvers that take differences of the function themselves


def decay(t, a, b):
    return a * np.exp(-b * t)


def bounded(p, above):
    bounds = [(None, above), (0.1, None)]
    return so.minimize(inner, np.zeros(2), (p,), "L-BFGS-B", inner_gradient, bounds=bounds, tol=1e-15).x


def minimum(p, method, **options):
    return so.minimize(inner, np.zeros(2), args=(p,), method=method, jac=inner_gradient, options=options)


def weighted(p):
    kwargs = {"sigma": 1 + T * p[1], "bounds": ([1.35, 0], 9), **SQUARES}
    return so.curve_fit(decay, T * p[0], Y, [2, 1], **kwargs)[0]


def case(name, call, **kwargs):
    return Case(f"scipy.optimize.{name}", call, [P], **kwargs)


_NONLINEAR = "broyden1 broyden2 anderson linearmixing diagbroyden excitingmixing newton_krylov".split()
CASES = [
    *[
        case(name, lambda p, f=getattr(so, name): f(cubic(p), -1.0, 3.0, rtol=1e-14))
        for name in ("brentq", "brenth", "bisect", "ridder", "toms748")
    ],
    case("brentq", lambda p: so.brentq(lambda x, a: x**3 - a, p[0] - 1, 4, args=(p[1],)), label="args"),
    case("newton", lambda p: so.newton(cubic(p), 0.5, tol=1e-13)),
    case("newton", lambda p: so.newton(lambda x: x**3 - p, np.ones(2), tol=1e-13), label="array"),
    case(
        "newton", lambda p: so.newton(cubic(p), 1, lambda x: 3 * x**2 + p[1], fprime2=lambda x: 6 * x), label="halley"
    ),
    case("root_scalar", lambda p: so.root_scalar(cubic(p), bracket=[0, p[1]], method="brentq").root),
    case("root_scalar", lambda p: so.root_scalar(cubic(p), x0=0.1, x1=p[0]).root, label="secant"),
    case(
        "root_scalar", lambda p: so.root_scalar(lambda x: (x**2 - p[0], 2 * x), x0=p[1], fprime=True).root,
        label="newton",
    ),
    *[
        case("root", lambda p, m=method: so.root(system, [1.0, 1.0], args=(p,), method=m, tol=1e-13).x, label=method)
        for method in ("hybr", "lm", "krylov", "df-sane")
    ],
    case("fsolve", lambda p: so.fsolve(system, np.ones(2), args=(p,), xtol=1e-13)),
    case("fixed_point", lambda p: so.fixed_point(lambda x: 0.3 * np.cos(x * p) + p[0], [0.5, 0.5])),
    case("minimize", lambda p: minimum(p, None, gtol=1e-12).x, rtol=1e-7),
    case("minimize", lambda p: minimum(p, "BFGS", gtol=1e-12).fun, label="value"),
    case("minimize", lambda p: minimum(p, "L-BFGS-B", gtol=1e-12, ftol=1e-16).x, rtol=1e-7, label="L-BFGS-B"),
    case("minimize", lambda p: bounded(p, 0.2), rtol=1e-7, label="bounds"),
    case("minimize", lambda p: bounded(p, p[1] / 8), rtol=1e-7, label="traced bounds"),
    case("minimize_scalar", lambda p: so.minimize_scalar(lambda x: np.cosh(x - p[0]) + p[1] * x**2).x, **ROUGH),
    case("least_squares", lambda p: so.least_squares(residuals, np.ones(2), args=(p,), **SQUARES).x, **ROUGH),
    case(
        "least_squares",
        lambda p: so.least_squares(residuals, np.ones(2), loss="soft_l1", f_scale=0.5, args=(p,), **SQUARES).cost,
        label="soft_l1", **ROUGH,
    ),
    case("leastsq", lambda p: so.leastsq(residuals, np.ones(2), args=(p,), ftol=1e-15, xtol=1e-15)[0], **ROUGH),
    case("curve_fit", lambda p: so.curve_fit(decay, T, Y + p[0] * T, ftol=1e-15)[0], **ROUGH),
    case("curve_fit", weighted, label="bounds", **ROUGH),
    case("nnls", lambda p: so.nnls(MATRIX * p[0], np.array([1.0, -2.0, p[1], 0.5])), label="norm"),
    case("lsq_linear", lambda p: so.lsq_linear(MATRIX * p[0], [1.0, p[1], p[1] ** 2, 0.5], (0.1, 1)).x),
    case("fmin_bfgs", lambda p: so.fmin_bfgs(inner, np.zeros(2), inner_gradient, (p,), gtol=1e-12, disp=0), rtol=1e-7),
    case("fmin_cg", lambda p: so.fmin_cg(inner, np.zeros(2), inner_gradient, (p,), gtol=1e-12, disp=0), rtol=1e-7),
    case("fmin", lambda p: so.fmin(inner, np.zeros(2), (p,), 1e-9, 1e-15, disp=0), rtol=1e-6, tol=1e-5, step=1e-2),
    case("fmin_powell", lambda p: so.fmin_powell(inner, np.zeros(2), (p,), 1e-10, 1e-15, disp=0), **ROUGH),
    case(
        "fmin_l_bfgs_b",
        lambda p: so.fmin_l_bfgs_b(inner, np.zeros(2), inner_gradient, (p,), bounds=[(-9, p[1] / 8)] * 2, factr=1)[:2],
        rtol=1e-7,
    ),
    case("fminbound", lambda p: so.fminbound(lambda x: np.cosh(x - p[0]) + p[1] * x**2, -1, 2, xtol=1e-10), **ROUGH),
    *[
        case(name, lambda p, f=getattr(so, name): f(lambda x: np.cosh(x - p[0]) + p[1] * x**2), **ROUGH)
        for name in ("brent", "golden")
    ],
    *[
        case(name, lambda p, f=getattr(so, name): f(lambda x: p[0] - x - 0.2 * np.sin(p * x), [0.5, 0.5], f_tol=1e-13))
        for name in _NONLINEAR
    ],
    case("linear_sum_assignment", lambda p: np.sum((MATRIX * p[0])[so.linear_sum_assignment(MATRIX * p[1])])),
]  # fmt: skip
