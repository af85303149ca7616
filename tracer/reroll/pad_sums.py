"""Sums of padded parts over the turns of a loop, as updates of a part of the total.

The derivative of ``x[t]`` is the cotangent of the row, padded to the shape of x; the derivative of a loop that reads
``x[t]`` in turn t adds them all up.  In a block that is two items, ``p = pad(g)`` and ``total + p``, which touch all of
the total in every turn.  They become three that touch a part: a slice of the total, the sum, an update.  So
``row_writes.py`` can find that the total is written row by row.  Elements outside of the part are left as they are;
the sum would only have made a 0.0 of a -0.0.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence

from ..ir.data_classes import NamedTuple
from ..ir.graph import Node, Var
from ..ops.shape import PAD, SLICE, UPDATE
from .repeats import Carried, Item, Key, Local, Slot, Step


class Spread(NamedTuple):
    """The block with updates; ``places``: where it has the items of the old one."""

    steps: list[Step]
    block: list[Item]
    places: list[int]


def without_pads(steps: Sequence[Step], block: Sequence[Item], kept: Collection[Key]) -> Spread | None:
    """The block with updates in place of sums; None where there are none.  *kept*: values that are read elsewhere."""
    sums = _sums(steps, kept)
    if not sums:
        return None
    pads = {steps[j].slots[o].item for j, o in sums.items()}  # type: ignore[union-attr]
    counts = [3 if j in sums else 0 if j in pads else 1 for j in range(len(steps))]
    places = [end - 1 for end in itertools.accumulate(counts)]

    def moved(slot: Slot) -> Slot:
        return slot._replace(item=places[slot.item]) if isinstance(slot, (Local, Carried)) else slot

    new: list[Step] = []
    for j, step in enumerate(steps):
        slots = [moved(slot) for slot in step.slots]
        if j in sums:
            o = sums[j]
            pad = steps[step.slots[o].item]  # type: ignore[union-attr]
            new += _updates(step, 1 - o, slots[1 - o], pad, moved(pad.slots[0]), len(new))
        elif j not in pads:
            new.append(Step(step.item, slots, step.starts, step.expected, step.fixed))
    items = [item for item, count in zip(block, counts, strict=True) for _ in range(count)]
    return Spread(new, items, places)


def _sums(steps: Sequence[Step], kept: Collection[Key]) -> dict[int, int]:
    """Item that adds a pad which nothing else reads -> the position of that operand."""
    uses = Counter(s.item for step in steps for s in step.slots if isinstance(s, (Local, Carried)))
    sums: dict[int, int] = {}
    for j, step in enumerate(steps):
        item = step.item
        if not isinstance(item, Node) or item.prim.name != "add" or any(a.aval != item.out.aval for a in item.inputs):
            continue
        for o, slot in enumerate(step.slots):
            if isinstance(slot, Local) and uses[slot.item] == 1 and (slot.item, 0) not in kept:
                pad = steps[slot.item]
                if isinstance(pad.item, Node) and pad.item.prim is PAD and pad.starts is not None:
                    sums[j] = o
                    break
    return sums


def _updates(step: Step, o: int, total: Slot, pad: Step, part: Slot, at: int) -> list[Step]:
    """The slice, sum and update, from item *at* on, for the sum of operand *o*, *total*, and a pad of *part*."""
    node, padded = step.item, pad.item
    assert isinstance(node, Node) and isinstance(padded, Node)
    whole, row = node.inputs[o], padded.inputs[0]
    where = {"start": padded.params["start"], "step": padded.params["step"]}
    before, after = Var(row.aval), Var(row.aval)
    nodes = [
        Node(SLICE, (whole,), {**where, "shape": row.aval.shape}, (before,), node.site),
        Node(node.prim, (before, row), {}, (after,), node.site),
        Node(UPDATE, (whole, after), where, node.outs, node.site),
    ]
    slots: list[list[Slot]] = [[total], [Local(at, 0), part], [total, Local(at + 1, 0)]]
    starts = [pad.starts, None, pad.starts]
    return [Step(n, s, begin) for n, s, begin in zip(nodes, slots, starts, strict=True)]
