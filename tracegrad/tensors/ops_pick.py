"""``t[i]`` and ``t[i] = value`` where *i* follows from the number of an iteration that is recorded over symbols.

As elsewhere the row is a view: its array is one of the recording's, and a write into it is a write into all of it."""

from __future__ import annotations

from typing import Any

from ..tracer.loops.items import item, set_item, windows_in
from ..tracer.record.array import TracedArray
from ..tracer.record.recorder import require_recorder
from .apply import apply, record
from .op import EagerOp
from .tensor import Tensor, raw

AT = "at"  # in the place of a position
Code = tuple[Any, ...]


def _index(code: Code, positions: tuple[Any, ...]) -> tuple[Any, ...]:
    given = iter(positions)

    def part(x: Any) -> Any:
        return next(given) if x == AT else x

    return tuple([slice(*map(part, i)) if type(i) is tuple else part(i) for i in code])


def _written(x: Any, value: Any, *given: Any) -> Any:
    found = x.copy()
    set_item(require_recorder("a position"), value, found, _index(given[-1], given[:-1]))
    return found


PICK = EagerOp("Select", lambda x, *given: item(require_recorder("a position"), x, _index(given[-1], given[:-1])))
PUT = EagerOp("CopySlices", _written)


def taken_apart(t: Tensor, index: Any) -> tuple[Code, tuple[TracedArray, ...]] | None:
    """(the index of *t* without positions that follow from an iteration, these); None where there are none, or
    others."""
    items = index if type(index) is tuple else (index,)
    parts = [x for i in items for x in ((i.start, i.stop, i.step) if type(i) is slice else (i,))]
    positions = tuple([x for x in parts if type(x) is TracedArray])
    if not positions or not all(x is None or x is Ellipsis or type(x) is int or _is_position(x) for x in parts):
        return None
    moves = any(type(i) is slice and TracedArray in map(type, (i.start, i.stop, i.step)) for i in items)
    if moves and not windows_in(require_recorder("a position"), items, t.shape):
        return None

    def part(x: Any) -> Any:
        return AT if type(x) is TracedArray else x

    code = [tuple(map(part, (i.start, i.stop, i.step))) if type(i) is slice else part(i) for i in items]
    return tuple(code), positions


def _is_position(x: Any) -> bool:
    return type(x) is TracedArray and bool(x.atom.aval.weak)


def picked(t: Tensor, code: Code, positions: tuple[TracedArray, ...], tape: Any) -> Tensor:
    """``t[index]``."""
    found: Tensor = apply(PICK, (t, *positions), (code,))
    found._counter = t._counter
    tape.picked[id(found)] = found, t, code, positions
    return found


def refreshed(found: Tensor, t: Tensor, code: Code, positions: tuple[TracedArray, ...]) -> None:
    """Have the history of *found*, a row of *t*, be that of *t* as it is now."""
    found._node, found._out, found._requires = None, 0, False
    if t.requires_grad:
        record(PICK, (t, *positions), (code,), (raw(t), *positions), (found,))
