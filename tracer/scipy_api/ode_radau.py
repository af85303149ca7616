"""Radau's implicit method of order 5, for stiff problems.

Error estimate, control of the step and the polynomial within a step are SciPy's; a step is other than SciPy's in that
the Jacobian is new in each.  The stages are found by simplified Newton iterations, which no derivative is taken of.
Two more iterations, with the Jacobian of each stage, are what is differentiated: they settle the stages, and where the
residual is zero their derivatives, of first and second order, are those of the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..control.scan import fori_loop
from ..control.scan import map as each
from ..control.while_loop import while_loop
from ..ir.errors import UnsupportedError
from ..numpy_api.shape import as_traced
from ..ops.linalg import lu, lu_solve
from ..record.array import to_atom, wrap_array
from .ode_runge_kutta import MAX_FACTOR, MIN_FACTOR, SAFETY, begin, finish, norm, step_of
from .ode_steps import Problem, Steps, held

_ITERATIONS = 8
_RUNNING, _CONVERGED, _FAILED = 0, 1, 2
_S6 = 6**0.5
C = np.array([(4 - _S6) / 10, (4 + _S6) / 10, 1.0])
A = np.array([
    [(88 - 7 * _S6) / 360, (296 - 169 * _S6) / 1800, (-2 + 3 * _S6) / 225],
    [(296 + 169 * _S6) / 1800, (88 + 7 * _S6) / 360, (-2 - 3 * _S6) / 225],
    [(16 - _S6) / 36, (16 + _S6) / 36, 1 / 9],
])  # fmt: skip
E = np.array([-13 - 7 * _S6, -13 + 7 * _S6, -1]) / 3
P = np.array([
    [13 / 3 + 7 * _S6 / 3, -23 / 3 - 22 * _S6 / 3, 10 / 3 + 5 * _S6],
    [13 / 3 - 7 * _S6 / 3, -23 / 3 + 22 * _S6 / 3, 10 / 3 - 5 * _S6],
    [1 / 3, -8 / 3, 10 / 3],
])  # fmt: skip
_MU = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)
_APART = 6e-6  # relative distance of the points of a difference


def _factors(a: Any) -> Any:
    return wrap_array(lu(to_atom(held(a))))


def _solve(factors: Any, b: Any) -> Any:
    shape = b.shape
    return wrap_array(lu_solve(to_atom(factors), to_atom(b.reshape(-1, 1)))).reshape(shape)


def jacobian_of(problem: Problem, jac: Any) -> Callable[[Any, Any], Any]:
    """The Jacobian at (t, y), as a constant of the derivative: the user's, or differences of the right-hand side."""
    n = problem.y0.shape[0]
    if callable(jac):
        return lambda t, y: held(as_traced(jac(t, y)).astype(np.float64).reshape(n, n))
    if jac is not None:
        known = held(as_traced(jac).astype(np.float64).reshape(n, n))
        return lambda t, y: known

    def differences(t: Any, y: Any) -> Any:
        apart = _APART * (np.abs(y) + 0.01 * np.max(np.abs(y)) + problem.atol)

        steps = np.concatenate([np.eye(n), -np.eye(n)]) * apart
        found = each(lambda step: problem.fun(t, y + step), steps)
        return held(((found[:n] - found[n:]) / (2 * apart[:, None])).T)

    return differences


