"""From a canonical program to the kernels and library calls that run it on a GPU.

``assemble`` walks the schedule: each item becomes one kernel or several (a reduction over a grid leaves *partials* for
a second kernel; a nest over few long rows has two forms, of which *gates* launch one by the sizes), or a call of the
device's array library.  What comes out is a ``CudaProgram`` (``program.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ...tracer.ir.data_classes import dataclass
from ...tracer.ir.primitive import LOOP, RECURRENCE, SCATTER
from ..lower.canonical import ONE, Canonical, CanonicalOp, Sym
from ..schedule.buffers import buffer_of, lifetimes
from ..schedule.dependences import carries
from ..schedule.early_exit import guards_of
from ..schedule.loop_tree import LibraryCall, Loop, Statement, item_buffers, produces, statements_of
from ..schedule.memory import ALIGN, Sizes, Temporary
from .block_reduce import INT, partial_dtypes
from .kernels import KernelEmitter
from .loop_kernels import write_loop, write_sums
from .loop_strategy import Way, note, way_of
from .mapping import (
    BLOCK,
    COLUMNS,
    PARTS,
    THREAD,
    Extent,
    Geometry,
    Mapping,
    extent_of,
    mapping_of,
    product,
    scalar_extent,
)
from .offload import for_device
from .parallel_scan import Scan, extents, shares_of, worth_cutting
from .placing import device_schedule
from .program import CudaProgram, CudaStep, Gate, Kernel, Library, Order
from .row_reduce import closing_rows, combine_parts, reduce_parts, row_items, whole_rows
from .scatter import BY_ORDER, BY_WINNER, how_to_write, stages, write_stage
from .vector_access import LaneEmitter, lanes_of


def _in_parts(extent: Extent, several: bool) -> Gate:
    """Open where the units of *extent* are cut in *several* parts, or where they are not."""
    return lambda sizes: (extent.parts(sizes) > 1) == several


def _reaching(way: Way, large: bool) -> Gate:
    """Open where one of the arrays that a loop makes in each step is too *large* for one block, or where none is."""
    return lambda sizes: way.too_large(sizes) == large


@dataclass(frozen=True, slots=True)
class Partials(Temporary):
    """Partial results between two kernels: one for each part of each unit of *extent*, or for each block."""

    extent: Extent | None

    def nbytes(self, sizes: Sizes) -> int:
        count = PARTS if self.extent is None else product(self.extent.units, sizes) * self.extent.parts(sizes)
        return -(-max(count * self.itemsize, 1) // ALIGN) * ALIGN


def assemble(canonical: Canonical, arguments: int, geometry: Geometry | None = None) -> CudaProgram:
    """The kernels of *canonical*, the first *arguments* of whose inputs are the caller's."""
    return _CudaAssembler(canonical, arguments, geometry or Geometry()).program()


