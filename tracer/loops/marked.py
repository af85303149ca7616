"""A marked iteration: an ordinary one of the recording, which runs over symbols.

A symbol is the result of an ``alias``, so the iteration computes what it would without them, has values and may ask
questions.  While it runs the recorder asks it for bounds of positions, and tells it which buffers are written."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..ir.aval import INT, Aval
from ..ir.graph import Atom, Lit, Node, Pair, Var, reals
from ..ir.primitive import PRIMITIVES
from ..ir.refusals import Reason, Refusal
from ..ops.elementwise import whole_lanes, whole_reals
from ..record.array import TracedArray
from ..record.buffers import Storage
from ..record.python_numbers import note_number
from ..record.recorder import Recorder
from .histories import History
from .holders import tape_of
from .list_rows import ListRow
from .places import Element, WrittenPlace
from .positions import COMPARISONS, Affine, Reader, answer, answers_alike, bounds, is_of
from .python_ints import in_plain_iterations, int_in_loop, knows_int, made_int
from .tables import Table, looked_at, stand_alone

_ALIAS = PRIMITIVES["alias"]


class CarriedSymbol(NamedTuple):
    """A symbol, and what it stands for in this iteration."""

    symbol: Var
    before: Atom


class Marked:
    """The iteration of a loop that goes on for *length* iterations, this one included (None: nobody knows)."""

    def __init__(self, recorder: Recorder, length: Affine | None, frame: FrameType) -> None:
        recorder.settle_premise()
        recorder.loops.iterations += 1
        self.recorder, self.length, self.frame = recorder, length, frame
        self.serial = recorder.loops.iterations
        self.site = recorder.site()
        self.nodes, self.guards = len(recorder.nodes), len(recorder.guards)
        self.batches, self.draws = len(recorder.stand_ins.rows), len(recorder.drawn.outside)
        self.carries: dict[Atom, CarriedSymbol] = {}  # by symbol
        self.written: dict[int, Storage] = {}  # buffers from before the iteration
        self.kept: dict[int, tuple[Storage, Atom]] = {}  # these, and what they held
        self.places: dict[Any, WrittenPlace] = {}  # of objects, that are written
        self.appends: dict[int, list[Any]] = {}  # id of a list -> [it, values that are appended]
        self.grows: dict[int, int] = {}  # id of a list -> how many values each iteration appends to it
        self.made: dict[int, Any] = {}  # objects that the iteration has made
        self.read: dict[int, Any] = {}  # lists that are read
        self.elements: dict[Any, Element] = {}  # of lists, that are read from the end
        self.searched: dict[int, Any] = {}  # lists of which data says what element is read
        self.filled: dict[int, tuple[Any, Affine, int]] = {}  # by id: a list, the element that is assigned, and where
        self.scattered: dict[int, Any] = {}  # lists of which data says what element is assigned
        self.histories: dict[int, History] = {}  # by the id of a list: its elements as rows of an array
        self.rows: dict[int, ListRow] = {}  # by id: rows that stand for arrays of lists
        self.tables: list[tuple[Table, Var]] = []  # tables, and the symbols of their arrays
        self.own_tables: list[Table] = []  # that are lists again when it is over
        self.table_rows: list[list[Any]] = []  # lists that stand for rows of tables
        self.learned_tables: dict[int, Any] = {}  # lists with which the next iteration is to begin as tables
        self.alone = False  # whether it stands for itself
        self.reason: Reason | None = None
        self.earlier = 0  # the number of iterations of the loop before it that were marked, too
        self.folded = 0  # how many of them became the loop's first ones
        self.forms: dict[Var, Affine] = {}
        self.ranges: dict[Var, tuple[int, int]] = {}  # bounds of arrays of positions
        self.parts_of: list[Any] = []  # plain arrays of which parts were taken, at traced positions
        self.integers = recorder.loops.int_ranges
        self.statement: Any = None  # the loop as it is written
        self.waits = False  # whether a row of a list was too short in it, which may be longer in a later one
        self.calls_users = False  # whether a special method of the user's has got a traced value
        self.is_short = False  # whether it has so few iterations that it is marked for the loops within it alone
        recorder.loops.made_int, recorder.loops.int_in_loop = made_int, int_in_loop
        recorder.loops.knows_int = knows_int
        recorder.open_loops.append(self)
        self.number = self.alias(Lit(0, INT, weak=True))
        self.forms[self.number] = Affine(0, {self.number: 1})

    def close(self) -> None:
        """The iteration is over."""
        loops = self.recorder.open_loops
        if self in loops:
            del loops[loops.index(self) :]
        if (tape := tape_of(self.recorder)) is not None:
            tape.closed(self)

    def stands_alone(self) -> None:
        """The iteration, which is closed, stands for itself alone: its integers are those of the iteration around it,
        if they follow from its number."""
        around = self.recorder.open_loops[-1].forms if self.recorder.open_loops else {}
        for var, form in self.forms.items():
            alone = form.at(self.number, Affine(0))
            (around if alone.slopes else self.recorder.loops.known_forms)[var] = alone
        for history in self.histories.values():
            history.leave()
        self.alone = True
        if self.own_tables or self.table_rows:
            stand_alone(self)

    def refuse(self, reason: Reason) -> None:
        self.reason = self.reason or reason

    def seen(self, what: str) -> Reason:
        """The reason why no loop node is made of an iteration in which this is seen."""
        return Refusal.LOOP_SEEN(what=what, site=self.site)

    # ---- symbols ---------------------------------------------------------------------------------------------------

    def alias(self, atom: Atom) -> Var:
        """A new value that is *atom*."""
        recorder = self.recorder
        if atom.aval.is_complex:
            re, im = map(self.alias, whole_lanes(atom))
            return Pair(re, im, atom.aval.dtype)
        var = Var(Aval(atom.aval.dtype, atom.aval.shape, atom.aval.weak))
        recorder.append(Node(_ALIAS, (atom,), {}, (var,), self.site))
        recorder.symbols.add(var)
        if isinstance(atom, Var) and atom in recorder.loops.int_ranges:  # in this iteration; no integer is carried
            recorder.loops.int_ranges[var] = recorder.loops.int_ranges[atom]
        if recorder.numbers is not None:
            note_number(recorder.numbers, _ALIAS, (atom,), {}, var)
        return var

    def carried(self, atom: Atom) -> Var:
        """The symbol of a carry that begins as *atom*; of a complex one of each of its lanes."""
        symbol = self.alias(atom)
        carries = map(CarriedSymbol, reals(symbol), whole_reals(atom))  # type: ignore[arg-type]
        self.carries.update({carry.symbol: carry for carry in carries})
        return symbol

    def integer(self, form: Affine, value: int | Atom) -> TracedArray:
        """The symbol of a Python integer that is *form* in each iteration, and *value* in this one: a number where this
        follows from those of the iterations."""
        var = self.alias(Lit(value, INT, weak=True) if isinstance(value, int) else value)
        self.forms[var] = form
        return TracedArray(var, self.recorder)

    # ---- what the recorder asks and tells --------------------------------------------------------------------------

    def form(self, atom: Atom) -> Affine | None:
        """The form of *atom* in the numbers of the loops that are open."""
        return self.reader().form(atom)

    def reader(self, makers: Mapping[Var, Node] = MappingProxyType({})) -> Reader:
        """A reader of forms of values that *makers*, or nodes of the recording, have."""
        recorder = self.recorder

        def maker(var: Var) -> Node | None:
            return makers.get(var) or self.node_of(var)

        def known(var: Var) -> Affine | None:
            if var in self.forms:
                return self.forms[var]
            found = next((loop.forms[var] for loop in recorder.open_loops if var in loop.forms), None)
            return recorder.loops.known_forms.get(var) if found is None else found

        loops = (self, *recorder.open_loops)
        return Reader(known, lambda x: None if any(x in loop.carries for loop in loops) else maker(x))

    def node_of(self, atom: Atom) -> Node | None:
        """The node that makes *atom*."""
        recorder: Recorder | None = self.recorder if isinstance(atom, Var) else None
        while recorder is not None:
            nodes = recorder.nodes
            at = recorder._producers.index(nodes).get(atom)  # type: ignore[arg-type]
            if at is not None and at < len(nodes):
                node = nodes[at]
                return node if any(out is atom for out in node.outs) else None  # else it was cut out of the recording
            recorder = recorder.parent
        return None

    def range_of(self, atom: Atom) -> tuple[int, int] | None:
        for loop in self.recorder.open_loops:
            if atom in loop.ranges:
                return loop.ranges[atom]  # type: ignore[no-any-return]
        form = self.form(atom)
        if form is None:
            return self.recorder.loops.int_ranges.get(atom)  # type: ignore[arg-type, no-any-return]
        low, high = bounds(form, self.recorder.open_loops)
        return None if low is None or high is None else (low, high)

    def answer(self, atom: Atom, asked: bool = True) -> bool | None:
        """The answer that the comparison *atom* of positions gives in all iterations.  Where answers differ, and it
        is *asked*, the loop ends before the first iteration that has another one."""
        found = None if atom.aval.shape else self.compared(atom)
        if found is None or not (found[1].slopes or found[2].slopes):
            return None
        return self.holds(*found) if asked else answer(*found, self.recorder.open_loops)

    def compared(self, atom: Atom) -> tuple[str, Affine, Affine] | None:
        """(the name of the comparison *atom*, the positions that it compares); None of what is none."""
        node = self.node_of(atom)
        if node is None or node.prim.name not in COMPARISONS:
            return None
        left, right = [self.form(x) for x in node.inputs]
        return None if left is None or right is None else (node.prim.name, left, right)

    def holds(self, name: str, left: Affine, right: Affine) -> bool | None:
        """The answer that the comparison *name* of two positions gives in all iterations, or in those that remain of
        the loop, which ends before the first one that has another answer; None where no loop is made."""
        found = answer(name, left, right, self.recorder.open_loops)
        return self._limited(name, left.plus(right, -1)) if found is None else found

    def now(self, atom: Atom) -> np.ndarray | None:
        """The value of *atom* in this iteration, where it is a position, or compares two; else None."""
        form, compared = self.form(atom), self.compared(atom)
        if form is not None:
            found: Any = self._position(form)
        elif compared is None:
            return None
        else:
            name, left, right = compared
            apart = self._position(left.plus(right, -1))
            found = None if apart is None else getattr(operator, name)(apart, 0)
        return None if found is None else np.full(atom.aval.shape, found, atom.aval.dtype)

    def _position(self, form: Affine) -> int | None:
        """*form* in this iteration, where the numbers of all loops are 0."""
        return form.offset if is_of(form, self.recorder.open_loops) else None

    def _limited(self, name: str, form: Affine) -> bool | None:
        """The answer that the comparison *name* of *form* with 0 gives in this iteration; the loop is made of those
        iterations that have the same answer.  None where that is not known, and no loop is made."""
        loops = [loop for loop in self.recorder.open_loops if loop.number in form.slopes]
        if not loops:
            return None  # a count that data has decided
        first, *others = loops
        loop: Marked = others[-1] if others else first
        found, count = answers_alike(name, form.offset, form.slopes[loop.number])
        if not others and (loop.length is None or not loop.length.slopes):
            if len(form.slopes) > 1:
                return None  # such a count is part of it
            assert count is not None
            loop.length = Affine(count if loop.length is None else min(count, loop.length.offset))
            return found
        limit = None if count is None else loop.change(name, form, count)
        if limit is None:
            first.refuse(Refusal.LOOP_ANSWERS(site=self.recorder.site()))
            return None
        loop.length = limit
        return found

    def change(self, name: str, form: Affine, count: int) -> Affine | None:
        """The number of iterations before the one in which the comparison *name* of *form* with 0 has another answer,
        in every iteration of the loops around; it is *count* in this one.  None where that is not known."""
        slope = form.slopes[self.number]
        if abs(slope) != 1 or self.length is None or (form.offset == 0 and name in ("eq", "ne")):
            return None
        others = {var: -slope * times for var, times in form.slopes.items() if var is not self.number}
        limit = Affine(count, others)
        least = [bounds(x, self.recorder.open_loops)[0] for x in (limit, self.length.plus(limit, -1))]
        return limit if all(low is not None and low >= 0 for low in least) else None

    def writes(self, storage: Storage) -> None:
        """The buffer *storage* is about to be written."""
        for loop in self.recorder.open_loops:
            if storage.born < loop.serial:
                loop.written[id(storage)] = storage
                loop.kept.setdefault(id(storage), (storage, storage.atom))

    # ---- what the front end tells ----------------------------------------------------------------------------------

    def wrote(self, owner: Any, key: Any) -> None:
        """Attribute or item *key* of *owner* is about to be written."""
        self.changes(owner)
        for loop in self.recorder.open_loops:
            if id(owner) not in loop.made:
                place = WrittenPlace(owner, key)
                if not place.known() or id(owner) in loop.appends:
                    loop.refuse(Refusal.LOOP_SEEN(what=f"{place.name} is written", site=self.recorder.site()))
                else:
                    loop.places[place.id] = place

    def changes(self, target: Any) -> None:
        """*target* is about to be changed, or read, otherwise than its history knows."""
        looked_at(self.recorder, target, True)
        for loop in self.recorder.open_loops:
            if id(target) in loop.histories:
                loop.histories[id(target)].refuse("a list is changed")

    def append(self, target: list[Any], value: Any) -> None:
        """Append *value* to *target*."""
        looked_at(self.recorder, target, True)
        known = [loop.histories[id(target)] for loop in self.recorder.open_loops if id(target) in loop.histories]
        if any(history.filling is not None for history in known):
            self.changes(target)
        for loop in self.recorder.open_loops:
            if id(target) in loop.made:
                continue
            if any(place.owner is target for place in loop.places.values()):
                loop.refuse(Refusal.LOOP_SEEN(what="a list is written and appended to", site=self.recorder.site()))
            loop.appends.setdefault(id(target), [target]).append(value)
        target.append(value)
        for loop in self.recorder.open_loops:
            if id(target) in loop.histories and loop.histories[id(target)].filling is None:
                loop.histories[id(target)].add(value)

    def reads(self, target: Any, index: Any = None) -> None:
        """The list *target* is read: the element at *index*, or all else that it is."""
        if looked_at(self.recorder, target):
            return
        for loop in self.recorder.open_loops:
            if id(target) in loop.made:
                continue
            if type(index) is TracedArray and (id(target) in loop.grows or loop.form(index.atom) is None):
                loop.searched[id(target)] = target
            key = index + loop.appended_to(target) if type(index) is int and index < 0 else None
            if key is None and id(target) in loop.histories:
                loop.histories[id(target)].refuse("a list is read and added to")
            if key is None or loop is not self:
                loop.read[id(target)] = target
            elif key < 0:
                element = Element(target, key)
                loop.elements[element.id] = element

    def appended_to(self, target: Any) -> int:
        """How many values the iteration has appended to *target*."""
        return len(self.appends[id(target)]) - 1 if id(target) in self.appends else 0

    def made_here(self, value: Any) -> None:
        """*value* was made in this iteration."""
        for loop in self.recorder.open_loops:
            loop.made[id(value)] = value

    def copies(self) -> dict[int, Any]:
        """By id, objects that stand in the iteration for items of a list."""
        return {key: x for key, (x, loop) in self.recorder.loops.copies.items() if loop is self}

    def give_up(self, note: str) -> NoReturn:
        """Have the run made again, with this loop recorded iteration by iteration."""
        in_plain_iterations(self.recorder, self.statement, note)

    def refuse_seen(self, what: str) -> None:
        """Something was seen for which no loop node can be made."""
        for loop in self.recorder.open_loops:
            loop.refuse(Refusal.LOOP_SEEN(what=what, site=self.recorder.site()))


def forget_left_loops(recorder: Recorder) -> None:
    """Close iterations that an exception has ended."""
    if not recorder.open_loops:
        return
    running = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        running.add(frame)
        frame = frame.f_back
    for loop in list(recorder.open_loops):
        if loop.frame not in running:
            if loop.tables or not all(isinstance(x, tuple) for x in loop.copies().values()):
                loop.give_up("a loop over lists, or objects, has ended by an exception: the run is made again")
            loop.close()
            loop.stands_alone()
            break
