"""Programs with a solver of scipy.optimize inside: values of plain SciPy, gradients of differences, what is refused."""

from __future__ import annotations

from math import erf, exp, log, sqrt
from typing import Any

import numpy as np
import pytest
from agreement import numerical_gradient
from scipy.optimize import (
    OptimizeResult,
    brentq,
    curve_fit,
    fixed_point,
    fsolve,
    least_squares,
    linear_sum_assignment,
    minimize,
    minimize_scalar,
    newton,
    root,
    root_scalar,
)
from scipy.stats import norm

from tracegrad import compile_grad, scan, while_loop
from tracegrad.tracer.ir.errors import DifferentiationError, UnsupportedError


def agrees(f: Any, *args: Any, tol: float = 1e-6, rtol: float = 1e-9, calls: int = 3) -> Any:
    """Compiled, *f* gives the same values and the derivatives of differences, in each of some calls; the function."""
    compiled = compile_grad(f, argnums=tuple(range(len(args))))
    for k in range(calls):
        at = [a * (1 + 0.02 * k) for a in args]
        value, grads = compiled.value_and_grad(*at)
        np.testing.assert_allclose(value, f(*at), rtol=rtol)
        for n, grad in enumerate(grads):
            np.testing.assert_allclose(grad, numerical_gradient(f, tuple(at), argnum=n), rtol=tol, atol=tol)
    assert not compiled.stats.live, compiled.stats
    assert compiled.stats.traces <= 2, compiled.stats
    return compiled


def slope(f: Any, x: float, step: float = 1e-3) -> float:
    """The derivative by differences that are wide enough for solutions of ten digits."""
    return (f(x + step) - f(x - step)) / (2 * step)


def call_price(spot: Any, strike: Any, rate: Any, sigma: Any, years: Any) -> Any:
    d1 = (log(spot / strike) + (rate + sigma**2 / 2) * years) / (sigma * sqrt(years))
    d2 = d1 - sigma * sqrt(years)
    above, below = (0.5 * (1 + erf(d / sqrt(2))) for d in (d1, d2))
    return spot * above - strike * exp(-rate * years) * below


def test_implied_volatility_and_its_greeks() -> None:
    def implied(price, strike):
        return brentq(lambda s: call_price(100.0, strike, 0.02, s, 1.5) - price, 1e-6, 5, xtol=1e-14)

    f = agrees(implied, 12.0, 105.0)
    vega = (call_price(100.0, 105.0, 0.02, f(12.0, 105.0) + 1e-6, 1.5) - 12.0) / 1e-6
    assert f.grad(12.0, 105.0)[0] == pytest.approx(1 / vega, rel=1e-5)

    def smile(prices):
        strikes = [90.0, 100.0, 110.0]
        vols = [
            newton(lambda s, k=k, p=p: 100 * norm.cdf((100 - k) / (100 * s)) + 20 * s - p, 0.3, tol=1e-13)
            for k, p in zip(strikes, prices, strict=True)
        ]
        return vols[0] - 2 * vols[1] + vols[2]

    agrees(smile, np.array([70.0, 56.0, 45.0]))


@pytest.mark.slow
def test_keplers_equation_for_all_times_in_a_loop_and_at_once() -> None:
    times = np.linspace(0.2, 5.8, 8)

    def orbit(e):
        total = 0.0
        for t in times:
            anomaly = newton(lambda E, t=t: E - e * np.sin(E) - t, t, fprime=lambda E: 1 - e * np.cos(E), tol=1e-14)
            total = total + np.cos(anomaly) * t
        return total

    def at_once(e):
        return np.sum(np.cos(newton(lambda E: E - e * np.sin(E) - times, times, tol=1e-14)) * times)

    agrees(orbit, 0.4)
    agrees(at_once, 0.4)

    def stepped(e):
        def step(total, t):
            return total + np.cos(brentq(lambda E: E - e * np.sin(E) - t, 0, 7, xtol=1e-14)) * t, None

        return scan(step, 0.0, times)[0]

    compiled = compile_grad(stepped)
    value, grad = compiled.value_and_grad(0.4)
    assert (value, grad) == (pytest.approx(orbit(0.4)), pytest.approx(numerical_gradient(orbit, (0.4,)), rel=1e-6))


