"""Loops that another loop does beside its own work are that loop.

Forward mode of a loop is a loop that carries values and tangents (``derive/loop_adjoint.py``), so the loop itself,
whose results are read too, would run twice.  A loop is *covered* by another one that runs over the same rows, reads the
same operands, and has the same recurrences among its own: then it needs no run of its own, and what it stacks becomes
results of the other one.  Equal loops are one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...tracer.ir.aval import Aval
from ...tracer.ir.equality import same_params
from ...tracer.ir.graph import Atom, Graph, Lit, Node, Var, identity, live_nodes
from ...tracer.ir.primitive import LOOP
from ...tracer.ops.control import LoopOperands, before_consts, loop_view


def merge_covered_loops(graph: Graph) -> Graph:
    """*graph* in which covered loops are part of those that cover them."""
    if sum(node.prim.kind == LOOP for node in graph.nodes) < 2:
        return graph
    roots = [*graph.outputs, *[g.atom for g in graph.guards]]
    nodes = live_nodes(graph.nodes, roots)
    renamed: dict[Atom, Atom] = {}
    todo = [n for n in nodes if n.prim.kind == LOOP]
    while todo:
        a = todo.pop(0)
        for b in [n for n in nodes if n is not a and n.prim.kind == LOOP and _alike(a, n, renamed)]:
            found = _merged(a, b, renamed)
            if found is not None and not _depends(b, a, nodes, renamed):
                other, results = found
                renamed.update(zip(a.outs, results, strict=True))
                nodes = [other if n is b else n for n in nodes if n is not a]
                todo = [other if n is b else n for n in todo]
                break
    if not renamed:
        return graph
    guards = [replace(g, atom=_current(g.atom, renamed)) for g in graph.guards]
    outputs = [_current(x, renamed) for x in graph.outputs]
    return Graph(graph.inputs, _in_order(nodes, renamed), outputs, guards, graph.consts)


def _current(atom: Atom, renamed: dict[Atom, Atom]) -> Atom:
    while atom in renamed:
        atom = renamed[atom]
    return atom


def _alike(a: Node, b: Node, renamed: dict[Atom, Atom]) -> bool:
    """Whether two loops run over as many rows, in the same direction."""
    names = ("length", "reverse", "counted", "stops")
    if any(a.params.get(name, False) != b.params.get(name, False) for name in names):
        return False
    counts = zip(a.inputs[: before_consts(a.params)], b.inputs, strict=False)
    return all(identity(_current(x, renamed)) == identity(_current(y, renamed)) for x, y in counts)


def _merged(a: Node, b: Node, renamed: dict[Atom, Atom]) -> tuple[Node, list[Atom]] | None:
    """(*b* with what *a* stacks, the results of *a* in it), where *b* covers *a*."""
    mine, its = loop_view(a), loop_view(b)
    known: dict[Atom, Atom] = {}
    for kind in ("consts", "xs"):
        there = dict(zip(_operands(its.outer, kind, renamed), getattr(its.inner, kind), strict=True))
        for v, x in zip(getattr(mine.inner, kind), _operands(mine.outer, kind, renamed), strict=True):
            if x not in there:
                return None
            known[v] = there[x]
    starts = _operands(its.outer, "carries", renamed)
    places: list[int] = []
    for v, start in zip(mine.inner.carries, _operands(mine.outer, "carries", renamed), strict=True):
        free = [k for k, y in enumerate(starts) if y == start and k not in places]
        if not free:
            return None
        places.append(free[0])  # forward mode keeps their order
        known[v] = its.inner.carries[free[0]]
    nodes = _with_nodes(mine.body.nodes, its.body.nodes, known)
    ends = zip([*mine.ends, mine.go_on], [*[its.ends[k] for k in places], its.go_on], strict=True)
    if any(x is not None and identity(known.get(x, x)) != identity(y) for x, y in ends):  # type: ignore[arg-type]
        return None
    outputs, outs = list(its.body.outputs), list(b.outs)
    first = len(outputs) - len(its.rows)
    results: list[Atom] = [*[its.finals[k] for k in places], *([] if its.taken is None else [its.taken])]
    for row in mine.rows:
        row = known.get(row, row)
        same = [k for k in range(first, len(outputs)) if identity(outputs[k]) == identity(row)]
        if not same:
            same = [len(outputs)]
            outputs.append(row)
            outs.append(Var(Aval(row.aval.dtype, (b.params["length"], *row.aval.shape))))
        results.append(outs[same[0]])
    params = {**b.params, "body": Graph(its.body.inputs, nodes, outputs)}
    return Node(b.prim, b.inputs, params, tuple(outs), b.site), results


def _operands(operands: LoopOperands, kind: str, renamed: dict[Atom, Atom]) -> list[Any]:
    """The operands of a *kind*, for comparison."""
    return [identity(_current(x, renamed)) for x in getattr(operands, kind)]


def _with_nodes(mine: Sequence[Node], its: Sequence[Node], known: dict[Atom, Atom]) -> list[Node]:
    """The nodes *its*, with copies of those of *mine* that are not among them; *known* gets their results."""
    there: dict[Any, list[Node]] = {}
    for node in its:
        there.setdefault((node.prim, tuple(map(identity, node.inputs))), []).append(node)
    nodes = list(its)
    for node in mine:
        inputs = tuple([known.get(x, x) for x in node.inputs])
        equal = there.get((node.prim, tuple(map(identity, inputs))), [])
        found = next((n for n in equal if len(n.outs) == len(node.outs) and same_params(n.params, node.params)), None)
        if found is None:
            found = Node(node.prim, inputs, node.params, tuple([Var(o.aval) for o in node.outs]), node.site)
            nodes.append(found)
        known.update(zip(node.outs, found.outs, strict=True))
    return nodes


def _depends(b: Node, a: Node, nodes: Sequence[Node], renamed: dict[Atom, Atom]) -> bool:
    """Whether operands of *b* are made of results of *a*."""
    makers = {out: n for n in nodes for out in n.outs}
    todo, seen = [b], {b}
    while todo:
        for node in _makers(todo.pop(), makers, renamed):
            if node is a:
                return True
            if node not in seen:
                seen.add(node)
                todo.append(node)
    return False


def _makers(node: Node, makers: dict[Var, Node], renamed: dict[Atom, Atom]) -> Iterable[Node]:
    atoms = [_current(x, renamed) for x in node.inputs]
    return [makers[x] for x in atoms if not isinstance(x, Lit) and x in makers]


def _in_order(nodes: Sequence[Node], renamed: dict[Atom, Atom]) -> list[Node]:
    """*nodes* over the *renamed* atoms: those that read a result of a later loop come right after it."""
    nodes = [Node(n.prim, tuple([_current(x, renamed) for x in n.inputs]), n.params, n.outs, n.site) for n in nodes]
    missing = {out for n in nodes for out in n.outs}
    ordered: list[Node] = []
    waiting: list[Node] = []
    for node in nodes:
        waiting.append(node)
        if missing.isdisjoint(node.inputs):  # type: ignore[arg-type]
            waiting.insert(0, waiting.pop())  # those that come before it may wait for it
            rest = []
            for one in waiting:
                if missing.isdisjoint(one.inputs):  # type: ignore[arg-type]
                    ordered.append(one)
                    missing.difference_update(one.outs)
                else:
                    rest.append(one)
            waiting = rest
    assert not waiting
    return ordered
