"""The monitor of loops: the observer of a recording that looks for loops while Python goes through them.

It looks from time to time whether a long loop is going on; if so, a ``Follower`` (``loop_follower.py``) handles its
operations in place of the recorder.  It notes the places where control flow asked for truth values, by which
``roll.py`` will find the loops that data ends, and has their Python counters replaced (``induction_variables.py``).
"""

from __future__ import annotations

from copy import copy
from typing import Any

from ..bytecode.frame_snapshot import Asked, look
from ..ir.graph import Atom, Guard, Node, Var, building
from ..ir.primitive import LOOP
from ..ir.refusals import Reason
from ..record.array import TracedArray
from ..record.observer import RunOperation
from ..record.recorder import Recorder
from .find import find_repeats, reaches_end
from .followed_loop import FollowedLoop
from .followed_rows import can_follow, rewriter_of
from .induction_variables import InductionVariables
from .inline_cache import learn
from .loop_follower import Follower
from .repeats import Carried, Repeat, Rows

LONG_RUN = 4096  # items of a loop that are recorded before it is followed, unless told otherwise
LOOK_EVERY = 1024  # items between two looks


class LoopMonitor:
    """The observer of *recorder*; ``detach`` hands over its findings."""

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.long_run = LONG_RUN
        self.follower: Follower | None = None
        self.followed: list[FollowedLoop] = []
        self.asked: dict[int, Asked] = {}  # item that asked for a truth value -> the frame then
        self.counters = InductionVariables(recorder)
        self.refusals: list[Reason] = []  # reasons why candidates are no loops, for explain()
        self._periods: dict[frozenset[int], int] = {}  # by the lines of a block: items of the first that was followed
        self.base = 0  # the item before which no loop is looked for: there an inner function begins
        self.within = False  # whether Python goes on after the loops, so that it may read anything later
        self._evaluated = 0  # nodes whose operands `evaluate` has seen

    def copy(self, recorder: Recorder) -> LoopMonitor:
        """The monitor of a copy of the recording."""
        other = copy(self)
        other.recorder, other.asked, other.refusals = recorder, dict(self.asked), list(self.refusals)
        return other

    def evaluator(self) -> LoopMonitor | None:
        """An observer that only knows the values of loops that were followed; None if there are none."""
        if not self.followed:
            return None
        other = LoopMonitor(self.recorder)
        other.followed, other._evaluated = self.followed, self._evaluated
        return other

    def rewritten(self, nodes: int) -> None:
        """The nodes from number *nodes* on are others now."""
        self._evaluated = min(self._evaluated, nodes)

    # ---- the interface of observers --------------------------------------------------------------------------------

    def reached(self) -> None:
        self.recorder.counts.append(len(self.recorder.nodes))
        found = self._look()
        self.recorder.counts.pop()
        if isinstance(found, int):
            self.recorder.look_at = found
        else:
            self.follower, self.recorder.follow, self.recorder.ask = found, found.follow, found.asks[0]

    def postpone(self) -> None:
        self.recorder.look_at = len(self.recorder.items) + LOOK_EVERY

    def operation(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: RunOperation) -> Any:
        follower = self.follower
        assert follower is not None
        if follower.tries[follower.at]:
            return learn(follower, function, args, kwargs, run)
        return run(function, args, kwargs)

    def unfollow(self) -> None:
        follower = self.follower
        assert follower is not None
        self.follower = self.recorder.follow = self.recorder.ask = None
        loop = follower.finish()
        if loop is not None:
            self.followed.append(loop)
            self._evaluated = min(self._evaluated, follower.nodes_before)
            self.forget(follower.repeat.start)
        self.postpone()

    def forget(self, start: int) -> None:
        self.asked = {k: asked for k, asked in self.asked.items() if k < start}

    def evaluate(self, atom: Atom) -> None:
        if not self.followed:
            return
        recorder = self.recorder
        fresh = recorder.nodes[self._evaluated :]
        self._evaluated = len(recorder.nodes)
        for a in (atom, *(a for n in fresh for a in n.inputs)):
            if not isinstance(a, Var) or a in recorder.env:
                continue
            for loop in self.followed:
                place = loop.pending(a)
                if place is not None:
                    recorder.env[a] = self._value(loop, *place)

    def _value(self, loop: FollowedLoop, iteration: int, item: int) -> Any:
        recorder, written = self.recorder, loop.arrays.get((item, 0))
        if written is not None:
            with building(recorder):
                x = written[0].after(written[1], iteration)
            return recorder.demand(x)
        fixed = loop.fixed.get(item)
        if fixed is not None:
            return recorder.backend.asarray(recorder.demand(fixed))
        return recorder.backend.asarray(recorder.demand(loop.stacks[item, 0]))[iteration]

    def answered(self, atom: Atom, answer: bool) -> None:
        items = self.recorder.items
        last = items[-1] if items else None
        asked = look(TracedArray) if isinstance(last, Guard) and last.atom is atom else None
        if asked is not None:
            self.asked[len(items) - 1] = asked
            self.counters.answered(asked, answer)

    # ---- looking for loops -----------------------------------------------------------------------------------------

    def _look(self) -> Follower | int:
        """A follower of the loop that is going on, or the number of items at which to look again."""
        items, sites = self.recorder.items, self.recorder.sites
        count, base = len(items), self.base
        if base:
            items, sites = items[base:], sites[base:]
        if not reaches_end(items, sites, self.long_run):
            return count + LOOK_EVERY
        repeats = find_repeats(items, sites).repeats
        last = repeats[-1] if repeats else None
        if last is not None:
            last.start += base
        if last is None or last.end + last.period <= count or not self._simple(last):
            return count + count // 2
        if last.period * last.trips < self.long_run:
            return last.start + -(-self.long_run // last.period) * last.period
        if last.end < count:
            return last.end + last.period
        lines = frozenset(map(id, self.recorder.sites[last.start : last.start + last.period]))
        if self._periods.setdefault(lines, last.period) != last.period:  # a loop in it differs (inner_loops.py)
            return count + count // 2
        return Follower(self.recorder, last, self.followed)

    def _simple(self, repeat: Repeat) -> bool:
        """Whether the blocks of *repeat* can be followed."""
        rewriter = rewriter_of(self.followed, self.recorder.const)
        return all(
            isinstance(step.item, Node)
            and len(step.item.outs) == 1
            and step.item.prim.kind != LOOP
            and all(can_follow(slot, rewriter) for slot in step.slots if isinstance(slot, Rows))
            and all(slot.distance <= 2 for slot in step.slots if isinstance(slot, Carried))
            for step in repeat.steps
        )

    def refuse(self, reason: Reason) -> None:
        """Note the *reason* why a candidate is no loop."""
        if reason not in self.refusals:
            self.refusals.append(reason)


def follow_loops(recorder: Recorder, long_run: int | None = None) -> None:
    """Attach a monitor to *recorder*, which notes the questions by which loops end, and follows loops that go on for
    *long_run* items."""
    recorder.observer = monitor = LoopMonitor(recorder)
    monitor.long_run = LONG_RUN if long_run is None else long_run
    recorder.look_at = len(recorder.items) + monitor.long_run


def detach(recorder: Recorder) -> LoopMonitor:
    """Detach and return the monitor, so that later operations (derivatives) are recorded as they are."""
    recorder.unfollow()
    monitor, recorder.observer, recorder.look_at = recorder.observer, None, -1
    return monitor if isinstance(monitor, LoopMonitor) else LoopMonitor(recorder)
