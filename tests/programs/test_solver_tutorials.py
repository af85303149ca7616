"""What tutorials of SciPy, JAXopt, diffrax and CasADi do with derivatives, in plain NumPy: every solver of SciPy's that
takes one, constraints, stiff systems, optimal control with sparse matrices, solutions and systems with own rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg
from scipy import optimize
from scipy.integrate import odeint, solve_ivp

import tracegrad as tg
from tracegrad import compile_grad, vmap
from tracegrad.autograd import grad, hessian, jacfwd, jacobian, jacrev, sparse_hessian, sparse_jacobian, vjp

slow = pytest.mark.slow
ROWS, TARGETS = np.random.default_rng(0).normal(size=(5, 3)), np.linspace(-1.0, 1.0, 5)


@compile_grad
def rosenbrock(x: Any, a: float = 100.0) -> Any:
    return np.sum(a * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@compile_grad
def decay(p: Any, t: Any, y: Any) -> Any:
    return p[0] * np.exp(-p[1] * t) + p[2] - y


@compile_grad
def crossing(x: Any, c: float) -> Any:
    return np.stack([x[0] ** 2 + x[1] - c, x[0] - x[1] ** 3])


@compile_grad(argnums=1)
def robertson(t: Any, y: Any, k: float) -> Any:
    fast = 3e7 * y[1] ** 2
    return np.stack([-0.04 * y[0] + k * y[1] * y[2], 0.04 * y[0] - k * y[1] * y[2] - fast, fast])


def minimised(method: str, **second: Any) -> Any:
    start = np.array([0.6, 0.7, 0.8, 0.9])
    for given in ({"fun": rosenbrock.value_and_grad, "jac": True}, {"fun": rosenbrock, "jac": rosenbrock.grad}):
        found = optimize.minimize(x0=start, args=(20.0,), method=method, **given, **second)  # type: ignore[call-overload]
    return found.x - 1


def fitted(**options: Any) -> Any:
    t = np.linspace(0, 3, 20)
    data = decay(np.array([2.0, 1.3, 0.5]), t, 0.0)
    found = optimize.least_squares(decay, [1.0, 1.0, 0.0], jac=decay.jacobian, args=(t, data), **options)
    return found.x - [2.0, 1.3, 0.5]


def integrated(method: str) -> Any:
    ends = [
        solve_ivp(robertson, (0, 10.0), [1.0, 0, 0], jac=jac, method=method, args=(1e4,), rtol=1e-6).y[:, -1]
        for jac in (robertson.jacobian, sparse_jacobian(robertson, 1) if method != "LSODA" else None)
    ]
    return ends[0] - ends[1]


def scalar_root(method: str, **second: Any) -> Any:
    cube = compile_grad(lambda x, c: x**3 - c)
    more = {name: make(cube) for name, make in second.items()}
    return optimize.root_scalar(cube, x0=1.0, fprime=cube.grad, args=(2.0,), method=method, **more).root - np.cbrt(2)


SOLVERS: dict[str, Callable[[], Any]] = {  # what is found, less what it should be
    **{
        f"minimize {method} with {name}": lambda method=method, name=name, f=f: minimised(method, **{name: f})
        for method in ("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr")
        for name, f in (("hess", rosenbrock.hessian), ("hessp", rosenbrock.hvp))
    },
    "minimize trust-exact": lambda: minimised("trust-exact", hess=rosenbrock.hessian),
    "minimize trust-constr, sparse": lambda: minimised("trust-constr", hess=sparse_hessian(rosenbrock)),
    **{f"minimize {m}": lambda m=m: minimised(m, tol=1e-9) for m in ("CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP")},
    **{f"least_squares {m}": lambda m=m: fitted(method=m) for m in ("trf", "dogbox", "lm")},
    "least_squares, robust": lambda: fitted(loss="soft_l1", bounds=([0, 0, -1], [5, 5, 5]), x_scale="jac"),
    **{
        f"root {m}": lambda m=m: crossing(
            optimize.root(crossing, [1.0, 1.0], jac=crossing.jacobian, args=(2.0,), method=m).x, 2.0
        )
        for m in ("hybr", "lm")
    },
    "fsolve": lambda: crossing(optimize.fsolve(crossing, [1.0, 1.0], (2.0,), fprime=crossing.jacobian), 2.0),
    "root_scalar": lambda: scalar_root("newton"),
    "root_scalar with fprime2": lambda: scalar_root("halley", fprime2=lambda f: grad(grad(f))),
    **{f"solve_ivp {m}": lambda m=m: integrated(m) for m in ("Radau", "BDF", "LSODA")},
    "odeint": lambda: np.diff(
        [odeint(lambda y, t: -y, [1.0], [0.0, 1.0], Dfun=d)[-1, 0] for d in (jacobian(lambda y, t: -y), None)]
    ),
    "check_grad": lambda: optimize.check_grad(rosenbrock, rosenbrock.grad, np.array([0.5, 0.7, 0.9])),
}  # fmt: skip


@pytest.mark.parametrize("name", [
    name if name in ("minimize trust-constr with hessp", "least_squares lm", "root hybr", "solve_ivp BDF")
    else pytest.param(name, marks=slow) for name in SOLVERS
])  # fmt: skip
def test_solvers_of_scipy(name: str) -> None:
    np.testing.assert_allclose(SOLVERS[name](), 0, atol=1e-3)


@slow
def test_constraints() -> None:
    inside = compile_grad(lambda x: np.stack([x[0] ** 2 + x[1], x[0] ** 2 - x[1]]))
    weighted = compile_grad(lambda x, v: v @ inside(x))
    found = []
    for jac, hess in ((inside.jacobian, weighted.hessian), (sparse_jacobian(inside), sparse_hessian(weighted))):
        bounds = optimize.NonlinearConstraint(inside, -np.inf, 0.5, jac=jac, hess=hess)  # type: ignore[arg-type]
        found.append(optimize.minimize(
            rosenbrock.value_and_grad, [0.1, 0.1], jac=True, hess=rosenbrock.hessian, method="trust-constr",
            constraints=[bounds],
        ).x)  # fmt: skip
    left = compile_grad(lambda x, top: top - inside(x))
    below = {"type": "ineq", "fun": left, "jac": left.jacobian, "args": (0.5,)}
    found.append(
        optimize.minimize(rosenbrock.value_and_grad, [0.1, 0.1], jac=True, constraints=[below], method="SLSQP").x
    )
    np.testing.assert_allclose(found[:2], [found[2]] * 2, atol=1e-4)


def test_optimal_control_has_sparse_derivatives() -> None:
    """A van der Pol oscillator by direct collocation, as CasADi's examples have it."""
    n = 12

    def defects(z: Any) -> Any:
        x, u = z[: 2 * n + 2].reshape(n + 1, 2), z[2 * n + 2 :]
        rate = np.stack([x[:-1, 1], (1 - x[:-1, 0] ** 2) * x[:-1, 1] - x[:-1, 0] + u], axis=1)
        return (x[1:] - x[:-1] - 0.1 * rate).ravel()

    def lagrangian(z: Any, multipliers: Any) -> Any:
        return multipliers @ defects(z) + np.sum(z**2)

    z, multipliers = np.linspace(-1, 1, 3 * n + 2), np.linspace(1, 2, 2 * n)
    rows, second = sparse_jacobian(defects)(z), sparse_hessian(lagrangian)(z, multipliers)
    np.testing.assert_allclose(rows.toarray(), jacfwd(defects)(z), atol=1e-14)
    np.testing.assert_allclose(second.toarray(), hessian(lagrangian)(z, multipliers), atol=1e-13)
    assert rows.nnz == 7 * n and second.nnz == (3 * n + 2) + 2 * n
    saddle = scipy.sparse.block_array([[second, rows.T], [rows, None]], format="csc")
    step = scipy.sparse.linalg.spsolve(saddle, -np.concatenate([grad(lagrangian)(z, multipliers), defects(z)]))
    np.testing.assert_allclose(rows @ step[: len(z)], -defects(z), atol=1e-10)


