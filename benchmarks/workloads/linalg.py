"""Linear algebra: a Kalman filter with ``np.linalg.inv`` in its loop, a batch of small systems, a Cholesky factor.

The filter has four states and two observed numbers a step; differentiated are the transition matrix and both
covariances, of each step's 500.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Workload

# ---- the filter ------------------------------------------------------------------------------------------------------


def update(m, P, likelihood, y, F, Q, R, H):
    """One step: predict, compare with the observation, correct."""
    m = F @ m
    P = F @ P @ F.T + Q
    S = H @ P @ H.T + R
    v = y - H @ m
    inverse = np.linalg.inv(S)
    gain = P @ H.T @ inverse
    likelihood = likelihood - 0.5 * (np.linalg.slogdet(S)[1] + v @ inverse @ v)
    return m + gain @ v, P - gain @ H @ P, likelihood


def kalman(F, Q, R, H, m0, P0, ys):
    """ys: (steps, observed)."""
    m, P, likelihood = m0, P0, 0.0
    for y in ys:
        m, P, likelihood = update(m, P, likelihood, y, F, Q, R, H)
    return likelihood


def jax_scan() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    from ..workload import rebind

    step = rebind(update, np=jnp)

    def loss(F, Q, R, H, m0, P0, ys):
        (_, _, likelihood), _ = jax.lax.scan(lambda c, y: (step(*c, y, F, Q, R, H), None), (m0, P0, 0.0), ys)
        return likelihood

    return loss


def mul(a, b, out):
    """out = a @ b of small matrices."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total


def filter_by_hand(F, Q, R, H, m0, P0, ys, mul):
    """Forward keeping what the backward reads; all sizes are small, so products are written out."""
    steps, n, k = len(ys), len(m0), len(H)
    means, Ps, predicted = np.empty((steps, n, 1)), np.empty((steps, n, n)), np.empty((steps, n, n))
    gains, inverses, vs = np.empty((steps, n, k)), np.empty((steps, k, k)), np.empty((steps, k, 1))
    HP, PH, S, U, V = np.empty((k, n)), np.empty((n, k)), np.empty((k, k)), np.empty((n, n)), np.empty((n, n))
    m, moved, kept, Si = np.empty((n, 1)), np.empty((n, 1)), np.empty((k, 1)), np.empty((k, k))
    FT, HT = np.ascontiguousarray(F.T), np.ascontiguousarray(H.T)
    P = P0.copy()
    m[:, 0] = m0
    value = 0.0
    for t in range(steps):
        means[t], Ps[t] = m, P
        mul(F, m, moved)
        mul(F, P, U)
        mul(U, FT, P)
        P += Q
        predicted[t] = P
        mul(P, HT, PH)
        mul(H, P, HP)
        mul(HP, HT, S)
        S += R
        det = S[0, 0] * S[1, 1] - S[0, 1] * S[1, 0]
        Si[0, 0], Si[1, 1], Si[0, 1], Si[1, 0] = S[1, 1] / det, S[0, 0] / det, -S[0, 1] / det, -S[1, 0] / det
        mul(H, moved, kept)
        for i in range(k):
            vs[t, i, 0] = ys[t, i] - kept[i, 0]
        mul(PH, Si, gains[t])
        mul(Si, vs[t], kept)
        value -= 0.5 * np.log(abs(det))
        for i in range(k):
            value -= 0.5 * vs[t, i, 0] * kept[i, 0]
        inverses[t] = Si
        mul(gains[t], vs[t], m)
        m += moved
        mul(gains[t], HP, U)
        P -= U

    dF, dQ, dR = np.zeros((n, n)), np.zeros((n, n)), np.zeros((k, k))
    dm, dP, dgain, dS, dSi = np.zeros((n, 1)), np.zeros((n, n)), np.empty((n, k)), np.empty((k, k)), np.empty((k, k))
    W = np.empty((k, k))
    for t in range(steps - 1, -1, -1):
        P, Si, v, gain = predicted[t], inverses[t], vs[t], gains[t]
        mul(H, P, HP)
        mul(dP, HP.T, dgain)
        for i in range(n):
            for j in range(k):
                dgain[i, j] = dm[i, 0] * v[j, 0] - dgain[i, j]
        mul(gain.T, dP, HP)  # (k, n)
        mul(HT, HP, U)
        dP -= U
        mul(dgain, Si.T, PH)
        mul(PH, H, U)
        dP += U
        mul(P.T, dgain, PH)
        mul(H, PH, dSi)
        for i in range(k):
            for j in range(k):
                dSi[i, j] -= 0.5 * v[i, 0] * v[j, 0]
        mul(Si.T, dSi, W)
        mul(W, Si.T, dS)
        for i in range(k):
            for j in range(k):
                dS[i, j] = -dS[i, j] - 0.5 * Si[j, i]
        dR += dS
        mul(HT, dS, PH)
        mul(PH, H, U)
        dP += U
        mul(gain.T, dm, kept)
        for i in range(k):
            for j in range(k):
                kept[i, 0] -= 0.5 * (Si[i, j] + Si[j, i]) * v[j, 0]
        mul(HT, kept, moved)
        dm -= moved
        dQ += dP
        mul(dP, F, U)
        mul(U, Ps[t].T, V)
        dF += V
        mul(dP.T, F, V)
        mul(FT, U, dP)
        mul(V, Ps[t], U)
        dF += U
        for i in range(n):
            for j in range(n):
                dF[i, j] += dm[i, 0] * means[t, j, 0]
        mul(FT, dm, moved)
        dm[:] = moved
    return value, dF, dQ, dR


