"""The code that a function's names lead to: what can be told of a live run before it runs."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from typing import Any

from ...tracer.convert.source import parts_of
from ...tracer.convert.uses import uses, written_results
from ...tracer.ir.class_flags import HEAP_TYPE
from ..state.trust import Trust
from ..state.values import is_empty

_MOST = 400  # functions


class ReachedCode:
    """The code of *fn*, and that of the user's functions and classes that it finds by names, and they by theirs.

    *given*: arguments, whose classes count too.  Nothing is looked at before it is asked for."""

    def __init__(self, fn: Callable[..., Any], trust: Trust, given: Iterable[Any] = ()) -> None:
        self._roots, self._trust = [*given, fn], trust

    @cached_property
    def _reached(self) -> tuple[list[types.CodeType], list[Any]]:
        """(the code, the values of its names)."""
        codes, found = dict[types.CodeType, None](), list[Any]()
        waiting, classes, trust = [*self._roots], set[type](), self._trust
        while waiting and len(codes) < _MOST:
            value = waiting.pop()
            value = _within(_within(value, "__func__"), "__wrapped__")
            if type(value) is not types.FunctionType:
                for cls in (value if issubclass(type(value), type) else type(value)).__mro__:
                    if cls.__flags__ & HEAP_TYPE and cls not in classes and not trust.owns(cls):
                        classes.add(cls)
                        waiting += [_within(x, "__func__") for x in vars(cls).values()]
                continue
            if value.__code__ in codes or trust.owns(value):
                continue
            values = [cell.cell_contents for cell in value.__closure__ or () if not is_empty(cell)]
            for code in parts_of(value.__code__):
                codes[code] = None
                values += [value.__globals__[name] for name in code.co_names if name in value.__globals__]
            found += values
            waiting += values
        return [*codes], found

    @property
    def found(self) -> list[Any]:
        """The values of the names in this code."""
        return self._reached[1]

    @cached_property
    def names_written(self) -> frozenset[str]:
        """The names of what this code writes into: ``z[i] = ...``; of functions that return it, too."""
        return frozenset(name for code in self._reached[0] for name in uses(code).written | written_results(code))

    @cached_property
    def asks_identity(self) -> bool:
        """Whether the code asks by ``is`` for anything else than constants."""
        return any(map(_asks_identity, self._reached[0]))

    @cached_property
    def floats(self) -> set[float]:
        """The floats that stand in this code."""
        consts = [x for code in self._reached[0] for x in code.co_consts]
        parts = [part for x in consts for part in (x if type(x) in (tuple, frozenset) else (x,))]
        return {float(x) for x in parts if isinstance(x, float)}


def _within(value: Any, name: str) -> Any:
    """The function of that *name* in *value*, or *value* itself; a ``__getattr__`` of the user's is not asked."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return value


@lru_cache(maxsize=4096)
def _asks_identity(code: types.CodeType) -> bool:
    before = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IS_OP" and before != "LOAD_CONST":
            return True
        before = instruction.opname
    return False
