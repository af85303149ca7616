"""Shapes: views of tensors, and tensors put together from tensors.

Views share memory and go through ``apply_view``.  ``view`` is one only where the strides allow it; ``reshape`` copies
where they don't.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...tracer import creation
from ...tracer.array import TracedArray
from .arguments import (
    FUNCTIONS,
    common_dtype,
    dims_argument,
    expand_error,
    many_dims,
    one_dim,
    shape_argument,
    spelled,
    tensor_argument,
)
from .indexing import written_at
from .inplace import apply_view
from .op import Op
from .ops_basic import to_dtype
from .ops_index import INDEX_SELECT, constant
from .tensor import METHODS, Size, Tensor, apply, make, raw

_ndarray = np.ndarray
_ALL = slice(None)
Ints = tuple[int, ...]

# ---- reshape and its relatives -------------------------------------------------------------------------------------


def _reshaped(x: Any, shape: Ints) -> Any:
    return x.reshape(shape) if type(x) is _ndarray else x.view_reshape(shape, certain=True)


VIEW = Op("View", _reshaped, view=True)
RESHAPE_ALIAS = Op("ReshapeAlias", _reshaped, view=True)
UNSAFE_VIEW = Op("UnsafeView", lambda x, shape: x.reshape(shape))
UNFLATTEN = VIEW


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
    return data.flags.c_contiguous if type(data) is _ndarray else data.known_c_order()


def _viewable(data: Any, shape: Ints) -> bool:
    """Whether another shape needs no copy."""
    if _in_order(data) or not data.size:
        return True
    return type(data) is _ndarray and np.may_share_memory(data, data.reshape(shape))


def view(input: Tensor, *size: Any) -> Tensor:
    """The same memory in another shape; an error where the strides do not allow it."""
    data = raw(input)
    shape = full_shape(shape_argument(size), data.size)
    if not _viewable(data, shape):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return apply_view(VIEW, input, (shape,))


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The elements in another shape: a view where possible, otherwise a copy."""
    return _reshape_to(tensor_argument("reshape", input), shape_argument(shape))


