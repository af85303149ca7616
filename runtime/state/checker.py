"""Snapshots of state graphs: a key, the arrays in it, and a generated checker that the state is still the same.

Start reading at ``snapshot_of``. One walk over the graph yields the key (a tuple of tokens) and, in the same order, the
source text of a checker function. The checker is made to cost next to nothing:

- it is built with the *user's own globals* as its globals and the *user's own cells* as its closure, so that a global
  or a captured variable is read by the interpreter's fastest instructions, and a builtin that has been shadowed is
  seen as the user's code would see it;
- values are compared by ``is`` first, and by value only if that fails;
- the text depends on the structure of the state only: states of one structure share the compiled code.

It never runs the user's code: attributes are read only where the class is known to hold no descriptor for them.
"""

from __future__ import annotations

import keyword
import operator
import sys
import types
from abc import get_cache_token
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...tracer.ir.own_attributes import dict_of
from ...tracer.record.float_errors import raising, settings
from ...tracer.record.integers import limit_of
from ..launch.comparisons import SAME_ITEMS, distinct_of
from .data_objects import plain_form
from .libraries import LibrarySetting
from .own_items import CONTENTS, plain_items
from .pins import MISSING, context_value, lookup
from .snapshot import FAIL, Snapshot
from .state_graph import LENGTH, VALUES, Edge, Leaf, StateGraph, StateNode
from .values import (
    IdentityKey,
    StateKey,
    all_unchanged,
    array_token,
    identity,
    is_leaf,
    keys_unchanged,
    state_token,
    unchanged,
)

# Kinds that are guarded by identity.
_CONSTANT = set("function class module partial compiled const member pinned library logger cached jitted known".split())
_FIXED = {list, tuple, dict, set, frozenset}  # such an object never gets another class
_SIZED = {"list", "tuple", "dict", "set"}
_APART = {"list", "dict", "set", "instance"}  # two such objects must not become one
_UNROLL = 8  # from this many leaves on, a container is compared by a loop in C
REGISTRATIONS = "which classes are registered with abstract ones"


def snapshot_of(graph: StateGraph, first: Sequence[StateNode] = ()) -> Snapshot:
    """The snapshot of a graph, whose first arrays are those of the nodes *first*."""
    return _Emitter(graph, first).run()


