"""Index sets: for each element of a value the numbers of the input elements that it may depend on.

An ``IndexSets`` has one row for each element.  Where rows are about equally long they are an array with -1 in what is
left over, else the rows of a compressed sparse matrix.  A set may hold a number twice until ``distinct``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

MOST = 1 << 26  # numbers in one value's sets; beyond that it is taken to depend on everything
_NONE = np.iinfo(np.int32).max
_HASHED = 1024  # rows that a hash looks at
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


class IndexSets:
    """Sets of numbers, one for each row: ``indices`` is an array (rows, width), or flat with ``indptr``."""

    __slots__ = ("_hash", "indices", "indptr")

    def __init__(self, indices: np.ndarray, indptr: np.ndarray | None = None) -> None:
        self.indices, self.indptr, self._hash = indices, indptr, 0

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

    def taken(self, rows: np.ndarray) -> IndexSets:
        """The sets of these *rows*, flat; the empty set for -1."""
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

    def grouped(self, rows: np.ndarray) -> IndexSets:
        """The unions of the sets of each row of the 2-d array *rows*."""
        if rows.shape[1] == 1:
            return self.taken(rows[:, 0])
        if rows.shape[1] == 0 or not len(rows):
            return nothing(len(rows))
        found = self.taken(rows.reshape(-1))
        if found.indptr is None:
            whole = IndexSets(found.indices.reshape(len(rows), -1))
            return whole.distinct() if whole.width > _WIDE else whole
        return IndexSets(found.indices, found.indptr[:: rows.shape[1]]).distinct()

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
    return IndexSets(np.arange(first, first + size, dtype=np.int32).reshape(-1, 1))


def nothing(rows: int) -> IndexSets:
    return IndexSets(np.full((rows, 1), -1, np.int32))


def union(sets: Sequence[IndexSets]) -> IndexSets:
    """The unions row by row."""
    if len(sets) == 1:
        return sets[0]
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
    kind = np.int32 if max(len(indices), columns) < _NONE else np.int64
    return _pointers(np.concatenate([x.counts for x in found])).astype(kind), indices.astype(kind)
