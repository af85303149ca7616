"""Sums over chunks of Dask's data: in this process, and on two worker processes (``dask_checks.py``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask_checks import CHECKS, PARAMS, arrays, loss

from tracegrad.dask import ChunkedLoss

ROOT = Path(__file__).resolve().parents[2]
dask = pytest.importorskip("dask", reason="Dask is not installed")
pytest.importorskip("dask.array", reason="Dask is not installed")


def test_trees_have_the_shape_of_their_number() -> None:
    a, b, c, d, e, f, g = values = list(np.random.default_rng(0).normal(size=7) * 1e8)
    total = ChunkedLoss(lambda p, v: v * p, values)
    assert total(1.0) == ((a + b) + (c + d)) + ((e + f) + g)
    assert total.grad(1.0) == total(1.0)


def test_what_is_refused() -> None:
    x, y = arrays()
    with pytest.raises(ValueError, match="data in 8, 9 chunks"):
        ChunkedLoss(loss, x, y.rechunk(100))
    with pytest.raises(ValueError, match=r"chunks of \(101, .*use x.rechunk"):
        ChunkedLoss(loss, x, y.rechunk(((100, 102, *[101] * 5, 94),)))
    with pytest.raises(ValueError, match="cut along other axes"):
        ChunkedLoss(loss, x.rechunk((101, 2)), y)
    with pytest.raises(ValueError, match="no chunks"):
        ChunkedLoss(loss)
    assert PARAMS


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How each check went, on a cluster of its own process with an empty cache."""
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    folder = tmp_path_factory.mktemp("dask")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    env = os.environ | {"PYTHONPATH": paths, "TRACEGRAD_CACHE_DIR": str(folder / "cache"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "tests" / "support" / "dask_checks.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return dict([line.split(" ", 1) for line in done.stdout.splitlines()])


@pytest.mark.slow
@pytest.mark.parametrize("check", [check.__name__ for check in CHECKS])
def test_on_two_workers(check: str, outcomes: dict[str, Any]) -> None:
    assert outcomes[check] == "right", outcomes[check].replace("\\n", "\n")
