"""Ints that are inputs of a program: counters, whose arithmetic has to be that of Python's ints.

A kernel computes with 64 bits.  ``unbounded`` says which counters could come to more, however the run went; those are
no inputs, but compared by value.
"""

from __future__ import annotations

from collections.abc import Callable

from ...tracer.ir.aval import BOOL
from ...tracer.ir.errors import UnsupportedError, unrecordable
from ...tracer.ir.graph import Atom, Lit, Node, Var
from ...tracer.record.recorder import NeedsContentsError, Recorder
from ..state.state_graph import MAX_COUNT

_LIMIT, _EXACT = 1 << 63, 1 << 53  # of 64 bits, and of what a float64 can hold
_BOUNDS: dict[str, Callable[[int, int], int]] = {  # of the result, by those of the operands, all without their signs
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floor_divide": lambda a, b: a + 1,
    "remainder": lambda a, b: b,
    "minimum": max,
    "maximum": max,
    "bitwise_and": lambda a, b: 2 * max(a, b),
    "bitwise_or": lambda a, b: 2 * max(a, b),
}


def unbounded(recorder: Recorder, raised: BaseException | None) -> NeedsContentsError | None:
    """The demand that counters of the run are plain numbers, where they may leave the range of the kernel's ints, or
    C code may have *raised* because they were none."""
    if not recorder.counters:
        return None
    recorder.unfollow()
    if isinstance(raised, TypeError | AttributeError):
        return _demand(recorder.counters)
    bounds: dict[Atom, int] = dict.fromkeys(recorder.counters, MAX_COUNT)
    behind: dict[Atom, frozenset[Var]] = {var: frozenset((var,)) for var in recorder.counters}
    beyond: set[Var] = set()
    for node in recorder.nodes:
        counted = [x for x in node.inputs if x in bounds]
        if counted:
            found = _bound(node, bounds)
            sources = frozenset().union(*[behind[x] for x in counted])
            if found is None or found >= _LIMIT:
                beyond |= sources
            elif found:
                bounds[node.out], behind[node.out] = found, sources
    return _demand(beyond) if beyond else None


def _demand(counters: set[Var]) -> NeedsContentsError:
    error = UnsupportedError("a counter that may come to more than 64 bits")
    unrecordable.discard(error)
    return NeedsContentsError(frozenset(counters), error)


def _size(x: Lit) -> int:
    return _LIMIT if x.aval.is_float else abs(int(x.value))


def _bound(node: Node, bounds: dict[Atom, int]) -> int | None:
    """The bound of the result of *node*; 0 where it is no int of Python's any more, None where it may not be Python's
    result."""
    given = [_size(x) if isinstance(x, Lit) else bounds.get(x, _LIMIT) for x in node.inputs]
    out = node.outs[0].aval
    if node.prim.name == "cast":
        if out.weak and out.dtype.kind == "i":
            return given[0]
        size = _EXACT if out.is_float else 1 << (8 * out.dtype.itemsize - 1)
        return 0 if given[0] < size or out.dtype == BOOL else None
    if not (out.weak and out.dtype.kind == "i"):
        return 0
    if node.prim.name in ("neg", "abs", "square"):
        return given[0] ** 2 if node.prim.name == "square" else given[0]
    rule = _BOUNDS.get(node.prim.name)
    return None if rule is None or len(given) != 2 else rule(*given)


__all__ = ["unbounded"]
