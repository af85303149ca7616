"""Rules of which one form was written have the other one by transposing it, and derivatives of any order through both.

Interpreted: what the kernels make of the nodes is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support import F64, assert_close, dot_graph, evaluate, jvp_graph, make_graph, vjp_graph

from tracegrad.codegen.derive.adjoint import transpose_linear
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.errors import DifferentiationError
from tracegrad.tracer.ir.graph import Builder, Graph, Lit, Var, building, live_nodes
from tracegrad.tracer.ir.primitive import PRIMITIVES
from tracegrad.tracer.ops.control import loop
from tracegrad.tracer.ops.custom import CUSTOM_VJP, custom_vjp
from tracegrad.tracer.ops.elementwise import F
from tracegrad.tracer.ops.host_call import HostFunction, host_call
from tracegrad.tracer.ops.product import matmul
from tracegrad.tracer.ops.reduce import reduce
from tracegrad.tracer.ops.shape import reshape, zeros

VECTOR = Aval(F64, (3,))
X, W = np.array([0.5, -1.25, 2.0]), np.array([1.5, 0.75, -0.5])


@pytest.fixture(autouse=True)
def _in_the_registry(monkeypatch):
    monkeypatch.setitem(PRIMITIVES, CUSTOM_VJP.name, CUSTOM_VJP)  # for the check of graphs


def cubes(x: Var, w: Var) -> tuple[Var, Var]:
    """x³ w and its sum with x, which the rules below give the derivatives of 2 x³ w and of sum(x w)."""
    return F.mul(F.mul(x, F.mul(x, x)), w), reduce("sum", F.add(x, w), (0,))


def cube_rule(cts: Sequence[Any], outs: Sequence[Var], atoms: Sequence[Any]) -> list[Any]:
    x, w = atoms
    first = zeros((3,), F64) if cts[0] is None else cts[0]
    second = Lit(0.0, F64) if cts[1] is None else cts[1]
    dx = F.add(F.mulz(first, 6 * F.mul(F.mul(x, x), w)), F.mul(second, w))
    return [dx, lambda: F.add(F.mulz(first, 2 * F.mul(x, F.mul(x, x))), F.mul(second, x))]


def cube_push(tangents: Sequence[Any], outs: Sequence[Var], atoms: Sequence[Any]) -> list[Any]:
    x, w = atoms
    dx, dw = [zeros((3,), F64) if t is None else t for t in tangents]
    first = F.add(F.mul(dx, 6 * F.mul(F.mul(x, x), w)), F.mul(dw, 2 * F.mul(x, F.mul(x, x))))
    return [first, reduce("sum", F.add(F.mul(dx, w), F.mul(dw, x)), (0,))]


def loop_rule(cts: Sequence[Any], outs: Sequence[Var], atoms: Sequence[Any]) -> list[Any]:
    """The first rule as a loop over the elements, with a carry that the cotangents have no part in."""
    x, w = atoms
    first = zeros((3,), F64) if cts[0] is None else cts[0]
    second = Lit(0.0, F64) if cts[1] is None else cts[1]
    c, xi, wi, ct = (Var(Aval(F64, ())) for _ in range(4))
    with building(Builder()) as body:
        square = F.mul(c, F.mul(xi, xi))
        ends = [F.mul(F.sqrt(c), c), F.mul(ct, F.mul(6 * square, wi)), F.mul(ct, F.mul(2 * square, xi))]
    graph = Graph([c, xi, wi, ct], body.nodes, ends)
    _, dx, dw = loop(graph, [], [Lit(1.0, F64)], [x, w, first], 3, False)
    return [F.add(dx, F.mul(second, w)), F.add(dw, F.mul(second, x))]


FORMS: dict[str, tuple[Any, Any]] = {
    "reverse": (cube_rule, None), "forward": (None, cube_push), "both": (cube_rule, cube_push),
    "loop": (loop_rule, None),
}  # fmt: skip


def program(form: str) -> Callable[..., Any]:
    def run(x: Var, w: Var) -> Any:
        y, total = custom_vjp(list(cubes(x, w)), [x, w], *FORMS[form])
        return F.add(reduce("sum", F.mul(F.sin(y), w), (0,)), F.mul(total, total))

    return run


def graph_of(form: str) -> Graph:
    return make_graph([VECTOR, VECTOR], program(form))


@pytest.mark.parametrize("form", FORMS)
def test_first_order(form):
    graph = graph_of(form)
    rng = np.random.default_rng(0)
    t, s = rng.normal(size=(2, 3))
    y, total = X**3 * W, np.sum(X + W)
    dy, dtotal = 6 * X**2 * W * t + 2 * X**3 * s, np.sum(W * t + X * s)
    expected = np.sum(np.cos(y) * W * dy + np.sin(y) * s) + 2 * total * dtotal
    (pushed,) = evaluate(jvp_graph(graph), [X, W, t, s])
    assert_close(pushed, expected, 1e-12, 1e-12)
    gx, gw = evaluate(vjp_graph(graph), [X, W, np.array(1.0)])
    assert_close(np.sum(gx * t) + np.sum(gw * s), expected, 1e-12, 1e-12)


@pytest.mark.parametrize("form", ["reverse", "forward", "loop"])
def test_higher_orders_agree_with_both_forms_written(form):
    for chain in ("ff", "fr", "rf", "rr", "fff", "rfr", "frf"):
        results = []
        for one in (form, "both"):
            graph, values = graph_of(one), [X, W]
            for k, step in enumerate(chain):
                graph = jvp_graph(graph) if step == "f" else dot_graph(vjp_graph(graph))
                more = [np.random.default_rng(k).normal(size=v.aval.shape) for v in graph.inputs[len(values) :]]
                values += more
            results.append(evaluate(graph, values)[0])
        assert_close(*results, 1e-11, 1e-11, chain)


def test_in_the_body_of_a_loop():
    def program(form: str) -> Any:
        def run(x: Var, w: Var) -> Any:
            c, wi = Var(VECTOR), Var(VECTOR)
            with building(Builder()) as body:
                y, total = custom_vjp(list(cubes(F.sin(c), wi)), [c, wi], *FORMS[form])
                end = F.add(F.mul(y, y), F.mul(c, total))
            final, *_ = loop(Graph([wi, c], body.nodes, [end]), [w], [x], [], 3, False)
            return reduce("sum", final, (0,))

        return make_graph([VECTOR, VECTOR], run)

    t, s = np.random.default_rng(2).normal(size=(2, 3))
    graphs = {form: program(form) for form in ("reverse", "forward", "both")}
    pushed = [evaluate(jvp_graph(g), [X, W, t, s])[0] for g in graphs.values()]
    pulled = [evaluate(vjp_graph(g), [X, W, np.array(1.0)]) for g in graphs.values()]
    for found in [*pushed, *[np.sum(gx * t) + np.sum(gw * s) for gx, gw in pulled]]:
        assert_close(found, pushed[-1], 1e-11, 1e-11)


def test_host_call_with_a_rule():
    def rule(cts: Any, outs: Any, atoms: Any) -> Any:
        return [F.mul(F.mul(cts[0], 3.0), F.mul(atoms[0], atoms[0])) + F.mul(cts[1], F.exp(atoms[0]))]

    def run(x: Var) -> Any:
        function = HostFunction(lambda x: (x**3, np.exp(x)), [VECTOR, VECTOR], "cube", rule=rule)
        with building(Builder()) as builder:
            builder.nodes = current
            a, b = host_call(function, [x], relied=False)
        return F.mul(a, b)

    x = Var(VECTOR)
    with building(Builder()) as builder:
        current = builder.nodes
        y = run(x)
    graph = Graph([x], live_nodes(builder.nodes, [y]), [y])
    t, s = W, np.array([0.25, 1.0, -1.0])
    first = (3 * X**2 + X**3) * np.exp(X)
    second = (6 * X + 6 * X**2 + X**3) * np.exp(X)
    assert_close(evaluate(jvp_graph(graph), [X, t])[0], first * t, 1e-12, 1e-12)
    twice = evaluate(jvp_graph(jvp_graph(graph)), [X, t, s, np.zeros(3)])[0]
    assert_close(twice, second * t * s, 1e-12, 1e-12)
    assert_close(evaluate(vjp_graph(jvp_graph(graph)), [X, t, s])[0], second * t * s, 1e-12, 1e-12)
    assert_close(evaluate(jvp_graph(vjp_graph(graph)), [X, s, t, np.zeros(3)])[0], second * t * s, 1e-12, 1e-12)


def test_without_any_rule_the_error_is_at_the_call_and_only_where_a_tangent_is_asked_for():
    def run(x: Var) -> Any:
        function = HostFunction(np.sin, [VECTOR], "opaque")
        return host_call(function, [x], relied=False)[0]

    graph = make_graph([VECTOR], run)
    with pytest.raises(DifferentiationError, match="opaque has no derivative"):
        jvp_graph(graph)
    # the values that a rule is given for are not derived
    named = make_graph(
        [VECTOR], lambda x: custom_vjp([run(x)], [x], lambda cts, outs, xs: [F.mul(cts[0], F.cos(xs[0]))])[0]
    )
    assert_close(evaluate(jvp_graph(named), [X, W])[0], np.cos(X) * W, 1e-15, 1e-15)


@pytest.mark.parametrize("order", [1, 2])
def test_a_rule_that_is_not_linear_is_refused(order):
    def rule(cts: Any, outs: Any, atoms: Any) -> Any:
        return [F.mul(F.mul(cts[0], cts[0]), atoms[0]) if order == 2 else F.select(F.gt(cts[0], 0.0), cts[0], 0.0)]

    graph = make_graph([VECTOR], lambda x: custom_vjp([F.sin(x)], [x], rule)[0])
    with pytest.raises(DifferentiationError, match="not linear"):
        jvp_graph(graph)


def test_transpose_of_a_linear_program():
    m = Aval(F64, (3, 3))
    a, x = Var(m), Var(VECTOR)
    with building(Builder()) as builder:
        coefficients = F.sin(a)
        nodes = len(builder.nodes)
        y = F.mul(reshape(matmul(coefficients, reshape(x, (3, 1))), (3,)), F.exp(reduce("sum", a, (0,))))
        z = reduce("sum", F.add(x, x), (0,))
        program = builder.nodes[nodes:]
        ct_y, ct_z = Var(VECTOR), Var(Aval(F64, ()))
        (found,) = transpose_linear(program, [y, z], [x], [ct_y, ct_z])
        (none,) = transpose_linear(program, [y, z], [x], [None, None])
    assert none is None
    assert found is not None
    graph = Graph([a, ct_y, ct_z], live_nodes(builder.nodes, [found]), [found])
    rng = np.random.default_rng(3)
    values, ct = rng.normal(size=(3, 3)), rng.normal(size=3)
    expected = np.sin(values).T @ (ct * np.exp(values.sum(0))) + 2 * 0.5
    assert_close(evaluate(graph, [values, ct, np.array(0.5)])[0], expected, 1e-12, 1e-12)
    with building(Builder()) as builder, pytest.raises(DifferentiationError, match=r"f is not linear"):
        y = F.mul(x, x)
        transpose_linear(builder.nodes, [y], [x], [ct_y], "f")
