"""Traced values written into plain arrays whose making nothing tells: of generators, of functions under other names."""

from __future__ import annotations

import functools
import os
import sys
import time
from functools import reduce

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import autograd, compile_grad, tree, vmap

X = np.array([0.7, 1.3, 0.4, 2.2])
TABLE = {"ones": np.ones}
zeros = functools.partial(np.zeros, dtype=float)


def other_names(a, make=np.zeros):
    z = make(3)
    z[0] = a[0]
    ones = TABLE["ones"]
    w = ones(3)
    v = w
    v[1] += a[1] * z[0]
    u = zeros(3)
    u[2] = w[1] ** 2
    many = [make(2) for _ in range(2)]
    many[1][0] = a[2]
    held = {"p": make(2)}
    held["p"][1] = many[1][0] * 2
    return np.sum(z + w * u) + np.sum(many) * np.sum(held["p"])


def functions_of_lists(a):
    d = np.diag([1.0, 2.0, 3.0]); d = d * 1; d[0] = a[:3]  # fmt: skip  # noqa: E702
    r = np.repeat([1.0, 2.0], 2)
    r[0] *= a[0]
    t = np.tile([1.0, 2.0], 2)
    t += r * a
    x, y = np.meshgrid([1.0, 2.0, 3.0], [2.0, 3.0])
    x[0] = a[:3]
    y[0, 0] -= a[3]
    s = np.stack([[0.0, 1.0], [2.0, 3.0]])
    s[:, 0] = a[:2]
    p = np.pad([1.0, 2.0], 1)
    p[0] = np.fromiter((k * 2.0 for k in range(3)), float)[1] * a[0]
    q = np.ndarray(2)
    q.fill(0.0)
    q[1] = p[0]
    return np.sum(d @ d) + np.sum(r * t) + np.sum(x * y) + np.linalg.norm(s) + np.sum(p) * q[1]


def grids(a):
    xs, ys = np.mgrid[0:1:5j, 0:1:5j]
    u = np.exp(-((xs - 0.5) ** 2) - ys)
    for _ in range(3):
        u[1:-1, 1:-1] += 0.1 * a[0] * (u[2:, 1:-1] - 2 * u[1:-1, 1:-1] + u[:-2, 1:-1])
        u[0, :] = a[1]
    line = np.r_[0.0, 1.0, 2.0]
    line[-1] = u[2, 2]
    return np.sum(u**2) * np.sum(line)


class Rod:
    def __init__(self, n, nu):
        self.u, self.nu, self.history = np.sin(np.mgrid[0:n] / n), nu, []
        self.k = -np.diag([1.0] * n)

    def step(self):
        before = self.u.copy()
        self.u[1:-1] = before[1:-1] + self.nu * (before[2:] - 2 * before[1:-1] + before[:-2])
        self.k[0, 1] += self.nu
        self.history.append(self.u.copy())


def a_class(a):
    rod = Rod(6, a[0] * 0.1)
    for _ in range(3):
        rod.step()
    return np.sum(rod.u) + np.sum(rod.k @ rod.k) + sum(np.sum(h**2) for h in rod.history)


def fill(out, a):
    for k in range(len(out)):
        out[k] = a[k] ** 2
    return out


def ways_of_writing(a):
    z = np.zeros((2, 2))
    z.flat[1] = a[0]
    z.flat[2:] = a[1:3]
    z.flat = z * a[0]
    np.put_along_axis(z, np.array([[0], [1]]), a[:2].reshape(2, 1), axis=1)
    w = np.ones((3, 3))
    np.fill_diagonal(w, a[0])
    np.put(w, [1, 2], a[:2])
    np.add.at(w, ([0, 0], [1, 1]), a[2:])
    fill(np.mgrid[0:4].astype(float), a)
    with np.nditer(w, op_flags=["readwrite"]) as it:
        for x in it:
            x[...] = 2 * x
    return np.sum(z) + np.sum(w**2) + np.sum(fill(np.mgrid[0:4] * 1.0, a))


