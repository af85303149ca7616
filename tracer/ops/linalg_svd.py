"""The singular value decomposition A = U diag(s) Vh.

``svd`` packs the factors of a matrix (m, n) into one row, as LAPACK writes them: the columns of U, those of Vh, then
s.  U is (m, k) and Vh is (k, n) with k = min(m, n), or (m, m) and (n, n) if *whole*.  That value is opaque, as the
factors of ``lu`` are (``linalg.py``): its cotangents and tangents are those of A, in the first m n places.
``singular_values`` and ``singular_vectors`` read it.  Complex matrices have rows of their own, by the same rules
(``linalg_numbers.py``).

With P = U' dA V, and S = (P + P') / 2 and T = (P - P') / 2,

    ds = diag P,   dU = U (S[i, j] / (s[j] - s[i]) + T[i, j] / (s[j] + s[i])) + (1 - U U') dA V / s,

and of V the same with -T, and with the adjoint of dA.  The usual form has s[j]^2 - s[i]^2 alone; the two parts are
kept apart because the polar factor U Vh needs no differences, and so no distinct singular values.  What U and V have
besides k columns is any basis: it turns with the others.  Of complex vectors LAPACK leaves the first row of V real, or
that of U if m < n (``linalg_phases.py``).  J. Townsend: Differentiating the singular value decomposition (2016).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.axes import PART, Axes, Params, Shape, Shapes
from ..ir.data_classes import NamedTuple
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from .complex import by_lane, conjugate
from .elementwise import F, like
from .linalg import adjoint, hermitian_part, matrix_axes, over_matrices, per_matrix, skew_part, times, transposed
from .linalg_eigen import lapack_with_work
from .linalg_gaps import (
    NO_LIMIT,
    UNKNOWN,
    Limit,
    Parting,
    Rates,
    along_rows,
    any_of,
    equal_pairs,
    limit_of,
    noise_of,
    over_columns,
    over_gaps,
    over_sums,
    rounding,
    size_of,
    skew_limit,
    turning,
)
from .linalg_numbers import Field, by_numbers, numbers_of
from .linalg_phases import inner_of_columns, real_row, scaled, settled, turned_by, turns
from .linalg_unused import used_columns, without_unused
from .reduce import reduce
from .shape import concat, full, slice_axis

_ANY = ((-3.0, 3.0),)


class Sides(NamedTuple):
    """Sizes of a decomposition: A is (m, n)."""

    m: int
    n: int
    whole: bool

    @property
    def k(self) -> int:
        return min(self.m, self.n)

    @property
    def ut(self) -> tuple[int, int]:
        return (self.m if self.whole else self.k, self.m)

    @property
    def v(self) -> tuple[int, int]:
        return (self.n, self.n if self.whole else self.k)

    def vectors(self, numbers: Field) -> int:
        """The length of what is packed before s."""
        return (math.prod(self.ut) + math.prod(self.v)) * numbers.parts

    def size(self, numbers: Field) -> int:
        return self.vectors(numbers) + self.k


def narrowed(basis: Atom, x: Atom, k: int) -> Atom:
    """The cotangent of the first *k* columns of *basis*, from that of all; the others turn with them.

    They are any basis of what is left.  What depends on the choice has no derivative: NaN.
    """
    width, axis = basis.aval.shape[-1], basis.aval.ndim - 1
    if width == k:
        return x
    first, rest = slice_axis(basis, axis, 0, k), slice_axis(basis, axis, k, width - k)
    free = slice_axis(x, axis, k, width - k)
    turned = F.abs(skew_part(times(rest, free, True)))
    noise = F.mul(over_matrices(size_of(free), turned.aval.shape), noise_of(x))
    wrong = reduce("any", F.gt(turned, noise), (axis - 1, axis))
    share = times(rest, times(free, first, True))
    lost = over_matrices(F.select(wrong, like(np.nan, noise), like(0, noise)), share.aval.shape)
    share = by_lane(lambda x: F.add(x, lost), share)
    return F.sub(slice_axis(x, axis, 0, k), share)


def widened(basis: Atom, x: Atom, k: int) -> Atom:
    """The tangent of all columns of *basis*, from that of the first *k*."""
    width, axis = basis.aval.shape[-1], basis.aval.ndim - 1
    if width == k:
        return x
    first, rest = slice_axis(basis, axis, 0, k), slice_axis(basis, axis, k, width - k)
    return concat([x, F.neg(times(first, times(x, rest, True)))], axis)


def _sides(numbers: Field, a: Aval, whole: bool) -> Sides:
    return Sides(*numbers.shape(a, "svd"), whole)


def _infer(numbers: Field, a: Aval, whole: bool, vectors: bool) -> Aval:
    return Aval(a.dtype, (*a.shape[:-2], _sides(numbers, a, whole).size(numbers)))


def _svd(numbers: Field, a: np.ndarray, whole: bool, vectors: bool) -> Any:
    u, s, vh, info = lapack_with_work("gesdd", numbers.array(a), compute_uv=int(vectors), full_matrices=int(whole))
    if vectors:
        found = np.concatenate([numbers.raw(u.T).ravel(), numbers.raw(vh.T).ravel(), s])
    else:
        found = np.full(_infer(numbers, Aval(a.dtype, a.shape), whole, vectors).shape, np.nan)
        found[len(found) - len(s) :] = s
    return np.full_like(found, np.nan) if info else found


def as_packed(x: Atom, sides: Sides) -> Atom:
    """A cotangent or tangent *x* of A as one of its packed factors."""
    numbers = numbers_of(x)
    flat = numbers.joined(x)
    *batch, length = flat.aval.shape
    return concat([flat, full(like(0, flat), (*batch, sides.size(numbers) - length))], len(batch))


def of_matrix(x: Atom, sides: Sides, numbers: Field) -> Atom:
    return numbers.cut(x, (sides.m, sides.n))[0]


SVD = by_numbers(
    lambda numbers: register(
        Primitive(
            f"{numbers.prefix}svd", LAPACK, per_matrix(partial(_svd, numbers), partial(_infer, numbers)),
            partial(_infer, numbers),
            vjp=lambda ct, out, a, whole, **_: (numbers.store(of_matrix(ct, _sides(numbers, a.aval, whole), numbers)),),
            jvp=lambda tangents, out, a, whole, **_: as_packed(
                numbers.load(tangents[0]), _sides(numbers, a.aval, whole)
            ),
            axes=matrix_axes("ij", "p"), domain=_ANY,
            test={
                "shapes": ((2, 4, 3 * numbers.parts),), "params": {"whole": False, "vectors": True},
                "then": lambda out: numbers.store(_product(_parts(out, Sides(4, 3, False), numbers))),
            },
        )
    )
)  # fmt: skip


def _product(parts: tuple[Atom, Atom, Atom]) -> Atom:
    u, s, vh = parts
    return times(scaled(u, F.exp(s)), vh)


def packed_svd(a: Atom, whole: bool = False) -> Var:
    numbers = numbers_of(a)
    return bind(SVD[a.aval.is_complex], numbers.store(a), whole=whole, vectors=True)


def svd(a: Atom, whole: bool = False) -> tuple[Atom, Atom, Atom]:
    """U, s (descending) and Vh of the matrices *a*."""
    m, n = a.aval.shape[-2:]
    return _parts(packed_svd(a, whole), Sides(m, n, whole), numbers_of(a))


def _parts(packed: Atom, sides: Sides, numbers: Field) -> tuple[Atom, Atom, Atom]:
    f = Factors(packed, sides, numbers)
    return f.all_u, f.s, adjoint(f.all_v)


def singular_values_of(a: Atom) -> Atom:
    """The singular values of the matrices *a*, descending: (..., k)."""
    m, n = a.aval.shape[-2:]
    return _values_of(packed_svd(a), Sides(m, n, False), numbers_of(a))


# ---- parts of the packed value -----------------------------------------------------------------------------------


class Factors:
    """The factors of packed matrices, and maps of cotangents that are made of them."""

    def __init__(self, packed: Atom, sides: Sides, numbers: Field):
        self.sides, self.numbers = sides, numbers
        vectors = bind(SINGULAR_VECTORS[numbers.parts - 1], packed, **sides._asdict())
        self.all_u, self.all_v = self.both(vectors)
        self.s = _values_of(packed, sides, numbers)
        self.u, self.v = self.first(self.all_u), self.first(self.all_v)
        self.is_wide = sides.m < sides.n

    def first(self, x: Atom) -> Atom:
        return slice_axis(x, x.aval.ndim - 1, 0, self.sides.k)

    def both(self, x: Atom) -> tuple[Atom, Atom]:
        """U and V, or cotangents of theirs, from the buffer of the vectors."""
        ut, vht = self.numbers.cut(x, self.sides.ut, self.sides.v)
        return transposed(ut), conjugate(vht)

    def joined(self, u: Atom, v: Atom) -> Atom:
        return self.numbers.joined(transposed(u), conjugate(v))

    def narrowed(self, x: Atom) -> tuple[Atom, Atom]:
        """Cotangents of U and V, from that of the vectors; those of more than k columns as ones of the first k."""
        u, v = self.both(x)
        return narrowed(self.all_u, u, self.sides.k), narrowed(self.all_v, v, self.sides.k)

    def settled(self, u: Atom, v: Atom) -> tuple[Atom, Atom]:
        """Cotangents of U and V without what turns phases."""
        ours, theirs = inner_of_columns(self.u, u)[1], inner_of_columns(self.v, v)[1]
        if ours is None or theirs is None:
            return u, v
        turned = F.add(ours, theirs)
        if self.is_wide:
            return settled(u, self.u, real_row(self.u, 0), turned), v
        return u, settled(v, self.v, real_row(self.v, 0), turned)

    def turned(self, u: Atom, v: Atom) -> tuple[Atom, Atom]:
        """Tangents of U and V with what turns phases."""
        moved, basis = (u, self.u) if self.is_wide else (v, self.v)
        angles = turns(moved, basis, real_row(basis, 0))
        return turned_by(u, self.u, angles), turned_by(v, self.v, angles)


def _outside(basis: Atom, x: Atom) -> Atom:
    """*x* without what lies in the space of the columns of *basis*."""
    return F.sub(x, times(basis, times(basis, x, True)))


def _values_vjp(numbers: Field, ct: Atom, out: Var, packed: Atom, m: int, n: int, whole: bool) -> tuple[Atom]:
    sides = Sides(m, n, whole)
    f = Factors(packed, sides, numbers)
    return (as_packed(times(scaled(f.u, ct), f.v, False, True), sides),)


def _values_jvp(numbers: Field, tangents: Any, out: Var, packed: Atom, m: int, n: int, whole: bool) -> Atom:
    sides = Sides(m, n, whole)
    f = Factors(packed, sides, numbers)
    return inner_of_columns(f.u, times(of_matrix(tangents[0], sides, numbers), f.v))[0]


def _part_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    rank = len(shape)
    return Axes(((*range(rank - 1), None),), {rank - 1: PART})


def columns(x: Atom, start: int, length: int) -> Atom:
    return slice_axis(x, x.aval.ndim - 1, start, length)


def _test(numbers: Field, m: int, n: int) -> dict[str, Any]:
    """A buffer as long as what is packed, and what makes one of it."""
    sides = Sides(m, n, False)
    size = sides.size(numbers)
    return {
        "shapes": ((2, size),), "params": sides._asdict(),
        "of": {0: lambda x: packed_svd(of_matrix(x, sides, numbers))},
    }  # fmt: skip


SINGULAR_VALUES = by_numbers(
    lambda numbers: register(
        Primitive(
            f"{numbers.prefix}singular_values", VIEW,
            lambda packed, m, n, whole, xp=np: packed[..., Sides(m, n, whole).vectors(numbers) :],
            lambda packed, m, n, whole: Aval(packed.dtype, (*packed.shape[:-1], min(m, n))),
            vjp=partial(_values_vjp, numbers), jvp=partial(_values_jvp, numbers), axes=_part_axes, domain=_ANY,
            lower=lambda packed, m, n, whole: columns(packed, Sides(m, n, whole).vectors(numbers), min(m, n)),
            test=_test(numbers, 3, 3),
        )
    )
)  # fmt: skip


def _values_of(packed: Atom, sides: Sides, numbers: Field) -> Var:
    return bind(SINGULAR_VALUES[numbers.parts - 1], packed, **sides._asdict())


def _vectors_vjp(
    numbers: Field, ct: Atom, out: Var, packed: Atom, m: int, n: int, whole: bool, rates: Rates = UNKNOWN
) -> tuple[Atom]:
    sides = Sides(m, n, whole)
    f = Factors(packed, sides, numbers)
    of_u, of_v = f.narrowed(ct)
    used = used_columns(of_u, of_v)
    of_u, of_v = f.settled(of_u, of_v)
    rates = rates.mapped(f.narrowed)
    known = rates.parting is not None and rates is not UNKNOWN
    rate_u: Any = None
    rate_v: Any = None
    if known:
        rate_u, rate_v = rates.parting
    scale = size_of(of_u, of_v, rate_u, rate_v)

    def num(uv: tuple[Atom, Atom]) -> Atom:
        return F.add(times(f.u, uv[0], True), times(f.v, uv[1], True))

    def other_num(u: Atom, v: Atom) -> Atom:
        return skew_part(F.sub(times(f.u, u, True), times(f.v, v, True)))

    def fixed(rate: Any) -> Limit | None:
        return None if rates is UNKNOWN else Limit(rate, None)

    limit = skew_limit(limit_of(rates, num, (of_u, of_v), turning(f.s, numbers)))
    differences = over_gaps(skew_part(num((of_u, of_v))), f.s, limit, scale)
    sums = over_sums(other_num(of_u, of_v), f.s, fixed(other_num(rate_u, rate_v) if known else None), scale)
    left = times(f.u, without_unused(F.add(differences, sums), used))
    if sides.m > sides.k:
        beyond = fixed(_outside(f.u, rate_u) if known else None)
        left = F.add(left, without_unused(over_columns(_outside(f.u, of_u), f.s, beyond, scale), used, False))
    found = times(left, f.v, False, True)
    if sides.n > sides.k:
        beyond = fixed(_outside(f.v, rate_v) if known else None)
        right = without_unused(over_columns(_outside(f.v, of_v), f.s, beyond, scale), used, False)
        found = F.add(found, times(f.u, right, False, True))
    return (as_packed(found, sides),)


def _vectors_jvp(numbers: Field, tangents: Any, out: Var, packed: Atom, m: int, n: int, whole: bool) -> Atom:
    sides = Sides(m, n, whole)
    f = Factors(packed, sides, numbers)
    moved = of_matrix(tangents[0], sides, numbers)
    right, left = times(moved, f.v), times(moved, f.u, True)
    inner = times(f.u, right, True)
    scale = size_of(right, left)
    differences = over_gaps(hermitian_part(inner), f.s, NO_LIMIT, scale)
    sums = over_sums(skew_part(inner), f.s, NO_LIMIT, scale)
    u, v = times(f.u, F.add(differences, sums)), times(f.v, F.sub(differences, sums))
    if sides.m > sides.k:
        u = F.add(u, over_columns(_outside(f.u, right), f.s, NO_LIMIT, scale))
    if sides.n > sides.k:
        v = F.add(v, over_columns(_outside(f.v, left), f.s, NO_LIMIT, scale))
    u, v = f.turned(u, v)
    return f.joined(widened(f.all_u, u, sides.k), widened(f.all_v, v, sides.k))


def _parting(numbers: Field, out: Var, packed: Atom, m: int, n: int, whole: bool) -> Parting:
    sides = Sides(m, n, whole)
    f = Factors(packed, sides, numbers)

    def turned() -> Atom:
        turn = turning(f.s, numbers)
        return f.joined(_filled(times(f.u, turn), sides.ut[0]), _filled(times(f.v, turn), sides.v[1]))

    small = any_of(F.logical_or(equal_pairs(f.s), along_rows(F.le(f.s, rounding(f.s)), (*f.s.aval.shape, sides.k))))
    return Parting(f.s, out, small, turned)


def _filled(x: Atom, width: int) -> Atom:
    *batch, k = x.aval.shape
    return x if width == k else concat([x, full(like(0, x), (*batch, width - k))], len(batch))


SINGULAR_VECTORS = by_numbers(
    lambda numbers: register(
        Primitive(
            f"{numbers.prefix}singular_vectors", VIEW,
            lambda packed, m, n, whole, xp=np: packed[..., : Sides(m, n, whole).vectors(numbers)],
            lambda packed, m, n, whole: Aval(
                packed.dtype, (*packed.shape[:-1], Sides(m, n, whole).vectors(numbers))
            ),
            vjp=partial(_vectors_vjp, numbers), jvp=partial(_vectors_jvp, numbers), axes=_part_axes, singular=True,
            domain=_ANY, parting=partial(_parting, numbers),
            lower=lambda packed, m, n, whole: columns(packed, 0, Sides(m, n, whole).vectors(numbers)),
            test={**_test(numbers, 4, 3), "then": F.square},
        )
    )
)  # fmt: skip