@pytest.mark.slow
def test_a_solution_whose_solver_closes_over_its_parameter() -> None:
    """JAXopt's ridge regression; what ``solve`` closes over is not differentiated, as in JAX."""

    def direct(strength: Any) -> Any:
        return np.linalg.solve(ROWS.T @ ROWS + strength * np.eye(3), ROWS.T @ TARGETS)

    def ridge(strength: Any) -> Any:
        optimality = grad(lambda x: 0.5 * np.sum((ROWS @ x - TARGETS) ** 2) + 0.5 * strength * np.sum(x**2))
        return tg.custom_root(
            optimality, np.zeros(3), lambda f, start: direct(strength),
            lambda g, y: np.linalg.solve(jacfwd(g)(y), y),
        )  # fmt: skip

    for transform in (jacfwd, jacrev, hessian):
        np.testing.assert_allclose(transform(ridge)(0.3), transform(direct)(0.3))

    def system(matrix: Any, b: Any) -> Any:
        return tg.custom_linear_solve(
            lambda x: matrix @ x, b, lambda f, y: np.linalg.solve(matrix, y), lambda f, y: np.linalg.solve(matrix.T, y)
        )

    matrix, b = ROWS[:3] + 3 * np.eye(3), TARGETS[:3]
    for found, expected in zip(
        jacrev(system, (0, 1))(matrix, b), jacfwd(np.linalg.solve, (0, 1))(matrix, b), strict=True
    ):
        np.testing.assert_allclose(found, expected)


