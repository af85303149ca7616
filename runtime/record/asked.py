"""Stand-ins for objects of the user's classes, for code in C: by special methods it asks their copies.

So Python's own ``len``, ``iter``, ``format``, ``with`` and the like decide what is asked, in which order, and what an
answer has to be.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ...tracer.ir.class_flags import HEAP_TYPE
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.record.array import TracedArray
from ..state.pins import MISSING, home, lookup
from .kinds import PLAIN, TRACED

#: the special methods by which an object is gone through, and by which its text is made
ITERATES, SHOWS = ("__iter__", "__next__", "__getitem__", "__len__"), ("__format__", "__str__", "__repr__")
ORDER, _STEPS = ("__lt__", "__gt__"), ("__next__",)
_GONE_THROUGH = (list, tuple, set, frozenset, dict, enumerate, any, all, iter)
# By id: functions in C that ask what they are given by special methods, which of it, and by which.
_ASKING: dict[int, tuple[slice, tuple[str, ...]]] = {
    **{id(f): (slice(0, 1), ITERATES) for f in _GONE_THROUGH},
    **{id(f): (slice(first, last), ITERATES) for f, first, last in (
        (zip, 0, None), (map, 1, None), (filter, 1, None), (functools.reduce, 1, 2),
    )},
    **{id(f): (slice(0, 1), tuple(names)) for f, *names in (
        (len, "__len__"), (str, *SHOWS[1:]), (repr, "__repr__"), (format, *SHOWS),
        (next, "__next__"), (reversed, "__reversed__", "__len__", "__getitem__"), (abs, "__abs__"),
        (round, "__round__"), (int, "__int__", "__index__"), (operator.index, "__index__"), (float, "__float__"),
        (copy.copy, "__copy__"), (copy.deepcopy, "__deepcopy__"), (operator.getitem, "__getitem__"),
        (operator.contains, "__contains__", *ITERATES),
    )},
    id(divmod): (slice(0, 2), ("__divmod__", "__rdivmod__")), id(pow): (slice(0, 2), ("__pow__", "__rpow__")),
}  # fmt: skip


class Asked:
    """It stands for an object, ``obj``, of a *run*: ``run.method(obj, name)`` is the callable for a special method of
    the user's; None for others."""

    __slots__ = ("obj", "run")

    def __init__(self, run: Any, obj: Any) -> None:
        self.run, self.obj = run, obj

    def __getattr__(self, name: str) -> Any:
        return self.run.attribute_for_c(self.obj, name)


def asked(run: Any, obj: Any, *names: str) -> Any:
    """*obj*, for code in C that asks it by special methods of these *names*; itself where none is the user's."""
    kind = type(obj)
    if kind in PLAIN or not kind.__flags__ & HEAP_TYPE or not any(run.method(obj, name) for name in names):
        return obj
    there = [name for name in names if home(kind, name) not in (object, None) or name == "__repr__"]
    methods = tuple([(name, lookup(kind, name) is None) for name in there])
    return _class_of(kind.__name__, methods, names == _STEPS)(run, obj)


def is_asking(f: Any) -> bool:
    """Whether a function in C asks what it is given."""
    return id(f) in _ASKING


def goes_through(f: Any) -> bool:
    """Whether a function in C iterates over what it is given."""
    return id(f) in _ASKING and _ASKING[id(f)][1] is ITERATES


def asking(run: Any, f: Any, args: Sequence[Any]) -> list[Any] | None:
    """The arguments for a function in C, which asks some by special methods of the user's; None where it does not."""
    if id(f) not in _ASKING or (f is iter and len(args) > 1):
        return None
    if f is dict and args and issubclass(type(args[0]), dict) and run.method(args[0], "__iter__") is None:
        return None  # a dict is copied as it is
    (which, names), given = _ASKING[id(f)], list(args)
    if which.start == 1 and args and (called := run.method(args[0], "__call__")) is not None:
        given[0] = called  # of `map` and the like
    given[which] = [asked(run, x, *names) for x in given[which]]
    return given if any(map(operator.is_not, given, args)) else None


def alone(x: Any) -> Any:
    """The object for which *x* stands, if it does."""
    return x.obj if isinstance(x, Asked) else x


def judged(function: Callable[[Any], Any], name: str, obj: Any, found: Any) -> Any:
    """The result that a builtin makes of the answer *found* of the method *name* of *obj*."""
    if type(found) is function:
        return found
    if name == "__len__" and type(found) is int and found >= 0:
        return found if function is len else found > 0
    return function(type(type(obj).__name__, (), {name: lambda self: found})())


def no_result(found: Any) -> None:
    """An error where the ``__init__`` of an object that is made has a result."""
    if found is not None:
        raise TypeError(f"__init__() should return None, not {type(found).__name__!r}")


def is_true(run: Any, obj: Any) -> bool:
    """``bool(obj)``; a traced answer of the user's is asked for its truth alone."""
    name = next((name for name in ("__bool__", "__len__") if lookup(type(obj), name) is not MISSING), "")
    method = run.method(obj, name)
    if method is None:
        return bool(obj)
    found = method()
    return bool(found if type(found) in TRACED else judged(bool, name, obj, found))


def float_of(run: Any, obj: Any) -> Any:
    """``float(obj)``, by a ``__float__`` of the user's; of a traced value that number."""
    found = run.method(obj, "__float__")()
    return found.number() if type(found) is TracedArray else judged(float, "__float__", obj, found)


class InOrder(Asked):
    """An object of the user's, for code in C that compares it."""

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return bool(self.run.test(self.run.frame.lt(self.obj, alone(other))))

    def __gt__(self, other: Any) -> bool:
        return bool(self.run.test(self.run.frame.gt(self.obj, alone(other))))


@lru_cache(maxsize=1024)
def _class_of(name: str, methods: tuple[tuple[str, bool], ...], iterator: bool) -> Any:
    space: dict[str, Any] = {method: None if is_none else _forward(method) for method, is_none in methods}
    if iterator:
        space["__iter__"] = lambda self: self
    return type(name, (Asked,), {"__slots__": (), **space})


def _forward(name: str) -> Callable[..., Any]:
    answer = _ANSWERS.get(name)

    def ask(self: Asked, *args: Any) -> Any:
        own = self.run.method(self.obj, name)
        if own is None:
            raw = lookup(type(self.obj), name)
            own = raw.__get__(self.obj) if hasattr(type(raw), "__get__") else raw
        found = own(*[alone(x) for x in args])
        return found if answer is None else answer(self.run, found)

    return ask


def _plain(run: Any, found: Any) -> Any:
    """An answer that Python judges, of which there are no traced ones."""
    return found if type(found) not in TRACED else operator.index(found)


_ANSWERS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("__iter__", "__reversed__"), lambda run, found: asked(run, found, *_STEPS)),
    **dict.fromkeys(("__contains__", "__exit__"), lambda run, found: run.test(found)),
    **dict.fromkeys(("__len__", "__index__", "__int__"), _plain),
}  # fmt: skip

FOR_THE_USER.add(__file__)
