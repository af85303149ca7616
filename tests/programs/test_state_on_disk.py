"""Random programs that read something outside, which is another in another process: no recording on disk is stale.

The programs are those of ``state_programs.py``.
"""

from __future__ import annotations

import pytest
from selection import seeds
from state_programs import judge_processes, program

from tracegrad.runtime.config import config

BLOCK = 10


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A directory for recordings, which is in use."""
    for name, value in (("cache", True), ("cache_recordings", True), ("cache_dir", str(tmp_path))):
        monkeypatch.setattr(config, name, value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", seeds(60, quick=10, block=BLOCK))
def test_state_programs_in_several_processes(start, tmp_path, monkeypatch):
    answered = 0
    for seed in range(start, start + BLOCK):
        monkeypatch.setattr(config, "cache_dir", str(tmp_path / str(seed)))
        case = program(seed)
        verdict = judge_processes(case)
        answered += sum(verdict.values)
        if verdict.found:
            pytest.fail(f"seed {seed}: {verdict.found}\n{case.text}", pytrace=False)
    assert answered
