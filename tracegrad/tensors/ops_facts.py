"""Facts about a tensor as NumPy or Python values; its elements in other dtypes; new tensors in its dtype."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS, INEXACT_KINDS
from ..tracer.ir.tracebacks import for_users
from ..tracer.ops.elementwise import F
from ..tracer.record.array import TracedArray
from . import create, dtypes
from .arguments import FUNCTIONS, one_dim, shape_argument
from .device import on_cuda
from .inplace import detach, detach_
from .ops_basic import to_dtype
from .signature import method
from .tensor import METHODS, Size, Tensor, raw, seen, seen_here
from .transfer import to_device

_MOST_INTS = 64  # of a list, each of which is a number of the program

# ---- sizes ---------------------------------------------------------------------------------------------------------


def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or the size of one dimension."""
    shape = self._data.shape
    if dim is None:
        return Size(shape)
    if not shape:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return shape[one_dim(dim, len(shape))]


@method
def numel(input: Tensor) -> int:
    """The number of elements."""
    return int(input._data.size)


@method
def dim(self: Tensor) -> int:
    """The number of dimensions."""
    return len(self._data.shape)


def stride(self: Tensor, dim: int | None = None) -> Any:
    """The distance in elements between neighbours along each dimension."""
    data = seen_here(self, "asks how a tensor lies in memory")
    found = tuple([s // data.itemsize for s in data.strides])
    return found if dim is None else found[one_dim(dim, len(found))]


@method
def element_size(self: Tensor) -> int:
    """The number of bytes of one element."""
    return self.dtype.itemsize


@method
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floats."""
    return input.dtype.kind in FLOAT_KINDS


@method
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return input.dtype.kind == "c"


@method
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input.dtype.kind in ("i", *INEXACT_KINDS)


@method
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return input._data.shape == other._data.shape


@method
def data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    data = seen_here(self, "asks where a tensor lies in memory")
    return data.data.ptr if on_cuda(data) else data.ctypes.data


# ---- values --------------------------------------------------------------------------------------------------------


@method
def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The array behind the tensor, which shares its memory; with *force*, a copy where that is on a CUDA device."""
    if self.is_cuda and not force:
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )
    if self.requires_grad and not force:
        with for_users:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    return seen(raw(self), "copies a tensor to the host") if self.is_cuda else raw(self)


@method
def tolist(self: Tensor) -> Any:
    """The elements as (nested lists of) Python numbers."""
    data = raw(self)
    if type(data) is TracedArray:  # numbers of the program, without gradients
        if data.dtype.kind in FLOAT_KINDS:
            return TracedArray(F.stop_gradient(data.atom), data._recorder).tolist()
        if data.dtype.kind in "iu" and data.size <= _MOST_INTS:
            return data.tolist()
    return seen(data, "turns a tensor into a list").tolist()


# ---- dtypes and devices --------------------------------------------------------------------------------------------


@method
def to(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """In another dtype or on another device: ``to(dtype)``, ``to(device, dtype)``, ``to(other)``; the tensor itself
    where nothing changes.  *copy* makes a copy in any case.
    """
    dtype, device = options.pop("dtype", None), options.pop("device", None)
    copy = options.pop("copy", False)
    for name in ("non_blocking", "memory_format", "other"):
        other = options.pop(name, None)
        args = (other, *args) if name == "other" and other is not None else args
    if options:
        raise TypeError(f"to() got an unexpected keyword argument {next(iter(options))!r}")
    flags = []
    for value in args:
        if isinstance(value, Tensor):
            dtype, device = value.dtype, value.device
        elif isinstance(value, bool):
            flags.append(value)
        elif value is not None and _is_dtype(value):
            dtype = value
        elif value is not None:
            device = value
    copy = copy or (len(flags) > 1 and flags[1])
    result = self if dtype is None else to_dtype(self, dtypes.as_dtype(dtype))
    if device is not None:
        result = to_device(result, device)
    return METHODS["clone"](self) if copy and result is self else result


def _is_dtype(value: Any) -> bool:
    return isinstance(value, (np.dtype, type)) or (isinstance(value, str) and value in dtypes._NAMES)


def _to(dtype: np.dtype, name: str) -> None:
    def body(self: Tensor, memory_format: Any = None) -> Tensor:
        return to_dtype(self, dtype)

    method(body, name, f"In {dtype}.")


@partial(method, name="type")
def type_of(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the kind of tensor, or the tensor in another dtype."""
    if dtype is None:
        return f"torch.{dtypes.scalar_name(self.dtype)}Tensor"
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        wanted = dtype.rpartition(".")[2][:-6]
        dtype = next((d for d, name in dtypes._SCALAR_NAMES.items() if name == wanted), dtype)
    return to_dtype(self, dtypes.as_dtype(getattr(dtype, "dtype", dtype)))


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """In the dtype of *other*."""
    return to_dtype(self, other.dtype)


@method
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """On the CPU: the tensor itself, or a copy, which waits for the device."""
    return to_device(self, "cpu")


@method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """On a CUDA device: the tensor itself if it is there, else a copy.  DeviceError, saying what is missing, where
    there is none."""
    return to_device(self, "cuda" if device is None else device)


# ---- new tensors like this one -------------------------------------------------------------------------------------


def _new(name: str, make: Callable[..., Any]) -> None:
    def body(
        self: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        shape = shape_argument(sizes if size is None else (size,))
        dtype = self.dtype if dtype is None else dtype
        device = create.beside(self._data, device)
        return make(shape, dtype=dtype, device=device, requires_grad=requires_grad)

    method(body, f"new_{name}", f"``{name}`` in the dtype of this tensor.")


_new("zeros", create.zeros)
_new("ones", create.ones)
_new("empty", create.empty)


@method
def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``full`` in the dtype of this tensor."""
    dtype = self.dtype if dtype is None else dtype
    device = create.beside(self._data, device)
    return create.full(size, fill_value, dtype=dtype, device=device, requires_grad=requires_grad)


@method
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``tensor(data)`` in the dtype of this tensor."""
    device = create.beside(self._data, device)
    return create.tensor(data, self.dtype if dtype is None else dtype, device, requires_grad)


METHODS.update(size=size, stride=stride, nelement=numel, ndimension=dim, detach=detach, detach_=detach_)
for _name, _dtype in (("float", dtypes.float32), ("double", dtypes.float64), ("half", dtypes.float16),
                      ("bfloat16", dtypes.bfloat16), ("int", dtypes.int32), ("long", dtypes.int64),
                      ("short", dtypes.int16), ("bool", dtypes.bool_), ("cfloat", dtypes.complex64),
                      ("cdouble", dtypes.complex128)):  # fmt: skip
    _to(_dtype, _name)
FUNCTIONS["is_tensor"] = lambda obj: isinstance(obj, Tensor)