def _reshape_to(input: Tensor, shape: Ints) -> Tensor:
    data = raw(input)
    shape = full_shape(shape, data.size)
    if _in_order(data):
        return apply_view(VIEW, input, (shape,))
    if _viewable(data, shape):
        return apply_view(RESHAPE_ALIAS, input, (shape,))
    return apply(UNSAFE_VIEW, (input,), (shape,))


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """``view`` in the shape of *other*."""
    return view(input, other.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """``reshape`` to the shape of *other*."""
    return _reshape_to(input, other.shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from *start_dim* to *end_dim* as one."""
    shape = tensor_argument("flatten", input)._data.shape
    if not shape:
        return reshape(input, 1)
    first, last = one_dim(start_dim, len(shape)), one_dim(end_dim, len(shape))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if first == last:
        return input
    return _reshape_to(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


def ravel(input: Tensor) -> Tensor:
    """All elements as a vector."""
    return _reshape_to(tensor_argument("ravel", input), (-1,)) if raw(input).size else reshape(input, 0)


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """The dimension *dim* as several of the given *sizes*."""
    shape = input.shape
    at = one_dim(dim, len(shape))
    inner = shape_argument((tuple(sizes),))
    try:
        inner = full_shape(inner, shape[at])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(inner)} don't multiply up to the size of dim {at} ({shape[at]}) in the "
            "input tensor"
        ) from None
    return view(input, *shape[:at], *inner, *shape[at + 1 :])


# ---- dimensions of size 1 ------------------------------------------------------------------------------------------

_squeezed = lambda x, dims: x.squeeze(dims) if dims else x[...]  # noqa: E731
SQUEEZE = {n: Op(f"SqueezeBackward{n}", _squeezed, view=True) for n in (0, 1, 2)}
UNSQUEEZE = Op("Unsqueeze", lambda x, dim: x[(*[_ALL] * dim, None, Ellipsis)], view=True)


def squeeze(input: Tensor, dim: Any = None, *, axis: Any = None) -> Tensor:
    """Without the dimensions of size 1; only *dim* (one or several) if given."""
    shape = tensor_argument("squeeze", input)._data.shape
    dim = spelled(dim, axis)
    kind = 0 if dim is None else 2 if isinstance(dim, (tuple, list)) else 1
    return apply_view(SQUEEZE[kind], input, (tuple([d for d in many_dims(dim, len(shape)) if shape[d] == 1]),))


def unsqueeze(input: Tensor, dim: int | None = None, *, axis: Any = None) -> Tensor:
    """With a new dimension of size 1 at *dim*."""
    at = one_dim(spelled(dim, axis), len(tensor_argument("unsqueeze", input)._data.shape) + 1)
    return apply_view(UNSQUEEZE, input, (at,))


# ---- orders of dimensions ------------------------------------------------------------------------------------------

TRANSPOSE = Op("Transpose", lambda x, a, b: x.swapaxes(a, b) if x.shape else x[...], view=True)
PERMUTE = Op("Permute", lambda x, dims: x.transpose(dims), view=True)
T = Op("T", lambda x: x.T, view=True)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """With two dimensions exchanged."""
    ndim = len(tensor_argument("transpose", input)._data.shape)
    return apply_view(TRANSPOSE, input, (one_dim(dim0, ndim), one_dim(dim1, ndim)))


def t(input: Tensor) -> Tensor:
    """A matrix transposed; vectors and scalars as they are."""
    ndim = len(tensor_argument("t", input)._data.shape)
    if ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {ndim}D")
    return apply_view(T, input)


def permute(input: Tensor, *dims: Any) -> Tensor:
    """With the dimensions in the order given."""
    ndim = len(tensor_argument("permute", input)._data.shape)
    listed = dims_argument("permute", dims)
    if len(listed) != ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {len(listed)}"
        )
    order = tuple([one_dim(d, ndim) for d in listed])
    if len(set(order)) != ndim:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return apply_view(PERMUTE, input, (order,))


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """With the dimensions *source* moved to the places *destination*."""
    ndim = len(tensor_argument("movedim", input)._data.shape)
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
    for at, d in sorted(zip(targets, sources, strict=True)):
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

EXPAND = Op("Expand", lambda x, shape: np.broadcast_to(x, shape), view=True)


def expand(input: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Dimensions of size 1 (and new ones in front) in the sizes given, without a copy; -1 keeps a size."""
    wanted = shape_argument(sizes if size is None else (size,))
    have = tensor_argument("expand", input)._data.shape
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
    return apply_view(EXPAND, input, (tuple(shape),))


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """``expand`` to the shape of *other*."""
    return expand(input, other.shape)


def broadcast_to(input: Tensor, *size: Any) -> Tensor:
    """``expand`` to *size*."""
    return expand(input, *size)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors in their common shape."""
    given = _listed(tensors)
    shape = broadcast_shapes(*[t.shape for t in given])
    return tuple([t if t.shape == shape else expand(t, shape) for t in given])


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape to which all *shapes* broadcast."""
    try:
        return Size(np.broadcast_shapes(*[(s,) if isinstance(s, int) else tuple(s) for s in shapes]))
    except ValueError:
        raise RuntimeError(
            "Shape mismatch: objects cannot be broadcast to a single shape: "
            f"{', '.join(str(list(s)) for s in shapes)}"
        ) from None


def _listed(tensors: Sequence[Any]) -> list[Any]:
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return list(tensors[0])
    return list(tensors)


# ---- parts ---------------------------------------------------------------------------------------------------------


def _part(x: Any, dim: int, start: int, stop: int) -> Any:
    return x[(*[_ALL] * dim, slice(start, stop), Ellipsis)]


def _row(x: Any, dim: int, index: int) -> Any:
    return x[(*[_ALL] * dim, index, Ellipsis)]


NARROW, SPLIT, SPLIT_SIZES = (Op(name, _part, view=True) for name in ("Slice", "Split", "SplitWithSizes"))
SELECT, UNBIND = (Op(name, _row, view=True) for name in ("Select", "Unbind"))


def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """*length* entries along *dim*, from *start*."""
    shape = tensor_argument("narrow", input)._data.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    at, first = one_dim(dim, len(shape)), int(start)
    size = shape[at]
    if not -size <= first <= size:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {first})"
        )
    first += size if first < 0 else 0
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if first + length > size:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({size}).")
    return apply_view(NARROW, input, (at, first, first + length))


