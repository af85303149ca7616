"""Pins: classes, dicts and lists that a state rests on, compared with what they were in one native call.

Most of what Python looks up goes through classes, and hardly ever does one change. The interpreter keeps a version in
each class, which is another one after any change of the class or of its bases, so that one comparison tells more than
any list of attributes could: methods that are replaced or added, ``__getattr__``, ``__bool__``, a new base. Where a
version has moved on, :meth:`Pins.settle` compares what counts in Python, and notes the new version if it is the same.

Dicts and lists that outsiders write to (of functions, of modules of a network) are compared entry by entry. The same
call compares the code of functions and NumPy's settings of floating-point errors, which every replay rests on.

Start reading at :class:`Pins`. Where ``has_versions`` says no, everything is compared in Python.
"""

from __future__ import annotations

import abc
import ctypes
import gc
import sys
from array import array
from collections.abc import Collection, Container, Hashable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from types import CellType, FunctionType
from typing import Any, NamedTuple

from ...codegen.cpu import cpython
from ...codegen.cpu.cpython import has_entries, has_versions
from ...tracer.ir import forks
from ...tracer.ir.class_flags import HEAP_TYPE, IMMUTABLE
from ...tracer.ir.own_attributes import dict_of
from ...tracer.record.float_errors import raising, settings
from ..launch.comparisons import comparer, same_items
from .trust import Trust
from .values import identity, is_leaf, state_token, unchanged

_NEVER = -1  # no version is this
_SETTLING = forks.lock()
# Entries of a class that count only where the code names them: descriptions, and what CPython keeps there.
_DESCRIPTIVE = {
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__orig_bases__",
    "__parameters__", "__type_params__",
}  # fmt: skip


class ReadNames(NamedTuple):
    """The part of a dict that counts where some of its names were read: those that are *absent*, and the *entries*
    (value, whether it is compared by value)."""

    absent: frozenset[str]
    entries: dict[str, tuple[Any, bool]]

    def holds(self, store: dict[str, Any]) -> bool:
        """Whether all of it is so in *store*."""
        return self.absent.isdisjoint(store) and all(
            _unchanged(store.get(name, MISSING), *known) for name, known in self.entries.items()
        )


#: (owner or None, dict, names of it that count; None: all)
Store = tuple[Any, dict[Any, Any], frozenset[str] | ReadNames | None]


@dataclass(slots=True)
class _Named:
    """Entries of a module's dict: those that are *known* (value, whether it is compared by value), and their values
    now."""

    store: dict[str, Any]
    known: dict[str, tuple[Any, bool]]
    now: dict[str, Any]


