"""One block of a repeat as the body of a loop node.

The body is written from the block's steps: the kind of its slot decides whether an operand becomes a carry, a row, a
number computed from the step's own, or a constant.  Where no loop is needed, the blocks become operations on all rows
at once (``vectorize.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.aval import BOOL, FLOAT_KINDS, HALF, Aval
from ..ir.graph import (
    Atom,
    Builder,
    Guard,
    Lit,
    Node,
    Var,
    building,
    by_value,
    live_nodes,
    read_vars,
    strong,
    structural,
)
from ..ir.primitive import PRIMITIVES
from ..ir.site import Site, own_site
from ..ops.closure_conversion import closed, deduplicated, needed_carries
from ..ops.control import LOOP_OVER
from ..ops.elementwise import F, cast
from ..ops.shape import PAD, RESHAPE, SLICE, iota, reshape, zeros
from .repeats import Carried, Invariant, Item, Key, Local, Slot, Step, VaryingConstant
from .vectorize import mapped
from .windows import Spots, Window, dynamic_rows, flattened, moved_back, rows_of, updated

MakeConst = Callable[[np.ndarray], Var]
Nested = Callable[[Sequence[Item], Sequence[Site | None], Sequence[Atom], MakeConst], tuple[list[Node], list[Guard]]]


class Lines(Builder):
    """Nodes that belong to a given line."""

    def site(self) -> Site | None:
        return self.site_override


class Made(NamedTuple):
    """A loop node: stacked values by item, the flag that its guards have held, the line of the first guard; or, where
    it is *mapped*, whole arrays in place of a loop."""

    stacks: dict[Key, Atom]
    held: Var | None
    asked: Site | None
    mapped: bool = False


class Block:
    """*steps* as a loop of *length* trips.  *block* is the first block; *stack* gives the rows that a slot steps
    through as one array, *nested* folds repeats within a block."""

    def __init__(
        self, steps: Sequence[Step], block: Sequence[Item], length: int, stack: Callable[[Slot], Atom],
        const: MakeConst, nested: Nested, sites: Sequence[Site | None],
    ):  # fmt: skip
        self.steps, self.block, self.length = steps, block, length
        self.sites = sites  # of the items: of equal ones the first has made the node
        self.stack, self.const, self.nested = stack, const, nested

    def make(self, out: Builder, wanted: Sequence[Key], finals: dict[Key, Var]) -> Made:
        """Append nodes for all blocks to *out*.  They define *finals*, values of the last block, unless it is mapped;
        and stacks of *wanted*."""
        stacks = mapped(out, self.steps, self.block, self.length, self.stack, self.const)
        return self.loop(out, wanted, finals) if stacks is None else Made(stacks, None, None, True)

    # ---- step by step --------------------------------------------------------------------------------------------

    def loop(self, out: Builder, wanted: Sequence[Key], finals: dict[Key, Var]) -> Made:
        """Append the loop node to *out*.  It defines *finals*, values of the last block, and stacks of *wanted*."""
        self.out = out
        self.before, self.items = Lines(), Lines()  # nodes that depend on the number of the step alone; all others
        self.xs: dict[Any, tuple[Var, Atom]] = {}
        self.carries: dict[Any, tuple[Var, Atom, Any]] = {}  # its kind and place -> (incoming, initial, outgoing)
        self.values: dict[tuple[int, int], Atom] = {}
        sequence: list[Item] = []
        for j, step in enumerate(self.steps):
            self.items = Lines()
            self.before.site_override = self.items.site_override = self.sites[j]
            if not step.fixed:
                self._step(j, step)
                sequence += self.items.nodes
                if isinstance(step.item, Guard):
                    sequence += self.asked
        finals = dict(sorted(finals.items()))
        kept = set(finals.values())
        for key in finals:
            if not any(end == key for _, _, end in self.carries.values()):
                aval = self.values[key].aval
                self.carries["last", key] = (
                    Var(Aval(aval.dtype, aval.shape)),
                    self._zeros(aval),
                    key,
                )
        carries = list(self.carries.values())
        ends = [self.values[end] if isinstance(end, tuple) else end for _, _, end in carries]
        stacked = [self.values[key] for key in wanted]
        outputs = [*ends, *stacked]
        every: list[Item] = [*self.before.nodes, *sequence]
        sites = [item.site for item in every]
        asked = [i.atom for i in every if isinstance(i, Guard)]
        nodes, guards = self.nested(every, sites, [*outputs, *asked], self.const)
        incoming = [c[0] for c in carries]
        inits = [c[1] for c in carries]
        if guards:
            with building(Lines()) as last:
                flag = Var(Aval(BOOL, ()))
                end: Atom = flag
                for guard in guards:
                    last.site_override = guard.site  # type: ignore[attr-defined]
                    end = F.logical_and(end, guard.atom)
            nodes += last.nodes
            incoming.append(flag)
            inits.append(structural(True, BOOL))
            outputs.insert(len(ends), end)
        nodes, outputs = deduplicated(nodes, outputs)
        outs: list[Var] = []
        for init, (_, _, end_key) in zip(inits, carries, strict=False):
            var = finals.pop(end_key, None) if isinstance(end_key, tuple) else None
            outs.append(Var(Aval(init.aval.dtype, init.aval.shape)) if var is None else var)
        held: Var | None = None
        if guards:
            held = Var(Aval(BOOL, ()))
            outs.append(held)
            kept.add(held)
        stacks: dict[Key, Atom] = {}
        for key, row in zip(wanted, stacked, strict=True):
            stacks[key] = stack = Var(Aval(row.aval.dtype, (self.length, *row.aval.shape)))
            outs.append(stack)
            kept.add(stack)
        self._close(nodes, outputs, incoming, inits, outs, kept)
        return Made(stacks, held, guards[0].site if guards else None)

    def _zeros(self, aval: Aval) -> Atom:
        """The initial value of a carry of which only the last value is read.  The node is not hash-consed: it goes if
        the carry does, and the order of the others must not depend on it."""
        zero = structural(0, aval.dtype)
        if not aval.shape:
            return zero
        filled = Var(Aval(aval.dtype, aval.shape))
        params, site = {"shape": aval.shape, "dims": ()}, own_site(self.out.site_override)
        self.out.append(Node(PRIMITIVES["broadcast"], (zero,), params, (filled,), site))
        return filled

    def _close(
        self, nodes: list[Node], outputs: list[Atom], incoming: list[Var], inits: list[Atom], outs: list[Var],
        wanted: set[Var],
    ) -> None:  # fmt: skip
        """The loop node, without dead carries."""
        count = len(incoming)

        def results(carried: Iterable[int]) -> list[Atom]:
            return [*[outputs[k] for k in carried], *outputs[count:]]

        def read_for(carried: Iterable[int]) -> set[Var]:
            return read_vars(live_nodes(nodes, results(carried)), results(carried))

        carried, read = needed_carries(incoming, [k for k in range(count) if outs[k] in wanted], read_for)
        after: list[Node] = []
        incoming, inits, outs = list(incoming), list(inits), list(outs)
        for k in carried:
            found = in_its_shape(live_nodes(nodes, results(carried)), outputs, incoming[k], k)
            if found is not None:
                nodes, outputs, incoming[k] = found
                with building(self.out):
                    inits[k] = reshape(inits[k], incoming[k].shape)
                whole, outs[k] = outs[k], Var(incoming[k].aval)
                after.append(Node(RESHAPE, (outs[k],), {"shape": whole.shape}, (whole,), self.out.site_override))
        xs = [(row, x) for row, x in self.xs.values() if row in read]
        inputs = [*[incoming[k] for k in carried], *[row for row, _ in xs]]
        body, consts = closed(live_nodes(nodes, results(carried)), results(carried), inputs)
        params: dict[str, Any] = {
            "body": body, "consts": len(consts), "carries": len(carried), "length": self.length, "reverse": False,
        }  # fmt: skip
        defined = [*[outs[k] for k in carried], *outs[count:]]
        operands = (*consts, *[inits[k] for k in carried], *[x for _, x in xs])
        for node in (Node(LOOP_OVER, operands, params, tuple(defined), self.out.site_override), *after):
            self.out.append(node)

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
        self.items.append(Node(item.prim, tuple(operands), item.params, outs, self.sites[j]))
        self.values.update({(j, i): out for i, out in enumerate(outs)})

    def _fixed(self, slot: Local | Carried) -> Var:
        """The loop-invariant value of *slot*, from the first block."""
        return self.block[slot.item].outs[slot.out]  # type: ignore[union-attr]

    def _operand(self, slot: Slot) -> Atom:
        if isinstance(slot, Local):
            found = self.values.get((slot.item, slot.out))
            return self._fixed(slot) if found is None else found
        if isinstance(slot, Invariant):
            return slot.atom
        if isinstance(slot, Carried):
            return self._carried(slot)
        if isinstance(slot, VaryingConstant):
            return self.number(slot.values)
        return self.row(id(slot), lambda: self.stack(slot))

    def _carried(self, slot: Carried) -> Var:
        init = slot.inits[0]
        key = (slot.item, slot.out, slot.distance, by_value(init), *map(by_value, slot.inits[1:]))
        found = self.carries.get(key)
        if found is not None:
            return found[0]
        incoming = Var(Aval(init.aval.dtype, init.aval.shape))
        if slot.distance == 1:
            end: Any = (slot.item, slot.out)
            if self.steps[slot.item].fixed:
                end = self._fixed(slot)
        else:
            end = self._carried(Carried(slot.item, slot.out, slot.distance - 1, slot.inits[1:]))
        self.carries[key] = incoming, strong(init), end
        return incoming

    def row(self, key: Any, make: Callable[[], Atom]) -> Var:
        """This step's row of the array that *make* gives."""
        found = self.xs.get(key)
        if found is None:
            with building(self.out):
                x = make()
            found = self.xs[key] = Var(Aval(x.aval.dtype, x.aval.shape[1:])), x
        return found[0]

    def number(self, values: np.ndarray) -> Atom:
        """This step's entry of *values*: computed from the number of the step where that is exact."""
        line = affine(values)
        if line is None:
            return self.row(("numbers", values.dtype, values.tobytes()), lambda: self.const(values))
        slope, offset = line
        with building(self.before):
            x: Atom = cast(self._number_of_step(), values.dtype)
            x = F.mul(x, Lit(slope, values.dtype)) if slope != 1 else x
            return F.add(x, Lit(offset, values.dtype)) if offset else x

    def _number_of_step(self) -> Var:
        return self.row("step", lambda: iota(self.length))

    def _asked(self, guard: Guard, step: Step) -> list[Item]:
        """A guard on a bool, for the values *expected* in each block."""
        assert step.expected is not None
        with building(self.items):
            atom = self._operand(step.slots[0])
            dtype, expected = atom.aval.dtype, step.expected
            if guard.kind == "bool" and dtype.kind != "b":
                atom, expected, dtype = F.ne(atom, structural(0, dtype)), expected != 0, BOOL
            elif dtype.kind in FLOAT_KINDS:
                atom, expected = F.trunc(atom), np.trunc(expected)
            if (expected == expected[0]).all():
                if dtype.kind == "b":
                    held = atom if expected[0] else F.logical_not(atom)
                else:
                    held = F.eq(atom, Lit(expected[0], dtype))
            else:
                held = F.eq(atom, self.number(expected.astype(dtype)))
        return [Guard(held, np.bool_(True), "bool", guard.site, said=guard.said)]

    def _indexed(self, node: Node, step: Step, operands: list[Atom]) -> Atom:
        """A slice, an update or a pad, at a start that differs from step to step."""
        assert step.starts is not None
        if node.prim is PAD:
            operands = [zeros(node.params["shape"], node.out.aval.dtype), *operands]
        whole, slot, window = operands[0].aval.shape, step.slots[0], Window.of(node, step.starts)
        if window is None or not (window.whole_rows(whole) or (node.prim is SLICE and isinstance(slot, Invariant))):
            spots = Spots.of(node, step.starts, whole)
            position = self.number(spots.positions)
            if node.prim is not SLICE:
                return spots.written(operands[0], operands[1], position, self.const)
            with building(self.out if isinstance(slot, Invariant) else self.items):
                flat = flattened(operands[0])
            return spots.read(flat, position, self.const)
        if node.prim is not SLICE:
            return updated(operands[0], operands[1], window, self.number(window.positions))
        if isinstance(slot, Invariant):
            key = (slot.atom, *window.key)
            row: Atom = self.row(key, lambda: rows_of(slot.atom, window, self.const))
            if window.count == 1:
                row = reshape(row, (1, *row.aval.shape))
            return moved_back(row, window)
        return moved_back(dynamic_rows(operands[0], window, self.number(window.positions)), window)


