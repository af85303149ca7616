"""Activity analysis: the values through which a derivative flows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...tracer.ir.graph import Atom, Node, Var
from ...tracer.ir.primitive import LOOP, differentiable
from ...tracer.ops.control import loop_view
from ...tracer.ops.custom import derived_from


def depends_on(nodes: Sequence[Node], sources: Iterable[Var]) -> set[Var]:
    """The Vars through which a derivative with respect to *sources* can flow."""
    active = set(sources)
    for node in nodes:
        if not (differentiable(node.prim) and any(a in active for a in derived_from(node) if isinstance(a, Var))):
            continue
        if node.prim.kind == LOOP:
            active.update(loop_activity(node, [isinstance(a, Var) and a in active for a in node.inputs])[1])
        else:
            active.update(o for o in node.outs if o.aval.is_float)
    return active


def loop_activity(node: Node, given: Sequence[bool]) -> tuple[set[Var], list[Var]]:
    """(values of the body, results of *node*) that depend on the operands marked in *given*.

    A carry depends on what it becomes in a step, so the body is looked at until no further carry is found.
    """
    view = loop_view(node)
    body, inner = view.body, view.inner
    operands = given[len(given) - len(body.inputs) :]  # the number of steps has no derivative
    sources = {v for v, wanted in zip(body.inputs, operands, strict=True) if wanted and v.aval.is_float}
    while True:
        active = depends_on(body.nodes, sources)
        more = {
            before
            for before, after in zip(inner.carries, view.ends, strict=True)
            if after in active and before.aval.is_float
        } - sources
        if not more:
            break
        sources |= more
    results = [out for out, before in zip(view.finals, inner.carries, strict=True) if before in sources]
    results += [out for out, value in zip(view.stacked, view.rows, strict=True) if value in active]
    return active, results


def reached(nodes: Sequence[Node], roots: Iterable[Atom], active: set[Var]) -> set[Var]:
    """The *active* Vars that a cotangent of *roots* can reach, and on which a tangent of them depends."""
    found = {a for a in roots if isinstance(a, Var) and a in active}
    for node in reversed(nodes):
        if any(o in found for o in node.outs):
            found.update(a for a in derived_from(node) if isinstance(a, Var) and a in active)
    return found
