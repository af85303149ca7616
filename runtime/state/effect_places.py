"""Places that the function changes and does not read otherwise, so that its effect on them can be replayed.

Start reading at ``visit_part``, which the walk asks for the value under a name.  An int that is only counted up is a
leaf with the effect ``count``; an attribute that is only assigned one with ``store``; a list, dict or set that only
grows is a node of kind ``sink``, whose contents are not looked at.  A float in a place where the function also stores
something is an input of the program (a node of kind ``number``, as arrays are), and so is a number that has had several
values (``Names.varying``); a tensor there is one, too, where nobody else refers to it (a node of kind ``held``, for
steps); other values are compared as everywhere.  A run is given copies of the owners, and its effects are what it
leaves there (``rebuild.py``).  Where an owner can't be copied, the place is like any other (``settle_places``).
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Set
from typing import Any

import numpy as np

from ...tracer.bytecode.identity import asks_identity
from ...tracer.ir.aval import is_number
from ...tracer.ir.refusals import Refusal
from ...tracer.record.integers import limit_of
from ...tracer.record.reports import is_written
from .kept_list import LENGTH, WHOLE, reach
from .pins import MISSING, can_change, home, lookup
from .state_graph import Chains, Edge, Leaf, StateNode, variable_of
from .uses import ADD, APPEND, COUNT, GROWS, ITEM, READ, STORE, UPDATE, ItemCount, ItemGrowth, uses
from .values import is_leaf, is_nan
from .walker import Walker

SINKS: dict[type, set[str]] = {
    list: {APPEND}, deque: {APPEND}, set: {ADD, UPDATE},
    dict: {ITEM, UPDATE}, OrderedDict: {ITEM, UPDATE}, defaultdict: {ITEM, UPDATE}, Counter: {ITEM},
}  # fmt: skip
MAX_ITEMS = 64  # of a container that may be changed in any way
# Class of objects that may be inputs -> what a recording relies on in one of any identity (None: on its identity).
HELD: dict[type, Callable[[Any], Any]] = {}
DESCRIPTORS = property | staticmethod | classmethod | functools.cached_property
_MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
_COPIED = ("attr", "global", "cell", "item", "key")
_WRITES = (STORE, COUNT)
_SERVICES = ("execnet", "xdist", "pytest_timeout", "ipykernel", "zmq", "tornado", "tqdm")  # have threads of their own
_NAMED = {"attr": "attr", "class": "attr", "global": "global", "cell": "outer"}


def visit_part(
    walker: Walker, place: tuple[str, str], value: Any, label: str, site: str, chains: Chains | None = None
) -> Leaf | StateNode:
    """The leaf or node of what is found under a name."""
    return _visit_used(walker, walker.names.used(*place), value, label, site, chains)


def visit_adder(walker: Walker, value: Any, label: str, site: str) -> StateNode | None:
    """The node of a method that puts something into a container and tells nothing (``history.append``); None where
    *value* is none."""
    owner: Any = getattr(value, "__self__", None)
    use = GROWS.get(getattr(value, "__name__", ""))
    if use is None or use not in SINKS.get(type(owner), ()) or not walker.names.effects:
        return None
    found = {use} | (walker.names.used("attr", "__self__") if "__self__" in walker.names.attrs else set())
    node = walker.node("adder", value, label, site)
    node.edge("attr", "__self__", _visit_used(walker, found, owner, label, site))
    return node


def _visit_used(
    walker: Walker, found: Set[Any], value: Any, label: str, site: str, chains: Chains | None = None
) -> Leaf | StateNode:
    """The leaf or node of what has these uses alone where it was *found*."""
    if found == {STORE}:
        return Leaf(value, True, STORE)
    if found == {COUNT} and type(value) is int:
        return Leaf(value, True, COUNT)
    known = walker.memo.get(id(value))
    if _only_grows(walker, value, found) or (found == {ITEM} and _takes_numbers(walker, value, known)):
        return known or walker.node("sink", value, label, site)
    if type(value) in (list, *_MAPPINGS) and id(value) not in walker.names.read and _of_items(found):
        growth = {use.how for use in found if isinstance(use, ItemGrowth)}
        if known is None:
            walker.grown[id(value)] = growth
        elif growth <= walker.grown.get(id(value), set()):
            return known
    return walker.visit(value, label, site, chains)


def visit_item(walker: Walker, owner: Any, value: Any, label: str, site: str) -> Leaf | StateNode:
    """The leaf or node of an item of the list or dict *owner*."""
    growth = walker.grown.get(id(owner))
    if growth and _only_grows(walker, value, growth):
        return walker.memo.get(id(value)) or walker.node("sink", value, label, site)
    return walker.visit(value, label, site)


def _only_grows(walker: Walker, value: Any, found: Set[Any]) -> bool:
    if not found <= SINKS.get(type(value), set()) or id(value) in walker.names.read:
        return False
    known = walker.memo.get(id(value))
    return known is None or known.kind == "sink"


def _takes_numbers(walker: Walker, value: Any, known: StateNode | None) -> bool:
    """Whether *value* is an array in which numbers may be put without looking at it."""
    plain = type(value) is np.ndarray and value.ndim == 1 and value.base is None and is_number(value.dtype)
    return plain and id(value) not in walker.names.read and (known is None or known.kind == "sink")


def _shared_memory(walker: Walker) -> Iterator[int]:
    """The ids of arrays of which nothing is looked at, whose memory others show."""
    sinks = [node.obj for node in walker.nodes if node.kind == "sink" and type(node.obj) is np.ndarray]
    shown = [node.obj for node in walker.nodes if node.kind == "array"] + walker.memory if sinks else []
    for sink in sinks:
        if any(np.may_share_memory(sink, array) for array in shown):
            yield id(sink)


def _same_namespaces(walker: Walker) -> Iterator[StateNode]:
    """The dicts, and objects of one ``__dict__``, whose names are those of another object, of functions or of the
    keywords of a partial: a run would have another copy of them in each."""
    named = "global", "noglobal", "builtin"
    spaces = {id(edge.arg[0]) for node in walker.nodes for edge in node.edges if edge.how in named}
    for node in walker.nodes:
        if node.kind in ("instance", "function", "module", "class"):
            store = node.obj.__dict__ if node.kind == "module" else getattr(node.obj, "__dict__", None)
            if type(store) is not dict:
                continue
            if node.kind == "instance" and id(store) in spaces:
                yield node
            if node.kind != "module" or id(store) not in spaces:  # what is stored there is looked at otherwise
                spaces.add(id(store))
    dicts = [node for node in walker.nodes if node.kind == "dict"]
    modules = {id(node.obj.__dict__) for node in walker.nodes if node.kind == "module"} if dicts else set()
    yield from (node for node in dicts if id(node.obj) in spaces | modules)
    partials = [node for node in walker.nodes if node.kind == "partial"]
    children = [edge.child for node in partials for edge in node.edges[2:3]]  # none, where the walk has ended there
    if keywords := {id(child) for child in children if isinstance(child, StateNode)}:
        ways = Counter(id(edge.child) for node in walker.nodes for edge in node.edges)
        yield from (node for node in dicts if id(node) in keywords and ways[id(node)] > 1)


def _of_items(found: Set[Any]) -> bool:
    """Whether nothing else is done with a container than to count items up, or to add to them."""
    return all(isinstance(use, ItemCount | ItemGrowth) for use in found)


def is_history(walker: Walker, label: str) -> bool:
    """Whether a list only grows from call to call, and is not read as a whole."""
    names = walker.names
    return names.effects and not names.unbound and WHOLE not in names.grown.get(label, {WHOLE})


def visit_history(walker: Walker, value: list[Any], label: str, site: str) -> StateNode:
    """The node of such a list."""
    parts, length = walker.names.grown[label], f"len({label})"
    node = walker.node("history", value, label, site, extra=reach(parts))
    if LENGTH in parts:
        number = length not in walker.names.contents and limit_of(len(value)) > 0
        child = StateNode("number", len(value), length, site) if number else Leaf(len(value), True)
        if isinstance(child, StateNode):
            walker.nodes.append(child)
        node.edge(LENGTH, None, child)
    for index in sorted([k for k in parts if isinstance(k, int)]):
        if reach({index}) <= len(value):
            node.edge("item", index, walker.visit(value[index], f"{label}[{index}]", site))
    return node


def sink_parameters(fn: Any, names: list[str]) -> dict[str | int, set[Any]]:
    """The uses of parameters of *fn* that it may only change, by name and by place in *names*."""
    code = getattr(fn, "__code__", None)
    found = uses(code) if isinstance(code, types.CodeType) else {}
    changed: dict[str | int, set[Any]] = {
        name: used for (kind, name), used in found.items() if kind == "param" and not used & {READ, STORE, COUNT}
    }
    return changed | {k: changed[name] for k, name in enumerate(names) if name in changed}


def is_sink(value: Any, found: Set[Any]) -> bool:
    """Whether *value* is a container that these uses tell nothing about."""
    return (type(value) in (list, *_MAPPINGS) and _of_items(found)) or found <= SINKS.get(type(value), set())


def _plain_stores(cls: type) -> bool:
    return cls.__setattr__ in (object.__setattr__, types.SimpleNamespace.__setattr__)


def only_stored(walker: Walker, cls: type, name: str, raw: Any) -> bool:
    """Whether attribute *name* of instances of *cls*, where the class has *raw*, is assigned and never read."""
    plain = not hasattr(type(raw), "__set__") or type(raw) is types.MemberDescriptorType
    return walker.names.used("attr", name) == {STORE} and plain and _plain_stores(cls)


def first_count(walker: Walker, cls: type, name: str, raw: Any) -> bool:
    """Whether the counter *name* of an instance starts from the value *raw* that its class has."""
    counted = walker.names.used("attr", name) == {COUNT} and type(raw) is int
    return counted and _plain_stores(cls)


def place_of(node: StateNode, edge: Edge) -> tuple[str, str] | None:
    """The name under which the part is found; None where it has none."""
    if edge.how == "const" and node.kind == "function":  # a default
        return "param", edge.arg
    if edge.how == "class" and edge.fixed:
        return None
    cell = _cell_name(node.obj, edge.arg) if edge.how == "cell" else edge.arg
    name = edge.arg[1] if edge.how in ("global", "class") else cell
    return (_NAMED[edge.how], name) if edge.how in _NAMED and isinstance(name, str) else None


def open_classes(walker: Walker) -> None:
    """Have the parts of classes from which the function gets to places that it changes, methods that run by other
    code, and attributes of classes that runs have changed, be parts of which a run has copies: they stand in the
    class as long as it lasts. Not where other threads are in code of the user's."""
    names = walker.names
    late = any(lookup(cls, "__del__") is not MISSING for cls in walker.classes)  # it runs whenever an object is gone
    if not names.effects or late or _others_run(walker):
        return
    owners: dict[int, list[StateNode]] = {}
    leading: list[StateNode] = []
    uses = {} if names.everything else names.uses
    written = {name for (_, name), found in uses.items() if not found.isdisjoint(_WRITES)}
    for node in walker.nodes:
        leads = node.kind in ("sink", "history", "logger", "cached", "known") or node.label in names.changed
        for edge in node.edges:
            if isinstance(edge.child, StateNode):
                owners.setdefault(id(edge.child), []).append(node)
            if leads:
                continue
            if edge.how != "class":
                name = edge.arg[-1] if edge.how == "global" else edge.arg
                may = edge.how == "cell" or (type(name) is str and name in written)
                leads = edge.how == "store" or (may and not _used(walker, node, edge).isdisjoint(_WRITES))
            elif names.changed:
                leads = _label(node, edge) in names.changed and _in_class(walker, edge)
        if leads:
            leading.append(node)
    found, stack = set(map(id, leading)), [*leading]
    while stack:
        for owner in owners.get(id(stack.pop()), ()):
            if id(owner) not in found:
                found.add(id(owner))
                stack.append(owner)
    for node in walker.nodes if leading else ():
        inner = node.kind == "const" and isinstance(node.obj, DESCRIPTORS)
        for edge in node.edges:
            known = edge.how == "class" and bool(names.changed) and _label(node, edge) in names.changed
            if known or (edge.how == "class" and id(edge.child) in found):
                edge.stored = known
                edge.fixed = not _in_class(walker, edge)
            elif inner and id(edge.child) in found:
                edge.fixed = False


