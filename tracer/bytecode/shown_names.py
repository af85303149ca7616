"""Builtins as recorded code sees them.

``type(t)`` and ``float(t)`` are answered by C from the object itself, which is our stand-in: no method of it is asked.
So a frame of recorded code that uses such a name is shown other builtins when it begins (``show``, called for each
new frame while a run is recorded).  There a name that is *called* is the function of ``CALLED``, which answers for the
value that the caller passed; as a value (``type(x) is float``, ``isinstance(x, float)``) it is Python's own, or that of
``VALUES``.  Nothing of the user's is changed: functions, globals and the real builtins stay as they are.

Where such code calls a function of a module by name (``np.zeros(n)``), its frame is shown other globals in the same
way, which know the functions of ``CALLED_OF``; where it imports the module itself, it gets a stand-in for that.  Some
count only in calls where the code shows that they are given a list.

The pointer to its builtins lies in the interpreter's frame, beside that to its globals; where it is not found there,
nothing is shown."""

from __future__ import annotations

import builtins
import ctypes
import dis
import gc
import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

from ..ir.forks import lock
from ..ir.interrupts import kept
from ..ir.site import FOR_THE_USER
from .concretize import Called, instructions_of
from .versions import PYTHON

CALLED: dict[str, Any] = {}  # name -> the object that a call of it finds
SOMETIMES: dict[str, Any] = {}  # name -> whether its entry in CALLED counts now; else it is Python's own
SPARED = {"len"}  # names of CALLED for which alone no frame need be shown others: they count in few runs
VALUES: dict[str, Any] = {}  # name -> the object that other uses of it find, where it is not Python's own
METHODS_OF: dict[str, Any] = {}  # name of a class -> the object whose attributes are called (`float.hex(t)`)
CALLED_OF: dict[int, tuple[Any, Any]] = {}  # id of a module -> (it, the functions that calls of its names find)
OBJECTS: dict[type, Any] = {}  # a class in C -> the function that makes what stands for an instance of it
CALLED_AS: dict[int, tuple[Any, Any]] = {}  # id of a function or class -> (it, the object that a call of it finds)
_for_lists: set[int] = set()  # ids of objects that only calls with a list find
_names: set[str] = set()  # of the functions that any call finds
_REAL = vars(builtins)
_OWN = dict(_REAL)  # as they were at import: what someone has put in their place since is found as it is
_IS_OP = dis.opmap["IS_OP"]
_WORD = ctypes.sizeof(ctypes.c_void_p)
_FRAME = object.__basicsize__ + _WORD  # in a frame object: the head, the calling frame, then the interpreter's frame
_GLOBALS_OF_FUNCTION = object.__basicsize__
_MOST_WORDS = 8  # how far down in the interpreter's frame the builtins may lie


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
    _global_calls.cache_clear()


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


class _Globals(dict):
    """The globals of a frame, read from those *below*; the contents are read by C alone."""

    def __init__(self, below: dict[str, Any]) -> None:
        super().__init__((name, below[name]) for name in READ_BY_C if name in below)
        self._below = below

    def __getitem__(self, name: str) -> Any:
        return as_called(self._below[name], sys._getframe(1))

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


def is_known_module(value: Any) -> bool:
    """Whether *value* is a module of functions that can be known as values."""
    known = CALLED_OF.get(id(value))
    return known is not None and known[0] is value and value.__name__.partition(".")[0] in _MODULES_OF_VALUES


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


def _calls_by_name(code: CodeType, space: dict[str, Any]) -> bool:
    """Whether *code* calls what ``CALLED_OF`` and ``CALLED_AS`` know, by names of its globals *space*, and does nothing
    else with these than read names."""
    for name, called in _global_calls(code):
        value = space.get(name)
        known = CALLED_AS.get(id(value))
        if known is not None and known[0] is value and _leads(called.through, known[1]) and _counts(known[1], called):
            return True
        of = CALLED_OF.get(id(value))
        if of is not None and called.through and _is_known(of, called):
            return True
    return False


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
def _global_calls(code: CodeType) -> frozenset[tuple[str, Called]]:
    """(name, call) of what *code* calls by names of its globals."""
    if not _reads_only(code):
        return frozenset()
    found = instructions_of(code)
    return frozenset((found.all[found.index[at]].argval, called) for at, called in _counting(code).items())


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


@lru_cache(maxsize=4096)
def _imports(code: CodeType) -> frozenset[str]:
    """The modules that *code* imports."""
    return frozenset([i.argval for i in instructions_of(code).all if i.opname == "IMPORT_NAME"])


