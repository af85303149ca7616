"""Reductions: sums, means, extremes with their positions, spread, truth, softmax and its relatives.

Sums of integers are int64; means of integers are refused.  ``max`` of everything shares its gradient evenly among
equal elements, ``max`` along a dimension gives it to the element whose index it returns.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS
from ..tracer.numpy_api import special
from ..tracer.ops.elementwise import F
from ..tracer.record.array import TracedArray, to_atom, wrap_array
from . import dtypes
from .apply import apply
from .arguments import FUNCTIONS, floating, many_dims, one_dim, spelled, tensor_argument
from .device import on_cuda
from .indexing import picked
from .on_device import filled
from .op import Op
from .ops_basic import to_dtype
from .tensor import METHODS, Tensor, make, raw

_ndarray = np.ndarray

# ---- sums and products ---------------------------------------------------------------------------------------------

_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce
_maximum: Any = np.maximum.reduce


def _mean(x: Any, dims: Any, keepdim: bool) -> Any:
    count = x.size if dims is None else math.prod([x.shape[d] for d in dims])
    total = _add(x, axis=dims, keepdims=keepdim)
    return total / count if count or type(x) is not _ndarray else total * math.nan


SUM = Op("SumBackward0", lambda x: _add(x, axis=None))
SUM_DIM = Op("SumBackward1", lambda x, dims, keepdim: _add(x, axis=dims, keepdims=keepdim))
MEAN = Op("MeanBackward0", lambda x: _mean(x, None, False))
MEAN_DIM = Op("MeanBackward1", _mean)
PROD = Op("ProdBackward0", lambda x: _multiply(x, axis=None))
PROD_DIM = Op("ProdBackward1", lambda x, dims, keepdim: _multiply(x, axis=dims, keepdims=keepdim))
NANSUM = Op("Nansum", lambda x, dims, keepdim: _add(np.where(np.isnan(x), 0.0, x), axis=dims, keepdims=keepdim))


def _summable(t: Tensor, dtype: Any) -> Tensor:
    if dtype is not None:
        return to_dtype(t, dtypes.as_dtype(dtype))
    return t if t._data.dtype.kind in FLOAT_KINDS else to_dtype(t, dtypes.int64)


def all_if_empty(dim: Any) -> Any:
    return None if isinstance(dim, (tuple, list)) and not dim else dim


def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of all elements, or along *dim* (an int or several)."""
    if not isinstance(input, Tensor):
        tensor_argument("sum", input)
    if dtype is not None or input._data.dtype.kind not in FLOAT_KINDS:
        input = _summable(input, dtype)
    if axis is not None:
        dim = spelled(dim, axis)
    keepdim = keepdim or keepdims
    if dim is None and not keepdim:
        return apply(SUM, (input,))
    return apply(SUM_DIM, (input,), (many_dims(all_if_empty(dim), len(input._data.shape)), keepdim))


def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """``sum`` that takes NaN for 0."""
    input = _summable(tensor_argument("nansum", input), dtype)
    dim, keepdim = spelled(dim, axis), keepdim or keepdims
    if input._data.dtype.kind not in FLOAT_KINDS:
        return sum(input, dim, keepdim)
    return apply(NANSUM, (input,), (many_dims(all_if_empty(dim), input.ndim), keepdim))


def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The mean of all elements, or along *dim*; of floats only."""
    if not isinstance(input, Tensor):
        tensor_argument("mean", input)
    if dtype is not None:
        input = to_dtype(input, dtypes.as_dtype(dtype))
    if input._data.dtype.kind not in FLOAT_KINDS:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
            f"{dtypes.scalar_name(input.dtype)}"
        )
    if axis is not None:
        dim = spelled(dim, axis)
    keepdim = keepdim or keepdims
    if dim is None and not keepdim:
        return apply(MEAN, (input,))
    return apply(MEAN_DIM, (input,), (many_dims(all_if_empty(dim), len(input._data.shape)), keepdim))


def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """``mean`` of what is not NaN."""
    if dtype is not None:
        input = to_dtype(input, dtypes.as_dtype(dtype))
    dim, keepdim = spelled(dim, axis), keepdim or keepdims
    counted = make(np.logical_not(np.isnan(raw(input))))
    return nansum(input, dim, keepdim) / sum(counted, dim, keepdim)


def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The product of all elements, or along *dim*."""
    input = _summable(tensor_argument("prod", input), dtype)
    dim = spelled(dim, axis)
    if dim is None:
        return apply(PROD, (input,))
    return apply(PROD_DIM, (input,), (many_dims(one_dim(dim, input.ndim), input.ndim), keepdim or keepdims))


