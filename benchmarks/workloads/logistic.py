"""Logistic regression: a tall matrix against a vector, forth and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Workload

RIDGE = 1e-3


def loss(w, X, y):
    margins = y * (X @ w)
    return np.mean(np.log1p(np.exp(-margins))) + RIDGE * np.sum(w * w)


def by_hand(w, X, y):
    e = np.exp(-y * (X @ w))
    r = -y * e / ((1.0 + e) * len(y))
    return np.mean(np.log1p(e)) + RIDGE * np.dot(w, w), X.T @ r + 2.0 * RIDGE * w


def limit() -> Callable[..., Any]:
    """Both products through BLAS, one loop between them (one pass over X by blocks of rows was no faster)."""
    from numba import njit

    from ..vecmath import FAST, exp, log1p

    @njit(**FAST)
    def kernel(w, X, y):
        n, m = X.shape
        r = X @ w
        total = 0.0
        for i in range(n):
            e = exp(-y[i] * r[i])
            total += log1p(e)
            r[i] = -y[i] * e / ((1.0 + e) * n)
        gradient = r @ X
        norm = 0.0
        for j in range(m):
            norm += w[j] * w[j]
            gradient[j] += 2.0 * RIDGE * w[j]
        return total / n + RIDGE * norm, gradient

    return kernel


def drjit_spelling() -> Callable[..., Any]:
    import drjit as dr

    def drjit_loss(w, X, y):
        margins = y * (X @ w)
        return dr.sum(dr.log(1.0 + dr.exp(-margins))) / len(y) + RIDGE * dr.sum(w * w)

    return drjit_loss


def _make_args() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 100))
    w = 0.1 * rng.standard_normal(100)
    y = np.where(X @ rng.standard_normal(100) + rng.standard_normal(10_000) > 0.0, 1.0, -1.0)
    return w, X, y


WORKLOADS = [
    Workload(
        name="logistic_10000x100",
        group="logistic",
        fn=loss,
        make_args=_make_args,
        hand_gradient=by_hand,
        limit=limit,
        spellings={"drjit": drjit_spelling},
    )
]
