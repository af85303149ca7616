"""Loops over a body: the driver in the kernel's entry function, around the body's own loop nests.

The body goes through the pipeline like a program: schedule, then one function for each item, which is inlined here.
Around them stands the loop over steps.  It points the rows of xs and ys at the memory of the stacked arrays.  A carry
that is small and static lives in stack slots with copies between steps, which LLVM turns into registers; a large one
in two buffers that change places, one of which is the result, so that nothing is copied.

``plan_loop`` says what a loop needs besides its operands and results; ``emit_items`` writes the items of a schedule,
loops among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import llvmlite.ir as ir

from . import jit
from .calls import CallEmitter
from .canonical import ONE, Body, Canonical, Const, Dim, Op, Operand, Sym
from .cpu import ItemEmitter, Numbers, item_buffers
from .scalar import I8, I64, PTR, counting, memory_type, to_memory
from .schedule import TILE, Call, Loop, Schedule, Statement, buffer_of, counted, elements, filled, make_schedule

Item = Loop | Statement | Call


class Work(NamedTuple):
    """A buffer that a loop needs for itself: *dims* by the sizes of the whole program."""

    sym: Sym
    dims: tuple[Dim, ...]
    itemsize: int


@dataclass(slots=True, eq=False)
class LoopPlan:
    op: Op
    program: Canonical
    schedule: Schedule
    spares: dict[Sym, Sym]  # of each large carry as it comes in: its second buffer
    small: dict[Sym, int]  # temporaries in stack slots: how many elements
    work: list[Work]
    nested: dict[Op, LoopPlan] = field(default_factory=dict)


def results_of(program: Canonical) -> list[Sym]:
    """The outputs of a body, each of which is stored."""
    return [x for x in program.outputs if isinstance(x, Sym)]


def plan_loop(op: Op, sizes_at: int = 0) -> LoopPlan:
    """*sizes_at*: where the sizes of the program that *op* is in begin in the table of the whole."""
    body: Body = op.params["body"]
    program = body.program
    base = sizes_at + body.sizes_at
    schedule = make_schedule(program)
    plan = LoopPlan(op, program, schedule, {}, {}, [])

    def absolute(dims: Sequence[Dim]) -> tuple[Dim, ...]:
        return tuple(base + d for d in dims if d != ONE)

    first, count = op.params["consts"], op.params["carries"]
    for sym in program.inputs[first : first + count]:
        if elements(program, sym.dims) is None:
            spare = plan.spares[sym] = Sym(sym.number, sym.dtype, sym.dims)
            plan.work.append(Work(spare, absolute(sym.dims), sym.dtype.itemsize))
    results = set(results_of(program))
    for sym in schedule.where:
        if sym in results:
            continue
        wide = [d for d in sym.dims if d != ONE][schedule.contracted.get(sym, 0) :]
        rows = TILE if sym in schedule.tiled else 1
        size = elements(program, wide)
        if size is not None and rows == 1:
            plan.small[sym] = size
        else:
            plan.work.append(Work(sym, absolute(wide), sym.dtype.itemsize * rows))
    for item in schedule.body:
        if isinstance(item, Call) and "body" in item.op.params:
            inner = plan.nested[item.op] = plan_loop(item.op, base)
            plan.work += inner.work
    return plan


@dataclass(slots=True, eq=False)
class Frame:
    """Where items are written: a builder, the entry block, and how a value's buffer is found."""

    program: Canonical
    schedule: Schedule
    plans: dict[Op, LoopPlan]
    b: ir.IRBuilder
    entry: ir.IRBuilder
    pointer: Callable[[Sym], ir.Value]
    sizes: ir.Value
    consts: ir.Value
    numbers: Numbers


def grouped(body: Sequence[Item]) -> list[Any]:
    """Top-level items, consecutive scalar statements together."""
    result: list[Any] = []
    for item in body:
        if isinstance(item, Statement) and result and isinstance(result[-1], list):
            result[-1].append(item)
        else:
            result.append([item] if isinstance(item, Statement) else item)
    return result


