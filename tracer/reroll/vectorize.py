"""Vectorisation of repeats: blocks that are independent and elementwise become operations on whole arrays.

Each item becomes one operation whose operands and result have the blocks along axis 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..ir.axes import stacked_params
from ..ir.graph import Atom, Builder, Guard, Lit, Node, Var
from ..ir.primitive import ELEMENTWISE, PRIMITIVES
from ..ops.shape import reshape
from .repeats import Carried, Invariant, Item, Key, Local, Slot, Step
from .windows import Spots, Window, moved_back, rows_of

MAPPED = ("reshape", "broadcast")  # primitives that are not elementwise, but done for all blocks at once


def mapped(
    out: Builder, steps: Sequence[Step], block: Sequence[Item], length: int, stack: Callable[[Slot], Atom],
    const: Callable[[np.ndarray], Var],
) -> dict[Key, Atom] | None:  # fmt: skip
    """The stacked values of the items of *length* blocks, appended to *out*; None where it takes a loop.

    *block* is the first block, *stack* gives the rows that a slot steps through as one array.
    """
    if not all(step.fixed or _independent(step) for step in steps):
        return None
    values: dict[Key, Atom] = {}

    def whole(slot: Slot) -> tuple[Atom, bool]:
        """(an operand for all blocks, whether it has rows)"""
        if isinstance(slot, Local):
            found = values.get((slot.item, slot.out))
            return (block[slot.item].outs[slot.out], False) if found is None else (found, True)  # type: ignore[union-attr]
        if isinstance(slot, Invariant):
            return slot.atom, False
        return stack(slot), True

    for j, step in enumerate(steps):
        if step.fixed:
            continue
        node = step.item
        assert isinstance(node, Node)
        out.site_override = node.site
        if step.starts is not None:
            source: Atom = step.slots[0].atom  # type: ignore[union-attr]
            window = Window.of(node, step.starts)
            if window is None:
                values[j, 0] = Spots.of(node, step.starts, source.aval.shape).rows_of(source, const)
                continue
            x = rows_of(source, window, const)
            if window.count == 1:
                x = reshape(x, (length, 1, *x.aval.shape[1:]))
            values[j, 0] = moved_back(x, window, 1)
            continue
        shape = (length, *node.out.aval.shape)
        operands = []
        for slot in step.slots:
            x, stacked = whole(slot)
            if node.prim.kind == ELEMENTWISE and not isinstance(x, Lit) and x.aval.shape != shape:
                rank = x.aval.ndim
                dims = tuple(range(rank)) if stacked else tuple(range(len(shape) - rank, len(shape)))
                x = out.emit(PRIMITIVES["broadcast"], (x,), {"shape": shape, "dims": dims})[0]
            operands.append(x)
        values[j, 0] = out.emit(node.prim, tuple(operands), stacked_params(node.params, length))[0]
    return values


def _independent(step: Step) -> bool:
    """Whether *step* can be done for all blocks at once."""
    item = step.item
    if isinstance(item, Guard):
        return False
    if step.starts is not None:
        return item.prim.name == "slice" and isinstance(step.slots[0], Invariant)
    if item.prim.kind != ELEMENTWISE and item.prim.name not in MAPPED:
        return False
    return not any(isinstance(slot, Carried) for slot in step.slots)
