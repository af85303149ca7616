"""Operators and iteration as Python does them: of an object of the user's class, by its methods, in Python's order."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...tracer.convert.transparent import ARITHMETIC, COMPARED, UNARY, Begun, Transparent
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.record.made_arrays import fresh
from ..state.pins import lookup
from .kinds import PLAIN, TRACED

_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_OF_OTHERS = {f"__{name.rstrip('_')}__": f"__r{name.rstrip('_')}__" for name in ARITHMETIC}
#: the method of the other operand
REFLECTED = {
    **_OF_OTHERS, **{other: name for name, other in _OF_OTHERS.items()},
    **{f"__{name}__": f"__{other}__" for name, other in _SWAPPED.items()},
}  # fmt: skip


class SpecialMethods(Transparent):
    """The part of a frame that has them.  ``run.method(obj, name)`` is the callable for a special method of
    the user's; None for others."""

    run: Any
    add: Any
    fresh = staticmethod(fresh)
    test: Callable[[Any], bool]  # type: ignore[assignment]
    call: Callable[..., Any]  # type: ignore[assignment]
    operate: Callable[..., Any]  # of (plain, name, a, b): ``plain(a, b)``, where one of them is no plain value
    in_place: Callable[..., Any]  # of (plain, name, method, a, b): ``plain(a, b)``, which may change *a*
    by_c: Callable[..., Any]  # of (obj, name, other): ``obj.name(other)``, by a method that is not the user's
    unanswered: Callable[..., Any]  # of (plain, a, b): what comes of it where no method has answered

    def iter(self, xs: Any, *counts: int) -> Any:
        return self.run.iterable(xs)

    splat = unpack = unpack_star = iter

    def first_iterable(self, xs: Any) -> Any:
        return Begun(self.run.iterable(xs))

    def by_methods(self, plain: Callable[[Any, Any], Any], name: str, a: Any, b: Any) -> Any:
        """An operator of an object of the user's and another one, by their methods, in Python's order."""
        mine, theirs, reflected = type(a), type(b), REFLECTED[name]
        tried, arithmetic = [(a, name, b), (b, reflected, a)], reflected.startswith("__r")
        if mine is theirs:
            del tried[1 if arithmetic else 2 :]
        elif mine in theirs.__mro__ and (not arithmetic or lookup(theirs, reflected) is not lookup(mine, reflected)):
            tried.reverse()
        for obj, method, other in tried:
            found = self._by_method(obj, method, other)
            if found is not NotImplemented:
                return found
        if name in ("__eq__", "__ne__"):
            return self.is_(a, b) is (name == "__eq__")
        return self.unanswered(plain, a, b)

    def _by_method(self, obj: Any, name: str, other: Any) -> Any:
        asked = self.run.method(obj, name)
        if asked is not None:
            return asked(other)
        if name == "__ne__" and type(obj) not in TRACED and lookup(type(obj), name) is object.__ne__:
            equal = self.run.method(obj, "__eq__")
            found = NotImplemented if equal is None else equal(other)
            return found if found is NotImplemented else not self.test(found)
        return self.by_c(obj, name, other)


def _binary(plain: Callable[[Any, Any], Any], name: str) -> Callable[..., Any]:
    def operate(self: SpecialMethods, a: Any, b: Any) -> Any:
        if type(a) in PLAIN and type(b) in PLAIN:
            return self.fresh(plain(a, b))
        return self.operate(plain, name, a, b)

    return operate


def _in_place(plain: Callable[[Any, Any], Any], name: str, method: str) -> Callable[..., Any]:
    return lambda self, a, b: self.in_place(plain, name, method, a, b)


def _of_one(plain: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    def operate(self: SpecialMethods, a: Any) -> Any:
        method = None if type(a) in PLAIN else self.run.method(a, name)
        return self.fresh(plain(a)) if method is None else method()

    return operate


def _mod(a: Any, b: Any) -> Any:
    return a % b  # which texts look for


for _method in ARITHMETIC:
    _name = _method.rstrip("_")
    _plain = _mod if _method == "mod" else getattr(operator, _method)
    setattr(SpecialMethods, _method, _binary(_plain, f"__{_name}__"))
    setattr(SpecialMethods, f"i{_name}", _in_place(getattr(operator, f"i{_name}"), _name, _method))
for _name in COMPARED:
    setattr(SpecialMethods, _name, _binary(getattr(operator, _name), f"__{_name}__"))
for _name in UNARY:
    setattr(SpecialMethods, _name, _of_one(getattr(operator, _name), f"__{_name}__"))

FOR_THE_USER.add(__file__)
