"""Arrays made inside traced code that traced values can be assigned into: ``tracegrad.zeros`` and its relatives.

While a function is being recorded they give traced arrays, otherwise plain NumPy ones, so the same code runs either
way."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.graph import Lit
from ..ir.trees import tree_map
from ..ops.elementwise import F, cast
from ..record.array import TracedArray, class_of, is_traced, to_atom, wrap, wrap_array
from ..record.recorder import current_recorder
from .assemble import nested_atom
from .create import filled
from .registry import shape_of


def zeros(shape: Any, dtype: Any = float) -> Any:
    """np.zeros, writable with traced values while a function is recorded."""
    if current_recorder() is None:
        return np.zeros(shape, dtype)
    return filled(Lit(0, np.dtype(float), structural=True), shape_of(shape), dtype)


def ones(shape: Any, dtype: Any = float) -> Any:
    """np.ones, writable with traced values while a function is recorded."""
    if current_recorder() is None:
        return np.ones(shape, dtype)
    return filled(Lit(1, np.dtype(float), structural=True), shape_of(shape), dtype)


def empty(shape: Any, dtype: Any = float) -> Any:
    """np.empty; while a function is recorded the contents are zeros."""
    return np.empty(shape, dtype) if current_recorder() is None else zeros(shape, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """np.full; the value may be traced."""
    if current_recorder() is None:
        return np.full(shape, fill_value, dtype)
    return filled(
        np.asarray(fill_value) if isinstance(fill_value, (list, tuple)) and not is_traced(fill_value) else fill_value,
        shape_of(shape),
        dtype,
    )


def eye(n: int, m: int | None = None, k: int = 0, dtype: Any = float) -> Any:
    """np.eye, writable with traced values while a function is recorded."""
    plain = np.eye(n, m, k, dtype)
    return plain if current_recorder() is None else writable_copy(plain)


def arange(*args: Any, dtype: Any = None) -> Any:
    """np.arange of plain numbers, writable with traced values while a function is recorded."""
    plain = np.arange(*args, dtype=dtype)
    return plain if current_recorder() is None else writable_copy(plain)


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """np.linspace; the ends may be traced."""
    result = np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype, axis=axis)
    return result if current_recorder() is None or isinstance(result, TracedArray) else writable_copy(result)


def array(values: Any, dtype: Any = None) -> Any:
    """np.array; nested lists may hold traced values."""
    if current_recorder() is None:
        return np.array(values, dtype)
    if is_traced(values):
        atom = nested_atom(values)
        return wrap_array(cast(atom, atom.aval.dtype if dtype is None else np.dtype(dtype)))
    return writable_copy(np.array(values, dtype))


def asarray(values: Any, dtype: Any = None) -> Any:
    """np.asarray; a traced array is returned as it is, unless its dtype changes."""
    if current_recorder() is None:
        return np.asarray(values, dtype)
    if isinstance(values, TracedArray) and (dtype is None or values.dtype == np.dtype(dtype)):
        return values
    return array(values, dtype)


def stack(arrays: Any, axis: int = 0) -> Any:
    """np.stack."""
    return np.stack(arrays, axis)


def writable_copy(plain: np.ndarray) -> TracedArray:
    return wrap_array(to_atom(plain), c_order=bool(plain.flags.c_contiguous))


def stop_gradient(x: Any) -> Any:
    """*x*, a number, array, tensor, or a tree of them, as a constant for derivatives: it has the value, of any dtype
    and shape, and no gradient flows through it.

    Where plain code needs the number itself (``math.gamma(tracegrad.stop_gradient(t))``), this says that its gradient
    is not wanted."""
    return tree_map(_stopped, x)


def _stopped(x: Any) -> Any:
    if isinstance(x, TracedArray):
        found = wrap(F.stop_gradient(x.atom))
        found._storage.array0d = not x.shape and class_of(x) is np.ndarray
        return found
    return x.detach() if hasattr(type(x), "detach") else x
