"""A dict that keeps what was used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from ..tracer.ir import forks

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """At most ``limit()`` entries: those that :meth:`find` and :meth:`keep` had last.  Thread-safe by its ``lock``."""

    def __init__(self, limit: Callable[[], int]) -> None:
        super().__init__()
        self._limit = limit
        self.lock = forks.lock()

    def find(self, key: K) -> V | None:
        """The entry of *key*, or None."""
        with self.lock:
            found = self.get(key)
            if found is not None:
                self.move_to_end(key)
            return found

    def keep(self, key: K, value: V) -> V:
        """Make *value* the entry of *key*; returns it."""
        with self.lock:
            self[key] = value
            self.move_to_end(key)
            while len(self) > self._limit():
                self.popitem(last=False)
        return value
