"""The singular value decomposition A = U diag(s) Vh.

``svd`` packs the factors of a matrix (m, n) into one row, as LAPACK writes them: the columns of U, those of Vh, then
s.  U is (m, k) and Vh is (k, n) with k = min(m, n), or (m, m) and (n, n) if *whole*.  That value is opaque, as the
factors of ``lu`` are (``linalg.py``): its cotangents and tangents are those of A, in the first m n places.
``singular_values`` and ``singular_vectors`` read it.

With P = U' dA V, and S and T its symmetric and antisymmetric parts,

    ds = diag P,   dU = U (S[i, j] / (s[j] - s[i]) + T[i, j] / (s[j] + s[i])) + (1 - U U') dA V / s,

and of V the same with -T, and dA transposed.  The usual form has s[j]^2 - s[i]^2 alone; the two parts are kept apart
because the polar factor U Vh needs no differences, and so no distinct singular values.  What U and V have besides k
columns is any basis: it turns with the others.  J. Townsend: Differentiating the singular value decomposition (2016).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..ir.aval import Aval
from ..ir.axes import PART, Axes, Params, Shape, Shapes
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from .elementwise import F, like
from .linalg import matrix_axes, over_matrices, per_matrix, symmetric_part, transposed
from .linalg_eigen import lapack_with_work
from .linalg_gaps import (
    UNKNOWN,
    Limit,
    Parting,
    Rates,
    along_rows,
    antisymmetric_limit,
    antisymmetric_part,
    any_of,
    equal_pairs,
    limit_of,
    noise_of,
    over_columns,
    over_gaps,
    over_sums,
    rounding,
    size_of,
    turning,
)
from .product import matmul
from .reduce import reduce
from .shape import concat, full, reshape, slice_axis

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

    @property
    def size(self) -> int:
        return math.prod(self.ut) + math.prod(self.v) + self.k


def cut(x: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """Arrays of *shapes* that stand one after the other along the last axis of *x*."""
    found: list[Any] = []
    at, batch = 0, x.shape[:-1]
    for shape in shapes:
        size, whole = math.prod(shape), (*batch, *shape)
        if isinstance(x, Var):
            found.append(reshape(slice_axis(x, len(batch), at, size), whole))
        else:
            found.append(x[..., at : at + size].reshape(whole))
        at += size
    return found


def joined(*xs: Atom) -> Atom:
    """Matrices, each flattened, one after the other: the contrary of ``cut``."""
    flat = [reshape(x, (*x.aval.shape[:-2], math.prod(x.aval.shape[-2:]))) for x in xs]
    return concat(flat, flat[0].aval.ndim - 1)


def narrowed(basis: Atom, x: Atom, k: int) -> Atom:
    """The cotangent of the first *k* columns of *basis*, from that of all; the others turn with them.

    They are any basis of what is left.  What depends on the choice has no derivative: NaN.
    """
    width, axis = basis.aval.shape[-1], basis.aval.ndim - 1
    if width == k:
        return x
    first, rest = slice_axis(basis, axis, 0, k), slice_axis(basis, axis, k, width - k)
    free = slice_axis(x, axis, k, width - k)
    turned = antisymmetric_part(matmul(rest, free, True, False))
    noise = F.mul(over_matrices(size_of(free), turned.aval.shape), noise_of(x))
    wrong = reduce("any", F.gt(F.abs(turned), noise), (axis - 1, axis))
    share = matmul(rest, matmul(free, first, True, False))
    lost = F.select(over_matrices(wrong, share.aval.shape), like(np.nan, share), like(0, share))
    return F.sub(slice_axis(x, axis, 0, k), F.add(share, lost))


def widened(basis: Atom, x: Atom, k: int) -> Atom:
    """The tangent of all columns of *basis*, from that of the first *k*."""
    width, axis = basis.aval.shape[-1], basis.aval.ndim - 1
    if width == k:
        return x
    first, rest = slice_axis(basis, axis, 0, k), slice_axis(basis, axis, k, width - k)
    return concat([x, F.neg(matmul(first, matmul(x, rest, True, False)))], axis)


def _sides(a: Aval, whole: bool) -> Sides:
    if a.ndim < 2:
        raise GraphError(f"svd of {a}")
    return Sides(a.shape[-2], a.shape[-1], whole)


def _infer(a: Aval, whole: bool) -> Aval:
    return Aval(a.dtype, (*a.shape[:-2], _sides(a, whole).size))


def _svd(a: np.ndarray, whole: bool) -> Any:
    u, s, vh, info = lapack_with_work("gesdd", a, compute_uv=1, full_matrices=int(whole))
    return (
        np.full(_sides(Aval(a.dtype, a.shape), whole).size, np.nan)
        if info
        else np.concatenate([u.T.ravel(), vh.T.ravel(), s])
    )


def as_packed(x: Atom, sides: Sides) -> Atom:
    """A cotangent or tangent *x* of A as one of its packed factors."""
    *batch, m, n = x.aval.shape
    rest = full(like(0, x), (*batch, sides.size - m * n))
    return concat([reshape(x, (*batch, m * n)), rest], len(batch))


def of_matrix(x: Atom, sides: Sides) -> Atom:
    return cut(x, (sides.m, sides.n))[0]


SVD = register(
    Primitive(
        "svd", LAPACK, per_matrix(_svd, _infer), _infer,
        vjp=lambda ct, out, a, whole: (of_matrix(ct, _sides(a.aval, whole)),),
        jvp=lambda tangents, out, a, whole: as_packed(tangents[0], _sides(a.aval, whole)),
        axes=matrix_axes("ij", "p"), domain=_ANY,
        test={
            "shapes": ((2, 4, 3),), "params": {"whole": False},
            "then": lambda out: _product(_parts(out, Sides(4, 3, False))),
        },
    )
)  # fmt: skip


def _product(parts: tuple[Atom, Atom, Atom]) -> Atom:
    u, s, vh = parts
    return matmul(F.mul(u, along_rows(F.exp(s), u.aval.shape)), vh)


def packed_svd(a: Atom, whole: bool = False) -> Var:
    return bind(SVD, a, whole=whole)


def svd(a: Atom, whole: bool = False) -> tuple[Atom, Atom, Atom]:
    """U, s (descending) and Vh of the matrices *a*."""
    return _parts(bind(SVD, a, whole=whole), _sides(a.aval, whole))


def _parts(packed: Atom, sides: Sides) -> tuple[Atom, Atom, Atom]:
    ut, v = cut(bind(SINGULAR_VECTORS, packed, **sides._asdict()), sides.ut, sides.v)
    return transposed(ut), singular_values(packed, sides), transposed(v)


def singular_values_of(a: Atom) -> Atom:
    """The singular values of the matrices *a*, descending: (..., k)."""
    return singular_values(bind(SVD, a, whole=False), _sides(a.aval, False))


# ---- parts of the packed value -----------------------------------------------------------------------------------


class _Factors:
    """The factors of packed matrices, and maps of cotangents that are made of them."""

    def __init__(self, packed: Atom, sides: Sides):
        self.sides = sides
        ut, self.all_v = cut(bind(SINGULAR_VECTORS, packed, **sides._asdict()), sides.ut, sides.v)
        self.all_u = transposed(ut)
        self.s = singular_values(packed, sides)
        self.u, self.v = self.first(self.all_u), self.first(self.all_v)

    def first(self, x: Atom) -> Atom:
        return slice_axis(x, x.aval.ndim - 1, 0, self.sides.k)

    def both(self, x: Atom) -> tuple[Atom, Atom]:
        """Cotangents of U and V, from that of the vectors; those of more than k columns as ones of the first k."""
        ut, v = cut(x, self.sides.ut, self.sides.v)
        return narrowed(self.all_u, transposed(ut), self.sides.k), narrowed(self.all_v, v, self.sides.k)


def _outside(basis: Atom, x: Atom) -> Atom:
    """*x* without what lies in the space of the columns of *basis*."""
    return F.sub(x, matmul(basis, matmul(basis, x, True, False)))


def _values_vjp(ct: Atom, out: Var, packed: Atom, m: int, n: int, whole: bool) -> tuple[Atom]:
    sides = Sides(m, n, whole)
    f = _Factors(packed, sides)
    scaled = F.mul(f.u, along_rows(ct, f.u.aval.shape))
    return (as_packed(matmul(scaled, f.v, False, True), sides),)


def _values_jvp(tangents: Any, out: Var, packed: Atom, m: int, n: int, whole: bool) -> Atom:
    sides = Sides(m, n, whole)
    f = _Factors(packed, sides)
    return reduce("sum", F.mul(f.u, matmul(of_matrix(tangents[0], sides), f.v)), (f.u.aval.ndim - 2,))


def _part_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    rank = len(shape)
    return Axes(((*range(rank - 1), None),), {rank - 1: PART})


def _last(packed: Any, m: int, n: int, whole: bool, xp: Any = np) -> Any:
    return packed[..., Sides(m, n, whole).size - min(m, n) :]


SINGULAR_VALUES = register(
    Primitive(
        "singular_values", VIEW, _last, lambda packed, m, n, whole: Aval(packed.dtype, (*packed.shape[:-1], min(m, n))),
        vjp=_values_vjp, jvp=_values_jvp, axes=_part_axes, domain=_ANY,
        lower=lambda packed, m, n, whole: _slice(packed, Sides(m, n, whole).size - min(m, n), min(m, n)),
        test={
            "shapes": ((2, 21),), "params": {"m": 3, "n": 3, "whole": False},
            "of": {0: lambda x: bind(SVD, of_matrix(x, Sides(3, 3, False)), whole=False)},
        },
    )
)  # fmt: skip


def _slice(x: Atom, start: int, length: int) -> Atom:
    return slice_axis(x, x.aval.ndim - 1, start, length)


def singular_values(packed: Atom, sides: Sides) -> Var:
    return bind(SINGULAR_VALUES, packed, **sides._asdict())


def _vectors_vjp(ct: Atom, out: Var, packed: Atom, m: int, n: int, whole: bool, rates: Rates = UNKNOWN) -> tuple[Atom]:
    sides = Sides(m, n, whole)
    f = _Factors(packed, sides)
    of_u, of_v = f.both(ct)
    known = isinstance(rates.parting, Var)
    rate_u: Any = None
    rate_v: Any = None
    if known:
        rate_u, rate_v = f.both(rates.parting)
    scale = size_of(of_u, of_v, rate_u, rate_v)

    def num(x: Atom) -> Atom:
        u, v = f.both(x)
        return F.add(matmul(f.u, u, True, False), matmul(f.v, v, True, False))

    def other_num(u: Atom, v: Atom) -> Atom:
        return antisymmetric_part(F.sub(matmul(f.u, u, True, False), matmul(f.v, v, True, False)))

    def fixed(rate: Any) -> Limit | None:
        return None if rates is UNKNOWN else Limit(rate, None)

    limit = antisymmetric_limit(limit_of(rates, num, ct, turning(f.s)))
    differences = over_gaps(antisymmetric_part(num(ct)), f.s, limit, scale)
    sums = over_sums(other_num(of_u, of_v), f.s, fixed(other_num(rate_u, rate_v) if known else None), scale)
    left = matmul(f.u, F.add(differences, sums))
    if sides.m > sides.k:
        beyond = fixed(_outside(f.u, rate_u) if known else None)
        left = F.add(left, over_columns(_outside(f.u, of_u), f.s, beyond, scale))
    found = matmul(left, f.v, False, True)
    if sides.n > sides.k:
        beyond = fixed(_outside(f.v, rate_v) if known else None)
        right = over_columns(_outside(f.v, of_v), f.s, beyond, scale)
        found = F.add(found, matmul(f.u, right, False, True))
    return (as_packed(found, sides),)


def _vectors_jvp(tangents: Any, out: Var, packed: Atom, m: int, n: int, whole: bool) -> Atom:
    sides = Sides(m, n, whole)
    f = _Factors(packed, sides)
    moved = of_matrix(tangents[0], sides)
    right, left = matmul(moved, f.v), matmul(moved, f.u, True, False)
    inner = matmul(f.u, right, True, False)
    scale, none = size_of(right, left), Limit(None, None)
    differences = over_gaps(symmetric_part(inner), f.s, none, scale)
    sums = over_sums(antisymmetric_part(inner), f.s, none, scale)
    u, v = matmul(f.u, F.add(differences, sums)), matmul(f.v, F.sub(differences, sums))
    if sides.m > sides.k:
        u = F.add(u, over_columns(_outside(f.u, right), f.s, none, scale))
    if sides.n > sides.k:
        v = F.add(v, over_columns(_outside(f.v, left), f.s, none, scale))
    return joined(transposed(widened(f.all_u, u, sides.k)), widened(f.all_v, v, sides.k))


def _parting(out: Var, packed: Atom, m: int, n: int, whole: bool) -> Parting:
    sides = Sides(m, n, whole)
    f = _Factors(packed, sides)

    def turned() -> Atom:
        turn = turning(f.s)
        u = _filled(matmul(f.u, turn), sides.ut[0])
        v = _filled(matmul(f.v, turn), sides.v[1])
        return joined(transposed(u), v)

    small = any_of(F.logical_or(equal_pairs(f.s), along_rows(F.le(f.s, rounding(f.s)), (*f.s.aval.shape, sides.k))))
    return Parting(f.s, out, small, turned)


def _filled(x: Atom, width: int) -> Atom:
    *batch, k = x.aval.shape
    return x if width == k else concat([x, full(like(0, x), (*batch, width - k))], len(batch))


def _first(packed: Any, m: int, n: int, whole: bool, xp: Any = np) -> Any:
    return packed[..., : Sides(m, n, whole).size - min(m, n)]


SINGULAR_VECTORS = register(
    Primitive(
        "singular_vectors", VIEW, _first,
        lambda packed, m, n, whole: Aval(packed.dtype, (*packed.shape[:-1], Sides(m, n, whole).size - min(m, n))),
        vjp=_vectors_vjp, jvp=_vectors_jvp, axes=_part_axes, singular=True, domain=_ANY, parting=_parting,
        lower=lambda packed, m, n, whole: _slice(packed, 0, Sides(m, n, whole).size - min(m, n)),
        test={
            "shapes": ((2, 24),), "params": {"m": 4, "n": 3, "whole": False},
            "of": {0: lambda x: bind(SVD, of_matrix(x, Sides(4, 3, False)), whole=False)},
            "then": F.square,
        },
    )
)  # fmt: skip
