"""Rows of a stack as arrays of their own, each made when somebody asks for it.

A loop that appends to a list gives a stack; the list has as many elements as there were iterations.  Who takes the
whole list finds the stack (``stack_of``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.graph import Atom, Var
from ..ops.complex import by_lane
from ..ops.elementwise import cast
from ..ops.shape import concat, reshape, slice_axis
from .array import TracedArray, class_of
from .buffers import Storage

_FEW = 4  # rows that are not worth a look
_NEAR = 4  # rows among which one is looked for that knows what stands in place of another one

Others = dict[int, tuple[Storage, int]]  # buffers in the places of rows, by the rows' numbers, and their versions


class RowStorage(Storage):
    """The buffer of row ``k`` of a stack, whose value is made when it is first asked for.  ``others``: of the stack."""

    __slots__ = ("k", "made", "others", "stack", "weak")

    def __init__(self, stack: Atom, k: int, like: TracedArray, home: Any, others: Others) -> None:
        self.stack, self.k, self.weak, self.others = stack, k, like.aval.weak, others
        self.made: Atom | None = None
        self.owner = None
        self.version = 0
        self.c_order, self.array0d = like.known_c_order(), class_of(like) is np.ndarray
        self.home, self.born = home, 0 if home is None else home.loops.iterations

    @property
    def atom(self) -> Atom:  # type: ignore[override]
        if self.made is None:
            row = by_lane(_row, self.stack, self.k)
            weak = self.weak and not row.aval.is_complex
            self.made = cast(row, row.aval.dtype, weak=True) if weak else row
        return self.made

    @atom.setter
    def atom(self, value: Atom) -> None:
        self.made = value


def _row(stack: Atom, k: int) -> Atom:
    return reshape(slice_axis(stack, 0, k, 1), stack.aval.shape[1:])


def rows_of(stack: Atom, like: TracedArray, count: int, recorder: Any, first: int = 0) -> list[TracedArray]:
    """*count* rows of *stack*, from the *first* on, as arrays of the kind of *like*."""
    shown = Var(Aval(like.aval.dtype, like.aval.shape, like.aval.weak))  # for shape and dtype; a value is made later
    found: list[TracedArray] = []
    others: Others = {}
    for k in range(first, first + count):
        row = TracedArray.__new__(TracedArray)
        row._storage = RowStorage(stack, k, like, recorder, others)
        row._steps, row._atom, row._version, row._uncertain = (), shown, -1, False
        row._recorder = recorder
        found.append(row)
    return found


def stand_in(rows: list[Any], values: Mapping[int, Any]) -> None:
    """Put *values* in the places of *rows*, which are equal to them: the values are objects that others have, too."""
    are_rows(rows, values)
    for k, value in values.items():
        rows[k] = value


def are_rows(rows: Sequence[Any], values: Mapping[int, Any]) -> None:
    """Note that *values* are equal to the rows of these numbers of the stack that has *rows*."""
    others = rows[0]._storage.others
    for k, value in values.items():
        if type(value) is TracedArray and not value._steps:
            others[k] = value._storage, value._storage.version


def run_of_rows(place: Callable[[int], tuple[Any, int] | None], start: int, end: int) -> tuple[Any, int, int]:
    """(the stack, the first row, how many) of the items from *start* on that are rows of one stack, in order; (None, 0,
    1) where the first one is none.  *place* gives (the stack, the number of the row in it) of an item, or None."""
    first = place(start)
    if first is None:
        return None, 0, 1
    stack, row, count = *first, 1
    while start + count < end and (other := place(start + count)) is not None:
        if other[0] is not stack or other[1] != row + count:
            break
        count += 1
    return stack, row, count


def _row_of(items: Sequence[Any], at: int) -> tuple[Atom, int] | None:
    """(the stack, the number of the row in it) of an item that is unwritten; None where it is none."""
    item = items[at]
    if type(item) is not TracedArray or item._steps or _is_symbol(item):
        return None
    storage = item._storage
    if type(storage) is RowStorage and not storage.version:
        return storage.stack, storage.k
    # it stands for a row, which those after it know
    near = next((k for k in range(at + 1, min(at + _NEAR, len(items))) if _is_row(items[k])), None)
    if near is None:
        return None
    row = items[near]._storage
    k = row.k - near + at
    return (row.stack, k) if row.others.get(k) == (storage, storage.version) else None


def _is_symbol(item: TracedArray) -> bool:
    """Whether *item* stands, with a value of its own, for the array of its buffer in an iteration of a loop."""
    storage = item._storage
    known = storage.made if type(storage) is RowStorage else storage.atom
    return item._version == storage.version and item._atom is not known


def _is_row(item: Any) -> bool:
    return type(item) is TracedArray and type(item._storage) is RowStorage


def _part(stack: Atom, start: int, count: int) -> Atom:
    if stack.aval.is_complex:
        return by_lane(_part, stack, start, count)
    return stack if count == stack.aval.shape[0] else slice_axis(stack, 0, start, count)


def stack_of(items: Sequence[Any], atom_of: Any) -> Atom | None:
    """The stack of *items*, where many of them are rows of one; else None.  *atom_of* gives the others."""
    if len(items) < _FEW or not any(type(x) is TracedArray and type(x._storage) is RowStorage for x in items):
        return None
    parts: list[Atom] = []
    k, most = 0, 0
    while k < len(items):
        stack, row, count = run_of_rows(lambda at: _row_of(items, at), k, len(items))
        if count > 1:
            parts.append(_part(stack, row, count))
        else:
            atom, count = atom_of(items[k]), 1
            parts.append(reshape(cast(atom, atom.aval.dtype), (1, *atom.aval.shape)))
        most = max(most, count)
        k += count
    alike = all(x.aval.dtype == parts[0].aval.dtype and x.aval.shape[1:] == parts[0].aval.shape[1:] for x in parts)
    if most < _FEW or not alike:
        return None
    return parts[0] if len(parts) == 1 else concat(parts, 0)
