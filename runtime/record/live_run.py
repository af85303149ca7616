"""One run of converted code that does everything at once, as Python does it.

Functions whose Python runs in each call (``record.py``) run as copies (``tracer/convert``), so that calls of
``np.zeros``, ``float``, ``type`` and the like find the functions that know traced values, whatever name they are called
by.  Nothing is logged and nothing refused: what the copy does not know is done by Python.  ``live_frame.py`` is what
one copy goes through.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import operator
import types
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any

import numpy as np

from ...tracer.control.jitted import is_recorded, python_of, through_source
from ...tracer.convert.copies import NotConverted, convert, remade
from ...tracer.convert.transparent import OWN
from ...tracer.ir.class_flags import HEAP_TYPE
from ...tracer.ir.errors import OnlyPythonError
from ...tracer.ir.own_attributes import in_class, is_empty
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.loops.restarted import acts
from ...tracer.numpy_api.generators import taking_traced
from ...tracer.numpy_api.python_builtins import of_class, operator_of, plain_like, takes_traced
from ...tracer.record.array import is_traced
from ...tracer.record.made_arrays import PLAIN_METHODS
from ...tracer.record.recorder import Recorder
from ...tracer.record.shown_names import METHODS_OF, is_for_lists, own_answer, shown
from ..state.pins import lookup
from ..state.trust import Trust
from ..stats import short_name
from .asked import ITERATES, ORDER, InOrder, alone, asked, asking, float_of, goes_through, is_asking, no_result
from .held_values import holds_traced
from .kinds import PLAIN, TRACED
from .live_frame import INERT, LiveFrame
from .only_computes import INTO, READS, is_iterator, only_computes, writes_into
from .special_methods import SpecialMethods
from .written_places import WrittenPlaces

_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.BuiltinFunctionType)
_C_FUNCTIONS = (*_METHODS, types.MethodWrapperType, types.ClassMethodDescriptorType, np.ufunc, type(np.sum))
_OF_CALLABLES = ("functools", "_functools", "itertools", "builtins")
_OURS = "tracegrad."
_READING = ("scipy", "numpy", "tracegrad", "optree")  # libraries that look for functions in lists and dicts
_VALUES = INERT - {list, tuple, dict}
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_ITERATORS = (zip, enumerate, reversed)
_OF_ITEMS: tuple[type, ...] = (list, tuple, deque, type({}.values()))
_CONTAINERS = (list, dict, set, frozenset, tuple, str, bytes, deque)
# functions in C that call what they are given
_CALLING = frozenset(map(id, (sorted, min, max, iter, functools.reduce)))
_CLASSES_THAT_CALL = (map, filter, *[x for x in vars(itertools).values() if isinstance(x, type)])
_KEEPING = frozenset((
    "functools", "contextlib", "dataclasses", "abc", "enum", "typing", "types", "weakref", "atexit",
    "tracegrad.tracer.rules.host_code",  # whose code runs in each call
))  # fmt: skip
_MOST_DEEP = 4
_Cached: Any = functools._lru_cache_wrapper
_ASKING_EACH = frozenset(map(id, (sorted, min, max, sum)))
_OPERATORS = {id(getattr(operator, name)): name for name in dir(SpecialMethods) if hasattr(operator, name)}
_QUESTIONS = {*_OPERATORS, *_ASKING_EACH, id(bool), id(isinstance)}


class LiveRun:
    """The copies of one run.  ``stands_for``: by id of what stands in it for an object of the user's, that object.

    :param originals: by id of what the function was given, the caller's object in whose place it is.
    :param recorder: that of the run."""

    def __init__(self, trust: Trust, originals: dict[int, Any], recorder: Recorder) -> None:
        self._trust, self.originals = trust, originals
        self.recorder, self.loops = recorder, recorder.open_loops
        self.given: dict[int, Any] = {}  # id of a container of the caller's -> what the function was given for it
        self.written = WrittenPlaces(self.acts)
        self.stands_for: dict[int, Any] = {}
        self.called: Any = None  # the last function that a copy has called, for messages
        self.has_given = False  # copies to code that is not converted, or it runs such code
        self.unseen = False  # whether it runs code without a source
        self._ready: dict[int, Any] = {}  # id of a function of the user's, which is kept -> its copy
        self._copies: dict[int, tuple[Any, Any]] = {}  # id of a function -> (it, its copy)
        self._former: list[Any] = []  # those that are no longer used

    def given_for(self, value: Any) -> Any:
        """*value*; of a container among the arguments what the function was given for it: two ways to one object."""
        return self.given.get(id(value), value) if self.given else value

    def end(self) -> None:
        """Let go of the user's objects: generators that the run has begun may go on."""
        self.stands_for, self._copies, self._ready, self.called = {}, {}, {}, None
        self.given, self.written, self._former = {}, WrittenPlaces(self.acts), []

    def acts(self) -> None:
        """More than to compute is about to be done."""
        if self.loops:
            acts(self.recorder)

    # ---- functions

    def is_users(self, fn: Any) -> bool:
        """Whether *fn* is a Python function of the user's that can run as a copy."""
        return type(fn) is types.FunctionType and not (is_copy(fn) or self._trust.owns(fn))

    def copy_of(self, fn: types.FunctionType) -> Any:
        """The copy of a function of the user's; the function itself where there is none."""
        known = self._copies.get(id(fn))
        if known is not None:
            return known[1]
        copy = convert(fn.__code__, direct=True)
        if isinstance(copy, NotConverted):
            self.acts()
            self.has_given = self.unseen = True  # nobody tells of what it writes
            return self._known(fn, shown(fn, self._found))
        made = copy.function_of(fn, LiveFrame(self, fn, copy.loops))
        return self._known(fn, made)

    def _ready_for(self, fn: types.FunctionType) -> Any:
        """The copy of a function that is known to be the user's."""
        ready = self._ready.get(id(fn))
        if ready is None:
            ready = self._ready[id(fn)] = self.copy_of(fn)
        return ready

    def forget(self, fn: types.FunctionType) -> None:
        """Let another copy be made of a function, of which something that its copy has is another one now."""
        known = self._copies.pop(id(fn), None)
        self._former.append(known)  # which keeps the ids in `stands_for` theirs
        self._ready.pop(id(fn), None)

    def _found(self, value: Any, called: bool) -> Any:
        """The object to give code without a source that finds, or has *called*, *value* among its globals."""
        return self.copy_of(value) if called and self.is_users(value) else self.given_for(value)

    def _known(self, value: Any, made: Any) -> Any:
        self._copies[id(value)] = value, made
        if made is not value:
            self.stands_for[id(made)] = value
        return made

    def method(self, obj: Any, name: str) -> Any:
        """The special method *name* of an object, if it is a function of the user's; else None."""
        kind = type(obj)
        if kind in INERT or not kind.__flags__ & HEAP_TYPE or (type(kind) is type and not hasattr(kind, name)):
            return None
        raw = lookup(kind, name)
        known = id(raw) in self._ready or self.is_users(raw)
        return types.MethodType(self._ready_for(raw), obj) if known else None

    def entry(self, raw: Any, cls: type, name: str) -> Any:
        """An entry *raw* of a class, over copies where code of the user's answers for it."""
        kind = type(raw)
        if kind is types.FunctionType or (type(kind) is type and not hasattr(kind, "__get__")):
            return raw
        if kind is property and any(map(self.is_users, (raw.fget, raw.fset, raw.fdel))):
            parts = [self.copy_of(part) if self.is_users(part) else part for part in (raw.fget, raw.fset, raw.fdel)]
            made: Any = property(*parts)
        elif kind is functools.cached_property and self.is_users(raw.func):
            made = functools.cached_property(self.copy_of(raw.func))
        else:
            return asked(self, raw, "__get__", "__set__", "__delete__")
        made.__set_name__(cls, getattr(raw, "attrname", name))
        return made

    def _rewrapped(self, value: Any) -> Any:
        """A function of ours over one of the user's, as the same one over its copy."""
        known = self._copies.get(id(value))
        if known is not None:
            return known[1]
        if type(value) is types.FunctionType:
            self._copies[id(value)] = value, value  # in case it refers to itself
            return self._known(value, self._with_cells(value))
        inner = value.__wrapped__
        made = self.handed(inner, _OURS)
        return self._known(value, value if made is inner else value._tracegrad_rebuild(made))

    def _with_cells(self, f: types.FunctionType) -> types.FunctionType:
        cells = tuple([self._cell(cell) for cell in f.__closure__ or ()])
        return f if all(map(operator.is_, cells, f.__closure__ or ())) else remade(f, f.__globals__, cells)

    def _cell(self, cell: types.CellType) -> types.CellType:
        """*cell*, or one with the copy of the function that is in it."""
        if is_empty(cell):
            return cell
        value = cell.cell_contents
        made = self.handed(value, _OURS, _MOST_DEEP)
        return cell if made is value else types.CellType(made)

    # ---- calls

    def call(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        """``f(*args, **kwargs)``."""
        return self.prepared(f, *args, **kwargs)()

    def prepared(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        """The callable, without arguments, that a copy calls for ``f(*args, **kwargs)``."""
        self.called, ready = f, self._ready.get(id(f))
        if self.loops and ready is None and not self._only_computes(f, args, kwargs):
            self.acts()
        if ready is not None:
            return partial(ready, *args, **kwargs)
        if type(f) is types.MethodType and type(f.__self__) in INERT:
            return partial(f, *args, **kwargs)
        known = own_answer(f)
        if known is not None and is_for_lists(known) and not any(type(x) in (list, tuple) for x in args):
            known = None
        if known is None:
            if type(f) is types.MethodType:
                ours = taking_traced(type(f.__self__))
                if ours and f.__name__ in ours and is_traced([*args, *kwargs.values()]):
                    return partial(ours[f.__name__], f.__self__, *args, **kwargs)
                f = self._bound(f)
            if (found := self._by_class(f, args, kwargs)) is not None:
                return found
        if (found := self._asking(f, known, args, kwargs)) is not None:
            return found
        found = self._outside(f, known, args, kwargs)
        if type(getattr(f, "__func__", f)) is _Cached:
            return partial(_kept, f, found, [*args, *kwargs.values(), getattr(f, "__self__", None)])
        return partial(self._made_here, found) if self.loops and f in _ITERATORS else found

    def _only_computes(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call does nothing outside, or is one of code of the user's, which tells of what it does."""
        if any(map(self._is_used_up, (*args, *kwargs.values()))) or not kwargs.keys().isdisjoint(INTO):
            return False
        if only_computes(f):
            return not writes_into(f, args)
        if type(f) is types.MethodType:
            f = f.__func__
        return type(f) is partial or (type(f) is types.FunctionType and (is_copy(f) or self.is_users(f)))

    def _is_used_up(self, x: Any) -> bool:
        """Whether *x* is an iterator that the innermost marked iteration has not made."""
        return is_iterator(x) and id(x) not in self.loops[-1].made

    def _made_here(self, made: Callable[[], Any]) -> Any:
        found = made()
        if self.loops:
            self.loops[-1].made_here(found)
        return found

    def _by_class(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same by the class of *f*, where that is code of the user's, or a method of a container; else None."""
        kind = type(f)
        if kind is types.FunctionType and self.is_users(f):
            return partial(self._ready_for(f), *args, **kwargs)
        if kind is types.MethodType:
            return partial(f, *args, **kwargs) if is_copy(f.__func__) else None
        if kind is partial:
            return self.prepared(f.func, *f.args, *args, **{**f.keywords, **kwargs})
        if kind is types.BuiltinFunctionType:
            return self._of_container(f, args, kwargs)
        if kind is _Cached:
            self.written.add(f)
        elif issubclass(kind, type):
            return partial(self._make, f, *args, **kwargs) if self._is_followed(f) else None
        elif kind not in _C_FUNCTIONS and (method := self.method(f, "__call__")) is not None:
            return partial(method, *args, **kwargs)
        return None

    def _of_container(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same of a method in C of a container or a text."""
        owner = f.__self__
        if type(owner) is ContextVar:
            self.written.add(owner)
        if type(owner) not in _CONTAINERS:
            return None
        if (args or kwargs) and f.__name__ not in READS:
            self.written.taking(owner, [*args, *kwargs.values()])
        if type(owner) is list and f.__name__ == "sort" and not args:
            return partial(self._sort, owner, kwargs)
        return partial(f, *args, **kwargs)

    def _sort(self, items: list[Any], how: dict[str, Any]) -> None:
        items[:] = self.call(sorted, items, **how)

    def _asking(self, f: Any, known: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same of a builtin that asks what a value is; None where Python's own does."""
        if id(f) not in _QUESTIONS and not is_asking(f):
            return None
        if not kwargs and (found := self._by_frame(f, args)) is not None:
            return found
        if id(f) in _ASKING_EACH and args and (type(args[0]) not in PLAIN or "key" in kwargs):
            return self._asking_each(f, known, args, kwargs)
        if f is float and args and self.method(args[0], "__float__") is not None:
            return partial(float_of, self, *args)
        if (given := asking(self, f, args)) is None:
            return None
        found = self._outside(f, known if goes_through(f) else f, given, kwargs)
        return lambda: alone(found())

    def _by_frame(self, f: Any, args: tuple[Any, ...]) -> Any:
        """The same of a builtin that does what an expression of the user's code does."""
        if f in (operator.is_, operator.is_not) and len(args) == 2:
            return partial(self.frame.is_ if f is operator.is_ else self.frame.is_not, *args)
        if f is bool and len(args) == 1 and type(args[0]) not in INERT:
            return partial(self.test, *args)
        if f is isinstance and args and type(args[0]) in TRACED:
            return partial(f, plain_like(*args[:2]), *args[1:])
        if id(f) in _OPERATORS and 0 < len(args) < 3 and any(type(x) not in INERT for x in args):
            return partial(getattr(self.frame, _OPERATORS[id(f)]), *args)
        return None

    def _asking_each(self, f: Any, known: Any, args: Any, kwargs: Any) -> Any:
        """The same of a builtin that asks each of several values, or adds them."""
        several, key = len(args) > 1 and f is not sum, kwargs.get("key")
        values = [*args] if several else [*self.iterable(args[0])]
        others = {type(x): x for x in values if type(x) not in INERT}.values()
        if f is sum and any(self.method(x, name) for x in others for name in ("__add__", "__radd__")):
            start = args[1:] or (kwargs.get("start", 0),)
            return partial(functools.reduce, self.frame.add, values, *start)
        if key is not None or (f is not sum and any(self.method(x, name) for x in others for name in ORDER)):
            kwargs = {**kwargs, "key": lambda x: self._in_order(x if key is None else self.call(key, x))}
        return self._outside(f, f if others else known, values if several else [values, *args[1:]], kwargs)

    def _in_order(self, x: Any) -> Any:
        """*x*, to be compared by code in C."""
        return x if type(x) in INERT else InOrder(self, x)

    def _outside(self, f: Any, known: Any, args: Any, kwargs: Any) -> Any:
        """The same of code that is not converted, for which *known* stands."""
        calls = _calls(f)
        if calls:
            args = [x if type(x) in _VALUES else self.handed(x, calls) for x in args]
            kwargs = {name: self.handed(x, calls) for name, x in kwargs.items()} if kwargs else kwargs
        if known is None:
            self.has_given |= type(getattr(f, "__self__", None)) in _SUSPENDED and bool(args)  # whose frame keeps it
            owner = (f.__self__,) if type(f) is types.MethodType else ()
            writes = not only_computes(f) or not kwargs.keys().isdisjoint(INTO)
            shares = writes and self.written.handed([*owner, *args, *kwargs.values()])
            if shares and isinstance(f, type) and f.__flags__ & HEAP_TYPE:
                return partial(self.written.making, f, *args, **kwargs)
            known = self._in_c(f, args, kwargs) if type(f) in _C_FUNCTIONS else self._over_users(f)
        if (source := python_of(known)) is not None and is_recorded(source, args, kwargs):
            return partial(through_source, known, source, self.copy_of(source), args, kwargs)
        return partial(known, *args, **kwargs) if callable(known) else lambda: known(*args, **kwargs)

    def _over_users(self, f: Any) -> Any:
        """A function or object that is not converted, which may be one of ours over a function of the user's."""
        if type(f) is types.FunctionType:
            return self._rewrapped(f) if f.__closure__ and not is_copy(f) else f
        return self._rewrapped(f) if in_class(type(f), "_tracegrad_rebuild") else f

    def _bound(self, f: Any) -> Any:
        owner, function = f.__self__, f.__func__
        if in_class(type(owner), "_tracegrad_rebuild"):
            return getattr(self._rewrapped(owner), f.__name__)
        return types.MethodType(self.copy_of(function), owner) if self.is_users(function) else f

    def _in_c(self, f: Any, args: Any, kwargs: Any) -> Any:
        """The function that is called for one in C, by what it is given."""
        owner, name = getattr(f, "__self__", None), getattr(f, "__name__", "")
        if type(owner) is np.ndarray and name in PLAIN_METHODS and is_traced([*args, *kwargs.values()]):
            return partial(PLAIN_METHODS[name], owner)
        if isinstance(owner, np.ufunc) and (ours := own_answer(owner)) is not None and name in vars(ours):
            return getattr(ours, name)  # np.add.at
        if (by_operator := operator_of(owner, name, args)) is not None:
            return partial(by_operator, owner)
        if args and (bound := of_class(f, args[0])) is not None:
            return lambda _, *args, **kwargs: bound(*args, **kwargs)
        of = getattr(f, "__objclass__", None) or (owner if isinstance(owner, type) else None)
        if of is np.ndarray and name in PLAIN_METHODS and args and type(args[0]) is np.ndarray and is_traced(args[1:]):
            return PLAIN_METHODS[name]
        return getattr(_METHODS_OF[of], name, f) if of in _METHODS_OF and type(f) in _METHODS else f

    @cached_property
    def frame(self) -> LiveFrame:
        """A frame of no function, for what builtins do in place of statements."""
        return LiveFrame(self, _NOWHERE, ())

    def _is_followed(self, cls: type) -> bool:
        """Whether objects of a class are made by Python functions of the user's."""
        return type(cls).__call__ is type.__call__ and any(
            self.is_users(getattr(raw, "__func__", raw)) for raw in (lookup(cls, "__new__"), lookup(cls, "__init__"))
        )

    def _make(self, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
        """``cls(*args, **kwargs)``, as ``type.__call__`` does it."""
        new: Any = lookup(cls, "__new__")
        init: Any = lookup(cls, "__init__")
        made: Any
        if type(new) is staticmethod and self.is_users(new.__func__):
            make: Any = new.__func__
            made = self.copy_of(make)(cls, *args, **kwargs)
        elif cls.__new__ is object.__new__:
            if init is lookup(object, "__init__") or getattr(cls, "__abstractmethods__", None):
                return cls(*args, **kwargs)
            made = object.__new__(cls)
        else:
            made = cls.__new__(cls, *args, **kwargs)
        if isinstance(made, cls):
            start = self.method(made, "__init__") if type(made) is cls else None
            no_result((start or type(made).__init__.__get__(made))(*args, **kwargs))
        return made

    # ---- values for code that is not converted

    def prepares(self, rule: Any) -> Any:
        """A function of ours that calls one of the user's, as one that calls its copy."""
        return self.handed(rule, _OURS)

    def handed(self, value: Any, calls: str, depth: int = 0) -> Any:
        """*value* for code that is not converted and *calls* what it is given: functions of the user's as their copies;
        functions in C, for Python's own, as those that know traced values."""
        made = self._handed(value, calls, depth)
        self.has_given |= made is not value
        return made

    def _handed(self, value: Any, calls: str, depth: int) -> Any:
        kind = type(value)
        if kind in (tuple, list, dict):
            inside = depth < _MOST_DEEP and calls.startswith(_READING)
            return self._container(value, kind, calls, depth) if inside else value
        if kind is types.FunctionType:
            return self.copy_of(value) if self.is_users(value) else self._over_users(value)
        if kind is types.MethodType:
            made = self._bound(value)
            return value if made is value else self._known(value, made)
        if kind is partial:
            found = self.handed(value.func, calls, depth + 1)
            plain = found is value.func or value.__dict__
            return value if plain else self._known(value, partial(found, *value.args, **value.keywords))
        if in_class(kind, "_tracegrad_rebuild"):
            return self._rewrapped(value)
        if calls in _OF_CALLABLES and id(value) in _OPERATORS:
            return partial(self.call, value)
        if kind in _C_FUNCTIONS and calls in _OF_CALLABLES:
            owner = getattr(value, "__self__", None)
            of_arrays = type(owner) is np.ndarray and value.__name__ in PLAIN_METHODS
            if of_arrays or type(owner) in (float, complex) or takes_traced(value):
                return lambda *args, **kwargs: self.call(value, *args, **kwargs)
            if (known := own_answer(value)) is not None:
                self.stands_for[id(known)] = value
            return known or value
        return value

    def _container(self, value: Any, kind: Any, calls: str, depth: int) -> Any:
        if kind is dict:
            parts = {key: self.handed(part, calls, depth + 1) for key, part in value.items()}
            return value if all(parts[key] is value[key] for key in parts) else parts
        found = [x if type(x) in TRACED else self.handed(x, calls, depth + 1) for x in value]
        return value if all(map(operator.is_, found, value)) else kind(found)

    # ---- iteration

    def iterable(self, obj: Any) -> Any:
        """*obj*, to be iterated over by code that is not converted."""
        if self.loops and self._is_used_up(obj):
            self.acts()
        if self.given and type(obj) in _OF_ITEMS and any(id(x) in self.given for x in obj):
            return map(self.given_for, obj)
        return obj if type(obj) in INERT else asked(self, obj, *ITERATES)

    def attribute_for_c(self, obj: Any, name: str) -> Any:
        """``obj.name``, which code in C asks for."""
        return self.handed(self.frame.attr(obj, name), "builtins")

    def test(self, x: Any) -> bool:
        """The truth of *x*."""
        return self.frame.test(x)


_METHODS_OF: dict[Any, Any] = {getattr(builtins, name): methods for name, methods in METHODS_OF.items()}


def _kept(f: Any, call: Callable[[], Any], given: list[Any]) -> Any:
    """The result of *call*, which *f* keeps for these values: of the run it may hold nothing that they do not."""
    result = call()
    if is_traced([result]) and not holds_traced([x for x in given if type(x).__hash__ is not object.__hash__]):
        raise OnlyPythonError.here(
            f"`{short_name(f)}` keeps its results (functools.lru_cache), and has computed one with what this run "
            "changes: its next calls would give the same, whatever it reads then.  Pass it what it reads"
        )
    return result


def _calls(f: Any) -> str:
    """The module of a function or class that may call what it is given; "" of those that only keep it."""
    made_by_python = issubclass(type(f), type) and any(
        type(getattr(f, name)) is types.FunctionType for name in ("__new__", "__init__")
    )
    if type(f) is types.FunctionType or made_by_python:
        module = str(f.__module__ or "python")
        return "" if module in _KEEPING else module
    if issubclass(type(f), type) and f not in _CLASSES_THAT_CALL:
        return ""
    if type(f) is types.BuiltinFunctionType and id(f) not in _CALLING:
        return ""
    return str(getattr(f, "__module__", None) or "builtins")


def is_copy(fn: Any) -> bool:
    """Whether a function is a copy of one of the user's."""
    return type(fn) is types.FunctionType and OWN in fn.__code__.co_freevars


def _anywhere() -> None:
    """No function of the user's."""


_NOWHERE: Any = _anywhere


FOR_THE_USER.add(__file__)
