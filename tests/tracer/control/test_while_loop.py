"""``while_loop``, and the loops that it is made of: those that stop by themselves and those that are counted.

Outside a recording ``while_loop`` is plain Python over NumPy, so a program called plainly is its own oracle.  Every
compiled call here is compared with the interpreter too (``config.check``).
"""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from agreement import agree, numerical_gradient
from ir_parser import parse_graph
from selection import seeds

import tracegrad as tg
from tracegrad import ShapeError, UnsupportedError, autograd, compile_grad, config
from tracegrad.codegen.derive.adjoint import jvp, vjp_seeded
from tracegrad.codegen.derive.capacity import capacity
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.tracer.ir.errors import GraphError
from tracegrad.tracer.ir.graph import bind, structural
from tracegrad.tracer.ir.primitive import PRIMITIVES
from tracegrad.tracer.ir.settings import loop_memory
from tracegrad.tracer.ir.text import print_graph
from tracegrad.tracer.ops import control
from tracegrad.tracer.ops.elementwise import F
from tracegrad.tracer.record.array import TracedArray
from tracegrad.tracer.record.recorder import Recorder, recording

pytestmark = pytest.mark.usefixtures("checked")


@pytest.fixture
def checked():
    before, config.check = config.check, True
    kernels.clear()
    yield
    config.check = before


RNG = np.random.default_rng(11)
V3 = np.array([0.9, 0.7, 0.8])
V20 = RNG.uniform(0.5, 0.95, size=20)
M3 = RNG.normal(size=(3, 3)) * 0.3
M20 = RNG.normal(size=(20, 20)) * 0.1

# ---- programs: scalar functions of one float array, run with and without compiling ---------------------------------


def decay(w):
    return tg.while_loop(lambda c: c > 0.1, lambda c: c * w[0], w[1] * 3.0) * w[2]


def counter_and_value(w):
    value, n = tg.while_loop(lambda c: c[0] > 0.5, lambda c: (c[0] * w[0] + 0.01 * w[1], c[1] + 1), (w[2] * 9.0, 0))
    return value * w[1] + n


def no_step(w):
    return np.sum(tg.while_loop(lambda c: np.sum(c) > 1e9, lambda c: c * w, w * 2.0) ** 2)


def one_step(w):
    return np.sum(tg.while_loop(lambda c: c[1] < 1, lambda c: (c[0] * w, c[1] + 1), (w * 2.0, 0))[0] ** 2)


def two_steps(w):
    return np.sum(tg.while_loop(lambda c: c[1] < 2, lambda c: (np.sin(c[0]) * w, c[1] + 1), (w * 2.0, 0))[0] ** 2)


def constant_start(w):
    return np.sum(tg.while_loop(lambda c: np.sum(c) > 1.0, lambda c: c * w, np.ones(len(w)))) * 2.0


def constant_start_no_step(w):
    return np.sum(tg.while_loop(lambda c: np.sum(c) < 1.0, lambda c: c * w, np.ones(len(w)))) * w[0]


def newton(w):
    def body(c):
        x, _ = c
        new = x - (x**2 - w) / (2 * x)
        return new, np.max(np.abs(new - x))

    return np.sum(tg.while_loop(lambda c: c[1] > 1e-9, body, (np.ones(len(w)), 1.0))[0])


def reduction_in_the_condition(w):
    return np.sum(tg.while_loop(lambda c: np.sum(c**2) > 0.3, lambda c: np.sin(c) * w, w * 3.0) ** 3)


def product_inside(w):
    return np.sum(tg.while_loop(lambda h: np.sum(h**2) > 1e-3, lambda h: np.tanh(w @ h), np.ones(len(w))) * 10.0)


def product_in_the_condition(w):
    return np.sum(tg.while_loop(lambda h: np.sum(w @ h) ** 2 > 1e-3, lambda h: np.tanh(w @ h), np.ones(len(w))))


