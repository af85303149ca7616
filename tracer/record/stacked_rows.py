"""Rows of a stack as arrays of their own, each made when somebody asks for it.

A loop that appends to a list gives a stack; the list has as many elements as there were iterations.  Who takes the
whole list finds the stack (``stack_of``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.graph import Atom, Pair, Var, lanes
from ..ops.elementwise import cast
from ..ops.shape import concat, reshape, slice_axis
from .array import TracedArray, class_of
from .buffers import Storage

_FEW = 4  # rows that are not worth a look


class RowStorage(Storage):
    """The buffer of row ``k`` of a stack, whose value is made when it is first asked for."""

    __slots__ = ("k", "made", "stack", "weak")

    def __init__(self, stack: Atom, k: int, like: TracedArray, home: Any) -> None:
        self.stack, self.k, self.weak = stack, k, like.aval.weak
        self.made: Atom | None = None
        self.owner = None
        self.version = 0
        self.c_order, self.array0d = like.known_c_order(), class_of(like) is np.ndarray
        self.home, self.born = home, 0 if home is None else home.iterations

    @property
    def atom(self) -> Atom:  # type: ignore[override]
        if self.made is None:
            stack = self.stack
            if isinstance(stack, Pair):
                re, im = [_row(x, self.k) for x in lanes(stack)]
                self.made = Pair(re, im, stack.aval.dtype)
            else:
                row = _row(stack, self.k)
                self.made = cast(row, row.aval.dtype, weak=True) if self.weak else row
        return self.made

    @atom.setter
    def atom(self, value: Atom) -> None:
        self.made = value


def _row(stack: Atom, k: int) -> Atom:
    return reshape(slice_axis(stack, 0, k, 1), stack.aval.shape[1:])


def rows_of(stack: Atom, like: TracedArray, count: int, recorder: Any) -> list[TracedArray]:
    """The rows of *stack* as arrays of the kind of *like*."""
    shown = Var(Aval(like.aval.dtype, like.aval.shape, like.aval.weak))  # for shape and dtype; a value is made later
    found = []
    for k in range(count):
        row = TracedArray.__new__(TracedArray)
        row._storage = RowStorage(stack, k, like, recorder)
        row._steps, row._atom, row._version, row._uncertain = (), shown, -1, False
        row._recorder = recorder
        found.append(row)
    return found


def _run(items: Sequence[Any], start: int) -> int:
    """The number of *items* from *start* on that are rows of one stack, in order and unwritten."""
    first = _row_storage(items[start])
    if first is None:
        return 0
    count = 1
    while start + count < len(items):
        other = _row_storage(items[start + count])
        if other is None or other.stack is not first.stack or other.k != first.k + count:
            break
        count += 1
    return count


def _row_storage(item: Any) -> RowStorage | None:
    if type(item) is not TracedArray or item._steps:
        return None
    storage = item._storage
    return storage if type(storage) is RowStorage and not storage.version else None


def _part(stack: Atom, start: int, count: int) -> Atom:
    if isinstance(stack, Pair):
        re, im = [_part(x, start, count) for x in lanes(stack)]
        return Pair(re, im, stack.aval.dtype)
    return stack if count == stack.aval.shape[0] else slice_axis(stack, 0, start, count)


def stack_of(items: Sequence[Any], atom_of: Any) -> Atom | None:
    """The stack of *items*, where many of them are rows of one; else None.  *atom_of* gives the others."""
    if len(items) < _FEW or not any(type(x) is TracedArray and type(x._storage) is RowStorage for x in items):
        return None
    parts: list[Atom] = []
    k, most = 0, 0
    while k < len(items):
        count = _run(items, k)
        if count > 1:
            storage = items[k]._storage
            parts.append(_part(storage.stack, storage.k, count))
        else:
            atom, count = atom_of(items[k]), 1
            parts.append(reshape(cast(atom, atom.aval.dtype), (1, *atom.aval.shape)))
        most = max(most, count)
        k += count
    alike = all(x.aval.dtype == parts[0].aval.dtype and x.aval.shape[1:] == parts[0].aval.shape[1:] for x in parts)
    if most < _FEW or not alike:
        return None
    return parts[0] if len(parts) == 1 else concat(parts, 0)
