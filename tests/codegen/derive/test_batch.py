"""Batching: a program of many rows at once gives what stacked calls for each row give, for every primitive.

The rows of the table are tested for every choice of the operands that differ from row to row: the interpreter judges
the rules, kernels run a table of them, derivatives of a batch are batches of derivatives.  Loops are in
``test_batched_loops.py``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from batched import batched, judge, row_by_row, stacked
from programs import program
from support import (
    BOOL,
    F32,
    F64,
    I64,
    assert_close,
    condition,
    evaluate,
    jvp_graph,
    make_graph,
    operand_avals,
    operand_values,
    primitive_graph,
    prims,
    random_like,
    rng_for,
    vjp_graph,
)

from tracegrad.codegen.derive.adjoint import vjp
from tracegrad.codegen.derive.batch import batch, batch_guards
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.axes import unrelated
from tracegrad.tracer.ir.errors import GraphError, ShapeError
from tracegrad.tracer.ir.graph import Builder, Graph, Guard, Pair, Var, bind, building, lanes, live_nodes
from tracegrad.tracer.ir.primitive import (
    CUSTOM,
    ELEMENTWISE,
    HOST,
    LAPACK,
    LOOP,
    PRIMITIVES,
    RECURRENCE,
    REDUCE,
    VIEW,
    Primitive,
    differentiable,
)
from tracegrad.tracer.ops.custom import custom_vjp
from tracegrad.tracer.ops.elementwise import F, broadcast_to
from tracegrad.tracer.ops.host_call import HostFunction, host_call
from tracegrad.tracer.ops.indexing import gather
from tracegrad.tracer.ops.product import contract_last, matmul
from tracegrad.tracer.ops.reduce import reduce
from tracegrad.tracer.ops.shape import transpose

ROWS = 3
TOLERANCE = {F64: 1e-12, F32: 2e-5}


def choices(count: int) -> list[tuple[bool, ...]]:
    """Which of *count* operands differ from row to row: at least one."""
    return [which for which in itertools.product([True, False], repeat=count) if any(which)]


def example(prim: Primitive, dtype: np.dtype) -> tuple[Graph, list[list[np.ndarray]]]:
    """One application of *prim*, and operands for each row."""
    graph = primitive_graph(prim, operand_avals(prim, dtype))
    rng = rng_for(prim.name)
    values = [operand_values(prim, [v.aval for v in graph.inputs], rng) for _ in range(ROWS)]
    if prim.name == "searchsorted":
        values = [[np.sort(points), numbers] for points, numbers in values]
    if prim.name == "nonzero":  # of as many True elements in each row
        values = [[np.roll([True, False, True, False], k)] for k in range(ROWS)]
    return graph, values


def test_every_primitive_is_tested() -> None:
    """What is not among the cases: rows of a table, which are elementwise, loops, and calls of Python's (below)."""
    tested = {p.name for p in prims()}
    rest = {p.kind for p in PRIMITIVES.values() if p.name not in tested and "table" not in p.test}
    assert rest <= {LOOP, "host", CUSTOM}
    assert {p.kind for p in PRIMITIVES.values() if "table" in p.test} == {ELEMENTWISE}


