"""The log-likelihood of a Kalman filter: four states, one observed number a step, a plain Python loop over the steps.

Differentiated are the transition matrix, the covariance of its noise, and the variance of the observation's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..workload import Workload

STATES = 4


def update(m, P, likelihood, y, p, h):
    """One step: predict, compare with the observation, correct."""
    m = p["F"] @ m
    P = p["F"] @ P @ p["F"].T + p["Q"]
    s = h @ P @ h + p["r"]
    v = y - h @ m
    gain = P @ h / s
    likelihood = likelihood - 0.5 * (np.log(s) + v * v / s)
    return m + gain * v, P - np.outer(gain, h @ P), likelihood


def plain(p, h, m0, P0, ys):
    """h, m0: (4,), P0: (4, 4), ys: (steps,)."""
    m, P, likelihood = m0, P0, 0.0
    for y in ys:
        m, P, likelihood = update(m, P, likelihood, y, p, h)
    return likelihood


def tracegrad_explicit() -> Callable[..., Any]:
    import tracegrad

    def loss(p, h, m0, P0, ys):
        (_, _, likelihood), _ = tracegrad.scan(lambda c, y: (update(*c, y, p, h), None), (m0, P0, 0.0), ys)
        return likelihood

    return loss


def jax_scan() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    from ..workload import rebind

    step = rebind(update, np=jnp)

    def loss(p, h, m0, P0, ys):
        (_, _, likelihood), _ = jax.lax.scan(lambda c, y: (step(*c, y, p, h), None), (m0, P0, 0.0), ys)
        return likelihood

    return loss


@lru_cache(maxsize=1)
def _room(steps: int, n: int) -> tuple[np.ndarray, ...]:
    """Kept between calls: means, covariances and predicted ones, their products with h, innovations and variances."""
    matrices = np.empty((2, steps, n, n))
    vectors, numbers = np.empty((3, steps, n)), np.empty((2, steps))
    return vectors[0], matrices[0], matrices[1], vectors[1], vectors[2], numbers[0], numbers[1]


def kernel_by_hand(F, Q, r, h, m0, P0, ys, room):
    """Forward keeping what the backward reads; products of 4x4 matrices written out, for which BLAS is no help."""
    steps, n = ys.size, STATES  # a constant, so that loops are written out
    ms, Ps, predicted, gs, ws, ss, vs = room
    m, P, T = m0.copy(), P0.copy(), np.empty((n, n))
    value = 0.0
    for t in range(steps):
        for i in range(n):
            ms[t, i] = m[i]
            for j in range(n):
                Ps[t, i, j] = P[i, j]
        v, s = ys[t], r
        for i in range(n):
            for j in range(n):
                total = 0.0
                for k in range(n):
                    total += F[i, k] * P[k, j]
                T[i, j] = total
        for i in range(n):
            total = 0.0
            for k in range(n):
                total += F[i, k] * ms[t, k]
            m[i] = total
            v -= h[i] * total
            for j in range(n):
                total = Q[i, j]
                for k in range(n):
                    total += T[i, k] * F[j, k]
                predicted[t, i, j] = total
        for i in range(n):
            g, w = 0.0, 0.0
            for k in range(n):
                g += predicted[t, i, k] * h[k]
                w += h[k] * predicted[t, k, i]
            gs[t, i], ws[t, i] = g, w
            s += h[i] * g
        ss[t], vs[t] = s, v
        value -= 0.5 * (np.log(s) + v * v / s)
        for i in range(n):
            gain = gs[t, i] / s
            m[i] += gain * v
            for j in range(n):
                P[i, j] = predicted[t, i, j] - gain * ws[t, j]

    dF, dQ, dr = np.zeros((n, n)), np.zeros((n, n)), 0.0
    dm, dP, dg = np.zeros(n), np.zeros((n, n)), np.zeros(n)
    U, V = np.empty((n, n)), np.empty((n, n))
    for t in range(steps - 1, -1, -1):
        s, v = ss[t], vs[t]
        ds, dv = -0.5 * (1.0 / s - v * v / (s * s)), -v / s
        for i in range(n):
            gain = gs[t, i] / s
            dgain = v * dm[i]
            dv += gain * dm[i]
            for j in range(n):
                dgain -= dP[i, j] * ws[t, j]
            dg[i] = dgain / s
            ds -= dgain * gain / s
        for j in range(n):  # through h @ P, before dP takes in its share
            dw = 0.0
            for i in range(n):
                dw -= dP[i, j] * gs[t, i] / s
            T[0, j] = dw
        for i in range(n):
            dg[i] += ds * h[i]
        dr += ds
        for i in range(n):
            dm[i] -= dv * h[i]
            for j in range(n):
                dP[i, j] += h[i] * T[0, j] + dg[i] * h[j]
        for i in range(n):
            for j in range(n):
                dQ[i, j] += dP[i, j]
                u, w = 0.0, 0.0
                for k in range(n):
                    u += dP[i, k] * F[k, j]
                    w += dP[k, i] * F[k, j]
                U[i, j], V[i, j] = u, w
        for i in range(n):
            for j in range(n):
                total = dm[i] * ms[t, j]
                for k in range(n):
                    total += U[i, k] * Ps[t, j, k] + V[i, k] * Ps[t, k, j]
                dF[i, j] += total
        for i in range(n):
            total = 0.0
            for k in range(n):
                total += F[k, i] * dm[k]
            dg[i] = total
            for j in range(n):
                total = 0.0
                for k in range(n):
                    total += F[k, i] * U[k, j]
                dP[i, j] = total
        for i in range(n):
            dm[i] = dg[i]
    return value, dF, dQ, dr


def _unpacked(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def value_and_grad(p, h, m0, P0, ys):
        value, dF, dQ, dr = kernel(p["F"], p["Q"], p["r"], h, m0, P0, ys, _room(ys.size, h.size))
        return value, {"F": dF, "Q": dQ, "r": dr}

    return value_and_grad


def limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST

    return _unpacked(njit(**FAST)(kernel_by_hand))


def _make_args(steps: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    F = np.eye(STATES) + 0.1 * np.eye(STATES, k=2) - 0.05 * np.eye(STATES, k=-2)
    p = {"F": 0.98 * F, "Q": 0.05 * np.eye(STATES) + 0.01, "r": 0.5}
    h = np.array([1.0, 0.5, 0.0, 0.2])
    return p, h, np.zeros(STATES), np.eye(STATES), rng.standard_normal(steps)


def workload(steps: int) -> Workload:
    return Workload(
        name=f"kalman_{steps}",
        group="kalman",
        fn=plain,
        make_args=lambda: _make_args(steps),
        hand_gradient=_unpacked(kernel_by_hand),
        limit=limit,
        spellings={"tracegrad-explicit": tracegrad_explicit, "jax": jax_scan},
        reasons={"tracegrad-explicit": "scan", "jax": "lax.scan"},
    )


WORKLOADS = [workload(500)]
SMALL = [workload(8)]
