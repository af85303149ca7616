"""Sparse derivatives by compressed products: one product with a seed for each colour, and its entries gathered.

A ``SparseProgram`` says how; ``jacobian_program`` and ``hessian_program`` find it for recorded nodes, and ``emit``
(``compressed_products.py``) appends it to the builder in force: the entries of the matrix, in the order of its pattern.
There are three ways:

- *forward*: tangents of columns of one colour;
- *reverse*: cotangents of rows of one colour.  They are taken of what the program first computes with: an input that is
  only indexed (``cameras[observed]``) has a copy for each reading (``compressed_copies.py``), and copies are shared by
  fewer rows.  An entry is then the sum of those of its copies;
- *symmetric*: forward on a gradient, with a star colouring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tracer.ir.graph import Atom, Node, Var, live_nodes
from .coloring import Coloring, columns_colored, rows_colored, star_colored, transposed
from .compressed_copies import copies_of, sources_of
from .index_sets import TooLongError, index_type, limited
from .sparsity import Known, Lookup, Pattern, pattern_of
from .sparsity_loops import loop_sets

REVERSE_COST = 1.5  # of a cotangent, where a tangent is 1
LARGEST = 1 << 22  # elements of a matrix, from which on one that is half full is none to be compressed
EVERY = 1 << 30  # products: no limit
EFFORT, EFFORT_EACH = 1 << 21, 32  # numbers that may be written to find zeros of a dense matrix, and for each element


@dataclass(slots=True, eq=False)
class SparseProgram:
    """How the entries of a matrix are computed; ``mode`` is "forward", "reverse" or "symmetric"."""

    pattern: Pattern
    mode: str
    coloring: Coloring
    nodes: Sequence[Node]
    outputs: Sequence[Atom]  # their elements are the rows of the products (forward), or have seeds (reverse)
    wrt: Sequence[Var]  # have seeds (forward), or give the products (reverse)
    places: np.ndarray  # (terms, entries) positions in the products, colour by colour; -1: none

    @property
    def colors(self) -> int:
        return self.coloring.count

    def __str__(self) -> str:
        rows, columns = self.pattern.shape
        size = rows * columns
        share = f", {self.pattern.nnz / size:.2%} of all" if size else ""
        made = {
            "forward": "tangents of columns of one color",
            "reverse": "cotangents of rows of one color",
            "symmetric": "tangents of the gradient, columns of one color of a star coloring",
        }[self.mode]
        return (
            f"sparse {rows} x {columns} matrix: {self.pattern.nnz} entries{share}; {self.colors} colors, {made} "
            f"({self.colors} of {columns if self.mode != 'reverse' else rows} products)"
        )


# ---- how -----------------------------------------------------------------------------------------------------------


def hessian_program(
    nodes: Sequence[Node], gradients: Sequence[Atom], wrt: Sequence[Var], known: Lookup, most: int = EVERY
) -> SparseProgram | None:
    """The Hessian of a scalar whose *gradients* with respect to *wrt* the *nodes* compute; None where it is dense, or
    needs more than *most* products."""
    pattern = _pattern(nodes, gradients, wrt, known, most)
    if pattern is None or is_dense(pattern.nnz, pattern.shape, most):
        return None
    pattern = symmetric(pattern)
    coloring = star_colored(pattern, most)
    if coloring is None:
        return None
    if most < EVERY:  # in an array an entry had better stand in its own row
        coloring = columns_colored(pattern, coloring.count) or coloring
    places = coloring.colors * pattern.shape[0] + coloring.rows
    return SparseProgram(pattern, "symmetric", coloring, nodes, gradients, wrt, places[None])


def _pattern(
    nodes: Sequence[Node], outputs: Sequence[Atom], wrt: Sequence[Var], known: Lookup, most: int
) -> Pattern | None:
    """The pattern of the Jacobian; None where it is dense, or takes long to find for a matrix that would do without."""
    if most == EVERY:
        return pattern_of(nodes, outputs, wrt, known, loop_sets)
    rows, columns = (sum([x.aval.size for x in xs]) for xs in (outputs, wrt))
    try:
        with limited(EFFORT + EFFORT_EACH * rows * columns):
            return pattern_of(nodes, outputs, wrt, known, loop_sets)
    except TooLongError:
        return None


def is_dense(entries: int, shape: tuple[int, int], most: int) -> bool:
    """Whether a matrix is half full, and large; or one of any size that is wanted in at *most* so many products."""
    size = shape[0] * shape[1]
    return 2 * entries > size and (size > LARGEST or most < EVERY)


def symmetric(pattern: Pattern) -> Pattern:
    """The pattern with its transpose: what was found of an entry and its mirror image may differ."""
    indptr, indices = transposed(pattern.indptr, pattern.indices, pattern.shape[1])
    if np.array_equal(indptr, pattern.indptr) and np.array_equal(indices, pattern.indices):
        return pattern
    rows, columns = pattern.rows.astype(np.int64), pattern.indices.astype(np.int64)
    size = pattern.shape[0]
    keys = np.sort(np.concatenate([rows * size + columns, columns * size + rows]))
    keys = keys[_fresh(keys)]
    rows = keys // max(size, 1)
    return _of_entries(rows, keys - rows * size, pattern.shape, pattern.relies_on)


def _fresh(keys: np.ndarray) -> np.ndarray:
    """Where the sorted *keys* differ from the one before."""
    return np.append(True, keys[1:] != keys[:-1])[: len(keys)]


def _of_entries(
    rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], relies_on: dict[Var, np.ndarray]
) -> Pattern:
    """The pattern with these entries, row by row."""
    kind = index_type(max(len(rows), shape[1]))
    indptr = np.searchsorted(rows, np.arange(shape[0] + 1, dtype=rows.dtype)).astype(kind)
    return Pattern(shape, indptr, columns.astype(kind), relies_on)


def jacobian_program(
    nodes: Sequence[Node], outputs: Sequence[Atom], wrt: Sequence[Var], known: Lookup, most: int = EVERY
) -> SparseProgram | None:
    """The Jacobian of *outputs* with respect to *wrt*; None where it is dense, or needs more than *most* products."""
    known_values = Known(nodes, known)
    copies = copies_of(nodes, outputs, wrt, known_values)
    sources, origin = sources_of(nodes, outputs, known_values, {v for v, _ in copies})
    made = {v for v, _ in copies}
    inner = [n for n in nodes if made.isdisjoint(n.outs)]
    inner = live_nodes(inner, sources)
    local = _pattern(inner, sources, [v for v, _ in copies], known, most)
    shape = (len(origin), sum([v.aval.size for v in wrt]))
    if local is None or is_dense(local.nnz, shape, most):
        return None
    columns = np.concatenate([c for _, c in copies]) if copies else np.zeros(0, np.int64)
    # each entry is made of the entries of the local Jacobian: at these rows, in these columns of `wrt`
    row, entry = _taken(local, origin)
    column = columns.astype(index_type(shape[1]))[local.indices[entry]]
    if column.min(initial=0) < 0:
        there = column >= 0
        row, entry, column = row[there], np.arange(local.nnz)[entry][there], column[there]
    first = _beginning(row, column)
    if first is None:
        order = np.argsort(row * np.int64(shape[1]) + column, kind="stable")
        row, entry, column = row[order], np.arange(local.nnz)[entry][order], column[order]
        first = _beginning(row, column)
        assert first is not None
    once = bool(first.all())
    rows, kept = (row, column) if once else (row[first], column[first])
    pattern = _of_entries(rows, kept, shape, {**known_values.asked, **local.relies_on})
    reverse = rows_colored(local, most)
    limit = most if reverse is None else min(most, int(reverse.count * REVERSE_COST))
    forward = columns_colored(pattern, limit)
    if reverse is not None and forward is None:
        kind = index_type(reverse.count * len(columns))
        found = reverse.colors[entry].astype(kind, copy=False) * kind(len(columns)) + reverse.rows[entry]
        places = found[None] if once else _in_turns(first, found)
        return SparseProgram(pattern, "reverse", reverse, inner, sources, [v for v, _ in copies], places)
    if forward is None:
        return None
    places = forward.colors * shape[0] + forward.rows
    return SparseProgram(pattern, "forward", forward, nodes, outputs, wrt, places[None])


def _beginning(row: np.ndarray, column: np.ndarray) -> np.ndarray | None:
    """Where an entry of a matrix begins, of which these are the rows and columns of terms; None if out of order."""
    same = row[1:] == row[:-1]
    if np.any(same & (column[1:] < column[:-1])) or np.any(row[1:] < row[:-1]):
        return None
    return np.append(True, ~same | (column[1:] != column[:-1]))[: len(row)]


def _in_turns(first: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The places *found* of the terms of each entry, one below the other, else -1; *first*: where an entry begins."""
    number = np.cumsum(first) - 1  # of the entry that a term belongs to
    turn = np.arange(len(first)) - np.flatnonzero(first)[number]
    places = np.full((int(turn.max(initial=0)) + 1, int(first.sum())), -1, found.dtype)
    places[turn, number] = found
    return places


