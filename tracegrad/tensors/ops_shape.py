"""Shapes: views of tensors in another shape, another order of dimensions, or broadcast; copies.

Views share memory and go through ``apply_view``.  ``view`` is one only where the strides allow it; ``reshape`` copies
where they don't.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tracer.ir.tracebacks import shorten
from ..tracer.record.array import TracedArray
from .apply import apply
from .arguments import expand_error, listed, many_dims, one_dim, shape_argument, tensor_argument
from .inplace import apply_view
from .op import EagerOp
from .ops_basic import order_of_copy
from .signature import Dim, function, method
from .tensor import METHODS, PROPERTIES, Size, Tensor, raw

_ndarray = np.ndarray
_ALL = slice(None)
Ints = tuple[int, ...]

# ---- reshape and its relatives -------------------------------------------------------------------------------------


def _reshaped(x: Any, shape: Ints) -> Any:
    return x.view_reshape(shape, certain=True) if type(x) is TracedArray else x.reshape(shape)


VIEW = EagerOp("View", _reshaped)
RESHAPE_ALIAS = EagerOp("ReshapeAlias", _reshaped)
UNSAFE_VIEW = EagerOp("UnsafeView", lambda x, shape: x.reshape(shape))


def full_shape(shape: Ints, size: int) -> Ints:
    """*shape* with its -1 filled in."""
    known = 1
    unknown = -1
    for d, n in enumerate(shape):
        if n == -1:
            if unknown >= 0:
                raise RuntimeError("only one dimension can be inferred")
            unknown = d
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {d} of shape {list(shape)}")
        else:
            known *= n
    if unknown < 0:
        if known != size:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")
        return shape
    if not known:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 "
            "can be any value and is ambiguous"
        )
    if size % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")
    return (*shape[:unknown], size // known, *shape[unknown + 1 :])


def _in_order(data: Any) -> bool:
    return data.known_c_order() if type(data) is TracedArray else data.flags.c_contiguous


def _viewable(data: Any, shape: Ints, unknown: bool = False) -> bool:
    """Whether another shape needs no copy; *unknown* is the answer for a traced array, of which it is not sure."""
    if _in_order(data) or not data.size:
        return True
    if type(data) is TracedArray:
        return unknown
    made = data.reshape(shape)
    return np.may_share_memory(data, made) if type(data) is _ndarray else made.data.ptr == data.data.ptr


@method
def view(self: Tensor, *size: Any) -> Tensor:
    """The same memory in another shape; an error where the strides do not allow it."""
    try:
        data = raw(self)
        shape = full_shape(shape_argument(size), data.size)
        if not _viewable(data, shape, unknown=True):  # a capture comes after a run that would have raised
            raise RuntimeError(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
                "two contiguous subspaces). Use .reshape(...) instead."
            )
        return apply_view(VIEW, self, (shape,))
    except Exception as error:  # here, since a function around one of a variable number of arguments costs most
        shorten(error)
        raise


@method
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The elements in another shape: a view where possible, otherwise a copy."""
    try:
        return _reshape_to(tensor_argument("reshape", input), shape_argument(shape))
    except Exception as error:
        shorten(error)
        raise


def _reshape_to(input: Tensor, shape: Ints) -> Tensor:
    data = raw(input)
    shape = full_shape(shape, data.size)
    if _in_order(data):
        return apply_view(VIEW, input, (shape,))
    if _viewable(data, shape):
        return apply_view(RESHAPE_ALIAS, input, (shape,))
    return apply(UNSAFE_VIEW, (input,), (shape,))


@method
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """``view`` in the shape of *other*."""
    return view(self, other.shape)


@method
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """``reshape`` to the shape of *other*."""
    return _reshape_to(self, other.shape)


@method
def flatten(input: Tensor, start_dim: Dim = 0, end_dim: Dim = -1) -> Tensor:
    """The dimensions from *start_dim* to *end_dim* as one."""
    shape = input._data.shape
    if not shape:
        return reshape(input, 1)
    if start_dim > end_dim:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start_dim == end_dim:
        return input
    return _reshape_to(input, (*shape[:start_dim], math.prod(shape[start_dim : end_dim + 1]), *shape[end_dim + 1 :]))


@method
def ravel(input: Tensor) -> Tensor:
    """All elements as a vector."""
    return _reshape_to(input, (-1,)) if raw(input).size else reshape(input, 0)


@method
def unflatten(input: Tensor, dim: Dim, sizes: Sequence[int]) -> Tensor:
    """The dimension *dim* as several of the given *sizes*."""
    shape = input.shape
    inner = shape_argument((tuple(sizes),))
    try:
        inner = full_shape(inner, shape[dim])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(inner)} don't multiply up to the size of dim {dim} ({shape[dim]}) in the "
            "input tensor"
        ) from None
    return view(input, *shape[:dim], *inner, *shape[dim + 1 :])


# ---- dimensions of size 1 ------------------------------------------------------------------------------------------

_squeezed = lambda x, dims: x.squeeze(dims) if dims else x[...]  # noqa: E731
SQUEEZE = {n: EagerOp(f"SqueezeBackward{n}", _squeezed) for n in (0, 1, 2)}
UNSQUEEZE = EagerOp("Unsqueeze", lambda x, dim: x[(*[_ALL] * dim, None, Ellipsis)])


