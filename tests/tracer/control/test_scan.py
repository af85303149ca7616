"""Compiled loops: ``scan``, ``fori_loop`` and ``map`` against the Python loops that they stand for.

Outside a recording the three are plain Python over NumPy, so a program called plainly is its own oracle.  Every
compiled call here is compared with the interpreter too (``config.check``).
"""

from __future__ import annotations

import re
from collections import namedtuple

import numpy as np
import pytest
from agreement import agree, numerical_gradient
from ir_parser import parse_graph

import tracegrad as tg
from tracegrad import MutationError, ShapeError, TracegradError, UnsupportedError, autograd, compile_grad, config
from tracegrad.codegen.derive.adjoint import jvp
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.tracer.ir.errors import GraphError
from tracegrad.tracer.ir.text import print_graph
from tracegrad.tracer.record.array import TracedArray
from tracegrad.tracer.record.recorder import Recorder, recording

pytestmark = pytest.mark.usefixtures("checked")


@pytest.fixture
def checked():
    before, config.check = config.check, True
    kernels.clear()
    yield
    config.check = before


RNG = np.random.default_rng(7)
W = RNG.normal(size=(3, 3)) * 0.5
BIG = RNG.normal(size=(20, 20)) * 0.2
X5 = RNG.normal(size=(5, 3))
V3 = RNG.normal(size=3)
V20 = RNG.normal(size=20)
X20 = RNG.normal(size=(6, 20))
State = namedtuple("State", "position velocity")

# ---- programs: scalar functions of one float array, run with and without compiling ---------------------------------


def carry_only(w):
    return np.sum(tg.scan(lambda c, x: (np.sin(c * w) + x, None), V3, X5)[0])


def rows_and_carry(w):
    last, ys = tg.scan(lambda c, x: (np.tanh(c * w + x), c * x), V3, X5)
    return np.sum(last**2) + np.sum(ys**3)


def backwards(w):
    last, ys = tg.scan(lambda c, x: (np.tanh(c * w + x), c * x), V3, X5, reverse=True)
    return np.sum(last**2) + np.sum(ys[1:] * X5[:-1])


def gradient_of_init(w):
    return np.sum(tg.scan(lambda c, x: (c * np.cos(x) + 0.1 * c**2, None), w, X5)[0] ** 2)


def gradient_of_rows(w):
    return np.sum(tg.scan(lambda c, x: (np.sin(c + x * V3[0]), c * x), 0.3, w)[1])


def matrix_product(w):
    return np.sum(tg.scan(lambda h, x: (np.tanh(w @ h + x), None), V3, X5)[0] ** 2)


def large_matrix_product(w):
    last, ys = tg.scan(lambda h, x: (np.tanh(BIG @ h * w + x), h), V20, X20)
    return np.sum(last**2) + np.sum(ys)


def transposed_product(w):
    return np.sum(tg.scan(lambda h, x: (np.tanh(w.T @ h + x), None), V20, X20)[0] ** 2)


def tree_of_carries(w):
    def step(s, x):
        force = -w * s["position"]
        velocity = s["velocity"] + 0.1 * force
        return {"position": s["position"] + 0.1 * velocity, "velocity": velocity, "time": s["time"] + 1}, force * x

    start = {"position": V3, "velocity": np.zeros(3), "time": 0}
    last, forces = tg.scan(step, start, X5)
    return np.sum(last["position"] * last["velocity"]) + last["time"] * np.sum(forces)


def tree_of_rows(w):
    def step(c, x):
        return c * w + x["a"] * x["pair"][0], (c, {"b": x["pair"][1] * c})

    last, (carries, more) = tg.scan(step, np.zeros(3), {"a": X5, "pair": (X5[:, 0], X5[:, 1])})
    return np.sum(last) + np.sum(carries * 0.3) + np.sum(more["b"])


def named_tuple(w):
    def step(s, _):
        return State(s.position + 0.1 * s.velocity, s.velocity - 0.1 * w * np.sin(s.position)), s.position

    last, path = tg.scan(step, State(0.5, 0.0), None, length=7)
    return last.position + np.sum(path**2)


