"""Repeats in a recording: the data structures.

A recording is a list of *items* in the order in which Python asked for them: nodes, and guards.  A node stands in it
once for each time it was asked for, also where an equal one existed already, so that every turn of a Python loop
leaves the same number of items.

A ``Repeat`` says: from ``start`` on, ``trips`` blocks of ``period`` items each do the same thing, which is described by
its ``steps``, one for each item of a block, and by their *slots*, the sources of operands:

    Local            the value of an earlier item of the same block
    Carried          the value of an item a number of blocks before; in the first blocks: ``inits``
    Invariant        one value from before the loop, or one constant
    Rows             another value from before the loop in every block
    VaryingConstant  another constant in every block

``find.py`` looks for them, ``prove.py`` proves every slot of every block, ``rewrite.py`` makes loop nodes
of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from ..ir.graph import Atom, Guard, Lit, Node, Var, answered

Item: TypeAlias = Node | Guard
Key: TypeAlias = tuple[int, int]  # (item of a block, result)

FEW_TRIPS = 4  # no loop has fewer


class Local(NamedTuple):
    item: int
    out: int


class Carried(NamedTuple):
    """``inits``: the operands of the first *distance* blocks."""

    item: int
    out: int
    distance: int
    inits: tuple[Atom, ...]


class Invariant(NamedTuple):
    atom: Atom


class Rows(NamedTuple):
    atoms: list[Var]


class VaryingConstant(NamedTuple):
    like: Lit
    values: np.ndarray


Slot: TypeAlias = Local | Carried | Invariant | Rows | VaryingConstant


@dataclass(slots=True)
class Step:
    """One item of a block.  ``starts``: rows are blocks, columns axes, where ``start`` differs.  ``expected``: of a
    guard, its value in each block.  ``fixed``: the same in every block, so computed once."""

    item: Item
    slots: list[Slot]
    starts: np.ndarray | None = None
    expected: np.ndarray | None = None
    fixed: bool = False


TOLD = "the answers in each iteration were those of the recording", "an answer in some iteration was another one"


def told(steps: Iterable[Step]) -> tuple[str, str]:
    """The words for a guard on all that Python asked in the iterations of a loop."""
    said: set[tuple[str, str]] = set()
    for step in steps:
        if step.expected is not None and not step.fixed and isinstance(step.item, Guard):
            kind = step.item.kind
            values = step.expected != 0 if kind == "bool" else step.expected
            alike = bool((values == values[0]).all())
            said.add(step.item.said or (answered(kind, values[0], "iteration") if alike else TOLD))
    return said.pop() if len(said) == 1 else TOLD


@dataclass(slots=True)
class Repeat:
    start: int
    period: int
    trips: int
    steps: list[Step]

    @property
    def end(self) -> int:
        return self.start + self.period * self.trips


def part_of(node: Node) -> tuple[int, ...]:
    """The shape of the part at the ``start`` of a slice, an update or a pad."""
    if node.prim.name == "slice":
        return node.params["shape"]
    return node.inputs[node.prim.name == "update"].aval.shape


def varying_axes(starts: np.ndarray) -> list[int]:
    """The axes along which the *starts* of a step differ."""
    return np.flatnonzero((starts != starts[0]).any(axis=0)).tolist()  # type: ignore[no-any-return]
