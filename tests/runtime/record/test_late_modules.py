"""Modules that recorded code sees otherwise, imported at any time: draws and texts are those of plain Python.

Each case is a process of its own: a module is imported once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

HELPER = """
{imports}
import numpy as np
def helper(t):
    return {expression}
"""
ORDERS = {  # when the import is done
    "before tracegrad": "{imports}\nfrom tracegrad import compile_grad\n{definition}",
    "after tracegrad": "from tracegrad import compile_grad\n{imports}\n{definition}",
    "after a call": (
        "from tracegrad import compile_grad\ncompile_grad(lambda t: np.sum(t * t)).grad(x)\n{imports}\n{definition}"
    ),
    "by name": "from tracegrad import compile_grad\n{definition}",
    "in the function": "from tracegrad import compile_grad\n{inside}",
}
UNSEEN = "from tracegrad import compile_grad\ndef f(t):\n    from helping import helper\n    return helper(t)"
DRAWS = {  # expression of t: (of numpy.random)
    "a location": "np.random.seed(3), np.sum(np.random.normal(t, 1.0, size=5) ** 2)",
    "a generator's": "0, np.sum(np.random.default_rng(3).normal(t, 2.0) ** 2)",
    "a state's": "0, np.sum(np.random.RandomState(3).uniform(0.0, t) ** 2)",
    "plain": "0, np.sum(t * np.random.default_rng(3).normal(size=5) * t)",
    "seeded": "np.random.seed(4), np.sum(t * np.random.rand(5) * t)",
    "of the process": "0, np.sum(t * np.random.rand(5) * t)",
    "permuted": "np.random.seed(5), np.sum(np.random.permutation(t) * np.arange(5.0) * t)",
}
OTHERS = {
    "json": ("import json", "json.dumps([float(t[0] > -1)]), np.sum(t * t)"),
    "json of a number": ("import json", "len(json.dumps({'t': t[0]})), np.sum(t * t)"),
    "statistics": ("import statistics", "0, statistics.mean([t[0], t[1] * t[2]]) + statistics.pstdev([*t])"),
    "locale": ("import locale", "0, locale.atof('1.5') * np.sum(t * t)"),
}
USES = {name: ("import numpy.random", text) for name, text in DRAWS.items()} | OTHERS
CALLS = """
def drawn():
    import numpy.random
    numpy.random.seed(11)
    found = []
    for _ in range(4):
        found += [repr(g.grad(x)), repr(g(x))]
    return found, numpy.random.rand()
print(drawn(), g.stats.traces)
"""


def output(directory: Path, use: str, order: str) -> str:
    imports, expression = USES[use]
    (directory / "helping.py").write_text(HELPER.format(imports=imports, expression=f"({expression})[1]"))
    definition = f"def f(t):\n    return ({expression})[1]"
    inside = f"def f(t):\n    {imports}\n    return ({expression})[1]"
    if order == "by name":
        definition = f"{imports.split('.')[0]}\n{definition}"
    program = ORDERS.get(order, UNSEEN).format(imports=imports, definition=definition, inside=inside)
    script = f"import numpy as np\nx = np.linspace(0.1, 0.9, 5)\n{program}\ng = compile_grad(f)\n"
    warm = "" if use == "of the process" else "g.grad(x)\n"  # the first call, before anything else imports the module
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{directory}", "TRACEGRAD_CACHE": "0"}
    command = [sys.executable, "-c", script + warm + CALLS]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
def test_a_module_may_be_imported_at_any_time(use: str, tmp_path: Path) -> None:
    expected = output(tmp_path, use, "before tracegrad")
    for order in ORDERS:
        assert output(tmp_path, use, order) == expected, order


@pytest.mark.slow
@pytest.mark.parametrize("use", ["plain", "seeded", "of the process", "json", "locale"])
def test_so_may_one_that_a_module_of_the_functions_imports(use: str, tmp_path: Path) -> None:
    """Calls there are not sent elsewhere, so these have no traced arguments."""
    expected, found = (output(tmp_path, use, order) for order in ("before tracegrad", UNSEEN))
    assert found.rpartition(" ")[0] == expected.rpartition(" ")[0]
