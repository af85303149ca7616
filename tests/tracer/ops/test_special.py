"""Ufuncs of scipy.special: all rows of their tables in one kernel for each dtype, against SciPy."""

from __future__ import annotations

import contextlib
import functools
import zlib

import numpy as np
import pytest
import scipy.special as sp
from agreement import complex_gradient
from support import F32, F64, TIERS, assert_agree, make_graph, operand_avals

from tracegrad import compile_grad
from tracegrad.codegen.cpu import scalar
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


# ---- as users call them ----------------------------------------------------------------------------------------------

X = np.array([0.5, 1.5, 2.5])


def test_orders_that_are_plain_or_integers_need_no_derivative() -> None:
    def by_degree(n: np.ndarray, x: np.ndarray) -> float:
        return np.sum(sp.jv(n, x) + sp.eval_legendre(n, x / 3) + sp.jv(2, x))

    degrees = np.arange(3)
    slopes = [sp.legendre_p(int(n), x / 3, diff_n=1)[1] / 3 for n, x in zip(degrees, X, strict=True)]
    expected = sp.jvp(degrees, X) + slopes
    found = compile_grad(by_degree, argnums=1).grad(degrees, X)
    np.testing.assert_allclose(found, expected + sp.jvp(2, X), rtol=1e-12)


def test_an_argument_without_derivative_is_named_with_its_line() -> None:
    def loss(v: float, x: np.ndarray) -> float:
        order = 2 * v
        return np.sum(sp.jv(order, x))  # the line

    function = compile_grad(loss)
    np.testing.assert_allclose(function(0.5, X), loss(0.5, X), rtol=1e-14)
    with pytest.raises(
        UnsupportedError, match=r"scipy\.special\.jv has no derivative .* argument v.*argnums"
    ) as caught:
        function.grad(0.5, X)
    assert f"line {loss.__code__.co_firstlineno + 2}" in str(caught.value)
    np.testing.assert_allclose(compile_grad(loss, argnums=1).grad(0.5, X), sp.jvp(1.0, X), rtol=1e-12)


def test_several_outputs_of_complex_numbers_in_one_kernel() -> None:
    def loss(z: np.ndarray) -> float:
        ai, slope, bi, _ = sp.airy(z)
        return np.sum(np.abs(sp.hankel1(1.5, z) * sp.wofz(z) + ai * bi - slope) ** 2)

    z = np.array([0.5 + 0.2j, 1.5 - 0.3j])
    np.testing.assert_allclose(compile_grad(loss).grad(z), complex_gradient(loss, z), rtol=1e-7)


def test_points_that_a_choice_leaves_out_contribute_nothing() -> None:
    x = np.array([-1.0, 0.0, 2.0])
    found = compile_grad(lambda x: np.sum(np.where(x > 0, sp.gammainc(2.5, x) + sp.kv(1.0, x), x))).grad(x)
    np.testing.assert_allclose(found, [1, 1, np.exp(-2) * 2**1.5 / sp.gamma(2.5) + sp.kvp(1.0, 2.0)], rtol=1e-13)


def test_outputs_of_one_call_are_made_by_one_call(compiled_anew, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    emitted = scalar._call_c
    monkeypatch.setattr(scalar, "_call_c", lambda b, f, *rest: called.append(f.symbol) or emitted(b, f, *rest))
    found = compile_grad(lambda x: sp.kelvin(x))(X)
    assert [symbol.rpartition(":")[2] for symbol in called] == ["kelvin"]
    np.testing.assert_array_equal(found, sp.kelvin(X))


def test_densities_at_the_ends_of_their_domains():
    """The second derivative of a distribution function there is a power's, where that of a logarithm is infinite."""

    def f(x):
        return np.stack([
            sp.gammainc(2.0, x[0]), sp.gammaincc(3.0, x[1]), sp.chdtr(4.0, x[2]), sp.pdtr(1.0, x[3]),
            sp.betainc(2.0, 3.0, x[4]), sp.betainc(2.0, 2.0, 1.0 - x[5]), sp.bdtr(1.0, 3, x[6]),
            sp.betainc(900.0, 900.0, x[7]),
        ])  # fmt: skip

    first = compile_grad(lambda x: np.sum(f(x)))
    second = compile_grad(lambda x: np.sum(first.grad(x))).grad(np.zeros(8))
    np.testing.assert_allclose(second, [1.0, 0.0, 0.25, -1.0, 12.0, -6.0, -6.0, 0.0], rtol=1e-12)
