"""Arithmetic and comparisons: the operators, and the conversion of their operands.

Each operation is one ``EagerOp`` row over raw arrays.  ``operand`` makes an operand of a user's value (numbers, NumPy
arrays and scalars); ``meet`` brings two tensors to one dtype by PyTorch's promotion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.exceptions import ComplexWarning

from ..tracer.ir.aval import FLOAT_KINDS, INEXACT_KINDS
from ..tracer.ir.site import warn_at_site
from ..tracer.ir.tracebacks import shorten
from ..tracer.ops.elementwise import cast
from ..tracer.record.array import TracedArray, class_of, wrap_array
from ..tracer.record.integers import TracedInt
from . import dtypes
from . import tensor as core
from .apply import apply
from .device import device_of
from .inplace import check_writable, inplace
from .modes import STATE
from .op import EagerOp
from .tensor import METHODS, Tensor, make, raw
from .transfer import to_device


def _fill(old: Any, value: Any) -> Any:
    filled: Any = np.where(True, value, old)
    return filled.astype(old.dtype)


def order_of_copy(x: Any) -> str:
    """As *x* lies in memory; in C order where elements are repeated, which NumPy would put side by side."""
    if type(x) is not np.ndarray or 0 not in x.strides:
        return "K"
    return "C" if any(n > 1 and not s for n, s in zip(x.shape, x.strides, strict=True)) else "K"


def _cast(x: Any, dtype: np.dtype) -> Any:
    """*x* in another dtype; of complex numbers real ones take the real part."""
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    return x.astype(dtype, order=order_of_copy(x))


ADD = EagerOp("Add", np.add)
SUB = EagerOp("Sub", np.subtract)
MUL = EagerOp("Mul", np.multiply)
DIV = EagerOp("Div", np.true_divide, reads="operands")
NEG = EagerOp("Neg", np.negative)
POW_SCALAR = EagerOp("Pow", lambda x, exponent: np.power(x, exponent))
POW = EagerOp("PowBackward1", np.power)
FLOOR_DIVIDE = EagerOp("NotImplemented", np.floor_divide)
REMAINDER = EagerOp("Remainder", np.remainder)
TO = EagerOp("ToCopy", _cast)
FILL = EagerOp("Fill", _fill)

# alpha is part of the program: so nothing has to be saved, and backward may run again
ADD_SCALED = EagerOp("Add", lambda x, y, alpha: x + alpha * y)
SUB_SCALED = EagerOp("Sub", lambda x, y, alpha: x - alpha * y)

_COMPARE = {name: EagerOp(name, fn) for name, fn in {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}.items()}  # fmt: skip
_BITS = {name: EagerOp(name, fn) for name, fn in {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
}.items()}  # fmt: skip


def to_dtype(t: Tensor, dtype: np.dtype) -> Tensor:
    """*t* in another dtype, recorded; *t* itself where nothing changes.  Of complex numbers real ones take the real
    part, with a warning."""
    own = t.dtype
    if own == dtype:
        return t
    if own.kind == "c" and dtype.kind not in "cb":
        warn_at_site("Casting complex values to real discards the imaginary part", ComplexWarning)
    return apply(TO, (t,), (dtype,))


def floating(t: Tensor) -> Tensor:
    """*t*, integers and bools as the default dtype."""
    return t if t._data.dtype.kind in INEXACT_KINDS else to_dtype(t, dtypes.get_default_dtype())


_NUMBERS = {"i": dtypes.int64, "u": dtypes.int64, "b": dtypes.bool_}


def dtype_of_number(value: Any) -> np.dtype:
    """The dtype of a Python number beside tensors."""
    kind = type(value)
    if kind is complex:
        return dtypes.default_complex()
    return dtypes.bool_ if kind is bool else dtypes.int64 if kind is int else dtypes.get_default_dtype()


def complex_operand(value: complex, dtype: np.dtype) -> Tensor:
    """A complex number as an operand beside tensors of *dtype*: a tensor without axes, which widens no lanes."""
    wide = dtypes.promote(dtype, 0, dtypes.default_complex(), -1)
    return make(np.asarray(value, wide))


def operand(t: Tensor, other: Any) -> Any:
    """*other* as an operand beside the tensor *t*: a Tensor, or a Python number (no complex one) of the kind that *t*
    takes."""
    kind = type(other)
    if kind is float:
        return other
    if isinstance(other, Tensor):
        return other
    if kind is TracedInt:
        dtype = raw(t).dtype
        narrow = dtype.kind in "iu" and dtype.itemsize < 8  # where not every int has a place
        other = other.number() if dtype.kind in INEXACT_KINDS else other.asked() if narrow else other.array()
    if type(other) is TracedArray and class_of(other) is not np.ndarray:  # stands for a number
        dtype, own = raw(t).dtype, _NUMBERS.get(other.aval.dtype.kind) or dtypes.get_default_dtype()
        if other.aval.is_complex:
            own = dtypes.default_complex()
        number = wrap_array(cast(other.atom, dtypes.promote(dtype, 0, own, -1)))
        return make(number if STATE.capture is None else STATE.capture.put(number, device_of(raw(t))))
    if isinstance(other, (bool, np.bool_)):
        other = int(other) if raw(t).dtype.kind != "b" else bool(other)
        kind = type(other)
    if isinstance(other, (int, np.integer)):
        return float(other) if raw(t).dtype.kind in INEXACT_KINDS else other if kind is bool else int(other)
    if isinstance(other, (float, np.floating)):
        return float(other)
    if isinstance(other, (complex, np.complexfloating)):
        return complex_operand(complex(other), raw(t).dtype)
    if isinstance(other, (np.ndarray, TracedArray)):
        return make(other)
    return NotImplemented


def meet(a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands in one dtype.  One of them is a Tensor, the other a Tensor or a Python number."""
    if not isinstance(a, Tensor):
        b, a = meet(b, a)
        return a, b
    x = raw(a)
    if isinstance(b, Tensor):
        y = raw(b)
        if x.dtype is y.dtype or x.dtype == y.dtype:
            return a, b
        dtype = dtypes.promote(x.dtype, len(x.shape), y.dtype, len(y.shape))
        return to_dtype(a, dtype), to_dtype(b, dtype)
    if type(b) is float and x.dtype.kind not in INEXACT_KINDS:
        return to_dtype(a, dtypes.get_default_dtype()), b
    if type(b) is int and x.dtype.kind == "b":
        return to_dtype(a, np.dtype("int64")), b
    return a, b


