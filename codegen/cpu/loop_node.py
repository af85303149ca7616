"""Loops over a body: the driver in the kernel's entry function, around the body's own loop nests.

The body's schedule is written as one function for each item, which is inlined here.  Around them stands the loop over
steps.  It points the rows of xs and ys at the memory of the stacked arrays (``loop_values.py``).  A carry lives in
stack slots with copies between steps, or in two buffers that change places, one of which is the result
(``loop_plan.py``, ``loop_carries.py``).

A loop with a condition evaluates it first, and exits from there.  Rows of ys that no iteration wrote are zeroed where
anything reads them.

``emit_items`` writes the items of a schedule, loops among them.  Another target writes them in a ``LoopFrame`` of its
own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import llvmlite.ir as ir

from ...tracer.ir.aval import FLOAT_KINDS
from ...tracer.ir.primitive import PRODUCT
from ...tracer.ops.control import before_consts, before_rows
from ..lower.canonical import CanonicalOp, Const, Dim, Sym
from ..schedule.buffers import counted, elements, filled, rows_from
from ..schedule.division import Division, division_of, work_of
from ..schedule.functions import grouped
from ..schedule.likeness import Likeness
from ..schedule.loop_tree import LibraryCall, Loop, Schedule, Statement, loops_of, statements_of
from .buffer_table import BufferTable, row_function
from .divided import DividedNest, DividedPart, KernelTable, Own, once_in_a_chunk
from .expressions import NumberArguments, SharedArguments, given
from .hints import hints_by_name
from .library_calls import CallEmitter, has_parts, parts_work, product_dims
from .loop_carries import Carry, Stepping
from .loop_nest import ItemEmitter
from .loop_plan import LoopPlan, results_of
from .loop_values import Frame, LoopValues
from .pool_calls import POLL
from .products import product_work
from .scalar import I1, I8, I64, as_text, declare, least, memory_type, unique_name

STEP_WORK = 50  # flops, about, of a step beside its loop nests
POLLED_SCALAR, POLLED_NESTS = 4096, 64  # steps after which signals are looked after: scalar ones, and others
MANY_ITEMS = 32  # of a kernel, whose entry would be long if they were all inlined
MOST_ALIKE = 256  # values in statements that are written once for several places: each may be an argument
MANY_VALUES, MANY_ELEMENTS = 24, 16  # of a nest in the body of a loop, where a call is nothing beside it
MOST_INLINED = 700  # values of all nests in the body of a loop: LLVM's time for one function grows faster than they do
MOST_DIVIDED = 64  # kinds of nests, and calls, that a kernel divides: it takes as much code as they do
NESTED_STEPS = 16  # of a loop in it, whose number may be decided by data


class SharedFunction(NamedTuple):
    """A function that serves several places. *asked*: its arguments; *may_end*: whether it may return what the kernel
    is to return, and not -1."""

    function: ir.Function
    asked: Sequence[Dim | Const | Sym]
    may_end: bool = False


@dataclass(eq=False)
class LoopFrame(Frame):
    """A frame in which items are written: nests as functions, calls of libraries, loops.

    *buffers* gives a buffer's pointer for one use: a thousand that are at hand from the entry on would take registers
    from each other. Nests that differ in nothing but their buffers and numbers are one function: *nests* has those so
    far by their text, *written* by their likeness, with the numbers of their arguments there, and whether they may end
    the kernel.
    """

    buffers: BufferTable | None = field(default=None, kw_only=True)  # where the kernel's table is at hand
    nests: dict[str, ir.Function] = field(default_factory=dict, kw_only=True)
    written: dict[Any, tuple[ir.Function, list[int], bool]] = field(default_factory=dict, kw_only=True)
    repeated: Collection[tuple] = field(default=(), kw_only=True)  # keys of what comes more than once
    table: KernelTable | None = field(default=None, kw_only=True)  # in the kernel's entry, where work is divided
    has_gil: bool = field(default=False, kw_only=True)  # whether the GIL is held where the items run
    chunks: dict[str, ir.Function] = field(default_factory=dict, kw_only=True)  # functions of one chunk
    divided: set[str] = field(default_factory=set, kw_only=True)  # functions that divide nests, by their names

    def inside(self, loop: LoopEmitter) -> LoopFrame:
        """The frame of the body of *loop*."""
        plan = loop.plan
        return replace(
            self, program=plan.program, schedule=plan.schedule, plans=plan.nested, pointer=loop.pointer,
            sizes=loop.sizes, consts=loop.consts, numbers=loop.numbers, buffers=None, table=None,
        )  # fmt: skip

    def share(self, other: LoopFrame) -> None:
        """Know what *other* knows of the same kernel, and the other way round."""
        self.nests, self.written, self.repeated = other.nests, other.written, other.repeated
        self.chunks, self.divided = other.chunks, other.divided

    def look_ahead(self, items: Sequence[Any]) -> None:
        """Learn what comes more than once in the kernel: scalar statements among its *items* (as ``grouped`` gives
        them), and nests in the bodies of loops."""
        rows = [item for item in items if isinstance(item, list) and self._may_be_shared(item)]
        found = [Likeness(self.program, self.schedule, row) for row in rows]
        times = Counter(like.key for like in [*found, *nests_in(self.plans)])
        self.repeated = {key for key, count in times.items() if count > 1}

    def _may_be_shared(self, body: Sequence[Loop | Statement]) -> bool:
        """Whether nests, or statements beside loops that are so few that a function of them has few arguments, may be
        one function for several places (a heuristic)."""
        return isinstance(body[0], Loop) or (self.buffers is not None and values_of(self.schedule, body) <= MOST_ALIKE)

    def nest(self, body: Sequence[Loop | Statement], name: str, inline: bool) -> None:
        """A loop nest, or scalar statements, as a function that is called here."""
        always = isinstance(body[0], Loop) and not inline
        if always or (self.repeated and self._may_be_shared(body)):
            like = Likeness(self.program, self.schedule, body)
            if always or like.key in self.repeated:
                self._call(self._like(like, lambda: self._nest(body, name)))
                return
        module, name = self.b.module, unique_name(self.b.module, name)
        if self.buffers is not None and not inline:
            schedule = replace(self.schedule, scalars=self.buffers.scalars)
            function = row_function(self.program, schedule, module, name, self.buffers, body)
            self.b.call(function, [self.buffers.bufs, self.sizes, self.consts])
            return
        used = self.used(body)
        emitter = ItemEmitter(self.program, self.schedule, module, name, used, inline=inline)
        emitter.items(list(body))
        self.b.call(function := emitter.finish(), [*map(self.address, used), self.sizes, self.consts])
        as_text(function)

    def address(self, sym: Sym) -> ir.Value:
        """A buffer's pointer for one use."""
        return self.pointer(sym) if self.buffers is None else self.buffers.near(sym, self.b)

    def _like(self, like: Likeness, write: Callable[[], SharedFunction]) -> SharedFunction:
        """A function of what is like that, which *write* writes if there is none yet."""
        key = self.table is not None, like.key
        if key not in self.written:
            shared = write()
            self.written[key] = shared.function, like.positions(shared.asked), shared.may_end
        function, asked, may_end = self.written[key]
        return SharedFunction(function, [like.named[k] for k in asked], may_end)

    def _nest(self, body: Sequence[Loop | Statement], name: str) -> SharedFunction:
        """A function of the nest *body*, or of these statements, for other places too."""
        used, module = self.used(body), self.b.module
        name = unique_name(module, name)
        division = None
        if self.table is not None and isinstance(body[0], Loop) and len(self.divided) < MOST_DIVIDED:
            division = division_of(self.program, self.schedule, body[0])
        emitter = ItemEmitter(
            self.program, self.schedule, module, name, used, tables=False, ranged=division is not None
        )
        emitter.items(list(body))
        known, numbers = self._known(emitter.finish()), emitter.numbers
        assert isinstance(numbers, NumberArguments)
        if division is None:
            return SharedFunction(known, [*used, *numbers.asked])

        def work_in(frame: LoopFrame, division: Division = division) -> DividedNest:
            own, given = [*map(frame.pointer, used)], numbers.given(frame.numbers)
            return DividedNest(frame, self.chunks, division, known, used, own, given)

        def several(frame: LoopFrame) -> None:
            work_in(frame).several()

        def apart(frame: LoopFrame) -> None:
            shared = frame._shared(several, name, may_end=True, rare=True)
            self.divided.add(shared.function.name)
            frame._call(shared)

        def divided(frame: LoopFrame) -> None:
            work_in(frame).emit(lambda: apart(frame))

        shared = self._shared(divided, name, may_end=True)
        self.divided.add(shared.function.name)
        return shared

    def _known(self, function: ir.Function) -> ir.Function:
        """*function*, or one that is like it but for its name."""
        module, name, text = self.b.module, function.name, as_text(function)
        known = self.nests.setdefault(hints_by_name(text, module).replace(name, "", 1), function)
        if known is not function:
            del module.globals[name]
        return known

    def _shared(
        self, write: Callable[[LoopFrame], None], name: str, may_end: bool = False, rare: bool = False
    ) -> SharedFunction:
        """The items that *write* writes, as a function for all places that differ in nothing but buffers and numbers.
        *may_end*: whether it may return what the kernel is to return, and not -1; *rare*: whether it only runs where
        there is much to do."""
        module = self.b.module
        function = ir.Function(module, ir.FunctionType(I64, []), unique_name(module, name))
        function.linkage = "internal"
        function.attributes.add("nounwind")
        if rare:
            once_in_a_chunk(function)
        elif len(self.schedule.body) > MANY_ITEMS:
            function.attributes.add("noinline")
        entry, start = function.append_basic_block("entry"), function.append_basic_block("start")
        arguments = SharedArguments(self.program, ir.IRBuilder(entry))
        frame = replace(
            self, b=ir.IRBuilder(start), entry=arguments.entry, pointer=arguments.pointer, buffers=None,
            numbers=arguments, table=None,
        )  # fmt: skip
        write(frame)
        frame.b.ret(I64(-1))
        arguments.entry.position_at_end(entry)
        arguments.entry.branch(start)
        return SharedFunction(self._known(function), arguments.asked, may_end)

    def _call(self, shared: SharedFunction) -> None:
        """Call a function that other places share."""
        b, numbers = self.b, self.numbers
        answer = b.call(shared.function, given(shared.asked, numbers, self.address))
        if shared.may_end:
            with b.if_then(b.icmp_signed("!=", answer, I64(-1)), likely=False):
                b.ret(answer)

    def call(self, op: CanonicalOp, name: str) -> None:
        if self.table is None or len(self.divided) >= MOST_DIVIDED or not has_parts(self.program, op):
            divides = self.table is not None

            def whole(frame: LoopFrame) -> None:
                CallEmitter(
                    self.program, self.schedule.stored, frame.b, frame.pointer, frame.numbers, divides=divides,
                    has_gil=self.has_gil,
                ).emit(op)  # fmt: skip

            if self.buffers is None:
                whole(self)
            else:
                like = Likeness(self.program, self.schedule, [LibraryCall(op)])
                self._call(self._like(like, lambda: self._shared(whole, name, may_end=divides)))
            return

        def part(frame: Frame, low: ir.Value, high: ir.Value) -> None:
            stored, parts = self.schedule.stored, (low, high)
            CallEmitter(self.program, stored, frame.b, frame.pointer, frame.numbers, parts).emit(op)

        n, work = parts_work(self, op)
        self._divided(part, name, n, work)

    def loop(self, plan: LoopPlan, name: str) -> None:
        if self.table is None or not is_map(plan):
            LoopEmitter(self, plan, name).emit()
            return

        def part(frame: Frame, low: ir.Value, high: ir.Value) -> None:
            assert isinstance(frame, LoopFrame)
            LoopEmitter(frame, plan, name).emit((low, high))

        n = self.numbers.size(plan.op.params["length"])
        work = self.b.mul(n, steps_work(self, plan))
        self._divided(part, name, n, work, [Own(w.sym, w.dims, w.itemsize) for w in plan.work])

    def _divided(
        self, part: Callable[[Frame, ir.Value, ir.Value], None], name: str, n: ir.Value, work: ir.Value,
        private: Sequence[Own] = (),
    ) -> None:  # fmt: skip
        table = self.table
        assert table is not None
        function = table.part(self.b.module, name, part)
        self.divided.add(function.name)
        DividedPart(self, self.chunks, table.buffers.bufs, table.buffers.positions, function, n, work, private).emit()


