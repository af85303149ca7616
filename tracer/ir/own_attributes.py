"""Attributes that objects and classes hold themselves: no hook of theirs is asked for them."""

from __future__ import annotations

import functools
from types import CellType, MemberDescriptorType
from typing import Any


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


def slots(cls: type) -> list[str]:
    """Attributes that lie in the instance itself.  ``SimpleNamespace`` lists its own dict among them, ``partial`` the
    place of a pointer."""
    found = [n for c in cls.__mro__ for n, v in c.__dict__.items() if type(v) is MemberDescriptorType]
    return [n for n in found if n not in ("__dict__", "__vectorcalloffset__")]


def attributes_of(owner: Any) -> dict[str, Any]:
    """The attributes that an object has itself, by name: those in its ``__dict__``, and in slots."""
    lying = {name: getattr(owner, name) for name in slots(type(owner)) if hasattr(owner, name)}
    return {**(dict_of(owner) or {}), **lying}


def in_class(cls: type, name: str) -> Any:
    """The attribute of a class or its bases, as it is stored there; None without one.  No hook of a metaclass is
    asked, which may have an answer to everything."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def is_data_descriptor(entry: Any) -> bool:
    """Whether *entry* of a class goes before the attributes that an object has itself."""
    return hasattr(type(entry), "__set__") or hasattr(type(entry), "__delete__")


def is_empty(cell: CellType) -> bool:
    """Whether a variable that functions share has no value yet."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False
