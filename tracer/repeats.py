"""Finding what repeats in a recording.

A recording is a list of *items* in the order in which Python asked for them: nodes, and guards.  A node stands in it
once for each time it was asked for, also where an equal one existed already, so that every turn of a Python loop
leaves the same number of items.

A ``Repeat`` says: from ``start`` on, ``trips`` blocks of ``period`` items each do the same thing.  What "the same"
means is in its ``steps``, one for each item of a block, and in their *slots*, which say where a block finds an operand:

    Local     what an earlier item of the same block defined
    Carried   what an item of the block before defined, or of the one before that; in the first blocks: ``inits``
    Same      one value from before the loop, or one constant
    Rows      another value from before the loop in every block
    Numbers   another constant in every block

``find_repeats`` looks for them, innermost or outermost, whichever begins first; ``_Matcher`` proves every slot of
every block.  What cannot be proven for all blocks is cut off, and what is left is a smaller repeat, or none.
``fold.py`` makes loop nodes of them.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat as forever
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .aval import FLOAT_KINDS, HALF, held_dtype
from .ir import Atom, Graph, Guard, Lit, Node, Var
from .primitive import CUSTOM
from .site import Site

Item: TypeAlias = Node | Guard

FEW_TRIPS = 4  # no loop has fewer
MIN_TRIPS = 16  # fewer are left as they are, unless they are
LONG = 512  # items or more in all
MAX_PERIODS = 256  # distances that are tried in one recording
MAX_TRIES = 32  # places at which a loop may begin that are tried in one stretch
VARYING = {"slice", "update", "pad"}  # primitives whose ``start`` may differ from block to block


class Local(NamedTuple):
    item: int
    out: int


class Carried(NamedTuple):
    """``inits``: the operands of the first *distance* blocks."""

    item: int
    out: int
    distance: int
    inits: tuple[Atom, ...]


class Same(NamedTuple):
    atom: Atom


class Rows(NamedTuple):
    atoms: list[Var]


class Numbers(NamedTuple):
    like: Lit
    values: np.ndarray


Slot: TypeAlias = Local | Carried | Same | Rows | Numbers


@dataclass(slots=True)
class Step:
    """One item of a block.  ``starts``: rows are blocks, columns axes, where ``start`` differs.  ``expected``: of a
    guard, what it found in each block.  ``fixed``: the same in every block, so computed once."""

    item: Item
    slots: list[Slot]
    starts: np.ndarray | None = None
    expected: np.ndarray | None = None
    fixed: bool = False


@dataclass(slots=True)
class Repeat:
    start: int
    period: int
    trips: int
    steps: list[Step]

    @property
    def end(self) -> int:
        return self.start + self.period * self.trips


@dataclass(slots=True)
class Found:
    repeats: list[Repeat]
    first: dict[Var, int]  # the item that first defines a Var
    refusals: list[str] = field(default_factory=list)


def part_of(node: Node) -> tuple[int, ...]:
    """The shape of what lies at the ``start`` of a slice, an update or a pad."""
    if node.prim.name == "slice":
        return node.params["shape"]
    return node.inputs[node.prim.name == "update"].aval.shape


def varying_axis(starts: np.ndarray) -> int:
    """The axis along which the *starts* of a step differ."""
    (axis,) = np.flatnonzero((starts != starts[0]).any(axis=0)).tolist()
    return int(axis)


def worth_rolling(period: int, trips: int) -> bool:
    """The heuristic: is a loop better than its blocks one after another?"""
    return trips >= MIN_TRIPS or (trips >= FEW_TRIPS and trips * period >= LONG)


def find_repeats(
    items: Sequence[Item], sites: Sequence[Site | None], wholes_of: Callable[[Atom], Sequence[Atom]] | None = None
) -> Found:
    """The repeats of *items*, which were asked for at *sites*: in order, none within another.  *wholes_of*: as for
    ``first_items``."""
    first = first_items(items, wholes_of)
    found = Found([], first)
    if len(items) < FEW_TRIPS:
        return found
    heap = [(run.start, run.period, run.end, 0) for run in _runs(_marks(items, sites))]
    heapq.heapify(heap)
    at = 0
    while heap:
        start, period, end, tries = heapq.heappop(heap)
        if start < at:
            heapq.heappush(heap, (at, period, end, tries))
            continue
        trips = (end - start) // period
        if not worth_rolling(period, trips) or tries == MAX_TRIES:
            continue
        result = _Matcher(items, first, start, period).match(trips)
        if isinstance(result, Repeat) and not worth_rolling(period, result.trips):
            heapq.heappush(heap, (result.end, period, end, tries + 1))
        elif isinstance(result, Repeat):
            result = _around(items, first, result, trips) or result
            found.repeats.append(result)
            at = result.end
            heapq.heappush(heap, (at, period, end, 0))
        else:
            found.refusals.append(result.why)
            heapq.heappush(heap, (result.resume, period, end, tries + 1))
    return found


def first_items(items: Sequence[Item], wholes_of: Callable[[Atom], Sequence[Atom]] | None = None) -> dict[Var, int]:
    """The item that first defines each Var.  *wholes_of*: what a value that no item defines is a part of."""
    first: dict[Var, int] = {}
    for k, item in enumerate(items):
        if isinstance(item, Node):
            for out in item.outs:
                first.setdefault(out, k)
    if wholes_of is not None:
        for item in items:
            for atom in item.inputs if isinstance(item, Node) else (item.atom,):
                places = [first[whole] for whole in wholes_of(atom) if isinstance(whole, Var) and whole in first]
                if places:
                    first[atom] = max(places)  # type: ignore[index]
    return first


def alike(items: Sequence[Item], sites: Sequence[Site | None]) -> list[_Run]:
    """The stretches that look like repeats."""
    return _runs(_marks(items, sites)) if len(items) >= FEW_TRIPS else []


def match(
    items: Sequence[Item], first: Mapping[Var, int], start: int, period: int, trips: int, *, whole: bool
) -> Repeat | str:
    """The repeat of at least four blocks that ends after *trips* blocks from *start*; where *whole* is False, before.
    A first block that differs is left out.  Or why there is none."""
    while trips >= FEW_TRIPS:
        found = _Matcher(items, first, start, period).match(trips)
        if isinstance(found, Repeat):
            if found.trips == trips or not whole:
                return found
            return "the last turns are not like the others"
        skipped = max(1, -(-(found.resume - start) // period))
        start, trips = start + skipped * period, trips - skipped
        why = found.why
    return why


def _around(items: Sequence[Item], first: Mapping[Var, int], inner: Repeat, trips: int) -> Repeat | None:
    """The loop around *inner*, where it does nothing else: the blocks of both look alike, *trips* in all."""
    rounds = trips // inner.trips
    if inner.trips < FEW_TRIPS or rounds < FEW_TRIPS:
        return None
    result = _Matcher(items, first, inner.start, inner.period * inner.trips).match(rounds)
    return result if isinstance(result, Repeat) else None


def reaches_end(items: Sequence[Item], sites: Sequence[Site | None], length: int) -> bool:
    """Do the last *length* items look like a loop that is going on?"""
    if len(items) < length:
        return False
    marks = _marks(items[-length:], sites[-length:])
    return any(run.start < run.period and run.end == length for run in _runs(marks))


# ---- what looks alike ------------------------------------------------------------------------------------------------


def _marks(items: Sequence[Item], sites: Sequence[Site | None]) -> np.ndarray:
    """A number for each item; items with different numbers are not the same step of a loop."""
    known: dict[Any, int] = {}
    marks = [known.setdefault(_mark(item, site), len(known)) for item, site in zip(items, sites, strict=True)]
    return np.array(marks, np.int64)


def _mark(item: Item, site: Site | None) -> tuple[Any, ...]:
    if isinstance(item, Guard):
        return (id(site), item.kind)
    return (id(site), id(item.prim), len(item.inputs))


class _Run(NamedTuple):
    """From *start* to *end* marks come again *period* items later, if there are that many more."""

    start: int
    end: int
    period: int


def _runs(marks: np.ndarray) -> list[_Run]:
    """The stretches in which marks repeat.

    A period is tried where some mark comes again at that distance several times in a row, which that of any call does
    that a loop makes once in each turn.
    """
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
    periods, counts = np.unique(distance[steady], return_counts=True)
    runs = []
    for period in periods[np.argsort(-counts, kind="stable")][:MAX_PERIODS].tolist():
        breaks = np.flatnonzero(marks[:-period] != marks[period:])
        starts, ends = np.append(0, breaks + 1), np.append(breaks, n - period)
        for k in np.flatnonzero(ends - starts >= (FEW_TRIPS - 1) * period):
            runs.append(_Run(int(starts[k]), int(ends[k]) + period, period))
    return runs


# ---- what is alike ---------------------------------------------------------------------------------------------------


class _Refusal(NamedTuple):
    why: str
    resume: int  # the item from which on another try may succeed


class _Matcher:
    """Blocks of *period* items from *start* on.  Block 2 is the pattern: there everything carried has begun."""

    def __init__(self, items: Sequence[Item], first: Mapping[Var, int], start: int, period: int):
        self.items, self.first, self.start, self.period = items, first, start, period
        # per item of a block, what it defines in blocks 0, 1 and 2
        self.defined: list[dict[Var, list[tuple[int, int]]]] = []
        for block in range(3):
            places: dict[Var, list[tuple[int, int]]] = {}
            for j in range(period):
                item = items[start + block * period + j]
                if isinstance(item, Node):
                    for i, out in enumerate(item.outs):
                        places.setdefault(out, []).append((j, i))
            self.defined.append(places)

    def match(self, trips: int) -> Repeat | _Refusal:
        """The repeat with as many of *trips* blocks as can be proven."""
        tried = min(trips, FEW_TRIPS)
        while True:
            steps, valid, where, why = self._steps(tried)
            if valid < tried:
                if valid < FEW_TRIPS:
                    return _Refusal(why, self.start + valid * self.period + where + 1)
                tried = trips = valid
            elif tried < trips:
                tried = trips
            else:
                return Repeat(self.start, self.period, trips, steps)

    def _steps(self, trips: int) -> tuple[list[Step], int, int, str]:
        """(steps, blocks that they hold for, the item of a block that stops them, why)"""
        steps: list[Step] = []
        self.steps = steps
        self.columns = [self.items[self.start + j : self.start + trips * self.period : self.period]
                        for j in range(self.period)]  # fmt: skip
        self.outs: dict[tuple[int, int], list[Var]] = {}
        best, where, why = trips, 0, ""
        for j, column in enumerate(self.columns):
            step, valid, reason = self._guard(j, column) if isinstance(column[0], Guard) else self._node(j, column)
            if valid < best:
                best, where, why = valid, j, reason
                if best < FEW_TRIPS:
                    break
            steps.append(step)
        return steps, best, where, why

    def _node(self, j: int, column: Sequence[Any]) -> tuple[Step, int, str]:
        pattern: Node = column[2]
        here = f"{pattern.prim.name} at {pattern.site}"
        if pattern.prim.kind == CUSTOM:
            return Step(pattern, []), 0, f"{here}: a Function with a backward of its own"
        starts, valid = _params(pattern, column)
        if valid < len(column):
            return Step(pattern, []), valid, f"{here}: other settings in block {valid}"
        for i, out in enumerate(pattern.outs):
            outs = self._outs(j, i)
            alike = [v.aval is out.aval or v.aval.like(out.aval) for v in outs]
            if not all(alike):
                return Step(pattern, []), alike.index(False), f"{here}: other shapes or dtypes"
        slots: list[Slot] = []
        for o in range(len(pattern.inputs)):
            slot, held = self._slot(j, [node.inputs[o] for node in column])
            if held < valid:
                valid = held
            slots.append(slot)
        step = Step(pattern, slots, starts)
        step.fixed = starts is None and self._fixed(slots)
        return step, valid, f"{here}: an operand that is neither carried nor the same in block {valid}"

    def _guard(self, j: int, column: Sequence[Any]) -> tuple[Step, int, str]:
        pattern: Guard = column[2]
        slot, valid = self._slot(j, [guard.atom for guard in column])
        expected = np.array([guard.expected for guard in column])
        if pattern.atom.aval.dtype.kind in FLOAT_KINDS and pattern.kind not in ("bool", "int", "index"):
            return Step(pattern, [slot]), 0, f"the number itself is looked at ({pattern.kind}) at {pattern.site}"
        step = Step(pattern, [slot], expected=expected)
        step.fixed = self._fixed([slot])
        return step, valid, f"what is looked at ({pattern.kind}) at {pattern.site} in block {valid}"

    def _fixed(self, slots: Sequence[Slot]) -> bool:
        """Is what is made of *slots* the same in every block?"""
        return all(isinstance(s, Same) or (isinstance(s, Local) and self.steps[s.item].fixed) for s in slots)

    def _outs(self, j: int, i: int) -> list[Var]:
        found = self.outs.get((j, i))
        if found is None:
            found = self.outs[j, i] = [node.outs[i] for node in self.columns[j]]  # type: ignore[union-attr]
        return found

    def _slot(self, j: int, atoms: list[Atom]) -> tuple[Slot, int]:
        """(where item *j* of a block finds the operand that *atoms* are, in how many blocks that holds)"""
        atom = atoms[2]
        if isinstance(atom, Lit):
            return _numbers(atom, atoms)
        best: tuple[Slot, int] = (Same(atom), -1)
        for slot in self._candidates(j, atom, atoms):
            held = self._held(slot, atoms, atom)
            if held > best[1]:
                best = slot, held
            if held == len(atoms):
                break
        return best

    def _candidates(self, j: int, atom: Var, atoms: list[Atom]) -> list[Slot]:
        result: list[Slot] = []
        local = [p for p in self.defined[2].get(atom, ()) if p[0] < j]
        if local:
            result.append(Local(*local[-1]))
        for distance in (1, 2):
            before = self.defined[2 - distance].get(atom)
            if before:
                result.append(Carried(*before[-1], distance, tuple(atoms[:distance])))
        if self._outside(atom):
            result += [Same(atom), Rows(atoms)]  # type: ignore[arg-type]
        return result

    def _outside(self, atom: Atom) -> bool:
        return isinstance(atom, Lit) or self.first.get(atom, -1) < self.start

    def _held(self, slot: Slot, atoms: list[Atom], pattern: Var) -> int:
        """The number of blocks, from the first on, for which *slot* is right."""
        if isinstance(slot, Local):
            return _agreeing(map(operator.is_, atoms, self._outs(slot.item, slot.out)), len(atoms))
        if isinstance(slot, Carried):
            for init in slot.inits:
                if not (self._outside(init) and init.aval.like(pattern.aval)):
                    return 0
            d = slot.distance
            return d + _agreeing(map(operator.is_, atoms[d:], self._outs(slot.item, slot.out)), len(atoms) - d)
        if isinstance(slot, Same):
            return _agreeing(map(operator.is_, atoms, forever(slot.atom)), len(atoms))
        right = (isinstance(a, Var) and self._outside(a) and a.aval.like(pattern.aval) for a in atoms)
        return _agreeing(right, len(atoms))


def _agreeing(flags: Any, count: int) -> int:
    for k, flag in enumerate(flags):
        if not flag:
            return k
    return count


def _numbers(pattern: Lit, atoms: list[Atom]) -> tuple[Slot, int]:
    dtype, structural = pattern.aval.dtype, pattern.structural
    alike = [isinstance(a, Lit) and a.aval.dtype == dtype and a.structural == structural for a in atoms]
    held = alike.index(False) if not all(alike) else len(atoms)
    values = np.array([a.value for a in atoms[:held]], held_dtype(dtype))  # type: ignore[union-attr]
    if held > 2 and values.tobytes() == values[2].tobytes() * held:
        return Same(pattern), held
    if structural or dtype in HALF:  # part of the program; not rounded, as an array of half precision would be
        bits = [v.tobytes() for v in values]
        return Same(pattern), next((k for k, b in enumerate(bits) if b != bits[2]), held) if held > 2 else held
    return Numbers(pattern, values), held


def _params(pattern: Node, column: Sequence[Node]) -> tuple[np.ndarray | None, int]:
    """(the starts where they differ, for how many blocks the params agree)"""
    params = pattern.params
    held = _agreeing((node.params is params or same_params(node.params, params) for node in column), len(column))
    if held == len(column) or pattern.prim.name not in VARYING:
        return None, held
    rest = {k: v for k, v in params.items() if k != "start"}
    held = _agreeing(({k: v for k, v in node.params.items() if k != "start"} == rest for node in column), len(column))
    starts = np.array([node.params["start"] for node in column[:held]], np.int64).reshape(held, len(params["start"]))
    other = np.logical_or.accumulate(starts != starts[:1], axis=0)
    held = int(np.count_nonzero(np.count_nonzero(other, axis=1) <= 1))  # up to where they move along two axes at once
    return starts[:held], held


# ---- equality of programs --------------------------------------------------------------------------------------------


def same_params(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if a.keys() != b.keys():
        return False
    return all(
        same_graph(x, y) if isinstance(x, Graph) and isinstance(y, Graph) else type(x) is type(y) and x == y
        for x, y in zip(a.values(), b.values(), strict=True)
    )


def same_graph(a: Graph, b: Graph) -> bool:
    """Do two bodies of loops compute the same, whatever their Vars are called?"""
    if a is b:
        return True
    if len(a.inputs) != len(b.inputs) or len(a.nodes) != len(b.nodes) or len(a.outputs) != len(b.outputs):
        return False
    names: dict[Var, Var] = {}

    def same(x: Atom, y: Atom) -> bool:
        if isinstance(x, Lit) or isinstance(y, Lit):
            return (
                isinstance(x, Lit) and isinstance(y, Lit) and x.aval == y.aval and x.structural == y.structural
                and x.value.tobytes() == y.value.tobytes()
            )  # fmt: skip
        return names.get(x) is y

    for x, y in zip(a.inputs, b.inputs, strict=True):
        if x.aval != y.aval:
            return False
        names[x] = y
    for m, n in zip(a.nodes, b.nodes, strict=True):
        if m.prim is not n.prim or len(m.inputs) != len(n.inputs) or len(m.outs) != len(n.outs):
            return False
        if not same_params(m.params, n.params) or not all(map(same, m.inputs, n.inputs)):
            return False
        names.update(zip(m.outs, n.outs, strict=True))
    return all(map(same, a.outputs, b.outputs))


__all__ = [
    "FEW_TRIPS",
    "Carried",
    "Found",
    "Item",
    "Local",
    "Numbers",
    "Repeat",
    "Rows",
    "Same",
    "Slot",
    "Step",
    "alike",
    "find_repeats",
    "first_items",
    "match",
    "part_of",
    "reaches_end",
    "same_graph", "varying_axis",
    "worth_rolling",
]  # fmt: skip
