"""The work that each thread is at, for a line that tells of it (``runtime/progress.py``): recording, or a phase of
compiling.

A :class:`Working` costs a microsecond, and nothing is counted for its sake: *count* is asked when the line is
written.  Work within work, in another thread too (``foreign_code.py`` hands the context on), is the *latest* of its
root.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar

from .interrupts import kept

_inner: ContextVar[Working | None] = ContextVar("working", default=None)
_roots: dict[int, Working] = {}  # by thread
#: Told when the outermost work of a thread begins, and when it ends.
BEGUN: list[Callable[[], None]] = []
ENDED: list[Callable[[], None]] = []
#: Told of each work when it is done, inner ones too.
DONE: list[Callable[[Working], None]] = []


class Working:
    """A context in which its thread is at what *text* says; *count*: the number of operations, or how to find it."""

    __slots__ = ("begun", "count", "latest", "parent", "root", "text")
    latest: Working
    root: Working
    parent: Working | None

    def __init__(self, text: str, count: int | Callable[[], int] = 0) -> None:
        self.text, self.count = text, count

    def __enter__(self) -> None:
        parent = self.parent = _inner.get()
        self.root = self if parent is None else parent.root
        self.root.latest = self
        self.begun = time.monotonic()
        _inner.set(self)
        if parent is None:
            _roots[threading.get_ident()] = self
            for tell in BEGUN:
                tell()

    def __exit__(self, *_: object) -> None:
        _inner.set(self.parent)
        for tell in DONE:
            tell(self)
        if self.parent is None:
            _end()
        else:
            self.root.latest = self.parent

    def operations(self) -> int:
        return self.count() if callable(self.count) else self.count


def at_work() -> list[Working]:
    """The outermost work of each thread, that of longest standing first."""
    return sorted([*_roots.values()], key=lambda work: work.begun)


def _end() -> None:
    if _roots.pop(threading.get_ident(), None) is not None:
        for tell in ENDED:
            tell()


def _put_back(before: Working | None) -> None:
    if _inner.get() is not before:
        _inner.set(before)
    if before is None:
        _end()
    else:
        before.root.latest = before


kept(_inner.get, _put_back)