def _in_class(walker: Walker, edge: Edge) -> bool:
    """Whether what the edge leads to stands in a class of the user's, which it then names."""
    cls, name = edge.arg
    base = home(cls, name) or object
    if not can_change(base) or walker.trust.cls(base):
        return False
    child = edge.child
    if isinstance(child, Leaf) or not isinstance(child.obj, types.FunctionType | DESCRIPTORS):
        edge.arg = base, name
    return True


def _others_run(walker: Walker) -> bool:
    """Whether another thread is in code of the user's, and may look into classes."""
    if threading.active_count() == 1:
        return False
    here = threading.get_ident()
    for thread, top in sys._current_frames().items():
        frame: types.FrameType | None = top if thread != here else None
        while frame is not None:
            file = frame.f_code.co_filename
            if not walker.trust.machinery(file) and walker.trust.name(file).partition(".")[0] not in _SERVICES:
                return True
            frame = frame.f_back
    return False


def settle_places(walker: Walker) -> None:
    """Mark what may be stored in places that a run can be given copies of, once nodes are marked; make the others
    places like any other."""
    names = walker.names
    kinds = ("logger", "sink", "cached")
    if not (names.changes or names.changed or names.grown) and all(node.kind not in kinds for node in walker.nodes):
        return
    for node in _same_namespaces(walker):
        walker.refuse(Refusal.STATE_NAMESPACE, f"`{node.label}`", node.site)
    for node in [n for n in walker.nodes if n.kind in ("instance", "class")]:
        cls = node.obj if node.kind == "class" else type(node.obj)
        # a recording holds objects, and makes more of them
        if lookup(cls, "__del__") is not MISSING and not walker.trust.cls(cls):
            walker.refuse(Refusal.STATE_FINALIZER, f"`{node.label}`", node.site)
    shared = _shared(walker)
    names.read.update(_shared_memory(walker))
    uses_of = _uses_of_containers(walker)
    in_classes: dict[tuple[type, str], Leaf | StateNode] = {}
    for node in list(walker.nodes):
        if node.kind == "sink" and (node.fixed or not node.sub):
            names.read.add(id(node.obj))
        free = _free(node)
        if node.kind == "history" and not free:
            names.grown[node.label].add(WHOLE)
        if node.kind == "logger" and not free:
            is_file = is_written(node.obj)
            walker.refuse(Refusal.CALLS_FILES if is_file else Refusal.CALLS_LOG, node.label, node.site)
        if node.kind == "cached" and not free:
            walker.unknown(Refusal.STATE_CACHE, node.obj, node.label, node.site)
        used = uses_of.get(id(node), set()) if free else set()
        if names.effects and READ in used and len(used) > 1:
            _suspect(walker, node, used)
        counted = {use for use in used if isinstance(use, ItemCount)}
        only = _of_items(used)
        node.changes = free and names.effects and node.label in names.changed and _may_change(node)
        for edge in list(node.edges):
            child = edge.child
            effect = child.effect if isinstance(child, Leaf) else ""
            if edge.how == "class":
                if edge.stored and not edge.fixed:
                    if edge.arg not in in_classes:
                        _settle_in_class(walker, node, edge)
                    child = edge.child = in_classes.setdefault(edge.arg, edge.child)
                    edge.stored = not (isinstance(child, Leaf) and child.effect)
            elif not free and effect:
                _like_any_other(walker, node, edge)
            elif names.effects and edge.how in ("global", "cell") and (variable := variable_of(node, edge)) in shared:
                if (_used(walker, node, edge) | shared[variable]) & {COUNT, STORE}:
                    _refuse_write(walker, node, edge)
            elif (node.changes or node.kind == "history") and edge.how in ("item", "key"):
                _as_input(walker, node, edge, _label(node, edge), True)
            elif free and not edge.fixed and not effect and names.effects:
                is_item = edge.how in ("item", "key") and ITEM in used
                is_counted = edge.how in ("item", "key") and ItemCount(edge.arg) in counted
                if is_counted and only and isinstance(child, Leaf) and type(child.value) is int:
                    edge.child = Leaf(child.value, True, COUNT)
                elif is_counted or is_item or (edge.how in _NAMED and _used(walker, node, edge) & {STORE, COUNT}):
                    edge.unread = edge.how in _NAMED and _used(walker, node, edge) == {STORE}
                    counts = is_counted or COUNT in _used(walker, node, edge)
                    store_at(walker, node, edge, _label(node, edge), counts)
    if names.holders and walker.stored and not _asks_identity(walker):
        _hold(walker, walker.stored)