def in_its_shape(
    nodes: Sequence[Node], outputs: Sequence[Atom], carry: Var, k: int
) -> tuple[list[Node], list[Atom], Var] | None:  # fmt: skip
    """*nodes* and *outputs* of a body that has *carry* as its output *k*, and another Var for it, where it is only read
    and made in one other shape: that of the other Var."""
    readers = [n for n in nodes if carry in n.inputs]
    end = next((n for n in nodes if outputs[k] in n.outs), None)
    if end is None or carry in outputs or not all(n.prim is RESHAPE for n in (end, *readers)):
        return None
    aval = end.inputs[0].aval
    if not readers or aval.shape == carry.shape or any(n.out.shape != aval.shape for n in readers):
        return None
    inside = Var(Aval(aval.dtype, aval.shape))
    renamed: dict[Atom, Atom] = {n.out: inside for n in readers}
    nodes = [n if renamed.keys().isdisjoint(n.inputs) else
             Node(n.prim, tuple([renamed.get(a, a) for a in n.inputs]), n.params, n.outs, n.site)
             for n in nodes if n not in readers]  # fmt: skip
    outputs = [renamed.get(a, a) for a in outputs]
    outputs[k] = renamed.get(end.inputs[0], end.inputs[0])
    return nodes, outputs, inside


def affine(values: np.ndarray) -> tuple[Any, Any] | None:
    """(a, b) where *values* are a * k + b exactly, for whole numbers a and b."""
    if values.dtype.kind not in "if" or values.dtype in HALF or len(values) < 2 or not np.isfinite(values).all():
        return None
    slope, offset = values[1] - values[0], values[0]
    most = 2**24 if values.dtype.itemsize < 8 else 2**31
    if slope != np.trunc(slope) or offset != np.trunc(offset) or max(abs(values[-1]), abs(offset)) >= most:
        return None
    if values.dtype.kind in FLOAT_KINDS and slope < 0 and offset == 0:  # 0 * slope is -0.0
        return None
    line = (offset + slope * np.arange(len(values), dtype=values.dtype)).astype(values.dtype)
    return (slope, offset) if line.tobytes() == values.tobytes() else None
