"""Removal of traced arrays from the user's own objects after a run.

A function that runs in each call may keep what it computes (``self.last = loss``, ``history.append(loss)``).  During a
recording that is a traced array, which is of no use once the recording is over.  ``Settled`` puts the value in its
place, as plain NumPy would have left it there: in the places that the run has told of (``written_places.py``), and,
where counts of references say that there are others (``Holders``), in whatever holds one.
"""

from __future__ import annotations

import enum
import functools
import gc
import operator
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from threading import get_ident
from typing import Any

import numpy as np

from ...tracer.convert.copies import remade
from ...tracer.ir.class_flags import HEAP_TYPE
from ...tracer.ir.own_attributes import dict_of, slots
from ...tracer.ir.tracebacks import is_raise, last_frame
from ...tracer.ir.trees import tree_unflatten
from ...tracer.numpy_api.python_builtins import KnownType
from ...tracer.numpy_api.series import Elementwise
from ...tracer.record.array import TracedArray
from ...tracer.record.integers import Integers, TracedInt
from ...tracer.record.made_arrays import MadeArray
from ...tracer.record.recorder import Recorder
from ...tracer.record.reports import names_below
from ...tracer.record.shown_names import VALUES, AsValue, KnownModule, ShownGlobals, module_of
from ...tracer.record.undecided import Undecided, UndecidedTruth
from ..state.values import is_leaf
from ..tensor_library import TENSORS
from .arguments import Arguments
from .asked import Asked
from .held_values import (
    holds_traced,
    is_of_rooms,
    is_part_of_context,
    method_of_array,
    of_recordings,
    settle_held,
    settle_names,
)
from .live_frame import LiveFrame
from .outputs import Whole, flatten_result, whole_containers, with_whole

Unwrap = Callable[[Any], Any]
_MISSING = object()
_MAX_DEPTH = 100
_STAND_INS = (TracedInt, Undecided, UndecidedTruth, MadeArray, AsValue, KnownType)  # which know what they stand for
_CONTAINERS = (tuple, list, deque, dict, set, frozenset)
_METHODS_IN_C = (types.BuiltinMethodType, types.MethodWrapperType)
_CALLABLES = (types.FunctionType, types.MethodType, *_METHODS_IN_C, functools.partial)
_PARTED, _ARRAYS = (list, tuple, deque, dict), (TracedArray, np.ndarray)
# What compiled functions know of their calls (recordings, programs, paths, counters): much, and no value of a run.
_ROOMS = ("runtime.paths.", "runtime.stored.", "runtime.stats", "tracer.ir.graph", "codegen.")
_LEARNED = tuple([f"tracegrad.{room}" for room in _ROOMS])
_BOOKS = (Recorder, Integers, LiveFrame)  # of a run, and no objects of the user's
_PLAIN_KEYS = {str, int, float, bool, bytes, type(None)}
# Of what is shown in place of names: ours, which stay.
_OWN_HOLDERS = {id(x) for x in gc.get_referrers(*VALUES.values())}


