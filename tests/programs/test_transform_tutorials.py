"""What tutorials of JAX and of HIPS autograd do with transforms, in plain NumPy: per-sample gradients, Laplacians,
physics-informed networks, tangent kernels, Monte Carlo, meta-learning, Gauss-Newton, Lagrangian mechanics, flows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.sparse.linalg import LinearOperator, cg

import tracegrad
from tracegrad import autograd, compile_grad, custom_vjp, random, tree, vmap
from tracegrad.autograd import grad, hessian, hvp, jacfwd, jacobian, jacrev, jvp, value_and_grad, vjp

RNG = np.random.default_rng(0)
slow = pytest.mark.slow


def layers(*sizes: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(len(sizes))
    return [(rng.normal(size=(m, n)) * 0.3, np.zeros(n)) for m, n in pairwise(sizes)]


def predict(params: Any, x: Any) -> Any:
    for w, b in params[:-1]:
        x = np.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def test_gradients_of_each_example() -> None:
    params, inputs, labels = layers(4, 5, 3), RNG.normal(size=(6, 4)), np.eye(3)[[0, 2, 1, 1, 0, 2]]

    def loss(p: Any, x: Any, y: Any) -> Any:
        z = predict(p, x)
        return -np.sum((z - np.log(np.sum(np.exp(z)))) * y)

    values, each = vmap(value_and_grad(loss), in_axes=(None, 0, 0))(params, inputs, labels)
    one_by_one = [value_and_grad(loss)(params, x, y) for x, y in zip(inputs, labels, strict=True)]
    np.testing.assert_allclose(values, [v for v, _ in one_by_one])
    stacked = tree.map(lambda *leaves: np.stack(leaves), *[g for _, g in one_by_one])
    for a, b in zip(tree.leaves(each), tree.leaves(stacked), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)
    norms = vmap(lambda g: np.sqrt(tree.reduce(np.add, tree.map(lambda x: np.sum(x * x), g))))(each)
    np.testing.assert_allclose(norms[1], np.sqrt(sum(np.sum(x * x) for x in tree.leaves(one_by_one[1][1]))))


def test_laplacians() -> None:
    def f(x: Any) -> Any:
        return np.sin(x[0]) * np.cos(x[1]) * np.exp(x[2])

    def by_loop(x: Any) -> Any:
        unit = np.eye(3)
        return tracegrad.fori_loop(0, 3, lambda i, total: total + jvp(grad(f), (x,), (unit[i],))[1][i], 0.0)

    def by_taylor(x: Any) -> Any:
        return np.sum(vmap(lambda e: jvp(lambda y: jvp(f, (y,), (e,))[1], (x,), (e,))[1])(np.eye(3)))

    points = RNG.normal(size=(5, 3))
    for laplacian in (lambda x: np.trace(hessian(f)(x)), by_loop, by_taylor):
        np.testing.assert_allclose(vmap(laplacian)(points), [-f(p) for p in points])


@slow
def test_a_physics_informed_network() -> None:
    """Burgers' equation; a step of training is replayed without Python."""
    params, xs, ts = layers(2, 6, 1), RNG.uniform(-1, 1, 12), RNG.uniform(0, 1, 12)

    def u(p: Any, x: Any, t: Any) -> Any:
        return predict(p, np.stack([x, t]))[0]

    u_t, u_x = grad(u, 2), grad(u, 1)
    u_xx = grad(u_x, 1)

    def residual(p: Any, x: Any, t: Any) -> Any:
        return u_t(p, x, t) + u(p, x, t) * u_x(p, x, t) - 0.01 * u_xx(p, x, t)

    def loss(p: Any) -> Any:
        edge = vmap(u, (None, 0, None))(p, xs, 0.0) + np.sin(np.pi * xs)
        return np.mean(vmap(residual, (None, 0, 0))(p, xs, ts) ** 2) + np.mean(edge**2)

    @compile_grad
    def step(p: Any) -> Any:
        value, gradient = value_and_grad(loss)(p)
        return value, tree.map(lambda a, d: a - 0.05 * d, p, gradient)

    values = []
    for _ in range(20):
        value, params = step(params)
        values.append(value)
    assert values[-1] < values[0] and step.stats.traces == 1


