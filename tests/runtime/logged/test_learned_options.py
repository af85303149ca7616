"""What a run learns for the next one is followed where its log is closed: rows apart, ints as numbers of the run."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad, vmap

A, B = np.array([0.32, 1.03, 0.21]), np.array([0.1, 1.0, 3.0])


def closed(compiled):
    logged = compiled._dispatcher.logged
    return not logged.refused and not compiled.stats.live


def test_rows_whose_loops_end_at_other_iterations():
    outside = {"rate": 1.5, "steps": [0.1]}

    def row(a, b):
        v, n = a, 0
        while v < b:
            if n > 20:
                break
            v, n = v * outside["rate"] + outside["steps"][-1], n + 1
        return v * a

    def loss(a, b):
        return np.sum(vmap(row)(a, b) ** 2)

    def plain(a, b):
        return sum(row(*each) ** 2 for each in zip(a, b, strict=True))

    def slope(a, b, h=1e-6):
        return [(plain(a + h * e, b) - plain(a - h * e, b)) / (2 * h) for e in np.eye(3)]

    compiled = compile_grad(loss)
    for k in range(8):
        a, b = A + 0.01 * k, np.roll(B, k)
        if k == 3:
            outside["rate"] = 1.75
        if k == 5:
            outside["steps"].append(0.2)
        if k == 7:
            outside["steps"] = [0.3]
        value, gradient = compiled.value_and_grad(a, b)
        assert value == pytest.approx(plain(a, b))
        np.testing.assert_allclose(gradient, slope(a, b), rtol=1e-4)
    assert closed(compiled) and vmap(row)(A, B) == pytest.approx([row(*each) for each in zip(A, B, strict=True)])


def test_ints_are_numbers_of_the_run_whatever_stands_beside_what_is_read():
    scale, unread = [2.0], {"generator": (k for k in ()), "of": 1.0}

    def f(x, n):
        return np.sum(x**2) * n * scale[0] * unread["of"] + n // 3

    g, x = compile_grad(f), np.ones(4)
    for n in range(1, 20):
        scale[0] = 2.0 if n < 9 else 3.0
        assert g(x, n) == f(x, n)
        np.testing.assert_allclose(g.grad(x, n), 2.0 * x * n * scale[0])
    assert g.stats.traces <= 8 and not g.stats.live, g.stats


def test_ints_that_can_be_no_numbers_of_the_run_are_compared_by_value():
    given, table, unread = [], {3: 0.5, 4: 2.0}, {"generator": (k for k in ()), "of": 1.0}

    def f(x, n):
        given.append(f"{n:3d}".strip())
        return np.sum(x) * table[n] * unread["of"]

    def plain(x, n):
        return np.sum(x) * table[n]

    g = compile_grad(f)
    for k in range(8):
        n = 3 + k % 2
        table[3] = 0.5 * (k // 4)
        assert g(np.ones(4), n) == plain(np.ones(4), n) and given[-1] == str(n)
    assert not g.stats.live and g.stats.traces <= 6, g.stats


def test_gradients_of_compiled_functions_within_one():
    rate = [2.0]
    inner = compile_grad(lambda x, n: np.sum(x**2) * n * rate[0])
    outer = compile_grad(lambda x, n: inner(x, n) + np.sum(inner.grad(x, n)) + inner.value_and_grad(x, 2)[0])
    x = np.arange(3.0)
    for n in range(1, 9):
        rate[0] = 1.0 + n // 4
        assert outer(x, n) == pytest.approx((np.sum(x**2) * (n + 2) + 2 * np.sum(x) * n) * rate[0])
    assert closed(outer) and outer.stats.traces <= 4
