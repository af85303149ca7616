"""scipy.linalg: decompositions, functions of matrices, equations of Sylvester and Lyapunov, structured matrices.

These are plain Python, no functions of NumPy's: calls with traced arguments are sent here (``hooks.py``).  Matrices may
be batches, (..., m, n).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from ..ir.aval import COMPLEX, Ints, broadcast_shapes
from ..ir.errors import MatrixError, ShapeError, UnsupportedError
from ..ir.graph import Atom, Lit
from ..ops import linalg as ops
from ..ops.complex import blocks_of, conjugate, from_blocks
from ..ops.elementwise import F, broadcast_to, like, promote
from ..ops.linalg_complex import hermitian, solve_adjoint
from ..ops.linalg_eig import eig as packed_eig
from ..ops.linalg_eig_complex import complex_eigenvalues
from ..ops.linalg_expm import expm
from ..ops.linalg_functions import logm, sqrtm, sylvester
from ..ops.linalg_gaps import along_rows
from ..ops.linalg_qr import qr
from ..ops.product import matmul
from ..ops.reduce import reduce
from ..ops.shape import concat, full, reshape, slice_axis
from ..record.array import FUNCTIONS, wrap
from ..record.recorder import require_recorder
from .hooks import hook
from .linalg import cholesky_of, in_one_batch, matrices, must_hold, squares
from .linalg_factors import eig_of, eigh_of, lstsq_of, pinv_of, svd_of, values_of
from .registry import atom_of, reject

HOOKED: dict[str, bool] = {}


def hooked(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Send scipy.linalg's *name* to the decorated function."""

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        HOOKED[name] = hook(getattr(scipy.linalg, name), implementation)
        return implementation

    return register


def _matrix(value: Any, finite: bool = False, complex_too: bool = False) -> Atom:
    """*value* as matrices of the dtype that is computed in, which have to be *finite*."""
    (x,) = matrices(value, complex_too=complex_too)
    if x.aval.ndim < 2:
        raise ShapeError.here("expected a 2-D array")
    if finite and x.aval.size:
        must_hold(F.isfinite(x), "array must not contain infs or NaNs")
    return x


def _filled(x: Atom, what: str) -> Atom:
    if not x.aval.size:
        raise UnsupportedError.here(f"{what} of a matrix without elements is not supported: leave the call out")
    return x


# ---- decompositions ----------------------------------------------------------------------------------------------