def emit_items(frame: LoopFrame, items: Sequence[Any], name: str, *, inline: bool = False) -> None:
    """Write *items* (as ``grouped`` gives them) at the builder's position: calls of functions, of libraries, loops."""
    for item in items:
        if not isinstance(item, LibraryCall):
            frame.nest(item if isinstance(item, list) else [item], name, inline)
        elif item.op in frame.plans:
            frame.loop(frame.plans[item.op], name)
        else:
            frame.call(item.op, name)


def values_of(schedule: Schedule, items: Iterable[Loop | Statement]) -> int:
    """The number of values that *items* evaluate or read."""
    found = [schedule.reads[s.out] for item in items for s in statements_of(item)]
    return sum(len(reads.inlined) + len(reads.stored) for reads in found)


def is_much(plan: LoopPlan, nest: Loop) -> bool:
    """Whether a call of a function is nothing beside *nest* in the body of the loop of *plan* (a heuristic)."""
    values = values_of(plan.schedule, [nest])
    turns = [plan.program.static.get(loop.dim, MANY_ELEMENTS) for loop in (nest, *loops_of(nest))]
    return values >= MANY_VALUES and values * math.prod(turns) >= MANY_VALUES * MANY_ELEMENTS


def nests_in(plans: Mapping[CanonicalOp, LoopPlan]) -> Iterator[Likeness]:
    """The nests in the bodies of loops that may be functions."""
    for plan in plans.values():
        for item in plan.schedule.body:
            if isinstance(item, Loop) and is_much(plan, item):
                yield Likeness(plan.program, plan.schedule, [item])
        yield from nests_in(plan.nested)


