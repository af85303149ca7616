"""Python's recursion limit for programs of many operations: passes descend along chains of them."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

from ...tracer.ir.forks import lock, when_alone
from .canonical import Canonical

_lock = lock()
_levels: dict[int, int] = {}  # by thread, where there are any


@contextlib.contextmanager
def recursion_for(canonical: Canonical) -> Iterator[None]:
    """A context with a recursion limit that suffices for *canonical*: a long Python loop is a long chain.

    The limit is the process's, so those of several threads add up."""
    levels = 20 * _operations(canonical)
    before = _levels.get(threading.get_ident(), 0)
    try:
        _set(before + levels)
        yield
    finally:
        _set(before)


def _set(levels: int) -> None:
    """Note the levels that this thread needs beside those that there are."""
    thread = threading.get_ident()
    with _lock:
        sys.setrecursionlimit(sys.getrecursionlimit() + levels - _levels.pop(thread, 0))
        if levels:
            _levels[thread] = levels


def _alone() -> None:
    others = sum(levels for thread, levels in _levels.items() if thread != threading.get_ident())
    sys.setrecursionlimit(sys.getrecursionlimit() - others)


when_alone(_alone)


def _operations(canonical: Canonical) -> int:
    """The number of operations, those of loops' bodies included."""
    bodies = [op.params["body"].program for op in canonical.ops if "body" in op.params]
    return len(canonical.ops) + sum(_operations(body) for body in bodies)
