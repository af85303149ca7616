"""The object that converted code goes through (``tracer/convert``): it does what Python does, and logs what is read.

``Run`` belongs to one recorded run, ``Frame`` to one function in it.  Objects that the run has found outside are known
by identity (``Reads.node_of``); everything else it has made itself, and needs no entry.  Whatever is done that this
log does not hold raises ``NotClosedError``.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...tracer.bytecode.method_calls import PLAIN_METHODS
from ...tracer.bytecode.records import dict_of
from ...tracer.convert.copies import Copy, convert
from ...tracer.convert.transparent import Begun, Transparent
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.loops.for_loop import begin
from ...tracer.loops.items import item as item_of
from ...tracer.loops.items import length, set_item
from ...tracer.loops.while_loop import begin_while
from ...tracer.record.array import STAND_INS, TracedArray, is_traced
from ...tracer.record.integers import TracedInt
from ...tracer.record.made_arrays import MadeArray
from ...tracer.record.recorder import Recorder, current_recorder
from ...tracer.record.retry import Retry
from ..state.kept_list import LENGTH
from ..state.libraries import is_moment
from ..state.pins import MISSING
from ..state.state_graph import StateNode
from ..state.values import is_leaf
from .attributes import found_in, load
from .callees import (
    C_FUNCTIONS,
    PURE_METHODS,
    SINGLES,
    check_pure,
    is_refused,
    loses_traces,
    own_answer,
    takes_callbacks,
)
from .reads import CONTAINERS, NotClosedError, Reads, not_closed
from .writes import Items, Keys, Names, Varies

_TRACED = (TracedArray, TracedInt, MadeArray, *STAND_INS)
#: classes whose operators run no code of the user's, and read nothing but the operands
_PLAIN = {
    *_TRACED, int, float, complex, bool, str, bytes, type(None), np.ndarray, range, slice, type(Ellipsis), np.dtype,
    *{kind for kind in np.sctypeDict.values() if kind is not np.object_},
}  # fmt: skip
_BUILT = {list, tuple, dict, set, frozenset}
_INERT = frozenset((
    "__init__", "__new__", "__post_init__", "__module__", "__doc__", "__qualname__", "__dict__", "__weakref__",
    "__annotations__", "__repr__", "__str__", "__call__", "__init_subclass__", "__slots__", "__match_args__",
    "__dataclass_fields__", "__dataclass_params__", "__firstlineno__", "__static_attributes__", "__annotate_func__",
    "__annotations_cache__", "__replace__", "__orig_bases__", "__parameters__", "__abstractmethods__", "__class_getitem__",
))  # fmt: skip
_HOLD_ONLY = {*CONTAINERS, int, bool}  # whose operators ask nothing of what they hold, but for comparisons
_MAKES_NEW = frozenset(("__add__", "__mul__", "__or__", "__and__", "__sub__", "__xor__"))
_GENERATED = "<string>"  # the file of code that dataclasses and named tuples make


def _anywhere() -> None:
    """No function of the user's."""


