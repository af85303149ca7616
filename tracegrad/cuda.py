"""Queries about CUDA devices.  Importing this module and ``is_available()`` need none."""

from .runtime.cuda import availability as _availability
from .runtime.cuda.availability import *  # noqa: F403
from .tracer.ir.errors import OutOfMemoryError

__all__ = ["OutOfMemoryError", *_availability.__all__]
