"""Everyday lines of NumPy code, each a function of data *p* and a number *t*, in a module of their own.

``IDIOMS``: name -> (the function, what makes its argument of five floats).  All are smooth where the tests call them,
so that central differences of central differences hold.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import attrs
import numba
import numpy as np
import pandas as pd
import scipy.sparse

A = 3.0 * np.eye(3) + 0.1 * np.arange(9.0).reshape(3, 3)
SPARSE = scipy.sparse.csr_matrix(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
FRAME = pd.DataFrame({"u": [1.0, 2.0, 0.5], "v": [0.2, -1.0, 3.0]})


@dataclass
class Params:
    rate: float
    weights: np.ndarray


class Pair(NamedTuple):
    rate: float
    weights: np.ndarray


@attrs.define
class Fields:
    rate: float
    weights: np.ndarray


class Record:
    def __init__(self, rate, weights):
        self.rate, self.weights = rate, weights


@numba.njit
def compiled_by_numba(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    return total


@numba.vectorize
def ufunc_of_numba(x):
    return x * x if x > 0 else -x


@functools.lru_cache
def powers(n):
    return np.arange(1.0, n + 1.0)


@functools.cache
def cached_energy(a, b):
    return a * a + math.sin(b)


def a_list(p, t):
    return np.sum(np.array([p[0] * t, p[1] ** 2]))


def nested_lists(p, t):
    rotation = np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
    return (rotation @ p[:2])[0] ** 2


def assigned(p, t):
    z = np.zeros(3)
    z[0] = p[0] * t
    z[1:] = p[1:3] ** 2
    z[z > 10.0] = 10.0
    z *= 0.5
    return np.sum(z * p[:3])


def scalar_code(p, t):
    return math.sin(t) + math.exp(-p[0]) + math.hypot(p[1], p[2]) * abs(p[3])


def by_numba(p, t):
    return compiled_by_numba(p * t)


def by_numba_vectorize(p, t):
    return np.sum(ufunc_of_numba(p)) * t


def sparse_product(p, t):
    return np.sum((SPARSE @ p[:3]) ** 2) * t


def vectorized(p, t):
    return np.sum(np.vectorize(lambda v: v * v + t)(p))


def along_an_axis(p, t):
    return np.apply_along_axis(lambda row: np.sum(row * row) * t, 1, p[:4].reshape(2, 2))[1]


def solved(p, t):
    return np.sum(np.linalg.solve(A + np.diag(p[:3]), np.array([1.0, t, 2.0])))


def decomposed(p, t):
    L = np.linalg.cholesky(A @ A.T + np.outer(p[:3], p[:3]))
    return np.linalg.slogdet(A * (1.0 + p[0] ** 2))[1] + t * np.linalg.norm(L)


def complex_numbers(p, t):
    return np.sum(np.abs(np.exp(1j * p) + t) ** 2) + (2j * p[0] * t).imag


def remembered(p, t):
    return np.sum(powers(5) * p) * t + cached_energy(p[0], p[1])


def series(p, t):
    return np.sum((FRAME["u"] * p[0] + FRAME["v"]) ** 2) * t


def frame(p, t):
    return np.sum(FRAME.values @ p[:2]) ** 2 + np.sum(np.asarray(FRAME["v"]) * t)


def of_a_record(p, t):
    return p.rate * t + np.sum(p.weights**2) * p.rate


def _array(x):
    return x


def _recorded(cls):
    return lambda x: cls(float(x[0]), x[1:].copy())


def parts(p: Any) -> np.ndarray:
    """The five floats of an argument or of its gradient."""
    return p if isinstance(p, np.ndarray) else np.concatenate([[p.rate], p.weights])


IDIOMS: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], Any]]] = {
    **{
        f.__name__: (f, _array)
        for f in (a_list, nested_lists, assigned, scalar_code, by_numba, by_numba_vectorize, sparse_product,
                  vectorized, along_an_axis, solved, decomposed, complex_numbers, remembered, series, frame)
    },
    "a dataclass": (of_a_record, _recorded(Params)),
    "a named tuple": (of_a_record, _recorded(Pair)),
    "attrs": (of_a_record, _recorded(Fields)),
    "SimpleNamespace": (of_a_record, lambda x: SimpleNamespace(rate=float(x[0]), weights=x[1:].copy())),
    "a class": (of_a_record, _recorded(Record)),
}  # fmt: skip
