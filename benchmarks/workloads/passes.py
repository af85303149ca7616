"""Programs that are fast where all is done in one pass, and nothing as long as the data times another size is stored:
attention, a mixture of Student's t, Poisson regression, a spline's coefficients, particles that repel each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from ..workload import Workload

# ---- one head of attention: 512 queries and keys of 64, float32


def attention(Q, K, V, target):
    scores = Q @ K.T / 8.0
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    out = (weights / np.sum(weights, axis=1, keepdims=True)) @ V
    return np.mean((out - target) ** 2)


def attention_by_hand(Q, K, V, target):
    scores = Q @ K.T / 8.0
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    error = p @ V - target
    d_out = 2.0 * error / error.size
    d_p = d_out @ V.T
    d_scores = p * (d_p - np.sum(d_p * p, axis=1, keepdims=True)) / 8.0
    return np.mean(error**2), (d_scores @ K, d_scores.T @ Q, p.T @ d_out)


def attention_limit() -> Callable[..., Any]:
    """Blocks of 64 queries: six products through BLAS, one loop between them."""
    from numba import njit

    from ..vecmath import FAST, exp

    @njit(**FAST)
    def soften(scores, p):
        for i in range(scores.shape[0]):
            row, out, top, total = scores[i], p[i], scores[i, 0], np.float32(0.0)
            for j in range(row.size):
                top = max(top, row[j])
            for j in range(row.size):
                out[j] = exp((row[j] - top) * np.float32(0.125))
                total += out[j]
            scale = np.float32(1.0) / total
            for j in range(row.size):
                out[j] *= scale

    @njit(**FAST)
    def harden(p, slopes):
        for i in range(p.shape[0]):
            row, out, mean = p[i], slopes[i], np.float32(0.0)
            for j in range(row.size):
                mean += row[j] * out[j]
            for j in range(row.size):
                out[j] = np.float32(0.125) * row[j] * (out[j] - mean)

    @njit(**FAST)
    def kernel(Q, K, V, target):
        n, d = Q.shape
        block, value = 64, 0.0
        d_q, d_k, d_v = np.empty_like(Q), np.zeros_like(K), np.zeros_like(V)
        scores, p, error = np.empty((block, n), Q.dtype), np.empty((block, n), Q.dtype), np.empty((block, d), Q.dtype)
        part, scale = np.empty_like(K), np.float32(2.0 / (n * d))
        for start in range(0, n, block):
            q, wanted = Q[start : start + block], target[start : start + block]
            np.dot(q, K.T, scores)
            soften(scores, p)
            np.dot(p, V, error)
            for i in range(block):
                for j in range(d):
                    difference = error[i, j] - wanted[i, j]
                    value += difference * difference
                    error[i, j] = difference * scale
            np.dot(error, V.T, scores)
            np.dot(p.T, error, part)
            d_v += part
            harden(p, scores)
            np.dot(scores, K, d_q[start : start + block])
            np.dot(scores.T, q, part)
            d_k += part
        return value / (n * d), (d_q, d_k, d_v)

    return kernel


def attention_args() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple([rng.standard_normal((512, 64)).astype(np.float32) for _ in range(4)])


# ---- a mixture of 50 Student's t with diagonal scales, 2,000 points of 5


def student(means, log_scales, log_freedom, logits, X):
    freedom, d = np.exp(log_freedom), X.shape[1]
    z = (X[:, None, :] - means) * np.exp(-log_scales)
    density = special.gammaln((freedom + d) / 2) - special.gammaln(freedom / 2) - 0.5 * d * np.log(freedom * np.pi)
    density = density - np.sum(log_scales, axis=1)
    density = density - (freedom + d) / 2 * np.log1p(np.sum(z * z, axis=2) / freedom)
    return -np.sum(special.logsumexp(density + logits - special.logsumexp(logits), axis=1))


def student_by_hand(means, log_scales, log_freedom, logits, X):
    freedom, (n, d) = np.exp(log_freedom), X.shape
    half = (freedom + d) / 2
    z = (X[:, None, :] - means) * np.exp(-log_scales)
    q = np.sum(z * z, axis=2)
    density = special.gammaln(half) - special.gammaln(freedom / 2) - 0.5 * d * np.log(freedom * np.pi)
    density = density - log_scales.sum(axis=1) - half * np.log1p(q / freedom) + logits - special.logsumexp(logits)
    top = density.max(axis=1, keepdims=True)
    w = np.exp(density - top)
    total = w.sum(axis=1, keepdims=True)
    w /= total
    value = -np.sum(np.log(total) + top)
    slope = w * half / (freedom + q)  # of the density by -q
    of_freedom = special.digamma(half) / 2 - special.digamma(freedom / 2) / 2 - 0.5 * d / freedom
    of_freedom = of_freedom - np.log1p(q / freedom) / 2 + half * q / (freedom * (freedom + q))
    d_means = -2.0 * np.einsum("nk,nkd->kd", slope, z) * np.exp(-log_scales)
    d_scales = w.sum(axis=0)[:, None] - 2.0 * np.einsum("nk,nkd->kd", slope, z * z)
    d_logits = -w.sum(axis=0) + n * np.exp(logits - special.logsumexp(logits))
    return value, (d_means, d_scales, -np.sum(w * of_freedom, axis=0) * freedom, d_logits)


def student_limit() -> Callable[..., Any]:
    """One pass by blocks of 64 points; the points of a block are in the lanes."""
    from numba import njit

    from ..vecmath import FAST, exp, log, log1p

    block = 64

    @njit(**FAST)
    def forward(x, size, means, inverse, freedom, half, bias, density, q):
        k, d = means.shape
        for c in range(k):
            row, out = q[c], density[c]
            row[:] = 0.0
            for a in range(d):
                m, s, coordinate = means[c, a], inverse[c, a], x[a]
                for p in range(size):
                    z = (coordinate[p] - m) * s
                    row[p] += z * z
            f, h, b = 1.0 / freedom[c], half[c], bias[c]
            for p in range(size):
                out[p] = b - h * log1p(row[p] * f)

    @njit(**FAST)
    def weigh(density, size, w, top, mass):
        total = 0.0
        for p in range(size):
            top[p], mass[p] = density[0, p], 0.0
        for c in range(1, len(density)):
            row = density[c]
            for p in range(size):
                top[p] = max(top[p], row[p])
        for c in range(len(density)):
            row, out = density[c], w[c]
            for p in range(size):
                out[p] = exp(row[p] - top[p])
                mass[p] += out[p]
        for p in range(size):
            total += log(mass[p]) + top[p]
            mass[p] = 1.0 / mass[p]
        return total

    @njit(**FAST)
    def backward(
        x, size, means, inverse, freedom, half, bias, density, w, q, mass, shares, logs, excess, first, second
    ):
        k, d = means.shape
        for c in range(k):
            row, sizes, inner = w[c], q[c], density[c]
            share, log_sum, over, f, h, b = 0.0, 0.0, 0.0, freedom[c], half[c], bias[c]
            for p in range(size):
                weight = row[p] * mass[p]
                share += weight
                log_sum += weight * (b - inner[p]) / h
                slope = weight * h / (f + sizes[p])
                over += slope * sizes[p]
                row[p] = slope
            shares[c] += share
            logs[c] += log_sum
            excess[c] += over
            for a in range(d):
                m, s, coordinate, one, two = means[c, a], inverse[c, a], x[a], 0.0, 0.0
                for p in range(size):
                    z = (coordinate[p] - m) * s
                    one += row[p] * z
                    two += row[p] * z * z
                first[c, a] += one
                second[c, a] += two

    @njit(**FAST)
    def kernel(means, inverse, freedom, half, bias, X):
        (k, d), n = means.shape, len(X)
        shares, logs, excess = np.zeros(k), np.zeros(k), np.zeros(k)
        first, second, value = np.zeros((k, d)), np.zeros((k, d)), 0.0
        x, q, density, w = np.empty((d, block)), np.empty((k, block)), np.empty((k, block)), np.empty((k, block))
        top, mass = np.empty(block), np.empty(block)
        for start in range(0, n, block):
            size = min(block, n - start)
            for p in range(size):
                for a in range(d):
                    x[a, p] = X[start + p, a]
            forward(x, size, means, inverse, freedom, half, bias, density, q)
            value -= weigh(density, size, w, top, mass)
            backward(
                x, size, means, inverse, freedom, half, bias, density, w, q, mass, shares, logs, excess, first, second
            )
        return value, shares, logs, excess, first, second

    def value_and_grad(means, log_scales, log_freedom, logits, X):
        freedom, (n, d), inverse = np.exp(log_freedom), X.shape, np.exp(-log_scales)
        half, whole = (freedom + d) / 2, special.logsumexp(logits)
        bias = special.gammaln(half) - special.gammaln(freedom / 2) - 0.5 * d * np.log(freedom * np.pi)
        bias = bias - log_scales.sum(axis=1) + logits - whole
        value, shares, logs, excess, first, second = kernel(means, inverse, freedom, half, bias, X)
        of_freedom = (special.digamma(half) - special.digamma(freedom / 2)) / 2 - 0.5 * d / freedom
        d_freedom = -(shares * of_freedom - logs / 2 + excess / freedom) * freedom
        d_logits = n * np.exp(logits - whole) - shares
        return value, (-2.0 * first * inverse, shares[:, None] - 2.0 * second, d_freedom, d_logits)

    return value_and_grad


def student_args() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    k, d = 50, 5
    return (
        rng.standard_normal((k, d)), 0.1 * rng.standard_normal((k, d)), 1.0 + 0.1 * rng.standard_normal(k),
        0.1 * rng.standard_normal(k), rng.standard_normal((2000, d)),
    )  # fmt: skip


# ---- Poisson regression: 100,000 x 30


def poisson(w, X, y):
    rate = X @ w
    return np.mean(np.exp(rate) - y * rate)


def poisson_by_hand(w, X, y):
    rate = X @ w
    e = np.exp(rate)
    return np.mean(e - y * rate), X.T @ (e - y) / len(y)


def poisson_limit() -> Callable[..., Any]:
    """One pass over X, by blocks of 256 rows: both products through BLAS."""
    from numba import njit

    from ..vecmath import FAST, exp

    @njit(**FAST)
    def link(rate, y):
        total = 0.0
        for i in range(rate.size):
            e = exp(rate[i])
            total += e - y[i] * rate[i]
            rate[i] = e - y[i]
        return total

    @njit(**FAST)
    def kernel(w, X, y):
        n, block = len(X), 256
        gradient, value = np.zeros(w.size), 0.0
        for start in range(0, n, block):
            rows = X[start : min(start + block, n)]
            rate = np.dot(rows, w)
            value += link(rate, y[start : start + len(rows)])
            gradient += np.dot(rate, rows)
        return value / n, gradient / n

    return kernel


def poisson_args() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return 0.1 * rng.standard_normal(30), 0.3 * rng.standard_normal((100_000, 30)), rng.poisson(1.0, 100_000) * 1.0


# ---- a cubic spline of 12 knots in the basis of truncated powers, at 100,000 points

KNOTS = [0.08 * k for k in range(1, 13)]


def spline(c, x, y):
    basis = [np.ones_like(x), x, x**2, x**3] + [np.maximum(x - knot, 0.0) ** 3 for knot in KNOTS]
    return np.mean((np.stack(basis, axis=1) @ c - y) ** 2) + 1e-3 * np.sum(c[4:] ** 2)


def spline_by_hand(c, x, y):
    basis = np.stack([x**0, x, x**2, x**3, *[np.maximum(x - knot, 0.0) ** 3 for knot in KNOTS]], axis=1)
    error = basis @ c - y
    gradient = 2.0 * basis.T @ error / len(x)
    gradient[4:] += 2e-3 * c[4:]
    return np.mean(error**2) + 1e-3 * np.sum(c[4:] ** 2), gradient


def spline_limit() -> Callable[..., Any]:
    """One pass by blocks of 256 points, whose basis stays in cache."""
    from numba import njit

    from ..vecmath import FAST

    knots, block = np.array(KNOTS), 256

    @njit(**FAST)
    def basis_of(x, y, c, basis, error):
        for p in range(x.size):
            square = x[p] * x[p]
            basis[0, p], basis[1, p], basis[2, p], basis[3, p] = 1.0, x[p], square, square * x[p]
            error[p] = c[0] + c[1] * x[p] + c[2] * square + c[3] * square * x[p] - y[p]
        for k in range(0, knots.size, 2):
            first, second, one, two = knots[k], knots[k + 1], c[4 + k], c[5 + k]
            row, next_row = basis[4 + k], basis[5 + k]
            for p in range(x.size):
                u, v = max(x[p] - first, 0.0), max(x[p] - second, 0.0)
                row[p], next_row[p] = u * u * u, v * v * v
                error[p] += one * row[p] + two * next_row[p]

    @njit(**FAST)
    def sums(basis, error, size, gradient):
        value = 0.0
        for p in range(size):
            value += error[p] * error[p]
        for k in range(0, len(basis), 4):
            r0, r1, r2, r3 = basis[k], basis[k + 1], basis[k + 2], basis[k + 3]
            t0 = t1 = t2 = t3 = 0.0
            for p in range(size):
                e = error[p]
                t0 += r0[p] * e
                t1 += r1[p] * e
                t2 += r2[p] * e
                t3 += r3[p] * e
            gradient[k] += t0
            gradient[k + 1] += t1
            gradient[k + 2] += t2
            gradient[k + 3] += t3
        return value

    @njit(**FAST)
    def kernel(c, x, y):
        n, value, gradient = len(x), 0.0, np.zeros(c.size)
        basis, error = np.empty((c.size, block)), np.empty(block)
        for start in range(0, n, block):
            size = min(block, n - start)
            basis_of(x[start : start + size], y[start : start + size], c, basis, error)
            value += sums(basis, error, size, gradient)
        value /= n
        for k in range(c.size):
            gradient[k] *= 2.0 / n
            if k >= 4:
                gradient[k] += 2e-3 * c[k]
                value += 1e-3 * c[k] * c[k]
        return value, gradient

    return kernel


def spline_args() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return 0.1 * rng.standard_normal(4 + len(KNOTS)), rng.random(100_000), rng.standard_normal(100_000)


# ---- the energy of 1,000 particles by Lennard and Jones


def lennard_jones(positions):
    away = positions[:, None, :] - positions[None, :, :]
    self = np.eye(len(positions))
    s = 1.0 / (np.sum(away * away, axis=-1) + self) ** 3
    return 2.0 * np.sum((s * s - s) * (1.0 - self))


def lennard_jones_by_hand(positions):
    away = positions[:, None, :] - positions[None, :, :]
    r2 = np.sum(away * away, axis=-1)
    np.fill_diagonal(r2, np.inf)
    s = 1.0 / r2**3
    slope = -24.0 * (2.0 * s * s - s) / r2
    return 2.0 * np.sum(s * s - s), np.sum(slope[:, :, None] * away, axis=1)


def lennard_jones_limit() -> Callable[..., Any]:
    """Each pair twice, so that nothing is scattered; the partners are in the lanes."""
    from numba import njit

    from ..vecmath import FAST

    @njit(**FAST)
    def row(x, y, z, i, low, high):
        value, fx, fy, fz = 0.0, 0.0, 0.0, 0.0
        a, b, c = x[i], y[i], z[i]
        for j in range(low, high):
            dx, dy, dz = a - x[j], b - y[j], c - z[j]
            inverse = 1.0 / (dx * dx + dy * dy + dz * dz)
            s = inverse * inverse * inverse
            value += s * s - s
            slope = (s - 2.0 * s * s) * inverse
            fx += slope * dx
            fy += slope * dy
            fz += slope * dz
        return value, fx, fy, fz

    @njit(**FAST)
    def kernel(positions):
        n = len(positions)
        x, y, z = positions[:, 0].copy(), positions[:, 1].copy(), positions[:, 2].copy()
        value, forces = 0.0, np.empty_like(positions)
        for i in range(n):
            one, two = row(x, y, z, i, 0, i), row(x, y, z, i, i + 1, n)
            value += one[0] + two[0]
            for k in range(3):
                forces[i, k] = 24.0 * (one[k + 1] + two[k + 1])
        return 2.0 * value, forces

    return kernel


def lennard_jones_args() -> tuple[np.ndarray, ...]:
    lattice = np.stack(np.meshgrid(*[np.arange(10.0)] * 3), -1).reshape(-1, 3)
    return (1.2 * lattice + 0.05 * np.random.default_rng(0).standard_normal((1000, 3)),)


def _row(name: str, fn: Any, args: Any, by_hand: Any, limit: Any, **more: Any) -> Workload:
    return Workload(
        name=name, group="passes", fn=fn, make_args=args, hand_gradient=by_hand, limit=limit, **more
    )  # fmt: skip


WORKLOADS = [
    _row(
        "attention_512x64_f32", attention, attention_args, attention_by_hand, attention_limit, argnums=(0, 1, 2),
        tolerance=2e-5,
    ),
    _row("student_2k_K50", student, student_args, student_by_hand, student_limit, argnums=(0, 1, 2, 3)),
    _row("poisson_100000x30", poisson, poisson_args, poisson_by_hand, poisson_limit),
    _row("spline_100000", spline, spline_args, spline_by_hand, spline_limit),
    _row("lennard_jones_1000", lennard_jones, lennard_jones_args, lennard_jones_by_hand, lennard_jones_limit),
]  # fmt: skip
