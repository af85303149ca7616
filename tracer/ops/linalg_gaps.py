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
from typing import Any

import numpy as np

from ..ir.aval import COMPLEX, INT
from ..ir.data_classes import NamedTuple
from ..ir.graph import Atom, Pair, Var, structural
from .complex import by_lane, conjugate, square_of_size
from .elementwise import F, cast, like, whole_lanes
from .linalg import over_matrices, skew_part, times
from .linalg_numbers import REAL, Field
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

    def mapped(self, function: Callable[[Any], Any]) -> Rates:
        """*function* of the changes."""
        return self if self is UNKNOWN else Rates(*[None if x is None else function(x) for x in self])


UNKNOWN = Rates(*["unknown"] * 4)  # of a cotangent that depends on the values in a way that nobody can tell
NO_RATES = Rates(None, None, None, None)


class Limit(NamedTuple):
    """The decision where values are equal: the change of *num* with values that part, and a test that has to be zero,
    as *num* has; None for nothing."""

    rate: Any
    zero: Any


NO_LIMIT = Limit(None, None)


def limit_of(rates: Rates, product: Callable[[Any], Atom], ct: Any, turn: Atom) -> Limit | None:
    """The limit for a *num* that is *product* of a cotangent, such as V' x; None if *rates* are not known.

    What does not depend on the choice of vectors has a *num* that is zero however they turn, and stays so if equal
    values grow.
    """
    if rates is UNKNOWN:
        return None
    known = [product(x) for x in (rates.turning, rates.growing, rates.both) if x is not None]
    moved = product(ct) if rates.growing is None else F.add(product(ct), product(rates.growing))
    zero = functools.reduce(F.add, known, times(turn, moved, True))
    return Limit(None if rates.parting is None else product(rates.parting), zero)


def parting_values(values: Atom) -> Atom:
    """A direction in which equal *values*, (..., n), part: 1, 2, ..., n."""
    shape = values.aval.shape
    steps = F.add(iota(shape[-1], values.aval.dtype), like(1, values))
    return expand(steps, shape, tuple(range(len(shape) - 1)))


def turning(values: Atom, numbers: Field) -> Atom:
    """Matrices X = -X' without zeros between equal *values*: a way to turn their vectors."""
    shape = (*values.aval.shape, values.aval.shape[-1])
    k = iota(shape[-1], COMPLEX.get(values.aval.dtype, values.aval.dtype))
    angles = F.add(F.mul(along_columns(k, shape[-2:]), like(1.7, k)), F.mul(along_rows(k, shape[-2:]), like(0.6, k)))
    turns = skew_part(F.sin(angles))
    turns = expand(turns, shape, tuple(range(len(shape) - 2))) if len(shape) > 2 else turns
    turns = F.select(equal_pairs(values), turns, like(0, turns))
    return turns if numbers is REAL else Pair(turns, F.abs(turns), numbers.dtype(turns))


def equal_pairs(values: Atom) -> Atom:
    """The mask of the pairs of different *values* that are equal up to rounding."""
    shape = (*values.aval.shape, values.aval.shape[-1])
    equal = F.le(F.abs(_differences(values, shape)), along_rows(rounding(values), shape))
    return F.logical_and(equal, F.logical_not(diagonal_mask(shape)))


def _differences(values: Atom, shape: tuple[int, ...]) -> Atom:
    """x[..., i, j] = values[..., j] - values[..., i]"""
    return by_lane(lambda v: F.sub(along_rows(v, shape), along_columns(v, shape)), values)


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


def size_of(*xs: Any) -> Atom:
    """(...,), the norms of those of *xs* that are matrices, added: a scale of rounding errors, without a derivative."""
    norms = [
        F.sqrt(reduce("sum", square_of_size(F.stop_gradient(x)), (x.aval.ndim - 2, x.aval.ndim - 1)))
        for x in xs if isinstance(x, Var)
    ]  # fmt: skip
    return functools.reduce(F.add, norms)


def noise_of(x: Atom) -> Atom:
    """The rounding errors of a cotangent *x*, which a program has computed, relative to its size."""
    return structural(float(np.finfo(x.aval.dtype).eps) ** 0.75, COMPLEX.get(x.aval.dtype, x.aval.dtype))


def plus(x: Any, y: Atom) -> Atom:
    return y if x is None else F.add(x, y)


def rounding(values: Atom) -> Atom:
    """Differences of *values*, (..., n), up to which they are equal, as large as LAPACK's errors; in the same shape."""
    shape, eps = values.aval.shape, float(np.finfo(values.aval.dtype).eps)
    size = reduce("max", F.abs(F.stop_gradient(values)), (len(shape) - 1,))
    return expand(F.mul(size, like(4 * eps * shape[-1], size)), shape, (len(shape) - 1,))


def skew_limit(limit: Limit | None) -> Limit | None:
    """*limit* for the part X = -X' of its *num*."""
    if limit is None:
        return None
    return Limit(*[None if x is None else skew_part(x) for x in limit])


def quotient(num: Atom, den: Atom, small: Atom, limit: Limit | None, den_rate: Atom, scale: Atom) -> Atom:
    """*num* / *den*; its limit where *den* is *small* (a mask).

    *den_rate* is the change of *den* with values that part, without zeros; *scale*, a number for each matrix, is the
    size of what *num* is a difference of.  Lanes of complex numbers are numbers of their own.
    """
    if num.aval.is_complex:
        by_lanes = zip(*[[x] * 2 if x is None else whole_lanes(x) for x in (num, *(limit or NO_LIMIT))], strict=True)
        re, im = (quotient(x, den, small, limit and Limit(*of_x), den_rate, scale) for x, *of_x in by_lanes)
        return Pair(re, im, num.aval.dtype)
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
    diagonal, small = diagonal_mask(shape), equal_pairs(values)
    dens = [_differences(v, shape) for v in (values, by_lane(parting_values, values))]
    if values.aval.is_complex:  # times the conjugate of the difference, over the square of its size
        num = F.select(small, num, F.mul(num, conjugate(dens[0])))
        if limit is not None and limit.rate is not None:
            limit = Limit(F.mul(limit.rate, conjugate(dens[1])), limit.zero)
        dens = list(map(square_of_size, dens))
    den, den_rate = (F.select(diagonal, like(1, x), x) for x in dens)
    return F.select(diagonal, like(0, num), quotient(num, den, small, limit, den_rate, scale))


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
