"""Classes and instances in the outside state: which attributes count, and how they are found through the MRO.

Start reading at ``visit``. An instance of a user's class counts with its type and the attributes whose names occur
in the analysed code; methods and properties of those names are helpers whose code is analysed too. An instance of
a library's class counts with all its attributes. Whatever answers attribute reads in its own way
(``__getattr__``, unknown descriptors, state kept in C) is refused with a reason.
"""

from __future__ import annotations

import abc
import enum
import functools
import sys
import types
from collections.abc import Collection
from typing import Any, Generic

import numpy as np

from ...tracer.bytecode.concretize import TAKERS
from ...tracer.bytecode.records import dict_of
from ...tracer.bytecode.settled_text import TEXT_METHODS
from ...tracer.bytecode.shown_names import OBJECTS
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.trees import node_functions
from ...tracer.record.reports import READS, is_written
from . import readers
from .c_state import keeps_c_state
from .effect_places import (
    first_count,
    is_history,
    only_stored,
    visit_adder,
    visit_history,
    visit_item,
    visit_part,
)  # fmt: skip
from .kept_cache import CACHE
from .pins import MISSING, lookup
from .state_graph import Leaf, StateNode
from .trust import hidden_state, impurity, setting_of
from .uses import STORE
from .values import holders, is_leaf
from .walker import Walker

_CONSTRUCTORS = {"__init__", "__new__", "__post_init__"}
_RARE = {  # run only when asked for by name, or where the run-time watch will see them
    "__repr__", "__str__", "__format__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__",
    "__deepcopy__", "__sizeof__", "__dir__", "__init_subclass__", "__class_getitem__", "__set_name__", "__del__",
    "__subclasshook__", "__getnewargs__", "__replace__", "__annotate__", "__annotate_func__", "__instancecheck__",
    "__subclasscheck__", "__bytes__", "__getnewargs_ex__",
}  # fmt: skip
_ORDER = {"<", ">", "<=", ">="}
_COMPARISONS = {
    "__ne__": {"!="}, "__hash__": {"in", "=="}, "__contains__": {"in"}, "__eq__": {"==", "!=", "in", *_ORDER},
    **dict.fromkeys(("__lt__", "__gt__", "__le__", "__ge__"), _ORDER),  # one may be made of others (functools)
}  # fmt: skip
_PLAIN_BASES = {"abc", "typing", "typing_extensions", "enum", "builtins"}
_METACLASSES = (type, abc.ABCMeta, enum.EnumMeta)
_HELPERS = types.FunctionType | property | staticmethod | classmethod | functools.cached_property | CACHE
DRAWING = frozenset(("rvs", "_rvs", "random_state", "_random_state"))
_VECTORIZED = ("vecentropy", "generic_moment")
_SPECIAL = types.FunctionType | property | staticmethod  # `__new__` is a static method
# Methods by which items are found and changed; where a subclass has its own, its items are not what it shows.
_ITEM_METHODS: dict[type, frozenset[str]] = {
    dict: frozenset((
        "__getitem__", "__setitem__", "__delitem__", "__len__", "__iter__", "__new__", "__getattribute__", "keys",
        "values", "items", "clear", "update", "__class__",
    )),
    list: frozenset((
        "__getitem__", "__setitem__", "__delitem__", "__len__", "__iter__", "__new__", "__getattribute__", "__iadd__",
        "__class__",
    )),
}  # fmt: skip
_OF_DATA = ("scipy.sparse.", "scipy.interpolate.")  # modules with classes of this kind


