"""What is done to loops before the signature: results that nobody reads go, carries that no step changes become
constants, and bodies are simplified themselves."""

from __future__ import annotations

from collections.abc import Callable

from ..tracer.ir import Atom, Graph, Guard, Node, Var, live_nodes
from ..tracer.ops.control import loop_parts
from ..tracer.primitive import LOOP

Renamed = dict[Var, Atom]


def prune_loops(graph: Graph, simplify: Callable[[Graph], Graph]) -> Graph:
    """*graph* with every loop reduced to what its readers need; *simplify* is applied to the bodies."""
    if not any(node.prim.kind == LOOP for node in graph.nodes):
        return graph
    needed: set[Atom] = {*graph.outputs, *(g.atom for g in graph.guards)}
    renamed: Renamed = {}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not any(o in needed for o in node.outs):
            continue
        if node.prim.kind == LOOP:
            node = _pruned(node, needed, simplify, renamed)
        needed.update(node.inputs)
        if node.outs:
            kept.append(node)
    kept.reverse()
    return _replaced(Graph(graph.inputs, kept, graph.outputs, graph.guards, graph.consts), renamed)


def _pruned(node: Node, needed: set[Atom], simplify: Callable[[Graph], Graph], renamed: Renamed) -> Node:
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
    same = [k for k in sorted(alive) if body.outputs[k] is inner.carries[k]]
    renamed.update((node.outs[k], outer.carries[k]) for k in same)
    carries = sorted(alive.difference(same))
    consts = [k for k, v in enumerate(inner.consts) if v in read]
    xs = [k for k, v in enumerate(inner.xs) if v in read]

    def chosen(p: tuple) -> list:
        return [*[p[0][k] for k in consts], *[p[1][k] for k in [*same, *carries]], *[p[2][k] for k in xs]]

    results = [*carries, *rows]
    reduced = simplify(Graph(chosen(inner), nodes, [body.outputs[k] for k in results]))
    params = {**node.params, "body": reduced, "consts": len(consts) + len(same), "carries": len(carries)}
    return Node(node.prim, tuple(chosen(outer)), params, tuple(node.outs[k] for k in results), node.site)


def _replaced(graph: Graph, renamed: Renamed) -> Graph:
    """*graph* with other atoms in place of some Vars."""
    if not renamed:
        return graph

    def current(atom: Atom) -> Atom:
        while isinstance(atom, Var) and atom in renamed:
            atom = renamed[atom]
        return atom

    nodes = [Node(n.prim, tuple([current(a) for a in n.inputs]), n.params, n.outs, n.site) for n in graph.nodes]
    guards = [Guard(current(g.atom), g.expected, g.kind, g.site, g.position) for g in graph.guards]
    return Graph(graph.inputs, nodes, [current(a) for a in graph.outputs], guards, graph.consts)


__all__ = ["prune_loops"]
