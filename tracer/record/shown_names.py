"""Builtins and modules as recorded code sees them.

``type(t)`` and ``float(t)`` are answered by C from the object itself, which is our stand-in: no method of it is
asked.  A name that recorded code *calls* is the function of ``CALLED``, which answers for the value that the caller
passed; as a value (``type(x) is float``, ``isinstance(x, float)``) it is Python's own, or that of ``VALUES``.
Functions of modules (``np.zeros(n)``) are those of ``CALLED_OF``.  Some count only in calls where the code shows that
they are given a list.

Copies of the user's code (``tracer/convert``) find these functions by what is called.  Code without a source has no
copy: it runs over globals and builtins that know them (``shown``).
"""

from __future__ import annotations

import builtins
import dis
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

from ..convert.source import parts_of
from ..ir.interrupts import kept
from ..ir.site import FOR_THE_USER

CALLED: dict[str, Any] = {}  # name -> the object that a call of it finds
SOMETIMES: dict[str, Any] = {}  # name -> whether its entry in CALLED counts now; else it is Python's own
VALUES: dict[str, Any] = {}  # name -> the object that other uses of it find, where it is not Python's own
METHODS_OF: dict[str, Any] = {}  # name of a class -> the object whose attributes are called (`float.hex(t)`)
CALLED_OF: dict[int, tuple[Any, Any]] = {}  # id of a module -> (it, the functions that calls of its names find)
OBJECTS: dict[type, Any] = {}  # a class in C -> the function that makes what stands for an instance of it
CALLED_AS: dict[int, tuple[Any, Any]] = {}  # id of a function or class -> (it, the object that a call of it finds)
_for_lists: set[int] = set()  # ids of objects that only calls with a list find
_REAL = vars(builtins)
_OWN = dict(_REAL)  # as they were at import: what someone has put in their place since is found as it is
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_BUILTINS = {id(value): name for name, value in _OWN.items()}


def show_functions(module: ModuleType, functions: dict[str, Any], *, for_lists: bool = False) -> None:
    """Let calls of these names of the *module*, or of what they are there, find these *functions*; *for_lists*: calls
    that are given lists."""
    _for_lists.update(map(id, functions.values()) if for_lists else ())
    known = CALLED_OF.setdefault(id(module), (module, SimpleNamespace()))[1]
    vars(known).update(functions)
    above, _, name = module.__name__.rpartition(".")
    if above in sys.modules and id(sys.modules[above]) in CALLED_OF:  # np.linalg.norm
        show_module(sys.modules[above], name, module)
    for name, function in functions.items():
        plain = getattr(module, name)
        CALLED_AS[id(plain)] = plain, function


def show_module(above: ModuleType, name: str, module: ModuleType) -> None:
    """Let calls through the attribute *name* of the module *above* find the functions of *module*."""
    setattr(CALLED_OF[id(above)][1], name, CALLED_OF[id(module)][1])


class _Shown(dict):
    """The builtins of a frame.  Its contents are read by C alone (``__import__``; from 3.13 on by the method, too);
    names are looked up here."""

    def __getitem__(self, name: str) -> Any:
        if name == "__import__":
            return _import
        if name in CALLED and _REAL.get(name) is _OWN[name]:
            frame = sys._getframe(1)
            if _is_called(frame):
                return CALLED[name] if name not in SOMETIMES or SOMETIMES[name]() else _REAL[name]
            then = _opcode_after(frame)
            if name in METHODS_OF and then in _ATTRIBUTES:
                return METHODS_OF[name]
            if name in VALUES and then != "IS_OP":
                return VALUES[name]
        return _REAL[name]


def _is_called(frame: FrameType) -> bool:
    """Whether what the LOAD_GLOBAL loads, at which *frame* is, is to be called: then it leaves a NULL beside it."""
    return bool(frame.f_code.co_code[frame.f_lasti + 1] & 1)


def _opcode_after(frame: FrameType) -> str:
    """The name of the instruction after the one at which *frame* is."""
    rest = frame.f_code.co_code[frame.f_lasti + 2 :: 2]
    return dis.opname[(rest if not rest or rest[0] else rest.lstrip(b"\0"))[0]] if rest else ""


class ShownGlobals(dict):
    """The globals of a frame, read from those *below*; the contents are read by C alone."""

    def __init__(self, below: dict[str, Any], found: Callable[[Any, bool], Any]) -> None:
        super().__init__((name, below[name]) for name in READ_BY_C if name in below)
        dict.__setitem__(self, "__builtins__", RECORDED_BUILTINS)
        self._below, self._found = below, found

    def __getitem__(self, name: str) -> Any:
        value = self._below[name]
        module = CALLED_OF.get(id(value))
        if module is not None and module[0] is value:
            return _module(value)
        if not _is_called(sys._getframe(1)):
            return self._found(value, False)
        known = CALLED_AS.get(id(value))
        return known[1] if known is not None and known[0] is value else self._found(value, True)

    def __contains__(self, name: object) -> bool:
        return name in self._below

    def get(self, name: str, default: Any = None) -> Any:
        return self._below.get(name, default)


