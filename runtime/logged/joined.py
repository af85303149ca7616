"""The reads of several runs as those of one state.

Each way through the branches of a function reads places of its own.  What two ways have read holds at once when the
second one is recorded, so both may be kept under the reads of both: one state, one launch that goes from one way to
the other.  ``KnownReads`` are those of a state without the objects in it; ``join`` has a log read them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..state.own_items import CONTENTS
from ..state.snapshot import Checker, Snapshot
from ..state.state_graph import Leaf, StateNode
from .reads import NotClosedError, ReadLog, key_of

_SIZED = ("list", "dict", "set")
_ONLY_WRITTEN = {
    "sink",
    "history",
}  # kinds of containers that were only written to, but for items near the ends of lists


@dataclass(frozen=True, slots=True)
class _Found:
    """An object that was found, without the object; *edges* lead to a value, or to the object of this number."""

    kind: str
    label: str
    edges: tuple[tuple[str, Any, Leaf | int], ...]
    lacks: tuple[frozenset[str], frozenset[str]]  # of an instance: names that its class has, names that are absent
    whole: bool  # an instance all of whose attributes were read
    fixed: bool  # an array whose contents are compared
    length: int | None  # that a list has to have at the least, as in ``ReadLog.sized``


class KnownReads:
    """The reads of one state, that of *snapshot*, without the objects that stand there."""

    def __init__(self, reads: ReadLog, snapshot: Snapshot) -> None:
        nodes = snapshot.graph.nodes
        number = {id(node): k for k, node in enumerate(nodes)}

        def numbered(child: Leaf | StateNode) -> Leaf | int:
            return child if isinstance(child, Leaf) else number[id(child)]

        self.objects = [
            _Found(
                node.kind, node.label, tuple([(e.how, e.arg, numbered(e.child)) for e in node.edges]),
                *_lacking(node), node.fixed, _length(node),
            )
            for node in nodes
        ]  # fmt: skip
        self.roots = [numbered(root) for root in snapshot.graph.roots]
        self.inputs = [number[id(node)] for node in snapshot.inputs]
        self.around = reads.around()
        self._snapshot = snapshot
        self._find: Checker | None = None

    def now(self, objects: Sequence[Any]) -> tuple[Any, ...] | None:
        """The ``objects`` as they are now, for these among the arguments; None where it is another state."""
        if self._find is None:
            self._find = self._snapshot.checker("find", self._snapshot.full, self._snapshot.nodes)
        return self._find(*objects)


def join(reads: ReadLog, known: KnownReads, now: Sequence[Any]) -> list[StateNode] | None:
    """Have the log read all that is *known*, too, whose objects are these *now*; the nodes of its inputs, in the order
    that is known.  None where the run has inputs that are not known, or one of the two has as an input what the other
    one has as it is."""
    joint = _Joint(reads, known, now)
    try:
        return joint.inputs() if joint.fits() else None
    except NotClosedError:
        return None


class _Joint:
    def __init__(self, reads: ReadLog, known: KnownReads, now: Sequence[Any]) -> None:
        self.reads, self.known, self.now = reads, known, now
        self.nodes: dict[int, StateNode] = {}  # number of an object -> its node in the log

    def fits(self) -> bool:
        """Whether the run has had nothing in another form, and no inputs but those that are known."""
        if any(how == CONTENTS for known in self.known.objects for how, *_ in known.edges):
            return False  # of such items each run has a copy of its own
        roots, own = self.known.roots, self.reads.roots
        if [isinstance(root, Leaf) for root in roots] != [isinstance(root, Leaf) for root in own]:
            return False
        inputs, taken = set(self.known.inputs), set()
        for k, (known, obj) in enumerate(zip(self.known.objects, self.now, strict=True)):
            mine = self.reads.node_of(obj) if known.kind != "number" else None
            if mine is not None:
                taken.add(id(mine))
                if mine.kind != known.kind and not (
                    known.kind in _ONLY_WRITTEN and mine.kind in ("list", "dict", "set")
                ):
                    return False
                if known.kind == "array" and mine.fixed == (k in inputs):
                    return False
            for how, arg, child in known.edges:
                place = None if how == "noitems" else self._place(mine, how, arg, child)
                if place is not None and isinstance(place, Leaf) != isinstance(child, Leaf):
                    return False
                taken.add(id(place))
        return all(id(node) in taken for node in self.reads.inputs)

    def inputs(self) -> list[StateNode]:
        """Read what the run has not; the nodes of the inputs."""
        for root, own in zip(self.known.roots, self.reads.roots, strict=True):
            if isinstance(root, int) and isinstance(own, StateNode):
                self.nodes[root] = own
        self.reads.rest_on(self.known.around)
        pending = list(self.nodes)
        for k in pending:
            pending += self._parts(k)
        return [self.nodes[k] for k in self.known.inputs]

    def _parts(self, k: int) -> list[int]:
        """Read the parts of an object; the numbers of those that are met first here."""
        known, mine, new = self.known.objects[k], self.nodes[k], []
        self.reads.instance_lacks(mine, *known.lacks, known.whole)
        if mine.kind in _SIZED and known.kind != "sink":
            self.reads.sized(mine, known.length)
        for how, arg, child in known.edges:
            if how == "noitems":
                for name in arg:
                    self.reads.lacks(mine, name)
                continue
            found = self._place(mine, how, arg, child)
            if found is None:
                found, shown = self._found(child)
                self.reads.also(mine, how, arg, key_of(how, arg, self._value(child)), found, shown)
            if isinstance(child, int) and isinstance(found, StateNode) and child not in self.nodes:
                self.nodes[child] = found
                new.append(child)
        return new

    def _found(self, child: Leaf | int) -> tuple[Leaf | StateNode, Any]:
        """(what stands in a place that the run has not read, what it would get for it)"""
        if isinstance(child, Leaf):
            return child, child.value
        known = self.known.objects[child]
        return self.reads.found(self.now[child], known.kind, known.label, known.fixed)

    def _place(self, mine: StateNode | None, how: str, arg: Any, child: Leaf | int) -> Leaf | StateNode | None:
        """The value or node that the run has found in the place; None where it has not read it."""
        return self.reads.child(mine, how, key_of(how, arg, self._value(child)))

    def _value(self, child: Leaf | int) -> Any:
        return child.value if isinstance(child, Leaf) else self.now[child]


def _lacking(node: StateNode) -> tuple[tuple[frozenset[str], frozenset[str]], bool]:
    """``lacks`` and ``whole`` of an object."""
    if node.kind != "instance":
        return (frozenset(), frozenset()), False
    shadow, absent, everyone = node.extra
    return (shadow, absent), everyone is not None


def _length(node: StateNode) -> int | None:
    return node.extra if node.kind == "history" else None
