"""Values of earlier turns that are read at any distance, as ``done[parent[i]]`` of a list that the loop fills.

Such an operand is neither from a constant number of turns before nor the same in each, so the turns have no proof.
Where all that stands in the way are values of one item of earlier turns, or from before the loop, these become rows of
an array: each turn writes its own, and reads the one whose position was recorded.  So it is a loop over an array that
is written row by row, as if the user's Python had filled an array in place of a list (``row_writes.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..ir.aval import Aval
from ..ir.graph import Atom, Guard, Lit, Node, Var, structural
from ..ir.primitive import Primitive
from ..ir.site import Site
from ..ops.elementwise import BROADCAST
from ..ops.shape import CONCAT, RESHAPE, SLICE, UPDATE
from .find import FoundRepeats, Stretch, find_repeats
from .prove import first_items, prove, unproven_operands
from .repeats import Item, Key, Repeat

Ints: TypeAlias = tuple[int, ...]
Lines: TypeAlias = tuple[list[Item], list[Site | None]]  # items, and where they were asked for

MOST_LOOPS = 8  # with histories, in one recording
MAX_TRIED = 32  # stretches that are looked at for each


def with_histories(
    items: Sequence[Item], sites: Sequence[Site | None], found: FoundRepeats
) -> tuple[Sequence[Item], Sequence[Site | None], FoundRepeats]:
    """*items*, their *sites*, and the repeats in them, of which *found* are known: with arrays for values that are read
    at any distance, where that makes a loop."""
    for _ in range(MOST_LOOPS):
        made = _once(items, sites, found)
        if made is None:
            break
        items, sites = made
        found = find_repeats(items, sites)
    return items, sites, found


def _once(items: Sequence[Item], sites: Sequence[Site | None], found: FoundRepeats) -> Lines | None:
    for run in found.unproven[:MAX_TRIED]:
        if any(r.period >= run.period and r.start < run.end and run.start < r.end for r in found.repeats):
            continue  # it has a loop all the same
        loop = _Loop.of(items, sites, found.first, run)
        made = None if loop is None else loop.rewritten()
        if made is not None:
            return made
    return None


@dataclass(slots=True)
class _History:
    """The values of item *key* in all turns, behind those of *before* the loop, as rows of one array."""

    key: Key
    aval: Aval  # of a value
    before: list[Var] = field(default_factory=list)
    reads: dict[Key, list[int]] = field(default_factory=dict)  # (item, operand): the turns read; -1 - k: ``before[k]``

    def start(self, turn: int) -> Ints:
        """The position of the value of *turn*."""
        return (len(self.before) + turn if turn >= 0 else -1 - turn, *[0] * self.aval.ndim)

    def known(self, atom: Var) -> int:
        """The place of a value from before the loop in ``reads``."""
        for k, x in enumerate(self.before):
            if x is atom:
                return -1 - k
        self.before.append(atom)
        return -len(self.before)


@dataclass(slots=True)
class _Loop:
    """*trips* blocks of *period* items, proven but for the operands that *histories* are for."""

    items: Sequence[Item]
    sites: Sequence[Site | None]
    start: int
    period: int
    trips: int
    histories: dict[Key, _History]

    @classmethod
    def of(
        cls, items: Sequence[Item], sites: Sequence[Site | None], first: Mapping[Var, int], run: Stretch
    ) -> _Loop | None:
        """The loop of a stretch, or None where something else stands in the way."""
        trips = (run.end - run.start) // run.period
        operands = unproven_operands(items, first, run.start, run.period, trips)
        loop = cls(items, sites, run.start, run.period, trips, {})
        return loop if operands and all(loop._reads(first, *operand) for operand in operands) else None

    def _reads(self, first: Mapping[Var, int], j: int, operand: int) -> bool:
        """Whether an operand of item *j* is, in each turn, from before the loop or the value of one item of a turn."""
        atoms = [node.inputs[operand] for node in self.items[self.start + j : self._end : self.period]]  # type: ignore[union-attr]
        aval = Aval(atoms[0].aval.dtype, atoms[0].aval.shape)
        places = [self._place(first, atom) for atom in atoms]
        keys = {place[1:] for place in places if place is not None}
        if len(keys) != 1 or any(isinstance(atom, Lit) or not atom.aval.like(aval) for atom in atoms):
            return False
        (key,) = keys
        history = self.histories.setdefault(key, _History(key, aval))
        history.reads[j, operand] = [
            place[0] if place else history.known(atom)  # type: ignore[arg-type]
            for atom, place in zip(atoms, places, strict=True)
        ]
        return True

    def _place(self, first: Mapping[Var, int], atom: Atom) -> tuple[int, int, int] | None:
        """Turn, item and result of a value of the loop; None of one from before it."""
        at = first.get(atom, -1) - self.start  # type: ignore[arg-type]
        if at < 0:
            return None
        return *divmod(at, self.period), self.items[self.start + at].outs.index(atom)  # type: ignore[union-attr,return-value]

    @property
    def _end(self) -> int:
        return self.start + self.trips * self.period

    def rewritten(self) -> Lines | None:
        """All items and their sites, with the arrays; None where they are no loop even so."""
        new: list[Item] = list(self.items[: self.start])
        at: list[Site | None] = list(self.sites[: self.start])
        now: dict[Key, Var] = {}
        for key, history in self.histories.items():
            made = self._begin(history)
            now[key] = made[-1].out
            new += made
            at += [self.sites[self.start]] * len(made)
        start = len(new)
        for turn in range(self.trips):
            for j in range(self.period):
                place = self.start + turn * self.period + j
                step = self._step(turn, j, self.items[place], now)
                new += step
                at += [self.sites[place]] * len(step)
        period = (len(new) - start) // self.trips
        proven = prove(new, first_items(new), start, period, self.trips)
        if not isinstance(proven, Repeat) or proven.trips < self.trips:
            return None
        return [*new, *self.items[self._end :]], [*at, *self.sites[self._end :]]

    def _begin(self, history: _History) -> list[Node]:
        """Nodes of the array before the first turn."""
        dtype, rest = history.aval.dtype, history.aval.shape
        site = self.items[self.start].site
        rows = [_node(RESHAPE, (x,), {"shape": (1, *rest)}, (1, *rest), site) for x in history.before]
        shape = (self.trips, *rest)
        empty = _node(BROADCAST, (structural(0, dtype),), {"shape": shape, "dims": ()}, shape, site)
        if not rows:
            return [empty]
        parts = tuple(node.out for node in (*rows, empty))
        return [*rows, empty, _node(CONCAT, parts, {"axis": 0}, (len(rows) + self.trips, *rest), site)]

    def _step(self, turn: int, j: int, item: Item, now: dict[Key, Var]) -> list[Item]:
        """Item *j* of a turn, behind the rows that it reads and before those that it writes.  *now*: the arrays."""
        if isinstance(item, Guard):
            return [item]
        inputs, site = list(item.inputs), item.site
        before: list[Item] = []
        after: list[Item] = []
        for key, history in self.histories.items():
            row = (1, *history.aval.shape)
            step = (1,) * len(row)
            for (reader, operand), turns in history.reads.items():
                if reader == j:
                    where = {"start": history.start(turns[turn]), "step": step, "shape": row}
                    part = _node(SLICE, (now[key],), where, row, site)
                    value = _node(RESHAPE, (part.out,), {"shape": row[1:]}, row[1:], site)
                    inputs[operand] = value.out
                    before += [part, value]
            if key[0] == j:
                part = _node(RESHAPE, (item.outs[key[1]],), {"shape": row}, row, site)
                where = {"start": history.start(turn), "step": step}
                written = _node(UPDATE, (now[key], part.out), where, now[key].aval.shape, site)
                now[key] = written.out
                after += [part, written]
        return [*before, Node(item.prim, tuple(inputs), item.params, item.outs, site) if before else item, *after]


def _node(prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any], shape: Ints, site: Site | None) -> Node:
    return Node(prim, inputs, params, (Var(Aval(inputs[0].aval.dtype, shape)),), site)
