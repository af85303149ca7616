"""Parts of a recorder, each of which knows one thing: what loops have taught, what stands for others, what has left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ..ir.aval import Aval, check_dtype
from ..ir.graph import Atom, Node, Var, reals
from ..ir.site import Site

_SMALL = 2048  # bytes of a constant that is known again by its contents

T = TypeVar("T")


class Part:
    """A part of a recorder, which is copied with it."""

    def copy(self: T) -> T:
        return copied(self)


def copied(whole: T) -> T:
    """A copy that can be changed independently."""
    other = copy(whole)
    parts = {name: x.copy() for name, x in vars(whole).items() if type(x) in (list, dict) or isinstance(x, Part)}
    other.__dict__.update(parts)
    return other


@dataclass
class LoopState(Part):
    """Knowledge of the user's loops over symbols.  ``spots``: reads and writes at traced positions (buffers.py).
    ``known_forms``: integers of iterations that were marked in vain (loops/positions.py).  ``int_ranges``: bounds of
    integers of Python's, where they are known; ``made_int`` is told of these; ``int_in_loop`` gives the one that an
    integer is in a marked iteration; ``knows_int`` tells whether a value is one.  ``marked_values``: by id, values with
    which marked iterations began (each, the one in whose place it stood).  ``made_anew``: by id, containers that others
    stand for, these, and the loops.  ``copies``: by id, objects that stand for items of a list, and the iterations.
    ``lessons``: of runs of loop statements, for the next ones.  ``plain_rows``: by
    id, plain arrays for which rows have stood, their contents, and the loop statements.  ``parts_taken``: by id, plain
    arrays of which a part was taken at a traced position, and copies of them then.  ``iterations``: the number of
    those that were marked; what was made before one bears a lower number.  ``tables``: by id, lists whose elements an
    array has now (loops/tables.py);  ``interrupted``: whether a Retry has ended one, whatever became of that;
    ``table_arrays``: lists that were, their elements then, and the arrays; ``tables_of_rows``: lists that were taken
    of lists, and these."""

    spots: dict[Var, Any] = field(default_factory=dict)
    known_forms: dict[Var, Any] = field(default_factory=dict)
    int_ranges: dict[Var, tuple[int, int]] = field(default_factory=dict)
    made_int: Callable[[Any, Node], None] = lambda recorder, node: None
    int_in_loop: Callable[[Any, Atom], Any] = lambda recorder, atom: None
    knows_int: Callable[[Any, Any], bool] = lambda recorder, value: False
    marked_values: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    tables: dict[int, Any] = field(default_factory=dict)
    table_arrays: dict[int, Any] = field(default_factory=dict)
    tables_of_rows: dict[int, Any] = field(default_factory=dict)
    made_anew: dict[int, Any] = field(default_factory=dict)
    copies: dict[int, Any] = field(default_factory=dict)
    lessons: dict[Any, Any] = field(default_factory=dict)
    plain_rows: dict[int, tuple[np.ndarray, bytes, Any]] = field(default_factory=dict)
    parts_taken: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    iterations: int = 0
    interrupted: bool = False

    def stands_in(self, loop: Any, *objects: Any) -> None:
        """*loop* makes objects anew that are *objects*, or stand for them."""
        self.made_anew.update({id(x): (x, loop) for x in objects})

    def forget_values(self) -> None:
        """Let go of values of the iterations, all of which are over."""
        self.marked_values, self.made_anew, self.copies = {}, {}, {}


@dataclass
class Taught:
    """Lessons of earlier runs of the same call.  ``plain_loops``: by id, loop statements that are recorded
    iteration by iteration; ``long_loops``: those of few and long iterations.  ``uncounted``: (id of a loop statement,
    name) of numbers that are no counts or sums.  ``unordered``: the same of arrays that iterations leave in an unknown
    order of memory.  ``rows_apart``: codes of functions whose batches are run by row."""

    plain_loops: dict[int, Any] = field(default_factory=dict)
    long_loops: dict[int, Any] = field(default_factory=dict)
    uncounted: set[tuple[int, str]] = field(default_factory=set)
    unordered: set[tuple[int, str]] = field(default_factory=set)
    rows_apart: set[Any] = field(default_factory=set)


@dataclass
class Chosen(Part):
    """Values that choices have given.  ``frozen``: by id, a buffer, or a plain array, that a choice may show (it, the
    choice, the contents of a plain one).  ``undecided``: the choices that gave numbers whose class depends on data.
    ``defers``: whether arrays are made of which code may never ask more than a part (STAND_INS)."""

    frozen: dict[int, tuple[Any, Any, bytes | None]] = field(default_factory=dict)
    undecided: set[Any] = field(default_factory=set)
    defers: bool = False


@dataclass
class Left(Part):
    """The traced numbers that have left otherwise than as themselves.  ``as_text``: floats; ``checked``: whether it
    would have been an error to lose a gradient so.  ``hashed``: whether one is, or may be, a key of a dict or a member
    of a set."""

    as_text: list[Atom] = field(default_factory=list)
    checked: bool = True
    hashed: bool = False


@dataclass
class Drawn(Part):
    """The draws from the default stream: its input, its state in this run (uint64 (2,)), how many there are: a number
    that loops over symbols carry.  ``calls``: how many calls have drawn.  ``outside``: what the run has drawn from
    generators outside, in order; ``repeat`` makes what a marked iteration has drawn as often as a loop has iterations,
    and gives what takes that back."""

    stream: Var | None = None
    state: np.ndarray | None = None
    count: Any = 0
    calls: int = 0
    outside: list[Any] = field(default_factory=list)
    repeat: Callable[[Any, int], Callable[[], None]] = lambda marked, times: lambda: None


@dataclass
class CallersObjects(Part):
    """The caller's objects: those that are replaced, by the id of what the function was given, and expressions for
    others, by the id of what stands for them."""

    originals: dict[int, Any] = field(default_factory=dict)
    given: dict[int, str] = field(default_factory=dict)


class Question(NamedTuple):
    """``function(*args)`` gave ``answer``, a plain value: a replay asks again."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    answer: Any

    def holds(self) -> bool:
        found = self.function(*self.args)
        return type(found) is type(self.answer) and bool(found == self.answer)


