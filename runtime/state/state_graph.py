"""The outside state that a run has read, as a graph: one node per object, one edge per way to reach a part of it.

Four data structures: ``Leaf`` (an immutable value), ``StateNode`` (an object with parts), ``Edge`` (how a part is
reached) and ``StateGraph`` (all of it).  The log of a run makes it (``runtime/logged/reads.py``); ``checker.py`` turns
it into a key and a checker.
"""

from __future__ import annotations

import types
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from .libraries import LibrarySetting, leaf_setting
from .pins import Pins, Store, can_change
from .values import leaf_size

LENGTH = "length"  # the part of a list that its length is
VALUES = "values"  # all items of a long list of numbers (``LongList``)
MAX_CONTENT = 1 << 20  # bytes of an array that is guarded by its contents


@dataclass(slots=True)
class Leaf:
    """A value without parts: compared by value (``by_value``) or by identity."""

    value: Any
    by_value: bool


@dataclass(slots=True, eq=False)
class StateNode:
    """An object with parts. ``kind`` says how it is guarded; see ``checker.py``."""

    kind: str
    obj: Any
    label: str
    edges: list[Edge] = field(default_factory=list)
    extra: Any = None
    fixed: bool = False  # an array that is no input: guarded by its contents; an object that the run gets as it is
    native: bool = False  # names or items are compared by the pins, but those in `loose`
    loose: Collection[Any] = ()

    def parts(self) -> list[Edge]:
        """The edges, one for each item where all were read at once."""
        if all(edge.how != VALUES for edge in self.edges):
            return self.edges
        every = [enumerate(edge.child.value.items) for edge in self.edges if edge.how == VALUES]  # type: ignore[union-attr]
        found = {k: Edge("item", k, Leaf(value, True)) for items in every for k, value in items}
        found |= {edge.arg: edge for edge in self.edges if edge.how == "item"}
        return [*found.values(), *[edge for edge in self.edges if edge.how not in ("item", VALUES)]]


@dataclass(slots=True)
class Edge:
    """The access from an owner to its part: ``how`` is one of

    ``global`` (globals dict, name), ``builtin`` (globals dict, builtins dict, name), ``cell``, ``context`` (the value
    of a context variable),
    ``attr`` name, ``noattr`` name, ``noitems`` names (none of them in its ``__dict__``), ``item`` index, ``key`` key,
    ``plain`` (the array that one in another form is),
    ``items`` (of an object of a subclass of ``list`` or ``dict``), ``element`` index (of a set), ``class`` (class,
    name), ``const`` (the part of an object
    that can't change), ``import`` module name, ``quiet`` name (in the key, not in the checker), ``length``,
    ``values`` (all items of a long list of numbers).
    """

    how: str
    arg: Any
    child: Leaf | StateNode


@dataclass(slots=True)
class StateGraph:
    """Each object becomes one node.  The log adds them as it reads, with what it rests on beside the places."""

    roots: list[Leaf | StateNode] = field(default_factory=list)  # the callable, then the objects
    nodes: list[StateNode] = field(default_factory=list)
    memo: dict[int, StateNode] = field(default_factory=dict)  # id of an object -> its node
    codes: dict[int, types.CodeType] = field(default_factory=dict)
    main: dict[str, Any] | None = None  # the globals of the callable itself
    attrs: dict[str, None] = field(default_factory=dict)  # names of attributes that were looked up
    classes: dict[type, None] = field(default_factory=dict)  # classes whose lookups count
    stores: list[Store] = field(default_factory=list)
    lists: list[list[Any]] = field(default_factory=list)
    abstract: bool = False  # whether classes may be asked for that others are registered with
    settings: dict[str, LibrarySetting] = field(default_factory=dict)  # of libraries, that were read, by label
    leaves: int = 0  # how many values there are
    tensors: dict[int, str] = field(default_factory=dict)  # id of each eager tensor in the state -> its name
    leaves_on_host: list[str] = field(default_factory=list)  # eager tensors on the host that require gradients
    here: str = ""  # why what a run has read says nothing of other processes
    pins: Pins = field(init=False)

    def node(self, kind: str, obj: Any, label: str, extra: Any = None) -> StateNode:
        """A new node of *obj*."""
        node = self.memo[id(obj)] = StateNode(kind, obj, label, extra=extra)
        self.nodes.append(node)
        return node

    def leaf(self, value: Any) -> Leaf:
        """A value that is compared as a whole."""
        self.leaves += leaf_size(value)
        setting = leaf_setting(value)
        if setting is not None:
            self.depends(setting)
        self.pin(type(value))
        return Leaf(value, True)

    def depends(self, setting: LibrarySetting) -> None:
        """The answer depends on a setting of a library."""
        self.settings.setdefault(setting.label, setting)

    def pin(self, cls: type) -> None:
        """Let lookups in *cls* count."""
        if any(map(can_change, cls.__mro__)):
            self.classes.setdefault(cls)
