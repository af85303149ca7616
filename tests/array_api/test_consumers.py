"""Libraries that ask arrays for their namespace take Tensors: SciPy, scikit-learn, array_api_compat."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("consumer_programs.py")
NEEDS = {"scipy": "scipy", "sklearn": "sklearn", "compat": "array_api_compat"}


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """A line for each library that is installed: its name, and what went wrong."""
    installed = [which for which, package in NEEDS.items() if importlib.util.find_spec(package)]
    command = [sys.executable, PROGRAMS, *installed]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("which", NEEDS)
def test_consumers(which: str, lines: list[str]) -> None:
    pytest.importorskip(NEEDS[which])
    assert [line for line in lines if line.split(" | ")[0] == which] == [which]
