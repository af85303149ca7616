"""Reading and writing raw arrays at integer positions, on NumPy arrays and on traced ones.

The integer arrays index some dimensions of an array (``dims``, ascending), and every other dimension whole.  NumPy
computes; on traced arrays the positions become flat ones for ``gather`` and ``scatter``.  They are not checked there:
callers ensure that they are in bounds (NumPy by computing, ``ops_index`` by a guard within a capture).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tracer.ir.aval import INT
from ..tracer.ir.graph import Atom, Lit, bind
from ..tracer.ops.elementwise import F, broadcast_to, cast
from ..tracer.ops.indexing import SCATTER_ADD, SCATTER_SET, gather, take_along_last
from ..tracer.ops.shape import reshape, transpose
from ..tracer.record.array import TracedArray, to_atom, wrap_array

Ints = tuple[int, ...]
_ALL = slice(None)


# ---- integer arrays over some dimensions ---------------------------------------------------------------------------


def numpy_index(ndim: int, arrays: tuple[Any, ...], dims: Ints) -> tuple[Any, ...]:
    """The index of NumPy that has *arrays* at *dims*."""
    index: list[Any] = [_ALL] * ndim
    for d, array in zip(dims, arrays, strict=True):
        index[d] = array
    return tuple(index)


def read_at(x: Any, arrays: tuple[Any, ...], dims: Ints) -> Any:
    """x[..., arrays, ...]: the axes of the index stand where the indexed ones stood, in front if those were apart."""
    if not isinstance(x, TracedArray):
        return x[numpy_index(x.ndim, arrays, dims)]
    plan = _Plan(x, arrays, dims)
    return wrap_array(transpose(gather(plan.moved, plan.flat), plan.order))


def written_at(x: Any, value: Any, arrays: tuple[Any, ...], dims: Ints, add: bool) -> Any:
    """A copy of *x* with *value* written (or added) at the positions that ``read_at`` reads."""
    if not isinstance(x, TracedArray):
        result = x.copy()
        write_at(result, value, arrays, dims, add)
        return result
    if not dims:  # one element without axes
        return x + value if add else np.where(True, value, x)
    plan = _Plan(x, arrays, dims)
    v = _fitted(cast(to_atom(value), x.dtype), plan.shape)
    v = transpose(v, _inverse(plan.order))
    written = bind(SCATTER_ADD if add else SCATTER_SET, plan.moved, plan.flat, v)
    apart = reshape(written, tuple([x.shape[d] for d in plan.front]))
    return wrap_array(transpose(apart, _inverse(plan.front)))


def write_at(x: np.ndarray, value: Any, arrays: tuple[Any, ...], dims: Ints, add: bool) -> None:
    """Write (or add) into the NumPy array *x*."""
    index = numpy_index(x.ndim, arrays, dims)
    if add:
        np.add.at(x, index, value)
    else:
        x[index] = value


class _Plan:
    """The indexed axes in front and flattened (``moved``), flat positions there, and the transposition of the gathered
    elements (``order``) into the result, of ``shape``."""

    def __init__(self, x: TracedArray, arrays: tuple[Any, ...], dims: Ints):
        shape = x.shape
        rest = [a for a in range(len(shape)) if a not in dims]
        self.front = (*dims, *rest)
        sizes = [shape[d] for d in dims]
        tail = [shape[a] for a in rest]
        self.moved = reshape(transpose(to_atom(x), self.front), (math.prod(sizes), *tail))
        self.flat = _flat_positions(arrays, sizes)
        lead, at = len(self.flat.aval.shape), dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
        self.order = (*range(lead, lead + at), *range(lead), *range(lead + at, lead + len(rest)))
        self.shape = (*tail[:at], *self.flat.aval.shape, *tail[at:])


def _flat_positions(arrays: tuple[Any, ...], sizes: list[int]) -> Atom:
    total: Atom | None = None
    stride = math.prod(sizes)
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    for array, size in zip(arrays, sizes, strict=True):
        stride //= max(size, 1)
        at = cast(to_atom(array), INT)
        at = F.select(F.lt(at, Lit(0, INT, structural=True)), F.add(at, Lit(size, INT)), at)
        part = at if stride == 1 else F.mul(at, Lit(stride, INT))
        total = part if total is None else F.add(total, part)
    assert total is not None
    return broadcast_to(total, shape)


def _inverse(order: Ints) -> Ints:
    return tuple([int(p) for p in np.argsort(order)])


def _fitted(v: Atom, shape: Ints) -> Atom:
    have = v.aval.shape
    while len(have) > len(shape) and have[0] == 1:
        have = have[1:]
    return broadcast_to(reshape(v, have) if have != v.aval.shape else v, shape)


# ---- along one dimension -------------------------------------------------------------------------------------------


def elements_along(x: Any, at: Any, dim: int) -> Any:
    """``np.take_along_axis``: for each position in *at* the element of *x* with that index along *dim*."""
    if not isinstance(x, TracedArray):
        return x[coordinates(at, dim)]
    order = (*[a for a in range(x.ndim) if a != dim], dim)
    found = take_along_last(transpose(to_atom(x), order), transpose(cast(to_atom(at), INT), order))
    return wrap_array(transpose(found, _inverse(order)))


def picked(x: Any, at: Any, dim: int, keepdim: bool) -> Any:
    """(elements, indices): of each row along *dim* the one at the position *at*.  The derivative reads the indices."""
    kept = np.expand_dims(at, dim)
    values = elements_along(x, kept, dim)
    return (values, kept) if keepdim else (values.squeeze(dim), at)


def coordinates(index: Any, dim: int) -> tuple[Any, ...]:
    """Index arrays over all dimensions: *index* at *dim*, each element's own place at the others."""
    ndim = len(index.shape)
    return tuple([
        index if a == dim else np.arange(n).reshape([-1 if b == a else 1 for b in range(ndim)])
        for a, n in enumerate(index.shape)
    ])  # fmt: skip


def argsorted(x: Any, dim: int, descending: bool) -> Any:
    """The indices that sort *x* along *dim*; equal elements keep their order, NaN counts as largest."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    turned = np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
    return x.shape[dim] - 1 - turned
