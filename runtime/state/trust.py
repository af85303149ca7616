"""Trust: library code, impure functions, and objects that hide their state.

Start reading at ``Trust`` (files, modules, classes), then ``impurity`` (functions and modules whose answer depends
on more than their arguments) and ``hidden_state`` (objects whose state Python can't see). The knowledge is the table
in ``libraries.py``; here it is looked up for objects.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
import weakref
from functools import lru_cache
from typing import Any

from ...tracer.ir.class_flags import HEAP_TYPE
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.site import OWN_FOLDER
from .libraries import PACKAGES, LibrarySetting, impure, known, verdict
from .objects import keeps_c_state

_RANDOM, _CLOCK = Refusal.CALLS_RANDOM, Refusal.CALLS_CLOCK
_SYSTEM, _FILES, _NAMES = Refusal.CALLS_SYSTEM, Refusal.CALLS_FILES, Refusal.CALLS_NAMES

IMPURE_BUILTINS = {
    "input": _SYSTEM, "open": _FILES, "breakpoint": _SYSTEM, "id": Refusal.CALLS_MEMORY,
    "globals": _NAMES, "locals": _NAMES, "vars": _NAMES, "eval": _NAMES, "exec": _NAMES, "compile": _NAMES,
    "__import__": _NAMES, "dir": _NAMES,
}  # fmt: skip
IMPURE_METHODS = {"now": _CLOCK, "today": _CLOCK, "utcnow": _CLOCK, "rvs": _RANDOM}


def _trusted_folders() -> list[tuple[str, str]]:
    """(folder, package) of packages that the table of libraries knows, wherever they are installed."""
    folders = [(OWN_FOLDER, "tracegrad")]
    for name in PACKAGES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if name != "tracegrad" and isinstance(file, str) and (folder := _folder_of(file)):
            folders.append((folder, name))
    return folders


@lru_cache(maxsize=256)
def _folder_of(file: str) -> str:
    """The folder of a package, whose main file this is; or ""."""
    return os.path.dirname(os.path.abspath(file)) if os.path.basename(file).startswith("__init__") else ""


@lru_cache(None)
def _standard_folders() -> list[str]:
    own = os.path.dirname(os.__file__)
    prefixes = sys.base_exec_prefix, sys.exec_prefix
    # as sysconfig has them, which reads how Python was built
    paths = [own, *[os.path.join(prefix, sys.platlibdir, os.path.basename(own)) for prefix in prefixes]]
    return list(dict.fromkeys(os.path.join(os.path.abspath(p), "") for p in paths if p))


class Trust:
    """Tells library code, which is judged by the table in ``libraries.py``, from all other, which runs as copies."""

    def __init__(self) -> None:
        self._standard = _standard_folders()
        self._names: dict[str, str] = {}  # file -> dotted name of the library's module
        self._classes: dict[type, bool] = {}

    def name(self, file: str) -> str:
        """The dotted name of the module in a source file of the standard library or an installed package, or ""."""
        found = self._names.get(file)
        if found is None:
            if file.startswith("<"):
                generated = file.startswith(("<__array_function__", "<tracegrad"))
                found = file[8:-1] if file.startswith("<frozen ") else "tracegrad" if generated else ""
            else:
                found = self._named(os.path.abspath(file))
            self._names[file] = found
        return found

    def _named(self, path: str) -> str:
        for folder, package in _trusted_folders():
            if path.startswith(os.path.join(folder, "")):
                return _dotted(package + "/" + path[len(os.path.join(folder, "")) :])
        parts = path.replace("\\", "/").split("/")
        for installed in ("site-packages", "dist-packages"):
            if installed in parts:
                return _dotted("/".join(parts[len(parts) - parts[::-1].index(installed) :]))
        for folder in self._standard:
            if path.startswith(folder):
                return _dotted(path[len(folder) :].replace("\\", "/").removeprefix("lib-dynload/"))
        return ""

    def file(self, name: str) -> bool:
        """Whether a source file is library code that the table judges."""
        return known(self.name(name))

    def module(self, module: types.ModuleType) -> bool:
        name = getattr(module, "__name__", "")
        if name == "__main__":
            return False
        file = module.__dict__.get("__file__")
        if isinstance(file, str):
            return self.file(file)
        if name in sys.builtin_module_names or name in sys.stdlib_module_names:
            return known(name)
        paths = list(module.__dict__.get("__path__", ()))  # a namespace package
        return bool(paths) and all(self.file(os.path.join(p, "__init__.py")) for p in paths)

    def cls(self, cls: type) -> bool:
        """Whether a class was written in library code (or in C)."""
        known = self._classes.get(cls)
        if known is None:
            name = cls.__module__
            module = sys.modules.get(name) if isinstance(name, str) else None
            if module is builtins:  # which a class is said to be of that is made where no `__name__` is
                known = not cls.__flags__ & HEAP_TYPE or vars(builtins).get(cls.__name__) is cls
            elif module is not None:
                known = self.module(module)
            else:
                known = not cls.__flags__ & HEAP_TYPE  # no module, and not made by a class statement
            self._classes[cls] = known
        return known

    def owns(self, obj: types.FunctionType | type) -> bool:
        """Whether a function or class is library code."""
        return self.cls(obj) if isinstance(obj, type) else self.file(obj.__code__.co_filename)


def _dotted(path: str) -> str:
    """The dotted name of a file below a folder of modules."""
    *folders, last = path.split("/")
    stem = last.partition(".")[0]
    return ".".join(folders if stem == "__init__" else [*folders, stem])


def setting_of(obj: Any) -> LibrarySetting | None:
    """The setting on which the answer of a library's function or class depends."""
    module, name = getattr(obj, "__module__", None), getattr(obj, "__name__", None)
    owner = getattr(obj, "__self__", None)
    if not isinstance(module, str) and isinstance(owner, types.ModuleType):
        module = owner.__name__
    if not callable(obj) or not isinstance(module, str) or not isinstance(name, str):
        return None
    found = verdict(f"{module}.{name}")
    return found if isinstance(found, LibrarySetting) else None


def impurity(obj: Any) -> Refusal | None:
    """The reason why a library's class or function is impure, or None."""
    if isinstance(obj, type):
        why = impure(f"{obj.__module__}.{obj.__name__}") if isinstance(obj.__module__, str) else None
        if obj is weakref.finalize:  # keeps what it is given
            return why
        return None if why in (Refusal.CALLS_INTERPRETER, Refusal.CALLS_SYSTEM) else why
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
    if module == "builtins":
        return IMPURE_BUILTINS.get(name) if getattr(builtins, name, None) is obj else None
    return impure(f"{module}.{name}")


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
