"""Slices and updates whose start differs from step to step, in the body of a loop.

``x[t]`` of an array from outside becomes a row of the arrays that the loop steps through; other reads and writes at a
moving position are a gather or a scatter: of rows, or of places in the array as one line (``Spots``).  Positions are
recorded ones, so they are in bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import INT
from ..ir.data_classes import dataclass
from ..ir.graph import Atom, Node, Var, bind, structural
from ..ops.elementwise import F, broadcast_to, cast
from ..ops.indexing import SCATTER_SET, gather
from ..ops.shape import UPDATE, iota, reshape, slice_axis, take_slice, transpose
from .repeats import part_of, varying_axes

Ints = tuple[int, ...]


@dataclass(slots=True)
class Window:
    """``count`` elements, ``stride`` apart, along ``axis``; ``positions[t]`` is where they begin in step t.  ``start``,
    ``step`` and ``shape`` are those of the slice, of which the entries for the axis are not used."""

    axis: int
    positions: np.ndarray
    count: int
    stride: int
    start: Ints
    step: Ints
    shape: Ints

    @classmethod
    def of(cls, node: Node, starts: np.ndarray) -> Window | None:
        """The window of *node*; None where its start moves along several axes."""
        axis, *more = varying_axes(starts)
        if more:
            return None
        shape = part_of(node)
        start, step = tuple(starts[0].tolist()), node.params["step"]
        return cls(axis, starts[:, axis].astype(np.int64), shape[axis], step[axis], start, step, shape)

    def whole_rows(self, whole: Ints) -> bool:
        """Whether these are rows of an array of shape *whole*, one after another in memory."""
        return self.axis == 0 and self.shape[1:] == whole[1:] and all(s == 1 for s in self.step[1:])

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of windows that read the same rows."""
        return (self.axis, self.count, self.stride, self.positions.tobytes())

    def rest(self, of: Ints) -> Ints:
        return of[: self.axis] + of[self.axis + 1 :]


def _axis_first(x: Atom, axis: int) -> Atom:
    return transpose(x, (axis, *[a for a in range(x.aval.ndim) if a != axis]))


def _axis_back(x: Atom, axis: int, lead: int = 0) -> Atom:
    """Axis 0 moved to *axis*, not counting *lead* axes in front."""
    rest = range(axis + 1, x.aval.ndim - lead)
    return transpose(x, (*range(lead), *[lead + a for a in (*range(1, axis + 1), 0, *rest)]))


def rows_of(x: Atom, window: Window, const: Callable[[np.ndarray], Var]) -> Atom:
    """The windows of *x* for all steps, stacked: [steps, *rest] where they are one element wide, else
    [steps, count, *rest]; *rest* are the other axes of x, whole."""
    x = _axis_first(x, window.axis)
    at, count, rest = window.positions, window.count, x.aval.shape[1:]
    n, stride = len(at), int(at[1] - at[0])
    even = bool((np.diff(at) == stride).all()) and stride != 0
    if even and count == 1:
        return take_slice(x, (int(at[0]), *[0] * len(rest)), (stride, *[1] * len(rest)), (n, *rest))
    if even and window.stride == 1 and stride == count:
        whole = take_slice(x, (int(at[0]), *[0] * len(rest)), (1,) * (len(rest) + 1), (n * count, *rest))
        return reshape(whole, (n, count, *rest))
    if count == 1:
        return gather(x, const(at))
    return gather(x, const(at[:, None] + window.stride * np.arange(count)))


def row_at(x: Atom, t: int) -> Atom:
    """[1, *rest]: row *t* of *x*."""
    return slice_axis(x, 0, t, 1)


def merged(rows: Atom, axis: int) -> Atom:
    """*rows* [steps, *shape] one after another along *axis* of the shape."""
    x = _axis_back(rows, axis)
    shape = list(x.aval.shape)
    shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    return reshape(x, tuple(shape))


