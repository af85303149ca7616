"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ..tracer.ir.aval import INEXACT_KINDS
from . import dtypes
from .apply import apply
from .arguments import one_dim
from .op import EagerOp
from .ops_reduce import squared_size
from .signature import Dims, Dtype, function, method
from .tensor import METHODS, Tensor

_add: Any = np.add.reduce
_maximum: Any = np.maximum.reduce
_minimum: Any = np.minimum.reduce

# ---- norms ---------------------------------------------------------------------------------------------------------


def _norm(x: Any, order: float, dims: tuple[int, ...], keepdim: bool) -> Any:
    if order == 2:
        return np.sqrt(_add(squared_size(x), axis=dims, keepdims=keepdim))
    size = np.abs(x)
    if order == math.inf:
        return _maximum(size, axis=dims, keepdims=keepdim)
    if order == -math.inf:
        return _minimum(size, axis=dims, keepdims=keepdim)
    if order == 1:
        return _add(size, axis=dims, keepdims=keepdim)
    if order == 0:
        return _add((x != 0).astype(x.dtype), axis=dims, keepdims=keepdim)
    # a branch of 0 is taken aside, so that the infinite slope of the root there meets no zero
    total = _add(size**order, axis=dims, keepdims=keepdim)
    zero = total == 0
    return np.where(zero, 0.0, np.where(zero, 1.0, total) ** (1 / order)) if order > 0 else total ** (1 / order)


NORM = EagerOp("LinalgVectorNorm", _norm)


@method
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The *p*-norm of all elements, or along *dim*."""
    return vector_norm(input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype=dtype)


@partial(function, name="linalg_vector_norm")
def vector_norm(
    x: Tensor, ord: Any = 2, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype = None
) -> Tensor:
    """The norm of order *ord* of all elements, or along *dim*."""
    if x._data.dtype.kind not in INEXACT_KINDS:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{dtypes.scalar_name(x.dtype)}"
        )
    if isinstance(ord, str) or ord is None:
        raise NotImplementedError(f"norm of order {ord!r} is not supported; there are numbers, inf and 'fro'")
    if ord != 2 and x._data.dtype.kind == "c":
        x = METHODS["abs"](x)
    return apply(NORM, (x,), (float(ord), dim, bool(keepdim)))


@partial(function, name="linalg_matrix_norm")
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices: "fro", 1, -1, inf or -inf."""
    row, column = (one_dim(d, A.ndim) for d in dim)
    if ord == "fro":
        return vector_norm(A, 2, (row, column), keepdim, dtype=dtype)
    if isinstance(ord, str) or abs(ord) == 2:
        raise NotImplementedError(f"matrix norm of order {ord!r} needs singular values, which are not supported")
    if abs(ord) not in (1, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    inner, outer = (row, column) if abs(ord) == 1 else (column, row)
    totals = vector_norm(A, 1, inner, True, dtype=dtype)
    found = METHODS["amax" if ord > 0 else "amin"](totals, outer, True)
    return found if keepdim else METHODS["squeeze"](found, (row, column))


@function
def linalg_norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """As ``numpy.linalg.norm``: of vectors, or of matrices where *ord* and two dimensions say so."""
    ndim = A.ndim
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if (dim is None and ndim == 2) or (isinstance(dim, (tuple, list)) and len(dim) == 2):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if dim is None and ndim != 1:
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {ndim}D.")
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)
