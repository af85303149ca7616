"""The text of what a logged run has read, and how another process reads it again.

A log (``runtime/logged``) is a list of *places*, each a part of an object that an earlier place has given: a global of
a function, an attribute, an item, an entry of a class.  The text of what stands in a place is the value, where that is
immutable; of an object it is what can't be read off its other places (the code of a function, the keys of a dict, the
bases of a class), and its number, since one object in two places is another state than two.  A process in which each
place has the text that it had in the run would do what the run did: nothing else was read.

:class:`Reading` is both the writer and the reader of texts, so no text is described twice.  It runs no code of the
user's: places are looked up in namespaces and slots.
"""

from __future__ import annotations

import abc
import builtins
import enum
import functools
import importlib
import operator
import sys
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...tracer.ir.class_flags import HEAP_TYPE
from ..disk.encoding import EncodingError, encode
from ..state.set_order import hashes_here
from ..wrapper import Wrapper
from .library_text import (
    DISPATCHER,
    OURS,
    SIMPLE,
    NotStoredError,
    array_text,
    callable_text,
    class_text,
    code_of,
    described,
    is_library,
    late_parts,
    library_of,
    module_name,
    ufunc_text,
    version_of,
)

Place = tuple[Any, ...]  # (how, number of the object, name or key)
Reads = tuple[tuple[str, ...], tuple[tuple[Place, bytes], ...]]  # names that count in classes, (place, text) in order
ABSENT: Any = type("Absent", (), {})()
_GENERATED = "<string>"  # the file of code that dataclasses and named tuples make
_METACLASSES = (type, abc.ABCMeta, enum.EnumMeta)
_C_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
                  types.GetSetDescriptorType, types.MemberDescriptorType)  # fmt: skip
_CONTAINERS = (list, tuple, deque, dict, OrderedDict, defaultdict, Counter, set, frozenset)
#: classes of which all stands in places
_OF_PARTS = (types.MethodType, property, staticmethod, classmethod, object, functools.partial)
_OPENED = (types.SimpleNamespace, ChainMap, UserDict, UserList)  # whose objects are no more than their attributes
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_OF_RULES = f"{OURS}runtime.transforms."
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_DESCRIPTIONS = frozenset((
    "__doc__", "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__firstlineno__",
    "__static_attributes__",
))  # fmt: skip
_ALWAYS = "_fields"  # which named tuples are told by


def read_again(reads: Reads, roots: Sequence[Any]) -> list[Any] | None:
    """The arrays and numbers outside, in the order of the places, where each place has its text; else None.  *roots*:
    the function, and the objects among the arguments."""
    names, steps = reads
    reading = Reading(names, roots)
    try:
        for place, text in steps:
            if reading.read(place)[1] != text:
                return None
    except (NotStoredError, EncodingError, RuntimeError):  # nested too deeply, or changed by another thread meanwhile
        return None
    return reading.inputs


