"""A schedule -> LLVM IR for the CPU.

Every top-level item of the schedule becomes one function whose buffer arguments are ``noalias`` (LLVM vectorises
without run-time checks); the kernel's entry calls them in order.  ``ItemEmitter`` writes one such function: start
reading at ``loop``, and in ``expressions.py`` at ``value``.

Kernel ABI: ``i64 kernel(ptr bufs, ptr sizes, ptr consts, i64 done)``; bufs are the data pointers of arguments, results,
captured arrays, temporaries; it returns -1, or the number of the first guard that does not hold.  Steps whose bits are
set in *done* are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir

from ...tracer.ir.primitive import RECURRENCE, REDUCE
from ..schedule.affine import add, loop_var
from ..schedule.dependences import carries, domain_indices
from ..schedule.index_maps import Condition
from ..schedule.loop_tree import Loop, ScheduleItem, Statement, loops_of, statements_of
from ..schedule.schedule import SHORT, interior, short
from ..schedule.tiles import TILE
from .expressions import ValueEmitter
from .hints import PLAIN, REPEATED, SCALAR, SIMPLE, UNROLLED, give_hint
from .reductions import CHUNK, Accumulator
from .scalar import I64

MAX_INTERLEAVED = 60  # instructions of a body that LLVM may interleave
MANY_TURNS = 8  # of a loop of known length, which are written out where conditions depend on the turn
MAX_LOOPS = 2  # within a nest, up to which rows of one chunk have loops of their own
MAX_PARTS = 16  # conditions of a loop whose pieces may each have a loop


class ItemEmitter(ValueEmitter):
    """One function of the kernel: a loop nest, or straight-line scalar code."""

    accumulator: type[Accumulator] = Accumulator  # how reductions are kept
    within: Sequence[Loop] = ()  # loops in the outermost one that is being written

    def items(self, body: list[ScheduleItem]) -> None:
        for item in body:
            if isinstance(item, Loop):
                self.loop(item)
            else:
                assert isinstance(item, Statement)
                self.statement(item)

    def loop(self, loop: Loop) -> None:
        depth = len(self.loops)
        if not depth:
            self.within = loops_of(loop)
        if self.range and not depth:
            low, high = self.range
            n = self.b.sub(high, low, flags=("nsw",))
        else:
            low, n = I64(0), self.size(loop.dim)
            high = n
        closing = [s for s in statements_of(loop) if s.complete == depth and carries(s.op)]
        totals = [self.accumulator(self, s) for s in closing]
        for a in totals:
            a.start()
            if a.chunkable and self._chunks(loop, a.statement):
                only = a.statement in loop.body and not loop.segments
                a.begin_partials(n if only else None)
        here = self._innermost(loop)
        direct = [a for a in self.accumulators.values() if a.partial is not None and a.statement in here]
        if loop.segments and depth == 0:
            self._chunked(loop, low, high, direct, TILE)
        elif direct and depth and all(a.length is not None for a in direct):
            self._row(loop, n, direct)
        elif direct:
            self._chunked(loop, low, high, direct, CHUNK)
        else:
            self._split(loop, low, high)
        for a in totals:
            a.close()

    def _row(self, loop: Loop, n: ir.Value, direct: list[Accumulator]) -> None:
        """The loop over a row, in chunks. Most rows are one: it has a loop of its own where there is little else to a
        row, and so little to compile."""
        b = self.b
        if len(self.within) > MAX_LOOPS:
            self._chunked(loop, I64(0), n, direct, CHUNK)
            return
        with b.if_else(b.icmp_signed("<=", n, I64(CHUNK))) as (one, several):
            with one:
                self._split(loop, I64(0), n)
            with several:
                self._chunked(loop, I64(0), n, direct, CHUNK)

    def _innermost(self, loop: Loop) -> list[Statement]:
        """The statements of which *loop* is the innermost loop whose length is not known."""
        if loop.dim in self.program.static:
            return []
        found, items = [], [*loop.body]
        for item in items:
            if isinstance(item, Statement):
                found.append(item)
            elif isinstance(item, Loop) and item.dim in self.program.static:
                items += item.body
        return found

    def _chunks(self, loop: Loop, statement: Statement) -> bool:
        """Whether *statement* is in a loop of unknown length, *loop* or one inside."""
        inner = (item for item in loop.body if isinstance(item, Loop))
        return statement in self._innermost(loop) or any(self._chunks(item, statement) for item in inner)

    def _chunked(self, loop: Loop, low: ir.Value, high: ir.Value, direct: list[Accumulator], length: int) -> None:
        """The loop in pieces of *length*: partial sums are added up piece by piece, and segments take turns."""
        b = self.b
        before = b.block
        head, after = b.append_basic_block("chunk"), b.append_basic_block("chunks_done")
        b.cbranch(b.icmp_signed(">", high, low), head, after)
        b.position_at_end(head)
        lo = b.phi(I64)
        lo.add_incoming(low, before)
        stop = b.add(lo, I64(length), flags=("nsw",))
        hi = b.select(b.icmp_signed("<", stop, high), stop, high)
        outer_tile = self.tile_start
        if loop.segments:
            self.tile_start = lo
        for segment in loop.segments or [loop.body]:
            self._split(Loop(loop.dim, segment), lo, hi)
        self.tile_start = outer_tile
        last = b.icmp_signed(">=", stop, high)
        for a in direct:
            a.end_partial(b.sub(hi, lo, flags=("nsw",)), last)
        lo.add_incoming(stop, b.block)
        b.cbranch(last, after, head)
        b.position_at_end(after)

    def _split(self, loop: Loop, lo: ir.Value, hi: ir.Value) -> None:
        """An innermost loop that reads through pads or shifts, piece by piece.

        A piece goes on for as long as the same conditions hold.  Pieces in which all of them hold, one, or none, have a
        loop of their own without any condition (the parts of an array that was put together from slices).  There,
        conditions that hold in a few iterations only (the ends of a roll) do not hold, and those that fail in a few do.
        All other pieces have one loop, which looks at the conditions in every iteration.
        """
        b, depth = self.b, len(self.loops)
        conditions = interior(self.program, loop, depth, self.schedule.reads)
        if not conditions:
            self._counted(loop, lo, hi)
            return
        spans = [self._span(c, depth) for c in conditions]
        before = b.block
        head, join, after = [b.append_basic_block(name) for name in ("piece", "piece_done", "pieces_done")]
        b.cbranch(b.icmp_signed("<", lo, hi), head, after)
        b.position_at_end(head)
        at = b.phi(I64)
        at.add_incoming(lo, before)
        bits = ir.IntType(len(conditions) + 1)
        stop, held = hi, ir.Constant(bits, 0)
        for k, (begin, end) in enumerate(spans):
            early, late = b.icmp_signed("<", at, begin), b.icmp_signed(">=", at, end)
            change = b.select(early, begin, b.select(late, hi, end))
            stop = b.select(b.icmp_signed("<", change, stop), change, stop)
            inside = b.not_(b.or_(early, late))
            held = b.or_(held, b.shl(b.zext(inside, bits), ir.Constant(bits, k)))
        pieces, few = self._pieces(conditions)
        blocks = [b.append_basic_block("held") for _ in pieces]
        switch = b.switch(held, blocks[-1])
        outside = self.assumed, self.refused
        for (number, given), block in zip(pieces, blocks, strict=True):
            if block is not blocks[-1]:
                switch.add_case(ir.Constant(bits, number), block)
            b.position_at_end(block)
            if given is not None:
                self.assumed = outside[0] | given
                self.refused = outside[1] | (frozenset(conditions) - given)
            self._counted(loop, at, stop, SCALAR if few and block is not blocks[0] else SIMPLE if given is None else "")
            self.assumed, self.refused = outside
            b.branch(join)
        b.position_at_end(join)
        at.add_incoming(stop, join)
        b.cbranch(b.icmp_signed("<", stop, hi), head, after)
        b.position_at_end(after)

    def _pieces(self, conditions: list[Condition]) -> tuple[list[tuple[int, frozenset[Condition] | None]], bool]:
        """(the condition sets, as bit masks, that get a loop of their own, of which None stands for all others;
        whether all but the first are of few iterations)."""
        long = {c: 1 << k for k, c in enumerate(conditions) if not short(self.program, c)}
        almost = frozenset(c for c in long if c[0] == "edge")  # they hold but for a few iterations
        parts = [c for c in long if c not in almost]
        if len(conditions) == len(long) == 1:
            return [(1, frozenset(long)), (0, frozenset())], not parts
        given: dict[int, frozenset[Condition] | None] = {sum(long.values()): frozenset(long)}
        if 0 < len(parts) <= MAX_PARTS:
            given.update((sum(long[c] for c in those), those) for those in [*[almost | {c} for c in parts], almost])
        return [*given.items(), (-1, None)], not parts

    def _span(self, condition: Condition, depth: int) -> tuple[ir.Value, ir.Value]:
        """The range of iterations of the loop at *depth* in which *condition* holds."""
        b = self.b
        _, index, dim = condition
        (coefficient,) = [c for t, c in index.terms if t == ("i", depth)]
        rest = self.index(add(index, loop_var(depth), -coefficient))
        if coefficient == 1:  # 0 <= i + rest < n
            return b.neg(rest), b.sub(self.size(dim), rest)
        return b.add(b.sub(rest, self.size(dim)), I64(1)), b.add(rest, I64(1))  # 0 <= rest - i < n

    def _counted(self, loop: Loop, lo: ir.Value, hi: ir.Value, hint: str = "") -> None:
        b = self.b
        if isinstance(lo, ir.Constant) and isinstance(hi, ir.Constant) and self._decides(loop):
            for k in range(lo.constant, hi.constant):
                b.branch(home := b.append_basic_block("home"))
                b.position_at_end(b.append_basic_block("turn"))
                self._turn(loop, I64(k), home, b.block)
            return
        home, body, after = b.append_basic_block("home"), b.append_basic_block("loop"), b.append_basic_block("done")
        if isinstance(lo, ir.Constant) and isinstance(hi, ir.Constant) and hi.constant > lo.constant:
            b.branch(home)
        else:
            b.cbranch(b.icmp_signed("<", lo, hi), home, after)
        b.position_at_end(body)
        i = b.phi(I64)
        written = self._written()
        i.add_incoming(lo, self._turn(loop, i, home, body))
        following = b.add(i, I64(1), flags=("nuw", "nsw"))
        i.add_incoming(following, b.block)
        back = b.cbranch(b.icmp_signed("<", following, hi), body, after)
        # interleaving hides the latency of accumulators; elsewhere, and in large bodies, it only makes code
        large = self._written() - written > MAX_INTERLEAVED
        kinds = {item.op.prim.kind for item in loop.body if isinstance(item, Statement)}
        if not hint and (large or REDUCE not in kinds or RECURRENCE in kinds):
            hint = SIMPLE
        if loop.dim in self.program.static and self._masked(loop):
            # LLVM 22 vectorises a short loop with masked loads into loads from wrong addresses; unrolled, the masks
            # are decided when it compiles
            hint = UNROLLED
        elif hint == SIMPLE and self.loops and self.program.static.get(loop.dim, SHORT + 1) <= SHORT:
            hint = UNROLLED  # so that the loop around it is vectorised
        inner = loops_of(loop)
        if inner:  # loops of many turns, again for each of this one's, are much code and no faster
            hint = REPEATED if len(inner) > 1 and any(item.dim not in self.program.static for item in inner) else ""
        give_hint(back, hint or PLAIN)
        b.position_at_end(after)

    def _turn(self, loop: Loop, i: ir.Value, home: ir.Block, body: ir.Block) -> ir.Block:
        """The loop's body for index *i*, in blocks from *body* on; what is invariant goes to *home* and the blocks
        behind it, the last of which is returned."""
        before = ir.IRBuilder(home)  # stays open while the body is written
        self.loops.append(i)
        self.homes.append(before)
        self.scopes += [{}, {}]  # the home's, the body's
        self.items(loop.body)
        self.loops.pop()
        self.homes.pop()
        del self.scopes[-2:]
        before.branch(body)
        return before.block

    def _decides(self, loop: Loop) -> bool:
        """Whether the index of a short loop decides what sums inside of it read (the parts of a stack): each turn is
        written out, or they would not be vectorised.  So is each of many turns that read through pads (the columns of
        a gradient that is a sum of slices' parts), which is more than LLVM unrolls."""
        inner = loops_of(loop)
        if self.program.static.get(loop.dim, 0) >= MANY_TURNS and not inner and self._masked(loop):
            return True
        if loop.dim not in self.program.static or any(item.dim in self.program.static for item in inner):
            return False
        sums = [s for item in inner for s in statements_of(item) if carries(s.op)]
        return any(self.schedule.reads[s.out].conditions for s in sums)

    def _masked(self, loop: Loop) -> bool:
        """Whether loads in the loop's own body are conditional, because they read through pads."""
        return any(isinstance(item, Statement) and self.schedule.reads[item.out].conditions for item in loop.body)

    def _written(self) -> int:
        return sum(len(block.instructions) for block in self.function.blocks)

    def statement(self, s: Statement) -> None:
        op = s.op
        at = domain_indices(op)
        if carries(op):
            accumulator = self.accumulators.get(op.out)
            if accumulator is None:  # every reduced axis has size 1
                accumulator = self.accumulator(self, s)
                accumulator.start()
                accumulator.update(at)
                accumulator.close()
            else:
                accumulator.update(at)
            return
        value = self.scopes[-1].get((op.out, at, ()))
        if value is None:
            value = self._compute(op.out, at, (), top=True)
        if op.out not in self.schedule.scalars.at_hand:
            self.store(op.out, at, value)
        self.scopes[-1][(op.out, at, ())] = value
