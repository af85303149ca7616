"""The walk over the outside state: every kind of value becomes a leaf, a node, or a reason.

Start reading at ``build``, then ``Walker.visit``. Modules are in ``modules.py``, classes and instances in
``objects.py``. Which attributes of an object are part of the state depends on the attribute names that occur in
all code reached, and which code is reached depends on the attributes: ``build`` walks until neither grows any more.
Functions, classes and instances are filled in later, from a queue, so that no chain of them is too long.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...optim.lr_scheduler import LRScheduler
from ...steps import state
from ...tensors.op import Op
from ...tracer.ir.aval import is_number
from . import modules
from . import objects as state_objects
from .graph import MAX_CONTENT, Chains, Graph, Leaf, Names, Node, mark
from .scan import CodeFacts, scan
from .trust import DRAW_ELSEWHERE, Trust, impurity, plain_reader
from .values import is_leaf, leaf_size

MAX_LEAVES = 10_000
MAX_DEPTH = 100
_COPIERS = {"asdict", "astuple", "deepcopy", "copy", "getmembers", "replace"}  # read attributes by themselves


class UnknownError(Exception):
    """Raised inside the walk where going on makes no sense (too many leaves, nested too deeply)."""


def build(fn: Any, objects: tuple[Any, ...], labels: tuple[str, ...], trust: Trust, names: Names) -> Graph:
    """The graph of everything that ``fn`` can read outside itself; ``names`` is read and grows."""
    while True:
        before = names.state()
        walker = Walker(trust, names)
        roots: list[Leaf | Node] = []
        try:
            roots.append(walker.visit(fn, "the function", "its definition"))
            roots += [walker.visit(o, label, "the arguments") for o, label in zip(objects, labels, strict=True)]
            while walker.pending:
                walker.pending.popleft()()
        except UnknownError as error:
            walker.reason(str(error))
            roots = []
        if names.state() == before or not roots:
            break
    mark(roots, walker.nodes)
    for node in walker.nodes:
        _check_array(walker, node)
    reasons = list(walker.reasons)
    return Graph(
        roots, walker.nodes, reasons, walker.codes, walker.main, names, walker.tensors, walker.optimizers,
        walker.on_device, walker.leaves_on_host,
    )  # fmt: skip


def _check_array(walker: Walker, node: Node) -> None:
    if node.kind != "array":
        return
    array = node.obj
    if not (
        is_number(array.dtype) or array.dtype.kind == "c"
    ):  # text, dates, records: no number to trace, so the contents are the guard
        node.fixed, node.sub = True, False
    if node.fixed and array.nbytes > MAX_CONTENT:
        size = f"{array.nbytes / 2**20:.0f} MiB"
        walker.reason(
            f"reads the array `{node.label}` ({size}) in a place where it can't be replaced at {node.site}; "
            "pass it as an argument, or keep it in an attribute of the instance"
        )


class Walker:
    """One walk over the state. Values are told apart in ``visit``; each object becomes one node."""

    def __init__(self, trust: Trust, names: Names) -> None:
        self.trust = trust
        self.names = names
        self.nodes: list[Node] = []
        self.tensors: dict[int, str] = {}  # id of each eager tensor that was met -> its name
        self.on_device: list[str] = []  # names of those on a CUDA device
        self.leaves_on_host: list[str] = []  # names of those on the host that require gradients
        self.optimizers: list[Any] = []
        self.memo: dict[int, Node] = {}
        self.reasons: dict[str, None] = {}
        self.codes: dict[int, types.CodeType] = {}
        self.main: dict[str, Any] | None = None
        self.leaves = 0
        self.depth = 0
        self.pending: deque[Callable[[], None]] = deque()  # nodes whose parts are still to be walked

    # ---- small tools

    def reason(self, text: str) -> None:
        self.reasons.setdefault(text)

    def node(self, kind: str, obj: Any, label: str, site: str, extra: Any = None) -> Node:
        node = Node(kind, obj, label, site, extra=extra)
        self.nodes.append(node)
        self.memo[id(obj)] = node
        return node

    def leaf(self, value: Any, by_value: bool) -> Leaf:
        self.leaves += leaf_size(value) if by_value else 1
        if self.leaves > MAX_LEAVES:
            raise UnknownError(f"reads more than {MAX_LEAVES:,} values outside itself; pass them as an array")
        return Leaf(value, by_value)

    def unknown(self, value: Any, label: str, site: str, why: str) -> Leaf:
        name = type(value).__qualname__
        module = type(value).__module__
        full = name if module == "builtins" else f"{module.removesuffix('._generator')}.{name}"
        self.reason(f"`{label}` ({full}) {why} (read at {site})")
        return Leaf(value, False)

    # ---- values

    def visit(self, value: Any, label: str, site: str, chains: Chains | None = None) -> Leaf | Node:
        """The leaf or node of a value; ``chains`` are the attribute chains that the code reads from it."""
        if is_leaf(value):
            return self.leaf(value, True)
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                raise UnknownError(f"reads values nested more than {MAX_DEPTH} deep: `{label}` at {site}")
            if isinstance(value, types.ModuleType):
                return modules.visit(self, value, label, site, chains or {(): site})
            known = self.memo.get(id(value))
            return known if known is not None else self.fresh(value, label, site)
        finally:
            self.depth -= 1

    def fresh(self, value: Any, label: str, site: str) -> Leaf | Node:
        kind = type(value)
        if kind is np.ndarray:
            self.leaf(None, True)
            if value.dtype.hasobject:
                return self.unknown(value, label, site, "holds Python objects; use an array of numbers")
            return self.node("array", value, label, site)
        if isinstance(value, np.ndarray):
            return self.unknown(value, label, site, "is a subclass of ndarray; use np.asarray(...)")
        if kind is types.FunctionType:
            return self.function(value, label, site)
        if state.is_eager(value):
            return state.visit(self, value, label, site)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, value, label, site)
        if kind.__module__.partition(".")[0] == "tracegrad" and not isinstance(value, type):
            return self.own(value, label, site)
        return state_objects.visit(self, value, label, site)

    def own(self, value: Any, label: str, site: str) -> Leaf | Node:
        """One of our own objects: a compiled function is read through; anything else with data is not."""
        inner = getattr(value, "__wrapped__", None)
        if inner is not None:
            node = self.node("compiled", value, label, site)
            node.edge("const", "__wrapped__", self.visit(inner, label, site), not hasattr(value, "_tracegrad_rebuild"))
            return node
        if (callable(value) and not hasattr(value, "__array__")) or isinstance(value, Op):
            return self.leaf(value, False)
        if isinstance(value, LRScheduler):
            return self.unknown(
                value, label, site, "counts its own steps; call its step() outside the compiled function"
            )
        return self.unknown(
            value, label, site, "is a tracegrad value kept outside the function; pass it as an argument"
        )

    # ---- functions

    def function(self, fn: types.FunctionType, label: str, site: str) -> Node:
        trusted = self.trust.function(fn)
        node = self.node("function", fn, label, site, extra=trusted)
        if self.main is None and not trusted:
            self.main = fn.__globals__
        self.pending.append(lambda: self.fill_function(node, fn, label, site, trusted))
        return node

    def fill_function(self, node: Node, fn: types.FunctionType, label: str, site: str, trusted: bool) -> None:
        if trusted:
            why = impurity(fn)
            if why:
                self.reason(f"{why}: {fn.__module__}.{fn.__qualname__} at {site}")
            if fn.__name__ in _COPIERS or not plain_reader(fn.__module__ or ""):
                self.names.everything = True
            facts = CodeFacts(fn.__code__)
        else:
            facts = self.code(fn.__code__)
            self.global_names(node, fn, facts)
            for name in sorted(fn.__dict__.keys() & self.names.attrs.keys()):
                node.edge("attr", name, self.visit(fn.__dict__[name], f"{label}.{name}", site))
        at = facts.at(fn.__code__.co_firstlineno)
        self.cells(node, fn, facts, at)
        if fn.__defaults__ and not trusted:
            args = fn.__code__.co_varnames[: fn.__code__.co_argcount][-len(fn.__defaults__) :]
            for name, value in zip(args, fn.__defaults__, strict=False):
                node.edge("const", "__defaults__", self.visit(value, f"default {name}", at))
        if fn.__kwdefaults__ and not trusted:
            node.edge("attr", "__kwdefaults__", self.visit(fn.__kwdefaults__, "default", at))

    def code(self, code: types.CodeType) -> CodeFacts:
        """Take a user's code object, and those nested in it, into the analysed set."""
        facts = scan(code)
        if id(code) not in self.codes:
            for inner in facts.codes:
                self.codes[id(inner)] = inner
            names = self.names
            names.attrs.update(dict.fromkeys(facts.attrs))
            names.compares |= facts.compares
            names.called |= facts.called
            names.truths |= facts.truths
            names.supers |= "super" in facts.globals
            names.everything |= facts.dynamic
            names.absence |= facts.sees_absence
            for what, line in facts.writes:
                self.reason(f"{what} at {facts.at(line)}; return the new value instead")
            for what, line in facts.opaque:
                self.reason(f"{what} at {facts.at(line)}: what it reads can't be known beforehand")
            for root, chains in facts.chains.items():
                for chain, line in chains.items():
                    self.suspicious(root, chain, facts.at(line))
        return facts

    def suspicious(self, root: tuple[str, str], chain: tuple[str, ...], at: str) -> None:
        """``xp.random.rand`` through a local variable, where the module can't be looked up."""
        if root[0] != "local" or "random" not in chain[:-1]:
            return
        after = chain[chain.index("random") + 1]
        if hasattr(np.random, after):
            self.reason(f"draws random numbers: {'.'.join(chain)} at {at}; {DRAW_ELSEWHERE}")

    def global_names(self, node: Node, fn: types.FunctionType, facts: CodeFacts) -> None:
        space = fn.__globals__
        provided = fn.__builtins__  # type: ignore[attr-defined]
        for name, line in facts.globals.items():
            at = facts.at(line)
            if name in space:
                chains = modules.placed(facts, "global", name)
                node.edge("global", (space, name), self.visit(space[name], f"global {name}", at, chains))
            elif name in provided:
                node.edge("builtin", (space, provided, name), self.builtin(provided[name], name, at))
            else:
                node.edge("noglobal", (space, provided, name), Leaf(None, False))
        for name, level, line in facts.imports:
            modules.imported(self, node, fn, facts, name, level, line)

    def builtin(self, value: Any, name: str, at: str) -> Leaf | Node:
        if name == "type":
            self.names.attrs.setdefault("__class__")
        return self.visit(value, name, at)

    def cells(self, node: Node, fn: types.FunctionType, facts: CodeFacts, at: str) -> None:
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                node.edge("emptycell", cell, Leaf(None, False))
                continue
            chains = modules.placed(facts, "deref", name)
            read = next(iter(chains.values()), at)
            node.edge("cell", cell, self.visit(value, f"closure {name}", read, chains))

    # ---- containers

    def items(self, value: Iterable[Any], label: str, site: str) -> Node:
        """A list, deque or tuple that holds something with parts, or can change."""
        fixed_shape = isinstance(value, tuple)
        node = self.node("tuple" if fixed_shape else "list", value, label, site)
        for index, item in enumerate(list(value)):
            node.edge("item", index, self.visit(item, f"{label}[{index}]", site))
        return node

    def mapping(self, value: dict[Any, Any], label: str, site: str) -> Leaf | Node:
        node = self.node("dict", value, label, site, extra=tuple(value))
        for key, item in list(value.items()):
            if not is_leaf(key) and not isinstance(key, type | types.FunctionType):
                return self.unknown(value, label, site, f"has a key of type {type(key).__name__}; use plain keys")
            self.leaf(None, True)
            node.edge("key", key, self.visit(item, f"{label}[{key!r}]", site))
        if type(value) is defaultdict:
            node.edge("attr", "default_factory", self.visit(value.default_factory, f"{label}.default_factory", site))
        return node

    def elements(self, value: Iterable[Any], label: str, site: str) -> Node:
        """A set: guarded in the order in which it iterates."""
        node = self.node("set", value, label, site)
        for index, item in enumerate(list(value)):
            node.edge("element", index, self.visit(item, f"an element of {label}", site), fixed=True)
        return node

    # ---- things that hold functions

    def method(self, value: types.MethodType, label: str, site: str) -> Node:
        node = self.node("method", value, label, site)
        node.edge("attr", "__func__", self.visit(value.__func__, label, site))
        owner = "self" if self.memo.get(id(value.__self__)) is None else label
        node.edge("attr", "__self__", self.visit(value.__self__, owner, site))
        return node

    def partial(self, value: functools.partial[Any], label: str, site: str) -> Node:
        node = self.node("partial", value, label, site)
        node.edge("const", "func", self.visit(value.func, label, site))
        node.edge("const", "args", self.visit(value.args, f"{label} args", site))
        node.edge("const", "keywords", self.visit(value.keywords, f"{label} keywords", site))
        return node

    def c_function(self, value: Any, label: str, site: str) -> Leaf | Node:
        """A function written in C: trusted if it is pure; bound to an object, it reads the object."""
        why = impurity(value)
        owner = getattr(value, "__self__", None)
        name = getattr(value, "__qualname__", label)
        if why:
            module = getattr(owner, "__name__", None) if isinstance(owner, types.ModuleType) else None
            shown = f"{module}.{name}" if module and module != "builtins" else name
            self.reason(f"{why}: {shown} at {site}")
            return self.leaf(value, False)
        home = sys.modules.get(getattr(value, "__module__", None) or "")
        if home is not None and not self.trust.module(home):
            return self.unknown(value, label, site, "is compiled code, which can't be looked into")
        if owner is None or isinstance(owner, types.ModuleType | type):
            return self.leaf(value, False)
        node = self.node("bound", value, label, site)
        node.edge("const", "__self__", self.visit(owner, label, site), fixed=True)
        return node

    def by_identity(self, value: Any, label: str, site: str) -> Leaf:
        return self.leaf(value, False)

    def descriptor(self, value: Any, label: str, site: str) -> Node:
        """A property, staticmethod, classmethod or cached_property: the functions in it are helpers."""
        node = self.node("const", value, label, site)
        for name in ("fget", "fset", "fdel", "__func__", "func"):
            part = getattr(value, name, None)
            if part is not None:
                node.edge("const", name, self.visit(part, label, site), fixed=True)
        return node

    def cached(self, value: Any, label: str, site: str) -> Leaf:
        return self.unknown(value, label, site, "keeps results from earlier calls (lru_cache)")


_HANDLERS: dict[type, Any] = {
    list: Walker.items, tuple: Walker.items, deque: Walker.items,
    dict: Walker.mapping, OrderedDict: Walker.mapping, defaultdict: Walker.mapping,
    set: Walker.elements, frozenset: Walker.elements,
    types.MethodType: Walker.method, functools.partial: Walker.partial,
    types.BuiltinFunctionType: Walker.c_function, type(np.random.default_rng): Walker.c_function,
    type("".__str__): Walker.c_function,
    type(str.__str__): Walker.by_identity, type(str.upper): Walker.by_identity,
    type(dict.__dict__["fromkeys"]): Walker.by_identity, type(np.sum): Walker.c_function,
    types.GetSetDescriptorType: Walker.by_identity, types.MemberDescriptorType: Walker.by_identity,
    np.ufunc: Walker.by_identity, object: Walker.by_identity, types.GenericAlias: Walker.by_identity,
    types.UnionType: Walker.by_identity,
    property: Walker.descriptor, staticmethod: Walker.descriptor, classmethod: Walker.descriptor,
    functools.cached_property: Walker.descriptor, type(functools.lru_cache(len)): Walker.cached,
}  # fmt: skip
