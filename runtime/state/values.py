"""Immutable values: leaves that are compared as a whole, their tokens in keys, and sameness.

Start reading at ``is_leaf`` and ``token``. Two leaves are the same when type and bits agree: ``1``, ``1.0`` and
``True`` differ, so do ``0.0`` and ``-0.0``, and a NaN equals itself if the bits do.  In the outside state it has
to be the very object, too (``state_token``, ``unchanged``): ``n in values`` asks for identity first, and of two other
equal numbers nobody can tell which is which by that.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import operator
import pathlib
import re
import struct
import sys
import types
import uuid
from collections.abc import Collection, Hashable, Iterable
from itertools import chain
from typing import Any

import numpy as np

_PLAIN = {type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented), range}
_BY_REPR = {
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, decimal.Decimal,
    fractions.Fraction, uuid.UUID, pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath,
    pathlib.WindowsPath,
}  # fmt: skip
_ATOMS = _PLAIN | _BY_REPR | {float, complex, re.Pattern}
_NUMPY_SCALARS = {t for t in np.sctypeDict.values() if t not in (np.void, np.object_)}
_UNEQUAL = (float, complex, decimal.Decimal, np.inexact)  # of which some do not equal themselves
# Types whose == is identity: such objects stand for themselves in a key.
_IDENTITY_TYPES = {types.FunctionType, types.ModuleType, type, np.ufunc}


def holders() -> tuple[type, ...]:
    """Classes whose objects hold attributes for anybody: that of argparse once it has been imported."""
    parsed = getattr(sys.modules.get("argparse"), "Namespace", None)
    return (types.SimpleNamespace,) if parsed is None else (types.SimpleNamespace, parsed)


class IdentityKey:
    """The token of an object that is compared by identity; keeps it alive, so that its id is not used again."""

    __slots__ = ("obj",)

    def __init__(self, obj: object) -> None:
        self.obj = obj

    def __eq__(self, other: object) -> bool:
        return type(other) is IdentityKey and self.obj is other.obj

    def __hash__(self) -> int:
        return id(self.obj) >> 4

    def __repr__(self) -> str:
        return f"<the {type(self.obj).__name__} {getattr(self.obj, '__name__', self.obj)!r}>"


class StateKey:
    """A hashable that stands for everything guarded; the hash is computed once."""

    __slots__ = ("_hash", "tokens")

    def __init__(self, tokens: tuple[Hashable, ...]) -> None:
        self.tokens = tokens
        self._hash = hash(tokens)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is StateKey and self._hash == other._hash and self.tokens == other.tokens)

    def __repr__(self) -> str:
        return f"StateKey({len(self.tokens)} tokens)"


def identity(obj: Any) -> Hashable:
    """The token of an object that is compared by identity."""
    return obj if type(obj) in _IDENTITY_TYPES else IdentityKey(obj)


def is_leaf(value: Any, depth: int = 0) -> bool:
    """Whether a value is immutable all the way down and compared as a whole."""
    kind = type(value)
    if kind in _ATOMS or kind in _NUMPY_SCALARS or issubclass(kind, np.dtype):
        return True
    if kind is tuple or kind is frozenset:
        return depth < 20 and len(value) <= 10_000 and all(is_leaf(v, depth + 1) for v in value)
    if kind is slice:
        return is_leaf(value.start) and is_leaf(value.stop) and is_leaf(value.step)
    return False


def leaf_size(value: Any) -> int:
    """The number of leaves that a leaf counts for against the cap."""
    if type(value) in (tuple, frozenset):
        return 1 + sum([leaf_size(v) for v in value])
    return 1


def token(value: Any, nans: bool = False) -> Hashable:
    """A hashable that is equal for two leaves exactly when they are the same; with *nans* each NaN is itself alone."""
    kind = type(value)
    if nans and kind not in _PLAIN and is_nan(value):
        return IdentityKey(value)
    if kind in _PLAIN:
        return (kind, value)
    if kind is float:
        return (kind, struct.pack("<d", value))
    if kind is complex:
        return (kind, struct.pack("<dd", value.real, value.imag))
    if kind is tuple or kind is frozenset:
        return (kind, tuple([token(v, nans) for v in value]))
    if kind is slice:
        return (kind, token(value.start, nans), token(value.stop, nans), token(value.step, nans))
    if kind in _BY_REPR:
        return (kind, repr(value))
    if kind is re.Pattern:
        return (kind, type(value.pattern), value.pattern, value.flags)
    if isinstance(value, np.dtype):
        return (np.dtype, value)
    return (kind, value.dtype, value.tobytes())


def same(a: Any, b: Any) -> bool:
    """Whether two leaves are the same (``a`` may be anything, ``b`` is a leaf)."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is float and a == b and a != 0.0:
        return True
    return is_leaf(a) and token(a) == token(b)


