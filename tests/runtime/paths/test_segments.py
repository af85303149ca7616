"""Programs in segments: past the cap on paths, kernels for the pieces between branches, found again in any order."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from agreement import agree, numerical_gradient

import tracegrad
from tracegrad import autograd, compile_grad
from tracegrad.runtime.config import config
from tracegrad.runtime.paths.segments import split
from tracegrad.tracer.ir.aval import FLOAT, Aval
from tracegrad.tracer.ir.evaluate import Producers, demand
from tracegrad.tracer.ir.graph import Builder, Var, building, live_nodes

pytestmark = [pytest.mark.usefixtures("fresh_kernels"), pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(autouse=True)
def few_paths(monkeypatch):
    monkeypatch.setattr(config, "max_paths", 2)


def inputs(count, size=20, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=size) for _ in range(count)]


def ten_branches(x):
    y = x
    for k in range(10):
        y = np.sin(y) + 0.1 * x if y[k] > 0 else y * 1.3 + np.roll(y, 1)
    return np.sum(y**2)


@pytest.mark.slow
def test_a_thousand_combinations_compile_a_few_kernels():
    f = compile_grad(ten_branches)
    for x in inputs(150):
        f.value_and_grad(x)
    settled = f.stats.compiles
    assert settled <= 2 * 10 * 2
    for x in inputs(60, seed=1):
        f.value_and_grad(x)
    assert f.stats.compiles == settled
    for x in inputs(5, seed=2):
        agree(f, ten_branches, x, tol=1e-5)


def test_steps_of_a_long_loop_share_their_kernels():
    def plain(x):
        y, n = x, 0
        while np.sum(y * y) > 1.0:
            y = y * 0.97 + 0.001 * np.cos(y)
            n += 1
        return np.sum(y * x) / n

    f = compile_grad(plain)
    for scale in (2.0, 3.0, 4.0):
        agree(f, plain, scale * np.ones(5))
    f.value_and_grad(5.0 * np.ones(5))
    compiles = f.stats.compiles
    for scale in (6.0, 7.5, 30.0, 2.5):
        f.value_and_grad(scale * np.ones(5))
    assert f.stats.compiles == compiles
    agree(f, plain, 11.0 * np.ones(5))


def test_the_user_is_told_once_and_where():
    def plain(x):
        y = x * 2
        n = int(np.sum(y))
        return np.sum(y) * n

    f = compile_grad(plain)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(8):
            f.value_and_grad(np.full(3, float(k)))
            f(np.full(3, float(k)))
    assert len(caught) == 1
    text, first = str(caught[0].message), plain.__code__.co_firstlineno
    assert caught[0].filename == __file__ and caught[0].lineno == first + 2
    assert "more than 2 branch outcomes" in text and f"test_segments.py:{first + 2}" in text and "np.where" in text
    assert "(replay/branches)" in f.stats.live


def test_a_question_with_one_answer_does_not_cut():
    def plain(x):
        y = np.exp(-x * x)
        if not np.all(np.isfinite(y)):
            raise FloatingPointError
        z = y * 2 if x[0] > 0 else y * 3
        return np.sum(z) * (1 if x[1] > 0 else 2) * (1 if x[2] > 0 else 3)

    f = compile_grad(plain)
    for x in inputs(30, size=4):
        agree(f, plain, x)
    text = f.explain(np.ones(4), level="all")
    section = text.partition("--- segments\n")[2].partition("\n--- ")[0]
    first = plain.__code__.co_firstlineno
    assert section.splitlines()[:3] == [
        f"cut at bool() at test_segments.py:{first + 4} in plain: it has had several answers",
        f"cut at bool() at test_segments.py:{first + 5} in plain: it has had several answers",
        f"not cut at bool() at test_segments.py:{first + 2} in plain: it has always had the same answer "
        "(segment/never-varied)",
    ]
    assert "the kernels of its segments" in text


def test_a_long_loop_is_not_compiled_as_a_whole(monkeypatch):
    monkeypatch.setattr("tracegrad.runtime.paths.fallback.LONG", 100)

    def plain(x):
        y, k = x, 0
        while np.sum(y * y) > 1.0:
            y = (
                y * 0.9 if "0110100110010110"[k % 16] == "1" else y - 0.1 * np.tanh(y)
            )  # no block repeats, so nothing is rolled
            k += 1
        return np.sum(y)

    f = compile_grad(plain)
    for scale in (100.0, 200.0, 0.1):
        agree(f, plain, scale * np.ones(5))
    assert f.stats.live.endswith("(replay/long)") and f.stats.compiles <= 5
    for _ in range(2):
        f(100.0 * np.ones(5))
    recorded = f.stats.traces
    for scale in (100.0, 200.0):  # NumPy is faster than a recording
        np.testing.assert_allclose(f(scale * np.ones(5)), plain(scale * np.ones(5)), rtol=1e-12)
    assert f.stats.traces == recorded


def test_structures_aux_and_several_arguments():
    @compile_grad(argnums=(0, 2), has_aux=True)
    def f(p, unused, scale):
        a, b = p["a"], p["b"]
        for k in range(3):
            a = np.tanh(a * b) if np.sum(a) > k else a + b
            if b[k] > 0:
                b = b * scale
        return np.sum(a * a), {"a": a, "zero": np.zeros(2), "same": p["b"], "n": 3}

    def plain(p, unused, scale):
        a, b = p["a"], p["b"]
        for k in range(3):
            a = np.tanh(a * b) if np.sum(a) > k else a + b
            if b[k] > 0:
                b = b * scale
        return a

    def numerical(p, unused, scale, name):
        g = np.zeros(3)
        for k in range(3):
            d = np.zeros(3)
            d[k] = 1e-6
            up, down = {**p, name: p[name] + d}, {**p, name: p[name] - d}
            g[k] = (np.sum(plain(up, unused, scale) ** 2) - np.sum(plain(down, unused, scale) ** 2)) / 2e-6
        return g

    for a, b in zip(inputs(20, 3), inputs(20, 3, 1), strict=True):
        p = {"a": a, "b": b}
        (loss, aux), (gp, gs) = f.value_and_grad(p, 1.0, 1.7)
        expected = plain(p, 1.0, 1.7)
        np.testing.assert_allclose(aux["a"], expected, rtol=1e-12)
        assert loss == pytest.approx(np.sum(expected**2)) and aux["n"] == 3
        np.testing.assert_array_equal(aux["same"], b)
        assert aux["same"] is b
        np.testing.assert_allclose(gp["a"], numerical(p, 1.0, 1.7, "a"), atol=1e-6)
        np.testing.assert_allclose(gp["b"], numerical(p, 1.0, 1.7, "b"), atol=1e-6)
        up, down = (np.sum(plain(p, 1.0, 1.7 + d) ** 2) for d in (1e-6, -1e-6))
        assert isinstance(gs, np.float64) and gs == pytest.approx((up - down) / 2e-6, abs=1e-6)
    assert f.stats.live


def test_a_loss_that_is_an_argument_or_a_number():
    def plain(x, y):
        for k in range(3):
            if y[k] > 0:
                x = x * 1.0 if k == 1 else x
        return x

    f = compile_grad(plain)
    constant = compile_grad(lambda x, y: 1.0 if y[0] > 0 else 2.0 if y[1] > 0 else 3.0 if y[2] > 0 else 4.0)
    for y in inputs(20, 3):
        assert f.value_and_grad(2.0, y) == (2.0, 1.0)
        value, gradient = constant.value_and_grad(2.0, y)
        assert value == (1.0 if y[0] > 0 else 2.0 if y[1] > 0 else 3.0 if y[2] > 0 else 4.0) and gradient == 0.0
    assert f.stats.live and constant.stats.live


@pytest.mark.slow
def test_float32_sorting_and_loops_within():
    def plain(x):
        y = x
        for k in range(4):
            y = np.sort(y) * y if y[k] > 0 else y + np.cumsum(y)
        carry, rows = tracegrad.scan(lambda c, row: (c * 0.5 + row, c), np.sum(y), y)
        return carry * np.sum(rows) if carry > 0 else carry

    f = compile_grad(plain)
    for x in inputs(25, 6):
        agree(f, plain, 0.5 * x, tol=1e-4)
    single = compile_grad(lambda x: np.sum(ten_branches(x)))
    for x in inputs(6):
        value, gradient = single.value_and_grad(x.astype("f"))
        assert value.dtype == gradient.dtype == np.float32
        np.testing.assert_allclose(gradient, autograd.grad(ten_branches)(x.astype(float)), rtol=1e-2, atol=1e-2)


def test_what_where_left_out_stays_zero_across_segments():
    def plain(x):
        safe = np.where(x > 0, np.sqrt(np.abs(x)), 0.0)
        for k in range(3):
            safe = safe * 2.0 if x[k] > 0.5 else safe + 1.0
        return np.sum(np.where(x > 0, safe, 0.0))

    f = compile_grad(plain)
    for x in inputs(20, 4):
        x[3] = 0.0
        gradient = f.grad(x)
        assert np.all(np.isfinite(gradient)) and gradient[3] == 0.0
    assert f.stats.live


def test_live_functions_with_many_branches():
    """Whatever the reason why Python runs: many programs are too many."""

    def plain(x, seen):
        y = x
        for k in range(6):
            y = np.sin(y) if y[k] > 0 else 1.5 * y
        return np.sum(y) * (0 * len(seen) + 1)

    seen: set[int] = set()

    @compile_grad
    def f(x):
        seen.add(len(seen))
        return plain(x, seen)

    for x in inputs(100, 6):
        f.value_and_grad(x)
    compiles = f.stats.compiles
    assert compiles < 64 and "`closure seen`" in f.stats.live
    for x in inputs(50, 6, 1):
        value, gradient = f.value_and_grad(x)
        assert value == pytest.approx(plain(x, seen))
    assert f.stats.compiles - compiles <= 2
    np.testing.assert_allclose(gradient, autograd.grad(lambda x: plain(x, seen))(x), rtol=1e-9)


def test_a_function_with_a_backward_of_its_own_stays_whole():
    class Double(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def plain(x):
        return np.sum(x * 2) * (1 if x[0] > 0 else 2) * (1 if x[1] > 0 else 3) * (1 if x[2] > 0 else 4)

    def with_function(x):
        return np.sum(Double.apply(x)) * (1 if x[0] > 0 else 2) * (1 if x[1] > 0 else 3) * (1 if x[2] > 0 else 4)

    f = compile_grad(with_function)
    for x in inputs(20, 3):
        agree(f, plain, x)


@pytest.mark.slow
def test_check_mode(monkeypatch):
    f = compile_grad(ten_branches)
    for x in inputs(6):
        f.value_and_grad(x)
    monkeypatch.setattr(config, "check", True)
    for x in inputs(6, seed=3):
        f.value_and_grad(x)
    real = tracegrad.runtime.paths.segments._given
    monkeypatch.setattr("tracegrad.runtime.paths.segments._given", lambda *a: real(*a) * 1.001)
    with pytest.raises(tracegrad.TracegradError, match="disagree"):
        f.value_and_grad(x)


def chain(length):
    builder = Builder()
    x = Var(Aval(FLOAT, (3,)))
    values = [x]
    with building(builder):
        for k in range(length):
            values.append(values[-1] * values[k // 2] + 1.0)
    return builder.nodes, x, values


def test_any_cut_covers_the_program():
    nodes, x, values = chain(30)
    roots = [values[-1], values[7]]
    for cuts in ([], [5], [0, 3, 3, 17], list(range(0, 60, 2)), [60]):
        segments = split(nodes, roots, cuts)
        assert [n for s in segments for n in s.nodes] == live_nodes(nodes, roots)
        known = {x}
        for segment in segments:
            assert set(segment.reads) <= known
            known |= set(segment.gives)
        assert set(roots) <= known


class Counting(list):
    looked = 0

    def __getitem__(self, k):
        Counting.looked += 1
        return super().__getitem__(k)


def test_asking_for_values_does_not_walk_the_whole_program():
    nodes, x, _ = chain(2000)
    growing, env, producers = Counting(), {x: np.full(3, 0.5)}, Producers()
    for k, node in enumerate(nodes):
        growing.append(node)
        if k % 20 == 19:
            assert demand([node.out], growing, env, producers)[0].shape == (3,)
    assert Counting.looked < 6 * len(nodes)
    replaced = Counting(nodes[:10])
    assert demand([nodes[9].out], replaced, {x: np.ones(3)}, producers)[0].shape == (3,)


def test_iterations_that_act_share_the_kernels_of_their_pieces():
    seen = []

    def fn(x):
        h = x
        for t in range(120):
            h = np.tanh(h * 0.9 + 0.01 * t)
            seen.append(time.time())
            h = np.sin(h) + 0.1
        return np.sum(h)

    compiled = compile_grad(fn)
    for k in range(3):
        x = np.array([0.4, -0.7, 1.1]) + 0.1 * k
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, fn(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(fn, (x,)), rtol=1e-5, atol=1e-9)
    assert "iterations of loops that ran one after another" in compiled.explain(x, level="all")
    assert compiled.stats.compiles < 12
