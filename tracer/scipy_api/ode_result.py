"""Results of solve_ivp: SciPy's ``OdeResult``, and columns whose number is known when they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..ir.site import at_site
from ..ir.trees import tree_map
from ..numpy_api.shape import as_traced
from ..record.array import STAND_INS
from .ode_steps import ENDED, FINISHED, Problem, Steps, places

_POLYNOMIAL = ("t_old", "h", "y_old", "q")  # rows of steps by which values within them are known


class Columns(NDArrayOperatorsMixin):
    """``sol.t`` or ``sol.y`` without t_eval: a column for the start and for each step.

    The last column is a value like any other; whatever else is asked for makes the number of steps a question, and
    that is a path of its own for each.
    """

    def __init__(self, steps: Steps, problem: Problem, name: str, end: Any) -> None:
        self._steps, self._problem, self._name, self._end = steps, problem, name, end
        self._array: Any = None

    @staticmethod
    def of(steps: Steps, problem: Problem, end: Any = None) -> tuple[Columns, Columns]:
        """(``sol.t``, ``sol.y``); *end*: time and state in place of those of the last step."""
        steps.recorder.outermost().chosen.defers = True
        ends = (None, None) if end is None else end
        return Columns(steps, problem, "t", ends[0]), Columns(steps, problem, "y", ends[1])

    def array(self) -> Any:
        """All columns."""
        if self._array is None:
            rows = self._steps.rows()
            taken = np.cumsum(rows["taken"])
            count = int(np.sum(rows["taken"]))
            place = places(taken, np.arange(1, count + 1), self._steps.count)
            first = self._problem.t0 if self._name == "t" else self._problem.y0
            parts = [np.reshape(first, (1, *np.shape(first))), np.take(rows[self._name], place, axis=0, mode="clip")]
            if self._end is not None:
                parts = [parts[0], parts[1][:-1], self._end[None]]
            self._array = np.concatenate(parts).T
        return self._array

    decided = array

    def __getitem__(self, index: Any) -> Any:
        parts = index if type(index) is tuple else (index,)
        if self._array is None and len(parts) == (1 if self._name == "t" else 2) and _is_last(parts[-1]):
            last = self._steps.last[self._name] if self._end is None else self._end
            return last if self._name == "t" else last[parts[0]]
        return self.array()[index]

    def __len__(self) -> int:
        return len(self._problem.y0) if self._name == "y" else len(self.array())

    def __iter__(self) -> Any:
        return iter(self.array())

    @property
    def T(self) -> Any:  # noqa: N802  (NumPy's name)
        return self.array().T

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and not name.startswith("__array"):
            raise AttributeError(name)
        return getattr(self.array(), name)

    def __array_ufunc__(self, ufunc: Any, how: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, how)(*[_whole(x) for x in inputs], **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*_whole(args), **{k: _whole(v) for k, v in kwargs.items()})


def _is_last(part: Any) -> bool:
    return isinstance(part, int) and not isinstance(part, bool) and part == -1


def _whole(value: Any) -> Any:
    if type(value) is Columns:
        return value.array()
    return type(value)([_whole(x) for x in value]) if type(value) in (list, tuple) else value


STAND_INS[Columns] = Columns.array


class Solution:
    """``sol.sol``: the solution as a function of the time."""

    def __init__(self, steps: Steps, scheme: Any, problem: Problem) -> None:
        self._steps, self._scheme, self._problem = steps, scheme, problem

    @property
    def t_min(self) -> Any:
        return np.minimum(self._problem.t0, self._steps.last["t"])

    @property
    def t_max(self) -> Any:
        return np.maximum(self._problem.t0, self._steps.last["t"])

    def at(self, times: Any, rising: bool = True) -> Any:
        """Values (times, n) at *times*, in the order of the steps where they are *rising*."""
        rows = self._steps.rows()
        place = places(rows["reached"], times * self._problem.direction, self._steps.count, rising)
        one = {name: tree_map(lambda x: np.take(x, place, axis=0, mode="clip"), rows[name]) for name in _POLYNOMIAL}
        return self._scheme.within(one, ((times - one["t_old"]) / one["h"])[:, None])

    def __call__(self, t: Any) -> Any:
        times = as_traced(t)
        if times.ndim > 1:
            raise ValueError(at_site("`t` must be a float or a 1-D array."))
        found = self.at(times.reshape(-1).astype(np.float64), rising=False)
        return found.T if times.ndim else found[0]


class OdeResult:
    """Makes SciPy's ``OdeResult``."""

    @staticmethod
    def of(
        ivp: Any, solver: Any, t: Any, y: Any, evaluations: Any, status: int, solution: Any = None, found: Any = None
    ) -> Any:
        code = {FINISHED: 0, ENDED: 1}.get(status, -1)
        return ivp.OdeResult(
            t=t, y=y, sol=solution, t_events=found and found.times, y_events=found and found.states, nfev=evaluations,
            njev=0, nlu=0, status=code, message=ivp.MESSAGES.get(code, solver.TOO_SMALL_STEP), success=code >= 0,
        )  # fmt: skip
