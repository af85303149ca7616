"""Ufuncs of scipy.special: a case for each row of their tables (``tracer/ops/special.py``), at points of its domain.

Arguments by which a function has no derivative are plain numbers.  Functions with loops of complex numbers have a
second case, of real and imaginary parts.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import scipy.special as sp

from tracegrad.tracer.ops import special_tables  # noqa: F401  (fills the table)
from tracegrad.tracer.ops.special import TABLE, Missing, Row

from .case import Case

SHAPE = (3,)
ORDER = {"smirnov": 1, "smirnovi": 1}  # whose second derivative needs a function that SciPy does not have
TOLERANCE = {"ncfdtrinc": 1e-2, "nctdtrinc": 1e-4}  # of functions that SciPy computes to few digits
STEP = {"pro_rad2": 1e-4, "pro_rad2_cv": 1e-4, "obl_rad2": 1e-4, "obl_rad2_cv": 1e-4}  # of steep functions
NO_VALUE = ("_zeta",)  # SciPy has none for complex arguments


def _arguments(row: Row) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(row.function.__name__.encode()))
    return [
        rng.integers(int(low), int(high) + 1, SHAPE).astype(float if kind == "n" else int)
        if kind in "in"
        else rng.uniform(low, high, SHAPE)
        for (low, high), kind in zip(row.domain, row.kinds, strict=True)
    ]


def _free(row: Row) -> list[int]:
    """The positions of the arguments by which there are derivatives."""
    return [
        k
        for k in range(row.function.nin)
        if any(o[k] is not None for o in row.outputs) and not any(isinstance(o[k], Missing) for o in row.outputs)
    ]


def _public(row: Row) -> str:
    """The name as imported; some ufuncs are called by functions in Python."""
    return f"scipy.special.{row.function.__name__.lstrip('_').removeprefix('riemann_').removesuffix('_d')}"


def _real_case(row: Row) -> Case | None:
    free, given = _free(row), _arguments(row)
    name = row.function.__name__
    if name.endswith("_cv") and len(given) == 5:  # the value that belongs to the other arguments
        given[3] = getattr(sp, f"{name[:3]}_cv")(*given[:3])
    refused = not free and any(isinstance(p, Missing) for o in row.outputs for p in o)
    if refused or not any(set(loop.split("->")[0]) <= set("dl") for loop in row.function.types):
        return None

    def call(*moved: Any) -> Any:
        known = dict(zip(free, moved, strict=True))
        return row.function(*[known.get(k, x) for k, x in enumerate(given)])

    order = ORDER.get(name, 2 if free else 0)
    label = name if name.startswith("_") else ""
    return Case(
        _public(row), call, [given[k] for k in free], order=order, tol=TOLERANCE.get(name, 1e-6),
        step=STEP.get(name, 1e-3), label=label,
    )  # fmt: skip


def _complex_case(row: Row) -> Case | None:
    loops = [loop.split("->")[0] for loop in row.function.types if "D" in loop.split("->")[0]]
    if not loops or row.function.__name__ in NO_VALUE:
        return None
    free, given = _free(row), _arguments(row)
    rng = np.random.default_rng(5)
    planes = iter(row.plane or [(0.3, 1.2)] * row.function.nin)
    heights = {k: rng.uniform(*next(planes), SHAPE) for k, c in enumerate(loops[0]) if c == "D"}
    moving = [k for k in heights if k in free]
    holomorphic = 2 if row.function is sp.airye else row.function.nout  # outputs

    def call(*moved: Any) -> Any:
        known = dict(zip(free, moved, strict=False))
        above = {**heights, **dict(zip(moving, moved[len(free) :], strict=True))}
        operands = [known.get(k, x) for k, x in enumerate(given)]
        found = row.function(*[x + 1j * above[k] if k in above else x for k, x in enumerate(operands)])
        return found[:holomorphic] if row.function.nout > 1 else found

    args = [given[k] for k in free] + [heights[k] for k in moving]
    return Case(_public(row), call, args, order=2 if args else 0, label=f"{row.function.__name__} complex")


CASES = [case for row in TABLE for case in (_real_case(row), _complex_case(row)) if case is not None]
