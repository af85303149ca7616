"""Tensors made from data or by rule, under the standard's signatures.

The floating dtype is ``tracegrad.get_default_dtype()`` unless one is given: the namespace and ``tracegrad.tensor`` make
the same tensors of the same data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensors import create, dtypes
from ..tensors.apply import apply
from ..tensors.dtypes import as_dtype
from ..tensors.ops_basic import to_dtype
from ..tensors.ops_facts import to
from ..tensors.ops_join import STACK
from ..tensors.tensor import METHODS, Tensor
from ..tracer.numpy_api import creation
from .rows import row, written


@written
def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """*obj* (numbers, nested sequences of them, an array, a Tensor) as a tensor, which keeps its history.

    :param copy: True always copies; None copies where it has to; False never.
    :raises ValueError: where a copy is needed and *copy* is False.
    """
    if copy is not False:
        if isinstance(obj, Tensor):
            found = create.as_tensor(obj, dtype, device)
            return METHODS["clone"](found) if copy and found is obj else found
        if dtypes.is_sequence(obj) and any(isinstance(v, Tensor) for v in dtypes.flatten(obj)[1]):
            return _of_tensors(obj, dtype)
        return (create.tensor if copy else create.as_tensor)(obj, dtype, device)
    shared = create.as_tensor(obj, device=device) if isinstance(obj, (Tensor, np.ndarray)) else None
    if shared is None or dtype not in (None, shared.dtype) or (isinstance(obj, Tensor) and shared is not obj):
        raise ValueError(f"asarray(): a {type(obj).__name__} has to be copied, but copy is False")
    if isinstance(obj, np.ndarray) and not np.may_share_memory(obj, shared._data) and obj.size:
        raise ValueError("asarray(): the array can't be written, so it has to be copied, but copy is False")
    return shared


def _of_tensors(obj: Any, dtype: Any) -> Any:
    """The tensor of nested sequences whose elements are tensors, with their history."""
    sizes, leaves = dtypes.flatten(obj)
    kind = dtypes.infer_leaves(leaves) if dtype is None else as_dtype(dtype)
    parts = tuple([to_dtype(create.as_tensor(v), kind) for v in leaves])
    return METHODS["reshape"](apply(STACK, parts, (0,)), (*sizes, *parts[0].shape))


@written
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor over the memory of an object of another library that speaks DLPack."""
    found = create.from_dlpack(x, copy)
    return found if device is None else to(found, device)


@written
def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    """start, start + step, ... before *stop*; ``arange(n)`` counts from 0."""
    start, stop = (0, start) if stop is None else (start, stop)
    if dtype is None:
        whole = all(isinstance(v, int) for v in (start, stop, step))
        dtype = dtypes.int64 if whole else dtypes.get_default_dtype()
    return create.as_tensor(creation.arange(start, stop, step, dtype=as_dtype(dtype)), device=device)


@written
def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Any:
    """*num* numbers at equal distances from *start* to *stop*, which is the last of them if *endpoint*."""
    dtype = dtypes.get_default_dtype() if dtype is None else as_dtype(dtype)
    return create.as_tensor(creation.linspace(start, stop, num, endpoint, dtype), device=device)


@written
def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    """Ones on the *k*-th diagonal, zeros elsewhere."""
    return create.eye(n_rows, n_cols, k, dtype=dtype, device=device)


@written
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor full of one number, which may be a tensor without axes."""
    if isinstance(fill_value, Tensor) and fill_value.requires_grad:
        value = create.as_tensor(fill_value, dtype, device)
        return METHODS["clone"](METHODS["broadcast_to"](value, shape))
    return create.full(shape, fill_value, dtype, device=device)


@written
def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor full of one number, in the shape (and dtype, unless given) of *x*."""
    if isinstance(fill_value, Tensor):
        return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)
    return create.full_like(x, fill_value, dtype=dtype, device=device)


@written
def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor with arbitrary contents."""
    return create.empty(shape, dtype=dtype, device=device)


@written
def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Arbitrary contents in the shape (and dtype, unless given) of *x*."""
    return create.empty_like(x, dtype=dtype, device=device)


@written
def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of ones."""
    return create.ones(shape, dtype=dtype, device=device)


@written
def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones in the shape (and dtype, unless given) of *x*."""
    return create.ones_like(x, dtype=dtype, device=device)


@written
def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of zeros."""
    return create.zeros(shape, dtype=dtype, device=device)


@written
def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros in the shape (and dtype, unless given) of *x*."""
    return create.zeros_like(x, dtype=dtype, device=device)


@written
def meshgrid(*arrays: Any, indexing: str = "xy") -> Any:
    """Tensors of one shape, each of which varies along an axis of its own as one of the *arrays*."""
    return create.meshgrid(*arrays, indexing=indexing)


row("tril(x, /, *, k=0)")
row("triu(x, /, *, k=0)")
