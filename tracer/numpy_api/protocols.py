"""NumPy's protocols, and the Python operators of the traced array.

A ufunc between float arrays of one shape and dtype, or of an array and a Python number, takes a short way to the
recorder; everything else is looked up in the tables of ``array.py`` and promoted there as NumPy does it.
"""

from __future__ import annotations

import array
import decimal
import fractions
import operator
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import BOOL, FLOAT_KINDS, INT
from ..ir.class_flags import HEAP_TYPE
from ..ir.errors import MutationError, TracegradError, UnsupportedError, unrecordable
from ..ir.graph import Atom, Lit, any_complex, pairs_exist
from ..ir.settings import AUTOCAST
from ..ops.complex import refused
from ..ops.elementwise import cast
from ..ops.shape import move_axis
from ..record.array import (
    DIRECT,
    FUNCTIONS,
    HINTS,
    UFUNC_METHODS,
    TracedArray,
    class_of,
    in_c_order,
    outranks,
    public_name,
    to_atoms,
    unsupported,
    wrap,
    wrap_as,
)
from ..record.constants import by_numpy
from ..record.integers import TracedInt
from ..record.made_arrays import MadeArray, assign_all, writable
from .from_source import source_of
from .python_numbers import CHECKED, python_operator
from .registry import handler_of, one_axis
from .ufunc_methods import of_elements

# ---- ufunc calls -------------------------------------------------------------------------------------------------


def direct_call(ufunc: Any, inputs: tuple[Any, ...]) -> TracedArray | None:
    """The result of a ufunc of float arrays of one shape and dtype and Python numbers; None for other operands."""
    primitive = DIRECT.get(ufunc)
    if primitive is None or AUTOCAST.dtype is not None:
        return None
    aval = recorder = None
    for x in inputs:
        if type(x) is TracedArray:
            theirs = x._atom.aval
            if aval is None:
                if theirs.dtype.kind not in FLOAT_KINDS or theirs.weak:
                    return None
                aval, recorder = theirs, x._recorder
            elif (
                theirs.dtype is not aval.dtype
                or theirs.shape != aval.shape
                or theirs.weak
                or x._recorder is not recorder
            ):
                return None
        elif type(x) is not float and type(x) is not int:
            return None
    if aval is None or recorder is None:
        return None
    atoms = tuple([x.atom if type(x) is TracedArray else Lit(x, aval.dtype) for x in inputs])
    result = TracedArray(recorder.emit(primitive, atoms, {})[0], recorder)
    if len(aval.shape) > 1:
        result._storage.c_order = all(in_c_order(x) for x in inputs)
    return result


