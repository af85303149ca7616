"""scipy.linalg: decompositions, and the equations of Sylvester and Lyapunov.

These are plain Python, no functions of NumPy's: calls with traced arguments are sent here (``hooks.py``).  Matrices may
be batches, (..., m, n).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from ..ir.aval import FLOAT, FLOAT32, HALF, broadcast_shapes
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom
from ..numpy_api.hooks import hook
from ..numpy_api.linalg import cholesky_of, in_one_batch, matrices, must_hold, squares
from ..numpy_api.linalg_factors import eig_of, eigh_of, svd_of, values_of
from ..numpy_api.registry import atom_of, reject
from ..ops import linalg as ops
from ..ops.complex import blocks_of, conjugate, from_blocks
from ..ops.elementwise import F, broadcast_to, cast, promote
from ..ops.linalg_complex import solve_adjoint
from ..ops.linalg_eig import eig as packed_eig
from ..ops.linalg_eig_complex import complex_eig, complex_eig_of_real
from ..ops.linalg_eigen import hermitian
from ..ops.linalg_functions import sylvester
from ..ops.linalg_phases import scaled
from ..ops.linalg_pivots import pivots
from ..ops.linalg_qr import qr
from ..ops.linalg_riccati import riccati
from ..ops.product import matmul
from ..ops.shape import reshape, slice_axis
from ..record.array import is_traced, to_atom, wrap

HOOKED: dict[str, bool] = {}


def hooked(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Send scipy.linalg's *name* to the decorated function, but for arrays without elements: SciPy knows what becomes
    of those."""
    function = getattr(scipy.linalg, name)

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*args: Any, **kwargs: Any) -> Any:
            given = [x for x in (*args, *kwargs.values()) if is_traced(x)]
            traced = [x for v in given for x in (v if isinstance(v, (tuple, list)) else [v]) if is_traced(x)]
            if any(x.size for x in traced):
                return implementation(*args, **kwargs)
            return function(*map(_nothing, args), **{key: _nothing(x) for key, x in kwargs.items()})

        HOOKED[name] = hook(function, answer)
        return implementation

    return register


