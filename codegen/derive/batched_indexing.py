"""Indexed reads and writes, and searches, of many rows at once.

Where the positions are the same in all rows, an element is read of all rows at once.  Else positions along axis 0 of
each row become positions along the merged axis of all rows.  So one indexed read or write does all rows, whichever of
its operands differ.  Where few elements are added to zeros, as in the gradient of ``x[i]``, no memory is written twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...tracer.ir.aval import INT
from ...tracer.ir.graph import Atom, Lit, Node, bind
from ...tracer.ops.elementwise import BROADCAST, F
from ...tracer.ops.indexing import gather
from ...tracer.ops.shape import iota, move_axis, reshape, slice_axis, zeros
from .batched_rows import Rule, StackedRows, behind

FEW = 4  # elements of a row: so many comparisons cost less than zeros that are written over


def _gather_rows(node: Node, rows: StackedRows) -> Sequence[Atom]:
    x, index = node.inputs
    xs, at = rows.of(x), rows.of(index)
    if xs is None:
        assert at is not None
        return [gather(rows.one(x), at)]
    if at is None:  # the same elements of each row
        return [move_axis(gather(move_axis(xs, 0, 1), rows.one(index)), index.aval.ndim, 0)]
    return [gather(_joined(xs, rows), _positions(at, x, rows))]


def _scatter_rows(node: Node, rows: StackedRows) -> Sequence[Atom]:
    x, index, v = node.inputs
    at, vs = rows.of(index), rows.whole(v)
    if node.prim.name == "scatter_add" and 0 < index.aval.size <= FEW and not rows.second and _is_zero(x, rows):
        return [_few_elements(x, rows.one(index) if at is None else at, vs, at is not None)]
    xs = rows.whole(x)
    if rows.second and at is None:
        found = bind(node.prim, move_axis(xs, 0, 1), rows.one(index), move_axis(vs, 0, index.aval.ndim))
        return [move_axis(found, 1, 0)]
    if at is None:
        at = bind(
            BROADCAST, rows.one(index), shape=(rows.size, *index.aval.shape), dims=tuple(range(1, index.aval.ndim + 1))
        )
    found = bind(node.prim, _joined(xs, rows), _positions(at, x, rows), vs)
    n, m, *rest = xs.aval.shape
    return [move_axis(reshape(found, (m, n, *rest)), 1, 0) if rows.second else reshape(found, (n, m, *rest))]


def _is_zero(x: Atom, rows: StackedRows) -> bool:
    """Whether *x* is an array of zeros."""
    producer = None if rows.of(x) is not None else rows.producer(rows.one(x))
    value = producer.inputs[0] if producer is not None and producer.prim is BROADCAST else None
    return isinstance(value, Lit) and value.value == 0


def _few_elements(x: Atom, at: Atom, vs: Atom, own: bool) -> Atom:
    """The rows of zeros like *x* with the elements *vs* added at few positions *at*, with *own* other ones in each row:
    in one pass, in which each element is compared with the positions."""
    n, shape = vs.aval.shape[0], (vs.aval.shape[0], *x.aval.shape)
    count = at.aval.size // (n if own else 1)
    at, vs = reshape(at, (n if own else 1, count)), reshape(vs, (n, count, *shape[2:]))
    here = bind(BROADCAST, iota(shape[1]), shape=shape, dims=(1,))
    total: Atom = zeros(shape, vs.aval.dtype)
    for k in range(count):
        place = reshape(slice_axis(at, 1, k, 1), (n,) if own else ())
        place = bind(BROADCAST, place, shape=shape, dims=(0,) if own else ())
        value = reshape(slice_axis(vs, 1, k, 1), (n, *shape[2:]))
        value = bind(BROADCAST, value, shape=shape, dims=(0, *range(2, len(shape))))
        total = F.add(total, F.select(F.eq(here, place), value, zeros(shape, vs.aval.dtype)))
    return total


def _joined(xs: Atom, rows: StackedRows) -> Atom:
    """The rows *xs*, (n, m, ...), with the first two axes as one."""
    n, m, *rest = xs.aval.shape
    return reshape(move_axis(xs, 0, 1) if rows.second else xs, (n * m, *rest))


def _positions(at: Atom, x: Atom, rows: StackedRows) -> Atom:
    """The positions *at*, (n, ...), along axis 0 of each row of *x*, in all rows that are joined."""
    number, count = iota(rows.size), rows.size if rows.second else x.aval.shape[0]
    shape, each = at.aval.shape, Lit(count, INT)
    if rows.second:
        return F.add(F.mul(at, each), behind(number, shape))
    return F.add(behind(F.mul(number, each), shape), at)


def _search_rows(node: Node, rows: StackedRows) -> Sequence[Atom]:
    points, numbers = node.inputs
    if rows.of(points) is None:
        return [bind(node.prim, rows.one(points), rows.whole(numbers), **node.params)]
    return [rows.enter_rule(lambda: node.prim.lower(points, numbers, **node.params))]


def _nonzero_rows(node: Node, rows: StackedRows) -> Sequence[Atom]:
    (mask,), count = node.inputs, node.params["count"]
    shape = (rows.size, count)
    found = bind(node.prim, rows.whole(mask), count=rows.size * count)
    size = math.prod(mask.aval.shape)
    return [reshape(F.remainder(found, Lit(size, INT)) if size else found, shape)]


INDEXED: dict[str, Rule] = {
    "gather": _gather_rows,
    "scatter": _scatter_rows,
    "scatter_add": _scatter_rows,
    "scatter_max": _scatter_rows,
    "scatter_min": _scatter_rows,
    "searchsorted": _search_rows,
    "nonzero": _nonzero_rows,
}
