"""Both arms of an ``if`` on a traced truth: one runs after the other, and ``select`` chooses between what they give.

A copy made by arms (``convert/arms.py``) asks its frame at each choice.  A plain truth runs one arm, as ever, and so
does a traced one unless ``Choices`` wants both.  Then the arms run from the same local variables; what they assign is
merged, what they write into arrays is written where their predicate holds, and what an operation presumes is presumed
where it holds (``Recorder.presume``).

Whatever shows that an arm runs which plain Python may not take ends the run: an exception, a question, a random number,
values that can't be merged.  The run is made again, in which that choice is a question as it is without all this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NoReturn

import numpy as np

from ..convert.arms import ChoiceStatement
from ..convert.copies import Copy, convert
from ..ir.aval import FLOAT_KINDS
from ..ir.graph import Atom, Guard, Lit
from ..ir.refusals import Reason, Refusal
from ..ops.elementwise import F, like
from ..record.array import TracedArray, class_of, to_atom, wrap, wrap_array
from ..record.recorder import Recorder, current_recorder
from ..record.undecided import Place, Undecided, UndecidedTruth, chosen
from .trees import truth

_OFTEN = 4  # answers of a question in one run, from which on different ones make it a choice
MANY_PATHS = 3  # paths that are known when all questions become choices
_UNSET = object()


@dataclass(slots=True, eq=False)
class Choices:
    """The choices of the code of one function: the places where both arms run, and those where they can't, with the
    reason."""

    active: set[Place] = field(default_factory=set)
    refused: dict[Place, Reason] = field(default_factory=dict)
    wanted: set[Place] = field(default_factory=set)  # questions of a loop's body, which have no answer there
    known_paths: int = 0

    def learn(self, guards: Iterable[Guard], codes: Iterable[CodeType]) -> bool:
        """Take the questions of a run that have had different answers, or all of them where there are many paths, for
        choices, if they can be (a question that ends a loop is none); whether there are new ones.  A heuristic: either
        way is right."""
        codes = list(codes)
        answers = self._answers(guards, codes)
        often = {place for place, found in answers.items() if len(found) >= _OFTEN and len(set(found)) > 1}
        wanted = (answers.keys() if self.every else often | self.wanted) - self.active
        wanted -= self.refused.keys()
        if not wanted:
            return False
        files = {file for file, _ in wanted}
        found = [c for code in codes if code.co_filename in files for c in self._choices(code)]
        can = {(file, line) for file, line in wanted for f, c in found if f == file and c.line <= line <= c.end}
        self.active |= can
        self.refused |= {place: Refusal.CHOICE_SOURCE() for place in wanted - can}
        return bool(can)

    def _answers(self, guards: Iterable[Guard], codes: Iterable[CodeType]) -> dict[Place, list[bool]]:
        """The answers to the questions of a run, but for those that end a loop."""
        asked = [((g.site.file, g.site.line), g) for g in guards if g.kind == "bool" and g.site is not None]
        answers: dict[Place, list[bool]] = {place: [] for place in self.wanted}
        if asked:
            copies = [(code.co_filename, copy) for code in codes if isinstance(copy := convert(code), Copy)]
            ends = {(file, line) for file, copy in copies for loop in copy.loops for line in loop.ends}
            for place, guard in asked:
                if place not in ends:
                    answers.setdefault(place, []).append(bool(guard.expected))
        return answers

    @property
    def every(self) -> bool:
        """Whether all questions become choices that can."""
        return self.known_paths >= MANY_PATHS

    def want(self, place: Place) -> bool:
        """Note that the question at *place* has to be a choice, which is seen to after the run; whether that is new."""
        if place in self.active or place in self.refused:
            return False
        self.wanted.add(place)
        return True

    def notes(self) -> list[str | Reason]:
        """The choices that both arms of which run, and those that are questions, for ``explain()``."""
        chosen = [f"both arms run: the `if` at {_shown(place)}" for place in sorted(self.active - self.refused.keys())]
        return [
            *chosen,
            *[r.within(f"one arm runs: the `if` at {_shown(p)}: ") for p, r in sorted(self.refused.items())],
        ]

    def _choices(self, code: CodeType) -> list[tuple[str, ChoiceStatement]]:
        copy = convert(code, arms=True)
        return [(code.co_filename, choice) for choice in copy.choices] if isinstance(copy, Copy) else []

    def run(self, recorder: Recorder, places: list[Place]) -> bool:
        """Whether both arms of the choice whose test stands at these *places* run."""
        if any(place in self.refused for place in places):
            return False
        return bool(recorder.arms) or any(place in self.active for place in places)


class Branch:
    """A choice both of whose arms run."""

    merges = True

    def __init__(
        self, recorder: Recorder, place: Place, choice: ChoiceStatement, predicate: Atom, frame: FrameType
    ) -> None:  # fmt: skip
        self.recorder, self.place, self.choice, self.predicate = recorder, place, choice, predicate
        self._frame: FrameType | None = frame
        values = frame.f_locals
        self._before = {name: values.get(name, _UNSET) for name in choice.resets}
        self._first: dict[str, Any] = {}
        self._open = False
        self.made: list[Any] = []  # containers that the arm has made itself
        self._seen: tuple[int, ...] = ()
        self._holds: Atom | None = None

    # ---- the arms

    def body(self) -> bool:
        self._begin(self.predicate)
        return True

    def orelse(self) -> bool:
        if self._open:
            self.end()
        self._begin(F.logical_not(self.predicate))
        return True

    def swap(self) -> tuple[Any, ...]:
        """The first arm is over: what its variables were before."""
        self.end()
        self._first = self._assigned()
        unset = next((name for name, value in self._before.items() if value is _UNSET), None)
        if unset is not None:
            self.give_up(Refusal.CHOICE_UNSET(name=unset))
        return tuple(self._before.values())

    def merge(self) -> tuple[Any, ...]:
        """The other arm is over: the values of the variables now."""
        self.end()
        found = []
        for name, second in self._assigned().items():
            first = self._first[name]
            if first is _UNSET or second is _UNSET:
                self.give_up(Refusal.CHOICE_UNSET(name=name))
            found.append(self.merged(first, second, f"`{name}`"))
        self._frame = None
        return tuple(found)

    def _assigned(self) -> dict[str, Any]:
        assert self._frame is not None
        values = self._frame.f_locals
        return {name: values.get(name, _UNSET) for name in self.choice.merges}

    def _begin(self, predicate: Atom) -> None:
        recorder = self.recorder
        self._holds = predicate if not recorder.arms else F.logical_and(recorder.arms[-1].holds(), predicate)
        recorder.arms.append(self)
        self._open, self._seen = True, self._traces()

    def end(self) -> None:
        """The arm that is running is over."""
        recorder = self.recorder
        if not recorder.arms or recorder.arms[-1] is not self:
            self.give_up(Refusal.CHOICE_RAISES())
        if self._seen != self._traces():
            self.give_up(Refusal.CHOICE_EFFECT())
        recorder.arms.pop()
        self._open = False

    def has_made(self, obj: Any) -> bool:
        """Whether the arm has made this container itself."""
        return any(obj is made for made in self.made)

    def _traces(self) -> tuple[int, ...]:
        """How much has been done of what can't be chosen."""
        recorder = self.recorder
        printed = 0 if recorder.texts is None else len(recorder.texts.printed)
        left, questions = len(recorder.left.as_text), len(recorder.answered.questions)
        return recorder.drawn.calls, printed, questions, len(recorder.reasons), left

    def holds(self) -> Atom:
        """The predicate of the arm that is running."""
        assert self._holds is not None
        return self._holds

    def masked(self, x: Atom) -> Atom:
        """*x*; zeros where the arm that is running is not taken, so that no NaN leaks from there into a gradient."""
        if isinstance(x, Lit) or x.aval.dtype.kind not in FLOAT_KINDS:
            return x
        return F.select(self.holds(), x, like(0, x))

    # ---- what they give

    def merged(self, first: Any, second: Any, what: str) -> Any:
        return merge_values(self.predicate, first, second, self.place, lambda: self.unlike(what))

    def truth(self, joined: Callable[..., Any], second: Any) -> Any:
        second = known_truth(second)
        if type(second) is TracedArray and second._atom.aval.size != 1:
            self.give_up(Refusal.CHOICE_UNLIKE(what="the condition"))
        known = truth(second) if type(second) is TracedArray else to_atom(bool(second))
        return _python_bool(joined(self.predicate, known))

    def asked(self) -> NoReturn:
        """A question is asked within an arm."""
        self.give_up(Refusal.CHOICE_ASKS())

    def unlike(self, what: str) -> NoReturn:
        """The values of the arms are not of one kind."""
        self.give_up(Refusal.CHOICE_UNLIKE(what=what))

    def give_up(self, reason: Reason) -> NoReturn:
        """End the run, which is made again with a question here."""
        self.recorder.refuse_choice(self.place, reason)


