"""Index sets: for each element of a value the numbers of the input elements that it may depend on.

An ``IndexSets`` has one row for each element.  Where rows are about equally long they are an array with -1 in what is
left over, else the rows of a compressed sparse matrix.  A set may hold a number twice until ``distinct``.  Of programs
that do the same for each of many rows the sets are ``RegularSets``, which are written out where something asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

MOST = 1 << 26  # numbers in one value's sets; beyond that it is taken to depend on everything
_NONE = np.iinfo(np.int32).max
_HASHED = 1024  # rows that a hash looks at
_MANY = 256  # turns, from which on sets that come again are held once
_WIDE = 8  # columns of an array of rows, from which on its repetitions are removed
_STEP = 512  # numbers that can be written in the time that any operation on sets takes
_effort: ContextVar[list[int] | None] = ContextVar("effort", default=None)  # what is left of it


class TooManyError(Exception):
    """Index sets would take more than ``MOST`` numbers."""


class TooLongError(Exception):
    """Finding the sets takes longer than was allowed."""


@contextmanager
def limited(effort: int) -> Iterator[None]:
    """Within it sets are found by writing at most about *effort* numbers: TooLongError where that does not do."""
    token = _effort.set([effort])
    try:
        yield
    finally:
        _effort.reset(token)


class RowNumbers:
    """Numbers of rows, -1 for none; they may be alike in *turns* equal parts of them."""

    __slots__ = ("_regular", "numbers", "turns")

    def __init__(self, numbers: np.ndarray, turns: int = 1) -> None:
        self.numbers, self.turns = numbers, turns
        self._regular: dict[int, tuple[np.ndarray, np.ndarray] | None] = {}

    def regular(self, turns: int) -> tuple[np.ndarray, np.ndarray] | None:
        """(the numbers of the first of *turns*, how much further on each of them is in the next), if that is so."""
        if turns not in self._regular:
            self._regular[turns] = self._compared(turns)
        return self._regular[turns]

    def _compared(self, turns: int) -> tuple[np.ndarray, np.ndarray] | None:
        if turns < _MANY or not len(self.numbers) or len(self.numbers) % turns:
            return None
        rows = self.numbers.reshape(turns, -1)
        first, last, distance = rows[0], rows[-1], rows[1] - rows[0]
        if not np.array_equal(last, first + (turns - 1) * distance):
            return None
        if np.any((last < 0) & (first >= 0)) or np.any(distance[first < 0]):
            return None
        return (first, distance) if np.array_equal(rows[1:], rows[:-1] + distance) else None


class IndexSets:
    """Sets of numbers, one for each row: ``indices`` is an array (rows, width), or flat with ``indptr``."""

    __slots__ = ("_hash", "_indices", "indptr")

    def __init__(self, indices: np.ndarray | None, indptr: np.ndarray | None = None) -> None:
        self._indices, self.indptr, self._hash = indices, indptr, 0

    @property
    def indices(self) -> np.ndarray:
        assert self._indices is not None
        return self._indices

    def __len__(self) -> int:
        return len(self.indices) if self.indptr is None else len(self.indptr) - 1

    @property
    def width(self) -> float:
        """The (mean) number of entries in a row."""
        return self.indices.shape[1] if self.indptr is None else len(self.indices) / max(len(self), 1)

    @property
    def counts(self) -> np.ndarray:
        """The number of entries in each row."""
        return (self.indices >= 0).sum(1) if self.indptr is None else np.diff(self.indptr)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexSets) or (self.indptr is None) != (other.indptr is None):
            return False
        if self.indptr is not None and not np.array_equal(self.indptr, other.indptr):  # type: ignore[arg-type]
            return False
        return np.array_equal(self.indices, other.indices)

    def __hash__(self) -> int:
        if not self._hash:
            some = self.indices[:: len(self.indices) // _HASHED + 1]
            self._hash = hash((self.indices.shape, some.tobytes()))
        return self._hash

    def taken(self, rows: np.ndarray | RowNumbers) -> IndexSets:
        """The sets of these *rows*, flat; the empty set for -1."""
        rows = rows.numbers if isinstance(rows, RowNumbers) else rows
        if not len(self):
            return nothing(len(rows))
        if self.indptr is None:
            _check(len(rows) * self.indices.shape[1])
            evenly = _evenly(rows)
            if evenly is not None:
                return IndexSets(self.indices[evenly])
            found = self.indices[rows]
            if len(rows) and rows.min() < 0:
                found[rows < 0] = -1
            return IndexSets(found)
        starts = np.append(self.indptr[:-1], 0)[rows]  # the last one is for -1
        counts = np.append(np.diff(self.indptr), 0)[rows]
        indptr = _pointers(counts)
        _check(indptr[-1])
        return IndexSets(self.indices[_runs(starts, counts, indptr)], indptr)

    def grouped(self, rows: RowNumbers, count: int) -> IndexSets:
        """*count* sets, the unions of the sets of as many *rows* that stand one after the other."""
        width = len(rows.numbers) // count if count else 0
        if not width:
            return nothing(count)
        found = self.taken(rows)
        if width == 1:
            return found
        if found.indptr is None:
            whole = found.in_rows(count)
            return whole.distinct() if whole.width > _WIDE else whole
        return IndexSets(found.indices, found.indptr[::width]).distinct()

    def in_rows(self, count: int) -> IndexSets:
        """*count* sets, each the union of as many that stand one after the other."""
        return IndexSets(self.indices.reshape(count, -1))

    def summed(self, places: np.ndarray, count: int) -> IndexSets:
        """*count* sets: place p has the union of the sets of all rows k with ``places[k] == p``."""
        order = np.argsort(places, kind="stable")
        counts = np.bincount(places, minlength=count)
        if counts.max(initial=0) <= 1:
            rows = np.full(count, -1)
            rows[places] = np.arange(len(places))
            return self.taken(rows)
        found = self.taken(order).ragged()
        assert found.indptr is not None
        return IndexSets(found.indices, found.indptr[_pointers(counts)]).distinct()

    def ragged(self) -> IndexSets:
        """The same with ``indptr``."""
        if self.indptr is not None:
            return self
        there = self.indices >= 0
        if there.all():
            return IndexSets(self.indices.reshape(-1), np.arange(len(self) + 1) * self.indices.shape[1])
        return IndexSets(self.indices[there], _pointers(there.sum(1)))

    def distinct(self) -> IndexSets:
        """The same sets, sorted, in which nothing is repeated; as an array where that is not much larger."""
        if self.indptr is None and self.indices.shape[1] == 1:
            return self
        if self.indptr is not None:
            bound = int(self.indices.max(initial=0)) + 1
            keys = np.repeat(np.arange(len(self)), np.diff(self.indptr)) * bound + self.indices
            keys = np.sort(keys)
            keys = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
            rows = keys // bound
            flat = (keys - rows * bound).astype(self.indices.dtype)
            return IndexSets(flat, _pointers(np.bincount(rows, minlength=len(self))))._even()
        found = np.sort(_side_by_side([self.indices]), axis=1)
        again = found[:, 1:] == found[:, :-1]
        if found[:, :1].min(initial=0) >= 0 and not again.any():
            return IndexSets(found)
        found[:, 1:][again] = -1
        found[found < 0] = _NONE
        found.sort(axis=1)
        counts = (found < _NONE).sum(1)
        most = max(int(counts.max(initial=0)), 1)
        found = np.ascontiguousarray(found[:, :most])
        found[found == _NONE] = -1
        narrow = len(found) * most <= 2 * counts.sum() + len(found)
        return IndexSets(found) if narrow else IndexSets(found).ragged()

    def _even(self) -> IndexSets:
        """As an array, if that is not much larger."""
        assert self.indptr is not None
        counts = np.diff(self.indptr)
        width = max(int(counts.max(initial=0)), 1)
        if len(self) * width > 2 * len(self.indices) + len(self):
            return self
        found = np.full((len(self), width), -1, self.indices.dtype)
        found[np.arange(width) < counts[:, None]] = self.indices
        return IndexSets(found)


class RegularSets(IndexSets):
    """Sets that come again: in turn t row k of one turn has the numbers ``base[k] + t * steps[k]``; -1, with the step
    0, is none."""

    __slots__ = ("base", "steps", "turns")

    def __init__(self, base: np.ndarray, steps: np.ndarray, turns: int) -> None:
        super().__init__(None)
        self.base, self.steps, self.turns = base, steps, turns

    @property
    def indices(self) -> np.ndarray:
        if self._indices is None:
            _check(self.turns * self.base.size)
            base, steps = self.base.astype(np.int32), self.steps.astype(np.int32)
            turns = np.arange(self.turns, dtype=np.int32).reshape(-1, 1, 1)
            self._indices = (base + turns * steps).reshape(-1, base.shape[1])
        return self._indices

    def __len__(self) -> int:
        return self.turns * len(self.base)

    @property
    def width(self) -> float:
        return self.base.shape[1]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RegularSets) and self.turns == other.turns:
            return np.array_equal(self.base, other.base) and np.array_equal(self.steps, other.steps)
        return super().__eq__(other)

    def __hash__(self) -> int:
        if not self._hash:  # that of the same sets, written out
            turn, row = np.divmod(np.arange(0, len(self), len(self) // _HASHED + 1), len(self.base))
            some = (self.base[row] + turn[:, None] * self.steps[row]).astype(np.int32)
            self._hash = hash(((len(self), self.base.shape[1]), some.tobytes()))
        return self._hash

    def taken(self, rows: np.ndarray | RowNumbers) -> IndexSets:
        rows = rows if isinstance(rows, RowNumbers) else RowNumbers(rows)
        for turns in (rows.turns, math.gcd(self.turns, len(rows.numbers))):
            found = rows.regular(turns)
            if found is not None and not np.any(found[1] % len(self.base)):
                return self._moved(*found, turns)
        return super().taken(rows)

    def _moved(self, first: np.ndarray, distance: np.ndarray, turns: int) -> RegularSets:
        """The sets of the rows *first*, each of which is *distance* further on in the next of *turns*."""
        turn, row = np.divmod(first, len(self.base))
        base, steps = self.base[row] + turn[:, None] * self.steps[row], self.steps[row]
        steps = steps * (distance // len(self.base))[:, None]
        none = (self.base[row] < 0) | (first < 0)[:, None]
        base[none], steps[none] = -1, 0
        _check(base.size)
        return RegularSets(base, steps, turns)

    def in_rows(self, count: int) -> IndexSets:
        if count % self.turns:
            return super().in_rows(count)
        rows = count // self.turns
        return RegularSets(self.base.reshape(rows, -1), self.steps.reshape(rows, -1), self.turns)

    def distinct(self) -> IndexSets:
        if self.width == 1:
            return self
        base, steps = np.where(self.base < 0, _NONE, self.base), self.steps
        for _ in range(2):  # in order, then what is repeated goes to the end
            order = np.lexsort((steps, base))
            base, steps = np.take_along_axis(base, order, 1), np.take_along_axis(steps, order, 1)
            again = (base[:, 1:] == base[:, :-1]) & (steps[:, 1:] == steps[:, :-1])
            base[:, 1:][again], steps[:, 1:][again] = _NONE, 0
        there = base < _NONE
        for rows in (base, base + (self.turns - 1) * steps):  # numbers that do not meet in between
            if np.any((rows[:, 1:] <= rows[:, :-1]) & there[:, 1:]):
                return super().distinct()
        most = max(int(there.sum(1).max()), 1)
        base, steps = np.where(there, base, -1)[:, :most], steps[:, :most]
        found = RegularSets(np.ascontiguousarray(base), np.ascontiguousarray(steps), self.turns)
        return found if len(base) * most <= 2 * int(there.sum()) + len(base) else found.ragged()

    def coarser(self, turns: int) -> RegularSets:
        """The same in fewer *turns*, of which theirs are a multiple."""
        count = self.turns // turns
        base = self.base + np.arange(count)[:, None, None] * self.steps
        return RegularSets(base.reshape(-1, base.shape[2]), np.tile(self.steps * count, (count, 1)), turns)


def taken_from(tables: Sequence[IndexSets], rows: RowNumbers) -> IndexSets:
    """The sets of *rows* of these *tables*, one after the other."""
    found = rows.regular(rows.turns)
    if found is not None and all(isinstance(x, RegularSets) for x in tables):
        parts = _parts_taken(tables, *found, rows.turns)
        if parts is not None:
            return parts
    return stacked(tables).taken(rows)


def _parts_taken(
    tables: Sequence[IndexSets], first: np.ndarray, distance: np.ndarray, turns: int
) -> RegularSets | None:  # fmt: skip
    """As ``taken_from``, if each of these rows stays in one table, and goes on by whole turns of it."""
    starts = _pointers(np.array([len(x) for x in tables]))
    which, last = np.searchsorted(starts, first, side="right") - 1, first + (turns - 1) * distance
    if not np.array_equal(which, np.searchsorted(starts, last, side="right") - 1):
        return None
    width = max(int(x.width) for x in tables)
    base = np.full((len(first), width), -1)
    steps = np.zeros_like(base)
    for k, table in enumerate(tables):
        assert isinstance(table, RegularSets)
        own = np.flatnonzero(which == k)
        if np.any(distance[own] % len(table.base)):
            return None
        found = table._moved(first[own] - starts[k], distance[own], turns)
        base[own, : found.base.shape[1]], steps[own, : found.base.shape[1]] = found.base, found.steps
    return RegularSets(base, steps, turns)


def _evenly(rows: np.ndarray) -> slice | None:
    """*rows* as a slice, if they are one from the first to the last: a view need not be copied."""
    if len(rows) < 2 or rows[0] < 0 or rows[1] <= rows[0]:
        return None
    step, end = int(rows[1] - rows[0]), int(rows[-1]) + 1
    even = rows[-1] == rows[0] + step * (len(rows) - 1) and np.all(np.diff(rows) == step)
    return slice(int(rows[0]), end, step) if even else None


def _side_by_side(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The columns of *arrays* in one, equal ones once: the operands of a sum often depend on the same inputs."""
    step = len(arrays[0]) // _HASHED + 1
    kept: dict[bytes, list[np.ndarray]] = {}
    for column in [column for rows in arrays for column in rows.T]:
        alike = kept.setdefault(column[::step].tobytes(), [])
        if not any(np.array_equal(column, other) for other in alike):
            alike.append(column)
    found = [column for alike in kept.values() for column in alike]
    return arrays[0] if len(arrays) == 1 and len(found) == arrays[0].shape[1] else np.stack(found, axis=1)