class Radau:
    """The method, with the user's Jacobian or none."""

    def __init__(self, jac: Any) -> None:
        self.jac = jac

    def start(self, problem: Problem) -> dict[str, Any]:
        if np.iscomplexobj(problem.y0):
            raise UnsupportedError.here(
                "an implicit method with a complex state is not supported: integrate the real and imaginary parts"
            )
        more = {"work": np.int64(0), "error_old": np.float64(0.0), "h_old": np.float64(0.0)}
        return begin(problem, 3, more)

    def count(self, problem: Problem, steps: Steps, status: int) -> Any:
        return steps.last["work"] + (2 if problem.first_step is None else 1)

    def attempt(self, problem: Problem, c: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """(the carry after one attempt, what it keeps)"""
        fails, t_new, h = step_of(problem, c)
        t, y, n = c["t"], c["y"], c["y"].shape[0]
        ht, hy, hh, hf = held(t), held(y), held(h), held(c["f"])
        jacobian, eye = jacobian_of(problem, self.jac), np.eye(n)

        def residual(z: Any, t: Any, y: Any, h: Any) -> Any:
            """Of the equations of the stages *z* (3, n)."""
            rates = each(lambda stage: problem.fun(t + h * stage[0], y + stage[1]), (C, z))
            return z - h * (A @ rates)

        J = jacobian(ht, hy)
        blocks = A[:, None, :, None] * J[None, :, None, :]
        found = self._stages(
            lambda z: residual(z, ht, hy, hh), _factors(np.eye(3 * n) - hh * blocks.reshape(3 * n, 3 * n)), problem, hy
        )
        near = held(found["z"])
        each_stage = each(lambda stage: jacobian(ht + hh * stage[0], hy + stage[1]), (C, near))
        blocks = A[:, None, :, None] * np.transpose(each_stage, (1, 0, 2))[None]
        factors = _factors(np.eye(3 * n) - hh * blocks.reshape(3 * n, 3 * n))
        z = fori_loop(0, 2, lambda _, z: z - _solve(factors, residual(z, t, y, h)), near)
        y_new = y + z[2]
        f_new = problem.fun(t_new, y_new)

        ze = (E @ held(z)) / hh
        factors = _factors(_MU / hh * eye - J)
        scale = problem.atol + np.maximum(np.abs(hy), np.abs(held(y_new))) * problem.rtol
        error = _solve(factors, hf + ze)
        size = norm(error / scale)
        again = norm(_solve(factors, held(problem.fun(ht, hy + error)) + ze) / scale)
        size = np.where(c["refused"] & (size > 1), again, size)
        converged = found["state"] == _CONVERGED
        taken = (size <= 1) & converged & np.logical_not(fails)
        safety = SAFETY * (2 * _ITERATIONS + 1) / (2 * _ITERATIONS + found["count"])
        known = (c["error_old"] > 0) & (size > 0)
        positive = np.where(size > 0, size, 1.0)
        ratio = (
            np.abs(hh) / np.where(known, c["h_old"], 1.0) * (np.where(known, c["error_old"], 1.0) / positive) ** 0.25
        )
        factor = np.where(known, np.minimum(1.0, ratio), 1.0) * positive**-0.25
        factor = np.where(size > 0, safety * factor, MAX_FACTOR)
        factor = np.where(taken, np.minimum(MAX_FACTOR, factor), np.fmax(MIN_FACTOR, np.minimum(factor, 1.0)))
        factor = np.where(converged, factor, 0.5)
        work = c["work"] + 3 * found["count"] + np.where(c["refused"], 2, 1)
        more = {
            "work": work, "error_old": np.where(taken, size, c["error_old"]),
            "h_old": np.where(taken, np.abs(hh), c["h_old"]),
        }  # fmt: skip
        after, kept = finish(problem, c, fails, taken, (t_new, y_new, f_new), np.abs(hh) * factor, more)
        if problem.dense:
            kept |= {"t_old": t, "h": h, "y_old": y, "q": [column @ z for column in P.T]}
        return after, kept

    def _stages(self, residual: Callable[[Any], Any], factors: Any, problem: Problem, y: Any) -> Any:
        """The stages by simplified Newton iterations: ``z`` (3, n), their ``count``, their ``state``."""
        rtol = np.min(problem.rtol)
        tol = np.maximum(10 * np.finfo(float).eps / rtol, np.minimum(0.03, rtol**0.5))
        scale = problem.atol + np.abs(y) * problem.rtol

        def iterate(c: Any) -> Any:
            change = _solve(factors, residual(c["z"]))
            length = norm(change / scale)
            later = c["count"] > 0
            rate = np.where(later, length / np.where(later, c["length"], 1.0), 0.0)
            left = rate / (1 - np.minimum(rate, 0.99)) * length
            enough = (length == 0) | (later & (left < tol))
            hopeless = np.logical_not(np.isfinite(length)) | (later & (rate >= 1)) | (c["count"] + 1 >= _ITERATIONS)
            state = np.where(enough, _CONVERGED, np.where(hopeless, _FAILED, _RUNNING))
            return {"z": c["z"] - change, "length": length, "count": c["count"] + 1, "state": state}

        return while_loop(
            lambda c: c["state"] == _RUNNING, iterate,
            {
                "z": np.zeros((3, y.shape[0])), "length": np.float64(0.0), "count": np.int64(0),
                "state": np.int64(_RUNNING),
            },
        )  # fmt: skip

    def within(self, rows: Any, x: Any) -> Any:
        """Values (times, n) at the parts *x* (times, 1) of the steps in *rows*."""
        first, second, third = rows["q"]
        return rows["y_old"] + x * (first + x * (second + x * third))