def emit_items(frame: Frame, items: Sequence[Any], name: str, *, inline: bool = False) -> None:
    """Write *items* (as ``grouped`` gives them) at the builder's position: calls of functions, of libraries, loops."""
    program, schedule = frame.program, frame.schedule
    calls = CallEmitter(program, schedule.stored, frame.b, frame.pointer, frame.numbers)
    for item in items:
        if isinstance(item, Call):
            if item.op in frame.plans:
                _LoopEmitter(frame, frame.plans[item.op], name).emit()
            else:
                calls.emit(item.op)
            continue
        body = item if isinstance(item, list) else [item]
        used = list(dict.fromkeys(s for part in body for s in item_buffers(program, schedule, schedule.reads, part)))
        emitter = ItemEmitter(program, schedule, frame.b.module, jit.unique_name(name), used, inline=inline)
        emitter.items(body)
        frame.b.call(emitter.finish(), [*[frame.pointer(s) for s in used], frame.sizes, frame.consts])


class _LoopEmitter:
    """Writes one loop node into the entry function."""

    def __init__(self, frame: Frame, plan: LoopPlan, name: str):
        self.frame, self.plan, self.name = frame, plan, name
        self.b, self.entry = frame.b, frame.entry
        body: Body = plan.op.params["body"]
        self.sizes = frame.entry.gep(frame.sizes, [I64(body.sizes_at)], source_etype=I64)
        self.consts = frame.entry.gep(frame.consts, [I64(8 * body.consts_at)], source_etype=I8)
        self.numbers = Numbers(plan.program, frame.entry, self.sizes, self.consts)
        self.pointers: dict[Sym, ir.Value] = {}

    def emit(self) -> None:
        b, op, program = self.b, self.plan.op, self.plan.program
        first, count = op.params["consts"], op.params["carries"]
        ins, outs = program.inputs, results_of(program)
        n = self.frame.numbers.size(op.params["length"])
        for k in range(first):
            self.pointers[ins[k]] = self._const(k)
        carries = [_Carry(self, k, n) for k in range(count)]
        for carry in carries:
            carry.start()
        self._constant_rows()
        for sym, size in self.plan.small.items():
            self.pointers[sym] = self._slots(sym, size)
        with _stepping(b, n) as step:
            for carry in carries:
                carry.open(step.before)
            row = b.sub(b.sub(n, I64(1)), step.number) if op.params["reverse"] else step.number
            for k in range(first + count, len(ins)):
                self._row_in(k, row)
            for k in range(count, len(outs)):
                self.pointers[outs[k]] = self._row(self.frame.pointer(op.outs[k]), outs[k], row)
            inner = Frame(
                program, self.plan.schedule, self.plan.nested, b, self.entry, self.pointer, self.sizes, self.consts,
                self.numbers,
            )  # fmt: skip
            emit_items(inner, grouped(self.plan.schedule.body), self.name, inline=True)
            for carry in carries:
                carry.close()
        for carry in carries:
            carry.finish()

    def pointer(self, sym: Sym) -> ir.Value:
        found = self.pointers.get(sym)
        return self.frame.pointer(sym) if found is None else found

    def outside(self, x: Sym) -> ir.Value:
        return self.frame.pointer(buffer_of(self.frame.program, self.frame.schedule.stored, x))

    def _slots(self, sym: Sym, size: int) -> ir.Value:
        slots = self.entry.alloca(ir.ArrayType(memory_type(sym.dtype), size))
        slots.type = PTR  # llvmlite makes it a pointer to the array, and takes no element's address of that
        return slots

    def count(self, sym: Operand) -> ir.Value:
        total: ir.Value = I64(1)
        for d in sym.dims:
            if d != ONE:
                total = self.b.mul(total, self.numbers.size(d))
        return total

    def _const(self, k: int) -> ir.Value:
        """What is the same in every step: small things are copied to where LLVM sees that no step writes them."""
        x, inside = self.plan.op.ins[k], self.plan.program.inputs[k]
        size = elements(self.plan.program, inside.dims)
        if size is None:
            assert isinstance(x, Sym)
            return self.outside(x)
        slots = self._slots(inside, size)
        self.load_small(x, inside, slots, size, filled(self.frame.program, self.plan.op, k))
        return slots

    def _constant_rows(self) -> None:
        """Small rows of xs that are full of one constant."""
        op, program = self.plan.op, self.plan.program
        for k in range(op.params["consts"] + op.params["carries"], len(op.ins)):
            fill = filled(self.frame.program, op, k)
            if fill is not None:
                inside = program.inputs[k]
                size = elements(program, inside.dims)
                assert size is not None
                slots = self.pointers[inside] = self._slots(inside, size)
                self.load_small(op.ins[k], inside, slots, size, fill)

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

    def _row(self, base: ir.Value, sym: Operand, row: ir.Value) -> ir.Value:
        offset = self.b.mul(row, self.count(sym), flags=("nsw",))
        return self.b.gep(base, [offset], inbounds=True, source_etype=memory_type(sym.dtype))

    def _row_in(self, k: int, row: ir.Value) -> None:
        op, inside = self.plan.op, self.plan.program.inputs[k]
        if inside in self.pointers:
            return
        if counted(self.frame.program, op, k) is None:
            x = op.ins[k]
            assert isinstance(x, Sym)
            self.pointers[inside] = self._row(self.outside(x), inside, row)
            return
        cell = self.pointers[inside] = self._slots(inside, 1)
        kind = memory_type(inside.dtype)
        if inside.dtype.kind == "f":
            number = self.b.sitofp(row, kind)
        else:
            number = row if kind == I64 else self.b.trunc(row, kind)
        self.b.store(number, cell)


