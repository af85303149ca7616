"""Addresses of the values of a loop node: outer buffers, stack slots, rows of stacked arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import llvmlite.ir as ir

from ..lower.canonical import Body, Canonical, CanonicalOp, Const, Operand, Sym
from ..schedule.buffers import buffer_of
from ..schedule.loop_tree import Loop, Schedule, Statement
from .expressions import Numbers
from .hints import SIMPLE
from .loop_plan import LoopPlan
from .scalar import I8, I64, PTR, counting, memory_type, to_memory


@dataclass(eq=False)
class Frame:
    """Context for emitting schedule items: builder, entry block, and the lookup of buffers."""

    program: Canonical
    schedule: Schedule
    plans: dict[CanonicalOp, LoopPlan]
    b: ir.IRBuilder
    entry: ir.IRBuilder
    pointer: Callable[[Sym], ir.Value]
    sizes: ir.Value
    consts: ir.Value
    numbers: Numbers

    def used(self, body: Sequence[Loop | Statement]) -> list[Sym]:
        """The stored values that *body* reads or writes."""
        return self.schedule.buffers(*body)

    def each(self, count: ir.Value) -> AbstractContextManager[ir.Value]:
        """A loop over 0 <= i < count, in any order."""
        return counting(self.b, count, SIMPLE)


class LoopValues:
    """The values of the loop of *plan*, whose node is one of *frame*."""

    frame: Frame

    def __init__(self, frame: Frame, plan: LoopPlan):
        self.frame, self.plan = frame, plan
        self.b, self.entry = frame.b, frame.entry
        body: Body = plan.op.params["body"]
        self.sizes = frame.entry.gep(frame.sizes, [I64(body.sizes_at)], source_etype=I64)
        self.consts = frame.entry.gep(frame.consts, [I64(8 * body.consts_at)], source_etype=I8)
        self.numbers = Numbers(plan.program, frame.entry, self.sizes, self.consts)
        self.pointers: dict[Sym, ir.Value] = {}

    def pointer(self, sym: Sym) -> ir.Value:
        found = self.pointers.get(sym)
        return self.frame.pointer(sym) if found is None else found

    def outside(self, x: Sym) -> ir.Value:
        return self.frame.pointer(buffer_of(self.frame.program, self.frame.schedule.stored, x))

    def result(self, k: int) -> ir.Value:
        """Buffer of result *k* of the loop."""
        return self.frame.pointer(self.plan.op.outs[k])

    def slots(self, sym: Sym, size: int) -> ir.Value:
        slots = self.entry.alloca(ir.ArrayType(memory_type(sym.dtype), size))
        slots.type = PTR  # llvmlite makes it a pointer to the array, and takes no element's address of that
        return slots

    def count(self, sym: Operand) -> ir.Value:
        return self.numbers.count(self.b, sym.dims)

    def stride(self, sym: Operand) -> ir.Value:
        """Elements from one row *sym* of xs or ys to the next."""
        return self.count(sym)

    def row(self, base: ir.Value, sym: Operand, row: ir.Value) -> ir.Value:
        offset = self.b.mul(row, self.stride(sym), flags=("nsw",))
        return self.b.gep(base, [offset], inbounds=True, source_etype=memory_type(sym.dtype))

    def load_small(self, x: Operand, inside: Sym, slots: ir.Value, size: int, fill: Const | None) -> None:
        constant = x if isinstance(x, Const) else fill
        if constant is None:
            assert isinstance(x, Sym)
            self.copy_small(self.outside(x), slots, inside, size)
            return
        value = to_memory(self.b, self.frame.numbers.const(constant), constant.dtype)
        kind = memory_type(inside.dtype)
        for e in range(size):
            self.b.store(value, self.b.gep(slots, [I64(e)], inbounds=True, source_etype=kind))

    def copy_small(self, source: ir.Value, target: ir.Value, sym: Sym, size: int) -> None:
        b, kind = self.b, memory_type(sym.dtype)
        values = [b.load(b.gep(source, [I64(e)], inbounds=True, source_etype=kind), typ=kind) for e in range(size)]
        for e, value in enumerate(values):
            b.store(value, b.gep(target, [I64(e)], inbounds=True, source_etype=kind))
