"""Elementwise functions: names of the standard that are NumPy's ufuncs, a few with an operation of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensors.apply import apply
from ..tensors.op import EagerOp
from ..tensors.ops_basic import POW, POW_SCALAR
from ..tensors.ops_choose import CLAMP, WHERE
from ..tensors.tensor import Tensor
from .rows import eager, met, row, written


def _rounded(name: str, ufunc: Any) -> EagerOp:
    """*ufunc* of floats, integers as they are."""
    return EagerOp(name.capitalize(), lambda x: x.copy() if x.dtype.kind in "iub" else ufunc(x))


_UNARY = """
abs acos acosh asin asinh atan atanh bitwise_invert conj cos cosh exp expm1 isfinite isinf isnan log log1p log2 log10
logical_not negative positive reciprocal sign signbit sin sinh sqrt square tan tanh
"""
_BINARY = """
add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply
nextafter not_equal remainder subtract
"""

for _name in _UNARY.split():
    row(f"{_name}(x, /)")
for _name in ("ceil", "floor", "trunc"):
    row(f"{_name}(x, /)", _rounded(_name, getattr(np, _name)))
row("round(x, /)", _rounded("round", np.rint))
row("real(x, /)")
row("imag(x, /)")
for _name in _BINARY.split():
    row(f"{_name}(x1, x2, /)")
_POSITIVE = eager("positive", np.positive)
row("where(condition, x1, x2, /)", WHERE)


@written
def pow(x1: Any, x2: Any, /) -> Any:
    """``x1 ** x2``; a Python number as exponent is part of the program, so that ``pow(x, 2)`` is a product."""
    if isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        return apply(POW_SCALAR, (x1,), (x2,))
    return apply(POW, (x1, x2))


@written
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Elements limited to [min, max], which are tensors or numbers; either may be left out."""
    limits = [v for v in (min, max) if v is not None]
    which = 0 if len(limits) == 2 else 1 if max is None else 2
    return apply(CLAMP[0][which], met("clip", x, *limits)) if limits else apply(_POSITIVE, (x,))
