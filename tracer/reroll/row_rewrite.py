"""Rewriting of a block whose arrays are written row by row (``row_writes.py``) without these arrays.

An update of the array becomes an update of the step's row, a read becomes a slice of that row, of the row of an
earlier step, which is a ``Carried`` slot, or of the array as it was before the loop.  The result are ordinary
steps: ``loop_body.py`` makes a loop of them, or whole arrays where steps don't depend on each other, and folds what
repeats within a step, whose rows are arrays that are written in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.data_classes import dataclass
from ..ir.graph import Atom, Builder, Node, Var, bind, building
from ..ir.primitive import PRIMITIVES, Primitive
from ..ir.site import Site
from ..ops.indexing import SCATTER_SET
from ..ops.shape import CONCAT, SLICE, UPDATE, reshape, take_slice, transpose
from .repeats import Carried, Invariant, Item, Key, Local, Slot, Step
from .row_writes import BEFORE, NOW, Box, Read, Run, Written, box_of, find_arrays, joined
from .windows import merged, row_at

Ints = tuple[int, ...]
MAX_PARTS = 8  # strided updates that put rows of several elements into an array; more are one scatter


@dataclass(slots=True, eq=False)
class Array:
    """One of the *written* arrays.  ``rows`` are steps of the new block: the row after each update."""

    written: Written
    length: int
    const: Callable[[np.ndarray], Var]
    rows: list[int] = field(default_factory=list)
    stacks: dict[int, Atom] = field(default_factory=dict)  # by update, from 1 on: rows of all steps

    def after(self, update: int, t: int) -> Atom:
        """The array in step *t*, after its *update*-th update (from 1 on), from the loop's results."""
        w = self.written
        last = len(self.rows)
        if w.axis is None:
            return self._row(w.initial, update, t)
        done = t + (update == last)
        x = self._put(w.initial, self.stacks[last], done) if done else w.initial
        return x if update == last else self._row(x, update, t)

    def _row(self, x: Atom, update: int, t: int) -> Atom:
        """*x* with the row of step *t* in its place."""
        stack, w = self.stacks[update], self.written
        rest = stack.aval.shape[1:]
        row = reshape(row_at(stack, t), rest)
        return bind(UPDATE, x, row, start=w.start(t) if w.axis is not None else w.start(0), step=w.step)

    def _put(self, x: Atom, rows: Atom, count: int) -> Atom:
        """*x* with the first *count* of *rows* in their places."""
        w = self.written
        axis, n = w.axis, len(w.box)
        assert axis is not None
        rest = rows.aval.shape[1:]
        rows = take_slice(rows, (0,) * (n + 1), (1,) * (n + 1), (count, *rest))
        if w.width > 1 and abs(w.slope) == w.width * w.stride:
            if w.slope < 0:
                rows = take_slice(rows, (count - 1, *[0] * n), (-1, *[1] * n), rows.aval.shape)
            return self._strided(x, self._merged(rows), 0 if w.slope > 0 else count - 1, 0, w.stride)
        if w.width <= MAX_PARTS:
            for k in range(w.width):
                start = tuple(k if a == axis + 1 else 0 for a in range(n + 1))
                part = take_slice(rows, start, (1,) * (n + 1), (count, *rest[:axis], 1, *rest[axis + 1 :]))
                x = self._strided(x, self._merged(part), 0, k, w.slope)
            return x
        places = self.const((w.origins[:count, None] + w.stride * np.arange(w.width)).reshape(-1))
        front = (axis, *[a for a in range(n) if a != axis])
        begin, steps, whole = list(w.start(0)), (1,) * n, list(w.shape)
        begin[axis], whole[axis] = 0, w.initial.aval.shape[axis]
        start, shape = tuple(begin), tuple(whole)
        part = transpose(take_slice(x, start, steps, shape), front)
        part = bind(SCATTER_SET, part, places, transpose(self._merged(rows), front))
        part = transpose(part, tuple(int(p) for p in np.argsort(front)))
        return _updated(x, part, start, steps)

    def _merged(self, rows: Atom) -> Atom:
        """*rows* one after another along the axis."""
        axis = self.written.axis
        assert axis is not None
        return merged(rows, axis)

    def _strided(self, x: Atom, v: Atom, t: int, element: int, step: int) -> Atom:
        """*x* with *v* in every *step*-th place from an *element* of the row of step *t* on."""
        w = self.written
        start, steps = list(w.start(t)), [1] * len(w.box)
        assert w.axis is not None
        start[w.axis] += element * w.stride
        steps[w.axis] = step
        return _updated(x, v, tuple(start), tuple(steps))


