"""The same callable over other arrays: copies of functions and containers in which every captured array is replaced.

Start reading at ``Substitution``. Only what leads to an array is copied; nothing of the user's is changed, not even
for a moment. A function gets new cells and an ``Overlay`` as its globals, which holds the replaced names and looks
everything else up in the real ones. Because a run may change the copies (``self.calls += 1`` on a copied ``self``),
``writeback`` carries such changes over to the originals afterwards.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tracer.bytecode.records import dict_of
from ...tracer.bytecode.shown_names import as_called, is_known_module, stand_in
from ...tracer.control.jitted import JittedOver
from ...tracer.ir.errors import MutationError
from ...tracer.ir.interrupts import kept, surely
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.record.integers import TracedInt
from ...tracer.record.reports import KeptFile, KeptLogger, is_written
from ..memo import MEMO
from .kept_cache import ANY, KeptCache
from .kept_list import LENGTH, KeptList, Part, kept_class
from .pins import MISSING, home, lookup
from .state_graph import Edge, Leaf, StateGraph, StateNode, holds_copies, is_stored, variable_of
from .uses import STORE
from .values import is_empty, is_leaf, unchanged

Wrap = Callable[[Any, str], Any]


class _Standing(threading.local):
    inside: tuple[Substitution, ...] = ()  # those whose parts stand in classes now, for runs of this thread


_standing = _Standing()


def _leave_again(before: tuple[Substitution, ...]) -> None:
    for inside in _standing.inside[len(before) :]:
        inside._leave_classes()
    _standing.inside = before


kept(lambda: _standing.inside, _leave_again)
_MOST_LOOKED_AT = 2000  # objects behind one that a run is handed
_COPIED_NAMES = ("__name__", "__package__", "__spec__", "__file__", "__path__", "__loader__", "__doc__")


class Overlay(dict):
    """Globals with some names replaced; the rest is read live from the real ones."""

    def __init__(self, below: dict[str, Any], builtins: Any) -> None:
        super().__init__((name, below[name]) for name in _COPIED_NAMES if name in below)
        self["__builtins__"] = builtins
        self._below = below

    @property
    def below(self) -> dict[str, Any]:
        """The real globals."""
        return self._below

    def __missing__(self, name: str) -> Any:
        return as_called(self._below[name], sys._getframe(1))

    def get(self, name: str, default: Any = None) -> Any:
        """As of the real globals, which proofs ask."""
        return dict.get(self, name, self._below.get(name, default))


class ModuleCopy(types.ModuleType):
    """Stands for a module in a run, and knows the names that were *written*, even if all is as it was."""

    __slots__ = ("written",)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        object.__setattr__(self, "written", set())

    @property
    def __class__(self) -> Any:
        return types.ModuleType

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise MutationError.here("the run of a compiled function can't give a module another class")

    def __setattr__(self, name: str, value: Any) -> None:
        self.written.add(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self.written.add(name)
        super().__delattr__(name)


class Pictures:
    """The contents of objects of a state of which a run has no copies, before the run; ``kept``: what the run has done
    to them stays."""

    def __init__(self, nodes: Iterable[StateNode]) -> None:
        self.kept = False
        kinds = ("list", "dict", "set", "instance", "module", "class")
        self._before = [(node, _picture(node)) for node in nodes if node.kind in kinds]

    def changed(self) -> Iterator[str]:
        """The names of parts that now are other objects, even if these are like the ones that were there.  (Numbers are
        compared otherwise, if they count.)"""
        for node, before in self._before:
            now = _picture(node)
            pairs = enumerate(zip(before, now, strict=False)) if isinstance(now, list) else _common(before, now)
            others = [name for name, (a, b) in pairs if a is not b and not (is_leaf(a) or is_leaf(b))]
            if others and node.kind in ("list", "dict", "set"):
                yield node.label
            elif others:
                owner = node.obj.__name__ if node.kind == "class" else node.label
                yield from [f"{owner}.{name}" for name in others]

    def put_back(self) -> None:
        """Make these objects as they were."""
        for node, before in self._before:
            obj, now = node.obj, _picture(node)
            if same_contents(before, now):
                continue
            if node.kind == "class":
                for name in before.keys() | now.keys():
                    if name not in before:
                        type.__delattr__(obj, name)
                    elif now.get(name, MISSING) is not before[name]:
                        type.__setattr__(obj, name, before[name])
            elif node.kind == "set":
                obj.clear()
                obj.update(before)
            else:
                apply_changes(obj, now, before, lambda value: value, node.kind != "instance")


class StoredItems(list):
    """Stands for an array of one axis into which a run only puts numbers: (index, number) of each."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__()
        self._array = array

    def __setitem__(self, index: Any, value: Any) -> None:
        number = None if type(value) is TracedInt else getattr(type(value), "_tracegrad_number", None)
        value = value if number is None or getattr(value, "requires_grad", False) else number(value)
        whole = isinstance(index, int | np.integer | TracedInt) and not isinstance(index, bool)
        if not whole or (type(value) is not TracedInt and np.ndim(value)):
            raise MutationError.here(
                "this writes into an array from outside the function, which belongs to the caller; one number at a "
                "time can be put into it (`losses[k] = loss.item()`)"
            )
        size = len(self._array)
        if not -size <= index < size:
            raise IndexError(f"index {int(index)} is out of bounds for axis 0 with size {size}")
        self.append((index, value))


