"""Repeats become loop nodes.

``roll`` is called when Python has returned: only then is it known which values of a loop are used after it.  What was
repeated keeps its names: a Var that is read later is defined by the loop (its value in the last step), or by a row of
the loop's stacked results; so nothing outside of the loop has to change.

Within a block nested repeats are found in the same way, before the block becomes the body of a loop.  A guard in a
block becomes a flag that is carried along, and one guard after the loop asks whether it has held in every step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .aval import Aval
from .fold_rows import Window, dynamic_rows, moved_back, rows_of, updated
from .ir import Atom, Builder, Graph, Guard, Lit, Node, Var, building, live_nodes, structural
from .ops.control import LOOP_OVER
from .ops.elementwise import F, cast
from .ops.shape import CONCAT, RESHAPE, concat, iota, reshape, take_slice, transpose, zeros
from .primitive import ELEMENTWISE, PRIMITIVES
from .recorder import Recorder
from .repeats import Carried, Found, Item, Local, Numbers, Repeat, Rows, Same, Slot, Step, find_repeats
from .site import Site

MAX_STACK = 64  # values that are stacked one by one, where a loop steps through them
BOOL = np.dtype(bool)
MakeConst = Callable[[np.ndarray], Var]


def roll(recorder: Recorder, roots: Sequence[Atom]) -> None:
    """Make loop nodes of what repeats in *recorder*, of which *roots* are still needed."""
    found = find_repeats(recorder.items, recorder.sites)
    recorder.unrolled += [r for r in found.refusals if r not in recorder.unrolled]
    if not found.repeats:
        return
    fold = _Fold(recorder.items, found, roots, recorder.const)
    nodes, guards = fold.run()
    recorder.replace(nodes, guards)
    for guard in fold.held:
        recorder.env[guard] = np.array(True)


class Place(NamedTuple):
    """Which block of which repeat defines a Var."""

    repeat: int
    block: int
    item: int
    out: int


class Column(NamedTuple):
    """Rows ``first``, ``first + stride``, ... of what one item defines in every block of a repeat."""

    repeat: int
    item: int
    out: int
    first: int
    stride: int
    count: int


class _Lines(Builder):
    """Nodes that belong to a line of the user's."""

    here: Site | None = None

    def site(self) -> Site | None:
        return self.here


