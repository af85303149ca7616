"""Random numbers that a run draws from generators outside it: NumPy's, and those of Python's ``random``.

Each draw is a call of a method of a generator with plain values, and what it gives is an input of the recording.  A
replay makes the same calls in the same order before its kernel runs, so that numbers, and what is drawn afterwards, are
those of plain Python.  Where the kernel turns out to be another path's, the generators are put back.

A draw in a loop over symbols is a column of draws, a row for each iteration (``Repeated``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...tracer.ir.aval import is_number
from ...tracer.record.integers import limit_of
from .call_key import Call
from .effects import Expression
from .trees import Source, make_function

#: classes of generators, by name -> how the state of one is read and put back (NumPy loads its own when they are used)
_STATES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "numpy.random._generator.Generator": (
        lambda g: g.bit_generator.state,
        lambda g, state: setattr(g.bit_generator, "state", state),
    ),
    "numpy.random.mtrand.RandomState": (lambda g: g.get_state(legacy=False), lambda g, state: g.set_state(state)),
    "random.Random": (random.Random.getstate, random.Random.setstate),
}
#: methods of NumPy's of which one call gives several numbers as several calls do -> how they are told how many
_SEVERAL = dict.fromkeys(
    ("normal", "standard_normal", "random", "random_sample", "uniform", "exponential", "standard_exponential",
     "laplace", "lognormal", "gamma"), "size"
) | dict.fromkeys(("rand", "randn"), "")  # fmt: skip
_MODULES = frozenset(name.rpartition(".")[0] for name in _STATES)


def is_generator(kind: type) -> bool:
    """Whether *kind* is a class of generators whose draws a recording may have."""
    return kind.__module__ in _MODULES and _name(kind) in _STATES


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


class Kind(NamedTuple):
    """The kind of a draw's value: its class, and of an array its dtype and shape.  *limit*: of the size of an int."""

    cls: Any
    dtype: Any = None
    shape: tuple[int, ...] = ()
    limit: int = 0

    @staticmethod
    def of(value: Any) -> Kind | None:
        """The kind of *value*; None where it is no number or array of numbers."""
        if type(value) is int:
            limit = limit_of(value)
            return Kind(int, limit=limit) if limit else None
        if type(value) is np.ndarray:
            return Kind(np.ndarray, value.dtype, value.shape) if is_number(value.dtype) else None
        return Kind(type(value)) if type(value) in (float, np.float64, np.float32, np.int64, np.int32) else None

    @property
    def of_column(self) -> Any:
        """The dtype of a column of such values."""
        return self.dtype if self.cls is np.ndarray else np.dtype(self.cls)

    def holds(self, value: Any) -> bool:
        """Whether *value* is one of these."""
        if type(value) is not self.cls:
            return False
        if self.cls is np.ndarray:
            return bool(value.dtype == self.dtype and value.shape == self.shape)
        return not self.limit or abs(value) <= self.limit


@dataclass(slots=True, eq=False)
class Draw:
    """A call of the method *name* of the generator *owner*, by its number among those of the run.  ``place``: the
    number of the input that it gives a value; None where it gives none.  ``column``: the shape of the column of which
    that is a row, where it is drawn in a loop."""

    owner: int
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    kind: Kind | None = None
    place: int | None = None
    column: tuple[int, ...] | None = None
    of_numpy: bool = False


@dataclass(slots=True, eq=False)
class Repeated:
    """Draws that are made *times* times, one after another."""

    body: list[Draw | Repeated]
    times: int

    @property
    def alone(self) -> Draw | None:
        """The only draw, if NumPy gives the same numbers, one after another, where it is asked for several."""
        draw = self.body[0]
        if len(self.body) > 1 or isinstance(draw, Repeated) or draw.kind is None or draw.kind.cls is not float:
            return None
        of_numbers = all(type(x) in (int, float) for x in draw.args) and not draw.kwargs
        return draw if draw.of_numpy and draw.name in _SEVERAL and of_numbers else None


Entries = Sequence[Draw | Repeated]


def saved(owners: Sequence[Any]) -> list[Any]:
    """The states of generators."""
    return [_STATES[_name(type(owner))][0](owner) for owner in owners]


def put_back(owners: Sequence[Any], states: Sequence[Any]) -> None:
    """Have generators be in these *states* again: those that share a bit generator as the first of them was."""
    for owner, state in reversed([*zip(owners, states, strict=True)]):
        _STATES[_name(type(owner))][1](owner, state)


