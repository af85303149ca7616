"""Directional derivatives by finite differences, with an estimate of their own error.

Central differences of fourth order are taken at steps of several sizes; the two neighbours that agree best are the
answer, and their difference is how far it can be relied on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from ..tracer.ir.data_classes import NamedTuple

_STEPS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_CLOSE = 1e-6  # relative
_UNSETTLED = 1e-3  # relative: differences that vary by more say nothing


class Slope(NamedTuple):
    """A directional derivative: by *differences*, which are uncertain by *spread*, and by the *gradient*."""

    differences: float
    spread: float
    gradient: float
    rounding: float

    @property
    def deviation(self) -> float:
        """Relative to the larger of the two."""
        error = abs(self.differences - self.gradient)
        return error / max(abs(self.differences), abs(self.gradient)) if error else 0.0

    @property
    def agrees(self) -> bool:
        error = abs(self.differences - self.gradient)
        return self.deviation <= _CLOSE or error <= self.rounding or (self.settled and error <= 10 * self.spread)

    @property
    def settled(self) -> bool:
        """Whether the differences say anything."""
        scale = max(abs(self.differences), abs(self.gradient))
        return self.spread <= max(_UNSETTLED * scale, self.rounding)


def direction(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random direction, each element of the size of the argument's.  That of a symmetric matrix is symmetric, too: of
    such NumPy reads one triangle, and its gradient is that of both."""
    size = np.abs(x)
    typical = float(np.median(size[size > 0])) if np.any(size > 0) else 1.0
    found = rng.choice([-1.0, 1.0], x.shape) * rng.uniform(0.5, 1.0, x.shape) * np.where(size > 0, size, typical)
    if x.ndim > 1 and x.shape[-1] == x.shape[-2] and np.array_equal(x, np.swapaxes(x, -1, -2)):
        found = (found + np.swapaxes(found, -1, -2)) / 2
    return found


def slope(loss: Callable[[float], float], gradient: float) -> Slope:
    """The derivative of ``loss(t)`` at t = 0, beside that of the *gradient*.  A loss that raises there is NaN."""
    at_zero = abs(loss(0.0))
    estimates = [(8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h) for h in _STEPS]
    pairs = [(abs(a - b), b) for a, b in itertools.pairwise(estimates) if math.isfinite(a - b)]
    spread, best = min(pairs, default=(math.inf, math.nan))
    return Slope(best, spread, gradient, 1e-11 * at_zero)
