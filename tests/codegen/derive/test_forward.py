"""Forward mode of whole functions, and what it has to agree with: finite differences, reverse mode, itself in another
order.

``test_primitives.py`` has each row's tangent against finite differences and against its cotangents; here all second
derivatives of a row are one number.  Interpreted: what the kernels make of the nodes is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
import scipy.special
from functions import PROGRAMS, U, V, X, sampled
from programs import gradient_case, program
from selection import seeds
from support import (
    F64,
    assert_close,
    differentiated,
    directional,
    dot_graph,
    evaluate,
    float_inputs,
    grad_graph,
    jvp_graph,
    make_graph,
    prims,
    random_like,
)
from test_adjoint import SELECTIONS
from test_primitives import has_derivative, setup

import tracegrad as tg
from tracegrad.codegen.derive.adjoint import jvp, jvp_all, vjp_seeded
from tracegrad.codegen.derive.loop_adjoint import materialise
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.errors import UnsupportedError
from tracegrad.tracer.ir.graph import Atom, Builder, Graph, Node, Var, structural
from tracegrad.tracer.ops.elementwise import F
from tracegrad.tracer.ops.reduce import reduce
from tracegrad.tracer.record.array import TracedArray
from tracegrad.tracer.record.recorder import Recorder, recording


def push(nodes: Sequence[Node], y: Atom, xs: Sequence[Var], tangents: Sequence[Var]) -> Atom:
    """The tangent of the scalar *y*."""
    found = jvp_all(nodes, dict(zip(xs, tangents, strict=True)), [y]).get(y)  # type: ignore[call-overload]
    return structural(0, y.aval.dtype) if found is None else found


def pull(nodes: Sequence[Node], y: Atom, xs: Sequence[Var]) -> list[Atom]:
    """The gradient of the scalar *y*."""
    found, _ = vjp_seeded(nodes, [(y, structural(1, y.aval.dtype))], xs)
    return [materialise(g, x) for g, x in zip(found, xs, strict=True)]


def along(gradient: Sequence[Any], direction: Sequence[Any]) -> Any:
    return sum(float(np.sum(g * t)) for g, t in zip(gradient, direction, strict=True))


# ---- rows and random programs: the four ways to a second derivative ----------------------------------------------


def second_derivatives(scalar: Graph) -> Graph:
    """(inputs of *scalar*, directions u, v of the float inputs) -> u'Hv by forward over forward mode, and v over u; by
    forward over reverse; Hu by reverse over forward, and by twice reverse mode."""
    which = float_inputs(scalar)

    def transform(builder: Builder, inputs: list[Var], outs: list[Atom], more: list[Var]) -> list[Atom]:
        xs, (y,), u, v = [inputs[k] for k in which], outs, more[: len(which)], more[len(which) :]
        (first, other), gradient = [push(builder.nodes, y, xs, t) for t in (u, v)], pull(builder.nodes, y, xs)
        product: Atom = structural(0, y.aval.dtype)  # of the gradient and u, so that reverse mode is of a scalar
        for g, t in zip(gradient, u, strict=True):
            product = F.add(product, reduce("sum", F.mul(g, t), tuple(range(t.ndim))))
        forward = [push(builder.nodes, *to) for to in ((first, xs, v), (other, xs, u), (product, xs, v))]
        return [*forward, *pull(builder.nodes, first, xs), *pull(builder.nodes, product, xs)]

    avals = [scalar.inputs[k].aval for k in which]
    return differentiated(scalar, transform, [*avals, *avals])


def disagreement(scalar: Graph, point: Sequence[Any], rng: np.random.Generator, atol: float) -> str:
    """How the second derivatives of *scalar* differ; empty where they agree."""
    count, derived = len(float_inputs(scalar)), second_derivatives(scalar)
    directions = random_like([x.aval for x in derived.inputs[len(point) :]], rng)
    found = evaluate(derived, [*point, *directions])
    forward, across, twice = found[:3], found[3 : 3 + count], found[3 + count :]
    v = directions[count:]
    expected = along(twice, v)
    scale = 1 + sum(float(np.sum(np.abs(g * t))) for g, t in zip(twice, v, strict=True))
    values = [*map(float, forward), along(across, v)]
    return "" if np.allclose(values, expected, 1e-9, atol * scale) else f"{values}, {expected} by twice reverse mode"


@pytest.mark.parametrize("prim", prims(has_derivative), ids=lambda p: p.name)
def test_second_derivatives_of_rows_agree(prim):
    graph, xs, rng = setup(prim, F64)
    scalar = dot_graph(graph)
    point = [*xs, *random_like([x.aval for x in scalar.inputs[len(xs) :]], rng)]
    assert not disagreement(scalar, point, rng, 1e-10)


@pytest.mark.parametrize("first", seeds(60, quick=20, block=20))
def test_second_derivatives_of_random_programs_agree(first):
    for seed in range(first, first + 20):
        case, rng = program(seed), np.random.default_rng(seed)
        if gradient_case(case) is not None:
            scalar = dot_graph(case.graph)
            point = [*case.inputs, *random_like([x.aval for x in scalar.inputs[len(case.inputs) :]], rng)]
            assert not (found := disagreement(scalar, point, rng, 1e-9)), f"seed {seed}: {found}"


@pytest.mark.parametrize("case", SELECTIONS)
def test_along_one_element_what_where_leaves_out_is_zero(case):
    """(Tangents with exact zeros, at singular points and where the other branch overflows; first and second order.)"""
    program, x, expected = SELECTIONS[case]
    graph = make_graph([Aval(F64, (len(x),))], program)
    scalar = dot_graph(graph)
    second = jvp_graph(grad_graph(scalar))
    for k, slope in enumerate(expected):
        unit = np.eye(len(x))[k]
        assert_close(evaluate(jvp_graph(graph), [x, unit])[0], slope * unit, 1e-14)
        (curvature,) = evaluate(second, [x, np.ones(len(x)), unit, np.zeros(len(x))])
        assert np.all(np.isfinite(curvature)) and np.all(curvature[unit == 0] == 0)


# ---- whole functions ---------------------------------------------------------------------------------------------


def total(out: Any) -> Any:
    """A scalar of the results, in which no symmetry hides a term."""
    leaves = tg.tree.leaves(out)
    return sum(np.sum(y * np.cos(np.arange(np.size(y)).reshape(np.shape(y)) + k)) for k, y in enumerate(leaves))


class Derived:
    """The derivatives of a function of one array as one graph, of the point and two directions."""

    def __init__(self, function: Callable[..., Any]) -> None:
        with recording(Recorder()) as recorder:
            x, u, v = (recorder.add_input(a, name) for a, name in ((X, "x"), (U, "u"), (V, "v")))
            y = total(function(TracedArray(x, recorder))).atom

            first, (gradient,) = push(recorder.nodes, y, [x], [u]), pull(recorder.nodes, y, [x])
            twice = push(recorder.nodes, first, [x], [v])
            outputs = [y, first, gradient, twice, jvp(recorder.nodes, {x: v}, gradient)]
            outputs += [*pull(recorder.nodes, first, [x]), *pull(recorder.nodes, twice, [x])]
            self.graph = recorder.finish(outputs)

    def __call__(self, x: Any, u: Any, v: Any) -> list[Any]:
        return evaluate(self.graph, [x, u, v])


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives_of_functions(function):
    derived = Derived(function)
    value, first, gradient, twice, hvp, across, third = derived(X, U, V)
    plain = value if function is sampled else float(total(function(X)))
    assert_close(value, plain, 1e-12, 1e-12, "value")
    scale = 1 + np.max(np.abs(gradient))
    assert_close(first, np.sum(gradient * U), 1e-10, 1e-10 * scale, "reverse mode")
    assert_close(first, directional(lambda x: derived(x, U, V)[0], [X], [U]), 1e-6, 1e-7 * scale, "finite differences")
    scale += np.max(np.abs(hvp))
    assert_close(twice, np.sum(hvp * U), 1e-9, 1e-9 * scale, "forward over forward, over reverse")
    assert_close(twice, np.sum(across * V), 1e-9, 1e-9 * scale, "reverse over forward")
    assert_close(twice, directional(lambda x: derived(x, U, V)[1], [X], [V]), 1e-6, 1e-6 * scale, "second differences")
    expected = directional(lambda x: derived(x, U, V)[3], [X], [U])
    assert_close(np.sum(third * U), expected, 1e-5, 1e-5 * (scale + abs(expected)), "third order")


def test_a_missing_partial_is_an_error_only_where_a_tangent_flows():
    def function(x: Any) -> Any:
        return scipy.special.betainc(x[0], 2.0, np.array([0.3, 0.4])).sum() * x[1]

    with pytest.raises(UnsupportedError, match="betainc has no derivative with respect to its argument a"):
        Derived(function)
    Derived(lambda x: function(tg.stop_gradient(x)) * x[1])  # nothing flows there
    with recording(Recorder()) as recorder:
        x = recorder.add_input(X, "x")
        traced = TracedArray(x, recorder)
        unread, y = function(traced).atom, np.sin(traced[1]).atom
        assert y in jvp_all(recorder.nodes, {x: x}, [y])
        with pytest.raises(UnsupportedError, match=r"test_forward\.py"):
            jvp_all(recorder.nodes, {x: x}, [y, unread])
