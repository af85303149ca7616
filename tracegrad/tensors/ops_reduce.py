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

from ..tracer.ir.aval import FLOAT_KINDS, INEXACT_KINDS
from ..tracer.ops.elementwise import F
from ..tracer.record.array import TracedArray, to_atom, wrap_array
from ..tracer.scipy_api import special
from . import dtypes
from .apply import apply
from .arguments import one_dim, reduced_dims
from .device import on_cuda
from .indexing import picked
from .on_device import filled
from .op import EagerOp
from .ops_basic import floating, to_dtype
from .signature import Dim, Dims, Dtype, Real, function, method
from .tensor import METHODS, Tensor, make, raw

_ndarray = np.ndarray

# ---- sums and products ---------------------------------------------------------------------------------------------

_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce
_maximum: Any = np.maximum.reduce


def mean_of(x: Any, dims: Any, keepdim: bool) -> Any:
    """The mean over *dims*.  NumPy's own takes longer than a small array."""
    count = x.size if dims is None else math.prod([x.shape[d] for d in dims])
    total = _add(x, axis=dims, keepdims=keepdim)
    return total / count if count or type(x) is not _ndarray else total * math.nan


SUM = EagerOp("SumBackward0", lambda x: _add(x, axis=None))
SUM_DIM = EagerOp("SumBackward1", lambda x, dims, keepdim: _add(x, axis=dims, keepdims=keepdim))
MEAN = EagerOp("MeanBackward0", lambda x: mean_of(x, None, False))
MEAN_DIM = EagerOp("MeanBackward1", mean_of)
PROD = EagerOp("ProdBackward0", lambda x: _multiply(x, axis=None))
PROD_DIM = EagerOp("ProdBackward1", lambda x, dims, keepdim: _multiply(x, axis=dims, keepdims=keepdim))
NANSUM = EagerOp("Nansum", lambda x, dims, keepdim: _add(np.where(np.isnan(x), 0.0, x), axis=dims, keepdims=keepdim))


def _summable(t: Tensor, dtype: Any) -> Tensor:
    return t if dtype is not None or t._data.dtype.kind in INEXACT_KINDS else to_dtype(t, dtypes.int64)


@method
def sum(input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype = None) -> Tensor:
    """The sum of all elements, or along *dim* (an int or several)."""
    if dtype is None and input._data.dtype.kind not in INEXACT_KINDS:
        input = to_dtype(input, dtypes.int64)
    return apply(SUM, (input,)) if dim is None and not keepdim else apply(SUM_DIM, (input,), (dim, keepdim))


@method
def nansum(input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype = None) -> Tensor:
    """``sum`` that takes NaN for 0."""
    input = _summable(input, dtype)
    return apply(NANSUM if input._data.dtype.kind in INEXACT_KINDS else SUM_DIM, (input,), (dim, keepdim))


@method
def mean(input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype = None) -> Tensor:
    """The mean of all elements, or along *dim*; of floats only."""
    if input._data.dtype.kind not in INEXACT_KINDS:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
            f"{dtypes.scalar_name(input.dtype)}"
        )
    return apply(MEAN, (input,)) if dim is None and not keepdim else apply(MEAN_DIM, (input,), (dim, keepdim))


@method
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Dtype = None) -> Tensor:
    """``mean`` of the elements that are not NaN."""
    counted = make(np.logical_not(np.isnan(raw(input))))
    return nansum(input, dim, keepdim) / sum(counted, dim, keepdim)


@method
def prod(input: Tensor, dim: Dim | None = None, keepdim: bool = False, *, dtype: Dtype = None) -> Tensor:
    """The product of all elements, or along *dim*."""
    input = _summable(input, dtype)
    dims = None if dim is None else (dim,) if input.ndim else ()
    return apply(PROD, (input,)) if dims is None else apply(PROD_DIM, (input,), (dims, keepdim))


# ---- truth ---------------------------------------------------------------------------------------------------------


def _truth(name: str, reduce: Callable[..., Any]) -> None:
    def body(input: Tensor, dim: Dims | None = None, keepdim: bool = False) -> Tensor:
        return plain(reduce(raw(input), axis=dim, keepdims=keepdim))

    method(body, name, f"Whether {name} of the elements are true, of everything or along *dim*.")


