"""Arrays that lie on a CUDA device, whoever made them: CuPy, PyTorch, Numba, JAX, tracegrad.

They say so by two protocols, DLPack and ``__cuda_array_interface__``.  ``as_device`` gives a CuPy array over the same
memory.  Neither protocol waits on the host: the producer's stream is waited for by our stream, on the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...codegen.evaluate.cupy_backend import CupyBackend
from ...tracer.ir.aval import check_dtype
from ...tracer.ir.errors import DeviceError, UnsupportedError
from .availability import require_cuda

_DLPACK_CUDA = frozenset((2, 13))  # kDLCUDA, kDLCUDAManaged
_INTERFACE = "__cuda_array_interface__"
_PLAIN = frozenset((np.ndarray, float, int, bool, str, type(None), list, tuple, dict))
_SAME_STREAM = frozenset((0, 1))  # CuPy's name and the protocol's for the legacy default stream


def on_device(x: Any) -> bool:
    """Whether *x* declares, by a protocol, that it lies on a CUDA device (imports nothing)."""
    kind = type(x)
    if kind in _PLAIN or issubclass(kind, (np.generic, type)):
        return False
    if hasattr(kind, "__dlpack_device__"):
        try:
            return x.__dlpack_device__()[0] in _DLPACK_CUDA
        except (RuntimeError, TypeError, ValueError, BufferError):  # of another framework: it can't be exported
            return False
    try:  # past a `__getattr__`, which may answer any name, or raise anything
        own = object.__getattribute__(x, "__dict__")
    except AttributeError:
        own = {}
    return (hasattr(kind, _INTERFACE) or _INTERFACE in own) and isinstance(_interface(x), dict)


def _interface(x: Any) -> dict[str, Any] | None:
    """``__cuda_array_interface__``: a property that raises where the array is on another device."""
    return getattr(x, _INTERFACE, None)


def as_device(x: Any) -> Any:
    """A CuPy array over the memory of *x*, which is on the device.  No copy.

    DeviceError: it lies on another device than the current one.  UnsupportedError: it can't be shared, or has a dtype
    that is not supported.
    """
    backend = require_cuda(f"an argument of type {type(x).__name__}, which is on a CUDA device,")
    xp = backend.modules.xp
    if isinstance(x, xp.ndarray):
        array = x
    elif hasattr(type(x), "__dlpack__"):
        try:
            array = xp.from_dlpack(x)
        except (RuntimeError, TypeError, ValueError, BufferError) as error:
            raise UnsupportedError.here(f"a {type(x).__name__} on a CUDA device cannot be shared: {error}") from None
    else:
        array = _from_interface(x, backend)
    check_dtype(array.dtype, "an array on a CUDA device")
    current = xp.cuda.Device().id
    if array.device.id != current:
        raise DeviceError.here(
            f"an array is on cuda:{array.device.id}, but computing is on cuda:{current}; copy it there, or choose "
            f"the device before the process starts: CUDA_VISIBLE_DEVICES={array.device.id}"
        )
    return array


def _from_interface(x: Any, backend: CupyBackend) -> Any:
    """By ``__cuda_array_interface__``, version 3.  CuPy's own import makes the host wait for the producer's stream."""
    xp, described = backend.modules.xp, _interface(x)
    assert described is not None
    if described.get("mask") is not None:
        raise UnsupportedError.here("an array with a mask cannot be shared; fill it first")
    dtype, shape, strides = np.dtype(described["typestr"]), tuple(described["shape"]), described.get("strides")
    pointer = described["data"][0]
    if not dtype.isnative:
        raise UnsupportedError.here("an array of foreign byte order cannot be used on a CUDA device")
    if 0 in shape or not pointer:
        return xp.empty(shape, dtype)
    reach = [s * (n - 1) for s, n in zip(strides or (), shape, strict=bool(strides))]
    low = sum(min(0, r) for r in reach)  # bytes from the first element down to the lowest
    high = sum(max(0, r) for r in reach) if strides else dtype.itemsize * (math.prod(shape) - 1)
    memory = xp.cuda.UnownedMemory(pointer + low, high - low + dtype.itemsize, x)
    array = xp.ndarray(shape, dtype, xp.cuda.MemoryPointer(memory, -low), strides)
    _wait_for(described.get("stream"), xp)
    return array


def _wait_for(stream: int | None, xp: Any) -> None:
    """Let our stream wait for the work enqueued on the producer's *stream*; None: there is none."""
    if stream is None:
        return
    if stream == 0:
        raise UnsupportedError.here("__cuda_array_interface__ with stream 0, which its protocol forbids")
    ours = xp.cuda.get_current_stream()
    if stream == ours.ptr or (stream in _SAME_STREAM and ours.ptr in _SAME_STREAM):
        return
    ours.wait_event(xp.cuda.ExternalStream(stream).record())


def byte_bounds(array: Any) -> tuple[int, int]:
    """(address of the lowest byte, address after the highest) of an array with elements, wherever it lies."""
    if type(array) is np.ndarray:
        return np.lib.array_utils.byte_bounds(array)
    reach = [s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)]
    start = int(array.data.ptr)
    return start + sum(min(0, r) for r in reach), start + sum(max(0, r) for r in reach) + array.itemsize


def upload(array: np.ndarray) -> Any:
    """A copy of *array* on the device.  The host goes on as soon as *array* may be written to."""
    backend = require_cuda("a copy to the device")
    with backend.memory_errors():
        return backend.upload(array)


def full(shape: Sequence[int], value: Any, dtype: Any) -> Any:
    """An array of one number on the device."""
    backend = require_cuda("an array on the device")
    with backend.memory_errors():
        return backend.modules.xp.full(tuple(shape), value, dtype)


def download(array: Any) -> np.ndarray:
    """A copy of a device array on the host.  Waits for it."""
    return array.get()