class Run:
    """One run of converted code, whose reads are *reads*."""

    def __init__(self, reads: Reads, recorder: Recorder) -> None:
        self.reads = reads
        self.loops = recorder.open_loops  # iterations over symbols that are under way
        self.recorder = recorder
        self.spaces: dict[int, dict[str, Any]] = {}  # id of the globals of a module -> names that are known
        self.frame = Frame(self, _anywhere, None)
        self._functions: dict[int, tuple[Any, Any]] = {}  # id of a function -> (it, its copy)
        self._twins: dict[int, Any] = {}  # id of a copy -> the user's function
        self.refused: NotClosedError | None = None
        self.writes: dict[int, Names | Keys | Items] = {}  # what the run has written outside, by id of the owner
        self.touched: set[int] = set()  # ids of containers outside that the run has read
        self._copies: list[tuple[Any, Any]] = []  # that code in C has been given, with what was in them
        self.shown: dict[int, Any] = {}  # id of a list or dict outside -> what iterations over it go over
        self.keys: dict[int, dict[Any, Any]] = {}  # id of a dict outside -> its keys, as iterations go over them

    # ---- writes

    def written(self, owner: Any, name: str) -> Any:
        """What the run has written there; MISSING where it has not."""
        found = self.writes.get(id(owner)) if self.writes else None
        return MISSING if found is None else found.values.get(name, MISSING)  # type: ignore[union-attr]

    def write_name(self, owner: Any, name: str, value: Any, label: str, read: bool) -> None:
        """Write an attribute, a global or an outer variable; *read*: it was read as a plain number."""
        if read and label not in self.reads.varying and _is_number(value):
            raise self.again(Varies(label))
        found = self.writes.setdefault(id(owner), Names(owner))
        assert isinstance(found, Names)
        if self.loops:
            self.loops[-1].wrote(found.values, name)
        found.values[name] = value

    def again(self, error: Retry) -> Retry:
        """End the run, which is made again, whatever becomes of *error* in the function."""
        recorder = current_recorder()
        if recorder is not None and recorder.needed is None:
            recorder.needed = error
        return error

    def current(self, obj: Any) -> Any:
        """A container outside as the run has it: itself where nothing was written into it."""
        node = self.reads.node_of(obj)
        if node is None:
            return obj
        self.touched.add(id(obj))
        found = self.writes.get(id(obj)) if self.writes else None
        if found is None:
            return obj
        assert isinstance(found, Keys | Items)
        return found.read(lambda: self._contents(obj, node))

    def _contents(self, obj: Any, node: StateNode) -> Any:
        """What is in a list or dict outside before the run writes there: one object, which its writes change, so that
        iterations and views that are under way see them."""
        if id(obj) not in self.shown:
            if isinstance(obj, dict):
                made: Any = {key: self.part(node, "key", key, item) for key, item in obj.items()}
            else:
                made = [self.part(node, "item", k, item) for k, item in enumerate(obj)]
            self.shown[id(obj)] = made if type(obj) is not deque else deque(made, obj.maxlen)
        return self.shown[id(obj)]

    def _keys_of(self, obj: Any) -> Any:
        """The keys of a dict outside, to be iterated over."""
        return self.keys.setdefault(id(obj), dict.fromkeys(obj))

    def _parts(self, obj: Any) -> Any:
        """The contents of a container outside as the run has them: a copy."""
        now = self.current(obj)
        node = self.reads.node_of(obj)
        if now is not obj:
            return now.copy()
        if isinstance(obj, dict):
            return {key: self.part(node, "key", key, item) for key, item in obj.items()}
        return [self.part(node, "item", k, item) for k, item in enumerate(obj)]

    def shallow(self, obj: Any) -> Any:
        """A container outside as a new one with what is in it; anything else as it is."""
        kind, node = type(obj), self.reads.node_of(obj)
        if kind not in CONTAINERS or node is None:
            return obj
        if kind in (set, frozenset):
            return kind(obj)
        now = self._contents(obj, node) if (now := self.current(obj)) is obj else now
        return deque(now, obj.maxlen) if kind is deque else kind(now)

    def write_global(self, space: dict[str, Any], name: str, value: Any) -> None:
        """Write a global variable of a module."""
        owner = self.reads.root
        assert owner is not None
        read = type(self.spaces.get(id(space), {}).get(name)) in (int, float) and self.written(space, name) is MISSING
        self.write_name(space, name, value, f"global {name}", read)
        self.spaces.setdefault(id(space), {})[name] = value

    def untouched(self) -> set[int]:
        """The ids of the containers outside that the run has only written to, or asked for their lengths; an error
        where such a length is to be a number of the run."""
        only = {key for key, entry in self.writes.items() if not isinstance(entry, Names) and key not in self.touched}
        for key in only:
            node = self.reads.node_of(self.writes[key].owner)
            if node is not None and self.reads.was_read(node, LENGTH, LENGTH):
                raise self.again(Varies(f"len({node.label})"))
        return only

    def check_ways(self) -> None:
        """An error where a place was written that is reached by its name and by a dict of names, too."""
        if not self.writes:
            return
        stores = self.reads.stores()
        for key, entry in self.writes.items():
            if isinstance(entry, Keys) and key in stores:
                raise self.refuse("an assignment in a dict that has the names of an object")
            store = dict_of(entry.owner) if isinstance(entry, Names) and type(entry.owner) is not dict else entry.owner
            if isinstance(entry, Names) and self.reads.node_of(store) is not None:
                raise self.refuse("an assignment of an attribute, which is found in a dict, too")

    def outside(self) -> set[int]:
        """The ids of the objects that the run has found outside."""
        return self.reads.ids()

    def append(self, obj: Any, value: Any) -> None:
        """Append to a list outside."""
        found = self.writes.setdefault(id(obj), Items(obj))
        assert isinstance(found, Items)
        if id(obj) in self.shown:  # it may be iterated over
            self.current(obj)
            self.changes(obj)
        target = found.tail if found.whole is None else found.whole
        if not (self.loops and type(target) is list and self.loops[-1].appended(target, value)):
            self.changes(target)
            target.append(value)

    def set_key(self, obj: Any, key: Any, value: Any) -> None:
        """Set an item of a dict outside."""
        node = self.reads.node_of(obj)
        if not is_leaf(key) or type(obj) is not dict:
            raise self.refuse("an assignment of an item of a dict with keys that are objects")
        found = self.writes.setdefault(id(obj), Keys(obj))
        assert isinstance(found, Keys)
        label = f"{node.label}[{key!r}]" if node is not None else ""
        read = node is not None and self.reads.was_read(node, "key", key)
        if read and label not in self.reads.varying and _is_number(value):
            raise self.again(Varies(label))
        if id(obj) in self.shown:
            self.current(obj)
        if id(obj) in self.keys:
            self.keys[id(obj)][key] = None
        target = found.values if found.whole is None else found.whole
        if self.loops:
            self.loops[-1].wrote(target, key)
        target[key] = value

    def changes(self, obj: Any) -> None:
        """A container is changed in a way that is no carry of a loop."""
        if self.loops and not all(id(obj) in loop.made for loop in self.loops):
            self.loops[-1].refuse_seen("a container is changed")

    def made(self, obj: Any) -> Any:
        """*obj* was made by the run."""
        if self.loops:
            self.loops[-1].made_here(obj)
        return obj

    def looked_at(self, obj: Any) -> None:
        """A list of the run's is read."""
        if self.loops and type(obj) is list:
            self.loops[-1].reads(obj)

    def whole_list(self, obj: Any) -> Any:
        """A list outside, to be changed in any way: as the run has it."""
        self.writes.setdefault(id(obj), Items(obj))
        if self.loops:
            self.loops[-1].refuse_seen("a list outside is changed")
        return self.current(obj)

    def whole_dict(self, obj: Any) -> Any:
        """A dict outside, to be changed in any way."""
        self.writes.setdefault(id(obj), Keys(obj))
        if self.loops:
            self.loops[-1].refuse_seen("a dict outside is changed")
        if id(obj) in self.keys:
            keys = [(self.keys.pop(id(obj)), ())]
            if _is_held(keys):
                raise self.refuse("a dict outside that is changed while its keys are iterated over")
        return self.current(obj)

    # ---- functions

    def copy_of(self, fn: types.FunctionType) -> Any:
        """The converted copy of a function of the user's."""
        known = self._functions.get(id(fn))
        if known is not None:
            return known[1]
        if id(fn) in self._twins:
            return fn
        copy = convert(fn.__code__)
        if not isinstance(copy, Copy):
            raise self.refuse(f"`{fn.__qualname__}`: {copy.reason}")
        node = self.reads.node_of(fn)
        made = copy.function_of(fn, Frame(self, fn, node, copy.loops))
        if node is not None:
            made.__defaults__ = self._defaults(node, fn)
            if fn.__kwdefaults__ and not node.extra:
                known = self.reads.read(node, "attr", "__kwdefaults__", fn.__kwdefaults__, "default")
                of = self.reads.node_of(known)
                assert of is not None
                made.__kwdefaults__ = {name: self.part(of, "key", name, value) for name, value in known.items()}
        self._functions[id(fn)] = fn, made
        self._twins[id(made)] = fn
        return made

    def _defaults(self, node: StateNode, fn: types.FunctionType) -> Any:
        values = fn.__defaults__
        if not values:
            return values
        names = fn.__code__.co_varnames[: fn.__code__.co_argcount][-len(values) :]
        return tuple([self._default(node, name, value) for name, value in zip(names, values, strict=True)])

    def _default(self, node: StateNode, name: str, value: Any) -> Any:
        if is_leaf(value):
            return value  # of a tuple that is compared by identity
        return self.reads.read(node, "const", name, value, f"default {name}")

    def refuse(self, what: str) -> NotClosedError:
        """The error for something that is not closed, whatever becomes of it in the function."""
        self.refused = not_closed(what)
        return self.refused

    def seen(self, value: Any, label: str) -> Any:
        """What the run gets for *value*, which stands outside in a place that can't change."""
        assert self.reads.root is not None
        return self.reads.read(self.reads.root, "const", label, value, label, (label, id(value)))

    # ---- what is handed to code that is not converted

    def handed(self, value: Any, callbacks: bool, depth: int = 0) -> Any:
        """*value* for code that is not seen: containers from outside as copies of all that they hold, which is read;
        functions of the user's as their copies, where *callbacks* may be handed over."""
        kind = type(value)
        if kind in _PLAIN:
            if kind is str and is_moment(value):
                raise self.refuse("a text that is a clock to NumPy")
            return value
        if depth > 50:
            raise self.refuse("a structure that is nested deeply")
        if kind in CONTAINERS:
            return self._container(value, kind, callbacks, depth)
        if kind is types.FunctionType:
            if self.reads.trust.owns(value) and not self._holds_users(value):
                return value
            if not callbacks:
                raise self.refuse("a function that is handed to a library")
            return self.copy_of(value)
        if kind is types.MethodType:
            if self.reads.trust.cls(type(value.__self__)) and self.reads.node_of(value.__self__) is None:
                return value
            if not callbacks or type(value.__func__) is not types.FunctionType:
                raise self.refuse("a method that is handed to a library")
            return types.MethodType(self.copy_of(value.__func__), value.__self__)
        if isinstance(value, type):
            if not self.reads.trust.cls(value) and not issubclass(value, BaseException):
                raise self.refuse("a class that is handed to a library")
            return value
        if kind is types.BuiltinFunctionType or kind is types.MethodWrapperType:
            return self._bound_in_c(value, callbacks)
        if self.reads.node_of(value) is not None:
            raise self.refuse(f"an object from outside, of the class {kind.__qualname__}, that is handed to a library")
        if self.reads.trust.cls(kind):
            if kind is functools.partial:
                raise self.refuse("a partial that is handed to a library")
            if hasattr(kind, "__next__"):
                return self._checked_items(value)
        elif isinstance(value, np.ndarray) or not self.inert(kind):
            raise self.refuse(f"an object of the class {kind.__qualname__} that is handed to a library")
        self._check_parts(value, kind, depth)
        return value

    def _checked_items(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """What an iterator gives to code that is not seen: nothing that is read there."""
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
            if self.handed(value, True, depth + 1) is not value and type(value) in CONTAINERS:
                raise self.refuse("an object with a container from outside that is handed to a library")

    def _bound_in_c(self, method: Any, callbacks: bool) -> Any:
        """A function in C; a method of an object only where it may be called back."""
        owner = method.__self__
        if isinstance(owner, types.ModuleType | type | None) or type(owner) in _PLAIN:
            return method
        if not callbacks:
            raise self.refuse("a method that is handed to a library")
        return lambda *args, **kwargs: self.call(method, *args, **kwargs)

    def _container(self, value: Any, kind: type, callbacks: bool, depth: int) -> Any:
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
            return self._copied(parts if kind is dict else kind(parts))
        if kind in (set, frozenset):
            for item in value:
                self.handed(item, callbacks, depth + 1)
            return value if node is None else self._copied(kind(value))
        found = [
            self.handed(item if node is None else self.part(node, "item", k, item), callbacks, depth + 1)
            for k, item in enumerate(value)
        ]
        if node is None and all(map(operator.is_, found, value)):
            return value
        return tuple(found) if kind is tuple else self._copied(kind(found))

    def _copied(self, made: Any) -> Any:
        self._copies.append((made, tuple(made.items()) if isinstance(made, dict) else tuple(made)))
        return made

    def _handing(self, f: Any, args: Any, kwargs: Any, callbacks: bool) -> Any:
        """What code in C, or a library's, gives for what it is handed; it must not change the copies of containers from
        outside that it gets, nor keep them."""
        before, self._copies = self._copies, []
        try:
            result = f(*[self.handed(x, callbacks) for x in args], **{k: self.handed(x, callbacks) for k, x in kwargs.items()})
            while self._copies:
                made, was = self._copies[-1]
                now = tuple(made.items()) if isinstance(made, dict) else tuple(made)
                same = made is not result and len(now) == len(was) and all(map(_alike, now, was))
                del made, was, now
                if not same or _is_held(self._copies):
                    raise self.refuse("code in C that changes, or hands out, a container from outside")
        finally:
            self._copies = before
        return self.made(result) if self.loops and type(result) not in _PLAIN else result

    def part(self, node: StateNode, how: str, key: Any, value: Any) -> Any:
        """What the run gets for an item of a container outside."""
        return self.reads.read(node, how, key, value, f"{node.label}[{key!r}]")

    def inert(self, kind: type) -> bool:
        """Whether code that is handed an object of the user's class *kind* runs none of its methods unasked."""
        for base in kind.__mro__:
            if self.reads.trust.cls(base):
                continue
            special = {n for n in vars(base) if n.startswith("__") and n.endswith("__")}
            if not special <= _INERT:
                return False
        return True

    # ---- calls

    def call(self, f: Any, *args: Any, **kwargs: Any) -> Any:
        """``f(*args, **kwargs)``."""
        kind = type(f)
        if kind is types.FunctionType:
            return self._call_function(f, args, kwargs)
        if kind is types.MethodType:
            return self.call(f.__func__, f.__self__, *args, **kwargs)
        handler = _HANDLERS.get(id(f))
        if handler is not None:
            return handler(self, *args, **kwargs)
        if kind in C_FUNCTIONS:
            return self._call_c(f, args, kwargs)
        if isinstance(f, type):
            return self._call_class(f, args, kwargs)
        if kind is functools.partial:
            if self.reads.node_of(f) is not None:
                raise self.refuse("a partial from outside")
            return self.call(f.func, *f.args, *args, **{**f.keywords, **kwargs})
        if self.reads.trust.cls(kind):
            return self._call_library_object(f, kind, args, kwargs)
        base, raw = found_in(kind, "__call__")
        if base is None or type(raw) is not types.FunctionType:
            raise self.refuse(f"a call of an object of the class {kind.__qualname__}")
        self.reads.read_class(base, "__call__", raw)
        return self.call(raw, f, *args, **kwargs)

    def _call_function(self, f: types.FunctionType, args: Any, kwargs: Any) -> Any:
        if id(f) in self._twins:
            return f(*args, **kwargs)
        if is_refused(f):
            raise self.refuse(f"{f.__module__}.{f.__name__}()")
        ours = own_answer(f)
        if ours is not None:
            return self._call_own(ours, f, args, kwargs)
        if self.reads.trust.owns(f) and not self._holds_users(f):
            check_pure(f, self.reads.trust, self.reads.depends)
            return self._natively(f, args, kwargs, takes_callbacks(f))
        if f.__code__.co_filename == _GENERATED:
            return self._call_generated(f, args, kwargs)
        return self.copy_of(f)(*args, **kwargs)

    def _holds_users(self, f: types.FunctionType) -> bool:
        """Whether a library's function is a wrapper around something of the user's."""
        for cell in f.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                return True
            inner = value.__func__ if type(value) is types.MethodType else value
            if type(inner) is types.FunctionType and not (inner is f or self.reads.trust.owns(inner)):
                return True
            if not isinstance(inner, type) and not self.reads.trust.cls(type(inner)):
                return True
        return False

    def _call_own(self, ours: Any, f: Any, args: Any, kwargs: Any) -> Any:
        callbacks = takes_callbacks(f)
        if not kwargs and all(type(x) in _PLAIN and type(x) is not str for x in args):
            return ours(*args)
        return self._handing(ours, args, kwargs, callbacks)

    def _natively(self, f: Any, args: Any, kwargs: Any, callbacks: bool) -> Any:
        with_texts = id(f) in _TEXT_MAKERS
        if with_texts and not self._texts(args, kwargs):
            raise self.refuse("a text that is made of values")
        return self._handing(f, args, kwargs, callbacks)

    def _call_generated(self, f: types.FunctionType, args: Any, kwargs: Any) -> Any:
        """Code that dataclasses or named tuples have made of the names of fields."""
        owner = type(args[0]) if args and f.__name__ != "__new__" else args[0] if args else None
        fields = getattr(owner, "__dataclass_fields__", None)
        if f.__name__ == "__init__" and fields is not None:
            factories = [field.default_factory for field in fields.values()]
            plain = all(not callable(x) or x in (list, dict, set, tuple) for x in factories if x is not _NO_FACTORY)
            if plain and found_in(owner, "__post_init__")[0] is None and self.reads.node_of(args[0]) is None:
                return f(*args, **kwargs)
        if f.__name__ == "__new__" and hasattr(owner, "_fields"):
            return f(*args, **kwargs)
        raise self.refuse(f"{f.__qualname__}, which has no source")

    def _call_c(self, f: Any, args: Any, kwargs: Any) -> Any:
        owner = getattr(f, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType | type):
            return self._call_bound(f, owner, args, kwargs)
        if is_refused(f):
            raise self.refuse(f"{f.__name__}()")
        ours = own_answer(f)
        if ours is not None:
            return self._call_own(ours, f, args, kwargs)
        check_pure(f, self.reads.trust, self.reads.depends)
        if isinstance(f, types.MethodDescriptorType | types.WrapperDescriptorType) and args:
            foreign = self.reads.node_of(args[0]) is not None
            if foreign and f.__name__ not in PURE_METHODS.get(type(args[0]), ()):
                raise self.refuse(f"{f.__name__}() of an object from outside")
        elif loses_traces(f) and is_traced([*args, *kwargs.values()]):
            raise self.refuse(f"{f.__name__}(), which takes plain numbers")
        return self._natively(f, args, kwargs, takes_callbacks(f))

    def _call_bound(self, f: Any, owner: Any, args: Any, kwargs: Any) -> Any:
        """A method in C of an object."""
        if type(owner) in _PLAIN or type(owner) in CONTAINERS:
            return self.call_method(owner, f.__name__, *args, **kwargs)
        if self.reads.node_of(owner) is not None:
            raise self.refuse(f"{f.__name__}() of an object from outside")
        check_pure(f, self.reads.trust, self.reads.depends)
        ours = getattr(own_answer(owner), f.__name__, None)  # np.add.at
        if ours is not None:
            return self._call_own(ours, f, args, kwargs)
        self.changes(owner)
        return self._natively(f, args, kwargs, False)

    def _call_library_object(self, f: Any, kind: type, args: Any, kwargs: Any) -> Any:
        """An object of a library's class that can be called: NumPy's functions, Cython's."""
        if kind in SINGLES:
            raise self.refuse(f"a {kind.__name__} object")
        top = kind.__module__.partition(".")[0]
        if top in ("numpy", "scipy") or "cython_function" in kind.__name__:
            ours = own_answer(f)
            if ours is not None:
                return self._call_own(ours, f, args, kwargs)
            check_pure(f, self.reads.trust, self.reads.depends)
            return self._natively(f, args, kwargs, False)
        raise self.refuse(f"a call of an object of the class {kind.__qualname__}")

    def _call_class(self, cls: Any, args: Any, kwargs: Any) -> Any:
        reads = self.reads
        if found_in(cls, "__del__")[0] is not None:
            raise self.refuse(f"an object of the class {cls.__qualname__}, which has a `__del__`")
        if reads.trust.cls(cls):
            ours = own_answer(cls)
            if ours is not None:
                return self._call_own(ours, cls, args, kwargs)
            check_pure(cls, reads.trust, reads.depends)
            return self._natively(cls, args, kwargs, takes_callbacks(cls))
        if type(cls).__call__ is not type.__call__:
            raise self.refuse(f"the class {cls.__qualname__}, whose metaclass makes its objects")
        reads.pin(cls)
        base, new = found_in(cls, "__new__")
        start, init = found_in(cls, "__init__")
        if base is object:
            made = self.made(object.__new__(cls) if start is not object else cls(*args, **kwargs))
        elif type(new) is staticmethod and type(new.__func__) is types.FunctionType and not reads.trust.cls(base):
            reads.read_class(base, "__new__", new)
            made = self.call(new.__func__, cls, *args, **kwargs)
            if type(made) is not cls:
                return made
        elif issubclass(cls, BaseException):
            made = self.made(cls.__new__(cls, *args, **kwargs))
        else:
            raise self.refuse(f"the class {cls.__qualname__}, a subclass of a class in C")
        if start is object or start is None:
            return made
        if type(init) is not types.FunctionType:
            if issubclass(cls, BaseException):
                init(made, *args, **kwargs)
                return made
            raise self.refuse(f"`__init__` of the class {cls.__qualname__}")
        reads.read_class(start, "__init__", init)
        self.call(init, made, *args, **kwargs)
        return made

    def call_method(self, obj: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """``obj.name(*args, **kwargs)``."""
        kind = type(obj)
        if kind is TracedArray:
            method = own_answer(getattr)(obj, name) if obj._atom.aval.weak else getattr(obj, name)
            return self._handing(method, args, kwargs, False)
        if kind is np.ndarray or kind is MadeArray:
            return self._method_of_array(obj, name, args, kwargs)
        if kind in _BUILT or kind in CONTAINERS:
            return self._method_of_container(obj, kind, name, args, kwargs)
        if kind in _PLAIN:
            if kind is str and name in ("format", "format_map", "join", "__mod__", "__format__") and (
                "n}" in obj or not self._texts(args, kwargs)
            ):
                raise self.refuse("a text that is made of values")
            return self._handing(getattr(obj, name), args, kwargs, True)
        return self.call(load(self, obj, name), *args, **kwargs)

    def _texts(self, args: Any, kwargs: Any) -> bool:
        """Whether texts of these values are known: no traced ones, no arrays, and nothing that depends on a setting."""
        return all(map(_has_known_text, (*args, *kwargs.values())))

    def _method_of_array(self, obj: Any, name: str, args: Any, kwargs: Any) -> Any:
        if type(obj) is np.ndarray:
            if not obj.flags.writeable and name in _WRITERS:
                raise self.refuse(f".{name}() of an array from outside")
            if name in PLAIN_METHODS and is_traced([*args, *kwargs.values()]):
                return PLAIN_METHODS[name](obj, *args, **kwargs)
        return self._handing(getattr(obj, name), args, kwargs, False)

    def _method_of_container(self, obj: Any, kind: type, name: str, args: Any, kwargs: Any) -> Any:
        node = self.reads.node_of(obj)
        if node is None:
            if self.loops:
                if kind is list and name == "append" and len(args) == 1 and not kwargs:
                    self.loops[-1].appended(obj, *args)
                    return None
                self.looked_at(obj)
                if name not in PURE_METHODS.get(kind, ()):
                    self.changes(obj)
            callbacks = name == "sort"
            if name in ("sort", "index", "count", "remove", "__contains__", "__eq__", "get", "pop", "setdefault"):
                rest = args[1:] if kind not in (list, deque) else ()
                args = [*[self.handed(x, callbacks) for x in args[: len(args) - len(rest)]], *rest]
                kwargs = {k: self.handed(x, callbacks) for k, x in kwargs.items()}
                if name in ("sort", "index", "count", "remove"):
                    self.handed(obj, False)
            elif name in ("extend", "update", "union", "difference", "intersection"):
                args = [self.iterable(x) for x in args]
            return getattr(obj, name)(*args, **kwargs)
        if name not in PURE_METHODS.get(kind, PURE_METHODS.get(kind.__base__ or kind, frozenset())):
            return self._change(obj, kind, name, args, kwargs)
        if (now := self.current(obj)) is not obj:
            return self._method_of_container(now, kind, name, args, kwargs)
        if name == "get" and kind is dict and len(args) <= 2 and not kwargs:
            key = args[0]
            return self.item(obj, key) if self._has_key(obj, key) else (args[1] if len(args) > 1 else None)
        if name == "keys":
            return self._keys_of(obj).keys()
        if name in ("items", "values"):
            shown = self._contents(obj, node)
            return shown.items() if name == "items" else shown.values()
        if name == "copy":
            return self.shallow(obj)
        return getattr(self.handed(obj, False), name)(*[self.handed(x, False) for x in args], **kwargs)

    def _change(self, obj: Any, kind: type, name: str, args: Any, kwargs: Any) -> Any:
        """A method that changes a container outside."""
        if kind is list or kind is deque:
            if name == "append":
                return self.append(obj, *args)
            if name == "extend":
                for value in list(self.iterable(*args)):
                    self.append(obj, value)
                return None
            if name in ("insert", "pop", "remove", "clear", "reverse", "popleft", "appendleft", "extendleft", "rotate"):
                return self._method_of_container(self.whole_list(obj), kind, name, args, kwargs)
        if kind is dict and name in ("update", "pop", "setdefault", "clear", "popitem"):
            if name == "update" and len(args) <= 1 and all(type(x) is dict for x in args):
                for key, value in [*(self._parts(args[0]) if args else {}).items(), *kwargs.items()]:
                    self.set_key(obj, key, value)
                return None
            return self._method_of_container(self.whole_dict(obj), kind, name, args, kwargs)
        raise self.refuse(f".{name}() of an object from outside")

    def _has_key(self, obj: dict[Any, Any], key: Any) -> bool:
        if type(key) not in _PLAIN and not is_leaf(key):
            raise self.refuse("a key that is compared by a method")
        found = self.writes.get(id(obj)) if self.writes else None
        if isinstance(found, Keys) and found.whole is None and key in found.values:
            return True
        return key in self.current(obj)

    # ---- items

    def item(self, obj: Any, index: Any) -> Any:
        """``obj[index]``."""
        kind = type(obj)
        if kind in _PLAIN:
            if type(index) not in _PLAIN:
                index = self.handed(index, False)
            if self.loops and kind in (TracedArray, np.ndarray, MadeArray):
                return item_of(self.recorder, obj, index)
            if kind is np.ndarray and is_traced(index):
                return np.ndarray.__getitem__(obj, index) if not _of_traced(index) else self._of_plain(obj, index)
            return obj[index]
        if kind in CONTAINERS:
            node = self.reads.node_of(obj)
            if node is None:
                if self.loops:
                    self.looked_at(obj)
                    return item_of(self.recorder, obj, index)
                return obj[index]
            written = self.writes.get(id(obj)) if self.writes else None
            if isinstance(written, Keys) and written.whole is None and is_leaf(index) and index in written.values:
                return written.values[index]
            if isinstance(written, Items) and written.whole is None and type(index) is int:
                if -len(written.tail) <= index < 0:
                    return written.tail[index]
            if (now := self.current(obj)) is not obj:
                return now[index]
            found = obj[index]
            if issubclass(kind, dict):
                return self.part(node, "key", index, found)
            if type(index) is slice:
                return kind([self.part(node, "item", k, obj[k]) for k in range(*index.indices(len(obj)))])
            place = operator.index(index)
            return self.part(node, "item", place + len(obj) if place < 0 else place, found)
        if isinstance(obj, type):
            return obj[index]
        if self.reads.trust.cls(kind):
            if self.reads.node_of(obj) is not None:
                raise self.refuse(f"an item of an object of the class {kind.__qualname__}")
            return obj[index]
        if issubclass(kind, tuple) and hasattr(kind, "_fields") and found_in(kind, "__getitem__")[0] is tuple:
            node = self.reads.node_of(obj)
            found = tuple.__getitem__(obj, index)
            if node is None:
                return found
            if type(index) is slice:
                raise self.refuse("a slice of a named tuple")
            place = operator.index(index)
            return self.part(node, "item", place + len(obj) if place < 0 else place, found)
        return self.special(obj, "__getitem__", index)

    def _of_plain(self, obj: Any, index: Any) -> Any:
        return self._call_own(own_answer(np.asarray), np.asarray, (obj,), {})[index]

    def special(self, obj: Any, name: str, *args: Any) -> Any:
        """A special method of an object of the user's class."""
        base, raw = found_in(type(obj), name)
        if base is None or type(raw) is not types.FunctionType or self.reads.trust.cls(base):
            raise self.refuse(f"{name} of an object of the class {type(obj).__qualname__}")
        self.reads.read_class(base, name, raw)
        return self.call(raw, obj, *args)

    def iterable(self, obj: Any) -> Any:
        """*obj*, to be iterated over by code that is not converted: what it gives are objects as the run has them."""
        kind = type(obj)
        if kind in _PLAIN:
            return obj
        if kind in CONTAINERS:
            node = self.reads.node_of(obj)
            if node is None:
                self.looked_at(obj)
                return obj
            if (now := self.current(obj)) is not obj:
                self.looked_at(now)
                return now
            if issubclass(kind, dict):
                return self._keys_of(obj)
            if kind in (set, frozenset):
                return list(obj)
            return self._contents(obj, node)
        if self.reads.trust.cls(kind):
            if self.reads.node_of(obj) is not None:
                raise self.refuse(f"iteration over an object of the class {kind.__qualname__}")
            self.changes(obj)  # an iterator, perhaps
            return obj
        if issubclass(kind, tuple) and hasattr(kind, "_fields") and found_in(kind, "__iter__")[0] is tuple:
            return [self.item(obj, k) for k in range(len(obj))]
        base, raw = found_in(kind, "__iter__")
        if base is not None:
            found = self.special(obj, "__iter__")
            return self._iterator(found)
        base, raw = found_in(kind, "__getitem__")
        if base is None:
            return iter(obj)  # raises
        return self._by_items(obj)

    def _iterator(self, found: Any) -> Any:
        if self.reads.trust.cls(type(found)):
            return found
        return self._by_next(found)

    def _by_next(self, it: Any) -> Iterator[Any]:
        while True:
            try:
                value = self.special(it, "__next__")
            except StopIteration:
                return
            yield value

    def _by_items(self, obj: Any) -> Iterator[Any]:
        k = 0
        while True:
            try:
                value = self.special(obj, "__getitem__", k)
            except IndexError:
                return
            yield value
            k += 1

    # ---- truth, comparison

    def test(self, x: Any) -> bool:
        """The truth of *x*."""
        kind = type(x)
        if kind is TracedArray:
            return bool(x._concrete("bool"))
        if kind in _PLAIN:
            return bool(x)
        if kind in CONTAINERS:
            return bool(self.current(x))
        if self.reads.trust.cls(kind):
            return bool(x)
        for name in ("__bool__", "__len__"):
            base, _ = found_in(kind, name)
            if base is not None:
                return len(x) > 0 if base is tuple else bool(self.special(x, name))
        return True


def _references(copies: list[tuple[Any, Any]]) -> int:
    """How many references there are to the last of *copies*, which is taken off."""
    made, was = copies.pop()
    del was
    return sys.getrefcount(made)


_ALONE = _references([([], ())])


def _is_held(copies: list[tuple[Any, Any]]) -> bool:
    """Whether anything else has the last of *copies*, which is taken off."""
    return _references(copies) > _ALONE


def _alike(one: Any, other: Any) -> bool:
    return one is other or (type(one) is tuple and type(other) is tuple and all(map(operator.is_, one, other)))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, TracedInt, *STAND_INS) or (type(value) is TracedArray and value._atom.aval.weak)


def _has_known_text(value: Any, depth: int = 0) -> bool:
    """Whether the text of *value* depends on it alone."""
    kind = type(value)
    if kind in (int, float, bool, str, bytes, type(None), complex, type(Ellipsis), range):
        return True
    if kind in (list, tuple) and depth < 10:
        return all(_has_known_text(x, depth + 1) for x in value)
    if kind is dict and depth < 10:
        return all(_has_known_text(x, depth + 1) for x in (*value, *value.values()))
    return False


def _of_traced(index: Any) -> bool:
    return type(index) is TracedArray or (type(index) is tuple and any(type(x) is TracedArray for x in index))


class Frame(Transparent):
    """What the copy of one function goes through."""

    def __init__(
        self, run: Run, fn: types.FunctionType, node: StateNode | None, loops: Sequence[Any] = ()
    ) -> None:  # fmt: skip
        super().__init__(fn)
        self.loops = loops
        self.run, self.fn = run, fn
        self._owner = node if node is not None else run.reads.root
        self._known: dict[str, Any] = run.spaces.setdefault(id(fn.__globals__), {})
        self.call, self.call_method = run.call, run.call_method  # type: ignore[method-assign]
        self.item, self.test = run.item, run.test  # type: ignore[method-assign]

    # ---- names

    def load_global(self, name: str) -> Any:
        known = self._known.get(name, MISSING)
        if known is not MISSING:
            return known
        if self.run.written(self.globals_, name) is not MISSING:
            raise self.run.refuse(f"the global `{name}`, which was deleted")
        space, provided, reads = self.globals_, self.builtins_, self.run.reads
        assert self._owner is not None
        if name in space:
            found = reads.read(
                self._owner, "global", (space, name), space[name], f"global {name}", (id(space), name)
            )
        elif name in provided:
            found = reads.read(
                self._owner, "builtin", (space, provided, name), provided[name], name, (id(space), name)
            )
        else:
            raise self.run.refuse(f"the name `{name}`, which is not there")
        self._known[name] = found
        return found

    def load_free(self, name: str) -> Any:
        cell = self.cells[name]
        if id(cell) not in self.run.reads.cells:
            return super().load_free(name)
        written = self.run.written(cell, "")
        if written is not MISSING:
            return written
        try:
            value = cell.cell_contents
        except ValueError:
            raise self.run.refuse(f"the variable `{name}`, which has no value yet") from None
        assert self._owner is not None
        return self.run.reads.read(self._owner, "cell", cell, value, f"closure {name}", id(cell))

    def store_global(self, name: str, value: Any) -> Any:
        self.run.write_global(self.globals_, name, value)
        return value

    def del_global(self, name: str) -> None:
        raise self.run.refuse(f"`del {name}`")

    def store_free(self, name: str, value: Any) -> Any:
        cell, run = self.cells[name], self.run
        if id(cell) not in run.reads.cells:
            return super().store_free(name, value)
        assert self._owner is not None
        run.write_name(cell, "", value, f"closure {name}", run.reads.was_read(self._owner, "cell", id(cell)))
        return value

    def del_free(self, name: str) -> None:
        if id(self.cells[name]) in self.run.reads.cells:
            raise self.run.refuse(f"`del {name}`")
        super().del_free(name)

    def globals(self) -> Any:
        raise self.run.refuse("globals()")

    def locals(self, values: Any) -> Any:
        raise self.run.refuse("locals()")

    def super(self, cls: Any, first: Any) -> Any:
        if self.load_global("super") is not super:
            raise self.run.refuse("super(), which is not Python's")
        return super(cls, first)

    def dir(self, found: Any) -> Any:
        raise self.run.refuse("dir()")

    # ---- attributes and items

    def attr(self, obj: Any, name: str) -> Any:
        kind = type(obj)
        if name == "__class__" and kind in _TRACED:
            return own_answer(type)(obj)
        if kind is TracedArray and obj._atom.aval.weak:
            return own_answer(getattr)(obj, name)
        if kind in _PLAIN and kind is not np.ndarray:
            return getattr(obj, name)
        if kind is np.ndarray:
            if name in ("base", "data", "ctypes", "__array_interface__"):
                raise self.run.refuse(f"`.{name}` of an array")
            return getattr(obj, name)
        return load(self.run, obj, name)

    def set_attr(self, value: Any, obj: Any, name: str) -> None:
        kind, reads = type(obj), self.run.reads
        if kind is TracedArray:
            setattr(obj, name, value)
            return
        node = reads.node_of(obj)
        if isinstance(obj, types.ModuleType) and node is not None and node.kind == "module":
            self.run.write_global(obj.__dict__, name, value)
            return
        foreign = node is not None and node.kind not in ("instance", "argument")
        if foreign or isinstance(obj, types.ModuleType | type | types.FunctionType):
            raise self.run.refuse(f"an assignment of `.{name}` of an object from outside")
        if reads.trust.cls(kind) and kind is not types.SimpleNamespace:
            raise self.run.refuse(f"an assignment of `.{name}` of an object from outside")
        if not reads.trust.cls(kind):
            base, raw = found_in(kind, "__setattr__")
            if base is not object:
                raise self.run.refuse(f"an assignment of `.{name}` by a `__setattr__`")
            base, raw = found_in(kind, name)
            reads.names(name)
            reads.pin(kind)
            if isinstance(raw, property):
                assert base is not None
                reads.read_class(base, name, raw)
                if raw.fset is not None:
                    self.call(raw.fset, obj, value)
                    return
            elif base is not None and hasattr(type(raw), "__set__") and type(raw) is not types.MemberDescriptorType:
                raise self.run.refuse(f"an assignment of `.{name}` by a descriptor")
        if self.run.loops and node is None:
            self.run.loops[-1].wrote(obj, name)
        if node is not None:
            if not hasattr(obj, "__dict__") and (base is None or type(raw) is not types.MemberDescriptorType):
                setattr(obj, name, value)  # raises
            self.run.write_name(obj, name, value, f"{node.label}.{name}", reads.was_read(node, "attr", name))
            return
        setattr(obj, name, value)

    def del_attr(self, obj: Any, name: str) -> None:
        if self.run.reads.node_of(obj) is not None or not self._plainly_set(type(obj)):
            raise self.run.refuse(f"`del` of `.{name}`")
        self.run.changes(obj)
        delattr(obj, name)

    def made(self, x: Any) -> Any:
        return self.run.made(x)

    def _plainly_set(self, kind: type) -> bool:
        return found_in(kind, "__delattr__")[0] is object

    def set_item(self, value: Any, obj: Any, index: Any) -> None:
        kind = type(obj)
        if kind in (TracedArray, MadeArray, np.ndarray):
            index, value = self.run.handed(index, False), self.run.handed(value, False)
        if kind is TracedArray or kind is MadeArray:
            set_item(self.run.recorder, value, obj, index)
            return
        outside = self.run.reads.node_of(obj) is not None
        if outside and kind is dict:
            self.run.set_key(obj, index, value)
            return
        if outside and kind in (list, deque):
            self.run.whole_list(obj)[index] = value
            return
        if outside and kind not in _BUILT and not self.run.reads.trust.cls(kind):
            self.run.special(obj, "__setitem__", index, value)
            return
        if outside or (kind is np.ndarray and not obj.flags.writeable):
            raise self.run.refuse("an assignment of an item of an object from outside")
        if kind is np.ndarray and (is_traced(value) or is_traced(index)):
            raise self.run.refuse("an assignment of a traced value in a plain array")
        if kind in CONTAINERS or kind is np.ndarray or self.run.reads.trust.cls(kind):
            if self.run.loops:
                if kind in (list, dict) and type(index) in (int, str):
                    self.run.loops[-1].wrote(obj, index)
                else:
                    self.run.changes(obj)
            obj[index] = value
            return
        self.run.special(obj, "__setitem__", index, value)

    def del_item(self, obj: Any, index: Any) -> None:
        if self.run.reads.node_of(obj) is not None:
            if type(obj) is dict:
                del self.run.whole_dict(obj)[index]
                return
            if type(obj) in (list, deque):
                del self.run.whole_list(obj)[index]
                return
            raise self.run.refuse("`del` of an item of an object from outside")
        if type(obj) not in CONTAINERS:
            self.run.special(obj, "__delitem__", index)
            return
        self.run.changes(obj)
        del obj[index]

    # ---- iteration

    def iter(self, obj: Any) -> Any:
        return self.run.iterable(obj)

    def splat(self, obj: Any) -> Any:
        return self.run.iterable(obj)

    def mapping(self, obj: Any) -> Any:
        if type(obj) is not dict:
            raise self.run.refuse("`**` of what is no dict")
        return obj if self.run.reads.node_of(obj) is None else self.run._parts(obj)

    def unpack(self, obj: Any, count: int) -> Any:
        return obj if type(obj) is tuple and self.run.reads.node_of(obj) is None else self.run.iterable(obj)

    def unpack_star(self, obj: Any, before: int, after: int) -> Any:
        return self.run.iterable(obj)

    def first_iterable(self, xs: Any) -> Any:
        return Begun(self.run.iterable(xs))

    def loop(self, number: int, iterable: Any) -> Any:
        over = iterable.iterator if type(iterable) is Begun else self.run.iterable(iterable)
        return begin(self.run.recorder, over, self.loops[number])

    def while_loop(self, number: int) -> Any:
        return begin_while(self.run.recorder, self.loops[number])

    def context(self, manager: Any) -> Any:
        module = type(manager).__module__
        if module != "contextlib":
            raise self.run.refuse(f"`with` an object of the class {type(manager).__qualname__}")
        return manager

    def format(self, value: Any, conversion: Any, spec: Any) -> str:
        if not _has_known_text(value) or spec.endswith("n"):
            raise self.run.refuse("a text that is made of values")
        return super().format(value, conversion, spec)

    def imported(self, module: str, name: str | None, value: Any) -> Any:
        reads = self.run.reads
        found = sys.modules.get(module)
        if found is None or self._owner is None:
            raise self.run.refuse(f"the import of {module}")
        shown = reads.read(self._owner, "import", module, found, module)
        if name is None:
            if isinstance(value, types.ModuleType) and value is not found:  # `import a.b` binds `a`
                return reads.read(self._owner, "import", value.__name__, value, value.__name__)
            return shown
        return self.attr(shown, name)

    # ---- operators

    def mod(self, a: Any, b: Any) -> Any:
        if type(a) in (str, bytes) and not (
            _has_known_text(b) if type(b) is not tuple else all(map(_has_known_text, b))
        ):
            raise self.run.refuse("a text that is made of values")
        if type(a) in _PLAIN and type(b) in _PLAIN:
            return a % b
        return self._operate(operator.mod, "__mod__", "__rmod__", a, b)

    def is_(self, a: Any, b: Any) -> bool:
        if a is b:
            return True
        for x, y in ((a, b), (b, a)):
            if type(x) in _TRACED and (type(y) in _PLAIN and y is not None and y is not Ellipsis):
                raise self.run.refuse("`is` of traced values")
        if type(a) is type(b) and type(a) in (float, complex):
            raise self.run.refuse("`is` of numbers")
        return False

    def is_not(self, a: Any, b: Any) -> bool:
        return not self.is_(a, b)

    def in_(self, a: Any, b: Any) -> Any:
        kind, run = type(b), self.run
        if kind in _PLAIN:
            return a in b
        if kind in CONTAINERS:
            node = run.reads.node_of(b)
            if kind in (dict,) or issubclass(kind, dict):
                return run._has_key(b, a)
            if node is not None or type(a) not in _PLAIN:
                b, a = run.handed(b, False), run.handed(a, False)
            else:
                run.handed(b, False)
            return a in b
        if run.reads.trust.cls(kind):
            return a in run.handed(b, False)
        base, _ = found_in(kind, "__contains__")
        if base is not None:
            return self.test(run.special(b, "__contains__", a))
        return a in run.iterable(b)

    def not_in(self, a: Any, b: Any) -> Any:
        return not self.in_(a, b)

    def _operate(self, plain: Callable[[Any, Any], Any], name: str, reflected: str, a: Any, b: Any) -> Any:
        run = self.run
        mine, theirs = type(a), type(b)
        own, others = self._users(mine), self._users(theirs)
        if not own and not others:
            if mine in _HOLD_ONLY and theirs in _HOLD_ONLY and name in _MAKES_NEW:
                return plain(run.shallow(a), run.shallow(b))
            return run._handing(plain, (a, b), {}, False)
        first = [(a, mine, own, name, b), (b, theirs, others, reflected, a)]
        if mine is not theirs and others and issubclass(theirs, mine) and found_in(theirs, reflected)[0] is not None:
            first.reverse()
        for obj, kind, users, method, other in first:
            if not users:
                if kind is TracedArray or kind is np.ndarray:
                    raise run.refuse(f"an operator on an array and an object of the class {theirs.__qualname__}")
                continue  # a number of Python's, which knows nothing of the user's classes
            base, raw = found_in(kind, method)
            if base is None or base is object:
                continue
            found = run.special(obj, method, other)
            if found is not NotImplemented:
                return found
            if mine is theirs and method != reflected and name != reflected:
                break
        if name in ("__eq__", "__ne__"):
            return (a is b) is (name == "__eq__")
        return plain(a, b)  # raises

    def _users(self, kind: type) -> bool:
        return kind not in _PLAIN and kind not in CONTAINERS and not self.run.reads.trust.cls(kind)

    def _inplace(self, plain: Callable[[Any, Any], Any], name: str, method: str, a: Any, b: Any) -> Any:
        kind, run = type(a), self.run
        if self._users(kind):
            base, _ = found_in(kind, f"__i{name}__")
            if base is not None:
                found = run.special(a, f"__i{name}__", b)
                if found is not NotImplemented:
                    return found
            return getattr(self, method)(a, b)
        if run.reads.node_of(a) is not None and kind is list and name == "add":
            run.call_method(a, "extend", b)
            return a
        if kind is np.ndarray and not a.flags.writeable:
            raise run.refuse("an assignment to an object from outside")
        if run.reads.node_of(a) is not None and kind not in (tuple, frozenset):
            raise run.refuse("an assignment to an object from outside")
        if self._users(type(b)):
            return getattr(self, method)(a, b)
        if kind in CONTAINERS and kind not in (tuple, frozenset):
            run.changes(a)
        return plain(a, run.iterable(b) if kind is list else b)

    def neg(self, a: Any) -> Any:
        return -a if not self._users(type(a)) else self.run.special(a, "__neg__")

    def pos(self, a: Any) -> Any:
        return +a if not self._users(type(a)) else self.run.special(a, "__pos__")

    def invert(self, a: Any) -> Any:
        return ~a if not self._users(type(a)) else self.run.special(a, "__invert__")


def _binary(plain: Callable[[Any, Any], Any], name: str, reflected: str) -> Callable[..., Any]:
    def operate(self: Frame, a: Any, b: Any) -> Any:
        if type(a) in _PLAIN and type(b) in _PLAIN:
            return plain(a, b)
        return self._operate(plain, name, reflected, a, b)

    return operate


def _in_place(plain: Callable[[Any, Any], Any], name: str, method: str) -> Callable[..., Any]:
    def operate(self: Frame, a: Any, b: Any) -> Any:
        return self._inplace(plain, name, method, a, b)

    return operate


_ARITHMETIC = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "truediv", "floordiv": "floordiv", "mod": "mod",
    "pow": "pow", "matmul": "matmul", "and_": "and", "or_": "or", "xor": "xor", "lshift": "lshift",
    "rshift": "rshift",
}  # fmt: skip
for _method, _name in _ARITHMETIC.items():
    if _method != "mod":
        setattr(Frame, _method, _binary(getattr(operator, _method), f"__{_name}__", f"__r{_name}__"))
    setattr(Frame, f"i{_method.rstrip('_')}", _in_place(getattr(operator, f"i{_method.rstrip('_')}"), _name, _method))
