"""Plain objects as differentiated arguments: dataclasses, attrs and pydantic classes, namespaces, user classes.

The state of a plain object is what stands in its ``__dict__`` and its slots; it is taken apart as a dict is, and made
again without its ``__init__`` and validators, which a traced value or a gradient need not satisfy.  Classes are
registered with optree when one of their objects is differentiated, in a namespace of their own: where nobody takes a
derivative with respect to them, objects stay what they are.
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

import optree

from ...tracer.ir import forks
from ...tracer.ir.class_flags import HEAP_TYPE
from ...tracer.ir.own_attributes import dict_of, slots
from ...tracer.ir.trees import NAMESPACE, OBJECTS, tree_flatten
from ..state.objects import keeps_c_state
from ..state.pins import lookup
from ..state.trust import Trust
from ..state.values import holders

_FIELDS_SET = "__pydantic_fields_set__"  # of a pydantic model: which fields were given, and no data
_ABSENT = object()
_lock = forks.lock()
_trust = Trust()


@lru_cache(maxsize=1024)
def is_plain(cls: type) -> bool:
    """Whether the objects of *cls* are nothing but attributes."""
    if cls in holders():
        return True
    own = [base for base in cls.__mro__ if base is not object and base not in holders()]
    return (
        bool(cls.__flags__ & HEAP_TYPE)
        and not issubclass(cls, type | enum.Enum | BaseException)
        and not _trust.cls(cls)
        and not any(base.__module__.partition(".")[0] == "tracegrad" for base in own)
        and not any(hasattr(cls, name) for name in ("__array__", "__dlpack__", "__next__"))
        and (not keeps_c_state(cls) or issubclass(cls, holders()))
        and cls.__getattribute__ in (object.__getattribute__, types.SimpleNamespace.__getattribute__)
        and all(type(lookup(cls, name)) is types.MemberDescriptorType for name in slots(cls))
    )


@lru_cache(maxsize=1024)
def slots_of(cls: type) -> tuple[str, ...]:
    """The slots in which objects of *cls* keep a part of their state."""
    own = {a.name for a in getattr(cls, "__attrs_attrs__", ())}
    made = {name for c in cls.__mro__ if "__attrs_attrs__" in vars(c) for name in vars(c)}  # for cached properties
    return tuple([n for n in dict.fromkeys(slots(cls)) if n != _FIELDS_SET and (n in own or n not in made)])


@lru_cache(maxsize=1024)
def kept_results(cls: type) -> frozenset[str]:
    """The attributes in which objects of *cls* keep what was computed from others (``functools.cached_property``):
    no state, since a derivative goes through the computation."""
    return frozenset([n for c in cls.__mro__ for n, v in vars(c).items() if type(v) is functools.cached_property])


def is_object(spec: Any) -> bool:
    """Whether a structure takes a plain object apart."""
    return spec.namespace == OBJECTS and spec.type in _registered


def is_registered(cls: type) -> bool:
    """Whether objects of *cls* are taken apart where they are differentiated."""
    return cls in _registered


def _make(cls: Any, stored: dict[str, Any], in_slots: dict[str, Any]) -> Any:
    """An object of *cls* with these attributes; *stored* becomes its ``__dict__``."""
    made = object.__new__(cls)
    if stored:
        object.__setattr__(made, "__dict__", stored)
    for name, value in in_slots.items():
        object.__setattr__(made, name, value)
    return made


def _make_namespace(cls: Any, stored: dict[str, Any], in_slots: dict[str, Any]) -> Any:
    made = cls.__new__(cls)
    made.__dict__.update(stored)
    for name, value in in_slots.items():
        object.__setattr__(made, name, value)
    return made


def _make_model(cls: Any, stored: dict[str, Any], in_slots: dict[str, Any]) -> Any:
    made = _make(cls, stored, in_slots)
    object.__setattr__(made, _FIELDS_SET, set(stored))
    return made


#: Makers of objects that are nothing but what they are given.
PLAIN_MAKERS = (_make, _make_namespace)


def maker(cls: type) -> Callable[[Any, dict[str, Any], dict[str, Any]], Any]:
    """The function (class, what stands in the ``__dict__``, what stands in slots) that makes an object of *cls*."""
    if issubclass(cls, types.SimpleNamespace):
        return _make_namespace
    return _make_model if hasattr(cls, _FIELDS_SET) else _make


def attributes_of(value: Any) -> list[str]:
    """The names of the attributes of a plain object; none of others."""
    cls: Any = type(value)
    if not is_plain(cls):
        return []
    return [*(dict_of(value) or ()), *[name for name in slots_of(cls) if hasattr(value, name)]]


def objects_in(value: Any) -> list[Any]:
    """The plain objects in *value*, but for those inside others."""
    classes: list[type] = list(map(type, leaves := tree_flatten(value)[0]))
    return [leaf for leaf, cls in zip(leaves, classes, strict=True) if is_plain(cls)]


def take_apart(value: Any, opaque: Collection[int]) -> None:
    """Register the classes of all plain objects in *value*; an object whose id is in *opaque* is a leaf."""
    with _lock:
        while new := {type(x) for x in tree_flatten(value, lambda x: id(x) in opaque, namespace=OBJECTS)[0]}:
            new = {cls for cls in new if _register(cls)}
            if not new:
                return


_registered: set[type] = set()


def _register(cls: type) -> bool:
    """Make a node class of *cls*, if it is to be one that it is not yet."""
    if cls in _registered:
        return False
    known = optree.register_pytree_node.get(cls, namespace=NAMESPACE)
    if known is not None:
        how = known.flatten_func, known.unflatten_func, known.path_entry_type
    elif is_plain(cls):
        how = _flatten, functools.partial(_unflatten, cls), optree.GetAttrEntry
        _registered.add(cls)
    else:
        return False
    optree.register_pytree_node(cls, how[0], how[1], path_entry_type=how[2], namespace=OBJECTS)
    return True


def _flatten(value: Any) -> tuple[Sequence[Any], Any, Sequence[str]]:
    cls: type = type(value)
    held = dict_of(value) or {}
    in_slots, kept = slots_of(cls), kept_results(cls)
    parts = {name: part for name, part in held.items() if name not in in_slots and name not in kept}
    count = len(parts)
    for name in in_slots:
        part = getattr(value, name, _ABSENT)
        if part is not _ABSENT:
            parts[name] = part
    return tuple(parts.values()), (tuple(parts), count), tuple(parts)


def _unflatten(cls: type, names: Any, parts: Sequence[Any]) -> Any:
    found, count = names
    pairs = list(zip(found, parts, strict=True))
    return maker(cls)(cls, dict(pairs[:count]), dict(pairs[count:]))
