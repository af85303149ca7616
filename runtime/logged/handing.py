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

from ...tracer.bytecode.records import dict_of
from ...tracer.control.jitted import python_of
from ...tracer.ir.site import user_frame
from ...tracer.ir.trees import node_functions
from ...tracer.loops.iterables import same_objects
from ...tracer.loops.python_ints import is_python_int
from ...tracer.record.made_arrays import MadeArray, all_made, refuse_write
from ...tracer.record.recorder import Recorder
from ...tracer.record.shown_text import TextOfValues
from ...tracer.rules.host_code import HostCode
from ..state.libraries import is_moment, leaf_setting
from ..state.pins import MISSING
from ..state.set_order import hashes_here
from ..state.state_graph import StateNode
from .attributes import found_in, load
from .kinds import PLAIN, is_held, is_named_tuple
from .machine_code import call_jitted
from .reads import CONTAINERS, ReadLog, is_wrapper
from .writing import Writing, like

_INERT = frozenset((
    "__init__", "__new__", "__post_init__", "__module__", "__doc__", "__qualname__", "__dict__", "__weakref__",
    "__annotations__", "__repr__", "__str__", "__call__", "__init_subclass__", "__slots__", "__match_args__",
    "__dataclass_fields__", "__dataclass_params__", "__firstlineno__", "__static_attributes__", "__annotate_func__",
    "__annotations_cache__", "__replace__", "__orig_bases__", "__parameters__", "__abstractmethods__",
    "__class_getitem__", "__getnewargs__",
))  # fmt: skip

_CHANGEABLE = frozenset(CONTAINERS) - {tuple, frozenset}


_MAY_BE_MADE = (np.ndarray, list, tuple)
_OURS, _TREES = "tracegrad.", "tracegrad.tree"
_OF_EVENTS = ("terminal", "direction")  # attributes of a function that SciPy reads
_HASHES = ("hash", "__hash__")


