"""Items, iteration, methods of containers, and truth."""

from __future__ import annotations

import enum
import operator
import types
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...tracer.loops.items import item as item_of
from ...tracer.loops.items import length, row_gone_over
from ...tracer.loops.iterables import RowOfLists, source_of
from ...tracer.loops.tables import row_iterator, table_of
from ...tracer.record.array import TracedArray, class_of, is_traced
from ...tracer.record.integers import TracedInt
from ...tracer.record.made_arrays import MadeArray, fresh
from ...tracer.record.retry import Retry
from ...tracer.record.shown_text import TextOfValues
from ..record.asked import ITERATES, asked, is_true
from ..record.kinds import PLAIN, of_traced
from ..state.values import is_leaf
from .attributes import found_in, load
from .callees import PURE_METHODS, takes_callbacks
from .in_python import Callback, each, each_folded, each_together, reduced, together_folded
from .own_classes import OwnClasses
from .reads import CONTAINERS, KEYED, NotClosedError
from .subclasses import BY_STATEMENT, is_of_items, items_of, method_of_items
from .writes import WrittenItems, WrittenKeys

#: methods of sets that give nothing
_OF_SETS = frozenset(
    "add discard remove update clear difference_update intersection_update symmetric_difference_update".split()
)
# Of as many elements no list is made (a heuristic: kernels vectorise lists, but to record each element takes 8 us).
_MANY = 4096
_MOST_KEYS = 64  # of which a traced number is asked whether it is one of them
NO_KEY = object()  # which no container has
_TRACED_KEYS = frozenset((TracedInt, TracedArray))
# methods that look a key up, that compare what they get with some of what there is, or all, and that iterate over it
_BY_KEY = frozenset("add discard remove get pop setdefault".split())
_COMPARES_ALL = frozenset(("index", "count", "remove"))
_COMPARES = _COMPARES_ALL | {"__contains__", "__eq__", "get", "pop", "setdefault"}
_ITERATES = frozenset(("extend", "update", "union", "difference", "intersection"))
_MAKES_NEW = frozenset(("copy", "union", "difference", "intersection", "symmetric_difference"))


def has_plain_keys(kind: type) -> bool:
    """Whether members of an enumeration are equal to themselves alone."""
    return kind.__eq__ is object.__eq__ and kind.__hash__ is enum.Enum.__hash__


