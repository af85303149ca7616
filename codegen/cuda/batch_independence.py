"""Batch independence of loops: trajectories that do not depend on each other, each of which one thread can run.

``batch_of`` proves it for one axis of a loop, from the operations of its body: each maps index i of the axis to index
i and to nothing else.  ``one_of`` is then the program of one trajectory: the body with that axis of size 1.  What is
small for one trajectory is a value in registers there, however many trajectories there are.

One thing may go across trajectories: a number that is carried and only added to, or a flag that is asked in each step,
with a reduction over all of them (``sums_of``).  Each trajectory then carries its own, and a kernel after the loop adds
them up.

A *batch* is a set of dims: the body of a loop has its own table of sizes, in which the axis may have several numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...tracer.ir.data_classes import NamedTuple
from ...tracer.ir.primitive import ELEMENTWISE, LOOP, SCATTER
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.ops.control import before_consts, before_rows
from ..lower.canonical import ONE, Body, Canonical, CanonicalOp, Dim, Operand, Sym
from ..schedule.buffers import rows_from

Batch = frozenset[Dim]


class Trajectories(NamedTuple):
    """The axis of a loop's trajectories, all dims that stand for it (around the loop), and sums over trajectories."""

    dim: Dim
    axes: Batch
    sums: dict[int, list[CanonicalOp]]


def batch_of(op: CanonicalOp) -> Trajectories | Reason:
    """The axis of the loop *op* along which its trajectories are independent, or the reason why there is none."""
    reasons = []
    for dim in _candidates(op):
        batch, inner = closed(op, frozenset({dim}))
        sums = sums_of(op, inner)
        why = dependence(op, batch, {part for parts in sums.values() for part in parts})
        if why is None:
            return Trajectories(dim, batch, sums)
        reasons.append(why.within(f"not for each index of n{dim}: "))
    return reasons[0] if reasons else Refusal.KERNEL_NO_AXIS()


def _candidates(op: CanonicalOp) -> list[Dim]:
    """The first axes of carries and of rows."""
    rows = before_rows(op.params)
    dims = [_leading(out.dims) for out in op.outs[: op.params["carries"]]]
    dims += [_leading(out.dims[1:]) for out in op.outs[rows:]]
    return list(dict.fromkeys(d for d in dims if d not in (ONE, op.params["length"])))


def _leading(dims: Sequence[Dim]) -> Dim:
    return next((d for d in dims if d != ONE), ONE)


def pairs(op: CanonicalOp) -> list[tuple[tuple[Dim, ...], Sym]]:
    """Operands and results of a loop: (dims around the loop, without the row axis; value in the body)."""
    program = op.params["body"].program
    lead, stops, rows = before_consts(op.params), int(op.params["stops"]), before_rows(op.params)
    found: list[tuple[tuple[Dim, ...], Any]] = []
    for k, inside in enumerate(program.inputs):
        dims = op.ins[lead + k].dims
        found.append((dims[1:] if lead + k >= rows_from(op) else dims, inside))
    found += [(op.outs[k].dims, program.outputs[stops + k]) for k in range(op.params["carries"])]
    found += [(op.outs[k].dims[1:], program.outputs[k]) for k in range(rows, len(op.outs))]
    return found


def closed(op: CanonicalOp, batch: Batch) -> tuple[Batch, Batch]:
    """*batch*, dims of the program around the loop *op*, with all that are as long; and the same in its body.

    An operand is as long inside the body as outside, a carry as long at the start of a step as at its end.
    """
    program, first = op.params["body"].program, op.params["consts"]
    ends = zip(program.inputs[first:], program.outputs[op.params["stops"] :][: op.params["carries"]], strict=False)
    same = [(x.dims, y.dims) for x, y in ends]
    outer, inner = set(batch), set[Dim]()
    while True:
        before = len(outer) + len(inner)
        for dims, sym in pairs(op):
            for outside, inside in zip(dims, sym.dims, strict=True):
                if outside in outer or inside in inner:
                    outer.add(outside)
                    inner.add(inside)
        for begin, end in same:
            for axes in zip(begin, end, strict=True):
                inner.update(axes if inner.intersection(axes) else ())
        for part in program.ops:
            if part.prim.kind == LOOP:
                inner |= closed(part, frozenset(inner))[0]
        if len(outer) + len(inner) == before:
            return frozenset(outer), frozenset(inner)


def inner_batch(op: CanonicalOp, batch: Batch) -> Batch:
    """The *batch* of the program around the loop *op*, by the sizes of its body."""
    return closed(op, batch)[1]


def in_batch(dims: Iterable[Dim], batch: Batch) -> bool:
    return any(d in batch for d in dims)


