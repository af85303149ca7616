"""The examples: each runs on a small problem and says OK; those with pictures in a process of their own."""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tracegrad import autograd

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


@pytest.mark.slow
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


# What ADBench's own unit tests expect of bundle adjustment (test/python/modules/common/ba_tests.py, Microsoft, MIT
# licence): the errors of one observation, and the rows of its Jacobian in the camera, the point and the weight.  Its
# test.txt is not published as a text of its own; these inputs of six digits, up to shifts of which nothing depends, are
# the only ones with these 32 numbers.
ADBENCH_CAMERA = [1.79720100, 0.590697, -0.635786, 0, 0, 0, 211.628116, 525.388318, -176.574853, 0.058931, 0.069976]
ADBENCH_POINT, ADBENCH_WEIGHT = [-86.686502, -23.774517, -27.373665], 0.417022
ADBENCH_ERRORS = [-2.69048849235189402e-01, 2.59944792677901881e-01, 8.26092651515999976e-01]
ADBENCH_ROWS = [
    [
        2.28877202208246757e02, 6.34574811495545418e02, -7.82222866259340549e02, 2.42892615607159668e00,
        -1.17828079628011313e01, 2.54169312487743460e00, -1.03657084958518086e00, 4.17022e-01, 0.0,
        -3.50739521096005205e02, -9.12107773668008576e02, -2.42892615607159668e00, 1.17828079628011313e01,
        -2.54169312487743460e00, -6.45167039712987389e-01,
    ], [
        -1.20542435994996879e02, -3.85673240766460424e02, 9.75476291403326456e01, -1.78372108529576567e00,
        4.15466799433126077e00, 2.04025718029898906e00, 3.49176397433145880e-01, 0.0, 4.17022e-01,
        1.18149147704414503e02, 3.07250108960343255e02, 1.78372108529576567e00, -4.15466799433126077e00,
        -2.04025718029898906e00, 6.23335921553064054e-01,
    ],
]  # fmt: skip


@pytest.mark.slow
def test_bundle_adjustment_is_that_of_adbench(adbench):
    ba, n, m, p = adbench("ba"), 2, 10, 10
    unknowns = np.concatenate([np.tile(ADBENCH_CAMERA, n), np.tile(ADBENCH_POINT, m), np.full(p, ADBENCH_WEIGHT)])
    observed, features = np.stack([np.arange(p) % n, np.arange(p) % m], axis=1), np.zeros((p, 2))
    errors = ba.of_unknowns(unknowns, n, m, observed, features)
    np.testing.assert_allclose(errors, [*ADBENCH_ERRORS[:2] * p, *ADBENCH_ERRORS[2:] * p], rtol=1e-6)
    found = autograd.sparse_jacobian(ba.of_unknowns)(unknowns, n, m, observed, features)
    expected = np.zeros((3 * p, len(unknowns)))
    for k, (camera, point) in enumerate(observed):
        columns = [*range(11 * camera, 11 * camera + 11), *range(22 + 3 * point, 25 + 3 * point), 52 + k]
        expected[2 * k : 2 * k + 2, columns] = ADBENCH_ROWS
        expected[2 * p + k, 52 + k] = -2 * ADBENCH_WEIGHT
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-8, atol=1e-8)
    assert found.nnz == np.count_nonzero(expected)  # 290: ADBench stores two zeros for each observation


@with_pictures
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("eager_*.py")))
def test_example_runs(name, tmp_path):
    run(name, tmp_path)


@with_pictures
@pytest.mark.slow
def test_the_network_trains_eagerly_too(tmp_path):
    assert " eager: " in run("eager_digits_cnn", tmp_path, "--eager")
