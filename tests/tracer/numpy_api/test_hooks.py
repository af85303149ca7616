"""Functions of libraries that are hooked once these are loaded (``numpy_api/hooks.py``)."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

from tracegrad import compile_grad
from tracegrad.tracer import scipy_api
from tracegrad.tracer.numpy_api import hooks


def test_a_module_that_the_function_itself_imports_first_is_hooked(tmp_path, monkeypatch):
    (tmp_path / "loaded_late.py").write_text("import numpy as np\n\ndef total(x):\n    return np.asarray(x).sum()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(hooks, "_waiting", [])
    hooks.when_loaded("loaded_late", "total")(lambda module: hooks.hook(module.total, np.sum))

    @compile_grad
    def f(x):
        import loaded_late

        return 2 * loaded_late.total(x * x)

    monkeypatch.delitem(sys.modules, "loaded_late", raising=False)
    assert np.array_equal(f.grad(np.array([1.0, 3.0])), [4.0, 12.0])


def test_each_file_for_scipy_is_filled_in_once_its_module_has_been_imported():
    for name in scipy_api._FILES:
        importlib.import_module(f"scipy.{name}")
    hooks.hook_loaded()
    room = Path(scipy_api.__file__).parent
    files = {f"{scipy_api.__name__}.{path.stem}" for path in room.glob("*.py") if path.stem != "__init__"}
    assert files <= set(sys.modules)


def test_a_library_that_is_laid_out_otherwise_has_one_warning(monkeypatch):
    monkeypatch.setattr(hooks, "_waiting", [])
    monkeypatch.setitem(sys.modules, "laid_out_otherwise", types.SimpleNamespace(known=1))
    hooks.when_loaded("laid_out_otherwise", "known")(lambda module: module.moved)
    with pytest.warns(RuntimeWarning, match="this release of laid_out_otherwise is not one that tracegrad knows"):
        assert hooks.hook_loaded()
    assert not hooks.hook_loaded()


def test_a_generator_stays_one():
    """From Python 3.13 on it is deprecated to give it the code of a plain function."""
    space = {"__name__": "of_a_library"}
    exec("def numbers(x):\n    yield x\n    return 2 * x", space)
    numbers = space["numbers"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hooks.hook(numbers, lambda x: iter(()))
    assert inspect.isgeneratorfunction(numbers) and list(numbers(3)) == [3]
