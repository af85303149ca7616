"""Mapping of loop nests to threads and blocks.

A *unit* is one iteration of the outermost loops of a nest, as many of them as may run in any order.  A unit is done by
one thread (``THREAD``) or by a block whose threads share its inner loops (``BLOCK``).  Where a reduction runs over the
units themselves (``partial``), each block leaves a partial result, and a second kernel combines these in order.  A sum
over outer axes that keeps inner ones (``columns``) has its kept elements as units, and the outermost axis that it sums
over is cut in parts.

Where few rows are long, a block for each is too little: then the items of a unit are kernels of their own, and each row
is cut in parts.  Which of the two is launched follows from the sizes.

Where the number of blocks decides the order of summation, it follows from sizes alone, so results do not depend on the
device.  ``mapping_of`` is about correctness; ``Geometry`` has the number of threads.
"""

from __future__ import annotations

import math

from ...tracer.ir.data_classes import dataclass
from ...tracer.ir.primitive import RECURRENCE
from ..lower.canonical import Canonical, Dim
from ..schedule.dependences import carries, domain, reduced_depths
from ..schedule.loop_tree import Loop, Statement, statements_of
from ..schedule.memory import Sizes
from .placing import keeps_inner

THREAD, BLOCK, COLUMNS = "thread", "block", "columns"
PARTS = 1024  # partial results of a reduction at most
PART_ROWS = 64  # elements that one part of a sum over outer axes has at least
SPREAD = 1 << 17  # threads that such a sum is spread over
PART_COLUMNS = 4096  # elements that one part of a row has at least
ROW_BLOCKS = 512  # blocks that few rows are spread over


@dataclass(frozen=True, slots=True)
class Geometry:
    """Parameters of a device that kernels are compiled for: *threads* of a block, in warps of *warp*.

    *deterministic*: the same bits in every run.  Without, sums of floats at computed positions take no sorting.
    """

    threads: int = 256
    warp: int = 32
    deterministic: bool = True


@dataclass(frozen=True, slots=True)
class Mapping:
    """``loops``: how many outermost loops are the units; ``partial``: accumulators close outside of the units."""

    by: str
    loops: int
    partial: bool = False


def prefix(nest: Loop) -> list[Loop]:
    """The perfectly nested outermost loops of *nest*."""
    result = [nest]
    while len(result[-1].body) == 1 and isinstance(result[-1].body[0], Loop):
        result.append(result[-1].body[0])
    return result


def mapping_of(program: Canonical, nest: Loop) -> Mapping:
    statements = statements_of(nest)
    perfect = len(prefix(nest))
    if any(keeps_inner(s.op) for s in statements):
        return Mapping(COLUMNS, 0, True)
    if any(s.op.prim.kind == RECURRENCE for s in statements):
        return Mapping(THREAD, min(s.complete for s in statements))
    closing = [s.complete for s in statements if carries(s.op)]
    if 0 not in closing:
        loops = min([perfect, *closing])
        return Mapping(_inside(program, prefix(nest)[loops - 1]), loops)
    if set(closing) == {0} and all(len(s.path) == perfect for s in statements):
        return Mapping(THREAD, perfect, True)
    return Mapping(_inside(program, nest), 1, True)


def _inside(program: Canonical, loop: Loop) -> str:
    """BLOCK where a unit, one iteration of *loop*, has loops of unknown length, else THREAD."""
    inner = any(
        isinstance(item, Loop) and (item.dim not in program.static or _inside(program, item) == BLOCK)
        for item in loop.body
    )
    return BLOCK if inner else THREAD


def product(dims: tuple[Dim, ...], sizes: Sizes) -> int:
    return math.prod(int(sizes[d]) for d in dims)


@dataclass(frozen=True, slots=True)
class Extent:
    """Iteration space of a launch, which gives the number of threads: *units* and *inner* loops of one, by dims."""

    mapping: Mapping
    units: tuple[Dim, ...]
    inner: tuple[Dim, ...] = ()  # BLOCK: the loops that a block's threads share, the longest of which counts
    cut: Dim = 0  # the axis that is cut in parts
    lanes: int = 1  # THREAD: units that a thread takes at a time (vector_access.py)
    lonely: bool = False  # a thread works long at its unit and needs no other: blocks are small, and so there are many
    whole: bool = False  # a thread for each unit, for all of its parts
    rows: bool = False  # BLOCK: the inner loops are cut in parts, a block for each

    @property
    def exact(self) -> bool:
        """Whether the number of blocks must be that of ``launch``; otherwise fewer give the same bits."""
        return self.mapping.partial and self.mapping.by != COLUMNS

    def parts(self, sizes: Sizes) -> int:
        """The number of parts of each unit."""
        units = product(self.units, sizes)
        if self.rows:
            return max(parts_of_rows(units, int(sizes[d])) for d in self.inner)
        return parts_of_columns(units, int(sizes[self.cut])) if self.cut else 1

    def launch(self, sizes: Sizes, geometry: Geometry) -> tuple[int, int]:
        """(blocks, threads of a block)"""
        units = product(self.units, sizes) * (1 if self.whole else self.parts(sizes))
        if self.lonely:
            threads = geometry.warp
            while threads < geometry.threads and units > threads * PARTS:
                threads *= 2
            return max(-(-units // threads), 1), threads
        if self.mapping.by == COLUMNS:
            return _blocks(units, geometry), geometry.threads
        if self.mapping.by == BLOCK:
            longest = max((int(sizes[d]) for d in self.inner), default=geometry.threads)
            threads = geometry.warp
            while threads < min(longest, geometry.threads):
                threads *= 2
            return max(min(units, PARTS) if self.mapping.partial else units, 1), threads
        blocks = _blocks(-(-units // self.lanes), geometry)
        return min(blocks, PARTS) if self.mapping.partial else blocks, geometry.threads


def _blocks(units: int, geometry: Geometry) -> int:
    return max(-(-units // geometry.threads), 1)


def parts_of_columns(units: int, length: int) -> int:
    """The number of parts of an axis of *length* for *units* sums; ``KernelEmitter.parts`` computes the same."""
    return max(min(SPREAD // max(units, 1), -(-length // PART_ROWS), PARTS), 1)


def parts_of_rows(units: int, length: int) -> int:
    """The number of parts of each of *units* rows of *length*; ``KernelEmitter.parts`` computes the same."""
    return max(min(ROW_BLOCKS // max(units, 1), -(-length // PART_COLUMNS), PARTS), 1)


def extent_of(program: Canonical, nest: Loop) -> Extent:
    mapping = mapping_of(program, nest)
    if mapping.by == COLUMNS:
        statement = statements_of(nest)[0]
        dims, reduced = domain(statement.op), reduced_depths(statement.op)
        kept = tuple(d for k, d in enumerate(dims) if k not in reduced)
        return Extent(mapping, kept, cut=dims[min(reduced)])
    loops = prefix(nest)[: mapping.loops]
    inner: list[Dim] = []
    if mapping.by == BLOCK:
        inner = [item.dim for item in loops[-1].body if isinstance(item, Loop)]
    return Extent(mapping, tuple(loop.dim for loop in loops), tuple(inner))


def scalar_extent(statements: list[Statement]) -> Extent:
    """The extent of statements without loops: one thread."""
    return Extent(Mapping(THREAD, 0), ())
