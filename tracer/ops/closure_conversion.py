"""Closure conversion: nodes to the body of a loop, with the carries that it needs and its consts.

A carry is needed if its value after the last step is, or if a needed value reads it: ``needed_carries`` is the fixed
point.  Values that the nodes read from outside become the first inputs of the body, its consts: ``closed``.  Before
that equal nodes can be merged: ``deduplicated``.  The other way round a body's nodes are emitted again: ``inlined``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ..ir.graph import Atom, Graph, Lit, Node, Var, by_value, current_builder


def needed_carries(
    carries: Sequence[Var | None], first: Iterable[int], read_for: Callable[[Collection[int]], set[Var]]
) -> tuple[list[int], set[Var]]:
    """(indices of the needed carries, ascending; the values read to compute them)

    *carries*: the incoming value of each, or None.  *first*: indices of the carries that are needed after the loop.
    *read_for*: the values read to compute the carries of given indices.
    """
    needed = set(first)
    while True:
        read = read_for(needed)
        more = {k for k, v in enumerate(carries) if v in read} - needed
        if not more:
            return sorted(needed), read
        needed |= more


def closed(nodes: Sequence[Node], outputs: Sequence[Atom], inputs: Sequence[Var]) -> tuple[Graph, list[Var]]:
    """(a body of copies of *nodes*, the Vars that it reads from outside)

    Its inputs are a Var for each of those, then *inputs*.  Its nodes are copies with results of their own: the same
    nodes may stand in several bodies.
    """
    inside: dict[Var, Var] = {v: v for v in inputs}
    inside.update((out, Var(out.aval)) for node in nodes for out in node.outs)
    consts: dict[Var, Var] = {}

    def renamed(atom: Atom) -> Atom:
        if isinstance(atom, Lit):
            return atom
        if atom not in inside:
            inside[atom] = consts[atom] = Var(atom.aval)
        return inside[atom]

    copies = [
        Node(n.prim, tuple([renamed(a) for a in n.inputs]), n.params, tuple([inside[o] for o in n.outs]), n.site)
        for n in nodes
    ]
    results = [renamed(a) for a in outputs]
    return Graph([*consts.values(), *inputs], copies, results), list(consts)


def inlined(graph: Graph, operands: Sequence[Atom]) -> list[Atom]:
    """The outputs of *graph* for *operands*, by nodes of the builder in force."""
    known: dict[Atom, Atom] = dict(zip(graph.inputs, operands, strict=True))
    builder = current_builder()
    for node in graph.nodes:
        found = builder.emit(node.prim, tuple([known.get(a, a) for a in node.inputs]), node.params)
        known.update(zip(node.outs, found, strict=False))  # a known loop may have got results
    return [known.get(a, a) for a in graph.outputs]


def deduplicated(nodes: Sequence[Node], outputs: Sequence[Atom]) -> tuple[list[Node], list[Atom]]:
    """*nodes* with equal ones merged and reshapes back to the shape before undone, and *outputs* in terms of them."""
    seen: dict[Any, Node] = {}
    renamed: dict[Atom, Atom] = {}
    kept = []
    unshaped: dict[Atom, Atom] = {}
    for node in nodes:
        inputs = tuple([renamed.get(a, a) for a in node.inputs])
        if node.prim.name == "reshape":
            source = unshaped.get(inputs[0], inputs[0])
            if source.aval.shape == node.out.shape and source.aval.weak == node.out.aval.weak:
                renamed[node.out] = source
                continue
            unshaped[node.out] = source
        key = (node.prim, tuple(map(by_value, inputs)), tuple(node.params.values()))
        known = seen.get(key)
        if known is not None:
            renamed.update(zip(node.outs, known.outs, strict=True))
            continue
        moved = seen[key] = Node(node.prim, inputs, node.params, node.outs, node.site)
        kept.append(moved)
    return kept, [renamed.get(a, a) for a in outputs]
