"""Indexed writes as kernels: ``x[positions] = v`` (the last one wins, as in NumPy), ``x[positions] += v``, and the
largest or smallest of what is there and *v*.

The results do not depend on which thread comes first, in one of these ways (``how_to_write``):

- ``BY_LOOKING``: few positions, whose number is known: each element of the result looks at all of them, in order.
- ``BY_WINNER``: the number of the last write to each row is found by an atomic maximum; each element then takes what
  that write has for it.
- ``BY_ORDER``: sums of floats, which depend on their order, and the largest or smallest: the positions are sorted
  (stably: an ``Order`` step, by the array module), and each element adds up its run of them, found by bisection.
- ``BY_ADDING``: atomic additions: for integers, and for floats where ``Geometry.deterministic`` is off.

An element is a column of a row.  Positions out of bounds are left out: the guard on them fails.
"""

from __future__ import annotations

import math

import llvmlite.ir as ir

from ..cpu.scalar import I64, counting, memory_type
from ..lower.canonical import Canonical, CanonicalOp, Dim, Sym
from ..schedule.buffers import SMALL
from .block_calls import ThreadCalls
from .kernels import KernelEmitter
from .mapping import Geometry

BY_LOOKING, BY_WINNER, BY_ORDER, BY_ADDING = "looking", "winner", "order", "adding"
BEGIN, LOOK, CLEAR, FIND, TAKE, SUM, ADD = "begin", "look", "clear", "find", "take", "sum", "add"


def how_to_write(program: Canonical, op: CanonicalOp, geometry: Geometry) -> str:
    """One of the ways above; "" where no kernel can do it."""
    combines = op.prim.name != "scatter"
    if (combines and op.out.dtype.kind not in "fiu") or not all(isinstance(x, Sym) for x in op.ins[1:]):
        return ""
    positions = math.prod(program.static.get(d, SMALL + 1) for d in op.ins[1].dims)
    if positions <= SMALL:
        return BY_LOOKING
    if not combines:
        return BY_WINNER
    atomic = op.out.dtype.itemsize >= 4 and (op.out.dtype.kind in "iu" or not geometry.deterministic)
    return BY_ADDING if atomic and op.prim.name == "scatter_add" else BY_ORDER


def stages(op: CanonicalOp, how: str) -> list[tuple[str, tuple[Dim, ...]]]:
    """The kernels, in order, each with the dims over which its threads go."""
    elements, values = op.out.dims, op.ins[2].dims
    return {
        BY_LOOKING: [(LOOK, elements)],
        BY_WINNER: [(CLEAR, op.out.dims[:1]), (FIND, op.ins[1].dims), (TAKE, elements)],
        BY_ORDER: [(SUM, elements)],
        BY_ADDING: [(BEGIN, elements), (ADD, values)],
    }[how]


def write_stage(kernel: KernelEmitter, op: CanonicalOp, stage: str, dims: tuple[Dim, ...], helper: list[Sym]) -> None:
    """One kernel.  *helper*: the last write to each row, or the order of the positions."""
    writer = _ScatterWriter(kernel, op, helper[0] if helper else None)
    with kernel.spread(kernel.count(dims)) as place:
        getattr(writer, stage)(place)


