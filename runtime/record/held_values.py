"""The plain form of objects that hold traced values where nobody assigns: iterators, views of containers, slices,
generators, classes, bound methods of arrays.

``settle_held`` gives what stands for such an object after a run: the object itself, where all that it holds could be
settled in place, or another one of its class.  Where neither is possible (a generator has a traced array among its
local variables), ``Settled.unsettled`` gets the object: it can't be handed out (``refuse_held``).
"""

from __future__ import annotations

import contextvars
import functools
import gc
import itertools
import operator
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from ...codegen.cpu.cpython import replace_pointers, write_locals
from ...tracer.convert.transparent import OWN
from ...tracer.ir.class_flags import HEAP_TYPE
from ...tracer.ir.errors import OnlyPythonError, UnsupportedError
from ...tracer.ir.site import OWN_FOLDER, at_site
from ...tracer.record.array import METHODS, TracedArray
from ...tracer.record.integers import TracedInt
from ...tracer.record.undecided import Undecided, UndecidedTruth
from ..state.objects import keeps_c_state
from ..state.values import is_leaf
from ..tensor_library import TENSORS
from .live_frame import LiveFrame

_MOST = 100_000  # objects that are looked at below those that are settled
_TRACED = (TracedArray, TracedInt, Undecided, UndecidedTruth)
# What stands in a run for functions and objects of NumPy's and others, which means nothing to the caller.
_OWN_CODE = tuple([f"tracegrad.tracer.{room}." for room in ("record", "numpy_api", "scipy_api")])
_OWN_ROOMS = ("tracegrad.tracer.", "tracegrad.runtime.")
_PASSED = (LiveFrame, types.ModuleType, types.FrameType, types.TracebackType, types.CodeType)
_VIEWS = {type(getattr({}, name)()): name for name in ("keys", "values", "items")}
_OF_ARRAY = type(iter(np.zeros(1)))
# Classes whose objects say what they are made of (``__reduce__``), and are made again of other parts.
_MADE_AGAIN: set[Any] = {
    enumerate, zip, map, filter, reversed, operator.methodcaller, operator.itemgetter, operator.attrgetter, _OF_ARRAY,
    type(iter([])), type(reversed([])), type(iter(())), type(iter(int, 1)),
}  # fmt: skip
# Those that do not in every version of Python, and hold their parts in their own memory.
_ITERTOOLS = tuple([kind for name, kind in vars(itertools).items() if isinstance(kind, type) and name[0] != "_"])


class Settling(Protocol):
    """``Settled`` (``unwrap_tracers.py``)."""

    unsettled: list[Any]
    own_code: bool

    def replaces(self, fn: types.FunctionType) -> bool: ...

    def __call__(self, value: Any, depth: int = 0) -> Any: ...


def settle_held(value: Any, plain: Settling, depth: int) -> Any:
    """The plain form of *value*, of a class that :class:`Settled` does not take apart."""
    kind = type(value)
    if issubclass(kind, (*_PASSED, *TENSORS.types)) or is_part_of_context(value):  # tensors settle themselves
        return value
    for kinds, settled in _BY_KIND:
        if issubclass(kind, kinds):
            return settled(value, plain, depth)
    if kind in _MADE_AGAIN and (made := _made_again(value, plain, depth)) is not None:
        return made[0]
    if str(kind.__module__).startswith(_OWN_CODE):
        plain.unsettled.append(value)
    elif kind.__flags__ & HEAP_TYPE and not keeps_c_state(kind):  # nothing but attributes, which are settled
        plain(kind, depth)
    elif str(kind.__module__).partition(".")[0] != "tracegrad" and _holds_unsettled(value, plain, depth):
        if own := kind is types.GeneratorType and plain.own_code:
            _settle_locals(value.gi_frame, plain, depth)
        if not own or _holds_unsettled(value, plain, depth):
            plain.unsettled.append(value)
    return value


def _settle_slice(value: slice, plain: Settling, depth: int) -> Any:
    parts = value.start, value.stop, value.step
    return value if (new := plain(parts, depth)) is parts else slice(*new)


def _settle_view(value: Any, plain: Settling, depth: int) -> Any:
    (owner,) = gc.get_referents(value)
    if (new := plain(owner, depth)) is owner:
        return value
    kind = type(value)
    return kind(new) if kind is types.MappingProxyType else getattr(new, _VIEWS[kind])()


def _settle_reference(value: Any, plain: Settling, depth: int) -> Any:
    if (there := weakref.ref.__call__(value)) is not None and plain(there, depth) is not there:
        plain.unsettled.append(value)
    return value


