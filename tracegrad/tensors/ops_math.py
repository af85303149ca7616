"""Elementwise functions: a table of functions of one tensor, and one of functions of two.

Functions of integers are computed in the default dtype, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS, INEXACT_KINDS
from ..tracer.ops import scipy_ufuncs as sp
from . import dtypes
from .apply import apply
from .arguments import dtype_name, kind_of, tensor_argument, unify
from .inplace import inplace
from .on_device import filled
from .op import EagerOp
from .ops_basic import NEG, floating, is_complex, no_order, to_dtype
from .ops_choose import between
from .signature import Applied, Real, method, operation
from .tensor import METHODS, Tensor, make, raw

_ndarray = np.ndarray


# ---- one operand ---------------------------------------------------------------------------------------------------


def _rsqrt(x: Any) -> Any:
    return 1.0 / np.sqrt(x)


def _sigmoid(x: Any) -> Any:
    return sp.expit(x) if x.dtype.kind != "c" else 1.0 / (1.0 + np.exp(-x))


def _relu(x: Any) -> Any:
    return np.maximum(x, 0) if type(x) is _ndarray else np.where(x <= 0, 0, x)


def _sign(x: Any) -> Any:
    """The sign of *x*, 0 for NaN."""
    return np.where(np.isnan(x), 0.0, np.sign(x)) if x.dtype.kind in FLOAT_KINDS else np.sign(x)


FLOATING: dict[str, EagerOp] = {
    name: EagerOp(label, fn)
    for name, label, fn in (
        ("exp", "Exp", np.exp), ("exp2", "Exp2", np.exp2), ("expm1", "Expm1", np.expm1), ("log", "Log", np.log),
        ("log2", "Log2", np.log2), ("log10", "Log10", np.log10), ("log1p", "Log1P", np.log1p),
        ("sqrt", "Sqrt", np.sqrt), ("rsqrt", "Rsqrt", _rsqrt), ("sin", "Sin", np.sin), ("cos", "Cos", np.cos),
        ("tan", "Tan", np.tan), ("asin", "Asin", np.arcsin), ("acos", "Acos", np.arccos), ("atan", "Atan", np.arctan),
        ("sinh", "Sinh", np.sinh), ("cosh", "Cosh", np.cosh), ("tanh", "Tanh", np.tanh),
        ("asinh", "Asinh", np.arcsinh), ("acosh", "Acosh", np.arccosh), ("atanh", "Atanh", np.arctanh),
        ("sigmoid", "Sigmoid", _sigmoid), ("erf", "Erf", sp.erf), ("erfc", "Erfc", sp.erfc),
        ("erfinv", "Erfinv", sp.erfinv), ("lgamma", "Lgamma", sp.gammaln), ("digamma", "Digamma", sp.psi),
        ("reciprocal", "Reciprocal", np.reciprocal), ("sinc", "Sinc", np.sinc),
        ("deg2rad", "Deg2Rad", np.deg2rad), ("rad2deg", "Rad2Deg", np.rad2deg),
    )
}  # fmt: skip
KEEPING: dict[str, EagerOp] = {  # of integers they give integers
    name: EagerOp(label, fn, reads="result" if name == "relu" else "")
    for name, label, fn in (
        ("abs", "Abs", np.abs), ("sign", "Sign", _sign), ("sgn", "Sgn", _sign), ("floor", "Floor", np.floor),
        ("ceil", "Ceil", np.ceil), ("trunc", "Trunc", np.trunc), ("relu", "Relu", _relu),
        ("frac", "Frac", lambda x: x - np.trunc(x)), ("square", "Pow", np.square),
    )
}  # fmt: skip
_ROUNDING = ("floor", "ceil", "trunc")
_OF_COMPLEX = frozenset(("abs", "sgn", "square"))
_NOT_IN_PLACE = KEEPING.keys() - {"sgn", "square"}  # of complex tensors: a size is real
ROUND = EagerOp("Round", np.rint)
ROUND_DECIMALS = EagerOp("RoundBackward1", lambda x, decimals: np.round(x, decimals))
NAN_TO_NUM = EagerOp("NanToNum", lambda x, nan, high, low: np.nan_to_num(x, nan=nan, posinf=high, neginf=low))
LOGIT = EagerOp("Logit", sp.logit)
LOGIT_EPS = EagerOp("Logit", lambda x, eps: sp.logit(between(x, eps, 1.0 - eps)))


def _of_floats(name: str, op: EagerOp) -> None:
    def body(input: Any) -> Tensor:
        if not isinstance(input, Tensor):
            tensor_argument(name, input)
        return apply(op, (input if input._data.dtype.kind in FLOAT_KINDS else floating(input),))

    method(body, name, f"``{name}`` of each element.")
    _in_place(name, op)


def _keeping(name: str, op: EagerOp) -> None:
    def body(input: Tensor) -> Tensor:
        kind = input._data.dtype.kind
        if kind not in FLOAT_KINDS:
            if kind == "c" and name not in _OF_COMPLEX:
                raise no_order(name)
            if (kind == "b" and name != "sign") or name == "frac":
                raise NotImplementedError(f"\"{name}\" not implemented for '{dtype_name(input)}'")
            if name in _ROUNDING or kind == "b":
                return apply(_POSITIVE, (input,))
        return apply(op, (input,))

    method(body, name, f"``{name}`` of each element; of integers an integer.")
    _in_place(name, op)


def _in_place(name: str, op: EagerOp) -> None:
    def body(self: Tensor) -> Tensor:
        kind = self._data.dtype.kind
        if kind == "c" and name in _NOT_IN_PLACE:
            raise no_order(f"{name}_")
        if name in _ROUNDING and kind not in FLOAT_KINDS:
            return self
        return inplace(op, self)

    method(body, f"{name}_", f"``{name}`` of each element, in place.")


_POSITIVE = EagerOp("Positive", lambda x: x.copy())

for _name, _op in FLOATING.items():
    _of_floats(_name, _op)
for _name, _op in KEEPING.items():
    _keeping(_name, _op)
_in_place("neg", NEG)


@operation
def round(input: Real, *, decimals: int = 0) -> Applied:
    """To the nearest integer (halves to even), or to so many *decimals*."""
    if input._data.dtype.kind not in FLOAT_KINDS:
        return _POSITIVE, (input,)
    return (ROUND_DECIMALS, (input,), (int(decimals),)) if decimals else (ROUND, (input,))


@method
def nan_to_num(input: Tensor, nan: float | None = None, posinf: Any = None, neginf: Any = None) -> Tensor:
    """NaN replaced by *nan* (0), infinities by the largest numbers of the dtype unless given."""
    if input._data.dtype.kind not in INEXACT_KINDS:
        return apply(_POSITIVE, (input,))
    return apply(NAN_TO_NUM, (input,), (0.0 if nan is None else float(nan), posinf, neginf))


@method
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)); with *eps*, of x clamped to [eps, 1 - eps]."""
    input = floating(input)
    return apply(LOGIT, (input,)) if eps is None else apply(LOGIT_EPS, (input,), (float(eps),))


