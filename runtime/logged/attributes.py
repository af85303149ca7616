"""Loads of attributes: ``a.b`` as reads of places.

``a.b`` may find what stands in the object, what its class or a base of that has, or run a descriptor.  ``load`` goes
the way of ``object.__getattribute__``, and logs each place that decides: the entry of a class, the entry of the
object, and the absence of one where another is found behind it.
"""

from __future__ import annotations

import enum
import functools
import sys
import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ...tracer.ir.late_modules import load_part
from ...tracer.ir.own_attributes import dict_of, is_data_descriptor
from ...tracer.ir.refusals import Refusal
from ...tracer.numpy_api.hooks import hook_loaded
from ...tracer.record.reports import LOG_METHODS
from ..record.kinds import EAGER
from ..state.data_objects import is_data
from ..state.kept_cache import CACHE
from ..state.libraries import verdict
from ..state.objects import DRAWING
from ..state.pins import MISSING, can_change
from ..state.values import is_leaf
from .draws import draws
from .files import STREAMS, WRITERS
from .reads import CONTAINERS, NotClosedError, ReadLog, is_generic, is_wrapper, not_closed
from .writes import DELETED
from .written_arrays import ArraySink, fact_of

_PLAIN_DATA = (types.GetSetDescriptorType, types.MemberDescriptorType)
_THEMSELVES = (types.FunctionType, property, types.MemberDescriptorType, CACHE, functools.cached_property)  # in classes
_OF_MEMBERS = frozenset(("value", "_value_", "name", "_name_"))
_OF_WRAPPERS = frozenset(("grad", "value_and_grad"))
_OF_FUNCTIONS = frozenset(("__name__", "__qualname__", "__doc__", "__module__"))


def found_in(cls: type, name: str) -> tuple[type | None, Any]:
    """(the base of *cls* that has an entry *name*, the entry); (None, MISSING) where none has."""
    for base in cls.__mro__:
        raw = base.__dict__.get(name, MISSING)
        if raw is not MISSING:
            return base, raw
    return None, MISSING


def entry_of(run: Any, cls: type, name: str) -> tuple[type | None, Any, bool]:
    """The same, as the run has it, and whether the run has written the entry, which is no descriptor then."""
    if name not in run.class_names:
        return *found_in(cls, name), False
    for base in cls.__mro__:
        value = run.written(base, name)
        if value is not MISSING or name in base.__dict__:
            return base, base.__dict__[name] if value is MISSING else value, value is not MISSING
    return None, MISSING, False


def load(run: Any, obj: Any, name: str) -> Any:
    """``obj.name``, as converted code finds it."""
    reads: ReadLog = run.reads
    kind = type(obj)
    if kind in EAGER:
        return run.of_tensor(obj, name)
    if kind in WRITERS:
        if name not in WRITERS[kind]:
            raise not_closed(f"`.{name}` of a {kind.__name__}", Refusal.STATE_FILE)
        return getattr(obj, name)
    if kind is ArraySink:
        return fact_of(obj, name)
    if kind is types.ModuleType or issubclass(kind, types.ModuleType):
        return _of_module(run, reads, obj, name)
    if isinstance(obj, type):
        return _of_class(run, obj, name)
    if kind is super:
        return _of_super(run, obj, name)
    node = reads.node_of(obj)
    if reads.library(kind):
        return _of_library(run, reads, node, obj, kind, name)
    if not is_generic(found_in(kind, "__getattribute__")[1]):  # which `isinstance` asks, too
        raise not_closed(f"`.{name}` of a class with a `__getattribute__`")
    try:
        return load_plainly(run, obj, name)
    except AttributeError:
        if found_in(kind, "__getattr__")[0] is None:
            raise
    return run.by_hook(obj, "__getattr__", name)