class _CudaAssembler:
    def __init__(self, canonical: Canonical, arguments: int, geometry: Geometry):
        self.canonical, self.arguments, self.geometry = for_device(canonical), arguments, geometry
        canonical = self.canonical
        self.schedule = device_schedule(canonical)
        self.results = [x for x in canonical.outputs[: canonical.results] if isinstance(x, Sym)]
        self.guards = guards_of(canonical)
        self.module = ir.Module("cuda")
        self.steps: list[CudaStep] = []
        self.partials: dict[Sym, Partials] = {}
        self.gate: Gate | None = None  # of the kernels that are being written
        self.work: dict[Sym, Temporary] = {}  # workspace of loops

    def program(self) -> CudaProgram:
        items = self._items()
        for position, item in enumerate(items):
            if isinstance(item, LibraryCall):
                self._call(item.op, position)
            elif isinstance(item, Loop):
                self._nest(item, position, [])
            elif isinstance(item[0], Loop):
                self._nest(item[0], position, item[1:])
            else:
                self._scalars(item)
        temporaries = self._temporaries(items)
        temps = [*self.guards, *self._plain_temporaries(), *self.partials, *self.work]
        order = [*self.canonical.inputs[: self.arguments], *self.results, *self.canonical.inputs[self.arguments :]]
        index = {sym: k for k, sym in enumerate([*order, *temps])}
        return CudaProgram(
            self.canonical.key, self.arguments, self.canonical.inputs, self.results, self.guards, temporaries,
            self.steps, index, self.canonical, self.schedule, self.geometry, str(self.module),
            [s.name for s in self.steps if isinstance(s, Kernel)],
        )  # fmt: skip

    def _items(self) -> list[Any]:
        """The items of the schedule; scalar statements in a list, behind the reduction whose last block can do them.

        They go as far to the front as their operands allow: fewer lists are fewer launches.
        """
        result: list[Any] = []
        for item in self.schedule.body:
            if not isinstance(item, Statement):
                result.append(item)
                continue
            needed = {sym for sym, _ in self.schedule.reads[item.out].stored}
            made = [k for k, other in enumerate(result) if needed & set().union(*map(produces, _parts(other)))]
            for position in range(made[-1] if made else 0, len(result)):
                if isinstance(result[position], list):
                    result[position].append(item)
                    break
                if isinstance(result[position], Loop) and self._ends_in_one_block(result[position]):
                    result[position] = [result[position], item]
                    break
            else:
                result.append([item])
        return result

    def _ends_in_one_block(self, nest: Loop) -> bool:
        mapping = mapping_of(self.canonical, nest)
        return mapping.partial and mapping.by != COLUMNS

    # ---- kernels -------------------------------------------------------------------------------------------------

    def _emitter(self, used: Sequence[Sym], aliased: set[Sym] = frozenset()) -> LaneEmitter:  # type: ignore[assignment]
        name = f"tg_k{sum(isinstance(s, Kernel) for s in self.steps)}"
        return LaneEmitter(self.canonical, self.schedule, self.module, name, list(used), self.geometry, aliased)

    def _finish(self, emitter: KernelEmitter, extent: Extent, single: bool = False) -> None:
        function = emitter.finish()
        self.steps.append(Kernel(function.name, tuple(emitter.used), extent, single, gate=self.gate))

    @contextmanager
    def _only(self, gate: Gate) -> Iterator[None]:
        """A context whose kernels have a gate."""
        self.gate = gate
        yield
        self.gate = None

    def _scalars(self, statements: list[Statement]) -> None:
        emitter = self._emitter(self._used(statements))
        with emitter.alone():
            emitter.items(list(statements))
        self._finish(emitter, scalar_extent(statements))

    def _used(self, parts: Sequence[Loop | Statement]) -> list[Sym]:
        return item_buffers(self.schedule.reads, *parts)

    def _nest(self, nest: Loop, position: int, scalars: list[Statement]) -> None:
        """The kernels of *nest*, the last of which goes on with *scalars*."""
        extent = extent_of(self.canonical, nest)
        statements = statements_of(nest)
        used = item_buffers(self.schedule.reads, nest)
        if statements[0].op.prim.kind == RECURRENCE and worth_cutting(self.canonical.static, nest):
            self._scan(statements[0], position, used)
            return
        if not extent.mapping.partial:
            if extent.mapping.by == BLOCK:
                whole = whole_rows(extent, nest)
                with self._only(_in_parts(whole, several=False)):
                    self._plain(nest, extent)
                with self._only(_in_parts(whole, several=True)):
                    self._few_rows(nest, extent, position)
            else:
                self._plain(nest, extent)
            return
        columns = extent.mapping.by == COLUMNS
        closing = [s for s in statements if carries(s.op) and (columns or s.complete == 0)]
        partials: dict[Sym, list[Sym]] = {}
        for s in closing:
            partials[s.out] = self._shares(partial_dtypes(s), position, extent if columns else None)
        shares = [sym for own in partials.values() for sym in own]
        totals = {s.out for s in closing}
        emitter = self._emitter([*[s for s in used if s not in totals], *shares], self._aliased(nest))
        if columns:
            emitter.columns(closing, partials)
            self._finish(emitter, extent)
            second = self._emitter([*partials, *shares])
            for s in closing:
                second.combine_columns(s, partials[s.out])
            self._finish(second, Extent(extent.mapping, extent.units))
            return
        emitter.nest(nest, extent.mapping, partials)
        self._finish(emitter, extent)
        second = self._emitter(list(dict.fromkeys([*totals, *shares, *self._used(scalars)])))
        count = second.share_count(extent.units, extent.mapping.by)
        for s in closing:
            second.combine(s, partials[s.out], count)
        if scalars:
            with second.first_thread():
                second.items(list(scalars))
        self._finish(second, extent, single=True)

    def _plain(self, nest: Loop, extent: Extent) -> None:
        emitter = self._emitter(self._used([nest]), self._aliased(nest))
        emitter.lanes = lanes_of(self.canonical, self.schedule, nest, extent.mapping)
        emitter.nest(nest, extent.mapping, {})
        self._finish(emitter, replace(extent, lanes=emitter.lanes))

    def _few_rows(self, nest: Loop, extent: Extent, position: int) -> None:
        """The same item by item, reductions within rows in parts."""
        for item in row_items(nest, extent.mapping.loops):
            own = extent_of(self.canonical, item)
            closing = closing_rows(item, own.mapping)
            if not closing:
                self._plain(item, own)
                continue
            parts = whole_rows(own, item)
            partials = {s.out: self._shares(partial_dtypes(s), position, parts) for s in closing}
            shares = [sym for part in partials.values() for sym in part]
            used = [s for s in self._used([item]) if s not in partials]
            first = self._emitter([*used, *shares], self._aliased(item))
            reduce_parts(first, item, own.mapping, partials)
            self._finish(first, parts)
            second = self._emitter([*partials, *shares])
            combine_parts(second, item, own.mapping, partials)
            self._finish(second, own)

    def _scan(self, statement: Statement, position: int, used: list[Sym]) -> None:
        """The kernels of a recurrence along an axis that may be long."""
        by_part, by_row = extents(statement)
        shares = self._shares(shares_of(statement), position, by_part)
        read = [s for s in used if s is not statement.out]
        with self._only(_in_parts(by_part, several=True)):
            first = self._emitter([*read, *shares], set(shares))
            Scan(first, statement, shares).compose()
            self._finish(first, by_part)
            second = self._emitter([*read, *shares], set(shares))
            Scan(second, statement, shares).starts()
            self._finish(second, by_row)
        third = self._emitter([*read, statement.out, shares[0]])
        Scan(third, statement, shares).run()
        self._finish(third, by_part)

    def _shares(self, dtypes: Sequence[np.dtype], position: int, extent: Extent | None) -> list[Sym]:
        """Buffers for the partial results of a first kernel of item *position*, one for each of *dtypes*."""
        found = []
        for dtype in dtypes:
            number = -1 - len(self.partials) - len(self.work)
            found.append(Sym(number, dtype, ()))
            self.partials[found[-1]] = Partials(f"share {-number}", (), dtype.itemsize, position, position, extent)
        return found

    def _call(self, op: CanonicalOp, position: int) -> None:
        if op.prim.kind == LOOP:
            way = way_of(self.canonical, op)
            self.schedule.notes.append(note(op, way))
            if isinstance(way, Way):
                work = dict(way.temporaries(position))
                self.work |= work
                emitter = self._emitter(way.used(self.canonical, self.schedule), {*op.outs, *work})
                write_loop(emitter, way)
                with self._only(_reaching(way, large=False)):
                    self._finish(emitter, way.extent)
                    if way.sums:
                        last = self._emitter(way.summed(self.canonical, self.schedule, op))
                        write_sums(last, way, op)
                        self._finish(last, way.extent, single=True)
                if way.arrays:
                    self.steps.append(Library(self.canonical.ops.index(op), gate=_reaching(way, large=True)))
                return
        elif op.prim.kind == SCATTER and (how := how_to_write(self.canonical, op, self.geometry)):
            self._indexed_write(op, position, how)
            return
        self.steps.append(Library(self.canonical.ops.index(op)))

    def _indexed_write(self, op: CanonicalOp, position: int, how: str) -> None:
        """The kernels of a scatter."""
        buffers = [buffer_of(self.canonical, self.schedule.stored, x) for x in op.ins if isinstance(x, Sym)]
        used = [s for s in dict.fromkeys(buffers) if s in self.schedule.stored or s not in self.canonical.producers]
        helper: list[Sym] = []
        if how in (BY_ORDER, BY_WINNER):
            dims = op.ins[1].dims if how == BY_ORDER else op.out.dims[:1]
            helper = [Sym(-1 - len(self.partials) - len(self.work), INT, dims)]
            self.work[helper[0]] = Temporary(f"order of {op.out!r}", dims, 8, position, position)
        if how == BY_ORDER:
            self.steps.append(Order(self.canonical.ops.index(op), helper[0]))
        for stage, dims in stages(op, how):
            emitter = self._emitter([*used, op.out, *helper], {op.out, *helper})
            write_stage(emitter, op, stage, dims, helper)
            self._finish(emitter, Extent(Mapping(THREAD, 0), dims))

    def _aliased(self, nest: Loop) -> set[Sym]:
        """Values that one statement of *nest* writes and another reads."""
        made = {s.out for s in statements_of(nest)}
        return {sym for s in statements_of(nest) for sym, _ in self.schedule.reads[s.out].stored} & made

    # ---- buffers -------------------------------------------------------------------------------------------------

    def _temporaries(self, items: Sequence[Any]) -> list[Temporary]:
        needed = lifetimes(self.canonical, self.schedule, items)
        guards = [Temporary(repr(s), (), 1, 0, len(items)) for s in self.guards]
        temporaries = [
            Temporary(repr(s), tuple(d for d in s.dims if d != ONE), s.dtype.itemsize, *needed[s])
            for s in self._plain_temporaries()
        ]
        return [*guards, *temporaries, *self.partials.values(), *self.work.values()]

    def _plain_temporaries(self) -> list[Sym]:
        others = {*self.results, *self.guards}
        return [s for s in self.schedule.where if s not in others]


def _parts(item: Any) -> list[Any]:
    return item if isinstance(item, list) else [item]
