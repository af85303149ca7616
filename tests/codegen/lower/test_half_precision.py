"""float16 and bfloat16 as storage: rounded where they are stored or cast, float32 in between, in every tier."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ir_parser import parse_graph
from support import (
    F32,
    F64,
    I64,
    TIERS,
    assert_agree,
    condition,
    evaluate,
    make_graph,
    of_linear_algebra,
    operand_avals,
    operand_values,
    primitive_graph,
    prims,
    random_like,
    rng_for,
    spacing,
    strict_evaluate,
    vjp_graph,
)
from test_primitives import has_derivative, smooth_graph
from tracing import Traced

import tracegrad
from tracegrad import compile_grad
from tracegrad.codegen.lower.half_precision import in_float32
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.tracer.ir.aval import BFLOAT16, FLOAT16, HALF, Aval, can_cast, finfo, promote_types
from tracegrad.tracer.ir.graph import bind
from tracegrad.tracer.ir.primitive import PRIMITIVES, VIEW
from tracegrad.tracer.ir.text import print_graph

DTYPES = pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
rng = np.random.default_rng(3)


def widened(xs: Any, dtype: np.dtype = F32) -> list[np.ndarray]:
    return [x.astype(dtype) if x.dtype in HALF else x for x in xs]


def as_stored(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(dtype) if x.dtype in (F32, F64) else x


# ---- the registry ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("prim", prims(lambda p: not of_linear_algebra(p)), ids=lambda p: p.name)
def test_a_row_is_the_float32_row_rounded_once(prim, dtype):
    graph = primitive_graph(prim, operand_avals(prim, dtype))
    xs = operand_values(prim, [v.aval for v in graph.inputs], rng_for(prim.name))
    wide = primitive_graph(prim, operand_avals(prim, F32))
    expected = [as_stored(y, graph.outputs[0].aval.dtype) for y in evaluate(wide, widened(xs))]
    for tier in ("interpreter", "kernel"):
        for found, wanted in zip(TIERS[tier](graph, xs), expected, strict=True):
            # another last bit in float32 can be another last bit here, and no more
            assert_agree(found, wanted, ulps=1, atol=16 * float(np.finfo(F32).eps) * condition(*xs), what=tier)
    assert all(np.array_equal(a, b) for a, b in zip(strict_evaluate(graph, xs), evaluate(graph, xs), strict=True))


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("prim", prims(lambda p: has_derivative(p) and not of_linear_algebra(p)), ids=lambda p: p.name)
def test_derivatives_are_those_in_float32_rounded(prim, dtype):
    graph, wide = (vjp_graph(smooth_graph(prim, d)) for d in (dtype, F32))
    generator = rng_for(prim.name)
    xs = operand_values(prim, [v.aval for v in smooth_graph(prim, dtype).inputs], generator)
    point = [*xs, *random_like([v.aval for v in graph.inputs[len(xs) :]], generator)]
    exact = evaluate(wide, widened(point))
    atol = 64 * float(np.finfo(F32).eps) * condition(*exact, *point)
    for tier in ("interpreter", "kernel"):
        for found, wanted in zip(TIERS[tier](graph, point), exact, strict=True):
            assert_agree(found, as_stored(wanted, dtype), ulps=1, atol=atol, signed_zeros=False, what=tier)


# ---- conversions -------------------------------------------------------------------------------------------------


def cast_by_kernel(x: np.ndarray, *dtypes: np.dtype) -> np.ndarray:
    def program(v: Any) -> list[Any]:
        for dtype in dtypes:
            v = bind(PRIMITIVES["cast"], v, dtype=dtype)
        return [v]

    (found,) = TIERS["kernel"](make_graph([Aval(x.dtype, x.shape)], program), [x])
    return found


@DTYPES
def test_every_number_is_itself_in_float32(dtype):
    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    assert_agree(cast_by_kernel(every, F32), every.astype(F32), ulps=0)
    back = cast_by_kernel(every, F32, dtype)
    nan = np.isnan(every)
    assert np.array_equal(back[~nan].view(np.uint16), every[~nan].view(np.uint16)) and np.isnan(back[nan]).all()


@DTYPES
def test_rounding_of_float32_is_to_nearest_even(dtype):
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint32).view(F32)
    every = np.arange(2**16, dtype=np.uint16).view(dtype).astype(F32)
    with np.errstate(all="ignore"):
        halfway = (every[:-1] / 2 + every[1:] / 2).astype(F32)
        x = np.concatenate([bits, halfway, np.nextafter(halfway, np.inf), np.nextafter(halfway, -np.inf)])
        assert_agree(cast_by_kernel(x, dtype), x.astype(dtype), ulps=0)


@DTYPES
def test_float64_is_rounded_once(dtype):
    """Just beside a tie: by way of float32 such a number would become the tie, and then the even neighbour."""
    eps = float(finfo(dtype).eps)
    ties = 1 + eps * (np.arange(40) + 0.5)
    x = np.concatenate([ties, ties * (1 + 2.0**-50), ties * (1 - 2.0**-50), [1e300, -1e300, 1e-300, np.nan, np.inf]])
    found = cast_by_kernel(x, dtype).astype(F64)
    for value, rounded in zip(x[:-5].tolist(), found[:-5].tolist(), strict=True):
        below = Fraction(int(Fraction(value) / Fraction(eps))) * Fraction(eps)
        above = below + Fraction(eps)
        nearest = min((below, above), key=lambda n: (abs(n - Fraction(value)), n / Fraction(eps) % 2))
        assert Fraction(rounded) == nearest, value
    largest = [float(v) for v in (np.inf, -np.inf, 0.0)]
    assert found[-5:-2].tolist() == largest and np.isnan(found[-2]) and found[-1] == np.inf


def test_an_explicit_cast_rounds_and_nothing_else_does():
    x = np.array([1.0, 2.0, 3.0], FLOAT16)

    def f(x):
        return (x + 2.0**-13) - x, (x.astype(F32) + 2.0**-13).astype(FLOAT16) - x, x * 60000.0 / 60000.0

    graph = Traced(f, [x]).graph
    for tier in ("interpreter", "kernel"):
        kept, rounded, back = TIERS[tier](graph, [x])
        assert kept.tolist() == [2.0**-13] * 3 and rounded.tolist() == [0.0] * 3 and back.tolist() == [1.0, 2.0, 3.0]


def test_a_literal_is_not_rounded():
    x = np.zeros(3, FLOAT16)
    for dtype in (FLOAT16, BFLOAT16):
        traced = Traced(lambda x: np.sqrt(x + 1e-12) * 1e6 + 0.1 - 0.1, [x.astype(dtype)])
        assert_agree(traced.values[0], np.ones(3, dtype), ulps=1)
        assert print_graph(parse_graph(print_graph(traced.graph))) == print_graph(traced.graph)


@DTYPES
def test_a_number_is_not_rounded(dtype):
    """As an argument, where it is data of the kernel, and beside a tensor."""
    x = np.full(3, 2.0**10, dtype)
    f = compile_grad(lambda x, t: np.sum(x * t), argnums=(0, 1))
    for t in (1e-9, 2e-9, 3e-9):
        value, (_, dt) = f.value_and_grad(x, t)
        assert_agree(np.asarray(value), np.asarray(3 * 2**10 * t).astype(dtype), ulps=1, atol=6e-8)
        assert dt == pytest.approx(3072.0, rel=1e-6)
    made = tracegrad.tensor(x, requires_grad=True)
    ((made * 1e-8).float().sum() * 2.0**14).backward()
    assert_agree(made.grad.numpy(), np.full(3, 1e-8 * 2.0**14).astype(dtype), ulps=1)


# ---- accumulation ------------------------------------------------------------------------------------------------


@DTYPES
@pytest.mark.parametrize("axes", [None, 0, 1], ids=str)
def test_long_sums_are_added_up_in_float32(dtype, axes):
    x = np.abs(rng.normal(size=(100_000, 3) if axes == 0 else (3, 100_000))).astype(dtype) * dtype.type(0.01)
    x = x.astype(dtype)
    traced = Traced(lambda x: (np.sum(x, axis=axes), np.mean(x, axis=axes)), [x])
    exact = x.astype(F64).sum(axis=axes), x.astype(F64).mean(axis=axes)
    for tier in ("interpreter", "kernel"):
        for found, wanted in zip(TIERS[tier](traced.graph, [x]), exact, strict=True):
            assert found.dtype == dtype
            assert_agree(found, np.asarray(wanted).astype(dtype), ulps=1, what=tier)


def test_a_mean_does_not_overflow():
    x = np.full(1000, 60000.0, FLOAT16)
    f = compile_grad(lambda x: np.mean(x))
    assert [f(x).item() for _ in range(3)] == [60000.0] * 3


@DTYPES
def test_products_are_added_up_in_float32(dtype):
    x, y = (rng.normal(size=s).astype(dtype) for s in ((5, 4000), (4000, 3)))
    exact = x.astype(F64) @ y.astype(F64)
    graph = Traced(lambda x, y: (x @ y, x @ y[:, 0]), [x, y]).graph
    for tier in ("interpreter", "kernel"):
        product, vector = TIERS[tier](graph, [x, y])
        assert_agree(product, exact.astype(dtype), ulps=1, atol=1e-2, what=tier)
        assert_agree(vector, exact[:, 0].astype(dtype), ulps=1, atol=1e-2, what=tier)


@DTYPES
def test_carries_of_loops_are_float32(dtype, monkeypatch):
    start, step = np.asarray(1000.0, dtype), np.asarray(0.125, dtype)

    def run(x, d):
        end, rows = tracegrad.scan(lambda c, _: (c + d, c), x, length=1000)
        return end, rows

    monkeypatch.setattr(tracegrad.config, "check", True)  # the interpreter gives the same
    end, rows = compile_grad(run)(start, step)
    assert end.dtype == rows.dtype == dtype
    assert_agree(end, np.asarray(1125.0).astype(dtype), ulps=0)
    assert_agree(rows, (1000 + 0.125 * np.arange(1000)).astype(dtype), ulps=0)


def test_only_storage_is_left_of_half_precision():
    x = rng.normal(size=(4, 5)).astype(FLOAT16)
    graph = simplify(Traced(lambda x: np.sum(np.exp(x.T) @ x, axis=0), [x], [np.ones(5, FLOAT16)]).graph)
    for node in graph.nodes:
        if node.out.aval.dtype in HALF:
            assert node.prim.name == "cast" or node.prim.kind == VIEW, node
    kept = simplify(Traced(lambda x: x.T @ x, [x]).graph, half_products=frozenset([FLOAT16]))
    assert [n.out.aval.dtype for n in kept.nodes if n.prim.name == "matmul"] == [FLOAT16]
    assert in_float32(graph32 := Traced(lambda x: np.exp(x), [x.astype(F32)]).graph) is graph32


# ---- promotion ---------------------------------------------------------------------------------------------------


@DTYPES
def test_promotion(dtype):
    x = np.ones(2, dtype)
    cases = [
        (lambda x: x + 1.0, dtype), (lambda x: x * 2, dtype), (lambda x: x + np.float32(1), F32),
        (lambda x: x * np.ones(2), F64), (lambda x: np.where(x > 0, x, 0.0), dtype), (lambda x: x.astype(F32), F32),
        (lambda x: x + np.ones(2, I64), F64 if dtype == FLOAT16 else BFLOAT16), (lambda x: x > 1, np.dtype(bool)),
        (lambda x: x + np.ones(2, FLOAT16).astype(BFLOAT16 if dtype == FLOAT16 else FLOAT16), F32),
    ]  # fmt: skip
    for f, expected in cases:
        assert Traced(f, [x]).outputs[0].aval.dtype == expected
    assert promote_types(FLOAT16, BFLOAT16) == F32 and can_cast(FLOAT16, BFLOAT16, "same_kind")


# ---- compiled functions --------------------------------------------------------------------------------------------


@compile_grad
def logistic(w, X, y):
    return np.mean(np.log1p(np.exp(-y * (X @ w)))) + 1e-3 * np.sum(w * w)


@compile_grad
def branching(x):
    total = np.sum(x)
    if total > 0:
        return total * float(total)
    return np.sum(x * x)


@compile_grad
def recurrent(x, W):
    h = x
    for _ in range(25):
        h = np.tanh(W @ h) * 0.9 + x * 0.1
    return np.sum(h)


@DTYPES
@pytest.mark.parametrize("check", [False, True], ids=["", "check"])
def test_compiled_functions_agree_with_float32(dtype, check, monkeypatch):
    monkeypatch.setattr(tracegrad.config, "check", check)
    X, w, W = (rng.normal(size=s).astype(dtype) for s in ((30, 5), 5, (5, 5)))
    y = np.sign(rng.normal(size=30)).astype(dtype)
    for f, args in (
        (logistic, (w, X, y)), (branching, (abs(w),)), (branching, (-abs(w),)), (recurrent, (w, W * dtype.type(0.3))),
    ):  # fmt: skip
        value, gradient = f.value_and_grad(*widened(args))
        for _ in range(4):  # recorded, verified, launched, from a slot
            found, slope = f.value_and_grad(*args)
            assert np.asarray(found).dtype == slope.dtype == dtype
            assert abs(float(found) - value) <= 2 * spacing(np.asarray(value).astype(dtype))
            assert np.all(abs(slope.astype(F32) - gradient) <= 2 * spacing(np.full(5, abs(gradient).max(), dtype)))


def test_gradients_have_the_dtypes_of_what_they_belong_to():
    f = compile_grad(lambda w, b: np.sum(np.tanh(w) * b) + np.sum(b), argnums=(0, 1))
    grads = f.grad(np.ones(3, FLOAT16), np.ones(3, np.float32))
    assert [g.dtype for g in grads] == [FLOAT16, F32]
    assert f(np.ones(3, FLOAT16), np.ones(3, np.float32)).dtype == F32


def test_state_in_half_precision_is_read_anew():
    weights = np.ones(3, BFLOAT16)
    f = compile_grad(lambda x: np.sum(x * weights))
    for scale in (1.0, 2.0, 3.0):
        weights[:] = scale
        assert f.grad(np.ones(3, BFLOAT16)).tolist() == [scale] * 3


@DTYPES
def test_a_long_loop_with_numbers_of_its_own(dtype):
    """An array of such numbers would be rounded: they stay numbers of the program."""

    def f(x):
        total = np.sum(x) * 0.0
        for t in range(40):
            total = total + np.sum(x * (1e-9 * (t + 1))) * 2.0**20
            x = x * 1.0
        return total

    x = np.full(4, 2.0, dtype)
    exact = sum(8e-9 * (t + 1) * 2.0**20 for t in range(40))
    g = compile_grad(f)
    for _ in range(3):
        assert_agree(np.asarray(g(x)), np.asarray(exact).astype(dtype), ulps=1)


@DTYPES
def test_a_loop_that_is_rolled(dtype):
    def f(h, x):
        for t in range(50):
            h = h * 0.9 + np.sin(h) * x[t]
        return np.sum(h)

    own = np.random.default_rng(0)
    h, x = own.normal(size=4).astype(dtype), own.normal(size=50).astype(dtype)
    g = compile_grad(f, argnums=(0, 1))
    value, slopes = g.value_and_grad(*widened([h, x]))
    for _ in range(3):
        found, mine = g.value_and_grad(h, x)
        assert abs(float(found) - value) <= 2 * spacing(np.asarray(value).astype(dtype))
        for a, b in zip(mine, slopes, strict=True):
            # what the reverse loop reads of each step was stored, and so rounded: half an eps for each of the 50
            limit = 25 * float(finfo(dtype).eps) * np.max(abs(b)) + float(finfo(dtype).smallest_subnormal)
            assert np.max(abs(a.astype(F32) - b)) <= limit
    assert "loop" in g.explain(h, x, level="all")
