"""A small network, 10-50-20-1 with tanh, batch 32: six parameter arrays in a dict, little work in each operation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ..workload import Workload

LAYERS = (10, 50, 20, 1)
BATCH = 32


def loss(p, X, y):
    h = np.tanh(X @ p["W1"] + p["b1"])
    h = np.tanh(h @ p["W2"] + p["b2"])
    out = h @ p["W3"] + p["b3"]
    return np.mean((out - y) ** 2)


def by_hand(p, X, y):
    h1 = np.tanh(X @ p["W1"] + p["b1"])
    h2 = np.tanh(h1 @ p["W2"] + p["b2"])
    error = h2 @ p["W3"] + p["b3"] - y
    d3 = error * (2.0 / error.size)
    d2 = (d3 @ p["W3"].T) * (1.0 - h2 * h2)
    d1 = (d2 @ p["W2"].T) * (1.0 - h1 * h1)
    gradient = {
        "W1": X.T @ d1,
        "b1": d1.sum(axis=0),
        "W2": h1.T @ d2,
        "b2": d2.sum(axis=0),
        "W3": h2.T @ d3,
        "b3": d3.sum(axis=0),
    }
    return np.mean(error * error), gradient


def limit() -> Callable[..., Any]:
    """The same products through BLAS, everything between them fused."""
    from numba import njit

    from ..vecmath import FAST, tanh

    # Elementwise loops are over whole arrays: rows of 50 and 20 would leave rests.
    @njit(**FAST)
    def add(h, b):
        for i in range(len(h)):
            for j in range(b.size):
                h[i, j] += b[j]

    @njit(**FAST)
    def tanhs(h):
        for k in range(h.size):
            h[k] = tanh(h[k])

    @njit(**FAST)
    def slopes(d, h):
        for k in range(h.size):
            d[k] *= 1.0 - h[k] * h[k]

    @njit(**FAST)
    def sums(d, db):
        for i in range(len(d)):
            for j in range(db.size):
                db[j] += d[i, j]

    @njit(**FAST)
    def activate(h, b):
        add(h, b)
        tanhs(h.reshape(h.size))

    @njit(**FAST)
    def backward(d, h, db):
        slopes(d.reshape(d.size), h.reshape(h.size))
        sums(d, db)

    @njit(**FAST)
    def kernel(X, y, W1, b1, W2, b2, W3, b3):
        h1 = X @ W1
        activate(h1, b1)
        h2 = h1 @ W2
        activate(h2, b2)
        d3 = h2 @ W3
        total, db3, scale = 0.0, np.zeros(1), 1.0 / y.size
        for i in range(y.shape[0]):
            error = d3[i, 0] + b3[0] - y[i, 0]
            total += error * error * scale
            d3[i, 0] = 2.0 * scale * error
            db3[0] += d3[i, 0]
        db1, db2 = np.zeros(b1.size), np.zeros(b2.size)
        d2 = d3 @ W3.T
        backward(d2, h2, db2)
        d1 = d2 @ W2.T
        backward(d1, h1, db1)
        return total, X.T @ d1, db1, h1.T @ d2, db2, h2.T @ d3, db3

    def value_and_grad(p, X, y):
        value, *gradients = kernel(X, y, p["W1"], p["b1"], p["W2"], p["b2"], p["W3"], p["b3"])
        return value, dict(zip(("W1", "b1", "W2", "b2", "W3", "b3"), gradients, strict=True))

    return value_and_grad


def _make_args() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    p: dict[str, np.ndarray] = {}
    for i, (rows, columns) in enumerate(pairwise(LAYERS), start=1):
        p[f"W{i}"] = rng.standard_normal((rows, columns)) / np.sqrt(rows)
        p[f"b{i}"] = 0.1 * rng.standard_normal(columns)
    return p, rng.standard_normal((BATCH, LAYERS[0])), rng.standard_normal((BATCH, LAYERS[-1]))


WORKLOADS = [
    Workload(
        name="simplenet_10_50_20_1",
        group="simplenet",
        fn=loss,
        make_args=_make_args,
        hand_gradient=by_hand,
        limit=limit,
    )
]
