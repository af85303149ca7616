"""The nodes of a marked iteration, apart by whether they depend on its symbols, and what is wanted of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ir.graph import Atom, Guard, Node, Var, reals
from ..ir.site import Site
from .marked import Marked


@dataclass
class Wanted:
    """Values that are wanted of an iteration.  ``ends``: the atom after it of each symbol that is carried.  ``last``:
    further values, of the last iteration, and what each is where there is none.  ``rows``: values of every iteration,
    and ``earlier`` what they were in the iterations before, the last first.
    ``stops``: whether the loop ends by itself, where ``go_on`` is False or a question has another answer."""

    ends: dict[Var, Atom]
    last: list[tuple[Atom, Atom | None]] = field(default_factory=list)
    rows: list[Atom] = field(default_factory=list)
    earlier: list[Sequence[Atom]] = field(default_factory=list)
    stops: bool = False
    go_on: Atom | None = None


@dataclass
class LoopResults:
    """The results of a loop, in the order of what was wanted.  ``taken``: the number of iterations of one that stops;
    ``asks``: whether it may have stopped before its own end, at a question; ``told``: what it means of these questions
    that it has not, and the line."""

    finals: dict[Var, Atom]
    last: list[Atom]
    stacked: list[Atom]
    taken: Atom | None = None
    asks: bool = False
    told: tuple[tuple[str, str], Site | None] | None = None


class Cut:
    """The nodes of *marked*, apart by whether they depend on its symbols."""

    def __init__(self, marked: Marked, wanted: Wanted) -> None:
        self.marked, self.wanted, self.recorder = marked, wanted, marked.recorder
        carries = marked.carries.values()
        self.known: dict[Atom, Atom] = {c.symbol: c.before for c in carries if wanted.ends[c.symbol] is c.symbol}
        self.carries = [c for c in carries if c.symbol not in self.known]
        self.inside: set[Atom] = {*[c.symbol for c in self.carries], *marked.forms}
        self.body: list[Node] = []
        self.outside: dict[int, Node] = {}  # by the id of the node as it was recorded
        symbols = {*self.known, *self.inside}
        for node in self.recorder.nodes[marked.nodes :]:
            if node.outs[0] in symbols:
                continue
            node, before = node.on(tuple([self.known.get(x, x) for x in node.inputs])), node
            if self.inside.isdisjoint(node.inputs):
                self.outside[id(before)] = node
            else:
                self.body.append(node)
                self.inside.update(node.outs)

    def depends(self, atom: Atom) -> bool:
        """Whether *atom* may differ from iteration to iteration."""
        return any(self.known.get(x, x) in self.inside for x in reals(atom))

    def keeps_row(self) -> bool:
        """Whether a value of one row of a batch is wanted, which the iteration has made."""
        wanted, marked = self.wanted, self.marked
        rows: set[Atom] = {var for batch in self.recorder.stand_ins.rows[marked.batches :] for var in batch}
        for node in self.recorder.nodes[marked.nodes :] if rows else ():
            if not rows.isdisjoint(node.inputs):
                rows.update(node.outs)
        return not rows.isdisjoint([*wanted.ends.values(), *wanted.rows, *[atom for atom, _ in wanted.last]])

    def guards(self) -> list[Guard]:
        """Guards on what was asked in this iteration, and may be answered otherwise in another one."""
        return [g for g in self.recorder.guards[self.marked.guards :] if self.depends(g.atom)]

    def asks(self) -> bool:
        """Whether anything was asked, or presumed, that may be answered otherwise in another iteration."""
        premise = self.recorder.premise
        return bool(self.guards()) or (premise is not None and self.depends(premise.atom))
