"""Values that a call of SciPy may read: whether a traced one can be among them.

An integrand or a right-hand side reads variables around it, globals and attributes, which no look at the arguments
shows.  Where all that it can reach is plain, the call is data, and SciPy makes it.
"""

from __future__ import annotations

from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..convert.transparent import original
from ..record.made_arrays import MadeArray
from ..record.recorder import current_recorder

_MANY = 1000  # values that are looked at
_PLAIN = (
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    np.generic,
    np.ufunc,
    np.dtype,
    range,
    slice,
    BuiltinFunctionType,
)
_LIBRARIES = ("numpy", "scipy", "math", "cmath", "builtins")


def may_read_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a traced value may be reached from the arguments of a call; of what is not known it is assumed."""
    recorder = current_recorder()
    captured = {} if recorder is None else recorder.captured
    waiting: list[Any] = [*args, *kwargs.values()]
    seen: dict[int, Any] = {}
    copies = arrays = False  # a copy may be the first to read an array outside, and find a traced one
    while waiting:
        found = waiting.pop()
        value = original(found)
        kind = type(value)
        copies |= kind is FunctionType and value is not found
        if id(value) in seen or issubclass(kind, _PLAIN):
            continue
        seen[id(value)] = value
        if len(seen) > _MANY:
            return True
        if kind is np.ndarray or kind is MadeArray:
            arrays |= kind is np.ndarray
            if value.dtype == object or id(value) in captured:
                return True
        elif kind in (list, tuple, set, frozenset):
            waiting += value
        elif kind is dict:
            waiting += value.values()
        elif kind is partial:
            waiting += [value.func, value.args, value.keywords]
        elif kind is MethodType:
            waiting += [value.__func__, value.__self__]
        elif kind is FunctionType:
            if _of_a_library(value, kind):
                continue
            waiting += [value.__defaults__, value.__kwdefaults__]
            for cell in value.__closure__ or ():
                try:
                    waiting.append(cell.cell_contents)
                except ValueError:  # an empty one
                    continue
            waiting += [value.__globals__[n] for n in _names(value.__code__) if n in value.__globals__]
        elif not _of_a_library(value, kind):
            return True
    return copies and arrays


def _of_a_library(value: Any, kind: type) -> bool:
    """Whether *value* is a module, a class or a function that keeps nothing of the caller's."""
    if not issubclass(kind, (type, ModuleType, FunctionType)):
        return False
    name = value.__name__ if kind is ModuleType else value.__module__
    return isinstance(name, str) and name.partition(".")[0] in _LIBRARIES


def _names(code: CodeType) -> set[str]:
    """The names that *code* reads, and code within it."""
    return set(code.co_names).union(*[_names(c) for c in code.co_consts if isinstance(c, CodeType)])
