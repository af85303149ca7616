"""Functions of Python's that read attributes by names which no instruction of the user's holds.

``getattr`` called by its own name with a constant is seen by the scan (``code_scan.py``). Under any other name, and for
all others here, every attribute of every object counts. Start reading at ``note``; ``fields`` says which attributes a
format string reads.
"""

from __future__ import annotations

import array
import dataclasses
import functools
import heapq
import inspect
import operator
import string
import types
import typing
from collections.abc import Iterator
from typing import Any

from .state_graph import Names

_READERS = (
    getattr, hasattr, operator.attrgetter, operator.methodcaller, string.Formatter, str.format, str.format_map,
    functools.singledispatchmethod, object.__getattribute__, type.__getattribute__, super.__getattribute__,
)  # fmt: skip
_BY_IDENTITY = {id(reader) for reader in _READERS}
_OF_STRINGS = ("format", "format_map")
# Functions in C that read a list, or change it, past its methods.
_IN_MEMORY = {id(f) for f in (*vars(heapq).values(), array.array) if isinstance(f, types.BuiltinFunctionType | type)}
_DESCRIBERS = {  # descriptions of classes, which count only where somebody reads them
    id(typing.get_type_hints): "__annotations__", id(inspect.get_annotations): "__annotations__",
    id(inspect.getdoc): "__doc__", id(dataclasses.fields): "__dataclass_fields__",
}  # fmt: skip


def note(names: Names, value: Any) -> None:
    """Have the attributes count that the code can read by this object."""
    protocol = isinstance(value, type) and value.__dict__.get("_is_protocol", False)  # isinstance looks for attributes
    if id(value) in _BY_IDENTITY or protocol or getattr(value, "__name__", "") == "__getattribute__":
        names.everything = names.absence = True
    elif id(value) in _DESCRIBERS:
        names.attrs.setdefault(_DESCRIBERS[id(value)])
    elif value is type:
        names.attrs.setdefault("__class__")
    elif id(value) in _IN_MEMORY:
        names.unbound = True
    elif value is super:
        names.supers = True
    elif type(getattr(value, "__self__", None)) is str and value.__name__ in _OF_STRINGS:
        take_format(names, value.__self__)


def take_format(names: Names, text: str) -> None:
    found = fields(text)
    if found is None:
        names.everything = names.absence = True
    else:
        names.attrs.update(dict.fromkeys(found))


def fields(text: str) -> list[str] | None:
    """The attributes that ``text.format(...)`` reads; None where they can't be told."""
    try:
        return list(_fields(text))
    except ValueError:  # the call will raise
        return None


def _fields(text: str) -> Iterator[str]:
    for _, field, spec, _ in string.Formatter().parse(text):
        if field is not None:
            for part in field.split(".")[1:]:
                yield part.partition("[")[0]
            if spec:
                yield from _fields(spec)


def of_getter(getter: Any) -> list[str] | None:
    """The attributes that an ``attrgetter`` or a ``methodcaller`` of plain values reads; None for anything else."""
    made = getter.__reduce__()
    if type(getter) is operator.attrgetter:
        return [part for name in made[1] for part in name.split(".")]
    return [made[1][0]] if type(getter) is operator.methodcaller and made[0] is operator.methodcaller else None