def only_rows(w):
    return np.sum(tg.map(lambda x: np.sin(x * w).sum(), X5) ** 2)


def counted(w):
    return tg.fori_loop(0, 5, lambda i, s: s + np.sum(X5[i] * w) * i, 0.0)


def counted_neighbours(w):
    def body(i, s):
        return s + w[i] * w[i - 1] * w[i + 1] / (i + 1)

    return tg.fori_loop(1, len(w) - 1, body, 0.0)


def counted_down(w):
    n = len(w)
    return tg.fori_loop(0, n, lambda i, s: s * 0.5 + w[n - 1 - i] ** 2, 0.0)


def numbered(w):
    return np.sum(tg.scan(lambda s, i: (s + w[i] * s, s * i), 1.0, np.arange(3))[1])


def computed_index(w):
    def step(c, i):
        return c * 0.5 + w[np.where(np.sum(c) > 0, 1, 0) + i], None

    return np.sum(tg.scan(step, V3, np.array([0, 1, 1, -1]))[0] ** 2)


def nested(w):
    def outer(c, x):
        inner, ys = tg.scan(lambda d, v: (d * 0.9 + np.sin(v * w), d), c, np.stack([x, x * c]))
        return inner + np.sum(ys * 0.1), inner

    last, all_of = tg.scan(outer, V3, X5)
    return np.sum(last) + np.sum(all_of**2)


def nested_counted(w):
    def row(i, s):
        return s + tg.fori_loop(0, 3, lambda j, t: t + w[j] * np.cos(t * (i + 1)), 0.5)

    return tg.fori_loop(0, 4, row, 0.0)


def many_constants(w):
    a, b = np.sin(w), np.exp(w * 0.1)
    return np.sum(tg.scan(lambda c, x: (a * c + b * x + a[0] * b[1], None), V3, X5)[0])


def untouched_carry(w):
    def step(c, x):
        a, b, k = c
        return (b, a * w + x, k), k * x

    (a, b, k), ys = tg.scan(step, (V3, V3 * 2, w), X5)
    return np.sum(a * b * k) + np.sum(ys)


def unused_parts(w):
    (a, _, _), _ = tg.scan(lambda c, x: ((c[0] * w, c[1] + x, c[2] * c[1]), c[1]), (V3, V3, V3), X5)
    return np.sum(a)


def boolean_carry(w):
    def step(c, x):
        value, seen = c
        return (value + np.where(seen, w * x, w), seen | (x > 0)), None

    (value, seen), _ = tg.scan(step, (np.zeros(3), np.zeros(3, bool)), X5)
    return np.sum(value * np.where(seen, 1.0, 2.0))


def branch_inside(w):
    return np.sum(tg.scan(lambda c, x: (np.where(c > 0, np.sqrt(np.abs(c)) * w, c + x), c), V3, X5)[1])


def assignment_inside(w):
    def step(c, x):
        new = c.copy()
        new[0] = x[0] * w[0]
        new[1:] = c[:-1] * w[1:]
        return new, None

    return np.sum(tg.scan(step, V3, X5)[0] ** 2)


def sorted_inside(w):
    return np.sum(tg.scan(lambda c, x: (np.sort(c * w + x), None), V3, X5)[0] * np.arange(1.0, 4.0))


def scattered(w):
    def step(c, i):
        new = c.copy()
        new[i] = c[i] * 0.5 + w[i]
        return new, c[i]

    last, ys = tg.scan(step, V3, np.array([0, 2, 1, 1, 0]))
    return np.sum(last**2) + np.sum(ys)


def reductions_inside(w):
    def step(c, x):
        p = np.exp(c - np.max(c))
        return np.log(p / np.sum(p)) + x * w, np.max(c)

    last, ys = tg.scan(step, V20, X20)
    return np.sum(last) * 0.01 + np.sum(ys)


def no_steps(w):
    last, ys = tg.scan(lambda c, x: (c * w, c * x), V3, X5[:0])
    return np.sum(last * w) + np.sum(ys)


