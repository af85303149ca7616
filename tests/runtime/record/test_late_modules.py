"""Modules that recorded code sees otherwise, imported at any time: draws and texts are those of plain Python.

Each case is a fork of a process that has not imported the module: a process does so once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import forked
import pytest
from forked import FORKS, FROM, outputs

ROOT = Path(__file__).resolve().parents[3]

HELPER = """
{imports}
import numpy as np
def helper(t):
    return {expression}
"""
ORDERS = forked.ORDERS | {"by name": (FROM, "{definition}")}
UNSEEN = FROM, "def f(t):\n    from {helping} import helper\n    return helper(t)"
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
UNOPTIMISED = "import tracegrad.tracer.ir.settings as settings\nsettings.optimiser.level = 0\n"
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


def texts(directory: Path, uses: Iterable[str], before: str, after: str) -> dict[str, str]:
    """What a program prints for each of *uses*: all go on as *after* says from where *before* has ended."""
    programs = {}
    for k, use in enumerate(uses):
        imports, expression = USES[use]
        (directory / f"helping{k}.py").write_text(HELPER.format(imports=imports, expression=f"({expression})[1]"))
        definition = f"def f(t):\n    return ({expression})[1]"
        inside = f"def f(t):\n    {imports}\n    return ({expression})[1]"
        if after == ORDERS["by name"][1]:
            definition = f"{imports.split('.')[0]}\n{definition}"
        program = after.format(imports=imports, definition=definition, inside=inside, helping=f"helping{k}")
        # the first call, before anything else imports the module
        warm = "" if use == "of the process" else "g.grad(x)\n"
        programs[use] = f"{program}\n{UNOPTIMISED}g = compile_grad(f)\n{warm}{CALLS}"
    environment = {"PYTHONPATH": f"{ROOT}{os.pathsep}{directory}", "TRACEGRAD_CACHE_RECORDINGS": "0"}
    return outputs(f"import numpy as np\nx = np.linspace(0.1, 0.9, 5)\n{before}", programs, environment)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return texts(tmp_path_factory.mktemp("first"), USES, *ORDERS["before tracegrad"])


@FORKS
@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_a_module_may_be_imported_at_any_time(order: str, expected: dict[str, str], tmp_path: Path) -> None:
    assert texts(tmp_path, USES, *ORDERS[order]) == expected


@FORKS
@pytest.mark.slow
def test_so_may_one_that_a_module_of_the_functions_imports(expected: dict[str, str], tmp_path: Path) -> None:
    """Calls there are not sent elsewhere, so these have no traced arguments."""
    found = texts(tmp_path, ["plain", "seeded", "of the process", "json", "locale"], *UNSEEN)
    for use, text in found.items():
        assert text.rpartition(" ")[0] == expected[use].rpartition(" ")[0], use
