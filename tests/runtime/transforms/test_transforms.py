"""Functions of functions: results against finite differences and each other, structures, caching, SciPy's call shapes,
errors at the user's line."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from numpy.testing import assert_allclose

import tracegrad
from tracegrad import DifferentiationError, autograd, compile_grad

X = np.linspace(0.2, 1.1, 4)


def vector(x: Any) -> Any:
    return np.sin(x) * x[::-1] + np.sum(x**2)


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def differences(f: Callable[..., Any], x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    columns = [(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size)]
    return np.stack(columns, -1)


def test_jacobians_by_either_mode() -> None:
    expected = differences(vector, X)
    for jacobian in (autograd.jacobian, autograd.jacfwd, autograd.jacrev):
        assert_allclose(jacobian(vector)(X), expected, rtol=1e-7, atol=1e-8)


def test_products_are_rows_and_columns_of_the_jacobian() -> None:
    full, v = autograd.jacobian(vector)(X), np.arange(4.0)
    value, tangent = autograd.jvp(vector, (X,), (v,))
    assert_allclose(value, vector(X))
    assert_allclose(tangent, full @ v)
    value, pullback = autograd.vjp(vector, X)
    assert_allclose(value, vector(X))
    assert_allclose(pullback(v)[0], v @ full)
    value, pushforward = autograd.linearize(vector, X)
    assert_allclose(value, vector(X))
    assert_allclose(pushforward(v), full @ v)
    assert_allclose(autograd.make_jvp(vector)(X)(v)[1], full @ v)
    assert_allclose(autograd.make_vjp(vector)(X)[0](v), v @ full)


def test_hessians_and_their_products() -> None:
    expected, v = scipy.optimize.rosen_hess(X), np.arange(4.0)
    assert_allclose(autograd.hessian(rosenbrock)(X), expected)
    assert_allclose(autograd.jacrev(autograd.jacrev(rosenbrock))(X), expected)
    assert_allclose(autograd.jacfwd(autograd.grad(rosenbrock))(X), expected)
    assert_allclose(autograd.hvp(rosenbrock)(X, v), expected @ v)
    assert_allclose(autograd.vhp(rosenbrock)(X, v), v @ expected)


def test_derivatives_of_numbers() -> None:
    assert_allclose(autograd.derivative(lambda t: t**3)(2.0), 12)
    assert_allclose(autograd.derivative(lambda t: np.stack([np.sin(t), t**2]))(0.5), [np.cos(0.5), 1.0])
    assert_allclose(autograd.elementwise_grad(np.tanh)(X), 1 - np.tanh(X) ** 2)
    assert_allclose(autograd.derivative(autograd.derivative(np.exp))(0.3), np.exp(0.3))


PARAMS = {"w": np.array([[1.0, 2.0], [0.5, -1.0]]), "b": (np.array([0.3, -0.2]), 0.7)}


def model(p: Any, x: Any, power: int = 2) -> Any:
    return {"out": np.tanh(p["w"] @ x + p["b"][0]), "loss": p["b"][1] * np.sum(x**power)}


def test_trees_of_arguments_and_results() -> None:
    x = np.array([0.4, -0.6])
    found = autograd.jacobian(model)(PARAMS, x)
    assert list(found) == ["out", "loss"] and list(found["out"]) == ["w", "b"]
    assert found["out"]["w"].shape == (2, 2, 2) and np.shape(found["loss"]["b"][1]) == ()
    both = autograd.jacobian(model, argnums=(0, 1))(PARAMS, x, power=3)
    assert_allclose(both["loss"][1], PARAMS["b"][1] * 3 * x**2)
    value, tangent = autograd.jvp(lambda p: model(p, x), (PARAMS,), (PARAMS,))
    expected = np.tensordot(found["out"]["w"], PARAMS["w"]) + found["out"]["b"][0] @ PARAMS["b"][0]
    assert_allclose(tangent["out"], expected)
    second = autograd.hessian(lambda p: np.sum(model(p, x)["out"]))(PARAMS)
    assert second["w"]["b"][0].shape == (2, 2, 2)
    assert_allclose(second["w"]["b"][0], np.moveaxis(second["b"][0]["w"], 0, -1))
    assert isinstance(value, dict)


def test_aux_and_integers_in_results() -> None:
    def with_aux(x: Any) -> Any:
        return vector(x), {"kept": x * 2, "name": "a"}

    found, aux = autograd.jacobian(with_aux, has_aux=True)(X)
    assert_allclose(found, autograd.jacobian(vector)(X))
    assert_allclose(aux["kept"], X * 2)
    assert aux["name"] == "a"
    value, tangent, aux = autograd.jvp(with_aux, (X,), (X,), has_aux=True)
    assert_allclose(tangent, found @ X)
    value, pullback, aux = autograd.vjp(with_aux, X, has_aux=True)
    assert_allclose(pullback(value)[0], value @ found)
    value, tangent = autograd.jvp(lambda x: (x**2, np.argmax(x), 7), (X,), (X,))
    assert value[1] == 3 and value[2] == 7
    assert tangent[1] == 0.0 and tangent[2] == 0.0


def test_complex_numbers() -> None:
    z = np.array([1 + 2j, 0.5 - 1j])
    _, tangent = autograd.jvp(lambda z: z**2 * 1j, (z,), (np.ones(2) + 0j,))
    assert_allclose(tangent, 2j * z)
    assert_allclose(autograd.vjp(lambda z: z**2 * 1j, z)[1](np.ones(2) + 3j)[0], (1 + 3j) * 2j * z)
    for jacobian in (autograd.jacfwd, autograd.jacrev):
        assert_allclose(jacobian(lambda z: z**2, holomorphic=True)(z), np.diag(2 * z))
    with pytest.raises(DifferentiationError, match="holomorphic=True"):
        autograd.jacobian(lambda z: z**2)(z)


def test_transforms_of_transforms_in_compiled_functions() -> None:
    @compile_grad
    def penalty(x: Any, v: Any) -> Any:
        value, pullback = autograd.vjp(vector, x)
        (ct,) = pullback(v)
        _, tangent = autograd.jvp(vector, (x,), (ct,))
        return np.sum(tangent) + np.sum(autograd.hessian(rosenbrock)(x) ** 2) + np.sum(value)

    v = np.array([1.0, -1.0, 2.0, 0.5])
    full = autograd.jacobian(vector)
    expected = np.sum(full(X) @ (v @ full(X))) + np.sum(scipy.optimize.rosen_hess(X) ** 2) + np.sum(vector(X))
    assert_allclose(penalty(X, v), expected)
    assert_allclose(penalty.grad(X, v), differences(lambda x: penalty(x, v), X, 1e-5), rtol=1e-6)
    assert_allclose(autograd.grad(compile_grad(lambda x: penalty(x, v)))(X), penalty.grad(X, v))


def test_linear_maps_are_arguments_and_results() -> None:
    @compile_grad
    def first(x: Any) -> Any:
        return autograd.vjp(vector, x)

    @compile_grad
    def second(pullback: Any, v: Any) -> Any:
        return np.sum(pullback(v)[0] ** 2)

    _, pullback = first(X)
    row = X @ autograd.jacobian(vector)(X)
    assert_allclose(second(pullback, X), np.sum(row**2))
    assert_allclose(pullback(X)[0], row)


def test_a_loop_stays_a_loop() -> None:
    def steps(x: Any) -> Any:
        y = x
        for _ in range(60):
            y = y + 0.01 * np.sin(y) * x
        return y

    assert_allclose(autograd.jacobian(steps)(X), differences(steps, X), rtol=1e-6, atol=1e-8)


def test_the_same_transform_is_one_object_and_is_cached() -> None:
    assert autograd.hessian(rosenbrock) is autograd.hessian(rosenbrock)
    jacobian = autograd.jacobian(vector)
    jacobian(X), jacobian(X)
    before = jacobian.stats.traces
    jacobian(X + 1)
    assert jacobian.stats.traces == before
    again = pickle.loads(pickle.dumps(autograd.jacfwd(rosenbrock)))
    assert_allclose(again(X), autograd.grad(rosenbrock)(X))


def test_explain_says_which_mode() -> None:
    assert "jacobian of 4 results in 4 inputs: forward mode, 4 tangents" in autograd.jacobian(vector).explain(
        X, level="all"
    )
    tall = autograd.jacobian(lambda x: np.stack([np.sum(x), np.prod(x)]))
    assert "reverse mode, 2 cotangents" in tall.explain(np.ones(9), level="all")


SCALE = 2.0


def scaled(x: Any) -> Any:
    return SCALE * x**2


def test_outside_state_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    jacobian = autograd.jacobian(scaled)
    for _ in range(3):
        assert_allclose(jacobian(X), np.diag(4 * X))
    monkeypatch.setattr(f"{__name__}.SCALE", 5.0)
    assert_allclose(jacobian(X), np.diag(10 * X))


class Quadratic:
    def __init__(self) -> None:
        self.a = np.array([1.0, 2.0, 3.0, 4.0])

    @compile_grad
    def loss(self, x: Any) -> Any:
        return np.sum(self.a * x**4)

    def plain(self, x: Any) -> Any:
        return self.a * x**2


def test_methods() -> None:
    q = Quadratic()
    assert_allclose(q.loss.hessian(X), np.diag(12 * q.a * X**2))
    assert_allclose(q.loss.hvp(X, X), 12 * q.a * X**3)
    assert_allclose(q.loss.jacobian(X), 4 * q.a * X**3)
    assert_allclose(autograd.jacobian(q.plain)(X), np.diag(2 * q.a * X))
    assert_allclose(autograd.hessian(q.loss)(X), np.diag(12 * q.a * X**2))
    q.a = q.a * 2
    assert_allclose(autograd.jacobian(q.plain)(X), np.diag(2 * q.a * X))


# ---- SciPy's call shapes -----------------------------------------------------------------------------------------


@compile_grad
def banana(x: Any, a: Any) -> Any:
    return np.sum(a * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize("method", ["trust-exact", "trust-ncg", "Newton-CG", "trust-constr"])
def test_minimize(method: str) -> None:
    start = np.array([-0.5, 0.6, 0.4])
    options: dict[str, Any] = {"maxiter": 2000} if method == "trust-constr" else {}
    by_matrix = scipy.optimize.minimize(
        banana.value_and_grad, start, args=(10.0,), jac=True, hess=banana.hessian, method=method, options=options
    )
    assert_allclose(by_matrix.x, 1.0, atol=1e-4)
    if method != "trust-exact":
        by_product = scipy.optimize.minimize(
            banana.value_and_grad, start, args=(10.0,), jac=True, hessp=banana.hvp, method=method, options=options
        )
        assert_allclose(by_product.x, 1.0, atol=1e-4)


def test_least_squares_root_and_solve_ivp() -> None:
    t = np.linspace(0, 2, 9)

    @compile_grad
    def residuals(p: Any, t: Any, y: Any) -> Any:
        return p[0] * np.exp(-p[1] * t) - y

    y = 2.5 * np.exp(-1.3 * t)
    found = scipy.optimize.least_squares(residuals, [1.0, 1.0], jac=residuals.jacobian, args=(t, y))
    assert_allclose(found.x, [2.5, 1.3])

    @compile_grad
    def equations(x: Any) -> Any:
        return np.array([x[0] + 0.5 * (x[0] - x[1]) ** 3 - 1.0, 0.5 * (x[1] - x[0]) ** 3 + x[1]])

    root = scipy.optimize.root(equations, [0.0, 0.0], jac=equations.jacobian)
    assert_allclose(root.x, [0.8411639, 0.1588361], rtol=1e-6)

    @compile_grad(argnums=1)
    def robertson(t: Any, y: Any) -> Any:
        a, b = 0.04 * y[0], 1e4 * y[1] * y[2]
        c = 3e7 * y[1] ** 2
        return np.array([-a + b, a - b - c, c])

    stiff = scipy.integrate.solve_ivp(robertson, (0, 40), [1.0, 0, 0], method="BDF", jac=robertson.jacobian, rtol=1e-8)
    assert_allclose(stiff.y[:, -1].sum(), 1.0)
    assert_allclose(stiff.y[0, -1], 0.7158, atol=1e-3)


# ---- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: autograd.jvp(vector, X, X), "takes the primals as a tuple"),
        (lambda: autograd.jvp(vector, (X,), (X[:3],)), r"the tangent of `x`.*shape \(3,\)"),
        (lambda: autograd.jvp(vector, (X,), (X, X)), "of the structure of the primals"),
        (lambda: autograd.jvp(vector, (X,), (X.astype("f4"),)), r"v.astype\(np.float64\)"),
        (lambda: autograd.jvp(vector, (np.arange(4),), (np.arange(4),)), "an array of int64.*x.astype"),
        (lambda: autograd.vjp(vector, X)[1](X[:2]), "the cotangent of the value"),
        (lambda: autograd.vjp(lambda x: None, X), "returned None"),
        (lambda: autograd.jacobian(lambda x: (x, "text"))(X), "returned str 'text'"),
        (lambda: autograd.jacobian(lambda x: np.argmax(x))(X), "returned a number of int64"),
        (lambda: autograd.grad(vector)(X), "needs a scalar loss"),
        (lambda: autograd.hvp(vector)(X, X), "needs a scalar loss"),
        (lambda: autograd.jacobian(vector)(tracegrad.Tensor(X)), "autograd.functional"),
    ],
)
def test_errors_name_the_users_line(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(DifferentiationError, match=words) as caught:
        call()
    assert "test_transforms.py" in str(caught.value)


def test_a_hessian_of_a_function_of_outside_arrays_is_replayed() -> None:
    """Transforms are kept on the function, also while it runs: that is no effect of its."""
    X = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
    curvature = autograd.hessian(lambda w: np.sum(np.exp(X @ w)))
    for k in range(5):
        w = np.full(3, 0.1 * k)
        np.testing.assert_allclose(curvature(w), X.T @ (np.exp(X @ w)[:, None] * X), rtol=1e-13)
    assert curvature.stats.traces == 1
    assert "Python has to run" not in curvature.explain(w, level="all")


# ---- compressed products -----------------------------------------------------------------------------------------

CORNERS = np.array([0, 2, 1, 2, 0, 1, 2, 1, 0, 2])


def surface(unknowns: Any, places: Any) -> Any:
    """Ten places of their own on a surface that four numbers move."""
    own, pose = unknowns[:10], unknowns[10:]
    return np.sin(own) * (np.cumsum(pose)[places] + 1.0) - pose[3]


def test_a_jacobian_of_mostly_zeros_is_of_compressed_products() -> None:
    x = np.linspace(0.1, 1.4, 14)
    captured = autograd.jacobian(lambda x: surface(x, CORNERS))
    expected = differences(lambda x: surface(x, CORNERS), x)
    for _ in range(3):
        assert_allclose(captured(x), expected, rtol=1e-6, atol=1e-8)
    assert "5 colors" in captured.explain(x, level="all")
    given = autograd.jacobian(surface)  # an argument decides where the zeros are: each call may be of another pattern
    assert_allclose(given(x, CORNERS), expected, rtol=1e-6, atol=1e-8)
    assert "colors" not in given.explain(x, CORNERS, level="all")
    moved = np.arange(14)
    mirrored = autograd.jacobian(lambda x: x[moved] ** 2)
    for _ in range(3):
        assert_allclose(mirrored(x), np.diag(2 * x))
    moved[:] = moved[::-1].copy()  # the captured positions decide where the zeros are: a guard holds calls to them
    for _ in range(3):
        assert_allclose(mirrored(x), np.diag(2 * x)[::-1])
    hessian = autograd.hessian(rosenbrock)
    assert_allclose(hessian(x), scipy.optimize.rosen_hess(x))
    assert "3 colors" in hessian.explain(x, level="all")
    tree = autograd.hessian(lambda p: rosenbrock(p["a"]) + np.sum(p["b"] ** 4))({"a": x, "b": x[:3]})
    assert_allclose(tree["a"]["a"], scipy.optimize.rosen_hess(x))
    assert_allclose(tree["b"]["b"], np.diag(12 * x[:3] ** 2))
    assert not tree["a"]["b"].any() and tree["b"]["a"].shape == (3, 14)
