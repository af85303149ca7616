"""Whether two states look the same to all who reach them: values, types, order of keys, and who shares an object.

    difference({"state": mine}, {"state": plain})    # '' or the way to the first place where they differ

Both are walked at once.  An object that may be changed has one partner on the other side, wherever it is met again.
Numbers are compared up to rounding, and NumPy's scalar may stand for a float, as docs/compile_grad.md says of results;
as it says of views, an array may have memory of its own, but not share what plain Python's does not.  Tensors share the
memory that plain Python's do.
"""

from __future__ import annotations

import copy
import itertools
import math
import operator
import types
from collections import deque
from functools import partial
from typing import Any

import numpy as np

RTOL, ATOL = 1e-6, 1e-9
_NAMES = {"__builtins__", "__name__", "__doc__", "__spec__", "__loader__", "__package__", "__module__", "__file__"}
_DICTS = {"__dict__", "__weakref__", "__static_attributes__", "__firstlineno__", "__annotations__", "__parameters__"}
_ITERATORS = tuple(
    type(made)
    for made in (
        iter([]), iter(()), iter({}), iter({}.items()), iter({}.values()), iter(set()), iter(range(0)), iter(""),
        reversed([]), reversed({}), iter(deque()), map(len, []), zip(), enumerate([]), filter(None, []),
        iter(range(1 << 70)),
        itertools.chain(), itertools.islice([], 1), itertools.accumulate([]), itertools.product(), itertools.repeat(0),
        itertools.count(), itertools.cycle([]),
    )
)  # fmt: skip


def difference(mine: dict[str, Any], plain: dict[str, Any]) -> str:
    """The way to the first place where two states differ, and how; empty where they are the same."""
    return _Pairs().state(mine, plain)


