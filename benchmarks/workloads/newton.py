"""Kepler's equation by Newton's method: a plain `while` that ends on the data, for one number and for 1,000 at once.

The gradient is that of the iteration as it ran, which agrees with the implicit function theorem's as far as it has
converged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..workload import Workload

TOLERANCE = 1e-10
#: steps that the kernel by hand has room for; the inputs here take 4 to 6
CAPACITY = 50
SPELLED = {
    "tracegrad-explicit": "while_loop",
    "jax": "lax.while_loop with a custom_vjp by the implicit function theorem: the loop itself is not differentiated",
}


def scalar(e, M):
    """The eccentric anomaly for eccentricity e and mean anomaly M, both numbers."""
    E, step = M, 1.0
    while abs(step) > TOLERANCE:
        step = (E - e * np.sin(E) - M) / (1.0 - e * np.cos(E))
        E = E - step
    return E


def vector(e, M, weights):
    """The weighted sum of the anomalies of many bodies, which all go on until the last one has converged."""
    E, step = M, np.ones_like(M)
    while not np.all(np.abs(step) <= TOLERANCE):
        step = (E - e * np.sin(E) - M) / (1.0 - e * np.cos(E))
        E = E - step
    return np.sum(weights * E)


def _explicit_anomaly() -> Callable[..., Any]:
    import tracegrad

    def anomaly(e, M):
        def go_on(carry):
            return np.max(np.abs(carry[1])) > TOLERANCE

        def improve(carry):
            E, _ = carry
            step = (E - e * np.sin(E) - M) / (1.0 - e * np.cos(E))
            return E - step, step

        return tracegrad.while_loop(go_on, improve, (M, np.ones_like(M)))[0]

    return anomaly


def explicit_vector() -> Callable[..., Any]:
    anomaly = _explicit_anomaly()
    return lambda e, M, weights: np.sum(weights * anomaly(e, M))


def _jax_anomaly() -> Callable[..., Any]:
    """JAX has no reverse mode of while_loop; the solution's derivative is given by the implicit function theorem."""
    import jax
    import jax.numpy as jnp

    @jax.custom_vjp
    def anomaly(e, M):
        def go_on(carry):
            return jnp.any(jnp.abs(carry[1]) > TOLERANCE)

        def improve(carry):
            E, _ = carry
            step = (E - e * jnp.sin(E) - M) / (1.0 - e * jnp.cos(E))
            return E - step, step

        return jax.lax.while_loop(go_on, improve, (M, jnp.ones_like(M)))[0]

    def forward(e, M):
        E = anomaly(e, M)
        return E, (e, E)

    def backward(saved, d):
        e, E = saved
        share = d / (1.0 - e * jnp.cos(E))
        return share * jnp.sin(E), share

    anomaly.defvjp(forward, backward)
    return anomaly


def jax_vector() -> Callable[..., Any]:
    import jax.numpy as jnp

    anomaly = _jax_anomaly()
    return lambda e, M, weights: jnp.sum(weights * anomaly(e, M))


def scalar_kernel(e, M):
    """The adjoint of the loop as written: it walks back through the iterates."""
    iterates = np.empty(CAPACITY)
    E, step, count = M, 1.0, 0
    while abs(step) > TOLERANCE:
        iterates[count] = E
        count += 1
        step = (E - e * math.sin(E) - M) / (1.0 - e * math.cos(E))
        E -= step
    d, de, dM = 1.0, 0.0, 0.0
    for k in range(count - 1, -1, -1):
        s, c = math.sin(iterates[k]), math.cos(iterates[k])
        slope = 1.0 - e * c
        step = (iterates[k] - e * s - M) / slope
        df, dslope = -d / slope, d * step / slope
        de -= df * s + dslope * c
        dM -= df
        d += df * slope + dslope * e * s
    return E, (de, d + dM)


@lru_cache(maxsize=1)
def _room(n: int) -> np.ndarray:
    """Kept between calls: sine, cosine and step of each iteration."""
    return np.empty((3, CAPACITY, n))


def vector_kernel(sin: Callable[..., Any], cos: Callable[..., Any], jit: Callable[..., Any]) -> Callable[..., Any]:
    """The same for arrays of one length; with `sin` and `cos` of plain Python or of vector math."""

    @jit
    def improve(E, e, M, s, c, step):
        for i in range(E.size):
            s[i] = sin(E[i])
        for i in range(E.size):
            c[i] = cos(E[i])
        unfinished = 0
        for i in range(E.size):
            step[i] = (E[i] - e[i] * s[i] - M[i]) / (1.0 - e[i] * c[i])
            unfinished += abs(step[i]) > TOLERANCE
        for i in range(E.size):
            E[i] -= step[i]
        return unfinished

    @jit
    def pull_back(e, s, c, step, d, de, dM):
        for i in range(e.size):
            df = -d[i] / (1.0 - e[i] * c[i])
            de[i] -= df * (s[i] - step[i] * c[i])
            dM[i] -= df
            d[i] = -df * step[i] * e[i] * s[i]  # what d and df times the slope leave: they cancel

    @jit
    def kernel(e, M, weights, room):
        n = M.size
        s, c, step = room[0], room[1], room[2]
        E, count, unfinished = M.copy(), 0, n
        while unfinished:
            unfinished = improve(E, e, M, s[count], c[count], step[count])
            count += 1
        value, d, de, dM = 0.0, weights.copy(), np.zeros(n), np.zeros(n)
        for i in range(n):
            value += weights[i] * E[i]
        for k in range(count - 1, -1, -1):
            pull_back(e, s[k], c[k], step[k], d, de, dM)
        for i in range(n):
            dM[i] += d[i]
        return value, (de, dM)

    return lambda e, M, weights: kernel(e, M, weights, _room(M.size))


def scalar_limit() -> Callable[..., Any]:
    from numba import njit

    return njit(error_model="numpy")(scalar_kernel)


def vector_limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST, cos, sin

    return vector_kernel(sin, cos, njit(**FAST))


def vector_workload(size: int) -> Workload:
    def make_args() -> tuple[Any, ...]:
        rng = np.random.default_rng(0)
        return rng.uniform(0.0, 0.8, size), rng.uniform(0.2, 3.0, size), rng.uniform(0.5, 1.5, size)

    return Workload(
        name=f"newton_kepler_{size}",
        group="newton",
        fn=vector,
        make_args=make_args,
        argnums=(0, 1),
        hand_gradient=vector_kernel(math.sin, math.cos, lambda f: f),
        limit=vector_limit,
        spellings={"tracegrad-explicit": explicit_vector, "jax": jax_vector},
        reasons=SPELLED,
    )


SCALAR = Workload(
    name="newton_kepler",
    group="newton",
    fn=scalar,
    make_args=lambda: (0.6, 1.3),
    argnums=(0, 1),
    hand_gradient=scalar_kernel,
    limit=scalar_limit,
    spellings={"tracegrad-explicit": _explicit_anomaly, "jax": _jax_anomaly},
    reasons=SPELLED,
)
WORKLOADS = [SCALAR, vector_workload(1_000)]
SMALL = [SCALAR, vector_workload(16)]
