"""Sums of many padded parts are put together: the same bits, and code in proportion to the parts."""

from __future__ import annotations

import numpy as np
import pytest
from support import evaluate, make_graph

from tracegrad import compile_grad
from tracegrad.codegen.cpu import jit
from tracegrad.codegen.lower import joined_pads
from tracegrad.codegen.lower.joined_pads import FEW, join_pads
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import bind
from tracegrad.tracer.ops.elementwise import F
from tracegrad.tracer.ops.shape import PAD

F64 = np.dtype("float64")
NUMBERS = (-0.0, 0.0, 1.5, -2.25, np.nan, np.inf)


def sum_of(shape, boxes, dense=(), step=1):
    """The graph of a sum of parts at *boxes* (starts, sizes), and of whole arrays before the parts numbered *dense*."""
    avals = [Aval(F64, sizes) for _, sizes in boxes] + [Aval(F64, shape) for _ in dense]

    def build(*values):
        parts, wholes = values[: len(boxes)], iter(values[len(boxes) :])
        total = None
        for k, ((starts, _), part) in enumerate(zip(boxes, parts, strict=True)):
            terms = [next(wholes)] if k in dense else []
            terms.append(bind(PAD, part, start=starts, step=(step,) * len(shape), shape=shape))
            for term in terms:
                total = term if total is None else F.add(total, term)
        return [total]

    return make_graph(avals, build)


def random_boxes(rng, shape, count, width):
    sizes = [tuple(int(rng.integers(0, min(width, n) + 1)) for n in shape) for _ in range(count)]
    return [(tuple(int(rng.integers(0, n - m + 1)) for n, m in zip(shape, s, strict=True)), s) for s in sizes]


def same_bits(graph, joined, rng):
    arrays = [rng.choice(NUMBERS, x.aval.shape) for x in graph.inputs]
    (before,), (after,) = evaluate(graph, arrays), evaluate(joined, arrays)
    nan = np.isnan(before)
    return np.array_equal(nan, np.isnan(after)) and before[~nan].tobytes() == after[~nan].tobytes()


@pytest.mark.parametrize(
    ("shape", "width", "dense"),
    [((90,), 4, ()), ((90,), 3, (0, 7)), ((40, 3), 2, ()), ((30, 20), 2, (5,)), ((20,), 1, ()), ((3, 5, 6), 2, ())],
)
def test_pieces_have_the_bits_of_the_sum(shape, width, dense, monkeypatch):
    monkeypatch.setattr(joined_pads, "TERMS", 1_000)
    rng = np.random.default_rng(len(shape) + width)
    for count in (FEW + 1, 40):
        graph = sum_of(shape, random_boxes(rng, shape, 4 * count, width), dense)
        joined = join_pads(graph)
        assert "concat" in {node.prim.name for node in joined.nodes} and joined is not graph
        assert all(same_bits(graph, joined, rng) for _ in range(5))


def test_sums_that_stay():
    """One part, few parts that overlap, parts with gaps, parts that overlap much, and the pads of stencils."""
    one = sum_of((90,), [((5,), (3,))], dense=(0,))
    few = sum_of((90,), [((5 * k,), (3 if k else 6,)) for k in range(FEW)])
    gaps = sum_of((90,), [((2 * k,), (3,)) for k in range(30)], step=2)
    long = sum_of((90,), [((k,), (40,)) for k in range(50)])
    stencil = sum_of((90,), [((k % 3,), (88,)) for k in range(40)])
    for graph in (one, few, gaps, long, stencil):
        assert join_pads(graph) is graph


@pytest.mark.parametrize("dense", [(), (1,)])
def test_few_parts_beside_each_other_are_put_together(dense):
    graph = sum_of((9, 60), [((0, 40), (9, 20)), ((0, 0), (9, 15)), ((2, 15), (3, 20))], dense)
    joined = join_pads(graph)
    assert PAD not in [node.prim for node in joined.nodes]
    assert all(same_bits(graph, joined, np.random.default_rng(k)) for k in range(5))


def test_a_sum_that_is_read_on_the_way_stays_apart():
    def build(*parts):
        total, read = None, None
        for k, part in enumerate(parts):
            term = bind(PAD, part, start=(2 * k,), step=(1,), shape=(100,))
            total = term if total is None else F.add(total, term)
            read = total if k == 24 else read
        return [F.mul(total, read)]

    graph = make_graph([Aval(F64, (2,))] * 50, build)
    joined = join_pads(graph)
    assert [node.prim.name for node in joined.nodes].count("concat") == 2
    assert same_bits(graph, joined, np.random.default_rng(0))


def parts(n):
    """(a function that reads *n* parts of one vector, the vector)"""
    sizes = np.random.default_rng(1).integers(1, 9, n)
    ends = np.cumsum(sizes).tolist()
    kinds = np.random.default_rng(2).integers(0, 3, n).tolist()

    def f(w):
        total, begin = 0.0, 0
        for end, kind in zip(ends, kinds, strict=True):
            part = w[begin:end]
            total = total + np.sum(np.sin(part) if kind == 0 else part**3 if kind == 1 else np.exp(part)) * part[0]
            begin = end
        return total

    return f, np.random.default_rng(3).standard_normal(ends[-1])


KINDS = "".join(np.random.default_rng(9).choice(["s", "c"], 64))  # no block repeats, so nothing is rolled


def elements(n):
    others = np.random.default_rng(4).integers(0, n, n).tolist()

    def f(w):
        total = 0.0
        for k, other in enumerate(others):
            total = total + (np.sin(w[k]) * w[other] if KINDS[k % 64] == "s" else w[k] * np.cos(w[other]))
        return total

    return f, np.random.default_rng(5).standard_normal(n)


def rows(n):
    others = np.random.default_rng(6).integers(0, n, n).tolist()

    def f(w):
        total = 0.0
        for k, other in enumerate(others):
            total = total + np.sum(np.sin(w[k]) * w[other] if KINDS[k % 64] == "s" else w[k] * np.cos(w[other]))
        return total

    return f, np.random.default_rng(7).standard_normal((n, 3))


SLOW = [pytest.param(made, marks=pytest.mark.slow) for made in (parts, rows)]


@pytest.mark.parametrize("made", [elements, *SLOW])
def test_code_of_the_gradient_grows_as_the_parts_do(made, monkeypatch, fresh_kernels):
    lines = []
    real = jit.compile_text
    monkeypatch.setattr(jit, "compile_text", lambda t, name: (lines.append(t.count("\n")), real(t, name))[1])
    found = []
    for n in (80, 160):
        f, w = made(n)
        lines.clear()
        value, gradient = compile_grad(f).value_and_grad(w)
        found.append(max(lines))
        np.testing.assert_allclose(value, f(w), rtol=1e-12)
        ahead = np.random.default_rng(8).standard_normal(w.shape)
        slope = (f(w + 1e-6 * ahead) - f(w - 1e-6 * ahead)) / 2e-6
        np.testing.assert_allclose(np.sum(gradient * ahead), slope, rtol=1e-6, atol=1e-6)
        with monkeypatch.context() as patched:
            patched.setattr(joined_pads, "FEW", 10**9)
            assert compile_grad(lambda w, f=f: f(w)).grad(w).tobytes() == gradient.tobytes()
    assert found[1] < 2.5 * found[0]
