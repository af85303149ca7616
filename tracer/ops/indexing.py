"""Indexing by arrays, sorting and searching.

Every advanced index is reduced to flat positions: ``gather`` reads ``x[idx]`` along axis 0 of a reshaped array,
``scatter_add`` is its transpose, ``scatter`` is assignment (the last write to a position wins, as in NumPy), and
``scatter_max`` and ``scatter_min`` keep the largest and the smallest.  Indices are non-negative and in bounds by the
time they arrive here: the front end normalises them and records the bounds check as a guard.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import INT, Aval, Ints
from ..ir.axes import NUMBERED, SORTED, WRITTEN, Axes, Params, Shape, Shapes, last_axis
from ..ir.errors import GraphError
from ..ir.graph import Atom, Lit, Var, bind, structural
from ..ir.primitive import HOST, SCATTER, VIEW, Primitive, register
from .elementwise import F, broadcast_to, cast, like
from .reduce import expand
from .shape import iota, or_zeros, reshape, zeros

_ANY = ((-3.0, 3.0),)


def _gather_infer(x: Aval, index: Aval) -> Aval:
    if not x.shape or index.dtype != INT:
        raise GraphError(f"gather of {x} at {index}")
    return Aval(x.dtype, (*index.shape, *x.shape[1:]))


def _gather_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    picked = len(shapes[1])
    return Axes(((None, *range(picked, len(shape))), tuple(range(picked))))


def gather(x: Atom, index: Atom) -> Var:
    """x[index] along axis 0: shape index.shape + x.shape[1:]."""
    return bind(GATHER, x, broadcast_to(index, ()) if isinstance(index, Lit) else index)


def _scatter_infer(x: Aval, index: Aval, v: Aval) -> Aval:
    if v.shape != (*index.shape, *x.shape[1:]) or v.dtype != x.dtype:
        raise GraphError(f"scatter of {v} into {x} at {index}")
    return Aval(x.dtype, x.shape)


def _scatter_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    rank = len(shape)
    index = tuple(range(rank, rank + len(shapes[1])))
    return Axes((tuple(range(rank)), index, (*index, *range(1, rank))), {0: WRITTEN})


def _scatter_add_impl(x: Any, index: Any, v: Any) -> Any:
    result = np.array(x)
    np.add.at(result, index, v)
    return result


def _scatter_impl(x: Any, index: Any, v: Any) -> Any:
    result = np.array(x)
    result[index] = v
    return result


def _gather_vjp(ct: Atom, out: Var, x: Atom, index: Atom) -> tuple[Var, None]:
    if not index.aval.shape:  # the cotangent may be a literal, which has no buffer to be read from
        index, ct = reshape(index, (1,)), reshape(ct, (1, *x.aval.shape[1:]))
    return bind(SCATTER_ADD, zeros(x.aval.shape, ct.aval.dtype), index, ct), None


GATHER: Primitive = register(
    Primitive(
        "gather", VIEW, lambda x, index, xp=np: xp.asarray(x)[index], _gather_infer,
        vjp=_gather_vjp,
        jvp=lambda tangents, out, x, index: gather(tangents[0], index), axes=_gather_axes,
        masking=True, domain=_ANY, test={"shapes": ((4, 2), (3,)), "index": 4},
    )
)  # fmt: skip

SCATTER_ADD: Primitive = register(
    Primitive(
        "scatter_add", SCATTER, _scatter_add_impl, _scatter_infer,
        vjp=lambda ct, out, x, index, v: (ct, None, gather(ct, index)),
        jvp=lambda tangents, out, x, index, v: bind(
            SCATTER_ADD, or_zeros(tangents[0], x), index, or_zeros(tangents[2], v)
        ),
        axes=_scatter_axes, domain=_ANY, test={"shapes": ((4, 2), (3,), (3, 2)), "index": 4},
    )
)  # fmt: skip


# ---- the largest and the smallest at each position: ties share the cotangent evenly


def _extreme_at(ufunc: Any) -> Any:
    def impl(x: Any, index: Any, v: Any) -> Any:
        result = np.array(x)
        ufunc.at(result, index, v)
        return result

    return impl


def _is_extreme(y: Atom, out: Atom) -> Atom:
    return F.logical_or(F.eq(y, out), F.logical_and(F.ne(y, y), F.ne(out, out)))


def _winners(out: Var, x: Atom, index: Atom, v: Atom) -> tuple[Atom, Atom, Var]:
    """(which elements of *x* and of *v* are those of the result, how many there are for each)"""
    mine, theirs = _is_extreme(x, out), _is_extreme(v, gather(out, index))
    number = out.dtype
    return mine, theirs, bind(SCATTER_ADD, cast(mine, number), index, cast(theirs, number))


def _extreme_vjp(ct: Var, out: Var, x: Atom, index: Atom, v: Atom) -> tuple[Var, None, Var]:
    mine, theirs, count = _winners(out, x, index, v)
    share = F.div(ct, count)
    seen = gather(share, index)
    return F.select(mine, share, like(0, share)), None, F.select(theirs, seen, like(0, seen))


def _extreme_jvp(tangents: Any, out: Var, x: Atom, index: Atom, v: Atom) -> Atom:
    mine, theirs, count = _winners(out, x, index, v)
    parts = [
        F.select(winner, or_zeros(tangent, y), zeros(y.aval.shape, out.dtype))
        for winner, tangent, y in ((mine, tangents[0], x), (theirs, tangents[2], v))
    ]
    return F.div(bind(SCATTER_ADD, parts[0], index, parts[1]), count)


SCATTER_MAX, SCATTER_MIN = (
    register(
        Primitive(
            name, SCATTER, _extreme_at(ufunc), _scatter_infer, vjp=_extreme_vjp, jvp=_extreme_jvp,
            axes=_scatter_axes, masking=True, domain=_ANY, test={"shapes": ((4, 2), (3,), (3, 2)), "index": 4},
        )
    )
    for name, ufunc in (("scatter_max", np.maximum), ("scatter_min", np.minimum))
)  # fmt: skip


def _scatter_vjp(ct: Var, out: Var, x: Atom, index: Atom, v: Atom) -> tuple[Var, None, Var]:
    seen = gather(ct, index)  # before anything is written, which may be in place
    if index.aval.size == 1:
        return bind(SCATTER_SET, ct, index, zeros(v.aval.shape, ct.dtype)), None, seen
    # of several writes to one position only the last is seen: it alone has a gradient
    rows = x.aval.shape[0]
    order = reshape(iota(index.aval.size), index.aval.shape)
    winner = bind(SCATTER_SET, zeros((rows,), INT), index, order)
    last = F.eq(gather(winner, index), order)
    if v.aval.ndim > index.aval.ndim:
        last = expand(last, v.aval.shape, tuple(range(index.aval.ndim, v.aval.ndim)))
    return bind(SCATTER_SET, ct, index, zeros(v.aval.shape, ct.dtype)), None, F.select(last, seen, like(0, seen))


def _scatter_jvp(tangents: Any, out: Var, x: Atom, index: Atom, v: Atom) -> Var:
    return bind(SCATTER_SET, or_zeros(tangents[0], x), index, or_zeros(tangents[2], v))


SCATTER_SET: Primitive = register(
    Primitive(
        "scatter", SCATTER, _scatter_impl, _scatter_infer, vjp=_scatter_vjp, jvp=_scatter_jvp,
        axes=_scatter_axes, masking=True, domain=_ANY, test={"shapes": ((4, 2), (3,), (3, 2)), "index": 4},
    )
)  # fmt: skip


# ---- sorting and searching: NumPy does it, between kernels -----------------------------------------------------


def _same_as_int(x: Aval, **_: Any) -> Aval:
    return Aval(INT, x.shape)


def take_along_last(x: Atom, order: Atom) -> Atom:
    """np.take_along_axis(x, order, -1) for order of shape x.shape[:-1] + (k,)."""
    shape, picked = x.aval.shape, order.aval.shape
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    offset = bind_expand(iota(rows), shape[-1], picked)
    flat = gather(reshape(x, (rows * shape[-1],)), reshape(order, (order.aval.size,)) + offset)
    return reshape(flat, picked)


def bind_expand(rows: Var, stride: int, picked: Ints) -> Atom:
    """Flat offset of each row of a take along the last axis."""
    per_row = picked[-1]
    spread = expand(rows * structural(stride, INT), (rows.shape[0], per_row), (1,))
    return reshape(spread, (rows.shape[0] * per_row,))


ARGSORT = register(
    Primitive(
        "argsort", HOST, lambda x, stable, xp=np: xp.argsort(x, axis=-1, kind="stable"), _same_as_int,
        axes=last_axis(SORTED), domain=_ANY, test={"params": {"stable": True}, "shapes": ((2, 5),)},
    )
)  # fmt: skip


def _searchsorted_infer(a: Aval, v: Aval, side: str) -> Aval:
    return Aval(INT, v.shape)


def _search_by_halves(a: Atom, v: Atom, side: str) -> Atom:
    """The search as operations of a kernel: as many as halvings lead to one element."""
    found: Atom = broadcast_to(structural(0, INT), v.aval.shape)
    left = a.aval.size
    while left > 0:
        half = (left + 1) // 2
        seen = gather(a, F.add(found, Lit(half - 1, INT)))
        ahead = F.lt(v, seen) if side == "right" else F.le(v, seen)
        if a.aval.is_float:  # NaN is behind all numbers
            nan = F.ne(seen, seen)
            ahead = F.logical_or(ahead, nan if side == "left" else F.logical_and(nan, F.eq(v, v)))
        found = F.add(found, F.select(ahead, structural(0, INT), Lit(half, INT)))
        left -= half
    return found


SEARCHSORTED = register(
    Primitive(
        "searchsorted", HOST, lambda a, v, side, xp=np: xp.asarray(xp.searchsorted(a, v, side=side)),
        _searchsorted_infer, lower=_search_by_halves,
        axes=lambda shapes, shape, params: Axes(((None,), tuple(range(len(shape))))),
        domain=_ANY * 2, test={"params": {"side": "left"}, "shapes": ((4,), (3,))},
    )
)  # fmt: skip

NONZERO = register(
    Primitive(
        "nonzero", HOST, lambda mask, count: _checked_nonzero(mask, count), lambda mask, count: Aval(INT, (count,)),
        axes=lambda shapes, shape, params: Axes(((None,) * len(shapes[0]),), {0: NUMBERED}),
        sizes=("count",), test={"params": {"count": 2}, "shapes": ((4,),), "bool": True},
    )
)  # fmt: skip


def _checked_nonzero(mask: Any, count: int) -> Any:
    """Flat positions of the True elements, int64 (count,).  With another number of them in a replay the guard on it
    fails: the result only has to be of the right length and in bounds."""
    found = np.flatnonzero(mask)
    return np.resize(found, count) if len(found) else np.zeros(count, np.int64)
