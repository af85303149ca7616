"""Functions that choose or mix: limits, ``where``, masks, ``lerp``, sums with a product.

Where one of two is chosen, the derivative at the kink is PyTorch's: traced arrays choose with ``where``, and the
element on a limit keeps its gradient.  On NumPy arrays NumPy's own function computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS
from . import dtypes
from .apply import apply
from .arguments import FUNCTIONS, as_operand, dtype_name, kind_of, scalar_of, tensor_argument, unify
from .inplace import inplace
from .op import Op
from .ops_basic import to_dtype
from .tensor import METHODS, Tensor, make

_ndarray = np.ndarray

# ---- choosing ------------------------------------------------------------------------------------------------------


def _at_least(x: Any, low: Any) -> Any:
    return np.maximum(x, low) if type(x) is _ndarray else np.where(x < low, low, x)


def _at_most(x: Any, high: Any) -> Any:
    return np.minimum(x, high) if type(x) is _ndarray else np.where(x > high, high, x)


def between(x: Any, low: Any, high: Any) -> Any:
    return _at_most(_at_least(x, low), high)


CLAMP = {n: (Op(f"ClampBackward{n}", between), Op(f"ClampBackward{n}", _at_least), Op(f"ClampBackward{n}", _at_most))
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


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """*input* limited to [min, max], which are numbers or tensors; either may be left out."""
    op, operands = _clamp_call(input, min, max)
    return apply(op, operands)


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
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
        f"result type {dtypes.scalar_name(found)} can't be cast to the desired output type {dtype_name(t)}"
    )


def clamp_min(input: Tensor, min: Any) -> Tensor:
    """*input*, at least *min*."""
    return apply(CLAMP_MIN[isinstance(min, Tensor)], unify(tensor_argument("clamp_min", input), min))


def clamp_max(input: Tensor, max: Any) -> Tensor:
    """*input*, at most *max*."""
    return apply(CLAMP_MAX[isinstance(max, Tensor)], unify(tensor_argument("clamp_max", input), max))


def clamp_min_(self: Tensor, min: Any) -> Tensor:
    """``clamp_min`` in place."""
    return _written(CLAMP_MIN[isinstance(min, Tensor)], self, unify(self, min))


def clamp_max_(self: Tensor, max: Any) -> Tensor:
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
                f"where expected condition to be a boolean tensor, but got a tensor with dtype {dtype_name(condition)}"
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
        raise RuntimeError(f"masked_fill only supports boolean masks, but got mask with dtype {dtype_name(mask)}")
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
                f"expected dtype {dtype_name(input).lower()} for `end` but got dtype {dtype_name(other).lower()}"
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
    return float(value) if t._data.dtype.kind in FLOAT_KINDS else as_operand(value)


def _divided(input: Tensor, tensor1: Tensor, tensor2: Tensor) -> tuple[Any, ...]:
    operands = unify(tensor_argument("addcdiv", input), tensor1, tensor2)
    if kind_of(*operands) != "f":
        raise RuntimeError("Integer division with addcdiv is no longer supported; convert the tensors to floats")
    return operands


# ---- the tables ----------------------------------------------------------------------------------------------------


def install() -> None:
    """Enter everything into the tables."""
    methods: list[Callable[..., Any]] = [
        clamp, clamp_, clamp_min, clamp_max, clamp_min_, clamp_max_, masked_fill, masked_fill_, lerp, lerp_,
        addcmul, addcmul_, addcdiv, addcdiv_,
    ]  # fmt: skip
    for function in methods:
        METHODS[function.__name__] = function
    METHODS.update(clip=clamp, clip_=clamp_, where=_where_method)
    FUNCTIONS.update(where=where)


install()
