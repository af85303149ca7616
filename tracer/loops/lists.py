"""Lists to which each iteration appends: stacked results of the loop, of which the list gets the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any

import numpy as np

from ..ir.graph import Atom, building, of_reals, reals
from ..ir.refusals import Reason
from ..ops.elementwise import whole_reals
from ..ops.shape import concat, reshape
from ..record.array import TracedArray, class_of, to_atom
from ..record.stacked_rows import rows_of, stand_in
from .after import After
from .appended import Appended, AppendedItem, columns_in, is_plain
from .histories import History
from .holders import HOLDERS, array_of
from .identities import unmarked
from .list_rows import OfLoop, freeze
from .marked import Marked
from .parts import Cut, LoopResults, Wanted
from .positions import Affine
from .row_writes import value_of
from .values import NUMBERS, Changeable, can_be_made_anew, frozen_in, put_together, taken_apart

_NONE: Mapping[int, Any] = MappingProxyType({})


class Lists:
    """The lists to which *marked* has appended, if their elements can be stacked; else the ``reason`` why not.  *after*
    knows which arrays the elements are: an array that is made in the iteration is another one each time, and one that
    is in several lists, or in a name after the loop, is one."""

    def __init__(self, marked: Marked, length: Affine | None, parts: Cut, wanted: Wanted, after: After) -> None:
        self.marked, self.length, self.home, self.after = marked, length, marked.recorder, after
        self.reason: Reason | None = None
        self.count = 0 if length is None else length.constant or 0
        self.rows: list[list[AppendedItem]] = []  # of each list
        self._met = Changeable({**after.of.learned.kept}, marked.made)  # containers that are appended
        self._forms: dict[int, Affine] = {}  # of Python integers, by the id of the value
        self._at: dict[int, int] = {}  # by the id of a value: where its stack is
        self._given: dict[int, Appended] = {}  # by the same
        self._columns: dict[int, list[Any]] = {}  # what it is in all iterations
        if not marked.appends and not marked.histories:
            return
        whole = [history for history in marked.histories.values() if history.is_whole]
        after.parts_taken.update([id(storage) for history in whole for _, storage, _ in history.arrays])
        if length is None or length.constant is None or wanted.stops:
            self.reason = marked.seen("a list is appended to")
            return
        for target, *values in marked.appends.values():
            if id(target) in marked.read:
                self.reason = marked.seen("a list is read and appended to")
                return
            if len(target) < len(values) or any(
                a is not b for a, b in zip(target[-len(values) :], values, strict=True)
            ):
                self.reason = marked.seen("a list is appended to and changed")
                return
            if id(target) in marked.histories:
                self.rows.append([])
                continue
            found = []
            for k, value in enumerate(values):
                earlier = target[-len(values) + k :: -len(values)][1 : 1 + marked.earlier]
                found.append(self._element(value, earlier, parts, wanted))
            self.rows.append(found)
        self._note_parts()
        self._note_old()

    def _element(self, value: Any, earlier: Sequence[Any], parts: Cut, wanted: Wanted) -> AppendedItem:
        """*value* taken apart.  *earlier*: what iterations before have appended in its place."""
        if not (isinstance(value, tuple) or (id(value) in self.marked.made and can_be_made_anew(value))):
            return AppendedItem(None, [(value, self._place(value, earlier, parts, wanted))])
        numbers: list[Any] = []
        pattern = taken_apart(value, numbers, True, self._met)
        copies = self.home.loops.made_anew.keys() & self._met.numbers
        if not is_plain(pattern) or copies:
            self.reason = self.marked.seen("an object is appended to a list")
        columns = columns_in(pattern, len(numbers), earlier)
        places = [self._place(x, e, parts, wanted) for x, e in zip(numbers, columns, strict=True)]
        return AppendedItem(pattern, list(zip(numbers, places, strict=True)))

    def _note_old(self) -> None:
        """Refuse where a name has, after the loop, the container of an iteration before the last, which a list has."""
        of, held = self.after.of, Changeable()
        for x in of.read_after:
            taken_apart(x, [], True, held)
        if self._met.found and any(id(x) in held.numbers for x in of.made.values()):
            self.reason = self.marked.seen("an object of a list is kept")

    def _note_parts(self) -> None:
        """Note the arrays of which the lists get views, or other views than names have: they are not written after."""
        every = [x for row in self.rows for element in row for x, _ in element.parts]
        appended = {id(x): x for x in every if type(x) is TracedArray}
        arrays: dict[int, Any] = {}
        for x in appended.values():
            if x._steps:
                self.after.parts_taken.add(id(x._storage))
            if arrays.setdefault(id(x._storage), x) is not x and self._is_new(x):
                self.reason = self.marked.seen("two views of an array are appended")

    def _is_new(self, value: Any) -> bool:
        """Whether *value* is an array that is another one in each iteration."""
        if type(value) is not TracedArray or class_of(value) is not np.ndarray:
            return False
        return bool(value._storage.born >= self.marked.serial) and value._storage.owner is None

    def _place(self, value: Any, earlier: Sequence[Any], parts: Cut, wanted: Wanted) -> int:
        """Where the rows of *value* are among those that are wanted; -1 where it is the same each time, or a whole
        number that counts.  *earlier*: what iterations before have appended in its place."""
        if type(value) in HOLDERS:
            return self._place_held(value, earlier, parts, wanted)
        if type(value) is not TracedArray:
            if not isinstance(value, (*NUMBERS, int, str, type(None))):
                self.reason = self.marked.seen("an object is appended to a list")
            return -1
        atom = value.atom
        storage = value._storage
        changes = type(storage.owner) is not str  # but for those of the caller, which nobody writes
        if id(storage) in self.marked.written or (storage.born < self.marked.serial and value._steps and changes):
            self.reason = self.marked.seen("an array that is written is appended to a list")
        form = self.marked.form(atom) if value.aval.weak else None  # of a Python integer
        if form is not None:
            self._forms[id(value)] = form
        if not parts.depends(atom) or form is not None:
            return -1
        if id(value) in self._at:
            return self._at[id(value)]
        at = self._at[id(value)] = len(wanted.rows)
        starts: dict[Atom, Atom] = {c.symbol: c.before for c in self.marked.carries.values()}
        before = [to_atom(x) if isinstance(x, (*NUMBERS, TracedArray)) else None for x in earlier]
        before = [x if x is None else starts.get(x, x) for x in before]
        with building(self.home):
            wanted.rows += whole_reals(atom)
        known = None not in before and not atom.aval.is_complex
        wanted.earlier += [[x for x in before if x is not None] if known else () for _ in reals(atom)]
        return at

    def _place_held(self, value: Any, earlier: Sequence[Any], parts: Cut, wanted: Wanted) -> int:
        """As ``_place``, for an object that holds an array: it is another one in each iteration, or from before."""
        holder, array = HOLDERS[type(value)], array_of(value)
        old = array._storage.born < self.marked.serial
        written = id(array._storage) in self.marked.written or (old and array._steps)
        depends, begins = parts.depends(array.atom), holder.begins(value)
        others = any(type(x) in HOLDERS and x is not value for _, *row in self.marked.appends.values() for x in row)
        unlike = holder.facts(value) is None or array.aval.is_complex
        if written or unlike or (not depends and not old) or (begins and others):
            self.reason = self.marked.seen("an object is appended to a list")
        if not depends or array.aval.is_complex:
            return -1
        if id(value) not in self._at:
            self._at[id(value)] = len(wanted.rows)
            wanted.rows.append(array.atom)
            before = [array_of(x) for x in earlier]
            traced = not begins and all(type(x) is TracedArray for x in before)
            wanted.earlier.append([x.atom for x in before] if traced else ())
        return self._at[id(value)]

    def _held(self, given: Appended, results: LoopResults) -> list[Any]:
        """The objects that *given* is in all iterations."""
        value, at, earlier = given
        if at < 0:
            return [*earlier, *[value] * self.count]
        rows = rows_of(results.stacked[at], array_of(value), len(earlier) + self.count, self.home)
        return HOLDERS[type(value)].rows(value, results.stacked[at], rows)

    def _integers(self, form: Affine, count: int) -> list[Any]:
        recorder, number = self.marked.recorder, self.marked.number
        found = [form.at(number, Affine(k)) for k in range(count)]
        return [f.offset if not f.slopes else TracedArray(value_of(f, {}), recorder) for f in found]

    def extend(self, results: LoopResults) -> None:
        """Have the lists hold what all iterations have appended."""
        lists = []
        for history in self.marked.histories.values():
            self._extend_with_rows(history)
        for (target, *_), row in zip(self.marked.appends.values(), self.rows, strict=True):
            for loop in self.home.open_loops:
                if id(target) not in loop.made:
                    loop.refuse(self.marked.seen("a list is appended to in a loop"))
            if id(target) in self.marked.histories:
                continue
            before = self.marked.folded if any(element.varies for element in row) else 0
            given = []
            for k, element in enumerate(row):
                earlier = target[-len(row) + k :: -len(row)][1 : 1 + before][::-1]
                given.append((earlier, self._appended(element, earlier)))
            del target[-len(row) * (1 + before) :]
            lists.append((target, row, given))
        several = len(self._at) < sum(x.at >= 0 for _, _, given in lists for _, parts in given for x in parts)
        again: list[dict[int, Any]] = []
        last = self._of_last_iteration()
        every = [
            (None if several else self._woven(row, given, results))
            or [self._elements(element, *of, results, again, last) for element, of in zip(row, given, strict=True)]
            for _, row, given in lists
        ]
        for (target, *_), columns in zip(lists, every, strict=True):
            for each in columns if len(columns) == 1 else zip(*columns, strict=True):
                target.extend(each)
        if any(element.pattern is not None for row in self.rows for element in row):
            self._note_tuples()

    def _appended(self, element: AppendedItem, earlier: Sequence[Any]) -> list[Appended]:
        """The values in *element*; *earlier*: what the iterations before, which the loop does too, have appended."""
        if element.pattern is None:
            columns = [earlier]
        elif element.varies:
            columns = columns_in(element.pattern, len(element.parts), earlier)
        else:
            columns = [()] * len(element.parts)
        found = [Appended(value, at, was) for (value, at), was in zip(element.parts, columns, strict=True)]
        self._given.update({id(x.value): x for x in found})
        return found

    def _elements(
        self, element: AppendedItem, earlier: Sequence[Any], parts: Sequence[Appended], results: LoopResults,
        again: list[dict[int, Any]], last: Mapping[int, Any],
    ) -> Sequence[Any]:  # fmt: skip
        """The values of *element* in all iterations, those before included.  *again*: the containers of each iteration,
        by their numbers; *last*: those of the last one that are there already."""
        columns = [self._column(x, results) for x in parts]
        if element.pattern is None:
            return columns[0]
        count = self.count + (len(earlier) if element.varies else 0)
        again[:0] = [{} for _ in range(count - len(again))]
        every = zip(*columns, strict=True) if columns else repeat((), count)
        known = [*repeat(_NONE, count - 1), last]
        made = zip(every, again[len(again) - count :], known, strict=True)
        found = [put_together(element.pattern, iter(x), of, True, known) for x, of, known in made]
        return found if element.varies else [*earlier, *found]

    def _of_last_iteration(self) -> dict[int, Any]:
        """The containers that names have after the loop, by the numbers that they have among what is appended."""
        numbers, made = self.after.of.ended.numbers, self.after.made
        found = {n: made.get(numbers[key]) for key, n in self._met.numbers.items() if key in numbers}
        return {n: x for n, x in found.items() if x is not None}

    def _note_tuples(self) -> None:
        """Note tuples in lists: names, and other lists, may have equal ones, which in Python are the same."""
        for x in [x for target, *_ in self.marked.appends.values() for x in target]:
            self.home.loops.stands_in(self.marked.statement, *frozen_in(x))

    def _extend_with_rows(self, history: History) -> None:
        """Have a list hold the rows that all iterations have added."""
        for loop in self.home.open_loops:
            if id(history.target) not in loop.made:
                loop.refuse(self.marked.seen("a list is filled in a loop"))
        columns = history.columns(self.count)
        for k, rows in enumerate(columns):
            for j, numbers in enumerate(history.values):
                if type(numbers[k]) is TracedArray and not history.is_whole:
                    self._is_last(numbers[k], rows, j - history.step)
        history.extend(columns)

    def _column(self, given: Appended, results: LoopResults) -> Sequence[Any]:
        """The values that *given* is in all iterations."""
        value, at, earlier = given
        if at < 0 and type(value) not in HOLDERS:
            form = self._forms.get(id(value))
            return [*earlier, *(self._same(value) if form is None else self._integers(form, self.count))]
        if id(value) not in self._columns:
            rows = self._held if type(value) in HOLDERS else self._rows
            self._columns[id(value)] = rows(given, results)
        return self._columns[id(value)]

    def _same(self, value: Any) -> list[Any]:
        """The objects that *value*, which is equal in all iterations, is in this one and those after it."""
        if not self._is_new(value):
            return [value] * self.count
        if id(value) not in self._columns:
            again = [self._again(value) for _ in range(self.count - 1)]
            self._columns[id(value)] = [*again, self.after.memo.get(id(value), value)]
        return self._columns[id(value)]

    def _rows(self, given: Appended, results: LoopResults) -> list[Any]:
        """The values that *given*, which differs, is in all iterations."""
        value, at, earlier = given
        leaf = self.after.identities.stand_ins.get(id(value))
        end = None if leaf is None else self.after.identities.ends[id(leaf)]
        if leaf is not None and id(end) in self._given and self._is_new(end):  # each is what was appended before
            old = [unmarked(self.home, x) for x in earlier[:1]] or [leaf.before]
            column = self._column(self._given[id(end)], results)
            if self._given[id(end)].at < 0:
                old, column = [*[unmarked(self.home, x) for x in earlier], leaf.before], self._same(end)
            self._is_last(value, column, -2)
            return [*old, *column[:-1]]
        rows = rows_of(of_reals(value.atom, results.stacked[at : at + 2]), value, len(earlier) + self.count, self.home)
        self._is_last(value, rows, -1)
        if leaf is not None or id(value) in self.marked.rows:
            known = self._from_before(value, earlier)
            stand_in(rows, known)
            if id(value) in self.marked.rows and len(known) < len(rows):
                freeze(self.home, [*self.marked.rows[id(value)].items, *rows], self.marked.statement)
        return rows

    def _from_before(self, value: Any, earlier: Sequence[Any]) -> dict[int, Any]:
        """The arrays and NaNs from before the loop that *value* is, by the numbers of the iterations."""
        found = dict(enumerate(unmarked(self.home, x) for x in earlier))
        for k in range(self.count):
            old = self.after.identities.after(value, k + 1)
            if old is None:
                break
            found[len(earlier) + k] = old
        return {k: x for k, x in found.items() if (class_of(x) is np.ndarray if type(x) is TracedArray else x != x)}

    def _is_last(self, value: Any, rows: Any, k: int) -> None:
        """Have row *k* be the array that a name or place has after the loop, if *value* is one array with that."""
        last = self.after.memo.get(id(value))
        if value._steps:
            for row in rows:
                row._storage.owner = OfLoop(self.marked.statement)
        if last is not None and class_of(value) is np.ndarray and len(rows) >= -k:
            storage = rows[k]._storage
            storage.atom, storage.owner, last._storage = last._storage.atom, last._storage.owner, storage
            rows[k] = last

    def _again(self, value: TracedArray) -> TracedArray:
        """Another array like *value*, which another iteration has made."""
        found = TracedArray(value.atom, self.home)
        found._storage.c_order, found._storage.array0d = value.known_c_order(), True
        return found

    def _woven(
        self,
        elements: Sequence[AppendedItem],
        given: Sequence[tuple[Sequence[Any], Sequence[Appended]]],
        results: LoopResults,
    ) -> list[Sequence[Any]] | None:
        """The rows of one stack, where several values of one kind are appended in turn."""
        if any(element.pattern is not None for element in elements):
            return None
        rows = [x for _, (x,) in given]
        like = rows[0][0]
        if type(like) in HOLDERS:
            return None
        if len(rows) < 2 or not all(at >= 0 and type(x) is TracedArray and x.aval == like.aval for x, at, _ in rows):
            return None
        if like.aval.is_complex or len({class_of(x) for x, *_ in rows}) > 1:
            return None
        if any(id(x) in self.after.identities.stand_ins or id(x) in self.marked.rows for x, *_ in rows):
            return None
        shape, count = like.aval.shape, self.count + len(rows[0].earlier)
        parts = [reshape(results.stacked[at], (count, 1, *shape)) for _, at, _ in rows]
        found = rows_of(reshape(concat(parts, 1), (count * len(rows), *shape)), like, count * len(rows), self.home)
        for k, (value, *_) in enumerate(rows):
            self._is_last(value, found, k - len(rows))
        return [found]
