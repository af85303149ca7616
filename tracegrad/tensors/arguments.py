"""Reading the arguments of operations, in PyTorch's spelling and NumPy's; and a table of functions that are no methods.

``dim``/``keepdim`` and ``axis``/``keepdims`` mean the same.  Errors are worded as PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS, INEXACT_KINDS, is_float
from ..tracer.record.array import TracedArray
from ..tracer.record.integers import TracedInt
from . import dtypes
from .messages import only_real
from .ops_basic import complex_operand, dtype_of_number, to_dtype
from .tensor import Tensor, make

Ints = tuple[int, ...]

FUNCTIONS: dict[str, Callable[..., Any]] = {}  # of the public face: no methods, or other than the method of that name


def named(function: Callable[..., Any], name: str, doc: str | None) -> Callable[..., Any]:
    """*function*, which carries this name and docstring from now on."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


# ---- tensors and numbers -------------------------------------------------------------------------------------------


def tensor_argument(name: str, value: Any, argument: str = "input", position: int = 1) -> Tensor:
    """*value*, which must be a tensor."""
    if isinstance(value, Tensor):
        return value
    raise TypeError(f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}")


def real_argument(name: str, value: Any, argument: str = "input", position: int = 1) -> Tensor:
    """*value*, which must be a tensor that is not complex."""
    if tensor_argument(name, value, argument, position)._data.dtype.kind == "c":
        raise only_real(name)
    return value


def plain_number(value: Any) -> Any:
    """NumPy scalars as Python numbers; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def common_dtype(*values: Any) -> np.dtype:
    """The dtype in which tensors and Python numbers meet: of tensors with axes, those without, and numbers the former
    decide, unless the latter are of a higher category (bool < integer < float < complex)."""
    groups: list[np.dtype | None] = [None, None, None]
    for value in values:
        if isinstance(value, Tensor):
            dtype, group = value._data.dtype, 0 if value._data.shape else 1
        else:
            dtype, group = dtype_of_number(value), 2
        known = groups[group]
        groups[group] = dtype if known is None else dtypes.promote(known, 1, dtype, 1)
    first, *rest = [g for g in groups if g is not None]
    for dtype in rest:
        first = dtypes.promote(first, 1, dtype, 0)
    return first


def unify(*values: Any) -> tuple[Any, ...]:
    """*values* (tensors, arrays, numbers) in one dtype; Python numbers stay Python numbers, of that kind."""
    dtype = None
    whole = False  # there is an int, to become a float
    for value in values:
        kind = type(value)
        if kind is int:
            whole = True
        elif isinstance(value, Tensor):
            if dtype is None:
                dtype = value._data.dtype
                if dtype.kind not in FLOAT_KINDS:
                    break
            elif value._data.dtype is not dtype:
                break
        elif kind is not float:
            break
    else:
        if dtype is not None:
            return tuple([float(v) if type(v) is int else v for v in values]) if whole else values
    operands = [as_operand(v) for v in values]
    dtype = common_dtype(*operands)
    return tuple([to_dtype(v, dtype) if isinstance(v, Tensor) else scalar_of(v, dtype) for v in operands])


def kind_of(*values: Any) -> str:
    """The kind of dtype ("f", "i", "u", "b", "c") of the first tensor among *values*."""
    return next("f" if is_float(v._data.dtype) else v._data.dtype.kind for v in values if isinstance(v, Tensor))


def dtype_name(t: Tensor) -> str:
    """The name of *t*'s dtype in PyTorch's error messages: ``Long``, ``Double``."""
    return dtypes.scalar_name(t._data.dtype)


def as_operand(value: Any) -> Any:
    """A tensor, or a Python number."""
    if type(value) is TracedInt:
        return value.asked()
    if isinstance(value, (Tensor, bool, int, float, complex)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.ndarray, TracedArray)):
        return make(value)
    raise TypeError(f"expected a Tensor or a number, not {type(value).__name__}")


def scalar_of(value: Any, dtype: np.dtype) -> Any:
    """A Python number of the kind of *dtype*; of one that is complex a tensor without axes."""
    if isinstance(value, complex):
        return complex_operand(value, dtype)
    return float(value) if dtype.kind in INEXACT_KINDS else bool(value) if dtype.kind == "b" else int(value)


# ---- dimensions ----------------------------------------------------------------------------------------------------


def one_dim(dim: Any, ndim: int) -> int:
    """*dim* as a non-negative int; a tensor without axes counts as one with one axis."""
    try:
        found = dim.__index__()
    except AttributeError:
        raise TypeError(f"argument 'dim' must be int, not {type(dim).__name__}") from None
    bound = ndim or 1
    if not -bound <= found < bound:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {found})"
        )
    return found % bound


def many_dims(dim: Any, ndim: int) -> Ints:
    """*dim* (None: all; an int; a sequence) as distinct non-negative ints in order."""
    if dim is None:
        return tuple(range(ndim))
    found = [one_dim(d, ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(sorted(found)) if ndim else ()


def reduced_dims(dim: Any, ndim: int) -> Ints:
    """The dimensions of a reduction: ``many_dims``, but all for an empty sequence."""
    return many_dims(None if isinstance(dim, (tuple, list)) and not dim else dim, ndim)


def expand_error(have: Ints, wanted: Ints) -> RuntimeError:
    """The error for a shape *have* that does not expand to the shape *wanted*."""
    for d in range(1, min(len(have), len(wanted)) + 1):
        if have[-d] != wanted[-d] and have[-d] != 1:
            return RuntimeError(
                f"The expanded size of the tensor ({wanted[-d]}) must match the existing size ({have[-d]}) at "
                f"non-singleton dimension {len(wanted) - d}.  Target sizes: {list(wanted)}.  Tensor sizes: {list(have)}"
            )
    return RuntimeError(
        f"expand(Tensor{{{list(have)}}}, size={list(wanted)}): the number of sizes provided ({len(wanted)}) must be "
        f"greater or equal to the number of dimensions in the tensor ({len(have)})"
    )


def listed(values: Sequence[Any]) -> Sequence[Any]:
    """The values of ``f(a, b)`` and of ``f([a, b])``, which mean the same."""
    return values[0] if len(values) == 1 and isinstance(values[0], (tuple, list)) else values


def shape_argument(sizes: Sequence[Any]) -> Ints:
    """``(2, 3)`` of ``view(2, 3)``, ``view((2, 3))`` and ``view(size)``."""
    return tuple([n if type(n) is int else n.__index__() for n in listed(sizes)])


def spelled(dim: Any, axis: Any, default: Any) -> Any:
    """The dimension by NumPy's name *axis*; TypeError where *dim*, which has a *default*, was given as well."""
    if dim != default:
        raise TypeError("dim and axis were both given")
    return axis


def missing(name: str, argument: str) -> TypeError:
    """The error for an argument that was left out."""
    return TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')
