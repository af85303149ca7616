"""Kernels without a GPU: the same LLVM IR, compiled for the CPU and run thread by thread.

Each simulated thread calls the compiled kernel, which asks back for what ``threads.INTRINSICS`` names.  So what runs is
the code that becomes PTX, to the last instruction.  For small sizes: a simulated thread is a thread where the threads
of a block meet, and a call where they do not.
"""

from __future__ import annotations

import ctypes
import random
import re
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import libdevice_cpu
import numpy as np

from tracegrad.codegen.cpu import jit, symbols
from tracegrad.codegen.cpu.hints import finish_hints
from tracegrad.codegen.cpu.program import host_step, stored_in
from tracegrad.codegen.cuda.mapping import Geometry
from tracegrad.codegen.cuda.program import CudaProgram, Kernel, Library, Order, run
from tracegrad.codegen.lower.canonical import Canonical
from tracegrad.codegen.schedule.memory import ALIGN

SMALL = Geometry(threads=8, warp=4)  # few threads, several warps

_FUNCTION = re.compile(r'^define [^@]*@"(?P<name>[^"]*)"(?P<body>.*?)^}', re.MULTILINE | re.DOTALL)
_MEETS = re.compile("tg_barrier|tg_shuffle|atomicrmw|cmpxchg")  # threads wait for each other, or write to one place


class _Block:
    """One block of a launch."""

    def __init__(self, number: int, blocks: int, threads: int, call: Callable[[], None]):
        self.number, self.blocks, self.threads, self.call = number, blocks, threads, call
        self.memory = np.zeros(64, np.int64)
        self.exchanged = [0] * threads
        self.barrier = threading.Barrier(threads, timeout=60)
        self.broken = False

    def run(self, thread: int) -> None:
        _here.block, _here.thread = self, thread
        self.call()

    def run_in_turn(self) -> None:
        """The threads one after the other, in any order: for kernels in which none waits for another."""
        for thread in random.Random(self.threads).sample(range(self.threads), self.threads):
            self.run(thread)

    def run_together(self, pool: ThreadPoolExecutor) -> None:
        """Each in a thread of its own."""
        for future in [pool.submit(self.run, thread) for thread in range(self.threads)]:
            future.result()
        if self.broken:
            raise RuntimeError("a thread of the block did not come to a barrier at which the others waited")

    def wait(self) -> None:
        try:
            self.barrier.wait()
        except threading.BrokenBarrierError:  # would be lost in the kernel that calls
            self.broken = True


class _Here(threading.local):
    """Where a simulated thread is."""

    block: _Block
    thread: int


_here = _Here()


def _shuffle(value: int, mask: int) -> int:
    me, block = _here.thread, _here.block
    block.exchanged[me] = value
    block.wait()
    found = block.exchanged[me ^ mask]
    block.wait()
    return found


_I, _P = ctypes.c_int32, ctypes.c_void_p
_CALLBACKS = {
    "tg_thread": ctypes.CFUNCTYPE(_I)(lambda: _here.thread),
    "tg_threads": ctypes.CFUNCTYPE(_I)(lambda: _here.block.threads),
    "tg_block": ctypes.CFUNCTYPE(_I)(lambda: _here.block.number),
    "tg_blocks": ctypes.CFUNCTYPE(_I)(lambda: _here.block.blocks),
    "tg_barrier": ctypes.CFUNCTYPE(None)(lambda: _here.block.wait()),
    "tg_shuffle": ctypes.CFUNCTYPE(_I, _I, _I)(_shuffle),
    "tg_shared": ctypes.CFUNCTYPE(_P)(lambda: _here.block.memory.ctypes.data),
}
for _name, _callback in _CALLBACKS.items():
    symbols.define(_name, ctypes.cast(_callback, ctypes.c_void_p).value or 0)


@contextmanager
def _quick_switching() -> Any:
    """Simulated threads wait for each other all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Simulator:
    """The ``Machine`` of one program.

    *most_blocks*: of a launch whose blocks leave nothing that depends on how many they are; a thread then does several
    units in turn.
    """

    def __init__(self, program: CudaProgram, most_blocks: int | None = None):
        libdevice_cpu.install()
        self.program, self.most_blocks = program, most_blocks
        text = program.text
        text = text.replace('target triple = "unknown-unknown-unknown"', f'target triple = "{jit.target_triple()}"')
        text = text.replace('target datalayout = ""', f'target datalayout = "{jit.data_layout()}"')
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
        entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arguments))(self.addresses[name])
        launch = [_Block(block, blocks, threads, partial(entry, *arguments)) for block in range(blocks)]
        if name in self.meeting:
            with _quick_switching(), ThreadPoolExecutor(threads) as pool:
                for block in launch:
                    block.run_together(pool)
        else:
            for block in launch:
                block.run_in_turn()

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
