"""Search for repeats in a recording.

``find_repeats`` looks for repeats, innermost or outermost, whichever begins first.  Candidates are the stretches in
which items that look alike (same line, same primitive) come again at one distance (``_stretches``); ``prove.py`` proves
that the blocks of such a stretch do the same.  Blocks without a proof are cut off, which leaves a smaller repeat, or
none.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..ir.graph import Guard, Node, Var
from ..ir.primitive import LOOP, VIEW
from ..ir.refusals import Reason
from ..ir.site import Site
from ..ops.shape import UPDATE
from .prove import Unproven, first_items, prove
from .repeats import FEW_TRIPS, Item, Repeat, Rows, varying_axes

MIN_TRIPS = 16  # trips of a loop that is rolled, however short its blocks are
LONG = 512  # items in all of a loop that is rolled with fewer trips
LOOP_WEIGHT = 100  # items that a loop in a block counts for
MAX_PERIODS = 256  # distances that are tried in one recording
MAX_AXES = 64  # more than any array has
MAX_ENDS = 4  # values of no loop in a list of such values, as the first one of a trajectory is
MAX_TRIES = 32  # places at which a loop may begin that are tried in one stretch


@dataclass(slots=True)
class FoundRepeats:
    repeats: list[Repeat]
    first: dict[Var, int]  # the item that first defines a Var
    refusals: list[Reason] = field(default_factory=list)


def worth_rolling(items: Sequence[Item], start: int, period: int, trips: int) -> bool:
    """Whether a loop is better than its blocks one after another (a heuristic)."""
    if trips >= MIN_TRIPS or trips < FEW_TRIPS:
        return trips >= MIN_TRIPS
    loops = sum(isinstance(item, Node) and item.prim.kind == LOOP for item in items[start : start + period])
    return trips * (period + LOOP_WEIGHT * loops) >= LONG


def find_repeats(items: Sequence[Item], sites: Sequence[Site | None]) -> FoundRepeats:
    """The repeats of *items*, which were asked for at *sites*: in order, none within another."""
    first = first_items(items)
    found = FoundRepeats([], first)
    if len(items) < FEW_TRIPS:
        return found
    marks = item_marks(items, sites)
    heap = [(run.start, run.period, run.end, 0) for run in stretches(marks, _finer(marks, items, first))]
    heapq.heapify(heap)
    at = 0
    while heap:
        start, period, end, tries = heapq.heappop(heap)
        if start < at:
            heapq.heappush(heap, (at, period, end, tries))
            continue
        trips = (end - start) // period
        if not worth_rolling(items, start, period, trips) or tries == MAX_TRIES:
            continue
        result = _proven(items, first, start, period, trips)
        if isinstance(result, Repeat) and not worth_rolling(items, result.start, result.period, result.trips):
            heapq.heappush(heap, (result.end, period, end, tries + 1))
        elif isinstance(result, Repeat) and not _only_moves(items, found, result):
            found.repeats.append(result)
            at = result.end
            heapq.heappush(heap, (at, period, end, 0))
        elif isinstance(result, Repeat):
            at = result.end
        else:
            why, resume = result
            found.refusals.append(why)
            heapq.heappush(heap, (resume, period, end, tries + 1))
    return found


def _only_moves(items: Sequence[Item], found: FoundRepeats, repeat: Repeat) -> bool:
    """Whether *repeat* does nothing but move values that no loop makes one by one, since they are of unlike operations
    or stand there several times: a loop would move them once more, to have them in one array."""
    if any(not isinstance(step.item, Node) or step.item.prim.kind != VIEW for step in repeat.steps):
        return False
    first, starts = found.first, [loop.start for loop in found.repeats]

    def apart(atom: Var) -> bool:
        """Whether *atom* is no value of a loop."""
        at = bisect_right(starts, first.get(atom, -1)) - 1
        return at < 0 or first[atom] >= found.repeats[at].end

    for atoms in [slot.atoms for step in repeat.steps for slot in step.slots if isinstance(slot, Rows)]:
        unlike = len({items[first[x]].prim for x in atoms if x in first}) > 1  # type: ignore[union-attr]
        if len(set(atoms)) < len(atoms) or (unlike and sum(map(apart, atoms)) > MAX_ENDS):
            return True
    return False


def _proven(items: Sequence[Item], first: Mapping[Var, int], start: int, period: int, trips: int) -> Repeat | Unproven:
    """As ``prove``, or a loop around that; or, where they are longer, blocks whose slices move along several axes, as
    those of nested loops do.  These are looked at first where they write into arrays."""
    spread = _spread(items, start, period, trips)
    result = prove(items, first, start, period, trips, MAX_AXES if spread else 1)
    if isinstance(result, Repeat) and worth_rolling(items, start, period, result.trips):
        more = _longer(items, first, result) or _around(items, first, result, trips)
        if more is not None:
            return more
    if spread or (isinstance(result, Repeat) and result.trips == trips):
        return result
    free = prove(items, first, start, period, trips, MAX_AXES)
    longer = isinstance(free, Repeat) and (not isinstance(result, Repeat) or result.trips < free.trips)
    return free if longer else result


def _spread(items: Sequence[Item], start: int, period: int, trips: int) -> bool:
    """Whether an array is written in the blocks at positions that differ along several axes."""
    for at in range(start, start + period):
        column = items[at : at + period * trips : period]
        if isinstance(column[0], Node) and column[0].prim is UPDATE:
            starts = np.array([node.params["start"] for node in column])  # type: ignore[union-attr]
            if len(varying_axes(starts)) > 1:
                return True
    return False


def _longer(items: Sequence[Item], first: Mapping[Var, int], short: Repeat) -> Repeat | None:
    """The repeat with several of *short*'s blocks as one, where its values from before the loop are cyclic, as the
    weights of a few layers are."""
    rows = [slot.atoms for step in short.steps for slot in step.slots if isinstance(slot, Rows)]
    count = max([_cycle(atoms) for atoms in rows], default=1)
    if count == 1 or not worth_rolling(items, short.start, short.period * count, short.trips // count):
        return None
    result = prove(items, first, short.start, short.period * count, short.trips // count)
    return result if isinstance(result, Repeat) and result.trips == short.trips // count else None


def _cycle(atoms: Sequence[Var]) -> int:
    """The period of *atoms*; 1 where they are not cyclic."""
    count = next((k for k, a in enumerate(atoms) if k and a is atoms[0]), 1)
    return count if all(a is b for a, b in zip(atoms[count:], atoms, strict=False)) else 1


def _around(items: Sequence[Item], first: Mapping[Var, int], inner: Repeat, trips: int) -> Repeat | None:
    """The loop around *inner*, if it contains nothing else: the blocks of both look alike, *trips* in all."""
    rounds = trips // inner.trips
    if inner.trips < FEW_TRIPS or rounds < FEW_TRIPS:
        return None
    result = prove(items, first, inner.start, inner.period * inner.trips, rounds)
    return result if isinstance(result, Repeat) else None


# ---- what looks alike ------------------------------------------------------------------------------------------------


def item_marks(items: Sequence[Item], sites: Sequence[Site | None]) -> np.ndarray:
    """A number for each item; items with different numbers are not the same step of a loop."""
    known: dict[Any, int] = {}
    marks = [known.setdefault(_mark(item, site), len(known)) for item, site in zip(items, sites, strict=True)]
    return np.array(marks, np.int64)


def _mark(item: Item, site: Site | None) -> tuple[Any, ...]:
    if isinstance(item, Guard):
        return (id(site), item.kind)
    return (id(site), id(item.prim), len(item.inputs), item.outs[0].aval.shape)


def _finer(marks: np.ndarray, items: Sequence[Item], first: Mapping[Var, int]) -> np.ndarray:
    """*marks* refined by the values from outside that items read: they tell layers that differ in their weights."""
    known: dict[Any, int] = {}
    found = []
    for mark, item in zip(marks.tolist(), items, strict=True):
        read = item.inputs if isinstance(item, Node) else ()
        outside = [id(a) for a in read if isinstance(a, Var) and a not in first]
        found.append(known.setdefault((mark, *outside), len(known)))
    return np.array(found, np.int64)


class Stretch(NamedTuple):
    """From *start* to *end* marks come again *period* items later, if there are that many more."""

    start: int
    end: int
    period: int


def stretches(marks: np.ndarray, finer: np.ndarray | None = None) -> list[Stretch]:
    """The stretches in which *marks* repeat.

    A period is tried where some mark, of these or of the *finer* ones, comes again at that distance several times in a
    row, which that of any call does that a loop makes once in each turn.
    """
    n = len(marks)
    steady = _steady(marks) if finer is None else np.concatenate([_steady(marks), _steady(finer)])
    periods, counts = np.unique(steady, return_counts=True)
    runs = []
    for period in periods[np.argsort(-counts, kind="stable")][:MAX_PERIODS].tolist():
        breaks = np.flatnonzero(marks[:-period] != marks[period:])
        starts, ends = np.append(0, breaks + 1), np.append(breaks, n - period)
        for k in np.flatnonzero(ends - starts >= (FEW_TRIPS - 1) * period):
            runs.append(Stretch(int(starts[k]), int(ends[k]) + period, period))
    return runs


def _steady(marks: np.ndarray) -> np.ndarray:
    """The distances at which some mark comes again several times in a row."""
    n = len(marks)
    order = np.argsort(marks, kind="stable")
    again = np.flatnonzero(marks[order[1:]] == marks[order[:-1]])
    distance = np.zeros(n, np.int64)  # to the next item of the same mark
    distance[order[again]] = order[again + 1] - order[again]
    steady = distance > 0
    there = np.arange(n)
    for _ in range(FEW_TRIPS - 2):
        there = np.minimum(there + distance, n - 1)
        steady &= distance[there] == distance
    return distance[steady]
