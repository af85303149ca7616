"""Cholesky's factors L L.T = A of symmetric matrices, whose lower triangles are read.

The gradient of large ones is taken block by block, in a sixth of the multiplications (I. Murray, Differentiation of the
Cholesky decomposition, 2016): ``cholesky_pullback``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, Primitive, register
from .complex import real_part
from .elementwise import F, like
from .linalg import (
    diagonal,
    lapack,
    matrix_axes,
    order,
    per_matrix,
    routine,
    solve_triangular,
    symmetric_part,
    transposed,
    triangle,
)
from .product import matmul

_ANY = ((-3.0, 3.0),)
_BY_BLOCKS = 64  # rows of a matrix from which on its gradient is taken block by block


def _infer_cholesky(a: Aval) -> Aval:
    order(a, "cholesky")
    return Aval(a.dtype, a.shape)


def _cholesky(a: np.ndarray) -> Any:
    found, info = routine(lapack, "potrf", a.dtype)(a, lower=1, clean=1)
    if info:
        found[...], found[0, 0] = np.nan, -np.inf
    return found


_each = per_matrix(_cholesky, _infer_cholesky)


def _all(a: Any) -> Any:
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return _each(a)


def half_symmetric(x: Atom) -> Atom:
    """The symmetric matrices whose lower triangles are those of *x*, but for a factor of one half."""
    lower = triangle(x, True)
    return F.mul(like(0.5, x), F.add(triangle(x, True, False), transposed(lower)))


def _cholesky_vjp(ct: Atom, out: Var, a: Atom) -> tuple[Atom]:
    if out.shape[-1] > _BY_BLOCKS:
        return (cholesky_pullback(out, ct),)
    return (_between(out, half_symmetric(matmul(out, ct, True, False))),)


def _between(root: Atom, x: Atom) -> Var:
    """inv(L.T) x inv(L)"""
    return solve_triangular(root, solve_triangular(root, x, True, True), True, right=True)


def _around(root: Atom, x: Atom) -> Var:
    """inv(L) x inv(L.T)"""
    return solve_triangular(root, solve_triangular(root, x, True), True, True, right=True)


def _lower_half(x: Atom) -> Atom:
    """The lower triangles of *x*, and half of the diagonals."""
    return F.mul(like(0.5, x), F.add(triangle(x, True), triangle(x, True, False)))


def _cholesky_jvp(tangents: Any, out: Var, a: Atom) -> Var:
    return matmul(out, _lower_half(_around(out, symmetric_part(tangents[0]))))


def _positive(a: Atom) -> Atom:
    """Positive definite matrices made of *a*, for tests."""
    unit = triangle(triangle(F.add(F.mul(a, like(0, a)), like(1, a)), True), False)
    return F.add(matmul(a, a, False, True), unit)


CHOLESKY: Primitive = register(
    Primitive(
        "cholesky", LAPACK, _all, _infer_cholesky, vjp=_cholesky_vjp,
        jvp=_cholesky_jvp, axes=matrix_axes("ij", "ij"), domain=_ANY,
        test={"shapes": ((2, 3, 3),), "of": {0: _positive}},
    )
)  # fmt: skip


def cholesky(a: Atom) -> Var:
    """The lower factors of the symmetric matrices whose lower triangles are those of *a*; where one is not positive
    definite NaN, and -inf in front.  Cotangents and tangents of *a* are symmetric."""
    return bind(CHOLESKY, a)


def is_positive(factors: Atom) -> Atom:
    """Whether the matrices with these Cholesky factors were positive definite (or had NaN in them)."""
    found = diagonal(F.stop_gradient(real_part(factors)))
    return F.ne(found, like(-np.inf, found))


# ---- the gradient, block by block --------------------------------------------------------------------------------


def _infer_pullback(root: Aval, ct: Aval) -> Aval:
    if order(root, "cholesky_pullback") != order(ct, "cholesky_pullback") or root.dtype != ct.dtype:
        raise GraphError(f"the gradient of Cholesky's factor {root} by {ct}")
    return Aval(root.dtype, root.shape)


def _pullback(root: np.ndarray, ct: np.ndarray) -> Any:
    trtrs = routine(lapack, "trtrs", root.dtype)
    product = np.tril(root).T @ np.tril(ct)
    inner = 0.5 * (np.tril(product, -1) + np.tril(product).T)
    half = trtrs(root, inner, lower=1, trans=1)[0]
    return trtrs(root, half.T, lower=1, trans=1)[0]


def _pullback_vjp(ct: Atom, out: Var, root: Atom, given: Atom) -> tuple[Atom, Atom]:
    ct = symmetric_part(ct)
    inner = _lower_half(_around(root, ct))
    through = F.mul(like(2, out), solve_triangular(root, matmul(out, ct), True, True, right=True))
    of_root = F.sub(matmul(triangle(given, True), inner, False, True), through)
    return triangle(of_root, True), triangle(matmul(root, inner), True)


def _pullback_jvp(tangents: Any, out: Var, root: Atom, given: Atom) -> Var:
    of_root, of_given = tangents
    total: Atom | None = None
    if of_root is not None:
        of_root = triangle(of_root, True)
        turned = matmul(of_root, matmul(out, root), True, False)
        moved = half_symmetric(matmul(of_root, given, True, False))
        total = F.sub(moved, F.add(turned, transposed(turned)))
    if of_given is not None:
        moved = half_symmetric(matmul(root, of_given, True, False))
        total = moved if total is None else F.add(total, moved)
    assert total is not None
    return _between(root, total)


CHOLESKY_PULLBACK: Primitive = register(
    Primitive(
        "cholesky_pullback", LAPACK, per_matrix(_pullback, _infer_pullback), _infer_pullback, vjp=_pullback_vjp,
        jvp=_pullback_jvp, axes=matrix_axes("ij", "ij", "ij"), masking=True, domain=_ANY * 2,
        test={"shapes": ((2, 3, 3), (2, 3, 3)), "of": {0: lambda a: cholesky(_positive(a))}},
    )
)  # fmt: skip


def cholesky_pullback(root: Atom, ct: Atom) -> Var:
    """The symmetric cotangents of A for those of its factors *root*, of which the lower triangles are read."""
    return bind(CHOLESKY_PULLBACK, root, ct)
