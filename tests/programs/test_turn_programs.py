"""Random programs that go other ways in turn (``tests/support/turn_programs.py``)."""

from __future__ import annotations

import pytest
import turn_programs
from selection import seeds

from tracegrad.tracer.ir.settings import optimiser

BLOCK = 20


@pytest.mark.parametrize("first", seeds(200, quick=60, block=BLOCK))
@pytest.mark.filterwarnings("ignore:the loss that f:UserWarning")
def test_programs(first, monkeypatch):
    monkeypatch.setattr(optimiser, "level", 0)
    found = {seed: turn_programs.failure(seed) for seed in range(first, first + BLOCK)}
    assert not any(found.values()), {seed: said for seed, said in found.items() if said}