def select(input: Tensor, dim: int, index: Any) -> Tensor:
    """The entry *index* along *dim*."""
    shape = tensor_argument("select", input)._data.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    at, place = one_dim(dim, len(shape)), int(index)
    if not -shape[at] <= place < shape[at]:
        raise IndexError(f"select(): index {place} out of range for tensor of size {list(shape)} at dimension {at}")
    return apply_view(SELECT, input, (at, place % shape[at]))


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The entries along *dim*."""
    shape = tensor_argument("unbind", input)._data.shape
    if not shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    at = one_dim(dim, len(shape))
    return tuple([apply_view(UNBIND, input, (at, k)) for k in range(shape[at])])


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts along *dim*: of one size (the last may be smaller), or of the sizes listed."""
    shape = tensor_argument("split", tensor, "tensor")._data.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    at = one_dim(dim, len(shape))
    total, sizes = shape[at], split_size_or_sections
    if isinstance(sizes, (tuple, list)):
        if any(n < 0 for n in sizes) or sum(sizes) != total:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at dimension "
                f"{at}), but got split_sizes={list(sizes)}"
            )
        edges = [0]
        for n in sizes:
            edges.append(edges[-1] + int(n))
        return _parts(SPLIT_SIZES, tensor, at, edges)
    if sizes < 0 or (not sizes and total):
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}"
                           if not sizes else
                           f"split expects split_size be non-negative, but got split_size={sizes}")  # fmt: skip
    return _parts(SPLIT, tensor, at, [*range(0, total, int(sizes) or 1), total] if total else [0, 0])


