"""Plain Python loops that data ends and in which data chooses: one path for any number of turns in any order.

Every compiled call is compared with the interpreter (``config.check``), the plain function and finite differences.
"""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad, config
from tracegrad.runtime.launch.kernel_cache import kernels

pytestmark = pytest.mark.slow

V = np.array([0.3, -0.4, 0.25])


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(config, "check", True)
    kernels.clear()


def kept_paths(f):
    return [p for variants in f._both.variants.values() for v in variants for p in v.paths]


def agree(plain, *points, tolerance=2e-5):
    """Value and gradient at all *points*, thrice in changing order."""
    f = compile_grad(plain)
    for order in (points, points[::-1], points):
        for x in order:
            value, gradient = f.value_and_grad(x)
            np.testing.assert_allclose(value, plain(x), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=tolerance, atol=1e-6)
    return f


def one_loop(plain, first, points, *, most=1):
    """After the recording at *first*, all *points* are served by *most* paths, of which the first is a loop."""
    f = compile_grad(plain)
    f.value_and_grad(first)
    f.value_and_grad(first)
    assert "until it stops by itself" in f.explain(first, level="all"), f.explain(first, level="all")
    for x in points:
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, plain(x), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=2e-5, atol=1e-6)
    assert len(kept_paths(f)) <= most, [str(p.guards) for p in kept_paths(f)]
    assert not f.stats.live
    return f


def adaptive(x):
    """Heun's method with Euler's as the other order, steps refused by their difference."""
    u, t, h = x, 0.0 * x[0], 0.9 + 0.01 * x[1]
    while t < 2.0:
        h = np.minimum(h, 2.0 - t)
        a = np.sin(u) - u
        b = np.sin(u + h * a) - (u + h * a) * np.cos(t)
        error = np.sqrt(np.mean(((b - a) * h) ** 2)) * 30
        if error <= 1.0:
            t, u = t + h, u + 0.5 * h * (a + b)
        h = h * np.clip(0.9 * (error + 1e-3) ** -0.5, 0.2, 3.0)
    return np.sum(u * x)


def stages(u, h, rows=((0.0,), (0.5,))):
    ks = []
    for row in rows:
        point = u
        for a, k in zip(row, ks, strict=False):
            point = point + h * a * k
        ks.append(np.cos(point) - point)
    return ks[0], ks[1]


def adaptive_by_helper(x):
    u, t, h = x, x[0] * 0, x[0] * 0 + 0.8
    while t < 3.0:
        k, m = stages(u, h)
        error = np.max(np.abs(k - m)) * h * 20
        if error > 1.0:
            h = h * 0.6
        else:
            t = t + h
            u = u + h * m
            h = h * 1.3
    return np.sum(u * u * x)


def bisection(x):
    c = np.sum(x * x) + 0.3
    a, b = c * 0.0, c + 1.5
    while b - a > 1e-7:
        mid = 0.5 * (a + b)
        if mid * mid * mid + mid - c > 0:
            b = mid
        else:
            a = mid
    return 0.5 * (a + b) * c


def three_ways(x):
    y = x * 8
    while np.sum(y * y) > 1e-3:
        s = np.sum(y)
        if s > 2.0:
            y = y * 0.5
        elif s > 0.02:
            y = np.sin(y) * 0.7 - 0.005 * x
        else:
            y = y * 0.6
    return np.sum(y * x) + np.sum(y)


def some_assign(x):
    y, best = x * 3, x
    while np.sum(y * y) > 1e-5:
        y = np.cos(3 * y) * y * 0.8
        if y[0] > 0.05:
            best = y * x
    return np.sum(best) + np.sum(y * x)


def backtracking(x):
    y = x + 1.5
    value = np.sum(y**4 - y)
    rate = x[0] * 0 + 0.3
    while np.sum((4 * y**3 - 1) ** 2) > 1e-4:
        slope = 4 * y**3 - 1
        step = rate
        new = y - step * slope
        while np.sum(new**4 - new) > value - 0.3 * step * np.sum(slope * slope):
            step = step * 0.5
            new = y - step * slope
        y = new
        value = np.sum(y**4 - y)
    return np.sum(y * x) + np.sum(y)


