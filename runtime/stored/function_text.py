"""The text of a function and of all that it may read: equal in two processes only where it computes the same.

Everything behind the names in the code counts, whether a run reads it or not: code by its instructions, constants and
names; functions by code, defaults, attributes, and what stands behind the names that they use; containers by their
contents; numbers by their bits. Arrays count by dtype, shape and layout: they are inputs, read anew in each call, and
:attr:`FunctionText.arrays` has them in the order in which they are met. A module counts by what it has under any name
in the code. Libraries (NumPy, SciPy, the standard library) have versions, so only what they have under these names is
looked at, and is named.

Classes of the user's count by their module, name and bases, and by what they have under any name in the code, or as
special methods; objects of them by their class and the attributes under any such name; enumerations by all of their
members, too.  Where code is a constant, its
texts are names, too, since ``getattr`` may be given them.

Whatever is not known to be described in full by its text raises :class:`NotStoredError`: objects with state in C or
with a ``__getattr__``, C functions of unknown modules, generators.  That says nothing of whether the function is pure:
this is known from its recording, and ``keep.py`` checks that all that the recording relies on stands in the text.
"""

from __future__ import annotations

import abc
import enum
import functools
import types
from collections.abc import Callable, Sequence
from opcode import opmap
from typing import Any

import numpy as np

from ..disk.encoding import encode
from ..memo import MEMO
from ..state.c_state import keeps_c_state
from ..wrapper import Wrapper
from .library_text import (
    DISPATCHER,
    HEAP_TYPE,
    OURS,
    SIMPLE,
    NotStoredError,
    array_text,
    callable_text,
    class_text,
    code_of,
    described,
    is_library,
    is_of_library,
    late_parts,
    library_of,
    module_name,
    ufunc_text,
    version_of,
)

_MOST = 4096  # values
_ABSENT = ("absent",)
_REFUSED = {opmap[name] for name in ("IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")}
_FORMATS = {code for name, code in opmap.items() if name.startswith("FORMAT_")}
_OF_TEXTS = ("__repr__", "__str__", "__format__")
_SETS = {opmap[name] for name in ("BUILD_SET", "SET_ADD", "SET_UPDATE")}
_GENERATORS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
_BY_OTHER_NAMES = frozenset((  # by which code may reach what it does not name
    "getattr", "attrgetter", "methodcaller", "__getattribute__", "__dict__", "vars", "getattr_static", "getmembers",
))  # fmt: skip
_METACLASSES = (type, abc.ABCMeta)
_PLAIN_BASES = ("abc", "typing")  # modules of classes that keep nothing in objects
_HOOKS = ("__getattr__", "__getattribute__")
_OF_FUNCTIONS = ("__doc__", "__module__", "__name__", "__qualname__")  # which count where the code names them
_CONSTRUCTORS = frozenset(("__init__", "__new__", "__post_init__", "__set_name__"))
# Entries of classes that count only where the code names them: descriptions, and what is run by name alone.
_DESCRIPTIVE = frozenset((
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__orig_bases__",
    "__parameters__", "__type_params__", "__dataclass_fields__", "__dataclass_params__", "__repr__", "__str__",
    "__format__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__",
    "__sizeof__", "__dir__", "__init_subclass__", "__class_getitem__", "__getnewargs__", "__getnewargs_ex__",
    "__replace__", "__bytes__", "__abstractmethods__",
))  # fmt: skip
# Of an enumeration, how it finds what is none of its members.
_OF_OTHERS = ("_missing_", "_boundary_")
# What a member of an enumeration is as a plain value.
_PLAIN_MEMBERS: dict[type, Callable[[Any], Any]] = {
    int: int.__index__, float: float.__float__, complex: complex.__complex__,
    str: lambda x: str.__getitem__(x, slice(None)), bytes: lambda x: bytes.__getitem__(x, slice(None)),
}  # fmt: skip
_OF_RULES = f"{OURS}runtime.transforms."


def _is_nan(x: Any) -> bool:
    return isinstance(x, (float, complex, np.inexact)) and bool(x != x)


