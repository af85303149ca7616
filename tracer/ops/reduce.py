"""Reductions, and the linear recurrence from which cumulative sums and products come.

``linrec`` is y[t] = a[t] * y[t-1] + b[t] along the last axis, y[-1] = 0 (backward in t with ``reverse``).  Its
derivatives are ``linrecz``, in which 0 * anything = 0 as in ``mulz``, and which is closed under differentiation.  The
gradients of ``cumprod`` and ``prod`` built on it are exact at zeros, where dividing by x is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import BOOL, INT, Aval, Ints
from ..ir.axes import SCANNED, Axes, Params, Shape, Shapes, last_axis
from ..ir.errors import GraphError
from ..ir.graph import Atom, Lit, Var, bind, structural
from ..ir.primitive import PRIMITIVES, RECURRENCE, REDUCE, Primitive, register
from .elementwise import BROADCAST, F, broadcast_to, cast, like
from .shape import concat, full, move_axis, reshape, slice_axis, transpose, zeros


def kept_shape(shape: Ints, axes: Ints) -> Ints:
    return tuple(n for a, n in enumerate(shape) if a not in axes)


def expand(x: Atom, shape: Ints, axes: Ints) -> Var:
    """*x*, a reduction over *axes*, stretched back to *shape*."""
    return bind(BROADCAST, x, shape=shape, dims=tuple(a for a in range(len(shape)) if a not in axes))


def _infer(x: Aval, axes: Ints) -> Aval:
    if tuple(sorted(set(axes))) != tuple(axes) or any(not 0 <= a < x.ndim for a in axes):
        raise GraphError(f"reduction of {x} over axes {axes}")
    return Aval(x.dtype, kept_shape(x.shape, axes))


def _infer_bool(x: Aval, axes: Ints) -> Aval:
    if x.dtype != BOOL:
        raise GraphError(f"logical reduction of {x}")
    return _infer(x, axes)


def _axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    kept = iter(range(len(shape)))
    return Axes((tuple([None if a in params["axes"] else next(kept) for a in range(len(shapes[0]))]),))


def _reduction(name: str) -> Callable[..., Any]:
    return lambda x, axes, xp=np: getattr(xp, name)(x, axis=axes)


_TEST = {"params": {"axes": (1,)}, "shapes": ((2, 5),)}
_ANY = ((-3.0, 3.0),)

REDUCE_SUM = register(
    Primitive(
        "reduce_sum", REDUCE, lambda x, axes, xp=np: xp.sum(x, axis=axes, dtype=x.dtype), _infer,
        transpose=lambda ct, x, axes: expand(ct, x.shape, axes), axes=_axes, domain=_ANY, test=_TEST,
    )
)  # fmt: skip


# ---- max and min: ties share the cotangent evenly --------------------------------------------------------------


def _extreme_mask(x: Atom, out: Atom, axes: Ints) -> tuple[Atom, Var]:
    wide = expand(out, x.aval.shape, axes)
    mask = cast(F.logical_or(F.eq(x, wide), F.logical_and(F.ne(x, x), F.ne(wide, wide))), x.aval.dtype)
    return mask, bind(REDUCE_SUM, mask, axes=axes)


def _extreme_vjp(ct: Var, out: Var, x: Atom, axes: Ints) -> tuple[Var]:
    mask, count = _extreme_mask(x, out, axes)
    share = expand(ct / count, x.aval.shape, axes)
    return (F.select(F.ne(mask, like(0, mask)), share, like(0, share)),)


def _extreme_jvp(tangents: Any, out: Var, x: Atom, axes: Ints) -> Var:
    mask, count = _extreme_mask(x, out, axes)
    return bind(REDUCE_SUM, F.mulz(mask, tangents[0]), axes=axes) / count


for _name in ("max", "min"):
    register(
        Primitive(
            f"reduce_{_name}", REDUCE, _reduction(_name), _infer,
            vjp=_extreme_vjp, jvp=_extreme_jvp, axes=_axes, masking=True, domain=_ANY, test=_TEST,
        )
    )  # fmt: skip

for _name, _impl in (("reduce_or", _reduction("any")), ("reduce_and", _reduction("all"))):
    register(
        Primitive(
            _name, REDUCE, _impl, _infer_bool, axes=_axes, domain=_ANY, test={**_TEST, "kinds": "b"},
        )
    )  # fmt: skip

for _name in ("argmax", "argmin"):
    register(
        Primitive(
            _name, REDUCE, lambda x, axes, xp=np, _name=_name: xp.asarray(getattr(xp, _name)(x, axis=axes[0])),
            lambda x, axes: Aval(INT, kept_shape(x.shape, axes)), axes=_axes, domain=_ANY, test=_TEST,
        )
    )  # fmt: skip


# ---- the linear recurrence -------------------------------------------------------------------------------------


def _recurrence(times: Callable[..., Any]) -> Callable[..., Any]:
    def impl(a: Any, b: Any, reverse: bool, xp: Any = np) -> Any:
        length = b.shape[-1]
        if isinstance(a, (np.ndarray, np.generic)) and length and np.all(a == 1):  # a device's array is not looked at
            flip = (..., slice(None, None, -1)) if reverse else (...,)
            return xp.cumsum(b[flip], axis=-1, dtype=b.dtype)[flip]
        if a.shape != b.shape:
            a = xp.broadcast_to(xp.asarray(a), b.shape)
        out = xp.empty(b.shape, b.dtype)
        carry = xp.full(b.shape[:-1], b.dtype.type(-0.0))  # a sum that begins with -0.0 keeps the sign of its first
        for t in range(length - 1, -1, -1) if reverse else range(length):
            out[..., t] = carry = times(a[..., t], carry, xp) + b[..., t]
        return out

    return impl


def _linrec_infer(a: Aval, b: Aval, reverse: bool) -> Aval:
    if a.shape != b.shape or a.dtype != b.dtype or not b.shape:
        raise GraphError(f"linrec of {a} and {b}")
    return Aval(b.dtype, b.shape)


def _shift(x: Atom, reverse: bool) -> Atom:
    """x moved one step later in time, 0 entering (earlier in index when time runs backward)."""
    axis = x.aval.ndim - 1
    length = x.aval.shape[axis]
    if length == 0:
        return x
    edge = zeros((*x.aval.shape[:-1], 1), x.aval.dtype)
    if reverse:
        return concat([slice_axis(x, axis, 1, length - 1), edge], axis)
    return concat([edge, slice_axis(x, axis, 0, length - 1)], axis)


def linrec(a: Atom, b: Atom, reverse: bool = False) -> Var:
    return bind(LINREC, broadcast_to(a, b.aval.shape), b, reverse=reverse)


def _linrec_vjp(ct: Var, out: Var, a: Atom, b: Atom, reverse: bool) -> tuple[Var, Var]:
    # cotangents obey the same recurrence run the other way, with a shifted by one step
    adjoint = bind(LINRECZ, _shift(a, not reverse), ct, reverse=not reverse)
    return F.mulz(adjoint, _shift(out, reverse)), adjoint


def _linrec_jvp(tangents: Any, out: Var, a: Atom, b: Atom, reverse: bool) -> Var:
    ta, tb = tangents
    drive = None if ta is None else F.mulz(ta, _shift(out, reverse))
    drive = tb if drive is None else drive if tb is None else drive + tb
    return bind(LINRECZ, a, drive, reverse=reverse)


LINREC, LINRECZ = (
    register(
        Primitive(
            name, RECURRENCE, _recurrence(times), _linrec_infer, vjp=_linrec_vjp, jvp=_linrec_jvp,
            axes=last_axis(SCANNED), domain=_ANY * 2, test={"params": {"reverse": False}, "shapes": ((2, 5), (2, 5))},
        )
    )
    for name, times in (("linrec", lambda a, x, xp: a * x), ("linrecz", PRIMITIVES["mulz"].impl))
)  # fmt: skip


def cumsum(x: Atom, axis: int, reverse: bool = False) -> Atom:
    last = x.aval.ndim - 1
    y = move_axis(x, axis, last)
    return move_axis(linrec(like(1, y), y, reverse), last, axis)


def cumprod(x: Atom, axis: int, reverse: bool = False) -> Atom:
    last = x.aval.ndim - 1
    return move_axis(_cumprod_last(move_axis(x, axis, last), reverse), last, axis)


def _cumprod_last(x: Atom, reverse: bool) -> Atom:
    length = x.aval.shape[-1]
    if length == 0:
        return x
    # y[0] = x[0] enters as the drive; later steps have none (-0.0, which changes no number).  No y comes before: a
    # factor of 1, as an infinite one would make NaN of it
    axis, edge = x.aval.ndim - 1, (*x.aval.shape[:-1], 1)
    at = length - 1 if reverse else 0
    drives = [full(like(-0.0, x), (*edge[:-1], length - 1)), slice_axis(x, axis, at, 1)]
    factors = [slice_axis(x, axis, 1 - min(at, 1), length - 1), full(like(1, x), edge)]
    order = 1 if reverse else -1
    return linrec(concat(factors[::order], axis), concat(drives[::order], axis), reverse)


def _exclusive_products(x: Atom, axes: Ints) -> Atom:
    """For each element, the product of all the others that it is reduced with."""
    kept = tuple(a for a in range(x.aval.ndim) if a not in axes)
    perm = (*kept, *axes)
    moved = transpose(x, perm)
    rows = tuple(x.aval.shape[a] for a in kept)
    flat = reshape(moved, (*rows, int(np.prod([x.aval.shape[a] for a in axes]))))
    if flat.aval.shape[-1] == 0:
        return x
    axis, length = len(rows), flat.aval.shape[-1]
    one = bind(BROADCAST, structural(1, x.aval.dtype), shape=(*rows, 1), dims=())
    before = concat([one, slice_axis(_cumprod_last(flat, False), axis, 0, length - 1)], axis)
    after = concat([slice_axis(_cumprod_last(flat, True), axis, 1, length - 1), one], axis)
    others = reshape(before * after, moved.aval.shape)
    return transpose(others, tuple(int(p) for p in np.argsort(perm)))


REDUCE_PROD = register(
    Primitive(
        "reduce_prod", REDUCE, lambda x, axes, xp=np: xp.prod(x, axis=axes, dtype=x.dtype), _infer,
        vjp=lambda ct, out, x, axes: (F.mulz(expand(ct, x.aval.shape, axes), _exclusive_products(x, axes)),),
        jvp=lambda tangents, out, x, axes: bind(
            REDUCE_SUM, F.mulz(tangents[0], _exclusive_products(x, axes)), axes=axes
        ),
        axes=_axes, domain=_ANY, test=_TEST,
    )
)  # fmt: skip


_BY_SHORT_NAME = {"any": "reduce_or", "all": "reduce_and"} | {n: f"reduce_{n}" for n in ("sum", "prod", "max", "min")}


def reduce(name: str, x: Atom, axes: Ints, keepdims: bool = False) -> Atom:
    """One of the reductions by name; with *keepdims* the reduced axes stay with size 1."""
    if isinstance(x, Lit):
        return x
    shape = x.shape
    if axes:
        x = bind(PRIMITIVES[_BY_SHORT_NAME.get(name, name)], x, axes=tuple(axes))
    return reshape(x, tuple(1 if a in axes else n for a, n in enumerate(shape))) if keepdims else x
