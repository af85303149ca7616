"""GPU programs: kernels and library calls in order, and their execution.

Three data structures: a ``Kernel`` is one launch, a ``Library`` an operation that the array module of the device does
(CuPy), and a ``CudaProgram`` is these steps in order with their buffers.  A ``Machine`` runs steps; ``run`` walks them.
A program is made once for a signature (``assemble.py``), like the CPU's (``codegen/cpu/assemble.py``), and knows
nothing of sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Protocol

from ...tracer.ir.data_classes import dataclass
from ..lower.canonical import Canonical, Sym
from ..schedule.loop_tree import Schedule
from ..schedule.memory import ALIGN, Sizes, Temporary, plan
from .mapping import Extent, Geometry

Gate = Callable[[Sizes], bool]  # choice between two forms of a step


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaStep:
    gate: Gate | None = None

    def launched(self, sizes: Sizes) -> bool:
        return self.gate is None or self.gate(sizes)


@dataclass(frozen=True, slots=True)
class Kernel(CudaStep):
    """One launch of the function *name* on *buffers*."""

    name: str
    buffers: tuple[Sym, ...]
    extent: Extent
    single: bool = False  # one block is enough: the second stage of a reduction

    def grid(self, sizes: Sizes, geometry: Geometry) -> tuple[int, int]:
        """(blocks, threads of a block)"""
        return (1, geometry.threads) if self.single else self.extent.launch(sizes, geometry)


@dataclass(frozen=True, slots=True)
class Library(CudaStep):
    """Operation *position* of the program, by the array module."""

    position: int


@dataclass(frozen=True, slots=True)
class Order(CudaStep):
    """The stable order of the positions to which the indexed write number *position* writes, into *result*."""

    position: int
    result: Sym


@dataclass(slots=True, eq=False)
class CudaProgram:
    """The program of one signature.  ``text`` is LLVM IR in which the functions of ``threads.INTRINSICS`` are open."""

    key: tuple
    arguments: int
    inputs: list[Sym]
    results: list[Sym]
    guards: list[Sym]
    temporaries: list[Temporary]
    steps: list[CudaStep]
    buffer_index: dict[Sym, int]  # arguments, results, captured arrays, temporaries
    canonical: Canonical
    schedule: Schedule
    geometry: Geometry
    text: str
    kernels: list[str] = field(default_factory=list)

    def plan(self, sizes: Sizes) -> tuple[list[int], int]:
        """(offset of each temporary, bytes of the workspace).  Its first bytes are the guards, in order: they are read
        back together."""
        front = len(self.guards)
        offsets, total = plan(self.temporaries[front:], sizes)
        begin = -(-front // ALIGN) * ALIGN
        return [*range(front), *[begin + o for o in offsets]], begin + total


class Machine(Protocol):
    """Executor of a program's steps: a GPU, or a simulator of one.  Addresses are of its memory."""

    def launch(self, program: CudaProgram, kernel: Kernel, grid: tuple[int, int], arguments: list[int]) -> None:
        """Launch *kernel* on *grid* (blocks, threads of a block)."""

    def library(self, program: CudaProgram, step: Library, canonical: Canonical, addresses: list[int]) -> None:
        """Do the operation *step* on the buffers at *addresses* (``CudaProgram.buffer_index``)."""

    def order(self, program: CudaProgram, step: Order, canonical: Canonical, addresses: list[int]) -> None:
        """A stable argsort over all positions."""


def run(
    program: CudaProgram, canonical: Canonical, addresses: list[int], numbers: tuple[int, int], machine: Machine
) -> None:
    """All steps of *program* for the sizes and constants of *canonical*, which the machine has at *numbers*.

    *addresses* are those of ``CudaProgram.buffer_index``; the temporaries' lie as ``CudaProgram.plan`` says.
    """
    for step in program.steps:
        if not step.launched(canonical.sizes):
            continue
        if isinstance(step, Library):
            machine.library(program, step, canonical, addresses)
        elif isinstance(step, Order):
            machine.order(program, step, canonical, addresses)
        elif isinstance(step, Kernel):
            grid = step.grid(canonical.sizes, program.geometry)
            machine.launch(program, step, grid, [*[addresses[program.buffer_index[s]] for s in step.buffers], *numbers])