def _places(window: Window, position: Atom) -> Atom:
    """[count]: the places along the axis."""
    first = reshape(position, (1,)) if isinstance(position, Var) else broadcast_to(position, (1,))
    if window.count == 1:
        return first
    steps = iota(window.count)
    if window.stride != 1:
        steps = F.mul(steps, structural(window.stride, INT))
    return F.add(broadcast_to(reshape(first, ()), (window.count,)), steps)


def dynamic_rows(x: Atom, window: Window, position: Atom) -> Atom:
    """[count, *rest]: the rows of *x*, which differs from step to step."""
    return gather(_axis_first(x, window.axis), _places(window, cast(position, INT)))


def moved_back(rows: Atom, window: Window, lead: int = 0) -> Atom:
    """The slice itself, of *rows* [count, *rest], behind *lead* axes that are kept whole."""
    start, step, shape = window.rest(window.start), window.rest(window.step), window.rest(window.shape)
    front = rows.aval.shape[:lead]
    part = take_slice(rows, ((0,) * lead + (0, *start)), ((1,) * lead + (1, *step)), (*front, window.count, *shape))
    return _axis_back(part, window.axis, lead)


@dataclass(slots=True)
class Spots:
    """Elements of a slice whose start moves along any axes: at ``positions[t] + offsets`` of the array as one line."""

    positions: np.ndarray
    offsets: np.ndarray
    shape: Ints

    @classmethod
    def of(cls, node: Node, starts: np.ndarray, whole: Ints) -> Spots:
        shape = part_of(node)
        pitch = [math.prod(whole[a + 1 :]) for a in range(len(whole))]
        offsets = np.zeros((), np.int64)
        for n, step, stride in zip(shape, node.params["step"], pitch, strict=True):
            offsets = offsets[..., None] + step * stride * np.arange(n)
        return cls(starts @ np.array(pitch, np.int64), offsets.reshape(-1), shape)

    def _places(self, position: Atom, const: Callable[[np.ndarray], Var]) -> Atom:
        """[elements]: the places in the line."""
        count = len(self.offsets)
        if count == 1 and isinstance(position, Var):
            return reshape(position, (1,))
        first = broadcast_to(position, (count,))
        if count == 1:
            return first
        return F.add(first, iota(count) if (np.diff(self.offsets) == 1).all() else const(self.offsets))

    def read(self, flat: Atom, position: Atom, const: Callable[[np.ndarray], Var]) -> Atom:
        """The slice at *position* of the array *flat*, which is one line."""
        return reshape(gather(flat, self._places(cast(position, INT), const)), self.shape)

    def written(self, x: Atom, v: Atom, position: Atom, const: Callable[[np.ndarray], Var]) -> Atom:
        """*x* with the slice replaced by *v*."""
        places = self._places(cast(position, INT), const)
        flat = bind(SCATTER_SET, flattened(x), places, reshape(v, self.offsets.shape))
        return reshape(flat, x.aval.shape)

    def rows_of(self, x: Atom, const: Callable[[np.ndarray], Var]) -> Atom:
        """The slices of *x* for all steps, stacked."""
        places = const(self.positions[:, None] + self.offsets)
        return reshape(gather(flattened(x), places), (len(self.positions), *self.shape))


def flattened(x: Atom) -> Atom:
    """*x* as one line."""
    return reshape(x, (x.aval.size,))


def updated(x: Atom, v: Atom, window: Window, position: Atom) -> Atom:
    """*x* with the slice replaced by *v*."""
    wide, places = _axis_first(x, window.axis), _places(window, cast(position, INT))
    rows = _axis_first(v, window.axis)
    if rows.aval.shape[1:] != wide.aval.shape[1:]:
        whole = gather(wide, places)
        start, step = (0, *window.rest(window.start)), (1, *window.rest(window.step))
        rows = bind(UPDATE, whole, rows, start=start, step=step)
    return _axis_back(bind(SCATTER_SET, wide, places, rows), window.axis)
