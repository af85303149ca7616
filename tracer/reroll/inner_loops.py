"""Inner loops of differing lengths (``for j in range(i)``), before repeats are looked for.

The turns of such a loop are found wherever they stand, one or many in a row.  The longest row is proven as other
repeats are (``prove.py``), and its block becomes a *pattern*: a loop node that is told its number of turns, over
operands that are looked up in each row: what its block reads from outside, the initial values of carries, the first of
numbers and positions that grow evenly, or all of them as a table.  Every row is compared with the pattern, item by
item, and replaced by its node.  All nodes have one body and differ in their operands alone, so the turns of the loop
around them are alike: it is found next, here or by ``find.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from ..ir.aval import INT, Aval
from ..ir.equality import same_params
from ..ir.graph import Atom, Guard, Lit, Node, Var, building, by_value, strong
from ..ir.primitive import PRIMITIVES
from ..ir.site import Site, own_site
from ..ops.control import LOOP_OVER
from ..ops.elementwise import F, cast
from ..ops.shape import PAD, SLICE
from .find import item_marks, stretches
from .loop_body import Block, Lines, MakeConst, affine
from .prove import VARYING, first_items, prove
from .repeats import FEW_TRIPS, Carried, Invariant, Item, Key, Local, Repeat, Slot, Step, VaryingConstant
from .rewrite import fold_items
from .windows import Spots, flattened

MOST_ROUNDS = 16  # nesting depth, and loops side by side
MAX_AXES = 64

Rows = list[tuple[int, int]]  # (first item, turns) of each row


class UnlikeError(Exception):
    """A row is not the pattern's."""


def collapsed(
    items: Sequence[Item], sites: Sequence[Site | None], roots: Sequence[Atom], const: MakeConst
) -> tuple[list[Item], list[Site | None]] | None:
    """*items* and their *sites* with loop nodes for inner loops of differing lengths; None where there are none."""
    found = None
    for _ in range(MOST_ROUNDS):
        more = _once(items, sites, roots, const)
        if more is None:
            break
        items, sites = found = more
    return found


def _once(
    items: Sequence[Item], sites: Sequence[Site | None], roots: Sequence[Atom], const: MakeConst
) -> tuple[list[Item], list[Site | None]] | None:
    marks = item_marks(items, sites)
    runs = sorted(stretches(marks), key=lambda run: (run.period, run.start - run.end))
    tried: set[bytes] = set()
    recording: _Items | None = None
    for run in runs:
        word = marks[run.start : run.start + run.period]
        if word.tobytes() in tried or any(isinstance(x, Guard) for x in items[run.start : run.start + run.period]):
            continue
        tried.add(word.tobytes())
        rows = _rows_of(marks, word)
        if len(rows) < FEW_TRIPS or len({turns for _, turns in rows}) == 1:
            continue
        if recording is None:
            recording = _Items(items, roots)
        made = _Pattern(recording, rows, run.period, const).nodes()
        if made is not None:
            return _replaced(items, sites, rows, run.period, made)
    return None


def _rows_of(marks: np.ndarray, word: np.ndarray) -> Rows:
    """Where the items of *word* stand, and how many times in a row."""
    count = len(word)
    at = np.flatnonzero(marks[: len(marks) - count + 1] == word[0])
    for k in range(1, count):
        at = at[marks[at + k] == word[k]]
    rows: Rows = []
    end = 0
    for start in at.tolist():
        if start < end:
            continue
        if rows and start == end:
            rows[-1] = rows[-1][0], rows[-1][1] + 1
        else:
            rows.append((start, 1))
        end = start + count
    return rows


def _replaced(
    items: Sequence[Item], sites: Sequence[Site | None], rows: Rows, period: int, made: list[list[Node]]
) -> tuple[list[Item], list[Site | None]]:
    new: list[Item] = []
    at: list[Site | None] = []
    end = 0
    for (start, turns), nodes in zip(rows, made, strict=True):
        new += [*items[end:start], *nodes]
        at += [*sites[end:start], *[n.site for n in nodes]]
        end = start + period * turns
    return [*new, *items[end:]], [*at, *sites[end:]]