def iterators(a):
    total, m = 0.0, np.outer(a, a)
    for (i, j), v in np.ndenumerate(m):
        if i != j:
            total += v * (i + 1)
    it = np.nditer(m, flags=["multi_index"])
    while not it.finished:
        total = total + it[0] ** 2 * it.multi_index[1]
        it.iternext()
    for x, y in np.nditer([a, np.arange(4.0)]):
        a = a + 0.1 * x * y
    for x, y in np.nditer([a, 2.0 * a]):
        total = total + x * y
    return total


QUICK, SLOW = [other_names, functions_of_lists, a_class], [grids, ways_of_writing, iterators]


@pytest.mark.parametrize(
    "f",
    [*QUICK, *[pytest.param(f, marks=pytest.mark.slow) for f in SLOW]],
    ids=lambda f: f.__name__,
)
def test_writes(f):
    compiled = compile_grad(f)
    for x in (X, X * 1.1, X[::-1].copy()):
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=1e-5, atol=1e-7)
    assert compiled.stats.live == "" and sys.gettrace() is None


def numpys_writers(a):
    w = np.ones((3, 3))
    np.fill_diagonal(w, a[0])
    v = np.linspace(0.0, 1.0, 4)
    np.put(v, [1, 2], a[:2])
    u = np.full(4, 0.5)
    np.add.at(u, [0, 0], a[2:])
    return np.sum(w**2) + np.sum(v * u)


LIVE = [functions_of_lists, a_class, numpys_writers, other_names, grids, iterators]


@pytest.mark.parametrize("f", [*LIVE[:3], *[pytest.param(f, marks=pytest.mark.slow) for f in LIVE[3:]]])
def test_writes_in_runs_that_are_made_in_each_call(f):
    """They can't be made again, so which arrays hold traced values is known before: by names of the user's code."""

    def each_time(a):
        time.perf_counter()
        return f(a)

    compiled = compile_grad(each_time)
    for x in (X, X * 1.1):
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=1e-5, atol=1e-7)
    assert "reads the clock" in compiled.stats.live


def test_arrays_that_libraries_have_made_are_told_apart():
    """Each by its place in the user's code: one that holds traced values makes no other one traced."""

    def f(a):
        z = np.tile([1.0, 2.0], 2)
        z[0] = a[0]
        table = np.tile([1.0, 2.0], 2)
        return np.sum(z) * {1.0: 2.0, 2.0: 3.0}[table[1]]

    compiled = compile_grad(f)
    for x in (X, 2 * X):
        np.testing.assert_allclose(compiled.grad(x), [3.0, 0.0, 0.0, 0.0])
    assert compiled.stats.live == ""


class Noise:
    def __init__(self, seed):
        self.rng, self.weights = np.random.default_rng(seed), np.zeros(3)

    def draw(self, a):
        noise = self.rng.normal(size=4)
        noise *= a
        noise[0] = a[1]
        self.weights[1:] = a[:2]
        table = np.zeros(3)
        for k in range(3):
            table[k] = 0.5**k
        points = self.rng.random((3, 2)) + self.rng.random((3, 2))
        turned = points.dot(np.array([[np.cos(a[0]), -np.sin(a[0])], [np.sin(a[0]), np.cos(a[0])]]))
        return (
            np.sum(turned * points)
            + np.sum(noise**2)
            + np.sum(table * self.weights)
            + self.rng.choice(2, p=np.ones(2) / 2)
        )


def test_functions_that_draw():
    """A live function's first run can't be made again, and has to know."""

    def f(a, seed):
        return Noise(seed).draw(a) + 0 * time.time()

    compiled = compile_grad(f)
    for seed in range(3):
        value, gradient = compiled.value_and_grad(X, seed)
        np.testing.assert_allclose(value, f(X, seed), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(lambda x: f(x, seed), (X,)), rtol=1e-5)  # noqa: B023
    assert "reads the clock" in compiled.stats.live and sys.gettrace() is None


