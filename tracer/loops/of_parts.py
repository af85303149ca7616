"""Loops over lists of lists, dicts or objects that the run has made, which are alike: what stands for one is made anew
of its parts, each of which is gone over by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..record.array import TracedArray
from ..record.recorder import Recorder
from .marked import Marked
from .values import Like, Parts, parts_of, put_together


def names_in(recorder: Recorder, items: Sequence[Any]) -> tuple[Any, ...] | None:
    """The names of the parts of *items*; None where these are no containers that the run has made, or are unlike."""
    whole, kind, names = recorder.outermost(), type(items[0]), None
    for x in items:
        parts = None if type(x) is not kind or id(x) in whole.from_outside else parts_of(x, True)
        if not parts or (names is not None and tuple(parts) != names):
            return None
        names = tuple(parts)
    return None if recorder.live or recorder.tape is not None else names


class OfParts:
    """*items* with parts of these *names*; *together*: the tuples of their parts."""

    def __init__(self, items: Sequence[Any], names: tuple[Any, ...], together: Any) -> None:
        self.items, self.names, self.together = items, names, together
        self.length = together.length
        self.pattern = Parts(type(items[0]), names, (_PART,) * len(names), 0)
        self.statement: Any = None

    def symbol(self, marked: Marked, k: int) -> Any:
        self.statement = marked.statement
        return self._made(marked.recorder, self.together.symbol(marked, k))

    def item(self, k: int) -> Any:
        return self.items[k]

    def at(self, k: TracedArray) -> Any:
        raise AssertionError("a loop that is not left before its end")

    def backwards(self, together: Any) -> OfParts:
        """The same from its last item to its first."""
        return OfParts(self.items[::-1], self.names, together)

    def _made(self, recorder: Recorder, parts: tuple[Any, ...]) -> Any:
        """The container of *parts*.  Where it is changed, or told from others, or one of those for which it stands is,
        the run is made again without it."""
        found = put_together(self.pattern, iter(parts), {})
        recorder.open_loops[-1].made_here(found)
        note_copy(recorder, found, self.statement)
        recorder.loops.made_anew.update({id(x): (x, self.statement) for x in self.items})
        return found


def note_copy(recorder: Recorder, copy: Any, statement: Any) -> None:
    """Note that *copy* stands for an item of a list, in the iteration that is marked, of a loop that is *statement*."""
    if recorder.live:  # which can't be made again
        return
    recorder.loops.made_anew[id(copy)] = copy, statement
    recorder.loops.copies[id(copy)] = copy, recorder.open_loops[-1]


_PART = Like(None, (), False, object, True)  # type: ignore[arg-type]  # in the place of any part
