"""Elementwise functions: a table of functions of one tensor, of two, and those that choose.

Functions of integers are computed in the default dtype, as in PyTorch.  Where a function chooses (``clamp``, ``relu``)
PyTorch's derivative at the kink is had by choosing with ``where`` on traced arrays; NumPy's own function computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp

from . import dtypes
from .arguments import FUNCTIONS, as_operand, floating, scalar_of, tensor_argument, unify
from .inplace import check_writable, inplace
from .op import Op
from .ops_basic import NEG, to_dtype
from .tensor import METHODS, Tensor, apply, make, raw

_ndarray = np.ndarray


# ---- one operand ---------------------------------------------------------------------------------------------------


def _rsqrt(x: Any) -> Any:
    return 1.0 / np.sqrt(x)


def _relu(x: Any) -> Any:
    return np.maximum(x, 0) if type(x) is _ndarray else np.where(x <= 0, 0, x)


def _sign(x: Any) -> Any:
    """Of NaN it is 0 here."""
    return np.where(np.isnan(x), 0.0, np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


FLOATING: dict[str, Op] = {
    name: Op(label, fn)
    for name, label, fn in (
        ("exp", "Exp", np.exp), ("exp2", "Exp2", np.exp2), ("expm1", "Expm1", np.expm1), ("log", "Log", np.log),
        ("log2", "Log2", np.log2), ("log10", "Log10", np.log10), ("log1p", "Log1P", np.log1p),
        ("sqrt", "Sqrt", np.sqrt), ("rsqrt", "Rsqrt", _rsqrt), ("sin", "Sin", np.sin), ("cos", "Cos", np.cos),
        ("tan", "Tan", np.tan), ("asin", "Asin", np.arcsin), ("acos", "Acos", np.arccos), ("atan", "Atan", np.arctan),
        ("sinh", "Sinh", np.sinh), ("cosh", "Cosh", np.cosh), ("tanh", "Tanh", np.tanh),
        ("asinh", "Asinh", np.arcsinh), ("acosh", "Acosh", np.arccosh), ("atanh", "Atanh", np.arctanh),
        ("sigmoid", "Sigmoid", sp.expit), ("erf", "Erf", sp.erf), ("erfc", "Erfc", sp.erfc),
        ("erfinv", "Erfinv", sp.erfinv), ("lgamma", "Lgamma", sp.gammaln), ("digamma", "Digamma", sp.psi),
        ("reciprocal", "Reciprocal", np.reciprocal), ("sinc", "Sinc", np.sinc),
        ("deg2rad", "Deg2Rad", np.deg2rad), ("rad2deg", "Rad2Deg", np.rad2deg),
    )
}  # fmt: skip
KEEPING: dict[str, Op] = {  # of integers they give integers
    name: Op(label, fn, reads="result" if name == "relu" else "")
    for name, label, fn in (
        ("abs", "Abs", np.abs), ("sign", "Sign", _sign), ("sgn", "Sgn", _sign), ("floor", "Floor", np.floor),
        ("ceil", "Ceil", np.ceil), ("trunc", "Trunc", np.trunc), ("relu", "Relu", _relu),
        ("frac", "Frac", lambda x: x - np.trunc(x)), ("square", "Pow", np.square),
    )
}  # fmt: skip
_ROUNDING = ("floor", "ceil", "trunc")
ROUND = Op("Round", np.rint)
ROUND_DECIMALS = Op("RoundBackward1", lambda x, decimals: np.round(x, decimals))
NAN_TO_NUM = Op("NanToNum", lambda x, nan, high, low: np.nan_to_num(x, nan=nan, posinf=high, neginf=low))
LOGIT = Op("Logit", sp.logit)
LOGIT_EPS = Op("Logit", lambda x, eps: sp.logit(_between(x, eps, 1.0 - eps)))


def _of_floats(name: str, op: Op) -> Callable[..., Any]:
    def function(input: Tensor) -> Tensor:
        if not isinstance(input, Tensor):
            tensor_argument(name, input)
        return apply(op, (input if input._data.dtype.kind == "f" else floating(input),))

    return _named(function, name, f"``{name}`` of each element.")


def _keeping(name: str, op: Op) -> Callable[..., Any]:
    def function(input: Tensor) -> Tensor:
        kind = tensor_argument(name, input)._data.dtype.kind
        if kind != "f":
            if (kind == "b" and name != "sign") or name == "frac":
                raise NotImplementedError(f"\"{name}\" not implemented for '{_torch_dtype(input)}'")
            if name in _ROUNDING or kind == "b":
                return apply(_POSITIVE, (input,))
        return apply(op, (input,))

    return _named(function, name, f"``{name}`` of each element; of integers an integer.")


_POSITIVE = Op("Positive", lambda x: x.copy())


def _named(function: Callable[..., Any], name: str, text: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def _in_place(name: str, op: Op) -> Callable[..., Any]:
    def method(self: Tensor) -> Tensor:
        if name in _ROUNDING and self._data.dtype.kind != "f":
            return self
        return inplace(op, self)

    return _named(method, f"{name}_", f"``{name}`` of each element, in place.")


def round(input: Tensor, *, decimals: int = 0) -> Tensor:  # noqa: A001
    """To the nearest integer (halves to even), or to so many *decimals*."""
    tensor_argument("round", input)
    if input._data.dtype.kind != "f":
        return apply(_POSITIVE, (input,))
    return apply(ROUND, (input,)) if not decimals else apply(ROUND_DECIMALS, (input,), (int(decimals),))


def round_(self: Tensor, *, decimals: int = 0) -> Tensor:
    """``round`` in place."""
    return inplace(ROUND, self) if not decimals else inplace(ROUND_DECIMALS, self, (), (int(decimals),))


def nan_to_num(input: Tensor, nan: float | None = None, posinf: Any = None, neginf: Any = None) -> Tensor:
    """NaN replaced by *nan* (0), infinities by the largest numbers of the dtype unless given."""
    tensor_argument("nan_to_num", input)
    if input._data.dtype.kind != "f":
        return apply(_POSITIVE, (input,))
    return apply(NAN_TO_NUM, (input,), (0.0 if nan is None else float(nan), posinf, neginf))


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)); with *eps*, of x clamped to [eps, 1 - eps]."""
    input = floating(tensor_argument("logit", input))
    return apply(LOGIT, (input,)) if eps is None else apply(LOGIT_EPS, (input,), (float(eps),))


