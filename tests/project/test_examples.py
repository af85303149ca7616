"""The examples: each runs on a small problem and says OK; those with pictures in a process of their own."""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MISSING = [name for name in ("matplotlib", "rich", "sklearn") if importlib.util.find_spec(name) is None]

with_pictures = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: pip install '.[examples]'")


def run(name, folder, *options):
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--quick", "--out", str(folder), *options]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MPLCONFIGDIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("OK: ")
    assert (folder / f"{name}.png").stat().st_size > 5000
    return done.stdout


@pytest.fixture
def adbench(monkeypatch):
    """Its modules by name."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return lambda name: importlib.import_module(f"adbench.{name}")


@pytest.mark.parametrize("name", ["gmm", "ba", "lstm", pytest.param("hand", marks=pytest.mark.slow)])
def test_adbench_derivatives_are_right(name, adbench, capsys):
    assert adbench(name).main() == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("OK: ")


def test_adbench_files_are_those_that_are_generated(adbench, monkeypatch, tmp_path):
    generate = adbench("generate")
    monkeypatch.setattr(generate, "DATA", tmp_path)
    generate.write()
    for file in (EXAMPLES / "adbench" / "data").rglob("*.txt"):
        made = (tmp_path / file.relative_to(EXAMPLES / "adbench" / "data")).read_text(encoding="utf-8")
        assert made == file.read_text(encoding="utf-8"), file.name
    hand = adbench("hand")
    read = hand.read_model(tmp_path / "hand_model")
    for got, want in zip(read, generate.hand_model(digits=5), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-9)


@with_pictures
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("eager_*.py")))
def test_example_runs(name, tmp_path):
    run(name, tmp_path)


@with_pictures
@pytest.mark.slow
def test_the_network_trains_eagerly_too(tmp_path):
    assert " eager: " in run("eager_digits_cnn", tmp_path, "--eager")
