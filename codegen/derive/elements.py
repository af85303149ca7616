"""Elements of arrays at known positions, without index arrays where the positions are regular.

Positions are regular where they come again at one distance: of the positions from s on, number k + p is d further on
than number k.  Elements there are p slices with the step d, side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...tracer.ir.graph import Atom, Var
from ...tracer.ops.indexing import gather
from ...tracer.ops.shape import concat, reshape, slice_axis

Const = Callable[[np.ndarray], Var]  # an array that belongs to the program
WIDEST = 256  # positions after which they come again
WINDOWS = (1024, 256, 64, 16)  # positions that are looked at for that
MOST = 8  # stretches, else all positions are an index array
FEW = 32  # positions that need not be regular: each is a slice


class Progression(NamedTuple):
    """*turns* times *period* of the positions, from number *start* on; each turn is *step* further on."""

    start: int
    period: int
    turns: int
    step: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.turns


def elements(arrays: Sequence[Atom], places: np.ndarray, const: Const) -> Atom:
    """The elements at *places* of the 1-d *arrays*, one after the other."""
    starts = np.concatenate([[0], np.cumsum([x.aval.size for x in arrays])])
    found = []
    for stretch in _limited(places, starts):
        columns = []
        for first in places[stretch.start : stretch.start + stretch.period]:
            which = int(np.searchsorted(starts, first, side="right")) - 1
            part = slice_axis(arrays[which], 0, int(first - starts[which]), stretch.turns, stretch.step)
            columns.append(reshape(part, (stretch.turns, 1)))
        found.append(reshape(concat(columns, 1), (stretch.turns * stretch.period,)))
    return concat(found, 0) if found else gathered(arrays, places, const)


def gathered(arrays: Sequence[Atom], places: np.ndarray, const: Const) -> Atom:
    """As ``elements``, by an index array in any case."""
    return gather(concat(list(arrays), 0), const(places.astype(np.int64, copy=False)))


def _limited(places: np.ndarray, starts: np.ndarray) -> list[Progression]:
    """The stretches of *places* within arrays with these *starts*; none where they are too many, or where many
    positions are not regular."""
    some = []
    irregular = 0
    for whole in stretches(places):
        for stretch in _within(whole, places[whole.start : whole.start + whole.period], starts):
            some.append(stretch)
            irregular += stretch.period if stretch.turns == 1 else 0
            if len(some) > MOST or irregular > FEW:
                return []
    return some


def _within(stretch: Progression, first: np.ndarray, starts: np.ndarray) -> Iterator[Progression]:
    """*stretch*, whose positions begin with *first*, cut where one of its slices goes on in the next array."""
    start, left = stretch.start, stretch.turns
    while left:
        ends = starts[np.searchsorted(starts, first, side="right")]
        turns = min(left, int(((ends - first - 1) // stretch.step).min()) + 1)
        yield stretch._replace(start=start, turns=turns)
        start, left, first = start + turns * stretch.period, left - turns, first + turns * stretch.step


def stretches(places: np.ndarray) -> Iterator[Progression]:
    """The *places* as stretches in order; those that are not regular as ones of one turn."""
    todo = [(0, len(places))]
    while todo:
        start, stop = todo.pop()
        if start == stop:
            continue
        found = _longest(places, start, stop) if stop - start > FEW else None
        if found is None:
            yield Progression(start, stop - start, 1, 1)
        elif found.start > start:
            todo += [(found.stop, stop), (found.start, found.stop), (start, found.start)]
        else:
            yield found
            todo.append((found.stop, stop))


def _longest(places: np.ndarray, start: int, stop: int) -> Progression | None:
    """The stretch that the middle of these positions is in, or one of their quarters."""
    steps = np.diff(places[start:stop])
    found = (_around(places, start, steps, int(len(steps) * part)) for part in (0.5, 0.25, 0.75))
    return next((stretch for stretch in found if stretch is not None), None)


def _around(places: np.ndarray, start: int, steps: np.ndarray, middle: int) -> Progression | None:
    """The stretch that step number *middle* is in, where the positions from *start* on are *steps* apart."""
    for width in WINDOWS:
        low = max(middle - width // 2, 0)
        window = steps[low : low + width]
        periods = range(1, min(WIDEST, len(window) // 2) + 1)
        period = next((p for p in periods if np.array_equal(window[p:], window[:-p])), 0)
        if period:
            break
    else:
        return None
    unlike = np.flatnonzero(steps[period:] != steps[:-period])
    at = int(np.searchsorted(unlike, low))
    first = int(unlike[at - 1]) + 1 if at else 0
    after = int(unlike[at]) if at < len(unlike) else len(steps) - period
    turns = (after + period + 1 - first) // period
    step = int(steps[first : first + period].sum())
    return Progression(start + first, period, turns, step) if step > 0 and turns > 1 else None
