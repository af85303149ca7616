"""The log-likelihood of a Gaussian mixture, as in the ADBench suite: the full objective with its Wishart prior.

Each of the K components has a weight `alphas[k]`, a mean `means[k]` and an inverse covariance factor `icf[k]`:
first the logarithms of the diagonal, then the strict lower triangle, column by column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from ..workload import Workload

GAMMA = 1.0  # of the Wishart prior
EXTRA = 0.0  # its degrees of freedom beyond d + 1, called m in ADBench


def prior_constant(d, k):
    """What the logarithm of the Wishart prior has that depends on no parameter."""
    freedom = d + EXTRA + 1.0
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi)
    for j in range(d):
        log_gamma += math.lgamma(0.5 * (freedom - j))
    return k * (freedom * d * (math.log(GAMMA) - 0.5 * math.log(2.0)) - log_gamma)


def log_likelihood(alphas, means, icf, X):
    (n, d), k = X.shape, len(alphas)
    log_diagonal, triangle = icf[:, :d], icf[:, d:]
    diagonal = np.exp(log_diagonal)
    sums = np.sum(log_diagonal, axis=1)

    # the factors as matrices: (K, d, d), lower triangular
    i, j = np.arange(d)[:, None], np.arange(d)[None, :]
    position = np.where(i > j, d * j - j * (j + 1) // 2 + i - j - 1, 0)
    factors = np.where(i > j, triangle[:, position], 0.0) + np.eye(d) * diagonal[:, None, :]

    # factors @ (x - mean) for every component and point: (K, d, n), by one large product
    shift = np.sum(factors * means[:, None, :], axis=2)
    scaled = (factors.reshape(k * d, d) @ X.T).reshape(k, d, n) - shift[:, :, None]
    inner = (alphas + sums)[:, None] - 0.5 * np.sum(scaled * scaled, axis=1)
    likelihood = np.sum(special.logsumexp(inner, axis=0)) - n * special.logsumexp(alphas, axis=0)
    prior = 0.5 * GAMMA**2 * (np.sum(diagonal**2) + np.sum(triangle**2)) - EXTRA * np.sum(sums)
    return likelihood - 0.5 * n * d * math.log(2.0 * math.pi) + prior - prior_constant(d, k)


def by_hand(alphas, means, icf, X):
    (n, d), k = X.shape, len(alphas)
    rows, columns = _triangle(d)
    diagonal = np.exp(icf[:, :d])
    factors = np.zeros((k, d, d))
    factors[:, range(d), range(d)] = diagonal
    factors[:, rows, columns] = icf[:, d:]
    sums = icf[:, :d].sum(axis=1)

    scaled = (factors.reshape(k * d, d) @ X.T).reshape(k, d, n)
    scaled -= np.sum(factors * means[:, None, :], axis=2)[:, :, None]
    inner = (alphas + sums)[:, None] - 0.5 * np.sum(scaled * scaled, axis=1)
    top = inner.max(axis=0)
    weights = np.exp(inner - top)
    total = weights.sum(axis=0)
    weights /= total
    a_top = alphas.max()
    a_weights = np.exp(alphas - a_top)
    a_total = a_weights.sum()
    value = np.sum(np.log(total) + top) - n * (np.log(a_total) + a_top)
    value += 0.5 * GAMMA**2 * (np.sum(diagonal**2) + np.sum(icf[:, d:] ** 2)) - EXTRA * sums.sum()
    value -= 0.5 * n * d * math.log(2.0 * math.pi) + prior_constant(d, k)

    shares = weights.sum(axis=1)
    scaled *= -weights[:, None, :]
    sums = scaled.sum(axis=2)
    d_factors = (scaled.reshape(k * d, n) @ X).reshape(k, d, d) - sums[:, :, None] * means[:, None, :]
    d_means = -np.sum(factors * sums[:, :, None], axis=1)
    d_icf = np.empty_like(icf)
    d_icf[:, :d] = shares[:, None] + d_factors[:, range(d), range(d)] * diagonal + GAMMA**2 * diagonal**2 - EXTRA
    d_icf[:, d:] = d_factors[:, rows, columns] + GAMMA**2 * icf[:, d:]
    return value, (shares - n * a_weights / a_total, d_means, d_icf)


BLOCK = 256  # points of a block: what is made of them stays in a second-level cache of 2 MB


def limit() -> Callable[..., Any]:
    """One pass over the points, by blocks: the two products through BLAS, one loop between them, nothing larger than a
    block in memory."""
    from numba import njit

    from ..vecmath import FAST, exp, log

    @njit(**FAST)
    def block(y, shift, bias, shares, sums, inner, top, mass, k, d):
        """Log-sum-exp over the components; leaves in `y` its derivative with respect to `y`."""
        size, total = y.shape[1], 0.0
        for c in range(k):
            row = inner[c, :size]
            for p in range(size):
                row[p] = bias[c]
            for a in range(c * d, c * d + d):
                z, s = y[a], shift[a]
                for p in range(size):
                    row[p] -= 0.5 * (z[p] - s) * (z[p] - s)
        for p in range(size):
            top[p], mass[p] = inner[0, p], 0.0
        for c in range(1, k):
            for p in range(size):
                top[p] = max(top[p], inner[c, p])
        for c in range(k):
            for p in range(size):
                inner[c, p] = exp(inner[c, p] - top[p])
                mass[p] += inner[c, p]
        for p in range(size):
            total += log(mass[p]) + top[p]
            mass[p] = 1.0 / mass[p]
        for c in range(k):
            row, share = inner[c, :size], 0.0
            for p in range(size):
                row[p] *= mass[p]
                share += row[p]
            shares[c] += share
            for a in range(c * d, c * d + d):
                z, s, slope = y[a], shift[a], 0.0
                for p in range(size):
                    z[p] = -row[p] * (z[p] - s)
                    slope += z[p]
                sums[a] += slope
        return total

    @njit(**FAST)
    def kernel(alphas, means, icf, X, constant):
        n, d = X.shape
        k = alphas.size
        factors, shift, bias = np.zeros((k * d, d)), np.zeros(k * d), alphas.copy()
        d_alphas, d_means, d_icf = np.zeros(k), np.zeros((k, d)), np.empty_like(icf)
        d_factors, part, sums = np.zeros((k * d, d)), np.empty((k * d, d)), np.zeros(k * d)
        for c in range(k):
            for j in range(d):
                factors[c * d + j, j] = math.exp(icf[c, j])
                bias[c] += icf[c, j]
                for i in range(j + 1, d):
                    factors[c * d + i, j] = icf[c, d + d * j - j * (j + 1) // 2 + i - j - 1]
            for i in range(d):
                for j in range(i + 1):
                    shift[c * d + i] += factors[c * d + i, j] * means[c, j]
        room, value = np.empty(k * d * BLOCK), 0.0
        inner, top, mass = np.empty((k, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
        for start in range(0, n, BLOCK):
            points = X[start : min(start + BLOCK, n)]
            y = room[: k * d * len(points)].reshape(k * d, len(points))
            np.dot(factors, np.ascontiguousarray(points.T), y)
            value += block(y, shift, bias, d_alphas, sums, inner, top, mass, k, d)
            np.dot(y, points, part)
            for a in range(k * d):
                for j in range(d):
                    d_factors[a, j] += part[a, j]
        top = alphas.max()
        mass = np.sum(np.exp(alphas - top))
        value -= n * (math.log(mass) + top) + constant
        for c in range(k):
            for i in range(d):
                total = sums[c * d + i]
                for j in range(i + 1):
                    factor = factors[c * d + i, j]
                    slope = d_factors[c * d + i, j] - total * means[c, j]
                    d_means[c, j] -= total * factor
                    value += 0.5 * GAMMA**2 * factor * factor
                    if i == j:
                        d_icf[c, i] = d_alphas[c] + slope * factor + GAMMA**2 * factor * factor - EXTRA
                        value -= EXTRA * icf[c, i]
                    else:
                        d_icf[c, d + d * j - j * (j + 1) // 2 + i - j - 1] = slope + GAMMA**2 * factor
            d_alphas[c] -= n * math.exp(alphas[c] - top) / mass
        return value, (d_alphas, d_means, d_icf)

    def value_and_grad(alphas, means, icf, X):
        n, d = X.shape
        return kernel(alphas, means, icf, X, 0.5 * n * d * math.log(2.0 * math.pi) + prior_constant(d, len(alphas)))

    return value_and_grad


def _triangle(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the strict lower triangle, column by column."""
    columns, rows = np.triu_indices(d, 1)
    return rows, columns