class _Fold:
    """One level: the items of a recording, or of the body of a loop."""

    def __init__(self, items: Sequence[Item], found: Found, roots: Sequence[Atom], const: MakeConst):
        self.items, self.first, self.roots, self.const = items, found.first, roots, const
        self.repeats = found.repeats
        self.out = _Lines()
        self.guards: dict[int, Guard] = {}
        self.held: list[Var] = []
        self.stacks: dict[tuple[int, int, int], Atom] = {}  # (repeat, item, out): its values in all blocks
        self.columns: dict[int, Column] = {}  # id(slot of rows): what it is
        self.joined: dict[int, list[Atom | Column]] = {}  # id(concat node): its operands

    def run(self) -> tuple[list[Node], list[Guard]]:
        self._settle_rows()
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
        at = self.first.get(var) if isinstance(var, Var) else None
        if at is None:
            return None
        k = bisect_right(self.starts, at) - 1
        if k < 0 or at >= self.repeats[k].end:
            return None
        repeat = self.repeats[k]
        block, item = divmod(at - repeat.start, repeat.period)
        return Place(k, block, item, self.items[at].outs.index(var))  # type: ignore[union-attr]

    def _values(self, k: int, item: int, out: int) -> list[Var]:
        """What *item* defines in each block."""
        r = self.repeats[k]
        return [node.outs[out] for node in self.items[r.start + item : r.end : r.period]]  # type: ignore[union-attr]

    def _column(self, atoms: Sequence[Atom]) -> Column | None:
        """*atoms* as rows of what one item defines."""
        first = self.place(atoms[0])
        second = self.place(atoms[1]) if len(atoms) > 1 else None
        if first is None or second is None or first[0] != second[0] or first[2:] != second[2:]:
            return None
        k, start, item, out = first
        if self.repeats[k].steps[item].fixed:
            return None
        stride = second.block - start
        values = self._values(k, item, out)
        last = start + stride * (len(atoms) - 1)
        if not stride or not 0 <= last < len(values):
            return None
        if any(values[start + stride * n] is not a for n, a in enumerate(atoms)):
            return None
        return Column(k, item, out, start, stride, len(atoms))

    def _settle_rows(self) -> None:
        """Find out what the rows are that repeats step through; a repeat over too many loose values is none."""
        kept: list[Repeat] = []
        every, self.repeats = self.repeats, kept
        self.starts: list[int] = []
        for repeat in every:
            columns = {}
            for step in repeat.steps:
                for slot in step.slots:
                    if isinstance(slot, Rows):
                        found = self._column(slot.atoms)
                        if found is not None:
                            columns[id(slot)] = found
                        elif len(slot.atoms) > MAX_STACK:
                            break
                else:
                    continue
                break
            else:
                self.columns.update(columns)
                kept.append(repeat)
                self.starts.append(repeat.start)

    def _find_uses(self) -> None:
        used: set[Atom] = set(self.roots)
        columns = list(self.columns.values())
        at = 0
        for repeat in [*self.repeats, None]:
            for item in self.items[at : repeat.start if repeat else len(self.items)]:
                if isinstance(item, Guard):
                    used.add(item.atom)
                elif item.prim is CONCAT and len(item.inputs) > 2:
                    parts = self.joined[id(item)] = self._parts(item.inputs)
                    columns += [p for p in parts if isinstance(p, Column)]
                    used.update(p for p in parts if not isinstance(p, Column))
                else:
                    used.update(item.inputs)
            if repeat is not None:
                at = repeat.end
                for step in repeat.steps:
                    for slot in step.slots:
                        if isinstance(slot, Same):
                            used.add(slot.atom)
                        elif isinstance(slot, Carried):
                            used.update(slot.inits)
                        elif isinstance(slot, Rows) and id(slot) not in self.columns:
                            used.update(slot.atoms)
        self.stacked: set[tuple[int, int, int]] = {(c.repeat, c.item, c.out) for c in columns}
        self.used: list[dict[Var, Place]] = [{} for _ in self.repeats]
        for atom in used:
            place = self.place(atom)
            if place is not None:
                assert isinstance(atom, Var)
                self.used[place.repeat][atom] = place
                fixed = self.repeats[place.repeat].steps[place.item].fixed
                if place.block < self.repeats[place.repeat].trips - 1 and not fixed:
                    self.stacked.add((place.repeat, place.item, place.out))

    def _parts(self, atoms: Sequence[Atom]) -> list[Atom | Column]:
        """*atoms*, where many in a row are rows of one item as one column."""
        parts: list[Atom | Column] = []
        k = 0
        while k < len(atoms):
            here = self.place(atoms[k])
            if here is None:
                parts.append(atoms[k])
                k += 1
                continue
            end = k + 1
            while end < len(atoms):
                there = self.place(atoms[end])
                if there is None or there != (here.repeat, here.block + end - k, here.item, here.out):
                    break
                end += 1
            column = self._column(atoms[k:end]) if end - k > 2 else None
            parts += atoms[k:end] if column is None else [column]
            k = end
        return parts

    def rows(self, column: Column) -> Atom:
        """The values of *column*, stacked."""
        x = self.stacks[column[:3]]
        rest = x.aval.shape[1:]
        return take_slice(x, (column.first, *[0] * len(rest)), (column.stride, *[1] * len(rest)), (column.count, *rest))

    # ---- what is not repeated ------------------------------------------------------------------------------------

    def _plain(self, start: int, end: int) -> None:
        for at in range(start, end):
            item = self.items[at]
            if isinstance(item, Guard):
                self.guards[id(item)] = item
            elif self.first[item.outs[0]] == at:
                parts = self.joined.get(id(item))
                if parts is None or all(not isinstance(p, Column) for p in parts):
                    self.out.append(item)
                else:
                    self._join(item, parts)

    def _join(self, node: Node, parts: Sequence[Atom | Column]) -> None:
        axis, self.out.here = node.params["axis"], node.site
        with building(self.out):
            joined: list[Atom] = []
            for part in parts:
                if isinstance(part, Column):
                    x = self.rows(part)  # [count, *shape]
                    n = x.aval.ndim
                    x = transpose(x, (*range(1, axis + 1), 0, *range(axis + 1, n)))
                    shape = list(x.aval.shape)
                    shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
                    part = reshape(x, tuple(shape))
                joined.append(part)
            self._name(concat(joined, axis), node.out)

    def _name(self, atom: Atom, var: Var) -> None:
        """Define *var* to be *atom*."""
        self.out.append(Node(PRIMITIVES["alias"], (atom,), {}, (var,), self.out.here))

    # ---- a loop --------------------------------------------------------------------------------------------------

    def _loop(self, k: int, repeat: Repeat) -> None:
        for j, step in enumerate(repeat.steps):
            if step.fixed:
                self._once(repeat, j, step)
        wanted = [(j, i) for r, j, i in sorted(self.stacked) if r == k]
        body = _Body(self, k, repeat)
        with building(self.out):
            self.out.here = next(s.item.site for s in repeat.steps)
            if not body.mapped(wanted):
                body.loop(wanted)
            for var, place in self.used[k].items():
                step = repeat.steps[place.item]
                if step.fixed:
                    original = self.items[repeat.start + place.item].outs[place.out]  # type: ignore[union-attr]
                    if original is not var:
                        self._name(original, var)
                elif (k, place.item, place.out) in self.stacks and var not in body.defined:
                    x, rest = self.stacks[k, place.item, place.out], var.aval.shape
                    row = take_slice(x, (place.block, *[0] * len(rest)), (1,) * (len(rest) + 1), (1, *rest))
                    self.out.append(Node(RESHAPE, (row,), {"shape": rest}, (var,), self.out.here))

    def _once(self, repeat: Repeat, j: int, step: Step) -> None:
        """What is the same in every block, before the loop."""
        at = repeat.start + j
        item = self.items[at]
        if isinstance(item, Guard):
            self.guards[id(item)] = item
        elif self.first[item.outs[0]] == at:
            self.out.append(item)


