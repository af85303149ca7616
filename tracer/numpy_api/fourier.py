"""np.fft: NumPy's own Python, down to the function through which all of its transforms go."""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import HALF
from ..ir.errors import ShapeError
from ..ir.graph import Atom, Lit
from ..ir.site import at_site
from ..ops.complex import by_lane, conjugate
from ..ops.elementwise import F, cast, promote
from ..ops.fourier import dft, real_dft, real_inverse
from ..ops.shape import concat, reshape, slice_axis, zeros
from ..record.array import FUNCTIONS, wrap
from .from_source import source_of
from .hooks import hook
from .registry import float_atom, one_axis

_TRANSFORMS = (
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn",
    "irfftn", "fftshift", "ifftshift",
)  # fmt: skip


def of_length(x: Atom, axis: int, n: int) -> Atom:
    """*x* cut, or continued by zeros, to the length *n* along *axis*."""
    length = x.aval.shape[axis]
    if length >= n:
        return slice_axis(x, axis, 0, n)

    def padded(lane: Atom) -> Atom:
        shape = (*lane.aval.shape[:axis], n - length, *lane.aval.shape[axis + 1 :])
        return concat([lane, zeros(shape, lane.aval.dtype)], axis)

    return by_lane(padded, x)


def along(transform: Callable[[Atom], Atom], x: Atom, axis: int) -> Atom:
    """*transform*, which is one of the columns of matrices, along *axis*."""
    before, after = x.aval.shape[:axis], x.aval.shape[axis + 1 :]
    found = transform(reshape(x, (*before, x.aval.shape[axis], math.prod(after))))
    return reshape(found, (*before, found.aval.shape[-2], *after))


def scaled(x: Atom, factor: float) -> Atom:
    return x if factor == 1 else by_lane(lambda lane: F.mul(lane, Lit(factor, lane.aval.dtype)), x)


def norm_factor(norm: Any, n: int, forward: bool) -> float:
    """The factor of a transform of *n* numbers, or of its inverse, by the name of the *norm*."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(at_site(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".'))
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") == forward else 1


def transformed(x: Atom, n: int, axis: int, kind: str, forward: bool, norm: Any) -> Atom:
    """The discrete Fourier transform of *n* numbers along *axis*, or its inverse.  *kind*: from complex numbers to such
    (c2c); the first half of that of real ones (r2c), and the real ones of a half (c2r)."""
    factor = norm_factor(norm, n, forward)
    x = of_length(as_complex(x), axis, n // 2 + 1) if kind == "c2r" else of_length(x, axis, n)
    if kind == "c2c":
        found = along(lambda z: dft(z, not forward), x, axis)
    elif kind == "r2c":
        found = along(real_dft, x, axis)
        found = found if forward else conjugate(found)
    else:
        found = along(lambda z: real_inverse(z, n), conjugate(x) if forward else x, axis)
    return scaled(found, factor)


def as_complex(x: Atom) -> Atom:
    return promote(x, Lit(0j, np.dtype(complex), weak=True))[0]


def _raw_fft(a: Any, n: Any, axis: Any, is_real: bool, is_forward: bool, norm: Any, out: Any = None) -> Any:
    """As NumPy's; *out* is assigned to by the caller."""
    x, n = float_atom(a), operator.index(n)
    if n < 1:
        raise ShapeError.here(f"Invalid number of FFT data points ({n}) specified.")
    half = x.aval.dtype if x.aval.dtype in HALF else None
    x = cast(x, np.dtype("float32")) if half else x
    if is_real and is_forward and x.aval.is_complex:
        raise TypeError(at_site(f"np.fft.rfft and ihfft are of real numbers, not of {x.aval.dtype}"))
    kind = "c2c" if not is_real else "r2c" if is_forward else "c2r"
    found = transformed(x, n, one_axis(axis, x.aval.ndim, "np.fft"), kind, is_forward, norm)
    return wrap(cast(found, half) if half and not found.aval.is_complex else found)


_numpys: Any = importlib.import_module("numpy.fft._pocketfft")
hook(_numpys._raw_fft, _raw_fft)
for _name in _TRANSFORMS:
    FUNCTIONS[getattr(np.fft, _name)] = source_of(getattr(np.fft, _name))