@hooked("qr")
def _qr(
    a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    if mode not in ("full", "qr", "r", "economic", "raw"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    reject("scipy.linalg.qr", "use it without", pivoting=pivoting, mode=mode == "raw")
    q, r = map(wrap, qr(_filled(_matrix(a, check_finite), "scipy.linalg.qr"), mode != "economic"))
    return (r,) if mode == "r" else (q, r)


@hooked("svd")
def _svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    x = _matrix(a, check_finite)
    return tuple(map(wrap, svd_of(x, full_matrices))) if compute_uv else wrap(values_of(x))


@hooked("svdvals")
def _svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    return wrap(values_of(_matrix(a, check_finite, True)))


@hooked("polar")
def _polar(a: Any, side: str = "right") -> Any:
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    u, s, vh = svd_of(_filled(_matrix(a), "scipy.linalg.polar"))
    basis = ops.transposed(vh) if side == "right" else u
    positive = matmul(F.mul(basis, along_rows(s, basis.aval.shape)), basis, False, True)
    return wrap(matmul(u, vh)), wrap(positive)


@hooked("eigvals")
def _eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Any:
    reject("scipy.linalg.eigvals", "bring it to a standard problem", b=b, homogeneous_eigvals=homogeneous_eigvals)
    return wrap(complex_eigenvalues(_packed_eig(a, check_finite)))


@hooked("eig")
def _eig(
    a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> Any:  # fmt: skip
    reject(
        "scipy.linalg.eig", "bring it to a standard problem", b=b, left=left, homogeneous_eigvals=homogeneous_eigvals
    )
    values = _eigvals(a, None, check_finite=check_finite)
    return (values, wrap(eig_of(_matrix(a))[1])) if right else values


def _packed_eig(a: Any, check_finite: bool) -> Atom:
    x = _filled(_matrix(a, check_finite), "scipy.linalg.eigvals")
    squares(x)
    return packed_eig(x)


@hooked("eigh")
def _eigh(
    a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
    overwrite_b: bool = False, type: int = 1, check_finite: bool = True, subset_by_index: Any = None,
    subset_by_value: Any = None, driver: Any = None,
) -> Any:  # fmt: skip
    reject(
        "scipy.linalg.eigh", "choose from all eigenvalues afterwards", subset_by_value=subset_by_value,
        type=type != 1 and b is not None,
    )  # fmt: skip
    x = _matrix(a, check_finite, True)
    n = squares(x)
    if b is None:
        values, vectors = eigh_of(x, lower)
    else:
        values, vectors = _generalised(x, _matrix(b, check_finite, True), lower)
    if subset_by_index is not None:
        first, last = (int(k) for k in subset_by_index)
        if not 0 <= first <= last < n:
            raise ValueError(
                f"Requested eigenvalue indices are not valid. Valid range is [0, {n - 1}] and start <= end, but "
                f"start={first}, end={last} is given"
            )
        values, vectors = (slice_axis(v, v.aval.ndim - 1, first, last - first + 1) for v in (values, vectors))
    return wrap(values) if eigvals_only else (wrap(values), wrap(vectors))


def _generalised(x: Atom, b: Atom, lower: bool) -> tuple[Atom, Atom]:
    """Those of A v = w B v with v' B v = 1, by the Cholesky factor of B."""
    if x.aval.shape != b.aval.shape:
        raise ShapeError.here(f"wrong b dimensions {b.aval.shape}, should be {x.aval.shape}")
    x, b = promote(_symmetric(x, lower), _symmetric(b, lower))
    reject("scipy.linalg.eigh", "give the lower triangles", lower=x.aval.is_complex and not lower)  # phases are others
    factor = cholesky_of(b, "The leading minor of B is not positive definite")
    inner = ops.solve_triangular(conjugate(factor), ops.solve_triangular(factor, x, True), True, True, right=True)
    values, vectors = eigh_of(inner)
    return values, solve_adjoint(factor, vectors, True)


def _symmetric(x: Atom, lower: bool) -> Atom:
    """The symmetric or Hermitian matrices of one triangle."""
    if x.aval.is_complex:
        return hermitian(x, lower)
    return F.add(ops.triangle(x, lower), ops.transposed(ops.triangle(x, lower, False)))


@hooked("eigvalsh")
def _eigvalsh(a: Any, b: Any = None, **options: Any) -> Any:
    return _eigh(a, b, **{**options, "eigvals_only": True})


# ---- made of singular values -------------------------------------------------------------------------------------


@hooked("pinv")
def _pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    reject("scipy.linalg.pinv", "use np.linalg.matrix_rank", return_rank=return_rank)
    x = _filled(_matrix(a, check_finite, True), "scipy.linalg.pinv")
    lane = COMPLEX.get(x.aval.dtype, x.aval.dtype)
    share = max(x.aval.shape[-2:]) * float(np.finfo(x.aval.dtype).eps) if rtol is None else float(rtol)
    cutoff: Atom = Lit(share, lane)
    if atol:
        cutoff = F.add(cutoff, F.div(Lit(float(atol), lane), ops.part(F.stop_gradient(values_of(x)), 0)))
    return wrap(pinv_of(x, cutoff)[0])


@hooked("lstsq")
def _lstsq(
    a: Any, b: Any, cond: Any = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
    lapack_driver: Any = None,
) -> Any:  # fmt: skip
    x, y = matrices(a, b, complex_too=True)
    return lstsq_of(x, y, float(np.finfo(x.aval.dtype).eps) if cond is None else cond)


@hooked("norm")
def _norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    return FUNCTIONS[np.linalg.norm](a, ord, axis, keepdims)


# ---- functions of matrices ---------------------------------------------------------------------------------------


def _square(value: Any, complex_too: bool = False) -> Atom:
    (x,) = matrices(value, complex_too=complex_too)
    if x.aval.ndim < 2:
        raise MatrixError.here("The input array must be at least two-dimensional")
    squares(x)
    return x


@hooked("expm")
def _expm(A: Any) -> Any:
    x = _square(A, complex_too=True)
    if x.aval.shape[-1] <= 1:
        return wrap(F.exp(x))
    return wrap(_by_blocks(expm, x))


def _by_blocks(function: Callable[[Atom], Atom], x: Atom) -> Atom:
    """*function* of real matrices, of complex ones too: it commutes with taking their blocks."""
    return from_blocks(function(blocks_of(x)), x.aval.dtype) if x.aval.is_complex else function(x)


@hooked("expm_frechet")
def _expm_frechet(A: Any, E: Any, method: Any = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    x, direction = promote(_square(A), _square(E))
    if x.aval.shape != direction.aval.shape:
        raise ShapeError.here("expected A and E to be the same shape")
    n, axis = x.aval.shape[-1], x.aval.ndim - 2
    rows = concat([x, direction], axis + 1), concat([full(like(0, x), x.aval.shape), x], axis + 1)
    found = slice_axis(expm(concat(list(rows), axis)), axis, 0, n)
    along = wrap(slice_axis(found, axis + 1, n, n))
    return (wrap(slice_axis(found, axis + 1, 0, n)), along) if compute_expm else along


def _real(name: str, function: Callable[[Atom], Atom]) -> None:
    def apply(A: Any, disp: Any = True, blocksize: Any = None) -> Any:
        reject(f"scipy.linalg.{name}", "call it without", disp=disp is False)
        x = _filled(_square(A, complex_too=True), f"scipy.linalg.{name}")
        found = _by_blocks(function, x)
        real = reduce("all", F.eq(found, found), tuple(range(found.aval.ndim)))
        if not require_recorder("linear algebra").guard(real, "linalg"):
            raise UnsupportedError.here(
                f"scipy.linalg.{name} of a matrix whose result is complex, or not finite, is not supported"
            )
        return wrap(found)

    hooked(name)(apply)


_real("sqrtm", sqrtm)
_real("logm", logm)


# ---- equations ---------------------------------------------------------------------------------------------------


def _sylvester(a: Atom, b: Atom, q: Atom) -> Atom:
    n, m = squares(a), squares(b)
    if q.aval.shape[-2:] != (n, m):
        raise ShapeError.here(
            f"scipy.linalg.solve_sylvester: q of shape {q.aval.shape} does not fit: it has to be {n, m}"
        )
    a, b, q = matrices(*map(wrap, (a, b, q)), complex_too=True)
    batch = broadcast_shapes(*[x.aval.shape[:-2] for x in (a, b, q)], what="batch dimensions")
    wide = [broadcast_to(x, (*batch, *x.aval.shape[-2:])) for x in (a, b, q)]
    return from_blocks(sylvester(*map(blocks_of, wide)), q.aval.dtype) if q.aval.is_complex else sylvester(*wide)


@hooked("solve_sylvester")
def _solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    return wrap(_sylvester(*[_matrix(x, complex_too=True) for x in (a, b, q)]))


def _lyapunov_operands(a: Any, q: Any) -> tuple[Atom, Atom]:
    x, y = _matrix(a, complex_too=True), _matrix(q, complex_too=True)
    for name, v in (("a", x), ("q", y)):
        if v.aval.shape[-1] != v.aval.shape[-2]:
            raise ShapeError.here(f"Matrix {name} should be square.")
    if x.aval.shape[-1] != y.aval.shape[-1]:
        raise ShapeError.here("Matrix a and q should have the same shape.")
    x, y = matrices(wrap(x), wrap(y), complex_too=True)
    return in_one_batch(x, y, "scipy.linalg.solve_lyapunov")


@hooked("solve_continuous_lyapunov")
def _solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    x, y = _lyapunov_operands(a, q)
    return wrap(_sylvester(x, conjugate(ops.transposed(x)), y))


HOOKED["solve_lyapunov"] = hook(scipy.linalg.solve_lyapunov, _solve_continuous_lyapunov)


@hooked("solve_discrete_lyapunov")
def _solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Any:
    x, y = _lyapunov_operands(a, q)
    n = x.aval.shape[-1]
    if (method or ("bilinear" if n >= 10 else "direct")).lower() == "direct":
        pairs = np.einsum("...ij,...kl->...ikjl", wrap(x), wrap(conjugate(x)))
        lhs = np.eye(n * n, dtype=x.aval.dtype) - pairs.reshape(*x.aval.shape[:-2], n * n, n * n)
        flat = wrap(reshape(y, (*y.aval.shape[:-2], n * n, 1)))
        return np.linalg.solve(lhs, flat).reshape(y.aval.shape)
    unit = np.eye(n, dtype=x.aval.dtype)
    left = wrap(conjugate(ops.transposed(x)))
    inverse = np.linalg.inv(left + unit)
    b = (left - unit) @ inverse
    c = 2 * np.linalg.inv(wrap(x) + unit) @ wrap(y) @ inverse
    return _solve_continuous_lyapunov(np.matrix_transpose(np.conj(b)), -c)


# ---- structured matrices -----------------------------------------------------------------------------------------


def _vector(value: Any) -> Atom:
    x = atom_of(value)
    return x if x.aval.ndim else reshape(x, (1,))


def _picked(values: Atom, index: np.ndarray) -> Any:
    return wrap(values)[..., index]


def _first_and_last(c: Any, r: Any, unit: Any) -> tuple[Atom, Atom]:
    column = _vector(c)
    row = unit(column) if r is None else _vector(r)
    column, row = promote(column, row)
    for x in (column, row):
        if x.aval.ndim > 1:
            raise UnsupportedError.here("only columns and rows of one dimension are supported: flatten them")
    return column, row


def toeplitz_of(c: Any, r: Any) -> Any:
    column, row = _first_and_last(c, r, conjugate)
    m, n = column.aval.size, row.aval.size
    values = concat([slice_axis(column, 0, m - 1, m, -1), slice_axis(row, 0, 1, n - 1)], 0)
    return _picked(values, m - 1 + np.arange(n) - np.arange(m)[:, None])


@hooked("toeplitz")
def _toeplitz(c: Any, r: Any = None) -> Any:
    return toeplitz_of(c, r)


@hooked("hankel")
def _hankel(c: Any, r: Any = None) -> Any:
    column, row = _first_and_last(c, r, lambda x: full(like(0, x), x.aval.shape))
    m, n = column.aval.size, row.aval.size
    return _picked(concat([column, slice_axis(row, 0, 1, n - 1)], 0), np.arange(m)[:, None] + np.arange(n))


@hooked("circulant")
def _circulant(c: Any) -> Any:
    column = _vector(c)
    n = column.aval.shape[-1]
    return _picked(column, (np.arange(n)[:, None] - np.arange(n)) % max(n, 1))


@hooked("solve_toeplitz")
def _solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return np.linalg.solve(toeplitz_of(c, r), b)


@hooked("block_diag")
def _block_diag(*arrs: Any) -> Any:
    blocks = [atom_of(x) for x in arrs]
    blocks = [x if x.aval.ndim > 1 else reshape(x, (1, x.aval.size)) for x in promote(*blocks)]
    batch = broadcast_shapes(*[x.aval.shape[:-2] for x in blocks], what="batch dimensions of scipy.linalg.block_diag")
    width, axis, at, rows = sum(x.aval.shape[-1] for x in blocks), len(batch) + 1, 0, []
    for x in blocks:
        m, n = x.aval.shape[-2:]
        shape: Ints = (*batch, m)
        sides = [full(like(0, x), (*shape, k)) for k in (at, width - at - n)]
        rows.append(concat([sides[0], broadcast_to(x, (*shape, n)), sides[1]], axis))
        at += n
    return wrap(concat(rows, axis - 1))