def is_map(plan: LoopPlan) -> bool:
    """Whether the steps of a loop have nothing to do with each other."""
    params = plan.op.params
    return not (params["carries"] or params["stops"] or params["counted"] or plan.cleared)


def steps_work(frame: Frame, plan: LoopPlan) -> ir.Value:
    """Flops, about, of one step of the loop of *plan*, for the sizes of the whole; 0 where BLAS is to divide a product
    in it between its own threads."""
    b, values = frame.b, LoopValues(frame, plan)
    total: ir.Value = I64(STEP_WORK)
    ours: ir.Value = I1(True)
    for item in plan.schedule.body:
        if isinstance(item, Loop):
            for dims, cost in work_of(plan.program, plan.schedule, item).items():
                total = b.add(total, b.mul(I64(cost), values.numbers.count(b, dims)))
        elif isinstance(item, LibraryCall) and item.op in plan.nested:
            inner = replace(frame, program=plan.program, sizes=values.sizes, consts=values.consts)
            length = least(b, values.numbers.size(item.op.params["length"]), I64(NESTED_STEPS))
            each = steps_work(inner, plan.nested[item.op])
            ours = b.and_(ours, b.icmp_signed("!=", each, I64(0)))
            total = b.add(total, b.mul(length, each))
        elif isinstance(item, LibraryCall) and item.op.prim.kind == PRODUCT:
            sizes = [*map(values.numbers.size, product_dims(item.op))]
            batch, turned = values.numbers.count(b, item.op.out.dims[:-2]), I1(item.op.params["tb"])
            flops, alone = product_work(b, batch, sizes, turned)
            total, ours = b.add(total, flops), b.and_(ours, alone)
    return b.select(ours, total, I64(0))


