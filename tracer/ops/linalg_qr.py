"""The QR decomposition A = Q R.

``qr`` packs the factors of a matrix (m, n) into one row: the columns of Q, then the rows of R.  Q is (m, k) and R is
(k, n) with k = min(m, n), or (m, m) and (m, n) if *whole*.  Cotangents and tangents of that value are those of Q and R.

S. F. Walter, L. Lehmann: Algorithmic differentiation of linear algebra functions (2010), for m >= n; of a wide
A = (X Y), R = (U Q'Y) with X = Q U.  What Q has besides k columns is any basis: it turns with the others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import lapack

from ..ir.aval import Aval
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, Primitive, register
from .elementwise import F, like
from .linalg import matrix_axes, per_matrix, routine, solve_triangular, transposed, triangle
from .linalg_eigen import lapack_with_work
from .linalg_svd import cut, joined, narrowed, widened
from .product import matmul
from .shape import concat, full, slice_axis


def _shapes(a: Aval, whole: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """The shapes of Q transposed, and of R."""
    if a.ndim < 2:
        raise GraphError(f"qr of {a}")
    m, n = a.shape[-2:]
    k = m if whole else min(m, n)
    return (k, m), (k, n)


def _infer(a: Aval, whole: bool) -> Aval:
    return Aval(a.dtype, (*a.shape[:-2], sum(math.prod(s) for s in _shapes(a, whole))))


def _qr(a: np.ndarray, whole: bool) -> Any:
    m, k = a.shape[0], min(a.shape)
    factors, tau, *_ = lapack_with_work("geqrf", a)
    q = np.zeros((m, m if whole else k), a.dtype, order="F")
    q[:, :k] = factors[:, :k]
    size = routine(lapack, "orgqr", a.dtype)(q, tau, lwork=-1)[1]
    q = routine(lapack, "orgqr", a.dtype)(q, tau, lwork=int(size[0]))[0]
    return np.concatenate([q.T.ravel(), np.triu(factors)[: q.shape[1]].ravel()])


def _columns(x: Atom, start: int, count: int) -> Atom:
    return slice_axis(x, x.aval.ndim - 1, start, count)


def _rows(x: Atom, start: int, count: int) -> Atom:
    return slice_axis(x, x.aval.ndim - 2, start, count)


def _reflected(x: Atom) -> Atom:
    """The symmetric matrices with the lower triangles of *x*."""
    return F.add(triangle(x, True), transposed(triangle(x, True, False)))


def _turned(x: Atom) -> Atom:
    """The antisymmetric matrices with the strict lower triangles of *x*."""
    lower = triangle(x, True, False)
    return F.sub(lower, transposed(lower))


def _vjp(ct: Atom, out: Var, a: Atom, whole: bool) -> tuple[Atom]:
    shapes = _shapes(a.aval, whole)
    (qt, r), (of_qt, of_r) = cut(out, *shapes), cut(ct, *shapes)
    all_q = transposed(qt)
    m, n = a.aval.shape[-2:]
    k = min(m, n)
    q, r, of_r = _columns(all_q, 0, k), _rows(r, 0, k), triangle(_rows(of_r, 0, k), False)
    of_q = narrowed(all_q, transposed(of_qt), k)
    if n > k:
        beyond = _columns(of_r, k, n - k)
        of_q = F.add(of_q, matmul(_columns(a, k, n - k), beyond, False, True))
        r, of_r = _columns(r, 0, k), _columns(of_r, 0, k)
    inner = _reflected(F.sub(matmul(r, of_r, False, True), matmul(of_q, q, True, False)))
    found: Atom = solve_triangular(r, F.add(of_q, matmul(q, inner)), False, True, right=True)
    return (concat([found, matmul(q, beyond)], a.aval.ndim - 1) if n > k else found,)


def _jvp(tangents: Any, out: Var, a: Atom, whole: bool) -> Atom:
    (moved,) = tangents
    qt, r = cut(out, *_shapes(a.aval, whole))
    all_q = transposed(qt)
    m, n = a.aval.shape[-2:]
    k = min(m, n)
    q, upper = _columns(all_q, 0, k), _columns(_rows(r, 0, k), 0, k)
    step = solve_triangular(upper, _columns(moved, 0, k), False, right=True)
    inner = matmul(q, step, True, False)
    turned = _turned(inner)
    d_q = F.add(F.sub(step, matmul(q, inner)), matmul(q, turned))
    d_r: Atom = matmul(F.sub(inner, turned), upper)
    if n > k:
        share = matmul(d_q, _columns(a, k, n - k), True, False)
        d_r = concat([d_r, F.add(share, matmul(q, _columns(moved, k, n - k), True, False))], a.aval.ndim - 1)
    d_r = triangle(d_r, False)
    if r.aval.shape[-2] > k:
        shape = (*r.aval.shape[:-2], r.aval.shape[-2] - k, n)
        d_r = concat([d_r, full(like(0, r), shape)], a.aval.ndim - 2)
    return joined(transposed(widened(all_q, d_q, k)), d_r)


QR = register(
    Primitive(
        "qr", LAPACK, per_matrix(_qr, _infer), _infer, vjp=_vjp, jvp=_jvp, axes=matrix_axes("ij", "p"),
        domain=((-3.0, 3.0),), test={"shapes": ((2, 4, 3),), "params": {"whole": False}},
    )
)  # fmt: skip


def qr(a: Atom, whole: bool = False) -> tuple[Atom, Atom]:
    """Q and R of the matrices *a*."""
    qt, r = cut(bind(QR, a, whole=whole), *_shapes(a.aval, whole))
    return transposed(qt), r
