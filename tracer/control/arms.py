"""Both arms of an ``if`` on a traced truth: one runs after the other, and ``select`` chooses between what they give.

Code that was converted (``bytecode/if_conversion.py``) asks its ``Arms`` at each choice.  A plain truth runs one arm,
as ever, and so does a traced one unless ``Choices`` wants both.  Then the arms run from the same local variables; what
they assign is merged, what they write into arrays is written where their predicate holds, and what an operation
presumes is presumed where it holds (``Recorder.presume``).

Whatever shows that an arm runs which plain Python may not take ends the run: an exception, a question, a random number,
values that can't be merged.  The run is made again, in which that choice is a question as it is without all this.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn

import numpy as np

from ..bytecode.function_source import parts_of
from ..bytecode.if_conversion import ARMS, Choice, Converted, convert
from ..bytecode.purity import PLAINLY, harmless_arms
from ..convert.arms import ChoiceStatement
from ..convert.transparent import PASSED, TAKEN
from ..ir.aval import FLOAT_KINDS
from ..ir.graph import Atom, Guard, Lit
from ..ir.refusals import Reason, Refusal
from ..ops.elementwise import F, like
from ..record.array import TracedArray, class_of, to_atom, wrap, wrap_array
from ..record.made_arrays import refuse_write
from ..record.recorder import Recorder, current_recorder
from ..record.undecided import Place, Undecided, UndecidedTruth, chosen
from .trees import truth

_OFTEN = 4  # answers of a question in one run, from which on different ones make it a choice
MANY_PATHS = 3  # paths that are known when all questions become choices
_UNSET = object()
_NUMBERS = (
    float, int, bool, complex, np.generic, str, type(None), TracedArray, np.ndarray, range, slice, Undecided,
    UndecidedTruth,
)  # fmt: skip
_SCALARS = (float, int, bool, complex, np.generic, str, tuple, type(None), Undecided)
_OPERATORS = {
    "Add": operator.iadd, "Sub": operator.isub, "Mult": operator.imul, "Div": operator.itruediv,
    "FloorDiv": operator.ifloordiv, "Mod": operator.imod, "Pow": operator.ipow, "MatMult": operator.imatmul,
    "BitAnd": operator.iand, "BitOr": operator.ior, "BitXor": operator.ixor, "LShift": operator.ilshift,
    "RShift": operator.irshift,
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Choices:
    """The choices of the code of one function: the places where both arms run, and those where they can't, with the
    reason; the lines that have asked for traced truths, by file."""

    active: set[Place] = field(default_factory=set)
    refused: dict[Place, Reason] = field(default_factory=dict)
    asked: dict[str, frozenset[int]] = field(default_factory=dict)
    wanted: set[Place] = field(default_factory=set)  # questions of a loop's body, which have no answer there
    known_paths: int = 0

    def learn(self, guards: Iterable[Guard], codes: Iterable[CodeType]) -> bool:
        """Take the questions of a run that have had different answers, or all of them where there are many paths, for
        choices, if they can be; whether there are new ones.  A heuristic: either way is right."""
        answers: dict[Place, list[bool]] = {place: [] for place in self.wanted}
        for guard in guards:
            if guard.kind == "bool" and guard.site is not None:
                answers.setdefault((guard.site.file, guard.site.line), []).append(bool(guard.expected))
        often = {place for place, found in answers.items() if len(found) >= _OFTEN and len(set(found)) > 1}
        wanted = (answers.keys() if self.every else often | self.wanted) - self.active
        wanted -= self.refused.keys()
        if not wanted:
            return False
        for file, line in answers:
            self.asked[file] = self.asked.get(file, frozenset()) | {line}
        files = {file for file, _ in wanted}
        found = [c for code in codes if code.co_filename in files for c in self._choices(code)]
        can = {(file, line) for file, line in wanted for f, c in found if f == file and c.line <= line <= c.end}
        self.active |= can
        self.refused |= {place: Refusal.CHOICE_SOURCE() for place in wanted - can}
        return bool(can)

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

    def _choices(self, code: CodeType) -> list[tuple[str, Choice]]:
        made = self.converted(code)
        return [] if made is None else [(code.co_filename, c) for c in made.choices]

    def converted(self, code: CodeType) -> Converted | None:
        return convert(code, self.asked.get(code.co_filename, frozenset()))

    def code_of(self, function: FunctionType) -> CodeType | None:
        """The code by which *function* runs, if it is another than its own."""
        if not self.active:
            return None
        made = self.converted(function.__code__)
        return None if made is None else _complete(made.code, id(made), made)

    def takes(self, arms: Arms, choice: Choice, recorder: Recorder, frame: FrameType) -> bool:
        """Whether both arms of the *choice* run."""
        places = [(arms.file, line) for line in range(choice.line, choice.end + 1)]
        if any(place in self.refused for place in places):
            return False
        if not recorder.arms and not any(place in self.active for place in places):
            return False
        reason = arms.harmful(choice, frame, recorder)
        if reason is not None:
            self.refused |= dict.fromkeys(places, reason)
        return reason is None


class Arms:
    """The object that the converted code of one function asks at its choices."""

    slice = slice

    def __init__(self, file: str, choices: list[Choice]) -> None:
        self.file, self.choices = file, choices

    @property
    def within(self) -> bool:
        """Whether an arm runs that plain Python may not take."""
        recorder = current_recorder()
        return recorder is not None and bool(recorder.arms)

    def branch(self, k: int, test: Any) -> Any:
        """The choice number *k*, by the truth of *test*."""
        recorder = current_recorder()
        if recorder is not None and recorder.choices is not None:
            test = known_truth(test)
            if type(test) is TracedArray and test._atom.aval.size == 1 and recorder is test._recorder:
                choice, frame = self.choices[k], sys._getframe(1)
                if recorder.choices.takes(self, choice, recorder, frame):
                    return Branch(recorder, (self.file, choice.line), choice, truth(test), frame)
        return TAKEN if test else PASSED

    def harmful(self, choice: Choice, frame: FrameType, recorder: Recorder) -> Reason | None:
        """The reason why an arm may do more than to assign, or None."""
        values = frame.f_locals
        others = {n: values[n] for n in choice.reads if n in values and not isinstance(values[n], _NUMBERS)}
        key = id(choice), tuple(map(id, others.values()))
        if key not in recorder.proven:
            recorder.proven[key] = harmless_arms(choice.arms, others, frame.f_globals), others
        return recorder.proven[key][0]

    def pick(self, first: Any, second: Any, branch: Any) -> Any:
        """The value of a conditional expression."""
        if branch is TAKEN or branch is PASSED:
            return first if branch is TAKEN else second
        branch.end()
        return branch.merged(first, second, "the expression")

    def both(self, second: Any, branch: Any) -> Any:
        """The truth of ``a and b``, whose first is that of *branch*."""
        if branch is TAKEN or branch is PASSED:
            return second if branch is TAKEN else False
        branch.end()
        return branch.truth(F.logical_and, second)

    def either(self, second: Any, branch: Any) -> Any:
        """The truth of ``a or b``."""
        if branch is TAKEN or branch is PASSED:
            return True if branch is TAKEN else second
        branch.end()
        return branch.truth(F.logical_or, second)

    def no(self, k: int, value: Any) -> Any:
        """``not value``."""
        recorder, value = current_recorder(), known_truth(value)
        found = None if recorder is None else not_(recorder, (self.file, self.choices[k].line), value)
        return not value if found is None else found

    def store(self, value: Any, of: Any, index: Any) -> None:
        """``of[index] = value`` within an arm."""
        recorder = current_recorder()
        assert recorder is not None
        if type(of) is TracedArray:
            of[index] = value
            return
        if isinstance(of, np.ndarray):
            refuse_write(of, "z[...] = t, in an arm of an `if` on a traced value,")
        if id(of) in recorder.from_outside:  # what becomes of the caller's is an effect
            recorder.arms[-1].give_up(Refusal.CHOICE_STORES(what=type(of).__name__))
        store_in_arm(recorder, value, of, index)

    def inplace(self, name: str, value: Any, by: Any) -> Any:
        """``value += by``, or another operator, within an arm."""
        recorder = current_recorder()
        assert recorder is not None
        if type(value) is TracedArray or isinstance(value, _SCALARS):
            return _OPERATORS[name](value, by)
        if isinstance(value, np.ndarray):
            refuse_write(value, "z += t, in an arm of an `if` on a traced value,")
        return recorder.arms[-1].give_up(Refusal.CHOICE_STORES(what=type(value).__name__))


class Branch:
    """A choice both of whose arms run."""

    merges = True

    def __init__(
        self, recorder: Recorder, place: Place, choice: Choice | ChoiceStatement, predicate: Atom, frame: FrameType
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
        return recorder.draws, printed, len(recorder.questions), len(recorder.reasons), len(recorder.shown)

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
    if not issubclass(kind, (bool, np.inexact, np.bool_)):
        return refuse()
    return wrap(F.select(predicate, to_atom(first), to_atom(second)))


def _freeze(place: Place, *arrays: Any) -> None:
    """Let the choice at *place* be a question where one of the *arrays* is written into in this run."""
    recorder = current_recorder()
    assert recorder is not None
    for x in arrays:
        if type(x) is TracedArray:
            recorder.frozen[id(x._storage)] = x._storage, place, None
        else:
            recorder.frozen[id(x)] = x, place, x.tobytes()


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


@lru_cache(maxsize=1024)
def _complete(code: CodeType, key: int, made: Any) -> CodeType:
    """The converted *code*, with its ``Arms``."""
    found = _with(code, Arms(code.co_filename, made.choices))
    plain = {(c.co_qualname, c.co_firstlineno): c for c in parts_of(made.plainly)}
    PLAINLY.update({c: plain.get((c.co_qualname, c.co_firstlineno), c) for c in parts_of(found)})
    return found


def _with(code: CodeType, arms: Arms) -> CodeType:
    consts = tuple([_with(c, arms) if isinstance(c, CodeType) else arms if c == ARMS else c for c in code.co_consts])
    return code.replace(co_consts=consts)
