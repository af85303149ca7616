"""Forks, and changes of the process that threads share: a forked child has the thread that forked, and no other.

Locks that other threads hold are free in a child (:func:`lock`), and what they have changed of the process for a time
is undone (:class:`SharedChange`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from .interrupts import kept

_locks: WeakSet[Any] = WeakSet()
_alone: list[Callable[[], object]] = []


def lock() -> Any:
    """A reentrant lock, which is free in a forked child, unless the thread that forks holds it."""
    made = threading.RLock()
    _locks.add(made)
    return made


def when_alone(forget: Callable[[], object]) -> None:
    """Let *forget* be called in each forked child, where all locks are free."""
    _alone.append(forget)


class SharedChange:
    """A change of the process that lasts while a thread needs it: *begin* makes it for the first one, and *end*, which
    can be told twice, undoes it behind the last one."""

    def __init__(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        self._begin, self._end, self._lock = begin, end, lock()
        self.threads: dict[int, int] = {}  # how often each needs it that does
        kept(self.depth, self.set_depth)
        when_alone(self._forget_others)

    @contextmanager
    def needed(self) -> Iterator[None]:
        """A context in which this thread needs it."""
        before = self.depth()
        try:
            self.set_depth(before + 1)
            yield
        finally:
            if self.depth() > before:  # else an interrupt has ended this, and what it left has been put back
                self.set_depth(before)

    def depth(self) -> int:
        """How often this thread needs it."""
        return self.threads.get(threading.get_ident(), 0)

    def set_depth(self, depth: int) -> None:
        before, thread = self.depth(), threading.get_ident()
        if depth == before:
            return
        with self._lock:
            if depth:
                self.threads[thread] = depth
                if not before and len(self.threads) == 1:
                    self._begin()
                return
            if len(self.threads) == 1:
                self._end()
            del self.threads[thread]

    def _forget_others(self) -> None:
        mine = self.depth()
        if self.threads and not mine:
            self._end()
        self.threads = {threading.get_ident(): mine} if mine else {}


def _in_child() -> None:
    for held in _locks:
        if not held._is_owned():
            held._at_fork_reinit()
    for forget in _alone:
        forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
