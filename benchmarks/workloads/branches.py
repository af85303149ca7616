"""Three `if`s on the data, eight paths: one timed call goes through 64 random inputs, in which every path comes up.

What is measured is how soon the right path is found, and that inputs which take turns cost no recording.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Workload

SIZE, INPUTS = 100, 64


def plain(w, x):
    """w, x: (100,)."""
    z = w * x
    if np.sum(z) > 0.0:
        z = np.tanh(z)
    else:
        z = 0.5 * z * z
    if z[0] > z[1]:
        z = z * w
    else:
        z = z + x * w * w
    if np.max(z[2:10]) > 1.4:
        return np.sum(np.sin(z))
    return np.sum(z * z)


def _chosen(cond: Callable[..., Any], np: Any) -> Callable[..., Any]:
    """The same with `cond` in place of each `if`, in JAX's and in tracegrad's spelling, which are one."""

    def loss(w, x):
        z = w * x
        z = cond(np.sum(z) > 0.0, lambda z: np.tanh(z), lambda z: 0.5 * z * z, z)
        z = cond(z[0] > z[1], lambda z: z * w, lambda z: z + x * w * w, z)
        return cond(np.max(z[2:10]) > 1.4, lambda z: np.sum(np.sin(z)), lambda z: np.sum(z * z), z)

    return loss


def tracegrad_explicit() -> Callable[..., Any]:
    import tracegrad

    return _chosen(tracegrad.cond, np)


def jax_cond() -> Callable[..., Any]:
    import jax

    return _chosen(jax.lax.cond, jax.numpy)


def kernel_by_hand(tanh: Callable[..., Any], sin: Callable[..., Any], cos: Callable[..., Any]) -> Callable[..., Any]:
    """Value and gradient, with functions of plain Python or of vector math."""

    def kernel(w, x):
        n = w.size
        z, slope, dw = np.empty(n), np.empty(n), np.empty(n)  # slope: of z by w
        total = 0.0
        for i in range(n):
            z[i] = w[i] * x[i]
            total += z[i]
        if total > 0.0:
            for i in range(n):
                z[i] = tanh(z[i])
                slope[i] = (1.0 - z[i] * z[i]) * x[i]
        else:
            for i in range(n):
                slope[i] = z[i] * x[i]
                z[i] = 0.5 * z[i] * z[i]
        if z[0] > z[1]:
            for i in range(n):
                slope[i] = slope[i] * w[i] + z[i]
                z[i] = z[i] * w[i]
        else:
            for i in range(n):
                slope[i] = slope[i] + 2.0 * x[i] * w[i]
                z[i] = z[i] + x[i] * w[i] * w[i]
        largest, value = z[2], 0.0
        for i in range(3, 10):
            largest = max(largest, z[i])
        if largest > 1.4:
            for i in range(n):
                value += sin(z[i])
                dw[i] = cos(z[i]) * slope[i]
        else:
            for i in range(n):
                value += z[i] * z[i]
                dw[i] = 2.0 * z[i] * slope[i]
        return value, dw

    return kernel


def limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST, cos, sin, tanh

    return njit(**FAST)(kernel_by_hand(tanh, sin, cos))


def _inputs(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [(1.0 + 0.3 * rng.standard_normal(SIZE), rng.standard_normal(SIZE)) for _ in range(count)]


def paths(args: tuple[np.ndarray, np.ndarray]) -> tuple[bool, bool, bool]:
    """Which way each `if` goes."""
    w, x = args
    z = w * x
    first = bool(np.sum(z) > 0.0)
    z = np.tanh(z) if first else 0.5 * z * z
    second = bool(z[0] > z[1])
    z = z * w if second else z + x * w * w
    return first, second, bool(np.max(z[2:10]) > 1.4)


def workload(count: int) -> Workload:
    inputs = _inputs(count)
    assert len({paths(args) for args in inputs}) == 8, "an input for every path"
    return Workload(
        name=f"branches_8_paths_{count}_calls",
        group="branches",
        fn=plain,
        make_args=lambda: inputs[0],
        more_args=lambda: inputs[1:],
        hand_gradient=kernel_by_hand(math.tanh, math.sin, math.cos),
        limit=limit,
        spellings={"tracegrad-explicit": tracegrad_explicit, "jax": jax_cond},
        reasons={"tracegrad-explicit": "cond for each `if`", "jax": "lax.cond for each `if`"},
    )


WORKLOADS = [workload(INPUTS)]
SMALL = [workload(INPUTS // 2)]