def stand_in(value: Any) -> Any:
    """The object that recorded code finds in place of *value*: an instance of a class of ``OBJECTS``, or a method of
    one."""
    if type(value) in OBJECTS:
        return OBJECTS[type(value)](value)
    owner = value.__self__
    return getattr(OBJECTS[type(owner)](owner), value.__name__)


def own_answer(f: Any) -> Any:
    """The function that recorded code finds in place of *f* (``np.zeros``, ``float``); None for others."""
    known = CALLED_AS.get(id(f))
    if known is not None and known[0] is f:
        return known[1]
    name = _BUILTINS.get(id(f), "")
    return CALLED[name] if name in CALLED and (name not in SOMETIMES or SOMETIMES[name]()) else None


def is_for_lists(ours: Any) -> bool:
    """Whether only calls that are given lists find the function *ours*."""
    return id(ours) in _for_lists


class AsValue:
    """A function that is known, as a value of recorded code: equal to the real one, and called as ours."""

    __slots__ = ("_ours", "_real")

    def __init__(self, real: Any, ours: Any) -> None:
        self._real, self._ours = real, ours

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._ours(*args, **kwargs)

    def plain(self) -> Any:
        """The function itself."""
        return self._real

    def __eq__(self, other: object) -> bool:
        return (other._real if type(other) is AsValue else other) is self._real

    def __hash__(self) -> int:
        return hash(self._real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


_run = threading.local()  # `compiled`: whether functions that numba compiles are run


@contextmanager
def compiled_code() -> Iterator[None]:
    """The context of a compiled function that runs through its source."""
    before, _run.compiled = in_compiled_code(), True
    try:
        yield
    finally:
        _run.compiled = before


def in_compiled_code() -> bool:
    """Whether the code that runs is that of a compiled function."""
    return getattr(_run, "compiled", False)


def _run_again(before: dict[str, bool]) -> None:
    vars(_run).clear()
    vars(_run).update(before)


kept(lambda: dict(vars(_run)), _run_again)


def calling_frame(depth: int) -> FrameType:
    """The frame *depth* levels up, that of the user's code which calls one of ours."""
    frame: Any = sys._getframe(depth + 1)
    while frame.f_code.co_filename in FOR_THE_USER and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_back if frame.f_code is AsValue.__call__.__code__ else frame


@lru_cache(maxsize=4096)
def _reads_only(code: CodeType) -> bool:
    """Whether *code*, and the functions that it makes, do nothing with their globals but read names."""
    return all(
        (_READERS if part.co_flags & inspect.CO_OPTIMIZED else _READERS | _OF_LOCALS).isdisjoint(part.co_names)
        and not any(i.opname in _USERS for i in dis.get_instructions(part))
        for part in parts_of(code)
    )


class KnownModule(ModuleType):
    """A module that recorded code imports: its functions are those that calls by name find."""

    def __init__(self, real: ModuleType) -> None:
        super().__init__(real.__name__, real.__doc__)
        self._real = real

    def __getattribute__(self, name: str) -> Any:
        real = module_of(self)
        found = getattr(real, name)
        if id(found) in CALLED_OF:
            return _module(found)
        ours = getattr(CALLED_OF[id(real)][1], name, None)
        known = CALLED_AS.get(id(found))
        if known is None or known[1] is not ours or isinstance(found, type):
            return found
        return ours

    def __eq__(self, other: object) -> bool:
        return (module_of(other) if type(other) is KnownModule else other) is module_of(self)

    def __hash__(self) -> int:
        return hash(module_of(self))


def module_of(known: KnownModule) -> ModuleType:
    """The module that it stands for."""
    real: ModuleType = object.__getattribute__(known, "_real")
    return real


_modules: dict[int, KnownModule] = {}


def _module(real: ModuleType) -> KnownModule:
    return _modules.setdefault(id(real), KnownModule(real))


def _import(name: str, *args: Any, **kwargs: Any) -> Any:
    """``__import__`` for code that imports what it calls."""
    found = _REAL["__import__"](name, *args, **kwargs)
    return _module(found) if id(found) in CALLED_OF and CALLED_OF[id(found)][0] is found else found


READ_BY_C = ("__builtins__", "__name__", "__package__", "__spec__", "__file__", "__loader__")
_READERS = frozenset(("globals", "eval", "exec", "warn_explicit", "_getframe"))
_OF_LOCALS = frozenset(("locals", "vars", "dir"))  # which are the globals in a module's code
_USERS = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_BUILD_CLASS", "LOAD_NAME"))
RECORDED_BUILTINS = _Shown(_REAL)
dict.__setitem__(RECORDED_BUILTINS, "__import__", _import)  # which C reads


def shown(fn: FunctionType, found: Callable[[Any, bool], Any]) -> FunctionType:
    """*fn*, whose code has no source, over the names of recorded code; *found* gives what stands for another value that
    it finds among its globals, and perhaps calls.  The function itself where it does more with its globals than read
    them by name."""
    if not _reads_only(fn.__code__):
        return fn
    made = FunctionType(fn.__code__, ShownGlobals(fn.__globals__, found), fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__, made.__qualname__, made.__module__ = fn.__kwdefaults__, fn.__qualname__, fn.__module__
    made.__doc__, made.__dict__ = fn.__doc__, fn.__dict__
    return made