for _name, _other in (("lt", "gt"), ("le", "ge"), ("gt", "lt"), ("ge", "le"), ("eq", "eq"), ("ne", "ne")):
    setattr(Frame, _name, _binary(getattr(operator, _name), f"__{_name}__", f"__{_other}__"))

FOR_THE_USER.add(__file__)
_WRITERS = frozenset("fill sort put itemset resize partition setfield setflags byteswap".split())
_NO_FACTORY = __import__("dataclasses").MISSING


_TEXT_MAKERS = {id(x) for x in (str, repr, ascii, format, object.__repr__, object.__str__, object.__format__)}


# ---- builtins that ask the run


def _len(run: Run, x: Any) -> int:
    kind = type(x)
    if kind is list and (node := run.reads.node_of(x)) is not None and node.kind != "argument":
        entry = run.writes.get(id(x))
        if not isinstance(entry, Items) or entry.whole is None:
            found = run.reads.read(node, LENGTH, LENGTH, len(x), f"len({node.label})")
            return found + length(run.recorder, entry.tail) if isinstance(entry, Items) else found
    if kind in CONTAINERS:
        return length(run.recorder, run.current(x))
    if kind in _PLAIN or run.reads.trust.cls(kind):
        return len(x)
    if found_in(kind, "__len__")[0] in (tuple, None):
        return len(x)
    return operator.index(run.special(x, "__len__"))


