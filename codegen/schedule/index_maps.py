"""Index maps: the positions at which slice, pad, concat and their kin read their operands in a loop.

``read(op, indices)`` gives the alternatives of a value at *indices*: the first alternative whose condition holds is
the value; where none holds it is zero.  An alternative's position lies in its operand only where its condition holds,
also where it is what remains.  The scheduler walks them to see what a loop touches, the emitter to write code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..lower.canonical import ONE, CanonicalOp, Dim, Operand, Sym
from .affine import ZERO, Index, add, divide, start_index, term

Indices = tuple[Index, ...]
# ("in", Index, Dim): 0 <= index < size; ("edge", Index, Dim): the same, false for a few iterations only;
# ("mod", Index, k): k divides index
Condition = tuple[Any, ...]


class Alternative(NamedTuple):
    conditions: tuple[Condition, ...]
    operand: Operand
    indices: Indices | None  # None: read the operand's buffer flat, at the position that `flat` gives
    flat: tuple[tuple[Dim, ...], Indices] | None = None  # (dims of the reshaped array, position in it)
    remains: bool = False  # its conditions hold wherever those of the alternatives before it do not


def known(condition: Condition, static: dict[Dim, int]) -> bool | None:
    """Whether *condition* holds, by the static sizes; None: unknown."""
    kind, index, bound = condition
    if any(t[0] != "s" or t[1] not in static for t, _ in index.terms):
        return None
    position = index.const + sum(c * static[t[1]] for t, c in index.terms)
    if kind == "mod":
        return position % bound == 0
    return 0 <= position < static[bound] if bound in static else None


def read(op: CanonicalOp, at: Indices) -> list[Alternative]:
    return _READERS[op.prim.name](op, at)


def _moved(op: CanonicalOp, at: Indices) -> list[Alternative]:
    """The position in an operand whose axes are axes of the result or of size 1; merged or split axes are read flat."""
    x = op.ins[0]
    axes = list(zip(x.dims, op.axes.operands[0], strict=True))
    if any(b is None and d != ONE for d, b in axes):
        return [Alternative((), x, None, (op.out.dims, at))]
    return [Alternative((), x, tuple([ZERO if b is None or d == ONE else at[b] for d, b in axes]))]


def _slice(op: CanonicalOp, at: Indices) -> list[Alternative]:
    start, step = op.params["start"], op.params["step"]
    return [
        Alternative((), op.ins[0], tuple(add(start_index(s), i, k) for s, k, i in zip(start, step, at, strict=True)))
    ]


def _inside(op: CanonicalOp, at: Indices) -> tuple[tuple[Condition, ...], Indices]:
    """The conditions under which *at* lies in the last operand, which is placed at start + step * i of the result,
    and the position there."""
    conditions: list[Condition] = []
    moved = []
    across = op.axes.across
    for axis, (s, k, i, d) in enumerate(zip(op.params["start"], op.params["step"], at, op.ins[-1].dims, strict=True)):
        if axis not in across:
            moved.append(i)
            continue
        offset = add(i, start_index(s), -1)
        if k != 1:
            exact = divide(offset, k)
            if exact is None:
                conditions.append(("mod", offset, abs(k)))
                exact = term(("d", offset, k))
            offset = exact
        conditions.append(("edge" if op.params["edge"] else "in", offset, d))
        moved.append(offset)
    return tuple(conditions), tuple(moved)


def _pad(op: CanonicalOp, at: Indices) -> list[Alternative]:
    conditions, moved = _inside(op, at)
    return [Alternative(conditions, op.ins[0], moved)]


def _update(op: CanonicalOp, at: Indices) -> list[Alternative]:
    x, v = op.ins
    conditions, moved = _inside(op, at)
    return [Alternative(conditions, v, moved), Alternative((), x, at)]


def _concat(op: CanonicalOp, at: Indices) -> list[Alternative]:
    axis = op.params["axis"]
    position = at[axis]
    result = []
    for number, x in enumerate(op.ins):
        last = number == len(op.ins) - 1
        kind = "edge" if number in op.params["edge"] else "in"
        conditions = ((kind, position, x.dims[axis]),) if len(op.ins) > 1 else ()
        result.append(Alternative(conditions, x, (*at[:axis], position, *at[axis + 1 :]), remains=last))
        position = add(position, term(("s", x.dims[axis])), -1)
    return result


def _gather(op: CanonicalOp, at: Indices) -> list[Alternative]:
    x, index = op.ins
    rank = len(index.dims)
    position = term(("v", index, at[:rank], x.dims[0])) if isinstance(index, Sym) else ZERO
    return [Alternative((), x, (position, *at[rank:]))]


_READERS = {
    "broadcast": _moved, "transpose": _moved, "reshape": _moved, "slice": _slice, "pad": _pad, "update": _update,
    "concat": _concat, "gather": _gather,
}  # fmt: skip