@pytest.mark.parametrize("prim", prims(), ids=lambda p: p.name)
@pytest.mark.parametrize("dtype", [F64, F32], ids=str)
def test_many_rows_are_stacked_calls(prim: Primitive, dtype: np.dtype) -> None:
    graph, values = example(prim, dtype)
    for which in choices(len(graph.inputs)):
        judge(graph, values, which, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


RULES_OF_THEIR_OWN = (
    "matmul", "matmulz", "gather", "scatter", "scatter_add", "scatter_max", "scatter_min", "searchsorted", "nonzero",
    "lu_solve",
)  # fmt: skip


@pytest.mark.parametrize(
    "kinds",
    [
        RULES_OF_THEIR_OWN,
        *[pytest.param(kinds, marks=pytest.mark.slow) for kinds in ((VIEW, REDUCE, RECURRENCE), (LAPACK,), (HOST,))],
    ],
    ids=lambda k: k[0],
)  # fmt: skip
def test_kernels_of_many_rows(kernel: Any, kinds: tuple[str, ...]) -> None:
    """One kernel for all primitives of some kinds, all choices of operands."""
    inputs, nodes, outputs = [], [], []
    given, expected = [], []
    for prim in prims(lambda p: p.kind in kinds or p.name in kinds):
        graph, values = example(prim, F64)
        for which in choices(len(graph.inputs)):
            many = batched(graph, which, ROWS)
            inputs, nodes, outputs = inputs + many.inputs, nodes + many.nodes, outputs + many.outputs
            given += stacked(values, which)
            expected += row_by_row(graph, values, which)
    assert len(outputs) > 5  # HOST has as many rows of our own; other tests may add some
    for ours, theirs in zip(kernel(Graph(inputs, nodes, outputs), given), expected, strict=True):
        assert_close(ours, theirs, 1e-10, 1e-10)


def has_derivative(prim: Primitive) -> bool:
    return differentiable(prim) and primitive_graph(prim, operand_avals(prim, F64)).outputs[0].aval.is_float


@pytest.mark.parametrize("prim", prims(has_derivative), ids=lambda p: p.name)
def test_derivatives_of_a_batch_are_a_batch_of_derivatives(prim: Primitive) -> None:
    graph, values = example(prim, F64)
    which, rng = [True] * len(graph.inputs), rng_for(prim.name)
    for derived in (vjp_graph, jvp_graph):
        row = derived(graph)
        further = [v.aval for v in row.inputs[len(which) :]]
        points = [[*xs, *random_like(further, rng)] for xs in values]
        every = [True] * len(points[0])
        expected = row_by_row(row, points, every)
        scale = 1e-11 * condition(*expected)
        judge(row, points, every, rtol=1e-10, atol=scale)  # the derivative first
        found = evaluate(derived(batched(graph, which, ROWS)), stacked(points, every))
        for ours, theirs in zip(found, expected, strict=True):  # the batch first
            assert_close(ours, theirs, 1e-10, scale)


# ---- programs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    case = program(seed)
    rng = np.random.default_rng(seed)
    count = len(case.inputs)
    for which in {(True,) * count, tuple(bool(b) for b in rng.random(count) < 0.5)} - {(False,) * count}:
        values = [case.inputs, [_near(x, rng) for x in case.inputs], case.inputs]
        judge(case.graph, values, which, rtol=1e-9, atol=1e-9)


def _near(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return x if x.dtype.kind != "f" else (x * rng.uniform(0.9, 1.1, x.shape)).astype(x.dtype)


# ---- products -------------------------------------------------------------------------------------------------------


def names(graph: Graph) -> Counter[str]:
    return Counter(node.prim.name for node in simplify(graph).nodes)


@pytest.mark.parametrize(("ta", "tb"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("which", choices(2))
def test_a_product_becomes_one_product(which: tuple[bool, bool], ta: bool, tb: bool) -> None:
    x, y = (5, 9) if ta else (9, 5), (7, 5) if tb else (5, 7)
    for batch_axes in ((), (2,)):
        shapes = [(*batch_axes, *x), (*batch_axes, *y)]
        graph = make_graph([Aval(F64, s) for s in shapes], lambda x, y: matmul(x, y, ta, tb))
        rng = np.random.default_rng(0)
        judge(graph, [[rng.normal(size=s) for s in shapes] for _ in range(4)], which, rtol=1e-12)
        many = batched(graph, which, 4)
        (product,) = [n for n in many.nodes if n.prim.name == "matmul"]
        assert product.out.aval.ndim == 2 + len(batch_axes) + all(which)
        assert names(many)["broadcast"] == 0


def network(w: Any, x: Any) -> Any:
    return reduce("sum", F.square(F.tanh(contract_last(transpose(w, (1, 0)), x))), (0,))


def test_products_with_a_vector_become_one_product_of_matrices() -> None:
    avals = [Aval(F64, (20, 30)), Aval(F64, (20,))]
    graph = make_graph(avals, network)
    assert names(graph)["matmul"] == 0
    rng = np.random.default_rng(0)
    values = [[rng.normal(size=(20, 30)), rng.normal(size=20)] for _ in range(9)]
    for which in choices(2):
        judge(graph, values, which, rtol=1e-11)
        assert names(batched(graph, which, 9))["matmul"] == (which == (False, True))
    gradient = vjp_graph(graph)
    which = (False, True, False)  # gradients per example
    points = [[*xs, np.float64(1)] for xs in values]
    judge(gradient, points, which, rtol=1e-11, atol=1e-11)
    assert names(batched(gradient, which, 9))["matmul"] == 2


@pytest.mark.parametrize("dtype", [F64, F32], ids=str)
def test_zero_times_infinity_is_zero_in_a_product_of_many_vectors(run: Any, dtype: np.dtype) -> None:
    """Where a factor may be infinite, the product with a vector is a sum of ``mulz``; that of many is ``matmulz``."""
    shapes = (10, 12), (12,)

    def program(w: Any, x: Any) -> Any:
        return reduce("sum", F.mulz(w, broadcast_to(x, (10, 12))), (1,))

    graph = make_graph([Aval(dtype, s) for s in shapes], program)
    assert names(batched(graph, (False, True), 9)) == {"matmulz": 1}
    rng = np.random.default_rng(0)
    w = rng.normal(size=shapes[0])
    w[0, 1], w[1, 2], w[2, 3], w[3, 4], w[4, 4] = np.inf, -np.inf, np.nan, 0, np.inf
    values = []
    for k in range(9):
        x = rng.normal(size=12)
        x[k % 5] = 0
        x[(k + 1) % 7] = (np.inf, 0, 1)[k % 3]
        values.append([w.astype(dtype), x.astype(dtype)])
    expected = row_by_row(graph, values, (False, True))[0]
    assert 0 < np.isnan(expected).sum() < np.isinf(expected).sum() < np.isfinite(expected).sum()
    judge(graph, values, (False, True), run, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_factors_that_are_the_same_in_all_rows_are_not_copied() -> None:
    prim = PRIMITIVES["lu_solve"]
    factors, b = Aval(F64, (4, 3)), Aval(F64, (3, 2))
    graph = make_graph([factors, b], lambda factors, b: bind(prim, factors, b, trans=False))
    (solve,) = [n for n in batched(graph, (False, True), 5).nodes if n.prim is prim]
    assert [a.aval.shape for a in solve.inputs] == [(4, 3), (3, 10)]


# ---- calls of Python's, rules of the user's -------------------------------------------------------------------------

CALLS: list[int] = []


def power(x: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    CALLS.append(x.size)
    assert not x.flags.writeable and k.shape == ()
    return x**k, np.array(x.size)


def power_rule(cts: Any, outs: Any, operands: Any) -> list[Any]:
    x, k = operands
    return [
        F.mul(cts[0], F.mul(k, F.pow(x, F.sub(k, 1.0)))),
        reduce("sum", F.mul(cts[0], F.mul(outs[0], F.log(x))), (0,)),
    ]


def power_graph() -> Graph:
    made = HostFunction(power, [Aval(F64, (3,)), Aval(I64, ())], "power", rule=power_rule)
    return make_graph([Aval(F64, (3,)), Aval(F64, ())], lambda x, k: host_call(made, [x, k], relied=False))


@pytest.mark.parametrize("which", choices(2))
def test_calls_of_python_go_row_by_row(run: Any, which: tuple[bool, ...]) -> None:
    values = [[np.arange(1.0, 4.0) + k, np.array(0.5 + k)] for k in range(4)]
    CALLS.clear()
    judge(power_graph(), values, which, run)
    assert CALLS == [3] * 8
    gradient = vjp_graph(power_graph())
    points = [[*xs, np.ones(3) + k] for k, xs in enumerate(values)]
    judge(gradient, points, (*which, True), run, rtol=1e-12)
    many = vjp_graph(batched(power_graph(), which, 4))
    found = evaluate(many, [*stacked(values, which), np.stack([xs[-1] for xs in points])])
    expected = row_by_row(gradient, points, (*which, True))
    for ours, theirs, differs in zip(found, expected, which, strict=True):
        np.testing.assert_allclose(ours, theirs if differs else theirs.sum(0), rtol=1e-12)


def test_functions_of_complex_numbers_go_row_by_row() -> None:
    def turned(z: np.ndarray, x: np.ndarray) -> np.ndarray:
        return z[::-1] * x

    z, C = [Aval(F64, (3,))] * 2, np.dtype("complex128")
    made = HostFunction(turned, [Aval(C, (3,))], "turned")
    graph = make_graph([*z, Aval(F64, ())], lambda a, b, x: lanes(host_call(made, [Pair(a, b, C), x], relied=False)[0]))
    rng = np.random.default_rng(0)
    values = [[rng.normal(size=3), rng.normal(size=3), rng.normal()] for _ in range(4)]
    for which in choices(3):
        judge(graph, values, which)


@pytest.mark.parametrize("which", choices(2))
def test_the_users_own_rule_is_batched(which: tuple[bool, bool]) -> None:
    """The cotangent of a value with a rule of its own, which is told apart from a right one."""

    def rule(cts: Any, outs: Any, operands: Any) -> list[Any]:
        shift = reduce("sum", F.mul(operands[0], outs[0]), (0,))
        return [F.add(F.mul(cts[0], 3.0), broadcast_to(shift, (4,))), lambda: F.mul(reduce("sum", cts[0], (0,)), shift)]

    x, w, ct = row = [Var(Aval(F64, s)) for s in ((4,), (), (4,))]
    xs, ws, cts = many = [Var(Aval(F64, (3, *v.aval.shape))) for v in row]
    differs = (*which, True)
    known = {v: r for v, r, d in zip(row, many, differs, strict=True) if d}
    with building(Builder()) as builder:
        (y,) = custom_vjp([F.mul(F.sin(x), broadcast_to(w, (4,)))], [x, w], rule)
        result = F.mul(y, y)
        forward = list(builder.nodes)
        first = vjp(forward, result, ct, [x, w])
        derived = list(builder.nodes)
        found = batch(derived, known, 3)
        second = batch(forward, known, 3)
        then = vjp(list(builder.nodes), second[result], cts, [xs if which[0] else x, ws if which[1] else w])
    rng = np.random.default_rng(0)
    values = [random_like([v.aval for v in row], rng) for _ in range(3)]
    expected = row_by_row(Graph(row, derived, first), values, differs)
    inputs = [r if d else v for v, r, d in zip(row, many, differs, strict=True)]
    for outputs in ([found[ct] for ct in first], then):
        made = evaluate(Graph(inputs, live_nodes(builder.nodes, outputs), outputs), stacked(values, differs))
        for ours, theirs in zip(made, expected, strict=True):
            np.testing.assert_allclose(ours, theirs if ours.shape == theirs.shape else theirs.sum(0), rtol=1e-12)


# ---- what is asked of the values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "expected", "held"),
    [
        ([True, True], True, True), ([True, False], True, False), ([False, False], False, True),
        ([False, True], False, False), ([2, 2], 2, True), ([2, 3], 2, False), ([0.0, 0.0], 0.0, True),
        ([0.0, -0.0], 0.0, False), ([np.nan, np.nan], np.nan, True), ([np.nan, 1.0], np.nan, False),
    ],
)  # fmt: skip
def test_guards_of_a_batch(rows: Any, expected: Any, held: bool) -> None:
    array = np.array(rows)
    answers = np.asarray(expected, array.dtype)
    atom, other = Var(Aval(array.dtype, ())), Var(Aval(BOOL, ()))
    many = Var(Aval(array.dtype, array.shape))
    guards = [Guard(atom, answers[()], "item", None, 7), Guard(other, np.True_, "bool", None)]
    with building(Builder()) as builder:
        found, same = batch_guards(guards, {atom: many})
    assert same is guards[1]
    assert (found.kind, found.position, bool(found.expected), found.atom.aval) == ("item", 7, True, Aval(BOOL, ()))
    assert evaluate(Graph([many], builder.nodes, [found.atom]), [array])[0] == held


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (4, 2), (3, 2, 1), (2, 3)])
def test_ragged_sizes_are_refused(shape: tuple[int, ...]) -> None:
    x = Var(Aval(F64, (2,)))
    with building(Builder()) as builder:
        F.sin(x)
        with pytest.raises(ShapeError, match=r"3 rows of f64\[2\]"):
            batch(list(builder.nodes), {x: Var(Aval(F64, shape))}, 3)


def test_a_primitive_without_a_rule_is_named() -> None:
    def infer(x: Aval) -> Aval:
        return x

    prim = Primitive("twist", VIEW, lambda x: x, infer, axes=unrelated)
    x = Var(Aval(F64, (2,)))
    with building(Builder()) as builder:
        y = bind(prim, x)
        with pytest.raises(GraphError, match="twist has no rule"):
            batch(list(builder.nodes), {x: Var(Aval(F64, (3, 2)))}, 3)
    assert y.aval.shape == (2,)


def test_what_is_the_same_in_all_rows_is_computed_once() -> None:
    graph = make_graph([Aval(F64, (3,))] * 2, lambda x, y: [F.mul(F.exp(x), y), F.exp(x)])
    many = batched(graph, (False, True), 5)
    assert [n.out.aval.shape for n in many.nodes if n.prim.name == "exp"] == [(3,)]
    assert many.outputs[1].aval.shape == (3,)


@pytest.mark.parametrize("size", [0, 1])
def test_no_row_and_one(size: int) -> None:
    graph = make_graph(
        [Aval(F64, (4, 3)), Aval(I64, (2,))],
        lambda x, index: reduce("sum", matmul(gather(x, index), transpose(x, (1, 0))), (1,)),
    )
    for which in choices(2):
        many = batched(graph, which, size)
        rng = np.random.default_rng(0)
        given = [rng.normal(size=(size, 4, 3)), rng.integers(0, 4, (size, 2))]
        given = [
            x if rows else np.ones(v.aval.shape, x.dtype) for x, v, rows in zip(given, graph.inputs, which, strict=True)
        ]
        assert evaluate(many, given)[0].shape == (size, 2)