def _getattr(run: Run, obj: Any, name: str, *default: Any) -> Any:
    if type(name) is not str:
        raise run.refuse("getattr() with a name that is no text")
    try:
        if type(obj) in _TRACED:
            return own_answer(getattr)(obj, name)
        return getattr(obj, name) if type(obj) in _PLAIN else load(run, obj, name)
    except AttributeError:
        if not default:
            raise
        return default[0]


def _hasattr(run: Run, obj: Any, name: str) -> bool:
    if type(obj) in _TRACED:
        return bool(own_answer(hasattr)(obj, name))
    missing = object()
    return _getattr(run, obj, name, missing) is not missing


def _isinstance(run: Run, obj: Any, classes: Any) -> bool:
    for cls in classes if type(classes) is tuple else (classes,):
        if isinstance(cls, type) and not run.reads.trust.cls(cls):
            run.reads.pin(cls)
    if type(obj) in _TRACED:
        return isinstance(obj, classes)
    if not run.reads.trust.cls(type(obj)):
        run.reads.pin(type(obj))
    return isinstance(obj, classes)


def _type(run: Run, *args: Any) -> Any:
    if len(args) != 1:
        raise run.refuse("a class that is made")
    if type(args[0]) in _TRACED:
        return own_answer(type)(*args)
    kind = type(args[0])
    return kind if run.reads.trust.cls(kind) else run.seen(kind, kind.__name__)


