"""A graph in canonical form -> a compiled program.

``compile_canonical`` is the pipeline: schedule, LLVM IR, machine code.  A ``Program`` is shared by
every graph with the same key; ``bind`` gives it one run's sizes and constants.  A program is a list of *steps*: native
functions of one module; where NumPy has to do something (sort, search), it is a step between two of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ...tracer.ir.primitive import LOOP
from ..lower.canonical import ONE, Canonical, CanonicalOp, Const, Sym
from ..schedule.buffers import buffer_of, counted, filled, lifetimes
from ..schedule.early_exit import check_early, guards_of, is_heavy, steps_before
from ..schedule.loop_tree import LibraryCall, Schedule, ScheduleItem
from ..schedule.memory import Sizes, Temporary, plan
from ..schedule.parts import schedule_in_parts
from ..schedule.tiles import TILE
from . import jit, vecmath
from .expressions import Numbers
from .hints import finish_hints
from .library_calls import native
from .loop_node import LoopFrame, emit_items, grouped
from .loop_plan import LoopPlan, plan_loop
from .machine_code import MachineCode
from .scalar import I8, I64, PTR, memory_type

#: ``int64 kernel(void **bufs, int64 *sizes, void *consts, int64 done)``.  It holds the GIL.
KERNEL_TYPE = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
MAX_DONE = 62  # steps for which ``done`` has a bit


@dataclass(slots=True, eq=False)
class Program:
    """Compiled code for one signature."""

    key: tuple
    arguments: int  # how many of the graph's inputs are the caller's; the rest are captured or constant arrays
    inputs: list[Sym]
    results: list[Sym]
    temporaries: list[Temporary]
    steps: list[int | CanonicalOp]  # addresses of native functions, and operations for NumPy
    buffer_index: dict[Sym, int]
    canonical: Canonical
    schedule: Schedule
    code: MachineCode  # of all steps
    guards: list[Sym]
    seconds: dict[str, float] = field(default_factory=dict)
    plans: dict[CanonicalOp, LoopPlan] = field(default_factory=dict)  # plans of the loops that run inside the kernel
    bits: dict[ScheduleItem, int] = field(default_factory=dict)  # of steps that a kernel can be told to be done

    @property
    def address(self) -> int:
        """The address of its function, where that is its only step; else 0."""
        first = self.steps[0]
        return first if len(self.steps) == 1 and isinstance(first, int) else 0

    def plan(self, sizes: Sizes) -> tuple[list[int], int]:
        return plan(self.temporaries, sizes)


def compile_canonical(canonical: Canonical, arguments: int) -> Program:
    """Schedule, emit and compile."""
    clock = time.perf_counter()
    canonical, schedule = schedule_in_parts(canonical)
    check_early(canonical, schedule)
    scheduled = time.perf_counter()
    program = _CpuAssembler(canonical, schedule, arguments).assemble()
    program.seconds["schedule"] = scheduled - clock
    return program


class _CpuAssembler:
    def __init__(self, canonical: Canonical, schedule: Schedule, arguments: int):
        self.canonical, self.schedule, self.arguments = canonical, schedule, arguments
        self.results = [x for x in canonical.outputs[: canonical.results] if isinstance(x, Sym)]
        self.guards = guards_of(canonical)
        self.name = jit.unique_name("tg_kernel")
        self.module = ir.Module(self.name)
        self.module.triple, self.module.data_layout = jit.target_triple(), jit.data_layout()
        results = set(self.results)
        self.plans = {
            item.op: plan_loop(item.op, canonical)
            for item in schedule.body
            if isinstance(item, LibraryCall) and item.op.prim.kind == LOOP and native(item.op)
        }
        self.work = {w.sym: w for plan in self.plans.values() for w in plan.work}
        self.temps = [*[s for s in schedule.where if s not in results and s not in schedule.windows], *self.work]
        order = [*canonical.inputs[:arguments], *self.results, *canonical.inputs[arguments:], *self.temps]
        self.index = {sym: k for k, sym in enumerate(order)}
        asked = steps_before(schedule, len(self.guards) - 1) if self.guards else 0
        heavy = [item for item in schedule.body[:asked] if is_heavy(item)]
        self.bits = {item: bit for bit, item in enumerate(heavy[:MAX_DONE])}

    def assemble(self) -> Program:
        start = time.perf_counter()
        steps: list[str | CanonicalOp] = []
        for by_numpy, part in itertools.groupby(self._items(), _by_numpy):
            items = list(part)
            if by_numpy:
                steps += [item.op for item in items]
            elif any(items):
                steps.append(self._native(items, len(steps)))
        steps = steps or [self._native([], 0)]
        emitted = time.perf_counter()
        text = _finish_text(str(self.module))
        code = jit.compile_text(text, self.name)
        runnable = [code.address(step) if isinstance(step, str) else step for step in steps]
        done = time.perf_counter()
        return Program(
            self.canonical.key, self.arguments, self.canonical.inputs, self.results, self._temporaries(), runnable,
            self.index, self.canonical, self.schedule, code, self.guards,
            {"emit": emitted - start, "llvm": done - emitted}, self.plans, self.bits,
        )  # fmt: skip

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
        bufs, sizes, consts, told = function.args
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

        numbers = Numbers(self.canonical, entry, sizes, consts)
        frame = LoopFrame(
            self.canonical, self.schedule, self.plans, b, entry, pointer, sizes, consts, numbers, near=near
        )
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
        entry.position_at_end(entry.block)
        entry.branch(first)
        return symbol

    def _temporaries(self) -> list[Temporary]:
        items = grouped(self.schedule.body)  # scalar statements in a row are one function: all their buffers are live
        needed = lifetimes(self.canonical, self.schedule, items)
        needed |= {w.sym: needed[op.outs[0]][:1] * 2 for op, plan in self.plans.items() for w in plan.work}
        result = []
        for sym in self.temps:
            wide = [d for d in sym.dims if d != ONE][self.schedule.contracted.get(sym, 0) :]
            itemsize = sym.dtype.itemsize * (TILE if sym in self.schedule.tiled else 1)
            name, (first, last) = repr(sym), needed[sym]
            if sym in self.guards:
                last = len(items)
            if sym in self.work:
                wide, itemsize, name = list(self.work[sym].dims), self.work[sym].itemsize, f"{name} of a loop"
            result.append(Temporary(name, tuple(wide), itemsize, first, last))
        return result


def _by_numpy(item: Any) -> bool:
    return isinstance(item, LibraryCall) and not native(item.op)


def _unset(b: ir.IRBuilder, bits: ir.Value, bit: int) -> ir.Value:
    return b.icmp_unsigned("==", b.and_(bits, I64(1 << bit)), I64(0))


_DEFINE = re.compile(r"^(define [^\n]*)$", re.MULTILINE)


def _finish_text(text: str) -> str:
    width = ' "prefer-vector-width"="512"'
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
