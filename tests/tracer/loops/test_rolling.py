"""Plain Python loops in recorded functions become loop nodes: values, gradients, and what has been rolled.

Every compiled call here is compared with the interpreter (``config.check``), with the plain function, and its gradient
with finite differences.
"""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

import tracegrad as tg
from tracegrad import compile_grad, config, make_graph
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.tracer.ir.primitive import LOOP

RNG = np.random.default_rng(11)
X = RNG.normal(size=(40, 3))
W = RNG.normal(size=(3, 3)) * 0.4
V = RNG.normal(size=3) * 0.4


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(config, "check", True)
    kernels.clear()


def loops(fn, *args):
    """The lengths of the loop nodes of *fn*'s recording, those within others in lists."""

    def lengths(nodes):
        found = []
        for node in nodes:
            if node.prim.kind == LOOP:
                found.append(node.params["length"])
                inner = lengths(node.params["body"].nodes)
                found += [inner] if inner else []
        return found

    return lengths(make_graph(fn)(*args).graph.nodes)


def agree(fn, *args, rolled=None):
    """Value and gradient of *fn* on several calls, and its loops."""
    f = compile_grad(fn)
    expected, gradient = fn(*args), numerical_gradient(fn, args)
    for _ in range(3):
        value, found = f.value_and_grad(*args)
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found, gradient, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(f(*args), expected, rtol=1e-10, atol=1e-12)
    if rolled is not None:
        assert loops(fn, *args) == rolled
    return f


# ---- programs ------------------------------------------------------------------------------------------------------


def test_carry():
    def fn(v):
        h = v
        for _ in range(30):
            h = np.tanh(W @ h + v)
        return np.sum(h)

    agree(fn, V, rolled=[30])


def test_weights_that_come_in_turn_are_read_where_they_are():
    weights = [W, W.T * 0.5, W + 0.1]

    def fn(v):
        h = v
        for _ in range(30):
            for w in weights:
                h = np.tanh(w @ h + v)
        return np.sum(h)

    agree(fn, V, rolled=[30])


def test_rows_of_an_argument():
    def fn(v):
        h = v * 0
        for t in range(40):
            h = np.tanh(h * v + X[t])
        return np.sum(h**2)

    agree(fn, V, rolled=[40])


def test_constants_that_each_turn_makes_anew():
    """Equal ones are one; others are rows of one array, also where Python runs in each call."""

    def equal(w):
        x = w
        for _ in range(70):
            x = 0.9 * (np.eye(3) - 0.1 * np.diag([1.0, 2.0, 3.0])) @ x + 0.1 * w
        return np.sum(x * x)

    def rows(w):
        t = np.linspace(0.0, 1.0, 210).reshape(70, 3)
        x = w
        for k in range(70):
            x = 0.9 * x + t[k] * w
        return np.sum(x * x)

    def drawn(w):
        t = np.random.default_rng(0).normal(size=(70, 3))
        x = w
        for k in range(70):
            x = 0.9 * x + t[k] * w + np.eye(3)[0]
        return np.sum(x * x)

    def listed(w, values):
        x = w
        for v in values:
            x = 0.9 * x + v * w
        return np.sum(x * x)

    for fn in (equal, rows):
        agree(fn, V, rolled=[70])
    values = [np.full(3, float(k)) for k in range(70)]
    agree(listed, V, values, rolled=[70])
    agree(drawn, V)
    f = compile_grad(drawn)
    f(V)
    assert "rolled: the loop at test_rolling.py" in f.explain(V, level="all")


def test_iteration_over_an_array_and_stacked_results():
    def fn(xs):
        ys, h = [], xs[0] * 0
        for x in xs:
            h = np.sin(h + x)
            ys.append(h)
        return np.sum(np.stack(ys) ** 2) + np.sum(ys[-1]) + np.sum(ys[3])

    agree(fn, X, rolled=[40])


def test_enumerate_zip_and_numbers():
    def fn(v):
        total = 0.0
        for k, (a, b) in enumerate(zip(X, X[::-1], strict=True)):
            total = total + np.sum(np.sin(a * v) * b) / (k + 1) + 2 * k * v[0]
        return total

    agree(fn, V, rolled=[40])


def test_two_steps_back():
    def fn(v):
        a, b = v, v * 0.5
        for _ in range(25):
            a, b = b, np.sin(a) + 0.3 * b
        return np.sum(a * b)

    agree(fn, V)
    assert len(loops(fn, V)) == 1


