"""Every function of linear algebra: derivatives of first and second order, in both precisions, of one matrix and of
batches; and matrices that are ill-conditioned, nearly degenerate, or of low rank.

In the interpreter, so that no case costs a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl
from agreement import numerical_gradient
from tracing import Traced, leaves

from tracegrad.autograd import grad

L = np.linalg
RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(2, 3, 3)) + 2.0 * np.eye(3)
TALL = RNG.normal(size=(2, 4, 3))


def spd(a: Any) -> Any:
    return a @ np.swapaxes(a, -1, -2) + np.eye(3, dtype=a.dtype)


def similar(a: Any) -> Any:
    return a @ np.diag([1.0, 2.0, 4.0]).astype(a.dtype) @ L.inv(a)


def bands(a: Any) -> Any:
    return a + 5.0 * np.array([[0.0], [1.0], [0.0]]).astype(a.dtype)


def weighted(x: Any) -> Any:
    """A sum that depends on each element of the results *x* in another way."""
    total = 0.0
    for part in leaves(x):
        k = np.cos(np.arange(part.size).reshape(part.shape) % 7)
        total = total + np.sum(np.real(np.sin(part) * k.astype(part.dtype)))  # from NumPy 2.5 on, eig's are complex
    return total


def total(x: Any) -> Any:
    return sum([np.sum(np.real(part)) for part in leaves(x)])


OF_BATCHES = {
    "solve": lambda a: L.solve(a, np.cos(a)),
    "inv": L.inv,
    "det": lambda a: L.det(a)[..., None],
    "slogdet": lambda a: L.slogdet(a)[1][..., None],
    "cholesky": lambda a: (L.cholesky(spd(a)), L.cholesky(spd(a), upper=True)),
    "eigh": lambda a: tuple(L.eigh(spd(a))),
    "eigvalsh": lambda a: L.eigvalsh(a, "U"),
    "eig": lambda a: (lambda w, v: (w, v * v))(*L.eig(similar(a))),
    "cond": lambda a: np.stack([L.cond(a, p) for p in (None, 1, -2, "fro", np.inf)], -1),
    "matrix_power": lambda a: L.matrix_power(a, 3) + L.matrix_power(a, -2),
    "svd of a symmetric one": lambda a: tuple(L.svd(spd(a), hermitian=True)),
    "products": lambda a: (L.vecdot(a, np.cos(a)), L.cross(a, np.cos(a)), L.matmul(a, a), L.matrix_transpose(a) @ a),
    "parts": lambda a: (L.diagonal(a, offset=1), L.trace(a, offset=-1)[..., None]),
    "scipy solve": lambda a: (sl.solve(spd(a), np.cos(a), assume_a="pos"), sl.solve(a, np.cos(a))),
    "solve_triangular": lambda a: sl.solve_triangular(a, np.cos(a), lower=True),
    "cho_solve": lambda a: sl.cho_solve(sl.cho_factor(spd(a)), np.cos(a)),
    "lu_solve": lambda a: sl.lu_solve(sl.lu_factor(a), np.cos(a)),
    "lu": lambda a: sl.lu(a)[1:],
    "expm": sl.expm,
    "sqrtm": lambda a: sl.sqrtm(spd(a)),
    "scipy inv": sl.inv,
}
OF_TALL_BATCHES = {
    "pinv": lambda a: (L.pinv(a), L.pinv(np.swapaxes(a, -1, -2))),
    "qr": lambda a: tuple(L.qr(a)),
    "r": lambda a: (L.qr(a, "r"), L.qr(a, "complete")[1]),
    "svd": lambda a: tuple(L.svd(a, full_matrices=False)),
    "svdvals": L.svdvals,
    "matrix norms": lambda a: np.stack([L.norm(a, p, axis=(-2, -1)) for p in ("nuc", 2, -2, 1, -1, np.inf, "fro")], -1),
    "vector norms": lambda a: np.stack([L.norm(a, p, axis=-1) for p in (None, 1, 3, np.inf, -np.inf, -1)]),
    "lu of a tall one": sl.lu,
}
OF_ONE = {
    "lstsq": lambda a: (*L.lstsq(a, np.cos(a[:, :2]), rcond=None)[:2], L.lstsq(a.T, a[0])[0]),
    "multi_dot": lambda a: L.multi_dot([a, a.T, a, a[0]]),
    "tensors": lambda a: (L.tensorinv(a[:3].reshape(3, 1, 3, 1)), L.tensorsolve(a[:3].reshape(3, 3, 1), a[0])),
    "solve_banded": lambda a: sl.solve_banded((1, 1), bands(a[:3]), np.cos(a[:3])),
    "solveh_banded": lambda a: sl.solveh_banded(bands(a[:3])[1:], np.cos(a[0]), lower=True),
    "cholesky_banded": lambda a: sl.cholesky_banded(bands(a[:3])[1:], lower=True)[:, :2],
    "structures": lambda a: (sl.block_diag(a, a[:1]), sl.toeplitz(a[0], a[1]), sl.circulant(a[0]), sl.hankel(a[0])),
    "sylvester": lambda a: sl.solve_sylvester(spd(a[:3]), spd(a[1:]), np.cos(a[:3])),
    "lyapunov": lambda a: (
        sl.solve_continuous_lyapunov(-spd(a[:3]), a[1:]), sl.solve_discrete_lyapunov(0.2 * a[:3], a[1:]),
    ),
    "scipy's qr": lambda a: (*sl.qr(a, pivoting=True)[:2], *sl.rq(a, mode="economic")),
    "logm": lambda a: sl.logm(spd(a[:3])),
    "waves": lambda a: (sl.cosm(a[:3]), sl.tanhm(a[1:]), sl.signm(a[:3] + np.eye(3, dtype=a.dtype))),
    "generalised eigh": lambda a: sl.eigvalsh(a[:3] + a[:3].T, spd(a[1:])),
    "tridiagonal": lambda a: (lambda w, v: (w, v * v))(*sl.eigh_tridiagonal(a[0], a[1, 1:])),
    "Riccati": lambda a: (
        sl.solve_continuous_are(a[:3], a[1:, :2], spd(a[:3]), np.eye(2, dtype=a.dtype)),
        sl.solve_discrete_are(a[:3], a[1:, :2], spd(a[:3]), np.eye(2, dtype=a.dtype)),
    ),
}  # fmt: skip
CASES: dict[str, tuple[Any, Any]] = {name: (f, SQUARE) for name, f in OF_BATCHES.items()}
CASES |= {name: (f, TALL) for name, f in OF_TALL_BATCHES.items()}
CASES |= {name: (f, TALL[0]) for name, f in OF_ONE.items()}


def gradient(f: Any, a: np.ndarray) -> np.ndarray:
    return Traced(f, [a], [np.ones(())]).grads[0]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * bool(k % 6)) for k, n in enumerate(CASES)])
def test_every_function_in_both_orders_and_precisions(name):
    function, given = CASES[name]

    def f(a: Any) -> Any:
        return weighted(function(a))

    found = gradient(f, given)
    np.testing.assert_allclose(found, numerical_gradient(f, (given,)), rtol=1e-6, atol=2e-6)
    direction = np.random.default_rng(3).normal(size=given.shape)
    second = gradient(lambda a: np.sum(direction * grad(f)(a)), given)
    step = 1e-5 * direction
    along = (gradient(f, given + step) - gradient(f, given - step)) / 2e-5
    np.testing.assert_allclose(second, along, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(along).max()))
    single = gradient(f, given.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, found, rtol=5e-3, atol=5e-3 * np.abs(found).max())
    if given.ndim == 3:
        parts = [gradient(lambda a: total(function(a)), a) for a in given]
        np.testing.assert_allclose(gradient(lambda a: total(function(a)), given), parts, rtol=1e-8, atol=1e-8)


# ---- hard matrices -----------------------------------------------------------------------------------------------

U, V = (L.qr(RNG.normal(size=(4, 4)))[0] for _ in range(2))
SIZES = np.array([1.0, 0.5, 1e-5, 1e-10])
B, W = np.arange(1.0, 5.0), np.cos(np.arange(1.0, 5.0))


def test_ill_conditioned_matrices():
    """A condition of 1e10 leaves six digits."""
    a, inverse = (U * SIZES) @ V.T, (V / SIZES) @ U.T
    x, back = inverse @ B, inverse.T @ W
    weights = np.cos(np.arange(16.0)).reshape(4, 4)
    of_inverse = -inverse.T @ weights @ inverse.T
    for f, expected in [
        (lambda a: W @ L.solve(a, B), -np.outer(back, x)),
        (lambda a: W @ L.lstsq(a, B, rcond=None)[0], -np.outer(back, x)),
        (lambda a: np.sum(weights * L.inv(a)), of_inverse),
        (lambda a: np.sum(weights * L.pinv(a)), of_inverse),
        (lambda a: L.slogdet(a)[1], inverse.T),
        (lambda a: L.det(a), L.det(a) * inverse.T),
    ]:
        np.testing.assert_allclose(gradient(f, a), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    p, inverse = (U * SIZES) @ U.T, (U / SIZES) @ U.T
    p = (p + p.T) / 2
    for f, expected in [
        (lambda p: 2.0 * np.sum(np.log(np.diag(L.cholesky(p)))), inverse),
        (lambda p: W @ sl.cho_solve(sl.cho_factor(p), B), -np.outer(inverse @ W, inverse @ B)),
        (lambda p: W @ sl.solve(p, B, assume_a="pos"), -np.outer(inverse @ W, inverse @ B)),
    ]:
        found = gradient(f, p)
        expected = expected + expected.T
        np.testing.assert_allclose(found + found.T, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("gap", [1e-9, *[pytest.param(g, marks=pytest.mark.slow) for g in (1e-6, 1e-11, 1e-15, 0.0)]])
def test_functions_of_nearly_degenerate_matrices(gap):
    """The exponential, by any decomposition, is that of scipy.linalg.expm."""
    weights = np.cos(np.arange(16.0)).reshape(4, 4)

    def by_eigh(a: Any) -> Any:
        w, v = L.eigh(a)
        return np.sum(weights * ((v * np.exp(w)) @ v.T))

    def by_eig(a: Any) -> Any:
        w, v = L.eig(a)
        return np.sum(weights * np.real((v * np.exp(w)) @ L.inv(v)))

    def by_svd(a: Any) -> Any:
        u, s, vh = L.svd(a)
        return np.sum(weights * ((u * np.exp(s)) @ vh))

    a = (U * [1.0, 1.0 + gap, 2.0, 3.0]) @ U.T
    a = (a + a.T) / 2
    expected = gradient(lambda a: np.sum(weights * sl.expm(a)), a)
    np.testing.assert_allclose(gradient(by_eig, a), expected, rtol=1e-3, atol=1e-3)
    for f in (by_eigh, by_svd):
        found = gradient(f, a)
        np.testing.assert_allclose(found + found.T, expected + expected.T, rtol=1e-4, atol=1e-4)


def test_functions_of_matrices_of_low_rank():
    """Within the matrices of their rank, in both orders."""
    left, right = RNG.normal(size=(5, 2)), RNG.normal(size=(2, 4))
    weights = np.cos(np.arange(20.0)).reshape(4, 5)
    direction = RNG.normal(size=left.shape)
    for f in (
        lambda b: np.sum(weights * L.pinv(b @ right)),
        lambda b: L.lstsq(b @ right, np.ones(5), rcond=1e-10)[0] @ B,
        lambda b: np.sum(L.svd(b @ right, compute_uv=False)[:2] ** 3),
        lambda b: L.norm(b @ right, 2),
    ):
        found = gradient(f, left)
        np.testing.assert_allclose(found, numerical_gradient(f, (left,)), rtol=1e-5, atol=1e-6)
        second = gradient(lambda b, f=f: np.sum(direction * grad(f)(b)), left)
        step = 1e-5 * direction
        along = (gradient(f, left + step) - gradient(f, left - step)) / 2e-5
        np.testing.assert_allclose(second, along, rtol=1e-5, atol=1e-5)
    f = lambda b: L.norm(b @ right, "nuc")  # noqa: E731
    np.testing.assert_allclose(gradient(f, left), numerical_gradient(f, (left,)), rtol=1e-5, atol=1e-6)
