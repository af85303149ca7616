"""Iteration over the rows of a tensor in code that is recorded: each is made when it is asked for, so that a loop of
which one iteration is recorded makes one."""

from __future__ import annotations

from typing import Any, Self

from .modes import STATE


class TensorRows:
    """The iterator over *t*, from row *at* on."""

    def __init__(self, t: Any, at: int = 0) -> None:
        self.tensor, self.at, self.version = t, at, t._counter[0]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self.at >= len(self.tensor):
            raise StopIteration
        if self.tensor._counter[0] != self.version:
            raise STATE.capture.log.refuse("a tensor that is changed while it is iterated over")
        self.at += 1
        return STATE.capture.tape.row(self.tensor, self.at - 1)

    def __length_hint__(self) -> int:
        return len(self.tensor) - self.at

    def __reduce__(self) -> tuple[Any, ...]:
        return iter, (self.tensor,), self.at

    def __setstate__(self, at: int) -> None:
        self.at = at
