"""Parts of tensors, as views: rows, slices, splits, diagonals, windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.cuda.availability import require_cuda
from ..tracer.numpy_api import creation
from ..tracer.record.array import TracedArray
from .apply import apply
from .arguments import one_dim
from .indexing import written_at
from .inplace import apply_view, apply_views
from .op import EagerOp
from .signature import Dim, method
from .tensor import Tensor

_ndarray = np.ndarray
_ALL = slice(None)

# ---- parts ---------------------------------------------------------------------------------------------------------


def _part(x: Any, dim: int, start: int, stop: int) -> Any:
    return x[(*[_ALL] * dim, slice(start, stop), Ellipsis)]


def _row(x: Any, dim: int, index: int) -> Any:
    return x[(*[_ALL] * dim, index, Ellipsis)]


NARROW, SPLIT, SPLIT_SIZES = (EagerOp(name, _part) for name in ("Slice", "Split", "SplitWithSizes"))
SELECT, UNBIND = (EagerOp(name, _row) for name in ("Select", "Unbind"))


@method
def narrow(input: Tensor, dim: Dim, start: Any, length: int) -> Tensor:
    """*length* entries along *dim*, from *start*."""
    shape = input._data.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    first, size = int(start), shape[dim]
    if not -size <= first <= size:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {first})")
    first += size if first < 0 else 0
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if first + length > size:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({size}).")
    return apply_view(NARROW, input, (dim, first, first + length))


@method
def select(input: Tensor, dim: Dim, index: Any) -> Tensor:
    """The entry *index* along *dim*."""
    shape, place = input._data.shape, int(index)
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    if not -shape[dim] <= place < shape[dim]:
        raise IndexError(f"select(): index {place} out of range for tensor of size {list(shape)} at dimension {dim}")
    return apply_view(SELECT, input, (dim, place % shape[dim]))


@method
def unbind(input: Tensor, dim: Dim = 0) -> tuple[Tensor, ...]:
    """The entries along *dim*."""
    shape = input._data.shape
    if not shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return apply_views(UNBIND, input, [(dim, k) for k in range(shape[dim])])


@method
def split(tensor: Tensor, split_size_or_sections: Any, dim: Dim = 0) -> tuple[Tensor, ...]:
    """Parts along *dim*: of one size (the last may be smaller), or of the sizes listed."""
    shape = tensor._data.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    total, sizes = shape[dim], split_size_or_sections
    if isinstance(sizes, (tuple, list)):
        if any(n < 0 for n in sizes) or sum(sizes) != total:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at dimension "
                f"{dim}), but got split_sizes={list(sizes)}"
            )
        edges = [0]
        for n in sizes:
            edges.append(edges[-1] + int(n))
        return _parts(SPLIT_SIZES, tensor, dim, edges)
    if sizes < 0 or (not sizes and total):
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}"
                           if not sizes else
                           f"split expects split_size be non-negative, but got split_size={sizes}")  # fmt: skip
    return _parts(SPLIT, tensor, dim, [*range(0, total, int(sizes) or 1), total] if total else [0, 0])


def _parts(op: EagerOp, input: Tensor, dim: int, edges: list[int]) -> tuple[Tensor, ...]:
    return apply_views(op, input, [(dim, edges[k], edges[k + 1]) for k in range(len(edges) - 1)])


@method
def chunk(input: Tensor, chunks: int, dim: Dim = 0) -> tuple[Tensor, ...]:
    """At most so many parts of equal size along *dim* (the last may be smaller)."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    shape = input._data.shape
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if not shape[dim]:
        return _parts(SPLIT, input, dim, [0] * (chunks + 1))
    return split(input, -(-shape[dim] // chunks), dim)


@method
def tensor_split(input: Tensor, indices_or_sections: Any, dim: Dim = 0) -> tuple[Tensor, ...]:
    """Parts along *dim*: so many of nearly equal size, or between the indices listed."""
    size = input._data.shape[dim]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {indices_or_sections}")
        each, extra = divmod(size, indices_or_sections)
        edges = [0]
        for k in range(indices_or_sections):
            edges.append(edges[-1] + each + (k < extra))
        return tuple([apply_view(NARROW, input, (dim, edges[k], edges[k + 1])) for k in range(len(edges) - 1)])
    inner = [min(max(int(i) + (size if i < 0 else 0), 0), size) for i in indices_or_sections]
    return tuple([
        apply_view(NARROW, input, (dim, low, max(low, high)))
        for low, high in zip([0, *inner], [*inner, size], strict=True)
    ])  # fmt: skip


def _on_diagonal(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """A view of the diagonal that can be written through."""
    if type(x) is not TracedArray:
        found = x.diagonal(offset, dim1, dim2)
        if type(x) is _ndarray and x.flags.writeable:
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
    if type(x) is not TracedArray:
        shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
        strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
        if type(x) is _ndarray:
            return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)
        return require_cuda("a tensor on a CUDA device").modules.xp.lib.stride_tricks.as_strided(x, shape, strides)
    at = np.arange(count)[:, None] * step + np.arange(size)
    return np.moveaxis(np.take(x, at, axis=dim), dim + 1, -1)


DIAGONAL = EagerOp("Diagonal", _on_diagonal)
UNFOLD = EagerOp("Unfold", _windows)
DIAG_EMBED = EagerOp("DiagEmbed", lambda x, offset: np.diag(x, offset))
DIAG_COPY = EagerOp("DiagonalBackward0_copy", lambda x, offset: np.diagonal(x, offset).copy())
DIAG_EMBED_IN = EagerOp("DiagEmbed", lambda x, offset, dim1, dim2: _embedded(x, offset, dim1, dim2))


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


@method
def diagonal(input: Tensor, offset: int = 0, dim1: Dim = 0, dim2: Dim = 1) -> Tensor:
    """The diagonal between two dimensions, which becomes the last one."""
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply_view(DIAGONAL, input, (int(offset), dim1, dim2))


@method
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix (a copy), or the matrix with a vector on its diagonal."""
    ndim = len(input._data.shape)
    if ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {ndim}D")
    return apply(DIAG_EMBED if ndim == 1 else DIAG_COPY, (input,), (int(diagonal),))


@method
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the vectors along the last dimension on their diagonals."""
    first, second = one_dim(dim1, input.ndim + 1), one_dim(dim2, input.ndim + 1)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply(DIAG_EMBED_IN, (input,), (int(offset), first, second))


@method
def unfold(input: Tensor, dimension: Dim, size: int, step: int) -> Tensor:
    """All windows of *size* along *dimension*, so many *step*s apart, in a new last dimension (not to be written)."""
    length = input._data.shape[dimension]
    if not 0 <= size <= length:
        raise RuntimeError(f"maximum size for tensor at dimension {dimension} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return apply_view(UNFOLD, input, (dimension, int(size), int(step)))