@dataclass(slots=True)
class _Replacement:
    """A mutable copy of an object, and its contents when it was made."""

    node: StateNode
    original: Any
    copy: Any
    before: Any


@dataclass(slots=True)
class _Patch:
    """A part of a class: before a run, during it, and as the run has left it."""

    node: StateNode
    edge: Edge
    before: Any
    part: Any
    now: Any
    read: bool = False  # whether ``now`` has been


class Substitution:
    """``fn`` and ``objects`` are equivalent to the originals, over ``wrap(array, name)`` instead of each array, and
    ``numbers(node)`` instead of each number that is an input."""

    def __init__(
        self, graph: StateGraph, wrap: Wrap, fn: Any, objects: tuple[Any, ...], enabled: bool,
        numbers: Callable[[StateNode], Any] | None = None,
    ) -> None:  # fmt: skip
        self._wrap, self._wrap_number, self._nodes = wrap, numbers, graph.nodes
        self._built: dict[int, Any] = {}  # id of a node -> its replacement
        self._cells: dict[int, types.CellType] = {}
        self.cells: dict[int, types.CellType] = {}  # id of a cell of a copy -> the original
        self._spaces: dict[int, Overlay] = {}
        self._filled: set[tuple[int, str]] = set()
        self._copies: list[_Replacement] = []
        self.originals: dict[int, Any] = {}  # id of a replacement -> the original
        self._keep: list[Any] = []
        self._pending: deque[Callable[[], None]] = deque()  # copies whose parts are still to be put in
        self._needed = _needed(graph) if enabled else set()
        self._patches = [self._patch(n, e) for n, e in _in_classes(graph) if self._wanted(e)] if self._needed else []
        self.fn: Any = fn
        self.objects: tuple[Any, ...] = objects
        if self._needed and graph.roots:
            self.fn = self._part(graph.roots[0], fn)
            self.objects = tuple([self._part(r, o) for r, o in zip(graph.roots[1:], objects, strict=True)])
        while self._pending:
            self._pending.popleft()()
        for copy in self._copies:
            copy.before = _shown(copy)

    # ---- the parts of classes

    def _patch(self, node: StateNode, edge: Edge) -> _Patch:
        cls, name = edge.arg
        before = lookup(cls, name)
        part = MISSING if _only_stored(edge) else self._part(edge.child, before)
        return _Patch(node, edge, before, part, part)

    @contextmanager
    def in_classes(self) -> Iterator[None]:
        """The context of the run, in which the parts of classes that are replaced stand in these."""
        _standing.inside = (*_standing.inside, self)
        try:
            for patch in self._patches:
                _set_in_class(patch.edge, patch.part)
            yield
        finally:
            try:
                surely(self._leave_classes)
            except BaseException:  # an interrupt, before it had begun
                surely(self._leave_classes)
                raise
            _standing.inside = tuple([x for x in _standing.inside if x is not self])

    def _leave_classes(self) -> None:
        for patch in self._patches:
            if not patch.read:
                patch.now = lookup(*patch.edge.arg)
                patch.read = True
        for patch in self._patches:
            if patch.now is not MISSING or _only_stored(patch.edge):
                _set_in_class(patch.edge, patch.before)

    # ---- changes made by the run

    @property
    def hides(self) -> bool:
        """Whether the copies lack something that the function is known not to read."""
        return any(_only_stored(patch.edge) for patch in self._patches) or any(
            c.node.kind in ("sink", "history") or any(e.how == "store" for e in c.node.edges) for c in self._copies
        )

    def changes(self) -> list[Reason]:
        """The changes that the run made in the copies, one line each."""
        return [Refusal.REPLAY_CHANGES(name=name) for name in self.changed()]

    def has_copy(self, value: Any) -> bool:
        """Whether *value* leads to an object of which the run has a copy, as far as one looks."""
        copied = {id(original) for original in self.originals.values()}
        found = ((at is MISSING, id(at) in copied and not isinstance(at, np.ndarray)) for at in self._led_to(value))
        return any(map(any, found))

    def _stored_in(self, value: Any) -> set[str]:
        """The names of attributes in which the run may store something, in copies of what *value* leads to; ``ANY``
        for containers, and where that can't be told."""
        places = [c for c in self._copies if _holds_stored(c.node) and not _is_unread(c.node)]
        stored = {id(c.original): c.node for c in places}
        found = set()
        for at in self._led_to(value) if stored else ():
            node = stored.get(id(at))
            if at is MISSING or (node is not None and node.kind != "instance"):
                found.add(ANY)
            elif node is not None:
                found.update([str(edge.arg) for edge in node.edges if is_stored(edge)])
        return found

    def _led_to(self, value: Any) -> Iterator[Any]:
        """*value* and what it leads to; ``MISSING`` for what one does not look at."""
        stack, seen = [value], {id(value): value}
        while stack and len(seen) < _MOST_LOOKED_AT:
            yield (at := stack.pop())
            for part in _parts_of(at):
                if type(part) is dict and id(part) in self._spaces:
                    yield MISSING
                elif id(part) not in seen and not is_leaf(part):
                    seen[id(part)] = part
                    stack.append(part)
        if stack:
            yield MISSING

    def torn(self) -> Reason | None:
        """Why Python has to run instead, where the run has stored something in a module, by attribute, that functions
        find among their globals."""
        copies = [c for c in self._copies if c.node.kind == "module"]
        variables = (
            {(id(e.arg[0]), e.arg[-1]) for n in self._nodes for e in n.edges if "global" in e.how} if copies else ()
        )
        for c in copies:
            now = _shown(c)
            for name in now.keys() | c.before.keys():
                stored = now.get(name, MISSING) is not c.before.get(name, MISSING)
                if stored and (id(c.original.__dict__), name) in variables:
                    return Refusal.STATE_WRITES(what=f"{c.node.label}.{name}", site=c.node.site)
        return None

    def asked(self) -> dict[str, set[Part]]:
        """The parts of lists that only grow which the run has read, and which were not known to be read, by label."""
        histories = [c for c in self._copies if c.node.kind == "history" and c.copy.asked]
        return {c.node.label: c.copy.asked for c in histories}

    def changed(self) -> list[str]:
        """The names of the objects that the run has changed in copies, and of the parts of classes that it has
        replaced, where that is no effect."""
        copies = [c.node for c in self._copies if not same_contents(_read(c, c.before), _read(c, _shown(c)))]
        edges = [p.edge for p in self._patches if not is_stored(p.edge) and p.now is not p.part]
        return [*[node.label for node in copies], *[f"{e.arg[0].__name__}.{e.arg[1]}" for e in edges]]

    def grown(self) -> Iterator[StateNode]:
        """The lists to which the run has added items, in copies."""
        for c in self._copies:
            now = _shown(c) if c.node.kind == "list" and isinstance(c.original, list) else []
            if now and len(now) > len(c.before) and same_contents(c.before, now[: len(c.before)]):
                yield c.node

    def effects(self) -> Iterator[tuple[StateNode, Edge | None, Any]]:
        """The traces of the run in places that it may have changed: (owner, edge, value) where that is not what was
        there, (sink, None, contents) of a sink that was empty, (container, None, (contents before, contents after))."""
        for c in self._copies:
            if c.node.kind in ("sink", "history") and _shown(c):
                yield c.node, None, _shown(c) if c.node.kind == "history" else c.copy
            elif c.node.changes and not same_contents(c.before, now := _shown(c)):
                yield c.node, None, (c.before, now)
        for owner, edge, now in self._effect_places():
            child = edge.child
            before = self._built.get(id(child), child.obj) if isinstance(child, StateNode) else child.value
            if edge.how == "store" or _only_stored(edge):
                before = MISSING
            elif edge.stored and isinstance(child, Leaf) and child.by_value and is_leaf(now) and unchanged(now, before):
                continue
            if now is not before and now is not MISSING:
                yield owner, edge, now

    def _effect_places(self) -> Iterator[tuple[StateNode, Edge, Any]]:
        """(owner, edge, value after the run) of the places where the function may have stored something."""
        seen: set[Hashable] = set()
        for c in self._copies:
            now = _shown(c)
            order = {name: k for k, name in enumerate(now)} if isinstance(now, dict) else {}
            for edge in sorted(
                [e for e in c.node.edges if is_stored(e) and e.how != "class"],
                key=lambda e: order.get(e.arg, -1) if e.how == "store" else -1,
            ):
                if edge.how in ("global", "cell"):
                    if (variable := variable_of(c.node, edge)) in seen:  # of several functions
                        continue
                    seen.add(variable)
                    value = self._variable(edge)
                elif edge.how == "item":
                    value = now[edge.arg] if edge.arg < len(now) else MISSING
                else:
                    value = now.get(edge.arg, MISSING)
                yield c.node, edge, value
        for patch in self._patches:
            if is_stored(patch.edge):
                yield patch.node, patch.edge, patch.now

    def _variable(self, edge: Edge) -> Any:
        if edge.how == "global":
            return dict.get(self._spaces[id(edge.arg[0])], edge.arg[1], MISSING)  # not what is there outside
        cell = self._cells[id(edge.arg)]
        return MISSING if is_empty(cell) else cell.cell_contents

    def unread(self) -> set[tuple[Any, str]]:
        """The places among the copies that the function does not read: (id of an object, attribute), (id of a
        container, ""), (id of globals, variable), (code, outer variable)."""
        found: set[tuple[Any, str]] = set()
        for c in self._copies:
            if c.node.kind == "sink":
                found.add((id(c.copy), ""))
            for edge in c.node.edges:
                if edge.how == "store":
                    found.add((id(c.copy), edge.arg))
                elif (edge.unread or _only_stored(edge)) and edge.how == "global":
                    found.add((id(self._spaces[id(edge.arg[0])]), edge.arg[1]))
                elif (edge.unread or _only_stored(edge)) and edge.how == "cell":
                    names = zip(c.node.obj.__code__.co_freevars, c.node.obj.__closure__, strict=True)
                    found |= {(c.node.obj.__code__, name) for name, cell in names if cell is edge.arg}
        found |= {(id(p.edge.arg[0]), p.edge.arg[1]) for p in self._patches if _only_stored(p.edge)}
        return found

    def plain_keys(self, keys: Any) -> None:
        """Give the dicts and sets in the copies plain keys, by *keys* (``unwrap_tracers.PlainKeys``)."""
        for c in self._copies:
            if isinstance(c.copy, KeptList):
                for k, value in enumerate(list.copy(c.copy)):
                    list.__setitem__(c.copy, k, keys(value))
            else:
                keys.inside(vars(c.copy) if type(c.copy) is types.ModuleType else c.copy)
        for space in self._spaces.values():
            for name, value in list(space.items()):
                dict.__setitem__(space, name, keys(value))
        for patch in self._patches:
            patch.now = keys(patch.now)

    def writeback(self, plain: Callable[[Any], Any]) -> None:
        """Apply the run's changes of the copies to the originals; *plain* gives values their final form, and the
        originals for ``originals``."""
        for _, edge, now in self._effect_places():
            if now is MISSING:
                continue
            if edge.how == "global":
                edge.arg[0][edge.arg[1]] = plain(now)
            elif edge.how == "cell":
                edge.arg.cell_contents = plain(now)
            elif edge.how == "class":
                _set_in_class(edge, plain(now))
        for patch in self._patches:
            if not is_stored(patch.edge) and patch.now is not patch.part and patch.now is not MISSING:
                _set_in_class(patch.edge, plain(patch.now))
        for c in self._copies:
            now = _shown(c)
            if c.node.kind == "history" and c.copy.whole:
                if not same_contents(now, c.original):
                    apply_changes(c.original, c.original, now, plain)
                continue
            if c.node.kind in ("sink", "history"):
                for value in now.items() if isinstance(now, dict) else now:
                    grow(c.original, plain(value))
                _clear(c.copy)
                continue
            if same_contents(c.before, now):
                continue
            apply_changes(c.original, c.before, now, plain, c.node.kind != "instance")
            c.before = now

    # ---- building

    def _part(self, child: Leaf | StateNode, original: Any) -> Any:
        """The copy of a part of the state that leads to an array; any other part itself."""
        if isinstance(child, Leaf) or id(child) not in self._needed:
            return original
        if id(child) in self._built:
            return self._built[id(child)]
        return getattr(self, f"_{child.kind}")(child)

    def _done(self, node: StateNode, copy: Any) -> Any:
        self._built[id(node)] = copy
        self.originals[id(copy)] = node.obj
        self._keep.append(copy)
        return copy

    def _mutable(self, node: StateNode, copy: Any) -> Any:
        self._copies.append(_Replacement(node, node.obj, copy, None))
        return self._done(node, copy)

    def _array(self, node: StateNode) -> Any:
        return self._done(node, self._wrap(node.obj, node.label))

    def _form(self, node: StateNode) -> Any:
        return self._done(node, self._part(node.edges[0].child, node.obj))

    def _function(self, node: StateNode) -> Any:
        fn: types.FunctionType = node.obj
        space = fn.__globals__
        replaced = [e for e in node.edges if e.how == "global" and self._wanted(e)]
        overlay: dict[str, Any] = space
        if replaced or id(space) in self._spaces:
            overlay = self._spaces.setdefault(id(space), Overlay(space, fn.__builtins__))  # type: ignore[attr-defined]
            for name in names_of_bodies(fn.__code__):
                if name in space and name not in overlay:
                    overlay[name] = space[name]
        cells = []
        cells_to_fill: list[tuple[types.CellType, Leaf | StateNode, Any]] = []
        later: list[Edge] = []
        by_cell = {id(e.arg): e for e in node.edges if e.how == "cell"}
        for cell in fn.__closure__ or ():
            edge = by_cell.get(id(cell))
            if edge is None or not self._wanted(edge):
                cells.append(cell)
                continue
            new = self._cells.get(id(cell))
            if new is None:
                new = self._cells[id(cell)] = types.CellType()
                self.cells[id(new)] = cell
                if not _only_stored(edge):
                    cells_to_fill.append((new, edge.child, cell.cell_contents))
            cells.append(new)
        copy = types.FunctionType(fn.__code__, overlay, fn.__name__, fn.__defaults__, tuple(cells) if cells else None)
        copy.__qualname__, copy.__module__, copy.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
        copy.__kwdefaults__ = fn.__kwdefaults__
        copy.__dict__.update(fn.__dict__)
        for edge in replaced:
            if (id(space), edge.arg[1]) not in self._filled and not _only_stored(edge):
                self._filled.add((id(space), edge.arg[1]))
                later.append(edge)
        self._pending.append(lambda: self._fill_function(node, copy, cells_to_fill, overlay, later))
        return self._mutable(node, copy)

    def _fill_function(
        self,
        node: StateNode,
        copy: types.FunctionType,
        cells: list[tuple[types.CellType, Leaf | StateNode, Any]],
        overlay: dict[str, Any],
        names: list[Edge],
    ) -> None:
        fn = node.obj
        for new, child, value in cells:
            new.cell_contents = self._part(child, value)
        for edge in names:
            space, name = edge.arg
            overlay[name] = self._part(edge.child, space[name])
        defaults = [e for e in node.edges if e.how == "const"]
        if any(self._wanted(e) for e in defaults):
            values = zip(defaults, fn.__defaults__ or (), strict=True)
            copy.__defaults__ = tuple([self._part(e.child, v) for e, v in values])
        for edge in node.edges:
            if edge.how == "attr" and self._wanted(edge):
                if edge.arg == "__kwdefaults__":
                    copy.__kwdefaults__ = self._part(edge.child, fn.__kwdefaults__)
                else:
                    copy.__dict__[edge.arg] = self._part(edge.child, fn.__dict__[edge.arg])

    def _wanted(self, edge: Edge) -> bool:
        return is_stored(edge) or id(edge.child) in self._needed

    def _number(self, node: StateNode) -> Any:
        return node.obj if self._wrap_number is None else self._done(node, self._wrap_number(node))

    def _logger(self, node: StateNode) -> Any:
        return self._done(node, (KeptFile if is_written(node.obj) else KeptLogger)(node.obj))

    def _cached(self, node: StateNode) -> Any:
        function = self._part(node.edges[0].child, node.obj.__wrapped__)
        return self._done(
            node,
            KeptCache(
                node.obj,
                function,
                self.originals,
                self.touched,
                leads_to_effects(node),
                node.extra,
                self.has_copy,
                self._has_stored,
                self._stored_in,
                _functions_of(node),
            ),
        )

    def _known(self, node: StateNode) -> Any:
        return self._done(node, stand_in(node.obj))

    def _jitted(self, node: StateNode) -> Any:
        return self._done(node, JittedOver(node.obj, self._part(node.edges[0].child, node.obj.__wrapped__)))

    def touched(self) -> list[Any]:
        """The originals of the copies that the run has changed."""
        return [c.original for c in self._copies if not same_contents(c.before, _shown(c))]

    def _has_stored(self) -> bool:
        """Whether the run has stored or changed anything so far."""
        in_classes = any(lookup(*patch.edge.arg) is not patch.part for patch in self._patches)
        return in_classes or any(self.effects()) or bool(self.touched())

    def _sink(self, node: StateNode) -> Any:
        empty = StoredItems(node.obj) if isinstance(node.obj, np.ndarray) else type(node.obj)()
        return self._mutable(node, empty)

    def _list(self, node: StateNode, copy: Any = None) -> Any:
        made: Any = deque(maxlen=node.obj.maxlen) if isinstance(node.obj, deque) else []
        copy = made if copy is None else copy
        parts = list(zip(node.edges, list(node.obj), strict=True))
        fill = copy.extend if copy is made else functools.partial(list.extend, copy)
        self._pending.append(lambda: fill([self._part(e.child, v) for e, v in parts]))
        return self._mutable(node, copy)

    def _tuple(self, node: StateNode) -> Any:
        items = [e for e in node.edges if e.how == "item"]
        parts = [self._part(e.child, v) for e, v in zip(items, tuple.__iter__(node.obj), strict=True)]
        make: Any = tuple.__new__  # past the __new__ of a named tuple
        return self._done(node, make(type(node.obj), parts))

    def _history(self, node: StateNode, copy: Any = None) -> Any:
        parts: dict[Part, Any] = {}
        copy = KeptList() if copy is None else copy
        KeptList.stand_for(copy, node.obj, parts, node.extra)

        def fill() -> None:
            for edge in node.edges:
                part = len(node.obj) if edge.how == LENGTH else node.obj[edge.arg]
                parts[LENGTH if edge.how == LENGTH else edge.arg] = self._part(edge.child, part)

        self._pending.append(fill)
        return self._mutable(node, copy)

    def _dict(self, node: StateNode, copy: Any = None) -> Any:
        old = node.obj
        if copy is None:
            copy = defaultdict(old.default_factory) if type(old) is defaultdict else type(old)()

        def fill() -> None:
            for edge in node.edges:
                if edge.how == "key":
                    copy[edge.arg] = self._part(edge.child, old[edge.arg])
                elif edge.how == "attr" and self._wanted(edge):
                    copy.default_factory = self._part(edge.child, old.default_factory)

        self._pending.append(fill)
        return self._mutable(node, copy)

    def _instance(self, node: StateNode) -> Any:
        old: Any = node.obj
        cls: Any = type(old)
        items = next((e.child for e in node.edges if e.how == "items"), None)
        if isinstance(items, StateNode):
            copy = (dict if isinstance(old, dict) else list).__new__(
                kept_class(cls) if items.kind == "history" else cls
            )
        else:
            copy = (cls if issubclass(cls, types.SimpleNamespace) else object).__new__(cls)

        def fill() -> None:
            for name, value in attributes(old).items():
                set_attribute(copy, name, value)
            for edge in node.edges:
                if edge.how == "store" and edge.arg in attributes(copy):  # seen afterwards, whatever is stored
                    object.__delattr__(copy, edge.arg)
                if edge.how == "attr" and self._wanted(edge):
                    set_attribute(copy, edge.arg, self._part(edge.child, getattr(old, edge.arg)))

        self._pending.append(fill)
        self._mutable(node, copy)
        if isinstance(items, StateNode):
            {"list": self._list, "dict": self._dict, "history": self._history}[items.kind](items, copy)
        return copy

    def _module(self, node: StateNode) -> Any:
        old: types.ModuleType = node.obj
        copy = ModuleCopy(old.__name__, old.__doc__)
        copy.__dict__["__getattr__"] = lambda name: getattr(old, name)

        def fill() -> None:
            for edge in node.edges:
                if edge.how in ("attr", "stream") and self._wanted(edge):
                    copy.__dict__[edge.arg] = self._part(edge.child, old.__dict__[edge.arg])

        self._pending.append(fill)
        return self._mutable(node, copy)

    def _library(self, node: StateNode) -> Any:
        return self._done(node, node.obj) if is_known_module(node.obj) else self._module(node)

    def _method(self, node: StateNode) -> Any:
        func, owner = node.edges
        parts = self._part(func.child, node.obj.__func__), self._part(owner.child, node.obj.__self__)
        return self._done(node, types.MethodType(*parts))

    def _adder(self, node: StateNode) -> Any:
        return self._done(node, getattr(self._part(node.edges[0].child, node.obj.__self__), node.obj.__name__))

    _bound = _adder

    def _const(self, node: StateNode) -> Any:
        """A descriptor in a class, over other functions."""
        parts = {e.arg: self._part(e.child, getattr(node.obj, e.arg)) for e in node.edges}
        if isinstance(node.obj, property):
            return self._done(node, property(**parts, doc=node.obj.__doc__))
        function = parts.get("func", parts.get("__func__"))
        copy = type(node.obj)(function)
        if isinstance(copy, functools.cached_property):
            copy.__set_name__(object, node.obj.attrname)
        return self._done(node, copy)

    def _partial(self, node: StateNode) -> Any:
        old = node.obj
        func, args, named, *attributes = node.edges
        keywords = dict(old.keywords)  # of the partial's own: not the copy that `_dict` would fill later
        if isinstance(named.child, StateNode):
            keywords |= {e.arg: self._part(e.child, keywords[e.arg]) for e in named.child.edges}
        copy = functools.partial(self._part(func.child, old.func), *self._part(args.child, old.args), **keywords)
        if isinstance(named.child, StateNode) and id(named.child) not in self._built:
            self._mutable(named.child, copy.keywords)
        if store := dict_of(old):
            copy.__dict__.update(store)
            copy.__dict__.update({e.arg: self._part(e.child, store[e.arg]) for e in attributes})
        return self._mutable(node, copy)

    def _compiled(self, node: StateNode) -> Any:
        return self._done(node, node.obj._tracegrad_rebuild(self._part(node.edges[0].child, node.obj.__wrapped__)))