def load_plainly(run: Any, obj: Any, name: str) -> Any:
    """``obj.name`` by ``object.__getattribute__``."""
    reads: ReadLog = run.reads
    kind, node = type(obj), reads.node_of(obj)
    reads.names(name)
    if isinstance(obj, enum.Enum) and name in _OF_MEMBERS:
        return _of_member(reads, node, obj, name)
    base, raw, own = entry_of(run, kind, name)
    reads.pin(kind)
    if base is not None and not own:
        pin_entry(reads, raw)
    if base is not None and not own and is_data_descriptor(raw):
        return _by_data_descriptor(run, reads, node, obj, base, name, raw)
    store = dict_of(obj)
    written = run.written(obj, name) if node is not None else MISSING
    if written is not MISSING and written is not DELETED:
        return written
    if written is MISSING and store is not None and name in store:
        if node is None:
            return store[name]
        return reads.read(node, "attr", name, store[name], f"{node.label}.{name}")
    if base is None:
        return _absent(reads, node, obj, kind, name, written is DELETED)
    if node is not None and store is not None:
        if node.kind in ("instance", "pinned"):
            reads.note_shadow(node, name)
        elif node.kind != "argument":  # a member of an enumeration
            reads.lacks_own(obj, name)
    return raw if own else bound(run, raw, obj, kind, base, name)


def pin_entry(reads: ReadLog, raw: Any) -> None:
    """Let it count whether *raw*, an entry of a class, is a descriptor: its class says so."""
    if not reads.library(type(raw)):
        reads.pin(type(raw))


def bound(run: Any, raw: Any, obj: Any, kind: type, base: type, name: str) -> Any:
    """The value that an entry *raw* of the class *base*, which is pinned, is for the object, whose class is *kind*; for
    None, that of the class itself."""
    reads: ReadLog = run.reads
    shown = reads.read_class(base, name, raw)
    if obj is None and isinstance(raw, _THEMSELVES):
        return raw
    if type(raw) is types.FunctionType:
        return types.MethodType(raw, obj)
    if type(raw) is staticmethod:
        return raw.__func__
    if type(raw) is classmethod:
        return types.MethodType(raw.__func__, kind if reads.trust.cls(kind) else run.seen(kind, kind.__name__))
    if type(raw) is functools.cached_property:
        return _cached(run, raw, obj, name)
    if hasattr(type(raw), "__get__"):
        if reads.library(base) or isinstance(raw, types.BuiltinFunctionType):
            return raw.__get__(obj, kind)
        if type(raw) is CACHE:
            return types.MethodType(raw, obj)
        if is_wrapper(raw):
            return raw.__get__(obj, kind)
        return _by_descriptor(run, raw, obj, kind, name)
    return shown


def _cached(run: Any, raw: Any, obj: Any, name: str) -> Any:
    """A cached property of the user's that has no value yet: it is computed, and kept in the object."""
    node = run.reads.node_of(obj)
    among_arguments = node is not None and node.kind == "argument"  # whose leaves would be others in the next call
    if raw.attrname != name or type(dict_of(obj)) is not dict or among_arguments:
        raise not_closed(f"`.{name}`, a cached property")
    value = run.call(raw.func, obj)
    run.frame.set_plainly(value, obj, name)
    return value


def _by_descriptor(run: Any, raw: Any, obj: Any, kind: type, name: str) -> Any:
    """The value that a descriptor of the user's gives."""
    base, getter = found_in(type(raw), "__get__")
    if run.reads.library(type(raw)) or type(getter) is not types.FunctionType or base is None:
        raise not_closed(f"`.{name}`, a descriptor of the class {type(raw).__qualname__}")
    return run.special(raw, "__get__", obj, kind)


def _by_data_descriptor(run: Any, reads: ReadLog, node: Any, obj: Any, base: type, name: str, raw: Any) -> Any:
    if isinstance(raw, property):
        reads.read_class(base, name, raw)
        if raw.fget is None:
            return getattr(obj, name)  # raises
        return run.call(raw.fget, obj)
    if isinstance(raw, _PLAIN_DATA):
        written = run.written(obj, name) if node is not None else MISSING
        if written is DELETED:
            raise not_closed(f"`.{name}`, which was deleted")
        if written is not MISSING:
            return written
        try:
            value = getattr(obj, name)
        except AttributeError:
            if node is not None:
                reads.read(node, "noattr", name, None, f"{node.label}.{name}")
            raise
        foreign = node is not None and node.kind != "instance"
        if name == "__dict__" and (run.loops or run.recorder.arms or foreign or type(value) is not dict):
            raise not_closed("`__dict__` of an object")
        if node is None or name == "__class__":
            return value if node is None or name != "__class__" else run.seen(value, "the class")
        return reads.read(node, "attr", name, value, f"{node.label}.{name}")
    if type(raw).__name__ == "_tuplegetter":
        return run.field(obj, raw.__reduce__()[1][0])
    if found_in(type(raw), "__get__")[0] is None:
        raise not_closed(f"`.{name}`, a descriptor of the class {type(raw).__qualname__}")
    reads.read_class(base, name, raw)
    return _by_descriptor(run, raw, obj, type(obj), name)


