"""Programs as people write them in NumPy, with tables that are filled, in-place updates, chained items and classes: run
unmodified, they have the gradients of finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

PROGRAMS = {}
RNG = np.random.RandomState(0)


def program(x0, *marks):
    def add(f):
        PROGRAMS[f.__name__] = pytest.param(f, np.array(x0, float), id=f.__name__, marks=marks)
        return f

    return add


class CubicSpline:
    def __init__(self, x, y):
        self.x, self.y, self.n = x, y, len(x)
        self.h, self.b = np.zeros(self.n), np.zeros(self.n)
        self.a = np.zeros((self.n, self.n))
        for i in range(1, self.n):
            self.h[i] = self.x[i] - self.x[i - 1]
        self.a[0][0] = 1.0
        self.a[-1][-1] = 1.0
        for i in range(1, self.n - 1):
            self.a[i][i - 1] = self.h[i]
            self.a[i][i] = 2.0 * (self.h[i] + self.h[i + 1])
            self.a[i][i + 1] = self.h[i + 1]
            right = (self.y[i + 1] - self.y[i]) / self.h[i + 1]
            self.b[i] = 6.0 * (right - (self.y[i] - self.y[i - 1]) / self.h[i])
        self.sigma = np.linalg.solve(self.a, self.b)

    def __call__(self, x):
        j = min(max(np.searchsorted(self.x, x), 1), self.n - 1)
        h, left, right = self.h[j], self.x[j] - x, x - self.x[j - 1]
        cubic = (self.sigma[j - 1] * left**3 + self.sigma[j] * right**3) / (6 * h)
        linear = (self.y[j] / h - self.sigma[j] * h / 6) * right
        return cubic + linear + (self.y[j - 1] / h - self.sigma[j - 1] * h / 6) * left


@program([0.0, 0.5, 0.3, -0.4, 0.8], pytest.mark.slow)
def spline(y):
    s = CubicSpline(np.array([0.0, 1.0, 2.2, 3.0, 4.5]), y)
    return sum(s(x) ** 2 for x in np.linspace(0.1, 4.4, 7))


@program([0.5, 1.5, 2.0], pytest.mark.slow)
def truss(area):
    nodes = np.array([[0, 0], [1, 0], [0.5, 1.0]])
    k_all = np.zeros((6, 6))
    for e, (i, j) in enumerate([(0, 1), (1, 2), (0, 2)]):
        d = nodes[j] - nodes[i]
        length = np.linalg.norm(d)
        c, s = d / length
        t = np.array([[c, s, 0, 0], [0, 0, c, s]])
        k = area[e] / length * np.array([[1, -1], [-1, 1]])
        dofs = np.array([2 * i, 2 * i + 1, 2 * j, 2 * j + 1])
        k_all[np.ix_(dofs, dofs)] += t.T @ k @ t
    free, f, u = np.array([2, 4, 5]), np.zeros(6), np.zeros(6)
    f[5] = -1.0
    u[free] = np.linalg.solve(k_all[np.ix_(free, free)], f[free])
    return f @ u


@program(RNG.rand(6), pytest.mark.slow)
def viterbi(w):
    log_a, log_b = np.log(np.array([[0.7, 0.3], [0.4, 0.6]])), w.reshape(2, 3)
    observed = np.array([0, 1, 2, 1])
    delta, psi = np.zeros((4, 2)), np.zeros((4, 2), dtype=int)
    delta[0] = log_b[:, observed[0]]
    for t in range(1, 4):
        for j in range(2):
            tmp = delta[t - 1] + log_a[:, j]
            psi[t, j] = np.argmax(tmp)
            delta[t, j] = tmp[psi[t, j]] + log_b[j, observed[t]]
    path = [int(np.argmax(delta[-1]))]
    for t in range(3, 0, -1):
        path.insert(0, psi[t, path[0]])
    return delta[-1].max() + sum(log_b[s, o] for s, o in zip(path, observed, strict=True))


@program(RNG.rand(9))
def householder(w):
    a = w.reshape(3, 3) + np.eye(3)
    r, q = a.astype(float), np.identity(3)
    for k in range(2):
        x = r[k:, k].copy()
        e = np.zeros_like(x)
        e[0] = np.copysign(np.linalg.norm(x), -a[k, k])
        u = x - e
        v = u / np.linalg.norm(u)
        qk = np.identity(3)
        qk[k:, k:] -= 2.0 * np.outer(v, v)
        r, q = qk.dot(r), q.dot(qk.T)
    return np.abs(np.diag(r)).sum() + q[0, 1]


@program([0.5, 0.1])
def epidemic(th):
    s, i, r = np.zeros(30), np.zeros(30), np.zeros(30)
    s[0], i[0], r[0] = 0.99, 0.01, 0.0
    for t in range(29):
        new, gone = th[0] * s[t] * i[t], th[1] * i[t]
        s[t + 1] = s[t] - 0.5 * new
        i[t + 1] = i[t] + 0.5 * (new - gone)
        r[t + 1] = r[t] + 0.5 * gone
    return i[np.argmax(i)] + r[-1]


@program([1.0, 0.5], pytest.mark.slow)
def plate(th):
    t = np.zeros((6, 6))
    t[0, :] = th[0]
    t[:, -1] = th[1]
    change, count = 1.0, 0
    while change > 2e-2 and count < 100:
        old = t.copy()
        t[1:-1, 1:-1] = 0.25 * (old[2:, 1:-1] + old[:-2, 1:-1] + old[1:-1, 2:] + old[1:-1, :-2])
        change = np.max(np.abs(t - old))
        count += 1
    return t.sum()


class Network:
    def __init__(self, sizes, params):
        self.weights, self.biases, k = [], [], 0
        for a, b in itertools.pairwise(sizes):
            self.weights.append(params[k : k + a * b].reshape(b, a))
            k += a * b
            self.biases.append(params[k : k + b].reshape(b, 1))
            k += b

    def forward(self, a):
        self.activations = [a]
        for i, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            z = np.dot(w, a) + b
            a = 1.0 / (1.0 + np.exp(-z)) if i < len(self.weights) - 1 else z
            self.activations.append(a)
        return a


@program(RNG.randn(13))
def network(w):
    net = Network([2, 3, 1], w)
    data = [(np.array([[0.0], [1.0]]), 1.0), (np.array([[1.0], [1.0]]), 0.0)]
    return sum(((net.forward(x) - y) ** 2).item() for x, y in data) / len(data) + np.mean(net.activations[1])


@program(RNG.rand(4) * 2, pytest.mark.slow)
def clusters(w):
    points = np.random.RandomState(1).rand(12, 2) * 2
    centers = w.reshape(2, 2).copy()
    for _ in range(2):
        distances = np.zeros((points.shape[0], 2))
        for k in range(2):
            distances[:, k] = np.sqrt(((points - centers[k]) ** 2).sum(axis=1))
        labels = distances.argmin(axis=1)
        for k in range(2):
            if np.any(labels == k):
                centers[k] = 0.5 * centers[k] + 0.5 * points[labels == k].mean(axis=0)
    return np.sum(np.min(distances, axis=1) ** 2)


@program([0.05, 0.2], pytest.mark.slow)
def asian_option(th):
    rng, paths = np.random.RandomState(42), np.zeros((20, 11))
    paths[:, 0] = 100
    for t in range(1, 11):
        z = rng.standard_normal(20)
        z *= th[1] * np.sqrt(0.1)
        paths[:, t] = paths[:, t - 1] * np.exp((th[0] - 0.5 * th[1] ** 2) * 0.1 + z)
    return np.mean(np.maximum(paths.mean(axis=1) - 100, 0))


@program([1.2], pytest.mark.slow)
def romberg(th):
    table, h = np.zeros((4, 4)), 1.0
    table[0, 0] = 0.5 * h * (1.0 + np.exp(-th[0]))
    for i in range(1, 4):
        h /= 2
        s = 0
        for k in range(1, 2**i, 2):
            s += np.exp(-th[0] * (k * h) ** 2)
        table[i, 0] = 0.5 * table[i - 1, 0] + h * s
        for j in range(1, i + 1):
            table[i, j] = table[i, j - 1] + (table[i, j - 1] - table[i - 1, j - 1]) / (4**j - 1)
    return table[3, 3]


@pytest.mark.parametrize(("f", "x0"), PROGRAMS.values())
def test_programs_as_people_have_them(f, x0):
    compiled = compile_grad(f)
    for x in (x0, x0 * 1.03, x0 * 0.96 + 0.005):
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-9)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=2e-4, atol=2e-5)
