"""Equality classes of axes: those that an operation forces to have the same length.

A *place* is (Var, axis).  ``EqualAxes`` joins places into classes, by union-find: what each operation says of the axes
of its operands and results.  Axes that are equally long by accident stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ...tracer.ir.aval import INT, Aval
from ...tracer.ir.graph import Graph, Node, Var
from ...tracer.ir.primitive import LOOP
from ...tracer.ops.control import loop_view

MAX_EDGE = 8  # elements of padding along an axis up to which they are an edge, done one by one

Place: TypeAlias = tuple[Var, int]
Places: TypeAlias = dict[Var, list[Place]]
Dims: TypeAlias = Sequence[tuple[int, ...]]
BodyDims: TypeAlias = tuple[Dims, Dims]


def size_of(place: Place) -> int:
    return place[0].aval.shape[place[1]]


def is_edge_pad(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    """Whether *outer* exceeds *inner* by at most ``MAX_EDGE`` elements along each axis."""
    return all(n - m <= MAX_EDGE for n, m in zip(outer, inner, strict=True))


class EqualAxes:
    """The classes of the axes in *graph*; *bodies* gives the dims of inputs and outputs of each loop's body.

    ``places``: of each value, and of a stand-in for the rows of each loop, whose place is in ``lengths``.
    """

    def __init__(self, graph: Graph, bodies: Mapping[Node, BodyDims]):
        every = [*graph.inputs, *(v for v, _ in graph.consts), *(o for n in graph.nodes for o in n.outs)]
        self.places: Places = {v: [(v, a) for a in range(len(v.aval.shape))] for v in every}
        self.lengths: dict[Node, Place] = {}
        self._union = union = _Union()
        for node in graph.nodes:
            if node.prim.kind == LOOP:
                rows = Var(Aval(INT, (node.params["length"],)))
                (self.lengths[node],) = self.places[rows] = [(rows, 0)]
                _tie_loop(node, *bodies[node], self.lengths[node], self.places, union)
            else:
                _tie_node(node, self.places, union)
        _tie_edges(graph, self.places, union)

    def find(self, place: Place) -> Any:
        """The representative of the class of *place*."""
        return self._union.find(place)


class _Union:
    """Union-find over (var, axis) positions."""

    def __init__(self) -> None:
        self.parent: dict[Any, Any] = {}

    def find(self, x: Any) -> Any:
        parent = self.parent
        root = x
        while parent.setdefault(root, root) is not root:
            root = parent[root]
        while parent[x] is not root:
            parent[x], x = root, parent[x]
        return root

    def join(self, a: Any, b: Any) -> None:
        a, b = self.find(a), self.find(b)
        if a is not b:
            self.parent[b] = a


def _tie_loop(node: Node, inputs: Dims, outputs: Dims, length: Place, pos: Places, union: _Union) -> None:
    """Join the axes that the body, with these dims of its *inputs* and *outputs*, forces to be equal, and the numbers
    of rows."""
    view = loop_view(node)
    same: dict[int, Place] = {}

    def tie(x: Any, dims: tuple[int, ...], rows: bool) -> None:
        if not isinstance(x, Var):
            return
        places = pos[x]
        if rows:
            union.join(places[0], length)
            places = places[1:]
        for place, d in zip(places, dims, strict=True):
            if size_of(place) != 1:
                union.join(place, same.setdefault(d, place))

    operands = [*view.outer.consts, *view.outer.carries, *view.outer.xs]
    for k, (x, dims) in enumerate(zip(operands, inputs, strict=True)):
        tie(x, dims, k >= len(operands) - len(view.outer.xs))
    ends = outputs[view.go_on is not None :]
    for k, (x, dims) in enumerate(zip([*view.finals, *view.stacked], ends, strict=True)):
        tie(x, dims, k >= len(view.finals))


def _tie_node(node: Node, pos: Places, union: _Union) -> None:
    """Join the axes that *node* forces to be equal."""
    out = pos[node.out]
    inner: dict[int, Place] = {}
    for x, numbers in zip(node.inputs, node.axes.operands, strict=True):
        if isinstance(x, Var):
            for place, b in zip(pos[x], numbers, strict=True):
                if b is not None:
                    union.join(place, out[b] if b < len(out) else inner.setdefault(b, place))


def _tie_edges(graph: Graph, pos: Places, union: _Union) -> None:
    """Join axes that are equal axes padded by equally many elements: a stencil's value and its gradient then share a
    loop (``simplify.widen_sums``)."""
    known: dict[Any, Place] = {}
    for node in graph.nodes:
        x = node.inputs[0] if node.prim.name == "pad" else None
        if not isinstance(x, Var) or not is_edge_pad(x.aval.shape, node.out.aval.shape):
            continue
        for a, (n, m) in enumerate(zip(x.aval.shape, node.out.aval.shape, strict=True)):
            if n != m and n != 1:
                place = pos[node.out][a]
                union.join(place, known.setdefault((union.find(pos[x][a]), m - n), place))
