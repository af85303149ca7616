"""Functions of the user's for code that is not converted: as their copies, which such code calls.

Functions of ours over functions of the user's (``checkpoint(f)``, ``primitive(f)``, ``grad(f)``) are made again over
the copies.  Classes whose methods code of ours calls, and objects that stand for functions, are handed over by their
methods."""

from __future__ import annotations

import functools
import types
from typing import Any, NamedTuple

from ...tracer.control.jitted import python_of
from ...tracer.convert.copies import remade
from ...tracer.numpy_api.python_builtins import takes_traced
from ...tracer.record.recorder import Recorder
from ...tracer.rules.host_code import HostCode
from ..state.pins import MISSING
from .attributes import found_in, load
from .machine_code import call_jitted
from .reads import ReadLog, is_wrapper
from .writing import Writing

OURS, TREES = "tracegrad.", "tracegrad.tree"
_OF_ARRAYS = "tracegrad.tracer.numpy_api"
_AS_ARRAY = ("__array__", "__len__", "__getitem__")  # NumPy takes such objects for arrays
_OF_EVENTS = ("terminal", "direction")  # attributes of a function that SciPy reads


class Callee(NamedTuple):
    """The code that is given something: its *module*, what it is given *first* and calls, and the ids of arguments that
    it passes on to a function of the user's, and of those that it takes apart."""

    module: str
    first: Any = None
    passed_on: frozenset[int] = frozenset()
    apart: frozenset[int] = frozenset()


