"""The text of what libraries have: NumPy, SciPy, the standard library and our own sources have versions, which stand in
the key of a recording on disk; so what they have is named, and not looked into.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tracer.ir.class_flags import HEAP_TYPE

SIMPLE = (type(None), bool, int, float, complex, str, bytes)  # classes of values that stand in texts as they are
OURS = f"{__name__.partition('.')[0]}."
DISPATCHER = type(np.sum)  # a function of NumPy's that other libraries can override
# builtins whose answers are those of one process, or that read and write by names which the code does not show
PER_PROCESS = frozenset(
    "ascii breakpoint compile dir eval exec globals hash id input locals open print repr vars __import__".split()
)
_PACKAGES = ("numpy", "scipy")
_STDLIB = os.path.dirname(os.__file__)
_HOOK = "_tracegrad_hook_"
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN_FOLDERS = tuple([os.path.join(_OWN_FOLDER, layer, "") for layer in ("tracer", "codegen", "runtime")])


class NotStoredError(Exception):
    """Why a recording is not kept on disk, in words."""


def described(x: Any) -> str:
    """A few words for *x* in a message."""
    if isinstance(x, type):
        return f"the class {x.__qualname__}"
    if isinstance(x, types.FunctionType | types.BuiltinFunctionType | np.ufunc):
        return f"`{x.__name__}`"
    return f"an object of type {type(x).__qualname__}"


def array_text(x: np.ndarray) -> Any:
    """The text of an array that is an input: all but its contents."""
    if not (x.dtype.isnative and x.dtype.kind in "fiub"):
        raise NotStoredError(f"it reads {described(x)} of dtype {x.dtype}")
    return "array", x.dtype.str, x.shape, x.flags.c_contiguous or x.strides, x.flags.aligned


def ufunc_text(x: np.ufunc) -> Any:
    """The text of a ufunc of NumPy's or SciPy's: others may have any name, and any Python in them."""
    for package, module in (("numpy", np), ("scipy", sys.modules.get("scipy.special"))):
        if module is not None and module.__dict__.get(x.__name__) is x and _is_c(x):
            return "ufunc", package, version_of(package), x.__name__, tuple(x.types), x.signature
    raise NotStoredError(f"it reads {described(x)}")


def callable_text(
    x: Any, cells: Callable[[types.FunctionType], tuple[Any, ...]], refused: frozenset[str] = PER_PROCESS
) -> Any:  # fmt: skip
    """The text of a function of a library, or of C; *cells*: that of what is in the closure of one in Python.  Builtins
    of the *refused* names have none."""
    if type(x) is types.FunctionType:
        code = code_of(x)
        library = library_of(code.co_filename)
        if library is not None:
            return "library", library, version_of(library), x.__module__, x.__qualname__, code.co_code, *cells(x)
    if type(x) is types.BuiltinFunctionType and type(x.__module__) is str:
        root = x.__module__.partition(".")[0]
        own = root == "builtins" and x.__name__ in refused
        if (root in _PACKAGES or root in sys.stdlib_module_names) and not own:
            return "builtin", x.__module__, x.__qualname__, version_of(root)
    raise NotStoredError(f"it reads {described(x)}")


def class_text(cls: type) -> Any:
    """The text of a class of C's, or of a library's; None for others."""
    if not cls.__flags__ & HEAP_TYPE and type(cls) is type and cls is not set and cls is not frozenset:
        return "type", cls.__module__, cls.__qualname__
    if is_of_library(cls):
        return "library class", cls.__module__, cls.__qualname__, version_of(cls.__module__.partition(".")[0])
    return None


@functools.cache
def late_parts(package: str) -> frozenset[str]:
    """The modules that NumPy or SciPy may import when they are asked for."""
    if package not in _PACKAGES:
        return frozenset()
    folders = sys.modules[package].__path__
    return frozenset(file.partition(".")[0] for folder in folders for file in os.listdir(folder))


def _is_c(ufunc: np.ufunc) -> bool:
    """Whether no Python function is behind a ufunc: ``np.frompyfunc`` makes those of objects alone."""
    return tuple(ufunc.types) != ("O" * ufunc.nin + "->" + "O" * ufunc.nout,)


def version_of(library: str | None) -> str | None:
    """The version of a package; the standard library has Python's, which counts in any case."""
    version = getattr(sys.modules.get(library or ""), "__version__", None)
    return version if type(version) is str else None


def code_of(fn: types.FunctionType) -> types.CodeType:
    """The code of *fn*, as it is before a tracer hooks it (``tracer/numpy_api/hooks.py``)."""
    hooks = [name for name in fn.__code__.co_names if name.startswith(_HOOK)]
    original = getattr(fn.__globals__.get(hooks[0]), "__wrapped__", None) if hooks else fn
    return original.__code__ if type(original) is types.FunctionType else fn.__code__


def library_of(file: str) -> str | None:
    """The library that a source file belongs to."""
    if file.startswith("<frozen "):
        return "stdlib"
    if file.startswith(_OWN_FOLDERS):  # whose sources are in the key (``disk/generation.py``)
        return OURS[:-1]
    for name in _PACKAGES:
        module = sys.modules.get(name)
        path = getattr(module, "__file__", None)
        if path and file.startswith(os.path.dirname(path) + os.sep):
            return name
    inside = file.startswith(_STDLIB + os.sep) and "site-packages" not in file and "dist-packages" not in file
    return "stdlib" if inside else None


def is_of_library(cls: type) -> bool:
    """Whether a class is found under its name in one of the libraries that have versions."""
    found: Any = sys.modules.get(cls.__module__)
    if type(found) is not types.ModuleType or not is_library(found):
        return False
    for name in cls.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return found is cls


def module_name(module: types.ModuleType) -> str:
    """The name of a module; "" where it has none any more."""
    name = module.__dict__.get("__name__")
    return name if type(name) is str else ""


def is_library(module: types.ModuleType) -> bool:
    """Whether *module* is one of the libraries that have versions."""
    name = module_name(module)
    root = name.partition(".")[0]
    if sys.modules.get(name) is not module:
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        return root in sys.builtin_module_names
    if library_of(file) is not None:
        return True
    return root in sys.stdlib_module_names and file.startswith(os.path.join(_STDLIB, "lib-dynload") + os.sep)
