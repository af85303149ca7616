"""A schedule -> LLVM IR for the CPU.

Every top-level item of the schedule becomes one function whose buffer arguments are ``noalias`` (LLVM vectorises
without run-time checks); the kernel's entry calls them in order.  ``ItemEmitter`` writes one such function: start
reading at ``loop`` and ``value``.

Kernel ABI: ``i64 kernel(ptr bufs, ptr sizes, ptr consts, i64 done)``; bufs are the data pointers of arguments, results,
captured arrays, temporaries; it returns -1, or the number of the first guard that does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ..tracer.aval import FLOAT_KINDS
from ..tracer.primitive import ELEMENTWISE, RECURRENCE, REDUCE
from .canonical import ONE, Canonical, Const, Dim, Op, Operand, Sym
from .index import ZERO, Index, add, depends_on, loop_var
from .loop_tree import Call, Loop, Schedule, Statement
from .reads import domain_indices, reduced_depths
from .scalar import (
    F64,
    I1,
    I8,
    I64,
    PTR,
    Scalars,
    constant,
    counting,
    declare,
    from_memory,
    lower,
    memory_type,
    register_type,
    to_memory,
)
from .schedule import interior
from .tiles import TILE
from .views import Alternative, Condition, Indices, known, read

LOOP_HINT = "tg.loop."  # marks metadata that `finish_hints` turns into LLVM's own
SIMPLE, SCALAR, UNROLLED, ROLLED = "simple", "scalar", "unrolled", "rolled"
MAX_INTERLEAVED = 60  # instructions of a body that LLVM may interleave
MAX_PARTS = 16  # conditions of a loop whose pieces may each have a loop
CHUNK = 1024  # elements of one partial sum: partial sums are added up in order, whatever the number of threads


class Numbers:
    """This run's sizes and constants, read once in a function's entry block."""

    def __init__(self, program: Canonical, entry: ir.IRBuilder, sizes: ir.Value, consts: ir.Value):
        self.static, self.entry = program.static, entry
        self._sizes_ptr, self._consts_ptr = sizes, consts
        self._sizes: dict[Dim, ir.Value] = {}
        self._consts: dict[tuple[int, Any], ir.Value] = {}

    def size(self, dim: Dim) -> ir.Value:
        if dim in self.static:
            return I64(self.static[dim])
        found = self._sizes.get(dim)
        if found is None:
            place = self.entry.gep(self._sizes_ptr, [I64(dim)], inbounds=True, source_etype=I64)
            found = self._sizes[dim] = self._invariant(self.entry.load(place, typ=I64))
        return found

    def _invariant(self, load: Any) -> Any:
        """A load of what nothing writes: it may leave any loop."""
        load.set_metadata("invariant.load", self.entry.module.add_metadata([]))
        return load

    def const(self, x: Const) -> ir.Value:
        if x.slot is None:
            return constant(x.dtype, x.value)
        found = self._consts.get((x.slot, x.dtype))
        if found is None:
            place = self.entry.gep(self._consts_ptr, [I64(8 * x.slot)], inbounds=True, source_etype=I8)
            loaded = self._invariant(self.entry.load(place, typ=memory_type(x.dtype)))
            found = from_memory(self.entry, loaded, x.dtype)
            self._consts[(x.slot, x.dtype)] = found
        return found


class ItemEmitter:
    """One function of the kernel: a loop nest, or straight-line scalar code."""

    accumulator: type[Accumulator]  # how reductions are kept: set below
    scalars: type[Scalars] = Scalars  # whose functions scalar bodies call

    def __init__(
        self, program: Canonical, schedule: Schedule, module: ir.Module, name: str, used: list[Sym],
        inline: bool = False,
    ):  # fmt: skip
        self.program, self.schedule = program, schedule
        self.used = used
        kind = ir.FunctionType(ir.VoidType(), [PTR] * (len(used) + 2))
        self.function = ir.Function(module, kind, name)
        self.function.linkage = "internal"
        self.function.attributes.add("alwaysinline" if inline else "noinline")
        self.function.attributes.add("nounwind")
        for arg in self.function.args[: len(used)]:
            arg.add_attribute("noalias")
        self.pointer = dict(zip(used, self.function.args, strict=False))
        entry = self.function.append_basic_block("entry")
        self.entry = ir.IRBuilder(entry)
        start = self.function.append_basic_block("start")
        self.start = start
        self.b = ir.IRBuilder(start)
        self.loops: list[ir.Value] = []  # the loop variables in force
        self.homes: list[ir.IRBuilder] = []  # where code that is invariant in loop k goes
        self.scopes: list[dict[Any, ir.Value]] = [{}]  # values at hand: whole function, then loop by loop
        self.tile_start: ir.Value | None = None  # first row of the tile, in a loop over tiles
        self.assumed: frozenset[Condition] = frozenset()  # conditions known to hold here
        self.refused: frozenset[Condition] = frozenset()  # conditions known not to hold here
        self.accumulators: dict[Sym, Accumulator] = {}  # of the reductions whose loops are being written
        self.numbers = Numbers(program, self.entry, *self.function.args[-2:])
        self.size, self.const = self.numbers.size, self.numbers.const

    def finish(self) -> ir.Function:
        self.b.ret_void()
        self.entry.position_at_end(self.entry.block)  # others have put their allocas there
        self.entry.branch(self.start)
        return self.function

    # ---- numbers -----------------------------------------------------------------------------------------------

    def index(self, index: Index, mask: tuple[Condition, ...] = ()) -> ir.Value:
        """An index expression as an i64 at the current position."""
        b = self.b
        total: ir.Value | None = None
        for t, coefficient in sorted(index.terms, key=lambda item: repr(item[0])):
            if t[0] == "i":
                value = self.loops[t[1]]
            elif t[0] == "s":
                value = self.size(t[1])
            elif t[0] == "d":
                value = b.sdiv(self.index(t[1], mask), I64(t[2]))
            else:
                value = self._gathered(t, mask)
            if coefficient != 1:
                value = b.mul(value, I64(coefficient), flags=("nsw",))
            total = value if total is None else b.add(total, value, flags=("nsw",))
        if total is None:
            return I64(index.const)
        return b.add(total, I64(index.const), flags=("nsw",)) if index.const else total

    def _gathered(self, t: Any, mask: tuple[Condition, ...]) -> ir.Value:
        """A position computed by the program, kept in bounds: a guard on it that fails drops the result, not the
        process."""
        _, sym, at, dim = t
        value = self.value(sym, at, mask)
        if value.type != I64:
            value = self.b.sext(value, I64)
        last = self.b.sub(self.size(dim), I64(1))
        inside = self.b.icmp_unsigned("<=", value, last)
        return self.b.select(inside, value, I64(0))

    def condition(self, condition: Condition, mask: tuple[Condition, ...]) -> ir.Value:
        kind, index, bound = condition
        value = self.index(index, mask)
        if kind != "mod":
            return self.b.icmp_unsigned("<", value, self.size(bound))
        return self.b.icmp_signed("==", self.b.srem(value, I64(bound)), I64(0))

    def all_conditions(self, conditions: tuple[Condition, ...], mask: tuple[Condition, ...] = ()) -> ir.Value:
        """Do they hold?  Any answer will do where *mask* does not."""
        value: ir.Value | None = None
        for position, condition in enumerate(conditions):
            this = self.condition(condition, (*mask, *conditions[:position]))
            value = this if value is None else self.b.and_(value, this)
        return I1(1) if value is None else value

    # ---- values ------------------------------------------------------------------------------------------------

    def value(self, x: Operand, at: Indices, mask: tuple[Condition, ...] = ()) -> ir.Value:
        """The element of *x* at position *at*; where *mask* does not hold, any value that does no harm."""
        if isinstance(x, Const):
            return self.const(x)
        if not at:
            mask = ()  # what has no axes can be evaluated anywhere
        key = (x, at, mask)
        # what was computed under fewer conditions will do: else each of n updates of one array would double the work
        weaker = [(x, at, mask[:k]) for k in range(len(mask), -1, -1)]
        for scope in reversed(self.scopes):
            for found in map(scope.get, weaker):
                if found is not None:
                    return found
        depth = max([depends_on(i) for i in at], default=0)
        if mask or depth == len(self.loops):
            value = self._compute(x, at, mask)
            self.scopes[-1][key] = value
            return value
        with self._hoisted(depth):
            value = self._compute(x, at, mask)
            self.scopes[-1][key] = value
        return value

    @contextmanager
    def _hoisted(self, depth: int) -> Iterator[None]:
        """Emit at loop depth *depth*, before the loop below it."""
        saved = self.b, self.loops, self.scopes, self.homes
        # the scope of a loop's home is the one after the scope of its surroundings
        self.b, self.loops, self.scopes, self.homes = (
            self.homes[depth],
            self.loops[:depth],
            self.scopes[: 2 * depth + 2],
            self.homes[:depth],
        )
        try:
            yield
        finally:
            self.b, self.loops, self.scopes, self.homes = saved

    def _stored(self, x: Sym) -> bool:
        return x in self.schedule.stored or x not in self.program.producers

    def _compute(self, x: Sym, at: Indices, mask: tuple[Condition, ...], top: bool = False) -> ir.Value:
        if self._stored(x) and not top:
            return self._load(x, self._offset(x, at, mask), mask)
        op = self.program.producers[x]
        if op.prim.kind == ELEMENTWISE:
            args = [self.value(y, at if y.dims else (), mask) for y in op.ins]
            wide = bool(x.dims)
            return lower(self.b, op.prim, args, [y.dtype for y in op.ins], x.dtype, wide, op.params, self.scalars)
        if op.prim.name == "iota":
            value = self.index(at[0], mask)
            if x.dtype.kind in FLOAT_KINDS:
                return self.b.sitofp(value, register_type(x.dtype))
            return value if x.dtype.itemsize == 8 else self.b.trunc(value, register_type(x.dtype))
        return self._choose(x, read(op, at), mask)

    def _choose(self, x: Sym, choices: list[Alternative], mask: tuple[Condition, ...]) -> ir.Value:
        possible: list[Alternative] = []
        for choice in choices:
            unknown = self._unknown(choice.conditions, mask)
            if unknown is None:
                continue
            certain = not unknown or (choice.remains and not possible)
            possible.append(choice._replace(conditions=() if certain else unknown))
            if certain:  # what follows is out of the question
                break
        result: ir.Value = constant(x.dtype, 0)
        if possible and (possible[-1].remains or not possible[-1].conditions):
            last = possible.pop()
            result = self._alternative(last, (*mask, *last.conditions))
        for choice in reversed(possible):
            value = self._alternative(choice, (*mask, *choice.conditions))
            result = self.b.select(self.all_conditions(choice.conditions, mask), value, result)
        return result

    def _unknown(self, conditions: tuple[Condition, ...], mask: tuple[Condition, ...]) -> tuple[Condition, ...] | None:
        """Those of *conditions* that may or may not hold here; None where one does not."""
        unknown = []
        for c in conditions:
            held = known(c, self.program.static)
            if held is False or c in self.refused:
                return None
            if held is None and c not in self.assumed and c not in mask:
                unknown.append(c)
        return tuple(unknown)

    def _alternative(self, choice: Alternative, mask: tuple[Condition, ...]) -> ir.Value:
        if choice.indices is not None:
            return self.value(choice.operand, choice.indices, mask)
        assert isinstance(choice.operand, Sym) and choice.flat is not None
        return self._load(choice.operand, self._horner(*choice.flat, mask), mask)

    def _horner(self, dims: tuple[Dim, ...], at: Indices, mask: tuple[Condition, ...]) -> ir.Value:
        b = self.b
        offset: ir.Value | None = None
        for d, i in zip(dims, at, strict=True):
            if d == ONE:
                continue
            value = self.index(i, mask)
            offset = (
                value if offset is None else b.add(b.mul(offset, self.size(d), flags=("nsw",)), value, flags=("nsw",))
            )
        return I64(0) if offset is None else offset

    def _offset(self, x: Sym, at: Indices, mask: tuple[Condition, ...]) -> ir.Value:
        dims = x.dims
        skip = self.schedule.contracted.get(x, 0)
        if not skip:
            return self._horner(dims, at, mask)
        wide = [a for a, d in enumerate(dims) if d != ONE][skip:]
        offset = self._horner(tuple(dims[a] for a in wide), tuple(at[a] for a in wide), mask)
        if x in self.schedule.tiled:
            assert self.tile_start is not None
            row: ir.Value = self.b.sub(self.loops[0], self.tile_start, flags=("nsw",))
            for a in wide:
                row = self.b.mul(row, self.size(dims[a]), flags=("nsw",))
            offset = self.b.add(row, offset, flags=("nsw",))
        return offset

    def _load(self, x: Sym, offset: ir.Value, mask: tuple[Condition, ...]) -> ir.Value:
        kind = memory_type(x.dtype)
        if not mask:
            place = self.b.gep(self.pointer[x], [offset], inbounds=True, source_etype=kind)
            return from_memory(self.b, self.b.load(place, typ=kind), x.dtype)
        # a real branch: the vectoriser turns it into a masked load, and no address out of bounds is read
        allowed = self.all_conditions(mask)
        before = self.b.block
        inside = self.b.append_basic_block("inside")
        after = self.b.append_basic_block("after")
        self.b.cbranch(allowed, inside, after)
        self.b.position_at_end(inside)
        place = self.b.gep(self.pointer[x], [offset], inbounds=True, source_etype=kind)
        loaded = self.b.load(place, typ=kind)
        self.b.branch(after)
        self.b.position_at_end(after)
        phi = self.b.phi(kind)
        phi.add_incoming(loaded, inside)
        phi.add_incoming(ir.Constant(kind, 0 if isinstance(kind, ir.IntType) else 0.0), before)
        return from_memory(self.b, phi, x.dtype)

    def store(self, x: Sym, at: Indices, value: ir.Value) -> None:
        kind = memory_type(x.dtype)
        place = self.b.gep(self.pointer[x], [self._offset(x, at, ())], inbounds=True, source_etype=kind)
        self.b.store(to_memory(self.b, value, x.dtype), place)

    # ---- loops and statements ------------------------------------------------------------------------------------

    def items(self, body: list[Loop | Statement | Call]) -> None:
        for item in body:
            if isinstance(item, Loop):
                self.loop(item)
            else:
                assert isinstance(item, Statement)
                self.statement(item)

    def loop(self, loop: Loop) -> None:
        depth = len(self.loops)
        closing = [s for s in statements_of(loop) if s.complete == depth and carries(s.op)]
        totals = [self.accumulator(self, s) for s in closing]
        for a in totals:
            a.start()
        n = self.size(loop.dim)
        direct = [a for a in totals if a.statement in loop.body and a.chunkable]
        if loop.segments and depth == 0:
            self._chunked(loop, n, direct, TILE)
        elif direct and loop.dim not in self.program.static and depth == 0:
            self._chunked(loop, n, direct, CHUNK)
        else:
            self._split(loop, I64(0), n)
        for a in totals:
            a.close()

    def _chunked(self, loop: Loop, n: ir.Value, direct: list[Accumulator], length: int) -> None:
        """The loop in pieces of *length*: partial sums are added up piece by piece, and segments take turns."""
        b = self.b
        before = b.block
        head, after = b.append_basic_block("chunk"), b.append_basic_block("chunks_done")
        b.cbranch(b.icmp_signed(">", n, I64(0)), head, after)
        b.position_at_end(head)
        lo = b.phi(I64)
        lo.add_incoming(I64(0), before)
        for a in direct:
            a.open_partial()
        stop = b.add(lo, I64(length), flags=("nsw",))
        hi = b.select(b.icmp_signed("<", stop, n), stop, n)
        outer_tile, self.tile_start = self.tile_start, lo
        for segment in loop.segments or [loop.body]:
            self._split(Loop(loop.dim, segment), lo, hi)
        self.tile_start = outer_tile
        for a in direct:
            a.add_partial()
        lo.add_incoming(stop, b.block)
        b.cbranch(b.icmp_signed("<", stop, n), head, after)
        b.position_at_end(after)

    def _split(self, loop: Loop, lo: ir.Value, hi: ir.Value) -> None:
        """An innermost loop that reads through pads or shifts, piece by piece.

        A piece goes on for as long as the same conditions hold.  Pieces in which all of them hold, one, or none, have a
        loop of their own without any condition (the parts of an array that was put together from slices); all
        others have one that looks at the conditions in every iteration.
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
        edges = all(kind == "edge" for kind, _, _ in conditions)
        pieces = self._pieces(conditions, edges)
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
            few = edges and given != frozenset(conditions)
            self._counted(loop, at, stop, SCALAR if few else SIMPLE if given is None else "")
            self.assumed, self.refused = outside
            b.branch(join)
        b.position_at_end(join)
        at.add_incoming(stop, join)
        b.cbranch(b.icmp_signed("<", stop, hi), head, after)
        b.position_at_end(after)

    def _pieces(self, conditions: list[Condition], edges: bool) -> list[tuple[int, frozenset[Condition] | None]]:
        """The sets of conditions with a loop of their own, by the bits of their members; None: all other sets."""
        pieces: dict[int, frozenset[Condition] | None] = {(1 << len(conditions)) - 1: frozenset(conditions)}
        if len(conditions) == 1:
            return [*pieces.items(), (0, frozenset())]
        if not edges and len(conditions) <= MAX_PARTS:
            pieces.update((1 << k, frozenset([c])) for k, c in enumerate(conditions))
            pieces[0] = frozenset()
        return [*pieces.items(), (-1, None)]

    def _span(self, condition: Condition, depth: int) -> tuple[ir.Value, ir.Value]:
        """From where to where, in the loop at *depth*, the *condition* holds."""
        b = self.b
        _, index, dim = condition
        (coefficient,) = [c for t, c in index.terms if t == ("i", depth)]
        rest = self.index(add(index, loop_var(depth), -coefficient))
        if coefficient == 1:  # 0 <= i + rest < n
            return b.neg(rest), b.sub(self.size(dim), rest)
        return b.add(b.sub(rest, self.size(dim)), I64(1)), b.add(rest, I64(1))  # 0 <= rest - i < n

    def _counted(self, loop: Loop, lo: ir.Value, hi: ir.Value, hint: str = "") -> None:
        b = self.b
        home, body, after = b.append_basic_block("home"), b.append_basic_block("loop"), b.append_basic_block("done")
        if isinstance(lo, ir.Constant) and isinstance(hi, ir.Constant) and hi.constant > lo.constant:
            b.branch(home)
        else:
            b.cbranch(b.icmp_signed("<", lo, hi), home, after)
        before = ir.IRBuilder(home)  # stays open while the body is written: what is invariant goes there
        b.position_at_end(body)
        i = b.phi(I64)
        self.loops.append(i)
        self.homes.append(before)
        self.scopes += [{}, {}]  # the home's, the body's
        written = self._written()
        self.items(loop.body)
        self.loops.pop()
        self.homes.pop()
        del self.scopes[-2:]
        before.branch(body)
        i.add_incoming(lo, before.block)
        following = b.add(i, I64(1), flags=("nuw", "nsw"))
        i.add_incoming(following, b.block)
        back = b.cbranch(b.icmp_signed("<", following, hi), body, after)
        # interleaving hides the latency of accumulators; elsewhere, and in large bodies, it only makes code
        large = self._written() - written > MAX_INTERLEAVED
        if not hint and (large or not any(isinstance(item, Statement) and carries(item.op) for item in loop.body)):
            hint = SIMPLE
        if loop.dim in self.program.static and self._masked(loop):
            # LLVM 22 vectorises a short loop with masked loads into loads from wrong addresses; unrolled, the masks
            # are decided when it compiles
            hint = UNROLLED
        if hint and not any(isinstance(item, Loop) for item in loop.body):
            give_hint(back, hint)
        b.position_at_end(after)

    def _masked(self, loop: Loop) -> bool:
        """Does the loop's own body read through pads, so that some of its loads have conditions?"""
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
        self.store(op.out, at, value)
        self.scopes[-1][(op.out, at, ())] = value


