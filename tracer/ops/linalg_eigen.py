"""Eigenvalues and eigenvectors of symmetric and of Hermitian matrices.

``eigh`` packs them into one value of shape (..., n + 1, n): row j < n is eigenvector j, the last row begins with the
eigenvalues.  That value is opaque, as the factors of ``lu`` are (``linalg.py``): its cotangents and tangents are those
of A, in rows 0 to n - 1.  ``eigenvalues`` and ``eigenvectors`` read it.  So the eigenvalues know their derivative
without that of the vectors, which does not exist where some are equal (``linalg_gaps.py``).  Complex matrices have rows
of their own, by the same rules (``linalg_numbers.py``).

With P = V' dA V:  dw = diag P,  dV = V (P[i, j] / (w[j] - w[i])).  M. B. Giles: Collected matrix derivative results
for forward and reverse mode algorithmic differentiation (2008), 3.1.  Of complex vectors LAPACK leaves the first
elements real, or the last ones where it reads the upper triangle (``linalg_phases.py``).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.axes import PART, Axes, Params, Shape, Shapes
from ..ir.graph import Atom, Pair, Var, bind
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from .elementwise import F, like, whole_lanes
from .linalg import adjoint as adjoint_of
from .linalg import (
    hermitian_part,
    lapack,
    matrix_axes,
    of_factors,
    of_matrix,
    per_matrix,
    routine,
    skew_part,
    times,
    transposed,
    triangle,
)
from .linalg_gaps import (
    NO_LIMIT,
    UNKNOWN,
    Parting,
    Rates,
    any_of,
    diagonal_mask,
    equal_pairs,
    limit_of,
    over_gaps,
    size_of,
    skew_limit,
    turning,
)
from .linalg_numbers import REAL, Field, by_numbers, numbers_of
from .linalg_phases import inner_of_columns, real_row, scaled, settled, turned_by, turns
from .linalg_unused import used_columns, without_unused
from .shape import reshape, slice_axis

_ANY = ((-3.0, 3.0),)


def lapack_with_work(name: str, a: np.ndarray, **options: Any) -> tuple[Any, ...]:
    """LAPACK's *name* on *a* with the workspace that it asks for, as kernels call it."""
    sizes = a.shape if name in ("gesdd", "geqrf") else a.shape[:1]
    asked = {k: v for k, v in options.items() if k != "compute_v" or name.endswith("evd")}
    found = routine(lapack, f"{name}_lwork", a.dtype)(*sizes, **asked)
    names = {"heevd": ("lwork", "liwork", "lrwork"), "heevr": ("lwork", "lrwork", "liwork")}.get(
        name, ("lwork", "liwork") if name.startswith("syev") else ("lwork",)
    )
    lengths = {k: int(n.real) for k, n in zip(names, found, strict=False)}
    return routine(lapack, name, a.dtype)(a, **options, **lengths)


def _infer(numbers: Field, a: Aval, lower: bool, driver: str, vectors: bool) -> Aval:
    return Aval(a.dtype, (*a.shape[:-2], numbers.order(a, "eigh") + 1, a.shape[-1]))


def _eigh(numbers: Field, a: np.ndarray, lower: bool, driver: str, vectors: bool) -> Any:
    if driver == "stevd":
        values, v, info = routine(lapack, driver, a.dtype)(np.diagonal(a), np.diagonal(a, -1 if lower else 1), vectors)
    else:
        name = driver if numbers is REAL else driver.replace("sy", "he")
        values, v, *_, info = lapack_with_work(name, numbers.array(a), lower=lower, compute_v=int(vectors))
    found = np.zeros((len(a) + 1, a.shape[1]), a.dtype)
    found[:-1], found[-1, : len(a)] = numbers.raw(v.T) if vectors else np.nan, values
    return np.full_like(found, np.nan) if info else found


def row_of(x: Atom, i: int) -> Atom:
    """x[..., i, :]"""
    *batch, _, n = x.aval.shape
    return reshape(slice_axis(x, len(batch), i, 1), (*batch, n))


def row_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    """Of one row of each matrix."""
    rank = len(shape)
    return Axes(((*range(rank - 1), None, rank - 1),))


def columns_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    """Of some rows of each matrix, as columns."""
    rank = len(shape)
    return Axes(((*range(rank - 2), None, rank - 2),), {rank - 1: PART})


def _folded(x: Atom, lower: bool) -> Atom:
    """The cotangent of one triangle, from that of the Hermitian matrix."""
    x = hermitian_part(x)
    return F.add(triangle(x, lower), triangle(x, lower, False))


def hermitian(x: Atom, lower: bool) -> Atom:
    """The symmetric or Hermitian matrices of one triangle of *x*."""
    found = F.add(triangle(x, lower), adjoint_of(triangle(x, lower, False)))
    if not x.aval.is_complex:
        return found
    re, im = whole_lanes(found)
    return Pair(re, F.select(diagonal_mask(im.aval.shape), like(0, im), im), x.aval.dtype)


EIGH = by_numbers(
    lambda numbers: register(
        Primitive(
            f"{numbers.prefix}eigh", LAPACK, per_matrix(partial(_eigh, numbers), partial(_infer, numbers)),
            partial(_infer, numbers),
            vjp=lambda ct, out, a, lower, **_: (numbers.store(_folded(numbers.load(of_matrix(ct)), lower)),),
            jvp=lambda tangents, out, a, lower, **_: of_factors(
                numbers.store(hermitian(numbers.load(tangents[0]), lower))
            ),
            axes=matrix_axes("ij", "pj"), masking=True, domain=_ANY,
            test={
                "shapes": ((2, 3, 3 * numbers.parts),),
                "params": {"lower": numbers is REAL, "driver": "syevd", "vectors": True},
                "then": lambda out: numbers.store(
                    scaled(eigenvectors(out, numbers, numbers is REAL), eigenvalues(out, numbers))
                ),
            },
        )
    )
)  # fmt: skip


