"""A loop nest as a kernel, in LLVM IR.

``KernelEmitter`` is the CPU's ``ItemEmitter`` with its outermost loops run by threads and blocks (``mapping.py``):
start reading at ``nest``.

Kernel ABI: ``void kernel(ptr buffer, ..., ptr sizes, ptr consts)``; buffers are those of ``Kernel.buffers``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import llvmlite.ir as ir

from ..cpu.hints import give_hint
from ..cpu.reductions import Accumulator, accumulating
from ..cpu.scalar import I64, ranging
from ..lower.canonical import Dim, Sym
from ..schedule.dependences import carries, domain, domain_indices, reduced_depths
from ..schedule.loop_tree import Loop, ScheduleItem, Statement, statements_of
from .block_reduce import BlockShare, BlockTotal, ThreadTotal
from .mapping import BLOCK, PART_ROWS, PARTS, SPREAD, Mapping, prefix
from .threads import ThreadEmitter


class KernelEmitter(ThreadEmitter):
    """The emitter of one kernel; ``finish`` ends it."""

    accumulator = ThreadTotal

    # ---- nests ---------------------------------------------------------------------------------------------------

    def nest(self, nest: Loop, mapping: Mapping, shares: dict[Sym, list[Sym]]) -> None:
        """Write *nest*; accumulators that close outside of the units store each block's partial results in *shares*."""
        totals = []
        if mapping.partial:
            closing = [s for s in statements_of(nest) if carries(s.op) and s.complete == 0]
            # at the level of units all threads of a block have added up the same
            spread = [mapping.by != BLOCK or len(s.path) > mapping.loops for s in closing]
            totals = [BlockShare(self, s, shares[s.out], self.block, k) for s, k in zip(closing, spread, strict=True)]
        loops = prefix(nest)[: mapping.loops]
        with accumulating(totals):
            if mapping.by == BLOCK:
                self.units(loops, self.block, self.blocks, lambda: self.cooperate(loops[-1].body))
            elif loops:
                self.over_threads(loops)
            else:
                with self.alone():
                    self.items([nest])

    def over_threads(self, loops: Sequence[Loop]) -> None:
        """The units of *loops*, one at a time for each thread."""
        first = self.b.add(self.b.mul(self.block, self.threads), self.thread)
        self.units(loops, first, self.b.mul(self.threads, self.blocks), lambda: self.items(loops[-1].body))

    def units(
        self, loops: Sequence[Loop], first: ir.Value, step: ir.Value, body: Callable[[], None], hint: str = "", *,
        parts: ir.Value | None = None, end: ir.Value | None = None,
    ) -> None:  # fmt: skip
        """A loop over the iterations of *loops* as one range, from *first* on in steps of *step*, up to *end* of them.

        With *parts*, over the parts of each; ``unit`` and ``part`` are then their numbers.
        """
        b = self.b
        sizes = [self.size(loop.dim) for loop in loops]
        count = self.count([loop.dim for loop in loops])
        if parts is not None:
            count = b.mul(count, parts, flags=("nsw",))
        count = count if end is None else end
        home, head = b.append_basic_block("units"), b.append_basic_block("unit")
        inside, after = b.append_basic_block("inside"), b.append_basic_block("units_done")
        b.cbranch(b.icmp_signed("<", first, count), home, after)
        outside, prologue = ir.IRBuilder(home), ir.IRBuilder(head)
        unit = prologue.phi(I64)
        indices: list[ir.Value] = []
        rest: ir.Value = unit
        if parts is not None:
            self.unit, self.part, rest = unit, prologue.urem(unit, parts), prologue.udiv(unit, parts)
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
        back = b.cbranch(b.icmp_signed("<", following, count), head, after)
        if hint:
            give_hint(back, hint)
        b.position_at_end(after)

    def cooperate(self, body: Sequence[ScheduleItem]) -> None:
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
            with accumulating([BlockTotal(self, s) for s in closing]):
                self.cooperating = False
                self.units([item], self.thread, self.threads, partial(self.items, item.body))
                self.cooperating = True
        self.cooperating = False

    def loop(self, loop: Loop) -> None:
        """A loop that one thread runs."""
        depth = len(self.loops)
        with accumulating([Accumulator(self, s) for s in statements_of(loop) if s.complete == depth and carries(s.op)]):
            self._split(loop, I64(0), self.size(loop.dim))

    # ---- sums over outer axes ------------------------------------------------------------------------------------

    def columns(self, statements: Sequence[Statement], shares: dict[Sym, list[Sym]]) -> None:
        """Each thread: one kept element of each of *statements*, one part of the outermost axis that is summed over."""
        statement = statements[0]
        b, dims, reduced = self.b, domain(statement.op), sorted(reduced_depths(statement.op))
        units, parts = self.count(_kept(statement)), self.parts_of_columns(statement)
        length = self.size(dims[reduced[0]])
        with self.spread(b.mul(units, parts)) as unit:
            part, places = b.udiv(unit, units), self._places(statement, b.urem(unit, units))
            totals = [ThreadTotal(self, s) for s in statements]
            for total in totals:
                total.start()
            self._summed(totals, places, reduced, *self.stretch(length, parts, part))
            for total in totals:
                for buffer, value in zip(shares[total.op.out], total.values(), strict=True):
                    self.put(buffer, unit, value)

    def stretch(self, length: ir.Value, parts: ir.Value, part: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The bounds [low, high) of part number *part* of an axis that is cut in *parts*."""
        b = self.b
        each = b.udiv(b.add(length, b.sub(parts, I64(1))), parts)
        low, high = (b.mul(k, each) for k in (part, b.add(part, I64(1))))
        return low, b.select(b.icmp_signed("<", high, length), high, length)

    def whole_columns(self, statement: Statement) -> None:
        """Each thread of the block: kept elements, from end to end."""
        dims, reduced = domain(statement.op), sorted(reduced_depths(statement.op))
        with self.shared_out(self.count(_kept(statement))) as unit:
            total = ThreadTotal(self, statement)
            total.start()
            self._summed([total], self._places(statement, unit), reduced, I64(0), self.size(dims[reduced[0]]))
            self.put(statement.out, unit, total.values()[-1])

    def _places(self, statement: Statement, unit: ir.Value) -> list[ir.Value]:
        """The position in the domain of kept element number *unit*; reduced axes are 0."""
        b, dims, reduced = self.b, domain(statement.op), reduced_depths(statement.op)
        places: list[ir.Value] = [I64(0)] * len(dims)
        for k in reversed([k for k in range(len(dims)) if k not in reduced]):
            places[k] = b.urem(unit, self.size(dims[k]))
            unit = b.udiv(unit, self.size(dims[k]))
        return places

    def _summed(
        self, totals: Sequence[Accumulator], places: list[ir.Value], axes: Sequence[int], low: ir.Value, high: ir.Value
    ) -> None:
        """The loops over *axes*, the first of which runs from *low* to *high*, around the updates of *totals*."""
        if not axes:
            with self.at(places):
                for total in totals:
                    total.update(domain_indices(total.op))
            return
        with ranging(self.b, low, high, I64(1)) as i:
            places[axes[0]] = i
            inner = self.size(domain(totals[0].op)[axes[1]]) if len(axes) > 1 else I64(0)
            self._summed(totals, places, axes[1:], I64(0), inner)

    @contextmanager
    def at(self, places: list[ir.Value]) -> Iterator[None]:
        """A context with *places* as loop variables, in which nothing is hoisted."""
        saved = self.loops, self.homes, self.scopes
        self.loops, self.homes = places, [self.b] * len(places)
        self.scopes = [{} for _ in range(2 * len(places) + 1)]
        yield
        self.loops, self.homes, self.scopes = saved

    def parts_of_columns(self, statement: Statement) -> ir.Value:
        dims, reduced = domain(statement.op), reduced_depths(statement.op)
        return self.parts(self.count(_kept(statement)), self.size(dims[min(reduced)]))

    def parts(self, units: ir.Value, length: ir.Value, total: int = SPREAD, least: int = PART_ROWS) -> ir.Value:
        """``mapping.parts_of_columns`` of this run's sizes; ``parts_of_rows`` by its own limits."""
        b = self.b
        spread = b.udiv(I64(total), self._at_least_one(units))
        most = b.udiv(b.add(length, I64(least - 1)), I64(least))
        parts = b.select(b.icmp_signed("<", spread, most), spread, most)
        return self._at_least_one(b.select(b.icmp_signed("<", parts, I64(PARTS)), parts, I64(PARTS)))

    def _at_least_one(self, x: ir.Value) -> ir.Value:
        return self.b.select(self.b.icmp_signed("<", x, I64(1)), I64(1), x)

    def count(self, dims: Sequence[Dim]) -> ir.Value:
        return self.numbers.count(self.b, dims)

    # ---- the second stage ------------------------------------------------------------------------------------------

    def combine(self, statement: Statement, shares: Sequence[Sym], count: ir.Value) -> None:
        """One block adds up the *shares* of a reduction, of which there are *count*."""
        total = BlockTotal(self, statement)
        with accumulating([total]), self.shared_out(count) as i:
            total.put(total.merged(total.values(), [self.get(buffer, i) for buffer in shares]))

    def combine_columns(self, statement: Statement, shares: Sequence[Sym]) -> None:
        """Each thread adds up the parts of one kept element."""
        b, units, parts = self.b, self.count(_kept(statement)), self.parts_of_columns(statement)
        with self.spread(units) as unit:
            total = ThreadTotal(self, statement)
            total.start()
            with ranging(b, I64(0), parts, I64(1)) as part:
                place = b.add(b.mul(part, units, flags=("nsw",)), unit, flags=("nsw",))
                total.put(total.merged(total.values(), [self.get(buffer, place) for buffer in shares]))
            self.put(statement.out, unit, total.values()[-1])

    def share_count(self, units: Sequence[Dim], by: str) -> ir.Value:
        """The number of blocks that store a partial result (as ``Extent.launch`` computes it)."""
        b, count = self.b, self.count(units)
        if by != BLOCK:
            count = b.udiv(b.add(count, I64(self.geometry.threads - 1)), I64(self.geometry.threads))
        return self._at_least_one(b.select(b.icmp_signed("<", count, I64(PARTS)), count, I64(PARTS)))


def _kept(statement: Statement) -> list[Dim]:
    """The axes of its domain that a reduction keeps."""
    reduced = reduced_depths(statement.op)
    return [d for k, d in enumerate(domain(statement.op)) if k not in reduced]
