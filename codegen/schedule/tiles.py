"""Tiles of rows: a loop over rows in which much work stands between inner loops does that work for many rows at once.

The body is cut into segments, each of which runs over a tile of rows before the next one does, so that the work per
row is vectorised over rows.
"""

from __future__ import annotations

from ...tracer.ir.primitive import ELEMENTWISE
from ...tracer.ops.special import UfuncOutput
from ..lower.canonical import Canonical, Sym
from .dependences import Reads
from .loop_tree import Loop, ScheduleItem, Statement, produces

ROW_FLOPS = 20  # work per row from which on rows are taken in tiles, so that it is vectorised over rows
TILE = 64  # rows of a tile


def worth_tiling(program: Canonical, known: dict[Sym, Reads], loop: Loop) -> bool:
    """Whether the statements between the inner loops of *loop* do much work per row (at least ``ROW_FLOPS``)."""
    if loop.dim in program.static or not any(isinstance(item, Loop) for item in loop.body):
        return False
    work = 0
    for item in loop.body:
        if isinstance(item, Statement):
            for value, _ in known[item.out].inlined:
                op = program.producers[value]
                # calls of SciPy's functions are not vectorised; outputs of one call had better stay together
                vectorised = op.prim.kind == ELEMENTWISE and not isinstance(op.prim.impl, UfuncOutput)
                work += op.prim.cost if vectorised else 0
    return work >= ROW_FLOPS


def segments_of(loop: Loop) -> list[list[ScheduleItem]]:
    """The body in runs of inner loops and runs of statements."""
    result: list[list[ScheduleItem]] = []
    for item in loop.body:
        if result and isinstance(result[-1][-1], Loop) == isinstance(item, Loop):
            result[-1].append(item)
        else:
            result.append([item])
    return result


def tile_storage(known: dict[Sym, Reads], loop: Loop, contracted: dict[Sym, int]) -> set[Sym]:
    """Temporaries of a row that pass from one segment to another: they need a tile of rows."""
    home = {sym: k for k, segment in enumerate(loop.segments) for item in segment for sym in produces(item)}
    crossing: set[Sym] = set()
    for reader, found in known.items():
        for value, _ in found.stored:
            if value in contracted and value in home and home.get(reader) != home[value]:
                crossing.add(value)
    for value in crossing:
        contracted[value] = 1
    return crossing
