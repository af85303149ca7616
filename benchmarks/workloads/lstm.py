"""An LSTM read out at its end: hidden 32, input 16, batch 8, float64, a plain Python loop over the time steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..workload import Workload

HIDDEN, INPUT, BATCH = 32, 16, 8


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def cell(p, h, c, x):
    z = x @ p["Wx"] + h @ p["Wh"] + p["b"]
    i, f = sigmoid(z[:, :HIDDEN]), sigmoid(z[:, HIDDEN : 2 * HIDDEN])
    g, o = np.tanh(z[:, 2 * HIDDEN : 3 * HIDDEN]), sigmoid(z[:, 3 * HIDDEN :])
    c = f * c + i * g
    return o * np.tanh(c), c


def plain(p, X, y, h, c):
    """X: (steps, batch, input), y: (batch,), h, c: (batch, hidden)."""
    for x in X:
        h, c = cell(p, h, c, x)
    return np.mean((h @ p["w"] - y) ** 2)


def tracegrad_explicit() -> Callable[..., Any]:
    import tracegrad

    def loss(p, X, y, h, c):
        (h, _), _ = tracegrad.scan(lambda carry, x: (cell(p, *carry, x), None), (h, c), X)
        return np.mean((h @ p["w"] - y) ** 2)

    return loss


def jax_scan() -> Callable[..., Any]:
    """The inputs' share of all steps is one product before the scan."""
    import jax
    import jax.numpy as jnp

    def loss(p, X, y, h, c):
        def step(carry, zx):
            h, c = carry
            i, f, g, o = jnp.split(zx + h @ p["Wh"], 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        (h, _), _ = jax.lax.scan(step, (h, c), X @ p["Wx"] + p["b"])
        return jnp.mean((h @ p["w"] - y) ** 2)

    return loss


def by_hand(p, X, y, h0, c0):
    steps, n = X.shape[0], HIDDEN
    gates = np.empty((steps, BATCH, 4 * n))
    h, c, tanhs = np.zeros((steps + 1, BATCH, n)), np.zeros((steps + 1, BATCH, n)), np.empty((steps, BATCH, n))
    h[0], c[0] = h0, c0
    for t in range(steps):
        z = X[t] @ p["Wx"] + h[t] @ p["Wh"] + p["b"]
        gates[t] = 1.0 / (1.0 + np.exp(-z))
        gates[t, :, 2 * n : 3 * n] = np.tanh(z[:, 2 * n : 3 * n])
        i, f, g, o = np.split(gates[t], 4, axis=1)
        c[t + 1] = f * c[t] + i * g
        tanhs[t] = np.tanh(c[t + 1])
        h[t + 1] = o * tanhs[t]
    error = h[steps] @ p["w"] - y
    dh, dc, dz = np.outer(2.0 / BATCH * error, p["w"]), np.zeros((BATCH, n)), np.empty_like(gates)
    dw = 2.0 / BATCH * h[steps].T @ error
    for t in range(steps - 1, -1, -1):
        i, f, g, o = np.split(gates[t], 4, axis=1)
        dc = dc + dh * o * (1.0 - tanhs[t] ** 2)
        shares = [dc * g * i * (1 - i), dc * c[t] * f * (1 - f), dc * i * (1 - g * g), dh * tanhs[t] * o * (1 - o)]
        dz[t] = np.concatenate(shares, axis=1)
        dc = dc * f
        dh = dz[t] @ p["Wh"].T
    flat = dz.reshape(-1, 4 * n)
    gradient = {"Wx": X.reshape(-1, INPUT).T @ flat, "Wh": h[:steps].reshape(-1, n).T @ flat}
    return np.mean(error**2), gradient | {"b": flat.sum(axis=0), "w": dw}


@lru_cache(maxsize=1)
def _room(steps: int, batch: int, n: int) -> tuple[np.ndarray, ...]:
    """Kept between calls: gates, their cotangents, one step's product, hidden and cell states, tanh of the latter."""
    gates, product = np.empty((2, steps, batch, 4 * n)), np.empty((batch, 4 * n))
    states = np.empty((3, steps + 1, batch, n))
    return gates[0], gates[1], product, states[0], states[1], states[2]


def limit() -> Callable[..., Any]:
    """Products through BLAS, those of the inputs and of the weights' gradients once for all steps; the rest fused."""
    from numba import njit

    from ..vecmath import FAST, exp, tanh

    # One function a loop: with more arrays in one loop LLVM gives up on vectors, as it does where it knows that a loop
    # is short, and writes it out. Gates: input, forget, change, output.
    @njit(**FAST)
    def sums(z, product, b):
        n = z.shape[1] // 4
        for r in range(len(z)):
            for j in range(4 * n):
                z[r, j] += product[r, j] + b[j]

    @njit(**FAST)
    def gates_of(z):
        n = z.shape[1] // 4
        for r in range(len(z)):
            for j in range(2 * n):
                z[r, j] = 1.0 / (1.0 + exp(-z[r, j]))
            for j in range(n):
                z[r, 2 * n + j] = tanh(z[r, 2 * n + j])
            for j in range(n):
                z[r, 3 * n + j] = 1.0 / (1.0 + exp(-z[r, 3 * n + j]))

    @njit(**FAST)
    def cells(z, c, c_next):
        n = c.shape[1]
        for r in range(len(z)):
            for j in range(n):
                c_next[r, j] = z[r, n + j] * c[r, j] + z[r, j] * z[r, 2 * n + j]

    @njit(**FAST)
    def hiddens(z, c_next, tanhs):
        n = c_next.shape[1]
        for r in range(len(z)):
            for j in range(n):
                tanhs[r, j] = tanh(c_next[r, j])

    @njit(**FAST)
    def products_of(z, tanhs, h_next):
        n = tanhs.shape[1]
        for r in range(len(z)):
            for j in range(n):
                h_next[r, j] = z[r, 3 * n + j] * tanhs[r, j]

    @njit(**FAST)
    def forward(z, product, b, c, c_next, h_next, tanhs):
        sums(z, product, b)
        gates_of(z)
        cells(z, c, c_next)
        hiddens(z, c_next, tanhs)
        products_of(z, tanhs, h_next)

    @njit(**FAST)
    def through_output(z, tanhs, dh, dz):
        n = tanhs.shape[1]
        for r in range(len(z)):
            for j in range(n):
                dz[r, 3 * n + j] = dh[r, j] * tanhs[r, j] * z[r, 3 * n + j] * (1.0 - z[r, 3 * n + j])

    @njit(**FAST)
    def through_cell(z, tanhs, dh, dc):
        n = tanhs.shape[1]
        for r in range(len(z)):
            for j in range(n):
                dc[r, j] += dh[r, j] * z[r, 3 * n + j] * (1.0 - tanhs[r, j] * tanhs[r, j])

    @njit(**FAST)
    def through_gates(z, c, dc, dz):
        n = c.shape[1]
        for r in range(len(z)):
            for j in range(n):
                slope, gate, forget, change = dc[r, j], z[r, j], z[r, n + j], z[r, 2 * n + j]
                dz[r, j] = slope * change * gate * (1.0 - gate)
                dz[r, n + j] = slope * c[r, j] * forget * (1.0 - forget)
                dz[r, 2 * n + j] = slope * gate * (1.0 - change * change)
                dc[r, j] = slope * forget

    @njit(**FAST)
    def backward(z, c, tanhs, dh, dc, dz):
        through_output(z, tanhs, dh, dz)
        through_cell(z, tanhs, dh, dc)
        through_gates(z, c, dc, dz)

    @njit(**FAST)
    def kernel(Wx, Wh, b, w, X, y, h0, c0, room):
        steps, batch, inner = X.shape
        n = Wh.shape[0]
        gates, dz, product, h, c, tanhs = room
        np.dot(X.reshape(steps * batch, inner), Wx, gates.reshape(steps * batch, 4 * n))
        h[0] = h0
        c[0] = c0
        for t in range(steps):
            np.dot(h[t], Wh, product)
            forward(gates[t], product, b, c[t], c[t + 1], h[t + 1], tanhs[t])
        error = h[steps] @ w - y
        value, dw = 0.0, h[steps].T @ error
        dh, dc = np.empty((batch, n)), np.zeros((batch, n))
        for r in range(batch):
            value += error[r] * error[r] / batch
            for j in range(n):
                dh[r, j] = 2.0 / batch * error[r] * w[j]
        Wt, db = np.ascontiguousarray(Wh.T), np.zeros(4 * n)
        for t in range(steps - 1, -1, -1):
            backward(gates[t], c[t], tanhs[t], dh, dc, dz[t])
            np.dot(dz[t], Wt, dh)
        flat = dz.reshape(steps * batch, 4 * n)
        for r in range(flat.shape[0]):
            for j in range(4 * n):
                db[j] += flat[r, j]
        dWx = X.reshape(steps * batch, inner).T @ flat
        return value, dWx, h[:steps].reshape(steps * batch, n).T @ flat, db, 2.0 / batch * dw

    def value_and_grad(p, X, y, h, c):
        room = _room(*X.shape[:2], HIDDEN)
        value, *gradients = kernel(p["Wx"], p["Wh"], p["b"], p["w"], X, y, h, c, room)
        return value, dict(zip(("Wx", "Wh", "b", "w"), gradients, strict=True))

    return value_and_grad


def _make_args(steps: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    p = {
        "Wx": rng.standard_normal((INPUT, 4 * HIDDEN)) / np.sqrt(INPUT),
        "Wh": rng.standard_normal((HIDDEN, 4 * HIDDEN)) / np.sqrt(HIDDEN),
        "b": 0.1 * rng.standard_normal(4 * HIDDEN),
        "w": rng.standard_normal(HIDDEN) / np.sqrt(HIDDEN),
    }
    start = np.zeros((BATCH, HIDDEN))
    return p, rng.standard_normal((steps, BATCH, INPUT)), rng.standard_normal(BATCH), start, start.copy()


def workload(steps: int) -> Workload:
    return Workload(
        name=f"lstm_{steps}",
        group="lstm",
        fn=plain,
        make_args=lambda: _make_args(steps),
        hand_gradient=by_hand,
        limit=limit,
        spellings={"tracegrad-explicit": tracegrad_explicit, "jax": jax_scan},
        reasons={
            "tracegrad-explicit": "scan",
            "jax": "lax.scan, the inputs' product for all steps before it",
            "torch": "the same Python loop of operations, not torch.nn.LSTM",
        },
    )


WORKLOADS = [workload(128), workload(1_024)]
SMALL = [workload(8)]