def positive(input: Tensor) -> Tensor:
    """*input* itself."""
    return input


# ---- questions about elements --------------------------------------------------------------------------------------


def _question(name: str, fn: Callable[..., Any], of_integers: bool) -> Callable[..., Any]:
    def function(input: Tensor) -> Tensor:
        data = raw(tensor_argument(name, input))
        if data.dtype.kind != "f":
            return make(np.full(data.shape, of_integers))
        return make(np.asarray(fn(data)) if type(data) is _ndarray else fn(data))

    return _named(function, name, f"``{name}`` of each element, as bools.")


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Where ``|input - other| <= atol + rtol * |other|``."""
    if input.dtype != other.dtype:
        raise RuntimeError(f"{_torch_dtype(input)} did not match {_torch_dtype(other)}")
    found = np.isclose(raw(input), raw(other), rtol=rtol, atol=atol, equal_nan=equal_nan)
    return make(found if not isinstance(found, np.bool_) else np.asarray(found))


def _torch_dtype(t: Tensor) -> str:
    return dtypes.scalar_name(t.dtype)


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close."""
    return bool(raw(isclose(input, other, rtol, atol, equal_nan)).all())


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape and the same elements."""
    x, y = raw(tensor_argument("equal", input)), raw(tensor_argument("equal", other, "other", 2))
    return x.shape == y.shape and bool((x == y).all())


# ---- two operands --------------------------------------------------------------------------------------------------

TWO_FLOATING: dict[str, Op] = {
    name: Op(label, fn)
    for name, label, fn in (
        ("atan2", "Atan2", np.arctan2), ("hypot", "Hypot", np.hypot), ("logaddexp", "Logaddexp", np.logaddexp),
        ("logaddexp2", "Logaddexp2", np.logaddexp2), ("xlogy", "Xlogy", sp.xlogy),
        ("xlog1py", "SpecialXlog1Py", sp.xlog1py), ("copysign", "Copysign", np.copysign),
    )
}  # fmt: skip
TWO_KEEPING: dict[str, Op] = {
    name: Op(label, fn)
    for name, label, fn in (
        ("maximum", "Maximum", np.maximum), ("minimum", "Minimum", np.minimum), ("fmax", "Fmax", np.fmax),
        ("fmin", "Fmin", np.fmin), ("heaviside", "NotImplemented", np.heaviside),
    )
}  # fmt: skip


def _of_two(name: str, op: Op, only_floats: bool) -> Callable[..., Any]:
    def function(input: Any, other: Any) -> Tensor:
        if not isinstance(other, Tensor) and not isinstance(input, Tensor):
            tensor_argument(name, input)
        a, b = unify(input, other)
        if only_floats and _kind(a, b) != "f":
            a, b = (floating(v) if isinstance(v, Tensor) else float(v) for v in (a, b))
        return apply(op, (a, b))

    return _named(function, name, f"``{name}`` element by element, with broadcasting.")


FMOD = {n: Op(f"FmodBackward{n}", np.fmod) for n in (0, 1)}


def fmod(input: Tensor, other: Any) -> Tensor:
    """The remainder of a division, with the sign of *input*."""
    return apply(FMOD[isinstance(other, Tensor)], unify(tensor_argument("fmod", input), other))


def float_power(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent`` in float64."""
    base, power = (to_dtype(v, dtypes.float64) if isinstance(v, Tensor) else float(v) for v in (input, exponent))
    return base**power


