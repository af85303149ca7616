"""Modules of libraries that are imported when they are first used: ``linalg = LateModule("scipy.linalg")``.

That may be in the middle of a recording, which watches its thread and shows code other builtins; so the import is done
in another one.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from .foreign_code import uninterrupted


def imported(name: str) -> Any:
    """The module *name*."""
    work = functools.partial(importlib.import_module, name)
    return work() if name in sys.modules else uninterrupted(work)


class LateModule:
    """Stands for the module *name*: an attribute of it is the module's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(imported(self._name), name)
