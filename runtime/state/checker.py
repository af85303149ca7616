"""Digests of state graphs: a key, the arrays in it, and a generated checker that the state is still the same.

Start reading at ``digest``. One walk over the graph yields the key (a tuple of tokens) and, in the same order, the
source text of a checker function. The checker is made to cost next to nothing:

- it is built with the *user's own globals* as its globals and the *user's own cells* as its closure, so that a global
  or a captured variable is read by the interpreter's fastest instructions, and a builtin that has been shadowed is
  seen as the user's code would see it;
- values are compared by ``is`` first, and by value only if that fails;
- the text depends on the structure of the state only: states of one structure share the compiled code.

It never runs the user's code: attributes are read only where the class is known to hold no descriptor for them.
"""

from __future__ import annotations

import builtins
import keyword
import operator
import sys
import types
from abc import get_cache_token
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ...tracer.bytecode.records import dict_of
from ...tracer.record.float_errors import raising, settings
from ...tracer.record.integers import limit_of
from .data_objects import plain_form
from .libraries import LibrarySetting
from .own_items import CONTENTS, plain_items
from .pins import MISSING, context_value, distinct_of, lookup
from .state_graph import LENGTH, Edge, Leaf, StateGraph, StateNode
from .values import (
    IdentityKey,
    StateKey,
    all_unchanged,
    array_token,
    content,
    identity,
    is_empty,
    is_leaf,
    keys_unchanged,
    state_token,
    unchanged,
)

Checker = Callable[..., tuple[Any, ...] | None]

# Kinds that are guarded by identity.
_CONSTANT = set(
    "function class module partial compiled bound const member pinned library logger cached jitted known".split()
)
_FIXED = {list, tuple, dict, set, frozenset}  # such an object never gets another class
_UNROLL = 8  # from this many leaves on, a container is compared by a loop in C
REGISTRATIONS = "which classes are registered with abstract ones"
_FAIL = ": return None"  # the end of a line that tests something


@dataclass(slots=True)
class Digest:
    """The key of a graph, and the source of its checker."""

    key: StateKey
    names: tuple[str, ...]  # of the arrays
    trail: list[tuple[str, Hashable]]  # (label, token) pairs, to tell what has changed
    parameters: list[str]  # of the checker: the objects
    full: list[str]  # its lines
    light: list[str]  # its lines without the tests of the arrays
    found: str  # the expression for the arrays as they are now
    exception: str  # that for the class of exceptions that mean another state
    cells: dict[str, types.CellType]
    main: dict[str, Any]
    bare: set[str]  # the globals of the user's that stand in the lines
    nodes: str  # the expression for the objects of all nodes as they are now, in the graph's order

    def checker(self, lines: list[str]) -> Checker:
        """The checker of these lines: called with the objects, it returns the arrays as they are now, or None."""
        return self.function(
            f"check({', '.join(self.parameters)})", [*self.reading(lines, "None"), f"return {self.found}"], {}
        )

    def reading(self, lines: list[str], otherwise: str) -> list[str]:
        """The statements of a checker of these *lines*; where the state is another one they return *otherwise*."""
        kept = [
            f" {line.removesuffix(_FAIL)}: return {otherwise}" if line.endswith(_FAIL) else f" {line}" for line in lines
        ]
        return ["try:", *kept, f"except {self.exception}: return {otherwise}"]

    def function(self, head: str, lines: list[str], names: dict[str, Any]) -> types.FunctionType:
        """A function whose *lines* read the state as a checker does, and *names*."""
        cells = self.cells | {name: types.CellType(value) for name, value in names.items()}
        source = "\n  ".join([f" def {head}:", *lines, ""])
        code = _compile(source, tuple(sorted(cells)))
        return types.FunctionType(code, self.main, code.co_name, None, tuple([cells[n] for n in code.co_freevars]))

    def hides(self, code: types.CodeType) -> bool:
        """Whether the *code* of such a function has variables of its own where the state is read, or may take one of
        the user's globals for a builtin."""
        own = {*code.co_varnames, *code.co_freevars}
        return not own.isdisjoint(self.bare) or not vars(builtins).keys().isdisjoint({*code.co_names} - self.bare)


@lru_cache(512)
def _compile(source: str, cells: tuple[str, ...]) -> types.CodeType:
    head = "def _outer():\n" + (f" {' = '.join(cells)} = None\n" if cells else "")
    module = compile(head + source, "<tracegrad state check>", "exec")
    outer = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType))


