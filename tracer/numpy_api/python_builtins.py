"""Builtins that are answered from an object's type, for traced arrays: what recorded code finds under their names.

``record/shown_names.py`` says where and how.  Each does what Python's own does, and asks ``class_of`` where its
argument is a traced array.
"""

from __future__ import annotations

import ast
import builtins
import decimal
import fractions
import numbers
import operator
import pickle
import re
import struct
import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..convert.transparent import OWN
from ..ir.aval import FLOAT
from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Lit, Var
from ..ir.own_attributes import in_class
from ..ir.refusals import Refusal
from ..ir.site import is_internal, user_site
from ..ir.trees import tree_leaves
from ..ops.elementwise import F, cast_with_warning, promote
from ..record.array import STAND_INS, TracedArray, class_of, has_attribute, no_attribute, to_atoms, unsupported, wrap
from ..record.integers import TracedInt
from ..record.made_arrays import MadeArray
from ..record.plain_values import lost_by
from ..record.recorder import Recorder, current_recorder
from ..record.shown_names import (
    CALLED,
    METHODS_OF,
    SOMETIMES,
    VALUES,
    AsValue,
    calling_frame,
    in_compiled_code,
    show_functions,
)
from ..record.shown_text import PRINT, VALUE, Printed
from ..record.undecided import Undecided, UndecidedTruth, chosen, number_of
from .hooks import copy_of, hook, when_loaded

_NO_TEXT = (float, int, bool)  # numbers that are looked at themselves, or say no more than a comparison
_ABSENT = object()
_MOST_DEEP = 20
_MOST_DIGITS = 99
_MOST_LOOKED_AT = 1000
_SOME_DIGITS = 3
_COMMON = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
_READ_AGAIN = (
    "the text of a traced value is made a number again, which would lose its gradient; use the value itself, or "
    "tracegrad.stop_gradient(t) where a number without a gradient is meant"
)
_NUMBERS = re.compile(r"(?<![\w.])\d[\d_]*\.?[\d_]*(?:[eE][+-]?\d+)?|(?<![\w.])\.\d[\d_]*(?:[eE][+-]?\d+)?")


class KnownType:
    """``type``, called or passed on: equal to it, and as a class the same."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and type(args[0]) is TracedArray:
            return class_of(args[0])
        if len(args) == 1 and not kwargs and type(args[0]) in STAND_INS:
            return class_of(args[0].decided())
        if len(args) == 1 and not kwargs and type(args[0]) in (TracedInt, MadeArray):
            return int if type(args[0]) is TracedInt else np.ndarray
        found = type(*args, **kwargs)
        if len(args) == 3 and "__module__" not in args[2]:  # which a class has of the frame that makes it
            type.__setattr__(found, "__module__", sys._getframe(1).f_globals.get("__name__", "builtins"))
        return args[0].__class__ if len(args) == 1 and in_class(found, "traced_length") else found

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, type)

    def __subclasscheck__(self, cls: Any) -> bool:
        return issubclass(cls, type)

    def __or__(self, other: Any) -> Any:  # a union of classes
        return type | other

    def __ror__(self, other: Any) -> Any:
        return other | type

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (type,)

    def __getattribute__(self, name: str) -> Any:  # all of them: an instance has a __new__ of object's
        own = name in ("__mro_entries__", "plain")
        return object.__getattribute__(self, name) if own else getattr(type, name)

    def plain(self) -> Any:
        """``type`` itself."""
        return type

    def __eq__(self, other: Any) -> bool:
        return other is type or other is self

    def __hash__(self) -> int:
        return hash(type)


def plain_like(x: Any, classes: Any = ()) -> Any:
    """A plain value of the class that the traced value *x* has for users, of which is asked whether it is of *classes*;
    *x* itself where that isn't known yet, or where code asks for traced ones."""
    if TracedArray in (classes if type(classes) is tuple else (classes,)):
        return x
    kind: Any = np.ndarray if type(x) is MadeArray else int if type(x) is TracedInt else None
    if type(x) is TracedArray:
        kind = class_of(x)
    return x if kind is None else np.empty(0) if kind is np.ndarray else kind(0)


