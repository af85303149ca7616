"""The object that stands in a ``while`` of recorded code.

    l = begin_while(recorder, loop)
    for _ in l:
        if l.rebinds: a, b = l.symbols()
        if not l.test(CONDITION): break
        BODY
    if l.ended:
        if l.rebinds: a, b, c = l.results()

A condition on positions alone tells how many iterations there are.  Else the loop node stops by itself: where the
condition is not met, or where any question of the iteration would have another answer.  In the latter case Python makes
that iteration itself, and asks.  So does it where the condition writes something, or binds a name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..ir.graph import Atom
from ..ir.refusals import Reason
from ..ops.elementwise import F, like
from ..ops.shape import reshape
from ..record.array import TracedArray
from ..record.recorder import Recorder
from .for_loop import MOST_ATTEMPTS, MarkedLoop, can_mark, note_refusal
from .holders import array_of
from .iteration import Iteration, keep_identities
from .marked import Marked, forget_left_loops
from .positions import Affine, answers_alike
from .quiet import Quiet


def begin_while(recorder: Recorder, loop: Any, truth: Callable[[Any], bool] = bool) -> WhileLoop:
    """The object for a loop that *loop* describes; *truth* answers for conditions that are no traced arrays."""
    recorder = recorder.in_force()
    forget_left_loops(recorder)
    return WhileLoop(recorder, loop, can_mark(recorder, loop), truth)


class WhileLoop(MarkedLoop):
    """A ``while`` loop."""

    def __init__(self, recorder: Recorder, loop: Any, marks: bool, truth: Callable[[Any], bool]) -> None:
        super().__init__(recorder, loop)
        self.truth = truth
        self.ended = False
        self.go_on: Atom | None = None  # the condition of the iteration that is marked, which is True in it
        self.final = not marks
        self.count: Affine | None = None  # how many iterations its condition allows, if that is known
        self.told: Any = None  # what it means that the loop node has stopped at its condition, and the line
        self.closed = False  # whether a loop node was made, and a question is to be asked again
        self.acts = bool(loop.binds)  # whether the condition does more than to compute, after the last iteration, too

    def __next__(self) -> None:
        if self.iteration is not None and self._finished(sys._getframe(1)):
            if not self.closed:
                self.ended = True
                raise StopIteration
            return
        self.rebinds = self.closed = False
        if not self.attempts and self.quiet is None:
            self.quiet = Quiet(self.recorder, sys._getframe(1), self.loop, 0)
        if not self.final and self.attempts < MOST_ATTEMPTS and (self.attempts or not self.quiet.lasts()):  # type: ignore[union-attr]
            iteration = Iteration(self.recorder, None, sys._getframe(1), self.loop, self.lessons, self.learned)
            iteration.begin()
            iteration.marked.earlier = self.attempts
            self.attempts += 1
            self.iteration, self.rebinds, self.go_on, self.count = iteration, True, None, None

    def _finished(self, frame: FrameType) -> bool:
        """Whether the iteration that has been made stands for all that remain."""
        iteration, self.iteration = self.iteration, None
        assert iteration is not None
        found = iteration.finish(frame, True, self.go_on)
        if isinstance(found, Reason):
            if self.go_on is not None:
                self.recorder.guard(self.go_on, "bool")
            note_refusal(self.recorder, found, self.attempts)
            if self.attempts >= MOST_ATTEMPTS:
                iteration.give_up(frame, found)
            return False
        self.closed = iteration.asks or iteration.length != self.count or self.acts  # there may be more
        self.values, self.rebinds, self.final, self.told = found, True, True, iteration.told
        return True

    # ---- for the code of the loop ----------------------------------------------------------------------------------

    def test(self, condition: Any) -> bool:
        """Whether the loop goes on, which *condition* says."""
        iteration = self.iteration
        asked = len(self.recorder.guards)
        condition = array_of(condition)
        if type(condition) is not TracedArray:
            condition = self.truth(condition)
        if iteration is None:
            self.ended = not condition
            if self.ended and self.told is not None and len(self.recorder.guards) > asked:
                self.recorder.guards[-1].said, self.recorder.guards[-1].site = self.told
            self.told = None
            if self.ended:
                keep_identities(self.recorder, self.loop, self.learned)
            else:
                self.rebinds = False
            return not self.ended
        if type(condition) is TracedArray and condition.aval.size != 1:
            self.stop()
            return bool(condition)  # an error
        if type(condition) is TracedArray and self._goes_on(iteration, condition):
            return True
        self.ended = not condition
        if self.ended:
            self.stop()
        return not self.ended

    def _goes_on(self, iteration: Iteration, condition: TracedArray) -> bool:
        """Whether *condition* is met in this iteration: then it is the condition of the loop."""
        marked = iteration.marked
        self.acts |= bool(marked.places or marked.written) or any(len(found) > 1 for found in marked.appends.values())
        count = trip_count(marked, condition.atom)
        if count is not None and count > 0:
            self.count = Affine(count)
            if marked.length is None or count < marked.length.offset:
                marked.length = self.count
            return True
        truth = reshape(condition.atom, ())
        if truth.aval.dtype.kind != "b":
            truth = F.ne(truth, like(0, truth))
        if count is not None or self.recorder.parent is not None:  # a body may ask nothing of its own values
            return count is None and bool(condition)
        with self.recorder.stand_ins.asking():
            if not self.recorder.value(truth):
                return False
        self.go_on = truth
        return True

    def leave(self) -> None:
        if self.iteration is not None and self.go_on is not None:
            self.recorder.guard(self.go_on, "bool")
        super().leave()


def trip_count(marked: Marked, condition: Atom) -> int | None:
    """The number of iterations in a row in which a *condition* on positions is met; None where that is not known."""
    found = marked.compared(condition)
    if found is None:
        return None
    name, left, right = found
    form = left.plus(right, -1)
    slope = form.slopes.get(marked.number)
    if slope is None or len(form.slopes) > 1:
        return None
    met, count = answers_alike(name, form.offset, slope)
    return count if met else 0
