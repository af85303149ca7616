"""Other platforms, as far as they can be played here: without libmvec, the loader of ELF files, glibc and /proc.

A program runs in two processes, one of which is told that it is elsewhere before it imports tracegrad; both have to
give what NumPy gives, and each other's gradients.  docs/platforms.md lists what is different.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = """
import builtins, ctypes, os, platform, sys
import numba, llvmlite.binding as llvm, numpy as np, scipy.linalg, scipy.special, scipy.optimize, optree, platformdirs
import logging, multiprocessing, subprocess, asyncio, tempfile, warnings  # which ask for the platform themselves

name, target, cache = sys.argv[1:]
if name:
    def without(function, missing, error):
        def call(first, *args, **kwargs):
            if any(part in str(first) for part in missing):
                raise error(first)
            return function(first, *args, **kwargs)
        return call

    sys.platform = name
    platform.machine = lambda: "arm64"
    llvm.load_library_permanently = without(llvm.load_library_permanently, ["libmvec"], RuntimeError)
    ctypes.CDLL = without(ctypes.CDLL, ["libm.so", "libmvec"], OSError)
    builtins.open = without(open, ["/proc/"], FileNotFoundError)
    del os.confstr_names["CS_GNU_LIBC_VERSION"]
    if name == "win32":
        del os.sysconf, os.register_at_fork
os.environ["TRACEGRAD_CACHE_DIR"] = cache

import tracegrad
from tracegrad import compile_grad
from tracegrad.codegen.cpu import elf, vecmath

assert (vecmath.variant("exp") is None) == bool(name) or sys.platform != "linux"
assert elf._HERE != bool(name)
x = np.linspace(0.05, 0.95, 37)
A = np.eye(5) * 3 + np.arange(25.0).reshape(5, 5) / 25

def smooth(x):
    y = np.sin(x) * np.exp(-x) + np.log(x) + np.tanh(x) + np.arctan2(x, 2.0) + x ** 1.7 + scipy.special.erf(x)
    return np.max(np.exp2(x)) + np.sum(y) / len(x)

def loops(x):
    v = x
    for _ in range(200):
        v = v - 0.01 * np.sin(v) * np.exp(-v)
    k, s = 0, x[0]
    while s < 40.0:
        s, k = s * 1.3 + np.exp(-s), k + 1
    return np.sum(v) + s

def algebra(x):
    L = np.linalg.cholesky(A @ A.T + np.eye(5) * x[0])
    return np.sum(np.linalg.solve(A, x[:5])) + np.sum(np.log(np.diag(L))) + np.sum(scipy.special.gammaln(x)) + x @ x

found = {}
for f in (smooth, loops, algebra):
    for dtype in (np.float64, np.float32) if f is smooth else (np.float64,):
        given = x.astype(dtype)
        compiled = compile_grad(f)
        for _ in range(3):
            value, grad = compiled.value_and_grad(given)
        np.testing.assert_allclose(value, f(given), rtol=1e-12 if dtype is np.float64 else 3e-5)
        found[f"{f.__name__} {np.dtype(dtype)}"] = np.append(grad, value)
np.savez(target, **found)
"""


def run(folder: Path, platform: str) -> dict[str, np.ndarray]:
    """The results of the program, with a cache in *folder*."""
    target = folder / f"{platform or 'here'}.npz"
    command = [sys.executable, "-c", PROGRAM, platform, str(target), str(folder / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(np.load(target))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """The cache of this platform, and what the program finds."""
    folder = tmp_path_factory.mktemp("here")
    return folder / "cache", run(folder, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["darwin", "win32"])
def test_a_program_on_another_platform(tmp_path: Path, here: tuple[Path, dict[str, np.ndarray]], name: str) -> None:
    cache, expected = here
    shutil.copytree(cache, tmp_path / "cache")
    found = run(tmp_path, name)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert value.dtype == found[key].dtype
        np.testing.assert_allclose(found[key], value, rtol=1e-13 if key.endswith("64") else 2e-6)
