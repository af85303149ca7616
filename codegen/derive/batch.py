"""Batching, graph to graph: a program of one row becomes one of many rows at once, which have one more axis in front.

    found = batch(nodes, {x: xs}, size)      # xs, (size, *x.shape), are the rows of x
    found[y]                                 # the rows of y, (size, *y.shape), for each y that depends on x

No loop goes over the rows: the new axis is one more axis of the same operations, and of the loop nests that come of
them.  What is the same in all rows is computed once.

A *family* of operations has a rule.  That of most follows from the column ``axes`` of the table
(``tracer/ir/axes.py``): the axis in front is independent, and the params are moved by one (``stacked_params``).
Elementwise operations stretch their operands, as NumPy does.  Matrix products, indexed reads and writes, loops and
calls of Python's have rules in the files beside this one, whose names begin alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...tracer.ir.aval import BOOL
from ...tracer.ir.axes import stacked_params
from ...tracer.ir.errors import GraphError
from ...tracer.ir.graph import Atom, Guard, Lit, Node, Var, answered, bind, current_builder, structural
from ...tracer.ir.primitive import CUSTOM, ELEMENTWISE, LAPACK, LOOP
from ...tracer.ops.elementwise import BROADCAST, F
from ...tracer.ops.reduce import reduce
from .batched_calls import custom_rows, host_rows
from .batched_indexing import INDEXED
from .batched_loops import loop_rows
from .batched_products import folded, matmul_rows, sum_rows
from .batched_rows import Rule, StackedRows, behind, in_front


def batch(nodes: Sequence[Node], batched: Mapping[Var, Atom], size: int) -> dict[Var, Atom]:
    """The rows of all values of *nodes* that depend on the Vars in *batched*, which maps them to their rows.

    The rows of a Var are an array with one more axis in front, of length *size*.  Nodes are appended to the builder in
    force; those of *nodes* that depend on nothing batched are not among them, and have to be defined there.
    ShapeError, where an array in *batched* does not have *size* rows of its Var.
    """
    rows = StackedRows(size, batched, batch_into)
    batch_into(nodes, rows)
    return {**{var: in_front(atom, size) for var, atom in rows.same.items()}, **rows.stacked}


def batch_guards(guards: Sequence[Guard], found: Mapping[Var, Atom]) -> list[Guard]:
    """The guards of a batch: that of all rows *found* the answer is the one that is expected of each.

    Guards on what does not depend on the row stay as they are.
    """
    return [_of_all(guard, found) for guard in guards]


def _of_all(guard: Guard, found: Mapping[Var, Atom]) -> Guard:
    rows = found.get(guard.atom) if isinstance(guard.atom, Var) else None
    if rows is None:
        return guard
    if rows.aval.dtype == BOOL:
        held = rows if guard.expected else F.logical_not(rows)
    else:
        held = _alike(rows, np.frombuffer(guard.answer, rows.aval.dtype)[0])
    every = reduce("all", held, (0,))
    said = guard.said or answered(guard.kind, guard.expected, "row")
    return Guard(every, np.True_, guard.kind, guard.site, guard.position, said, guard.answer)


def _alike(rows: Atom, answer: Any) -> Atom:
    """Whether each of *rows* has the bits of the *answer*."""
    expected = Lit(answer, rows.aval.dtype)
    same = F.ne(rows, rows) if answer != answer else F.eq(rows, expected)
    if answer != 0 or not rows.aval.is_float:
        return same
    one = structural(1, rows.aval.dtype)
    return F.logical_and(same, F.eq(F.copysign(one, rows), F.copysign(one, expected)))


# ---- the walk ------------------------------------------------------------------------------------------------------


def batch_into(nodes: Sequence[Node], rows: StackedRows, anew: bool = False) -> None:
    """Enter into *rows* the values of *nodes*, in order; *anew*: also those that are the same in all rows."""
    builder = current_builder()
    outer = builder.site_override
    for node in list(nodes):
        if all(out in rows.stacked for out in node.outs):
            continue
        builder.site_override = node.site or outer
        if not any(rows.differ(node.inputs)):
            if anew or any(a in rows.same for a in node.inputs if isinstance(a, Var)):
                inputs = tuple([rows.one(a) for a in node.inputs])
                rows.same.update(zip(node.outs, builder.emit(node.prim, inputs, node.params), strict=False))
            continue
        found = _rows_of(node, rows)
        for out, x in zip(node.outs, found, strict=False):
            if x is None:
                assert out in rows.same
            elif x.aval.shape == (rows.size, *out.aval.shape):
                rows.stacked[out] = x
            else:
                raise GraphError(f"batching of {node} gave {x.aval}")
    builder.site_override = outer


def _rows_of(node: Node, rows: StackedRows) -> Sequence[Atom | None]:
    prim = node.prim
    if prim.kind == ELEMENTWISE:
        return [_elementwise(node, rows)]
    rule = RULES.get(prim.name)
    if rule is not None:
        return rule(node, rows)
    if prim.kind == LOOP:
        return loop_rows(node, rows)
    if prim.kind == CUSTOM:
        return custom_rows(node, rows)
    if prim.kind == LAPACK:
        found = folded(node, rows)
        if found is not None:
            return [found]
    return [_by_axes(node, rows)]


def _elementwise(node: Node, rows: StackedRows) -> Atom:
    shape = (rows.size, *node.out.aval.shape)
    operands: list[Atom] = []
    for a in node.inputs:
        x = rows.of(a)
        if x is not None:
            operands.append(behind(x, shape))
        elif isinstance(a, Lit):
            operands.append(a)
        else:
            a = rows.one(a)
            dims = tuple(range(len(shape) - a.aval.ndim, len(shape)))
            operands.append(bind(BROADCAST, a, shape=shape, dims=dims))
    params = node.params
    if params.get("weak"):  # rows are no Python numbers
        if operands[0].aval.dtype == params["dtype"]:
            return operands[0]
        params = {name: value for name, value in params.items() if name != "weak"}
    return current_builder().emit(node.prim, tuple(operands), params)[0]


def _by_axes(node: Node, rows: StackedRows) -> Atom:
    """The operation with one more axis in front, which the column ``axes`` has to allow."""
    operands = [rows.whole(a) for a in node.inputs]
    params = stacked_params(node.params, rows.size)
    prim, shape = node.prim, (rows.size, *node.out.aval.shape)
    axes = prim.axes([x.aval.shape for x in operands], shape, params)
    if 0 in axes.across or axes.at(0) != [0] * len(operands) or len(node.outs) > 1:
        raise GraphError(f"{prim.name} has no rule for many rows at once")
    return bind(prim, *operands, **params)


RULES: dict[str, Rule] = {
    "matmul": matmul_rows,
    "matmulz": matmul_rows,
    "reduce_sum": sum_rows,
    "host_call": host_rows,
    **INDEXED,
}
