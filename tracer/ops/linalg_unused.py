"""Vectors that nothing uses: the columns that a truncation leaves out.

A cotangent is zero there whatever the values are, and so are all terms between two such vectors, also where their
values are equal or zero.  That is seen in the nodes that made the cotangent, and so holds in the bodies of loops, too,
where nobody knows the limits of such terms (``linalg_gaps.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import INT
from ..ir.graph import Atom, Lit, Node, Var, current_builder, structural
from .complex import by_lane
from .elementwise import F, like, whole_lanes
from .reduce import expand
from .shape import iota

MOST_ELEMENTS = 1 << 16  # of a cotangent that is looked through

_MOVED = ("pad", "slice", "reshape", "transpose", "concat", "broadcast")
_COMBINED: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("add", "sub"), np.logical_or), **dict.fromkeys(("mul", "mulz"), np.logical_and),
    **dict.fromkeys(("neg", "cast", "alias", "stop_gradient"), np.array), "select": lambda which, x, y: x | y,
}  # fmt: skip


def _support(x: Atom, made_by: dict[Var, Node], known: dict[Var, Any]) -> Any:
    """The mask of the elements of *x* that may be other than zero, as an array or one bool."""
    if isinstance(x, Lit):
        return np.array(bool(x.value != 0) or not x.structural)
    if x not in known:
        node = made_by.get(x)
        found: Any = np.ones(x.shape, bool)
        if node is not None and (node.prim.name in _MOVED or node.prim.name in _COMBINED):
            masks = [_support(y, made_by, known) for y in node.inputs]
            if node.prim.name in _MOVED:
                found = node.prim.impl(*masks, **node.params)
            else:
                found = np.broadcast_to(_COMBINED[node.prim.name](*masks), x.shape)
        known[x] = found
    return known[x]


def used_columns(*xs: Atom) -> range:
    """The columns of the matrices *xs* from the first to the last that may be other than zero."""
    lanes = [lane for x in xs for lane in (whole_lanes(x) if x.aval.is_complex else (x,))]
    if any(lane.aval.size > MOST_ELEMENTS for lane in lanes):
        return range(xs[0].aval.shape[-1])
    made_by = {out: node for node in current_builder().nodes for out in node.outs}
    used = [np.any(_support(lane, made_by, {}), axis=tuple(range(lane.aval.ndim - 1))) for lane in lanes]
    found = np.flatnonzero(np.any(used, axis=0))
    return range(found[0], found[-1] + 1) if found.size else range(0)


def without_unused(x: Atom, used: range, rows_too: bool = True) -> Atom:
    """*x* with zeros between vectors that are not *used*."""
    shape = x.aval.shape
    if len(used) == shape[-1]:
        return x

    def outside(axis: int) -> Atom:
        k = expand(iota(shape[axis]), shape[-2:], (1 if axis == -2 else 0,))
        return F.logical_or(F.lt(k, structural(used.start, INT)), F.ge(k, structural(used.stop, INT)))

    unused = F.logical_and(outside(-2), outside(-1)) if rows_too else outside(-1)
    if len(shape) > 2:
        unused = expand(unused, shape, tuple(range(len(shape) - 2)))
    return by_lane(lambda v: F.select(unused, like(0, v), v), x)