def _updated(x: Atom, v: Atom, start: Ints, step: Ints) -> Atom:
    if v.aval.shape == x.aval.shape and all(s == 1 or n == 1 for s, n in zip(step, v.aval.shape, strict=True)):
        return v
    return bind(UPDATE, x, v, start=start, step=step)


@dataclass(slots=True, eq=False)
class Rewritten:
    """The new block; ``places``: old item -> index of the new one; ``arrays``: update -> (array, its number there)."""

    steps: list[Step]
    block: list[Item]
    places: list[int]
    arrays: dict[Key, tuple[Array, int]]


def without_arrays(
    steps: Sequence[Step], block: Sequence[Item], length: int, out: Builder, const: Callable[[np.ndarray], Var],
    stacked: Collection[Key],
) -> Rewritten | None:  # fmt: skip
    """The block without the arrays that it writes row by row; None where there are none.  Nodes before the loop are
    appended to *out*, reasons why an array is carried to its notes."""
    found, refusals = find_arrays(steps, length, stacked)
    out.notes += [r for r in refusals if r not in out.notes]
    if not found:
        return None
    return _BlockRewriter(steps, block, length, out, const, found).run()


class _BlockRewriter:
    def __init__(
        self, steps: Sequence[Step], block: Sequence[Item], length: int, out: Builder,
        const: Callable[[np.ndarray], Var], found: Sequence[Written],
    ):  # fmt: skip
        self.old, self.old_block, self.length, self.out = steps, block, length, out
        self.steps: list[Step] = []
        self.block: list[Item] = []
        self.places: list[int] = []
        self.arrays = [Array(w, length, const) for w in found]
        self.updates = {u: (a, k) for a in self.arrays for k, u in enumerate(a.written.updates)}
        self.reads = {j: (a, r) for a in self.arrays for j, r in a.written.reads.items()}
        self.states: dict[int, list[Slot | None]] = {id(a): [None] for a in self.arrays}
        self.boxes = {id(a): _read_before(a.written) for a in self.arrays}
        self.pieces = _pieces(self.arrays)
        self.site: Site | None = None

    def run(self) -> Rewritten:
        for j, step in enumerate(self.old):
            self.site = step.item.site
            if j in self.updates:
                self._update(*self.updates[j], step)
            elif j in self.reads:
                self._read(*self.reads[j], step)
            else:
                self.steps.append(Step(step.item, list(step.slots), step.starts, step.expected, step.fixed))
                self.block.append(self.old_block[j])
                self._renumber(self.steps[-1])
            self.places.append(len(self.steps) - 1)
        ends = [self._end(piece) for piece in self.pieces.values()]
        for step in self.steps:
            for o, slot in enumerate(step.slots):
                if isinstance(slot, Carried):
                    at = ends[-1 - slot.item] if slot.item < 0 else self.places[slot.item]
                    step.slots[o] = slot._replace(item=at)
        arrays = {(u, 0): (a, k + 1) for u, (a, k) in self.updates.items()}
        return Rewritten(self.steps, self.block, self.places, arrays)

    def _renumber(self, step: Step) -> None:
        for o, slot in enumerate(step.slots):
            if isinstance(slot, Local):
                step.slots[o] = slot._replace(item=self.places[slot.item])

    def _add(
        self, prim: Primitive, slots: list[Slot], shape: Ints, dtype: np.dtype, params: dict[str, Any],
        starts: np.ndarray | None = None,
    ) -> Local:  # fmt: skip
        """A further step of the new block."""
        node = Node(prim, (), params, (Var(Aval(dtype, shape)),), self.site)
        self.steps.append(Step(node, slots, starts))
        self.block.append(node)
        return Local(len(self.steps) - 1, 0)

    def _alias(self, slot: Slot, shape: Ints, dtype: np.dtype) -> Local:
        return self._add(PRIMITIVES["alias"], [slot], shape, dtype, {})

    # ---- writing -------------------------------------------------------------------------------------------------

    def _update(self, array: Array, k: int, step: Step) -> None:
        w, region = array.written, array.written.regions[k]
        states, dtype = self.states[id(array)], w.initial.aval.dtype
        value = step.slots[1]
        if isinstance(value, Local):
            value = value._replace(item=self.places[value.item])
        start, steps = self._within(w, region.starts[0], region.step, region.shape)
        if region.shape == w.shape and all(s == 1 for s in steps):
            row = self._alias(value, w.shape, dtype)
        else:
            row = self._add(UPDATE, [self._row(array, k), value], w.shape, dtype, {"start": start, "step": steps})
        states.append(row)
        array.rows.append(row.item)

    @staticmethod
    def _within(w: Written, start: np.ndarray, step: Ints, shape: Ints) -> tuple[Ints, Ints]:
        """(start, step) of a slice in the coordinates of a row, of one in those of the array in step 0."""
        starts = [int(s) - o for s, o in zip(start, w.start(0), strict=True)]
        steps = [1 if n == 1 else s for s, n in zip(step, shape, strict=True)]
        if w.axis is not None:
            starts[w.axis] //= w.stride
            if shape[w.axis] != 1:
                steps[w.axis] //= w.stride
        return tuple(starts), tuple(steps)

    def _row(self, array: Array, state: int) -> Slot:
        """The row of this step in *state*."""
        w, states = array.written, self.states[id(array)]
        found = states[state]
        if found is None:
            dtype = w.initial.aval.dtype
            if w.axis is None:
                with building(self.out):
                    start = take_slice(w.initial, w.start(0), w.step, w.shape)
                last = w.updates[-1]
                found = self._alias(Carried(last, 0, 1, (start,)), w.shape, dtype)
            else:
                starts = np.array([w.start(t) for t in range(self.length)])
                x, starts = self._narrowed(w, starts, w.axis, w.box)
                params = {"start": tuple(starts[0].tolist()), "step": w.step, "shape": w.shape}
                found = self._add(SLICE, [Invariant(x)], w.shape, dtype, params, starts)
            states[state] = found
        return found

    def _narrowed(self, w: Written, starts: np.ndarray, axis: int, box: Box) -> tuple[Atom, np.ndarray]:
        """The initial array, cut to *box* along all axes but *axis*, and *starts* in it."""
        shape = w.initial.aval.shape
        low = tuple(0 if a == axis else b[0] for a, b in enumerate(box))
        size = tuple(shape[a] if a == axis else b[1] - b[0] for a, b in enumerate(box))
        with building(self.out):
            return take_slice(w.initial, low, (1,) * len(shape), size), starts - np.array(low)

    # ---- reading -------------------------------------------------------------------------------------------------

    def _read(self, array: Array, read: Read, step: Step) -> None:
        w, region, node = array.written, read.region, step.item
        assert isinstance(node, Node)
        dtype = w.initial.aval.dtype
        if len(read.runs) == 1 and read.runs[0].back == BEFORE:
            moving = region.moving()
            if not moving:
                with building(self.out):
                    found = take_slice(w.initial, node.params["start"], region.step, region.shape)
                self._alias(Invariant(found), region.shape, dtype)
                return
            x: Atom = w.initial
            starts = region.starts
            if len(moving) == 1:
                x, starts = self._narrowed(w, starts, moving[0], self.boxes[id(array)][moving[0]])
            params = {**node.params, "start": tuple(starts[0].tolist())}
            self._add(SLICE, [Invariant(x)], region.shape, dtype, params, starts)
            return
        if w.axis is None:
            start, steps = self._within(w, region.starts[0], region.step, region.shape)
            self._slice(self._row(array, read.state), w.shape, start, steps, region.shape, dtype)
            return
        parts = [self._run(array, read, run) for run in read.runs]
        if len(parts) > 1:
            self._add(CONCAT, list(parts), region.shape, dtype, {"axis": w.axis})

    def _run(self, array: Array, read: Read, run: Run) -> Local:
        w, region = array.written, read.region
        axis, dtype = w.axis, w.initial.aval.dtype
        assert axis is not None
        shape = tuple(run.count if a == axis else n for a, n in enumerate(region.shape))
        steps = tuple(1 if n == 1 else s for s, n in zip(region.step, shape, strict=True))
        if run.back == BEFORE:
            starts = np.array(region.starts)
            starts[:, axis] += run.first * region.step[axis]
            params = {"start": tuple(starts[0].tolist()), "step": steps, "shape": shape}
            return self._add(SLICE, [Invariant(w.initial)], shape, dtype, params, starts)
        if run.back == NOW:
            start = tuple(run.at if a == axis else int(s) - w.box[a][0] for a, s in enumerate(region.starts[0]))
            inside = tuple(run.stride if a == axis and run.count > 1 else s for a, s in enumerate(steps))
            return self._slice(self._row(array, read.state), w.shape, start, inside, shape, dtype)
        piece = self.pieces[_piece_key(array, run)]
        box, whole = piece.box, piece.shape
        step = tuple(region.step[axis] if a == axis and run.count > 1 else 1 for a in range(len(shape)))
        inits: list[Atom] = []
        for t in range(run.back):
            place = int(region.starts[t, axis]) + run.first * region.step[axis]
            with building(self.out):
                first = tuple(place if a == axis else low for a, (low, _) in enumerate(box))
                inits.append(take_slice(w.initial, first, step, whole))
        slot = Carried(piece.number, 0, run.back, tuple(inits))
        start = tuple(0 if a == axis else int(s) - box[a][0] for a, s in enumerate(region.starts[0]))
        inside = tuple(1 if a == axis else s for a, s in enumerate(steps))
        return self._slice(slot, whole, start, inside, shape, dtype)

    def _slice(self, slot: Slot, whole: Ints, start: Ints, step: Ints, shape: Ints, dtype: np.dtype) -> Local:
        if shape == whole and all(s == 1 for s in step):
            return self._alias(slot, shape, dtype)
        return self._add(SLICE, [slot], shape, dtype, {"start": start, "step": step, "shape": shape})

    def _end(self, piece: Piece) -> int:
        """The item of the finished row's *piece*, which is carried."""
        w = piece.array.written
        assert w.axis is not None
        self.site = self.old[w.updates[-1]].item.site
        row = self._row(piece.array, len(w.updates))
        start = tuple(piece.run.at if a == w.axis else b[0] - w.box[a][0] for a, b in enumerate(piece.box))
        step = tuple(piece.run.stride if a == w.axis else 1 for a in range(len(start)))
        return self._slice(row, w.shape, start, step, piece.shape, w.initial.aval.dtype).item