@dataclass(slots=True)
class _Emitter:
    graph: StateGraph
    first: Sequence[StateNode] = ()
    body: list[str] = field(default_factory=list)
    light: list[str] = field(default_factory=list)
    cells: dict[str, types.CellType] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # id of a constant or cell -> its name in the checker
    variables: dict[int, str] = field(default_factory=dict)  # id of a node -> its variable
    order: dict[int, int] = field(default_factory=dict)  # id of a node -> its number
    spaces: dict[tuple[int, str], bool] = field(default_factory=dict)  # globals that are guarded already
    trail: list[tuple[str, Hashable]] = field(default_factory=list)
    arrays: list[StateNode] = field(default_factory=list)
    groups: dict[Hashable, list[str]] = field(default_factory=dict)  # labels of objects that must stay distinct
    pending: deque[tuple[str, StateNode]] = field(default_factory=deque)  # nodes whose parts are still to be guarded
    bare: set[str] = field(default_factory=set)
    count: int = 0
    sinks: set[type] = field(default_factory=set)  # classes of the sinks in the state

    # ---- names in the checker

    def fresh(self, letter: str = "v") -> str:
        self.count += 1
        return f"_tg_{letter}{self.count}"

    def constant(self, obj: Any) -> str:
        if obj is None or obj is True or obj is False or obj is Ellipsis:
            return repr(obj)
        name = self.names.get(id(obj))
        if name is None:
            name = self.names[id(obj)] = self.fresh("k")
            self.cells[name] = types.CellType(obj)  # keeps it alive
        return name

    def cell(self, cell: types.CellType) -> str:
        name = self.names.get(-id(cell))
        if name is None:
            name = self.names[-id(cell)] = self.fresh("c")
            self.cells[name] = cell
        return name

    def line(self, text: str) -> None:
        self.body.append(text)
        self.light.append(text)

    def fail_if(self, condition: str) -> None:
        self.line(f"if {condition}{FAIL}")

    def add(self, label: str, *parts: Hashable) -> None:
        self.trail.append((label, parts))

    # ---- the walk

    def run(self) -> Snapshot:
        graph = self.graph
        self.sinks = {type(node.obj) for node in graph.nodes if node.kind in ("sink", "history")}
        self.pins()
        if graph.roots:
            self.child("", graph.roots[0], "the function", guard=False)
        parameters = []
        for root in graph.roots[1:]:
            name = self.fresh("o")
            parameters.append(name)
            self.child(name, root, root.label if isinstance(root, StateNode) else "argument", guard=True)
        while self.pending:
            self.parts(*self.pending.popleft())
        for setting in graph.settings.values():
            self.setting(setting)
        for variables in self.groups.values():
            if all(map(self.cells.__contains__, variables)):
                continue
            if 1 < len(variables) <= 4:
                pairs = [f"{a} is {b}" for i, a in enumerate(variables) for b in variables[i + 1 :]]
                self.fail_if(" or ".join(pairs))
            elif len(variables) > 4:
                self.fail_if(f"not {self.cell(distinct_of(len(variables)))}({', '.join(variables)})")
        places = {id(node): k for k, node in enumerate(self.first)}
        self.arrays.sort(key=lambda node: places.get(id(node), len(places)))
        names = [
            f"{self.constant(float)}({self.variables[id(node)]})" if type(node.obj) is int else self.variables[id(node)]
            for node in self.arrays
        ]
        return Snapshot(
            graph,
            self.arrays,
            StateKey(tuple([token for _, token in self.trail])),
            tuple([node.label for node in self.arrays]),
            self.trail,
            parameters,
            self.body,
            self.light,
            f"({', '.join(names)},)" if names else "()",
            self.constant(Exception),
            self.cells,
            graph.main if graph.main is not None else {},
            self.bare,
            f"({''.join([self.variables.get(id(node), 'None') + ', ' for node in graph.nodes])})",
        )

    def pins(self) -> None:
        """Before all else, since attributes may be read where the classes are as they were."""
        pins = self.graph.pins
        for cls, parts in pins.classes.items():
            self.add(f"class {cls.__qualname__}", parts)
        if pins.abstract:
            self.add(REGISTRATIONS, pins.registrations)
        if pins or pins.native:
            other = f"not {self.cell(pins.quick)}()"
            if pins.abstract:
                known = self.constant(pins.registrations)
                other = f"({other} or {known} != {self.constant(get_cache_token)}())"
            self.fail_if(f"{other} and not {self.constant(pins.settle)}()")
        else:
            known = self.constant(settings(None))
            self.fail_if(f"{self.constant(settings)}(None) is not {known} and {self.constant(raising)}()")

    def child(self, expr: str, child: Leaf | StateNode, label: str, guard: bool = True) -> None:
        """Guard one part; ``expr`` reads it in the checker. Without ``guard`` it is a constant of its owner."""
        if isinstance(child, Leaf):
            self.leaf(expr, child, label, guard)
            return
        known = self.variables.get(id(child))
        if known is not None:
            self.add(label, "again", self.order[id(child)])
            read = expr if guard else self.constant(child.obj)
            if read != known:
                self.fail_if(f"{read} is not {known}")
            return
        self.order[id(child)] = len(self.order)
        if child.kind in _CONSTANT or not guard:
            name = self.variables[id(child)] = self.constant(child.obj)
            if guard:
                self.fail_if(f"{expr} is not {name}")
            if child.kind in _CONSTANT:
                self.add(label, child.kind, identity(child.obj))
            else:
                self.head(name, child, label, known=True)
        else:
            name = self.variables[id(child)] = self.fresh()
            self.line(f"{name} = {expr}")
            self.head(name, child, label)
        self.pending.append((name, child))

    def setting(self, setting: LibrarySetting) -> None:
        value = setting.read()
        self.add(setting.label, value)
        changed = f"{self.constant(setting.read)}() != {self.constant(value)}"
        if setting.quick is not None:
            other = f"{self.constant(setting.quick)}() is not {self.constant(setting.quick())}"
            changed = other if setting.pinned else f"{other} and {changed}"
        self.fail_if(changed)

    def leaf(self, expr: str, leaf: Leaf, label: str, guard: bool) -> None:
        value = leaf.value
        self.add(label, state_token(value) if leaf.by_value else identity(value))
        if not guard:
            return
        name = self.constant(value)
        if not leaf.by_value or value is None or type(value) is bool:
            self.fail_if(f"{expr} is not {name}")
        else:
            temporary = self.fresh("t")
            other = f"not {self.constant(unchanged)}({temporary}, {name})"
            self.fail_if(f"({temporary} := {expr}) is not {name} and {other}")

    # ---- what an object must be itself, before its parts are looked at

    def head(self, name: str, node: StateNode, label: str, known: bool = False) -> None:
        """Guard what the object of *node* must be itself; *known*: it is a constant of the checker."""
        head = _HEADS.get(node.kind)
        if head is not None:
            head(self, name, node, label)
        else:
            self.object_head(name, node, label, known)

    def is_not_of(self, kind: type, name: str) -> str:
        """The test that *name* is not of this class."""
        return f"{self.constant(type)}({name}) is not {self.constant(kind)}"

    def data_head(self, name: str, node: StateNode, label: str) -> None:
        """Data of a library has the same contents."""
        self.add(label, node.kind, node.extra.token)
        self.fail_if(f"not {self.constant(node.extra)}({name})")

    def number_head(self, name: str, node: StateNode, label: str) -> None:
        """A number of the run has its class, and an int is within its limits."""
        self.add(label, node.kind, identity(type(node.obj)))
        self.fail_if(self.is_not_of(type(node.obj), name))
        if type(node.obj) is int:
            limit = limit_of(node.obj)
            self.add(label, limit)
            self.fail_if(f"not {-limit} <= {name} <= {limit}")
        self.arrays.append(node)

    def generator_head(self, name: str, node: StateNode, label: str) -> None:
        """A generator of random numbers has its class, whatever it would give, and two are two."""
        self.add(label, node.kind, identity(type(node.obj)))
        self.fail_if(self.is_not_of(type(node.obj), name))
        self.groups.setdefault((node.kind, type(node.obj)), []).append(name)

    def held_head(self, name: str, node: StateNode, label: str) -> None:
        """The facts about a tensor that is an input are the same."""
        facts, known = node.extra
        self.add(label, node.kind, known)
        self.fail_if(f"{self.constant(facts)}({name}) != {self.constant(known)}")
        self.groups.setdefault(node.kind, []).append(name)
        self.arrays.append(node)

    def sink_head(self, name: str, node: StateNode, label: str) -> None:
        """A container that is only written to has its class, and an array such a form that it can be written."""
        obj = node.obj
        self.add(label, node.kind, identity(type(obj)))
        self.fail_if(self.is_not_of(type(obj), name))
        if isinstance(obj, np.ndarray):
            self.add(label, obj.dtype, obj.shape)
            same = f"{name}.shape == {self.constant(obj.shape)} and {name}.dtype == {self.constant(obj.dtype)}"
            self.fail_if(f"not ({same} and {name}.flags.writeable and {name}.base is None)")
        self.no_other_sink(name, node)

    def history_head(self, name: str, node: StateNode, label: str) -> None:
        """A container that is written to, and of which no more is read than its length and some items, has its class,
        and as many items as were looked for, or no more where it had less."""
        self.no_other_sink(name, node)
        least = min(len(node.obj), node.extra)
        self.add(label, node.kind, least, node.extra)
        short = f"{self.constant(len)}({name}) {'<' if least == node.extra else '!='} {least}"
        self.fail_if(" or ".join([self.is_not_of(type(node.obj), name), *([short] if node.extra else [])]))

    def array_head(self, name: str, node: StateNode, label: str) -> None:
        """An array has its form, and its contents where these are no input."""
        self.no_other_sink(name, node)
        array, type_test = node.obj, self.is_not_of(type(node.obj), name)
        self.add(label, "array", array_token(array), node.fixed)
        dtype, shape = self.constant(array.dtype), self.constant(array.shape)
        kind = self.fresh("t")
        layout = (
            f"not {name}.flags.c_contiguous"
            if array.flags.c_contiguous
            else f"{name}.strides != {self.constant(array.strides)}"
        )
        self.body.append(
            f"if {type_test} or (({kind} := {name}.dtype) is not {dtype} and {kind} != {dtype}) "
            f"or {name}.shape != {shape} or {layout}{FAIL}"
        )
        self.groups.setdefault(("array", str(array.dtype), array.shape), []).append(name)
        if not node.fixed:  # the launcher looks at those that it is given
            self.arrays.append(node)
            return
        self.light.append(f"if {type_test}{FAIL}")
        data = array.tobytes()
        self.add(label, "content", data)
        self.fail_if(f"{name}.tobytes() != {self.constant(data)}")

    def object_head(self, name: str, node: StateNode, label: str, known: bool) -> None:
        """An object has its class, and a container its length."""
        kind, obj = node.kind, node.obj
        self.no_other_sink(name, node)
        size = len(obj) if kind in _SIZED else 0
        self.add(label, kind, identity(type(obj)), size)
        tests = [] if known and type(obj) in _FIXED else [self.is_not_of(type(obj), name)]
        if kind in _SIZED and not (kind == "dict" and node.extra):  # the comparison of its keys counts them too
            tests.append(f"{self.constant(len)}({name}) != {size}")
        if kind == "adder":
            self.add(label, obj.__name__)
            tests.append(f"{name}.__name__ != {obj.__name__!r}")
        if tests and not node.native:
            self.fail_if(" or ".join(tests))
        if kind == "dict":
            self.keys_head(name, node, label)
        elif kind == "instance":
            self.instance_head(name, node, label)
        elif kind == "list" and hasattr(obj, "maxlen"):
            self.add(label, obj.maxlen)
            self.fail_if(f"{name}.maxlen != {obj.maxlen}")
        if kind in _APART and type(obj) not in self.sinks:
            self.groups.setdefault((kind, identity(type(obj)), size), []).append(name)

    def no_other_sink(self, name: str, node: StateNode) -> None:
        """An object of the class of a sink, of which what it holds counts nowhere, is no other one."""
        has_items = any(edge.how == "items" for edge in node.edges)  # which have a node of their own
        if type(node.obj) in self.sinks and not has_items:
            self.groups.setdefault(("sink", type(node.obj)), []).append(name)

    def keys_head(self, name: str, node: StateNode, label: str) -> None:
        """A dict has the same keys in the same order."""
        keys = node.extra
        self.add(label, tuple([state_token(k) if is_leaf(k) else identity(k) for k in keys]))
        if not keys or node.native:
            return
        if all(type(k) is str for k in keys):
            self.fail_if(f"(*{name},) != {self.constant(keys)}")
        elif not any(map(is_leaf, keys)):
            all_of, each, same = self.constant(all), self.constant(map), self.constant(operator.is_)
            alike = f"{all_of}({each}({same}, {name}, {self.constant(keys)}))"
            self.fail_if(f"{self.constant(len)}({name}) != {len(keys)} or not {alike}")
        else:
            self.fail_if(f"not {self.constant(keys_unchanged)}({name}, {self.constant(keys)})")

    def instance_head(self, name: str, node: StateNode, label: str) -> None:
        shadow, absent, everyone = node.extra
        store = dict_of(node.obj)
        self.add(label, shadow, absent, everyone)
        tests = []
        if store is not None and (shadow or absent or everyone is not None):
            variable = self.fresh()
            self.line(f"{variable} = {name}.__dict__")
            tests += [f"{n!r} in {variable}" for n in sorted(shadow)]
            if absent:
                tests.append(f"not {self.constant(absent)}.isdisjoint({variable})")
            if everyone is not None:
                tests.append(f"(*{variable},) != {self.constant(everyone)}")
        if tests:
            self.fail_if(" or ".join(tests))

    # ---- the parts

    def parts(self, name: str, node: StateNode) -> None:
        edges = node.edges
        if edges:  # of some objects nothing was read
            self.trail.append(("", self.order[id(node)]))
        if node.kind == "function" and not node.extra:  # a library's function is not patched in place
            fn = node.obj
            parts = self.graph.pins.functions[fn]
            self.add(node.label, *map(IdentityKey, parts.values()))
            if not self.graph.pins.native:
                self.fail_if(" or ".join([f"{name}.{part} is not {self.constant(v)}" for part, v in parts.items()]))
        if node.kind in ("member", "module"):
            self.add(node.label, identity(type(node.obj)))
            self.fail_if(f"{self.constant(type)}({name}) is not {self.constant(type(node.obj))}")
        if node.kind == "partial":  # by __setstate__
            names = [(part, self.constant(getattr(node.obj, part))) for part in ("func", "args", "keywords")]
            tests = [f"{name}.{part} is not {known}" for part, known in names]
            if dict_of(node.obj) is None:
                tests.append(f"{self.constant(dict_of)}({name}) is not None")
            self.fail_if(" or ".join(tests))
        if node.kind in ("list", "tuple", "dict") and len(edges) > _UNROLL and self.flat(name, node):
            return
        if node.kind == "set" and edges:
            elements = self.fresh()
            self.line(f"{elements} = (*{name},)")
            name = elements
        items: list[str | None] = [None] * len(edges)
        in_order = [("item", k) for k in range(len(edges))]
        whole = bool(edges) and node.kind in ("list", "tuple") and len(edges) == len(node.obj)
        if whole and not node.native and [(edge.how, edge.arg) for edge in edges] == in_order:
            found = [self.fresh("i") for _ in edges]  # all, whose number has been compared, in one instruction
            self.line(f"({', '.join(found)},) = {name}")
            items = [*found]
        for edge, item in zip(edges, items, strict=True):
            self.edge(name, node, edge, item)

    def flat(self, name: str, node: StateNode) -> bool:
        """A container of leaves only, all of which are compared: one comparison in C."""
        places = node.obj if node.kind == "dict" else range(len(node.obj))
        if [edge.arg for edge in node.edges] != [*places]:
            return False
        leaves = [e.child for e in node.edges if e.how in ("item", "key")]
        if len(leaves) < len(node.edges) or not all(isinstance(c, Leaf) and c.by_value for c in leaves):
            return False
        values = tuple([e.child.value for e in node.edges])  # type: ignore[union-attr]
        self.add(node.label, tuple([state_token(v) for v in values]))
        source = f"{name}.values()" if node.kind == "dict" else name
        constant = self.constant(values)
        quick = f"{self.constant(all)}({self.constant(map)}({self.constant(operator.is_)}, {source}, {constant}))"
        if type(node.obj) in (list, tuple):
            quick = f"{self.cell(SAME_ITEMS)}({source}, {constant})"
        self.fail_if(f"not {quick} and not {self.constant(all_unchanged)}({source}, {constant})")
        return True

    def values(self, owner: str, node: StateNode, edge: Edge, label: str) -> None:
        """A long list or tuple of numbers has the same ones."""
        assert isinstance(edge.child, Leaf)
        values = edge.child.value
        self.add(node.label, values.token)
        quick = f"{self.cell(SAME_ITEMS)}({owner}, {self.constant(values.items)})"
        self.fail_if(f"not {quick} and not {self.constant(values.same)}({owner})")

    def edge(self, owner: str, node: StateNode, edge: Edge, item: str | None = None) -> None:
        """Guard one part of *node*, which is *owner* in the checker, and the part *item*, if it has been read."""
        how, arg = edge.how, edge.arg
        label = edge.child.label if isinstance(edge.child, StateNode) else _leaf_label(node, edge)
        if how in ("global", "builtin"):
            self.global_name(edge, label)
            return
        self.trail.append(("", (how, _place(how, arg))))
        read = _READS.get(how)
        if read is None:
            _PARTS[how](self, owner, node, edge, label)
        else:
            guard = how not in _ITEMS or not node.native or arg in node.loose
            self.child(item or read(self, owner, arg), edge.child, label, guard)

    def attribute(self, owner: str, node: StateNode, edge: Edge, label: str) -> None:
        """An attribute of an object, or a name of a module, which is read quicker as an item of its dict."""
        name = edge.arg
        if node.kind in ("module", "library"):
            self.entry(node.obj.__dict__, name, edge.child, label)
        else:
            self.child(_attribute(owner, name, node.obj), edge.child, label, not node.native or name in node.loose)

    def entry(self, store: dict[str, Any], name: str, child: Leaf | StateNode, label: str) -> None:
        """An entry of a module's dict, which the pins compare where they can."""
        guard = not self.graph.pins.has_entry(store, name)
        self.child(f"{self.constant(store)}[{name!r}]" if guard else "", child, label, guard)

    def fixed_part(self, owner: str, node: StateNode, edge: Edge, label: str) -> None:
        """A part of an object that can't change, or that is compared elsewhere."""
        self.child("", edge.child, label, guard=False)

    def own_items(self, owner: str, node: StateNode, edge: Edge, label: str) -> None:
        """The items of an object of a subclass of ``list`` or ``dict``, as a plain container."""
        child = edge.child
        if isinstance(child, StateNode) and child.kind == "sink":  # nothing counts but whose items these are
            self.add(label, edge.how)
            self.variables[id(child)] = "None"
        else:
            self.child(f"{self.constant(plain_items)}({owner})", child, label)

    def no_attribute(self, owner: str, node: StateNode, edge: Edge, label: str) -> None:
        """An object has no such attribute."""
        self.fail_if(f"{self.constant(hasattr)}({owner}, {edge.arg!r})")

    def no_names(self, owner: str, node: StateNode, edge: Edge, label: str) -> None:
        """The dict of an object has none of some names."""
        names = edge.arg
        self.add(node.label, frozenset(names))
        if len(names) <= _UNROLL:
            self.fail_if(" or ".join([f"{name!r} in {owner}.__dict__" for name in sorted(names)]))
        else:
            self.fail_if(f"not {self.constant(frozenset(names))}.isdisjoint({owner}.__dict__)")

    def global_name(self, edge: Edge, label: str) -> None:
        space, name = edge.arg[0], edge.arg[-1]
        self.trail.append(("", (edge.how, name, None if space is self.graph.main else IdentityKey(space))))
        if (id(space), name) in self.spaces:
            return
        self.spaces[id(space), name] = True
        if space is self.graph.main and _is_name(name):
            expr = name
            self.bare.add(name)
        elif edge.how == "global":
            self.entry(space, name, edge.child, label)
            return
        else:
            self.fail_if(f"{name!r} in {self.constant(space)}")
            expr = f"{self.constant(edge.arg[1])}[{name!r}]"
        self.child(expr, edge.child, label)

    def class_part(self, owner: str, node: StateNode, edge: Edge, label: str) -> None:
        """An attribute of a class, which the pins compare where it is a value or compared by identity."""
        (cls, name), child = edge.arg, edge.child
        if (id(cls), "." + name) in self.spaces:
            return
        self.spaces[id(cls), "." + name] = True
        if isinstance(child, Leaf) or child.kind in _CONSTANT:
            by_value = isinstance(child, Leaf) and child.by_value
            self.graph.pins.leaves.append((cls, name, child.value if isinstance(child, Leaf) else child.obj, by_value))
            self.child("", child, label, guard=False)
            return
        raw = lookup(cls, name)
        try:
            direct = getattr(cls, name) is raw
        except Exception:
            direct = False
        if direct and name.isidentifier():
            self.child(f"{self.constant(cls)}.{name}", child, label)
        else:
            self.child(f"{self.constant(lookup)}({self.constant(cls)}, {name!r})", child, label)