def _absent(reads: ReadLog, node: Any, obj: Any, kind: type, name: str, deleted: bool) -> Any:
    if deleted:
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=obj)
    if node is not None and node.kind in ("instance", "pinned"):
        reads.note_absent(node, name)
    elif node is not None and node.kind != "argument":
        reads.read(node, "noattr", name, None, f"{node.label}.{name}")
    return object.__getattribute__(obj, name)  # raises


def _of_module(run: Any, reads: ReadLog, module: types.ModuleType, name: str) -> Any:
    node = reads.node_of(module)
    if node is None and run.is_fixed(module.__name__):
        return getattr(module, name)
    if node is None:
        raise not_closed(f"`.{name}` of a module that was found on an unknown way")
    store = module.__dict__
    library = node.kind == "library"
    written = run.written(store, name)
    if written is not MISSING:
        return written
    if module is sys and name in STREAMS:
        return STREAMS[name]
    if name not in store and library and "__getattr__" in store:
        load_part(module, name)
        hook_loaded()
    if name not in store:
        if found_in(type(module), name)[0] is None and (library or "__getattr__" not in store):
            reads.lacks(node, name)
            getattr(module, name)  # raises
        raise not_closed(f"`{node.label}.{name}`, which is no entry of the module")
    value = store[name]
    path = f"{node.label.removeprefix('global ')}.{name}"
    if library and not callable(value) and not isinstance(value, types.ModuleType):
        found = verdict(f"{module.__name__}.{name}")
        if found is not None and hasattr(found, "read"):
            reads.depends(found)
        elif found is not None and hasattr(found, "name") and not is_leaf(value):
            raise not_closed(path)
    return reads.read(node, "attr", name, value, path)


def _of_class(run: Any, cls: type, name: str) -> Any:
    reads: ReadLog = run.reads
    if reads.library(cls):
        if can_change(cls):
            reads.names(name)
            reads.pin(cls)
        if name in ("__subclasses__", "__dict__", "__mro__", "__bases__", "mro"):
            raise not_closed(f"`{cls.__name__}.{name}`")
        return getattr(cls, name)
    reads.names(name)
    if isinstance(cls, enum.EnumMeta) and name in cls.__members__:
        return run.seen(getattr(cls, name), f"{cls.__name__}.{name}")
    base, raw, own = entry_of(run, cls, name)
    above, of_meta = found_in(type(cls), name)
    if above is not None:
        pin_entry(reads, of_meta)
    if above is not None and is_data_descriptor(of_meta):
        if name in ("__name__", "__qualname__", "__doc__", "__module__"):
            run.seen(cls, cls.__name__)
            node = reads.node_of(cls)
            if node is not None:
                return reads.read(node, "attr", name, getattr(cls, name), f"{cls.__name__}.{name}")
        raise not_closed(f"`{cls.__name__}.{name}`")
    if base is None:
        if above is not None and reads.trust.cls(above):
            return getattr(cls, name)
        reads.pin(cls)
        if above is not None or hasattr(type(cls), "__getattr__"):
            raise not_closed(f"`{cls.__name__}.{name}`, by its metaclass")
        return getattr(cls, name)  # raises
    if own:
        return raw
    pin_entry(reads, raw)
    return bound(run, raw, None, cls, base, name)


def _of_super(run: Any, obj: super, name: str) -> Any:
    reads: ReadLog = run.reads
    known: Any = obj
    kind, this, own = known.__self_class__, known.__thisclass__, known.__self__
    assert kind is not None
    order = kind.__mro__
    reads.pin(kind)
    reads.names(name)
    for base in order[order.index(this) + 1 :]:
        if (own_value := run.written(base, name)) is not MISSING:
            return own_value
        raw = base.__dict__.get(name, MISSING)
        if raw is MISSING:
            continue
        of_class = own is kind  # in a class method, or in `__new__`
        if isinstance(raw, property) and not of_class:
            reads.read_class(base, name, raw)
            return run.call(raw.fget, own)
        pin_entry(reads, raw)
        return bound(run, raw, None if of_class else own, kind, base, name)
    return getattr(obj, name)


