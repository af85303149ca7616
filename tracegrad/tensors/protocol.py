"""NumPy's and SciPy's functions on tensors: ``np.sin(t)``, ``array * t``, ``np.concatenate([t, u])``.

Each function is an ``EagerOp`` over the tensors in its arguments, so that it is recorded with its derivative.  The
arguments around them are static (``encoded``); arrays among them are constant operands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.special as sp

from ..tracer.numpy_api import hooks
from ..tracer.numpy_api.registry import handler_of
from ..tracer.record.array import FUNCTIONS as ARRAY_FUNCTIONS
from ..tracer.record.array import UFUNC_METHODS, TracedArray, public_name, unsupported
from ..tracer.scipy_api import special
from . import ops_math
from .apply import apply
from .arguments import FUNCTIONS, plain_number
from .device import device_of
from .modes import STATE
from .op import EagerOp
from .ops_basic import is_complex
from .tensor import METHODS, Tensor, make, raw

_ndarray = np.ndarray

# ---- arguments, hashable -------------------------------------------------------------------------------------------

_SLOT, _LIST, _TUPLE, _DICT, _SLICE, _VALUE = "slot", "list", "tuple", "dict", "slice", "value"


def encoded(value: Any, operands: list[Any]) -> Any:
    """*value* as something hashable; tensors and arrays go to *operands*."""
    if isinstance(value, Tensor):
        operands.append(value)
        return (_SLOT, len(operands) - 1)
    if isinstance(value, (_ndarray, TracedArray)):
        operands.append(make(value))
        return (_SLOT, len(operands) - 1)
    if type(value) is list:
        return (_LIST, tuple([encoded(v, operands) for v in value]))
    if type(value) is tuple:
        return (_TUPLE, tuple([encoded(v, operands) for v in value]))
    if type(value) is dict:
        return (_DICT, tuple([(k, encoded(v, operands)) for k, v in value.items()]))
    if type(value) is slice:
        return (_SLICE, (value.start, value.stop, value.step))
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"a {type(value).__name__} among the arguments of a NumPy function on tensors") from None
    return (_VALUE, type(value), value)  # the type too: 1, 1.0 and True are equal


def decoded(code: Any, arrays: tuple[Any, ...]) -> Any:
    """The inverse of ``encoded``, with *arrays* in place of the tensors."""
    kind = code[0]
    if kind is _VALUE or kind == _VALUE:
        return code[2]
    if kind == _SLOT:
        return arrays[code[1]]
    if kind == _LIST:
        return [decoded(c, arrays) for c in code[1]]
    if kind == _TUPLE:
        return tuple([decoded(c, arrays) for c in code[1]])
    if kind == _SLICE:
        return slice(*code[1])
    return {k: decoded(c, arrays) for k, c in code[1]}


# ---- functions -----------------------------------------------------------------------------------------------------


@cache
def _op(function: Callable[..., Any], method: str) -> EagerOp:
    call = function if method == "__call__" else getattr(function, method)

    def run(*values: Any) -> Any:
        *arrays, args, kwargs = values
        result = call(*decoded(args, tuple(arrays)), **decoded(kwargs, tuple(arrays)))
        return tuple([own(r) for r in result]) if isinstance(result, (tuple, list)) else own(result)

    return EagerOp("".join(part.capitalize() for part in function.__name__.split("_")), run)


def own(result: Any) -> Any:
    """A result of NumPy's; a copy where it is a view of an argument, since tensors know their views by other ways."""
    if isinstance(result, TracedArray) or (isinstance(result, _ndarray) and result.base is not None):
        return result.copy()
    return result


def run_numpy(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], known: bool, method: str = "__call__"
) -> Any:
    """*function* of NumPy's over the tensors in its arguments.

    :raises UnsupportedError: where a derivative is wanted and the function is not *known* to have one.
    """
    op = _op(function, method)
    operands: list[Any] = []
    code = (encoded(tuple(args), operands), encoded(dict(kwargs), operands))
    if any(device_of(t._data).type == "cuda" for t in operands):
        return apply(op, tuple(operands), code)
    if not STATE.grad or not any(t.requires_grad for t in operands):
        return _wrapped(op.run(tuple([raw(t) for t in operands]), code))
    if not known:
        raise unsupported(public_name(function))
    return apply(op, tuple(operands), code)


