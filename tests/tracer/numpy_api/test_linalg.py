"""np.linalg on traced matrices: values, derivatives of first and second order, and NumPy's errors.

Orders 3 and 11: straight-line code, and LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl
from agreement import numerical_gradient
from selection import NUMPY_NOW
from tracing import Traced, leaves

import tracegrad
from tracegrad import compile_grad
from tracegrad.autograd import grad
from tracegrad.tracer.ops.linalg import _factorise_all, _factorise_each

ORDERS = pytest.mark.parametrize("n", [3, pytest.param(11, marks=pytest.mark.slow)])


def matrix(n: int, *batch: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(*batch, n, n)) + 2.0 * np.eye(n)


def weighted(x: Any, seed: int = 1) -> Any:
    """A sum of all elements of *x*, no two of them with the same weight."""
    return np.sum(np.random.default_rng(seed).normal(size=x.shape).astype(x.dtype) * x)


def positive(a: Any) -> Any:
    return a @ np.swapaxes(a, -1, -2) + np.eye(a.shape[-1], dtype=a.dtype)


V = np.random.default_rng(2).normal(size=12)

PROGRAMS = {
    "solve": lambda a: np.sum(np.sin(np.linalg.solve(a, V[: a.shape[-1]]))),
    "solve_matrix": lambda a: weighted(np.linalg.solve(a, np.cos(a[..., :2]))),
    "inv": lambda a: weighted(np.linalg.inv(a)),
    "det": lambda a: np.sum(np.linalg.det(0.5 * a) ** 2) * 1e-2,
    "slogdet": lambda a: np.sum(np.linalg.slogdet(a)[1] * np.linalg.slogdet(a).sign),
    "cholesky": lambda a: weighted(np.linalg.cholesky(positive(a))),
    "upper": lambda a: weighted(np.linalg.cholesky(positive(a), upper=True)),
    "power": lambda a: weighted(np.linalg.matrix_power(a, -3) + np.linalg.matrix_power(a, 0)),
    "tensorinv": lambda a: weighted(np.linalg.tensorinv(a[:, :, None] * np.ones((1, 1, 1)), ind=1)[..., 0]),
    "tensorsolve": lambda a: weighted(np.linalg.tensorsolve(a, a[0])),
}


@ORDERS
@pytest.mark.parametrize("name", PROGRAMS)
def test_first_and_second_order(name, n):
    f, a = PROGRAMS[name], matrix(n)
    compiled = compile_grad(f)
    value, gradient = compiled.value_and_grad(a)
    np.testing.assert_allclose(value, f(a), rtol=1e-12)
    np.testing.assert_allclose(gradient, numerical_gradient(f, (a,)), rtol=1e-6, atol=1e-6)
    direction = matrix(n, seed=4)
    second = compile_grad(lambda x: np.sum(direction * grad(f)(x))).grad(a)
    along = (compiled.grad(a + 1e-5 * direction) - compiled.grad(a - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(second, along, rtol=2e-6, atol=2e-6)


@pytest.mark.slow
def test_batches_and_float32():
    a = matrix(3, 2, 4)
    for name in ("solve_matrix", "inv", "det", "slogdet", "cholesky", "power"):
        f = PROGRAMS[name]
        compiled = compile_grad(f)
        value, gradient = compiled.value_and_grad(a)
        np.testing.assert_allclose(value, f(a), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (a,)), rtol=1e-6, atol=1e-6)
        single = compiled.value_and_grad(a.astype(np.float32))
        assert single[0].dtype == single[1].dtype == np.float32
        np.testing.assert_allclose(single[1], gradient, rtol=2e-3, atol=2e-3)


def test_many_small_matrices_in_the_interpreter():
    a = np.concatenate([matrix(4, 30), np.ones((2, 4, 4)), np.zeros((1, 4, 4))])
    np.testing.assert_allclose(_factorise_all(a), _factorise_each(a), rtol=1e-12, atol=1e-12)


@NUMPY_NOW
def test_nothing_in_it():
    for f in (
        *[lambda a, order=order: np.linalg.norm(a, order, axis=(-2, -1)) for order in (1, 2, np.inf, "nuc", "fro")],
        lambda a: np.linalg.lstsq(a, np.ones(len(a)))[1],
        np.linalg.matrix_power,
        np.linalg.slogdet,
        np.linalg.eigh,
        sl.eigvalsh,
        sl.qr,
        sl.polar,
        sl.pinv,
        sl.null_space,
        sl.lu,
        sl.toeplitz,
        lambda a: sl.cho_factor(a)[0],
        np.linalg.cond,
    ):
        for shape in ((0, 0), (0, 3, 3), (2, 0, 0), (3, 0), (0, 3)):
            a = np.zeros(shape)
            g = (lambda a, f=f: f(a, 2)) if f is np.linalg.matrix_power else f
            try:
                expected = g(a)
            except (ValueError, IndexError) as error:
                with pytest.raises(type(error) if type(error) is not IndexError else ValueError):
                    Traced(g, [a])
                continue
            found = Traced(g, [a]).values
            for x, y in zip(found, leaves(expected), strict=True):
                assert np.shape(x) == np.shape(y) and np.array_equal(x, y)


@pytest.mark.slow
def test_right_hand_sides_are_broadcast_as_in_numpy():
    one, many = matrix(3), matrix(3, 2, seed=5)
    for a, b in ((one, matrix(3, 2)[..., :2]), (many, one[0]), (many, one), (many[:, None], matrix(3, 4))):
        f = compile_grad(lambda a, b: np.sum(np.cos(np.linalg.solve(a, b))), argnums=(0, 1))
        np.testing.assert_allclose(compile_grad(np.linalg.solve)(a, b), np.linalg.solve(a, b), rtol=1e-12, atol=1e-12)
        for k, found in enumerate(f.grad(a, b)):
            expected = numerical_gradient(lambda a, b: np.sum(np.cos(np.linalg.solve(a, b))), (a, b), argnum=k)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_integers_and_mixed_dtypes_and_empty_matrices():
    whole = np.array([[2, 1], [1, 3]])
    for f in (np.linalg.inv, np.linalg.det, np.linalg.cholesky, lambda a: np.linalg.solve(a, a)):
        for a in (whole, whole.astype(np.float32), np.zeros((0, 0)), np.zeros((0, 2, 2)), np.full((2, 2), np.nan)):
            found, expected = compile_grad(f)(a), f(a)
            assert found.dtype == expected.dtype and found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert compile_grad(np.linalg.solve)(whole.astype(np.float32), np.ones(2)).dtype == np.float64


@pytest.mark.parametrize("n", [3, 4, pytest.param(1, marks=pytest.mark.slow), pytest.param(11, marks=pytest.mark.slow)])
def test_determinants_of_singular_matrices_have_derivatives_of_first_and_second_order(n):
    rng = np.random.default_rng(0)
    u, v, direction = np.linalg.qr(rng.normal(size=(n, n)))[0], np.linalg.qr(rng.normal(size=(n, n)))[0], matrix(n)
    first = compile_grad(np.linalg.det)
    second = compile_grad(lambda x: np.sum(direction * grad(np.linalg.det)(x)))
    for lost in (1, 2, n):
        x = (u * np.where(np.arange(n) < n - lost, np.linspace(2.0, 1.0, n), 0.0)) @ v
        for a in (x, np.round(x)):  # singular up to rounding, and with pivots that are 0
            np.testing.assert_allclose(first.grad(a), numerical_gradient(np.linalg.det, (a,)), rtol=1e-6, atol=1e-7)
            along = (first.grad(a + 1e-5 * direction) - first.grad(a - 1e-5 * direction)) / 2e-5
            np.testing.assert_allclose(second.grad(a), along, rtol=1e-6, atol=2e-6)


def test_ill_conditioned_matrices_are_solved_as_by_numpy():
    for n in (5, 11):
        hilbert = 1.0 / (np.arange(n)[:, None] + np.arange(n) + 1.0)
        x = np.linalg.solve(hilbert, np.ones(n))
        found, gradient = compile_grad(lambda a, b: np.sum(np.linalg.solve(a, b))).value_and_grad(hilbert, np.ones(n))
        assert abs(hilbert @ compile_grad(np.linalg.solve)(hilbert, np.ones(n)) - 1.0).max() < 1e-6
        scale = np.linalg.cond(hilbert) * 1e-15
        np.testing.assert_allclose(found, np.sum(x), rtol=max(scale, 1e-9))
        np.testing.assert_allclose(gradient, -np.outer(x, x), rtol=10 * max(scale, 1e-9))


@pytest.mark.slow
@pytest.mark.parametrize("n", [65, pytest.param(200, marks=pytest.mark.slow)])
def test_the_gradient_of_a_large_cholesky_factor(n):
    """Block by block: along one direction, for both orders."""
    rng = np.random.default_rng(0)
    a, d, weights = (rng.normal(size=(n, n)) / np.sqrt(n) for _ in range(3))

    def f(x):
        return np.sum(weights * np.linalg.cholesky(x @ x.T + np.eye(n)))

    compiled = compile_grad(f)
    gradient = compiled.grad(a)
    np.testing.assert_allclose(np.sum(gradient * d), (f(a + 1e-5 * d) - f(a - 1e-5 * d)) / 2e-5, rtol=1e-6)
    second = compile_grad(lambda x: np.sum(d * grad(f)(x))).grad(a)
    along = (compiled.grad(a + 1e-5 * d) - compiled.grad(a - 1e-5 * d)) / 2e-5
    np.testing.assert_allclose(second, along, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(compiled.grad(a.astype(np.float32)), gradient, rtol=1e-3, atol=1e-3)


# ---- errors -------------------------------------------------------------------------------------------------------

BAD = [
    (lambda a: np.linalg.inv(a), np.ones((2, 2))),
    (lambda a: np.linalg.solve(a, np.ones(len(a))), np.arange(9.0).reshape(3, 3)),
    (lambda a: np.linalg.solve(a, np.ones(12)), np.ones((12, 12))),
    (lambda a: np.linalg.cholesky(a), -np.eye(3)),
    (lambda a: np.linalg.cholesky(a), np.diag([*np.ones(10), -1.0])),
    (lambda a: np.linalg.inv(a), np.ones((2, 3))),
    (lambda a: np.linalg.det(a), np.ones(3)),
    (lambda a: np.linalg.solve(a, np.ones(3)), np.eye(2)),
    (lambda a: np.linalg.solve(a, np.ones((3, 2))), np.eye(2)),
    (lambda a: np.linalg.inv(a), np.eye(2, dtype=np.float16)),
    (lambda a: np.linalg.inv(a), np.stack([np.eye(2), np.ones((2, 2))])),
    (lambda a: np.linalg.multi_dot([a, np.ones((2, 2, 2)), a]), np.eye(2)),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_matrices_raise_what_numpy_raises(case):
    f, a = BAD[case]
    with pytest.raises((np.linalg.LinAlgError, ValueError, TypeError)) as expected:
        f(a)
    compiled = compile_grad(lambda a: np.sum(f(a)))
    for _ in range(2):
        with pytest.raises(expected.type) as found:
            compiled.grad(a)
        first = str(found.value).splitlines()
        assert first[0].replace(" ", "") == str(expected.value).replace(" ", "")
        if isinstance(found.value, tracegrad.TracegradError):
            assert "test_linalg.py" in first[1]


def test_a_matrix_that_becomes_singular_raises_after_replays():
    log = []

    def f(a):
        log.append(float(np.sum(a)))
        return np.sum(np.linalg.inv(a))

    def plain(a):
        return np.sum(np.linalg.inv(a))

    good, bad = matrix(3), np.ones((3, 3))
    compiled = compile_grad(plain)
    for a in (good, good, good, bad, good, bad, 2 * good):
        if a is bad:
            with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
                compiled.grad(a)
        else:
            np.testing.assert_allclose(compiled.grad(a), numerical_gradient(plain, (a,)), rtol=1e-6, atol=1e-7)
    assert compiled.stats.live == ""


def test_an_error_that_the_function_catches_is_a_branch():
    def f(a):
        try:
            return np.sum(np.linalg.cholesky(a))
        except np.linalg.LinAlgError:
            return np.sum(np.linalg.cholesky(a + 5.0 * np.eye(2)))

    compiled = compile_grad(f)
    good, bad = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
    for a in (good, bad, good, bad, good, bad):
        assert compiled.value_and_grad(a)[0] == pytest.approx(f(a))
    assert compiled.stats.traces == 2 and compiled.stats.live == ""


# ---- loops --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, pytest.param(9, marks=pytest.mark.slow)])
def test_a_loop_with_inverses_is_one_kernel(n):
    def f(a, v):
        x, total = np.ones(n), 0.0
        for t in range(len(v)):
            s = a + v[t] * np.eye(n)
            x = np.linalg.inv(s) @ x + np.linalg.solve(s, x) + 0.1
            total = total + np.linalg.slogdet(s)[1] + np.sum(np.linalg.cholesky(positive(s)))
        return np.sum(x) + total

    a, v = matrix(n) + 2.0 * np.eye(n), np.linspace(0.0, 1.0, 40)
    compiled = compile_grad(f, argnums=(0, 1))
    value, gradients = compiled.value_and_grad(a, v)
    np.testing.assert_allclose(value, f(a, v), rtol=1e-10)
    for k, found in enumerate(gradients):
        np.testing.assert_allclose(found, numerical_gradient(f, (a, v), argnum=k), rtol=1e-5, atol=1e-5)
    text = str(compiled.explain(a, v, level="all"))
    assert text.count("= loop[") == 2 and "NumPy" not in text
    singular = np.zeros((n, n))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        compiled.grad(singular, v)
    np.testing.assert_allclose(compiled.value_and_grad(a, v)[0], value)


def test_matrices_in_the_body_of_a_scan():
    def f(a, v):
        def step(x, t):
            return np.linalg.solve(a + t * np.eye(2), x) + 1.0, np.linalg.slogdet(a * (1.0 + t))[1]

        x, logs = tracegrad.scan(step, np.ones(2), v)
        return np.sum(x) + np.sum(logs)

    a, v = matrix(2) + np.eye(2), np.linspace(0.0, 1.0, 9)
    compiled = compile_grad(f)
    for x in (a, a, np.zeros((2, 2)), a):
        if x is a:
            gradient = compiled.value_and_grad(x, v)[1]
            step = matrix(2, seed=3)
            along = (compiled(x + 1e-6 * step, v) - compiled(x - 1e-6 * step, v)) / 2e-6
            np.testing.assert_allclose(np.sum(gradient * step), along, rtol=1e-6)
        else:
            with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
                compiled.grad(x, v)
