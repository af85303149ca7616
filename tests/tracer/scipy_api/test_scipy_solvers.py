"""scipy.linalg's solvers and factors on traced matrices: values, both orders of derivatives, SciPy's errors.

Orders 3 and 10: straight-line code, and LAPACK."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as sl
from agreement import numerical_gradient

from tracegrad import compile_grad
from tracegrad.autograd import grad

RNG = np.random.default_rng(0)
V, W, X = RNG.normal(size=10), RNG.normal(size=(10, 10)), RNG.normal(size=(10, 3))


def w(x):
    """A weighted sum of all of *x*, of at most two axes."""
    return np.sum((W[: x.shape[0], : x.shape[1]] if x.ndim == 2 else V[: x.shape[0]]) * x)


def pos(a):
    return a @ a.T + np.eye(len(a))


def bands(a, *strong):
    """The first three rows as diagonals, of which the *strong* one dominates."""
    return a[:3] + 4.0 * np.eye(3)[:, list(strong)]


PROGRAMS = {
    "solve": lambda a, b, c: w(np.sin(sl.solve(a, b))) + w(sl.solve(a, c, transposed=True)),
    "structures": lambda a, b, c: (
        w(sl.solve(pos(a), c, assume_a="pos")) + w(sl.solve(pos(a), b, assume_a="pos", lower=True))
        + w(sl.solve(pos(a), c, assume_a="sym")) + w(sl.solve(a, c, assume_a="upper triangular"))
        + w(sl.solve(a * np.eye(len(a)), c, assume_a="diagonal"))
    ),
    "inv_det": lambda a, b, c: w(sl.inv(a)) + sl.det(a / 3.0),
    "triangular": lambda a, b, c: (
        w(sl.solve_triangular(a, c)) + w(sl.solve_triangular(a, b, lower=True, trans="T"))
        + w(sl.solve_triangular(a / 9.0, b, lower=True, unit_diagonal=True, trans=1))
    ),
    "cholesky": lambda a, b, c: (
        w(sl.cho_solve(sl.cho_factor(pos(a)), c)) + w(sl.cho_solve(sl.cho_factor(pos(a), lower=True), b))
        + w(sl.cholesky(pos(a))) + w(sl.cholesky(pos(a), lower=True))
    ),
    "lu": lambda a, b, c: (
        sum(w(x) for x in sl.lu(a)) + w(sl.lu(a, permute_l=True)[0]) + w(sl.lu(a, p_indices=True)[0])
    ),
    "lu_solve": lambda a, b, c: (
        w(sl.lu_solve(sl.lu_factor(a), c)) + w(sl.lu_solve(sl.lu_factor(a), b, trans=1))
        + w(sl.lu_factor(a)[0]) + w(sl.lu_factor(a)[1])
    ),
    "banded": lambda a, b, c: w(sl.solve_banded((1, 1), bands(a, 1), c)) + w(sl.solve_banded((2, 0), bands(a, 0), b)),
}  # fmt: skip


@pytest.mark.parametrize("n", [3, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_first_and_second_order(name, n):
    f, args = PROGRAMS[name], (RNG.normal(size=(n, n)) + n * np.eye(n), V[:n], X[:n])
    compiled = compile_grad(f, argnums=(0, 1, 2))
    value, gradients = compiled.value_and_grad(*args)
    np.testing.assert_allclose(value, f(*args), rtol=1e-11)
    for k, found in enumerate(gradients):
        noise = 1e-6 + 1e-8 * np.max(np.abs(found))  # of differences, which cancel
        np.testing.assert_allclose(found, numerical_gradient(f, args, argnum=k), rtol=1e-6, atol=noise)
    a, d = args[0], RNG.normal(size=(n, n))
    second = compile_grad(lambda x: np.sum(d * grad(f)(x, *args[1:]))).grad(a)
    up, down = (compiled.grad(a + h * d, *args[1:])[0] for h in (1e-5, -1e-5))
    np.testing.assert_allclose(second, (up - down) / 2e-5, rtol=2e-5, atol=2e-6)
    single = compiled.value_and_grad(*[x.astype(np.float32) for x in args])[1]
    np.testing.assert_allclose(single[0], gradients[0], rtol=2e-2, atol=2e-3)


def test_factors_are_kept_through_a_loop():
    def f(a, x):
        lu = sl.lu_factor(a)
        c = sl.cho_factor(pos(a))
        for _ in range(50):
            x = 0.9 * sl.lu_solve(lu, x) + sl.cho_solve(c, x)
        return np.sum(x * x)

    a = RNG.normal(size=(3, 3)) + 3.0 * np.eye(3)
    compiled = compile_grad(f)
    np.testing.assert_allclose(
        compiled.value_and_grad(a, V[:3])[1], numerical_gradient(f, (a, V[:3])), rtol=1e-5, atol=1e-9
    )
    text = str(compiled.explain(a, V[:3], level="all"))
    assert text.count("= loop[") == 2 and text.partition("--- loops")[0].count("= lu a") == 1


BAD = [
    (lambda a: sl.solve(a, V[:3]), np.ones((3, 3))),
    (lambda a: sl.solve(a, V[:3], assume_a="pos"), -np.eye(3)),
    (lambda a: sl.inv(a), np.ones((2, 2))),
    (lambda a: sl.inv(a), np.full((2, 2), np.nan)),
    (lambda a: sl.inv(a), np.ones((2, 3))),
    (lambda a: sl.solve_triangular(a, V[:3]), np.diag([1.0, 0.0, 1.0])),
    (lambda a: sl.cholesky(a), np.diag([1.0, -1.0, 1.0])),
    (lambda a: sl.cho_factor(a, lower=True)[0], np.diag([1.0, 1.0, -1.0])),
    (lambda a: sl.solve_banded((1, 1), a, V[:3]), np.zeros((3, 3))),
    (lambda a: sl.cho_solve((a, True), V[:2]), np.eye(3)),
    (lambda a: sl.lu_solve((a, np.arange(3)), V[:2]), np.eye(3)),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_matrices_raise_what_scipy_raises(case):
    f, a = BAD[case]
    with pytest.raises(ValueError) as expected:
        f(a)
    with pytest.raises(expected.type) as found:
        compile_grad(lambda a: np.sum(f(a))).grad(a)
    message, line = str(found.value).splitlines()[:2]
    assert "test_scipy_solvers.py" in line
    if not str(expected.value).startswith("Internal "):  # SciPy 1.18 gives LAPACK's number instead of words
        assert message == str(expected.value)