def visit(walker: Walker, value: Any, label: str, site: str) -> Leaf | StateNode:
    """The leaf or node of a class, an instance or anything that has no other rule."""
    kind = type(value)
    if isinstance(value, type):
        if isinstance(value, abc.ABCMeta):
            walker.abstract = True
        if walker.trust.cls(value):
            readers.note(walker.names, value)
            why = impurity(value)
            if why:
                walker.refuse(why, f"{value.__module__}.{value.__qualname__}", site)
            setting = setting_of(value)
            if setting is not None:
                walker.depends(setting)
            walker.pin_class(value)
            return walker.leaf(value, False)
        return user_class(walker, value, label, site, _called(walker, value, label))
    if isinstance(value, enum.Enum):
        return member(walker, value, label, site)
    if walker.names.effects and is_written(value) and READS.isdisjoint(walker.names.attrs):
        return walker.node("logger", value, label, site)
    if kind in OBJECTS:
        return walker.node("known", value, label, site)
    why = hidden_state(kind)
    if why is not None:
        return walker.unknown(why, value, label.removeprefix("global ").removeprefix("closure "), site)
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and not getattr(value, "__dict__", None):
        return named_tuple(walker, value, label, site)
    trusted = walker.trust.cls(kind)
    if "cython_function" in kind.__name__ or kind.__name__ == "fortran":
        return c_function(walker, value, label, site)
    if trusted and callable(value) and _library_function(value):
        return c_function(walker, value, label, site)
    if trusted and _singleton(value):
        return walker.leaf(value, False)
    for base, name in ((dict, "dict"), (list, "list"), (tuple, "tuple"), (set, "set")):
        if issubclass(kind, base):
            if walker.names.effects and _keeps_items(walker, kind, base):
                return container(walker, value, base, label, site)
            return walker.unknown(Refusal.STATE_SUBCLASS, value, label, site, base=name, instead=f"a plain {name}")
    if keeps_c_state(kind):
        return walker.unknown(Refusal.STATE_UNSEEN, value, label, site)
    return instance(walker, value, label, site, trusted)


def c_function(walker: Walker, value: Any, label: str, site: str) -> Leaf | StateNode:
    """A function written in C: trusted if it is pure; bound to an object, it reads the object."""
    if type(getattr(value, "__self__", None)) in OBJECTS:
        return walker.node("known", value, label, site)
    why, setting = impurity(value), setting_of(value)
    if setting is not None:
        walker.depends(setting)
    readers.note(walker.names, value)
    owner = getattr(value, "__self__", None)
    name = getattr(value, "__qualname__", label)
    if why:
        module = getattr(owner, "__name__", None) if isinstance(owner, types.ModuleType) else None
        shown = f"{module}.{name}" if module and module != "builtins" else name
        walker.refuse(why, shown, site)
        return walker.leaf(value, False)
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    if home is not None and not walker.trust.module(home):
        return walker.unknown(Refusal.STATE_COMPILED, value, label, site)
    if owner is None or isinstance(owner, types.ModuleType | type):
        return walker.leaf(value, False)
    adder = visit_adder(walker, value, label, site)
    if adder is not None:
        return adder
    node = walker.node("bound", value, label, site)
    replaced = type(owner) is np.ndarray and value.__name__ in TAKERS
    node.edge("const", "__self__", walker.visit(owner, label, site), fixed=not replaced)
    return node


def _called(walker: Walker, cls: type, label: str) -> bool:
    """Whether the code calls the class by the name it was found under, or a class method calls it, so that its
    constructor runs."""
    name = label.partition("[")[0].rpartition(" ")[2].rpartition(".")[2]
    if name in walker.names.called:
        return True
    methods = [raw.__func__ for base in cls.__mro__ for raw in vars(base).values() if isinstance(raw, classmethod)]
    parameters = {name for m in methods if hasattr(m, "__code__") for name in m.__code__.co_varnames[:1]}
    return not parameters.isdisjoint(walker.names.called)


def _library_function(value: Any) -> bool:
    """Compiled functions of NumPy and SciPy: ufuncs, array-function dispatchers, Cython functions."""
    top = type(value).__module__.partition(".")[0]
    return top in ("numpy", "scipy") and keeps_c_state(type(value))


