"""Fourier transforms of tensors, under PyTorch's names and with its arguments: the functions of ``tracegrad.fft``.

Each transform is a row of one of two tables.  Their derivatives are those of the rows that NumPy code has
(``tracer/ops/fourier.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import dtypes
from .apply import apply
from .arguments import dtype_name, many_dims, named, one_dim, tensor_argument
from .create import _float_or_default, _made
from .op import EagerOp
from .ops_basic import floating
from .tensor import METHODS, Tensor

TRANSFORMS: dict[str, Callable[..., Any]] = {}

# name -> (name of the node, contents): along one dimension
_ONE = {
    "fft": ("FftC2C", "The Fourier transform along *dim*"),
    "ifft": ("FftC2C", "The inverse Fourier transform along *dim*"),
    "rfft": ("FftR2C", "The half without negative frequencies of the Fourier transform of real numbers along *dim*"),
    "irfft": ("FftC2R", "The inverse of ``rfft`` along *dim*: real numbers, *n* of them (an even number unless given)"),
    "hfft": ("FftC2R", "The Fourier transform, which is real, of Hermitian numbers given by half of them along *dim*"),
    "ihfft": ("FftR2C", "The inverse of ``hfft`` along *dim*"),
}
# along several
_SEVERAL = {
    name: (label, f"{contents} along several dimensions")
    for name, label, contents in (
        ("fft", "FftC2C", "The Fourier transform"),
        ("ifft", "FftC2C", "The inverse Fourier transform"),
        ("rfft", "FftR2C", "The half without negative last frequencies of the Fourier transform of real numbers"),
        ("irfft", "FftC2R", "The inverse of ``rfft``, real numbers,"),
    )
}
_NORMS = (None, "forward", "backward", "ortho")


def _read(name: str, input: Any, norm: Any) -> Tensor:
    """*input* as floats or complex numbers, which are real where the transform takes such only."""
    t = floating(tensor_argument(f"fft_{name}", input))
    if name.startswith(("rfft", "ihfft")) and t.dtype.kind == "c":
        raise RuntimeError(f"{name} expects a real input tensor, but got {dtype_name(t)}")
    if norm not in _NORMS:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if t.dtype in (dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(f"Unsupported dtype {dtype_name(t)}: transforms are of float32, float64 and complex tensors")
    return t


def _one(name: str, label: str, contents: str) -> None:
    transform = getattr(np.fft, name)
    op = EagerOp(label, lambda x, n, dim, norm: transform(x, n, dim, norm))

    def function(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        t = _read(name, input, norm)
        if n is not None and n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        return apply(op, (t,), (None if n is None else int(n), one_dim(dim, t.ndim), norm))

    TRANSFORMS[name] = named(function, name, f"{contents}, of *n* numbers: cut off, or filled up with zeros.")


def _several(name: str, label: str, contents: str) -> None:
    transform = getattr(np.fft, f"{name}n")
    op = EagerOp(label, lambda x, s, dims, norm: transform(x, s, dims, norm))

    def function(
        input: Tensor, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
    ) -> Tensor:  # fmt: skip
        t = _read(name, input, norm)
        sizes = None if s is None else tuple([int(n) for n in s])
        given = (dim,) if isinstance(dim, int) else dim
        if given is None:
            given = range(t.ndim) if sizes is None else range(-len(sizes), 0)
        dims = tuple([one_dim(d, t.ndim) for d in given])
        many_dims(dims, t.ndim)  # which are distinct
        if sizes is not None and len(sizes) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if sizes is not None:
            sizes = tuple([t.shape[d] if n == -1 else n for n, d in zip(sizes, dims, strict=True)])
        return apply(op, (t,), (sizes, dims, norm))

    TRANSFORMS[f"{name}n"] = named(function, f"{name}n", f"{contents} (all of them, or as many last ones as *s* has).")

    def of_two(
        input: Tensor, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
    ) -> Tensor:  # fmt: skip
        return function(input, s, dim, norm)

    TRANSFORMS[f"{name}2"] = named(of_two, f"{name}2", f"``{name}n`` along the last two dimensions, or two others.")


for _name, _row in _ONE.items():
    _one(_name, *_row)
for _name, _row in _SEVERAL.items():
    _several(_name, *_row)


# ---- frequencies ---------------------------------------------------------------------------------------------------


def _frequencies(name: str, contents: str) -> None:
    compute = getattr(np.fft, name)

    def function(
        n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        return _made(compute(int(n), d).astype(_float_or_default(dtype)), requires_grad, device)

    TRANSFORMS[name] = named(function, name, f"The frequencies of ``{contents}`` of *n* samples, *d* apart.")


def _shifted(name: str, sign: int, contents: str) -> None:
    def function(input: Tensor, dim: Any = None) -> Tensor:
        dims = many_dims(dim, tensor_argument(f"fft_{name}", input).ndim)
        shifts = tuple([(input.shape[d] // 2 if sign > 0 else -(input.shape[d] // 2)) for d in dims])
        return METHODS["roll"](input, shifts, dims) if dims else METHODS["clone"](input)

    TRANSFORMS[name] = named(function, name, contents)


_frequencies("fftfreq", "fft")
_frequencies("rfftfreq", "rfft")
_shifted("fftshift", 1, "With the frequency 0 in the middle, along all dimensions or *dim*.")
_shifted("ifftshift", -1, "The inverse of ``fftshift``.")