def store_in_arm(recorder: Recorder, value: Any, of: Any, index: Any) -> None:
    """``of[index] = value`` in the arm that runs, of a list or dict of the run's own."""
    branch = recorder.arms[-1]
    if not (type(of) is list or (type(of) is dict and type(index) in (str, int) and index in of)):
        branch.give_up(Refusal.CHOICE_STORES(what=type(of).__name__))
    of[index] = merge_values(recorder.within(), value, of[index], branch.place, lambda: branch.unlike("an item"))


def not_(recorder: Recorder, place: Place, value: Any) -> TracedArray | None:
    """``not value`` without a question; None where it is one."""
    choices = recorder.choices
    if type(value) is not TracedArray or value._atom.aval.size != 1 or recorder is not value._recorder:
        return None
    if choices is None or not (recorder.arms or place in choices.active) or place in choices.refused:
        return None
    return _python_bool(F.logical_not(truth(value)))


def _python_bool(x: Atom) -> TracedArray:
    return wrap(F.logical_and(x, to_atom(True)) if not x.aval.weak else x)


def merge_values(
    predicate: Atom, first: Any, second: Any, place: Place, refuse: Callable[[], NoReturn]
) -> Any:  # fmt: skip
    """*first* where *predicate* holds, else *second*; *refuse*, where they are not of one kind.  *place*: that of the
    choice."""
    if first is second:
        return first
    traced = type(first) is TracedArray or type(second) is TracedArray
    if type(first) is type(second) and not traced and _same(first, second):
        return first
    found = chosen(predicate, first, second, place)
    if found is not None:
        return found
    kinds = [class_of(x) if type(x) is TracedArray else type(x) for x in map(known_truth, (first, second))]
    kind = kinds[0]
    if kind is not kinds[1]:
        return refuse()
    if kind is tuple:
        if len(first) != len(second):
            return refuse()
        return tuple([merge_values(predicate, a, b, place, refuse) for a, b in zip(first, second, strict=True)])
    if kind is np.ndarray:
        a, b = to_atom(first), to_atom(second)
        if (a.aval.shape, a.aval.dtype) != (b.aval.shape, b.aval.dtype):
            return refuse()
        merged = wrap_array(F.select(predicate, a, b), c_order=False)
        _freeze(place, merged, first, second)  # NumPy's is one of two, which others may show
        return merged
    if not issubclass(kind, (bool, np.number, np.bool_)):
        return refuse()
    return wrap(F.select(predicate, to_atom(first), to_atom(second)))


def _freeze(place: Place, *arrays: Any) -> None:
    """Let the choice at *place* be a question where one of the *arrays* is written into in this run."""
    recorder = current_recorder()
    assert recorder is not None
    for x in arrays:
        if type(x) is TracedArray:
            recorder.chosen.frozen[id(x._storage)] = x._storage, place, None
        else:
            recorder.chosen.frozen[id(x)] = x, place, x.tobytes()


def known_truth(value: Any) -> Any:
    """*value*, where nothing counts but its truth."""
    if type(value) is UndecidedTruth:
        return value.array()
    return value.of_rank(2) if type(value) is Undecided else value


def _shown(place: Place) -> str:
    return f"{os.path.basename(place[0])}:{place[1]}"


def _same(first: Any, second: Any) -> bool:
    """Whether two plain values of one class can't be told apart."""
    if isinstance(first, float | np.floating):
        return np.float64(first).tobytes() == np.float64(second).tobytes()
    return isinstance(first, int | str | bytes | type(None) | np.integer | np.bool_) and bool(first == second)