def _needed(graph: StateGraph) -> set[int]:
    """The nodes from which a replaceable array is reached, by ways on which everything can be replaced."""
    owners: dict[int, list[StateNode]] = {}
    for node in graph.nodes:
        if node.sub and holds_copies(node):
            for edge in node.edges:
                in_place = edge.fixed or edge.how == "class" or _is_called_by_name(edge)
                if not in_place and isinstance(edge.child, StateNode):
                    owners.setdefault(id(edge.child), []).append(node)
    kinds = ("array", "sink", "history", "number", "logger", "cached", "known")
    parts = [n for n in graph.nodes if n.sub and (n.kind != "function" or holds_copies(n))]
    stack = [n for n in parts if n.kind in kinds or n.changes or _is_stored_in(n)]
    needed = {id(n) for n in stack} | {id(edge) for _, edge in _in_classes(graph) if is_stored(edge)}
    while stack:
        for owner in owners.get(id(stack.pop()), ()):
            if id(owner) not in needed:
                needed.add(id(owner))
                stack.append(owner)
    return needed


def _is_called_by_name(edge: Edge) -> bool:
    """Whether a module is the value of a global variable, in place of which frames are shown another."""
    return edge.how == "global" and isinstance(edge.child, StateNode) and is_known_module(edge.child.obj)


