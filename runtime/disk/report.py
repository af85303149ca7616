"""``python -m tracegrad cache``: what the cache directory holds, whether it holds, and its end."""

from __future__ import annotations

import os
import time
from collections import Counter

from ..config import config
from .location import cache_directory
from .store import store

UNITS = ("bytes", "KiB", "MiB", "GiB")


def info() -> tuple[str, int]:
    """(lines for the user, exit status): the directory, its files by kind, their size, when they were used."""
    root = cache_directory()
    if root is None:
        return _OFF, 0
    entries = store.entries()
    kinds = Counter(os.path.basename(entry.path).rpartition("-")[0] for entry in entries)
    lines = [
        f"directory  {root}",
        f"files      {len(entries)}" + "".join(f", {kind}: {count}" for kind, count in sorted(kinds.items())),
        f"size       {size_text(sum(entry.size for entry in entries))} of {size_text(config.cache_size)}",
    ]
    if entries:
        lines.append(f"used       {_date(entries[0].used)} to {_date(entries[-1].used)}")
    return "\n".join(lines), 0


def clear() -> tuple[str, int]:
    """(a line for the user, exit status): all files are deleted."""
    root = cache_directory()
    if root is None:
        return _OFF, 0
    return f"{_files(store.clear())} deleted in {root}", 0


def verify() -> tuple[str, int]:
    """(lines for the user, exit status): each file is read; the bad ones are deleted, and make the status 1."""
    if cache_directory() is None:
        return _OFF, 0
    entries = store.entries()
    lines = []
    for entry in entries:
        try:
            fault = store.check(entry.path)
        except OSError as error:  # deleted meanwhile, or not readable
            fault = None if isinstance(error, FileNotFoundError) else str(error)
        if fault is not None:
            lines.append(f"{os.path.basename(entry.path)}: {fault}")
    lines.append(f"{_files(len(entries))} read, {len(lines)} bad" + (" and deleted" if lines else ""))
    return "\n".join(lines), int(len(lines) > 1)


REPORTS = {"info": info, "clear": clear, "verify": verify}
_OFF = "nothing is kept on disk: TRACEGRAD_CACHE=0, or there is no home directory"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def size_text(count: float) -> str:
    unit = 0
    while count >= 1024 and unit < len(UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.3g} {UNITS[unit]}"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
