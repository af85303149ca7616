"""scipy.stats: each distribution's methods, of traced values and parameters, with positional loc and scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from .case import Case

_DENSITIES = "pdf logpdf cdf logcdf sf logsf"
_QUANTILES = "ppf isf"
_STATISTICS = "mean var std median entropy stats moment support interval"
_Q = np.array([0.12, 0.55, 0.9])


def _statistic(method: str, distribution: Any, *parameters: Any) -> Any:
    """A statistic of the *distribution* as arrays: ends of a support that are infinite have no differences."""
    if method == "moment":
        return distribution.moment(3, *parameters)
    if method == "interval":
        return distribution.interval(0.8, *parameters)
    found = getattr(distribution, method)(*parameters)
    return [x for x in found if np.isfinite(x)] if method == "support" else found


def _continuous(name: str, x: Sequence[float], *shapes: float, without: str = "") -> list[Case]:
    """Cases of a continuous distribution: *x* in its support moved by 0.2 and scaled by 1.3."""
    distribution = getattr(stats, name)
    parameters = [*shapes, 0.2, 1.3]
    named = {m: getattr(distribution, m) for m in (_DENSITIES + " " + _QUANTILES).split()}
    first = {**dict.fromkeys(_DENSITIES.split(), np.asarray(x)), **dict.fromkeys(_QUANTILES.split(), _Q)}
    cases = [Case(f"scipy.stats.{name}.{m}", named[m], [first[m], *parameters], step=2e-4, tol=1e-5) for m in named]
    for method in _STATISTICS.split():
        call: Callable[..., Any] = lambda *given, method=method: _statistic(method, distribution, *given)  # noqa: E731
        cases.append(Case(f"scipy.stats.{name}.{method}", call, parameters, step=2e-4, tol=1e-5))
    left = [f"scipy.stats.{name}.{m}" for m in without.split()]
    return [case for case in cases if case.name not in left]


CASES = [
    *_continuous("norm", [-1.3, 0.4, 2.9], without="logcdf logsf"),
    *_continuous("expon", [0.5, 1.9, 4.0]),
    *_continuous("uniform", [0.3, 0.9, 1.4]),
    *_continuous("laplace", [-1.3, 0.4, 2.9]),
    *_continuous("logistic", [-1.3, 0.4, 2.9]),
    *_continuous("pareto", [1.8, 2.2, 5.1], 4.5),
    *_continuous("weibull_min", [0.5, 1.9, 3.0], 1.7),
    *_continuous("lognorm", [0.5, 1.9, 4.0], 0.6, without="logcdf logsf"),
]
