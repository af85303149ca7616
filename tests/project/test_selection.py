"""Cases that stand for all combinations."""

from __future__ import annotations

import itertools

import pytest
import selection


@pytest.mark.parametrize("sizes", [(2,), (3, 4), (4, 4, 4), (8, 7, 2), (2, 5, 3, 3)], ids=str)
def test_any_two_values_come_together(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    axes = [[f"{axis}{k}" for k in range(size)] for axis, size in zip("abcd", sizes, strict=False)]
    every = set(itertools.product(*axes))
    monkeypatch.setattr(selection, "TIMES", 1)
    found = selection.pairs(*axes)
    assert len(found) == len(set(found)) and set(found) <= every
    assert set(itertools.chain(*found)) == set(itertools.chain(*axes))
    for one, other in itertools.combinations(axes, 2):
        assert {(a, b) for a in one for b in other} <= {p for case in found for p in itertools.permutations(case, 2)}
    assert len(sizes) < 3 or len(found) < len(every)
    monkeypatch.setattr(selection, "TIMES", 20)
    assert set(selection.pairs(*axes)) == every
