"""Calls: of functions of the user's, of classes, of methods, and of what is not converted."""

from __future__ import annotations

import enum
import functools
import logging
import operator
import types
from collections import defaultdict
from contextvars import Context, ContextVar
from typing import Any

import numpy as np

from ...tracer.control.jitted import python_of
from ...tracer.convert.copies import Copy, convert
from ...tracer.ir.refusals import Refusal
from ...tracer.ir.site import FOR_THE_USER
from ...tracer.numpy_api.python_builtins import of_class, operator_of
from ...tracer.record.array import TracedArray, is_traced
from ...tracer.record.made_arrays import PLAIN_METHODS, MadeArray, fresh
from ...tracer.record.recorder import Recorder
from ...tracer.record.shown_names import own_answer
from ...tracer.record.shown_text import TextOfValues
from ..record.asked import alone, asking, no_result
from ..record.kinds import BUILT, EAGER, PLAIN, TRACED, has_known_text, is_named_tuple
from ..state.data_objects import is_data
from ..state.kept_cache import CACHE
from ..state.pins import MISSING, context_value
from ..state.state_graph import StateNode
from ..state.trust import impurity, setting_of
from ..state.values import is_leaf
from .attributes import found_in, load, load_plainly
from .by_class import call_by_class, is_by_class
from .callees import (
    C_FUNCTIONS,
    PURE_METHODS,
    SINGLES,
    check_pure,
    draws_its_seed,
    gives_draws,
    is_followed,
    is_generator,
    is_refused,
    loses_traces,
    reason_of,
    takes_callbacks,
)
from .choices import changes_in_arm
from .draws import is_outside, seeds
from .file_writes import write
from .files import WRITERS
from .frame import LoggedFrame
from .generated import GENERATED, call_generated, is_text_of_fields, text_of_fields
from .kept_results import KeptResults
from .machine_code import call_jitted, is_decorator
from .python_functions import CLASS_METHODS, HANDLERS
from .reads import CONTAINERS, ReadLog, is_generic, is_wrapper
from .subclasses import is_of_items, items_of, method_of_items
from .texts import TEMPLATES, is_enabled, log, log_method

_WRITERS = frozenset("fill sort put itemset resize partition setfield setflags byteswap".split())
_OF_DATA = frozenset("numpy detach tolist item size dim numel cpu".split())  # methods of tensors of PyTorch
_OF_CLASSES = (types.MethodDescriptorType, types.WrapperDescriptorType)
_BUILTIN = PLAIN | CONTAINERS.keys()
_TEXT_MAKERS = {id(x) for x in (str, repr, ascii, format, object.__repr__, object.__str__, object.__format__)}


