"""``np.testing.assert_*`` of traced arrays, as recorded code sees them: that they hold is a guard."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..record.array import TracedArray, is_traced, wrap_array
from ..record.shown_names import show_functions
from .assemble import nested_atom
from .hooks import when_loaded


def _close(x: Any, y: Any, rtol: float = 1e-7, atol: float = 0, equal_nan: bool = True, **others: Any) -> Any:
    return np.allclose(x, y, rtol, atol, equal_nan)


def _almost(places: int) -> Callable[..., Any]:
    def holds(x: Any, y: Any, decimal: int = places, **others: Any) -> Any:
        near = np.abs(y - x) < 1.5 * 10.0 ** (-decimal)
        return np.all(near | (x == y) | (np.isnan(x) & np.isnan(y)))

    return holds


def _equal(x: Any, y: Any, **others: Any) -> Any:
    return np.all((x == y) | (np.isnan(x) & np.isnan(y)))


def _less(x: Any, y: Any, **others: Any) -> Any:
    return np.all(x < y)


def _checked(plain: Any, holds: Callable[..., Any]) -> Callable[..., None]:
    signature = inspect.signature(plain)

    def check(*args: Any, **kwargs: Any) -> None:
        if not is_traced((*args, *kwargs.values())):
            return plain(*args, **kwargs)
        x, y, *_ = names = list(signature.parameters)
        given = signature.bind(*args, **kwargs).arguments
        arrays = [wrap_array(nested_atom(given.pop(name))) for name in (x, y)]
        shapes = {array.shape for array in arrays if array.shape}
        if len(shapes) > 1 or not holds(*arrays, **given):
            plain(**dict(zip(names, map(TracedArray.shown, arrays), strict=False)), **given)

    return check


_ASSERTIONS = {
    "assert_allclose": _close, "assert_array_equal": _equal, "assert_equal": _equal, "assert_array_less": _less,
    "assert_almost_equal": _almost(7), "assert_array_almost_equal": _almost(6),
}  # fmt: skip


@when_loaded("numpy.testing", *_ASSERTIONS)
def _show_assertions(testing: Any) -> None:
    """Let calls of the functions of ``np.testing`` find these."""
    show_functions(testing, {name: _checked(getattr(testing, name), holds) for name, holds in _ASSERTIONS.items()})
