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
from .concretize import Called, instructions_of

CALLED: dict[str, Any] = {}  # name -> the object that a call of it finds
SOMETIMES: dict[str, Any] = {}  # name -> whether its entry in CALLED counts now; else it is Python's own
VALUES: dict[str, Any] = {}  # name -> the object that other uses of it find, where it is not Python's own
METHODS_OF: dict[str, Any] = {}  # name of a class -> the object whose attributes are called (`float.hex(t)`)
CALLED_OF: dict[int, tuple[Any, Any]] = {}  # id of a module -> (it, the functions that calls of its names find)
OBJECTS: dict[type, Any] = {}  # a class in C -> the function that makes what stands for an instance of it
CALLED_AS: dict[int, tuple[Any, Any]] = {}  # id of a function or class -> (it, the object that a call of it finds)
_for_lists: set[int] = set()  # ids of objects that only calls with a list find
_names: set[str] = set()  # of the functions that any call finds
_REAL = vars(builtins)
_OWN = dict(_REAL)  # as they were at import: what someone has put in their place since is found as it is
_BUILTINS = {id(value): name for name, value in _OWN.items()}
_IS_OP = dis.opmap["IS_OP"]


def show_functions(module: ModuleType, functions: dict[str, Any], *, for_lists: bool = False) -> None:
    """Let calls of these names of the *module*, or of what they are there, find these *functions*; *for_lists*: calls
    that are given lists."""
    _names.update(() if for_lists else functions)
    _for_lists.update(map(id, functions.values()) if for_lists else ())
    known = CALLED_OF.setdefault(id(module), (module, SimpleNamespace()))[1]
    vars(known).update(functions)
    above, _, name = module.__name__.rpartition(".")
    if above in sys.modules and id(sys.modules[above]) in CALLED_OF:  # np.linalg.norm
        show_module(sys.modules[above], name, module)
    for name, function in functions.items():
        plain = getattr(module, name)
        CALLED_AS[id(plain)] = plain, function
    _counting.cache_clear()


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
            called = _called(frame.f_code).get(frame.f_lasti)
            if called is not None and not called.through:
                return CALLED[name] if name not in SOMETIMES or SOMETIMES[name]() else _REAL[name]
            if called is not None and name in METHODS_OF:
                return METHODS_OF[name]
            if name in VALUES and _IS_OP not in _following(frame.f_code, frame.f_lasti):
                return VALUES[name]
        return _REAL[name]


def _following(code: CodeType, at: int) -> bytes:
    """The opcode of the instruction after the LOAD_GLOBAL at *at*."""
    rest = code.co_code[at + 2 :: 2]
    return rest[:1] if not rest or rest[0] else rest.lstrip(b"\0")[:1]


class ShownGlobals(dict):
    """The globals of a frame, read from those *below*; the contents are read by C alone."""

    def __init__(self, below: dict[str, Any], found: Callable[[Any, bool], Any]) -> None:
        super().__init__((name, below[name]) for name in READ_BY_C if name in below)
        dict.__setitem__(self, "__builtins__", RECORDED_BUILTINS)
        self._below, self._found = below, found

    def __getitem__(self, name: str) -> Any:
        value, frame = self._below[name], sys._getframe(1)
        known = as_called(value, frame)
        if known is not value:
            return known
        called = _called(frame.f_code).get(frame.f_lasti)
        return self._found(value, called is not None and not called.through)

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

    def __init__(self, real: Any, ours: Any = None) -> None:
        self._real, self._ours = CALLED_AS[id(real)] if ours is None else (real, ours)

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


def as_called(value: Any, frame: FrameType) -> Any:
    """The object that *frame* finds, where it loads *value* from its globals."""
    of, known = CALLED_OF.get(id(value)), CALLED_AS.get(id(value))
    if of is None and known is None:
        return value
    called = _counting(frame.f_code).get(frame.f_lasti)
    if called is None:
        return value
    if of is not None:
        return of[1] if called.through and _is_known(of, called) else value
    return known[1] if known is not None and _leads(called.through, known[1]) and _counts(known[1], called) else value


