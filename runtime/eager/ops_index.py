"""Indexing and assignment, and the functions that read and write at positions.

Slices, integers, None and ``...`` make a view.  Tensors, arrays and lists of integers, and masks (which become the
positions of their True elements) are applied to that view, all at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tracer.array import TracedArray
from ...tracer.npapi_index import positions
from . import dtypes
from .arguments import FUNCTIONS, expand_error, one_dim, scalar_of, tensor_argument
from .create import tensor as new_tensor
from .indexing import coordinates, elements_along, numpy_index, read_at, write_at, written_at
from .inplace import apply_view, check_writable, inplace
from .modes import STATE
from .op import Op
from .ops_basic import copy_, fill_, to_dtype
from .tensor import METHODS, Tensor, apply, make, raw
from .wording import READ_ONLY

_ndarray = np.ndarray
_ALL = slice(None)
Ints = tuple[int, ...]

# ---- basic indices -------------------------------------------------------------------------------------------------


def _basic(x: Any, code: tuple[Any, ...]) -> Any:
    return x[(*[slice(*i) if type(i) is tuple else i for i in code], Ellipsis)]


SELECT = Op("Select", _basic, view=True)
SLICE = Op("Slice", _basic, view=True)
UNSQUEEZE = Op("Unsqueeze", _basic, view=True)
ALIAS = Op("Alias", _basic, view=True)


class _Index:
    """An index taken apart: the code of its basic part, and the arrays over dimensions of that view."""

    __slots__ = ("arrays", "code", "dims", "op")

    def __init__(self, shape: Ints, index: Any):
        items = list(index) if type(index) is tuple or _like_a_tuple(index) else [index]
        items = [_classified(item) for item in items]
        used = 0
        for item in items:
            if isinstance(item, Tensor) and item._data.dtype.kind == "b":
                used += item.ndim
            elif item is not None and item is not Ellipsis and type(item) is not bool:
                used += 1
        if used > len(shape):
            raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
        self.code: list[Any] = []
        self.op = ALIAS
        self.arrays: list[Any] = []
        self.dims: list[int] = []
        axis = place = 0  # in the tensor, in the view
        for k, item in enumerate(items):
            if item is Ellipsis:
                whole = 0 if any(i is Ellipsis for i in items[:k]) else len(shape) - used
                self.code += [(None,)] * whole
                axis, place = axis + whole, place + whole
            elif item is None:
                self.code.append(None)
                self.op = UNSQUEEZE
                place += 1
            elif type(item) is bool:
                self.code.append(None)
                self._add(constant(np.zeros(int(item), np.int64)), place)
                place += 1
            elif type(item) is int:
                size = shape[axis]
                if not -size <= item < size:
                    raise IndexError(f"index {item} is out of bounds for dimension {axis} with size {size}")
                self.code.append(item % size)
                self.op = SELECT
                axis += 1
            elif type(item) is slice:
                self.code.append(_slice_code(item))
                self.op = SLICE
                axis, place = axis + 1, place + 1
            else:
                taken = self._take(item, shape, axis, place)
                axis, place = axis + taken, place + taken
        while self.code and self.code[-1] == (None,):
            self.code.pop()

    def _take(self, item: Tensor, shape: Ints, axis: int, place: int) -> int:
        """Note an index of integers or bools; how many dimensions it stands for."""
        data = raw(item)
        if data.dtype.kind != "b":
            if type(data) is TracedArray:
                data = positions(data, shape[axis], axis)
            self._add(data, place, item)
            self.code.append((None,))
            return 1
        have, ndim = data.shape, len(data.shape)
        if have != shape[axis : axis + ndim]:
            wrong = next(k for k in range(ndim) if have[k] != shape[axis + k])
            raise IndexError(
                f"The shape of the mask {list(have)} at index {wrong} does not match the shape of the indexed tensor "
                f"{list(shape)} at index {axis + wrong}"
            )
        for k, found in enumerate(np.nonzero(data)):
            self._add(found, place + k)
            self.code.append((None,))
        return ndim

    def _add(self, array: Any, place: int, item: Tensor | None = None) -> None:
        self.arrays.append(item if item is not None and item._data is array else make(array))
        self.dims.append(place)


def constant(array: Any) -> Any:
    """An array that this call has made: within a capture it is part of the program."""
    return array if STATE.capture is None else STATE.capture.constant(array)


def _slice_code(item: slice) -> tuple[Any, ...]:
    if item.start is None and item.stop is None and item.step is None:
        return (None,)
    parts = tuple([None if p is None else p if type(p) is int else p.__index__() for p in (item.start, item.stop, item.step)])
    if parts[2] is not None and parts[2] <= 0:
        raise ValueError("step must be greater than zero")
    return parts


def _like_a_tuple(index: Any) -> bool:
    """Whether a list is meant as a tuple of indices, as PyTorch has it: where it holds more than numbers."""
    return type(index) is list and any(
        isinstance(v, (list, tuple, Tensor, slice)) or v is None or v is Ellipsis for v in index
    )


def _classified(item: Any) -> Any:
    """int, bool, slice, None, Ellipsis, or a Tensor of integers or bools."""
    kind = type(item)
    if kind is int or kind is slice or item is None or item is Ellipsis or kind is bool:
        return item
    if isinstance(item, Tensor):
        data = raw(item)
        if data.dtype.kind == "f":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if data.dtype == dtypes.uint8:
            return make(data.astype(bool))
        if not data.shape and type(data) is _ndarray:
            return bool(data) if data.dtype.kind == "b" else int(data)
        return item
    if isinstance(item, np.bool_):
        return bool(item)
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, (_ndarray, TracedArray)):
        return _classified(make(item if item.size or item.dtype.kind != "f" else item.astype(np.int64)))
    if isinstance(item, (list, tuple, range)):
        made = new_tensor(list(item)) if item else make(np.zeros(0, np.int64))
        return made if made.ndim and made.dtype.kind != "f" else _classified(made)
    if hasattr(item, "__index__"):
        return int(item.__index__())
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
        f"{type(item).__name__})"
    )


def getitem(self: Tensor, index: Any) -> Tensor:
    """``t[index]``: a view for basic indices, otherwise a new tensor."""
    kind = type(index)
    if kind is int:
        shape = self._data.shape
        if shape and -shape[0] <= index < shape[0]:
            return apply_view(SELECT, self, ((index if index >= 0 else index + shape[0],),))
        if not shape:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                "convert a 0-dim tensor to a number"
            )
    elif kind is slice and self._data.shape:
        return apply_view(SLICE, self, ((_slice_code(index),),))
    found = _Index(self._data.shape, index)
    if not found.arrays:
        return apply_view(found.op, self, (tuple(found.code),))
    return _read(INDEX, _viewed(self, found), found.arrays, tuple(found.dims))


def _viewed(t: Tensor, found: _Index) -> Tensor:
    """What the arrays of an index apply to."""
    return apply_view(found.op, t, (tuple(found.code),)) if found.code else t


# ---- indices of integers -------------------------------------------------------------------------------------------


def _read_op(name: str) -> Op:
    return Op(name, lambda *args: read_at(args[0], args[1:-1], args[-1]))


INDEX = _read_op("Index")
INDEX_SELECT = _read_op("IndexSelect")
INDEX_PUT = Op("IndexPut", lambda x, v, *args: written_at(x, v, args[:-2], args[-2], args[-1]))


def _read(op: Op, t: Tensor, arrays: list[Any], dims: Ints) -> Tensor:
    try:
        return apply(op, (t, *arrays), (dims,))
    except IndexError as error:
        raise IndexError(_worded(error)) from None


def _worded(error: Exception) -> str:
    text = str(error).replace(" axis ", " dimension ").replace("indexing arrays", "indexing tensors")
    text = text.replace("value array", "value tensor").replace("could not be broadcast to", "cannot be broadcast to")
    return re.sub(r"\((\d[\d, ]*)\)", lambda m: str([int(n) for n in m[1].split(",") if n.strip()]), text)


def unrecorded(t: Tensor, *others: Any) -> bool:
    """Whether writing *others* into *t* leaves no trace on the tape, so that its memory can be written at once."""
    if STATE.capture is not None:
        return False
    if not STATE.grad:
        return True
    base = t._base
    if t._requires or (base is not None and base._requires):
        return False
    return not any(isinstance(v, Tensor) and v._requires for v in others)


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """``t[index] = value``, through a view for basic indices."""
    found = _Index(self._data.shape, index)
    value = _value(self, value)
    try:
        if unrecorded(self, value):
            check_writable(self)
            _set_plain(self, found, value)
        elif found.arrays:
            _put(_viewed(self, found), found.arrays, tuple(found.dims), value, False)
        else:
            _set_view(apply_view(found.op, self, (tuple(found.code),)), value)
    except (ValueError, IndexError) as error:
        raise _translated(error) from None


def _translated(error: Exception) -> Exception:
    return (IndexError if isinstance(error, IndexError) else RuntimeError)(_worded(error))


def _value(t: Tensor, value: Any) -> Any:
    """A tensor, or a Python number."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float, np.generic)):
        return scalar_of(value, t._data.dtype)
    if isinstance(value, (_ndarray, TracedArray)):
        return make(value)
    raise TypeError(f"can't assign a {type(value).__name__} to a torch.{dtypes.scalar_name(t.dtype)}Tensor")


