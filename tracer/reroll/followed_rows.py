"""Rows that a followed loop steps through: values of one item of a loop that was followed before it.

So the backward of a loop's turns reads the values of its forward, in reverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.graph import Atom, Var
from .find import FoundRepeats
from .followed_loop import FollowedLoop, IterationVar
from .loop_body import MakeConst
from .repeats import Rows
from .rewrite import Column, Rewriter, loose

LOOSE_ROWS = 4  # values among the rows of one slot that belong to no loop, as the initial state


def rewriter_of(before: Sequence[FollowedLoop], const: MakeConst) -> Rewriter:
    """A rewriter that finds values in the loops *before*."""
    return Rewriter((), FoundRepeats([], {}), (), const, before)


def can_follow(slot: Rows, rewriter: Rewriter) -> bool:
    """Whether the rows of *slot* are those of loops that were followed before, but for a few."""
    return len(loose(rewriter.parts_of(slot.atoms))) <= LOOSE_ROWS


class FollowedRows:
    """The rows of one slot: ``atoms``, one for each turn so far.  *loop*: the one that is being followed; *recorded*:
    the values that its turns have recorded.  ``place``: the item of a block, and its operand, that has the slot."""

    def __init__(
        self, place: tuple[int, int], slot: Rows, rewriter: Rewriter, loop: FollowedLoop, recorded: set[Var],
    ):  # fmt: skip
        self.place, self.atoms, self.aval = place, list(slot.atoms), slot.atoms[0].aval
        self.loop, self.recorded = loop, recorded
        self.head = rewriter.parts_of(slot.atoms)  # what comes before the column
        self.loose = len(loose(self.head))
        self.column: Column | None = None
        self.end = len(self.atoms)  # that of the column
        last = self.head[-1]
        if isinstance(last, Column):
            self.column = last
            self.head.pop()
            self.origin = rewriter.followed[-1 - last.repeat]
            self.first = self.end - last.count  # the turn in which the column begins

    def goes_on(self, x: Any) -> bool:
        """Whether *x* is the next value of the column."""
        column, turn = self.column, len(self.atoms)
        if column is None or turn != self.end:
            return False
        return self.origin.place(x) == (column.first + column.stride * (turn - self.first), column.item)

    def fits(self, x: Any) -> bool:
        """Whether *x* can be the value in the next turn."""
        if self.goes_on(x):
            return True
        if not isinstance(x, Var) or not x.aval.like(self.aval) or self.loose >= LOOSE_ROWS:
            return False
        return x not in self.recorded and not (type(x) is IterationVar and x.source[0] is self.loop)

    def take(self, x: Var) -> None:
        """Note that *x*, which fits, is the value in this turn."""
        if self.goes_on(x):
            self.end += 1
        else:
            self.loose += 1
        self.atoms.append(x)

    def parts(self, trips: int) -> list[Atom | Column]:
        """The columns and the values beside them of *trips* turns."""
        if self.column is None:
            return [*self.head, *self.atoms[len(self.head) : trips]]
        end = min(self.end, trips)
        return [*self.head, self.column._replace(count=end - self.first), *self.atoms[end:trips]]