def _over(run: Run, function: Any) -> Any:
    return run.handed(function, True) if function is not None else None


def _of_iterables(builtin: Any) -> Callable[..., Any]:
    def call(run: Run, *args: Any, **kwargs: Any) -> Any:
        return builtin(*[run.iterable(x) for x in args], **kwargs)

    return call


def _of_function(builtin: Any) -> Callable[..., Any]:
    def call(run: Run, function: Any, *args: Any) -> Any:
        own = own_answer(builtin)
        return (own or builtin)(_callback(run, function), *[run.iterable(x) for x in args])

    return call


def _callback(run: Run, function: Any) -> Any:
    """*function*, to be called by C."""
    if function is None:
        return None
    return lambda *args, **kwargs: run.call(function, *args, **kwargs)


def _by_order(builtin: Any) -> Callable[..., Any]:
    """``sorted``, ``min`` and ``max``: of numbers and the like, or by a key of these."""

    def call(run: Run, *args: Any, key: Any = None, **kwargs: Any) -> Any:
        own = own_answer(builtin) or builtin
        values = [run.iterable(args[0])] if len(args) == 1 else list(args)
        if key is not None:
            return own(*values, key=_callback(run, key), **kwargs)
        if len(args) == 1:
            values = [list(values[0])]
        for x in values[0] if len(args) == 1 else values:
            run.handed(x, False)
        return own(*values, **kwargs)

    return call


