"""Values for code that is not converted.

Containers from outside are handed over as copies of all that they hold, which is read; the user's functions as their
copies, where they are only called.  What else such code might look into is refused."""

from __future__ import annotations

import functools
import operator
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from ...tracer.ir.own_attributes import attributes_of, dict_of
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.trees import node_functions
from ...tracer.loops.iterables import same_objects
from ...tracer.loops.python_ints import is_python_int
from ...tracer.record.made_arrays import MadeArray, fresh_in, refuse_write
from ...tracer.record.shown_text import TextOfValues
from ..record.kinds import PLAIN, is_held, is_named_tuple
from ..state.libraries import is_moment, leaf_setting
from ..state.set_order import hashes_here
from .handed_functions import OURS, TREES, Callee, HandedFunctions
from .reads import CONTAINERS, is_wrapper
from .writing import like

_INERT = frozenset((
    "__init__", "__new__", "__post_init__", "__module__", "__doc__", "__qualname__", "__dict__", "__weakref__",
    "__annotations__", "__repr__", "__str__", "__call__", "__init_subclass__", "__slots__", "__match_args__",
    "__dataclass_fields__", "__dataclass_params__", "__firstlineno__", "__static_attributes__", "__annotate_func__",
    "__annotations_cache__", "__replace__", "__orig_bases__", "__parameters__", "__abstractmethods__",
    "__class_getitem__", "__getnewargs__",
))  # fmt: skip

_COMPARED = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"))
_CHANGEABLE = frozenset(CONTAINERS) - {tuple, frozenset}

#: modules of ours that look into no object that is not registered; transforms take those apart that they differentiate
_BY_POSITION = frozenset(("jacobian", "jacfwd", "jacrev", "hessian", "derivative", "elementwise_grad"))  # transforms
_PASSING_ON = ("tracegrad.tracer.rules", "tracegrad.tracer.control", "tracegrad.compat")
_HASHES = ("hash", "__hash__")


