"""The van der Pol oscillator by Fehlberg's adaptive method: `while t < t1`, steps taken or refused by their error.

Differentiated are the oscillator's two parameters, through the step sizes too, which depend on them by the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Workload, rebind

TOLERANCE = 1e-6
#: Fehlberg's coefficients: of the stages, of the fifth order solution, and of its difference from the fourth order one
STAGES = (
    (),
    (1 / 4,),
    (3 / 32, 9 / 32),
    (1932 / 2197, -7200 / 2197, 7296 / 2197),
    (439 / 216, -8.0, 3680 / 513, -845 / 4104),
    (-8 / 27, 2.0, -3544 / 2565, 1859 / 4104, -11 / 40),
)
FIFTH = (16 / 135, 0.0, 6656 / 12825, 28561 / 56430, -9 / 50, 2 / 55)
DIFFERENCE = (1 / 360, 0.0, -128 / 4275, -2197 / 75240, 1 / 50, 2 / 55)


def rates(u, p):
    return np.stack([u[1], p[0] * (1.0 - u[0] * u[0]) * u[1] - p[1] * u[0]])


def attempt(u, h, p):
    """(the state after a step of length h, its error in units of the tolerance)."""
    ks = []
    for row in STAGES:
        point = u
        for a, k in zip(row, ks, strict=True):
            point = point + h * a * k
        ks.append(rates(point, p))
    new, error = u, 0.0
    for b, d, k in zip(FIFTH, DIFFERENCE, ks, strict=True):
        if b:
            new, error = new + h * b * k, error + h * d * k
    return new, np.sqrt(np.mean((error / TOLERANCE) ** 2))


def plain(p, u, t, t1, h):
    """p, u: (2,); t, t1, h: numbers."""
    while t < t1:
        h = np.minimum(h, t1 - t)
        new, error = attempt(u, h, p)
        if error <= 1.0:
            t, u = t + h, new
        h = h * np.clip(0.9 * error**-0.2, 0.2, 5.0)
    return np.sum(u * u)


def _trial(np: Any) -> Callable[..., Any]:
    """(state, time, step) after an attempt, whether it was taken or not, without an `if`."""
    tried = rebind(attempt, np=np)

    def trial(u, t, h, t1, p):
        h = np.minimum(h, t1 - t)
        new, error = tried(u, h, p)
        accepted = error <= 1.0
        scale = np.clip(0.9 * error**-0.2, 0.2, 5.0)
        return np.where(accepted, new, u), np.where(accepted, t + h, t), h * scale

    return trial


def tracegrad_explicit() -> Callable[..., Any]:
    import tracegrad

    trial = _trial(np)

    def loss(p, u, t, t1, h):
        u, _, _ = tracegrad.while_loop(lambda c: c[1] < t1, lambda c: trial(*c, t1, p), (u, t, h))
        return np.sum(u * u)

    return loss


def jax_bounded(capacity: int) -> Callable[..., Any]:
    """A scan of as many steps as the integration may take; those after its end go the short way of a cond."""
    import jax

    trial = _trial(jax.numpy)

    def loss(p, u, t, t1, h):
        def step(carry, _):
            return jax.lax.cond(carry[1] < t1, lambda c: trial(*c, t1, p), lambda c: c, carry), None

        u = jax.lax.scan(step, (u, t, h), None, length=capacity)[0][0]
        return jax.numpy.sum(u * u)

    return loss


def kernel_by_hand(capacity, A, b, d, p, u0, t0, t1, h0):
    """Forward keeping state, time and step of each attempt; backward with the stages of an attempt computed again.

    A: (6, 6), b and d: (6,), the coefficients above.
    """
    us, ts, hs = np.empty((capacity, 2)), np.empty(capacity), np.empty(capacity)
    k, points, dk = np.empty((6, 2)), np.empty((6, 2)), np.empty((6, 2))
    p0, p1 = p[0], p[1]
    x, y, t, h, count = u0[0], u0[1], t0, h0, 0
    while t < t1:
        us[count, 0], us[count, 1], ts[count], hs[count] = x, y, t, h
        count += 1
        h = min(h, t1 - t)
        new_x, new_y, ex, ey = x, y, 0.0, 0.0
        for i in range(6):
            px, py = x, y
            for j in range(i):
                px += h * A[i, j] * k[j, 0]
                py += h * A[i, j] * k[j, 1]
            k[i, 0], k[i, 1] = py, p0 * (1.0 - px * px) * py - p1 * px
            new_x, new_y = new_x + h * b[i] * k[i, 0], new_y + h * b[i] * k[i, 1]
            ex, ey = ex + h * d[i] * k[i, 0], ey + h * d[i] * k[i, 1]
        error = np.sqrt(0.5 * (ex * ex + ey * ey)) / TOLERANCE
        if error <= 1.0:
            t, x, y = t + h, new_x, new_y
        h *= min(max(0.9 * error**-0.2, 0.2), 5.0)
    value = x * x + y * y

    dx, dy, dt, dh, dp0, dp1 = 2.0 * x, 2.0 * y, 0.0, 0.0, 0.0, 0.0
    for n in range(count - 1, -1, -1):
        x, y, t = us[n, 0], us[n, 1], ts[n]
        h = min(hs[n], t1 - t)
        ex, ey = 0.0, 0.0
        for i in range(6):
            px, py = x, y
            for j in range(i):
                px += h * A[i, j] * k[j, 0]
                py += h * A[i, j] * k[j, 1]
            points[i, 0], points[i, 1] = px, py
            k[i, 0], k[i, 1] = py, p0 * (1.0 - px * px) * py - p1 * px
            ex, ey = ex + d[i] * k[i, 0], ey + d[i] * k[i, 1]
        norm = np.sqrt(0.5 * (ex * ex + ey * ey))
        error = h * norm / TOLERANCE
        scale = 0.9 * error**-0.2
        derror = -0.2 * dh * h * scale / error if 0.2 < scale < 5.0 else 0.0
        dh = dh * min(max(scale, 0.2), 5.0) + derror * norm / TOLERANCE
        share = derror * h / TOLERANCE * 0.5 / norm
        new_dx, new_dy = 0.0, 0.0
        if error <= 1.0:
            dh += dt
            new_dx, new_dy = dx, dy
        for i in range(6):
            dk[i, 0], dk[i, 1] = h * b[i] * new_dx + share * ex * d[i], h * b[i] * new_dy + share * ey * d[i]
            dh += b[i] * (k[i, 0] * new_dx + k[i, 1] * new_dy)
        for i in range(5, -1, -1):
            px, py = points[i, 0], points[i, 1]
            gx, gy = dk[i, 0], dk[i, 1]
            dp0 += gy * (1.0 - px * px) * py
            dp1 -= gy * px
            dpx, dpy = -gy * (2.0 * p0 * px * py + p1), gx + gy * p0 * (1.0 - px * px)
            dx, dy = dx + dpx, dy + dpy
            for j in range(i):
                dk[j, 0], dk[j, 1] = dk[j, 0] + h * A[i, j] * dpx, dk[j, 1] + h * A[i, j] * dpy
                dh += A[i, j] * (k[j, 0] * dpx + k[j, 1] * dpy)
        if hs[n] > t1 - t:
            dt -= dh
            dh = 0.0
    return value, np.array([dp0, dp1])


def _by_hand(kernel: Callable[..., Any], capacity: int) -> Callable[..., Any]:
    A = np.array([[*row, *[0.0] * (6 - len(row))] for row in STAGES])
    b, d = np.array(FIFTH), np.array(DIFFERENCE)
    return lambda p, u, t, t1, h: kernel(capacity, A, b, d, p, u, t, t1, h)


def limit(capacity: int) -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST

    return _by_hand(njit(**FAST)(kernel_by_hand), capacity)


def workload(end: float, capacity: int) -> Workload:
    """`capacity`: steps that the peers with fixed room have: JAX's scan and the kernel by hand."""
    return Workload(
        name=f"rk45_to_{end:g}",
        group="rk45",
        fn=plain,
        make_args=lambda: (np.array([1.5, 1.0]), np.array([2.0, 0.0]), 0.0, end, 0.5),
        hand_gradient=_by_hand(kernel_by_hand, capacity),
        limit=lambda: limit(capacity),
        spellings={"tracegrad-explicit": tracegrad_explicit, "jax": lambda: jax_bounded(capacity)},
        reasons={
            "tracegrad-explicit": "while_loop, np.where for the `if`",
            "jax": f"lax.scan of {capacity} steps, lax.cond past the end: while_loop has no reverse mode",
        },
    )


WORKLOADS = [workload(20.0, 320)]
SMALL = [workload(0.6, 16)]
