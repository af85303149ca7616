"""scipy.integrate."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import integrate

from .case import Case

TIGHT = {"rtol": 1e-10, "atol": 1e-10}
TIMES = np.array([0.0, 0.1, 0.2])


def oscillator(t: Any, y: Any, k: Any, c: Any) -> Any:
    return [y[1], -k * np.sin(y[0]) - c * y[1] + t]


def by(method: str, **options: Any) -> Any:
    """The states at TIMES, by parameters and the first state."""
    options = TIGHT | options

    def call(p: Any, y0: Any) -> Any:
        return integrate.solve_ivp(oscillator, (0, 0.2), y0, method, TIMES, args=(p[0], p[1]), **options).y

    return call


def last(p: Any, y0: Any, span: Any) -> Any:
    sol = integrate.solve_ivp(lambda t, y: oscillator(t, y, p[0], p[1]), span, y0, "DOP853", **TIGHT)
    return sol.y[:, -1], sol.t[-1]


def events(p: Any, y0: Any) -> Any:
    """The time at which the angle is 0.6, and the state there; the angle at 0.1."""
    low = lambda t, y, k, c: y[0] - 0.6  # noqa: E731
    low.terminal = True  # type: ignore[attr-defined]
    sol = integrate.solve_ivp(oscillator, (0, 2), y0, args=(p[0], p[1]), events=low, dense_output=True, **TIGHT)
    return sol.t_events[0], sol.y_events[0], sol.sol(0.1), sol.sol(np.array([0.1, 0.05])), sol.t[-1], sol.y[:, -1]


def by_odeint(p: Any, y0: Any, t: Any) -> Any:
    return integrate.odeint(oscillator, y0, t, args=(p[0], p[1]), tfirst=True, rtol=1e-9, atol=1e-9)


def wave(x: Any, p: Any) -> Any:
    return np.sin(p * x) / x


def waves(x: Any, p: Any) -> Any:
    return np.array([np.sin(p[0] * x), np.exp(p[1] * x)])


def complex_wave(p: Any) -> Any:
    return integrate.quad(lambda x: np.exp(1j * p * x), 0, 1, complex_func=True)[0]


def bell(x: Any, p: Any) -> Any:
    return np.exp(-p * x**2 - 0.1 * x)


def kink(x: Any, p: Any) -> Any:
    return p * np.abs(x - 1.0) * x**p


P, Y = np.array([1.3, 0.2]), np.array([0.7, -0.4])
SAMPLES, X = np.sin(np.linspace(0.3, 7.0, 15)).reshape(5, 3), np.array([0.0, 0.4, 1.0, 1.3, 2.0])
CASES = [
    Case("scipy.integrate.solve_ivp", by("RK45", rtol=1e-9, atol=1e-9), [P, Y], label="RK45"),
    Case("scipy.integrate.solve_ivp", by("RK23", rtol=1e-6, atol=1e-6, max_step=0.1), [P, Y], tol=1e-5, label="RK23"),
    Case("scipy.integrate.solve_ivp", by("DOP853"), [P, Y], label="DOP853"),
    Case("scipy.integrate.solve_ivp", by("Radau", rtol=1e-7), [P, Y], rtol=1e-7, label="Radau"),
    Case("scipy.integrate.solve_ivp", by("BDF", rtol=1e-5, atol=1e-5), [P, Y], 1, rtol=1e-3, tol=1e-3, label="BDF"),
    Case("scipy.integrate.solve_ivp", by("LSODA"), [P, Y], 1, rtol=1e-8, label="LSODA"),
    Case("scipy.integrate.solve_ivp", last, [P, Y, np.array([0.1, 0.3])], label="end"),
    Case("scipy.integrate.solve_ivp", events, [P, Y], tol=1e-5, label="events"),
    Case("scipy.integrate.odeint", by_odeint, [P, Y, TIMES], rtol=1e-7),
    *[
        Case(f"scipy.integrate.{name}", getattr(integrate, name), [SAMPLES.T[:, :3] if name == "romb" else SAMPLES])
        for name in ("trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson", "romb")
    ],
    Case("scipy.integrate.trapezoid", lambda y, x: integrate.trapezoid(y, x, axis=0), [SAMPLES, X], label="x"),
    Case("scipy.integrate.simpson", lambda y, x: integrate.simpson(y[:4], x=x[:4], axis=0), [SAMPLES, X], label="x"),
    Case(
        "scipy.integrate.cumulative_trapezoid",
        lambda y, x: integrate.cumulative_trapezoid(y, x, axis=0, initial=0),
        [SAMPLES, X],
        label="x",
    ),
    Case(
        "scipy.integrate.cumulative_simpson",
        lambda y, x: integrate.cumulative_simpson(y, x=x, axis=0, initial=0.0),
        [SAMPLES, X],
        label="x",
    ),
    Case("scipy.integrate.romb", lambda y, dx: integrate.romb(y, dx, axis=0), [SAMPLES, np.array(0.3)], label="dx"),
    Case(
        "scipy.integrate.fixed_quad",
        lambda p, a, b: integrate.fixed_quad(lambda x: np.exp(p * x), a, b, n=4)[0],
        [np.array(0.7), np.array(0.1), np.array(1.3)],
    ),
    Case("scipy.integrate.newton_cotes", lambda y: integrate.newton_cotes(4)[0] @ y, [SAMPLES]),
    Case("scipy.integrate.quad", lambda p, a, b: integrate.quad(wave, a, b, (p,)), [P[0], 0.2, 1.5], label="ends"),
    Case("scipy.integrate.quad", lambda p: integrate.quad(bell, -np.inf, np.inf, p)[0], [P[0]], label="line"),
    Case("scipy.integrate.quad", lambda p, a: integrate.quad(bell, a, np.inf, p)[0], [P[0], 0.1], label="half line"),
    Case("scipy.integrate.quad", lambda p, b: integrate.quad(bell, -np.inf, b, p)[0], [P[0], 0.1], label="from below"),
    Case("scipy.integrate.quad", lambda p: integrate.quad(lambda x: x**p, 0, 1)[0], [0.5], 1, rtol=1e-8, label="root"),
    Case("scipy.integrate.quad", lambda p: integrate.quad(kink, 2, 0, p, points=[1.0])[0], [1.3], label="points"),
    Case("scipy.integrate.quad", complex_wave, [1.3], label="complex"),
    Case("scipy.integrate.quad_vec", lambda p, b: integrate.quad_vec(waves, 0, b, args=(p,))[0], [P, 1.5], 1),
    Case(
        "scipy.integrate.dblquad",
        lambda p, b: integrate.dblquad(lambda y, x, q: np.exp(-p * q * x * y), 0, b, 0.1, lambda x: x + 1, (p,))[0],
        [0.7, 1.3],
        1,
    ),
]
