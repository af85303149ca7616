"""NumPy's functions that make arrays, as recorded code sees them: ``np.zeros``, ``np.array``, ``np.full``.

``record/shown_names.py`` says how recorded code comes to find them.  What they give is plain where it can be
(``record/made_arrays.py``), and traced where it is made of traced values, or will hold some.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from ..ir.aval import FLOAT, SUPPORTED
from ..ir.graph import Lit
from ..ops.elementwise import cast_with_warning
from ..record.array import FUNCTIONS, UFUNCS, TracedArray, class_of, in_c_order, is_traced, wrap_array
from ..record.integers import recorded
from ..record.made_arrays import MadeArray, is_traced_at, made, made_by, place_of
from ..record.recorder import current_recorder
from ..record.shown_names import calling_frame, show_functions, show_module
from .assemble import nested_atom
from .create import filled
from .from_source import source_of
from .registry import shape_of
from .series import Elementwise


def _made(plain: Any) -> Any:
    return made_by(plain, calling_frame(2))


def _maker(plain: Callable[..., Any]) -> Callable[..., Any]:
    """*plain*, which makes an array by rule."""

    def make(*args: Any, **kwargs: Any) -> Any:
        _unlike(kwargs)
        found = plain(*args, **kwargs)
        return _made(found) if current_recorder() is not None and type(found) is np.ndarray else found

    return make


def _filler(plain: Callable[..., Any], value: float) -> Callable[..., Any]:
    """*plain*, which makes an array full of *value*; ``np.empty`` has zeros in it."""

    def fill(*args: Any, **kwargs: Any) -> Any:
        _unlike(kwargs)
        found = plain(*args, **kwargs)
        if current_recorder() is None or found.dtype not in SUPPORTED:
            return found
        place = place_of(calling_frame(1))
        if is_traced_at(place, found.dtype.kind, blank=plain is not np.ones):
            literal = Lit(value, np.dtype(FLOAT), structural=True)
            return filled(literal, found.shape, found.dtype, c_order=bool(found.flags.c_contiguous))
        if plain is np.empty:
            found[...] = 0
        return made(found, place, is_filled=True)

    return fill


def _full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", **kwargs: Any) -> Any:
    if is_traced(fill_value):
        return filled(wrap_array(nested_atom(fill_value)), shape_of(shape), dtype, c_order=order == "C")
    _unlike(kwargs)
    found = np.full(shape, fill_value, dtype, order, **kwargs)
    return found if current_recorder() is None else _made(found)


def _array(a: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", ndmin: int = 0, **kwargs: Any) -> Any:
    a = recorded(a)
    if is_traced(a):
        return _of_traced(a, dtype, copy, order, ndmin)
    _unlike(kwargs)
    asked = _Asked(a) if _gives_an_array(type(a)) else a
    try:
        found = np.array(asked, dtype, copy=copy, order=order, ndmin=ndmin, **kwargs)
    except ValueError:
        if type(asked) is not _Asked or not is_traced(asked.form):
            raise
        return _of_traced(asked.form, dtype, copy, order, ndmin)
    return found if current_recorder() is None or found is a else _made(found)


def _arange(*args: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """``np.arange``; of traced numbers the size is a question."""
    _unlike(kwargs)
    if not is_traced(args) and not is_traced(tuple(kwargs.values())):
        found = np.arange(*args, dtype=dtype, **kwargs)
        return found if current_recorder() is None else _made(found)
    start, stop, step = _bounds(*args, **kwargs)
    count = max(int(np.ceil((stop - start) / step)), 0)
    found = np.arange(count) * ((start + step) - start) + start
    return found if dtype is None else found.astype(dtype)


def _fromiter(iterable: Any, dtype: Any, count: int = -1, **kwargs: Any) -> Any:
    values = list(iterable if count < 0 else islice(iterable, count))
    if is_traced(values):
        if len(values) < count:
            raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(values)} items.")
        return _of_traced(values, dtype, True, None, 0)
    found = np.fromiter(values, dtype, count, **kwargs)
    return found if current_recorder() is None else _made(found)


def _bounds(start: Any, stop: Any = None, step: Any = None) -> tuple[Any, Any, Any]:
    low, high = (0, start) if stop is None else (start, stop)
    return low, high, 1 if step is None else step


def _converter(plain: Callable[..., Any], order: Any) -> Callable[..., Any]:
    """*plain*, ``np.asarray`` and others, which give an array as it is where they can."""

    def convert(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        a = recorded(a)
        if is_traced(a):
            return _of_traced(a, dtype, kwargs.get("copy"), kwargs.get("order", args[0] if args else order), 0)
        _unlike(kwargs)
        if isinstance(a, Elementwise):
            return convert(a.array, dtype, *args, **kwargs)
        asked = _Asked(a) if _gives_an_array(type(a)) else a
        try:
            found = plain(asked, dtype, *args, **kwargs)
        except ValueError:
            if type(asked) is not _Asked or not is_traced(asked.form):
                raise
            return convert(asked.form, dtype, *args, **kwargs)
        if type(a) is MadeArray and found.base is not None and found.dtype == a.dtype and found.shape == a.shape:
            return a
        return found if current_recorder() is None or found is a else _made(found)

    return convert


def _unlike(kwargs: dict[str, Any]) -> None:
    """Leave out ``like=``, of which NumPy would ask a traced array for the function."""
    if is_traced(kwargs.get("like")):
        del kwargs["like"]


class _Asked:
    """Asks an object for its array, once: a traced one is no answer for NumPy."""

    def __init__(self, of: Any) -> None:
        self._of, self.form = of, None

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.form = self._of.__array__(*args, **kwargs)
        return self.form


def _gives_an_array(kind: type) -> bool:
    """Whether a class of the user's has ``__array__``, and NumPy has no other way to an array."""
    others = ("__array_interface__", "__array_struct__", "__buffer__", "__dlpack__")
    own = getattr(kind, "__array__", None)
    return isinstance(own, types.FunctionType) and not any(hasattr(kind, name) for name in others)


