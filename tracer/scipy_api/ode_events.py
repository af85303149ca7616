"""Events of an integration: changes of sign of functions of the state, and the times at which they happen.

Each step says which events it has met.  When the integration is over, their times are the roots of the event along the
polynomial of the step: found by bisection, and taken through two steps of the chord method, whose derivatives of first
and second order are those of the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..control.scan import fori_loop
from ..control.scan import map as each
from ..ir.trees import tree_map
from ..numpy_api.shape import as_traced
from .ode_steps import ENDED, Event, Problem, Steps, held, places

_HALVINGS = 60
_NEAR = 1e-5  # the part of a step over which the slope of an event is taken


def events_of(events: Any, args: Any) -> list[Event]:
    """*events* of solve_ivp, with their attributes."""
    found, given = [], args or ()
    for event in (events,) if callable(events) else events or ():
        terminal = getattr(event, "terminal", None)
        if terminal is not None and (int(terminal) != terminal or terminal < 0):
            raise ValueError("The `terminal` attribute of each event must be a boolean or positive integer.")
        found.append(Event(_value(event, given), float(getattr(event, "direction", 0)), float(terminal or np.inf)))
    return found


def _value(event: Any, args: tuple[Any, ...]) -> Callable[[Any, Any], Any]:
    return lambda t, y: as_traced(event(t, y, *args)).reshape(())[()]


def start_of_events(problem: Problem) -> dict[str, Any]:
    """The events' part of the carry: their values, and how often those were met that end the integration."""
    values = [held(e.value(problem.t0, problem.y0)) for e in problem.events]
    return {"values": values, "hits": [np.int64(0) for e in problem.events if np.isfinite(e.terminal)]}


def meet_events(
    problem: Problem, before: dict[str, Any], after: dict[str, Any], taken: Any, t: Any, y: Any
) -> Sequence[Any]:
    """Whether each event is met in a step to (*t*, *y*); completes the carry *after* it."""
    met: list[Any] = []
    values: list[Any] = []
    hits: list[Any] = []
    for event, old in zip(problem.events, before["values"], strict=True):
        new = held(event.value(t, y))
        up, down = (old <= 0) & (new >= 0), (old >= 0) & (new <= 0)
        crossed = up if event.direction > 0 else down if event.direction < 0 else up | down
        met.append(crossed & taken)
        values.append(np.where(taken, new, old))
        if np.isfinite(event.terminal):
            hits.append(before["hits"][len(hits)] + np.where(met[-1], 1, 0))
            ended = met[-1] & (hits[-1] >= event.terminal)
            after["status"] = np.where(ended, ENDED, after["status"])
    after |= {"values": values, "hits": hits}
    return met


class Found:
    """The events of an integration: ``times`` and ``states`` for each; ``end``: time and state where one has ended
    it, else None."""

    def __init__(self, steps: Steps, scheme: Any, problem: Problem, ended: bool) -> None:
        rows = steps.rows()
        self._problem, self._scheme, self._rows = problem, scheme, rows
        last = as_traced(steps.count - 1).reshape(1)
        self.end = self._end(last) if ended else None
        self.times, self.states = [], []
        for event, met in zip(problem.events, rows["met"], strict=True):
            number = np.sum(met)
            if self.end is not None:  # what the last step has met after its end
                time, _ = self._roots(event, last)
                late = time[0] * problem.direction > self.end[0] * problem.direction
                number = number - np.where(np.take(met, last[0], mode="clip") & late, 1, 0)
            count = int(number)
            if count:
                time, state = self._roots(event, places(np.cumsum(met), np.arange(1, count + 1), steps.count))
            else:
                time, state = np.zeros(0), np.zeros(0)
            self.times.append(time)
            self.states.append(state)

    def _end(self, last: Any) -> tuple[Any, Any]:
        """The first event of the last step that ends the integration."""
        time, state = None, None
        for event, met in zip(self._problem.events, self._rows["met"], strict=True):
            if not np.isfinite(event.terminal):
                continue
            times, states = self._roots(event, last)
            enough = (np.sum(met) >= event.terminal) & np.take(met, last[0], mode="clip")
            if time is None:
                time, state, any_yet = times[0], states[0], enough
                continue
            before = (times[0] - time) * self._problem.direction < 0
            first = enough & (np.logical_not(any_yet) | before)
            time, state, any_yet = np.where(first, times[0], time), np.where(first, states[0], state), any_yet | enough
        return time, state

    def _roots(self, event: Event, place: Any) -> tuple[Any, Any]:
        """(times, states) of *event* in the steps whose rows stand at *place*."""

        def root(row: Any) -> tuple[Any, Any]:
            one = tree_map(lambda x: x[None], row)

            def state(x: Any) -> Any:
                return self._scheme.within(one, as_traced(x).reshape(1, 1))[0]

            def value(x: Any) -> Any:
                return event.value(row["t_old"] + x * row["h"], state(x))

            sign = np.sign(held(value(np.float64(0.0))))

            def halve(_: Any, ends: Any) -> Any:
                middle = 0.5 * (ends[0] + ends[1])
                left = np.sign(held(value(middle))) == sign
                return np.where(left, middle, ends[0]), np.where(left, ends[1], middle)

            low, high = fori_loop(0, _HALVINGS, halve, (np.float64(0.0), np.float64(1.0)))
            x = held(0.5 * (low + high))
            slope = held((value(x + _NEAR) - value(x - _NEAR)) / (2 * _NEAR))
            for _ in range(2):
                x = x - np.where(slope == 0, 0.0, value(x) / np.where(slope == 0, 1.0, slope))
            return row["t_old"] + x * row["h"], state(x)

        names = ("t_old", "h", "y_old", "q")
        rows = {name: tree_map(lambda x: np.take(x, place, axis=0, mode="clip"), self._rows[name]) for name in names}
        return each(root, rows)
