"""Complex eigenvalues and eigenvectors: of complex matrices, and of real ones from what ``eig`` (``linalg_eig.py``) has
packed.

``complex_eig`` packs them into one value of shape (..., n + 1, 2 n): row j < n has the numbers of eigenvector j, the
last row the real, then the imaginary parts of the eigenvalues.  It is opaque: its cotangents and tangents are those of
A.  What is read from either packed value are two real lanes, (..., 2, n) and (..., 2, n, n); the rules put them
together as ``Pair``s.

With P = inv(V) dA V: dw = diag P, and dV = V (P[i, j] / (w[j] - w[i])) less the multiple of each column that LAPACK
takes away: columns have length 1, and their largest elements are real.  C. Boeddeker et al.: On the computation of
complex-valued gradients with application to statistically optimum beamforming (2017).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.axes import UNKNOWN, Axes, Params, Shape, Shapes
from ..ir.graph import Atom, Pair, Var, bind, lanes
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from . import linalg_eig as of_real
from .elementwise import F, like, whole_lanes
from .linalg import matrix_axes, of_factors, of_matrix, per_matrix, transposed
from .linalg_eig import eig, parting_of, values_pullback, values_pushed, vectors_pullback, vectors_pushed
from .linalg_eigen import lapack_with_work, row_of
from .linalg_gaps import UNKNOWN as UNKNOWN_RATES
from .linalg_gaps import Parting, Rates, along_rows
from .linalg_numbers import COMPLEX, REAL, Field, by_numbers
from .shape import concat, full, reshape, slice_axis

_ANY = ((-3.0, 3.0),)


def _pair(x: Atom, rank: int) -> Pair:
    """The complex value of lanes along the axis before the last *rank* ones."""
    at = x.aval.ndim - 1 - rank
    shape = (*x.aval.shape[:at], *x.aval.shape[at + 1 :])
    re, im = (reshape(slice_axis(x, at, k, 1), shape) for k in (0, 1))
    return Pair(re, im, COMPLEX.dtype(x))


def _stacked(z: Atom, rank: int) -> Atom:
    at = z.aval.ndim - rank
    shape = (*z.aval.shape[:at], 1, *z.aval.shape[at:])
    return concat([reshape(lane, shape) for lane in whole_lanes(z)], at)


# ---- of complex matrices -------------------------------------------------------------------------------------------


def _infer(a: Aval) -> Aval:
    n = COMPLEX.order(a, "eig")
    return Aval(a.dtype, (*a.shape[:-2], n + 1, 2 * n))


def _eig(a: np.ndarray) -> Any:
    values, _, vectors, info = lapack_with_work("geev", COMPLEX.array(a), compute_vl=0, compute_vr=1)
    found = np.vstack([COMPLEX.raw(vectors.T), np.concatenate([values.real, values.imag])])
    return np.full_like(found, np.nan) if info else found


COMPLEX_EIG = register(
    Primitive(
        "complex_eig", LAPACK, per_matrix(_eig, _infer), _infer, vjp=lambda ct, out, a: (of_matrix(ct),),
        jvp=lambda tangents, out, a: of_factors(tangents[0]), axes=matrix_axes("ij", "pj"), domain=_ANY,
        test={"shapes": ((2, 3, 6),), "then": lambda out: F.square(_stacked(_parts(out, COMPLEX)[1], 2))},
    )
)  # fmt: skip


def complex_eig(z: Atom) -> tuple[Pair, Pair]:
    """The eigenvalues and the eigenvectors of the complex matrices *z*."""
    return _parts(bind(COMPLEX_EIG, COMPLEX.store(z)), COMPLEX)


def complex_eig_of_real(packed: Atom) -> tuple[Pair, Pair]:
    """The eigenvalues and the eigenvectors of real matrices, of which *packed* is what ``eig`` gives."""
    return _parts(packed, REAL)


def _parts(packed: Atom, numbers: Field) -> tuple[Pair, Pair]:
    """The eigenvalues and the eigenvectors that *packed* has of matrices of these *numbers*."""
    values, vectors = COMPLEX_EIGENVALUES[numbers.parts - 1], COMPLEX_EIGENVECTORS[numbers.parts - 1]
    return _pair(bind(values, packed), 1), _pair(bind(vectors, packed), 2)


def _as_packed(x: Atom, numbers: Field) -> Atom:
    """A cotangent *x* of A as one of what is packed."""
    return of_real.as_packed(lanes(x)[0]) if numbers is REAL else of_factors(COMPLEX.store(x))


def _of_matrix(x: Atom, numbers: Field) -> Atom:
    """A tangent *x* of what is packed as one of A."""
    if numbers is COMPLEX:
        return COMPLEX.load(of_matrix(x))
    x = of_real.of_matrix(x)
    return Pair(x, like(0, x), COMPLEX.dtype(x))


def _of_packed(numbers: Field) -> dict[str, Any]:
    if numbers is REAL:
        return {"shapes": ((2, 5, 3),), "of": {0: lambda x: eig(of_real.of_matrix(x))}}
    return {"shapes": ((2, 4, 6),), "of": {0: lambda x: bind(COMPLEX_EIG, of_matrix(x))}}


# ---- eigenvalues -------------------------------------------------------------------------------------------------


def _values(numbers: Field, packed: Atom) -> Atom:
    *batch, rows, columns = packed.aval.shape
    count = 2 if numbers is REAL else 1
    found = slice_axis(packed, len(batch), rows - count, count)
    return reshape(found, (*batch, 2, columns // numbers.parts))


def _values_impl(numbers: Field, packed: np.ndarray) -> Any:
    count = 2 if numbers is REAL else 1
    return packed[..., -count:, :].reshape(*packed.shape[:-2], 2, packed.shape[-1] // numbers.parts)


def _values_vjp(numbers: Field, ct: Atom, out: Var, packed: Atom) -> tuple[Atom]:
    return (_as_packed(values_pullback(_parts(packed, numbers)[1], _pair(ct, 1)), numbers),)


def _values_jvp(numbers: Field, tangents: Any, out: Var, packed: Atom) -> Atom:
    return _stacked(values_pushed(_parts(packed, numbers)[1], _of_matrix(tangents[0], numbers)), 1)


def _lanes_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    batch, rank = len(shapes[0]) - 2, len(shape)
    return Axes(((*range(batch), None, None),), dict.fromkeys(range(batch, rank), UNKNOWN))


COMPLEX_EIGENVALUES = by_numbers(
    lambda numbers: register(
        Primitive(
            f"eigenvalues_of_{'complex' if numbers is COMPLEX else 'real'}", VIEW, partial(_values_impl, numbers),
            lambda packed: Aval(packed.dtype, (*packed.shape[:-2], 2, packed.shape[-1] // numbers.parts)),
            vjp=partial(_values_vjp, numbers), jvp=partial(_values_jvp, numbers), axes=_lanes_axes,
            lower=partial(_values, numbers), domain=_ANY, test=_of_packed(numbers),
        )
    )
)  # fmt: skip


# ---- eigenvectors ------------------------------------------------------------------------------------------------


def _vectors(numbers: Field, packed: Atom) -> Atom:
    """Of a conjugate pair of real matrices LAPACK gives the real and the imaginary part of the first vector, as
    columns."""
    if numbers is COMPLEX:
        return _stacked(transposed(COMPLEX.load(of_matrix(packed))), 2)
    x = transposed(of_real.of_matrix(packed))
    shape, last = x.aval.shape, x.aval.ndim - 1
    none = full(like(0, x), (*shape[:-1], 1))
    after = concat([slice_axis(x, last, 1, shape[-1] - 1), none], last)
    before = concat([none, slice_axis(x, last, 0, shape[-1] - 1)], last)
    signs = along_rows(row_of(packed, shape[-1] + 1), shape)
    first, second = F.gt(signs, like(0, x)), F.lt(signs, like(0, x))
    imaginary = F.select(first, after, F.select(second, F.neg(x), like(0, x)))
    return _stacked(Pair(F.select(second, before, x), imaginary, COMPLEX.dtype(x)), 2)


def _vectors_impl(numbers: Field, packed: np.ndarray) -> Any:
    if numbers is COMPLEX:
        z = COMPLEX.array(packed[..., :-1, :]).swapaxes(-1, -2)
        return np.stack([z.real, z.imag], -3)
    x, signs = packed[..., :-2, :].swapaxes(-1, -2), packed[..., None, -1, :]
    none = np.zeros_like(x[..., :1])
    after = np.concatenate([x[..., 1:], none], -1)
    before = np.concatenate([none, x[..., :-1]], -1)
    imaginary = np.where(signs > 0, after, np.where(signs < 0, -x, 0))
    return np.stack([np.where(signs < 0, before, x), imaginary], -3)


def _vectors_vjp(numbers: Field, ct: Atom, out: Var, packed: Atom, rates: Rates = UNKNOWN_RATES) -> tuple[Atom]:
    values, v = _parts(packed, numbers)
    found = vectors_pullback(values, v, _pair(ct, 2), rates.mapped(lambda x: _pair(x, 2)))
    return (_as_packed(found, numbers),)


def _vectors_jvp(numbers: Field, tangents: Any, out: Var, packed: Atom) -> Atom:
    return _stacked(vectors_pushed(*_parts(packed, numbers), _of_matrix(tangents[0], numbers)), 2)


def _parting(numbers: Field, out: Var, packed: Atom) -> Parting:
    return parting_of(bind(COMPLEX_EIGENVALUES[numbers.parts - 1], packed), out, _pair, _stacked)


COMPLEX_EIGENVECTORS = by_numbers(
    lambda numbers: register(
        Primitive(
            f"eigenvectors_of_{'complex' if numbers is COMPLEX else 'real'}", VIEW, partial(_vectors_impl, numbers),
            lambda packed: Aval(
                packed.dtype, (*packed.shape[:-2], 2, *[packed.shape[-1] // numbers.parts] * 2)
            ),
            vjp=partial(_vectors_vjp, numbers), jvp=partial(_vectors_jvp, numbers), axes=_lanes_axes, singular=True,
            lower=partial(_vectors, numbers), domain=_ANY, parting=partial(_parting, numbers),
            test={**_of_packed(numbers), "then": F.square},
        )
    )
)  # fmt: skip