@slow
def test_neural_tangent_kernels() -> None:
    params, a, b = layers(3, 5, 2), RNG.normal(size=(3, 3)), RNG.normal(size=(4, 3))

    def rows(x: Any) -> list[Any]:
        found = vmap(jacrev(predict), (None, 0))(params, x)
        return [j.reshape(*j.shape[:2], -1) for j in tree.leaves(found)]

    kernel = sum(np.einsum("Naf,Mbf->NMab", x, y) for x, y in zip(rows(a), rows(b), strict=True))

    def entry(x: Any, y: Any) -> Any:
        def product(ct: Any) -> Any:
            (tangent,) = vjp(lambda p: predict(p, x), params)[1](ct)
            return jvp(lambda p: predict(p, y), (params,), (tangent,))[1]

        return vmap(product)(np.eye(2))

    np.testing.assert_allclose(vmap(lambda x: vmap(lambda y: entry(x, y))(b))(a), kernel, rtol=1e-9)


@slow
def test_chains_of_hamiltonian_monte_carlo() -> None:
    def log_density(q: Any) -> Any:
        return -0.5 * np.sum(q**2 / np.array([1.0, 4.0]))

    def leapfrog(q: Any, p: Any, size: float, count: int) -> Any:
        p = p + 0.5 * size * grad(log_density)(q)
        for _ in range(count - 1):
            q = q + size * p
            p = p + size * grad(log_density)(q)
        q = q + size * p
        return q, p + 0.5 * size * grad(log_density)(q)

    def kernel(q: Any, key: Any) -> Any:
        first, second = random.split(key)
        p = random.normal(first, q.shape)
        new, last = leapfrog(q, p, 0.3, 8)
        change = log_density(new) - log_density(q) + 0.5 * np.sum(p**2) - 0.5 * np.sum(last**2)
        q = np.where(np.log(random.uniform(second)) < change, new, q)
        return q, q

    def chain(key: Any, q: Any) -> Any:
        return tracegrad.scan(kernel, q, random.split(key, 150))[1]

    samples = vmap(chain)(random.split(random.key(0), 20), np.zeros((20, 2)))
    assert samples.shape == (20, 150, 2)
    np.testing.assert_allclose(np.var(samples[:, 50:].reshape(-1, 2), axis=0), [1.0, 4.0], rtol=0.2)


