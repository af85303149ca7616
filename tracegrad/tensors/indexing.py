"""Reading and writing raw arrays at integer positions, on NumPy arrays and on traced ones.

The integer arrays index some dimensions of an array (``dims``, ascending), and every other dimension whole.  NumPy
computes; on traced arrays the index is an ``Access``, whose positions are not checked: callers ensure that they are in
bounds (NumPy by computing, ``ops_index`` by a guard within a capture).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tracer.ir.aval import INT
from ..tracer.numpy_api.assign import fitted
from ..tracer.numpy_api.index_plan import Access
from ..tracer.ops.elementwise import cast
from ..tracer.ops.indexing import SCATTER_ADD, SCATTER_SET, take_along_last
from ..tracer.ops.shape import transpose
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
    return wrap_array(Access.at(x, [to_atom(a) for a in arrays], dims).read())


def written_at(x: Any, value: Any, arrays: tuple[Any, ...], dims: Ints, add: bool) -> Any:
    """A copy of *x* with *value* written (or added) at the positions that ``read_at`` reads."""
    if not isinstance(x, TracedArray):
        result = x.copy()
        write_at(result, value, arrays, dims, add)
        return result
    if not dims:  # one element without axes
        return x + value if add else np.where(True, value, x)
    access = Access.at(x, [to_atom(a) for a in arrays], dims)
    new = fitted(cast(to_atom(value), x.dtype), access.result_shape())
    return wrap_array(access.written(SCATTER_ADD if add else SCATTER_SET, new))


def write_at(x: np.ndarray, value: Any, arrays: tuple[Any, ...], dims: Ints, add: bool) -> None:
    """Write (or add) into the NumPy array *x*."""
    index = numpy_index(x.ndim, arrays, dims)
    if add:
        np.add.at(x, index, value)
    else:
        x[index] = value


# ---- along one dimension -------------------------------------------------------------------------------------------


def elements_along(x: Any, at: Any, dim: int) -> Any:
    """``np.take_along_axis``: for each position in *at* the element of *x* with that index along *dim*."""
    if not isinstance(x, TracedArray):
        return x[coordinates(at, dim)]
    order = (*[a for a in range(x.ndim) if a != dim], dim)
    found = take_along_last(transpose(to_atom(x), order), transpose(cast(to_atom(at), INT), order))
    return wrap_array(transpose(found, tuple([int(p) for p in np.argsort(order)])))


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