def _singleton(value: Any) -> bool:
    """An object that a library keeps in one of its modules (``scipy.stats.norm``, ``np.s_``, typing constructs)."""
    top = type(value).__module__
    if top.partition(".")[0] == "typing":
        return True
    if top.partition(".")[0] not in ("numpy", "scipy"):
        return False
    parts = top.split(".")
    for depth in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:depth]))
        if module is not None and any(v is value for v in list(module.__dict__.values())):
            return True
    return False


def named_tuple(walker: Walker, value: Any, label: str, site: str) -> Leaf | StateNode:
    node = walker.node("tuple", value, label, site)
    items = tuple.__iter__(value)  # past an `__iter__` of the user's, here and where a copy is made
    for index, (name, item) in enumerate(zip(type(value)._fields, items, strict=True)):
        node.edge("item", index, walker.visit(item, f"{label}.{name}", site))
    walker.pin_class(type(value))
    if not walker.trust.cls(type(value)):
        walker.later(lambda: class_values(walker, node, type(value), frozenset(), site))
    return node


def member(walker: Walker, value: enum.Enum, label: str, site: str) -> Leaf | StateNode:
    node = walker.node("member", value, label, site)
    cls = type(value)
    walker.pin_class(cls)
    if not walker.trust.cls(cls):
        walker.later(lambda: _fill_member(walker, node, value, label, site))
    return node


def _fill_member(walker: Walker, node: StateNode, value: enum.Enum, label: str, site: str) -> None:
    cls = type(value)
    own_attributes(walker, node, label, site, fixed=True, besides={"_value_", "_name_"})
    class_values(walker, node, cls, value.__dict__.keys(), site)


def class_values(walker: Walker, node: StateNode, cls: type, own: Collection[str], site: str) -> None:
    """Edges for what a class gives to an instance whose *own* attributes are known: methods, values they share, and
    itself."""
    class_edges(walker, node, cls, site, instance_only=True)
    wanted = _wanted(walker, cls, False) if walker.names.everything else ()
    for name in sorted((walker.names.attrs.keys() | set(wanted)) - set(own)):
        raw = lookup(cls, name)
        if raw is not MISSING and not hasattr(type(raw), "__get__"):
            class_part(walker, node, cls, name, raw, site)
    _class_itself(walker, node, cls, site)


def _class_itself(walker: Walker, node: StateNode, cls: type, site: str) -> None:
    """The edge for the class of an instance, where the code may read it (``x.__class__``, ``type(x)``)."""
    if "__class__" in walker.names.attrs:
        node.edge("const", "__class__", walker.visit(cls, cls.__name__, site), fixed=True)


def own_attributes(
    walker: Walker, node: StateNode, label: str, site: str, fixed: bool = False, besides: Collection[str] = ()
) -> None:
    """Edges for the attributes of a function, partial or enum member that count, which anybody may set."""
    store, names = dict_of(node.obj), walker.names
    if store is None:
        return
    for name in sorted(store):
        if name in names.attrs or name in besides or (names.everything and not name.startswith("__")):
            node.edge("attr", name, walker.visit(store[name], f"{label}.{name}", site), fixed)
    walker.pin_absence(node.obj)


def _hook(walker: Walker, cls: type) -> str | None:
    """The method of the user's that answers attribute reads of instances, if there is one."""
    for base in cls.__mro__:
        if base is object or walker.trust.cls(base):
            continue
        for hook in ("__getattr__", "__getattribute__"):
            if hook in base.__dict__:
                return hook
    return None


# ---- classes


def user_class(walker: Walker, cls: type, label: str, site: str, construct: bool) -> Leaf | StateNode:
    """A class that the code names: it may be called, subclassed or asked for its attributes."""
    node = walker.node("class", cls, label, site)
    walker.pin_class(cls)
    for name in sorted({"__name__", "__qualname__"} & walker.names.attrs.keys()):  # no part of what it looks up
        node.edge("attr", name, walker.leaf(getattr(cls, name), True), fixed=True)
    if type(cls) not in _METACLASSES:
        return walker.unknown(Refusal.STATE_METACLASS, cls, label, site)
    hook = _hook(walker, cls)
    if hook is not None:
        walker.refuse(Refusal.STATE_HOOK, f"`{label}` ({cls.__qualname__})", site, hook=hook)
    walker.later(lambda: class_edges(walker, node, cls, site, instance_only=False, construct=construct))
    return node


