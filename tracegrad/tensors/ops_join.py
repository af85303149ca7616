"""Tensors put together from tensors: joined, repeated, turned; triangles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..tracer.record.array import TracedArray
from .apply import apply
from .arguments import FUNCTIONS, common_dtype, listed, many_dims, one_dim, shape_argument
from .modes import STATE
from .on_device import moved_beside
from .op import EagerOp
from .ops_basic import to_dtype
from .ops_index import INDEX_SELECT, constant
from .ops_shape import clone, ravel, reshape, unsqueeze
from .signature import Dim, function, method
from .tensor import Tensor, make, raw, seen

_ndarray = np.ndarray

# ---- joining -------------------------------------------------------------------------------------------------------

CAT = EagerOp("Cat", lambda *args: np.concatenate(args[:-1], axis=args[-1]))
STACK = EagerOp("Stack", lambda *args: _stacked(args[:-1], args[-1]))


STACK_ROWS = EagerOp("Stack", lambda x, dim: np.moveaxis(x, 0, dim).copy())
CAT_ROWS = EagerOp("Cat", lambda x, dim: _joined(np.moveaxis(x, 0, dim), dim))


def _joined(x: Any, dim: int) -> Any:
    """*x* with its axes *dim* and *dim* + 1 as one."""
    shape = x.shape
    return x.reshape((*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :])).copy()


def _whole(tensors: Sequence[Tensor]) -> Tensor | None:
    """The stack of *tensors*, where they are rows that a loop has given, in code that is recorded."""
    capture = STATE.capture
    return None if capture is None or capture.tape is None else capture.tape.stack_of(tensors)  # type: ignore[no-any-return]


def _stacked(arrays: tuple[Any, ...], dim: int) -> Any:
    lead = (*[slice(None)] * dim, None)
    return np.concatenate([a[lead] for a in arrays], axis=dim)


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
    """Whether all are plain or traced arrays, as in NumPy code."""
    if type(tensors) in (list, tuple) and tensors and isinstance(tensors[0], Tensor):
        return False
    return isinstance(tensors, (_ndarray, TracedArray)) or (
        isinstance(tensors, (tuple, list))
        and any(isinstance(v, (_ndarray, TracedArray)) for v in tensors)
        and not any(isinstance(v, Tensor) for v in tensors)
    )


@function
def cat(tensors: Any, dim: Any = 0) -> Tensor:
    """The tensors one after the other along *dim*."""
    if _arrays_only(tensors):
        return np.concatenate(tensors, axis=dim)  # type: ignore[return-value]
    given = _tensors("cat", tensors)
    if not given:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    first = given[0]._data.shape
    if not all(v._data.shape == first for v in given) or not first:
        given = _that_fit(given, dim)
        first = given[0]._data.shape
    at = one_dim(dim, len(first))
    whole = _whole(given)
    return apply(CAT, tuple(given), (at,)) if whole is None else apply(CAT_ROWS, (whole,), (at,))


def _that_fit(given: list[Any], dim: Any) -> list[Any]:
    """The tensors without empty vectors, which fit everywhere; RuntimeError where the others do not fit."""
    for k, v in enumerate(given):
        if not v._data.shape:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    kept = [v for v in given if v._data.shape != (0,)] or given[:1]
    first = kept[0]._data.shape
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
    return kept


@function
def stack(tensors: Any, dim: Any = 0) -> Tensor:
    """The tensors, of one shape, along a new dimension at *dim*."""
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
    at = one_dim(dim, len(first) + 1)
    whole = _whole(given)
    return apply(STACK, tuple(given), (at,)) if whole is None else apply(STACK_ROWS, (whole,), (at,))


@function
def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension."""
    return _at_least(tensors, lambda v: reshape(v, 1) if not v.ndim else v)


