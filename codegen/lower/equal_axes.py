"""Which axes of a graph's values are equally long because an operation forces them to be.

A *place* is (Var, axis).  ``EqualAxes`` joins places into classes, by union-find: what each operation says of the axes
of its operands and results.  Axes that are equally long by accident stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ...tracer.ir.aval import INT, Aval
from ...tracer.ir.graph import Graph, Node, Var
from ...tracer.ir.primitive import ELEMENTWISE, LOOP, REDUCE
from ...tracer.ops.control import loop_view

MAX_EDGE = 8  # elements of padding along an axis up to which they are an edge, done one by one

Place: TypeAlias = tuple[Var, int]
Places: TypeAlias = dict[Var, list[Place]]
Dims: TypeAlias = Sequence[tuple[int, ...]]
BodyDims: TypeAlias = tuple[Dims, Dims]


def size_of(place: Place) -> int:
    return place[0].aval.shape[place[1]]


def is_edge_pad(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    """Is what surrounds *inner* in *outer* only a few elements along each axis?"""
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
        """What stands for the class of *place*."""
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
    shape = node.out.aval.shape

    def tie(x: Any, pairs: Any) -> None:
        if isinstance(x, Var):
            for a, b in pairs:
                if x.aval.shape[a] == shape[b]:
                    union.join(pos[x][a], out[b])

    name, ins, params = node.prim.name, node.inputs, node.params
    ranks = [len(x.aval.shape) for x in ins]
    if node.prim.kind == ELEMENTWISE or name in ("linrec", "argsort"):
        for x, rank in zip(ins, ranks, strict=True):
            tie(x, zip(range(rank), range(len(shape)), strict=True) if rank else ())
    elif node.prim.kind == REDUCE:
        kept = [a for a in range(ranks[0]) if a not in params["axes"]]
        tie(ins[0], zip(kept, range(len(kept)), strict=True))
    elif name == "broadcast":
        tie(ins[0], enumerate(params["dims"]))
    elif name == "transpose":
        tie(ins[0], ((p, k) for k, p in enumerate(params["perm"])))
    elif name == "reshape":
        tie(ins[0], _reshape_pairs(ins[0].aval.shape, shape))
    elif name in ("slice", "pad"):
        whole = [a for a in range(ranks[0]) if params["start"][a] == 0 and params["step"][a] == 1]
        tie(ins[0], zip(whole, whole, strict=True))
    elif name == "update":
        tie(ins[0], zip(range(ranks[0]), range(ranks[0]), strict=True))
        whole = [a for a in range(ranks[0]) if params["start"][a] == 0 and params["step"][a] == 1]
        tie(ins[1], zip(whole, whole, strict=True))
    elif name == "concat":
        others = [a for a in range(len(shape)) if a != params["axis"]]
        for x in ins:
            tie(x, zip(others, others, strict=True))
    elif name == "gather":
        tie(ins[1], zip(range(ranks[1]), range(ranks[1]), strict=True))
        tie(ins[0], ((a, ranks[1] + a - 1) for a in range(1, ranks[0])))
    elif name in ("scatter", "scatter_add"):
        tie(ins[0], zip(range(ranks[0]), range(ranks[0]), strict=True))
        tie(ins[2], ((ranks[1] + a - 1, a) for a in range(1, ranks[0])))
        if isinstance(ins[1], Var) and isinstance(ins[2], Var):
            for a in range(ranks[1]):
                union.join(pos[ins[1]][a], pos[ins[2]][a])
    elif name == "searchsorted":
        tie(ins[1], zip(range(ranks[1]), range(ranks[1]), strict=True))
    elif name == "matmul":
        batch = len(shape) - 2
        for x in ins:
            tie(x, zip(range(batch), range(batch), strict=True))
        rows, inner = (-1, -2) if params["ta"] else (-2, -1)
        inner2, columns = (-1, -2) if params["tb"] else (-2, -1)
        tie(ins[0], [(rows % ranks[0], batch)])
        tie(ins[1], [(columns % ranks[1], batch + 1)])
        if isinstance(ins[0], Var) and isinstance(ins[1], Var):
            union.join(pos[ins[0]][inner % ranks[0]], pos[ins[1]][inner2 % ranks[1]])


def _tie_edges(graph: Graph, pos: Places, union: _Union) -> None:
    """Join axes that are equal ones with equally many elements of padding at their edges: a stencil's value and its
    gradient then share a loop (``simplify.widen_sums``)."""
    known: dict[Any, Place] = {}
    for node in graph.nodes:
        x = node.inputs[0] if node.prim.name == "pad" else None
        if not isinstance(x, Var) or not is_edge_pad(x.aval.shape, node.out.aval.shape):
            continue
        for a, (n, m) in enumerate(zip(x.aval.shape, node.out.aval.shape, strict=True)):
            if n != m and n != 1:
                place = pos[node.out][a]
                union.join(place, known.setdefault((union.find(pos[x][a]), m - n), place))


def _reshape_pairs(before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[int, int]]:
    """Axes that a reshape leaves alone: equal sizes met from the front, then from the back, sizes of 1 skipped."""
    front, back = _walk(before, after), []
    if len(front) < sum(n != 1 for n in before):
        flipped = _walk(before[::-1], after[::-1])
        back = [(len(before) - 1 - a, len(after) - 1 - b) for a, b in flipped]
        used_a, used_b = {a for a, _ in front}, {b for _, b in front}
        back = [(a, b) for a, b in back if a not in used_a and b not in used_b]
    return front + back


def _walk(before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[int, int]]:
    a = b = 0
    pairs: list[tuple[int, int]] = []
    while True:
        while a < len(before) and before[a] == 1:
            a += 1
        while b < len(after) and after[b] == 1:
            b += 1
        if a >= len(before) or b >= len(after) or before[a] != after[b]:
            return pairs
        pairs.append((a, b))
        a, b = a + 1, b + 1


__all__ = ["EqualAxes", "is_edge_pad", "size_of"]