def _filter_in_numpy(*args: Any) -> Any:
    value, *gradients = filter_by_hand(*args, lambda a, b, out: np.matmul(a, b, out=out))
    return value, tuple(gradients)


def _filter_limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FASTMATH

    product = njit(fastmath=FASTMATH)(mul)
    kernel = njit(fastmath=FASTMATH, error_model="numpy")(filter_by_hand)

    def value_and_grad(*args: Any) -> Any:
        value, *gradients = kernel(*args, product)
        return value, tuple(gradients)

    return value_and_grad


def _filter_args(steps: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    F = 0.98 * (np.eye(4) + 0.1 * np.eye(4, k=2) - 0.05 * np.eye(4, k=-2))
    H = np.array([[1.0, 0.5, 0.0, 0.2], [0.0, 0.3, 1.0, 0.0]])
    noise = 0.05 * np.eye(4) + 0.01, 0.5 * np.eye(2)
    return F, *noise, H, np.zeros(4), np.eye(4), rng.standard_normal((steps, 2))


def kalman_workload(steps: int) -> Workload:
    return Workload(
        name=f"kalman_inv_{steps}",
        group="linalg",
        fn=kalman,
        make_args=lambda: _filter_args(steps),
        argnums=(0, 1, 2),
        hand_gradient=_filter_in_numpy,
        limit=_filter_limit,
        spellings={"jax": jax_scan},
        reasons={"jax": "lax.scan"},
    )


# ---- small systems -------------------------------------------------------------------------------------------------


def solves(a, b):
    """a: (batch, 3, 3), b: (batch, 3, 1)."""
    x = np.linalg.solve(a, b)
    return np.sum(x * x)


def _solves_in_numpy(a: Any, b: Any) -> Any:
    x = np.linalg.solve(a, b)
    w = np.linalg.solve(np.swapaxes(a, -1, -2), 2.0 * x)
    return np.sum(x * x), (-w @ np.swapaxes(x, -1, -2), w)


def solves_by_hand(a, b):
    """By cofactors, without pivots."""
    value, da, db = 0.0, np.empty_like(a), np.empty_like(b)
    for t in range(len(a)):
        m = a[t]
        c00 = m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1]
        c01 = m[1, 2] * m[2, 0] - m[1, 0] * m[2, 2]
        c02 = m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0]
        c10 = m[0, 2] * m[2, 1] - m[0, 1] * m[2, 2]
        c11 = m[0, 0] * m[2, 2] - m[0, 2] * m[2, 0]
        c12 = m[0, 1] * m[2, 0] - m[0, 0] * m[2, 1]
        c20 = m[0, 1] * m[1, 2] - m[0, 2] * m[1, 1]
        c21 = m[0, 2] * m[1, 0] - m[0, 0] * m[1, 2]
        c22 = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        scale = 1.0 / (m[0, 0] * c00 + m[0, 1] * c01 + m[0, 2] * c02)
        p, q, r = b[t, 0, 0], b[t, 1, 0], b[t, 2, 0]
        x, y, z = ((c00 * p + c10 * q + c20 * r) * scale, (c01 * p + c11 * q + c21 * r) * scale,
                   (c02 * p + c12 * q + c22 * r) * scale)  # fmt: skip
        value += x * x + y * y + z * z
        w0 = 2.0 * scale * (c00 * x + c01 * y + c02 * z)
        w1 = 2.0 * scale * (c10 * x + c11 * y + c12 * z)
        w2 = 2.0 * scale * (c20 * x + c21 * y + c22 * z)
        db[t, 0, 0], db[t, 1, 0], db[t, 2, 0] = w0, w1, w2
        da[t, 0, 0], da[t, 0, 1], da[t, 0, 2] = -w0 * x, -w0 * y, -w0 * z
        da[t, 1, 0], da[t, 1, 1], da[t, 1, 2] = -w1 * x, -w1 * y, -w1 * z
        da[t, 2, 0], da[t, 2, 1], da[t, 2, 2] = -w2 * x, -w2 * y, -w2 * z
    return value, (da, db)


def _solves_limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FASTMATH

    return njit(fastmath=FASTMATH, error_model="numpy")(solves_by_hand)


def _systems(batch: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((batch, 3, 3)) + 6.0 * np.eye(3), rng.standard_normal((batch, 3, 1))


# ---- a large factor ------------------------------------------------------------------------------------------------


def cholesky(a, weights):
    return np.sum(weights * np.linalg.cholesky(0.5 * (a + a.T)))


def _cholesky_in_numpy(a: Any, weights: Any) -> Any:
    from scipy.linalg import solve_triangular

    root = np.linalg.cholesky(0.5 * (a + a.T))
    inner = root.T @ np.tril(weights)
    inner = 0.5 * (np.tril(inner, -1) + np.tril(inner).T)
    half = solve_triangular(root, inner, lower=True, trans=1)
    return np.sum(weights * root), solve_triangular(root, half.T, lower=True, trans=1).T


def _symmetric(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((n, n))
    return a @ a.T + n * np.eye(n), rng.standard_normal((n, n))


WORKLOADS = [
    Workload("solves_100000x3x3", "linalg", solves, lambda: _systems(100_000), (0, 1),
             hand_gradient=_solves_in_numpy, limit=_solves_limit),
    Workload("cholesky_500", "linalg", cholesky, lambda: _symmetric(500), hand_gradient=_cholesky_in_numpy),
]  # fmt: skip
FILTERS = [kalman_workload(500)]
SMALL = [kalman_workload(8)]