_truth("all", np.all)
_truth("any", np.any)


def plain(found: Any) -> Tensor:
    """A tensor over the result of a NumPy function, which may be a scalar."""
    return make(found if isinstance(found, (_ndarray, TracedArray)) or on_cuda(found) else np.asarray(found))


@method
def count_nonzero(input: Tensor, dim: Dims | None = None) -> Tensor:
    """The number of elements that are not 0, of all or along *dim*."""
    return plain(np.count_nonzero(raw(input), axis=dim))


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


def _extremes(name: str, reduce: Any, position: Any) -> None:
    whole = EagerOp(f"{name.capitalize()}Backward1", lambda x: reduce(x, axis=None))
    along = EagerOp(f"{name.capitalize()}Backward0", _extreme_along(reduce, position))
    result = named_result(name, "values", "indices")

    def body(input: Real, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        data = input._data
        if isinstance(dim, Tensor):
            other = dim
        if other is not None:
            return METHODS[f"{name}imum"](input, other)
        if dim is None:
            if not data.size:
                raise RuntimeError(_NO_DIM.format(name))
            return apply(whole, (input,))
        dim = one_dim(dim, data.ndim)
        if not data.ndim:
            return of_scalar(result, input)
        not_empty(name, data.shape, (dim,))
        return result(*apply(along, (input,), (dim, bool(keepdim))))

    method(
        body, name,
        f"The {name}imum of all elements; along *dim* the values and their indices; of two tensors ``{name}imum``.",
    )  # fmt: skip


_NO_DIM = (
    "{}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
    "argument."
)


def of_scalar(result: Callable[..., Any], input: Tensor) -> Any:
    """(values, indices) selected from a tensor without axes: a copy of it and 0."""
    return result(METHODS["clone"](input), make(filled(0, (), np.int64, input._data)))


def not_empty(name: str, shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    for d in dims:
        if not shape[d]:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _even(name: str, reduce: Any) -> None:
    op = EagerOp(name.capitalize(), lambda x, dims, keepdim: reduce(x, axis=dims, keepdims=keepdim))

    def body(input: Real, dim: Dims = (), keepdim: bool = False) -> Tensor:
        not_empty(name, input._data.shape, dim)
        return apply(op, (input,), (dim, bool(keepdim)))

    method(body, name, f"The {name[1:]}imum along one or several dimensions; equal elements share the gradient.")


def _position(name: str, find: Callable[..., Any]) -> None:
    def body(input: Real, dim: Dim | None = None, keepdim: bool = False) -> Tensor:
        data = raw(input)
        if dim is None and not data.size:
            raise IndexError(_NO_DIM.format(name))
        if dim is not None and not data.ndim:
            return make(filled(0, (), np.int64, data))
        return plain(find(data, axis=dim, keepdims=keepdim))

    method(body, name, f"Where the {name[3:]}imum is: in the flattened tensor, or along *dim*.")


_extremes("max", np.maximum.reduce, np.argmax)
_extremes("min", np.minimum.reduce, np.argmin)
_even("amax", np.maximum.reduce)
_even("amin", np.minimum.reduce)
_position("argmax", np.argmax)
_position("argmin", np.argmin)


@method
def aminmax(input: Tensor, *, dim: Any = (), keepdim: bool = False) -> Any:
    """The smallest and the largest element, of everything or along *dim*."""
    return _AMINMAX(METHODS["amin"](input, dim, keepdim), METHODS["amax"](input, dim, keepdim))


_AMINMAX = named_result("aminmax", "min", "max")


# ---- spread --------------------------------------------------------------------------------------------------------


def variance_of(x: Any, dims: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    count = math.prod([x.shape[d] for d in dims])
    center = x - mean_of(x, dims, True)
    left = max(count - correction, 0.0)
    total = _add(squared_size(center), axis=dims, keepdims=keepdim)
    return total / left if left or type(x) is not _ndarray else total / np.zeros((), total.dtype)


def squared_size(x: Any) -> Any:
    """|x|**2, which is real."""
    if x.dtype.kind != "c":
        return x * x
    re, im = x.real, x.imag
    return re * re + im * im


VAR = EagerOp("Var", variance_of)
STD = EagerOp("Std", lambda x, *statics: np.sqrt(variance_of(x, *statics)))
VAR_MEAN = EagerOp("VarMean", lambda x, dims, c, keepdim: (variance_of(x, dims, c, keepdim), mean_of(x, dims, keepdim)))
STD_MEAN = EagerOp(
    "StdMean", lambda x, dims, c, keepdim: (np.sqrt(variance_of(x, dims, c, keepdim)), mean_of(x, dims, keepdim))
)


def _spread(enter: Callable[..., Any], name: str, op: EagerOp) -> None:
    def body(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
             correction: Any = None) -> Any:  # fmt: skip
        if input._data.dtype.kind not in INEXACT_KINDS:
            raise RuntimeError(f"{name} only support floating point and complex dtypes")
        if isinstance(dim, bool):  # std(unbiased)
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        return apply(op, (input,), (reduced_dims(dim, input.ndim), correction, bool(keepdim)))

    enter(body, name, f"``{name}`` of everything or along *dim*, with a divisor of count - *correction* (1).")


_spread(method, "var", VAR)
_spread(method, "std", STD)
_spread(function, "var_mean", VAR_MEAN)
_spread(function, "std_mean", STD_MEAN)


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


def log_softmax_of(x: Any, dim: int) -> Any:
    shifted = _shifted(x, dim)
    if type(x) is not _ndarray:
        return shifted - np.log(_add(np.exp(shifted), axis=dim, keepdims=True))
    shifted -= np.log(_add(np.exp(shifted), axis=dim, keepdims=True))
    return shifted


def _logsumexp(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    if x.dtype.kind == "c":
        top = _maximum(x.real, axis=dims, keepdims=True)
        top = top if type(x) is _ndarray else wrap_array(F.stop_gradient(to_atom(top)))
        found = np.log(_add(np.exp(x - top), axis=dims, keepdims=keepdim))
        return found + (top if keepdim else top.reshape(found.shape))
    if type(x) is not _ndarray:
        return special.logsumexp(x, dims, keepdims=keepdim)
    if not x.size:
        return np.log(_add(x, axis=dims, keepdims=keepdim))
    top = _highest(x, dims)
    found = np.log(_add(np.exp(x - top), axis=dims, keepdims=keepdim))
    return found + (top if keepdim else top.reshape(np.shape(found)))


SOFTMAX = EagerOp("Softmax", _softmax)
LOG_SOFTMAX = EagerOp("LogSoftmax", log_softmax_of)
LOGSUMEXP = EagerOp("Logsumexp", _logsumexp)
_SCALAR = {"softmax": EagerOp("Softmax", lambda x: x * 0 + 1), "log_softmax": EagerOp("LogSoftmax", lambda x: x * 0)}


def _normalised(name: str, op: EagerOp) -> None:
    def body(input: Tensor, dim: Dim, dtype: Dtype = None) -> Tensor:
        if input._data.dtype.kind not in FLOAT_KINDS:
            raise NotImplementedError(f"\"{name}_lastdim_kernel_impl\" not implemented for "
                                      f"'{dtypes.scalar_name(input.dtype)}'")  # fmt: skip
        return apply(op, (input,), (dim,)) if input._data.shape else apply(_SCALAR[name], (input,))

    method(body, name, f"``{name}`` along *dim*.")


_normalised("softmax", SOFTMAX)
_normalised("log_softmax", LOG_SOFTMAX)


@method
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """log(sum(exp(input))) along *dim* (an int or several), without overflow."""
    return apply(LOGSUMEXP, (floating(input),), (dim, bool(keepdim)))


# ---- running sums and extremes -------------------------------------------------------------------------------------


def _running(name: str, accumulate: Any) -> None:
    op = EagerOp(name.capitalize(), lambda x, dim: accumulate(x, axis=dim))

    def body(input: Tensor, dim: Dim, *, dtype: Dtype = None) -> Tensor:
        input = _summable(input, dtype)
        return apply(op, (input,), (dim,)) if input.ndim else METHODS["clone"](input)

    method(body, name, f"Running totals along *dim* ({name}).")


_running("cumsum", np.cumsum)
_running("cumprod", np.cumprod)
