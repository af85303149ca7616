"""Stand-ins for objects of the user's classes, for code in C: by special methods it asks their copies.

So Python's own ``len``, ``iter``, ``format``, ``with`` and the like decide what is asked, in which order, and what an
answer has to be.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...tracer.ir.site import FOR_THE_USER
from ...tracer.record.array import TracedArray
from ..state.pins import MISSING, home, lookup
from .kinds import BUILT, PLAIN, TRACED

#: the special methods by which an object is gone through, and by which its text is made
ITERATES, SHOWS = ("__iter__", "__next__", "__getitem__", "__len__"), ("__format__", "__str__", "__repr__")


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
    if kind in PLAIN or kind in BUILT or not any(run.method(obj, name) for name in names):
        return obj
    there = [name for name in names if home(kind, name) not in (object, None) or name == "__repr__"]
    return _class_of(kind.__name__, tuple([(name, lookup(kind, name) is None) for name in there]))(run, obj)


def alone(x: Any) -> Any:
    """The object for which *x* stands, if it does."""
    return x.obj if isinstance(x, Asked) else x


def judged(function: Callable[[Any], Any], name: str, obj: Any, found: Any) -> Any:
    """The result that a builtin makes of the answer *found* of the method *name* of *obj*."""
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
def _class_of(name: str, methods: tuple[tuple[str, bool], ...]) -> Any:
    space: dict[str, Any] = {method: None if is_none else _forward(method) for method, is_none in methods}
    if "__next__" in space:
        space.setdefault("__iter__", lambda self: self)
    return type(name, (Asked,), {"__slots__": (), **space})


def _forward(name: str) -> Callable[..., Any]:
    answer = _ANSWERS.get(name)

    def ask(self: Asked, *args: Any) -> Any:
        own = self.run.method(self.obj, name)
        given = [alone(x) for x in args]
        found = lookup(type(self.obj), name).__get__(self.obj)(*given) if own is None else own(*given)
        return found if answer is None else answer(self.run, found)

    return ask


def _truth(run: Any, found: Any) -> Any:
    return run.test(found)


def _plain(run: Any, found: Any) -> Any:
    """An answer that Python judges, of which there are no traced ones."""
    return found if type(found) not in TRACED else operator.index(found)


_ANSWERS: dict[str, Callable[[Any, Any], Any]] = {
    "__iter__": lambda run, found: asked(run, found, "__next__"),
    **dict.fromkeys(("__contains__", "__exit__"), _truth),
    **dict.fromkeys(("__len__", "__index__", "__int__"), _plain),
}  # fmt: skip

FOR_THE_USER.add(__file__)
