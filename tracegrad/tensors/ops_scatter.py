"""Reading and writing at positions along a dimension: gather, scatter, index_add and their relatives; masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS
from ..tracer.numpy_api.bounds import positions
from ..tracer.record.array import TracedArray, wrap_array
from .apply import apply
from .arguments import FUNCTIONS, dtype_name, one_dim, scalar_of, tensor_argument
from .indexing import coordinates, elements_along, read_at, written_at
from .inplace import inplace
from .on_device import filled
from .op import Op
from .ops_index import INDEX_SELECT, read_op
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


GATHER = Op("Gather", _gathered)
SCATTER = {n: Op(f"ScatterBackward{n}", lambda x, index, v, dim: _scattered(x, index, v, dim, False)) for n in (0, 1)}
SCATTER_ADD = Op("ScatterAdd", lambda x, index, v, dim: _scattered(x, index, v, dim, True))
INDEX_ADD = Op("IndexAdd", lambda x, index, v, alpha, dim: written_at(x, v * alpha, (index,), (dim,), True))
INDEX_COPY = Op("IndexCopy", lambda x, index, v, dim: written_at(x, v, (index,), (dim,), False))
INDEX_FILL = Op("IndexFill", lambda x, index, v, dim: written_at(x, v, (index,), (dim,), False))
TAKE = Op("Take", lambda x, index: read_at(x.reshape(-1), (index,), (0,)))
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


def _along(name: str, input: Tensor, dim: Any, index: Tensor) -> tuple[Tensor, int]:
    """(index, dim) of gather and scatter; the index has as many dimensions as *input*."""
    shape = tensor_argument(name, input)._data.shape
    at = one_dim(dim, len(shape))
    if len(index.shape) != len(shape):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for d, (n, m) in enumerate(zip(index.shape, shape, strict=True)):
        if n > m and d != at:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be no larger than self "
                f"{list(shape)} apart from dimension {at}"
            )
    return _positions(name, index, shape[at] if shape else 1, at), at


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """``out[i][j] = input[index[i][j]][j]`` for *dim* 0, and so on."""
    index, at = _along("gather", input, dim, index)
    if not input.ndim:
        return METHODS["clone"](input)
    return apply(GATHER, (input, index), (at,))


def _scatter_call(
    name: str, input: Tensor, dim: int, index: Tensor, src: Any, reduce: Any
) -> tuple[Op, tuple[Any, ...], tuple[Any, ...]]:
    index, at = _along(name, input, dim, index)
    if reduce is not None and reduce != "add":
        raise NotImplementedError(f"{name} with reduce={reduce!r} is not supported; there is 'add'")
    if isinstance(src, Tensor):
        if src.dtype != input.dtype:
            raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
        if any(n > m for n, m in zip(index.shape, src.shape, strict=True)):
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)} apart from dimension "
                f"{at}"
            )
    else:
        src = scalar_of(src, input.dtype)
    op = SCATTER_ADD if name == "scatter_add" or reduce == "add" else SCATTER[0 if isinstance(src, Tensor) else 1]
    return op, (input, index, src), (at,)


def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Tensor:
    """A copy of *input* with *src* (a tensor or a number) written where ``gather`` would read."""
    return apply(*_scatter_call("scatter", input, dim, index, value if src is None else src, reduce))


def scatter_(
    self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Tensor:
    """``scatter`` in place."""
    op, operands, statics = _scatter_call("scatter", self, dim, index, value if src is None else src, reduce)
    return inplace(op, self, operands[1:], statics)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of *input* with *src* added where ``gather`` would read."""
    return apply(*_scatter_call("scatter_add", input, dim, index, src, None))


def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``scatter_add`` in place."""
    op, operands, statics = _scatter_call("scatter_add", self, dim, index, src, None)
    return inplace(op, self, operands[1:], statics)


def _line(name: str, input: Tensor, dim: Any, index: Tensor) -> tuple[Tensor, int]:
    """(index, dim) of the functions whose index is a vector."""
    shape = tensor_argument(name, input)._data.shape
    at = one_dim(dim, len(shape))
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    index = _positions(name, index, shape[at] if shape else 1, at, IndexError)
    return (index if index.ndim else METHODS["reshape"](index, 1)), at


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The entries of *input* along *dim* at the positions in the vector *index*."""
    index, at = _line("index_select", input, dim, index)
    return apply(INDEX_SELECT, (input, index), ((at,),)) if input.ndim else METHODS["clone"](input)