def binary(op: EagerOp, a: Tensor, other: Any) -> Any:
    """``op(a, other)`` with promotion; NotImplemented where *other* is no operand."""
    if type(other) is not float or a._data.dtype.kind not in FLOAT_KINDS:
        other = operand(a, other)
        if other is NotImplemented:
            return NotImplemented
        a, other = meet(a, other)
    return apply(op, (a, other))


def _reflected(op: EagerOp, b: Tensor, other: Any) -> Any:
    """``op(other, b)`` with promotion; NotImplemented where *other* is no operand."""
    a = operand(b, other)
    return NotImplemented if a is NotImplemented else apply(op, meet(a, b))


def operators(op: EagerOp) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Tensor, other: Any) -> Any:
        try:
            return binary(op, self, other)
        except Exception as error:
            shorten(error)
            raise

    def reflected(self: Tensor, other: Any) -> Any:
        try:
            return _reflected(op, self, other)
        except Exception as error:
            shorten(error)
            raise

    return forward, reflected


def _function(op: EagerOp, name: str) -> Callable[..., Any]:
    def function(input: Any, other: Any) -> Any:
        if not isinstance(input, Tensor):
            input = other._like(input) if isinstance(other, Tensor) else make(np.asarray(input))
        result = binary(op, input, other)
        if result is NotImplemented:
            raise TypeError(f"{name}(): argument 'other' must be Tensor or Number, not {type(other).__name__}")
        return result

    function.__name__ = name
    return function


def _scaled(op: EagerOp, input: Tensor, other: Any, alpha: float, *, write: bool = False) -> Tensor:
    if isinstance(alpha, complex):
        other, alpha = other * alpha, 1
    a, b = meet(input, operand(input, other))
    if isinstance(alpha, float) and a.dtype.kind not in INEXACT_KINDS:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return inplace(op, a, (b,), (alpha,)) if write else apply(op, (a, b), (alpha,))


