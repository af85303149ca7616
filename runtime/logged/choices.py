"""Choices in a run: both arms of an ``if`` on a traced truth, where its question has had several answers.

The copies of such a run are made by arms (``tracer/convert/arms.py``), and ``Branch`` merges what the arms assign.  An
arm may compute, and change what it has made itself.  Whatever else it does ends the run, which is made again with a
question there.
"""

from __future__ import annotations

import sys
from typing import Any

from ...tracer.control.arms import Branch, known_truth, merge_values, not_, store_in_arm
from ...tracer.control.trees import truth
from ...tracer.convert.arms import ChoiceStatement
from ...tracer.convert.transparent import PASSED, TAKEN
from ...tracer.ir.refusals import Refusal
from ...tracer.loops.items import fill_item, replaced_in_arm
from ...tracer.ops.elementwise import F
from ...tracer.record.array import TracedArray
from ...tracer.record.recorder import Recorder, current_recorder
from ..record.kinds import PLAIN
from .operators import FrameOperators


class FrameChoices(FrameOperators):
    """The part of a frame that has the choices of its copy."""

    choices: tuple[ChoiceStatement, ...] = ()

    def branch(self, k: int, test: Any) -> Any:
        recorder, test, choice = current_recorder(), known_truth(test), self.choices[k]
        own = recorder is not None and type(test) is TracedArray and recorder is test._recorder
        if recorder is not None and own and test._atom.aval.size == 1:
            file = self.fn.__code__.co_filename
            places = [(file, line) for line in range(choice.line, choice.end + 1)]
            if recorder.choices is not None and recorder.choices.run(recorder, places):
                return Branch(recorder, places[0], choice, truth(test), sys._getframe(1))
        return TAKEN if self.test(test) else PASSED

    def pick(self, first: Any, second: Any, branch: Any) -> Any:
        if branch is TAKEN or branch is PASSED:
            return first if branch is TAKEN else second
        branch.end()
        return branch.merged(first, second, "the expression")

    def both(self, second: Any, branch: Any) -> Any:
        second = self._asked(second, branch)
        if branch is TAKEN or branch is PASSED:
            return second if branch is TAKEN else False
        branch.end()
        return branch.truth(F.logical_and, second)

    def either(self, second: Any, branch: Any) -> Any:
        second = self._asked(second, branch)
        if branch is TAKEN or branch is PASSED:
            return True if branch is TAKEN else second
        branch.end()
        return branch.truth(F.logical_or, second)

    def _asked(self, second: Any, branch: Any) -> Any:
        """*second*, which the user's code is asked for if it has a truth of its own."""
        return second if branch is TAKEN or branch is PASSED or type(second) in PLAIN else self.test(second)

    def no(self, k: int, value: Any) -> Any:
        value = known_truth(value)
        recorder = current_recorder()
        assert recorder is not None
        found = not_(recorder, (self.fn.__code__.co_filename, self.choices[k].line), value)
        return not self.test(value) if found is None else found


def changes_in_arm(recorder: Recorder, obj: Any, written: bool = True) -> None:
    """End the run where the arm that is running changes what it has not made.  Not *written*: in another way than by
    writing into it."""
    arm = recorder.arms[-1]
    if not arm.has_made(obj):
        arm.give_up(Refusal.CHOICE_STORES(what=type(obj).__name__) if written else Refusal.CHOICE_EFFECT())


def set_in_arm(run: Any, value: Any, obj: Any, index: Any) -> None:
    """``obj[index] = value`` in the arm that runs, of a container of the run's own."""
    if run.recorder.arms[-1].has_made(obj):
        obj[index] = value
        return
    if run.loops and (now := replaced_in_arm(run.recorder, obj, index)) is not NotImplemented:
        arm = run.recorder.arms[-1]
        merged = merge_values(run.recorder.within(), value, now, arm.place, lambda: arm.unlike("an item"))
        if fill_item(run.recorder, merged, obj, index):
            return
    run.one_object(obj)
    if run.loops:
        run.loops[-1].wrote(obj, index)
    store_in_arm(run.recorder, value, obj, index)
