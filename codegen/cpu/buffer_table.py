"""The table of buffers that functions of a kernel are given, and rows of scalar statements that read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import llvmlite.ir as ir

from ..lower.canonical import Canonical, Sym
from ..schedule.loop_tree import ResultRun, ScalarPlaces, Schedule, ScheduleItem
from .expressions import Numbers
from .loop_nest import ItemEmitter
from .scalar import I64, PTR, as_text, memory_type


@dataclass(eq=False)
class BufferTable:
    """The addresses of buffers in one function: *bufs* is its table, *positions* are places of values in it."""

    bufs: ir.Value
    positions: Mapping[Sym, int]
    runs: Mapping[Sym, ResultRun]
    scalars: ScalarPlaces
    numbers: Numbers  # of the function
    offsets: dict[Sym | None, ir.Value] = field(default_factory=lambda: {None: I64(0)})  # behind runs of results
    known: dict[Sym, ir.Value] = field(default_factory=dict)  # addresses read in the function's entry

    def pointer(self, sym: Sym) -> ir.Value:
        """The address of *sym*, for the whole function."""
        if sym not in self.known:
            self.known[sym] = self.near(sym, self.numbers.entry)
        return self.known[sym]

    def near(self, sym: Sym, at: ir.IRBuilder) -> ir.Value:
        """The address of *sym*, for one use at the builder *at*."""
        run, kind = self.runs.get(sym), memory_type(sym.dtype)
        if run is not None:
            return at.gep(self.near(run.whole, at), [self._offset(sym)], source_etype=kind)
        if sym in self.scalars.places:
            return at.gep(self.pointer(self.scalars.sym), [I64(self.scalars.offset(sym))], source_etype=kind)
        return at.load(at.gep(self.bufs, [I64(self.positions[sym])], source_etype=PTR), typ=PTR)

    def inside(self, bufs: ir.Value, numbers: Numbers) -> BufferTable:
        """The same in another function."""
        return BufferTable(bufs, self.positions, self.runs, self.scalars, numbers)

    def _offset(self, run: Sym) -> ir.Value:
        """The first element of a run, in its result."""
        missing: list[Sym] = []
        before = self.runs[run].before
        while before is not None and before not in self.offsets:
            missing.append(before)
            before = self.runs[before].before
        for x in reversed(missing):
            self.offsets[x] = self.numbers.behind(self.offsets[self.runs[x].before], self.runs[x])
        return self.offsets[self.runs[run].before]


class RowEmitter(ItemEmitter):
    """A function of scalar statements in a row, which is given the kernel's table of buffers: the address of a
    scalar is read where it is needed, so that hundreds of them are no arguments."""

    def __init__(self, program: Canonical, schedule: Schedule, module: ir.Module, name: str, table: BufferTable):
        super().__init__(program, schedule, module, name, [table.scalars.sym])  # the first argument is the table
        self.table = table.inside(self.function.args[0], self.numbers)

    def place(self, x: Sym, offset: ir.Value) -> ir.Value:
        buffer, kind = self.schedule.buffer(x), memory_type(x.dtype)
        several = buffer.dims or buffer is self.schedule.scalars.sym
        address = self.table.pointer(buffer) if several else self.table.near(buffer, self.b)
        return self.b.gep(address, [offset], inbounds=True, source_etype=kind)


def row_function(
    program: Canonical, schedule: Schedule, module: ir.Module, name: str, table: BufferTable,
    body: Sequence[ScheduleItem],
) -> ir.Function:  # fmt: skip
    """The function ``(table, sizes, constants)`` of the statements in *body*."""
    emitter = RowEmitter(program, schedule, module, name, table)
    emitter.items(list(body))
    function = emitter.finish()
    as_text(function)
    return function
