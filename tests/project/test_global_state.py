"""A test that leaves state behind fails and says which (``global_state.py``); the next test finds it restored."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import global_state
import pytest

SUPPORT = Path(global_state.__file__).resolve().parent

LEAKS = {  # a change, and what is said of it
    "default_dtype": ("tracegrad.set_default_dtype('float32')", "the default dtype of tracegrad: .*64.* -> .*32"),
    "default_device": ("set_default_device()", "the default device: .*cpu.* -> .*cuda"),
    "grad_mode": ("tracegrad.set_grad_enabled(False)", "mode, grad: True -> False"),
    "inference_mode": ("enter(tracegrad.inference_mode())", "mode, inference: False -> True"),
    "anomaly_mode": ("tracegrad.autograd.set_detect_anomaly(True)", "mode, anomaly: False -> True"),
    "autocast": ("enter(tracegrad.autocast('float16'))", "autocast, dtype: None -> dtype.'float16'."),
    "config": ("config.max_paths = 3", "config, max_paths: 32 -> 3"),
    "loop_memory": ("config.loop_memory = 3", "loop_memory, budget: [0-9]+ -> 3"),
    "kernels": ("kernels.get = kernels.get", "names in the kernel cache: .. -> .'get'."),
    "printing": ("tracegrad.set_printoptions(precision=1)", "print options of tracegrad, _options: .*=4.* -> .*=1"),
    "recording": ("enter(recording(Recorder()))", "the recording in progress: None -> .*Recorder"),
    "generator": ("random.default_generator = random.Generator()", "the generator of tensors, default_generator: "),
    "stream": ("stream.DEFAULT = stream.Stream(1)", "the stream of tracegrad.random, DEFAULT: "),
    "numpys_generator": ("np.random.set_bit_generator(np.random.PCG64(1))", "NumPy's global generator: .*MT.*PCG"),
    "errstate": ("np.seterr(divide='raise')", "np.geterr.., divide: 'warn' -> 'raise'"),
    "error_call": ("np.seterrcall(print)", "np.geterrcall..: None -> .*print"),
    "numpys_printing": ("np.set_printoptions(precision=1)", "np.get_printoptions.., precision: 8 -> 1"),
    "torchs_dtype": ("torch().set_default_dtype(torch().float64)", "PyTorch, default dtype: .*32.* -> .*64"),
    "torchs_grad_mode": ("torch().set_grad_enabled(False)", "PyTorch, grad mode: True -> False"),
    "torchs_printing": ("torch().set_printoptions(precision=1)", "PyTorch, precision: 4 -> 1"),
    "filters": ("warnings.simplefilter('error')", "the warnings filters: .*error"),
    "cupy_stand_in": ("enter(fake_cupy.installed())", "sys.modules, cupy: .*hand: <module 'cupy'>"),
    "no_cupy": ("sys.modules['cupy'] = None", "sys.modules, cupy: .*hand: None"),
    "module_by_hand": ("sys.modules['own'] = types.ModuleType('own')", "sys.modules, own: .*hand: <module 'own'>"),
    "module_swapped": ("sys.modules['numpy'] = types.ModuleType('N')", "sys.modules, numpy: .*replaced by .*N"),
    "module_anew": ("del sys.modules['tracegrad']", "sys.modules, tracegrad: .* -> 'removed'"),
    "threads": ("threading.Thread(target=time.sleep, args=(99,), daemon=True).start()", "threads: .* -> .*Thread"),
    "profile": ("sys.setprofile(lambda *event: None)", "sys.getprofile..: None -> .*lambda"),
    "trace": ("sys.settrace(lambda *event: None)", "sys.gettrace..: None -> .*lambda"),
    "collector": ("gc.disable()", "gc.isenabled..: True -> False"),
    "thresholds": ("gc.set_threshold(5, 5, 5)", "gc.get_threshold..: .* -> .5, 5, 5."),
    "environment": ("os.environ['TRACEGRAD_CHECK'] = '1'", "the environment, TRACEGRAD_CHECK: None -> b'1'"),
    "directory": ("os.chdir('/')", "the working directory: .* -> '/'"),
}  # fmt: skip

HEAD = """
import gc, os, sys, threading, time, types, warnings
import fake_cupy, numpy as np, pytest
import global_state, tracegrad
from tracegrad.runtime.config import config
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.tensors import device, random
from tracegrad.tracer.random import stream
from tracegrad.tracer.record.recorder import Recorder, recording

