"""Views: functions whose result shares memory with its argument, so that writing into the one shows in the other."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from ..ir.aval import COMPLEX, SUPPORTED, Ints, can_cast, canonical_axes
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom
from ..ir.site import at_site
from ..ops.complex import conjugate
from ..ops.elementwise import BROADCAST, bind, cast_with_warning
from ..ops.shape import reshape, take_slice, transpose
from ..record.array import TracedArray, class_of, in_c_order, made_in_c_order, to_atom, wrap, wrap_array, wrap_as
from ..record.buffers import BufferStep, PairsStep, ReadOnlyStep, SliceStep
from .registry import atom_of, implements, one_axis, reject, shape_of


def as_traced(value: Any) -> TracedArray:
    """*value* itself if it is traced, or a traced array with its contents."""
    if isinstance(value, TracedArray):
        return value
    result = wrap(to_atom(value))
    result._storage.c_order = in_c_order(value)
    return result


# ---- reshape and its relatives ------------------------------------------------------------------------------------


def _full_shape(shape: Ints, size: int) -> Ints:
    """*shape* with its -1 filled in."""
    if shape.count(-1) > 1:
        raise ShapeError.here("reshape: can only specify one unknown dimension")
    known = math.prod(n for n in shape if n != -1)
    if -1 in shape and (known == 0 or size % known):
        raise ShapeError.here(f"cannot reshape array of size {size} into shape {shape}")
    filled = tuple(size // known if n == -1 else n for n in shape)
    if math.prod(filled) != size:
        raise ShapeError.here(f"cannot reshape array of size {size} into shape {shape}")
    return filled


def _check_order(what: str, order: Any, array: TracedArray) -> None:
    if order in ("C", None) or (order in ("A", "K") and array.known_c_order()) or array.ndim <= 1:
        return
    raise UnsupportedError.here(f"{what} with order={order!r} is not supported; transpose before: x.T.reshape(...)")


@implements(np.reshape)
def _reshape(a: Any, /, shape: Any = None, order: Any = "C", *, newshape: Any = None, copy: Any = None) -> Any:
    array = as_traced(a)
    shape = shape_of(newshape if shape is None else shape)
    if order == "F":
        result = array.T.view_reshape(tuple(reversed(_full_shape(shape, array.size)))).T
    else:
        _check_order("np.reshape", order, array)
        result = array.view_reshape(_full_shape(shape, array.size))
    return wrap_array(result.atom, c_order=order != "F") if copy else result


@implements(method="reshape")
def _reshape_method(self: TracedArray, *shape: Any, order: Any = "C", copy: Any = None) -> Any:
    return _reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


@implements(np.ravel, method="ravel")
def _ravel(a: Any, order: Any = "C") -> Any:
    array = as_traced(a)
    if order == "F":
        return array.T.view_reshape((array.size,))
    _check_order("np.ravel", order, array)
    return array.view_reshape((array.size,))


@implements(method="flatten")
def _flatten(self: TracedArray, order: Any = "C") -> Any:
    return wrap_array(reshape(self.T.atom if order == "F" else self.atom, (self.size,)))


# ---- orders of axes -----------------------------------------------------------------------------------------------


def _permuted(array: TracedArray, axes: Any) -> TracedArray:
    if axes is None:
        return array.view_transpose(tuple(reversed(range(array.ndim))))
    perm = tuple(one_axis(a, array.ndim, "transpose") for a in axes)
    if sorted(perm) != list(range(array.ndim)):
        raise ShapeError.here(f"transpose: axes {tuple(axes)} don't match an array of {array.ndim} dimensions")
    return array.view_transpose(perm)


implements(np.transpose)(lambda a, axes=None: _permuted(as_traced(a), axes))


@implements(method="transpose")
def _transpose_method(self: TracedArray, *axes: Any) -> Any:
    if len(axes) == 1 and (axes[0] is None or np.ndim(axes[0])):
        return _permuted(self, axes[0])
    return _permuted(self, axes or None)


@implements(np.swapaxes, method="swapaxes")
def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    array = as_traced(a)
    order = list(range(array.ndim))
    i, j = one_axis(axis1, array.ndim, "swapaxes"), one_axis(axis2, array.ndim, "swapaxes")
    order[i], order[j] = order[j], order[i]
    return array.view_transpose(tuple(order))


@implements(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    array = as_traced(a)
    sources, targets = (
        [one_axis(v, array.ndim, "np.moveaxis") for v in (axes if np.iterable(axes) else [axes])]
        for axes in (source, destination)
    )
    if len(sources) != len(targets):
        raise ShapeError.here("np.moveaxis: `source` and `destination` must have the same number of elements")
    order = [n for n in range(array.ndim) if n not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return array.view_transpose(tuple(order))


@implements(np.rollaxis)
def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    array = as_traced(a)
    axis = one_axis(axis, array.ndim, "np.rollaxis")
    start = start + array.ndim if start < 0 else start
    return _moveaxis(array, axis, start - 1 if axis < start else start)


implements(np.matrix_transpose)(lambda x, /: x.mT)


@implements(method="to_device")
def _to_device(self: TracedArray, device: str, /, *, stream: Any = None) -> Any:
    if device != "cpu" or stream is not None:
        raise ValueError(f"Unsupported device: {device}." if stream is None else "stream argument is not supported.")
    return self


# ---- axes of size 1 -----------------------------------------------------------------------------------------------


def _basic(array: TracedArray, shape: Ints) -> TracedArray:
    """A view of all of *array* in *shape*, which differs in axes of size 1 only."""
    ndim = array.ndim
    return array.view(SliceStep((0,) * ndim, (1,) * ndim, array.shape, shape))


@implements(np.squeeze, method="squeeze")
def _squeeze(a: Any, axis: Any = None) -> Any:
    array = as_traced(a)
    ones = tuple(i for i, n in enumerate(array.shape) if n == 1)
    axes = ones if axis is None else canonical_axes(axis, array.ndim, "np.squeeze")
    if any(array.shape[i] != 1 for i in axes):
        raise ShapeError.here("cannot select an axis to squeeze out which has size not equal to one")
    if not axes:
        return array
    return _basic(array, tuple(n for i, n in enumerate(array.shape) if i not in axes))


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    array = as_traced(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = array.ndim + len(axes)
    new = canonical_axes(tuple(axes), ndim, "np.expand_dims")
    sizes = iter(array.shape)
    return _basic(array, tuple(1 if i in new else next(sizes) for i in range(ndim)))


def _at_least(ndim: int) -> Any:
    def one(value: Any) -> Any:
        array = as_traced(value)
        shape = array.shape
        if len(shape) >= ndim:
            return array
        if ndim == 3 and len(shape) == 2:
            return _basic(array, (*shape, 1))
        if ndim == 3 and len(shape) == 1:
            return _basic(array, (1, *shape, 1))
        return _basic(array, (*[1] * (ndim - len(shape)), *shape))

    def apply(*arys: Any) -> Any:
        return one(arys[0]) if len(arys) == 1 else tuple(one(a) for a in arys)

    return apply


for _n, _function in ((1, np.atleast_1d), (2, np.atleast_2d), (3, np.atleast_3d)):
    implements(_function)(_at_least(_n))


# ---- broadcasting -------------------------------------------------------------------------------------------------


def broadcast_view(array: TracedArray, shape: Ints) -> TracedArray:
    if len(shape) < array.ndim or any(
        m not in (1, n) for m, n in zip(reversed(array.shape), reversed(shape), strict=False)
    ):
        raise ShapeError.here(
            f"operands could not be broadcast together with remapped shapes: {array.shape} cannot become {shape}"
        )
    dims = tuple(range(len(shape) - array.ndim, len(shape)))
    return array.view(ReadOnlyStep("np.broadcast_to", lambda x: bind(BROADCAST, x, shape=shape, dims=dims)))


implements(np.broadcast_to)(lambda array, shape, subok=False: broadcast_view(as_traced(array), shape_of(shape)))


@implements(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    arrays = [as_traced(a) for a in args]
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    return tuple(a if a.shape == shape else broadcast_view(a, shape) for a in arrays)


# ---- splitting ----------------------------------------------------------------------------------------------------


def axis_view(array: TracedArray, axis: int, start: int, length: int, step: int = 1) -> TracedArray:
    """The view array[..., start : start + length * step : step, ...]; *length* counts elements."""
    starts = tuple(start if i == axis else 0 for i in range(array.ndim))
    steps = tuple(step if i == axis else 1 for i in range(array.ndim))
    shape = tuple(length if i == axis else n for i, n in enumerate(array.shape))
    return array.view(SliceStep(starts, steps, shape, shape))


@implements(np.array_split)
def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    array = as_traced(ary)
    axis = one_axis(axis, array.ndim, "np.split")
    size = array.shape[axis]
    if not np.iterable(indices_or_sections):
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ShapeError.here("number sections must be larger than 0")
        each, extra = divmod(size, sections)
        edges = [0]
        for i in range(sections):
            edges.append(edges[-1] + each + (i < extra))
    else:
        edges = [0, *(int(i) for i in indices_or_sections), size]
    parts = []
    for low, high in pairwise(edges):
        start, stop, _ = slice(low, high).indices(size)
        length = max(stop - start, 0)
        parts.append(axis_view(array, axis, start if length else 0, length))
    return parts


@implements(np.split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    array = as_traced(ary)
    size = array.shape[one_axis(axis, array.ndim, "np.split")]
    if isinstance(indices_or_sections, (int, np.integer)) and size % int(indices_or_sections):
        raise ShapeError.here("array split does not result in an equal division; use np.array_split")
    return _array_split(array, indices_or_sections, axis)


@implements(np.hsplit)
def _hsplit(ary: Any, indices_or_sections: Any) -> Any:
    array = as_traced(ary)
    return _split(array, indices_or_sections, 1 if array.ndim > 1 else 0)


implements(np.vsplit)(lambda ary, indices_or_sections: _split(ary, indices_or_sections, 0))
implements(np.dsplit)(lambda ary, indices_or_sections: _split(ary, indices_or_sections, 2))
implements(np.unstack)(lambda x, /, *, axis=0: tuple(_moveaxis(x, axis, 0)))


# ---- turning ------------------------------------------------------------------------------------------------------


@implements(np.flip)
def _flip(m: Any, axis: Any = None) -> Any:
    array = as_traced(m)
    axes = canonical_axes(axis, array.ndim, "np.flip")
    if not array.size:
        return _basic(array, array.shape)
    starts = tuple(n - 1 if i in axes else 0 for i, n in enumerate(array.shape))
    steps = tuple(-1 if i in axes and n > 1 else 1 for i, n in enumerate(array.shape))
    return array.view(SliceStep(starts, steps, array.shape, array.shape))


implements(np.flipud)(lambda m: _flip(m, 0))
implements(np.fliplr)(lambda m: _flip(m, 1))


@implements(np.rot90)
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    array = as_traced(m)
    first, second = (one_axis(a, array.ndim, "np.rot90") for a in axes)
    k %= 4
    if k == 0:
        return _basic(array, array.shape)
    if k == 2:
        return _flip(array, (first, second))
    return _swapaxes(_flip(array, second), first, second) if k == 1 else _flip(_swapaxes(array, first, second), second)


# ---- diagonals ----------------------------------------------------------------------------------------------------


def _read_diagonal(x: Atom, offset: int, axis1: int, axis2: int) -> Atom:
    rest = [a for a in range(x.aval.ndim) if a not in (axis1, axis2)]
    moved = transpose(x, (*rest, axis1, axis2))
    lead, (rows, columns) = moved.aval.shape[:-2], moved.aval.shape[-2:]
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = reshape(moved, (*lead, rows * columns))
    first = (offset if offset >= 0 else -offset * columns) if length else 0
    step = columns + 1 if length > 1 else 1
    zeros = (0,) * len(lead)
    return take_slice(flat, (*zeros, first), (*[1] * len(lead), step), (*lead, length))


@implements(np.diagonal, method="diagonal")
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    array = as_traced(a)
    first, second = one_axis(axis1, array.ndim, "np.diagonal"), one_axis(axis2, array.ndim, "np.diagonal")
    if first == second:
        raise ShapeError.here("axis1 and axis2 cannot be the same")
    return array.view(ReadOnlyStep("np.diagonal", lambda x: _read_diagonal(x, int(offset), first, second)))


@implements(np.trace, method="trace")
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    return np.sum(_diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


implements(np.linalg.diagonal)(lambda x, /, *, offset=0: _diagonal(x, offset, -2, -1))
implements(np.linalg.trace)(lambda x, /, *, offset=0, dtype=None: _trace(x, offset, -2, -1, dtype))


# ---- copies and conversions ---------------------------------------------------------------------------------------


@implements(method="copy")
def _copy_method(self: TracedArray, order: Any = "C") -> Any:
    found = _copy(self, "C" if order is None else order)
    return wrap(found.atom) if class_of(self) is not np.ndarray else found


@implements(np.copy)
def _copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    return wrap_array(atom_of(a), c_order=made_in_c_order(order, a))


@implements(method="astype")
def _astype(
    self: TracedArray, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
) -> Any:
    from_dtype, to = self.dtype, np.dtype(dtype)
    if to not in SUPPORTED:
        raise UnsupportedError.here(
            f"astype({to}) is not supported on traced arrays; use a float, an integer type or bool"
        )
    if not can_cast(from_dtype, to, casting):
        raise UnsupportedError.here(
            f"cannot cast a traced array from {from_dtype} to {to} according to the rule {casting!r}"
        )
    if from_dtype == to and not copy and not self.aval.weak:
        return self
    if class_of(self) is not np.ndarray:
        return wrap(cast_with_warning(self.atom, to))
    return wrap_array(cast_with_warning(self.atom, to), c_order=made_in_c_order(order, self))


implements(np.astype)(lambda x, dtype, /, *, copy=True, device=None: _astype(x, dtype, copy=copy))


@implements(method="view")
def _view(self: TracedArray, dtype: Any = None, type: Any = None) -> Any:
    to = self.dtype if dtype is None or dtype is np.ndarray or dtype is self.dtype else np.dtype(dtype)
    lanes = [one for one, other in ((self.dtype, to), (to, self.dtype)) if one in COMPLEX and COMPLEX[one] == other]
    if self.ndim and lanes:
        if to.kind == "c" and self.shape[-1] % 2:
            raise ValueError(
                at_site(
                    "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the "
                    "last axis of the array."
                )
            )
        return self.view(BufferStep() if to.kind == "f" else PairsStep(to))
    reject(
        "ndarray.view",
        "use astype",
        dtype=None if to == self.dtype else dtype,
        type=None if type is np.ndarray else type,
    )
    return _basic(self, self.shape)


for _name in ("conj", "conjugate"):
    implements(method=_name)(lambda self: wrap_as(conjugate(self.atom), self) if self.aval.is_complex else self)


@implements(method="fill")
def _fill(self: TracedArray, value: Any) -> None:
    self[...] = value


@implements(method="tolist")
def _tolist(self: TracedArray) -> Any:
    if self.shape:
        return [_tolist(row) for row in self]
    return self.number() if self.aval.is_inexact else self.item()
