"""Modules of libraries that are imported when they are first used: ``linalg = LateModule("scipy.linalg")``."""

from __future__ import annotations

import importlib
from typing import Any


class LateModule:
    """Stands for the module *name*: an attribute of it is the module's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)