_HINT = re.compile(rf'^!(\d+) = !{{ !"{LOOP_HINT}(\w+)\.\d+" }}$', re.MULTILINE)
_HINTS = {
    SIMPLE: '!{!"llvm.loop.interleave.count", i32 1}, !{!"llvm.loop.unroll.disable"}',
    SCALAR: '!{!"llvm.loop.vectorize.enable", i1 false}, !{!"llvm.loop.unroll.disable"}',
    UNROLLED: '!{!"llvm.loop.vectorize.enable", i1 false}',  # forcing it would warn where LLVM has done it before
    ROLLED: '!{!"llvm.loop.unroll.disable"}',
}


def give_hint(back: Any, hint: str) -> None:
    """Mark the loop that the branch *back* closes."""
    module = back.parent.module
    back.set_metadata("llvm.loop", module.add_metadata([ir.MetaDataString(module, f"{LOOP_HINT}{hint}.{id(back)}")]))


def finish_hints(text: str, wanted: Sequence[str] = tuple(_HINTS)) -> str:
    """Loop metadata must refer to itself, which llvmlite cannot spell: completes it in the printed module.  Hints that
    are not *wanted* stay without effect."""

    def finished(m: re.Match[str]) -> str:
        return f"!{m[1]} = distinct !{{ !{m[1]}, {_HINTS[m[2]]} }}" if m[2] in wanted else m[0]

    return _HINT.sub(finished, text)


