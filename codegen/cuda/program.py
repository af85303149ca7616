"""A canonical program -> kernels and library calls for a GPU.

Three data structures: a ``Kernel`` is one launch, a ``Library`` an operation that the array module of the device does
(CuPy), and a ``CudaProgram`` is these steps in order with their buffers.  A ``Machine`` runs steps; ``run`` walks them.
A program is made once for a signature, like the CPU's (``codegen/program.py``), and knows nothing of sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import llvmlite.ir as ir

from ..canonical import ONE, Canonical, Dim, Sym
from ..cpu import carries, item_buffers, statements_of
from ..guards import guards_of
from ..memory import ALIGN, Sizes, Temporary, plan
from ..schedule import Call, Loop, Schedule, Statement, buffer_of
from .kernels import KernelEmitter, partial_dtypes
from .mapping import COLUMNS, PARTS, Extent, Geometry, extent_of, parts_of_columns, product, scalar_extent
from .placing import device_schedule
from .retarget import for_device


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch of the function *name* on *buffers*."""

    name: str
    buffers: tuple[Sym, ...]
    extent: Extent
    single: bool = False  # one block is enough: the second stage of a reduction


@dataclass(frozen=True, slots=True)
class Library:
    """Operation *position* of the program, by the array module."""

    position: int


Step = Kernel | Library