# ---- truth ---------------------------------------------------------------------------------------------------------


def _truth(name: str, reduce: Callable[..., Any]) -> Callable[..., Any]:
    def function(
        input: Tensor, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False
    ) -> Tensor:
        data = raw(tensor_argument(name, input))
        dims = None if dim is None and axis is None else many_dims(spelled(dim, axis), data.ndim)
        return plain(reduce(data, axis=dims, keepdims=keepdim or keepdims))

    function.__name__ = name
    function.__doc__ = f"Whether {name} of the elements are true, of everything or along *dim*."
    return function


def plain(found: Any) -> Tensor:
    """A tensor over the result of a NumPy function, which may be a scalar."""
    return make(found if isinstance(found, (_ndarray, TracedArray)) or on_cuda(found) else np.asarray(found))


def count_nonzero(input: Tensor, dim: Any = None, *, axis: Any = None) -> Tensor:
    """How many elements are not 0."""
    data = raw(tensor_argument("count_nonzero", input))
    dim = spelled(dim, axis)
    return plain(np.count_nonzero(data, axis=None if dim is None else many_dims(dim, data.ndim)))


# ---- extremes ------------------------------------------------------------------------------------------------------


def named_result(name: str, *fields: str) -> Any:
    """A named tuple type that prints as PyTorch's."""
    kind: Any = namedtuple(name, fields)  # type: ignore[misc]

    def text(self: Any) -> str:
        return f"{name}(\n" + ",\n".join(f"{f}={v!r}" for f, v in zip(fields, self, strict=True)) + ")"

    kind.__repr__ = text  # type: ignore[method-assign]
    return kind


def _extreme_along(reduce: Any, position: Any) -> Callable[..., Any]:
    def fn(x: Any, dim: int, keepdim: bool) -> Any:
        if type(x) is _ndarray:
            return reduce(x, axis=dim, keepdims=keepdim), np.asarray(position(x, axis=dim, keepdims=keepdim))
        return picked(x, position(x, axis=dim), dim, keepdim)

    return fn


def _extremes(name: str, reduce: Any, position: Any) -> Callable[..., Any]:
    whole = Op(f"{name.capitalize()}Backward1", lambda x: reduce(x, axis=None))
    along = Op(f"{name.capitalize()}Backward0", _extreme_along(reduce, position))
    result = named_result(name, "values", "indices")

    def function(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None, axis: Any = None,
                 keepdims: bool = False) -> Any:  # fmt: skip
        data = tensor_argument(name, input)._data
        if axis is not None:
            dim = spelled(dim, axis)
        if isinstance(dim, Tensor):
            other = dim
        if other is not None:
            return METHODS[f"{name}imum"](input, other)
        if dim is None:
            if not data.size:
                raise RuntimeError(
                    f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
                    "dim with the 'dim' argument."
                )
            return apply(whole, (input,))
        dim = one_dim(dim, data.ndim)
        if not data.ndim:
            return result(METHODS["clone"](input), make(filled(0, (), np.int64, data)))
        not_empty(name, data.shape, (dim,))
        return result(*apply(along, (input,), (dim, bool(keepdim or keepdims))))

    function.__name__ = name
    function.__doc__ = (
        f"The {name}imum of all elements; along *dim* the values and their indices; of two tensors ``{name}imum``."
    )
    return function


