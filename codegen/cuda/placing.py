"""The schedule of a program for a GPU: ``schedule.py``'s, under a GPU's conditions.

Iterations of the outermost loops run at the same time.  So temporaries keep all their axes, there are no tiles of
rows, and a root that forces an order on its nest has a nest to itself: a sum over outer axes that keeps inner ones, and
a recurrence.
"""

from __future__ import annotations

from functools import partial

from ...tracer.ir.primitive import RECURRENCE, REDUCE
from ...tracer.ir.refusals import Refusal
from ..lower.canonical import Canonical, CanonicalOp
from ..schedule.dependences import domain, reduced_depths
from ..schedule.loop_tree import Loop, Schedule, Statement, statements_of
from ..schedule.schedule import Placer, make_schedule, stable_placement


def keeps_inner(op: CanonicalOp) -> bool:
    """Whether the reduction keeps an axis inside one that it sums over."""
    if op.prim.kind != REDUCE:
        return False
    depths, loops = sorted(reduced_depths(op)), len(domain(op))
    return depths != list(range(loops - len(depths), loops))


def stands_alone(op: CanonicalOp) -> bool:
    return op.prim.kind == RECURRENCE or keeps_inner(op)


def summed_alike(one: CanonicalOp, other: CanonicalOp) -> bool:
    """Whether two reductions sum over the same outer axes of equal domains, so that a thread can do both at once."""
    if not (keeps_inner(one) and keeps_inner(other)):
        return False
    return domain(one) == domain(other) and reduced_depths(one) == reduced_depths(other)


class DevicePlacer(Placer):
    recompute_flops = 160  # work of a GPU in the time of writing and reading eight bytes
    most_scalars = None  # what is stored has a kernel

    def _may_enter(self, loop: Loop, statement: Statement, depth: int) -> bool:
        needed = {sym for sym, _ in self.reads[statement.out].stored}
        for inside in statements_of(loop):
            if summed_alike(inside.op, statement.op) and inside.out not in needed:
                continue
            if stands_alone(inside.op) or stands_alone(statement.op):
                return self._refuse(Refusal.FUSE_ORDER, statement, inside)
        return super()._may_enter(loop, statement, depth)


def device_schedule(program: Canonical) -> Schedule:
    placer = stable_placement(program, DevicePlacer)
    return Schedule(placer.body, placer.stored, placer.where, placer.reads, {}, set(), placer.notes)


thread_schedule = partial(make_schedule, tiles=False)  # for one thread
