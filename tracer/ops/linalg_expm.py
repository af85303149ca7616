"""The exponential of matrices, made of products and one solution: it stays in the kernel.

A Pade approximant of A / 2**s, squared s times.  N. J. Higham: The scaling and squaring method for the matrix
exponential revisited (2005).  The numerator and the denominator are V + U and V - U with U odd and V even in A.
Matrices of one batch share s.
"""

from __future__ import annotations

import math

from ..ir.aval import INT
from ..ir.graph import Atom, Builder, Graph, Var, building
from .control import loop
from .elementwise import F, cast, like
from .linalg import lu, lu_solve
from .linalg_gaps import diagonal_mask
from .product import matmul
from .reduce import reduce

MOST_SQUARINGS = 64  # beyond, the exponential has no finite numbers, but for very special matrices


def _coefficients(degree: int) -> list[float]:
    """Those of the numerator of the diagonal Pade approximant of the exponential, lowest first, the first one 1."""
    f = math.factorial
    return [f(2 * degree - k) * f(degree) / (f(2 * degree) * f(k) * f(degree - k)) for k in range(degree + 1)]


def _sum(terms: list[tuple[float, Atom]], eye: float, where: Atom) -> Atom:
    """The weighted sum of matrices, and *eye* on the diagonal *where*."""
    total: Atom | None = None
    for weight, x in terms:
        term = F.mul(like(weight, x), x)
        total = term if total is None else F.add(total, term)
    assert total is not None
    return F.add(total, F.select(where, like(eye, total), like(0, total))) if eye else total


def expm(a: Atom) -> Atom:
    """The exponentials of the matrices *a*, (..., n, n)."""
    double = a.aval.dtype.itemsize == 8
    limit = 5.371920351148152 if double else 3.925724783138660
    norms = reduce("sum", F.abs(F.stop_gradient(a)), (a.aval.ndim - 2,))
    norm = reduce("max", norms, tuple(range(norms.aval.ndim)))
    steps = F.maximum(F.ceil(F.log2(F.div(norm, like(limit, norm)))), like(0, norm))
    steps = F.select(F.lt(steps, like(MOST_SQUARINGS, steps)), steps, like(MOST_SQUARINGS, steps))
    x = F.mul(a, F.exp2(F.neg(steps)))
    start = _approximant(x, double)
    with building(Builder()) as body:
        inner = Var(start.aval)
        square = matmul(inner, inner)
    return loop(Graph([inner], body.nodes, [square]), [], [start], [], MOST_SQUARINGS, steps=cast(steps, INT))[0]


def _approximant(x: Atom, double: bool) -> Atom:
    where = diagonal_mask(x.aval.shape)
    x2 = matmul(x, x)
    x4 = matmul(x2, x2)
    x6 = matmul(x4, x2)
    c = _coefficients(13 if double else 7)
    odd = _sum([(c[7], x6), (c[5], x4), (c[3], x2)], c[1], where)
    even = _sum([(c[6], x6), (c[4], x4), (c[2], x2)], c[0], where)
    if double:
        odd = F.add(matmul(x6, _sum([(c[13], x6), (c[11], x4), (c[9], x2)], 0, where)), odd)
        even = F.add(matmul(x6, _sum([(c[12], x6), (c[10], x4), (c[8], x2)], 0, where)), even)
    odd = matmul(x, odd)
    return lu_solve(lu(F.sub(even, odd)), F.add(even, odd))
