"""Compiled programs on disk: what is read computes what was compiled, to the bit; and where reading fails, all is made
anew."""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.special as sp

from tracegrad import compile_grad
from tracegrad.codegen.cpu import machine_code, symbols
from tracegrad.codegen.cpu.elf import UnsupportedObjectError
from tracegrad.runtime.config import config
from tracegrad.runtime.disk import programs
from tracegrad.runtime.disk.encoding import encode
from tracegrad.runtime.disk.store import packed, store, unpacked
from tracegrad.runtime.launch import bind, launcher_ir, native_code
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.tracer.ir.settings import optimiser

# one of each kind of step and symbol
SOURCE = '''
import numpy as np
import scipy.special as sp

def plain(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

def vectors(x):
    return np.sum(np.exp(np.outer(x, x)) * np.tanh(x)) + np.max(np.log(x))

def blas(x):
    return np.sum((np.outer(x, x) @ np.outer(x, 1 / x)) @ x)

def lapack(x):
    return np.sum(np.linalg.solve(np.outer(x, x) + 30 * np.eye(len(x)), x))

def special(x):
    return np.sum(sp.jv(1, x) * sp.gammainc(2.5, x)) + np.sum(sp.ndtri(x / 99))

def fourier(x):
    return np.sum(np.abs(np.fft.fft(x)) + np.fft.irfft(np.fft.rfft(x), len(x)))

def host(x):
    return np.sum(np.sort(x * 2) * x) + np.median(x)

def loop(x):
    y = x
    for k in range(25):
        y = np.sin(y) + x[k % 4]
    return np.sum(y)

def branches(x):
    if np.sum(np.exp(x)) > 1e9:
        return np.sum(x) ** 2
    if np.sum(x * x) < 5:
        return np.prod(x)
    return np.sum(np.sin(x))

FUNCTIONS = [plain, vectors, blas, lapack, special, fourier, host, loop, branches]
'''  # fmt: skip
CASES: dict = {}
exec(compile(SOURCE, __file__, "exec"), CASES)
FUNCTIONS = CASES["FUNCTIONS"]
X = np.linspace(0.3, 9, 20)


def answers():
    """Values and gradients of all functions, recorded anew, with an empty kernel cache."""
    kernels.clear()
    found = []
    for f in FUNCTIONS:
        compiled = compile_grad(f)
        for x in (X, X / 10, X / 10):
            found += compiled.value_and_grad(x.copy())
    return found


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """An empty cache directory of the test's own; the kernel cache asks it, and nothing before it."""
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    monkeypatch.setattr(kernels, "_compile", programs.program_of)
    kernels.clear()
    return tmp_path


def compiles(monkeypatch):
    """The list of programs that are compiled from now on."""
    found: list = []
    real = programs.compile_canonical
    monkeypatch.setattr(programs, "compile_canonical", lambda c, n: found.append(c) or real(c, n))
    return found


def same(found, expected):
    assert [np.asarray(x).tobytes() for x in found] == [np.asarray(x).tobytes() for x in expected]


@pytest.mark.slow  # a quicker one of a single kernel follows
def test_what_is_read_computes_the_same_bits(directory, monkeypatch):
    made = compiles(monkeypatch)
    expected = answers()
    assert len(made) >= len(FUNCTIONS)
    assert len(list(directory.glob("kernel-*"))) == len(made)
    made.clear()
    same(answers(), expected)
    assert made == []
    # LLVM's linker does the same where the code is not loaded here
    monkeypatch.setattr(machine_code, "image", unsupported)
    same(answers(), expected)
    assert made == []
    # what is damaged is made anew
    files = sorted(directory.glob("kernel-*"))
    for k, path in enumerate(files):
        content = path.read_bytes()
        kind, text, _ = unpacked(content)
        path.write_bytes([content[: -1 - k], packed(kind, text, encode((b"", (), [], [], ()))), b""][k % 3])
    same(answers(), expected)
    assert len(made) == len(files)
    made.clear()
    same(answers(), expected)
    assert made == []


def unsupported(*_):
    raise UnsupportedObjectError


