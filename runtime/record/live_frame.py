"""The frame of one function in a run that does everything at once (``live_run.py``).

It does what Python does, by the copies of the user's methods: operators, attributes, items, iteration, contexts.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...tracer.convert import transparent
from ...tracer.convert.transparent import OWN, AskedWhile, PythonFor, Transparent
from ...tracer.ir.errors import MutationError, unrecordable
from ...tracer.ir.own_attributes import dict_of
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.record.array import STAND_INS, TracedArray, is_traced, truth_of
from ...tracer.record.integers import TracedInt
from ...tracer.record.made_arrays import MadeArray, all_made
from ...tracer.record.shown_names import CALLED
from ..state.pins import MISSING, lookup

_ARRAYS = (np.ndarray, MadeArray)
_MAY_BE_MADE = (*_ARRAYS, list, tuple)
_SHARED = (
    "a traced value cannot be written into this plain NumPy array: something else has it, or shows its memory, too "
    "(another name, a view, an object, code in C), and would not see the value; write into a copy: z = z.copy(), or "
    "make the array in the function, by np.zeros(n) or np.zeros_like(x)"
)
TRACED = (TracedArray, TracedInt, MadeArray, *STAND_INS)
#: classes whose objects run no code of the user's
PLAIN = {
    *TRACED, int, float, complex, bool, str, bytes, type(None), np.ndarray, range, slice, type(Ellipsis), np.dtype,
    list, tuple, dict, set, frozenset, types.ModuleType,
    *{kind for kind in np.sctypeDict.values() if kind is not np.object_},
}  # fmt: skip
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "** or pow()",
    "matmul": "@", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_COMPARED = {
    "lt": ("<", "gt"),
    "le": ("<=", "ge"),
    "gt": (">", "lt"),
    "ge": (">=", "le"),
    "eq": ("", ""),
    "ne": ("", ""),
}
_TRUTHS = {TracedArray, bool, np.bool_}
_OF_COPIES = ("__defaults__", "__kwdefaults__", "__code__")  # what the copy of a function has of it
_SEQUENCES = (list, tuple, str, bytes)  # whose + and * come after the other operand's methods


class _Entered:
    """An object of the user's in a ``with`` statement."""

    __slots__ = ("_enter", "_exit")

    def __init__(self, enter: Any, leave: Any) -> None:
        self._enter, self._exit = enter, leave

    def __enter__(self) -> Any:
        return self._enter()

    def __exit__(self, *error: Any) -> Any:
        return self._exit(*error)


