"""The functions that a kernel consists of: each has a bounded number of values.

LLVM takes more than twice as long for a function of twice the length, and for one of twice as many arguments.  So
scalar statements in a row are one function only as long as they are few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ..lower.canonical import Sym
from .dependences import Reads
from .loop_tree import ScheduleItem, Statement

MAX_VALUES = 512  # that the scalar statements of one function evaluate or read


def function_numbers(body: Sequence[ScheduleItem], reads: Mapping[Sym, Reads]) -> dict[ScheduleItem, int]:
    """For each item of *body*: the number of the function that it will be in.  Statements in a row share one, up to
    ``MAX_VALUES``."""
    result: dict[ScheduleItem, int] = {}
    number = 0
    values: set[Sym] = set()  # of the statements that the last function consists of so far
    for item in body:
        mine: set[Sym] = set()
        if isinstance(item, Statement):
            found = reads[item.out]
            mine = {item.out, *[x for x, _ in found.stored], *[x for x, _ in found.inlined]}
        if not (mine and values) or len(values) + len(mine - values) > MAX_VALUES:
            number += 1
            values = set()
        values |= mine
        result[item] = number
    return result


def grouped(body: Sequence[ScheduleItem], functions: Mapping[ScheduleItem, int]) -> list[Any]:
    """The items of *body*, scalar statements of one function together as a list."""
    result: list[Any] = []
    for _, items in groupby(body, lambda item: (isinstance(item, Statement), functions[item])):
        together = list(items)
        result += [together] if isinstance(together[0], Statement) else together
    return result
