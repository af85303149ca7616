"""Objects of the user's classes that have a base of SciPy's: distributions with a ``_pdf`` of their own, operators.

SciPy's code calls methods of the user's on them, and reads attributes.  So it gets a *twin* of such an object: of a
class that has the copies of these methods, with all that the object holds, which is read.
"""

from __future__ import annotations

import abc
import functools
import types
from collections.abc import Collection
from typing import Any

import numpy as np

from ...tracer.ir.own_attributes import attributes_of
from ...tracer.record.recorder import Recorder
from ..state.contents import set_attribute
from ..state.objects import keeps_c_state
from ..state.state_graph import Leaf, StateNode
from ..state.trust import hidden_state
from .attributes import found_in
from .library_objects import LibraryObjects
from .reads import ReadLog
from .writes import WrittenNames

_OF_A_CLASS = frozenset(("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__abstractmethods__"))
_DRAWS = "_random_state"  # of a distribution, for its samples


class OwnClasses(LibraryObjects):
    """The part of a run that knows such objects."""

    def __init__(self, reads: ReadLog, recorder: Recorder) -> None:
        super().__init__(reads, recorder)
        self._classes: dict[type, type] = {}  # a class of the user's -> the one over copies
        self._made: dict[int, tuple[Any, Any]] = {}  # id of an object outside -> (it, its twin)

    def inherits(self, kind: type) -> bool:
        """Whether *kind*, a class of the user's, has a base of SciPy's, and objects that are their attributes."""
        bases = [base for base in kind.__mro__ if base is not object and self.reads.trust.cls(base)]
        known = all(base.__module__.startswith("scipy.") and not keeps_c_state(base) for base in bases)
        hooks = [found_in(kind, name)[0] for name in ("__init_subclass__", "__getattribute__", "__setattr__")]
        return bool(bases) and known and type(kind) in (type, abc.ABCMeta) and set(hooks) == {object}

    def twin_of(self, node: StateNode) -> Any:
        """The twin of an object outside, of which all is read."""
        value, kind = node.obj, type(node.obj)
        if id(value) in self._made:
            return self._made[id(value)][1]
        made: Any = object.__new__(self._over(kind) if self.inherits(kind) else kind)
        self._made[id(value)] = self.twins[id(made)] = value, made
        self.twins[id(made)] = made, value
        copies, self._copies = self._copies, []
        arrays: list[Any] = []
        self.reads.instance_lacks(node, (), (), whole=True)
        for name, part in attributes_of(value).items():
            bound = _bound_to(made, value, part)
            if bound is not None:
                self.reads.also(node, "attr", name, name, Leaf(part, False), part)
                set_attribute(made, name, bound)
            elif hidden_state(type(part)) is None or name != _DRAWS:
                shown = self.reads.read(node, "attr", name, part, f"{node.label}.{name}")
                set_attribute(made, name, self._part_of_twin(shown, arrays))
        self._before.append((made, node, attributes_of(made), self._copies, arrays))
        self._copies = copies
        return made

    def _over(self, kind: type) -> type:
        """The class over copies of the methods of *kind*."""
        if kind in self._classes:
            return self._classes[kind]
        self.reads.pin(kind)
        own: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        seen: set[str] = set()
        for base in kind.__mro__[:-1]:
            for name, raw in vars(base).items():
                self.reads.names(name)
                plain = name in _OF_A_CLASS or name.startswith("_abc_") or type(raw) is types.MemberDescriptorType
                if name not in seen and not plain and not self.reads.library(base):
                    own[name] = self._member(self.reads.read_class(base, name, raw), raw)
                seen.add(name)
        made = self._classes[kind] = type(kind)(kind.__name__, (kind,), own)
        self.reads.own_classes.add(made)
        return made

    def _member(self, shown: Any, raw: Any) -> Any:
        """An entry of a class, as the run's one has it."""
        kind = type(raw)
        if kind is types.FunctionType:
            return self.copy_of(raw, handed=True)
        if kind in (staticmethod, classmethod) and type(raw.__func__) is types.FunctionType:
            return kind(self.copy_of(raw.__func__, handed=True))
        if kind is property:
            parts = (raw.fget, raw.fset, raw.fdel)
            return property(*[None if part is None else self.handed(part, True) for part in parts])
        if kind is functools.cached_property:
            return functools.cached_property(self.handed(raw.func, True))
        if hasattr(kind, "__get__"):
            raise self.refuse("a descriptor of a class that is handed to a library")
        return shown if type(shown) is not np.ndarray else self.handed(shown, True)

    def settle_objects(self) -> None:
        held: list[Any] = []
        for entry in self.writes.values():
            if id(entry.owner) in self._made:
                raise self.refuse("an object that the run changes, and that is handed to a library")
            values: Collection[Any] = entry.values.values() if isinstance(entry, WrittenNames) else ()
            held += values
        if any(id(value) in self.twins for value in held):
            raise self.refuse("an object that is handed to a library, and kept")
        super().settle_objects()


def _bound_to(made: Any, value: Any, part: Any) -> Any:
    """A method of *value* that it holds, as one of *made*; None for anything else."""
    if type(part) is np.vectorize:
        inner = _bound_to(made, value, part.pyfunc)
        if inner is None:
            return None
        again = np.vectorize(inner, part.otypes, part.__doc__, part.excluded, part.cache, part.signature)
        again.__dict__.update({name: x for name, x in part.__dict__.items() if name != "pyfunc"})
        return again
    if type(part) is not types.MethodType or part.__self__ is not value:
        return None
    name = part.__name__
    found: Any = getattr(type(made), name, None)
    return types.MethodType(found if getattr(type(value), name, None) is part.__func__ else part.__func__, made)