def _settle_cell(value: types.CellType, plain: Settling, depth: int) -> Any:
    with suppress(ValueError):  # an empty one
        if (new := plain(value.cell_contents, depth)) is not value.cell_contents:
            value.cell_contents = new
    return value


def _settle_pointers(value: Any, plain: Settling, depth: int) -> Any:
    """Settle the parts of an object in C whose memory has a pointer to each."""
    kind = type(value)
    parts = [part for part in gc.get_referents(value) if part is not kind]
    for part in {id(part): part for part in parts}.values():
        if type(part) is tuple and len(gc.get_referents(part)) < len(part):
            _settle_pointers(part, plain, depth)  # of `zip_longest`: nobody can read it, where iterators have ended
            continue
        if issubclass(type(part), _PASSED) or (new := plain(part, depth)) is part:
            continue
        if not replace_pointers(value, part, new, sum(one is part for one in parts)):
            plain.unsettled.append(value)
    return value


def _holds_unsettled(value: Any, plain: Settling, depth: int) -> bool:
    """Whether a part of *value* has another plain form, when all are settled; a copy that a generator runs is none."""
    own = type(value) is types.GeneratorType and OWN in value.gi_code.co_freevars
    others = [
        part
        for part in gc.get_referents(value)
        if not issubclass(type(part), _PASSED)
        and not (own and getattr(part, "__code__", None) is value.gi_code and not plain.replaces(part))
        and plain(part, depth) is not part
    ]
    return bool(others)


def is_part_of_context(value: Any) -> bool:
    """Whether *value* is one of the objects in C that hold the values of context variables, and never change."""
    return type(value).__module__ == "builtins" and type(value).__name__.startswith("hamt")


def is_of_rooms(value: Any) -> bool:
    """Whether *value* is an object of the recorder's or the runtime's own, which is no traced one."""
    kind = type(value)
    return str(kind.__module__).startswith(_OWN_ROOMS) and kind not in _TRACED


def _settle_context(context: contextvars.Context, plain: Settling, depth: int) -> Any:
    for variable, part in list(context.items()):
        new = plain(part, depth)
        if is_of_rooms(new):  # of the work that went on while it was copied
            new = None
        if new is not part:
            try:
                context.run(variable.set, new)
            except RuntimeError:  # it is the one in which this runs
                variable.set(new)
    return context


def _settle_locals(frame: types.FrameType, plain: Settling, depth: int) -> None:
    """Settle the variables of a generator that waits; what it iterates over in a loop that it has begun has no name."""
    names = frame.f_locals
    for name, part in list(names.items()):
        if (new := plain(part, depth)) is not part:
            names[name] = new
    if sys.version_info < (3, 13):  # before which assigning an item assigned no variable
        write_locals(frame)


def of_recordings(fn: Any) -> bool:
    """Whether a function is one that recordings put in place of another, which means nothing to the caller."""
    return str(getattr(fn, "__module__", "")).startswith(_OWN_CODE)


def is_own(fn: Any) -> bool:
    """Whether a function is one of the library's, such as that of a transform, which may work in recordings alone."""
    code = getattr(fn, "__code__", None)
    name = type(fn).__module__ if code is None else ""
    return name.partition(".")[0] == "tracegrad" or (code is not None and code.co_filename.startswith(OWN_FOLDER))


def method_of_array(value: Any) -> tuple[TracedArray, str] | None:
    """(array, name) of a bound method of a traced array."""
    if isinstance(value, functools.partial):  # as `TracedArray.__getattr__` makes it
        if of_recordings(value.func) and len(value.args) == 2:
            name, array = value.args
            return (array, name) if type(array) is TracedArray and type(name) is str else None
        return None
    array, function = value.__self__, value.__func__
    if type(array) is not TracedArray:
        return None
    own = type.__dict__["__dict__"].__get__(TracedArray)
    found = [name for name, method in (*own.items(), *METHODS.items()) if function in (method, _within(method))]
    return (array, found[0]) if found else None


def _within(method: Any) -> Any:
    """The function that a method of the class is made of."""
    return method.__func__ if type(method).__name__ == "instancemethod" else method


def _made_again(value: Any, plain: Settling, depth: int) -> tuple[Any] | None:
    """The form of *value* that is handed out, in a tuple; None where it does not say what it is made of."""
    with suppress(TypeError):
        function, *parts = value.__reduce__()
        if type(value) is map and (rest := _rest_of_array(*parts[0], plain, depth)) is not None:
            return (rest,)
        before = tuple(parts)
        after = plain(before, depth)
        if after is before:
            return (value,)
        made = function(*after[0])
        if len(after) > 1 and after[1] is not None:
            made.__setstate__(after[1])
            if made.__reduce__()[2:] != tuple(after[1:]):  # the place in a list that the run has not made longer yet
                plain.unsettled.append(value)
        return (made,)
    return None


