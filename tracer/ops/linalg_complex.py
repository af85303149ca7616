"""Complex matrices as real ones of twice the size, whose numbers are blocks of 2 x 2.

Each number x + iy stands as [[x, -y], [y, x]] in its place: products, sums and adjoints stay what they are, and a
triangle with a real diagonal stays a triangle.  So the real Cholesky factor is that of the complex matrix, since there
is one only, and triangular equations whose rows are divided by the diagonal are real ones.  The other order of lanes,
two blocks beside two blocks (``complex.blocks_of``), has no such triangles; it serves where no order counts.
"""

from __future__ import annotations

from typing import Any

from ..ir.graph import Atom, Pair
from .complex import RULES, by_lane, complex_of, conjugate
from .elementwise import F, like, whole_lanes
from .linalg import diagonal, solve_triangular, transposed, triangle
from .linalg_banded import cholesky_of_bands, solve_banded
from .linalg_cholesky import cholesky
from .linalg_gaps import along_columns, diagonal_mask
from .shape import concat, full, reshape, slice_axis


def interleaved(x: Atom) -> Atom:
    """The real matrices (..., 2 m, 2 n) of the complex *x*, (..., m, n)."""
    *batch, m, n = x.aval.shape
    rank = len(batch)
    re, im = (reshape(lane, (*batch, m, 1, n, 1)) for lane in whole_lanes(x))
    rows = concat([concat([re, F.neg(im)], rank + 3), concat([im, re], rank + 3)], rank + 1)
    return reshape(rows, (*batch, 2 * m, 2 * n))


def from_interleaved(x: Atom, dtype: Any) -> Pair:
    """The complex matrices of the real matrices *x*, by their columns 0, 2, 4, ..."""
    *batch, rows, columns = x.aval.shape
    rank = len(batch)
    even = slice_axis(reshape(x, (*batch, rows, columns // 2, 2)), rank + 2, 0, 1)
    return _from_rows(reshape(even, (*batch, rows, columns // 2)), dtype)


def _from_rows(x: Atom, dtype: Any) -> Pair:
    *batch, rows, k = x.aval.shape
    rank, shape = len(batch), (*batch, rows // 2, k)
    blocks = reshape(x, (*batch, rows // 2, 2, k))
    re, im = (reshape(slice_axis(blocks, rank + 1, i, 1), shape) for i in (0, 1))
    return Pair(re, im, dtype)


def _rows(x: Atom) -> Atom:
    """Right-hand sides (..., n, k) as (..., 2 n, k)."""
    *batch, n, k = x.aval.shape
    parts = [reshape(lane, (*batch, n, 1, k)) for lane in whole_lanes(x)]
    return reshape(concat(parts, len(batch) + 1), (*batch, 2 * n, k))


def _cholesky(a: Atom) -> Atom:
    """LAPACK takes no notice of imaginary parts on the diagonal."""
    re, im = whole_lanes(a)
    im = F.select(diagonal_mask(im.aval.shape), like(0, im), im)
    return from_interleaved(cholesky(interleaved(Pair(re, im, a.aval.dtype))), a.aval.dtype)


def _solve_triangular(a: Atom, b: Atom, lower: bool, trans: bool, unit: bool, right: bool) -> Atom:
    if right:
        return transposed(_solve_triangular(a, transposed(b), lower, not trans, unit, False))
    pivots = None if unit else along_columns_of(diagonal(a), a.aval.shape)
    rows = a if pivots is None else F.div(a, pivots)
    if pivots is not None and not trans:
        b = F.div(b, along_columns_of(diagonal(a), b.aval.shape))
    rows = interleaved(triangle(rows, lower, False))
    found = solve_triangular(rows, _rows(conjugate(b) if trans else b), lower, trans, True)
    if not trans:
        return _from_rows(found, b.aval.dtype)
    x = conjugate(_from_rows(found, b.aval.dtype))
    return x if pivots is None else F.div(x, along_columns_of(diagonal(a), b.aval.shape))


def along_columns_of(v: Atom, shape: tuple[int, ...]) -> Atom:
    """x[..., i, j] = v[..., i]"""
    return by_lane(lambda x: along_columns(x, shape), v)


def solve_adjoint(a: Atom, b: Atom, lower: bool) -> Atom:
    """The solutions X of T' X = b, where T is the lower or upper triangle of *a*, real or complex."""
    return conjugate(solve_triangular(a, conjugate(b), lower, True))


def _between(x: Atom, y: Atom) -> Atom:
    """The diagonals x[0], y[0], x[1], y[1], ..."""
    *batch, count, n = x.aval.shape
    parts = [reshape(v, (*batch, count, 1, n)) for v in (x, y)]
    return reshape(concat(parts, len(batch) + 1), (*batch, 2 * count, n))


def _columns_between(x: Atom, y: Atom) -> Atom:
    *rows, n = x.aval.shape
    return reshape(concat([reshape(v, (*rows, n, 1)) for v in (x, y)], len(rows) + 1), (*rows, 2 * n))


def _solve_banded(bands: Atom, b: Atom, below: int, above: int, trans: bool) -> Atom:
    """Column j of the diagonals becomes two, which begin with a zero and end with one."""
    b = conjugate(b) if trans else b
    re, im = whole_lanes(bands)
    *batch, _, n = re.aval.shape
    none, rank = full(like(0, re), (*batch, 1, n)), len(batch)
    wide = _columns_between(concat([none, _between(re, im)], rank), concat([_between(F.neg(im), re), none], rank))
    found = solve_banded(wide, _columns_between(*whole_lanes(b)), 2 * below + 1, 2 * above + 1, trans)
    x = complex_of(reshape(found, (*b.aval.shape, 2)), b.aval.dtype)
    return conjugate(x) if trans else x


def hermitian_cholesky_of_bands(bands: Atom) -> Atom:
    """``cholesky_of_bands`` of a Hermitian matrix."""
    if not bands.aval.is_complex:
        return cholesky_of_bands(bands)
    re, im = whole_lanes(bands)
    count, n = re.aval.shape
    first, none = slice_axis(re, 0, 0, 1), full(like(0, re), (1, n))
    rest = [slice_axis(x, 0, 1, count - 1) for x in (re, im)]
    even = concat([first, none, _between(*rest)], 0)
    odd = concat([first, _between(F.neg(rest[1]), rest[0]), none], 0)
    found = cholesky_of_bands(_columns_between(even, odd))
    columns = reshape(slice_axis(reshape(found, (2 * count, n, 2)), 2, 0, 1), (count, 2, n))
    re, im = (reshape(slice_axis(columns, 1, k, 1), (count, n)) for k in (0, 1))
    return Pair(re, im, bands.aval.dtype)


RULES["cholesky"] = _cholesky
RULES["solve_banded"] = _solve_banded
RULES["solve_triangular"] = _solve_triangular