@method
def positive(input: Any) -> Tensor:
    """*input* itself."""
    return input


# ---- questions about elements --------------------------------------------------------------------------------------


def _question(name: str, fn: Callable[..., Any], of_integers: bool) -> None:
    def body(input: Tensor) -> Tensor:
        data = raw(input)
        if data.dtype.kind not in INEXACT_KINDS:
            return make(filled(of_integers, data.shape, bool, data))
        return make(np.asarray(fn(data)) if type(data) is _ndarray else fn(data))

    method(body, name, f"``{name}`` of each element, as bools.")


_question("isnan", np.isnan, False)
_question("isinf", np.isinf, False)
_question("isfinite", np.isfinite, True)


@method
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Elementwise ``|input - other| <= atol + rtol * |other|``, as bools."""
    if input.dtype != other.dtype:
        raise RuntimeError(f"{dtype_name(input)} did not match {dtype_name(other)}")
    found = np.isclose(raw(input), raw(other), rtol=rtol, atol=atol, equal_nan=equal_nan)
    return make(found if not isinstance(found, np.bool_) else np.asarray(found))


@method
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close."""
    return bool(raw(isclose(input, other, rtol, atol, equal_nan)).all())


@method
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape and the same elements."""
    x, y = raw(input), raw(other)
    return x.shape == y.shape and bool((x == y).all())


# ---- two operands --------------------------------------------------------------------------------------------------

TWO_FLOATING: dict[str, EagerOp] = {
    name: EagerOp(label, fn)
    for name, label, fn in (
        ("atan2", "Atan2", np.arctan2), ("hypot", "Hypot", np.hypot), ("logaddexp", "Logaddexp", np.logaddexp),
        ("logaddexp2", "Logaddexp2", np.logaddexp2), ("xlogy", "Xlogy", sp.xlogy),
        ("xlog1py", "SpecialXlog1Py", sp.xlog1py), ("copysign", "Copysign", np.copysign),
    )
}  # fmt: skip
TWO_KEEPING: dict[str, EagerOp] = {
    name: EagerOp(label, fn)
    for name, label, fn in (
        ("maximum", "Maximum", np.maximum), ("minimum", "Minimum", np.minimum), ("fmax", "Fmax", np.fmax),
        ("fmin", "Fmin", np.fmin), ("heaviside", "NotImplemented", np.heaviside),
    )
}  # fmt: skip


def _of_two(name: str, op: EagerOp) -> None:
    only_floats = name in TWO_FLOATING

    def body(input: Any, other: Any) -> Tensor:
        if not isinstance(other, Tensor) and not isinstance(input, Tensor):
            tensor_argument(name, input)
        a, b = unify(input, other)
        if (kind := kind_of(a, b)) == "c":
            raise no_order(name)
        if only_floats and kind != "f":
            a, b = (floating(v) if isinstance(v, Tensor) else float(v) for v in (a, b))
        return apply(op, (a, b))

    method(body, name, f"``{name}`` element by element, with broadcasting.")


for _name, _op in (TWO_FLOATING | TWO_KEEPING).items():
    _of_two(_name, _op)

FMOD = {n: EagerOp(f"FmodBackward{n}", np.fmod) for n in (0, 1)}


@method
def fmod(input: Tensor, other: Any) -> Tensor:
    """The remainder of a division, with the sign of *input*."""
    return apply(FMOD[isinstance(other, Tensor)], unify(input, other))


def _wide(value: Any) -> Any:
    if isinstance(value, Tensor):
        return to_dtype(value, dtypes.complex128 if is_complex(value) else dtypes.float64)
    return value if isinstance(value, complex) else float(value)


@method
def float_power(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent`` in float64, of complex numbers in complex128."""
    base, power = map(_wide, (input, exponent))
    return base**power


METHODS.update(
    absolute=METHODS["abs"], arctan2=METHODS["atan2"], fix=METHODS["trunc"], expit=METHODS["sigmoid"],
    negative_=METHODS["neg_"],
    **{f"arc{name[1:]}": METHODS[name] for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
)  # fmt: skip
Tensor.__abs__ = METHODS["abs"]  # type: ignore[attr-defined]
