"""The cache directory: ``config.cache_dir``, else the user's directory for caches, as the platform has it; and folders
that users name for files of theirs."""

from __future__ import annotations

import errno
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


def existing_folder(path: str | os.PathLike[str], what: str) -> str:
    """The folder *path* as a text, in which *what*, a call of the user's, is to write.

    Raises:
        FileNotFoundError, NotADirectoryError: there is none.  It is not made, since a name may be misspelled.
    """
    found = os.fspath(path)
    if not os.path.exists(found or os.curdir):
        message = f"{what}: there is no such folder; make it first: os.makedirs({found!r}, exist_ok=True)"
        raise FileNotFoundError(errno.ENOENT, message, found)
    if not os.path.isdir(found or os.curdir):
        raise NotADirectoryError(errno.ENOTDIR, f"{what}: this is no folder", found)
    return found
