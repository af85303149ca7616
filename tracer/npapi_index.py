"""Indexing: reading and assigning by basic and advanced indices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .array import METHODS, SliceStep, TracedArray, to_atom, wrap
from .errors import BadIndexError
from .ops.elementwise import broadcast_to, cast
from .site import at_site


def parse_basic(index: Any, shape: tuple[int, ...]) -> SliceStep | None:
    """The SliceStep of a basic index (ints, slices, None, Ellipsis), or None where the index is an advanced one."""
    items = index if isinstance(index, tuple) else (index,)
    consumed = 0
    for item in items:
        if isinstance(item, (bool, np.bool_)):
            return None
        if item is None or item is Ellipsis:
            continue
        if isinstance(item, slice) or isinstance(item, (int, np.integer)) or (isinstance(item, TracedArray) and not item.shape and item.dtype.kind in "iu"):
            consumed += 1
        else:
            return None
    if consumed > len(shape):
        raise BadIndexError(at_site(f"too many indices for array: array is {len(shape)}-dimensional, but {consumed} were indexed"))
    if not any(item is Ellipsis for item in items):
        items = (*items, Ellipsis)
    start: list[int] = []
    step: list[int] = []
    inner: list[int] = []
    final: list[int] = []
    axis = 0
    for item in items:
        if item is None:
            final.append(1)
        elif item is Ellipsis:
            for _ in range(len(shape) - consumed):
                start.append(0), step.append(1), inner.append(shape[axis]), final.append(shape[axis])
                axis += 1
            consumed = len(shape)
        elif isinstance(item, slice):
            first, stop, stride = item.indices(shape[axis])
            length = len(range(first, stop, stride))
            start.append(first if length else 0), step.append(stride if length > 1 else 1), inner.append(length), final.append(length)
            axis += 1
        else:
            position = operator.index(item)
            if not -shape[axis] <= position < shape[axis]:
                raise BadIndexError(at_site(f"index {position} is out of bounds for axis {axis} with size {shape[axis]}"))
            start.append(position % shape[axis]), step.append(1), inner.append(1)
            axis += 1
    return SliceStep(tuple(start), tuple(step), tuple(inner), tuple(final))


def _getitem(self: TracedArray, index: Any) -> Any:
    step = parse_basic(index, self.shape)
    if step is None:
        raise NotImplementedError("advanced indexing")
    if not step.shape and Ellipsis not in (index if isinstance(index, tuple) else (index,)):
        return wrap(step.apply(self.atom), self._recorder)  # NumPy gives a scalar here, not a view
    return self._view(step)


def _setitem(self: TracedArray, index: Any, value: Any) -> None:
    step = parse_basic(index, self.shape)
    if step is None:
        raise NotImplementedError("advanced indexing")
    target = self._view(step)
    target._write(broadcast_to(cast(to_atom(value), self.dtype), target.shape))


METHODS["__getitem__"] = _getitem
METHODS["__setitem__"] = _setitem
