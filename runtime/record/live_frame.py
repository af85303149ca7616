"""The frame of one function in a run that does everything at once (``live_run.py``).

It does what Python does, by the copies of the user's methods: operators, attributes, items, iteration, contexts.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...tracer.convert import transparent
from ...tracer.convert.transparent import OWN, AskedWhile, PythonFor
from ...tracer.ir.class_flags import HEAP_TYPE
from ...tracer.ir.errors import MutationError, OnlyPythonError, unrecordable
from ...tracer.ir.own_attributes import dict_of, is_data_descriptor
from ...tracer.ir.site import FOR_THE_USER, user_frame
from ...tracer.loops.items import item, set_item
from ...tracer.loops.restarted import begin_restarted
from ...tracer.record.array import TracedArray, is_traced, truth_of
from ...tracer.record.made_arrays import MadeArray, all_made
from ...tracer.record.shown_names import CALLED
from ..state.pins import MISSING, lookup
from .asked import ITERATES, SHOWS, asked, is_true
from .kinds import BUILT, PLAIN, TRACED
from .special_methods import REFLECTED, SpecialMethods

_ARRAYS = (np.ndarray, MadeArray)
_MAY_BE_MADE = (*_ARRAYS, list, tuple)
_SHARED = (
    "a traced value cannot be written into this plain NumPy array: something else has it, or shows its memory, too "
    "(another name, a view, an object, code in C), and would not see the value; write into a copy: z = z.copy(), or "
    "make the array in the function, by np.zeros(n) or np.zeros_like(x)"
)
#: classes whose objects run no code of the user's
INERT = {*PLAIN, *BUILT, types.ModuleType}
_TRUTHS = {TracedArray, bool, np.bool_}
_OF_COPIES = ("__defaults__", "__kwdefaults__", "__code__")  # what the copy of a function has of it
#: classes, and operators, that are asked when all others were
_SEQUENCES, _JOINS = (list, tuple, str, bytes), ("__add__", "__mul__", "__rmul__")
_JOINING = (operator.add, operator.mul, operator.iadd, operator.imul)
#: what NumPy asks an object that stands beside one of its own
_OF_ARRAYS = ("__array_ufunc__", "__array__", "__len__", "__getitem__", "__iter__")


def _fresh(found: Any) -> Any:
    """As ``fresh``, of arrays that were made of others, too."""
    held = [found]
    del found
    return all_made(held, user_frame()) if type(held[0]) in _ARRAYS else held[0]


def _nothing(x: Any) -> Any:
    """An object without methods, of a class that errors name as that of *x*."""
    kind = type(x)
    known = kind.__flags__ & HEAP_TYPE or kind.__module__ == "builtins"
    return type(kind.__name__ if known else f"{kind.__module__}.{kind.__name__}", (), {})()


class LiveFrame(SpecialMethods):
    """The frame of one function in a *run*."""

    def __init__(self, run: Any, fn: types.FunctionType, loops: Sequence[Any]) -> None:
        super().__init__(fn)
        self.run, self.loops = run, loops
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
        self.run.written.add(self.globals_, name)
        return super().store_global(name, value)

    def load_free(self, name: str, /) -> Any:
        return self.run.given_for(super().load_free(name))

    def store_free(self, name: str, value: Any, /) -> Any:
        self.run.written.add(self.cells[name])
        return super().store_free(name, value)

    # ---- attributes

    def attr(self, a: Any, name: str, /) -> Any:
        return self.run.given_for(self._attribute(a, name))

    def _attribute(self, a: Any, name: str) -> Any:
        run, kind = self.run, type(a)
        if kind in TRACED:
            return CALLED["type"](a) if name == "__class__" else CALLED["getattr"](a, name)
        if kind in INERT:
            return getattr(a, name)
        generic = kind.__getattribute__ is object.__getattribute__
        bare, hook = None if generic else run.method(a, "__getattribute__"), run.method(a, "__getattr__")
        found = self._by_entry(a, kind, name) if bare is None else partial(bare, name)
        if hook is None:
            return getattr(a, name) if found is None else found()
        try:
            return lookup(kind, "__getattribute__").__get__(a)(name) if found is None else found()
        except AttributeError:
            pass  # which is no context of what the hook raises
        return hook(name)

    def _by_entry(self, a: Any, kind: type, name: str) -> Any:
        """A callable for ``a.name``, where an entry of a class that is code of the user's has it; else None."""
        owner = a
        if kind is super:
            kind, owner = a.__self_class__, None if a.__self__ is a.__self_class__ else a.__self__
            above = kind.__mro__[kind.__mro__.index(a.__thisclass__) + 1 :]
            raw: Any = next((base.__dict__[name] for base in above if name in base.__dict__), MISSING)
        elif isinstance(a, type):
            raw, owner, kind = lookup(a, name), None, a
        else:
            raw = lookup(kind, name)
        entry: Any = raw if raw is MISSING else self.run.entry(raw, kind, name)
        if entry is raw or (owner is None and type(entry) is type(raw)):  # of a class it is the very entry
            return None
        if owner is a and not is_data_descriptor(entry) and name in (dict_of(a) or ()):
            return None
        if type(raw) is functools.cached_property:
            self.run.written.add(owner, name)
        return partial(entry.__get__, owner, kind)

    def set_attr(self, value: Any, a: Any, name: str, /) -> None:
        run, raw = self.run, lookup(type(a), name)
        if (hook := run.method(a, "__setattr__")) is not None:
            hook(name, value)
        elif is_data_descriptor(entry := run.entry(raw, type(a), name)) and entry is not raw:
            entry.__set__(a, value)
        else:
            run.written.add(a, name)
            setattr(a, name, value)
            if type(a) is types.FunctionType and name in _OF_COPIES:
                run.forget(a)

    def del_attr(self, a: Any, name: str, /) -> None:
        self.run.acts()
        raw = lookup(type(a), name)
        if (hook := self.run.method(a, "__delattr__")) is not None:
            hook(name)
        elif hasattr(type(entry := self.run.entry(raw, type(a), name)), "__delete__") and entry is not raw:
            entry.__delete__(a)
        else:
            delattr(a, name)

    # ---- items

    def item(self, a: Any, index: Any, /) -> Any:
        if type(a) in INERT:
            return self.run.given_for(item(self.run.recorder, a, index) if self.run.loops else a[index])
        get = self.run.method(a, "__getitem__")
        found = [self.run.given_for(a[index] if get is None else get(index))]
        return all_made(found, sys._getframe(1)) if type(found[0]) in _ARRAYS else found[0]  # of np.r_

    def set_item(self, value: Any, a: Any, index: Any, /) -> None:
        if type(a) is TracedArray:
            set_item(self.run.recorder, value, a, index)
        elif type(a) is np.ndarray:
            self.run.acts()
            try:
                a[index] = value
            except Exception as error:  # NumPy has words of its own for ours
                refused = unrecordable.last() if is_traced(value) else None
                if refused is None:
                    raise
                unrecordable.discard(refused)
                raise MutationError.here(_SHARED) from error
        elif type(a) in INERT or (put := self.run.method(a, "__setitem__")) is None:
            self.run.acts()
            self.run.written.item(a, index, value)
            a[index] = value
        else:
            put(index, value)

    def del_item(self, a: Any, index: Any, /) -> None:
        self.run.acts()
        if type(a) in INERT or (delete := self.run.method(a, "__delitem__")) is None:
            del a[index]
        else:
            delete(index)

    def in_(self, a: Any, b: Any, /) -> bool:
        if self.run.loops:
            self.run.iterable(b)  # an iterator is used up
        return a in (b if type(b) in INERT else asked(self.run, b, "__contains__", *ITERATES))

    # ---- operators

    fresh = staticmethod(_fresh)

    def operate(self, plain: Callable[[Any, Any], Any], name: str, a: Any, b: Any) -> Any:
        method = self.run.method
        found = method(a, name) or method(b, REFLECTED[name])
        if found is None and name == "__ne__":
            found = method(a, "__eq__") or method(b, "__eq__")
        return _fresh(plain(a, b)) if found is None else self.by_methods(plain, name, a, b)

    def by_c(self, obj: Any, name: str, other: Any) -> Any:
        traced = type(obj) in TRACED  # whose methods are not all in their class
        raw: Any = getattr(obj, name, MISSING) if traced else lookup(type(obj), name)
        if raw is MISSING or (name in _JOINS and self._joins_last(obj, name)):
            return NotImplemented
        in_c = [base for base in type(other).__mro__[:-1] if not base.__flags__ & HEAP_TYPE]  # whose data NumPy takes
        if isinstance(obj, np.ndarray | np.generic) and not in_c:
            other = asked(self.run, other, REFLECTED[name], *_OF_ARRAYS)
        if traced:
            return raw(other)
        return raw(None, other) if obj is None else raw.__get__(obj)(other)

    def _joins_last(self, obj: Any, name: str) -> bool:
        """Whether ``+`` or ``*`` of *obj* is that of a sequence in C, which is asked when all others were."""
        own = self.run.method(obj, name) or self.run.method(obj, f"__r{name.strip('_').removeprefix('r')}__")
        return isinstance(obj, _SEQUENCES) and own is None

    def unanswered(self, plain: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        name = "__add__" if plain in (operator.add, operator.iadd) else "__mul__"
        for sequence, other in ((a, b), (b, a)) if plain in _JOINING else ():
            if not self._joins_last(sequence, name) or (name == "__add__" and sequence is not a):
                continue
            kind: Any = next(kind for kind in _SEQUENCES if isinstance(sequence, kind))
            if name == "__mul__" and not hasattr(type(other), "__index__"):
                return kind() * _nothing(other)  # raises
            if kind is list and plain is operator.iadd:
                return list.__iadd__(a, self.run.iterable(b))
            return vars(kind)[name](sequence, asked(self.run, other, "__index__"))
        return plain(_nothing(a), _nothing(b))  # raises

    def in_place(self, plain: Callable[[Any, Any], Any], name: str, method: str, a: Any, b: Any) -> Any:
        if type(a) in _ARRAYS:
            self.run.acts()
        self.run.written.container(a)
        if type(a) in INERT and type(b) in INERT:
            return plain(a, b)
        special, run = f"__i{name}__", self.run
        own = run.method(a, special) is not None or lookup(type(a), special) is MISSING
        if not own and not (isinstance(a, _SEQUENCES) and run.method(b, f"__r{name}__")):
            return plain(a, run.iterable(b) if type(a) is list and name == "add" else b)
        found = run.method(a, special)(b) if run.method(a, special) is not None else NotImplemented
        return self.by_methods(plain, f"__{name}__", a, b) if found is NotImplemented else found

    # ---- questions and texts

    def is_(self, a: Any, b: Any, /) -> bool:
        if a is None or b is None:
            return a is b
        if type(a) in TRACED or type(b) in TRACED:
            self.run.acts()
        a, b = [self.run.originals.get(id(x), x) for x in (a, b)]
        if a is b:
            return True
        if not self.run.recorder.loops.made_anew.keys().isdisjoint((id(a), id(b))):
            self.run.acts()
            raise OnlyPythonError.here(
                "`is` of an object for which a loop has made others, where Python runs in each call"
            )
        kinds = {type(a), type(b)}
        if TracedArray in kinds and kinds <= _TRUTHS:
            a, b = truth_of(a, self.test), truth_of(b, self.test)
        return a is b

    def test(self, x: Any, /) -> bool:
        return bool(x) if type(x) in INERT else is_true(self.run, x)

    def format(self, value: Any, conversion: str, spec: str, /) -> str:
        return super().format(asked(self.run, value, *SHOWS), conversion, spec)

    # ---- iteration, and the rest

    def first_iterable(self, xs: Any, /) -> Any:
        return iter(self.run.iterable(xs))  # which a generator may keep

    def loop(self, number: int, iterable: Any, /) -> Any:
        over, statement = self.run.iterable(iterable), self.loops[number]
        marks = statement.restarts and not self.run.unseen
        found = begin_restarted(self.run.recorder, over, statement) if marks else None
        return PythonFor(iter(over)) if found is None else found

    def while_loop(self, number: int, /) -> Any:
        return AskedWhile(self.test)

    def context(self, c: Any, /) -> Any:
        self.run.acts()
        return asked(self.run, c, "__enter__", "__exit__")

    def super(self, cls: Any, first: Any, /) -> Any:
        f = self.load_global("super")
        return builtins.super(cls, first) if f is builtins.super else f()

    def locals(self, found: dict[str, Any], /) -> dict[str, Any]:
        self.run.acts()
        return {name: value for name, value in super().locals(found).items() if not name.startswith(OWN)}


FOR_THE_USER.update((__file__, transparent.__file__))
