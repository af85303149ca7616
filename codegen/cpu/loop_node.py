"""Loops over a body: the driver in the kernel's entry function, around the body's own loop nests.

The body goes through the pipeline like a program: schedule, then one function for each item, which is inlined here.
Around them stands the loop over steps.  It points the rows of xs and ys at the memory of the stacked arrays.  A carry
that is small and static lives in stack slots with copies between steps, which LLVM turns into registers; a large one
in two buffers that change places, one of which is the result (``loop_carries.py``).

A loop that stops writes what it asks first, and leaves from there.  Rows of ys that no step wrote are filled with
zeros where anything can see them.

``plan_loop`` says what a loop needs besides its operands and results; ``emit_items`` writes the items of a schedule,
loops among them.  Another target writes them in its own way: by other ``Rules``, in a ``Frame`` of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import llvmlite.ir as ir

from ...tracer.ir.aval import FLOAT_KINDS
from ...tracer.ir.primitive import LOOP
from ...tracer.ops.control import before_consts, before_rows
from ..lower.canonical import ONE, Body, Canonical, Const, Dim, Op, Operand, Sym
from ..schedule.buffers import buffer_of, counted, elements, filled, rows_from
from ..schedule.loop_tree import Call, Loop, Schedule, Statement, item_buffers
from ..schedule.schedule import make_schedule
from ..schedule.tiles import TILE
from . import jit
from .expressions import Numbers
from .library_calls import CallEmitter
from .loop_carries import Carry, Stepping
from .loop_nest import ItemEmitter
from .scalar import I8, I64, PTR, counting, memory_type, to_memory

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
    carried: dict[Sym, int]  # likewise carries, as they come in
    copied: dict[Sym, int]  # likewise what is the same in every step
    work: list[Work]
    cleared: list[int]  # the results whose rows that no step wrote are filled with zeros
    nested: dict[Op, LoopPlan] = field(default_factory=dict)


class Rules(NamedTuple):
    """What a target decides of a body: its schedule, and what lives in stack slots."""

    schedule: Callable[[Canonical], Schedule]
    slots: Callable[[Canonical, Schedule, Sym], int | None]  # of how many elements, where a value is kept in slots
    copies: Callable[[Canonical, Sym], bool]  # is a small operand that is the same in every step copied to slots?


CPU_RULES = Rules(
    make_schedule, lambda program, schedule, sym: elements(program, schedule.kept_axes(sym)), lambda program, sym: True
)


def results_of(program: Canonical) -> list[Sym]:
    """The outputs of a body, each of which is stored."""
    return [x for x in program.outputs if isinstance(x, Sym)]


def shows_every_row(around: Canonical, op: Op, out: Sym) -> bool:
    """Can anything in the program *around* the loop *op* see the rows of its result *out* that no step wrote?

    Loops that step through as many rows can't.
    """
    if out in around.outputs:
        return True
    count = op.outs[op.params["carries"]] if op.params["stops"] else op.ins[0]
    for reader in around.ops:
        stepping = reader.prim.kind == LOOP and reader.params["counted"] and reader.ins[0] is count
        first = rows_from(reader) if stepping else len(reader.ins)
        if out in reader.ins[:first]:
            return True
    return False


def plan_loop(op: Op, around: Canonical, sizes_at: int = 0, rules: Rules = CPU_RULES) -> LoopPlan:
    """*around*: the program that *op* is in; *sizes_at*: where its sizes begin in the table of the whole."""
    body: Body = op.params["body"]
    program = body.program
    base = sizes_at + body.sizes_at
    schedule = rules.schedule(program)
    plan = LoopPlan(op, program, schedule, {}, {}, {}, {}, [], [])
    if op.params["counted"] or op.params["stops"]:
        ys = range(before_rows(op.params), len(op.outs))
        plan.cleared = [k for k in ys if shows_every_row(around, op, op.outs[k])]

    def absolute(dims: Sequence[Dim]) -> tuple[Dim, ...]:
        return tuple(base + d for d in dims if d != ONE)

    first, count = op.params["consts"], op.params["carries"]
    for k, sym in enumerate(program.inputs[:first]):
        position = before_consts(op.params) + k
        size = elements(program, sym.dims)
        no_buffer = not isinstance(op.ins[position], Sym) or filled(around, op, position) is not None
        if size is not None and (no_buffer or rules.copies(program, sym)):
            plan.copied[sym] = size
    ends = program.outputs[op.params["stops"] :]
    for sym, end in zip(program.inputs[first : first + count], ends, strict=False):
        assert isinstance(end, Sym)
        size = rules.slots(program, schedule, end)
        if size is not None:
            plan.carried[sym] = size
        else:
            spare = plan.spares[sym] = Sym(sym.number, sym.dtype, sym.dims)
            plan.work.append(Work(spare, absolute(sym.dims), sym.dtype.itemsize))
    results = set(results_of(program))
    for sym in schedule.where:
        if sym in results:
            continue
        rows = TILE if sym in schedule.tiled else 1
        size = rules.slots(program, schedule, sym)
        if size is not None and rows == 1:
            plan.small[sym] = size
        else:
            plan.work.append(Work(sym, absolute(schedule.kept_axes(sym)), sym.dtype.itemsize * rows))
    for item in schedule.body:
        if isinstance(item, Call) and "body" in item.op.params:
            inner = plan.nested[item.op] = plan_loop(item.op, program, base, rules)
            plan.work += inner.work
    return plan


def grouped(body: Sequence[Item]) -> list[Any]:
    """Top-level items, consecutive scalar statements together."""
    result: list[Any] = []
    for item in body:
        if isinstance(item, Statement) and result and isinstance(result[-1], list):
            result[-1].append(item)
        else:
            result.append([item] if isinstance(item, Statement) else item)
    return result


@dataclass(eq=False)
class Frame:
    """Where items are written and how: a builder, the entry block, and how a value's buffer is found."""

    program: Canonical
    schedule: Schedule
    plans: dict[Op, LoopPlan]
    b: ir.IRBuilder
    entry: ir.IRBuilder
    pointer: Callable[[Sym], ir.Value]
    sizes: ir.Value
    consts: ir.Value
    numbers: Numbers

    def inside(self, loop: LoopEmitter) -> Frame:
        """The frame of the body of *loop*."""
        plan = loop.plan
        return replace(
            self, program=plan.program, schedule=plan.schedule, plans=plan.nested, pointer=loop.pointer,
            sizes=loop.sizes, consts=loop.consts, numbers=loop.numbers,
        )  # fmt: skip

    def used(self, body: Sequence[Loop | Statement]) -> list[Sym]:
        """The stored values that *body* reads or writes."""
        reads = self.schedule.reads
        return list(dict.fromkeys(s for part in body for s in item_buffers(reads, part)))

    def nest(self, body: Sequence[Loop | Statement], name: str, inline: bool) -> None:
        """A loop nest, or scalar statements, as a function that is called here."""
        used = self.used(body)
        emitter = ItemEmitter(self.program, self.schedule, self.b.module, jit.unique_name(name), used, inline=inline)
        emitter.items(list(body))
        self.b.call(emitter.finish(), [*[self.pointer(s) for s in used], self.sizes, self.consts])

    def call(self, op: Op) -> None:
        CallEmitter(self.program, self.schedule.stored, self.b, self.pointer, self.numbers).emit(op)

    def loop(self, plan: LoopPlan, name: str) -> None:
        LoopEmitter(self, plan, name).emit()

    def each(self, count: ir.Value) -> AbstractContextManager[ir.Value]:
        """A loop over 0 <= i < count, in any order."""
        return counting(self.b, count)