def is_nan(value: Any) -> bool:
    """Whether a leaf is a number that does not equal itself."""
    return isinstance(value, _UNEQUAL) and bool(value != value)


def nans_in(value: Any) -> list[Any]:
    """The NaNs in a leaf."""
    if type(value) in (tuple, frozenset):
        return [nan for part in value for nan in nans_in(part)]
    return [value] if is_nan(value) else []


def state_token(value: Any) -> Hashable:
    """The token of a leaf of the outside state."""
    return token(value, nans=True)


def unchanged(now: Any, before: Any) -> bool:
    """As ``same``, for leaves of the outside state."""
    if now is before:
        return True
    if type(before) in (tuple, frozenset, slice):
        return type(now) is type(before) and is_leaf(now) and state_token(now) == state_token(before)
    return same(now, before) and not is_nan(before)


def all_unchanged(values: Any, expected: tuple) -> bool:
    """Whether two sequences of leaves are the same, in order and length."""
    values = tuple(values)
    return len(values) == len(expected) and all(map(unchanged, values, expected))


class LongList:
    """The items of a long list or tuple, plain numbers or tuples of such, which are compared at once."""

    __slots__ = ("items", "kind", "token")

    def __init__(self, items: tuple[Any, ...], kind: type) -> None:
        self.items, self.kind, self.token = items, kind, _token_of_all(items, kind)

    @classmethod
    def of(cls, items: Collection[Any]) -> LongList | None:
        """Those of *items*; None where they are few, or no such numbers of one class."""
        kinds = set(map(type, items))
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind not in _LONG or not _LONG[kind] <= len(items) <= _MOST_VALUES:
            return None
        if kind is tuple and not (set(map(type, chain.from_iterable(items))) <= {int, float}):
            return None
        if kind is tuple and sum(map(len, items)) > _MOST_VALUES:
            return None
        if any(map(operator.ne, items, items)) or (kind is tuple and any(map(nans_in, items))):
            return None
        return cls(tuple(items), kind)

    def same(self, now: Collection[Any]) -> bool:
        """Whether a list or tuple has the same items."""
        if len(now) != len(self.items) or set(map(type, now)) != {self.kind}:
            return False
        if self.kind is tuple:
            return all_unchanged(now, self.items)
        return not any(map(operator.ne, now, now)) and _token_of_all(tuple(now), self.kind) == self.token


# Items from which on a list is compared at once.  Of a list that varies from call to call, each float may become a
# number of the run, if it was read by itself (a heuristic).
_LONG = {int: 256, tuple: 256, float: 2048}
_MOST_VALUES = 2**20


def _token_of_all(items: tuple[Any, ...], kind: type) -> Hashable:
    if kind is tuple:
        return state_token(items)
    try:
        return kind, np.array(items, np.int64 if kind is int else np.float64).tobytes()
    except OverflowError:
        return kind, items


Partition = tuple[int, ...]


def partition(objects: Iterable[object]) -> Partition:
    """For each object the position of the first that is the same one."""
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(obj), k) for k, obj in enumerate(objects)])


def keys_unchanged(keys: Collection[Any], expected: tuple[Any, ...]) -> bool:
    """Whether a dict has these keys in this order; objects are not asked whether they are equal."""
    return len(keys) == len(expected) and all(
        now is known or (is_leaf(known) and unchanged(now, known)) for now, known in zip(keys, expected, strict=True)
    )


def array_token(array: np.ndarray) -> Hashable:
    """The token of an array that is read again in each call: dtype, shape and layout."""
    return (array.dtype, array.shape, "C" if array.flags.c_contiguous else array.strides)