entered = []

def enter(context):
    entered.append(context)
    context.__enter__()

def torch():
    return pytest.importorskip("torch")

def set_default_device():
    device._default = tracegrad.device("cuda")

"""


CLEAN = """
import random, threading
import numpy as np, tracegrad

drawn = []

def draw(monkeypatch, seed):
    import wave  # which adds to sys.modules
    drawn.append((random.random(), np.random.rand(), tracegrad.rand(()).item(), float(tracegrad.random.normal())))
    assert drawn[-1] == drawn[0]
    random.seed(seed), np.random.seed(seed), tracegrad.manual_seed(seed), tracegrad.random.seed(seed)
    with tracegrad.no_grad(), np.errstate(all="raise"):
        threading.Thread(target=print).start()
    monkeypatch.chdir("/")

def test_first(monkeypatch):
    draw(monkeypatch, 1)

def test_second(monkeypatch):
    draw(monkeypatch, 2)
"""

WIDE = """
import pytest, tracegrad

@pytest.fixture(scope="module", autouse=True)
def wide():
    tracegrad.set_default_dtype("float32")
    yield
    tracegrad.set_default_dtype("float64")

def test_innocent():
    pass
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of the tests above: one for each leak, each followed by one that looks for it."""
    folder = tmp_path_factory.mktemp("leaks")
    pairs = [
        f"def test_{name}():\n    {change}\n\ndef test_after_{name}():\n    assert global_state.restored() == []\n"
        for name, (change, _) in LEAKS.items()
    ]
    (folder / "conftest.py").write_text("pytest_plugins = ['global_state']\n")
    (folder / "test_clean.py").write_text(CLEAN)
    (folder / "test_leaks.py").write_text("\n".join([HEAD, *pairs]))
    (folder / "test_wide.py").write_text(WIDE)
    environment = {name: v for name, v in os.environ.items() if not name.startswith(("TRACEGRAD_", "PYTEST_"))}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(SUPPORT.parents[1]), str(SUPPORT), environment.get("PYTHONPATH", "")]
    )
    command = [sys.executable, "-m", "pytest", *"-rA -p no:cacheprovider -p no:xdist -p no:randomly".split()]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def complaint(name: str, report: str) -> str | None:
    said = re.search(rf"ERROR at teardown of test_{name} __*\n(.*?)\n\(undo it", report, re.DOTALL)
    return said and said[1]


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_fails_the_test_and_is_undone(name: str, report: str) -> None:
    if name.startswith("torch") and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install -e '.[oracle]'")
    said = complaint(name, report)
    assert said, report
    assert re.search(f"^  .*{LEAKS[name][1]}", said, re.MULTILINE), said
    assert f"PASSED test_leaks.py::test_after_{name}" in report
    assert complaint(f"after_{name}", report) is None


@pytest.mark.parametrize("name", ["first", "second"])
def test_who_leaves_nothing_passes(name: str, report: str) -> None:
    """Imports, numbers drawn, threads that end, and what is undone, are no leaks; and the numbers are the same ones."""
    assert f"PASSED test_clean.py::test_{name}" in report
    assert complaint(name, report) is None


def test_a_wider_fixture_is_found(report: str) -> None:
    assert re.search("the default dtype of tracegrad: .*64.* -> .*32", complaint("innocent", report) or report)
