"""Fewer passes of the garbage collector while a function is recorded, or modules are imported.

Both make many small objects that live on, and the collector goes over them again and again, which takes a fifth of the
time.  Its threshold is the process's, so several threads share one change of it,
and what the user sets meanwhile stays.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .interrupts import kept

OBJECTS = 50_000  # new objects between two passes, at least

_lock = threading.RLock()
_running: dict[int, int] = {}  # recordings in progress by thread, where there are any
_before: tuple[int, int, int] = gc.get_threshold()


@contextmanager
def fewer_collections() -> Iterator[None]:
    """A context in which the garbage collector runs less often (where it is enabled)."""
    before = _depth()
    try:
        _set_depth(before + 1)
        yield
    finally:
        _set_depth(before)


def _depth() -> int:
    return _running.get(threading.get_ident(), 0)


def _set_depth(depth: int) -> None:
    """Note how many recordings are in progress in this thread."""
    global _before
    if depth == _depth():
        return
    with _lock:
        if depth:
            if not _running:
                _before = gc.get_threshold()
            _running[threading.get_ident()] = depth
            if len(_running) == 1 and 0 < _before[0] < OBJECTS:
                gc.set_threshold(OBJECTS, *_before[1:])
            return
        if len(_running) == 1 and gc.get_threshold() == (OBJECTS, *_before[1:]):
            gc.set_threshold(*_before)
        del _running[threading.get_ident()]


kept(_depth, _set_depth)