class Handing(HandedFunctions):
    """The part of a run that hands values to libraries."""

    # of the parts that stand on this one
    inherits: Any
    twin_of: Any

    def handed(self, value: Any, callbacks: bool, depth: int = 0) -> Any:
        """*value* for code that is not seen: containers from outside as copies of all that they hold, which is read;
        functions of the user's as their copies, where *callbacks* may be handed over."""
        kind = type(value)
        if kind in PLAIN:
            if kind is str and is_moment(value):
                raise self.refuse(f"{value!r}, a text that is the present to NumPy", Refusal.CALLS_CLOCK)
            return value
        if kind is TextOfValues:
            raise self.refuse("a text that is made of values")
        if depth > 50:
            raise self.refuse("a structure that is nested deeply")
        if kind in CONTAINERS:
            return self._container(value, kind, callbacks, depth)
        if isinstance(value, type):
            if self.reads.library(value) or issubclass(value, BaseException):
                return value
            if not (callbacks and hasattr(value, "_tracegrad_helpers")):
                raise self.refuse("a class that is handed to a library")
            return self.over_copies(value)
        if (function := self.handed_function(value, kind, callbacks)) is not NotImplemented:
            return function
        if kind is types.BuiltinFunctionType or kind is types.MethodWrapperType:
            return self._bound_in_c(value, callbacks)
        if is_named_tuple(kind):
            return self._named(value, callbacks, depth)
        if kind is functools.partial:
            return self._partial(value, callbacks, depth)
        node = self.reads.node_of(value)
        if node is not None and (node.kind in ("known", "library") or node.fixed):  # all of it is read, or is theirs
            return value
        if not self.reads.library(kind):
            return self._object(value, kind, callbacks, depth)
        if node is not None:
            raise self.refuse(f"an object from outside, of the class {kind.__qualname__}, that is handed to a library")
        if (setting := leaf_setting(value)) is not None:
            self.reads.depends(setting)
        if hasattr(kind, "__next__"):
            return CheckedItems(self, value)
        self._check_parts(value, kind, depth)
        return value

    def _object(self, value: Any, kind: type, callbacks: bool, depth: int) -> Any:
        """An object of a class of the user's."""
        node = self.reads.node_of(value)
        if node is None and self._callee.module.startswith(OURS) and node_functions(kind):
            called = callable(value) and self._callee.module != TREES
            return self._tree(value, callbacks, depth) if not called else self._as_function(value, kind)
        if node is not None and (self.inherits(kind) or id(value) in self._callee.apart):
            return self.twin_of(node)
        if callbacks and self.stands_for_function(value, kind):
            return self.called(value)
        if callbacks and self._passes_on(value, kind):
            return value
        if node is not None:
            raise self.refuse(f"an object from outside, of the class {kind.__qualname__}, that is handed to a library")
        if isinstance(value, np.ndarray) or not self.inert(kind) or callable(value):
            self._refuse_object(kind)
        self._check_parts(value, kind, depth)
        return value

    def _as_function(self, value: Any, kind: type) -> Any:
        return self.called(value) if self.stands_for_function(value, kind) else self._refuse_object(kind)

    def _tree(self, value: Any, callbacks: bool, depth: int) -> Any:
        """An object of a registered class, over parts that functions of ours may look at."""
        flatten, unflatten = node_functions(type(value))
        parts, structure = flatten(value)[:2]
        found = [self.handed(part, callbacks, depth + 1) for part in parts]
        return value if all(map(operator.is_, found, parts)) else unflatten(structure, found)

    def _refuse_object(self, kind: type) -> NoReturn:
        raise self.refuse(f"an object of the class {kind.__qualname__} that is handed to a library")

    def handed_back(self, value: Any, depth: int = 0) -> Any:
        """A result of a function of the user's that code that is not seen has called."""
        kind = type(value)
        if kind in PLAIN or depth > 50:
            return value
        if kind in CONTAINERS and self.reads.node_of(value) is None and issubclass(kind, tuple | list | dict):
            keyed = issubclass(kind, dict)
            for part in value.values() if keyed else value:
                if self.handed_back(part, depth + 1) is not part:
                    return self.handed(value, True)
            return value
        callable_ = isinstance(value, types.FunctionType | types.MethodType | functools.partial) or is_wrapper(value)
        return self.handed(value, True) if callable_ or self.reads.node_of(value) is not None else value

    def _passes_on(self, value: Any, kind: type) -> bool:
        """Whether the code that runs looks at no object of the user's class *kind*: rules and loops of ours, and
        functions of SciPy at what is in their ``args``."""
        plain = self.inert(kind, _INERT | _COMPARED) and not isinstance(value, np.ndarray)
        if not plain or node_functions(kind):
            return False
        in_args = self._within_args or id(value) in self._callee.passed_on
        return in_args or self._callee.module.startswith(_PASSING_ON)

    def _named(self, value: Any, callbacks: bool, depth: int) -> Any:
        """A named tuple, whose class has no way of its own to give its fields."""
        if not (self.reads.library(type(value)) or self.inert(type(value))):
            self._refuse_object(type(value))
        if not self.reads.library(type(value)):  # such code may ask for fields by their names
            for name in type(value)._fields:
                self.reads.names(name)
            self.reads.pin(type(value))
        node, parts = self.reads.node_of(value), tuple.__iter__(value)
        if node is not None:
            parts = iter(self.read_parts(parts, node))
        found = [self.handed(part, callbacks, depth + 1) for part in parts]
        same = all(map(operator.is_, found, tuple.__iter__(value)))
        return value if same else tuple.__new__(type(value), found)

    def _partial(self, value: functools.partial[Any], callbacks: bool, depth: int) -> Any:
        if not callbacks:
            raise self.refuse("a partial that is handed to a library")
        function, args, keywords = [self.handed(part, True, depth + 1) for part in self.parts_of_partial(value)]
        return functools.partial(function, *args, **keywords)

    def parts_of_partial(self, partial: functools.partial[Any]) -> tuple[Any, ...]:
        """(its function, its arguments, its keywords), as the run has them."""
        parts, node = (partial.func, partial.args, partial.keywords), self.reads.node_of(partial)
        if node is None:
            return parts
        names = "func", "args", "keywords"
        return tuple([self.reads.read(node, "const", n, x, n) for n, x in zip(names, parts, strict=True)])

    def _check_parts(self, obj: Any, kind: type, depth: int) -> None:
        """An error where an object that the run has made holds a container from outside."""
        parts = (dict_of(obj) or {}) if self.reads.trust.cls(kind) else attributes_of(obj)
        for value in parts.values():
            known = type(value) in CONTAINERS or is_named_tuple(type(value))
            if known and self.handed(value, True, depth + 1) is not value:
                raise self.refuse("an object with a container from outside that is handed to a library")

    def _bound_in_c(self, method: Any, callbacks: bool) -> Any:
        """A function in C; a method of an object only where it may be called back."""
        owner = method.__self__
        numeric = callbacks and type(owner) in (float, complex)  # whose methods may be given traced values
        if isinstance(owner, types.ModuleType | type | None) or (type(owner) in PLAIN and not numeric):
            return method
        if not callbacks:
            raise self.refuse("a method that is handed to a library")
        return lambda *args, **kwargs: self.call(method, *args, **kwargs)

    def _container(self, value: Any, kind: Any, callbacks: bool, depth: int) -> Any:
        around, self._within_args = self._within_args, self._within_args or id(value) in self._callee.passed_on
        try:
            return self._contents(value, kind, callbacks, depth)
        finally:
            self._within_args = around

    def _contents(self, value: Any, kind: Any, callbacks: bool, depth: int) -> Any:
        node = self.reads.node_of(value)
        self.looked_at(value)
        if node is not None and (now := self.current(value)) is not value:
            found = self._contents(now, kind, callbacks, depth)
            return self._copied(now.copy()) if found is now else found
        hand = functools.partial(self.handed, callbacks=callbacks, depth=depth + 1)
        if kind in (set, frozenset):
            self.in_order(value)
            for item in value:
                hand(item)
            same_kind: Any = kind
            return value if node is None else self._copied(same_kind(value))
        items = value if node is None else self.read_parts(value, node)
        if isinstance(items, dict):
            parts = {hand(key): hand(item) for key, item in items.items()}
            if node is None and all(parts[key] is value[key] for key in value):
                return value
            return self._copied(self._like(value, parts))
        found = list(map(hand, items))
        if node is None and all(map(operator.is_, found, value)):
            return value
        return tuple(found) if kind is tuple else self._copied(like(value, found))

    def in_order(self, elements: Any) -> None:
        """The order of a set may be asked for."""
        if hashes_here(elements):
            self.reads.here = "it goes over a set, whose order is another one in each process"

    def _like(self, value: Any, parts: dict[Any, Any]) -> Any:
        if type(value) is not defaultdict:
            return type(value)(parts)

        def missing() -> Any:
            raise self.refuse("a key that a dict from outside has not, which is handed to a library")

        return defaultdict(missing, parts)

    def _copied(self, made: Any) -> Any:
        self._copies.append((made, _parts(made)))
        return made

    def handing(self, f: Any, args: Any, kwargs: Any, callbacks: bool) -> Any:
        """``f(*args, **kwargs)`` of code that is not seen, which must not change the copies of containers from outside
        that it gets, nor keep them, nor hand them out."""
        before, self._copies = self._copies, []
        around, within = self._callee, self._within_args
        self._callee, self._within_args = _callee(f, args, kwargs, id(f) in self._rewrapped), False
        watched = bool(self.loops or self.recorder.arms)
        asked = getattr(f, "__name__", "")
        if asked in _HASHES and hashes_here(args if asked == "hash" else (*args, getattr(f, "__self__", 0))):
            self.reads.here = "it asks for a hash, which is another one in each process"
        try:
            given = [self.handed(x, callbacks) for x in args]
            named = {k: self.handed(x, callbacks) for k, x in kwargs.items()}
            pictures = _pictures((getattr(f, "__self__", None), *args, *kwargs.values())) if watched else ()
            result = f(*given, **named)
            del given, named
        except Exception as error:
            if self.loops and any(map(is_python_int, (*args, *kwargs.values()))):
                self.loops[-1].give_up(f"{asked}() of an integer of a loop: {type(error).__name__}")
            raise
        else:
            for value, was in pictures:
                if not is_as_it_was(value, was):
                    self.array_changed(value) if isinstance(value, np.ndarray) else self.changes(value)
            while self._copies:
                made, was = self._copies[-1]
                same = made is not result and is_as_it_was(made, was)
                del made, was
                if not same or is_held(self._copies):
                    raise self.refuse("code in C that changes, or hands out, a container from outside")
        finally:
            self._copies = before
            self._callee, self._within_args = around, within
        held = [result]
        del result  # which references tell
        result = fresh_in(held)
        return self.made(result) if watched and type(result) not in PLAIN else result

    def array_changed(self, array: np.ndarray) -> None:
        """A plain array of the run's own is changed: in an iteration that stands for others, or in one arm of two."""
        if self.recorder.arms:
            refuse_write(array, "z[...] = t, in an arm of an `if` on a traced value,")
        for taken in [x for loop in self.loops for x in loop.parts_of if np.may_share_memory(x, array)]:
            refuse_write(taken, "an assignment after a part was taken at a traced position")  # which would not see it
        if self.loops:
            self.loops[-1].refuse_seen("an array is changed")

    def inert(self, kind: type, known: frozenset[str] = _INERT) -> bool:
        """Whether code that is handed an object of the user's class *kind* runs none of its methods unasked: it has no
        special ones but those that are *known*."""
        for base in kind.__mro__:
            if self.reads.trust.cls(base):
                continue
            special = {n for n in vars(base) if n.startswith("__") and n.endswith("__")}
            if not special <= known:
                return False
        return True


