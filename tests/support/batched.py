"""Graphs of many rows at once, and what they have to agree with: one call for each row, stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from support import assert_close, evaluate, replay

from tracegrad.codegen.derive.batch import batch
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.check import check_graph
from tracegrad.tracer.ir.graph import Builder, Graph, Var, building, live_nodes

Tier = Callable[[Graph, Sequence[Any]], list[np.ndarray]]


def batched(graph: Graph, which: Sequence[bool], size: int) -> Graph:
    """*graph* of *size* rows; those inputs marked in *which* have rows, the others are the same in all."""
    inputs = [
        Var(Aval(v.aval.dtype, (size, *v.aval.shape))) if rows else Var(v.aval)
        for v, rows in zip(graph.inputs, which, strict=True)
    ]
    row = [Var(v.aval) if rows else x for v, x, rows in zip(graph.inputs, inputs, which, strict=True)]
    with building(Builder()) as builder:
        outs = replay(graph, row)
        known = {v: x for v, x, rows in zip(row, inputs, which, strict=True) if rows}
        found = batch(list(builder.nodes), known, size)
        outputs = [found.get(out, out) if isinstance(out, Var) else out for out in outs]
    result = Graph(inputs, live_nodes(builder.nodes, outputs), outputs)
    check_graph(result)
    return result


def stacked(values: Sequence[Sequence[Any]], which: Sequence[bool]) -> list[np.ndarray]:
    """The inputs of a graph of rows, from the *values* of each row."""
    columns = zip(*values, strict=True)
    return [np.stack(xs) if rows else np.asarray(xs[0]) for xs, rows in zip(columns, which, strict=True)]


def row_by_row(graph: Graph, values: Sequence[Sequence[Any]], which: Sequence[bool]) -> list[np.ndarray]:
    """The results of *graph*, of one row, for each row."""
    each = [
        evaluate(graph, [x if rows else first for x, first, rows in zip(xs, values[0], which, strict=True)])
        for xs in values
    ]
    return [np.stack(found) for found in zip(*each, strict=True)]


def judge(
    graph: Graph, values: Sequence[Sequence[Any]], which: Sequence[bool], run: Tier = evaluate, rtol: float = 1e-13,
    atol: float = 1e-13,
) -> None:  # fmt: skip
    """*graph* of many rows gives what calls for each row give."""
    many = batched(graph, which, len(values))
    found = run(many, stacked(values, which))
    for ours, theirs in zip(found, row_by_row(graph, values, which), strict=True):
        if ours.ndim < theirs.ndim:  # it is the same in all rows
            ours = np.broadcast_to(ours, theirs.shape)
        assert ours.dtype == theirs.dtype
        if ours.dtype.kind == "f":
            assert_close(ours, theirs, rtol, atol)
        else:
            np.testing.assert_array_equal(ours, theirs)
