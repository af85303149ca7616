"""Plans of indices: the elements that ``x[index]`` reads or writes.

A basic index (slices, integers, new axes) is one step of a view: ``parse_basic``.  Any other is an ``Access``: a basic
part, and an *advanced* part (integer arrays, masks), which reads or writes at flat positions.  The indexed axes are
moved to the front and flattened, and ``gather`` and ``scatter`` do the rest.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.aval import BOOL, FLOAT_KINDS, INT, Ints, broadcast_shapes
from ..ir.errors import BadIndexError, UnsupportedError
from ..ir.graph import Atom, Lit, bind
from ..ir.primitive import Primitive
from ..ops.elementwise import F, broadcast_to, cast
from ..ops.indexing import gather
from ..ops.shape import reshape, transpose
from ..record.array import TracedArray, is_traced, to_atom, wrap
from ..record.buffers import PickStep, SliceStep
from ..record.integers import TracedInt, recorded
from ..record.recorder import require_recorder
from ..record.undecided import Undecided
from .bounds import from_front, is_index, positions, true_positions


class IndexItem(NamedTuple):
    """One advanced index: *flat* positions over so many neighbouring *axes*."""

    flat: Atom
    axes: int
    shape: Ints


def _is_integer(item: Any) -> bool:
    kinds = (bool, np.bool_, TracedInt)
    return isinstance(item, (int, np.integer)) and not issubclass(type(item), kinds)


def is_single_bool(index: Any) -> bool:
    """Whether *index* is True or False, of which ``x[index]`` makes an axis of size 1 or 0."""
    kind = type(index)  # asked of the class: a number of the run would tell its value
    return kind is bool or (hasattr(kind, "dtype") and index.dtype == BOOL and not index.shape)


def parse_basic(index: Any, shape: Ints) -> SliceStep | None:
    """The SliceStep of a basic index (ints, slices, None, Ellipsis), or None where the index is an advanced one."""
    items = index if isinstance(index, tuple) else (index,)
    consumed = 0
    for item in items:
        kind = type(item)
        if kind is int or kind is slice:
            consumed += 1
        elif item is None or item is Ellipsis:
            continue
        elif _is_integer(item) or is_index(item):
            consumed += 1
        else:
            return None
    check_count(consumed, shape)
    return slice_step(items, consumed, shape)


def check_count(consumed: int, shape: Ints) -> None:
    if consumed > len(shape):
        raise BadIndexError.here(
            f"too many indices for array: array is {len(shape)}-dimensional, but {consumed} were indexed"
        )


def slice_step(items: tuple[Any, ...], consumed: int, shape: Ints) -> SliceStep:
    """Slices, ints, None and one Ellipsis as a view step."""
    ellipses = sum(item is Ellipsis for item in items)
    if ellipses > 1:
        raise BadIndexError.here("an index can only have a single ellipsis ('...')")
    if not ellipses:
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
            whole = shape[axis : axis + len(shape) - consumed]
            start += [0] * len(whole)
            step += [1] * len(whole)
            inner += whole
            final += whole
            axis += len(whole)
        elif isinstance(item, slice):
            first, stop, stride = item.indices(shape[axis])
            length = len(range(first, stop, stride))
            start.append(first if length else 0)
            step.append(stride if length > 1 else 1)
            inner.append(length)
            final.append(length)
            axis += 1
        else:
            position = operator.index(item)
            if not -shape[axis] <= position < shape[axis]:
                raise BadIndexError.here(f"index {position} is out of bounds for axis {axis} with size {shape[axis]}")
            start.append(position % shape[axis])
            step.append(1)
            inner.append(1)
            axis += 1
    return SliceStep(tuple(start), tuple(step), tuple(inner), tuple(final))


def _classify(item: Any) -> Any:
    """One *item* of an index, lists as arrays; raises for objects that cannot index."""
    if type(item) is TracedInt or (type(item) is Undecided and item.number.ranks == {0}):
        return item.array()
    if isinstance(item, TracedArray):
        if item.dtype.kind in FLOAT_KINDS:
            raise BadIndexError.here(
                "arrays used as indices must be of integer (or boolean) type; use x.astype(int), or int(t) for a "
                "plain number"
            )
        return item
    if isinstance(item, (list, tuple)):
        item = recorded(item)
        return wrap(to_atom(item)) if is_traced(item) else _as_index_array(np.asarray(item))
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    if isinstance(item, np.ndarray):
        return _as_index_array(item)
    if item is None or item is Ellipsis or isinstance(item, slice) or _is_integer(item):
        return item
    if is_index(item):
        return operator.index(item)
    array = np.asarray(item)  # a range, a Series
    if array.ndim and (array.dtype.kind in "iub" or not array.size):
        return _as_index_array(array)
    raise BadIndexError.here(
        "only integers, slices (`:`), ellipsis (`...`), None, and integer or boolean arrays are valid indices, "
        f"not a {type(item).__name__}"
    )


def _as_index_array(array: np.ndarray) -> np.ndarray:
    if not array.size and array.dtype.kind in FLOAT_KINDS:
        return array.astype(INT)
    if array.dtype.kind not in "iub":
        raise BadIndexError.here(f"arrays used as indices must be of integer (or boolean) type, not {array.dtype}")
    return array


def _is_scalar_index(item: Any) -> bool:
    return _is_integer(item) or (
        isinstance(item, (TracedArray, np.ndarray)) and not item.shape and item.dtype.kind in "iu"
    )


class Access:
    """An index applied to *array*: ``base``, the view of its basic part, and the advanced part over axes of that
    view."""

    def __init__(self, array: TracedArray, index: Any):
        items = [_classify(item) for item in (index if isinstance(index, tuple) else (index,))]
        consumed = 0
        for item in items:
            if isinstance(item, (TracedArray, np.ndarray)) and item.dtype == BOOL:
                consumed += len(item.shape)
            elif item is not None and item is not Ellipsis:
                consumed += 1
        check_count(consumed, array.shape)
        items = self._without_ellipsis(items, consumed, array.ndim)
        advanced = [
            i
            for i, item in enumerate(items)
            if isinstance(item, (TracedArray, np.ndarray)) and not _is_scalar_index(item)
        ]
        if not advanced:
            self._only_scalars(array, items)
            return
        # beside an array, integers are advanced indices as well
        advanced = [
            i for i, item in enumerate(items) if isinstance(item, (TracedArray, np.ndarray)) or _is_integer(item)
        ]
        basic: list[Any] = []
        indices: list[IndexItem] = []
        places: list[int] = []
        axis, view_axis = 0, 0
        for i, item in enumerate(items):
            if i in advanced:
                found = self._advanced_item(item, array.shape, axis)
                indices.append(found)
                places.append(view_axis)
                basic.extend([slice(None)] * found.axes)
                axis, view_axis = axis + found.axes, view_axis + found.axes
            elif item is None:
                basic.append(None)
                view_axis += 1
            else:
                basic.append(item)
                axis, view_axis = axis + 1, view_axis + 1
        base = array.view(slice_step(tuple(basic), axis, array.shape))
        self._over(base, indices, places, advanced == list(range(advanced[0], advanced[-1] + 1)))

    @classmethod
    def at(cls, array: TracedArray, indices: Sequence[Atom], axes: Ints) -> Access:
        """*array* at *indices* along ascending *axes*: integers that are known to be in bounds."""
        made = cls.__new__(cls)
        items = [
            IndexItem(from_front(cast(atom, INT), array.shape[axis]), 1, atom.aval.shape)
            for atom, axis in zip(indices, axes, strict=True)
        ]
        made._over(array, items, list(axes), axes[-1] - axes[0] == len(axes) - 1)
        return made

    def _over(self, base: TracedArray, items: list[IndexItem], places: list[int], adjacent: bool) -> None:
        """Note that *items* index *base* from these axes on; *adjacent*: nothing stands between them in the index."""
        self.base, self.items, self.places = base, items, places
        self.shape = broadcast_shapes(*[item.shape for item in items], what="index arrays")
        taken = [a for item, place in zip(items, places, strict=True) for a in range(place, place + item.axes)]
        rest = [a for a in range(self.base.ndim) if a not in taken]
        self.front = (*taken, *rest)  # order of the axes of base, the indexed ones first
        self.rest_shape = tuple(self.base.shape[a] for a in rest)
        self.insert_at = sum(a < taken[0] for a in rest) if adjacent else 0
        self.taken_size = math.prod(self.base.shape[a] for a in taken)

    @staticmethod
    def _without_ellipsis(items: list[Any], consumed: int, ndim: int) -> list[Any]:
        ellipses = [i for i, item in enumerate(items) if item is Ellipsis]
        if len(ellipses) > 1:
            raise BadIndexError.here("an index can only have a single ellipsis ('...')")
        at = ellipses[0] if ellipses else len(items)
        return [*items[:at], *[slice(None)] * (ndim - consumed), *items[at + 1 :]]

    def _only_scalars(self, array: TracedArray, items: list[Any]) -> None:
        """Slices and 0-d traced integers: the base is a view, nothing is advanced."""
        self.items = []
        recorder = require_recorder("indexing")
        loops = recorder.open_loops
        together = bool(loops) and loops[-1].recorder is recorder  # in a loop, an element is to be one position
        basic: list[Any] = []
        axes: list[int] = []
        places: list[Atom] = []
        axis = view_axis = 0
        for item in items:
            if isinstance(item, (TracedArray, np.ndarray)) or (together and _is_integer(item)):
                axes.append(axis if together else view_axis)
                places.append(positions(item, array.shape[axis], axis))
                if not together:
                    basic.append(slice(None))
            else:
                basic.append(item)
            axis += item is not None
            view_axis += not _is_integer(item)
        if together:
            view = array.view(PickStep(tuple(axes), tuple(places)))
            step = slice_step(tuple(basic), axis - len(axes), view.shape)
            whole = step.shape == view.shape == step.inner and all(s == 1 for s in step.step)
            self.base = view if whole else view.view(step)
            return
        view = array.view(slice_step(tuple(basic), axis, array.shape))
        for place, position in zip(reversed(axes), reversed(places), strict=True):
            view = view.view(PickStep((place,), (position,)))
        self.base = view

    def _advanced_item(self, item: Any, shape: Ints, axis: int) -> IndexItem:
        if _is_integer(item):
            if not -shape[axis] <= item < shape[axis]:
                raise BadIndexError.here(f"index {item} is out of bounds for axis {axis} with size {shape[axis]}")
            return IndexItem(Lit(int(item) % shape[axis], INT), 1, ())
        if item.dtype == BOOL:
            if isinstance(item, np.ndarray):
                item = require_recorder("indexing").captured.get(id(item), item)
            if not item.shape:
                raise UnsupportedError.here("indexing with a single bool is not supported; use np.where, or a plain if")
            if item.shape != shape[axis : axis + len(item.shape)]:
                raise BadIndexError.here(
                    f"boolean index did not match indexed array: its shape is {item.shape}, that of the indexed "
                    f"axes {shape[axis : axis + len(item.shape)]}"
                )
            flat = true_positions(item)
            return IndexItem(flat, len(item.shape), flat.aval.shape)
        return IndexItem(positions(item, shape[axis], axis), 1, item.shape)

    def flat_index(self) -> Atom:
        """Flat positions over the indexed axes, of the broadcast index shape."""
        total: Atom | None = None
        stride = self.taken_size
        for item, place in zip(self.items, self.places, strict=True):
            stride //= max(math.prod(self.base.shape[place : place + item.axes]), 1)
            part = item.flat if stride == 1 else F.mul(item.flat, Lit(stride, INT))
            total = part if total is None else F.add(total, part)
        assert total is not None
        return broadcast_to(total, self.shape)

    def moved(self) -> Atom:
        """base with the indexed axes flattened into the first one."""
        return reshape(transpose(self.base.atom, self.front), (self.taken_size, *self.rest_shape))

    def unmoved(self, x: Atom) -> Atom:
        """The inverse of ``moved``."""
        shape = self.base.shape
        back = tuple(int(p) for p in np.argsort(self.front))
        return transpose(reshape(x, tuple(shape[a] for a in self.front)), back)

    def read(self) -> Atom:
        """The elements that the index reads."""
        return transpose(gather(self.moved(), self.flat_index()), self.result_order())

    def written(self, scatter: Primitive, value: Atom) -> Atom:
        """The base with *value*, of the shape that ``read`` has, scattered to the elements that it reads."""
        moved = transpose(value, tuple(int(p) for p in np.argsort(self.result_order())))
        return self.unmoved(bind(scatter, self.moved(), self.flat_index(), moved))

    def result_order(self) -> Ints:
        """Order of the axes (index axes first, then the others) in the result."""
        lead, rest = len(self.shape), len(self.rest_shape)
        at = self.insert_at
        return (*range(lead, lead + at), *range(lead), *range(lead + at, lead + rest))

    def result_shape(self) -> Ints:
        at = self.insert_at
        return (*self.rest_shape[:at], *self.shape, *self.rest_shape[at:])
