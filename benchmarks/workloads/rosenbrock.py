"""Rosenbrock's function: slices of one vector against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Workload


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def by_hand(x):
    a = x[:-1]
    t = x[1:] - a * a
    u = 1.0 - a
    gradient = np.zeros_like(x)
    gradient[:-1] = -400.0 * a * t - 2.0 * u
    gradient[1:] += 200.0 * t
    return 100.0 * np.dot(t, t) + np.dot(u, u), gradient


def limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST

    @njit(**FAST)
    def kernel(x):
        n = x.size
        gradient = np.empty(n)
        u = 1.0 - x[0]
        t = x[1] - x[0] * x[0]
        total = 100.0 * t * t + u * u
        gradient[0] = -400.0 * x[0] * t - 2.0 * u
        for i in range(1, n - 1):  # gather form: each element of the gradient is written once
            a = x[i]
            u = 1.0 - a
            t = x[i + 1] - a * a
            total += 100.0 * t * t + u * u
            gradient[i] = 200.0 * (a - x[i - 1] * x[i - 1]) - 400.0 * a * t - 2.0 * u
        gradient[n - 1] = 200.0 * (x[n - 1] - x[n - 2] * x[n - 2])
        return total, gradient

    return kernel


def drjit_spelling() -> Callable[..., Any]:
    import drjit as dr

    def loss(x):
        """Dr.Jit's arrays have no slices: gather the two neighbours."""
        index = dr.arange(dr.uint32_array_t(type(x)), dr.width(x) - 1)
        a = dr.gather(type(x), x, index)
        b = dr.gather(type(x), x, index + 1)
        return dr.sum(100.0 * dr.square(b - dr.square(a)) + dr.square(1.0 - a))

    return loss


def _row(n: int, name: str) -> Workload:
    return Workload(
        name=f"rosenbrock_{name}",
        group="rosenbrock",
        fn=rosenbrock,
        make_args=lambda: (np.random.default_rng(0).uniform(-2.0, 2.0, n),),
        hand_gradient=by_hand,
        limit=limit,
        spellings={"drjit": drjit_spelling},
    )


WORKLOADS = [_row(10, "10"), _row(1_000, "1e3"), _row(1_000_000, "1e6")]