def no_steps_large(w):
    return np.sum(tg.fori_loop(0, 0, lambda i, c: np.sin(c) * w, V20 * 2) * w)


def one_step(w):
    last, ys = tg.scan(lambda c, x: (c * w, c * x), V3, X5[:1])
    return np.sum(last * w) + np.sum(ys)


def after_and_before(w):
    u = np.cumsum(w)
    last, ys = tg.scan(lambda c, x: (c + u * x, c), np.zeros(3), X5)
    again, _ = tg.scan(lambda c, y: (c * 0.5 + y, None), last, ys)
    return np.sum(again * w)


def large_state(w):
    """Two buffers that change places: odd and even numbers of steps."""
    total = 0.0
    for n in (1, 2, 3, 4):
        total = total + np.sum(tg.fori_loop(0, n, lambda i, c: c[::-1] * w + i, np.ones(20)))
        total = total + np.sum(tg.fori_loop(0, n, lambda i, c: c[::-1] * w + i, V20))
    return total


W20 = RNG.normal(size=20) * 0.3
PROGRAMS = {
    carry_only: V3, rows_and_carry: V3, backwards: V3, gradient_of_init: V3, gradient_of_rows: X5[:, 0],
    matrix_product: W, large_matrix_product: W20, transposed_product: BIG, tree_of_carries: V3, tree_of_rows: V3,
    named_tuple: np.array(1.3), only_rows: V3, counted: V3, counted_neighbours: V20, counted_down: V20, numbered: V3,
    computed_index: V3, nested: V3, nested_counted: V3, many_constants: V3, untouched_carry: V3, unused_parts: V3,
    boolean_carry: V3, branch_inside: V3, assignment_inside: V3, sorted_inside: V3, scattered: V3,
    reductions_inside: W20, no_steps: V3, no_steps_large: W20, one_step: V3, after_and_before: V3, large_state: W20,
}  # fmt: skip
EVERY = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)


@pytest.mark.slow
@EVERY
def test_value_and_gradient(program):
    agree(compile_grad(program), program, PROGRAMS[program])


@pytest.mark.slow
@EVERY
def test_second_derivative(program):
    """The gradient of a weighted sum of the gradient; the gradient itself has been compared above."""
    point = PROGRAMS[program]
    weights = np.random.default_rng(3).normal(size=point.shape)
    first = compile_grad(program)

    def product(w):
        return np.sum(first.grad(w) * weights)

    found = compile_grad(product).grad(point)
    expected = numerical_gradient(product, (point,))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p is not counted], ids=lambda p: p.__name__)
def test_forward_mode(program, runs):
    """Along a direction, in both tiers: what the gradient says.  (Recorded without stand-ins for outside arrays, which
    cannot be indexed by the number of a step then.)"""
    point = PROGRAMS[program]
    direction = np.random.default_rng(5).normal(size=point.shape)
    with recording(Recorder()) as recorder:
        var = recorder.add_input(point, "w")
        tangent = recorder.add_input(direction, "t")
        out = program(TracedArray(var, recorder))
        pushed = jvp(list(recorder.nodes), {var: tangent}, out.atom)
    graph, expected = recorder.finish([pushed]), np.sum(compile_grad(program).grad(point) * direction)
    for run in runs:
        (found,) = run(graph, [point, direction])
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p is not gradient_of_init], ids=lambda p: p.__name__)
def test_float32(program):
    """(A float32 carry that float64 rows are mixed into is an error.)"""
    config.check = False  # a float64 sum of float32 sines differs more than float64 ones may
    point = PROGRAMS[program].astype(np.float32)
    value, gradient = compile_grad(program).value_and_grad(point)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(value, program(PROGRAMS[program]), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(gradient, compile_grad(program).grad(PROGRAMS[program]), rtol=2e-3, atol=2e-3)


# ---- forms ---------------------------------------------------------------------------------------------------------


def test_results_are_those_of_the_plain_loop():
    """Values, dtypes, shapes and trees, also of integers, bools, and what depends on nothing."""

    def everything(w, k):
        def step(c, x):
            c = {"n": c["n"] + k, "m": c["m"] * 2, "f": c["f"] + x["f"] * w, "b": ~c["b"], "z": c["z"]}
            return c, (c["n"], c["b"], [c["f"], x["i"] * 2, 1.5], np.float32(2.5))

        start = {"n": 3, "m": np.arange(3, dtype=np.int32), "f": np.zeros(2, np.float32), "b": True, "z": ()}
        rows = {"f": np.ones((4, 2), np.float32), "i": np.arange(8).reshape(4, 2)}
        return tg.scan(step, start, rows)

    w = np.array([1.5, 2.5], np.float32)
    plain, compiled = everything(w, 2), compile_grad(everything)(w, 2)
    assert str(plain[0].keys()) == str(compiled[0].keys())
    for ours, theirs in zip(tg_leaves(compiled), tg_leaves(plain), strict=True):
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_array_equal(ours, theirs)


def tg_leaves(tree):
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in tg_leaves(value)]
    if isinstance(tree, (tuple, list)):
        return [leaf for value in tree for leaf in tg_leaves(value)]
    return [tree]