class _Carry:
    """One carry: in slots, or in two buffers."""

    def __init__(self, loop: _LoopEmitter, k: int, n: ir.Value):
        op, program = loop.plan.op, loop.plan.program
        position = op.params["consts"] + k
        self.loop, self.n = loop, n
        self.before, self.after = program.inputs[position], results_of(program)[k]
        self.given = op.ins[position]
        self.fill = filled(loop.frame.program, op, position)
        self.result = loop.frame.pointer(op.outs[k])
        self.size = elements(program, self.before.dims)

    def start(self) -> None:
        """Before the first step."""
        loop, b = self.loop, self.loop.b
        if self.size is not None:
            self.old, self.new = loop._slots(self.before, self.size), loop._slots(self.before, self.size)
            loop.load_small(self.given, self.before, self.old, self.size, self.fill)
            loop.pointers[self.before], loop.pointers[self.after] = self.old, self.new
            return
        # the last step has to write the result: which buffer the first one writes follows from the number of steps
        self.spare = loop.frame.pointer(loop.plan.spares[self.before])
        odd = b.trunc(self.n, ir.IntType(1))
        self.first = b.select(odd, self.result, self.spare)
        if self.fill is not None:
            self.initial = b.select(odd, self.spare, self.result)
            value = to_memory(b, loop.frame.numbers.const(self.fill), self.fill.dtype)
            self._each(value, self.initial)
        else:
            assert isinstance(self.given, Sym)
            self.initial = loop.outside(self.given)

    def open(self, before: ir.Block) -> None:
        if self.size is None:
            b = self.loop.b
            self.reading, self.writing = b.phi(PTR), b.phi(PTR)
            self.reading.add_incoming(self.initial, before)
            self.writing.add_incoming(self.first, before)
            self.loop.pointers[self.before], self.loop.pointers[self.after] = self.reading, self.writing

    def close(self) -> None:
        """After a step."""
        b = self.loop.b
        if self.size is not None:
            self.loop.copy_small(self.new, self.old, self.before, self.size)
            return
        at_result = b.icmp_unsigned("==", self.writing, self.result)
        self.following = b.select(at_result, self.spare, self.result)
        self.reading.add_incoming(self.writing, b.block)
        self.writing.add_incoming(self.following, b.block)

    def finish(self) -> None:
        """After the last step, or none."""
        loop, b = self.loop, self.loop.b
        if self.size is not None:
            loop.copy_small(self.old, self.result, self.before, self.size)
        elif self.fill is None:
            with b.if_then(b.icmp_signed("<=", self.n, I64(0))):
                self._each(None, self.result, self.initial)

    def _each(self, value: ir.Value | None, target: ir.Value, source: ir.Value | None = None) -> None:
        """Write *value*, or what *source* holds, into every element of *target*."""
        b, kind = self.loop.b, memory_type(self.before.dtype)
        with counting(b, self.loop.count(self.before)) as i:
            new = value if source is None else b.load(b.gep(source, [i], source_etype=kind), typ=kind)
            b.store(new, b.gep(target, [i], source_etype=kind))


class _Step(NamedTuple):
    number: ir.Value
    before: ir.Block  # the block that the first step comes from


@contextmanager
def _stepping(b: ir.IRBuilder, n: ir.Value) -> Iterator[_Step]:
    """As ``counting``, for a body that begins with phis of its own."""
    before, body, after = b.block, b.append_basic_block("step"), b.append_basic_block("steps_done")
    b.cbranch(b.icmp_signed(">", n, I64(0)), body, after)
    b.position_at_end(body)
    number = b.phi(I64)
    number.add_incoming(I64(0), before)
    yield _Step(number, before)
    following = b.add(number, I64(1), flags=("nuw", "nsw"))
    number.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, n), body, after)
    b.position_at_end(after)