def carries(op: Op) -> bool:
    """Does the root keep something from one iteration to the next?"""
    return op.prim.kind in (REDUCE, RECURRENCE)


def statements_of(item: Loop | Statement | Call) -> list[Statement]:
    if isinstance(item, Loop):
        return [s for i in item.body for s in statements_of(i)]
    return [item] if isinstance(item, Statement) else []


class Accumulator:
    """What a reduction or recurrence carries: a register, or the result's own buffer where an inner axis is kept."""

    def __init__(self, emitter: ItemEmitter, statement: Statement):
        self.e, self.statement = emitter, statement
        self.op = statement.op
        self.dtype = self.op.ins[0].dtype
        depths = sorted(reduced_depths(self.op)) if self.op.prim.kind == REDUCE else []
        loops = len(statement.path)
        self.in_register = self.op.prim.kind == RECURRENCE or depths == list(range(loops - len(depths), loops))
        self.slot: ir.Value | None = None
        self.partial: ir.Value | None = None
        self.where: ir.Value | None = None
        emitter.accumulators[self.op.out] = self

    @property
    def chunkable(self) -> bool:
        return self.in_register and self.op.prim.name == "reduce_sum" and self.dtype.kind in FLOAT_KINDS

    def identity(self) -> ir.Constant:
        name, dtype = self.op.prim.name, self.dtype
        if name in ("reduce_max", "argmax"):
            low: Any = -np.inf if dtype.kind in FLOAT_KINDS else (0 if dtype.kind in "bu" else np.iinfo(dtype).min)
            return constant(dtype, low)
        if name in ("reduce_min", "argmin"):
            high: Any = np.inf if dtype.kind in FLOAT_KINDS else (1 if dtype.kind == "b" else np.iinfo(dtype).max)
            return constant(dtype, high)
        return constant(dtype, 1 if name in ("reduce_prod", "reduce_and") else 0)

    def start(self) -> None:
        e = self.e
        if self.in_register:
            self.slot = e.entry.alloca(register_type(self.dtype))
            e.b.store(self.identity(), self.slot)
            if self.op.prim.name in ("argmax", "argmin"):
                self.where = e.entry.alloca(I64)
                e.b.store(I64(0), self.where)
        else:
            self._fill()

    def _fill(self) -> None:
        """Set the result's elements below the current loops to the identity."""
        e, b = self.e, self.e.b
        out = self.op.out
        wide = [d for d in out.dims if d != ONE]
        outer = len(e.loops)
        count: ir.Value = I64(1)
        for d in wide[outer:]:
            count = b.mul(count, e.size(d))
        at = tuple(
            ZERO if d == ONE else (loop_var(k) if k < outer else ZERO)
            for d, k in zip(out.dims, _places(out.dims), strict=True)
        )
        base = e._offset(out, at, ())
        kind = memory_type(self.dtype)
        with counting(b, count) as i:
            place = b.gep(e.pointer[out], [b.add(base, i, flags=("nsw",))], inbounds=True, source_etype=kind)
            b.store(to_memory(b, self.identity(), self.dtype), place)

    def combine(self, total: ir.Value, value: ir.Value) -> ir.Value:
        b, name = self.e.b, self.op.prim.name
        is_float = self.dtype.kind in FLOAT_KINDS
        if name == "reduce_sum":
            return b.fadd(total, value, flags=("reassoc",)) if is_float else b.add(total, value)
        if name == "reduce_prod":
            return b.fmul(total, value, flags=("reassoc",)) if is_float else b.mul(total, value)
        if name == "reduce_or":
            return b.or_(total, value)
        if name == "reduce_and":
            return b.and_(total, value)
        largest = name == "reduce_max"
        if is_float:
            return self.extreme(largest, total, value)
        s = Scalars(b, self.dtype, self.dtype)
        return s.select(s.cmp(">" if largest else "<", value, total), value, total)

    def extreme(self, largest: bool, x: ir.Value, y: ir.Value) -> ir.Value:
        """The larger or smaller of two floats; nan wins, as in NumPy."""
        b, suffix = self.e.b, "f64" if x.type == F64 else "f32"
        intrinsic = f"llvm.{'maximum' if largest else 'minimum'}.{suffix}"
        return b.call(declare(b.module, intrinsic, x.type, x.type, x.type), [x, y])

    def update(self, at: Indices) -> None:
        e, op = self.e, self.op
        b = e.b
        if op.prim.kind == RECURRENCE:
            factor, drive = e.value(op.ins[0], at), e.value(op.ins[1], at)
            assert self.slot is not None
            carried = b.load(self.slot, typ=register_type(self.dtype))
            one = isinstance(factor, ir.Constant) and factor.constant == 1
            product = carried if one else (b.fmul if self.dtype.kind in FLOAT_KINDS else b.mul)(factor, carried)
            value = b.fadd(product, drive) if self.dtype.kind in FLOAT_KINDS else b.add(product, drive)
            b.store(value, self.slot)
            e.store(op.out, at, value)
            return
        value = e.value(op.ins[0], at)
        if op.prim.name in ("argmax", "argmin"):
            self._update_arg(value, at)
        elif self.in_register:
            slot = self.partial or self.slot
            b.store(self.combine(b.load(slot, typ=register_type(self.dtype)), value), slot)
        else:
            kept = tuple(i for a, i in enumerate(at) if a not in op.params["axes"])
            kind = memory_type(self.dtype)
            place = b.gep(e.pointer[op.out], [e._offset(op.out, kept, ())], inbounds=True, source_etype=kind)
            total = from_memory(b, b.load(place, typ=kind), self.dtype)
            b.store(to_memory(b, self.combine(total, value), self.dtype), place)

    def _update_arg(self, value: ir.Value, at: Indices) -> None:
        b = self.e.b
        assert self.slot is not None and self.where is not None
        s = Scalars(b, self.dtype, self.dtype)
        best = b.load(self.slot, typ=register_type(self.dtype))
        better = s.cmp(">" if self.op.prim.name == "argmax" else "<", value, best)
        if self.dtype.kind in FLOAT_KINDS:
            better = b.or_(better, b.and_(s.isnan(value), b.not_(s.isnan(best))))
        position = self.e.index(at[self.op.params["axes"][0]])
        b.store(b.select(better, value, best), self.slot)
        b.store(b.select(better, position, b.load(self.where, typ=I64)), self.where)

    # ---- partial sums of a chunk -------------------------------------------------------------------------------

    def open_partial(self) -> None:
        if self.partial is None:
            self.partial = self.e.entry.alloca(register_type(self.dtype))
        self.e.b.store(self.identity(), self.partial)

    def add_partial(self) -> None:
        b = self.e.b
        assert self.slot is not None and self.partial is not None
        kind = register_type(self.dtype)
        b.store(b.fadd(b.load(self.slot, typ=kind), b.load(self.partial, typ=kind)), self.slot)

    def close(self) -> None:
        """After the loop: the result is final."""
        del self.e.accumulators[self.op.out]
        if self.in_register and self.op.prim.kind != RECURRENCE:
            self.finish(self.total())

    def total(self) -> ir.Value:
        """What is in the register."""
        if self.where is not None:
            return self.e.b.load(self.where, typ=I64)
        return self.e.b.load(self.slot, typ=register_type(self.dtype))

    def finish(self, value: ir.Value) -> None:
        """Store the result, which is at hand for what follows."""
        at = self.result_indices()
        self.e.store(self.op.out, at, value)
        self.e.scopes[-1][(self.op.out, at, ())] = value

    def result_indices(self) -> Indices:
        source = self.op.ins[0]
        return tuple(
            ZERO if d == ONE else loop_var(k)
            for a, (d, k) in enumerate(zip(source.dims, _places(source.dims), strict=True))
            if a not in self.op.params["axes"]
        )


ItemEmitter.accumulator = Accumulator


def _places(dims: tuple[Dim, ...]) -> list[int]:
    """The loop depth of each axis (axes of size 1 have none: the number is not used)."""
    result, depth = [], 0
    for d in dims:
        result.append(depth)
        depth += d != ONE
    return result


def item_buffers(program: Canonical, schedule: Schedule, placed: dict[Sym, Any], item: Loop | Statement) -> list[Sym]:
    """The stored values that one item reads or writes."""
    used: dict[Sym, None] = {}
    for s in statements_of(item):
        used[s.out] = None
        for sym, _ in placed[s.out].stored:
            used[sym] = None
    return list(used)