def ints_and_bools(w):
    def body(c):
        n, up, x, m = c
        return n - 1, ~up, np.where(up, x * w, x + w), m * 2

    n, up, x, m = tg.while_loop(lambda c: c[0] > 0, body, (5, True, w * 1.0, np.arange(2)))
    return np.sum(x) * np.where(up, 1.0, 3.0) + n + np.sum(m)


def carry_is_the_condition(w):
    def body(c):
        _, x = c
        x = x * w
        return np.sum(x) > 1.0, x

    return np.sum(tg.while_loop(lambda c: c[0], body, (True, w * 4.0))[1])


def nested(w):
    def outer(c):
        x, k = c
        return tg.while_loop(lambda d: np.sum(d**2) > 0.5, lambda d: d * 0.7 * np.cos(w), x * 3.0) + w * 0.2, k + 1

    return np.sum(tg.while_loop(lambda c: c[1] < 3, outer, (w, 0))[0] ** 2)


def three_deep(w):
    def inner(x):
        return tg.while_loop(lambda d: np.sum(d) > 1.0, lambda d: d * w * 0.5, x * 4.0)

    def middle(x):
        return tg.while_loop(lambda c: c[1] < 2, lambda c: (inner(c[0]) + w, c[1] + 1), (x, 0))[0]

    return np.sum(tg.while_loop(lambda c: c[1] < 2, lambda c: (middle(c[0]) * w, c[1] + 1), (w, 0))[0])


def inside_a_scan(w):
    def step(c, x):
        c = tg.while_loop(lambda d: np.sum(d**2) > x, lambda d: d * 0.7 * np.cos(w), c * 2.0) + 0.1 * w
        return c, np.sum(c)

    last, ys = tg.scan(step, w, np.array([0.1, 0.01, 50.0, 0.3]))
    return np.sum(last) + np.sum(ys**2)


def scan_inside(w):
    def body(c):
        return tg.scan(lambda d, x: (d * w * x, None), c, np.array([0.9, 0.8]))[0]

    return np.sum(tg.while_loop(lambda c: np.sum(c) > 0.2, body, w * 2.0))


def rows_of_an_array(w):
    """Indices that the recorder can't follow: checked in each step."""

    def body(c):
        i, total = c
        return i + 1, total + w[i] * (i + 1)

    return tg.while_loop(lambda c: (c[0] < len(w) - 1) & (c[1] < 2.0), body, (0, 0.0))[1]


def scatters(w):
    def body(c):
        i, x = c
        new = x.copy()
        new[i] = x[i] * w[i] + x[i - 1]
        return i + 1, new

    return np.sum(tg.while_loop(lambda c: c[0] < len(w), body, (1, w * 2.0))[1] ** 2)


def sorted_inside(w):
    return np.sum(tg.while_loop(lambda c: np.sum(c) > 1.0, lambda c: np.sort(c * w)[::-1], w * 2.0) * np.arange(len(w)))


def twice(w):
    first = tg.while_loop(lambda c: np.sum(c) > 1.0, lambda c: c * w, w * 3.0)
    return np.sum(tg.while_loop(lambda c: np.sum(c) < 5.0, lambda c: c * 1.5 + first, first)) * w[0]


PROGRAMS = [
    (decay, V3), (counter_and_value, V3), (no_step, V3), (no_step, V20), (one_step, V3), (one_step, V20),
    (two_steps, V3), (two_steps, V20), (constant_start, V3), (constant_start, V20), (constant_start_no_step, V20),
    (newton, V3), (newton, V20), (reduction_in_the_condition, V20), (product_inside, M3), (product_inside, M20),
    (product_in_the_condition, M20), (ints_and_bools, V3), (carry_is_the_condition, V20), (nested, V3), (nested, V20),
    (three_deep, V3), (inside_a_scan, V3), (inside_a_scan, V20), (scan_inside, V20), (rows_of_an_array, V20),
    (scatters, V3), (sorted_inside, V3), (twice, V20),
]  # fmt: skip
IDS = [f"{f.__name__}-{p.size}" for f, p in PROGRAMS]
PROGRAMS[IDS.index("ints_and_bools-3")] = (ints_and_bools, V3[:2])
EVERY = pytest.mark.parametrize(("program", "point"), PROGRAMS, ids=IDS)


