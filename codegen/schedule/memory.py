"""The memory plan: where temporaries lie in one workspace.

Lifetimes are counted in top-level items of the schedule; two temporaries may share bytes when no item needs both.
Offsets depend on sizes, so they are computed when a kernel is bound to a shape, in microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ...tracer.ir.data_classes import dataclass
from ..lower.canonical import ONE, Dim

ALIGN = 64

Sizes: TypeAlias = Sequence[int] | np.ndarray  # by dim


@dataclass(frozen=True, slots=True)
class Temporary:
    """A buffer of *itemsize* times the sizes of *dims*, needed from item *first* to item *last*."""

    name: str
    dims: tuple[Dim, ...]
    itemsize: int
    first: int
    last: int

    def nbytes(self, sizes: Sizes) -> int:
        total = self.itemsize * math.prod(int(sizes[d]) for d in self.dims if d != ONE)
        return -(-max(total, 1) // ALIGN) * ALIGN


def plan(temporaries: Sequence[Temporary], sizes: Sizes) -> tuple[list[int], int]:
    """(offset of each temporary, bytes of the workspace): first fit, largest first."""
    offsets = [0] * len(temporaries)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last
    total = 0
    for index in sorted(range(len(temporaries)), key=lambda k: (-temporaries[k].nbytes(sizes), k)):
        t = temporaries[index]
        need = t.nbytes(sizes)
        busy = sorted((o, e) for o, e, first, last in placed if first <= t.last and t.first <= last)
        offset = 0
        for o, e in busy:
            if offset + need <= o:
                break
            offset = max(offset, e)
        offsets[index] = offset
        placed.append((offset, offset + need, t.first, t.last))
        total = max(total, offset + need)
    return offsets, total
