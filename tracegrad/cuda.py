"""Queries about CUDA devices.  Importing this module and ``is_available()`` need none."""

from .runtime.cuda.availability import (
    current_device,
    device_count,
    empty_cache,
    get_device_name,
    is_available,
    memory_allocated,
    synchronize,
)
from .tracer.ir.errors import OutOfMemoryError

__all__ = [
    "OutOfMemoryError",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "memory_allocated",
    "synchronize",
]
