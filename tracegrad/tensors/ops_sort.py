"""Order: sorting, the largest elements, medians.

Elements are read at the positions that the result names as ``indices``; the derivative reads those, and searches
nothing again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS
from .apply import apply
from .indexing import argsorted, elements_along, picked
from .on_device import calculated, filled
from .op import EagerOp
from .ops_reduce import named_result, not_empty, of_scalar, plain
from .signature import Dim, Real, method
from .tensor import Tensor, make, raw

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


SORT = EagerOp("Sort", _sorted)
TOPK = EagerOp("Topk", _selected)
KTHVALUE = EagerOp("Kthvalue", _one_selected)
MEDIAN = EagerOp("MedianBackward0", lambda x: _median(x.reshape(-1), 0, False)[0])
MEDIAN_DIM = EagerOp("MedianBackward1", _median)
_SORT = named_result("sort", "values", "indices")
_TOPK = named_result("topk", "values", "indices")
_KTHVALUE = named_result("kthvalue", "values", "indices")
_MEDIAN = named_result("median", "values", "indices")


@method
def sort(input: Real, dim: Dim = -1, descending: bool = False, stable: bool = False) -> Any:
    """(values, indices) in order along *dim*; always stable."""
    return _SORT(*apply(SORT, (input,), (dim, bool(descending)))) if input.ndim else of_scalar(_SORT, input)


@method
def argsort(input: Real, dim: Dim = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort along *dim*."""
    data = raw(input)
    return make(calculated(argsorted, data, dim, bool(descending)) if data.ndim else filled(0, (), np.int64, data))


@method
def topk(input: Real, k: int, dim: Dim = -1, largest: bool = True, sorted: bool = True) -> Any:
    """(values, indices) of the *k* largest (or smallest) elements along *dim*, in order."""
    shape = input._data.shape
    if not 0 <= k <= (shape[dim] if shape else 1):
        raise RuntimeError("selected index k out of range")
    return _TOPK(*apply(TOPK, (input,), (dim, 0, int(k), bool(largest)))) if shape else of_scalar(_TOPK, input)


@method
def kthvalue(input: Real, k: int, dim: Dim = -1, keepdim: bool = False) -> Any:
    """(value, index) of the *k*-th smallest element along *dim*, counted from 1."""
    shape = input._data.shape
    if not 1 <= k <= (shape[dim] if shape else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    if not shape:
        return of_scalar(_KTHVALUE, input)
    return _KTHVALUE(*apply(KTHVALUE, (input,), (dim, int(k) - 1, bool(keepdim))))


@method
def median(input: Real, dim: Dim | None = None, keepdim: bool = False) -> Any:
    """The lower of the middle elements; along *dim* with its index."""
    shape = input._data.shape
    if dim is None:
        return apply(MEDIAN, (input,)) if math.prod(shape) else plain(filled(math.nan, (), input.dtype, input._data))
    if not shape:
        return of_scalar(_MEDIAN, input)
    not_empty("median", shape, (dim,))
    return _MEDIAN(*apply(MEDIAN_DIM, (input,), (dim, bool(keepdim))))
