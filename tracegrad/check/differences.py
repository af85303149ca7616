"""Directional derivatives by finite differences, with an estimate of their own error.

Central differences of fourth order are taken at steps of several sizes; the two neighbours that agree best are the
answer, and their difference is how far it can be relied on.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_STEPS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_CLOSE = 1e-6  # relative
_UNSETTLED = 1e-3  # relative: differences that vary by more say nothing
_SIDE_STEPS = (1e-3, 1e-5)  # of differences to one side
_MOST_BLOCKS = 32  # of elements that are looked at for kinks
_PATIENCE = 5.0  # seconds of that


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
        scale = max(abs(self.differences), abs(self.gradient) if math.isfinite(self.gradient) else 0.0)
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


class Kink(NamedTuple):
    """A place where a function has two slopes along the change of an *element*, or of several that count together."""

    element: tuple[int, ...] | None
    left: float
    right: float


def kinks(loss: Callable[[np.ndarray], float], gradient: np.ndarray, along: np.ndarray) -> list[Kink]:
    """Places to which it is due that the *gradient* disagrees with finite differences of ``loss(offset)`` along the
    direction *along*; none where it disagrees anywhere else.

    The halves of what disagrees are compared, and so on, as far as there is time.
    """
    began, found = time.perf_counter(), []
    blocks, turns = [np.arange(along.size)], 0
    while blocks and turns < _MOST_BLOCKS and time.perf_counter() - began < _PATIENCE:
        block, turns = blocks.pop(), turns + 1
        halves = [half for half in np.array_split(block, 2) if 0 < len(half) < len(block)]
        apart = [half for half in halves if not _slope_of(loss, gradient, along, half).agrees]
        if apart:
            blocks += apart
            continue
        sides = _sides(_along(loss, along, block))
        if sides is not None:
            places = [tuple(map(int, np.unravel_index(k, along.shape))) for k in block]
            found.append(Kink(places[0] if len(places) == 1 else None, *sides))
        elif _slope_of(loss, gradient, along, block).settled:
            return []
    return found


def _along(loss: Callable[[np.ndarray], float], along: np.ndarray, block: np.ndarray) -> Callable[[float], float]:
    """The *loss* along those elements of the direction that are in *block*."""
    only = np.zeros_like(along)
    only.ravel()[block] = along.ravel()[block]
    return lambda t: loss(t * only)


def _slope_of(loss: Callable[[np.ndarray], float], gradient: np.ndarray, along: np.ndarray, block: np.ndarray) -> Slope:
    given = float(np.sum(np.ravel(gradient)[block] * along.ravel()[block]).real)
    return slope(_along(loss, along, block), given)


def _sides(loss: Callable[[float], float]) -> tuple[float, float] | None:
    """The slopes on the two sides of t = 0, if they are two: smaller steps do not bring them together."""
    here = loss(0.0)
    pairs = [((here - loss(-h)) / h, (loss(h) - here) / h) for h in _SIDE_STEPS]
    gaps = [abs(right - left) for left, right in pairs]
    scale = max(map(abs, pairs[-1]))
    if not math.isfinite(sum(gaps)) or gaps[-1] <= _UNSETTLED * scale or gaps[-1] < 0.3 * gaps[0]:
        return None
    return pairs[-1]