def class_edges(
    walker: Walker, node: StateNode, cls: type, site: str, *, instance_only: bool, construct: bool = False
) -> None:
    """Edges for the members of the class whose names count: methods, properties, special methods, data."""
    walker.pin_class(cls)
    walker.enter(cls, site)
    for function in node_functions(cls):  # which trees call wherever they hold an object of the class
        node.edge("const", function, walker.visit(function, f"{cls.__name__} in a tree", site), fixed=True)
        construct = True
    if walker.names.supers:
        super_edges(walker, node, cls, site, construct)
    is_enum = isinstance(cls, enum.EnumMeta)
    if is_enum and not instance_only:
        members: Any = cls.__dict__["_member_map_"]  # which may be found by iteration, by name or by value
        for name, one in members.items():
            node.edge("const", name, walker.visit(one, f"{cls.__name__}.{name}", site), fixed=True)
    for name in _wanted(walker, cls, construct):
        raw = lookup(cls, name)
        if raw is MISSING or (is_enum and name.startswith("_") and not isinstance(raw, types.FunctionType)):
            continue
        if isinstance(raw, types.DynamicClassAttribute):  # `value`, `name` of enums: they read the member
            continue
        if isinstance(raw, _HELPERS) or (not instance_only and not hasattr(type(raw), "__get__")):
            node.edge("class", (cls, name), walker.visit(raw, f"{cls.__name__}.{name}", site), fixed=True)
        elif not instance_only:
            class_descriptor(walker, node, cls, name, raw, site)


def super_edges(walker: Walker, node: StateNode, cls: type, site: str, construct: bool) -> None:
    """Edges for what ``super()`` can find in the bases, overridden or not."""
    for base in cls.__mro__[1:]:
        if base is object or walker.trust.cls(base):
            continue
        for name in _wanted(walker, base, construct):
            raw = lookup(base, name)
            if raw is not MISSING and (not hasattr(type(raw), "__get__") or isinstance(raw, _HELPERS)):
                node.edge("class", (base, name), walker.visit(raw, f"{base.__name__}.{name}", site), fixed=True)


def class_descriptor(walker: Walker, node: StateNode, cls: type, name: str, raw: Any, site: str) -> bool:
    """The leaf of a class's descriptor that is no function of the user's: C slots are fine, others are refused."""
    kind = type(raw)
    if kind.__module__.partition(".")[0] == "tracegrad" or kind is types.BuiltinFunctionType or isinstance(raw, type):
        node.edge("class", (cls, name), walker.visit(raw, f"{cls.__name__}.{name}", site), fixed=True)
        return True
    if kind.__module__ in ("builtins", "collections", "_collections") and kind is not super:
        return True  # fields of named tuples, slot wrappers, getset and member descriptors, methods of built-in bases
    walker.unknown(Refusal.STATE_DESCRIPTOR, raw, f"{cls.__name__}.{name}", site)
    return False


def _wanted(walker: Walker, cls: type, construct: bool) -> list[str]:
    """The names of a class that count: those in the code, and the special methods that operators call."""
    attrs = walker.names.attrs
    names = {n for n in getattr(cls, "_tracegrad_helpers", ()) if hasattr(cls, n)}  # methods that our own code calls
    for base in cls.__mro__:
        if base is object or walker.trust.cls(base):
            names |= {n for n in base.__dict__ if n in attrs and not n.startswith("__")}
            continue
        for name, raw in base.__dict__.items():
            if name in attrs or (walker.names.everything and (walker.names.formats or name not in TEXT_METHODS)):
                if isinstance(raw, types.FunctionType) or name in attrs or not name.startswith(("__", "_abc_")):
                    names.add(name)
            elif name.startswith("__") and name.endswith("__") and isinstance(raw, _SPECIAL):
                if name in _CONSTRUCTORS:
                    if construct:
                        names.add(name)
                elif name not in _RARE or (walker.names.formats and name in TEXT_METHODS):
                    ops = _COMPARISONS.get(name)
                    if ops is None or ops & walker.names.compares:
                        names.add(name)
    return sorted(names)


