"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.aval import Ints, canonical_axes
from ..ir.errors import ShapeError
from ..ir.graph import Atom, Lit
from ..ops.complex import square_of_size
from ..ops.elementwise import F, cast, like, root
from ..ops.linalg import part
from ..ops.reduce import reduce
from ..ops.shape import reshape, transpose
from ..record.array import UFUNCS, wrap
from .linalg_factors import values_of
from .reduce import dropped, extreme, keep
from .registry import float_atom, implements, one_axis


def _vector_norm(x: Atom, axes: Ints, order: Any, keepdims: bool) -> Atom:
    if order is None or order == 2:
        return root(reduce("sum", square_of_size(x), axes, keepdims))
    size = F.abs(x)
    if order == math.inf:
        return extreme("max", size, axes, keepdims)
    if order == -math.inf:
        return extreme("min", size, axes, keepdims)
    if order == 1:
        return reduce("sum", size, axes, keepdims)
    if order == 0:
        return reduce("sum", cast(F.ne(x, like(0, x)), size.aval.dtype), axes, keepdims)
    if isinstance(order, str):
        raise ShapeError.here(f"Invalid norm order '{order}' for vectors")
    power = UFUNCS[np.power]
    total = reduce("sum", power(size, Lit(order, size.aval.dtype)), axes, keepdims)
    return power(total, Lit(1 / order, size.aval.dtype))


def _matrix_norm(x: Atom, axes: tuple[int, int], order: Any, keepdims: bool) -> Atom:
    row, column = axes
    if order is None or order in ("fro", "f"):
        return root(reduce("sum", square_of_size(x), tuple(sorted(axes)), keepdims))
    if order not in (1, -1, 2, -2, math.inf, -math.inf, "nuc"):
        raise ShapeError.here("Invalid norm order for matrices.")
    if not x.aval.shape[row] * x.aval.shape[column] and order in (1, 2, math.inf):  # those of nothing
        return reduce("sum", F.abs(x), tuple(sorted(axes)), keepdims)
    if order in (2, -2, "nuc"):
        s = values_of(transpose(x, (*[a for a in range(x.aval.ndim) if a not in axes], row, column)))
        found = (
            reduce("sum", s, (s.aval.ndim - 1,))
            if order == "nuc"
            else part(s, 0 if order == 2 else s.aval.shape[-1] - 1)
        )
        return keep(found, x.aval.shape, axes, keepdims)
    inner, outer = (row, column) if abs(order) == 1 else (column, row)
    sums = reduce("sum", F.abs(x), (inner,), True)
    return keep(
        reshape(extreme("max" if order > 0 else "min", sums, (outer,), True), dropped(x, axes)),
        x.aval.shape,
        axes,
        keepdims,
    )


@implements(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = float_atom(x, None)
    ndim = x.aval.ndim
    if axis is None:
        everything = tuple(range(ndim))
        if ord is None or (ndim == 1) or (ndim == 2 and ord in ("fro", "f")):
            return wrap(_vector_norm(x, everything, None if ord in ("fro", "f") else ord, keepdims))
        if ndim != 2:
            raise ShapeError.here("Improper number of dimensions to norm.")
        return wrap(_matrix_norm(x, (0, 1), ord, keepdims))
    axis = tuple(axis) if np.iterable(axis) else (axis,)
    if len(axis) == 1:
        return wrap(_vector_norm(x, canonical_axes(axis, ndim, "np.linalg.norm"), ord, keepdims))
    if len(axis) != 2:
        raise ShapeError.here("Improper number of dimensions to norm.")
    row, column = (one_axis(a, ndim, "np.linalg.norm") for a in axis)
    if row == column:
        raise ShapeError.here("Duplicate axes given.")
    return wrap(_matrix_norm(x, (row, column), ord, keepdims))


@implements(np.linalg.vector_norm)
def _linalg_vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    x = float_atom(x, None)
    return wrap(_vector_norm(x, canonical_axes(axis, x.aval.ndim, "np.linalg.vector_norm"), ord, keepdims))


@implements(np.linalg.matrix_norm)
def _linalg_matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    x = float_atom(x, None)
    row, column = (one_axis(a, x.aval.ndim, "np.linalg.matrix_norm") for a in (-2, -1))
    return wrap(_matrix_norm(x, (row, column), ord, keepdims))
