"""European calls under Black-Scholes: the sum of the prices, with delta, theta and vega of every option."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from ..workload import Workload

SQRT_HALF = math.sqrt(0.5)
RATE = 0.03


def normal_cdf(z):
    return 0.5 * (1.0 + special.erf(z * SQRT_HALF))


def black_scholes(S, K, T, sigma):
    spread = sigma * np.sqrt(T)
    d1 = (np.log(S / K) + (RATE + 0.5 * sigma * sigma) * T) / spread
    d2 = d1 - spread
    return np.sum(S * normal_cdf(d1) - K * np.exp(-RATE * T) * normal_cdf(d2))


def by_hand(S, K, T, sigma):
    root = np.sqrt(T)
    spread = sigma * root
    d1 = (np.log(S / K) + (RATE + 0.5 * sigma * sigma) * T) / spread
    n1 = normal_cdf(d1)
    strike = K * np.exp(-RATE * T) * normal_cdf(d1 - spread)
    density = S * np.exp(-0.5 * d1 * d1) * (1.0 / math.sqrt(2.0 * math.pi))
    return np.sum(S * n1 - strike), (n1, density * sigma / (2.0 * root) + RATE * strike, density * root)


def limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST, erf, exp, log

    @njit(**FAST)
    def kernel(S, K, T, sigma):
        n = S.size
        delta, theta, vega = np.empty(n), np.empty(n), np.empty(n)
        total = 0.0
        for i in range(n):
            root = math.sqrt(T[i])
            spread = sigma[i] * root
            d1 = (log(S[i] / K[i]) + (RATE + 0.5 * sigma[i] * sigma[i]) * T[i]) / spread
            n1 = 0.5 + 0.5 * erf(d1 * SQRT_HALF)
            n2 = 0.5 + 0.5 * erf((d1 - spread) * SQRT_HALF)
            strike = K[i] * exp(-RATE * T[i]) * n2
            density = S[i] * exp(-0.5 * d1 * d1) * (1.0 / math.sqrt(2.0 * math.pi))
            total += S[i] * n1 - strike
            delta[i] = n1
            theta[i] = density * sigma[i] / (2.0 * root) + RATE * strike
            vega[i] = density * root
        return total, (delta, theta, vega)

    return kernel


def _make_args(n: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    S, K = rng.uniform(80.0, 120.0, n), rng.uniform(80.0, 120.0, n)
    return S, K, rng.uniform(0.25, 2.0, n), rng.uniform(0.15, 0.5, n)


def row(n: int, name: str) -> Workload:
    return Workload(
        name=f"black_scholes_{name}",
        group="black_scholes",
        fn=black_scholes,
        make_args=lambda: _make_args(n),
        argnums=(0, 2, 3),
        hand_gradient=by_hand,
        limit=limit,
    )


WORKLOADS = [row(1_000, "1e3"), row(1_000_000, "1e6")]
