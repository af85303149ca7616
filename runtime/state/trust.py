"""Trust: tables of library code, of impure functions, and of objects that hide their state.

Start reading at ``Trust`` (files, modules, classes), then ``impurity`` (functions and modules whose answer depends
on more than their arguments) and ``hidden_state`` (objects whose state Python can't see). The tables at the top
are the knowledge; everything else is lookup.
"""

from __future__ import annotations

import builtins
import os
import site
import sys
import sysconfig
import types
from typing import Any

from ...tracer.ir.refusals import Refusal
from ...tracer.ir.site import OWN_FOLDER

_RANDOM, _CLOCK, _SYSTEM = Refusal.CALLS_RANDOM, Refusal.CALLS_CLOCK, Refusal.CALLS_SYSTEM
_FILES, _THREADS, _NAMES = Refusal.CALLS_FILES, Refusal.CALLS_THREADS, Refusal.CALLS_NAMES
_INTERPRETER = Refusal.CALLS_INTERPRETER

IMPURE_MODULES = {
    "random": _RANDOM, "_random": _RANDOM, "secrets": _RANDOM, "numpy.random": _RANDOM, "uuid": _RANDOM,
    "time": _CLOCK, "os": _SYSTEM, "posix": _SYSTEM, "nt": _SYSTEM, "subprocess": _SYSTEM, "socket": _SYSTEM,
    "_socket": _SYSTEM, "select": _SYSTEM, "shutil": _SYSTEM, "tempfile": _SYSTEM, "glob": _SYSTEM,
    "io": _FILES, "_io": _FILES, "platform": _SYSTEM, "locale": _SYSTEM, "urllib": _SYSTEM, "http": _SYSTEM,
    "threading": _THREADS, "_thread": _THREADS, "multiprocessing": _THREADS, "concurrent": _THREADS,
    "asyncio": _THREADS, "queue": _THREADS, "signal": _SYSTEM, "contextvars": _INTERPRETER, "gc": _INTERPRETER,
    "inspect": _INTERPRETER, "sys": _INTERPRETER, "traceback": _INTERPRETER, "importlib": _NAMES,
    "weakref": _INTERPRETER, "_weakref": _INTERPRETER, "ctypes": _INTERPRETER, "logging": Refusal.CALLS_LOG,
    "shelve": _FILES, "sqlite3": _FILES,
}  # fmt: skip
IMPURE_BUILTINS = {
    "input": _SYSTEM, "open": _FILES, "breakpoint": _SYSTEM, "id": Refusal.CALLS_MEMORY,
    "globals": _NAMES, "locals": _NAMES, "vars": _NAMES, "eval": _NAMES, "exec": _NAMES, "compile": _NAMES,
    "__import__": _NAMES, "dir": _NAMES,
}  # fmt: skip
RUN_TIME_BUILTINS = {**IMPURE_BUILTINS, "print": Refusal.CALLS_PRINT}
IMPURE_NUMPY = {"load", "loadtxt", "genfromtxt", "fromfile", "memmap", "save", "savez", "savetxt", "tofile"}
IMPURE_METHODS = {"now": _CLOCK, "today": _CLOCK, "utcnow": _CLOCK, "rvs": _RANDOM}
# Pure functions that live in an impure module.
_PURE = {
    "posixpath": {"join", "basename", "dirname", "splitext", "split", "normpath", "isabs", "commonprefix"},
    "ntpath": {"join", "basename", "dirname", "splitext", "split", "normpath", "isabs", "commonprefix"},
    "posix": {"fspath"}, "nt": {"fspath"}, "sys": {"getsizeof", "intern", "is_finalizing"},
    "inspect": {"isfunction", "isclass", "ismethod", "isbuiltin"}, "uuid": {"UUID"}, "io": {"StringIO", "BytesIO"},
}  # fmt: skip
# Libraries whose functions don't read attributes of the user's own objects behind our back.
_PLAIN_READERS = {
    "numpy", "scipy", "math", "cmath", "operator", "functools", "itertools", "typing", "enum", "abc", "collections",
    "numbers", "warnings", "builtins", "string", "re", "time", "random", "datetime", "statistics", "fractions",
    "decimal", "_operator", "_functools", "contextlib", "types", "tracegrad", "typing_extensions", "__future__",
}  # fmt: skip


def _standard_paths() -> list[str]:
    paths = [os.path.dirname(os.__file__), *(sysconfig.get_paths().get(k, "") for k in ("stdlib", "platstdlib"))]
    paths += [sysconfig.get_paths().get(k, "") for k in ("purelib", "platlib")]
    paths += getattr(site, "getsitepackages", list)()
    paths.append(OWN_FOLDER)
    return [os.path.join(os.path.abspath(p), "") for p in paths if p]


