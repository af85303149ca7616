"""scipy.linalg: equations, inverses and determinants, and the factors by which they are solved.

These are plain Python, no functions of NumPy's: calls with traced arguments are sent here (``hooks.py``).  Of
structures (``assume_a``) those are used that save time: triangular, diagonal and positive definite matrices.  A matrix
that is said to be symmetric is read from one triangle, as in SciPy; its gradient is symmetric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from ..ir.aval import COMPLEX, INT
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom
from ..numpy_api.linalg import (
    Words,
    cholesky_of,
    columns_of,
    det_of,
    factors,
    in_one_batch,
    inverse_of,
    must_hold,
    solve_by,
    taken_back,
)
from ..numpy_api.registry import atom_of
from ..ops import linalg as ops
from ..ops.complex import conjugate
from ..ops.elementwise import F, cast, like
from ..ops.linalg import adjoint, hermitian_part
from ..ops.linalg_complex import solve_adjoint
from ..ops.linalg_lu import lu_parts, permuted, solve_by_lu
from ..ops.linalg_pivots import pivots
from ..ops.shape import concat, reshape, slice_axis
from ..record.array import to_atom, wrap
from ..record.recorder import require_recorder
from .linalg import for_scipy, hooked, in_double, real_matrix

_FINITE = "array must not contain infs or NaNs"
_SINGULAR = "A singular matrix detected: slice(s) [0] are singular."


def operands(check_finite: bool, *values: Any) -> tuple[Atom, ...]:
    atoms = for_scipy(*values)
    for x in atoms:
        if check_finite:
            must_hold(F.isfinite(x), _FINITE)
    return atoms


def _square(x: Atom, error: str) -> int:
    shape = x.aval.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError.here(error)
    return shape[-1]


def right_sides(y: Atom, n: int, error: str) -> tuple[Atom, bool]:
    """(*y* as matrices, whether it was one vector) of *n* rows."""
    if y.aval.shape[-2 if y.aval.ndim > 1 else -1 :][0] != n:
        raise ShapeError.here(error)
    return (reshape(y, (n, 1)), True) if y.aval.ndim == 1 else (y, False)


def given(x: Atom, vector: bool) -> Any:
    return wrap(reshape(x, x.aval.shape[:-1]) if vector else x)


def _of_one_or_many(solve: Callable[[Atom, Atom], Atom], a: Atom, b: Atom) -> Atom:
    """``solve(a, b)``; right-hand sides of one matrix side by side."""
    if a.aval.ndim == 2 and b.aval.ndim > 2:
        columns, shape = columns_of(b)
        return taken_back(solve(a, columns), shape)
    return solve(*in_one_batch(a, b, "scipy.linalg"))


def _nonzero_diagonal(x: Atom, error: Words) -> None:
    found = ops.diagonal(F.stop_gradient(x))
    must_hold(F.ne(found, like(0, found)), error)


def _first_zero(x: Atom) -> int:
    """The first place on the diagonal that is zero."""
    found = np.asarray(require_recorder("linear algebra").value(ops.diagonal(x)))
    return int(np.argwhere(found == 0)[0][-1])


def _mirrored(x: Atom, lower: bool, hermitian: bool) -> Atom:
    """The symmetric or Hermitian matrices of which *x* has the lower or upper triangle."""
    turned, half = (adjoint, hermitian_part) if hermitian else (ops.transposed, ops.symmetric_part)
    own, diagonal = half(x), ops.triangle(ops.triangle(half(x), True), False)
    below = ops.triangle(x, lower, False)
    mirrored = F.add(F.add(below, turned(below)), diagonal)
    return F.add(own, F.stop_gradient(F.sub(mirrored, own)))


# ---- equations -------------------------------------------------------------------------------------------------------

_GENERAL = (None, "gen", "general", "tridiagonal", "banded")
_SYMMETRIC = ("sym", "symmetric")
_HERMITIAN = ("her", "hermitian")
_POSITIVE = ("pos", "positive definite")
_TRIANGULAR = {"upper triangular": False, "lower triangular": True}


@hooked("qr_multiply")
def _qr_multiply(
    a: Any, c: Any, mode: str = "right", pivoting: bool = False, conjugate: bool = False, overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> Any:  # fmt: skip
    if mode not in ("left", "right"):
        raise ValueError(f"Mode argument can only be 'left' or 'right' but not '{mode}'")
    q, *rest = scipy.linalg.qr(a, mode="economic", pivoting=pivoting)
    q, by = np.conj(q) if conjugate else q, wrap(operands(True, c)[0])
    return (q @ by if mode == "left" else by @ q), *rest


@hooked("solve")
def _solve(
    a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, assume_a: Any = None, transposed: bool = False,
) -> Any:  # fmt: skip
    x, y = operands(check_finite, a, b)
    n = _square(x, f"Expected square matrix, got a1.shape={x.aval.shape}")
    right, vector = right_sides(y, n, f"incompatible shapes: a1.shape={x.aval.shape} and b1.shape={y.aval.shape}")
    if assume_a in _TRIANGULAR or assume_a == "diagonal":
        _nonzero_diagonal(x, _SINGULAR)
        below = _TRIANGULAR.get(assume_a, True)
        if assume_a == "diagonal":
            x = ops.triangle(x, False)
        return given(_of_one_or_many(lambda a, b: ops.solve_triangular(a, b, below, transposed), x, right), vector)
    if assume_a in _POSITIVE:
        root = cholesky_of(x if lower else adjoint(x), _SINGULAR)
        return given(_of_one_or_many(_by_cholesky, root, right), vector)
    if assume_a in _SYMMETRIC or assume_a in _HERMITIAN:
        x = _mirrored(x, lower, assume_a in _HERMITIAN)
    elif assume_a not in _GENERAL:
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    return given(solve_by(factors(x, _SINGULAR), right, bool(transposed)), vector)


def _by_cholesky(root: Atom, b: Atom) -> Atom:
    """The solutions by lower Cholesky factors."""
    return solve_adjoint(root, ops.solve_triangular(root, b, True), True)


@hooked("solve_triangular")
def _solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    x, y = operands(check_finite, a, b)
    n = _square(x, "expected square matrix")
    right, vector = right_sides(y, n, f"shapes of a {x.aval.shape} and b {y.aval.shape} are incompatible")
    if not unit_diagonal:
        _nonzero_diagonal(x, lambda: f"singular matrix: resolution failed at diagonal {_first_zero(x)}")
    turned = {0: False, "N": False, 1: True, "T": True, 2: True, "C": True}[trans]

    def solve(a: Atom, b: Atom) -> Atom:
        a = conjugate(a) if trans in (2, "C") else a
        return ops.solve_triangular(a, b, bool(lower), turned, bool(unit_diagonal))

    return given(_of_one_or_many(solve, x, right), vector)


@hooked("inv")
def _inv(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: Any = None, lower: bool = False
) -> Any:
    (x,) = operands(check_finite, a)
    _square(x, f"Expected square matrix, got a1.shape={x.aval.shape}")
    if assume_a in (*_POSITIVE, *_SYMMETRIC, *_HERMITIAN):
        x = _mirrored(x, lower, assume_a not in _SYMMETRIC)
    elif assume_a in _TRIANGULAR:
        x = ops.triangle(x, _TRIANGULAR[assume_a])
    elif assume_a == "diagonal":
        x = ops.triangle(ops.triangle(x, True), False)
    elif assume_a not in _GENERAL:
        raise KeyError(assume_a)
    return wrap(inverse_of(x, _SINGULAR))


@hooked("det")
def _det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    (x,) = operands(check_finite, a)
    if x.aval.ndim < 2:
        raise ShapeError.here("The input array must be at least two-dimensional.")
    _square(x, f"Last 2 dimensions of the array must be square but received shape {x.aval.shape}.")
    return wrap(det_of(in_double(x)))


# ---- Cholesky's factors ------------------------------------------------------------------------------------------


def _root(a: Any, lower: bool, check_finite: bool) -> tuple[Atom, Atom]:
    """(*a*, its Cholesky factors, lower or upper)."""
    (x,) = operands(check_finite, a)
    if x.aval.ndim < 2:
        raise ShapeError.here(f"Input array needs to be 2D but received a {x.aval.ndim}d-array.")
    _square(x, f"Input array is expected to be square but has the shape: {x.aval.shape}.")

    def error() -> str:
        return f"{_first_minor(x)}-th leading minor of the array is not positive definite"

    return x, cholesky_of(x, error) if lower else adjoint(cholesky_of(adjoint(x), error))


def _first_minor(x: Atom) -> int:
    """The order of the first leading minor that is not positive definite."""
    one = np.asarray(require_recorder("linear algebra").value(x)).reshape(-1, *x.aval.shape[-2:])
    potrf = lapack.zpotrf if x.aval.is_complex else lapack.dpotrf
    return next(filter(None, [potrf(matrix, lower=1)[1] for matrix in one]), 0)


@hooked("cholesky")
def _cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    return wrap(_root(a, bool(lower), check_finite)[1])


@hooked("cho_factor")
def _cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    x, root = _root(a, bool(lower), check_finite)
    return wrap(F.add(root, ops.triangle(x, not lower, False))), lower


@hooked("cho_solve")
def _cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    c, lower = c_and_lower
    root, y = operands(check_finite, c, b)
    n = _square(root, "The factored matrix c is not square.")
    right, vector = right_sides(y, n, f"incompatible dimensions ({root.aval.shape} and {y.aval.shape})")
    below = bool(np.all(lower))

    def solve(a: Atom, b: Atom) -> Atom:
        if below:
            return _by_cholesky(a, b)
        return ops.solve_triangular(a, solve_adjoint(a, b, False), False)

    return given(_of_one_or_many(solve, root, right), vector)


# ---- P L U ---------------------------------------------------------------------------------------------------------


def _factors(a: Any, check_finite: bool, what: str) -> tuple[Atom, Atom, Atom]:
    """L and U in one matrix, the interchanges and P."""
    (x,) = operands(check_finite, a)
    if x.aval.ndim < 2:
        raise ShapeError.here("The input array must be at least two-dimensional.")
    if x.aval.shape[-1] != x.aval.shape[-2]:
        raise UnsupportedError.here(
            f"scipy.linalg.{what} of a matrix of shape {x.aval.shape} is not supported: only square ones are"
        )

    return lu_parts(x)


@hooked("lu_factor")
def _lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    packed, last, _ = _factors(a, check_finite, "lu_factor")
    return wrap(packed), wrap(cast(reshape(last, (*last.aval.shape[:-2], last.aval.shape[-1])), np.dtype("int32")))


@hooked("lu_solve")
def _lu_solve(lu_and_piv: Any, b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    lu, pivots = lu_and_piv
    x, y = operands(check_finite, lu, b)
    n = _square(x, "The factored matrix lu is not square.")
    right, vector = right_sides(y, n, f"Shapes of lu {x.aval.shape} and b {y.aval.shape} are incompatible")
    last = cast(atom_of(pivots), COMPLEX.get(x.aval.dtype, x.aval.dtype))
    last = reshape(last, (*last.aval.shape[:-1], 1, n))
    x = conjugate(x) if trans == 2 else x
    return given(_of_one_or_many(lambda a, b: solve_by_lu(a, last, b, bool(trans)), x, right), vector)


@hooked("lu")
def _lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> Any:
    (x,) = operands(check_finite, a)
    if x.aval.ndim < 2:
        raise ShapeError.here("The input array must be at least two-dimensional.")
    permutation, lower, upper = _plu(x)
    if permute_l:
        return wrap(permuted(permutation, lower)), wrap(upper)
    if p_indices:
        places = wrap(permutation) @ np.arange(float(x.aval.shape[-2]), dtype=permutation.aval.dtype)
        return wrap(cast(to_atom(places), np.dtype("int32"))), wrap(lower), wrap(upper)
    return wrap(permutation), wrap(lower), wrap(upper)


def _plu(x: Atom) -> tuple[Atom, Atom, Atom]:
    """P, L and U of matrices (..., m, n).  Of a wide one it is that of its first columns; the rows of a tall one are
    taken in LAPACK's order, and the first of them are decomposed."""
    axis, (m, n) = x.aval.ndim - 2, x.aval.shape[-2:]
    if m > n:
        order = wrap(cast(pivots(real_matrix(x, "scipy.linalg.lu of a tall matrix"), "getrf"), INT))
        taken: Any = np.arange(m) == order[..., None]
        rows = to_atom(np.take_along_axis(wrap(x), order[..., None], -2))
        inner, lower, upper = _plu(slice_axis(rows, axis, 0, n))
        _nonzero_diagonal(upper, "scipy.linalg.lu of a tall matrix with dependent columns is not supported")
        below = ops.solve_triangular(upper, slice_axis(rows, axis, n, m - n), False, right=True)
        turned = wrap(cast(to_atom(taken), x.aval.dtype)).swapaxes(-1, -2)
        turned = np.concatenate([turned[..., :n] @ wrap(inner), turned[..., n:]], axis=-1)
        return to_atom(turned), concat([lower, below], axis), upper
    packed, _, permutation = lu_parts(slice_axis(x, axis + 1, 0, m))
    unit = ops.triangle(ops.triangle(F.add(F.mul(packed, like(0, packed)), like(1, packed)), True), False)
    lower, upper = F.add(ops.triangle(packed, True, False), unit), ops.triangle(packed, False)
    if n > m:
        rest = permuted(permutation, slice_axis(x, axis + 1, m, n - m), True)
        upper = concat([upper, ops.solve_triangular(lower, rest, True, unit=True)], axis + 1)
    return permutation, lower, upper
