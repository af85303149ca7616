"""The programs of the test matrix, each primitive's value, its adjoint and its derivative along a tangent in one graph;
and how far apart the CPU's results and a GPU's may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from support import (
    assert_agree,
    condition,
    differentiated,
    float_inputs,
    of_linear_algebra,
    operand_values,
    prims,
    random_like,
    rng_for,
)
from test_primitives import CANCELLING, EXACT, has_derivative, smooth_graph

from tracegrad.codegen.derive.adjoint import jvp, vjp
from tracegrad.tracer.ir.graph import Atom, Graph, Var
from tracegrad.tracer.ir.primitive import Primitive


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
    return [(prim, program_of(prim, dtype)[0]) for prim in prims(lambda p: not of_linear_algebra(p))]


def bounds(prim: Any, graph: Any, position: int, expected: np.ndarray) -> dict[str, float]:
    """How far apart the targets may be in output *position*, ulp (or atol).

    What is computed by correctly rounded operations alone has the same bits.  Values of functions are within 4 ulp:
    glibc's vectors and libdevice are each within 2 of the truth.  Derivatives combine several such values, within 8
    ulp; where these cancel, as the terms of a transform do, the error is a few times the rounding of what cancels.
    """
    if all(node.prim.name in EXACT for node in graph.nodes):
        return {"ulps": 0}
    eps = float(np.finfo(expected.dtype).eps) * condition(expected)
    if position == 0:
        return {"ulps": 4, "atol": eps if prim.name in CANCELLING or prim.name.endswith("dft") else 0.0}
    return {"ulps": 8, "atol": 2 * eps}


def assert_targets_agree(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], what: str, terms: int = 1
) -> None:
    """Sums of up to *terms* terms are added up in another order on each target.

    The error of n additions is about the square root of n roundings of the largest element (Higham and Mary 2019), of
    which each target has its own; 16 roundings are granted where sums are short.
    """
    roundings = max(16.0, math.sqrt(terms))
    for position, (a, b) in enumerate(zip(found, expected, strict=True)):
        finite = np.abs(b[np.isfinite(b)]) if b.dtype.kind == "f" else []
        atol = roundings * float(np.finfo(b.dtype).eps) * float(np.max(finite)) if len(finite) else 0.0
        assert_agree(a, b, ulps=4, atol=atol, signed_zeros=False, what=f"output {position} of {what}")