def dependence(op: CanonicalOp, batch: Batch, but: Container[CanonicalOp] = ()) -> Reason | None:
    """The reason why the trajectories of the loop *op* depend on each other, or on their order in memory; None if
    they don't, or only by the operations *but*."""
    if op.params["length"] in batch:
        return Refusal.KERNEL_STEPS()
    for dims, _ in pairs(op):
        if in_batch(dims, batch) and _leading(dims) not in batch:
            return Refusal.KERNEL_INSIDE()
    program, inner = op.params["body"].program, inner_batch(op, batch)
    for part in program.ops:
        if any(sum(d in inner for d in x.dims) > 1 for x in (*part.ins, *part.outs)):
            return Refusal.KERNEL_TWICE(operation=part.prim.name)
        why = None if part in but else _across(part, inner)
        if why is not None:
            return why
    return None


def _across(op: CanonicalOp, batch: Batch) -> Reason | None:
    """The reason why index i of *op*'s result depends on more than index i of its operands, or None."""
    if op.prim.kind == ELEMENTWISE or not any(in_batch(x.dims, batch) for x in (*op.ins, *op.outs)):
        return None
    if op.prim.kind == LOOP:
        return dependence(op, batch)
    axes, place = op.axes, _place(op.out, batch)
    alone = place is not None and place not in axes.across and axes.at(place) == [_place(x, batch) for x in op.ins]
    return None if alone and op.prim.kind != SCATTER else Refusal.KERNEL_ACROSS(operation=op.prim.name)


def _place(x: Operand, batch: Batch) -> int | None:
    """The batch axis of *x*, or None."""
    return next((a for a, d in enumerate(x.dims) if d in batch), None)


# ---- what is added up over trajectories ----------------------------------------------------------------------------

_MERGES = {"reduce_sum": "add", "reduce_and": "logical_and", "reduce_or": "logical_or"}


def sums_of(op: CanonicalOp, batch: Batch) -> dict[int, list[CanonicalOp]]:
    """The carries that are single numbers to which each step only adds reductions over *batch*, by number.

    *batch* is by the sizes of the body.  "Adds" is what goes with the reduction: it is the same in any order.
    """
    program, first = op.params["body"].program, op.params["consts"]
    uses = Counter(x for part in program.ops for x in part.ins if isinstance(x, Sym))
    uses.update(x for x in program.outputs if isinstance(x, Sym))
    found: dict[int, list[CanonicalOp]] = {}
    for k in range(op.params["carries"]):
        begin, end = program.inputs[first + k], program.outputs[op.params["stops"] + k]
        parts: list[CanonicalOp] = []
        names: set[str] = set()
        leaves = [end]
        begins = 0
        while leaves:
            x = leaves.pop()
            made = program.producers.get(x) if isinstance(x, Sym) and uses[x] == 1 else None
            if x is begin and uses[begin] == 1:
                begins += 1
            elif made is not None and made.prim.name in _MERGES and in_batch(made.ins[0].dims, batch):
                parts.append(made)
                names.add(_MERGES[made.prim.name])
            elif made is not None and made.prim.name in _MERGES.values():
                names.add(made.prim.name)
                leaves += made.ins
            else:
                break
        else:
            if begins == 1 and parts and len(names) == 1 and not begin.dims:
                found[k] = parts
    return found


# ---- the program of one trajectory -------------------------------------------------------------------------------


def one_of(op: CanonicalOp, batch: Batch) -> CanonicalOp:
    """The loop *op* for one index of *batch*: operands and results as they are, its body without that axis."""
    body: Body = op.params["body"]
    program = _without(body.program, inner_batch(op, batch))
    return replace(op, params={**op.params, "body": replace(body, program=program)})


def _without(program: Canonical, batch: Batch) -> Canonical:
    """*program* with the axes of *batch* of size 1."""
    known: dict[Sym, Sym] = {}

    def moved(x: Any) -> Any:
        if not isinstance(x, Sym):
            return x
        if x not in known:
            known[x] = Sym(x.number, x.dtype, tuple(ONE if d in batch else d for d in x.dims))
        return known[x]

    ops = []
    for op in program.ops:
        params = one_of(op, batch).params if op.prim.kind == LOOP else op.params
        ins, more = tuple(map(moved, op.ins)), tuple(map(moved, op.more))
        ops.append(replace(op, ins=ins, out=moved(op.out), more=more, params=params))
    inputs, outputs = [moved(x) for x in program.inputs], [moved(x) for x in program.outputs]
    producers = {out: op for op in ops for out in op.outs}
    return replace(program, inputs=inputs, ops=ops, outputs=outputs, producers=producers)
