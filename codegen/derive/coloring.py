"""Colourings: columns of a sparse matrix that one product with a vector tells apart.

- ``columns_colored``: columns of one colour have no row in common (a partial distance-2 colouring of the bipartite
  graph), so that each entry stands alone in a compressed product (Curtis, Powell and Reid 1974; Coleman and Moré 1983).
- ``star_colored``: of a symmetric matrix, whose entry (i, j) may be read as (j, i) too.  Neighbours have different
  colours, and no path of four vertices has two alone (Gebremedhin, Manne and Pothen, "What color is your Jacobian?",
  2005): the vertices of any two colours are stars, whose hub the entry is read from.

Both are greedy, the vertices with most neighbours first.  Sets of colours are the bits of Python's integers: a vertex
asks its rows (neighbours) for the colours that they have seen, so the work is in proportion to the entries, however
long a row is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .sparsity import Pattern


@dataclass(slots=True, eq=False)
class Coloring:
    """A colour for each column, and where each entry of the pattern is found: in row ``rows[k]`` of the product with
    the seed of colour ``colors[k]``."""

    count: int
    of_column: np.ndarray
    rows: np.ndarray
    colors: np.ndarray


def columns_colored(pattern: Pattern, most: int) -> Coloring | None:
    """Column colours for forward mode; None where more than *most* are needed."""
    counts = np.diff(pattern.indptr)
    if counts.max(initial=0) > most:  # the columns of a row all differ
        return None
    found = _columns(*transposed(pattern.indptr, pattern.indices, pattern.shape[1]), len(counts), most)
    if found is None:
        return None
    return Coloring(int(found.max(initial=-1)) + 1, found, pattern.rows, found[pattern.indices])


def rows_colored(pattern: Pattern, most: int) -> Coloring | None:
    """Row colours for reverse mode, as column colours of the transpose: entry k is in element ``rows[k]`` of the
    product from the left with the seed of colour ``colors[k]``."""
    if pattern.nnz > most and np.bincount(pattern.indices).max(initial=0) > most:
        return None
    found = _columns(pattern.indptr, pattern.indices, pattern.shape[1], most)
    if found is None:
        return None
    colors = np.repeat(found.astype(pattern.indices.dtype), np.diff(pattern.indptr))
    return Coloring(int(found.max(initial=-1)) + 1, found, pattern.indices, colors)


def transposed(indptr: np.ndarray, indices: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The structure of the transpose."""
    order = np.argsort(indices, kind="stable")
    rows = np.repeat(np.arange(len(indptr) - 1, dtype=indices.dtype), np.diff(indptr))
    return np.concatenate([[0], np.cumsum(np.bincount(indices, minlength=columns))]), rows[order]


def _columns(starts: np.ndarray, rows: np.ndarray, count: int, most: int) -> np.ndarray | None:
    """The colour of each column, of which *rows* are those from ``starts[k]`` on, of *count*."""
    best: np.ndarray | None = None
    orders = [np.argsort(-np.diff(starts), kind="stable"), np.arange(len(starts) - 1)]
    for order in orders[: 1 if len(rows) > _LONG else 2]:
        found = _greedy(starts, rows, order, count)
        if best is None or found.max(initial=-1) < best.max(initial=-1):
            best = found
    assert best is not None
    return best if best.max(initial=-1) < most else None


_LONG = 100_000  # entries, from which on one order is tried
_FEW = 5_000  # entries, up to which Python has the colours before LLVM has the machine code
# (columns, stars): the same in machine code, where 64 colours are enough
compiled: list[tuple[Callable[..., Any], Callable[..., Any]]] = []


def _greedy(starts: np.ndarray, rows: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    bits = compiled[0][0](starts, rows, order, count) if compiled and len(rows) > _FEW else None
    if bits is not None:
        return _numbers(bits)
    return _greedy_columns(starts.tolist(), rows.tolist(), order.tolist(), count)


def _numbers(bits: np.ndarray) -> np.ndarray:
    """The number of the one bit in each word."""
    return np.bitwise_count((bits - 1).view(np.uint64)).astype(np.int64)


def _greedy_columns(starts: Sequence[int], rows: Sequence[int], order: Sequence[int], count: int) -> np.ndarray:
    seen, found = [0] * count, [0] * (len(starts) - 1)
    for v in order:
        own = rows[starts[v] : starts[v + 1]]
        taken = 0
        for r in own:
            taken |= seen[r]
        bit = ~taken & (taken + 1)
        for r in own:
            seen[r] |= bit
        found[v] = bit.bit_length() - 1
    return np.array(found, np.int64)


def star_colored(pattern: Pattern, most: int) -> Coloring | None:
    """Colours of a symmetric matrix; None where more than *most* are needed."""
    size = pattern.shape[0]
    off = pattern.rows != pattern.indices
    rows, columns = pattern.rows[off], pattern.indices[off]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=size))])
    order = np.argsort(-np.diff(indptr), kind="stable")
    words = compiled[0][1](indptr, columns, order) if compiled and len(columns) > _FEW else None
    twice: list[int] | np.ndarray
    if words is None:
        found, twice = _greedy_stars(indptr.tolist(), columns.tolist(), order.tolist())
    else:
        found, twice = _numbers(words[0]), words[1]
    count = int(found.max(initial=-1)) + 1
    plain = columns_colored(pattern, min(most, count - 1))
    if plain is not None or count > most:
        return plain
    # entry (i, j) is alone in row i, unless another neighbour of i has the colour of j: then i is the hub
    if isinstance(twice, list):
        hub = np.array([[bool(bits >> k & 1) for k in range(count)] for bits in twice], bool).reshape(size, count)
    else:
        hub = (twice[:, None] >> np.arange(count) & 1).astype(bool)
    i, j = pattern.rows, pattern.indices
    turned = hub[i, found[j]] & (i != j)
    return Coloring(count, found, np.where(turned, j, i), np.where(turned, found[i], found[j]))


def _greedy_stars(starts: Sequence[int], columns: Sequence[int], order: Sequence[int]) -> tuple[np.ndarray, list[int]]:
    """(the colour of each vertex, the colours that two or more of its neighbours have)"""
    count = len(starts) - 1
    mine = [0] * count  # its colour, as a bit; 0: none yet
    once, twice = [0] * count, [0] * count  # colours of one or more, and of two or more of the neighbours
    hubs = [0] * count  # colours of the neighbours that are hubs of a star which it belongs to
    for v in order:
        around = columns[starts[v] : starts[v + 1]]
        taken, several = 0, twice[v]
        for w in around:
            color = mine[w]
            taken |= color
            taken |= once[w] if not color or color & several else hubs[w]
        bit = ~taken & (taken + 1)
        mine[v] = bit
        for w in around:
            color = mine[w]
            if once[w] & bit:
                if color and not twice[w] & bit:  # w becomes a hub
                    for y in columns[starts[w] : starts[w + 1]]:
                        if mine[y] == bit:
                            hubs[y] |= color
                twice[w] |= bit
                hubs[v] |= color
            else:
                once[w] |= bit
            if color & several:  # v is a hub
                hubs[w] |= bit
    return np.array([bit.bit_length() - 1 for bit in mine], np.int64), twice
