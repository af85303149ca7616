"""Loops over a body as one kernel: the driver of ``codegen/loops.py``, run by threads.

Two questions decide how (``way_of``):

- Is the state a batch of trajectories that do not depend on each other (``trajectories.py``)?  Then each is run from
  end to end by itself, and nobody waits for another one.
- Who runs a loop: a thread, or a block?  A thread does it like the CPU, and what is small lives in its registers
  (``ThreadFrame``).  The threads of a block share each nest of the body (``BlockItem``), with barriers between nests;
  small values are computed by every thread for itself (``BlockFrame``).

``BlockFrame`` keeps one rule: before anything reads or writes memory that others may have written, there is a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import llvmlite.ir as ir

from ...tracer.primitive import LOOP, PRODUCT, RECURRENCE, REDUCE
from .. import jit
from ..calls import native
from ..canonical import ONE, Canonical, Dim, Op, Operand, Sym
from ..cpu import carries, statements_of
from ..loops import CPU_RULES, Frame, LoopEmitter, LoopPlan, Rules, plan_loop, results_of
from ..memory import Sizes, Temporary
from ..reads import domain, is_call
from ..scalar import I8, I64, counting, memory_type
from ..schedule import Call, Loop, Schedule, Statement, buffer_of, elements
from .calls import BlockCalls, ThreadCalls
from .kernels import KernelEmitter, Range
from .mapping import BLOCK, COLUMNS, THREAD, Extent, Mapping, mapping_of, prefix, product
from .placing import device_schedule, thread_schedule
from .retarget import has_kernel
from .totals import BlockTotal
from .trajectories import Batch, Shared, batch_of, in_batch, inner_batch, one_of, pairs

REACH = 1 << 16  # elements that a block makes in a step at most
REPEATED = 64  # iterations of a nest that every thread of a block rather does itself than wait for the others


@dataclass(frozen=True, slots=True)
class Way:
    """The loop of *plan* is run by a thread or a block, for each index of *batch* (ONE: there is one loop to run).

    *axes* are all dims that stand for the batch.  *why* says why not otherwise; *arrays* are the dims of what a block
    makes in a step.
    """

    by: str
    plan: LoopPlan
    batch: Dim
    axes: Batch
    why: str
    arrays: tuple[tuple[Dim, ...], ...]

    @property
    def extent(self) -> Extent:
        units = () if self.batch == ONE else (self.batch,)
        inner = tuple(dict.fromkeys(d for dims in self.arrays for d in dims))
        return Extent(Mapping(self.by, len(units)), units, inner, lonely=self.by == THREAD)

    def too_large(self, sizes: Sizes) -> bool:
        """Is there so much to do in a step that all blocks of the device, started anew for each, are faster?"""
        return any(product(dims, sizes) > REACH for dims in self.arrays)

    def temporaries(self, position: int) -> list[tuple[Sym, Temporary]]:
        """The buffers that the loop, item *position* of the program, needs for itself."""
        return [
            (w.sym, Temporary(f"{w.sym!r} of a loop", (self.batch, *w.dims), w.itemsize, position, position))
            for w in self.plan.work
        ]

    def used(self, around: Canonical, schedule: Schedule) -> list[Sym]:
        """The buffers that the kernel takes."""
        operands = [buffer_of(around, schedule.stored, x) for x in self.plan.op.ins if isinstance(x, Sym)]
        held = [s for s in operands if s in schedule.stored or s not in around.producers]
        return list(dict.fromkeys([*held, *self.plan.op.outs, *[w.sym for w in self.plan.work]]))


# ---- which way -------------------------------------------------------------------------------------------------


def way_of(around: Canonical, op: Op) -> Way | str:
    """How the loop *op* of the program *around* becomes a kernel, or why it can't."""
    foreign = _foreign(op)
    if foreign:
        return f"{foreign} in its body is the array module's"
    batch = batch_of(op)
    if not isinstance(batch, Shared):
        dim, axes = batch
        way = _by_size(around, one_of(op, axes), dim, axes, "")
        why = _too_wide(op, way.plan, axes)
        if why is None:
            return way
        batch = Shared(f"not for each index of n{dim}: {why}")
    return _by_size(around, op, ONE, frozenset(), batch.reason)


