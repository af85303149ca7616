"""What is imported, and when: by ``import tracegrad``, by a first call that a recording on disk answers, by recording.

Each case is a process of its own, or a fork of one that has imported no more than all cases do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from forked import FORKS, FROM, ORDERS, outputs

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"numba", "llvmlite", "optree", "ml_dtypes", "scipy", "cupy", "jax", "torch"}

# The modules of ours that `import tracegrad` loads: all that a first call from disk needs, and no more.
LOADED = """
tracegrad
tracegrad.autograd
tracegrad.autograd.derivatives
tracegrad.codegen
tracegrad.codegen.cpu
tracegrad.codegen.cpu.cpython
tracegrad.codegen.cpu.elf
tracegrad.codegen.cpu.machine_code
tracegrad.codegen.cpu.symbols
tracegrad.faces
tracegrad.runtime
tracegrad.runtime.ahead_of_time
tracegrad.runtime.compiled
tracegrad.runtime.config
tracegrad.runtime.declare
tracegrad.runtime.disk
tracegrad.runtime.disk.encoding
tracegrad.runtime.disk.generation
tracegrad.runtime.disk.location
tracegrad.runtime.disk.store
tracegrad.runtime.launch
tracegrad.runtime.launch.plan
tracegrad.runtime.memo
tracegrad.runtime.memory
tracegrad.runtime.mode
tracegrad.runtime.record
tracegrad.runtime.record.sparse_arrays
tracegrad.runtime.state
tracegrad.runtime.state.set_order
tracegrad.runtime.stats
tracegrad.runtime.stored
tracegrad.runtime.stored.call_text
tracegrad.runtime.stored.first_call
tracegrad.runtime.stored.library_text
tracegrad.runtime.stored.plan_file
tracegrad.runtime.stored.reads_text
tracegrad.runtime.tensor_library
tracegrad.runtime.threads
tracegrad.runtime.transforms
tracegrad.runtime.transforms.gradient
tracegrad.runtime.wrapper
tracegrad.tracer
tracegrad.tracer.ir
tracegrad.tracer.ir.class_flags
tracegrad.tracer.ir.debuggers
tracegrad.tracer.ir.digests
tracegrad.tracer.ir.errors
tracegrad.tracer.ir.foreign_code
tracegrad.tracer.ir.forks
tracegrad.tracer.ir.gc_pause
tracegrad.tracer.ir.interrupts
tracegrad.tracer.ir.late_modules
tracegrad.tracer.ir.settings
tracegrad.tracer.ir.site
tracegrad.tracer.ir.tracebacks
""".split()
# Modules of the standard library beside those that NumPy and dataclasses load themselves.
STANDARD = {"__future__", "_blake2", "atexit", "copy", "gc", "importlib.util", "mmap", "threading"}


def settings(cache: Path | None, answers: int = 1) -> dict[str, str]:
    """Environment variables of a process whose cache directory is *cache*."""
    found = {"TRACEGRAD_CACHE": "0" if cache is None else "1", "TRACEGRAD_CACHE_DIR": str(cache or "")}
    return found | {"PYTHONPATH": str(ROOT), "TRACEGRAD_CHECK": "0", "TRACEGRAD_DISK_ANSWERS": str(answers)}


def run(script: str, cache: Path | None = None, answers: int = 1) -> str:
    """The output of a process that runs *script*, a file; its cache directory is *cache*."""
    environment = {**os.environ, **settings(cache, answers)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "script.py")
        file.write_text(script)
        command = [sys.executable, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=cache or ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def forked(beginning: str, programs: dict[str, str], cache: Path | None = None) -> dict[str, str]:
    """The outputs of *programs*, forks of one process."""
    found = outputs(beginning, programs, settings(cache))
    return {name: text.strip() for name, text in found.items()}


def test_import_loads_no_more_than_a_first_call_from_disk_needs() -> None:
    found = run(
        "import sys, dataclasses, numpy; before = set(sys.modules); import tracegrad; "
        "print(*sorted(set(sys.modules) - before))"
    )
    ours = [name for name in found.split() if name.split(".")[0] == "tracegrad"]
    others = {name for name in found.split() if name.split(".")[0] != "tracegrad"}
    assert ours == LOADED
    assert {name for name in others if name.split(".")[0] not in sys.stdlib_module_names} == set()
    assert others - STANDARD == set()


@pytest.mark.slow
def test_a_name_is_there_with_all_of_its_package_in_every_thread() -> None:
    """Threads that ask while another one imports wait until it has done so."""
    script = """
