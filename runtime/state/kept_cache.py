"""Functions that keep their results (``functools.lru_cache``), as recorded code finds them.

A call of plain values is made on the cache itself, and a replay makes it again (``Cached``): what it gives is what the
recording rests on.  A call of traced values goes past the cache, to the function in it, once for the same values.
Where the function in it changes anything, Python runs instead: what a cache has once kept it does not do again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container
from typing import Any

import numpy as np

from ...tracer.ir.class_flags import HEAP_TYPE
from .contents import attributes
from .objects import keeps_c_state
from .state_graph import MAX_CONTENT
from .values import identity, is_leaf, same, token

CACHE: Any = type(functools.lru_cache(len))
_MAX_PARTS = 1000
_DEPTH = 4  # of objects in one another that are looked into


class Cached:
    """A call of *cached* with plain values, which had an *answer* before."""

    __slots__ = ("_args", "_arrays", "_cached", "_key", "_kwargs", "answer")

    def __init__(
        self, cached: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], answer: Any,
        outside: Container[int] = (),
    ) -> None:  # fmt: skip
        """:param outside: ids of objects that each run finds; others among the values are made by the run."""
        self._cached, self._args, self._kwargs, self.answer = cached, args, kwargs, answer
        self._arrays = _arrays(answer) or ()
        given = *[_key(x, outside) for x in args], *[(name, _key(x, outside)) for name, x in kwargs.items()]
        shown = token(answer) if is_leaf(answer) else identity(answer)
        self._key = id(cached), given, shown, *[_content(array) for array in self._arrays]

    def holds(self) -> bool:
        """Whether the cache gives the same answer."""
        now = self._cached(*self._args, **self._kwargs)
        if now is not self.answer and not (is_leaf(self.answer) and same(now, self.answer)):
            return False
        return not self._arrays or [*map(_content, self._arrays)] == [*self._key[3:]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cached) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _key(value: Any, outside: Container[int], depth: int = 0) -> Any:
    if is_leaf(value):
        return token(value)
    if type(value) is tuple:
        return tuple([_key(x, outside, depth) for x in value])
    if type(value) is np.ndarray and not value.dtype.hasobject and value.nbytes <= MAX_CONTENT:
        return _content(value)
    kind = type(value)
    if id(value) in outside or depth > _DEPTH or not kind.__flags__ & HEAP_TYPE or keeps_c_state(kind):
        return identity(value)
    return kind, *[(name, _key(x, outside, depth + 1)) for name, x in sorted(attributes(value).items())]


def _content(array: np.ndarray) -> Any:
    return array.dtype, array.shape, array.strides, array.tobytes()


def _arrays(answer: Any) -> list[np.ndarray] | None:
    """The arrays in an answer; None where it has parts that may change and are not known."""
    found: list[np.ndarray] = []
    stack, seen = [answer], 0
    while stack:
        value, seen = stack.pop(), seen + 1
        if type(value) is tuple:
            stack += value
        elif type(value) is np.ndarray and not value.dtype.hasobject and value.nbytes <= MAX_CONTENT:
            found.append(value)
        elif not is_leaf(value) or seen > _MAX_PARTS:
            return None
    return found
