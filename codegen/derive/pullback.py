"""Derivatives of closed graphs, as graphs: for rules of derivation that are made of programs (scipy_api/implicit.py).

Registered for the tracer, which knows of no derivatives."""

from __future__ import annotations

from collections.abc import Sequence

from ...tracer.ir.aval import Aval
from ...tracer.ir.graph import Builder, Graph, Var, building, live_nodes
from ...tracer.ops.host_call import pullbacks
from .adjoint import vjp
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


pullbacks.append(pullback)
