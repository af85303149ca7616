"""Contexts of ``with`` statements in which nothing warns."""

from __future__ import annotations

import types
import warnings
from typing import Any

from ...tracer.ir.site import FOR_THE_USER


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
