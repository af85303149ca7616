"""Loops of an inner function, one that a transform (a gradient, a tangent, a batch) is taken of within a recording.

The transform rewrites the nodes that the function has recorded; so its loops have to be loop nodes before.  When its
Python is over, the part of the recording since it began is rolled as a whole recording is (``roll.py``), in its place.

Some things differ from the end of a recording.  Nobody knows which values Python has kept and will read later: what
the rolled form does not define stays behind it until the end (``unrolled.py``).  What was recorded before the part may
be asked for again in it: such nodes are put in front of it as long as it is rolled, so that they are no part of a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy

from ..ir.evaluate import Producers
from ..ir.graph import Atom, Guard, Node, Var, live_nodes
from ..ir.primitive import LOOP
from ..ir.site import Site
from ..ops.complex import real_atoms
from ..record.recorder import Recorder, recording
from .find import LONG, LOOP_WEIGHT, MIN_TRIPS
from .repeats import FEW_TRIPS, Item
from .roll import roll
from .unrolled import Unrolled, unread


class InnerFunction:
    """The part of *recorder* that an inner function records, which runs next."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.nodes, self.items, self.guards = len(recorder.nodes), len(recorder.items), len(recorder.guards)
        self.unrolled = len(recorder.unrolled)

    def rolled(self, roots: Sequence[Atom]) -> list[Node]:
        """The nodes of the part behind *roots*, its results, and its guards, with loop nodes in place of repeats.

        No value gets another name."""
        recorder, roots = self.recorder, real_atoms(roots)
        if recorder.rolls and not recorder.arms and self._may_repeat():
            self._roll([*roots, *recorder.relied_on()])
        apart = {id(guard) for part in self._unread(roots) for guard in part.guards}
        asked = [guard.atom for guard in recorder.guards[self.guards :] if id(guard) not in apart]
        part = recorder.nodes[self.nodes :]
        found = live_nodes(part, [*roots, *asked])
        own = set(map(id, found))
        recorder.disown([node for node in part if id(node) not in own])  # a transform of the others would miss them
        return found

    def _unread(self, roots: Sequence[Atom]) -> list[Unrolled]:
        """Loops as they were before they were rolled, of which nobody has read anything yet."""
        recorder = self.recorder
        return unread(recorder.items[self.items :], roots, recorder.unrolled[self.unrolled :])

    def _may_repeat(self) -> bool:
        """Whether there may be a loop in the part: a quick look."""
        items, sites = self.recorder.items, self.recorder.sites
        count = len(items) - self.items
        if count < MIN_TRIPS:
            return False
        most = max(Counter(map(id, sites[self.items :])).values())
        if most >= MIN_TRIPS:
            return True
        if most < FEW_TRIPS:
            return False
        loops = sum(isinstance(item, Node) and item.prim.kind == LOOP for item in items[self.items :])
        return count + LOOP_WEIGHT * loops >= LONG

    def _roll(self, roots: Sequence[Atom]) -> None:
        """Roll the part but for what inner functions within have rolled, and put what it becomes in its place."""
        recorder = self.recorder
        items, sites = recorder.items[self.items :], recorder.sites[self.items :]
        own = recorder.nodes[self.nodes :]
        if len(own) != len({id(item) for item in items}.intersection(map(id, own))):
            return
        aside = self._unread(roots)
        apart = {id(item) for part in aside for item in part.items}
        places = [k for k, item in enumerate(items) if id(item) not in apart]
        own = [node for node in own if id(node) not in apart]
        front = _recorded_before([items[k] for k in places], own)
        part = self._part(
            [*front, *[items[k] for k in places]],
            [*[Site("", 0, "") for _ in front], *[sites[k] for k in places]],  # each another object: no loop
        )
        part.nodes = [*front, *own]
        asked = part.guards.copy()
        with recording(part):
            changed = roll(part, roots, guarded=not recorder.live)
        if not changed:
            return
        recorder.notes += [note for note in part.notes if note not in recorder.notes]
        before = {out for node in front for out in node.outs}
        nodes = [node for node in part.nodes if not before.issuperset(node.outs)]
        guards, gone = self._guards_after(part, asked)
        left = Unrolled(_without(own, {out for node in nodes for out in node.outs}), gone)
        recorder.unrolled[self.unrolled :] = [left, *aside]
        rest: list[Item] = [item for item in items if id(item) in apart]
        recorder.disown([*own, *gone])
        recorder.rewrite(self.nodes, self.items, self.guards, [*nodes, *guards, *left.items, *rest])
        for node in nodes:
            recorder.know(node)

    def _guards_after(self, part: Recorder, asked: Sequence[Guard]) -> tuple[list[Guard], list[Guard]]:
        """(the guards of the rolled *part* itself, those of *asked*, which it was recorded under, that are gone)"""
        earlier = set(map(id, self.recorder.guards[: self.guards])) if asked else set()
        guards = [guard for guard in part.guards if id(guard) not in earlier]
        kept = earlier.union(map(id, guards))
        return guards, [guard for guard in asked if id(guard) not in kept]

    def _part(self, items: list[Item], sites: list[Site | None]) -> Recorder:
        """A recorder of *items* alone, which shares constants and values with that of the whole."""
        part = copy(self.recorder)
        part.items, part.sites = items, sites
        guards = {id(item): item for item in items if isinstance(item, Guard)}
        part.guards, part.notes, part.unrolled = list(guards.values()), [], []
        part._seen, part._producers = {}, Producers()
        part._from_outside, part.stand_ins = part._from_outside.copy(), part.stand_ins.copy()  # of other nodes
        return part


def _recorded_before(items: Sequence[Item], own: Sequence[Node]) -> list[Node]:
    """The nodes among *items* that are none of the part's *own*: it has asked for them again."""
    ids = set(map(id, own))
    found = {id(item): item for item in items if isinstance(item, Node) and id(item) not in ids}
    return list(found.values())


def _without(nodes: Sequence[Node], names: set[Var]) -> list[Node]:
    """Those of *nodes* that define more than *names*, which are defined elsewhere."""
    left: list[Node] = []
    for node in nodes:
        if names.issuperset(node.outs):
            continue
        if not names.isdisjoint(node.outs):
            outs = tuple([Var(out.aval) if out in names else out for out in node.outs])
            node = Node(node.prim, node.inputs, node.params, outs, node.site)
        left.append(node)
    return left
