"""The outside state of a callable as a graph: one node per object, one edge per way to reach a part of it.

Four data structures: ``Leaf`` (an immutable value), ``StateNode`` (an object with parts), ``Edge`` (how a part is
reached) and ``StateGraph`` (all of it, with the reasons why it may not be provable). The walk that makes it is in
``walk.py``; ``checker.py`` turns it into a key and a checker, ``rebuild.py`` into a copy with other arrays.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Hashable, Set
from dataclasses import dataclass, field, fields
from typing import Any

from ...tracer.ir.refusals import Reason
from .kept_list import Part
from .libraries import LibrarySetting
from .pins import Pins
from .uses import READ, Uses

_READ: Set[Hashable] = frozenset((READ,))
MAX_CONTENT = 1 << 20  # bytes of an array that is guarded by its contents

Chains = dict[tuple[str, ...], str]  # attribute chain -> where it is read, "model.py:12"


@dataclass(slots=True)
class Leaf:
    """A value without parts: compared by value (``by_value``) or by identity.

    *effect*: the function does nothing else in this place than to count it up (``count``, which is compared by type)
    or to store something there (``store``, which is not compared)."""

    value: Any
    by_value: bool
    effect: str = ""


@dataclass(slots=True, eq=False)
class StateNode:
    """An object with parts. ``kind`` says how it is guarded and rebuilt; see ``checker.py``, ``rebuild.py``.

    ``sub`` and ``fixed`` are set at the end: reached on a way on which every object can be replaced by a copy, and
    reached on one where some object (a class) can't. An array that is ``fixed`` is guarded by its contents.
    """

    kind: str
    obj: Any
    label: str
    site: str
    edges: list[Edge] = field(default_factory=list)
    extra: Any = None
    sub: bool = False
    fixed: bool = False
    changes: bool = False  # a container that the function may change in any way, of which a run has a copy
    hashed: bool = False  # a key of a dict, or an element of a set
    native: bool = False  # names or items are compared by the pins, but those in `loose`
    loose: Collection[Any] = ()

    def edge(self, how: str, arg: Any, child: Leaf | StateNode, fixed: bool = False) -> None:
        self.edges.append(Edge(how, arg, child, fixed))


# Objects that can be changed: where one is reached on a fixed way too, a copy beside the original would come apart.
_MUTABLE = {"list", "dict", "instance", "module", "set", "sink", "history"}


def holds_copies(node: StateNode) -> bool:
    """Whether the node can be replaced by a copy with other parts."""
    return not (node.fixed and (node.kind in _MUTABLE or (node.hashed and node.kind == "function")))


def mark(roots: list[Leaf | StateNode], nodes: list[StateNode]) -> None:
    """Set ``sub`` and ``fixed`` of all nodes."""
    count = -1
    while count != (count := sum(node.fixed for node in nodes)):
        for node in nodes:
            node.sub = False
        stack: list[tuple[Leaf | StateNode, bool]] = [(root, False) for root in roots]
        seen: set[tuple[int, bool]] = set()
        while stack:
            child, fixed = stack.pop()
            if isinstance(child, Leaf) or (id(child), fixed) in seen:
                continue
            seen.add((id(child), fixed))
            child.sub |= not fixed
            child.fixed |= fixed
            fixed |= not holds_copies(child)
            stack += [(e.child, e.fixed or (fixed and e.how != "class")) for e in child.edges]


@dataclass(slots=True)
class Edge:
    """The access from an owner to its part: ``how`` is one of

    ``global`` (globals dict, name), ``builtin`` (globals dict, name), ``noglobal``, ``cell``, ``emptycell``,
    ``context`` (the value of a context variable),
    ``attr`` name, ``noattr`` name, ``noitems`` names (none of them in its ``__dict__``), ``item`` index, ``key`` key,
    ``plain`` (the array that one in another form is),
    ``items`` (of an object of a subclass of ``list`` or ``dict``), ``element`` index (of a set), ``class`` (class,
    name; not fixed: while a function is recorded, the class has another part there), ``const`` (the part of an object
    that can't change), ``import`` module name, ``quiet`` name (in the key, not in the checker), ``store`` name (an
    attribute that is only assigned, present or not), ``stream`` name (``sys.stdout``, whatever it is), ``member`` (dict
    of an object that is compared by identity, another that has the same entry or None, name).
    """

    how: str
    arg: Any
    child: Leaf | StateNode
    fixed: bool
    stored: bool = False  # the function may store something here, of which a run has a copy
    unread: bool = False  # and does nothing else with it


def is_stored(edge: Edge) -> bool:
    """Whether the function may store something in the place."""
    return edge.stored or (isinstance(edge.child, Leaf) and bool(edge.child.effect))


def variable_of(node: StateNode, edge: Edge) -> Hashable:
    """The global or outer variable that is reached, which other functions may read; None for other parts."""
    if edge.how == "attr" and isinstance(node.obj, types.ModuleType):
        return id(node.obj.__dict__), edge.arg
    return (id(edge.arg[0]), edge.arg[1]) if edge.how == "global" else id(edge.arg) if edge.how == "cell" else None


@dataclass(slots=True)
class Names:
    """The attribute names that count, over all code reached; grows until it is stable."""

    attrs: dict[str, None] = field(default_factory=dict)
    compares: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)  # names given to getattr and hasattr, or all under an except clause
    supers: bool = False  # super() occurs: overridden methods count too
    everything: bool = False  # attribute names are computed somewhere: all attributes count
    absence: bool = False  # a missing attribute can be noticed
    dates: bool = False  # NumPy's dates occur
    formats: bool = False  # texts of values are made
    moment: str = ""  # where text occurs that is the present time to NumPy
    effects: bool = False  # whether effects are replayed
    holders: bool = False  # whether objects of classes in ``HELD`` (``effect_places.py``) may be inputs
    texts: set[str] = field(default_factory=set)  # constants that are short texts: keys of dicts
    uses: Uses = field(default_factory=dict)
    contents: set[str] = field(default_factory=set)  # labels of arrays that are guarded by their contents
    changed: set[str] = field(default_factory=set)  # labels of what runs have changed
    varying: set[Any] = field(default_factory=set)  # places of numbers that have had several values, and are inputs
    varies: bool = True  # whether there may be such
    grown: dict[str, set[Part]] = field(default_factory=dict)  # labels of lists that grow -> what runs read of them
    unbound: bool = False  # a list's own items may be read, or changed, past its methods (`list.sort(x)`, heapq)
    read: set[int] = field(default_factory=set)  # ids of containers that are no sinks (``effect_places.py``)
    no_sparing: set[types.CodeType] = field(default_factory=set)  # code that is analysed where it fails, too

    def state(self) -> tuple[int, ...]:
        sets = self.attrs, self.compares, self.called, self.asked, self.read, self.no_sparing, self.texts, self.grown
        flags = self.supers, self.everything, self.absence, self.dates, self.formats, bool(self.moment), self.unbound
        counts = sum(map(len, self.uses.values())), sum(map(len, self.grown.values()))
        return *map(len, sets), *counts, *flags

    @property
    def changes(self) -> bool:
        """Whether the code may do anything else than read what is found under some name, or change a container."""
        return bool(self.changed) or any(found != _READ for found in self.uses.values())

    def used(self, kind: str, name: str) -> Set[Hashable]:
        """The uses of what is found under a name."""
        return self.uses.get((kind, name), _READ) if self.effects and not self.everything else _READ

    def copy(self) -> Names:
        """The same names, to grow apart; what is an id counts for one walk."""
        return Names(**{f.name: _copied(getattr(self, f.name)) for f in fields(self) if f.name != "read"})


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return set(value) if isinstance(value, set) else value


@dataclass(slots=True)
class StateGraph:
    roots: list[Leaf | StateNode] = field(default_factory=list)  # the callable, then the objects
    nodes: list[StateNode] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    codes: dict[int, types.CodeType] = field(default_factory=dict)
    main: dict[str, Any] | None = None  # the globals of the callable itself
    names: Names = field(default_factory=Names)
    settings: list[LibrarySetting] = field(default_factory=list)
    tensors: dict[int, str] = field(default_factory=dict)  # id of each eager tensor in the state -> its name
    optimizers: list[Any] = field(default_factory=list)
    on_device: list[str] = field(default_factory=list)  # names of the eager tensors on a CUDA device
    leaves_on_host: list[str] = field(default_factory=list)  # eager tensors on the host that require gradients
    numbers: dict[Any, float] = field(default_factory=dict)  # that can be inputs, by their places
    suspects: list[str] = field(default_factory=list)  # labels of containers that the function may read and change
    here: str = ""  # why what a run has read says nothing of other processes
    pins: Pins = field(init=False)
