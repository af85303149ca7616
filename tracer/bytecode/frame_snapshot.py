"""Snapshots of the user's frame and its local variables, taken when control flow asks for a truth value.

``look`` takes one.  ``purity.py`` compares them, for the variables that a loop of the user's changes from turn to
turn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from ..ir.data_classes import NamedTuple
from ..ir.graph import Atom
from ..ir.site import is_internal
from .records import parts_of

DEEP = 3  # tuples and records within others that are looked into


class Traced(NamedTuple):
    """A traced array, by its value at that moment; None where that is a view that is out of date.  *replaced*: it is a
    scalar, for which ``x += y`` makes a new one.  *written*: its buffer was written into.  *held*: by an object that
    counts the writes into it."""

    atom: Atom | None
    replaced: bool = False
    written: bool = False
    held: bool = False


class Plain(NamedTuple):
    """A Python number, text or None."""

    value: Any


class Many(NamedTuple):
    """A tuple, or the fields of a record, the *owner*."""

    items: tuple[Any, ...]
    owner: Any = None


class Other(NamedTuple):
    """Anything else, by identity."""

    value: Any


class Asked(NamedTuple):
    frame: FrameType
    instruction: int
    values: dict[str, Any]  # local variables, free ones included: Traced, Plain, Many or Other


def look(traced: type) -> Asked | None:
    """The innermost frame of the user's; *traced* is the class of traced arrays."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    return Asked(frame, frame.f_lasti, {name: _seen(value, traced, DEEP) for name, value in frame.f_locals.items()})


def _seen(value: Any, traced: type, depth: int) -> Any:
    kind = type(value)
    if kind is traced:
        return _traced(value)
    if is_array_like(value):
        data = value._tracegrad_traced()
        return Other(value) if data is None else _traced(data)._replace(replaced=False, held=True)
    if kind in (int, float, bool, str, bytes, type(None)):
        return Plain(value)
    if kind is tuple and depth:
        return Many(tuple([_seen(v, traced, depth - 1) for v in value]))
    parts = parts_of(value) if depth else None
    items = []
    for part in parts or ():
        items.append(_seen(part, traced, depth - 1))
        if type(items[-1]) is Other:
            return Other(value)
    return Other(value) if parts is None else Many(tuple(items), value)


def _traced(value: Any) -> Traced:
    storage = value._storage
    if value._steps and value._version != storage.version:
        return Traced(None)
    atom = value._atom if value._version == storage.version else storage.atom
    return Traced(atom, not atom.aval.shape and not storage.array0d, storage.version > 0)


def traced_in(seen: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Traced]]:
    """The traced values of a local variable, with their paths in it."""
    if isinstance(seen, Traced):
        yield path, seen
    elif isinstance(seen, Many):
        for k, value in enumerate(seen.items):
            yield from traced_in(value, (*path, k))


def is_array_like(value: Any) -> bool:
    """Whether *value* is a tensor of a library above, around an array."""
    return hasattr(type(value), "_tracegrad_traced")
