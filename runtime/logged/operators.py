"""Operators and comparisons: of values of Python's and NumPy's, and methods of objects of the user's."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tracer.ir.site import FOR_THE_USER
from ...tracer.record.array import TracedArray, class_of, is_traced, truth_of
from ...tracer.record.made_arrays import MadeArray, fresh
from ...tracer.record.shown_text import TextOfValues
from ..record.asked import ITERATES, asked
from ..record.kinds import EAGER, PLAIN, TRACED, has_known_text
from ..record.special_methods import REFLECTED, SpecialMethods
from ..state.values import is_leaf
from .files import StandardStream
from .reads import CONTAINERS
from .texts import by_percent

_BY_VALUE = (int, float, complex, str, bytes, tuple, frozenset)  # that are compared by value where they are read
_CACHED = frozenset((*range(-5, 257), ()))  # of which there is one each
_HOLD_ONLY = {*CONTAINERS, int, bool}  # whose operators ask nothing of what they hold, but for comparisons
_OF_SETS = {"or": "update", "sub": "difference_update", "and": "intersection_update"}
_MAKES_NEW = frozenset(("__add__", "__mul__", "__or__", "__and__", "__sub__", "__xor__"))


class FrameOperators(SpecialMethods):
    """The part of a frame that has the operators."""

    def mod(self, a: Any, b: Any) -> Any:
        if type(a) in (str, bytes) and not has_known_text(self.run, b):
            return by_percent(self.run, a, b)
        if type(a) in PLAIN and type(b) in PLAIN:
            return fresh(a % b)
        return self.operate(operator.mod, "__mod__", a, b)

    def add(self, a: Any, b: Any) -> Any:
        if TextOfValues in (type(a), type(b)) and isinstance(a, str) and isinstance(b, str):
            return TextOfValues(str.__add__(a, b))
        if type(a) in PLAIN and type(b) in PLAIN:
            return fresh(a + b)
        return self.operate(operator.add, "__add__", a, b)

    def is_(self, a: Any, b: Any) -> bool:
        if type(a) is type(b) and type(a) in _BY_VALUE and is_leaf(a) and a == b and a not in _CACHED:
            self.run.reads.by_identity(a, b)
        if a is b:
            return True
        if StandardStream in (type(a), type(b)) and a is not None and b is not None:
            raise self.run.refuse("whether a file is the one that is standard output now")
        if b is not None and a is not None:
            self.run.one_object(a)
            self.run.one_object(b)
            if _is_truth(a) and _is_truth(b):
                return truth_of(a, self.test) is truth_of(b, self.test)
        for x, y in ((a, b), (b, a)):
            if type(x) in TRACED and (type(y) in PLAIN and y is not None and y is not Ellipsis):
                raise self.run.refuse("`is` of traced values")
        if type(a) is type(b) and type(a) in (float, complex):
            raise self.run.refuse("`is` of numbers")
        if type(a) in TRACED and type(b) in TRACED and self.run.recorder.choices and self.run.recorder.choices.active:
            raise self.run.refuse("`is` of values, some of which may be chosen by both arms of an `if`")
        return False

    def in_(self, a: Any, b: Any) -> Any:
        kind, run = type(b), self.run
        if kind in PLAIN:
            return a in b
        if kind in CONTAINERS:
            run.one_object(a)
            node = run.reads.node_of(b)
            if kind in (dict,) or issubclass(kind, dict):
                return run.has_key(b, a)
            if kind in (set, frozenset):
                a = run.known_key(b, a)
                for x in (a, *(b := run.current(b))):
                    run.check_key(x)
                return a in b
            if node is not None or type(a) not in PLAIN:
                b, a = run.handed(b, False), run.handed(a, False)
            else:
                run.handed(b, False)
            return a in b
        if run.reads.library(kind):
            return a in run.handed(b, False)
        return a in asked(run, b, "__contains__", *ITERATES)

    def operate(self, plain: Callable[[Any, Any], Any], name: str, a: Any, b: Any) -> Any:
        run, reflected = self.run, REFLECTED[name]
        a, b = run.as_number(a, name, reflected), run.as_number(b, name, reflected)
        if run.has_methods(type(a)) or run.has_methods(type(b)):
            return self.by_methods(plain, name, a, b)
        a, b = self._as_array(a, b), self._as_array(b, a)
        if type(a) in _HOLD_ONLY and type(b) in _HOLD_ONLY and name in _MAKES_NEW:
            return run.made(plain(run.shallow(a), run.shallow(b)))
        return run.handing(plain, (a, b), {}, False)

    def by_c(self, obj: Any, name: str, other: Any) -> Any:
        if type(obj) in (TracedArray, np.ndarray) or isinstance(obj, np.generic):
            raise self.run.refuse(f"an operator on an array and an object of the class {type(other).__qualname__}")
        return NotImplemented  # Python's numbers know nothing of the user's classes

    def unanswered(self, plain: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        names = f"{type(a).__qualname__} and {type(b).__qualname__}"
        raise self.run.refuse(f"an operator of objects of the classes {names}")

    def _as_array(self, value: Any, other: Any) -> Any:
        """A list of traced values beside a plain array as the array that NumPy makes of it."""
        if type(value) in (list, tuple) and isinstance(other, np.ndarray | np.generic) and is_traced(value):
            return self.call(np.asarray, value)
        return value

    def in_place(self, plain: Callable[[Any, Any], Any], name: str, method: str, a: Any, b: Any) -> Any:
        kind, run = type(a), self.run
        if issubclass(kind, str) or type(b) is TextOfValues:
            return getattr(self, method)(a, b)
        if kind in EAGER:
            return run.handing(plain, (a, b), {}, False)
        if run.has_methods(kind):
            method_in_place = run.method(a, f"__i{name}__")
            found = NotImplemented if method_in_place is None else method_in_place(b)
            return getattr(self, method)(a, b) if found is NotImplemented else found
        if run.reads.node_of(a) is not None and kind is list and name == "add":
            run.call_method(a, "extend", b)
            return a
        if run.reads.node_of(a) is not None and kind is set and name in _OF_SETS and type(b) in (set, frozenset):
            run.change_set(a, _OF_SETS[name], (b,))
            return a
        if kind is np.ndarray and not a.flags.writeable:
            raise run.refuse("an assignment to an object from outside")
        if kind is np.ndarray or kind is MadeArray:
            run.array_changed(a)
        if run.reads.node_of(a) is not None and kind not in (tuple, frozenset):
            raise run.refuse("an assignment to an object from outside")
        if run.has_methods(type(b)):
            return getattr(self, method)(a, b)
        if kind in CONTAINERS and kind not in (tuple, frozenset):
            run.changes(a)
        return plain(a, self._taken_in(kind, name, b))

    def _taken_in(self, kind: type, name: str, other: Any) -> Any:
        """*other*, which the operator *name* takes into a container of *kind*: all that is in it has been read."""
        if issubclass(kind, dict) and (issubclass(type(other), dict) or (name == "or" and kind is not Counter)):
            return self.call(dict, other)  # a copy
        return self.run.iterable(other) if kind is list else other


def _is_truth(x: Any) -> bool:
    return type(x) in (bool, np.bool_) or (type(x) is TracedArray and class_of(x) in (bool, np.bool_))


FOR_THE_USER.add(__file__)