class Reading:
    """Objects by their numbers, as places give them; and the texts of what is in the places."""

    def __init__(self, names: Iterable[str], roots: Sequence[Any]) -> None:
        """:param names: names that are looked up in classes."""
        self.names = frozenset(names)
        self.objects: list[Any] = []
        self.inputs: list[Any] = []  # arrays, and numbers of the run
        self._roots = roots
        self._numbers: dict[int, int] = {}  # id of an object -> its number
        self._shared: dict[int, tuple[int, Any]] = {}  # id of a namespace or cell -> its number, itself

    def stands_for(self, other: Any, x: Any) -> bool:
        """Let the number of *x* be that of an *other* object, too."""
        return self._numbers.setdefault(id(other), self._numbers[id(x)]) == self._numbers[id(x)]

    def number(self, x: Any) -> int | None:
        """The number of an object that has been met."""
        return self._numbers.get(id(x))

    def read(self, place: Place) -> tuple[Any, bytes]:
        """(what stands in a *place*, or ``ABSENT``; its text).

        Raises:
            NotStoredError: it has none.
        """
        how, owner, key = place
        if how == "number":
            x = self.at(key)
            fits = _is_number(x, owner)
            if fits:
                self.inputs.append(float(x))
            return x, encode((how, fits, type(x).__name__))
        x = self.at(place)
        return x, encode(self.text(x))

    def at(self, place: Place) -> Any:
        """The value in a *place*, or ``ABSENT``."""
        how, owner, key = place
        if how == "root":
            return self._roots[owner]
        if how == "import":
            return _imported(key)
        return _WAYS[how](self.objects[owner], key)

    # ---- texts

    def text(self, x: Any) -> Any:
        """The text of *x*, as a plain value; an object gets a number."""
        kind = type(x)
        if x is ABSENT:
            return ("absent",)
        if kind in SIMPLE and x == x:
            return "value", x
        if x is NotImplemented or x is ...:
            return "constant", repr(x)
        if _is_scalar(x, kind) and x == x:
            return "scalar", x.dtype.str, x.tobytes()
        if issubclass(kind, np.dtype) and x.isbuiltin == 1:
            return "dtype", x.str
        if kind in (tuple, frozenset, range, slice) and _is_plain(x):
            return self._plain(x, kind)
        known = self._numbers.get(id(x))
        if known is not None:
            return "known", known
        self._numbers[id(x)] = len(self.objects)
        self.objects.append(x)
        return "new", self._head(x, kind)

    def _which(self, x: Any) -> int:
        """The number of a namespace or cell among those of functions."""
        return self._shared.setdefault(id(x), (len(self._shared), x))[0]

    def _plain(self, x: Any, kind: type) -> Any:
        """The text of an immutable container."""
        if kind is range or kind is slice:
            return kind.__name__, *[self.text(part) for part in (x.start, x.stop, x.step)]
        return kind.__name__, *self._elements(x)

    def _elements(self, x: Any) -> list[Any]:
        """The texts of the elements, those of a set whose order is one of this process by what they are."""
        found = [self.text(part) for part in x]
        return sorted(found, key=encode) if isinstance(x, set | frozenset) and hashes_here(x) else found

    def _head(self, x: Any, kind: type) -> Any:
        """The text of an object beside its parts, which are in places of their own."""
        if kind is types.FunctionType:
            return self._function(x)
        if issubclass(kind, type):
            return self._class(x)
        if issubclass(kind, types.ModuleType):
            return self._module(x)
        if kind is np.ndarray:
            return self._array(x)
        if kind in _CONTAINERS:
            return self._container(x, kind)
        if kind in _OF_PARTS:
            return (kind.__name__,)
        if issubclass(kind, Wrapper):
            return "ours", kind.__module__, kind.__qualname__, self._setting(x._tracegrad_settings())
        if kind.__name__ == "BoundFunction" and kind.__module__.startswith(OURS):
            return "bound", self._setting(x.__func__._tracegrad_settings())
        return self._in_c(x, kind) or self._named(x, kind) or self._instance(x, kind)

    def _container(self, x: Any, kind: type) -> Any:
        if kind is list or kind is tuple:
            return kind.__name__, len(x)
        if kind is deque:
            return "deque", len(x), x.maxlen
        if issubclass(kind, dict):
            return kind.__name__, *[self.text(key) for key in x]
        if not all(map(_is_plain, x)):
            raise NotStoredError("it reads a set of objects")
        return kind.__name__, *self._elements(x)

    def _setting(self, x: Any) -> Any:
        """The text of a setting of a function that we have made of another one, in full."""
        kind = type(x)
        if kind in (tuple, list):
            return kind.__name__, *map(self._setting, x)
        if kind is dict:
            return "dict", *[(self._setting(key), self._setting(value)) for key, value in x.items()]
        if kind.__module__.startswith(_OF_RULES) and hasattr(kind, "__dataclass_fields__"):
            told = getattr(kind, "_tracegrad_text", None)
            parts = [getattr(x, name) for name in kind.__dataclass_fields__] if told is None else told(x)
            return "rule", kind.__qualname__, *map(self._setting, parts)
        if not _is_plain(x):
            raise NotStoredError(f"it reads a function of ours with {described(x)}")
        return self.text(x)

    def _in_c(self, x: Any, kind: type) -> Any:
        """The text of a function in C, or a NaN; None for others."""
        if kind is np.ufunc:
            return ufunc_text(x)
        if kind is DISPATCHER:
            return "dispatcher", callable_text(x._implementation, self._cells)
        if kind is types.BuiltinFunctionType and isinstance(x.__self__, type):
            return "builtin of a class", self.text(x.__self__), x.__name__
        if kind is types.BuiltinFunctionType and (x.__self__ is None or type(x.__self__) is types.ModuleType):
            return callable_text(x, self._cells, frozenset())
        if kind in _GETTERS and _is_plain(x.__reduce__()[1]):
            return kind.__name__, self.text(x.__reduce__()[1])
        if kind in _C_DESCRIPTORS:
            return "descriptor", self.text(x.__objclass__), x.__name__
        if kind is float or kind is complex or _is_scalar(x, kind):
            return "nan", kind.__name__, np.asarray(x).tobytes()
        return None

    def _array(self, x: np.ndarray) -> Any:
        found = array_text(x)
        self.inputs.append(x)
        return found

    def _function(self, fn: types.FunctionType) -> Any:
        if library_of(code_of(fn).co_filename):
            return callable_text(fn, self._cells)
        generated = fn.__code__.co_filename == _GENERATED
        defaults = tuple([self._default(x) for x in fn.__defaults__ or ()])
        keywords = tuple([(name, self._default(x)) for name, x in (fn.__kwdefaults__ or {}).items()])
        # which namespaces and cells: what one function finds there, another one that has the same finds, too
        shared = fn.__globals__, getattr(fn, "__builtins__", None), *(fn.__closure__ or ())
        return (
            "function", self._code(fn.__code__), defaults, keywords, tuple(map(self._which, shared)),
            self._cells(fn) if generated else (),
        )  # fmt: skip

    def _default(self, x: Any) -> Any:
        return self.text(x) if _is_plain(x) else ("other",)

    def _cells(self, fn: types.FunctionType) -> tuple[Any, ...]:
        """The texts of the closure of a function that is not converted."""
        return tuple([self._content(_cell(fn, name)) for name in fn.__code__.co_freevars])

    def _content(self, x: Any) -> Any:
        kind = type(x)
        if x is ABSENT or _is_plain(x) or kind is types.FunctionType or issubclass(kind, type) or self._named(x, kind):
            return self.text(x)
        raise NotStoredError(f"it reads a function of a library that holds {described(x)}")

    def _code(self, code: types.CodeType) -> Any:
        return (
            "code", code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
            code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_qualname,
            getattr(code, "co_exceptiontable", b""), tuple([self._constant(x) for x in code.co_consts]),
        )  # fmt: skip

    def _constant(self, x: Any) -> Any:
        return self._code(x) if type(x) is types.CodeType else self.text(x)

    def _class(self, cls: type) -> Any:
        """A class by its bases, and by what kinds of things it has under the names that count."""
        if not cls.__flags__ & HEAP_TYPE and type(cls) is type:
            return "type", cls.__module__, cls.__qualname__
        if (known := class_text(cls)) is not None:
            return known
        if type(cls) not in _METACLASSES:
            raise NotStoredError(f"it reads {described(cls)}")
        entries = [(name, _shape(raw)) for name, raw in cls.__dict__.items() if self._counts(name)]
        members = cls._member_map_.items() if isinstance(cls, enum.EnumMeta) else ()
        named = [(name, self.text(_own(member, "_name_"))) for name, member in members]
        if type(cls.__dict__.get("__dict__", types.GetSetDescriptorType)) is property:
            raise NotStoredError(f"it reads {described(cls)}")
        return (
            "class", cls.__module__, cls.__qualname__, type(cls).__name__, tuple(map(self.text, cls.__mro__[1:])),
            tuple(sorted(entries)), tuple(named),
        )  # fmt: skip

    def _counts(self, name: str) -> bool:
        special = name.startswith("__") and name.endswith("__") and name not in _DESCRIPTIONS
        return special or name in self.names or name == _ALWAYS

    def _module(self, module: types.ModuleType) -> Any:
        if is_library(module):
            return "library", module.__name__, version_of(module.__name__.partition(".")[0])
        if type(module) is not types.ModuleType:
            raise NotStoredError(f"it reads {described(module)}")
        return "module", module_name(module)

    def _named(self, x: Any, kind: type) -> Any:
        """The text of an object that a library has under its name."""
        if class_text(kind) is None:
            return None
        name, module = getattr(x, "__name__", None), sys.modules.get(getattr(x, "__module__", None) or "")
        if module is None or not is_library(module):
            return None
        if type(name) is not str:
            name = next((name for name, part in module.__dict__.items() if part is x), None)
        if name is None or module.__dict__.get(name) is not x:
            return None
        return "named", module.__name__, name, version_of(module.__name__.partition(".")[0])

    def _instance(self, x: Any, kind: type) -> Any:
        if class_text(kind) is not None and kind not in _OPENED:
            raise NotStoredError(f"it reads {described(x)}")
        length = tuple.__len__(x) if issubclass(kind, tuple) else 0
        return "instance", self.text(kind), length