_HEADS: dict[str, Callable[[_Emitter, str, StateNode, str], None]] = {
    "data": _Emitter.data_head, "number": _Emitter.number_head, "held": _Emitter.held_head,
    "generator": _Emitter.generator_head,
    "sink": _Emitter.sink_head, "history": _Emitter.history_head, "array": _Emitter.array_head,
}  # fmt: skip

# How the checker reads a part, of (emitter, owner, what is read there): an expression.
_READS: dict[str, Callable[[_Emitter, str, Any], str]] = {
    "item": lambda emitter, owner, index: f"{owner}[{index}]",
    "element": lambda emitter, owner, index: f"{owner}[{index}]",
    "key": lambda emitter, owner, key: f"{owner}[{repr(key) if type(key) is str else emitter.constant(key)}]",
    "plain": lambda emitter, owner, _: f"{emitter.constant(plain_form)}({owner})",
    LENGTH: lambda emitter, owner, _: f"{emitter.constant(len)}({owner})",
    "items": lambda emitter, owner, _: owner,
    "cell": lambda emitter, owner, cell: emitter.cell(cell),
    "context": lambda emitter, owner, variable: f"{emitter.constant(context_value)}({emitter.constant(variable)})",
    "import": lambda emitter, owner, name: f"{emitter.constant(sys.modules)}[{name!r}]",
}
_ITEMS = {"item", "element", "key"}  # which the pins may compare