class Answered(Protocol):
    """Something that was put to the outside; equal to others of the same question and answer."""

    def holds(self) -> bool:
        """Whether it has the same answer now."""


@dataclass
class OutsideAnswers(Part):
    """Questions that were put to the outside; calls that NumPy answers, with their recipes (constants.py)."""

    questions: list[Answered] = field(default_factory=list)
    derived: dict[Any, Any] = field(default_factory=dict)


class Premise(NamedTuple):
    """A condition that holds in this run, and is no guard yet; the first line that relies on it; the error where it
    does not."""

    atom: Atom
    site: Site | None
    unmet: Callable[[], Exception] | None = None


class Dependents(Part):
    """The values that depend on some, of as many nodes as were looked at."""

    def __init__(self) -> None:
        self._known: set[Atom] = set()
        self.looked = 0

    def of(
        self, given: Iterable[Atom], nodes: Sequence[Node], joins: Callable[[Node, set[Atom]], bool]
    ) -> set[Atom]:  # fmt: skip
        """Those of *given*, with these, among all that *nodes* make; *joins*: whether the results of a node do."""
        known = self._known
        known.update(given)
        for node in nodes[self.looked if self.looked <= len(nodes) else 0 :]:
            if joins(node, known):
                known.update(node.outs)
        self.looked = len(nodes)
        return known


class StandIns(Part):
    """Variables that stand for others, of which nobody may learn a value but by a guard.  ``rows``: of each batch, the
    innermost last, those that stand for one row of many, and the rows; ``batches``: (code of the function, number of
    rows) of each.  ``tangents``: those that stand for any tangents, or cotangents, of each rule that is being
    transposed, the innermost last (codegen/derive/transpose.py)."""

    def __init__(self) -> None:
        self.rows: list[dict[Var, Atom]] = []
        self.batches: list[tuple[Any, int]] = []
        self.tangents: list[Any] = []
        self.of_rows = Dependents()
        self._asked = 0  # the number of questions that are being answered

    def __contains__(self, var: Atom) -> bool:
        return any(var in batch for batch in self.rows) or any(var in known.given for known in self.tangents)

    def is_of_row(self, atom: Atom, nodes: Sequence[Node]) -> bool:
        """Whether *atom*, which *nodes* make, depends on a variable that stands for one row of many."""
        given = [var for batch in self.rows for var in batch]
        known = self.of_rows.of(given, nodes, lambda node, known: not known.isdisjoint(node.inputs))
        return any(x in known for x in reals(atom))

    def hide(self, atom: Atom, nodes: Sequence[Node]) -> bool:
        """Whether *atom* has another value in each row, and nobody puts a guard on it."""
        return bool(self.rows) and not self._asked and self.is_of_row(atom, nodes)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """A context in which values are learned that a guard is put on."""
        self._asked += 1
        try:
            yield
        finally:
            self._asked -= 1


class Constants(Part):
    """The arrays of the user's Python that a recording has met: known again by identity, and small ones by contents."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[np.ndarray, Var, np.ndarray]] = {}  # (the array, its variable, a copy)
        self._by_contents: dict[Any, tuple[Var, np.ndarray]] = {}
        self._lanes: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}  # each beside its complex array

    def of(self, array: np.ndarray, by_contents: bool) -> tuple[Var, np.ndarray]:
        """The variable of *array*, and its value, a copy, since the user may go on writing into it."""
        _, found, kept = self._by_id.get(id(array), (None, None, None))
        if found is not None and kept is not None and _same_contents(kept, array):
            return found, kept
        dtype, contents = check_dtype(array.dtype, "an array used in the function"), None
        if by_contents and array.nbytes <= _SMALL:  # np.eye(3) in each turn of a loop
            contents = dtype, array.shape, array.tobytes()
        if contents in self._by_contents:
            found, kept = self._by_contents[contents]
        else:
            found, kept = Var(Aval(dtype, array.shape)), np.array(array, dtype=dtype, order="C")
        if contents is not None:
            self._by_contents[contents] = found, kept
        self._by_id[id(array)] = array, found, kept
        return found, kept

    def times_held(self, array: np.ndarray) -> int:
        """In how many places *array* stands here."""
        return sum(id(array) in places for places in (self._by_id, self._lanes))

    def lanes_of(self, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lanes of a complex *array*: the same objects for the same contents."""
        _, re, im = self._lanes.get(id(array), (None, None, None))
        if re is None or im is None or not (_same_contents(re, array.real) and _same_contents(im, array.imag)):
            re, im = array.real.copy(), array.imag.copy()
            self._lanes[id(array)] = array, re, im
        return re, im


def _same_contents(kept: np.ndarray, array: np.ndarray) -> bool:
    """Whether *array* still equals its copy *kept*, bit for bit."""
    if kept.shape != array.shape or kept.dtype != array.dtype:
        return False
    return kept.tobytes() == np.ascontiguousarray(array).tobytes()
