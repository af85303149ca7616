"""Reading by an index, basic or advanced, and the functions that say where elements are."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..ir.aval import INT, Ints
from ..ir.errors import ShapeError
from ..ir.graph import Lit
from ..ops.elementwise import F
from ..ops.indexing import gather
from ..record.array import METHODS, TracedArray, wrap
from ..record.buffers import SliceStep
from .bounds import true_positions
from .index_plan import Access, check_count, is_single_bool, parse_basic, slice_step
from .registry import implements, reject
from .shape import as_traced

# ---- reading ------------------------------------------------------------------------------------------------------


def basic_item(self: TracedArray, index: Any) -> TracedArray | None:
    """``self[index]`` for an index of Python's own ints and slices, None and Ellipsis; None for any other."""
    if type(index) is int:
        step = _step_of_integer(index, self.shape)
        return self.view(step) if step.shape else wrap(step.apply(self.atom), self._recorder)
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        if kind is slice:
            if not (type(item.start) in _BOUNDS and type(item.stop) in _BOUNDS and type(item.step) in _BOUNDS):
                return None
        elif kind is not int and item is not None and item is not Ellipsis:
            return None
    found = parse_basic(index, self.shape)
    assert found is not None
    return _through(self, found, index)


_BOUNDS = (int, type(None))


@lru_cache(maxsize=4096)
def _step_of_integer(index: int, shape: Ints) -> SliceStep:
    check_count(1, shape)
    return slice_step((index,), 1, shape)


def _through(self: TracedArray, step: SliceStep, index: Any) -> TracedArray:
    if not step.shape and not any(part is Ellipsis for part in (index if isinstance(index, tuple) else (index,))):
        return wrap(step.apply(self.atom), self._recorder)  # NumPy gives a scalar here, not a view
    return self.view(step)


@implements(method="__getitem__")
def _getitem(self: TracedArray, index: Any) -> Any:
    step = parse_basic(index, self.shape)
    if step is not None:
        return _through(self, step, index)
    if is_single_bool(index):  # a question
        return _getitem(self, None).copy() if bool(index) else _getitem(self, None)[:0].copy()
    access = Access(self, index)
    if not access.items:
        return access.base if access.base.shape else wrap(access.base.atom, self._recorder)
    return wrap(access.read(), self._recorder)


# ---- where things are ---------------------------------------------------------------------------------------------


@implements(np.nonzero, method="nonzero")
def _nonzero(a: Any) -> Any:
    array = as_traced(a)
    if not array.ndim:
        raise ShapeError.here("calling nonzero on 0d arrays is not allowed; use np.atleast_1d(x).nonzero()")
    flat = true_positions(array)
    found, rest = [], flat
    for size in reversed(array.shape):
        n = Lit(size, INT)
        found.append(wrap(F.remainder(rest, n) if array.ndim > 1 else rest))
        rest = F.floor_divide(rest, n) if array.ndim > 1 else rest
    return tuple(reversed(found))


implements(np.flatnonzero)(lambda a: wrap(true_positions(a)))
implements(np.argwhere)(lambda a: np.stack(_nonzero(a), axis=1))


@implements(np.extract)
def _extract(condition: Any, arr: Any) -> Any:
    return wrap(gather(METHODS["ravel"](arr).atom, true_positions(condition)))


@implements(np.compress)
def _compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    reject("np.compress", "assign the result", out=out)
    array = as_traced(a)
    if axis is None:
        array, axis = METHODS["ravel"](array), 0
    return np.take(array, wrap(true_positions(condition)), axis=axis)


implements(method="compress")(lambda self, condition, axis=None, out=None: _compress(condition, self, axis, out))
