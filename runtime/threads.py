"""How many threads a kernel may use: ``config.num_threads``, of which the machine code of the pool reads a cell."""

from __future__ import annotations

import ctypes
import math
import os

from ..codegen.cpu.cpython import immortal

MOST = 64  # threads, and chunks of one loop nest


def available_cores() -> int:
    """The cores that this process may use: its affinity, and the limit of its control group."""
    try:
        cores = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        cores = os.cpu_count() or 1
    return max(1, min(cores, _quota()))


def _quota() -> int:
    """Whole cores by the limit of the control group (cgroup v2, then v1) as a container has it."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            limit, period = file.read().split()
    except (OSError, ValueError):
        try:
            with (
                open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") as quota,
                open("/sys/fs/cgroup/cpu/cpu.cfs_period_us") as length,
            ):
                limit, period = quota.read().strip(), length.read().strip()
        except OSError:
            return MOST
    try:
        return math.ceil(int(limit) / int(period)) if int(limit) > 0 and int(period) > 0 else MOST
    except ValueError:  # "max"
        return MOST


class Threads:
    """The number of threads; ``cell`` holds it for machine code, and lives as long as the process."""

    def __init__(self) -> None:
        self.cell = ctypes.c_int64(1)

    def set(self, count: int) -> int:
        """Make it *count*, all cores where that is 0, and at most ``MOST``; the number that it is now.

        Raises:
            ValueError: *count* is negative.
        """
        if count < 0:
            raise ValueError(f"num_threads must be a number of threads, or 0 for all cores, not {count}")
        self.cell.value = min(count or available_cores(), MOST)
        return self.cell.value


threads = Threads()
immortal(threads.cell)  # threads of the pool may read it at the very end of the process