class _Body:
    """The block of a repeat as the body of a loop, or, where nothing is carried, as operations on all rows at once."""

    def __init__(self, fold: _Fold, k: int, repeat: Repeat):
        self.fold, self.k, self.repeat = fold, k, repeat
        self.defined: set[Var] = set()
        self.length = repeat.trips

    # ---- rows at once --------------------------------------------------------------------------------------------

    def mapped(self, wanted: Sequence[tuple[int, int]]) -> bool:
        """Where blocks do not depend on each other and are elementwise: whole arrays in place of a loop."""
        fold, n = self.fold, self.length
        for step in self.repeat.steps:
            item = step.item
            if step.fixed:
                continue
            if isinstance(item, Guard):
                return False
            if item.prim.name == "slice" and step.starts is not None and isinstance(step.slots[0], Same):
                continue
            if step.starts is not None or (
                item.prim.kind != ELEMENTWISE and item.prim.name not in ("reshape", "broadcast", "alias")
            ):
                return False
            if any(isinstance(s, Carried) for s in step.slots):
                return False
        values: dict[tuple[int, int], Atom] = {}
        for j, step in enumerate(self.repeat.steps):
            node = step.item
            assert isinstance(node, Node)
            if step.fixed:
                continue
            fold.out.here = node.site
            if step.starts is not None:
                values[j, 0] = self._all_rows(node, step)
                continue
            shape, params = (n, *node.out.aval.shape), dict(node.params)
            operands = []
            for slot in step.slots:
                x, stacked = self._whole(slot, values)
                if node.prim.kind == ELEMENTWISE and x.aval.shape and x.aval.shape != shape:
                    dims = tuple(range(len(x.aval.shape))) if stacked else tuple(range(1, len(shape)))
                    x = fold.out.emit(PRIMITIVES["broadcast"], (x,), {"shape": shape, "dims": dims})[0]
                operands.append(x)
            if "shape" in params:
                params["shape"] = shape
            if "dims" in params:
                params["dims"] = (0, *[d + 1 for d in params["dims"]])
            values[j, 0] = fold.out.emit(node.prim, tuple(operands), params)[0]
        for (j, i), x in values.items():
            fold.stacks[self.k, j, i] = x
        return True

    def _all_rows(self, node: Node, step: Step) -> Atom:
        """The slices of all blocks, stacked."""
        assert step.starts is not None
        window = Window.of(node, step.starts)
        x = rows_of(step.slots[0].atom, window, self.fold.const)  # type: ignore[union-attr]
        if window.count == 1:
            x = reshape(x, (self.length, 1, *x.aval.shape[1:]))
        return moved_back(x, window, 1)

    def _whole(self, slot: Slot, values: dict[tuple[int, int], Atom]) -> tuple[Atom, bool]:
        """(an operand for all blocks, does it have rows)"""
        if isinstance(slot, Local):
            found = values.get((slot.item, slot.out))
            return (found, True) if found is not None else (self._fixed(slot), False)
        if isinstance(slot, Same):
            return slot.atom, False
        return self._stack(slot), True

    def _fixed(self, slot: Local | Carried) -> Var:
        return self.fold.items[self.repeat.start + slot.item].outs[slot.out]  # type: ignore[union-attr]

    def _stack(self, slot: Slot) -> Atom:
        """The rows that *slot* steps through, as one array."""
        fold = self.fold
        if isinstance(slot, Numbers):
            return fold.const(slot.values)
        assert isinstance(slot, Rows)
        column = fold.columns.get(id(slot))
        if column is not None:
            return fold.rows(column)
        return concat([reshape(a, (1, *a.aval.shape)) for a in slot.atoms], 0)

    # ---- step by step --------------------------------------------------------------------------------------------

    def loop(self, wanted: Sequence[tuple[int, int]]) -> None:
        """Append the loop node, which defines what is used of the last block, and the stacks of *wanted*."""
        self.before, self.items = _Lines(), _Lines()  # what depends on the number of the step alone; all else
        self.xs: dict[Any, tuple[Var, Atom]] = {}
        self.carries: dict[Any, tuple[Var, Atom, Any]] = {}  # what it is: (incoming, initial, what it becomes)
        self.values: dict[tuple[int, int], Atom] = {}
        sequence: list[Item] = []
        for j, step in enumerate(self.repeat.steps):
            self.items = _Lines()
            self.before.here = self.items.here = step.item.site
            if not step.fixed:
                self._step(j, step)
                sequence += self.items.nodes
                if isinstance(step.item, Guard):
                    sequence += self.asked
        finals = {
            (p.item, p.out): var for var, p in self.fold.used[self.k].items()
            if p.block == self.length - 1 and not self.repeat.steps[p.item].fixed
        }  # fmt: skip
        for key in finals:
            if not any(end == key for _, _, end in self.carries.values()):
                aval = self.values[key].aval
                init = zeros(aval.shape, aval.dtype) if aval.shape else structural(0, aval.dtype)
                self.carries["last", key] = Var(Aval(aval.dtype, aval.shape)), init, key
        carries = list(self.carries.values())
        ends = [self.values[end] if isinstance(end, tuple) else end for _, _, end in carries]
        stacked = [self.values[key] for key in wanted]
        outputs = [*ends, *stacked]
        every: list[Item] = [*self.before.nodes, *sequence]
        sites = [item.site for item in every]
        found = find_repeats(every, sites)
        inner = _Fold(every, found, [*outputs, *(i.atom for i in every if isinstance(i, Guard))], self.fold.const)
        nodes, guards = inner.run()
        incoming = [c[0] for c in carries]
        inits = [c[1] for c in carries]
        if guards:
            with building(_Lines()) as last:
                held = Var(Aval(BOOL, ()))
                end: Atom = held
                for guard in guards:
                    last.here = guard.site  # type: ignore[attr-defined]
                    end = F.logical_and(end, guard.atom)
            nodes += last.nodes
            incoming.append(held)
            inits.append(structural(True, BOOL))
            outputs.insert(len(ends), end)
        nodes, outputs = deduplicated(nodes, outputs)
        outs: list[Var] = []
        for init, (_, _, end_key) in zip(inits, carries, strict=False):
            var = finals.pop(end_key, None) if isinstance(end_key, tuple) else None
            outs.append(Var(Aval(init.aval.dtype, init.aval.shape)) if var is None else var)
        self.defined.update(outs)
        if guards:
            flag = Var(Aval(BOOL, ()))
            outs.append(flag)
            self.fold.held.append(flag)
            merged = Guard(flag, np.bool_(True), "bool", guards[0].site)
            self.fold.guards[id(merged)] = merged
        for (j, i), row in zip(wanted, stacked, strict=True):
            stack = Var(Aval(row.aval.dtype, (self.length, *row.aval.shape)))
            self.fold.stacks[self.k, j, i] = stack
            outs.append(stack)
        self._close(nodes, outputs, incoming, inits, outs)

    def _close(self, nodes: list[Node], outputs: list[Atom], incoming: list[Var], inits: list[Atom], outs: list[Var]):
        """The node itself, without carries that nothing needs."""
        count = len(incoming)
        result = self.fold.out
        needed = {k for k, out in enumerate(outs) if k >= count or self._kept(out)}
        while True:
            live = live_nodes(nodes, [outputs[k] for k in sorted(needed)])
            read = {a for n in live for a in n.inputs} | {outputs[k] for k in needed}
            more = {k for k, v in enumerate(incoming) if v in read} - needed
            if not more:
                break
            needed |= more
        kept = sorted(needed)
        xs = [(row, x) for row, x in self.xs.values() if row in read]
        own = {*incoming, *(row for row, _ in xs), *(out for n in live for out in n.outs)}
        inside: dict[Var, Var] = {}

        def renamed(atom: Atom) -> Atom:
            if isinstance(atom, Lit) or atom in own:
                return atom
            return inside.setdefault(atom, Var(Aval(atom.aval.dtype, atom.aval.shape)))

        live = [Node(n.prim, tuple([renamed(a) for a in n.inputs]), n.params, n.outs, n.site) for n in live]
        results = [renamed(outputs[k]) for k in kept]
        carried = [k for k in kept if k < count]
        body = Graph([*inside.values(), *[incoming[k] for k in carried], *[row for row, _ in xs]], live, results)
        params = {
            "body": body, "consts": len(inside), "carries": len(carried), "length": self.length, "reverse": False,
        }  # fmt: skip
        operands = (*inside, *[inits[k] for k in carried], *[x for _, x in xs])
        result.append(Node(LOOP_OVER, operands, params, tuple([outs[k] for k in kept]), result.here))

    def _kept(self, out: Var) -> bool:
        return out in self.fold.used[self.k] or out in self.fold.held

    # ---- one item ------------------------------------------------------------------------------------------------

    def _step(self, j: int, step: Step) -> None:
        item = step.item
        if isinstance(item, Guard):
            self.asked = self._asked(item, step)
            return
        with building(self.items):
            operands = [self._operand(slot) for slot in step.slots]
            if step.starts is not None:
                self.values[j, 0] = self._indexed(item, step, operands)
                return
        outs = tuple([Var(Aval(o.aval.dtype, o.aval.shape)) for o in item.outs])
        self.items.append(Node(item.prim, tuple(operands), item.params, outs, item.site))
        self.values.update({(j, i): out for i, out in enumerate(outs)})

    def _operand(self, slot: Slot) -> Atom:
        if isinstance(slot, Local):
            found = self.values.get((slot.item, slot.out))
            return self._fixed(slot) if found is None else found
        if isinstance(slot, Same):
            return slot.atom
        if isinstance(slot, Carried):
            return self._carried(slot)
        if isinstance(slot, Numbers):
            return self.number(slot.values)
        return self.row(id(slot), lambda: self._stack(slot))

    def _carried(self, slot: Carried) -> Var:
        init = slot.inits[0]
        key = (slot.item, slot.out, slot.distance, _identity(init), *map(_identity, slot.inits[1:]))
        found = self.carries.get(key)
        if found is not None:
            return found[0]
        incoming = Var(Aval(init.aval.dtype, init.aval.shape))
        if slot.distance == 1:
            end: Any = (slot.item, slot.out)
            if self.repeat.steps[slot.item].fixed:
                end = self._fixed(slot)
        else:
            end = self._carried(Carried(slot.item, slot.out, 1, slot.inits[1:]))
        self.carries[key] = incoming, _strong(init), end
        return incoming

    def row(self, key: Any, make: Callable[[], Atom]) -> Var:
        """This step's row of what *make* gives."""
        found = self.xs.get(key)
        if found is None:
            with building(self.fold.out):
                x = make()
            found = self.xs[key] = Var(Aval(x.aval.dtype, x.aval.shape[1:])), x
        return found[0]

    def number(self, values: np.ndarray) -> Atom:
        """This step's entry of *values*: reckoned from the number of the step where that is exact."""
        line = affine(values)
        if line is None:
            return self.row(("numbers", values.dtype, values.tobytes()), lambda: self.fold.const(values))
        slope, offset = line
        with building(self.before):
            x: Atom = cast(self.row("step", lambda: iota(self.length)), values.dtype)
            x = F.mul(x, Lit(slope, values.dtype)) if slope != 1 else x
            return F.add(x, Lit(offset, values.dtype)) if offset else x

    def _asked(self, guard: Guard, step: Step) -> list[Item]:
        """A guard on a bool, for what was *expected* in every block."""
        assert step.expected is not None
        with building(self.items):
            atom = self._operand(step.slots[0])
            dtype, expected = atom.aval.dtype, step.expected
            if guard.kind == "bool" and dtype.kind != "b":
                atom, expected, dtype = F.ne(atom, structural(0, dtype)), expected != 0, BOOL
            elif dtype.kind == "f":
                atom, expected = F.trunc(atom), np.trunc(expected)
            if (expected == expected[0]).all():
                if dtype.kind == "b":
                    held = atom if expected[0] else F.logical_not(atom)
                else:
                    held = F.eq(atom, Lit(expected[0], dtype))
            else:
                held = F.eq(atom, self.number(expected.astype(dtype)))
        return [Guard(held, np.bool_(True), "bool", guard.site)]

    def _indexed(self, node: Node, step: Step, operands: list[Atom]) -> Atom:
        """A slice, or an update, at a start that differs from step to step."""
        assert step.starts is not None
        window = Window.of(node, step.starts)
        if node.prim.name == "update":
            return updated(operands[0], operands[1], window, self.number(window.positions))
        slot = step.slots[0]
        if isinstance(slot, Same):
            key = (slot.atom, *window.key)
            row = self.row(key, lambda: rows_of(slot.atom, window, self.fold.const))
            if window.count == 1:
                row = reshape(row, (1, *row.aval.shape))
            return moved_back(row, window)
        return moved_back(dynamic_rows(operands[0], window, self.number(window.positions)), window)


