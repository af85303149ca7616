"""Places outside that a run has written: kept in the log, and done when the run is over.

Each object outside that the run writes to has one entry here, under its identity: the names, keys or items that are
others now.  A read of such a place is answered from here.  So nobody sees a run that is not over, and one that is
dropped has done nothing.

A list that the run only appends to, a set that it only adds to, and a dict whose keys it only sets, is not read by
that: of such a container no more counts than which it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...tracer.ir.errors import UnsupportedError
from ...tracer.record.retry import Options, Retry

_NOTE = "a number outside is changed by the run: it is made again with a number of the run"
DELETED = type("Deleted", (), {"__repr__": lambda self: "DELETED"})()


class Varies(Retry):
    """A number that the run has read, and then written, is to be a number of the run."""

    def __init__(self, label: str) -> None:
        super().__init__(Options(_NOTE), UnsupportedError.here(f"`{label}` is changed"))
        self.label = label


@dataclass(slots=True)
class WrittenNames:
    """Attributes of an object, names of a module, or the contents of a cell (under "")."""

    owner: Any
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class WrittenKeys:
    """Items of a dict.  *whole*: all of it as the run has it, once that counts."""

    owner: Any
    values: dict[Any, Any] = field(default_factory=dict)
    whole: dict[Any, Any] | None = None
    before: dict[Any, Any] = field(default_factory=dict)

    def read(self, contents: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
        """The dict as the run has it; *contents* are those from outside."""
        if self.whole is None:
            self.whole = contents()
            self.before = dict(self.whole)
            self.whole.update(self.values)
        return self.whole


@dataclass(slots=True)
class WrittenElements:
    """Elements of a set: the calls of its methods, in order.  *whole*: the set as the run has it, once that counts."""

    owner: Any
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    whole: set[Any] | None = None

    def read(self, contents: Callable[[], set[Any]]) -> set[Any]:
        """The set as the run has it; *contents* are those from outside."""
        if self.whole is None:
            self.whole = contents()
            for name, args in self.calls:
                getattr(self.whole, name)(*args)
        return self.whole

    def do(self, name: str, *args: Any) -> None:
        """``owner.name(*args)``, of a method that gives nothing."""
        if self.whole is not None:
            getattr(self.whole, name)(*args)
        self.calls.append((name, args))


@dataclass(slots=True)
class WrittenItems:
    """Items of a list or deque: those that were appended, or the *whole*."""

    owner: Any
    tail: list[Any] = field(default_factory=list)
    whole: Any = None
    before: list[Any] = field(default_factory=list)

    def read(self, contents: Callable[[], Any]) -> Any:
        """The list as the run has it; *contents* are those from outside."""
        if self.whole is None:
            self.whole = contents()
            self.before = list(self.whole)
            self.whole.extend(self.tail)
        return self.whole


Written = WrittenNames | WrittenKeys | WrittenItems | WrittenElements
