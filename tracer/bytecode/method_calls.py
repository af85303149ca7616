"""Calls of the methods of plain arrays, as runs that are made line by line see them.

``X.dot(w)`` of a NumPy array is C code that knows no protocol.  Before such a call is made with a traced argument, the
callable on the stack of its frame is exchanged for a function that takes traced values; so is a method that is loaded
as a value (``map(X.dot, ws)``).  The stack lies in the interpreter's frame; its layout is known for CPython 3.11, and
elsewhere nothing is exchanged.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from functools import lru_cache
from types import BuiltinMethodType, CodeType, FrameType
from typing import Any

import numpy as np

from .concretize import instructions_of
from .versions import PYTHON

PLAIN_METHODS: dict[str, Any] = {}  # name -> the function that takes the array and traced arguments
_WORD = ctypes.sizeof(ctypes.c_void_p)
_FRAME = object.__basicsize__ + _WORD  # in a frame object: the head, the calling frame, then the interpreter's frame
_CODE, _OBJECT, _SIZE, _STACK = 4 * _WORD, 5 * _WORD, 8 * _WORD, 9 * _WORD  # in the interpreter's frame
_KNOWN = PYTHON is not None and PYTHON.stack


@lru_cache(maxsize=1024)
def method_calls(code: CodeType) -> dict[int, int]:
    """The number of arguments of each call in *code*, by its offset, that may be one of ``PLAIN_METHODS``."""
    if not _KNOWN or PLAIN_METHODS.keys().isdisjoint(code.co_names):
        return {}
    return {i.offset: i.arg or 0 for i in instructions_of(code).all if i.opname == "PRECALL" and i.arg}


@lru_cache(maxsize=1024)
def method_loads(code: CodeType) -> frozenset[int]:
    """The offsets behind loads of methods, that may be one of ``PLAIN_METHODS``, as values."""
    if not _KNOWN or PLAIN_METHODS.keys().isdisjoint(code.co_names):
        return frozenset()
    pairs = itertools.pairwise(instructions_of(code).all)
    return frozenset(after.offset for i, after in pairs if i.opname == "LOAD_ATTR" and i.argval in PLAIN_METHODS)


def exchange(frame: FrameType, count: int, is_traced: Any) -> bool:
    """Whether the callable of the call with *count* arguments, which *frame* is about to make, has been exchanged: it
    is a method of a plain array, and an argument is traced."""
    place = _from_top(frame, count + 2)  # the callable, the array, the arguments
    if place is None or not _word(place):
        return False
    method, array, *args = (_object(_word(place + k * _WORD)) for k in range(count + 2))
    ours = PLAIN_METHODS.get(getattr(method, "__name__", ""))
    if ours is None or method is not getattr(np.ndarray, method.__name__) or type(array) is not np.ndarray:
        return False
    if not any(map(is_traced, args)):
        return False
    _put(place, ours)
    return True


def exchange_value(frame: FrameType, either: Callable[[Any, Any], Any]) -> None:
    """Exchange the method of a plain array that *frame* has loaded, if it has, for what *either* makes of it and of the
    function that takes traced values."""
    place = _from_top(frame, 1)
    method = None if place is None or not _word(place) else _object(_word(place))
    if place is not None and type(method) is BuiltinMethodType and type(method.__self__) is np.ndarray:
        ours = PLAIN_METHODS.get(method.__name__)
        if ours is not None:
            _put(place, either(method, ours))


def _from_top(frame: FrameType, count: int) -> int | None:
    """The address of the *count*-th entry from the top of the stack of *frame*; None where it is not known."""
    inner = _word(id(frame) + _FRAME)
    if _word(inner + _CODE) != id(frame.f_code) or _word(inner + _OBJECT) != id(frame):
        return None
    code = frame.f_code
    fixed = len({*code.co_varnames, *code.co_cellvars}) + len(code.co_freevars)
    size = ctypes.c_int.from_address(inner + _SIZE).value
    if not count <= size - fixed <= code.co_stacksize:
        return None
    return inner + _STACK + (size - count) * _WORD


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _put(place: int, value: Any) -> None:
    """Put *value* in the place of what the stack holds there."""
    before = _object(_word(place))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    ctypes.c_size_t.from_address(place).value = id(value)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(before))  # the reference of the stack


def _object(address: int) -> Any:
    return ctypes.cast(address, ctypes.py_object).value