class _Items:
    """A recording, with the first item that defines and the last that reads each Var."""

    def __init__(self, items: Sequence[Item], roots: Sequence[Atom]):
        self.items, self.first = items, first_items(items)
        self.last: dict[Atom, int] = {}
        for k, item in enumerate(items):
            self.last.update(dict.fromkeys(item.inputs if isinstance(item, Node) else (item.atom,), k))
        self.last.update(dict.fromkeys(roots, len(items)))


class _Numbers(NamedTuple):
    """Numbers of a row: the operand and *slope* more from turn to turn; without a slope a table is the operand."""

    operand: Var
    slope: Any


class _PatternBlock(Block):
    """The block of a pattern, whose *numbers* are computed from operands; they are by id of a slot, or of starts."""

    numbers: dict[int, _Numbers]

    def _operand(self, slot: Slot) -> Atom:
        known = self.numbers.get(id(slot))
        return super()._operand(slot) if known is None else self._numbered(known)

    def _numbered(self, known: _Numbers) -> Atom:
        operand, slope = known
        if slope is None:
            return self.row(operand, lambda: operand)
        if slope == 0:
            return operand
        dtype = operand.aval.dtype
        with building(self.before):
            x: Atom = cast(self._number_of_step(), dtype)
            return F.add(x if slope == 1 else F.mul(x, Lit(slope, dtype)), operand)

    def _indexed(self, node: Node, step: Step, operands: list[Atom]) -> Atom:
        assert step.starts is not None
        spots = Spots.of(node, step.starts, operands[0].aval.shape)
        position = self._numbered(self.numbers[id(step.starts)])
        if node.prim is not SLICE:
            return spots.written(operands[0], operands[1], position, self.const)
        with building(self.out if isinstance(step.slots[0], Invariant) else self.items):
            flat = flattened(operands[0])
        return spots.read(flat, position, self.const)


