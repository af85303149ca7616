"""A loop nest as a kernel, in LLVM IR.

``KernelEmitter`` is the CPU's ``ItemEmitter`` with its outermost loops run by threads and blocks (``mapping.py``):
start reading at ``nest``.  What it needs of a GPU are seven functions (``INTRINSICS``): who am I, wait for my block,
what has my neighbour, where is my block's memory.  ``ptx.py`` defines them for a GPU, ``simulator.py`` on the CPU.

Kernel ABI: ``void kernel(ptr buffer, ..., ptr sizes, ptr consts)``; buffers are those of ``Kernel.buffers``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ...tracer.aval import FLOAT_KINDS
from ..canonical import Canonical, Dim, Sym
from ..cpu import Accumulator, ItemEmitter, carries, statements_of
from ..scalar import I32, I64, PTR, Scalars, declare, from_memory, memory_type, register_type, to_memory
from ..schedule import Call, Loop, Schedule, Statement, domain, domain_indices, reduced_depths
from ..views import Indices
from .libdevice import DeviceScalars
from .mapping import BLOCK, PART_ROWS, PARTS, SPREAD, Geometry, Mapping, prefix

VOID = ir.VoidType()
INT = np.dtype("int64")
INTRINSICS: dict[str, tuple[ir.Type, ...]] = {  # result, arguments
    "tg_thread": (I32,),  # my number in my block
    "tg_threads": (I32,),  # threads of a block
    "tg_block": (I32,),  # my block's number
    "tg_blocks": (I32,),
    "tg_barrier": (VOID,),  # all threads of the block have come here, and see what they have written
    "tg_shuffle": (I32, I32, I32),  # (value, mask): the value of the thread in my warp whose number differs by mask
    "tg_shared": (PTR,),  # memory of my block: two 8-byte places for each warp
}


class KernelEmitter(ItemEmitter):
    """One kernel; ``finish`` ends it."""

    scalars = DeviceScalars

    def __init__(
        self, program: Canonical, schedule: Schedule, module: ir.Module, name: str, used: list[Sym],
        geometry: Geometry, aliased: set[Sym] = frozenset(),  # type: ignore[assignment]
    ):  # fmt: skip
        super().__init__(program, schedule, module, name, used)
        self.geometry = geometry
        self.function.linkage = ""
        self.function.attributes.discard("noinline")
        for sym in aliased:  # written by one thread and read by another: no promise that only one of them touches it
            self.pointer[sym].attributes.discard("noalias")
        self.thread, self.threads, self.block, self.blocks = (
            self.entry.zext(self._call(f"tg_{name}", at=self.entry), I64)
            for name in ("thread", "threads", "block", "blocks")
        )
        self.cooperating = False  # all threads of the block are here, with the same values

    # ---- a GPU's own -------------------------------------------------------------------------------------------

    def _call(self, name: str, *args: ir.Value, at: ir.IRBuilder | None = None) -> Any:
        b = at or self.b
        return b.call(declare(b.module, name, *INTRINSICS[name]), args)

    def barrier(self) -> None:
        self._call("tg_barrier")

    def shuffle(self, value: ir.Value, mask: int) -> ir.Value:
        """The *value* of the thread in this warp whose number differs by *mask*."""
        b, kind = self.b, value.type
        if isinstance(kind, (ir.FloatType, ir.DoubleType)):
            whole = ir.IntType(32 if isinstance(kind, ir.FloatType) else 64)
            return b.bitcast(self.shuffle(b.bitcast(value, whole), mask), kind)
        if kind.width == 64:
            low, high = b.trunc(value, I32), b.trunc(b.lshr(value, I64(32)), I32)
            low, high = (self._call("tg_shuffle", part, I32(mask)) for part in (low, high))
            return b.or_(b.shl(b.zext(high, I64), I64(32)), b.zext(low, I64))
        wide = value if kind.width == 32 else b.zext(value, I32)
        moved = self._call("tg_shuffle", wide, I32(mask))
        return moved if kind.width == 32 else b.trunc(moved, kind)

    def first_thread(self) -> Any:
        """A context in which only the block's first thread is."""
        return self.b.if_then(self.b.icmp_signed("==", self.thread, I64(0)))

    def store(self, x: Sym, at: Indices, value: ir.Value) -> None:
        if not self.cooperating:
            super().store(x, at, value)
            return
        with self.first_thread():
            super().store(x, at, value)

    # ---- nests ---------------------------------------------------------------------------------------------------

    def nest(self, nest: Loop, mapping: Mapping, shares: dict[Sym, list[Sym]]) -> None:
        """*shares*: where accumulators that close outside of the units leave what each block has."""
        totals = []
        if mapping.partial:
            closing = [s for s in statements_of(nest) if carries(s.op) and s.complete == 0]
            totals = [BlockShare(self, s, mapping, shares[s.out]) for s in closing]
        for total in totals:
            total.start()
        loops = prefix(nest)[: mapping.loops]
        if mapping.by == BLOCK:
            self.units(loops, self.block, self.blocks, lambda: self._cooperate(loops[-1].body))
        elif loops:
            first = self.b.add(self.b.mul(self.block, self.threads), self.thread)
            self.units(loops, first, self.b.mul(self.threads, self.blocks), lambda: self.items(loops[-1].body))
        else:
            with self.alone():
                self.items([nest])
        for total in totals:
            total.close()

    def alone(self) -> Any:
        """A context in which only the first thread of all is."""
        return self.b.if_then(self.b.icmp_signed("==", self.b.or_(self.block, self.thread), I64(0)))

    def units(
        self, loops: Sequence[Loop], first: ir.Value, step: ir.Value, body: Callable[[], None]
    ) -> None:  # fmt: skip
        """A loop over the iterations of *loops* as one range, from *first* on in steps of *step*."""
        b = self.b
        count: ir.Value = I64(1)
        sizes = [self.size(loop.dim) for loop in loops]
        for size in sizes:
            count = b.mul(count, size, flags=("nsw",))
        home, head = b.append_basic_block("units"), b.append_basic_block("unit")
        inside, after = b.append_basic_block("inside"), b.append_basic_block("units_done")
        b.cbranch(b.icmp_signed("<", first, count), home, after)
        outside, prologue = ir.IRBuilder(home), ir.IRBuilder(head)
        unit = prologue.phi(I64)
        indices: list[ir.Value] = []
        rest: ir.Value = unit
        for size in reversed(sizes[1:]):
            indices.insert(0, prologue.urem(rest, size))
            rest = prologue.udiv(rest, size)
        b.position_at_end(inside)
        self.loops += [rest, *indices]
        self.homes += [outside, *[prologue] * len(indices)]
        self.scopes += [{} for _ in range(2 * len(loops))]
        body()
        del self.loops[-len(loops) :], self.homes[-len(loops) :], self.scopes[-2 * len(loops) :]
        prologue.branch(inside)
        outside.branch(head)
        unit.add_incoming(first, outside.block)
        following = b.add(unit, step, flags=("nsw",))
        unit.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, count), head, after)
        b.position_at_end(after)

    def _cooperate(self, body: Sequence[Loop | Statement | Call]) -> None:
        """One unit, by all threads of the block."""
        depth = len(self.loops)
        self.cooperating = True
        for position, item in enumerate(body):
            if position:
                self.barrier()
            if not isinstance(item, Loop):
                assert isinstance(item, Statement)
                self.statement(item)
                continue
            closing = [s for s in statements_of(item) if s.complete == depth and carries(s.op)]
            totals = [BlockTotal(self, s) for s in closing]
            for total in totals:
                total.start()
            self.cooperating = False
            self.units([item], self.thread, self.threads, partial(self.items, item.body))
            self.cooperating = True
            for total in totals:
                total.close()
        self.cooperating = False

    def loop(self, loop: Loop) -> None:
        """A loop that one thread runs."""
        depth = len(self.loops)
        totals = [Accumulator(self, s) for s in statements_of(loop) if s.complete == depth and carries(s.op)]
        for total in totals:
            total.start()
        self._split(loop, I64(0), self.size(loop.dim))
        for total in totals:
            total.close()

    # ---- sums over outer axes ------------------------------------------------------------------------------------

    def columns(self, statement: Statement, shares: Sequence[Sym]) -> None:
        """Each thread: one kept element, one part of the outermost axis that is summed over."""
        b, op = self.b, statement.op
        dims, reduced = domain(op), sorted(reduced_depths(op))
        kept = [k for k in range(len(dims)) if k not in reduced]
        units, parts = self.count([dims[k] for k in kept]), self.parts_of_columns(statement)
        length = self.size(dims[reduced[0]])
        rows = b.udiv(b.add(length, b.sub(parts, I64(1))), parts)
        with self._spread(b.mul(units, parts)) as unit:
            part, rest = b.udiv(unit, units), b.urem(unit, units)
            places: list[ir.Value] = [I64(0)] * len(dims)
            for k in reversed(kept):
                places[k] = b.urem(rest, self.size(dims[k]))
                rest = b.udiv(rest, self.size(dims[k]))
            total = ThreadTotal(self, statement)
            total.start()
            low = b.mul(part, rows)
            high = b.add(low, rows)
            high = b.select(b.icmp_signed("<", high, length), high, length)
            self._summed(total, places, reduced, low, high)
            for buffer, value in zip(shares, total.values(), strict=True):
                self.put(buffer, unit, value)

    def _summed(
        self, total: Accumulator, places: list[ir.Value], axes: Sequence[int], low: ir.Value, high: ir.Value
    ) -> None:
        """The loops over *axes*, the first of which runs from *low* to *high*, around the update of *total*."""
        if not axes:
            saved = self.loops, self.homes, self.scopes
            # the loops are in another order than their numbers: nothing is taken out of them here
            self.loops, self.homes = places, [self.b] * len(places)
            self.scopes = [{} for _ in range(2 * len(places) + 1)]
            total.update(domain_indices(total.op))
            self.loops, self.homes, self.scopes = saved
            return
        with self._range(low, high, I64(1)) as i:
            places[axes[0]] = i
            inner = self.size(domain(total.op)[axes[1]]) if len(axes) > 1 else I64(0)
            self._summed(total, places, axes[1:], I64(0), inner)

    def parts_of_columns(self, statement: Statement) -> ir.Value:
        """``mapping.parts_of_columns`` of this run's sizes."""
        b, dims, reduced = self.b, domain(statement.op), reduced_depths(statement.op)
        units = self.count([d for k, d in enumerate(dims) if k not in reduced])
        spread = b.udiv(I64(SPREAD), self._at_least_one(units))
        length = self.size(dims[min(reduced)])
        most = b.udiv(b.add(length, I64(PART_ROWS - 1)), I64(PART_ROWS))
        parts = b.select(b.icmp_signed("<", spread, most), spread, most)
        return self._at_least_one(b.select(b.icmp_signed("<", parts, I64(PARTS)), parts, I64(PARTS)))

    def _at_least_one(self, x: ir.Value) -> ir.Value:
        return self.b.select(self.b.icmp_signed("<", x, I64(1)), I64(1), x)

    def count(self, dims: Sequence[Dim]) -> ir.Value:
        total: ir.Value = I64(1)
        for d in dims:
            total = self.b.mul(total, self.size(d), flags=("nsw",))
        return total

    # ---- the second stage ------------------------------------------------------------------------------------------

    def combine(self, statement: Statement, shares: Sequence[Sym], count: ir.Value) -> None:
        """One block adds up the *shares* of a reduction, of which there are *count*."""
        total = BlockTotal(self, statement)
        total.start()
        with self._range(self.thread, count, self.threads) as i:
            total.put(total.merged(total.values(), [self.get(buffer, i) for buffer in shares]))
        self.cooperating = True
        total.close()
        self.cooperating = False

    def combine_columns(self, statement: Statement, shares: Sequence[Sym]) -> None:
        """Each thread adds up the parts of one kept element."""
        b, dims, reduced = self.b, domain(statement.op), reduced_depths(statement.op)
        units = self.count([d for k, d in enumerate(dims) if k not in reduced])
        parts = self.parts_of_columns(statement)
        with self._spread(units) as unit:
            total = ThreadTotal(self, statement)
            total.start()
            with self._range(I64(0), parts, I64(1)) as part:
                place = b.add(b.mul(part, units, flags=("nsw",)), unit, flags=("nsw",))
                total.put(total.merged(total.values(), [self.get(buffer, place) for buffer in shares]))
            self.put(statement.out, unit, total.values()[-1])

    def share_count(self, units: Sequence[Dim], by: str) -> ir.Value:
        """How many blocks left a share: what ``Extent.launch`` says."""
        b, count = self.b, self.count(units)
        if by != BLOCK:
            count = b.udiv(b.add(count, I64(self.geometry.threads - 1)), I64(self.geometry.threads))
        return self._at_least_one(b.select(b.icmp_signed("<", count, I64(PARTS)), count, I64(PARTS)))

    # ---- memory and ranges -----------------------------------------------------------------------------------------

    def put(self, buffer: Sym, place: ir.Value, value: ir.Value) -> None:
        kind = memory_type(buffer.dtype)
        where = self.b.gep(self.pointer[buffer], [place], inbounds=True, source_etype=kind)
        self.b.store(to_memory(self.b, value, buffer.dtype), where)

    def get(self, buffer: Sym, place: ir.Value) -> ir.Value:
        kind = memory_type(buffer.dtype)
        where = self.b.gep(self.pointer[buffer], [place], inbounds=True, source_etype=kind)
        return from_memory(self.b, self.b.load(where, typ=kind), buffer.dtype)

    def _spread(self, count: ir.Value) -> Any:
        """All threads of all blocks over 0 <= i < count."""
        b = self.b
        return self._range(b.add(b.mul(self.block, self.threads), self.thread), count, b.mul(self.threads, self.blocks))

    def _range(self, first: ir.Value, end: ir.Value, step: ir.Value) -> Range:
        return Range(self.b, first, end, step)


