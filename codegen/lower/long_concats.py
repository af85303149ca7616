"""Concatenations of many arrays as concatenations of concatenations.

A loop that reads what was put together asks for each element which part it is in.  With a few dozen parts at each
level, which the scheduler stores (``schedule/cuts.py``), that takes the same time for each element, however many parts
there are.  A result is left as it is: its parts are written where they belong (``schedule/parts.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...tracer.ir.aval import Aval
from ...tracer.ir.graph import Atom, Graph, Node, Var
from ...tracer.ops.shape import CONCAT

MAX_JOINED = 32  # parts of one concatenation


def in_levels(graph: Graph) -> Graph:
    """*graph* with long concatenations, but for results, in levels."""
    results = set(graph.outputs)
    nodes: list[Node] = []
    for node in graph.nodes:
        inputs: Sequence[Atom] = node.inputs
        if node.prim is CONCAT and node.out not in results:
            while len(inputs) > MAX_JOINED:
                joined = [*_groups(node, inputs)]
                nodes += [made for made in joined if len(made.inputs) > 1]
                inputs = [made.out if len(made.inputs) > 1 else made.inputs[0] for made in joined]
        nodes.append(node if inputs is node.inputs else node.on(tuple(inputs)))
    return (
        graph
        if len(nodes) == len(graph.nodes)
        else Graph(graph.inputs, nodes, graph.outputs, graph.guards, graph.consts)
    )


def _groups(node: Node, inputs: Sequence[Atom]) -> Iterator[Node]:
    """Concatenations of a few of *inputs* each, along the axis of *node*."""
    axis, shape = node.params["axis"], node.out.shape
    for at in range(0, len(inputs), MAX_JOINED):
        parts = tuple(inputs[at : at + MAX_JOINED])
        length = sum(x.aval.shape[axis] for x in parts)
        out = Var(Aval(node.out.aval.dtype, (*shape[:axis], length, *shape[axis + 1 :])))
        yield Node(CONCAT, parts, node.params, (out,), node.site)