def _sum(run: Run, values: Any, *start: Any, **kwargs: Any) -> Any:
    values = list(run.iterable(values))
    for x in values:
        run.handed(x, False)
    return (own_answer(sum) or sum)(values, *start, **kwargs)


def _reduce(run: Run, function: Any, values: Any, *start: Any) -> Any:
    return functools.reduce(_callback(run, function), run.iterable(values), *start)


def _partial(run: Run, function: Any, *args: Any, **kwargs: Any) -> Any:
    return functools.partial(function, *args, **kwargs)


def _iter(run: Run, obj: Any, *sentinel: Any) -> Any:
    if sentinel:
        return iter(_callback(run, obj), *sentinel)
    return iter(run.iterable(obj))


def _next(run: Run, it: Any, *default: Any) -> Any:
    if run.reads.node_of(it) is not None or not run.reads.trust.cls(type(it)):
        raise run.refuse("next() of an iterator")
    run.changes(it)
    return next(it, *default)


def _callable(run: Run, obj: Any) -> bool:
    return callable(obj)


def _bool(run: Run, x: Any = False) -> bool:
    return run.test(x)


def _setattr(run: Run, obj: Any, name: str, value: Any) -> None:
    raise run.refuse("setattr()")


_HANDLERS: dict[int, Callable[..., Any]] = {
    id(len): _len, id(getattr): _getattr, id(hasattr): _hasattr, id(isinstance): _isinstance,
    id(issubclass): lambda run, *args: issubclass(*args), id(type): _type, id(callable): _callable,
    id(bool): _bool, id(setattr): _setattr, id(iter): _iter, id(next): _next, id(sum): _sum,
    id(enumerate): lambda run, x, *start, **k: enumerate(run.iterable(x), *start, **k),
    id(zip): _of_iterables(zip), id(map): _of_function(map), id(filter): _of_function(filter),
    id(reversed): lambda run, x: reversed(x if type(x) in _PLAIN or type(x) is dict else run.iterable(x)),
    id(sorted): _by_order(sorted), id(min): _by_order(min), id(max): _by_order(max),
    id(any): lambda run, x: any(map(run.test, run.iterable(x))),
    id(all): lambda run, x: all(map(run.test, run.iterable(x))),
    id(list): lambda run, *x: list(*map(run.iterable, x)), id(tuple): lambda run, *x: tuple(*map(run.iterable, x)),
    id(operator.is_): lambda run, a, b: run.frame.is_(a, b), id(operator.is_not): lambda run, a, b: not run.frame.is_(a, b),
    id(operator.contains): lambda run, a, b: run.frame.in_(b, a), id(operator.getitem): lambda run, a, b: run.item(a, b),
    id(operator.truth): lambda run, x: run.test(x), id(operator.not_): lambda run, x: not run.test(x),
    id(operator.mod): lambda run, a, b: run.frame.mod(a, b),
    id(functools.reduce): _reduce, id(functools.partial): _partial,
}  # fmt: skip
