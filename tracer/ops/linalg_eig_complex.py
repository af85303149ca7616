"""Complex eigenvalues and eigenvectors of real matrices, from what ``eig`` (``linalg_eig.py``) has packed.

Both are two real lanes, (..., 2, n) and (..., 2, n, n); the rules put them together as ``Pair``s.

With P = inv(V) dA V: dw = diag P, and dV = V (P[i, j] / (w[j] - w[i])) less the multiple of each column that LAPACK
takes away: columns have length 1, and their largest elements are real.  Where eigenvalues are equal, derivatives of
vectors are infinite or NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import COMPLEX, INT, Aval
from ..ir.axes import PART, UNKNOWN, Axes, Params, Shape, Shapes
from ..ir.graph import Atom, Lit, Pair, Var, bind, lanes
from ..ir.primitive import VIEW, Primitive, register
from .complex import conjugate
from .elementwise import F, like
from .linalg import diagonal, lu, lu_inverse, transposed
from .linalg_eig import as_packed, eig, of_matrix
from .linalg_eigen import row_of
from .linalg_gaps import along_columns, along_rows, diagonal_mask, rounding
from .product import matmul
from .reduce import expand, reduce
from .shape import concat, full, iota, reshape, slice_axis

_ANY = ((-3.0, 3.0),)
_OF_LANES = {lane: dtype for dtype, lane in COMPLEX.items()}


def _pair(x: Atom, axis: int) -> Pair:
    """The complex value of lanes along *axis*, counted from the end."""
    at = x.aval.ndim - axis
    shape = (*x.aval.shape[:at], *x.aval.shape[at + 1 :])
    re, im = (reshape(slice_axis(x, at, k, 1), shape) for k in (0, 1))
    return Pair(re, im, _OF_LANES[x.aval.dtype])


def _stacked(z: Atom, axis: int) -> Atom:
    at = z.aval.ndim + 1 - axis
    shape = (*z.aval.shape[:at], 1, *z.aval.shape[at:])
    return concat([reshape(lane, shape) for lane in lanes(z)], at)


def _inverse(v: Atom) -> Pair:
    """inv(V), by the real matrix of twice the order."""
    re, im = lanes(v)
    n, axis = re.aval.shape[-1], re.aval.ndim - 2
    big = concat([concat([re, F.neg(im)], axis + 1), concat([im, re], axis + 1)], axis)
    left = slice_axis(lu_inverse(lu(big)), axis + 1, 0, n)
    return Pair(slice_axis(left, axis, 0, n), slice_axis(left, axis, n, n), v.aval.dtype)


def _diagonal(z: Atom) -> Pair:
    re, im = lanes(z)
    return Pair(diagonal(re), diagonal(im), z.aval.dtype)


def _spread(spread: Any, z: Atom, shape: tuple[int, ...]) -> Pair:
    """``along_rows`` or ``along_columns`` of both lanes."""
    re, im = (x if isinstance(x, Lit) else spread(x, shape) for x in lanes(z))
    return Pair(re, im, z.aval.dtype)


# ---- eigenvalues -------------------------------------------------------------------------------------------------


def complex_eigenvalues(packed: Atom) -> Pair:
    return _pair(bind(COMPLEX_EIGENVALUES, packed), 2)


def _values(packed: Atom) -> Atom:
    *batch, rows, _ = packed.aval.shape
    return slice_axis(packed, len(batch), rows - 2, 2)


def _values_vjp(ct: Atom, out: Var, packed: Atom) -> tuple[Atom]:
    v = complex_eigenvectors(packed)
    scaled = F.mul(v, _spread(along_rows, conjugate(_pair(ct, 2)), v.aval.shape))
    return (as_packed(transposed(lanes(matmul(scaled, _inverse(v)))[0])),)


def _in_eigenvectors(x: Atom, v: Atom) -> Atom:
    """inv(V) x V"""
    return matmul(_inverse(v), matmul(Pair(x, like(0, x), v.aval.dtype), v))


def _values_jvp(tangents: Any, out: Var, packed: Atom) -> Atom:
    v = complex_eigenvectors(packed)
    return _stacked(_diagonal(_in_eigenvectors(of_matrix(tangents[0]), v)), 2)


def _values_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    rank = len(shape)
    return Axes(((*range(rank - 2), None, rank - 1),), {rank - 2: PART})


_OF_PACKED: dict[str, Any] = {"shapes": ((2, 5, 3),), "of": {0: lambda x: eig(of_matrix(x))}}

COMPLEX_EIGENVALUES = register(
    Primitive(
        "complex_eigenvalues", VIEW, lambda packed, xp=np: packed[..., -2:, :],
        lambda packed: Aval(packed.dtype, (*packed.shape[:-2], 2, packed.shape[-1])),
        vjp=_values_vjp, jvp=_values_jvp, axes=_values_axes, lower=_values, domain=_ANY, test=_OF_PACKED,
    )
)  # fmt: skip


# ---- eigenvectors ------------------------------------------------------------------------------------------------


def complex_eigenvectors(packed: Atom) -> Pair:
    return _pair(bind(COMPLEX_EIGENVECTORS, packed), 3)


def _vectors(packed: Atom) -> Atom:
    """Of a conjugate pair LAPACK gives the real and the imaginary part of the first vector, as columns."""
    x = transposed(of_matrix(packed))
    shape, last = x.aval.shape, x.aval.ndim - 1
    none = full(like(0, x), (*shape[:-1], 1))
    after = concat([slice_axis(x, last, 1, shape[-1] - 1), none], last)
    before = concat([none, slice_axis(x, last, 0, shape[-1] - 1)], last)
    signs = along_rows(row_of(packed, shape[-1] + 1), shape)
    first, second = F.gt(signs, like(0, x)), F.lt(signs, like(0, x))
    imaginary = F.select(first, after, F.select(second, F.neg(x), like(0, x)))
    return _stacked(Pair(F.select(second, before, x), imaginary, _OF_LANES[x.aval.dtype]), 3)


def _vectors_impl(packed: np.ndarray) -> Any:
    x, signs = packed[..., :-2, :].swapaxes(-1, -2), packed[..., None, -1, :]
    none = np.zeros_like(x[..., :1])
    after = np.concatenate([x[..., 1:], none], -1)
    before = np.concatenate([none, x[..., :-1]], -1)
    imaginary = np.where(signs > 0, after, np.where(signs < 0, -x, 0))
    return np.stack([np.where(signs < 0, before, x), imaginary], -3)


def _largest(v: Atom) -> tuple[Atom, Atom]:
    """The mask of the first largest element of each column of V, and those elements, which are real."""
    re, im = (F.stop_gradient(x) for x in lanes(v))
    rank, n = re.aval.ndim, re.aval.shape[-1]
    rows = reduce("argmax", F.add(F.square(re), F.square(im)), (rank - 2,))
    places = along_columns(expand(iota(n, INT), rows.aval.shape, tuple(range(rank - 2))), re.aval.shape)
    mask = F.eq(places, along_rows(rows, re.aval.shape))
    return mask, reduce("sum", F.select(mask, lanes(v)[0], like(0, re)), (rank - 2,))


def _over_gaps(z: Atom, values: Atom) -> Atom:
    """z[i, j] / (w[j] - w[i]) off the diagonal; infinite or NaN where they are equal."""
    shape = z.aval.shape
    diagonal = diagonal_mask(shape)
    gaps = F.sub(_spread(along_rows, values, shape), _spread(along_columns, values, shape))
    size = F.add(*[F.square(x) for x in lanes(gaps)])
    limit = F.square(rounding(F.sqrt(F.add(*[F.square(F.stop_gradient(x)) for x in lanes(values)]))))
    equal = F.le(size, along_rows(limit, shape))
    inverse = F.div(like(1, size), F.select(diagonal, like(1, size), F.select(equal, like(0, size), size)))
    inverse = F.select(diagonal, like(0, size), inverse)
    found = F.mul(z, conjugate(gaps))
    re, im = (F.mul(lane, inverse) for lane in lanes(found))
    return Pair(re, im, z.aval.dtype)


def _vectors_vjp(ct: Atom, out: Var, packed: Atom) -> tuple[Atom]:
    v, g, values = complex_eigenvectors(packed), _pair(ct, 3), complex_eigenvalues(packed)
    adjoint = conjugate(transposed(v))
    lengths, turns = lanes(_diagonal(matmul(adjoint, g)))
    mask, top = _largest(v)
    shape = v.aval.shape
    re, im = lanes(F.sub(g, F.mul(v, _spread(along_rows, Pair(lengths, like(0, lengths), v.aval.dtype), shape))))
    im = F.sub(im, F.select(mask, along_rows(F.div(turns, top), shape), like(0, im)))
    inner = _over_gaps(conjugate(matmul(adjoint, Pair(re, im, v.aval.dtype))), values)
    found = matmul(matmul(transposed(_inverse(v)), inner), transposed(v))
    return (as_packed(lanes(found)[0]),)


def _vectors_jvp(tangents: Any, out: Var, packed: Atom) -> Atom:
    v, values = complex_eigenvectors(packed), complex_eigenvalues(packed)
    moved = matmul(v, _over_gaps(_in_eigenvectors(of_matrix(tangents[0]), v), values))
    mask, top = _largest(v)
    stretch = lanes(_diagonal(matmul(conjugate(transposed(v)), moved)))[0]
    turn = F.div(reduce("sum", F.select(mask, lanes(moved)[1], like(0, top)), (v.aval.ndim - 2,)), top)
    return _stacked(F.sub(moved, F.mul(v, _spread(along_rows, Pair(stretch, turn, v.aval.dtype), v.aval.shape))), 3)


def _vectors_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    rank = len(shape)
    return Axes(((*range(rank - 3), None, None),), {rank - 3: PART, rank - 2: UNKNOWN, rank - 1: UNKNOWN})


COMPLEX_EIGENVECTORS = register(
    Primitive(
        "complex_eigenvectors", VIEW, _vectors_impl,
        lambda packed: Aval(packed.dtype, (*packed.shape[:-2], 2, packed.shape[-1], packed.shape[-1])),
        vjp=_vectors_vjp, jvp=_vectors_jvp, axes=_vectors_axes, singular=True, lower=_vectors, domain=_ANY,
        test={**_OF_PACKED, "then": F.square},
    )
)  # fmt: skip
