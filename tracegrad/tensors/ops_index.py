"""Indexing and assignment: ``t[index]``, ``t[index] = value``.

Slices, integers, None and ``...`` make a view.  Tensors, arrays and lists of integers, and masks (which become the
positions of their True elements) are applied to that view, all at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tracer.ir.aval import INEXACT_KINDS
from ..tracer.numpy_api.bounds import positions
from ..tracer.record.array import TracedArray, wrap_array
from . import dtypes
from .apply import apply
from .arguments import dtype_name, expand_error, scalar_of
from .create import tensor as new_tensor
from .device import on_cuda
from .indexing import read_at, write_at, written_at
from .inplace import apply_view, check_writable, inplace
from .messages import READ_ONLY
from .modes import STATE
from .on_device import check_positions, compute, different_devices, moved_beside, repeats
from .op import EagerOp
from .ops_basic import complex_operand, copy_, fill_, no_complex_value, to_dtype
from .ops_pick import PUT, picked, taken_apart
from .signature import method
from .tensor import METHODS, Tensor, make, raw

_ndarray = np.ndarray
Ints = tuple[int, ...]

# ---- basic indices -------------------------------------------------------------------------------------------------


def _basic(x: Any, code: tuple[Any, ...]) -> Any:
    return x[(*[slice(*i) if type(i) is tuple else i for i in code], Ellipsis)]


SELECT = EagerOp("Select", _basic)
SLICE = EagerOp("Slice", _basic)
UNSQUEEZE = EagerOp("Unsqueeze", _basic)
ALIAS = EagerOp("Alias", _basic)


class _Index:
    """An index taken apart: the code of its basic part, and the arrays over dimensions of that view."""

    __slots__ = ("arrays", "beside", "code", "dims", "op")

    def __init__(self, data: Any, index: Any):
        shape, self.beside = data.shape, data
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
        """Note an index of integers or bools; returns the number of dimensions that it indexes."""
        data = raw(item)
        if data.dtype.kind != "b":
            if type(data) is TracedArray:
                data = wrap_array(positions(data, shape[axis], axis))
            elif on_cuda(self.beside):
                check_positions(data, shape[axis], axis)
            self._add(data, place, item)
            self.code.append((None,))
            return 1
        have, ndim = data.shape, len(data.shape)
        wrong = next((k for k in range(ndim) if have[k] not in (0, shape[axis + k])), None)  # 0: an empty one fits all
        if wrong is not None:
            raise IndexError(
                f"The shape of the mask {list(have)} at index {wrong} does not match the shape of the indexed tensor "
                f"{list(shape)} at index {axis + wrong}"
            )
        for k, found in enumerate(data.nonzero()):
            self._add(found, place + k)
            self.code.append((None,))
        return ndim

    def _add(self, array: Any, place: int, item: Tensor | None = None) -> None:
        self.arrays.append(moved_beside(item if item is not None and item._data is array else make(array), self.beside))
        self.dims.append(place)


def constant(array: Any) -> Any:
    """An array that this call has made: within a capture it is part of the program."""
    return array if STATE.capture is None else STATE.capture.constant(array)


def _slice_code(item: slice) -> tuple[Any, ...]:
    if item.start is None and item.stop is None and item.step is None:
        return (None,)
    parts = tuple(
        [None if p is None else p if type(p) is int else p.__index__() for p in (item.start, item.stop, item.step)]
    )
    if parts[2] == 0:
        raise ValueError("slice step cannot be zero")
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
        if data.dtype.kind in INEXACT_KINDS:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if data.dtype == dtypes.uint8:
            return make(data.astype(bool))
        if not data.shape and (type(data) is _ndarray or data.dtype.kind == "b"):
            return bool(data) if data.dtype.kind == "b" else int(data)
        return item
    if isinstance(item, np.bool_):
        return bool(item)
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, (_ndarray, TracedArray)):
        return _classified(make(item if item.size or item.dtype.kind not in INEXACT_KINDS else item.astype(np.int64)))
    if isinstance(item, (list, tuple, range)):
        made = new_tensor(list(item)) if item else make(np.zeros(0, np.int64))
        return made if made.ndim and made.dtype.kind not in INEXACT_KINDS else _classified(made)
    if hasattr(item, "__index__"):
        return int(item.__index__())
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
        f"{type(item).__name__})"
    )


def getitem(self: Tensor, index: Any) -> Tensor:
    """``t[index]``: a view for basic indices, otherwise a new tensor."""
    kind, capture = type(index), STATE.capture
    if capture is not None and capture.tape is not None and (parts := taken_apart(self, index)) is not None:
        return picked(self, *parts, capture.tape)
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
    elif STATE.capture is None and type(self._data) is _ndarray:
        arrays = [index] if kind is not tuple else index
        if all(_is_positions(v) for v in arrays) and 0 < len(arrays) <= len(self._data.shape):
            return _read(INDEX, self, arrays, tuple(range(len(arrays))))
    found = _Index(self._data, index)
    if not found.arrays:
        return apply_view(found.op, self, (tuple(found.code),))
    return _read(INDEX, _viewed(self, found), found.arrays, tuple(found.dims))


def _is_positions(item: Any) -> bool:
    """Whether an index needs no preparation."""
    return isinstance(item, Tensor) and item._data.dtype.kind == "i" and bool(item._data.shape)


def _viewed(t: Tensor, found: _Index) -> Tensor:
    """The view that the basic part of an index gives; its arrays apply to that."""
    return apply_view(found.op, t, (tuple(found.code),)) if found.code else t


# ---- indices of integers -------------------------------------------------------------------------------------------


def read_op(name: str) -> EagerOp:
    """An operation on (tensor, index arrays) with the indexed dimensions as its static part."""
    return EagerOp(name, lambda *args: read_at(args[0], args[1:-1], args[-1]))


INDEX = read_op("Index")
INDEX_SELECT = read_op("IndexSelect")
INDEX_PUT = EagerOp("IndexPut", lambda x, v, *args: written_at(x, v, args[:-2], args[-2], args[-1]))


def _read(op: EagerOp, t: Tensor, arrays: Sequence[Any], dims: Ints) -> Tensor:
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
    return not any(isinstance(v, Tensor) and v.requires_grad for v in others)


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """``t[index] = value``, through a view for basic indices."""
    capture = STATE.capture
    if capture is not None and capture.tape is not None and (parts := taken_apart(self, index)) is not None:
        _put_at(self, *parts, value, capture.tape)
        return
    found = _Index(self._data, index)
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


def _put_at(t: Tensor, code: Any, positions: Any, value: Any, tape: Any) -> None:
    """``t[index] = value`` at positions that follow from an iteration."""
    value = _value(t, value)
    if isinstance(value, Tensor):
        if tape.is_row(value, t, code, positions):  # ``t[i] += 1`` has written there already
            return
        value = to_dtype(value, t.dtype) if value.dtype != t.dtype else value
    inplace(PUT, t, (value, *positions), (code,))


def _translated(error: Exception) -> Exception:
    return (IndexError if isinstance(error, IndexError) else RuntimeError)(_worded(error))


def _value(t: Tensor, value: Any) -> Any:
    """A tensor, or a Python number."""
    if isinstance(value, (complex, np.complexfloating)):
        if t._data.dtype.kind != "c":
            raise no_complex_value(t._data.dtype)
        return complex_operand(complex(value), t._data.dtype)
    if isinstance(value, Tensor):
        return to_dtype(value, t.dtype) if value._data.dtype.kind == "c" and t._data.dtype.kind != "c" else value
    if isinstance(value, (bool, int, float, np.generic)):
        return scalar_of(value, t._data.dtype)
    if isinstance(value, (_ndarray, TracedArray)):
        return make(value)
    raise TypeError(f"can't assign a {type(value).__name__} to a torch.{dtype_name(t)}Tensor")


def _set_plain(t: Tensor, found: _Index, value: Any) -> None:
    data = t._data
    target = _basic(data, tuple(found.code)) if found.code else data
    value = value._data if isinstance(value, Tensor) else value
    try:
        if on_cuda(data):
            _set_on_device(data, target, found, value)
        elif found.arrays:
            write_at(target, value, tuple([a._data for a in found.arrays]), tuple(found.dims), False)
        else:
            target[...] = value
    except ValueError:
        if type(target) is _ndarray and not target.flags.writeable:
            raise RuntimeError(READ_ONLY) from None
        if found.arrays:
            raise
        raise expand_error(value.shape, target.shape) from None
    t._counter[0] += 1


def _set_on_device(data: Any, target: Any, found: _Index, value: Any) -> None:
    """Indexed assignment on a device by its ``scatter``, in which the last write to a position wins, as on the host."""
    if repeats(data):
        raise RuntimeError(READ_ONLY)
    if type(value) is _ndarray and value.ndim:
        raise different_devices(data.device.id)
    if found.arrays:
        operands = (target, value, *[a._data for a in found.arrays])
        value = compute(INDEX_PUT, operands, (tuple(found.dims), False))
    target[...] = value


def _set_view(view: Tensor, value: Any) -> None:
    if not isinstance(value, Tensor):
        fill_(view, value)
        return
    if value._base is view._base and value._chain == view._chain:  # ``t[0] += 1`` has written there already
        check_writable(view, (value,))
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
    found = _Index(t._data, tuple(indices))
    if found.code:
        raise NotImplementedError("index_put takes tensors of integers or bools only")
    if isinstance(values, Tensor) and values.dtype != t.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {dtype_name(t)} for the "
            f"destination and {dtype_name(values)} for the source."
        )
    return found.arrays, tuple(found.dims), values


@method
def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Write (or add) *values* at *indices*, a tuple of tensors."""
    arrays, dims, values = _put_arguments(self, indices, values)
    try:
        return _put(self, arrays, dims, values, bool(accumulate))
    except (ValueError, IndexError) as error:
        raise _translated(error) from None


@method
def index_put(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy of *input* with *values* written (or added) at *indices*."""
    arrays, dims, values = _put_arguments(input, indices, values)
    try:
        return apply(INDEX_PUT, (input, values, *arrays), (dims, bool(accumulate)))
    except (ValueError, IndexError) as error:
        raise _translated(error) from None


Tensor.__getitem__ = getitem  # type: ignore[method-assign]
Tensor.__setitem__ = setitem  # type: ignore[method-assign]
