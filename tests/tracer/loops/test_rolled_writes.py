"""Arrays that rolled loops write row by row: values, gradients, and what is left of the array in the loop."""

from __future__ import annotations

import numpy as np
import pytest
from test_rolling import V, X, agree, checked, loops  # noqa: F401

import tracegrad as tg
from tracegrad import compile_grad, make_graph
from tracegrad.tracer.ir.primitive import LOOP
from tracegrad.tracer.ops.control import loop_view

pytestmark = pytest.mark.slow

N = 40


def widest(fn, *args):
    """The most elements that a carry has of the loops of *fn*."""

    def most(nodes):
        sizes = [0]
        for node in nodes:
            if node.prim.kind == LOOP:
                view = loop_view(node)
                sizes += [v.aval.size for v in view.inner.carries]
                sizes.append(most(view.body.nodes))
        return max(sizes)

    return most(make_graph(fn)(*args).graph.nodes)


def by_rows(fn, *args, carried):
    """*fn* agrees with NumPy, and its loops carry no more than *carried* elements in one array."""
    agree(fn, *args)
    assert widest(fn, *args) <= carried


def carried_whole(fn, *args, size):
    """*fn* agrees with NumPy, and its loop carries the array of *size* elements, which no derivative keeps turn by
    turn."""
    f = agree(fn, *args)
    assert widest(fn, *args) == size
    assert f.lower(*args).compile().memory_analysis("value_and_grad").workspace < 8 * size * 10


# ---- what becomes rows ---------------------------------------------------------------------------------------------


def test_one_step_back():
    def fn(v):
        out = tg.zeros((N, 3))
        out[0] = v
        for t in range(1, N):
            out[t] = np.sin(out[t - 1] * v) + X[t]
        return np.sum(out**2)

    by_rows(fn, V, carried=3)


def test_steps_without_a_connection_need_no_loop():
    def fn(v):
        out = tg.zeros((N, 3))
        for t in range(N):
            out[t] = np.sin(X[t] * v) + t
        return np.sum(out**2 * X)

    agree(fn, V, rolled=[])


def test_two_steps_back():
    def fn(v):
        f = tg.zeros(N)
        f[0], f[1] = v[0], v[1]
        for t in range(2, N):
            f[t] = np.sin(f[t - 1]) + 0.5 * f[t - 2] * v[2]
        return np.sum(f**2) + f[7]

    by_rows(fn, V, carried=1)


def test_windows_of_the_last_steps():
    def fn(v):
        y = tg.zeros(N)
        y[0:3] = v
        for t in range(3, N):
            y[t] = np.tanh(np.sum(v * y[t - 3 : t])) + X[t, 0]
        return np.sum(y**2)

    carried_whole(fn, V, size=40)


def test_places_that_are_not_yet_written():
    def fn(v):
        u = np.outer(np.sin(X[:, 0]), v)
        for t in range(1, N - 1):
            u[t] = 0.3 * u[t - 1] + 0.2 * u[t] ** 2 + 0.4 * u[t + 1]
        return np.sum(u**2)

    by_rows(fn, V, carried=3)


def test_places_that_are_never_written():
    def fn(v):
        u = np.outer(np.sin(X[:, 0]), v)
        for t in range(20, N):
            u[t] = np.sin(u[t - 1]) + u[t - 20] * u[3]
        return np.sum(u**2)

    agree(fn, V)


def test_columns_that_are_only_read():
    def fn(v):
        u = np.outer(np.sin(X[:, 0]), v)
        for t in range(1, 20):
            u[t, 0] = np.sin(u[t - 1, 0]) + u[2 * t, 1] * u[5, 2]
        return np.sum(u**2)

    carried_whole(fn, V, size=120)


def test_from_the_last_to_the_first():
    def fn(v):
        out = tg.zeros((N + 1, 3))
        out[N] = v
        for t in reversed(range(N)):
            out[t] = np.sin(out[t + 1] * v) + X[t]
        return np.sum(out**2)

    by_rows(fn, V, carried=3)


def test_the_last_place_is_before_the_first():
    def fn(v):
        out = np.outer(np.cos(X[:, 1]), v)
        for t in range(N):
            out[t] = np.sin(out[t - 1] * v) + out[t]
        return np.sum(out**2)

    carried_whole(fn, V, size=120)


