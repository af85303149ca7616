"""Discrete Fourier transforms of the columns of matrices, without a norm: the DFT, the half of it that is enough for
real columns, and the real columns of which a half is given.

Complex matrices are (..., n, 2 k), the real and the imaginary part one beside the other, real ones (..., n, k).  All
are linear, and each one's transpose is another of them: sums with the other sign in the exponent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import COMPLEX, Aval
from ..ir.errors import GraphError
from ..ir.graph import Atom, bind
from ..ir.primitive import LAPACK, Primitive, register
from .complex import buffer_of, complex_of, conjugate
from .elementwise import F, like
from .linalg import matrix_axes
from .shape import concat, reshape, slice_axis

_ANY = ((-3.0, 3.0),)
_COMPLEX_OF = {lane: dtype for dtype, lane in COMPLEX.items()}


def _length(x: Aval, parts: int) -> int:
    if x.ndim < 2 or x.shape[-1] % parts or not x.shape[-2]:
        raise GraphError(f"Fourier transform of {x}")
    return x.shape[-2]


def _numbers(x: Any, xp: Any) -> Any:
    """The complex matrices (..., n, k)."""
    return xp.ascontiguousarray(x).view(_COMPLEX_OF[x.dtype])


def _parts(z: Any, xp: Any) -> Any:
    return xp.ascontiguousarray(z).view(COMPLEX[z.dtype])


def _infer_dft(x: Aval, inverse: bool) -> Aval:
    _length(x, 2)
    return x


def _dft(x: Any, inverse: bool, xp: Any = np) -> Any:
    z = _numbers(xp.asarray(x), xp)
    return _parts(xp.fft.ifft(z, axis=-2, norm="forward") if inverse else xp.fft.fft(z, axis=-2), xp)


DFT: Primitive = register(
    Primitive(
        "dft", LAPACK, _dft, _infer_dft, transpose=lambda ct, x, inverse: bind(DFT, ct, inverse=not inverse),
        axes=matrix_axes("nc", "nc"), domain=_ANY, test={"shapes": ((2, 5, 4),), "params": {"inverse": True}},
    )
)  # fmt: skip


def _infer_half(x: Aval) -> Aval:
    return Aval(x.dtype, (*x.shape[:-2], _length(x, 1) // 2 + 1, 2 * x.shape[-1]))


def _half(x: Any, xp: Any = np) -> Any:
    return _parts(xp.fft.rfft(xp.asarray(x), axis=-2), xp)


def _interior_times(factor: float, half: Atom, count: int) -> Atom:
    """*half* of a transform of *count* numbers, with those that stand for two of it *factor* times as large."""
    axis, end = half.aval.ndim - 2, (count + 1) // 2
    inner = F.mul(slice_axis(half, axis, 1, end - 1), like(factor, half))
    parts = [slice_axis(half, axis, 0, 1), inner, slice_axis(half, axis, end, count // 2 + 1 - end)]
    return concat([x for x in parts if x.aval.size], axis)


REAL_DFT: Primitive = register(
    Primitive(
        "real_dft", LAPACK, _half, _infer_half,
        transpose=lambda ct, x: bind(
            REAL_INVERSE, _interior_times(0.5, ct, x.shape[-2]), odd=bool(x.shape[-2] % 2)
        ),
        axes=matrix_axes("nr", "mc"), domain=_ANY, test={"shapes": ((2, 6, 2),)},
    )
)  # fmt: skip


def _count(x: Any, odd: bool) -> int:
    """How many real numbers have the transform of which *x* is the half."""
    return 2 * (x.shape[-2] - 1) + odd


def _infer_inverse(x: Aval, odd: bool) -> Aval:
    _length(x, 2)
    return Aval(x.dtype, (*x.shape[:-2], _count(x, odd), x.shape[-1] // 2))


def _inverse(x: Any, odd: bool, xp: Any = np) -> Any:
    return xp.fft.irfft(_numbers(xp.asarray(x), xp), _count(x, odd), axis=-2, norm="forward")


REAL_INVERSE: Primitive = register(
    Primitive(
        "real_inverse_dft", LAPACK, _inverse, _infer_inverse,
        transpose=lambda ct, x, odd: _interior_times(2, bind(REAL_DFT, ct), ct.aval.shape[-2]),
        axes=matrix_axes("mc", "nr"), domain=_ANY, test={"shapes": ((2, 4, 4),), "params": {"odd": True}},
    )
)  # fmt: skip


# ---- of real and complex matrices ----------------------------------------------------------------------------------


def _buffer(x: Atom) -> Atom:
    found = buffer_of(x)
    return reshape(found, (*found.shape[:-2], 2 * found.shape[-2]))


def _matrices(buffer: Atom, dtype: np.dtype) -> Atom:
    shape = buffer.aval.shape
    return complex_of(reshape(buffer, (*shape[:-1], shape[-1] // 2, 2)), dtype)


def dft(x: Atom, inverse: bool = False) -> Atom:
    """The sums of x[j] exp(-2 pi i j k / n) over columns of *x*, real or complex; *inverse*: with the conjugates."""
    if x.aval.is_complex:
        return _matrices(bind(DFT, _buffer(x), inverse=inverse), x.aval.dtype)
    half, axis, n = real_dft(x), x.aval.ndim - 2, x.aval.shape[-2]
    half = conjugate(half) if inverse else half
    count = (n - 1) // 2
    if not count:
        return half
    # the other half, of which it is the conjugate, backward
    return concat([half, conjugate(slice_axis(half, axis, count, count, -1))], axis)


def real_dft(x: Atom) -> Atom:
    """The first n // 2 + 1 of the sums of a real *x*, (..., n, k)."""
    return _matrices(bind(REAL_DFT, x), _COMPLEX_OF[x.aval.dtype])


def real_inverse(x: Atom, size: int) -> Atom:
    """The *size* real sums of which the complex *x*, (..., size // 2 + 1, k), has the first half of the terms."""
    return bind(REAL_INVERSE, _buffer(x), odd=bool(size % 2))