def test_a_kernel_is_read_where_it_was_compiled_before(directory, monkeypatch):
    made = compiles(monkeypatch)
    results = []
    for _ in range(2):
        kernels.clear()
        results.append(compile_grad(CASES["plain"]).value_and_grad(X))
    same(results[1], results[0])
    assert len(made) == 1


def test_each_level_of_the_optimiser_has_its_own(directory, monkeypatch):
    made = compiles(monkeypatch)
    for level in (0, 2, 0, 2):
        monkeypatch.setattr(optimiser, "level", level)
        kernels.clear()
        compile_grad(CASES["plain"]).value_and_grad(X)
    assert len(made) == 2


def test_explain_of_a_kernel_that_was_read(directory):
    texts = []
    for _ in range(2):
        kernels.clear()
        text = str(compile_grad(CASES["host"]).explain(X, level="all"))
        texts.append(text[text.index("--- inputs") : text.index("--- timings")])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("payload", [b"", encode(None), encode((b"", (), ["tg_kernel_s0"], [], ()))])
def test_a_payload_that_makes_no_sense_is_dropped(directory, monkeypatch, payload):
    expected = compile_grad(CASES["plain"]).value_and_grad(X)
    (path,) = directory.glob("kernel-*")
    good = path.read_bytes()
    kind, text, _ = unpacked(good)
    path.write_bytes(packed(kind, text, payload))
    kernels.clear()
    same(compile_grad(CASES["plain"]).value_and_grad(X), expected)
    assert path.read_bytes() == good


def test_a_symbol_that_is_not_there_any_more(directory, monkeypatch):
    made = compiles(monkeypatch)
    f = lambda x: np.sum(sp.gammainc(2.5, x))  # noqa: E731
    expected = compile_grad(f)(X)
    kernels.clear()
    symbols.address_of.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(symbols, "capsules", lambda module: {})
        patch.setattr(programs, "compile_canonical", lambda c, n: pytest.skip.Exception)
        with pytest.raises(Exception):  # noqa: B017 - it was asked to compile
            compile_grad(f)(X)
    assert list(directory.glob("kernel-*")) == []
    symbols.address_of.cache_clear()
    assert compile_grad(f)(X) == expected
    assert len(made) == 2


def test_the_launcher_is_read(directory, monkeypatch):
    """The code of the launcher, the tape and the watch has no address in it; its text is the key."""
    texts: list[str] = []
    real = native_code._compiled
    monkeypatch.setattr(native_code, "_compiled", lambda text, level: texts.append(text) or real(text, level))
    cell, busy = ctypes.addressof(bind._arena_cell), ctypes.addressof(bind._arena_busy)
    addresses = [launcher_ir.compile_launcher(cell, busy) for _ in range(2)]
    assert len(set(addresses)) == 2 and len(texts) == 1
    assert str(id(None)) not in texts[0] and str(cell) not in texts[0]


def test_machine_code_for_a_device_is_read(directory, monkeypatch):
    ptx = pytest.importorskip("tracegrad.codegen.cuda.ptx", exc_type=Exception)
    load = importlib.import_module("tracegrad.runtime.cuda.load")
    text = "define void @k(ptr %x) {\n  store i64 1, ptr %x\n  ret void\n}\n"
    found = load.machine_code(text, ["k"], (9, 0), 128)
    monkeypatch.setattr(ptx, "compile_ptx", None)
    assert load.machine_code(text, ["k"], (9, 0), 128) == found
    with pytest.raises(TypeError):
        load.machine_code(text, ["k"], (8, 0), 128)


def test_what_belongs_to_this_process_is_not_kept(directory):
    """A constant of a key that is an object has no text."""
    found, _ = compile_grad(CASES["plain"]).value_and_grad(X)
    graph = kernels._programs[next(iter(kernels._programs))]
    assert found == CASES["plain"](X)
    graph._given.key = (*graph._given.key, object())
    assert programs.key_text(1, graph._given.key) is None


