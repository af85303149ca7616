"""Inputs that NumPy computes from outside data alone, renewed when the contents of that have changed.

The recipes are found while recording (``tracer/record/constants.py``).  A replay compares the contents of their sources
with those of the last time: what they depend on is an array that may be written into.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...tracer.ir.graph import Var
from ...tracer.record.constants import Recipe


class DerivedInputs:
    """Called with the arrays of the outside state: those and the derived ones; None where there are none of the types
    that the program takes."""

    def __init__(self, recipes: Sequence[Recipe], captured: Sequence[Var], values: Sequence[Any]) -> None:
        """*captured*: the inputs that stand for the arrays, which had these *values*."""
        self._recipes = list(recipes)
        self._inputs = list(captured)
        behind = {var for recipe in recipes for var in recipe.origin.captured}
        self._places = [k for k, var in enumerate(captured) if var in behind]
        results = [np.array(value, order="C") for recipe in recipes for value in recipe.values]
        self._last = self._contents(values), tuple(results)
        numbers = {var: k for k, var in enumerate([*captured, *[v for r in recipes for v in r.results]])}
        self.key: Hashable = tuple([recipe.key(numbers) for recipe in recipes])

    def _contents(self, arrays: Sequence[Any]) -> list[tuple[int, bytes]]:
        return [(k, np.asarray(arrays[k]).tobytes()) for k in self._places]

    def __call__(self, arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
        contents, results = self._last
        for k, known in contents:
            array = arrays[k]
            if (array.tobytes() if type(array) is np.ndarray else np.asarray(array).tobytes()) != known:
                return self._renewed(arrays)
        return (*arrays, *results)

    @property
    def results(self) -> tuple[np.ndarray, ...]:
        return self._last[1]

    def _renewed(self, arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
        kept = [np.array(x) if k in self._places else x for k, x in enumerate(arrays)]  # as they are now
        env = {var: np.asarray(x) for var, x in zip(self._inputs, kept, strict=True)}
        for recipe in self._recipes:
            found = recipe.compute({var: env[var] for var in recipe.origin.sources})
            if found is None:
                return None
            env |= zip(recipe.results, found, strict=True)
        results = tuple([env[var] for recipe in self._recipes for var in recipe.results])
        self._last = self._contents(kept), results
        return (*arrays, *results)
