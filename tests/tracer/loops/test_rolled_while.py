"""Plain Python loops that data ends: one path for any number of turns where that is proven, else a path for each.

Every compiled call is compared with the interpreter (``config.check``), the plain function and finite differences.
"""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

import tracegrad
from tracegrad import compile_grad, config
from tracegrad.runtime.launch.kernel_cache import kernels

pytestmark = pytest.mark.slow

V = np.array([0.3, -0.4, 0.25])


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(config, "check", True)
    kernels.clear()


def agree(plain, *points, paths=None, compiles=None):
    """Value and gradient at all *points*, thrice in changing order; then how many paths there are, and compilations."""
    f = compile_grad(plain)
    for order in (points, points[::-1], points):
        for x in order:
            value, gradient = f.value_and_grad(x)
            np.testing.assert_allclose(value, plain(x), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=2e-5, atol=1e-6)
    if paths is not None:
        kept = [p for variants in f._both.variants.values() for v in variants for p in v.paths]
        assert len(kept) == paths, [str(p.guards) for p in kept]
    if compiles is not None:
        assert f.stats.compiles == compiles and not f.stats.live
    return f


POINTS = [V, V * 3, V * 0.1, V * 20, V * 1e-4]


def halving(x):
    y = x
    while np.sum(y * y) > 1e-9:
        y = y * 0.5 + 0.01 * np.sin(y)
    return np.sum(y * x)


def kepler(m):
    e, x = 0.6, m
    while np.abs(x - e * np.sin(x) - m) > 1e-12:
        x = x - (x - e * np.sin(x) - m) / (1 - e * np.cos(x))
    return x


def with_break(x):
    y = x
    while True:
        step = 0.3 * np.tanh(y)
        y = y - step
        if np.max(np.abs(step)) < 1e-3:
            break
    return np.sum(y * x) + np.sum(step)


def for_with_break(x):
    y = x
    for _ in range(200):
        new = np.cos(y * 0.7)
        if np.max(np.abs(new - y)) < 1e-10:
            break
        y = new
    return np.sum(new * x)


def returns_within(x):
    y = x
    while True:
        y = y - 0.3 * np.tanh(y)
        if np.sum(np.abs(y)) < 1e-3:
            return np.sum(y * x)


def helper_step(y, rate):
    return y - rate * np.tanh(y), rate * 0.99


def with_helper(x):
    y, rate = x, x[0] * 0 + 0.4
    while np.linalg.norm(y) > 1e-3:
        y, rate = helper_step(y, rate)
    return np.sum(y * x) * rate


def previous_turn(x):
    y, before = x, x * 2
    while np.max(np.abs(y - before)) > 1e-6:
        before = y
        y = np.cos(y)
    return np.sum(y * before)


@pytest.mark.parametrize("plain", [halving, with_break, returns_within, with_helper, previous_turn])
def test_any_number_of_turns_is_one_path(plain):
    agree(plain, V, V * 3, V * 0.5, V * 20, V * 1.5)
    f = compile_grad(plain)
    for k in range(20):
        f.value_and_grad(V * (1 + k))
    assert len([p for v in next(iter(f._both.variants.values())) for p in v.paths]) <= 2
    assert f.stats.compiles <= 2


def test_newton():
    f = compile_grad(kepler)
    for m in (1.0, 0.1, 2.5, 3.1, 0.7, 1.3):
        value, gradient = f.value_and_grad(m)
        assert value - 0.6 * np.sin(value) == pytest.approx(m)
        assert gradient == pytest.approx(1 / (1 - 0.6 * np.cos(value)), rel=1e-9)


def test_a_counted_loop_that_breaks_is_bounded_by_what_was_seen():
    f = agree(for_with_break, V, V * 3, V * 0.1)
    assert not f.stats.live


def rows_until(x):
    total, y = 0.0, x
    for k in range(len(TABLE)):
        y = np.sin(y + TABLE[k]) + 0.01 * k
        total = total + np.sum(y)
        if total > 9.0:
            break
    return total * y[0]