def torch_spelling() -> Callable[..., Any]:
    import torch

    def torch_loss(alphas, means, icf, X):
        (n, d), k = X.shape, len(alphas)
        rows, columns = _triangle(d)
        log_diagonal, triangle = icf[:, :d], icf[:, d:]
        diagonal = torch.exp(log_diagonal)
        sums = log_diagonal.sum(dim=1)
        factors = torch.diag_embed(diagonal)
        factors[:, rows, columns] = triangle
        scaled = (factors.reshape(k * d, d) @ X.T).reshape(k, d, n)
        scaled = scaled - torch.sum(factors * means[:, None, :], dim=2)[:, :, None]
        inner = (alphas + sums)[:, None] - 0.5 * torch.sum(scaled * scaled, dim=1)
        likelihood = torch.logsumexp(inner, dim=0).sum() - n * torch.logsumexp(alphas, dim=0)
        prior = 0.5 * GAMMA**2 * ((diagonal**2).sum() + (triangle**2).sum()) - EXTRA * sums.sum()
        return likelihood - 0.5 * n * d * math.log(2.0 * math.pi) + prior - prior_constant(d, k)

    return torch_loss


def drjit_spelling() -> Callable[..., Any]:
    """Tensors and a batched product; the log-sum-exp over the components by hand."""
    import drjit as dr

    def logsumexp(x, axis):
        top = dr.max(dr.detach(x), axis=axis)
        return dr.log(dr.sum(dr.exp(x - top), axis=axis)) + top

    def drjit_loss(alphas, means, icf, X):
        (n, d), k, tensor = X.shape, alphas.shape[0], type(X)
        log_diagonal, triangle = icf[:, :d], icf[:, d:]
        diagonal = dr.exp(log_diagonal)
        sums = dr.sum(log_diagonal, axis=1)
        # Where each element of the factors comes from, in diagonals and triangles laid side by side. Computed with
        # Dr.Jit: a frozen function may not read arrays from outside.
        t = dr.arange(dr.int32_array_t(X.array), k * d * d)
        component, i, j = t // (d * d), t // d % d, t % d
        column = dr.select(i > j, d + d * j - j * (j + 1) // 2 + i - j - 1, i)
        parameters = dr.concat((diagonal, triangle), axis=1).array
        index = dr.uint32_array_t(t)(component * (d * (d + 1) // 2) + column)
        factors = tensor(dr.gather(type(parameters), parameters, index, i >= j), (k, d, d))
        product: Any = dr.matmul(dr.reshape(factors, (k * d, d)), X, Bt=True)
        scaled = dr.reshape(product, (k, d, n)) - dr.sum(factors * means[:, None, :], axis=2)[:, :, None]
        inner = (alphas + sums)[:, None] - 0.5 * dr.sum(scaled * scaled, axis=1)
        likelihood = dr.sum(logsumexp(inner, 0)) - n * logsumexp(alphas, 0)
        prior = 0.5 * GAMMA**2 * (dr.sum(dr.square(diagonal)) + dr.sum(dr.square(triangle))) - EXTRA * dr.sum(sums)
        return likelihood - 0.5 * n * d * math.log(2.0 * math.pi) + prior - prior_constant(d, k)

    return drjit_loss


def _make_args(n: int, d: int, k: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    alphas, means = rng.standard_normal(k), rng.random((k, d))
    return alphas, means, rng.standard_normal((k, d * (d + 1) // 2)), rng.standard_normal((n, d))


def _row(n: int, d: int, k: int, name: str) -> Workload:
    return Workload(
        name=f"gmm_{name}_d{d}_K{k}",
        group="gmm",
        fn=log_likelihood,
        make_args=lambda: _make_args(n, d, k),
        argnums=(0, 1, 2),
        hand_gradient=by_hand,
        limit=limit,
        spellings={"torch": torch_spelling, "drjit": drjit_spelling},
    )


WORKLOADS = [_row(1_000, 2, 5, "1k"), _row(1_000, 10, 25, "1k"), _row(10_000, 10, 25, "10k")]
