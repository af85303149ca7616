"""Functions of whole arrays: reductions, manipulation, searching, sorting, sets, and products of arrays.

Where tensors have views, the tensors' own methods answer, so that writes go where the standard allows them to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensors import ops_reduce
from ..tensors.apply import apply
from ..tensors.arguments import FUNCTIONS as TENSOR_FUNCTIONS
from ..tensors.op import EagerOp
from ..tensors.ops_join import CAT
from ..tensors.ops_reduce import named_result
from ..tensors.tensor import METHODS, Tensor, make, raw, seen
from .rows import LINALG, arrays_only, eager, met, row, written

# ---- reductions ----------------------------------------------------------------------------------------------------


def _by_ufunc(name: str, ufunc: Any) -> EagerOp:
    reduce = ufunc.reduce
    return EagerOp(name, lambda x, axis, keepdims: reduce(x, axis=axis, keepdims=keepdims), reads="operands")


def _summed(name: str, ufunc: Any) -> EagerOp:
    reduce = ufunc.reduce

    def run(x: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
        return reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)

    return EagerOp(name, run, reads="operands")


def _over_dims(op: EagerOp) -> EagerOp:
    """*op*, whose dimensions are a tuple, for an axis that is None, an int or a tuple."""

    def run(x: Any, axis: Any, *rest: Any) -> Any:
        dims = tuple(range(x.ndim)) if axis is None else axis if type(axis) is tuple else (axis,)
        return op.fn(x, dims, *rest)

    return EagerOp(op.name, run, reads="operands")


row("sum(x, /, *, axis=None, dtype=None, keepdims=False)", _summed("Sum", np.add))
row("prod(x, /, *, axis=None, dtype=None, keepdims=False)", _summed("Prod", np.multiply))
row("max(x, /, *, axis=None, keepdims=False)", _by_ufunc("Max", np.maximum))
row("min(x, /, *, axis=None, keepdims=False)", _by_ufunc("Min", np.minimum))
row("all(x, /, *, axis=None, keepdims=False)", _by_ufunc("All", np.logical_and))
row("any(x, /, *, axis=None, keepdims=False)", _by_ufunc("Any", np.logical_or))
row("mean(x, /, *, axis=None, keepdims=False)", _over_dims(ops_reduce.MEAN_DIM))
row("var(x, /, *, axis=None, correction=0.0, keepdims=False)", _over_dims(ops_reduce.VAR))
row("std(x, /, *, axis=None, correction=0.0, keepdims=False)", _over_dims(ops_reduce.STD))
row("cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)")
row("cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)")
row("count_nonzero(x, /, *, axis=None, keepdims=False)")
row("argmax(x, /, *, axis=None, keepdims=False)")
row("argmin(x, /, *, axis=None, keepdims=False)")

# ---- products ------------------------------------------------------------------------------------------------------

_MATMUL = EagerOp("Matmul", np.matmul, mixed="product")
_TENSORDOT = EagerOp("Tensordot", lambda x, y, axes: np.tensordot(x, y, axes=axes), mixed="product")
for _signature, _op in {
    "matmul(x1, x2, /)": _MATMUL,
    "tensordot(x1, x2, /, *, axes=2)": _TENSORDOT,
    "vecdot(x1, x2, /, *, axis=-1)": eager("vecdot", np.vecdot, ("x1", "x2"), ("axis",)),
}.items():
    row(_signature, _op)
    row(_signature, _op, table=LINALG)


@written
def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged: a view."""
    return METHODS["transpose"](_with_axes("matrix_transpose", x, 2), -2, -1)


LINALG["matrix_transpose"] = matrix_transpose


def _with_axes(name: str, x: Any, count: int) -> Any:
    if x.ndim < count:
        raise ValueError(f"{name}() needs at least {count} axes, and there are {x.ndim}")
    return x


# ---- manipulation --------------------------------------------------------------------------------------------------

_STACK = EagerOp("Stack", lambda *args: np.stack(args[:-1], axis=args[-1]))


@written
def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """The *arrays* one after the other along *axis*, or, for None, their elements."""
    if arrays_only(*arrays):
        return np.concatenate(arrays, axis=axis)
    given = met("concat", *arrays)
    return apply(CAT, given if axis is not None else tuple([METHODS["ravel"](x) for x in given]), (axis or 0,))


@written
def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """The *arrays* along a new axis."""
    return np.stack(arrays, axis=axis) if arrays_only(*arrays) else apply(_STACK, met("stack", *arrays), (axis,))


@written
def broadcast_arrays(*arrays: Any) -> Any:
    """All *arrays* in their common shape: views."""
    return np.broadcast_arrays(*arrays) if arrays_only(*arrays) else [*TENSOR_FUNCTIONS["broadcast_tensors"](*arrays)]


@written
def broadcast_to(x: Any, /, shape: Any) -> Any:
    """*x* in the *shape* to which it broadcasts: a view."""
    return METHODS["broadcast_to"](x, shape)


