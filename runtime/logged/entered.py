"""Contexts of ``with`` statements: the user's own, whose methods are converted, and of quiet warnings."""

from __future__ import annotations

import types
import warnings
from typing import Any

from ...tracer.ir.site import FOR_THE_USER
from ...tracer.record.retry import Retry
from .reads import NotClosedError


class Entered:
    """An object of the user's class in a ``with`` statement."""

    __slots__ = ("_manager", "_run")

    def __init__(self, run: Any, manager: Any) -> None:
        self._run, self._manager = run, manager
        for name in ("__enter__", "__exit__"):
            if not hasattr(type(manager), name):
                with manager:  # raises
                    pass

    def __enter__(self) -> Any:
        return self._run.special(self._manager, "__enter__")

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        if isinstance(error, NotClosedError | Retry):  # which is no exception of the user's
            return False
        return bool(self._run.test(self._run.special(self._manager, "__exit__", kind, error, traceback)))


class QuietWarnings:
    """``warnings.catch_warnings()`` in a run: filters may be changed until it is left."""

    __slots__ = ("_manager", "_run")

    def __init__(self, run: Any, manager: warnings.catch_warnings[Any]) -> None:
        self._run, self._manager = run, manager

    def __enter__(self) -> Any:
        self._run.quiet += 1
        return self._manager.__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: types.TracebackType | None) -> None:
        self._run.quiet -= 1
        self._manager.__exit__(kind, error, traceback)


FOR_THE_USER.add(__file__)