_MODULES_OF_VALUES = frozenset(("math", "cmath", "numpy", "statistics"))
READ_BY_C = ("__builtins__", "__name__", "__package__", "__spec__", "__file__", "__loader__")
_READERS = frozenset(("globals", "eval", "exec", "warn_explicit", "_getframe"))
_OF_LOCALS = frozenset(("locals", "vars", "dir"))  # which are the globals in a module's code
_USERS = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_BUILD_CLASS", "LOAD_NAME"))
_lock = lock()
_spaces: dict[int, _Globals] = {}  # by id of the globals of a module; kept, since frames borrow them
_passing: list[_Globals] = []  # over the globals of no module, shown since the last `release`
_OVER = "__tracegrad_globals__"  # the name in such globals of what is shown over them
RECORDED_BUILTINS = _Shown(_REAL)
dict.__setitem__(RECORDED_BUILTINS, "__import__", _import)  # which C reads


def asks(code: CodeType, space: dict[str, Any]) -> bool:
    """Whether a frame of *code*, with the globals *space*, is to be shown other names."""
    if not (CALLED.keys() - SPARED).isdisjoint(code.co_names) or _calls_by_name(code, space):
        return True
    return any(id(sys.modules.get(name)) in CALLED_OF for name in _imports(code))


@lru_cache(maxsize=4096)
def nested(code: CodeType) -> tuple[CodeType, ...]:
    """*code* and those of the functions in it."""
    return (code, *[found for const in code.co_consts if isinstance(const, CodeType) for found in nested(const)])


def show(frame: FrameType) -> None:
    """Show *frame*, which has just begun, the names of recorded code."""
    if _offset is None or frame.f_builtins is not _REAL:
        return
    inner = ctypes.c_size_t.from_address(id(frame) + _FRAME).value
    place = ctypes.c_size_t.from_address(inner + _offset)
    if place.value != id(_REAL):
        return
    place.value = id(RECORDED_BUILTINS)  # a borrowed reference, to what lives as long as the process
    space = frame.f_globals
    if type(space) is dict and _calls_by_name(frame.f_code, space):
        ctypes.c_size_t.from_address(inner + _offset - _WORD).value = id(_globals_over(space))


def _globals_over(space: dict[str, Any]) -> _Globals:
    """The globals that frames are shown in place of *space*, and borrow: they live as long as these do."""
    known = _spaces.get(id(space))
    if known is not None and known._below is space:
        return known
    with _lock:  # frames of one thread would borrow what another one replaces
        module = sys.modules.get(space.get("__name__", ""))
        if module is not None and vars(module) is space:
            return _spaces.setdefault(id(space), _Globals(space))  # which keeps *space*, and so its id
        known = space.get(
            _OVER
        )  # of code that was executed (doctests, unpickled functions): nothing else lives as long
        if type(known) is not _Globals or known._below is not space:
            known = space[_OVER] = _Globals(space)
        _passing.append(known)
        return known


def shown_builtins(code: CodeType, space: dict[str, Any]) -> dict[str, Any]:
    """The builtins that a frame of *code* will find, with the globals *space*."""
    return RECORDED_BUILTINS if _offset is not None and asks(code, space) else _REAL


def release() -> None:
    """Give the functions that shown code has made their real globals, which are those of a run otherwise."""
    with _lock:  # two threads that give a function its globals would count one reference twice
        passing = {id(known): known for known in _passing}
        _passing.clear()
        for key in list(_spaces):
            _release(_spaces[key])
        while passing:
            _release(passing.popitem()[1])


def _release(space: _Globals) -> None:
    if _references(space) > _UNSHARED:
        for function in gc.get_referrers(space):
            if type(function) is FunctionType and function.__globals__ is space:
                real = space._below
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(real))
                ctypes.c_size_t.from_address(id(function) + _GLOBALS_OF_FUNCTION).value = id(real)
                ctypes.pythonapi.Py_DecRef(ctypes.py_object(space))


def is_shown(frame: FrameType) -> bool:
    """Whether *frame* finds the builtins of recorded code."""
    return frame.f_builtins is RECORDED_BUILTINS


def _find_offset() -> int | None:
    """Where in the interpreter's frame the pointer to its builtins lies, behind that to its globals; None where that,
    or the place of a function's globals, can't be told."""
    if PYTHON is None or ctypes.c_size_t.from_address(id(show) + _GLOBALS_OF_FUNCTION).value != id(globals()):
        return None
    frame = sys._getframe()
    inner = ctypes.c_size_t.from_address(id(frame) + _FRAME).value
    if not 4096 < inner < 1 << 48 or inner % _WORD:
        return None
    words = (ctypes.c_size_t * _MOST_WORDS).from_address(inner)
    for k in range(1, _MOST_WORDS):
        if words[k] == id(_REAL) and words[k - 1] == id(frame.f_globals):
            return k * _WORD
    return None


def _references(space: _Globals) -> int:
    return sys.getrefcount(space)


def _unshared() -> int:
    """The references to the globals of shown frames where no function has them."""
    held = [_Globals({})]
    space = held[0]
    return _references(space)


_offset, _UNSHARED = _find_offset(), _unshared()
