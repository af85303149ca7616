"""Start-up: whole processes from the interpreter's start to the end of a small script, beside JAX and HIPS autograd.

A warm process finds the files of one before it: tracegrad's recordings and kernels, JAX's compilation
cache. Times are of the processor (user and system, of all threads), medians over rounds that go around the peers.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from . import report
from .first_call import environment

ROUNDS = 15

_ROSENBROCK = """
def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
x = np.linspace(-1.0, 1.0, 10)
"""
_DATA = """
import os
import numpy
table = numpy.loadtxt(os.environ["BREAST_CANCER"], delimiter=",", skiprows=1)
X, y = table[:, :-1], numpy.where(table[:, -1] == 1, 1.0, -1.0)
X = (X - X.mean(axis=0)) / X.std(axis=0)
"""
_LOSS = """
def loss(w, X, y):
    margins = y * (np.dot(X, w[:-1]) + w[-1])
    return np.sum(np.logaddexp(0.0, -margins)) + 0.5 * np.sum(w[:-1] ** 2)
"""
_DESCENT = """
w, step = numpy.zeros(X.shape[1] + 1), 1e-3
for _ in range(60):
    value, gradient = value_and_gradient(w, X, y)
    w = w - step * numpy.asarray(gradient)
assert abs(float(value) - 45.5034) < 1e-3
"""
_FIT = """
from scipy.optimize import minimize
def objective(w):
    value, gradient = value_and_gradient(w, X, y)
    return float(value), numpy.asarray(gradient)
assert abs(minimize(objective, numpy.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B").fun - 37.7589) < 1e-3
"""
_JAX = "import jax, jax.numpy as np\njax.config.update('jax_enable_x64', True)\n"
_OURS = "import numpy as np\nfrom tracegrad import compile_grad\n"
_HIPS = "import autograd.numpy as np\nfrom autograd import grad, value_and_grad\n"

#: For each row: the script of each peer.
SCRIPTS = {
    "nothing": {
        "NumPy": "import numpy",
        "tracegrad": "import numpy, tracegrad",
        "JAX": "import numpy, jax.numpy",
        "HIPS autograd": "import autograd.numpy",
    },
    "the first gradient of Rosenbrock, n = 10": {
        "tracegrad": f"{_OURS}{_ROSENBROCK}f = compile_grad(rosenbrock)\nf.grad(x)",
        "JAX": f"{_JAX}{_ROSENBROCK}jax.jit(jax.grad(rosenbrock))(x).block_until_ready()",
        "HIPS autograd": f"{_HIPS}{_ROSENBROCK}grad(rosenbrock)(x)",
    },
    "logistic regression, 60 steps of gradient descent": {
        "NumPy": f"import numpy as np\n{_DATA}",
        "tracegrad": f"{_OURS}{_DATA}{_LOSS}value_and_gradient = compile_grad(loss).value_and_grad{_DESCENT}",
        "JAX": f"{_JAX}{_DATA}{_LOSS}value_and_gradient = jax.jit(jax.value_and_grad(loss)){_DESCENT}",
        "HIPS autograd": f"{_HIPS}{_DATA}{_LOSS}value_and_gradient = value_and_grad(loss){_DESCENT}",
    },
    "logistic regression by scipy.optimize": {
        "NumPy": f"import numpy as np\n{_DATA}import scipy.optimize",
        "tracegrad": f"{_OURS}{_DATA}{_LOSS}value_and_gradient = compile_grad(loss).value_and_grad{_FIT}",
        "JAX": f"{_JAX}{_DATA}{_LOSS}value_and_gradient = jax.jit(jax.value_and_grad(loss)){_FIT}",
        "HIPS autograd": f"{_HIPS}{_DATA}{_LOSS}value_and_gradient = value_and_grad(loss){_FIT}",
    },
}
COLUMNS = (
    ("NumPy", "NumPy", True),
    ("tracegrad", "tracegrad, warm", True),
    ("tracegrad", "tracegrad, cold", False),
    ("JAX", "JAX, warm", True),
    ("JAX", "JAX, cold", False),
    ("HIPS autograd", "HIPS autograd", True),
)
_PACKAGES = {"JAX": "jax", "HIPS autograd": "autograd"}


def run(options: argparse.Namespace) -> int:
    """Measure, print, and with `--save` keep the table for RESULTS.md."""
    rounds = options.rounds or (3 if options.quick else ROUNDS)
    columns = [c for c in COLUMNS if c[0] not in _PACKAGES or importlib.util.find_spec(_PACKAGES[c[0]])]
    data = _breast_cancer()
    body = []
    for row, scripts in SCRIPTS.items():
        if data or "BREAST_CANCER" not in scripts["tracegrad"]:
            times = measure(scripts, columns, rounds, str(data or ""))
            body.append([row, *("–" if t is None else report.duration(t) for t in times)])
            print(f"{row}: " + ", ".join(f"{c[1]} {cell}" for c, cell in zip(columns, body[-1][1:], strict=True)))
    text = report.table(["whole process that does", *(title for _, title, _ in columns)], body)
    text += (
        f"\n\n{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {report.versions('numpy', 'scipy', 'jax', 'autograd')}. "
        f"Seconds of the processor, medians of {rounds}. NumPy: what the script takes without a gradient."
    )
    print(f"\n{text}")
    if options.save:
        report.keep("start", text)
    return 0


def measure(
    scripts: dict[str, str], columns: list[tuple[str, str, bool]], rounds: int, data: str
) -> list[float | None]:
    """The median time of each column's process; None where the peer has no script."""
    samples: list[list[float]] = [[] for _ in columns]
    with tempfile.TemporaryDirectory() as home:
        for peer, _, warm in columns:
            if warm and peer in scripts:  # its last line twice: kernels and recordings are kept
                _seconds(f"{scripts[peer]}\n{scripts[peer].splitlines()[-1]}", home, data, True)
        for _ in range(rounds):
            for found, (peer, _, warm) in zip(samples, columns, strict=True):
                if peer not in scripts:
                    continue
                if warm:
                    found.append(_seconds(scripts[peer], home, data, True))
                    continue
                with tempfile.TemporaryDirectory() as empty:
                    found.append(_seconds(scripts[peer], empty, data, False))
    return [statistics.median(found) if found else None for found in samples]


def _seconds(script: str, home: str, data: str, disk_cache: bool) -> float:
    """Seconds of the processor that a process takes."""
    path = os.pathsep.join([str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")])
    settings = environment(home, disk_cache) | {"BREAST_CANCER": data, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    file = Path(home) / "script"
    file.write_text(script)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, str(file)], env=settings, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _breast_cancer() -> Path | None:
    """scikit-learn's file of the data, which is read without importing it."""
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        print("the logistic regressions are left out: scikit-learn, which brings their data, is not installed")
        return None
    return Path(found.origin).parent / "datasets" / "data" / "breast_cancer.csv"
