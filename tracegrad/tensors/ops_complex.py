"""Complex numbers: their parts, as views and as tensors of pairs; conjugates; angles; complex tensors of real ones.

``real``, ``imag``, ``view_as_real`` and ``view_as_complex`` share the memory.  A conjugate is a copy, where PyTorch
has a view that is conjugated when it is read: so there is nothing to resolve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tracer.ir.graph import Pair
from ..tracer.ops.elementwise import F, broadcast_to
from ..tracer.record.array import TracedArray, to_atom, wrap_array
from . import dtypes
from .apply import apply
from .arguments import dtype_name
from .inplace import apply_view
from .op import EagerOp
from .ops_basic import floating
from .signature import function, method
from .tensor import METHODS, Tensor, make, raw

# ---- parts ---------------------------------------------------------------------------------------------------------


def _pairs(x: Any) -> Any:
    """The lanes of complex numbers along a new last axis."""
    return x[..., None].view(dtypes.lane_of(x.dtype))


def _of_pairs(x: Any) -> Any:
    return x.view(dtypes.complex_with(x.dtype))[..., 0]


REAL = EagerOp("Select", lambda x: x.real)
IMAG = EagerOp("Select", lambda x: x.imag)
VIEW_AS_REAL = EagerOp("ViewAsReal", _pairs)
VIEW_AS_COMPLEX = EagerOp("ViewAsComplex", _of_pairs)


@function
def real(input: Tensor) -> Tensor:
    """The real parts: a view, of real tensors the tensor itself."""
    return apply_view(REAL, input) if input._data.dtype.kind == "c" else input


@function
def imag(input: Tensor) -> Tensor:
    """The imaginary parts: a view.  RuntimeError for real tensors."""
    if input._data.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return apply_view(IMAG, input)


@method
def view_as_real(input: Tensor) -> Tensor:
    """The real and imaginary parts along a new last dimension of size 2: a view."""
    if input._data.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return apply_view(VIEW_AS_REAL, input)


@method
def view_as_complex(input: Tensor) -> Tensor:
    """The complex numbers whose parts lie along the last dimension, of size 2: a view."""
    data = raw(input)
    if data.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{dtype_name(input)}"
        )
    if not data.ndim or data.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if type(data) is not TracedArray and data.size and data.strides[-1] != data.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    return apply_view(VIEW_AS_COMPLEX, input)


def _property(part: Callable[[Tensor], Tensor]) -> property:
    """``t.real``, which may be assigned to."""

    def write(t: Tensor, value: Any) -> None:
        part(t)[...] = value

    return property(part, write)


# ---- conjugates ----------------------------------------------------------------------------------------------------

CONJ = EagerOp("Conj", lambda x: x.conj())


@method
def conj(input: Tensor) -> Tensor:
    """The complex conjugates, a copy; of real tensors the tensor itself."""
    return apply(CONJ, (input,)) if input._data.dtype.kind == "c" else input


@method
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are copies."""
    return input


@method
def is_conj(input: Tensor) -> bool:
    """False: conjugates are copies."""
    return False


@method
def adjoint(input: Tensor) -> Tensor:
    """Matrices transposed, and conjugated."""
    return conj(input.mT)


def _transposed(input: Tensor) -> Tensor:
    if input.ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor.")
    return conj(input.T)


# ---- facts ---------------------------------------------------------------------------------------------------------


@method
def isreal(input: Tensor) -> Tensor:
    """Whether each element has no imaginary part, as bools."""
    data = raw(input)
    return make(np.asarray(data.imag == 0) if type(data) is np.ndarray else data.imag == 0)


# ---- sizes and angles ----------------------------------------------------------------------------------------------


def _angle(x: Any) -> Any:
    if type(x) is not TracedArray:
        found: Any = np.angle(x) if x.dtype.kind == "c" else np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0.0))
        return found.astype(dtypes.lane_of(x.dtype))
    if x.dtype.kind == "c":
        return np.angle(x)
    atom = to_atom(np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0.0)).astype(x.dtype))
    return wrap_array(F.stop_gradient(atom))


ANGLE = EagerOp("Angle", _angle)


@method
def angle(input: Tensor) -> Tensor:
    """The angles of complex numbers, between -pi and pi; of real ones 0 or pi."""
    return apply(ANGLE, (floating(input),))


# ---- complex tensors of real ones ----------------------------------------------------------------------------------


def _complex(re: Any, im: Any) -> Any:
    dtype = dtypes.complex_with(re.dtype)
    shape = np.broadcast_shapes(re.shape, im.shape)
    if type(re) is TracedArray or type(im) is TracedArray:
        return wrap_array(Pair(broadcast_to(to_atom(re), shape), broadcast_to(to_atom(im), shape), dtype))
    found = np.empty(shape, dtype)
    found.real, found.imag = re, im
    return found


COMPLEX = EagerOp("Complex", _complex)
POLAR = EagerOp("Polar", lambda size, angle: _complex(size * np.cos(angle), size * np.sin(angle)))


@function
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """The complex numbers of these real and imaginary parts, of one floating dtype, with broadcasting."""
    return apply(COMPLEX, _parts(real, imag))


@function
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """The complex numbers of these sizes and angles, of one floating dtype, with broadcasting."""
    return apply(POLAR, _parts(abs, angle))


def _parts(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    for t in (first, second):
        if t.dtype not in (dtypes.float32, dtypes.float64):
            raise RuntimeError(
                f"Expected both inputs to be Half, Float or Double tensors but got {dtype_name(first)} and "
                f"{dtype_name(second)}"
            )
    if first.dtype != second.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {dtype_name(first)} but got scalar type {dtype_name(second)} for second "
            "argument"
        )
    return first, second


METHODS["conj_physical"] = conj
Tensor.real = _property(real)  # type: ignore[attr-defined]
Tensor.imag = _property(imag)  # type: ignore[attr-defined]
Tensor.H = property(_transposed)  # type: ignore[attr-defined]
Tensor.mH = property(adjoint)  # type: ignore[attr-defined]
