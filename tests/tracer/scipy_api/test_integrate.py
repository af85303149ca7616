"""scipy.integrate in compiled functions: values as SciPy's, derivatives by parameters, states and times."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import odeint, quad, solve_ivp

from tracegrad import compile_grad

TIMES = np.linspace(0.0, 2.0, 5)
THETA = np.array([1.5, 1.0, 3.0, 1.0])


def lotka_volterra(t, z, a, b, c, d):
    x, y = z
    return [a * x - b * x * y, -c * y + d * x * y]


def pendulum(y, t, b, c):
    angle, speed = y
    return [speed, -b * speed - c * np.sin(angle)]


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853"])
def test_values_are_those_of_scipy(method):
    def solve(theta):
        sol = solve_ivp(lotka_volterra, (0, 2), [10, 5], method, TIMES, args=tuple(theta), rtol=1e-5)
        assert sol.success and sol.status == 0 and "successfully" in sol.message
        return sol.y, sol.t, sol.nfev if method != "DOP853" else 0

    found, wanted = compile_grad(solve)(THETA), solve(THETA)
    assert found[0] == pytest.approx(wanted[0], rel=1e-9)
    assert found[1].tolist() == wanted[1].tolist() and found[2] == wanted[2]


class Pendulum:
    def __init__(self, theta):
        self.b, self.c = theta

    def rates(self, t, y):
        return [y[1], -self.b * y[1] - self.c * np.sin(y[0])]

    def swing(self, times, **how):
        return solve_ivp(self.rates, (times[0], times[-1]), [1.0, 0.0], t_eval=times, **how).y[0]


def fits(theta, tol=1e-9, method="RK45"):
    """Parameters in args, in an object, in a closure; forcing from a table and by an `if` on the time."""
    how = {"method": method, "rtol": tol, "atol": tol}
    ts, heights = np.linspace(0.0, 4.0, 5), np.array([0.0, 1.0, 0.5, 1.0, 0.2])

    def pumped(t, y):
        inflow = theta[0] * t if t < 0.5 else 0.5 * theta[0]
        dy = np.zeros(2)
        dy[0] = inflow - theta[1] * y[0] + np.interp(t + 0.1, ts + 0.1, heights)
        dy[1] = theta[1] * y[0] - y[1]
        return dy

    angles, info = odeint(pendulum, [1.0, 0.0], TIMES, args=(theta[0], theta[1]), full_output=True, rtol=tol, atol=tol)
    angles = angles if info["message"] == "Integration successful." else None
    levels = solve_ivp(pumped, (0.0, 1.0), np.zeros(2), **how).y[:, -1]
    return np.sum(angles[:, 0] ** 2) + np.sum(Pendulum(theta).swing(TIMES, **how) ** 2) + levels[1]


@pytest.mark.slow
def test_gradients_of_fits():
    f, theta = compile_grad(fits), np.array([0.25, 5.0])
    for at in (theta, 1.1 * theta, theta):
        moved = [(c, k * 1e-3 * np.eye(2)) for k, c in ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))]
        wanted = sum(c * np.array([fits(at + e, 1e-13, "DOP853") for e in d]) for c, d in moved) / 1e-3
        assert f.grad(at) == pytest.approx(wanted, abs=1e-6 * np.max(np.abs(wanted)))
    assert f(theta) == pytest.approx(fits(theta), rel=1e-8)


@pytest.mark.slow
def test_columns_of_steps():
    """Without t_eval the number of columns is data: asked for, a path for each; the last one is a value like others."""

    def last(theta):
        return solve_ivp(lotka_volterra, (0.0, theta[0]), [10, 5], args=tuple(theta)).y[0, -1]

    def every(theta):
        sol = solve_ivp(lotka_volterra, (0.0, 2.0), [10, 5], args=tuple(theta))
        return sol.y, sol.t, len(sol.t), np.sum(sol.y), sol.y.shape, sol.y[0][-1]

    f, g = compile_grad(last), compile_grad(every)
    for scale in (1.0, 2.0, 0.5):
        theta = scale * THETA
        assert f(theta) == pytest.approx(last(theta), rel=1e-9)
        for found, wanted in zip(g(theta), every(theta), strict=True):
            assert found == pytest.approx(wanted, rel=1e-9)
    assert f.stats.compiles == 1


def cannon(p):
    """The flight ends when it hits the ground, after its apex."""

    def hit_ground(t, y):
        return y[0]

    def apex(t, y):
        return y[1]

    hit_ground.terminal, hit_ground.direction = True, -1
    sol = solve_ivp(lambda t, y: [y[1], -p[0]], [0, 100], [0, p[1]], events=(hit_ground, apex), dense_output=True)
    heights = sol.sol(sol.t_events[1])[0]
    return sol.t_events[0], sol.t_events[1], sol.y_events[1], heights, sol.t, sol.y, sol.status, sol.message


@pytest.mark.slow
def test_events():
    f, p = compile_grad(cannon), np.array([0.5, 10.0])
    for found, wanted in zip(f(p), cannon(p), strict=True):
        assert found == wanted if isinstance(wanted, str) else found == pytest.approx(wanted, rel=1e-8, abs=1e-8)
    range_of = compile_grad(lambda p: cannon(p)[0][0])
    assert range_of.grad(p) == pytest.approx([-2 * p[1] / p[0] ** 2, 2 / p[0]], rel=1e-8)


def test_failures():
    """A solution that blows up ends as SciPy's does, with a NaN too; stiff problems are refused by name."""

    def blow_up(p):
        sol = solve_ivp(lambda t, y: p * y**2, (0, 5), [1.0], t_eval=TIMES)
        return sol.success, sol.status, sol.message, sol.t, sol.y

    def not_a_number(p):
        sol = solve_ivp(lambda t, y: np.sqrt(0.5 - y * p), (0, 5), [0.1])
        return sol.success, sol.nfev

    for f in (blow_up, not_a_number):
        with np.errstate(invalid="ignore"):
            found, wanted = compile_grad(f)(1.0), f(1.0)
        for a, b in zip(found, wanted, strict=True):
            assert a == b if isinstance(b, str) else a == pytest.approx(b, rel=1e-6)