TABLE = np.abs(np.sin(np.arange(90.0).reshape(30, 3)))


def test_rows_of_an_array_until_something_happens():
    points = [np.array([0.1, 0.2, 0.3]) * k - 1.1 for k in (1, 4, 2, 8, 0.5, 16, 3)]
    f = compile_grad(rows_until)
    for x in points * 3:
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, rows_until(x), rtol=1e-10)
        np.testing.assert_allclose(gradient, numerical_gradient(rows_until, (x,)), rtol=1e-5, atol=1e-6)
    assert not f.stats.live


def test_no_turn_and_few_turns():
    agree(halving, V * 1e-6, V * 1e-5, V, V * 1e-6)


# ---- what must not be generalised ------------------------------------------------------------------------------------


def doubles(x):
    y, n = x, 1
    while np.sum(y * y) > 1e-6:
        y = y * 0.5
        n *= 2
    return np.sum(y * x) * n


def counter_decides(x):
    y, n = x, 0
    while np.sum(y * y) > 1e-9:
        y = y * 0.5 if n != 6 else y * 0.25
        n += 1
    return np.sum(y * x)


def appends(x):
    y, kept = x, []
    while np.sum(y * y) > 1e-6:
        y = y * 0.5
        kept.append(y)
    return np.sum(sum(kept)) + len(kept)


def keeps_in_a_list(x):
    y, state = x, [0]
    while np.sum(y * y) > 1e-6:
        state[0] += 1
        y = y * 0.5
    return np.sum(y) + state[0]


def keeps_the_fifth(x):
    y, n, saved = x, 0, x
    while np.sum(y * y) > 1e-7:
        y = y * 0.5
        n += 1
        if n == 5:
            saved = y
    return np.sum(y) + np.sum(saved * x)


class Box:
    n = 0

    @property
    def rate(self):
        self.n += 1
        return 0.5 if self.n % 7 else 0.25


def hidden_property(x):
    y, box = x, Box()
    while np.sum(y * y) > 1e-7:
        y = y * box.rate
    return np.sum(y * x)


def hidden_default(x, seen=None):
    seen = {} if seen is None else seen
    y = x
    while np.sum(y * y) > 1e-7:
        y = y * (0.5 if len(seen) < 4 else 0.25)
        seen.setdefault(len(seen), 1)
    return np.sum(y * x)


def hidden_iterator(x):
    rates, y = iter([0.5] * 6 + [0.25] * 50), x
    while np.sum(y * y) > 1e-7:
        y = y * next(rates)
    return np.sum(y * x)


def hidden_generator(x):
    y = x
    for rate in (0.5 if k < 6 else 0.25 for k in range(90)):
        y = y * rate
        if np.sum(y * y) < 1e-7:
            break
    return np.sum(y * x)


def closure_counter(x):
    n = 0

    def rate():
        nonlocal n
        n += 1
        return 0.5 if n < 6 else 0.25

    y = x
    while np.sum(y * y) > 1e-7:
        y = y * rate()
    return np.sum(y * x)


def grows(x):
    y, rate = x, 1.0
    while np.sum(y * y) > 1e-7:
        rate = rate * 0.9
        y = y * rate
    return np.sum(y * x)


def else_of_while(x):
    y, n = x, 0
    while np.sum(y * y) > 1e-7:
        y = y * 0.5
        n += 1
        if n > 8:
            break
    else:
        return np.sum(y * x) * 3
    return np.sum(y * x)


@pytest.mark.parametrize(
    "plain",
    [doubles, counter_decides, appends, keeps_in_a_list, keeps_the_fifth, hidden_property, hidden_default,
     hidden_iterator, hidden_generator, closure_counter, grows, else_of_while],
)  # fmt: skip
def test_what_python_keeps_is_not_generalised(plain):
    agree(plain, V, V * 8, V * 0.3, V * 90, V * 0.05, V * 8)


# ---- values on their way through local variables, for more turns than were seen ----------------------------
# (how many turns there are does not depend on them, so that a wrong loop ends)


