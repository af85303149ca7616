"""Few long rows: reductions within rows, by a block for each part of each row, then a block for each row.

``row_items`` takes a nest whose units are done by a block apart: around each of its items the loops over the rows.
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from collections.abc import Sequence
from functools import partial

import llvmlite.ir as ir

from ..cpu.reductions import accumulating
from ..lower.canonical import Sym
from ..schedule.dependences import carries
from ..schedule.loop_tree import Loop, Statement, statements_of
from .block_reduce import BlockShare, BlockTotal
from .kernels import KernelEmitter
from .mapping import BLOCK, PART_COLUMNS, ROW_BLOCKS, Extent, Mapping, prefix

Shares = Table[Sym, Sequence[Sym]]


def row_items(nest: Loop, loops: int) -> list[Loop]:
    """The items of *nest* below its *loops* outermost loops, each in a nest of its own."""
    rows = prefix(nest)[:loops]
    result = []
    for item in rows[-1].body:
        body = [item]
        for loop in reversed(rows):
            body = [Loop(loop.dim, body)]
        assert isinstance(body[0], Loop)
        result.append(body[0])
    return result


def whole_rows(extent: Extent, nest: Loop) -> Extent:
    """The extent of *nest* in whole rows, which decides whether they are cut in parts."""
    inner = [item.dim for item in prefix(nest)[extent.mapping.loops - 1].body if isinstance(item, Loop)]
    return Extent(extent.mapping, extent.units, tuple(inner), rows=True)


def closing_rows(nest: Loop, mapping: Mapping) -> list[Statement]:
    """The reductions within rows in *nest*, if it has a block for each row; else none."""
    body = prefix(nest)[mapping.loops - 1].body
    if mapping.by != BLOCK or mapping.partial or len(body) != 1 or not isinstance(body[0], Loop):
        return []
    return [s for s in statements_of(nest) if carries(s.op) and s.complete == mapping.loops]


def reduce_parts(kernel: KernelEmitter, nest: Loop, mapping: Mapping, shares: Shares) -> None:
    """A block for each part of each row leaves its shares of the reductions."""
    loops, inner, parts = _parts(kernel, nest, mapping)

    def one_part() -> None:
        place = kernel.unit
        low, high = kernel.stretch(kernel.size(inner.dim), parts, kernel.part)
        first = kernel.b.add(low, kernel.thread)
        with accumulating([BlockShare(kernel, s, shares[s.out], place) for s in closing_rows(nest, mapping)]):
            kernel.units([inner], first, kernel.threads, partial(kernel.items, inner.body), end=high)

    kernel.units(loops, kernel.block, kernel.blocks, one_part, parts=parts)


def combine_parts(kernel: KernelEmitter, nest: Loop, mapping: Mapping, shares: Shares) -> None:
    """A block for each row adds up the shares."""
    b, (loops, _, parts) = kernel.b, _parts(kernel, nest, mapping)

    def one_row() -> None:
        first = b.mul(kernel.unit, parts)
        for s in closing_rows(nest, mapping):
            total = BlockTotal(kernel, s)
            with accumulating([total]), kernel.shared_out(parts) as part:
                found = [kernel.get(buffer, b.add(first, part)) for buffer in shares[s.out]]
                total.put(total.merged(total.values(), found))

    kernel.units(loops, kernel.block, kernel.blocks, one_row, parts=ir.Constant(ir.IntType(64), 1))


def _parts(kernel: KernelEmitter, nest: Loop, mapping: Mapping) -> tuple[list[Loop], Loop, ir.Value]:
    """(the loops over rows, the one within a row, the number of parts of each row)"""
    loops = prefix(nest)[: mapping.loops]
    inner = loops[-1].body[0]
    assert isinstance(inner, Loop)
    rows = kernel.count([loop.dim for loop in loops])
    return loops, inner, kernel.parts(rows, kernel.size(inner.dim), ROW_BLOCKS, PART_COLUMNS)
