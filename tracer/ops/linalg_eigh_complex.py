"""Eigenvalues and eigenvectors of Hermitian matrices.

``complex_eigh`` packs them as ``eigh`` (``linalg_eigen.py``) does: row j < n is eigenvector j, the last row has the
eigenvalues, which are real, and zeros.  That value is opaque: its cotangents and tangents are those of A, in rows 0 to
n - 1.  All complex numbers are two real ones beside each other (``rows_of``).

With P = V' dA V:  dw = diag P,  dV = V (P[i, j] / (w[j] - w[i]) + i diag(t)).  LAPACK goes by a real tridiagonal matrix
and leaves the first element of every vector real, or the last one where it reads the upper triangle: so t is known.
Where that element is 0, what depends on phases has no derivative; where eigenvalues are equal, what depends on vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

from ..ir.aval import Aval
from ..ir.axes import PART, Axes, Params, Shape, Shapes
from ..ir.graph import Atom, Pair, Var, bind, lanes
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from .complex import conjugate
from .elementwise import F, like
from .linalg import matrix_axes, per_matrix, transposed, triangle
from .linalg_complex import adjoint, hermitian, hermitian_part
from .linalg_det_complex import from_rows, numbers_of, order_of_rows, rows_of
from .linalg_eigen import as_packed, of_matrix, row_of
from .linalg_gaps import Limit, along_rows, noise_of, over_gaps, size_of
from .product import matmul
from .reduce import expand, reduce
from .shape import concat, full, reshape, slice_axis

_ANY = ((-3.0, 3.0),)


def _infer(a: Aval, lower: bool) -> Aval:
    n = order_of_rows(a, "complex_eigh")
    return Aval(a.dtype, (*a.shape[:-2], n + 1, 2 * n))


def _eigh(a: np.ndarray, lower: bool) -> Any:
    n = len(a)
    z = numbers_of(a)
    routine = lapack.zheevd if a.dtype.itemsize == 8 else lapack.cheevd
    values, vectors, info = routine(z, lower=lower, lwork=n * n + 66 * n)
    if info:
        return np.full((n + 1, 2 * n), np.nan)
    rows = np.ascontiguousarray(vectors.T).view(a.dtype)
    return np.vstack([rows, np.concatenate([values, np.zeros_like(values)])])


def _folded(x: Atom, lower: bool) -> Atom:
    """The cotangent of one triangle, from that of the Hermitian matrix."""
    x = hermitian_part(x)
    return rows_of(F.add(triangle(x, lower), triangle(x, lower, False)))


COMPLEX_EIGH = register(
    Primitive(
        "complex_eigh", LAPACK, per_matrix(_eigh, _infer), _infer,
        vjp=lambda ct, out, a, lower: (_folded(from_rows(of_matrix(ct)), lower),),
        jvp=lambda tangents, out, a, lower: as_packed(rows_of(hermitian(from_rows(tangents[0]), lower))),
        axes=matrix_axes("ij", "pj"), masking=True, domain=_ANY,
        test={"shapes": ((2, 3, 6),), "params": {"lower": False}, "then": lambda out: _both(out)},
    )
)  # fmt: skip


def _both(packed: Atom) -> Atom:
    v = _eigenvectors(packed, False)
    return rows_of(_times_columns(v, _eigenvalues(packed)))


def complex_eigh(z: Atom, lower: bool = True) -> tuple[Atom, Atom]:
    """Eigenvalues, ascending, and eigenvectors of the Hermitian matrices that have the lower (or upper) triangles of
    the complex *z*."""
    packed = bind(COMPLEX_EIGH, rows_of(z), lower=lower)
    return _eigenvalues(packed), _eigenvectors(packed, lower)


# ---- eigenvalues -------------------------------------------------------------------------------------------------


def _values(packed: Atom) -> Atom:
    n = packed.aval.shape[-1] // 2
    return slice_axis(row_of(packed, n), packed.aval.ndim - 2, 0, n)


def _times_columns(v: Atom, factors: Atom) -> Pair:
    re, im = (F.mul(x, along_rows(factors, x.aval.shape)) for x in lanes(v))
    return Pair(re, im, v.aval.dtype)


def _values_vjp(ct: Atom, out: Var, packed: Atom) -> tuple[Atom]:
    v = _eigenvectors(packed, True)
    return (as_packed(rows_of(matmul(_times_columns(v, ct), adjoint(v)))),)


def _values_jvp(tangents: Any, out: Var, packed: Atom) -> Atom:
    v = _eigenvectors(packed, True)
    products = F.mul(conjugate(v), matmul(from_rows(of_matrix(tangents[0])), v))
    return reduce("sum", lanes(products)[0], (v.aval.ndim - 2,))


def _values_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    rank = len(shape)
    return Axes(((*range(rank - 1), None, None),), {rank - 1: PART})


_OF_PACKED: dict[str, Any] = {
    "shapes": ((2, 4, 6),),
    "of": {0: lambda x: bind(COMPLEX_EIGH, of_matrix(x), lower=True)},
}

HERMITIAN_EIGENVALUES = register(
    Primitive(
        "hermitian_eigenvalues", VIEW, lambda packed, xp=np: packed[..., -1, : packed.shape[-1] // 2],
        lambda packed: Aval(packed.dtype, (*packed.shape[:-2], packed.shape[-1] // 2)),
        vjp=_values_vjp, jvp=_values_jvp, axes=_values_axes, lower=_values, domain=_ANY, test=_OF_PACKED,
    )
)  # fmt: skip


def _eigenvalues(packed: Atom) -> Var:
    return bind(HERMITIAN_EIGENVALUES, packed)


# ---- eigenvectors ------------------------------------------------------------------------------------------------


def _over_gaps(z: Atom, values: Atom, limit: Limit | None, scale: Atom) -> Pair:
    re, im = (over_gaps(x, values, limit, scale) for x in lanes(z))
    return Pair(re, im, z.aval.dtype)


def _scale(z: Atom) -> Atom:
    return size_of(*lanes(z))


def _real_row(v: Atom, lower: bool) -> tuple[int, Atom]:
    """(The row of the vectors that is real, its elements)."""
    i = 0 if lower else v.aval.shape[-1] - 1
    return i, row_of(lanes(v)[0], i)


def _turn(num: Atom, real: Atom, scale: Atom) -> Atom:
    """*num* / *real*, but 0 where both vanish: then nothing turns, and rounding errors must not grow."""
    noise, little = noise_of(num), like(float(np.finfo(num.aval.dtype).eps) ** 0.25, num)
    scale = expand(scale, num.aval.shape, (num.aval.ndim - 1,))
    lost = F.logical_and(F.le(F.abs(real), little), F.le(F.abs(num), F.mul(scale, noise)))
    return F.div(F.select(lost, like(0, num), num), F.select(lost, like(1, real), real))


def _in_row(x: Atom, i: int, n: int) -> Atom:
    """Matrices of *n* rows with *x* in row *i*, zeros in others."""
    *batch, m = x.aval.shape
    parts = [full(like(0, x), (*batch, rows, m)) for rows in (i, n - 1 - i)]
    return concat([parts[0], reshape(x, (*batch, 1, m)), parts[1]], len(batch))


def _vectors_vjp(ct: Atom, out: Var, packed: Atom, lower: bool) -> tuple[Atom]:
    v, g = transposed(from_rows(out)), transposed(from_rows(ct))
    turned = reduce("sum", lanes(F.mul(conjugate(v), g))[1], (v.aval.ndim - 2,))
    i, real = _real_row(v, lower)
    re, im = lanes(g)
    im = F.sub(im, _in_row(_turn(turned, real, _scale(g)), i, v.aval.shape[-1]))
    inner = matmul(adjoint(v), Pair(re, im, v.aval.dtype))
    inner = F.mul(like(0.5, inner), F.sub(inner, adjoint(inner)))
    found = _over_gaps(inner, _eigenvalues(packed), None, _scale(g))
    return (as_packed(rows_of(matmul(matmul(v, found), adjoint(v)))),)


def _vectors_jvp(tangents: Any, out: Var, packed: Atom, lower: bool) -> Atom:
    v, a = transposed(from_rows(out)), from_rows(of_matrix(tangents[0]))
    inner = matmul(adjoint(v), matmul(a, v))
    moved = matmul(v, _over_gaps(inner, _eigenvalues(packed), Limit(None, None), _scale(a)))
    i, real = _real_row(v, lower)
    turns = _turn(row_of(lanes(moved)[1], i), real, _scale(moved))
    re, im = lanes(_times_columns(v, turns))
    return rows_of(transposed(F.sub(moved, Pair(F.neg(im), re, v.aval.dtype))))


def _vectors_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    rank = len(shape)
    return Axes(((*range(rank - 2), None, rank - 1),), {rank - 2: PART})


HERMITIAN_EIGENVECTORS = register(
    Primitive(
        "hermitian_eigenvectors", VIEW, lambda packed, lower, xp=np: packed[..., :-1, :],
        lambda packed, lower: Aval(packed.dtype, (*packed.shape[:-2], packed.shape[-2] - 1, packed.shape[-1])),
        vjp=_vectors_vjp, jvp=_vectors_jvp, axes=_vectors_axes, singular=True, domain=_ANY,
        lower=lambda packed, lower: of_matrix(packed), test={**_OF_PACKED, "params": {"lower": True}},
    )
)  # fmt: skip


def _eigenvectors(packed: Atom, lower: bool) -> Atom:
    return transposed(from_rows(bind(HERMITIAN_EIGENVECTORS, packed, lower=lower)))
