"""Methods of ufuncs that have no primitive of their own: ``np.maximum.accumulate``, ``np.multiply.at``, ``reduceat``;
and ufuncs of ``np.frompyfunc``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.errors import ShapeError
from ..record.array import UFUNC_METHODS, UFUNCS, TracedArray, is_traced, public_name, to_atom, unsupported, wrap_array
from ..record.made_arrays import writable
from .assemble import nested_atom
from .registry import one_axis
from .shape import as_traced

_ASSOCIATIVE: tuple[Any, ...] = (
    np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.logical_and, np.logical_or,
    np.bitwise_and, np.bitwise_or, np.bitwise_xor,
)  # fmt: skip
_AT: tuple[Any, ...] = (np.multiply, np.divide, np.power, np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp)


def _accumulate(ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """By doubling: after k passes each element covers the 2**k before it."""
    found: Any = as_traced(array) if dtype is None else as_traced(array).astype(dtype)
    axis = one_axis(axis, found.ndim, f"{public_name(ufunc)}.accumulate")
    found, back = np.moveaxis(found, axis, 0), 1
    while back < found.shape[0]:
        found = np.concatenate([found[:back], ufunc(found[back:], found[:-back])])
        back *= 2
    return np.moveaxis(found, 0, axis)


def _reduceat(ufunc: Any, array: Any, indices: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """``ufunc.reduce`` of each stretch between two of the plain *indices*; one element where they go back."""
    name = f"{public_name(ufunc)}.reduceat"
    if is_traced(indices) or (ufunc, "reduce") not in UFUNC_METHODS:
        raise unsupported(name)
    found: Any = as_traced(array) if dtype is None else as_traced(array).astype(dtype)
    axis = one_axis(axis, found.ndim, name)
    found, starts = np.moveaxis(found, axis, 0), [int(k) for k in np.asarray(indices)]
    if any(not 0 <= k < found.shape[0] for k in starts):
        raise IndexError(f"index out-of-bounds in {ufunc.__name__}.reduceat [0, {found.shape[0]})")
    ends = [*starts[1:], found.shape[0]]
    parts = [ufunc.reduce(found[i:j], axis=0) if i < j else found[i] for i, j in zip(starts, ends, strict=True)]
    return np.moveaxis(np.stack(parts), 0, axis) if parts else found[:0]


def _at(ufunc: Any, array: Any, indices: Any, values: Any) -> None:
    """At plain *indices*: all first occurrences of an element at once, then all second ones, and so on."""
    target = writable(array, f"{public_name(ufunc)}.at")
    if is_traced(indices) and not isinstance(indices, slice):
        raise unsupported(f"{public_name(ufunc)}.at")
    picked = np.arange(target.size).reshape(target.shape)[indices]
    flat, places = target.flat, picked.ravel()
    given = np.broadcast_to(as_traced(values), picked.shape).ravel()
    order = np.argsort(places, kind="stable")
    starts = np.r_[0, np.flatnonzero(np.diff(places[order])) + 1] if places.size else np.zeros(0, int)
    turns = np.arange(places.size) - np.repeat(starts, np.diff([*starts, places.size]))
    for turn in range(int(turns.max(initial=-1)) + 1):
        now = order[turns == turn]
        flat[places[now]] = ufunc(flat[places[now]], given[now])


for _ufunc in _ASSOCIATIVE:
    UFUNC_METHODS[_ufunc, "accumulate"] = _accumulate
for _ufunc in _AT:
    UFUNC_METHODS[_ufunc, "at"] = _at
UFUNC_METHODS[None, "reduceat"] = _reduceat


def of_elements(ufunc: Any) -> Callable[..., Any] | None:
    """A ufunc of ``np.frompyfunc`` as a function of traced arrays; None for any other."""
    if set("".join(ufunc.types)) != set("O->") or ufunc in UFUNCS or ufunc.nin < 1:
        return None

    def call(*operands: Any) -> Any:
        arrays: Any = np.broadcast_arrays(*[as_traced(x) for x in operands])
        objects = [np.empty(x.shape, object) for x in arrays]
        for at in np.ndindex(arrays[0].shape):
            for array, held in zip(arrays, objects, strict=True):
                held[at] = array[at].number() if array.aval.is_float else array[at].item()
        found = ufunc(*objects)
        parts = [_of_objects(part, arrays[0].shape) for part in (found if ufunc.nout > 1 else (found,))]
        return tuple(parts) if ufunc.nout > 1 else parts[0]

    return call


def _of_objects(found: Any, shape: tuple[int, ...]) -> Any:
    if not shape:
        return found
    if not found.size:
        raise ShapeError.here("a function of np.frompyfunc of an empty array")
    flat: list[Any] = found.ravel().tolist()
    return wrap_array(nested_atom(flat) if any(type(x) is TracedArray for x in flat) else to_atom(flat)).reshape(shape)