@written
def expand_dims(x: Any, /, axis: int) -> Any:
    """*x* with a new axis of size 1: a view."""
    return METHODS["unsqueeze"](x, axis)


@written
def flip(x: Any, /, *, axis: Any = None) -> Any:
    """The elements in reverse order along *axis* (an int or several; None: all)."""
    return METHODS["flip"](x, tuple(range(x.ndim)) if axis is None else axis) if x.ndim else METHODS["clone"](x)


@written
def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """The axes *source* moved to *destination*: a view."""
    return METHODS["movedim"](x, source, destination)


@written
def permute_dims(x: Any, /, axes: Any) -> Any:
    """The axes in the order *axes*: a view."""
    return METHODS["permute"](x, axes)


@written
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element (or entry along *axis*) so many times; *repeats* may be a tensor with a count for each."""
    return METHODS["repeat_interleave"](x, repeats, axis)


@written
def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    """The elements in another *shape*: a view where possible, unless *copy*.

    :raises ValueError: where no view is possible and *copy* is False.
    """
    if copy is False:
        try:
            return METHODS["view"](x, shape)
        except RuntimeError as error:
            raise ValueError(str(error)) from None
    return METHODS["reshape"](METHODS["clone"](x) if copy else x, shape)


row("roll(x, /, shift, *, axis=None)")


@written
def squeeze(x: Any, /, axis: Any) -> Any:
    """*x* without the axes *axis*, which have size 1: a view."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze() takes axes of size 1, and axis {a} has size {x.shape[a]}")
    return METHODS["squeeze"](x, axes)


row("tile(x, repetitions, /)", lambda x, repetitions: np.tile(x, repetitions))


@written
def unstack(x: Any, /, *, axis: int = 0) -> Any:
    """The parts of *x* along *axis*: views."""
    return METHODS["unbind"](x, axis)


# ---- searching and sorting -----------------------------------------------------------------------------------------


@written
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """The entries along *axis*, which only a vector may leave out, at the positions *indices*."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take() needs an axis where there are {x.ndim} of them")
    before = range(x.ndim)[axis or 0]  # IndexError: there is no such axis
    return x[(*[slice(None)] * before, indices)]


@written
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """For each of the *indices* the element there along *axis*; the other axes broadcast."""
    counted = TENSOR_FUNCTIONS["where"](indices < 0, indices + x.shape[axis], indices)
    return METHODS["take_along_dim"](x, counted, axis)


@written
def nonzero(x: Any, /) -> Any:
    """The positions of the elements that are not 0, a vector for each axis."""
    return METHODS["nonzero"](_with_axes("nonzero", x, 1), as_tuple=True)


_SEARCHSORTED = eager("searchsorted", np.searchsorted, ("x1", "x2"), ("side",))


@written
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """The positions at which elements of *x2* would be inserted into the sorted vector *x1* to keep it sorted."""
    if sorter is not None:
        x1 = METHODS["index_select"](x1, 0, sorter)
    return apply(_SEARCHSORTED, (x1, x2), (side,))


@written
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements in order along *axis*; always stable."""
    return METHODS["sort"](x, axis, descending)[0]


@written
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The indices that sort along *axis*; always stable."""
    return METHODS["argsort"](x, axis, descending)


# ---- sets ----------------------------------------------------------------------------------------------------------

_ALL = named_result("unique_all_result", "values", "indices", "inverse_indices", "counts")
_COUNTS = named_result("unique_counts_result", "values", "counts")
_INVERSE = named_result("unique_inverse_result", "values", "inverse_indices")


def _unique(x: Tensor) -> Any:
    found = np.unique_all(seen(raw(x), "looks for distinct elements"))
    indices = make(found.indices)
    values = METHODS["index_select"](METHODS["reshape"](x, -1), 0, indices)  # so that they have a history
    return _ALL(values, indices, make(found.inverse_indices), make(found.counts))


@written
def unique_all(x: Any, /) -> Any:
    """The distinct elements (each NaN is one), where they are first, their places in *x*, and their counts."""
    return _unique(x)


@written
def unique_counts(x: Any, /) -> Any:
    """The distinct elements and their counts."""
    found = _unique(x)
    return _COUNTS(found.values, found.counts)


@written
def unique_inverse(x: Any, /) -> Any:
    """The distinct elements and their places in *x*."""
    found = _unique(x)
    return _INVERSE(found.values, found.inverse_indices)


@written
def unique_values(x: Any, /) -> Any:
    """The distinct elements."""
    return _unique(x).values


# ---- differences ---------------------------------------------------------------------------------------------------

_DIFF = eager("diff", np.diff, ("x",), ("n", "axis"))


@written
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """The *n*-th differences of neighbours along *axis*, with *prepend* and *append* as further elements."""
    parts = [v for v in (prepend, x, append) if v is not None]
    return apply(_DIFF, (x if len(parts) == 1 else concat(parts, axis=axis),), (n, axis))