@dataclass(slots=True, eq=False)
class Piece:
    """The part of a row of *array* that later steps read: elements of the axis as in *run*, of the others *box*.  Slots
    call it *number*, -1, -2, ..., until it has a place among the items."""

    array: Array
    run: Run
    box: Box
    number: int

    @property
    def shape(self) -> Ints:
        axis = self.array.written.axis
        return tuple(self.run.count if a == axis else high - low for a, (low, high) in enumerate(self.box))


def _piece_key(array: Array, run: Run) -> tuple[int, ...]:
    return (id(array), run.at, run.stride, run.count)


def _pieces(arrays: Sequence[Array]) -> dict[tuple[int, ...], Piece]:
    """The pieces of rows that are carried from step to step."""
    pieces: dict[tuple[int, ...], Piece] = {}
    for array in arrays:
        for read in array.written.reads.values():
            for run in read.runs:
                if run.back > 0:
                    key, box = _piece_key(array, run), box_of(read.region)
                    if key in pieces:
                        pieces[key].box = joined(pieces[key].box, box)
                    else:
                        pieces[key] = Piece(array, run, box, -1 - len(pieces))
    return pieces


def _read_before(w: Written) -> dict[int, Box]:
    """Moving axis -> the part of the initial array that the loop reads."""
    boxes: dict[int, Box] = {}
    for read in w.reads.values():
        if len(read.runs) == 1 and read.runs[0].back == BEFORE:
            for axis in read.region.moving():
                box = box_of(read.region)
                boxes[axis] = joined(boxes[axis], box) if axis in boxes else box
    return boxes