def emit_items(frame: Frame, items: Sequence[Any], name: str, *, inline: bool = False) -> None:
    """Write *items* (as ``grouped`` gives them) at the builder's position: calls of functions, of libraries, loops."""
    for item in items:
        if not isinstance(item, Call):
            frame.nest(item if isinstance(item, list) else [item], name, inline)
        elif item.op in frame.plans:
            frame.loop(frame.plans[item.op], name)
        else:
            frame.call(item.op)


def _position(schedule: Schedule, sym: Sym) -> int:
    """Where among the top-level items *sym* is made."""
    made = schedule.where[sym]
    return schedule.body.index(made.path[0] if isinstance(made, Statement) and made.path else made)


class LoopEmitter:
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
        params = op.params
        first, count, ys = params["consts"], params["carries"], before_rows(params)
        ins, outs = program.inputs, results_of(program)
        length = self.frame.numbers.size(params["length"])
        n = self._bound(length)
        for k in range(first):
            self.pointers[ins[k]] = self._const(k)
        carries = [Carry(self, k, n) for k in range(count)]
        for carry in carries:
            carry.start()
        self._constant_rows()
        if params["stops"]:
            self.pointers[outs[0]] = self.slots(outs[0], 1)
        for sym, size in self.plan.small.items():
            self.pointers[sym] = self.slots(sym, size)
        step = Stepping(b, n)
        for carry in carries:
            carry.open(step.before)
        row = b.sub(b.sub(n, I64(1)), step.number) if params["reverse"] else step.number
        for k in range(first + count, len(ins)):
            self._row_in(k, row)
        for k in range(ys, len(outs)):
            self.pointers[outs[k]] = self.row(self.result(k), outs[k], row)
        inner = self.frame.inside(self)
        items = self.plan.schedule.body
        if params["stops"]:
            asked = _position(self.plan.schedule, outs[0]) + 1
            emit_items(inner, grouped(items[:asked]), self.name, inline=True)
            step.leave_unless(b.icmp_unsigned("!=", b.load(self.pointers[outs[0]], typ=I8), I8(0)))
            items = items[asked:]
        emit_items(inner, grouped(items), self.name, inline=True)
        for carry in carries:
            carry.close()
        step.finish()
        taken = step.last(I64, I64(0), step.number, step.following) if params["stops"] else n
        for carry in carries:
            carry.settle(step)
        for carry in carries:
            carry.finish()
        if params["stops"]:
            b.store(taken, self.result(count))
        for k in self.plan.cleared:
            self.clear(self.result(k), outs[k], taken, length)

    def _bound(self, length: ir.Value) -> ir.Value:
        """The rows that there are to run."""
        b, op = self.b, self.plan.op
        if not op.params["counted"]:
            return length
        x = op.ins[0]
        steps = self.frame.numbers.const(x) if isinstance(x, Const) else b.load(self.outside(x), typ=I64)
        steps = b.select(b.icmp_signed("<", steps, I64(0)), I64(0), steps)
        return b.select(b.icmp_signed("<", steps, length), steps, length)

    def clear(self, result: ir.Value, row: Sym, taken: ir.Value, length: ir.Value) -> None:
        """Zeros in the rows of *result* from *taken* on."""
        b, kind = self.b, memory_type(row.dtype)
        count = self.count(row)
        base = b.gep(result, [b.mul(taken, count)], source_etype=kind)
        with self.frame.each(b.mul(b.sub(length, taken), count)) as i:
            b.store(ir.Constant(kind, 0), b.gep(base, [i], source_etype=kind))

    def pointer(self, sym: Sym) -> ir.Value:
        found = self.pointers.get(sym)
        return self.frame.pointer(sym) if found is None else found

    def outside(self, x: Sym) -> ir.Value:
        return self.frame.pointer(buffer_of(self.frame.program, self.frame.schedule.stored, x))

    def result(self, k: int) -> ir.Value:
        """Where result *k* is written."""
        return self.frame.pointer(self.plan.op.outs[k])

    def slots(self, sym: Sym, size: int) -> ir.Value:
        slots = self.entry.alloca(ir.ArrayType(memory_type(sym.dtype), size))
        slots.type = PTR  # llvmlite makes it a pointer to the array, and takes no element's address of that
        return slots

    def count(self, sym: Operand) -> ir.Value:
        total: ir.Value = I64(1)
        for d in sym.dims:
            if d != ONE:
                total = self.b.mul(total, self.numbers.size(d))
        return total

    def stride(self, sym: Operand) -> ir.Value:
        """How many elements it is from one row of xs or ys, of which *sym* is one, to the next."""
        return self.count(sym)

    def _const(self, k: int) -> ir.Value:
        """What is the same in every step: small things are copied to where LLVM sees that no step writes them."""
        inside, position = self.plan.program.inputs[k], before_consts(self.plan.op.params) + k
        x = self.plan.op.ins[position]
        size = self.plan.copied.get(inside)
        if size is None:
            assert isinstance(x, Sym)
            return self.outside(x)
        slots = self.slots(inside, size)
        self.load_small(x, inside, slots, size, filled(self.frame.program, self.plan.op, position))
        return slots

    def _constant_rows(self) -> None:
        """Small rows of xs that are full of one constant."""
        op, program = self.plan.op, self.plan.program
        for k in range(rows_from(op), len(op.ins)):
            fill = filled(self.frame.program, op, k)
            if fill is not None:
                inside = program.inputs[k - before_consts(op.params)]
                size = elements(program, inside.dims)
                assert size is not None
                slots = self.pointers[inside] = self.slots(inside, size)
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

    def row(self, base: ir.Value, sym: Operand, row: ir.Value) -> ir.Value:
        offset = self.b.mul(row, self.stride(sym), flags=("nsw",))
        return self.b.gep(base, [offset], inbounds=True, source_etype=memory_type(sym.dtype))

    def _row_in(self, k: int, row: ir.Value) -> None:
        op, inside = self.plan.op, self.plan.program.inputs[k]
        if inside in self.pointers:
            return
        position = before_consts(op.params) + k
        if counted(self.frame.program, op, position) is None:
            x = op.ins[position]
            assert isinstance(x, Sym)
            self.pointers[inside] = self.row(self.outside(x), inside, row)
            return
        cell = self.pointers[inside] = self.slots(inside, 1)
        kind = memory_type(inside.dtype)
        if inside.dtype.kind in FLOAT_KINDS:
            number = self.b.sitofp(row, kind)
        else:
            number = row if kind == I64 else self.b.trunc(row, kind)
        self.b.store(number, cell)