def _kind(*values: Any) -> str:
    return next(v._data.dtype.kind for v in values if isinstance(v, Tensor))


# ---- choosing ------------------------------------------------------------------------------------------------------


def _at_least(x: Any, low: Any) -> Any:
    return np.maximum(x, low) if type(x) is _ndarray else np.where(x < low, low, x)


def _at_most(x: Any, high: Any) -> Any:
    return np.minimum(x, high) if type(x) is _ndarray else np.where(x > high, high, x)


def _between(x: Any, low: Any, high: Any) -> Any:
    return _at_most(_at_least(x, low), high)


CLAMP = {n: (Op(f"ClampBackward{n}", _between), Op(f"ClampBackward{n}", _at_least), Op(f"ClampBackward{n}", _at_most))
         for n in (0, 1)}  # fmt: skip
CLAMP_MIN = {n: Op(f"ClampMinBackward{n}", _at_least) for n in (0, 1)}
CLAMP_MAX = {n: Op(f"ClampMaxBackward{n}", _at_most) for n in (0, 1)}
WHERE = Op("Where", lambda condition, x, y: np.where(condition, x, y))
MASKED_FILL = {n: Op(f"MaskedFillBackward{n}", lambda x, mask, value: np.where(mask, value, x)) for n in (0, 1)}


def _clamp_call(input: Tensor, low: Any, high: Any) -> tuple[Op, tuple[Any, ...]]:
    tensor_argument("clamp", input)
    if low is None and high is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    ops = CLAMP[0 if isinstance(low, Tensor) or isinstance(high, Tensor) else 1]
    if high is None:
        return ops[1], unify(input, low)
    if low is None:
        return ops[2], unify(input, high)
    return ops[0], unify(input, low, high)


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:  # noqa: A002
    """*input* limited to [min, max], which are numbers or tensors; either may be left out."""
    op, operands = _clamp_call(input, min, max)
    return apply(op, operands)


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:  # noqa: A002
    """``clamp`` in place."""
    op, operands = _clamp_call(self, min, max)
    return _written(op, self, operands)


def _written(op: Op, self: Tensor, operands: tuple[Any, ...]) -> Tensor:
    """In place; an error where promotion has changed the dtype of *self*."""
    if operands[0] is not self:
        _refuse_cast(operands[0].dtype, self)
    return inplace(op, self, operands[1:])


def _refuse_cast(found: np.dtype, t: Tensor) -> None:
    raise RuntimeError(
        f"result type {dtypes.scalar_name(found)} can't be cast to the desired output type {_torch_dtype(t)}"
    )


def clamp_min(input: Tensor, min: Any) -> Tensor:  # noqa: A002
    """*input*, at least *min*."""
    return apply(CLAMP_MIN[isinstance(min, Tensor)], unify(tensor_argument("clamp_min", input), min))


def clamp_max(input: Tensor, max: Any) -> Tensor:  # noqa: A002
    """*input*, at most *max*."""
    return apply(CLAMP_MAX[isinstance(max, Tensor)], unify(tensor_argument("clamp_max", input), max))


