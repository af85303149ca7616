"""Functions of one array for tests of derivatives: every kind of loop, branches, writes, linear algebra, transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

import tracegrad as tg

rng = np.random.default_rng(0)
A, B = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
SPD = A @ A.T + 3 * np.eye(3)
ORDER = np.array([2, 0, 1, 2])


def counted(x: Any) -> Any:
    return tg.scan(lambda c, r: (np.sin(c) * r + c[::-1], c * r), x, x[:, None] * np.ones(3))


def ended(x: Any) -> Any:
    return tg.while_loop(
        lambda c: np.sum(c[0] ** 2) < 50, lambda c: (c[0] * 1.5 + np.cos(x), c[1] + c[0][0]), (x, x[1])
    )


def fori(x: Any) -> Any:
    return tg.fori_loop(0, 4, lambda i, c: c * np.sin(x[i % 3] + i) + x, x)


def branch(x: Any) -> Any:
    first = tg.cond(np.sum(x) > 100, lambda c: np.sqrt(c - 1000), lambda c: np.exp(c) * x, x)
    return tg.cond(x[0] > -100, lambda c: np.sqrt(c * c + 1) * first, lambda c: np.log(c - 5), x)


def nested(x: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        inner, _ = tg.scan(lambda d, r: (d * r + np.tanh(c), None), x, row)
        return inner, np.sum(inner)

    return tg.scan(outer, x, np.ones((2, 4, 3)) * 0.5 * x[0])


def rolled(x: Any) -> Any:
    s, v = x, np.ones(3)
    for k in range(9):
        v = v - 0.1 * np.sin(s) * x[k % 3]
        s = s + 0.1 * v
    return s * v


def written(x: Any) -> Any:
    buffer = tg.zeros(12)
    for k in range(12):
        buffer[k] = x[k % 3] * (buffer[k - 1] if k else 1.0) + 0.5
    return np.cumsum(buffer)


def complex_lanes(x: Any) -> Any:
    z = np.exp(1j * x) * (x + 2j)
    return np.abs(z) + np.angle(z) + (z @ np.linalg.inv(SPD + 1j * np.diag(x))).real + np.fft.fft(z).imag


def scattered(x: Any) -> Any:
    out = tg.zeros(5)
    np.add.at(out, ORDER, x[ORDER] ** 2)
    y = x.copy()
    y[1:] = y[:2] * y[1:]
    y[y > 10] = 0.0
    return np.concatenate([out, y[::-1], np.pad(x, 2, mode="reflect")])


def sorting(x: Any) -> Any:
    return np.concatenate([np.sort(x * 3)[::-1] * x, [np.median(x), np.quantile(x, 0.3), np.max(x) * np.min(x)]])


def special(x: Any) -> Any:
    y = np.abs(x) + 0.5
    ratio = scipy.special.betainc(2.0, 3.0, scipy.special.expit(x))
    return scipy.special.gammaln(y) + scipy.special.erf(x) * ratio + scipy.special.jv(1, y)


def factors(x: Any) -> Any:
    m = SPD + np.outer(x, x)
    w, q = np.linalg.eigh(m)
    _, s, _ = np.linalg.svd(m + np.diag(x))
    solved = np.linalg.solve(m, x) + scipy.linalg.cho_solve(scipy.linalg.cho_factor(m), x)
    return np.concatenate([w, np.abs(q[0]), s, solved, [np.linalg.slogdet(m)[1]], scipy.linalg.expm(m / 9)[0]])


def decompositions(x: Any) -> Any:
    m = SPD + np.diag(x) + 0.1 * A
    _, r = np.linalg.qr(m)
    return np.concatenate([
        np.linalg.pinv(m)[0], np.abs(r[0]), np.abs(np.linalg.eigvals(m)), [np.linalg.det(m)],
        scipy.linalg.sqrtm(SPD + np.diag(x)).ravel()[:2].real, scipy.linalg.solve_sylvester(m, SPD, SPD)[1],
    ])  # fmt: skip


def filters(x: Any) -> Any:
    y = np.concatenate([x, x * x])
    return np.concatenate([np.convolve(y, x) * y[0], np.fft.irfft(np.fft.rfft(y) ** 2)])


def sampled(x: Any) -> Any:
    key = tg.random.key(3)
    return tg.random.normal(key, (3,)) * x + tg.random.exponential(key, (3,)) ** x


def kinked(x: Any) -> Any:
    return np.maximum(x, 0.3) * np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), x**2) + np.clip(x, -1, 1) + np.abs(x)


PROGRAMS: list[Callable[..., Any]] = [
    counted, ended, fori, branch, nested, rolled, written, complex_lanes, scattered, sorting, special, factors,
    decompositions, filters, sampled, kinked,
]  # fmt: skip
X, U, V = np.array([0.7, -0.4, 1.2]), np.array([0.3, 1.0, -0.5]), np.array([-0.8, 0.2, 0.6])
