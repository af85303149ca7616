"""The functions of ``statistics`` on traced numbers, as recorded code sees them (``record/shown_names.py``).

Those of plain numbers add exactly, as fractions; these add as NumPy does.  Medians and modes are those of the module
itself, which sorts and compares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..record.array import TracedArray, is_traced, wrap_array
from ..record.shown_names import show_functions
from .assemble import nested_atom
from .hooks import when_loaded


def _function(plain: Any, compute: Callable[..., Any], least: int, columns: int = 1) -> Any:
    """*plain*, of *columns* of *least* numbers or more, computed by *compute* of arrays, which gives None where plain
    Python raises."""

    def function(*args: Any, **kwargs: Any) -> Any:
        data = [x if type(x) is TracedArray else list(x) for x in args[:columns]]
        if not is_traced(data):
            return plain(*data, *args[columns:], **kwargs)
        found = None
        if len(data) == columns and len(data[0]) >= least and len({*map(len, data)}) == 1:
            found = compute(*[wrap_array(nested_atom(x)) for x in data], *args[columns:], **kwargs)
        if found is None:
            plain(*[[-1.0] * len(x) for x in data], *args[columns:], **kwargs)
        if type(found) is tuple:
            return sys.modules[plain.__module__].LinearRegression(*found)
        return found.number()  # type: ignore[union-attr]

    return function


def _fmean(x: Any, weights: Any = None) -> Any:
    return np.mean(x) if weights is None else np.average(x, weights=weights)


def _geometric_mean(x: Any) -> Any:
    return np.exp(np.mean(np.log(x))) if np.all(x > 0) else None


def _variance(ddof: int, root: bool) -> Callable[..., Any]:
    def compute(x: Any, mean: Any = None) -> Any:
        if mean is None:
            return (np.std if root else np.var)(x, ddof=ddof)
        found = np.sum((x - mean) ** 2) / (len(x) - ddof)
        return np.sqrt(found) if root else found

    return compute


def _covariance(x: Any, y: Any) -> Any:
    return (x - np.mean(x)) @ (y - np.mean(y)) / (len(x) - 1)


def _correlation(x: Any, y: Any) -> Any:
    x, y = x - np.mean(x), y - np.mean(y)
    product = (x @ x) * (y @ y)
    return (x @ y) / np.sqrt(product) if product > 0 else None


def _linear_regression(x: Any, y: Any, *, proportional: bool = False) -> Any:
    shift = 0.0 if proportional else np.mean(x)
    square = (x - shift) @ (x - shift)
    if not square > 0:
        return None
    slope = ((x - shift) @ y) / square
    return slope.number(), 0.0 if proportional else (np.mean(y) - slope * shift).number()


_COMPUTED: dict[str, tuple[Callable[..., Any], int, int]] = {  # function: (of arrays, numbers needed, columns)
    "mean": (np.mean, 1, 1), "fmean": (_fmean, 1, 1), "geometric_mean": (_geometric_mean, 1, 1),
    "variance": (_variance(1, False), 2, 1), "stdev": (_variance(1, True), 2, 1),
    "pvariance": (_variance(0, False), 1, 1), "pstdev": (_variance(0, True), 1, 1),
    "covariance": (_covariance, 2, 2), "correlation": (_correlation, 2, 2),
    "linear_regression": (_linear_regression, 2, 2),
}  # fmt: skip


@when_loaded("statistics", *_COMPUTED, sought=True)
def _show_statistics(module: ModuleType) -> None:
    show_functions(module, {name: _function(getattr(module, name), *row) for name, row in _COMPUTED.items()})