class Settled:
    """The plain form of values that the user's code has made, in whatever containers and objects of its own it keeps
    them: a call gives a value without its traced parts.

    *number* gives the value of a traced array; *originals*, by id of what stood for it in the run, an object of the
    caller's.  A traced array that is kept in two places is one array in both.
    """

    def __init__(self, number: Unwrap, originals: dict[int, Any]) -> None:
        self._number, self.originals = number, originals
        self.copies: dict[int, Any] = {}  # by id of what stood for an object of the run's, or the caller's: that object
        self._known: dict[int, tuple[Any, Any]] = {}  # id of a value -> (that value, its plain form)
        self.run: Recorder | None = None  # whose values these are; those of a run before are left alone
        self.own_code = False  # whether the run's code is the caller's own, not a copy over other globals
        self._in_error = False  # whether an exception holds what is being settled
        self.failed = False  # whether the run has raised: what an inner run of it has lost is no news
        self.unsettled: list[Any] = []  # objects that still hold a traced value (held_values.py)
        self.held: list[Any] = []  # those of them that are in the result

    def end(self) -> None:
        """Let go of the values: an error among them has a frame that has this, and would stay until it is collected."""
        self._known, self.copies = {}, {}

    def __call__(self, value: Any, depth: int = 0) -> Any:
        original = self.originals.get(id(value), _MISSING)
        if original is not _MISSING:
            return original
        if id(value) in self.copies:
            return self(self.copies[id(value)], depth)
        if type(value) in _PLAIN_KEYS:
            return value
        known = self._known.get(id(value))
        if known is None:
            plain = value
            if type(value) is Whole:
                plain = self(value.value, depth)
            elif type(value) is TracedArray:
                plain = value if self._is_lost(value) else self._number(value)
            elif type(value) in _STAND_INS:
                plain = value.plain()
            elif type(value) is KnownModule:
                plain = module_of(value)
            elif issubclass(type(value), Asked):
                plain = self(value.obj, depth)
            elif issubclass(type(value), Elementwise):  # which a dead weak reference can be asked
                plain = value.settled(self)
            elif depth < _MAX_DEPTH:
                self._known[id(value)] = value, value  # in case it holds itself
                plain = self.inside(value, depth + 1)
            elif holds_traced([value]):
                self.unsettled.append(value)
            known = self._known[id(value)] = value, plain
        return known[1]

    def _is_lost(self, array: TracedArray) -> bool:
        """Whether a traced array has no value that can be told."""
        if not array._complete or array._recorder.thread != get_ident():  # another run's, under way
            return True
        # in an error, there are those of the body of a loop in which it arose
        elsewhere = self._in_error or self.failed or array._recorder.outermost() is not self.run
        return not array._recorder.active and elsewhere

    def knows(self, value: Any) -> bool:
        """Whether *value* is what is noted here of others."""
        if type(value) is tuple:
            return bool(value) and self._known.get(id(value[0])) is value
        return value is self._known

    def is_known(self, value: Any) -> bool:
        """Whether the plain form of *value* is known."""
        return id(value) in self._known

    def leave(self, containers: Iterable[Any]) -> None:
        """Take these for settled."""
        self._known.update({id(one): (one, one) for one in containers})

    @property
    def arrays(self) -> list[TracedArray]:
        """The traced arrays that have been settled."""
        return [value for value, _ in self._known.values() if type(value) is TracedArray]

    def inside(self, value: Any, depth: int = 0) -> Any:
        """Settle the parts of a container or object; a tuple with other parts is another one."""
        kind = type(value)  # not what a dead weak reference says of itself
        if issubclass(kind, _CONTAINERS):
            return self._container(value, kind, depth)
        if issubclass(kind, _CALLABLES):
            return self._callable(value, kind, depth)
        if kind in _BOOKS or str(kind.__module__).startswith(_LEARNED):
            return value
        if not issubclass(kind, (type, slice, types.ModuleType, *TENSORS.types)):  # tensors settle themselves
            self._attributes(value, depth)
        return value if issubclass(kind, BaseException) else settle_held(value, self, depth)

    def _container(self, value: Any, kind: type, depth: int) -> Any:
        if issubclass(kind, tuple):
            before = list(tuple.__iter__(value))
            parts = [self(v, depth) for v in before]
            if any(map(operator.is_not, parts, before)):
                make: Any = tuple.__new__  # past the __new__ of a named tuple
                return make(kind, parts)
            return value
        if issubclass(kind, frozenset):
            members = [self.key(member) for member in frozenset.__iter__(value)]
            make = kind
            return make(members) if any(map(operator.is_not, members, frozenset.__iter__(value))) else value
        if not issubclass(kind, set):
            base: Any = next(base for base in (dict, list, deque) if issubclass(kind, base))  # past the user's methods
            for place, part in list(dict.items(value) if base is dict else enumerate(base.__iter__(value))):
                if type(part) not in _PLAIN_KEYS and (new := self(part, depth)) is not part:
                    base.__setitem__(value, place, new)
        if issubclass(kind, dict | set):
            _plain_keys(value, self.key)
        if issubclass(kind, list | dict) and kind.__flags__ & HEAP_TYPE:
            self._attributes(value, depth)
        if issubclass(kind, defaultdict) and (new := self(value.default_factory, depth)) is not value.default_factory:
            value.default_factory = new
        return value

    def _callable(self, value: Any, kind: type, depth: int) -> Any:
        if issubclass(kind, types.FunctionType):
            if of_recordings(value):
                self.unsettled.append(value)
            if (made := self._over_originals(value)) is not value:
                self._known[id(value)] = value, made  # in case it holds itself
                value = made
            self._closure(value, depth)
            return value
        if not issubclass(kind, _METHODS_IN_C) and (method := method_of_array(value)) is not None:
            return getattr(self(method[0], depth), method[1])
        if issubclass(kind, functools.partial):
            held: Any = functools.partial.__reduce__(value)[2]
            if (changed := self(held, depth)) is not held:
                functools.partial.__setstate__(value, changed)  # type: ignore[attr-defined]
            return value
        owner = self(value.__self__, depth)
        if issubclass(kind, _METHODS_IN_C):
            return value if owner is value.__self__ else getattr(owner, value.__name__)
        function = self(value.__func__, depth)
        same = function is value.__func__ and owner is value.__self__
        return value if same else types.MethodType(function, owner)

    def replaces(self, fn: types.FunctionType) -> bool:
        """Whether the run has made the function, over what stands for the caller's globals."""
        return type(fn.__globals__) is ShownGlobals

    def _over_originals(self, fn: types.FunctionType) -> types.FunctionType:
        """A function that the run has made, over the caller's globals."""
        if not self.replaces(fn):
            return fn
        made = remade(fn, names_below(fn.__globals__), fn.__closure__)
        made.__annotations__ = fn.__annotations__
        return made

    def _closure(self, fn: types.FunctionType, depth: int) -> None:
        """Settle the values that a function made by the run holds."""
        for cell in fn.__closure__ or ():
            self(cell, depth)
        if (defaults := self(fn.__defaults__, depth)) is not fn.__defaults__:
            fn.__defaults__ = defaults
        self(fn.__kwdefaults__, depth)
        if vars(fn):
            self(vars(fn), depth)

    def key(self, key: Any) -> Any:
        """The plain form of a key of a dict or a member of a set: one that has been hashed is the very object."""
        return key if type(key) in _PLAIN_KEYS else self(key)

    def keys_in(self, out: Any) -> None:
        """Give the dicts of a result plain keys.  Hashing has asked for the value of such a key, with a guard: the
        plain number is the very key in a replay, too."""
        for part in _containers(out):
            if issubclass(type(part), dict):
                _plain_keys(part, self.key)

    def _attributes(self, value: Any, depth: int) -> None:
        if issubclass(type(value), BaseException):
            before, self._in_error = self._in_error, True
            by_python = is_raised_by_python(value)
            args = tuple([self(v, depth) if by_python or type(v) is not str else v for v in value.args])
            if any(map(operator.is_not, args, value.args)):
                value.args = args
            self((value.__cause__, value.__context__), depth)
            self._held(value, depth)
            self._in_error = before
        else:
            self._held(value, depth)

    def _held(self, value: Any, depth: int) -> None:
        """Settle the attributes of *value*."""
        try:
            store = dict_of(value)
        except ReferenceError:
            return
        if type(store) is dict and store is not value:
            self.inside(store, depth)
        for name in slots(type(value)):
            old = getattr(value, name, None)
            if not is_leaf(old) and (new := self(old, depth)) is not old:
                with suppress(AttributeError):  # one of an object in C that can't be set: of `settle_held`
                    object.__setattr__(value, name, new)

    def result(self, out: Any, others: Container[int]) -> Any:
        """The result of the run: objects in it are the caller's own, or have plain values in them.  Its arrays and
        tensors stay traced.  *others*: the ids of containers that others have, too."""
        try:
            leaves, spec = flatten_result(out)
        except RecursionError:  # it holds itself
            self.held.append(out)
            return out
        self._each([part.default_factory for part in _containers(out) if type(part) is defaultdict])
        values = not any(issubclass(type(leaf), type) for leaf in leaves) and all(map(_is_value, leaves))
        ids = whole_containers(out, others, others)
        out = with_whole(out, ids, lambda part: Whole(self(part))) if ids else out
        if values:
            return out
        leaves, spec = flatten_result(out)
        plain = self._each(leaves)
        return tree_unflatten(spec, [x if type(x) is Whole else p for x, p in zip(leaves, plain, strict=True)])

    def _each(self, leaves: list[Any]) -> list[Any]:
        """These parts of a result with plain values in their objects; ``held`` gets those in which that can't be."""
        found = []
        for leaf in leaves:
            before = len(self.unsettled)
            found.append(leaf if _is_value(leaf) and not isinstance(leaf, type) else self(leaf))
            if len(self.unsettled) > before:
                self.held.append(leaf if hasattr(type(leaf), "__next__") else self.unsettled[-1])
        return found


