"""Functions that numba compiles, recorded through their Python source.

The machine code of an ``@njit`` function sees no traced array.  While a function is recorded, numba's classes of
compiled functions answer calls by ours (``recorded_calls``): a call with a traced value runs the Python function that
was compiled, any other one the machine code.  numba is asked nothing before it has been imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any

import numpy as np

from ..convert.source import parts_of
from ..ir.errors import UnsupportedError
from ..ir.forks import SharedChange, lock
from ..ir.site import at_site
from ..ops.elementwise import cast
from ..record.array import TracedArray, class_of, is_traced, wrap
from ..record.integers import TracedInt
from ..record.made_arrays import MadeArray, made_by
from ..record.recorder import current_recorder
from ..record.shown_names import CALLED, CALLED_OF, calling_frame, compiled_code, in_compiled_code, show_functions
from .jitted_ufuncs import call_generalized, call_of_numbers, call_vectorized

_CLASSES = {  # of numba's compiled functions, by their modules
    "numba.core.dispatcher": "Dispatcher",
    "numba.core.ccallback": "CFunc",
    "numba.np.ufunc.dufunc": "DUFunc",
    "numba.np.ufunc.gufunc": "GUFunc",
    "numba.stencils.stencil": "StencilFunc",
}
_found: dict[type, Callable[..., Any]] = {}  # those of which some function was met -> how it is called while recording
_EFFECTS = frozenset(("print", "objmode"))  # which count when the function is replayed, too
_lock = lock()
_plain_calls: dict[type, Any] = {}  # how it is called otherwise; None: as its base is


def python_of(value: Any) -> FunctionType | None:
    """The Python function of one that numba has compiled; None for any other value."""
    for base in type(value).__mro__:
        if base.__module__ in _CLASSES and base.__name__ == _CLASSES[base.__module__]:
            if base not in _found:
                _meet(base)
            return _source(value)
    return None


def _source(jitted: Any) -> FunctionType | None:
    function = getattr(jitted, "__wrapped__", None)
    return function if type(function) is FunctionType else None


def _meet(kind: type) -> None:
    """From now on, calls of functions of this class are answered while recording."""
    floats = {name: getattr(CALLED_OF[id(np)][1], name) for name in ("float64", "float32")}
    show_functions(sys.modules["numba"], floats | dict.fromkeys(("int64", "int32", "intp"), CALLED["int"]))
    with _lock:
        _plain_calls[kind] = vars(kind).get("__call__")
        _found[kind] = _caller(kind)
        if RECORDINGS.threads:
            kind.__call__ = _found[kind]  # type: ignore[method-assign]


@contextmanager
def recorded_calls() -> Iterator[None]:
    """The context of a recording, in which calls of compiled functions with traced values run their source."""
    # a function may be compiled in the recording, where nobody has met one before
    kind = getattr(sys.modules.get("numba.core.dispatcher"), "Dispatcher", None)
    if kind is not None and kind not in _found:
        _meet(kind)
    with RECORDINGS.needed():
        yield


def _put(callers: dict[type, Callable[..., Any]] | None) -> None:
    """Let numba's classes be called by *callers*, or by their own."""
    for kind, plain in _plain_calls.items():
        if callers is not None:
            if vars(kind).get("__call__") is not callers[kind]:
                kind.__call__ = callers[kind]  # type: ignore[method-assign]
        elif plain is None:
            if "__call__" in vars(kind):
                del kind.__call__
        else:
            kind.__call__ = plain  # type: ignore[method-assign]


RECORDINGS = SharedChange(lambda: _put(_found), lambda: _put(None))


def _caller(kind: type) -> Callable[..., Any]:
    """``__call__`` of numba's class *kind* while a function is recorded."""
    plain = kind.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = current_recorder()
        if recorder is None or not is_recorded(_source(self), args, kwargs):
            if recorder is None:
                return plain(self, *args, **kwargs)
            found = plain(self, *map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})
            return made_by(found, sys._getframe(1)) if type(found) is np.ndarray else found
        return _recorded(self, _source(self), args, kwargs)

    return call


