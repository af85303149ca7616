"""Solutions whose solver is not differentiated: idioms of JAX, jaxopt and optimistix, against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from agreement import agree, numerical_gradient

import tracegrad as tg
from tracegrad import ShapeError, TracegradError, autograd, compile_grad

X = np.array([0.3, 1.2, 2.0])
MATRIX = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.3], [0.1, 0.3, 1.0]])
SKEW = np.array([[2.0, 0.5, 0.0], [0.1, 1.5, 0.3], [0.0, -0.2, 1.0]])

# ---- functions -------------------------------------------------------------------------------------------------------


@tg.implicit_root(lambda x, theta: x**3 + x - theta)
def cubic(init, theta):
    return scipy.optimize.newton(lambda x: x**3 + x - theta, init, tol=1e-14)


def ridge_optimality(w, reg, data):
    x, y = data
    return x.T @ (x @ w - y) + reg * w


@tg.implicit_root(ridge_optimality)
def ridge(init, reg, data):
    """jaxopt's first example: a solver that is opaque."""
    x, y = data
    return np.linalg.solve(x.T @ x + reg * np.eye(x.shape[1]), x.T @ y)


@tg.implicit_root(lambda x, a: {"u": x["u"] ** 2 - a[0], "v": x["v"] - x["u"] * a}, host=False)
def recorded_tree(init, a):
    u = init["u"]
    for _ in range(30):
        u = 0.5 * (u + a[0] / u)
    return {"u": u, "v": u * a}


@tg.implicit_root(lambda x, a: np.tanh(x) + x - a, has_aux=True, solve=lambda matvec, b: b / matvec(np.ones(b.shape)))
def elementwise(init, a):
    found = scipy.optimize.root(lambda x: np.tanh(x) + x - a, init, tol=1e-13)
    return found.x, found.nfev


def scalar_root(a):
    """JAX's example of ``custom_root``: a polynomial by bisection of its own."""

    def f(x):
        return x**3 + x - a

    def newton(f, x):
        return tg.while_loop(lambda x: np.abs(f(x)) > 1e-13, lambda x: x - f(x) / (3 * x**2 + 1), x)

    return tg.custom_root(f, 1.0, newton, lambda g, y: y / g(1.0))


def conjugate_gradients(matvec, b):
    def step(state):
        x, r, p, rr = state
        q = matvec(p)
        alpha = rr / np.dot(p, q)
        r = r - alpha * q
        new = np.dot(r, r)
        return x + alpha * p, r, r + new / rr * p, new

    return tg.while_loop(lambda s: s[3] > 1e-26, step, (b * 0.0, b, b, np.dot(b, b)))[0]


def dense(matvec, b):
    return np.linalg.solve(autograd.jacobian(matvec)(b), b)


# ---- programs --------------------------------------------------------------------------------------------------------


def host_root(x):
    return cubic(1.0, np.sum(x)) ** 2 * x[0]


def regression(x):
    data = (SKEW * x, X)
    return np.sum(ridge(X * 0, np.exp(x[0]), data) ** 2)


def tree_root(x):
    found = recorded_tree({"u": x[0], "v": x}, np.exp(x))
    return np.sum(found["v"] * x) + found["u"]


def elementwise_root(x):
    found, count = elementwise(np.zeros(3), x * 2)
    return np.sum(found * x) + 0 * count


def newton_root(x):
    return scalar_root(np.sum(x) + 1) * x[1]


def square_roots(x):
    return np.sum(tg.fixed_point(lambda y: 0.5 * (y + x / y), np.ones(3)) * X)


def fixed_tree(x):
    def step(state, a):
        return {"a": np.cos(state["a"]) * a, "b": 0.3 * state["b"] + state["a"]}

    found = tg.fixed_point(step, {"a": 0.1, "b": 0.2}, np.tanh(x[0]), tol=1e-13)
    return found["a"] * x[1] + found["b"]


def fixed_by_conjugates(x):
    step = lambda y: 0.2 * np.sin(y) + MATRIX @ x * 0.1  # noqa: E731
    return np.sum(tg.fixed_point(step, X, tol=1e-14, solve=dense) ** 2)


def symmetric_solve(x):
    shifted = MATRIX + np.diag(x**2)
    return np.sum(tg.custom_linear_solve(lambda v: shifted @ v, x, conjugate_gradients, symmetric=True) ** 2)


