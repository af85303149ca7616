"""Indexing: reading and assigning by basic indices, integer arrays and masks.

An index is taken apart into a basic part (a view: slices, integers, new axes) and at most one *advanced* part, which
reads or writes at flat positions: the indexed axes are moved to the front and flattened, and ``gather`` and
``scatter`` do the rest. Plain index arrays are checked here and now; for traced ones the check is a guard.  The
number of True elements of a traced mask is a guard too."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

from .array import METHODS, TracedArray, constant, is_traced, to_atom, wrap
from .aval import BOOL, FLOAT_KINDS, INT, broadcast_shapes
from .errors import BadIndexError, ShapeError, UnsupportedError
from .ir import Atom, Lit
from .npapi_base import implements, reject
from .ops.elementwise import F, bind, broadcast_to, cast, to_bool
from .ops.indexing import NONZERO, gather
from .ops.reduce import reduce
from .ops.shape import reshape, transpose
from .recorder import require_recorder
from .site import at_site
from .storage import PickStep, SliceStep

Ints = tuple[int, ...]


# ---- positions ----------------------------------------------------------------------------------------------------


def positions(index: Any, size: int, axis: int, *, mode: str = "raise") -> Atom:
    """*index* (plain or traced integers) as non-negative int64 positions below *size*."""
    if isinstance(index, TracedArray):
        atom = index.atom
        if atom.aval.dtype.kind not in "iu":
            raise BadIndexError(
                at_site(f"arrays used as indices must be of integer (or boolean) type, not {atom.aval.dtype}")
            )
        return _traced_positions(cast(atom, INT), size, axis, mode)
    if isinstance(index, (Lit,)):
        index = index.value
    if is_traced(index):
        return positions(wrap(to_atom(index)), size, axis, mode=mode)
    array = np.asarray(index)
    if not array.size:
        array = array.astype(INT)
    if array.dtype.kind not in "iu":
        raise BadIndexError(at_site(f"arrays used as indices must be of integer (or boolean) type, not {array.dtype}"))
    stand_in = require_recorder("indexing").captured.get(id(index))
    if stand_in is not None:
        return positions(stand_in, size, axis, mode=mode)
    array = array.astype(INT)
    if mode == "wrap" and size:
        array = array % size
    elif mode == "clip":
        array = np.clip(array, 0, max(size - 1, 0))
    if array.size and (array.min() < -size or array.max() >= size):
        bad = array[(array < -size) | (array >= size)].flat[0]
        raise BadIndexError(at_site(f"index {bad} is out of bounds for axis {axis} with size {size}"))
    normal = np.where(array < 0, array + size, array)
    return constant(normal) if normal.ndim else Lit(normal[()], INT)


def _traced_positions(atom: Atom, size: int, axis: int, mode: str) -> Atom:
    n = Lit(size, INT)
    if mode == "wrap":
        return F.remainder(atom, n)
    if mode == "clip":
        return F.minimum(F.maximum(atom, Lit(0, INT, structural=True)), Lit(max(size - 1, 0), INT))
    known = require_recorder("indexing").range_of(atom)
    if known is not None and known[0] >= 0 and known[1] < size:
        return atom
    fits = F.logical_and(F.ge(atom, F.neg(n)), F.lt(atom, n))
    everywhere = reduce("all", fits, tuple(range(fits.aval.ndim)))
    recorder = require_recorder("indexing")
    if not recorder.guard(everywhere, "index"):
        found = np.asarray(recorder.value(atom))
        bad = found[(found < -size) | (found >= size)].flat[0]
        raise BadIndexError(at_site(f"index {bad} is out of bounds for axis {axis} with size {size}"))
    return F.select(F.lt(atom, Lit(0, INT, structural=True)), F.add(atom, n), atom)


def true_positions(mask: Any) -> Atom:
    """Flat positions of the True elements of *mask*; for a traced mask their number is a guard."""
    if not isinstance(mask, TracedArray):
        return constant(np.flatnonzero(mask))
    flat = reshape(to_bool(mask.atom), (mask.size,))
    count = require_recorder("a boolean mask").guard(reduce("sum", cast(flat, INT), (0,)), "mask")
    return bind(NONZERO, flat, count=int(count))


# ---- taking an index apart ----------------------------------------------------------------------------------------


class Item:
    """One advanced index: *flat* positions over so many neighbouring *axes*."""

    __slots__ = ("axes", "flat", "shape")

    def __init__(self, flat: Atom, axes: int, shape: Ints):
        self.flat, self.axes, self.shape = flat, axes, shape


def _is_integer(item: Any) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_))


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
        elif isinstance(item, np.integer) or (isinstance(item, int) and kind is not bool):
            consumed += 1
        else:
            return None
    _check_count(consumed, shape)
    return _slice_step(items, consumed, shape)


def _check_count(consumed: int, shape: Ints) -> None:
    if consumed > len(shape):
        raise BadIndexError(
            at_site(f"too many indices for array: array is {len(shape)}-dimensional, but {consumed} were indexed")
        )


def _slice_step(items: tuple[Any, ...], consumed: int, shape: Ints) -> SliceStep:
    """Slices, ints, None and one Ellipsis as a view step."""
    ellipses = sum(item is Ellipsis for item in items)
    if ellipses > 1:
        raise BadIndexError(at_site("an index can only have a single ellipsis ('...')"))
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
                raise BadIndexError(
                    at_site(f"index {position} is out of bounds for axis {axis} with size {shape[axis]}")
                )
            start.append(position % shape[axis])
            step.append(1)
            inner.append(1)
            axis += 1
    return SliceStep(tuple(start), tuple(step), tuple(inner), tuple(final))


def _classify(item: Any) -> Any:
    """Lists become arrays; what cannot index is refused."""
    if isinstance(item, TracedArray):
        if item.dtype.kind in FLOAT_KINDS:
            raise BadIndexError(
                at_site(
                    "arrays used as indices must be of integer (or boolean) type; use x.astype(int), or int(t) for a "
                    "plain number"
                )
            )
        return item
    if isinstance(item, (list, tuple)):
        return wrap(to_atom(item)) if is_traced(item) else _as_index_array(np.asarray(item))
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    if isinstance(item, np.ndarray):
        return _as_index_array(item)
    if item is None or item is Ellipsis or isinstance(item, slice) or _is_integer(item):
        return item
    raise BadIndexError(
        at_site(
            "only integers, slices (`:`), ellipsis (`...`), None, and integer or boolean arrays are valid indices, "
            f"not a {type(item).__name__}"
        )
    )


def _as_index_array(array: np.ndarray) -> np.ndarray:
    if not array.size and array.dtype.kind in FLOAT_KINDS:
        return array.astype(INT)
    if array.dtype.kind not in "iub":
        raise BadIndexError(at_site(f"arrays used as indices must be of integer (or boolean) type, not {array.dtype}"))
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
        _check_count(consumed, array.shape)
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
        self.items: list[Item] = []
        self.places: list[int] = []  # first axis in base of each item
        axis, view_axis = 0, 0
        for i, item in enumerate(items):
            if i in advanced:
                found = self._advanced_item(item, array.shape, axis)
                self.items.append(found)
                self.places.append(view_axis)
                basic.extend([slice(None)] * found.axes)
                axis, view_axis = axis + found.axes, view_axis + found.axes
            elif item is None:
                basic.append(None)
                view_axis += 1
            else:
                basic.append(item)
                axis, view_axis = axis + 1, view_axis + 1
        self.base = array.view(_slice_step(tuple(basic), axis, array.shape))
        adjacent = advanced == list(range(advanced[0], advanced[-1] + 1))
        self.shape = broadcast_shapes(*[item.shape for item in self.items], what="index arrays")
        taken = [
            a for item, place in zip(self.items, self.places, strict=True) for a in range(place, place + item.axes)
        ]
        rest = [a for a in range(self.base.ndim) if a not in taken]
        self.front = (*taken, *rest)  # order of the axes of base, the indexed ones first
        self.rest_shape = tuple(self.base.shape[a] for a in rest)
        self.insert_at = sum(a < taken[0] for a in rest) if adjacent else 0
        self.taken_size = math.prod(self.base.shape[a] for a in taken)

    @staticmethod
    def _without_ellipsis(items: list[Any], consumed: int, ndim: int) -> list[Any]:
        ellipses = [i for i, item in enumerate(items) if item is Ellipsis]
        if len(ellipses) > 1:
            raise BadIndexError(at_site("an index can only have a single ellipsis ('...')"))
        at = ellipses[0] if ellipses else len(items)
        return [*items[:at], *[slice(None)] * (ndim - consumed), *items[at + 1 :]]

    def _only_scalars(self, array: TracedArray, items: list[Any]) -> None:
        """Slices and 0-d traced integers: the base is a view, nothing is advanced."""
        self.items = []
        basic, picks, axis, view_axis = [], [], 0, 0
        for item in items:
            if isinstance(item, (TracedArray, np.ndarray)):
                picks.append((view_axis, positions(item, array.shape[axis], axis)))
                item = slice(None)
            basic.append(item)
            axis += item is not None
            view_axis += not _is_integer(item)
        view = array.view(_slice_step(tuple(basic), axis, array.shape))
        for place, position in reversed(picks):
            view = view.view(PickStep(place, position))
        self.base = view

    def _advanced_item(self, item: Any, shape: Ints, axis: int) -> Item:
        if _is_integer(item):
            if not -shape[axis] <= item < shape[axis]:
                raise BadIndexError(at_site(f"index {item} is out of bounds for axis {axis} with size {shape[axis]}"))
            return Item(Lit(int(item) % shape[axis], INT), 1, ())
        if item.dtype == BOOL:
            if isinstance(item, np.ndarray):
                item = require_recorder("indexing").captured.get(id(item), item)
            if not item.shape:
                raise UnsupportedError(
                    at_site("indexing with a single bool is not supported; use np.where, or a plain if")
                )
            if item.shape != shape[axis : axis + len(item.shape)]:
                raise BadIndexError(
                    at_site(
                        f"boolean index did not match indexed array: its shape is {item.shape}, that of the indexed "
                        f"axes {shape[axis : axis + len(item.shape)]}"
                    )
                )
            flat = true_positions(item)
            return Item(flat, len(item.shape), flat.aval.shape)
        return Item(positions(item, shape[axis], axis), 1, item.shape)

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

    def result_order(self) -> Ints:
        """Order of the axes (index axes first, then the others) in the result."""
        lead, rest = len(self.shape), len(self.rest_shape)
        at = self.insert_at
        return (*range(lead, lead + at), *range(lead), *range(lead + at, lead + rest))

    def result_shape(self) -> Ints:
        at = self.insert_at
        return (*self.rest_shape[:at], *self.shape, *self.rest_shape[at:])


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
    _check_count(1, shape)
    return _slice_step((index,), 1, shape)


def _through(self: TracedArray, step: SliceStep, index: Any) -> TracedArray:
    if not step.shape and Ellipsis not in (index if isinstance(index, tuple) else (index,)):
        return wrap(step.apply(self.atom), self._recorder)  # NumPy gives a scalar here, not a view
    return self.view(step)


def _getitem(self: TracedArray, index: Any) -> Any:
    step = parse_basic(index, self.shape)
    if step is not None:
        return _through(self, step, index)
    access = Access(self, index)
    if not access.items:
        return access.base if access.base.shape else wrap(access.base.atom, self._recorder)
    found = gather(access.moved(), access.flat_index())
    return wrap(transpose(found, access.result_order()), self._recorder)


METHODS["__getitem__"] = _getitem


# ---- where things are ---------------------------------------------------------------------------------------------


@implements(np.nonzero, method="nonzero")
def _nonzero(a: Any) -> Any:
    array = a if isinstance(a, TracedArray) else wrap(to_atom(a))
    if not array.ndim:
        raise ShapeError(at_site("calling nonzero on 0d arrays is not allowed; use np.atleast_1d(x).nonzero()"))
    flat = true_positions(array)
    found, rest = [], flat
    for size in reversed(array.shape):
        n = Lit(size, INT)
        found.append(wrap(F.remainder(rest, n) if array.ndim > 1 else rest))
        rest = F.floor_divide(rest, n) if array.ndim > 1 else rest
    return tuple(reversed(found))


@implements(np.flatnonzero)
def _flatnonzero(a: Any) -> Any:
    return wrap(true_positions(a if isinstance(a, TracedArray) else np.asarray(a)))


@implements(np.argwhere)
def _argwhere(a: Any) -> Any:
    return np.stack(_nonzero(a), axis=1)


@implements(np.extract)
def _extract(condition: Any, arr: Any) -> Any:
    flat = METHODS["ravel"](arr if isinstance(arr, TracedArray) else wrap(to_atom(arr)))
    return wrap(
        gather(flat.atom, true_positions(condition if isinstance(condition, TracedArray) else np.asarray(condition)))
    )


@implements(np.compress)
def _compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    reject("np.compress", "assign the result", out=out)
    array = a if isinstance(a, TracedArray) else wrap(to_atom(a))
    if axis is None:
        array, axis = METHODS["ravel"](array), 0
    return np.take(
        array,
        wrap(true_positions(condition if isinstance(condition, TracedArray) else np.asarray(condition))),
        axis=axis,
    )


METHODS["compress"] = lambda self, condition, axis=None, out=None: _compress(condition, self, axis, out)
