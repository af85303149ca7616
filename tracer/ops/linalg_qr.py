"""The QR decomposition A = Q R.

``qr`` packs the factors of a matrix (m, n) into one row: the columns of Q, then the rows of R.  Q is (m, k) and R is
(k, n) with k = min(m, n), or (m, m) and (m, n) if *whole*.  Cotangents and tangents of that value are those of Q and R.
Complex matrices have a row of their own, by the same rules (``linalg_numbers.py``); LAPACK's R has a real diagonal.

S. F. Walter, L. Lehmann: Algorithmic differentiation of linear algebra functions (2010), for m >= n; of a wide
A = (X Y), R = (U Q'Y) with X = Q U.  What Q has besides k columns is any basis: it turns with the others.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.graph import Atom, Pair, Var, bind, lanes
from ..ir.primitive import LAPACK, Primitive, register
from .complex import conjugate
from .elementwise import F, like, whole_lanes
from .linalg import lapack, matrix_axes, per_matrix, routine, solve_triangular, times, transposed, triangle
from .linalg_eigen import hermitian, lapack_with_work
from .linalg_numbers import REAL, Field, by_numbers, numbers_of
from .linalg_svd import columns, narrowed, widened
from .shape import concat, full, slice_axis


def _shapes(m: int, n: int, whole: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """The shapes of Q transposed, and of R."""
    k = m if whole else min(m, n)
    return (k, m), (k, n)


def _infer(numbers: Field, a: Aval, whole: bool) -> Aval:
    size = sum(map(math.prod, _shapes(*numbers.shape(a, "qr"), whole)))
    return Aval(a.dtype, (*a.shape[:-2], size * numbers.parts))


def _qr(numbers: Field, a: np.ndarray, whole: bool) -> Any:
    z = numbers.array(a)
    m, k = z.shape[0], min(z.shape)
    factors, tau, *_ = lapack_with_work("geqrf", z)
    q = np.zeros((m, m if whole else k), z.dtype, order="F")
    q[:, :k] = factors[:, :k]
    finish = routine(lapack, "orgqr" if numbers is REAL else "ungqr", z.dtype)
    size = finish(q, tau, lwork=-1)[1]
    q = finish(q, tau, lwork=int(size[0].real))[0]
    return np.concatenate([numbers.raw(x).ravel() for x in (q.T, np.triu(factors)[: q.shape[1]])])


def _rows(x: Atom, start: int, count: int) -> Atom:
    return slice_axis(x, x.aval.ndim - 2, start, count)


def _turned(x: Atom) -> Atom:
    """The matrices X = -X' with the lower triangles of *x*, but for real parts of the diagonal."""
    if x.aval.is_complex:
        re, im = whole_lanes(x)
        re, im = lanes(hermitian(Pair(im, F.neg(re), x.aval.dtype), True))
        return Pair(F.neg(im), re, x.aval.dtype)
    lower = triangle(x, True, False)
    return F.sub(lower, transposed(lower))


def _parts(numbers: Field, x: Atom, m: int, n: int, whole: bool) -> tuple[Atom, Atom]:
    """Q and R, or what stands in their places."""
    qt, r = numbers.cut(x, *_shapes(m, n, whole))
    return transposed(qt), r


def _vjp(numbers: Field, ct: Atom, out: Var, a: Atom, whole: bool) -> tuple[Atom]:
    a = numbers.load(a)
    m, n = a.aval.shape[-2:]
    k = min(m, n)
    (all_q, r), (of_q, of_r) = (_parts(numbers, x, m, n, whole) for x in (out, ct))
    q, r, of_r = columns(all_q, 0, k), _rows(r, 0, k), triangle(_rows(of_r, 0, k), False)
    of_q = narrowed(all_q, of_q, k)
    if n > k:
        beyond = columns(of_r, k, n - k)
        of_q = F.add(of_q, times(columns(a, k, n - k), beyond, False, True))
        r, of_r = columns(r, 0, k), columns(of_r, 0, k)
    inner = hermitian(F.sub(times(r, of_r, False, True), times(of_q, q, True)), True)
    found: Atom = solve_triangular(conjugate(r), F.add(of_q, times(q, inner)), False, True, right=True)
    return (numbers.store(concat([found, times(q, beyond)], a.aval.ndim - 1) if n > k else found),)


def _jvp(numbers: Field, tangents: Any, out: Var, a: Atom, whole: bool) -> Atom:
    a, moved = numbers.load(a), numbers.load(tangents[0])
    m, n = a.aval.shape[-2:]
    k = min(m, n)
    all_q, r = _parts(numbers, out, m, n, whole)
    q, upper = columns(all_q, 0, k), columns(_rows(r, 0, k), 0, k)
    step = solve_triangular(upper, columns(moved, 0, k), False, right=True)
    inner = times(q, step, True)
    turned = _turned(inner)
    d_q = F.add(F.sub(step, times(q, inner)), times(q, turned))
    d_r: Atom = times(F.sub(inner, turned), upper)
    if n > k:
        share = times(d_q, columns(a, k, n - k), True)
        d_r = concat([d_r, F.add(share, times(q, columns(moved, k, n - k), True))], a.aval.ndim - 1)
    d_r = triangle(d_r, False)
    if r.aval.shape[-2] > k:
        shape = (*r.aval.shape[:-2], r.aval.shape[-2] - k, n)
        d_r = concat([d_r, full(like(0, r), shape)], a.aval.ndim - 2)
    return numbers.joined(transposed(widened(all_q, d_q, k)), d_r)


QR = by_numbers(
    lambda numbers: register(
        Primitive(
            f"{numbers.prefix}qr", LAPACK, per_matrix(partial(_qr, numbers), partial(_infer, numbers)),
            partial(_infer, numbers), vjp=partial(_vjp, numbers), jvp=partial(_jvp, numbers),
            axes=matrix_axes("ij", "p"), domain=((-3.0, 3.0),),
            test={"shapes": ((2, 4, 3 * numbers.parts),), "params": {"whole": False}},
        )
    )
)  # fmt: skip


def qr(a: Atom, whole: bool = False) -> tuple[Atom, Atom]:
    """Q and R of the matrices *a*."""
    numbers, (m, n) = numbers_of(a), a.aval.shape[-2:]
    return _parts(numbers, bind(QR[a.aval.is_complex], numbers.store(a), whole=whole), m, n, whole)
