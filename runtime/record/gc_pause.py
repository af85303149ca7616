"""Fewer passes of the garbage collector while a function is recorded.

A recording makes many small objects that live until it ends, and the collector goes over them again and again, which
takes a fifth of its time.  Its threshold is the process's, so recordings in several threads share one change of it,
and what the user sets meanwhile stays.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 50_000  # new objects between two passes, at least

_lock = threading.RLock()
_running = 0
_before: tuple[int, int, int] = gc.get_threshold()


@contextmanager
def fewer_collections() -> Iterator[None]:
    """A context in which the garbage collector runs less often (where it is enabled)."""
    global _running, _before
    with _lock:
        _running += 1
        if _running == 1:
            _before = gc.get_threshold()
            if 0 < _before[0] < OBJECTS:
                gc.set_threshold(OBJECTS, *_before[1:])
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running and gc.get_threshold() == (OBJECTS, *_before[1:]):
                gc.set_threshold(*_before)
