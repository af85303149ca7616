"""Effects of a recorded run on the outside, which a replay does again once its kernel has succeeded.

Each is an ``OutsideEffect``: an attribute gets the value that the program computes, a list grows by what the run has
appended.  A value is an expression over the kernel's results, the arguments and constants.  An owner is
found anew in each call, by the way on which the run has found it.  The log gives them their order
(``runtime/logged/effects.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from ...tracer.ir.graph import Atom
from ...tracer.ir.refusals import Reason
from ...tracer.record.array import TracedArray, to_atom
from .complex_data import as_result
from .trees import Source

Expression = Callable[[Source, Sequence[str]], str]  # of the leaves' texts; ``r`` are the kernel's results
Known = tuple[Hashable, Expression]  # (a key that is equal for the same expression, the expression)


class OtherValues(Protocol):
    """The values that a library above knows, of one run."""

    def expression(self, value: Any, result: Callable[[TracedArray], Known]) -> Known | None:
        """The expression of *value*, if the library knows it; *result* gives that of a traced array."""


class Sink(NamedTuple):
    """A container that only grows: its class, and where it is before any effect is done."""

    kind: type
    place: Expression


@dataclass(slots=True, frozen=True)
class OutsideEffect:
    """One statement: *before* ``place`` *between* ``value`` *after*.  ``key`` is equal for the same effect; what it
    names by id is kept alive by ``place``.  *sink*: a container whose contents are not looked at."""

    key: Hashable
    place: Expression
    value: Expression
    form: str
    sink: Sink | None = None
    results: tuple[int, ...] = ()  # indices of the graph's results that values are made of

    def write(self, source: Source, texts: Sequence[str], recorded: bool) -> None:
        """Append the statement; *texts[k]* is leaf k of the call."""
        source.results = self.results
        source.lines.append(self.form.format(self.place(source, texts), self.value(source, texts)))


@dataclass(slots=True)
class Effects:
    """The effects of a run; ``arrays`` are the traced arrays that they need, at ``indices`` of the graph's results.
    ``refused``: changes that can't be done again.  ``out``: the run's result."""

    effects: list[OutsideEffect] = field(default_factory=list)
    arrays: list[TracedArray] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    refused: list[Reason] = field(default_factory=list)
    out: Any = None

    def place(self, atoms: list[Atom], returned: dict[int, int]) -> None:
        """Append what is needed to *atoms*; *returned*: the index there of each traced array, by id, that the function
        has returned."""
        for array in self.arrays:
            self.indices.append(returned.get(id(array), len(atoms)))
            if self.indices[-1] == len(atoms):
                atoms.append(as_result(to_atom(array)))
        results = tuple(self.indices)
        self.effects = [replace(effect, key=(effect.key, *results), results=results) for effect in self.effects]
