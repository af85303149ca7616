"""Random programs that read something outside, which is changed between calls: as plain Python, call after call.

``state_programs.py`` writes and judges them, and hunts from the command line.
"""

from __future__ import annotations

import pytest
from selection import seeds
from state_programs import OBJECTS, judge, program

from tracegrad.runtime.recent import Recent
from tracegrad.runtime.state.snapshot import Snapshot
from tracegrad.runtime.stored import sent_functions

BLOCK = 20


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", seeds(200, quick=60, block=BLOCK))
def test_state_programs(start):
    for seed in range(start, start + BLOCK):
        case = program(seed)
        verdict = judge(case)
        if verdict.found:
            pytest.fail(f"seed {seed}: {verdict.found}\n{case.text}", pytrace=False)


# ---- the tools themselves ------------------------------------------------------------------------------------------


def test_programs_are_varied():
    cases = [program(seed) for seed in range(300)]
    assert len({case.kind for case in cases}) > 0.9 * len(OBJECTS)
    assert len({case.source for case in cases}) > 280


def test_a_seed_is_a_program():
    assert program(3).text == program(3).text != program(4).text


def test_a_stale_value_is_found(monkeypatch):
    """With no check of the state at all, the judge finds what is stale."""
    tested = Snapshot.tested

    def unchecked(self, lines, otherwise):
        return [line.replace(f": return {otherwise}", ": pass") for line in tested(self, lines, otherwise)]

    monkeypatch.setattr(Snapshot, "tested", unchecked)
    monkeypatch.setattr(sent_functions, "_homes", Recent(lambda: 128))  # which copies of these programs would find
    assert any(judge(program(seed)).found for seed in range(40))
