"""Which axis of an operand is which axis of the result: the column ``axes`` of the primitive table.

A rule of the column takes the shapes of the operands, the shape of the result and the params, and gives ``Axes``.  It
compares lengths with each other and with 1 only, so that it holds for what stands for lengths, too (the dims of
``codegen/lower/canonical.py``).  Whoever asks which axes are equally long, along which axis a batch may be run index
by index, or where an axis that is added in front comes out, asks the column.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

Shape: TypeAlias = Sequence[Any]  # lengths, or what stands for them
Shapes: TypeAlias = Sequence[Shape]
Params: TypeAlias = Mapping[str, Any]

# how an operation goes across an axis of its result
PART = "part"  # slice, pad, update: from some index on, in steps, backward
JOINED = "joined"  # concat
SPLIT = "split"  # reshape: cut from other axes, or merged of them
SCANNED = "scanned"  # linrec: index i needs those before it
SORTED = "sorted"  # argsort
NUMBERED = "numbered"  # iota, nonzero: the value depends on the index itself
WRITTEN = "written"  # scatter: at positions that are data
UNKNOWN = "unknown"


class Axes(NamedTuple):
    """The axes of one application of a primitive whose result has r axes.

    ``operands``: for each operand a tuple with a number for each of its axes, no number twice.

    - b < r: it is as long as axis b of the result, and index i of the one goes with index i of the other.
    - b >= r: the result does not have it.  Axes of several operands with one number are equally long, and index i of
      the one goes with index i of the other (the inner axes of a matrix product).
    - None: nothing is said of it (reduced by itself, stretched from 1, sliced, joined, split, looked up).

    ``across``: axis b of the result -> how the operation goes across it; its index i needs more than the index i of the
    operands' axes b.  All other axes of the result are independent: if every operand that has an axis b is replaced by
    ``take(x, p, axis)``, the result is ``take(result, p, b)``, whatever the positions p; where no operand has an axis
    b, the result is the same at each index.
    """

    operands: tuple[tuple[int | None, ...], ...]
    across: Mapping[int, str] = MappingProxyType({})

    def at(self, b: int) -> list[int | None]:
        """For each operand its axis that is axis *b* of the result, None where it has none."""
        return [numbers.index(b) if b in numbers else None for numbers in self.operands]


AxesRule: TypeAlias = Callable[[Shapes, Shape, Params], Axes]


def same_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    """Elementwise: the result's axes; an operand that is 0-d has none."""
    return _own_axes(tuple([len(s) for s in shapes]))


@functools.cache
def _own_axes(ranks: tuple[int, ...]) -> Axes:
    return Axes(tuple([tuple(range(rank)) for rank in ranks]))


def last_axis(how: str) -> AxesRule:
    """The rule of what goes across the last axis, and is elementwise along all others."""

    def rule(shapes: Shapes, shape: Shape, params: Params) -> Axes:
        return Axes(same_axes(shapes, shape, params).operands, {len(shape) - 1: how})

    return rule


def unrelated(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    """Nothing is said of any axis: what a loop does with them depends on its body."""
    return Axes(tuple([(None,) * len(s) for s in shapes]), dict.fromkeys(range(len(shape)), UNKNOWN))


_STACKED: dict[str, Callable[[Any, int], Any]] = {
    "shape": lambda shape, length: (length, *shape),
    "start": lambda start, length: (0, *start),
    "step": lambda step, length: (1, *step),
    "dims": lambda dims, length: (0, *[a + 1 for a in dims]),
    "perm": lambda perm, length: (0, *[a + 1 for a in perm]),
    "axes": lambda axes, length: tuple([a + 1 for a in axes]),
    "axis": lambda axis, length: axis + 1,
}


def stacked_params(params: Params, length: int) -> dict[str, Any]:
    """*params* for operands that have one more axis in front, of *length*, as the result then has.

    The column says whether the operation can be done so for all *length* at once: axis 0 of each of these operands has
    to be axis 0 of the result, and not gone across.
    """
    return {name: _STACKED[name](value, length) if name in _STACKED else value for name, value in params.items()}


__all__ = [
    "JOINED",
    "NUMBERED",
    "PART",
    "SCANNED",
    "SORTED",
    "SPLIT",
    "UNKNOWN",
    "WRITTEN",
    "Axes",
    "AxesRule",
    "Params",
    "Shape",
    "Shapes",
    "last_axis",
    "same_axes",
    "stacked_params",
    "unrelated",
]  # fmt: skip