def _leads(through: tuple[str, ...], ours: Any) -> bool:
    """Whether a call *through* these attributes of what *ours* stands for is one of *ours*, or of a method of it."""
    return not through or (type(ours) is FunctionType and len(through) == 1 and through[0] in vars(ours))


@lru_cache(maxsize=4096)
def _called(code: CodeType) -> dict[int, Called]:
    """The call to which each LOAD_GLOBAL leads, by its offset."""
    return instructions_of(code).called()


@lru_cache(maxsize=4096)
def _counting(code: CodeType) -> dict[int, Called]:
    """Those of ``_called`` that may find what is known, by their last names."""
    found = _called(code)
    return {at: c for at, c in found.items() if c.takes_list or not c.through or c.through[-1] in _names}


def _is_known(of: tuple[Any, Any], called: Called) -> bool:
    """Whether a call of what the attributes of a module lead to is answered by ours, which is that of the
    last name unless someone has put another one there."""
    module, functions = of
    *above, name = called.through
    for part in above:
        found = getattr(module, part, None)
        known = CALLED_AS.get(id(found))
        if known is not None and known[1] is getattr(functions, part, None):  # np.add.reduce
            return part is above[-1] and _leads((name,), known[1]) and _counts(known[1], called)
        module, functions = CALLED_OF.get(id(found), (None, None))
    known = CALLED_AS.get(id(getattr(module, name, None)))
    return known is not None and known[1] is getattr(functions, name, None) and _counts(known[1], called)


def _counts(ours: Any, called: Called) -> bool:
    return called.takes_list or id(ours) not in _for_lists


@lru_cache(maxsize=4096)
def _reads_only(code: CodeType) -> bool:
    """Whether *code*, and the functions that it makes, do nothing with their globals but read names."""
    return all(
        (_READERS if part.co_flags & inspect.CO_OPTIMIZED else _READERS | _OF_LOCALS).isdisjoint(part.co_names)
        and not any(i.opname in _USERS for i in instructions_of(part).all)
        for part in nested(code)
    )


class KnownModule(ModuleType):
    """A module that recorded code imports: its functions are those that calls by name find."""

    def __init__(self, real: ModuleType) -> None:
        super().__init__(real.__name__, real.__doc__)
        self._real = real

    def __getattribute__(self, name: str) -> Any:
        real = object.__getattribute__(self, "_real")
        found = getattr(real, name)
        if id(found) in CALLED_OF:
            return _module(found)
        ours = getattr(CALLED_OF[id(real)][1], name, None)
        known = CALLED_AS.get(id(found))
        if known is None or known[1] is not ours or isinstance(found, type):
            return found
        return ours

    def __eq__(self, other: object) -> bool:
        real = object.__getattribute__(self, "_real")
        return (object.__getattribute__(other, "_real") if type(other) is KnownModule else other) is real

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "_real"))


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


_MODULES_OF_VALUES = frozenset(("math", "cmath", "numpy", "statistics"))
READ_BY_C = ("__builtins__", "__name__", "__package__", "__spec__", "__file__", "__loader__")
_READERS = frozenset(("globals", "eval", "exec", "warn_explicit", "_getframe"))
_OF_LOCALS = frozenset(("locals", "vars", "dir"))  # which are the globals in a module's code
_USERS = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_BUILD_CLASS", "LOAD_NAME"))
RECORDED_BUILTINS = _Shown(_REAL)
dict.__setitem__(RECORDED_BUILTINS, "__import__", _import)  # which C reads


@lru_cache(maxsize=4096)
def nested(code: CodeType) -> tuple[CodeType, ...]:
    """*code* and those of the functions in it."""
    return tuple(parts_of(code))


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