class Trust:
    """Tells library code, which is trusted, from the user's, which is analysed."""

    def __init__(self) -> None:
        self._prefixes = tuple(dict.fromkeys(_standard_paths()))
        self._files: dict[str, bool] = {}
        self._classes: dict[type, bool] = {}

    def file(self, name: str) -> bool:
        """Whether a source file is library code."""
        known = self._files.get(name)
        if known is None:
            if name.startswith("<"):
                known = name.startswith(("<frozen", "<__array_function__", "<tracegrad"))
            else:
                path = os.path.abspath(name)
                parts = path.replace("\\", "/").split("/")
                known = path.startswith(self._prefixes) or "site-packages" in parts or "dist-packages" in parts
            self._files[name] = known
        return known

    def module(self, module: types.ModuleType) -> bool:
        name = getattr(module, "__name__", "")
        if name == "__main__":
            return False
        file = module.__dict__.get("__file__")
        if isinstance(file, str):
            return self.file(file)
        if name in sys.builtin_module_names or name in sys.stdlib_module_names:
            return True
        paths = list(module.__dict__.get("__path__", ()))  # a namespace package
        return bool(paths) and all(self.file(os.path.join(p, "__init__.py")) for p in paths)

    def cls(self, cls: type) -> bool:
        """Whether a class was written in library code (or in C)."""
        known = self._classes.get(cls)
        if known is None:
            name = cls.__module__
            module = sys.modules.get(name) if isinstance(name, str) else None
            if module is not None:
                known = self.module(module)
            else:
                known = not cls.__flags__ & (1 << 9)  # no module, and not made by a class statement
            self._classes[cls] = known
        return known

    def function(self, fn: types.FunctionType) -> bool:
        return self.file(fn.__code__.co_filename)


def plain_reader(module_name: str) -> bool:
    """Whether a library is known to read no attributes of the user's objects by itself."""
    return module_name.partition(".")[0] in _PLAIN_READERS


def module_impurity(name: str) -> Refusal | None:
    """The reason why everything in a module is impure, or None."""
    while name:
        why = IMPURE_MODULES.get(name)
        if why is not None:
            return why
        name = name.rpartition(".")[0]
    return None


def impurity(obj: Any) -> Refusal | None:
    """The reason why a library's module, class or function is impure, or None."""
    if isinstance(obj, types.ModuleType):
        return module_impurity(obj.__name__)
    if not callable(obj):
        return module_impurity(type(obj).__module__) if type(obj).__module__ != "builtins" else None
    if isinstance(obj, type):
        why = module_impurity(obj.__module__) if isinstance(obj.__module__, str) else None
        return None if obj.__name__ in _PURE.get(obj.__module__, ()) or why in (_INTERPRETER, _SYSTEM) else why
    owner = getattr(obj, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        why = methods_impurity(type(owner))
        if why is not None:
            return why
        if isinstance(owner, type) and owner.__module__ == "datetime" and obj.__name__ in IMPURE_METHODS:
            return _CLOCK
    module, name = getattr(obj, "__module__", None), getattr(obj, "__name__", "")
    if not isinstance(module, str):
        module = getattr(owner, "__name__", "") if isinstance(owner, types.ModuleType) else type(obj).__module__
    if name in _PURE.get(module, ()):
        return None
    if module == "builtins":
        return IMPURE_BUILTINS.get(name) if getattr(builtins, name, None) is obj else None
    if module in ("posixpath", "ntpath", "genericpath"):
        return _SYSTEM
    if module.partition(".")[0] == "numpy" and name in IMPURE_NUMPY:
        return _FILES
    return module_impurity(module)


def methods_impurity(cls: type) -> Refusal | None:
    """The reason why the methods of a class are impure, or None."""
    hidden = hidden_state(cls)
    if hidden is None:
        return None
    return _RANDOM if hidden is Refusal.STATE_RANDOM else Refusal.CALLS_OBJECT


def hidden_state(cls: type) -> Refusal | None:
    """The kind of invisible state of objects of this class, or None if none is known."""
    for base in cls.__mro__:
        module = base.__module__ if isinstance(base.__module__, str) else ""
        if module.startswith("numpy.random") or module in ("random", "_random"):
            return Refusal.STATE_RANDOM
        if module in ("_io", "io"):
            return Refusal.STATE_FILE
        if module in ("_thread", "threading", "queue", "_queue", "multiprocessing", "socket", "_socket"):
            return Refusal.STATE_THREADS
    if "__next__" in cls.__dict__ and keeps_c_state(cls):
        return Refusal.STATE_ITERATOR
    return None


def keeps_c_state(cls: type) -> bool:
    """Whether instances have room for state beyond ``__dict__``, ``__slots__`` and a list of weak references."""
    if cls.__itemsize__:
        return True
    size = object.__basicsize__ + (8 if cls.__dictoffset__ > 0 else 0) + (8 if cls.__weakrefoffset__ > 0 else 0)
    if cls.__flags__ & (1 << 4):  # a managed dict lies before the object
        size += 16
    size += 8 * sum(isinstance(v, types.MemberDescriptorType) for c in cls.__mro__ for v in c.__dict__.values())
    return cls.__basicsize__ > size
