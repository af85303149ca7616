"""The layout of a program: the order of its work and the places of its values."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from ..lower.canonical import Canonical, CanonicalOp, Sym
from ..schedule.loop_tree import ScalarPlaces, Schedule, ScheduleItem
from ..schedule.memory import Temporary

if TYPE_CHECKING:
    from .loop_plan import LoopPlan


@dataclass(slots=True, eq=False)
class ProgramLayout:
    """The order of a program's work and the places of its values: all that its signature decides without LLVM."""

    canonical: Canonical  # with parts of results as operations
    schedule: Schedule
    results: list[Sym]
    guards: list[Sym]
    temporaries: list[Temporary]
    buffer_index: dict[Sym, int]
    plans: dict[CanonicalOp, LoopPlan]  # plans of the loops that run inside the kernel
    bits: dict[ScheduleItem, int]  # of steps that a kernel can be told to be done
    scalars: ScalarPlaces  # that do not have buffers of their own

    @property
    def summary(self) -> tuple:
        """The places that machine code knows of, as plain values."""
        body = self.schedule.body
        bits = tuple([(body.index(item), bit) for item, bit in self.bits.items()])
        return tuple([sym.number for sym in self.buffer_index]), tuple(map(astuple, self.temporaries)), bits


def results_of(canonical: Canonical) -> list[Sym]:
    return [x for x in canonical.outputs[: canonical.results] if isinstance(x, Sym)]