class Pins:
    """Classes, dicts, lists and functions as they are now, and whether NumPy raises floating-point errors.

    ``same()`` is quick; where it says no, ``settle()`` decides.

    :param names: the attribute names that count.
    :param classes: classes whose lookups count, with those of their bases.
    :param stores: dicts; with names, only that none of them is there counts, or what was ``ReadNames`` of it.
    :param lists: lists whose items count by identity.
    :param abstract: whether a class may be asked for that others are registered with.  (Which, is no answer: what a
        class has said of another, it says until any class is registered anywhere.)
    :param functions: functions whose code counts, and their defaults where they have any.
    :param loose: by id of one of the dicts or classes, names in it whose values do not count.
    :param entries: of the dicts of modules, of which few entries count: (dict, name, value, whether it is compared by
        value).  Those that cannot be compared natively are left to others: :meth:`has_entry` says which.
    """

    def __init__(
        self,
        names: Container[str],
        trust: Trust,
        classes: Iterable[type],
        stores: Iterable[Store],
        lists: Iterable[list[Any]],
        abstract: bool,
        functions: Iterable[FunctionType] = (),
        loose: Mapping[int, Collection[str]] | None = None,
        entries: Iterable[tuple[dict[str, Any], str, Any, bool]] = (),
    ) -> None:
        self._names, self.trust = names, trust
        self._loose = loose or {}
        self._classes = tuple(classes)
        self._stores = [(o, type(o), store, dict(store), wanted) for o, store, wanted in stores]
        self._lists = [(items, tuple(items)) for items in lists]
        self.registrations = abc.get_cache_token()  # another one after a class has been registered anywhere
        self.functions = {fn: _parts(fn) for fn in functions}
        self._raising = raising()
        # Classes that have attributes whose values do not count are compared entry by entry, and so are their bases.
        self._open = [cls for cls in self._classes if any(id(base) in self._loose for base in cls.__mro__)]
        self._entries = {base: _store(base) for cls in self._open for base in cls.__mro__ if can_change(base)}
        self._errors = cpython.object_cell(settings(None))  # settings under which it is as then
        self.native = has_versions()
        self._named = _named(entries) if self.native and has_entries() else {}
        words = self._read()  # before what they stand for is looked at
        self.classes = {cls: class_token(cls, names, trust) for cls in self._classes}
        self.abstract = abstract
        self.leaves: list[tuple[type, str, Any, bool]] = []  # (class, attribute, value, whether compared by value)
        self._words = words
        self.quick = CellType(_never)  # whose contents ``same`` calls
        self._settled = False

    def __bool__(self) -> bool:
        return bool(self.classes or self._stores or self._lists or self.abstract or self._named)

    def has_entry(self, store: dict[str, Any], name: str) -> bool:
        """Whether the value of *name* in *store* is compared here."""
        return id(store) in self._named and name in self._named[id(store)].known

    @property
    def absences(self) -> list[tuple[Any, frozenset[str]]]:
        """(object, names that it has not), for those of the stores of which no more counts."""
        return [(owner, wanted) for owner, _, _, _, wanted in self._stores if isinstance(wanted, frozenset)]

    def _read(self) -> bytes:
        """The words for the native comparison, of the state as it is now."""
        if not self.native:
            return b""
        same = [cpython.type_field(cls) for cls in self._classes]
        same += [cpython.bases_field(cls) for cls in self._open]
        same += [_version_field(cls) for cls in self._classes if cls not in self._open]
        for fn, parts in self.functions.items():
            same += cpython.function_fields(fn, parts)
        for items, known in self._lists:
            same += cpython.list_fields(items, known)
        for named in self._named.values():
            same += cpython.entry_fields(named.store, named.now)
        words = [ctypes.addressof(self._errors), len(same), *chain.from_iterable(same)]
        words.append(len(self._entries) + len(self._stores))
        dicts = [(None, type(None), store, store, self._loose.get(id(cls), ())) for cls, store in self._entries.items()]
        dicts += [(*found[:4], self._loose.get(id(found[2]), ())) for found in self._stores]
        for owner, kind, store, now, loose in dicts:
            words += [0 if owner is None else id(owner), id(kind), id(store), len(now)]
            words += [word for key, part in now.items() for word in (id(key), 0 if key in loose else id(part))]
        return array("q", words).tobytes()

    def same(self) -> bool:
        """Whether all that is pinned is known to be as it was."""
        return self.quick.cell_contents()

    def settle(self) -> bool:
        """Whether all that counts is as it was, though something else may have changed."""
        with _SETTLING:  # what one thread notes is kept by what it has found, and not by what another one has
            return self._settle()

    def _settle(self) -> bool:
        self._compile_once_asked_again()
        errors = settings(None)
        if errors is not self._errors[0]:
            if raising() is not self._raising:
                return False
            self._errors[0] = errors
            if self.same():
                return True
        if self.abstract and self.registrations != abc.get_cache_token():
            return False
        if not (self._functions_hold() and self._stores_hold() and self._lists_hold() and self._named_hold()):
            return False
        words = self._read()  # before what they stand for is looked at
        if not self._classes_hold():
            return False
        self._words = words
        if self.quick.cell_contents is not _never:
            self._compile()
        return True

    def _compile_once_asked_again(self) -> None:
        """Have ``same`` compiled from the second time on: a state that is asked for once does without it."""
        if self.native and self._settled and self.quick.cell_contents is _never:
            try:
                self._compile()
            except Exception:  # no such target, an LLVM that reads the text otherwise
                self.native = False
        self._settled = True

    def _compile(self) -> None:
        """Have ``same`` compare with the words; the one before lives until the last call of it returns."""
        self.quick.cell_contents = comparer()(self._words)

    def _functions_hold(self) -> bool:
        """Whether the functions have their code and their defaults."""
        return all(getattr(fn, name) is part for fn, parts in self.functions.items() for name, part in parts.items())

    def _stores_hold(self) -> bool:
        """Whether the dicts are those of their owners, and what counts of them is as it was; notes how they are."""
        for k, (owner, kind, store, entries, names) in enumerate(self._stores):
            if owner is not None and (type(owner) is not kind or dict_of(owner) is not store):
                return False
            loose = self._loose.get(id(store), ())
            if not (
                _alike(store, entries, loose) if names is None
                else names.holds(store) if isinstance(names, ReadNames)
                else names.isdisjoint(store)
            ):  # fmt: skip
                return False
            self._stores[k] = owner, kind, store, dict(store), names
        return True

    def _lists_hold(self) -> bool:
        """Whether the lists have the same items."""
        return all(same_items(items, before) for items, before in self._lists)

    def _named_hold(self) -> bool:
        """Whether the entries of modules have the values that count; notes those that they have."""
        for named in self._named.values():
            now = {name: named.store.get(name, MISSING) for name in named.known}
            if not all(_unchanged(now[name], *known) for name, known in named.known.items()):
                return False
            named.now = now
        return True

    def _classes_hold(self) -> bool:
        """Whether lookups in the classes find what they found, and values of theirs are as they were."""
        return all(class_token(cls, self._names, self.trust) == parts for cls, parts in self.classes.items()) and all(
            _unchanged(lookup(cls, name), value, by_value) for cls, name, value, by_value in self.leaves
        )