def _identity(atom: Atom) -> Any:
    return (atom.aval.dtype, atom.value.tobytes(), atom.structural) if isinstance(atom, Lit) else atom


def _strong(atom: Atom) -> Atom:
    return Lit(atom.value, atom.aval.dtype, structural=atom.structural) if isinstance(atom, Lit) else atom


def affine(values: np.ndarray) -> tuple[Any, Any] | None:
    """(a, b) where *values* are a * k + b exactly, for whole numbers a and b."""
    if values.dtype.kind not in "if" or len(values) < 2 or not np.isfinite(values).all():
        return None
    slope, offset = values[1] - values[0], values[0]
    if slope != np.trunc(slope) or offset != np.trunc(offset) or max(abs(values[-1]), abs(offset)) >= 2**31:
        return None
    line = (offset + slope * np.arange(len(values), dtype=values.dtype)).astype(values.dtype)
    return (slope, offset) if line.tobytes() == values.tobytes() else None


def deduplicated(nodes: Sequence[Node], outputs: Sequence[Atom]) -> tuple[list[Node], list[Atom]]:
    """*nodes* with equal ones made one."""
    seen: dict[Any, Node] = {}
    renamed: dict[Atom, Atom] = {}
    kept = []
    for node in nodes:
        inputs = tuple([renamed.get(a, a) for a in node.inputs])
        key = (node.prim, tuple(map(_identity, inputs)), tuple(node.params.values()))
        known = seen.get(key)
        if known is not None:
            renamed.update(zip(node.outs, known.outs, strict=True))
            continue
        moved = seen[key] = Node(node.prim, inputs, node.params, node.outs, node.site)
        kept.append(moved)
    return kept, [renamed.get(a, a) for a in outputs]


__all__ = ["roll"]
