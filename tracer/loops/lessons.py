"""Lessons that runs of a loop statement have taught within one recording: a run of an inner loop begins with what the
one before it had to find out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..record.recorder import Recorder


@dataclass
class Lessons:
    """``deep``: names whose containers are made anew in each iteration.  ``written``: names whose arrays are written.
    ``steps``: of Python integers that count, by name.  ``floats``: names of sums that begin as a Python float and are a
    ``np.float64`` after one iteration.  ``ints``: of Python integers that change otherwise than by a constant.
    ``scattered``: by id, lists any element of which may be assigned."""

    deep: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    steps: dict[str, int] = field(default_factory=dict)
    floats: set[str] = field(default_factory=set)
    ints: set[Any] = field(default_factory=set)
    scattered: dict[int, list[Any]] = field(default_factory=dict)


def lessons_of(recorder: Recorder, loop: Any) -> Lessons:
    """The lessons of the statement *loop*."""
    known = recorder.loops.lessons.get(id(loop))
    if known is None:
        known = recorder.loops.lessons[id(loop)] = loop, Lessons(written=set(loop.stored))
    return known[1]  # type: ignore[no-any-return]
