"""Correspondence of operand axes to result axes: the column ``axes`` of the primitive table.

A rule of the column takes the shapes of the operands, the shape of the result and the params, and gives ``Axes``.  It
compares lengths with each other and with 1 only, so that it holds for symbolic lengths, too (the dims of
``codegen/lower/canonical.py``).  It serves equality of axes, batching index by index, and axes added in front.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from .data_classes import NamedTuple

Shape: TypeAlias = Sequence[Any]  # lengths, or symbols for them
Shapes: TypeAlias = Sequence[Shape]
Params: TypeAlias = Mapping[str, Any]

# kinds of dependence across an axis of the result
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
    - None: it corresponds to no axis (reduced by itself, stretched from 1, sliced, joined, split, looked up).

    ``across``: axis b of the result -> the kind of dependence across it; its index i depends on more than index i of
    the operands' axes b.  All other axes of the result are independent: if every operand that has an axis b is replaced
    by ``take(x, p, axis)``, the result is ``take(result, p, b)``, whatever the positions p; where no operand has an
    axis b, the result is the same at each index.
    """

    operands: tuple[tuple[int | None, ...], ...]
    across: Mapping[int, str] = MappingProxyType({})

    def at(self, b: int) -> list[int | None]:
        """Each operand's axis that corresponds to axis *b* of the result, or None."""
        return [numbers.index(b) if b in numbers else None for numbers in self.operands]


AxesRule: TypeAlias = Callable[[Shapes, Shape, Params], Axes]


def same_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    """Elementwise: the result's axes; an operand that is 0-d has none."""
    return _own_axes(tuple([len(s) for s in shapes]))


@functools.cache
def _own_axes(ranks: tuple[int, ...]) -> Axes:
    return Axes(tuple([tuple(range(rank)) for rank in ranks]))


def last_axis(how: str) -> AxesRule:
    """The rule of an operation across the last axis that is elementwise along all others."""

    def rule(shapes: Shapes, shape: Shape, params: Params) -> Axes:
        return Axes(same_axes(shapes, shape, params).operands, {len(shape) - 1: how})

    return rule


def unrelated(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    """The rule of a loop, whose axes correspond in no known way: that depends on its body."""
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
    """*params* of the operation batched over one more axis in front, of *length*.

    The column decides whether it can be batched: axis 0 of each batched operand has to be axis 0 of the result, and
    not be in ``across``.
    """
    return {name: _STACKED[name](value, length) if name in _STACKED else value for name, value in params.items()}
