"""Values of local variables taken apart: traced arrays and numbers in them, which a loop may carry, and the rest.

A *pattern* is a value without them.  Two values with equal patterns differ in numbers alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from ..ir.graph import Atom
from ..record.array import TracedArray, class_of, to_atom, wrap
from ..record.recorder import current_recorder
from ..record.undecided import Number, Undecided

NUMBERS = (float, complex, np.floating, np.complexfloating, np.integer)
_IMMUTABLE = (int, bool, str, bytes, type(None), frozenset, np.bool_, np.dtype)


class Like(NamedTuple):
    """The kind of a traced value: what Python can see of it but its elements."""

    dtype: np.dtype
    shape: tuple[int, ...]
    weak: bool
    kind: type
    c_order: bool


class PlainValue(NamedTuple):
    """A value that is no number of the run."""

    value: Any


class Parts(NamedTuple):
    """A container of ``kind`` with ``items``, found under ``names``."""

    kind: type
    names: tuple[Any, ...]
    items: tuple[Any, ...]


class OfRanks(NamedTuple):
    """A number whose class depends on data (``record/undecided.py``): its value and its rank are leaves."""

    ranks: frozenset[int]
    limit: int
    place: Any


def like(value: Any) -> Like:
    """The kind of *value*, a traced array or a number."""
    if type(value) is TracedArray:
        aval, kind = value.aval, class_of(value)
        return Like(aval.dtype, aval.shape, aval.weak, kind, value.known_c_order())
    aval = to_atom(value).aval
    return Like(aval.dtype, (), aval.weak, type(value), True)


def taken_apart(value: Any, leaves: list[Any], deep: bool) -> Any:
    """The pattern of *value*, whose numbers are added to *leaves*.  *deep*: of containers that can be changed, too,
    which are then made anew in each iteration."""
    kind = type(value)
    if kind is TracedArray or isinstance(value, NUMBERS):
        leaves.append(value)
        return like(value)
    if kind is Undecided:
        number = value.number
        leaves += wrap(number.value), wrap(number.rank)
        return OfRanks(number.ranks, number.limit, value.place)
    if _is_outside(value):  # whose numbers are not read by this
        return PlainValue(value)
    if isinstance(value, tuple):
        return Parts(kind, tuple(range(len(value))), tuple([taken_apart(v, leaves, deep) for v in value]))
    if deep and kind in (list, dict):
        names = tuple(value) if kind is dict else tuple(range(len(value)))
        return Parts(kind, names, tuple([taken_apart(value[name], leaves, deep) for name in names]))
    if is_dataclass(value) and not isinstance(value, type) and (deep or kind.__dataclass_params__.frozen):
        of_fields = tuple([f.name for f in fields(value)])
        return Parts(kind, of_fields, tuple([taken_apart(getattr(value, n), leaves, deep) for n in of_fields]))
    return PlainValue(value)


def _is_outside(value: Any) -> bool:
    """Whether the run has found *value*, and not made it."""
    recorder = current_recorder()
    return recorder is not None and id(value) in recorder.outermost().from_outside


def put_together(pattern: Any, leaves: Iterator[Any]) -> Any:
    """The value with *pattern* and the numbers *leaves*."""
    if isinstance(pattern, PlainValue):
        return pattern.value
    if isinstance(pattern, OfRanks):
        value, rank = next(leaves), next(leaves)
        number = Number(atom_of(value), atom_of(rank), pattern.ranks, pattern.limit)
        return Undecided(number, value._recorder, pattern.place)
    if not isinstance(pattern, Parts):
        return next(leaves)
    items = [put_together(p, leaves) for p in pattern.items]
    if issubclass(pattern.kind, tuple):
        return tuple.__new__(pattern.kind, items)
    if pattern.kind is list:
        return items
    if pattern.kind is dict:
        return dict(zip(pattern.names, items, strict=True))
    made = object.__new__(pattern.kind)
    for name, item in zip(pattern.names, items, strict=True):
        object.__setattr__(made, name, item)
    return made


def alike(a: Any, b: Any) -> bool:
    """Whether two patterns are equal."""
    if type(a) is not type(b):
        return False
    if isinstance(a, PlainValue):
        x, y = a.value, b.value
        return x is y or (type(x) is type(y) and isinstance(x, _IMMUTABLE) and bool(x == y))
    if isinstance(a, Parts):
        same = a.kind is b.kind and a.names == b.names and len(a.items) == len(b.items)
        return same and all(map(alike, a.items, b.items))
    return bool(a == b)


def atom_of(leaf: Any) -> Atom:
    return to_atom(leaf)
