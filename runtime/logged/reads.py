"""The log of what a run reads outside itself: each place once, with the value that was found there.

The run asks for a place by its owner (``read``), the first time of all; what stands there becomes a leaf or a node of a
graph (``state/state_graph.py``), of which key, checker and native words are printed.  What the run has not read is not
in it.

An array that is read becomes an input of the recording: the run gets a traced array in its place (``shown``).
Everything else it gets as it is.
"""

from __future__ import annotations

import abc
import csv
import enum
import functools
import logging
import operator
import os
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Collection, Container, Hashable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
import optree

from ...tracer.control.jitted import python_of
from ...tracer.ir.aval import is_number
from ...tracer.ir.own_attributes import dict_of, in_class
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.ir.shape_struct import ShapeDtypeStruct
from ...tracer.ir.site import user_site
from ...tracer.record.integers import limit_of
from ...tracer.record.recorder import current_recorder
from ...tracer.record.shown_names import CALLED_AS, OBJECTS, stand_in
from ...tracer.rules.host_code import HostCode
from ..cuda.arrays import as_device
from ..record.draws import is_generator
from ..record.kinds import EAGER, is_named_tuple, item_key, may_be_written
from ..state.data_objects import MAX_DATA, DataContents, copy_of, is_data, plain_form
from ..state.kept_cache import CACHE
from ..state.libraries import ENVIRONMENT, LOCALE
from ..state.objects import OF_DATA, is_library_function, is_singleton, keeps_c_state, unread
from ..state.own_items import base_of_items
from ..state.pins import MISSING, Pins, can_change, lookup
from ..state.state_graph import LENGTH, MAX_CONTENT, VALUES, Edge, Leaf, StateGraph, StateNode
from ..state.trust import Trust, hidden_state, impurity
from ..state.values import LongList, is_leaf
from ..tensor_library import TENSORS, MetTensorsError
from .files import WRITERS
from .native_reads import named_entries, pin_reads

CONTAINERS: dict[type, str] = {
    list: "list", tuple: "tuple", dict: "dict", OrderedDict: "dict", set: "set", frozenset: "set", deque: "list",
    defaultdict: "dict", Counter: "dict",
}  # fmt: skip
KEYED = frozenset((dict, defaultdict, Counter, OrderedDict))  # classes of dicts whose items a run may set
#: classes of Python's own whose objects are no more than their attributes, and whose code is followed as the user's
OPENED = frozenset((types.SimpleNamespace, ChainMap, UserDict, UserList, csv.DictWriter))
#: what attributes are read, set and deleted by where a class has no way of its own
GENERIC = frozenset(
    raw
    for cls in (object, types.SimpleNamespace, tuple, list, dict, set, frozenset, deque, BaseException, int, float, str)
    for name in ("__getattribute__", "__setattr__", "__delattr__")
    if (raw := vars(cls).get(name)) is not None
)
METACLASSES = (type, abc.ABCMeta, enum.EnumMeta)
PROTOCOLS = type(SupportsFloat)
_BY_IDENTITY = (
    types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodWrapperType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, type(np.sum), np.ufunc, object, types.GenericAlias, types.UnionType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip
_OF_DESCRIPTORS = ("const", "const", "fget", "fset", "__func__", "func")
#: classes of objects that are no more than some parts -> (the kind of their nodes, how the parts are read, their names)
_PARTS: dict[type, tuple[str, ...]] = {
    types.MethodType: ("method", "attr", "__func__", "__self__"),
    functools.partial: ("partial", "const", "func", "args", "keywords"),
    CACHE: ("cached", "const", "__wrapped__"),
    **dict.fromkeys((property, staticmethod, classmethod, functools.cached_property), _OF_DESCRIPTORS),
}
_BUILTIN_BASES = (list, dict, tuple, set, frozenset, str, bytes, int, float, complex, np.ndarray, np.generic)
_NEVER_CHANGE = frozenset((ShapeDtypeStruct, optree.PyTreeSpec, HostCode))  # classes of libraries
# kinds of nodes whose parts have names
_NAMED = ("instance", "pinned", "module", "library", "argument", "function", "partial")
_MAX_NODES, _MAX_LEAVES = 20_000, 10_000
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)  # which never change
_ANYWHERE = frozenset(("global", "builtin", "cell", "class", "import"))  # places that are found without their owner

Place = tuple[Hashable, str, Hashable]  # (what tells the owner, how, key) of a place