class Handing(Writing):
    """The part of a run that hands values to libraries."""

    def __init__(self, reads: ReadLog, recorder: Recorder) -> None:
        super().__init__(reads, recorder)
        self._rewrapped: dict[int, tuple[Any, Any]] = {}  # id of a function of ours -> (it, the one over the copy)
        self._copies: list[tuple[Any, Any]] = []  # that code in C has been given, with what was in them
        self._first: Any = None  # what that function is given first, which is what it calls
        self._callee = ""  # the module of the function that is given something

    def handed(self, value: Any, callbacks: bool, depth: int = 0) -> Any:
        """*value* for code that is not seen: containers from outside as copies of all that they hold, which is read;
        functions of the user's as their copies, where *callbacks* may be handed over."""
        kind = type(value)
        if kind in PLAIN:
            if kind is str and is_moment(value):
                raise self.refuse("a text that is a clock to NumPy")
            return value
        if kind is TextOfValues:
            raise self.refuse("a text that is made of values")
        if depth > 50:
            raise self.refuse("a structure that is nested deeply")
        if kind in CONTAINERS:
            return self._container(value, kind, callbacks, depth)
        if kind is types.FunctionType:
            if self.reads.trust.owns(value) and not self.holds_users(value):
                return value
            if not callbacks:
                raise self.refuse("a function that is handed to a library")
            return self._callback(value)
        if kind is types.MethodType:
            if self.reads.trust.cls(type(value.__self__)) and self.reads.node_of(value.__self__) is None:
                return value
            if not callbacks or type(value.__func__) is not types.FunctionType:
                raise self.refuse("a method that is handed to a library")
            return types.MethodType(self._callback(value.__func__), value.__self__)
        if isinstance(value, type):
            if self.reads.library(value) or issubclass(value, BaseException):
                return value
            if not (callbacks and hasattr(value, "_tracegrad_helpers")):
                raise self.refuse("a class that is handed to a library")
            return self._over_copies(value)
        if is_wrapper(value):
            if not callbacks:
                raise self.refuse("a function that is handed to a library")
            return self.rewrapped(value)
        if kind is types.BuiltinFunctionType or kind is types.MethodWrapperType:
            return self._bound_in_c(value, callbacks)
        if is_named_tuple(kind):
            return self._named(value, callbacks, depth)
        if (source := python_of(value)) is not None:
            if not callbacks:
                raise self.refuse("a function that is handed to a library")
            call = functools.partial(call_jitted, self, value, source)
            return functools.update_wrapper(lambda *args, **kwargs: call(args, kwargs), value)
        if kind is functools.partial:
            return self._partial(value, callbacks, depth)
        node = self.reads.node_of(value)
        if node is not None and (node.kind == "known" or node.fixed):  # all of which is read
            return value
        if node is not None and self._passes_on(kind, depth):
            return self._called(value) if value is self._first and callable(value) else value
        if node is not None and not self.reads.library(kind) and self.inherits(kind):
            return self.twin_of(node)
        if node is not None:
            raise self.refuse(f"an object from outside, of the class {kind.__qualname__}, that is handed to a library")
        if self.reads.library(kind):
            if (setting := leaf_setting(value)) is not None:
                self.reads.depends(setting)
            if hasattr(kind, "__next__"):
                return self._checked_items(value)
        elif self._callee.startswith(_OURS) and node_functions(kind):  # a tree
            if callable(value) and self._callee != _TREES:
                return self._called(value) if value is self._first else self._refuse_object(kind)
            return self._tree(value, callbacks, depth)
        elif isinstance(value, np.ndarray) or not self.inert(kind) or callable(value):
            self._refuse_object(kind)
        self._check_parts(value, kind, depth)
        return value

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

    def inherits(self, kind: type) -> bool:
        """Whether a class of the user's has a base of a library's."""
        raise NotImplementedError

    def twin_of(self, node: StateNode) -> Any:
        """What stands for such an object."""
        raise NotImplementedError

    def _callback(self, fn: types.FunctionType) -> Any:
        """The copy of a function of the user's, for a library that calls it, and may look at attributes of it."""
        node = self.reads.node_of(fn)
        for name in _OF_EVENTS if node is not None and self._callee.startswith("scipy") else ():
            assert node is not None
            if self.written(fn, name) is not MISSING:
                raise self.refuse(f"a function whose `.{name}` the run has changed, which is handed to a library")
            if name in fn.__dict__:  # which the library gets as it is
                label = f"{node.label}.{name}"
                self.reads.also(node, "attr", name, name, *self.reads.visit(fn.__dict__[name], label))
            else:
                self.reads.read(node, "noattr", name, None, f"{node.label}.{name}")
        return self.copy_of(fn, handed=True)

    def _passes_on(self, kind: type, depth: int) -> bool:
        """Whether the code that runs looks at no object of the class *kind*, the user's: functions of ours (but for
        those of trees, of which the class may become a node), and those of SciPy at what is in their ``args``."""
        no_function = found_in(kind, "__call__")[0] is None
        known = depth > 0 and self._callee.startswith("scipy.") and no_function
        known |= self._callee.startswith(_OURS) and self._callee != _TREES
        return known and not self.reads.library(kind) and self.inert(kind) and not node_functions(kind)

    def _called(self, value: Any) -> Any:
        """An object of the user's that stands for a function: the method that is called."""
        base, raw = found_in(type(value), "__call__")
        if base is None or type(raw) is not types.FunctionType:
            raise self.refuse(f"a call of an object of the class {type(value).__qualname__}")
        self.reads.read_class(base, "__call__", raw)
        return types.MethodType(self.copy_of(raw, handed=True), value)

    def _named(self, value: Any, callbacks: bool, depth: int) -> Any:
        """A named tuple, whose class has no way of its own to give its fields."""
        if not (self.reads.library(type(value)) or self.inert(type(value))):
            self._refuse_object(type(value))
        node, parts = self.reads.node_of(value), tuple.__iter__(value)
        if node is not None:
            parts = iter([self.part(node, "item", k, part) for k, part in enumerate(parts)])
        found = [self.handed(part, callbacks, depth + 1) for part in parts]
        same = all(map(operator.is_, found, tuple.__iter__(value)))
        return value if same else tuple.__new__(type(value), found)

    def _partial(self, value: functools.partial[Any], callbacks: bool, depth: int) -> Any:
        if not callbacks:
            raise self.refuse("a partial that is handed to a library")
        parts, node = (value.func, value.args, value.keywords), self.reads.node_of(value)
        if node is not None:
            names = "func", "args", "keywords"
            parts = tuple([self.reads.read(node, "const", n, x, n) for n, x in zip(names, parts, strict=True)])
        function, args, keywords = [self.handed(part, True, depth + 1) for part in parts]
        return functools.partial(function, *args, **keywords)

    def is_ours(self, f: types.FunctionType) -> bool:
        """Whether *f* is a function of ours over functions of the user's (``checkpoint(f)``)."""
        ours = str(f.__globals__.get("__name__")).startswith(_OURS) and self.reads.trust.owns(f)
        return ours and (id(f) in self._rewrapped or self.holds_users(f))

    def rewrapped(self, value: Any) -> Any:
        """A function of ours over another one, as the same one over its copy."""
        known = self._rewrapped.get(id(value))
        if known is None and type(value) is types.FunctionType:
            return self._with_cells(value)
        if known is None:
            inner = value.__wrapped__
            node = self.reads.node_of(value)
            if node is not None:
                inner = self.reads.read(node, "const", "__wrapped__", inner, node.label)
            known = self._rewrapped[id(value)] = value, value._tracegrad_rebuild(self.handed(inner, True))
        return known[1]

    def _over_copies(self, cls: Any) -> Any:
        """A class of the user's, for code of ours that calls methods of it: what has the copies of these methods."""
        known = self._rewrapped.get(id(cls))
        if known is None:
            methods = {name: self.handed(load(self, cls, name), True) for name in cls._tracegrad_helpers}
            known = self._rewrapped[id(cls)] = cls, types.SimpleNamespace(__name__=cls.__name__, **methods)
        return known[1]

    def _with_cells(self, f: types.FunctionType) -> types.FunctionType:
        node, cells = self.reads.node_of(f), [types.CellType() for _ in f.__closure__ or ()]
        made = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, tuple(cells))
        made.__kwdefaults__, made.__qualname__, made.__module__ = f.__kwdefaults__, f.__qualname__, f.__module__
        made.__dict__.update(f.__dict__)
        self._rewrapped[id(f)], self._rewrapped[id(made)] = (f, made), (made, made)
        before, self._copies = self._copies, []  # ours keeps what it closes over, and does not change it
        for name, cell, own in zip(f.__code__.co_freevars, f.__closure__ or (), cells, strict=True):
            value = cell.cell_contents
            if node is not None:
                value = self.reads.read(node, "cell", cell, value, f"closure {name}")
            own.cell_contents = self.handed(value, True)
        self._copies = before
        return made

    def _checked_items(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """The items of an iterator, for code that is not seen: nothing that is read there."""
        for value in iterator:
            if self.handed(value, False) is not value:
                raise self.refuse("an iterator over containers from outside that is handed to a library")
            yield value

    def _check_parts(self, obj: Any, kind: type, depth: int) -> None:
        """An error where an object that the run has made holds a container from outside."""
        parts = list((dict_of(obj) or {}).values())
        for base in kind.__mro__ if not self.reads.trust.cls(kind) else ():
            slots = [raw for raw in vars(base).values() if type(raw) is types.MemberDescriptorType]
            parts += [getattr(obj, raw.__name__) for raw in slots if hasattr(obj, raw.__name__)]
        for value in parts:
            known = type(value) in CONTAINERS or is_named_tuple(type(value))
            if known and self.handed(value, True, depth + 1) is not value:
                raise self.refuse("an object with a container from outside that is handed to a library")

    def _bound_in_c(self, method: Any, callbacks: bool) -> Any:
        """A function in C; a method of an object only where it may be called back."""
        owner = method.__self__
        if isinstance(owner, types.ModuleType | type | None) or type(owner) in PLAIN:
            return method
        if not callbacks:
            raise self.refuse("a method that is handed to a library")
        return lambda *args, **kwargs: self.call(method, *args, **kwargs)

    def _container(self, value: Any, kind: Any, callbacks: bool, depth: int) -> Any:
        node = self.reads.node_of(value)
        self.looked_at(value)
        if node is not None and (now := self.current(value)) is not value:
            found = self._container(now, kind, callbacks, depth)
            return self._copied(now.copy()) if found is now else found
        if kind in (dict,) or issubclass(kind, dict):
            parts = {
                self.handed(key, callbacks, depth + 1): self.handed(
                    item if node is None else self.part(node, "key", key, item), callbacks, depth + 1
                )
                for key, item in value.items()
            }
            if node is None and all(parts[key] is value[key] for key in value):
                return value
            return self._copied(self._like(value, parts))
        if kind in (set, frozenset):
            self.in_order(value)
            for item in value:
                self.handed(item, callbacks, depth + 1)
            same_kind: Any = kind
            return value if node is None else self._copied(same_kind(value))
        found = [
            self.handed(item if node is None else self.part(node, "item", k, item), callbacks, depth + 1)
            for k, item in enumerate(value)
        ]
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
        around, self._callee, self._first = (self._callee, self._first), _module_of(f), args[0] if args else None
        watched = bool(self.loops or self.recorder.arms)
        pictures = _pictures((getattr(f, "__self__", None), *args, *kwargs.values())) if watched else ()
        asked = getattr(f, "__name__", "")
        if asked in _HASHES and hashes_here(args if asked == "hash" else (*args, getattr(f, "__self__", 0))):
            self.reads.here = "it asks for a hash, which is another one in each process"
        try:
            result = f(
                *[self.handed(x, callbacks) for x in args], **{k: self.handed(x, callbacks) for k, x in kwargs.items()}
            )
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
            self._copies, (self._callee, self._first) = before, around
        if type(result) in _MAY_BE_MADE:
            result = all_made(result, user_frame())
        return self.made(result) if watched and type(result) not in PLAIN else result

    def array_changed(self, array: np.ndarray) -> None:
        """A plain array of the run's own is changed: in an iteration that stands for others, or in one arm of two."""
        if self.recorder.arms:
            refuse_write(array, "z[...] = t, in an arm of an `if` on a traced value,")
        if self.loops:
            self.loops[-1].refuse_seen("an array is changed")

    def inert(self, kind: type) -> bool:
        """Whether code that is handed an object of the user's class *kind* runs none of its methods unasked."""
        for base in kind.__mro__:
            if self.reads.trust.cls(base):
                continue
            special = {n for n in vars(base) if n.startswith("__") and n.endswith("__")}
            if not special <= _INERT:
                return False
        return True

    def holds_users(self, f: types.FunctionType) -> bool:
        """Whether a library's function is a wrapper around something of the user's."""
        return any(self._is_around(cell, {id(f)}) for cell in f.__closure__ or ())

    def _is_around(self, value: Any, seen: set[int]) -> bool:
        """Whether something of the user's is *value*, or in it.  *seen*: ids of what was looked at."""
        if type(value) is types.CellType:
            try:
                value = value.cell_contents
            except ValueError:
                return True
        kind, seen_before = type(value), id(value) in seen
        seen.add(id(value))
        if seen_before or isinstance(value, type) or "cython_function" in kind.__name__:
            return False
        if kind is types.MethodType:
            return self._is_around(value.__func__, seen)
        if kind is types.FunctionType:
            within = value.__closure__ or ()
            return not self.reads.trust.owns(value) or any(self._is_around(cell, seen) for cell in within)
        if kind in (list, dict) or issubclass(kind, tuple):  # of rules
            return any(self._is_around(x, seen) for x in (value.values() if kind is dict else value))
        return kind is HostCode or not self.reads.trust.cls(kind)


def _module_of(f: Any) -> str:
    """The module of a function that is none of ours over another one."""
    if is_wrapper(f) or is_wrapper(getattr(f, "__self__", None)):
        return ""
    module = f.__globals__.get("__name__") if type(f) is types.FunctionType else getattr(f, "__module__", "")
    return str(module)


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
