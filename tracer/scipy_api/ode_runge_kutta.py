"""Explicit Runge-Kutta methods, step for step as SciPy's solvers take them (``scipy.integrate._ivp.rk``).

Coefficients, the choice of the first step, the error norms, the control of the step size and the polynomials between
steps are SciPy's; so values differ by rounding alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .ode_events import meet_events, start_of_events
from .ode_steps import FINISHED, RUNNING, STIFF, TOO_SMALL, Problem, Steps, held

SAFETY, MIN_FACTOR, MAX_FACTOR = 0.9, 0.2, 10
LIMITED_STEPS = 50  # steps limited by stability after which a problem counts as stiff, and those not that end a series
FREE_STEPS = 6
_HALF_ULP, _LEAST = 2.0**-53 * (1 + 2.0**-52), 5e-324


def weighted(weights: Sequence[float], values: Sequence[Any]) -> Any:
    """The sum of *values*, each times its weight; None where all weights are 0."""
    total = None
    for weight, value in zip(weights, values, strict=False):
        if weight:
            term = value * float(weight)
            total = term if total is None else total + term
    return total


def size(x: Any) -> Any:
    """The Euclidean norm."""
    return np.sqrt(np.sum(np.abs(x) ** 2 if np.iscomplexobj(x) else x * x))


def norm(x: Any) -> Any:
    """The root of the mean square."""
    return size(x) / x.size**0.5


def least_step(t: Any, direction: float) -> Any:
    """Ten times the distance of *t* from the next number."""
    after = t * direction + (_HALF_ULP * np.abs(t) + _LEAST)
    return 10 * np.abs(after - t * direction)


def first_step(problem: Problem, f0: Any, order: int) -> Any:
    """SciPy's ``select_initial_step``."""
    t0, y0, f0 = held(problem.t0), held(problem.y0), held(f0)
    interval = np.abs(held(problem.end) - t0)
    scale = problem.atol + np.abs(y0) * problem.rtol
    d0, d1 = norm(y0 / scale), norm(f0 / scale)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = np.minimum(np.where(small, 1e-6, 0.01 * d0 / np.where(small, 1.0, d1)), interval)
    f1 = held(problem.fun(t0 + h0 * problem.direction, y0 + h0 * problem.direction * f0))
    d2 = norm((f1 - f0) / scale) / h0
    flat = (d1 <= 1e-15) & (d2 <= 1e-15)
    steepest = np.where(flat, 1.0, np.fmax(d1, d2))
    h1 = np.where(flat, np.maximum(1e-6, h0 * 1e-3), (0.01 / steepest) ** (1 / (order + 1)))
    return np.minimum(np.minimum(100 * h0, h1), np.minimum(interval, problem.max_step))


def begin(problem: Problem, order: int, more: dict[str, Any]) -> dict[str, Any]:
    """The carry before the first attempt, with what a method keeps besides."""
    f0 = problem.fun(problem.t0, problem.y0)
    first = problem.first_step
    h = first_step(problem, f0, order) if first is None else first
    return {
        "status": np.int64(RUNNING), "t": problem.t0, "y": problem.y0, "f": f0, "h": held(h), "refused": np.False_,
        "reached": -np.inf, **more, **start_of_events(problem),
    }  # fmt: skip


def step_of(problem: Problem, c: dict[str, Any]) -> tuple[Any, Any, Any]:
    """(whether the step to attempt is too small, its end, its size)"""
    t, direction = c["t"], problem.direction
    least = least_step(held(t), direction)
    size = np.where(c["refused"], c["h"], np.maximum(np.minimum(c["h"], problem.max_step), least))
    # beyond the end: up to the end; elsewhere a size that the derivative takes for a constant
    ahead = t + held(size * direction)
    last = direction * (ahead - problem.end) > 0
    return size < least, np.where(last, problem.end, ahead), np.where(last, problem.end - t, held(ahead - t))