def clamp_min_(self: Tensor, min: Any) -> Tensor:  # noqa: A002
    """``clamp_min`` in place."""
    return _written(CLAMP_MIN[isinstance(min, Tensor)], self, unify(self, min))


def clamp_max_(self: Tensor, max: Any) -> Tensor:  # noqa: A002
    """``clamp_max`` in place."""
    return _written(CLAMP_MAX[isinstance(max, Tensor)], self, unify(self, max))


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """*input* where the *condition* holds, *other* elsewhere; of a condition alone the indices where it holds."""
    tensor_argument("where", condition, "condition")
    if input is None and other is None:
        return METHODS["nonzero"](condition, as_tuple=True)
    kind = condition._data.dtype.kind
    if kind != "b":
        if condition._data.dtype != dtypes.uint8:
            raise RuntimeError(
                f"where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{_torch_dtype(condition)}"
            )
        condition = to_dtype(condition, dtypes.bool_)
    a, b = unify(input, other)
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = make(np.asarray(a, dtypes.get_default_dtype() if isinstance(a, float) else None))
        b = make(np.asarray(b, a.dtype))
    return apply(WHERE, (condition, a, b))


def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """*self* where the *condition* holds, *other* elsewhere."""
    return where(condition, self, other)


def _mask_call(self: Tensor, mask: Tensor, value: Any) -> tuple[Op, tuple[Any, ...]]:
    if tensor_argument("masked_fill", mask, "mask")._data.dtype.kind != "b":
        raise RuntimeError(f"masked_fill only supports boolean masks, but got mask with dtype {_torch_dtype(mask)}")
    if not isinstance(value, Tensor):
        return MASKED_FILL[0], (self, mask, scalar_of(as_operand(value), self.dtype))
    if value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return MASKED_FILL[1], (self, mask, to_dtype(value, self.dtype))


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """*input* with *value* (a number or a tensor without axes) where the *mask* holds."""
    op, operands = _mask_call(tensor_argument("masked_fill", input), mask, value)
    return apply(op, operands)


def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``masked_fill`` in place."""
    op, operands = _mask_call(self, mask, value)
    return inplace(op, self, operands[1:])


# ---- three operands ------------------------------------------------------------------------------------------------

LERP = {n: Op(f"LerpBackward{n}", lambda start, end, weight: start + weight * (end - start)) for n in (0, 1)}
ADDCMUL = Op("Addcmul", lambda x, a, b, value: x + value * (a * b))
ADDCDIV = Op("Addcdiv", lambda x, a, b, value: x + value * (a / b))


def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """``input + weight * (end - input)``."""
    return apply(LERP[isinstance(weight, Tensor)], _same_dtype("lerp", input, end, weight))


def lerp_(self: Tensor, end: Tensor, weight: Any) -> Tensor:
    """``lerp`` in place."""
    return inplace(LERP[isinstance(weight, Tensor)], self, _same_dtype("lerp_", self, end, weight)[1:])


def _same_dtype(name: str, input: Tensor, end: Tensor, weight: Any) -> tuple[Any, ...]:
    tensor_argument(name, input)
    tensor_argument(name, end, "end", 2)
    for other in (end, weight):
        if isinstance(other, Tensor) and other.dtype != input.dtype:
            raise RuntimeError(
                f"expected dtype {_torch_dtype(input).lower()} for `end` but got dtype {_torch_dtype(other).lower()}"
            )
    return (input, end, weight if isinstance(weight, Tensor) else float(weight))


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """``input + value * tensor1 * tensor2``."""
    return apply(ADDCMUL, (*unify(tensor_argument("addcmul", input), tensor1, tensor2), _weight(input, value)))


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """``input + value * tensor1 / tensor2``."""
    return apply(ADDCDIV, (*_divided(input, tensor1, tensor2), _weight(input, value)))


def addcmul_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """``addcmul`` in place."""
    return _written(ADDCMUL, self, (*unify(self, tensor1, tensor2), _weight(self, value)))


def addcdiv_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """``addcdiv`` in place."""
    return _written(ADDCDIV, self, (*_divided(self, tensor1, tensor2), _weight(self, value)))


def _weight(t: Tensor, value: Any) -> Any:
    return float(value) if t._data.dtype.kind == "f" else as_operand(value)


def _divided(input: Tensor, tensor1: Tensor, tensor2: Tensor) -> tuple[Any, ...]:
    operands = unify(tensor_argument("addcdiv", input), tensor1, tensor2)
    if _kind(*operands) != "f":
        raise RuntimeError("Integer division with addcdiv is no longer supported; convert the tensors to floats")
    return operands


# ---- activations ---------------------------------------------------------------------------------------------------

_ROOT_HALF = 0.7071067811865476
_ROOT_2_OVER_PI = 0.7978845608028654


def _softplus(x: Any, beta: Any, threshold: Any) -> Any:
    scaled = x * beta
    return np.where(scaled > threshold, x, np.logaddexp(scaled, 0.0) / beta)


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1.0 + np.tanh(_ROOT_2_OVER_PI * (x + 0.044715 * (x * x * x))))


def _elu(x: Any, alpha: Any) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0.0, x)))


def _logsigmoid(x: Any) -> Any:
    return -np.logaddexp(-x, 0.0)


SOFTPLUS = Op("Softplus", _softplus)
GELU = Op("Gelu", lambda x: 0.5 * x * (1.0 + sp.erf(x * _ROOT_HALF)))
GELU_TANH = Op("Gelu", _gelu_tanh)
SILU = Op("Silu", lambda x: x * sp.expit(x))
ELU = Op("Elu", _elu)
LEAKY_RELU = Op("LeakyRelu", lambda x, slope: np.where(x > 0, x, x * slope))
HARDTANH = Op("Hardtanh", lambda x, low, high: np.where(x <= low, low, np.where(x >= high, high, x)))
LOGSIGMOID = Op("LogSigmoid", _logsigmoid)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x exceeds the *threshold*."""
    return apply(SOFTPLUS, (input, float(beta), float(threshold)))


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function; *approximate* is "none" or "tanh"."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return apply(GELU if approximate == "none" else GELU_TANH, (input,))


