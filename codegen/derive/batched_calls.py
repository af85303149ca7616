"""Functions of Python's, and values with a derivative of their own, for many rows at once.

A function that runs on arrays between kernels (``tracer/ops/host_call.py``) is called for one row after the other,
within one call.  A derivative rule is one of rows: it is run on values that stand for one row, and what it appends is
batched in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...tracer.ir.aval import Aval
from ...tracer.ir.graph import Atom, Lit, Node, Var, current_builder
from ...tracer.ir.primitive import PRIMITIVES
from ...tracer.ops.custom import custom_vjp
from ...tracer.ops.reduce import reduce
from ...tracer.ops.shape import reshape, slice_axis, zeros
from .batched_rows import Rows, in_front


def custom_rows(node: Node, rows: Rows) -> Sequence[Atom]:
    count = node.params["count"]
    values, operands = node.inputs[:count], node.inputs[count:]
    given: Any = [rows.whole(v) for v in values]
    rule = _rule_of_rows(node.params["rule"], node.outs, operands, rows)
    return custom_vjp(given, [_known(x, rows) for x in operands], rule)


def _known(x: Atom, rows: Rows) -> Atom:
    found = rows.of(x)
    return rows.one(x) if found is None else found


def _rule_of_rows(rule: Callable[..., Any], values: Sequence[Atom], operands: Sequence[Atom], rows: Rows) -> Any:
    """The derivative *rule* of one row, as one of all rows at once.

    Cotangents of operands that are the same in all rows are sums over the rows."""
    differ = rows.differ(operands)

    def apply(cotangents: Sequence[Atom | None], outs: Sequence[Var], given: Sequence[Atom]) -> list[Any]:
        inside = rows.within({}, {}, None)

        def row(x: Atom | None, of: Atom) -> Atom | None:
            return None if x is None else _one_row(x, of.aval, inside)

        rates = [row(ct, v) for ct, v in zip(cotangents, values, strict=True)]
        results = [row(out, v) for out, v in zip(outs, values, strict=True)]
        inner = [row(x, a) if d else x for x, a, d in zip(given, operands, differ, strict=False)]
        return _cotangents(rule, (rates, results, inner), differ, inside)

    return apply


def _cotangents(rule: Callable[..., Any], row: Any, differ: Sequence[bool], inside: Rows) -> list[Any]:
    builder = current_builder()
    start = len(builder.nodes)
    found = [ct() if callable(ct) else ct for ct in rule(*row)]
    inside.enter(builder.nodes[start:])
    whole = [None if ct is None else inside.whole(ct) for ct in found]
    return [ct if d or ct is None else reduce("sum", ct, (0,)) for ct, d in zip(whole, differ, strict=True)]


def _one_row(xs: Atom, aval: Aval, inside: Rows) -> Var:
    """A value that stands for one of the rows *xs*: the first, under a name of its own."""
    if isinstance(xs, Lit):
        xs = in_front(xs, inside.size)
    first = reshape(slice_axis(xs, 0, 0, 1), aval.shape) if inside.size else zeros(aval.shape, aval.dtype)
    builder = current_builder()
    var = Var(Aval(aval.dtype, aval.shape))
    builder.append(Node(PRIMITIVES["alias"], (first,), {}, (var,), builder.site()))
    inside.stacked[var] = xs
    return var


def host_rows(node: Node, rows: Rows) -> Sequence[Atom | None]:
    function, caught = node.params["function"], node.params["caught"]
    differ = function.by_operand(rows.differ(node.inputs))
    lanes = function.by_lane(differ)
    operands = [rows.whole(x) if d else rows.one(x) for x, d in zip(node.inputs, lanes, strict=True)]
    masked = rows.alive is not None
    if rows.alive is not None:
        operands.append(rows.alive)
    rule = _rule_of_rows(function.rule, node.outs[: len(function.results)], node.inputs, rows)
    made = function.for_rows(rows.size, differ, masked, lambda cts, outs, xs: [*rule(cts, outs, xs), *[None] * masked])
    found = current_builder().emit(node.prim, tuple(operands), {"function": made, "caught": caught})
    if caught:
        rows.same[node.outs[-1]] = found[-1]
        return [*found[:-1], None]
    return found
