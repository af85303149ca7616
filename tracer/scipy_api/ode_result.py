"""Results of solve_ivp: SciPy's ``OdeResult``, and columns whose number is known when they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..record.array import STAND_INS
from .ode_steps import Problem, Steps, places


class Columns(NDArrayOperatorsMixin):
    """``sol.t`` or ``sol.y`` without t_eval: a column for the start and for each step.

    The last column is a value like any other; whatever else is asked for makes the number of steps a question, and
    that is a path of its own for each.
    """

    def __init__(self, steps: Steps, problem: Problem, name: str) -> None:
        self._steps, self._problem, self._name = steps, problem, name
        self._array: Any = None

    @staticmethod
    def of(steps: Steps, problem: Problem) -> tuple[Columns, Columns]:
        """(``sol.t``, ``sol.y``)"""
        return Columns(steps, problem, "t"), Columns(steps, problem, "y")

    def array(self) -> Any:
        """All columns."""
        if self._array is None:
            rows = self._steps.rows()
            taken = np.cumsum(rows["taken"])
            count = int(np.sum(rows["taken"]))
            place = places(taken, np.arange(1, count + 1))
            first = self._problem.t0 if self._name == "t" else self._problem.y0
            self._array = np.concatenate(
                [np.reshape(first, (1, *np.shape(first))), np.take(rows[self._name], place, axis=0, mode="clip")]
            ).T
        return self._array

    def __getitem__(self, index: Any) -> Any:
        parts = index if type(index) is tuple else (index,)
        if self._array is None and len(parts) == (1 if self._name == "t" else 2) and _is_last(parts[-1]):
            last = self._steps.last[self._name]
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


class OdeResult:
    """Makes SciPy's ``OdeResult``."""

    @staticmethod
    def of(ivp: Any, solver: Any, t: Any, y: Any, evaluations: Any, succeeds: bool) -> Any:
        message = ivp.MESSAGES[0] if succeeds else solver.TOO_SMALL_STEP
        return ivp.OdeResult(
            t=t, y=y, sol=None, t_events=None, y_events=None, nfev=evaluations, njev=0, nlu=0,
            status=0 if succeeds else -1, message=message, success=succeeds,
        )  # fmt: skip
