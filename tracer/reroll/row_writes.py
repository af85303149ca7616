"""Recognition of arrays that a loop writes row by row.

``out[t] = f(out[t - 1], ...)`` is recorded as functional updates of a carried array.  Where every element is written
in at most one step, the array need not be carried: the elements written by a step are a *row*, the rows of all steps
are one stacked result, and the array after the loop is the initial one, updated once.  An element that a step reads is
then

    now     part of the row of this step
    back    part of the row of the step a constant number of steps before, which is carried
    before  part of the array before the loop

``find_arrays`` proves one of these for each element that is read, from the recorded positions of every step, and
refuses other arrays.  ``row_rewrite.py`` writes the block anew.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import field

import numpy as np

from ..ir.data_classes import NamedTuple, dataclass
from ..ir.graph import Node, Var
from ..ir.refusals import Reason, Refusal
from .repeats import Carried, Local, Step

Ints = tuple[int, ...]

MAX_UPDATES = 16  # updates of one block, without an axis
MAX_BACK = 16  # steps: a row is carried from one step to the next, so each costs a copy
MAX_PLACES = 2**22  # places of one read, in all steps, that are looked at
NOW, BEFORE = 0, -1  # a run's ``back``, where it is not a number of steps


class Region(NamedTuple):
    """The elements of a slice or an update in each step: *starts* [steps, axes]."""

    starts: np.ndarray
    step: Ints
    shape: Ints

    @classmethod
    def of(cls, step: Step, length: int) -> Region:
        node = step.item
        assert isinstance(node, Node)
        shape = node.params["shape"] if node.prim.name == "slice" else node.inputs[1].aval.shape
        starts = step.starts
        if starts is None:
            starts = np.broadcast_to(np.array(node.params["start"], np.int64), (length, len(shape)))
        return cls(starts, node.params["step"], shape)

    def places(self, axis: int) -> np.ndarray:
        """[steps, count]: its positions along *axis*."""
        return self.starts[:, axis, None] + self.step[axis] * np.arange(self.shape[axis])

    def bounds(self, axis: int) -> tuple[int, int]:
        """The first place of *axis* that any step covers, and one past the last."""
        first = self.starts[:, axis]
        last = first + self.step[axis] * (self.shape[axis] - 1)
        return int(min(first.min(), last.min())), int(max(first.max(), last.max())) + 1

    def moving(self) -> list[int]:
        return np.flatnonzero((self.starts != self.starts[0]).any(axis=0)).tolist()


Box = list[tuple[int, int]]


def box_of(region: Region) -> Box:
    return [region.bounds(axis) for axis in range(len(region.shape))]


def joined(a: Box, b: Box) -> Box:
    return [(min(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True)]


class Run(NamedTuple):
    """Elements ``first`` to ``first + count`` that a read covers along the axis.  *back*: ``NOW``, ``BEFORE``, or how
    many steps ago they were written.  In a row they are element ``at``, ``at + stride``, ..."""

    back: int
    first: int
    count: int  # type: ignore[assignment]
    at: int
    stride: int


@dataclass(slots=True)
class Read:
    """A slice of the array in *state*: 0 as the step found it, k after the k-th update."""

    state: int
    region: Region
    runs: list[Run]


@dataclass(slots=True)
class Written:
    """An array that is written row by row.  A row has the array's axes: ``width`` elements, ``stride`` apart, of
    *axis*, and ``box`` of the others.  ``origins[t]`` is the begin of the row of step t along *axis*, which is
    ``slope`` after that of the step before.  Without an *axis* all steps write into the one ``box``."""

    initial: Var
    updates: list[int]
    regions: list[Region]
    box: Box
    axis: int | None = None
    origins: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    slope: int = 0
    stride: int = 1
    width: int = 1
    reads: dict[int, Read] = field(default_factory=dict)

    def start(self, t: int) -> Ints:
        """The start of the row of step *t*, a position on each axis."""
        return tuple(int(self.origins[t]) if a == self.axis else low for a, (low, _) in enumerate(self.box))

    @property
    def step(self) -> Ints:
        return tuple(self.stride if a == self.axis else 1 for a in range(len(self.box)))

    @property
    def shape(self) -> Ints:
        return tuple(self.width if a == self.axis else high - low for a, (low, high) in enumerate(self.box))


def find_arrays(
    steps: Sequence[Step], length: int, stacked: Collection[tuple[int, int]]
) -> tuple[list[Written], list[Reason]]:
    """(the arrays that *steps* write row by row, reasons why others are carried).  *stacked*: updates whose whole
    result is wanted in each step."""
    uses: dict[int, list[tuple[int, int, Local | Carried]]] = {}
    for j, step in enumerate(steps):
        for o, slot in enumerate(step.slots):
            if isinstance(slot, (Local, Carried)) and _updates(steps[slot.item]):
                uses.setdefault(slot.item, []).append((j, o, slot))
    ends = {s.item for found in uses.values() for _, _, s in found if isinstance(s, Carried)}
    arrays: list[Written] = []
    refusals: list[Reason] = []
    for end in sorted(ends):
        found = _chain(steps, end)
        if found is None:
            continue
        initial, updates = found
        if any((u, 0) in stacked for u in updates):
            result: Written | Reason | None = Refusal.ROWS_KEPT()
        else:
            result = _reads(steps, initial, updates, uses, length)
        if isinstance(result, Reason):
            refusals.append(result.within(f"the array written at {steps[end].item.site} is carried: "))
        elif result is not None:
            arrays.append(result)
    return arrays, refusals


def _updates(step: Step) -> bool:
    return isinstance(step.item, Node) and step.item.prim.name == "update" and not step.fixed


def _chain(steps: Sequence[Step], end: int) -> tuple[Var, list[int]] | None:
    """(the initial array, the updates of a step in order), where *end* is the last of a carried array."""
    updates = [end]
    while True:
        slot = steps[updates[-1]].slots[0]
        if isinstance(slot, Local) and _updates(steps[slot.item]):
            updates.append(slot.item)
            continue
        if not isinstance(slot, Carried) or slot.item != end or slot.distance != 1:
            return None
        initial = slot.inits[0]
        return (initial, updates[::-1]) if isinstance(initial, Var) else None


def _reads(
    steps: Sequence[Step], initial: Var, updates: list[int],
    uses: dict[int, list[tuple[int, int, Local | Carried]]], length: int,
) -> Written | Reason | None:  # fmt: skip
    """The array with the runs of each read of it."""
    states: dict[int, int] = {}
    for k, u in enumerate(updates):
        for j, o, slot in uses.get(u, ()):
            state = k + 1
            if isinstance(slot, Carried):
                if u != updates[-1] or slot.distance != 1 or slot.inits[0] is not initial:
                    return Refusal.ROWS_OLDER()
                state = 0
            if o == 0 and state < len(updates) and updates[state] == j:
                continue
            item = steps[j].item
            if o or not isinstance(item, Node) or item.prim.name != "slice":
                what = item.prim.name if isinstance(item, Node) else "a guard"
                return Refusal.ROWS_WHOLE(operation=what, site=item.site)
            states[j] = state
    written = _frame(initial, updates, [Region.of(steps[u], length) for u in updates])
    if not isinstance(written, Written):
        return written
    writer = _Writers(written, length)
    if writer.overlap:
        return Refusal.ROWS_OVERLAP()
    core = written.box
    for j, state in states.items():
        region = Region.of(steps[j], length)
        runs = writer.runs(region, core)
        if isinstance(runs, Reason):
            return runs.within("", f" (read at {steps[j].item.site})")
        written.reads[j] = Read(state, region, runs)
        if any(run.back != BEFORE for run in runs):
            box = box_of(region)
            if written.axis is not None:
                box[written.axis] = core[written.axis]
            written.box = joined(written.box, box)
    if written.axis is None and written.shape == initial.aval.shape:
        return None  # nothing to gain
    return written


def _frame(initial: Var, updates: list[int], regions: list[Region]) -> Written | Reason | None:
    """The positions of the rows: ``Written`` without its reads, or the reason against."""
    box = box_of(regions[0])
    for region in regions[1:]:
        box = joined(box, box_of(region))
    if any(0 in region.shape for region in regions):
        return Refusal.ROWS_NONE()
    moving = [region.moving() for region in regions]
    if not any(moving):  # of many updates a loop in the block is made, in which the array is in place
        return Written(initial, updates, regions, box) if len(updates) <= MAX_UPDATES else None
    if any(m != moving[0] for m in moving) or len(moving[0]) != 1:
        return Refusal.ROWS_AXES()
    axis = moving[0][0]
    first = regions[0].starts[:, axis]
    slope = int(first[1] - first[0])
    if any((np.diff(r.starts[:, axis]) != slope).any() for r in regions):
        return Refusal.ROWS_SPACING()
    places = np.sort(np.concatenate([r.places(axis)[0] for r in regions]))
    stride = math.gcd(*np.diff(places).tolist()) or 1
    low, high = int(places[0]), int(places[-1])
    width = (high - low) // stride + 1
    written = Written(initial, updates, regions, box, axis, first + (low - int(first[0])), slope, stride, width)
    if width * len(first) > initial.aval.shape[axis]:
        return Refusal.ROWS_OVERLAP()
    return written


class _Writers:
    """For each position of the axis the step that writes it."""

    def __init__(self, written: Written, length: int):
        self.written, self.length, self.overlap = written, length, False
        if written.axis is not None:
            size = written.initial.aval.shape[written.axis]
            self.step = np.full(size, -1, np.int64)
            self.element = np.zeros(size, np.int64)
            offsets = np.arange(written.width)
            places = written.origins[:, None] + written.stride * offsets
            self.step[places] = np.arange(length)[:, None]
            self.element[places] = offsets
            self.overlap = np.count_nonzero(self.step >= 0) != places.size

    def runs(self, region: Region, core: Box) -> list[Run] | Reason:
        """The runs that *region* reads, *core* being the box of all writes; or the reason why they are unknown."""
        written = self.written
        axis = 0 if written.axis is None else written.axis
        count = region.shape[axis]
        before = [Run(BEFORE, 0, count, 0, 1)]
        if any(a[1] <= b[0] or b[1] <= a[0] for a, b in zip(box_of(region), core, strict=True)):
            return before
        moving = region.moving()
        if written.axis is None:
            return Refusal.ROWS_MOVES() if moving else [Run(NOW, 0, count, 0, 1)]
        if self.length * count > MAX_PLACES:
            return Refusal.ROWS_LARGE()
        places = region.places(axis)
        step, element, t = self.step[places], self.element[places], np.arange(self.length)[:, None]
        reached = (step >= 0) & (step <= t)
        if not reached.any():
            return before
        if any(a != axis for a in moving):
            return Refusal.ROWS_READ_AXIS()
        runs: list[Run] = []
        for c in range(count):
            back = self.length - 1 - int(step[-1, c])
            if not reached[:, c].any():
                back, at = BEFORE, c
            elif not reached[-1, c] or back > MAX_BACK:
                return Refusal.ROWS_FAR(back=back) if reached[-1, c] else Refusal.ROWS_VARIES()
            else:
                at = int(element[-1, c])
                same = (step[back:, c] == t[back:, 0] - back) & (element[back:, c] == at)
                if not same.all() or reached[:back, c].any():
                    return Refusal.ROWS_BACK_VARIES()
            last = runs[-1] if runs else None
            if last is not None and last.back == back and last.count == 1:
                runs[-1] = Run(back, last.first, 2, last.at, at - last.at)
            elif last is not None and last.back == back and at - last.at == last.stride * last.count:
                runs[-1] = last._replace(count=last.count + 1)
            else:
                runs.append(Run(back, c, 1, at, 1))
        return runs
