"""Builtins as recorded code sees them.

``type(t)`` and ``float(t)`` are answered by C from the object itself, which is our stand-in: no method of it is asked.
So a frame of recorded code that uses such a name is shown other builtins when it begins (``show``, called for each
new frame while a run is recorded).  There a name that is *called* is the function of ``CALLED``, which answers for the
value that the caller passed; as a value (``type(x) is float``, ``isinstance(x, float)``) it is Python's own, or that of
``VALUES``.  Nothing of the user's is changed: functions, globals and the real builtins stay as they are.

Where such code calls a function of a module by name (``np.float64(t)``), its frame is shown other globals in the same
way, which know the functions of ``CALLED_OF``.

The pointer to its builtins lies in the interpreter's frame, beside that to its globals; where it is not found there,
``available`` is False."""

from __future__ import annotations

import builtins
import ctypes
import dis
import sys
from functools import lru_cache
from types import CodeType, FrameType, ModuleType, SimpleNamespace
from typing import Any

from .concretize import instructions_of

CALLED: dict[str, Any] = {}  # name -> the object that a call of it finds
SOMETIMES: dict[str, Any] = {}  # name -> whether its entry in CALLED counts now; else it is Python's own
SPARED = {"len"}  # names of CALLED for which alone a frame need not be shown others: it counts in few runs
VALUES: dict[str, Any] = {}  # name -> the object that other uses of it find, where it is not Python's own
METHODS_OF: dict[str, Any] = {}  # name of a class -> the object whose attributes are called (`float.hex(t)`)
CALLED_OF: dict[int, tuple[Any, Any]] = {}  # id of a module -> (it, the functions that calls of its names find)
CALLED_AS: dict[int, tuple[Any, Any]] = {}  # id of a function or class -> (it, the object that a call of it finds)
_REAL = vars(builtins)
_OWN = dict(_REAL)  # as they were at import: what someone has put in their place since is found as it is
_IS_OP = dis.opmap["IS_OP"]
_WORD = ctypes.sizeof(ctypes.c_void_p)
_FRAME = object.__basicsize__ + _WORD  # in a frame object: the head, the calling frame, then the interpreter's frame
_MOST_WORDS = 8  # how far down in the interpreter's frame the builtins may lie


def show_functions(module: ModuleType, functions: dict[str, Any]) -> None:
    """Let calls of these names of the *module*, or of what they are there, find these *functions*."""
    CALLED_OF[id(module)] = module, SimpleNamespace(**functions)
    for name, function in functions.items():
        plain = getattr(module, name)
        CALLED_AS[id(plain)] = plain, function


class _Shown(dict):
    """The builtins of a frame.  Its contents are read by C alone (``__import__``); names are looked up here."""

    def __getitem__(self, name: str) -> Any:
        if name in CALLED and _REAL.get(name) is _OWN[name]:
            frame = sys._getframe(1)
            through = _called(frame.f_code).get(frame.f_lasti)
            if through == ():
                return CALLED[name] if name not in SOMETIMES or SOMETIMES[name]() else _REAL[name]
            if through is not None and name in METHODS_OF:
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
        super().__init__((name, below[name]) for name in _READ_BY_C if name in below)
        self._below = below

    def __getitem__(self, name: str) -> Any:
        return as_called(self._below[name], sys._getframe(1))

    def __contains__(self, name: object) -> bool:
        return name in self._below

    def get(self, name: str, default: Any = None) -> Any:
        return self._below.get(name, default)


def as_called(value: Any, frame: FrameType) -> Any:
    """The object that *frame* finds, where it loads *value* from its globals."""
    of, known = CALLED_OF.get(id(value)), CALLED_AS.get(id(value))
    if of is None and known is None:
        return value
    through = _called(frame.f_code).get(frame.f_lasti)
    if of is not None:
        return of[1] if through is not None and len(through) == 1 and _is_known(of, through[0]) else value
    return known[1] if known is not None and through == () else value


@lru_cache(maxsize=4096)
def _called(code: CodeType) -> dict[int, tuple[str, ...]]:
    """The attributes through which each LOAD_GLOBAL, by its offset, leads to what a call calls."""
    return instructions_of(code).called()


