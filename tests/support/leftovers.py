"""Objects of a recording that stand in the user's own ones after a call: a search through all that can be reached.

    assert not leftovers({"state": state, "f": f, "module": sys.modules["mine"]})

Names of namespaces, attributes and slots, items, keys, members, cells, defaults, class dicts, modules of the user's,
caches, iterators, generators that wait, arguments of exceptions, fields of arrays of objects, data of tensors: what
has no branch of its own here is taken apart as the garbage collector does.  Nothing is called on what is found, since
a stand-in would answer.  A hit is a text, the way to what stands there and its class.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

ROOMS = ("tracer", "codegen", "runtime")
# modules of these rooms whose objects and functions are the users' own to keep
_PUBLIC = (
    "runtime.ahead_of_time", "runtime.compiled", "runtime.config", "runtime.declare", "runtime.inspection",
    "runtime.memo",
    "runtime.profiling", "runtime.report", "runtime.stats", "runtime.transforms", "runtime.wrapper", "tracer.ir.aval",
    "tracer.ir.errors", "tracer.ir.refusals", "tracer.ir.shape_struct", "tracer.ir.site", "tracer.random",
    "tracer.rules", "tracer.control.branches", "tracer.control.scan", "tracer.control.while_loop",
    "tracer.numpy_api.creation",
)  # fmt: skip
_PLAIN = (int, float, complex, bool, bytes, type(None), range, types.CodeType, np.generic, np.dtype, np.ufunc)
_DIGITS = "773160549814"  # of the numbers that C code writes in place of a traced one (shown_text.py)
_LIBRARIES = (os.path.dirname(os.__file__), "site-packages", "dist-packages")
_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")


def leftovers(roots: dict[str, Any], most: int = 200_000) -> list[str]:
    """The places in what *roots* (by their names) lead to where an object of a recording stands; at most *most*
    objects are looked at."""
    found: list[str] = []
    seen: dict[int, Any] = {}  # id of an object -> it, so that no other one gets its id
    queue: deque[tuple[str, Any]] = deque(roots.items())
    while queue and len(seen) < most:
        place, value = queue.popleft()
        kind = type(value)
        if kind in (str, float, int):
            if (kind is str and "<traced" in value) or is_mark(value):
                found.append(f"{place}: the text or number {value!r}, a mark")
            continue
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if is_ours(value):
            found.append(f"{place}: {kind.__qualname__}")
        else:
            queue.extend(_parts(place, value))
    return found


def is_ours(value: Any) -> bool:
    """Whether *value* is of no use outside a recording: a stand-in, or one of our functions under a user's name."""
    kind = type(value)
    if kind.__name__ in ("LiveFrame", "PythonFor", "AskedWhile"):  # of a generator that goes on
        return False
    module = _name(kind.__module__)
    if kind is types.FunctionType:
        module = _name(value.__module__) if _name(value.__module__) != "tracer.numpy_api" else ""
    return module.partition(".")[0] in ROOMS and not module.startswith(_PUBLIC)


def is_mark(value: Any) -> bool:
    """Whether a number, or a text with one, is that which stands for a traced number in a text."""
    return _DIGITS in str(value).replace(".", "") if type(value) is not int or value.bit_length() < 4000 else False


def _name(module: Any) -> str:
    return module.removeprefix("tracegrad.") if type(module) is str and module.startswith("tracegrad.") else ""


