"""Choosing and finding elements: choose, place, unique, lexsort, unravel_index and its inverse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.aval import INT
from ..ir.graph import Lit
from ..ops.elementwise import F
from ..record.array import wrap, wrap_array
from ..record.made_arrays import writable
from .bounds import positions
from .from_source import source_of
from .registry import implements, into, one_axis, shape_of
from .shape import as_traced


@implements(np.choose, method="choose")
def _choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    index = as_traced(a)
    listed: Any = np.broadcast_arrays(index, *[as_traced(c) for c in choices])
    which = wrap_array(positions(listed[0], len(listed) - 1, 0, mode=mode))
    found = listed[1]
    for k, choice in enumerate(listed[2:], 1):
        found = np.where(which == k, choice, found)
    return into(found, out)


@implements(np.place)
def _place(arr: Any, mask: Any, vals: Any) -> None:
    target, where, values = writable(arr, "np.place"), as_traced(mask).astype(bool).ravel(), as_traced(vals).ravel()
    if where.size != target.size:
        raise ValueError("place: mask and data must be the same size")
    if not values.size:
        if bool(where.any()):
            raise ValueError("Cannot insert from an empty array!")
        return
    rank = np.maximum(np.cumsum(where) - 1, 0) % values.size
    flat = target.flat
    flat[...] = np.where(where, values[rank].astype(target.dtype), flat)


@implements(np.lexsort)
def _lexsort(keys: Any, axis: int = -1) -> Any:
    listed = [as_traced(key) for key in keys]
    order = np.argsort(listed[0], axis=axis, kind="stable")
    for key in listed[1:]:
        again = np.argsort(np.take_along_axis(key, order, axis), axis=axis, kind="stable")
        order = np.take_along_axis(order, again, axis)
    return order


@implements(np.unique)
def _unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None, *,
    equal_nan: bool = True, **options: Any,
) -> Any:  # fmt: skip
    """The number of different values is a question."""
    array = as_traced(ar)
    if axis is not None and array.ndim != 1:
        return _unique_parts(
            array, one_axis(axis, array.ndim, "np.unique"), return_index, return_inverse, return_counts
        )
    if return_index or return_inverse or return_counts:
        source: Any = source_of(np.unique)
        return source(array, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan, **options)
    found: Any = np.sort(array.ravel())
    if not found.size:
        return found
    new = found[1:] != found[:-1]
    if equal_nan and array.aval.is_float:
        new = new & ~(np.isnan(found[1:]) & np.isnan(found[:-1]))
    return found[np.concatenate([[True], new])]


def _unique_parts(array: Any, axis: int, *wanted: bool) -> Any:
    """The different parts of an array of several axes along one, in lexicographic order."""
    parts: Any = np.moveaxis(array, axis, 0)
    rows = parts.reshape(len(parts), math.prod(parts.shape[1:]))
    order = np.lexsort(rows.T[::-1])
    rows = rows[order]
    first = np.concatenate([[True], np.any(rows[1:] != rows[:-1], axis=1)])[: len(parts)]
    starts, places = np.flatnonzero(first), np.cumsum(first) - 1
    found = [np.moveaxis(parts[order[starts]], 0, axis), order[starts], places[np.argsort(order)]]
    found.append(np.diff(np.concatenate([starts, [len(parts)]])))
    chosen = [found[0], *[part for part, asked in zip(found[1:], wanted, strict=True) if asked]]
    return tuple(chosen) if any(wanted) else chosen[0]


@implements(np.unravel_index)
def _unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """The index in each axis of flat positions, which are checked to be in bounds."""
    sizes = shape_of(shape)
    rest, found = positions(indices, math.prod(sizes), 0), []
    for size in sizes[::-1] if order == "C" else sizes:
        found.append(wrap(F.remainder(rest, Lit(size, INT))))
        rest = F.floor_divide(rest, Lit(size, INT))
    return tuple(found[::-1] if order == "C" else found)


@implements(np.ravel_multi_index)
def _ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    sizes = shape_of(dims)
    modes = (mode,) * len(sizes) if isinstance(mode, str) else tuple(mode)
    found: Any = 0
    steps = list(zip(multi_index, sizes, modes, strict=True))
    for k, (index, size, how) in enumerate(steps if order == "C" else steps[::-1]):
        found = found * size + wrap(positions(index, size, k, mode=how))
    return found