def _calls_by_name(code: CodeType, space: dict[str, Any]) -> bool:
    """Whether *code* calls what ``CALLED_OF`` and ``CALLED_AS`` know, by names of its globals *space*, and does nothing
    else with these than read names."""
    for name, attribute in _global_calls(code):
        value = space.get(name)
        if attribute is None and id(value) in CALLED_AS and CALLED_AS[id(value)][0] is value:
            return True
        of = CALLED_OF.get(id(value))
        if of is not None and attribute is not None and _is_known(of, attribute):
            return True
    return False


def _is_known(of: tuple[Any, Any], name: str) -> bool:
    """Whether calls of a module's function are answered by ours, which is that of *name* unless someone has put another
    one there."""
    module, functions = of
    known = CALLED_AS.get(id(getattr(module, name, None)))
    return known is not None and known[1] is getattr(functions, name, None)


@lru_cache(maxsize=4096)
def _global_calls(code: CodeType) -> frozenset[tuple[str, str | None]]:
    """(name, attribute or None) of the globals, and of their attributes, that *code* calls by name."""
    if _uses_globals(code):
        return frozenset()
    found = instructions_of(code)
    return frozenset(
        (found.all[found.index[at]].argval, through[0] if through else None)
        for at, through in _called(code).items()
        if len(through) <= 1
    )


def _uses_globals(code: CodeType) -> bool:
    """Whether something may keep the globals that a frame of *code* is shown, or read them as a dict."""
    if not _READERS.isdisjoint(code.co_names) or any(i.opname in _USERS for i in instructions_of(code).all):
        return True
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return any(c.co_name not in _COMPREHENSIONS or _uses_globals(c) for c in inner)


_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # functions that nobody can keep
_READ_BY_C = ("__builtins__", "__name__", "__package__", "__spec__", "__file__", "__loader__")
_READERS = frozenset(("globals", "locals", "vars", "dir", "eval", "exec", "warn_explicit", "_getframe"))
_USERS = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME", "LOAD_BUILD_CLASS", "LOAD_NAME"))
_spaces: dict[int, _Globals] = {}  # by id of the globals of a module; kept, since frames borrow them
_shown = _Shown(_REAL)


def asks(code: CodeType, space: dict[str, Any]) -> bool:
    """Whether a frame of *code*, with the globals *space*, is to be shown other names."""
    return not (CALLED.keys() - SPARED).isdisjoint(code.co_names) or _calls_by_name(code, space)


def show(frame: FrameType) -> None:
    """Show *frame*, which has just begun, the names of recorded code."""
    if _offset is None or frame.f_builtins is not _REAL:
        return
    inner = ctypes.c_size_t.from_address(id(frame) + _FRAME).value
    place = ctypes.c_size_t.from_address(inner + _offset)
    if place.value != id(_REAL):
        return
    place.value = id(_shown)  # a borrowed reference, to what lives as long as the process
    space = frame.f_globals
    if type(space) is dict and _calls_by_name(frame.f_code, space):
        module = sys.modules.get(space.get("__name__", ""))
        if module is not None and vars(module) is space:
            known = _spaces.get(id(space))
            if known is None:
                known = _spaces[id(space)] = _Globals(space)
            ctypes.c_size_t.from_address(inner + _offset - _WORD).value = id(known)


def shown_builtins(code: CodeType, space: dict[str, Any]) -> dict[str, Any]:
    """The builtins that a frame of *code* will find, with the globals *space*."""
    return _shown if _offset is not None and asks(code, space) else _REAL


def is_shown(frame: FrameType) -> bool:
    """Whether *frame* finds the builtins of recorded code."""
    return frame.f_builtins is _shown


def available() -> bool:
    """Whether frames can be shown other builtins in this process."""
    return _offset is not None


def _find_offset() -> int | None:
    """Where in the interpreter's frame the pointer to its builtins lies, behind that to its globals."""
    if sys.implementation.name != "cpython":
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


_offset = _find_offset()
