"""Sorting, searching and selecting along an axis.

A sort is a gather through the permutation that ``argsort`` finds, so its gradient goes back through it.  Equal
elements keep their order (NumPy's default sort does not promise any).  Positions (argsort, searchsorted, digitize)
are data: they have no gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import INT, Ints, canonical_axes
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom, Lit
from ..ir.site import at_site
from ..ops.elementwise import F, bind, broadcast_to, cast, like, promote
from ..ops.indexing import ARGSORT, SCATTER_SET, SEARCHSORTED, bind_expand, gather, take_along_last
from ..ops.reduce import reduce
from ..ops.shape import iota, move_axis, reshape, slice_axis, transpose
from ..record.array import TracedArray, to_atom, wrap
from ..record.made_arrays import writable
from ..record.recorder import require_recorder
from .bounds import positions
from .reduce import keep
from .registry import along_axis, atom_of, implements, into


def _last(x: Atom, axis: int) -> Atom:
    return move_axis(x, axis, x.aval.ndim - 1)


def _back(x: Atom, axis: int) -> Atom:
    return move_axis(x, x.aval.ndim - 1, axis)


# ---- sorting ------------------------------------------------------------------------------------------------------


def sort_last(x: Atom) -> Atom:
    """*x* sorted along its last axis."""
    return take_along_last(x, bind(ARGSORT, x, stable=True))


@implements(np.sort)
def _sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    x, axis = along_axis(a, axis, "np.sort")
    return wrap(_back(sort_last(_last(x, axis)), axis))


@implements(method="sort")
def _sort_method(self: TracedArray, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
    self[...] = _sort(self, axis)


@implements(np.argsort, method="argsort")
def _argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    x, axis = along_axis(a, axis, "np.argsort")
    return wrap(_back(bind(ARGSORT, _last(x, axis), stable=True), axis))


def _partition(by_order: Callable[..., Any]) -> Callable[..., Any]:
    """A sorted array is a partitioned one."""

    def apply(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
        x, along = along_axis(a, axis, "np.partition")
        size = x.aval.shape[along]
        for k in np.atleast_1d(kth):
            if not -size <= k < size:
                raise ValueError(at_site(f"kth(={k}) out of bounds ({size})"))
        return by_order(a, axis)

    return apply


implements(np.partition)(_partition(_sort))
implements(np.argpartition, method="argpartition")(_partition(_argsort))
implements(method="partition")(_partition(_sort_method))


# ---- order statistics ---------------------------------------------------------------------------------------------


def _axes_last(a: Any, axis: Any, what: str) -> tuple[Atom, Ints]:
    """(a float atom with the axes of a reduction flattened into the last one, those axes)."""
    x = promote(atom_of(a), floating=True)[0]
    axes = canonical_axes(axis, x.aval.ndim, what)
    kept = tuple(i for i in range(x.aval.ndim) if i not in axes)
    moved = transpose(x, (*kept, *axes))
    rows = tuple(x.aval.shape[i] for i in kept)
    size = int(np.prod([x.aval.shape[i] for i in axes], dtype=np.int64))
    return reshape(moved, (*rows, size)), axes


def _element(x: Atom, position: int) -> Atom:
    return reshape(slice_axis(x, x.aval.ndim - 1, position, 1), x.aval.shape[:-1])


def _nan_poisoned(x: Atom, ordered: Atom) -> Atom:
    """*x*, NaN where the sorted rows *ordered* hold one (NaNs come last)."""
    last = _element(ordered, ordered.aval.shape[-1] - 1)
    return F.select(F.ne(last, last), last, x)


@implements(np.median)
def _median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    return into(wrap(_quantile_of(a, [0.5], axis, "np.median", keepdims)[0]), out)


def _quantile_of(a: Any, fractions: list[float], axis: Any, what: str, keepdims: bool) -> list[Atom]:
    x, axes = _axes_last(a, axis, what)
    shape = to_atom(a).aval.shape
    size = x.aval.shape[-1]
    if not size:
        raise ShapeError.here(f"{what} of an empty array")
    ordered = sort_last(x)
    results = []
    for q in fractions:
        if not 0 <= q <= 1:
            raise ShapeError.here(f"{what}: quantiles must be in the range [0, 1]")
        place = q * (size - 1)
        low = min(int(place), size - 1)
        high = min(low + 1, size - 1)
        first, second = _element(ordered, low), _element(ordered, high)
        weight = place - low
        width = F.sub(second, first)
        if what == "np.median":
            found = first if weight == 0 else F.mul(F.add(first, second), like(0.5, first))
        elif weight < 0.5:  # NumPy's two ends: with infinities the results differ
            found = F.add(first, F.mul(width, Lit(weight, first.aval.dtype)))
        else:
            found = F.sub(second, F.mul(width, Lit(1 - weight, first.aval.dtype)))
        results.append(keep(_nan_poisoned(found, ordered), shape, axes, keepdims))
    return results


def _quantile(what: str, scale: float) -> Callable[..., Any]:
    def apply(
        a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
        keepdims: bool = False, *, weights: Any = None, interpolation: Any = None,
    ) -> Any:  # fmt: skip
        if method != "linear" or weights is not None or interpolation is not None:
            raise UnsupportedError.here(f"{what} is supported with method='linear' and without weights")
        if isinstance(q, TracedArray):
            raise UnsupportedError.here(
                f"{what}: q must be a plain number; to differentiate with respect to it use np.interp on np.sort(a)"
            )
        fractions = np.asarray(q, float) / scale
        x = atom_of(a)
        if x.aval.is_complex:
            raise TypeError(at_site("a must be an array of real numbers"))
        if x.aval.dtype.kind == "b":
            raise UnsupportedError.here(f"{what} of bools is not supported by NumPy; convert them with astype(float)")
        if fractions.ndim:  # an array of quantiles is float64, and so is the result
            x = cast(x, np.dtype(float))
        found = _quantile_of(wrap(x), [float(f) for f in fractions.ravel()], axis, what, keepdims)
        if not fractions.ndim:
            return into(wrap(found[0]), out)
        stacked = np.stack([wrap(f) for f in found])
        return into(stacked.reshape((*fractions.shape, *stacked.shape[1:])), out)

    return apply


implements(np.quantile)(_quantile("np.quantile", 1.0))
implements(np.percentile)(_quantile("np.percentile", 100.0))


# ---- searching: data, without gradient ----------------------------------------------------------------------------


def search(a: Atom, v: Atom, side: str) -> Atom:
    a, v = promote(a, v)
    if a.aval.ndim != 1:
        raise ShapeError.here(
            "np.searchsorted: object of too small depth for desired array; the searched array must be 1-dimensional"
        )
    if require_recorder("np.searchsorted").parent is not None:  # in the body of a loop, which stays one kernel
        rows = broadcast_to(reshape(v, (*v.aval.shape, 1)), (*v.aval.shape, a.aval.size))
        before = (F.lt if side == "left" else F.le)(broadcast_to(a, rows.aval.shape), rows)
        return reduce("sum", cast(before, INT), (v.aval.ndim,))
    return bind(SEARCHSORTED, a, v if v.aval.shape else broadcast_to(v, ()), side=side)


@implements(np.searchsorted, method="searchsorted")
def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    x = atom_of(a)
    if sorter is not None:
        traced = isinstance(a, TracedArray) or isinstance(sorter, TracedArray)
        x = np.take(a, sorter).atom if traced else to_atom(np.asarray(a)[sorter])
    if side not in ("left", "right"):
        raise ShapeError.here(f"np.searchsorted: side must be 'left' or 'right', not {side!r}")
    return wrap(search(x, atom_of(v), side))


@implements(np.digitize)
def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    edges = atom_of(bins)
    if edges.aval.ndim != 1:
        raise ShapeError.here("np.digitize: bins must be 1-dimensional")
    size = edges.aval.shape[0]
    rising = True
    if size > 1:
        after, before = slice_axis(edges, 0, 1, size - 1), slice_axis(edges, 0, 0, size - 1)
        recorder = require_recorder("np.digitize")
        rising = bool(recorder.guard(reduce("all", F.ge(after, before), (0,)), "digitize"))
        if not rising and not recorder.guard(reduce("all", F.le(after, before), (0,)), "digitize"):
            raise ShapeError.here("bins must be monotonically increasing or decreasing")
    if rising:
        return wrap(search(edges, atom_of(x), "left" if right else "right"))
    turned = slice_axis(edges, 0, size - 1, size, -1)
    return wrap(F.sub(Lit(size, INT), search(turned, atom_of(x), "right" if right else "left")))


# ---- take -----------------------------------------------------------------------------------------------------------


@implements(np.take, method="take")
def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    x, axis = along_axis(a, axis, "np.take")
    ndim = x.aval.ndim
    index = positions(indices, x.aval.shape[axis], axis, mode=mode)
    index = broadcast_to(index, index.aval.shape)
    found = gather(move_axis(x, axis, 0), index)
    lead = index.aval.ndim
    order = (*range(lead, lead + axis), *range(lead), *range(lead + axis, lead + ndim - 1))
    return into(wrap(transpose(found, order)), out)


def _along(arr: Any, indices: Any, axis: Any, what: str) -> tuple[Atom, Atom, int]:
    """(array, positions) broadcast against each other but along *axis*, which is moved last."""
    x, axis = along_axis(arr, axis, what)
    index = indices if isinstance(indices, TracedArray) else np.asarray(indices)
    if index.ndim != x.aval.ndim:
        raise ShapeError.here(f"{what}: `indices` and `arr` must have the same number of dimensions")
    at = _last(broadcast_to(positions(index, x.aval.shape[axis], axis), index.shape), axis)
    x = _last(x, axis)
    lead = np.broadcast_shapes(x.aval.shape[:-1], at.aval.shape[:-1])
    return broadcast_to(x, (*lead, x.aval.shape[-1])), broadcast_to(at, (*lead, at.aval.shape[-1])), axis


@implements(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    x, at, axis = _along(arr, indices, axis, "np.take_along_axis")
    return wrap(_back(take_along_last(x, at), axis))


@implements(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    target = writable(arr, "np.put_along_axis")
    target = target.flat if axis is None else target
    x, at, axis = _along(target, indices, axis, "np.put_along_axis")
    if x.aval.size != target.size:
        raise ShapeError.here("np.put_along_axis: indices do not fit the array")
    shape, picked = x.aval.shape, at.aval.shape
    v = cast(to_atom(values), target.dtype)
    v = _last(broadcast_to(v, tuple(np.insert(picked[:-1], axis, picked[-1]).tolist())), axis)
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    flat_at = F.add(reshape(at, (at.aval.size,)), bind_expand(iota(rows), shape[-1], picked))
    written = bind(SCATTER_SET, reshape(x, (x.aval.size,)), flat_at, reshape(v, (v.aval.size,)))
    target._write(_back(reshape(written, shape), axis))


@implements(np.bincount)
def _bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    index = cast(atom_of(x), INT)
    if index.aval.ndim != 1 or atom_of(x).aval.dtype.kind not in "iub":
        raise ShapeError.here("np.bincount needs a 1-dimensional array of non-negative integers")
    recorder = require_recorder("np.bincount")
    length = minlength
    if index.aval.size:
        if recorder.guard(reduce("min", index, (0,)), "bincount") < 0:
            raise ShapeError.here("np.bincount: 'list' argument must have no negative elements")
        length = max(length, int(recorder.guard(reduce("max", index, (0,)), "bincount")) + 1)
    if weights is not None and atom_of(weights).aval.shape != index.aval.shape:
        raise ValueError(at_site("The weights and list don't have the same length."))
    counts = np.zeros(length, INT if weights is None else float)
    target = wrap(to_atom(counts) if length else broadcast_to(Lit(0, counts.dtype, structural=True), (0,)))
    np.add.at(target, wrap(index), 1 if weights is None else wrap(cast(atom_of(weights), np.dtype(float))))
    return target
