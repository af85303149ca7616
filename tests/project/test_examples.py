"""The examples: each runs in a process of its own, on a small problem, says OK and leaves its picture."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MISSING = [name for name in ("matplotlib", "rich", "sklearn") if importlib.util.find_spec(name) is None]

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: pip install '.[examples]'")


def run(name, folder, *options):
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--quick", "--out", str(folder), *options]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MPLCONFIGDIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("OK: ")
    assert (folder / f"{name}.png").stat().st_size > 5000
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("eager_*.py")))
def test_example_runs(name, tmp_path):
    run(name, tmp_path)


@pytest.mark.slow
def test_the_network_trains_eagerly_too(tmp_path):
    assert " eager: " in run("eager_digits_cnn", tmp_path, "--eager")
