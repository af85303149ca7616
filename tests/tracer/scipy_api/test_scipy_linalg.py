"""scipy.linalg on traced matrices: values, gradients, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl
from agreement import numerical_gradient
from tracing import Traced, check_gradient, check_value

import tracegrad
from tracegrad import compile_grad
from tracegrad.autograd import grad

RNG = np.random.default_rng(0)
SQUARE, TALL, SQUARES = RNG.normal(size=(3, 3)), RNG.normal(size=(4, 3)), RNG.normal(size=(2, 3, 3))
POSITIVE = SQUARE @ SQUARE.T + np.eye(3)
VECTOR = RNG.normal(size=3)
BANDS = np.array([[4.0, 5.0, 6.0, 7.0], [1.0, 2.0, 1.0, 9.0], [0.5, 0.5, 8.0, 8.0]])  # from the main diagonal down
UPPER = np.array([[7.0, 7.0, 0.5, 0.5], [7.0, 1.0, 2.0, 1.0], [4.0, 5.0, 6.0, 7.0]])
FOUR = 4.0 * np.eye(3)
FAR = np.array([9.0, 0.0, 0.0])


def generalised(a: Any) -> Any:
    w, v = sl.eigh(a, POSITIVE)
    return (v * np.exp(w)) @ v.T


def mixed(a: Any) -> Any:
    """A complex matrix of a real one."""
    return a + 1j * np.cos(2.0 * a)[..., ::-1]


CASES = {
    "complex expm": (lambda a: np.abs(sl.expm(mixed(a))), SQUARE),
    "complex roots": (lambda a: np.abs(sl.sqrtm(mixed(a) + FOUR)) + np.abs(sl.logm(mixed(a) + FOUR)), SQUARE),
    "complex sylvester": (lambda a: np.abs(sl.solve_sylvester(mixed(a) + FOUR, mixed(a) + FOUR, a)), SQUARE),
    "complex lyapunov": (lambda a: np.abs(sl.solve_continuous_lyapunov(mixed(a) + FOUR, mixed(a))), SQUARE),
    "complex discrete": (lambda a: np.abs(sl.solve_discrete_lyapunov(0.1 * mixed(a), mixed(a))), SQUARE),
    "complex bilinear": (lambda a: np.abs(sl.solve_discrete_lyapunov(0.1 * mixed(a), a, "bilinear")), SQUARE),
    "complex toeplitz": (lambda a: sl.toeplitz(mixed(a)).imag, VECTOR),
    "complex pinv": (lambda a: np.abs(sl.pinv(mixed(a), atol=1e-9)) * sl.svdvals(mixed(a))[0], TALL),
    "qr": (lambda a: sl.qr(a)[1], TALL),
    "qr economic": (lambda a: sl.qr(a, mode="economic"), TALL),
    "qr r": (lambda a: sl.qr(a, mode="r")[0], TALL),
    "svd": (lambda a: sl.svd(a, full_matrices=False), TALL),
    "svdvals": (sl.svdvals, TALL),
    "polar": (sl.polar, TALL),
    "left polar": (lambda a: sl.polar(a, side="left"), SQUARE),
    "eigh": (lambda a: (lambda w, v: (w, v * v))(*sl.eigh(a)), POSITIVE),
    "eigvals": (lambda a: np.abs(sl.eigvals(a)), POSITIVE),
    "eig": (lambda a: (lambda w, v: np.abs((v * np.exp(w)) @ v.conj().T))(*sl.eig(a)), SQUARE),
    "upper eigh": (lambda a: sl.eigh(a, lower=False, subset_by_index=[1, 2])[0], POSITIVE),
    "generalised": (generalised, POSITIVE),
    "generalised b": (lambda a: sl.eigvalsh(a, a @ a.T + np.eye(3)), POSITIVE),
    "pinv": (lambda a: sl.pinv(a, atol=1e-9), TALL),
    "norm": (lambda a: sl.norm(a, 2), TALL),
    "lstsq": (lambda a: sl.lstsq(a, np.ones(4))[0], TALL),
    "expm": (sl.expm, 5.0 * SQUARES),
    "expm_frechet": (lambda a: sl.expm_frechet(a, a.T @ a), SQUARE),
    "sqrtm": (sl.sqrtm, POSITIVE),
    "logm": (sl.logm, POSITIVE),
    "sylvester": (lambda a: sl.solve_sylvester(a @ a.T + np.eye(3), 2.0 * np.eye(2) + a[:2, :2], a[:, :2]), POSITIVE),
    "lyapunov": (lambda a: sl.solve_continuous_lyapunov(a - 5.0 * np.eye(3), -POSITIVE), SQUARE),
    "discrete lyapunov": (lambda a: sl.solve_discrete_lyapunov(0.2 * a, POSITIVE), SQUARE),
    "bilinear": (lambda a: sl.solve_discrete_lyapunov(0.2 * a, POSITIVE, method="bilinear"), SQUARE),
    "toeplitz": (lambda a: (sl.toeplitz(a), sl.toeplitz(a, a[:2] * 2.0)), VECTOR),
    "hankel": (lambda a: (sl.hankel(a), sl.hankel(a, np.arange(4.0))), VECTOR),
    "circulant": (sl.circulant, TALL),
    "solve_toeplitz": (lambda a: sl.solve_toeplitz((a + FAR, a * 2.0), np.ones(3)), VECTOR),
    "pivoted qr": (lambda a: (*sl.qr(a, pivoting=True)[:2], sl.qr(a.T, mode="r", pivoting=True)[0]), TALL),
    "lu of rectangles": (lambda a: (*sl.lu(a), *sl.lu(a.T)), TALL),
    "indices of lu": (lambda a: (lambda p, low, u: low[p] @ u * (p[:, None] + 1.0))(*sl.lu(a, p_indices=True)), TALL),
    "continuous Riccati": (
        lambda a: sl.solve_continuous_are(a, np.sin(a[:, :2]), a @ a.T, a[:2] @ a[:2].T + np.eye(2)),
        SQUARE,
    ),
    "discrete Riccati": (
        lambda a: sl.solve_discrete_are(a, np.sin(a[:, :2]), a @ a.T, a[:2] @ a[:2].T + np.eye(2)),
        SQUARE,
    ),
    "companion": (sl.companion, VECTOR),
    "leslie": (lambda a: sl.leslie(a, a[1:] ** 2), VECTOR),
    "fiedler": (sl.fiedler, VECTOR),
    "convolution_matrix": (
        lambda a: tuple([sl.convolution_matrix(a, n, mode) for n in (2, 5) for mode in ("full", "same", "valid")]),
        VECTOR,
    ),
    "khatri_rao": (lambda a: sl.khatri_rao(a, a[:2]), TALL),
    "matmul_toeplitz": (lambda a: sl.matmul_toeplitz((a, a[::-1]), a), VECTOR),
    "solve_circulant": (lambda a: sl.solve_circulant(a, SQUARE), VECTOR),
    "waves": (lambda a: (sl.cosm(a), sl.sinm(a), sl.tanm(0.2 * a)), SQUARE),
    "complex waves": (lambda a: (sl.cosm(mixed(a)).real, sl.sinm(mixed(a)).imag), SQUARE),
    "hyperbolic": (lambda a: (sl.coshm(a), sl.sinhm(a), sl.tanhm(a)), SQUARES),
    "signm": (sl.signm, SQUARE),
    "fractional power": (
        lambda a: (sl.fractional_matrix_power(a, 0.3), sl.fractional_matrix_power(a, -2)),
        POSITIVE,
    ),
    "cholesky_banded": (
        lambda a: (sl.cholesky_banded(a, lower=True)[:, :2], sl.cholesky_banded(a[:1], lower=True)),
        BANDS,
    ),
    "upper cholesky_banded": (lambda a: sl.cholesky_banded(a)[:, 2:], UPPER),
    "cho_solve_banded": (
        lambda a: sl.cho_solve_banded((sl.cholesky_banded(a), False), np.arange(4.0)),
        UPPER,
    ),
    "solveh_banded": (lambda a: sl.solveh_banded(a, np.eye(4), lower=True), BANDS),
    "upper solveh_banded": (lambda a: sl.solveh_banded(a[1:], np.arange(4.0)), UPPER),
    "eigenvalues of bands": (
        lambda a: (sl.eigvals_banded(a, lower=True), sl.eig_banded(a, True, True, select="i", select_range=(1, 2))),
        BANDS,
    ),
    "tridiagonal": (
        lambda a: (*sl.eigh_tridiagonal(a[0], a[1, 1:]), sl.eigvalsh_tridiagonal(a[0], a[2, 1:])),
        BANDS,
    ),
    "rq": (lambda a: (*sl.rq(a.T), *sl.rq(a, mode="economic"), sl.rq(a, mode="r")), TALL),
    "spaces": (lambda a: (sl.orth(a), (lambda z: z @ z.T)(sl.null_space(a.T))), TALL),
    "subspace_angles": (
        lambda a: (sl.subspace_angles(a, np.ones((4, 1))), sl.subspace_angles(a[:, :2], a[:, 1:] ** 2)),
        TALL,
    ),
    "orthogonal_procrustes": (lambda a: sl.orthogonal_procrustes(a, np.cos(a)), TALL),
    "pinvh": (lambda a: sl.pinvh(a, lower=False), POSITIVE),
    "block_diag": (lambda a: sl.block_diag(a, 2.0 * a[:1], a[0], 3.0), TALL),
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name):
    f, a = CASES[name]
    check_value(f, [a], rtol=1e-9)
    check_gradient(f, [a])


def stiff(a: Any) -> Any:
    p = np.eye(3)
    for _ in range(20):
        p = 0.1 * sl.expm(a @ p) + 0.5 * p
    return np.sum(p * p)


def functions(a: Any) -> Any:
    spd = a @ a.T + np.eye(3)
    return np.sum(sl.sqrtm(spd) * sl.logm(spd)) + np.sum(sl.solve_continuous_lyapunov(spd, a))


@pytest.mark.slow
@pytest.mark.parametrize("f", [stiff, functions])
def test_first_and_second_order_in_kernels(f):
    a = 0.3 * SQUARE
    compiled = compile_grad(f)
    value, gradient = compiled.value_and_grad(a)
    np.testing.assert_allclose(value, f(a), rtol=1e-12)
    np.testing.assert_allclose(gradient, numerical_gradient(f, (a,)), rtol=1e-6, atol=1e-6)
    second = compile_grad(lambda x: np.sum(POSITIVE * grad(f)(x))).grad(a)
    along = (compiled.grad(a + 1e-5 * POSITIVE) - compiled.grad(a - 1e-5 * POSITIVE)) / 2e-5
    np.testing.assert_allclose(second, along, rtol=1e-5, atol=1e-6)
    if f is stiff:
        assert "rolled: the loop" in str(compiled.explain(a, level="all"))


def test_an_exponential_stays_in_the_kernel():
    compiled = compile_grad(lambda a: np.sum(np.sin(sl.expm(a))))
    np.testing.assert_allclose(compiled.grad(SQUARES[0]), Traced(compiled.__wrapped__, [SQUARES[0]], [1.0]).grads[0])
    assert "between kernels" not in str(compiled.explain(SQUARES[0], level="all"))


def test_exponentials_of_special_matrices():
    for a in (np.zeros((2, 2)), np.array([[0.0, 1.0], [0.0, 0.0]]), -100.0 * np.eye(2), np.array([[2.0]])):
        check_value(sl.expm, [a])
        check_gradient(sl.expm, [a])
    assert Traced(sl.expm, [SQUARE.astype(np.float32)]).values[0].dtype == np.float32
    for f in (sl.sqrtm, sl.logm):  # equal eigenvalues
        check_gradient(f, [4.0 * np.eye(3)])


def test_errors():
    nan = np.full((2, 2), np.nan)
    for f, a, error, message in [
        (sl.svdvals, nan, ValueError, "array must not contain infs or NaNs"),
        (sl.eigvalsh, nan, ValueError, "array must not contain infs or NaNs"),
        (sl.expm, TALL, np.linalg.LinAlgError, "must be square"),
        (lambda a: sl.eigh(a, subset_by_index=[2, 7]), POSITIVE, ValueError, "indices are not valid"),
        (lambda a: sl.qr(a, mode="x"), TALL, ValueError, "Mode argument should be one of"),
        (lambda a: sl.solve_continuous_lyapunov(a, TALL), SQUARE, ValueError, "should be square"),
        (lambda a: sl.polar(a, side="x"), SQUARE, ValueError, "`side` must be"),
    ]:
        with pytest.raises(error, match=message):
            f(a)
        with pytest.raises(error, match=message):
            Traced(f, [a])
    for f in (sl.sqrtm, sl.logm):
        with pytest.raises(tracegrad.UnsupportedError, match="complex"):
            Traced(f, [-np.eye(2)])
    for f in (sl.hessenberg, sl.ldl, lambda a: sl.funm(a, np.exp)):
        with pytest.raises(tracegrad.UnsupportedError, match=r"scipy.linalg.* use "):
            Traced(f, [POSITIVE])
    for f, a, message in [
        (lambda a: sl.cholesky_banded(-a, lower=True), BANDS, "1-th leading minor not positive definite"),
        (lambda a: sl.solveh_banded(a - [[0], [6], [0]], a[0], lower=True), BANDS, "2th leading minor"),
        (lambda a: sl.solve_discrete_are(np.eye(3), a * 0.0, a, a), POSITIVE, "Failed to find a finite solution"),
        (lambda a: sl.solve_circulant(a * 0.0 + 1.0, a), VECTOR, "near singular circulant matrix"),
    ]:
        for call in (f, lambda a, f=f: Traced(f, [a])):
            with pytest.raises(np.linalg.LinAlgError, match=message):
                call(a)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        Traced(lambda a: sl.eigvalsh(a, -a), [POSITIVE])


def test_the_locals_of_all_frames_of_an_error_can_be_shown():
    """SciPy's functions for batches are closures: frames of what stands for them have their cells."""
    with pytest.raises(np.linalg.LinAlgError) as caught:
        Traced(lambda a: sl.cholesky_banded(-a), [BANDS])
    names = [sorted(entry.frame.f_locals) for entry in caught.traceback]
    assert ["args", "kwargs"] in [[n for n in found if n in ("args", "kwargs")] for found in names]
