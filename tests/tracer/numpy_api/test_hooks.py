"""Functions of libraries that are hooked once these are loaded (``numpy_api/hooks.py``)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np

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
