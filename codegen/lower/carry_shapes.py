"""Carries in the shape in which a step writes them.

An indexed write is along the first axis, so that a carry of another shape is reshaped for it, and back at the end of
the step.  The loop then hands on what was written, and its operands, its results, and what reads the carry are
reshaped: the carry can be updated in place (``codegen/schedule/in_place.py``).
"""

from __future__ import annotations

from collections.abc import Callable

from ...tracer.ir.graph import Atom, Graph, Node, Var
from ...tracer.ir.primitive import LOOP, SCATTER
from ...tracer.ops.control import before_consts, loop_view
from ...tracer.ops.shape import RESHAPE


def carries_as_written(graph: Graph, simplify: Callable[[Graph], Graph]) -> Graph:
    """*graph* with the carries of its loops in the shape in which a step writes them; *simplify* is applied to bodies
    that change."""
    if not any(node.prim.kind == LOOP for node in graph.nodes):
        return graph
    nodes = [
        made for node in graph.nodes for made in (_as_written(node, simplify) if node.prim.kind == LOOP else [node])
    ]
    return Graph(graph.inputs, nodes, graph.outputs, graph.guards, graph.consts)


def _as_written(node: Node, simplify: Callable[[Graph], Graph]) -> list[Node]:
    view = loop_view(node)
    producers = {out: n for n in view.body.nodes for out in n.outs}
    written = {k: x for k, end in enumerate(view.ends) if (x := _written(end, producers)) is not None}
    if not written:
        return [node]
    params, body = node.params, view.body
    first, stops = params["consts"], int(view.go_on is not None)
    inputs, outputs, inside = list(body.inputs), list(body.outputs), list[Node]()
    operands, outs, before, after = list(node.inputs), list(node.outs), list[Node](), list[Node]()

    def reshaped(x: Atom, to: Var) -> Node:
        return Node(RESHAPE, (x,), {"shape": to.shape}, (to,), node.site)

    for k, x in written.items():
        carry, start, final = Var(x.aval), Var(x.aval), Var(x.aval)
        position = before_consts(params) + first + k
        inside.append(reshaped(carry, inputs[first + k]))
        before.append(reshaped(operands[position], start))
        after.append(reshaped(final, outs[k]))
        inputs[first + k], outputs[stops + k], operands[position], outs[k] = carry, x, start, final
    made = simplify(Graph(inputs, [*inside, *body.nodes], outputs, body.guards, body.consts))
    return [*before, Node(node.prim, tuple(operands), {**params, "body": made}, tuple(outs), node.site), *after]


def _written(end: Atom, producers: dict[Var, Node]) -> Var | None:
    """The operand of the reshape that makes *end*, if an indexed write has made it, or a loop."""
    node = producers.get(end) if isinstance(end, Var) else None
    x = node.inputs[0] if node is not None and node.prim is RESHAPE else None
    source = producers.get(x) if isinstance(x, Var) else None
    return x if source is not None and source.prim.kind in (SCATTER, LOOP) else None  # type: ignore[return-value]
