"""Wrappers: functions that are made of another function and settings; and how one is rebuilt elsewhere.

A class says once what its objects are made of: the function is ``__wrapped__``, and ``_tracegrad_settings()`` are the
arguments of the class behind it.  All else follows from these: the same wrapper of another function (in an outer
recording, of its copy), its text in the keys of recordings on disk, copies, and pickles.  What a
wrapper has learned in this process (recordings, kernels, locks, counters) stays in it.

**Pickling is that of functions.**  ``pickle`` takes the name of a function, and ``cloudpickle`` (joblib, Dask, Ray,
Spark) its code where it stands in ``__main__``, which a worker has not, or in a module that is registered for that.
Nothing tells ``__reduce__`` who asks, so the question is handed on: a wrapper that is found under its own name has two
functions as attributes, which are found under its name as well, and is pickled by them.  Where they arrive by name,
the wrapper is the one that has them; where they arrive by their code, one of them has the parts of the wrapper with
it.  What has no name of its own is pickled by its parts.

A wrapper is there before its parts are, since functions may refer to themselves and to each other.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from ..tracer.ir.gc_pause import imported_to_stay

P = ParamSpec("P")  # the parameters of a function
R = TypeVar("R")  # its result
_SELF = TypeVar("_SELF", bound="Wrapper")


class LinesOf:
    """The lines of the functions that *fn* reaches, and its own, which are pickled where it is sent as code."""

    def __init__(self, fn: Any, came: Any = ()) -> None:
        self._fn, self._came = fn, came  # those that have come here with it

    def __reduce__(self) -> Any:
        if self._fn is None:
            return _received, (self._came,)
        return _received, (imported_to_stay("..tracer.convert.sending", __package__).lines_for(self._fn),)


def _received(lines: Any) -> LinesOf:
    imported_to_stay("..tracer.convert.sent_texts", __package__).keep(lines)
    return LinesOf(None, lines)


class Wrapper:
    """A function made of the function ``__wrapped__`` and settings."""

    __wrapped__: Any

    def _tracegrad_settings(self) -> tuple[Any, ...]:
        """The arguments of the class behind the function."""
        raise NotImplementedError

    def _tracegrad_rebuild(self: _SELF, fn: Callable[..., Any]) -> _SELF:
        """The same wrapper of another function."""
        return type(self)(fn, *self._tracegrad_settings())  # type: ignore[call-arg]

    def __copy__(self: _SELF) -> _SELF:
        return self

    def __deepcopy__(self: _SELF, memo: dict[int, Any]) -> _SELF:
        """Itself, as a function is its own copy, unless what it is made of is copied: a module, a callable object."""
        inner = copy.deepcopy(self.__wrapped__, memo)
        return self if inner is self.__wrapped__ else self._tracegrad_rebuild(inner)

    def __reduce_ex__(self, protocol: Any) -> Any:
        module, name = getattr(self, "__module__", None), getattr(self, "__qualname__", None)
        if type(module) is not str or type(name) is not str or named(module, name) is not self:
            return self._tracegrad_parts()
        if protocol < 4:  # which has no names within objects
            return name
        return begun, (type(self), self._tracegrad_place), self._tracegrad_sent

    @property
    def _tracegrad_place(self) -> FunctionType:
        """A function that is found under the name of this wrapper."""
        return self._tracegrad_function(_place)

    @property
    def _tracegrad_sent(self) -> FunctionType:
        """Another one, which has the parts of this wrapper as its defaults."""
        fn = self.__wrapped__
        return self._tracegrad_function(_sent, fn, self._tracegrad_settings(), LinesOf(fn))

    def _tracegrad_function(self, like: Callable[..., None], *parts: Any) -> FunctionType:
        kept = self.__dict__.setdefault("_tracegrad_functions", {})
        name = f"{self.__qualname__}._tracegrad{like.__name__}"  # type: ignore[attr-defined]
        if name not in kept:
            made = FunctionType(like.__code__, {"__name__": self.__module__}, like.__name__, parts)
            made.__module__, made.__qualname__ = self.__module__, name
            kept.setdefault(name, made)
        return kept[name]

    def _tracegrad_parts(self) -> Any:
        """As ``__reduce__``, for what has no name of its own."""
        return begun, (type(self), None), (self.__wrapped__, self._tracegrad_settings(), LinesOf(self.__wrapped__))

    def __setstate__(self, state: Any) -> None:
        if "__wrapped__" not in self.__dict__:  # else it was found by its name
            fn, settings, *_ = (state.__defaults__ or ()) if isinstance(state, FunctionType) else state
            self.__init__(fn, *settings)  # type: ignore[misc]


def begun(cls: type[_SELF], place: FunctionType | None) -> _SELF:
    """The wrapper whose *place* this is, or one that ``__setstate__`` completes."""
    if place is not None:
        found = named(place.__module__, place.__qualname__.rpartition(".")[0])
        if getattr(found, "_tracegrad_place", None) is place:
            return found
    return object.__new__(cls)


def named(module: str, name: str) -> Any:
    """The object under the qualified *name* in *module*, or None."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _place() -> None:
    """It stands where a wrapper does."""


def _sent(fn: Any, settings: Any, lines: Any) -> None:
    """Its defaults are the parts of a wrapper."""


def layers(fn: Any) -> list[Any]:
    """*fn*, the function that it wraps, and so on: what wraps no other is the last."""
    found = [fn]
    while isinstance(found[-1], Wrapper):
        found.append(found[-1].__wrapped__)
    return found


def came_as_code(fn: Any) -> bool:
    """Whether *fn* is a function of no module's namespace: one that was sent here."""
    space = fn.__globals__ if type(fn) is FunctionType else {"__spec__": None}
    name = space.get("__name__")
    if "__spec__" in space or type(name) is not str:  # a module's, or the copy of one; a place for `exec`
        return False
    return vars(sys.modules.get(name, sys)) is not space
