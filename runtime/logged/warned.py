"""Warnings that a run gives: libraries warn by themselves, and a replay would not.

While a run is logged, a warning of its thread that would be shown ends it.  That it was shown is taken back, so that
it is shown when the call is recorded otherwise.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_NAME = "_showwarnmsg"  # by which the interpreter shows a warning
_running: dict[int, list[Callable[[str], BaseException]]] = {}  # thread -> what its runs raise, the inner one last
_lock = threading.Lock()
_shown: list[Any] = []  # what shows warnings beside us


@contextmanager
def warnings_refused(refuse: Callable[[str], BaseException]) -> Iterator[None]:
    """The context of a run in which a warning of this thread raises what *refuse* gives.  Runs of several threads end
    in any order: one function stands for all of them, from the first one's beginning to the last one's end."""
    if not hasattr(warnings, _NAME):
        yield
        return
    thread = threading.get_ident()
    with _lock:
        _running.setdefault(thread, []).append(refuse)
        if getattr(warnings, _NAME) is not _show:
            _shown[:] = [getattr(warnings, _NAME)]
            setattr(warnings, _NAME, _show)
    try:
        yield
    finally:
        with _lock:
            _running[thread].pop()
            if not _running[thread]:
                del _running[thread]
            if not _running and getattr(warnings, _NAME) is _show:
                setattr(warnings, _NAME, _shown[0])


def _show(message: Any) -> None:
    runs = _running.get(threading.get_ident())
    if not runs:
        _shown[0](message)
        return
    _forget(message)
    raise runs[-1]("a warning")


def _forget(message: Any) -> None:
    """Take back that a warning was shown, where the module that it is of keeps that."""
    frame: Any = sys._getframe(1)
    key = str(message.message), message.category
    while frame is not None:
        registry = frame.f_globals.get("__warningregistry__") if frame.f_code.co_filename == message.filename else None
        for line in (message.lineno, 0):
            if registry is not None:
                registry.pop((*key, line), None)
        frame = frame.f_back
