"""Records: dataclasses, and other objects of the user's classes whose state is all in their fields.

What a loop keeps in one from iteration to iteration (``state = State(x, v)``) is as well kept in local variables.
"""

from __future__ import annotations

import abc
import inspect
import types
from typing import Any, Generic

from ..ir.class_flags import HEAP_TYPE
from ..ir.own_attributes import attributes_of, in_class

_PLAIN_BASES = (object, tuple, Generic, abc.ABC)


def named_parts(value: Any) -> dict[str, Any] | None:
    """The fields of a record that is no tuple; None where *value* is none."""
    kind: Any = type(value)
    return None if issubclass(kind, tuple) or not _is_record_class(kind) else attributes_of(value)


def _is_record_class(cls: Any) -> bool:
    """Whether objects of *cls*, no tuples, have their state in fields, and making one is code of ``__init__`` alone."""
    if type(cls) not in (type, abc.ABCMeta) or not cls.__flags__ & HEAP_TYPE or in_class(cls, "_tracegrad_traced"):
        return False
    if any(base not in _PLAIN_BASES and not base.__flags__ & HEAP_TYPE for base in cls.__mro__):
        return False
    sets = inspect.getattr_static(cls, "__setattr__")
    if sets is not object.__setattr__ and not _is_generated(sets):
        return False
    if inspect.getattr_static(cls, "__new__") is not object.__new__:
        return False
    plain_reads = cls.__getattribute__ is object.__getattribute__  # type: ignore[comparison-overlap]
    return plain_reads and not any(hasattr(cls, name) for name in ("__getattr__", "__del__"))


def _is_generated(function: Any) -> bool:
    """Whether a library has made a method from names of fields."""
    function = getattr(function, "__func__", function)
    return isinstance(function, types.FunctionType) and function.__code__.co_filename.startswith("<")
