"""Methods of ufuncs that have no primitive of their own: ``np.maximum.accumulate``, ``np.multiply.at``, ``reduceat``;
and ufuncs of ``np.frompyfunc``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import INT
from ..ir.errors import ShapeError
from ..ir.graph import Lit
from ..ir.primitive import Primitive
from ..ops.elementwise import F, bind, cast, cast_with_warning
from ..ops.indexing import ARGSORT, SCATTER_ADD, SCATTER_MAX, SCATTER_MIN, SCATTER_SET
from ..ops.reduce import LINRECZ
from ..ops.shape import full, move_axis, reshape, transpose, zeros
from ..record.array import (
    UFUNC_METHODS,
    UFUNCS,
    TracedArray,
    is_traced,
    public_name,
    to_atom,
    unsupported,
    wrap,
    wrap_array,
)
from ..record.integers import recorded
from ..record.made_arrays import writable
from ..record.recorder import require_recorder
from .assemble import nested_atom
from .assign import fitted
from .index_plan import Access
from .registry import one_axis
from .shape import as_traced

_ASSOCIATIVE: tuple[Any, ...] = (
    np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.logical_and, np.logical_or,
    np.bitwise_and, np.bitwise_or, np.bitwise_xor,
)  # fmt: skip
_FEW = 8  # stretches that are reduced one by one
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
    """``ufunc.reduce`` of each stretch between two of the *indices*; one element where they go back."""
    name = f"{public_name(ufunc)}.reduceat"
    if (ufunc, "reduce") not in UFUNC_METHODS:
        raise unsupported(name)
    found: Any = as_traced(array) if dtype is None else as_traced(array).astype(dtype)
    axis = one_axis(axis, found.ndim, name)
    found = np.moveaxis(found, axis, 0)
    given = require_recorder(name).captured.get(id(indices), indices)
    starts: Any = as_traced(given) if is_traced(given) else np.asarray(given)
    if np.size(starts) and not bool(np.all((starts >= 0) & (starts < found.shape[0]))):
        raise IndexError(f"index out-of-bounds in {ufunc.__name__}.reduceat [0, {found.shape[0]})")
    if isinstance(starts, np.ndarray) and (len(starts) <= _FEW or ufunc not in _IDENTITIES):
        ends = [*starts[1:].tolist(), found.shape[0]]
        stretches = zip(starts.tolist(), ends, strict=True)
        parts = [ufunc.reduce(found[i:j], axis=0) if i < j else found[i] for i, j in stretches]
        return np.moveaxis(np.stack(parts), 0, axis) if parts else found[:0]
    if ufunc not in _IDENTITIES:
        raise unsupported(f"{name} at traced positions")
    return np.moveaxis(_of_stretches(ufunc, found, starts), 0, axis)


def _of_stretches(ufunc: Any, x: Any, starts: Any) -> Any:
    """``ufunc.reduceat`` along axis 0."""
    count, wide = x.shape[0], (..., *[None] * (x.ndim - 1))
    x = x.astype(ufunc.reduce(np.ones(1, x.dtype)).dtype)
    ends = np.concatenate([starts[1:], np.full(1, count)])
    marks = wrap(bind(SCATTER_ADD, zeros((count,), INT), to_atom(starts.astype(INT)), full(Lit(1, INT), starts.shape)))
    if bool(np.all(starts[1:] >= starts[:-1])):
        whole = _RULES[ufunc](x, np.cumsum(marks), len(starts) + 1)[1:] if ufunc in _RULES else None
        if ufunc is np.multiply:
            whole = _running_products(x, marks > 0)[ends - 1]
    else:
        at = np.arange(count)
        inside = (at >= starts[:, None]) & (at < ends[:, None])
        whole = ufunc.reduce(np.where(inside[wide], x, _identity(ufunc, x.dtype)), axis=1)
    return np.where((starts < ends)[wide], whole, x[starts])


def _identity(ufunc: Any, dtype: Any) -> Any:
    """The number that changes nothing, in this dtype."""
    number = _IDENTITIES[ufunc]
    if np.isinf(number) and dtype.kind in "iu":
        number = np.iinfo(dtype).min if number < 0 else np.iinfo(dtype).max
    return dtype.type(number)


def _running_products(x: Any, begins: Any) -> Any:
    """The products of x along axis 0, which begin anew where *begins* is true."""
    begins = begins[(..., *[None] * (x.ndim - 1))]
    factors, first = np.where(begins, 0, x), np.where(begins, x, 0)
    parts = [move_axis(to_atom(y), 0, x.ndim - 1) for y in (factors, first)]
    return wrap_array(move_axis(bind(LINRECZ, *parts, reverse=False), x.ndim - 1, 0))


def _extreme_of(scatter: Primitive, ufunc: Any) -> Callable[..., Any]:
    def of(x: Any, rows: Any, count: int) -> Any:
        start = full(Lit(_identity(ufunc, x.dtype), x.dtype), (count, *x.shape[1:]))
        return wrap_array(bind(scatter, start, rows.atom, x.atom))

    return of


def _sums_of(x: Any, rows: Any, count: int) -> Any:
    start = full(Lit(_identity(np.add, x.dtype), x.dtype), (count, *x.shape[1:]))
    return wrap_array(bind(SCATTER_ADD, start, rows.atom, x.atom))


def _log_sums_of(x: Any, rows: Any, count: int) -> Any:
    top = _RULES[np.maximum](wrap_array(F.stop_gradient(x.atom)), rows, count)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(_sums_of(np.exp(x - top[rows]), rows, count)) + top


# Of each of *count* rows of the result, by the numbers of the rows to which those of x go.
_RULES: dict[Any, Callable[..., Any]] = {
    np.add: _sums_of,
    np.maximum: _extreme_of(SCATTER_MAX, np.maximum),
    np.minimum: _extreme_of(SCATTER_MIN, np.minimum),
    np.logaddexp: _log_sums_of,
}
_IDENTITIES: dict[Any, Any] = {
    np.add: -0.0, np.multiply: 1, np.maximum: -np.inf, np.minimum: np.inf, np.logaddexp: -np.inf,
    np.logical_or: False, np.logical_and: True,
}  # fmt: skip


def _at(ufunc: Any, array: Any, indices: Any, values: Any) -> None:
    """Repeated positions of an element count one after the other."""
    name = f"{public_name(ufunc)}.at"
    target = writable(array, name)
    given = to_atom(recorded(values))
    plain = np.ones(1, target.dtype)
    ufunc.at(plain, [0], np.ones(1, given.aval.dtype) if not given.aval.weak else given.aval.dtype.type(1).item())
    access = Access(target, indices)
    v = cast_with_warning(given, target.dtype)
    if not access.items:
        access.base[...] = ufunc(access.base, wrap_array(fitted(v, access.base.shape)))
        return
    if ufunc in _EXTREMES:
        access.base._write(access.written(_EXTREMES[ufunc], fitted(v, access.result_shape())))
        return
    if ufunc not in _AT_ONCE or not np.can_cast(given.aval.dtype, target.dtype, "same_kind"):  # rounded each time
        _in_turns(ufunc, target, indices, values, name)
        return
    order = tuple(int(p) for p in np.argsort(access.result_order()))
    rest, rows = access.rest_shape, reshape(access.flat_index(), (math.prod(access.shape),))
    x = reshape(transpose(fitted(v, access.result_shape()), order), (rows.aval.size, *rest))
    found = _AT_ONCE[ufunc](wrap_array(access.moved()), wrap_array(x), wrap_array(rows))
    access.base._write(access.unmoved(cast(found.atom, target.dtype)))


def _products_at(x: Any, rows: Any, count: int) -> Any:
    """Of each of *count* rows, the product of those of x that go there; 1 where there are none."""
    order = wrap_array(bind(ARGSORT, rows.atom, stable=True))
    rows, x = rows[order], x[order]
    begins = np.concatenate([np.ones(min(len(rows), 1), bool), rows[1:] != rows[:-1]])
    ones = full(Lit(1, x.dtype), (count, *x.shape[1:]))
    return wrap_array(bind(SCATTER_SET, ones, rows.atom, _running_products(x, begins).atom))  # the last one is seen


def _log_sums_at(base: Any, x: Any, rows: Any) -> Any:
    count = len(base)
    return np.logaddexp(base, _log_sums_of(x, rows, count))


_EXTREMES: dict[Any, Primitive] = {np.maximum: SCATTER_MAX, np.minimum: SCATTER_MIN}
_AT_ONCE: dict[Any, Callable[..., Any]] = {
    np.multiply: lambda base, x, rows: base * _products_at(x, rows, len(base)),
    np.divide: lambda base, x, rows: base / _products_at(x, rows, len(base)),
    np.logaddexp: _log_sums_at,
}


def _in_turns(ufunc: Any, target: Any, indices: Any, values: Any, name: str) -> None:
    """At plain *indices*: all first occurrences of an element at once, then all second ones, and so on."""
    if is_traced(indices) and not isinstance(indices, slice):
        raise unsupported(f"{name} at traced positions")
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
