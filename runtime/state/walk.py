"""The walk over the outside state: every kind of value becomes a leaf, a node, or a reason.

Start reading at ``build``, then ``Walker.visit`` (``walker.py``). Here are the visitors of functions and containers;
those of modules are in ``modules.py``, of classes and instances in ``objects.py``. Which attributes of an object are
part of the state depends on the attribute names that occur in all code reached, and which code is reached depends on
the attributes: ``build`` walks until neither grows any more. Functions, classes and instances are filled in later,
from a queue, so that no chain of them is too long.
"""

from __future__ import annotations

import builtins
import contextvars
import dataclasses
import functools
import logging
import operator
import os
import reprlib
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from typing import Any

import numpy as np
import optree

from ...tracer.bytecode.versions import doubt
from ...tracer.control.jitted import python_of
from ...tracer.ir.aval import is_number
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.shape_struct import ShapeDtypeStruct
from ...tracer.numpy_api.hooks import when_loaded
from ...tracer.record.made_arrays import MadeArray
from . import data_objects, modules, objects, readers
from .code_scan import BY_NAME, UNWRITTEN, CodeFacts, scan
from .effect_places import (
    is_history,
    open_classes,
    settle_numbers,
    settle_places,
    visit_history,
    visit_item,
    visit_part,
)
from .kept_cache import CACHE
from .libraries import ENVIRONMENT, LOCAL_TIME, LOCALE, PRINT_OPTIONS, TIME_ZONE, impure, reads_by_itself
from .pins import MISSING, AnyName, Pins, context_value, versions_in_use
from .seeded_draws import is_seeded
from .state_graph import MAX_CONTENT, Chains, Leaf, Names, StateGraph, StateNode, is_stored, mark
from .trust import Trust, impurity, setting_of
from .uses import COUNT, DELETE, STORE, Place
from .values import is_leaf
from .walker import MAX_IN_PACKAGES, MAX_MORE, OF_CLASS, OF_SUBCLASSES, UnknownError, Walker
from .watch import sees_call

_NO_METADATA = dataclasses.field().metadata
_TREES = (None, type(None), tuple, list, dict, OrderedDict, deque)  # None is a leaf
_OF_FUNCTIONS = {"__name__", "__qualname__", "__module__", "__doc__", "__annotations__"}


def build(
    fn: Any, arguments: tuple[Any, ...], labels: tuple[str, ...], trust: Trust, names: Names,
    classes: tuple[type, ...] = (),
) -> StateGraph:  # fmt: skip
    """The graph of everything that ``fn`` can read outside itself; ``names`` is read and grows.  *classes*: those of
    further arguments, which are no part of the state but for what their classes give them."""
    before = None
    while (now := names.state()) != before:
        before = now
        walker = _walk(fn, arguments, labels, Walker(trust, names), classes)
        if not walker.roots:
            break
    if names.dates and names.moment:
        walker.refuse(Refusal.CALLS_CLOCK, 'np.datetime64("now")', names.moment)
    for node in walker.nodes:
        _check_array(walker, node)
    reasons = list(walker.reasons)
    counted = AnyName() if names.everything else names.attrs
    libraries = [n for n in walker.nodes if n.kind == "library" and n.edges] if versions_in_use() else []
    spaces = [n.obj.__dict__ for n in libraries]
    functions = [n.obj for n in walker.nodes if n.kind == "function" and not n.extra]
    loose = dict(walker.loose)
    for node, edge in [(n, e) for n in walker.nodes for e in n.edges if is_stored(e)]:
        if edge.how == "class":
            names_of = loose.setdefault(id(edge.arg[0]), set())
            if not isinstance(edge.child, Leaf) or edge.child.effect:  # else its value counts
                names_of.add(edge.arg[1])
        elif edge.how == "attr" and node.kind == "function":
            loose.setdefault(id(node.obj.__dict__), set()).add(edge.arg)
    graph = StateGraph(
        walker.roots, walker.nodes, reasons, walker.codes, walker.main, names, list(walker.settings.values()),
        walker.tensors, walker.optimizers, walker.on_device, walker.leaves_on_host, walker.numbers, walker.suspects,
    )  # fmt: skip
    graph.pins = Pins(
        counted, trust, walker.classes, walker.stores, walker.lists, walker.abstract, spaces, functions, loose
    )
    return graph


