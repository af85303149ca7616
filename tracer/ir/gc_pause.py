"""Fewer passes of the garbage collector while a function is recorded or compiled, or modules are imported.

All of these make many small objects that live on, and the collector goes over them again and again, which takes a
fifth to a third of the time.  Its threshold is the process's, so several threads share one change of it, and what the
user sets meanwhile stays.
"""

from __future__ import annotations

import gc
import importlib
import sys
from contextlib import AbstractContextManager
from typing import Any

from .forks import SharedChange

OBJECTS = 100_000  # new objects between two passes, at least: more than the tracer has

_before: tuple[int, int, int] = gc.get_threshold()
_during: tuple[int, int, int] = _before


def _begin() -> None:
    global _before, _during
    _before = _during = gc.get_threshold()
    if 0 < _before[0] < OBJECTS:
        # a full pass, which goes over all that lives, is not due sooner for what was counted before
        _during = OBJECTS, _before[1], _before[2] + gc.get_count()[2]
        gc.set_threshold(*_during)


def _end() -> None:
    if gc.get_threshold() == _during:
        gc.set_threshold(*_before)


RECORDINGS = SharedChange(_begin, _end)


def fewer_collections() -> AbstractContextManager[None]:
    """A context in which the garbage collector runs less often (where it is enabled)."""
    return RECORDINGS.needed()


def imported_to_stay(name: str, package: str | None) -> Any:
    """The module *name*, whose import makes objects that live on."""
    known = len(sys.modules)
    with fewer_collections():
        module = importlib.import_module(name, package)
        if len(sys.modules) > known:  # before the collector runs as often as ever
            _live_on()
    return module


def _live_on() -> None:
    """Tell the collector that what has been made lately is not garbage: it counts as old from now on, and has cost no
    pass. (What the user has frozen stays frozen.)"""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
