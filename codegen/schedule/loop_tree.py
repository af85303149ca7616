"""The loop tree: the data structures of a schedule.

A ``Statement`` computes one stored value (a *root*); a ``Loop`` is one dim and a body of loops and statements; a
``LibraryCall`` is work for a library (BLAS, a scatter, NumPy), or a loop node with its own body.  A ``Schedule`` is the
body of an outermost pseudo-loop, with what is stored where.  ``schedule.py`` builds it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from ...tracer.ir.refusals import Reason
from ..lower.canonical import ONE, CanonicalOp, Dim, Sym
from .dependences import Reads

PLACE = 8  # bytes of a value without axes, at most


@dataclass(eq=False, slots=True)
class Statement:
    """Compute root *op*'s value inside *path* (outermost loop first)."""

    op: CanonicalOp
    path: list[Loop] = field(default_factory=list)
    complete: int = 0  # the root's element is final at this loop depth, after the loop below it ends

    @property
    def out(self) -> Sym:
        return self.op.out


@dataclass(eq=False, slots=True)
class Loop:
    """``segments``: the body in parts, each of which runs over a tile of rows before the next one does."""

    dim: Dim
    body: list[ScheduleItem] = field(default_factory=list)
    segments: list[list[ScheduleItem]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class LibraryCall:
    """An operation that is no part of a loop nest; its operands are buffers."""

    op: CanonicalOp


ScheduleItem: TypeAlias = Loop | Statement | LibraryCall


@dataclass(frozen=True, slots=True)
class ResultRun:
    """A stretch of the result ``whole``, behind the run ``before``, of arrays with these ``extents`` along the first
    axis, and the ``inner`` dims along the others."""

    whole: Sym
    before: Sym | None
    extents: tuple[Dim, ...]
    inner: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class PartWindow:
    """The place of a part in the array that ``run`` holds: number ``column`` of those with these ``extents`` along
    ``axis``."""

    run: Sym
    axis: int
    extents: tuple[Dim, ...]
    column: int


@dataclass(frozen=True, slots=True)
class ScalarPlaces:
    """Values without axes that have no buffers of their own: the ``places`` of ``PLACE`` bytes that they have in the
    buffer ``sym``, and those ``at_hand``, which the function that makes them alone reads."""

    sym: Sym
    places: Mapping[Sym, int]
    at_hand: Collection[Sym]

    def named_apart(self) -> ScalarPlaces:
        """The same for code that is given the address of each that has a place."""
        return replace(self, places={})

    def offset(self, x: Sym) -> int:
        """The number of the element at *x*, counted in elements of its dtype."""
        return self.places[x] * (PLACE // x.dtype.itemsize)


NO_SCALARS = ScalarPlaces(Sym(-1, np.dtype(np.int64), ()), {}, ())


@dataclass(slots=True)
class Schedule:
    body: list[ScheduleItem]
    stored: set[Sym]
    where: dict[Sym, Statement | LibraryCall]
    reads: dict[Sym, Reads]
    contracted: dict[Sym, int]  # temporary that lives within its n outermost loops -> n: these axes have no storage
    tiled: set[Sym]  # contracted temporaries with storage for one tile of rows
    notes: list[str | Reason]
    checks: list[tuple[int, int]] = field(default_factory=list)  # (position in body, guards checked before it)
    windows: dict[Sym, PartWindow] = field(default_factory=dict)  # parts of results
    runs: dict[Sym, ResultRun] = field(default_factory=dict)
    turned: set[Sym] = field(default_factory=set)  # temporaries whose last axis is the outermost in memory
    functions: dict[ScheduleItem, tuple[int, int]] = field(default_factory=dict)  # of items of the body
    scalars: ScalarPlaces = NO_SCALARS  # what code that serves several places knows of them

    def buffers(self, *items: Loop | Statement) -> list[Sym]:
        """The stored values that these items read or write, and runs in place of their parts."""
        found = [x for x in item_buffers(self.reads, *items) if x not in self.scalars.at_hand]
        return list(dict.fromkeys(map(self.buffer, found)))

    def buffer(self, sym: Sym) -> Sym:
        """The value or run in whose buffer *sym* is."""
        if sym in self.scalars.places:
            return self.scalars.sym
        window = self.windows.get(sym)
        return sym if window is None else window.run

    def kept_axes(self, sym: Sym) -> list[Dim]:
        """The axes of *sym* that have storage, but for those of size 1."""
        return [d for d in sym.dims if d != ONE][self.contracted.get(sym, 0) :]


def statements_of(item: ScheduleItem) -> list[Statement]:
    """The statements in *item*, in order."""
    if isinstance(item, Loop):
        return [s for i in item.body for s in statements_of(i)]
    return [item] if isinstance(item, Statement) else []


def last_statement(loop: Loop) -> Statement:
    """The last statement in *loop*."""
    item: ScheduleItem = loop
    while isinstance(item, Loop):
        item = item.body[-1]
    assert isinstance(item, Statement)
    return item


def loops_of(loop: Loop) -> list[Loop]:
    """The loops inside of *loop*."""
    return [found for i in loop.body if isinstance(i, Loop) for found in (i, *loops_of(i))]


def produces(item: ScheduleItem) -> set[Sym]:
    """The stored values that *item* makes."""
    if isinstance(item, Loop):
        return set().union(*[produces(i) for i in item.body]) if item.body else set()
    return set(item.op.outs)


def item_buffers(placed: dict[Sym, Reads], *items: Loop | Statement) -> list[Sym]:
    """The stored values that these items read or write."""
    used: dict[Sym, None] = {}
    for s in [s for item in items for s in statements_of(item)]:
        used[s.out] = None
        for sym, _ in placed[s.out].stored:
            used[sym] = None
    return list(used)