SCRIPT = (
    SOURCE
    + """
import os, random, signal, sys, time
from tracegrad import compile_grad

def answers():
    x = np.linspace(0.3, 9, 20)
    for f in FUNCTIONS:
        compiled = compile_grad(f)
        for y in (x, x / 10, x / 10):
            value, gradient = compiled.value_and_grad(y.copy())
            yield f"{f.__name__} {value.tobytes().hex()} {gradient.tobytes().hex()}"

def processes(count, killed, folder):
    from tracegrad.tracer.ir.settings import optimiser
    optimiser.level = 0  # files are written and read as ever
    children = []
    for k in range(count):
        child = os.fork()
        if not child:
            try:
                with open(f"{folder}/answers-{k}", "w") as file:
                    file.write("\\n".join(answers()))
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    rng = random.Random(0)
    for child in children[:killed]:
        time.sleep(rng.uniform(0, 0.5))
        os.kill(child, signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children[killed:]]
"""
)


def run(folder, call, **more):
    """The output of *call*, in a process with an empty cache in *folder*."""
    environment = {**os.environ, "TRACEGRAD_CACHE": "1", "TRACEGRAD_CACHE_DIR": str(folder), **more}
    path = folder.parent / "script.py"
    path.write_text(f"{SCRIPT}\nprint({call})\n")
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
def test_files_are_the_same_whoever_makes_them(tmp_path):
    """No address of a process, and no order of its making, gets into a kernel."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, seed in zip(folders, ("1", "2"), strict=True):
        assert run(folder, "len(list(answers()))", PYTHONHASHSEED=seed) == f"{3 * len(FUNCTIONS)}\n"
    contents = [{p.name: p.read_bytes() for p in folder.glob("*-*")} for folder in folders]
    assert contents[0] == contents[1]
    assert {name.split("-")[0] for name in contents[0]} == {"kernel", "native", "plan", "sources"}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")
def test_eight_processes_at_once_on_an_empty_cache(tmp_path):
    """Two are killed at some point; the others answer right."""
    folder = tmp_path / "cache"
    assert run(folder, f"processes(8, 2, {str(tmp_path)!r})") == f"{[0] * 6}\n"
    found = {(tmp_path / f"answers-{k}").read_text() for k in range(2, 8)}
    assert len(found) == 1 and found.pop().count("\n") == 3 * len(FUNCTIONS) - 1
    files = [path for path in folder.glob("*-*") if not path.name.startswith("writing-")]
    assert files and [store.check(str(path)) for path in files] == [None] * len(files)


COUNTED = """
import numpy as np
import tracegrad
from tracegrad import autograd, compile_grad, config

config.cache_recordings = False
x = np.arange(3.0)

def program(x):
    return np.sum(np.sin(x) * x**3)

whole = compile_grad(program)
twin = compile_grad(lambda x: np.sum(np.sin(x) * x**3))
hessian = autograd.hessian(program)

@compile_grad
def live(x):
    globals()["seen"] = 1
    return np.sum(np.cosh(x))

@compile_grad
def in_segments(x):
    globals()["seen"] = float(np.sum(x)) > 0
    return np.sum(np.tanh(x)) if x[0] > -1 else np.sum(x)

@tracegrad.compile
def step(x):
    return (x * x).sum()

for f in (whole, twin, hessian, live, in_segments):
    for _ in range(3):
        f(x)
for _ in range(3):
    step(tracegrad.tensor(x))
for f in (whole, twin, hessian, live, in_segments, step):
    print(f.stats.compiles, f.stats.kernels_from_disk, f.stats.kernel_hits, str(f.stats).count("read from disk"))
"""


def test_stats_tell_kernels_from_disk_from_compiled_ones(tmp_path):
    environment = {**os.environ, "TRACEGRAD_CACHE": "1", "TRACEGRAD_CACHE_DIR": str(tmp_path)}
    script = tmp_path / "script.py"
    script.write_text(COUNTED)
    found = []
    for _ in range(2):
        done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append([tuple(map(int, line.split())) for line in done.stdout.splitlines()])
    first, second = found
    assert all(compiles + hits > 0 and read == told == 0 for compiles, read, hits, told in first), first
    assert [(0, compiles, hits, int(compiles > 0)) for compiles, _, hits, _ in first] == second
    assert first[0][0] == 1 and first[1][:3] == (0, 0, 1)
