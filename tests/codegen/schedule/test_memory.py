"""The memory plan: first fit, however many temporaries there are."""

from __future__ import annotations

import random

import pytest

from tracegrad.codegen.schedule import memory
from tracegrad.codegen.schedule.memory import Temporary, plan


def temporaries(seed):
    rng = random.Random(seed)
    firsts = [rng.randrange(20) for _ in range(rng.randrange(70))]
    sizes = [8, 64, 100, 1000, 5000]
    return [Temporary(str(k), (), rng.choice(sizes), f, f + rng.randrange(12)) for k, f in enumerate(firsts)]


@pytest.mark.parametrize("seed", range(40))
def test_many_temporaries_lie_where_few_would(seed, monkeypatch):
    found = temporaries(seed)
    monkeypatch.setattr(memory, "FEW", 1000)
    one_by_one = plan(found, [])
    monkeypatch.setattr(memory, "FEW", 0)
    assert plan(found, []) == one_by_one
    ends = [o + t.nbytes([]) for o, t in zip(one_by_one[0], found, strict=True)]
    assert one_by_one[1] == max(ends, default=0)
    for k, (t, o, e) in enumerate(zip(found, one_by_one[0], ends, strict=True)):
        for other, at, end in zip(found[:k], one_by_one[0], ends, strict=False):
            assert e <= at or end <= o or t.last < other.first or other.last < t.first


def test_each_of_many_is_compared_with_others_at_once(monkeypatch):
    compared = []
    place = memory._ManyPlaced.place
    monkeypatch.setattr(memory._ManyPlaced, "place", lambda self, t, need: compared.append(t) or place(self, t, need))
    found = [Temporary(str(k), (), 64, k, 1000 - k) for k in range(400)]
    assert plan(found, [])[1] == 400 * 64
    assert len(compared) == 400