def test_many_steps_back():
    """Seasons: in a list that goes round, and in one that grows."""

    def ring(w, y):
        season, level, error = [w[0], w[1] * 2, w[2], w[0] * w[1], w[2] + 1], y[0], 0.0
        for t in range(len(y)):
            difference = y[t] - level - season[t % 5]
            error = error + difference**2 * season[t % 5]
            level = level + 0.3 * difference
            season[t % 5] = season[t % 5] + w[1] * difference
        return error + season[3]

    def grown(w, y):
        seasons, levels = [w[0], w[1], w[2], w[0] * w[1]], [y[0], y[1]]
        for t in range(len(y)):
            levels.append(0.3 * (y[t] - seasons[-4]) + 0.6 * levels[-2])
            seasons.append(w[1] * (y[t] - levels[-1]) + 0.5 * seasons[-4] * w[2])
        return np.mean(np.array(seasons[4:]) * np.array(levels[2:]))

    agree(ring, V, X[:, 0], rolled=[39])
    agree(grown, V, X[:, 0], rolled=[40])


def test_nested_loops():
    def fn(v):
        total = 0.0
        for i in range(20):
            inner = v * i
            for j in range(17):
                inner = np.cos(inner + X[j])
            total = total + np.sum(inner * X[i])
        return total

    agree(fn, V, rolled=[20, [17]])


def test_triangular_loops():
    def fn(v):
        total = 0.0
        for i in range(24):
            h = v
            for _ in range(i):
                h = np.sin(h + v)
            total = total + np.sum(h)
        return total

    agree(fn, V)


def test_first_and_last_iteration_differ():
    def fn(v):
        h = None
        for t in range(30):
            if t == 0:
                h = np.cos(v) * 2
            elif t < 29:
                h = np.sin(h * v)
            else:
                h = h * h
        return np.sum(h)

    agree(fn, V, rolled=[28])


def test_iteration_in_the_middle_differs():
    def fn(v):
        h = v
        for t in range(60):
            h = np.sin(h * v)
            if t == 30:
                h = h * 2
        return np.sum(h)

    agree(fn, V)
    assert len(loops(fn, V)) == 2


def test_sum_of_a_list():
    def fn(v):
        return sum([np.sum(np.sin(v * x)) for x in X])

    agree(fn, V)


def test_elementwise_comprehension_becomes_whole_arrays():
    def fn(v):
        return np.sum(np.stack([np.sin(v * x) + k for k, x in enumerate(X)]) ** 2)

    agree(fn, V, rolled=[])


def test_writes_into_an_array():
    def fn(v):
        out = tg.zeros((40, 3))
        out[0] = v
        for t in range(1, 40):
            out[t] = np.sin(out[t - 1] * v) + X[t]
        return np.sum(out**2)

    agree(fn, V)
    assert len(loops(fn, V)) == 1


def test_other_axes_windows_and_directions():
    def fn(v):
        a = np.outer(np.sin(X[:, 0]), v)
        total = 0.0
        for t in range(30):
            total = total + a[29 - t, 1] * a[t, 2] + np.sum(a[t : t + 3] ** 2) * np.sum(a.T[:, t])
        return total

    agree(fn, V)
    assert len(loops(fn, V)) == 1


def test_positions_in_any_order():
    order = [int(k) for k in RNG.permutation(40)]

    def fn(v):
        a, h = np.outer(np.sin(X[:, 0]), v), v
        for k in order:
            h = np.tanh(h + a[k])
        return np.sum(h)

    agree(fn, V, rolled=[40])