def silu(input: Tensor) -> Tensor:
    """x times sigmoid(x)."""
    return apply(SILU, (input,))


def elu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """x where positive, alpha (exp(x) - 1) elsewhere."""
    return apply(ELU, (input, float(alpha)))


def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where positive, *negative_slope* times x elsewhere."""
    return apply(LEAKY_RELU, (input, float(negative_slope)))


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to [min_val, max_val]; derivative 0 on the limits."""
    return apply(HARDTANH, (input, float(min_val), float(max_val)))


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x))."""
    return apply(LOGSIGMOID, (input,))


# ---- the tables ----------------------------------------------------------------------------------------------------


def install() -> None:
    """Enter everything into the table of methods."""
    for name, op in FLOATING.items():
        METHODS[name] = _of_floats(name, op)
        METHODS[f"{name}_"] = _in_place(name, op)
    for name, op in KEEPING.items():
        METHODS[name] = _keeping(name, op)
        METHODS[f"{name}_"] = _in_place(name, op)
    METHODS["neg_"] = METHODS["negative_"] = _in_place("neg", NEG)
    for name, op in TWO_FLOATING.items():
        METHODS[name] = _of_two(name, op, True)
    for name, op in TWO_KEEPING.items():
        METHODS[name] = _of_two(name, op, False)
    for name, fn, of_integers in (("isnan", np.isnan, False), ("isinf", np.isinf, False),
                                  ("isfinite", np.isfinite, True)):  # fmt: skip
        METHODS[name] = _question(name, fn, of_integers)
    for function in (
        fmod, float_power, round, round_, nan_to_num, logit, positive, isclose, allclose, equal, clamp, clamp_, clamp_min, clamp_max,
        clamp_min_, clamp_max_, masked_fill, masked_fill_, lerp, lerp_, addcmul, addcmul_, addcdiv, addcdiv_,
    ):  # fmt: skip
        METHODS[function.__name__] = function
    METHODS.update(clip=clamp, clip_=clamp_, where=_where_method, absolute=METHODS["abs"], arctan2=METHODS["atan2"])
    METHODS.update({
        f"arc{name[1:]}": METHODS[name] for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")
    })  # fmt: skip
    METHODS.update(fix=METHODS["trunc"], expit=METHODS["sigmoid"])
    FUNCTIONS.update(where=where)
    Tensor.__abs__ = METHODS["abs"]  # type: ignore[attr-defined]


install()

__all__ = ["check_writable", "clamp", "masked_fill", "where"]
