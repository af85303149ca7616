"""Settings that the compiler looks at. Users change them by ``config`` (``runtime/config.py``) and by contexts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np


class Notice(list[Callable[[], None]]):
    """Callbacks, which a call calls."""

    def __call__(self) -> None:
        for callback in self:
            callback()


#: Given when a setting of the process changes that recorded programs depend on, and slots do not look at.
SETTINGS_CHANGED = Notice()


class Checks:
    """Whether ``check_graph`` looks at every graph that becomes a program (``TRACEGRAD_CHECK=1``)."""

    every_graph = False


checks = Checks()


class Optimiser:
    """``level`` of LLVM's passes for kernels, as in -O2. With 0 compiling takes an eighth, and the code is slow, and
    for one thread: for tests of what is no property of the code. It is in the key of what is kept on disk, and of
    nothing in memory."""

    level = 2


optimiser = Optimiser()


class LoopMemory:
    """``budget``: bytes for the residuals of one loop, set by ``config.loop_memory``."""

    def __init__(self, budget: int):
        self.budget = budget


def quarter_of_free() -> int:
    """A quarter of the memory that is free now, in bytes."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024 // 4
    except OSError:
        pass
    if not hasattr(os, "sysconf"):  # Windows
        return 1 << 30
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8


loop_memory = LoopMemory(quarter_of_free())


class _Precision(threading.local):
    dtype: np.dtype | None = None


#: The dtype of products in this thread, or None: that of ``autocast`` (``record/autocast.py``).
AUTOCAST = _Precision()


class _Use:
    """Whether the setting has ever been on in this process: until then, slots need not look at it."""

    begun = False

    def begin(self) -> None:
        """Note that the setting is about to be on."""
        self.begun = True
        SETTINGS_CHANGED()


AUTOCAST_USE = _Use()