def test_a_rate_of_another_size():
    def f(p):
        return odeint(lambda y, t: [p * y[0]], [1.0, 2.0], TIMES)[-1].sum()

    for call in (f, compile_grad(f)):
        with pytest.raises(RuntimeError, match=r"func \(1\) does not match the size of y0 \(2\)"):
            call(1.0)


def van_der_pol(t, y, mu):
    return [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]]


@pytest.mark.slow
def test_stiff_problems():
    """odeint goes on by an implicit method where an explicit one would take too many steps."""
    times = np.linspace(0.0, 20.0, 5)

    def by_odeint(mu, tol=None):
        return np.sum(odeint(van_der_pol, [2.0, 0.0], times, args=(mu,), tfirst=True, rtol=tol, atol=tol)[:, 0])

    def by_jacobian(mu, tol=1e-8, method="Radau"):
        def jac(t, y, mu):
            return [[0, 1], [-2 * mu * y[0] * y[1] - 1, mu * (1 - y[0] ** 2)]]

        how = {"rtol": tol, "atol": tol, "method": method, "jac": jac}
        return np.sum(solve_ivp(van_der_pol, (0, 20), [2.0, 0.0], args=(mu,), **how).y[:, -1])

    for f in (by_odeint, by_jacobian):
        compiled = compile_grad(f)
        for mu in (100.0, 110.0):
            value, slope = compiled.value_and_grad(mu)
            moved = [(c, mu + k) for k, c in ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))]
            assert value == pytest.approx(f(mu, 1e-12), rel=1e-6)
            assert slope == pytest.approx(sum(c * f(at, 1e-12) for c, at in moved), rel=1e-5)


def test_plain_data_is_made_by_scipy():
    """A solution that no traced value can reach is SciPy's own, whatever its right-hand side does."""

    def misfit(k):
        times = np.linspace(0.0, 2.0, 5)

        def rates(y, t):
            return [-0.5 * y[0] if y[0] > [0.1, 0.2][int(y[0] > 0.3)] else 0.0]

        data = odeint(rates, 1.0, times)
        area, _ = quad(lambda x: float(str(x)), 0, 1)
        return np.sum((np.exp(-k * times) - data[:, 0]) ** 2) + area

    assert compile_grad(misfit)(0.7) == misfit(0.7)
