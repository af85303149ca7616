"""Records: named tuples, dataclasses, and other objects of the user's classes whose state is all in their fields.

What a loop keeps in one from turn to turn (``state = State(x, v)``) is as well kept in local variables.
"""

from __future__ import annotations

import abc
import functools
import inspect
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Generic

from ..ir.class_flags import HEAP_TYPE
from .instructions import plain_instructions

_MOST_FIELDS = 16
_PLAIN_BASES = (object, tuple, Generic, abc.ABC)
# Methods that no operator calls, or that are asked for with the making of objects.
_NO_OPERATORS = frozenset(
    "__init__ __new__ __post_init__ __repr__ __str__ __format__ __reduce__ __reduce_ex__ __getstate__ __setstate__ "
    "__copy__ __deepcopy__ __sizeof__ __dir__ __init_subclass__ __class_getitem__ __getnewargs__ __replace__ "
    "__subclasshook__ __setattr__ __delattr__".split()
)


def dict_of(owner: Any) -> dict[str, Any] | None:
    """The ``__dict__`` of an object; None without one.  No hook of its class is asked.  Nor is a partial that has not
    been given one: that would make it, and CPython takes apart no partial with a dict where another partial is made of
    it."""
    if type(owner) is functools.partial:
        found: dict[str, Any] | None = owner.__reduce__()[2][3]  # type: ignore[misc, index, assignment]
        return found
    try:
        own: dict[str, Any] = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    return own


def in_class(cls: type, name: str) -> Any:
    """The attribute of a class or its bases, as it is stored there; None without one.  No hook of a metaclass is
    asked, which may have an answer to everything."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def is_record_class(cls: Any) -> bool:
    """Whether objects of *cls* have their state in fields, and making one is code of ``constructors`` alone."""
    if type(cls) not in (type, abc.ABCMeta) or not cls.__flags__ & HEAP_TYPE or in_class(cls, "_tracegrad_traced"):
        return False
    if any(base not in _PLAIN_BASES and not base.__flags__ & HEAP_TYPE for base in cls.__mro__):
        return False
    if issubclass(cls, tuple) and (not hasattr(cls, "_fields") or cls.__dictoffset__):
        return False
    makes = inspect.getattr_static(cls, "__new__")
    if makes is not object.__new__ and not (issubclass(cls, tuple) and _is_generated(makes)):
        return False
    sets = inspect.getattr_static(cls, "__setattr__")
    if sets is not object.__setattr__ and not _is_generated(sets):
        return False
    return not any(hasattr(cls, name) for name in ("__getattr__", "__del__")) and (
        cls.__getattribute__ in (object.__getattribute__, tuple.__getattribute__)  # type: ignore[comparison-overlap]
    )


def _is_generated(function: Any) -> bool:
    """Whether a library has made a method from names of fields."""
    function = getattr(function, "__func__", function)
    return isinstance(function, types.FunctionType) and function.__code__.co_filename.startswith("<")


def parts_of(value: Any) -> list[Any] | None:
    """The values of the fields of a record; None where *value* is none, or has many."""
    kind: Any = type(value)
    if not _was_record_class(kind):
        return None
    if issubclass(kind, tuple):
        return list(tuple.__iter__(value))
    if len(dict_of(value) or ()) > _MOST_FIELDS:
        return None
    return list(stored(value).values())


def named_parts(value: Any) -> dict[str, Any] | None:
    """The fields of a record that is no tuple; None where *value* is none."""
    kind: Any = type(value)
    if issubclass(kind, tuple) or not is_record_class(kind):
        return None
    return stored(value)


def stored(value: Any) -> dict[str, Any]:
    """The values in the ``__dict__`` and the slots of an object, by name."""
    kind: Any = type(value)
    return {
        **(dict_of(value) or {}),
        **{name: getattr(value, name) for name in _slots(kind) if hasattr(value, name)},
    }


_was_record_class = lru_cache(maxsize=1024)(is_record_class)  # for snapshots: purity asks again


@lru_cache(maxsize=1024)
def _slots(cls: Any) -> tuple[str, ...]:
    members = [name for base in cls.__mro__ for name, part in vars(base).items() if _is_member(part)]
    return tuple(dict.fromkeys(members))


def _is_member(part: Any) -> bool:
    return isinstance(part, types.MemberDescriptorType)


def operators(cls: type) -> Iterator[Any]:
    """The methods of a record that operators, calls and conversions run."""
    for base in cls.__mro__:
        for name, method in vars(base).items() if base not in _PLAIN_BASES else ():
            special = name.startswith("__") and name.endswith("__") and name not in _NO_OPERATORS
            if special and callable(method) and not _is_generated(method):
                yield method


def fields_of(cls: type) -> frozenset[str]:
    """The names of the fields that records of this class may have."""
    found = {*getattr(cls, "_fields", ()), *_slots(cls), *getattr(cls, "__dataclass_fields__", ())}
    for init in (inspect.getattr_static(cls, name, None) for name in ("__init__", "__post_init__")):
        if isinstance(init, types.FunctionType):
            found.update(i.argval for i in plain_instructions(init.__code__) if i.opname == "STORE_ATTR")
    return frozenset(found)