@pytest.mark.slow
def test_equilibria() -> None:
    def reaction(k):
        """A + B <-> C, 2 C <-> D, in concentrations, with what is conserved."""

        def balance(c, k):
            a, b, ab, d = c
            return [ab - k[0] * a * b, d - k[1] * ab**2, a + ab + 2 * d - 1.0, b + ab + 2 * d - 1.5]

        sol = root(balance, np.full(4, 0.2), args=(k,), tol=1e-13)
        if not sol.success:
            raise RuntimeError(f"no equilibrium: {sol.message}")
        return np.log(sol.x) @ np.array([1.0, -0.5, 2.0, 0.3])

    compiled = agrees(reaction, np.array([2.0, 0.8]))
    hessian = compile_grad(lambda k: compiled.grad(k)[0][1])
    expected = numerical_gradient(lambda k: float(compile_grad(reaction).grad(k)[1]), (np.array([2.0, 0.8]),))
    np.testing.assert_allclose(hessian.grad(np.array([2.0, 0.8])), expected, rtol=1e-5)

    def layer(w):
        z = fixed_point(lambda z: np.tanh(w @ z + 0.5), np.zeros(3), xtol=1e-13, method="iteration")
        return np.sum(z**2)

    agrees(layer, np.array([[0.3, -0.2, 0.1], [0.4, 0.1, -0.3], [-0.1, 0.2, 0.25]]))

    def steady(p):
        x = fsolve(lambda x: np.array([p[0] - x[0] * x[1], x[0] * x[1] - p[1] * x[1] + 0.1]), [1.0, 1.0], xtol=1e-13)
        return x @ np.array([1.0, 2.0])

    agrees(steady, np.array([1.1, 2.1]))


@pytest.mark.slow
def test_training_within_training() -> None:
    rng = np.random.default_rng(0)
    X, y, V, u = rng.normal(size=(12, 3)), rng.normal(size=12), rng.normal(size=(5, 3)), rng.normal(size=5)

    def validation(log_lambda):
        def loss(w):
            return 0.5 * np.mean((X @ w - y) ** 2) + 0.5 * np.exp(log_lambda) * np.sum(np.sqrt(1 + w**2))

        w = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
        return np.mean((V @ w - u) ** 2)

    compiled = compile_grad(validation)
    exact = compile_grad(lambda t: validation_by_gradient(t))

    def validation_by_gradient(log_lambda):
        def loss(w):
            r = X @ w - y
            penalty = np.sqrt(1 + w**2)
            value = 0.5 * np.mean(r**2) + 0.5 * np.exp(log_lambda) * np.sum(penalty)
            return value, X.T @ r / len(y) + 0.5 * np.exp(log_lambda) * w / penalty

        sol = minimize(loss, np.zeros(3), jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-11})
        return np.mean((V @ sol.x - u) ** 2) + 0 * sol.nit

    for t in (-1.0, -1.2, 0.3):
        expected = slope(validation_by_gradient, t)
        np.testing.assert_allclose(compiled(t), validation(t), rtol=1e-6)  # whose differences are rounded otherwise
        assert exact(t) == pytest.approx(validation_by_gradient(t), rel=1e-10)
        assert compiled.grad(t) == pytest.approx(expected, rel=1e-3)
        assert exact.grad(t) == pytest.approx(expected, rel=1e-4)
    assert not compiled.stats.live and not exact.stats.live