# ---- instances


def instance(walker: Walker, value: Any, label: str, site: str, trusted: bool) -> Leaf | StateNode:
    cls = type(value)
    hook = None if trusted else _hook(walker, cls)
    if hook is not None:
        return walker.unknown(Refusal.STATE_HOOK, value, label, site, hook=hook)
    store = getattr(value, "__dict__", None)
    if store is not None and type(store) is not dict:
        return walker.unknown(Refusal.STATE_DICT, value, label, site)
    node = walker.node("instance", value, label, site)
    walker.later(lambda: fill_instance(walker, node, value, label, site, trusted))
    return node


def _keeps_items(walker: Walker, cls: type, base: type) -> bool:
    """Whether instances of a user's subclass of ``dict`` or ``list`` hold their items as those do."""
    own = cls.__mro__[: cls.__mro__.index(base)]
    theirs = _ITEM_METHODS.get(base, frozenset())
    users = type(cls) in _METACLASSES and all(not walker.trust.cls(one) or one is Generic for one in own)
    slots = any(type(part) is types.MemberDescriptorType for one in own for part in vars(one).values())
    plain = all(theirs.isdisjoint(vars(one)) for one in own) and lookup(cls, "__del__") is MISSING and not slots
    return bool(theirs) and users and plain and len(cls.__mro__) <= len(own) + 3 and hasattr(cls, "__dict__")


def container(walker: Walker, value: Any, base: type, label: str, site: str) -> Leaf | StateNode:
    """An instance of a user's subclass of ``dict`` or ``list``: a node for its attributes, and one for its items."""
    keys = tuple(dict.keys(value)) if base is dict else None
    if keys is not None and not all(map(is_leaf, keys)):
        return walker.unknown(Refusal.STATE_KEY, value, label, site, kind="another")
    if type(getattr(value, "__dict__", {})) is not dict:  # its items, perhaps
        return walker.unknown(Refusal.STATE_DICT, value, label, site)
    node = walker.node("instance", value, label, site)
    walker.later(lambda: fill_instance(walker, node, value, label, site, False))
    if keys is None and is_history(walker, label):
        items = visit_history(walker, value, label, site)
        walker.memo[id(value)] = node
    else:
        items = StateNode("list" if keys is None else "dict", value, label, site, extra=keys)
        walker.nodes.append(items)
        for name, item in list(enumerate(list.__iter__(value)) if keys is None else dict.items(value)):
            part = visit_item(walker, value, item, f"{label}[{name!r}]", site)
            items.edge("item" if keys is None else "key", name, part)
    node.edge("items", None, items)
    return node


