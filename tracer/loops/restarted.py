"""Loops over symbols in runs that do everything at once, and so cannot be made again.

    l = begin_restarted(recorder, iterable, loop)
    while True:
        try:
            for TARGET in l: ...  # as of for_loop.py
        except l.interrupted:
            if not l.again(): raise
            continue
        break

A marked iteration of such a loop only computes: what is about to do more, or needs a number as Python's own, raises a
``Retry`` (``acts``, ``python_ints.run_again``).  Then the iteration is made once more as it is, from the values with
which it began, and so are those after it.  One of which no loop node can be made is taken back, too, and marked once
more with what was learned."""

from __future__ import annotations

from types import FrameType
from typing import Any, NoReturn

from ..ir.errors import unrecordable
from ..ir.refusals import Reason
from ..record.recorder import Recorder
from ..record.retry import Options, Retry
from .for_loop import MOST_ATTEMPTS, ForLoop, source_to_mark, worth_marking
from .iteration import Iteration
from .values import UNSET

_ACTS = "an iteration does more than to compute: it is made as it is"


def begin_restarted(recorder: Recorder, iterable: Any, loop: Any) -> RestartedLoop | None:
    """The object for a loop over *iterable*, which *loop* describes; None where its iterations are made as they are."""
    recorder = recorder.in_force()
    source = source_to_mark(recorder, iterable, loop) if unrecordable.last() is None else None
    if source is None or not worth_marking(source.length, loop):
        return None
    return RestartedLoop(recorder, iterable, source, loop)


def acts(recorder: Recorder) -> NoReturn:
    """End the iterations that are marked, because something is about to be done outside, or by code of which nobody
    knows what it does."""
    for marked in recorder.open_loops:
        recorder.taught.plain_loops[id(marked.statement)] = marked.statement
    recorder.loops.interrupted = True
    raise Retry(Options(_ACTS))


class RestartedLoop(ForLoop):
    """A loop of which a loop node may be made, unless its marked iteration has to be made again."""

    interrupted = Exception, Retry
    refused = False  # whether no loop node can be made of the marked iteration

    def check(self) -> None:
        """Have the iteration made again if code of the user's has caught what was to end it."""
        if self.recorder.loops.interrupted or unrecordable.last() is not None:
            raise Retry(Options(_ACTS))

    def _refused(self, iteration: Iteration, frame: FrameType, reason: Reason) -> None:
        """Take the iteration back."""
        self.learned.made_anew = False  # nobody sees the copies
        self.refused = True
        raise Retry(Options(_ACTS))

    def again(self) -> bool:
        """Whether the exception that is being handled has ended the marked iteration, which is made again."""
        iteration = self.begun
        if iteration is None:
            return False
        open_loops, taught = self.recorder.open_loops, self.recorder.taught
        around = open_loops[: open_loops.index(iteration.marked)] if iteration.marked in open_loops else open_loops
        if any(id(marked.statement) in taught.plain_loops for marked in around):
            return False  # an iteration around it is made again
        unrecordable.clear()  # there was none when the loop began
        self.recorder.loops.interrupted = False
        found = iteration.take_back()
        self.values = tuple([found.get(name, UNSET) for name in self.loop.assigned])
        self.iteration = self.begun = None
        self.at -= 1
        self.pending = self.redone = True
        known = all(name in found for name in self.loop.carried)
        self.refused, refused, self.streak = False, self.refused, 0
        if not refused or not known or self.attempts >= MOST_ATTEMPTS:
            self.final = True
            taught.plain_loops[id(self.loop)] = self.loop
        return True
