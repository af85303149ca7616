"""Python integers that loops change otherwise than by a constant: states, counts under a condition, remainders.  They
are carried as long as they are small, and so the recording does not depend on the number of iterations."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

U = np.random.default_rng(0).random(400)
STATES = np.random.default_rng(1).integers(0, 5, 400)
POINTS = [
    np.array([0.713, 0.417, 0.329, 0.531]),
    np.array([-0.217, 0.911, 0.633, 0.127]),
    np.array([0.553, 0.519, -0.411, 0.237]),
]


def cycle(x, n):
    total, s = 0.0, 0
    for _ in range(n):
        s = (s + 3) % 4
        total = total * 0.9 + x[s]
    return total + s


def congruential(x, n):
    seed, total = 12345, x[0]
    for _ in range(n):
        seed = (16807 * seed + 11) % 2147483647
        total = total * 0.9 + x[1] * (seed / 2147483647)
    return total


def of_the_table(x, n):
    q, s = np.zeros((5, 2)), 0
    for i in range(n):
        after = int(STATES[i])
        q[s, i % 2] += 0.1 * (x[after % 4] + 0.9 * np.max(q[after]) - q[s, i % 2])
        s = after
    return np.sum(q) + 0.1 * s


def greedy(x, n):
    q, s, total = np.zeros((5, 2)), 2, 0.0
    for i in range(n):
        a = int(np.argmax(q[s])) if U[i] > 0.3 else i % 2
        after = min(s + 1, 4) if a == 1 else max(s - 1, 0)
        reward = x[0] if after == 4 else x[1] * x[2]
        q[s, a] = q[s, a] + 0.1 * (reward + 0.9 * np.max(q[after]) - q[s, a])
        s, total = after, total + reward
    return np.sum(q) + total


def counted(x, n):
    h, ups = x * 1.0, 0
    for _ in range(n):
        if h[0] > 0.5:
            h = h * 0.7
            ups += 1
        else:
            h = h + 0.3
    return np.sum(h) + ups * x[3]


def there_and_back(x, n):
    k, total = 0, 0.0
    for i in range(n):
        k = k + 1 if U[i] > 0.5 else k - 1
        total = total + k * x[1]
    return total


def reset(x, n):
    h, k = x * 1.0, 0
    for _ in range(n):
        k += 1
        h = h * 0.9 + 0.1 * k
        if h[0] > 1.0:
            k = 0
    return np.sum(h) + k


def bins(x, n):
    h, total = x * 1.0, 0
    for i in range(n):
        k = int(h[0] * 3)
        total = total + k * k
        h = h * 0.95 + 0.1 * U[i]
    return np.sum(h) + 0.01 * total


def floors(x, n):
    h, where = x * 1.0, 0
    for i in range(n):
        where = (where + int(np.floor(h[i % 4] * 4))) % 4
        h = h * 0.9 + 0.05 * h[where]
    return np.sum(h)


def stays(x, n):
    h, k = x * 1.0, 0
    for i in range(n):
        while k < 5:
            k += 1
            h = h * 0.9
        h = np.roll(h, k) * 0.95 + 0.1 * U[i]  # which asks for an integer that the loop leaves as it is
    return np.sum(h * x)


ROLLED = (cycle, congruential, of_the_table, greedy, counted, there_and_back, reset, bins, floors, stays)


@pytest.mark.parametrize("plain", ROLLED, ids=lambda f: f.__name__)
def test_the_recording_does_not_depend_on_the_number_of_iterations(plain):
    f = compile_grad(plain)
    for n in (40, 200):
        for x in (*POINTS, *POINTS):
            value, gradient = f.value_and_grad(x, n)
            np.testing.assert_allclose(value, plain(x, n), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(gradient, numerical_gradient(lambda u, n=n: plain(u, n), (x,)), 2e-5, 1e-6)
        assert "rolled: the loop" in f.explain(x, n, level="all").replace("not-rolled", "")
    assert not f.stats.live


def squared(x, n):
    k, total = 3, 0.0
    for _ in range(n):
        k = k * k % 1000003
        total = total * 0.5 + k * x[0]
    return total


def grows(x, n):
    k, total = 1, 0.0
    for i in range(n):
        k = k * 3 + i
        total = total * 0.5 + x[0] * (k % 7)
    return total + float(k % 1000003)


def large_and_small(x, n):
    k, total = 2**40, 0.0
    for i in range(n):
        k = k // 3 + i
        total = total + x[0] * (k % 5)
    return total


def keys(x, n):
    found, k, total = {}, 0, x[0] * 0
    for i in range(n):
        k = (k * 7 + i) % 11
        found[k] = found.get(k, 0) + 1
        total = total + x[found[k] % 4]
    return total + len(found)


def nothing_there(x, n):
    h, k = x * 1.0, 0
    for i in range(n):
        k = (k * 2 + i) % 9  # which is no position now and then
        h = h * 0.9 + (x[k] if k < 4 else 0.01)
    return np.sum(h)


@pytest.mark.parametrize("plain", [squared, grows, large_and_small, keys, nothing_there], ids=lambda f: f.__name__)
def test_others_stay_pythons(plain):
    f = compile_grad(plain)
    for n in (40, 90):
        for x in (*POINTS, *POINTS):
            value, gradient = f.value_and_grad(x, n)
            np.testing.assert_allclose(value, plain(x, n), rtol=1e-9)
            np.testing.assert_allclose(gradient, numerical_gradient(lambda u, n=n: plain(u, n), (x,)), 2e-5, 1e-5)


def beyond(x, n):
    h, k = x * 1.0, 1
    for _ in range(n):
        k = (k + 1) % 7
        h = h * 0.9 + x[k % 5]  # of four
    return np.sum(h)


def test_a_position_that_is_not_there_is_an_error():
    with pytest.raises(IndexError):
        beyond(POINTS[0], 40)
    with pytest.raises(IndexError):
        compile_grad(beyond)(POINTS[0], 40)


def leaves_early(x, n):
    total = 0.0
    for u in (0.0, 0.2, -0.2, 0.1, 0.4):
        t = 0.0
        for _ in range(n):
            far = np.sqrt(np.sum((t * (x[:3] + u) - 1.0) ** 2)) - 0.5
            if far < 1e-3:
                break
            if t > 10:
                break
            t += far * 0.3
        total += t
    return total


def test_a_loop_that_data_ends_is_one_in_each_iteration_of_another():
    f = compile_grad(leaves_early)
    for n in (40, 150):
        for x in (*POINTS, *POINTS):
            np.testing.assert_allclose(f.value_and_grad(x, n)[0], leaves_early(x, n), rtol=1e-9)
    assert not f.stats.live
