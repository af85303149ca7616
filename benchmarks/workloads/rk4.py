"""Lotka-Volterra by the classical Runge-Kutta method: a state of two numbers, a plain Python loop over the steps.

Differentiated are the four rates.  There is next to nothing to compute in a step, so that what is measured is the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Workload

DT = 0.01
TARGET = np.array([1.5, 0.8])


def rates(u, p):
    prey, predators = u[0], u[1]
    return np.stack([p[0] * prey - p[1] * prey * predators, p[2] * prey * predators - p[3] * predators])


def rk4_step(u, p):
    k1 = rates(u, p)
    k2 = rates(u + 0.5 * DT * k1, p)
    k3 = rates(u + 0.5 * DT * k2, p)
    k4 = rates(u + DT * k3, p)
    return u + DT / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def plain(steps: int) -> Callable[..., Any]:
    def loss(p, u0, target):
        u = u0
        for _ in range(steps):
            u = rk4_step(u, p)
        return np.sum((u - target) ** 2)

    return loss


def tracegrad_explicit(steps: int) -> Callable[..., Any]:
    import tracegrad

    def loss(p, u0, target):
        u = tracegrad.fori_loop(0, steps, lambda _, u: rk4_step(u, p), u0)
        return np.sum((u - target) ** 2)

    return loss


def jax_scan(steps: int) -> Callable[..., Any]:
    """The state as a pair of scalars: on XLA's CPU backend a step over arrays of two costs more."""
    import jax

    def rates(x, y, p):
        return p[0] * x - p[1] * x * y, p[2] * x * y - p[3] * y

    def loss(p, u0, target):
        def step(u, _):
            x, y = u
            a1, b1 = rates(x, y, p)
            a2, b2 = rates(x + 0.5 * DT * a1, y + 0.5 * DT * b1, p)
            a3, b3 = rates(x + 0.5 * DT * a2, y + 0.5 * DT * b2, p)
            a4, b4 = rates(x + DT * a3, y + DT * b3, p)
            x = x + DT / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
            y = y + DT / 6.0 * (b1 + 2.0 * b2 + 2.0 * b3 + b4)
            return (x, y), None

        (x, y), _ = jax.lax.scan(step, (u0[0], u0[1]), None, length=steps)
        return (x - target[0]) ** 2 + (y - target[1]) ** 2

    return loss


def kernel_by_hand(states, dt, p, u0, target):
    """Forward over the steps, keeping the states (steps, 2); backward with the stages of a step computed again."""
    steps = states.shape[0]
    a, b, c, d = p[0], p[1], p[2], p[3]
    x, y = u0[0], u0[1]
    half, sixth = 0.5 * dt, dt / 6.0
    for n in range(steps):
        states[n, 0], states[n, 1] = x, y
        f1, g1 = a * x - b * x * y, c * x * y - d * y
        x2, y2 = x + half * f1, y + half * g1
        f2, g2 = a * x2 - b * x2 * y2, c * x2 * y2 - d * y2
        x3, y3 = x + half * f2, y + half * g2
        f3, g3 = a * x3 - b * x3 * y3, c * x3 * y3 - d * y3
        x4, y4 = x + dt * f3, y + dt * g3
        f4, g4 = a * x4 - b * x4 * y4, c * x4 * y4 - d * y4
        x += sixth * (f1 + 2.0 * f2 + 2.0 * f3 + f4)
        y += sixth * (g1 + 2.0 * g2 + 2.0 * g3 + g4)
    value = (x - target[0]) ** 2 + (y - target[1]) ** 2
    dx, dy = 2.0 * (x - target[0]), 2.0 * (y - target[1])
    da = db = dc = dd = 0.0
    for n in range(steps - 1, -1, -1):
        x, y = states[n, 0], states[n, 1]
        f1, g1 = a * x - b * x * y, c * x * y - d * y
        x2, y2 = x + half * f1, y + half * g1
        f2, g2 = a * x2 - b * x2 * y2, c * x2 * y2 - d * y2
        x3, y3 = x + half * f2, y + half * g2
        f3, g3 = a * x3 - b * x3 * y3, c * x3 * y3 - d * y3
        x4, y4 = x + dt * f3, y + dt * g3
        # df and dg are the cotangents of a stage's rates, ex and ey those of the point where they were taken
        df, dg = sixth * dx, sixth * dy
        ex, ey = (a - b * y4) * df + c * y4 * dg, (c * x4 - d) * dg - b * x4 * df
        da, db, dc, dd = da + x4 * df, db - x4 * y4 * df, dc + x4 * y4 * dg, dd - y4 * dg
        sx, sy = dx + ex, dy + ey
        df, dg = 2.0 * sixth * dx + dt * ex, 2.0 * sixth * dy + dt * ey
        ex, ey = (a - b * y3) * df + c * y3 * dg, (c * x3 - d) * dg - b * x3 * df
        da, db, dc, dd = da + x3 * df, db - x3 * y3 * df, dc + x3 * y3 * dg, dd - y3 * dg
        sx, sy = sx + ex, sy + ey
        df, dg = 2.0 * sixth * dx + half * ex, 2.0 * sixth * dy + half * ey
        ex, ey = (a - b * y2) * df + c * y2 * dg, (c * x2 - d) * dg - b * x2 * df
        da, db, dc, dd = da + x2 * df, db - x2 * y2 * df, dc + x2 * y2 * dg, dd - y2 * dg
        sx, sy = sx + ex, sy + ey
        df, dg = sixth * dx + half * ex, sixth * dy + half * ey
        ex, ey = (a - b * y) * df + c * y * dg, (c * x - d) * dg - b * x * df
        da, db, dc, dd = da + x * df, db - x * y * df, dc + x * y * dg, dd - y * dg
        dx, dy = sx + ex, sy + ey
    return value, np.array([da, db, dc, dd])


def by_hand(steps: int, kernel: Callable[..., Any] = kernel_by_hand) -> Callable[..., Any]:
    states = np.empty((steps, 2))
    return lambda p, u0, target: kernel(states, DT, p, u0, target)


def limit(steps: int) -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST

    return by_hand(steps, njit(**FAST)(kernel_by_hand))


def workload(steps: int) -> Workload:
    return Workload(
        name=f"rk4_{steps}",
        group="rk4",
        fn=plain(steps),
        make_args=lambda: (np.array([1.1, 0.4, 0.1, 0.4]), np.array([5.0, 3.0]), TARGET),
        hand_gradient=by_hand(steps),
        limit=lambda: limit(steps),
        spellings={"tracegrad-explicit": lambda: tracegrad_explicit(steps), "jax": lambda: jax_scan(steps)},
        reasons={"tracegrad-explicit": "fori_loop", "jax": "lax.scan over a pair of scalars"},
    )


WORKLOADS = [workload(50), workload(200), workload(1_000), workload(20_000)]
SMALL = [workload(10)]