class Calls(KeptResults):
    """The part of a run that calls.  ``drawn``: the draws from generators outside, where those are known."""

    drawn: Any = None

    def __init__(self, reads: ReadLog, recorder: Recorder) -> None:
        super().__init__(reads, recorder)
        self.frame = LoggedFrame(self, _NOWHERE, None)
        self._functions: dict[tuple[int, bool], tuple[Any, Any]] = {}  # (id of a function, handed) -> (it, its copy)
        self._twins: dict[int, Any] = {}  # id of a copy -> the user's function
        self._judged: dict[int, Any] = {}  # functions of ours, by id, whose settings are known

    def copy_of(self, fn: types.FunctionType, of_builtin: bool = False, handed: bool = False) -> Any:
        """The converted copy of a function of the user's; or of one of ours, which stands for a builtin.  *handed*: it,
        and what it returns, are for code that is not seen."""
        known = self._functions.get((id(fn), handed))
        if known is not None:
            return known[1]
        if self.is_ours(fn):
            return self.rewrapped(fn)
        if id(fn) in self._twins:
            return fn
        copy = convert(fn.__code__, arms=self.recorder.choices is not None and bool(self.recorder.choices.active))
        if not isinstance(copy, Copy):
            raise self.refuse(f"`{fn.__qualname__}`: {copy.reason}")
        if not of_builtin:
            self.reads.ran(fn.__code__)
        node = self.reads.node_of(fn)
        frame = LoggedFrame(self, fn, node, copy.loops, copy.choices)
        frame.handed = handed
        made = copy.function_of(fn, frame)
        if node is not None:
            made.__defaults__ = self._defaults(node, fn)
            if fn.__kwdefaults__ and not node.extra:
                known = self.reads.read(node, "attr", "__kwdefaults__", fn.__kwdefaults__, "default")
                of = self.reads.node_of(known)
                assert of is not None
                made.__kwdefaults__ = {name: self.part(of, "key", name, value) for name, value in known.items()}
        self._functions[id(fn), handed] = fn, made
        self._twins[id(made)] = fn
        return made

    def _defaults(self, node: StateNode, fn: types.FunctionType) -> Any:
        values = fn.__defaults__
        if not values:
            return values
        names = fn.__code__.co_varnames[: fn.__code__.co_argcount][-len(values) :]
        return tuple([
            value if is_leaf(value)  # of a tuple that is compared by identity
            else self.reads.read(node, "const", name, value, f"default {name}")
            for name, value in zip(names, values, strict=True)
        ])  # fmt: skip

    def codes(self) -> list[types.CodeType]:
        """The code of the functions that have run as copies."""
        return [fn.__code__ for fn, _ in self._functions.values()]

    # ---- calls

    def call(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        """``f(*args, **kwargs)``."""
        kind = type(f)
        if kind is types.FunctionType:
            return self._call_function(f, args, kwargs)
        if kind is types.MethodType:
            if type(f.__self__) in TRACED:
                return self.handing(f, args, kwargs, False)
            if is_outside(self, f.__self__):
                return self.drawn.call(f.__self__, f.__name__, args, kwargs)
            if type(f.__self__) in CONTAINERS or type(f.__self__) in WRITERS:
                return self.call_method(f.__self__, f.__name__, *args, **kwargs)
            if is_wrapper(f.__self__):
                return self._within(getattr(self.rewrapped(f.__self__), f.__name__), args, kwargs)
            return self.call(f.__func__, f.__self__, *args, **kwargs)
        handler = HANDLERS.get(id(f))
        if handler is not None:
            return handler(self, *args, **kwargs)
        given = None if args and issubclass(type(args[0]), enum.Enum) else asking(self, f, args)
        if given is not None:
            return alone(f(*given, **kwargs))
        if kind in C_FUNCTIONS:
            return self._call_c(f, args, kwargs)
        if isinstance(f, type):
            return self._call_class(f, args, kwargs)
        if kind is functools.partial:
            return self._call_partial(f, args, kwargs)
        if kind is CACHE:
            return self.through_cache(f, args, kwargs)
        if is_wrapper(f):
            return self._within(self.rewrapped(f), args, kwargs)
        if self.reads.library(kind) or "cython_function" in kind.__name__:
            return self._call_library_object(f, kind, args, kwargs)
        base, raw = found_in(kind, "__call__")
        if base is None or type(raw) is not types.FunctionType:
            raise self.refuse(f"a call of an object of the class {kind.__qualname__}")
        self.reads.read_class(base, "__call__", raw)
        return self.call(raw, f, *args, **kwargs)

    def _within(self, f: Any, args: Any, kwargs: Any) -> Any:
        """A call of a function of ours over the copy of the user's."""
        if self.recorder.arms:
            changes_in_arm(self.recorder, f, False)
        return self.handing(f, args, kwargs, True)

    def _call_partial(self, f: functools.partial[Any], args: Any, kwargs: Any) -> Any:
        func, first, keywords = self.parts_of_partial(f)
        return self.call(func, *self.iterable(first), *args, **{**self.parts_of(keywords), **kwargs})

    def _call_function(self, f: types.FunctionType, args: Any, kwargs: Any) -> Any:
        if id(f) in self._twins:
            return f(*args, **kwargs)
        if (handler := HANDLERS.get(id(f))) is not None:
            return handler(self, *args, **kwargs)
        if log_method(f):
            log(self, f, args, kwargs)
            return None
        if f is logging.Logger.isEnabledFor:
            return is_enabled(self, *args, **kwargs)
        if is_text_of_fields(f):
            return text_of_fields(self, f, *args)
        if is_refused(f):
            raise self.refuse(f"{f.__module__}.{f.__name__}()", reason_of(f))
        ours = own_answer(f)
        if ours is not None:
            return self.call_own(ours, f, args, kwargs)
        if args and is_by_class(f):
            return call_by_class(self, f, self.frame.attr(args[0], "__class__"), args, kwargs)
        if is_decorator(f) and not is_traced([*args, *kwargs.values()]):
            return f(*args, **kwargs)
        if self.reads.trust.owns(f) and not self.holds_users(f):
            check_pure(f, self.reads.depends, not self._draws(*args[:1]))
            if is_followed(f) and any(map(self._is_followed, (*args, *kwargs.values()))):
                return self.copy_of(f)(*args, **kwargs)
            return self._natively(f, args, kwargs, takes_callbacks(f))
        if self.is_ours(f):
            return self._within(self.rewrapped(f), args, kwargs)
        if f.__code__.co_filename == GENERATED:
            return call_generated(self, f, args, kwargs)
        return self.copy_of(f)(*args, **kwargs)

    def _draws(self, value: Any = None) -> bool:
        """Whether *value*, a method of which is called, is a generator of random numbers that the run has made, of a
        seed: it is another one afterwards."""
        made = self.reads.node_of(value) is None
        if made and gives_draws(value):
            self.changes(value)
        return is_generator(value) and made

    def _is_followed(self, value: Any) -> bool:
        """Whether *value* is an object or function whose code is converted."""
        if type(value) is types.FunctionType:
            return not self.reads.trust.owns(value)
        return not self.reads.library(value if isinstance(value, type) else type(value)) and type(value) not in TRACED

    def call_own(self, ours: Any, f: Any, args: Any, kwargs: Any) -> Any:
        callbacks = takes_callbacks(f)
        args = tuple([x if type(x) in PLAIN or type(x) in CONTAINERS else self._as_array(x, f) for x in args])
        self._check_seed(f, args, kwargs)
        if id(f) not in self._judged:
            if isinstance(why := impurity(f), Refusal):
                raise self.refuse(f"{f.__module__}.{f.__name__}", why)
            self._judged[id(f)] = f
            if (setting := setting_of(f)) is not None:
                self.reads.depends(setting)
        watched = self.loops or self.recorder.arms
        if not (kwargs or watched) and all(type(x) in PLAIN and type(x) is not str for x in args):
            return fresh(ours(*args))
        return self.handing(ours, args, kwargs, callbacks)

    def _as_array(self, value: Any, f: Any) -> Any:
        """An object of the user's that gives an array, for a function of NumPy's: what its ``__array__`` gives."""
        kind, of = type(value), str(getattr(f, "__module__", None) or type(f).__module__).partition(".")[0]
        if isinstance(value, enum.Enum) and (of in ("numpy", "scipy", "math") or f in (int, float)):
            return self.as_number(value, "__float__", "__int__", "__index__")
        if of not in ("numpy", "scipy") or self.reads.library(kind) or isinstance(value, type):
            return value
        others = [found_in(kind, name)[0] for name in ("__array_ufunc__", "__array_function__", "__array_interface__")]
        if found_in(kind, "__array__")[0] is None or any(others):
            return value
        return self.special(value, "__array__")

    def _check_seed(self, f: Any, args: Any, kwargs: Any) -> None:
        if draws_its_seed(f, args, kwargs):
            raise self.refuse(f"{f.__name__}() without a seed", Refusal.CALLS_RANDOM)

    def _of_library(self, f: Any, args: Any, kwargs: Any, owner: Any = None) -> Any:
        """A call of a function or class of a library's, a method of *owner* if there is one."""
        if (ours := own_answer(f)) is not None:
            return self.call_own(ours, f, args, kwargs)
        check_pure(f, self.reads.depends, not self._draws(owner))
        return self._natively(f, args, kwargs, takes_callbacks(f))

    def _natively(self, f: Any, args: Any, kwargs: Any, callbacks: bool) -> Any:
        self._check_seed(f, args, kwargs)
        with_texts = id(f) in _TEXT_MAKERS
        if with_texts and not self._texts(args, kwargs):
            raise self.refuse("a text that is made of values")
        if with_texts and f is format and len(args) > 1 and str(args[1]).endswith("n"):
            self.reads.shows_locale()
        return self.handing(f, args, kwargs, callbacks)

    def _call_c(self, f: Any, args: Any, kwargs: Any) -> Any:
        owner = getattr(f, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType | type):
            return self._call_bound(f, owner, args, kwargs)
        if is_refused(f):
            raise self.refuse(f"{f.__name__}()", reason_of(f))
        if isinstance(owner, type) and (owner, f.__name__) in CLASS_METHODS:
            return CLASS_METHODS[owner, f.__name__](self, *args, **kwargs)
        ours = own_answer(f)
        if ours is not None:
            return self.call_own(ours, f, args, kwargs)
        if f is object.__new__ or f is tuple.__new__:
            return self._new(f, *args)
        if is_generic(f):
            return self._by_generic(f, *args, **kwargs)
        if is_of_items(f) and args and (items := items_of(self, args[0])) is not None:
            return method_of_items(self, args[0], items, f.__name__, args[1:], kwargs)
        if isinstance(f, _OF_CLASSES) and args and type(args[0]) is f.__objclass__ and type(args[0]) in _BUILTIN:
            return self.call_method(args[0], f.__name__, *args[1:], **kwargs)  # as if it were bound
        if args and (bound := of_class(f, args[0])) is not None:
            return self.handing(bound, args[1:], kwargs, False)
        check_pure(f, self.reads.depends)
        if isinstance(f, types.MethodDescriptorType | types.WrapperDescriptorType) and args:
            foreign = self.reads.node_of(args[0]) is not None
            if foreign and f.__name__ not in PURE_METHODS.get(type(args[0]), ()):
                raise self.refuse(f"{f.__name__}() of an object from outside")
        elif loses_traces(f) and is_traced([*args, *kwargs.values()]):
            raise self.refuse(f"{f.__name__}(), which takes plain numbers")
        return self._natively(f, args, kwargs, takes_callbacks(f))

    def _new(self, f: Any, cls: type, *args: Any) -> Any:
        """``object.__new__(cls)``, or ``tuple.__new__(cls, items)``."""
        if not isinstance(cls, type):
            return f(cls, *args)  # raises
        self.reads.pin(cls)
        return self.made(f(cls, *(map(self.iterable, args) if f is tuple.__new__ else args)))

    def _by_generic(self, f: Any, obj: Any, name: str, *value: Any) -> Any:
        """``object.__setattr__(obj, name, value)`` and the like."""
        if type(name) is not str or self.reads.library(type(obj)) or isinstance(obj, type):
            raise self.refuse(f"{f.__name__}() of an object of the class {type(obj).__qualname__}")
        if f.__name__ == "__getattribute__":
            if found_in(type(obj), "__getattr__")[0] is not None:  # by which a later call would look again
                raise self.refuse(f"{f.__name__}() of an object of a class with a `__getattr__`")
            return load_plainly(self, obj, name)
        if f.__name__ == "__delattr__":
            return self.frame.del_plainly(obj, name)
        (given,) = value
        return self.frame.set_plainly(given, obj, name)

    def _call_bound(self, f: Any, owner: Any, args: Any, kwargs: Any) -> Any:
        """A method in C of an object."""
        if type(owner) in PLAIN or type(owner) in CONTAINERS or type(owner) in WRITERS:
            return self.call_method(owner, f.__name__, *args, **kwargs)
        if type(f) is types.MethodWrapperType and is_generic(found_in(f.__objclass__, f.__name__)[1]):
            return self._by_generic(f, owner, *args, **kwargs)
        if (items := items_of(self, owner)) is not None:
            return method_of_items(self, owner, items, f.__name__, args, kwargs)
        if type(owner) is ContextVar and f.__name__ == "get" and not kwargs:
            return self._of_context(owner, *args)
        if type(owner) is types.GeneratorType and self.reads.node_of(owner) is None:
            self.changes(owner)
            return f(*args)
        if is_outside(self, owner):
            return self.drawn.call(owner, f.__name__, args, kwargs)
        if self.reads.node_of(owner) is not None:
            raise self.refuse(f"{f.__name__}() of an object from outside")
        if isinstance(owner, BaseException) and f.__name__ == "add_note" and type(*args) is TextOfValues:
            self.changes(owner)
            return f(*args)  # which keeps the text
        if is_refused(f):
            raise self.refuse(f"{f.__name__}()", reason_of(f))
        self.handed(owner, False)
        if f.__name__ not in _OF_DATA or not is_data(type(owner)):
            check_pure(f, self.reads.depends, not self._draws(owner))
        ours = getattr(own_answer(owner), f.__name__, None)  # np.add.at
        if ours is not None:
            return self.call_own(ours, f, args, kwargs)
        self.changes(owner)
        return self._natively(f, args, kwargs, False)

    def _of_context(self, variable: ContextVar[Any], *default: Any) -> Any:
        """``variable.get(*default)``."""
        node = self.reads.node_of(variable)
        if node is None or (default and Context().run(context_value, variable) is not MISSING):
            raise self.refuse("the value of a context variable with two defaults")
        label = f"{node.label}.get()"
        value = self.reads.read(node, "context", variable, context_value(variable), label)
        if value is not MISSING:
            return value
        if not default:
            raise LookupError(variable)
        return default[0]

    def _call_library_object(self, f: Any, kind: type, args: Any, kwargs: Any) -> Any:
        """An object of a library's class that can be called: NumPy's functions, Cython's."""
        if kind in SINGLES:
            return self._call_getter(f, *args, **kwargs)
        if self.reads.may_draw and seeds(f):
            return self.drawn.call(np.random.mtrand._rand, "seed", args, kwargs)
        if (source := python_of(f)) is not None:
            return call_jitted(self, f, source, args, kwargs)
        top = kind.__module__.partition(".")[0]
        if top in ("numpy", "scipy") or "cython_function" in kind.__name__ or own_answer(f) is not None:
            return self._of_library(f, args, kwargs, getattr(f, "__self__", args[0] if args else None))
        if top == "tracegrad" and self.reads.node_of(f) is None:  # a solution of an equation
            return self._natively(f, args, kwargs, True)
        raise self.refuse(f"a call of an object of the class {kind.__qualname__}")

    def _call_getter(self, f: Any, obj: Any) -> Any:
        """An ``itemgetter``, ``attrgetter`` or ``methodcaller``."""
        parts = f.__reduce__()[1]
        if type(f) is operator.methodcaller:
            if len(f.__reduce__()) > 2 or type(f.__reduce__()[0]) is functools.partial:
                raise self.refuse("a methodcaller with keywords")
            return self.call_method(obj, parts[0], *parts[1:])
        found = []
        for part in parts:
            value = obj
            for name in part.split(".") if type(f) is operator.attrgetter else ():
                value = self.frame.attr(value, name)
            found.append(self.item(obj, part) if type(f) is operator.itemgetter else value)
        return found[0] if len(found) == 1 else tuple(found)

    def _call_class(self, cls: Any, args: Any, kwargs: Any) -> Any:
        reads = self.reads
        if found_in(cls, "__del__")[0] is not None:
            raise self.refuse(f"an object of the class {cls.__qualname__}, which has a `__del__`")
        if cls is types.SimpleNamespace and not args:
            made = self.made(cls())
            made.__dict__.update(kwargs)
            return made
        if reads.library(cls):
            return self._call_class_of_library(cls, args, kwargs)
        by_value = isinstance(cls, enum.EnumType) and len(args) == 1 and not kwargs and is_leaf(args[0])
        if by_value and (args[0] in cls._value2member_map_ or self._has_bits(cls, args[0])):
            return self.member(cls, cls(args[0]))  # others are made by what the class says
        if type(cls).__call__ is not type.__call__:
            raise self.refuse(f"the class {cls.__qualname__}, whose metaclass makes its objects")
        reads.pin(cls)
        made = self._by_new(cls, args, kwargs)
        kind = type(made)
        start, init = found_in(kind, "__init__")
        if cls not in kind.__mro__ or start is object or start is None:
            return made
        reads.pin(kind)
        if type(init) is types.FunctionType:
            reads.read_class(start, "__init__", init)
            no_result(self.call(init, made, *args, **kwargs))
        elif issubclass(kind, BaseException):
            init(made, *args, **kwargs)
        else:
            raise self.refuse(f"`__init__` of the class {kind.__qualname__}")
        return made

    def _call_class_of_library(self, cls: Any, args: Any, kwargs: Any) -> Any:
        if is_named_tuple(cls) and found_in(cls, "__init__")[0] is object:
            return cls(*args, **kwargs)
        return self._of_library(cls, args, kwargs)

    def _by_new(self, cls: Any, args: Any, kwargs: Any) -> Any:
        """The object that ``__new__`` makes."""
        base: Any
        base, new = found_in(cls, "__new__")
        if base is object:
            has_init = found_in(cls, "__init__")[0] is not object
            return self.made(object.__new__(cls) if has_init else cls(*args, **kwargs))
        if type(new) is staticmethod and type(new.__func__) is types.FunctionType and not self.reads.library(base):
            self.reads.read_class(base, "__new__", new)
            return self.call(new.__func__, cls, *args, **kwargs)
        if issubclass(cls, BaseException):
            return self.made(cls.__new__(cls, *args, **kwargs))
        raise self.refuse(f"the class {cls.__qualname__}, a subclass of a class in C")

    def _has_bits(self, cls: Any, value: Any) -> bool:
        """Whether the flags in *value* are found as Python finds them, which depends on these names of the class."""
        if not issubclass(cls, enum.Flag) or type(value) is not int or found_in(cls, "_missing_")[0] is not enum.Flag:
            return False
        for name in ("_boundary_", "_flag_mask_", "_singles_mask_", "_all_bits_"):
            load(self, cls, name)
        return True

    # ---- methods

    def call_method(self, obj: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """``obj.name(*args, **kwargs)``."""
        kind = type(obj)
        if kind is TracedArray:
            if name == "__float__":
                name = "number"  # which keeps its gradient
            method = own_answer(getattr)(obj, name) if obj._atom.aval.weak else getattr(obj, name)
            return self.handing(method, args, kwargs, False)
        if kind is np.ndarray or kind is MadeArray:
            return self._method_of_array(obj, name, args, kwargs)
        if kind is defaultdict and name == "default_factory":
            return self.call(load(self, obj, name), *args, **kwargs)
        if kind in BUILT or kind in CONTAINERS:
            return self.method_of_container(obj, kind, name, args, kwargs)
        if kind in EAGER:
            return self.method_of_tensor(obj, name, args, kwargs)
        if kind in WRITERS:
            return write(self, obj, name, args, kwargs)
        if kind in PLAIN:
            if kind is str and name in TEMPLATES and not self._texts(args, kwargs):
                return TEMPLATES[name](self, obj, *args, **kwargs)
            if kind is str and name in ("format", "format_map", "join", "__mod__", "__format__"):
                if not self._texts(args, kwargs):
                    raise self.refuse("a text that is made of values")
                if "n}" in obj:
                    self.reads.shows_locale()
            if (by_operator := operator_of(obj, name, args)) is not None:
                return self.handing(by_operator, (obj, *args), kwargs, False)
            return self.handing(getattr(obj, name), args, kwargs, True)
        return self.call(load(self, obj, name), *args, **kwargs)

    def _texts(self, args: Any, kwargs: Any) -> bool:
        """Whether texts of these values are known: no traced ones, no arrays, and nothing that depends on a setting."""
        return all(has_known_text(self, x) for x in (*args, *kwargs.values()))

    def _method_of_array(self, obj: Any, name: str, args: Any, kwargs: Any) -> Any:
        if type(obj) is np.ndarray:
            if not obj.flags.writeable and name in _WRITERS:
                raise self.refuse(f".{name}() of an array from outside")
            if name in PLAIN_METHODS and is_traced([*args, *kwargs.values()]):
                return PLAIN_METHODS[name](obj, *args, **kwargs)
        return self.handing(getattr(obj, name), args, kwargs, False)


def _anywhere() -> None:
    """No function of the user's."""


_NOWHERE: Any = _anywhere


FOR_THE_USER.add(__file__)