def every(entries: Entries) -> Iterator[Draw]:
    """Each draw once, however often it is made."""
    for entry in entries:
        if isinstance(entry, Draw):
            yield entry
        else:
            yield from every(entry.body)


def make(entries: Entries, owners: Sequence[Any], found: list[Any], rows: list[int]) -> bool:
    """Make the draws, and put what they give among the inputs *found*; *rows*: how many each column has.  False where a
    draw gives a value of another kind than in the recording."""
    for entry in entries:
        if isinstance(entry, Repeated):
            alone = entry.alone
            if alone is not None:
                _several(alone, entry.times, owners, found, rows)
            elif not all(make(entry.body, owners, found, rows) for _ in range(entry.times)):
                return False
            continue
        value = getattr(owners[entry.owner], entry.name)(*entry.args, **entry.kwargs)
        if entry.kind is not None:
            if not entry.kind.holds(value):
                return False
            put(entry, value, found, rows)
    return True


def _several(draw: Draw, times: int, owners: Sequence[Any], found: list[Any], rows: list[int]) -> None:
    """The same of a draw of one number that is made *times* times."""
    method, how = getattr(owners[draw.owner], draw.name), _SEVERAL[draw.name]
    _put_rows(draw, method(*draw.args, **{how: times}) if how else method(times), times, found, rows)


@dataclass(slots=True, eq=False)
class Draws:
    """The draws of a recording.  *places*: expressions for the generators; *first*: the values in the recorded run.
    *owners*, *before*: the generators in that run and their states before it, until it is over."""

    entries: Entries
    places: Sequence[Expression]
    first: list[Any]
    key: Hashable
    owners: Sequence[Any] = ()
    before: Sequence[Any] = ()
    _find: Callable[..., tuple[Any, ...]] | None = None

    @property
    def may_differ(self) -> bool:
        """Whether a draw may give a value of another kind than in the recording."""
        kinds = [(draw.name, draw.kind.cls) for draw in every(self.entries) if draw.kind is not None]
        return any(cls is int or name == "choice" for name, cls in kinds)

    def again(self, call: Call, arrays: Sequence[Any]) -> tuple[tuple[Any, ...] | None, Callable[[], None]]:
        """As ``drawn``, of the generators of a *call*, and what puts these back."""
        if self._find is None:
            source = Source()
            texts = [f"leaves[{k}]" for k in range(len(call.leaves))]
            source.lines.append(f"return {', '.join([place(source, texts) for place in self.places])},")
            self._find = make_function("def find(leaves, args, kwargs):", source)
        owners = self._find(call.leaves_as_given, *call.arguments)
        undo = partial(put_back, owners, saved(owners))
        found = self.drawn(arrays, *owners)
        if found is None:
            undo()
        return found, undo

    def drawn(self, arrays: Sequence[Any], *owners: Any) -> tuple[Any, ...] | None:
        """*arrays*, and after them the values of the draws; None where one is of another kind than in the recording."""
        found: list[Any] = [None] * len(self.first)
        return (*arrays, *found) if make(self.entries, owners, found, [0] * len(found)) else None

    def undo(self) -> None:
        """Put back the generators of the recorded run, which is made again, or was only looked at."""
        put_back(self.owners, self.before)

    def release(self) -> None:
        """Let go of the recorded run."""
        self.first = [None] * len(self.first)
        self.owners, self.before = (), ()


def as_input(value: Any) -> Any:
    """The *value* of a draw as a kernel takes it."""
    if type(value) is int:
        return float(value)
    return np.asarray(value) if isinstance(value, np.integer) else value


def put(draw: Draw, value: Any, found: list[Any], rows: list[int]) -> None:
    """Put the *value* of a draw among those *found*; *rows*: how many each column has."""
    if draw.column is None:
        assert draw.place is not None
        found[draw.place] = as_input(value)
    else:
        _put_rows(draw, value, 1, found, rows)


def _put_rows(draw: Draw, values: Any, count: int, found: list[Any], rows: list[int]) -> None:
    """Put the *values* of a draw that is made *count* times in the next rows of its column."""
    place, kind = draw.place, draw.kind
    assert place is not None and kind is not None and draw.column is not None
    if found[place] is None:
        found[place] = np.zeros(draw.column, kind.of_column)
    found[place].reshape(-1, *kind.shape)[rows[place] : rows[place] + count] = values
    rows[place] += count