def skips(x):
    y = x * 4
    while np.sum(y * y) > 1e-3:
        y = y * 0.7 + 0.01 * np.sin(9 * y)
        if np.sin(40 * y[0]) > 0:
            continue
        y = y * 0.9 - 0.002 * x
    return np.sum(y * x)


def pairs(x):
    state = (x * 3, x)
    while np.sum(state[0] * state[0]) > 1e-4:
        y, z = state
        state = (y * 0.6, z + y) if np.sin(30 * y[1]) > 0 else (y * 0.7 * np.cos(z), z)
    return np.sum(state[1] * x)


def adds_in_place(x):
    y, total = x * 5, x[0] * 0.0
    while np.sum(y * y) > 1e-4:
        if np.sin(20 * y[0]) > 0:
            total += np.sum(y)
            y = y * 0.6
        else:
            y = y * 0.8
    return total * np.sum(x)


SPREAD = [V, V * 1.5, V * 0.7, V * 2.2, -V, V + 0.05, V * 1.1, V[::-1].copy(), V * 3]


@pytest.mark.parametrize("plain", [adaptive, adaptive_by_helper, three_ways, some_assign, pairs, adds_in_place, skips])
def test_agrees(plain):
    agree(plain, *SPREAD)


@pytest.mark.parametrize(
    ("plain", "first"), [(adaptive, V * 2.2), (adaptive_by_helper, V * 2.2), (pairs, V), (adds_in_place, V), (skips, V)]
)
def test_any_order_of_ways_is_one_path(plain, first):
    one_loop(plain, first, [V * (0.5 + 0.2 * k) for k in range(8)])


@pytest.mark.parametrize("plain", [bisection, backtracking])
def test_searches(plain):
    for x in (V, V * 1.3, V + 0.1, V * 0.6):
        f = compile_grad(plain)
        for k in range(3):
            value, gradient = f.value_and_grad(x + 0.01 * k)
            np.testing.assert_allclose(value, plain(x + 0.01 * k), rtol=1e-9)
            if plain is backtracking:  # the derivative of a bisection is that of its ends
                expected = numerical_gradient(plain, (x + 0.01 * k,))
                np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


def test_a_way_that_was_not_seen_is_found_later():
    f = agree(adaptive, V * 0.01, V * 2.2, V * 3, V * 0.01)
    assert not f.stats.live


def test_float32():
    x = (V * 2.2).astype(np.float32)
    f = compile_grad(adaptive)
    g = compile_grad(adaptive)
    for _ in range(3):
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, adaptive(x), rtol=1e-4)
        np.testing.assert_allclose(gradient, g.grad(x.astype(float)), rtol=2e-2, atol=1e-3)


def test_second_order():
    f = compile_grad(adaptive)
    g = compile_grad(lambda x: np.sum(compile_grad(adaptive).grad(x) ** 2))
    for x in (V * 2.2, V * 2.1):
        expected = numerical_gradient(lambda x: np.sum(f.grad(x) ** 2), (x,))
        np.testing.assert_allclose(g.grad(x), expected, rtol=1e-3, atol=1e-5)


# ---- what must not be generalised ------------------------------------------------------------------------------------


def counts_one_way(x):
    y, n = x * 5, 0
    while np.sum(y * y) > 1e-5:
        if np.sin(30 * y[0]) > 0:
            y, n = y * 0.6, n + 1
        else:
            y = y * 0.7
    return np.sum(y * x) + n * np.sum(x)


def counter_decides(x):
    y, n = x * 5, 0
    while np.sum(y * y) > 1e-5:
        if np.sin(30 * y[0]) > 0:
            y, n = y * 0.6, n + 1
        else:
            y = y * (0.7 if n < 4 else 0.5)
    return np.sum(y * x)


def keeps_in_a_list(x):
    y, seen = x * 5, []
    while np.sum(y * y) > 1e-5:
        if np.sin(30 * y[0]) > 0:
            seen.append(1)
            y = y * 0.6
        else:
            y = y * (0.7 if len(seen) < 4 else 0.5)
    return np.sum(y * x)


def closure_counts(x):
    n = 0

    def rate():
        nonlocal n
        n += 1
        return 0.7 if n < 4 else 0.5

    y = x * 5
    while np.sum(y * y) > 1e-5:
        y = y * 0.6 if np.sin(30 * y[0]) > 0 else y * rate()
    return np.sum(y * x)


