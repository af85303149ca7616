"""The monitor of loops: the observer of a recording that notes where control flow asks for truth values.

By these places ``roll.py`` will find the loops that data ends.  It has their Python counters replaced
(``induction_variables.py``).
"""

from __future__ import annotations

from copy import copy

from ..bytecode.frame_snapshot import Asked, look
from ..ir.graph import Atom, Guard
from ..ir.refusals import Reason
from ..record.array import TracedArray
from ..record.recorder import Recorder
from .induction_variables import InductionVariables


class LoopMonitor:
    """The observer of *recorder*; ``detach`` hands over its findings."""

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.asked: dict[int, Asked] = {}  # item that asked for a truth value -> the frame then
        self.counters = InductionVariables(recorder)
        self.refusals: list[Reason] = []  # reasons why candidates are no loops, for explain()
        self.within = False  # whether Python goes on after the loops, so that it may read anything later

    def copy(self, recorder: Recorder) -> LoopMonitor:
        """The monitor of a copy of the recording."""
        other = copy(self)
        other.recorder, other.asked, other.refusals = recorder, dict(self.asked), list(self.refusals)
        return other

    def forget(self, start: int) -> None:
        self.asked = {k: asked for k, asked in self.asked.items() if k < start}

    def answered(self, atom: Atom, answer: bool) -> None:
        items = self.recorder.items
        last = items[-1] if items else None
        asked = look(TracedArray) if isinstance(last, Guard) and last.atom is atom else None
        if asked is not None:
            self.asked[len(items) - 1] = asked
            self.counters.answered(asked, answer)

    def refuse(self, reason: Reason) -> None:
        """Note the *reason* why a candidate is no loop."""
        if reason not in self.refusals:
            self.refusals.append(reason)


def note_questions(recorder: Recorder) -> None:
    """Attach a monitor to *recorder*."""
    recorder.observer = LoopMonitor(recorder)


def detach(recorder: Recorder) -> LoopMonitor:
    """Detach and return the monitor, so that nothing of later operations (derivatives) is noted."""
    monitor, recorder.observer = recorder.observer, None
    return monitor if isinstance(monitor, LoopMonitor) else LoopMonitor(recorder)