def reached(
    fn: Any, arguments: tuple[Any, ...], labels: tuple[str, ...], trust: Trust, names: Names, whole: bool
) -> list[StateNode]:
    """The objects outside of ``fn``, where its Python runs in each call; of those inside installed packages no more
    than a few, but for the *whole* of it."""
    return _walk(fn, arguments, labels, Walker(trust, names, MAX_IN_PACKAGES if whole else MAX_MORE)).nodes


def _walk(
    fn: Any, arguments: tuple[Any, ...], labels: tuple[str, ...], walker: Walker, classes: tuple[type, ...] = ()
) -> Walker:
    roots = walker.roots
    try:
        roots.append(walker.visit(fn, "the function", "its definition"))
        walker.labels = labels
        for value, label in zip(arguments, labels, strict=True):
            walker.walk_pending()  # so that what the function does with it is known
            roots.append(visit_part(walker, ("param", label), value, label, "the arguments"))
        for cls in classes:
            if isinstance(roots[0], StateNode) and not walker.trust.cls(cls):
                objects.class_values(walker, roots[0], cls, frozenset(), "the arguments")
        walker.walk_pending()
        for code, callers in walker.spared:
            if id(code) in walker.codes:  # no call of it is noticed
                walker.names.no_sparing.update(callers)
    except UnknownError as error:
        walker.reasons.setdefault(error.reason)
        roots.clear()
        walker.pending.clear()  # which know the walker: it would hold the user's objects
    open_classes(walker)
    mark(roots, walker.nodes)
    settle_places(walker)
    settle_numbers(walker)
    return walker


def _check_array(walker: Walker, node: StateNode) -> None:
    if node.kind != "array":
        return
    array = node.obj
    # what is no number to trace (text, dates, complex numbers), or is needed as it is: the contents are the guard
    if not is_number(array.dtype) or node.label in walker.names.contents:
        node.fixed, node.sub = True, False
    if node.fixed and array.nbytes > MAX_CONTENT:
        walker.refuse(Refusal.STATE_ARRAY, node.label, node.site, size=array.nbytes / 2**20)


# ---- functions


def _function(walker: Walker, fn: types.FunctionType, label: str, site: str) -> StateNode:
    trusted = walker.trust.owns(fn)
    node = walker.node("function", fn, label, site, extra=trusted)
    if walker.main is None and not trusted:
        walker.main = fn.__globals__
    walker.later(lambda: _fill_function(walker, node, fn, label, site, trusted))
    return node


def _is_repr_of_fields(fn: types.FunctionType) -> bool:
    """Whether *fn* is the ``__repr__`` that a data class is given, which names what it reads; since Python 3.12 a
    wrapper of ``reprlib``'s around that."""
    if fn.__name__ != "__repr__" or fn.__code__.co_filename not in (dataclasses.__file__, reprlib.__file__):
        return False
    made = [cell.cell_contents for cell in fn.__closure__ or ()]
    return any(getattr(part, "__qualname__", "").startswith("__create_fn__.") for part in made)


def _fill_function(
    walker: Walker, node: StateNode, fn: types.FunctionType, label: str, site: str, trusted: bool
) -> None:
    if trusted:
        readers.note(walker.names, fn)
        why = impurity(fn)
        if why:
            walker.refuse(why, f"{fn.__module__}.{fn.__qualname__}", site)
        if reads_by_itself(fn) and not _is_repr_of_fields(fn):
            walker.names.everything = True
        setting = setting_of(fn)
        if setting is not None:
            walker.depends(setting)
        facts = CodeFacts(fn.__code__)
    else:
        facts = _take_code(walker, fn.__code__)
        walker.enter(fn, site)
        _global_names(walker, node, fn, facts)
        objects.own_attributes(walker, node, label, site)
        for name in sorted(_OF_FUNCTIONS & walker.names.attrs.keys()):
            node.edge("attr", name, walker.visit(getattr(fn, name), f"{label}.{name}", site), fixed=True)
    at = facts.at(fn.__code__.co_firstlineno)
    _cells(walker, node, fn, facts, at)
    if fn.__defaults__ and not trusted:
        args = fn.__code__.co_varnames[: fn.__code__.co_argcount][-len(fn.__defaults__) :]
        for name, value in zip(args, fn.__defaults__, strict=False):
            node.edge("const", name, visit_part(walker, ("param", name), value, f"default {name}", at))
    if fn.__kwdefaults__ and not trusted:
        node.edge("attr", "__kwdefaults__", _named_defaults(walker, fn.__kwdefaults__, at))