def passed_along(x, t):
    a = b = c = d = e = g = y = x
    while t > 1e-3:
        t = t * 0.5
        y = y * 0.5 + 0.1 * a
        a, b, c, d, e, g = b, c, d, e, g, y
    return y + a


def passed_along_in_a_tuple(x, t):
    y, line = x * 2, (x, x, x, x, x, x, x)
    for _ in range(60):
        y = np.sin(y) + 0.2 * line[0]
        line = (line[1], line[2], line[3], line[4], line[5], line[6], y)
        t = t * 0.5
        if t < 1e-3:
            break
    return np.sum(y * line[1])


def passed_along_and_written(x, t):
    a, b, c, d, e, y = x * 2, x * 2, x * 2, x * 2, x * 2, x
    while True:
        t = t * 0.5
        y = y * 0.7 - 0.1 * np.cos(a)
        a, b, c, d, e = b, c, d, e, y
        a += 0.25
        if t <= 1e-3:
            break
    return np.sum(y + a * b)


def passed_along_unread(x, t):
    a = b = c = d = e = g = x
    n = 0
    while t > 1e-3:
        t, n = t * 0.5, n + 1
        a, b, c, d, e, g = b, c, d, e, g, t
    return a * b * n


def every_other_turn(x, t):
    v, w, y = x, x, x * 0.5
    while t > 1e-3:
        t = t * 0.5
        v, w = w, np.sin(v)
        y = np.tanh(0.7 * y + 0.3 * v)
    return y + 2 * w + 3 * v


@pytest.mark.parametrize("turns", [4, 5, 7])
@pytest.mark.parametrize(
    "plain",
    [passed_along, passed_along_in_a_tuple, passed_along_and_written, passed_along_unread, every_other_turn],
)
def test_what_reaches_a_variable_in_a_later_turn(plain, turns):
    f = compile_grad(plain)
    for k in (turns, turns, turns + 1, turns + 2, turns + 12):
        t = 0.75e-3 * 2.0**k
        x = V if plain in (passed_along_in_a_tuple, passed_along_and_written) else 0.7
        assert f(x, t) == pytest.approx(plain(x, t), rel=1e-9), k


def same_in_every_turn(x):
    y, z = x, x
    while y > 1.0:
        y = y * 0.5
        z = np.sin(x) * 2.0
    return y * z


def same_in_a_tuple(x):
    y, state = x, (x, x)
    for _ in range(200):
        state = (x * 3.0, np.cos(x))
        y = y * 0.5
        if y < 1.0:
            break
    return y + state[0] * state[1]


@pytest.mark.parametrize("plain", [same_in_every_turn, same_in_a_tuple])
def test_a_value_that_is_the_same_in_every_turn_is_read_after_it(plain):
    f = agree(plain, 20.0, 9.0, 50.0, 300.0, 0.5, 1.5)
    assert "until it stops by itself" in f.explain(50.0, level="all")


def test_branches_within():
    def plain(x):
        y = x
        while np.sum(y * y) > 1e-6:
            y = y * 0.5 if y[0] > 0 else y * 0.25 + 0.001
        return np.sum(y * x)

    agree(plain, V, -V, V * 5, -V * 5, V)


def test_a_loop_for_each_row():
    rows = np.array([[0.3, 0.4], [2.0, 1.0], [0.5, 5.0], [0.8, 0.1], [3.0, 2.0]] * 5)

    def plain(x):
        total = 0.0
        for row in rows:
            y = row * x[:2]
            while np.sum(y * y) > 1e-5:
                y = y * 0.5 - 0.01 * y * y
            total = total + np.sum(y * row)
        return total

    agree(plain, np.abs(V), np.abs(V) * 2, np.abs(V) * 1.01)


def test_second_order():
    g = compile_grad(lambda x: np.sum(compile_grad(halving).grad(x) ** 2))
    f = compile_grad(halving)
    expected = numerical_gradient(lambda x: np.sum(f.grad(x) ** 2), (V,))
    np.testing.assert_allclose(g.grad(V), expected, rtol=1e-4, atol=1e-6)