class LiveFrame(Transparent):
    """The frame of one function in a *run*."""

    def __init__(self, run: Any, fn: types.FunctionType) -> None:
        super().__init__(fn)
        self.run = run
        self.call, self.to_call = run.call, run.prepared  # type: ignore[method-assign]

    def result(self, x: Any, /) -> Any:
        if type(x) not in _MAY_BE_MADE:
            return x
        held = [x]
        del x
        return all_made(held, sys._getframe(1))

    # ---- names

    def load_global(self, name: str, /) -> Any:
        return self.run.given_for(super().load_global(name))

    def store_global(self, name: str, value: Any, /) -> Any:
        self.run.written.item(self.globals_, name)
        return super().store_global(name, value)

    def load_free(self, name: str, /) -> Any:
        return self.run.given_for(super().load_free(name))

    def store_free(self, name: str, value: Any, /) -> Any:
        self.run.written.container(self.cells[name])
        return super().store_free(name, value)

    # ---- attributes

    def attr(self, a: Any, name: str, /) -> Any:
        return self.run.given_for(self._attribute(a, name))

    def _attribute(self, a: Any, name: str) -> Any:
        kind = type(a)
        if kind in PLAIN or issubclass(kind, type | super):
            return self._of_value(a, kind, name)
        run = self.run
        if (hook := run.method(a, "__getattribute__")) is not None:
            return self._or_by_hook(a, name, lambda: hook(name))
        raw = lookup(kind, name)
        if type(raw) is property and run.is_users(raw.fget):
            return self._or_by_hook(a, name, lambda: run.copy_of(raw.fget)(a))
        own = dict_of(a)
        if type(raw) is functools.cached_property and type(own) is dict and name not in own and run.is_users(raw.func):
            cached = functools.cached_property(run.copy_of(raw.func))
            cached.attrname = raw.attrname
            return cached.__get__(a, kind)
        getter = None if raw is MISSING or type(raw) is types.FunctionType else run.method(raw, "__get__")
        if getter is not None and (hasattr(type(raw), "__set__") or own is None or name not in own):
            return self._or_by_hook(a, name, lambda: getter(a, kind))
        if raw is MISSING and (own is None or name not in own) and run.method(a, "__getattr__") is not None:
            return run.method(a, "__getattr__")(name)
        return getattr(a, name)

    def _of_value(self, a: Any, kind: type, name: str) -> Any:
        if kind in TRACED:
            return CALLED["type"](a) if name == "__class__" else CALLED["getattr"](a, name)
        raw = lookup(a, name) if isinstance(a, type) else MISSING
        if raw is not MISSING and (getter := self.run.method(raw, "__get__")) is not None:
            return getter(None, a)
        if kind is super and type(prop := self._above(a, name)) is property and self.run.is_users(prop.fget):
            return self.run.copy_of(prop.fget)(a.__self__)
        return getattr(a, name)

    def _above(self, known: Any, name: str) -> Any:
        order = known.__self_class__.__mro__
        for base in order[order.index(known.__thisclass__) + 1 :]:
            if name in base.__dict__:
                return base.__dict__[name]
        return MISSING

    def _or_by_hook(self, a: Any, name: str, get: Callable[[], Any]) -> Any:
        hook = self.run.method(a, "__getattr__")
        if hook is None:
            return get()
        try:
            return get()
        except AttributeError:
            return hook(name)

    def set_attr(self, value: Any, a: Any, name: str, /) -> None:
        run = self.run
        if (hook := run.method(a, "__setattr__")) is not None:
            hook(name, value)
            return
        raw = lookup(type(a), name)
        if type(raw) is property and run.is_users(raw.fset):
            run.copy_of(raw.fset)(a, value)
        elif raw is not MISSING and (setter := run.method(raw, "__set__")) is not None:
            setter(a, value)
        else:
            run.written.attribute(a, name)
            setattr(a, name, value)
            if type(a) is types.FunctionType and name in _OF_COPIES:
                run.forget(a)

    def del_attr(self, a: Any, name: str, /) -> None:
        hook = self.run.method(a, "__delattr__")
        delattr(a, name) if hook is None else hook(name)

    # ---- items

    def item(self, a: Any, index: Any, /) -> Any:
        if type(a) in PLAIN:
            return self.run.given_for(a[index])
        get = self.run.method(a, "__getitem__")
        found = [self.run.given_for(a[index] if get is None else get(index))]
        return all_made(found, sys._getframe(1)) if type(found[0]) in _ARRAYS else found[0]  # of np.r_

    def set_item(self, value: Any, a: Any, index: Any, /) -> None:
        if type(a) is np.ndarray:
            try:
                a[index] = value
            except Exception as error:  # NumPy has words of its own for ours
                refused = unrecordable.last() if is_traced(value) else None
                if refused is None:
                    raise
                unrecordable.discard(refused)
                raise MutationError.here(_SHARED) from error
        elif type(a) in PLAIN or (put := self.run.method(a, "__setitem__")) is None:
            self.run.written.container(a)
            a[index] = value
        else:
            put(index, value)

    def del_item(self, a: Any, index: Any, /) -> None:
        if type(a) in PLAIN or (delete := self.run.method(a, "__delitem__")) is None:
            del a[index]
        else:
            delete(index)

    def in_(self, a: Any, b: Any, /) -> bool:
        if type(b) in PLAIN:
            return a in b
        if (asked := self.run.method(b, "__contains__")) is not None:
            return self.test(asked(a))
        return a in self.run.iterable(b) if lookup(type(b), "__contains__") is MISSING else a in b

    def not_in(self, a: Any, b: Any, /) -> bool:
        return not self.in_(a, b)

    # ---- operators

    def operate(self, plain: Callable[[Any, Any], Any], name: str, a: Any, b: Any) -> Any:
        """``a + b`` and the like, one of which is no value of Python's or NumPy's."""
        mine, theirs = f"__{name.rstrip('_')}__", f"__r{name.rstrip('_')}__"
        run, kinds = self.run, (type(a), type(b))
        if run.method(a, mine) is None and run.method(b, theirs) is None:
            return plain(a, b)
        ways = [] if kinds[0] in _SEQUENCES else [(a, mine, b)]
        if kinds[0] is not kinds[1]:
            other = lookup(kinds[1], theirs)
            above = issubclass(kinds[1], kinds[0]) and other is not lookup(kinds[0], theirs)
            ways.insert(0 if above else len(ways), (b, theirs, a))
        for obj, method, other in ways:
            if kinds[0] in _SEQUENCES and type(obj) is kinds[0]:
                continue
            asked = run.method(obj, method) or getattr(obj, method, None)
            found = NotImplemented if asked is None else asked(other)
            if found is not NotImplemented:
                return found
        if kinds[0] in _SEQUENCES:
            return plain(a, b)
        names = [kind.__name__ for kind in kinds]
        raise TypeError(f"unsupported operand type(s) for {_SYMBOLS[name]}: {names[0]!r} and {names[1]!r}")

    def compare(self, plain: Callable[[Any, Any], Any], name: str, a: Any, b: Any) -> Any:
        """``a < b`` and the like, as ``operate``."""
        symbol, reflected = _COMPARED[name]
        mine, theirs = f"__{name}__", f"__{reflected or name}__"
        run, kinds = self.run, (type(a), type(b))
        if run.method(a, mine) is None and run.method(b, theirs) is None and run.method(a, "__eq__") is None:
            return plain(a, b)
        ways = [(a, mine, b), (b, theirs, a)]
        if kinds[0] is not kinds[1] and issubclass(kinds[1], kinds[0]):
            ways.reverse()
        for obj, method, other in ways:
            asked = run.method(obj, method)
            if asked is None and method == "__ne__" and lookup(type(obj), "__ne__") is lookup(object, "__ne__"):
                equal = run.method(obj, "__eq__")
                found = NotImplemented if equal is None else equal(other)
                if found is not NotImplemented:
                    return not self.test(found)
                continue
            found = (asked or getattr(obj, method))(other)
            if found is not NotImplemented:
                return found
        if not symbol:
            return (a is b) is (name == "eq")
        names = [kind.__name__ for kind in kinds]
        raise TypeError(f"{symbol!r} not supported between instances of {names[0]!r} and {names[1]!r}")

    def _in_place(self, plain: Callable[[Any, Any], Any], name: str, a: Any, b: Any) -> Any:
        if type(a) in PLAIN and type(b) in PLAIN:
            if type(a) in (list, dict, set):
                self.run.written.container(a)
            return plain(a, b)
        self.run.written.container(a)
        method = self.run.method(a, f"__i{name.rstrip('_')}__")
        if method is not None and (found := method(b)) is not NotImplemented:
            return found
        if method is None and (hasattr(a, f"__i{name.rstrip('_')}__") or type(a) is list):
            return plain(a, self.run.iterable(b) if type(a) is list and name == "add" else b)
        return getattr(self, name)(a, b)

    def _unary(self, plain: Callable[[Any], Any], name: str, a: Any) -> Any:
        method = None if type(a) in PLAIN else self.run.method(a, name)
        return plain(a) if method is None else method()

    # ---- questions and texts

    def is_(self, a: Any, b: Any, /) -> bool:
        if a is None or b is None:
            return a is b
        a, b = [self.run.originals.get(id(x), x) for x in (a, b)]
        if a is b:
            return True
        kinds = {type(a), type(b)}
        if TracedArray in kinds and kinds <= _TRUTHS:
            a, b = truth_of(a, self.test), truth_of(b, self.test)
        return a is b

    def is_not(self, a: Any, b: Any, /) -> bool:
        return not self.is_(a, b)

    def test(self, x: Any, /) -> bool:
        if type(x) in PLAIN:
            return bool(x)
        for name in ("__bool__", "__len__"):
            if lookup(type(x), name) is not MISSING:
                method = self.run.method(x, name)
                if method is None:
                    return bool(x)
                answer = method()
                right = type(answer) in (bool, *TRACED) or (name == "__len__" and isinstance(answer, int))
                return bool(answer) if right else bool(ANSWERS[name](answer))
        return True

    def format(self, value: Any, conversion: str, spec: str, /) -> str:
        if type(value) in PLAIN:
            return super().format(value, conversion, spec)
        if conversion:
            maker = {"s": str, "r": repr}.get(conversion)
            return format(ascii(value) if maker is None else self.run.call(maker, value), spec)
        method = self.run.method(value, "__format__")
        if method is None and not spec and lookup(type(value), "__format__") is lookup(object, "__format__"):
            return str(self.run.call(str, value))
        return format(value, spec) if method is None else method(spec)

    # ---- iteration, and the rest

    def _iterated(self, xs: Any) -> Any:
        return xs if type(xs) in PLAIN else self.run.iterable(xs)

    def iter(self, xs: Any, /) -> Any:
        return self._iterated(xs)

    def splat(self, xs: Any, /) -> Iterable[Any]:
        return self._iterated(xs)

    def unpack(self, xs: Any, n: int, /) -> Any:
        return self._iterated(xs)

    def unpack_star(self, xs: Any, before: int, after: int, /) -> Any:
        return self._iterated(xs)

    def first_iterable(self, xs: Any, /) -> Any:
        return iter(self._iterated(xs))

    def loop(self, number: int, iterable: Any, /) -> Any:
        return PythonFor(iter(self._iterated(iterable)))

    def while_loop(self, number: int, /) -> Any:
        return AskedWhile(self.test)

    def context(self, c: Any, /) -> Any:
        enter, leave = self.run.method(c, "__enter__"), self.run.method(c, "__exit__")
        if enter is None or leave is None:
            return c
        return _Entered(enter, leave)

    def super(self, cls: Any, first: Any, /) -> Any:
        f = self.load_global("super")
        return builtins.super(cls, first) if f is builtins.super else f()

    def locals(self, found: dict[str, Any], /) -> dict[str, Any]:
        return {name: value for name, value in super().locals(found).items() if not name.startswith(OWN)}


