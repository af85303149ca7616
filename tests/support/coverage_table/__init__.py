"""The table of test domains: calls of functions of NumPy, SciPy and ``math`` as users write them, with arguments.

One file per subject, each with a list ``CASES``.  ``tests/programs/test_coverage.py`` checks each case numerically, and
``docs/coverage.md`` is made from it (``docs/make_coverage.py``).
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any

from .case import Case, check

__all__ = ["Case", "all_cases", "check", "named"]


def named(name: str) -> Any:
    """The object of that full *name*; None where there is none."""
    head, *rest = name.split(".")
    found: Any = importlib.import_module(head)
    for k, part in enumerate(rest):
        if not hasattr(found, part) and isinstance(found, ModuleType):
            try:
                importlib.import_module(".".join([head, *rest[: k + 1]]))
            except ImportError:
                return None
        found = getattr(found, part, None)
    return found


def all_cases(*, installed: bool = True) -> list[Case]:
    """The cases of every subject; *installed*: of functions that the installed releases have."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    cases = [case for module in modules for case in getattr(module, "CASES", ())]
    return [case for case in cases if not installed or named(case.name) is not None]