class Holders:
    """Who holds the traced arrays of a run, by counts of references: each one, and its storage, holds its recorder.

    :param given: the arguments, with the traced arrays that the run begins with."""

    def __init__(self, recorder: Recorder, given: Arguments) -> None:
        self._recorder = recorder
        self._watched = [recorder, *[leaf for leaf in given.leaves if type(leaf) is TracedArray]]
        self._given = given, given.leaves, given.args, given.kwargs, self._watched
        self._before: list[int] = []
        self._shown: list[int] = []

    def begin(self) -> None:
        self._before, self._shown = _counts(self._watched), _counts([*VALUES.values()])

    def only(self, results: list[Any], settled: Sequence[TracedArray] = ()) -> bool:
        """Whether nobody but the caller holds a traced array after a run: those in *results*, a list of one value that
        is in one variable.  False where that can't be told.  *settled*: those that only ``Settled`` holds, too."""
        for value in results:
            if type(value) in (dict, OrderedDict):
                results.extend(value.values())
            elif type(value) is list or issubclass(type(value), tuple):
                results.extend(value)
            elif not (type(value) is TracedArray or is_leaf(value) or settled):  # an object has been settled
                return False
        # what else is in the results has been settled, if anything has
        results[:] = [x for x in results if (type(x) is TracedArray if settled else not is_leaf(x))]
        del value
        more, *others = map(operator.sub, _counts(self._watched), self._before)
        arrays = [value for value in results if type(value) is TracedArray]
        places = [{id(x) for x in results}, {id(x) for x in settled}]  # each is in one more there, and in our list
        arrays += [x for x in settled if id(x) not in places[0]]
        made = len(arrays) + len({id(x._storage) for x in arrays if x._storage.home is self._recorder})
        del arrays
        if more != made or any(others) or any(map(operator.gt, _counts([*VALUES.values()]), self._shown)):
            return False
        free = _counts([object()])[0] - 1  # in no place

        def are_there(values: Sequence[Any]) -> bool:
            counts = _counts(values)
            expected = [free + 2 * sum(id(x) in ids for ids in places) for x in values]
            return counts == expected

        return are_there(results) and are_there(settled)

    def _made(self) -> list[Any]:
        return [array for array in [ref() for ref in self._recorder.made] if array is not None]

    def of_made(self, plain: Settled) -> bool:
        """Whether somebody else than *plain*, which has settled them, holds an array that the run has made."""
        free = _counts([object()])[0]
        made = self._made()
        ours = self._recorder.constants
        known = [2 * plain.is_known(x) + ours.times_held(x) for x in made]  # with its plain form, a view of it
        return any(count > free + more for count, more in zip(_counts(made), known, strict=True))

    def settle(self, plain: Settled, out: Any) -> None:
        """Settle whatever holds a traced array, but for *out*, the result of the run: the garbage collector knows, and
        looks at all objects that there are."""
        found: list[Any] = [x for x in gc.get_referrers(self._recorder) if type(x) is TracedArray]
        found += self._made()
        result = _containers(out, objects=True)
        passed = {id(x) for x in (*self._given, *result)}
        shown = [*VALUES.values()]
        found += [x for x, now, before in zip(shown, _counts(shown), self._shown, strict=True) if now > before]
        passed |= {id(shown), *_OWN_HOLDERS}
        plain.leave(result)
        passed |= {id(x) for x in (vars(self._recorder), *vars(self._recorder).values())}
        free = _counts([object()])[0] + 2  # in a list of holders, in a variable
        holders: list[Any] = []
        while found:
            passed |= {id(found), id(holders)}
            holders, found = gc.get_referrers(*found), []
            for holder in holders:
                if id(holder) not in passed and not isinstance(holder, types.FrameType) and not plain.knows(holder):
                    passed.add(id(holder))
                    if is_of_rooms(holder):  # of this run, or of one that is over
                        continue
                    if type(holder) is tuple:
                        if _counts([holder])[0] > free:  # else that of the arguments just now, from Python 3.14 on
                            found.append(holder)
                    elif type(holder) is types.CellType:
                        holder.cell_contents = plain(holder.cell_contents)
                    elif type(holder) is dict and (cls := _class_of(holder)) is not None:
                        settle_names(cls, plain)
                    elif (
                        is_part_of_context(holder) or plain.inside(holder) is not holder
                    ):  # its holders get another one
                        found.append(holder)