def _hasattr(obj: Any, name: Any, /) -> bool:
    if type(obj) in STAND_INS:
        obj = obj.decided()
    if type(obj) is TracedArray and isinstance(name, str):
        return has_attribute(class_of(obj), name)
    return hasattr(0 if type(obj) is TracedInt else obj, name)


def _getattr(obj: Any, name: Any, /, *default: Any) -> Any:
    if type(obj) in STAND_INS:
        obj = obj.decided()
    if type(obj) is not TracedArray or not isinstance(name, str):
        return getattr(obj.asked() if type(obj) is TracedInt else obj, name, *default)
    kind = class_of(obj)
    if not has_attribute(kind, name):
        if default:
            return default[0]
        raise no_attribute(obj, name)
    found = getattr(obj, name, _ABSENT)
    if found is _ABSENT:
        raise unsupported(f"{kind.__name__}.{name}")
    return found


def _float(value: Any = 0.0, /) -> Any:
    if type(value) is TracedArray:
        if value.aval.is_complex:
            value = wrap(cast_with_warning(value.atom, FLOAT))
        return value.number()
    _check_origin(value)
    number = in_class(type(value), "_tracegrad_number")
    if number is not None:
        return number(value)
    method = getattr(type(value), "__float__", None)
    if type(method) is types.FunctionType:  # the user's, which may give a traced number
        found = method(value)
        return found if type(found) is TracedArray else float(found)
    return float(value)


def _check_origin(value: Any, digits: int = 2) -> None:
    """An error where *value* (text, a Decimal, a Fraction) is to be a number, and has been made of the text of a traced
    value whose gradient is wanted: of the whole number, or of so many *digits* of it."""
    recorder = current_recorder()
    while recorder is not None and isinstance(value, str | bytes | numbers.Number) and type(value) not in _NO_TEXT:
        if recorder.left.as_text and not recorder.differentiates:
            recorder.left.checked = False
        for atom in recorder.left.as_text if recorder.differentiates else ():
            shown = recorder.value(atom)
            found = _may_be_text_of(value, shown) or (not _is_constant(value) and _has_digits(value, shown, digits))
            if found and recorder.has_gradient(atom):
                raise UnsupportedError.here(_READ_AGAIN)
        recorder = recorder.parent


def refuse_numbers_of_text(recorder: Recorder, results: Any, start: int = 0) -> None:
    """An error where a constant of the nodes from *start* on may have been read from the text of a value whose gradient
    is wanted, or where the first of the *results* has: by NumPy's code or a parser's, or by ``float`` from a table."""
    if not recorder.left.as_text:
        return
    result = next(iter(tree_leaves(results, none_is_leaf=True)), None)
    usual = [*(() if recorder.code is None else recorder.code.floats), *_COMMON]
    if isinstance(result, float | np.ndarray) and type(result) is not TracedArray:
        site = next((guard.site for guard in recorder.guards if guard.kind == "item"), None)
        if recorder.differentiates and any(map(recorder.has_gradient, recorder.left.as_text)):
            raise UnsupportedError.here(_READ_AGAIN, site)
        recorder.left.checked = False
    arrays = dict(recorder.consts)
    held = [(x, node.site) for node in recorder.nodes[start:] for x in node.inputs if isinstance(x, Lit) or x in arrays]
    plain = [(arrays[x] if isinstance(x, Var) else x.value, site) for x, site in held if not _is_own(x)]
    for value, site in plain:
        numbers = np.ravel(value)
        if numbers.dtype.kind != "f":
            continue
        numbers = numbers[np.isfinite(numbers) & ~np.isin(numbers, usual)][:_MOST_LOOKED_AT]
        for atom in recorder.left.as_text:
            shown = np.ravel(recorder.value(atom))
            found = bool(np.isin(numbers, shown.astype(numbers.dtype)).any()) or any(
                _has_digits(repr(number), shown, _SOME_DIGITS) for number in numbers.tolist()
            )
            if found and not recorder.differentiates:
                recorder.left.checked = False
            elif found and recorder.has_gradient(atom):
                raise UnsupportedError.here(_READ_AGAIN, site)


def _is_own(x: Atom) -> bool:
    """Whether an operand is a number of ours."""
    return isinstance(x, Lit) and x.structural


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