def eigh(a: Atom, lower: bool = True, driver: str = "syevd") -> tuple[Atom, Atom]:
    """Eigenvalues, ascending, and eigenvectors of the symmetric or Hermitian matrices that have the lower (or upper)
    triangles of *a*.  Signs of vectors are those of LAPACK's *driver*: syevd, syevr, or stevd for real tridiagonal
    ones."""
    numbers = numbers_of(a)
    packed = bind(EIGH[a.aval.is_complex], numbers.store(a), lower=lower, driver=driver, vectors=True)
    return eigenvalues(packed, numbers), eigenvectors(packed, numbers, lower)


def _of_packed(numbers: Field) -> dict[str, Any]:
    def packed(x: Atom) -> Atom:
        return bind(EIGH[numbers.parts - 1], of_matrix(x), lower=True, driver="syevd", vectors=True)

    return {"shapes": ((2, 4, 3 * numbers.parts),), "of": {0: packed}}


# ---- parts of the packed value -----------------------------------------------------------------------------------


def _values_vjp(numbers: Field, ct: Atom, out: Var, packed: Atom) -> tuple[Atom]:
    v = eigenvectors(packed, numbers)
    return (of_factors(numbers.store(times(scaled(v, ct), v, False, True))),)


def _values_jvp(numbers: Field, tangents: Any, out: Var, packed: Atom) -> Atom:
    v = eigenvectors(packed, numbers)
    return inner_of_columns(v, times(numbers.load(of_matrix(tangents[0])), v))[0]


def _values_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    rank = len(shape)
    return Axes(((*range(rank - 1), None, None),), {rank - 1: PART})


EIGENVALUES = by_numbers(
    lambda numbers: register(
        Primitive(
            f"{numbers.prefix}eigenvalues", VIEW, lambda packed, xp=np: packed[..., -1, : packed.shape[-2] - 1],
            lambda packed: Aval(packed.dtype, (*packed.shape[:-2], packed.shape[-2] - 1)),
            vjp=partial(_values_vjp, numbers), jvp=partial(_values_jvp, numbers), domain=_ANY,
            axes=row_axes if numbers is REAL else _values_axes, test=_of_packed(numbers),
            lower=lambda packed: first_of_row(packed, packed.aval.shape[-2] - 1),
        )
    )
)  # fmt: skip


def first_of_row(x: Atom, n: int) -> Atom:
    """x[..., n, :n]"""
    return slice_axis(row_of(x, n), x.aval.ndim - 2, 0, n)


def _real(v: Atom, lower: bool) -> Atom:
    return real_row(v, 0 if lower else v.aval.shape[-1] - 1)


def _vectors_vjp(numbers: Field, ct: Atom, out: Var, packed: Atom, lower: bool, rates: Rates = UNKNOWN) -> tuple[Atom]:
    def columns(x: Atom) -> Atom:
        return transposed(numbers.load(x))

    def num(x: Atom) -> Atom:
        return times(v, x, True)

    values, v, g, rates = eigenvalues(packed, numbers), columns(out), columns(ct), rates.mapped(columns)
    used = used_columns(g)
    g = settled(g, v, _real(v, lower), inner_of_columns(v, g)[1])
    limit = skew_limit(limit_of(rates, num, g, turning(values, numbers)))
    found = without_unused(over_gaps(skew_part(num(g)), values, limit, size_of(g, rates.parting)), used)
    return (of_factors(numbers.store(times(times(v, found), v, False, True))),)


def _vectors_jvp(numbers: Field, tangents: Any, out: Var, packed: Atom, lower: bool) -> Atom:
    v, a = transposed(numbers.load(out)), numbers.load(of_matrix(tangents[0]))
    moved = times(a, v)
    moved = times(v, over_gaps(times(v, moved, True), eigenvalues(packed, numbers), NO_LIMIT, size_of(moved)))
    moved = turned_by(moved, v, turns(moved, v, _real(v, lower)))
    return numbers.store(transposed(moved))


def _vectors_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    rank = len(shape)
    return Axes(((*range(rank - 2), None, rank - 1),), {rank - 2: PART})


def _parting(numbers: Field, out: Var, packed: Atom, lower: bool) -> Parting:
    values = eigenvalues(packed, numbers)

    def turned() -> Atom:
        v = transposed(numbers.load(out))
        return numbers.store(transposed(times(v, turning(values, numbers))))

    return Parting(values, out, any_of(equal_pairs(values)), turned)


EIGENVECTORS = by_numbers(
    lambda numbers: register(
        Primitive(
            f"{numbers.prefix}eigenvectors", VIEW, lambda packed, lower, xp=np: packed[..., :-1, :],
            lambda packed, lower: Aval(packed.dtype, (*packed.shape[:-2], packed.shape[-2] - 1, packed.shape[-1])),
            vjp=partial(_vectors_vjp, numbers), jvp=partial(_vectors_jvp, numbers), axes=_vectors_axes, singular=True,
            domain=_ANY, parting=partial(_parting, numbers), lower=lambda packed, lower: of_matrix(packed),
            test={**_of_packed(numbers), "params": {"lower": True}},
        )
    )
)  # fmt: skip


def eigenvalues(packed: Atom, numbers: Field) -> Var:
    """The eigenvalues (..., n)."""
    return bind(EIGENVALUES[numbers.parts - 1], packed)


def eigenvectors(packed: Atom, numbers: Field, lower: bool = True) -> Atom:
    """The eigenvectors, columns of (..., n, n)."""
    return transposed(numbers.load(bind(EIGENVECTORS[numbers.parts - 1], packed, lower=lower)))