def dense_program(nodes: Sequence[Node], outputs: Sequence[Atom], wrt: Sequence[Var]) -> SparseProgram:
    """The Jacobian of *outputs* in full: a product for each column, or for each row."""
    shape = (sum([x.aval.size for x in outputs]), sum([v.aval.size for v in wrt]))
    indptr = np.arange(shape[0] + 1, dtype=np.int32) * np.int32(shape[1])
    pattern = Pattern(shape, indptr, np.tile(np.arange(shape[1], dtype=np.int32), shape[0]))
    rows, columns = pattern.rows.astype(np.int64), pattern.indices.astype(np.int64)
    if shape[0] * REVERSE_COST < shape[1]:
        coloring = Coloring(shape[0], np.arange(shape[0]), columns, rows)
        return SparseProgram(pattern, "reverse", coloring, nodes, outputs, wrt, (rows * shape[1] + columns)[None])
    coloring = Coloring(shape[1], np.arange(shape[1]), rows, columns)
    return SparseProgram(pattern, "forward", coloring, nodes, outputs, wrt, (columns * shape[0] + rows)[None])


def _taken(local: Pattern, origin: np.ndarray) -> tuple[np.ndarray, Any]:
    """For each row r the entries of row ``origin[r]`` of *local*; none for -1: (rows, an index of the entries)."""
    if np.array_equal(origin, np.arange(local.shape[0])):
        return local.rows, slice(None)
    counts = np.where(origin >= 0, np.append(np.diff(local.indptr), 0)[origin], 0)
    starts = np.append(local.indptr[:-1], 0)[origin]
    ends = np.cumsum(counts)
    row = np.repeat(np.arange(len(origin)), counts)
    return row, np.repeat(starts - (ends - counts), counts) + np.arange(len(row))