def not_empty(name: str, shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    for d in dims:
        if not shape[d]:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _even(name: str, reduce: Any) -> Callable[..., Any]:
    op = Op(name.capitalize(), lambda x, dims, keepdim: reduce(x, axis=dims, keepdims=keepdim))

    def function(
        input: Tensor, dim: Any = (), keepdim: bool = False, *, axis: Any = None, keepdims: bool = False
    ) -> Tensor:
        shape = tensor_argument(name, input)._data.shape
        dims = many_dims(all_if_empty(spelled(None if dim == () else dim, axis)), len(shape))
        not_empty(name, shape, dims)
        return apply(op, (input,), (dims, bool(keepdim or keepdims)))

    function.__name__ = name
    function.__doc__ = f"The {name[1:]}imum along one or several dimensions; equal elements share the gradient."
    return function


def _position(name: str, find: Callable[..., Any]) -> Callable[..., Any]:
    def function(
        input: Tensor, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False
    ) -> Tensor:
        data = raw(tensor_argument(name, input))
        dim = spelled(dim, axis)
        if dim is None:
            if not data.size:
                raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                                 "the reduction dim with the 'dim' argument.")  # fmt: skip
            return plain(find(data, axis=None, keepdims=keepdim or keepdims))
        at = one_dim(dim, data.ndim)
        return plain(find(data, axis=at, keepdims=keepdim or keepdims) if data.ndim else filled(0, (), np.int64, data))

    function.__name__ = name
    function.__doc__ = f"Where the {name[3:]}imum is: in the flattened tensor, or along *dim*."
    return function