def test_an_array_that_something_else_shows():
    def f(a):
        whole = np.sort(np.mgrid[0:4]) * 1.0
        first, second = np.split(whole, 2)
        second[0] = a[0]
        return np.sum(first) + np.sum(whole)

    compiled = compile_grad(f)
    for x in (X, 2 * X):
        np.testing.assert_allclose(compiled.grad(x), [1.0, 0.0, 0.0, 0.0])


def f_of_parts(a):
    make = np.zeros
    first, second = np.split(make(4), 2)
    second[0] = a[0]
    return np.sum(first) + np.sum(second)


def test_parts_are_written_into():
    np.testing.assert_allclose(compile_grad(f_of_parts).grad(X), [1.0, 0.0, 0.0, 0.0])


def test_beside_a_debugger():
    def f(a):
        z = np.mgrid[0:3] * 1.0
        z[0] = a[0]
        return np.sum(z)

    def look(frame, event, arg):
        return None

    sys.settrace(look)
    try:
        np.testing.assert_allclose(compile_grad(f).grad(X), [1.0, 0.0, 0.0, 0.0])
        assert sys.gettrace() is look
    finally:
        sys.settrace(None)


def test_parts_of_what_others_hold_stay_theirs():
    """A list of arrays that an object has, as its method gives it, is the object's own, and so are the arrays."""

    class Buffers:
        def __init__(self):
            self.kept = [np.ones(2), np.ones(2)]

        def all(self):
            return self.kept

    def f(a):
        time.perf_counter()
        mine = Buffers()
        given = mine.all()
        given.append(a)
        return np.sum(mine.kept[-1] * 2) + len(mine.kept)

    assert compile_grad(f)(X) == pytest.approx(f(X))


def test_copies_of_drawn_arrays():
    """In functions whose Python runs in each call, so that no run is made again: NumPy's copies are arrays of their
    own."""

    def leap(q, p, w):
        q, p = np.copy(q), np.copy(p)
        p -= w * q
        q += p * 0.1
        return q, -p

    def f(w):
        drawn = np.random.default_rng(0).normal(size=(4, 3))
        p = drawn[0].copy()
        p -= w[:3]
        q, r = leap(np.ones(3), drawn[1], w[1:])
        assert drawn[0, 0] == np.random.default_rng(0).normal()
        return np.sum(p * q) + np.sum(r**2)

    compiled = compile_grad(f)
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), f(X), rtol=1e-12)
        np.testing.assert_allclose(compiled.grad(X), numerical_gradient(f, (X,)), rtol=1e-6, atol=1e-8)


class Model:
    B = np.array([[1.0, 2.0, -0.5, 0.3], [0.4, -0.2, 1.5, 0.1]])

    def __init__(self):
        self.X = np.arange(12.0).reshape(3, 4) / 7

    def live(self, w):
        outer = self.B
        part = (lambda v: outer.dot(v))(w)
        picked = (
            self.X.clip(None, w).sum() + np.sum(self.X[0].repeat(2)) + np.sum(np.array([0, 1, 1, 0]).choose([w, 2 * w]))
        )
        return np.sum(self.X.T.dot(self.X.dot(w)) ** 2) + part[0] * self.X.take((w > 1).astype(int))[2] + picked

    def tableau(self, w):
        return np.sum(self.B.dot(w) ** 2)

    @classmethod
    def of_class(cls, w):
        return np.sum(cls.B.dot(w) ** 2) * Model.B.dot(w)[0]


