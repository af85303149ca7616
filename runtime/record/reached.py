"""The code and the objects that a function's names lead to: what can be told of a live run before it begins."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial
from typing import Any

from ...tracer.convert.source import parts_of
from ...tracer.convert.uses import uses, written_elsewhere
from ...tracer.ir.own_attributes import dict_of, in_class, is_empty
from ..state.trust import Trust
from ..state.values import is_leaf
from ..tensor_library import TENSORS

_MOST = 2000  # objects that are looked at
_OVER_FUNCTIONS = (staticmethod, classmethod, types.MethodType)


class Reached:
    """All that *fn* finds by names, and so on: functions of the user's with their code, objects with those of their
    attributes that this code names.

    *given*: arguments, which count too.  *methods*: so do all methods of the classes that are found, by whatever name
    they are called.  Nothing is looked at before it is asked for."""

    def __init__(self, fn: Callable[..., Any], trust: Trust, given: Iterable[Any] = (), methods: bool = True) -> None:
        self._roots, self._trust, self._methods = [*given, fn], trust, methods
        self._codes: dict[types.CodeType, None] = {}
        self._names: set[str] = set()  # of the attributes that this code asks for

    @property
    def found(self) -> list[Any]:
        """The values of the names in this code."""
        return self._all[1]

    @property
    def tensors(self) -> bool:
        """Whether there are tensors among these objects."""
        return any(issubclass(type(value), TENSORS.kinds) for value in self._all[0]) if TENSORS.kinds else False

    @cached_property
    def names_written(self) -> frozenset[str]:
        """The names of what this code writes into: ``z[i] = ...``; and of the functions and arguments that it is of."""
        return frozenset().union(*map(_written, self._code()))

    @cached_property
    def asks_identity(self) -> bool:
        """Whether the code asks by ``is`` for anything else than constants."""
        return any(map(_asks_identity, self._code()))

    @cached_property
    def floats(self) -> set[float]:
        """The floats that stand in this code."""
        consts = [x for code in self._code() for x in code.co_consts]
        parts = [part for x in consts for part in (x if type(x) in (tuple, frozenset) else (x,))]
        return {float(x) for x in parts if isinstance(x, float)}

    def _code(self) -> Iterable[types.CodeType]:
        return self._codes if self._all else ()

    @cached_property
    def _all(self) -> tuple[list[Any], list[Any]]:
        """(the objects, those that are values of names in the code)"""
        while True:  # until the code that is found names no other attributes
            before, seen, waiting, self._values = len(self._names), dict[int, Any](), [*self._roots], list[Any]()
            while waiting and len(seen) < _MOST:
                value = waiting.pop()
                if id(value) not in seen:
                    seen[id(value)] = value
                    waiting += self._parts(value)
            if len(self._names) == before:
                return [*seen.values()], self._values

    def _parts(self, value: Any) -> Iterable[Any]:
        kind = type(value)
        if is_leaf(value):
            return ()
        if kind is types.FunctionType:
            return () if self._trust.owns(value) else self._of_function(value)
        if kind in (list, tuple, set, frozenset):
            return value
        if issubclass(kind, dict):
            return dict.values(value)
        if kind is types.MethodType:
            return value.__func__, value.__self__
        if kind is partial:
            return value.func, *value.args, *value.keywords.values()
        if kind is types.ModuleType:
            return () if self._trust.module(value) else self._named(vars(value))
        if in_class(kind, "_tracegrad_rebuild"):
            return (value.__wrapped__,)
        is_class = issubclass(kind, type)
        bases = [base for base in (value if is_class else kind).__mro__ if not self._trust.cls(base)]
        methods = [part for base in bases for part in self._named(vars(base), self._methods)]
        own = {} if is_class else dict_of(value) or {}
        return [*methods, *(self._named(own) if not self._trust.cls(kind) else [own.get("__wrapped__")])]

    def _named(self, parts: Any, methods: bool = False) -> Iterator[Any]:
        """The *parts* of a class, a module or an object that code asks for, or that Python itself calls."""
        if not isinstance(parts, Mapping):  # a ``__dict__`` of its own kind
            return
        for name, part in list(parts.items()):
            function = part.__func__ if type(part) in _OVER_FUNCTIONS else part.fget if type(part) is property else part
            is_function = type(function) is types.FunctionType
            if name in self._names or (is_function and (methods or name.startswith("__"))):
                yield function

    def _of_function(self, fn: types.FunctionType) -> Iterator[Any]:
        values = [cell.cell_contents for cell in fn.__closure__ or () if not is_empty(cell)]
        for code in parts_of(fn.__code__):
            self._codes[code] = None
            self._names.update(code.co_names)
            # `@pytest_ar` in asserts that pytest has rewritten is no name of the user's, and leads to all of pytest
            named = [name for name in code.co_names if name in fn.__globals__ and name.isidentifier()]
            values += [fn.__globals__[name] for name in named]
        self._values += values
        yield from values
        yield from fn.__defaults__ or ()
        yield from (fn.__kwdefaults__ or {}).values()
        yield fn.__dict__.get("__wrapped__")


@lru_cache(maxsize=4 * _MOST)  # of what is looked at in a run, and again in the next one, all
def _written(code: types.CodeType) -> frozenset[str]:
    return frozenset(uses(code).written | written_elsewhere(code))


@lru_cache(maxsize=4096)
def _asks_identity(code: types.CodeType) -> bool:
    before = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IS_OP" and before != "LOAD_CONST":
            return True
        before = instruction.opname
    return False