def through_source(
    jitted: Any, source: FunctionType, copy: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:  # fmt: skip
    """A call of a compiled function through a *copy* of its *source*."""
    return _recorded(jitted, source, args, kwargs, copy)


def through_machine_code(jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a compiled function of plain values; an array that it makes is one that recorded code has made."""
    found = jitted(*map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})
    return made_by(found, calling_frame(1)) if type(found) is np.ndarray else found


def _recorded(
    jitted: Any, function: FunctionType | None, args: tuple[Any, ...], kwargs: dict[str, Any],
    copy: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """A call of a compiled function through its source, or a *copy* of that."""
    name = getattr(jitted, "__name__", type(jitted).__name__)
    kind = next(base.__name__ for base in type(jitted).__mro__ if base in _found)
    if function is None or (function.__module__ or "numba.").startswith("numba."):  # made of a text, in no module
        raise UnsupportedError.here(
            f"`{name}` of numba's own (jitclass, typed.List, typed.Dict, stencil) can't be recorded; use a class, a "
            "list, a dict or a loop of Python"
        )
    recorder: Any = current_recorder()
    outermost = recorder.outermost()
    note = f"`{name}` is compiled by numba: recorded through its Python source"
    if note not in outermost.notes:
        outermost.notes.append(note)
    within = in_compiled_code()
    with compiled_code():
        found = _RUNS[kind](jitted, copy or function, args, kwargs)
    return found if within or kind != "Dispatcher" else _boxed(found)


def _plain(value: Any) -> Any:
    """An argument of machine code."""
    if type(value) is tuple:
        return tuple(map(_plain, value))
    return value.asked() if type(value) is TracedInt else value.plain() if type(value) is MadeArray else value


def is_recorded(function: FunctionType | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call of *function* has to run its source: something in it is traced, or it prints."""
    if is_traced(args) or is_traced(tuple(kwargs.values())):
        return True
    if function is None:
        return False
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # empty
            if is_traced(cell.cell_contents):
                return True
    return any(not _EFFECTS.isdisjoint(code.co_names) for code in parts_of(function.__code__))


# ---- functions of any values


def _run(jitted: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of an ``@njit`` function through its source.  Signatures that were declared cast numbers."""
    result_type = None
    if not jitted._can_compile:
        args, result_type = _declared(jitted, args, kwargs)
    if jitted.targetoptions.get("error_model") == "numpy":
        args = tuple([_strong(x, np.dtype(float)) if _is_python_float(x) else x for x in args])
    found = NotImplemented if kwargs else call_of_numbers(function, args, _source(jitted))
    found = function(*args, **kwargs) if found is NotImplemented else found
    return found if result_type is None else _as_type(found, result_type)


def _boxed(value: Any) -> Any:
    """*value* as compiled code hands it to Python: its numbers are Python's."""
    if type(value) is tuple:
        return tuple(map(_boxed, value))
    if type(value) is TracedArray and value.aval.is_float and class_of(value) is not np.ndarray:
        return value.number()
    return value.item() if isinstance(value, np.generic) else value


def _is_python_float(value: Any) -> bool:
    return type(value) is float or (type(value) is TracedArray and class_of(value) is float)


def _strong(value: Any, dtype: np.dtype) -> Any:
    """A number as one of NumPy's."""
    value = value.asked() if type(value) is TracedInt else value
    return wrap(cast(value.atom, dtype)) if type(value) is TracedArray else dtype.type(value)


def _declared(jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """(arguments, type of the result) by the signatures with which a function was declared."""
    signatures = [compiled.signature for compiled in jitted.overloads.values()]
    given = tuple(map(_kind, args))
    declared = [tuple(map(_kind_of_type, s.args)) for s in signatures]
    fitting = [k for k, kinds in enumerate(declared) if len(kinds) == len(given) and all(map(_fits, kinds, given))]
    exact = [k for k in fitting if declared[k] == given]
    if kwargs or not fitting or (len(fitting) > 1 and len(exact) != 1):
        found, names = (
            ", ".join(f"{kind[1]}, {kind[0]}d" if kind else "another" for kind in given),
            [*map(str, signatures)],
        )
        raise TypeError(
            at_site(f"{jitted.__name__} is declared for {' and '.join(names)} alone, and is called with ({found})")
        )
    signature = signatures[(exact or fitting)[0]]
    return tuple(map(_as_type, args, signature.args)), signature.return_type


_Kind = tuple[int, np.dtype] | None  # axes and dtype; None: no number


def _kind(value: Any) -> _Kind:
    if isinstance(value, TracedArray | np.ndarray | np.generic):
        return value.ndim, value.dtype
    kind = int if type(value) is TracedInt else type(value)
    return (0, np.dtype(kind)) if kind in (float, int, bool) else None


def _kind_of_type(declared: Any) -> _Kind:
    types, as_dtype = sys.modules["numba"].types, sys.modules["numba.np.numpy_support"].as_dtype
    if isinstance(declared, types.Array):
        return declared.ndim, as_dtype(declared.dtype)
    return (0, as_dtype(declared)) if isinstance(declared, types.Number | types.Boolean) else None


def _fits(declared: _Kind, given: _Kind) -> bool:
    if declared is None or given is None:
        return declared is given
    return declared[0] == given[0] and (not given[0] or declared[1] == given[1])


def _as_type(value: Any, declared: Any) -> Any:
    """A number as one of the *declared* type; anything else as it is."""
    kind, found = _kind_of_type(declared), _kind(value)
    return value if kind is None or found is None or kind == found or kind[0] else _strong(value, kind[1])


def _cfunc(jitted: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


_RUNS: dict[str, Callable[..., Any]] = {
    "Dispatcher": _run, "CFunc": _cfunc, "DUFunc": call_vectorized, "GUFunc": call_generalized,
}  # fmt: skip
