"""Kernels without a GPU: the same LLVM IR, compiled for the CPU and run thread by thread.

Each simulated thread calls the compiled kernel, which asks back for what ``threads.INTRINSICS`` names.  So what runs is
the code that becomes PTX, to the last instruction.  For small sizes: a simulated thread is a call, one after the other.
Where the threads of a block meet, each has a stack of its own (the C library's contexts) and runs to the barrier; then
it is the next one's turn, in another order after each barrier, so that nothing may count on who comes first.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import re
import sys
import threading
from collections.abc import Sequence
from typing import Any

import libdevice_cpu
import numpy as np
import pytest
from compiled_once import OPTIMISED
from pytest import MonkeyPatch

from tracegrad.codegen.cpu import jit, symbols
from tracegrad.codegen.cpu.hints import finish_hints
from tracegrad.codegen.cpu.program import host_step, stored_in
from tracegrad.codegen.cuda.mapping import Geometry
from tracegrad.codegen.cuda.program import CudaProgram, Kernel, Library, Order, run
from tracegrad.codegen.lower.canonical import Canonical
from tracegrad.codegen.schedule.memory import ALIGN
from tracegrad.tracer.ir.settings import optimiser

if sys.platform != "linux":
    pytest.skip("simulated threads are contexts of Linux's C libraries", allow_module_level=True)

SMALL = Geometry(threads=8, warp=4)  # few threads, several warps

_FUNCTION = re.compile(r'^define [^@]*@"(?P<name>[^"]*)"(?P<body>.*?)^}', re.MULTILINE | re.DOTALL)
_MEETS = re.compile("tg_barrier|tg_shuffle")  # threads wait for each other
MOST_THREADS = 1024


class _State(ctypes.Structure):
    """What runs now, which the intrinsics read."""

    _fields_ = [
        *[(name, ctypes.c_int32) for name in ("thread", "threads", "block", "blocks", "waits", "unused")],
        ("own", ctypes.c_void_p),  # context of the simulated thread
        ("caller", ctypes.c_void_p),  # context of what runs the threads in turn
        ("shared", ctypes.c_int64 * 64),
        ("exchanged", ctypes.c_int32 * MOST_THREADS),
    ]


class _Context(ctypes.Structure):
    """The head of ``ucontext_t``, whose size depends on the processor."""

    _fields_ = [
        ("flags", ctypes.c_ulong),
        ("link", ctypes.c_void_p),
        ("stack", ctypes.c_void_p),
        ("stack_flags", ctypes.c_int),
        ("stack_size", ctypes.c_size_t),
        ("rest", ctypes.c_char * 8192),
    ]


_state = _State()
_running = threading.Lock()  # there is one state
_libc = ctypes.CDLL(None)
_STACK = 1 << 18


def _field(name: str) -> str:
    return f"inttoptr (i64 {ctypes.addressof(_state) + getattr(_State, name).offset} to ptr)"


def _intrinsics() -> str:
    read = "\n".join(
        f"define i32 @tg_{name}() {{\n  %v = load volatile i32, ptr {_field(name)}\n  ret i32 %v\n}}"
        for name in ("thread", "threads", "block", "blocks")
    )
    return f"""{read}
declare i32 @swapcontext(ptr, ptr)

define ptr @tg_shared() {{
  ret ptr {_field("shared")}
}}

define void @tg_barrier() {{
  store volatile i32 1, ptr {_field("waits")}
  %own = load volatile ptr, ptr {_field("own")}
  %caller = load volatile ptr, ptr {_field("caller")}
  %r = call i32 @swapcontext(ptr %own, ptr %caller)
  ret void
}}

