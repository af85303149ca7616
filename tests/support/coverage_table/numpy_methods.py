"""Methods of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .case import Case

V = np.array([0.3, -1.2, 2.1, 0.7])
M = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4]])
S = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4], [1.1, 0.2, 0.5]])
ROW = np.array([0.9, 2.4, -1.7])


def _method(name: str, *given: Any, x: np.ndarray = M, order: int = 2, label: str = "", **keywords: Any) -> Case:
    return Case(f"numpy.ndarray.{name}", lambda x: getattr(x, name)(*given, **keywords), [x], order, label=label)


def _changed(name: str, change: Callable[[Any], Any]) -> Case:
    """A copy of an array after *change*."""

    def call(x: Any) -> Any:
        y = x.copy()
        change(y)
        return y

    return Case(f"numpy.ndarray.{name}", call, [V])


CASES = [
    *[_method(name) for name in "copy flatten ravel transpose conj conjugate tolist".split()],
    *[_method(name) for name in "sum mean prod max min std var cumsum cumprod".split()],
    *[_method(name, axis=0, keepdims=True, label="axis") for name in "sum mean prod max min std var".split()],
    *[_method(name, axis=1, label="axis") for name in "cumsum cumprod".split()],
    *[_method(name, order=0) for name in "argmax argmin argsort nonzero round".split()],
    *[_method(name, axis=0, order=0, label="axis") for name in "argmax argmin argsort".split()],
    _method("all", order=0),
    _method("any", order=0),
    _method("argpartition", 2, x=ROW, order=0),
    _method("searchsorted", 1.0, x=np.sort(ROW), order=0),
    _method("sum", where=M > 0, initial=2.0, label="where"),
    _method("mean", where=M > 0, label="where"),
    _method("var", ddof=1, label="ddof"),
    _method("astype", np.complex128),
    _method("clip", -1.0, 1.5),
    _method("clip", min=0.5, label="keyword"),
    _method("compress", [True, False, True], axis=1),
    _method("diagonal", 1, x=S),
    _method("trace", x=S),
    _method("dot", ROW),
    _method("flatten", "F", label="order"),
    _method("repeat", 2, axis=1),
    _method("reshape", 3, 2),
    Case("numpy.ndarray.reshape", lambda x: x.reshape((-1, 2), order="F"), [M], label="order"),
    _method("squeeze", x=M[:, None]),
    _method("swapaxes", 0, 1),
    _method("transpose", 1, 0, label="axes"),
    _method("take", [2, 0], axis=1),
    _method("item", 1, 2),
    Case("numpy.ndarray.choose", lambda x: np.array([1, 0, 1]).choose([x, 2 * x]), [ROW]),
    Case("numpy.ndarray.view", lambda x: x.view() ** 2, [M]),
    Case("numpy.ndarray.T", lambda x: x.T, [M]),
    Case("numpy.ndarray.real", lambda x: (x + 2j * x).imag + x.real, [M]),
    Case("numpy.ndarray.flat", lambda x: np.array([v * v for v in x.flat]), [M]),
    _changed("fill", lambda y: y.fill(y[0] ** 2)),
    _changed("put", lambda y: y.put([0, 2], y[1:3])),
    _changed("sort", lambda y: y.sort()),
    _changed("partition", lambda y: (y.partition(1), y.sort())),
]
