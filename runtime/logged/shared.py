"""Attributes of what many share, classes and functions, as a run sets them.

A lookup in a class finds what the run has written there (``attributes.entry_of``).  So what is written is a value, and
no descriptor, which would be asked by other code than a load of its name.
"""

from __future__ import annotations

import enum
import types
from typing import Any

from .attributes import found_in
from .reads import ReadLog


def set_in_class(run: Any, value: Any, cls: type, name: str) -> None:
    """``cls.name = value``, where what is there, and what will be, is no descriptor."""
    reads: ReadLog = run.reads
    raw = found_in(cls, name)[1]
    special = name.startswith("__") or hasattr(type(value), "__get__") or hasattr(type(raw), "__get__")
    by_type = found_in(type(cls), "__setattr__")[0] is type and found_in(type(cls), name)[0] is None
    if special or not by_type or isinstance(cls, enum.EnumMeta) or reads.library(cls) or not name.isidentifier():
        raise run.refuse(f"an assignment of `{cls.__name__}.{name}`")
    reads.names(name)
    reads.pin(cls)
    if reads.node_of(run.seen(cls, cls.__name__)) is None or reads.root is None:
        raise run.refuse(f"an assignment of `{cls.__name__}.{name}`")
    found = reads.shown_in(reads.root, "class", (id(cls), name))
    run.write_class(cls, name, value, f"{cls.__name__}.{name}", found)


def set_of_function(run: Any, value: Any, fn: types.FunctionType, name: str) -> None:
    """``fn.name = value`` of a function of the user's."""
    node = run.reads.node_of(fn)
    if name in vars(types.FunctionType):
        raise run.refuse(f"an assignment of `.{name}` of a function")
    if node is None:
        run.wrote(fn, name)
        setattr(fn, name, value)
        return
    run.write_name(fn, name, value, f"{node.label}.{name}", run.reads.shown_in(node, "attr", name))
