"""Ufuncs of scipy.special: all rows of their tables in one kernel for each dtype, against SciPy."""

from __future__ import annotations

import functools
import zlib

import numpy as np
import pytest
from support import F32, F64, TIERS, assert_agree, make_graph, operand_avals

from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import bind
from tracegrad.tracer.ir.primitive import PRIMITIVES, Primitive

ROWS = [p for p in PRIMITIVES.values() if p.test.get("table") == "special"]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 3.0, 30.0, -700.0, 800.0, 1e30, -1e30, 1e-30]
EDGES += [np.inf, -np.inf, np.nan]
ULPS = 2  # of SciPy's values


def operands(prim: Primitive, dtype: np.dtype) -> list[np.ndarray]:
    """Points of the domain in a first row, the edges of the numbers and some of their pairs in a second."""
    rng = np.random.default_rng(zlib.crc32(prim.name.encode()))
    columns = []
    for aval, (low, high) in zip(operand_avals(prim, dtype), prim.domain, strict=True):
        if aval.dtype.kind == "i":
            columns.append(rng.integers(int(low) - 1, int(high) + 2, (2, 40)))
        else:
            inside, edges = rng.uniform(low, high, 40), rng.choice(EDGES, 40)
            if len(prim.domain) == 1:
                edges[: len(EDGES)] = EDGES
            columns.append(np.stack([inside, edges]).astype(aval.dtype))
    return columns


@functools.cache
def found(dtype: np.dtype) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """Operands and result of each row."""
    rows = [p for p in ROWS if tuple(a.dtype for a in operand_avals(p, dtype)) in p.impl.loops]
    xs = [operands(p, dtype) for p in rows]
    flat = [x for group in xs for x in group]

    def program(*inputs):
        rest = iter(inputs)
        return [bind(p, *[next(rest) for _ in group]) for p, group in zip(rows, xs, strict=True)]

    results = TIERS["kernel"](make_graph([Aval(x.dtype, x.shape) for x in flat], program), flat)
    return {p.name: pair for p, pair in zip(rows, zip(xs, results, strict=True), strict=True)}


@pytest.mark.parametrize("dtype", [F64, F32], ids=str)
@pytest.mark.parametrize("prim", ROWS, ids=lambda p: p.name)
def test_value(prim: Primitive, dtype: np.dtype) -> None:
    """In a loop that all rows share a value is SciPy's own, at points of the domain and at its borders."""
    if prim.name not in found(dtype):
        pytest.skip("of integers and doubles only")
    xs, result = found(dtype)[prim.name]
    with np.errstate(all="ignore"):
        expected = prim.impl(*xs)
    assert_agree(result, expected, ulps=ULPS, what=f"{prim.name} of\n{xs}\n")
