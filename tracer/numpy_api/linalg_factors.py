"""np.linalg: QR, eigenvalues, singular values, and what is made of them.

Gradients at repeated eigenvalues or singular values: ``tracer/ops/linalg_gaps.py``.  As LAPACK chooses them, signs of
vectors are no property of the matrix.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.aval import COMPLEX, FLOAT, INT, Aval
from ..ir.errors import LinAlgError, UnsupportedError
from ..ir.graph import Atom, Lit
from ..ops import linalg as ops
from ..ops import linalg_eig as general
from ..ops.complex import from_blocks, square_of_size
from ..ops.elementwise import F, broadcast_to, cast, like
from ..ops.linalg_eig_complex import complex_eig, complex_eig_of_real
from ..ops.linalg_eigen import eigh
from ..ops.linalg_eigen import hermitian as hermitian_of
from ..ops.linalg_pinv import above, pinv
from ..ops.linalg_qr import qr
from ..ops.linalg_svd import singular_values_of, svd
from ..ops.product import matmul
from ..ops.reduce import reduce
from ..ops.shape import reshape
from ..record.array import FUNCTIONS, to_atom, wrap
from ..record.recorder import require_recorder
from .linalg import matrices, must_hold, squares
from .registry import atom_of, implements

_ONE = np.eye(1)
_EighResult: Any = type(np.linalg.eigh(_ONE))
_EigResult: Any = type(np.linalg.eig(_ONE))
_COMPLEX_EIG = np.linalg.eigvals(_ONE).dtype.kind == "c"  # from NumPy 2.5 on, also where all are real
_SVDResult: Any = type(np.linalg.svd(_ONE))
_QRResult: Any = type(np.linalg.qr(_ONE))


def _one(value: Any) -> Atom:
    return matrices(value)[0]


def _rectangles(value: Any) -> Atom:
    x = _one(value)
    if x.aval.ndim < 2:
        raise LinAlgError.here(f"{x.aval.ndim}-dimensional array given. Array must be at least two-dimensional")
    return x


def _of_nothing(function: Any, x: Aval, *args: Any, **kwargs: Any) -> Any:
    """NumPy's result of *function* for matrices without elements, as atoms."""
    found = function(np.empty(x.shape, x.dtype), *args, **kwargs)
    return tuple([atom_of(part) for part in found]) if isinstance(found, tuple) else atom_of(found)


def _found(x: Atom, error: str) -> None:
    """LAPACK has found *x*: it is not NaN."""
    must_hold(F.eq(x, x), error)


# ---- QR ------------------------------------------------------------------------------------------------------------


@implements(np.linalg.qr)
def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    if mode == "raw":
        raise UnsupportedError.here("np.linalg.qr with mode='raw' is not supported: use mode='reduced'")
    x = _rectangles(a)
    whole = mode == "complete"
    q, r = qr(x, whole) if x.aval.size else _of_nothing(np.linalg.qr, x.aval, "complete" if whole else "reduced")
    return wrap(r) if mode == "r" else _QRResult(wrap(q), wrap(r))


# ---- eigenvalues ---------------------------------------------------------------------------------------------------


def eigh_of(x: Atom, lower: bool = True, driver: str = "syevd") -> tuple[Atom, Atom]:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    squares(x)
    if not x.aval.size:
        return _of_nothing(np.linalg.eigh, x.aval)
    return eigh(x, lower, driver)


def _uplo(name: str) -> bool:
    if name.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return name.upper() == "L"


@implements(np.linalg.eigh)
def _eigh(a: Any, UPLO: str = "L") -> Any:
    lower = _uplo(UPLO)
    return _EighResult(*map(wrap, eigh_of(_one(a), lower)))


@implements(np.linalg.eigvalsh)
def _eigvalsh(a: Any, UPLO: str = "L") -> Any:
    lower = _uplo(UPLO)
    return wrap(eigh_of(_one(a), lower)[0])