def _parts(op: Op, input: Tensor, dim: int, edges: list[int]) -> tuple[Tensor, ...]:
    return tuple([apply_view(op, input, (dim, edges[k], edges[k + 1])) for k in range(len(edges) - 1)])


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most so many parts of equal size along *dim* (the last may be smaller)."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    shape = tensor_argument("chunk", input)._data.shape
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    at = one_dim(dim, len(shape))
    if not shape[at]:
        return _parts(SPLIT, input, at, [0] * (chunks + 1))
    return split(input, -(-shape[at] // chunks), at)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts along *dim*: so many of nearly equal size, or between the indices listed."""
    shape = tensor_argument("tensor_split", input)._data.shape
    at = one_dim(dim, len(shape))
    size = shape[at]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {indices_or_sections}")
        each, extra = divmod(size, indices_or_sections)
        edges = [0]
        for k in range(indices_or_sections):
            edges.append(edges[-1] + each + (k < extra))
        return _parts(NARROW, input, at, edges)
    inner = [min(max(int(i) + (size if i < 0 else 0), 0), size) for i in indices_or_sections]
    return tuple([
        apply_view(NARROW, input, (at, low, max(low, high)))
        for low, high in zip([0, *inner], [*inner, size], strict=True)
    ])  # fmt: skip


def _on_diagonal(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """A view of the diagonal that can be written through."""
    if type(x) is _ndarray:
        found = x.diagonal(offset, dim1, dim2)
        if x.flags.writeable:
            found.flags.writeable = True
        return found
    rows, columns = x.shape[dim1], x.shape[dim2]
    lead = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    moved = x.transpose((*lead, dim1, dim2))
    flat = moved.view_reshape((*moved.shape[:-2], rows * columns), certain=True)
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first = (offset if offset >= 0 else -offset * columns) if length else 0
    return flat[(Ellipsis, slice(first, first + (length - 1) * (columns + 1) + 1 if length else first, columns + 1))]


def _windows(x: Any, dim: int, size: int, step: int) -> Any:
    count = (x.shape[dim] - size) // step + 1
    if type(x) is _ndarray:
        shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
        strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
        return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)
    at = np.arange(count)[:, None] * step + np.arange(size)
    return np.moveaxis(np.take(x, at, axis=dim), dim + 1, -1)


DIAGONAL = Op("Diagonal", _on_diagonal, view=True)
UNFOLD = Op("Unfold", _windows, view=True)
DIAG_EMBED = Op("DiagEmbed", lambda x, offset: np.diag(x, offset))
DIAG_COPY = Op("DiagonalBackward0_copy", lambda x, offset: np.diagonal(x, offset).copy())
DIAG_EMBED_IN = Op("DiagEmbed", lambda x, offset, dim1, dim2: _embedded(x, offset, dim1, dim2))


def _embedded(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The last axis of *x* on the diagonal between two axes of the result."""
    size = x.shape[-1] + abs(offset)
    rows = np.arange(x.shape[-1]) + max(-offset, 0)
    columns = rows + offset
    base = np.zeros((*x.shape[:-1], size, size), x.dtype)
    ndim = len(x.shape) + 1
    if type(x) is _ndarray:
        base[..., rows, columns] = x
        return np.moveaxis(base, (ndim - 2, ndim - 1), (dim1, dim2)).copy()
    return np.moveaxis(written_at(creation.asarray(base), x, (rows, columns), (ndim - 2, ndim - 1), False),
                       (ndim - 2, ndim - 1), (dim1, dim2))  # fmt: skip


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal between two dimensions, which becomes the last one."""
    ndim = len(tensor_argument("diagonal", input)._data.shape)
    first, second = one_dim(dim1, ndim), one_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply_view(DIAGONAL, input, (int(offset), first, second))


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix (a copy), or the matrix with a vector on its diagonal."""
    ndim = len(tensor_argument("diag", input)._data.shape)
    if ndim == 1:
        return apply(DIAG_EMBED, (input,), (int(diagonal),))
    if ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {ndim}D")
    return apply(DIAG_COPY, (input,), (int(diagonal),))


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the vectors along the last dimension on their diagonals."""
    ndim = tensor_argument("diag_embed", input).ndim + 1
    first, second = one_dim(dim1, ndim), one_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply(DIAG_EMBED_IN, (input,), (int(offset), first, second))


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of *size* along *dimension*, so many *step*s apart, in a new last dimension (not to be written)."""
    shape = tensor_argument("unfold", input)._data.shape
    at = one_dim(dimension, len(shape))
    if not 0 <= size <= shape[at]:
        raise RuntimeError(
            f"maximum size for tensor at dimension {at} is {shape[at]} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return apply_view(UNFOLD, input, (at, int(size), int(step)))


# ---- copies --------------------------------------------------------------------------------------------------------

CLONE = Op("Clone", lambda x: x.copy(order="K"))
CONTIGUOUS = Op("Clone", lambda x: x.copy())


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with the same history."""
    return apply(CLONE, (tensor_argument("clone", input),))


def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself where it lies in memory in C order, otherwise a copy that does."""
    return input if is_contiguous(input) else apply(CONTIGUOUS, (input,))


def is_contiguous(input: Tensor, memory_format: Any = None) -> bool:
    """Whether the elements lie in memory in C order without gaps."""
    return bool(_in_order(raw(input)))


# ---- joining -------------------------------------------------------------------------------------------------------

CAT = Op("Cat", lambda *args: np.concatenate(args[:-1], axis=args[-1]))
STACK = Op("Stack", lambda *args: np.stack(args[:-1], axis=args[-1]))


def _tensors(name: str, tensors: Any) -> list[Any]:
    """The tensors of a sequence, in one dtype."""
    given = list(tensors) if isinstance(tensors, (tuple, list)) else [tensors]
    if isinstance(tensors, Tensor):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    for k, v in enumerate(given):
        if not isinstance(v, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(v).__name__}")
    if given and any(v._data.dtype is not given[0]._data.dtype for v in given):
        dtype = common_dtype(*given)
        given = [to_dtype(v, dtype) for v in given]
    return given


def _arrays_only(tensors: Any) -> bool:
    """Plain or traced arrays, as NumPy code has them."""
    return isinstance(tensors, (_ndarray, TracedArray)) or (
        isinstance(tensors, (tuple, list))
        and any(isinstance(v, (_ndarray, TracedArray)) for v in tensors)
        and not any(isinstance(v, Tensor) for v in tensors)
    )


def cat(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Tensor:
    """The tensors one after the other along *dim*."""
    dim = dim if axis is None else axis
    if _arrays_only(tensors):
        return np.concatenate(tensors, axis=dim)  # type: ignore[return-value]
    given = _tensors("cat", tensors)
    if not given:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    kept = [v for v in given if v._data.shape != (0,)] or given[:1]
    first = kept[0]._data.shape
    for k, v in enumerate(given):
        if not v._data.shape:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    at = one_dim(dim, len(first))
    for k, v in enumerate(kept):
        shape = v._data.shape
        if len(shape) != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
        if shape[:at] != first[:at] or shape[at + 1 :] != first[at + 1 :]:
            wrong = next(d for d in range(len(first)) if d != at and shape[d] != first[d])
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {at}. Expected size {first[wrong]} but got size "
                f"{shape[wrong]} for tensor number {k} in the list."
            )
    return apply(CAT, tuple(kept), (at,))


def stack(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Tensor:
    """The tensors, of one shape, along a new dimension at *dim*."""
    dim = dim if axis is None else axis
    if _arrays_only(tensors):
        return np.stack(tensors, axis=dim)  # type: ignore[return-value]
    given = _tensors("stack", tensors)
    if not given:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = given[0]._data.shape
    for k, v in enumerate(given):
        if v._data.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(v._data.shape)} at entry {k}"
            )
    return apply(STACK, tuple(given), (one_dim(dim, len(first) + 1),))


def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension."""
    return _at_least(tensors, lambda v: reshape(v, 1) if not v.ndim else v)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions; a vector becomes a row."""
    return _at_least(tensors, lambda v: reshape(v, 1, 1) if not v.ndim else unsqueeze(v, 0) if v.ndim == 1 else v)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions; new ones come last, for a vector on both sides."""
    return _at_least(
        tensors,
        lambda v: reshape(v, 1, 1, 1) if not v.ndim else unsqueeze(unsqueeze(v, 0), -1) if v.ndim == 1
        else unsqueeze(v, -1) if v.ndim == 2 else v,
    )  # fmt: skip


def _at_least(tensors: Sequence[Any], one: Callable[[Tensor], Tensor]) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return one(tensors[0])
    return tuple([one(v) for v in _listed(tensors)])


def hstack(tensors: Any) -> Tensor:
    """The tensors side by side: along dimension 1, vectors along 0."""
    given = list(atleast_1d(list(tensors)))
    return cat(given, 0 if given and given[0].ndim == 1 else 1)


def vstack(tensors: Any) -> Tensor:
    """The tensors one below the other; vectors are rows."""
    return cat(list(atleast_2d(list(tensors))), 0)


def dstack(tensors: Any) -> Tensor:
    """The tensors one behind the other, along dimension 2."""
    return cat(list(atleast_3d(list(tensors))), 2)


def column_stack(tensors: Any) -> Tensor:
    """The tensors as columns: vectors become such."""
    return hstack([reshape(v, (-1, 1)) if v.ndim <= 1 else v for v in tensors])


# ---- repeating, turning, triangles ---------------------------------------------------------------------------------

REPEAT = Op("Repeat", lambda x, times: np.tile(x, times))
REPEAT_EACH = Op("ViewBackward0", lambda x, count, dim: np.repeat(x, count, axis=dim))
FLIP = Op("Flip", lambda x, dims: np.flip(x, dims).copy())
ROLL = Op("Roll", lambda x, shifts, dims: np.roll(x, shifts, dims).copy())
ROT90 = Op("Rot90", lambda x, k, dims: np.rot90(x, k, dims).copy())
TRIL = Op("Tril", lambda x, k: np.tril(x, k))
TRIU = Op("Triu", lambda x, k: np.triu(x, k))


def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """The whole tensor so many times along each dimension; new dimensions come in front."""
    times = shape_argument(repeats)
    if len(times) < input.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    return apply(REPEAT, (input,), (times,)) if times else clone(input)


def tile(input: Tensor, *dims: Any) -> Tensor:
    """As ``repeat``; missing counts in front are 1."""
    times = shape_argument(dims)
    return repeat(input, (*[1] * (input.ndim - len(times)), *times))


def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None, *, output_size: Any = None) -> Tensor:
    """Each element (or entry along *dim*) so many times; *repeats* may be a tensor with a count for each."""
    if dim is None:
        input, dim = ravel(input), 0
    at = one_dim(dim, input.ndim)
    if not isinstance(repeats, Tensor):
        return apply(REPEAT_EACH, (input,), (int(repeats), at))
    counts = np.asarray(raw(repeats))
    size = input.shape[at]
    if counts.size not in (1, size):
        raise RuntimeError(f"repeats must have the same size as input along dim, but got repeats.size(0) = "
                           f"{counts.size} and input.size({at}) = {size}")  # fmt: skip
    where = make(constant(np.repeat(np.arange(size), counts.reshape(-1))))
    return apply(INDEX_SELECT, (input, where), ((at,),))


def flip(input: Tensor, *dims: Any) -> Tensor:
    """Reversed along the dimensions given."""
    return apply(FLIP, (input,), (many_dims(dims_argument("flip", dims), input.ndim),))


def fliplr(input: Tensor) -> Tensor:
    """Reversed along dimension 1."""
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """Reversed along dimension 0."""
    return flip(input, 0)


def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """Turned by 90 degrees, *k* times, in the plane of two dimensions."""
    return apply(ROT90, (input,), (int(k), tuple([one_dim(d, input.ndim) for d in dims])))


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Shifted around along *dims*; without *dims* as one long vector."""
    shifts = tuple(shifts) if isinstance(shifts, (tuple, list)) else int(shifts)
    if dims is None or dims == ():
        if isinstance(shifts, tuple):
            if len(shifts) != 1:
                raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
            shifts = shifts[0]
        return apply(ROLL, (input,), (shifts, None))
    listed = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if len(listed) != (len(shifts) if isinstance(shifts, tuple) else 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {np.size(shifts)}, dims:{len(listed)}")
    places = tuple([one_dim(d, input.ndim) for d in listed])
    return apply(ROLL, (input,), (shifts if isinstance(shifts, tuple) else (shifts,), places))


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices, zeros elsewhere."""
    return apply(TRIL, (_matrices("tril", input),), (int(diagonal),))


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices, zeros elsewhere."""
    return apply(TRIU, (_matrices("triu", input),), (int(diagonal),))


def _matrices(name: str, input: Tensor) -> Tensor:
    if tensor_argument(name, input).ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    return input


def install() -> None:
    """Enter everything into the tables."""
    methods: list[Callable[..., Any]] = [
        view, reshape, view_as, reshape_as, flatten, ravel, unflatten, squeeze, unsqueeze, transpose, t, permute,
        movedim, expand, expand_as, broadcast_to, narrow, select, unbind, split, chunk, tensor_split, diagonal, diag, diag_embed,
        unfold, clone, contiguous, is_contiguous, repeat, tile, repeat_interleave, flip, fliplr, flipud, rot90, roll,
        tril, triu,
    ]  # fmt: skip
    for function in methods:
        METHODS[function.__name__] = function
    METHODS.update(swapaxes=transpose, swapdims=transpose, moveaxis=movedim, adjoint=_matrix_transposed)
    functions: list[Callable[..., Any]] = [
        cat, stack, hstack, vstack, dstack, column_stack, atleast_1d, atleast_2d, atleast_3d, broadcast_tensors,
        broadcast_shapes,
    ]  # fmt: skip
    for function in functions:
        FUNCTIONS[function.__name__] = function
    FUNCTIONS.update(concat=cat, concatenate=cat, row_stack=vstack)
    Tensor.T = property(_reversed)  # type: ignore[attr-defined]
    Tensor.mT = property(_matrix_transposed)  # type: ignore[attr-defined]


install()
