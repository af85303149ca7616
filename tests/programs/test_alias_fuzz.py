"""Random programs in which objects are reached by several ways, swapped, replaced, and stored in modules: as plain
Python, call after call.  ``alias_programs.py`` writes and judges them, and hunts from the command line.
"""

from __future__ import annotations

import pytest
from alias_programs import judge, program, runs
from selection import seeds
from worlds import MODES

from tracegrad.runtime.logged.expressions import ValueExpressions

BLOCK = 5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("start", seeds(70, quick=10, block=BLOCK))
def test_alias_programs(start, mode):
    for seed in range(start, start + BLOCK):
        case = program(seed)
        found = judge(case, mode)
        if found:
            pytest.fail(f"seed {seed}: {found}\n{case.text}", pytrace=False)


def test_most_programs_run():
    assert sum(runs(program(seed)) for seed in range(100)) > 70


def test_effects_in_the_wrong_place_are_found(monkeypatch):
    """Where an object is looked for after its place has got another, the judge says so."""
    found = ValueExpressions.taken_from
    monkeypatch.setattr(
        ValueExpressions, "taken_from", lambda self, way: (way.key, way.text) if len(way.key) > 2 else found(self, way)
    )

    def differs(seed):
        try:
            return judge(program(seed))
        except IndexError:  # of a place that is empty by then
            return True

    assert any(map(differs, range(60)))
