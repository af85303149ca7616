"""Sparsity patterns never miss an entry: for every primitive, and for the gradient of every primitive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from programs import gradient_case, program
from selection import seeds
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
from tracegrad.codegen.derive.compressed import hessian_program, jacobian_program
from tracegrad.codegen.derive.compressed_products import emit, in_full
from tracegrad.codegen.derive.loop_adjoint import fresh
from tracegrad.codegen.derive.sparsity import Pattern, pattern_of
from tracegrad.codegen.derive.sparsity_loops import loop_sets
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import Builder, Graph, Var, building, live_nodes, structural
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


# ---- random programs: the pattern, and the entries by compressed products ------------------------------------------


def compressed(graph: Graph, values: Sequence[Any], hessian: bool) -> np.ndarray | None:
    """The Jacobian of the first output, or the Hessian of it, by compressed products, evaluated node by node."""
    consts: list[tuple[Var, np.ndarray]] = []

    def const(array: np.ndarray) -> Var:
        consts.append((Var(Aval(array.dtype, array.shape)), array))
        return consts[-1][0]

    known = {v: x for v, x in zip(graph.inputs, values, strict=True) if not v.aval.is_float}
    wrt = [graph.inputs[k] for k in float_inputs(graph)]
    builder = Builder()
    builder.adopt(fresh(graph.nodes))
    with building(builder):
        outputs = [graph.outputs[0]]
        if hessian:
            outputs = vjp(list(builder.nodes), graph.outputs[0], structural(1), wrt)
        nodes = live_nodes(builder.nodes, outputs)
        program = (hessian_program if hessian else jacobian_program)(nodes, outputs, wrt, known.get)
        if program is None:
            return None
        results = [emit(program, const), in_full(program, const)]
    found = Graph(graph.inputs, live_nodes(builder.nodes, results), results, consts=consts)
    data, whole = evaluate(found, values)
    dense = np.zeros(program.pattern.shape)
    dense[program.pattern.rows, program.pattern.indices] = data
    np.testing.assert_array_equal(whole, dense)
    return dense


def agrees(found: np.ndarray | None, dense: np.ndarray) -> None:
    if found is not None and np.all(np.isfinite(dense)):
        size = max(1.0, float(np.abs(dense).max(initial=0.0)))
        np.testing.assert_allclose(found / size, dense / size, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("seed", seeds(100, quick=20, block=1))
def test_of_random_programs(seed):
    case = program(seed)
    floats = [k for k, out in enumerate(case.graph.outputs) if out.aval.is_float and isinstance(out, Var)]
    if not floats or not float_inputs(case.graph):
        return
    graph = Graph(case.graph.inputs, case.graph.nodes, [case.graph.outputs[floats[0]]])
    if graph.outputs[0].aval.size > 200:
        return
    check(graph, case.inputs)
    agrees(compressed(graph, case.inputs, hessian=False), jacobian(graph, case.inputs))
    scalar = gradient_case(case, seed)
    if scalar is None or sum(x.size for x in scalar.inputs) > 60:
        return
    loss = Graph(scalar.graph.inputs, scalar.graph.nodes, scalar.graph.outputs[:1])
    gradient = grad_graph(loss)
    parts = [Graph(gradient.inputs, gradient.nodes, [out]) for out in gradient.outputs]
    for part in parts:
        check(part, scalar.inputs)
    with np.errstate(all="ignore"):
        dense = np.concatenate([jacobian(part, scalar.inputs) for part in parts])
        agrees(compressed(loss, scalar.inputs, hessian=True), dense)
