"""Threefry-2x32 with 20 rounds: the random bits of ``tracegrad.random``, as one elementwise primitive.

J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011), section 4.2.  A block of
two 32-bit words (the counter) is enciphered under a key of two words, so the random number at any position is a
function of key and position alone: it can be computed in whatever loop, thread or order reads it, again and again, and
nothing is stored.  It is one row and not a hundred additions, rotations and exclusive ors, so that it has one cost in
the schedule, one line in ``explain()``, and takes no longer to record than a sine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import ELEMENTWISE, Primitive, register
from .elementwise import broadcast

UINT32, UINT64 = np.dtype("uint32"), np.dtype("uint64")
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # of the rounds, four by four, in turn (table 2 of the paper)
PARITY = 0x1BD11BDA  # the third word of the key schedule is this, exclusive or the two of the key
GROUPS = 5  # of four rounds each
BLOCK = 8192  # counters that the NumPy implementation takes at a time: they stay in the cache
FEW = 6  # blocks that are faster one by one
_MASK = 2**32 - 1


def threefry2x32(key0: Any, key1: Any, high: Any, low: Any) -> np.ndarray:
    """The enciphered blocks (high, low) under the keys (key0, key1): uint32 arrays that broadcast -> uint64.

    The first word of the result is its upper half.
    """
    operands = [np.asarray(x) for x in (key0, key1, high, low)]
    shape = np.broadcast_shapes(*[x.shape for x in operands])
    result = np.empty(shape, UINT64)
    flat = result.reshape(-1)
    if flat.size <= FEW:
        rows = zip(*[np.broadcast_to(x, shape).reshape(-1).tolist() for x in operands], strict=True)
        flat[:] = [_integer_rounds(*row) for row in rows]
        return result
    columns = [x.reshape(1) if x.size == 1 else np.broadcast_to(x, shape).reshape(-1) for x in operands]
    for start in range(0, flat.size, BLOCK):
        key0, key1, high, low = (c if c.size == 1 else c[start : start + BLOCK] for c in columns)
        first, second = rounds(key0, key1, high, low, (min(BLOCK, flat.size - start),))
        np.bitwise_or(first.astype(UINT64) << UINT64.type(32), second, out=flat[start : start + BLOCK])
    return result


def _integer_rounds(key0: int, key1: int, first: int, second: int) -> int:
    """One block in Python integers, for which NumPy's calls would take longer."""
    keys = (key0, key1, key0 ^ key1 ^ PARITY)
    first, second = first + key0 & _MASK, second + key1 & _MASK
    for group in range(GROUPS):
        for turn in ROTATIONS[group % 2]:
            first = first + second & _MASK
            second = (second << turn & _MASK | second >> 32 - turn) ^ first
        first = first + keys[(group + 1) % 3] & _MASK
        second = second + keys[(group + 2) % 3] + group + 1 & _MASK
    return first << 32 | second


def rounds(key0: Any, key1: Any, high: Any, low: Any, shape: tuple[int, ...], xp: Any = np) -> tuple[Any, Any]:
    """The two words of each block, uint32 arrays of *shape*."""
    keys = (key0, key1, key0 ^ key1 ^ UINT32.type(PARITY))
    first, second = xp.empty(shape, UINT32), xp.empty(shape, UINT32)
    first[...], second[...] = high + key0, low + key1
    for group in range(GROUPS):
        for turn in ROTATIONS[group % 2]:
            first += second
            spilled = second >> (32 - turn)
            second <<= turn
            second |= spilled
            second ^= first
        first += keys[(group + 1) % 3]
        second += keys[(group + 2) % 3] + UINT32.type(group + 1)
    return first, second


def _lower(s: Any, key0: Any, key1: Any, high: Any, low: Any) -> Any:
    keys = (key0, key1, s.differ(s.differ(key0, key1), s.const(PARITY)))
    first, second = s.add(high, key0), s.add(low, key1)
    for group in range(GROUPS):
        for turn in ROTATIONS[group % 2]:
            first = s.add(first, second)
            turned = s.either(s.shift_left(second, s.const(turn)), s.shift_right(second, s.const(32 - turn)))
            second = s.differ(turned, first)
        first = s.add(first, keys[(group + 1) % 3])
        second = s.add(second, s.add(keys[(group + 2) % 3], s.const(group + 1)))
    return s.pack(first, second)


def _infer(*avals: Aval) -> Aval:
    shapes = {a.shape for a in avals if a.shape}
    if {a.dtype for a in avals} != {UINT32} or len(shapes) > 1:
        raise GraphError(f"threefry2x32 of {[str(a) for a in avals]}")
    return Aval(UINT64, next(iter(shapes), ()))


_no_derivative: tuple[Callable[..., Any] | None, ...] = (None,) * 4

THREEFRY: Primitive = register(
    Primitive(
        "threefry2x32", ELEMENTWISE, threefry2x32, _infer, partials=_no_derivative, lower=_lower, cost=120,
        domain=((0.0, 9.0),) * 4, test={"kinds": "uuuu"},
    )
)  # fmt: skip


def threefry(key0: Atom, key1: Atom, high: Atom, low: Atom) -> Var:
    """The enciphered blocks as a node: uint32 atoms that broadcast -> uint64."""
    return bind(THREEFRY, *broadcast(key0, key1, high, low, what="keys and counters"))
