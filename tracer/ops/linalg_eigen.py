"""Eigenvalues and eigenvectors of symmetric matrices, and of general ones that have real eigenvalues.

``eigh`` packs them into one value of shape (..., n + 1, n): row j < n is eigenvector j, the last row has the
eigenvalues.  That value is opaque, as the factors of ``lu`` are (``linalg.py``): its cotangents and tangents are those
of A, in rows 0 to n - 1.  ``eigenvalues`` and ``eigenvectors`` read it.  So the eigenvalues know their derivative
without that of the vectors, which does not exist where some are equal (``linalg_gaps.py``).

With P = V' dA V:  dw = diag P,  dV = V (P[i, j] / (w[j] - w[i])).  M. B. Giles: Collected matrix derivative results
for forward and reverse mode algorithmic differentiation (2008), 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

from ..ir.aval import Aval
from ..ir.axes import PART, Axes, Params, Shape, Shapes
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from .elementwise import F
from .linalg import matrix_axes, order, per_matrix, routine, transposed, triangle
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
    over_gaps,
    size_of,
    turning,
)
from .product import matmul
from .reduce import reduce
from .shape import PAD, SLICE, reshape, slice_axis

_ANY = ((-3.0, 3.0),)


def lapack_with_work(name: str, a: np.ndarray, **options: Any) -> tuple[Any, ...]:
    """LAPACK's *name* on *a* with the workspace that it asks for, as kernels call it."""
    sizes = a.shape if name in ("gesdd", "geqrf") else a.shape[:1]
    found = routine(lapack, f"{name}_lwork", a.dtype)(*sizes, **options)
    names = ("lwork", "liwork") if name.startswith("syev") else ("lwork",)
    return routine(lapack, name, a.dtype)(a, **options, **{k: int(n) for k, n in zip(names, found, strict=False)})


def _infer_packed(a: Aval, lower: bool, driver: str) -> Aval:
    n = order(a, "eigh")
    return Aval(a.dtype, (*a.shape[:-2], n + 1, n))


def _eigh(a: np.ndarray, lower: bool, driver: str) -> Any:
    if driver == "stevd":
        values, vectors, info = routine(lapack, driver, a.dtype)(np.diagonal(a), np.diagonal(a, -1 if lower else 1))
    else:
        values, vectors, *_, info = lapack_with_work(driver, a, lower=lower)
    return np.full((len(a) + 1, len(a)), np.nan) if info else np.vstack([vectors.T, values])


def as_packed(x: Atom) -> Atom:
    """A cotangent or tangent *x* of A as one of its packed eigenvalues and -vectors."""
    shape = (*x.aval.shape[:-2], x.aval.shape[-2] + 1, x.aval.shape[-1])
    return bind(PAD, x, start=(0,) * len(shape), step=(1,) * len(shape), shape=shape)


def of_matrix(x: Atom) -> Atom:
    """A cotangent or tangent *x* of the packed value as one of A."""
    shape = (*x.aval.shape[:-2], x.aval.shape[-2] - 1, x.aval.shape[-1])
    return bind(SLICE, x, start=(0,) * len(shape), step=(1,) * len(shape), shape=shape)


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
    """The cotangent of one triangle, from that of the symmetric matrix."""
    return F.add(triangle(x, lower), triangle(transposed(x), lower, False))


def _unfolded(x: Atom, lower: bool) -> Atom:
    """The symmetric matrix of one triangle."""
    return F.add(triangle(x, lower), transposed(triangle(x, lower, False)))


EIGH = register(
    Primitive(
        "eigh", LAPACK, per_matrix(_eigh, _infer_packed), _infer_packed,
        vjp=lambda ct, out, a, lower, driver: (_folded(of_matrix(ct), lower),),
        jvp=lambda tangents, out, a, lower, driver: as_packed(_unfolded(tangents[0], lower)),
        axes=matrix_axes("ij", "pj"), masking=True, domain=_ANY,
        test={"shapes": ((2, 3, 3),), "params": {"lower": True, "driver": "syevd"}, "then": lambda out: _both(out)},
    )
)  # fmt: skip


