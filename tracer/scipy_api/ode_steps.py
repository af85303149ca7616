"""Adaptive steps of an initial value problem as one loop of the program: each turn attempts one step.

``attempts`` runs a method's ``attempt`` until the end is reached or no step is small enough.  The carry is what SciPy's
solver objects keep from one step to the next.  The last state needs no room; what is asked of the steps in between
(``Steps.rows``: values at given times, the times of the steps) is kept in rows, one for each attempt, and the number
of rows is the capacity of the loop.

Sizes of steps are constants of the derivative: it is that of the method on the grid that was taken.  It converges with
the order of the method as the values do, whereas the controller's own derivative adds noise of the size of the
tolerance, which grows without bound where stability limits the steps.  The last step ends at the end of the interval,
so times have derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..control.loop_recording import LoopRecording, finish_loop
from ..control.scan import scan
from ..control.trees import as_result, strong, truth
from ..control.while_loop import while_loop
from ..ir.aval import INT
from ..ir.errors import UnsupportedError
from ..ir.graph import Guard, Lit, Var
from ..ir.trees import tree_flatten, tree_unflatten
from ..numpy_api.shape import as_traced
from ..ops.control import CAPACITY, UNLIMITED
from ..ops.elementwise import F
from ..record.array import to_atom
from ..record.recorder import Recorder, recording

LEAST = 128  # rows that there is room for
RUNNING, FINISHED, TOO_SMALL, STIFF, ENDED = 0, 1, 2, 3, 4  # the state of an integration


def held(value: Any) -> Any:
    """*value* as a constant of the derivative."""
    return as_result(F.stop_gradient(to_atom(value))) if np.ndim(value) else as_result(_stopped(value))


def _stopped(value: Any) -> Any:
    return F.stop_gradient(strong(value))


class Event(NamedTuple):
    """``value(t, y)`` changes its sign, upwards where *direction* is positive, downwards where it is negative; the
    integration ends when it has done so *terminal* times."""

    value: Callable[[Any, Any], Any]
    direction: float
    terminal: float


@dataclass
class Problem:
    """``fun(t, y)`` with y of n entries, from ``t0`` to ``end`` in *direction* (1.0 or -1.0), and what is asked."""

    fun: Callable[[Any, Any], Any]
    t0: Any
    y0: Any
    end: Any
    direction: float
    rtol: Any
    atol: Any
    max_step: Any = np.inf
    first_step: Any = None
    dense: bool = False  # whether values within steps are asked for
    events: Sequence[Event] = ()
    watched: bool = False  # whether it ends where stability limits the steps, as STIFF


@dataclass
class Steps:
    """The steps that were taken.  ``last``: the carry after the last one; ``count``: of attempts."""

    recorder: Recorder
    loop: LoopRecording
    ends: list[Any]
    going: Any
    asked: int
    kept: Any
    last: Any
    count: Any
    _found: list[Any]
    _rows: Any = field(default=None)

    def status(self) -> int:
        """How it ended: a question, but in the body of a loop, where the state is NaN if the end was not reached."""
        if self.recorder.parent is not None:
            ended = self.last["status"] == FINISHED
            self.last = {**self.last, "y": np.where(ended, self.last["y"], np.nan)}
            return FINISHED
        return next(s for s in (FINISHED, ENDED, STIFF, TOO_SMALL) if s == TOO_SMALL or self.last["status"] == s)

    def rows(self) -> Any:
        """The values that each attempt keeps, stacked; rows behind the last attempt are zeros."""
        if self._rows is None:
            if self.recorder.parent is not None:
                raise UnsupportedError.here(
                    "an integration within the body of an explicit loop or branch gives its last state only "
                    "(sol.y[:, -1] of solve_ivp without t_eval); write a Python loop around it"
                )
            leaves, spec = tree_flatten(self.kept)
            body = self.loop.body
            body.length = self._length()
            found = finish_loop(
                body, self.loop.carries, self.loop.inits, self.ends, leaves, go_on=self.going, asked=self.asked
            )
            count = found[len(self.loop.carries)]
            env = self.recorder.env
            for now, before in zip(found, self._found, strict=False):  # the same steps: they are not taken again
                if isinstance(now, Var) and before in env:
                    env[now] = env[before]
            guard = Guard(F.lt(count, Lit(body.length, INT)), np.True_, CAPACITY, self.recorder.site())
            self.recorder.add_guard(guard)
            first = len(self.loop.carries)
            self.last = tree_unflatten(self.loop.spec, [as_result(v) for v in found[:first]])
            self.count = as_result(count)
            self._rows = tree_unflatten(spec, [as_result(v) for v in found[first + 1 :]])
        return self._rows

    def _length(self) -> int:
        """Room for the attempts of this run and as many again."""
        recorder = self.recorder
        length = 2 * int(recorder.value(to_atom(self.count))) + LEAST
        recorder.capacities.append(length)
        return length


def attempts(recorder: Recorder, what: str, fun: Any, attempt: Callable[[Any], tuple[Any, Any]], start: Any) -> Steps:
    """The steps of ``carry, kept = attempt(carry)`` from *start* on, for as long as ``carry["status"]`` is RUNNING."""
    loop = LoopRecording(recorder, what, fun, start, UNLIMITED, False)
    with recording(loop.body):
        carry = loop._carry()
        going = truth(carry["status"] == RUNNING)
        asked = len(loop.body.checks)
        after, kept = attempt(carry)
        ends = loop._ends(after)
        leaves, spec = tree_flatten(kept)
        kept = tree_unflatten(spec, [strong(v) for v in leaves])
    found = finish_loop(loop.body, loop.carries, loop.inits, ends, go_on=going, asked=asked)
    count = len(loop.carries)
    last = tree_unflatten(loop.spec, [as_result(v) for v in found[:count]])
    return Steps(recorder, loop, ends, going, asked, kept, last, as_result(found[count]), found)


def places(reached: Any, times: Any, count: Any, rising: bool = True) -> Any:
    """For each of the *times* the first of *count* rows whose time ``reached`` is not before it, else the last one:
    int64 (times,).  Times that are *rising* are found one after the other."""
    known, last = as_traced(reached), count - 1

    def place(row: Any, time: Any) -> Any:
        found = while_loop(lambda k: (np.take(known, k, mode="clip") < time) & (k < last), lambda k: k + 1, row)
        return found if rising else row, found

    return scan(place, np.int64(0), held(times))[1]