def _by_size(around: Canonical, op: Op, batch: Dim, axes: Batch, why: str) -> Way:
    """By a block where that is faster than by a thread."""
    if _worth_sharing(op) and not _asks_a_call(op):
        arrays = tuple(dict.fromkeys(_made(op)))
        return Way(BLOCK, plan_loop(op, around, rules=BLOCK_RULES), batch, axes, why, arrays)
    return Way(THREAD, plan_loop(op, around, rules=THREAD_RULES), batch, axes, why, ())


def _made(op: Op, sizes_at: int = 0) -> Iterator[tuple[Dim, ...]]:
    """The dims of the values of the body of *op*, as the whole program numbers them."""
    body = op.params["body"]
    base = sizes_at + body.sizes_at
    for part in body.program.ops:
        yield tuple(base + d for d in part.out.dims if d != ONE)
        if part.prim.kind == LOOP:
            yield from _made(part, base)


def note(op: Op, way: Way | str) -> str:
    """What ``explain`` says of it."""
    if isinstance(way, str):
        return f"{op.out} (loop) is not a kernel: {way}"
    large = f", or by the array module where it makes more than {REACH} elements in a step" if way.arrays else ""
    who = f"one {way.by}" if way.batch == ONE else f"a {way.by} for each index of n{way.batch}"
    return f"{op.out} (loop) is a kernel, run by {who}{large}" + (f" ({way.why})" if way.why else "")


def _foreign(op: Op) -> str:
    """An operation in the body of a loop that no kernel can do."""
    for part in op.params["body"].program.ops:
        if part.prim.kind == LOOP:
            if found := _foreign(part):
                return found
        elif not has_kernel(part) or (is_call(part) and not native(part)):
            return f"{part.out} ({part.prim.name})"
    return ""


def _too_wide(op: Op, plan: LoopPlan, batch: Batch) -> str | None:
    """What the trajectories share and each would compute for itself, where that is much: a carry must not be.

    Every thread writes shared results; they are the same, so it does not matter who is last.
    """
    outside = op.params["body"].program
    inner = inner_batch(op, batch)
    shared = {x.number for x in (*outside.inputs, *outside.producers) if not in_batch(x.dims, inner)}
    first = op.params["consts"]
    for sym in plan.program.inputs[first : first + op.params["carries"]]:
        if sym.number in shared and sym not in plan.carried:
            return "its trajectories share a carry"
    for sym in plan.schedule.where:
        if sym.number in shared and elements(plan.program, sym.dims) is None:
            return f"its trajectories share much work ({sym})"
    return None


def _worth_sharing(op: Op) -> bool:
    """Is there a nest in the body that many threads finish sooner than one?"""
    program = op.params["body"].program
    for part in program.ops:
        if part.prim.kind == LOOP:
            if _worth_sharing(part):
                return True
        elif _iterations(program, part) > REPEATED:
            return True
    return False


def _iterations(program: Canonical, op: Op) -> int:
    """How often the scalar body of *op* runs; a size that is not static counts as large."""
    total = 1
    whole = op.ins if op.prim.kind in (REDUCE, PRODUCT) else ()
    for d in {d for x in (*whole, op.out) for d in x.dims}:
        total *= program.static.get(d, REPEATED + 1)
    return total


def _asks_a_call(op: Op) -> bool:
    """Does a loop that stops, here or in the body, ask for the result of another loop?"""
    program = op.params["body"].program
    asked = op.params["stops"] and is_call(program.producers[program.outputs[0]])
    return asked or any(part.prim.kind == LOOP and _asks_a_call(part) for part in program.ops)


# ---- what lives in registers -----------------------------------------------------------------------------------


def repeated(program: Canonical, item: Loop | Statement) -> bool:
    """Does every thread of a block do *item* for itself?"""
    for s in statements_of(item):
        size = 1
        for d in domain(s.op):
            size *= program.static.get(d, REPEATED + 1)
        if size > REPEATED or elements(program, s.out.dims) is None:
            return False
    return True


