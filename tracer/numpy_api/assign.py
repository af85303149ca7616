"""Assignment: y[index] = value, np.add.at, np.put, np.copyto and others that write into an array.

Where an element is written several times the last write is seen, as in NumPy.  A mask with a value that does not run
along its True elements is a choice, and needs no positions.

"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import BOOL, Ints
from ..ir.errors import ShapeError
from ..ir.graph import Atom
from ..ops.elementwise import BROADCAST, F, bind, broadcast_to, cast_with_warning, to_bool
from ..ops.indexing import SCATTER_ADD, SCATTER_SET, gather
from ..ops.shape import reshape
from ..record.array import UFUNC_METHODS, TracedArray, constant, is_traced, to_atom
from ..record.integers import recorded
from ..record.made_arrays import writable
from ..record.recorder import current_recorder
from ..record.shown_names import CALLED
from .bounds import positions
from .index_plan import Access, is_single_bool, parse_basic
from .registry import implements

# ---- assignment ---------------------------------------------------------------------------------------------------


def _value_atom(value: Any, dtype: np.dtype) -> Atom:
    """The value of an assignment in the dtype of its target, as NumPy converts it; a text is a number's."""
    if isinstance(value, str):
        value = CALLED["float"](value)
    return cast_with_warning(to_atom(recorded(value)), dtype)


def fitted(v: Atom, shape: Ints) -> Atom:
    """*v* broadcast to *shape*, as NumPy does on assignment (leading axes of size 1 are dropped)."""
    have = v.aval.shape
    if have == shape:
        return v
    while len(have) > len(shape) and have[0] == 1:
        have = have[1:]
    if len(have) > len(shape) or any(m not in (1, n) for m, n in zip(reversed(have), reversed(shape), strict=False)):
        raise ShapeError.here(f"could not broadcast input array from shape {v.aval.shape} into shape {shape}")
    return broadcast_to(reshape(v, have), shape)


@implements(method="__setitem__")
def _setitem(self: TracedArray, index: Any, value: Any) -> None:
    step = parse_basic(index, self.shape)
    if step is not None:
        v = _value_atom(value, self.dtype)
        if v.aval.shape:
            v = fitted(v, step.shape)
        else:
            v = broadcast_to(v, step.inner) if step.inner else v
        recorder = current_recorder()
        chosen = recorder is not None and bool(recorder.arms)
        if recorder is not None and chosen:  # the elements alone, where the arm that runs is taken
            v = F.select(recorder.within(), broadcast_to(reshape(v, step.shape), step.shape), step.apply(self.atom))
        self._write(step.put(self.atom, v), chosen)
        return
    if is_single_bool(index):
        if bool(index):
            self[None] = value
        return
    mask = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if isinstance(mask, list) and not is_traced(mask := recorded(mask)):
        mask = np.asarray(mask)
    if (
        isinstance(mask, (TracedArray, np.ndarray))
        and mask.dtype == BOOL
        and mask.shape
        and _assign_mask(self, mask, value)
    ):
        return
    access = Access(self, index)
    if not access.items:
        access.base._write(fitted(_value_atom(value, self.dtype), access.base.shape))
        return
    access.base._write(access.written(SCATTER_SET, fitted(_value_atom(value, self.dtype), access.result_shape())))


def _assign_mask(self: TracedArray, mask: Any, value: Any) -> bool:
    """y[mask] = v as a choice, where v does not run along the True elements.  False where it does."""
    lead = len(mask.shape)
    if mask.shape != self.shape[:lead]:
        return False  # Access raises
    rest = self.shape[lead:]
    v = _value_atom(value, self.dtype)
    have = v.aval.shape
    if len(have) > len(rest) + 1 or (len(have) == len(rest) + 1 and have[0] != 1):
        return False
    v = fitted(reshape(v, have[1:]) if len(have) == len(rest) + 1 else v, rest)
    where = bind(BROADCAST, to_atom(mask), shape=self.shape, dims=tuple(range(lead)))
    self._write(F.select(where, broadcast_to(v, self.shape) if v.aval.shape else v, self.atom))
    return True


def _add_at(ufunc: Any, array: Any, indices: Any, values: Any) -> None:
    """np.add.at: repeated positions add up."""
    v = _value_atom(values, writable(array, f"np.{ufunc.__name__}.at").dtype)
    if ufunc is np.subtract:
        v = F.neg(v)
    access = Access(array, indices)
    if not access.items:
        access.base._write(F.add(access.base.atom, fitted(v, access.base.shape)))
        return
    access.base._write(access.written(SCATTER_ADD, fitted(v, access.result_shape())))


UFUNC_METHODS[np.add, "at"] = _add_at
UFUNC_METHODS[np.subtract, "at"] = _add_at


@implements(np.put, method="put")
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    target = writable(a, "np.put")
    at = positions(ind if is_traced(ind) else np.asarray(ind), target.size, 0, mode=mode)
    count = at.aval.size
    flat = target.flat
    flat._write(bind(SCATTER_SET, flat.atom, reshape(at, (count,)), _repeated(v, target.dtype, np.arange(count))))


def _repeated(values: Any, dtype: np.dtype, places: np.ndarray) -> Atom:
    """*values*, flat and over and over again, at these *places*."""
    v = _value_atom(values, dtype)
    if v.aval.size == 1:
        return broadcast_to(reshape(v, ()), places.shape)
    v = reshape(v, (v.aval.size,))
    return v if np.array_equal(places, np.arange(v.aval.size)) else gather(v, constant(places % v.aval.size))


@implements(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    writable(dst, "np.copyto")
    if where is True:
        dst[...] = src
        return
    v = fitted(_value_atom(src, dst.dtype), dst.shape)
    dst._write(F.select(fitted(to_bool(to_atom(where)), dst.shape), v, dst.atom))


@implements(np.putmask)
def _putmask(a: Any, mask: Any, values: Any) -> None:
    target = writable(a, "np.putmask")
    v = reshape(_repeated(values, target.dtype, np.arange(target.size)), target.shape)
    target._write(F.select(fitted(to_bool(to_atom(mask)), target.shape), v, target.atom))


@implements(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    target = writable(a, "np.fill_diagonal")
    if target.ndim < 2 or (target.ndim > 2 and len(set(target.shape)) > 1):
        raise ShapeError.here("np.fill_diagonal: array must be at least 2-d with equal sizes")
    columns = target.shape[1]
    step = columns + 1 if target.ndim == 2 else 1 + sum(int(n) for n in np.cumprod(target.shape[:-1]))
    flat = target.flat[slice(None, columns * columns if target.ndim == 2 and not wrap else None, step)]
    flat._write(_repeated(val, target.dtype, np.arange(flat.size)))
