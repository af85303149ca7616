"""The cache directory: ``config.cache_dir``, else the user's directory for caches, as the platform has it."""

from __future__ import annotations

import importlib
import os
import sys

from ..config import config

NAME = "tracegrad"


def cache_directory() -> str | None:
    """An absolute path; None where nothing is to be kept, or the user has no home."""
    if not config.cache:
        return None
    found = config.cache_dir or _default()
    return found if os.path.isabs(found) else None


def _default() -> str:
    """That of ``platformdirs``, which Linux can do without: there it is a variable, and the import takes longer."""
    if sys.platform != "linux":
        return importlib.import_module("platformdirs").user_cache_dir(NAME, appauthor=False)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), NAME)