def _index_add_call(t: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> tuple[Any, Any]:
    index, at = _line("index_add", t, dim, index)
    if source.dtype != t.dtype:
        raise RuntimeError("index_add_(): self and source expected to have the same dtype, but got (self) "
                           f"{dtype_name(t)} and (source) {dtype_name(source)}")  # fmt: skip
    _check_source("index_add", t, at, index, source)
    return (t, index, source, scalar_of(alpha, t.dtype)), (at,)


def _check_source(name: str, t: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    wanted = (*t.shape[:dim], *index.shape, *t.shape[dim + 1 :])
    if tuple(source.shape) != wanted and t.ndim:
        raise RuntimeError(
            f"{name}_(): Source/destination tensors must have same slice shapes. Destination slice shape: "
            f"{list(wanted)} Source slice shape: {list(source.shape)}"
        )


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """A copy of *input* with ``alpha * source`` added to the entries at *index*; repeated positions add up."""
    return apply(INDEX_ADD, *_index_add_call(input, dim, index, source, alpha))


def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """``index_add`` in place."""
    operands, statics = _index_add_call(self, dim, index, source, alpha)
    return inplace(INDEX_ADD, self, operands[1:], statics)


def _index_copy_call(t: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[Any, Any]:
    index, at = _line("index_copy", t, dim, index)
    _check_source("index_copy", t, at, index, source)
    return (t, index, source), (at,)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of *input* with the entries at *index* replaced by *source*."""
    return apply(INDEX_COPY, *_index_copy_call(input, dim, index, source))


def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``index_copy`` in place."""
    operands, statics = _index_copy_call(self, dim, index, source)
    return inplace(INDEX_COPY, self, operands[1:], statics)


def _index_fill_call(t: Tensor, dim: int, index: Tensor, value: Any) -> tuple[Any, Any]:
    index, at = _line("index_fill", t, dim, index)
    return (t, index, value if isinstance(value, Tensor) else scalar_of(value, t.dtype)), (at,)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of *input* with the entries at *index* replaced by the number *value*."""
    return apply(INDEX_FILL, *_index_fill_call(input, dim, index, value))


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """``index_fill`` in place."""
    operands, statics = _index_fill_call(self, dim, index, value)
    return inplace(INDEX_FILL, self, operands[1:], statics)


# ---- masks and flat positions --------------------------------------------------------------------------------------


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the *mask* holds, as a vector."""
    if tensor_argument("masked_select", mask, "mask", 2).dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = np.broadcast_shapes(input.shape, mask.shape)
    wide = METHODS["expand"](input, shape) if input.shape != shape else input
    found = [make(a) for a in np.nonzero(np.atleast_1d(np.broadcast_to(raw(mask), shape)))]
    if not shape:
        return apply(MASKED_SELECT, (METHODS["reshape"](wide, 1), *found), ((0,),))
    return apply(MASKED_SELECT, (wide, *found), (tuple(range(len(shape))),))


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flattened *input* at the positions in *index*."""
    size = tensor_argument("take", input)._data.size
    index = _positions("take", index, size, 0, IndexError, -size)
    return apply(TAKE, (input, index))


def take_along_dim(input: Tensor, indices: Tensor, dim: Any = None) -> Tensor:
    """As ``numpy.take_along_axis``; dimensions other than *dim* are broadcast."""
    if dim is None:
        return gather(METHODS["reshape"](input, -1), 0, METHODS["reshape"](indices, -1))
    at = one_dim(dim, input.ndim)
    if indices.ndim != input.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    common = [max(n, m) if n and m else 0 for n, m in zip(input.shape, indices.shape, strict=True)]
    wide = [n if a == at else c for a, (n, c) in enumerate(zip(input.shape, common, strict=True))]
    picked = [n if a == at else c for a, (n, c) in enumerate(zip(indices.shape, common, strict=True))]
    return gather(METHODS["expand"](input, wide), at, METHODS["expand"](indices, picked))


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not 0: a row for each, or (*as_tuple*) a vector for each dimension."""
    data = raw(tensor_argument("nonzero", input))
    found = np.nonzero(data if data.shape else data.reshape(1))
    if as_tuple:
        return tuple([make(a) for a in found])
    return make(np.stack(found, axis=1) if data.shape else filled(0, (len(found[0]), 0), np.int64, data))


def argwhere(input: Tensor) -> Tensor:
    """``nonzero`` as rows."""
    return nonzero(input)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each integer occurs, or the sum of its *weights*."""
    data = raw(input)
    if data.ndim != 1 or data.dtype.kind not in "iu" or (data.size and data.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    counted = np.bincount(data, None if weights is None else raw(weights), minlength)
    return make(counted if weights is None or weights.dtype.kind not in FLOAT_KINDS else counted.astype(weights.dtype))


def install() -> None:
    """Enter everything into the tables."""
    methods: list[Callable[..., Any]] = [
        gather, scatter, scatter_, scatter_add, scatter_add_, index_select, index_add, index_add_, index_copy,
        index_copy_, index_fill, index_fill_, masked_select, take, nonzero, argwhere, bincount,
    ]  # fmt: skip
    for function in methods:
        METHODS[function.__name__] = function
    METHODS["take_along_dim"] = FUNCTIONS["take_along_axis"] = take_along_dim


install()
