"""The division of a loop nest into chunks of its outermost loop, which threads take.

Borders of chunks are decided by sizes alone, and what chunks add up is put together in their order, so results do not
depend on the number of threads.  ``division_of`` is about what is correct; ``work_of`` estimates what a nest costs,
from which ``codegen/cpu/divided.py`` decides whether that is worth it, when the nest runs.
"""

from __future__ import annotations

from collections import Counter

from ...tracer.ir.data_classes import dataclass
from ...tracer.ir.primitive import ELEMENTWISE, REDUCE
from ..lower.canonical import ONE, Canonical, Dim, Sym
from .affine import depends_on
from .dependences import carries, domain
from .loop_tree import Loop, Schedule, Statement, statements_of

MOVED = 2  # work of reading or writing an element of memory, in flops
POSITIONS = ("argmax", "argmin")


@dataclass(frozen=True, slots=True)
class Division:
    """A nest of which any range of the outermost loop can run alone.

    ``totals``: accumulations over all of the loop, of which each chunk makes a part; ``private``: temporaries of one
    iteration (or a tile of them), of which each thread has its own; ``work``: as ``work_of`` has it."""

    loop: Loop
    totals: list[Statement]
    private: list[Sym]
    work: dict[tuple[Dim, ...], int]


def division_of(program: Canonical, schedule: Schedule, loop: Loop) -> Division | None:
    """How *loop*, an item of the schedule's body, can be divided; None where its iterations depend on each other.

    The placer has seen to it that an iteration reads what others of this loop make in no other way than by an
    accumulation that is complete when the loop ends."""
    if loop.dim in program.static:
        return None
    statements = statements_of(loop)
    totals = [s for s in statements if carries(s.op) and s.complete == 0]
    if any(s.op.prim.kind != REDUCE or s.op.prim.name in POSITIONS or s.out in schedule.windows for s in totals):
        return None
    private = [s.out for s in statements if schedule.contracted.get(s.out)]
    return Division(loop, totals, private, work_of(program, schedule, loop))


def work_of(program: Canonical, schedule: Schedule, loop: Loop) -> dict[tuple[Dim, ...], int]:
    """Flops, about, of the nest *loop*: dims of loops -> how many there are of for each of their iterations."""
    work: Counter[tuple[Dim, ...]] = Counter()
    for s in statements_of(loop):
        dims = domain(s.op)
        work[dims] += MOVED
        reads = schedule.reads[s.out]
        for value, at in reads.inlined:
            op = program.producers[value]
            if op.prim.kind == ELEMENTWISE:
                work[dims[: max(map(depends_on, at), default=0)]] += op.prim.cost
        for _, place in reads.stored:
            work[dims[: len(dims) if place is None else max(map(depends_on, place), default=0)]] += MOVED
    del work[()]
    return dict(work)


def kept_dims(s: Statement) -> list[Dim]:
    """The axes of the total *s*."""
    return [d for d in s.out.dims if d != ONE]
