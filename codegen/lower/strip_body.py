"""The body of a strip: the nodes of a graph again, for some rows.

``StripBody`` has all axes as they are in the graph.  ``RowsLastBody`` has the rows of each value as its last axis, so
that they are in the lanes of vectors: a row of 50 densities is summed, its greatest is found, and it is divided by its
sum; with the row in the lanes each of these ends in additions across lanes, and the last 2 of 50 numbers are taken one
by one.  With one number of many rows in the lanes there is neither.  Elementwise operations, reductions, broadcasts and
reshapes have their axes in another order there; all else has its operands as they were.  Transposes in between are
index maps.
"""

from __future__ import annotations

from typing import Any

from ...tracer.ir.graph import Atom, Node, Var, bind
from ...tracer.ir.primitive import ELEMENTWISE, REDUCE
from ...tracer.ops.shape import move_axis
from .row_split import RowSplit

LAST_AXIS = ("argmax", "argmin")  # reductions that are over no other


class StripBody:
    """The *values* of one strip of *length* rows of *split*."""

    def __init__(self, split: RowSplit, values: dict[Var, Atom], length: int):
        self.split, self.values, self.length = split, values, length

    def add(self, node: Node) -> None:
        """Bind *node*, whose operands are at hand."""
        inputs = [self.plain(x) for x in node.inputs]
        self.values[node.out] = bind(node.prim, *inputs, **self.split.with_rows(node, self.length))

    def plain(self, x: Atom) -> Atom:
        """*x* with its axes in the order of the graph."""
        return self.values[x] if isinstance(x, Var) else x

    def leading(self, x: Var) -> Atom:
        """*x*, its rows the first axis."""
        return move_axis(self.plain(x), self.split.within[x], 0)


class RowsLastBody(StripBody):
    """The same with the rows of values as their last axis, where operations allow it."""

    def __init__(self, split: RowSplit, values: dict[Var, Atom], length: int):
        super().__init__(split, values, length)
        self.last: dict[Var, Atom] = {}

    def add(self, node: Node) -> None:
        params = self._params(node)
        if params is None:
            super().add(node)
        else:
            result = bind(node.prim, *map(self._last, node.inputs), **params)
            (self.last if node.out in self.split.within else self.values)[node.out] = result

    def plain(self, x: Atom) -> Atom:
        if isinstance(x, Var) and x not in self.values:
            self.values[x] = move_axis(self.last[x], x.ndim - 1, self._axis(x))
        return super().plain(x)

    def _last(self, x: Atom) -> Atom:
        if not isinstance(x, Var) or not self.split.along(x):
            return self.plain(x)
        if x not in self.last:
            self.last[x] = move_axis(self.values[x], self._axis(x), x.ndim - 1)
        return self.last[x]

    def _axis(self, x: Var) -> int:
        (axis,) = self.split.along(x)
        return axis

    def _params(self, node: Node) -> dict[str, Any] | None:
        """The params of *node* for operands whose rows are last; None where it has to be done as it was."""
        if node.prim.kind == ELEMENTWISE:
            return node.params
        if node.prim.kind == REDUCE and node.prim.name not in LAST_AXIS:
            (x,) = node.inputs
            assert isinstance(x, Var)
            return {**node.params, "axes": _moved(node.params["axes"], self._axis(x), x.ndim)}
        if node.prim.name in ("broadcast", "reshape"):
            axis, shape = self._axis(node.out), node.params["shape"]
            if axis in node.params.get("dims", ()) and not self.split.along(node.inputs[0]):
                return None  # an axis of 1 that is stretched to rows
            params = {**node.params, "shape": (*shape[:axis], *shape[axis + 1 :], self.length)}
            if "dims" in params:
                params["dims"] = _moved(params["dims"], axis, len(shape))
            return params
        return None


def _moved(axes: tuple[int, ...], axis: int, ndim: int) -> tuple[int, ...]:
    """The places of *axes* when *axis* has become the last one, in order."""
    return tuple(sorted(ndim - 1 if a == axis else a - (a > axis) for a in axes))