def _nothing(x: Any) -> Any:
    """*x* as plain arrays, where it is traced ones without elements."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(_nothing, x))
    return np.empty(x.shape, x.dtype) if is_traced(x) else x


def for_scipy(*values: Any) -> tuple[Atom, ...]:
    """*values* as ``matrices`` has them; bools and half precision are float32 to SciPy."""
    atoms = [atom_of(value) for value in values]
    short = [cast(x, FLOAT32) if x.aval.dtype == bool or x.aval.dtype in HALF else x for x in atoms]
    return matrices(*map(wrap, short))


def matrix(value: Any, finite: bool = False) -> Atom:
    """*value* as matrices of the dtype that is computed in, which have to be *finite*."""
    (x,) = for_scipy(value)
    if x.aval.ndim < 2:
        raise ShapeError.here("expected a 2-D array")
    if finite and x.aval.size:
        must_hold(F.isfinite(x), "array must not contain infs or NaNs")
    return x


def real_matrix(x: Atom, what: str) -> Atom:
    if x.aval.is_complex:
        raise UnsupportedError.here(f"{what} is supported for real matrices")
    return x


def in_double(x: Atom) -> Atom:
    """*x* in double precision, in which SciPy computes some functions of single precision, too."""
    return cast(x, np.dtype(complex) if x.aval.is_complex else FLOAT)


# ---- decompositions ----------------------------------------------------------------------------------------------


@hooked("qr")
def _qr(
    a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    if mode not in ("full", "qr", "r", "economic", "raw"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    reject("scipy.linalg.qr", "use mode='full' or 'economic': Q itself is given, no reflections", mode=mode == "raw")
    x = matrix(a, check_finite)
    places: tuple[Any, ...] = ()
    if pivoting:
        order = wrap(cast(pivots(real_matrix(x, "scipy.linalg.qr with pivoting"), "geqp3"), np.dtype("int32")))
        x, places = to_atom(np.take_along_axis(wrap(x), order[..., None, :], -1)), (order,)
    q, r = map(wrap, qr(x, mode != "economic"))
    return (r, *places) if mode == "r" else (q, r, *places)


@hooked("rq")
def _rq(a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", check_finite: bool = True) -> Any:
    if mode not in ("full", "r", "economic"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic']")
    x = wrap(matrix(a, check_finite))
    turned = to_atom(x[::-1, ::-1].T)
    q, r = (wrap(part)[::-1, ::-1].T for part in qr(turned, mode != "economic"))
    return r if mode == "r" else (r, q)


@hooked("svd")
def _svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    x = matrix(a, check_finite)
    return tuple(map(wrap, svd_of(x, full_matrices))) if compute_uv else wrap(values_of(x))


@hooked("svdvals")
def _svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    return wrap(values_of(matrix(a, check_finite)))


@hooked("polar")
def _polar(a: Any, side: str = "right") -> Any:
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    u, s, vh = svd_of(matrix(a))
    basis = ops.adjoint(vh) if side == "right" else u
    positive = ops.times(scaled(basis, s), basis, False, True)
    return wrap(matmul(u, vh)), wrap(positive)


@hooked("eigvals")
def _eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Any:
    reject("scipy.linalg.eigvals", "bring it to a standard problem", b=b, homogeneous_eigvals=homogeneous_eigvals)
    x = matrix(a, check_finite)
    squares(x)
    return wrap((complex_eig(x) if x.aval.is_complex else complex_eig_of_real(packed_eig(x)))[0])


@hooked("eig")
def _eig(
    a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> Any:  # fmt: skip
    reject(
        "scipy.linalg.eig", "bring it to a standard problem", b=b, left=left, homogeneous_eigvals=homogeneous_eigvals
    )
    values = _eigvals(a, None, check_finite=check_finite)
    return (values, wrap(eig_of(matrix(a))[1])) if right else values


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
    x = matrix(a, check_finite)
    n = squares(x)
    if b is None:
        values, vectors = eigh_of(x, lower, "syevd" if driver == "evd" else "syevr")
    else:
        values, vectors = _generalised(x, matrix(b, check_finite), lower)
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
    x, b = promote(hermitian(x, lower), hermitian(b, lower))
    factor = cholesky_of(b, "The leading minor of B is not positive definite")
    inner = ops.solve_triangular(conjugate(factor), ops.solve_triangular(factor, x, True), True, True, right=True)
    values, vectors = eigh_of(inner, lower)
    return values, solve_adjoint(factor, vectors, True)


@hooked("eigvalsh")
def _eigvalsh(a: Any, b: Any = None, **options: Any) -> Any:
    return _eigh(a, b, **{**options, "eigvals_only": True})


# ---- equations ---------------------------------------------------------------------------------------------------


def _sylvester(a: Atom, b: Atom, q: Atom) -> Atom:
    n, m = squares(a), squares(b)
    if q.aval.shape[-2:] != (n, m):
        raise ShapeError.here(
            f"scipy.linalg.solve_sylvester: q of shape {q.aval.shape} does not fit: it has to be {n, m}"
        )
    a, b, q = matrices(*map(wrap, (a, b, q)))
    batch = broadcast_shapes(*[x.aval.shape[:-2] for x in (a, b, q)], what="batch dimensions")
    wide = [broadcast_to(x, (*batch, *x.aval.shape[-2:])) for x in (a, b, q)]
    return from_blocks(sylvester(*map(blocks_of, wide)), q.aval.dtype) if q.aval.is_complex else sylvester(*wide)


@hooked("solve_sylvester")
def _solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    return wrap(_sylvester(*[matrix(x) for x in (a, b, q)]))


def _lyapunov_operands(a: Any, q: Any) -> tuple[Atom, Atom]:
    x, y = (matrix(v, True) for v in (a, q))
    for name, v in (("a", x), ("q", y)):
        if v.aval.shape[-1] != v.aval.shape[-2]:
            raise ShapeError.here(f"Matrix {name} should be square.")
    if x.aval.shape[-1] != y.aval.shape[-1]:
        raise ShapeError.here("Matrix a and q should have the same shape.")
    x, y = matrices(wrap(x), wrap(y))
    return in_one_batch(x, y, "scipy.linalg.solve_lyapunov")


@hooked("solve_continuous_lyapunov")
def _solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    x, y = _lyapunov_operands(a, q)
    return wrap(_sylvester(x, conjugate(ops.transposed(x)), y))


HOOKED["solve_lyapunov"] = hook(scipy.linalg.solve_lyapunov, _solve_continuous_lyapunov)


@hooked("solve_discrete_lyapunov")
def _solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Any:
    x, y = map(in_double, _lyapunov_operands(a, q))
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


# ---- Riccati's equations -------------------------------------------------------------------------------------------


def _riccati(discrete: bool) -> Any:
    name = "solve_discrete_are" if discrete else "solve_continuous_are"

    def solve(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
        reject(f"scipy.linalg.{name}", "bring it to the form without", e=e, s=s)
        operands = [real_matrix(matrix(v, True), f"scipy.linalg.{name}") for v in (a, b, q, r)]
        (n, k), sizes = operands[1].aval.shape[-2:], [x.aval.shape[-2:] for x in operands]
        if sizes != [(n, n), (n, k), (n, n), (k, k)]:
            raise ShapeError.here(f"scipy.linalg.{name}: matrices of the shapes {sizes} do not fit together")
        for label, x in (("q", operands[2]), ("r", operands[3])):
            still = wrap(F.stop_gradient(x))
            near = np.abs(still - np.matrix_transpose(still)) <= 1e-13 * np.max(np.abs(still), initial=0.0)
            must_hold(to_atom(near), f"Matrix {label} should be symmetric/hermitian.")
        batch = broadcast_shapes(*[x.aval.shape[:-2] for x in operands], what="batch dimensions")
        wide = [broadcast_to(x, (*batch, *x.aval.shape[-2:])) for x in promote(*operands)]
        found = riccati(wide[0], wide[1], wide[2], wide[3], discrete)
        must_hold(F.eq(found, found), "Failed to find a finite solution.")
        return wrap(found)

    return hooked(name)(solve)


_riccati(False)
_riccati(True)