def _of_traced(values: Any, dtype: Any, copy: Any, order: Any, ndmin: int) -> Any:
    """An array of traced *values*, nested lists or one of them."""
    copies, may_copy = _copying(copy)
    if type(values) is TracedArray and class_of(values) is np.ndarray:
        found = values if dtype is None else values.astype(dtype, copy=False)
        if found is values and (copies or (order in ("C", "F") and not in_c_order(found))):
            found = found.copy()
    else:
        atom = nested_atom(values)
        found = wrap_array(cast_with_warning(atom, atom.aval.dtype if dtype is None else np.dtype(dtype)))
    if not may_copy and found is not values:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    ndmin = operator.index(ndmin)
    return found.reshape((1,) * (ndmin - found.ndim) + found.shape) if found.ndim < ndmin else found


def _copying(copy: Any) -> tuple[bool, bool]:
    """(whether there is to be a copy, whether there may be one) by the argument *copy*, a ``_CopyMode`` perhaps."""
    if copy is None or copy is _MODES.IF_NEEDED:
        return False, True
    copies = bool(copy.value if isinstance(copy, _MODES) else copy)
    return copies, copies or (_BEFORE_2 and not isinstance(copy, _MODES))


_MODES: Any = np._CopyMode  # type: ignore[attr-defined]
_BEFORE_2 = np.lib.NumpyVersion(np.__version__) < "2.0.0"

_ARRAYS = {
    "array": _array, "full": _full, "arange": _arange, "fromiter": _fromiter,
    **{name: _filler(getattr(np, name), value) for name, value in (("zeros", 0.0), ("empty", 0.0), ("ones", 1.0))},
    **{name: _maker(getattr(np, name)) for name in "eye identity tri vander linspace logspace copy".split()},
    **{name: _converter(getattr(np, name), None) for name in ("asarray", "asanyarray")},
    "ascontiguousarray": _converter(np.ascontiguousarray, "C"),
}  # fmt: skip


def _of_lists(function: Any) -> Any:
    """*function*, called with lists that hold traced arrays, which NumPy would not find there."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not any(_is_listed(value) for value in (*args, *kwargs.values())):
            return function(*args, **kwargs)
        named = {name: value if name == "out" else _joined(value) for name, value in kwargs.items()}
        return function(*map(_joined, args), **named)

    return call


def _taker(function: Any) -> Any:
    """*function* for lists; with it the methods of a ufunc."""
    taker = _of_lists(function)
    if isinstance(function, np.ufunc):
        vars(taker).update({name: _of_lists(getattr(function, name)) for name in _METHODS})
    return taker


_METHODS = ("reduce", "accumulate", "outer", "reduceat", "at")


_OF_SEQUENCES = frozenset((  # whose lists are no arrays: NumPy looks into them
    np.concatenate, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack, np.block, np.select,
    np.linalg.multi_dot, np.choose, np.lexsort, np.ravel_multi_index, np.piecewise, np.histogramdd, np.einsum_path,
    np.trim_zeros,
))  # fmt: skip


def _is_listed(value: Any) -> bool:
    return type(value) in (list, tuple) and is_traced(value)


def _joined(value: Any) -> Any:
    return wrap_array(nested_atom(value)) if _is_listed(value) else value


def show_takers_of_lists() -> None:
    """Let calls of NumPy's functions find those that take lists of traced arrays."""
    takers: dict[int, Any] = {}  # some have two names
    for module in (np, np.linalg, np.fft, np.emath):
        known = {name: f for name, f in vars(module).items() if _is_known(f) and name not in _ARRAYS}
        for function in known.values():
            takers.setdefault(id(function), _taker(function))
        show_functions(module, {name: takers[id(f)] for name, f in known.items()}, for_lists=True)
    show_module(np, "emath", np.emath)  # whose own name is numpy.lib.scimath


def _is_known(function: Any) -> bool:
    """Whether *function* is recorded, by itself or through its source."""
    kinds = type(np.mean), np.ufunc
    if not isinstance(function, kinds) or function in _OF_SEQUENCES:
        return False
    return function in FUNCTIONS or function in UFUNCS or source_of(function) is not None


show_functions(np, _ARRAYS)
