"""Functions that do nothing but compute a result, which an iteration over symbols may call."""

from __future__ import annotations

import builtins
import math
import types
from collections import deque
from typing import Any

import numpy as np

from ...tracer.record.array import TracedArray

# parameters for what a function writes into
INTO = frozenset(("out", "where", "file", "copy", "overwrite_a", "overwrite_b", "overwrite_x"))
_BUILTINS = frozenset((
    "abs", "bool", "complex", "dict", "divmod", "enumerate", "float", "frozenset", "int", "isinstance", "issubclass",
    "len", "list", "max", "min", "pow", "range", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple",
    "type", "zip", "all", "any", "callable",
))  # fmt: skip
_PURE = {id(getattr(builtins, name)) for name in _BUILTINS} | {id(x) for x in vars(math).values() if callable(x)}
_WRITE = frozenset((
    "copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "at", "sort", "fill", "itemset",
    "partition", "resize", "setfield", "setflags", "byteswap", "tofile", "dump", "save", "savez", "savetxt", "seterr",
    "load", "fromfile", "genfromtxt", "loadtxt", "memmap", "setbufsize", "set_printoptions", "shuffle",
))  # fmt: skip
_NUMPY = ("numpy", "numpy.linalg", "numpy.fft")
_SCIPY = ("scipy.special.", "scipy.linalg.", "scipy.fft.")
# methods of containers that write nothing
READS = frozenset((
    "get", "index", "count", "copy", "keys", "values", "items", "isdisjoint", "issubset", "issuperset", "union",
    "intersection", "difference", "__contains__", "__getitem__", "__len__",
))  # fmt: skip
_CONTAINERS = (list, dict, set, deque)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type(np.sum))
_OF_THREE = {"where": 3, "interp": 3, "einsum": 99, "clip": 3, "cross": 3}  # arguments before one for the result


def is_iterator(x: Any) -> bool:
    """Whether *x* is used up when it is iterated over."""
    return hasattr(type(x), "__next__")


def only_computes(f: Any) -> bool:
    """Whether *f* is known to do no more than compute."""
    if id(f) in _PURE:
        return True
    kind, name = type(f), getattr(f, "__name__", "")
    if kind is np.ufunc:
        return True
    owner = getattr(f, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        if isinstance(owner, _CONTAINERS):
            return name in READS
        if isinstance(owner, (TracedArray, str, bytes, tuple, float, int)):
            return True
        return isinstance(owner, (np.ndarray, np.generic)) and name not in _WRITE and not name.startswith("__")
    if isinstance(f, type):
        return issubclass(f, np.generic)
    module = str(getattr(f, "__module__", ""))
    return kind in _FUNCTIONS and (module in _NUMPY or module.startswith(_SCIPY)) and name not in _WRITE


def writes_into(f: Any, args: tuple[Any, ...]) -> bool:
    """Whether one of the arguments may be an array for the result, as the third of ``np.add(a, b, c)`` is."""
    first = f.nin if type(f) is np.ufunc else _OF_THREE.get(getattr(f, "__name__", ""), 2)
    return any(isinstance(x, np.ndarray) for x in args[first:])