@slow
def test_meta_learning() -> None:
    """The gradient through a step of gradient descent, over a batch of tasks."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        return np.mean((predict(p, x) - y) ** 2)

    def after_a_step(p: Any, x: Any, y: Any, new_x: Any, new_y: Any) -> Any:
        adapted = tree.map(lambda w, d: w - 0.1 * d, p, grad(loss)(p, x, y))
        return loss(adapted, new_x, new_y)

    def objective(p: Any, *tasks: Any) -> Any:
        return np.mean(vmap(after_a_step, in_axes=(None, 0, 0, 0, 0))(p, *tasks))

    params, (x, new_x) = layers(1, 6, 1), RNG.uniform(-3, 3, (2, 4, 8, 1))
    phase = RNG.uniform(0, np.pi, (4, 1, 1))
    tasks = x, np.sin(x + phase), new_x, np.sin(new_x + phase)
    gradient = grad(objective)(params, *tasks)
    direction = tree.map(lambda w: RNG.normal(size=w.shape), params)
    ahead, back = [objective(tree.map(lambda w, d, h=h: w + h * d, params, direction), *tasks) for h in (1e-5, -1e-5)]
    slope = sum(np.sum(g * d) for g, d in zip(tree.leaves(gradient), tree.leaves(direction), strict=True))
    np.testing.assert_allclose(slope, (ahead - back) / 2e-5, rtol=1e-6)


def test_gauss_newton_for_many_data_sets() -> None:
    t = np.linspace(0, 1, 20)
    truth = np.array([[2.0, 3.0, 0.5], [1.0, 2.0, 0.5], [1.5, 2.5, 0.2]])

    def model(p: Any) -> Any:
        return p[0] * np.exp(-p[1] * t) + p[2]

    def fit(y: Any) -> Any:
        def step(_: Any, p: Any) -> Any:
            j = jacfwd(model)(p)
            return p - np.linalg.solve(j.T @ j + 1e-9 * np.eye(3), j.T @ (model(p) - y))

        return tracegrad.fori_loop(0, 12, step, np.array([1.4, 2.4, 0.3]))

    np.testing.assert_allclose(vmap(fit)(vmap(model)(truth)), truth, rtol=1e-6)


@slow
def test_lagrangian_mechanics() -> None:
    """The double pendulum: its equations of motion keep the energy."""

    def energies(q: Any, v: Any) -> Any:
        kinetic = v[0] ** 2 + 0.5 * v[1] ** 2 + v[0] * v[1] * np.cos(q[0] - q[1])
        return kinetic, -9.8 * (2 * np.cos(q[0]) + np.cos(q[1]))

    def lagrangian(q: Any, v: Any) -> Any:
        kinetic, potential = energies(q, v)
        return kinetic - potential

    @compile_grad
    def rates(state: Any) -> Any:
        q, v = np.split(state, 2)
        force = grad(lagrangian, 0)(q, v) - jacobian(jacobian(lagrangian, 1), 0)(q, v) @ v
        return np.concatenate([v, np.linalg.solve(hessian(lagrangian, 1)(q, v), force)])

    start = np.array([1.2, -0.4, 0.0, 0.3])
    found = solve_ivp(lambda _, state: rates(state), (0.0, 1.0), start, rtol=1e-9, atol=1e-9)
    totals = [sum(energies(s[:2], s[2:])) for s in (start, found.y[:, -1])]
    np.testing.assert_allclose(totals[1], totals[0], rtol=1e-6)
    states = RNG.normal(size=(3, 4))
    np.testing.assert_allclose(vmap(rates)(states), [rates(s) for s in states])


@slow
def test_a_normalising_flow() -> None:
    points = RNG.normal(size=(5, 2))

    def flow(p: Any, x: Any) -> Any:
        return x + 0.3 * predict(p, x)

    def loss(p: Any) -> Any:
        def density(x: Any) -> Any:
            return -0.5 * np.sum(flow(p, x) ** 2) + np.linalg.slogdet(jacfwd(flow, 1)(p, x))[1]

        return -np.mean(vmap(density)(points))

    params = layers(2, 5, 2)
    gradient = grad(loss)(params)
    step = [(np.zeros((2, 5)), np.zeros(5)), (np.zeros((5, 2)), np.array([1.0, 0.0]))]
    ahead, back = [loss(tree.map(lambda w, d, h=h: w + h * d, params, step)) for h in (1e-5, -1e-5)]
    np.testing.assert_allclose(gradient[1][1][0], (ahead - back) / 2e-5, rtol=1e-6)
    key = random.key(1)

    def trace(x: Any) -> Any:  # by Hutchinson's estimator, of one direction
        direction = np.sign(random.normal(key, x.shape))
        return direction @ vjp(functools.partial(flow, params), x)[1](direction)[0]

    assert vmap(trace)(points).shape == (5,)


def test_an_implicit_fixed_point() -> None:
    """JAX's page on custom derivatives: the derivative of a solution solves a fixed point, too."""

    def iterate(f: Any, a: Any, x: Any) -> Any:
        return tracegrad.while_loop(
            lambda pair: np.abs(pair[0] - pair[1]) > 1e-12, lambda pair: (pair[1], f(a, pair[1])), (x, f(a, x))
        )[1]

    solve = custom_vjp(iterate, nondiff_argnums=(0,))

    def forward(f: Any, a: Any, x: Any) -> Any:
        found = solve(f, a, x)
        return found, (a, found)

    def backward(f: Any, kept: Any, ct: Any) -> Any:
        a, found = kept

        def adjoint(given: Any, u: Any) -> Any:
            inner_a, at, inner_ct = given
            return inner_ct + vjp(lambda x: f(inner_a, x), at)[1](u)[0]

        cotangent = iterate(adjoint, (a, found, ct), ct)
        return vjp(lambda b: f(b, found), a)[1](cotangent)[0], np.zeros_like(found)

    solve.defvjp(forward, backward)

    def root(a: Any) -> Any:
        return solve(lambda b, x: 0.5 * (x + b / x), a, a / 2)

    values = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(vmap(grad(root))(values), 0.5 / np.sqrt(values))
    np.testing.assert_allclose(grad(grad(root))(2.0), -0.25 * 2**-1.5)


@slow
def test_a_recurrent_network_over_a_batch() -> None:
    class Cell(NamedTuple):
        of_input: Any
        of_state: Any
        out: Any

    params = Cell(*[RNG.normal(size=shape) * 0.3 for shape in ((3, 4), (4, 4), (4, 2))])
    xs, ys = RNG.normal(size=(5, 6, 3)), RNG.normal(size=(5, 6, 2))

    def apply(p: Any, x: Any) -> Any:
        def cell(h: Any, row: Any) -> Any:
            h = np.tanh(row @ p.of_input + h @ p.of_state)
            return h, h @ p.out

        return tracegrad.scan(cell, np.zeros(4), x)[1]

    whole = grad(lambda p: np.mean((vmap(apply, (None, 0))(p, xs) - ys) ** 2))(params)
    each = vmap(grad(lambda p, x, y: np.mean((apply(p, x) - y) ** 2)), (None, 0, 0))(params, xs, ys)
    assert type(whole) is type(each) is Cell
    for a, b in zip(whole, each, strict=True):
        np.testing.assert_allclose(np.mean(b, axis=0), a, rtol=1e-9)