@pytest.mark.slow
def test_a_curve_of_discounts_and_a_fit() -> None:
    rates = np.array([0.02, 0.025, 0.031, 0.034])

    def bootstrapped(quotes):
        zeros, discounts = [], []
        for n in range(len(quotes)):

            def par(z, n=n):
                annuity = sum(discounts) + np.exp(-z * (n + 1))
                return quotes[n] * annuity + np.exp(-z * (n + 1)) - 1

            z = brentq(par, -0.5, 0.5, xtol=1e-15)
            zeros.append(z)
            discounts.append(np.exp(-z * (n + 1)))
        return np.sum(np.array(zeros) * np.arange(1, 5.0))

    agrees(bootstrapped, rates)
    t = np.linspace(0, 3, 9)

    tight = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}

    def fitted(noise):
        (a, b), _ = curve_fit(
            lambda t, a, b: a * np.exp(-b * t), t, 2 * np.exp(-0.8 * t) + noise * np.sin(9 * t), **tight
        )
        sol = least_squares(lambda p: p[0] * np.exp(-p[1] * t) - noise * np.cos(t) - a, [1.0, 0.1], **tight)
        return a * b + sol.x[1] + sol.cost

    value, grad = compile_grad(fitted).value_and_grad(0.1)
    assert (value, grad) == (pytest.approx(fitted(0.1), rel=1e-8), pytest.approx(slope(fitted, 0.1), rel=1e-4))

    def matched(points):
        cost = np.sum((points[:, None] - points[None, ::-1] - 0.3) ** 2, axis=-1)
        rows, columns = linear_sum_assignment(cost)
        return cost[rows, columns].sum()

    agrees(matched, np.array([[0.1, 0.5], [1.2, 0.4], [0.7, -1.0]]))


def test_what_has_not_converged_has_no_derivative() -> None:
    def stopped(a, steps):
        sol = root_scalar(lambda x: np.tanh(x) - a, bracket=(-3, 4), method="bisect", maxiter=steps)
        return sol.root * (1 if sol.converged else 10)

    compiled = compile_grad(stopped, static_argnames="steps")
    for _ in range(3):
        assert compiled(0.3, steps=5) == pytest.approx(stopped(0.3, 5))
        with pytest.raises(DifferentiationError, match=r"(?s)root_scalar has not converged.*test_optimize.py"):
            compiled.grad(0.3, steps=5)
        assert compiled.grad(0.3, steps=60) == pytest.approx(1 / (1 - 0.09))

    def imprecise(a):
        return minimize(lambda x: (x[0] - a**2) ** 2 + 1e3 * np.sin(x[1]) ** 2 + x[1] ** 4, [0, 0.3], tol=1e-12)

    assert not imprecise(0.7).success  # for lack of precision, at the very minimum
    assert compile_grad(lambda a: imprecise(a).x[0]).grad(0.7) == pytest.approx(1.4, rel=1e-6)
    assert np.isnan(compile_grad(lambda a: newton(lambda x: (x - a) ** 3, 0.1, maxiter=200)).grad(0.1))


def test_exceptions_and_warnings_are_scipys() -> None:
    def f(a):
        try:
            return brentq(lambda x: x**2 - a, 0.0, 1.0)
        except ValueError:
            return a * 2

    compiled = compile_grad(f)
    for a in (0.25, 2.0, 0.36, 3.0, 0.5, 4.0):
        assert compiled(a) == f(a)
        assert compiled.grad(a) == pytest.approx(2 if a > 1 else 0.5 / sqrt(a))
    strict = compile_grad(lambda a: brentq(lambda x: x**2 - a, 0.0, 1.0))
    for a in (0.25, 2.0, 0.3, 2.0):
        if a < 1:
            assert strict(a) == pytest.approx(sqrt(a))
        else:
            with pytest.raises(ValueError, match=r"f\(a\) and f\(b\) must have different signs"):
                strict(a)
    warned = compile_grad(lambda a: fsolve(lambda x: x**2 + a, 1.0)[0] * 0 + a)
    with pytest.warns(RuntimeWarning, match="not making good progress"):
        warned(1.0)
    with pytest.raises(TypeError, match="missing"):
        compile_grad(lambda a: brentq(lambda x: x - a, 0.0))(1.0)


