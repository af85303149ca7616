"""Whether a function may come to tensors outside, as far as the names in its code lead: where its Python runs in each
call, that has to be known before the run begins (a run that is logged ends where it meets one)."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ...tracer.ir.own_attributes import dict_of, in_class
from ..state.trust import Trust
from ..tensor_library import TENSORS

_MOST = 2000  # objects that are looked at
_OVER_FUNCTIONS = (staticmethod, classmethod, types.MethodType)


def reaches_tensors(fn: Any, objects: Iterable[Any]) -> bool:
    """Whether *fn*, which has these *objects* among its arguments, may come to tensors outside."""
    names: set[str] = set()
    while True:  # until the code that is found names no other attributes
        before, found = len(names), _TensorSearch(names).finds([fn, *objects])
        if found or len(names) == before:
            return found


class _TensorSearch:
    """One way through what is reached; *names*: those of the attributes that code asks for, which it adds to."""

    def __init__(self, names: set[str]) -> None:
        self._names, self._trust = names, Trust()

    def finds(self, values: list[Any]) -> bool:
        seen: dict[int, Any] = {}
        while values and len(seen) < _MOST:
            value = values.pop()
            if issubclass(type(value), TENSORS.kinds):
                return True
            if id(value) not in seen:
                seen[id(value)] = value
                values += self._parts(value)
        return False

    def _parts(self, value: Any) -> Iterable[Any]:
        kind = type(value)
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
        if issubclass(kind, type):
            return () if self._trust.cls(value) else self._named(vars(value))
        if in_class(kind, "_tracegrad_rebuild"):
            return (value.__wrapped__,)
        if self._trust.cls(kind):
            return ()
        methods = [part for base in kind.__mro__ if not self._trust.cls(base) for part in self._named(vars(base))]
        return [*methods, *self._named(dict_of(value) or {})]

    def _named(self, parts: Any) -> Iterator[Any]:
        """The *parts* of a class, a module or an object that code asks for, or that Python itself calls."""
        if not isinstance(parts, Mapping):  # a ``__dict__`` of its own kind
            return
        for name, part in list(parts.items()):
            if name in self._names or (name.startswith("__") and type(part) is types.FunctionType):
                yield part.__func__ if type(part) in _OVER_FUNCTIONS else part.fget if type(part) is property else part

    def _of_function(self, fn: types.FunctionType) -> Iterator[Any]:
        codes = [fn.__code__]
        for code in codes:
            codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
            self._names.update(code.co_names)
            yield from [fn.__globals__[name] for name in code.co_names if name in fn.__globals__]
        yield from fn.__defaults__ or ()
        yield from (fn.__kwdefaults__ or {}).values()
        for cell in fn.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # it is empty
                continue
