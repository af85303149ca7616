"""The object that stands in a ``for`` or ``while`` of recorded code.

    l = begin(recorder, iterable, loop)
    for TARGET in l:
        if l.rebinds:
            a, b = l.symbols()
            if b is l.unset: del b
        BODY
    else:
        if l.rebinds: a, b, c, i = l.results()

One iteration runs over symbols (``marked.py``).  When the next one is asked for the local variables are looked at: if
they are of the kind with which the iteration began, the loop is over, and a loop node does what is left of it.  Else
what was learned is used for the next iteration.  After a few attempts the loop goes on as it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from types import FrameType
from typing import Any

from ..convert.transparent import PythonFor
from ..ir.aval import INT
from ..ir.graph import Atom, Lit, building
from ..ir.primitive import LOOP
from ..ir.refusals import Reason, Refusal
from ..ops.elementwise import F, cast
from ..record.array import TracedArray, wrap
from ..record.recorder import Recorder, current_recorder
from .holders import HOLDERS
from .iterables import OF_OUTER_LOOPS, Counts, Iterated, advance, items_left, live_parts, same_objects, source_of
from .iteration import FEW_TRIPS, EarlierWrites, Iteration, keep_identities
from .lessons import Lessons, lessons_of
from .marked import Marked, forget_left_loops
from .positions import Affine, bounds
from .python_ints import run_again
from .quiet import Quiet
from .row_writes import value_of
from .values import UNSET

MIN_TRIPS = 16  # iterations of a loop that is marked, however short they are
MANY_TRIPS = 36  # iterations of the innermost one of loops that are better than their iterations one after another
LONG = 512  # operations in all of a loop that is marked with fewer iterations
LOOP_WEIGHT = 100  # operations that a loop in an iteration counts for
MOST_PIECES = 8  # loop nodes of one run of a loop, whose iterations differ by questions on their numbers
MOST_AGAIN = 8  # iterations that a run is as long as, at the most, which is made again for the sake of the first one
_BEGINS = "an array is of another kind after an iteration: the run is made again, in which it is from the start"
_LONG_ITERATIONS = "the iterations of a loop are long: the run is made again, with one that stands for all"
MOST_WAITS = 32  # marked iterations beside these in vain, because a row that a loop within goes over is too short
MOST_ATTEMPTS = 4  # marked iterations of one run of a loop of which no loop node was made


def begin(recorder: Recorder, iterable: Any, loop: Any) -> Any:
    """The object for a loop over *iterable*, which *loop* describes."""
    recorder = recorder.in_force()
    source = source_to_mark(recorder, iterable, loop)
    if source is None:
        return PythonFor(iter(iterable))
    length = source.length.constant
    if worth_marking(source.length, loop) or of_a_short_nest(recorder, source.length, loop):
        return ForLoop(recorder, iterable, source, loop)
    if length is None or length < FEW_TRIPS:
        return PythonFor(iter(iterable))
    if id(loop) in recorder.taught.long_loops:
        return ForLoop(recorder, iterable, source, loop)
    return ShortLoop(recorder, iter(iterable), loop, length)


def source_to_mark(recorder: Recorder, iterable: Any, loop: Any) -> Iterated | None:
    """The items of *iterable*, if iterations of *loop* over them can be marked here."""
    if not can_mark(recorder, loop):
        return None
    forget_left_loops(recorder)
    source = source_of(recorder, iterable)
    return None if source is not None and (loop.has_break or loop.has_return) and source.has_copies() else source


def can_mark(recorder: Recorder, loop: Any) -> bool:
    """Whether iterations can be marked here."""
    whole = recorder.outermost()
    plain = current_recorder() is recorder and not whole.arms and (recorder is whole or not whole.of_tensors)
    return plain and not loop.has_yield and id(loop) not in recorder.taught.plain_loops


def note_refusal(recorder: Recorder, reason: Reason, attempts: int) -> None:
    """Note why no loop node is made, if that is final."""
    note = reason.within("not-rolled: ")
    if attempts >= MOST_ATTEMPTS and note not in recorder.notes:
        recorder.notes.append(note)


def worth_marking(length: Affine, loop: Any) -> bool:
    """Whether *loop* is better than its iterations one after another (a heuristic): where loops stand within each other
    the innermost has the iterations of all."""
    count, depth = length.constant, loop.depth
    return count is None or count >= MIN_TRIPS or (count >= FEW_TRIPS and count**depth >= MANY_TRIPS and depth > 1)


def of_a_short_nest(recorder: Recorder, length: Affine, loop: Any) -> bool:
    """Whether *loop* stands in a loop of few iterations that is marked for the sake of those within it."""
    outer = recorder.open_loops[-1] if recorder.open_loops else None
    if outer is None or not outer.is_short or length.constant is None or length.constant < FEW_TRIPS:
        return False
    return bool(outer.statement.line <= loop.line <= outer.statement.end_line)


class ShortLoop(PythonFor):
    """A loop of few iterations, which may be long ones: then the run is made again with it over symbols."""

    __slots__ = ("length", "loop", "recorder")

    def __init__(self, recorder: Recorder, iterator: Iterator[Any], loop: Any, length: int) -> None:
        super().__init__(iterator)
        self.recorder, self.loop, self.length = recorder, loop, length

    def __iter__(self) -> Iterator[Any]:
        recorder, iterator = self.recorder, super().__iter__()
        nodes, operations = len(recorder.nodes), recorder.operations
        yield from islice(iterator, 1)
        self._measure(nodes, operations)
        yield from iterator

    def _measure(self, nodes: int, operations: int) -> None:
        recorder = self.recorder
        loops = sum(node.prim.kind == LOOP for node in recorder.nodes[nodes:])
        if self.length * (recorder.operations - operations + LOOP_WEIGHT * loops) >= LONG:
            recorder.taught.long_loops[id(self.loop)] = self.loop
            run_again(recorder, _LONG_ITERATIONS)


class MarkedLoop:
    """A loop of which a loop node may be made, and the values to which its code binds its names: in a marked iteration,
    and after the last one."""

    unset = UNSET  # in the place of a value that a name does not have

    def __init__(self, recorder: Recorder, loop: Any) -> None:
        self.recorder, self.loop = recorder, loop
        self.lessons: Lessons = lessons_of(recorder, loop)
        self.learned = EarlierWrites(scattered=dict(self.lessons.scattered))
        self.iteration: Iteration | None = None
        self.attempts = 0
        self.rebinds = False
        self.values: tuple[Any, ...] = ()
        self.final = False  # whether no loop node is tried any more
        self.quiet: Quiet | None = None

    def __iter__(self) -> Any:
        return self

    def leave(self) -> None:
        """The loop is left before its end: the iteration stands for itself."""
        if self.iteration is not None:
            self.iteration.check_floats(self.iteration.frame.f_locals)
        self.stop()

    def stop(self) -> None:
        """The loop ends, and no loop node is made of the iteration that is marked."""
        if self.iteration is not None:
            self.iteration.marked.close()
            self.iteration.stands_alone()
        self.iteration, self.rebinds = None, False
        keep_identities(self.recorder, self.loop, self.learned)

    def symbols(self) -> tuple[Any, ...]:
        """The values of the names that are carried, at the start of the iteration."""
        if self.iteration is not None:
            return self.iteration.symbols
        values = dict(zip(self.loop.assigned, self.values, strict=True))
        return tuple([values[name] for name in self.loop.carried])

    def results(self) -> tuple[Any, ...]:
        """The values of the names that are assigned, after the last iteration, but for those of its condition."""
        if not self.loop.binds:
            return self.values
        named = zip(self.loop.assigned, self.values, strict=True)
        return tuple([value for name, value in named if name not in self.loop.binds])


class ForLoop(MarkedLoop):
    """A ``for`` loop."""

    def __init__(self, recorder: Recorder, iterable: Any, source: Iterated, loop: Any) -> None:
        super().__init__(recorder, loop)
        self.source = source
        no_iterator = type(iterable) in (TracedArray, *OF_OUTER_LOOPS) or type(iterable) in HOLDERS
        self.iterator = None if no_iterator else iter(iterable)
        self.left = items_left(self.iterator)
        self.shares = False  # whether code of the user's takes items from the iterator, too
        self.at = 0
        self.waits = 0  # marked iterations that were to wait for a longer row
        self.begun: Iteration | None = None  # the marked one, until it is a loop node, or has no chance to be one
        self.redone = False  # whether an iteration is to be made once more, whose item was taken
        # of the first iteration, if it has ended with arrays of another kind: how to begin with those; its operations
        self.first: tuple[list[Callable[[], object]], int] = [], 0
        self.streak = 0  # the number of iterations before this one that were marked, with none between
        self.resume = 0  # the iteration before which none is to be marked
        self.pending = False  # whether names are still to be bound to what a loop node has given
        self.iterable = iterable
        self.parts = [(part, list(part)) for part in live_parts(iterable)]  # which may change under way
        self.stopped: int | None = None  # the first iteration of a loop node that has stopped at a question
        self.taken: Atom | None = None  # how many it has made
        self.pieces = 0  # loop nodes that stand for a part of the iterations
        # of a loop whose number of iterations differs, in an iteration of another one
        self.uncertain = type(iterable) in OF_OUTER_LOOPS
        self.may_be_none = self.uncertain and iterable.needs_positive
        self.before: dict[str, Any] | None = None  # names that keep their values where there is no iteration

    def __next__(self) -> Any:
        if self.iteration is not None:
            self.check()
            self._check_items(self.iteration.marked)
            ended, self.begun = self._finished(sys._getframe(1)), None
            if ended:
                raise self._over()
        if self.stopped is not None:
            return self._asking()
        if self.taken is not None:
            self._goes_on()
        k = self.at
        if self._is_shared() or any(len(part) != len(items) for part, items in self.parts):
            self.final, self.streak = True, 0
            self.rebinds, self.pending = self.pending, False
            return self._next()
        if self.uncertain and self.before is None:
            self.before = {name: x for name, x in sys._getframe(1).f_locals.items() if name in self.loop.assigned}
        length = self.source.length
        count = length.constant
        if count is None:
            count = int(self.recorder.value(value_of(length, {})))
        if k >= count:
            keep_identities(self.recorder, self.loop, self.learned)
            if self.uncertain:
                self._stands_alone()
            if self.iterator is not None:
                next(self.iterator, None)
            self.rebinds = self.pending
            raise self._over()
        self.at += 1
        if self._marks(count, k) and not self._is_quiet(sys._getframe(1), count):
            return self._marked(sys._getframe(1), k)
        if self.uncertain:
            self._stands_alone()
        self.rebinds, self.pending = self.pending, False
        self.streak = 0
        if self.redone or self.iterator is None or not self.pieces:
            redone, self.redone = self.redone, False
            return self.source.item(k) if redone or self.iterator is None else self._next()
        self._skip(1)  # whose numbers may not have gone on with it
        return self.source.item(k)

    def _next(self) -> Any:
        """The next item of the iterator."""
        assert self.iterator is not None
        item = next(self.iterator)
        self.left = items_left(self.iterator)
        return item

    def _skip(self, count: int) -> None:
        """Have the iterator, if there is one, go on by *count* items."""
        if self.iterator is not None:
            advance(self.iterator, count)
            self.left = items_left(self.iterator)

    def _is_shared(self) -> bool:
        """Whether code of the user's has taken items from the iterator."""
        if self.iterator is not None and not self.shares:
            self.shares = items_left(self.iterator) != self.left
        return self.shares

    def _over(self) -> StopIteration:
        """The end of the loop, which holds no more what it has gone over."""
        self.iterator, self.parts = None, []
        self.iterable = self.iterable if self.uncertain else None
        return StopIteration()

    def _check_items(self, marked: Marked) -> None:
        """Refuse a *marked* iteration that has changed what is iterated over, or taken items from it."""
        if self._has_changed():
            what = "a list is changed that is iterated over"
            marked.refuse(Refusal.LOOP_SEEN(what=what, site=self.recorder.site()))
        if self._is_shared():
            what = "items are taken from what is iterated over"
            marked.refuse(Refusal.LOOP_SEEN(what=what, site=self.recorder.site()))

    def check(self) -> None:
        """Look whether the marked iteration has come to its end."""

    def _marks(self, count: int, k: int) -> bool:
        """Whether iteration *k* of *count* is to be marked."""
        if self.final or self.attempts >= MOST_ATTEMPTS or k < self.resume:
            return False
        if self._has_changed():
            self.final = True
            return False
        few = FEW_TRIPS if count < MIN_TRIPS else MIN_TRIPS
        return self.uncertain or count - k >= few

    def _is_quiet(self, frame: FrameType, count: int) -> bool:
        """Whether this iteration is one of plain numbers."""
        if self.uncertain or self.attempts or self.pieces:
            return False
        if self.quiet is None:
            self.quiet = Quiet(self.recorder, frame, self.loop, count if self.source.is_plain() else None)
        return self.quiet.lasts()

    def _marked(self, frame: FrameType, k: int) -> Any:
        """The item of iteration *k*, which is marked."""
        length = self.source.length.plus(Affine(-k))
        values = dict(zip(self.loop.assigned, self.values, strict=True)) if self.pending else {}
        iteration = Iteration(self.recorder, length, frame, self.loop, self.lessons, self.learned, values)
        if self.may_be_none:
            iteration.before, iteration.total = self.before or {}, self.source.length
        iteration.begin()
        iteration.marked.earlier = self.streak
        constant = self.source.length.constant
        iteration.marked.is_short = constant is not None and constant < MIN_TRIPS
        self.attempts += 1
        self.streak += 1
        self.iteration = self.begun = iteration
        self.rebinds, self.pending = True, False
        if self.iterator is not None and not self.redone:
            self._next()
        self.redone = False
        return self.source.symbol(iteration.marked, k)

    def _has_changed(self) -> bool:
        """Whether what is iterated over has other items than at the start."""
        return any(len(part) != len(items) or not all(map(same_objects, part, items)) for part, items in self.parts)

    def _stands_alone(self) -> None:
        """An iteration, or the end, of a loop that other iterations of the loops around may not have."""
        self.iterable.refuse_outer()

    def _finished(self, frame: FrameType) -> bool:
        """Whether the iteration that has been made stands for all that remain."""
        iteration, self.iteration = self.iteration, None
        assert iteration is not None
        k, remain = self.at - 1, self.source.length.plus(Affine(1 - self.at))
        limited = iteration.marked.length != remain
        if limited and iteration.marked.length is not None and iteration.marked.length.slopes:
            self._limited(iteration, iteration.marked.length.plus(Affine(k)))
        found = iteration.finish(frame)
        if limited and isinstance(found, Reason) and found.code is Refusal.LOOP_ANSWERS:
            assert iteration.length is not None
            self.resume = k + iteration.length.offset  # until then there are too few for a loop
            self.attempts -= 1
        if isinstance(found, Reason) and self._may_be_left(found) and not limited:
            found = self._stopping(iteration, frame, found)
        if isinstance(found, Reason):
            if iteration.begins_otherwise and k == 0:
                self.first = iteration.begins_otherwise, self.recorder.operations - iteration.operations_before
                if remain.constant is not None and not self._marks(k + remain.constant, k + 1):
                    self._may_run_again()
            self._may_wait(iteration, found)
            note_refusal(self.recorder, found, self.attempts)
            self._refused(iteration, frame, found)
            return False
        if iteration.taken is not None:
            self.values, self.stopped, self.taken = found, k, iteration.taken
            return False
        if iteration.marked.folded < k:
            if self.uncertain:
                self._stands_alone()
            self._may_run_again()
        self.values, self.streak = found, 0
        if limited:
            assert iteration.length is not None
            self.at, self.pending, self.attempts = k + iteration.length.offset, True, 0
            self.pieces += 1
            self.final = self.pieces == MOST_PIECES
            if iteration.length.slopes:
                assert type(self.source) is Counts
                self.source = self.source.later(Affine(0, iteration.length.slopes))
                self.uncertain = bool(self.source.length.slopes)
        else:
            self.rebinds = self.final = True
        self._skip(self.at - 1 - k if limited else remain.offset - 1)
        return not limited

    def _refused(self, iteration: Iteration, frame: FrameType, reason: Reason) -> None:
        """No loop node was made of the iteration, which stands for itself, for this *reason*."""
        iteration.keep_no_copies(frame)
        if self.attempts >= MOST_ATTEMPTS:
            iteration.give_up(frame, reason)

    def _may_wait(self, iteration: Iteration, reason: Reason) -> None:
        """Let an iteration in vain count for nothing whose rows were too short."""
        if reason.code is Refusal.LOOP_COUNT and iteration.marked.waits and self.waits < MOST_WAITS:
            self.waits += 1
            self.attempts -= 1

    def _may_run_again(self) -> None:
        """Have the run made again, if the first iteration stands beside the loop for the kinds of its arrays alone and
        its code costs more than that (a heuristic)."""
        begins, operations = self.first
        if self.recorder.operations <= MOST_AGAIN * operations and not self.recorder.live:
            for begin in begins:
                begin()
            run_again(self.recorder, _BEGINS)

    def _limited(self, iteration: Iteration, total: Affine) -> None:
        """The loop node is of the *total* iterations up to one in which a question has another answer: as many as each
        iteration of the loops around has, maybe none."""
        low = bounds(total, self.recorder.open_loops)[0]
        if low is not None and low > 0:
            return
        if self.pieces or self.before is None or type(self.source) is not Counts:
            iteration.marked.refuse(Refusal.LOOP_ANSWERS(site=self.recorder.site()))
        iteration.before, iteration.total = self.before or {}, total
        self.may_be_none = True

    # ---- loops that are left where data decides ---------------------------------------------------------------------

    def _may_be_left(self, reason: Reason) -> bool:
        """Whether the loop may be left in an iteration whose questions have other answers."""
        exits = self.loop.has_break or self.loop.has_return
        return exits and reason.code is Refusal.LOOP_ANSWERS and self.iterator is not self.iterable

    def _stopping(self, iteration: Iteration, frame: FrameType, reason: Reason) -> tuple[Any, ...] | Reason:
        """As ``iteration.finish``, of a loop that stops before an iteration in which a question has another answer."""
        if self.uncertain or self.recorder.stand_ins.batches:  # rows may be left elsewhere
            return reason
        return iteration.finish(frame, True)

    def _asking(self) -> Any:
        """The item of the iteration before which the loop node has stopped: Python makes it, and asks."""
        assert self.stopped is not None and self.taken is not None
        k, self.stopped = self.stopped, None
        remain = self.source.length.offset - k
        with building(self.recorder):
            goes_on = F.lt(self.taken, Lit(remain, INT))
            number = cast(F.add(self.taken, Lit(k, INT)), INT, weak=True)
        self.rebinds = True
        if not self.recorder.guard(goes_on, "bool"):
            self.at, self.taken = k + remain, None
            raise self._over()
        self.streak = 0
        self.pending, self.at = False, k
        return self.source.at(wrap(number, self.recorder))

    def _goes_on(self) -> None:
        """The iteration has not been the last one: how many there were before it is looked at."""
        assert self.taken is not None
        self.at += int(self.recorder.guard(self.taken, "int")) + 1
        self._skip(int(self.recorder.value(self.taken)))
        self.taken = None
        self.pieces += 1
        self.final = self.pieces >= MOST_PIECES

    def leave(self) -> None:
        super().leave()
        if self.uncertain:
            self._stands_alone()