def leads_to_effects(node: StateNode) -> bool:
    """Whether a place is reached from *node* in which the function may store something."""
    return any(map(_holds_stored, _reached_from(node)))


def _holds_stored(node: StateNode) -> bool:
    """Whether the function may store something in the object."""
    return node.kind in ("sink", "history") or node.changes or any(map(is_stored, node.edges))


def _is_unread(node: StateNode) -> bool:
    """Whether nobody reads what is stored in the object."""
    stored = [edge.child for edge in node.edges if is_stored(edge)]
    unread = not node.changes and all(isinstance(child, Leaf) and child.effect for child in stored)
    return node.kind == "sink" or (node.kind != "history" and unread)


def _functions_of(node: StateNode) -> list[types.FunctionType]:
    """The functions, none of a library, that are reached from *node*."""
    return [one.obj for one in _reached_from(node) if one.kind == "function" and not one.extra]


def _reached_from(node: StateNode) -> Iterator[StateNode]:
    stack, seen = [node], {id(node)}
    while stack:
        at = stack.pop()
        yield at
        children = [e.child for e in at.edges if isinstance(e.child, StateNode) and id(e.child) not in seen]
        seen.update(map(id, children))
        stack += children


def _is_stored_in(node: StateNode) -> bool:
    return any(is_stored(edge) and not edge.fixed and edge.how != "class" for edge in node.edges)


