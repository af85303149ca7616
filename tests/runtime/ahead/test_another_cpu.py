"""Another processor, by qemu: files and caches of this one are not run there, and results are right."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tracegrad.runtime.disk import generation

QEMU = shutil.which("qemu-x86_64")
OTHER = pytest.mark.skipif(
    QEMU is None or sys.platform != "linux" or platform.machine() != "x86_64",
    reason="no qemu-x86_64 (Debian's qemu-user), which runs this as an older processor",
)
AS_NEHALEM = [QEMU, "-cpu", "Nehalem"]  # of x86-64-v2, as NumPy's wheels ask for: no AVX

SOURCE = """
import sys
import numpy as np
import tracegrad

@tracegrad.compile_grad
def loss(w, X):
    return np.mean(np.log1p(np.exp(-(X @ w)))) + np.sum(np.tanh(w))

args = np.linspace(-1, 1, 5), np.linspace(0, 1, 35).reshape(7, 5) ** 2

def shown(f):
    value, gradient = f.value_and_grad(*args)
    print(np.append(gradient, value).tobytes().hex())
"""
HERE = "loss.export('loss.tgz', *args); shown(loss)"
THERE = "loaded = tracegrad.load('loss.tgz'); print(loaded.call('value_and_grad').kernel); shown(loaded); shown(loss)"


@pytest.mark.slow
@OTHER
def test_an_older_processor_with_the_files_of_this_one(tmp_path):
    """It has what was exported here, and this processor's cache: it compiles anew, with its own bits."""

    def run(program, *machine):
        variables = {**os.environ, "TRACEGRAD_CACHE_DIR": str(tmp_path / "cache"), "TRACEGRAD_CACHE": "1"}
        command = [*machine, sys.executable, "-c", SOURCE + program]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    (here,) = run(HERE)
    kept = set(os.listdir(tmp_path / "cache"))
    kernel, loaded, recorded = run(THERE, *AS_NEHALEM)
    assert kernel == "None", "the kernel in the file is for another processor"
    assert loaded == recorded
    assert np.allclose(*[np.frombuffer(bytes.fromhex(x)) for x in (loaded, here)], rtol=1e-14, atol=0)
    assert {x.partition("-")[0] for x in set(os.listdir(tmp_path / "cache")) - kept} >= {"kernel"}
    assert run(HERE) == [here]


def test_kernels_are_kept_for_the_processor_that_numpy_has_found(monkeypatch):
    """An emulator shows another processor's /proc/cpuinfo."""
    here = generation._machine()
    features = sys.modules["numpy._core._multiarray_umath"].__cpu_features__
    features = {name: not has for name, has in features.items()}
    monkeypatch.setattr("numpy._core._multiarray_umath.__cpu_features__", features)
    assert generation._machine() != here
