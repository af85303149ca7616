"""The programs of the test matrix: each primitive's value, its adjoint and its derivative along a tangent, in one
graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from support import differentiated, float_inputs, operand_values, prims, random_like, rng_for
from test_primitives import has_derivative, smooth_graph

from tracegrad.codegen.adjoint import jvp, vjp
from tracegrad.tracer.ir import Atom, Graph, Var
from tracegrad.tracer.primitive import Primitive


def joint_graph(graph: Graph) -> Graph:
    """(inputs..., cotangent, tangents...) -> output, cotangents of the float inputs, tangent of the output."""
    which = float_inputs(graph)

    def transform(builder: Any, inputs: list[Var], outs: list[Atom], more: list[Var]) -> list[Atom]:
        nodes = list(builder.nodes)
        cotangents = vjp(nodes, outs[0], more[0], [inputs[i] for i in which])
        tangents: dict[Var, Atom] = {inputs[i]: t for i, t in zip(which, more[1:], strict=True)}
        return [outs[0], *cotangents, jvp(nodes, tangents, outs[0])]

    return differentiated(graph, transform, [graph.outputs[0].aval, *[graph.inputs[i].aval for i in which]])


def program_of(prim: Primitive, dtype: np.dtype) -> tuple[Graph, list[np.ndarray]]:
    """The graph of *prim* with its derivatives, where it has some, and inputs for it."""
    graph, rng = smooth_graph(prim, dtype), rng_for(prim.name)
    values = operand_values(prim, [v.aval for v in graph.inputs], rng)
    if has_derivative(prim):
        graph = joint_graph(graph)
    return graph, [*values, *random_like([v.aval for v in graph.inputs[len(values) :]], rng)]


def registry(dtype: np.dtype) -> list[tuple[Primitive, Graph]]:
    return [(prim, program_of(prim, dtype)[0]) for prim in prims()]