def aminmax(input: Tensor, *, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element, of everything or along *dim*."""
    dims = () if dim is None else dim
    return _AMINMAX(METHODS["amin"](input, dims, keepdim), METHODS["amax"](input, dims, keepdim))


_AMINMAX = named_result("aminmax", "min", "max")


# ---- spread --------------------------------------------------------------------------------------------------------


def _variance(x: Any, dims: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    count = math.prod([x.shape[d] for d in dims])
    center = x - _mean(x, dims, True)
    left = max(count - correction, 0.0)
    total = _add(center * center, axis=dims, keepdims=keepdim)
    return total / left if left or type(x) is not _ndarray else total / np.zeros((), x.dtype)


VAR = Op("Var", _variance)
STD = Op("Std", lambda x, *statics: np.sqrt(_variance(x, *statics)))
VAR_MEAN = Op("VarMean", lambda x, dims, c, keepdim: (_variance(x, dims, c, keepdim), _mean(x, dims, keepdim)))
STD_MEAN = Op("StdMean", lambda x, dims, c, keepdim: (np.sqrt(_variance(x, dims, c, keepdim)), _mean(x, dims, keepdim)))


def _spread(name: str, op: Op, result: Callable[..., Any]) -> Callable[..., Any]:
    def function(
        input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None,
        axis: Any = None, keepdims: bool = False,
    ) -> Any:  # fmt: skip
        if tensor_argument(name, input)._data.dtype.kind not in FLOAT_KINDS:
            raise RuntimeError(f"{name} only support floating point and complex dtypes")
        if isinstance(dim, bool):  # std(unbiased)
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        dims = many_dims(all_if_empty(spelled(dim, axis)), input.ndim)
        return result(apply(op, (input,), (dims, correction, bool(keepdim or keepdims))))

    function.__name__ = name
    function.__doc__ = f"``{name}`` of everything or along *dim*, with a divisor of count - *correction* (1)."
    return function


# ---- softmax and its relatives -------------------------------------------------------------------------------------


def _highest(x: Any, dims: Any) -> Any:
    top = _maximum(x, axis=dims, keepdims=True)
    return top if np.isfinite(top).all() else np.where(np.isfinite(top), top, 0.0)


def _shifted(x: Any, dim: int) -> Any:
    """*x* minus its maximum along *dim*.  Softmax does not depend on the shift, so its derivatives do not either."""
    top = _maximum(x, axis=dim, keepdims=True)
    return x - (top if type(x) is _ndarray else wrap_array(F.stop_gradient(to_atom(top))))


def _softmax(x: Any, dim: int) -> Any:
    terms = np.exp(_shifted(x, dim))
    if type(x) is not _ndarray:
        return terms / _add(terms, axis=dim, keepdims=True)
    terms /= _add(terms, axis=dim, keepdims=True)
    return terms


def _log_softmax(x: Any, dim: int) -> Any:
    shifted = _shifted(x, dim)
    if type(x) is not _ndarray:
        return shifted - np.log(_add(np.exp(shifted), axis=dim, keepdims=True))
    shifted -= np.log(_add(np.exp(shifted), axis=dim, keepdims=True))
    return shifted


def _logsumexp(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    if type(x) is not _ndarray:
        return special.logsumexp(x, dims, keepdims=keepdim)
    if not x.size:
        return np.log(_add(x, axis=dims, keepdims=keepdim))
    top = _highest(x, dims)
    found = np.log(_add(np.exp(x - top), axis=dims, keepdims=keepdim))
    return found + (top if keepdim else top.reshape(np.shape(found)))


SOFTMAX = Op("Softmax", _softmax)
LOG_SOFTMAX = Op("LogSoftmax", _log_softmax)
LOGSUMEXP = Op("Logsumexp", _logsumexp)
_SCALAR = {"softmax": Op("Softmax", lambda x: x * 0 + 1), "log_softmax": Op("LogSoftmax", lambda x: x * 0)}


def _normalised(name: str, op: Op) -> Callable[..., Any]:
    def function(input: Tensor, dim: Any = None, dtype: Any = None, *, axis: Any = None) -> Tensor:
        if axis is not None:
            dim = spelled(dim, axis)
        if dim is None:
            raise TypeError(f'{name}() missing 1 required positional arguments: "dim"')
        tensor_argument(name, input)
        if dtype is not None:
            input = to_dtype(input, dtypes.as_dtype(dtype))
        if input._data.dtype.kind not in FLOAT_KINDS:
            raise NotImplementedError(f"\"{name}_lastdim_kernel_impl\" not implemented for "
                                      f"'{dtypes.scalar_name(input.dtype)}'")  # fmt: skip
        at = one_dim(dim, len(input._data.shape))
        return apply(op, (input,), (at,)) if input._data.shape else apply(_SCALAR[name], (input,))

    function.__name__ = name
    function.__doc__ = f"``{name}`` along *dim*."
    return function


def logsumexp(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False
) -> Tensor:
    """log(sum(exp(input))) along *dim* (an int or several), without overflow."""
    if dim is None and axis is None:
        raise TypeError('logsumexp() missing 1 required positional arguments: "dim"')
    input = floating(tensor_argument("logsumexp", input))
    dims = many_dims(all_if_empty(spelled(dim, axis)), input.ndim)
    return apply(LOGSUMEXP, (input,), (dims, bool(keepdim or keepdims)))


# ---- running sums and extremes -------------------------------------------------------------------------------------


def _running(name: str, accumulate: Any) -> Callable[..., Any]:
    op = Op(name.capitalize(), lambda x, dim: accumulate(x, axis=dim))

    def function(input: Tensor, dim: Any = None, *, dtype: Any = None, axis: Any = None) -> Tensor:
        dim = spelled(dim, axis)
        if dim is None:
            raise TypeError(f'{name}() missing 1 required positional arguments: "dim"')
        input = _summable(tensor_argument(name, input), dtype)
        at = one_dim(dim, input.ndim)
        return apply(op, (input,), (at,)) if input.ndim else METHODS["clone"](input)

    function.__name__ = name
    function.__doc__ = f"Running totals along *dim* ({name})."
    return function


def install() -> None:
    """Enter everything into the table of methods."""
    for function in (
        sum, nansum, mean, nanmean, prod, count_nonzero, aminmax, logsumexp,
    ):  # fmt: skip
        METHODS[function.__name__] = function
    METHODS["all"], METHODS["any"] = _truth("all", np.all), _truth("any", np.any)
    METHODS["max"] = _extremes("max", np.maximum.reduce, np.argmax)
    METHODS["min"] = _extremes("min", np.minimum.reduce, np.argmin)
    METHODS["amax"], METHODS["amin"] = _even("amax", np.maximum.reduce), _even("amin", np.minimum.reduce)
    METHODS["argmax"], METHODS["argmin"] = _position("argmax", np.argmax), _position("argmin", np.argmin)
    for name, op in (("var", VAR), ("std", STD)):
        METHODS[name] = _spread(name, op, lambda found: found)
    for name, op in (("var_mean", VAR_MEAN), ("std_mean", STD_MEAN)):
        FUNCTIONS[name] = _spread(name, op, lambda found: found)
    for name, op in (("softmax", SOFTMAX), ("log_softmax", LOG_SOFTMAX)):
        METHODS[name] = _normalised(name, op)
    METHODS["cumsum"], METHODS["cumprod"] = _running("cumsum", np.cumsum), _running("cumprod", np.cumprod)


install()
