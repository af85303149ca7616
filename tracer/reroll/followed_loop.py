"""Values of a loop that was followed (``loop_follower.py``), by the iteration that defines them.

While it is followed, an operation of the loop defines an ``IterationVar`` and no node.  When it is over, one loop node
stands for all iterations; a value that is read later is a row of the node's stacked results.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Atom, Var
from ..ir.site import Site
from .loop_body import Made
from .repeats import Key
from .row_rewrite import Array


class IterationVar(Var):
    """The value of an item (``source``: its loop and its number in the block) in one ``iteration`` of a loop."""

    __slots__ = ("iteration", "source")
    source: tuple[FollowedLoop, int]
    iteration: int


class FollowedLoop:
    """Values of one loop.  When it is over, ``stacks`` has them by item, for all iterations; but for those that are the
    same in every iteration, which are ``fixed``, and for ``arrays`` that are written row by row."""

    def __init__(self, trips: int, site: Site | None = None):
        self.trips, self.site = trips, site
        self.stacks: dict[Key, Atom] = {}
        self.arrays: dict[Key, tuple[Array, int]] = {}
        self.fixed: dict[int, Var] = {}
        self.recorded: dict[Var, tuple[int, int]] = {}  # (iteration, item) of those from before it was followed
        self.defined: set[Atom] = set()  # by nodes too

    def end(self, trips: int, made: Made, fixed: dict[int, Var]) -> None:
        self.trips, self.stacks, self.arrays, self.fixed = trips, made.stacks, dict(made.arrays), fixed

    def wholes(self, item: int) -> list[Atom]:
        """The stacked values of *item*, or its one value if it is loop-invariant."""
        fixed, written = self.fixed.get(item), self.arrays.get((item, 0))
        if written is not None:
            return list(written[0].stacks.values())
        return [self.stacks[item, 0] if fixed is None else fixed]

    def place(self, atom: Atom) -> tuple[int, int] | None:
        """The (iteration, item) of this loop that defined *atom*, or None."""
        if type(atom) is IterationVar:
            source = atom.source
            return (atom.iteration, source[1]) if source[0] is self and atom.iteration < self.trips else None
        return self.recorded.get(atom)  # type: ignore[arg-type]

    def pending(self, atom: Atom) -> tuple[int, int] | None:
        """As ``place``, but None where a node defines *atom*, too."""
        return None if atom in self.defined else self.place(atom)


def is_pending(loops: Sequence[FollowedLoop], atom: Atom) -> bool:
    """Whether *atom* is the value of an iteration of one of *loops* that no node defines yet."""
    return bool(loops) and any(loop.pending(atom) is not None for loop in loops)


def wholes_of(loops: Sequence[FollowedLoop], atom: Atom) -> list[Atom]:
    """Stacked values that hold *atom*, or values equal to it, if it is pending."""
    for loop in loops:
        place = loop.pending(atom)
        if place is not None:
            return loop.wholes(place[1])
    return []
