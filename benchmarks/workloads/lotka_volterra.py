"""Lotka and Volterra's predators and prey by ``scipy.integrate.odeint``, fitted to a series of counts.

Differentiated are the four rates.  Its peer is JAX's own ``odeint``, with the same tolerances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import odeint

from ..workload import Workload

TOLERANCE = 1.49012e-8


def rates(z, t, a, b, c, d):
    x, y = z
    return [a * x - b * x * y, -c * y + d * x * y]


def plain(p, z0, t, counts, tol=TOLERANCE):
    """p: (4,), z0: (2,), t: (n,), counts: (n, 2)."""
    found = odeint(rates, z0, t, args=tuple(p), rtol=tol, atol=tol, mxstep=10000)
    return np.mean((found - counts) ** 2)


def jax_odeint() -> Callable[..., Any]:
    import jax.numpy as jnp
    from jax.experimental.ode import odeint as integrate

    def loss(p, z0, t, counts):
        def f(z, t, *p):
            return jnp.stack(rates(z, t, *p))

        return jnp.mean((integrate(f, z0, t, *p, rtol=TOLERANCE, atol=TOLERANCE) - counts) ** 2)

    return loss


def hand_gradient(p, z0, t, counts):
    """By the equations of the sensitivities, integrated along."""
    a, b, c, d = p

    def both(w, t):
        x, y = w[:2]
        J = np.array([[a - b * y, -b * x], [d * y, d * x - c]])
        by_rates = np.array([[x, -x * y, 0.0, 0.0], [0.0, 0.0, -y, x * y]])
        return np.concatenate([rates(w[:2], t, *p), (J @ w[2:].reshape(2, 4) + by_rates).ravel()])

    w = odeint(both, np.concatenate([z0, np.zeros(8)]), t, rtol=1e-13, atol=1e-13, mxstep=10000)
    off = w[:, :2] - counts
    return np.mean(off**2), np.einsum("ti,tij->j", off, w[:, 2:].reshape(-1, 2, 4)) * 2.0 / off.size


def workload(end: float, count: int) -> Workload:
    reason = "has no adaptive integrator of its own"
    t = np.linspace(0.0, end, count)
    counts = 2.0 + np.stack([np.sin(t), np.cos(t)], axis=1)
    return Workload(
        name=f"lotka_volterra_to_{end:g}",
        group="lotka_volterra",
        fn=plain,
        make_args=lambda: (np.array([1.5, 1.0, 3.0, 1.0]), np.array([10.0, 5.0]), t, counts),
        tolerance=1e-4,
        hand_gradient=hand_gradient,
        exact=lambda *args: plain(*args, tol=1e-13),
        spellings=dict.fromkeys(("tracegrad-explicit", "torch", "autograd", "drjit")) | {"jax": jax_odeint},
        reasons={"torch": reason, "drjit": reason, "autograd": reason, "jax": "jax.experimental.ode.odeint"},
    )


WORKLOADS = [workload(20.0, 101)]
SMALL = [workload(1.0, 6)]