def test_every_second_place():
    def fn(v):
        out = np.outer(np.cos(X[:, 1]), v)
        for t in range(1, N // 2):
            out[2 * t] = np.sin(out[2 * t - 2] * v) + out[2 * t - 1]
        return np.sum(out**2)

    by_rows(fn, V, carried=3)


def test_columns():
    def fn(v):
        out = tg.zeros((3, N))
        out[:, 0] = v
        for t in range(1, N):
            out[:, t] = np.cos(out[:, t - 1]) * v + X[t]
        return np.sum(out**2) + out[1, 5]

    by_rows(fn, V, carried=3)


def test_three_axes_and_parts_of_rows():
    def fn(v):
        out = tg.ones((2, N, 4))
        for t in range(2, N):
            out[1, t, 1:] = np.sin(out[1, t - 1, 1:] * v) + out[0, t, 0] * out[1, t - 2, 1:] + out[1, t, 0]
        return np.sum(out**2)

    by_rows(fn, V, carried=4)


@pytest.mark.parametrize("order", [1, -1])
def test_windows(order):
    def fn(v):
        out = np.outer(np.cos(X[:, 1]), v)
        for t in range(1, N // 2)[::order]:
            out[2 * t : 2 * t + 2] = np.sin(out[2 * t : 2 * t + 2] * v) * 0.5 + X[t]
        return np.sum(out**2)

    agree(fn, V)


def test_windows_that_are_carried():
    def fn(v):
        out = np.outer(np.cos(X[:, 1]), v)
        for t in range(1, N // 2):
            out[2 * t : 2 * t + 2] = np.sin(out[2 * t - 2 : 2 * t] * v) * 0.5 + out[2 * t - 1]
        return np.sum(out**2)

    carried_whole(fn, V, size=120)


def test_places_far_apart():
    def fn(v):
        out = tg.zeros(2 * N)
        for t in range(1, N):
            out[t] = np.sin(out[t - 1]) + v[0]
            out[N + t] = out[t] * v[1] + out[N + t - 1] * 0.5
        return np.sum(out**2)

    by_rows(fn, V, carried=2)


def test_ten_places_far_apart():
    def fn(v):
        out = tg.zeros((10 * N, 2))
        for t in range(1, N):
            out[t :: 1 * N, 0] = np.sin(out[t - 1 :: N, 0]) + v[0]
        return np.sum(out**2)

    agree(fn, V)  # turn by turn: a slice asks for its start


def test_parts_of_one_row():
    def fn(v):
        s = tg.zeros((N, 3))
        s[0] = v
        for t in range(1, N):
            s[t, 0] = s[t - 1, 0] * 0.9 + s[t - 1, 1] * v[0]
            s[t, 1] = np.sin(s[t - 1, 1]) + s[t, 0]
            s[t][2] = s[t, 0] * s[t, 1]
        return np.sum(s**2) + s[4, 2]

    carried_whole(fn, V, size=120)


def test_added_in_place():
    def fn(v):
        out = np.outer(np.cos(X[:, 1]), v)
        for t in range(1, N):
            out[t] += 0.5 * out[t - 1] * v
            out[t, 1] *= v[1]
        return np.sum(out**2)

    carried_whole(fn, V, size=120)


def test_added_into_one_place():
    def fn(v):
        acc = np.outer(np.cos(X[:, 1]), v)
        for t in range(N):
            acc[3] += np.sin(acc[3] * X[t]) * acc[5]
        return np.sum(acc**2) + acc[3, 1]

    carried_whole(fn, V, size=120)


def test_two_arrays():
    def fn(v):
        a, b = tg.zeros((N, 3)), tg.zeros((N, 3))
        a[0] = v
        for t in range(1, N):
            b[t] = np.sin(a[t - 1]) + X[t]
            a[t] = b[t] * v + b[t - 1]
        return np.sum(a**2) + np.sum(b[::2])

    by_rows(fn, V, carried=3)


def test_the_gradient_of_what_was_there():
    def fn(u):
        out = u * 1.0
        for t in range(2, N):
            out[t] = np.sin(out[t - 1]) * out[t] + out[t - 2]
        return np.sum(out**2) + np.sum(u)

    by_rows(fn, X, carried=3)


def test_part_of_the_loop_is_different():
    def fn(v):
        out = tg.zeros((2 * N, 3))
        out[0] = v
        early = out[0] * 2
        for t in range(1, N):
            out[t] = np.sin(out[t - 1] * v)
        middle = np.sum(out**2)
        for t in range(N, 2 * N):
            out[t] = np.cos(out[t - 1] * v) + out[t - N]
        return np.sum(out**2) + middle + np.sum(early)

    by_rows(fn, V, carried=2 * N * 3)


def test_copies_of_single_steps():
    def fn(v):
        out, kept = np.zeros_like(v, shape=(N, 3)), []
        out[0] = v
        for t in range(1, N):
            out[t] = np.sin(out[t - 1] * v)
            kept.append(out.copy())
        return np.sum(kept[4] ** 2) + np.sum(kept[20]) + np.sum(out**2)

    agree(fn, V)


def test_all_copies():
    def fn(v):
        out, kept = np.zeros_like(v, shape=(20, 3)), []
        out[0] = v
        for t in range(1, 20):
            out[t] = np.sin(out[t - 1] * v)
            kept.append(out.copy())
        return np.sum(np.stack(kept) ** 2)

    agree(fn, V)


def test_nested_loops():
    def fn(v):
        out = tg.zeros((20, 18))
        out[0] = v[0]
        out[:, 0] = v[1]
        for i in range(1, 20):
            for j in range(1, 18):
                out[i, j] = np.sin(out[i - 1, j] + out[i, j - 1] * v[2])
        return np.sum(out**2)

    by_rows(fn, V, carried=18)


def test_empty_windows():
    def fn(v):
        out, h = tg.zeros((N, 3)), v
        for t in range(N):
            out[t:t] = X[0:0]
            h = np.sin(h * v) + np.sum(out[t])
        return np.sum(h)

    agree(fn, V)


def test_float32():
    def fn(v):
        out = np.zeros_like(v, shape=(N, 3))
        for t in range(1, N):
            out[t] = np.sin(out[t - 1] * v + 1)
        return np.sum(out**2)

    v = V.astype("float32")
    found = compile_grad(fn)(v)
    np.testing.assert_allclose(found, fn(v), rtol=1e-5)


def test_second_order():
    def fn(v):
        out = tg.zeros((N, 3))
        out[0] = v
        for t in range(1, N):
            out[t] = np.sin(out[t - 1] * v) + out[t - 1] ** 2 * 0.1
        return np.sum(out**2)

    f = compile_grad(fn)
    agree(lambda v: np.sum(f.grad(v) ** 2), V)


def test_one_kernel_for_any_number_of_steps():
    def fn(v, n):
        out = tg.zeros((n, 3))
        out[0] = v
        for t in range(1, n):
            out[t] = np.sin(out[t - 1] * v) + X[t]
        return np.sum(out**2)

    f = compile_grad(fn)
    for n in (20, 30, 40, 25):
        np.testing.assert_allclose(f.value_and_grad(V, n)[0], fn(V, n), rtol=1e-9)
    assert f.stats.compiles == 1


# ---- what stays as it was ------------------------------------------------------------------------------------------


def test_windows_that_overlap():
    def fn(v):
        out = tg.zeros((N + 1, 3))
        for t in range(N):
            out[t : t + 2] = np.sin(out[t] * v) + X[t]
        return np.sum(out**2)

    carried_whole(fn, V, size=(N + 1) * 3)


def test_explain_says_why_an_array_is_carried():
    def fn(v):
        out = tg.zeros((N, 3))
        for t in range(N):
            out[t] = np.sin(v * np.sum(out))
        return np.sum(out**2)

    assert "is carried: it is used as a whole (reduce_sum at" in str(compile_grad(fn).explain(V, level="all"))


def test_explain_says_why_by_a_code():
    def written_twice(v):
        out = np.zeros(N + 1)
        for t in range(N):
            out[t] = v[0] * t
            out[t + 1] = out[t] + v[1]
        return np.sum(out**2)

    def kept(v):
        out, every = np.zeros(N), []
        for t in range(1, N):
            out[t] = v[0] * t + out[t - 1]
            every.append(out.copy())
        return np.sum(out**2) + every[3][2]

    for fn, code in ((written_twice, "rows/overlap"), (kept, "rows/kept")):
        f = compile_grad(fn)
        assert f(V) == pytest.approx(fn(V)) and f"({code})" in f.explain(V, level="all")


def test_other_distances_in_other_steps():
    def fn(v):
        out = tg.ones(2 * N)
        for t in range(1, N):
            out[t + N] = np.sin(out[2 * t] * v[0]) + v[1]
        return np.sum(out**2)

    carried_whole(fn, V, size=2 * N)


def test_one_place_that_is_written_on_the_way():
    def fn(v):
        out = tg.zeros((N, 3))
        for t in range(N):
            out[t] = np.sin(out[20] * v) + X[t]
        return np.sum(out**2)

    agree(fn, V)


def test_places_in_any_order():
    order = [int(k) for k in np.random.default_rng(3).permutation(N)]

    def fn(v):
        out = tg.zeros((N, 3))
        for k in order:
            out[k] = np.sin(X[k] * v)
        return np.sum(out**2)

    carried_whole(fn, V, size=N * 3)


def test_the_whole_array_is_used():
    def fn(v):
        out = tg.zeros((N, 3))
        for t in range(N):
            out[t] = np.sin(v * np.sum(out)) + X[t]
        return np.sum(out**2)

    carried_whole(fn, V, size=N * 3)


def test_many_steps_back():
    def fn(v):
        out = tg.zeros(3 * N)
        for t in range(30, 3 * N):
            out[t] = np.sin(out[t - 30]) + v[0]
        return np.sum(out**2)

    carried_whole(fn, V, size=3 * N)