def eig_of(x: Atom) -> tuple[Atom, Atom]:
    """Eigenvalues and eigenvectors of matrices: real ones, if all are."""
    squares(x)
    if not x.aval.size:
        return _of_nothing(np.linalg.eig, x.aval)
    must_hold(F.isfinite(x), "Array must not contain infs or NaNs")
    if x.aval.is_complex:
        return complex_eig(x)
    packed = general.eig(x)
    imaginary = general.imaginary_parts(packed)
    real = reduce("all", F.eq(imaginary, like(0, imaginary)), tuple(range(imaginary.aval.ndim)))
    if require_recorder("linear algebra").guard(real, "linalg"):
        return general.real_eigenvalues(packed), general.real_eigenvectors(packed)
    return complex_eig_of_real(packed)


def _eig_in_double(a: Any) -> list[Any]:
    """As NumPy computes them, whatever the precision of *a*: in single precision their order may be another one."""
    x = _one(a)
    lane = COMPLEX.get(x.aval.dtype, x.aval.dtype)
    found = eig_of(cast(x, np.promote_types(x.aval.dtype, FLOAT)))
    of_lane = {v: k for k, v in COMPLEX.items()}
    parts = [wrap(cast(v, of_lane[lane] if v.aval.is_complex else lane)) for v in found]
    return [v.astype(of_lane[lane]) for v in parts] if _COMPLEX_EIG else parts


@implements(np.linalg.eig)
def _eig(a: Any) -> Any:
    return _EigResult(*_eig_in_double(a))


@implements(np.linalg.eigvals)
def _eigvals(a: Any) -> Any:
    return _eig_in_double(a)[0]


# ---- singular values -----------------------------------------------------------------------------------------------

_NO_SVD = "SVD did not converge"


def svd_of(x: Atom, whole: bool = False) -> tuple[Atom, Atom, Atom]:
    """U, s and Vh of matrices."""
    if not x.aval.size:
        return _of_nothing(np.linalg.svd, x.aval, whole)
    u, s, vh = svd(x, whole)
    _found(s, _NO_SVD)
    return u, s, vh


def values_of(x: Atom) -> Atom:
    """The singular values of matrices, descending."""
    if not x.aval.size:
        return _of_nothing(np.linalg.svd, x.aval, compute_uv=False)
    s = singular_values_of(x)
    _found(s, _NO_SVD)
    return s


@implements(np.linalg.svd)
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    x = _rectangles(a)
    if hermitian:
        found = _svd_of_symmetric(x)
        return _SVDResult(*found) if compute_uv else found[1]
    return _SVDResult(*map(wrap, svd_of(x, full_matrices))) if compute_uv else wrap(values_of(x))


def _svd_of_symmetric(x: Atom) -> tuple[Any, Any, Any]:
    values, vectors = (wrap(part) for part in eigh_of(x))
    order: Any = np.argsort(np.abs(values), axis=-1)[..., ::-1]
    take: Any = np.take_along_axis
    u, s = take(vectors, order[..., None, :], -1), take(values, order, -1)
    return u, np.abs(s), np.matrix_transpose(np.conj(u * np.sign(s)[..., None, :]))


if hasattr(np.linalg, "svdvals"):  # since NumPy 2.0
    implements(np.linalg.svdvals)(lambda x, /: wrap(values_of(_rectangles(x))))


# ---- made of singular values ---------------------------------------------------------------------------------------


def _cutoff(value: Any, x: Atom) -> Atom:
    """A relative cutoff, a number for all or each matrix, as one for each."""
    dtype = COMPLEX.get(x.aval.dtype, x.aval.dtype)
    atom = Lit(value, dtype) if isinstance(value, (int, float)) else cast(atom_of(value), dtype)
    return broadcast_to(atom, x.aval.shape[:-2]) if x.aval.ndim > 2 else atom


def _eps(x: Atom) -> float:
    return max(x.aval.shape[-2:]) * float(np.finfo(x.aval.dtype).eps)


@implements(np.linalg.pinv)
def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    if rcond is not None and rtol is not np._NoValue:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    x = _rectangles(a)
    if not x.aval.size:
        return wrap(_of_nothing(np.linalg.pinv, x.aval))
    given = rcond if rcond is not None else 1e-15 if rtol is np._NoValue else rtol
    if hermitian:
        x = hermitian_of(x, True)
    return wrap(pinv_of(x, _cutoff(_eps(x) if given is None else given, x))[0])


