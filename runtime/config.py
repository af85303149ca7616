"""Settings, read from the environment when tracegrad is imported and changeable afterwards."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(slots=True)
class Config:
    """``check``: run every call in the interpreter too, and compare (``TRACEGRAD_CHECK=1``).
    ``max_kernels``: kernels kept in memory.  ``max_paths``: branches kept for one kind of call before Python runs each time.
    ``max_variants``: kinds of call (shapes, states) remembered by one function."""

    check: bool = os.environ.get("TRACEGRAD_CHECK", "0") not in ("", "0")
    max_kernels: int = int(os.environ.get("TRACEGRAD_MAX_KERNELS", "1024"))
    max_paths: int = int(os.environ.get("TRACEGRAD_MAX_PATHS", "32"))
    max_variants: int = int(os.environ.get("TRACEGRAD_MAX_VARIANTS", "256"))


config = Config()
