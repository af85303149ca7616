"""Python's recursion limit for programs of many operations: passes descend along chains of them."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

from .canonical import Canonical

_lock = threading.Lock()


@contextlib.contextmanager
def recursion_for(canonical: Canonical) -> Iterator[None]:
    """A context with a recursion limit that suffices for *canonical*: a long Python loop is a long chain.

    The limit is the process's, so those of several threads add up."""
    levels = 20 * _operations(canonical)
    with _lock:
        sys.setrecursionlimit(sys.getrecursionlimit() + levels)
    try:
        yield
    finally:
        with _lock:
            sys.setrecursionlimit(sys.getrecursionlimit() - levels)


def _operations(canonical: Canonical) -> int:
    """The number of operations, those of loops' bodies included."""
    bodies = [op.params["body"].program for op in canonical.ops if "body" in op.params]
    return len(canonical.ops) + sum(_operations(body) for body in bodies)