@pytest.mark.slow
@EVERY
def test_value_and_gradient(program, point):
    compiled = compile_grad(program)
    agree(compiled, program, point)
    agree(compiled, program, point)  # replayed
    assert not compiled.stats.live


@pytest.mark.slow
@EVERY
def test_second_derivative(program, point):
    weights = np.random.default_rng(3).normal(size=point.shape)
    first = compile_grad(program)

    def product(w):
        return np.sum(first.grad(w) * weights)

    expected = numerical_gradient(product, (point,))
    np.testing.assert_allclose(compile_grad(product).grad(point), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@EVERY
def test_forward_mode(program, point, runs):
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


def test_reverse_over_forward(run):
    """A loop that has no limit, in forward mode: its adjoint needs room too."""
    with recording(Recorder()) as recorder:
        var = recorder.add_input(V3, "w")
        tangent = recorder.add_input(np.ones(3), "t")
        out = nested(TracedArray(var, recorder))
        pushed = jvp(list(recorder.nodes), {var: tangent}, out.atom)
        (found,), _ = vjp_seeded(list(recorder.nodes), [(pushed, structural(1))], [var])
    graph = recorder.finish([found])
    first = compile_grad(nested)
    expected = numerical_gradient(lambda w: np.sum(first.grad(w)), (V3,))
    (result,) = run(graph, [V3, np.ones(3)])
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("program", "point"), [(nested, V3), (decay, V3), (constant_start_no_step, V20)])
def test_float32(program, point):
    config.check = False
    value, gradient = compile_grad(program).value_and_grad(point.astype(np.float32))
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(value, program(point), rtol=1e-3)
    np.testing.assert_allclose(gradient, compile_grad(program).grad(point), rtol=2e-3, atol=2e-3)


# ---- forms ---------------------------------------------------------------------------------------------------------


def test_results_are_those_of_the_plain_loop():
    """Values, dtypes, shapes and trees, also of integers and bools."""

    def everything(w, k):
        start = {"n": 3, "m": np.arange(3, dtype=np.int32), "f": np.zeros(2, np.float32), "b": True, "z": ()}

        def body(c):
            return {"n": c["n"] + k, "m": c["m"] * 2, "f": c["f"] + w, "b": ~c["b"], "z": c["z"]}

        return tg.while_loop(lambda c: c["n"] < 12, body, start)

    w = np.array([1.5, 2.5], np.float32)
    plain, compiled = everything(w, 2), compile_grad(everything)(w, 2)
    assert plain.keys() == compiled.keys() and plain["z"] == compiled["z"] == ()
    for name in "nmfb":
        ours, theirs = np.asarray(compiled[name]), np.asarray(plain[name])
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_array_equal(ours, theirs)


def test_outside_a_recording_arrays_are_not_written():
    start = np.zeros(2)

    def body(c):
        c += 1
        return c

    def f(start):
        return tg.while_loop(lambda c: np.sum(c) < 5, body, start)

    assert f(start).tolist() == [3, 3] == compile_grad(f)(start).tolist() and start.tolist() == [0, 0]


def test_tensors_go_step_by_step():
    x = tg.tensor(0.9, requires_grad=True)
    out = tg.while_loop(lambda c: c > 0.5, lambda c: c * x, x * 1.0)
    out.backward()
    assert x.grad.item() == pytest.approx(7 * 0.9**6)


def test_a_condition_may_be_a_number_or_a_constant():
    def down(w):
        return tg.while_loop(lambda c: c[0], lambda c: (c[0] - 1, c[1] * w), (4, w))[1]

    def never(w):
        return tg.while_loop(lambda c: False, lambda c: c * w, w)

    assert compile_grad(down)(0.5) == down(0.5) == 0.5**5
    assert compile_grad(never).grad(0.5) == 1