# ---- what stands in a place


def _is_scalar(x: Any, kind: type) -> bool:
    return issubclass(kind, np.generic) and kind is x.dtype.type and x.dtype.kind in "fiubc"


def _is_plain(x: Any, depth: int = 0) -> bool:
    """Whether *x* is immutable all the way down."""
    kind = type(x)
    if kind in SIMPLE or x is ... or x is NotImplemented or kind is range or _is_scalar(x, kind):
        return True
    if kind is tuple or kind is frozenset:
        return depth < 20 and all(_is_plain(part, depth + 1) for part in x)
    if kind is slice:
        return _is_plain(x.start) and _is_plain(x.stop) and _is_plain(x.step)
    return issubclass(kind, np.dtype)


def _is_number(x: Any, limit: int) -> bool:
    """Whether *x* may be a number of the run; *limit*: the bound of one that is an int."""
    return x == x if type(x) is float else type(x) is int and -limit <= x <= limit


def _shape(raw: Any) -> Any:
    """The text of the kind of thing that a class has under a name."""
    kind = type(raw)
    if kind.__name__ == "_tuplegetter":
        return "field", str(raw.__reduce__()[1][0])
    ways = [name for name in ("__get__", "__set__", "__delete__") if any(name in vars(base) for base in kind.__mro__)]
    return str(kind.__module__), kind.__qualname__, *ways


