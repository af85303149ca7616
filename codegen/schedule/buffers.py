"""Buffer aliasing of the operands of calls.

A reshape, or the first rows of an array, is an alias of its operand's buffer.  An operand that is one constant
throughout, or an iota, has no buffer at all: the call gets the constant, or knows the iteration number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tracer.ir.primitive import LOOP, SCATTER
from ...tracer.ops.control import before_consts
from ..lower.canonical import Canonical, CanonicalOp, Const, Dim, Sym
from .dependences import carries, is_call
from .loop_tree import LibraryCall, Schedule, item_buffers

SMALL = 16  # elements up to which a value of static size in the body of a loop is kept in stack slots


def rows_from(loop: CanonicalOp) -> int:
    """Position of the first of the xs among the operands of a loop."""
    return before_consts(loop.params) + loop.params["consts"] + loop.params["carries"]


def counted(program: Canonical, call: CanonicalOp, position: int) -> CanonicalOp | None:
    """The iota among a loop's xs, if there is one: its row is the iteration number."""
    if call.prim.kind != LOOP or position < rows_from(call):
        return None
    x = call.ins[position]
    producer = program.producers.get(x) if isinstance(x, Sym) else None
    return producer if producer is not None and producer.prim.name == "iota" else None


def elements(program: Canonical, dims: Sequence[Dim]) -> int | None:
    """The number of elements where it is static and small, else None."""
    total = 1
    for d in dims:
        if d not in program.static:
            return None
        total *= program.static[d]
    return total if total <= SMALL else None


def filled(program: Canonical, call: CanonicalOp, position: int) -> Const | None:
    """The constant that fills a scatter's target, a carry's initial value or a small operand of a loop, or None: no
    buffer is made for it."""
    x = call.ins[position]
    if not isinstance(x, Sym):
        return None
    if call.prim.kind == LOOP:
        lead, body = before_consts(call.params), call.params["body"].program
        is_carry = lead + call.params["consts"] <= position < rows_from(call)
        if position < lead or (not is_carry and elements(body, body.inputs[position - lead].dims) is None):
            return None
    elif call.prim.kind != SCATTER or position:
        return None
    producer = program.producers.get(x)
    if producer is not None and producer.prim.name == "broadcast" and isinstance(producer.ins[0], Const):
        return producer.ins[0]
    return None


def buffer_of(program: Canonical, stored: set[Sym], x: Sym) -> Sym:
    """The value whose buffer holds *x* in row-major order: *x* if stored, else the array that it is an alias of."""
    while (
        x not in stored
        and (op := program.producers.get(x)) is not None
        and (op.prim.name == "reshape" or is_first_rows(program, op))
        and isinstance(op.ins[0], Sym)
    ):
        x = op.ins[0]
    return x


def lifetimes(program: Canonical, schedule: Schedule, items: Sequence[Any]) -> dict[Sym, tuple[int, int]]:
    """(the first, the last) of *items* that needs the buffer of each value; *items* are those of the schedule in
    order, where some that run together are a list."""
    found: dict[Sym, tuple[int, int]] = {}
    for position, item in enumerate(items):
        for part in item if isinstance(item, list) else [item]:
            if isinstance(part, LibraryCall):
                used = [buffer_of(program, schedule.stored, x) for x in part.op.ins if isinstance(x, Sym)]
                used += part.op.outs
            else:
                used = item_buffers(schedule.reads, part)
            for sym in used:
                found[sym] = found.get(sym, (position, position))[0], position
    return found


def is_first_rows(program: Canonical, op: CanonicalOp) -> bool:
    """Whether *op* is a slice of whole leading rows of an array that is stored in any case."""
    if op.prim.name != "slice" or not op.out.dims or not isinstance(op.ins[0], Sym):
        return False
    source = program.producers.get(buffer_of(program, set(), op.ins[0]))
    plain = all(n == 0 for n in op.params["start"]) and all(n == 1 for n in op.params["step"])
    kept = source is None or is_call(source) or carries(source)
    return plain and kept and op.out.dims[1:] == op.ins[0].dims[1:]
