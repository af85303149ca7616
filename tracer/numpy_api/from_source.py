"""Functions of NumPy and SciPy that have no recorded form of their own, recorded through their Python source.

Much of both is Python over NumPy's primitives: ``np.unwrap`` is a difference, a remainder and a cumulative sum.  Such
code runs on traced arrays as the user's does, over globals (``_Source``) in which ``asarray``, ``zeros`` and others are
those of recorded code, and functions in C are ours (``compiled``).  Where it comes to something in C that has no
recorded form, the function is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from ..ir.site import OWN_FOLDER
from ..record.array import RECORDED, TracedArray
from ..record.shown_names import CALLED_AS, READ_BY_C, RECORDED_BUILTINS

HOOKED = f"{OWN_FOLDER}hooks.py"  # the file of the code of functions whose calls are hooked
_MODULES = type(np)
# whose Python is recorded
_SCIPY = ("_lib", "integrate", "interpolate", "ndimage", "signal", "sparse", "stats")
_PACKAGES = ("math.", "numpy.", *[f"scipy.{name}" for name in _SCIPY])
_compiled: dict[int, tuple[Any, Any]] = {}  # id of a function in C -> (it, ours)


class _Source(dict):
    """Globals of a library's code that is recorded: those of its module, *below*, as recorded code sees them."""

    def __init__(self, below: dict[str, Any]) -> None:
        super().__init__((name, below[name]) for name in READ_BY_C if name in below)
        self["__builtins__"] = RECORDED_BUILTINS
        self._below = below

    def __missing__(self, name: str) -> Any:
        return as_recorded(self._below[name])


class _Names:
    """A module by whose attributes such code finds functions (``_nx.copyto``)."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return as_recorded(getattr(self._module, name))


class _Converter:
    """``_array_converter`` of NumPy's code: arrays of what it was given, and results in that form."""

    def __init__(self, *values: Any) -> None:
        self._arrays = tuple([v if type(v) is TracedArray else np.asanyarray(v) for v in values])
        self.scalar_input = tuple([not np.ndim(v) for v in values])

    def __len__(self) -> int:
        return len(self._arrays)

    def __getitem__(self, k: int) -> Any:
        return self._arrays[k]

    def as_arrays(self, *, subok: bool = True, pyscalars: Any = None) -> tuple[Any, ...]:
        return self._arrays

    def result_type(self, extra_dtype: Any = None, ensure_inexact: bool = False) -> np.dtype:
        given = [*self._arrays, *([] if extra_dtype is None else [extra_dtype]), *([0.0] if ensure_inexact else [])]
        return np.result_type(*given)

    def wrap(self, array: Any, /, to_scalar: Any = None) -> Any:
        return array


class _Float64(np.float64):
    """``np.float64`` of such code: a dtype, and a conversion that arrays go through."""

    def __new__(cls, value: Any = 0.0) -> Any:
        return value.astype(np.float64) if type(value) is TracedArray else np.float64(value)


_spaces: dict[int, _Source] = {}
_REPLACED = {"_array_converter": _Converter, "float64": _Float64}


def compiled(module: Any, name: str) -> Callable[[Any], Any]:
    """Let source of a library that is recorded find the decorated function in place of *module*'s, which is in C."""

    def note(ours: Any) -> Any:
        if (plain := getattr(module, name, None)) is not None:
            _compiled[id(plain)] = plain, ours
        return ours

    return note


def is_numpy(namespace: Any) -> None:
    """Let such source find NumPy in place of *namespace*, which has the same functions."""
    _compiled[id(namespace)] = namespace, _Names(np)


def as_recorded(value: Any) -> Any:
    """*value*, found under a name of such code, as recorded code finds it."""
    known = CALLED_AS.get(id(value)) or _compiled.get(id(value))
    if known is not None and known[0] is value and not isinstance(value, (type, np.ufunc)):
        return known[1]
    if type(value) is type and value.__name__ in _REPLACED:
        return _REPLACED[value.__name__]
    if type(value) is FunctionType and value.__module__.startswith(_PACKAGES):
        return value if value.__code__.co_filename == HOOKED else source_of(value)
    if isinstance(value, _MODULES) and f"{value.__name__}.".startswith(_PACKAGES):
        return _Names(value)
    return value


@lru_cache(maxsize=1024)
def source_of(function: Any) -> Any:
    """*function* of a library, over the globals of recorded code; None where it is no Python."""
    plain = getattr(function, "__wrapped__", function)
    if type(plain) is not FunctionType:
        return None
    space = _spaces.setdefault(id(plain.__globals__), _Source(plain.__globals__))
    code = plain.__code__.replace(co_filename=plain.__code__.co_filename + RECORDED)
    found = FunctionType(code, space, plain.__name__, plain.__defaults__, plain.__closure__)
    found.__kwdefaults__ = plain.__kwdefaults__
    return found
