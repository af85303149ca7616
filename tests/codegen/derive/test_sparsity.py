"""Sparsity patterns never miss an entry: for every primitive, and for the gradient of every primitive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support import (
    F64,
    differentiated,
    dot_graph,
    evaluate,
    float_inputs,
    grad_graph,
    operand_avals,
    operand_values,
    primitive_graph,
    prims,
    rng_for,
)

from tracegrad.codegen.derive.adjoint import vjp
from tracegrad.codegen.derive.sparsity import Pattern, pattern_of
from tracegrad.codegen.derive.sparsity_loops import loop_sets
from tracegrad.tracer.ir.graph import Graph
from tracegrad.tracer.ir.primitive import Primitive, differentiable


def pattern(graph: Graph, values: Sequence[Any], output: int = 0) -> Pattern | None:
    """The pattern of an output of *graph*, in which the integers have these *values*."""
    known = {v: x for v, x in zip(graph.inputs, values, strict=True) if not v.aval.is_float}
    wrt = [graph.inputs[k] for k in float_inputs(graph)]
    return pattern_of(graph.nodes, [graph.outputs[output]], wrt, known.get, loop_sets)


def mask(found: Pattern | None, shape: tuple[int, int]) -> np.ndarray:
    if found is None:
        return np.ones(shape, bool)
    assert found.shape == shape
    assert len(np.unique(found.rows.astype(np.int64) * shape[1] + found.indices)) == found.nnz
    dense = np.zeros(shape, bool)
    dense[found.rows, found.indices] = True
    return dense


def jacobian(graph: Graph, values: Sequence[Any], output: int = 0) -> np.ndarray:
    """The dense Jacobian of one output, row by row."""
    which = float_inputs(graph)
    rows = []
    aval = graph.outputs[output].aval
    pulled = differentiated(
        graph,
        lambda builder, inputs, outs, more: vjp(list(builder.nodes), outs[output], more[0], [inputs[k] for k in which]),
        [aval],
    )
    for k in range(aval.size):
        seed = np.zeros(aval.size)
        seed[k] = 1
        found = evaluate(pulled, [*values, seed.reshape(aval.shape).astype(aval.dtype)])
        rows.append(np.concatenate([np.asarray(g).reshape(-1) for g in found]))
    return np.array(rows).reshape(aval.size, sum(graph.inputs[k].aval.size for k in which))


def check(graph: Graph, values: Sequence[Any]) -> np.ndarray:
    dense = jacobian(graph, values)
    found = mask(pattern(graph, values), dense.shape)
    assert not np.any((dense != 0) & ~found)
    return found


def of_floats(prim: Primitive) -> bool:
    return differentiable(prim) and any(a.is_float for a in operand_avals(prim, F64))


@pytest.mark.parametrize("prim", prims(of_floats), ids=lambda p: p.name)
def test_of_a_primitive_and_of_its_gradient(prim):
    avals = operand_avals(prim, F64)
    graph = primitive_graph(prim, avals)
    values = operand_values(prim, avals, rng_for(prim.name))
    if not graph.outputs[0].aval.is_float:
        pytest.skip("its result is opaque")
    check(graph, values)
    weighted = dot_graph(graph, [0])
    weights = np.ones(graph.outputs[0].aval.shape)
    which = float_inputs(graph)
    gradient = grad_graph(weighted)
    for k in range(len(which)):
        single = Graph(gradient.inputs, gradient.nodes, [gradient.outputs[k]])
        check(single, [*values, weights])
