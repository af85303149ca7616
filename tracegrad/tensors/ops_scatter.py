"""Reading and writing at positions along a dimension: gather, scatter, index_add and their relatives; masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS
from ..tracer.numpy_api.bounds import positions
from ..tracer.record.array import TracedArray, wrap_array
from .apply import apply
from .arguments import FUNCTIONS, dtype_name, scalar_of, tensor_argument
from .indexing import coordinates, elements_along, read_at, written_at
from .on_device import filled
from .op import EagerOp
from .ops_index import INDEX_SELECT, read_op
from .signature import Applied, Dim, method, operation
from .tensor import METHODS, Tensor, make, raw

_ALL = slice(None)

# ---- along a dimension ---------------------------------------------------------------------------------------------


def _gathered(x: Any, index: Any, dim: int) -> Any:
    if any(n < m for a, (n, m) in enumerate(zip(index.shape, x.shape, strict=True)) if a != dim):
        x = x[tuple([_ALL if a == dim else slice(0, n) for a, n in enumerate(index.shape)])]
    return elements_along(x, index, dim)


def _scattered(x: Any, index: Any, value: Any, dim: int, add: bool) -> Any:
    if getattr(value, "shape", ()) and value.shape != index.shape:
        value = value[tuple([slice(0, n) for n in index.shape])]
    return written_at(x, value, coordinates(index, dim), tuple(range(len(x.shape))), add)


GATHER = EagerOp("Gather", _gathered)
SCATTER = {
    n: EagerOp(f"ScatterBackward{n}", lambda x, index, v, dim: _scattered(x, index, v, dim, False)) for n in (0, 1)
}
SCATTER_ADD = EagerOp("ScatterAdd", lambda x, index, v, dim: _scattered(x, index, v, dim, True))
INDEX_ADD = EagerOp("IndexAdd", lambda x, index, v, alpha, dim: written_at(x, v * alpha, (index,), (dim,), True))
INDEX_COPY = EagerOp("IndexCopy", lambda x, index, v, dim: written_at(x, v, (index,), (dim,), False))
INDEX_FILL = EagerOp("IndexFill", lambda x, index, v, dim: written_at(x, v, (index,), (dim,), False))
TAKE = EagerOp("Take", lambda x, index: read_at(x.reshape(-1), (index,), (0,)))
MASKED_SELECT = read_op("MaskedSelect")


def _positions(
    name: str, index: Tensor, size: int, dim: int, kind: type[Exception] = RuntimeError, lowest: int = 0
) -> Tensor:
    """An index argument: integers, in bounds."""
    data = raw(tensor_argument(name, index, "index", 3))
    if data.dtype.kind not in "iu":
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if type(data) is TracedArray:
        return make(wrap_array(positions(data, size, dim)))
    if data.size and (data.min() < lowest or data.max() >= size):
        bad = data[(data < lowest) | (data >= size)].reshape(-1)[0]
        raise kind(f"index {bad} is out of bounds for dimension {dim} with size {size}")
    return index


def _along(name: str, input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The index of gather and scatter, which has as many dimensions as *input*."""
    shape = input._data.shape
    if len(index.shape) != len(shape):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for d, (n, m) in enumerate(zip(index.shape, shape, strict=True)):
        if n > m and d != dim:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be no larger than self "
                f"{list(shape)} apart from dimension {dim}"
            )
    return _positions(name, index, shape[dim] if shape else 1, dim)


@method
def gather(input: Tensor, dim: Dim, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """``out[i][j] = input[index[i][j]][j]`` for *dim* 0, and so on."""
    index = _along("gather", input, dim, index)
    return apply(GATHER, (input, index), (dim,)) if input.ndim else METHODS["clone"](input)


@operation
def scatter(
    input: Tensor, dim: Dim, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Applied:
    """A copy of *input* with *src* (a tensor or a number) written where ``gather`` would read."""
    if reduce is not None and reduce != "add":
        raise NotImplementedError(f"scatter with reduce={reduce!r} is not supported; there is 'add'")
    return _scattering("scatter", input, dim, index, value if src is None else src, reduce == "add")


@operation
def scatter_add(input: Tensor, dim: Dim, index: Tensor, src: Tensor) -> Applied:
    """A copy of *input* with *src* added where ``gather`` would read."""
    return _scattering("scatter_add", input, dim, index, src, True)


def _scattering(name: str, input: Tensor, dim: int, index: Tensor, src: Any, add: bool) -> Applied:
    index = _along(name, input, dim, index)
    if isinstance(src, Tensor):
        if src.dtype != input.dtype:
            raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
        if any(n > m for n, m in zip(index.shape, src.shape, strict=True)):
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)} apart from dimension "
                f"{dim}"
            )
    else:
        src = scalar_of(src, input.dtype)
    op = SCATTER_ADD if add else SCATTER[0 if isinstance(src, Tensor) else 1]
    return op, (input, index, src), (dim,)