def _named_defaults(walker: Walker, values: dict[str, Any], at: str) -> StateNode:
    node = walker.node("dict", values, "default", at, extra=tuple(values))
    for name, value in values.items():
        node.edge("key", name, visit_part(walker, ("param", name), value, f"default {name}", at))
    return node


def _take_code(walker: Walker, code: types.CodeType) -> CodeFacts:
    """Take a user's code object, and those nested in it, into the analysed set."""
    if (reason := doubt()) is not None:
        facts = CodeFacts(code)
        walker.refuse(Refusal.STATE_PYTHON, reason, facts.at(0))
        return facts
    facts = scan(code)
    if id(code) not in walker.codes:
        for inner in facts.codes:
            walker.codes[id(inner)] = inner
        names = walker.names
        names.attrs.update(dict.fromkeys(facts.attrs))
        names.compares |= facts.compares
        names.called |= facts.called
        names.asked |= facts.asked
        names.texts |= facts.texts
        if facts.matches:
            walker.abstract = True
        if facts.excepts:
            names.asked |= facts.attrs.keys()
        names.supers |= "super" in facts.globals
        names.everything |= facts.dynamic
        names.absence |= facts.sees_absence
        for place, found in facts.uses.items():
            names.uses.setdefault(place, set()).update(found)
        for (kind, name), line in facts.writes:
            used = names.used(kind, name)
            if DELETE in used or used.isdisjoint((COUNT, STORE)):
                what = f"the global `{name}`" if kind == "global" else f"the outer variable `{name}`"
                walker.refuse(Refusal.STATE_WRITES, what, facts.at(line))
        names.dates |= facts.dates
        names.formats |= facts.formats or "print" in facts.globals
        if facts.moment:
            names.moment = facts.at(facts.moment)
        if facts.formats:
            walker.depends(PRINT_OPTIONS)
        if not LOCAL_TIME.isdisjoint(facts.attrs):
            walker.depends(TIME_ZONE)
        if facts.formats and facts.by_locale:
            walker.depends(LOCALE)
        for what, line in facts.opaque:
            if what in UNWRITTEN:
                walker.refuse(Refusal.STATE_WRITES, f"`{what}`", facts.at(line))
            else:
                walker.refuse(Refusal.STATE_OPAQUE, what, facts.at(line))
        names.unbound |= any(facts.chains.get(("global", "list"), ()))
        for root, chains in facts.chains.items():
            for chain, line in chains.items():
                _suspicious(walker, root, chain, facts.at(line))
    return facts


def _suspicious(walker: Walker, root: tuple[str, str], chain: tuple[str, ...], at: str) -> None:
    """``xp.random.rand`` through a local variable, where the module can't be looked up."""
    if root[0] != "local" or "random" not in chain[:-1]:
        return
    after = chain[chain.index("random") + 1]
    drawn = getattr(np.random, after, None)
    seeded = "seed" in walker.names.attrs and is_seeded(drawn)
    if drawn is not None and not seeded and impure(f"numpy.random.{after}"):
        walker.refuse(Refusal.CALLS_RANDOM, ".".join(chain), at)


def _global_names(walker: Walker, node: StateNode, fn: types.FunctionType, facts: CodeFacts) -> None:
    space = fn.__globals__
    provided = fn.__builtins__  # type: ignore[attr-defined]
    for name, line in facts.globals.items():
        at = facts.at(line)
        if name in space:
            chains = _needed(walker, facts, name, space[name])
            if not chains:
                continue
            part = visit_part(walker, ("global", name), space[name], f"global {name}", at, chains)
            node.edge("global", (space, name), part)
        elif name in provided:
            node.edge("builtin", (space, provided, name), _builtin(walker, provided[name], name, at))
        else:
            _refuse_absent(walker, ("global", name), at)
            node.edge("noglobal", (space, provided, name), Leaf(None, False))
    for (kind, name), line in facts.writes:
        if kind == "global" and name not in facts.globals:
            at = facts.at(line)
            if name not in space:
                _refuse_absent(walker, (kind, name), at)
            part = visit_part(walker, (kind, name), space.get(name), f"global {name}", at)
            node.edge("global", (space, name), part)
    for name, level, line in facts.imports:
        modules.imported(walker, node, fn, facts, name, level, line)