def _class_of(store: dict[Any, Any]) -> type | None:
    """The class whose dict this is: only through it may the dict be changed, since the interpreter keeps what it has
    looked up there."""
    if "__doc__" not in store:
        return None
    classes = [one for one in gc.get_referrers(store) if issubclass(type(one), type)]
    return next((cls for cls in classes if gc.get_referents(vars(cls))[0] is store), None)


def _containers(out: Any, objects: bool = False) -> list[Any]:
    """The containers in *out*; with *objects* those that have attributes, too, and what is in them."""
    found, stack, seen = [], [out], set[int]()
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        base: Any = next((base for base in _PARTED if issubclass(kind, base)), None)  # past the user's methods
        parts = None if base is None else dict.values(value) if base is dict else base.__iter__(value)
        if parts is None and objects and kind is not TracedArray and (store := dict_of(value)) is not None:
            parts = [store]
        if parts is not None:
            found.append(value)
            stack += parts
    return found


def held_elsewhere(results: list[Any], arrays: bool) -> set[int]:
    """The ids of the lists, dicts and *arrays* in a result that others hold, too, by counts of references, or by
    holding what they are in.  *results*: a list of the result, which is in one variable besides."""
    found, places = results[:], Counter({id(x): 2 for x in results})
    for value in found:
        inside = _parts(value)
        found += [part for part in inside if id(part) not in places]
        places.update(map(id, inside))
        del inside
    value = None
    free = _counts([object()])[0]  # in a list alone
    more = [count - free - places[id(x)] for x, count in zip(found, _counts(found), strict=True)]
    held = {id(x): x for x, n in zip(found, more, strict=True) if n > 0}
    stack = list(held.values())
    while stack:
        others = {id(x): x for x in _parts(stack.pop()) if id(x) not in held}
        held |= others
        stack += others.values()
    return {key for key, x in held.items() if arrays or type(x) not in _ARRAYS}


