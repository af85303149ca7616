"""The functions of the stand-in's ``cupy`` module, with CuPy's parameters."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .array import SCALARS, ndarray, unwrap
from .runtime import counts

TABLE: dict[str, Any] = {}

UFUNCS = """add subtract multiply divide true_divide negative absolute sign square reciprocal floor_divide
remainder fmod power sqrt cbrt exp exp2 expm1 log log2 log10 log1p logaddexp sin cos tan arcsin
arccos arctan sinh cosh tanh arcsinh arccosh arctanh arctan2 hypot floor ceil trunc rint copysign ldexp
equal not_equal less less_equal greater greater_equal isnan isinf isfinite signbit logical_and
logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor left_shift right_shift invert
maximum minimum fmax fmin""".split()


def ufunc(function: Callable[..., Any]) -> Callable[..., Any]:
    """*function* of NumPy arrays as one of CuPy: at least one operand is an array, and the result is a new one."""

    def apply(*operands: Any) -> ndarray:
        plain = [unwrap(x) for x in operands]
        with np.errstate(all="ignore"):
            return ndarray.new(function(*plain))

    return apply


def _public(function: Callable[..., Any]) -> Callable[..., Any]:
    TABLE[function.__name__.rstrip("_")] = function
    return function


for _name in UFUNCS:
    TABLE[_name] = ufunc(getattr(np, _name))


# where CuPy's numbers are not NumPy's


def _floor_divide(x: Any, y: Any) -> Any:
    dtype = np.result_type(x, y)
    return np.floor(np.true_divide(x, y)) if dtype.kind == "f" else np.floor_divide(x, y)


def _remainder(x: Any, y: Any) -> Any:
    dtype = np.result_type(x, y)
    return x - _floor_divide(x, y) * y if dtype.kind == "f" else np.remainder(x, y)


def _fmod(x: Any, y: Any) -> Any:
    dtype = np.result_type(x, y)
    if dtype.kind == "f":
        return np.fmod(x, y)
    found = np.fmod(np.asarray(x, float), np.asarray(y, float))
    return np.where(np.asarray(y) == 0, 0, found).astype(dtype)


TABLE.update(floor_divide=ufunc(_floor_divide), remainder=ufunc(_remainder), fmod=ufunc(_fmod))


# ---- making arrays ---------------------------------------------------------------------------------------------------


@_public
def array(
    obj: Any, dtype: Any = None, copy: Any = True, order: str = "K", subok: bool = False, ndmin: int = 0, *,
    blocking: bool = False,
) -> ndarray:  # fmt: skip
    if isinstance(obj, ndarray):
        if not copy and dtype in (None, obj.dtype):
            return obj
        counts["copy"] += 1
        return ndarray.new(np.array(obj._a, dtype, order=order))
    if isinstance(obj, np.ndarray):
        counts["upload"] += 1
    counts["wait"] += blocking
    return ndarray.new(np.array(obj, dtype, order=order))


@_public
def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> ndarray:
    return array(a, dtype, copy=False, order=order or "K", blocking=blocking)


@_public
def zeros(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return ndarray.new(np.zeros(shape, dtype, order))


@_public
def ones(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return ndarray.new(np.ones(shape, dtype, order))


@_public
def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """Filled with what nobody should rely on."""
    made = np.empty(shape, dtype, order)
    made.fill(np.nan if made.dtype.kind == "f" else 77)
    return ndarray.new(made)


@_public
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> ndarray:
    return ndarray.new(np.full(shape, unwrap(fill_value), dtype, order))


@_public
def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    return ndarray.new(np.zeros_like(_array(a), dtype))


@_public
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    return ndarray.new(np.ones_like(_array(a), dtype))


@_public
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> ndarray:
    return ndarray.new(np.full_like(_array(a), unwrap(fill_value), dtype))


@_public
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    return ndarray.new(np.arange(start, dtype=dtype) if stop is None else np.arange(start, stop, step, dtype))


def _array(x: Any) -> np.ndarray:
    """Of an operand that has to be an array of the device: numbers are refused too."""
    if not isinstance(x, ndarray):
        raise TypeError(f"Unsupported type {type(x)}")
    return x._a


# ---- the rest --------------------------------------------------------------------------------------------------------


@_public
def broadcast_to(array: Any, shape: Any) -> ndarray:
    return array.over(np.broadcast_to(_array(array), shape))


@_public
def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    return a if a.flags.c_contiguous else ndarray.new(np.ascontiguousarray(_array(a)))


def _as_strided(x: Any, shape: Any = None, strides: Any = None) -> ndarray:
    return x.over(np.lib.stride_tricks.as_strided(_array(x), shape, strides))


TABLE["lib"] = types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=_as_strided))


@_public
def concatenate(tup: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> ndarray:
    return ndarray.new(np.concatenate([_array(x) for x in tup], axis))


@_public
def stack(tup: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> ndarray:
    return ndarray.new(np.stack([_array(x) for x in tup], axis))


@_public
def where(condition: Any, x: Any = None, y: Any = None) -> ndarray:
    if x is None or y is None:
        raise AssertionError("where of one argument waits for the device")
    return ndarray.new(np.where(_array(condition), unwrap(x), unwrap(y)))


@_public
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None) -> ndarray:
    size = a.size if axis is None else a.shape[axis]
    return ndarray.new(np.take(_array(a), _array(indices) % size if size else _array(indices), axis))


@_public
def matmul(x: Any, y: Any) -> ndarray:
    return ndarray.new(np.matmul(_array(x), _array(y)))


@_public
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> ndarray:
    return ndarray.new(np.cumsum(_array(a), axis, dtype))


@_public
def sum_(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    return _total(np.sum, a, axis, dtype, keepdims)


@_public
def prod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    return _total(np.prod, a, axis, dtype, keepdims)


def _total(function: Any, a: Any, axis: Any, dtype: Any, keepdims: bool) -> ndarray:
    """Of small integers and bools CuPy's are int64, whatever dtype was asked for."""
    wide = None if dtype is not None and np.dtype(dtype).kind in "iub" else dtype
    return ndarray.new(function(_array(a), axis, wide, keepdims=keepdims))