def _set_plain(t: Tensor, found: _Index, value: Any) -> None:
    data = t._data
    target = _basic(data, tuple(found.code)) if found.code else data
    value = value._data if isinstance(value, Tensor) else value
    if found.arrays:
        write_at(target, value, tuple([a._data for a in found.arrays]), tuple(found.dims), False)
    else:
        try:
            target[...] = value
        except ValueError:
            if not target.flags.writeable:
                raise RuntimeError(READ_ONLY) from None
            raise expand_error(value.shape, target.shape) from None
    t._version[0] += 1


def _set_view(view: Tensor, value: Any) -> None:
    if not isinstance(value, Tensor):
        fill_(view, value)
        return
    if value._base is view._base and value._chain == view._chain:  # ``t[0] += 1`` has written there already
        return
    extra = value.ndim - view.ndim
    if extra > 0 and all(n == 1 for n in value.shape[:extra]):
        value = METHODS["reshape"](value, value.shape[extra:])
    elif extra > 0:
        raise expand_error(value._data.shape, view._data.shape)
    copy_(view, value)


def _put(t: Tensor, arrays: list[Any], dims: Ints, value: Any, accumulate: bool) -> Tensor:
    if isinstance(value, Tensor) and value.dtype != t.dtype:
        value = to_dtype(value, t.dtype)
    return inplace(INDEX_PUT, t, (value, *arrays), (dims, accumulate))