def _imported(name: str) -> Any:
    """The module of this name.  One that is not there yet is imported if it is a library's: the function would do so,
    and nobody sees it."""
    found = sys.modules.get(name)
    root = name.partition(".")[0]
    if found is None and (root in sys.stdlib_module_names or root in ("numpy", "scipy")):
        try:
            found = importlib.import_module(name)
        except ImportError:
            return ABSENT
    return ABSENT if found is None else found


def _name(fn: types.FunctionType, name: str) -> Any:
    """The value that code of *fn* finds under a name."""
    provided = getattr(fn, "__builtins__", vars(builtins))
    return fn.__globals__.get(name, provided.get(name, ABSENT))


def _cell(fn: types.FunctionType, name: str) -> Any:
    cell = (fn.__closure__ or ())[fn.__code__.co_freevars.index(name)]
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def _attribute(x: Any, name: str) -> Any:
    """An attribute that stands in the object itself, or is its own in C."""
    kind = type(x)
    if issubclass(kind, types.ModuleType):
        if name not in x.__dict__ and name in late_parts(module_name(x)) and is_library(x):
            getattr(x, name, None)
        return x.__dict__.get(name, ABSENT)
    if kind is types.FunctionType or kind is types.MethodType or issubclass(kind, type):
        return getattr(x, name, ABSENT)
    raw = next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)
    if type(raw) in _SLOTS:
        try:
            return raw.__get__(x)  # type: ignore[union-attr]
        except AttributeError:
            return ABSENT
    return _own(x, name)


def _own(x: Any, name: str) -> Any:
    """An entry of the namespace of an object."""
    store = getattr(x, "__dict__", None)
    return store.get(name, ABSENT) if isinstance(store, dict | types.MappingProxyType) else ABSENT


def _item(x: Any, place: int) -> Any:
    return tuple.__getitem__(x, place) if issubclass(type(x), tuple) else x[place]


def default_of(fn: types.FunctionType, name: str) -> Any:
    """The default of the parameter *name*, which is positional."""
    code, values = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][-len(values) :] if values else ()
    return dict(zip(names, values, strict=True)).get(name, ABSENT)


_WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "name": _name, "cell": _cell, "attribute": _attribute, "own": _own, "item": _item,
    "key": lambda x, key: x[key], "nth": lambda x, place: list(x.values())[place], "default": default_of,
    "part": lambda x, name: getattr(x, name, ABSENT),
    "entry": lambda cls, name: cls.__dict__.get(name, ABSENT),
    "member": lambda cls, name: cls._member_map_.get(name, ABSENT),
}  # fmt: skip