def call_ufunc(ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """*ufunc* of traced arrays and whatever else the user mixed with them."""
    handler = handler_of(ufunc)
    if handler is None:
        by_elements = of_elements(ufunc)
        if by_elements is None:
            raise unsupported(public_name(ufunc))
        return by_elements(*inputs)
    atoms = to_atoms(inputs)
    if pairs_exist and any_complex(atoms) and not any("D" in loop or "F" in loop for loop in ufunc.types):
        raise refused(ufunc, np.dtype(complex), ufunc.__name__)
    if _is_python_bool(atoms[0]) and ufunc not in _OF_BOOLS and all(map(_is_python_bool, atoms)):
        atoms = [cast(a, INT, weak=True) for a in atoms]
    order = "K"
    if kwargs:
        atoms, order = _as_set(ufunc, atoms, kwargs)
    result = handler(*atoms)
    if isinstance(result, tuple):
        return tuple(wrap(r) for r in result)
    if ufunc is np.matmul and result.aval.ndim <= 2:
        order = "C"
    return wrap_as(result, *inputs, order=order)


def _as_set(ufunc: Any, atoms: list[Atom], settings: dict[str, Any]) -> tuple[list[Atom], str]:
    """(*atoms* as the *settings* of a call say, the order of its result)."""
    dtype = settings.pop("dtype", None)
    where = settings.pop("where", True)
    where = True if where is np._NoValue else where
    order = settings.pop("order", "K")
    for name in ("casting", "subok"):
        settings.pop(name, None)
    if "axis" in settings and ufunc.signature == "(n),(n)->()":
        axis = settings.pop("axis")
        atoms = [move_axis(a, one_axis(axis, a.aval.ndim, public_name(ufunc)), a.aval.ndim - 1) for a in atoms]
    if settings or where is not True:
        extra = ", ".join([*settings, *([] if where is True else ["where"])])
        raise UnsupportedError.here(f"{public_name(ufunc)} with {extra}= is not supported; use np.where on the result")
    if dtype is not None:
        of_class = isinstance(dtype, type) and issubclass(dtype, np.dtype)
        to: np.dtype = dtype() if of_class else np.dtype(dtype)
        atoms = [cast(a, to) for a in atoms]
    return atoms, order


def _is_python_bool(x: Atom) -> bool:
    return x.aval.dtype is BOOL and x.aval.weak


_OF_BOOLS = frozenset(  # what gives a bool for two of Python's; of all else these are ints
    (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
)
_PLAIN = {
    TracedArray, MadeArray, np.ndarray, float, int, bool, complex, np.float64, np.float32, np.int64, np.bool_,
    np.complex128, np.complex64,
}  # fmt: skip


def call_plain(ufunc: Any, inputs: tuple[Any, ...]) -> Any:
    """*ufunc* of traced arrays, plain arrays and numbers; None where there is anything else among them.

    It runs no code but our own and NumPy's, whatever the user has written.
    """
    result = direct_call(ufunc, inputs)
    if result is None and _PLAIN.issuperset(map(type, inputs)):
        return call_ufunc(ufunc, inputs, {})
    return result


# ---- NumPy's protocols ----


def array_ufunc(self: TracedArray, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    if any(outranks(type(x)) for x in inputs):
        return NotImplemented
    if _is_python_bool(self._atom):  # NumPy's function makes it one of its own
        inputs = tuple([strong(x, x) if type(x) is TracedArray else x for x in inputs])
    out = kwargs.pop("out", None)
    for target in out or ():
        if target is not None:
            writable(target, f"np.{ufunc.__name__}")
    try:
        where = kwargs.get("where", True)
        if method == "__call__" and out is not None and where is not True and where is not np._NoValue:
            del kwargs["where"]
            result = call_ufunc(ufunc, inputs, dict(kwargs))
            if len(out) > 1:
                raise unsupported(public_name(ufunc))
            return assign_all(out[0], np.where(where, result, out[0]))
        if method == "__call__":
            result = strong(self, call_ufunc(ufunc, inputs, dict(kwargs)))
        else:
            handler = UFUNC_METHODS.get((ufunc, method)) or UFUNC_METHODS.get((None, method))
            if handler is None or (handler_of(ufunc) is None and method == "outer"):
                raise unsupported(f"{public_name(ufunc)}.{method}")
            result = strong(self, handler(ufunc, *inputs, **kwargs))
    except UnsupportedError as error:
        result = by_numpy(error, ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs)
    if out is None:
        return result
    if isinstance(result, tuple):
        return tuple(r if o is None else assign_all(o, r) for o, r in zip(out, result, strict=True))
    return assign_all(out[0], result)


def strong(self: TracedArray, result: Any) -> Any:
    """*result* with a dtype of its own: np.sin(0.5) is a float64, no Python float."""
    if type(result) is not TracedArray:
        return result
    if result._atom.aval.weak:
        result = wrap(cast(result._atom, result.dtype), self._recorder)
    return result


def array_function(self: TracedArray, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if any(outranks(kind) for kind in types):
        return NotImplemented
    handler = FUNCTIONS.get(func)
    if any(value is np._NoValue for value in kwargs.values()):
        kwargs = {name: value for name, value in kwargs.items() if value is not np._NoValue}
    out = kwargs.pop("out", None) if "out" in kwargs else None
    try:
        if handler is None:
            error = unsupported(public_name(func))
            return _otherwise(error, func, args, kwargs if out is None else {**kwargs, "out": out})
        result = handler(*args, **kwargs)
        if func not in _PARTS:
            result = strong(self, result)
    except TypeError as error:
        refused = refusal(func, error)
        if not isinstance(refused, UnsupportedError):
            raise refused from None
        result = _otherwise(refused, func, args, kwargs)
    return result if out is None else assign_all(out[0] if isinstance(out, tuple) else out, result)


def _otherwise(error: UnsupportedError, func: Any, args: Any, kwargs: Any) -> Any:
    """*func*, whose recorded form (if any) was refused with *error*: by NumPy where no operand depends on an argument,
    else through its source."""
    try:
        return by_numpy(error, func, args, kwargs)
    except UnsupportedError:
        source = source_of(func)
        if source is None:
            raise
    unrecordable.discard(error)
    error.__traceback__ = None  # whose frames hold the arguments, and it
    try:
        return source(*args, **kwargs)
    except (UnsupportedError, MutationError, AttributeError) as inner:
        if isinstance(inner, TracegradError):
            unrecordable.discard(inner)
            if func.__name__ not in HINTS and func not in FUNCTIONS:
                error = UnsupportedError.here(
                    f"{public_name(func)} of traced arrays: {str(inner).partition(chr(10))[0]}"
                )
        unrecordable.add(error)
        raise error from inner


_PARTS = (np.real, np.imag)  # which give a Python number as it is


def refusal(func: Any, error: TypeError) -> Exception:
    """*error* of a call of *func*, as an error of ours where it is about the arguments."""
    if isinstance(error, TracegradError) or "argument" not in str(error):
        return error
    return UnsupportedError.here(f"{public_name(func)} on traced arrays: {error}")


# ---- operators ----

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    "divmod": np.divmod,
}
COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_COMPARES = frozenset(COMPARE.values())
_NAME_OF = {ufunc: name for name, ufunc in COMPARE.items()}
_EXACT = (decimal.Decimal, fractions.Fraction)  # compared with a float exactly
_EQUALITY = (np.equal, np.not_equal)
_BUFFERS = (range, array.array)
_PRIORITY = "__array_priority__"
_REPEATED = (deque, array.array)  # by a number, as lists are
_NO_NUMBERS = (str, bytes, dict, set, frozenset)
_NUMBERS = (float, complex, int, bool)
UNARY = {"neg": np.negative, "abs": np.absolute, "invert": np.invert, "pos": np.positive}


def _acceptable(self: TracedArray, ufunc: Any, value: Any) -> bool:
    """Whether the operand is one of an array's; a Python number knows no lists, and NumPy's repeat none."""
    if type(value) is TracedInt:  # which knows what it is for this array
        return False
    if isinstance(value, (list, tuple)) and (self._atom.aval.weak or ufunc is np.multiply):
        return class_of(self) is np.ndarray
    return isinstance(value, (TracedArray, np.ndarray, np.generic, int, float, list, tuple, complex))


def _taken(self: TracedArray, ufunc: Any, other: Any, defers: bool = True) -> Any:
    """*other*, which is not acceptable, as NumPy takes it beside *self*: sequences of any class are arrays, unless
    *self* *defers* to them."""
    kind = type(other)
    if class_of(self) in _NUMBERS or issubclass(kind, (list, tuple, TracedInt)):
        return other
    if hasattr(other, "__array_ufunc__") or hasattr(other, "keys") or (defers and hasattr(other, _PRIORITY)):
        return other
    if ufunc is np.multiply and class_of(self) is not np.ndarray and issubclass(kind, _REPEATED):
        return other
    if hasattr(other, "__array__") or issubclass(kind, _BUFFERS):
        return np.asarray(other)
    if issubclass(kind, _NO_NUMBERS) or not (hasattr(kind, "__len__") and hasattr(kind, "__getitem__")):
        return other
    return FUNCTIONS[np.array](list(other))


def _unequal(self: TracedArray, ufunc: Any, other: Any) -> Any:
    """The answer where *other*, which is no operand, is compared with *self*: with each element of an array."""
    kind = class_of(self)
    if ufunc not in _EQUALITY or kind in _NUMBERS or hasattr(other, "__array_ufunc__") or hasattr(other, _PRIORITY):
        return NotImplemented
    if kind is np.ndarray and type(other) in _EXACT:
        raise unsupported(f"a comparison of an array with an object of the class {type(other).__name__}")
    alone = type(other).__eq__ is object.__eq__ or not type(other).__flags__ & HEAP_TYPE
    if (alone and kind is np.ndarray) or isinstance(other, _NO_NUMBERS if kind is np.ndarray else (str, bytes)):
        return np.full(self.shape, ufunc is np.not_equal)[()]
    return NotImplemented


def _operator(ufunc: Any, operands: tuple[Any, ...]) -> Any:
    try:
        return call_ufunc(ufunc, operands, {})
    except UnsupportedError as error:
        return by_numpy(error, ufunc, operands, {})


def open_forward(ufunc: Any) -> Callable[..., Any]:
    def apply(self: TracedArray, other: Any) -> Any:
        if ufunc in CHECKED and (found := python_operator(ufunc, (self, other))) is not None:
            return found
        if ufunc in _COMPARES and type(other) in _EXACT and class_of(self) is not np.ndarray:
            return bool(getattr(operator, _NAME_OF[ufunc])(self.shown(), other))
        if _acceptable(self, ufunc, other):
            return _operator(ufunc, (self, other))
        if _acceptable(self, ufunc, taken := _taken(self, ufunc, other)):
            return _operator(ufunc, (self, taken))
        if type(other) is fractions.Fraction and class_of(self) is not np.ndarray:
            return apply(self.number(), float(other))
        return _unequal(self, ufunc, other)

    return apply


def open_reflected(ufunc: Any) -> Callable[..., Any]:
    def apply(self: TracedArray, other: Any) -> Any:
        if ufunc in CHECKED and (found := python_operator(ufunc, (other, self))) is not None:
            return found
        if type(other) is fractions.Fraction and class_of(self) is not np.ndarray:
            other = float(other)
        if _acceptable(self, ufunc, other):
            return _operator(ufunc, (other, self))
        other = _taken(self, ufunc, other, defers=False)
        return _operator(ufunc, (other, self)) if _acceptable(self, ufunc, other) else NotImplemented

    return apply


def open_unary(ufunc: Any) -> Callable[..., Any]:
    return lambda self: _operator(ufunc, (self,))


def _in_place(ufunc: Any) -> Callable[..., Any]:
    def apply(self: TracedArray, other: Any) -> Any:
        storage = self._storage
        if not self.shape and (self.aval.weak or not (self._steps or storage.array0d or storage.owner)):
            return NotImplemented  # a Python or NumPy scalar: += makes a new one, as + does
        if ufunc in CHECKED and (found := python_operator(ufunc, (self, other))) is not None:
            return found
        if isinstance(other, (list, tuple)) and not _acceptable(self, ufunc, other):
            return NotImplemented
        return assign_all(
            self, ufunc(self, other) if type(other) is TracedInt else call_ufunc(ufunc, (self, other), {})
        )

    return apply


for _name, _ufunc in BINARY.items():
    if _name != "divmod":
        setattr(TracedArray, f"__i{_name}__", _in_place(_ufunc))
