"""``t[i]`` and ``t[i] = value`` where *i* follows from the number of an iteration that is recorded over symbols.

As elsewhere the row is a view: its array is one of the recording's, and a write into it is a write into all of it."""

from __future__ import annotations

from typing import Any

from ..tracer.record.array import TracedArray
from .apply import apply, record
from .op import EagerOp
from .tensor import Tensor, raw

AT = "at"  # in the place of a position
Code = tuple[Any, ...]


def _index(code: Code, positions: tuple[Any, ...]) -> tuple[Any, ...]:
    given = iter(positions)
    return tuple([next(given) if i == AT else slice(*i) if type(i) is tuple else i for i in code])


def _written(x: Any, value: Any, *given: Any) -> Any:
    found = x.copy()
    found[_index(given[-1], given[:-1])] = value
    return found


PICK = EagerOp("Select", lambda x, *given: x[_index(given[-1], given[:-1])])
PUT = EagerOp("CopySlices", _written)


def taken_apart(index: Any) -> tuple[Code, tuple[TracedArray, ...]] | None:
    """(the index without positions that follow from an iteration, these); None where there are none, or others."""
    items = index if type(index) is tuple else (index,)
    if not any(type(i) is TracedArray for i in items):
        return None
    code: list[Any] = []
    for item in items:
        if type(item) is TracedArray and item.atom.aval.weak:
            code.append(AT)
        elif type(item) is slice and all(x is None or type(x) is int for x in (item.start, item.stop, item.step)):
            code.append((item.start, item.stop, item.step))
        elif item is None or item is Ellipsis or type(item) is int:
            code.append(item)
        else:
            return None
    return tuple(code), tuple([i for i in items if type(i) is TracedArray])


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