def test_outside_a_recording_arrays_are_not_written():
    start, rows = np.zeros(2), np.ones((3, 2))

    def step(c, x):
        c += x
        return c, c * 2

    last, ys = tg.scan(step, start, rows)
    np.testing.assert_array_equal(last, [3, 3])
    np.testing.assert_array_equal(ys, [[2, 2], [4, 4], [6, 6]])
    np.testing.assert_array_equal(start, [0, 0])
    np.testing.assert_array_equal(compile_grad(lambda s: tg.scan(step, s, rows))(start)[1], ys)


def test_no_steps_outside_a_recording():
    last, ys = tg.scan(lambda c, x: (c, {"a": np.outer(c, x)}), np.ones(2), np.zeros((0, 3)))
    assert ys["a"].shape == (0, 2, 3) and last.tolist() == [1, 1]
    assert tg.map(lambda x: x > 0, np.zeros((0, 3))).dtype == bool
    assert tg.fori_loop(5, 2, lambda i, c: c + 1, 0) == 0


def test_rows_are_results_of_reverse_steps_in_place():
    last, ys = tg.scan(lambda c, x: (c + x, c), 0.0, np.arange(4.0), reverse=True)
    compiled = compile_grad(lambda v: tg.scan(lambda c, x: (c + x, c), 0.0, v, reverse=True))(np.arange(4.0))
    assert ys.tolist() == [6, 5, 3, 0] == compiled[1].tolist() and last == 6 == compiled[0]


def test_the_count_of_a_loop_may_be_traced():
    """It is a guard then, as in range()."""

    @compile_grad
    def f(w, n):
        return tg.fori_loop(0, n.astype(int), lambda i, s: s * w + i, 1.0)

    for n in (3, 4, 3):
        expected = tg.fori_loop(0, n, lambda i, s: s * 0.5 + i, 1.0)
        assert f(0.5, np.array(float(n))) == pytest.approx(expected)


def test_gradients_of_carries_that_begin_as_python_numbers():
    @compile_grad
    def f(w):
        return tg.fori_loop(0, 4, lambda i, c: (c[0] * w, c[1] + c[0]), (1.0, 0.0))[1]

    assert f.grad(0.5) == pytest.approx(1 + 2 * 0.5 + 3 * 0.25)