def digest(graph: StateGraph, first: Sequence[StateNode] = ()) -> tuple[Digest, list[StateNode]]:
    """(the digest of a graph, the nodes of the arrays that its checker finds: those in *first* are so)."""
    emitter = _Emitter(graph, first)
    return emitter.run(), emitter.arrays


@dataclass(slots=True)
class _Emitter:
    graph: StateGraph
    first: Sequence[StateNode] = ()
    body: list[str] = field(default_factory=list)
    light: list[str] = field(default_factory=list)
    cells: dict[str, types.CellType] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # id of a constant or cell -> its name in the checker
    keep: list[Any] = field(default_factory=list)
    variables: dict[int, str] = field(default_factory=dict)  # id of a node -> its variable
    order: dict[int, int] = field(default_factory=dict)  # id of a node -> its number
    spaces: dict[tuple[int, str], bool] = field(default_factory=dict)  # globals that are guarded already
    tokens: list[Hashable] = field(default_factory=list)
    trail: list[tuple[str, Hashable]] = field(default_factory=list)
    arrays: list[StateNode] = field(default_factory=list)
    contents: list[StateNode] = field(default_factory=list)
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
            self.keep.append(obj)
            self.cells[name] = types.CellType(obj)
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
        self.line(f"if {condition}{_FAIL}")

    def add(self, label: str, *parts: Hashable) -> None:
        self.tokens.append(parts)
        self.trail.append((label, parts))

    # ---- the walk

    def run(self) -> Digest:
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
        for setting in graph.settings:
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
        return Digest(
            StateKey(tuple(self.tokens)),
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
                self.parts_head(name, child, label, known=True)
        else:
            name = self.variables[id(child)] = self.fresh()
            self.line(f"{name} = {expr}")
            self.parts_head(name, child, label)
        self.pending.append((name, child))

    def setting(self, setting: LibrarySetting) -> None:
        value = setting.read()
        self.add(setting.label, value)
        changed = f"{self.constant(setting.read)}() != {self.constant(value)}"
        if setting.quick is not None:
            changed = f"{self.constant(setting.quick)}() is not {self.constant(setting.quick())} and {changed}"
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

    def parts_head(self, name: str, node: StateNode, label: str, known: bool = False) -> None:
        kind, obj = node.kind, node.obj
        type_test = f"{self.constant(type)}({name}) is not {self.constant(type(obj))}"
        if kind in ("sink", "number"):
            self.add(label, kind, identity(type(obj)))
            self.fail_if(type_test)
        if kind == "data":
            self.add(label, kind, node.extra.token)
            self.fail_if(f"not {self.constant(node.extra)}({name})")
            return
        if kind == "sink" and isinstance(obj, np.ndarray):
            self.add(label, obj.dtype, obj.shape)
            same = f"{name}.shape == {self.constant(obj.shape)} and {name}.dtype == {self.constant(obj.dtype)}"
            self.fail_if(f"not ({same} and {name}.flags.writeable and {name}.base is None)")
        if kind == "number":
            if type(obj) is int:
                limit = limit_of(obj)
                self.add(label, limit)
                self.fail_if(f"not {-limit} <= {name} <= {limit}")
            self.arrays.append(node)
            return
        if kind == "held":
            facts, known = node.extra
            self.add(label, kind, known)
            self.fail_if(f"{self.constant(facts)}({name}) != {self.constant(known)}")
            self.groups.setdefault(kind, []).append(name)
            self.arrays.append(node)
            return
        if type(obj) in self.sinks and not _has_items(node):  # what it holds counts nowhere: it must not be another one
            self.groups.setdefault(("sink", type(obj)), []).append(name)
        if kind == "sink":
            return
        if kind == "history":
            least = min(len(obj), node.extra)
            self.add(label, kind, least)
            short = f"{self.constant(len)}({name}) {'<' if least == node.extra else '!='} {least}"
            self.fail_if(" or ".join([type_test, *([short] if node.extra else [])]))
            return
        length = f"{self.constant(len)}({name}) != {len(obj)}" if kind in ("list", "tuple", "dict", "set") else ""
        if kind == "array":
            self.array(name, node, label, type_test)
            return
        self.add(label, kind, identity(type(obj)), len(obj) if length else 0)
        if kind == "adder":
            self.add(label, obj.__name__)
            type_test += f" or {name}.__name__ != {obj.__name__!r}"
        counted = kind == "dict" and node.extra  # the comparison of the keys below counts them too
        tests = [] if known and type(obj) in _FIXED else [type_test]
        tests += [length] if length and not counted else []
        if tests and not node.native:
            self.fail_if(" or ".join(tests))
        if kind == "dict":
            keys = [state_token(k) if is_leaf(k) else identity(k) for k in node.extra]
            self.add(label, tuple(keys))
            if node.extra and not node.native:
                if all(type(k) is str for k in node.extra):
                    self.fail_if(f"(*{name},) != {self.constant(node.extra)}")
                elif not any(map(is_leaf, node.extra)):
                    all_of, each, same = self.constant(all), self.constant(map), self.constant(operator.is_)
                    alike = f"{all_of}({each}({same}, {name}, {self.constant(node.extra)}))"
                    self.fail_if(f"{self.constant(len)}({name}) != {len(node.extra)} or not {alike}")
                else:
                    self.fail_if(f"not {self.constant(keys_unchanged)}({name}, {self.constant(node.extra)})")
        elif kind == "instance":
            self.instance_head(name, node, label)
        elif kind == "list" and hasattr(obj, "maxlen"):
            self.add(label, obj.maxlen)
            self.fail_if(f"{name}.maxlen != {obj.maxlen}")
        if kind in ("list", "dict", "set", "instance") and type(obj) not in self.sinks:
            self.groups.setdefault((kind, identity(type(obj)), len(obj) if length else 0), []).append(name)

    def array(self, name: str, node: StateNode, label: str, type_test: str) -> None:
        array = node.obj
        self.add(label, "array", array_token(array), node.sub, node.fixed)
        dtype, shape = self.constant(array.dtype), self.constant(array.shape)
        kind = self.fresh("t")
        layout = (
            f"not {name}.flags.c_contiguous"
            if array.flags.c_contiguous
            else f"{name}.strides != {self.constant(array.strides)}"
        )
        self.body.append(
            f"if {type_test} or (({kind} := {name}.dtype) is not {dtype} and {kind} != {dtype}) "
            f"or {name}.shape != {shape} or {layout}{_FAIL}"
        )
        if node.fixed or not node.sub:  # the launcher looks at those that it is given
            self.light.append(f"if {type_test}{_FAIL}")
        self.groups.setdefault(("array", str(array.dtype), array.shape), []).append(name)
        if node.sub:
            self.arrays.append(node)
        if node.fixed and array.nbytes <= 1 << 20:
            data = content(array)
            self.add(label, "content", data)
            self.fail_if(f"{name}.tobytes() != {self.constant(data)}")

    def instance_head(self, name: str, node: StateNode, label: str) -> None:
        shadow, absent, everyone = node.extra
        store = getattr(node.obj, "__dict__", None)
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
            self.tokens.append(self.order[id(node)])
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
        self.fail_if(f"not {quick} and not {self.constant(all_unchanged)}({source}, {constant})")
        return True

    def edge(self, owner: str, node: StateNode, edge: Edge, item: str | None = None) -> None:
        """Guard one part of *node*, which is *owner* in the checker, and the part *item*, if it has been read."""
        how, arg, child = edge.how, edge.arg, edge.child
        guard = not node.native or arg in node.loose
        label = child.label if isinstance(child, StateNode) else _leaf_label(node, edge)
        if how in ("global", "builtin", "noglobal"):
            self.global_name(edge, label)
            return
        self.tokens.append((how, _place(how, arg)))
        if how == "attr":
            if node.kind in ("module", "library"):
                self.name_in_module(node.obj.__dict__, arg, child, label)
            else:
                self.child(_attribute(owner, arg, node.obj), child, label, guard)
        elif how == "member":
            if arg[1] is not None:
                self.fail_if(" is not ".join([f"{self.constant(store)}[{arg[-1]!r}]" for store in arg[:2]]))
            self.child(f"{self.constant(arg[0])}[{arg[-1]!r}]", child, label)
        elif how == "const" or how == "quiet":
            self.child("", child, label, guard=False)
        elif how in ("item", "element"):
            self.child(item or f"{owner}[{arg}]", child, label, guard)
        elif how == "key":
            at = repr(arg) if type(arg) is str else self.constant(arg)
            self.child(f"{owner}[{at}]", child, label, guard)
        elif how == "plain":
            self.child(f"{self.constant(plain_form)}({owner})", child, label)
        elif how == LENGTH:
            self.child(f"{self.constant(len)}({owner})", child, label)
        elif how == CONTENTS and isinstance(child, StateNode):
            if child.kind == "sink":  # nothing counts but whose items these are
                self.add(label, how)
                self.variables[id(child)] = "None"
            else:
                self.child(f"{self.constant(plain_items)}({owner})", child, label)
        elif how == "items":
            self.child(owner, child, label)
        elif how in ("store", "stream"):
            self.add(node.label, how)
        elif how == "cell":
            self.child(self.cell(arg), child, label)
        elif how == "context":
            self.child(f"{self.constant(context_value)}({self.constant(arg)})", child, label)
        elif how == "emptycell":
            self.fail_if(f"not {self.constant(is_empty)}({self.constant(arg)})")
        elif how == "noattr":
            self.fail_if(f"{self.constant(hasattr)}({owner}, {arg!r})")
        elif how == "noitems":
            self.add(node.label, frozenset(arg))
            if all(self.graph.pins.pin_name(node.obj.__dict__, name, MISSING, False) for name in arg):
                return
            if len(arg) <= _UNROLL:
                self.fail_if(" or ".join([f"{name!r} in {owner}.__dict__" for name in sorted(arg)]))
            else:
                self.fail_if(f"not {self.constant(frozenset(arg))}.isdisjoint({owner}.__dict__)")
        elif how == "import":
            self.child(f"{self.constant(sys.modules)}[{arg!r}]", child, label)
        elif how == "class":
            self.class_part(arg[0], arg[1], child, label)

    def global_name(self, edge: Edge, label: str) -> None:
        space, name = edge.arg[0], edge.arg[-1]
        self.tokens.append((edge.how, name, None if space is self.graph.main else IdentityKey(space)))
        if (id(space), name) in self.spaces:
            return
        self.spaces[id(space), name] = True
        if edge.how == "noglobal":
            provided = edge.arg[1]
            self.fail_if(f"{name!r} in {self.constant(space)} or {name!r} in {self.constant(provided)}")
            return
        if space is self.graph.main and _is_name(name):
            expr = name
            self.bare.add(name)
        elif edge.how == "global":
            expr = f"{self.constant(space)}[{name!r}]"
        else:
            self.fail_if(f"{name!r} in {self.constant(space)}")
            expr = f"{self.constant(edge.arg[1])}[{name!r}]"
        self.child(expr, edge.child, label)

    def name_in_module(self, space: dict[str, Any], name: str, child: Leaf | StateNode, label: str) -> None:
        leaf = child if isinstance(child, Leaf) else Leaf(child.obj, False)
        pinned = self.graph.pins.pin_name(space, name, leaf.value, leaf.by_value)
        # an item is read quicker than an attribute, where a module has a `__getattr__`
        self.child(f"{self.constant(space)}[{name!r}]", child, label, guard=not pinned)

    def class_part(self, cls: type, name: str, child: Leaf | StateNode, label: str) -> None:
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


def _place(how: str, arg: Any) -> Hashable:
    """The token of the place of a part in its owner, of which a run may have read some places alone."""
    if how in ("class", "member"):
        return (identity(arg[0]), arg[1]) if how == "class" else arg[-1]
    if type(arg) in (str, int):
        return arg  # type: ignore[no-any-return]
    if how == "key" and is_leaf(arg):
        return state_token(arg)
    return identity(arg) if how in ("key", "cell", "context") else None


def _has_items(node: StateNode) -> bool:
    """Whether a node of its own stands for the items of the object."""
    return any(edge.how == "items" for edge in node.edges)


def _attribute(owner: str, name: str, obj: Any) -> str:
    """The attribute of the instance: where its class has one of that name, too, that is another one."""
    store = getattr(obj, "__dict__", None)
    own = type(store) is dict and name in store and lookup(type(obj), name) is not MISSING
    return f"{owner}.{name}" if _is_name(name) and not own else f"{owner}.__dict__[{name!r}]"


def _is_name(name: str) -> bool:
    """Whether *name* can stand in a program (pytest gives modules globals like ``@pytest_ar``)."""
    return name.isidentifier() and not keyword.iskeyword(name)


def _leaf_label(node: StateNode, edge: Edge) -> str:
    how, arg = edge.how, edge.arg
    if how in ("global", "builtin", "noglobal"):
        return f"{'global' if how == 'global' else 'name'} {arg[-1]}"
    if how in ("item", "key", "element"):
        return f"{node.label}[{arg!r}]" if is_leaf(arg) else f"{node.label}[...]"
    if how == "class":
        return f"{arg[0].__name__}.{arg[1]}"
    if how in ("attr", "member"):
        name = arg if how == "attr" else arg[-1]
        return f"{node.label.removeprefix('global ').removeprefix('closure ')}.{name}"
    return f"{how} of {node.label}"
