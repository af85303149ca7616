"""Files of the cache that are damaged, cut off, taken away or can't be written, from end to end: what is computed is
right, and the files are made anew."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selection import TIMES

from tracegrad import compile_grad
from tracegrad.runtime.config import config
from tracegrad.runtime.disk import programs
from tracegrad.runtime.disk.store import BadFileError, CacheWarning, store, unpacked
from tracegrad.runtime.launch.kernel_cache import kernels

ROOT = Path(__file__).resolve().parents[3]
X = np.array([0.3, -1.2, 2.0])
MATRIX = np.arange(9.0).reshape(3, 3)


def another() -> Any:
    """The same function as in another process, where no kernel is known."""
    kernels.clear()
    return compile_grad(lambda x: np.sum(np.log1p(np.exp(MATRIX @ x))) + np.sum(np.sin(x)))


def right(f: Any) -> None:
    value, gradient = f.value_and_grad(X)
    logits = MATRIX @ X
    np.testing.assert_allclose(value, np.sum(np.log1p(np.exp(logits))) + np.sum(np.sin(X)), rtol=1e-13)
    np.testing.assert_allclose(gradient, MATRIX.T @ (1 / (1 + np.exp(-logits))) + np.cos(X), rtol=1e-13)


@pytest.fixture
def files(tmp_path, monkeypatch) -> dict[str, Path]:
    """The plan and the kernel of a function, kept by two calls."""
    for name, value in (("cache", True), ("cache_recordings", True), ("cache_dir", str(tmp_path / "cache"))):
        monkeypatch.setattr(config, name, value)
    monkeypatch.setattr(kernels, "_compile", programs.program_of)
    f = another()
    right(f), right(f)
    found = {path.name.partition("-")[0]: path for path in (tmp_path / "cache").glob("*-*")}
    assert found.keys() >= {"plan", "kernel"} and not f.stats.not_kept
    return {kind: found[kind] for kind in ("plan", "kernel")}


def test_each_byte_and_each_length_of_real_files(files):
    for path in files.values():
        content = path.read_bytes()
        unpacked(content)
        for k in range(len(content)):
            for damaged in (content[:k], content[:k] + bytes([content[k] ^ 1 << k % 8]) + content[k + 1 :]):
                with pytest.raises((BadFileError, UnicodeDecodeError)):
                    unpacked(damaged)


def damages(count: int, length: int) -> list[tuple[int, bool]]:
    """(place, whether the file ends there) for the bytes of its head, and for others at random."""
    rng = random.Random(0)
    places = [*range(0, 80, max(1, 160 // count)), *(rng.randrange(length) for _ in range(count))]
    return list(zip(places, itertools.cycle((True, False)), strict=False))


@pytest.mark.parametrize(
    "count", [pytest.param(4, id="some"), pytest.param(30 * TIMES, id="many", marks=pytest.mark.slow)]
)
def test_calls_with_damaged_files(files, count):
    for kind, path in files.items():
        content = path.read_bytes()
        for place, cut in damages(count, len(content)):
            rest = b"" if cut else bytes([content[place] ^ 0x55]) + content[place + 1 :]
            path.write_bytes(content[:place] + rest)
            if kind == "kernel":
                files["plan"].unlink(missing_ok=True)
            f = another()
            right(f)
            assert f.stats.from_disk == 0 and f.stats.traces == 1
            right(f)
            assert [store.check(str(entry.path)) for entry in store.entries()] == [None] * len(store.entries())
            assert path.read_bytes() == content, (kind, place)
    right(f := another())
    assert f.stats.from_disk == 1


def test_files_of_one_kind_under_the_name_of_another(files):
    """As a file system that was repaired may have them."""
    plan, kernel = files["plan"].read_bytes(), files["kernel"].read_bytes()
    files["plan"].write_bytes(kernel), files["kernel"].write_bytes(plan)
    right(f := another())
    right(f)
    assert f.stats.from_disk == 0 and f.stats.traces == 1


def test_a_directory_that_vanishes_between_any_two_calls(files):
    directory = files["plan"].parent
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            f = another()
            for _ in range(3):
                shutil.rmtree(directory, ignore_errors=True)
                right(f)
            right(another())


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_is_read_only(files):
    directory = files["plan"].parent
    files["kernel"].unlink(), files["plan"].unlink()
    directory.chmod(0o500)
    try:
        with pytest.warns(CacheWarning, match="can't be written"):
            right(f := another())
            right(f)
    finally:
        directory.chmod(0o700)


FULL = """
import resource, signal, sys, warnings
import numpy as np
from tracegrad import compile_grad
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for k in range(3):
        f = compile_grad(lambda x: np.sum(np.sin(x)) * k)
        for _ in range(3):
            value, gradient = f.value_and_grad(np.ones(3))
            assert np.isclose(value, 3 * np.sin(1) * k) and np.allclose(gradient, np.cos(1) * k)
print(*sorted({w.category.__name__ for w in told}), len(told))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limit of the size of files")
@pytest.mark.parametrize("size", [0, 2000])
def test_files_that_cannot_grow(tmp_path, size):
    """As on a full disk: one warning, no file that is not whole, right answers."""
    environment = {**os.environ, "TRACEGRAD_CACHE": "1", "TRACEGRAD_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(size)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("CacheWarning 1\n", "")
    assert not list(tmp_path.glob("writing-*"))
