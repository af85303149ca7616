"""Ufuncs of scipy.special: all rows of their tables in one kernel for each dtype, against SciPy."""

from __future__ import annotations

import contextlib
import functools
import zlib

import numpy as np
import pytest
from support import F32, F64, TIERS, assert_agree, make_graph, operand_avals

from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.errors import UnsupportedError
from tracegrad.tracer.ir.graph import Builder, Lit, Var, bind, building
from tracegrad.tracer.ir.primitive import PRIMITIVES, Primitive

ROWS = [p for p in PRIMITIVES.values() if p.test.get("table") == "special"]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 3.0, 30.0, -700.0, 800.0, 1e30, -1e30, 1e-30]
EDGES += [np.inf, -np.inf, np.nan]
ULPS = 2  # of SciPy's values
FRAGILE = ("mathieu", "pro_", "obl_", "pbdv", "pbvv", "hyp1f1")  # SciPy itself crashes or hangs far from their domain


def operands(prim: Primitive, dtype: np.dtype) -> list[np.ndarray]:
    """Points of the domain in a first row, the edges of the numbers and some of their pairs in a second."""
    rng = np.random.default_rng(zlib.crc32(prim.name.encode()))
    columns = []
    for aval, (low, high), kind in zip(operand_avals(prim, dtype), prim.domain, prim.test["kinds"], strict=True):
        if kind in "in":
            columns.append(rng.integers(int(low), int(high) + 2, (2, 40)).astype(aval.dtype))
        else:
            inside, edges = rng.uniform(low, high, 40), rng.choice(EDGES, 40)
            if prim.name.startswith(FRAGILE):
                edges = inside[::-1]
            elif len(prim.domain) == 1:
                edges[: len(EDGES)] = EDGES
            columns.append(np.stack([inside, edges]).astype(aval.dtype))
    return columns


@functools.cache
def found(dtype: np.dtype, quick: bool) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """Operands and result of each row, of the *quick* ones or of the others."""
    rows = [p for p in ROWS_OF[dtype] if (p in QUICK) == quick and not (dtype == F32 and p.name.startswith(FRAGILE))]
    rows = [p for p in rows if tuple(a.dtype for a in operand_avals(p, dtype)) in p.impl.loops]
    xs = [operands(p, dtype) for p in rows]
    flat = [x for group in xs for x in group]

    def program(*inputs):
        rest = iter(inputs)
        return [bind(p, *[next(rest) for _ in group]) for p, group in zip(rows, xs, strict=True)]

    results = TIERS["kernel"](make_graph([Aval(x.dtype, x.shape) for x in flat], program), flat)
    return {p.name: pair for p, pair in zip(rows, zip(xs, results, strict=True), strict=True)}


QUICK = ROWS[::30]
ROWS_OF = {F64: ROWS, F32: ROWS[::3]}
_CASES = [
    pytest.param(p, dtype, id=f"{p.name}-{dtype}", marks=[] if p in QUICK else pytest.mark.slow)
    for dtype, rows in ROWS_OF.items()
    for p in rows
]


@pytest.mark.parametrize(("prim", "dtype"), _CASES)
def test_value(prim: Primitive, dtype: np.dtype) -> None:
    """In a loop that many rows share a value is SciPy's own, at points of the domain and at its borders."""
    known = found(dtype, prim in QUICK)
    if prim.name not in known:
        pytest.skip("of integers and doubles only, or SciPy does not return")
    xs, result = known[prim.name]
    with np.errstate(all="ignore"):
        expected = prim.impl(*xs)
    assert_agree(result, expected, ulps=ULPS, what=f"{prim.name} of\n{xs}\n")


def test_rules_bring_only_structural_constants() -> None:
    """A data literal from a rule would be an argument of the kernel."""
    for prim in ROWS:
        avals = operand_avals(prim, F64)
        with building(Builder()) as builder:
            inputs = [Var(a) for a in avals]
            out = bind(prim, *inputs)
            for k, partial in enumerate(prim.partials):
                if partial and avals[k].is_float:
                    with contextlib.suppress(UnsupportedError):
                        partial(out, *inputs)
        data = [(n, a) for n in builder.nodes for a in n.inputs if isinstance(a, Lit) and not a.structural]
        assert not data, prim.name