def key_of(how: str, arg: Any, value: Any = None) -> Hashable:
    """The key of the place to which an edge of this form leads."""
    if how in ("global", "builtin", "class"):
        return id(arg[0]), arg[-1]
    if how == "const":
        return arg, id(value)
    if how == "key":
        return item_key(arg)
    return id(arg) if how == "cell" else arg


def _place(owner: StateNode | None, how: str, key: Hashable) -> Place:
    return None if how in _ANYWHERE else id(owner), how, key


_OF_IDENTITY = [object.__eq__, object.__hash__]  # the methods of what is equal to itself alone
_OF_MEMBERS = [object.__eq__, enum.Enum.__hash__]


class NotClosedError(BaseException):
    """The run has come to something that the log does not hold: it is dropped, and nothing has been done outside.  No
    ``except`` clause of the function's is to see it.  *lasting*: another run would come to it, too."""

    lasting = True

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class FoundOutsideError(NotClosedError):
    """The run has *found* a container among its arguments outside, too."""

    def __init__(self, what: str, found: Any) -> None:
        super().__init__(Refusal.LOG_UNSEEN(what=what))
        self.found = found


def _is_input(child: Leaf | StateNode) -> bool:
    return isinstance(child, StateNode) and child.kind in ("number", "array")


def is_generic(raw: Any) -> bool:
    """Whether *raw* is Python's own way to read, set or delete an attribute."""
    return type(raw) is types.WrapperDescriptorType and raw in GENERIC


def is_known(value: Any) -> bool:
    """Whether recorded code finds a function of ours in place of *value*."""
    known = CALLED_AS.get(id(value))
    return known is not None and known[0] is value


def is_wrapper(value: Any) -> bool:
    """Whether *value* is a function that we have made of another one, and can make of its copy."""
    return in_class(type(value), "_tracegrad_rebuild") is not None


def not_closed(what: str, why: Refusal = Refusal.LOG_UNSEEN) -> NotClosedError:
    """The error for something that the log does not hold, in the words of a user; *why*: the refusal that says it.  It
    ends the run of converted code that is under way, whatever becomes of it there (``finally: return``)."""
    reason, recorder = why(what=what, site=user_site()), current_recorder()
    ends = None if recorder is None else recorder.outermost().ends
    error = NotClosedError(reason) if ends is None else ends(reason)
    assert isinstance(error, NotClosedError)
    return error


NUMBERS = (int, float, np.float64, np.float32)  # that may be numbers of the run


class Facts(NamedTuple):
    """The facts that a log rests on beside the places that were read."""

    attrs: dict[str, None]  # names that were looked up
    classes: list[type]  # in which
    stores: list[Any]  # dicts of library's objects, without some names
    abstract: bool
    settings: list[Any]
    very: dict[int, Any]  # values that count by identity


