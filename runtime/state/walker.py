"""One walk over the outside state, and the registry of those who know the values that it meets.

A *visitor* makes the leaf or the node of a value: ``visitor(walker, value, label, site)``. It is registered for values
of one class (``OF_CLASS``) or for those of its subclasses too (``OF_SUBCLASSES``, where the nearest base decides; the
visitor of ``object`` is asked last). Visitors of Python's own types are in ``walk.py``, ``modules.py`` and
``objects.py``; libraries above the compiler register their own.
"""

from __future__ import annotations

import types
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from ...tracer.ir.refusals import Reason, Refusal
from .libraries import LibrarySetting, is_date_type, is_moment, leaf_setting
from .pins import ReadNames, can_change, covered
from .state_graph import Chains, Edge, Leaf, Names, StateNode
from .trust import Trust
from .values import is_leaf, leaf_size

MAX_LEAVES = 10_000
MAX_DEPTH = 100
# Objects that are looked at on ways through installed packages; fewer where Python has to run for another reason.
MAX_IN_PACKAGES, MAX_MORE = 1500, 150

Visitor = Callable[..., Leaf | StateNode]  # (walker, value, label, site); that of modules also takes attribute chains
OF_CLASS: dict[type, Visitor] = {}
OF_SUBCLASSES: dict[type, Visitor] = {}


def _visitor(kind: type) -> Visitor:
    found = OF_CLASS.get(kind)
    return found if found is not None else next(OF_SUBCLASSES[b] for b in kind.__mro__ if b in OF_SUBCLASSES)


class UnknownError(Exception):
    """Raised inside the walk where going on makes no sense (too many leaves, nested too deeply)."""

    def __init__(self, reason: Reason):
        self.reason = reason


class Walker:
    """One walk over the state. ``visit`` hands each value to the visitor of its class; each object becomes one node."""

    def __init__(self, trust: Trust, names: Names, most: int = MAX_IN_PACKAGES) -> None:
        self.trust = trust
        self.names = names
        self.roots: list[Leaf | StateNode] = []
        self.labels: tuple[str, ...] = ()  # of the roots after the first
        self.nodes: list[StateNode] = []
        self.tensors: dict[int, str] = {}  # id of each eager tensor that was met -> its name
        self.met: Counter[int] = Counter()  # how often each of these was met where it counts by identity
        self.on_device: list[str] = []  # names of the eager tensors on a CUDA device
        self.leaves_on_host: list[str] = []  # names of the eager tensors on the host that require gradients
        self.memory: list[Any] = []  # arrays that they show
        self.optimizers: list[Any] = []
        self.numbers: dict[Any, float] = {}  # (label of the owner, name) of places that a run has copies of
        self.classes: dict[type, None] = {}  # classes whose lookups count
        self.stores: list[tuple[Any, dict[Any, Any], frozenset[str] | ReadNames | None]] = []  # see Pins
        self.loose: dict[int, set[str]] = {}  # id of a dict of these -> names whose values do not count there
        self.stored: list[Edge] = []  # to places where the function may store something
        self.suspects: list[str] = []  # labels of containers that it may read and change
        self.lists: list[list[Any]] = []
        self.variables: dict[Any, StateNode] = {}  # numbers in global and outer variables that are inputs
        self.abstract = False  # whether classes may be asked for that others are registered with
        self.memo: dict[int, StateNode] = {}
        self.grown: dict[int, set[Any]] = {}  # id of a container, of whose items some only grow -> how they do
        self.reasons: dict[Reason, None] = {}
        self.codes: dict[int, types.CodeType] = {}
        # Code that is only called where the code around it fails, which is not walked, and that code.
        self.spared: list[tuple[types.CodeType | None, list[types.CodeType]]] = []
        self.settings: dict[str, LibrarySetting] = {}  # settings of libraries that the code reads, by label
        self.main: dict[str, Any] | None = None
        self.leaves = 0
        self.depth = 0
        self.within: tuple[str, str] | None = None  # the package through which the walk goes, where it was entered
        self.inside, self.most = 0, most  # objects on such ways
        # Nodes whose parts are still to be walked, each with the package on the way to it.
        self.pending: deque[tuple[tuple[str, str] | None, Callable[[], None]]] = deque()

    # ---- small tools

    def depends(self, setting: LibrarySetting) -> None:
        """Note that the answer depends on a setting of a library."""
        self.settings.setdefault(setting.label, setting)

    def refuse(self, refusal: Refusal, what: Any, site: str, **fields: Any) -> None:
        self.reasons.setdefault(refusal(what=what, site=site, **fields))

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
            self.names.dates |= is_date_type(value)
            self.pin_class(type(value))
            if is_moment(value):
                self.names.moment = self.names.moment or "its state"
        return Leaf(value, by_value)

    def unknown(self, refusal: Refusal, value: Any, label: str, site: str, **fields: Any) -> Leaf:
        name = type(value).__qualname__
        module = type(value).__module__
        full = name if module == "builtins" else f"{module.removesuffix('._generator')}.{name}"
        self.refuse(refusal, f"`{label}` ({full})", site, **fields)
        return Leaf(value, False)

    def later(self, fill: Callable[[], None]) -> None:
        """Have the parts of a node walked once those around it have been met."""
        self.pending.append((self.within, fill))

    def walk_pending(self) -> None:
        while self.pending:
            self.within, fill = self.pending.popleft()
            fill()
        self.within = None

    def enter(self, owner: types.FunctionType | type | types.ModuleType, site: str) -> None:
        """Note that what comes now is reached through the package of *owner*, if it is from one."""
        package = "" if self.within is not None else self.trust.package(owner)
        if package:
            self.within = package, site

    def _room(self, value: Any) -> bool:
        """Whether one more object is looked at."""
        if self.within is None or id(value) in self.memo:
            return True
        self.inside += 1
        most = MAX_MORE if self.reasons else self.most
        if self.inside > most:
            package, site = self.within
            self.refuse(Refusal.STATE_PACKAGE, package, site, count=most)
        return self.inside <= most

    # ---- what is compared by its owner's version, or by identity

    def pin_class(self, cls: type) -> None:
        """Have every change of what is looked up in a class noticed."""
        if any(map(can_change, cls.__mro__)):
            self.classes.setdefault(cls)

    def pin_absence(self, owner: Any) -> None:
        """Have attributes noticed that an object may get: those whose names count and which it has not."""
        store, names = owner.__dict__, self.names.attrs.keys()
        if self.names.everything:
            self.stores.append((owner, store, None))
            return
        wanted = frozenset(names - store.keys()) if self.names.absence else covered(type(owner), names - store.keys())
        if wanted:
            self.stores.append((owner, store, wanted))

    # ---- values

    def visit(self, value: Any, label: str, site: str, chains: Chains | None = None) -> Leaf | StateNode:
        """The leaf or node of a value; ``chains`` are the attribute chains that the code reads from it."""
        if is_leaf(value):
            return self.leaf(value, True)
        if not self._room(value):
            return Leaf(value, False)
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                raise UnknownError(Refusal.STATE_DEEP(count=MAX_DEPTH, what=label, site=site))
            if issubclass(type(value), types.ModuleType):
                return OF_CLASS[types.ModuleType](self, value, label, site, chains or {(): site})
            known = self.memo.get(id(value))
            if known is not None and (known.kind == "sink" or id(value) in self.grown):  # read on this way
                self.names.read.add(id(value))
            return known if known is not None else _visitor(type(value))(self, value, label, site)
        finally:
            self.depth -= 1