def rates_by_turn(x):
    y, rates = x * 5, iter([0.7, 0.6, 0.5, 0.4] * 30)
    while np.sum(y * y) > 1e-5:
        y = y * 0.6 if np.sin(30 * y[0]) > 0 else y * next(rates)
    return np.sum(y * x)


def shared_buffer(x):
    y = z = x * 5
    while np.sum(y * y) > 1e-5:
        if np.sin(30 * y[0]) > 0:
            y = y * 0.6
            z = y
        else:
            z *= 0.5
            y = y * 0.7
    return np.sum(y * x) + np.sum(z)


def first_and_current(x):
    y, before = x * 5, x * 5
    while np.sum(y * y) > 1e-5:
        if np.sin(30 * y[0]) > 0:
            before, y = y, y * 0.6
        else:
            y = y * 0.7 + 0.001 * before
    return np.sum(y * x) + np.sum(before)


def switches_functions(x):
    y, step = x * 5, np.sin
    while np.sum(y * y) > 1e-3:
        if np.sin(30 * y[0]) > 0:
            step = np.tanh
            y = y * 0.6
        else:
            y = step(y) * 0.7
    return np.sum(y * x)


@pytest.mark.parametrize(
    "plain",
    [counts_one_way, counter_decides, keeps_in_a_list, closure_counts, rates_by_turn, shared_buffer,
     first_and_current, switches_functions],
)  # fmt: skip
def test_what_python_keeps_is_not_generalised(plain):
    agree(plain, V, V * 3, V * 0.3, -V, V * 1.7, V * 0.9)


def entered_thrice(x):
    y = x
    for _ in range(3):
        y = y * 7.0 + 0.3
        while y > 1.0:
            if np.sin(40 * y) > 0:
                y = y * 0.6
            else:
                y = y * 0.7 + 0.01
    return y * x


def entered_with_a_break(x):
    y = x
    for _ in range(4):
        y = y * 5.0 + 0.4
        while True:
            if np.sin(30 * y) > 0:
                y = y * 0.6
            else:
                y = y * 0.75 + 0.01
            if y < 1.0:
                break
    return y * x


def entered_and_skips(x):
    y, total = x, x * 0.0
    for _ in range(3):
        y = y * 9.0 + 0.2
        while y > 0.8:
            y = y * 0.7 + 0.01 * np.sin(9 * y)
            if np.sin(40 * y) > 0:
                continue
            y = y * 0.8
            total = total + y
    return y * x + total


def entered_with_pairs(x):
    y, z = x, x * 0.5
    for _ in range(3):
        y, z = y * 8.0 + 0.3, z + y
        while y > 1.0:
            y, z = (y * 0.5, z * 0.9) if np.cos(25 * y) > 0 else (y * 0.8, z + 0.01 * y)
    return z * x


@pytest.mark.parametrize(
    ("plain", "points"),
    [
        (entered_thrice, (20.608, 27.7805, 56.1329, 56.8361, 6.2587)),
        (entered_and_skips, (50.78, 10.08, 33.69, 22.4, 13.29)),
        (entered_with_a_break, (55.46, 41.72, 4.84, 37.64, 28.61)),
        (entered_with_pairs, (20.15, 24.61, 34.7, 30.63, 34.07)),
    ],
)
def test_to_enter_again_is_no_turn(plain, points):
    """The way from the end of one loop to the beginning of the next run of it is none of its ways."""
    f = compile_grad(plain)
    for x in np.array(points):
        for _ in range(2):
            assert f(x) == pytest.approx(plain(x), rel=1e-9)


def spells_the_way(x):
    y, name = x * 5, ""
    while np.sum(y * y) > 1e-5:
        y, name = y * (0.6 if np.sin(30 * y[0]) > 0 else 0.7), "a" + name
    return np.sum(y * x) + len(name) * np.sum(x)


@pytest.mark.parametrize(("plain", "why"), [(spells_the_way, "`name`"), (keeps_in_a_list, "append")])
def test_explain_says_why(plain, why):
    f = compile_grad(plain)
    f.value_and_grad(V * 3)
    assert why in f.explain(V * 3, level="all") and "until it stops by itself" not in f.explain(V * 3, level="all")
