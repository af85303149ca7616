"""Builtins that are answered from an object's type, for traced arrays: what recorded code finds under their names.

``bytecode/shown_names.py`` says where and how.  Each does what Python's own does, and asks ``class_of`` where its
argument is a traced array.
"""

from __future__ import annotations

import numbers
import types
from typing import Any

import numpy as np

from ..bytecode.shown_names import CALLED, CALLED_AS, CALLED_OF, SOMETIMES, VALUES
from ..ir.errors import UnsupportedError
from ..ir.refusals import Refusal
from ..ir.site import at_site
from ..ops.elementwise import cast
from ..record.array import TracedArray, class_of, has_attribute, unsupported, wrap, wrap_array
from ..record.integers import TracedInt
from ..record.recorder import current_recorder
from ..record.shown_text import PRINT, VALUE, Printed

_ABSENT = object()


class _Type:
    """``type``, called or passed on: equal to it, and as a class the same."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and type(args[0]) is TracedArray:
            return class_of(args[0])
        if len(args) == 1 and not kwargs and type(args[0]) is TracedInt:
            return int
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
    return hasattr(0 if type(obj) is TracedInt else obj, name)


def _getattr(obj: Any, name: Any, /, *default: Any) -> Any:
    if type(obj) is not TracedArray or not isinstance(name, str):
        return getattr(obj.asked() if type(obj) is TracedInt else obj, name, *default)
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
    _check_origin(value)
    number = getattr(type(value), "_tracegrad_number", None)
    if number is not None:
        return number(value)
    method = getattr(type(value), "__float__", None)
    if type(method) is types.FunctionType:  # the user's, which may give a traced number
        found = method(value)
        return found if type(found) is TracedArray else float(found)
    return float(value)


def _check_origin(value: Any) -> None:
    """An error where *value* (text, a Decimal, a Fraction) is to be a number, and has been made of the text of a traced
    value whose gradient is wanted."""
    recorder = current_recorder()
    while recorder is not None and isinstance(value, str | bytes | numbers.Number) and type(value) not in (float, int):
        for atom in recorder.shown if recorder.differentiates else ():
            if _may_be_text_of(value, recorder.value(atom)) and recorder.has_gradient(atom):
                raise UnsupportedError(
                    at_site(
                        "the text of a traced value is made a number again, which would lose its gradient; use the "
                        "value itself, or tracegrad.stop_gradient(t) where a number without a gradient is meant"
                    )
                )
        recorder = recorder.parent


def _may_be_text_of(value: Any, shown: np.ndarray) -> bool:
    """Whether *value* may have been read from the text of one of the numbers *shown*, rounded or cut, or in percent."""
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    try:
        found = float(value)
    except (ValueError, TypeError, OverflowError):
        return False
    if not np.isfinite(found):
        return bool(np.any(np.isnan(shown) if np.isnan(found) else shown == found))
    mantissa, _, exponent = text.strip().lower().replace("_", "").partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits) if "/" not in text else 1e-9 * abs(found)
    return any(bool(np.any(np.abs(shown * scale - found) <= unit)) for scale in (1.0, 100.0))


def _int(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs and type(args[0]) is TracedInt:
        return args[0]
    return int(*args, **kwargs)


def _map(function: Any, /, *iterables: Any) -> Any:
    return map(CALLED["float"] if function is float else function, *iterables)


def _replays_prints() -> bool:
    """Whether ``print`` is an effect, or shows a step in the body of a loop."""
    recorder = current_recorder()
    return recorder is not None and (recorder.texts is not None or recorder.parent is not None)


def _print(*values: Any, sep: str | None = " ", end: str | None = "\n", file: Any = None, flush: bool = False) -> None:
    recorder = current_recorder()
    texts = None if recorder is None else recorder.texts
    if recorder is None or texts is None:
        print(*values, sep=sep, end=end, file=file, flush=flush)
        return
    texts.asked = PRINT if file is None else VALUE
    try:
        text = (" " if sep is None else sep).join([str(value) for value in values])
    finally:
        texts.asked = ""
    if file is None:
        texts.printed.append(Printed(text, "\n" if end is None else end, bool(flush)))
    else:
        recorder.unrepeatable(Refusal.CALLS_PRINT, what="print(file=...)")
        print(text, end=end, file=file, flush=flush)


def _scalar_class(kind: type) -> Any:
    def convert(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and type(args[0]) is TracedInt:
            args = (args[0].number(),)
        if len(args) == 1 and not kwargs and type(args[0]) is TracedArray:
            atom = cast(args[0].atom, np.dtype(kind))
            return wrap_array(atom) if atom.aval.shape else wrap(atom)
        for value in args:
            _check_origin(value)
        return kind(*args, **kwargs)

    return convert


_type = _Type()
CALLED.update(type=_type, hasattr=_hasattr, getattr=_getattr, float=_float, int=_int, map=_map, print=_print)
SOMETIMES.update(print=_replays_prints)
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