def test_other_arguments():
    """Gradients of init, rows and constants at once."""

    @compile_grad(argnums=(0, 1, 2))
    def f(init, xs, w):
        last, ys = tg.scan(lambda c, x: (np.tanh(w @ c + x), c[0]), init, xs)
        return np.sum(last) + np.sum(ys**2)

    def unrolled(init, xs, w):
        c, total = init, 0.0
        for x in xs:
            total = total + c[0] ** 2
            c = np.tanh(w @ c + x)
        return np.sum(c) + total

    value, grads = f.value_and_grad(V3, X5, W)
    expected, wanted = compile_grad(argnums=(0, 1, 2))(unrolled).value_and_grad(V3, X5, W)
    assert value == pytest.approx(expected, rel=1e-12)
    for ours, theirs in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_gradients_inside_a_body():
    """Gradient descent as a loop, differentiated: the body takes a gradient, of a loop too."""
    a = np.diag([1.0, 2.0, 3.0])

    def inner(x, b):
        return 0.5 * x @ a @ x - b @ x

    @compile_grad
    def solution(b):
        x = tg.fori_loop(0, 200, lambda i, x: x - 0.3 * autograd.grad(inner)(x, b), np.zeros(3))
        return np.sum(x**2)

    b = np.array([1.0, 2.0, 3.0])
    value, gradient = solution.value_and_grad(b)
    assert value == pytest.approx(3)
    np.testing.assert_allclose(gradient, 2 / np.diag(a), rtol=1e-9)

    def rolled(x, w):
        return np.sum(tg.scan(lambda c, _: (np.sin(c * w), None), x, None, length=5)[0])

    def descent(w, slope):
        return np.sum(tg.fori_loop(0, 4, lambda i, x: x - 0.1 * slope(x, w), np.ones(3)))

    def slope(x, w):
        return numerical_gradient(rolled, (x, w))

    value, gradient = compile_grad(lambda w: descent(w, autograd.grad(rolled))).value_and_grad(0.7)
    assert value == pytest.approx(descent(0.7, slope), rel=1e-6)
    assert gradient == pytest.approx((descent(0.7 + 1e-3, slope) - descent(0.7 - 1e-3, slope)) / 2e-3, rel=1e-4)


def test_what_is_left_out_contributes_nothing():
    """The square root of 0 has an infinite derivative; ``where`` leaves it out in every step."""

    @compile_grad
    def f(x):
        return np.sum(tg.fori_loop(0, 3, lambda i, c: c + np.where(x > 0, np.sqrt(x), 0.0), np.zeros(2)))

    @compile_grad
    def g(x):
        return np.sum(tg.scan(lambda c, _: (np.where(c > 0, np.sqrt(c), 0.0), None), x, None, length=2)[0])

    assert f.grad(np.array([0.0, 4.0])).tolist() == [0, 0.75]
    assert g.grad(np.array([0.0, 16.0])).tolist() == [0, 1 / 32]


# ---- how often something is compiled --------------------------------------------------------------------------------


def test_one_kernel_for_every_number_of_steps():
    @compile_grad
    def f(w, xs):
        last, ys = tg.scan(lambda c, x: (np.sin(c * w) + x, c), np.zeros(2), xs)
        return np.sum(last) + np.sum(ys**2)

    def plain(w, xs):
        return f.__wrapped__(w, xs)

    config.check = False
    for n in (50, 5000, 0, 7):
        xs = np.sin(np.arange(2.0 * n)).reshape(n, 2)
        value, gradient = f.value_and_grad(np.array([0.5, 0.9]), xs)
        assert value == pytest.approx(plain(np.array([0.5, 0.9]), xs), rel=1e-9)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (np.array([0.5, 0.9]), xs)), rtol=1e-5)
    assert f.stats.compiles == 1


def test_one_kernel_for_every_start_and_constant():
    def f(w, n, a, h):
        return tg.fori_loop(0, n, lambda i, s: s + h * np.sum(w * s), a)

    compiled = compile_grad(f)
    for n, a, h in ((40, 1.0, 0.1), (900, 2.0, 0.3), (17, 0.5, 0.2)):
        assert compiled(V3 * 0.01, n, a, h) == pytest.approx(f(V3 * 0.01, n, a, h))
    assert compiled.stats.compiles == 1


# ---- what can't be ---------------------------------------------------------------------------------------------------


def refused(error, match, f, *args):
    with pytest.raises(error, match=match) as caught:
        compile_grad(f)(*args)
    assert "test_scan.py" in str(caught.value)


