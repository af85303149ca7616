"""Ufuncs of scipy.special: a case for each row of their tables (``tracer/ops/special.py``), at points of its domain.

Arguments by which a function has no derivative are plain numbers.  Functions with loops of complex numbers have a
second case, of real and imaginary parts.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from tracegrad.tracer.ops.special import TABLE, Missing, Row

from .case import Case

SHAPE = (3,)
ORDER: dict[str, int] = {}  # of functions whose second derivative needs a function that SciPy does not have


def _arguments(row: Row) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(row.function.__name__.encode()))
    return [
        rng.integers(int(low), int(high) + 1, SHAPE) if kind == "i" else rng.uniform(low, high, SHAPE)
        for (low, high), kind in zip(row.domain, row.kinds, strict=True)
    ]


def _free(row: Row) -> list[int]:
    """The positions of the arguments by which there are derivatives."""
    return [
        k
        for k in range(row.function.nin)
        if any(o[k] is not None for o in row.outputs) and not any(isinstance(o[k], Missing) for o in row.outputs)
    ]


def _real_case(row: Row) -> Case | None:
    free, given = _free(row), _arguments(row)
    if not any(set(loop.split("->")[0]) <= set("dl") for loop in row.function.types):
        return None

    def call(*moved: Any) -> Any:
        known = dict(zip(free, moved, strict=True))
        return row.function(*[known.get(k, x) for k, x in enumerate(given)])

    name = row.function.__name__
    return Case(f"scipy.special.{name}", call, [given[k] for k in free], order=ORDER.get(name, 2 if free else 0))


def _complex_case(row: Row) -> Case | None:
    loops = [loop.split("->")[0] for loop in row.function.types if "D" in loop.split("->")[0]]
    if not loops:
        return None
    free, given = _free(row), _arguments(row)
    rng = np.random.default_rng(5)
    planes = iter(row.plane or [(0.3, 1.2)] * row.function.nin)
    heights = {k: rng.uniform(*next(planes), SHAPE) for k, c in enumerate(loops[0]) if c == "D"}

    def call(*moved: Any) -> Any:
        known = dict(zip(free, moved, strict=False))
        above = dict(zip(heights, moved[len(free) :], strict=True))
        operands = [known.get(k, x) for k, x in enumerate(given)]
        return row.function(*[x + 1j * above[k] if k in above else x for k, x in enumerate(operands)])

    name = f"{row.function.__name__}-complex"
    return Case(
        f"scipy.special.{row.function.__name__}", call, [given[k] for k in free] + list(heights.values()),
        order=ORDER.get(name, 2), label="complex",
    )  # fmt: skip


CASES = [case for row in TABLE for case in (_real_case(row), _complex_case(row)) if case is not None]
