"""Rewriting of repeats as loop nodes.

This is done when Python has returned: only then is it known which values of a loop are used after it.  Vars keep their
identity: one that is read later is defined by the loop (its value in the last step), or by a row of the loop's stacked
results; so nothing outside of the loop has to change.

Within a block nested repeats are found in the same way, before the block becomes the body of a loop.  A guard in a
block becomes a flag that is carried along, and one guard after the loop asks whether it has held in every step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ..ir.graph import Atom, Guard, Node, Var, building
from ..ir.primitive import PRIMITIVES
from ..ir.refusals import Refusal
from ..ir.site import Site
from ..ops.shape import CONCAT, RESHAPE, concat, reshape, take_slice
from .find import FoundRepeats, find_repeats
from .loop_body import Block, Lines, MakeConst
from .repeats import Carried, Invariant, Item, Repeat, Rows, Slot, Step, VaryingConstant, told
from .windows import merged, row_at

MAX_TURNS = 8  # items whose values come in turn
MAX_STACK = 64  # values that are stacked one by one, where a loop of a few operations steps through them
STACK_ITEMS = 8  # operations of a block, for one value that is stacked


class Place(NamedTuple):
    """The definition of a Var by a block of a repeat."""

    repeat: int
    block: int
    item: int
    out: int


class Column(NamedTuple):
    """Rows ``first``, ``first + stride``, ... of the stacked values of one item of a repeat."""

    repeat: int
    item: int
    out: int
    first: int
    stride: int
    count: int  # type: ignore[assignment]


class Interleaved(NamedTuple):
    """The rows of several columns of the same length, in turn."""

    columns: tuple[Column, ...]


Part: TypeAlias = Atom | Column | Interleaved


def loose(parts: Iterable[Part]) -> list[Atom]:
    """The values among *parts* that belong to no column."""
    return [part for part in parts if not isinstance(part, Column | Interleaved)]


def columns_in(parts: Iterable[Part]) -> list[Column]:
    """The columns among *parts*."""
    found: list[Column] = []
    for part in parts:
        found += part.columns if isinstance(part, Interleaved) else [part] if isinstance(part, Column) else []
    return found


def worth_stacking(repeat: Repeat, stacked: int) -> bool:
    """Whether a loop is better than its blocks one after another where as many slots as *stacked* step through values
    that have to be stacked one by one (a heuristic): a block is much more than that."""
    return repeat.period >= STACK_ITEMS * stacked


class Rewriter:
    """One level: the items of a recording, or of the body of a loop."""

    def __init__(
        self, items: Sequence[Item], found: FoundRepeats, roots: Sequence[Atom], const: MakeConst,
        contents: Mapping[Var, np.ndarray],
        sites: Sequence[Site | None],
    ):  # fmt: skip
        self.items, self.first, self.roots, self.const = items, found.first, roots, const
        self.sites = sites  # of the items
        self.contents = contents  # of arrays that the user's Python made
        self.repeats = found.repeats
        self.starts: list[int] = []  # of the repeats whose rows are resolved
        self.out = Lines()
        self.guards: dict[int, Guard] = {}
        self.held: list[Var] = []
        self.defined: set[Var] = set()  # those of `given` that have been defined
        self.stacks: dict[tuple[int, int, int], Atom] = {}  # (repeat, item, out): its values in all blocks
        self.parts: dict[int, list[Part]] = {}  # id(slot of rows) -> its atoms and columns
        self.joined: dict[int, list[Part]] = {}  # id(concat node): its operands

    def run(self) -> tuple[list[Node], list[Guard]]:
        self._resolve_rows()
        self._find_uses()
        at = 0
        for k, repeat in enumerate(self.repeats):
            self._plain(at, repeat.start)
            self._loop(k, repeat)
            at = repeat.end
        self._plain(at, len(self.items))
        return self.out.nodes, list(self.guards.values())

    # ---- which values of a repeat are needed ---------------------------------------------------------------------

    def place(self, var: Atom) -> Place | None:
        if not isinstance(var, Var):
            return None
        at = self.first.get(var, -1)
        k = bisect_right(self.starts, at) - 1
        if k >= 0 and at < self.repeats[k].end:
            repeat = self.repeats[k]
            block, item = divmod(at - repeat.start, repeat.period)
            return Place(k, block, item, self.items[at].outs.index(var))  # type: ignore[union-attr]
        return None

    def _values(self, k: int, item: int, out: int) -> list[Var]:
        """The value of *item* in each block."""
        r = self.repeats[k]
        return [node.outs[out] for node in self.items[r.start + item : r.end : r.period]]  # type: ignore[union-attr]

    def _column(self, atoms: Sequence[Atom]) -> Column | None:
        """*atoms* as rows of the values of one item, or None."""
        first = self.place(atoms[0])
        second = self.place(atoms[1]) if len(atoms) > 1 else None
        if first is None or second is None or first[0] != second[0] or first[2:] != second[2:]:
            return None
        k, start, item, out = first
        if self.repeats[k].steps[item].fixed:
            return None
        stride = second.block - start
        last = start + stride * (len(atoms) - 1)
        if not stride or not 0 <= last < self.repeats[k].trips:
            return None
        values = self._values(k, item, out)
        if any(values[start + stride * n] is not a for n, a in enumerate(atoms)):
            return None
        return Column(k, item, out, start, stride, len(atoms))

    def _resolve_rows(self) -> None:
        """Find the columns that the rows of repeats belong to; a repeat over too many loose values is dropped."""
        kept: list[Repeat] = []
        every, self.repeats = self.repeats, kept
        for repeat in every:
            slots = [(step.item, slot) for step in repeat.steps for slot in step.slots if isinstance(slot, Rows)]
            parts = {id(slot): [] if self._is_constant(slot) else self._pieces(slot.atoms) for _, slot in slots}
            many = [(item, count) for item, slot in slots if (count := len(loose(parts[id(slot)]))) > MAX_STACK]
            many = [] if worth_stacking(repeat, len(many)) else many
            if not many:
                self.parts.update(parts)
                kept.append(repeat)
                self.starts.append(repeat.start)
            for item, count in many[:1]:
                name = item.prim.name if isinstance(item, Node) else item.kind
                why = Refusal.ROLL_VALUES(operation=name, site=item.site, count=count)
                self.out.notes.append(why.within("not-rolled: "))

    def _is_constant(self, slot: Rows) -> bool:
        """Whether all rows are arrays that the user's Python made."""
        return all(atom in self.contents for atom in slot.atoms)

    def _find_given(self) -> set[Atom]:
        """Set ``given``: values that repeats define before their loops.  The result: loop-invariant values of a repeat
        that were made before it, maybe by a block of another one."""
        self.given: set[Var] = set()
        needed: set[Atom] = set()
        for repeat in self.repeats:
            for j, step in enumerate(repeat.steps):
                item = self.items[repeat.start + j]
                if step.fixed and isinstance(item, Node):
                    own = self.first[item.outs[0]] >= repeat.start
                    (self.given if own else needed).update(item.outs)
        return needed

    def _find_uses(self) -> None:
        used: set[Atom] = {*self.roots, *self._find_given()}
        columns = [column for parts in self.parts.values() for column in columns_in(parts)]
        at = 0
        for repeat in [*self.repeats, None]:
            for item in self.items[at : repeat.start if repeat else len(self.items)]:
                if isinstance(item, Guard):
                    used.add(item.atom)
                elif item.prim is CONCAT and len(item.inputs) > 2:
                    parts = self.joined[id(item)] = self._pieces(item.inputs)
                    columns += columns_in(parts)
                    used.update(loose(parts))
                else:
                    used.update(item.inputs)
            if repeat is not None:
                at = repeat.end
                used.update(self._read(repeat))
        self.stacked: set[tuple[int, int, int]] = {(c.repeat, c.item, c.out) for c in columns}
        self.used: list[dict[Var, Place]] = [{} for _ in self.repeats]
        for atom in used:
            place = self.place(atom)
            if place is not None and atom not in self.given:
                assert isinstance(atom, Var)
                self.used[place.repeat][atom] = place
                fixed = self.repeats[place.repeat].steps[place.item].fixed
                if place.block < self.repeats[place.repeat].trips - 1 and not fixed:
                    self.stacked.add((place.repeat, place.item, place.out))

    def parts_of(self, atoms: Sequence[Atom]) -> list[Atom | Column]:
        """*atoms*, where many in a row are rows of one item as one column."""
        parts: list[Atom | Column] = []
        k = 0
        while k < len(atoms):
            count = self._evenly(atoms, k)
            end = k + (count if count > 2 else 1)
            column = self._column(atoms[k:end])
            parts += atoms[k:end] if column is None else [column]
            k = end
        return parts

    def _pieces(self, atoms: Sequence[Atom]) -> list[Part]:
        """As ``parts_of``, and where values of several items come in turn, these as one part."""
        pieces: list[Part] = []
        at = end = 0
        for part in self.parts_of(atoms):
            if at >= end:
                woven = None if isinstance(part, Column) else self._interleaved(atoms, at)
                pieces.append(part if woven is None else woven)
                end = at + (1 if woven is None else len(woven.columns) * woven.columns[0].count)
            at += part.count if isinstance(part, Column) else 1
        return pieces

    def _interleaved(self, atoms: Sequence[Atom], start: int) -> Interleaved | None:
        """The values from *start* on that are those of a few items in turn."""
        for period in range(2, MAX_TURNS + 1):
            if start + 3 * period > len(atoms) or self._evenly(atoms[start : start + 3 * period], 0, period) < 3:
                continue
            count = min(self._evenly(atoms, start + j, period) for j in range(period))
            if count < 3:
                continue
            columns = [self._column(atoms[start + j : start + count * period : period]) for j in range(period)]
            if None not in columns:
                return Interleaved(tuple(columns))  # type: ignore[arg-type]
        return None

    def _evenly(self, atoms: Sequence[Atom], start: int, step: int = 1) -> int:
        """The number of *atoms* from *start* on, *step* apart, that are values of one item in evenly spaced blocks."""
        here = self.place(atoms[start])
        there = self.place(atoms[start + step]) if start + step < len(atoms) else None
        if here is None or there is None or here._replace(block=there.block) != there:
            return 1
        stride, count = there.block - here.block, 2
        for at in range(start + 2 * step, len(atoms), step):
            if self.place(atoms[at]) != here._replace(block=here.block + stride * count):
                break
            count += 1
        return count

    def rows(self, part: Column | Interleaved) -> Atom:
        """The values of *part*, stacked."""
        if isinstance(part, Interleaved):
            each = [self.rows(column) for column in part.columns]
            count, *rest = each[0].aval.shape
            woven = concat([reshape(x, (count, 1, *rest)) for x in each], 1)
            return reshape(woven, (count * len(each), *rest))
        k, item, out = part[:3]
        x = self.stacks[k, item, out]
        shape = x.aval.shape[1:]
        return take_slice(x, (part.first, *[0] * len(shape)), (part.stride, *[1] * len(shape)), (part.count, *shape))

    # ---- what is not repeated ------------------------------------------------------------------------------------

    def _plain(self, start: int, end: int) -> None:
        for at in range(start, end):
            item = self.items[at]
            if isinstance(item, Guard):
                self.guards[id(item)] = item
            elif self.first[item.outs[0]] == at:
                parts = self.joined.get(id(item))
                if parts is None or len(loose(parts)) == len(parts):
                    self.out.append(item)
                else:
                    self._join(item, parts)

    def _join(self, node: Node, parts: Sequence[Part]) -> None:
        axis, self.out.site_override = node.params["axis"], node.site
        with building(self.out):
            joined: list[Atom] = []
            for part in parts:
                if isinstance(part, Column | Interleaved):
                    part = merged(self.rows(part), axis)
                joined.append(part)
            self._name(concat(joined, axis), node.out)

    def _name(self, atom: Atom, var: Var) -> None:
        """Define *var* to be *atom*."""
        self.out.append(Node(PRIMITIVES["alias"], (atom,), {}, (var,), self.out.site_override))

    def _name_row(self, x: Atom, t: int, var: Var) -> None:
        """Define *var* to be row *t* of *x*."""
        with building(self.out):
            row = row_at(x, t)
        self.out.append(Node(RESHAPE, (row,), {"shape": var.aval.shape}, (var,), self.out.site_override))

    def _read(self, repeat: Repeat) -> Iterator[Atom]:
        """The values that *repeat* reads from outside, without columns."""
        for step in repeat.steps:
            for slot in step.slots:
                if isinstance(slot, Invariant):
                    yield slot.atom
                elif isinstance(slot, Carried):
                    yield from slot.inits
                elif isinstance(slot, Rows):
                    yield from loose(self.parts[id(slot)])

    # ---- a loop --------------------------------------------------------------------------------------------------

    def _loop(self, k: int, repeat: Repeat) -> None:
        for j, step in enumerate(repeat.steps):
            if step.fixed:
                self._once(repeat, j, step)
        wanted = [(j, i) for r, j, i in sorted(self.stacked) if r == k]
        finals = {
            (p.item, p.out): var for var, p in self.used[k].items()
            if p.block == repeat.trips - 1 and not repeat.steps[p.item].fixed
        }  # fmt: skip
        block = self.items[repeat.start : repeat.start + repeat.period]
        sites = self.sites[repeat.start : repeat.start + repeat.period]
        body = Block(repeat.steps, block, repeat.trips, self.stack, self.const, fold_items, sites=sites)
        with building(self.out):
            self.out.site_override = repeat.steps[0].item.site
            made = body.make(self.out, wanted, finals)
            if made.held is not None:
                self.held.append(made.held)
                turns = b"".join([step.expected.tobytes() for step in repeat.steps if step.expected is not None])
                merged = Guard(made.held, np.bool_(True), "bool", made.asked, turns=turns, said=told(repeat.steps))
                self.guards[id(merged)] = merged
            self.stacks.update(((k, *key), x) for key, x in made.stacks.items())
            last = set() if made.mapped else set(finals.values())
            for var, place in sorted(self.used[k].items(), key=lambda use: use[1]):
                if repeat.steps[place.item].fixed:
                    original = block[place.item].outs[place.out]  # type: ignore[union-attr]
                    if original is not var:
                        self._name(original, var)
                elif var not in last:
                    self._name_row(self.stacks[k, place.item, place.out], place.block, var)

    def stack(self, slot: Slot) -> Atom:
        """The rows that *slot* steps through, as one array."""
        if isinstance(slot, VaryingConstant):
            return self.const(slot.values)
        assert isinstance(slot, Rows)
        if self._is_constant(slot):
            return self.const(np.stack([self.contents[atom] for atom in slot.atoms]))
        parts = self.parts[id(slot)]
        return concat(
            [self.rows(p) if isinstance(p, Column | Interleaved) else reshape(p, (1, *p.aval.shape)) for p in parts], 0
        )

    def _once(self, repeat: Repeat, j: int, step: Step) -> None:
        """Put a loop-invariant item before the loop, also where it is equal by chance to an earlier item of the block,
        which defines it."""
        item = self.items[repeat.start + j]
        if isinstance(item, Guard):
            self.guards[id(item)] = item
        elif item.outs[0] in self.given and item.outs[0] not in self.defined:
            self.defined.update(item.outs)
            self.out.append(item)


def fold_items(
    items: Sequence[Item], sites: Sequence[Site | None], roots: Sequence[Atom], const: MakeConst
) -> tuple[list[Node], list[Guard]]:
    """*items* with loops in place of repeats: nodes, and the guards that are left."""
    return Rewriter(items, find_repeats(items, sites), roots, const, {}, sites).run()
