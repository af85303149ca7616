"""Loops over a body as one kernel: the driver of ``codegen/cpu/loop_node.py``, run by a thread or a block
(``loop_strategy.py``).

A thread runs a body like the CPU, and what is small lives in its registers (``ThreadFrame``).  The threads of a block
share each nest of the body (``BlockItem``), with barriers between nests; small values are computed by every thread for
itself (``BlockFrame``).  ``BlockFrame`` keeps one rule: before anything reads or writes memory that others may have
written, there is a barrier.

Where there are trajectories, the body is that of one, and ``Trajectory`` finds its part of operands and results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import field
from typing import Any

import llvmlite.ir as ir

from ...tracer.ir.data_classes import dataclass
from ..cpu.loop_node import LoopEmitter, LoopFrame
from ..cpu.loop_plan import LoopPlan, results_of
from ..cpu.reductions import accumulating
from ..cpu.scalar import I8, I64, counting, memory_type, ranging, unique_name
from ..lower.canonical import ONE, CanonicalOp, Const, Operand, Sym
from ..schedule.buffers import buffer_of, filled, rows_from
from ..schedule.dependences import carries
from ..schedule.loop_tree import Loop, Statement, statements_of
from .batch_independence import in_batch, pairs
from .block_calls import BlockCalls, ThreadCalls
from .block_reduce import BlockTotal
from .kernels import KernelEmitter
from .loop_strategy import Way, repeated
from .mapping import BLOCK, COLUMNS, THREAD, mapping_of, prefix

# ---- one thread ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class ThreadFrame(LoopFrame):
    """Context for a loop body that one thread runs."""

    kernel: KernelEmitter

    def nest(self, body: Sequence[Loop | Statement], name: str, inline: bool) -> None:
        used, module = self.used(body), self.b.module
        item = KernelEmitter(
            self.program, self.schedule, module, unique_name(module, name), used, self.kernel.geometry, inline=True
        )
        item.items(list(body))
        self.b.call(item.finish(), [*[self.pointer(s) for s in used], self.sizes, self.consts])

    def call(self, op: CanonicalOp, name: str) -> None:
        ThreadCalls(self.program, self.schedule.stored, self.b, self.pointer, self.numbers).emit(op)


class Trajectory(LoopEmitter):
    """The loop of one trajectory, number *index* of its batch, on its part of operands and results."""

    def __init__(self, frame: LoopFrame, way: Way, name: str, index: ir.Value):
        super().__init__(frame, way.plan, name)
        self.axes, self.index, self.trajectories = way.axes, index, frame.numbers.size(way.batch)
        self.sums = way.sums
        self.own = {sym for dims, sym in pairs(way.plan.op) if in_batch(dims, way.axes)}  # one for each trajectory

    def part(self, base: ir.Value, x: Sym) -> ir.Value:
        """Address of the trajectory's part of the operand or result *x* at *base*."""
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
        for added in self.sums:
            if added.carry == k:
                return self.frame.pointer(added.shares)
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
        """Write a nest whose outermost loops are divided among the threads."""
        mapping = mapping_of(self.program, nest)
        if mapping.by == COLUMNS:
            for statement in statements_of(nest):
                self.whole_columns(statement)
            return
        closing = [s for s in statements_of(nest) if carries(s.op) and s.complete == 0 and mapping.partial]
        loops = prefix(nest)[: mapping.loops]
        with accumulating([BlockTotal(self, s) for s in closing]):
            if not loops:
                with self.first_thread():
                    self.items([nest])
            elif mapping.by == BLOCK and not mapping.partial and all(d.dim in self.program.static for d in loops):
                self.units(loops, I64(0), I64(1), lambda: self.cooperate(loops[-1].body))  # a few rows, one by one
            else:
                self.units(loops, self.thread, self.threads, lambda: self.items(loops[-1].body))


@dataclass(eq=False)
class BlockFrame(ThreadFrame):
    """Context for a loop body that the threads of a block share; *slots*: values of which each thread has a copy."""

    slots: frozenset[Sym] = field(default_factory=frozenset)

    def inside(self, loop: LoopEmitter) -> LoopFrame:
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

    def synchronize(self) -> None:
        """A barrier, if memory was written since the last one."""
        if self.kernel.written:
            self.kernel.barrier()
        self.kernel.written = False

    def nest(self, body: Sequence[Loop | Statement], name: str, inline: bool) -> None:
        self.synchronize()
        used = self.used(body)
        item = BlockItem(self, unique_name(self.b.module, name), used)
        for part in body:
            if isinstance(part, Loop) and not repeated(self.program, part):
                item.share(part)
            else:
                item.items([part])
        self.b.call(item.finish(), [*[self.pointer(s) for s in used], self.sizes, self.consts])
        self.kernel.written = any(s.out not in self.slots for part in body for s in statements_of(part))

    def call(self, op: CanonicalOp, name: str) -> None:
        self.synchronize()
        BlockCalls(self, self.kernel).emit(op)
        self.kernel.written = True

    def loop(self, plan: LoopPlan, name: str) -> None:
        self.synchronize()
        super().loop(plan, name)
        self.kernel.written = True

    @contextmanager
    def each(self, count: ir.Value) -> Iterator[ir.Value]:
        self.kernel.barrier()
        with ranging(self.b, self.kernel.thread, count, self.kernel.threads) as i:
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
    with ranging(kernel.b, kernel.block, count, kernel.blocks) if way.by == BLOCK else kernel.spread(count) as index:

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


def write_sums(kernel: KernelEmitter, way: Way, op: CanonicalOp) -> None:
    """The reduction, by one block, of the trajectories' shares of the sums of loop *op*: the whole of *kernel*."""
    first = rows_from(op) - op.params["carries"]
    for added in way.sums:
        total = BlockTotal(kernel, Statement(added.reduction))
        total.start()
        with kernel.shared_out(kernel.size(way.batch)) as i:
            total.put(total.merged(total.values(), [kernel.get(added.shares, i)]))
        (value,) = total.over_block()
        x = op.ins[first + added.carry]
        fill = x if isinstance(x, Const) else filled(kernel.program, op, first + added.carry)
        if fill is not None:
            begin = kernel.const(fill)
        else:
            assert isinstance(x, Sym)
            begin = kernel.get(buffer_of(kernel.program, kernel.schedule.stored, x), I64(0))
        with kernel.first_thread():
            kernel.put(op.outs[added.carry], I64(0), total.combine(begin, value))