@_public
def max_(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    return ndarray.new(np.max(_array(a), axis, keepdims=keepdims))


@_public
def min_(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    return ndarray.new(np.min(_array(a), axis, keepdims=keepdims))


@_public
def any_(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    return ndarray.new(np.any(_array(a), axis, keepdims=keepdims))


@_public
def all_(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    return ndarray.new(np.all(_array(a), axis, keepdims=keepdims))


@_public
def argmax(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    return ndarray.new(np.argmax(_array(a), axis, keepdims=keepdims))


@_public
def argmin(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    return ndarray.new(np.argmin(_array(a), axis, keepdims=keepdims))


@_public
def argsort(a: Any, axis: Any = -1, kind: Any = None) -> ndarray:
    return ndarray.new(np.argsort(_array(a), axis, kind="stable"))


@_public
def nonzero(a: Any) -> tuple[ndarray, ...]:
    return a.nonzero()


@_public
def count_nonzero(a: Any, axis: Any = None) -> ndarray:
    return ndarray.new(np.count_nonzero(_array(a), axis))


@_public
def atleast_1d(*arys: Any) -> ndarray:
    (a,) = arys
    return a if a.ndim else a.reshape(1)


@_public
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> ndarray:
    return ndarray.new(np.isclose(_array(a), _array(b), rtol, atol, equal_nan))


@_public
def bincount(x: Any, weights: Any = None, minlength: Any = None) -> ndarray:
    counts["wait"] += 1
    return ndarray.new(np.bincount(_array(x), None if weights is None else _array(weights), minlength or 0))


@_public
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> ndarray:
    if not isinstance(v, (ndarray, int, float)):
        raise NotImplementedError("Only python scalars or ndarrays are supported for v")
    return ndarray.new(np.searchsorted(_array(a), unwrap(v), side))


def _transform(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> ndarray:
        return ndarray.new(function(_array(a), n, axis, norm))

    return apply


TABLE["fft"] = types.SimpleNamespace(
    **{name: _transform(getattr(np.fft, name)) for name in ("fft", "ifft", "rfft", "irfft")}
)


__all__ = ["SCALARS", "TABLE", "UFUNCS", "ufunc"]
