"""Which array or number from before a loop a place holds after it: loops pass these on (`a, b = b, a`).  A NaN is
equal to itself alone in a container, so the object counts, too.

``stand_ins``: the arrays with which carried places begin the iteration, by their ids.  ``ends``: the value of each such
place at its end, by the id of the ``StartNumber``."""

from __future__ import annotations

import operator
from collections.abc import Container
from typing import Any

import numpy as np

from ..record.array import TracedArray, class_of
from ..record.recorder import Recorder
from .positions import Affine


def unmarked(recorder: Recorder, value: Any, but: Container[int] = ()) -> Any:
    """The value in whose place *value* stood in a marked iteration, if it did; else *value* itself.  *but*: ids of
    values that are left as they are."""
    while id(value) in recorder.loops.marked_values and id(value) not in but:
        value = recorder.loops.marked_values[id(value)][1]
    return value


def all_unmarked(recorder: Recorder, value: Any) -> Any:
    """*value* with such values put back, in lists and dicts that are changed for it, and in tuples."""
    if not recorder.loops.marked_values:
        return value
    kind = type(value)
    if kind is tuple:
        parts = [all_unmarked(recorder, part) for part in value]
        return value if all(map(operator.is_, parts, value)) else tuple(parts)
    if kind in (list, dict):
        for key, part in list(enumerate(value) if kind is list else value.items()):
            if (now := all_unmarked(recorder, part)) is not part:
                value[key] = now
    return unmarked(recorder, value)


class Identities:
    """The arrays of one marked iteration, *of*.  *values*: the numbers of each carried name at its end."""

    def __init__(self, of: Any, values: dict[Any, list[Any]]) -> None:
        self.of = of
        self.stand_ins = {id(found): leaf for found, leaf in of.stand_ins}
        self.ends: dict[int, Any] = {}
        for name, leaves in values.items():
            for leaf, end in zip(of.starts_of[name].leaves, leaves, strict=True):
                self.ends[id(leaf)] = self._of_this(end)

    def _of_this(self, value: Any) -> Any:
        """*value*; the one in whose place it stood in an iteration of a loop within this one, which stood alone."""
        return unmarked(self.of.recorder, value, self.stand_ins)

    def are_passed_on(self) -> bool:
        """Whether a place has, after the loop, an array or a NaN from before it: which one depends on how many
        iterations there are."""
        return any(map(self._is_passed_on, self.ends.values()))

    def _is_passed_on(self, end: Any) -> bool:
        passed: list[Any] = []
        while (leaf := self.stand_ins.get(id(end))) is not None:
            if any(leaf is x for x in passed):
                return class_of(end) is np.ndarray
            passed.append(leaf)
            end = self.ends[id(leaf)]
        return bool(self._is_old(end) and (class_of(end) is np.ndarray if type(end) is TracedArray else end != end))

    def after(self, end: Any, count: int) -> Any:
        """The array or number from before the loop that the last of *count* iterations ends with, in the place of
        *end*; None where an iteration has made it."""
        passed: list[Any] = []
        end = self._of_this(end)
        while (leaf := self.stand_ins.get(id(end))) is not None:
            count -= 1
            if not count:
                return leaf.before
            if any(leaf is x for x in passed):
                first = next(i for i, x in enumerate(passed) if x is leaf)
                count = (count - 1) % (len(passed) - first) + 1
            else:
                passed.append(leaf)
            end = self.ends[id(leaf)]
        row = self.of.marked.rows.get(id(end))
        if row is not None:
            return row.after(row.form.at(self.of.marked.number, Affine(count - 1)))
        return end if self._is_old(end) else None

    def _is_old(self, end: Any) -> bool:
        if type(end) is TracedArray:
            return not end._steps and end._storage.born < self.of.marked.serial
        return type(end) in (float, complex)