def _asks_identity(walker: Walker) -> bool:
    """Whether the code may ask if two of its values are one object."""
    return any(map(asks_identity, walker.codes.values()))


def _suspect(walker: Walker, node: StateNode, used: Set[Any]) -> None:
    """Note that a container is read, and changed too, as far as its uses tell: a list that is only appended to is taken
    for one that grows from the first run on, others with the first that a run is found to change."""
    if type(node.obj) is list and used <= {READ, APPEND} and not walker.names.unbound:
        walker.names.grown.setdefault(node.label, set())
    else:
        walker.suspects.append(node.label)


def _settle_in_class(walker: Walker, node: StateNode, edge: Edge) -> None:
    """Mark what may be stored in an attribute of a class, which runs have changed."""
    child, label = edge.child, _label(node, edge)
    used = _used(walker, node, edge)
    own = any(e.how == "store" and e.arg == edge.arg[1] for n in walker.nodes for e in n.edges)  # made from the class's
    if isinstance(child, Leaf) and used == {STORE}:
        edge.child = Leaf(child.value, True, STORE)
    elif isinstance(child, Leaf) and used == {COUNT} and type(child.value) is int and not own:
        edge.child = Leaf(child.value, True, COUNT)
    else:
        store_at(walker, node, edge, label, COUNT in used)