def finish(
    problem: Problem, c: dict[str, Any], fails: Any, taken: Any, new: tuple[Any, Any, Any], h: Any, more: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the carry after an attempt to reach the *new* time, state and derivative, which was *taken* or not; what it
    keeps)"""
    t, y, f = new
    direction = problem.direction
    done = taken & (direction * (t - problem.end) >= 0)
    reached = np.where(taken, held(t) * direction, c["reached"])
    after = {
        "status": np.where(fails, TOO_SMALL, np.where(done, FINISHED, RUNNING)),
        "t": np.where(taken, t, c["t"]), "y": np.where(taken, y, c["y"]), "f": np.where(taken, f, c["f"]),
        "h": h, "refused": np.logical_not(taken), "reached": reached, **more,
    }  # fmt: skip
    met = meet_events(problem, c, after, taken, t, y)
    return after, {"met": met, "reached": reached, "taken": taken, "t": after["t"], "y": after["y"]}


class RungeKutta:
    """One of SciPy's explicit methods: *solver* is its class."""

    def __init__(self, solver: Any) -> None:
        self.solver = solver
        self.high = hasattr(solver, "E3")  # DOP853
        self.evaluations = solver.n_stages  # in an attempt
        self.extra = len(solver.A_EXTRA) if self.high else 0  # in a step within which values are asked for

    def start(self, problem: Problem) -> dict[str, Any]:
        """The carry before the first attempt."""
        watch = {"limited": np.int64(0), "free": np.int64(0)} if problem.watched else {}
        return begin(problem, self.solver.error_estimator_order, watch)

    def count(self, problem: Problem, steps: Steps, status: int) -> Any:
        """The number of evaluations of the right-hand side, without those that values within steps take."""
        first = 2 if problem.first_step is None else 1
        return first + self.evaluations * (steps.count - (1 if status == TOO_SMALL else 0))

    def attempt(self, problem: Problem, c: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """(the carry after one attempt, what it keeps)"""
        solver, t, y = self.solver, c["t"], c["y"]
        fails, t_new, h = step_of(problem, c)
        ks, stage = [c["f"]], y
        for a, time in zip(solver.A[1:], solver.C[1:], strict=True):
            stage = y + weighted(a, ks) * h
            ks.append(problem.fun(t + h * float(time), stage))
        y_new = y + h * weighted(solver.B, ks)
        ks.append(problem.fun(t_new, y_new))
        error = self._error(problem, [held(k) for k in ks], held(h), held(y), held(y_new))
        taken = (error < 1) & np.logical_not(fails)
        power = -1 / (solver.error_estimator_order + 1)
        wanted = SAFETY * np.where(error == 0, 1.0, error) ** power
        more = np.where(error == 0, MAX_FACTOR, np.minimum(MAX_FACTOR, wanted))
        more = np.where(c["refused"], np.minimum(1, more), more)
        factor = np.where(taken, more, np.fmax(MIN_FACTOR, wanted))
        watch: dict[str, Any] = {}
        if problem.watched:
            watch = self._watch(c, taken, [held(x) for x in (h, ks[-1] - ks[-2], y_new - stage)])
        after, kept = finish(problem, c, fails, taken, (t_new, y_new, ks[-1]), np.abs(held(h)) * factor, watch)
        if problem.watched:
            stiff = (watch["limited"] >= LIMITED_STEPS) & (after["status"] == RUNNING)
            after["status"] = np.where(stiff, STIFF, after["status"])
        if problem.dense:
            kept |= {"t_old": t, "h": h, "y_old": y, "q": self._polynomial(problem, c, ks, h, y_new)}
        return after, kept

    def _watch(self, c: dict[str, Any], taken: Any, last: list[Any]) -> dict[str, Any]:
        """Steps that stability limits, counted by Hairer's estimate of an eigenvalue; *last*: the step, and what
        the derivatives and the states at its end and at the last stage differ by."""
        h, rates, states = last
        limit = 6.1 if self.high else 3.25
        limited = taken & (size(rates) * np.abs(h) > limit * size(states))
        free = np.where(limited, 0, np.where(taken, c["free"] + 1, c["free"]))
        return {"limited": np.where(free >= FREE_STEPS, 0, c["limited"] + np.where(limited, 1, 0)), "free": free}

    def _error(self, problem: Problem, ks: list[Any], h: Any, y: Any, y_new: Any) -> Any:
        solver = self.solver
        scale = problem.atol + np.maximum(np.abs(y), np.abs(y_new)) * problem.rtol
        if not self.high:
            return norm(weighted(solver.E, ks) * h / scale)
        fifth = size(weighted(solver.E5, ks) / scale) ** 2
        third = size(weighted(solver.E3, ks) / scale) ** 2
        both = fifth + 0.01 * third
        exact = (fifth == 0) & (third == 0)
        return np.where(exact, 0.0, np.abs(h) * fifth / np.sqrt(np.where(exact, 1.0, both) * y.size))

    def _polynomial(self, problem: Problem, c: dict[str, Any], ks: list[Any], h: Any, y_new: Any) -> Any:
        """Coefficients of the polynomial within the step."""
        solver, y = self.solver, c["y"]
        if not self.high:
            return [weighted(column, ks) for column in solver.P.T]
        ks = list(ks)
        for a, time in zip(solver.A_EXTRA, solver.C_EXTRA, strict=True):
            ks.append(problem.fun(c["t"] + h * float(time), y + weighted(a, ks) * h))
        change = y_new - y
        return [
            change, h * c["f"] - change, 2 * change - h * (ks[solver.n_stages] + c["f"]),
            *[h * weighted(d, ks) for d in solver.D],
        ]  # fmt: skip

    def within(self, rows: Any, x: Any) -> Any:
        """Values (times, n) at the parts *x* (times, 1) of the steps in *rows*."""
        if not self.high:
            total, power = 0.0, x
            for q in rows["q"]:
                total, power = total + q * power, power * x
            return rows["y_old"] + rows["h"][:, None] * total
        total = 0.0
        for i, f in enumerate(reversed(rows["q"])):
            total = (total + f) * (x if i % 2 == 0 else 1 - x)
        return total + rows["y_old"]