def test_guards_in_the_body():
    def fn(v):
        h = v
        for t in range(30):
            h = np.sin(h + v) if np.sum(h) < 100.0 + t else h * 2
        return np.sum(h)

    f = agree(fn, V, rolled=[30])
    far = V + 50.0
    np.testing.assert_allclose(f(far), fn(far), rtol=1e-10)
    np.testing.assert_allclose(f.grad(far), numerical_gradient(fn, (far,)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(f(V), fn(V), rtol=1e-10)


def test_integers_looked_at():
    def fn(v):
        h, total = v, 0.0
        for t in range(30):
            k = int(np.floor(np.abs(np.sin(h[0])) * 3)) % 3
            h = np.sin(h + v) + 0.1
            total = total + h[0] * (k + t)
        return total

    f = agree(fn, V)
    for w in (V * 1.01, V * 0.3, V):
        np.testing.assert_allclose(f(w), fn(w), rtol=1e-10)


def test_helpers_methods_and_state():
    class Cell:
        def __init__(self):
            self.w = W

        def step(self, state, x):
            h, c = state["h"], state["c"]
            c = c * 0.5 + np.tanh(self.w @ h + x)
            return {"h": np.sin(c), "c": c}

    cell = Cell()

    def fn(v):
        state = {"h": v, "c": v * 0}
        for x in X:
            state = cell.step(state, x)
        return np.sum(state["h"] + state["c"])

    agree(fn, V, rolled=[40])


def test_invariant_work_is_done_once():
    def fn(v):
        h = v
        for _ in range(20):
            m = np.exp(W * 0.1) @ W
            h = np.tanh(m @ h + np.sum(v) * 0.5)
        return np.sum(h)

    agree(fn, V, rolled=[20])


def test_second_order():
    def fn(v):
        h = v
        for t in range(20):
            h = np.sin(h * v + X[t])
        return np.sum(h)

    g = compile_grad(lambda v: np.sum(compile_grad(fn).grad(v) ** 2))
    expected = numerical_gradient(lambda v: np.sum(numerical_gradient(fn, (v,)) ** 2), (V,))
    np.testing.assert_allclose(g.grad(V), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_kernel_for_any_number_of_steps(dtype):
    def fn(v, n):
        h, ys = v, []
        for t in range(n):
            h = np.tanh(W.astype(dtype) @ h + t)
            ys.append(np.sum(h))
        return np.sum(h) + np.sum(np.stack(ys))

    f = compile_grad(fn)
    v = V.astype(dtype)
    tolerance = 1e-4 if dtype == "float32" else 1e-9
    for n in (20, 50, 333, 20):
        value, gradient = f.value_and_grad(v, n)
        np.testing.assert_allclose(value, fn(v, n), rtol=tolerance)
        assert gradient.dtype == v.dtype
    assert f.stats.compiles == 1


def test_a_loop_in_the_body_of_scan():
    def fn(v):
        def step(c, x):
            for _ in range(20):
                c = np.sin(c + x * v)
            return c, np.sum(c)

        last, ys = tg.scan(step, v, X)
        return np.sum(last) + np.sum(ys)

    agree(fn, V, rolled=[40, [20]])


def starts_with_a_value(w):
    out, t = [w[0]], w[0]
    for _ in range(40):
        t = 0.9 * t + np.sin(w[1])
        out.append(t)
    return np.sum(np.array(out) ** 2)


def reads_the_last(w):
    out = [w[0], w[1]]
    for _ in range(40):
        out.append(0.9 * out[-1] + w[2] * np.tanh(out[-2]))
    return np.sum(np.diff(np.asarray(out)) ** 2)


def several_lists(w):
    kept = {"x": [w[0]], "v": [w[1]]}
    x, v = w[0], w[1]
    for _ in range(40):
        x, v = x + 0.1 * v, v - 0.1 * np.sin(x)
        kept["x"].append(x)
        kept["v"].append(v)
    return np.sum(np.array(kept["x"]) ** 2) + np.mean(np.array(kept["v"]))


def pairs(w):
    x, v = w[0], w[1]
    out = [[x, v]]
    for _ in range(40):
        x, v = x + 0.1 * v, v - 0.1 * np.sin(x)
        out.append([x, v])
    return np.sum(np.array(out)[:, 1] ** 2)


def one_after_another(w):
    x, v, out = w[0], w[1], []
    for _ in range(40):
        x, v = x + 0.1 * v, np.cos(v) * w[2]
        out.append(x)
        out.append(v)
    return np.sum(np.array(out)[3:] ** 2)


def by_turns(w):
    out, t = [w[0]], w[0]
    for k in range(80):
        t = 0.9 * t + np.sin(w[1]) if k % 2 else 0.5 * t
        out.append(t)
    out.append(w[2])
    return np.sum(np.array(out) ** 2)


def three_by_turns(w):
    out, t = [w[2]], w
    for k in range(120):
        t = np.sin(t) if k % 3 == 0 else 0.5 * t if k % 3 == 1 else t + w
        out += [t[0], t[1]]
    return np.sum(np.stack(out) ** 2)


def vectors_between_others(w):
    out, t = [w], w
    for _ in range(40):
        t = 0.9 * t + np.sin(w)
        out.append(t)
    out.insert(0, np.ones(3))
    return np.sum(np.concatenate([*out, 2 * w]) ** 2) + np.sum(np.vstack(out)[:, 1])


@pytest.mark.parametrize("fn", [pairs, three_by_turns, vectors_between_others])
def test_lists_of_lists_or_of_several_values_at_once(fn):
    agree(fn, V)


@pytest.mark.parametrize("fn", [starts_with_a_value, reads_the_last, several_lists, one_after_another, by_turns])
def test_lists_that_loops_append_to_are_arrays_of_loops(fn):
    """Whatever stands before and behind what the loop appends, in one list or several, and where lines take turns."""
    agree(fn, V)
    assert len(make_graph(fn)(V).graph.nodes) < 90  # no slice for each turn


def test_large_blocks_step_through_any_number_of_values():
    def fields(c, sources):
        u, v, kept = np.zeros(3), np.zeros(3), []
        for source in sources:
            k = np.sum(np.stack([np.roll(u, 1), u, np.roll(u, -1)]) * c, axis=0)
            v = v + 0.1 * (source * c**2 + k)
            u = u + 0.1 * v
            kept.append(u)
        return np.sum(np.array([0.3 * u[1] + 0.7 * u[2] for u in kept]) ** 2)

    agree(fields, V, [RNG.normal(size=3) for _ in range(70)])
