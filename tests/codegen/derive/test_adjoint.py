"""What the adjoint promises beyond being right at ordinary points: kinks, ties, zeros, the branch not taken, orders.

Each of these runs in every tier (the fixture ``run``): the subgradient at a kink is part of the contract.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import (
    BOOL,
    F32,
    F64,
    I64,
    assert_agree,
    assert_close,
    directional,
    dot_graph,
    evaluate,
    float_inputs,
    grad_graph,
    jvp_graph,
    make_graph,
    random_like,
    replay,
    rng_for,
    vjp_graph,
)

from tracegrad.codegen.derive.adjoint import jvp, vjp
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import Builder, Graph, Lit, Var, bind, building, structural
from tracegrad.tracer.ir.primitive import PRIMITIVES
from tracegrad.tracer.ops.elementwise import CAST, F, broadcast_to
from tracegrad.tracer.ops.indexing import gather, take_along_last
from tracegrad.tracer.ops.product import contract_last, matmul
from tracegrad.tracer.ops.reduce import cumprod, cumsum, expand, linrec, reduce
from tracegrad.tracer.ops.shape import concat, reshape, slice_axis, transpose

INF, NAN = math.inf, math.nan


def total(x: Any) -> Any:
    return reduce("sum", x, tuple(range(x.ndim)))


def gradient(run: Any, program: Callable[..., Any], *xs: Any) -> list[np.ndarray]:
    """The gradients of the sum of *program* with respect to the float arguments; checked to agree with forward mode."""
    arrays = [np.asarray(x) for x in xs]
    graph = make_graph([Aval(x.dtype, x.shape) for x in arrays], lambda *inputs: total(program(*inputs)))
    result = run(grad_graph(graph), arrays)
    which = float_inputs(graph)
    if all(np.all(np.isfinite(g)) for g in result):
        rng = rng_for("tangents")
        tangents = random_like([arrays[i] for i in which], rng)
        (pushed,) = evaluate(jvp_graph(graph), [*arrays, *tangents])
        pulled = sum(float(np.sum(g * t)) for g, t in zip(result, tangents, strict=True))
        rough = F32 in (pushed.dtype, *[g.dtype for g in result])
        assert_close(pushed, pulled, 1e-5 if rough else 1e-9, 1e-5 if rough else 1e-9)
    return result


def same(found: Any, expected: Any) -> None:
    assert_agree(np.asarray(found), np.asarray(expected, dtype=np.asarray(found).dtype), ulps=8, signed_zeros=False)


# ---- the branch not taken contributes exactly zero ----------------------------------------------------------------

SAFE_SQRT = [4.0, 0.0, -1.0, 1.0]
SELECTIONS: dict[str, tuple[Callable[..., Any], list[float], list[float]]] = {
    "sqrt": (lambda x: F.select(F.gt(x, 0.0), F.sqrt(x), 0.0), SAFE_SQRT, [0.25, 0, 0, 0.5]),
    "log": (lambda x: F.select(F.gt(x, 0.0), F.log(x), x), [2.0, 0.0, -1.0], [0.5, 1, 1]),
    "reciprocal": (lambda x: F.select(F.ne(x, 0.0), F.reciprocal(x), 0.0), [2.0, 0.0], [-0.25, 0]),
    "division": (lambda x: F.select(F.ne(x, 0.0), F.div(F.sin(x), x), 1.0), [0.0], [0]),
    "exp overflow": (lambda x: F.select(F.lt(x, 100.0), F.exp(x), x), [0.0, 1000.0, INF], [1, 1, 1]),
    "pow": (lambda x: F.select(F.gt(x, 0.0), F.pow(x, 0.5), 0.0), SAFE_SQRT, [0.25, 0, 0, 0.5]),
    "sqrt of exp": (lambda x: F.select(F.lt(x, 10.0), F.sqrt(F.exp(x)), 1.0), [0.0, 2000.0], [0.5, 0]),
    "sum inside": (lambda x: F.select(F.gt(x, 0.0), F.mul(F.sqrt(x), 3.0) + F.log(x), 0.0), [1.0, 0.0], [2.5, 0]),
    "chain": (lambda x: F.select(F.gt(x, 1.0), F.log(F.sqrt(x - 1.0)), 0.0), [2.0, 1.0, 0.0], [0.5, 0, 0]),
    "arccosh": (lambda x: F.select(F.gt(x, 1.0), F.arccosh(x), 0.0), [1.0, 0.5], [0, 0]),
    "norm": (lambda x: F.select(F.gt(x, 9.0), x, F.hypot(x, F.mul(x, 0.0))), [0.0, 3.0], [0, 1]),
    "nested": (
        lambda x: F.select(F.gt(x, 0.0), F.select(F.gt(x, 1.0), F.log(x - 1.0), F.sqrt(x)), 0.0),
        [2.0, 0.25, 0.0, -3.0], [1, 1, 0, 0],
    ),
    "both read one root": (
        lambda x: F.select(F.gt(x, 0.0), F.sqrt(x), F.mul(F.sqrt(x), 0.0) * 0.0 + x), [4.0, 0.0], [0.25, 1]),
    "maximum": (lambda x: F.maximum(F.sqrt(x), 1.0), [4.0, 0.0], [0.25, 0]),
    "minimum": (lambda x: F.minimum(F.exp(x), 5.0), [0.0, 1000.0], [1, 0]),
    "safe argument": (lambda x: F.sqrt(F.select(F.gt(x, 0.0), x, 1.0)), [4.0, -1.0], [0.25, 0]),
    "xlogy": (lambda x: F.xlogy(F.mul(x, 0.0), x), [0.0, 2.0], [0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("case", SELECTIONS)
def test_branch_not_taken(run, case):
    program, x, expected = SELECTIONS[case]
    (found,) = gradient(run, program, np.array(x))
    same(found, expected)
    shaped = np.tile(np.array(x), (3, 1))
    (found,) = gradient(run, program, shaped)
    same(found, np.tile(np.array(expected, float), (3, 1)))


@pytest.mark.parametrize("case", ["sqrt", "log", "reciprocal", "chain", "nested", "pow"])
def test_branch_not_taken_second_order(run, case):
    program, x, _ = SELECTIONS[case]
    graph = make_graph([Aval(F64, (len(x),))], lambda v: total(program(v)))
    second = grad_graph(dot_graph(grad_graph(graph)))
    hessian_sum, _ = run(second, [np.array(x), np.ones(len(x))])
    taken = {"sqrt": 0, "log": 0, "reciprocal": 0, "chain": 1, "nested": 0, "pow": 0}[case]
    dead = np.array([v <= taken for v in x])
    assert np.all(np.isfinite(hessian_sum))
    assert np.all(hessian_sum[dead] == 0)


def test_what_indexing_leaves_out(run):
    # a singular point outside the slice that is used
    (found,) = gradient(run, lambda x: slice_axis(F.sqrt(x), 0, 1, 2), np.array([0.0, 4.0, 1.0]))
    same(found, [0, 0.25, 0.5])
    index = np.array([1, 1])
    (found,) = gradient(run, lambda x, i: gather(F.log(x), i), np.array([0.0, 4.0, -1.0]), index)
    same(found, [0, 0.5, 0])


# ---- kinks -----------------------------------------------------------------------------------------------------


def test_maximum_ties_are_halves(run):
    x, y = np.array([1.0, 2.0, 3.0, NAN, 1.0]), np.array([1.0, 1.0, 4.0, 1.0, NAN])
    for name, winner in (("maximum", [0.5, 1, 0, 1, 0]), ("minimum", [0.5, 0, 1, 1, 0])):
        a, b = gradient(run, lambda u, v, n=name: getattr(F, n)(u, v), x, y)
        same(a, winner)
        same(b, 1 - np.array(winner))
    for name, winner in (("fmax", [0.5, 1, 0, 0, 1]), ("fmin", [0.5, 0, 1, 0, 1])):
        a, b = gradient(run, lambda u, v, n=name: getattr(F, n)(u, v), x, y)
        same(a, winner)
        same(b, 1 - np.array(winner))
    a, b = gradient(run, F.maximum, np.array([INF, -INF, 0.0]), np.array([INF, -INF, -0.0]))
    same(a, [0.5] * 3)
    same(b, [0.5] * 3)


def test_relu_at_zero(run):
    (found,) = gradient(run, lambda x: F.maximum(x, 0.0), np.array([-1.0, 0.0, 2.0]))
    same(found, [0, 0.5, 1])


def test_abs_at_zero(run):
    (found,) = gradient(run, F.abs, np.array([0.0, -0.0, -2.0, 3.0]))
    same(found, [0, 0, -1, 1])


def test_norms_at_zero(run):
    zero = np.zeros(3)
    (found,) = gradient(run, lambda x: F.sqrt(total(x * x)), zero)
    same(found, zero)
    (found,) = gradient(run, lambda x: F.sqrt(total(F.square(x))), zero)
    same(found, zero)
    (found,) = gradient(run, lambda x: F.pow(total(F.square(x)), 0.5), zero)
    same(found, zero)
    a, b = gradient(run, F.hypot, np.array([0.0, 3.0]), np.array([0.0, 4.0]))
    same(a, [0, 0.6])
    same(b, [0, 0.8])


def test_rows_of_norms(run):
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    (found,) = gradient(run, lambda v: F.sqrt(reduce("sum", v * v, (1,))), x)
    same(found, [[0.6, 0.8], [0, 0]])


def test_pow_at_its_edges(run):
    x, y = np.array([0.0, 0.0, 0.0, 2.0, -2.0]), np.array([0.0, 1.0, 2.0, 3.0, 2.0])
    (dx,) = gradient(run, lambda v: F.pow(v, broadcast_to(Lit(2.0, F64), (5,))), x)
    same(dx, 2 * x)
    a, b = run(grad_graph(make_graph([Aval(F64, (5,))] * 2, lambda u, v: total(F.pow(u, v)))), [x, y])
    same(a, [0, 1, 0, 12, -4])
    same(b[:4], [0, 0, 0, 8 * math.log(2)])
    for n in (0, 1, 2, 3):
        (found,) = gradient(run, lambda v, n=n: F.integer_pow(v, n=n), np.array([0.0, -1.5, 2.0]))
        same(found, n * np.array([0.0, -1.5, 2.0]) ** max(n - 1, 0))


@pytest.mark.parametrize(("name", "pick"), [("max", np.max), ("min", np.min)])
def test_extreme_reductions_share_ties(run, name, pick):
    x = np.array([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [0.0, -0.0, -1.0, -1.0]])
    for axes in ((1,), (0,), (0, 1)):
        (found,) = gradient(run, lambda v, a=axes: reduce(name, v, a), x)
        mask = x == pick(x, axis=axes, keepdims=True)
        same(found, mask / mask.sum(axis=axes, keepdims=True))
    (found,) = gradient(run, lambda v: reduce(name, v, (0,)), np.array([1.0, NAN, 2.0]))
    same(found, [0, 1, 0])
    (found,) = gradient(run, lambda v: reduce(name, v, (0,)), np.array([INF, -INF, INF, -INF]))
    same(found, np.array([0.5, 0, 0.5, 0]) if name == "max" else np.array([0, 0.5, 0, 0.5]))


def test_clip(run):
    (found,) = gradient(run, lambda v: F.minimum(F.maximum(v, -1.0), 1.0), np.array([-2.0, 0.5, 7.0]))
    same(found, [0, 1, 0])


def test_piecewise_constants_have_zero_gradient(run):
    x = np.array([0.5, -1.25, 3.0])
    for name in ("floor", "ceil", "trunc", "rint", "sign"):
        (found,) = gradient(run, getattr(F, name), x)
        same(found, np.zeros(3))
    (found,) = gradient(run, lambda v: F.select(F.gt(v, 0.0), 1.0, 2.0), x)
    same(found, np.zeros(3))


def test_remainders(run):
    a, b = gradient(run, F.remainder, np.array([5.5, -5.5]), np.array([2.0, 2.0]))
    same(a, [1, 1])
    same(b, [-2, 3])
    a, b = gradient(run, F.fmod, np.array([5.5, -5.5]), np.array([2.0, 2.0]))
    same(b, [-2, 2])


def _mixed(run: Any, program: Callable[..., Any], x: float, y: float) -> float:
    """d2/dxdy of a function of two scalars."""
    first = grad_graph(make_graph([Aval(F64, ())] * 2, program))
    along_x = make_graph([Aval(F64, ())] * 2, lambda u, v: replay(first, [u, v])[0])
    return float(run(grad_graph(along_x), [x, y])[1])


def test_second_order_where_first_order_is_special(run):
    # rules that replace a partial at one point must not flatten it there
    assert_close(_mixed(run, F.pow, 2.0, 0.0), 0.5, 1e-14)
    assert_close(_mixed(run, F.pow, 2.0, 1.0), 1 + math.log(2), 1e-14)
    assert_close(_mixed(run, F.logaddexp, 0.0, 0.0), -0.25, 1e-14)
    assert_close(_mixed(run, F.logaddexp, 3.0, 3.0), -0.25, 1e-14)
    assert_close(_mixed(run, F.xlogy, 0.0, 2.0), 0.5, 1e-14)
    assert_close(_mixed(run, F.xlog1py, 0.0, 1.0), 0.5, 1e-14)
    assert_close(_mixed(run, F.mulz, 0.0, 2.0), 1.0, 1e-14)
    assert_close(_mixed(run, F.mulz, 2.0, 0.0), 1.0, 1e-14)


def test_logaddexp_of_infinities(run):
    a, b = gradient(run, F.logaddexp, np.array([INF, -INF, 0.0, -INF]), np.array([INF, -INF, -INF, 0.0]))
    same(a, [0.5, 0.5, 1, 0])
    same(b, [0.5, 0.5, 0, 1])


# ---- products and recurrences --------------------------------------------------------------------------------------


def _others(row: list[float]) -> list[float]:
    return [math.prod(row[:i] + row[i + 1 :]) for i in range(len(row))]


@pytest.mark.parametrize("row", [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 3.0, 0.0], [0.0], [-1.0, 0.5, 7.0, 0.0]])
def test_prod_with_zeros(run, row):
    (found,) = gradient(run, lambda v: reduce("prod", v, (0,)), np.array(row))
    same(found, _others(row))
    block = np.array([row, row[::-1]])
    for axes in ((1,), (0,), (0, 1)):
        (found,) = gradient(run, lambda v, a=axes: reduce("prod", v, a), block)
        moved = np.moveaxis(block, axes, range(len(axes))).reshape(math.prod(block.shape[a] for a in axes), -1)
        expected = np.array([_others(list(column)) for column in moved.T]).T
        back = [block.shape[a] for a in axes] + [n for a, n in enumerate(block.shape) if a not in axes]
        same(found, np.moveaxis(expected.reshape(back), range(len(axes)), axes))


def test_prod_second_order_with_zeros(run):
    graph = make_graph([Aval(F64, (3,))], lambda v: reduce("prod", v, (0,)))
    second = grad_graph(dot_graph(grad_graph(graph)))
    for x in ([2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0]):
        hessian = np.array([run(second, [np.array(x), row])[0] for row in np.eye(3)])
        expected = np.array([[0.0, x[2], x[1]], [x[2], 0.0, x[0]], [x[1], x[0], 0.0]])
        same(hessian, expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_cumulative(run, axis, reverse):
    x = np.array([[2.0, 0.0, 3.0, -1.0], [1.0, 4.0, 0.0, 0.0]])
    w = np.arange(1.0, 9.0).reshape(2, 4)

    def reference(values: np.ndarray, ufunc: Any) -> np.ndarray:
        flipped = np.flip(values, axis) if reverse else values
        result = ufunc.accumulate(flipped, axis=axis)
        return np.flip(result, axis) if reverse else result

    for function, ufunc in ((cumsum, np.add), (cumprod, np.multiply)):
        graph = make_graph([Aval(F64, x.shape)] * 2, lambda v, u, f=function: total(f(v, axis, reverse) * u))
        value, dx, dw = run(grad_graph(graph, with_value=True), [x, w])
        assert_close(value, np.sum(reference(x, ufunc) * w), 1e-13)
        assert_close(dw, reference(x, ufunc), 1e-13)
        for index in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[index] = 1
            expected = directional(lambda v, f=ufunc: np.sum(reference(v, f) * w), [x], [step])
            assert_close(dx[index], expected, 1e-9, 1e-9)


def test_linear_recurrence(run):
    rng = rng_for("recurrence")
    a, b = random_like([Aval(F64, (3, 5))] * 2, rng)
    for reverse in (False, True):
        gradient(run, lambda u, v, r=reverse: F.sin(linrec(u, v, r)), a, b)  # checks vjp against jvp
    gradient(run, linrec, np.zeros((2, 0)), np.zeros((2, 0)))
    gradient(run, linrec, np.ones((2, 1)), np.ones((2, 1)))


# ---- indexing and views --------------------------------------------------------------------------------------------


def test_update(run):
    x, v = np.arange(12.0).reshape(3, 4), np.array([[10.0, 20.0], [30.0, 40.0]])
    w = np.arange(1.0, 13.0).reshape(3, 4)

    def program(a: Any, b: Any, weights: Any) -> Any:
        return bind(PRIMITIVES["update"], a, b, start=(2, 1), step=(-2, 2)) * weights

    dx, dv, _ = gradient(run, program, x, v, w)
    expected = w.copy()
    expected[2::-2, 1::2] = 0
    same(dx, expected)
    same(dv, w[2::-2, 1::2])


def test_gather_and_scatter(run):
    x, index, v = np.arange(8.0).reshape(4, 2), np.array([2, 0, 2]), np.arange(10.0, 16.0).reshape(3, 2)
    w = np.arange(1.0, 7.0).reshape(3, 2)
    dx, _ = gradient(run, lambda a, i, u: gather(a, i) * u, x, index, w)
    expected = np.zeros((4, 2))
    np.add.at(expected, index, w)
    same(dx, expected)
    big = np.arange(1.0, 9.0).reshape(4, 2)
    dx, dv, _ = gradient(run, lambda a, i, b, u: bind(PRIMITIVES["scatter_add"], a, i, b) * u, x, index, v, big)
    same(dx, big)
    same(dv, big[index])
    dx, dv, _ = gradient(run, lambda a, i, b, u: bind(PRIMITIVES["scatter"], a, i, b) * u, x, index, v, big)
    keep = big.copy()
    keep[index] = 0
    same(dx, keep)
    same(dv, [[0, 0], big[0], big[2]])  # of two writes to row 2 the last is seen


def test_scatter_of_scalars_and_matrices_of_indices(run):
    x, index = np.arange(5.0), np.array([[1, 3], [3, 0]])
    v, w = np.array([[10.0, 20.0], [30.0, 40.0]]), np.arange(1.0, 6.0)
    dx, dv, _ = gradient(run, lambda a, i, b, u: bind(PRIMITIVES["scatter"], a, i, b) * u, x, index, v, w)
    same(dx, [0, 0, 3, 0, 5])
    same(dv, [[2, 0], [4, 1]])


def test_sort_by_permutation(run):
    x, w = np.array([[3.0, 1.0, 2.0], [2.0, 2.0, 0.0]]), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def program(v: Any, u: Any) -> Any:
        return take_along_last(v, bind(PRIMITIVES["argsort"], v, stable=True)) * u

    dx, _ = gradient(run, program, x, w)
    same(dx, [[3, 1, 2], [5, 6, 4]])


def test_views_move_cotangents(run):
    x, w = np.arange(24.0).reshape(2, 3, 4), np.arange(1.0, 25.0)
    dx, _ = gradient(run, lambda v, u: reshape(transpose(v, (2, 0, 1)), (24,)) * u, x, w)
    same(dx, np.transpose(w.reshape(4, 2, 3), (1, 2, 0)))
    a, b = np.ones((2, 1)), np.ones((2, 3))
    da, db, _ = gradient(run, lambda p, q, u: concat([p, q], 1) * u, a, b, np.arange(8.0).reshape(2, 4))
    same(da, [[0], [4]])
    same(db, [[1, 2, 3], [5, 6, 7]])
    (dx,) = gradient(run, lambda v: concat([v, v, v], 0), np.ones((2, 2)))
    same(dx, np.full((2, 2), 3))


BROADCASTS = [
    ((), (3,), ()), ((), (2, 3), ()), ((3,), (2, 3), (1,)), ((2,), (2, 3), (0,)), ((1,), (4,), (0,)),
    ((2, 1), (2, 3), (0, 1)), ((1, 1), (2, 3), (0, 1)),
    ((1, 3), (4, 2, 3), (1, 2)), ((3,), (3,), (0,)), ((1,), (1,), (0,)), ((0,), (2, 0), (1,)),
    ((1,), (0,), (0,)), ((), (0, 2), ()), ((2, 3), (2, 5, 3), (0, 2)), ((1,), (1, 1), (1,)),
]  # fmt: skip


@pytest.mark.parametrize(("source", "shape", "dims"), BROADCASTS, ids=str)
def test_broadcast(run, source, shape, dims):
    rng = rng_for("broadcast")
    x, w = rng.standard_normal(source), rng.standard_normal(shape)
    dx, dw = gradient(run, lambda v, u: bind(PRIMITIVES["broadcast"], v, shape=shape, dims=dims) * u, x, w)
    stretched = [a for a in range(len(shape)) if a not in dims or (source[dims.index(a)] == 1 and shape[a] != 1)]
    assert_close(dx, np.sum(w, axis=tuple(stretched)).reshape(source), 1e-13, 1e-14)
    assert dw.shape == shape


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (0,)], ids=str)
def test_matmul(run, batch):
    rng = rng_for("matmul")
    for (m, k, n), ta, tb in itertools.product(((2, 3, 4), (1, 3, 1), (2, 0, 3)), (False, True), (False, True)):
        x = rng.standard_normal((*batch, *((k, m) if ta else (m, k))))
        y = rng.standard_normal((*batch, *((n, k) if tb else (k, n))))
        w = rng.standard_normal((*batch, m, n))
        dx, dy, dw = gradient(run, lambda a, b, u, p=ta, q=tb: matmul(a, b, p, q) * u, x, y, w)
        plain_x, plain_y = (np.swapaxes(v, -1, -2) if t else v for v, t in ((x, ta), (y, tb)))
        ex, ey = w @ np.swapaxes(plain_y, -1, -2), np.swapaxes(plain_x, -1, -2) @ w
        assert_close(dw, plain_x @ plain_y, 1e-12, 1e-13)
        assert_close(dx, np.swapaxes(ex, -1, -2) if ta else ex, 1e-12, 1e-13)
        assert_close(dy, np.swapaxes(ey, -1, -2) if tb else ey, 1e-12, 1e-13)


def test_matrix_vector(run):
    rng = rng_for("matvec")
    x, y = rng.standard_normal((4, 3)), rng.standard_normal(3)
    dx, dy = gradient(run, lambda a, b: F.square(contract_last(a, b)), x, y)
    r = 2 * (x @ y)
    assert_close(dx, np.outer(r, y), 1e-12)
    assert_close(dy, x.T @ r, 1e-12)


# ---- what has no gradient ----------------------------------------------------------------------------------------


def test_integers_have_no_gradient(run):
    x, n, mask = np.array([1.0, 2.0, 3.0]), np.array([1, 2, 3]), np.array([True, False, True])

    def program(v: Any, k: Any, m: Any) -> Any:
        return F.select(m, F.mul(v, k), F.floor_divide(k, 2))

    found = gradient(run, program, x, n, mask)
    assert len(found) == 1
    same(found[0], [1, 0, 3])
    graph = make_graph([Aval(F64, (3,)), Aval(I64, (3,))], lambda v, k: total(F.mul(v, k)))
    with building(Builder()) as builder:
        for node in graph.nodes:
            builder.nodes.append(node)
        (ct,) = vjp(graph.nodes, graph.outputs[0], structural(1), [graph.inputs[1]])
    (value,) = evaluate(Graph(graph.inputs, builder.nodes, [ct]), [x, n])
    assert np.array_equal(value, np.zeros(3))  # the API refuses earlier; the transform itself sends nothing there


def test_no_gradient_through_integers(run):
    x = np.array([1.5, -2.5])
    (found,) = gradient(run, lambda v: F.mul(bind(CAST, bind(CAST, v, dtype=I64), dtype=F64), v), x)
    same(found, [1, -2])
    (found,) = gradient(run, lambda v: F.mul(bind(CAST, F.gt(v, 0.0), dtype=F64), v), x)
    same(found, [1, 0])


def test_argmax_is_data(run):
    x = np.array([[1.0, 5.0, 2.0], [7.0, 0.0, 7.0]])

    def program(v: Any) -> Any:
        best = bind(PRIMITIVES["argmax"], v, axes=(1,))
        return take_along_last(F.square(v), reshape(best, (2, 1)))

    (found,) = gradient(run, program, x)
    same(found, [[0, 10, 0], [14, 0, 0]])


def test_unrelated_and_constant(run):
    a, b = gradient(run, lambda u, v: F.sin(u), np.array([1.0, 2.0]), np.ones((2, 2)))
    assert_close(a, np.cos([1.0, 2.0]), 1e-14)
    same(b, np.zeros((2, 2)))
    (found,) = gradient(run, lambda u: broadcast_to(Lit(3.0, F64), (2,)), np.array([1.0, 2.0]))
    same(found, [0, 0])
    (found,) = gradient(run, lambda u: u, np.array([1.0, 2.0]))
    same(found, [1, 1])
    with building(Builder()) as builder:
        x = Var(Aval(F64, (2,)))
        (g,) = vjp(builder.nodes, x, broadcast_to(structural(1), (2,)), [x])
        t = jvp(builder.nodes, {x: structural(1)}, x)
    graph = Graph([x], builder.nodes, [g, t])
    for value in evaluate(graph, [np.zeros(2)]):
        same(value, [1, 1])


def test_casts(run):
    x = np.array([1.5, 2.5], np.float32)

    def program(v: Any) -> Any:
        return F.sin(bind(CAST, v, dtype=F64))

    (found,) = gradient(run, program, x)
    assert found.dtype == F32
    assert_close(found, np.cos(x), 1e-6)
    (found,) = gradient(run, lambda v: bind(CAST, F.sin(v), dtype=F32), x.astype(F64))
    assert found.dtype == F64


def test_one_value_used_often(run):
    (found,) = gradient(run, lambda v: v * v * v + F.sin(v) * v + v, np.array([0.7]))
    x = 0.7
    assert_close(found, [3 * x * x + math.cos(x) * x + math.sin(x) + 1], 1e-14)


# ---- orders --------------------------------------------------------------------------------------------------------

CLOSED_FORMS: dict[str, tuple[Callable[..., Any], list[Callable[[float], float]]]] = {
    "sin": (F.sin, [math.cos, lambda x: -math.sin(x), lambda x: -math.cos(x), math.sin]),
    "exp(x*x)": (
        lambda v: F.exp(v * v),
        [
            lambda x: 2 * x * math.exp(x * x),
            lambda x: (2 + 4 * x * x) * math.exp(x * x),
            lambda x: (12 * x + 8 * x**3) * math.exp(x * x),
        ],
    ),
    "x**5": (
        lambda v: F.integer_pow(v, n=5),
        [lambda x: 5 * x**4, lambda x: 20 * x**3, lambda x: 60 * x**2, lambda x: 120 * x],
    ),
    "x**2.5": (
        lambda v: F.pow(v, 2.5),
        [lambda x: 2.5 * x**1.5, lambda x: 3.75 * x**0.5, lambda x: 1.875 * x**-0.5],
    ),
    "log": (F.log, [lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3, lambda x: -6 / x**4]),
    "1/x": (lambda v: 1 / v, [lambda x: -1 / x**2, lambda x: 2 / x**3, lambda x: -6 / x**4]),
    "reciprocal": (F.reciprocal, [lambda x: -1 / x**2, lambda x: 2 / x**3, lambda x: -6 / x**4]),
    "sqrt": (F.sqrt, [lambda x: 0.5 * x**-0.5, lambda x: -0.25 * x**-1.5, lambda x: 0.375 * x**-2.5]),
    "expit": (
        F.expit,
        [
            lambda x: (s := 1 / (1 + math.exp(-x))) * (1 - s),
            lambda x: (s := 1 / (1 + math.exp(-x))) * (1 - s) * (1 - 2 * s),
            lambda x: (s := 1 / (1 + math.exp(-x))) * (1 - s) * (1 - 6 * s + 6 * s * s),
        ],
    ),
    "square": (F.square, [lambda x: 2 * x, lambda x: 2.0, lambda x: 0.0]),
    "tanh": (
        F.tanh,
        [
            lambda x: 1 - math.tanh(x) ** 2,
            lambda x: -2 * math.tanh(x) * (1 - math.tanh(x) ** 2),
            lambda x: (1 - math.tanh(x) ** 2) * (6 * math.tanh(x) ** 2 - 2),
        ],
    ),
}


@pytest.mark.parametrize("case", CLOSED_FORMS)
def test_derivatives_of_derivatives(run, case):
    program, derivatives = CLOSED_FORMS[case]
    graph = make_graph([Aval(F64, ())], program)
    forward = graph
    for order, expected in enumerate(derivatives, 1):
        graph = grad_graph(graph)
        pushed = jvp_graph(forward)
        forward = make_graph([Aval(F64, ())], lambda x, g=pushed: replay(g, [x, structural(1)])[0])
        for point in (0.3, 1.7):
            assert_close(run(graph, [point])[0], expected(point), 1e-11, 1e-12, f"reverse, order {order}")
            assert_close(run(forward, [point])[0], expected(point), 1e-11, 1e-12, f"forward, order {order}")


def test_hessian_of_rosenbrock(run):
    def rosenbrock(x: Any) -> Any:
        head, tail = slice_axis(x, 0, 0, 3), slice_axis(x, 0, 1, 3)
        return total(100.0 * F.square(tail - F.square(head)) + F.square(1.0 - head))

    graph = make_graph([Aval(F64, (4,))], rosenbrock)
    second = grad_graph(dot_graph(grad_graph(graph)))
    x = np.array([1.2, -0.3, 0.7, 2.0])
    hessian = np.array([run(second, [x, row])[0] for row in np.eye(4)])
    expected = np.zeros((4, 4))
    for i in range(3):
        expected[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        expected[i + 1, i + 1] += 200
        expected[i, i + 1] = expected[i + 1, i] = -400 * x[i]
    assert_close(hessian, expected, 1e-12, 1e-12)


def test_softmax_cross_entropy(run):
    rng = rng_for("softmax")
    x = rng.standard_normal((4, 6)) * 3
    label = np.eye(6)[[1, 0, 5, 1]]

    def loss(z: Any, y: Any) -> Any:
        shifted = z - expand(reduce("max", z, (1,)), z.shape, (1,))
        log_sum = F.log(reduce("sum", F.exp(shifted), (1,)))
        return reduce("sum", y * (expand(log_sum, z.shape, (1,)) - shifted), (1,))

    dx, _ = gradient(run, loss, x, label)
    exps = np.exp(x - x.max(axis=1, keepdims=True))
    assert_close(dx, exps / exps.sum(axis=1, keepdims=True) - label, 1e-12, 1e-13)


def test_several_outputs_share_the_tape():
    graph = make_graph([Aval(F64, (3,))], lambda x: [F.sin(x), total(F.exp(x))])
    x, w = np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0])
    found = evaluate(grad_graph(dot_graph(graph)), [x, w, np.float64(2.0)])[0]
    assert_close(found, w * np.cos(x) + 2 * np.exp(x), 1e-13)
    assert_close(evaluate(vjp_graph(graph, 1), [x, np.float64(1.0)])[0], np.exp(x), 1e-13)


def test_bool_inputs_only():
    graph = make_graph([Aval(BOOL, (2,))], lambda m: F.select(m, 1.0, 2.0))
    assert vjp_graph(graph).outputs == []
