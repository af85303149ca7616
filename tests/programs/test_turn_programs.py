"""Random programs that go other ways in turn (``tests/support/turn_programs.py``)."""

from __future__ import annotations

import pytest
import turn_programs

from tracegrad.tracer.ir.settings import optimiser


@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=[] if first < 60 else [pytest.mark.slow]) for first in range(0, 300, 20)]
)
@pytest.mark.filterwarnings("ignore:the loss that f:UserWarning")
def test_programs(first, monkeypatch):
    monkeypatch.setattr(optimiser, "level", 0)
    found = {seed: turn_programs.failure(seed) for seed in range(first, first + 20)}
    assert not any(found.values()), {seed: said for seed, said in found.items() if said}
