"""Indexed reads and writes, and searches, of many rows at once.

Positions along axis 0 of each row become positions along the merged axis of all rows: those of row b begin at b times
the length.  So one indexed read or write does all rows, whichever of its operands differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...tracer.ir.aval import INT
from ...tracer.ir.graph import Atom, Lit, Node, bind
from ...tracer.ops.elementwise import BROADCAST, F
from ...tracer.ops.indexing import gather
from ...tracer.ops.shape import iota, reshape
from .batched_rows import Rule, StackedRows, behind


def _gather_rows(node: Node, rows: StackedRows) -> Sequence[Atom]:
    x, index = node.inputs
    xs, at = rows.of(x), rows.of(index)
    if xs is None:
        assert at is not None
        return [gather(rows.one(x), at)]
    return [gather(_joined(xs), _positions(index, x, rows))]


def _scatter_rows(node: Node, rows: StackedRows) -> Sequence[Atom]:
    x, index, v = node.inputs
    xs = rows.whole(x)
    found = bind(node.prim, _joined(xs), _positions(index, x, rows), rows.whole(v))
    return [reshape(found, xs.aval.shape)]


def _joined(xs: Atom) -> Atom:
    """The rows *xs*, (n, m, ...), one after the other: (n m, ...)."""
    n, m, *rest = xs.aval.shape
    return reshape(xs, (n * m, *rest))


def _positions(index: Atom, x: Atom, rows: StackedRows) -> Atom:
    """The positions *index* along axis 0 of *x*, for all rows that are joined."""
    shape = (rows.size, *index.aval.shape)
    first = F.mul(iota(rows.size), Lit(x.aval.shape[0], INT))
    at = rows.of(index)
    if at is None:
        at = rows.one(index)
        at = at if isinstance(at, Lit) else bind(BROADCAST, at, shape=shape, dims=tuple(range(1, len(shape))))
    return F.add(behind(first, shape), at)


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
    "searchsorted": _search_rows,
    "nonzero": _nonzero_rows,
}
