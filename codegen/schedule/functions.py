"""The functions that a kernel consists of: each has a bounded number of values.

LLVM takes more than twice as long for a function of twice the length, and for one of twice as many arguments.  So
scalar statements in a row are one function only as long as they are few, and the scalars that they leave to one another
lie in one buffer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ..lower.canonical import Canonical, Sym
from .buffers import buffer_of
from .dependences import Reads, carries, is_call
from .loop_tree import NO_SCALARS, PLACE, ScalarPlaces, Schedule, ScheduleItem, Statement

MAX_VALUES = 2048  # that the scalar statements of one function evaluate or read

Function = tuple[int, int]  # number of the nest or call, or of statements in a row; which of their functions


def functions_of(
    body: Sequence[ScheduleItem], reads: Mapping[Sym, Reads], checks: Collection[int] = ()
) -> dict[ScheduleItem, Function]:
    """For each item of *body*: the function that it will be in.  Statements in a row share one, up to ``MAX_VALUES``,
    and up to positions at which guards are checked."""
    result: dict[ScheduleItem, Function] = {}
    row = piece = 0
    values: set[Sym] = set()  # of the statements that the last function consists of so far
    for position, item in enumerate(body):
        mine: set[Sym] = set()
        if isinstance(item, Statement):
            found = reads[item.out]
            mine = {item.out, *[x for x, _ in found.stored], *[x for x, _ in found.inlined]}
        if not (mine and values) or position in checks:
            row, piece, values = row + 1, 0, set()
        elif len(values) + len(mine - values) > MAX_VALUES:
            piece, values = piece + 1, set()
        values |= mine
        result[item] = row, piece
    return result


def grouped(body: Sequence[ScheduleItem], functions: Mapping[ScheduleItem, Function]) -> list[Any]:
    """The items of *body*, scalar statements of one function together as a list: of those without *functions*, as on
    CUDA devices, all that stand together."""
    result: list[Any] = []
    for _, items in groupby(body, lambda item: functions.get(item, isinstance(item, Statement))):
        together = list(items)
        result += [together] if isinstance(together[0], Statement) else together
    return result


def place_scalars(program: Canonical, schedule: Schedule, others: Collection[Sym]) -> ScalarPlaces:
    """The scalars that statements make and *program* keeps for itself, but for the *others* and operands of calls:
    those that one function makes and reads have no place."""
    called = {
        buffer_of(program, schedule.stored, x) for op in program.ops if is_call(op) for x in op.ins
        if isinstance(x, Sym)
    }  # fmt: skip
    mine: dict[Sym, Function] = {}
    for sym, made in schedule.where.items():
        free = isinstance(made, Statement) and not made.path and not (sym in called or sym in others)
        if free and sym.dtype.itemsize <= PLACE and not sym.wide:
            mine[sym] = schedule.functions[made]
    outputs = set(program.outputs)
    apart = {sym for sym in mine if sym.dims or carries(program.producers[sym]) or sym in outputs}
    for reader, found in schedule.reads.items():
        made = schedule.where[reader]
        assert isinstance(made, Statement)
        function = schedule.functions[made.path[0] if made.path else made]
        apart |= {x for x, _ in found.stored if mine.get(x, function) != function}
    places = {sym: k for k, sym in enumerate(sym for sym in mine if sym in apart)}
    return replace(NO_SCALARS, places=places, at_hand=mine.keys() - apart)
