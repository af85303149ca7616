"""Functions of matrices that SciPy computes from Schur forms: Sylvester's equation, square root, logarithm.

Their derivatives are the same functions of other matrices: of the adjoint equation, or of the block matrix
[[A, E], [0, A]], whose upper right block has the derivative of A in direction E.  A. H. Al-Mohy, N. J. Higham, S. D.
Relton: Computing the Frechet derivative of the matrix logarithm and estimating the condition number (2013).
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.late_modules import LateModule
from ..ir.primitive import HOST, LAPACK, Primitive, register
from .elementwise import F, like
from .linalg import matrix_axes, order, over_matrices, per_matrix, transposed
from .linalg_gaps import diagonal_mask
from .product import matmul
from .reduce import reduce
from .shape import concat, full, slice_axis

scipy_linalg: Any = LateModule("scipy.linalg")

# ---- A X + X B = Q ---------------------------------------------------------------------------------------------------


def _infer_sylvester(a: Aval, b: Aval, q: Aval) -> Aval:
    if q.shape != (*a.shape[:-2], order(a, "sylvester"), order(b, "sylvester")) or a.shape[:-2] != b.shape[:-2]:
        raise GraphError(f"sylvester of {a}, {b}, {q}")
    return q


def _sylvester(a: np.ndarray, b: np.ndarray, q: np.ndarray) -> Any:
    return scipy_linalg.solve_sylvester(a, b, q)


def _sylvester_vjp(ct: Atom, out: Var, a: Atom, b: Atom, q: Atom) -> tuple[Atom, Atom, Atom]:
    of_q = sylvester(transposed(a), transposed(b), ct)
    return F.neg(matmul(of_q, out, False, True)), F.neg(matmul(out, of_q, True, False)), of_q


def _sylvester_jvp(tangents: Any, out: Var, a: Atom, b: Atom, q: Atom) -> Atom:
    of_a, of_b, of_q = tangents
    moved = of_q
    for share in (
        None if of_a is None else F.neg(matmul(of_a, out)),
        None if of_b is None else F.neg(matmul(out, of_b)),
    ):
        moved = share if moved is None else moved if share is None else F.add(moved, share)
    return sylvester(a, b, moved)


SYLVESTER = register(
    Primitive(
        "sylvester", LAPACK, per_matrix(_sylvester, _infer_sylvester), _infer_sylvester, vjp=_sylvester_vjp,
        jvp=_sylvester_jvp, axes=matrix_axes("ij", "pl", "ip", "ip"), domain=((-3.0, 3.0),) * 3,
        test={
            "shapes": ((2, 3, 3), (2, 2, 2), (2, 3, 2)),
            "of": {0: lambda x: _apart(x, 4), 1: lambda x: _apart(x, 4)},
        },
    )
)  # fmt: skip


def sylvester(a: Atom, b: Atom, q: Atom) -> Var:
    """X with A X + X B = Q."""
    return bind(SYLVESTER, a, b, q)


def _apart(x: Atom, size: float) -> Atom:
    """A matrix whose eigenvalues are positive, made of any."""
    small = F.mul(like(0.2, x), x)
    return F.select(diagonal_mask(x.aval.shape), F.add(small, like(size, x)), small)


# ---- square root, logarithm ------------------------------------------------------------------------------------------


def _infer_square(a: Aval) -> Aval:
    order(a, "function of a matrix")
    return a


def _sqrtm(a: np.ndarray) -> Any:
    """The root of a matrix; NaN where it is not real."""
    with warnings.catch_warnings():  # of singular matrices
        warnings.simplefilter("ignore")
        found = np.asarray(scipy_linalg.sqrtm(a.astype(np.float64)))
    return np.full(a.shape, np.nan) if np.iscomplexobj(found) and found.imag.any() else found.real


def _sqrtm_vjp(ct: Atom, out: Var, a: Atom) -> tuple[Atom]:
    root = transposed(out)
    return (sylvester(root, root, ct),)


SQRTM = register(
    Primitive(
        "sqrtm", HOST, per_matrix(_sqrtm, _infer_square), _infer_square, vjp=_sqrtm_vjp,
        jvp=lambda tangents, out, a: sylvester(out, out, tangents[0]), axes=matrix_axes("ij", "ij"),
        domain=((-3.0, 3.0),), test={"shapes": ((2, 3, 3),), "of": {0: lambda x: _apart(x, 4)}},
    )
)  # fmt: skip


def sqrtm(a: Atom) -> Var:
    """The principal square roots of the matrices *a*; NaN where they are not real."""
    return bind(SQRTM, a)


_MOST_ROOTS = 100


@functools.cache
def _quadrature() -> list[tuple[float, float]]:
    """Nodes and weights of Gauss's and Legendre's on [-1, 1]."""
    return [*zip(*np.polynomial.legendre.leggauss(8), strict=True)]


def _log(a: np.ndarray) -> Any:
    """By inverse scaling and squaring: roots up to one near 1, of whose logarithm there is a Pade approximant, by its
    partial fractions.  (SciPy's own draws random numbers.)  NaN where it is not real."""
    if not np.isfinite(a).all():
        return np.full(a.shape, np.nan)
    unit = np.eye(len(a))
    root, basis = scipy_linalg.schur(a.astype(np.float64))
    for roots in range(_MOST_ROOTS):
        rest = root - unit
        if np.linalg.norm(rest, 1) < 0.25:
            terms = [w * np.linalg.solve(2 * unit + (1 + x) * rest, rest) for x, w in _quadrature()]
            return 2**roots * (basis @ sum(terms) @ basis.T)
        root = _sqrtm(root)
        if np.isnan(root).any():
            break
    return np.full(a.shape, np.nan)


def _along(a: Atom, direction: Atom) -> Atom:
    """The derivative of the logarithm of *a* in a *direction*, which is scaled to the size of *a*."""
    n, axis = a.aval.shape[-1], a.aval.ndim - 2
    tops = [reduce("max", F.abs(F.stop_gradient(x)), (axis, axis + 1)) for x in (a, direction)]
    flat = F.logical_or(F.eq(tops[1], like(0, tops[1])), F.ne(tops[1], tops[1]))
    ratio = F.div(tops[0], F.select(flat, like(1, tops[1]), tops[1]))
    scale = over_matrices(F.select(flat, like(1, ratio), ratio), a.aval.shape)
    upper = concat([a, F.mul(direction, scale)], axis + 1)
    lower = concat([full(like(0, a), a.aval.shape), a], axis + 1)
    found = logm(concat([upper, lower], axis))
    return F.div(slice_axis(slice_axis(found, axis, 0, n), axis + 1, n, n), scale)


LOGM = register(
    Primitive(
        "logm", HOST, per_matrix(_log, _infer_square), _infer_square,
        vjp=lambda ct, out, a: (_along(transposed(a), ct),), jvp=lambda tangents, out, a: _along(a, tangents[0]),
        axes=matrix_axes("ij", "ij"), domain=((-3.0, 3.0),),
        test={"shapes": ((2, 3, 3),), "of": {0: lambda x: _apart(x, 4)}},
    )
)  # fmt: skip


def logm(a: Atom) -> Var:
    """The principal logarithms of the matrices *a*; NaN where they are not real."""
    return bind(LOGM, a)
