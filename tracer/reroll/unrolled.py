"""Parts of a recording as they were before they were rolled (``inner_function.py``).

Python goes on after a part was rolled, and may read any value that it has kept of it: one of a list that the function
has filled, an attribute, a cell.  So the nodes that define the values which the rolled form has no more stay behind it,
in their order, with the guards that they were recorded under.  When all is over those go that nobody has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..ir.graph import Atom, Guard, Node
from ..record.recorder import Recorder
from .repeats import Item


@dataclass(slots=True, eq=False)
class Unrolled:
    """Items that define what the rolled form of a part does not: *nodes*, and *guards* under which their values are
    right."""

    nodes: list[Node]
    guards: list[Guard]

    @property
    def items(self) -> list[Item]:
        return [*self.nodes, *self.guards]


def unread(items: Sequence[Item], roots: Iterable[Atom], every: Iterable[Unrolled]) -> list[Unrolled]:
    """Those of *every* unrolled part of which nothing is read, by *roots* or by *items* of none."""
    every = list(every)
    if not every:
        return []
    there = set(map(id, items))
    parts = [part for part in every if any(id(item) in there for item in part.items)]
    if not parts:
        return []
    owner: dict[Atom, Unrolled] = {out: part for part in parts for node in part.nodes for out in node.outs}
    own = {id(item) for part in parts for item in part.items}
    found: dict[Unrolled, None] = {}
    todo = list(roots)
    for item in items:
        if id(item) not in own:
            todo += _reads(item)
    seen: set[Atom] = set()
    while todo:
        atom = todo.pop()
        if atom in seen:
            continue
        seen.add(atom)
        part = owner.get(atom)
        if part is not None and part not in found:
            found[part] = None
            for item in part.items:
                todo += _reads(item)
    return [part for part in parts if part not in found]


def drop_unread(recorder: Recorder, roots: Sequence[Atom]) -> None:
    """Remove the unrolled parts of a recording of which nothing is read; the others are as other items."""
    gone = unread(recorder.items, roots, recorder.unrolled)
    recorder.unrolled = []
    if not gone:
        return
    ids = {id(item) for part in gone for item in part.items}
    places = [k for k, item in enumerate(recorder.items) if id(item) not in ids]
    recorder.nodes = [node for node in recorder.nodes if id(node) not in ids]
    recorder.guards = [guard for guard in recorder.guards if id(guard) not in ids]
    recorder.items, recorder.sites = [recorder.items[k] for k in places], [recorder.sites[k] for k in places]


def _reads(item: Item) -> Sequence[Atom]:
    return item.inputs if isinstance(item, Node) else (item.atom,)
