"""Python's integers in loops have no bounds: where those of a kernel may not hold them, they stay Python's."""

import numpy as np
import pytest

from tracegrad import compile_grad

X = np.array([1.3, 2.0, 3.0])


def doubled(x):
    c, s = 1, 0.0
    for _ in range(70):
        c, s = c * 2, s + x[0]
    return s * (c % 1000003)


def factorial(x):
    c, s = 1, 0.0
    for k in range(70):
        c = c * (k + 1)
        s = s + x[0] / c
    return s * (c % 1000003)


def until_it_is_large(x):
    c, s = 1, 0.0
    while s < 100:
        c, s = c * 3 + 1, s + x[0]
    return s * (c % 1000003)


def fibonacci(x):
    a, b, s = 0, 1, 0.0
    for _ in range(120):
        a, b = b, a + b
        s = s + x[0] * (b % 7)
    return s * (b % 1000003)


def in_a_dict(x):
    s, state = 0.0, {"c": 1}
    for _ in range(100):
        state["c"] = state["c"] * 2
        s = s + x[0]
    return s * (state["c"] % 1000003)


def in_a_list(x):
    s, state = 0.0, [1]
    for _ in range(100):
        state[0] *= 3
        s = s + x[0]
    return s * (state[0] % 1000003)


def powers(x):
    s = 0.0
    for k in range(100):
        s = s + x[0] * (k**20 % 7) + x[1] / (k + 1) ** 15
    return s


def powers_of_two(x):
    s = 0.0
    for k in range(100):
        s = s + x[0] * ((1 << k) % 7) + x[1] * (2**k % 11) + x[2] * 2.0**-k
    return s


def large_counts(x):
    s, c = 0.0, 0
    for k in range(100):
        c += 5 * 10**17
        s = s + x[0] * (c % 11) + x[1] * (k * 10**18 % 13)
    return s


def in_two_loops(x):
    s = 0.0
    for k in range(40):
        for j in range(40):
            s = s + x[0] * (((k + 1) ** 6 * (j + 1) ** 6) % 13)
    return s


def after_a_loop(x):
    c, s = 0, 0.0
    for _ in range(30):
        c += 1
        s = s + x[0]
    for _ in range(80):
        c = c * 3
    return s * (c % 1000003)


def seeded(x):
    seed, s = 42, 0.0
    for _ in range(100):
        seed = (6364136223846793005 * seed + 1442695040888963407) % 2**64
        s = s + x[0] * (seed / 2**64)
    return s


FUNCTIONS = [
    doubled, factorial, until_it_is_large, fibonacci, in_a_dict, in_a_list, powers, powers_of_two, large_counts,
    in_two_loops, after_a_loop, seeded,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_large_integers_are_pythons(f):
    g = compile_grad(f)
    for x in (X, X * 0.5, X):
        np.testing.assert_allclose(g(x), f(x), rtol=1e-12)


def test_small_ones_are_numbers_of_the_loop():
    def f(x):
        s = 0.0
        for k in range(1000):
            s = s + x[0] * (k * k % 7) / (k + 1) ** 3
        return s

    g = compile_grad(f)
    np.testing.assert_allclose(g(X), f(X), rtol=1e-12)
    assert "1000 turns" in g.explain(X, level="all") or "999 turns" in g.explain(X, level="all")