def _in_classes(graph: StateGraph) -> list[tuple[StateNode, Edge]]:
    """(node, edge) of each attribute of a class that can be replaced."""
    edges = [(n, e) for n in graph.nodes for e in n.edges if e.how == "class" and not e.fixed]
    return list({(_home(e), e.arg[1]): (n, e) for n, e in edges}.values())


def _home(edge: Edge) -> type:
    """The class in which an attribute stands."""
    cls, name = edge.arg
    return home(cls, name) or cls


def _only_stored(edge: Edge) -> bool:
    """Whether the function assigns a variable, and does nothing else with it."""
    return edge.how in ("global", "cell", "class") and isinstance(edge.child, Leaf) and edge.child.effect == STORE


def _set_in_class(edge: Edge, value: Any) -> None:
    type.__setattr__(_home(edge), edge.arg[1], value)


def _clear(copy: Any) -> None:
    list.clear(copy) if isinstance(copy, KeptList) else copy.clear()


def _read(c: _Replacement, picture: Any) -> Any:
    """The part of a picture of *c* that the function reads."""
    if c.node.kind in ("sink", "history") or c.node.changes:
        return []
    places = [e.arg for e in c.node.edges if is_stored(e) and e.how in ("attr", "item", "key", "store")]
    if isinstance(picture, list):
        past = [MISSING for k in places if k >= len(picture)]
        return [v for k, v in enumerate(picture) if k not in places] + past
    if not places:
        return picture
    if c.node.kind == "dict":  # the order of its keys counts
        return [*picture, *[v for k, v in picture.items() if k not in places]]
    read = {k: v for k, v in picture.items() if k not in places}
    gone = [e.arg for e in c.node.edges if e.how != "store" and e.arg in places and e.arg not in picture]
    return read | dict.fromkeys(gone, MISSING)


