"""Memory budget for the residuals of a loop, set by ``config.loop_memory``."""

from __future__ import annotations

import os


class LoopMemory:
    """``budget``: bytes for the residuals of one loop."""

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
