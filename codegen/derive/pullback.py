"""Derivatives of closed graphs, as graphs: for rules of derivation that are made of programs (scipy_api/implicit.py).

Registered for the tracer, which knows of no derivatives."""

from __future__ import annotations

from collections.abc import Sequence

from ...tracer.ir.aval import Aval
from ...tracer.ir.graph import Atom, Builder, Graph, Node, Var, building, current_builder, live_nodes
from ...tracer.ops.closure_conversion import closed, inlined
from ...tracer.ops.host_call import GraphDerivatives, derivatives
from .adjoint import vjp
from .capacity import give_capacity, unlimited
from .loop_adjoint import fresh


def pullback(graph: Graph, wrt: Sequence[int]) -> Graph:
    """The graph of the cotangents of the inputs *wrt* of *graph*: of its inputs, then the cotangent of its output."""
    (output,) = graph.outputs
    cotangent = Var(Aval(output.aval.dtype, output.aval.shape))
    builder = Builder()
    builder.adopt(fresh(graph.nodes))
    with building(builder):
        found = vjp(list(builder.nodes), output, cotangent, [graph.inputs[k] for k in wrt])
    return Graph([*graph.inputs, cotangent], live_nodes(builder.nodes, found), found)


def limited(graph: Graph, operands: Sequence[Atom]) -> Graph:
    """*graph*, in which the loops that data ends have the capacity that they need for these *operands*, values of the
    recording in progress; a guard of the recording checks it."""
    if not any(map(unlimited, graph.nodes)):
        return graph
    outputs = inlined(graph, operands)
    nodes: list[Node] = []
    read = {x for x in outputs if isinstance(x, Var)} - set(operands)
    for node in reversed(current_builder().nodes):
        if not read.isdisjoint(node.outs):
            nodes.insert(0, node)
            read.update(x for x in node.inputs if isinstance(x, Var) and x not in operands)
    for node in nodes:
        give_capacity(node)
    inputs = [x if isinstance(x, Var) and x not in operands[:k] else Var(x.aval) for k, x in enumerate(operands)]
    found, outside = closed(nodes, outputs, inputs)
    assert not outside
    return found


derivatives.append(GraphDerivatives(pullback, limited))