@method
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without the dimensions of size 1; only *dim* (one or several) if given."""
    shape = input._data.shape
    kind = 0 if dim is None else 2 if isinstance(dim, (tuple, list)) else 1
    return apply_view(SQUEEZE[kind], input, (tuple([d for d in many_dims(dim, len(shape)) if shape[d] == 1]),))


@method
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a new dimension of size 1 at *dim*."""
    return apply_view(UNSQUEEZE, input, (one_dim(dim, len(input._data.shape) + 1),))


# ---- orders of dimensions ------------------------------------------------------------------------------------------

TRANSPOSE = EagerOp("Transpose", lambda x, a, b: x.swapaxes(a, b) if x.shape else x[...])
PERMUTE = EagerOp("Permute", lambda x, dims: x.transpose(dims))
T = EagerOp("T", lambda x: x.T)


@method
def transpose(input: Tensor, dim0: Dim, dim1: Dim) -> Tensor:
    """With two dimensions exchanged."""
    return apply_view(TRANSPOSE, input, (dim0, dim1))


@method
def t(input: Tensor) -> Tensor:
    """A matrix transposed; vectors and scalars as they are."""
    ndim = len(input._data.shape)
    if ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {ndim}D")
    return apply_view(T, input)


@method
def permute(input: Tensor, *dims: Any) -> Tensor:
    """With the dimensions in the order given."""
    ndim = len(tensor_argument("permute", input)._data.shape)
    given = listed(dims)
    if len(given) != ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {len(given)}"
        )
    order = tuple([one_dim(d, ndim) for d in given])
    if len(set(order)) != ndim:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return apply_view(PERMUTE, input, (order,))


@method
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """With the dimensions *source* moved to the places *destination*."""
    ndim = len(input._data.shape)
    sources, targets = (
        [one_dim(d, ndim) for d in (dims if isinstance(dims, (tuple, list)) else (dims,))]
        for dims in (source, destination)
    )
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({sources} dims) should contain the same number of "
            f"dims as destination ({targets} dims)"
        )
    order = [d for d in range(ndim) if d not in sources]
    for at, d in sorted(zip(targets, sources, strict=True)) if ndim else ():
        order.insert(at, d)
    return apply_view(PERMUTE, input, (tuple(order),))


def _reversed(input: Tensor) -> Tensor:
    return apply_view(PERMUTE, input, (tuple(range(input.ndim - 1, -1, -1)),))


def _matrix_transposed(input: Tensor) -> Tensor:
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor."
        )
    return transpose(input, -2, -1)


# ---- broadcasting --------------------------------------------------------------------------------------------------


def _expanded(x: Any, shape: Ints) -> Any:
    """*x* broadcast to *shape*, read-only where elements are repeated."""
    return _reshaped(x, shape) if x.size == math.prod(shape) else np.broadcast_to(x, shape)


EXPAND = EagerOp("Expand", _expanded)


@method
def expand(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Dimensions of size 1 (and new ones in front) in the sizes given, without a copy; -1 keeps a size."""
    wanted = shape_argument(sizes if size is None else (size,))
    have = self._data.shape
    new = len(wanted) - len(have)
    if new < 0:
        raise expand_error(have, wanted)
    shape = []
    for d, n in enumerate(wanted):
        old = have[d - new] if d >= new else 1
        if n == -1:
            if d < new:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {d}"
                )
            n = old
        elif n != old and old != 1:
            raise expand_error(have, wanted)
        shape.append(n)
    return apply_view(EXPAND, self, (tuple(shape),))


@method
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """``expand`` to the shape of *other*."""
    return expand(self, other.shape)


@method
def broadcast_to(input: Tensor, *size: Any) -> Tensor:
    """``expand`` to *size*."""
    return expand(input, *size)


@function
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors in their common shape."""
    given = listed(tensors)
    shape = broadcast_shapes(*[t.shape for t in given])
    return tuple([t if t.shape == shape else expand(t, shape) for t in given])


@function
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape to which all *shapes* broadcast."""
    try:
        return Size(np.broadcast_shapes(*[(s,) if isinstance(s, int) else tuple(s) for s in shapes]))
    except ValueError:
        raise RuntimeError(
            f"Shape mismatch: objects cannot be broadcast to a single shape: {', '.join(str(list(s)) for s in shapes)}"
        ) from None


# ---- copies --------------------------------------------------------------------------------------------------------

CLONE = EagerOp("Clone", lambda x: x.copy(order=order_of_copy(x)))
CONTIGUOUS = EagerOp("Clone", lambda x: x.copy())


@method
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with the same history."""
    return apply(CLONE, (input,))


@method
def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself where it lies in memory in C order, otherwise a copy that does."""
    return self if is_contiguous(self) else apply(CONTIGUOUS, (self,))


@method
def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether the elements lie in memory in C order without gaps."""
    return bool(_in_order(raw(self)))


METHODS.update(swapaxes=transpose, swapdims=transpose, moveaxis=movedim)
PROPERTIES.update(T=property(_reversed), mT=property(_matrix_transposed))
