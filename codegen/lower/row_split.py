"""The nodes of a graph by how they depend on the rows of a long axis (``strips.py`` makes a loop of those that do).

* values **within** strips have the long axis, and row i of them depends on row i of what they are made of;
* **totals** are reductions over the long axis (``X.T @ r`` is one): each strip makes a part;
* all else stands **before** the loop, or **after** it, where it needs totals, or rows in another order.

The axis is a class of ``EqualAxes``; ``Axes`` says of each operation what its result's rows depend on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...tracer.ir.graph import Atom, Graph, Node, Var, read_vars
from ...tracer.ir.primitive import ELEMENTWISE, PRODUCT, REDUCE, VIEW
from ...tracer.ops.elementwise import F
from .equal_axes import EqualAxes

_VIEW_PARAMS = frozenset({"shape", "dims", "perm", "start", "step", "axis"})
MERGES: dict[str, Callable[[Any, Any], Any]] = {
    "reduce_sum": lambda x, y: x + y, "matmul": lambda x, y: x + y, "matmulz": lambda x, y: x + y,
    "reduce_max": lambda x, y: F.maximum(x, y), "reduce_min": lambda x, y: F.minimum(x, y),
    "reduce_and": lambda x, y: F.logical_and(x, y), "reduce_or": lambda x, y: F.logical_or(x, y),
}  # fmt: skip


@dataclass(eq=False)
class RowSplit:
    """The nodes of *graph* by how they depend on the axes of the class *root*."""

    graph: Graph
    classes: EqualAxes
    root: Any
    within: dict[Var, int] = field(default_factory=dict)  # values in strips -> the long axis
    totals: dict[Var, Node] = field(default_factory=dict)
    after: set[Var] = field(default_factory=set)  # what needs totals, or strips in another order; totals, too
    makers: dict[Var, Node] = field(default_factory=dict)
    again: list[Node] = field(default_factory=list)  # of cheap values within strips that are computed as a whole, too
    kept: list[Var] = field(default_factory=list)  # values within strips that are read outside
    parts: list[Var] = field(default_factory=list)  # totals that are read
    nodes: list[Node] = field(default_factory=list)  # that make these

    def run(self) -> None:
        for node in self.graph.nodes:
            self.makers.update(dict.fromkeys(node.outs, node))
            if any(x in self.after for x in node.inputs):
                self.after.update(node.outs)
            elif (axis := self._row_of(node)) is not None:
                self.within[node.out] = axis
            elif self._is_total(node):
                self.totals[node.out] = node
                self.after.add(node.out)
            elif any(x in self.within for x in node.inputs):
                self.after.update(node.outs)
        self._results()

    def along(self, x: Atom) -> list[int]:
        """The axes of *x* that are the long one."""
        if not isinstance(x, Var):
            return []
        return [a for a in range(x.ndim) if self.classes.find((x, a)) is self.root]

    def _row_of(self, node: Node) -> int | None:
        """The long axis of the result of *node*, if its row i needs nothing but rows i of operands, and what has no
        rows."""
        if len(node.outs) != 1 or not _known(node):
            return None
        mine = self.along(node.out)
        axes = node.axes
        if len(mine) != 1 or mine[0] in axes.across:
            return None
        for x, numbers in zip(node.inputs, axes.operands, strict=True):
            theirs = self.along(x)
            if len(theirs) > 1 or (theirs and numbers[theirs[0]] != mine[0]):
                return None
            if theirs and not self._has_strips(x, theirs[0]):
                return None
        return mine[0]

    def _is_total(self, node: Node) -> bool:
        """Whether *node* reduces the long axis of what is within strips, or rows of an array."""
        if node.prim.name not in MERGES or self.along(node.out):
            return False
        theirs = [self.along(x) for x in node.inputs]
        if any(len(axes) != 1 for axes in theirs):
            return False
        if node.prim.kind == PRODUCT:
            inner = {numbers[axis] for (axis,), numbers in zip(theirs, node.axes.operands, strict=True)}
            if len(inner) != 1 or inner.pop() != node.out.ndim:
                return False
        return all(self._has_strips(x, axis) for x, (axis,) in zip(node.inputs, theirs, strict=True))

    def _has_strips(self, x: Atom, axis: int) -> bool:
        """Whether strips of *x* are at hand: made within, or rows of an array that is there before."""
        assert isinstance(x, Var)
        return x in self.within or (x not in self.after and all(n == 1 for n in x.shape[:axis]))

    def _results(self) -> None:
        """Find what of the strips is read outside of them, and what they do for it."""
        roots = [*self.graph.outputs, *[g.atom for g in self.graph.guards]]
        outside = [n for n in self.graph.nodes if n.out not in self.within and n.out not in self.totals]
        read = read_vars(outside, roots)
        self.again = self._again(read)
        read |= read_vars(self.again, ())
        twice = {node.out for node in self.again}
        self.kept = [v for v in self.within if v in read and v not in twice]
        self.parts = [v for v in self.totals if v in read]
        wanted = {*self.kept, *self.parts}
        for node in reversed(self.graph.nodes):
            if node.out in wanted and (node.out in self.within or node.out in self.totals):
                self.nodes.append(node)
                wanted.update(x for x in node.inputs if isinstance(x, Var))
        self.nodes.reverse()

    def _again(self, read: set[Var]) -> list[Node]:
        """The nodes within strips that are read outside of them and made of nothing but whole arrays."""
        cheap: dict[Var, Node] = {}
        for node in self.graph.nodes:
            plain = node.out in self.within and node.prim.kind in (ELEMENTWISE, VIEW)
            if plain and all(x in cheap for x in node.inputs if x in self.within):
                cheap[node.out] = node
        wanted = set(read)
        found = []
        for node in reversed(cheap.values()):
            if node.out in wanted:
                found.append(node)
                wanted.update(x for x in node.inputs if isinstance(x, Var))
        return found[::-1]

    def operands(self) -> tuple[list[Var], list[Var]]:
        """The operands of strips: (those with rows, those that are needed as a whole)."""
        inside = {node.out for node in self.nodes}
        found = {x: None for node in self.nodes for x in node.inputs if isinstance(x, Var) and x not in inside}
        return [x for x in found if self.along(x)], [x for x in found if not self.along(x)]

    def with_rows(self, node: Node, length: int) -> dict[str, Any]:
        """The params of *node* for strips of *length* rows."""
        if node.out not in self.within or "shape" not in node.params:
            return node.params
        axis, shape = self.within[node.out], node.params["shape"]
        return {**node.params, "shape": (*shape[:axis], length, *shape[axis + 1 :])}

    def computed(self, x: Atom) -> Var | None:
        """*x*, or what it is a view of, if that is computed within strips; else None."""
        while isinstance(x, Var) and x in self.within:
            node = self.makers[x]
            if node.prim.kind != VIEW:
                return x
            x = node.inputs[0]
        return None


def _known(node: Node) -> bool:
    """Whether the lengths of the node's axes stand in no other param than ``shape``."""
    if node.prim.kind == VIEW:
        return node.prim.lower is None and _VIEW_PARAMS.issuperset(node.params)
    return node.prim.kind in (ELEMENTWISE, REDUCE, PRODUCT)