def _slots_of_a_block(program: Canonical, schedule: Schedule, sym: Sym) -> int | None:
    """Small values that all threads of a block have: what each computes for itself, and totals of the block."""
    made = schedule.where[sym]
    if isinstance(made, Call):
        return None
    nest = made.path[0] if made.path else made
    total = made.op.prim.kind != RECURRENCE and carries(made.op) and made.complete == 0
    if isinstance(nest, Statement) or repeated(program, nest):
        return elements(program, sym.dims)
    return elements(program, sym.dims) if total and mapping_of(program, nest).by != COLUMNS else None


def _indexed(program: Canonical, sym: Sym) -> bool:
    """Is *sym* read at positions that are computed?  Registers have no addresses."""
    return any(sym in op.ins[:1] for op in program.ops if op.prim.name == "gather")


THREAD_RULES = Rules(
    thread_schedule, CPU_RULES.slots, lambda program, sym: not _indexed(program, sym),
)  # fmt: skip
BLOCK_RULES = Rules(device_schedule, _slots_of_a_block, lambda program, sym: elements(program, sym.dims) == 1)


# ---- one thread ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class ThreadFrame(Frame):
    """A body run by one thread."""

    kernel: KernelEmitter

    def nest(self, body: Sequence[Loop | Statement], name: str, inline: bool) -> None:
        used = self.used(body)
        item = KernelEmitter(
            self.program, self.schedule, self.b.module, jit.unique_name(name), used, self.kernel.geometry, inline=True
        )
        item.items(list(body))
        self.b.call(item.finish(), [*[self.pointer(s) for s in used], self.sizes, self.consts])

    def call(self, op: Op) -> None:
        ThreadCalls(self.program, self.schedule.stored, self.b, self.pointer, self.numbers).emit(op)


class Trajectory(LoopEmitter):
    """The loop of one trajectory, number *index* of its batch: its part of operands and results."""

    def __init__(self, frame: Frame, way: Way, name: str, index: ir.Value):
        super().__init__(frame, way.plan, name)
        self.axes, self.index, self.trajectories = way.axes, index, frame.numbers.size(way.batch)
        self.own = {sym for dims, sym in pairs(way.plan.op) if in_batch(dims, way.axes)}  # of what each has its own

    def part(self, base: ir.Value, x: Sym) -> ir.Value:
        """Where the part of the operand or result *x* at *base* begins."""
        own = [a for a, d in enumerate(x.dims) if d in self.axes]
        if not own:
            return base
        b, offset = self.b, self.index
        for d in x.dims[own[0] + 1 :]:
            offset = b.mul(offset, self.frame.numbers.size(d), flags=("nsw",))
        return b.gep(base, [offset], inbounds=True, source_etype=memory_type(x.dtype))

    def outside(self, x: Sym) -> ir.Value:
        return self.part(super().outside(x), x)

    def result(self, k: int) -> ir.Value:
        return self.part(super().result(k), self.plan.op.outs[k])

    def stride(self, sym: Operand) -> ir.Value:
        stride = super().stride(sym)
        return self.b.mul(stride, self.trajectories, flags=("nsw",)) if sym in self.own else stride

    def clear(self, result: ir.Value, row: Sym, taken: ir.Value, length: ir.Value) -> None:
        kind = memory_type(row.dtype)
        with counting(self.b, self.b.sub(length, taken)) as r:
            base = self.row(result, row, self.b.add(taken, r))
            with self.frame.each(self.count(row)) as i:
                self.b.store(ir.Constant(kind, 0), self.b.gep(base, [i], source_etype=kind))


# ---- one block -------------------------------------------------------------------------------------------------


class BlockItem(KernelEmitter):
    """An item of a body, done by all threads of the block; *slots*: values of which each has its own copy."""

    def __init__(self, frame: BlockFrame, name: str, used: list[Sym]):
        geometry = frame.kernel.geometry
        super().__init__(frame.program, frame.schedule, frame.b.module, name, used, geometry, inline=True)
        self.slots = frame.slots

    def share(self, nest: Loop) -> None:
        """A nest whose outermost loops the threads share out."""
        mapping = mapping_of(self.program, nest)
        if mapping.by == COLUMNS:
            (statement,) = statements_of(nest)
            self.whole_columns(statement)
            return
        closing = [s for s in statements_of(nest) if carries(s.op) and s.complete == 0 and mapping.partial]
        totals = [BlockTotal(self, s) for s in closing]
        for total in totals:
            total.start()
        loops = prefix(nest)[: mapping.loops]
        if not loops:
            with self.first_thread():
                self.items([nest])
        elif mapping.by == BLOCK and not mapping.partial and all(d.dim in self.program.static for d in loops):
            self.units(loops, I64(0), I64(1), lambda: self.cooperate(loops[-1].body))  # a few rows, one by one
        else:
            self.units(loops, self.thread, self.threads, lambda: self.items(loops[-1].body))
        self.cooperating = True
        for total in totals:
            total.close()
        self.cooperating = False


