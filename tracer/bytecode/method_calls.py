"""Calls of the methods of plain arrays, as runs that are made line by line see them.

``X.dot(w)`` of a NumPy array is C code that knows no protocol.  Before such a call is made with a traced argument, the
callable on the stack of its frame is exchanged for a function that takes traced values.  The stack lies in the
interpreter's frame; its layout is known for CPython 3.11, and elsewhere nothing is exchanged.
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

from .concretize import instructions_of

PLAIN_METHODS: dict[str, Any] = {}  # name -> the function that takes the array and traced arguments
_WORD = ctypes.sizeof(ctypes.c_void_p)
_FRAME = object.__basicsize__ + _WORD  # in a frame object: the head, the calling frame, then the interpreter's frame
_CODE, _OBJECT, _SIZE, _STACK = 4 * _WORD, 5 * _WORD, 8 * _WORD, 9 * _WORD  # in the interpreter's frame
_KNOWN = sys.implementation.name == "cpython" and sys.version_info[:2] == (3, 11)


@lru_cache(maxsize=1024)
def method_calls(code: CodeType) -> dict[int, int]:
    """The number of arguments of each call in *code*, by its offset, that may be one of ``PLAIN_METHODS``."""
    if not _KNOWN or PLAIN_METHODS.keys().isdisjoint(code.co_names):
        return {}
    return {i.offset: i.arg or 0 for i in instructions_of(code).all if i.opname == "PRECALL" and i.arg}


def exchange(frame: FrameType, count: int, is_traced: Any) -> bool:
    """Whether the callable of the call with *count* arguments, which *frame* is about to make, has been exchanged: it
    is a method of a plain array, and an argument is traced."""
    inner = ctypes.c_size_t.from_address(id(frame) + _FRAME).value

    def word(offset: int) -> int:
        return ctypes.c_size_t.from_address(inner + offset).value

    if word(_CODE) != id(frame.f_code) or word(_OBJECT) != id(frame):
        return False
    code = frame.f_code
    fixed = len({*code.co_varnames, *code.co_cellvars}) + len(code.co_freevars)
    size = ctypes.c_int.from_address(inner + _SIZE).value
    if not count + 2 <= size - fixed <= code.co_stacksize:
        return False
    place = _STACK + (size - count - 2) * _WORD  # the callable, the array, the arguments
    if not word(place):
        return False
    method, array, *args = (_object(word(place + k * _WORD)) for k in range(count + 2))
    ours = PLAIN_METHODS.get(getattr(method, "__name__", ""))
    if ours is None or method is not getattr(np.ndarray, method.__name__) or type(array) is not np.ndarray:
        return False
    if not any(map(is_traced, args)):
        return False
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(ours))
    ctypes.c_size_t.from_address(inner + place).value = id(ours)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(method))  # the reference of the stack
    return True


def _object(address: int) -> Any:
    return ctypes.cast(address, ctypes.py_object).value