def test_results_are_those_of_scipy() -> None:
    A = np.array([[2.0, 0.3], [0.3, 1.0]])

    def parts(b):
        sol = minimize(lambda x: 0.5 * x @ A @ x - b @ x, np.zeros(2), jac=lambda x: A @ x - b, method="BFGS")
        assert isinstance(sol, OptimizeResult) and "x" in sol and sol["x"] is sol.x
        assert "success" in str(sol.message)
        _, info, ier, _ = fsolve(lambda x: A @ x - b, np.zeros(2), full_output=True)
        _, report = brentq(lambda s: s - b[0], -9, 9, full_output=True)
        found = (report.flag == "converged", report.iterations, info["nfev"], ier)
        return (sol.x, sol.fun, sol.nit, sol.hess_inv, sol.success, *found)

    compiled, b = compile_grad(parts), np.array([1.0, 2.0])
    for scale in (1, 1, 1.5, 2):
        for found, wanted in zip(compiled(b * scale), parts(b * scale), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9)
            assert np.asarray(found).dtype == np.asarray(wanted).dtype
    with pytest.raises(DifferentiationError, match="hess_inv of minimize has no derivative"):
        compile_grad(lambda b: minimize(lambda x: 0.5 * x @ A @ x - b @ x, np.zeros(2)).hess_inv.sum()).grad(b)


def test_what_is_plain_stays_scipys() -> None:
    calls = []

    def outside(x):
        calls.append(x)
        return x**3 - 2

    @compile_grad
    def f(a):
        return a * brentq(outside, 0, 3) + minimize_scalar(lambda x: (x - 1) ** 2).x

    for _ in range(3):
        assert f(2.0) == pytest.approx(2 * 2 ** (1 / 3) + 1)
    square = compile_grad(lambda x: np.sum((x - 1) ** 2))
    sol = minimize(square.value_and_grad, np.zeros(3), jac=True)
    np.testing.assert_allclose(sol.x, 1)
    assert type(sol) is OptimizeResult and type(sol.x) is np.ndarray


def test_what_is_refused_is_named() -> None:
    def refused(text: str, f: Any, x: Any = 1.0) -> None:
        with pytest.raises(UnsupportedError, match=f"(?s){text}.*test_optimize.py"):
            compile_grad(f)(x)

    def loss(a):
        return lambda x: np.sum((x - a) ** 2)

    limit = {"type": "eq", "fun": lambda x: x[0]}
    refused("constraints= of minimize", lambda a: minimize(loss(a), [0.0, 0], constraints=limit).fun)
    refused("callback= of minimize", lambda a: minimize(loss(a), [0.0, 0], callback=print).fun)
    refused("a method= of your own", lambda a: minimize(loss(a), [0.0, 0], method=lambda f, x, args, **k: f(x)))
    refused("asks for the value", lambda a: brentq(lambda x: a * int(x) - 1, -1, 3))

    def counted(a):
        def steps(x):
            return while_loop(lambda c: c[1] < 9, lambda c: (np.cos(c[0]) * a, c[1] + 1), (x, 0))[0] - x

        return brentq(steps, 0, 2)

    compiled = compile_grad(counted)
    for a in (0.8, 0.9, 0.7):
        assert compiled.value_and_grad(a) == pytest.approx((counted(a), slope(counted, a)), rel=1e-5)

    def within(a):
        return brentq(lambda x: x + counted(0.5 + x / 10) - a, -1, 2)

    assert compile_grad(within)(0.8) == pytest.approx(within(0.8))
    with pytest.raises(UnsupportedError, match="while_loop may not be taken in a function that is given to a solver"):
        compile_grad(within).grad(0.8)
