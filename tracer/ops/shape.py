"""Views and assemblies: index maps that move elements and compute nothing.

``slice`` and ``pad`` are each other's transposes: ``pad`` puts an array into zeros at ``start + step * i`` along each
axis.  ``update`` is functional assignment to a slice.  All are inlined into the loops that read them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.aval import INT, Aval, Ints
from ..ir.axes import JOINED, NUMBERED, PART, SPLIT, Axes, Params, Shape, Shapes
from ..ir.errors import GraphError
from ..ir.graph import Atom, Lit, Var, bind, structural
from ..ir.primitive import VIEW, Primitive, register
from .elementwise import BROADCAST


def zeros(shape: Ints, dtype: np.dtype) -> Var:
    """A zero-filled array: a broadcast constant, never a buffer unless it must be one."""
    return full(structural(0, dtype), shape)


def full(value: Atom, shape: Ints) -> Var:
    return bind(BROADCAST, value, shape=tuple(shape), dims=())


def or_zeros(tangent: Atom | None, primal: Atom) -> Atom:
    """*tangent*, or that of a *primal* through which none flows."""
    return zeros(primal.aval.shape, primal.aval.dtype) if tangent is None else tangent


# ---- reshape and transpose -------------------------------------------------------------------------------------


def _reshape_infer(x: Aval, shape: Ints) -> Aval:
    if math.prod(shape) != x.size:
        raise GraphError(f"reshape of {x} to {shape}")
    return Aval(x.dtype, shape)


def _reshape_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    """Axes that are equally long, met from the front and from the back, are left alone; others of 1 are skipped."""
    (before,) = shapes
    kept = _alike(before, shape)
    for a, b in _alike(before[::-1], shape[::-1]).items():
        a, b = len(before) - 1 - a, len(shape) - 1 - b
        if a not in kept and b not in kept.values():
            kept[a] = b
    split = [b for b, n in enumerate(shape) if n != 1 and b not in kept.values()]
    return Axes((tuple([kept.get(a) for a in range(len(before))]),), dict.fromkeys(split, SPLIT))


def _alike(before: Shape, after: Shape) -> dict[int, int]:
    """Axes of *before* and *after* up to where they differ."""
    a = b = 0
    pairs: dict[int, int] = {}
    while a < len(before) and b < len(after):
        if before[a] == after[b]:
            pairs[a] = b
            a, b = a + 1, b + 1
        elif before[a] == 1:
            a += 1
        elif after[b] == 1:
            b += 1
        else:
            break
    return pairs


RESHAPE: Primitive = register(
    Primitive(
        "reshape", VIEW, lambda x, shape, xp=np: xp.asarray(x).reshape(shape), _reshape_infer,
        transpose=lambda ct, x, shape: bind(RESHAPE, ct, shape=x.shape), axes=_reshape_axes,
        sizes=("shape",), domain=((-3.0, 3.0),), test={"params": {"shape": (3, 2)}, "shapes": ((2, 3),)},
    )
)  # fmt: skip

TRANSPOSE: Primitive = register(
    Primitive(
        "transpose", VIEW, lambda x, perm, xp=np: xp.asarray(x).transpose(perm),
        lambda x, perm: Aval(x.dtype, tuple(x.shape[p] for p in perm)),
        transpose=lambda ct, x, perm: bind(TRANSPOSE, ct, perm=tuple(int(p) for p in np.argsort(perm))),
        axes=lambda shapes, shape, params: Axes((tuple([params["perm"].index(a) for a in range(len(shape))]),)),
        domain=((-3.0, 3.0),), test={"params": {"perm": (1, 2, 0)}, "shapes": ((2, 3, 4),)},
    )
)  # fmt: skip


# ---- slices ----------------------------------------------------------------------------------------------------


def python_slices(start: Ints, step: Ints, shape: Ints) -> tuple[slice, ...]:
    """The index that selects ``start + step * i`` for i < shape, along each axis."""
    result = []
    for first, stride, length in zip(start, step, shape, strict=True):
        stop: int | None = first + stride * length
        if stop is not None and stop < 0:
            stop = None
        result.append(slice(first, stop, stride) if length else slice(0, 0, 1))
    return tuple(result)


def _slice_infer(x: Aval, start: Ints, step: Ints, shape: Ints) -> Aval:
    _check_slices(x.shape, start, step, shape)
    return Aval(x.dtype, shape)


def _check_slices(outer: Ints, start: Ints, step: Ints, shape: Ints) -> None:
    for size, first, stride, length in zip(outer, start, step, shape, strict=True):
        last = first + stride * (length - 1)
        if length and not (0 <= first < size and 0 <= last < size):
            raise GraphError(f"slice start={start} step={step} shape={shape} of an array of shape {outer}")


def _whole(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    """Axes of the last operand that are the whole axis of the result, or the other way round."""
    where = zip(params["start"], params["step"], shapes[-1], shape, strict=True)
    whole = [start == 0 and step == 1 and n == m for start, step, n, m in where]
    part = tuple([a if w else None for a, w in enumerate(whole)])
    return Axes((part,), {a: PART for a, w in enumerate(whole) if not w})


def _update_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    (part,), across = _whole(shapes, shape, params)
    return Axes((tuple(range(len(shape))), part), across)


def _pad_impl(x: Any, start: Ints, step: Ints, shape: Ints, xp: Any = np) -> Any:
    result = xp.zeros(shape, x.dtype)
    result[python_slices(start, step, x.shape)] = x
    return result


def _pad_infer(x: Aval, start: Ints, step: Ints, shape: Ints) -> Aval:
    _check_slices(shape, start, step, x.shape)
    return Aval(x.dtype, shape)


SLICE: Primitive = register(
    Primitive(
        "slice", VIEW, lambda x, start, step, shape, xp=np: xp.asarray(x)[python_slices(start, step, shape)],
        _slice_infer,
        transpose=lambda ct, x, start, step, shape: bind(PAD, ct, start=start, step=step, shape=x.shape),
        axes=_whole, sizes=("start", "shape"), masking=True, domain=((-3.0, 3.0),),
        test={"params": {"start": (1, 3), "step": (1, -2), "shape": (2, 2)}, "shapes": ((3, 4),)},
    )
)  # fmt: skip

PAD: Primitive = register(
    Primitive(
        "pad", VIEW, _pad_impl, _pad_infer,
        transpose=lambda ct, x, start, step, shape: bind(SLICE, ct, start=start, step=step, shape=x.shape),
        axes=_whole, sizes=("start", "shape"), domain=((-3.0, 3.0),),
        test={"params": {"start": (1, 3), "step": (1, -2), "shape": (3, 4)}, "shapes": ((2, 2),)},
    )
)  # fmt: skip


def _update_impl(x: Any, v: Any, start: Ints, step: Ints, xp: Any = np) -> Any:
    result = xp.array(x)
    result[python_slices(start, step, v.shape)] = v
    return result


def _update_infer(x: Aval, v: Aval, start: Ints, step: Ints) -> Aval:
    if x.dtype != v.dtype:
        raise GraphError(f"update of {x} with {v}")
    _check_slices(x.shape, start, step, v.shape)
    return Aval(x.dtype, x.shape)


def _update_vjp(ct: Var, out: Var, x: Atom, v: Atom, start: Ints, step: Ints) -> tuple[Var, Var]:
    return (
        bind(UPDATE, ct, zeros(v.aval.shape, ct.dtype), start=start, step=step),
        bind(SLICE, ct, start=start, step=step, shape=v.aval.shape),
    )


def _update_jvp(tangents: Any, out: Var, x: Atom, v: Atom, start: Ints, step: Ints) -> Var:
    return bind(UPDATE, or_zeros(tangents[0], x), or_zeros(tangents[1], v), start=start, step=step)


UPDATE: Primitive = register(
    Primitive(
        "update", VIEW, _update_impl, _update_infer, vjp=_update_vjp, jvp=_update_jvp, axes=_update_axes,
        sizes=("start",), masking=True, domain=((-3.0, 3.0),) * 2,
        test={"params": {"start": (1, 3), "step": (1, -2)}, "shapes": ((3, 4), (2, 2))},
    )
)  # fmt: skip


# ---- concatenate and iota --------------------------------------------------------------------------------------


def _concat_infer(*xs: Aval, axis: int) -> Aval:
    first = xs[0]
    for x in xs[1:]:
        alike = x.dtype == first.dtype and x.ndim == first.ndim
        if not alike or any(x.shape[i] != n for i, n in enumerate(first.shape) if i != axis):
            raise GraphError(f"concat of {[str(x) for x in xs]} along axis {axis}")
    shape = list(first.shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    return Aval(first.dtype, tuple(shape))


def _concat_vjp(ct: Var, out: Var, *xs: Atom, axis: int) -> tuple[Var, ...]:
    result, offset = [], 0
    for x in xs:
        start = tuple(offset if a == axis else 0 for a in range(x.aval.ndim))
        result.append(bind(SLICE, ct, start=start, step=(1,) * x.aval.ndim, shape=x.aval.shape))
        offset += x.aval.shape[axis]
    return tuple(result)


def _concat_jvp(tangents: Any, out: Var, *xs: Atom, axis: int) -> Var:
    return bind(CONCAT, *map(or_zeros, tangents, xs), axis=axis)


def _concat_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    kept = tuple([None if a == params["axis"] else a for a in range(len(shape))])
    return Axes((kept,) * len(shapes), {params["axis"]: JOINED})


CONCAT: Primitive = register(
    Primitive(
        "concat", VIEW, lambda *xs, axis, xp=np: xp.concatenate(xs, axis=axis), _concat_infer,
        vjp=_concat_vjp, jvp=_concat_jvp, axes=_concat_axes,
        domain=((-3.0, 3.0),) * 2, test={"params": {"axis": 1}, "shapes": ((2, 3), (2, 1))},
    )
)  # fmt: skip

IOTA: Primitive = register(
    Primitive(
        "iota", VIEW, lambda size, dtype, xp=np: xp.arange(size, dtype=dtype),
        lambda size, dtype: Aval(dtype, (size,)), axes=lambda shapes, shape, params: Axes((), {0: NUMBERED}),
        sizes=("size",), test={"params": {"size": 5, "dtype": np.dtype("float64")}, "shapes": ()},
    )
)  # fmt: skip


def iota(size: int, dtype: np.dtype = INT) -> Var:
    return bind(IOTA, size=size, dtype=dtype)


# ---- conveniences used by rules and by the NumPy front end -----------------------------------------------------


def reshape(x: Atom, shape: Ints) -> Atom:
    if isinstance(x, Lit):
        return full(x, shape) if shape else x
    return x if x.shape == shape else bind(RESHAPE, x, shape=tuple(shape))


def transpose(x: Atom, perm: Ints) -> Atom:
    return x if tuple(perm) == tuple(range(len(perm))) else bind(TRANSPOSE, x, perm=tuple(perm))


def move_axis(x: Atom, source: int, target: int) -> Atom:
    """*x* with axis *source* at position *target*; the others keep their order."""
    order = [a for a in range(x.aval.ndim) if a != source]
    order.insert(target, source)
    return transpose(x, tuple(order))


def take_slice(x: Atom, start: Ints, step: Ints, shape: Ints) -> Atom:
    whole = shape == x.aval.shape and all(s == 1 for s in step)
    return x if whole else bind(SLICE, x, start=tuple(start), step=tuple(step), shape=tuple(shape))


def slice_axis(x: Atom, axis: int, start: int, length: int, step: int = 1) -> Atom:
    """``x[..., start : start + length : step, ...]`` along *axis*; *length* counts elements."""
    shape = tuple(length if a == axis else n for a, n in enumerate(x.aval.shape))
    starts = tuple(start if a == axis else 0 for a in range(x.aval.ndim))
    return take_slice(x, starts, tuple(step if a == axis else 1 for a in range(x.aval.ndim)), shape)


def concat(xs: list[Atom], axis: int) -> Atom:
    arrays = [full(x, (1,)) if isinstance(x, Lit) else x for x in xs]
    return arrays[0] if len(arrays) == 1 else bind(CONCAT, *arrays, axis=axis)
