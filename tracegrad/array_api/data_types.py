"""Dtypes of the standard, and functions about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime.cuda.availability import device_count
from ..tensors import dtypes
from ..tensors.device import device
from ..tensors.device import get_default_device as default_device
from ..tensors.dtypes import as_dtype
from ..tensors.ops_basic import to_dtype
from ..tensors.ops_facts import to
from ..tensors.tensor import METHODS, Tensor
from ..tracer.ir import aval
from .rows import written

_NAMES = ["bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))]
_NAMES += ["float32", "float64", "complex64", "complex128"]
DTYPES: dict[str, np.dtype] = {n: np.dtype(n) for n in _NAMES}


@written
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """*x* in another dtype, and on *device*; unless *copy*, *x* itself where nothing changes."""
    found = to_dtype(x, as_dtype(dtype))
    found = found if device is None else to(found, device)
    return METHODS["clone"](found) if copy and found is x else found


@written
def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype, or that of a tensor, can be cast to the dtype *to* by the rules of promotion."""
    return np.can_cast(as_dtype(getattr(from_, "dtype", from_)), as_dtype(to))


@written
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether *dtype* is of a *kind*: a dtype, the name of a kind ("integral", ...), or a tuple of them."""
    return np.isdtype(dtype, kind)


@written
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype in which tensors, dtypes and Python numbers meet.

    Tensors without axes count as any other, where operators of tensors let them yield, as PyTorch does."""
    return np.result_type(*[v.dtype if isinstance(v, Tensor) else v for v in arrays_and_dtypes])


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a floating dtype, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype


@dataclass(frozen=True)
class IntegerInfo:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: np.dtype


@written
def finfo(type: Any, /) -> FloatInfo:
    """Limits of a floating dtype, or that of a tensor; of a complex one those of its parts."""
    found = aval.finfo(as_dtype(getattr(type, "dtype", type)))
    eps, high, low, smallest = [float(v) for v in (found.eps, found.max, found.min, found.smallest_normal)]
    return FloatInfo(int(found.bits), eps, high, low, smallest, np.dtype(found.dtype))


@written
def iinfo(type: Any, /) -> IntegerInfo:
    """Limits of an integer dtype, or that of a tensor."""
    dtype = as_dtype(getattr(type, "dtype", type))
    found = np.iinfo(dtype)
    return IntegerInfo(int(found.bits), int(found.max), int(found.min), dtype)


class Info:
    """Facts about the namespace."""

    def capabilities(self) -> dict[str, Any]:
        """Features that consumers may rely on."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> device:
        """The device of tensors made without ``device=``."""
        return default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of what is made without ``dtype=``."""
        real = dtypes.get_default_dtype()
        whole = {"integral": dtypes.int64, "indexing": dtypes.int64}
        return {"real floating": real, "complex floating": dtypes.default_complex(), **whole}

    def devices(self) -> list[device]:
        """The devices that tensors can be on."""
        return [device("cpu"), *(device("cuda", k) for k in range(device_count()))]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """Dtypes by name, those of one *kind* or of a tuple of kinds."""
        return {n: d for n, d in DTYPES.items() if kind is None or np.isdtype(d, kind)}


@written
def __array_namespace_info__() -> Info:  # noqa: N807  (the standard's name)
    """Capabilities, devices and dtypes."""
    return Info()