def _named(entries: Iterable[tuple[dict[str, Any], str, Any, bool]]) -> dict[int, _Named]:
    """The *entries* that can be compared natively, by the ids of their dicts."""
    found: dict[int, _Named] = {}
    for store, name, value, by_value in entries:
        own = found.setdefault(id(store), _Named(store, {}, {}))
        name = sys.intern(name)
        if len(cpython.entry_fields(store, {name: value})) > 1:
            own.known[name], own.now[name] = (value, by_value), value
    return {key: own for key, own in found.items() if own.known}


def _never() -> bool:
    return False


def _unchanged(now: Any, value: Any, by_value: bool) -> bool:
    return now is value or (by_value and unchanged(now, value))


def _alike(store: dict[Any, Any], known: dict[Any, Any], loose: Collection[str]) -> bool:
    pairs = zip(store.items(), known.items(), strict=False)
    return len(store) == len(known) and all(
        (k is j or (is_leaf(j) and unchanged(k, j))) and (v is w or j in loose or (is_leaf(w) and unchanged(v, w)))
        for (k, v), (j, w) in pairs
    )


def _parts(fn: FunctionType) -> dict[str, Any]:
    """The attributes of a function that count, by name."""
    parts: dict[str, Any] = {"__code__": fn.__code__}
    if fn.__defaults__:
        parts["__defaults__"] = fn.__defaults__
    if fn.__kwdefaults__ is None and fn.__code__.co_kwonlyargcount:
        parts["__kwdefaults__"] = None
    return parts


MISSING = object()


def context_value(variable: ContextVar[Any]) -> Any:
    """The value of a context variable in the context of this thread; MISSING where it has none."""
    try:
        return variable.get()
    except LookupError:
        return MISSING


def lookup(cls: type, name: str) -> Any:
    """The attribute of the class or its bases under *name*, as stored (descriptors are not invoked)."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def home(cls: type, name: str) -> type | None:
    """The class, or the first of its bases, that has the attribute itself."""
    return next((base for base in cls.__mro__ if name in base.__dict__), None)


# ---- classes


def can_change(cls: type) -> bool:
    """Whether attributes of the class can be set."""
    return bool(cls.__flags__ & HEAP_TYPE) and not cls.__flags__ & IMMUTABLE


_library_tokens: dict[type, tuple[int, Hashable]] = {}


def class_token(cls: type, names: Container[str], trust: Trust) -> Hashable:
    """A hashable for what lookups in a class find: its order of bases, special methods, and names that count."""
    parts: list[Hashable] = [identity(type(cls))]
    for base in cls.__mro__:
        parts.append(identity(base))
        if can_change(base):
            parts.append(_library_token(base, names) if trust.cls(base) else _user_token(base, names))
    return tuple(parts)


def _user_token(cls: type, names: Container[str]) -> Hashable:
    """Special methods and descriptors by identity; of values, which are parts of the state, that they are there."""
    found: list[Hashable] = []
    for name, value in cls.__dict__.items():
        if name.startswith("__") and name.endswith("__"):
            if name not in _DESCRIPTIVE or name in names:
                found.append((name, state_token(value) if is_leaf(value) else identity(value)))
        elif name in names and not name.startswith("_abc_"):
            found.append((name, identity(value)) if hasattr(type(value), "__get__") else name)
    return tuple(found)


def _library_token(cls: type, names: Container[str]) -> Hashable:
    """The functions and descriptors of a library's class by identity, and plain values that the code names."""
    version = _version_field(cls)[1] if has_versions() else _NEVER
    known = _library_tokens.get(cls)
    if known is None or known[0] != version or version == _NEVER:
        parts = cls.__dict__.items()
        found = tuple([(n, identity(v)) for n, v in parts if callable(v) or hasattr(type(v), "__get__")])
        known = _library_tokens[cls] = version, found
    values = [(n, state_token(v)) for n, v in cls.__dict__.items() if n in names and is_leaf(v)]
    return (known[1], *values)


# ---- the native comparison


def _version_field(cls: type) -> cpython.Field:
    at, version = cpython.version_field(cls)
    return at, version or _NEVER


def _store(cls: type) -> dict[str, Any]:
    """The dict of a class itself."""
    return gc.get_referents(cls.__dict__)[0]
