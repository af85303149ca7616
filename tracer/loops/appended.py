"""Values that an iteration appends to lists, and containers of such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .values import Again, Changeable, Like, Parts, PlainValue, alike, taken_apart


class Appended(NamedTuple):
    """A value, where the stack of it is (-1: there is none), and what iterations before have appended in its place."""

    value: Any
    at: int
    earlier: Sequence[Any]


class AppendedItem(NamedTuple):
    """A value that an iteration appends, or a container with a ``pattern`` of several.  ``parts``: each value, and
    where the stack of it is."""

    pattern: Any
    parts: list[tuple[Any, int]]

    @property
    def varies(self) -> bool:
        """Whether a stack has a part of it."""
        return any(at >= 0 for _, at in self.parts)


def columns_in(pattern: Any, count: int, values: Sequence[Any]) -> list[Sequence[Any]]:
    """The *count* numbers in each of *values*, those of one place together; none where one has another *pattern*."""
    rows: list[list[Any]] = []
    for value in values if not _can_change(pattern) else ():
        numbers: list[Any] = []
        if not alike(taken_apart(value, numbers, True, Changeable()), pattern):
            return [()] * count
        rows.append(numbers)
    return list(zip(*rows, strict=True)) if rows else [()] * count


def _can_change(pattern: Any) -> bool:
    """Whether a container in *pattern* can be changed, so that it is another one than one with equal parts."""
    return isinstance(pattern, Again) or (
        isinstance(pattern, Parts) and (pattern.number is not None or any(map(_can_change, pattern.items)))
    )


def is_plain(pattern: Any) -> bool:
    """Whether all in *pattern* but arrays and numbers is the same in each iteration, and cannot be changed."""
    if isinstance(pattern, Parts):
        return all(map(is_plain, pattern.items))
    if isinstance(pattern, PlainValue):
        return isinstance(pattern.value, (int, str, bytes, type(None)))
    return isinstance(pattern, (Like, Again))
