"""Loops within loops over symbols: questions on the numbers of several loops, inner loops without iterations, sums that
begin as Python floats, few iterations."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad


def diagonal(a):
    n, out, s = len(a), np.zeros(a.shape), 0.0
    for i in range(n):
        for j in range(n):
            if i == j:
                out[i, j] = np.sin(a[i, j])
            else:
                out[i, j] = a[i, j] * 0.5
            if j > i:
                s = s + out[i, j]
    return np.sum(out**2) + s


def bands(a):
    n, s, last = len(a), 0.0, 0.0
    for i in range(n):
        for j in range(i, n):
            if j == i:
                s = s + a[i, j] ** 2
                last = a[i, j]
            elif j == i + 1:
                s = s - a[i, j]
            else:
                s = s * 0.9 + a[i, j]
            last = last * 0.5 + j
    return s + last


def last_one(a):
    """The first piece of the inner loop has no iteration where i is 0; `w` is of that piece alone."""
    s, w = 0.0, -1
    for i in range(len(a)):
        v = a[i, i]
        for j in range(i + 1):
            if j < i:
                v = v * 0.9 + a[j, i]
                w = j
            else:
                v = np.cos(v)
        s = s + v
    return s + w


def left(a):
    s = 0.0
    for i in range(len(a)):
        for j in range(i + 1):
            if j != i:
                s = s + a[i, j]
                continue
            s = s + np.sqrt(a[i, i] ** 2 + 1)
            m = s * 2
            break
    return s + m


def three(a):
    s = 0.0
    for i in range(1, len(a)):
        for j in range(i - 1, -1, -1):
            for k in range(j + 1):
                if k == j:
                    s = s + a[i, k]
                elif i == k + 2:
                    s = s * 0.9
                else:
                    s = s + a[j, k] * 0.1
    return s


def steps_of_two(a):
    s = 0.0
    for i in range(len(a)):
        x = 1.0
        for j in range(i + 1):
            if 2 * j == i:
                x = x * a[i, j]
            if j >= i - 2:
                x = x + a[j, i]
        s = s + x
    return s


def cholesky(a):
    n = len(a)
    m, low = a @ a.T + n * np.eye(n), np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            for k in range(j):
                s += low[i, k] * low[j, k]
            if i == j:
                low[i, j] = np.sqrt(m[i, i] - s)
            else:
                low[i, j] = (m[i, j] - s) / low[j, j]
    return np.sum(np.log(np.diag(low))) + np.sum(low)


def chain(a):
    """For spans of two the innermost loop has one iteration, which stands alone in that of ``i``."""
    n, m = len(a), np.zeros(a.shape)
    for span in range(2, n + 1):
        for i in range(n - span + 1):
            j, best = i + span - 1, np.inf
            for k in range(i, j):
                best = np.minimum(best, m[i, k] + m[k + 1, j] + a[i, k] ** 2 + a[k + 1, j])
            m[i, j] = best
    return np.sum(m * np.arange(1, n + 1))


def left_at_once(a):
    s = 0.0
    for i in range(len(a) - 1):
        for k in range(i, i + 2):
            s = s * 0.9 + a[k, k] * a[i, k]
            if k >= i:
                break
        s = s + a[i, k] * k
    return s


PROGRAMS = [diagonal, bands, last_one, left, three, steps_of_two, cholesky, chain, left_at_once]
SIZES = [pytest.param(n, marks=pytest.mark.slow if n != 7 else ()) for n in (2, 3, 4, 5, 7, 19)]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_value_and_gradient(fn, n):
    a = np.random.default_rng(n).normal(size=(n, n))
    f = compile_grad(fn)
    for x in (a, a * 1.1):
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, fn(x), rtol=1e-11)
        np.testing.assert_allclose(gradient, numerical_gradient(fn, (x,)), rtol=1e-5, atol=1e-6)
    assert not f.stats.live


@pytest.mark.slow
def test_the_program_of_a_cholesky_does_not_grow():
    sizes = []
    for n in (12, 24):
        f = compile_grad(cholesky)
        a = np.random.default_rng(n).normal(size=(n, n))
        f.value_and_grad(a)
        (path,) = [path for variants in f._both.variants.values() for variant in variants for path in variant.paths]
        sizes.append(len(path.recording.graph.nodes))
    assert sizes[0] == sizes[1]


# ---- sums that begin as a Python float -------------------------------------------------------------------------------


def products(s, a, i, j):
    return s + a[i, j] * a[j, i]


def quotients(s, a, i, j):
    return a[i, j] / (1.0 + s)


def sometimes(s, a, i, j):
    return s + a[i, j] if j % 2 else s


def by_data(s, a, i, j):
    return s + a[i, j] if a[i, j] > 0 else s


def by_class(s, a, i, j):
    return s + a[i, j] + (1.0 if type(s) is float else 2.0)


def of_float32(s, a, i, j):
    return s * 0.5 + a[j, j] * np.float32(1.5)


SUMS = [products, quotients, sometimes, by_data, by_class, of_float32]


def summed(fn, inline):
    """A sum over inner loops of *fn*, or of its text."""
    if not inline:

        def f(a):
            t = 0.0
            for i in range(len(a)):
                s = 0.0
                for j in range(i):
                    s = fn(s, a, i, j)
                t = t + s * (i + 1) + (0.25 if type(s) is float else 0.5)
            return t

        return f
    return IN_THE_LOOP[fn]


def added(a):
    t = 0.0
    for i in range(len(a)):
        s = 0.0
        for j in range(i):
            s += a[i, j] * a[j, i]
        t = t + s * (i + 1) + (0.25 if type(s) is float else 0.5)
    return t


def asked(a):
    t = 0.0
    for i in range(len(a)):
        s = 0.0
        for j in range(i):
            s = s + a[i, j] + (1.0 if type(s) is float else 2.0)
        t = t + s * (i + 1) + (0.25 if type(s) is float else 0.5)
    return t


def in_float32(a):
    t = 0.0
    for i in range(len(a)):
        s = 0.0
        for j in range(i):
            s = s * 0.5 + a[j, j] * np.float32(1.5)
        t = t + s * (i + 1)
    return t


def only_sometimes(a):
    t = 0.0
    for i in range(len(a)):
        s = 0.0
        for j in range(i):
            if a[i, j] > 0:
                s = s + a[i, j]
        t = t + s * (i + 1) + (0.25 if type(s) is float else 0.5)
    return t


IN_THE_LOOP = {products: added, by_class: asked, of_float32: in_float32, by_data: only_sometimes}


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("fn", "inline"),
    [*[(fn, True) for fn in IN_THE_LOOP], *[pytest.param(fn, False, marks=pytest.mark.slow) for fn in SUMS]],
)  # fmt: skip
def test_a_sum_is_of_the_class_that_python_gives_it(fn, inline, dtype):
    f = summed(fn, inline)
    for n in (4, 8, 20):
        a = np.random.default_rng(n).normal(size=(n, n)).astype(dtype)
        compiled = compile_grad(f)
        for x in (a, (a * 1.1).astype(dtype)):
            value, _ = compiled.value_and_grad(x)
            expected = f(x)
            np.testing.assert_allclose(value, expected, rtol=1e-11 if dtype is np.float64 else 1e-5)
            assert type(value) is type(expected)
