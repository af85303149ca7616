"""Entries of the user's operations: operators, indexing, NumPy's protocols, methods.

Each has two parts.  The *quick* one comes first; it runs no code but our own and NumPy's, whatever the user has
written, and it gives None where it can't promise that.  Then the *open* one handles the general case.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..ir.aval import BFLOAT16, BOOL
from ..ir.errors import UnsupportedError, unrecordable
from ..record.array import FUNCTIONS, METHODS, TracedArray
from ..record.constants import call_method
from ..record.made_arrays import MadeArray
from .index import basic_item
from .protocols import (
    BINARY,
    COMPARE,
    UNARY,
    array_function,
    array_ufunc,
    call_plain,
    open_forward,
    open_reflected,
    open_unary,
    refusal,
    strong,
)
from .python_numbers import CHECKED, python_operator

Entry = Callable[..., Any]
_NOTHING: dict[str, Any] = {}

# Functions whose implementations ask for no value and call nothing of the user's.
_CLOSED = (
    np.stack, np.concatenate, np.vstack, np.hstack, np.column_stack, np.dstack, np.append,
    np.sum, np.prod, np.mean, np.var, np.std, np.max, np.min, np.amax, np.amin, np.cumsum, np.cumprod, np.diff,
    np.dot, np.vdot, np.inner, np.outer, np.tensordot, np.trace, np.linalg.norm,
    np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.expand_dims, np.squeeze, np.roll, np.flip,
    np.zeros_like, np.ones_like, np.full_like, np.copy, np.clip, np.tile, np.repeat, np.diag,
    np.linalg.solve, np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky,
)  # fmt: skip
# such ones, if the places are plain numbers
_SPLITTING = frozenset((np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit))
_CLOSED_METHODS = (
    "sum", "prod", "mean", "var", "std", "max", "min", "cumsum", "cumprod", "dot", "reshape", "ravel", "flatten",
    "transpose", "swapaxes", "squeeze", "copy", "astype", "clip", "trace",
)  # fmt: skip

_PLAIN = frozenset((
    TracedArray, MadeArray, np.ndarray, float, int, bool, complex, np.float64, np.float32, np.int64, np.bool_,
    type(None), str, type(Ellipsis), slice, np.dtype, *{type(np.dtype(c)) for c in "efdilqbhLBHQ?FD"}, type(BFLOAT16),
))  # fmt: skip
_TYPES = (
    float,
    int,
    bool,
    complex,
    np.complex128,
    np.complex64,
    np.float64,
    np.float32,
    np.float16,
    BFLOAT16.type,
    np.int64,
    np.int32,
    np.bool_,
)


def is_plain(value: Any) -> bool:
    """Whether *value*, which may be a list or tuple, holds only types whose methods are no code of the user's."""
    kind = type(value)
    if kind is list or kind is tuple:
        return all(map(is_plain, value))
    if kind is slice:
        return is_plain(value.start) and is_plain(value.stop) and is_plain(value.step)
    return kind in _PLAIN or (kind is type and value in _TYPES) or value is np._NoValue


def is_traced(value: Any) -> bool:
    """Whether *value* is a traced array, or a list or tuple in which there is one."""
    kind = type(value)
    return any(map(is_traced, value)) if kind is list or kind is tuple else kind is TracedArray or kind is MadeArray


def _asked(recorder: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Entry) -> Any:
    """``run(function, args, kwargs)``.  All that it emits is at one site."""
    if recorder.entered is not None:  # by an operation of which this one is a part
        return run(function, args, kwargs)
    recorder.entered = recorder.site()
    try:
        return run(function, args, kwargs)
    except UnsupportedError as error:
        unrecordable.discard(error)  # the open part finds out again
        return None
    finally:
        recorder.entered = None


# ---- operators and ufuncs ------------------------------------------------------------------------------------------