def test_no_limit_without_a_gradient():
    """Nothing is stored of a step: many more steps than there would be memory for."""

    @compile_grad
    def f(n):
        return tg.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.5 + 1.0), (0, 0.0))

    config.check = False
    assert f(np.array(3_000_000)) == (3_000_000, pytest.approx(2))
    (variant,) = next(iter(f._dispatcher.endpoints.values())).variants.values()
    assert variant[0].paths[0].recording.capacities == ()


def test_the_last_step_is_not_begun():
    """The body would not come to an end where the condition is False."""

    def f(w):
        def body(c):
            n, x = c
            odd, halved = tg.while_loop(lambda d: d[0] % 2 == 0, lambda d: (d[0] // 2, d[1] * w), (n, x))
            return odd - 1, halved

        return tg.while_loop(lambda c: c[0] != 0, body, (24, 1.0))[1]

    agree(compile_grad(f), f, 0.7)


def test_a_loop_that_takes_no_step_contributes_nothing():
    """An infinite derivative outside, and a cotangent that is exactly zero inside."""

    @compile_grad
    def f(w):
        far = np.exp(w * 1000.0)  # infinite, and so is its derivative
        return np.sum(tg.while_loop(lambda c: np.sum(c) > 1e9, lambda c: c * far, w))

    @compile_grad
    def g(w):
        return tg.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, np.exp(w * 1000.0 * (1 - c[0]))), (0, w))[1]

    assert f.grad(np.array([1.0, 2.0])).tolist() == [1, 1]
    assert g.grad(1.0) == 0


# ---- room for steps --------------------------------------------------------------------------------------------------


def power(w):
    return tg.while_loop(lambda c: c > 1.0, lambda c: c * w[0], w[1])


def by_hand(w):
    c, k = w[1], 0
    while c > 1.0:
        c, k = c * w[0], k + 1
    return np.array([k * w[0] ** (k - 1) * w[1], w[0] ** k])


def paths_of(f):
    return [p for e in f._dispatcher.endpoints.values() for vs in e.variants.values() for v in vs for p in v.paths]


@pytest.mark.slow
def test_more_steps_find_the_same_kernel():
    f = compile_grad(power)
    config.check = False
    for base in (0.5, 0.9, 0.999, 0.9999, 0.5, 0.99999, 0.9999, 0.5, 0.5):
        point = np.array([base, 5.0])
        np.testing.assert_allclose(f.grad(point), by_hand(point), rtol=1e-9)
    assert f.stats.compiles == 1 and not f.stats.live
    (path,) = paths_of(f)  # the ones with less room have made way
    assert path.recording.capacities == (524288,)
    assert "takes more than the room for its steps" in str(f.stats)
    assert "within the room for its steps" in f.explain(np.array([0.5, 5.0]), level="all")


@pytest.mark.slow
def test_room_within_nested_loops():
    def f(w):
        def step(c, n):
            return c + tg.while_loop(lambda d: d[0] < n, lambda d: (d[0] + 1, np.sin(d[1] * w)), (0, c))[1], None

        return tg.scan(step, 0.5, steps)[0]

    compiled = compile_grad(f)
    config.check = False
    for most in (3, 3, 5000, 5000, 4):
        steps = np.array([1, most, 2])
        assert compiled.grad(0.8) == pytest.approx(numerical_gradient(f, (0.8,)), rel=1e-6)
    assert {p.recording.capacities for p in paths_of(compiled)} == {(16384,)}
    assert compiled.stats.compiles == 1 and not compiled.stats.live


