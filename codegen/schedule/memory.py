"""The memory plan: where temporaries lie in one workspace.

Lifetimes are counted in top-level items of the schedule; two temporaries may share bytes when no item needs both.
Offsets depend on sizes, so they are computed when a kernel is bound to a shape, in microseconds.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..lower.canonical import ONE, Dim

ALIGN = 64
FEW = 64  # temporaries that are compared one by one

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
    lengths = [t.nbytes(sizes) for t in temporaries]
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last: by offset
    total, many = 0, _ManyPlaced(len(temporaries)) if len(temporaries) > FEW else None
    for index in sorted(range(len(temporaries)), key=lambda k: (-lengths[k], k)):
        t, need = temporaries[index], lengths[index]
        if many is not None:
            offset = many.place(t, need)
        else:
            offset = 0
            for o, e, first, last in placed:
                if first <= t.last and t.first <= last:
                    if offset + need <= o:
                        break
                    offset = max(offset, e)
            insort(placed, (offset, offset + need, t.first, t.last))
        offsets[index] = offset
        total = max(total, offset + need)
    return offsets, total


class _ManyPlaced:
    """The same for thousands of temporaries, each of which overlaps with most others: they are compared at once."""

    def __init__(self, count: int) -> None:
        self.table = np.empty((4, count), np.int64)  # offset, end, first, last: by offset
        self.count = 0

    def place(self, t: Temporary, need: int) -> int:
        """The offset of *t*, which takes its place."""
        known = self.table[:, : self.count]
        starts, ends = known[:2, (known[2] <= t.last) & (known[3] >= t.first)]
        offset = 0
        if len(starts):
            free = np.maximum.accumulate(ends)  # behind each one, until the next
            fits = starts[1:] - free[:-1] >= need
            gap = int(fits.argmax()) if fits.any() else -1
            offset = 0 if starts[0] >= need else int(free[gap])
        at = int(known[0].searchsorted(offset))
        self.table[:, at + 1 : self.count + 1] = self.table[:, at : self.count].copy()
        self.table[:, at] = offset, offset + need, t.first, t.last
        self.count += 1
        return offset
