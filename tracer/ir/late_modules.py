"""Modules of libraries that are imported when they are first used: ``linalg = LateModule("scipy.linalg")``.

That may be in the middle of a recording, which is its thread's; so the import is done in another one.
"""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .foreign_code import uninterrupted

added_filters: list[Any] = []  # of warnings, by these imports: not by the code that is being recorded


def imported(name: str) -> Any:
    """The module *name*."""
    work = functools.partial(importlib.import_module, name)
    return work() if name in sys.modules else _elsewhere(work)


def load_part(module: ModuleType, name: str) -> None:
    """Have *module*, a library's, load what it calls *name*, if that is what it loads when it is first asked for it."""
    _elsewhere(lambda: name in dir(module) and getattr(module, name))


def _elsewhere(work: Callable[[], Any]) -> Any:
    before = tuple(warnings.filters)
    try:
        return uninterrupted(work)
    finally:
        added_filters.extend([entry for entry in warnings.filters if entry not in before])


class LateModule:
    """Stands for the module *name*: an attribute of it is the module's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(imported(self._name), name)
