"""Kernels without a GPU: the same LLVM IR, compiled for the CPU and run by numba's CUDA simulator.

The simulator gives the threads, blocks and barriers; each simulated thread calls the compiled kernel, which asks back
for what ``threads.INTRINSICS`` names.  So what runs is the code that becomes PTX, to the last instruction.  For small
sizes: a simulated thread is a thread.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import libdevice_cpu
import numba.cuda
import numpy as np
from numba.cuda.simulator.kernel import FakeCUDAKernel

from tracegrad.codegen.cpu import jit
from tracegrad.codegen.cpu.assemble import host_view, run_host
from tracegrad.codegen.cpu.hints import finish_hints
from tracegrad.codegen.cuda.mapping import Geometry
from tracegrad.codegen.cuda.program import CudaProgram, Kernel, Library, Order, run
from tracegrad.codegen.lower.canonical import Canonical
from tracegrad.codegen.schedule.memory import ALIGN

SMALL = Geometry(threads=8, warp=4)  # few threads, several warps


class _Thread(threading.local):
    """Where a simulated thread is."""

    thread: int = 0
    block: int = 0
    threads: int = 0
    blocks: int = 0
    wait: Any = None
    memory: np.ndarray
    exchanged: list[int]


_here = _Thread()


def _barrier() -> None:
    _here.wait()


def _shuffle(value: int, mask: int) -> int:
    me, memory = _here.thread, _here.exchanged
    memory[me] = value
    _here.wait()
    found = memory[me ^ mask]
    _here.wait()
    return found


_I, _P = ctypes.c_int32, ctypes.c_void_p
_CALLBACKS = {
    "tg_thread": ctypes.CFUNCTYPE(_I)(lambda: _here.thread),
    "tg_threads": ctypes.CFUNCTYPE(_I)(lambda: _here.threads),
    "tg_block": ctypes.CFUNCTYPE(_I)(lambda: _here.block),
    "tg_blocks": ctypes.CFUNCTYPE(_I)(lambda: _here.blocks),
    "tg_barrier": ctypes.CFUNCTYPE(None)(_barrier),
    "tg_shuffle": ctypes.CFUNCTYPE(_I, _I, _I)(_shuffle),
    "tg_shared": ctypes.CFUNCTYPE(_P)(lambda: _here.memory.ctypes.data),
}
for _name, _callback in _CALLBACKS.items():
    jit.add_symbol(_name, ctypes.cast(_callback, ctypes.c_void_p).value or 0)

cuda: Any = numba.cuda  # the simulator puts its own in the place of this name while a kernel runs


def _shell(call: Any, blocks: Any) -> None:
    """What each simulated thread runs."""
    me = _here
    me.thread, me.threads = cuda.threadIdx.x, cuda.blockDim.x
    me.block, me.blocks = cuda.blockIdx.x, cuda.gridDim.x
    me.wait = cuda.syncthreads
    me.memory, me.exchanged = blocks[me.block]
    call()


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
        names = {name: jit.unique_name(name) for name in program.kernels}
        for name, unique in names.items():
            text = text.replace(f'@"{name}"', f'@"{unique}"')
        text = text.replace('target triple = "unknown-unknown-unknown"', f'target triple = "{jit.target_triple()}"')
        text = text.replace('target datalayout = ""', f'target datalayout = "{jit.data_layout()}"')
        self.compiled = jit.compile_text(finish_hints(text), jit.unique_name("tg_simulated"))
        self.addresses = {name: self.compiled.address(unique) for name, unique in names.items()}
        self.launches: list[tuple[str, int, int]] = []

    def launch(self, program: CudaProgram, kernel: Kernel, grid: tuple[int, int], arguments: list[int]) -> None:
        blocks, threads = grid
        if self.most_blocks and not kernel.extent.exact:
            blocks = min(blocks, self.most_blocks)
        self.launch_at(kernel.name, blocks, threads, arguments)

    def launch_at(self, name: str, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        self.launches.append((name, blocks, threads))
        entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arguments))(self.addresses[name])
        shared = [(np.zeros(64, np.int64), [0] * threads) for _ in range(blocks)]
        with _quick_switching():
            FakeCUDAKernel(_shell, False)[blocks, threads](lambda: entry(*arguments), shared)

    def library(self, program: CudaProgram, step: Library, canonical: Canonical, addresses: list[int]) -> None:
        run_host(program, step.position, canonical, addresses)

    def order(self, program: CudaProgram, step: Order, canonical: Canonical, addresses: list[int]) -> None:
        view = host_view(program, canonical, addresses)
        positions = view(program.canonical.ops[step.position].ins[1])  # type: ignore[arg-type]
        view(step.result)[...] = np.argsort(positions, axis=None, kind="stable").reshape(positions.shape)


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