def _wrapped(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple([_wrapped(r) for r in result])
    if isinstance(result, (_ndarray, TracedArray, np.generic)):
        return make(result if not isinstance(result, np.generic) else np.asarray(result))
    return result


def _no_out(name: str, out: Any) -> None:
    if out is not None and any(o is not None for o in (out if isinstance(out, tuple) else (out,))):
        raise TypeError(
            f"np.{name} with out= is not supported on tensors; assign the result, or write t.copy_(...) or t += ..."
        )


# ---- plain Python functions of scipy.special -----------------------------------------------------------------------


def _hook_scipy() -> None:
    """Let SciPy functions that the tracer has hooked look for tensors among their arguments first."""
    for name, hooked in special.HOOKED.items():
        if hooked:
            function = getattr(sp, name)
            space, key = function.__globals__, hooks.key_of(function)
            space[key] = _tensors_first(function, space[key])


def _tensors_first(function: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def dispatch(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(isinstance(v, Tensor) for v in (*args, *kwargs.values())):
            return run_numpy(function, args, kwargs, True)
        return otherwise(args, kwargs)

    dispatch.__wrapped__ = otherwise.__wrapped__  # type: ignore[attr-defined]
    return dispatch


# ---- ufuncs --------------------------------------------------------------------------------------------------------

_OPERATORS: dict[Any, Callable[..., Any]] = {}  # ufunc -> the operation on tensors with PyTorch's promotion


def _array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    out = kwargs.pop("out", None)
    if out is not None:
        return _into_arrays(ufunc, method, inputs, kwargs, out)
    if method == "__call__" and not kwargs:
        operation = _OPERATORS.get(ufunc)
        if operation is not None:
            return operation(*[_operand(v) for v in inputs])
    known = handler_of(ufunc) is not None
    if method != "__call__":
        known = known and ((ufunc, method) in UFUNC_METHODS or (None, method) in UFUNC_METHODS)
    return run_numpy(ufunc, inputs, kwargs, known, method)


def _operand(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        value = np.asarray([raw(v) if isinstance(v, Tensor) else v for v in value])
    return make(value) if isinstance(value, (_ndarray, TracedArray)) else plain_number(value)


def _into_arrays(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """``array += tensor``: plain values written into a plain array; an error where a gradient would be lost."""
    tensors = [v for v in inputs if isinstance(v, Tensor)]
    if any(isinstance(o, Tensor) for o in out) or any(t.requires_grad for t in tensors) or STATE.capture is not None:
        _no_out(ufunc.__name__, out)
    plain = [v.numpy() if isinstance(v, Tensor) else v for v in inputs]
    return getattr(ufunc, method)(*plain, out=out, **kwargs)


def _array_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if kwargs.get("out") is not None:
        _no_out(func.__name__, kwargs["out"])
    if func in _OF_COMPLEX:
        return _OF_COMPLEX[func](*args, **kwargs)
    if func in _PLAIN:
        return func(*_raw(tuple(args)), **_raw(dict(kwargs)))
    return run_numpy(func, args, kwargs, func in ARRAY_FUNCTIONS)


def _raw(value: Any) -> Any:
    if isinstance(value, Tensor):
        return raw(value)
    if type(value) in (list, tuple):
        return type(value)(_raw(v) for v in value)
    return {k: _raw(v) for k, v in value.items()} if type(value) is dict else value


def _imag(val: Tensor) -> Tensor:
    return FUNCTIONS["imag"](val) if is_complex(val) else METHODS["new_zeros"](val, *val.shape)


def _angle(z: Tensor, deg: bool = False) -> Tensor:
    found = METHODS["angle"](z)
    return METHODS["rad2deg"](found) if deg else found


_OF_COMPLEX: dict[Any, Callable[..., Any]] = {np.real: FUNCTIONS["real"], np.imag: _imag, np.angle: _angle}
# facts about arrays, and comparisons that give one bool: neither tensors nor gradients
_PLAIN = {
    np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.may_share_memory, np.shares_memory, np.allclose,
    np.array_equal, np.array_equiv, np.array2string, np.array_repr, np.array_str, np.iscomplexobj, np.isrealobj,
}  # fmt: skip


def install() -> None:
    """Give Tensor NumPy's protocols."""
    operators = {
        np.add: "__add__", np.subtract: "__sub__", np.multiply: "__mul__", np.true_divide: "__truediv__",
        np.floor_divide: "__floordiv__", np.remainder: "__mod__", np.power: "__pow__", np.matmul: "__matmul__",
        np.equal: "__eq__", np.not_equal: "__ne__", np.less: "__lt__", np.less_equal: "__le__",
        np.greater: "__gt__", np.greater_equal: "__ge__", np.bitwise_and: "__and__", np.bitwise_or: "__or__",
        np.bitwise_xor: "__xor__",
    }  # fmt: skip
    reflected = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
    for ufunc, name in operators.items():
        short = name.strip("_")
        _OPERATORS[ufunc] = _binary(name, f"__{reflected.get(short, f'r{short}')}__")
    for table in (ops_math.FLOATING, ops_math.KEEPING, ops_math.TWO_FLOATING, ops_math.TWO_KEEPING):
        for name, op in table.items():
            if isinstance(op.fn, np.ufunc):
                _OPERATORS[op.fn] = METHODS[name]
    _OPERATORS[np.conjugate] = METHODS["conj_physical"]
    for name in ("isnan", "isinf", "isfinite", "logical_and", "logical_or", "logical_xor", "logical_not", "negative"):
        _OPERATORS[getattr(np, name)] = METHODS[name]
    _OPERATORS[np.invert] = METHODS["bitwise_not"]
    _OPERATORS[np.sign] = lambda x: METHODS["sgn" if is_complex(x) else "sign"](x)
    _OPERATORS[sp.expit] = METHODS["sigmoid"]
    _OPERATORS[np.fmod] = METHODS["fmod"]
    _OPERATORS[np.positive] = METHODS["positive"]
    _OPERATORS[np.rint] = METHODS["round"]
    _hook_scipy()
    Tensor.__array_ufunc__ = _array_ufunc  # type: ignore[attr-defined]
    Tensor.__array_function__ = _array_function  # type: ignore[attr-defined]


def _binary(name: str, back: str) -> Callable[..., Any]:
    def operation(a: Any, b: Any) -> Any:
        return getattr(a, name)(b) if isinstance(a, Tensor) else getattr(b, back)(a)

    return operation


install()
