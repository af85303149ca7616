"""Lists that a loop fills and reads at positions that data says: ``done.append(f(done[parent[k]]))``, and
``table[k] = f(table[parent[k]])``, one element after the other; or, where all elements are alike, anywhere.

The elements are rows of arrays, one for each number in an element, which are carried: those that are there before the
loop, and room for those that its iterations add.  An append writes a row, a read gathers one.  After the loop the list
gets the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.aval import INT
from ..ir.graph import Atom, Lit, Var, strong
from ..ops.elementwise import F, broadcast_to, cast
from ..ops.shape import reshape, zeros
from ..record.array import FUNCTIONS, TracedArray, class_of, constant, wrap, wrap_array
from ..record.buffers import PickStep
from ..record.recorder import Recorder
from ..record.stacked_rows import are_rows, rows_of
from .list_rows import OfLoop, freeze
from .positions import Affine, bounds
from .row_writes import value_of
from .values import Changeable, Like, Parts, alike, atom_of, put_together, taken_apart


def is_traced_position(index: Any) -> bool:
    """Whether *index* of a list is one integer of the run."""
    return type(index) is TracedArray and index.aval.dtype.kind in "iu" and index.aval.size == 1


def position_in(recorder: Recorder, index: TracedArray, length: Affine, negative: bool = True) -> Atom | None:
    """*index* as a position in a list of *length* elements, in a marked iteration, which asks whether there is one;
    None where there is none.  *negative*: it may be one from the end."""
    marked, loops = recorder.open_loops[-1], recorder.open_loops
    atom, size = reshape(cast(index.atom, INT), ()), cast(value_of(length, {}), INT)
    least, most = marked.range_of(index.atom) or (None, None)
    shortest = bounds(length, loops)[0]
    form = marked.form(index.atom)
    beyond = None if form is None else bounds(form.plus(length, -1), loops)[1]
    below = (most is not None and shortest is not None and most < shortest) or (beyond is not None and beyond < 0)
    above = least is not None and least >= 0
    asked = [] if below else [F.lt(atom, size)]
    zero = Lit(0, INT, structural=True)
    if not above:
        asked.append(F.ge(atom, F.neg(size) if negative else zero))
    for condition in asked:
        if not recorder.guard(condition, "index"):
            return None
    return atom if above or not negative else F.select(F.lt(atom, zero), F.add(atom, size), atom)


class Filling(NamedTuple):
    """A list that a loop assigns element by element: row 0 is its element ``base``, the others follow with ``sign``.
    0: it is assigned anywhere, and all of it is there."""

    target: list[Any]
    base: int
    sign: int
    first: int  # the rows that are there

    @classmethod
    def at(cls, target: list[Any], place: int, sign: int) -> Filling:
        """That of *target* the next element of which is at *place*: its rows begin with the last ones of a kind."""
        base = place - sign
        is_set = target[place - sign] is not None
        while 0 <= base - sign < len(target) and (target[base - sign] is not None) == is_set:
            base -= sign
        return cls(target, base, sign, abs(place - base))

    def elements(self) -> list[Any]:
        """Those that are there."""
        if not self.sign:
            return list(self.target)
        return [self.target[self.base + self.sign * row] for row in range(self.first)]

    def has_room(self, count: int) -> bool:
        """Whether there are *count* more."""
        return not self.sign or (
            self.first > 0 and 0 <= self.base + self.sign * (self.first + count - 1) < len(self.target)
        )


class History:
    """The *elements* of the list *target*, to which each iteration adds *step*: of one *pattern*, with *stacks* of the
    numbers in them, which *kinds* tell.  *filling*: where they are assigned, and not appended."""

    def __init__(
        self, target: list[Any], elements: Sequence[Any], step: int, pattern: Any, kinds: Sequence[Like], stacks: Any,
        filling: Filling | None, loop: Any,
    ) -> None:  # fmt: skip
        self.target, self.step, self.pattern, self.kinds, self.stacks = target, step, pattern, kinds, stacks
        self.filling, self.loop = filling, loop
        self.before = arrays_in(list(elements))
        self.first = len(elements)
        self.marked: Any = None  # the iteration in which it is carried
        self.symbols: list[Any] = []  # of the stacks in it
        self.values: list[list[Any]] = []  # the numbers in each value that is added
        self.assigned: tuple[int, Any] | None = None  # the element that is assigned in this iteration
        self.arrays: list[tuple[Any, Any, int]] = []  # arrays in what is added, their buffers, and versions
        self.rows: dict[int, Any] = {}  # by id: arrays that were read
        self.numbers: set[Atom] = set()  # that were read as ``np.float64``, and may be a Python float
        self.has_floats = False  # whether such a float is among the elements
        self.is_mixed = False  # whether a ``np.float64`` was added to Python floats
        self.is_broken = False  # whether something was added that it cannot hold
        self.is_behind = False  # whether the list does not hold all that was assigned
        self.is_held = False  # whether an array that was read is known by a name after the loop

    @classmethod
    def of(
        cls, target: list[Any], step: int, count: int, loop: Any, mixed: bool = False, filling: Filling | None = None
    ) -> History | None:
        """That of *target*, to which *count* iterations of *loop* add; None where its elements are of several kinds, or
        hold no number.  *mixed*: Python floats are taken for ``np.float64``."""
        if filling is not None and not filling.has_room(count):
            return None
        elements = target if filling is None else filling.elements()
        every = [_numbers(element, mixed) for element in elements]
        if not mixed and len({str(pattern) for pattern, _ in every}) > 1:
            return cls.of(target, step, count, loop, True, filling)
        if not every or not every[0][1] or not all(alike(pattern, every[0][0]) for pattern, _ in every[1:]):
            return None
        kinds = [_numbers(x, mixed)[0] for x in every[0][1]]
        stacks = []
        for k, kind in enumerate(kinds):
            stack = FUNCTIONS[np.stack]([numbers[k] for _, numbers in every])
            shape = count * step, *kind.shape
            room = constant(np.zeros(shape, kind.dtype)) if kind.dtype.kind == "c" else zeros(shape, kind.dtype)
            stacks.append(FUNCTIONS[np.concatenate]([stack, wrap_array(room)]) if count * step else stack)
        made = cls(target, elements, step, every[0][0], kinds, stacks, filling, loop)
        made.has_floats = mixed and any(class_of_number(x) is float for _, numbers in every for x in numbers)
        return made

    @property
    def is_whole(self) -> bool:
        """Whether the list is assigned anywhere."""
        return self.filling is not None and not self.filling.sign

    # ---- in the marked iteration -----------------------------------------------------------------------------------

    def length(self) -> Affine:
        """The number of rows now."""
        if self.is_whole:
            return Affine(self.first)
        return Affine(self.first + len(self.values), {self.marked.number: self.step})

    def add(self, value: Any, place: Atom | None = None) -> None:
        """*value* is added to the list, or is row *place* of it."""
        pattern, numbers = _numbers(value)
        loops = self.marked.recorder.open_loops
        if self.is_broken:
            return
        if not (self.is_whole or loops[-1] is self.marked) or not alike(pattern, self.pattern):
            self.is_mixed = alike(_as_float64(pattern), _as_float64(self.pattern))
            self.refuse("unlike values are added to a list")
            return
        self.is_behind |= loops[-1] is not self.marked
        place = cast(value_of(self.length(), {}), INT) if place is None else place
        self.values.append(numbers)
        for kind, stack, x in zip(self.kinds, self.stacks, numbers, strict=True):
            storage = stack._storage
            if type(x) is TracedArray and class_of(x) is np.ndarray:
                self.arrays.append((x, x._storage, x._storage.version))
            row = broadcast_to(strong(atom_of(x)), (1, *kind.shape))
            loops[-1].writes(storage)
            storage.atom = PickStep((0,), (place,)).put(storage.atom, row)
            storage.version += 1

    def assign(self, value: Any, index: Any, form: Affine | None, now: int) -> bool:
        """Whether *value* was assigned to the element at *index*, which is *form* and *now* at a certain place."""
        assert self.filling is not None
        of_numbers = self.is_whole and all(kind.kind is not np.ndarray for kind in self.kinds)
        if self.is_broken or not (of_numbers or self.marked.recorder.open_loops[-1] is self.marked):
            return False
        if self.is_whole:
            place = Lit(now % self.first, INT) if type(index) is int else self._place(index)
            if place is None:
                return False
            self.add(value, place)
            self.target[now] = value
            return True
        if form is None:
            return False
        row = form.plus(Affine(-self.filling.base)).times(self.filling.sign)
        if self.assigned is not None or row != self.length():
            self.refuse("elements of a list are assigned in another order")
        else:
            self.add(value)
        self.target[now] = value
        self.assigned = now, value
        return True

    def item(self, index: Any) -> Any:
        """The element at *index*; NotImplemented where there is none, or more than one."""
        place: Atom | None = None
        if self.is_broken:
            return NotImplemented
        if type(index) is int:
            row = Affine(index) if index >= 0 else self.length().plus(Affine(index))
            if self.is_whole:
                place = Lit(index % self.first, INT) if -self.first <= index < self.first else None
            elif self.filling is not None:
                at = index if index >= 0 else index + len(self.target)
                row = Affine((at - self.filling.base) * self.filling.sign)
            if 0 <= row.offset < self.first and not row.slopes and not self.is_whole:
                return self.target[index]
            if row.slopes and row.offset >= 0 and not self.is_whole:
                place = cast(value_of(row, {}), INT)
        elif is_traced_position(index):
            place = self._place(index)
        if place is None:
            return NotImplemented
        step = PickStep((0,), (place,))
        numbers = [self._row(kind, step.apply(stack.atom)) for kind, stack in zip(self.kinds, self.stacks, strict=True)]
        return self.noted(put_together(self.pattern, iter(numbers), {}))

    def _place(self, index: TracedArray) -> Atom | None:
        """The row of the element at *index*, which data decides."""
        recorder = self.marked.recorder
        if self.filling is None or self.is_whole:
            return position_in(recorder, index, self.length())
        row = F.sub(reshape(cast(index.atom, INT), ()), Lit(self.filling.base, INT))
        known = recorder.range_of(index.atom)
        if self.filling.sign < 0:
            row = F.neg(row)
        elif known is not None and isinstance(row, Var):
            recorder.loops.int_ranges[row] = known[0] - self.filling.base, known[1] - self.filling.base
        return position_in(recorder, wrap(row), self.length(), False)

    def _row(self, kind: Like, atom: Atom) -> TracedArray:
        if kind.kind is not np.ndarray:
            if self.has_floats:
                self.numbers.add(atom)
            return wrap(cast(atom, kind.dtype, weak=True) if kind.weak else atom)
        found = wrap_array(atom, c_order=kind.c_order)
        found._storage.owner = OfLoop(self.marked.statement)
        self.rows[id(found)] = found
        freeze(self.marked.recorder, self.before, self.marked.statement)
        return found

    def noted(self, element: Any) -> Any:
        """*element*, which stands for another object where it is a container."""
        recorder = self.marked.recorder
        for part in _containers_in(element):
            recorder.loops.made_anew[id(part)] = part, self.loop
            if recorder.open_loops:
                recorder.open_loops[-1].made_here(part)
        return element

    def note_names(self, containers: Iterable[Any]) -> None:
        """Note *containers* that names have after the loop: they may be elements of the list."""
        if _containers_in(self.target[-1]):
            for x in containers:
                self.marked.recorder.loops.made_anew[id(x)] = x, self.loop

    def refuse(self, what: str) -> None:
        """From here on the list is what it is for Python, for the rest of the iteration."""
        self._catch_up()
        self.is_broken = True
        self.marked.recorder.open_loops[-1].refuse_seen(what)

    def _catch_up(self) -> None:
        """Have the list hold what loops within the iteration have assigned."""
        if self.is_behind:
            self.extend(self.columns(0))
        self.is_behind = False

    def leave(self) -> None:
        """The iteration stands for itself: arrays that were read of the list are those that are in it."""
        self._catch_up()
        if self.rows:
            freeze(self.marked.recorder, arrays_in(self.target), self.marked.statement)

    # ---- when a loop node is made ----------------------------------------------------------------------------------

    def objection(self) -> str:
        """The reason why no loop can be made of the iteration; empty where there is none."""
        written = self.marked.written
        added = self.marked.appended_to(self.target) if self.filling is None else len(self.values)
        if self.is_whole:
            self.is_held = True
        elif added != self.step or (self.filling is not None and id(self.target) in self.marked.appends):
            return "a list is added to now and then"
        if id(self.target) in self.marked.read or any(x.owner is self.target for x in self.marked.places.values()):
            return "a list is read and added to"
        if any(type(x) is TracedArray and id(x._storage) in written for x in self.before):
            return "an array of a list is written"
        if any(type(x) is TracedArray and x.atom in self.numbers for numbers in self.values for x in numbers):
            return "a number of a list, maybe a Python float, is added to it again"
        for x, storage, version in self.arrays:
            if x._storage is not storage or storage.version != version:
                return "an array is written that was added to a list"
            if storage.born >= self.marked.serial and storage.owner is None:
                continue
            if storage.owner is None:
                return "an array from before a loop is added to a list"
            self.is_held = True
        return ""

    def columns(self, count: int) -> list[list[Any]]:
        """The numbers in what *count* iterations have added, those of one place after those of another."""
        home = self.marked.recorder
        columns: list[list[Any]] = []
        first, size = (0, self.first) if self.is_whole else (self.first, self.step * count)
        for kind, stack in zip(self.kinds, self.stacks, strict=True):
            columns.append(rows_of(stack._storage.atom, _as_kind(kind), size, home, first))
        if isinstance(self.pattern, Like) and self.filling is None and not self.has_floats:
            are_rows(columns[0], dict(enumerate(self.target[: self.first])))
        if self.is_held:
            freeze(home, [*self.before, *[x for column in columns for x in column]], self.marked.statement)
        return columns

    def extend(self, columns: Sequence[Sequence[Any]]) -> None:
        """Have the list hold the elements with the numbers in *columns*."""
        found = [self.noted(put_together(self.pattern, iter(row), {})) for row in zip(*columns, strict=True)]
        for element in self.target:
            self.noted(element)
        if self.filling is None:
            del self.target[-self.step :]
            self.target.extend(found)
            return
        for k, element in enumerate(found):
            if self.is_whole:
                self.target[k] = element
                continue
            self.target[self.filling.base + self.filling.sign * (self.first + k)] = element


def class_of_number(x: Any) -> type:
    """The class that *x* has for the user."""
    return class_of(x) if type(x) is TracedArray else type(x)


def _containers_in(element: Any) -> list[Any]:
    """The containers in *element* that can be changed."""
    if type(element) is tuple:
        return [x for part in element for x in _containers_in(part)]
    if type(element) in (list, dict):
        parts = element if type(element) is list else element.values()
        return [element, *[x for part in parts for x in _containers_in(part)]]
    return []


def arrays_in(value: Any) -> list[Any]:
    """The arrays in the containers *value*."""
    if isinstance(value, (list, tuple, dict)):
        return [x for part in (value.values() if isinstance(value, dict) else value) for x in arrays_in(part)]
    return [value] if type(value) is TracedArray or isinstance(value, np.ndarray) else []


def _as_kind(kind: Like) -> TracedArray:
    """An array of *kind*."""
    atom = constant(np.zeros(kind.shape, kind.dtype))
    if kind.kind is np.ndarray:
        return wrap_array(atom, c_order=kind.c_order)
    return wrap(cast(atom, kind.dtype, weak=True) if kind.weak else atom)


def _numbers(element: Any, mixed: bool = False) -> tuple[Any, list[Any]]:
    """The pattern of *element*, and the numbers in it; *mixed*: Python floats are ``np.float64``."""
    numbers: list[Any] = []
    pattern = taken_apart(_traced(element), numbers, type(element) in (list, dict), Changeable())
    pattern = _mapped(pattern, lambda like: like._replace(c_order=False))  # arrays may lie in memory in any order
    return _as_float64(pattern) if mixed else pattern, numbers


def _traced(value: Any) -> Any:
    """*value* with traced arrays in the place of plain ones."""
    if isinstance(value, np.ndarray):
        return wrap_array(constant(np.asarray(value)), c_order=bool(value.flags.c_contiguous))
    if type(value) in (tuple, list):
        return type(value)(map(_traced, value))
    return {key: _traced(x) for key, x in value.items()} if type(value) is dict else value


def _mapped(pattern: Any, of_number: Callable[[Like], Like]) -> Any:
    """*pattern* with other kinds of numbers."""
    if isinstance(pattern, Like):
        return of_number(pattern)
    if isinstance(pattern, Parts):
        return pattern._replace(items=tuple([_mapped(x, of_number) for x in pattern.items]))
    return pattern


def _as_float64(pattern: Any) -> Any:
    """*pattern* with ``np.float64`` in the place of Python floats."""
    return _mapped(pattern, lambda like: like._replace(weak=False, kind=np.float64) if like.kind is float else like)
