"""A graph in canonical form -> a compiled program.

``assembled`` is the pipeline: layout, LLVM IR, machine code.  A ``Program`` is that, loaded, and shared by
every graph with the same key; ``bind`` gives it one run's sizes and constants.  A program is a list of *steps*: native
functions of one module; where NumPy has to do something (sort, search), it is a step between two of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, NamedTuple

import llvmlite.ir as ir
import numpy as np

from ...tracer.ir.primitive import LOOP
from ...tracer.ir.working import Working
from ..lower.canonical import ONE, Canonical, CanonicalOp, Const, Sym
from ..lower.depth import recursion_for
from ..schedule.buffers import buffer_of, counted, filled, lifetimes
from ..schedule.early_exit import check_early, guards_of, is_heavy, steps_before
from ..schedule.loop_tree import LibraryCall, Schedule, ScheduleItem
from ..schedule.memory import Sizes, Temporary, plan
from ..schedule.parts import schedule_in_parts
from ..schedule.tiles import TILE
from . import jit, vecmath
from .divided import KernelTable
from .expressions import Numbers
from .hints import finish_hints
from .library_calls import native
from .loop_node import LoopFrame, emit_items, grouped
from .loop_plan import LoopPlan, plan_loop
from .machine_code import ObjectCode
from .scalar import I8, I64, PTR, memory_type

MAX_DONE = 62  # steps for which ``done`` has a bit


@dataclass(slots=True, eq=False)
class ProgramLayout:
    """The order of a program's work and the places of its values: all that its signature decides without LLVM."""

    canonical: Canonical  # with parts of results as operations
    schedule: Schedule
    results: list[Sym]
    guards: list[Sym]
    temporaries: list[Temporary]
    buffer_index: dict[Sym, int]
    plans: dict[CanonicalOp, LoopPlan]  # plans of the loops that run inside the kernel
    bits: dict[ScheduleItem, int]  # of steps that a kernel can be told to be done

    @property
    def summary(self) -> tuple:
        """The places that machine code knows of, as plain values."""
        body = self.schedule.body
        bits = tuple([(body.index(item), bit) for item, bit in self.bits.items()])
        return tuple([sym.number for sym in self.buffer_index]), tuple(map(astuple, self.temporaries)), bits


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
    temps = [*[s for s in schedule.where if s not in set(results) and s not in schedule.windows], *work]
    order = [*canonical.inputs[:arguments], *results, *canonical.inputs[arguments:], *temps]
    asked = steps_before(schedule, len(guards) - 1) if guards else 0
    heavy = [item for item in schedule.body[:asked] if is_heavy(item)]

    items = grouped(schedule.body)  # scalar statements in a row are one function: all their buffers are live
    needed = lifetimes(canonical, schedule, items)
    needed |= {w.sym: needed[op.outs[0]][:1] * 2 for op, plan in plans.items() for w in plan.work}
    temporaries = []
    for sym in temps:
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
        {item: bit for bit, item in enumerate(heavy[:MAX_DONE])},
    )  # fmt: skip


def results_of(canonical: Canonical) -> list[Sym]:
    return [x for x in canonical.outputs[: canonical.results] if isinstance(x, Sym)]


class Program:
    """Compiled code for one signature. Where the code was found on disk, its :class:`ProgramLayout` is made when it is
    asked for: a launch needs none, unless NumPy does some of the steps."""

    def __init__(
        self, canonical: Canonical, arguments: int, steps: Sequence[str | int], temporaries: list[Temporary],
        object_code: ObjectCode, *, layout: ProgramLayout | None = None, summary: tuple | None = None,
        seconds: dict[str, float] | None = None,
    ) -> None:  # fmt: skip
        """*steps*: names of native functions, and positions of operations for NumPy; *summary*: what that of the layout
        must be."""
        self._given, self._layout, self._summary = canonical, layout, summary
        self.key = canonical.key
        self.arguments = arguments  # how many of the graph's inputs are the caller's; the rest are captured arrays
        self.inputs, self.results = canonical.inputs, results_of(canonical)
        self.temporaries = temporaries
        self.object_code = object_code  # of all steps
        self.code = code = object_code.load()
        self.step_names = steps
        #: Addresses of native functions, and operations for NumPy.
        self.steps: list[int | CanonicalOp] = [
            code.address(step) if isinstance(step, str) else self.canonical.ops[step] for step in steps
        ]
        self.seconds = seconds or {}

    @property
    def layout(self) -> ProgramLayout:
        if self._layout is None:
            with recursion_for(self._given):
                layout = lay_out(self._given, self.arguments)
            if layout.summary != self._summary:
                raise LayoutError("machine code on disk knows other places of values than its signature decides")
            self._layout = layout
        return self._layout

    @property
    def canonical(self) -> Canonical:
        return self.layout.canonical

    @property
    def schedule(self) -> Schedule:
        return self.layout.schedule

    @property
    def guards(self) -> list[Sym]:
        return self.layout.guards

    @property
    def buffer_index(self) -> dict[Sym, int]:
        return self.layout.buffer_index

    @property
    def plans(self) -> dict[CanonicalOp, LoopPlan]:
        return self.layout.plans

    @property
    def bits(self) -> dict[ScheduleItem, int]:
        return self.layout.bits

    @property
    def symbol(self) -> str:
        """The name of its function in its object code, where that is its only step; else nothing."""
        first = self.step_names[0]
        return first if len(self.step_names) == 1 and isinstance(first, str) else ""

    @property
    def address(self) -> int:
        """The address of its function, where that is its only step; else 0."""
        first = self.steps[0]
        return first if len(self.steps) == 1 and isinstance(first, int) else 0

    def plan(self, sizes: Sizes) -> tuple[list[int], int]:
        return plan(self.temporaries, sizes)


