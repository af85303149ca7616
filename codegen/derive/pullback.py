"""Derivatives of closed graphs, as graphs: for rules of derivation that are made of programs (scipy_api/implicit.py).

Registered for the tracer, which knows of no derivatives."""

from __future__ import annotations

from collections.abc import Sequence

from ...tracer.ir.aval import Aval
from ...tracer.ir.graph import Atom, Builder, Graph, Node, Var, building, current_builder, live_nodes
from ...tracer.ops.closure_conversion import closed, inlined
from ...tracer.ops.host_call import GraphDerivatives, derivatives
from .adjoint import jvp_all, vjp_seeded
from .capacity import give_capacity, unlimited
from .loop_adjoint import fresh, materialise


def pullback(graph: Graph, wrt: Sequence[int]) -> Graph:
    """The graph of the cotangents of the inputs *wrt* of *graph*: of its inputs, then the cotangents of its outputs."""
    cotangents = [Var(Aval(x.aval.dtype, x.aval.shape)) for x in graph.outputs]
    builder = Builder()
    builder.adopt(fresh(graph.nodes))
    with building(builder):
        inputs = [graph.inputs[k] for k in wrt]
        known, _ = vjp_seeded(list(builder.nodes), [*zip(graph.outputs, cotangents, strict=True)], inputs)
        found = [materialise(ct, v) for ct, v in zip(known, inputs, strict=True)]
    return Graph([*graph.inputs, *cotangents], live_nodes(builder.nodes, found), found)


def pushforward(graph: Graph, wrt: Sequence[int]) -> Graph:
    """The graph of the tangents of the outputs of *graph*: of its inputs, then the tangents of the inputs *wrt*."""
    tangents = [Var(Aval(v.aval.dtype, v.aval.shape)) for v in (graph.inputs[k] for k in wrt)]
    builder = Builder()
    builder.adopt(fresh(graph.nodes))
    with building(builder):
        known = jvp_all(list(builder.nodes), dict(zip([graph.inputs[k] for k in wrt], tangents, strict=True)))
        found = [materialise(known.get(x) if isinstance(x, Var) else None, x) for x in graph.outputs]
    return Graph([*graph.inputs, *tangents], live_nodes(builder.nodes, found), found)


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


derivatives.append(GraphDerivatives(pullback, pushforward, limited))
