"""Memory that nobody has used yet."""

from __future__ import annotations

import mmap

import numpy as np

_LARGE_PAGE = 1 << 21


def fresh_memory(nbytes: int) -> np.ndarray:
    """Bytes that nobody else uses.  Many of them stand on whole large pages, where the system has such: it takes as
    long to give a small one."""
    if nbytes < _LARGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.empty(nbytes, np.uint8)
    try:
        block = mmap.mmap(-1, (nbytes // _LARGE_PAGE + 2) * _LARGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block.madvise(mmap.MADV_HUGEPAGE)
    except OSError:
        return np.empty(nbytes, np.uint8)
    found = np.frombuffer(block, np.uint8)
    start = -address_of(found) % _LARGE_PAGE
    return found[start : start + nbytes]


def address_of(data: np.ndarray | bytes) -> int:
    """Where the bytes of *data* stand."""
    a = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    return a.__array_interface__["data"][0]
