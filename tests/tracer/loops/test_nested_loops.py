"""Nested Python loops over the elements of arrays, as everyone writes them: one loop node, arrays in place."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import autograd, compile_grad
from tracegrad.codegen.lower.canonical import canonicalise
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.codegen.schedule.in_place import carries_in_place
from tracegrad.tracer.ir.primitive import LOOP

X = np.random.default_rng(3).random(7) + 0.2
M = np.random.default_rng(4).random((6, 6)) + 6 * np.eye(6)


def heat(u0):
    n = len(u0)
    u = np.zeros((n, n))
    u[0, :] = u0
    for _ in range(4):
        new = u.copy()
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                new[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u = new
    return np.sum(u**2)


def gauss_seidel(u0):
    n = len(u0)
    u = np.zeros((n, n))
    u[0, :] = u0
    for _ in range(3):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                u[i, j] = 0.25 * np.sin(u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return np.sum(u**2)


def matmul(a):
    n = a.shape[0]
    c = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for k in range(n):
                c[i, j] += a[i, k] * a[k, j]
    return np.sum(np.sin(0.1 * c))


def time_warping(a):
    b = np.array([0.1, 0.5, 0.9, 1.3, 0.3])
    n, m = len(a), len(b)
    d = np.full((n + 1, m + 1), 1e9)
    d[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d[i, j] = (a[i - 1] - b[j - 1]) ** 2 + np.minimum(np.minimum(d[i - 1, j], d[i, j - 1]), d[i - 1, j - 1])
    return d[n, m]


def floyd_warshall(w):
    n = w.shape[0]
    d = np.sqrt(w + 0.1)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i, j] = np.minimum(d[i, j], d[i, k] + d[k, j])
    return np.sum(d**2)


def binomial_tree(x):
    n = 12
    v = np.zeros(n + 1)
    u = np.exp(x[0])
    p = (1.01 - 1 / u) / (u - 1 / u)
    for i in range(n + 1):
        v[i] = np.maximum(10 * u ** (2 * i - n) - 9.7, 0)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1):
            v[j] = 0.99 * (p * v[j + 1] + (1 - p) * v[j])
    return v[0]


def pairwise(x):
    n, s = len(x), 0.0
    for i in range(n):
        for j in range(i + 1, n):
            s += 1 / np.sqrt((x[i] - x[j]) ** 2 + 0.1)
    return s


def pascal(x):
    n = len(x)
    p = np.zeros((n, n))
    p[:, 0] = x
    for i in range(1, n):
        for j in range(1, i + 1):
            p[i, j] = p[i - 1, j - 1] + 0.5 * p[i - 1, j]
    return np.sum(np.tanh(p[n - 1]))


def neville(y):
    n = len(y)
    xs = np.linspace(0, 1, n)
    p = y.copy()
    for m in range(1, n):
        for i in range(n - m):
            p[i] = ((0.37 - xs[i + m]) * p[i] + (xs[i] - 0.37) * p[i + 1]) / (xs[i] - xs[i + m])
    return p[0] ** 2


def knapsack(v):
    n = len(v)
    w = [(i * 7) % 5 + 1 for i in range(n)]
    dp = np.zeros(2 * n)
    for i in range(n):
        for c in range(2 * n - 1, w[i] - 1, -1):
            dp[c] = np.maximum(dp[c], dp[c - w[i]] + v[i])
    return dp[-1] ** 2


def histogram(w):
    place = (np.arange(21) * 7919) % 5
    out = np.zeros(5)
    for i in range(21):
        out[place[i]] += w[i % 7] * i
    return np.sum(out**3)


def old_values(x):
    """The array as it was is read after it is written: not in place, and right."""
    n = len(x)
    a = np.outer(x, x)
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            before = a.copy()
            a[i, j] = np.sin(a[i - 1, j] + a[i, j + 1])
            a[i, j] += before[i, j] * before[i, j - 1]
    return np.sum(a**2)


def parts(x):
    """Windows of several elements that move along both axes."""
    n = len(x)
    a = np.outer(x, np.cos(x))
    for i in range(n - 2):
        for j in range(n - 1):
            a[i : i + 2, j] = np.sin(a[i + 1 : i + 3, j + 1]) + a[i, j : j + 2]
    return np.sum(a**2)


# ---- loops whose length depends on the turn around them -------------------------------------------------------------


def lu(a):
    n = a.shape[0]
    u, low = a.copy(), np.eye(n)
    for k in range(n):
        for i in range(k + 1, n):
            low[i, k] = u[i, k] / u[k, k]
            for j in range(k, n):
                u[i, j] = u[i, j] - low[i, k] * u[k, j]
    return np.sum(np.log(np.abs(np.diag(u))))


def cholesky(a):
    n = a.shape[0]
    low = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            for k in range(j):
                s += low[i, k] * low[j, k]
            if i == j:
                low[i, j] = np.sqrt(a[i, i] - s)
            else:
                low[i, j] = (a[i, j] - s) / low[j, j]
    return np.sum(np.log(np.diag(low))) + np.sum(low)


def gauss(a):
    n = a.shape[0]
    m, r = a.copy(), np.ones(n)
    for k in range(n - 1):
        for i in range(k + 1, n):
            f = m[i, k] / m[k, k]
            r[i] -= f * r[k]
            for j in range(k, n):
                m[i, j] -= f * m[k, j]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        s = r[i]
        for j in range(i + 1, n):
            s -= m[i, j] * x[j]
        x[i] = s / m[i, i]
    return np.sum(x**2)


def prefixes(a):
    """Numbers that do not grow evenly, and a table of positions."""
    n, place, weight = a.shape[0], [3, 0, 5, 1, 4, 2], np.sqrt(np.arange(1.0, 7.0))
    out = np.zeros(n)
    for i in range(n):
        total = out[i - 1] * 0.05
        for j in range(i + 1):
            total = total + weight[j] * a[i, place[j]] * 0.01 * np.sin(out[place[j]])
        out[place[i]] = total + a[i, i]
    return np.sum(out**2)


VECTORS = [
    heat, time_warping, binomial_tree, pairwise, pascal, neville, knapsack, histogram,
]  # fmt: skip
SMALLER = [gauss_seidel, old_values, parts]  # of which the inner loop has fewer turns than the array has elements
QUICK = [gauss_seidel, pairwise, parts, lu]
MATRICES = [matmul, floyd_warshall, lu, cholesky, gauss, prefixes]
PROGRAMS = [
    pytest.param(f, x, id=f.__name__, marks=[] if f in QUICK else [pytest.mark.slow])
    for fs, x in ((VECTORS, X), (SMALLER, np.append(X, X[:2])), (MATRICES, M + M.T)) for f in fs
]  # fmt: skip


@pytest.mark.parametrize(("fn", "x"), PROGRAMS)
def test_value_and_gradient(fn, x):
    f = compile_grad(fn)
    for at in (x, x, x * 1.1):
        value, gradient = f.value_and_grad(at)
        np.testing.assert_allclose(value, fn(at), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(fn, (at,)), rtol=1e-5, atol=1e-6)
    assert "rolled: the loop" in str(f.explain(x, level="all")) or fn is prefixes  # its outer loop has few turns


@pytest.mark.slow
@pytest.mark.parametrize("fn", [gauss_seidel, time_warping, neville, parts], ids=lambda f: f.__name__)
def test_second_order(fn):
    direction = np.cos(np.arange(7.0))

    def slope(x):
        return np.sum(autograd.grad(fn)(x) * direction)

    np.testing.assert_allclose(autograd.grad(slope)(X), numerical_gradient(slope, (X,)), rtol=1e-4, atol=1e-5)


def carries(fn, x):
    """(carries of more than 16 elements in the loops of *fn* with its gradient, how many of them are in place)"""
    f = compile_grad(fn)
    f.value_and_grad(x)
    (path,) = [path for variants in f._both.variants.values() for variant in variants for path in variant.paths]
    found = []
    for op in canonicalise(simplify(path.recording.graph)).ops:
        if op.prim.kind == LOOP:
            body, held = op.params["body"].program, carries_in_place(op).versions
            first = op.params["consts"]
            wide = [s for s in body.inputs[first : first + op.params["carries"]] if s.dims]
            found += [s in held for s in wide]
    return len(found), sum(found)


@pytest.mark.slow
def test_arrays_are_updated_in_place():
    longer = np.append(X, X[:2])
    programs = (matmul, M), (floyd_warshall, M), (lu, M), (cholesky, M + M.T)
    for fn, x in programs:
        every, held = carries(fn, x)
        sums = fn in (matmul, cholesky)  # the gradient of what two loops read, added once a turn of the outer
        assert every - sums == held >= 2, fn.__name__
    assert carries(old_values, longer)[1] < carries(old_values, longer)[0]