def test_a_carry_that_changes_is_named():
    refused(
        ShapeError, r"the carry `state\['x'\]` of scan starts as float64\[3\] and comes back .* as float64\[2\]",
        lambda w: tg.scan(lambda state, x: ({"x": state["x"][:2] * w}, None), {"x": V3}, X5), np.ones(2),
    )  # fmt: skip
    refused(
        ShapeError, r"the carry `total` of fori_loop starts as int64\[\] and comes back .* start with a float",
        lambda w: tg.fori_loop(0, 3, lambda i, total: total + w[0], 0), np.ones(2),
    )  # fmt: skip
    refused(
        UnsupportedError, "changes its structure",
        lambda w: tg.fori_loop(0, 3, lambda i, c: (c, c), w), np.ones(2),
    )  # fmt: skip


def test_questions_about_a_step_are_refused():
    def counting(w):
        return tg.fori_loop(0, 3, lambda i, c: c * int(np.sum(c)), w)

    def indexing_a_list(w):
        return tg.fori_loop(0, 3, lambda i, c: c * [1.0, 2.0, 3.0][i], w)

    refused(UnsupportedError, r"asks for the value", indexing_a_list, V3)
    refused(UnsupportedError, r"asks for the value", counting, V3)


def test_an_if_in_a_step_is_a_choice():
    f = compile_grad(lambda w: np.sum(tg.fori_loop(0, 3, lambda i, c: c * w if np.sum(c) > 0 else c + 1.0, w)))

    def plain(w):
        c = w
        for _ in range(3):
            c = c * w if np.sum(c) > 0 else c + 1.0
        return np.sum(c)

    for point in (V3, -V3, 0.1 * V3 - 0.3):
        agree(f, plain, point)


def test_printing_in_a_body_shows_a_step_once(capsys):
    f = compile_grad(lambda w: np.sum(tg.fori_loop(0, 3, lambda i, c: (print(f"step {i}: {c}"), 2.0 * c)[1], w)))
    assert f(V3) == f(V3) == f(V3) == pytest.approx(8 * V3.sum())
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 1 and all(line.startswith("step <traced i64") and "recording" in line for line in shown)