def _line(name: str, input: Tensor, dim: int, index: Tensor, source: Tensor | None = None) -> Tensor:
    """The vector *index* of index_select and its relatives, checked; *source* has the shape of the selection."""
    shape = input._data.shape
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    index = _positions(name, index, shape[dim] if shape else 1, dim, IndexError)
    index = index if index.ndim else METHODS["reshape"](index, 1)
    wanted = (*shape[:dim], *index.shape, *shape[dim + 1 :])
    if source is not None and tuple(source.shape) != wanted and shape:
        raise RuntimeError(
            f"{name}_(): Source/destination tensors must have same slice shapes. Destination slice shape: "
            f"{list(wanted)} Source slice shape: {list(source.shape)}"
        )
    return index


@method
def index_select(input: Tensor, dim: Dim, index: Tensor) -> Tensor:
    """The entries of *input* along *dim* at the positions in the vector *index*."""
    index = _line("index_select", input, dim, index)
    return apply(INDEX_SELECT, (input, index), ((dim,),)) if input.ndim else METHODS["clone"](input)


@operation
def index_add(input: Tensor, dim: Dim, index: Tensor, source: Tensor, *, alpha: float = 1) -> Applied:
    """A copy of *input* with ``alpha * source`` added to the entries at *index*; repeated positions add up."""
    if source.dtype != input.dtype:
        raise RuntimeError("index_add_(): self and source expected to have the same dtype, but got (self) "
                           f"{dtype_name(input)} and (source) {dtype_name(source)}")  # fmt: skip
    index = _line("index_add", input, dim, index, source)
    return INDEX_ADD, (input, index, source, scalar_of(alpha, input.dtype)), (dim,)


@operation
def index_copy(input: Tensor, dim: Dim, index: Tensor, source: Tensor) -> Applied:
    """A copy of *input* with the entries at *index* replaced by *source*."""
    return INDEX_COPY, (input, _line("index_copy", input, dim, index, source), source), (dim,)


@operation
def index_fill(input: Tensor, dim: Dim, index: Tensor, value: Any) -> Applied:
    """A copy of *input* with the entries at *index* replaced by the number *value*."""
    value = value if isinstance(value, Tensor) else scalar_of(value, input.dtype)
    return INDEX_FILL, (input, _line("index_fill", input, dim, index), value), (dim,)


# ---- masks and flat positions --------------------------------------------------------------------------------------


@method
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the *mask* holds, as a vector."""
    if mask.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = np.broadcast_shapes(input.shape, mask.shape)
    wide = METHODS["expand"](input, shape) if input.shape != shape else input
    found = [make(a) for a in np.nonzero(np.atleast_1d(np.broadcast_to(raw(mask), shape)))]
    if not shape:
        return apply(MASKED_SELECT, (METHODS["reshape"](wide, 1), *found), ((0,),))
    return apply(MASKED_SELECT, (wide, *found), (tuple(range(len(shape))),))


@method
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flattened *input* at the positions in *index*."""
    size = input._data.size
    index = _positions("take", index, size, 0, IndexError, -size)
    return apply(TAKE, (input, index))


@method
def take_along_dim(input: Tensor, indices: Tensor, dim: Dim | None = None) -> Tensor:
    """As ``numpy.take_along_axis``; dimensions other than *dim* are broadcast."""
    if dim is None:
        return gather(METHODS["reshape"](input, -1), 0, METHODS["reshape"](indices, -1))
    if indices.ndim != input.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    common = [max(n, m) if n and m else 0 for n, m in zip(input.shape, indices.shape, strict=True)]
    wide = [n if a == dim else c for a, (n, c) in enumerate(zip(input.shape, common, strict=True))]
    picked = [n if a == dim else c for a, (n, c) in enumerate(zip(indices.shape, common, strict=True))]
    return gather(METHODS["expand"](input, wide), dim, METHODS["expand"](indices, picked))


@method
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not 0: a row for each, or (*as_tuple*) a vector for each dimension."""
    data = raw(input)
    found = np.nonzero(data if data.shape else data.reshape(1))
    if as_tuple:
        return tuple([make(a) for a in found])
    return make(np.stack(found, axis=1) if data.shape else filled(0, (len(found[0]), 0), np.int64, data))


@method
def argwhere(input: Tensor) -> Tensor:
    """``nonzero`` as rows."""
    return nonzero(input)


@method
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """The count of each integer, or the sum of its *weights*."""
    data = raw(input)
    if data.ndim != 1 or data.dtype.kind not in "iu" or (data.size and data.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    counted = np.bincount(data, None if weights is None else raw(weights), minlength)
    return make(counted if weights is None or weights.dtype.kind not in FLOAT_KINDS else counted.astype(weights.dtype))


FUNCTIONS["take_along_axis"] = take_along_dim
