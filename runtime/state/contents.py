"""Shallow pictures of the user's containers and objects: what is in them now, whether that is the same as before, and
how a change of one is made in another."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable
from typing import Any

from ...tracer.ir.own_attributes import attributes_of, dict_of, slots
from ..memo import MEMO
from .values import keys_unchanged


def contents(obj: Any) -> Any:
    """A shallow picture of an object: a list, or a dict of attributes or items."""
    if isinstance(obj, list | deque | set):
        return list(obj)
    return dict(obj) if isinstance(obj, dict) else attributes(obj)


def attributes(obj: Any) -> dict[str, Any]:
    """A shallow picture of the attributes of an object."""
    in_dict = isinstance(obj, types.FunctionType | types.ModuleType)
    picture = dict(dict_of(obj) or {}) if in_dict else attributes_of(obj)
    picture.pop(MEMO, None)
    return picture


def same_contents(a: Any, b: Any) -> bool:
    """Whether two pictures of an object show the same parts, by identity, in the same order."""
    if len(a) != len(b):
        return False
    if isinstance(a, list):
        return all(x is y for x, y in zip(a, b, strict=True))
    return all(x == y for x, y in zip(a, b, strict=True)) and all(a[k] is b[k] for k in a)


def set_attribute(obj: Any, name: str, value: Any) -> None:
    store = dict_of(obj)
    if store is not None and name not in slots(type(obj)):
        store[name] = value
    else:
        object.__setattr__(obj, name, value)


def apply_changes(original: Any, before: Any, now: Any, back: Callable[[Any], Any]) -> None:
    """Do to *original* what has made *now* of *before*, pictures of a copy by :func:`contents`."""
    if isinstance(now, list):
        values = [back(v) for v in now]
        if isinstance(original, deque):
            original.clear()
            original.extend(values)
        else:
            original[:] = values
        return
    is_dict = isinstance(original, dict)
    for name in before.keys() - now.keys():
        if is_dict:
            original.pop(name, None)
        else:
            store = dict_of(original)
            object.__delattr__(original, name) if store is None else store.pop(name, None)
    for name, value in now.items():
        if name not in before or before[name] is not value:
            if is_dict:
                original[name] = back(value)
            else:
                set_attribute(original, name, back(value))
    if is_dict and not keys_unchanged(original, tuple(now)):  # a key went and came again
        for name in now:
            original[name] = original.pop(name)