define i32 @tg_shuffle(i32 %value, i32 %mask) {{
  %me = call i32 @tg_thread()
  %mine = getelementptr i32, ptr {_field("exchanged")}, i32 %me
  store volatile i32 %value, ptr %mine
  call void @tg_barrier()
  %other = xor i32 %me, %mask
  %its = getelementptr i32, ptr {_field("exchanged")}, i32 %other
  %found = load volatile i32, ptr %its
  call void @tg_barrier()
  ret i32 %found
}}
"""


_intrinsic_code = jit.compile_text(_intrinsics(), "tg_intrinsics").load()
for _name in ("tg_thread", "tg_threads", "tg_block", "tg_blocks", "tg_barrier", "tg_shuffle", "tg_shared"):
    symbols.define(_name, _intrinsic_code.address(_name))


class _Threads:
    """Simulated threads that wait for each other, each with a stack."""

    def __init__(self) -> None:
        self.contexts: list[_Context] = []
        self.stacks: list[mmap.mmap] = []
        self.caller = _Context()

    def begin(self, number: int, entry: int, arguments: Sequence[int]) -> None:
        """Let thread *number* start with the kernel at *entry*."""
        while len(self.contexts) <= number:
            self.contexts.append(_Context())
            self.stacks.append(mmap.mmap(-1, _STACK))
        context = self.contexts[number]
        _libc.getcontext(ctypes.byref(context))
        context.stack = ctypes.addressof(ctypes.c_char.from_buffer(self.stacks[number]))
        context.stack_size, context.link = _STACK, ctypes.addressof(self.caller)
        _libc.makecontext(
            ctypes.byref(context), ctypes.c_void_p(entry), len(arguments), *map(ctypes.c_void_p, arguments)
        )

    def go_on(self, number: int) -> bool:
        """Run thread *number* up to a barrier, or to its end: whether it waits."""
        context = self.contexts[number]
        _state.thread, _state.waits = number, 0
        _state.own, _state.caller = ctypes.addressof(context), ctypes.addressof(self.caller)
        _libc.swapcontext(ctypes.byref(self.caller), ctypes.byref(context))
        return bool(_state.waits)

    def run(self, entry: int, arguments: Sequence[int], orders: random.Random) -> None:
        """All threads of a block."""
        every = range(_state.threads)
        for thread in every:
            self.begin(thread, entry, arguments)
        while waiting := sum(self.go_on(thread) for thread in orders.sample(every, len(every))):
            if waiting < len(every):
                raise RuntimeError("a thread of the block did not come to a barrier at which the others waited")


_threads = _Threads()


class Simulator:
    """The ``Machine`` of one program.

    *most_blocks*: of a launch whose blocks leave nothing that depends on how many they are; a thread then does several
    units in turn.

    *optimised*: the CPU's code.  What a GPU runs is optimised by libNVVM, so this finds attributes that are wrong and
    nothing else, in ten times the time.
    """

    def __init__(self, program: CudaProgram, most_blocks: int | None = None, optimised: bool = True):
        libdevice_cpu.install()
        self.program, self.most_blocks = program, most_blocks
        text = program.text
        text = text.replace('target triple = "unknown-unknown-unknown"', f'target triple = "{jit.target_triple()}"')
        text = text.replace('target datalayout = ""', f'target datalayout = "{jit.data_layout()}"')
        with MonkeyPatch.context() as patch:
            patch.setattr(optimiser, "level", OPTIMISED if optimised else 0)
            self.compiled = jit.compile_text(finish_hints(text), "tg_simulated").load()
        self.addresses = {name: self.compiled.address(name) for name in program.kernels}
        bodies = {m["name"]: m["body"] for m in _FUNCTION.finditer(text)}
        more = meeting = {name for name, body in bodies.items() if _MEETS.search(body)}
        while more:  # a function meets where one that it calls does
            more = {n for n, body in bodies.items() if any(f'@"{name}"' in body for name in more)} - meeting
            meeting |= more
        self.meeting = {name for name in program.kernels if name in meeting}
        self.launches: list[tuple[str, int, int]] = []

    def launch(self, program: CudaProgram, kernel: Kernel, grid: tuple[int, int], arguments: list[int]) -> None:
        blocks, threads = grid
        if self.most_blocks and not kernel.extent.exact:
            blocks = min(blocks, self.most_blocks)
        self.launch_at(kernel.name, blocks, threads, arguments)

    def launch_at(self, name: str, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        self.launches.append((name, blocks, threads))
        entry, orders = self.addresses[name], random.Random(threads)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arguments))(entry)
        with _running:
            _state.threads, _state.blocks = threads, blocks
            for block in range(blocks):
                _state.block = block
                if name in self.meeting:
                    _threads.run(entry, arguments, orders)
                else:
                    for thread in orders.sample(range(threads), threads):
                        _state.thread = thread
                        call(*arguments)

    def library(self, program: CudaProgram, step: Library, canonical: Canonical, addresses: list[int]) -> None:
        table = (ctypes.c_size_t * len(addresses))(*addresses)
        host_step(program, program.canonical.ops[step.position], canonical)(ctypes.addressof(table))

    def order(self, program: CudaProgram, step: Order, canonical: Canonical, addresses: list[int]) -> None:
        table = (ctypes.c_size_t * len(addresses))(*addresses)
        source: Any = program.canonical.ops[step.position].ins[1]
        positions, result = [
            stored_in(program, canonical, x).at(ctypes.addressof(table)) for x in (source, step.result)
        ]
        result[...] = np.argsort(positions, axis=None, kind="stable").reshape(positions.shape)


def simulate(
    program: CudaProgram, canonical: Canonical, arrays: Sequence[np.ndarray], machine: Simulator | None = None
) -> tuple[int, list[np.ndarray], list[tuple[str, int, int]]]:
    """(failed guard or -1, results, launches) of *program*; *arrays* are all of the graph's inputs, C-contiguous.

    *machine*: of an earlier run of the same program, whose kernels are compiled.
    """
    machine, sizes = machine or Simulator(program), canonical.sizes
    machine.launches = []
    offsets, total = program.plan(sizes)
    workspace = np.full(total + ALIGN, 0xA5, np.uint8)  # nothing may count on what is there
    base = -(-workspace.ctypes.data // ALIGN) * ALIGN
    results = [np.empty(tuple(int(sizes[d]) for d in s.dims), s.dtype) for s in program.results]
    n = program.arguments
    addresses = [a.ctypes.data for a in (*arrays[:n], *results, *arrays[n:])] + [base + o for o in offsets]
    run(program, canonical, addresses, (sizes.ctypes.data, canonical.consts.ctypes.data), machine)
    held = workspace[base - workspace.ctypes.data :][: len(program.guards)]
    failed = int(np.argmin(held)) if len(held) and not held.all() else -1
    return failed, results, machine.launches