class LayoutError(AssertionError):
    """Code that was compiled elsewhere does not belong to the layout made here, though its key is the same."""


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


def compile_canonical(canonical: Canonical, arguments: int) -> Program:
    """The program of *canonical*, compiled now."""
    layout, steps, object_code, seconds = assembled(canonical, arguments)
    return Program(canonical, arguments, steps, layout.temporaries, object_code, layout=layout, seconds=seconds)


class _CpuAssembler:
    def __init__(self, layout: ProgramLayout):
        self.canonical, self.schedule = layout.canonical, layout.schedule
        self.guards, self.plans, self.bits, self.index = layout.guards, layout.plans, layout.bits, layout.buffer_index
        self.name = "tg_kernel"
        self.module = ir.Module(self.name)
        self.module.triple, self.module.data_layout = jit.target_triple(), jit.data_layout()

    def assemble(self) -> tuple[list[str | int], ObjectCode, dict[str, float]]:
        """(the steps, their code, seconds that it took)"""
        start = time.perf_counter()
        steps: list[str | int] = []
        for by_numpy, part in itertools.groupby(self._items(), _by_numpy):
            items = list(part)
            if by_numpy:
                steps += [self.canonical.ops.index(item.op) for item in items]
            elif any(items):
                steps.append(self._native(items, len(steps)))
        steps = steps or [self._native([], 0)]
        emitted = time.perf_counter()
        with Working("machine code", len(self.canonical.ops)):
            object_code = jit.compile_text(_finish_text(str(self.module)), self.name)
        return steps, object_code, {"emit": emitted - start, "llvm": time.perf_counter() - emitted}

    def _items(self) -> list[Any]:
        """The steps as ``grouped`` gives them, and ranges of guards that are checked between them."""
        result: list[Any] = []
        start = checked = 0
        for position, guards in self.schedule.checks:
            result += [*grouped(self.schedule.body[start:position]), range(checked, guards)]
            start, checked = position, guards
        return [*result, *grouped(self.schedule.body[start:]), range(checked, len(self.guards))]

    def _native(self, items: list[Any], number: int) -> str:
        """The name of a function of *items*."""
        symbol = f"{self.name}_s{number}"
        function = ir.Function(self.module, ir.FunctionType(I64, [PTR, PTR, PTR, I64]), symbol)
        function.attributes.add("nounwind")
        told = function.args[3]
        frame, end = self._frame(function)
        frame.has_gil = True
        frame.table = KernelTable(function.args[0], self.index, self._frame)
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
        return symbol

    def _frame(self, function: ir.Function) -> tuple[LoopFrame, Callable[[], None]]:
        """(the frame of *function*, whose arguments begin with tables of buffers, sizes and constants, what ends it)"""
        bufs, sizes, consts = function.args[:3]
        entry = ir.IRBuilder(function.append_basic_block("entry"))
        first = function.append_basic_block("start")
        b = ir.IRBuilder(first)
        pointers: dict[Sym, ir.Value] = {}

        def near(sym: Sym, at: ir.IRBuilder = b) -> ir.Value:
            run = self.schedule.runs.get(sym)
            if run is not None:
                begin: ir.Value = I64(0)
                for dims in run.before:
                    begin = at.add(begin, numbers.count(at, dims))
                return at.gep(near(run.whole, at), [begin], source_etype=memory_type(sym.dtype))
            return at.load(at.gep(bufs, [I64(self.index[sym])], source_etype=PTR), typ=PTR)

        def pointer(sym: Sym) -> ir.Value:
            if sym not in pointers:
                pointers[sym] = near(sym, entry)
            return pointers[sym]

        def end() -> None:
            entry.position_at_end(entry.block)  # others have put their allocas there
            entry.branch(first)

        numbers = Numbers(self.canonical, entry, sizes, consts)
        frame = LoopFrame(
            self.canonical, self.schedule, self.plans, b, entry, pointer, sizes, consts, numbers, near=near
        )
        return frame, end


