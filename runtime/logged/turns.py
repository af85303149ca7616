"""Loops of runs that do not run over symbols: each iteration is run, and none may ask anything of traced values.

A question of each iteration would make as many paths as there are ways through the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...tracer.convert.transparent import PythonFor, PythonWhile


class LoggedFor(PythonFor):
    """A ``for`` statement of a *run*."""

    __slots__ = ("run",)

    def __init__(self, iterator: Any, run: Any) -> None:
        super().__init__(iterator)
        self.run = run

    def __iter__(self) -> Iterator[Any]:
        iterator, self.iterator = self.iterator, None
        guards = self.run.recorder.guards
        before = len(guards)
        for item in iterator:
            if len(guards) > before:
                raise self.run.refuse("a question that a loop asks")
            yield item


class LoggedWhile(PythonWhile):
    """A ``while`` statement of a *run*, whose condition is no question of traced values."""

    __slots__ = ("before", "run")

    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run, self.before = run, len(run.recorder.guards)

    def test(self, x: Any, /) -> bool:
        if len(self.run.recorder.guards) > self.before:
            raise self.run.refuse("a question that a loop asks")
        return super().test(x)