@dataclass(eq=False)
class BlockFrame(ThreadFrame):
    """A body run by the threads of one block together; *slots*: the values that each thread has in its own slots."""

    slots: frozenset[Sym] = field(default_factory=frozenset)

    def inside(self, loop: LoopEmitter) -> Frame:
        plan = loop.plan
        program, asked = plan.program, plan.op.params["stops"]
        ends = zip(plan.program.inputs[plan.op.params["consts"] :], program.outputs[asked:], strict=False)
        carried = [end for begin, end in ends if begin in plan.carried and isinstance(end, Sym)]
        slots = frozenset([*plan.small, *carried, *results_of(program)[:asked]])
        self.kernel.written = True  # by the step before
        inner = super().inside(loop)
        assert isinstance(inner, BlockFrame)
        inner.slots = slots
        return inner

    def settle(self) -> None:
        """Wait until all have written what they write."""
        if self.kernel.written:
            self.kernel.barrier()
        self.kernel.written = False

    def nest(self, body: Sequence[Loop | Statement], name: str, inline: bool) -> None:
        self.settle()
        used = self.used(body)
        item = BlockItem(self, jit.unique_name(name), used)
        for part in body:
            if isinstance(part, Loop) and not repeated(self.program, part):
                item.share(part)
            else:
                item.items([part])
        self.b.call(item.finish(), [*[self.pointer(s) for s in used], self.sizes, self.consts])
        self.kernel.written = any(s.out not in self.slots for part in body for s in statements_of(part))

    def call(self, op: Op) -> None:
        self.settle()
        BlockCalls(self, self.kernel).emit(op)
        self.kernel.written = True

    def loop(self, plan: LoopPlan, name: str) -> None:
        self.settle()
        super().loop(plan, name)
        self.kernel.written = True

    @contextmanager
    def each(self, count: ir.Value) -> Iterator[ir.Value]:
        self.kernel.barrier()
        with Range(self.b, self.kernel.thread, count, self.kernel.threads) as i:
            yield i
        self.kernel.written = True


# ---- the kernel ------------------------------------------------------------------------------------------------


def write_loop(kernel: KernelEmitter, way: Way) -> None:
    """The loop of *way* as the whole of *kernel*."""
    name = f"{kernel.function.name}_item"
    sizes, consts = kernel.function.args[-2:]
    common: tuple[Any, ...] = (
        kernel.program, kernel.schedule, {way.plan.op: way.plan}, kernel.b, kernel.entry, kernel.pointer.__getitem__,
        sizes, consts, kernel.numbers, kernel,
    )  # fmt: skip
    frame: ThreadFrame = (BlockFrame if way.by == BLOCK else ThreadFrame)(*common)
    if way.batch == ONE:
        with kernel.alone() if way.by == THREAD else nullcontext():
            frame.loop(way.plan, name)
        return
    work = {w.sym: w for w in way.plan.work}
    count = kernel.size(way.batch)
    with Range(kernel.b, kernel.block, count, kernel.blocks) if way.by == BLOCK else kernel.spread(count) as index:

        def pointer(sym: Sym) -> ir.Value:
            base = kernel.pointer[sym]
            if sym not in work:
                return base
            offset = kernel.b.mul(index, kernel.count(work[sym].dims), flags=("nsw",))
            offset = kernel.b.mul(offset, I64(work[sym].itemsize), flags=("nsw",))
            return kernel.b.gep(base, [offset], inbounds=True, source_etype=I8)

        frame.pointer = pointer
        kernel.written = True  # by the trajectory before
        Trajectory(frame, way, name, index).emit()


__all__ = ["Way", "note", "way_of", "write_loop"]
