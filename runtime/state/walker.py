"""The nodes of what a run has read, and what the log rests on beside the places that were read."""

from __future__ import annotations

import types
from typing import Any

from ...tracer.ir.refusals import Reason, Refusal
from .libraries import LibrarySetting, leaf_setting
from .pins import ReadNames, can_change
from .state_graph import Leaf, StateNode
from .values import leaf_size

MAX_LEAVES = 10_000


class UnknownError(Exception):
    """Raised where going on makes no sense: too many leaves."""

    def __init__(self, reason: Reason):
        self.reason = reason


class Walker:
    """Each object becomes one node."""

    def __init__(self) -> None:
        self.attrs: dict[str, None] = {}  # names of attributes that were looked up
        self.roots: list[Leaf | StateNode] = []
        self.nodes: list[StateNode] = []
        self.tensors: dict[int, str] = {}  # id of each eager tensor that was met -> its name
        self.leaves_on_host: list[str] = []  # names of the eager tensors on the host that require gradients
        self.classes: dict[type, None] = {}  # classes whose lookups count
        self.stores: list[tuple[Any, dict[Any, Any], frozenset[str] | ReadNames | None]] = []  # see Pins
        self.lists: list[list[Any]] = []
        self.abstract = False  # whether classes may be asked for that others are registered with
        self.memo: dict[int, StateNode] = {}
        self.codes: dict[int, types.CodeType] = {}
        self.settings: dict[str, LibrarySetting] = {}  # settings of libraries that the run has read, by label
        self.main: dict[str, Any] | None = None
        self.leaves = 0

    def depends(self, setting: LibrarySetting) -> None:
        """Note that the answer depends on a setting of a library."""
        self.settings.setdefault(setting.label, setting)

    def node(self, kind: str, obj: Any, label: str, site: str, extra: Any = None) -> StateNode:
        node = StateNode(kind, obj, label, site, extra=extra)
        self.nodes.append(node)
        self.memo[id(obj)] = node
        return node

    def leaf(self, value: Any, by_value: bool) -> Leaf:
        self.leaves += leaf_size(value) if by_value else 1
        if self.leaves > MAX_LEAVES:
            raise UnknownError(Refusal.STATE_LARGE(count=MAX_LEAVES))
        if by_value:
            setting = leaf_setting(value)
            if setting is not None:
                self.depends(setting)
            self.pin_class(type(value))
        return Leaf(value, by_value)

    def pin_class(self, cls: type) -> None:
        """Have every change of what is looked up in a class noticed."""
        if any(map(can_change, cls.__mro__)):
            self.classes.setdefault(cls)
