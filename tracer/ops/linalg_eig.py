"""Eigenvalues and eigenvectors of general matrices that have real eigenvalues (``linalg_eig_complex.py``: complex).

``eig`` packs them into one value of shape (..., n + 2, n): row j < n is eigenvector j, then come the real and the
imaginary parts of the eigenvalues.  Where one is complex, LAPACK gives real and imaginary parts of vectors; who uses
them asks first.  The packed value is opaque as that of ``eigh`` is: its cotangents and tangents are those of A.

With P = inv(V) dA V:  dw = diag P,  dV = V (P[i, j] / (w[j] - w[i])), then scaled so that columns stay of length 1.
C. Boeddeker et al.: On the computation of complex-valued gradients with application to statistically optimum
beamforming (2017), for the normalised vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from .complex import by_lane, conjugate
from .elementwise import F, like
from .linalg import adjoint, diagonal, lu, lu_solve, matrix_axes, order, per_matrix, times, transposed
from .linalg_eigen import columns_axes, lapack_with_work, row_axes, row_of
from .linalg_gaps import (
    NO_LIMIT,
    UNKNOWN,
    Parting,
    Rates,
    along_rows,
    any_of,
    diagonal_matrix,
    equal_pairs,
    limit_of,
    over_gaps,
    parting_values,
    size_of,
    turning,
)
from .linalg_numbers import numbers_of
from .linalg_phases import inner_of_columns, largest, scaled, settled, turned_by, turns
from .shape import concat, full, slice_axis

_ANY = ((-3.0, 3.0),)


def _infer_packed(a: Aval) -> Aval:
    n = order(a, "eig")
    return Aval(a.dtype, (*a.shape[:-2], n + 2, n))


def _eig(a: np.ndarray) -> Any:
    real, imaginary, _, vectors, info = lapack_with_work("geev", a, compute_vl=0, compute_vr=1)
    return np.full((len(a) + 2, len(a)), np.nan) if info else np.vstack([vectors.T, real, imaginary])


def as_packed(x: Atom) -> Atom:
    *batch, n, _ = x.aval.shape
    return concat([x, full(like(0, x), (*batch, 2, n))], len(batch))


def of_matrix(x: Atom) -> Atom:
    axis = x.aval.ndim - 2
    return slice_axis(x, axis, 0, x.aval.shape[axis] - 2)


def _with_real(a: Atom) -> Atom:
    """Matrices with real eigenvalues that differ, made of any."""
    apart = diagonal_matrix(F.mul(like(2, a), parting_values(diagonal(a))))
    return F.add(F.mul(like(0.1, a), a), apart)


EIG = register(
    Primitive(
        "eig", LAPACK, per_matrix(_eig, _infer_packed), _infer_packed, vjp=lambda ct, out, a: (of_matrix(ct),),
        jvp=lambda tangents, out, a: as_packed(tangents[0]), axes=matrix_axes("ij", "pj"), domain=_ANY,
        test={"shapes": ((2, 3, 3),), "of": {0: _with_real}, "then": lambda out: _both(out)},
    )
)  # fmt: skip


def _both(packed: Atom) -> Var:
    v = real_eigenvectors(packed)
    return F.mul(F.square(v), along_rows(real_eigenvalues(packed), v.aval.shape))


def eig(a: Atom) -> Var:
    """Eigenvalues and eigenvectors of the matrices *a*, packed."""
    return bind(EIG, a)


def imaginary_parts(packed: Atom) -> Atom:
    """The imaginary parts of the eigenvalues: facts, without a derivative."""
    return row_of(F.stop_gradient(packed), packed.aval.shape[-1] + 1)


_OF_PACKED: dict[str, Any] = {"shapes": ((2, 5, 3),), "of": {0: lambda x: eig(_with_real(of_matrix(x)))}}


# ---- derivatives, of real and of complex ones ---------------------------------------------------------------------


def _divided(v: Atom, x: Atom, by_adjoint: bool = False) -> Atom:
    """inv(V) x, or inv(V') x."""
    return conjugate(lu_solve(lu(v), conjugate(x), True)) if by_adjoint else lu_solve(lu(v), x)


def values_pullback(v: Atom, ct: Atom) -> Atom:
    """The cotangent of A for one of its eigenvalues."""
    return _divided(v, adjoint(F.mul(v, by_lane(lambda x: along_rows(x, v.aval.shape), conjugate(ct)))), True)


def values_pushed(v: Atom, moved: Atom) -> Atom:
    """The tangent of the eigenvalues for one of A."""
    return diagonal(_divided(v, times(moved, v)))


def vectors_pullback(values: Atom, v: Atom, g: Atom, rates: Rates) -> Atom:
    """The cotangent of A for one of its eigenvectors."""
    products = times(v, v, True)

    def num(x: Atom) -> Atom:
        """Without what only changes the length of vectors."""
        return conjugate(F.sub(times(v, x, True), scaled(products, inner_of_columns(v, x)[0])))

    turn = conjugate(turning(values, numbers_of(v)))
    g = settled(g, v, largest(v), inner_of_columns(v, g)[1])
    found = over_gaps(num(g), values, limit_of(rates, num, g, turn), size_of(g, rates.parting))
    return _divided(v, times(conjugate(found), v, False, True), True)


def vectors_pushed(values: Atom, v: Atom, moved: Atom) -> Atom:
    """The tangent of the eigenvectors for one of A."""
    inner = _divided(v, times(moved, v))
    turned = times(v, over_gaps(inner, values, NO_LIMIT, size_of(inner)))
    turned = F.sub(turned, scaled(v, inner_of_columns(v, turned)[0]))
    return turned_by(turned, v, turns(turned, v, largest(v)))


def parting_of(
    values: Var, vectors: Var, load: Callable[[Atom, int], Atom], store: Callable[[Atom, int], Atom]
) -> Parting:
    """Equal ones among the eigenvalues *values* and their *vectors*, in buffers that are read and written by *load* and
    *store*."""
    w, v = load(values, 1), load(vectors, 2)
    return Parting(values, vectors, any_of(equal_pairs(w)), lambda: store(times(v, turning(w, numbers_of(v))), 2))


# ---- parts of the packed value -----------------------------------------------------------------------------------


REAL_EIGENVALUES = register(
    Primitive(
        "real_eigenvalues", VIEW, lambda packed, xp=np: packed[..., -2, :],
        lambda packed: Aval(packed.dtype, (*packed.shape[:-2], packed.shape[-1])),
        vjp=lambda ct, out, packed: (as_packed(values_pullback(real_eigenvectors(packed), ct)),),
        jvp=lambda tangents, out, packed: values_pushed(real_eigenvectors(packed), of_matrix(tangents[0])),
        axes=row_axes, domain=_ANY,
        lower=lambda packed: row_of(packed, packed.aval.shape[-1]),
        test=_OF_PACKED,
    )
)  # fmt: skip


REAL_EIGENVECTORS = register(
    Primitive(
        "real_eigenvectors", VIEW, lambda packed, xp=np: packed[..., :-2, :].swapaxes(-1, -2),
        lambda packed: Aval(packed.dtype, (*packed.shape[:-2], packed.shape[-1], packed.shape[-1])),
        vjp=lambda ct, out, packed, rates=UNKNOWN: (
            as_packed(vectors_pullback(real_eigenvalues(packed), out, ct, rates)),
        ),
        jvp=lambda tangents, out, packed: vectors_pushed(real_eigenvalues(packed), out, of_matrix(tangents[0])),
        axes=columns_axes, singular=True, domain=_ANY,
        parting=lambda out, packed: parting_of(real_eigenvalues(packed), out, lambda x, k: x, lambda x, k: x),
        lower=lambda packed: transposed(of_matrix(packed)),
        test=_OF_PACKED,
    )
)  # fmt: skip


def real_eigenvalues(packed: Atom) -> Var:
    return bind(REAL_EIGENVALUES, packed)


def real_eigenvectors(packed: Atom) -> Var:
    return bind(REAL_EIGENVECTORS, packed)
