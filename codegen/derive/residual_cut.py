"""Choice of a loop's residuals by a minimum cut: store or recompute.

A value that the adjoint reads is stored, or computed again from others, which have to be there in turn.  Storing
has a price; computing again costs nothing, or something, or is out of the question.  The cheapest choice is a minimum
cut of the program's graph: on the one side what the adjoint does without, on the other what it has.  To cut through a
value is to store it; to cut between the source and a value is to compute it again.  Of several cuts of one size it is
the one nearest to the adjoint, which leaves least to be computed again.

The network has two vertices for each value, (v, 0) to (v, 1), with its price between them; from a value to those that
are computed from it there is no limit.  Start reading at ``least_stored``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any

from ...tracer.ir.graph import Atom, Node, Var

Vertex = Any  # (Var, 0 or 1), or one of the two ends
Network = dict[Vertex, dict[Vertex, float]]  # residual capacity of each edge; each edge is there in both directions

SOURCE, SINK = "source", "sink"


def least_stored(
    nodes: Sequence[Node], outputs: Sequence[Atom], again: Mapping[Var, float], price: Mapping[Var, float]
) -> set[Var]:
    """The values to store, so that *outputs* can be computed by *nodes* at the least cost.

    *nodes* are those of a forward step and of its adjoint, in order.  *again* says what it costs to compute values
    again: inf where that can't be done, nothing for those that are not in it.  *price* says what it costs to store
    values, for those that can be, which are of the forward step; everything in *again* is among them.
    """
    read: set[Atom] = set(outputs)
    for node in reversed(nodes):  # of values that cannot be stored, and so have to be computed
        if any(o in read and o not in price for o in node.outs):
            read.update(node.inputs)
    stored = {v for v, cost in again.items() if cost == inf and v in read}  # not part of the cut
    network: Network = {SOURCE: {}, SINK: {}}
    lacking = {v for v in again if v not in stored}  # values that cost something to compute again
    for v in lacking:
        _connect(network, SOURCE, (v, 0), again[v])
    for node in nodes:
        if any(again.get(o) == inf or (o in read and o not in price) for o in node.outs):
            continue
        for a in node.inputs:
            if a in lacking:
                lacking.update(node.outs)
                for out in node.outs:
                    _connect(network, (a, 1), (out, 0), inf)
    for v in lacking:
        _connect(network, (v, 0), (v, 1), price.get(v, inf))
        if v in read:
            _connect(network, (v, 1), SINK, inf)
    before = _before_cut(network)
    return stored | {v for v in lacking if (v, 0) in before and (v, 1) not in before}


def _connect(network: Network, start: Vertex, end: Vertex, capacity: float) -> None:
    network.setdefault(start, {})[end] = capacity
    network.setdefault(end, {}).setdefault(start, 0)


def _before_cut(network: Network) -> set[Vertex]:
    """The vertices on the source's side of the minimum cut that is nearest to the sink.

    Edmonds and Karp: while some way has room left, the shortest is filled.  The search goes backwards, so that
    in the end it has found everything that still reaches the sink.
    """
    while True:
        towards: dict[Vertex, Vertex] = {SINK: SINK}  # the next vertex on the shortest way to the sink
        todo = deque([SINK])
        while todo and SOURCE not in towards:
            end = todo.popleft()
            for start in network[end]:
                if start not in towards and network[start][end] > 0:
                    towards[start] = end
                    todo.append(start)
        if SOURCE not in towards:
            return network.keys() - towards.keys()
        way = [SOURCE]
        while way[-1] is not SINK:
            way.append(towards[way[-1]])
        edges = list(pairwise(way))
        room = min(network[start][end] for start, end in edges)
        for start, end in edges:
            network[start][end] -= room
            network[end][start] += room
