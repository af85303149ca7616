"""The local variables of a loop's frame in a marked iteration: what is carried by them, and what they hold after the
last iteration.

A carried name begins the iteration with a symbol in place of each number in its value.  Arrays that the loop writes
into keep their objects: their buffers hold the symbols.  Python integers that go up by a constant are no carries:
they follow from the number of the iteration."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FrameType, MappingProxyType
from typing import Any

import numpy as np

from ..ir.aval import FLOAT
from ..ir.graph import Atom, Lit, Var, building, reals
from ..ir.refusals import Reason, Refusal
from ..ops.elementwise import whole_reals
from ..record.array import TracedArray, class_of, wrap
from ..record.buffers import Storage
from ..record.made_arrays import ALONE, begins_as_traced, references
from ..record.recorder import Recorder
from .after import After, Start, StartNumber, final_of
from .cut import cut
from .histories import Filling, History
from .holders import array_of, tape_of
from .lessons import Lessons
from .list_rows import read_as, writes_list
from .lists import Lists
from .marked import Marked
from .parts import Cut, LoopResults, Wanted
from .places import Element, WrittenPlace, elements_behind
from .positions import Affine, Reader
from .python_ints import SMALL, UNBOUNDED, in_plain_iterations, is_python_int, is_small, run_again, traced_int
from .row_writes import MAX_BACK
from .tables import NO_NUMBER, held_rows, maybe_floats, table_of
from .values import (
    UNSET,
    Changeable,
    Like,
    PlainValue,
    alike,
    atom_of,
    can_be_made_anew,
    frozen_in,
    has_again,
    like,
    put_together,
    taken_apart,
)

FEW_TRIPS = 4  # no loop node has fewer iterations
_ITEM_WRITTEN = "an iteration writes into an array of a list: the run is made again, with that loop as it is"
_NO_FLOAT = "a number that a loop changes is a Python float in some iterations: the run is made again"
_MADE_ANEW = "a loop that makes its containers anew is no loop node: the run is made again, with that loop as it is"
_NO_COUNT = "an integer that a loop changes does not go up by a constant: the run is made again"


@dataclass
class EarlierWrites:
    """Writes of earlier iterations in one run of a loop: buffers, by id, and places, by theirs."""

    buffers: dict[int, Storage] = field(default_factory=dict)
    places: dict[Any, WrittenPlace] = field(default_factory=dict)
    grows: dict[int, tuple[Any, int]] = field(default_factory=dict)  # lists, and how many values they get each time
    histories: dict[int, Any] = field(default_factory=dict)  # lists that grow, and of which any element may be read
    filled: dict[int, tuple[Any, int, int]] = field(default_factory=dict)  # lists, their next element, and the step
    scattered: dict[int, Any] = field(default_factory=dict)  # lists any element of which may be assigned
    mixed: set[int] = field(default_factory=set)  # ids of lists of Python floats and of ``np.float64``
    is_known: bool = False  # whether there was an iteration
    tables: dict[int, Any] = field(default_factory=dict)  # lists of lists that are tables
    kept: dict[int, Any] = field(default_factory=dict)  # as of ``Changeable``
    holders: dict[int, Any] = field(default_factory=dict)  # objects that stay what they are, and whose tape goes on
    made_anew: bool = False  # whether copies stand for containers in an iteration of which no loop node was made


class Iteration:
    """One marked iteration, of *length* that remain, of *loop* in *frame*.  *values*: of names that the frame does not
    have yet."""

    def __init__(
        self, recorder: Recorder, length: Affine | None, frame: FrameType, loop: Any, lessons: Lessons,
        learned: EarlierWrites, values: Mapping[str, Any] = MappingProxyType({}),
    ):  # fmt: skip
        self.given = values
        self.recorder, self.length, self.frame, self.loop, self.lessons = recorder, length, frame, loop, lessons
        self.learned = learned
        self.buffers: dict[int, tuple[Storage, Var]] = {}  # that are carried, and their symbols
        self.starts_of: dict[Any, Start] = {}  # by name, or by the id of a place
        self.places: dict[Any, WrittenPlace] = {}  # that are carried
        self.moves: dict[
            int, int
        ] = {}  # of the places of arrays that change: the buffer before, and after an iteration
        self.arrays: dict[int, TracedArray] = {}  # whole arrays of these buffers
        self.started = self.ended = Changeable(learned.kept)  # containers of the values at its start, and its end
        self.made: dict[int, Any] = {}  # the containers with symbols, by number
        self.patterns: dict[Any, Any] = {}  # of the values at its end
        self.stand_ins: list[tuple[TracedArray, StartNumber]] = []  # arrays of symbols
        self.symbols: tuple[Any, ...] = ()
        self.floats: list[Any] = []  # names of Python floats that begin as ``np.float64``
        self.ints: list[tuple[str, Atom]] = []  # integers of Python's that are carried, by the names shown
        self.guards_asked = 0  # how many guards the recording had at its end
        self.before: dict[str, Any] = {}  # values of names before a loop that may have no iteration
        self.read_after: list[Any] = []  # what names and places have at its end, but for names that nobody reads then
        self.total = Affine(1)  # the number of all its iterations
        self.begins_otherwise: list[Callable[[], object]] = []  # for another run: begin with arrays as this has ended
        self.asks = False  # whether the loop may have stopped at a question
        self.told: Any = None  # as of ``LoopResults``
        self.taken: Atom | None = None  # after how many iterations, then

    def begin(self) -> None:
        """Mark where it begins, and put the symbols in place."""
        found = {**self.frame.f_locals, **self.given}
        self.operations_before = self.recorder.operations
        histories = self._histories(found)
        self.marked = Marked(self.recorder, self.length, self.frame)
        self.ended = Changeable(self.learned.kept, self.marked.made)
        self.marked.statement = self.loop
        for loop in self.recorder.open_loops[-2:-1]:
            for table, _ in loop.tables:
                table.carry(self.marked)
        for target in self.learned.tables.values():
            table_of(self.recorder, target, False)
        for name in sorted(self.lessons.written):
            value = found.get(name)
            array = array_of(value)
            if type(array) is TracedArray and (array.aval.shape or array is not value):
                self._carry_buffer(array._storage)
        self.marked.grows.update({key: count for key, (_, count) in self.learned.grows.items()})
        for storage in self.learned.buffers.values():
            self._carry_buffer(storage)
        for history in histories:
            history.marked, self.marked.histories[id(history.target)] = self.marked, history
            if history.filling is None:
                self.marked.grows.setdefault(id(history.target), history.step)
            for stack in history.stacks:
                self._carry_buffer(stack._storage)
                history.symbols.append(self.buffers[id(stack._storage)][1])
        if (tape := tape_of(self.recorder)) is not None:
            tape.begun(self)
        for place in self.learned.places.values():
            if place.known() and id(place.owner) not in self.marked.histories:
                for outer in self.recorder.open_loops[:-1]:
                    if id(place.owner) not in outer.made and not isinstance(place, Element):
                        outer.places[place.id] = place
                self.places[place.id] = place
                place.set(self._start(place.id, place.get()))
        carried = self.loop.carried
        self.symbols = tuple([self._start(name, found[name]) if name in found else UNSET for name in carried])

    def _histories(self, found: dict[str, Any]) -> list[History]:
        """The lists whose elements are to be rows of arrays; *found* are the values of names."""
        count = None if self.length is None else self.length.constant
        if count is None:
            return []
        grows, mixed = self.learned.grows, self.learned.mixed
        lists = {id(x): (x, n) for name, n in self.loop.filled if type(x := found.get(name)) is list}
        if self.learned.is_known:
            lists = {key: grows[key] for key in {**lists, **self.learned.histories} if key in grows}
        made = [History.of(x, step, count, self.loop, key in mixed) for key, (x, step) in lists.items()]
        fillings = {key: Filling.at(*filled) for key, filled in self.learned.filled.items()}
        fillings.update({key: Filling(x, 0, 0, len(x)) for key, x in self.learned.scattered.items()})
        for key in {key for loop in self.recorder.open_loops for key in loop.histories} & fillings.keys():
            del fillings[key]
        made += [History.of(x.target, 1, count, self.loop, key in mixed, x) for key, x in fillings.items()]
        return [history for history in made if history is not None]

    def _carry_buffer(self, storage: Storage) -> None:
        if id(storage) in self.buffers or storage.owner is not None:
            return
        for outer in self.recorder.open_loops[:-1]:
            outer.writes(storage)
        self.marked.kept.setdefault(id(storage), (storage, storage.atom))
        symbol = self.marked.carried(storage.atom)
        self.buffers[id(storage)] = storage, symbol
        storage.atom = symbol
        storage.version += 1

    def _start(self, name: Any, value: Any) -> Any:
        """The value of *name* in the iteration."""
        if name in self.lessons.steps:
            count = self._count_of(value)
            if count is not None:
                form = count.plus(Affine(0, {self.marked.number: self.lessons.steps[name]}))
                self.starts_of[name] = Start(value, PlainValue(value), [], form)
                return self.marked.integer(form, value if type(value) is int else value.atom)
        if name in self.lessons.floats and type(value) is float:
            value = wrap(Lit(value, FLOAT))
            self.floats.append(name)
        if name in self.lessons.ints and type(value) is int:
            value = traced_int(self.recorder, value)
        if (id(self.loop), name) in self.recorder.taught.unordered and type(value) is TracedArray:
            value._storage.c_order = False  # or unknown
        given: list[Any] = []
        before = len(self.started.found)
        pattern = taken_apart(value, given, name in self.lessons.deep, self.started)
        leaves = [self._leaf(x) for x in given]
        self.starts_of[name] = Start(value, pattern, leaves)
        if not leaves and not has_again(pattern):
            self.made.update({self.started.numbers[id(x)]: x for x in self.started.found[before:]})
            return value
        found = put_together(pattern, iter([self._symbol(leaf) for leaf in leaves]), self.made)
        self.recorder.loops.stands_in(self.loop, *frozen_in(value), *frozen_in(found))
        for x in self.started.found[before:]:
            anew = self.made[self.started.numbers[id(x)]]
            self.marked.made_here(anew)
            self.recorder.loops.stands_in(self.loop, x, anew)
        return found

    def _count_of(self, value: Any) -> Affine | None:
        """The form of an integer at the start of the iteration."""
        if type(value) is int:
            return Affine(value)
        if type(value) is not TracedArray or not value.aval.weak or value.aval.dtype.kind != "i":
            return None
        form = self.marked.form(value.atom)
        known = value.atom in self.recorder.loops.int_ranges and self.recorder.parent is None
        if form is None and known and self.recorder.open_loops == [self.marked]:
            return Affine(0, {value.atom: 1})  # type: ignore[dict-item]  # it goes on from there
        return form

    def _leaf(self, value: Any) -> StartNumber:
        if type(value) is TracedArray and id(value._storage) in self.buffers:
            return StartNumber(value, None)
        symbol = self.marked.carried(atom_of(value))
        if is_python_int(value):
            self.recorder.loops.int_ranges[symbol] = SMALL  # as each iteration asks of what it ends with
        return StartNumber(value, symbol)

    def _symbol(self, leaf: StartNumber) -> Any:
        """The array in the place of *leaf*."""
        value, symbol = leaf
        if symbol is None:
            return value
        traced = type(value) is TracedArray
        found = read_as(self.recorder, value, symbol) if traced else TracedArray(symbol, self.recorder)
        self.recorder.loops.marked_values[id(found)] = found, value
        self.stand_ins.append((found, leaf))
        return found

    def _release(self) -> None:
        """Have the arrays in the places of values that the loop has not changed be these values."""
        for found, (value, symbol) in self.stand_ins:
            if type(value) is TracedArray:
                found._atom, found._version = value._atom, value._version
            elif symbol is not None and found._storage.version == 0:
                found._storage.atom, found._atom = atom_of(value), atom_of(value)

    def take_back(self) -> Mapping[Any, Any]:
        """Undo what the iteration has written; the values of carried names with which it began."""
        self.marked.close()
        for storage, atom in self.marked.kept.values():
            storage.atom = atom
            storage.version += 1
        return {name: start.value for name, start in self.starts_of.items()}

    # ---- the end of the iteration ----------------------------------------------------------------------------------

    def finish(self, frame: FrameType, stops: bool = False, go_on: Atom | None = None) -> tuple[Any, ...] | Reason:
        """The values of the names that are assigned after the loop that stands for all that remains; or why there is
        none.  *stops*, *go_on*: as of ``Wanted``."""
        marked, found = self.marked, frame.f_locals
        self.guards_asked = len(self.recorder.guards)
        self.check_floats(found)
        marked.close()
        self.buffers.update({id(table.storage): (table.storage, symbol) for table, symbol in marked.tables})
        self.length = marked.length
        result = self._finish(found, Wanted({}, stops=stops, go_on=go_on))
        if isinstance(result, Reason):
            self.read_after = []
            self.stands_alone()
        else:
            self.learned.made_anew = False
        return result

    def stands_alone(self) -> None:
        """No loop node is made of the iteration, which is closed."""
        self.marked.stands_alone()
        self.learned.made_anew |= any(self.made.get(self.started.numbers[id(x)]) is not x for x in self.started.found)

    def _finish(self, found: dict[str, Any], wanted: Wanted) -> tuple[Any, ...] | Reason:
        values: dict[Any, list[Any]] = {}
        if held_rows(self.marked, found, [name for name in self.loop.assigned if name not in self.loop.carried]):
            return self.marked.seen("a row of a table is kept")
        self.read_after = [found.get(name) for name in self.loop.assigned if name not in self.loop.unread]
        self.read_after += [place.get() for place in self.places.values()]
        if self._has_copies(self.read_after):
            return self.marked.seen("an object of a list is kept")
        with building(self.recorder):
            reason = self._objection(found, wanted, values)
            reason = reason or self._large_ints()
            if reason is not None:
                return reason
            for key, (_, symbol) in self.buffers.items():
                end = self.buffers[self.moves.get(key, key)][0].atom
                wanted.ends.update(zip(reals(symbol), whole_reals(end), strict=True))  # type: ignore[arg-type]
            self._read_views(found)
        parts = Cut(self.marked, wanted)
        if self.length is not None and wanted.go_on is None and not parts.asks():
            wanted.stops = False  # the number of iterations is known
        after = After(self, values, parts, wanted)
        if after.count is None and after.identities.are_passed_on():
            return Refusal.LOOP_SHARED(site=self.marked.site)
        made: dict[Any, Callable[[LoopResults], Any]] = {}
        for name in dict.fromkeys([*self.places, *self.loop.carried, *self.loop.assigned]):
            value = found.get(name, UNSET) if isinstance(name, str) else self.places[name].get()
            result = after.value(name, value)
            if isinstance(result, Reason):
                return result
            made[name] = result
        lists = Lists(self.marked, self.length, parts, wanted, after)
        if lists.reason is not None:
            return lists.reason
        undraw = self._draws(wanted)
        results = cut(self.marked, wanted)
        if isinstance(results, Reason):
            undraw()
            return results
        return self._put(results, made, lists, after)

    def _large_ints(self) -> Reason | None:
        """Why integers of Python's can't be carried; each iteration asks whether they are small where nobody knows."""
        large = [name for name, atom in self.ints if not is_small(self.recorder, atom)]
        return Refusal.LOOP_VALUE(name=large[0]) if large else None

    def _draws(self, wanted: Wanted) -> Callable[[], None]:
        """Draw what the iterations that remain draw from generators outside; how to take that back."""
        drawn, marked = self.recorder.drawn, self.marked
        if len(drawn.outside) == marked.draws:
            return _nothing
        if wanted.stops or self.length is None or self.length.constant is None:
            marked.give_up("random numbers are drawn as often as data says: the run is made again, turn by turn")
        return drawn.repeat(marked, self.length.constant)

    def _read_views(self, found: dict[str, Any]) -> None:
        """Record what views hold that were written since they were read: it belongs to the iteration."""
        for name in self.loop.assigned:
            leaves: list[Any] = []
            taken_apart(found.get(name), leaves, True, Changeable())
            for leaf in leaves:
                if type(leaf) is TracedArray:
                    atom_of(leaf)

    def _objection(self, found: dict[str, Any], wanted: Wanted, values: dict[Any, list[Any]]) -> Reason | None:
        """Why no loop can be made of the iteration, which all that is seen of it has taught; else its ends are in
        *wanted* and *values*."""
        reasons, length = [self.marked.reason], self.length
        if length is not None and not length.slopes and length.offset < FEW_TRIPS:
            reasons.append(Refusal.LOOP_ANSWERS(site=self.marked.site))
        ends = [(key, place.name, place.get()) for key, place in self.places.items()]
        ends += [(name, name, found.get(name, UNSET)) for name in self.loop.carried]
        reasons += [self._end(*end, wanted.ends, values) for end in ends]
        reasons.append(self._written(found))
        if (tape := tape_of(self.recorder)) is not None:
            reasons.append(tape.objection(self))
        reason = next((r for r in reasons if r is not None), None) or self._shared(values)
        if reason is None and self.moves:
            # the arrays change their places among each other
            known = not (wanted.stops or length.slopes) and {*self.moves} == {*self.moves.values()}  # type: ignore[union-attr]
            if not known or self._moves_are_shown(found):
                return Refusal.LOOP_SHARED(site=self.marked.site)
        return reason

    def _moves_are_shown(self, found: dict[str, Any]) -> bool:
        """Whether anything but the places among which arrays move shows one of these, and may be read."""
        whole = {id(x) for start in self.starts_of.values() for x, _ in start.leaves}
        dead = [x for name, x in found.items() if name in self.loop.unread and name not in self.loop.carried]
        whole.update(map(id, dead))
        storages = [self.buffers[key][0] for key in self.moves]
        others = [x for x in gc.get_referrers(*storages) if type(x) is TracedArray and id(x) not in whole]
        pairs = [*self.recorder.loops.marked_values.values(), *[(x, leaf.before) for x, leaf in self.stand_ins]]
        ours = Counter([id(x) for pair in pairs for x in pair])
        return any(references(others, k) > ALONE + ours[id(others[k])] for k in range(len(others)))

    def _put(
        self, results: LoopResults, made: dict[Any, Callable[[LoopResults], Any]], lists: Lists, after: After
    ) -> tuple[Any, ...]:  # fmt: skip
        """Put the *results* of the loop in the places of what it changes; the values of the names that it assigns."""
        outer_loops = self.recorder.open_loops
        for key, (_, symbol) in self.buffers.items():
            storage = self.buffers[self.buffer_after(key)][0]
            if outer_loops:
                outer_loops[-1].writes(storage)
            storage.atom = final_of(results, symbol)
            storage.version += 1
        self._release()
        self.asks, self.told, self.taken = results.asks, results.told, results.taken
        with building(self.recorder):
            every = {name: make(results) for name, make in made.items()}
            lists.extend(results)
            for table in self.marked.own_tables:
                table.settle()
            for history in self.marked.histories.values():
                history.note_names(after.made.values())
            if (tape := tape_of(self.recorder)) is not None:
                tape.ended(self)
        for outer in outer_loops:
            outer.made.update({id(x): x for x in after.made.values() if id(x) not in self.ended.numbers})
        for key, place in self.places.items():
            if isinstance(place, Element):
                continue
            for outer in outer_loops:
                outer.wrote(place.owner, place.key)
            place.set(every[key])
        return tuple([every[name] for name in self.loop.assigned])

    def _has_copies(self, values: Iterable[Any]) -> bool:
        """Whether an object that stands for an item of a list is in *values*."""
        held, copies, values = Changeable(), self.marked.copies(), list(values)
        for x in values if copies else ():
            taken_apart(x, [], True, held)
        return not copies.keys().isdisjoint([*held.numbers, *map(id, values)])

    def _kept(self, found: Mapping[str, Any], but: Container[str]) -> list[Any]:
        """The values of the names that the loop assigns *but* these, and those in places and lists that the iteration
        has written; *found* are the values of names."""
        kept = [found.get(name) for name in self.loop.assigned if name not in but]
        kept += [place.get() for place in (*self.places.values(), *self.marked.places.values())]
        return kept + [x for _, *values in self.marked.appends.values() for x in values]

    def keep_no_copies(self, frame: FrameType) -> None:
        """Have the run made again, with that loop as it is, where objects that stand for items of a list may be kept
        by the iteration, of which no loop node is made."""
        copies = self.marked.copies().values()
        if not copies:
            return
        kept = self._kept(frame.f_locals, {*self.loop.target_names, *self.loop.unread})
        seen = self.marked.reason is not None and self.marked.reason.code is Refusal.LOOP_SEEN
        can_change = not all(isinstance(x, tuple) for x in copies)
        if (seen and can_change) or self._has_copies(kept):
            in_plain_iterations(self.recorder, self.loop, _MADE_ANEW)

    def give_up(self, frame: FrameType, reason: Reason) -> None:
        """No loop node is made of the loop, for this *reason*: integers of Python's that are traced now are to be
        Python's own, and what is asked of them otherwise than in other iterations a choice, if it can be."""
        found = frame.f_locals
        names = [name for name in self.loop.assigned if name not in self.loop.target_names]
        values = [found.get(name) for name in names] + [place.get() for place in self.places.values()]
        if any(map(is_python_int, values)):
            if reason.code is Refusal.LOOP_ANSWERS and self.recorder.choices is not None:
                self._want_choices(self.recorder.choices)
            in_plain_iterations(self.recorder, self.loop, UNBOUNDED)
        keep_identities(self.recorder, self.loop, self.learned)

    def _want_choices(self, choices: Any) -> None:
        """Note that what the iteration has asked is to be choices."""
        for guard in self.recorder.guards[self.marked.guards : self.guards_asked]:
            if guard.kind == "bool" and guard.site is not None:
                choices.want((guard.site.file, guard.site.line))

    def _end(
        self, name: Any, shown: str, value: Any, ends: dict[Var, Atom], values: dict[Any, list[Any]]
    ) -> Reason | None:
        """Why the value of *name* is no carry; else what it is goes to *ends* and *values*."""
        if name not in self.starts_of:
            return None  # it was not set, so it is not read before it is assigned
        if value is UNSET:
            return Refusal.LOOP_UNSET(name=shown)
        start = self.starts_of[name]
        if start.counts is not None:
            if self._count_of(value) == start.counts.plus(Affine(self.lessons.steps[name])):
                return None
            self.recorder.taught.uncounted.add((id(self.loop), shown))
            run_again(self.recorder, _NO_COUNT)  # what was computed from it is no integer of Python's any more
        leaves: list[Any] = []
        if type(value) is int and is_python_int(start.leaves[0].before if start.leaves else None):
            value = traced_int(self.recorder, value)
        pattern = self.patterns[name] = taken_apart(value, leaves, name in self.lessons.deep, self.ended)
        for leaf in start.leaves:
            if leaf.symbol is not None and type(leaf.before) is TracedArray and self._is_written(leaf.before):
                self.learned.buffers[id(leaf.before._storage)] = leaf.before._storage
                self.lessons.written.add(name)
                return Refusal.LOOP_WRITTEN(name=shown)
        if not alike(start.pattern, pattern):
            return self._unlike(name, shown, start, value)
        for leaf, end in zip(start.leaves, leaves, strict=True):
            if leaf.symbol is not None and is_python_int(end):
                if self._goes_up(name, shown, leaf.symbol, end):
                    return Refusal.LOOP_VALUE(name=shown)
                self.ints += (shown, atom_of(leaf.before)), (shown, end.atom)
            if leaf.symbol is not None:
                ends.update(zip(reals(leaf.symbol), whole_reals(atom_of(end)), strict=True))  # type: ignore[arg-type]
            elif not _is_same_view(leaf.before, end) and not self._moved(leaf.before, end):
                if type(end) is TracedArray and self.is_old(end._storage):
                    self.learned.buffers[id(end._storage)] = end._storage
                elif not self._is_written(leaf.before):  # but made anew
                    self.lessons.written.discard(name)
                    self.learned.buffers.pop(id(leaf.before._storage), None)
                return Refusal.LOOP_WRITTEN(name=shown)
        values[name] = leaves
        return None

    def check_floats(self, found: Mapping[str, Any]) -> None:
        """Have the run made again, without that, where a Python float and a ``np.float64`` may have differed in it, or
        a name still is what has begun as one: *found* are the values of names."""
        for name in self.floats:
            (leaf,) = self.starts_of[name].leaves
            value = found.get(name, UNSET)
            if (type(value) is TracedArray and value._atom is leaf.symbol) or not self._suits_floats(leaf.symbol):
                self.recorder.taught.uncounted.add((id(self.loop), name))
                run_again(self.recorder, _NO_FLOAT)

        self._check_tables(found)

    def _check_tables(self, found: Mapping[str, Any]) -> None:
        """The same where a number of a table, which may be a Python float, is more than computed with."""
        tables = [table for table, _ in self.marked.tables]
        numbers = {x for table in tables if table.plain.any() for x in table.numbers}
        if self._tells_floats(numbers, found, [write.value for table in tables for write in table.writes]):
            in_plain_iterations(self.recorder, self.loop, NO_NUMBER)

    def _keeps(self, found: Mapping[str, Any], history: History) -> bool:
        """Whether a number of *history*, which may be a Python float, is kept, or more is done with one than adding."""
        added = [] if history.is_whole else [atom_of(x) for numbers in history.values for x in numbers]
        return self._tells_floats(history.numbers, found, added)

    def _tells_floats(self, numbers: set[Atom], found: Mapping[str, Any], put: Iterable[Atom]) -> bool:
        """Whether it counts for the iteration, or what it has *put* elsewhere, that *numbers* may be Python floats."""
        if not numbers:
            return False
        maybe = maybe_floats(self.recorder.nodes[self.marked.nodes :], numbers)
        leaves: list[Any] = []
        for value in self._kept(found, set(self.loop.unread) - set(self.loop.carried)):
            taken_apart(value, leaves, True, Changeable())
        atoms = [x._atom for x in leaves if type(x) is TracedArray]
        return maybe is None or self.marked.calls_users or not maybe.isdisjoint([*atoms, *put])

    def _suits_floats(self, symbol: Var | None) -> bool:
        """Whether the iteration has done nothing with *symbol* that differs for a Python float and a ``np.float64``."""
        if self.marked.calls_users or symbol is None:
            return False
        return maybe_floats(self.recorder.nodes[self.marked.nodes :], {symbol}) is not None

    def _goes_up(self, name: Any, shown: str, symbol: Var, end: TracedArray) -> bool:
        """Learn whether the integer that was *symbol* goes up by a constant."""
        if (id(self.loop), shown) in self.recorder.taught.uncounted:
            return False
        form = Reader({symbol: Affine(0, {symbol: 1})}.get, self.marked.node_of).form(end.atom)
        if form is None or form.slopes != {symbol: 1} or not form.offset:
            return False
        self.lessons.steps[name] = form.offset
        return True

    def _moved(self, before: TracedArray, end: Any) -> bool:
        """Whether *end*, in the place of the array *before*, is another one whose buffer is carried (`a, b = b, a`)."""
        if type(end) is not TracedArray or before._steps or end._steps or id(end._storage) not in self.buffers:
            return False
        self.moves[id(before._storage)] = id(end._storage)
        self.arrays[id(before._storage)] = before
        return True

    def buffer_after(self, key: int) -> int:
        """The buffer that is, after all iterations, in the place of the one with this id."""
        if key in self.moves:
            assert self.length is not None
            order = [key]
            while self.moves[order[-1]] != key:
                order.append(self.moves[order[-1]])
            return order[self.length.offset % len(order)]
        return key

    def _unlike(self, name: Any, shown: str, start: Start, value: Any) -> Reason:
        """The reason why *name* is no carry, which is learned from."""
        step = None
        if type(start.value) is int and type(value) is int:
            step = value - start.value
        elif type(value) is TracedArray and (form := self._count_of(value)) is not None:
            step = form.slopes.get(self.marked.number)
        if step and (id(self.loop), shown) not in self.recorder.taught.uncounted:
            self.lessons.steps[name] = step
            return Refusal.LOOP_VALUE(name=shown)
        if type(start.value) is int and (type(value) is int or is_python_int(value)):
            self.lessons.ints.add(name)
            return Refusal.LOOP_VALUE(name=shown)
        if type(start.value) is float and type(value) is TracedArray and class_of(value) is np.float64:
            once = (id(self.loop), shown) in self.recorder.taught.uncounted
            if not once and name in self.loop.sums and self._suits_floats(start.leaves[0].symbol):
                self.lessons.floats.add(name)
        if type(value) is TracedArray:
            self._could_begin(name, start, value)
        if id(value) in self.learned.kept:
            self.lessons.deep.discard(name)
        elif can_be_made_anew(value):
            self.lessons.deep.add(name)
        elif not start.leaves and type(value) is type(start.value) is not TracedArray:
            return Refusal.LOOP_VALUE(name=shown)
        return Refusal.LOOP_KIND(name=shown)

    def _could_begin(self, name: Any, start: Start, value: TracedArray) -> None:
        """Note how another run could begin with an array of the kind of *value*, which *name* has at the end."""
        if type(start.value) is not TracedArray:
            if (begin := begins_as_traced(start.value)) is not None:
                self.begins_otherwise.append(begin)
        elif not self.recorder.open_loops and name in self.loop.carried and start.pattern == _in_c_order(value):
            self.begins_otherwise.append(partial(self.recorder.taught.unordered.add, (id(self.loop), name)))

    def _is_written(self, array: TracedArray) -> bool:
        return id(array._storage) in self.marked.written

    def is_old(self, storage: Storage) -> bool:
        """Whether it was there before the iteration."""
        return storage.born < self.marked.serial and storage.owner is None

    def _written(self, found: dict[str, Any]) -> Reason | None:
        """Note buffers and places that were written, and are not carried."""
        marked = self.marked
        read = elements_behind([e for e in marked.elements.values() if id(e.owner) in marked.appends])
        if any(-e.key > MAX_BACK for e in read.values()):
            return marked.seen("a list is read far from its end")
        every: dict[Any, WrittenPlace] = {**marked.places, **read}
        new = {key: place for key, place in every.items() if key not in self.places}
        self.learned.places.update(new)
        appended = {key: (target, len(values)) for key, (target, *values) in marked.appends.items()}
        grown = appended != self.learned.grows and not marked.appends.keys().isdisjoint(marked.read)
        self.learned.grows = appended
        more = [storage for key, storage in self.marked.written.items() if key not in self.buffers]
        for storage in more:
            self.learned.buffers[id(storage)] = storage
            arrays = {n: array_of(v) for n, v in found.items()}
            names = [n for n, v in arrays.items() if type(v) is TracedArray and v._storage is storage]
            self.lessons.written.update(names)
        self._learn_tables()
        what = self._filled(found)
        if grown:  # a length, or a position from its end, is known now
            what = "a list is read and appended to"
        elif writes_list(marked):  # of which later rows of the list's stack, and of others that share it, know nothing
            in_plain_iterations(self.recorder, self.loop, _ITEM_WRITTEN)
        if what:
            return marked.seen(what)
        for place in new.values():
            return Refusal.LOOP_KIND(name=place.name)
        return Refusal.LOOP_WRITTEN(name="an array") if more else None

    def _learn_tables(self) -> None:
        """Note lists that are to be tables in the next iteration, and nothing else."""
        learned, found = self.learned, self.marked.learned_tables
        learned.tables.update(found)
        ids = {id(x) for target in found.values() for x in (target, *target)}
        for known in (learned.filled, learned.scattered, learned.grows, learned.histories):
            for key in ids & known.keys():
                del known[key]
        for key in ids & self.lessons.scattered.keys():
            del self.lessons.scattered[key]
        learned.places = {key: place for key, place in learned.places.items() if id(place.owner) not in ids}

    def _filled(self, found: dict[str, Any]) -> str:
        """Note lists that are filled; the reason why one cannot be an array, empty where there is none."""
        marked, learned = self.marked, self.learned
        learned.is_known = True
        learned.histories.update({key: x for key, x in marked.searched.items() if key in marked.appends})
        for key, (target, form, now) in marked.filled.items():
            slope = form.slopes[marked.number]
            if abs(slope) == 1:
                learned.filled[key] = target, now + slope, slope
        read_ahead = {key: h.target for key, h in marked.histories.items() if h.filling and key in marked.read}
        learned.scattered.update({**marked.scattered, **read_ahead})
        self.lessons.scattered.update(learned.scattered)
        learned.mixed.update([key for key, history in marked.histories.items() if history.is_mixed])
        for history in marked.histories.values():
            if what := history.objection() or ("a number is kept" if self._keeps(found, history) else ""):
                return what
        return ""

    def _shared(self, values: dict[Any, list[Any]]) -> Reason | None:
        """Whether two arrays that are carried share memory at the end, so that they would have to go on doing so."""
        seen: dict[int, Any] = {}
        for name, leaves in values.items():
            for leaf, start in zip(leaves, self.starts_of[name].leaves, strict=True):
                if type(leaf) is not TracedArray or start.symbol is None or class_of(leaf) is not np.ndarray:
                    continue
                if seen.setdefault(id(leaf._storage), leaf) is not leaf or id(leaf._storage) in self.buffers:
                    return Refusal.LOOP_SHARED(site=self.marked.site)
        return None


def keep_identities(recorder: Recorder, loop: Any, learned: EarlierWrites) -> None:
    """Have the run made again where *loop* is over, or goes on as it is, with copies of containers that others hold."""
    if learned.made_anew:
        in_plain_iterations(recorder, loop, _MADE_ANEW)


def _nothing() -> None:
    """There is nothing to take back."""


def _in_c_order(value: TracedArray) -> Like:
    return like(value)._replace(c_order=True)


def _is_same_view(a: Any, b: Any) -> bool:
    if a is b:
        return True
    same = type(a) is type(b) is TracedArray and a._storage is b._storage and len(a._steps) == len(b._steps)
    return same and all(x is y for (x, _), (y, _) in zip(a._steps, b._steps, strict=True))
