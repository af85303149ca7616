"""Pruning of loops before the signature: unread results go, loop-invariant carries become constants, and bodies are
simplified."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ..ir.graph import Atom, Graph, Node, Var, live_nodes, read_vars
from ..ir.primitive import LOOP
from .closure_conversion import needed_carries
from .control import before_consts, before_rows, loop_view

Renamed = dict[Var, Atom]


def prune_loops(graph: Graph, simplify: Callable[[Graph], Graph]) -> Graph:
    """*graph* without unread results of loops; *simplify* is applied to the bodies."""
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
    view = loop_view(node)
    body, inner, outer = view.body, view.inner, view.outer
    lead, first = before_consts(node.params), before_rows(node.params)
    asked = [] if view.go_on is None else [view.go_on]
    rows = [k for k, out in enumerate(view.stacked) if out in needed]

    def results(carries: Iterable[int]) -> list[Atom]:
        return [*asked, *[view.ends[k] for k in carries], *[view.rows[k] for k in rows]]

    def read_for(carries: Iterable[int]) -> set[Var]:
        return read_vars(live_nodes(body.nodes, results(carries)), results(carries))

    alive, read = needed_carries(inner.carries, [k for k, out in enumerate(view.finals) if out in needed], read_for)
    same = [k for k in alive if view.ends[k] is inner.carries[k]]
    renamed.update((view.finals[k], outer.carries[k]) for k in same)
    carries = [k for k in alive if k not in same]
    consts = [k for k, v in enumerate(inner.consts) if v in read]
    xs = [k for k, v in enumerate(inner.xs) if v in read]

    def chosen(p: tuple) -> list:
        return [*[p[0][k] for k in consts], *[p[1][k] for k in [*same, *carries]], *[p[2][k] for k in xs]]

    outs = (*[view.finals[k] for k in carries], *node.outs[len(view.finals) : first], *[view.stacked[k] for k in rows])
    nodes = live_nodes(body.nodes, results(alive))
    reduced = simplify(Graph(chosen(inner), nodes, results(carries)))
    params = {**node.params, "body": reduced, "consts": len(consts) + len(same), "carries": len(carries)}
    return Node(node.prim, (*node.inputs[:lead], *chosen(outer)), params, outs, node.site)


def _replaced(graph: Graph, renamed: Renamed) -> Graph:
    """*graph* with other atoms in place of some Vars."""
    if not renamed:
        return graph

    def current(atom: Atom) -> Atom:
        while isinstance(atom, Var) and atom in renamed:
            atom = renamed[atom]
        return atom

    nodes = [Node(n.prim, tuple([current(a) for a in n.inputs]), n.params, n.outs, n.site) for n in graph.nodes]
    guards = [replace(g, atom=current(g.atom)) for g in graph.guards]
    return Graph(graph.inputs, nodes, [current(a) for a in graph.outputs], guards, graph.consts)