def changed_containers(nodes: Iterable[StateNode]) -> Iterator[StateNode]:
    """The containers among *nodes* that are no longer as they were when these were made."""
    for node in nodes:
        if node.kind in ("list", "dict", "set") and not same_contents(_before(node), contents(node.obj)):
            yield node


def _before(node: StateNode) -> Any:
    """The contents of a container when its node was made."""
    parts = [edge.child for edge in node.edges if edge.how in ("item", "key", "element")]
    before: Any = [part.obj if isinstance(part, StateNode) else part.value for part in parts]
    return dict(zip(node.extra, before, strict=False)) if node.kind == "dict" else before


def grown_lists(nodes: Iterable[StateNode]) -> Iterator[StateNode]:
    """The lists among *nodes* that have more items than when these were made, and those as they were."""
    for node in changed_containers(nodes):
        if node.kind == "list" and isinstance(node.obj, list) and len(node.edges) < len(node.obj):
            before = [e.child.obj if isinstance(e.child, StateNode) else e.child.value for e in node.edges]
            if same_contents(before, node.obj[: len(before)]):
                yield node


def grow(sink: Any, value: Any) -> None:
    """Put *value*, an item or a pair, into a container."""
    if isinstance(sink, dict | np.ndarray):
        sink[value[0]] = value[1]
    elif isinstance(sink, set):
        sink.add(value)
    else:
        sink.append(value)