import sys, threading, time, tracegrad
sys.setswitchinterval(1e-6)
missing = []

def ask(k):
    time.sleep(k * 0.01)
    if not hasattr(tracegrad.tensor([1.0]), "sum"):
        missing.append(k)

threads = [threading.Thread(target=ask, args=(k,)) for k in range(60)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(missing)
"""
    assert run(script) == "[]"


ROSENBROCK = """
import sys
import numpy as np
from tracegrad import autograd, compile_grad, vmap
def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
x = np.linspace(-1.0, 1.0, 10)
class Scale:
    rate = 2.0
    def __call__(self, x):
        return rosenbrock(self.rate * x)
scales = Scale()
EYE = np.eye(10)
"""
CALLS = {
    "grad": "f = compile_grad(rosenbrock)\ncall = f.grad",
    "value_and_grad": "f = compile_grad(rosenbrock)\ncall = f.value_and_grad",
    "value": "call = f = compile_grad(rosenbrock)",
    "autograd.grad": "f = call = autograd.grad(rosenbrock)",
    "autograd.value_and_grad": "f = call = autograd.value_and_grad(rosenbrock)",
    "hessian": "f = call = autograd.hessian(rosenbrock)",
    "jacobian": "f = call = autograd.jacobian(lambda x: np.sin(x[1:]) * x[:-1])",
    "sparse_hessian": "f = call = autograd.sparse_hessian(rosenbrock)",
    "hvp": "f = autograd.hvp(rosenbrock)\ncall = lambda x: f(x, 2.0 * x)",
    "vmap": "f = vmap(autograd.grad(lambda s, x: rosenbrock(s * x)), (None, 0))\ncall = lambda x: f(2.0, x * EYE)",
    "nested": "f = call = autograd.jacfwd(autograd.grad(lambda x: rosenbrock(x) ** 2))",
    "an object": "f = compile_grad(lambda x: scales(x) * scales.rate)\ncall = f.grad",
    "a method": "f = compile_grad(Scale.__call__, argnums=1)\ncall = lambda x: f.grad(scales, x)",
}


QUICK = ("value_and_grad", "hessian", "a method")


@FORKS
@pytest.mark.parametrize(
    "names",
    [QUICK, pytest.param([name for name in CALLS if name not in QUICK], marks=pytest.mark.slow)],
    ids=["some", "others"],
)
def test_a_first_call_from_disk_imports_nothing_more(names: Sequence[str], tmp_path: Path) -> None:
    calls = {name: CALLS[name] for name in names}
    after_a_call = f"{ROSENBROCK}compile_grad(lambda x: np.sum(x * x)).grad(x)\n"  # which has loaded the compiler
    forked(after_a_call, {name: f"{text}\nfor _ in range(3): call(x)" for name, text in calls.items()}, tmp_path)
    ending = """
before = set(sys.modules)
call(x)
print(f.stats.from_disk, *sorted(set(sys.modules) - before))
print(*{m.split('.')[0] for m in sys.modules}, 'tracegrad.tracer.record' in sys.modules)
"""
    found = forked(ROSENBROCK, {name: text + ending for name, text in calls.items()}, tmp_path)
    for name, text in found.items():
        more, _, roots = text.partition("\n")
        assert (name, more) == (name, "1")
        heavy = HEAVY - ({"scipy"} if "sparse" in name else set())
        assert heavy.isdisjoint(roots.split()) and roots.endswith(" False"), name


@pytest.mark.slow
def test_a_fit_by_scipy_begins_with_a_call_from_disk(tmp_path: Path) -> None:
    program = f"from scipy.optimize import minimize\n{ROSENBROCK}f = compile_grad(rosenbrock)\n"
    fit = "print(minimize(f.value_and_grad, x, jac=True, options={'maxiter': 5}).nfev, f.stats.from_disk)"
    first, second = run(program + fit, tmp_path).split(), run(program + fit, tmp_path).split()
    assert (first[1], second[1]) == ("0", "1")
    assert first[0] == second[0]
    alone = "print('tracegrad.tracer.record' in sys.modules)"
    assert run(f"{program}{fit}\n{alone}", tmp_path, answers=200).split() == [first[0], first[0], "False"]


def test_a_recording_whose_kernel_is_on_disk_needs_no_compiler(tmp_path: Path) -> None:
    program = f"{ROSENBROCK}f = compile_grad(rosenbrock)\nfor _ in range(3): f.grad(x)\n"
    run(program, tmp_path)
    heavy = {"numba", "llvmlite", "scipy"}
    found = run(f"{program}print(*{{name.split('.')[0] for name in sys.modules}})", tmp_path)
    assert heavy & set(found.split()) == set()
    found = run(f"{program}print('tracegrad.codegen.cpu.assemble' in sys.modules, f.stats.traces)", tmp_path)
    assert found == "False 1"


NOT_NEEDED = """
scipy.special scipy.linalg numba numpy.testing numpy.ma numpy.polynomial numpy.random hashlib json statistics locale
argparse sysconfig
""".split()


def test_a_first_call_without_files_needs_neither_scipy_nor_numbas_python() -> None:
    found = run(f"{ROSENBROCK}compile_grad(rosenbrock).grad(x)\nprint(*{{name for name in sys.modules}})").split()
    assert not set(NOT_NEEDED) & set(found)


@pytest.mark.slow
def test_what_a_late_import_does_to_filters_of_warnings_is_not_the_functions_doing() -> None:
    """scipy.special, which draws of normal numbers need, adds one."""
    script = """
import numpy as np, tracegrad
f = tracegrad.compile_grad(lambda x, key: np.sum(x * tracegrad.random.normal(key, 3)))
for k in range(3):
    f.grad(np.ones(3), tracegrad.random.key(k))
print(not f.stats.live, f.stats.traces)
"""
    assert run(script) == "True 1"


# ---- libraries that are imported at any time ---------------------------------------------------------------------

USES = {  # (imports, expression of t)
    "scipy.special's ufuncs": ("from scipy.special import erf, gammaln", "np.sum(erf(t) + gammaln(t + 2.0))"),
    "scipy.special's Python": (
        "from scipy.special import logsumexp, softmax",
        "logsumexp(t) + np.sum(softmax(t) ** 2)",
    ),
    "scipy.special as a module": ("import scipy.special", "np.sum(scipy.special.expit(t))"),
    "scipy.stats": ("from scipy.stats import norm", "np.sum(norm.logpdf(t, 0.5, 2.0))"),
    "scipy.linalg": (
        "import scipy.linalg",
        "np.sum(scipy.linalg.solve(np.diag(t + 3.0), t) + np.trace(scipy.linalg.expm(np.outer(t, t))))",
    ),
    "polynomials": ("from numpy.polynomial import chebyshev", "np.sum(chebyshev.chebval(t, [1.0, 2.0, 3.0]))"),
    "np.polynomial": ("import numpy", "np.sum(numpy.polynomial.polynomial.polyval(t, [1.0, 2.0, 3.0]))"),
    "np.testing": ("import numpy", "(numpy.testing.assert_allclose(t, t), np.sum(t * t))[1]"),
    "np.random": ("import numpy", "np.sum(t * numpy.random.default_rng(3).normal(size=5) * t)"),
    "np.fft": ("import numpy", "np.sum(np.abs(numpy.fft.rfft(t)) ** 2)"),
    "math": ("import math", "math.erf(t[0]) + math.lgamma(t[1] + 2.0) + np.sum(t)"),
}


# neither what tracegrad itself imports of others nor how good kernels are is asked here: the one once, the other not
PLAIN = "import numpy as np, llvmlite.binding, ml_dtypes, optree\nx = np.linspace(0.1, 0.9, 5)\n"
UNOPTIMISED = "\nimport tracegrad.tracer.ir.settings as settings\nsettings.optimiser.level = 0\n"
CHECK = (
    UNOPTIMISED
    + """
g = compile_grad(f)
found = [g.grad(x) for _ in range(3)]
plain = [float(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(5)]
assert all(np.allclose(one, plain, rtol=1e-5, atol=1e-7) for one in found), (found, plain)
print("right")
"""
)


@FORKS
@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_a_library_may_be_imported_at_any_time(order: str) -> None:
    before, after = ORDERS[order]
    programs = {
        use: after.format(
            imports=imports,
            definition=f"def f(t):\n    return {expression}",
            inside=f"def f(t):\n    {imports}\n    return {expression}",
        )
        + CHECK
        for use, (imports, expression) in USES.items()
    }
    assert forked(PLAIN + before, programs) == dict.fromkeys(USES, "right")


KEY = (
    UNOPTIMISED
    + """
from tracegrad.runtime.stored.first_call import Key
from tracegrad.runtime.stored.library_text import NotStoredError
def text():
    try:
        return Key(f, g._grad.mode, (x,), {}).text
    except NotStoredError as error:
        return str(error)
g = compile_grad(f)
before = text()
for _ in range(3): g.grad(x)
assert text() == before
print("same")
"""
)


@FORKS
@pytest.mark.slow
def test_the_key_on_disk_is_the_same_before_and_after_a_recording(tmp_path: Path) -> None:
    """Whatever a recording imports, the next process has to find what it has kept."""
    programs = {
        use: f"{imports}\n{PLAIN}{FROM}def f(t):\n    return {expression}\n{KEY}"
        for use, (imports, expression) in USES.items()
    }
    assert forked(PLAIN, programs, tmp_path) == dict.fromkeys(USES, "same")


# ---- faces: modules whose names are imported when they are asked for -----------------------------------------------

FACES = ("tracegrad", "tracegrad.autograd")


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
def test_a_face_says_what_it_has(face: str) -> None:
    run(f"""
import {face} as face
assert "Tensor" not in vars(face) and "vmap" not in vars(face)
assert face.vmap is vars(face)["vmap"]  # resolved once
names = face.__all__
assert face.__all__ is names and names == sorted(set(names)) and set(names) <= set(dir(face))
assert all(getattr(face, name) is not None for name in names)
space = {{}}
exec("from {face} import *", space)
assert all(space[name] is getattr(face, name) for name in names)
""")


def test_a_name_brings_in_what_it_needs_and_no_more() -> None:
    found = run("""
import sys, tracegrad
tracegrad.cond, tracegrad.TracegradError, tracegrad.vmap, tracegrad.autograd.hessian, tracegrad.random
print("tracegrad.tensors" in sys.modules, "scipy.special" in sys.modules)
tracegrad.nn, tracegrad.zeros
print("tracegrad.tensors" in sys.modules)
""")
    assert found.split() == ["False", "False", "True"]


def test_a_face_has_no_name_that_it_does_not_list() -> None:
    script = """
import tracegrad
top, autograd = tracegrad, tracegrad.autograd
for face, name in ((top, "nothing"), (top, "_private"), (top, "__wrapped__"), (autograd, "sin")):
    try:
        getattr(face, name)
    except AttributeError as error:
        print(error)
"""
    assert run(script).splitlines() == [
        "module 'tracegrad' has no attribute 'nothing'",
        "module 'tracegrad' has no attribute '_private'",
        "module 'tracegrad' has no attribute '__wrapped__'",
        "module 'tracegrad.autograd' has no attribute 'sin'",
    ]


PARTS = ("tensors.tensor", "nn", "nn.module", "optim", "optim.sgd", "steps.step", "amp")


@FORKS
@pytest.mark.slow
def test_any_part_of_the_library_of_tensors_may_be_imported_first() -> None:
    """In forks of a process that has imported nothing of ours."""
    programs = {
        part: f"import tracegrad.{part}{UNOPTIMISED}"
        "import tracegrad as tg\nf = tg.compile_grad(lambda t: (t * t).sum())\n"
        "print(f.grad(tg.tensor([1.0, 2.0])).tolist())"
        for part in PARTS
    }
    assert forked(PLAIN, programs) == dict.fromkeys(PARTS, "[2.0, 4.0]")
