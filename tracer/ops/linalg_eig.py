"""Eigenvalues and eigenvectors of general matrices that have real eigenvalues (``linalg_eig_complex.py``: complex).

``eig`` packs them into one value of shape (..., n + 2, n): row j < n is eigenvector j, then come the real and the
imaginary parts of the eigenvalues.  Where one is complex, LAPACK gives real and imaginary parts of vectors; who uses
them asks first.  The packed value is opaque as that of ``eigh`` is: its cotangents and tangents are those of A.

With P = inv(V) dA V:  dw = diag P,  dV = V (P[i, j] / (w[j] - w[i])), then scaled so that columns stay of length 1.
C. Boeddeker et al.: On the computation of complex-valued gradients with application to statistically optimum
beamforming (2017), for the normalised vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from .elementwise import F, like
from .linalg import diagonal, lu, lu_solve, matrix_axes, order, per_matrix, transposed
from .linalg_eigen import columns_axes, lapack_with_work, parting_of, row_axes, row_of
from .linalg_gaps import (
    UNKNOWN,
    Limit,
    Rates,
    along_rows,
    diagonal_matrix,
    limit_of,
    over_gaps,
    parting_values,
    size_of,
    turning,
)
from .product import matmul
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


# ---- parts of the packed value -----------------------------------------------------------------------------------


def _divided(v: Atom, x: Atom, trans: bool = False) -> Atom:
    """inv(V) x, or its transpose times x."""
    return lu_solve(lu(v), x, trans)


def _values_vjp(ct: Atom, out: Var, packed: Atom) -> tuple[Atom]:
    v = real_eigenvectors(packed)
    return (as_packed(_divided(v, transposed(F.mul(v, along_rows(ct, v.aval.shape))), True)),)


def _values_jvp(tangents: Any, out: Var, packed: Atom) -> Atom:
    v = real_eigenvectors(packed)
    return diagonal(_divided(v, matmul(of_matrix(tangents[0]), v)))


REAL_EIGENVALUES = register(
    Primitive(
        "real_eigenvalues", VIEW, lambda packed, xp=np: packed[..., -2, :],
        lambda packed: Aval(packed.dtype, (*packed.shape[:-2], packed.shape[-1])),
        vjp=_values_vjp, jvp=_values_jvp, axes=row_axes, domain=_ANY,
        lower=lambda packed: row_of(packed, packed.aval.shape[-1]),
        test=_OF_PACKED,
    )
)  # fmt: skip


def _vectors_vjp(ct: Atom, out: Var, packed: Atom, rates: Rates = UNKNOWN) -> tuple[Atom]:
    values, lengths = real_eigenvalues(packed), matmul(out, out, True, False)

    def num(x: Atom) -> Atom:
        """Without what only changes the length of vectors."""
        inner = matmul(out, x, True, False)
        return F.sub(inner, F.mul(lengths, along_rows(diagonal(inner), inner.aval.shape)))

    found = over_gaps(num(ct), values, limit_of(rates, num, ct, turning(values)), size_of(ct, rates.parting))
    return (as_packed(_divided(out, matmul(found, out, False, True), True)),)


def _vectors_jvp(tangents: Any, out: Var, packed: Atom) -> Atom:
    moved = _divided(out, matmul(of_matrix(tangents[0]), out))
    turned = matmul(out, over_gaps(moved, real_eigenvalues(packed), Limit(None, None), size_of(moved)))
    stretch = diagonal(matmul(out, turned, True, False))
    return F.sub(turned, F.mul(out, along_rows(stretch, out.aval.shape)))


REAL_EIGENVECTORS = register(
    Primitive(
        "real_eigenvectors", VIEW, lambda packed, xp=np: packed[..., :-2, :].swapaxes(-1, -2),
        lambda packed: Aval(packed.dtype, (*packed.shape[:-2], packed.shape[-1], packed.shape[-1])),
        vjp=_vectors_vjp, jvp=_vectors_jvp, axes=columns_axes, singular=True, domain=_ANY,
        parting=lambda out, packed: parting_of(real_eigenvalues(packed), out),
        lower=lambda packed: transposed(of_matrix(packed)),
        test=_OF_PACKED,
    )
)  # fmt: skip


def real_eigenvalues(packed: Atom) -> Var:
    return bind(REAL_EIGENVALUES, packed)


def real_eigenvectors(packed: Atom) -> Var:
    return bind(REAL_EIGENVECTORS, packed)