@function
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions; a vector becomes a row."""
    return _at_least(tensors, lambda v: reshape(v, 1, 1) if not v.ndim else unsqueeze(v, 0) if v.ndim == 1 else v)


@function
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
    return tuple([one(v) for v in listed(tensors)])


@function
def hstack(tensors: Any) -> Tensor:
    """The tensors side by side: along dimension 1, vectors along 0."""
    given = list(atleast_1d(list(tensors)))
    return cat(given, 0 if given and given[0].ndim == 1 else 1)


@function
def vstack(tensors: Any) -> Tensor:
    """The tensors one below the other; vectors are rows."""
    return cat(list(atleast_2d(list(tensors))), 0)


@function
def dstack(tensors: Any) -> Tensor:
    """The tensors one behind the other, along dimension 2."""
    return cat(list(atleast_3d(list(tensors))), 2)


@function
def column_stack(tensors: Any) -> Tensor:
    """The tensors as columns: vectors become such."""
    return hstack([reshape(v, (-1, 1)) if v.ndim <= 1 else v for v in tensors])


# ---- repeating, turning, triangles ---------------------------------------------------------------------------------

REPEAT = EagerOp("Repeat", lambda x, times: np.tile(x, times))
REPEAT_EACH = EagerOp("ViewBackward0", lambda x, count, dim: np.repeat(x, count, axis=dim))
FLIP = EagerOp("Flip", lambda x, dims: np.flip(x, dims).copy())
ROLL = EagerOp("Roll", lambda x, shifts, dims: np.roll(x, shifts, dims).copy())
ROT90 = EagerOp("Rot90", lambda x, k, dims: np.rot90(x, k, dims).copy())


@method
def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """The whole tensor so many times along each dimension; new dimensions come in front."""
    times = shape_argument(repeats)
    if len(times) < self.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    return apply(REPEAT, (self,), (times,)) if times else clone(self)


@method
def tile(input: Tensor, *dims: Any) -> Tensor:
    """As ``repeat``; missing counts in front are 1."""
    times = shape_argument(dims)
    return repeat(input, (*[1] * (input.ndim - len(times)), *times))


@method
def repeat_interleave(input: Tensor, repeats: Any, dim: Dim | None = None, *, output_size: Any = None) -> Tensor:
    """Each element (or entry along *dim*) so many times; *repeats* may be a tensor with a count for each."""
    if dim is None:
        input, dim = ravel(input), 0
    if not isinstance(repeats, Tensor):
        return apply(REPEAT_EACH, (input,), (int(repeats), dim))
    counts = seen(raw(repeats), "repeats so many times as a tensor says")
    size = input.shape[dim]
    if counts.size not in (1, size):
        raise RuntimeError(f"repeats must have the same size as input along dim, but got repeats.size(0) = "
                           f"{counts.size} and input.size({dim}) = {size}")  # fmt: skip
    where = moved_beside(make(constant(np.repeat(np.arange(size), counts.reshape(-1)))), input._data)
    return apply(INDEX_SELECT, (input, where), ((dim,),))


@method
def flip(input: Tensor, *dims: Any) -> Tensor:
    """Reversed along the dimensions given."""
    return apply(FLIP, (input,), (many_dims(tuple(listed(dims)), input.ndim),))


@method
def fliplr(input: Tensor) -> Tensor:
    """Reversed along dimension 1."""
    return flip(input, 1)


@method
def flipud(input: Tensor) -> Tensor:
    """Reversed along dimension 0."""
    return flip(input, 0)


@method
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """Turned by 90 degrees, *k* times, in the plane of two dimensions."""
    return apply(ROT90, (input,), (int(k), tuple([one_dim(d, input.ndim) for d in dims])))


@method
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Shifted around along *dims*; without *dims* as one long vector."""
    shifts = tuple(shifts) if isinstance(shifts, (tuple, list)) else int(shifts)
    if dims is None or dims == ():
        if isinstance(shifts, tuple):
            if len(shifts) != 1:
                raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
            shifts = shifts[0]
        return apply(ROLL, (input,), (shifts, None))
    axes = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if len(axes) != (len(shifts) if isinstance(shifts, tuple) else 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {np.size(shifts)}, dims:{len(axes)}")
    places = tuple([one_dim(d, input.ndim) for d in axes])
    return apply(ROLL, (input,), (shifts if isinstance(shifts, tuple) else (shifts,), places))


def _triangle(name: str, fn: Callable[..., Any], which: str) -> None:
    op = EagerOp(name.capitalize(), fn)

    def body(input: Tensor, diagonal: int = 0) -> Tensor:
        if input.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return apply(op, (input,), (int(diagonal),))

    method(body, name, f"The {which} triangle of matrices, zeros elsewhere.")


_triangle("tril", np.tril, "lower")
_triangle("triu", np.triu, "upper")


FUNCTIONS.update(concat=cat, concatenate=cat, row_stack=vstack)