def _of_member(reads: ReadLog, node: Any, obj: Any, name: str) -> Any:
    if node is not None:
        held = "_value_" if "value" in name else "_name_"
        found_by = type(obj).__dict__.get(name)
        if found_by is None or isinstance(found_by, types.DynamicClassAttribute):
            return reads.read(node, "attr", held, obj.__dict__[held], f"{node.label}.{name}")
    raise not_closed(f"`.{name}` of an enum member")


def _of_library(run: Any, reads: ReadLog, node: Any, obj: Any, kind: type, name: str) -> Any:
    """Of an instance of a class of Python's, or of a library's: those of C, or of what the run has made."""
    if name == "sample" and is_data(kind):
        raise not_closed(f"`.{name}` of a {kind.__qualname__}", Refusal.CALLS_RANDOM)
    if node is None:
        return _of_made(run, obj, kind, name)
    if (way := _OF_CALLABLES.get(kind)) is not None:
        return way(run, node, obj, name)
    if kind is defaultdict and name == "default_factory":
        return reads.read(node, "attr", name, obj.default_factory, f"{node.label}.{name}")
    if node.kind == "tuple" and name in getattr(kind, "_fields", ()):
        return run.field(obj, obj._fields.index(name))
    if kind in CONTAINERS or (is_wrapper(obj) and name in _OF_WRAPPERS):
        return getattr(obj, name)  # a method, which the call looks at
    if node.kind == "logger" and (name in LOG_METHODS or name == "isEnabledFor") and name not in obj.__dict__:
        reads.lacks_own(obj, name)
        return getattr(obj, name)
    if node.kind == "known" or (node.fixed and name not in DRAWING):
        reads.names(name)
        return getattr(obj, name)
    if node.kind == "generator" and draws(name, obj):
        return getattr(obj, name)
    if node.kind == "jitted" and name in ("py_func", "__wrapped__"):
        return reads.read(node, "const", "__wrapped__", obj.__wrapped__, f"{node.label}.{name}")
    raise _unknown(node, name)


def _unknown(node: Any, name: str) -> NotClosedError:
    return not_closed(f"`.{name}` of `{node.label}`")


def _of_made(run: Any, obj: Any, kind: type, name: str) -> Any:
    """Of such an instance that the run has made, or that never changes."""
    if kind is types.FunctionType and name not in _OF_FUNCTIONS and name not in obj.__dict__:
        raise not_closed(f"`.{name}` of a function")
    of_numpy = kind.__module__.partition(".")[0] in ("numpy", "scipy")
    if of_numpy and name not in (dict_of(obj) or ()) and id(obj) not in run.twins:
        run.reads.lacks_own(obj, name)
    if kind in (types.FrameType, types.TracebackType, types.CodeType):
        raise not_closed(f"`.{name}` of a {kind.__name__}")
    return getattr(obj, name)


def _of_function(run: Any, node: Any, fn: types.FunctionType, name: str) -> Any:
    if name in _OF_FUNCTIONS:
        return run.reads.read(node, "attr", name, getattr(fn, name), f"{node.label}.{name}")
    if not node.extra and (written := run.written(fn, name)) is not MISSING:
        return written
    return _of_names(run, node, fn, name)


def _of_names(run: Any, node: Any, obj: Any, name: str) -> Any:
    """Of a function or partial, by the names that it has itself."""
    if name in obj.__dict__:
        return run.reads.read(node, "attr", name, obj.__dict__[name], f"{node.label}.{name}")
    if node.extra or hasattr(type(obj), name):
        raise _unknown(node, name)
    run.reads.read(node, "noattr", name, None, f"{node.label}.{name}")
    return getattr(obj, name)  # raises


def _of_method(run: Any, node: Any, method: types.MethodType, name: str) -> Any:
    if name in ("__self__", "__func__"):
        return run.reads.read(node, "attr", name, getattr(method, name), node.label)
    if hasattr(types.MethodType, name):
        raise _unknown(node, name)
    return load(run, run.reads.read(node, "attr", "__func__", method.__func__, node.label), name)


_OF_CALLABLES: dict[type, Callable[..., Any]] = {
    types.FunctionType: _of_function, types.MethodType: _of_method, functools.partial: _of_names,
}  # fmt: skip
