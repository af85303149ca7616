"""What is done to loops before the signature: results that nobody reads go, and bodies are simplified themselves."""

from __future__ import annotations

from collections.abc import Callable

from ..tracer.ir import Atom, Graph, Node, Var, live_nodes
from ..tracer.ops.control import loop_parts
from ..tracer.primitive import LOOP


def prune_loops(graph: Graph, simplify: Callable[[Graph], Graph]) -> Graph:
    """*graph* with every loop reduced to what its readers need; *simplify* is applied to the bodies."""
    if not any(node.prim.kind == LOOP for node in graph.nodes):
        return graph
    needed: set[Atom] = {*graph.outputs, *(g.atom for g in graph.guards)}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not any(o in needed for o in node.outs):
            continue
        if node.prim.kind == LOOP:
            node = _pruned(node, needed, simplify)
        needed.update(node.inputs)
        kept.append(node)
    kept.reverse()
    return Graph(graph.inputs, kept, graph.outputs, graph.guards, graph.consts)


def _pruned(node: Node, needed: set[Atom], simplify: Callable[[Graph], Graph]) -> Node:
    body, inner, outer = loop_parts(node)
    count = len(inner.carries)
    rows = [k for k in range(count, len(node.outs)) if node.outs[k] in needed]
    alive = {k for k in range(count) if node.outs[k] in needed}
    while True:  # a carry is needed if its final value is, or if what is needed reads it
        outputs = [body.outputs[k] for k in [*sorted(alive), *rows]]
        nodes = live_nodes(body.nodes, outputs)
        read = {a for n in nodes for a in n.inputs if isinstance(a, Var)} | set(outputs)
        more = {k for k, v in enumerate(inner.carries) if v in read} - alive
        if not more:
            break
        alive |= more
    carries = sorted(alive)
    consts = [k for k, v in enumerate(inner.consts) if v in read]
    xs = [k for k, v in enumerate(inner.xs) if v in read]

    def chosen(p: tuple) -> list:
        return [*[p[0][k] for k in consts], *[p[1][k] for k in carries], *[p[2][k] for k in xs]]

    reduced = simplify(Graph(chosen(inner), nodes, outputs))
    params = {**node.params, "body": reduced, "consts": len(consts), "carries": len(carries)}
    outs = tuple(node.outs[k] for k in [*carries, *rows])
    return Node(node.prim, tuple(chosen(outer)), params, outs, node.site)


__all__ = ["prune_loops"]