class CheckedItems:
    """The items of an *iterator*, for code that is not seen: nothing that is read there.  It is compared as that is."""

    __slots__ = ("iterator", "run")

    def __init__(self, run: Handing, iterator: Iterator[Any]) -> None:
        self.run, self.iterator = run, iterator

    def __iter__(self) -> CheckedItems:
        return self

    def __next__(self) -> Any:
        value = next(self.iterator)
        if self.run.handed(value, False) is not value:
            raise self.run.refuse("an iterator over containers from outside that is handed to a library")
        return value

    def __eq__(self, other: Any) -> bool:
        return self.iterator is (other.iterator if type(other) is CheckedItems else other)

    def __hash__(self) -> int:
        return hash(self.iterator)


def _callee(f: Any, args: Any, kwargs: Any, over_users: bool) -> Callee:
    """The knowledge of *f* as code that is given *args*; *over_users*: it is one of ours over a function of the
    user's."""
    wrapper = f if is_wrapper(f) else getattr(f, "__self__", None)
    if is_wrapper(wrapper):
        places = _taken_apart(f, wrapper)
        places = places if isinstance(places, tuple) else (places,)
        if not all(isinstance(place, int) and place >= 0 for place in places):
            return Callee("")
        rest = frozenset(id(x) for k, x in enumerate(args) if k not in places)
        return Callee("", None, rest, frozenset(id(x) for k, x in enumerate(args) if k in places) - rest)
    module = str(f.__globals__.get("__name__") if type(f) is types.FunctionType else getattr(f, "__module__", ""))
    first = args[0] if args and not over_users else None
    if not module.startswith("scipy."):
        return Callee(module, first)
    code = getattr(f, "__code__", None)
    names = () if code is None else code.co_varnames[: code.co_argcount]
    place = names.index("args") if "args" in names else len(args)
    passed_on = kwargs.get("args", args[place] if place < len(args) else None)
    return Callee(module, first, frozenset(() if passed_on is None else (id(passed_on),)))


def _taken_apart(f: Any, wrapper: Any) -> Any:
    """The positions of the arguments that *f*, which is *wrapper* or a method of it, takes apart; None: not known."""
    rule = getattr(wrapper.__wrapped__, "rule", None)
    if rule is None:
        return wrapper.__dict__.get("_argnums") if not hasattr(f, "value_and_grad") else ()  # its value is asked for
    if rule.name in _BY_POSITION:
        return rule.argnums
    return () if rule.name == "vmap" else None


def _pictures(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    """The plain arrays and containers among *values* that can be changed, and what is in them."""
    every = [x for value in values for x in ((value, *value) if type(value) in (tuple, list) else (value,))]
    arrays = [x for x in every if type(x) in (np.ndarray, MadeArray) and x.flags.writeable]
    return [*[(x, x.tobytes()) for x in arrays], *[(x, _parts(x)) for x in every if type(x) in _CHANGEABLE]]


def _parts(container: Any) -> tuple[Any, ...]:
    return tuple(container.items()) if isinstance(container, dict) else tuple(container)


def is_as_it_was(value: Any, was: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.tobytes() == was
    now = _parts(value)
    return len(now) == len(was) and all(map(same_objects, now, was))
