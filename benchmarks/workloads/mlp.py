"""A classifier, 784-256-256-10 with ReLU and softmax cross entropy, batch 128, float32: the matrix products rule."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ..workload import Workload

LAYERS = (784, 256, 256, 10)
BATCH = 128
#: float32 carries 7 digits; sums over 784 products in one order or another keep between 5 and 6 of them
TOLERANCE = 2e-5


def loss(layers, X, labels):
    h = X
    for W, b in layers[:-1]:
        h = np.maximum(h @ W + b, 0.0)
    W, b = layers[-1]
    z = h @ W + b
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logp[np.arange(len(labels)), labels])


def by_hand(layers, X, labels):
    inputs = [X]
    for W, b in layers[:-1]:
        inputs.append(np.maximum(inputs[-1] @ W + b, 0.0))
    W, b = layers[-1]
    z = inputs[-1] @ W + b
    z -= z.max(axis=1, keepdims=True)
    e = np.exp(z)
    total = e.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    value = np.mean(np.log(total[:, 0]) - z[rows, labels])
    d = e / total
    d[rows, labels] -= 1.0
    d /= len(labels)
    gradient = []
    for (W, _), h in zip(reversed(layers), reversed(inputs), strict=True):
        gradient.append((h.T @ d, d.sum(axis=0)))
        d = (d @ W.T) * (h > 0.0)
    return value, gradient[::-1]


def limit() -> Callable[..., Any]:
    """The same products through BLAS, everything between them fused (numba's exp, which is not vectorised)."""
    import math

    from numba import njit

    zero, one = np.float32(0.0), np.float32(1.0)

    @njit(fastmath=True)
    def rectify(h, b):
        for i in range(h.shape[0]):
            for j in range(h.shape[1]):
                h[i, j] = max(h[i, j] + b[j], zero)

    @njit(fastmath=True)
    def backward(d, h):
        db = np.zeros(d.shape[1], np.float32)
        for i in range(d.shape[0]):
            for j in range(d.shape[1]):
                d[i, j] = d[i, j] if h[i, j] > zero else zero
                db[j] += d[i, j]
        return db

    @njit(fastmath=True)
    def cross_entropy(z, b, labels):
        rows, columns = z.shape
        db, value, scale = np.zeros(columns, np.float32), zero, one / np.float32(rows)
        for i in range(rows):
            top = z[i, 0] + b[0]
            for j in range(columns):
                z[i, j] += b[j]
                top = max(top, z[i, j])
            value += top - z[i, labels[i]]
            total = zero
            for j in range(columns):
                z[i, j] = math.exp(z[i, j] - top)
                total += z[i, j]
            value += math.log(total)
            for j in range(columns):
                z[i, j] *= scale / total
            z[i, labels[i]] -= scale
            for j in range(columns):
                db[j] += z[i, j]
        return value * scale, db

    @njit
    def kernel(X, labels, W1, b1, W2, b2, W3, b3):
        h1 = X @ W1
        rectify(h1, b1)
        h2 = h1 @ W2
        rectify(h2, b2)
        d3 = h2 @ W3
        value, db3 = cross_entropy(d3, b3, labels)
        d2 = d3 @ W3.T
        db2 = backward(d2, h2)
        d1 = d2 @ W2.T
        db1 = backward(d1, h1)
        return value, X.T @ d1, db1, h1.T @ d2, db2, h2.T @ d3, db3

    def value_and_grad(layers, X, labels):
        (W1, b1), (W2, b2), (W3, b3) = layers
        value, *g = kernel(X, labels, W1, b1, W2, b2, W3, b3)
        return value, [(g[0], g[1]), (g[2], g[3]), (g[4], g[5])]

    return value_and_grad


def torch_spelling() -> Callable[..., Any]:
    from torch.nn import functional

    def torch_loss(layers, X, labels):
        h = X
        for W, b in layers[:-1]:
            h = functional.relu(b.addmm(h, W))
        W, b = layers[-1]
        return functional.cross_entropy(b.addmm(h, W), labels)

    return torch_loss


def drjit_spelling() -> Callable[..., Any]:
    import drjit as dr

    def drjit_loss(layers, X, labels):
        h = X
        for W, b in layers[:-1]:
            h = dr.maximum(h @ W + b, 0.0)
        W, b = layers[-1]
        z = h @ W + b
        z = z - dr.max(dr.detach(z), axis=1)[:, None]
        total = dr.log(dr.sum(dr.exp(z), axis=1))
        n, classes = z.shape
        index = dr.arange(dr.uint32_array_t(z.array), n) * classes + dr.uint32_array_t(z.array)(labels.array)
        picked = dr.gather(type(z.array), z.array, index)
        return dr.sum(total.array - picked) / n

    return drjit_loss


def _make_args() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    layers = []
    for rows, columns in pairwise(LAYERS):
        W = rng.standard_normal((rows, columns)) * np.sqrt(2.0 / rows)
        layers.append((W.astype(np.float32), (0.1 * rng.standard_normal(columns)).astype(np.float32)))
    X = rng.random((BATCH, LAYERS[0])).astype(np.float32)
    return layers, X, rng.integers(0, LAYERS[-1], BATCH)


WORKLOADS = [
    Workload(
        name="mlp_784_256_256_10_f32",
        group="mlp",
        fn=loss,
        make_args=_make_args,
        tolerance=TOLERANCE,
        hand_gradient=by_hand,
        limit=limit,
        spellings={"torch": torch_spelling, "drjit": drjit_spelling},
    )
]
