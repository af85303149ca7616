"""A graph in canonical form -> a compiled program.

``assembled`` is the pipeline: layout, LLVM IR, machine code.  A ``Program`` (``program.py``) is that, loaded, and
shared by every graph with the same key; ``bind`` gives it one run's sizes and constants.  A program is a list of
*steps*: native functions of one module; where NumPy has to do something (sort, search), it is a step between two of
them.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import llvmlite.ir as ir

from ...tracer.ir.primitive import LOOP
from ...tracer.ir.settings import optimiser
from ...tracer.ir.working import Working
from ..lower.canonical import ONE, Canonical, CanonicalOp
from ..lower.depth import recursion_for
from ..schedule.buffers import lifetimes
from ..schedule.early_exit import check_early, guards_of, is_heavy, steps_before
from ..schedule.functions import grouped, place_scalars
from ..schedule.loop_tree import PLACE, LibraryCall, Schedule
from ..schedule.memory import Temporary
from ..schedule.parts import schedule_in_parts
from ..schedule.tiles import TILE
from . import host_rows, jit, pool_calls, vecmath
from .buffer_table import BufferTable
from .divided import KernelTable
from .expressions import Numbers
from .hints import finish_hints
from .library_calls import native
from .loop_node import LoopFrame, emit_items
from .loop_plan import LoopPlan, plan_loop
from .machine_code import ObjectCode
from .program_layout import ProgramLayout, results_of
from .scalar import I8, I64, PTR, unique_name

MAX_NAMED = 1024  # buffers that one function of the entry names: LLVM takes time that is quadratic in its length
MAX_DONE = 62  # steps for which ``done`` has a bit


def lay_out(canonical: Canonical, arguments: int) -> ProgramLayout:
    """Schedule *canonical*, and place its values."""
    canonical, schedule = schedule_in_parts(canonical)
    check_early(canonical, schedule)
    results, guards = results_of(canonical), guards_of(canonical)
    plans = {
        item.op: plan_loop(item.op, canonical)
        for item in schedule.body
        if isinstance(item, LibraryCall) and item.op.prim.kind == LOOP and native(item.op)
    }
    work = {w.sym: w for plan in plans.values() for w in plan.work}
    scalars = place_scalars(canonical, schedule, {*results, *schedule.windows})
    schedule.scalars = scalars.named_apart()
    apart = {*results, *schedule.windows, *scalars.places, *scalars.at_hand}
    temps = [*[s for s in schedule.where if s not in apart], *([scalars.sym] if scalars.places else ()), *work]
    order = [*canonical.inputs[:arguments], *results, *canonical.inputs[arguments:], *temps]
    asked = steps_before(schedule, len(guards) - 1) if guards else 0
    heavy = [item for item in schedule.body[:asked] if is_heavy(item)]

    items = grouped(schedule.body, schedule.functions)  # all buffers of a function are live
    needed = lifetimes(canonical, schedule, items)
    needed |= {w.sym: needed[op.outs[0]][:1] * 2 for op, plan in plans.items() for w in plan.work}
    temporaries = []
    for sym in temps:
        if sym is scalars.sym:
            temporaries.append(Temporary("scalars", (), PLACE * len(scalars.places), 0, len(items)))
            continue
        wide = [d for d in sym.dims if d != ONE][schedule.contracted.get(sym, 0) :]
        itemsize = sym.dtype.itemsize * (TILE if sym in schedule.tiled else 1)
        name, (first, last) = repr(sym), needed[sym]
        if sym in guards:
            last = len(items)
        if sym in work:
            wide, itemsize, name = list(work[sym].dims), work[sym].itemsize, f"{name} of a loop"
        temporaries.append(Temporary(name, tuple(wide), itemsize, first, last))
    return ProgramLayout(
        canonical, schedule, results, guards, temporaries, {sym: k for k, sym in enumerate(order)}, plans,
        {item: bit for bit, item in enumerate(heavy[:MAX_DONE])}, scalars,
    )  # fmt: skip


class Assembled(NamedTuple):
    """A program as it is kept: *steps* are names of native functions, and positions of operations for NumPy."""

    layout: ProgramLayout
    steps: list[str | int]
    object_code: ObjectCode
    seconds: dict[str, float]


def assembled(canonical: Canonical, arguments: int) -> Assembled:
    """Schedule, emit and compile."""
    clock = time.perf_counter()
    with Working("schedule", len(canonical.ops)):
        layout = lay_out(canonical, arguments)
    scheduled = time.perf_counter()
    with Working("code", len(canonical.ops)):
        steps, object_code, seconds = _CpuAssembler(layout).assemble()
    return Assembled(layout, steps, object_code, {**seconds, "schedule": scheduled - clock})


def listing_of(layout: ProgramLayout) -> tuple[str, str]:
    """(LLVM IR as it is emitted, assembly as it is compiled) of a program, made anew to be read."""
    with recursion_for(layout.canonical):
        assembler = _CpuAssembler(layout)
        assembler.emit()
    text = _finish_text(str(assembler.module))
    return text, jit.assembly(text, assembler.name)


def module_text(canonical: Canonical, arguments: int, name: str) -> tuple[ProgramLayout, list[str | int], str]:
    """(layout, steps, LLVM IR) of a program for one thread, which needs nothing of this process; its functions are
    called *name* and a number."""
    layout = lay_out(canonical, arguments)
    assembler = _CpuAssembler(layout, name)
    steps = assembler.emit()
    text = _finish_text(str(assembler.module), pool_calls.complete_alone)
    return layout, steps, host_rows.complete(text)


class _CpuAssembler:
    def __init__(self, layout: ProgramLayout, name: str = "tg_kernel"):
        self.canonical, self.schedule = layout.canonical, layout.schedule
        self.guards, self.plans, self.bits, self.index = layout.guards, layout.plans, layout.bits, layout.buffer_index
        self.scalars = layout.scalars
        self.name = name
        self.module = ir.Module(self.name)
        self.module.triple, self.module.data_layout = jit.target_triple(), jit.data_layout()

    def assemble(self) -> tuple[list[str | int], ObjectCode, dict[str, float]]:
        """(the steps, their code, seconds that it took)"""
        start = time.perf_counter()
        steps = self.emit()
        emitted = time.perf_counter()
        with Working("machine code", len(self.canonical.ops)):
            object_code = jit.compile_text(_finish_text(str(self.module)), self.name)
        return steps, object_code, {"emit": emitted - start, "llvm": time.perf_counter() - emitted}

    def emit(self) -> list[str | int]:
        """Write the steps into the module; returns them."""
        steps: list[str | int] = []
        for by_numpy, part in itertools.groupby(self._items(), _by_numpy):
            items = list(part)
            if by_numpy:
                steps += [self.canonical.ops.index(item.op) for item in items]
            elif any(items):
                steps.append(self._native(items, len(steps)))
        return steps or [self._native([], 0)]

    def _items(self) -> list[Any]:
        """The steps as ``grouped`` gives them, and ranges of guards that are checked between them."""
        result: list[Any] = []
        body, functions = self.schedule.body, self.schedule.functions
        start = checked = 0
        for position, guards in self.schedule.checks:
            result += [*grouped(body[start:position], functions), range(checked, guards)]
            start, checked = position, guards
        return [*result, *grouped(body[start:], functions), range(checked, len(self.guards))]

    def _native(self, items: list[Any], number: int) -> str:
        """The name of a function of *items*."""
        symbol = f"{self.name}_s{number}"
        function = ir.Function(self.module, ir.FunctionType(I64, [PTR, PTR, PTR, I64]), symbol)
        function.attributes.add("nounwind")
        sections = [*self._sections(items)]
        if len(sections) == 1:
            self._section(function, items, None)
            return symbol
        b = ir.IRBuilder(function.append_basic_block("start"))
        first: LoopFrame | None = None
        for section in sections:
            part = ir.Function(self.module, function.ftype, unique_name(self.module, symbol))
            part.linkage = "internal"
            part.attributes.add("nounwind")
            part.attributes.add("noinline")
            first = self._section(part, section, first, items)
            answer = b.call(part, function.args)
            with b.if_then(b.icmp_signed("!=", answer, I64(-1)), likely=False):
                b.ret(answer)
        b.ret(I64(-1))
        return symbol

    def _sections(self, items: list[Any]) -> Iterator[list[Any]]:
        """*items* in pieces of which each names a bounded number of buffers."""
        section: list[Any] = []
        size = 0
        for item in items:
            mine = _named(item, self.schedule, self.plans)
            if section and size + mine > MAX_NAMED:
                yield section
                section, size = [], 0
            section.append(item)
            size += mine
        yield section

    def _section(
        self, function: ir.Function, items: list[Any], like: LoopFrame | None, every: list[Any] | None = None
    ) -> LoopFrame:
        """Write *items*, some of *every* one, into *function*; what is known in the frame *like* is known here."""
        told = function.args[3]
        frame, end = self._frame(function)
        frame.has_gil = True
        assert frame.buffers is not None
        if optimiser.level:  # else slow all the same, and for tests of other things
            frame.table = KernelTable(frame.buffers, self._frame)
        if like is None:
            frame.look_ahead(every or items)
        else:
            frame.share(like)
        b, pointer = frame.b, frame.pointer
        for is_check, part in itertools.groupby(items, lambda item: isinstance(item, range)):
            if not is_check:
                for item in part:
                    bit = None if isinstance(item, list) else self.bits.get(item)
                    with contextlib.nullcontext() if bit is None else b.if_then(_unset(b, told, bit)):
                        emit_items(frame, [item], self.name)
                continue
            for number in itertools.chain.from_iterable(part):
                held = b.icmp_unsigned("!=", b.load(pointer(self.guards[number]), typ=I8), I8(0))
                with b.if_then(b.not_(held)):
                    b.ret(I64(number))
        b.ret(I64(-1))
        end()
        return frame

    def _frame(self, function: ir.Function) -> tuple[LoopFrame, Callable[[], None]]:
        """(the frame of *function*, whose arguments begin with tables of buffers, sizes and constants, what ends it)"""
        bufs, sizes, consts = function.args[:3]
        entry = ir.IRBuilder(function.append_basic_block("entry"))
        first = function.append_basic_block("start")
        b = ir.IRBuilder(first)

        def end() -> None:
            entry.position_at_end(entry.block)  # others have put their allocas there
            entry.branch(first)

        numbers = Numbers(self.canonical, entry, sizes, consts)
        buffers = BufferTable(bufs, self.index, self.schedule.runs, self.scalars, numbers)
        frame = LoopFrame(
            self.canonical,
            self.schedule,
            self.plans,
            b,
            entry,
            buffers.pointer,
            sizes,
            consts,
            numbers,
            buffers=buffers,
        )
        return frame, end


def _named(item: Any, schedule: Schedule, plans: Mapping[CanonicalOp, LoopPlan]) -> int:
    """The number of buffers that a kernel's entry names for *item*, about."""
    if isinstance(item, range):
        return len(item)
    if not isinstance(item, LibraryCall):
        return len(schedule.buffers(*item if isinstance(item, list) else [item]))
    plan = plans.get(item.op)
    inside = [_named(i, plan.schedule, plan.nested) for i in plan.schedule.body] if plan else []
    return len(item.op.ins) + len(item.op.outs) + sum(inside)


def _by_numpy(item: Any) -> bool:
    return isinstance(item, LibraryCall) and not native(item.op)


def _unset(b: ir.IRBuilder, bits: ir.Value, bit: int) -> ir.Value:
    return b.icmp_unsigned("==", b.and_(bits, I64(1 << bit)), I64(0))


_DEFINE = re.compile(r"^(define [^\n]*)$", re.MULTILINE)


def _finish_text(text: str, with_pool: Callable[[str], str] = pool_calls.complete) -> str:
    width = ' "prefer-vector-width"="512"'
    text = finish_hints(_DEFINE.sub(lambda m: m.group(1) + width, text))
    return vecmath.complete(with_pool(text))
