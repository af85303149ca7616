"""Iterators and conversions in C over traced arrays, as recorded code finds them: ``np.ndenumerate``, ``np.nditer``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..record.array import TracedArray, in_c_order, is_traced, unsupported, wrap_array
from ..record.made_arrays import MadeArray
from ..record.shown_names import show_functions
from .hooks import hook
from .shape import as_traced


class ArrayIterator:
    """``np.nditer`` over *op*, one array or several that are broadcast: each element is a view, a 0-d array."""

    def __init__(self, op: Any, flags: Any = (), op_flags: Any = None, *args: Any, **kwargs: Any) -> None:
        listed = list(op) if isinstance(op, (list, tuple)) else [op]
        order = kwargs.pop("order", "K")
        if (
            args
            or kwargs
            or any(x is None for x in listed)
            or not {"multi_index", "c_index", "refs_ok", "zerosize_ok"}.issuperset(flags)
        ):
            raise unsupported("np.nditer with other arguments than order=, op_flags=, multi_index and c_index")
        if order not in ("C", "K") or not (order == "C" or all(map(in_c_order, listed))):
            raise unsupported("np.nditer over arrays in another order than C")
        self.operands = tuple([x if type(x) in (TracedArray, MadeArray) else np.asarray(x) for x in listed])
        self.shape = np.broadcast_shapes(*[x.shape for x in self.operands])
        self.nop, self.ndim, self.itersize = len(listed), len(self.shape), int(np.prod(self.shape))
        self._all = [x if x.shape == self.shape else np.broadcast_to(x, self.shape) for x in self.operands]
        self.reset()

    def reset(self) -> None:
        self.index, self.finished = 0, self.itersize == 0

    @property
    def multi_index(self) -> tuple[int, ...]:
        return tuple([int(i) for i in np.unravel_index(self.index, self.shape)])

    def __getitem__(self, k: int) -> Any:
        index: Any = (*self.multi_index, ...)
        return self._all[k][index]

    @property
    def value(self) -> Any:
        found = tuple([self[k] for k in range(self.nop)])
        return found[0] if self.nop == 1 else found

    def iternext(self) -> bool:
        self.index += 1
        self.finished = self.index >= self.itersize
        return not self.finished

    def __iter__(self) -> Iterator[Any]:
        while not self.finished:
            yield self.value
            self.iternext()

    def __len__(self) -> int:
        return self.itersize

    def __enter__(self) -> ArrayIterator:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def _nditer(op: Any, *args: Any, **kwargs: Any) -> Any:
    ours = is_traced(op) or type(op) is MadeArray
    return (ArrayIterator if ours else np.nditer)(op, *args, **kwargs)


def _ndenumerate(arr: Any) -> Any:
    array = as_traced(arr) if is_traced(arr) else None
    return np.ndenumerate(arr) if array is None else ((index, array[index]) for index in np.ndindex(array.shape))


class _Broadcast:
    """``np.broadcast``: the shape of what its operands give together."""

    def __init__(self, *operands: Any) -> None:
        self.shape = np.broadcast_shapes(*[np.shape(x) for x in operands])
        self.ndim = self.nd = len(self.shape)
        self.size, self.numiter = math.prod(self.shape), len(operands)

    def __iter__(self) -> Any:
        raise unsupported("iteration over np.broadcast")


def _broadcast(*operands: Any) -> Any:
    return (_Broadcast if is_traced(operands) else np.broadcast)(*operands)


def _finite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    """``np.asarray_chkfinite``, which asks."""
    array = as_traced(a)
    if array.aval.is_float and not bool(np.isfinite(array).all()):
        raise ValueError("array must not contain infs or NaNs")
    return array if dtype is None else array.astype(dtype)


def _fortran(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    if not is_traced(a):
        return np.asfortranarray(a, dtype)
    array = as_traced(a) if dtype is None else as_traced(a).astype(dtype)
    return wrap_array(array.atom, c_order=array.ndim <= 1)


def _require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    if not is_traced(a):
        return np.require(a, dtype, requirements)
    array = as_traced(a) if dtype is None else as_traced(a).astype(dtype, copy=False)
    asked = {str(r)[0].upper() for r in requirements or ()}
    if "F" in asked or ("C" in asked and not in_c_order(array)):
        raise unsupported("np.require of a memory layout")
    return array


show_functions(
    np,
    {
        "ndenumerate": _ndenumerate, "nditer": _nditer, "broadcast": _broadcast, "asfortranarray": _fortran,
        "require": _require,
    },
)  # fmt: skip
hook(np.asarray_chkfinite, _finite)
