"""The text of a call: the structure of its arguments, dtypes, shapes and layouts of arrays, types of floats, values of
all else.  It says what the call key says (``record/call_key.py``) of calls with plain arguments, and needs no tracer.
"""

from __future__ import annotations

import enum
import types
from typing import Any

import numpy as np

from ...tracer.ir.class_flags import HEAP_TYPE
from ..disk.encoding import encode
from .library_text import NotStoredError

_VALUES = (type(None), bool, int, str)
_MOST = 1024  # leaves


class CallText:
    """The text of a call with these arguments; ``data`` are their arrays and floats, in the order of optree's leaves,
    and ``objects`` those of the user's classes and functions, which are read like the outside state.

    Raises:
        NotStoredError: some argument is of another kind, or a container occurs twice.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.data: list[Any] = []
        self.objects: list[Any] = []
        self._containers: set[int] = set()
        self.text = encode(("call", self._part(args), self._part(kwargs)))

    def _part(self, x: Any) -> Any:
        kind = type(x)
        if kind is np.ndarray:
            if not (x.dtype.isnative and x.dtype.kind in "fiub"):
                raise NotStoredError(f"an argument is an array of dtype {x.dtype}")
            self._add(x)
            return "array", x.dtype.char, x.shape, x.ndim <= 1 or x.flags.c_contiguous
        if kind is float:
            self._add(x)
            return ("float",)
        if kind in _VALUES:
            return "value", x
        if kind is np.float64 or kind is np.float32:
            self._add(x)
            return "scalar", x.dtype.char
        if kind is tuple:
            return "tuple", *[self._part(item) for item in x]
        if kind is not list and kind is not dict:
            plain = kind is types.FunctionType or isinstance(x, enum.Enum)
            if plain or all(cls.__flags__ & HEAP_TYPE for cls in kind.__mro__[:-1]):
                self.objects.append(x)
                return ("object",)
            raise NotStoredError(f"an argument is of type {kind.__qualname__}")
        if id(x) in self._containers:
            raise NotStoredError("a container occurs twice among the arguments")
        self._containers.add(id(x))
        if kind is list:
            return "list", *[self._part(item) for item in x]
        if not all(type(key) is str for key in x):
            raise NotStoredError("an argument is a dict whose keys are not all text")
        return "dict", *[(key, self._part(item)) for key, item in x.items()]

    def _add(self, x: Any) -> None:
        if len(self.data) >= _MOST:
            raise NotStoredError(f"there are more than {_MOST} arguments")
        self.data.append(x)
