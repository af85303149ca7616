"""Values of names and places after the last iteration of a loop: functions that give them once the loop is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.aval import INT
from ..ir.graph import Atom, Lit, Var, of_reals, reals
from ..ir.own_attributes import attributes_of
from ..ir.refusals import Reason, Refusal
from ..ops.elementwise import F, cast
from ..record.array import A_PART, STAND_INS, TracedArray
from ..record.buffers import moved, positions_of
from ..record.made_arrays import OfPlain
from .identities import Identities
from .list_rows import OfLoop, freeze
from .parts import Cut, LoopResults, Wanted
from .positions import Affine
from .python_ints import SMALL, counted, is_python_int
from .row_writes import value_of
from .tables import TableRow, row_after
from .values import UNSET, Changeable, Like, alike, atom_of, frozen_in, has_again, like, put_together, taken_apart

_MOST_LOOKED_AT = 200  # objects that are looked through for traced values


class StartNumber(NamedTuple):
    """A number in the value of a name, and the symbol in its place; None where the array keeps its object."""

    before: Any
    symbol: Var | None


class Start(NamedTuple):
    """The value of a name at the start of an iteration.  ``counts``: the form of an integer that counts."""

    value: Any
    pattern: Any
    leaves: list[StartNumber]
    counts: Affine | None = None


class After:
    """The results of the loop that is made of one iteration, *of*.  *values*: the numbers of each carried name at its
    end.  What the loop has to give for them is added to *wanted*."""

    def __init__(self, of: Any, values: dict[Any, list[Any]], parts: Cut, wanted: Wanted) -> None:
        self.of, self.values, self.parts, self.wanted = of, values, parts, wanted
        self.identities = Identities(of, values)
        known = not wanted.stops and of.length is not None and not of.length.slopes
        self.count: int | None = of.length.offset if known else None  # of the iterations, if it is known
        self.memo: dict[int, Any] = {}  # by the id of what an iteration ends with: the array after the loop
        self.parts_taken: set[int] = set()  # ids of the buffers of which lists get views
        # the containers after it, which are those of the iteration where they are not made anew
        self.made: dict[int, Any] = {of.ended.numbers[id(x)]: x for x in of.ended.found}

    def value(self, name: Any, value: Any) -> Callable[[LoopResults], Any] | Reason:
        """A function that gives the value of *name* after the loop."""
        if value is UNSET:
            return lambda _: UNSET
        start = self.of.starts_of.get(name)
        row = self.of.recorder.loops.tables.get(id(value))
        if type(row) is TableRow and any(value is x for x in row.table.stand_ins):
            return self._row_of_table(name, row)
        if start is not None and start.counts is not None:
            return self._counted(start.counts, 0)
        if start is not None and (start.leaves or has_again(start.pattern)):
            leaves = self.values[name]
            changed = [end for leaf, end in zip(start.leaves, leaves, strict=True) if leaf.symbol]
            if self._stay_parts(self._views(name, changed)):
                return self._part_of_another(name)
            self.parts_taken.update([id(x._storage) for x in self._views(name, leaves)])
            given = [self._carried(leaf, end) for leaf, end in zip(start.leaves, leaves, strict=True)]
            return self._put_together(self.of.patterns[name], given)
        if start is not None:
            return lambda _: value
        return self._last(name, value)

    def _row_of_table(self, name: Any, row: TableRow) -> Callable[[LoopResults], Any] | Reason:
        """As ``value``, where that is a list that stands for a row of a table."""
        if name in self.of.loop.unread:
            return lambda _: UNSET
        found = None if self.wanted.stops or name in self.of.before else row_after(row, self.of.marked, self.of.length)
        return self._part_of_another(name) if found is None else found

    def _carried(self, leaf: StartNumber, end: Any) -> Callable[[LoopResults], Any]:
        symbol = leaf.symbol
        if symbol is None:
            key = id(leaf.before._storage)
            return lambda _: self.of.arrays[self.of.buffer_after(key)] if key in self.of.moves else end
        old = self._from_before(end)
        if old is not None:
            return lambda _: old
        kind = like(end)
        return lambda results: self._wrapped(end, kind, final_of(results, symbol))

    def _from_before(self, end: Any) -> Any:
        """The array or number from before the loop that its last iteration has in the place of *end*, if it is one."""
        return None if self.count is None else self.identities.after(end, self.count)

    def _wrapped(self, end: Any, kind: Like, atom: Atom) -> Any:
        """The array of *kind* with *atom*; the same one for the same *end* of several names."""
        found = self.memo.get(id(end))
        if found is None:
            found = self.memo[id(end)] = TracedArray(atom, self.of.recorder)
            found._storage.c_order = kind.c_order
            found._storage.array0d = kind.kind is np.ndarray
            if is_python_int(found):
                self.of.recorder.loops.int_ranges[atom] = SMALL  # type: ignore[index]
            taken = type(end) is TracedArray and (end._steps or id(end._storage) in self.parts_taken)
            part = type(end) is TracedArray and end._storage.owner == A_PART
            if type(end) is TracedArray and hasattr(end._storage.owner, "refuse"):
                found._storage.owner = end._storage.owner
            elif type(end) is TracedArray and kind.shape and (taken or part or self.of.is_old(end._storage)):
                found._storage.owner = OfLoop(self.of.loop)
            frozen = self.of.recorder.chosen.frozen
            if type(end) is TracedArray and id(end._storage) in frozen:
                _, *choice = frozen[id(end._storage)]
                frozen[id(found._storage)] = (found._storage, *choice)
            for history in self.of.marked.histories.values():
                history.is_held |= id(end) in history.rows
            if id(end) in self.of.marked.rows:
                freeze(self.of.recorder, self.of.marked.rows[id(end)].items, self.of.loop)
        return found

    def _last(self, name: Any, value: Any) -> Callable[[LoopResults], Any] | Reason:
        """The value in the last iteration of a name that is not carried."""
        leaves: list[Any] = []
        known: Changeable = self.of.ended
        before = len(known.found)
        pattern = taken_apart(value, leaves, True, known)
        atoms = [atom_of(x) if type(x) is TracedArray else None for x in leaves]
        if not any(x is not None and self.parts.depends(x) for x in atoms) and not has_again(pattern):
            if self._may_hold(value):
                return Refusal.LOOP_HELD(name=name)
            self.made.update({known.numbers[id(x)]: x for x in known.found[before:]})
            return lambda _: value
        befores: list[Atom | None] = [None] * len(leaves)
        if name in self.of.before:
            given: list[Any] = []
            start = taken_apart(self.of.before[name], given, True, Changeable())
            if not alike(start, taken_apart(value, [], True, Changeable())) and not (
                type(self.of.before[name]) is int and like(value).kind is int
            ):
                return Refusal.LOOP_KIND(name=name)
            befores = [atom_of(x) for x in given or [self.of.before[name]]]
        views = self._views(name, leaves)
        if (name in self.of.before and self._stay_parts(views)) or any(map(self._is_part_of_any, views)):
            return self._part_of_another(name)
        self.parts_taken.update([id(x._storage) for x in views])
        made = [
            self._last_leaf(leaf, atom, before)
            if atom is not None and self.parts.depends(atom)
            else (lambda _, x=leaf: x)
            for leaf, atom, before in zip(leaves, atoms, befores, strict=True)
        ]
        return self._put_together(pattern, made)

    def _put_together(
        self, pattern: Any, parts: Sequence[Callable[[LoopResults], Any]]
    ) -> Callable[[LoopResults], Any]:
        """A function that gives the value with *pattern* that has these *parts* after the loop."""

        def made(results: LoopResults) -> Any:
            found = put_together(pattern, iter([make(results) for make in parts]), self.made, True)
            self.of.recorder.loops.stands_in(self.of.loop, *frozen_in(found))
            return found

        return made

    def _last_leaf(self, leaf: TracedArray, atom: Atom, before: Atom | None) -> Callable[[LoopResults], Any]:
        kind = like(leaf)
        form = self.of.marked.form(atom) if leaf.aval.weak else None
        if form is not None:
            return self._counted(form, -1) if before is None else self._or_before(form, before)
        found = None
        if before is None:
            old = self._from_before(leaf)
            found = self._view_after(leaf) if old is None else lambda _: old
        if found is not None:
            return found
        last = self._at_end(atom, before)
        return lambda results: self._wrapped(leaf, kind, last(results))

    def _at_end(self, atom: Atom, before: Atom | None = None) -> Callable[[LoopResults], Atom]:
        """The way to take *atom* of the last iteration from the results, or *before* where there is none."""
        at, parts = len(self.wanted.last), reals(atom)
        self.wanted.last += zip(parts, [None] * len(parts) if before is None else reals(before), strict=True)
        return lambda results: of_reals(atom, results.last[at : at + len(parts)])  # type: ignore[no-any-return]

    def _views(self, name: Any, leaves: Sequence[Any]) -> list[TracedArray]:
        """The views among *leaves* that *name* has, and may show after the loop."""
        read = name not in self.of.loop.unread
        return [x for x in leaves if read and type(x) is TracedArray and x._steps]

    def _stay_parts(self, views: Sequence[TracedArray]) -> bool:
        """Whether one of *views* may be one, after the loop, of an array that may be written then."""
        owners = [x._storage.owner for x in views if self._is_part(x)]
        return any(not isinstance(owner, str) or type(owner) is OfPlain for owner in owners)

    def _part_of_another(self, name: Any) -> Reason:
        return self.of.marked.seen(f"{name} may be a part of another array after it")  # type: ignore[no-any-return]

    def _is_part(self, view: TracedArray) -> bool:
        """Whether *view* is one of an array that was there before."""
        return self.of.is_old(view._storage) or view._storage.owner is not None

    def _view_after(self, leaf: TracedArray) -> Callable[[LoopResults], Any] | None:
        """A function that gives the view that *leaf* is in the last iteration, of an array that was there before; None
        where it is none."""
        storage, owner = leaf._storage, leaf._storage.owner
        if not (leaf._steps and self._is_part(leaf)):
            return None
        stands = self._stand_ins_of(leaf)
        whole = self._whole_after(stands[0]) if stands else None
        if stands and isinstance(plain := self._from_before(stands[0]), np.ndarray):
            owner = OfPlain(plain)
        steps = [
            (step, before, [*map(self._position_after, positions_of(step))])
            for step, before in leaf._steps[len(stands[0]._steps) if stands else 0 :]
        ]
        if isinstance(owner, OfPlain):
            view = owner.view([(step, shape, ends) for step, shape, ends in steps])
            return None if view is None else lambda _: view

        def make(results: LoopResults) -> TracedArray:
            of = None if whole is None else whole(results)
            found = TracedArray.__new__(TracedArray)
            found._storage, found._uncertain = storage if of is None else of._storage, leaf._uncertain
            parts = [
                (moved(step, [results.last[x] if type(x) is int else x for x in ends], shape), shape)
                for step, shape, ends in steps
            ]
            found._steps = (*(() if of is None else of._steps), *parts)
            found._atom, found._version, found._recorder = Var(leaf.aval), -1, self.of.recorder
            return found

        return make

    def _stand_ins_of(self, leaf: TracedArray) -> list[TracedArray]:
        """The arrays that are carried, or are rows of lists, of which *leaf* may be a view."""
        every = [row for row in self.of.marked.rows.values() if row.array._storage is leaf._storage]
        rows = [row.array for k, row in enumerate(every) if all(row.form != other.form for other in every[:k])]
        return [*rows, *[x for x, _ in self.of.stand_ins if x._storage is leaf._storage]]

    def _is_part_of_any(self, leaf: Any) -> bool:
        """Whether *leaf* is a view of an array that is carried, and nobody knows of which one in the last iteration; or
        of a plain one, which may be written then, and a live run can't be made again."""
        if self.of.recorder.live and type(leaf._storage.owner) is OfPlain:
            return True
        stands = self._stand_ins_of(leaf) if self._is_part(leaf) else []
        return len(stands) > 1 or (bool(stands) and self.count is None)

    def _whole_after(self, stand_in: TracedArray) -> Callable[[LoopResults], Any]:
        """A function that gives the array in whose place *stand_in* is in the last iteration."""
        old = self._from_before(stand_in)
        if old is not None:
            return lambda _: old
        kind, last = like(stand_in), self._at_end(stand_in.atom)
        return lambda results: self._wrapped(stand_in, kind, last(results))

    def _position_after(self, position: Atom) -> Any:
        """A position in the last iteration; its number among the last values of the loop where these have it."""
        of = self.of
        known = of.length is not None and not (of.length.slopes or self.wanted.stops)
        if known and (form := of.marked.form(position)) is not None:
            end = form.at(of.marked.number, of.length.plus(Affine(-1)))
            if not end.slopes:
                return Lit(end.offset, INT)
        if isinstance(position, Lit) or not self.parts.depends(position):
            return position
        self.wanted.last.append((position, None))
        return len(self.wanted.last) - 1

    def _or_before(self, form: Affine, before: Atom) -> Callable[[LoopResults], Any]:
        """An integer in the last iteration, or *before* the loop, where there is none."""
        of = self.of

        def make(results: LoopResults) -> Any:
            end = value_of(form.at(of.marked.number, of.length.plus(Affine(-1))), {})
            some = F.gt(value_of(of.total, {}), Lit(0, INT, weak=True))
            return TracedArray(cast(F.select(some, end, before), INT, weak=True), of.recorder)

        return make

    def _counted(self, form: Affine, iterations: int) -> Callable[[LoopResults], Any]:
        """An integer after so many *iterations* more than there are."""

        def make(results: LoopResults) -> Any:
            if results.taken is not None:
                taken = F.add(results.taken, Lit(iterations, INT)) if iterations else results.taken
                value = value_of(form, {self.of.marked.number: taken})
                return TracedArray(counted(self.of.recorder, value, form), self.of.recorder)
            assert self.of.length is not None
            end = form.at(self.of.marked.number, self.of.length.plus(Affine(iterations)))
            return end.offset if not end.slopes else TracedArray(value_of(end, {}), self.of.recorder)

        return make

    def _may_hold(self, value: Any) -> bool:
        """Whether a value of this iteration is to be found in *value*."""
        stack = [value]
        seen: set[int] = set()
        while stack and len(seen) < _MOST_LOOKED_AT:
            x = stack.pop()
            if id(x) in seen or isinstance(x, (int, float, str, bytes, np.ndarray, type(None))):
                continue
            seen.add(id(x))
            if type(x) is TracedArray:
                if self.parts.depends(x.atom):
                    return True
            elif type(x) in STAND_INS:
                return True
            elif isinstance(x, (list, tuple, set, frozenset)):
                stack += x
            elif isinstance(x, dict):
                stack += [*x.keys(), *x.values()]
            elif not isinstance(x, type) and not callable(x):
                carried = self._carried_attributes(x)
                stack += [part for key, part in attributes_of(x).items() if key not in carried]
        return len(seen) >= _MOST_LOOKED_AT

    def _carried_attributes(self, x: Any) -> set[Any]:
        """The attributes of *x* that are carried, and so are set after the loop."""
        return {place.key for place in self.of.places.values() if place.owner is x}


def final_of(results: LoopResults, symbol: Var) -> Atom:
    return of_reals(symbol, [results.finals[x] for x in reals(symbol)])  # type: ignore[no-any-return, index]
