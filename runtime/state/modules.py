"""Modules in the outside state: a user's module is guarded attribute by attribute, a library's is judged.

Start reading at ``visit``. A module counts with the attribute chains that the code reads from it (``config.lr``,
``np.random.rand``), which the bytecode scan has collected. In a library the chain is followed to its end, and the
function found there is pure or not; in a user's module each attribute is part of the state.
"""

from __future__ import annotations

import abc
import sys
import types
from typing import Any

from ...tracer.ir.refusals import Refusal
from . import readers
from .code_scan import CodeFacts
from .pins import covered
from .state_graph import Chains, Leaf, StateNode
from .trust import IMPURE_METHODS, hidden_state, impurity, module_impurity, plain_reader
from .values import is_leaf
from .walker import Walker

COPIERS = {"asdict", "astuple", "deepcopy", "copy", "getmembers", "replace"}  # read attributes by themselves


def placed(facts: CodeFacts, kind: str, name: str) -> Chains:
    """The attribute chains that the code reads from a name, with their sites."""
    return {chain: facts.at(line) for chain, line in facts.chains.get((kind, name), {}).items()}


def visit(walker: Walker, module: types.ModuleType, label: str, site: str, chains: Chains) -> Leaf | StateNode:
    """The leaf of a library's module, or the node of a user's, with edges for the attributes that ``chains`` read."""
    if walker.trust.module(module):
        for chain, at in chains.items():
            library_chain(walker, module, chain, at)
        return walker.leaf(module, False)
    if type(module) is not types.ModuleType and not walker.trust.cls(type(module)):
        return walker.unknown(Refusal.STATE_HOOK, module, label, site, hook="a class of its own")
    node = walker.memo.get(id(module)) or walker.node("module", module, label, site, extra=set())
    for name, rest in _first_names(walker, module, label, chains).items():
        at = next(iter(rest.values()))
        if name in module.__dict__:
            value = module.__dict__[name]
            if name not in node.extra or isinstance(value, types.ModuleType):  # a module may get more chains
                child = walker.visit(value, f"{label.removeprefix('global ')}.{name}", at, rest)
                if name not in node.extra:
                    node.edge("attr", name, child)
            node.extra.add(name)
        elif "__getattr__" in module.__dict__:
            walker.refuse(Refusal.STATE_MODULE, f"{label}.{name}", at)
        else:
            _absent(node, name)
            _absent(node, "__getattr__")
    return node


def _absent(node: StateNode, name: str) -> None:
    """Have a module's getting an attribute noticed."""
    if name not in node.extra and name not in node.obj.__dict__:
        node.extra.add(name)
        node.edge("noitem", name, Leaf(None, False))


def _first_names(walker: Walker, module: types.ModuleType, label: str, chains: Chains) -> dict[str, Chains]:
    """The attributes read, each with the chains that go on from it; all known names where the module is passed on."""
    names: dict[str, Chains] = {}
    attrs = walker.names.attrs.keys()
    absent = attrs if walker.names.absence else covered(types.ModuleType, attrs)
    for chain, at in chains.items():
        if chain:
            names.setdefault(chain[0], {})[chain[1:]] = at
            continue
        if walker.names.everything:
            walker.refuse(Refusal.STATE_COMPUTED, label, at)
        for name in sorted(attrs & (module.__dict__.keys() | absent)):
            names.setdefault(name, {})[()] = at
    return names


def library_chain(walker: Walker, module: types.ModuleType, chain: tuple[str, ...], site: str) -> None:
    """Judge the object at the end of a chain through modules (``np.random.rand``, ``time.time``) for purity."""
    obj: Any = module
    path, rest = module.__name__, chain
    while rest and isinstance(obj, types.ModuleType):
        try:
            obj = getattr(obj, rest[0])
        except Exception:
            return  # the program will raise
        path, rest = f"{path}.{rest[0]}", rest[1:]
    if isinstance(obj, types.FunctionType) and not walker.trust.function(obj):
        walker.refuse(Refusal.CALLS_PATCHED, path, site)
        return
    _note_readers(walker, obj)
    why = impurity(obj)
    if why is None and isinstance(obj, types.ModuleType):  # the module itself is passed on
        for name in walker.names.attrs:
            found = obj.__dict__.get(name)
            if isinstance(found, types.ModuleType) and module_impurity(found.__name__):
                why, path = module_impurity(found.__name__), f"{path}.{name}"
    elif why is None and rest and (isinstance(obj, type) or rest[0] == "rvs"):
        why = IMPURE_METHODS.get(rest[0])
    if why is None and path.startswith("sys.") and not callable(obj) and not is_leaf(obj) and path != "sys.float_info":
        why = Refusal.CALLS_INTERPRETER
    why = why or hidden_state(type(obj))
    if why is not None:
        shown = ".".join([path, *rest])
        shown = shown.replace("numpy.", "np.", 1) if shown.startswith("numpy.") else shown
        walker.refuse(why, shown, site)


def _note_readers(walker: Walker, obj: Any) -> None:
    """Library code that may read attributes of the user's objects by itself makes all attributes count."""
    readers.note(walker.names, obj)
    walker.abstract |= isinstance(obj, abc.ABCMeta)
    if isinstance(obj, types.ModuleType):
        reader = not plain_reader(obj.__name__)
    else:
        is_python = isinstance(obj, types.FunctionType | type)
        reader = is_python and (not plain_reader(obj.__module__ or "") or obj.__name__ in COPIERS)
    if reader:
        walker.names.everything = True


def imported(
    walker: Walker, node: StateNode, fn: types.FunctionType, facts: CodeFacts, name: str, level: int, line: int
) -> None:
    """Add the edge of an ``import`` in the body: the module, with the names that the statement imports."""
    at = facts.at(line)
    full = name
    if level:
        package = (fn.__globals__.get("__package__") or "").rsplit(".", level - 1)[0]
        full = f"{package}.{name}" if name else package
    module = sys.modules.get(full)
    if module is None:
        walker.refuse(Refusal.STATE_IMPORT, full, at)
        return
    node.edge("import", full, walker.visit(module, full, at, placed(facts, "import", name) or {(): at}), fixed=True)
