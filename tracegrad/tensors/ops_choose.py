"""Functions that choose or mix: limits, ``where``, masks, ``lerp``, sums with a product.

Where one of two is chosen, the derivative at the kink is PyTorch's: traced arrays choose with ``where``, and the
element on a limit keeps its gradient.  On NumPy arrays NumPy's own function computes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..tracer.ir.aval import INEXACT_KINDS
from . import dtypes
from .apply import apply
from .arguments import as_operand, dtype_name, kind_of, scalar_of, unify
from .op import EagerOp
from .ops_basic import no_complex_value, to_dtype
from .signature import Applied, Real, function, method, operation
from .tensor import METHODS, Tensor, make

_ndarray = np.ndarray

# ---- choosing ------------------------------------------------------------------------------------------------------


def _at_least(x: Any, low: Any) -> Any:
    return np.maximum(x, low) if type(x) is _ndarray else np.where(x < low, low, x)


def _at_most(x: Any, high: Any) -> Any:
    return np.minimum(x, high) if type(x) is _ndarray else np.where(x > high, high, x)


def between(x: Any, low: Any, high: Any) -> Any:
    return _at_most(_at_least(x, low), high)


CLAMP = {n: [EagerOp(f"ClampBackward{n}", fn) for fn in (between, _at_least, _at_most)]
         for n in (0, 1)}  # fmt: skip
CLAMP_MIN = {n: EagerOp(f"ClampMinBackward{n}", _at_least) for n in (0, 1)}
CLAMP_MAX = {n: EagerOp(f"ClampMaxBackward{n}", _at_most) for n in (0, 1)}
WHERE = EagerOp("Where", lambda condition, x, y: np.where(condition, x, y))
MASKED_FILL = {n: EagerOp(f"MaskedFillBackward{n}", lambda x, mask, value: np.where(mask, value, x)) for n in (0, 1)}


@operation
def clamp(input: Real, min: Any = None, max: Any = None) -> Applied:
    """*input* limited to [min, max], which are numbers or tensors; either may be left out."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    ops = CLAMP[0 if isinstance(min, Tensor) or isinstance(max, Tensor) else 1]
    if max is None:
        return ops[1], unify(input, min)
    if min is None:
        return ops[2], unify(input, max)
    return ops[0], unify(input, min, max)


@operation
def clamp_min(input: Real, min: Any) -> Applied:
    """*input*, at least *min*."""
    return CLAMP_MIN[isinstance(min, Tensor)], unify(input, min)


@operation
def clamp_max(input: Real, max: Any) -> Applied:
    """*input*, at most *max*."""
    return CLAMP_MAX[isinstance(max, Tensor)], unify(input, max)


@function
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """*input* where the *condition* holds, *other* elsewhere; of a condition alone the indices where it holds."""
    if input is None and other is None:
        return METHODS["nonzero"](condition, as_tuple=True)
    kind = condition._data.dtype.kind
    if kind != "b":
        if condition._data.dtype != dtypes.uint8:
            raise RuntimeError(
                f"where expected condition to be a boolean tensor, but got a tensor with dtype {dtype_name(condition)}"
            )
        condition = to_dtype(condition, dtypes.bool_)
    a, b = unify(input, other)
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = make(np.asarray(a, dtypes.get_default_dtype() if isinstance(a, float) else None))
        b = make(np.asarray(b, a.dtype))
    return apply(WHERE, (condition, a, b))


@partial(method, name="where")
def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """*self* where the *condition* holds, *other* elsewhere."""
    return where(condition, self, other)


@operation
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Applied:
    """*input* with *value* (a number or a tensor without axes) where the *mask* holds."""
    if mask._data.dtype.kind != "b":
        raise RuntimeError(f"masked_fill only supports boolean masks, but got mask with dtype {dtype_name(mask)}")
    if not isinstance(value, Tensor):
        if isinstance(value, complex) and input.dtype.kind != "c":
            raise no_complex_value(input.dtype)
        return MASKED_FILL[0], (input, mask, scalar_of(as_operand(value), input.dtype))
    if value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return MASKED_FILL[1], (input, mask, to_dtype(value, input.dtype))


# ---- three operands ------------------------------------------------------------------------------------------------

LERP = {n: EagerOp(f"LerpBackward{n}", lambda start, end, weight: start + weight * (end - start)) for n in (0, 1)}
ADDCMUL = EagerOp("Addcmul", lambda x, a, b, value: x + value * (a * b))
ADDCDIV = EagerOp("Addcdiv", lambda x, a, b, value: x + value * (a / b))


@operation
def lerp(input: Tensor, end: Tensor, weight: Any) -> Applied:
    """``input + weight * (end - input)``."""
    for other in (end, weight):
        if isinstance(other, Tensor) and other.dtype != input.dtype:
            raise RuntimeError(
                f"expected dtype {dtype_name(input).lower()} for `end` but got dtype {dtype_name(other).lower()}"
            )
    is_tensor = isinstance(weight, Tensor)
    return LERP[is_tensor], (input, end, weight if is_tensor else scalar_of(weight, input.dtype))


@operation
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Applied:
    """``input + value * tensor1 * tensor2``."""
    return ADDCMUL, (*unify(input, tensor1, tensor2), _weight(input, value))


@operation
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Applied:
    """``input + value * tensor1 / tensor2``."""
    operands = unify(input, tensor1, tensor2)
    if kind_of(*operands) not in "fc":
        raise RuntimeError("Integer division with addcdiv is no longer supported; convert the tensors to floats")
    return ADDCDIV, (*operands, _weight(input, value))


def _weight(t: Tensor, value: Any) -> Any:
    return scalar_of(value, t._data.dtype) if t._data.dtype.kind in INEXACT_KINDS else as_operand(value)


METHODS.update(clip=clamp, clip_=METHODS["clamp_"])