def _rest_of_array(function: Any, indices: Any, *others: Any) -> Any:
    """The iterator over the rest of a traced array that the iterator ``map(function, indices)`` goes through."""
    plain, depth = others[-2:]
    if len(others) > 2 or type(function) is not types.MethodType or type(function.__self__) is not TracedArray:
        return None
    if method_of_array(function) != (function.__self__, "__getitem__") or type(indices) is not type(iter(range(0))):
        return None
    array = plain(function.__self__, depth)
    rest: Any = iter(array)
    rest.__setstate__(len(array) - operator.length_hint(indices))
    return rest


_looked_at: weakref.WeakSet[type] = weakref.WeakSet()  # classes with nothing traced in them


def _settle_class(cls: type, plain: Settling, depth: int) -> Any:
    """Settle the attributes of a class that the run has made; those of others are settled where they are stored."""
    for one in cls.__mro__:
        if not one.__flags__ & HEAP_TYPE or one in _looked_at or one.__module__.partition(".")[0] == "tracegrad":
            continue
        _looked_at.add(one)
        settle_names(one, plain, depth)
    return cls


def settle_names(cls: type, plain: Settling, depth: int = 0) -> None:
    """Settle the attributes that stand in the class itself."""
    for name, part in list(vars(cls).items()):
        if type(part) is types.GetSetDescriptorType or is_leaf(part):
            continue
        if (new := plain(part, depth)) is not part:
            type.__setattr__(cls, name, new)


def _settle_elements(array: np.ndarray, plain: Settling, depth: int) -> Any:
    """Settle the elements of an array of Python objects."""
    if array.dtype == object:
        for index, part in np.ndenumerate(array):
            if (new := plain(part, depth)) is not part:
                array[index] = new
    return array


#: classes, and the function that gives the plain form of an object of theirs
_BY_KIND: tuple[tuple[Any, Callable[[Any, Settling, int], Any]], ...] = (
    (slice, _settle_slice), ((*_VIEWS, types.MappingProxyType), _settle_view), (weakref.ref, _settle_reference),
    (types.CellType, _settle_cell), (contextvars.Context, _settle_context), (type, _settle_class),
    (np.ndarray, _settle_elements), (_ITERTOOLS, _settle_pointers),
)  # fmt: skip


def holds_traced(values: Iterable[Any]) -> bool:
    """Whether a traced value can be reached from *values*; True where that can't be told."""
    stack, seen = list(values), set[int]()
    while stack:
        value = stack.pop()
        if type(value) in _TRACED:
            return True
        if id(value) in seen or is_leaf(value) or issubclass(type(value), (type, *_PASSED)):
            continue
        if type(value) is np.ndarray and value.dtype != object:
            continue
        if len(seen) >= _MOST:
            return True
        seen.add(id(value))
        if type(value) is types.FunctionType:  # which a dead weak reference can be asked
            stack += [value.__closure__, value.__defaults__, value.__kwdefaults__, vars(value)]
        else:
            stack += gc.get_referents(value)
    return False


class HeldError(OnlyPythonError):
    """A result that holds traced values where nothing else can be put: *what* it is."""

    __module__ = "tracegrad"

    what = ""


HeldError.__name__ = HeldError.__qualname__ = UnsupportedError.__name__


def refuse_held(function: str, found: Any, verb: str = "returns") -> HeldError:
    """The error for what *function*, its name, returns or keeps, with *found* in it."""
    what = noun_of(found)
    error = HeldError(
        at_site(f"{function} {verb} {what}, which holds traced values that are to be read later: {_instead(found)}")
    )
    error.what = what
    return error


def refuse_kept(function: str, unsettled: Iterable[Any]) -> HeldError | None:
    """The error for what *function*, its name, has left outside, if one of these objects still holds a traced value.
    Generators are closed: nobody gets to the value."""
    kept = [value for value in unsettled if holds_traced([value])]
    for value in kept:
        if type(value) is types.GeneratorType:
            with suppress(Exception):
                value.close()
    return refuse_held(function, kept[-1], "keeps") if kept else None


def noun_of(value: Any) -> str:
    """A noun for *value*."""
    kind = type(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if kind is types.FunctionType:
        return f"the function {value.__name__}"
    return f"{'an' if kind.__name__[0] in 'aeiou' else 'a'} {kind.__name__}"


def _instead(value: Any) -> str:
    if hasattr(type(value), "__next__"):
        return "return a list of what it gives, list(...)"
    return "return arrays, in tuples, lists and dicts, and make such an object of them outside"