def pinv_of(x: Atom, cutoff: Atom) -> tuple[Atom, Atom]:
    """The pseudo-inverses of *x*, and its singular values."""
    return pinv(x, cutoff), values_of(x)


@implements(np.linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    x, y = matrices(a, b)
    return lstsq_of(x, y, _eps(x) if rcond is None else rcond)


def lstsq_of(x: Atom, y: Atom, rcond: Any) -> tuple[Any, Any, Any, Any]:
    """The solutions of least norm, residuals, the rank and the singular values."""
    vector = y.aval.ndim == 1
    y = reshape(y, (y.aval.size, 1)) if vector else y
    for part in (x, y):
        if part.aval.ndim != 2:
            raise LinAlgError.here(f"{part.aval.ndim}-dimensional array given. Array must be two-dimensional")
    if x.aval.shape[0] != y.aval.shape[0]:
        raise LinAlgError.here("Incompatible dimensions")
    if not x.aval.size:
        found = np.linalg.lstsq(np.empty(x.aval.shape, x.aval.dtype), np.zeros(y.aval.shape, y.aval.dtype), rcond)
        left = wrap(reduce("sum", square_of_size(y), (0,))) if x.aval.shape[0] else found[1]
        return found[0][:, 0] if vector else found[0], left, *found[2:]
    cutoff = _cutoff(rcond, x)
    inverse, s = pinv_of(x, cutoff)
    rank = question(reduce("sum", cast(above(F.stop_gradient(s), cutoff), INT), (0,)))
    solution: Atom = matmul(inverse, y)
    m, n = x.aval.shape
    residuals: Any = np.array([], COMPLEX.get(x.aval.dtype, x.aval.dtype))
    if rank == n and m > n:
        residuals = wrap(reduce("sum", square_of_size(F.sub(y, matmul(x, solution))), (0,)))
    solution = reshape(solution, (n,)) if vector else solution
    return wrap(solution), residuals, np.int32(rank), wrap(s)


def question(x: Atom) -> int:
    return int(require_recorder("linear algebra").guard(x, "linalg"))


@implements(np.linalg.matrix_rank)
def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    if to_atom(A).aval.ndim < 2:
        return int(not np.all(A == 0))
    x = _rectangles(A)
    s = wrap(F.stop_gradient(values_of(x)))
    if tol is None:
        share = _eps(x) if rtol is None else np.asarray(rtol)[..., None]
        tol = np.max(s, axis=-1, keepdims=True) * share if x.aval.size else 0
    else:
        tol = np.asarray(tol)[..., None]
    return np.count_nonzero(s > tol, axis=-1)


@implements(np.linalg.cond)
def _cond(x: Any, p: Any = None) -> Any:
    atom = _rectangles(x)
    if not atom.aval.size:
        if not math.prod(atom.aval.shape[-2:]):
            raise LinAlgError.here("cond is not defined on empty arrays")
        return wrap(_of_nothing(np.linalg.cond, atom.aval, p))
    if p is None or p in (2, -2):
        s = values_of(atom)
        first, last = (ops.part(s, k) for k in (0, s.aval.shape[-1] - 1))
        found = F.div(last, first) if p == -2 else F.div(first, last)
    else:
        squares(atom)
        norm = FUNCTIONS[np.linalg.norm]
        inverse: Atom = ops.lu_inverse(ops.lu(atom))
        inverse = from_blocks(inverse, atom.aval.dtype) if atom.aval.is_complex else inverse
        found = F.mul(*[to_atom(norm(wrap(v), p, axis=(-2, -1))) for v in (atom, inverse)])
    given = reduce("all", F.eq(atom, atom), (atom.aval.ndim - 2, atom.aval.ndim - 1))
    lost = F.logical_and(F.ne(found, found), given)
    return wrap(F.select(lost, like(math.inf, found), found))