def fill_instance(walker: Walker, node: StateNode, value: Any, label: str, site: str, trusted: bool) -> None:
    cls = type(value)
    walker.pin_class(cls)
    store = getattr(value, "__dict__", None)
    if not trusted and any(_reads_by_itself(walker, base) for base in cls.__mro__):
        walker.names.everything = True
    data_holder = cls in holders() or cls.__module__.startswith(_OF_DATA)
    everything = walker.names.everything or trusted
    fixed = (trusted and not data_holder) or lookup(cls, "__del__") is not MISSING
    names = set(walker.names.attrs)
    if everything:
        names |= set(store or ()) - _unread(walker, cls, trusted, store or {})
        for base in cls.__mro__:
            library = base is object or walker.trust.cls(base)
            for name, raw in base.__dict__.items():
                if name == "__dict__":  # a SimpleNamespace lists its own
                    continue
                if type(raw) is types.MemberDescriptorType or not (library or name.startswith(("__", "_abc_"))):
                    names.add(name)
    shadow: set[str] = set()  # names that the class answers unless the instance has one of its own
    absent: set[str] = set()
    short = label.removeprefix("global ").removeprefix("closure ")
    for name in sorted(names):
        raw = MISSING if trusted and store is not None and name in store else lookup(cls, name)
        if (data_holder or not trusted) and only_stored(walker, cls, name, raw):
            node.edge("store", name, Leaf(None, False, STORE), fixed)
        elif raw is not MISSING and type(raw) is types.MemberDescriptorType:
            try:
                part = getattr(value, name)
            except AttributeError:
                node.edge("noattr", name, walker.leaf(None, False))
            else:
                node.edge("attr", name, visit_part(walker, ("attr", name), part, f"{short}.{name}", site), fixed)
        elif isinstance(raw, property):
            if not trusted:
                node.edge("class", (cls, name), walker.visit(raw, f"{cls.__name__}.{name}", site), fixed=True)
        elif raw is not MISSING and hasattr(type(raw), "__set__"):
            if not trusted and type(raw).__module__ != "builtins":
                walker.unknown(Refusal.STATE_DESCRIPTOR, raw, f"{cls.__name__}.{name}", site)
        elif store is not None and name in store:
            part = visit_part(walker, ("attr", name), store[name], f"{short}.{name}", site)
            node.edge("attr", name, part, fixed)
        elif raw is MISSING:
            absent.add(name)
        elif trusted:
            continue
        else:
            shadow.add(name)
            if first_count(walker, cls, name, raw):
                node.edge("store", name, Leaf(None, False, STORE), fixed)
            class_part(walker, node, cls, name, raw, site)
    if walker.names.supers and not trusted:
        super_edges(walker, node, cls, site, construct=False)
    if not trusted:
        done = {e.arg[1] for e in node.edges if e.how == "class"}
        special = [n for n in _wanted(walker, cls, False) if n.startswith("__") and n not in done | shadow]
        for name in special:
            raw = lookup(cls, name)
            if isinstance(raw, types.FunctionType):
                node.edge("class", (cls, name), walker.visit(raw, f"{cls.__name__}.{name}", site), fixed=True)
        _class_itself(walker, node, cls, site)
    everyone = tuple(store) if everything and store is not None else None
    missing = absent if walker.names.absence or _hook(walker, cls) else set()
    node.extra = (frozenset(shadow), frozenset(missing), everyone)


def _unread(walker: Walker, cls: type, trusted: bool, store: dict[str, Any]) -> set[str]:
    """The attributes of a distribution of scipy.stats that the code does not read: the generator of its samples, and
    those that a distribution of SciPy's own has set up for itself."""
    bases = [base.__name__ for base in cls.__mro__ if base.__module__.startswith("scipy.stats.")]
    if not bases or not DRAWING.isdisjoint(walker.names.attrs):
        return set()
    set_up = trusted and not {"rv_generic", "multi_rv_generic"}.isdisjoint(bases)
    own = {name for name in store if name.startswith("_")} if set_up else set()
    return own | {"_random_state", *(_VECTORIZED if own else ())}


def _reads_by_itself(walker: Walker, base: type) -> bool:
    """Whether a base class is a library's, whose methods read attributes that no code of the user's names."""
    return base is not object and base.__module__ not in _PLAIN_BASES and walker.trust.cls(base)


def class_part(walker: Walker, node: StateNode, cls: type, name: str, raw: Any, site: str) -> None:
    """Something the class gives to its instances: a method, or a value shared by them all."""
    if isinstance(raw, _HELPERS):
        node.edge("class", (cls, name), walker.visit(raw, f"{cls.__name__}.{name}", site), fixed=True)
        if isinstance(raw, classmethod):  # which is given the class, and may store something there
            node.edge("const", "__class__", walker.visit(cls, cls.__name__, site), fixed=True)
    elif hasattr(type(raw), "__get__"):
        class_descriptor(walker, node, cls, name, raw, site)
    else:
        node.edge("class", (cls, name), walker.visit(raw, f"{cls.__name__}.{name}", site), fixed=True)