def _by_numpy(item: Any) -> bool:
    return isinstance(item, LibraryCall) and not native(item.op)


def _unset(b: ir.IRBuilder, bits: ir.Value, bit: int) -> ir.Value:
    return b.icmp_unsigned("==", b.and_(bits, I64(1 << bit)), I64(0))


_DEFINE = re.compile(r"^(define [^\n]*)$", re.MULTILINE)


_POLL = 'declare i64 @"pool:poll"()'


def _finish_text(text: str) -> str:
    width = ' "prefer-vector-width"="512"'
    text = text.replace(_POLL, f"{_POLL} nounwind memory(inaccessiblemem: readwrite)")  # loads need not be done again
    return vecmath.complete(finish_hints(_DEFINE.sub(lambda m: m.group(1) + width, text)))


# ---- steps that NumPy does ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored value: where its address stands in the table of buffers, the type of its bytes, and its form."""

    offset: int
    raw: type[ctypes.Array[ctypes.c_char]]
    shape: tuple[int, ...]
    dtype: np.dtype

    def at(self, table: int) -> np.ndarray:
        """The value as an array, in the buffers of the table at this address."""
        address = ctypes.c_size_t.from_address(table + self.offset).value
        return np.ndarray(self.shape, self.dtype, self.raw.from_address(address))  # type: ignore[arg-type]


def stored_in(program: Any, canonical: Canonical, x: Sym) -> Stored:
    """The place of a value that *program* stores, for the sizes of *canonical*."""
    shape = tuple(int(canonical.sizes[d]) for d in x.dims)
    buffer = program.buffer_index[buffer_of(program.canonical, program.schedule.stored, x)]
    raw = ctypes.c_char * (int(np.prod(shape, dtype=np.int64)) * x.dtype.itemsize)
    return Stored(ctypes.sizeof(ctypes.c_size_t) * buffer, raw, shape, x.dtype)


def host_step(program: Any, op: CanonicalOp, canonical: Canonical) -> Callable[[int], None]:
    """The step *op* of *program* for the sizes and constants of *canonical*, by its NumPy implementation: a function of
    the address of the table of buffers."""
    place = partial(stored_in, program, canonical)
    operands, params = step_operands(program, program.canonical.ops.index(op), canonical, place, np)
    outs = [place(out) for out in op.outs]

    def step(table: int) -> None:
        with np.errstate(all="ignore"):
            found = op.prim.impl(*[x.at(table) if type(x) is Stored else x for x in operands], **params)
            for out, value in zip(outs, found if op.more else (found,), strict=True):
                np.copyto(out.at(table), value, casting="unsafe")

    return step


def step_operands(
    program: Any, position: int, canonical: Canonical, view: Callable[[Sym], Any], xp: Any
) -> tuple[list[Any], dict[str, Any]]:
    """The operands and params with which the implementation of operation *position* is called, for the numbers of
    *canonical*.  *view* gives a stored value, as an array of the module *xp* or what stands for it."""
    sizes, op, mine = canonical.sizes, program.canonical.ops[position], canonical.ops[position]

    def number(x: Const) -> Any:
        if x.slot is None:
            return x.value
        return np.frombuffer(canonical.consts[x.slot :].tobytes()[: x.dtype.itemsize], x.dtype)[0]

    def operand(k: int) -> Any:
        """Operand *k*, also where it has no buffer."""
        x = op.ins[k]
        if isinstance(x, Const):
            return number(x)
        fill, rows = filled(program.canonical, op, k), counted(program.canonical, op, k)
        if fill is not None:
            return xp.full(tuple(int(sizes[d]) for d in x.dims), number(fill), x.dtype)
        if rows is not None:
            return xp.arange(int(sizes[x.dims[0]]), dtype=x.dtype)
        return view(x)

    params = dict(mine.params)
    if op.prim.name == "nonzero":
        params["count"] = int(sizes[op.out.dims[0]])
    if op.prim.kind == LOOP:
        params.update(body=mine.params["body"].graph, length=int(sizes[op.params["length"]]))
    return [operand(k) for k in range(len(op.ins))], params