def _parts(value: Any) -> list[Any]:
    """The containers and arrays that a container of a result holds."""
    kind = type(value)
    parts = value.values() if issubclass(kind, dict) else value if issubclass(kind, _PARTED) else ()
    return [part for part in parts if issubclass(type(part), _PARTED) or type(part) in _ARRAYS]


def _counts(values: Sequence[Any]) -> list[int]:
    return [sys.getrefcount(value) for value in values]


def is_raised_by_python(error: BaseException) -> bool:
    """Whether a ``raise`` has made the exception, or nothing yet: what C code says of a text is said of the text in
    which the traced array stands."""
    last = last_frame(error.__traceback__)
    return last is None or is_raise(last)


def _is_value(leaf: Any) -> bool:
    """Whether nobody can tell a part of a result from another one that is equal, or it is an array of no objects."""
    if type(leaf) is np.ndarray and leaf.dtype == object:
        return False
    kinds = (TracedArray, TracedInt, Whole, np.ndarray, type, types.ModuleType, enum.Enum, *TENSORS.types)
    return (issubclass(type(leaf), kinds) and type(leaf) is not MadeArray) or is_leaf(leaf)


def _plain_keys(values: Any, plain: Unwrap) -> None:
    """Put plain keys in a dict, or plain members in a set, in the order in which they are."""
    if _PLAIN_KEYS.issuperset(map(type, values)):
        return
    kind: Any = next((kind for kind in (OrderedDict, dict, set) if issubclass(type(values), kind)), None)
    if kind is None:  # a frozen set is another one where it is held
        return
    before = [*kind.__iter__(values)]
    keys = [plain(key) for key in before]
    if all(new is key for new, key in zip(keys, before, strict=True)):
        return
    parts = [] if kind is set else [*kind.values(values)]
    kind.clear(values)  # past the methods of a user's class
    if kind is set:
        set.update(values, keys)
    for key, part in zip(keys, parts, strict=False):
        kind.__setitem__(values, key, part)