def test_methods_of_plain_arrays_that_something_else_holds():
    """``self.X.dot(w)`` in functions whose Python runs in each call, and of arrays in classes; never stale."""
    model = Model()
    before = Model.B
    functions = (lambda w, m: m.live(w) + 0 * np.random.rand(), Model.tableau.__get__(model), Model.of_class)
    try:
        for f in functions:
            args = (model,) if f is functions[0] else ()
            compiled = compile_grad(f)
            for k in range(3):
                w = X + 0.1 * k
                value, gradient = compiled.value_and_grad(w, *args)
                np.testing.assert_allclose(value, f(w, *args), rtol=1e-12)
                np.testing.assert_allclose(gradient, numerical_gradient(f, (w, *args)), rtol=1e-5, atol=1e-7)
                assert type(model.X) is type(Model.B) is np.ndarray
                model.X[0] += 0.5
                if k == 1:
                    Model.B = Model.B * 1.5
                else:
                    Model.B[1] -= 0.25
    finally:
        Model.B = before
    live = compile_grad(functions[0])
    counts = [(live(X, model), sys.getrefcount(np.ndarray.dot))[1] for _ in range(4)]
    assert counts[1:] == counts[:1] * 3


PRODUCT = np.copy(Model.B)
product = PRODUCT.dot


class Late(Model):
    """Live, and comes to its methods after other calls."""

    calls = 0

    def loss(self, w):
        time.time()
        self.calls += 1
        if self.calls == 3:
            return np.sum(self.X.dot(w) ** 2)
        dot = self.B.dot if self.calls > 4 else np.sum
        return sum(np.sum(v) ** 2 for v in map(dot, [w, w * w]))


def _handed_on(w):
    def apply(f, x):
        return f(x)

    a = np.vander([1.0, 2.0, -1.0, 0.5])
    total = np.sum(apply(a.dot, w) * reduce(lambda v, f: f(v), [a.dot, np.diag(a).dot], w))
    for v in map(a.T.dot, [w, w * w]):
        total = total + np.sum(v)
    return total


def test_methods_of_plain_arrays_as_values():
    functions = (_handed_on, lambda w: np.sum(product(w) ** 2), Late().loss)
    for f, plain in zip(functions, (*functions[:2], Late().loss), strict=True):
        compiled = compile_grad(f)
        for k in range(6):
            w = X + 0.1 * k
            np.testing.assert_allclose(compiled(w), plain(w), rtol=1e-12)
            if f is not functions[2]:
                np.testing.assert_allclose(compiled.grad(w), numerical_gradient(f, (w,)), rtol=1e-5, atol=1e-6)
            PRODUCT[0] += 0.25
        assert bool(compiled.stats.live) is (f is functions[2])


def test_results_of_operators_on_made_arrays():
    """In functions whose Python runs in each call: nothing but a name holds them."""

    def f(w):
        b = np.copy(X) * 2
        b -= w + 0 * np.random.rand()
        c = -np.ones(4)
        c[1:] *= w[0]
        return np.sum(b * c * w)

    compiled = compile_grad(f)
    for k in range(2):
        value, gradient = compiled.value_and_grad(X + k)
        np.testing.assert_allclose(value, f(X + k), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (X + k,)), rtol=1e-6, atol=1e-7)


def test_under_transforms():
    """Runs of a transform are made line by line like those of its function, also where Python runs each time."""
    table = np.ones((3, 2))

    def drawn(h):
        z = np.random.default_rng(0).normal(size=(3, 2))
        z[1] = np.tanh(h)
        return np.sum(z * z)

    def each_time(h):
        open(os.devnull).close()
        out = np.zeros_like(table)
        out[1] = np.tanh(h)
        return np.sum(out * out)

    h = np.array([0.3, -0.2])
    expected = 2 * np.tanh(h) / np.cosh(h) ** 2
    for fn in (drawn, each_time):
        assert np.allclose(autograd.vjp(fn, h)[1](1.0)[0], expected)
        assert np.allclose(vmap(lambda h, fn=fn: autograd.vjp(fn, h)[1](1.0)[0])(h[None]), expected)


def test_structures_of_trees_are_constants():
    structure = tree.structure({"a": 1, "b": [2, (3, None)]})
    fn = compile_grad(lambda x: tree.unflatten(structure, [x, x * 2, x * 3])["b"][0])
    for k in range(4):
        assert fn(float(k)) == 2 * k
    assert fn.stats.traces <= 2
