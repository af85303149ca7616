"""Loops: ``loop`` runs a body once for each row of its operands, whatever their number.

The body is a graph of its own; it stands in the params:

    body(consts..., carries..., rows of xs...) -> new carries..., rows of ys...

Operands of the node are the consts (the same in every step), the carries as they start, and the xs, whose axis 0 has
*length* rows.  Results are the carries after the last step, then the ys, stacked along axis 0.  With *reverse* the
steps go from the last row to the first; row i of the ys still belongs to row i of the xs.

The derivative takes a derivative of the body, so it stands with the adjoint (``codegen/loop_adjoint.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..aval import Aval
from ..errors import GraphError
from ..evaluate import read, run_nodes
from ..ir import Atom, Graph, Node, Var, current_builder
from ..primitive import LOOP, Primitive, register


class Parts(NamedTuple):
    """A sequence that goes with the inputs of a loop, taken apart."""

    consts: Sequence[Any]
    carries: Sequence[Any]
    xs: Sequence[Any]


def parts(items: Sequence[Any], consts: int, carries: int) -> Parts:
    return Parts(items[:consts], items[consts : consts + carries], items[consts + carries :])


def loop_parts(node: Node) -> tuple[Graph, Parts, Parts]:
    """(body, its inputs, the node's operands)"""
    body, consts, carries = node.params["body"], node.params["consts"], node.params["carries"]
    return body, parts(body.inputs, consts, carries), parts(node.inputs, consts, carries)


def _same(a: Aval, b: Aval) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape


def _infer(*avals: Aval, body: Graph, consts: int, carries: int, length: int, reverse: bool) -> tuple[Aval, ...]:
    if len(avals) != len(body.inputs) or consts + carries > len(avals) or len(body.outputs) < carries:
        raise GraphError(f"loop of {len(avals)} operands over a body of {len(body.inputs)}")
    if body.consts or body.guards:
        raise GraphError("the body of a loop has no arrays of its own, and no guards")
    given, inner = parts(avals, consts, carries), parts([v.aval for v in body.inputs], consts, carries)
    for outside, inside in zip([*given.consts, *given.carries], [*inner.consts, *inner.carries], strict=True):
        if not _same(outside, inside):
            raise GraphError(f"loop: an operand is {outside}, in the body {inside}")
    for outside, inside in zip(given.xs, inner.xs, strict=True):
        if not _same(outside, Aval(inside.dtype, (length, *inside.shape))):
            raise GraphError(f"loop of {length} steps: an operand of rows is {outside}, in the body {inside}")
    for before, after in zip(inner.carries, body.outputs, strict=False):
        if not _same(before, after.aval):
            raise GraphError(f"loop: a carry begins a step as {before} and ends it as {after.aval}")
    finals = [Aval(a.dtype, a.shape) for a in given.carries]
    stacked = [Aval(y.aval.dtype, (length, *y.aval.shape)) for y in body.outputs[carries:]]
    return (*finals, *stacked)


def _impl(*values: Any, body: Graph, consts: int, carries: int, length: int, reverse: bool) -> Any:
    given = parts([np.asarray(v) for v in values], consts, carries)
    state = list(given.carries)
    ys = [np.empty((length, *y.aval.shape), y.aval.dtype) for y in body.outputs[carries:]]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        rows = [x[i] for x in given.xs]
        env = dict(zip(body.inputs, [*given.consts, *state, *rows], strict=True))
        run_nodes(body.nodes, env)
        results = [read(env, out) for out in body.outputs]
        state = results[:carries]
        for y, row in zip(ys, results[carries:], strict=True):
            y[i] = row
    outs = [*state, *ys]
    return outs[0] if len(outs) == 1 else tuple(outs)


def _rule(*_: Any, **__: Any) -> Any:
    raise GraphError("the derivative of a loop is taken by codegen/loop_adjoint.py")


# vjp: only to say that there is one
LOOP_OVER: Primitive = register(Primitive("loop", LOOP, _impl, _infer, vjp=_rule, jvp=_rule, sizes=("length",)))


def loop(
    body: Graph, consts: Sequence[Atom], inits: Sequence[Atom], xs: Sequence[Atom], length: int, reverse: bool = False
) -> tuple[Var, ...]:
    """The results of *body* run *length* times: final carries, then stacked ys."""
    if not body.outputs:
        return ()
    params = {"body": body, "consts": len(consts), "carries": len(inits), "length": length, "reverse": reverse}
    return current_builder().emit(LOOP_OVER, (*consts, *inits, *xs), params)


def add_results(node: Node, rows: Sequence[Atom]) -> list[Var]:
    """Stacked values of *rows*, which are values of the body of the loop *node*, as further results of it.

    The node itself grows: its earlier results stay what they were, and forward pass and adjoint share one loop.
    """
    body, carries = node.params["body"], node.params["carries"]
    found = []
    for row in rows:
        known = [k for k, y in enumerate(body.outputs) if k >= carries and y is row]
        if not known:
            known = [len(body.outputs)]
            body = Graph(body.inputs, body.nodes, [*body.outputs, row])
            node.outs = (*node.outs, Var(Aval(row.aval.dtype, (node.params["length"], *row.aval.shape))))
            current_builder().claim(node.outs[-1:])
        found.append(node.outs[known[0]])
    node.params = {**node.params, "body": body}
    return found


__all__ = ["LOOP_OVER", "Parts", "add_results", "loop", "loop_parts", "parts"]