class Range:
    """A loop as a context: *first*, *first* + *step*, ... below *end*."""

    def __init__(self, b: ir.IRBuilder, first: ir.Value, end: ir.Value, step: ir.Value):
        self.b, self.first, self.end, self.step = b, first, end, step

    def __enter__(self) -> ir.Value:
        b = self.b
        before, self.body, self.after = b.block, b.append_basic_block("each"), b.append_basic_block("end")
        b.cbranch(b.icmp_signed("<", self.first, self.end), self.body, self.after)
        b.position_at_end(self.body)
        self.i = b.phi(I64)
        self.i.add_incoming(self.first, before)
        return self.i

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            return
        b = self.b
        following = b.add(self.i, self.step, flags=("nsw",))
        self.i.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, self.end), self.body, self.after)
        b.position_at_end(self.after)


# ---- accumulators --------------------------------------------------------------------------------------------------


class ThreadTotal(Accumulator):
    """A reduction in one thread's registers: a value, and for argmax and argmin where it was."""

    e: KernelEmitter

    def __init__(self, emitter: KernelEmitter, statement: Statement):
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
        """Both together; which is which does not matter."""
        b = self.e.b
        if self.where is None:
            return [self.combine(one[0], other[0])]
        s = Scalars(b, self.dtype, self.dtype)

        def better(x: ir.Value, y: ir.Value) -> ir.Value:
            larger = s.cmp(">" if self.op.prim.name == "argmax" else "<", x, y)
            if self.dtype.kind not in FLOAT_KINDS:
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
        self.finish(self.over_block()[-1])

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
        place = e._call("tg_shared")
        dtypes = [self.dtype, INT][: len(values)]

        def cell(k: int, number: ir.Value) -> ir.Value:
            return b.gep(place, [b.add(b.mul(number, I64(2)), I64(k))], source_etype=I64)

        e.barrier()  # what was there is done with
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
    """A block's share of a reduction over all units."""

    def __init__(self, emitter: KernelEmitter, statement: Statement, mapping: Mapping, shares: Sequence[Sym]):
        super().__init__(emitter, statement)
        self.shares = shares
        # at the level of units all threads of a block have added up the same
        self.spread = mapping.by != BLOCK or len(statement.path) > mapping.loops

    def close(self) -> None:
        e = self.e
        del e.accumulators[self.op.out]
        values = self.over_block() if self.spread else self.values()
        with e.first_thread():
            for buffer, value in zip(self.shares, values, strict=True):
                e.put(buffer, e.block, value)


KernelEmitter.accumulator = ThreadTotal


def partial_dtypes(statement: Statement) -> list[np.dtype]:
    """The dtypes of what a reduction leaves for its second stage."""
    dtype = statement.op.ins[0].dtype
    return [dtype, INT] if statement.op.prim.name in ("argmax", "argmin") else [dtype]


__all__ = ["INTRINSICS", "KernelEmitter", "partial_dtypes"]
