"""Availability of CUDA devices, with the reason where there is none.

``cuda_status`` looks once and remembers.  ``require_cuda`` gives the backend, or the one error that says what to
install.  The other functions are the API of ``tracegrad.cuda``; where there is no device queries answer False or 0,
the others raise that error.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from ...codegen.evaluate.cupy_backend import CupyBackend
from ...codegen.evaluate.cupy_exceptions import Modules
from ...tracer.ir.data_classes import dataclass
from ...tracer.ir.errors import DeviceError

IN_USE = [False]  # whether a device has been found: before that no array can be on one
LEAST_CAPABILITY = (7, 5)  # of the device: CUDA 13 compiles for none that is older
INSTALL = "pip install 'tracegrad[cuda]'"


@dataclass(frozen=True, slots=True)
class Status:
    """Result of the search: *backend*, or a text on what is *missing* and what to do about it."""

    missing: str
    backend: CupyBackend | None = None


@functools.cache
def cuda_status() -> Status:
    """The status of CUDA, determined once in a process."""
    try:
        xp = importlib.import_module("cupy")
        special = importlib.import_module("cupyx.scipy.special")
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            return Status(f"CuPy is not installed: {INSTALL}")
        return Status(f"CuPy cannot be imported ({error}): reinstall it with {INSTALL}")
    missing = _missing_hardware(xp)
    if missing:
        return Status(missing)
    IN_USE[0] = True
    return Status("", CupyBackend(Modules(xp, special)))


def _missing_hardware(xp: Any) -> str:
    """Text on what is missing below CuPy (a driver, a device, one that is new enough); "" if nothing is."""
    runtime = xp.cuda.runtime
    try:
        driver = runtime.driverGetVersion()
    except runtime.CUDARuntimeError as error:
        return f"the CUDA driver does not answer ({error}): install an NVIDIA driver"
    if driver == 0:
        return "there is no NVIDIA driver: install one (nvidia-smi shows it), or use target='cpu'"
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return f"the NVIDIA driver cannot be used ({error}): update it, or install the CuPy for its version of CUDA"
    if count == 0:
        return "the NVIDIA driver sees no device: check CUDA_VISIBLE_DEVICES"
    capability = xp.cuda.Device().compute_capability
    if (int(capability[:-1]), int(capability[-1])) < LEAST_CAPABILITY:
        least = ".".join(map(str, LEAST_CAPABILITY))
        return f"the device has compute capability {capability[:-1]}.{capability[-1]}, and {least} is the least"
    return ""


def require_cuda(what: str) -> CupyBackend:
    """The backend; DeviceError, naming *what* asked for it, where there is none."""
    status = cuda_status()
    if status.backend is None:
        raise DeviceError.here(f"{what} needs a CUDA device: {status.missing}")
    return status.backend


# ---- what scripts ask ----------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether tensors and compiled functions can use a CUDA device."""
    return cuda_status().backend is not None


def device_count() -> int:
    """The number of CUDA devices; 0 where none can be used."""
    backend = cuda_status().backend
    return 0 if backend is None else int(backend.modules.xp.cuda.runtime.getDeviceCount())


def current_device() -> int:
    """The number of the current device."""
    return int(require_cuda("cuda.current_device()").modules.xp.cuda.Device().id)


def get_device_name(device: Any = None) -> str:
    """The name of a device, by number or ``device`` (default: the current one)."""
    xp = require_cuda("cuda.get_device_name()").modules.xp
    index = getattr(device, "index", device)
    if isinstance(index, str):
        index = int(index.partition(":")[2] or 0)
    name = xp.cuda.runtime.getDeviceProperties(current_device() if index is None else index)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def synchronize(device: Any = None) -> None:
    """Wait until everything that was asked of the device is done."""
    require_cuda("cuda.synchronize()").modules.xp.cuda.Device().synchronize()


def empty_cache() -> None:
    """Give memory that is kept for later arrays back to the driver; nothing where there is no device."""
    backend = cuda_status().backend
    if backend is not None:
        backend.modules.xp.get_default_memory_pool().free_all_blocks()


def memory_allocated(device: Any = None) -> int:
    """Bytes of device memory that arrays occupy; 0 where there is no device."""
    backend = cuda_status().backend
    if backend is None:
        return 0
    return int(backend.modules.xp.get_default_memory_pool().used_bytes())


__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_name", "is_available", "memory_allocated",
    "synchronize",
]  # fmt: skip
