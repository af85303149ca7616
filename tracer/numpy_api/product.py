"""Products: matmul, dot, tensordot, einsum, outer, kron, cross.

Everything comes down to ``matmul`` of equal batch dims, or, where an operand is a vector, to a multiplication and a
sum, which fuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.aval import BOOL, INT, Ints, broadcast_shapes
from ..ir.errors import ShapeError
from ..ir.graph import Atom
from ..ops.complex import conjugate
from ..ops.elementwise import F, broadcast_to, cast, promote, to_bool
from ..ops.product import contract_last, matmul
from ..ops.reduce import reduce
from ..ops.shape import concat, move_axis, reshape, slice_axis, transpose
from ..record.array import UFUNCS, to_atom, wrap, wrap_array, wrap_as
from ..record.autocast import lowered
from .einsum import contract_pair
from .registry import atom_of, implements, into, one_axis


def _mismatch(what: str, x: Ints, y: Ints) -> ShapeError:
    return ShapeError.here(
        f"{what}: shapes {x} and {y} do not fit: the summed axes have different sizes; transpose one of them, e.g. "
        "with .T"
    )


def _product_operands(x: Atom, y: Atom) -> tuple[Atom, Atom, bool]:
    """Operands of one dtype; bools are multiplied as integers and turned back (the third result)."""
    x, y = promote(*lowered((x, y)))
    if x.aval.dtype == BOOL:
        return cast(x, INT), cast(y, INT), True
    return x, y, False


def _swap_last(x: Atom) -> Atom:
    n = x.aval.ndim
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def matmul_of(x: Atom, y: Atom, what: str = "matmul") -> Atom:
    """x @ y for all ranks, as in NumPy."""
    x, y, logical = _product_operands(x, y)
    shape_x, shape_y = x.aval.shape, y.aval.shape
    if not shape_x or not shape_y:
        raise ShapeError.here(f"{what}: an operand has no dimensions; use * for products with a number")
    if shape_x[-1] != shape_y[-2 if len(shape_y) > 1 else 0]:
        raise _mismatch(what, shape_x, shape_y)
    result = _matmul(x, y)
    return to_bool(result) if logical else result


def _matmul(x: Atom, y: Atom) -> Atom:
    shape_x, shape_y = x.aval.shape, y.aval.shape
    if len(shape_y) == 1:
        return contract_last(x, y)
    if len(shape_x) == 1:
        return contract_last(_swap_last(y), x)
    if len(shape_x) == 2 and len(shape_y) == 2:
        return matmul(x, y)
    if len(shape_y) == 2:  # the batch dims of x are rows
        rows = math.prod(shape_x[:-1])
        return reshape(matmul(reshape(x, (rows, shape_x[-1])), y), (*shape_x[:-1], shape_y[-1]))
    batch = broadcast_shapes(shape_x[:-2], shape_y[:-2], what="batch dimensions of matmul")
    return matmul(broadcast_to(x, (*batch, *shape_x[-2:])), broadcast_to(y, (*batch, *shape_y[-2:])))


UFUNCS[np.matmul] = matmul_of


def _vecdot(x: Atom, y: Atom) -> Atom:
    x, y, logical = _product_operands(x, y)
    if not x.aval.ndim or not y.aval.ndim or x.aval.shape[-1] != y.aval.shape[-1]:
        raise _mismatch("np.vecdot", x.aval.shape, y.aval.shape)
    product = F.mul(x, y)
    result = reduce("sum", product, (product.aval.ndim - 1,))
    return to_bool(result) if logical else result


def _matvec(x: Atom, y: Atom) -> Atom:
    return _vecdot(x, reshape(y, (*y.aval.shape[:-1], 1, y.aval.shape[-1])))


UFUNCS[np.vecdot] = lambda x, y: _vecdot(conjugate(x), y)
if hasattr(np, "matvec"):  # since NumPy 2.2
    UFUNCS[np.matvec] = _matvec
    UFUNCS[np.vecmat] = lambda x, y: _matvec(_swap_last(y), conjugate(x))


@implements(np.dot, method="dot")
def _dot(a: Any, b: Any, out: Any = None) -> Any:
    x, y = atom_of(a), atom_of(b)
    return into(wrap_as(dot_of(x, y), a, b, order="C" if x.aval.ndim and y.aval.ndim else "K"), out)


def dot_of(x: Atom, y: Atom) -> Atom:
    """np.dot: a product with a number, a matmul, or a sum over the last axis of x and the last but one of y."""
    if not x.aval.ndim or not y.aval.ndim:
        return UFUNCS[np.multiply](x, y)
    if x.aval.ndim <= 2 and y.aval.ndim <= 2:
        return matmul_of(x, y, "dot")
    axis = max(y.aval.ndim - 2, 0)
    return tensordot_of(x, y, (x.aval.ndim - 1,), (axis,), "dot")


@implements(np.vdot)
def _vdot(a: Any, b: Any) -> Any:
    x, y = conjugate(to_atom(a)), to_atom(b)
    return wrap(matmul_of(reshape(x, (x.aval.size,)), reshape(y, (y.aval.size,)), "vdot"))


@implements(np.inner)
def _inner(a: Any, b: Any) -> Any:
    x, y = atom_of(a), atom_of(b)
    if not x.aval.ndim or not y.aval.ndim:
        return wrap(UFUNCS[np.multiply](x, y))
    return wrap_as(tensordot_of(x, y, (x.aval.ndim - 1,), (y.aval.ndim - 1,), "inner"), order="C")


@implements(np.outer)
def _outer(a: Any, b: Any, out: Any = None) -> Any:
    x, y = to_atom(a), to_atom(b)
    return into(wrap_array(UFUNCS[np.multiply](reshape(x, (x.aval.size, 1)), reshape(y, (1, y.aval.size)))), out)


def tensordot_of(x: Atom, y: Atom, axes_x: Ints, axes_y: Ints, what: str) -> Atom:
    """Sum over axes_x of x and axes_y of y, pairwise."""
    x, y, logical = _product_operands(x, y)
    if len(axes_x) != len(axes_y) or any(
        x.aval.shape[i] != y.aval.shape[j] for i, j in zip(axes_x, axes_y, strict=True)
    ):
        raise _mismatch(what, x.aval.shape, y.aval.shape)
    free_x = [a for a in range(x.aval.ndim) if a not in axes_x]
    free_y = [a for a in range(y.aval.ndim) if a not in axes_y]
    letters = iter(range(x.aval.ndim + y.aval.ndim))
    names_x, names_y = [0] * x.aval.ndim, [0] * y.aval.ndim
    for i, j in zip(axes_x, axes_y, strict=True):
        names_x[i] = names_y[j] = next(letters)
    for i in free_x:
        names_x[i] = next(letters)
    for j in free_y:
        names_y[j] = next(letters)
    result = contract_pair(x, names_x, y, names_y, [*(names_x[i] for i in free_x), *(names_y[j] for j in free_y)])
    return to_bool(result) if logical else result


@implements(np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = to_atom(a), to_atom(b)
    if isinstance(axes, (int, np.integer)):
        pair: tuple[Any, Any] = (list(range(x.aval.ndim - int(axes), x.aval.ndim)), list(range(int(axes))))
    else:
        pair = axes
    left, right = ([v] if isinstance(v, (int, np.integer)) else list(v) for v in pair)
    axes_x = tuple(one_axis(i, x.aval.ndim, "np.tensordot") for i in left)
    axes_y = tuple(one_axis(i, y.aval.ndim, "np.tensordot") for i in right)
    return wrap_as(tensordot_of(x, y, axes_x, axes_y, "tensordot"), order="C")


@implements(np.kron)
def _kron(a: Any, b: Any) -> Any:
    x, y = to_atom(a), to_atom(b)
    ndim = max(x.aval.ndim, y.aval.ndim)
    shape_x = (*[1] * (ndim - x.aval.ndim), *x.aval.shape)
    shape_y = (*[1] * (ndim - y.aval.ndim), *y.aval.shape)
    wide_x = reshape(x, tuple(n for d in shape_x for n in (d, 1)))
    wide_y = reshape(y, tuple(n for d in shape_y for n in (1, d)))
    return wrap(
        reshape(UFUNCS[np.multiply](wide_x, wide_y), tuple(m * n for m, n in zip(shape_x, shape_y, strict=True)))
    )


@implements(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promote(atom_of(a), atom_of(b))
    x = move_axis(x, one_axis(axisa, x.aval.ndim, "np.cross"), x.aval.ndim - 1)
    y = move_axis(y, one_axis(axisb, y.aval.ndim, "np.cross"), y.aval.ndim - 1)
    dims = x.aval.shape[-1], y.aval.shape[-1]
    if not set(dims) <= {2, 3}:
        raise ShapeError.here(
            f"np.cross: incompatible dimensions for cross product (dimension must be 2 or 3), not {dims}"
        )

    def part(v: Atom, i: int) -> Atom | None:
        return None if i >= v.aval.shape[-1] else reshape(slice_axis(v, v.aval.ndim - 1, i, 1), v.aval.shape[:-1])

    def minus(i: int, j: int) -> Atom:
        left, right = _times(part(x, i), part(y, j)), _times(part(x, j), part(y, i))
        return F.neg(right) if left is None else left if right is None else F.sub(left, right)

    if dims == (2, 2):
        return wrap(minus(0, 1))
    parts = [minus(1, 2), minus(2, 0), minus(0, 1)]
    joined = concat([reshape(p, (*p.aval.shape, 1)) for p in parts], parts[0].aval.ndim)
    return wrap(move_axis(joined, joined.aval.ndim - 1, one_axis(axisc, joined.aval.ndim, "np.cross")))


def _times(x: Atom | None, y: Atom | None) -> Atom | None:
    return None if x is None or y is None else F.mul(x, y)


@implements(np.linalg.vecdot)
def _linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return np.vecdot(np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1))
