"""What a call costs when there is next to nothing to compute: one number, and an array of 100."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Workload


def scalar_function(x):
    return np.sin(x) * x


def small_sum(x):
    return np.sum(np.sin(x) * x)


def scalar_by_hand(x):
    s = np.sin(x)
    return s * x, s + x * np.cos(x)


def small_sum_by_hand(x):
    s = np.sin(x)
    return np.sum(s * x), s + x * np.cos(x)


def scalar_limit() -> Callable[..., Any]:
    from numba import njit

    return njit(scalar_by_hand)


def small_sum_limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST, cos, sin

    @njit(**FAST)
    def limit(x):
        gradient = np.empty_like(x)
        total = 0.0
        for i in range(x.size):
            s = sin(x[i])
            total += s * x[i]
            gradient[i] = s + x[i] * cos(x[i])
        return total, gradient

    return limit


WORKLOADS = [
    Workload(
        name="dispatch_scalar",
        group="dispatch",
        fn=scalar_function,
        make_args=lambda: (0.7,),
        hand_gradient=scalar_by_hand,
        limit=scalar_limit,
    ),
    Workload(
        name="dispatch_100",
        group="dispatch",
        fn=small_sum,
        make_args=lambda: (np.random.default_rng(0).standard_normal(100),),
        hand_gradient=small_sum_by_hand,
        limit=small_sum_limit,
    ),
]
