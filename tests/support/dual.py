"""Directional derivatives of plain NumPy code by dual numbers: exact, and unaware of recordings, graphs and adjoints.

A ``Dual`` is an array with its tangent.  Both are NumPy arrays that are viewed, written and copied together, so views,
writes in place and Python's control flow need no rules of their own.  ``numpy_for_duals`` stands for ``np`` in the
program: it is NumPy but for what builds arrays from lists.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# Partial derivatives by operand, from the operands and the result.
PARTIALS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "add": lambda x, y, z: (1.0, 1.0),
    "subtract": lambda x, y, z: (1.0, -1.0),
    "multiply": lambda x, y, z: (y, x),
    "divide": lambda x, y, z: (1.0 / y, -z / y),
    "power": lambda x, y, z: (y * x ** (y - 1.0), 0.0),  # of a constant exponent
    "maximum": lambda x, y, z: (_ahead(x, y), _ahead(y, x)),
    "minimum": lambda x, y, z: (_ahead(y, x), _ahead(x, y)),
    "negative": lambda x, z: (-1.0,),
    "positive": lambda x, z: (1.0,),
    "absolute": lambda x, z: (np.sign(x),),
    "square": lambda x, z: (2.0 * x,),
    "sqrt": lambda x, z: (0.5 / z,),
    "exp": lambda x, z: (z,),
    "log": lambda x, z: (1.0 / x,),
    "log1p": lambda x, z: (1.0 / (1.0 + x),),
    "sin": lambda x, z: (np.cos(x),),
    "cos": lambda x, z: (-np.sin(x),),
    "tanh": lambda x, z: (1.0 - z * z,),
    "arctan": lambda x, z: (1.0 / (1.0 + x * x),),
}
BILINEAR = {"matmul", "dot", "outer", "inner"}
LINEAR = {"sum", "mean", "stack", "concatenate", "cumsum", "append", "roll", "flip", "reshape", "transpose", "copy"}
LINEAR |= {"diff", "ravel", "vstack", "hstack", "trace", "expand_dims", "squeeze", "broadcast_to"}
FACTS = {"shape", "ndim", "size", "argmax", "argmin", "argsort", "any", "all", "isnan", "isfinite", "array_equal"}


def _ahead(x: Any, y: Any) -> Any:
    """1 where x is larger, one half at ties: the library's convention."""
    return 0.5 * (np.asarray(x > y, float) + np.asarray(x >= y, float))


def value_of(x: Any) -> Any:
    """*x* without tangents; lists and tuples element by element."""
    if isinstance(x, Dual):
        return x.value
    return type(x)(value_of(item) for item in x) if isinstance(x, (list, tuple)) else x


def tangent_of(x: Any) -> Any:
    """The tangent of *x*, zeros for what has none; lists and tuples element by element."""
    if isinstance(x, Dual):
        return x.tangent
    return type(x)(tangent_of(item) for item in x) if isinstance(x, (list, tuple)) else np.zeros(np.shape(x))[()]


class Dual(np.lib.mixins.NDArrayOperatorsMixin):
    """A float scalar or array and its tangent, of one shape."""

    def __init__(self, value: Any, tangent: Any):
        self.value = value
        if np.shape(tangent) != np.shape(value):
            tangent = np.broadcast_to(tangent, np.shape(value)).copy()
        self.tangent = tangent

    shape = property(lambda self: np.shape(self.value))
    ndim = property(lambda self: np.ndim(self.value))
    size = property(lambda self: np.size(self.value))
    T = property(lambda self: Dual(self.value.T, self.tangent.T))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Dual]:
        return (self[i] for i in range(len(self.value)))

    def __getitem__(self, index: Any) -> Dual:
        return Dual(self.value[index], self.tangent[index])

    def __setitem__(self, index: Any, new: Any) -> None:
        self.value[index], self.tangent[index] = value_of(new), tangent_of(new)

    def sum(self, axis: Any = None) -> Any:
        return np.sum(self, axis=axis)

    def mean(self, axis: Any = None) -> Any:
        return np.mean(self, axis=axis)

    def max(self) -> Any:
        return np.max(self)

    def copy(self) -> Dual:
        return Dual(self.value.copy(), self.tangent.copy())

    def reshape(self, *shape: Any) -> Dual:
        return Dual(self.value.reshape(*shape), self.tangent.reshape(*shape))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        name = ufunc.__name__
        values = [value_of(x) for x in inputs]
        value = ufunc(*values)
        if name in BILINEAR:
            x, y = inputs
            tangent = ufunc(tangent_of(x), value_of(y)) + ufunc(value_of(x), tangent_of(y))
        elif name in PARTIALS:
            partials = PARTIALS[name](*values, value)
            pairs = zip(partials, inputs, strict=True)
            tangent = sum((p * x.tangent for p, x in pairs if isinstance(x, Dual)), np.zeros(np.shape(value)))
        elif np.asarray(value).dtype.kind != "f":
            return value  # comparisons
        else:
            return NotImplemented
        if out is None or not isinstance(out[0].value, np.ndarray):  # NumPy's scalars are bound anew, never written
            return Dual(value, tangent)
        out[0][...] = Dual(value, tangent)
        return out[0]

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = func.__name__
        if name in FACTS:
            return func(*[value_of(a) for a in args], **kwargs)
        if name in LINEAR:
            arrays = 2 if name == "append" else 1
            tangents = [tangent_of(a) for a in args[:arrays]]
            return Dual(func(*[value_of(a) for a in args], **kwargs), func(*tangents, *args[arrays:], **kwargs))
        if name in BILINEAR:
            (x, y), (dx, dy) = [value_of(a) for a in args], [tangent_of(a) for a in args]
            return Dual(func(x, y), func(dx, y) + func(x, dy))
        if name == "where":
            condition, x, y = args
            return Dual(func(*[value_of(a) for a in args]), func(value_of(condition), tangent_of(x), tangent_of(y)))
        if name in ("max", "min", "amax", "amin") and len(args) == 1 and not kwargs:
            value = func(args[0].value)
            return Dual(value, np.mean(args[0].tangent[args[0].value == value]))
        return NotImplemented


def array(x: Any, *rest: Any, **kwargs: Any) -> Any:
    """np.array of a list that may hold duals."""
    value = np.array(value_of(x), *rest, **kwargs)
    return Dual(value, np.array(tangent_of(x), float)) if value.dtype.kind == "f" else value


def zeros(shape: Any) -> Dual:
    """tracegrad.zeros"""
    return Dual(np.zeros(shape), np.zeros(shape))


def zeros_like(x: Any) -> Dual:
    """np.zeros_like: of plain arrays too, since duals may be written into it."""
    return zeros(np.shape(x))


class _NumpyForDuals(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


numpy_for_duals = _NumpyForDuals("numpy_for_duals")
numpy_for_duals.array, numpy_for_duals.zeros_like = array, zeros_like  # type: ignore[attr-defined]


def with_tangents(x: Any, direction: Any) -> Any:
    """*x*, a float, an array or a tree of lists and dicts of them, as duals; the direction is of the same structure."""
    if isinstance(x, dict):
        return {name: with_tangents(item, direction[name]) for name, item in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(with_tangents(a, b) for a, b in zip(x, direction, strict=True))
    return Dual(np.array(x), np.array(direction, float)) if np.ndim(x) else Dual(np.float64(x), np.float64(direction))