def slots(cls: type) -> list[str]:
    """Attributes that lie in the instance itself.  ``SimpleNamespace`` lists its own dict among them, ``partial`` the
    place of a pointer."""
    classes = [c for c in cls.__mro__ if c is not KeptList]
    found = [n for c in classes for n, v in c.__dict__.items() if type(v) is types.MemberDescriptorType]
    return [n for n in found if n not in ("__dict__", "__vectorcalloffset__")]


def _shown(c: _Replacement) -> Any:
    """A shallow picture of a copy."""
    return attributes(c.copy) if c.node.kind == "instance" else contents(c.copy)


def contents(obj: Any) -> Any:
    """A shallow picture of an object: a list, or a dict of attributes or items."""
    if issubclass(type(obj), KeptList):
        return list.copy(obj)
    if isinstance(obj, list | deque | set):
        return list(obj)
    return dict(obj) if isinstance(obj, dict) else attributes(obj)


@functools.lru_cache(4096)
def names_of_bodies(code: types.CodeType) -> frozenset[str]:
    """The names in bodies of classes within the code: they are looked up in globals alone, past ``__missing__``."""
    found: set[str] = set()
    for nested in code.co_consts:
        if isinstance(nested, types.CodeType):
            found.update(names_of_bodies(nested))
            if not nested.co_flags & inspect.CO_OPTIMIZED:
                found.update(nested.co_names)
    return frozenset(found)