def _has_fields(kind: type, name: str) -> bool:
    """Whether objects of *kind* are named tuples, whose special method *name* is that of tuples."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and found_in(kind, name)[0] is tuple


class _Begun(NamedTuple):
    """A generator, or a ``map``, *over* the items of an iterator: all that it gives as a list, or as one value."""

    gathered: Callable[[], Any]
    folded: Callable[[Any, Any], Any]
    over: Any


class Containers(OwnClasses):
    """The part of a run that looks into containers."""

    def item(self, obj: Any, index: Any) -> Any:
        """``obj[index]``."""
        kind = type(obj)
        if type(index) not in PLAIN or type(index) is slice:
            index = self.index(kind, index)
        if kind in PLAIN:
            return self._item_of_plain(obj, kind, index)
        if kind in CONTAINERS:
            return self._item_of_container(obj, kind, index)
        if isinstance(obj, type):
            return self._item_of_class(obj, index)
        if self.reads.library(kind):
            self.check_text(obj)
            node = self.reads.node_of(obj)
            if node is not None and not (node.kind == "known" or node.fixed):
                raise self.refuse(f"an item of an object of the class {kind.__qualname__}")
            return fresh(obj[index])  # of np.r_
        if _has_fields(kind, "__getitem__"):
            if type(index) is slice and self.reads.node_of(obj) is not None:
                raise self.refuse("a slice of a named tuple")
            return self.field(obj, index)
        return self.special(obj, "__getitem__", index)

    def _item_of_plain(self, obj: Any, kind: type, index: Any) -> Any:
        if self.loops and kind in (TracedArray, np.ndarray, MadeArray):
            return item_of(self.recorder, obj, index)
        if kind is np.ndarray and is_traced(index):
            return np.ndarray.__getitem__(obj, index) if not of_traced(index) else self.call(np.asarray, obj)[index]
        return obj[index]

    def _item_of_class(self, cls: Any, index: Any) -> Any:
        if isinstance(cls, enum.EnumType) and type(index) is str:
            return self.member(cls, cls[index])
        if not self.reads.trust.cls(cls):
            raise self.refuse(f"an item of the class {cls.__qualname__}")
        return cls[index]  # `list[int]`

    def _item_of_container(self, obj: Any, kind: type, index: Any) -> Any:
        node, by_key = self.reads.node_of(obj), issubclass(kind, dict)
        if by_key and type(index) in _TRACED_KEYS and kind is not defaultdict:
            index = self.known_key(obj, index)
            if index is NO_KEY and kind is not Counter:
                raise self.refuse("a traced number that is no key")
        if node is not None:
            if type(index) not in PLAIN:
                self.is_this(index)
            return (self._item_of_dict if by_key else self._item_of_list)(obj, node, kind, index)
        if self.loops:
            found = item_of(self.recorder, obj, index)
            return self.made(found) if type(index) is slice else found
        return obj[index]

    def _item_of_dict(self, obj: Any, node: Any, kind: type, index: Any) -> Any:
        """An item of a dict outside."""
        written = self.writes.get(id(obj)) if self.writes else None
        if isinstance(written, WrittenKeys) and written.whole is None:
            if index in written.values:
                return written.values[index]
            if index in obj:
                self.touched.add(id(obj))
                return self.part(node, "key", index, obj[index])
        if kind in (defaultdict, Counter) and not self.has_key(obj, index):
            return self._missing(obj, node, kind, index)
        if (now := self.now(obj)) is not obj:
            return item_of(self.recorder, now, index)
        return self.part(node, "key", index, obj[index])

    def _item_of_list(self, obj: Any, node: Any, kind: type, index: Any) -> Any:
        """An item of a list, tuple or deque outside."""
        written = self.writes.get(id(obj)) if self.writes else None
        tail = written.tail if isinstance(written, WrittenItems) and written.whole is None else []
        if type(index) is int and -len(tail) <= index < 0:
            return item_of(self.recorder, tail, index)
        if self.only_grows(obj) and (found := self._near_an_end(obj, node, tail, index)) is not NO_KEY:
            return found
        if (now := self.now(obj)) is not obj:
            return item_of(self.recorder, now, index)
        if self.loops and type(index) in _TRACED_KEYS and kind in (list, tuple):
            self.looked_at(obj)
            return item_of(self.recorder, self.contents(obj, node), index)
        if kind is not list or not (type(index) is int and 0 <= index < len(obj)):  # no element that is appended
            self.looked_at(obj)
        found = obj[index]
        if type(index) is slice:
            return kind([self.part(node, "item", k, obj[k]) for k in range(*index.indices(len(obj)))])
        place = operator.index(index)
        return self.part(node, "item", place + len(obj) if place < 0 else place, found)

    def row_gone_over(self, obj: Any, index: Any) -> RowOfLists | None:
        """``obj[index]`` for a loop over it, where *obj* is a list of lists and *index* follows from the numbers of
        iterations; else None."""
        if not self.loops or type(index) is not TracedArray or type(obj) not in (list, tuple) or self._is_changed(obj):
            return None
        if self.reads.node_of(obj) is None and table_of(self.recorder, obj) is not None:
            return None
        if len(set(map(type, obj))) != 1 or type(obj[0]) not in (list, tuple) or any(map(self._is_changed, obj)):
            return None
        lists = []
        for x in (obj, *obj):
            node = self.reads.node_of(x)
            self.looked_at(x)
            lists.append(x if node is None else self.contents(x, node))
        row = row_gone_over(self.recorder, lists[1:], index)
        return None if row is None else self.made(row)  # type: ignore[no-any-return]

    def _is_changed(self, obj: Any) -> bool:
        """Whether the run has changed a container from outside."""
        return self.reads.node_of(obj) is not None and self.current(obj) is not obj

    def _near_an_end(self, obj: list[Any], node: Any, tail: list[Any], index: Any) -> Any:
        """An item of a list outside, or some of the last ones, by a number of Python's; *tail*: those that the run has
        appended.  Of its length no more counts than that it has the item.  NO_KEY for other indices."""
        size, more = len(obj), len(tail)
        if type(index) is int and index >= 0:
            self.reads.at_least(node, index + 1)
            return self.part(node, "item", index, obj[index]) if index < size else tail[index - size]
        if type(index) is int:
            self.reads.at_least(node, -index - more)
            return self.part(node, "item", index + more, obj[index + more])
        if type(index) is not slice or index.step is not None or type(index.start) is not int or index.start >= 0:
            return NO_KEY
        first, stop = index.start + more, 0 if index.stop is None else index.stop
        if type(stop) is not int or (stop >= 0 and index.stop is not None):
            return NO_KEY
        last = stop + more
        self.reads.at_least(node, -first)
        found = [self.part(node, "item", k, obj[k]) for k in range(max(first, -size), min(last, 0))]
        return self.made(found + tail[max(first, 0) : max(last, 0)])

    def _missing(self, obj: Any, node: Any, kind: type, key: Any) -> Any:
        """The item under a key that a dict with defaults has not."""
        if kind is Counter:
            return 0
        factory = self.reads.read(node, "attr", "default_factory", obj.default_factory, f"{node.label}.default_factory")
        if factory is None:
            raise KeyError(key)
        value = self.call(factory)
        self.set_key(obj, key, value)
        return value

    def field(self, obj: Any, index: Any) -> Any:
        """A field of a named tuple, as the tuple has it."""
        node, found = self.reads.node_of(obj), tuple.__getitem__(obj, index)
        if node is None:
            return found
        place = operator.index(index)
        return self.part(node, "item", place + tuple.__len__(obj) if place < 0 else place, found)

    def index(self, kind: type, index: Any) -> Any:
        """An index or key of an object of the class *kind*, about which code in C may ask nothing that is unseen."""
        if type(index) is slice:
            parts = index.start, index.stop, index.step
            return index if all(type(x) in PLAIN for x in parts) else slice(*map(self._as_index, parts))
        if kind in PLAIN:
            given = type(index)([self._as_index(x) for x in index]) if type(index) is tuple else self._as_index(index)
            return self.handed(given, False)
        if kind in CONTAINERS or self.reads.library(kind):
            if issubclass(kind, dict):
                self.check_key(index)
            elif not self.reads.library(type(index)):
                return self.as_number(index) if isinstance(index, enum.Enum) else self.special(index, "__index__")
            elif kind not in CONTAINERS:  # rows of a table by a list, or by a function
                return self.handed(index, takes_callbacks(kind))
        return index

    def member(self, kind: Any, found: Any) -> Any:
        """The member *found* of an enumeration, as the run has it."""
        if kind.__members__.get(found.name) is not found:
            raise self.refuse(f"a member of {kind.__qualname__} without a name")
        return load(self, kind, found.name)

    def _as_index(self, x: Any) -> Any:
        """A part of an index of an array: of an object of the user's, the number that it stands for."""
        if type(x) is slice:
            return self.index(list, x)
        x = self.as_number(x)
        return self.special(x, "__index__") if self.is_users(x) and found_in(type(x), "__index__")[0] else x

    def as_number(self, x: Any, *names: str) -> Any:
        """A member of an enumeration of numbers or texts (``IntEnum``) as the value that it is, for code which takes it
        for that: its class has no methods of these *names* of its own.  Anything else as it is."""
        if not isinstance(x, enum.Enum):
            return x
        kind, value = type(x), x.__dict__.get("_value_")
        base: Any = next((base for base in (int, float, str) if base is type(value) and isinstance(x, base)), None)
        if base is None or self.reads.library(kind) or base.__eq__(x, value) is not True:
            return x
        for name in names:
            self.reads.names(name)
            if found_in(kind, name)[0] not in (base, object, None):
                return x
        self.reads.pin(kind)
        node = self.reads.node_of(x)
        return value if node is None else self.reads.read(node, "attr", "_value_", value, f"{node.label}.value")

    def check_text(self, value: Any) -> None:
        """An error where more than showing it is done with a text that is made of values."""
        if type(value) is TextOfValues:
            raise self.refuse("a text that is made of values")

    def check_key(self, key: Any) -> None:
        """An error where a key of a dict or set is compared by a method of the user's."""
        kind = type(key)
        self.check_text(key)
        if kind in PLAIN or is_leaf(key) or (isinstance(key, enum.Enum) and has_plain_keys(kind)):
            return
        if kind is tuple or kind is frozenset:
            for part in key:
                self.check_key(part)
            return
        by_identity = all(found_in(kind, name)[0] in (object, type) for name in ("__eq__", "__hash__"))
        if not (by_identity or self.reads.library(kind)):
            raise self.refuse("a key that is compared by a method")
        if not self.reads.library(kind):
            self.reads.pin(kind)

    def has_methods(self, kind: type) -> bool:
        """Whether special methods of objects of *kind* are the user's."""
        return kind not in PLAIN and kind not in CONTAINERS and not self.reads.library(kind)

    def method(self, obj: Any, name: str) -> Callable[..., Any] | None:
        """The special method *name* of an object of the user's class; None where it has none."""
        base = found_in(type(obj), name)[0] if self.has_methods(type(obj)) else None
        return None if base is None or base is object else partial(self.special, obj, name)

    def attribute_for_c(self, obj: Any, name: str) -> Any:
        """``obj.name``, which code in C asks for."""
        raise self.refuse(f"`.{name}` of an object of the class {type(obj).__qualname__}, which code in C asks for")

    def special(self, obj: Any, name: str, *args: Any) -> Any:
        """A special method of an object of the user's class."""
        base, raw = found_in(type(obj), name)
        if is_of_items(raw) and (items := items_of(self, obj)) is not None:
            return method_of_items(self, obj, items, name, args, {})
        if isinstance(obj, enum.Flag) and raw is vars(enum.Flag).get(name):
            return self._of_flags(raw, obj, *args)
        not_users = base is None or (self.reads.library(base) and not self.inherits(type(obj)))
        if base is None or type(raw) is not types.FunctionType or not_users:
            raise self.refuse(f"{name} of an object of the class {type(obj).__qualname__}")
        if name == "__exit__" and isinstance(args[1], NotClosedError | Retry):  # which is no exception of the user's
            return False
        self.reads.read_class(base, name, raw)
        if any(type(x) is TracedArray for x in args):
            for loop in self.recorder.open_loops:
                loop.calls_users = True
        return self.call(raw, obj, *args)

    def by_hook(self, obj: Any, name: str, *args: Any) -> Any:
        """``obj.name(*args)`` of a hook of a class for attributes, the first of *args*."""
        base, hook = found_in(type(obj), name)
        if base is None or self.reads.library(base) or not (type(hook) is types.FunctionType or is_of_items(hook)):
            raise self.refuse(f"`.{args[0]}` by a `{name}`")
        self.reads.read_class(base, name, hook)
        return self.call(hook, obj, *args)

    def _of_flags(self, method: Any, *flags: Any) -> Any:
        """A method of ``enum.Flag``, which goes by the values of the members."""
        for flag in flags:
            node = self.reads.node_of(flag)
            if not isinstance(flag, enum.Flag):
                raise self.refuse(f"{method.__name__} of a flag and of what is none")
            if node is not None:
                self.reads.read(node, "attr", "_value_", flag.__dict__["_value_"], f"{node.label}.value")
        self.reads.pin(type(flags[0]))
        self.reads.names(method.__name__)
        if method.__name__ == "__invert__":
            self.reads.here = "it inverts a flag, which goes by all members and the boundary of its class"
        found = method(*flags)
        return self.seen(found, type(found).__name__) if isinstance(found, enum.Flag) else found

    # ---- iteration

    def iterable(self, obj: Any) -> Any:
        """*obj*, to be iterated over by code that is not converted: what it gives are objects as the run has them."""
        kind = type(obj)
        if kind in PLAIN:
            return obj
        if kind in CONTAINERS:
            node = self.reads.node_of(obj)
            if kind in (set, frozenset):
                self.in_order(obj)
            if node is None:
                if self.loops and (items := row_iterator(self.recorder, obj)) is not None:
                    return self.made(items)
                self.looked_at(obj)
                return obj
            if (now := self.current(obj)) is not obj:
                self.check_order(obj, now)
                self.looked_at(now)
                return now
            if issubclass(kind, dict):
                return self.keys_of(obj)
            if kind in (set, frozenset):
                return list(obj)
            return self.contents(obj, node)
        if isinstance(obj, enum.EnumType):
            return [self.member(obj, x) for x in list[Any](obj)]
        if self.reads.library(kind):
            self.check_text(obj)
            if self.reads.node_of(obj) is not None:
                raise self.refuse(f"iteration over an object of the class {kind.__qualname__}")
            self.changes(obj)  # an iterator, perhaps
            return obj
        if _has_fields(kind, "__iter__"):
            return [self.field(obj, k) for k in range(tuple.__len__(obj))]
        if is_of_items(found_in(kind, "__iter__")[1]) and (items := items_of(self, obj)) is not None:
            self.reads.names("__iter__")
            return self.iterable(items)
        found = asked(self, obj, *ITERATES)
        return iter(found) if hasattr(type(found), "__iter__") or hasattr(type(found), "__getitem__") else obj

    def gathered(self, obj: Any) -> Any:
        """*obj*, all of which is gone over at once: a list of what a generator expression, or a ``map``, would give."""
        known = self._begun(obj)
        return obj if known is None else known.gathered()

    def folded(self, step: Any, obj: Any, value: Any) -> Any:
        """*value* after ``value = step(value, x)`` for each x that *obj* gives."""
        known = self._begun(obj)
        if known is not None:
            source = source_of(self.recorder, known.over)
            if source is None or (source.length.constant or _MANY) >= _MANY:
                return known.folded(step, value)
        values = self.iterable(obj) if known is None else known.gathered()
        return self.python(reduced)(step, values, value)

    def python(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of ours, which does what a builtin does, as a copy."""
        return self.copy_of(function, True)  # type: ignore[arg-type, no-any-return]

    def _begun(self, obj: Any) -> _Begun | None:
        """The values that *obj* would give, if they are known, and nobody has taken anything of it."""
        kind = type(obj)
        if kind is types.GeneratorType and id(obj) in self.begun:
            _, at_once, folded, over = self.begun.pop(id(obj))
            if obj.gi_frame is not None and not (obj.gi_suspended or obj.gi_running):
                obj.close()
                return _Begun(partial(at_once, over), partial(folded, over), over.iterator)
        if kind is map and self.over_symbols:
            function, *values = obj.__reduce__()[1]
            if type(function) is Callback:
                one = len(values) == 1
                lists, fold = [
                    self.python(f) for f in ((each, each_folded) if one else (each_together, together_folded))
                ]
                given = (function.function, *values)
                return _Begun(partial(lists, *given), lambda *v: fold(*v, *given), values[0])
        return None

    # ---- methods

    def method_of_container(self, obj: Any, kind: type, name: str, args: Any, kwargs: Any) -> Any:
        """``obj.name(*args, **kwargs)``."""
        same = BY_STATEMENT.get(name)
        if same is not None and not kwargs and len(args) == same[1] and hasattr(kind, name):
            return self.call(same[0], obj, *args)
        node = self.reads.node_of(obj)
        if node is None:
            return self._method_of_own(obj, kind, name, args, kwargs)
        if name not in PURE_METHODS.get(kind, PURE_METHODS.get(kind.__base__ or kind, frozenset())):
            return self._change(obj, kind, name, args, kwargs)
        if (now := self.current(obj)) is not obj:
            if name in _MAKES_NEW:
                self.check_order(obj, now)
            return self.method_of_container(now, kind, name, args, kwargs)
        if name == "get" and issubclass(kind, dict) and len(args) <= 2 and not kwargs:
            key = args[0]
            return self.item(obj, key) if self.has_key(obj, key) else (args[1] if len(args) > 1 else None)
        if name == "keys":
            return self.keys_of(obj).keys()
        if name in ("items", "values"):
            return getattr(self.contents(obj, node), name)()
        if name == "copy":
            return self.shallow(obj)
        return getattr(self.handed(obj, False), name)(*[self.handed(x, False) for x in args], **kwargs)

    def _method_of_own(self, obj: Any, kind: type, name: str, args: Any, kwargs: Any) -> Any:
        """A method of a container that the run has made."""
        if self.loops or self.recorder.arms:
            if kind is list and name == "append" and len(args) == 1 and not kwargs:
                return self.append_to(obj, *args)
            self.looked_at(obj)
            if name not in PURE_METHODS.get(kind, ()):
                self.changes(obj)
        if name in _BY_KEY and (kind is set or issubclass(kind, dict)):
            for x in args:
                self.check_key(x)
        if kind is set and name == "pop":
            self.in_order(obj)
        if name == "sort" and kind is list and not args:
            obj[:] = self.call(sorted, obj, **kwargs)
            return None
        if name in _COMPARES:
            args, kwargs = self._compared(obj, kind, name, args, kwargs)
        elif name in _ITERATES:
            args = [self.iterable(x) for x in args]
        result = getattr(obj, name)(*args, **kwargs)
        if kind is set and name == "update":
            for x in obj:
                self.check_key(x)
        return self.made(result) if name in _MAKES_NEW else result

    def _compared(self, obj: Any, kind: type, name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments of a method that compares them with what is in *obj*, as code in C may have them."""
        others = args[1:] if kind not in (list, deque) else ()  # which are only given back
        args = [*[self.handed(x, False) for x in args[: len(args) - len(others)]], *others]
        kwargs = {k: self.handed(x, False) for k, x in kwargs.items()}
        if name in _COMPARES_ALL:
            self.handed(obj, False)
        return args, kwargs

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
                return self.method_of_container(self.whole_list(obj), kind, name, args, kwargs)
        if kind is set and name in _OF_SETS and not kwargs:
            return self.change_set(obj, name, args)
        if kind in KEYED and name in ("update", "pop", "setdefault", "clear", "popitem", "move_to_end"):
            if kind is Counter and name == "update":
                return self._count(obj, *args, **kwargs)
            if name == "update" and len(args) <= 1 and all(type(x) is dict for x in args):
                for key, value in [*(self.parts_of(args[0]) if args else {}).items(), *kwargs.items()]:
                    self.set_key(obj, key, value)
                return None
            for key in args if name != "update" else ():
                self.is_this(key)
            return self.method_of_container(self.whole_dict(obj), kind, name, args, kwargs)
        raise self.refuse(f".{name}() of an object from outside")

    def _count(self, obj: Counter[Any], given: Any = (), /, **more: Any) -> None:
        """``obj.update(given, **more)`` of a Counter outside, which adds."""
        by_key = isinstance(given, dict)
        if by_key and type(given) not in CONTAINERS:
            raise self.refuse(f"a Counter that is updated from an object of the class {type(given).__qualname__}")
        pairs = self.parts_of(given).items() if by_key else [(key, 1) for key in self.iterable(given)]
        for key, count in [*pairs, *more.items()]:
            self.set_key(obj, key, self.call(operator.add, count, self.item(obj, key)))

    def known_key(self, obj: Any, key: Any) -> Any:
        """The one among the keys or elements of *obj* that *key* is, where that is a traced number, which is asked for
        it; NO_KEY if it is none of them."""
        if type(key) is TracedArray and key.aval.dtype.kind in "iu" and class_of(key) is not np.ndarray:
            found = key._concrete("item")
            return found.item() if key.aval.weak else found[()]
        now = self.current(obj) if type(key) is TracedInt else ()
        if type(key) is not TracedInt or len(now) > _MOST_KEYS or not all(type(known) in (int, str) for known in now):
            return key
        return next((known for known in now if type(known) is int and self.test(key == known)), NO_KEY)

    def has_key(self, obj: dict[Any, Any], key: Any) -> bool:
        key = self.known_key(obj, key)
        self.check_key(key)
        if self.reads.node_of(obj) is not None:
            self.is_this(key)
        found = self.writes.get(id(obj)) if self.writes else None
        if isinstance(found, WrittenKeys) and found.whole is None and key in found.values:
            return True
        return key in self.current(obj)

    def test(self, x: Any) -> bool:
        """The truth of *x*."""
        kind = type(x)
        if kind is TracedArray:
            return bool(x._concrete("bool"))
        if kind in PLAIN:
            return bool(x)
        if kind in CONTAINERS:
            if self.only_grows(x) and (node := self.reads.node_of(x)) is not None:
                written = self.writes.get(id(x))
                if isinstance(written, WrittenItems) and written.tail:
                    return True
                self.reads.at_least(node, 1)
                return bool(x)
            return bool(length(self.recorder, self.current(x)))
        if self.reads.library(kind):
            return bool(x)
        if (number := self.as_number(x, "__bool__", "__len__")) is not x:
            return bool(number)
        if _has_fields(kind, "__len__") and found_in(kind, "__bool__")[0] is None:
            return len(x) > 0
        return is_true(self, x)
