"""Fewer passes of the garbage collector while a function is recorded, or modules are imported.

Both make many small objects that live on, and the collector goes over them again and again, which takes a fifth of the
time.  Its threshold is the process's, so several threads share one change of it,
and what the user sets meanwhile stays.
"""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager

from .forks import SharedChange

OBJECTS = 200_000  # new objects between two passes, at least

_before: tuple[int, int, int] = gc.get_threshold()


def _begin() -> None:
    global _before
    _before = gc.get_threshold()
    if 0 < _before[0] < OBJECTS:
        gc.set_threshold(OBJECTS, *_before[1:])


def _end() -> None:
    if gc.get_threshold() == (OBJECTS, *_before[1:]):
        gc.set_threshold(*_before)


RECORDINGS = SharedChange(_begin, _end)


def fewer_collections() -> AbstractContextManager[None]:
    """A context in which the garbage collector runs less often (where it is enabled)."""
    return RECORDINGS.needed()


def lives_on() -> None:
    """Tell the collector that what has been made lately is not garbage: it counts as old from now on, and has cost no
    pass. (What the user has frozen stays frozen.)"""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