class HandedFunctions(Writing):
    """The part of a run that hands functions to libraries."""

    def __init__(self, reads: ReadLog, recorder: Recorder) -> None:
        super().__init__(reads, recorder)
        self._rewrapped: dict[int, tuple[Any, Any]] = {}  # id of a function of ours -> (it, the one over the copy)
        self._copies: list[tuple[Any, Any]] = []  # that code in C has been given, with what was in them
        self._callee = Callee("")
        self._within_args = False  # whether something is looked at that is in an argument which is passed on

    def handed_function(self, value: Any, kind: type, callbacks: bool) -> Any:
        """A function for code that is not seen; where that is no code that calls it (*callbacks*), only one that is no
        function of the user's.  NotImplemented where *value* is none."""
        found: Any = NotImplemented
        if kind is types.FunctionType:
            if self.reads.trust.owns(value) and not self.holds_users(value):
                return value
            found = functools.partial(self._callback, value)
        elif kind is types.MethodType:
            if self.reads.trust.cls(type(value.__self__)) and self.reads.node_of(value.__self__) is None:
                return value
            if type(value.__func__) is not types.FunctionType:
                raise self.refuse("a method that is handed to a library")
            found = functools.partial(self._method, value)
        elif is_wrapper(value):
            found = functools.partial(self.rewrapped, value)
        elif takes_traced(value):
            found = functools.partial(functools.partial, self.call, value)
        elif not isinstance(value, type) and (source := python_of(value)) is not None:
            found = functools.partial(self._jitted, value, source)
        if found is not NotImplemented and not callbacks and not takes_traced(value):
            raise self.refuse("a function that is handed to a library")
        return found if found is NotImplemented else found()

    def _method(self, value: types.MethodType) -> Any:
        return types.MethodType(self._callback(value.__func__), value.__self__)  # type: ignore[arg-type]

    def _jitted(self, value: Any, source: types.FunctionType) -> Any:
        call = functools.partial(call_jitted, self, value, source)
        return functools.update_wrapper(lambda *args, **kwargs: call(args, kwargs), value)

    def _callback(self, fn: types.FunctionType) -> Any:
        """The copy of a function of the user's, for a library that calls it, and may look at attributes of it."""
        node = self.reads.node_of(fn)
        for name in _OF_EVENTS if node is not None and self._callee.module.startswith("scipy") else ():
            assert node is not None
            if self.written(fn, name) is not MISSING:
                raise self.refuse(f"a function whose `.{name}` the run has changed, which is handed to a library")
            if name in fn.__dict__:  # which the library gets as it is
                label = f"{node.label}.{name}"
                self.reads.also(node, "attr", name, name, *self.reads.visit(fn.__dict__[name], label))
            else:
                self.reads.read(node, "noattr", name, None, f"{node.label}.{name}")
        return self.copy_of(fn, handed=True)

    def stands_for_function(self, value: Any, kind: type) -> bool:
        """Whether an object of the user's class *kind* is handed over as a function."""
        callee = self._callee
        if callee.module.startswith("scipy.") and not self._within_args and id(value) not in callee.passed_on:
            known = not any(hasattr(value, name) for name in _OF_EVENTS)
        else:
            known = callee.module.startswith(OURS) and callee.module != TREES and value is callee.first
            known = known and not (callee.module.startswith(_OF_ARRAYS) and any(hasattr(kind, n) for n in _AS_ARRAY))
        base, raw = found_in(kind, "__call__")
        return known and base is not None and not self.reads.library(base) and type(raw) is types.FunctionType

    def called(self, value: Any) -> Any:
        """An object of the user's that stands for a function: the method that is called."""
        base, raw = found_in(type(value), "__call__")
        if base is None or type(raw) is not types.FunctionType:
            raise self.refuse(f"a call of an object of the class {type(value).__qualname__}")
        self.reads.read_class(base, "__call__", raw)
        return types.MethodType(self.copy_of(raw, handed=True), value)

    def is_ours(self, f: types.FunctionType) -> bool:
        """Whether *f* is a function of ours over functions of the user's (``checkpoint(f)``)."""
        ours = str(f.__globals__.get("__name__")).startswith(OURS) and self.reads.trust.owns(f)
        return ours and (id(f) in self._rewrapped or self.holds_users(f))

    def rewrapped(self, value: Any) -> Any:
        """A function of ours over another one, as the same one over its copy."""
        known = self._rewrapped.get(id(value))
        if known is None and type(value) is types.FunctionType:
            return self._with_cells(value)
        if known is None:
            inner = value.__wrapped__
            node = self.reads.node_of(value)
            if node is not None:
                inner = self.reads.read(node, "const", "__wrapped__", inner, node.label)
            known = self._rewrapped[id(value)] = value, value._tracegrad_rebuild(self._to_ours(inner, OURS, inner))
        return known[1]

    def _to_ours(self, value: Any, module: str, called: Any = None) -> Any:
        """*value* for a function of ours, of this *module*, which calls it if it is *called*."""
        around, within = self._callee, self._within_args
        self._callee, self._within_args = Callee(module, called), False
        try:
            return self.handed(value, True)
        finally:
            self._callee, self._within_args = around, within

    def over_copies(self, cls: Any) -> Any:
        """A class of the user's, for code of ours that calls methods of it: what has the copies of these methods."""
        known = self._rewrapped.get(id(cls))
        if known is None:
            methods = {name: self.handed(load(self, cls, name), True) for name in cls._tracegrad_helpers}
            twin = types.SimpleNamespace(__name__=cls.__name__, _tracegrad_of=cls, **methods)
            known = self._rewrapped[id(cls)] = cls, twin
        return known[1]

    def _with_cells(self, f: types.FunctionType) -> types.FunctionType:
        node, cells = self.reads.node_of(f), [types.CellType() for _ in f.__closure__ or ()]
        made = remade(f, f.__globals__, tuple(cells))
        self._rewrapped[id(f)], self._rewrapped[id(made)] = (f, made), (made, made)
        before, self._copies = self._copies, []  # ours keeps what it closes over, and does not change it
        for name, cell, own in zip(f.__code__.co_freevars, f.__closure__ or (), cells, strict=True):
            value = cell.cell_contents
            if node is not None:
                value = self.reads.read(node, "cell", cell, value, f"closure {name}")
            own.cell_contents = self._to_ours(value, f.__globals__["__name__"])
        self._copies = before
        return made

    def holds_users(self, f: types.FunctionType) -> bool:
        """Whether a library's function is a wrapper around something of the user's."""
        return any(self._is_around(cell, {id(f)}) for cell in f.__closure__ or ())

    def _is_around(self, value: Any, seen: set[int]) -> bool:
        """Whether something of the user's is *value*, or in it.  *seen*: ids of what was looked at."""
        if type(value) is types.CellType:
            try:
                value = value.cell_contents
            except ValueError:
                return True
        kind, seen_before = type(value), id(value) in seen
        seen.add(id(value))
        if seen_before or isinstance(value, type) or "cython_function" in kind.__name__:
            return False
        if kind is types.MethodType:
            return self._is_around(value.__func__, seen)
        if kind is types.FunctionType:
            within = value.__closure__ or ()
            return not self.reads.trust.owns(value) or any(self._is_around(cell, seen) for cell in within)
        if kind in (list, dict) or issubclass(kind, tuple):  # of rules
            return any(self._is_around(x, seen) for x in (value.values() if kind is dict else value))
        return kind is HostCode or not self.reads.trust.cls(kind)
