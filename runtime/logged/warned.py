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


@contextmanager
def warnings_refused(refuse: Callable[[str], BaseException]) -> Iterator[None]:
    """The context of a run in which a warning of this thread raises what *refuse* gives."""
    shown: Any = getattr(warnings, _NAME, None)
    if shown is None:
        yield
        return
    thread = threading.get_ident()

    def show(message: Any) -> None:
        if threading.get_ident() != thread:
            shown(message)
            return
        _forget(message)
        raise refuse("a warning")

    setattr(warnings, _NAME, show)
    try:
        yield
    finally:
        if getattr(warnings, _NAME) is show:
            setattr(warnings, _NAME, shown)


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
