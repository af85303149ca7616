"""Values of local variables taken apart: traced arrays and numbers in them, which a loop may carry, and the rest.

A *pattern* is a value without them.  Two values with equal patterns differ in numbers alone.  Patterns of several
values tell which objects in them are the same one, where these can be changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..ir.graph import Atom
from ..record.array import TracedArray, class_of, to_atom, wrap
from ..record.recorder import current_recorder
from ..record.undecided import Number, Undecided
from .holders import HOLDERS, Holder
from .records import named_parts

NUMBERS = (float, complex, np.floating, np.complexfloating, np.integer)
_NONE: Mapping[int, Any] = MappingProxyType({})
UNSET = object()  # in the place of the value of a local variable that has none, which the code of a loop then deletes
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
    """A container of ``kind`` with ``items``, found under ``names``; its ``number``, where it can be changed."""

    kind: type
    names: tuple[Any, ...]
    items: tuple[Any, ...]
    number: int | None = None


class Again(NamedTuple):
    """The container of this number, once more."""

    number: int


@dataclass
class Changeable:
    """Containers that can be changed, in the values that are taken apart together, in the order in which they are met.
    ``kept``: those that stay what they are, by id; with ``made`` these are all that are not in it."""

    kept: dict[int, Any] = field(default_factory=dict)
    made: Mapping[int, Any] | None = None
    found: list[Any] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)

    def keeps(self, value: Any) -> bool:
        """Whether *value* is not looked into."""
        if self.made is not None and id(value) not in self.made:
            self.kept[id(value)] = value
        return id(value) in self.kept

    def number(self, value: Any) -> int:
        self.found.append(value)
        return self.numbers.setdefault(id(value), len(self.found) - 1)


class HeldArray(NamedTuple):
    """An object that holds an array of the kind ``like``.  ``value``: the one that was taken apart."""

    facts: Any
    like: Like
    value: Any
    holder: Holder

    def made(self, array: TracedArray, ended: bool) -> Any:
        """The object that holds *array* in its place: in the iteration, or once the loop has *ended*."""
        if array is self.holder.array(self.value):
            return self.value
        return self.holder.end(self.value, array) if ended else self.holder.begin(self.value, array)


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


def taken_apart(value: Any, leaves: list[Any], deep: bool, met: Changeable) -> Any:
    """The pattern of *value*, whose numbers are added to *leaves*.  *deep*: of containers that can be changed, too,
    which are then made anew in each iteration; those that were *met* before are the same ones."""
    kind = type(value)
    if kind is TracedArray or isinstance(value, NUMBERS):
        leaves.append(value)
        return like(value)
    if kind in HOLDERS:
        holder = HOLDERS[kind]
        facts = holder.facts(value)
        if facts is None:
            return PlainValue(value)
        leaves.append(holder.array(value))
        return HeldArray(facts, like(leaves[-1]), value, holder)
    if kind is Undecided:
        number = value.number
        leaves += wrap(number.value), wrap(number.rank)
        return OfRanks(number.ranks, number.limit, value.place)
    if _is_outside(value):  # whose numbers are not read by this
        return PlainValue(value)
    if isinstance(value, tuple):
        return Parts(kind, tuple(range(len(value))), tuple([taken_apart(v, leaves, deep, met) for v in value]))
    if id(value) in met.numbers:
        return Again(met.numbers[id(value)])
    parts = parts_of(value, deep)
    if parts is None or (not is_frozen(kind) and met.keeps(value)):
        return PlainValue(value)
    number = met.number(value) if not is_frozen(kind) else None
    return Parts(kind, tuple(parts), tuple([taken_apart(x, leaves, deep, met) for x in parts.values()]), number)


def parts_of(value: Any, deep: bool) -> dict[Any, Any] | None:
    """The parts of *value*, by name; None where they are not looked at."""
    if not (deep or is_frozen(type(value))):
        return None
    if type(value) in (list, dict):
        return value if type(value) is dict else dict(enumerate(value))
    return named_parts(value)


def is_frozen(kind: type) -> bool:
    """Whether objects of *kind* cannot be changed, as far as their class says."""
    return is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined, no-any-return]


def frozen_in(value: Any) -> Iterator[Any]:
    """The tuples and other objects in *value* that cannot be changed, which loops make of their parts."""
    if isinstance(value, tuple) or is_frozen(type(value)):
        yield value
        for part in value if isinstance(value, tuple) else (parts_of(value, False) or {}).values():
            yield from frozen_in(part)


def can_be_made_anew(value: Any) -> bool:
    """Whether *value* is a container that ``taken_apart`` looks into where it is asked to."""
    return parts_of(value, True) is not None


def _is_outside(value: Any) -> bool:
    """Whether the run has found *value*, and not made it."""
    recorder = current_recorder()
    return recorder is not None and id(value) in recorder.outermost().from_outside


def put_together(
    pattern: Any, leaves: Iterator[Any], made: dict[int, Any], ended: bool = False, known: Mapping[int, Any] = _NONE
) -> Any:
    """The value with *pattern* and the numbers *leaves*, in the iteration or once the loop has *ended*.  *made*:
    containers that can be changed, by their numbers; *known*: those that are there already."""
    if isinstance(pattern, HeldArray):
        return pattern.made(next(leaves), ended)
    if isinstance(pattern, PlainValue):
        return pattern.value
    if isinstance(pattern, OfRanks):
        value, rank = next(leaves), next(leaves)
        number = Number(atom_of(value), atom_of(rank), pattern.ranks, pattern.limit)
        return Undecided(number, value._recorder, pattern.place)
    if isinstance(pattern, Again):
        return made[pattern.number]
    if not isinstance(pattern, Parts):
        return next(leaves)
    if issubclass(pattern.kind, tuple):
        return tuple.__new__(pattern.kind, [put_together(p, leaves, made, ended, known) for p in pattern.items])
    found: Any = pattern.kind() if pattern.kind in (list, dict) else object.__new__(pattern.kind)
    if pattern.number is not None:
        made[pattern.number] = found  # which may be in itself
    for name, part in zip(pattern.names, pattern.items, strict=True):
        item = put_together(part, leaves, made, ended, known)
        if pattern.kind is list:
            found.append(item)
        elif pattern.kind is dict:
            found[name] = item
        else:
            object.__setattr__(found, name, item)
    if pattern.number is not None and pattern.number in known:
        found = made[pattern.number] = known[pattern.number]
    return found


def has_again(pattern: Any) -> bool:
    """Whether a container is in *pattern* that is in another one, or in this one before."""
    return isinstance(pattern, Again) or (isinstance(pattern, Parts) and any(map(has_again, pattern.items)))


def alike(a: Any, b: Any) -> bool:
    """Whether two patterns are equal."""
    if type(a) is not type(b):
        return False
    if isinstance(a, PlainValue):
        x, y = a.value, b.value
        return x is y or (type(x) is type(y) and isinstance(x, _IMMUTABLE) and bool(x == y))
    if isinstance(a, HeldArray):
        return a[:2] == b[:2]
    if isinstance(a, Parts):
        same = a[:2] == b[:2] and a.number == b.number and len(a.items) == len(b.items)
        return same and all(map(alike, a.items, b.items))
    return bool(a == b)


def atom_of(leaf: Any) -> Atom:
    return to_atom(leaf)