def solve_with_transpose(x):
    shifted = SKEW * x + 2 * np.eye(3)
    return np.sum(tg.custom_linear_solve(lambda v: shifted @ v, X, dense, dense) * x)


def rolled(x):
    for _ in range(5):
        x = cubic(1.0, x[0]) * x + 0.1
    return np.sum(x)


def scanned(x):
    return np.sum(tg.scan(lambda c, row: (tg.fixed_point(lambda y: 0.3 * np.cos(y) + c * row, c), None), x, MATRIX)[0])


PROGRAMS = [
    host_root, regression, tree_root, elementwise_root, newton_root, square_roots, fixed_tree, fixed_by_conjugates,
    symmetric_solve, solve_with_transpose, rolled, scanned,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients(program) -> None:
    agree(compile_grad(program), program, X)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.slow
def test_other_derivatives(program) -> None:
    """Forward mode, and order two."""
    v = np.array([1.0, -0.5, 0.2])
    gradient = autograd.grad(program)
    np.testing.assert_allclose(autograd.jvp(program, (X,), (v,))[1], gradient(X) @ v, rtol=1e-7)
    slope = numerical_gradient(lambda x: float(gradient(x) @ v), (X,))
    np.testing.assert_allclose(autograd.grad(lambda x: gradient(x) @ v)(X), slope, rtol=1e-4, atol=1e-5)


def test_the_solver_is_not_differentiated() -> None:
    value, both = (str(tg.make_graph(f)(X)) for f in (square_roots, autograd.grad(square_roots)))
    assert value.count("loop[") == 1 and both.count("loop[") == 2  # the iteration; the rows of the Jacobian


def test_errors() -> None:
    with pytest.raises(TracegradError, match="has not converged after 20 steps"):
        autograd.grad(lambda a: tg.fixed_point(lambda y: a * y + 1, 1.0, max_steps=20))(2.0)
    with pytest.raises(TracegradError, match="has not converged"):
        tg.fixed_point(lambda y: 2 * y + 1, 1.0)
    with pytest.raises(ShapeError, match="does not return what it takes"):
        autograd.grad(lambda a: np.sum(tg.custom_root(lambda x: np.sum(x) * a, X, lambda f, x: x, dense)))(1.0)
    with pytest.raises(ShapeError, match="values of the shapes"):
        wrong = tg.implicit_root(lambda x, a: np.sum(x) - a)(lambda init, a: init * 0 + a)
        autograd.grad(lambda a: np.sum(wrong(X, a)))(1.0)


@pytest.mark.parametrize(
    "program", [host_root, square_roots, *[pytest.param(p, marks=pytest.mark.slow) for p in (newton_root, scanned)]]
)
def test_batches(program) -> None:
    batch = np.stack([X, X * 0.9, X + 0.1])
    np.testing.assert_allclose(autograd.vmap(program)(batch), [program(x) for x in batch], rtol=1e-9)
    gradient = autograd.grad(program)
    np.testing.assert_allclose(autograd.vmap(gradient)(batch), [gradient(x) for x in batch], rtol=1e-7)


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_rule_around_a_linear_solve_is_transposed(symmetric):
    """The tangent of a solution is a solution, whose transpose is the rule for cotangents and no transpose of its own
    tangent."""
    matrix = 3 * np.eye(3) + 0.1

    def fn(x):
        def solve(matvec, b):
            return np.linalg.solve(matrix, b)

        given = {"symmetric": True} if symmetric else {"transpose_solve": solve}
        return np.sum(tg.custom_linear_solve(lambda u: matrix @ u, np.sin(x), solve, **given) ** 2)

    ruled = tg.custom_jvp(lambda x: fn(x))
    ruled.defjvp(lambda primals, tangents: autograd.jvp(fn, primals, tangents))
    x = np.array([0.3, -0.5, 1.1])
    solved = np.linalg.inv(matrix) @ np.sin(x)
    gradient = 2 * np.cos(x) * (np.linalg.inv(matrix) @ solved)
    assert np.allclose(autograd.grad(ruled)(x), gradient)
    assert np.allclose(
        autograd.grad(lambda x: autograd.jvp(fn, (x,), (np.ones(3),))[1])(x), autograd.hessian(fn)(x).sum(0)
    )