def _pointers(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)])


def _check(size: int) -> None:
    if size > MOST:
        raise TooManyError
    left = _effort.get()
    if left is not None:
        left[0] -= size + _STEP
        if left[0] < 0:
            raise TooLongError


def _runs(starts: np.ndarray, counts: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """The numbers from ``starts[k]`` on, ``counts[k]`` of them, one run after the other."""
    return np.repeat(starts - indptr[:-1], counts) + np.arange(indptr[-1])


def numbers(size: int, first: int = 0) -> IndexSets:
    """The sets {first}, {first + 1}, ..."""
    if size >= _MANY:
        return RegularSets(np.array([[first]]), np.array([[1]]), size)
    return IndexSets(np.arange(first, first + size, dtype=np.int32).reshape(-1, 1))


def index_type(largest: int) -> type[np.integer]:
    """The type of numbers to *largest*: half as much memory is touched where they are short."""
    return np.int32 if largest < _NONE else np.int64


def nothing(rows: int) -> IndexSets:
    return IndexSets(np.full((rows, 1), -1, np.int32))


def union(sets: Sequence[IndexSets]) -> IndexSets:
    """The unions row by row."""
    if len(sets) == 1:
        return sets[0]
    regular = [s for s in sets if isinstance(s, RegularSets)]
    if len(regular) == len(sets):
        turns = math.gcd(*[s.turns for s in regular])
        if turns >= _MANY:
            regular = [s.coarser(turns) for s in regular]
            base, steps = np.hstack([s.base for s in regular]), np.hstack([s.steps for s in regular])
            _check(base.size)
            whole = RegularSets(base, steps, turns)
            return whole.distinct() if whole.width > _WIDE or len(sets) > 2 else whole
    _check(sum([int(s.width * len(s)) for s in sets]))
    if all(s.indptr is None for s in sets):
        found = IndexSets(_side_by_side([s.indices for s in sets]))
        return found.distinct() if found.width > _WIDE or len(sets) > 2 else found
    ragged = [s.ragged() for s in sets]
    rows = np.concatenate([np.repeat(np.arange(len(s)), s.counts) for s in ragged])
    flat = np.concatenate([s.indices for s in ragged])
    order = np.argsort(rows, kind="stable")
    indptr = _pointers(np.bincount(rows, minlength=len(sets[0])))
    return IndexSets(flat[order], indptr).distinct()


def stacked(sets: Sequence[IndexSets]) -> IndexSets:
    """The rows of all of them, one after the other."""
    if len(sets) == 1:
        return sets[0]
    if all(s.indptr is None for s in sets):
        rows, width = sum(map(len, sets)), max(int(s.width) for s in sets)
        if rows * width <= 2 * sum([s.indices.size for s in sets]) + rows:
            found = np.full((rows, width), -1, np.int32)
            at = 0
            for s in sets:
                found[at : at + len(s), : s.indices.shape[1]] = s.indices
                at += len(s)
            return IndexSets(found)
    ragged = [s.ragged() for s in sets]
    counts = np.concatenate([s.counts for s in ragged])
    return IndexSets(np.concatenate([s.indices for s in ragged]), _pointers(counts))


def as_csr(blocks: Sequence[IndexSets], columns: int) -> Any:
    """(indptr, indices) of the sparse matrix with the rows of these, one after the other: sorted, nothing twice."""
    found = [block.distinct().ragged() for block in blocks]
    indices = np.concatenate([x.indices for x in found])
    kind = index_type(max(len(indices), columns))
    return _pointers(np.concatenate([x.counts for x in found])).astype(kind), indices.astype(kind)