def _binary(plain: Callable[[Any, Any], Any], name: str, compared: bool) -> Callable[..., Any]:
    def operate(self: LiveFrame, a: Any, b: Any) -> Any:
        if type(a) not in PLAIN or type(b) not in PLAIN:
            return self.compare(plain, name, a, b) if compared else self.operate(plain, name, a, b)
        found = [plain(a, b)]
        return all_made(found, sys._getframe(1)) if type(found[0]) in _ARRAYS else found[0]

    return operate


def _assigning(plain: Callable[[Any, Any], Any], name: str) -> Callable[..., Any]:
    return lambda self, a, b: self._in_place(plain, name, a, b)


def _of_one(plain: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    def operate(self: LiveFrame, a: Any) -> Any:
        found = [self._unary(plain, name, a)]
        return all_made(found, sys._getframe(1)) if type(found[0]) in _ARRAYS else found[0]

    return operate


def _mod(a: Any, b: Any) -> Any:
    return a % b  # which texts look for


for _name in _SYMBOLS:
    setattr(LiveFrame, _name, _binary(_mod if _name == "mod" else getattr(operator, _name), _name, False))
    _assigned = f"i{_name.rstrip('_')}"
    setattr(LiveFrame, _assigned, _assigning(getattr(operator, _assigned), _name))
for _name in _COMPARED:
    setattr(LiveFrame, _name, _binary(getattr(operator, _name), _name, True))
for _name in ("neg", "pos", "invert"):
    setattr(LiveFrame, _name, _of_one(getattr(operator, _name), f"__{_name}__"))


def _answering(name: str) -> Any:
    """A class whose method *name* gives what its object was made with, for a builtin that judges the answer."""
    return type("Answer", (), {name: lambda self: self.answer, "__init__": lambda self, x: setattr(self, "answer", x)})


ANSWERS = {
    name: _answering(name)
    for name in ("__bool__", "__len__", "__str__", "__repr__", "__index__", "__int__", "__float__")
}

FOR_THE_USER.update((__file__, transparent.__file__))
