"""Builtins as recorded code sees them.

``type(t)`` and ``float(t)`` are answered by C from the object itself, which is our stand-in: no method of it is asked.
So a frame of recorded code that uses such a name is shown other builtins when it begins (``show``, called for each
new frame while a run is recorded).  There a name that is *called* is the function of ``CALLED``, which answers for the
value that the caller passed; as a value (``type(x) is float``, ``isinstance(x, float)``) it is Python's own, or that of
``VALUES``.  Nothing of the user's is changed: functions, globals and the real builtins stay as they are.

The pointer to its builtins lies in the interpreter's frame, beside that to its globals; where it is not found there,
``available`` is False."""

from __future__ import annotations

import builtins
import ctypes
import dis
import sys
from types import CodeType, FrameType
from typing import Any

CALLED: dict[str, Any] = {}  # name -> the object that a call of it finds
SOMETIMES: dict[str, Any] = {}  # name -> whether its entry in CALLED counts now; else it is Python's own
VALUES: dict[str, Any] = {}  # name -> the object that other uses of it find, where it is not Python's own
_REAL = vars(builtins)
_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_IS_OP = dis.opmap["IS_OP"]
_WORD = ctypes.sizeof(ctypes.c_void_p)
_FRAME = object.__basicsize__ + _WORD  # in a frame object: the head, the calling frame, then the interpreter's frame
_MOST_WORDS = 8  # how far down in the interpreter's frame the builtins may lie


class _Shown(dict):
    """The builtins of a frame.  Its contents are read by C alone (``__import__``); names are looked up here."""

    def __getitem__(self, name: str) -> Any:
        if name in CALLED:
            frame = sys._getframe(1)
            code, at = frame.f_code.co_code, frame.f_lasti
            if code[at] == _LOAD_GLOBAL and code[at + 1] & 1:  # with a NULL beside it: to be called
                return CALLED[name] if name not in SOMETIMES or SOMETIMES[name]() else _REAL[name]
            if name in VALUES and _IS_OP not in _following(frame.f_code, at):
                return VALUES[name]
        return _REAL[name]


def _following(code: CodeType, at: int) -> bytes:
    """The opcode of the instruction after the LOAD_GLOBAL at *at*."""
    rest = code.co_code[at + 2 :: 2]
    return rest[:1] if not rest or rest[0] else rest.lstrip(b"\0")[:1]


_shown = _Shown(_REAL)


def asks(code: CodeType) -> bool:
    """Whether a frame of *code* is to be shown other builtins."""
    return not CALLED.keys().isdisjoint(code.co_names)


def show(frame: FrameType) -> None:
    """Show *frame*, which has just begun, the builtins of recorded code."""
    if _offset is not None and frame.f_builtins is _REAL:
        inner = ctypes.c_size_t.from_address(id(frame) + _FRAME).value
        place = ctypes.c_size_t.from_address(inner + _offset)
        if place.value == id(_REAL):
            place.value = id(_shown)  # a borrowed reference, to what lives as long as the process


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
