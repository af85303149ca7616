"""Order: sorting, the largest elements, medians.

What is selected is read at positions that the result names as ``indices``; the derivative reads those, and searches
nothing again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS
from .apply import apply
from .arguments import one_dim, spelled, tensor_argument
from .indexing import argsorted, elements_along, picked
from .on_device import calculated, filled
from .op import Op
from .ops_reduce import named_result, not_empty, plain
from .tensor import METHODS, Tensor, make, raw

# ---- order ---------------------------------------------------------------------------------------------------------


def _sorted(x: Any, dim: int, descending: bool) -> Any:
    at = argsorted(x, dim, descending)
    return elements_along(x, at, dim), at


def _selected(x: Any, dim: int, start: int, count: int, descending: bool) -> Any:
    """(elements, indices) from *start* of the sorted order."""
    at = argsorted(x, dim, descending)[(*[slice(None)] * dim, slice(start, start + count))]
    return elements_along(x, at, dim), at


def _one_selected(x: Any, dim: int, position: int, keepdim: bool) -> Any:
    return picked(x, argsorted(x, dim, False)[(*[slice(None)] * dim, position)], dim, keepdim)


def _median(x: Any, dim: int, keepdim: bool) -> Any:
    """The lower of the middle elements; NaN where there is one."""
    order = argsorted(x, dim, False)
    size = x.shape[dim]
    lead = (*[slice(None)] * dim,)
    at = order[(*lead, (size - 1) // 2)]
    if x.dtype.kind in FLOAT_KINDS:
        last = order[(*lead, size - 1)]
        at = np.where(np.isnan(elements_along(x, np.expand_dims(last, dim), dim).squeeze(dim)), last, at)
    return picked(x, at, dim, keepdim)


SORT = Op("Sort", _sorted)
TOPK = Op("Topk", _selected)
KTHVALUE = Op("Kthvalue", _one_selected)
MEDIAN = Op("MedianBackward0", lambda x: _median(x.reshape(-1), 0, False)[0])
MEDIAN_DIM = Op("MedianBackward1", _median)
_SORT = named_result("sort", "values", "indices")
_TOPK = named_result("topk", "values", "indices")
_KTHVALUE = named_result("kthvalue", "values", "indices")
_MEDIAN = named_result("median", "values", "indices")


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, axis: Any = None) -> Any:
    """(values, indices) in order along *dim*; always stable."""
    dim = one_dim(dim if axis is None else axis, tensor_argument("sort", input).ndim)
    if not input.ndim:
        return _SORT(METHODS["clone"](input), make(filled(0, (), np.int64, input._data)))
    return _SORT(*apply(SORT, (input,), (dim, bool(descending))))


def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, axis: Any = None
) -> Tensor:
    """The indices that sort along *dim*."""
    data = raw(tensor_argument("argsort", input))
    dim = one_dim(dim if axis is None else axis, data.ndim)
    if not data.ndim:
        return make(filled(0, (), np.int64, data))
    return make(calculated(argsorted, data, dim, bool(descending)))


def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, axis: Any = None
) -> Any:  # fmt: skip
    """(values, indices) of the *k* largest (or smallest) elements along *dim*, in order."""
    shape = tensor_argument("topk", input)._data.shape
    dim = one_dim(dim if axis is None else axis, len(shape))
    if not 0 <= k <= (shape[dim] if shape else 1):
        raise RuntimeError("selected index k out of range")
    if not shape:
        return _TOPK(METHODS["clone"](input), make(filled(0, (), np.int64, input._data)))
    return _TOPK(*apply(TOPK, (input,), (dim, 0, int(k), bool(largest))))


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """(value, index) of the *k*-th smallest element along *dim*, counted from 1."""
    shape = tensor_argument("kthvalue", input)._data.shape
    dim = one_dim(dim, len(shape))
    if not 1 <= k <= (shape[dim] if shape else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    if not shape:
        return _KTHVALUE(METHODS["clone"](input), make(filled(0, (), np.int64, input._data)))
    return _KTHVALUE(*apply(KTHVALUE, (input,), (dim, int(k) - 1, bool(keepdim))))


def median(input: Tensor, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The lower of the middle elements; along *dim* with its index."""
    shape = tensor_argument("median", input)._data.shape
    dim = spelled(dim, axis)
    if dim is None:
        return apply(MEDIAN, (input,)) if math.prod(shape) else plain(filled(math.nan, (), input.dtype, input._data))
    dim = one_dim(dim, len(shape))
    if not shape:
        return _MEDIAN(METHODS["clone"](input), make(filled(0, (), np.int64, input._data)))
    not_empty("median", shape, (dim,))
    return _MEDIAN(*apply(MEDIAN_DIM, (input,), (dim, bool(keepdim or keepdims))))


def install() -> None:
    """Enter everything into the tables."""
    methods: list[Callable[..., Any]] = [
        sort, argsort, topk, kthvalue, median,
    ]  # fmt: skip
    for function in methods:
        METHODS[function.__name__] = function


install()