def test_many_sizes_of_room_are_not_many_branches():
    f = compile_grad(power)
    config.check, budget = False, config.loop_memory
    config.loop_memory = 8  # room for no more than what is needed: another number in each recording
    try:
        for k in range(3, 3 + 2 * config.max_paths):
            point = np.array([0.5, 1.5 * 2.0**k])
            np.testing.assert_allclose(f.grad(point), by_hand(point), rtol=1e-9)
    finally:
        config.loop_memory = budget
    assert not f.stats.live and len(paths_of(f)) == 1


@pytest.mark.slow
def test_room_where_python_runs_each_time():
    """The kernel is held to it there too."""

    @compile_grad
    def f(w):
        time.perf_counter()
        return power(w)

    for base in (0.5, 0.99999, 0.9):
        point = np.array([base, 5.0])
        np.testing.assert_allclose(f.grad(point), by_hand(point), rtol=1e-9)
    assert f.stats.live and f.stats.compiles <= 1


def test_how_much_room():
    assert [capacity(n, 8) for n in (0, 1, 512, 513, 10_000)] == [1024, 1024, 1024, 2048, 32768]
    assert capacity(10, loop_memory.budget) == 11
    assert capacity(10, loop_memory.budget // 20) == 20


# ---- what can't be ---------------------------------------------------------------------------------------------------


def refused(error, match, f, *args):
    with pytest.raises(error, match=match) as caught:
        compile_grad(f).grad(*args)
    assert "test_while_loop.py" in str(caught.value)


def test_conditions_that_are_no_bool():
    for f in (
        lambda w: tg.while_loop(lambda c: c > 0, lambda c: c * w, w),
        lambda w: tg.while_loop(lambda c: np.ones(3) > 0, lambda c: c * w, w),
    ):
        refused(ShapeError, r"has to be one bool, but <lambda> .* bool\[3\]: reduce it with np.any", f, V3)
        with pytest.raises(ShapeError, match="reduce it with"):
            f(V3)
    refused(ShapeError, "NoneType", lambda w: tg.while_loop(lambda c: None, lambda c: c * w, w), V3)


def test_a_carry_that_changes_is_named():
    refused(
        ShapeError, r"the carry `x\['a'\]` of while_loop starts as int64\[\] and comes back .* start with a float",
        lambda w: tg.while_loop(lambda c: c["a"] < 3, lambda x: {"a": x["a"] + w[0]}, {"a": 0})["a"], V3,
    )  # fmt: skip
    refused(UnsupportedError, "changes its structure", lambda w: tg.while_loop(lambda c: True, lambda c: (c, c), w), V3)


def test_indices_out_of_bounds():
    """In a step, in the condition of a step, and in the one that would have ended the loop."""

    def walk(w, first, last, condition):
        def body(c):
            return c[0] + 1, c[1] + w[c[0]] * 1.0

        return tg.while_loop(condition or (lambda c: c[0] < last), body, (first, 0.0))[1]

    assert compile_grad(walk).grad(V3, 0, 3, None).tolist() == [1, 1, 1]
    refused(tg.BadIndexError, "out of bounds in some step", lambda w: walk(w, 0, 4, None), V3)
    refused(tg.BadIndexError, "out of bounds", lambda w: walk(w, 0, 3, lambda c: w[c[0]] > 0.0), V3)
    refused(tg.BadIndexError, "out of bounds", lambda w: walk(w, 0, 3, lambda c: w[c[0] + 1] > 0.65), V3)


def test_the_gradient_inside_a_body_has_no_room():
    def inner(x):
        return tg.while_loop(lambda c: c > 0.5, lambda c: c * x, x)

    refused(UnsupportedError, "take the gradient of the whole outside", lambda w: tg.fori_loop(
        0, 3, lambda i, c: c - 0.1 * autograd.grad(inner)(c), w), 0.9)  # fmt: skip


# ---- the primitive ---------------------------------------------------------------------------------------------------

COUNTED = """
graph(a:i64[], b:f64[{n}], c:f64[{n},{m}]) {{
  d:f64[{m}], e:f64[{n},{m}] = loop[body=graph(a:f64[{m}], b:f64[], c:f64[{m}]) {{
    d:f64[{m}] = mul a c
    e:f64[{m}] = broadcast[shape=({m},), dims=()] b
    f:f64[{m}] = add d e
    return f d
  }}, consts=0, carries=1, length={n}, reverse={reverse}, counted=True] a {start} b c
  return d e
}}
"""
STOPS = """
graph(a:f64[], b:f64[{m}], c:f64[{n},{m}]) {{
  d:f64[{m}], e:i64[], f:f64[{n},{m}] = loop[body=graph(a:f64[], b:f64[{m}], c:f64[{m}]) {{
    d:f64[] = reduce_sum[axes=(0,)] b
    e:bool[] = lt d a
    f:f64[{m}] = add b c
    g:f64[{m}] = mul b c
    return e f g
  }}, consts=1, carries=1, length={n}, reverse=False, stops=True] a b c
  return d e f
}}
"""


@pytest.mark.parametrize("m", [1, 3, 40])
@pytest.mark.parametrize("reverse", [False, True])
def test_counted(m, reverse, run):
    """Rows that are not run are zeros; a count out of range is as many as there are."""
    n = 5
    text = COUNTED.replace("{start}", "g").replace("c:f64[{n},{m}])", "c:f64[{n},{m}], g:f64[{m}])", 1)
    graph = parse_graph(text.format(n=n, m=m, reverse=reverse))
    assert print_graph(parse_graph(print_graph(graph))) == print_graph(graph)
    b, c, start = RNG.normal(size=n), RNG.normal(size=(n, m)), RNG.normal(size=m)
    for steps in (0, 1, 2, 4, 5, 9, -2):
        last, ys = run(graph, [steps, b, c, start])
        expected, rows = start, np.zeros((n, m))
        taken = range(min(max(steps, 0), n))
        for i in reversed(taken) if reverse else taken:
            rows[i] = expected * c[i]
            expected = rows[i] + b[i]
        np.testing.assert_allclose(last, expected, rtol=1e-14)
        np.testing.assert_allclose(ys, rows, rtol=1e-14)


@pytest.mark.parametrize("m", [1, 3, 40])
def test_stops(m, run):
    n = 6
    graph = parse_graph(STOPS.format(n=n, m=m))
    assert print_graph(parse_graph(print_graph(graph))) == print_graph(graph)
    b, c = np.full(m, 1.0 / m), np.full((n, m), 1.0 / m)
    for limit in (0.5, 1.5, 2.5, 5.5, 100.0):
        last, taken, ys = run(graph, [limit, b, c])
        count = min(int(limit), n)
        assert taken == count
        np.testing.assert_allclose(last, (1 + count) * b, rtol=1e-14)
        rows = np.zeros((n, m))
        rows[:count] = (1 + np.arange(count))[:, None] * b * c[:count]
        np.testing.assert_allclose(ys, rows, rtol=1e-14)


@pytest.mark.parametrize("m", [1, 3, 40])
def test_counted_and_stops(m, run):
    """Whichever comes first."""
    n = 6
    text = STOPS.format(n=n, m=m).replace("graph(a:f64[], b", "graph(s:i64[], a:f64[], b", 1)
    graph = parse_graph(text.replace("stops=True] a", "counted=True, stops=True] s a"))
    b, c = np.full(m, 1.0 / m), np.full((n, m), 1.0 / m)
    for steps, limit in ((0, 3.5), (2, 3.5), (3, 3.5), (4, 3.5), (9, 100.0)):
        last, taken, ys = run(graph, [steps, limit, b, c])
        count = min(int(limit), n, steps)
        assert taken == count and not ys[count:].any() and ys[:count].all()
        np.testing.assert_allclose(last, (1 + count) * b, rtol=1e-14)


def loops_of_rows(seed, m):
    """(a loop that runs a part of its rows, its operands, the first of which is no float that matters)"""
    rng, n = np.random.default_rng(seed), 5
    if seed % 3 == 2:
        points = [0.5 + seed, np.full(m, 1.0 / m), np.full((n, m), 1.0 / m) * rng.uniform(0.98, 1.02, size=(n, m))]
        return parse_graph(STOPS.format(n=n, m=m)), points
    text = COUNTED.replace("{start}", "g").replace("c:f64[{n},{m}])", "c:f64[{n},{m}], g:f64[{m}])", 1)
    points = [int(rng.integers(0, 6)), rng.normal(size=n), rng.normal(size=(n, m)), rng.normal(size=m)]
    return parse_graph(text.format(n=n, m=m, reverse=bool(seed % 2))), points


@pytest.mark.parametrize("seed", seeds(9, quick=2))
@pytest.mark.parametrize("m", [2, 30])
def test_derivatives_of_rows_that_are_not_run(seed, m, run):
    """Cotangents of all operands, through results of which a part is zeros: by finite differences."""
    graph, points = loops_of_rows(seed, m)
    with recording(Recorder()) as recorder:
        recorder.adopt(graph.nodes)
        weights = [structural(1.5 / m**2), structural(0.5)]  # of a mean: differences of large values are rounded
        total = weights[0] * F.mul(*[_sum(graph.outputs[0])] * 2) + weights[1] * _sum(F.sin(graph.outputs[-1]))
        found, _ = vjp_seeded(list(recorder.nodes), [(total, structural(1))], graph.inputs[1:])
    recorder.inputs = list(graph.inputs)
    value, *gradients = run(recorder.finish([total, *found]), points)
    alone = recorder.finish([total])
    for k, gradient in enumerate(gradients, start=1):

        def moved(x, k=k):
            return run(alone, [*points[:k], x, *points[k + 1 :]])[0]

        np.testing.assert_allclose(gradient, numerical_gradient(moved, (points[k],)), rtol=1e-5, atol=1e-6)
    assert np.isfinite(value)


def _sum(x):
    return bind(PRIMITIVES["reduce_sum"], x, axes=tuple(range(x.aval.ndim)))


def test_malformed_loops_are_refused():
    text = STOPS.format(n=4, m=2)
    for old, new, match in (
        ("reverse=False, stops=True", "reverse=True, stops=True", "goes forward"),
        ("return e f g", "return f f g", "first output"),
        ("carries=1, length=4, reverse=False, stops=True", "carries=1, length=4, reverse=False", "begins a step"),
        ("stops=True] a", "stops=True, counted=True] a", "number of steps"),
    ):
        with pytest.raises(GraphError, match=match):
            parse_graph(text.replace(old, new))


def test_rows_that_only_the_adjoint_reads_are_not_filled():
    """They are as many as there is room for, and few of them are steps."""
    graph = text_of(power, np.array([0.5, 5.0]))
    assert re.search(r"stops=True\] .*counted=True\] ", graph, re.DOTALL)
    f = compile_grad(power)
    f.grad(np.array([0.5, 5.0]))
    (path,) = paths_of(f)
    forward, _ = path.program.plans.values()
    assert forward.op.params["stops"] and forward.cleared == []


def text_of(f, *args):
    compiled = compile_grad(f)
    compiled.value_and_grad(*args)
    (path,) = paths_of(compiled)
    return print_graph(path.recording.graph)


def test_long_loops_are_run_by_a_kernel_while_recording(monkeypatch):
    calls = []
    run = control.compiled_loops[0]
    monkeypatch.setattr(control, "MANY", 300)
    monkeypatch.setattr(control, "compiled_loops", [lambda *given: calls.append(1) or run(*given)])

    def f(x):
        _, total = tg.while_loop(lambda c: c[0] < 500.0, lambda c: (c[0] + 1.0, c[1] + np.sin(c[0] * x)), (0.0, 0.0))
        return total if total > 0 else -total * x

    compiled = compile_grad(f)
    assert compiled(0.3) == pytest.approx(f(0.3)) and calls