@dataclass(frozen=True, slots=True)
class Partials(Temporary):
    """What the first stage of a reduction leaves: *cut* is the axis that a sum over outer axes cuts in parts."""

    cut: Dim = 0

    def nbytes(self, sizes: Sizes) -> int:
        units = product(self.dims, sizes)
        parts = parts_of_columns(units, int(sizes[self.cut])) if self.cut else PARTS
        return -(-max(units * parts * self.itemsize, 1) // ALIGN) * ALIGN


@dataclass(slots=True, eq=False)
class CudaProgram:
    """What runs for one signature.  ``text`` is LLVM IR in which the functions of ``kernels.INTRINSICS`` are open."""

    key: tuple
    arguments: int
    inputs: list[Sym]
    results: list[Sym]
    guards: list[Sym]
    temporaries: list[Temporary]
    steps: list[Step]
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


def assemble(canonical: Canonical, arguments: int, geometry: Geometry | None = None) -> CudaProgram:
    """The kernels of *canonical*, the first *arguments* of whose inputs are the caller's."""
    return _Assembler(canonical, arguments, geometry or Geometry()).program()


class _Assembler:
    def __init__(self, canonical: Canonical, arguments: int, geometry: Geometry):
        self.canonical, self.arguments, self.geometry = for_device(canonical), arguments, geometry
        canonical = self.canonical
        self.schedule = device_schedule(canonical)
        self.results = [x for x in canonical.outputs[: canonical.results] if isinstance(x, Sym)]
        self.guards = guards_of(canonical)
        self.module = ir.Module("cuda")
        self.steps: list[Step] = []
        self.partials: dict[Sym, tuple[int, tuple[Dim, ...], Dim]] = {}  # made in which item, their dims and cut

    def program(self) -> CudaProgram:
        items = self._items()
        for position, item in enumerate(items):
            if isinstance(item, Call):
                self.steps.append(Library(self.canonical.ops.index(item.op)))
            elif isinstance(item, Loop):
                self._nest(item, position)
            else:
                self._scalars(item)
        temporaries = self._temporaries(items)
        temps = [*self.guards, *self._plain_temporaries(), *self.partials]
        order = [*self.canonical.inputs[: self.arguments], *self.results, *self.canonical.inputs[self.arguments :]]
        index = {sym: k for k, sym in enumerate([*order, *temps])}
        return CudaProgram(
            self.canonical.key, self.arguments, self.canonical.inputs, self.results, self.guards, temporaries,
            self.steps, index, self.canonical, self.schedule, self.geometry, str(self.module),
            [s.name for s in self.steps if isinstance(s, Kernel)],
        )  # fmt: skip

    def _items(self) -> list[Any]:
        """The items of the schedule, scalar statements in a row together."""
        result: list[Any] = []
        for item in self.schedule.body:
            if isinstance(item, Statement) and result and isinstance(result[-1], list):
                result[-1].append(item)
            else:
                result.append([item] if isinstance(item, Statement) else item)
        return result

    # ---- kernels -------------------------------------------------------------------------------------------------

    def _emitter(self, used: Sequence[Sym], aliased: set[Sym] = frozenset()) -> KernelEmitter:  # type: ignore[assignment]
        name = f"tg_k{sum(isinstance(s, Kernel) for s in self.steps)}"
        return KernelEmitter(self.canonical, self.schedule, self.module, name, list(used), self.geometry, aliased)

    def _finish(self, emitter: KernelEmitter, extent: Extent, single: bool = False) -> None:
        function = emitter.finish()
        self.steps.append(Kernel(function.name, tuple(emitter.used), extent, single))

    def _scalars(self, statements: list[Statement]) -> None:
        used = dict.fromkeys(
            s for part in statements for s in item_buffers(self.canonical, self.schedule, self.schedule.reads, part)
        )
        emitter = self._emitter(list(used))
        with emitter.alone():
            emitter.items(list(statements))
        self._finish(emitter, scalar_extent(statements))

    def _nest(self, nest: Loop, position: int) -> None:
        extent = extent_of(self.canonical, nest)
        statements = statements_of(nest)
        used = item_buffers(self.canonical, self.schedule, self.schedule.reads, nest)
        if not extent.mapping.partial:
            emitter = self._emitter(used, self._aliased(nest))
            emitter.nest(nest, extent.mapping, {})
            self._finish(emitter, extent)
            return
        columns = extent.mapping.by == COLUMNS
        closing = [s for s in statements if carries(s.op) and (columns or s.complete == 0)]
        partials: dict[Sym, list[Sym]] = {}
        for s in closing:
            own = partials[s.out] = [Sym(-1 - len(self.partials), dtype, ()) for dtype in partial_dtypes(s)]
            for sym in own:
                self.partials[sym] = position, extent.units if columns else (), extent.cut
        shares = [sym for own in partials.values() for sym in own]
        totals = {s.out for s in closing}
        emitter = self._emitter([*[s for s in used if s not in totals], *shares], self._aliased(nest))
        if columns:
            (statement,) = closing
            emitter.columns(statement, partials[statement.out])
            self._finish(emitter, extent)
            second = self._emitter([statement.out, *shares])
            second.combine_columns(statement, partials[statement.out])
            self._finish(second, Extent(extent.mapping, extent.units))
            return
        emitter.nest(nest, extent.mapping, partials)
        self._finish(emitter, extent)
        second = self._emitter([*totals, *shares])
        count = second.share_count(extent.units, extent.mapping.by)
        for s in closing:
            second.combine(s, partials[s.out], count)
        self._finish(second, extent, single=True)

    def _aliased(self, nest: Loop) -> set[Sym]:
        """What one statement of *nest* writes and another reads."""
        made = {s.out for s in statements_of(nest)}
        return {sym for s in statements_of(nest) for sym, _ in self.schedule.reads[s.out].stored} & made

    # ---- buffers -------------------------------------------------------------------------------------------------

    def _temporaries(self, items: Sequence[Any]) -> list[Temporary]:
        first: dict[Sym, int] = {}
        last: dict[Sym, int] = {}

        def touch(sym: Sym, position: int) -> None:
            first.setdefault(sym, position)
            last[sym] = position

        for position, item in enumerate(items):
            if isinstance(item, Call):
                for x in (*item.op.ins, *item.op.outs):
                    if isinstance(x, Sym):
                        touch(buffer_of(self.canonical, self.schedule.stored, x), position)
            else:
                for part in item if isinstance(item, list) else [item]:
                    for sym in item_buffers(self.canonical, self.schedule, self.schedule.reads, part):
                        touch(sym, position)
        guards = [Temporary(repr(s), (), 1, 0, len(items)) for s in self.guards]
        temporaries = [
            Temporary(repr(s), tuple(d for d in s.dims if d != ONE), s.dtype.itemsize, first[s], last[s])
            for s in self._plain_temporaries()
        ]
        partials = [
            Partials(f"share {-s.number}", dims, s.dtype.itemsize, position, position, cut)
            for s, (position, dims, cut) in self.partials.items()
        ]
        return [*guards, *temporaries, *partials]

    def _plain_temporaries(self) -> list[Sym]:
        others = {*self.results, *self.guards}
        return [s for s in self.schedule.where if s not in others]


# ---- running -----------------------------------------------------------------------------------------------------


class Machine(Protocol):
    """What runs a program's steps: a GPU, or the simulator.  Addresses are of its memory."""

    def launch(self, program: CudaProgram, kernel: Kernel, grid: tuple[int, int], arguments: list[int]) -> None:
        """*grid*: how many blocks, of how many threads."""

    def library(self, program: CudaProgram, step: Library, canonical: Canonical, addresses: list[int]) -> None:
        """Do the operation *step* on the buffers at *addresses* (``CudaProgram.buffer_index``)."""


def run(
    program: CudaProgram, canonical: Canonical, addresses: list[int], numbers: tuple[int, int], machine: Machine
) -> None:
    """All steps of *program* for the sizes and constants of *canonical*, which the machine has at *numbers*.

    *addresses* are those of ``CudaProgram.buffer_index``; the temporaries' lie as ``CudaProgram.plan`` says.
    """
    for step in program.steps:
        if isinstance(step, Library):
            machine.library(program, step, canonical, addresses)
            continue
        grid = step.extent.launch(canonical.sizes, program.geometry)
        if step.single:
            grid = 1, program.geometry.threads
        machine.launch(program, step, grid, [*[addresses[program.buffer_index[s]] for s in step.buffers], *numbers])