def _put_arguments(t: Tensor, indices: Any, values: Any) -> tuple[list[Any], Ints, Any]:
    found = _Index(t._data.shape, tuple(indices))
    if found.code:
        raise NotImplementedError("index_put takes tensors of integers or bools only")
    if isinstance(values, Tensor) and values.dtype != t.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {dtypes.scalar_name(t.dtype)} for the "
            f"destination and {dtypes.scalar_name(values.dtype)} for the source."
        )
    return found.arrays, tuple(found.dims), values


def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Write (or add) *values* at *indices*, a tuple of tensors."""
    arrays, dims, values = _put_arguments(self, indices, values)
    try:
        return _put(self, arrays, dims, values, bool(accumulate))
    except (ValueError, IndexError) as error:
        raise _translated(error) from None


def index_put(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy of *input* with *values* written (or added) at *indices*."""
    arrays, dims, values = _put_arguments(input, indices, values)
    try:
        return apply(INDEX_PUT, (input, values, *arrays), (dims, bool(accumulate)))
    except (ValueError, IndexError) as error:
        raise _translated(error) from None


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
MASKED_SELECT = _read_op("MaskedSelect")


def _positions(name: str, index: Tensor, size: int, dim: int, kind: type[Exception] = RuntimeError) -> Tensor:
    """An index argument: integers, in bounds."""
    data = raw(tensor_argument(name, index, "index", 3))
    if data.dtype.kind not in "iu":
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if type(data) is TracedArray:
        return make(positions(data, size, dim))
    if data.size and (data.min() < -size or data.max() >= size):
        bad = data[(data < -size) | (data >= size)].flat[0]
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


def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None) -> Tensor:
    """A copy of *input* with *src* (a tensor or a number) written where ``gather`` would read."""
    return apply(*_scatter_call("scatter", input, dim, index, value if src is None else src, reduce))


def scatter_(self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None) -> Tensor:
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
                           f"{dtypes.scalar_name(t.dtype)} and (source) {dtypes.scalar_name(source.dtype)}")  # fmt: skip
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
    index = _positions("take", index, tensor_argument("take", input)._data.size, 0, IndexError)
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
    return make(np.stack(found, axis=1) if data.shape else np.zeros((len(found[0]), 0), np.int64))


def argwhere(input: Tensor) -> Tensor:
    """``nonzero`` as rows."""
    return nonzero(input)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each integer occurs, or the sum of its *weights*."""
    data = raw(input)
    if data.ndim != 1 or data.dtype.kind not in "iu" or (data.size and data.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    counted = np.bincount(data, None if weights is None else raw(weights), minlength)
    return make(counted if weights is None or weights.dtype.kind != "f" else counted.astype(weights.dtype))


def install() -> None:
    """Enter everything into the table of methods."""
    functions: list[Callable[..., Any]] = [
        index_put, index_put_, gather, scatter, scatter_, scatter_add, scatter_add_, index_select, index_add,
        index_add_, index_copy, index_copy_, index_fill, index_fill_, masked_select, take, nonzero, argwhere, bincount,
    ]  # fmt: skip
    for function in functions:
        METHODS[function.__name__] = function
    METHODS["take_along_dim"] = FUNCTIONS["take_along_axis"] = take_along_dim
    Tensor.__getitem__ = getitem  # type: ignore[attr-defined]
    Tensor.__setitem__ = setitem  # type: ignore[attr-defined]


install()

__all__ = ["getitem", "numpy_index", "setitem", "unrecorded"]