def _position(schedule: Schedule, sym: Sym) -> int:
    """Index of the top-level item that produces *sym*."""
    made = schedule.where[sym]
    return schedule.body.index(made.path[0] if isinstance(made, Statement) and made.path else made)


class LoopEmitter(LoopValues):
    """Writes one loop node into the entry function."""

    frame: LoopFrame

    def __init__(self, frame: LoopFrame, plan: LoopPlan, name: str):
        super().__init__(frame, plan)
        self.name = name

    def emit(self, steps: tuple[ir.Value, ir.Value] | None = None) -> None:
        """Write the loop, or those *steps* of it, a range."""
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
        self.pointers.update((sym, self.pointers[carry]) for sym, carry in self.plan.versions.items())
        self._constant_rows()
        if params["stops"]:
            self.pointers[outs[0]] = self.slots(outs[0], 1)
        for sym, size in self.plan.small.items():
            self.pointers[sym] = self.slots(sym, size)
        step = Stepping(b, *(steps or (I64(0), n)))
        for carry in carries:
            carry.open(step.before)
        row = b.sub(b.sub(n, I64(1)), step.number) if params["reverse"] else step.number
        for k in range(first + count, len(ins)):
            self._row_in(k, row)
        for k in range(ys, len(outs)):
            self.pointers[outs[k]] = self.row(self.result(k), outs[k], row)
        inner = self.frame.inside(self)
        items, functions = self.plan.schedule.body, self.plan.schedule.functions
        nests = [item for item in items if isinstance(item, Loop)]
        inline = values_of(self.plan.schedule, nests) <= MOST_INLINED
        if params["stops"]:
            asked = _position(self.plan.schedule, outs[0]) + 1
            emit_items(inner, grouped(items[:asked], functions), self.name, inline=inline)
            step.leave_unless(b.icmp_unsigned("!=", b.load(self.pointers[outs[0]], typ=I8), I8(0)))
            items = items[asked:]
        emit_items(inner, grouped(items, functions), self.name, inline=inline)
        self._poll(step.number)
        for carry in carries:
            carry.close()
        step.finish()
        taken = step.last(I64, I64(0), step.number, step.following) if params["stops"] else n
        for carry in carries:
            carry.merge(step)
        for carry in carries:
            carry.finish()
        if params["stops"]:
            b.store(taken, self.result(count))
        for k in self.plan.cleared:
            self.clear(self.result(k), outs[k], taken, length)

    def _poll(self, number: ir.Value) -> None:
        """After every so many steps, let signal handlers run, and return from the kernel where one has raised. A loop
        of scalar steps whose number is known ends soon enough, and is left as it is."""
        body, b = self.plan.schedule.body, self.b
        scalar = all(isinstance(item, Statement) for item in body)
        if not self.frame.has_gil or (scalar and not self.plan.op.params["stops"]):
            return
        every = POLLED_SCALAR if scalar else POLLED_NESTS
        with b.if_then(b.icmp_unsigned("==", b.and_(number, I64(every - 1)), I64(every - 1)), likely=False):
            raised = b.call(declare(b.module, POLL, I64), [])
            with b.if_then(b.icmp_signed("!=", raised, I64(-1)), likely=False):
                b.ret(raised)

    def _bound(self, length: ir.Value) -> ir.Value:
        """Upper bound of the trip count (i64)."""
        b, op = self.b, self.plan.op
        if not op.params["counted"]:
            return length
        x = op.ins[0]
        steps = self.frame.numbers.const(x) if isinstance(x, Const) else b.load(self.outside(x), typ=I64)
        steps = b.select(b.icmp_signed("<", steps, I64(0)), I64(0), steps)
        return b.select(b.icmp_signed("<", steps, length), steps, length)

    def clear(self, result: ir.Value, row: Sym, taken: ir.Value, length: ir.Value) -> None:
        """Zero the rows of *result* from row *taken* on."""
        b, kind = self.b, memory_type(row.dtype)
        count = self.count(row)
        base = b.gep(result, [b.mul(taken, count)], source_etype=kind)
        with self.frame.each(b.mul(b.sub(length, taken), count)) as i:
            b.store(ir.Constant(kind, 0), b.gep(base, [i], source_etype=kind))

    def _const(self, k: int) -> ir.Value:
        """Buffer of const *k* of the loop; small ones are copied to stack slots that LLVM can see are not written."""
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
        """Stack slots for small rows of xs whose elements are all one constant."""
        op, program = self.plan.op, self.plan.program
        for k in range(rows_from(op), len(op.ins)):
            fill = filled(self.frame.program, op, k)
            if fill is not None:
                inside = program.inputs[k - before_consts(op.params)]
                size = elements(program, inside.dims)
                assert size is not None
                slots = self.pointers[inside] = self.slots(inside, size)
                self.load_small(op.ins[k], inside, slots, size, fill)

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
