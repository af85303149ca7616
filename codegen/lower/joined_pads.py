"""Sums of padded parts, as one array that is put together.

The derivative of ``w[3:7]`` is the cotangent of these elements, padded to the shape of w; where a function reads
several parts of one vector, the derivative is a sum of as many arrays, in each of which most elements are 0.  To
evaluate an element of it one would ask every part whether it is in there.  Here the total is cut at the borders of the
parts, and each piece is the sum of those parts that reach it, in the same order: so it has the same bits, -0.0 and 0.0
too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ...tracer.ir.aval import FLOAT_KINDS
from ...tracer.ir.graph import Atom, Builder, Graph, Node, Var, bind, building, live_graph
from ...tracer.ops.elementwise import like
from ...tracer.ops.shape import PAD, concat, take_slice, zeros

FEW = 16  # padded parts that are added as they are where any of them overlap
TERMS = 16  # terms of all pieces for each part, up to which parts overlap little enough

Box = tuple[tuple[int, int], ...]  # the first element along each axis, and that behind the last


def join_pads(graph: Graph) -> Graph:
    """*graph* with sums of padded parts as concatenations, or itself where there are none."""
    sums = _sums(graph)
    if not sums:
        return graph
    builder, renamed = Builder(), dict[Var, Atom]()

    def current(atom: Atom) -> Atom:
        return renamed.get(atom, atom) if isinstance(atom, Var) else atom

    with building(builder):
        for node in graph.nodes:
            if node.out in sums:
                builder.site_override = node.site
                renamed[node.out] = sums[node.out].joined(node, current)
                continue
            builder.nodes.append(node.on(tuple(map(current, node.inputs))))
    return live_graph(graph, builder.nodes, current)


def _sums(graph: Graph) -> dict[Var, _Sum]:
    """The sums that had better be put together, by their values."""
    if sum(node.prim is PAD for node in graph.nodes) < 2:
        return {}
    producers = {node.out: node for node in graph.nodes if node.prim is PAD or node.prim.name == "add"}
    reads = Counter(x for node in graph.nodes for x in node.inputs if isinstance(x, Var))
    reads.update(x for x in (*graph.outputs, *[g.atom for g in graph.guards]) if isinstance(x, Var))
    found: dict[Var, _Sum] = {}
    inside: set[Var] = set()
    for node in reversed(graph.nodes):
        if node.prim.name != "add" or node.out in inside or node.out.dtype.kind not in (*FLOAT_KINDS, "i", "u"):
            continue
        terms: list[Atom] = []  # the last one first
        more: Node | None = node
        while more is not None:
            if more is not node:
                inside.add(more.out)
            pair = [_added(x, more, producers, reads) for x in more.inputs]
            following = next((k for k, x in enumerate(pair) if x is not None), None)
            terms += more.inputs[::-1] if following is None else [more.inputs[1 - following]]
            more = None if following is None else pair[following]
        made = _Sum(node.out, [(x, _pad(x, producers)) for x in reversed(terms)])
        if made.is_worth_it():
            found[node.out] = made
    return found


def _added(x: Atom, total: Node, producers: dict[Var, Node], reads: Counter[Var]) -> Node | None:
    """The sum that *x* is, where nothing but *total* reads it."""
    node = producers.get(x) if isinstance(x, Var) else None
    if node is None or node.prim is PAD or reads[node.out] > 1 or node.out.aval != total.out.aval:
        return None
    return node


def _pad(x: Atom, producers: dict[Var, Node]) -> Node | None:
    """The padding of a part that *x* is, if it is one without gaps; not of most elements, as a stencil's."""
    node = producers.get(x) if isinstance(x, Var) else None
    if node is None or node.prim is not PAD or {*node.params["step"]} - {1}:
        return None
    return node if any(2 * m <= n for m, n in zip(node.inputs[0].aval.shape, node.out.shape, strict=True)) else None


class _Sum:
    """``terms`` of the *total*, in the order in which they are added, with the paddings of those that are parts."""

    def __init__(self, total: Var, terms: list[tuple[Atom, Node | None]]):
        self.total, self.terms = total, terms
        self.boxes: list[Box] = [_box(node) if node is not None else _whole(total) for _, node in terms]

    def is_worth_it(self) -> bool:
        """Whether there are parts side by side, or many that overlap little (a heuristic)."""
        shape = self.total.shape
        parts = sum(node is not None and node.inputs[0].aval.size > 0 for _, node in self.terms)
        if parts < 2 or any(x.aval.shape != shape for x, _ in self.terms):
            return False
        most, count = TERMS * parts, 0
        for _, reaching in self._pieces(0, range(len(self.terms)), ()):
            if parts <= FEW and sum(self.terms[k][1] is not None for k in reaching) > 1:
                return False
            count += len(reaching) + 1
            if count > most:
                return False
        return True

    def _pieces(self, axis: int, among: Sequence[int], box: Box) -> Iterator[tuple[Box, Sequence[int]]]:
        """The pieces along *axis* and those behind it of *box*, which the terms *among* all reach."""
        if axis == len(self.total.shape):
            yield box, among
            return
        for span, reaching in self._spans(axis, among):
            yield from self._pieces(axis + 1, reaching, (*box, span))

    def _spans(self, axis: int, among: Sequence[int]) -> Iterator[tuple[tuple[int, int], Sequence[int]]]:
        """The spans of *axis* between borders of the terms *among*, and those that reach each."""
        opened: dict[int, list[int]] = {0: [], self.total.shape[axis]: []}
        closed: dict[int, list[int]] = {}
        for k in among:
            low, high = self.boxes[k][axis]
            if low < high:
                opened.setdefault(low, []).append(k)
                closed.setdefault(high, []).append(k)
        borders = sorted({*opened, *closed})
        reaching: set[int] = set()
        for low, high in pairwise(borders):
            reaching.difference_update(closed.get(low, ()))
            reaching.update(opened.get(low, ()))
            yield (low, high), sorted(reaching)

    def joined(self, node: Node, current: Any) -> Atom:
        """The total, put together."""
        self._add, self._current = node.prim, current
        return self._part(0, range(len(self.terms)), ())

    def _part(self, axis: int, among: Sequence[int], box: Box) -> Atom:
        """The part of the total that is *box* along the axes before *axis*, and the whole along the others."""
        if axis == len(self.total.shape):
            return self._piece(among, box)
        parts = [self._part(axis + 1, reaching, (*box, span)) for span, reaching in self._spans(axis, among)]
        return concat(parts, axis)

    def _piece(self, reaching: Sequence[int], box: Box) -> Atom:
        """The sum of the terms *reaching* all of *box*."""
        shape, ones = tuple([high - low for low, high in box]), (1,) * len(box)
        total: Atom | None = None
        for k in reaching:
            x, node = self.terms[k]
            part = self._current(x if node is None else node.inputs[0])
            start = tuple([low - first for (low, _), (first, _) in zip(box, self.boxes[k], strict=True)])
            part = take_slice(part, start, ones, shape)
            total = part if total is None else bind(self._add, total, part)
        if total is None:
            return zeros(shape, self.total.dtype)
        if len(reaching) < len(self.terms) and self.total.dtype.kind in FLOAT_KINDS:  # 0.0 of the others: not -0.0
            total = bind(self._add, total, like(0.0, total))
        return total


def _box(pad: Node) -> Box:
    return tuple([(s, s + n) for s, n in zip(pad.params["start"], pad.inputs[0].aval.shape, strict=True)])


def _whole(x: Var) -> Box:
    return tuple([(0, n) for n in x.shape])
