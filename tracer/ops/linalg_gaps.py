"""Quotients by differences of eigenvalues or singular values, some of which may be equal.

The derivative of eigenvectors is made of terms num[i, j] / (w[j] - w[i]).  Where values are equal, it exists only for
what does not depend on the choice of the vectors there.  *num* is then zero, however they are turned, and the quotient
is the limit for values that part,

    d num[i, j] / (d w[j] - d w[i])    for any d w without equal elements,

where d num comes of the change of the cotangent with the values, while the vectors stay what they are.  It is 0 if the
cotangent does not depend on them (a projector, a polar factor); in ``V * f(w) @ V.T`` it has the derivative of f (the
theorem of Daleckii and Krein).  What does depend on the choice is infinite, and what nobody knows is NaN.  Limits have
no derivative of their own: that is NaN.

So a rule is told ``Rates`` of the cotangent: with values that part and, as tests, with moves that keep them equal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..ir.aval import INT
from ..ir.graph import Atom, Var
from .elementwise import F, cast, like
from .linalg import over_matrices, transposed
from .product import matmul
from .reduce import expand, reduce
from .shape import full, iota


class Parting(NamedTuple):
    """Equal eigenvalues as the derivation of an adjoint sees them: the values, and the vectors that belong to them."""

    values: Var
    vectors: Var
    any: Atom  # whether some are equal: int64, 0-d
    turned: Callable[[], Atom]  # a change of the vectors that turns those of equal values


class Rates(NamedTuple):
    """Changes of a cotangent (or of *num*): with values that part, with values that grow together, with vectors that
    turn, and of the second with the third.  None: nothing changes."""

    parting: Any
    growing: Any
    turning: Any
    both: Any


UNKNOWN = Rates(*["unknown"] * 4)  # of a cotangent that depends on the values in a way that nobody can tell
NO_RATES = Rates(None, None, None, None)


class Limit(NamedTuple):
    """The decision where values are equal: the change of *num* with values that part, and a test that has to be zero,
    as *num* has; None for nothing."""

    rate: Any
    zero: Any


def limit_of(rates: Rates, product: Callable[[Any], Atom], ct: Any, turn: Atom) -> Limit | None:
    """The limit for a *num* that is *product* of a cotangent, such as V' x; None if *rates* are not known.

    What does not depend on the choice of vectors has a *num* that is zero however they turn, and stays so if equal
    values grow.
    """
    if rates is UNKNOWN:
        return None
    known = [product(x) for x in (rates.turning, rates.growing, rates.both) if x is not None]
    moved = product(ct) if rates.growing is None else F.add(product(ct), product(rates.growing))
    zero = functools.reduce(F.add, known, matmul(turn, moved, True, False))
    return Limit(None if rates.parting is None else product(rates.parting), zero)


def parting_values(values: Atom) -> Atom:
    """A direction in which equal *values*, (..., n), part: 1, 2, ..., n."""
    shape = values.aval.shape
    steps = F.add(iota(shape[-1], values.aval.dtype), like(1, values))
    return expand(steps, shape, tuple(range(len(shape) - 1)))


def turning(values: Atom) -> Atom:
    """Antisymmetric matrices without zeros between equal *values*: a way to turn their vectors."""
    shape = (*values.aval.shape, values.aval.shape[-1])
    k = iota(shape[-1], values.aval.dtype)
    angles = F.add(F.mul(along_columns(k, shape[-2:]), like(1.7, k)), F.mul(along_rows(k, shape[-2:]), like(0.6, k)))
    turns = antisymmetric_part(F.sin(angles))
    turns = expand(turns, shape, tuple(range(len(shape) - 2))) if len(shape) > 2 else turns
    return F.select(equal_pairs(values), turns, like(0, turns))


def equal_pairs(values: Atom) -> Atom:
    """The mask of the pairs of different *values* that are equal up to rounding."""
    shape = (*values.aval.shape, values.aval.shape[-1])
    gaps = F.abs(F.sub(along_rows(values, shape), along_columns(values, shape)))
    equal = F.le(gaps, along_rows(rounding(values), shape))
    return F.logical_and(equal, F.logical_not(diagonal_mask(shape)))


def any_of(mask: Atom) -> Atom:
    return cast(reduce("any", mask, tuple(range(mask.aval.ndim))), INT)


def along_rows(v: Atom, shape: tuple[int, ...]) -> Atom:
    """x[..., i, j] = v[..., j]"""
    return expand(v, shape, (len(shape) - 2,))


def along_columns(v: Atom, shape: tuple[int, ...]) -> Atom:
    """x[..., i, j] = v[..., i]"""
    return expand(v, shape, (len(shape) - 1,))


def diagonal_mask(shape: tuple[int, ...]) -> Atom:
    rank = len(shape)
    n, m = shape[-2:]
    found = F.eq(expand(iota(n), (n, m), (1,)), expand(iota(m), (n, m), (0,)))
    return expand(found, shape, tuple(range(rank - 2))) if rank > 2 else found


def diagonal_matrix(v: Atom) -> Atom:
    """Diagonal matrices of the rows of *v*, (..., n)."""
    wide = along_rows(v, (*v.aval.shape, v.aval.shape[-1]))
    return F.select(diagonal_mask(wide.aval.shape), wide, like(0, wide))


def antisymmetric_part(x: Atom) -> Atom:
    return F.mul(like(0.5, x), F.sub(x, transposed(x)))


def size_of(*xs: Any) -> Atom:
    """(...,), the norms of those of *xs* that are matrices, added: a scale of rounding errors, without a derivative."""
    norms = [
        F.sqrt(reduce("sum", F.square(F.stop_gradient(x)), (x.aval.ndim - 2, x.aval.ndim - 1)))
        for x in xs if isinstance(x, Var)
    ]  # fmt: skip
    return functools.reduce(F.add, norms)


def noise_of(x: Atom) -> Atom:
    """The rounding errors of a cotangent *x*, which a program has computed, relative to its size."""
    return like(float(np.finfo(x.aval.dtype).eps) ** 0.75, x)


def plus(x: Any, y: Atom) -> Atom:
    return y if x is None else F.add(x, y)


def rounding(values: Atom) -> Atom:
    """Differences of *values*, (..., n), up to which they are equal, as large as LAPACK's errors; in the same shape."""
    size = reduce("max", F.abs(F.stop_gradient(values)), (values.aval.ndim - 1,))
    eps = float(np.finfo(values.aval.dtype).eps)
    return expand(
        F.mul(size, like(4 * eps * values.aval.shape[-1], values)), values.aval.shape, (values.aval.ndim - 1,)
    )