class _Pattern:
    """The pattern of *rows* of a *recording*, whose blocks have *period* items."""

    def __init__(self, recording: _Items, rows: Rows, period: int, const: MakeConst):
        self.recording, self.rows, self.period, self.const = recording, rows, period, const
        self.longest = max(range(len(rows)), key=lambda r: rows[r][1])
        # by item of the block and row: the items of the turns
        self.columns: list[list[Sequence[Any]]] = [
            [recording.items[s + j : s + n * period : period] for s, n in rows] for j in range(period)
        ]
        self.operands: dict[Any, tuple[Var, list[Any]]] = {}  # what it stands for -> operand, and its value in each row
        self.numbers: dict[int, _Numbers] = {}

    def nodes(self) -> list[list[Node]] | None:
        """The nodes of each row; None where the rows are not alike."""
        start, turns = self.rows[self.longest]
        proven = prove(self.recording.items, self.recording.first, start, self.period, turns, MAX_AXES)
        if not isinstance(proven, Repeat) or proven.trips != turns:
            return None
        try:
            return self._nodes(proven.steps, turns)
        except UnlikeError:
            return None

    def _nodes(self, steps: list[Step], turns: int) -> list[list[Node]]:
        self.steps = steps
        new = [self._step(j, step) for j, step in enumerate(steps)]
        ends = {key: Var(self._outs(*key, self.longest)[-1].aval) for key in self._finals()}
        require(bool(ends))
        first = [column[self.longest][0] for column in self.columns]
        block = _PatternBlock(new, first, turns, _no_stack, self.const, fold_items)
        block.numbers = self.numbers
        out = Lines()
        with building(out):
            out.site_override = own_site(first[0].site)
            block.loop(out, [], dict(ends))
        count = self._operand(INT, [Lit(n, INT) for _, n in self.rows])
        for node in out.nodes:
            node.site = own_site(node.site)
            if node.prim is LOOP_OVER:
                node.inputs, node.params = (count, *node.inputs), {**node.params, "counted": True}
        return [self._row(r, out.nodes, ends) for r in range(len(self.rows))]

    def _row(self, r: int, pattern: Sequence[Node], ends: dict[Key, Var]) -> list[Node]:
        start, first = self.rows[r][0], self.recording.first
        names: dict[Atom, Atom] = {operand: values[r] for operand, values in self.operands.values()}
        defined: set[Var] = set()
        for key, end in ends.items():
            var = self._outs(*key, r)[-1]
            names[end] = Var(var.aval) if first[var] < start or var in defined else var
            defined.add(var)
        nodes = [node for step, column in zip(self.steps, self.columns, strict=True) if step.fixed
                 for node in (column[r][0], *self._again(column[r], r))]  # fmt: skip
        for n in pattern:
            inputs = tuple([names.get(a, a) for a in n.inputs])
            outs: Any = tuple([names.setdefault(o, Var(o.aval)) for o in n.outs])
            nodes.append(Node(n.prim, inputs, n.params, outs, n.site))
        return nodes

    def _again(self, column: Sequence[Node], r: int) -> Iterator[Node]:
        """Other names of the loop-invariant values in *column* that are read after row *r*."""
        start, turns = self.rows[r]
        for node in column[1:]:
            for value, var in zip(column[0].outs, node.outs, strict=True):
                if var is not value and self.recording.last.get(var, -1) >= start + turns * self.period:
                    yield Node(PRIMITIVES["alias"], (value,), {}, (var,), node.site)

    # ---- what the rows have in common ----------------------------------------------------------------------------

    def _outs(self, j: int, i: int, r: int) -> list[Var]:
        return [node.outs[i] for node in self.columns[j][r]]

    def _finals(self) -> list[Key]:
        """The values of the last turns that are read after a row.  Those of other turns must not be."""
        first, last, found = self.recording.first, self.recording.last, []
        for j, step in enumerate(self.steps):
            for i in range(0 if step.fixed else len(step.item.outs)):  # type: ignore[union-attr]
                read = False
                for r, (start, turns) in enumerate(self.rows):
                    end = start + turns * self.period
                    outside = [last.get(v, -1) >= end and first[v] >= start for v in self._outs(j, i, r)]
                    require(not any(outside[:-1]))
                    read |= outside[-1]
                if read:
                    found.append((j, i))
        return found

    def _step(self, j: int, step: Step) -> Step:
        """*step* over operands of the pattern."""
        pattern, varies = step.item, step.item.prim.name in VARYING  # type: ignore[union-attr]
        assert isinstance(pattern, Node)
        params = {k: v for k, v in pattern.params.items() if k != "start" or not varies}
        for r, column in enumerate(self.columns[j]):
            for node in column:
                require(len(node.inputs) == len(pattern.inputs))
                require(all(a.aval.like(b.aval) for a, b in zip(node.outs, pattern.outs, strict=True)))
                if step.fixed:
                    require(node.outs[0] is column[0].outs[0] or self._equal(node, column[0], j, r))
                elif node.params is not pattern.params:
                    require(same_params({k: v for k, v in node.params.items() if k in params}, params))
            if step.fixed:
                require(all(self._outside(a, r) or self._is_fixed(a, j, r) for a in column[0].inputs))
        if step.fixed:
            return step
        slots = [self._slot(slot, [[n.inputs[o] for n in column] for column in self.columns[j]])
                 for o, slot in enumerate(step.slots)]  # fmt: skip
        return Step(pattern, slots, self._starts(j, pattern) if varies else None)

    def _outside(self, atom: Atom, r: int) -> bool:
        return isinstance(atom, Lit) or self.recording.first.get(atom, -1) < self.rows[r][0]

    def _equal(self, node: Node, first: Node, before: int, r: int) -> bool:
        """Whether *node* does in another turn of row *r* what the loop-invariant *first* does."""
        fixed = [self.columns[j][r] for j in range(before) if self.steps[j].fixed]
        twins = {(a, b) for column in fixed for n in column for a, b in zip(n.outs, column[0].outs, strict=True)}
        return same_params(node.params, first.params) and all(
            by_value(a) == by_value(b) or (a, b) in twins for a, b in zip(node.inputs, first.inputs, strict=True)
        )

    def _is_fixed(self, atom: Atom, before: int, r: int) -> bool:
        return any(atom in self.columns[j][r][0].outs for j in range(before) if self.steps[j].fixed)

    def _operand(self, dtype: np.dtype, values: list[Any], shape: tuple[int, ...] = ()) -> Var:
        """The operand that has these *values* in the rows."""
        return self.operands.setdefault(tuple(map(by_value, values)), (Var(Aval(dtype, shape)), values))[0]

    def _local(self, slot: Local, rows: list[list[Atom]]) -> Local:
        """The item that *slot* means in all *rows*; in the longest others may be equal (a[i] and a[j] where i is j)."""
        mine = self._outs(*slot, self.longest)
        for j in range(slot.item, -1, -1):
            for i in range(len(self.steps[j].item.outs)):  # type: ignore[union-attr]
                if self._outs(j, i, self.longest)[0] is mine[0] and all(
                    all(map(is_, atoms, self._outs(j, i, r))) for r, atoms in enumerate(rows)
                ):
                    return Local(j, i)
        raise UnlikeError

    def _slot(self, slot: Slot, rows: list[list[Atom]]) -> Slot:
        """*slot* over operands; *rows*: what the items read in each turn of each row."""
        if isinstance(slot, Local):
            slot = self._local(slot, rows)
            if not self.steps[slot.item].fixed:
                return slot
            values: list[Atom] = [atoms[0] for atoms in rows]
            aval = values[self.longest].aval
            return Invariant(self._operand(aval.dtype, values, aval.shape))
        if isinstance(slot, Carried):
            require(slot.distance == 1 and not self.steps[slot.item].fixed)
            for r, atoms in enumerate(rows):
                require(all(map(is_, atoms[1:], self._outs(slot.item, slot.out, r))))
                require(self._outside(atoms[0], r) and atoms[0].aval.like(slot.inits[0].aval))
            aval = strong(slot.inits[0]).aval
            init = self._operand(aval.dtype, [strong(a[0]) for a in rows], aval.shape)
            return slot._replace(inits=(init,))
        if isinstance(slot, VaryingConstant):
            like = slot.like
            require(all(isinstance(a, Lit) and a.aval == like.aval and not a.structural for row in rows for a in row))
            new = slot._replace(values=slot.values)
            values_of = [np.array([a.value for a in row], slot.values.dtype) for row in rows]  # type: ignore[union-attr]
            self._number(new, values_of)
            return new
        require(isinstance(slot, Invariant))
        for r, atoms in enumerate(rows):
            require(self._outside(atoms[0], r) and all(by_value(a) == by_value(atoms[0]) for a in atoms))
        atom = slot.atom  # type: ignore[union-attr]
        if all(by_value(atoms[0]) == by_value(atom) for atoms in rows):
            return slot
        require(isinstance(atom, Var) or not atom.structural)
        require(all(type(atoms[0]) is type(atom) and atoms[0].aval.like(atom.aval) for atoms in rows))
        values = [atoms[0] for atoms in rows]
        return Invariant(self._operand(atom.aval.dtype, values, atom.aval.shape))

    def _starts(self, j: int, pattern: Node) -> np.ndarray | None:
        """The starts of a slice or an update in the longest row, where they differ in any."""
        rows = [np.array([n.params["start"] for n in column], np.int64) for column in self.columns[j]]
        if all((starts == rows[0][0]).all() for starts in rows):
            return None
        require(pattern.prim is not PAD)
        starts, whole = rows[self.longest], pattern.inputs[0].aval.shape
        self._number(starts, [Spots.of(pattern, row, whole).positions for row in rows])
        return starts

    def _number(self, key: Any, rows: list[np.ndarray]) -> None:
        """Have the numbers of *rows* computed from an operand, wherever the slot or the starts *key* ask for them."""
        dtype, line = rows[0].dtype, affine(rows[self.longest])
        lines = [] if line is None else [row[0] + line[0] * np.arange(len(row), dtype=dtype) for row in rows]
        if lines and all(a.astype(dtype).tobytes() == b.tobytes() for a, b in zip(lines, rows, strict=True)):
            firsts = [Lit(row[0], dtype) for row in rows]
            self.numbers[id(key)] = _Numbers(self._operand(dtype, firsts), line[0])  # type: ignore[index]
            return
        count = self.rows[self.longest][1]
        tables = [self.const(np.append(row, np.zeros(count - len(row), dtype))) for row in rows]
        self.numbers[id(key)] = _Numbers(self._operand(dtype, tables, (count,)), None)


def _no_stack(slot: Slot) -> Atom:
    raise AssertionError("patterns have no rows")


def require(held: bool) -> None:
    if not held:
        raise UnlikeError
