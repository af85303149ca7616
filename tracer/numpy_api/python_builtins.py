"""Builtins that are answered from an object's type, for traced arrays: what recorded code finds under their names.

``bytecode/shown_names.py`` says where and how.  Each does what Python's own does, and asks ``class_of`` where its
argument is a traced array.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from ..bytecode.shown_names import CALLED, CALLED_AS, CALLED_OF, SOMETIMES, VALUES
from ..ops.elementwise import cast
from ..record.array import TracedArray, class_of, has_attribute, unsupported, wrap, wrap_array
from ..record.recorder import current_recorder
from ..record.shown_text import Printed, Texts

_ABSENT = object()


class _Type:
    """``type``, called or passed on: equal to it, and as a class the same."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and type(args[0]) is TracedArray:
            return class_of(args[0])
        return type(*args, **kwargs)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, type)

    def __subclasscheck__(self, cls: Any) -> bool:
        return issubclass(cls, type)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (type,)

    def __getattr__(self, name: str) -> Any:
        return getattr(type, name)

    def __eq__(self, other: Any) -> bool:
        return other is type or other is self

    def __hash__(self) -> int:
        return hash(type)


def _hasattr(obj: Any, name: Any, /) -> bool:
    if type(obj) is TracedArray and isinstance(name, str):
        return has_attribute(class_of(obj), name)
    return hasattr(obj, name)


def _getattr(obj: Any, name: Any, /, *default: Any) -> Any:
    if type(obj) is not TracedArray or not isinstance(name, str):
        return getattr(obj, name, *default)
    kind = class_of(obj)
    if not has_attribute(kind, name):
        if default:
            return default[0]
        raise AttributeError(f"'{kind.__name__}' object has no attribute '{name}'")
    found = getattr(obj, name, _ABSENT)
    if found is _ABSENT:
        raise unsupported(f"{kind.__name__}.{name}")
    return found


def _float(value: Any = 0.0, /) -> Any:
    if type(value) is TracedArray:
        return value.number()
    number = getattr(type(value), "_tracegrad_number", None)
    if number is not None:
        return number(value)
    method = getattr(type(value), "__float__", None)
    if type(method) is types.FunctionType:  # the user's, which may give a traced number
        found = method(value)
        return found if type(found) is TracedArray else float(found)
    return float(value)


def _map(function: Any, /, *iterables: Any) -> Any:
    return map(CALLED["float"] if function is float else function, *iterables)


def _texts() -> Texts | None:
    recorder = current_recorder()
    return None if recorder is None else recorder.texts


def _print(*values: Any, sep: str | None = " ", end: str | None = "\n", file: Any = None, flush: bool = False) -> None:
    texts = _texts()
    if texts is None or file is not None:
        print(*values, sep=sep, end=end, file=file, flush=flush)
        return
    texts.printing = True
    try:
        text = (" " if sep is None else sep).join([str(value) for value in values])
    finally:
        texts.printing = False
    texts.printed.append(Printed(text, "\n" if end is None else end, bool(flush)))


def _scalar_class(kind: type) -> Any:
    def convert(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and type(args[0]) is TracedArray:
            atom = cast(args[0].atom, np.dtype(kind))
            return wrap_array(atom) if atom.aval.shape else wrap(atom)
        return kind(*args, **kwargs)

    return convert


_type = _Type()
CALLED.update(type=_type, hasattr=_hasattr, getattr=_getattr, float=_float, map=_map, print=_print)
SOMETIMES.update(print=lambda: _texts() is not None)
_scalars = {kind: _scalar_class(kind) for kind in (np.float64, np.float32)}
CALLED_OF[id(np)] = (
    np,
    types.SimpleNamespace(
        float64=_scalars[np.float64],
        double=_scalars[np.float64],
        float32=_scalars[np.float32],
        single=_scalars[np.float32],
    ),
)
CALLED_AS.update({id(kind): (kind, convert) for kind, convert in _scalars.items()})
VALUES.update(type=_type, hasattr=_hasattr, getattr=_getattr)

__all__: list[str] = []
