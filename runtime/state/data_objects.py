"""Data that is no plain array: memory maps and other byte orders; objects of pandas, xarray, PyTorch and JAX.

The former are read anew in each call, as a plain array over the same memory, or a copy in the machine's byte order.
The latter the code needs as they are, so they are guarded by their contents.  None of these libraries is imported here:
their classes are known by name.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from ...tracer.ir.digests import blake2b

MAX_DATA = 64 << 20  # bytes that are compared in each call
_JAX = ("jaxlib", "jax")


def _is_jax(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _JAX and kind.__name__ == "ArrayImpl"


def _arrays_of_pandas(value: Any) -> list[Any]:
    manager = getattr(value, "_mgr", None)
    return [value._values] if manager is None else [block.values for block in manager.blocks]


def _arrays_of_xarray(value: Any) -> list[Any]:
    return [np.asarray(part.variable.values) for part in [value, *value.coords.values()]]


def _arrays_of_dataset(value: Any) -> list[Any]:
    return [np.asarray(part.values) for part in value.variables.values()]


def _arrays_of_torch(value: Any) -> list[Any]:
    return [value.detach().numpy()]


def _structure_of_xarray(value: Any) -> Hashable:
    parts = value.variables if hasattr(value, "data_vars") else {None: value.variable, **value.coords}
    return repr([(name, part.dims, part.attrs) for name, part in parts.items()]) + repr(getattr(value, "name", None))


@lru_cache(maxsize=256)
def _reader(kind: type) -> Callable[[Any], list[Any]] | None:
    """The function that gives the arrays in which an object of class *kind* holds its data; None if it is none."""
    names = {(base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__}
    if not names.isdisjoint((("pandas", "Series"), ("pandas", "DataFrame"), ("pandas", "Index"))):
        return _arrays_of_pandas
    if ("xarray", "Dataset") in names:
        return _arrays_of_dataset
    if ("xarray", "DataArray") in names:
        return _arrays_of_xarray
    if ("torch", "Tensor") in names:
        return _arrays_of_torch
    return (lambda value: [np.asarray(value)]) if _is_jax(kind) else None


def is_data(kind: Any) -> bool:
    """Whether objects of *kind* are data of a library that is guarded by contents."""
    return _reader(kind) is not None


def copy_of(value: Any) -> Any:
    """A copy of an object that holds data, with memory of its own."""
    kind: Any = type(value)
    if _reader(kind) is _arrays_of_torch:
        return value.detach().clone().requires_grad_(value.requires_grad)
    return value if _is_jax(kind) else value.copy(deep=True)


class DataContents:
    """The data that an object holds, as they were when this was made.  Called with an object, it tells whether that one
    holds the same; ``token`` is equal for the same contents."""

    def __init__(self, value: Any) -> None:
        self._kind: Any = type(value)
        read: Any = _reader(value.__class__)
        self._read, arrays = read, read(value)
        self._parts = [self._of(a) for a in arrays]
        self._others = {k: a.copy() for k, a in enumerate(arrays) if type(a) is not np.ndarray or a.dtype.hasobject}
        self.size = sum(getattr(a, "nbytes", 0) for a in arrays)
        self._pandas = self._read is _arrays_of_pandas
        self._known = value if _is_jax(self._kind) else None  # which never changes
        self._axes: list[Any] = list(value.axes) if self._pandas and hasattr(value, "_mgr") else []
        self._outer = self._structure(value)
        digest = blake2b(repr([(part[0], part[1]) for part in self._parts]).encode())
        for part in self._parts:
            digest.update(part[2])
        for other in self._others.values():
            digest.update(pickle.dumps(list(other)))
        axes = tuple([pickle.dumps(axis) for axis in self._axes])
        self.token: Hashable = self._kind, self._outer, axes, digest.digest()

    def _of(self, array: Any) -> tuple[Any, Any, bytes]:
        if type(array) is not np.ndarray or array.dtype.hasobject:
            return type(array), (str(array.dtype), array.shape), b""
        order = array.flags.f_contiguous and not array.flags.c_contiguous
        return array.dtype, (array.shape, order), array.tobytes("F" if order else "C")

    def _structure(self, value: Any) -> Hashable:
        if self._pandas:
            manager = getattr(value, "_mgr", None)
            places = None if manager is None else tuple([b.mgr_locs.as_array.tobytes() for b in manager.blocks])
            return places, repr(getattr(value, "name", None)), repr(getattr(value, "attrs", None))
        if self._read is _arrays_of_torch:
            return value.requires_grad
        return None if self._read not in (_arrays_of_xarray, _arrays_of_dataset) else _structure_of_xarray(value)

    def __call__(self, value: Any) -> bool:
        if type(value) is not self._kind:
            return False
        if self._known is not None and value is self._known:
            return True
        arrays = self._read(value)
        if len(arrays) != len(self._parts) or self._structure(value) != self._outer:
            return False
        if self._axes and not all(a is b or a.identical(b) for a, b in zip(value.axes, self._axes, strict=True)):
            return False
        for k, (array, part) in enumerate(zip(arrays, self._parts, strict=True)):
            if k in self._others:
                if type(array) is not part[0] or not _same_objects(array, self._others[k]):
                    return False
            elif array.dtype != part[0] or array.shape != part[1][0] or self._of(array) != part:
                return False
        return True


def _same_objects(array: Any, kept: Any) -> bool:
    if array.dtype != kept.dtype or array.shape != kept.shape:
        return False
    if type(array) is np.ndarray:
        return all(a is b or (type(a) is type(b) and a == b) for a, b in zip(array.flat, kept.flat, strict=True))
    return bool(array.equals(kept))


# ---- arrays in another form


def plain_form(array: np.ndarray) -> np.ndarray:
    """A memory map, or an array in another byte order, as a plain array."""
    return np.asarray(array, array.dtype.newbyteorder("="))
