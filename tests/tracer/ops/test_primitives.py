"""The registry is the test matrix: every primitive, float64 and float32, value and first and second derivatives.

Inputs are drawn from the row's ``domain`` and laid out by its ``test`` (see ``support.operand_avals``).  Finite
differences judge the derivative rules; NumPy judges the tiers, at ordinary values and at the edges.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln
from selection import TIMES, some
from support import (
    BOOL,
    F32,
    F64,
    I64,
    assert_agree,
    assert_close,
    assert_same_bits,
    condition,
    directional,
    dot_graph,
    evaluate,
    float_inputs,
    grad_graph,
    jvp_graph,
    layouts,
    make_graph,
    of_linear_algebra,
    operand_avals,
    operand_values,
    primitive_graph,
    prims,
    random_like,
    rng_for,
    strict_evaluate,
    vjp_graph,
)

from tracegrad.tracer.ir.aval import BFLOAT16, COMPLEX, FLOAT_KINDS, HALF, INEXACT_KINDS, REAL, Aval
from tracegrad.tracer.ir.errors import GraphError, UnsupportedError
from tracegrad.tracer.ir.graph import Builder, Graph, Lit, Pair, Var, bind, building, elementwise_by_name
from tracegrad.tracer.ir.primitive import ELEMENTWISE, PRIMITIVES, Primitive, differentiable

FLOATS = pytest.mark.parametrize("dtype", [F64, F32], ids=str)


def matrix(test: Any = lambda p: True) -> Any:
    return pytest.mark.parametrize("prim", prims(test), ids=lambda p: p.name)


def has_derivative(prim: Primitive) -> bool:
    return differentiable(prim) and primitive_graph(prim, operand_avals(prim, F64)).outputs[0].aval.is_float


def smooth_graph(prim: Primitive, dtype: np.dtype) -> Graph:
    """One application of *prim* that stays in *dtype* (a cast to float32 is a staircase to finite differences)."""
    params = {"dtype": dtype} if prim.name == "cast" else {}
    return primitive_graph(prim, operand_avals(prim, dtype), **params)


def setup(prim: Primitive, dtype: np.dtype) -> tuple[Graph, list[np.ndarray], np.random.Generator]:
    rng = rng_for(prim.name)
    avals = operand_avals(prim, dtype)
    return smooth_graph(prim, dtype), operand_values(prim, avals, rng), rng


def where_float(graph: Graph, values: list[Any]) -> list[Any]:
    """*values* of the float inputs, None at the others."""
    found = iter(values)
    return [next(found) if v.aval.is_float else None for v in graph.inputs]


# ---- rules against NumPy and finite differences ----------------------------------------------------------------


@FLOATS
@matrix()
def test_inference_matches_the_implementation(prim, dtype):
    graph = primitive_graph(prim, operand_avals(prim, dtype))
    strict_evaluate(graph, operand_values(prim, [v.aval for v in graph.inputs], rng_for(prim.name)))


@matrix(has_derivative)
def test_derivatives_against_finite_differences(prim):
    graph, xs, rng = setup(prim, F64)
    (ct,) = random_like([graph.outputs[0].aval], rng)
    forward, backward = jvp_graph(graph), vjp_graph(graph)
    which = float_inputs(graph)
    cotangents = strict_evaluate(backward, [*xs, ct])
    for one in [*which, None]:  # along each operand by itself, then along all together
        tangents = [np.zeros_like(xs[i]) if one not in (i, None) else random_like([xs[i]], rng)[0] for i in which]
        expected = directional(lambda *moved: evaluate(graph, moved)[0], xs, where_float(graph, tangents))
        (pushed,) = strict_evaluate(forward, [*xs, *tangents])
        scale = condition(expected)
        assert_close(pushed, expected, 1e-7, 1e-9 * scale, f"jvp along operand {one}")
        pulled = sum(float(np.sum(c * t)) for c, t in zip(cotangents, tangents, strict=True))
        assert_close(pulled, np.sum(ct * expected), 1e-7, 1e-8 * scale, f"vjp along operand {one}")
        assert_close(pulled, np.sum(ct * pushed), 1e-11, 1e-11 * scale, f"vjp and jvp along operand {one}")


@matrix(has_derivative)
def test_second_order(prim):
    graph, xs, rng = setup(prim, F64)
    scalar = dot_graph(vjp_graph(graph))  # <u, J^T ct>, a function of the inputs, ct and u
    point = [*xs, *random_like([v.aval for v in scalar.inputs[len(xs) :]], rng)]
    which = float_inputs(scalar)
    gradient = strict_evaluate(grad_graph(scalar), point)
    forward = jvp_graph(scalar)
    for one in [*which, None]:
        tangents = [np.zeros_like(point[i]) if one not in (i, None) else random_like([point[i]], rng)[0] for i in which]
        expected = directional(lambda *moved: evaluate(scalar, moved)[0], point, where_float(scalar, tangents))
        pulled = sum(float(np.sum(c * t)) for c, t in zip(gradient, tangents, strict=True))
        (pushed,) = strict_evaluate(forward, [*point, *tangents])
        scale = condition(expected, *gradient)
        assert_close(pulled, expected, 1e-6, 1e-8 * scale, f"reverse over reverse, operand {one}")
        assert_close(pushed, expected, 1e-6, 1e-8 * scale, f"forward over reverse, operand {one}")


@matrix(has_derivative)
def test_float32_stays_float32(prim):
    graph32, xs, rng = setup(prim, F32)
    graph64 = smooth_graph(prim, F64)
    (ct,) = random_like([graph32.outputs[0].aval], rng)
    if prim.name not in ("cast", "iota"):
        assert {n.out.aval.dtype for n in vjp_graph(graph32).nodes} & {F64} == set()
    wide = [x.astype(F64) if x.dtype == F32 else x for x in xs]
    for build, extra in ((vjp_graph, [ct]), (jvp_graph, random_like([xs[i] for i in float_inputs(graph32)], rng))):
        found = strict_evaluate(build(graph32), [*xs, *extra])
        expected = evaluate(build(graph64), [*wide, *[e.astype(F64) for e in extra]])
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == F32
            assert_close(a, b, 2e-4, 2e-5 * condition(b))
    scalar = grad_graph(dot_graph(vjp_graph(graph32)))
    point = [*xs, ct, *random_like([v.aval for v in scalar.inputs[len(xs) + 1 :]], rng)]
    assert {a.dtype for a in strict_evaluate(scalar, point)} == {F32}


@matrix(has_derivative)
def test_rules_bring_only_structural_constants(prim):
    # a data literal from a rule would be a run-time argument of the kernel, and would never be shared
    graph = smooth_graph(prim, F64)
    for derived in (vjp_graph(graph), jvp_graph(graph), grad_graph(dot_graph(vjp_graph(graph)))):
        data = [(n, a) for n in derived.nodes for a in n.inputs if isinstance(a, Lit) and not a.structural]
        assert not data


# ---- promotion, as in NumPy 2 ----------------------------------------------------------------------------------

_DTYPES = sorted(REAL, key=lambda d: (d.kind, d.itemsize))


def operand(dtype: np.dtype) -> Var:
    if dtype not in COMPLEX:
        return Var(Aval(dtype, (2,)))
    return Pair(operand(COMPLEX[dtype]), operand(COMPLEX[dtype]), dtype)


def half_promotion(dtypes: tuple[np.dtype, ...], numpys: np.dtype | None) -> np.dtype | None:
    """The dtype of an operation in which float16 or bfloat16 takes part."""
    if numpys is None or numpys == BOOL:
        return numpys
    floats = {d for d in dtypes if d.kind in INEXACT_KINDS}
    if BFLOAT16 in floats:
        return {1: BFLOAT16}.get(len(floats)) or np.result_type(F32, *(floats - {BFLOAT16}))
    return np.result_type(*dtypes)


@matrix(lambda p: p.kind == ELEMENTWISE and isinstance(p.impl, np.ufunc))
def test_promotion_is_numpys(prim):
    front = elementwise_by_name[prim.name]
    for dtypes in itertools.product([*_DTYPES, *COMPLEX], repeat=len(prim.domain)):
        try:
            expected = prim.impl(*[np.ones(2, d) for d in dtypes]).dtype
        except TypeError:
            expected = None
        with building(Builder()) as builder:
            try:
                found = front(*map(operand, dtypes)).dtype
            except (UnsupportedError, TypeError):
                found = None
        shown = f"{prim.name} of {', '.join(map(str, dtypes))}"
        single = F32 in dtypes or any(COMPLEX.get(d) == F32 for d in dtypes)
        if found is None and COMPLEX.keys() & set(dtypes) and not hasattr(np, prim.impl.__name__):
            pass  # functions of SciPy that are refused for complex numbers
        elif prim.name == "reciprocal" and dtypes[0].kind not in INEXACT_KINDS:
            assert found is None, f"{shown}: an integer division in NumPy, refused here"
        elif prim.name in ("xlogy", "xlog1py", "betaln") and single:
            assert found is not None  # SciPy widens to float64 where an integer comes in; float32 stays float32 here
        elif HALF & set(dtypes):
            assert found == half_promotion(dtypes, expected), f"{shown}: {found}, NumPy {expected}"
        elif expected is None:
            assert found is None or found.kind == "f", f"{shown}: NumPy refuses, here {found}"
        elif expected in HALF or (expected == F32 and not single):
            assert found in (F64, None), f"{shown}: float16 and float32 of small integers become float64, not {found}"
        else:
            assert found == expected, f"{shown}: {found}, NumPy {expected}"
        if found is not None:
            inputs = [a for n in builder.nodes for a in n.inputs if isinstance(a, Var)]
            inputs = list(dict.fromkeys(a for a in inputs if not any(a in n.outs for n in builder.nodes)))
            strict_evaluate(Graph(inputs, builder.nodes, []), [np.ones(2, a.dtype) for a in inputs])


# ---- tiers against NumPy ---------------------------------------------------------------------------------------

EXACT = {  # computed by one correctly rounded operation, or none: the same bits in every tier
    "add", "sub", "mul", "div", "neg", "abs", "sign", "square", "reciprocal", "sqrt", "floor", "ceil", "trunc", "rint",
    "copysign", "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "maximum", "minimum", "fmax", "fmin",
    "mulz", "select", "cast", "broadcast", "reshape", "transpose", "slice", "pad", "update", "concat", "iota", "gather",
    "scatter", "scatter_max", "scatter_min", "reduce_max", "reduce_min", "argmax", "argmin", "integer_pow",
}  # fmt: skip
ULPS = {  # relative to NumPy, where more than the usual is allowed
    "logaddexp": 8, "ndtr": 16, "ndtri": 8, "erfinv": 8, "expit": 8, "logit": 16, "pow": 8, "polygamma": 8, "xlogy": 8,
    "xlog1py": 8, "erfc": 16, "gammaln": 16, "psi": 16, "pseudo_huber": 8,
}  # fmt: skip
CANCELLING = {"logaddexp", "logaddexp2", "logit", "ndtri", "gammaln", "betaln", "psi"}  # zero at ordinary points


def tolerance(prim: Primitive, xs: list[np.ndarray], dtype: np.dtype) -> dict[str, Any]:
    if prim.name in EXACT:
        return {"ulps": 0}
    eps = float(np.finfo(dtype).eps)
    if prim.kind == ELEMENTWISE:
        atol = 4 * eps if prim.name in CANCELLING else float(np.finfo(dtype).tiny)
        if prim.name == "betaln":  # of negative numbers a sum of logarithms of gamma, each rounded by its own size
            with np.errstate(all="ignore"):
                sizes = np.max([gammaln(1.0 + np.abs(x.astype(F64))) for x in (*xs, xs[0] + xs[1])], axis=0)
            atol = 4 * eps * np.where((np.minimum(*xs) < 0) & (sizes < np.inf), np.maximum(sizes, 1.0), 1.0)
        return {"ulps": ULPS.get(prim.name, 4) * (1 if dtype == F64 else 2), "atol": atol}
    size = max([1, *[x.size for x in xs]])
    if prim.name == "reduce_prod":
        return {"ulps": 2 * size}
    return {"ulps": 4, "atol": 4 * eps * size * condition(*xs) ** len(xs)}  # a sum in another order


@FLOATS
@matrix()
def test_value(run, prim, dtype):
    graph = primitive_graph(prim, operand_avals(prim, dtype))
    xs = operand_values(prim, [v.aval for v in graph.inputs], rng_for(prim.name))
    (expected,) = evaluate(graph, xs)
    (found,) = run(graph, xs)
    assert_agree(found, expected, **tolerance(prim, xs, dtype), what=prim.name)


@pytest.fixture
def twice():
    """Whether second derivatives of a row are run in kernels, too: those of complex rows, by the same rules as those of
    real ones, are run by the interpreter (test_second_order), and in kernels by ``make test-long``."""
    return lambda prim: TIMES > 1 or not prim.name.startswith("complex_")


def _kernels_of_derivatives() -> list[Any]:
    """(row, dtype).  In the quick tier factors have those of one order, in float32."""
    result = []
    for prim in prims(has_derivative):
        for dtype in (F64,) if prim.name.startswith("complex_") else (F64, F32):
            marks = [pytest.mark.slow] if dtype == F64 and of_linear_algebra(prim) else []
            result.append(pytest.param(prim, dtype, id=f"{prim.name}-{dtype}", marks=marks))
    return result


@pytest.mark.parametrize(("prim", "dtype"), _kernels_of_derivatives())
def test_derivatives_in_the_kernel(kernel, twice, prim, dtype):
    graph, xs, rng = setup(prim, dtype)
    derived = vjp_graph(graph)
    if dtype == F64 and twice(prim):
        derived = grad_graph(dot_graph(derived), with_value=True)
    point = [*xs, *random_like([v.aval for v in derived.inputs[len(xs) :]], rng)]
    expected = evaluate(derived, point)
    eps = float(np.finfo(dtype).eps)
    atol = 256 * eps * condition(*expected)
    for position, (a, b) in enumerate(zip(kernel(derived, point), expected, strict=True)):
        assert_agree(a, b, ulps=512, atol=atol, signed_zeros=False, what=f"output {position}")


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 3.0, 30.0, -700.0, 800.0, 1e30, -1e30, 1e-30]
EDGES += [np.inf, -np.inf, np.nan]
TWO_SIGNED_ZEROS = ("maximum", "minimum", "fmax", "fmin")  # NumPy itself gives either zero, by the width of its vectors


def edge_values(prim: Primitive, dtype: np.dtype) -> list[np.ndarray]:
    avals = operand_avals(prim, dtype, ((1,),) * len(prim.domain))
    columns = []
    for aval in avals:
        if aval.dtype == BOOL:
            columns.append([False, True])
        elif aval.dtype.kind == "u":
            columns.append([0, 1, 2**31, 2**32 - 1])
        elif aval.dtype.kind == "i":
            columns.append([0, 1, -1, 7, -8, 2**62, -(2**63), 2**63 - 1])
        else:
            columns.append(EDGES)
    rows = list(itertools.product(*columns))
    # two rows: then the sizes are no others, up to their values, than in test_value, and the program is the same
    return [np.array([row[i] for row in rows], a.dtype).reshape(2, -1) for i, a in enumerate(avals)]


def edge_graph(prim: Primitive, dtype: np.dtype) -> tuple[Graph, list[np.ndarray]]:
    xs = edge_values(prim, dtype)
    return primitive_graph(prim, [Aval(x.dtype, x.shape) for x in xs]), xs


@FLOATS
@matrix(lambda p: p.kind == ELEMENTWISE)
def test_edges(run, prim, dtype):
    graph, xs = edge_graph(prim, dtype)
    with np.errstate(all="ignore"):
        expected = np.asarray(prim.impl(*xs, **prim.test.get("params", {})))
    (found,) = run(graph, xs)
    limits = tolerance(prim, xs, dtype)
    limits["signed_zeros"] = prim.name not in TWO_SIGNED_ZEROS
    assert_agree(found, expected, **limits, what=f"{prim.name} of\n{np.array(xs)}\n")


@matrix(lambda p: p.kind == ELEMENTWISE and has_derivative(p))
def test_edges_of_the_gradient_in_the_kernel(kernel, prim):
    graph, xs = edge_graph(prim, F64)
    derived = vjp_graph(graph)
    for seed in (1.0, 0.0):
        ct = np.full(derived.inputs[-1].aval.shape, seed, derived.inputs[-1].aval.dtype)
        expected = evaluate(derived, [*xs, ct])
        for a, b in zip(kernel(derived, [*xs, ct]), expected, strict=True):
            what = f"vjp of {prim.name} of\n{np.array(xs)}\n"
            assert_agree(a, b, ulps=256, atol=1e-15, signed_zeros=False, what=what)


def _thirds() -> list[list[Primitive]]:
    every = prims(lambda p: p.kind == ELEMENTWISE)
    return [every[i::3] for i in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("third", range(3))
@pytest.mark.parametrize("shape", [(), (0,), (1, 1), (0, 3), (3, 33)], ids=str)
def test_elementwise_shapes(run, third, shape):
    group = _thirds()[third]
    avals, xs, spans = [], [], []
    for prim in group:
        operands = operand_avals(prim, F64, (shape,) * len(prim.domain))
        spans.append(slice(len(avals), len(avals) + len(operands)))
        avals += operands
        xs += operand_values(prim, operands, rng_for(prim.name))

    def program(*v: Var) -> list[Any]:
        return [bind(p, *v[at], **p.test.get("params", {})) for p, at in zip(group, spans, strict=True)]

    for prim, at, found in zip(group, spans, run(make_graph(avals, program), xs), strict=True):
        expected = np.asarray(prim.impl(*xs[at], **prim.test.get("params", {})))
        assert_agree(found, expected, **tolerance(prim, xs[at], F64), what=prim.name)


REDUCTIONS = ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_or", "reduce_and", "argmax", "argmin"]


def axes_of(ndim: int) -> list[tuple[int, ...]]:
    return [axes for r in range(1, ndim + 1) for axes in itertools.combinations(range(ndim), r)]


@pytest.mark.slow
@FLOATS
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_all_axes(run, name, dtype):
    prim = PRIMITIVES[name]
    for shape in [(1,), (0,), (7,), (0, 3), (3, 0), (1, 4), (5, 1), (3, 70), (70, 3), (2, 3, 4), (2, 0, 4)]:
        (aval,) = operand_avals(prim, dtype, (shape,))
        xs = operand_values(prim, [aval], rng_for(name))
        every = axes_of(len(shape))
        if name in ("reduce_max", "reduce_min", "argmax", "argmin"):  # not of nothing: NumPy refuses, too
            every = [axes for axes in every if all(shape[a] for a in axes)]
        if name.startswith("arg"):  # the front end flattens first
            every = [axes for axes in every if len(axes) == 1]
        if not every:
            continue
        graph = make_graph([aval], lambda x, every=every: [bind(prim, x, axes=axes) for axes in every])
        for axes, found in zip(every, run(graph, xs), strict=True):
            expected = np.asarray(prim.impl(*xs, axes=axes))
            assert_agree(found, expected, **tolerance(prim, xs, dtype), what=f"{name} of {shape} over {axes}")


@FLOATS
@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "argmax", "argmin"])
def test_reductions_of_edges(run, name, dtype):
    prim = PRIMITIVES[name]
    nan, inf = np.nan, np.inf
    rows: list[list[float]] = [
        [1, nan, 3, 4], [nan, nan, nan, nan], [inf, 1, 2, 3], [-inf, 1, 2, inf], [-inf] * 4, [inf, inf, 1, 2],
        [0, 1, inf, 2], [1, 1, 1, 1], [2, 3, 3, 1], [-1, -2, -2, -1], [3, 2, 1, nan], [-0.0, -0.0, -0.0, -0.0],
        [0.0, 0.0, 0.0, 0.0], [1e308, 1e308, -1e308, 1], [5, -5, 5, -5],
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        narrow = np.array(rows).astype(dtype)
    for x in (narrow, np.tile(narrow, 20)):
        for values, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
            graph = primitive_graph(prim, [Aval(dtype, values.shape)], axes=(axis,))
            (found,) = run(graph, [values])
            with np.errstate(all="ignore"):
                expected = np.asarray(prim.impl(values, axes=(axis,)))
            if name in ("reduce_sum", "reduce_prod"):  # sums that overflow on the way depend on the order
                keep = np.abs(values).max(axis=axis) != np.array(1e308, dtype)
                found, expected = found[keep], expected[keep]
            assert_agree(found, expected, ulps=64, what=f"{name} along axis {axis}")


@pytest.mark.parametrize("reverse", [False, True])
@FLOATS
def test_recurrence(run, dtype, reverse):
    rng = rng_for("linrec")
    prim = PRIMITIVES["linrec"]
    for shape in [(1,), (0,), (9,), (3, 1), (3, 0), (0, 3), (4, 50), (2, 3, 5)]:
        a, b = random_like([Aval(dtype, shape)] * 2, rng)
        graph = primitive_graph(prim, [Aval(dtype, shape)] * 2, reverse=reverse)
        (found,) = run(graph, [a, b])
        steps = range(shape[-1])[::-1] if reverse else range(shape[-1])
        expected, carry = np.zeros(shape, dtype), np.zeros(shape[:-1], dtype)
        for t in steps:
            expected[..., t] = carry = a[..., t] * carry + b[..., t]
        eps = float(np.finfo(dtype).eps)
        assert_agree(found, expected, ulps=16, atol=64 * eps * condition(expected))
        if a.size:
            a = np.ones_like(a)
            (found,) = run(graph, [a, b])
            flip = (..., slice(None, None, -1)) if reverse else (...,)
            assert_agree(found, np.cumsum(b[flip], axis=-1, dtype=dtype)[flip], ulps=4, atol=16 * eps * condition(b))


@pytest.mark.parametrize("layout", ["contiguous", "fortran", "every second", "backward", "unaligned"])
def test_memory_layout_of_inputs(run, layout):
    rng = rng_for(layout)
    x, y = random_like([Aval(F64, (5, 7))] * 2, rng)
    F = elementwise_by_name

    def program(a: Var, b: Var) -> list[Any]:
        c = F["add"](F["sin"](a), b)
        rows = bind(PRIMITIVES["reduce_sum"], c, axes=(1,))
        columns = bind(PRIMITIVES["reduce_sum"], c, axes=(0,))
        turned = bind(PRIMITIVES["transpose"], c, perm=(1, 0))
        return [c, rows, columns, turned, bind(PRIMITIVES["matmul"], a, b, ta=False, tb=True)]

    graph = make_graph([Aval(F64, (5, 7))] * 2, program)
    expected = evaluate(graph, [x, y])
    before = x.copy()
    given = layouts(x)[layout]
    for found, want in zip(run(graph, [given, layouts(y)[layout]]), expected, strict=True):
        assert_agree(found, want, ulps=4, atol=1e-14)
    assert np.array_equal(given, before)


def test_outputs_do_not_alias_inputs(kernel):
    graph = make_graph([Aval(F64, (4,))], lambda x: [x, bind(PRIMITIVES["reshape"], x, shape=(2, 2)), x])
    x = np.arange(4.0)
    found = kernel(graph, [x])
    for a, b in itertools.combinations([x, *found], 2):
        assert not np.shares_memory(a, b)


# ---- integers and booleans -------------------------------------------------------------------------------------

_INTEGERS = [np.dtype(n) for n in ("int64", "uint8", "bool", "int32", "int8", "uint64")]  # the quick tier has three


def _integer_applications() -> list[tuple[str, np.dtype]]:
    """(primitive, dtype) that the front door lets through with integer or bool operands."""
    result = []
    for prim in prims(lambda p: p.kind == ELEMENTWISE and p.name not in ("select", "cast")):
        for dtype in _INTEGERS:
            operands = [Var(Aval(dtype, (2,))) for _ in prim.domain]
            with building(Builder()) as builder:
                try:
                    elementwise_by_name.get(prim.name, lambda *x: None)(*operands, **prim.test.get("params", {}))
                except (UnsupportedError, GraphError):
                    continue
            if builder.nodes and builder.nodes[-1].prim is prim and builder.nodes[-1].inputs == tuple(operands):
                result.append((prim.name, dtype))
    return result


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), _integer_applications(), ids=str)
def test_integer_edges(run, name, dtype):
    prim = PRIMITIVES[name]
    if dtype == BOOL:
        column = [False, True]
    else:
        info = np.iinfo(dtype)
        negative = [-1, -7] if info.min else []
        column = sorted({0, 1, 2, 7, 100, info.max, info.max - 1, info.min, info.min + 1, *negative})
    rows = list(itertools.product(column, repeat=len(prim.domain)))
    if name == "pow":
        rows = [r for r in rows if 0 <= r[1] < 8]  # NumPy raises on negative integer powers
    xs = [np.array([r[i] for r in rows], dtype) for i in range(len(prim.domain))]
    graph = primitive_graph(prim, [Aval(dtype, x.shape) for x in xs])
    with np.errstate(all="ignore"):
        expected = prim.impl(*xs, **prim.test.get("params", {}))
    (found,) = run(graph, xs)
    assert_same_bits(found, expected, f"{name} of\n{np.array(xs)}\n")


@pytest.mark.parametrize("source", _DTYPES, ids=str)
def test_casts(run, source):
    def values(target: np.dtype) -> np.ndarray:
        if source.kind == "b":
            return np.array([False, True])
        if source.kind not in FLOAT_KINDS:
            info = np.iinfo(source)
            return np.array([0, 1, 100, info.min, info.max], source)
        plain = [0.0, -0.0, 1.0, 1.5, 2.9, 0.1, 100.7]
        negative = [-1.0, -1.5, -2.9] if target.kind != "u" else []
        special = [np.nan, np.inf, -np.inf, 1e30] if target.kind in ("b", *FLOAT_KINDS) else []
        with np.errstate(over="ignore"):
            return np.array([*plain, *negative, *special], source)

    xs = [values(target) for target in _DTYPES]

    def program(*v: Var) -> list[Any]:
        return [bind(PRIMITIVES["cast"], x, dtype=target) for x, target in zip(v, _DTYPES, strict=True)]

    graph = make_graph([Aval(source, x.shape) for x in xs], program)
    for x, target, found in zip(xs, _DTYPES, run(graph, xs), strict=True):
        with np.errstate(over="ignore"):
            expected = x.astype(target)
        assert_same_bits(found, expected, f"{x} to {target}")


@pytest.mark.parametrize("dtype", some(_INTEGERS, quick=2), ids=str)
def test_integer_reductions_and_views(run, dtype):
    rng = rng_for("integers")
    x = (rng.random((4, 6)) < 0.5) if dtype == BOOL else rng.integers(0, 100, (4, 6)).astype(dtype)
    aval = Aval(dtype, x.shape)
    names = ["reduce_max", "reduce_min", "argmax", "argmin"]
    names += ["reduce_or", "reduce_and"] if dtype == BOOL else ["reduce_sum", "reduce_prod"]
    for name in names:
        for axes in ((0,), (1,)):
            prim = PRIMITIVES[name]
            (found,) = run(primitive_graph(prim, [aval], axes=axes), [x])
            assert_same_bits(found, np.asarray(prim.impl(x, axes=axes)), name)
    program = {
        "transpose": {"perm": (1, 0)}, "slice": {"start": (3, 0), "step": (-2, 3), "shape": (2, 2)},
        "pad": {"start": (0, 1), "step": (2, 1), "shape": (8, 8)}, "reshape": {"shape": (3, 8)},
        "broadcast": {"shape": (2, 4, 6), "dims": (1, 2)},
    }  # fmt: skip
    for name, params in program.items():
        (found,) = run(make_graph([aval], lambda v, n=name, p=params: bind(PRIMITIVES[n], v, **p)), [x])
        assert_same_bits(found, np.asarray(PRIMITIVES[name].impl(x, **params)), name)
    if dtype != BOOL:
        (found,) = run(primitive_graph(PRIMITIVES["linrec"], [aval] * 2, reverse=False), [np.ones_like(x), x])
        assert_same_bits(found, np.cumsum(x, axis=1, dtype=dtype), "linrec")
        (found,) = run(primitive_graph(PRIMITIVES["matmul"], [aval] * 2, ta=False, tb=True), [x, x])
        assert_same_bits(found, x @ x.T, "matmul")


@pytest.mark.parametrize("dtype", [F64, F32, I64, BOOL], ids=str)
def test_indexing(run, dtype):
    rng = rng_for("indexing")
    x = rng.integers(0, 2 if dtype == BOOL else 50, (5, 3)).astype(dtype)
    for index in (np.array([4, 0, 0, 2]), np.array([], np.int64), np.array(3), np.array([[1, 1], [2, 4]])):
        v = rng.integers(0, 2 if dtype == BOOL else 50, (*index.shape, 3)).astype(dtype)
        avals = [Aval(dtype, x.shape), Aval(I64, index.shape), Aval(dtype, v.shape)]
        (found,) = run(primitive_graph(PRIMITIVES["gather"], avals[:2]), [x, index])
        assert_same_bits(found, x[index], "gather")
        expected = x.copy()
        expected[index] = v
        (found,) = run(primitive_graph(PRIMITIVES["scatter"], avals), [x, index, v])
        assert_same_bits(found, expected, "scatter")
        for name, ufunc in (("scatter_max", np.maximum), ("scatter_min", np.minimum)):
            expected = x.copy()
            ufunc.at(expected, index, v)
            (found,) = run(primitive_graph(PRIMITIVES[name], avals), [x, index, v])
            assert_same_bits(found, expected, name)
        if dtype != BOOL:
            expected = x.copy()
            np.add.at(expected, index, v)
            (found,) = run(primitive_graph(PRIMITIVES["scatter_add"], avals), [x, index, v])
            assert_same_bits(found, expected, "scatter_add")


def test_sorting_and_searching(run):
    x = np.array([[3.0, np.nan, -1.0, 3.0, -np.inf], [0.0, -0.0, 0.0, 5.0, 5.0]])
    (found,) = run(primitive_graph(PRIMITIVES["argsort"], [Aval(F64, x.shape)]), [x])
    assert_same_bits(found, np.argsort(x, axis=-1, kind="stable"))
    edges, values = np.array([0.0, 1.0, 1.0, 2.0]), np.array([-1.0, 0.0, 1.0, 1.5, 3.0, np.nan])
    for side in ("left", "right"):
        graph = primitive_graph(PRIMITIVES["searchsorted"], [Aval(F64, (4,)), Aval(F64, (6,))], side=side)
        assert_same_bits(run(graph, [edges, values])[0], np.searchsorted(edges, values, side=side))
    mask = np.array([False, True, False, True])
    graph = primitive_graph(PRIMITIVES["nonzero"], [Aval(BOOL, (4,))], count=2)
    assert_same_bits(run(graph, [mask])[0], np.array([1, 3]))


def test_slices_and_pads(run):
    rng = rng_for("slices")
    x = rng.standard_normal((5, 6))
    rows = [slice(None), slice(1, 4), slice(None, None, -1), slice(4, None, -2), slice(2, 2)]
    columns = [slice(None), slice(0, 6, 5), slice(5, 0, -3), slice(3, 4)]
    every = list(itertools.product(rows, columns))
    places, parts = [], []
    for index in every:
        ranges = [range(n)[s] for n, s in zip(x.shape, index, strict=True)]
        start = tuple(r[0] if len(r) else 0 for r in ranges)
        step = tuple(r.step if len(r) > 1 else 1 for r in ranges)
        places.append({"start": start, "step": step})
        parts.append(rng.standard_normal([len(r) for r in ranges]))
    names = ("slice", "pad", "update")

    def program(whole: Var, *small: Var) -> list[Any]:
        result = []
        for place, v in zip(places, small, strict=True):
            result.append(bind(PRIMITIVES["slice"], whole, **place, shape=v.shape))
            result.append(bind(PRIMITIVES["pad"], v, **place, shape=x.shape))
            result.append(bind(PRIMITIVES["update"], whole, v, **place))
        return result

    graph = make_graph([Aval(F64, x.shape), *[Aval(F64, v.shape) for v in parts]], program)
    found = iter(run(graph, [x, *parts]))
    for index, v in zip(every, parts, strict=True):
        padded, updated = np.zeros_like(x), x.copy()
        padded[index] = updated[index] = v
        for name, expected in zip(names, (x[index], padded, updated), strict=True):
            assert_same_bits(next(found), expected, f"{name} at {index}")


@FLOATS
@pytest.mark.parametrize("batch", [(), (3,), (2, 2), (0,)], ids=str)
def test_matmul_of_all_kinds(run, dtype, batch):
    rng = rng_for("matmul")
    sizes = ((2, 3, 4), (1, 1, 1), (0, 3, 2), (2, 0, 3), (5, 1, 2), (17, 9, 12)) if len(batch) < 2 else ((2, 3, 4),)
    flags = (False, True)
    every = list(itertools.product(sizes, flags, flags))
    xs, wanted = [], []
    for (m, k, n), ta, tb in every:
        x = rng.standard_normal((*batch, *((k, m) if ta else (m, k)))).astype(dtype)
        y = rng.standard_normal((*batch, *((n, k) if tb else (k, n)))).astype(dtype)
        xs += [x, y]
        wanted.append(np.matmul(np.swapaxes(x, -1, -2) if ta else x, np.swapaxes(y, -1, -2) if tb else y))

    def program(*v: Var) -> list[Any]:
        prim = PRIMITIVES["matmul"]
        return [bind(prim, v[2 * i], v[2 * i + 1], ta=ta, tb=tb) for i, (_, ta, tb) in enumerate(every)]

    found = run(make_graph([Aval(dtype, x.shape) for x in xs], program), xs)
    eps = float(np.finfo(dtype).eps)
    for case, a, b in zip(every, found, wanted, strict=True):
        atol = 64 * eps * max(case[0][1], 1) * 4
        assert_agree(a, b, atol=atol, signed_zeros=False, what=f"matmul of {case} in batches {batch}")


@FLOATS
@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@pytest.mark.parametrize(
    "sizes", [(100, 111, 90), (100, 112, 90), (100, 222, 90), (8, 15_700, 8), (300, 30, 200), (1, 2000, 700)], ids=str
)
def test_products_over_many_rows(run, dtype, batch, sizes):
    """The sum over k rows is taken in pieces, where it is large and the result small."""
    m, k, n = sizes
    rng = rng_for("matmul")
    x, y = (rng.standard_normal((*batch, k, columns)).astype(dtype) for columns in (m, n))
    graph = make_graph(
        [Aval(dtype, x.shape), Aval(dtype, y.shape)], lambda *v: [bind(PRIMITIVES["matmul"], *v, ta=True, tb=False)]
    )
    (found,) = run(graph, [x, y])
    wanted = np.matmul(np.swapaxes(x, -1, -2), y)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=8 * float(np.finfo(dtype).eps) * k)