def _refuse_absent(walker: Walker, place: Place, at: str) -> None:
    """A variable that is not there yet may be assigned if it is not read."""
    used = walker.names.used(*place)
    if STORE in used and used != {STORE}:
        walker.refuse(Refusal.STATE_WRITES, f"`{place[1]}`, which has no value yet,", at)


def _needed(walker: Walker, facts: CodeFacts, name: str, value: Any) -> Chains:
    """The attribute chains that the code reads from a global name.

    What is only called on ways that end in a ``raise`` (pytest's rewriting of ``assert``) is none of them, as long as
    the watch sees such a call: a run that made it raises, and is never replayed, or it has caught the exception, and is
    not kept (``StatePlan.look_again``)."""
    chains = modules.placed(facts, "global", name)
    spared = chains.keys() - {chain for root, chain in facts.needed if root == ("global", name)}
    if not spared or not walker.names.no_sparing.isdisjoint(facts.codes):
        return chains
    for chain in spared:
        called = _at(value, chain)
        if sees_call(walker.trust, called):
            walker.spared.append((getattr(called, "__code__", None), facts.codes))
            del chains[chain]
    return chains


def _at(value: Any, chain: tuple[str, ...]) -> Any:
    """The object at the end of a chain through modules, or None."""
    for name in chain:
        value = value.__dict__.get(name) if type(value) is types.ModuleType else None
    return value


def _builtin(walker: Walker, value: Any, name: str, at: str) -> Leaf | StateNode:
    if name in BY_NAME and value is getattr(builtins, name, None):  # the scan has seen what is asked for
        return walker.leaf(value, False)
    return walker.visit(value, name, at)


def _cells(walker: Walker, node: StateNode, fn: types.FunctionType, facts: CodeFacts, at: str) -> None:
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if name == "dispatch_cache" and fn.__code__.co_filename == functools.__file__:  # of `singledispatch`
            walker.abstract = True
            continue
        try:
            value = cell.cell_contents
        except ValueError:
            if STORE in walker.names.used("outer", name):
                walker.refuse(Refusal.STATE_WRITES, f"the outer variable `{name}`, which has no value yet,", at)
            node.edge("emptycell", cell, Leaf(None, False))
            continue
        chains = modules.placed(facts, "deref", name)
        read = next(iter(chains.values()), at)
        node.edge("cell", cell, visit_part(walker, ("outer", name), value, f"closure {name}", read, chains))


# ---- containers


def _items(walker: Walker, value: Iterable[Any], label: str, site: str) -> StateNode:
    """A list, deque or tuple that holds something with parts, or can change."""
    if type(value) is list and is_history(walker, label):
        return visit_history(walker, value, label, site)
    fixed_shape = isinstance(value, tuple)
    node = walker.node("tuple" if fixed_shape else "list", value, label, site)
    for index, item in enumerate(list(value)):
        node.edge("item", index, visit_item(walker, value, item, f"{label}[{index}]", site))
    return node


def _mapping(walker: Walker, value: dict[Any, Any], label: str, site: str) -> Leaf | StateNode:
    if value is vars(builtins) and "__builtins__" not in walker.names.texts:  # a namespace of `exec` has it
        return walker.leaf(value, False)
    node = walker.node("dict", value, label, site, extra=tuple(value))
    for key, item in list(value.items()):
        if not is_leaf(key) and not isinstance(key, type | types.FunctionType):
            return walker.unknown(Refusal.STATE_KEY, value, label, site, kind=type(key).__name__)
        walker.leaf(None, True)
        if isinstance(key, types.FunctionType):
            node.edge("const", "key", _hashed(walker.visit(key, f"a key of {label}", site)), fixed=True)
        node.edge("key", key, visit_item(walker, value, item, f"{label}[{key!r}]", site))
    if type(value) is defaultdict:
        node.edge("attr", "default_factory", walker.visit(value.default_factory, f"{label}.default_factory", site))
    return node


def _elements(walker: Walker, value: Iterable[Any], label: str, site: str) -> StateNode:
    """A set: guarded in the order in which it iterates."""
    node = walker.node("set", value, label, site)
    for index, item in enumerate(list(value)):
        node.edge("element", index, _hashed(walker.visit(item, f"an element of {label}", site)), fixed=True)
    return node