def _run_plain(ufunc: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return call_plain(ufunc, args)


@lru_cache(None)
def _quick_number(ufunc: Any) -> Entry:
    """The operator between Python's numbers, which is another function than *ufunc*."""

    def run(_: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return python_operator(ufunc, args, quick=True)

    return lambda recorder, args: _asked(recorder, run, args, _NOTHING, run)


def _quick_forward(ufunc: Any) -> Entry:
    checked, divides = ufunc in CHECKED, ufunc is not np.power
    number = _quick_number(ufunc)

    def apply(self: TracedArray, other: Any) -> Any:
        if checked and self._atom.aval.weak and not (divides and type(other) is float and other != 0.0):
            return number(self._recorder, (self, other))
        return _asked(self._recorder, ufunc, (self, other), _NOTHING, _run_plain)

    return apply


def _quick_reflected(ufunc: Any) -> Entry:
    checked, number = ufunc in CHECKED, _quick_number(ufunc)

    def apply(self: TracedArray, other: Any) -> Any:
        if checked and self._atom.aval.weak:
            return number(self._recorder, (other, self))
        return _asked(self._recorder, ufunc, (other, self), _NOTHING, _run_plain)

    return apply


def _quick_unary(ufunc: Any) -> Entry:
    return lambda self: _asked(self._recorder, ufunc, (self,), _NOTHING, _run_plain)


def _quick_ufunc(self: TracedArray, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    if kwargs or method != "__call__" or (self._atom.aval.weak and self._atom.aval.dtype is BOOL):
        return None
    found = _asked(self._recorder, ufunc, inputs, _NOTHING, _run_plain)
    return None if found is None else strong(self, found)


# ---- indexing ------------------------------------------------------------------------------------------------------


def _run_item(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return basic_item(*args)


def _quick_item(self: TracedArray, index: Any) -> Any:
    if self._atom.aval.weak:
        return None
    return _asked(self._recorder, None, (self, index), _NOTHING, _run_item)


def _open_item(self: TracedArray, index: Any) -> Any:
    self.of_arrays("__getitem__")
    return call_method("__getitem__", self, index)


# ---- functions and methods -----------------------------------------------------------------------------------------


def _run_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return FUNCTIONS[function](*args, **kwargs)


def _is_closed(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether *func* asks for no value, given these arguments, and calls nothing of the user's."""
    if func in _closed:
        return True
    if func is np.where:
        return len(args) == 3 and args[1] is not None and args[2] is not None
    return func in _SPLITTING and len(args) > 1 and not is_traced([*args[1:], *kwargs.values()])


def _quick_function(self: TracedArray, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    recorder = self._recorder
    if not _is_closed(func, args, kwargs):
        return None
    if "out" not in kwargs and is_plain(args) and (not kwargs or is_plain(list(kwargs.values()))):
        try:
            return strong(self, _asked(recorder, func, args, kwargs, _run_function))
        except TypeError as error:
            raise refusal(func, error) from None
    return None


def _run_method(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return method(*args, **kwargs)


def _quick_method(method: Any) -> Entry:
    def apply(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        recorder, given = self._recorder, (self, *args)
        if self._atom.aval.weak:
            return None
        if is_plain(given) and "out" not in kwargs and (not kwargs or is_plain(list(kwargs.values()))):
            return _asked(recorder, method, given, kwargs, _run_method)
        return None

    return apply


# ---- putting them in place -----------------------------------------------------------------------------------------


def _open_method(name: str) -> Entry:
    def apply(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        self.of_arrays(name)
        return call_method(name, self, *args, **kwargs)

    return apply


def _entries() -> dict[str, tuple[Entry, Entry]]:
    """(quick, open) for each attribute of the traced array."""
    found: dict[str, tuple[Entry, Entry]] = {
        "__array_ufunc__": (_quick_ufunc, array_ufunc),
        "__array_function__": (_quick_function, array_function),
        "__getitem__": (_quick_item, _open_item),
    }
    for name, ufunc in (BINARY | COMPARE).items():
        found[f"__{name}__"] = _quick_forward(ufunc), open_forward(ufunc)
    for name, ufunc in BINARY.items():
        found[f"__r{name}__"] = _quick_reflected(ufunc), open_reflected(ufunc)
    for name, ufunc in UNARY.items():
        found[f"__{name}__"] = _quick_unary(ufunc), open_unary(ufunc)
    for name in _CLOSED_METHODS:
        found[name] = _quick_method(METHODS[name]), _open_method(name)
    return found


def in_python(quick: Entry, then: Entry) -> Entry:
    """Both parts of an entry as one method."""

    def entry(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        found = quick(self, *args, **kwargs)
        return then(self, *args, **kwargs) if found is None else found

    return entry


def install(join: Callable[[Entry, Entry], Any] = in_python) -> None:
    """Set the methods of traced arrays to ``join(quick, open)`` of each entry (first by ``ufuncs.py``, when all tables
    are full)."""
    for name, (quick, then) in _entries().items():
        setattr(TracedArray, name, join(quick, then))


_closed = frozenset(_CLOSED)
