"""Libraries that ask arrays for their namespace take Tensors: SciPy, scikit-learn, array_api_compat."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("consumer_programs.py")
NEEDS = {"scipy": "scipy", "sklearn": "sklearn", "compat": "array_api_compat"}


@pytest.mark.slow
@pytest.mark.parametrize("which", NEEDS)
def test_consumers(which: str) -> None:
    pytest.importorskip(NEEDS[which])
    done = subprocess.run([sys.executable, PROGRAMS, which], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]
