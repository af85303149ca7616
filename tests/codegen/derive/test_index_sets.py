"""Index sets are the sets of Python's that they stand for, however they are held."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad.codegen.derive.index_sets import IndexSets, union


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
