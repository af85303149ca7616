"""README.md tells the truth: its code runs and prints what it says, and its tables are those of the program."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import tracegrad
from tracegrad.runtime.config import Config
from tracegrad.tracer import numpy_api  # noqa: F401  (fills the tables)
from tracegrad.tracer.numpy_api.special import HOOKED
from tracegrad.tracer.record.array import FUNCTIONS, METHODS, UFUNCS, public_name

README = Path(__file__).resolve().parents[2] / "README.md"
TEXT = README.read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_quick_start_is_short() -> None:
    assert len(BLOCKS[0].splitlines()) <= 20


def test_code_runs_and_prints_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks run in order in one module; ``print(...)  # text`` promises that line of output."""
    module = types.ModuleType("readme_example")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in BLOCKS:
        start = TEXT[: TEXT.index(block)].count("\n")
        promised = re.findall(r"^ *print\(.*\) *# (.+)$", block, re.MULTILINE)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * start + block, str(README), "exec"), module.__dict__)
        assert output.getvalue().splitlines() == promised


def supported() -> set[str]:
    """Every name in the table of supported functions, as the user writes it."""
    table = TEXT.split("<!-- supported:")[1].split("\n\n", 2)[1]
    found: list[str] = []
    for group, names in re.findall(r"^\| ([^|]+) \| (`.+`) \|$", table, re.MULTILINE):
        prefix = "scipy.special." if group == "scipy.special" else ""
        found += [prefix + name for name in re.findall(r"`([^`]+)`", names)]
    assert len(found) == len(set(found)), "a name stands twice in the table"
    return set(found)


def implemented() -> set[str]:
    functions = {public_name(f) for f in FUNCTIONS}
    ufuncs = {public_name(u) for u in UFUNCS} - {"scipy.special.clip"}  # what ndarray.clip calls: np.clip to the user
    methods = {f".{name}" for name in METHODS if not name.startswith("__")}
    return functions | ufuncs | methods | {f"scipy.special.{name}" for name in HOOKED}


def exists(name: str) -> bool:
    """Does the installed NumPy or SciPy have it?"""
    where: object = np.ndarray if name.startswith(".") else np
    if name.startswith("scipy.special."):
        where, name = scipy.special, name.removeprefix("scipy.special.")
    for part in name.removeprefix("np.").removeprefix(".").split("."):
        where = getattr(where, part, None)
    return where is not None


def test_table_names_everything_that_is_implemented() -> None:
    assert sorted(implemented() - supported()) == []


def test_everything_in_the_table_is_implemented() -> None:
    assert [name for name in sorted(supported() - implemented()) if exists(name)] == []


def test_settings_are_documented() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `(TRACEGRAD_\w+)` \|", TEXT, re.MULTILINE))
    assert rows == {name: f"TRACEGRAD_{name.upper()}" for name in Config.__annotations__}
    for name, default in re.findall(r"^\| `(\w+)` \| `TRACEGRAD_\w+` \| (\d+) \|", TEXT, re.MULTILINE):
        assert int(getattr(Config(), name)) == int(default)


def test_errors_are_documented() -> None:
    for name in tracegrad.__all__:
        if isinstance(getattr(tracegrad, name), type) and issubclass(getattr(tracegrad, name), Exception):
            assert f"`{name}`" in TEXT or f"`{name}`s" in TEXT
