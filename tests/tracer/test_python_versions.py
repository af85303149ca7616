"""Other interpreters than those of the table of versions: the Python paths, one warning, and the same answers."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tracegrad.tracer.ir import python_version

PROGRAM = """
    import sys, warnings
    import numba, llvmlite.binding, numpy as np, scipy.special, scipy.optimize, optree  # they ask for the version, too

    {pretend}

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        import tracegrad
        from tracegrad import compile_grad
        from tracegrad.codegen.cpu import cpython

        RATE, TABLE = 0.3, np.arange(3.0)

        class Model:
            def __init__(self):
                self.calls, self.w = 0, np.ones(3)

        model = Model()

        def newton(a):
            x, turns = a, 0
            while np.abs(x * x - a) > 1e-12:
                x = x - (x * x - a) / (2 * x)
                turns += 1
            return x * turns

        def branches(x):
            total = 0.0
            for k in range(12):
                total = total + (x[0] * k if x[1] > k / 6 else x[1])
            return total + (x[2] if x[0] is x[1] else 0)

        def outside(x):
            model.calls += 1
            return np.sum(x * TABLE * model.w) * RATE

        def writes(x):
            z = np.zeros_like(x)
            z[0] = x[0] * 2
            z[1:] += x[1]
            return np.sum(z * z)

        for f, of in ((newton, lambda k: 2.0 + k), (branches, lambda k: np.array([0.5, 1.1, 2.0]) * (k + 1)),
                      (outside, lambda k: np.arange(3.0) + k), (writes, lambda k: np.arange(3.0) + k)):
            compiled = compile_grad(f)
            for k in range(6):
                RATE, TABLE[0], model.w = 0.1 * k, k, np.ones(3) * k
                x, h = of(k), 1e-6
                calls = model.calls
                value, gradient = compiled.value_and_grad(x)
                assert model.calls - calls == (f is outside), (model.calls, calls)
                np.testing.assert_allclose(value, f(x), rtol=1e-12)
                steps = np.eye(np.size(x))[:, 0] if np.ndim(x) == 0 else np.eye(np.size(x))
                numeric = [(f(x + h * e) - f(x - h * e)) / (2 * h) for e in steps]
                np.testing.assert_allclose(np.ravel(gradient), numeric, rtol=1e-5, atol=1e-6)
            live = compiled.stats.live
            print(f.__name__, compiled.stats.traces, live)
        def makes(x):
            z = np.zeros(3)
            z[:2] = x[1:]
            return z

        try:
            print("made:", compile_grad(makes)(np.ones(3)))  # where the source of this text is known
        except tracegrad.UnsupportedError as error:
            print("refused:", error)
    print("launch:", cpython.fault())
    for warning in said:
        if "tracegrad" in str(warning.message):
            print("warning:", warning.category.__name__, warning.message)
"""
PRETENCES = {
    "a version to come": (
        """
    Version = type("Version", (tuple,), {n: property(lambda v, k=k: v[k]) for k, n in enumerate(
        ("major", "minor", "micro", "releaselevel", "serial"))})
    sys.version_info = Version((3, 99, 0, "final", 0))
    """,
        "Python 3.99 is not one that is known",
    ),
    "no global lock": (
        """
    sys.version = sys.version.replace("(main", "free-threading build (main")
    """,
        "this is a free-threaded build of Python",
    ),
}


@pytest.mark.parametrize("name", ["a version to come", pytest.param("no global lock", marks=pytest.mark.slow)])
def test_an_unknown_interpreter_has_one_warning_and_the_same_answers(name, tmp_path):
    pretend, reason = PRETENCES[name]
    program = textwrap.dedent(PROGRAM.replace("    {pretend}\n", pretend))
    (file := tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for function in ("newton", "branches", "outside", "writes"):
        line = next(line for line in lines if line.startswith(f"{function} "))
        assert f"all of it: {reason} (log/unseen)" in line
    assert f"launch: {reason}" in lines
    refused = any("refused: " in line and "np.zeros_like(x)" in line for line in lines)
    assert refused or "made: [1. 1. 0.]" in lines
    warned = [line for line in lines if line.startswith("warning:")]
    assert len(warned) == 1 and warned[0].startswith(f"warning: RuntimeWarning tracegrad: {reason} (CPython 3.11 to ")


def test_this_interpreter_is_known():
    assert python_version.unknown() is None and python_version.doubt() is None
    assert sys.version_info[:2] in python_version.VERSIONS
