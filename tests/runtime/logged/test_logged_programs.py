"""Random programs whose runs are logged (``runtime/logged``): as plain Python, call after call, while what they read
changes in between."""

from __future__ import annotations

import alias_programs
import effect_state_programs
import pytest
import state_programs
from selection import seeds

from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.runtime.logged.record import Logged

FIRST = 401_000_000
EFFECTS, STATES, ALIASES = 10, 50, 5  # programs of a test


@pytest.fixture(autouse=True)
def closed(monkeypatch):
    """The number of runs whose log was closed."""
    record, found = Logged.record, [0]

    def counted(self, *args, **kwargs):
        recorded = record(self, *args, **kwargs)
        found[0] += recorded is not None
        return recorded

    monkeypatch.setattr(Logged, "record", counted)
    yield found
    kernels.clear()


@pytest.mark.parametrize("start", seeds(100, quick=20, block=EFFECTS))
def test_effects_on_state(start, closed):
    for seed in range(FIRST + start, FIRST + start + EFFECTS):
        case = effect_state_programs.program(seed)
        verdict = effect_state_programs.quietly(case)
        if verdict.failed:
            pytest.fail(f"seed {seed}: {verdict.kind}: {verdict.text}\n{case.text}", pytrace=False)
    assert closed[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", seeds(500, quick=100, block=STATES))
def test_reads_of_what_changes(start, closed):
    cases = [state_programs.program(seed) for seed in range(FIRST + start, FIRST + start + STATES)]
    for case in filter(None, cases):
        verdict = state_programs.judge(case)
        if verdict.found:
            pytest.fail(f"seed {case.seed}: {verdict.found}\n{case.text}", pytrace=False)
    assert closed[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", seeds(50, quick=10, block=ALIASES))
def test_objects_that_are_reached_by_several_ways(start):
    for seed in range(FIRST + start, FIRST + start + ALIASES):
        case = alias_programs.program(seed)
        if found := alias_programs.judge(case):
            pytest.fail(f"seed {seed}: {found}\n{case.text}", pytrace=False)
