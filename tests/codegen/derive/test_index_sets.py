"""Index sets are the sets of Python's that they stand for, however they are held."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad.codegen.derive.index_sets import (
    IndexSets,
    RegularSets,
    RowNumbers,
    as_csr,
    numbers,
    stacked,
    taken_from,
    union,
)


def as_sets(found: IndexSets) -> list[set[int]]:
    ragged = found.ragged()
    assert ragged.indptr is not None
    return [set(ragged.indices[i:j].tolist()) for i, j in zip(ragged.indptr[:-1], ragged.indptr[1:], strict=True)]


@pytest.mark.parametrize("rows", [0, 1, 7, 5_000])  # of many rows a hash looks at some
@pytest.mark.parametrize("held", ["array", "rows"])
def test_unions_of_sets_that_have_much_in_common(rows, held):
    rng = np.random.default_rng(rows)
    columns = [rng.integers(-1, 40, rows).astype(np.int32) for _ in range(6)]
    columns.append(columns[0].copy())
    columns[-1][rows // 2 + 1 :: 1_000] = 40  # alike but for a few
    sets = [IndexSets(np.stack([columns[k] for k in rng.integers(0, 7, width)], axis=1)) for width in (1, 3, 5, 2, 6)]
    wanted = [set().union(*[s.indices[i][s.indices[i] >= 0].tolist() for s in sets]) for i in range(rows)]
    found = union(sets if held == "array" else [sets[0].ragged(), *sets[1:]])
    assert as_sets(found) == wanted
    assert as_sets(found.distinct()) == wanted


@pytest.mark.parametrize(
    "rows", [[2], [1, 3, 5, 7], [0, 1, 2], [3, 3, 3], [5, 3, 1], [0, 2, 3, 6], [-1, 0, 1], [2, 4, -1], []]
)
def test_rows_that_are_taken(rows):
    sets = IndexSets(np.arange(16, dtype=np.int32).reshape(8, 2))
    wanted = [set() if k < 0 else {2 * k, 2 * k + 1} for k in rows]
    assert as_sets(sets.taken(np.array(rows, np.int64))) == wanted
    assert as_sets(sets.ragged().taken(np.array(rows, np.int64))) == wanted


def laid_out(sets: IndexSets) -> IndexSets:
    return IndexSets(sets.indices.copy())


def regular(turns: int, seed: int, rows: int = 3, width: int = 4) -> RegularSets:
    """Rows of numbers that go on by steps of their own, some of them none, some twice in a row."""
    rng = np.random.default_rng(seed)
    base, steps = rng.integers(-1, 30, (rows, width)), rng.integers(0, 4, (rows, width))
    base[:, 2], steps[:, 2] = base[:, 0], steps[:, 0]
    steps[base < 0] = 0
    return RegularSets(base, steps, turns)


@pytest.mark.parametrize("seed", range(8))
def test_regular_sets_are_those_that_are_written_out(seed):
    sets, other = regular(300, seed), regular(900, seed + 100, rows=1)
    plain, many = laid_out(sets), regular(300, seed + 200, width=12)
    assert len(sets) == len(plain) == 900 and sets == plain and hash(sets) == hash(plain)
    for rows in (
        np.arange(900), np.arange(300) * 3 + 1, np.tile([4, -1], 300), np.arange(900)[::-1], np.arange(1, 900),
        np.arange(900).reshape(300, 3)[:, [2, 0, 0]].reshape(-1), np.random.default_rng(seed).integers(-1, 900, 700),
        np.arange(300) * 3 - 3, np.repeat(np.arange(300), 6), np.append(np.arange(0, 897, 3), -1), np.arange(0),
    ):  # fmt: skip
        wanted = as_sets(plain.taken(rows))
        for turns in (1, 300, 900):
            assert as_sets(sets.taken(RowNumbers(rows, turns))) == wanted
    assert isinstance(sets.taken(np.arange(900)), RegularSets)
    for group in (1, 3, 9):
        rows = RowNumbers(np.arange(900), 300)
        assert as_sets(sets.grouped(rows, 900 // group)) == as_sets(plain.grouped(rows, 900 // group))
    for found in ([sets, other], [sets, other, many], [sets, laid_out(other)]):
        assert as_sets(union(found)) == as_sets(union([laid_out(s) for s in found]))
    for found in (sets, other, many):
        assert as_sets(found.distinct()) == as_sets(laid_out(found).distinct())
        indptr, indices = as_csr([found], 5_000)
        assert all(
            np.array_equal(a, b) for a, b in zip((indptr, indices), as_csr([laid_out(found)], 5_000), strict=True)
        )
    for rows in (np.array([[0, 900]]) + np.arange(300)[:, None] * 3, np.array([[899, 5]]) + np.arange(300)[:, None]):
        taken = taken_from([sets, regular(300, seed + 300)], RowNumbers(rows.reshape(-1), 300))
        assert as_sets(taken) == as_sets(stacked([plain, laid_out(regular(300, seed + 300))]).taken(rows.reshape(-1)))


def test_sets_of_a_program_that_does_the_same_for_each_row_are_held_once():
    sets = numbers(3_000).taken(RowNumbers(np.arange(3_000).reshape(1_000, 3)[:, 1:].reshape(-1), 1_000))
    assert isinstance(sets, RegularSets) and sets.base.shape == (2, 1)
    assert as_sets(sets)[2:4] == [{4}, {5}]
