"""Tables of pandas with traced values: what an operation of a ``DataFrame`` and a traced value gives.

As ``series.py``: elementwise between equal indexes and columns, reductions along the axis that pandas takes, columns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..record.array import TracedArray, to_atom, wrap_array
from .series import REDUCTIONS, Elementwise, TracedSeries, array_of, is_pandas, operated, refuse


class TracedFrame(Elementwise):
    """*array*, of two axes, with an *index* and *columns* as a DataFrame has them."""

    __slots__ = ("array", "columns", "index")
    kind = "DataFrame"

    def __init__(self, array: TracedArray, index: Any, columns: Any) -> None:
        self.array, self.index, self.columns = array, index, columns

    def _operand(self, value: Any) -> Any:
        """*value* as an array that broadcasts to this one."""
        if isinstance(value, TracedFrame) or is_pandas(value, "DataFrame"):
            if not (self.index.equals(value.index) and self.columns.equals(value.columns)):
                refuse("an operation of DataFrames with other axes, which pandas would align,")
            return value.array if isinstance(value, TracedFrame) else _numbers(value)
        if isinstance(value, TracedSeries) or is_pandas(value, "Series"):
            if not self.columns.equals(value.index):
                refuse("an operation of a DataFrame with a Series whose index is not its columns")
            return array_of(value)
        return value

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """*function* of *operands*, of which this is one, elementwise."""
        found = function(*[self._operand(x) for x in operands])
        if np.shape(found) != self.shape:
            refuse("an operation that gives another shape than that of the DataFrame")
        return TracedFrame(found, self.index, self.columns)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs.get("out") is not None:
            refuse(f"np.{ufunc.__name__}.{method} of a DataFrame with traced values")
        if ufunc is np.matmul:
            return inputs[0] @ self if inputs[1] is self else self @ inputs[1]
        return self.apply(lambda *given: ufunc(*given, **kwargs), *inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = func.__name__.removeprefix("a") if func.__name__ in ("amin", "amax") else func.__name__
        if args and args[0] is self and name in REDUCTIONS:
            given = {k: v for k, v in kwargs.items() if v is not None or k == "axis"}
            return getattr(self, name)(*args[1:], **(given if args[1:] or "axis" in given else {"axis": _whole(name)}))
        return func(*[array_of(x) for x in args], **{key: array_of(x) for key, x in kwargs.items()})

    def __matmul__(self, other: Any) -> Any:
        if (isinstance(other, TracedSeries) or is_pandas(other, "Series")) and not self.columns.equals(other.index):
            refuse("the product of a DataFrame with a Series whose index is not its columns")
        found = np.matmul(self.array, array_of(other))
        if found.ndim > 1:
            refuse("the product of a DataFrame with a matrix, of traced values,")
        return TracedSeries(found, self.index)

    dot = __matmul__

    def __rmatmul__(self, other: Any) -> Any:
        if np.ndim(other) > 1:
            refuse("the product of a matrix with a DataFrame, of traced values,")
        return TracedSeries(np.matmul(other, self.array), self.columns)

    def __getitem__(self, key: Any) -> Any:
        if is_pandas(key, "Series") or isinstance(key, (slice, np.ndarray, TracedSeries)):
            refuse("the selection of rows of a DataFrame with traced values")
        places = sys.modules["pandas"].Series(np.arange(len(self.columns)), index=self.columns)
        found = places[key]
        if is_pandas(found, "Series"):
            return TracedFrame(self.array[:, found.to_numpy()], self.index, found.index)
        return TracedSeries(self.array[:, int(found)], self.index, key)

    @property
    def T(self) -> TracedFrame:  # noqa: N802
        return TracedFrame(self.array.T, self.columns, self.index)

    def settled(self, plain: Callable[[Any], Any]) -> Any:
        """The DataFrame over the values that *plain* gives."""
        return sys.modules["pandas"].DataFrame(plain(self.array), index=self.index, columns=self.columns)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self.columns:
            return self[name]
        refuse(f"`.{name}` of a DataFrame with traced values")


@lru_cache(maxsize=32)
def _whole(name: str) -> int | None:
    """The axis that ``np.sum`` and others reduce in this pandas, where none is named: both, or the first."""
    return 0 if np.ndim(getattr(np, name)(sys.modules["pandas"].DataFrame([[1.0]]))) else None


def _numbers(frame: Any) -> np.ndarray:
    found = frame.to_numpy()
    if found.dtype == object:
        refuse("a DataFrame with columns that are no numbers, with traced values,")
    return found


def _reduction(function: Any) -> Callable[..., Any]:
    def reduce(self: TracedFrame, axis: Any = 0, skipna: bool = True, **kwargs: Any) -> Any:
        if not skipna or any(value is not None for value in kwargs.values()):
            refuse(f"{function.__name__} with more arguments, of a DataFrame with traced values,")
        axis = {"index": 0, "columns": 1}.get(axis, axis)
        found = function(self.array, axis=axis)
        return found if axis is None else TracedSeries(found, self.columns if axis == 0 else self.index)

    return reduce


for _name, _function in REDUCTIONS.items():
    setattr(TracedFrame, _name, _reduction(_function))


# ---- pandas' own methods, with a traced operand ----------------------------------------------------------------------


def of_plain(frame: Any) -> TracedFrame:
    """The plain *frame* as one of traced values."""
    return TracedFrame(wrap_array(to_atom(_numbers(frame))), frame.index, frame.columns)


def arithmetic(self: Any, other: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    """``frame <op> other``."""
    return operated(of_plain(self), other, op)


def flexible(self: Any, other: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    """``frame.mul(other)`` and the like."""
    if kwargs.get("level") is not None or kwargs.get("fill_value") is not None or getattr(other, "ndim", 0) > 0:
        refuse(f"{op.__name__} of a DataFrame with traced values but by a number")
    return arithmetic(self, other, op)


def product(self: Any, other: Any) -> Any:
    """``frame @ other``."""
    return of_plain(self) @ other


def product_from_left(self: Any, other: Any) -> Any:
    """``other @ frame``."""
    return array_of(other) @ of_plain(self)