def test_a_function_with_its_own_backward_stands_in_a_body():
    class Square(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g

    f = compile_grad(lambda w: np.sum(tg.fori_loop(0, 3, lambda i, c: Square.apply(c), w)))
    value, gradient = f.value_and_grad(V3)
    assert value == pytest.approx(np.sum(V3**8))
    np.testing.assert_allclose(gradient, np.ones(3))


def test_a_branch_on_outside_values_is_a_guard():
    @compile_grad
    def f(w):
        return np.sum(tg.fori_loop(0, 3, lambda i, c: c * w if w[0] * 2 > 1 else c + w, w))

    for w in (V3 * 0 + 0.4, V3 * 0 + 0.6, V3 * 0 + 0.3):
        assert f(w) == pytest.approx(f.__wrapped__(w))


def test_writing_outside_the_body_is_refused():
    def into_captured(w):
        total = w.copy()

        def body(i, c):
            total[0] = c[0]
            return c

        return np.sum(tg.fori_loop(0, 3, body, w)) + total[0]

    def into_view(w):
        total = w.copy()

        def body(i, c):
            total[1:][0] = c[0]
            return c

        return np.sum(tg.fori_loop(0, 3, body, w)) + total[0]

    refused(MutationError, "make the array a carry", into_captured, V3)
    refused(MutationError, "make the array a carry", into_view, V3)
    refused(MutationError, "a row of xs", lambda w: tg.map(lambda x: x.__iadd__(1.0), np.outer(w, w)), V3)


def test_values_of_a_step_do_not_leave_it():
    kept = []

    def leaking(w):
        tg.fori_loop(0, 3, lambda i, c: (kept.append(c * w), c)[1], w)
        return np.sum(kept[0])

    with pytest.raises(TracegradError):
        compile_grad(leaking)(V3)


def test_wrong_calls():
    refused(ShapeError, "length=3, but xs has 5 rows", lambda w: tg.scan(lambda c, x: (c, x), w, X5, length=3), V3)
    refused(ShapeError, "pass xs or length=", lambda w: tg.scan(lambda c, x: (c, x), w), V3)
    refused(ShapeError, "unequal lengths", lambda w: tg.scan(lambda c, x: (c, None), w, (X5, V3)), V3)
    refused(ShapeError, "no rows", lambda w: tg.map(lambda x: x, 1.0), V3)
    refused(TracegradError, r"returns \(carry, y\)", lambda w: tg.scan(lambda c, x: c, w, X5), V3)
    refused(tg.BadIndexError, "out of bounds", lambda w: tg.scan(lambda c, i: (c, w[i * i]), w, np.arange(3))[1], V3)


# ---- the program -----------------------------------------------------------------------------------------------------


def text_of(f, *args):
    config.check = False
    compiled = compile_grad(f)
    compiled.value_and_grad(*args)
    ((variant,),) = [v for e in compiled._dispatcher.endpoints.values() for v in e.variants.values()]
    (path,) = variant.paths
    return re.sub(r" +# .*", "", print_graph(path.recording.graph)).strip()


def test_a_loop_and_its_adjoint_in_text():
    def f(w, xs):
        return tg.scan(lambda c, x: (c * w + x, None), 0.0, xs)[0]

    text = text_of(f, 0.5, np.ones(4))
    assert text == GOLDEN.strip()
    assert print_graph(parse_graph(text)).strip() == text


def test_a_sum_stores_nothing():
    """The backward of a sum over steps reads no carry: the forward loop stores none."""

    def f(w, xs):
        return tg.scan(lambda s, x: (s + np.sin(w * x), None), 0.0, xs)[0]

    text = text_of(f, 0.5, np.ones(4))
    forward = re.search(r"^  (.*?) = loop", text, re.MULTILINE)
    assert forward is not None and forward[1].count(":") == 1


def test_a_pair_taken_apart_leaves_nothing_out():
    """Its cotangent has no exact zeros, so products with it are plain; half of it has."""

    def both(w, xs):
        last = tg.scan(lambda c, x: (np.stack([c[1] * w, c[0] * w]) * x, None), np.ones(2), xs)[0]
        return np.sum(last)

    def half(w, xs):
        return tg.scan(lambda c, x: (np.stack([c[1] * w, c[0] * w]) * x, None), np.ones(2), xs)[0][0]

    assert "mulz" not in text_of(both, 0.5, np.ones(4))
    assert "mulz" in text_of(half, 0.5, np.ones(4))


def test_weights_are_summed_after_the_loop():
    def f(w, xs):
        return np.sum(tg.scan(lambda h, x: (np.tanh(w @ h + x), None), V20, xs)[0])

    text = text_of(f, BIG, X20)
    assert "matmul[ta=True" in text.rpartition("}, consts")[2]
    assert text.count("tanh") == 1  # stored, and not computed again


def test_malformed_loops_are_refused():
    text = GOLDEN.replace("length=4, reverse=False", "length=3, reverse=False")
    with pytest.raises(GraphError, match="loop of 3 steps"):
        parse_graph(text)


GOLDEN = """
graph(a:f64*[], b:f64[4]) {
  c:f64[], d:f64[4] = loop[body=graph(e:f64*[], f:f64[], g:f64[]) {
    h:f64[] = mul f e
    i:f64[] = add h g
    return i f
  }, consts=1, carries=1, length=4, reverse=False] a 0.0:f64 b
  j:f64[], k:f64[] = loop[body=graph(l:f64*[], m:f64[], n:f64*[], o:f64[]) {
    p:f64[] = mul m l
    q:f64[] = mul m o
    r:f64[] = add n q
    return p r
  }, consts=1, carries=2, length=4, reverse=True] a 1.0!:f64 0.0!:f64 d
  return c k
}
"""


def test_questions_of_linear_algebra_in_a_body():
    A = np.ones((2, 2))
    for f in (lambda a: np.linalg.eigvals(a), lambda a: np.linalg.eig(a)[0]):

        def last(xs, f=f):
            return tg.scan(lambda c, x: (c + np.real(np.sum(f(A * x + np.eye(2) * c))), c), 0.0, xs)[0]

        with pytest.raises(UnsupportedError, match="eigvals or the like asks"):
            compile_grad(last).grad(np.array([1.0, 2.0]))
