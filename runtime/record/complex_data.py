"""Complex arrays at the boundary of a kernel, which knows their lanes only.

An argument becomes a float array over the same memory, with the lanes along a last axis of 2; a result of that form
becomes a complex array in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tracer.ir.aval import COMPLEX, Aval
from ...tracer.ir.errors import UnsupportedError
from ...tracer.ir.graph import Atom, Pair
from ...tracer.ops.complex import buffer_of, complex_of
from .trees import Source


def lanes_of(value: Any) -> Any:
    """The lanes of a complex array or number: a float array (..., 2), over the memory of an array."""
    if isinstance(value, (complex, np.complexfloating)):
        return np.array((value.real, value.imag))
    if type(value) is not np.ndarray:  # on a device
        return value.reshape(-1).view(COMPLEX[value.dtype]).reshape(*value.shape, 2)
    return value[..., None].view(COMPLEX[value.dtype])


def taker(leaf: Any) -> Callable[[Any], Any]:
    """``lanes_of`` for values of the type of *leaf*; None of others."""
    kind = type(leaf)
    if kind is not np.ndarray:
        return lambda x: lanes_of(x) if type(x) is kind else None
    dtype, floats, contiguous = leaf.dtype, COMPLEX[leaf.dtype], leaf.ndim <= 1 or leaf.flags.c_contiguous

    def take(x: Any) -> Any:
        if type(x) is not kind or x.dtype is not dtype or (x.ndim > 1 and x.flags.c_contiguous is not contiguous):
            return None
        return x[..., None].view(floats)

    return take


def array_of(buffer: Any) -> Any:
    """The complex array over a buffer of lanes; a scalar of a single number."""
    if type(buffer) is not np.ndarray:
        raise UnsupportedError.here(
            "a compiled function does not give complex results of arrays on a CUDA device: return z.real and z.imag, "
            "or pass NumPy arrays with target='cuda'"
        )
    dtype = np.complex128 if buffer.dtype.itemsize == 8 else np.complex64
    return buffer.view(dtype)[..., 0] if buffer.ndim > 1 else buffer.view(dtype)[0]


def _number_of(buffer: Any) -> Any:
    return complex(*buffer.tolist())


def joins_lanes(function: Any) -> bool:
    """Whether this is a function that makes a complex array, or number, of the buffer of its lanes."""
    return function is array_of or function is _number_of


def as_result(atom: Atom) -> Atom:
    """The atom by which a graph gives *atom*."""
    return buffer_of(atom) if atom.aval.is_complex else atom


def conjugated(buffer: Atom) -> Atom:
    """The buffer of the conjugates."""
    dtype = next(dtype for dtype, lane in COMPLEX.items() if lane == buffer.aval.dtype)
    z = complex_of(buffer, dtype)
    return buffer_of(Pair(z.re, -z.im, dtype))


def gradient_text_of(leaf: Any, source: Source, text: str, conjugate: bool) -> str:
    """The text of the gradient of *leaf* from that of a kernel's result; *conjugate*: of its conjugate."""
    text = f"{source.constant(_number_of if type(leaf) is complex else array_of)}({text})"
    return f"{text}.conjugate()" if conjugate else text


def text_of(aval: Aval, source: Source, text: str) -> str:
    """The text of the user's value from that of a kernel's result, of *aval*."""
    if not aval.is_complex:
        return text
    return f"{source.constant(_number_of if aval.weak else array_of)}({text})"