def test_nan_ends_the_loop():
    def plain(x):
        y = x
        while np.sum(y) < 100.0:
            y = y * 1.5 + np.log(x)
        return np.sum(y)

    f = compile_grad(plain)
    good = np.array([2.0, 3.0, 4.0])
    for x in (good, good * 2, np.array([2.0, -1.0, 4.0]), good):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(f(x), plain(x), rtol=1e-10)


def test_a_turn_unlike_the_others_ends_the_loop():
    def plain(x):
        y = x
        while y > 1e-3:
            y = y * y if y < 1.0 else y * 0.5
        return y * x

    f = compile_grad(plain)
    for x in (0.99, 0.98, 1.0, 0.99, 3.0):  # at 1.0 the squares alone would go on for ever
        assert f(x) == pytest.approx(plain(x), rel=1e-9)


def spells(x):
    y, name = x, ""
    while np.sum(y * y) > 1e-6:
        y = y * 0.5
        name = "a" + name
    return np.sum(y * x) * len(name)


def test_explain_says_why():
    f = compile_grad(spells)
    f.value_and_grad(V * 10)
    assert "`name`" in f.explain(V * 10, level="all")


def test_loop_that_appends_what_it_computes():
    @compile_grad
    def f(x):
        path = [x]
        while abs(path[-1] - np.cos(path[-1])) > 1e-3:
            path.append(np.cos(path[-1]))
        return path[-1] + len(path)

    for x in (1.0, 0.5, 0.74, 1.0, 2.0):
        y, turns = x, 1
        while abs(y - np.cos(y)) > 1e-3:
            y, turns = np.cos(y), turns + 1
        assert f(x) == pytest.approx(y + turns, abs=1e-12)


TREE = {"a": {"n": 0.5}, "c": [1.0]}
TREE["a"]["self"] = TREE
RING = [0.25]
RING.append([RING, {"ring": RING}])
WITH_RING = {"d": 0.5, "ring": RING}


@pytest.mark.parametrize(
    "read", [lambda: TREE["a"]["n"], lambda: RING[0], lambda: WITH_RING["d"], lambda: TREE["c"][0]]
)
@pytest.mark.parametrize("compile_it", [compile_grad, tracegrad.compile])
def test_loops_may_read_a_container_that_holds_itself(read, compile_it):
    def plain(x):
        while x > 0.7:
            x = x * 0.6 + 0.01 * read()
        return x

    f = compile_it(plain)
    for x in (2.0, 3.0, 2.0, 1.0):
        x = tracegrad.tensor(x) if compile_it is tracegrad.compile else x
        assert float(f(x)) == pytest.approx(float(plain(x)), rel=1e-6)


def counted_on(x, limit=30):
    k = 0
    for _ in range(3):
        while x[0] > x[1] and k < limit:
            k = k + 1
            x = x * 0.7 - 0.01
    return np.sum(x) + k


def counted_by_a_helper(x):
    def turns(x, k):
        while x[0] > 0.01 and k < 30:
            k = k + 1
            x = x * 0.7
        return x, k

    x, k = turns(x, 0)
    x, k = turns(x * 3.0, k)
    return np.sum(x) + k


def never_begun(x):
    k = 0
    for _ in range(8):
        while x[0] > 2 and k < 30:
            k = k + 1
            x = x * 0.7 - 0.01
    return np.sum(x) + k


@pytest.mark.parametrize("plain", [counted_on, counted_by_a_helper, never_begun, lambda x: counted_on(x, 5)])
def test_counts_that_an_earlier_run_of_the_statement_has_decided(plain):
    f = compile_grad(plain)
    for x in ([1.0, 0.5, 0.3], [0.6, -0.5, 0.3], [-1.0, -0.5, 0.0], [5.0, 6.0, 5.0], [0.2, 0.1, 0.5], [0.6, -0.5, 0.3]):
        point = np.array(x)
        value, gradient = f.value_and_grad(point)
        assert value == pytest.approx(plain(point), abs=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (point,)), rtol=1e-5, atol=1e-7)
    assert not f.stats.live