def add(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """``input + alpha * other``."""
    return input + other if alpha == 1 else _scaled(ADD_SCALED, input, other, alpha)


def sub(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """``input - alpha * other``."""
    return input - other if alpha == 1 else _scaled(SUB_SCALED, input, other, alpha)


def rsub(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    return other - (input if alpha == 1 else input * alpha)


mul = _function(MUL, "mul")


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """True division; with *rounding_mode* "floor" or "trunc" rounded."""
    if not isinstance(input, Tensor):
        return input / other
    if rounding_mode is None:
        return _true_divide(input, other)
    if rounding_mode == "floor":
        return METHODS["floor"](_true_divide(input, other)) if input.dtype.kind in FLOAT_KINDS else input // other
    if rounding_mode == "trunc":
        result = METHODS["trunc"](_true_divide(input, other))
        return result if input.dtype.kind in FLOAT_KINDS else to_dtype(result, input.dtype)
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")


def _true_divide(self: Tensor, other: Any) -> Any:
    if not isinstance(other, Tensor):
        self = floating(self)
    elif self._data.dtype.kind not in INEXACT_KINDS:
        other = floating(other)
    return binary(DIV, self, other)


def _true_divide_reflected(self: Tensor, other: Any) -> Any:
    return _reflected(DIV, floating(self), other)


def pow(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent``; a number as exponent is part of the program (``x ** 2`` is a product)."""
    if not isinstance(input, Tensor):
        return exponent.__rpow__(input)
    if isinstance(exponent, Tensor):
        return binary(POW, input, exponent)
    exponent = _in_program(exponent)
    if isinstance(exponent, complex):
        return binary(POW, input, exponent)
    if isinstance(exponent, float) and raw(input).dtype.kind not in INEXACT_KINDS:
        input = floating(input)
    if isinstance(exponent, int) and exponent < 0 and raw(input).dtype.kind not in INEXACT_KINDS:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if not isinstance(exponent, (int, float)):
        return NotImplemented
    return apply(POW_SCALAR, (input,), (exponent,))


def _rpow(self: Tensor, other: Any) -> Any:
    return _reflected(POW, self, other)


def neg(input: Tensor) -> Tensor:
    return apply(NEG, (input,))


def inplace_method(op: EagerOp, name: str) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Tensor:
        other = operand(self, other)
        if other is NotImplemented:
            raise TypeError(f"{name}(): argument 'other' must be Tensor or Number")
        if isinstance(other, Tensor) and raw(other).dtype != raw(self).dtype:
            check_writable(self, (other,))
            wanted = dtypes.promote(self.dtype, self.ndim, other.dtype, other.ndim)
            if wanted == self.dtype:
                other = to_dtype(other, wanted)
        return inplace(op, self, (other,))

    method.__name__ = name
    return method


def add_(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """``self += alpha * other``."""
    return _iadd(self, other) if alpha == 1 else _scaled(ADD_SCALED, self, other, alpha, write=True)


def sub_(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """``self -= alpha * other``."""
    return _isub(self, other) if alpha == 1 else _scaled(SUB_SCALED, self, other, alpha, write=True)


_iadd = inplace_method(ADD, "add_")
_isub = inplace_method(SUB, "sub_")
mul_ = inplace_method(MUL, "mul_")
div_ = inplace_method(DIV, "div_")


def pow_(self: Tensor, exponent: Any) -> Tensor:
    if isinstance(exponent, Tensor):
        return inplace(POW, self, (exponent,))
    return inplace(POW_SCALAR, self, (), (_in_program(exponent),))


def _in_program(number: Any) -> Any:
    """A number that is part of the program, as Python's: of an int of the run its value."""
    if type(number) is TracedInt:
        return number.asked()
    return number.item() if isinstance(number, np.generic) else number


def fill_(self: Tensor, value: Any) -> Tensor:
    """Every element becomes *value*."""
    if not isinstance(value, Tensor):
        value = operand(self, value)
    if isinstance(value, Tensor) and value.dtype.kind == "c" and self.dtype.kind != "c":
        raise no_complex_value(self.dtype)
    return inplace(FILL, self, (value,))


def no_complex_value(dtype: np.dtype) -> RuntimeError:
    """The error for a complex number where elements are of a real *dtype*."""
    return RuntimeError(
        f"value cannot be converted to type {dtype.name} without overflow: it is complex; write its real part, or make "
        "the tensor complex with x.to(tracegrad.complex128)"
    )


def zero_(self: Tensor) -> Tensor:
    """Every element becomes 0."""
    if not self._requires and self._base is None and core.STATE.capture is None and not self._inference:
        self._data[...] = 0
        self._counter[0] += 1
        return self
    return inplace(FILL, self, (0.0 if self.dtype.kind in INEXACT_KINDS else 0,))


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Every element becomes that of *src*, broadcast and cast."""
    if not isinstance(src, Tensor):
        src = make(np.asarray(src))
    check_writable(self, (src,))
    src = to_device(src, device_of(self._data))
    if src.dtype != self.dtype:
        src = to_dtype(src, self.dtype)
    return inplace(COPY, self, (src,))


COPY = EagerOp("CopyBackwards", lambda old, new: np.where(True, new, old))


def _compare(name: str) -> Callable[..., Any]:
    op = _COMPARE.get(name) or _BITS[name]
    exact = name in _COMPARE
    ordered = name in ("lt", "le", "gt", "ge")

    def method(self: Tensor, other: Any) -> Any:
        if other is None:
            return NotImplemented
        try:
            if ordered and (self._data.dtype.kind == "c" or isinstance(other, complex) or is_complex(other)):
                raise no_order(name)
            if exact and self._data.dtype.kind in "iu" and isinstance(other, Tensor):
                self, other = _held(self, other)
            return binary(op, self, other)
        except Exception as error:
            shorten(error)
            raise

    method.__name__ = name
    return method


def _held(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Integers to be compared: in a dtype that holds both, though one tensor has no axes. PyTorch wraps that one."""
    x, y = a._data.dtype, b._data.dtype
    if x == y or y.kind not in "iu":
        return a, b
    dtype = dtypes.promote(x, 1, y, 1)
    return to_dtype(a, dtype), to_dtype(b, dtype)


def is_complex(value: Any) -> bool:
    """Whether *value* is a tensor, or an array, of complex numbers."""
    return type(value) is not TracedInt and getattr(getattr(value, "dtype", None), "kind", "") == "c"


def no_order(name: str) -> NotImplementedError:
    """The error for a function that complex numbers, which have no order, do not have."""
    return NotImplementedError(
        f'"{name}" not implemented for complex tensors, whose elements have no order: take x.abs(), x.real or x.imag'
    )


def _invert(self: Tensor) -> Tensor:
    return make(np.invert(raw(self)))


def _like(self: Tensor, value: Any) -> Tensor:
    if isinstance(value, complex):
        return complex_operand(value, self.dtype)
    return make(np.asarray(value, dtype=self.dtype if isinstance(value, (bool, int)) else None))


def install() -> None:
    """Give Tensor its operators."""
    for name, op in {"add": ADD, "sub": SUB, "mul": MUL, "floordiv": FLOOR_DIVIDE, "mod": REMAINDER}.items():
        forward, reflected = operators(op)
        setattr(Tensor, f"__{name}__", forward)
        setattr(Tensor, f"__r{name}__", reflected)
    special: dict[str, Any] = {
        "__truediv__": _true_divide, "__rtruediv__": _true_divide_reflected, "__pow__": pow, "__rpow__": _rpow,
        "__neg__": neg, "__pos__": lambda self: self, "__iadd__": _iadd, "__isub__": _isub, "__imul__": mul_,
        "__itruediv__": div_, "__ipow__": pow_, "__invert__": _invert, "_like": _like,
    }  # fmt: skip
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        special[f"__{name}__"] = METHODS[name] = _compare(name)
    for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"):
        METHODS[name] = _compare(name)
    for name, method in {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}.items():
        special[f"__{name}__"] = special[f"__r{name}__"] = METHODS[method]
    for name, method in special.items():
        setattr(Tensor, name, method)
    METHODS.update(
        add=add, sub=sub, subtract=sub, mul=mul, multiply=mul, div=div, divide=div, true_divide=div, pow=pow, neg=neg,
        negative=neg, rsub=rsub, add_=add_, sub_=sub_, mul_=mul_, div_=div_, pow_=pow_, fill_=fill_, zero_=zero_,
        copy_=copy_, bitwise_not=_invert, logical_not=lambda self: make(np.logical_not(raw(self))),
        remainder=_function(REMAINDER, "remainder"), floor_divide=_function(FLOOR_DIVIDE, "floor_divide"),
    )  # fmt: skip


install()
