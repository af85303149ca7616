"""A chain of 20 operations on one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Workload


def chain(x):
    y = np.sin(x) * x + 1.5
    y = np.exp(-y) / (1.0 + x * x)
    y = np.log(np.sqrt(y + 1.0) * y + 0.5)
    y = np.tanh(y) - 0.25 * x
    y = np.cos(y)
    return y * y + np.arctan(x)


def by_hand(x):
    """Value and derivative, the chain rule written out (also the numba limit: numba compiles it as it is)."""
    s = np.sin(x)
    y, d = s * x + 1.5, s + x * np.cos(x)
    w = 1.0 + x * x
    e = np.exp(-y) / w
    y, d = e, -e * (d + 2.0 * x / w)
    r = np.sqrt(y + 1.0)
    q = r * y + 0.5
    y, d = np.log(q), d * (r + y / (2.0 * r)) / q
    t = np.tanh(y)
    y, d = t - 0.25 * x, d * (1.0 - t * t) - 0.25
    c = np.cos(y)
    return c * c + np.arctan(x), -2.0 * c * np.sin(y) * d + 1.0 / w


def limit() -> Callable[..., Any]:
    from numba import njit

    return njit(by_hand)


WORKLOADS = [
    Workload(
        name="scalar_chain_20",
        group="scalar_chain",
        fn=chain,
        make_args=lambda: (0.7,),
        hand_gradient=by_hand,
        limit=limit,
    )
]
