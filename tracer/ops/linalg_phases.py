"""Phases of complex vectors, as LAPACK gives them.

A decomposition says what vectors are but for their phases.  LAPACK goes by real bidiagonal or tridiagonal matrices,
which leaves one row of the vectors real, or it makes the largest element of each real.  So phases, too, are functions
of the matrix; where such an element is 0, what depends on phases has no derivative.  Real vectors have signs, which do
not change: all of this does nothing for them.
"""

from __future__ import annotations

import numpy as np

from ..ir.aval import INT
from ..ir.graph import Atom, Lit, Pair, lanes
from .complex import by_lane, conjugate, square_of_size
from .elementwise import F, like, whole_lanes
from .linalg_gaps import along_columns, along_rows, noise_of, size_of
from .reduce import expand, reduce
from .shape import iota


def scaled(v: Atom, factors: Atom) -> Atom:
    """The columns of *v*, each times a real factor."""
    return by_lane(lambda x: F.mul(x, along_rows(factors, x.aval.shape)), v)


def inner_of_columns(x: Atom, y: Atom) -> tuple[Atom, Atom | None]:
    """The real and the imaginary part of x' y for each column, (..., n)."""
    found = reduce("sum", F.mul(conjugate(x), y), (x.aval.ndim - 2,))
    return (found, None) if not found.aval.is_complex else tuple(whole_lanes(found))  # type: ignore[return-value]


def real_row(v: Atom, i: int) -> Atom:
    """The mask of row *i* of vectors *v*."""
    shape = v.aval.shape
    rows = expand(iota(shape[-2]), shape[-2:], (1,))
    return expand(F.eq(rows, Lit(i, INT, structural=True)), shape, tuple(range(len(shape) - 2)))


def largest(v: Atom) -> Atom:
    """The mask of the first largest element of each column of *v*."""
    size, shape = square_of_size(F.stop_gradient(v)), v.aval.shape
    rank = len(shape)
    rows = reduce("argmax", size, (rank - 2,))
    places = along_columns(expand(iota(shape[-2]), (*rows.aval.shape[:-1], shape[-2]), tuple(range(rank - 2))), shape)
    return F.eq(places, along_rows(rows, shape))


def _only(mask: Atom, x: Atom) -> Atom:
    return F.select(mask, x, like(0, x))


def _angles(num: Atom, v: Atom, real: Atom, scale: Atom) -> Atom:
    """*num* / v for the elements of *v* that are *real*, but 0 where both vanish: then nothing turns, and rounding
    errors must not grow."""
    below = reduce("sum", _only(real, whole_lanes(v)[0]), (v.aval.ndim - 2,))
    noise, little = noise_of(num), like(float(np.finfo(num.aval.dtype).eps) ** 0.25, num)
    scale = expand(scale, num.aval.shape, (num.aval.ndim - 1,))
    lost = F.logical_and(F.le(F.abs(below), little), F.le(F.abs(num), F.mul(scale, noise)))
    return F.div(F.select(lost, like(0, num), num), F.select(lost, like(1, below), below))


def settled(g: Atom, v: Atom, real: Atom, turned: Atom | None) -> Atom:
    """The cotangent *g* of vectors *v*, whose elements *real* (a mask with one in each column) are so, without what
    turns phases.  *turned*, (..., n), is what turning each vector changes; those elements say how far it turns."""
    if turned is None:
        return g
    re, im = whole_lanes(g)
    share = along_rows(_angles(turned, v, real, size_of(g)), im.aval.shape)
    return Pair(re, F.sub(im, _only(real, share)), g.aval.dtype)


def turns(moved: Atom, v: Atom, real: Atom) -> Atom | None:
    """By how much to turn the *moved* vectors *v*, (..., n), for the elements *real* to stay so."""
    if not v.aval.is_complex:
        return None
    im = reduce("sum", _only(real, whole_lanes(moved)[1]), (v.aval.ndim - 2,))
    return F.neg(_angles(im, v, real, size_of(moved)))


def turned_by(moved: Atom, v: Atom, angles: Atom | None) -> Atom:
    """The tangent *moved* of the vectors *v*, which turn by *angles*, too."""
    if angles is None:
        return moved
    re, im = lanes(scaled(v, angles))
    return F.add(moved, Pair(F.neg(im), re, v.aval.dtype))