def attributes(obj: Any) -> dict[str, Any]:
    """A shallow picture of the attributes of an object."""
    picture = dict(dict_of(obj) or {})
    picture.pop(MEMO, None)
    if not isinstance(obj, types.FunctionType | types.ModuleType):
        for name in slots(type(obj)):
            value = getattr(obj, name, MISSING)
            if value is not MISSING:
                picture[name] = value
    return picture


def same_keys(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Whether two dicts have the same keys in one order; objects are not asked whether they are equal."""
    return len(one) == len(other) and all(
        a is b or (is_leaf(a) and is_leaf(b) and a == b) for a, b in zip(one, other, strict=True)
    )


def same_contents(a: Any, b: Any) -> bool:
    """Whether two pictures of an object show the same parts, by identity, in the same order."""
    if len(a) != len(b):
        return False
    if isinstance(a, list):
        return all(x is y for x, y in zip(a, b, strict=True))
    return all(x == y for x, y in zip(a, b, strict=True)) and all(a[k] is b[k] for k in a)


def _common(before: dict[Any, Any], now: dict[Any, Any]) -> Iterator[tuple[Any, tuple[Any, Any]]]:
    """(name, (value before, value now)) of the names in both pictures."""
    return ((name, (value, now[name])) for name, value in before.items() if name in now)


def _picture(node: StateNode) -> Any:
    """A shallow picture of the object of a node."""
    if node.kind == "class":
        return dict(vars(node.obj))
    return attributes(node.obj) if node.kind == "instance" else contents(node.obj)


def _parts_of(obj: Any) -> Iterable[Any]:
    """The parts of an object, and of a function all that it may find."""
    if isinstance(obj, types.FunctionType):
        cells = [cell.cell_contents for cell in obj.__closure__ or () if not is_empty(cell)]
        return [obj.__globals__, *cells, *(obj.__defaults__ or ()), *(obj.__kwdefaults__ or {}).values()]
    if isinstance(obj, types.MethodType):
        return [obj.__func__, obj.__self__]
    if isinstance(obj, functools.partial):
        return [obj.func, *obj.args, *obj.keywords.values()]
    if isinstance(obj, type | types.ModuleType):
        return ()
    items = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, list | tuple | set | deque) else ()
    return [*items, *attributes(obj).values()]


def set_attribute(obj: Any, name: str, value: Any) -> None:
    store = getattr(obj, "__dict__", None)
    if store is not None and name not in slots(type(obj)):
        store[name] = value
    else:
        object.__setattr__(obj, name, value)


def apply_changes(
    original: Any, before: Any, now: Any, back: Callable[[Any], Any], of_items: bool = True
) -> None:  # fmt: skip
    """Do to *original* what has made *now* of *before*, pictures of a copy by :func:`contents`."""
    if isinstance(now, list):
        values = [back(v) for v in now]
        if isinstance(original, deque):
            original.clear()
            original.extend(values)
        else:
            original[:] = values
        return
    is_dict = of_items and isinstance(original, dict)
    for name in before.keys() - now.keys():
        if is_dict:
            original.pop(name, None)
        else:
            original.__dict__.pop(name, None) if hasattr(original, "__dict__") else object.__delattr__(original, name)
    for name, value in now.items():
        if name not in before or before[name] is not value:
            if is_dict:
                original[name] = back(value)
            else:
                set_attribute(original, name, back(value))
    if is_dict and not same_keys(original, now):  # a key went and came again
        for name in now:
            original[name] = original.pop(name)
