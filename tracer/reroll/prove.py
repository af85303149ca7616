"""Proof of repeats: every block of a stretch does the same thing.

``prove`` takes a stretch of blocks and finds for each operand of each item one slot (``repeats.py``) that is right in
every block.  Where none is, the stretch is cut off before the block that differs, and the rest is proven again.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import repeat as forever
from typing import Any, TypeAlias

import numpy as np

from ..ir.aval import FLOAT_KINDS, HALF, held_dtype
from ..ir.equality import same_params
from ..ir.graph import Atom, Guard, Lit, Node, Var
from ..ir.refusals import Reason, Refusal
from ..ops.custom import runs_python
from .repeats import FEW_TRIPS, Carried, Invariant, Item, Local, Repeat, Rows, Slot, Step, VaryingConstant

MAX_DISTANCE = 64  # blocks that a value is carried through
VARYING = {"slice", "update", "pad"}  # primitives whose ``start`` may differ from block to block


Unproven: TypeAlias = tuple[Reason, int]  # why, and the item from which on another try may succeed


def prove(
    items: Sequence[Item], first: Mapping[Var, int], start: int, period: int, trips: int, axes: int = 1
) -> Repeat | Unproven:
    """The repeat of *period* items from *start* on, with as many of *trips* blocks as can be proven.  *first*: the item
    that first defines each Var; *axes*: along how many a slice may move."""
    return _Matcher(items, first, start, period, axes).match(trips)


def first_items(items: Sequence[Item]) -> dict[Var, int]:
    """The item that first defines each Var."""
    first: dict[Var, int] = {}
    for k, item in enumerate(items):
        if isinstance(item, Node):
            for out in item.outs:
                first.setdefault(out, k)
    return first


class _Matcher:
    """Blocks of *period* items from *start* on.  Block 2 is the pattern: there everything carried has begun."""

    def __init__(self, items: Sequence[Item], first: Mapping[Var, int], start: int, period: int, axes: int):
        self.items, self.first, self.start, self.period, self.axes = items, first, start, period, axes
        # per item of a block, its values in blocks 0, 1 and 2
        self.defined: list[dict[Var, list[tuple[int, int]]]] = []
        for block in range(3):
            places: dict[Var, list[tuple[int, int]]] = {}
            for j in range(period):
                item = items[start + block * period + j]
                if isinstance(item, Node):
                    for i, out in enumerate(item.outs):
                        places.setdefault(out, []).append((j, i))
            self.defined.append(places)

    def match(self, trips: int) -> Repeat | Unproven:
        """The repeat with as many of *trips* blocks as can be proven."""
        tried = min(trips, FEW_TRIPS)
        while True:
            steps, valid, where, why = self._steps(tried)
            if valid < tried:
                if valid < FEW_TRIPS:
                    assert why is not None
                    return why, self.start + valid * self.period + where + 1
                tried = trips = valid
            elif tried < trips:
                tried = trips
            else:
                return Repeat(self.start, self.period, trips, steps)

    def _look_at(self, trips: int) -> None:
        self.columns = [self.items[self.start + j : self.start + trips * self.period : self.period]
                        for j in range(self.period)]  # fmt: skip
        self.outs: dict[tuple[int, int], list[Var]] = {}

    def _steps(self, trips: int) -> tuple[list[Step], int, int, Reason | None]:
        """(steps, blocks that they hold for, the item of a block that stops them, the reason)"""
        steps: list[Step] = []
        self.steps = steps
        self._look_at(trips)
        best, where, why = trips, 0, None
        for j, column in enumerate(self.columns):
            step, valid, reason = self._guard(j, column) if isinstance(column[0], Guard) else self._node(j, column)
            if valid < best:
                best, where, why = valid, j, reason
                if best < FEW_TRIPS:
                    break
            steps.append(step)
        return steps, best, where, why

    def _node(self, j: int, column: Sequence[Any]) -> tuple[Step, int, Reason]:
        pattern: Node = column[2]
        here = {"operation": pattern.prim.name, "site": pattern.site}
        if runs_python(pattern):
            return Step(pattern, []), 0, Refusal.ROLL_FUNCTION(**here)
        starts, valid = varying_params(pattern, column, self.axes)
        if valid < len(column):
            return Step(pattern, []), valid, Refusal.ROLL_SETTINGS(**here, where=f"block {valid}")
        for i, out in enumerate(pattern.outs):
            outs = self._outs(j, i)
            alike = [v.aval is out.aval or v.aval.like(out.aval) for v in outs]
            if not all(alike):
                valid = alike.index(False)
                return Step(pattern, []), valid, Refusal.ROLL_SHAPES(**here, where=f"block {valid}")
        slots: list[Slot] = []
        for o in range(len(pattern.inputs)):
            slot, held = self._slot(j, [node.inputs[o] for node in column])
            if held < valid:
                valid = held
            slots.append(slot)
        step = Step(pattern, slots, starts)
        step.fixed = starts is None and self._fixed(slots)
        return step, valid, Refusal.ROLL_OPERAND(**here, where=f"block {valid}")

    def _guard(self, j: int, column: Sequence[Any]) -> tuple[Step, int, Reason]:
        pattern: Guard = column[2]
        slot, valid = self._slot(j, [guard.atom for guard in column])
        expected = np.array([guard.expected for guard in column])
        if pattern.atom.aval.dtype.kind in FLOAT_KINDS and pattern.kind not in ("bool", "int", "index"):
            return Step(pattern, [slot]), 0, Refusal.ROLL_NUMBER(kind=pattern.kind, site=pattern.site)
        step = Step(pattern, [slot], expected=expected)
        step.fixed = self._fixed([slot])
        return step, valid, Refusal.ROLL_ANSWER(kind=pattern.kind, site=pattern.site, where=f"block {valid}")

    def _fixed(self, slots: Sequence[Slot]) -> bool:
        """Whether an item with these *slots* is loop-invariant."""
        return all(isinstance(s, Invariant) or (isinstance(s, Local) and self.steps[s.item].fixed) for s in slots)

    def _outs(self, j: int, i: int) -> list[Var]:
        found = self.outs.get((j, i))
        if found is None:
            found = self.outs[j, i] = [node.outs[i] for node in self.columns[j]]  # type: ignore[union-attr]
        return found

    def _slot(self, j: int, atoms: list[Atom]) -> tuple[Slot, int]:
        """(the slot of an operand of item *j*, *atoms* by block; the number of blocks that it is right for)"""
        atom = atoms[2]
        if isinstance(atom, Lit):
            return number_slot(atom, atoms)
        best: tuple[Slot, int] = (Invariant(atom), -1)
        for slot in self._candidates(j, atom, atoms):
            held = self._held(slot, atoms, atom)
            if held > best[1]:
                best = slot, held
            if held == len(atoms):
                return best
        late = self._late(atoms)
        return max(best, (late, self._held(late, atoms, atom)), key=lambda found: found[1]) if late else best

    def _late(self, atoms: list[Atom]) -> Carried | None:
        """The slot of a value from more blocks before than the pattern has, as that of a season is: the first of the
        *atoms* that a block defines tells."""
        for distance, atom in enumerate(atoms[: MAX_DISTANCE + 1]):
            place = self.first.get(atom, -1) - self.start  # type: ignore[arg-type]
            if place >= 0:
                item = self.items[self.start + place]
                if distance <= 2 or place >= self.period or not isinstance(item, Node) or atom not in item.outs:
                    return None
                return Carried(place, item.outs.index(atom), distance, tuple(atoms[:distance]))  # type: ignore[arg-type]
        return None

    def _candidates(self, j: int, atom: Var, atoms: list[Atom]) -> list[Slot]:
        result: list[Slot] = []
        # equal items of the pattern may be others in other blocks, as a[i, j] and a[k, j] are where i is k
        result += [Local(*p) for p in self.defined[2].get(atom, ())[::-1] if p[0] < j]
        for distance in (1, 2):
            before = self.defined[2 - distance].get(atom, ())[::-1]
            result += [Carried(*place, distance, tuple(atoms[:distance])) for place in before]
        if self._outside(atom):
            result += [Invariant(atom), Rows(atoms)]  # type: ignore[arg-type]
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
        if isinstance(slot, Invariant):
            return _agreeing(map(operator.is_, atoms, forever(slot.atom)), len(atoms))
        right = (isinstance(a, Var) and self._outside(a) and a.aval.like(pattern.aval) for a in atoms)
        return _agreeing(right, len(atoms))


def _agreeing(flags: Any, count: int) -> int:
    for k, flag in enumerate(flags):
        if not flag:
            return k
    return count


def number_slot(pattern: Lit, atoms: list[Atom]) -> tuple[Slot, int]:
    """(the slot of an operand that is a constant, *atoms* by block; the number of blocks that it is right for)"""
    dtype, structural = pattern.aval.dtype, pattern.structural
    alike = [isinstance(a, Lit) and a.aval.dtype == dtype and a.structural == structural for a in atoms]
    held = alike.index(False) if not all(alike) else len(atoms)
    values = np.array([a.value for a in atoms[:held]], held_dtype(dtype))  # type: ignore[union-attr]
    if held > 2 and values.tobytes() == values[2].tobytes() * held:
        return Invariant(pattern), held
    if structural or dtype in HALF:  # part of the program; not rounded, as an array of half precision would be
        bits = [v.tobytes() for v in values]
        return Invariant(pattern), next((k for k, b in enumerate(bits) if b != bits[2]), held) if held > 2 else held
    return VaryingConstant(pattern, values), held


def varying_params(pattern: Node, column: Sequence[Node], axes: int = 1) -> tuple[np.ndarray | None, int]:
    """(the starts where they differ, for how many blocks the params agree); *axes*: as many of the starts may move"""
    params = pattern.params
    held = _agreeing((node.params is params or same_params(node.params, params) for node in column), len(column))
    if held == len(column) or pattern.prim.name not in VARYING:
        return None, held
    rest = {k: v for k, v in params.items() if k != "start"}
    held = _agreeing(({k: v for k, v in node.params.items() if k != "start"} == rest for node in column), len(column))
    starts = np.array([node.params["start"] for node in column[:held]], np.int64).reshape(held, len(params["start"]))
    other = np.logical_or.accumulate(starts != starts[:1], axis=0)
    held = int(np.count_nonzero(np.count_nonzero(other, axis=1) <= axes))
    return starts[:held], held