def antisymmetric_limit(limit: Limit | None) -> Limit | None:
    """*limit* for the antisymmetric part of its *num*."""
    if limit is None:
        return None
    return Limit(*[None if x is None else antisymmetric_part(x) for x in limit])


def quotient(num: Atom, den: Atom, small: Atom, limit: Limit | None, den_rate: Atom, scale: Atom) -> Atom:
    """*num* / *den*; its limit where *den* is *small* (a mask).

    *den_rate* is the change of *den* with values that part, without zeros; *scale*, a number for each matrix, is the
    size of what *num* is a difference of.
    """
    scale = over_matrices(scale, num.aval.shape)
    ordinary = F.div(F.select(small, like(0, num), num), F.select(small, like(1, den), den))
    if limit is None:
        found = F.select(F.eq(scale, like(0, scale)), like(0, num), like(np.nan, num))
    else:
        noise = F.mul(scale, noise_of(num))
        size = F.abs(num) if limit.zero is None else F.maximum(F.abs(num), F.abs(limit.zero))
        found = full(like(0, num), num.aval.shape) if limit.rate is None else F.div(limit.rate, den_rate)
        found = F.select(F.le(size, noise), found, F.mul(F.add(num, noise), like(np.inf, num)))
    still = F.sub(F.add(num, den), F.add(num, den))  # 0, but the root of it has an infinite derivative
    return F.select(small, F.add(found, F.sqrt(still)), ordinary)


def over_gaps(num: Atom, values: Atom, limit: Limit | None, scale: Atom) -> Atom:
    """num[i, j] / (values[j] - values[i]); 0 on the diagonal."""
    shape = num.aval.shape
    diagonal = diagonal_mask(shape)

    def differences(v: Atom) -> Atom:
        return F.select(diagonal, like(1, v), F.sub(along_rows(v, shape), along_columns(v, shape)))

    parts = quotient(num, differences(values), equal_pairs(values), limit, differences(parting_values(values)), scale)
    return F.select(diagonal, like(0, num), parts)


def over_sums(num: Atom, values: Atom, limit: Limit | None, scale: Atom) -> Atom:
    """num[i, j] / (values[i] + values[j]) for values that are not negative."""
    shape = num.aval.shape

    def sums(v: Atom) -> Atom:
        return F.add(along_rows(v, shape), along_columns(v, shape))

    total = sums(values)
    small = F.le(total, along_rows(rounding(values), shape))
    return quotient(num, total, small, limit, sums(parting_values(values)), scale)


def over_columns(num: Atom, values: Atom, limit: Limit | None, scale: Atom) -> Atom:
    """num[i, j] / values[j] for values that are not negative."""
    shape = num.aval.shape
    small = along_rows(F.le(values, rounding(values)), shape)
    return quotient(num, along_rows(values, shape), small, limit, along_rows(parting_values(values), shape), scale)
