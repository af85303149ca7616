"""Reductions in the registers of threads: of one thread, of a block, of all blocks.

``ThreadTotal`` is the CPU's ``Accumulator`` in registers.  A ``BlockTotal`` is shared by the threads of a block: each
adds up its part, then the parts are put together by shuffles within warps, and over warps by way of the block's
memory.  Where the sum goes on over blocks, each of them leaves a ``BlockShare``.
"""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir
import numpy as np

from ..cpu.reductions import Accumulator
from ..cpu.scalar import I64, Scalars, from_memory, memory_type, register_type, to_memory
from ..lower.canonical import Sym
from ..schedule.loop_tree import Statement
from .threads import ThreadEmitter

INT = np.dtype("int64")


class ThreadTotal(Accumulator):
    """A reduction in one thread's registers: a value, and for argmax and argmin its position."""

    e: ThreadEmitter

    def __init__(self, emitter: ThreadEmitter, statement: Statement):
        super().__init__(emitter, statement)
        self.in_register = True

    def values(self) -> list[ir.Value]:
        b = self.e.b
        held = [b.load(self.slot, typ=register_type(self.dtype))]
        return held if self.where is None else [*held, b.load(self.where, typ=I64)]

    def put(self, values: Sequence[ir.Value]) -> None:
        self.e.b.store(values[0], self.slot)
        if self.where is not None:
            self.e.b.store(values[1], self.where)

    def merged(self, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
        """The combination of two accumulators (commutative)."""
        b = self.e.b
        if self.where is None:
            return [self.combine(one[0], other[0])]
        s = Scalars(b, self.dtype, self.dtype)

        def better(x: ir.Value, y: ir.Value) -> ir.Value:
            larger = s.cmp(">" if self.op.prim.name == "argmax" else "<", x, y)
            if self.dtype.kind != "f":
                return larger
            return b.or_(larger, b.and_(s.isnan(x), b.not_(s.isnan(y))))

        earlier = b.icmp_signed("<", other[1], one[1])
        chosen = b.or_(better(other[0], one[0]), b.and_(earlier, b.not_(better(one[0], other[0]))))
        return [b.select(chosen, y, x) for x, y in zip(one, other, strict=True)]

    def extreme(self, largest: bool, x: ir.Value, y: ir.Value) -> ir.Value:
        b = self.e.b
        s = Scalars(b, self.dtype, self.dtype)
        chosen = b.or_(s.cmp(">" if largest else "<", x, y), s.isnan(x))
        return b.select(chosen, x, y)


class BlockTotal(ThreadTotal):
    """A reduction that the threads of a block share: all have the result."""

    def close(self) -> None:
        del self.e.accumulators[self.op.out]
        value = self.over_block()[-1]
        before, self.e.cooperating = self.e.cooperating, True
        self.finish(value)
        self.e.cooperating = before

    def over_block(self) -> list[ir.Value]:
        """The values of all threads together, by warps and then over them."""
        e, warp = self.e, self.e.geometry.warp
        values = self._over_warp(self.values())
        b = e.b
        before = b.block
        several, after = b.append_basic_block("warps"), b.append_basic_block("block_total")
        b.cbranch(b.icmp_signed(">", e.threads, I64(warp)), several, after)
        b.position_at_end(several)
        mine, lane = b.udiv(e.thread, I64(warp)), b.urem(e.thread, I64(warp))
        place = e.intrinsic("tg_shared")
        dtypes = [self.dtype, INT][: len(values)]

        def cell(k: int, number: ir.Value) -> ir.Value:
            return b.gep(place, [b.add(b.mul(number, I64(2)), I64(k))], source_etype=I64)

        e.barrier()  # all have read the earlier contents
        with b.if_then(b.icmp_signed("==", lane, I64(0))):
            for k, value in enumerate(values):
                b.store(to_memory(b, value, dtypes[k]), cell(k, mine))
        e.barrier()
        there = b.icmp_signed("<", lane, b.udiv(e.threads, I64(warp)))
        inside = b.select(there, lane, I64(0))
        none = [self.identity(), I64(0)]
        found = []
        for k, dtype in enumerate(dtypes):
            loaded = from_memory(b, b.load(cell(k, inside), typ=memory_type(dtype)), dtype)
            found.append(b.select(there, loaded, none[k]))
        over = self._over_warp(found)
        ended = b.block
        b.branch(after)
        b.position_at_end(after)
        result = []
        for one, whole in zip(values, over, strict=True):
            phi = b.phi(one.type)
            phi.add_incoming(one, before)
            phi.add_incoming(whole, ended)
            result.append(phi)
        return result

    def _over_warp(self, values: list[ir.Value]) -> list[ir.Value]:
        mask = self.e.geometry.warp // 2
        while mask:
            values = self.merged(values, [self.e.shuffle(v, mask) for v in values])
            mask //= 2
        return values


class BlockShare(BlockTotal):
    """A block's share of a reduction that goes on over other blocks, which it leaves at *place* of *shares*.

    *spread*: the threads have added up different things; else all the same.
    """

    def __init__(
        self, emitter: ThreadEmitter, statement: Statement, shares: Sequence[Sym], place: ir.Value, spread: bool = True
    ):  # fmt: skip
        super().__init__(emitter, statement)
        self.shares, self.place, self.spread = shares, place, spread

    def close(self) -> None:
        e = self.e
        del e.accumulators[self.op.out]
        values = self.over_block() if self.spread else self.values()
        with e.first_thread():
            for buffer, value in zip(self.shares, values, strict=True):
                e.put(buffer, self.place, value)


def partial_dtypes(statement: Statement) -> list[np.dtype]:
    """The dtypes of a reduction's partial results."""
    dtype = statement.op.ins[0].dtype
    return [dtype, INT] if statement.op.prim.name in ("argmax", "argmin") else [dtype]