# The other parts, of (emitter, owner, its node, edge, label).
_PARTS: dict[str, Callable[[_Emitter, str, StateNode, Edge, str], None]] = {
    "attr": _Emitter.attribute, "const": _Emitter.fixed_part, "quiet": _Emitter.fixed_part,
    "noattr": _Emitter.no_attribute, "noitems": _Emitter.no_names, "class": _Emitter.class_part,
    CONTENTS: _Emitter.own_items, VALUES: _Emitter.values,
}  # fmt: skip


def _place(how: str, arg: Any) -> Hashable:
    """The token of the place of a part in its owner, of which a run may have read some places alone."""
    if how == "class":
        return identity(arg[0]), arg[1]
    if type(arg) in (str, int):
        return arg  # type: ignore[no-any-return]
    if how == "key" and is_leaf(arg):
        return state_token(arg)
    return identity(arg) if how in ("key", "cell", "context") else None


def _attribute(owner: str, name: str, obj: Any) -> str:
    """The attribute of the instance: where its class has one of that name, too, that is another one."""
    store = dict_of(obj)
    own = type(store) is dict and name in store and lookup(type(obj), name) is not MISSING
    return f"{owner}.{name}" if _is_name(name) and not own else f"{owner}.__dict__[{name!r}]"


def _is_name(name: str) -> bool:
    """Whether *name* can stand in a program (pytest gives modules globals like ``@pytest_ar``)."""
    return name.isidentifier() and not keyword.iskeyword(name)


def _leaf_label(node: StateNode, edge: Edge) -> str:
    how, arg = edge.how, edge.arg
    if how in ("global", "builtin"):
        return f"{'global' if how == 'global' else 'name'} {arg[-1]}"
    if how in ("item", "key", "element"):
        return f"{node.label}[{arg!r}]" if is_leaf(arg) else f"{node.label}[...]"
    if how == "class":
        return f"{arg[0].__name__}.{arg[1]}"
    if how == "attr":
        return f"{node.label.removeprefix('global ').removeprefix('closure ')}.{arg}"
    return f"{how} of {node.label}"