def _hashed(found: Leaf | StateNode) -> Leaf | StateNode:
    """*found*, of what is looked up by its identity: a function is not replaced, since another one is not found."""
    if isinstance(found, StateNode):
        found.hashed = True
    return found


# ---- things that hold functions


def _method(walker: Walker, value: types.MethodType, label: str, site: str) -> StateNode:
    node = walker.node("method", value, label, site)
    node.edge("attr", "__func__", walker.visit(value.__func__, label, site))
    owner = "self" if walker.memo.get(id(value.__self__)) is None else label
    node.edge("attr", "__self__", walker.visit(value.__self__, owner, site))
    return node


def _partial(walker: Walker, value: functools.partial[Any], label: str, site: str) -> StateNode:
    node = walker.node("partial", value, label, site)
    node.edge("const", "func", walker.visit(value.func, label, site))
    node.edge("const", "args", walker.visit(value.args, f"{label} args", site))
    node.edge("const", "keywords", walker.visit(value.keywords, f"{label} keywords", site))
    walker.later(lambda: objects.own_attributes(walker, node, label, site))
    return node


def _by_identity(walker: Walker, value: Any, label: str, site: str) -> Leaf:
    readers.note(walker.names, value)
    return walker.leaf(value, False)


def _getter(walker: Walker, value: Any, label: str, site: str) -> Leaf:
    """An ``attrgetter`` or ``methodcaller``: it never changes, and has the names that it reads."""
    found = readers.of_getter(value)
    if found is None or not is_leaf(value.__reduce__()[1]):
        return walker.unknown(Refusal.STATE_UNSEEN, value, label, site)
    walker.names.attrs.update(dict.fromkeys(found))
    return walker.leaf(value, False)


def _tree_structure(walker: Walker, value: Any, label: str, site: str) -> Leaf:
    """A structure of ``tracegrad.tree``: it never changes, but for what an object of the user's class keeps in it."""
    todo = [value]
    while todo:
        spec = todo.pop()
        if spec.type not in _TREES:
            return walker.unknown(Refusal.STATE_UNSEEN, value, label, site)
        todo += spec.children()
    return walker.leaf(value, False)


def _descriptor(walker: Walker, value: Any, label: str, site: str) -> StateNode:
    """A property, staticmethod, classmethod or cached_property: the functions in it are helpers."""
    node = walker.node("const", value, label, site)
    for name in ("fget", "fset", "fdel", "__func__", "func"):
        part = getattr(value, name, None)
        if part is not None:
            node.edge("const", name, walker.visit(part, label, site), fixed=True)
    return node


def _shown_mapping(walker: Walker, value: Any, label: str, site: str) -> Leaf:
    """A mapping that can't be changed through this: that of a dataclass's field without metadata never is."""
    if value is _NO_METADATA:
        return walker.leaf(value, False)
    return walker.unknown(Refusal.STATE_UNSEEN, value, label, site)


def _proxy(walker: Walker, value: Any, label: str, site: str) -> Leaf:
    """A weak proxy: even ``isinstance`` asks what it stands for."""
    return walker.unknown(Refusal.STATE_UNSEEN, value, label, site)


def _cached(walker: Walker, value: Any, label: str, site: str) -> Leaf | StateNode:
    """A function with a cache: calls of it are made again, or go past the cache (``kept_cache.py``)."""
    if not walker.names.effects or "cache_info" in walker.names.attrs:  # which counts the calls
        return walker.unknown(Refusal.STATE_CACHE, value, label, site)
    walker.names.compares |= {"in", "=="}  # of its keys
    node = walker.node("cached", value, label, site, extra=walker.names.holders)
    node.edge("const", "__wrapped__", walker.visit(value.__wrapped__, label, site))
    return node


# ---- values of no other kind


def _array(walker: Walker, value: np.ndarray, label: str, site: str) -> Leaf | StateNode:
    walker.leaf(value.dtype, True)
    if value.dtype.hasobject:
        return walker.unknown(Refusal.STATE_OBJECTS, value, label, site)
    if not value.dtype.isnative:
        return data_objects.visit_form(walker, value, label, site)
    return walker.node("array", value, label, site)


