"""Fitting a mixture of Gaussians: its log-likelihood with a Wishart prior, and the gradient in all parameters.

Of each of the k components there are a weight (`alphas`), a mean, and the factor of its inverse covariance (`icf`):
logarithms of the diagonal, then what is below it, column by column.
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import numpy as np
from scipy.special import logsumexp, multigammaln

DATA = Path(__file__).resolve().parent / "data"


def log_wishart_prior(d, k, gamma, m, sums, diagonals, icf):
    freedom = d + m + 1
    squares = np.sum(diagonals**2) + np.sum(icf[:, d:] ** 2)
    constant = freedom * d * (math.log(gamma) - 0.5 * math.log(2.0)) - multigammaln(0.5 * freedom, d)
    return 0.5 * gamma**2 * squares - m * np.sum(sums) - k * constant


def objective(alphas, means, icf, x, gamma, m):
    """alphas: (k,), means: (k, d), icf: (k, d (d + 1) / 2), x: (n, d); gamma, m of the prior."""
    (n, d), k = x.shape, len(alphas)
    diagonals, sums = np.exp(icf[:, :d]), np.sum(icf[:, :d], axis=1)
    columns, rows = np.triu_indices(d, 1)
    factors = np.zeros((k, d, d))
    factors[:, rows, columns] = icf[:, d:]
    factors[:, range(d), range(d)] = diagonals

    centred = x[:, None, :] - means
    scaled = np.einsum("kij,nkj->nki", factors, centred)
    inner = alphas + sums - 0.5 * np.sum(scaled**2, axis=2)
    likelihood = np.sum(logsumexp(inner, axis=1)) - n * logsumexp(alphas) - 0.5 * n * d * math.log(2.0 * math.pi)
    return likelihood + log_wishart_prior(d, k, gamma, m, sums, diagonals, icf)


def read(file):
    """(alphas, means, icf, x, gamma, m) of a problem in ADBench's format."""
    lines = [line.split() for line in Path(file).read_text().splitlines()]
    _, k, n = (int(word) for word in lines[0])
    rows = [np.array([float(word) for word in line]) for line in lines[1:-1]]
    alphas, means, icf, x = np.hstack(rows[:k]), rows[k : 2 * k], rows[2 * k : 3 * k], rows[3 * k : 3 * k + n]
    return alphas, np.array(means), np.array(icf), np.array(x), float(lines[-1][0]), int(lines[-1][1])


def main() -> int:
    from tracegrad import compile_grad  # the objective itself is plain NumPy

    problem = read(DATA / "gmm_d2_k5.txt")
    compiled = compile_grad(objective, argnums=(0, 1, 2))
    begin = time.perf_counter()
    value, gradients = compiled.value_and_grad(*problem)
    seconds = time.perf_counter() - begin
    print(f"log-likelihood {value:.6f}; first call, which compiles: {seconds:.2f} s")

    rng = np.random.default_rng(0)
    moves = [rng.standard_normal(g.shape) for g in gradients]
    high, low = (
        objective(*(p + h * m for p, m in zip(problem, moves, strict=False)), *problem[3:]) for h in (1e-6, -1e-6)
    )
    slope = sum(np.sum(g * m) for g, m in zip(gradients, moves, strict=True))
    good = bool(value == objective(*problem) or abs(value - objective(*problem)) < 1e-10 * abs(value))
    good &= abs((high - low) / 2e-6 - slope) < 1e-6 * max(1.0, abs(slope))
    print(f"slope along a random direction {slope:.6f}, by a central difference {(high - low) / 2e-6:.6f}")
    print("OK: value and gradient are right." if good else "FAILED: value or gradient is off.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
