"""The table of test domains: calls of functions of NumPy, SciPy and ``math`` as users write them, with arguments.

One file per subject, each with a list ``CASES``.  ``tests/programs/test_coverage.py`` checks each case numerically, and
``docs/coverage.md`` is made from it (``docs/make_coverage.py``).
"""

from __future__ import annotations

import importlib
import pkgutil

from .case import Case, check

__all__ = ["Case", "all_cases", "check"]


def all_cases() -> list[Case]:
    """The cases of every subject."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    return [case for module in modules for case in getattr(module, "CASES", ())]