def _array_subclass(walker: Walker, value: Any, label: str, site: str) -> Leaf | StateNode:
    if type(value) is np.memmap and not value.dtype.hasobject:
        return data_objects.visit_form(walker, value, label, site)
    if type(value) is MadeArray:  # which the run that ends now has made: it is about to become NumPy's own
        return _array(walker, value, label, site)
    return walker.unknown(Refusal.STATE_SUBCLASS, value, label, site, base="ndarray", instead="np.asarray(...)")


def _environment(walker: Walker, value: Any, label: str, site: str) -> Leaf:
    walker.depends(ENVIRONMENT)
    return walker.leaf(value, False)


def _context_variable(walker: Walker, value: Any, label: str, site: str) -> StateNode:
    """A context variable: what it holds in the calling thread's context is state."""
    node = walker.node("const", value, label, site)
    held = context_value(value)
    part = Leaf(held, False) if held is MISSING else walker.visit(held, f"{label}.get()", site)
    node.edge("context", value, part, fixed=True)
    return node


def _logger(walker: Walker, value: Any, label: str, site: str) -> Leaf | StateNode:
    """A logger, whose records are effects: nothing of it is read before they are made."""
    if not walker.names.effects or type(value) not in (logging.Logger, logging.RootLogger):
        return objects.visit(walker, value, label, site)
    return walker.node("logger", value, label, site)


def _other(walker: Walker, value: Any, label: str, site: str) -> Leaf | StateNode:
    if type(value).__module__.partition(".")[0] == "tracegrad" and not isinstance(value, type):
        return _own(walker, value, label, site)
    if data_objects.is_data(type(value)):
        return data_objects.visit(walker, value, label, site)
    compiled = python_of(value)
    if compiled is not None:
        return _jitted(walker, value, compiled, label, site)
    return objects.visit(walker, value, label, site)


def _jitted(walker: Walker, value: Any, function: types.FunctionType, label: str, site: str) -> Leaf | StateNode:
    """A function that numba compiles, which is recorded through its source."""
    node = walker.node("jitted", value, label, site)
    node.edge("const", "__wrapped__", walker.visit(function, label, site))
    return node


def _own(walker: Walker, value: Any, label: str, site: str) -> Leaf | StateNode:
    """One of our own objects: a compiled function is read through; anything else with data is not."""
    inner = getattr(value, "__wrapped__", None)
    if inner is not None:
        node = walker.node("compiled", value, label, site)
        node.edge("const", "__wrapped__", walker.visit(inner, label, site), not hasattr(value, "_tracegrad_rebuild"))
        return node
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # of functions of ours, over functions of the user's
        return objects.visit(walker, value, label, site)
    if type(value) is ShapeDtypeStruct or (callable(value) and not hasattr(value, "__array__")):
        return walker.leaf(value, False)
    return walker.unknown(Refusal.STATE_TRACED, value, label, site)


OF_CLASS.update({
    type(os.environ): _environment, contextvars.ContextVar: _context_variable,
    np.ndarray: _array, types.FunctionType: _function, types.ModuleType: modules.visit,
    list: _items, tuple: _items, deque: _items,
    dict: _mapping, OrderedDict: _mapping, defaultdict: _mapping, Counter: _mapping,
    set: _elements, frozenset: _elements,
    weakref.ProxyType: _proxy, weakref.CallableProxyType: _proxy,
    operator.attrgetter: _getter, operator.methodcaller: _getter,
    types.MethodType: _method, functools.partial: _partial,
    types.BuiltinFunctionType: objects.c_function,
    type("".__str__): objects.c_function,
    type(str.__str__): _by_identity, type(str.upper): _by_identity,
    type(dict.__dict__["fromkeys"]): _by_identity, type(np.sum): objects.c_function,
    types.GetSetDescriptorType: _by_identity, types.MemberDescriptorType: _by_identity,
    np.ufunc: _by_identity, object: _by_identity, types.GenericAlias: _by_identity,
    types.MappingProxyType: _shown_mapping,
    types.UnionType: _by_identity, optree.PyTreeSpec: _tree_structure,
    property: _descriptor, staticmethod: _descriptor, classmethod: _descriptor,
    functools.cached_property: _descriptor, CACHE: _cached,
})  # fmt: skip


@when_loaded("numpy.random", "default_rng")
def _know_cython(module: types.ModuleType) -> None:
    OF_CLASS[type(module.default_rng)] = objects.c_function


OF_SUBCLASSES.update({np.ndarray: _array_subclass, logging.Logger: _logger, object: _other})