def _may_change(node: StateNode) -> bool:
    """Whether the changes of a container by a run can be told from its items before and after."""
    return node.kind in ("list", "dict") and len(node.edges) <= MAX_ITEMS


def store_at(
    walker: Walker, node: StateNode, edge: Edge, label: str, counts: bool, varies: bool = False
) -> None:  # fmt: skip
    """Note that the function may store something in a place, where a number is an input then; *counts*: an int there is
    counted up; *varies*: it has had several values."""
    edge.stored = True
    _as_input(walker, node, edge, label, counts, varies)


def _as_input(
    walker: Walker, node: StateNode, edge: Edge, label: str, counts: bool, varies: bool = False
) -> None:  # fmt: skip
    """Make a number that is found in a place where something is stored an input."""
    child = edge.child
    walker.stored.append(edge)
    variable = variable_of(node, edge)
    if variable in walker.variables:
        edge.child = walker.variables[variable]
    elif edge.how in ("item", "key") and isinstance(child, Leaf) and is_nan(child.value):
        pass  # nan, which containers tell from another by identity
    elif isinstance(child, Leaf) and _is_input(child.value, counts):
        if label in walker.names.contents:
            if type(child.value) is not int and _asks_identity(walker):
                edge.child = Leaf(child.value, False)  # guarded by identity
            return
        made = edge.child = StateNode("number", child.value, label, node.site, extra=varies, sub=True)
        walker.nodes.append(made)
        if variable is not None:
            walker.variables[variable] = made