@slow
def test_the_adjoint_of_an_equation_is_an_equation() -> None:
    """The continuous adjoint of dy/dt = -p y**2, integrated backwards with what it finds on its way."""

    def rate(y: Any, p: Any) -> Any:
        return -p * y**2

    @tg.custom_vjp
    def end(y: Any, p: Any) -> Any:
        return tg.fori_loop(0, 2000, lambda i, y: y + 0.0005 * rate(y, p), y)

    def forward(y: Any, p: Any) -> Any:
        y = end(y, p)
        return y, (y, p)

    def backward(kept: Any, ct: Any) -> Any:
        y, p = kept

        def step(i: Any, state: Any) -> Any:
            y, a, of_p = state
            da, dp = vjp(rate, y, p)[1](a)
            return y - 0.0005 * rate(y, p), a + 0.0005 * da, of_p + 0.0005 * dp

        return tg.fori_loop(0, 2000, step, (y, ct, 0.0 * p))[1:]

    end.defvjp(forward, backward)
    y, p = np.array([1.0, 2.0]), np.array(0.5)
    found = vmap(grad(end, (0, 1)), (0, None))(y, p)
    np.testing.assert_allclose(found, [1 / (1 + p * y) ** 2, -((y / (1 + p * y)) ** 2)], rtol=2e-3)


@pytest.mark.slow
def test_the_likelihood_of_a_gaussian_process() -> None:
    def kernel(p: Any, a: Any, b: Any) -> Any:
        return p[0] * np.exp(-np.sum((a - b) ** 2) * p[1])

    def likelihood(p: Any) -> Any:
        covariance = vmap(lambda a: vmap(lambda b: kernel(p, a, b))(ROWS))(ROWS) + 0.1 * np.eye(5)
        factor = np.linalg.cholesky(covariance)
        weights = np.linalg.solve(factor.T, np.linalg.solve(factor, TARGETS))
        return 0.5 * TARGETS @ weights + np.sum(np.log(np.diag(factor)))

    p, h = np.array([1.0, 0.5]), 1e-5
    expected = [(likelihood(p + e) - likelihood(p - e)) / (2 * h) for e in h * np.eye(2)]
    np.testing.assert_allclose(grad(likelihood)(p), expected, rtol=1e-7)
    slopes = [(grad(likelihood)(p + e) - grad(likelihood)(p - e)) / (2 * h) for e in h * np.eye(2)]
    np.testing.assert_allclose(hessian(likelihood)(p), slopes, rtol=1e-5)