def _both(packed: Atom) -> Var:
    return F.mul(eigenvectors(packed), along_rows(eigenvalues(packed), eigenvectors(packed).aval.shape))


def eigh(a: Atom, lower: bool = True, driver: str = "syevd") -> Var:
    """Eigenvalues, ascending, and eigenvectors of the symmetric matrices that have the lower (or upper) triangles of
    *a*, packed.  Signs of vectors are those of LAPACK's *driver*: syevd, syevr, or stevd for tridiagonal ones."""
    return bind(EIGH, a, lower=lower, driver=driver)


_OF_PACKED: dict[str, Any] = {"shapes": ((2, 4, 3),), "of": {0: lambda x: eigh(of_matrix(x))}}


# ---- parts of the packed value -----------------------------------------------------------------------------------


def _values_vjp(ct: Atom, out: Var, packed: Atom) -> tuple[Atom]:
    v = eigenvectors(packed)
    return (as_packed(matmul(F.mul(v, along_rows(ct, v.aval.shape)), v, False, True)),)


def _values_jvp(tangents: Any, out: Var, packed: Atom) -> Atom:
    v = eigenvectors(packed)
    moved = matmul(of_matrix(tangents[0]), v)
    return reduce("sum", F.mul(v, moved), (v.aval.ndim - 2,))


EIGENVALUES = register(
    Primitive(
        "eigenvalues", VIEW, lambda packed, xp=np: packed[..., -1, :],
        lambda packed: Aval(packed.dtype, (*packed.shape[:-2], packed.shape[-1])),
        vjp=_values_vjp, jvp=_values_jvp, axes=row_axes, domain=_ANY,
        lower=lambda packed: row_of(packed, packed.aval.shape[-1]),
        test=_OF_PACKED,
    )
)  # fmt: skip


def _vectors_vjp(ct: Atom, out: Var, packed: Atom, rates: Rates = UNKNOWN) -> tuple[Atom]:
    values = eigenvalues(packed)

    def num(x: Atom) -> Atom:
        return matmul(out, x, True, False)

    limit = antisymmetric_limit(limit_of(rates, num, ct, turning(values)))
    found = over_gaps(antisymmetric_part(num(ct)), values, limit, size_of(ct, rates.parting))
    return (as_packed(matmul(matmul(out, found), out, False, True)),)


def _vectors_jvp(tangents: Any, out: Var, packed: Atom) -> Atom:
    moved = matmul(of_matrix(tangents[0]), out)
    return matmul(
        out, over_gaps(matmul(out, moved, True, False), eigenvalues(packed), Limit(None, None), size_of(moved))
    )


def parting_of(values: Var, vectors: Var) -> Parting:
    """Equal ones among the eigenvalues *values*, and their vectors."""
    return Parting(values, vectors, any_of(equal_pairs(values)), lambda: matmul(vectors, turning(values)))


EIGENVECTORS = register(
    Primitive(
        "eigenvectors", VIEW, lambda packed, xp=np: packed[..., :-1, :].swapaxes(-1, -2),
        lambda packed: Aval(packed.dtype, (*packed.shape[:-2], packed.shape[-1], packed.shape[-1])),
        vjp=_vectors_vjp, jvp=_vectors_jvp, axes=columns_axes, singular=True, domain=_ANY,
        parting=lambda out, packed: parting_of(eigenvalues(packed), out),
        lower=lambda packed: transposed(of_matrix(packed)),
        test=_OF_PACKED,
    )
)  # fmt: skip


def eigenvalues(packed: Atom) -> Var:
    """The eigenvalues (..., n)."""
    return bind(EIGENVALUES, packed)


def eigenvectors(packed: Atom) -> Var:
    """The eigenvectors, columns of (..., n, n)."""
    return bind(EIGENVECTORS, packed)
