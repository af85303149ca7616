"""Values of many rows at once: what a rule of batching knows of the operands of a node, and helpers for such rules.

The *rows* of a value are one array with one more axis in front, along which the rows of the batch are stacked.  A value
that is the same in all rows has none: it stays as it is, and is stretched along the new axis where an operation needs
that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from ...tracer.ir.aval import Aval, Ints
from ...tracer.ir.errors import ShapeError
from ...tracer.ir.graph import Atom, Builder, Lit, Node, Var, bind, building, current_builder
from ...tracer.ops.elementwise import BROADCAST
from ...tracer.ops.shape import full


class StackedRows:
    """The values of a program for *size* rows at once, as far as it has been batched.

    ``stacked`` are the rows of each value that depends on the row; ``same`` are new names of values that do not.
    ``enter`` adds what further nodes compute.  Where *alive* is given (bool, (size,)), the results of other rows are
    dropped, and no loop may run for their sake.  *second*: it is the body of a loop, where the rows of what is indexed
    stand second in memory (``batched_carries.py``).
    """

    def __init__(
        self, size: int, stacked: Mapping[Var, Atom], walk: Walk, alive: Atom | None = None, second: bool = False
    ) -> None:
        self.size, self.alive, self.second, self._walk = size, alive, second, walk
        self.stacked: dict[Var, Atom] = {}
        self.same: dict[Var, Atom] = {}
        self._producers: dict[Var, Node] = {}
        self._seen: dict[int, int] = {}
        for var, atom in stacked.items():
            if atom.aval.shape != (size, *var.aval.shape) or atom.aval.dtype != var.aval.dtype:
                raise ShapeError.here(f"a batch of {size} rows of {var.aval} is no {atom.aval}")
            self.stacked[var] = atom

    def of(self, atom: Atom) -> Atom | None:
        """The rows of *atom*; None where it is the same in all."""
        return self.stacked.get(atom) if isinstance(atom, Var) else None

    def one(self, atom: Atom) -> Atom:
        """*atom*, the same in all rows, under the name that it has by now."""
        return self.same.get(atom, atom) if isinstance(atom, Var) else atom

    def whole(self, atom: Atom) -> Atom:
        """The rows of *atom*, stretched where it is the same in all."""
        found = self.of(atom)
        return in_front(self.one(atom), self.size) if found is None else found

    def enter(self, nodes: Sequence[Node], *, anew: bool = False) -> None:
        """Enter what *nodes* compute; *anew*: they are not in the builder in force, where all of it has to be computed,
        also what is the same in all rows."""
        self._walk(nodes, self, anew)

    def enter_rule(self, rule: Callable[[], Atom]) -> Atom:
        """The result of *rule*, which appends nodes of values of one row, for all rows."""
        with building(Builder()) as aside:
            found = rule()
        self.enter(aside.nodes, anew=True)
        return self.whole(found)

    def within(
        self, stacked: Mapping[Var, Atom], same: Mapping[Var, Atom], alive: Atom | None, second: bool = False
    ) -> StackedRows:
        """As many rows of another program, some of whose Vars are known."""
        rows = StackedRows(self.size, stacked, self._walk, alive, second)
        rows.same.update(same)
        return rows

    def differ(self, atoms: Iterable[Atom]) -> list[bool]:
        """Whether each of *atoms* depends on the row."""
        return [self.of(atom) is not None for atom in atoms]

    def producer(self, atom: Atom) -> Node | None:
        """The node of the builder in force that defines *atom*, if there is one."""
        if not isinstance(atom, Var):
            return None
        nodes = current_builder().nodes
        seen = self._seen.get(id(nodes), 0)
        for node in nodes[seen:]:
            self._producers.update(dict.fromkeys(node.outs, node))
        self._seen[id(nodes)] = len(nodes)
        return self._producers.get(atom)


# the rows of the results of a node; None for one that the rule has entered as the same in all rows
Rule: TypeAlias = Callable[[Node, StackedRows], Sequence[Atom | None]]
Walk: TypeAlias = Callable[[Sequence[Node], StackedRows, bool], None]


def in_front(x: Atom, size: int) -> Var:
    """*x* stretched along a new first axis."""
    if isinstance(x, Lit):
        return full(x, (size,))
    shape = x.aval.shape
    return bind(BROADCAST, x, shape=(size, *shape), dims=tuple(range(1, len(shape) + 1)))


def behind(x: Atom, shape: Ints) -> Atom:
    """*x* of shape (n,), stretched to *shape*, which begins with n."""
    return x if x.aval.shape == shape else bind(BROADCAST, x, shape=shape, dims=(0,))


def rows_var(var: Atom, size: int) -> Var:
    """A new Var for the rows of *var*."""
    return Var(Aval(var.aval.dtype, (size, *var.aval.shape)))