def _hold(walker: Walker, stored: list[Edge]) -> None:
    """Make inputs of the objects in these places, and in tuples and lists there, that nobody else refers to."""
    ways = Counter([id(edge.child) for node in walker.nodes for edge in node.edges] + list(map(id, walker.roots)))
    found = Counter([id(child) for edge in stored for child in _held_within(edge.child)])
    children = {id(child): child for edge in stored for child in _held_within(edge.child)}
    for key, node in children.items():
        facts = HELD[type(node.obj)]
        known = facts(node.obj)
        if known is not None and found[key] == ways[key] and walker.met[id(node.obj)] == 1:
            node.kind, node.edges, node.extra, node.sub = "held", [], (facts, known), True


def _held_within(child: Leaf | StateNode, depth: int = 0) -> Iterator[StateNode]:
    if isinstance(child, StateNode) and type(child.obj) in HELD:
        yield child
    elif isinstance(child, StateNode) and child.kind in ("tuple", "list", "dict") and depth < 4:
        for edge in child.edges:
            yield from _held_within(edge.child, depth + 1)


def is_input(child: Leaf | StateNode, above: tuple[StateNode, ...] = ()) -> bool:
    """Whether another value may be in the place of this one: all of it is inputs of the program; *above*: what holds
    it, and may not be held by it."""
    if isinstance(child, Leaf) or any(child is node for node in above):
        return False
    above = (*above, child)
    parts = child.kind in ("tuple", "list", "dict") and all(is_input(edge.child, above) for edge in child.edges)
    return parts or child.kind in ("array", "number", "held")


def _is_input(value: Any, counts: bool) -> bool:
    """Whether a number in a place where something is stored is an input; *counts*: an int there is counted up."""
    return isinstance(value, float | np.float32) or (counts and type(value) is int and limit_of(value) > 0)