class FunctionText:
    """The text of *fn* and of *objects* among its arguments.

    Raises:
        NotStoredError: something that they read has none.
    """

    def __init__(self, fn: Callable[..., Any], objects: Sequence[Any] = ()) -> None:
        names: frozenset[str] = frozenset()
        made: frozenset[int] = frozenset()
        while True:  # until the names are those of all code that they lead to
            walk = _Walk(names, made)
            roots = tuple([walk.value(root) for root in (fn, *objects)])
            if walk.names.keys() == names and walk.made.keys() == made:
                break
            names, made = frozenset(walk.names), frozenset(walk.made)
        self.text = encode((roots, tuple(walk.parts)))
        self.arrays = walk.arrays
        self.names = names
        self._values = walk.held

    def counts_in_classes(self, name: str) -> bool:
        """Whether the text has what stands under a name in classes."""
        return name in self.names or _is_special(name)

    def has(self, value: Any) -> bool:
        """Whether this very object has been met."""
        return id(value) in self._values


class _Walk:
    def __init__(self, names: frozenset[str], made: frozenset[int]) -> None:
        self.among = sorted(names)  # names that count in modules, classes and objects
        # Sets in the order of their growth: the names; those that instructions have; ids of classes of which the code
        # may make objects.
        self.names, self.spelled, self.made = dict.fromkeys(names), dict[str, None](), dict[int, None]()
        self._known, self._known_made = names, made
        self.parts: list[Any] = []  # the texts of values that can be met twice
        self.arrays: list[np.ndarray] = []
        self.held: dict[int, Any] = {}  # all that was met
        self._places: dict[int, int] = {}
        self._hash_method: Any = None  # the one that is being described
        self._hash_methods: set[int] = set()

    def value(self, x: Any) -> Any:
        """The text of *x*, as a plain value."""
        if len(self.held) > _MOST:
            raise NotStoredError(f"it reads more than {_MOST} values")
        self.held[id(x)] = x
        kind = type(x)
        if _is_nan(x):  # containers ask which one it is
            return self._met(x, kind)
        if kind in SIMPLE:
            return x if kind is not str else ("str", x)
        if x is NotImplemented or x is ...:
            return "constant", repr(x)
        if isinstance(x, type) and x.__flags__ & HEAP_TYPE:
            self.made.update(dict.fromkeys(map(id, x.__mro__)))
        if issubclass(kind, np.generic) and kind is x.dtype.type and x.dtype.kind in "fiubc":
            return "scalar", x.dtype.str, x.tobytes()
        return self._met(x, kind)

    def _met(self, x: Any, kind: type) -> Any:
        self.held[id(x)] = x
        if id(x) in self._hash_methods:
            raise NotStoredError("it calls a `__hash__`, whose answer is that of one process")
        place = self._places.get(id(x))
        if place is None:
            place = self._places[id(x)] = len(self.parts)
            self.parts.append(None)
            self.parts[place] = self._part(x, kind)
        return "part", place

    def _part(self, x: Any, kind: type) -> Any:
        if _is_nan(x):
            return "nan", kind.__name__, np.asarray(x).tobytes()
        if kind is types.FunctionType:
            return self._function(x)
        if kind is types.ModuleType:
            return self._module(x)
        if kind is np.ndarray:
            return self._array(x)
        if kind is tuple or kind is list:
            return kind.__name__, *[self.value(item) for item in x]
        if kind is dict:
            return "dict", *[(self._key(key), self.value(item)) for key, item in x.items()]
        if kind is frozenset or kind is set:
            return kind.__name__, *[self._key(item) for item in x]  # in their order, which is that of this process
        if kind is range or kind is slice:
            return kind.__name__, *[self.value(part) for part in (x.start, x.stop, x.step)]
        if kind is functools.partial:
            return "partial", self.value(x.func), self.value(x.args), self.value(x.keywords), self._attributes(x)
        if issubclass(kind, Wrapper) and kind.__module__.startswith(OURS):
            return "ours", kind.__qualname__, self.value(x._tracegrad_settings()), self.value(x.__wrapped__)
        if kind.__module__.startswith(OURS) and kind.__name__ == "BoundFunction":
            return "method", self.value(x.__func__), self.value(x.__self__)
        if kind.__module__.startswith(_OF_RULES) and hasattr(kind, "__dataclass_fields__"):
            told = getattr(kind, "_tracegrad_text", None)
            parts = [getattr(x, name) for name in kind.__dataclass_fields__] if told is None else told(x)
            return "rule", kind.__qualname__, *map(self.value, parts)
        if kind is types.CodeType:
            return self._code(x)
        if kind is np.ufunc:
            return ufunc_text(x)
        if isinstance(x, np.dtype) and x.isbuiltin == 1:
            return "dtype", x.str
        if kind is DISPATCHER:
            return "dispatcher", self._library_code(x._implementation)
        if kind is types.BuiltinFunctionType and (x.__self__ is None or type(x.__self__) is types.ModuleType):
            return self._library_code(x)
        if kind is types.MethodType:
            return "method", self.value(x.__func__), self.value(x.__self__)
        if isinstance(x, enum.Enum) and type(kind) is enum.EnumMeta:
            return self._member(x)
        return self._class(x) if isinstance(x, type) else self._object(x, kind)

    def _key(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        if any(type(part) not in SIMPLE or _is_nan(part) for part in parts):
            raise NotStoredError(f"it reads a dict or set with {described(key)} among its keys")
        self.held[id(key)] = key
        return key

    def _array(self, x: np.ndarray) -> Any:
        found = array_text(x)
        self.arrays.append(x)
        return found

    # ---- code

    def _function(self, fn: types.FunctionType) -> Any:
        if library_of(code_of(fn).co_filename):
            return self._library_code(fn)
        cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
        spaces = fn.__globals__, fn.__builtins__  # type: ignore[attr-defined]
        names = sorted(_names(fn.__code__))
        hashes = fn is self._hash_method
        return (
            "function",
            self._code(fn.__code__),
            self.value(fn.__defaults__),
            self.value(fn.__kwdefaults__),
            self._attributes(fn),
            tuple([(name, self.value(getattr(fn, name))) for name in _OF_FUNCTIONS if name in self._known]),
            tuple([(name, self._cell(cell)) for name, cell in cells]),
            tuple([(name, self._named(name, *spaces, hashes)) for name in names]),
        )

    def _attributes(self, x: Any) -> Any:
        return tuple([(name, self.value(part)) for name, part in x.__dict__.items() if name != MEMO])

    def _cell(self, cell: Any) -> Any:
        try:
            return self.value(cell.cell_contents)
        except ValueError:
            return _ABSENT

    def _named(self, name: str, space: dict[str, Any], provided: dict[str, Any], hashes: bool) -> Any:
        for where in (space, provided):
            if name in where:
                if hashes and where[name] is hash:
                    self.held[id(hash)] = hash
                    return ("hash",)
                return where is space, self.value(where[name])
        return _ABSENT

    def _code(self, code: types.CodeType) -> Any:
        if code.co_flags & _GENERATORS and not _is_expression(code):
            raise NotStoredError(f"`{code.co_name}` is a generator or coroutine")
        steps = set(code.co_code[::2])
        if not steps.isdisjoint(_REFUSED):
            raise NotStoredError(f"`{code.co_name}` imports modules, or changes globals")
        if not steps.isdisjoint(_SETS) or "keys" in code.co_names:
            raise NotStoredError(f"`{code.co_name}` may make sets, whose order is another in each process")
        if not steps.isdisjoint(_FORMATS):
            self.names.update(dict.fromkeys(_OF_TEXTS))
        self.spelled.update(dict.fromkeys(code.co_names))
        self.names.update(dict.fromkeys(code.co_names))
        self.names.update(dict.fromkeys([x for x in code.co_consts if type(x) is str and x.isidentifier()]))
        return (
            "code", code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
            code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_qualname,
            getattr(code, "co_exceptiontable", b""), tuple([self._constant(x) for x in code.co_consts]),
        )  # fmt: skip

    def _constant(self, x: Any) -> Any:
        if type(x) is types.CodeType:
            return self._code(x)
        if type(x) is tuple:
            return "tuple", *[self._constant(part) for part in x]
        return self.value(x)

    # ---- classes of the user's, and objects of them

    def _class(self, cls: type) -> Any:
        if (known := class_text(cls)) is not None:
            return known
        if type(cls) not in (*_METACLASSES, enum.EnumMeta) or not cls.__flags__ & HEAP_TYPE:
            raise NotStoredError(f"it reads {described(cls)}")
        found: list[Any] = ["class", *map(self.value, (cls.__module__, cls.__name__, cls.__qualname__))]
        found += [self._met(base, type(base)) for base in cls.__mro__[1:]]
        members = cls._member_map_ if isinstance(cls, enum.EnumMeta) else {}
        found += [(name, self.value(member)) for name, member in members.items()]
        for name, entry in sorted(cls.__dict__.items()):
            if name in members or (members and _is_of_enums(name, entry)):
                continue
            if name in _OF_TEXTS and name in self._known:
                found.append((name, self._attempt(self._entry, entry)))
            elif name in self._known or (members and name in _OF_OTHERS):
                found.append((name, self._entry(entry)))
            elif _is_special(name) and (name not in _CONSTRUCTORS or id(cls) in self._known_made):
                text = self._hash if name == "__hash__" else self._entry
                found.append((name, self._attempt(text, entry)))
        return tuple(found)

    def _attempt(self, text: Callable[[Any], Any], entry: Any) -> Any:
        """The text of an attribute or special method, which the code may not lead to.  Of one that has no text nothing
        has been met, so that ``keep.py`` refuses a recording that reads it."""
        grown: tuple[Any, ...] = (
            self.parts, self.arrays, self.held, self._places, self.names, self.spelled, self.made,
        )  # fmt: skip
        before = list(map(len, grown))
        try:
            return text(entry)
        except NotStoredError:
            for known, count in zip(grown, before, strict=True):
                if isinstance(known, dict):
                    while len(known) > count:
                        known.popitem()
                else:
                    del known[count:]
            return ("unknown",)

    def _hash(self, x: Any) -> Any:
        """The text of a ``__hash__`` that no code names.  Its answers stay in lookups, so they may be those of this
        process; what leads to it otherwise has no text."""
        hidden = id(x) not in self._places and self._hash_method is None and self._known.isdisjoint(_BY_OTHER_NAMES)
        if type(x) is not types.FunctionType or not hidden:
            return self._entry(x)
        self.held[id(x)] = self._hash_method = x
        self._hash_methods.add(id(x))
        try:
            return self._function(x)
        finally:
            self._hash_method = None

    def _entry(self, x: Any) -> Any:
        """The text of what a class has under a name."""
        kind = type(x)
        self.held[id(x)] = x
        if kind is property:
            return "property", self.value(x.fget), self.value(x.fset), self.value(x.fdel)
        if kind is staticmethod or kind is classmethod:
            return kind.__name__, self.value(x.__func__)
        if kind is functools.cached_property:
            return "cached", self.value(x.func), x.attrname
        if kind is types.MemberDescriptorType:
            return ("slot",)
        if kind.__module__ in ("_collections", "collections") and kind.__name__ == "_tuplegetter":
            return "field", x.__reduce__()[1][0]
        if kind is types.FunctionType or isinstance(x, Wrapper | type) or not hasattr(kind, "__get__"):
            return self.value(x)
        raise NotStoredError(f"it reads a class with {described(x)} in it")

    def _member(self, x: enum.Enum) -> Any:
        """The text of a member of an enumeration of the user's, which may be a number or a text as well."""
        kind: Any = type(x)
        plain = _PLAIN_MEMBERS.get(kind._member_type_)
        slots = any(type(entry) is types.MemberDescriptorType for cls in kind.__mro__ for entry in vars(cls).values())
        whole = vars(x).keys() >= {"_name_", "_value_"}  # else it was given another dict
        if slots or not whole or (plain is None and keeps_c_state(kind)):
            raise NotStoredError(f"it reads {described(x)}")
        names = [name for name in x.__dict__ if name in self._known]  # others may be set
        own = [(name, self._attempt(self.value, x.__dict__[name])) for name in names]
        held = None if plain is None else self.value(plain(x))
        return "member", self.value(x._name_), self.value(x._value_), held, self._met(kind, type), *own

    def _object(self, x: Any, kind: type) -> Any:
        own = [cls for cls in kind.__mro__ if cls is not object]
        fields = getattr(kind, "_fields", None) if issubclass(kind, tuple) else None
        if fields is not None:  # a named tuple
            if kind.__mro__[-2:] != (tuple, object) or getattr(x, "__dict__", None):
                raise NotStoredError(f"it reads {described(x)}")
            return "named tuple", self._met(kind, type), *[self.value(item) for item in tuple.__iter__(x)]
        ours = kind.__module__.partition(".")[0] == OURS[:-1]
        if (
            ours
            or not all(map(_keeps_attributes, own))
            or keeps_c_state(kind)
            or any(hook in cls.__dict__ for cls in own for hook in _HOOKS)
        ):
            raise NotStoredError(f"it reads {described(x)}")
        shown = [cls.__dict__["__dict__"] for cls in own if "__dict__" in cls.__dict__]
        if any(type(one) is not types.GetSetDescriptorType for one in shown):
            raise NotStoredError(f"it reads {described(x)}")
        store = x.__dict__ if shown else {}
        every = "__dict__" in self._known  # in their order, too
        names = [name for name in (store if every else self.among) if name in store]
        found: list[Any] = [(name, self._attempt(self.value, store[name])) for name in names]
        for cls in own:
            for name, entry in cls.__dict__.items():
                if type(entry) is types.MemberDescriptorType and name in self._known:
                    found.append((name, cls.__qualname__, self._slot(entry, x)))
        return "object", self._met(kind, type), *found

    def _slot(self, entry: Any, x: Any) -> Any:
        try:
            part = entry.__get__(x)
        except AttributeError:
            return _ABSENT
        return self._attempt(self.value, part)

    # ---- modules and libraries

    def _module(self, module: types.ModuleType) -> Any:
        space = module.__dict__
        library = is_library(module)
        if not library and "__getattr__" in space:
            raise NotStoredError(f"the module {module_name(module)} has a __getattr__")
        root = module_name(module).partition(".")[0]
        found: list[Any] = ["module", module_name(module), library, version_of(root) if library else None]
        for name in self.among:
            if name not in space and library and name in self.spelled and name in late_parts(module_name(module)):
                getattr(module, name, None)
            if name in space:
                found.append((name, self.value(space[name])))
        return tuple(found)

    def _library_code(self, x: Any) -> Any:
        return callable_text(x, lambda fn: tuple([self._attempt(self._cell, cell) for cell in fn.__closure__ or ()]))


def _names(code: types.CodeType) -> set[str]:
    """The names in *code* and in the code within it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            found |= _names(constant)
    return found


def _is_expression(code: types.CodeType) -> bool:
    return code.co_name == "<genexpr>"


def _is_special(name: str) -> bool:
    """Whether a name of classes counts whether code names it or not."""
    return name.startswith("__") and name.endswith("__") and name not in _DESCRIPTIVE


def _is_of_enums(name: str, entry: Any) -> bool:
    """Whether an entry of an enumeration is of the machinery, which its members decide."""
    own = isinstance(entry, types.FunctionType | staticmethod | classmethod | property) or name in _OF_OTHERS
    return name.startswith("_") and not own


def _keeps_attributes(cls: type) -> bool:
    """Whether all that a class may keep in objects is in the text of these: it is of the user's, or a plain base."""
    plain = cls.__module__ in _PLAIN_BASES or not is_of_library(cls)
    return plain and type(cls) in _METACLASSES and bool(cls.__flags__ & HEAP_TYPE)
