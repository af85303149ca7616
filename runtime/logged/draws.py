"""Draws from generators of random numbers outside, in a run of converted code (``record/draws.py``).

A draw is made at once, and the generator is put back if the run is dropped.  What it gives is an input.  In a marked
iteration it is the first row of a column, of which the rest is drawn once the loop is one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from ...tracer.ir.errors import UnsupportedError
from ...tracer.ir.refusals import Refusal
from ...tracer.numpy_api.generators import taking_traced
from ...tracer.record.array import TracedArray, is_traced
from ...tracer.record.integers import Integers, TracedInt
from ...tracer.record.recorder import Recorder, current_recorder
from ..record.draws import Draw, Draws, Kind, Repeated, as_input, every, is_generator, make, put, put_back, saved
from ..record.effects import Expression
from ..state.values import is_leaf, token
from .expressions import constant_way

_KEPT = frozenset("spawn bit_generator get_state set_state getstate setstate".split())
_ONE_BY_ONE = "random numbers are drawn in a loop: the run is made again, iteration by iteration"
_OUTSIDE_A_RUN = "in the body of a function of ours, or when the run is over"


def is_outside(run: Any, value: Any) -> bool:
    """Whether *value* is a generator of random numbers that the run has found outside."""
    return is_generator(type(value)) and run.reads.node_of(value) is not None


def seeds(f: Any) -> bool:
    """Whether *f* is ``np.random.seed``."""
    return getattr(f, "__module__", None) == "numpy.random" and f.__qualname__ == "seed"


def draws(name: str, generator: Any) -> bool:
    """Whether the method *name* of a generator draws, or seeds it, and does nothing else."""
    return not name.startswith("_") and name not in _KEPT and callable(getattr(generator, name, None))


class DrawnOutside:
    """The draws of a *run*.  ``over``: whether it has returned."""

    over = False

    def __init__(self, run: Any, recorder: Recorder, integers: Integers) -> None:
        self._run, self._recorder, self._integers = run, recorder, integers
        self.entries = recorder.drawn.outside
        recorder.drawn.repeat = self._repeated
        self.inputs: list[Any] = []  # the variables, in the order of the values
        self.values: list[Any] = []
        self._owners: list[Any] = []
        self._before: list[Any] = []
        self._rows: list[int] = []  # of each column, how many are drawn

    def call(self, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The method *name* of the generator *owner* of these arguments, which may be traced."""
        if name == "shuffle" and len(args) == 1 and not kwargs and isinstance(args[0], TracedArray | np.ndarray):
            array = args[0]
            order = self.draw(owner, "permutation", (len(array),), {})
            self._run.frame.set_item(np.take(array, order, axis=0), array, ...)
            return None
        if isinstance(out := kwargs.get("out"), TracedArray | np.ndarray):
            given = {"size": out.shape, "dtype": out.dtype, **kwargs, "out": None}
            self._run.frame.set_item(self.draw(owner, name, args, given), out, ...)
            return out
        if name == "shuffle":
            self._refused(f"{name}() of a list")
        if not is_traced([*args, *kwargs.values()]):
            return self.draw(owner, name, args, kwargs)
        ours = taking_traced(type(owner)).get(name)
        if ours is None:
            self._refused(f"{name}() with traced parameters")
        return ours(_Drawing(self, owner), *args, **kwargs)

    def draw(self, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same of plain arguments: what stands in the run for the value."""
        recorder = self._recorder
        if (
            self.over
            or current_recorder() is not recorder
            or recorder.stand_ins.batches
            or recorder.drawn.stream is not None
        ):
            self._refused(f"{name}() {_OUTSIDE_A_RUN}")
        given = tuple(map(self._plain, args)), {key: self._plain(x) for key, x in kwargs.items()}
        if owner not in self._owners:
            self._before += saved([owner])
            self._owners.append(owner)
        value = getattr(owner, name)(*given[0], **given[1])
        recorder.drawn.calls += 1
        entry = Draw(self._owners.index(owner), name, *given, of_numpy=type(owner).__module__ != "random")
        if value is not None:
            entry.kind, entry.place = Kind.of(value), len(self.inputs)
            if entry.kind is None:
                self._refused(f"{name}(), which gives no number of a size that is known")
        self.entries.append(entry)
        if value is None:
            return None
        self._rows.append(0)
        label = f"{name}() of a generator"
        return self._column(label, entry, value) if recorder.open_loops else self._input(label, value)

    def _column(self, label: str, entry: Draw, value: Any) -> Any:
        """The first row of a column, whose rows are those of the iterations of the loops that are open."""
        recorder, loops = self._recorder, self._recorder.open_loops
        lengths = [loop.length.constant for loop in loops if loop.length is not None]
        known = [length for length in lengths if length is not None]
        assert entry.kind is not None
        if len(known) < len(loops) or entry.kind.cls is int:
            loops[-1].give_up(_ONE_BY_ONE)
        entry.column = *known, *entry.kind.shape
        self.values.append(None)
        put(entry, value, self.values, self._rows)
        var = recorder.add_input(self.values[-1], label)
        self.inputs.append(var)
        numbers = [TracedArray(loop.number, recorder) for loop in loops]
        return TracedArray(var, recorder, owner=label)[tuple(numbers)]

    def _repeated(self, marked: Any, times: int) -> Callable[[], None]:
        """Make the draws of a *marked* iteration for each of the *times* that its loop has; what takes that back."""
        body, depth = self.entries[marked.draws :], len(self._recorder.open_loops)
        rows = [draw.column[depth] for draw in every(body) if draw.column is not None]
        if any(count < times or (depth and count != times) for count in rows):
            marked.give_up(_ONE_BY_ONE)
        before, counts = saved(self._owners), list(self._rows)

        def undo() -> None:
            put_back(self._owners, before)
            self._rows[:], self.entries[marked.draws :] = counts, body

        if not make([Repeated(body, times - 1)], self._owners, self.values, self._rows):
            marked.give_up(_ONE_BY_ONE)
        self.entries[marked.draws :] = [Repeated(body, times)]
        return undo

    def _input(self, label: str, value: Any) -> Any:
        number = as_input(value)
        var = self._recorder.add_input(number, label, weak=type(value) in (int, float))
        self.inputs.append(var)
        self.values.append(number)
        return self._integers.stand_in(var, value, label) if type(value) is int else TracedArray(var, self._recorder)

    def _plain(self, value: Any) -> Any:
        """An argument that is the same in each replay."""
        if is_leaf(value) or isinstance(value, type | np.dtype):
            return value
        if type(value) is TracedInt:
            return operator.index(value)
        if type(value) in (tuple, list):
            return type(value)([self._plain(x) for x in self._run.iterable(value)])
        if type(value) is TracedArray:
            raise self._recorder.refused(value.atom, UnsupportedError.here("parameters of this draw can't be traced"))
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return np.array(value)
        return self._refused(f"a draw with an argument of the class {type(value).__qualname__}")

    def _refused(self, what: str) -> NoReturn:
        raise self._run.refuse(what, Refusal.CALLS_RANDOM)

    def undo(self) -> None:
        """The run is dropped: the generators are what they were."""
        put_back(self._owners, self._before)

    def kept(self, way_to: Callable[[Any], Any]) -> Draws | None:
        """The draws as a recording keeps them; *way_to*: the way to an object outside, if it has a text."""
        if not self.entries:
            return None
        ways = [constant_way(owner) if owner is np.random.mtrand._rand else way_to(owner) for owner in self._owners]
        if None in ways:
            self._refused("a generator that is found on a way without a text")
        places: list[Expression] = [way.text for way in ways]
        key = *[way.key for way in ways], *map(_key, self.entries)
        return Draws(self.entries, places, self.values, key, self._owners, self._before)


def _key(entry: Draw | Repeated) -> Any:
    if isinstance(entry, Repeated):
        return entry.times, *map(_key, entry.body)
    return entry.owner, entry.name, _token(entry.args), _token(entry.kwargs), entry.kind, entry.column


def _token(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return (*[(key, _token(x)) for key, x in value.items()],)
    if isinstance(value, tuple | list):
        return type(value), *map(_token, value)
    return token(value) if is_leaf(value) else value


class _Drawing:
    """A generator whose draws are those of a run."""

    def __init__(self, draws: DrawnOutside, owner: Any) -> None:
        self._draws, self._owner = draws, owner

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._owner)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self._draws.draw(self._owner, name, args, kwargs)
