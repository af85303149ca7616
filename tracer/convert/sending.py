"""The lines that are sent with a function, should it be sent as code: its own, and those of the functions that it
reaches, or may find under a name that is bound again."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

from ..ir.class_flags import HEAP_TYPE
from ..ir.site import is_installed
from .sent_texts import SentLines
from .source import lines_of, parts_of

_MOST = 256  # functions


def lines_for(fn: Any) -> tuple[SentLines, ...]:
    """The lines of *fn*, of the functions that it reaches, and of others in its namespace, as far as they are known."""
    space = [x for x in getattr(fn, "__globals__", {}).values() if type(x) is types.FunctionType]
    every = [lines_of(f.__code__, f.__code__.co_filename) for f in _reached([*space, fn])]
    return tuple([lines for lines in every if lines is not None])


def _reached(todo: list[Any]) -> Iterator[types.FunctionType]:
    met: set[int] = set()
    while todo and len(met) < _MOST:
        value = todo.pop()
        kind = type(value)
        if kind in (types.FunctionType, types.ModuleType) or isinstance(value, type):
            if id(value) in met or kind is types.ModuleType:
                continue
            met.add(id(value))
            if kind is not types.FunctionType:
                todo += [*vars(value).values(), *value.__bases__] if value.__flags__ & HEAP_TYPE else ()
            elif not is_installed(value.__code__.co_filename):
                yield value
                todo += _found_by(value)
        elif kind in (staticmethod, classmethod, types.MethodType):
            todo.append(value.__func__)
        elif kind is property:
            todo += [value.fget, value.fset]
        elif kind is functools.partial:
            todo += [value.func, *value.args]
        elif kind in (list, tuple, dict):
            todo += [*(value.values() if kind is dict else value)][:_MOST]
        elif any("_tracegrad_rebuild" in base.__dict__ for base in kind.__mro__):
            todo.append(value.__wrapped__)
        else:
            todo.append(kind)


def _found_by(fn: types.FunctionType) -> Iterator[Any]:
    """The values that a function finds outside."""
    for cell in fn.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
    yield from fn.__defaults__ or ()
    yield from (fn.__kwdefaults__ or {}).values()
    yield fn.__dict__.get("__wrapped__")
    for part in parts_of(fn.__code__):
        for name in part.co_names:
            yield fn.__globals__.get(name)