class ReadLog:
    """The reads of one run.  *stand_in(node)*: the traced array for an array that is read, an input from then on.
    ``arrays``: the classes of these."""

    arrays: tuple[type, ...] = (np.ndarray,)
    writes_arrays = False  # whether the run may write into memory outside
    array_sink: Any = None  # the class of what stands for one of them
    may_draw = False  # whether the run may draw from generators of random numbers

    def __init__(
        self, trust: Trust, stand_in: Callable[[StateNode], Any], contents: Collection[str],
        varying: Collection[str] = (), before: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """:param contents: labels of arrays and numbers that the run needs as they are.
        :param varying: labels of numbers that are numbers of the run.
        :param before: the numbers that earlier runs have read, by label: one that is another now varies."""
        self._varying, self._before = varying, before
        self.numbers: dict[str, Any] = {}  # that were read, by label
        self._graph = StateGraph()
        self.trust = trust
        self._stand_in, self._contents = stand_in, contents
        self.inputs: list[StateNode] = []
        self.data: list[tuple[StateNode, Any]] = []  # nodes of data of other libraries, and the run's copies
        self.varying: set[str] = set()  # labels of the numbers that are numbers of the run
        self._shown: dict[int, Any] = {}  # id of an array outside -> the traced one
        self._edges: dict[Place, Any] = {}  # what is shown of each place
        self._children: dict[Place, Leaf | StateNode] = {}
        self._instances: dict[int, tuple[set[str], set[str]]] = {}  # id of a node -> names that shadow, names absent
        self._untouched: set[int] = set()  # ids of containers that other runs have only written to, and this one not
        self._least: dict[int, int] = {}  # id of a list -> the length that it has to have, for items to be there
        self._sized: set[int] = set()  # ids of containers whose lengths another run has asked for
        self._whole: set[int] = set()  # ids of the nodes of objects of which all is read
        self.own_classes: set[type] = set()  # that the run has made, over copies of the user's methods
        self.cells: dict[int, types.CellType] = {}  # cells of functions outside, by id
        self.root: StateNode | None = None
        self.here = ""  # why other processes can't go by the log
        self._very: dict[int, Any] = {}  # values that count by identity, by id
        self.twin: Callable[[StateNode, bool], None] = lambda node, as_twin: None
        self._as_they_are = 0  # objects of libraries that are read as they are, around what is read now
        self.over = False  # whether what has been read is taken: code that reads more runs too late

    def library(self, cls: type) -> bool:
        """Whether *cls* is a library's, whose objects and code are not followed."""
        known = cls not in OPENED and cls.__module__ != "dataclasses" and (self.trust.cls(cls) or is_data(cls))
        return known or cls in self.own_classes

    def unread(self, value: Any) -> set[str]:
        """The attributes of a library's object that its methods read only where they draw numbers."""
        return unread(self._graph.attrs, type(value), dict_of(value) or {})

    def shows(self, value: Any, shown: Any) -> None:
        """The run gets *shown* for *value*, which is found outside."""
        self._shown[id(value)] = shown

    def shown_for(self, value: Any) -> Any:
        """The object that the run gets for *value*, which was found outside."""
        return self._shown.get(id(value), value)

    def end(self) -> None:
        """Let code that is still called be told from the run's: nothing is known any more."""
        self.over = True
        self._edges.clear()

    # ---- what is outside

    def node_of(self, obj: Any) -> StateNode | None:
        """The node of an object that the run has found outside; None for what it has made."""
        found = self._graph.memo.get(id(obj))
        return found if found is not None and found.obj is obj else None

    @property
    def met(self) -> Container[int]:
        """The ids of the objects that were found, and of those that will be."""
        return self._graph.memo

    def known(self, node: StateNode) -> None:
        """*node* is of an argument, whose structure is compared elsewhere."""
        self._graph.memo[id(node.obj)] = node

    def answer(self, owner: StateNode, how: str, key: Any, shown: Any) -> None:
        """The run gets *shown* for a part of an argument."""
        self._edges[_place(owner, how, key)] = shown

    def stores(self) -> Counter[int]:
        """The ids of the dicts that have the names of the objects and modules that were found, and of how many."""
        named = [n.obj for n in self._graph.memo.values() if n.kind in _NAMED]
        return Counter(id(store) for store in map(dict_of, named) if store is not None)

    def ids(self) -> set[int]:
        """The ids of the objects that were found."""
        return {id(node.obj) for node in self._graph.nodes}

    def begin(self, fn: Any, objects: tuple[Any, ...], labels: tuple[str, ...]) -> None:
        """The function, and the objects among its arguments that are no data."""
        child, _ = self.visit(fn, "self" if type(fn) is types.MethodType else "the function")
        self._graph.roots.append(child)
        self.root = child if isinstance(child, StateNode) else None
        self._graph.roots += [self.visit(obj, label)[0] for obj, label in zip(objects, labels, strict=True)]

    def read(self, owner: StateNode, how: str, arg: Any, value: Any, label: str) -> Any:
        """The value that the run gets for *value*, which it has found in a place of *owner*."""
        place = _place(owner, how, key_of(how, arg, value))
        try:
            return self._edges[place]
        except KeyError:
            if how == "item" and _place(owner, VALUES, None) in self._edges:
                return value
            if self.over:
                raise not_closed(f"`{label}`, which is read when the run is over") from None
            child, shown = self.visit(value, label) if type(value) not in NUMBERS else self._number(value, label)
            self._add(owner, Edge(how, arg, child), place, shown)
            return shown

    def read_values(self, owner: StateNode, items: Collection[Any]) -> bool:
        """Whether all *items* of a list or tuple are read at once: there are many, plain numbers or tuples of such.
        Those of an argument are inputs of the run, each by itself."""
        if owner.kind == "argument":
            return False
        place = _place(owner, VALUES, None)
        if place not in self._edges and not self.over and type(items) in (list, tuple):
            values = LongList.of(items)
            if values is not None:
                self._add(owner, Edge(VALUES, None, Leaf(values, True)), place, None)
        return place in self._edges

    def _add(self, owner: StateNode, edge: Edge, place: Place, shown: Any) -> None:
        owner.edges.append(edge)
        self._edges[place], self._children[place] = shown, edge.child

    def read_class(self, cls: type, name: str, raw: Any) -> Any:
        """The value that the run gets for *raw*, which was found under *name* in the class *cls* itself."""
        assert self.root is not None
        if self.library(cls):
            return raw
        self.pin(cls)
        return self.read(self.root, "class", (cls, name), raw, f"{cls.__name__}.{name}")

    def lacks(self, node: StateNode, name: str) -> None:
        """A module has no entry of this *name*."""
        hook = {"__getattr__"} - node.obj.__dict__.keys()
        known = next((edge for edge in node.edges if edge.how == "noitems"), None)
        if known is None:
            node.edges.append(Edge("noitems", {name} | hook, Leaf(None, False)))
        else:
            known.arg |= {name}

    def lacks_own(self, obj: Any, name: str) -> None:
        """A library's object has no attribute of its own of this *name*."""
        store = dict_of(obj)
        if type(store) is dict:
            self._graph.stores.append((obj, store, frozenset((name,))))
            self.pin(type(obj))

    def note_absent(self, node: StateNode, name: str) -> None:
        """An instance has no attribute of this *name*, nor has its class."""
        self._instances[id(node)][1].add(name)

    def note_shadow(self, node: StateNode, name: str) -> None:
        """An instance has no attribute of this *name* of its own; its class has one."""
        self._instances[id(node)][0].add(name)

    def at_least(self, node: StateNode, length: int) -> None:
        """It counts whether a list has so many items; if it has less, how many."""
        self._least[id(node.obj)] = max(length, self._least.get(id(node.obj), 0))

    def sized(self, node: StateNode, length: int | None) -> None:
        """Another run has asked whether a list has so many items; None: for the length of a container."""
        if length is None:
            self._sized.add(id(node.obj))
        else:
            self.at_least(node, length)

    def names(self, name: str) -> None:
        """An attribute of this name is looked up."""
        self._graph.attrs[name] = None

    def pin(self, cls: type) -> None:
        """Let lookups in *cls* count."""
        self._graph.pin(cls)

    def asks_registered(self, kind: type, cls: Any) -> None:
        """The run asks whether *kind* is a subclass of *cls*, with which others may be registered."""
        if isinstance(cls, abc.ABCMeta):
            hooked = any("__subclasshook__" in vars(base) for base in cls.__mro__[:-1])
            self._graph.abstract |= hooked or cls not in kind.__mro__

    def is_this(self, node: StateNode) -> None:
        """An object is compared by its identity: it is a key of a dict outside, or is looked for among the keys."""
        place = _place(node, "items", None)
        if place not in self._edges:
            self._add(node, Edge("items", None, Leaf(node.obj, False)), place, node.obj)
            self.here = self.here or "it looks for objects among the keys of a dict"

    def by_identity(self, *values: Any) -> None:
        """The run asks which of equal *values* these are."""
        self._very.update({id(value): value for value in values})
        self.here = "it asks whether equal values are one object"

    def ran(self, code: types.CodeType) -> None:
        """Code of the user's has run."""
        self._graph.codes[id(code)] = code

    def depends(self, setting: Any) -> None:
        """The answer depends on a setting of a library."""
        self._graph.depends(setting)

    def shows_locale(self) -> None:
        """A number is written as the locale says."""
        self.depends(LOCALE)

    # ---- values

    def visit(self, value: Any, label: str) -> tuple[Leaf | StateNode, Any]:
        """(the leaf or node of *value*, what the run gets for it)."""
        if type(value) is float or is_leaf(value):
            return self._leaf(value), value
        known = self.node_of(value)
        if known is not None and known.kind == "argument":
            raise FoundOutsideError(f"`{known.label}`, an argument that is also found as `{label}`", value)
        if known is not None and self._as_they_are and id(value) in self._shown and not known.fixed:
            raise not_closed(f"`{label}`, which a library reads, and the run too")
        if known is not None:
            return known, self._shown.get(id(value), value)
        kind = type(value)
        if kind is np.memmap or (kind is np.ndarray and not value.dtype.isnative and is_number(value.dtype)):
            return self._form(value, label)
        if kind in self.arrays:
            return self._array(value, label, label in self._contents)
        if len(self._graph.nodes) > _MAX_NODES:
            raise not_closed("more objects outside than are compared in each call")
        found = self._object(value, kind, label)
        return found, self._shown.get(id(value), value)

    def _number(self, value: Any, label: str) -> tuple[Leaf | StateNode, Any]:
        """A number, which is a number of the run where it is not the same in all calls."""
        self.numbers[label] = value
        varies = label in self._varying or self._before.get(label, value) != value
        if not varies or label in self._contents or (type(value) is int and not limit_of(value)) or value != value:
            return self._leaf(value), value
        return self._input_number(value, label)

    def _input_number(self, value: Any, label: str) -> tuple[StateNode, Any]:
        made = StateNode("number", value, label)
        self._graph.nodes.append(made)
        self.varying.add(label)
        self.inputs.append(made)
        return made, self._stand_in(made)

    def may_vary(self, label: str) -> bool:
        """Whether a number may yet become a number of the run: it has not been tried."""
        return label not in self._varying and label not in self.varying

    def shown_in(self, owner: StateNode, how: str, key: Any) -> Any:
        """The value that the run has found in a place; MISSING where it has not read it."""
        return self._edges.get(_place(owner, how, key), MISSING)

    def from_end(self, node: StateNode) -> list[int]:
        """The places that were read from the end of a list."""
        return [edge.arg for edge in node.edges if edge.how == "item" and edge.arg < 0]

    def was_read(self, owner: StateNode, how: str, key: Any) -> bool:
        """Whether a place was read as a plain number."""
        return type(self.shown_in(owner, how, key)) in NUMBERS

    def _leaf(self, value: Any) -> Leaf:
        found = self._graph.leaf(value)
        if self._graph.leaves > _MAX_LEAVES:
            raise NotClosedError(Refusal.STATE_LARGE(count=_MAX_LEAVES))
        return found

    def _object(self, value: Any, kind: type, label: str) -> Leaf | StateNode:
        if issubclass(kind, TENSORS.kinds):
            not_closed(f"`{label}`, a tensor")
            raise MetTensorsError(label, value)
        if kind is types.FunctionType:
            return self._function(value, label)
        if kind in CONTAINERS:
            return self._container(value, label)
        if kind in _PARTS:
            return self._of_parts(value, label, *_PARTS[kind])
        if issubclass(kind, types.ModuleType):
            return self._module(value, label)
        if issubclass(kind, type):
            return self._class(value, label)
        if kind in WRITERS:
            self._in_this_process(label)
            return self._graph.node("sink", value, label)
        if kind in _GETTERS and is_leaf(value.__reduce__()[1]):
            return Leaf(value, False)
        if "cython_function" in kind.__name__ and value.__module__ is not None:
            return Leaf(value, False)
        if is_wrapper(value):
            return self._of_parts(value, label, "compiled", "const", "__wrapped__")
        if kind in _BY_IDENTITY and self._is_plain_c(value):
            return Leaf(value, False)
        owner = value.__self__ if kind is types.BuiltinFunctionType else value
        if type(owner) in OBJECTS:  # which never change
            self._in_this_process(label)
            self.shows(value, stand_in(value))
            return Leaf(value, False)
        draws = self.may_draw and is_generator(type(owner))
        if owner is not value and (draws or type(owner) in (*CONTAINERS, *WRITERS, np.ndarray)):
            made = self._graph.node("adder", value, label)
            shown = self.read(made, "attr", "__self__", owner, f"the owner of {label}")
            if type(owner) is np.ndarray:
                self.shows(value, getattr(shown, value.__name__))
            return made
        return self._instance(value, kind, label)

    def _of_parts(self, value: Any, label: str, form: str, how: str, *names: str) -> StateNode:
        """The node of an object that is no more than its parts of these *names*, of which it has some."""
        made = self._graph.node(form, value, label)
        for name in names:
            part = getattr(value, name, None)
            if part is not None:
                self.read(made, how, name, part, f"{label} {name}" if form == "partial" else label)
        return made

    def _module(self, value: types.ModuleType, label: str) -> StateNode:
        if type(value) is not types.ModuleType and not self.trust.cls(type(value)):
            raise not_closed(f"`{label}`, a module of a class of its own")
        kind = "library" if self.trust.module(value) else "module"
        return self._graph.node(kind, value, label, extra=set())

    def _container(self, value: Any, label: str) -> StateNode:
        if isinstance(value, dict):
            self._check_keys(value, label)
            return self._graph.node("dict", value, label, extra=tuple(value))
        made = self._graph.node(CONTAINERS[type(value)], value, label)
        if isinstance(value, set | frozenset):
            for index, item in enumerate(list(value)):
                child, shown = self.visit(item, f"an element of {label}")  # no number of the run
                self._add(made, Edge("element", index, child), _place(made, "element", index), shown)
        return made

    def _check_keys(self, value: dict[Any, Any], label: str) -> None:
        """An error unless keys are compared by value, or by identity alone."""
        for key in value:
            if is_leaf(key) or isinstance(key, type | types.FunctionType) or type(key) in EAGER:
                continue
            kind = type(key)
            found = [lookup(kind, name) for name in ("__eq__", "__hash__")]
            if found != _OF_IDENTITY and found != _OF_MEMBERS:
                raise not_closed(f"`{label}`, a dict with keys that are compared by methods")
            self.pin(kind)

    def _in_this_process(self, label: str) -> None:
        """No file says how to read an object of this kind."""
        self.here = self.here or f"it reads `{label}`, of which no file tells"

    def _is_plain_c(self, value: Any) -> bool:
        owner = getattr(value, "__self__", None)
        return owner is None or isinstance(owner, types.ModuleType | type)

    def _function(self, fn: types.FunctionType, label: str) -> StateNode:
        trusted = self.trust.owns(fn)
        made = self._graph.node("function", fn, label, extra=trusted)
        if self._graph.main is None and not trusted:
            self._graph.main = fn.__globals__
        for cell in fn.__closure__ or ():
            self.cells[id(cell)] = cell
        return made

    def _class(self, cls: type, label: str) -> Leaf | StateNode:
        if self.trust.cls(cls):
            self.pin(cls)
            return Leaf(cls, False)
        if type(cls) not in (*METACLASSES, PROTOCOLS):
            raise not_closed(f"`{label}`, a class with a metaclass of its own")
        self.pin(cls)
        return self._graph.node("class", cls, label)

    def _array(self, value: Any, label: str, contents: bool) -> tuple[StateNode, Any]:
        if self.writes_arrays and label in self._varying and not contents:
            if not may_be_written(value):
                raise not_closed(f"an assignment in `{label}`, an array that shows another one's memory, or is fixed")
            self.shows(value, self.array_sink(value))
            self._in_this_process(label)
            return self._graph.node("sink", value, label), self._shown[id(value)]
        is_input = is_number(value.dtype) and not contents and not self._as_they_are
        if value.dtype.hasobject or not value.dtype.isnative:
            raise not_closed(f"`{label}`, an array of objects")
        if type(value) is not np.ndarray and not (is_input and as_device(value) is value):
            raise not_closed(f"`{label}`, an array on a device whose contents are needed")
        made = self._graph.node("array", value, label)
        if is_input:
            shown = self._shown[id(value)] = self._stand_in(made)
            self.inputs.append(made)
            return made, shown
        if value.nbytes > MAX_CONTENT:
            raise not_closed(f"`{label}`, whose contents are needed, of more than 1 MiB")
        made.fixed = True
        shown = self._shown[id(value)] = value.view()
        shown.flags.writeable = False
        return made, shown

    def _form(self, value: np.ndarray, label: str) -> tuple[StateNode, Any]:
        """A memory map, or an array in another byte order: read anew in each call as a plain one."""
        made = self._graph.node("form", value, label)
        child, shown = self._array(plain_form(value), label, label in self._contents)
        self._add(made, Edge("plain", None, child), _place(made, "plain", None), shown)
        self._shown[id(value)] = shown
        self._in_this_process(label)
        return made, shown

    def _instance(self, value: Any, kind: type, label: str) -> Leaf | StateNode:
        if self.library(kind):
            top = kind.__module__.partition(".")[0]
            known = is_library_function(value) or (is_singleton(value) and hidden_state(kind) is None)
            if top in ("numpy", "scipy") and callable(value) and known:
                return Leaf(value, False)
            if top == "tracegrad" and is_named_tuple(kind):  # of functions of ours, over functions of the user's
                return self._graph.node("tuple", value, label)
            if top == "typing" or (top == "numba" and is_known(value)):
                return Leaf(value, False)
            return self._of_library(value, kind, label)
        if issubclass(kind, BaseException):
            raise not_closed(f"`{label}`, an exception, which keeps the lines where it was raised")
        if hidden_state(kind) is not None or type(kind) not in METACLASSES:
            raise not_closed(f"`{label}`, of the class {kind.__qualname__}")
        if issubclass(kind, enum.Enum):
            made = self._graph.node("member", value, label)
            self.pin(kind)
            return made
        if issubclass(kind, tuple) and hasattr(kind, "_fields") and not dict_of(value):
            self.pin(kind)
            return self._graph.node("tuple", value, label)
        if issubclass(kind, (list, dict)) and base_of_items(kind, self.trust) is not None:
            self._in_this_process(label)
        elif issubclass(kind, _BUILTIN_BASES):
            raise not_closed(f"`{label}`, of a subclass of a builtin class")
        if not is_generic(lookup(kind, "__getattribute__")):
            raise not_closed(f"`{label}`, whose class has a `__getattribute__`")
        self.pin(kind)
        made = self._graph.node("instance", value, label, extra=(frozenset(), frozenset(), None))
        self._instances[id(made)] = set(), set()
        return made

    def _of_library(self, value: Any, kind: type, label: str) -> Leaf | StateNode:
        """An object of a library's class, all of which is what its attributes hold."""
        if issubclass(kind, enum.Enum):
            return Leaf(value, False)
        self._in_this_process(label)
        if (source := python_of(value)) is not None:
            made = self._graph.node("jitted", value, label)
            self.read(made, "const", "__wrapped__", source, label)
            return made
        if kind in (logging.Logger, logging.RootLogger):
            return self._graph.node("logger", value, label)
        if kind is type(os.environ):
            self.depends(ENVIRONMENT)
            return self._graph.node("known", value, label)
        if kind is ContextVar:
            return self._graph.node("known", value, label)
        if is_data(kind):
            return self._data(value, label)
        store, top = dict_of(value), kind.__module__.partition(".")[0]
        plain = type(store) in (dict, type(None)) and not keeps_c_state(kind) and hidden_state(kind) is None
        if kind in _NEVER_CHANGE or hasattr(kind, "n_sequence_fields"):  # sys.float_info
            return Leaf(value, False)
        if self.may_draw and is_generator(kind):
            self._in_this_process(label)
            return self._graph.node("generator", value, label)
        if hidden_state(kind) is Refusal.STATE_RANDOM:
            raise not_closed(f"{label}, a {kind.__module__.partition('._')[0]}.{kind.__name__}", Refusal.CALLS_RANDOM)
        if top not in ("numpy", "scipy", "statistics") or not plain or self.over:
            why = impurity(value) if callable(value) else hidden_state(kind)
            if why is None:
                raise not_closed(f"`{label}`, an object of a library's class {kind.__qualname__}")
            raise not_closed(f"`{label}` ({kind.__module__.removesuffix('._generator')}.{kind.__qualname__})", why)
        as_twin = kind.__module__.startswith(OF_DATA) and not self._as_they_are
        made = self._graph.node("instance", value, label, extra=(frozenset(), frozenset(), None))
        made.fixed = not as_twin
        self.pin(kind)
        self._instances[id(made)] = set(), set()
        self._whole.add(id(made))
        self._as_they_are += not as_twin
        try:
            self.twin(made, as_twin)
        finally:
            self._as_they_are -= not as_twin
        return made

    def _data(self, value: Any, label: str) -> StateNode:
        """Data of pandas, xarray, PyTorch or JAX, which the run needs as it is: compared by its contents; as a copy."""
        try:
            contents, shown = DataContents(value), copy_of(value)
        except Exception:  # on a device, lazy, or of a dtype that NumPy has not
            raise not_closed(f"`{label}`, data that can't be compared") from None
        if contents.size > MAX_DATA:
            raise not_closed(f"`{label}`, data of more than {MAX_DATA >> 20} MiB")
        made = self._graph.node("data", value, label, extra=contents)
        self.shows(value, shown)
        made.fixed = shown is value
        self.data.append((made, shown))
        return made

    # ---- the reads of other runs, too (``joined.py``)

    @property
    def roots(self) -> list[Leaf | StateNode]:
        """The function, then the objects among its arguments."""
        return self._graph.roots

    def child(self, owner: StateNode | None, how: str, key: Hashable) -> Leaf | StateNode | None:
        """The value or node that was found in a place; None where the place was not read."""
        return self._children.get(_place(owner, how, key))

    def found(self, value: Any, kind: str, label: str, contents: bool) -> tuple[StateNode, Any]:
        """(the node of *value*, of this kind, what the run would get for it); *contents*: an array as it is."""
        if kind == "number":
            return self._input_number(value, label)
        known = self.node_of(value)
        if known is not None:
            return known, self._shown.get(id(value), value)
        if kind == "array":
            return self._array(value, label, contents)
        if kind == "instance" and self.library(type(value)):
            raise not_closed(f"`{label}`, an object of a library's class that this run has not found")
        made = self._object(value, type(value), label)
        if kind in ("sink", "history"):
            self._untouched.add(id(value))
        if not isinstance(made, StateNode):
            raise not_closed(f"`{label}`, which is another object now")
        return made, value

    def also(self, owner: StateNode, how: str, arg: Any, key: Hashable, child: Leaf | StateNode, shown: Any) -> None:
        """Read a place, too, in which *child* was found."""
        self._add(owner, Edge(how, arg, child), _place(owner, how, key), shown)

    def around(self) -> Facts:
        """The facts that the log rests on beside the places."""
        graph = self._graph
        return Facts(
            dict(graph.attrs), list(graph.classes), list(graph.stores), graph.abstract, list(graph.settings.values()),
            self._very,
        )  # fmt: skip

    def rest_on(self, facts: Facts) -> None:
        """Let the log rest on the *facts* of another one, too."""
        self._graph.attrs |= facts.attrs
        self._graph.classes |= dict.fromkeys(facts.classes)
        self._graph.stores += [store for store in facts.stores if store not in self._graph.stores]
        self._graph.abstract |= facts.abstract
        self._very |= facts.very
        for setting in facts.settings:
            self.depends(setting)

    def instance_lacks(
        self, node: StateNode, shadow: Collection[str], absent: Collection[str], whole: bool
    ) -> None:  # fmt: skip
        """An instance has no attributes of these names: its class has those of *shadow*.  *whole*: it has no others
        than were read."""
        if node.kind == "instance":
            if whole:
                self._whole.add(id(node))
            self._instances[id(node)][0].update(shadow)
            self._instances[id(node)][1].update(absent)

    # ---- the graph

    def graph(
        self, untouched: Collection[int] = (), written: Mapping[int, Collection[Any] | None] = MappingProxyType({})
    ) -> StateGraph:  # fmt: skip
        """The graph of all that has been read.  *untouched*: ids of containers that were only written to, or asked for
        their lengths; *written*: as in ``pin_reads``."""
        graph = self._graph
        untouched = self._untouched.union(untouched) - self._sized
        self.over = True
        for node in graph.nodes:
            self._settle_items(node, id(node.obj) in untouched)
            if node.kind == "instance":
                shadow, absent = self._instances.get(id(node), (set(), set()))
                everyone = tuple(dict_of(node.obj) or ()) if id(node) in self._whole else None
                node.extra = frozenset(shadow), frozenset(absent), everyone
            for edge in node.edges if self._very else ():
                if isinstance(edge.child, Leaf) and id(edge.child.value) in self._very:
                    edge.child.by_value = False
        lacking = {key: shadow | absent for key, (shadow, absent) in self._instances.items()}
        loose = {**pin_reads(graph, lacking, written), **self._loose_in_classes(written)}
        graph.here = self.here
        functions = [n.obj for n in graph.nodes if n.kind == "function" and not n.extra]
        of_settings = [(None, s.quick(), None) for s in graph.settings.values() if s.pinned and s.quick is not None]
        graph.pins = Pins(
            graph.attrs, self.trust, [c for c in graph.classes if any(map(can_change, c.__mro__))],
            [*graph.stores, *of_settings], graph.lists, graph.abstract, functions, loose,
            named_entries(graph, written),
        )  # fmt: skip
        return graph

    def _settle_items(self, node: StateNode, untouched: bool) -> None:
        """Have a container that the run has left *untouched* be compared for no more than counts of it, and items near
        the end of a list be found from its start."""
        least = self._least.get(id(node.obj), 0)
        if untouched and node.kind == "set":
            node.edges = []
        if untouched and all(edge.how == LENGTH or (edge.how == "item" and least) for edge in node.edges):
            node.kind, node.extra = ("history", least) if node.edges or least else ("sink", None)
        for edge in node.edges if node.kind == "list" and least else ():
            if edge.how == "item" and edge.arg < 0:
                edge.arg += len(node.obj)

    def _loose_in_classes(self, written: Mapping[int, Collection[Any] | None]) -> dict[int, Collection[Any]]:
        """The names of classes that the run writes, and has not read but as inputs, by the id of the class: they are
        compared as inputs, and in no other way."""
        loose: dict[int, Collection[Any]] = {}
        for cls in self._graph.classes:
            for base in cls.__mro__:
                names = written.get(id(base)) or ()
                found = [(name, self._children.get(_place(None, "class", (id(base), name)))) for name in names]
                if found:
                    loose[id(base)] = {name for name, child in found if child is None or _is_input(child)}
        return loose