@slow
def test_an_ensemble() -> None:
    inputs = RNG.normal(size=(10, 2))
    targets = inputs[:, 0] * inputs[:, 1]

    def init(key: Any) -> Any:
        first, second = random.split(key)
        return {"w": random.normal(first, (2, 4)), "v": random.normal(second, (4,))}

    def loss(p: Any) -> Any:
        return np.mean((np.tanh(inputs @ p["w"]) @ p["v"] - targets) ** 2)

    @compile_grad
    def step(all_params: Any) -> Any:
        return tree.map(lambda p, g: p - 0.1 * g, all_params, vmap(grad(loss))(all_params))

    members = vmap(init)(random.split(random.key(3), 5))
    before = vmap(loss)(members)
    for _ in range(40):
        members = step(members)
    assert np.all(vmap(loss)(members) < before) and step.stats.traces == 1


@slow
def test_natural_gradients_and_solvers_of_scipy() -> None:
    inputs = RNG.normal(size=(30, 3))
    labels = (inputs @ [1.0, -1.0, 0.5] > 0) * 1.0

    def nll(w: Any, x: Any, y: Any) -> Any:
        return np.log1p(np.exp(x @ w)) - y * (x @ w)

    @compile_grad
    def loss(w: Any) -> Any:
        return np.mean(vmap(nll, (None, 0, 0))(w, inputs, labels)) + 0.05 * w @ w

    w = np.array([0.3, -0.2, 0.1])
    scores = vmap(grad(nll), (None, 0, 0))(w, inputs, labels)
    assert (scores.T @ scores).shape == (3, 3)
    operator: Any = LinearOperator((3, 3), matvec=lambda v: hvp(loss)(w, v))
    step, failed = cg(operator, loss.grad(w), rtol=1e-10)
    assert failed == 0
    np.testing.assert_allclose(hessian(loss)(w) @ step, loss.grad(w), rtol=1e-6)


LINES: dict[str, Callable[[], Any]] = {
    "axes in a dict": lambda: vmap(lambda d: d["x"] * d["y"], in_axes=({"x": 0, "y": None},))(
        {"x": np.arange(3.0), "y": 2.0}
    ),
    "by name": lambda: vmap(lambda x, *, k: x * k)(np.arange(3.0), k=np.arange(3.0)),
    "np.dot": lambda: vmap(np.dot, in_axes=(0, 1))(np.ones((3, 2)), np.ones((2, 3))),
    "rows of an index": lambda: vmap(lambda i, x: x[i], in_axes=(0, None))(np.array([0, 2]), np.arange(3.0)),
    "decompositions": lambda: vmap(np.linalg.svd)(RNG.normal(size=(2, 3, 3))),
    "keys": lambda: vmap(lambda k: random.normal(k, (2,)))(random.split(random.key(0), 3)),
    "np.convolve": lambda: vmap(lambda x: np.convolve(x, [1.0, 2.0, 1.0]))(np.ones((2, 5))),
    "lengths": lambda: vmap(lambda x, n: np.where(np.arange(4) < n, x, 0.0))(np.ones((2, 4)), np.array([1, 3])),
    "switch": lambda: vmap(lambda i: tracegrad.switch(i, [np.sin, np.cos], 1.0))(np.array([0, 1])),
    "partial": lambda: vmap(functools.partial(np.multiply, 2.0))(np.ones(3)),
    "constants": lambda: vmap(lambda x: (np.zeros(3) + 1, 1.0))(np.arange(3.0)),
    "np.interp": lambda: vmap(lambda x: np.interp(x, [0.0, 1.0], [0.0, 4.0]))(np.array([0.5, 1.5])),
    "np.linalg.lstsq": lambda: vmap(lambda a, b: np.linalg.lstsq(a, b)[0])(np.ones((2, 4, 3)), np.ones((2, 4))),
    "aux of jacfwd": lambda: jacfwd(lambda x: (x**2, x), has_aux=True)(np.arange(3.0)),
    "aux of vjp": lambda: vjp(lambda x: (x**2, x), np.arange(3.0), has_aux=True)[2],
    "two arguments": lambda: hessian(lambda x, y: np.sum(x * y), argnums=(0, 1))(np.ones(2), np.ones(2)),
    "trees": lambda: jacrev(lambda p: p["a"] * p["b"])({"a": np.ones(2), "b": 2.0}),
    "elementwise": lambda: autograd.elementwise_grad(np.tanh)(np.arange(3.0)),
}


@slow
@pytest.mark.parametrize("name", LINES)
def test_everyday_lines(name: str) -> None:
    LINES[name]()