def _parts(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The objects that *value* holds, with the ways to them."""
    kind = type(value)
    if kind in _PLAIN or (issubclass(kind, _PLAIN) and not hasattr(value, "__dict__")):
        return
    if issubclass(kind, types.ModuleType):
        if not _of_library(value):
            yield from _entries(place, vars(value))
        return
    if issubclass(kind, type):
        if not _library_file(sys.modules.get(value.__module__)) or value.__module__ == "__main__":
            yield from _entries(place, dict(type.__dict__["__dict__"].__get__(value)))
            yield from ((f"{place}.__bases__", base) for base in value.__bases__)
        return
    if kind is types.FunctionType:
        yield from _of_function(place, value)
        return
    if _name(kind.__module__).startswith("tensors."):
        yield f"{place}._data", getattr(value, "_data", None)
        return
    if kind.__module__.partition(".")[0] == "tracegrad":  # a compiled function, which holds its recordings
        yield f"{place}.__wrapped__", getattr(value, "__wrapped__", None)
        return
    yield from _of_object(place, value)


def _of_function(place: str, fn: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for k, cell in enumerate(fn.__closure__ or ()):
        name = fn.__code__.co_freevars[k] if k < len(fn.__code__.co_freevars) else k
        yield f"{place}<{name}>", cell
    yield f"{place}.__defaults__", fn.__defaults__
    yield f"{place}.__kwdefaults__", fn.__kwdefaults__
    yield from _entries(place, vars(fn))
    if not _library_path(fn.__code__.co_filename):
        names = {n for code in _codes(fn.__code__) for n in code.co_names}
        yield from ((f"global {n}", fn.__globals__[n]) for n in names if n in fn.__globals__)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


def _of_object(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    if issubclass(kind, dict):
        yield from _entries(place, value, item=True)
    elif issubclass(kind, tuple | list | deque):
        over = tuple if issubclass(kind, tuple) else list if issubclass(kind, list) else deque
        yield from ((f"{place}[{k}]", part) for k, part in enumerate(over.__iter__(value)))
    elif issubclass(kind, set | frozenset):
        over = set if issubclass(kind, set) else frozenset
        yield from ((f"a member of {place}", part) for part in over.__iter__(value))
    elif issubclass(kind, np.ndarray):
        if value.dtype.hasobject:
            yield from ((f"{place}.flat[{k}]", part) for k, part in enumerate(np.asarray(value).ravel().tolist()))
    elif kind is types.FrameType:
        yield from _entries(place, dict(value.f_locals))
        return
    elif issubclass(kind, BaseException):
        yield f"{place}.args", value.args
        yield from ((f"{place}.{n}", getattr(value, n)) for n in ("__cause__", "__context__"))
    store = object.__getattribute__(value, "__dict__") if _has_store(value) else None
    if type(store) is dict:
        yield from _entries(place, store)
    if not issubclass(kind, dict | tuple | list | deque | set | frozenset | np.ndarray | BaseException):
        # slots, iterators, partials, methods, caches, generators, cells, views of dicts
        yield from ((f"{place}->", part) for part in gc.get_referents(value) if part is not kind and part is not store)
    elif not issubclass(kind, BaseException):
        for base in kind.__mro__:
            for name, member in vars(base).items():
                if type(member) is types.MemberDescriptorType and base.__module__ != "builtins":
                    yield f"{place}.{name}", _read(member, value)


def _read(member: Any, value: Any) -> Any:
    try:
        return member.__get__(value)
    except AttributeError:
        return None


def _has_store(value: Any) -> bool:
    if type(value) is functools.partial:  # who asks one for it gives it one
        return False
    try:
        object.__getattribute__(value, "__dict__")
    except AttributeError:
        return False
    return True


def _entries(place: str, entries: Any, item: bool = False) -> Iterator[tuple[str, Any]]:
    for key, part in list(dict.items(entries) if isinstance(entries, dict) else entries.items()):
        plain = type(key) in (str, int, float, bool)
        if not (type(key) is str and not item):
            yield f"a key of {place}", key
        elif "<traced" in key or is_mark(key):
            yield f"a name in {place}", key
        yield (f"{place}[{key!r}]" if item or not plain else f"{place}.{key}") if plain else f"{place}[...]", part


def _of_library(module: types.ModuleType) -> bool:
    top = module.__name__.partition(".")[0]
    return top in sys.stdlib_module_names or top in ("tracegrad", "numpy", "scipy") or _library_file(module)


def _library_file(module: Any) -> bool:
    if module is None:
        return False
    top = getattr(module, "__name__", "").partition(".")[0]
    if top == "__main__":
        return False
    return top in sys.stdlib_module_names or top == "tracegrad" or _library_path(getattr(module, "__file__", "") or "")


def _library_path(path: str) -> bool:
    inside = path.startswith(_OWN) and not path.startswith(os.path.join(_OWN, "tests"))
    return inside or any(part in path for part in _LIBRARIES)
