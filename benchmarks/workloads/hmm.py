"""The forward algorithm of a hidden Markov model: 32 states, 16 symbols, a plain Python loop over the observations.

The forward probabilities are normalised in each step; differentiated are the logits of transitions and emissions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..workload import Workload, rebind

STATES, SYMBOLS = 32, 16


def normalised(logits):
    e = np.exp(logits)
    return e / np.sum(e, axis=1)[:, None]


def plain(transitions, emissions, start, seen):
    """transitions: (32, 32) and emissions: (32, 16), logits; start: (32,); seen: (steps,) of ints."""
    A = normalised(transitions)
    L = normalised(emissions)[:, seen].T
    alpha, likelihood = start, 0.0
    for row in L:
        alpha = (alpha @ A) * row
        total = np.sum(alpha)
        likelihood = likelihood + np.log(total)
        alpha = alpha / total
    return likelihood


def _scanned(scan: Callable[..., Any], np: Any) -> Callable[..., Any]:
    """The same with `scan` in place of the loop, in JAX's and in tracegrad's spelling, which are one."""
    probabilities = rebind(normalised, np=np)

    def loss(transitions, emissions, start, seen):
        A = probabilities(transitions)
        L = probabilities(emissions)[:, seen].T

        def step(carry, row):
            alpha, likelihood = carry
            alpha = (alpha @ A) * row
            total = np.sum(alpha)
            return (alpha / total, likelihood + np.log(total)), None

        return scan(step, (start, 0.0), L)[0][1]

    return loss


def tracegrad_explicit() -> Callable[..., Any]:
    import tracegrad

    return _scanned(tracegrad.scan, np)


def jax_scan() -> Callable[..., Any]:
    import jax

    return _scanned(jax.lax.scan, jax.numpy)


@lru_cache(maxsize=1)
def _room(steps: int, n: int) -> tuple[np.ndarray, ...]:
    """Kept between calls: probabilities before a step and amid it, the cotangents of the latter, totals."""
    return np.empty((steps + 1, n)), np.empty((steps, n)), np.empty((steps, n)), np.empty(steps)


def kernel_by_hand(transitions, emissions, start, seen, room):
    steps, n, symbols = seen.size, start.size, emissions.shape[1]
    A, E = np.empty((n, n)), np.empty((n, symbols))
    for i in range(n):
        total = 0.0
        for j in range(n):
            A[i, j] = np.exp(transitions[i, j])
            total += A[i, j]
        for j in range(n):
            A[i, j] /= total
        total = 0.0
        for j in range(symbols):
            E[i, j] = np.exp(emissions[i, j])
            total += E[i, j]
        for j in range(symbols):
            E[i, j] /= total
    B = np.ascontiguousarray(E.T)
    alphas, moved, dmoved, totals = room
    alphas[0] = start
    value, row = 0.0, np.empty(n)
    for t in range(steps):
        into = B[seen[t]]
        row[:] = 0.0
        for i in range(n):
            share = alphas[t, i]
            for j in range(n):
                row[j] += share * A[i, j]
        total = 0.0
        for j in range(n):
            total += row[j] * into[j]
        totals[t] = total
        value += np.log(total)
        for j in range(n):
            moved[t, j] = row[j]
            alphas[t + 1, j] = row[j] * into[j] / total

    dB, d = np.zeros((symbols, n)), np.zeros(n)
    for t in range(steps - 1, -1, -1):
        into, dinto, total = B[seen[t]], dB[seen[t]], totals[t]
        dtotal = 1.0
        for j in range(n):
            dtotal -= d[j] * alphas[t + 1, j]
        for j in range(n):
            share = (d[j] + dtotal) / total
            dinto[j] += share * moved[t, j]
            row[j] = share * into[j]
            dmoved[t, j] = row[j]
        for i in range(n):
            back = 0.0
            for j in range(n):
                back += A[i, j] * row[j]
            d[i] = back
    dA = alphas[:steps].T @ dmoved
    dE = np.ascontiguousarray(dB.T)
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += dA[i, j] * A[i, j]
        for j in range(n):
            dA[i, j] = A[i, j] * (dA[i, j] - total)
        total = 0.0
        for j in range(symbols):
            total += dE[i, j] * E[i, j]
        for j in range(symbols):
            dE[i, j] = E[i, j] * (dE[i, j] - total)
    return value, (dA, dE)


def _with_room(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def value_and_grad(transitions, emissions, start, seen):
        return kernel(transitions, emissions, start, seen, _room(seen.size, start.size))

    return value_and_grad


def limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST

    return _with_room(njit(**FAST)(kernel_by_hand))


def _make_args(steps: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    start = np.full(STATES, 1.0 / STATES)
    seen = rng.integers(0, SYMBOLS, steps)
    return rng.standard_normal((STATES, STATES)), rng.standard_normal((STATES, SYMBOLS)), start, seen


def workload(steps: int) -> Workload:
    return Workload(
        name=f"hmm_{steps}",
        group="hmm",
        fn=plain,
        make_args=lambda: _make_args(steps),
        argnums=(0, 1),
        hand_gradient=_with_room(kernel_by_hand),
        limit=limit,
        spellings={"tracegrad-explicit": tracegrad_explicit, "jax": jax_scan},
        reasons={"tracegrad-explicit": "scan", "jax": "lax.scan"},
    )


WORKLOADS = [workload(1_000)]
SMALL = [workload(10)]