def settle_numbers(walker: Walker) -> None:
    """Note the numbers in places that a run can be given copies of; make those inputs that have had several values."""
    names = walker.names
    shared = _shared(walker) if names.varying else {}
    for node in list(walker.nodes) if names.effects else ():
        copied = _free(node)
        for edge in node.edges if copied or _is_copied(node) else ():
            child = edge.child
            if not copied and not (edge.how == "attr" and names.used("attr", edge.arg).isdisjoint(_WRITES)):
                continue
            if type(child) is not Leaf or type(child.value) not in (int, float):
                continue
            if child.effect or edge.how not in _COPIED:
                continue
            name = edge.arg[1] if edge.how == "global" else id(edge.arg) if edge.how == "cell" else edge.arg
            walker.numbers[node.label, name] = child.value
            if (node.label, name) in names.varying and _is_input(child.value, True) and not edge.fixed:
                label = _label(node, edge)
                if label not in names.contents and variable_of(node, edge) not in shared:
                    edge.child = StateNode("number", child.value, label, node.site, extra=True, sub=True)
                    walker.nodes.append(edge.child)


def _shared(walker: Walker) -> dict[Any, Set[Any]]:
    """The variables that are reached on a way on which a run has no copies, too, or has another copy: as attributes of
    a module, with their uses as such."""
    found: dict[Any, Set[Any]] = {}
    for node in walker.nodes:
        for edge in node.edges:
            is_attribute = edge.how == "attr"
            variable = variable_of(node, edge) if edge.fixed or is_attribute or not _free(node) else None
            if variable is not None:
                known = found.get(variable, frozenset())
                found[variable] = known | (
                    walker.names.uses.get(("attr", edge.arg), frozenset()) if is_attribute else frozenset()
                )
    return found


def _free(node: StateNode) -> bool:
    """Whether a run has a copy of the object wherever it is reached."""
    return _is_copied(node) and (node.kind != "instance" or _plain_stores(type(node.obj)))


def _is_copied(node: StateNode) -> bool:
    return node.sub and not node.fixed


def _refuse_write(walker: Walker, node: StateNode, edge: Edge) -> None:
    name = f"the global `{edge.arg[1]}`" if edge.how == "global" else "an outer variable"
    walker.refuse(Refusal.STATE_WRITES, f"{name} of {node.label}", node.site)


def _like_any_other(walker: Walker, node: StateNode, edge: Edge) -> None:
    assert isinstance(edge.child, Leaf)
    if edge.how != "store":
        edge.child = Leaf(edge.child.value, is_leaf(edge.child.value))
        if edge.how in ("global", "cell"):
            _refuse_write(walker, node, edge)
        return
    node.edges.remove(edge)
    store = getattr(node.obj, "__dict__", {})
    if edge.arg in store:
        node.edge("attr", edge.arg, Leaf(store[edge.arg], False))


def _label(node: StateNode, edge: Edge) -> str:
    if edge.how == "class":
        return f"{edge.arg[0].__name__}.{edge.arg[1]}"
    place = place_of(node, edge)
    if place is None:
        return f"{node.label}[{edge.arg!r}]"
    return f"{node.label}.{place[1]}" if edge.how == "attr" else place[1]


def _used(walker: Walker, node: StateNode, edge: Edge) -> Set[Any]:
    """The uses of the part under its name."""
    place = place_of(node, edge)
    return {READ} if place is None else walker.names.used(*place)


def _uses_of_containers(walker: Walker) -> dict[int, set[Any]]:
    """The uses of lists and dicts under all their names, by id of their nodes."""
    found: dict[int, set[Any]] = {}
    for root, label in zip(walker.roots[1:], walker.labels, strict=False):
        if isinstance(root, StateNode) and root.kind in ("list", "dict"):
            found.setdefault(id(root), set()).update(walker.names.used("param", label))
    for owner in walker.nodes:
        for edge in owner.edges:
            if isinstance(edge.child, StateNode) and edge.child.kind in ("list", "dict"):
                found.setdefault(id(edge.child), set()).update(_used(walker, owner, edge))
    return found


def _cell_name(fn: types.FunctionType, cell: types.CellType) -> str | None:
    names = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
    return next((name for name, one in names if one is cell), None)