class _Pairs:
    def __init__(self) -> None:
        self.partner: dict[int, tuple[Any, Any]] = {}  # of an object of mine: it and the plain one
        self.taken: dict[int, tuple[Any, Any]] = {}  # of a plain one
        self.arrays: list[tuple[str, np.ndarray, np.ndarray, bool]] = []  # the last: of tensors

    def state(self, mine: dict[str, Any], plain: dict[str, Any]) -> str:
        return self.entries("", mine, plain) or self.memory()

    def memory(self) -> str:
        for (a, x, p, one), (b, y, q, other) in itertools.combinations(self.arrays, 2):
            shared, should = np.may_share_memory(x, y), np.may_share_memory(p, q)
            if shared and not should:
                return f"{a} and {b} share memory"
            if should and not shared and one and other:
                return f"{a} and {b} share no memory"
        return ""

    def same(self, place: str, a: Any, b: Any) -> str:
        if type(b) is float and type(a) is np.float64:
            a = float(a)
        if type(a) is not type(b) and type(a).__qualname__ != type(b).__qualname__:
            return f"{place}: {_shown(a)}, and plain Python {_shown(b)}"
        if isinstance(a, float | complex | np.inexact):
            return "" if _close(a, b) else f"{place}: {a!r}, and plain Python {b!r}"
        if a is None or isinstance(a, int | str | bytes | np.generic | types.CodeType | np.ufunc | np.dtype):
            alike = a is b or (a.co_name == b.co_name if isinstance(a, types.CodeType) else a == b)
            return "" if alike else f"{place}: {a!r}, and plain Python {b!r}"
        if isinstance(a, range | slice):
            ends = [(getattr(v, "start"), getattr(v, "stop"), getattr(v, "step")) for v in (a, b)]  # noqa: B009
            return self.same(place, *ends)
        if type(a) in (tuple, frozenset) or (isinstance(a, tuple) and hasattr(a, "_fields")):
            return self.parts(place, a, b)
        if a is b:
            return ""
        known, taken = self.partner.get(id(a)), self.taken.get(id(b))
        if known is not None or taken is not None:
            alike = known is not None and known[1] is b
            return "" if alike else f"{place}: {_shown(a)} stands elsewhere, too, on one side only"
        self.partner[id(a)] = self.taken[id(b)] = a, b
        return self.parts(place, a, b)

    def parts(self, place: str, a: Any, b: Any) -> str:
        """The insides of two objects of one class."""
        kind = type(a)
        if issubclass(kind, np.ndarray):
            return self.array(place, a, b)
        if kind.__module__.startswith("tracegrad.tensors") or hasattr(kind, "_data"):
            return self.array(place, a.detach().numpy(), b.detach().numpy(), True)
        if issubclass(kind, set | frozenset):
            one, other = sorted(a, key=repr), sorted(b, key=repr)
            return self.sequence(f"{place}{{}}", one, other)
        found = ""
        if issubclass(kind, tuple | list | deque):
            found = self.sequence(place, list(a), list(b))
            if isinstance(a, deque) and a.maxlen != b.maxlen:
                found = found or f"{place}.maxlen: {a.maxlen}, and plain Python {b.maxlen}"
        elif issubclass(kind, dict | types.MappingProxyType):
            found = self.entries(place, a, b, items=True)
        elif issubclass(kind, types.FunctionType):
            found = self.function(place, a, b)
        elif issubclass(kind, types.MethodType):
            found = self.same(f"{place}.__self__", a.__self__, b.__self__)
        elif issubclass(kind, partial):
            found = self.same(place, [a.func, a.args, a.keywords], [b.func, b.args, b.keywords])
        elif issubclass(kind, types.BuiltinFunctionType):
            found = self.same(f"{place}.__self__", a.__self__, b.__self__)
        elif issubclass(kind, types.GeneratorType):
            found = self.generator(place, a, b)
        elif kind in _ITERATORS:
            found = self.sequence(f"list({place})", _rest(a), _rest(b))
        elif issubclass(kind, BaseException):
            found = self.same(f"{place}.args", a.args, b.args)
        elif issubclass(kind, types.CellType):
            found = self.cell(place, a, b)
        elif kind in (type({}.keys()), type({}.values()), type({}.items())):
            found = self.same(place, dict(a.mapping), dict(b.mapping))
        return found or self.attributes(place, a, b)

    def attributes(self, place: str, a: Any, b: Any) -> str:
        if issubclass(type(a), types.ModuleType | type) and not _made_here(a):
            return "" if a.__name__ == b.__name__ else f"{place}: {a!r}, and plain Python {b!r}"
        one, other = _store(a), _store(b)
        return self.entries(place, one, other)

    def array(self, place: str, a: np.ndarray, b: np.ndarray, of_tensors: bool = False) -> str:
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{place}: {a.dtype} {a.shape}, and plain Python {b.dtype} {b.shape}"
        if a.dtype.hasobject:
            return self.sequence(place, a.ravel().tolist(), b.ravel().tolist())
        self.arrays.append((place, a, b, of_tensors))
        alike = (
            np.allclose(a, b, rtol=RTOL, atol=ATOL, equal_nan=True) if a.dtype.kind in "fc" else np.array_equal(a, b)
        )
        return "" if alike else f"{place}: {a.tolist()}, and plain Python {b.tolist()}"

    def function(self, place: str, a: Any, b: Any) -> str:
        if a.__name__ != b.__name__:
            return f"{place}: {a.__name__}, and plain Python {b.__name__}"
        found = self.same(f"{place}.__defaults__", a.__defaults__, b.__defaults__)
        found = found or self.same(f"{place}.__kwdefaults__", a.__kwdefaults__, b.__kwdefaults__)
        if isinstance(a.__globals__, dict) and type(a.__globals__) is not dict:
            return f"{place}: globals of its own, a {type(a.__globals__).__name__}"
        cells = dict(zip(a.__code__.co_freevars, a.__closure__ or (), strict=False))
        others = dict(zip(b.__code__.co_freevars, b.__closure__ or (), strict=False))
        return found or self.entries(f"{place}<>", cells, others)

    def cell(self, place: str, a: Any, b: Any) -> str:
        try:
            one = a.cell_contents
        except ValueError:
            one = None
        try:
            other = b.cell_contents
        except ValueError:
            other = None
        return self.same(place, one, other)

    def generator(self, place: str, a: Any, b: Any) -> str:
        one, other = map(_variables, (a, b))
        return self.entries(f"{place}.locals", one, other)

    def sequence(self, place: str, a: Any, b: Any) -> str:
        if len(a) != len(b):
            return f"{place}: {len(a)} items, {_shown(a)}, and plain Python {len(b)}, {_shown(b)}"
        found = (self.same(f"{place}[{k}]", one, other) for k, (one, other) in enumerate(zip(a, b, strict=True)))
        return next(filter(None, found), "")

    def entries(self, place: str, a: Any, b: Any, items: bool = False) -> str:
        if not items:
            a, b = ({n: v for n, v in d.items() if n not in _NAMES and n not in _DICTS} for d in (a, b))
        keys, others = list(a), list(b)
        if keys == others and [type(key) for key in keys] == [type(key) for key in others]:
            pairs = zip(keys, a.values(), b.values(), strict=True)
            found = (self.same(f"{place}[{n!r}]" if items else f"{place}.{n}".lstrip("."), u, v) for n, u, v in pairs)
            return next(filter(None, found), "")
        if not items and sorted(map(str, keys)) == sorted(map(str, others)):  # names: their order is nobody's business
            return self.entries(place, a, {n: b[n] for n in keys})
        found = self.sequence(f"keys of {place}", keys, others)  # nan, and floats up to rounding
        return found or self.sequence(f"values of {place}", list(a.values()), list(b.values()))


def _close(a: Any, b: Any) -> bool:
    if a != a or b != b:
        return bool(a != a and b != b)
    return bool(a == b or abs(a - b) <= ATOL + RTOL * max(abs(a), abs(b)) or (math.isinf(a) and a == b))


def _rest(iterator: Any) -> list[Any]:
    """What an iterator will give, which it keeps."""
    try:
        return list(itertools.islice(copy.deepcopy(iterator), 20))
    except TypeError:
        return [operator.length_hint(iterator, 0)]


def _made_here(value: Any) -> bool:
    module = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
    return str(module).startswith("made_")


def _store(value: Any) -> dict[str, Any]:
    if type(value) is partial:  # who asks one for its `__dict__` gives it one
        return value.__reduce__()[2][3] or {}  # type: ignore[index, misc]
    found = dict(value.__dict__) if hasattr(value, "__dict__") else {}
    for base in type(value).__mro__:
        for name in base.__dict__.get("__slots__", ()) if _made_here(base) else ():
            if hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:60]}"


def _variables(generator: Any) -> dict[str, Any]:
    """The variables of a generator's own, but for what copies add to them, and for a comprehension's iterator."""
    frame = generator.gi_frame
    if frame is None:
        return {}
    free = frame.f_code.co_freevars
    return {n: x for n, x in frame.f_locals.items() if n not in free and not n.startswith(("_tg_", "."))}