class _ScatterWriter(ThreadCalls):
    """Code of one thread for element, row or value number *place*."""

    def __init__(self, kernel: KernelEmitter, op: CanonicalOp, helper: Sym | None):
        super().__init__(kernel.program, kernel.schedule.stored, kernel.b, kernel.pointer.__getitem__, kernel.numbers)
        self.kernel, self.op, self.kind, self.helper = kernel, op, memory_type(op.out.dtype), helper
        self.positions, self.width = self._count(op.ins[1].dims), self._count(op.out.dims[1:])

    def begin(self, place: ir.Value) -> None:
        self._begin(self.op, place)

    def look(self, place: ir.Value) -> None:
        b = self.b
        self._begin(self.op, place)
        row, column = b.udiv(place, self.width), b.urem(place, self.width)
        with counting(b, self.positions) as r, b.if_then(b.icmp_signed("==", self._position_of(r), row)):
            self._write(self.op, r, row, column)

    def clear(self, place: ir.Value) -> None:
        self.b.store(I64(-1), self._helper_at(place))

    def find(self, place: ir.Value) -> None:
        with self._position(self.op, place) as position:
            self.b.atomic_rmw("max", self._helper_at(position), place, "monotonic")

    def take(self, place: ir.Value) -> None:
        b = self.b
        self._begin(self.op, place)
        row, column = b.udiv(place, self.width), b.urem(place, self.width)
        last = b.load(self._helper_at(row), typ=I64)
        with b.if_then(b.icmp_signed(">=", last, I64(0))):
            self._write(self.op, last, row, column)

    def add(self, place: ir.Value) -> None:
        b = self.b
        column = b.urem(place, self.width)
        with self._position(self.op, b.udiv(place, self.width)) as position:
            target = b.add(b.mul(position, self.width), column)
            value = b.load(self._value_at(place), typ=self.kind)
            where = b.gep(self.pointer(self.op.out), [target], source_etype=self.kind)
            b.atomic_rmw("fadd" if self.op.out.dtype.kind == "f" else "add", where, value, "monotonic")

    def sum(self, place: ir.Value) -> None:
        b, kind = self.b, self.kind
        row, column = b.udiv(place, self.width), b.urem(place, self.width)
        start, initial = self._first_from(row), self._initial(self.op, place)
        before, head = b.block, b.append_basic_block("run")
        inside, share, after = (b.append_basic_block(name) for name in ("run_inside", "share", "run_ends"))
        b.branch(head)
        b.position_at_end(head)
        k, total = b.phi(I64), b.phi(kind)
        k.add_incoming(start, before)
        total.add_incoming(initial, before)
        b.cbranch(b.icmp_signed("<", k, self.positions), inside, after)
        b.position_at_end(inside)
        r = b.load(self._helper_at(k), typ=I64)
        b.cbranch(b.icmp_signed("==", self._position_of(r), row), share, after)
        b.position_at_end(share)
        value = b.load(self._value_at(b.add(b.mul(r, self.width), column)), typ=kind)
        k.add_incoming(b.add(k, I64(1)), share)
        total.add_incoming(self._combined(self.op, total, value), share)
        b.branch(head)
        b.position_at_end(after)
        b.store(total, b.gep(self.pointer(self.op.out), [place], source_etype=kind))

    def _first_from(self, row: ir.Value) -> ir.Value:
        """Index in the sorted order of the first position that is not before *row* (bisection)."""
        b = self.b
        before, head, body = b.block, b.append_basic_block("bisect"), b.append_basic_block("halve")
        after = b.append_basic_block("bisected")
        b.branch(head)
        b.position_at_end(head)
        low, high = b.phi(I64), b.phi(I64)
        low.add_incoming(I64(0), before)
        high.add_incoming(self.positions, before)
        b.cbranch(b.icmp_signed("<", low, high), body, after)
        b.position_at_end(body)
        middle = b.lshr(b.add(low, high), I64(1))
        less = b.icmp_signed("<", self._position_of(b.load(self._helper_at(middle), typ=I64)), row)
        low.add_incoming(b.select(less, b.add(middle, I64(1)), low), b.block)
        high.add_incoming(b.select(less, high, middle), b.block)
        b.branch(head)
        b.position_at_end(after)
        return low

    def _value_at(self, place: ir.Value) -> ir.Value:
        return self.b.gep(self._buffer(self.op.ins[2]), [place], source_etype=self.kind)

    def _position_of(self, r: ir.Value) -> ir.Value:
        return self.b.load(self.b.gep(self._buffer(self.op.ins[1]), [r], source_etype=I64), typ=I64)

    def _helper_at(self, place: ir.Value) -> ir.Value:
        assert self.helper is not None
        return self.b.gep(self.pointer(self.helper), [place], source_etype=I64)
