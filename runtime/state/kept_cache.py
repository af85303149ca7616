"""Functions that keep their results (``functools.lru_cache``), as recorded code finds them.

A call of plain values is made on the cache itself, and a replay makes it again (``Cached``): what it gives is what the
recording rests on.  A call of traced values goes past the cache, to the function in it, once for the same values.
Where the function in it changes anything, Python runs instead: what a cache has once kept it does not do again.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ...tracer.ir.errors import UnsupportedError, unrecordable
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.record.array import TracedArray, class_of
from ...tracer.record.integers import TracedInt
from ...tracer.record.recorder import current_recorder, nothing_recorded
from ...tracer.record.retry import found_twice
from ...tracer.record.stands_for import StandsFor
from .c_state import keeps_c_state
from .code_scan import scan
from .outside_changes import changes_outside
from .state_graph import MAX_CONTENT
from .values import identity, is_leaf, same, token

CACHE: Any = type(functools.lru_cache(len))
ANY = ""  # in place of a name: in a container, under any
_MAX_PARTS = 1000
_DEPTH = 4  # of objects in one another that are looked into
_OF_OBJECTS = (
    "{} keeps its results by an object around a traced array; call it with plain values, or leave the cache out"
)


class Cached:
    """A call of *cached* with plain values, which had an *answer* before."""

    __slots__ = ("_args", "_arrays", "_cached", "_key", "_kwargs", "answer")

    def __init__(
        self, cached: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], answer: Any,
        outside: Container[int] = (),
    ) -> None:  # fmt: skip
        """:param outside: ids of objects that each run finds; others among the values are made by the run."""
        self._cached, self._args, self._kwargs, self.answer = cached, args, kwargs, answer
        self._arrays = _arrays(answer) or ()
        given = *[_key(x, outside) for x in args], *[(name, _key(x, outside)) for name, x in kwargs.items()]
        shown = token(answer) if is_leaf(answer) else identity(answer)
        self._key = id(cached), given, shown, *[_content(array) for array in self._arrays]

    def holds(self) -> bool:
        """Whether the cache gives the same answer."""
        now = self._cached(*self._args, **self._kwargs)
        if now is not self.answer and not (is_leaf(self.answer) and same(now, self.answer)):
            return False
        return not self._arrays or [*map(_content, self._arrays)] == [*self._key[3:]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cached) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _key(value: Any, outside: Container[int], depth: int = 0) -> Any:
    if is_leaf(value):
        return token(value)
    if type(value) is tuple:
        return tuple([_key(x, outside, depth) for x in value])
    if type(value) is np.ndarray and not value.dtype.hasobject and value.nbytes <= MAX_CONTENT:
        return _content(value)
    if id(value) in outside or depth > _DEPTH or not _is_plain_object(value):
        return identity(value)
    return type(value), *[(name, _key(x, outside, depth + 1)) for name, x in sorted(_attributes(value).items())]


def _attributes(obj: Any) -> dict[str, Any]:
    slots = {
        name: getattr(obj, name)
        for cls in type(obj).__mro__
        for name, member in vars(cls).items()
        if type(member) is types.MemberDescriptorType and hasattr(obj, name)
    }
    return {**getattr(obj, "__dict__", {}), **slots}


def _is_plain_object(value: Any) -> bool:
    """Whether all of an object is its attributes."""
    return type(value).__flags__ & (1 << 9) != 0 and not keeps_c_state(type(value))


def _traced_within(value: Any, depth: int = 0) -> Iterator[TracedArray]:
    """The traced arrays in an object, a container or a tuple."""
    if type(value) is TracedArray:
        yield value
    elif depth <= _DEPTH and not is_leaf(value):
        parts: Any = ()
        if type(value) in (tuple, list, set, frozenset, dict):
            parts = [*value.values()] if type(value) is dict else value
        elif _is_plain_object(value) and not isinstance(value, type | types.FunctionType):
            parts = _attributes(value).values()
        for part in parts:
            yield from _traced_within(part, depth + 1)


def _content(array: np.ndarray) -> Any:
    return array.dtype, array.shape, array.strides, array.tobytes()


def _arrays(answer: Any) -> list[np.ndarray] | None:
    """The arrays in an answer; None where it has parts that may change and are not known."""
    found: list[np.ndarray] = []
    stack, seen = [answer], 0
    while stack:
        value, seen = stack.pop(), seen + 1
        if type(value) is tuple:
            stack += value
        elif type(value) is np.ndarray and not value.dtype.hasobject and value.nbytes <= MAX_CONTENT:
            found.append(value)
        elif not is_leaf(value) or seen > _MAX_PARTS:
            return None
    return found


class KeptCache(StandsFor):
    """Stands for the function with a cache *cached* in a run, over *function* in place of the one in it.

    :param originals: by id of what stands for it in the run, an object of the caller's.
    :param changed: the objects among them that the run has changed.
    :param has_effects: the function does more than compute, which a call that goes past the cache does too often.
    :param only_leaves: objects may hold traced values that do not look like ones (tensors).
    :param has_copy: whether something leads to an object of which the run has a copy.
    :param has_stored: whether the run has stored anything, which the function in the cache itself would not find.
    :param stored_in: the names under which the run may store something in copies of what something leads to.
    :param functions: those that the one in the cache reaches, and itself.
    """

    _what = "a function with a cache"

    def __init__(
        self, cached: Any, function: Callable[..., Any], originals: Mapping[int, Any],
        changed: Callable[[], list[Any]], has_effects: bool, only_leaves: bool, has_copy: Callable[[Any], bool],
        has_stored: Callable[[], bool], stored_in: Callable[[Any], Iterable[str]], functions: list[types.FunctionType],
    ) -> None:  # fmt: skip
        super().__init__(cached)
        self._stored_in, self._functions = stored_in, functions
        self._has_copy, self._has_stored = has_copy, has_stored
        self._function, self._has_effects = function, has_effects
        self._originals, self._changed, self._only_leaves = originals, changed, only_leaves
        self._known: dict[Any, tuple[Any, Any]] = {}  # calls with traced values: (the values, the result)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        made = [x for x in values if id(x) not in self._originals]
        within = [t for x in made for t in _traced_within(x)]
        recorder = current_recorder()
        if recorder is not None and within and not any(map(_is_traced, values)):
            error = UnsupportedError.here(_OF_OBJECTS.format(self._real.__name__))
            for traced in within:  # of what comes from outside, the run is made again over the arrays themselves
                recorder.refused(traced.atom, error)
            unrecordable.discard(error)
        if within:
            for value in values:
                if (self._has_effects and _is_traced(value)) or (
                    type(value) is TracedArray and class_of(value) is np.ndarray
                ):
                    hash(value)  # an error
            key = *[_identity(x) for x in args], *[(name, _identity(x)) for name, x in kwargs.items()]
            if key not in self._known:
                self._known[key] = values, self._function(*args, **kwargs)
            return self._known[key][1]
        if self._only_leaves and not all(is_leaf(x) or type(x) is TracedInt for x in values):
            if recorder is not None:
                recorder.again(found_twice(refused=self._why()))
            self._unkept()
            return self._function(*args, **kwargs)
        args = tuple(map(self._plain, args))
        kwargs = {name: self._plain(x) for name, x in kwargs.items()}
        if any(one is x for one in self._changed() for x in (*args, *kwargs.values())):
            self._unkept()
        if recorder is not None and self._is_torn([x for x in (*args, *kwargs.values()) if not is_leaf(x)]):
            recorder.again(found_twice(refused=self._why()))
        with nothing_recorded():
            answer = self._real(*args, **kwargs)
        if _arrays(answer) is None:
            if recorder is not None and (self._only_leaves or self._has_copy(answer)):
                recorder.again(found_twice(refused=self._why()))
            self._unkept()
        elif recorder is not None:
            found = Cached(self._real, args, kwargs, answer, recorder.from_outside)
            if found not in recorder.questions:
                recorder.questions.append(found)
        return answer

    def _is_torn(self, objects: list[Any]) -> bool:
        """Whether the function itself, and the copies that the run has, may not know what the other stores, in what
        it reaches or in these arguments."""
        codes = self._codes(objects)
        if any(map(changes_outside, codes)):
            return True
        if not self._has_stored():
            return False
        within = {name for x in objects for name in self._stored_in(x)}
        attributes = {ANY}.union(*[scan(code).attrs for code in codes])
        return self._has_effects or not within.isdisjoint(attributes)

    def _codes(self, objects: list[Any]) -> set[types.CodeType]:
        """The code that the function may run, with these arguments."""
        classes = {one for x in objects for one in (x if isinstance(x, type) else type(x)).__mro__[:-1]}
        stack, seen = list(self._functions), set[types.CodeType]()
        while stack:
            code = stack.pop().__code__
            if code in seen:
                continue
            seen.add(code)
            members = [vars(cls).get(name) for cls in classes for name in scan(code).attrs]
            parts = [getattr(m, part, None) for m in members for part in ("fget", "__func__", "func")]
            stack += [f for f in (*members, *parts) if isinstance(f, types.FunctionType)]
        return seen

    def _plain(self, value: Any) -> Any:
        if type(value) is tuple:
            parts = tuple(map(self._plain, value))
            return value if all(map(operator.is_, parts, value)) else parts
        return value.asked() if type(value) is TracedInt else self._originals.get(id(value), value)

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cache_"):
            self._unkept()
        return self._function if name == "__wrapped__" else getattr(self._real, name)

    def _why(self) -> Reason:
        return Refusal.STATE_CACHE(what=f"`{self._real.__name__}`", site="its call")

    def _unkept(self) -> None:
        recorder = current_recorder()
        if recorder is not None:
            recorder.unrepeatable(Refusal.STATE_CACHE, what=f"`{self._real.__name__}`")


def _is_traced(value: Any) -> bool:
    return type(value) is TracedArray or (type(value) is tuple and any(map(_is_traced, value)))


def _identity(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_identity, value))
    return token(value) if is_leaf(value) else id(value)
