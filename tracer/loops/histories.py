"""Lists that a loop fills and reads at positions that data says: ``done.append(f(done[parent[k]]))``.

The elements are rows of arrays, one for each number in an element, which are carried: those that are there before the
loop, and room for those that its iterations append.  An append writes a row, a read gathers one.  After the loop the
list gets the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.aval import INT
from ..ir.graph import Atom, Lit, strong
from ..ir.refusals import Reason, Refusal
from ..ops.elementwise import F, broadcast_to, cast
from ..ops.shape import reshape, zeros
from ..record.array import A_PART, FUNCTIONS, TracedArray, class_of, constant, wrap, wrap_array
from ..record.buffers import PickStep
from ..record.recorder import Recorder
from ..record.stacked_rows import rows_of
from .list_rows import freeze
from .positions import Affine, bounds
from .row_writes import value_of
from .values import Changeable, Like, Parts, alike, atom_of, put_together, taken_apart


def position_in(recorder: Recorder, index: TracedArray, length: Affine) -> Atom | None:
    """*index* as a position in a list of *length* elements, in a marked iteration, which asks whether there is one;
    None where there is none."""
    marked, loops = recorder.open_loops[-1], recorder.open_loops
    atom, size = reshape(cast(index.atom, INT), ()), cast(value_of(length, {}), INT)
    least, most = marked.range_of(index.atom) or (None, None)
    shortest = bounds(length, loops)[0]
    form = marked.form(index.atom)
    beyond = None if form is None else bounds(form.plus(length, -1), loops)[1]
    below = (most is not None and shortest is not None and most < shortest) or (beyond is not None and beyond < 0)
    above = least is not None and least >= 0
    asked = [] if below else [F.lt(atom, size)]
    if not above:
        asked.append(F.ge(atom, F.neg(size)))
    for condition in asked:
        if not recorder.guard(condition, "index"):
            return None
    return atom if above else F.select(F.lt(atom, Lit(0, INT, structural=True)), F.add(atom, size), atom)


class History:
    """The elements of *target*, to which each of *count* iterations appends *step*: of one *pattern*, with *stacks* of
    the numbers in them, which *kinds* tell."""

    def __init__(self, target: list[Any], step: int, pattern: Any, kinds: Sequence[Like], stacks: Any) -> None:
        self.target, self.step, self.pattern, self.kinds, self.stacks = target, step, pattern, kinds, stacks
        self.before = _arrays_in(target)
        self.first = len(target)
        self.marked: Any = None  # the iteration in which it is carried
        self.symbols: list[Any] = []  # of the stacks in it
        self.values: list[list[Any]] = []  # the numbers in each value that is appended
        self.appended: list[tuple[Any, Any, int]] = []  # arrays among them, their buffers, and versions
        self.reason: Reason | None = None
        self.rows: dict[int, Any] = {}  # by id: arrays that were read
        self.is_held = False  # whether one of them is known by a name after the loop

    @classmethod
    def of(cls, target: list[Any], step: int, count: int) -> History | None:
        """That of *target*; None where its elements are of several kinds, or hold no number."""
        every = [_numbers(element) for element in target]
        if not every or not every[0][1] or not all(alike(pattern, every[0][0]) for pattern, _ in every[1:]):
            return None
        kinds = [_kind_of(x) for x in every[0][1]]
        stacks = []
        for k, kind in enumerate(kinds):
            stack = FUNCTIONS[np.stack]([numbers[k] for _, numbers in every])
            shape = count * step, *kind.shape
            room = constant(np.zeros(shape, kind.dtype)) if kind.dtype.kind == "c" else zeros(shape, kind.dtype)
            stacks.append(FUNCTIONS[np.concatenate]([stack, wrap_array(room)]))
        return cls(target, step, every[0][0], kinds, stacks)

    # ---- in the marked iteration -----------------------------------------------------------------------------------

    def length(self) -> Affine:
        """The length of the list now."""
        return Affine(len(self.target), {self.marked.number: self.step})

    def append(self, value: Any) -> None:
        """*value* is appended to the list."""
        pattern, numbers = _numbers(value)
        if self.marked.recorder.open_loops[-1] is not self.marked or not alike(pattern, self.pattern):
            self.refuse("unlike values are appended to a list")
            return
        self.values.append(numbers)
        place = cast(value_of(self.length().plus(Affine(-1)), {}), INT)
        for kind, stack, x in zip(self.kinds, self.stacks, numbers, strict=True):
            storage = stack._storage
            if type(x) is TracedArray and class_of(x) is np.ndarray:
                self.appended.append((x, x._storage, x._storage.version))
            row = broadcast_to(strong(atom_of(x)), (1, *kind.shape))
            storage.atom = PickStep((0,), (place,)).put(storage.atom, row)
            storage.version += 1

    def item(self, index: Any) -> Any:
        """The element at *index*; NotImplemented where there is none, or more than one."""
        if type(index) is int:
            if 0 <= index < self.first:
                return self.target[index]
            form = self.length().plus(Affine(index))
            place = cast(value_of(form, {}), INT) if index < 0 <= form.offset else None
        elif type(index) is TracedArray and index.aval.dtype.kind in "iu" and index.aval.size == 1:
            place = position_in(self.marked.recorder, index, self.length())
        else:
            return NotImplemented
        if place is None:
            return NotImplemented
        step = PickStep((0,), (place,))
        numbers = [self._row(kind, step.apply(stack.atom)) for kind, stack in zip(self.kinds, self.stacks, strict=True)]
        return put_together(self.pattern, iter(numbers), {})

    def _row(self, kind: Like, atom: Atom) -> TracedArray:
        if kind.kind is not np.ndarray:
            return wrap(cast(atom, kind.dtype, weak=True) if kind.weak else atom)
        found = wrap_array(atom, c_order=kind.c_order)
        found._storage.owner = A_PART
        self.rows[id(found)] = found
        freeze(self.marked.recorder, self.before)
        return found

    def refuse(self, what: str) -> None:
        self.marked.refuse(Refusal.LOOP_SEEN(what=what, site=self.marked.site))

    def leave(self) -> None:
        """The iteration stands for itself: arrays that were read of the list are those that are in it."""
        if self.rows:
            freeze(self.marked.recorder, _arrays_in(self.target))

    # ---- when a loop node is made ----------------------------------------------------------------------------------

    def objection(self) -> str:
        """The reason why no loop can be made of the iteration; empty where there is none."""
        written = self.marked.written
        if self.marked.appended_to(self.target) != self.step:
            return "a list is appended to now and then"
        if any(type(x) is TracedArray and id(x._storage) in written for x in self.before):
            return "an array of a list is written"
        for x, storage, version in self.appended:
            if x._storage is not storage or storage.version != version:
                return "an array is written that was appended to a list"
            if storage.born >= self.marked.serial and storage.owner is None:
                continue
            if storage.owner is None:
                return "an array from before a loop is appended to a list"
            self.is_held = True
        return ""

    def results(self, count: int) -> list[list[TracedArray]]:
        """The numbers in what *count* iterations have appended, those of one place after those of another."""
        home = self.marked.recorder
        columns: list[list[TracedArray]] = []
        for kind, stack in zip(self.kinds, self.stacks, strict=True):
            like = _as_kind(kind)
            columns.append(rows_of(stack._storage.atom, like, self.step * count, home, self.first))
        if self.is_held:
            freeze(home, [*self.before, *[x for column in columns for x in column]])
        return columns


def _arrays_in(value: Any) -> list[Any]:
    """The arrays in the list or tuple *value*."""
    if isinstance(value, (list, tuple)):
        return [x for part in value for x in _arrays_in(part)]
    return [value] if type(value) is TracedArray or isinstance(value, np.ndarray) else []


def _as_kind(kind: Like) -> TracedArray:
    """An array of *kind*."""
    atom = constant(np.zeros(kind.shape, kind.dtype))
    if kind.kind is np.ndarray:
        return wrap_array(atom, c_order=kind.c_order)
    return wrap(cast(atom, kind.dtype, weak=True) if kind.weak else atom)


def _numbers(element: Any) -> tuple[Any, list[Any]]:
    """The pattern of *element*, and the numbers in it."""
    numbers: list[Any] = []
    pattern = taken_apart(_traced(element), numbers, False, Changeable())
    return _any_order(pattern), numbers


def _traced(value: Any) -> Any:
    """*value* with traced arrays in the place of plain ones."""
    if isinstance(value, np.ndarray):
        return wrap_array(constant(np.asarray(value)), c_order=bool(value.flags.c_contiguous))
    if type(value) is tuple and any(isinstance(x, (np.ndarray, tuple)) for x in value):
        return tuple(map(_traced, value))
    return value


def _any_order(pattern: Any) -> Any:
    """*pattern* of arrays that may lie in memory in any order."""
    if isinstance(pattern, Like):
        return pattern._replace(c_order=False)
    if isinstance(pattern, Parts):
        return pattern._replace(items=tuple(map(_any_order, pattern.items)))
    return pattern


def _kind_of(x: Any) -> Like:
    numbers: list[Any] = []
    return taken_apart(x, numbers, False, Changeable())._replace(c_order=False)  # type: ignore[no-any-return]