def _has_digits(value: Any, shown: np.ndarray, least: int) -> bool:
    """Whether *value* consists of digits, *least* or more, that follow one another in one of the numbers *shown*."""
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    digits = "".join([c for c in text.lower().partition("e")[0] if c.isdecimal()]).strip("0")
    if len(digits) < least:
        return False
    for number in map(abs, np.ravel(shown).tolist()):
        forms = repr(float(number)), f"{number:.17g}", f"{number:.{len(digits) - 1}e}"  # cut, or rounded
        if any(digits in form.partition("e")[0].replace(".", "") for form in forms):
            return True
    return False


def _is_constant(value: Any) -> bool:
    """Whether *value* stands in the user's code as it is."""
    frame: Any = sys._getframe(2)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and any(value is constant for constant in frame.f_code.co_consts)


def _int(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        value = args[0]
        number = in_class(type(value), "_tracegrad_int")
        if type(value) is TracedInt or number is not None:
            return value if number is None else number(value)
        if type(value) is TracedArray and value._recorder.open_loops and value.aval.size == 1:
            return value._tracegrad_int()
    if args and isinstance(args[0], str | bytes):
        _check_origin(args[0], digits=1)
    return int(*args, **kwargs)


def _complex(*args: Any, **kwargs: Any) -> Any:
    values = [*args, *kwargs.values()]
    if TracedArray not in map(type, values):
        for value in values:
            _check_origin(value)
        return complex(*args, **kwargs)
    re, im = _parts(*args, **kwargs)
    return re.number() if im is None else (1.0 * re + 1j * im).number()


def _parts(real: Any = 0.0, imag: Any = None) -> tuple[Any, Any]:
    """The arguments of ``complex``."""
    return (real + 0j if imag is None else real), imag


def _run_text(run: Callable[..., Any]) -> Any:
    """``eval`` or ``exec``, in the frame that calls it."""

    def call(source: Any, /, *spaces: Any, **named: Any) -> Any:
        if isinstance(source, str | bytes) and not _is_constant(source):
            text = source if isinstance(source, str) else source.decode("latin-1")
            for number in _NUMBERS.findall(text):
                _check_origin(number)
        if not spaces and not named:
            frame = calling_frame(1)
            own = frame.f_locals.get(OWN) if OWN in frame.f_code.co_freevars else None  # of a copy
            spaces = frame.f_globals, frame.f_locals if own is None else own.locals(dict(frame.f_locals))
        return run(source, *spaces, **named)

    return call


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
    kept = file is None
    texts.asked = PRINT if kept else VALUE
    try:
        text = (" " if sep is None else sep).join([str(value) for value in values])
    finally:
        texts.asked = ""
    if kept:
        texts.printed.append(Printed(text, "\n" if end is None else end, bool(flush)))
    else:
        recorder.unrepeatable(Refusal.CALLS_PRINT, what="print(file=...)")
        print(text, end=end, file=file, flush=flush)


def _scalar_class(kind: type) -> Any:
    def convert(*args: Any, **kwargs: Any) -> Any:
        if TracedArray in map(type, args) and len(args) == 2 and issubclass(kind, np.complexfloating):
            args = (_complex(*args),)
        if len(args) == 1 and not kwargs and type(args[0]) is TracedInt:
            args = (args[0].number(),)
        if len(args) == 1 and not kwargs and type(args[0]) is TracedArray:
            found = args[0].astype(kind)
            return found if found.ndim else wrap(found.atom)
        for value in args:
            _check_origin(value)
        return kind(*args, **kwargs)

    return convert


def _stands_in() -> bool:
    """Whether something stands for objects of the caller's, in a run that is not replayed."""
    recorder = current_recorder()
    return recorder is not None and bool(recorder.caller.originals)


def _id(obj: Any, /) -> int:
    recorder = current_recorder()
    return id(obj if recorder is None else recorder.caller.originals.get(id(obj), obj))


def _plain_repr(value: Any, /) -> str:
    """``object.__repr__``."""
    if type(value) is not TracedArray:
        return object.__repr__(value)
    kind = class_of(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    value._recorder.unrepeatable(Refusal.CALLS_MEMORY, what="object.__repr__")
    return f"<{name} object at {_id(value):#x}>"


def operator_of(owner: Any, name: str, args: tuple[Any, ...]) -> Any:
    """The function that does with a traced number what the method *name* of Python's number *owner* does, which knows
    none: ``(1.5).__lt__(t)``; None where Python's own does."""
    known = type(owner) in _TAKES and len(args) == 1 and type(args[0]) is TracedArray and name in _OPERATORS
    if not known or not issubclass(class_of(args[0]), _TAKES[type(owner)]):
        return None
    return lambda x, y: _OPERATORS[name](x, y if y.aval.weak else y.number())


_TAKES: dict[type, tuple[type, ...]] = {float: (float, int), complex: (complex, float, int)}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "divmod": divmod, **{name: getattr(operator, name) for name in "add sub mul truediv floordiv mod pow".split()},
}  # fmt: skip


def _reflected(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: f(y, x)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **{f"__{name}__": getattr(operator, name) for name in "lt le gt ge eq ne".split()},
    **{f"__{name}__": f for name, f in _BINARY.items()},
    **{f"__r{name}__": _reflected(f) for name, f in _BINARY.items()},
}


def of_class(f: Any, obj: Any) -> Any:
    """The bound method of *obj*, a traced value or an array of the run's, for a method *f* in C that is called through
    a class (``np.ndarray.sum``, ``float.hex``); None where Python's own does."""
    if type(obj) not in (TracedArray, MadeArray) or not takes_traced(f):
        return None
    if not issubclass(class_of(obj) if type(obj) is TracedArray else np.ndarray, f.__objclass__):
        return partial(f, plain_like(obj))  # which is an error
    if type(obj) is MadeArray:
        return getattr(obj, f.__name__)
    name = f.__name__
    if name == "__float__":
        return obj.number
    if name in ("__repr__", "__str__", "__format__"):
        return partial(f, obj.shown())
    if f.__objclass__ in _TAKES and not obj.aval.weak:
        obj = obj.number()  # its base class's method gives a number of Python's
    return _getattr(obj, name)


def takes_traced(f: Any) -> bool:
    """Whether *f* is a method in C of numbers or arrays, called through its class, for code that passes traced ones."""
    return type(f) in _OF_CLASSES and issubclass(f.__objclass__, (float, complex, int, np.ndarray, np.generic))


_OF_CLASSES = (types.MethodDescriptorType, types.WrapperDescriptorType)


class _Methods:
    """The methods of a class, called through it: ``float.hex(t)``."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __getattribute__(self, name: str) -> Any:
        kind = object.__getattribute__(self, "_kind")
        plain = getattr(kind, name)

        def method(*args: Any, **kwargs: Any) -> Any:
            if args and (bound := of_class(plain, args[0])) is not None:
                return bound(*args[1:], **kwargs)
            if name == "__new__" and len(args) == 2 and type(args[1]) is TracedArray:
                return args[1].number() if args[0] is kind else plain(args[0], _number_of(plain)(args[1]))
            for value in args:
                _check_origin(value)
            by_operator = operator_of(args[0], name, args[1:]) if args else None
            return plain(*args, **kwargs) if by_operator is None else by_operator(*args)

        return method if callable(plain) else plain


class _OfObject:
    def __getattribute__(self, name: str) -> Any:
        return _plain_repr if name == "__repr__" else getattr(object, name)


def _of_plain(function: Any, plain: Callable[[TracedArray], Any]) -> Any:
    """*function*, called with *plain* of each traced number among its arguments."""

    def replaced(value: Any, depth: int = 0) -> Any:
        if type(value) is TracedArray:
            return plain(value) if class_of(value) is not np.ndarray else value
        if type(value) in (list, tuple) and depth < _MOST_DEEP:
            return type(value)([replaced(part, depth + 1) for part in value])
        if type(value) is dict and depth < _MOST_DEEP:
            return {key: replaced(part, depth + 1) for key, part in value.items()}
        return value

    def call(*args: Any, **kwargs: Any) -> Any:
        if current_recorder() is None:
            return function(*args, **kwargs)
        return function(*replaced(args), **replaced(kwargs))

    return call


def _number_of(function: Any) -> Callable[[TracedArray], Any]:
    """The plain number for a C function, an error where a gradient would be lost."""

    def number(value: TracedArray) -> Any:
        recorder = current_recorder()
        if recorder is not None and value.aval.is_inexact and recorder.has_gradient(value.atom):
            owner = function.__module__ or getattr(function.__self__, "__name__", "")
            raise UnsupportedError.here(lost_by(f"{owner}.{function.__name__}"))
        return value.shown()

    return number


def _exact(kind: Any) -> Any:
    """The class *kind* of exact numbers, which are made of numbers or of text."""
    made_of_number = _of_plain(kind, _number_of(kind))

    def call(*args: Any, **kwargs: Any) -> Any:
        for value in args:
            if isinstance(value, str):
                _check_origin(value)
        return made_of_number(*args, **kwargs)

    return call


def _read(function: Any) -> Any:
    """*function*, which makes numbers of text."""

    def call(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        stack = [found.tolist() if isinstance(found, np.ndarray) else found]
        while stack:
            value = stack.pop()
            if type(value) is float:
                _check_origin(repr(value), digits=_MOST_DIGITS)
            elif isinstance(value, list | tuple | set):
                stack += value
            elif isinstance(value, dict):
                stack += [*value.keys(), *value.values()]
        return found

    return call


def _len(obj: Any, /) -> Any:
    traced = in_class(type(obj), "traced_length")
    return len(obj) if traced is None else traced(obj)


def _extreme(plain: Any, beats: Callable[[Any, Any], Any]) -> Any:
    """``max`` or ``min``: of traced numbers a choice, where Python asks which it is."""

    def extreme(*args: Any, **kwargs: Any) -> Any:
        of_numbers = len(args) > 1 and not kwargs
        if current_recorder() is None or (of_numbers and _TRACED.isdisjoint(map(type, args))):
            return plain(*args, **kwargs)
        if not (of_numbers or (args and kwargs.keys() <= {"key", "default"} and _gone_through(args))):
            return plain(*args, **kwargs)
        values = args if len(args) > 1 else list(args[0])
        if not values:
            return plain(values, **kwargs)
        key = kwargs.get("key")
        keys = values if key is None else [key(value) for value in values]
        if len(values) == 2 and key is None and (position := _position_in(values)) is not None:
            limit = values[0] if position is values[1] else values[1]
            beaten = limit > position if plain is max else limit < position
            return limit if beaten else position  # this where they are equal: a loop of more iterations has it
        if not (_choosable(keys) and (key is None or _choosable(values, traced=False))):
            return values[plain(range(len(values)), key=keys.__getitem__)]
        found, best = values[0], keys[0]
        for x, rank in zip(values[1:], keys[1:], strict=True):
            better = beats(*promote(*to_atoms([_value(rank), _value(best)])))
            best = _chosen(better, rank, best)
            found = best if key is None else _chosen(better, x, found)
        return found

    return extreme


def _position_in(values: Sequence[Any]) -> Any:
    """The one of two integers that follows from the numbers of open loops, where the other one is plain; else None."""
    recorder = current_recorder()
    if recorder is None or not recorder.open_loops or int not in map(type, values):
        return None
    traced = next((x for x in values if type(x) is TracedArray and class_of(x) is int), None)
    form = None if traced is None else recorder.open_loops[-1].form(traced.atom)
    return traced if form is not None and form.slopes else None


def _gone_through(args: tuple[Any, ...]) -> bool:
    """Whether the values of ``max(...)`` are known before the first two are compared: several, or those of a sequence
    or an iterator of the function's."""
    of = args[0]
    return len(args) > 1 or type(of) in (list, tuple, TracedArray) or hasattr(type(of), "__next__")


def _choosable(values: Sequence[Any], traced: bool = True) -> bool:
    """Whether which of *values* is chosen shows in nothing but the number; *traced*: and whether that is traced."""
    if traced and _TRACED.isdisjoint(map(type, values)):
        return False
    if in_compiled_code():
        return all(map(_is_float, values))
    recorder = current_recorder()
    code = None if recorder is None else recorder.outermost().code
    if recorder is None or (code is not None and code.asks_identity):
        return False
    kinds = {class_of(x) if type(x) is TracedArray else type(x) for x in values}
    if len(kinds) == 1 and all(issubclass(kind, float | np.floating) for kind in kinds):
        return True
    choices = recorder.choices
    if all(recorder.loops.knows_int(recorder, x) for x in values):
        return True
    return choices is not None and _place() not in choices.refused and all(number_of(x) is not None for x in values)


def _place() -> tuple[str, int]:
    site = user_site()
    return ("", 0) if site is None else (site.file, site.line)


def _value(x: Any) -> Any:
    return x.number.value if type(x) is Undecided else x


def _chosen(predicate: Atom, first: Any, second: Any) -> Any:
    found = None if in_compiled_code() else chosen(predicate, first, second, _place())
    return wrap(F.select(predicate, *promote(*to_atoms([first, second])))) if found is None else found


_TRACED = frozenset((TracedArray, Undecided))


def _is_float(value: Any) -> bool:
    if type(value) is TracedArray:
        return value.aval.is_float and class_of(value) is not np.ndarray
    return isinstance(value, float | int | np.number)


def _memoryview(*args: Any, **kwargs: Any) -> memoryview:
    for value in (*args, *kwargs.values()):
        if type(value) in _TRACED:
            raise UnsupportedError.here(
                "memoryview() of an array of a compiled function, whose memory is not there before it returns; return "
                "the array, and make the view outside"
            )
    return memoryview(*args, **kwargs)


_type = KnownType()
_called = {
    "type": _type, "hasattr": _hasattr, "getattr": _getattr, "float": _float, "int": _int, "map": _map,
    "complex": _complex, "id": _id, "object": object, "eval": _run_text(eval), "exec": _run_text(exec),
    "memoryview": _memoryview,
}  # fmt: skip
CALLED.update(_called, print=_print, len=_len, max=_extreme(max, F.gt), min=_extreme(min, F.lt))
SOMETIMES.update(print=_replays_prints, id=_stands_in)
VALUES.update(type=_type, hasattr=AsValue(hasattr, _hasattr), getattr=AsValue(getattr, _getattr))
METHODS_OF.update(float=_Methods(float), object=_OfObject())
_SCALARS = (
    "float64 double float32 single bool_ bool int64 int32 int16 int8 uint64 uint32 uint16 uint8 int_ intp intc uint "
    "complex128 cdouble complex64 csingle"
).split()
_scalars = {kind: _scalar_class(kind) for kind in {getattr(np, name) for name in _SCALARS}}
_functions: dict[types.ModuleType, dict[str, Any]] = {
    np: {name: _scalars[getattr(np, name)] for name in _SCALARS}
    | {name: _read(getattr(np, name)) for name in ("fromstring", "loadtxt", "genfromtxt")},
    builtins: _called,
    ast: {"literal_eval": _read(ast.literal_eval)},
    struct: {"pack": _of_plain(struct.pack, _number_of(struct.pack))},
    pickle: {"dumps": _of_plain(pickle.dumps, _number_of(pickle.dumps))},
    fractions: {"Fraction": _exact(fractions.Fraction)},
    decimal: {"Decimal": _exact(decimal.Decimal)},
}
for _module, _found in _functions.items():
    show_functions(_module, _found)


@when_loaded("json", "dumps", "loads", sought=True)
def _show_json(module: types.ModuleType) -> None:
    show_functions(module, {"dumps": _of_plain(module.dumps, TracedArray.shown), "loads": _read(module.loads)})


@when_loaded("locale", "atof", "atoi", sought=True)
def _show_locale(module: types.ModuleType) -> None:
    show_functions(module, {name: _read(getattr(module, name)) for name in ("atof", "atoi")})


def _shown(value: Any) -> Any:
    """*value* as it is to be seen: a plain number or array in place of a traced one."""
    if type(value) is tuple:
        return tuple(map(_shown, value))
    if type(value) is TracedInt:
        return value.asked()
    value = value.decided() if type(value) in (Undecided, UndecidedTruth) else value
    return value.shown() if type(value) is TracedArray else value


@when_loaded("logging", "LogRecord")
def _show_records(module: types.ModuleType) -> None:
    """Give log records plain arguments, which handlers may keep; lists and dicts among them are settled when the run
    is over."""
    begin = copy_of(module.LogRecord.__init__)

    def init(
        record: Any, name: Any, level: Any, path: Any, line: Any, msg: Any, args: Any, *rest: Any, **kw: Any
    ) -> None:
        begin(record, name, level, path, line, _shown(msg), _shown(args), *rest, **kw)
        recorder = current_recorder()
        while recorder is not None:
            recorder.handed.append(record)
            recorder = recorder.parent

    hook(module.LogRecord.__init__, init, lambda args, kwargs: True)
