"""np.linalg: QR, eigenvalues, singular values and what is made of them; where eigenvalues are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from agreement import numerical_gradient
from selection import NUMPY_NOW
from tracing import Traced, check_gradient, check_value

import tracegrad
from tracegrad import compile_grad
from tracegrad.autograd import grad
from tracegrad.codegen.lower.simplify import simplify

RNG = np.random.default_rng(0)
SQUARE, TALL = RNG.normal(size=(3, 3)), RNG.normal(size=(4, 3))
SQUARES, TALLS = RNG.normal(size=(2, 3, 3)), RNG.normal(size=(2, 4, 3))
WIDES = TALLS.swapaxes(-1, -2)
SYMMETRIC = SQUARE + SQUARE.T
ORTHOGONAL = np.linalg.qr(SQUARE)[0]
COLUMNS = np.linalg.qr(TALL)[0]


TURNING = np.array([[0.2, 1.0, 0.1], [-1.1, 0.1, 0.3], [0.0, 0.2, 0.5]])  # with complex eigenvalues


def similar(a: Any) -> Any:
    """A matrix with the eigenvalues 1, 2 and 4."""
    return a @ np.diag([1.0, 2.0, 4.0]) @ np.linalg.inv(a)


def mixed(a: Any) -> Any:
    """A complex matrix of a real one."""
    return a + 1j * np.cos(2.0 * a)[..., ::-1]


CASES = {
    "Hermitian eigvalsh": (lambda a: np.linalg.eigvalsh(mixed(a)), SQUARE),
    "upper Hermitian eigvalsh": (lambda a: np.linalg.eigvalsh(mixed(a), "U"), SQUARES),
    "complex svdvals": (lambda a: np.linalg.svd(mixed(a), compute_uv=False), TALLS),
    "complex norm": (lambda a: np.linalg.norm(mixed(a), "nuc") + np.linalg.norm(mixed(a), 2), TALL),
    "complex cond": (lambda a: (np.linalg.cond(mixed(a)), np.linalg.cond(mixed(a), 1)), SQUARES),
    "complex pinv": (lambda a: np.abs(np.linalg.pinv(mixed(a))), TALLS),
    "complex lstsq": (lambda a: np.abs(np.linalg.lstsq(mixed(a), mixed(a)[:, 0] ** 2)[0]), TALL),
    "qr": (np.linalg.qr, TALLS),
    "qr of a wide one": (np.linalg.qr, WIDES[0]),
    "r": (lambda a: np.linalg.qr(a, mode="r"), WIDES),
    "complete": (lambda a: np.linalg.qr(a, "complete")[1], TALLS),
    "eigh": (np.linalg.eigh, SYMMETRIC),
    "upper": (lambda a: np.linalg.eigh(a, "U"), SQUARES),
    "eigvalsh": (np.linalg.eigvalsh, SQUARES),
    "eig": (lambda a: [x.real for x in np.linalg.eig(similar(a))], SQUARE),
    "eigvals": (lambda a: np.linalg.eigvals(a @ a.swapaxes(-1, -2)).real, SQUARES),
    "spectral radius": (lambda a: np.max(np.abs(np.linalg.eigvals(a))), TURNING),
    "stability": (lambda a: np.max(np.linalg.eigvals(a).real, axis=-1), np.stack([TURNING, SQUARE])),
    "complex eig": (
        lambda a: (lambda w, v: (np.abs(v), w.imag, np.abs((v * np.exp(w)) @ v.conj().T)))(*np.linalg.eig(a)),
        TURNING,
    ),
    "svd": (lambda a: np.linalg.svd(a, full_matrices=False), TALLS),
    "svd of a wide one": (lambda a: np.linalg.svd(a, full_matrices=False), WIDES[0]),
    "full": (lambda a: np.linalg.svd(a)[1:], TALLS),
    "hermitian": (lambda a: np.linalg.svd(a + a.T, hermitian=True), SQUARE),
    "svdvals": (np.linalg.svdvals, WIDES),
    "pinv": (np.linalg.pinv, TALLS),
    "pinv of a wide one": (lambda a: np.linalg.pinv(a, rcond=1e-10), WIDES),
    "symmetric pinv": (lambda a: np.linalg.pinv(a + a.T, hermitian=True), SQUARE),
    "rank 2": (lambda a: np.linalg.pinv(a[..., :2] @ a.swapaxes(-1, -2)[..., :2, :]), TALLS),
    "lstsq": (lambda a: np.linalg.lstsq(a, np.cos(a[:, :2]), rcond=None), TALL),
    "lstsq of a wide one": (lambda a: np.linalg.lstsq(a, np.arange(3.0))[0], TALL.T),
    "cond": (np.linalg.cond, SQUARES),
    "cond -2": (lambda a: np.linalg.cond(a, -2), TALLS),
    "cond 1": (lambda a: np.linalg.cond(a, 1), SQUARE),
    "cond fro": (lambda a: np.linalg.cond(a, "fro"), SQUARES),
    "norm 2": (lambda a: np.linalg.norm(a, 2), TALL),
    "norm -2": (lambda a: np.linalg.norm(a, -2, axis=(0, 2)), TALLS),
    "nuclear": (lambda a: np.linalg.norm(a, "nuc", axis=(2, 1), keepdims=True), TALLS),
    "matrix_norm": (lambda a: np.linalg.matrix_norm(a, ord=2), TALLS),
    "norm 3": (lambda a: np.linalg.norm(a, 3, axis=1), TALL),
    "vector_norm": (lambda a: np.linalg.vector_norm(a, ord=1, axis=0), TALL),
    "null space": (lambda a: (lambda u: u[:, 3:] @ u[:, 3:].T)(np.linalg.svd(a)[0]), TALL),
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name):
    f, a = CASES[name]
    check_value(f, [a])
    check_gradient(f, [a])


def test_real_eigenvalues_have_the_dtype_that_they_have_in_numpy():
    """It is complex from NumPy 2.5 on."""
    f = compile_grad(lambda a: np.linalg.eigvals(a @ a.T))
    for dtype in (np.float64, np.float32):
        a = SQUARE.astype(dtype)
        assert f(a).dtype == f.__wrapped__(a).dtype
        np.testing.assert_allclose(f(a), f.__wrapped__(a), rtol=1e-4)


@NUMPY_NOW
def test_float32_and_integers():
    for f, a in CASES.values():
        given = [f(a.astype(np.float32)), Traced(f, [a.astype(np.float32)]).result]
        kinds = [[x.dtype for x in (r if isinstance(r, tuple) else (r,)) if hasattr(x, "dtype")] for r in given]
        assert kinds[0] == kinds[1]
    check_value(np.linalg.eigvalsh, [np.arange(9).reshape(3, 3)])
    check_value(lambda a: np.linalg.matrix_rank(a) * np.sum(a), [TALLS @ WIDES])


# ---- equal eigenvalues -------------------------------------------------------------------------------------------


def weighted(x: Any) -> Any:
    """A sum that depends on each element of *x* in another way."""
    return np.sum(np.sin(x + np.arange(x.size).reshape(x.shape)))


def of_eigenvalues(f: Any) -> Any:
    def run(a: Any) -> Any:
        w, v = np.linalg.eigh(a)
        return weighted((v * f(w)) @ v.T)

    return run


def of_singular_values(f: Any) -> Any:
    def run(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return weighted((u * f(s)) @ vh)

    return run


def two_projected(a: Any) -> Any:
    v = np.linalg.eigh(a)[1][:, :2]
    return weighted(v @ v.T)


TWICE = ORTHOGONAL @ np.diag([2.0, 2.0, 5.0]) @ ORTHOGONAL.T
INVARIANT = {
    "eigenvalues": (lambda a: np.sum(np.exp(np.linalg.eigvalsh(a))), [TWICE, np.eye(3)]),
    "exponential": (of_eigenvalues(np.exp), [TWICE, np.eye(3), np.zeros((3, 3))]),
    "root": (of_eigenvalues(np.sqrt), [TWICE, 4.0 * np.eye(3)]),
    "projector": (two_projected, [TWICE]),
    "exponential by eig": (
        lambda a: (lambda w, v: weighted(np.real((v * np.exp(w)) @ np.linalg.inv(v))))(*np.linalg.eig(a)),
        [similar(SQUARE) @ np.diag([1, 1, 1])],
    ),
    "itself": (of_singular_values(lambda s: s), [TWICE, np.eye(3), np.zeros((3, 3)), COLUMNS, COLUMNS * [1, 1, 0]]),
    "their trace": (lambda a: np.sum(np.linalg.eigh(a)[1] ** 2 * np.linalg.eigh(a)[0]), [TWICE, np.eye(3)]),
    "polar factor": (of_singular_values(np.ones_like), [TWICE, np.eye(3), COLUMNS, COLUMNS.T]),
    "sum of squares": (lambda a: np.sum(np.linalg.svd(a)[1] ** 2), [TWICE, COLUMNS, np.zeros((3, 3))]),
}
DEPENDENT = {
    "vectors": lambda a: np.sum(np.linalg.eigh(a)[1]),
    "absolute": lambda a: np.sum(np.abs(np.linalg.eigh(a)[1])),
    "one vector": lambda a: np.linalg.eigh(a)[1][0, 0] ** 2,
    "left vectors": lambda a: np.sum(np.linalg.svd(a)[0]),
    "vectors and values": lambda a: np.sum(np.linalg.eigh(a)[1] * np.linalg.eigh(a)[0]),
    "vectors of eig": lambda a: np.sum(np.real(np.linalg.eig(a)[1])),
}


def derivative(f: Any, a: np.ndarray) -> np.ndarray:
    return Traced(f, [a], [np.ones(())]).grads[0]


@pytest.mark.parametrize("name", INVARIANT)
def test_what_does_not_depend_on_the_choice_of_vectors(name):
    f, points = INVARIANT[name]
    for a in points:
        np.testing.assert_allclose(derivative(f, a), numerical_gradient(f, (a,)), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("name", DEPENDENT)
def test_what_depends_on_the_choice_of_vectors_has_no_finite_derivative(name):
    for a in (np.eye(3), np.diag([1.0, 1.0, 2.0]), np.zeros((3, 3))):
        assert not np.isfinite(derivative(DEPENDENT[name], a)).all()


def test_the_rest_of_a_basis_has_no_derivative():
    for f in (lambda a: np.sum(np.linalg.qr(a, "complete")[0]), lambda a: np.sum(np.linalg.svd(a)[0])):
        assert np.isnan(derivative(f, RNG.normal(size=(5, 3)))).any()


@pytest.mark.slow
def test_kernels_do_as_the_interpreter():
    """Second order: of eigenvalues it exists, of vectors it is NaN."""
    f, a = INVARIANT["exponential"][0], TWICE
    np.testing.assert_allclose(compile_grad(f).grad(a), derivative(f, a), rtol=1e-12)

    def trace(a: Any) -> Any:
        return np.sum(np.linalg.eigvalsh(a) ** 3)

    direction = SYMMETRIC
    moved = compile_grad(lambda x: np.sum(direction * grad(trace)(x))).grad(a)
    moved = np.tril(moved) / 2 + np.triu(moved.T) / 2  # of the symmetric matrix, from its lower triangle
    lower = np.tril(direction) / 2 + np.triu(direction.T) / 2
    lower += np.tril(direction, -1) / 2 + np.triu(direction.T, 1) / 2
    np.testing.assert_allclose(moved, 3 * (lower @ a + a @ lower), rtol=1e-9)
    assert np.isnan(compile_grad(lambda x: np.sum(direction * grad(f)(x))).grad(a)).any()


@pytest.mark.slow
def test_values_alone_make_no_vectors():
    for f, a in (
        (lambda a: np.sum(np.linalg.eigvalsh(a)), SYMMETRIC),
        (lambda a: np.linalg.norm(a, "nuc") * np.linalg.cond(a), SQUARE),
        (lambda a: np.sum(scipy.linalg.eigh_tridiagonal(a[0], a[1, 1:])[0]) * scipy.linalg.eigvalsh(a)[0], SYMMETRIC),
    ):
        compiled = compile_grad(f)
        np.testing.assert_allclose(compiled(a), f(a), rtol=1e-13)
        np.testing.assert_allclose(compiled.grad(a), numerical_gradient(f, (a,)), rtol=1e-6, atol=1e-6)
        for weights, made in ((None, {False}), ([np.ones(())], {True})):
            nodes = simplify(Traced(f, [a], weights).graph).nodes
            assert {n.params["vectors"] for n in nodes if "vectors" in n.params} == made


def test_eigenvalues_that_are_complex_or_not():
    """Each is a path, of one function."""
    compiled = compile_grad(lambda a: np.sum(np.abs(np.linalg.eigvals(a)) ** 2))
    for a in (TURNING, similar(SQUARE), TURNING.T, SQUARES[0]):
        np.testing.assert_allclose(
            compiled.grad(a), numerical_gradient(compiled.__wrapped__, (a,)), rtol=1e-6, atol=1e-6
        )
    both = np.stack([TURNING, SQUARE])
    found = compile_grad(lambda a: np.linalg.eigvals(a))(both)
    assert found.dtype == np.complex128
    np.testing.assert_allclose(found, np.linalg.eigvals(both), rtol=1e-12)


def test_nearly_equal_and_ill_conditioned():
    close = ORTHOGONAL @ np.diag([1.0, 1.0 + 1e-7, 2.0]) @ ORTHOGONAL.T
    f = of_eigenvalues(np.exp)
    np.testing.assert_allclose(derivative(f, close), numerical_gradient(f, (close,)), rtol=2e-6, atol=2e-6)
    hard = COLUMNS @ np.diag([1.0, 1e-3, 1e-5]) @ ORTHOGONAL
    p = np.linalg.pinv(hard)
    got = derivative(lambda a: np.sum(np.linalg.pinv(a)), hard)
    by_hand = -p.T @ np.ones((3, 4)) @ p.T + (np.eye(4) - hard @ p) @ np.ones((4, 3)) @ p @ p.T
    np.testing.assert_allclose(got, by_hand, rtol=1e-6)


# ---- loops, errors -----------------------------------------------------------------------------------------------


def by_turns(a: Any) -> Any:
    p = a
    for _ in range(40):
        w, v = np.linalg.eigh(p + p.T)
        p = 0.5 * (v * np.tanh(w)) @ v.T + 0.1 * a
    return np.sum(p * p)


def by_singular_values(a: Any) -> Any:
    p = a
    for _ in range(40):
        u, s, vh = np.linalg.svd(p)
        p = (u * np.tanh(s)) @ vh + 0.1 * np.linalg.qr(a)[1]
    return np.sum(p * p)


@pytest.mark.parametrize("f", [by_turns, pytest.param(by_singular_values, marks=pytest.mark.slow)])
def test_a_rolled_loop(f):
    compiled = compile_grad(f)
    value, gradient = compiled.value_and_grad(SQUARE)
    np.testing.assert_allclose(value, f(SQUARE), rtol=1e-12)
    np.testing.assert_allclose(gradient, numerical_gradient(f, (SQUARE,)), rtol=1e-6, atol=1e-6)
    text = str(compiled.explain(SQUARE, level="all"))
    assert "rolled: the loop" in text
    assert "(library)" in text


def test_the_body_of_an_explicit_loop():
    def f(a: Any) -> Any:
        end, _ = tracegrad.scan(lambda c, _: (0.5 * np.linalg.svd(c)[0] @ np.linalg.inv(c), None), a, None, length=2)
        return np.sum(end)

    compiled = compile_grad(f)
    np.testing.assert_allclose(compiled.grad(SQUARE), numerical_gradient(f, (SQUARE,)), rtol=1e-6, atol=1e-6)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError):
            compiled.grad(np.ones((3, 3)))


NAN = np.full((2, 2), np.nan)
BAD = {
    "no square": (np.linalg.eigvalsh, TALL, "must be square"),
    "a vector": (np.linalg.svdvals, TALL[0], "at least two-dimensional"),
    "no finite numbers": (np.linalg.eigvals, NAN, "infs or NaNs"),
    "no singular values": (lambda a: np.linalg.svd(a)[1], NAN, "SVD did not converge"),
    "norm of NaN": (lambda a: np.linalg.norm(a, 2), NAN, "SVD did not converge"),
    "nothing": (np.linalg.cond, np.zeros((0, 2)), "not defined on empty arrays"),
    "rows": (lambda a: np.linalg.lstsq(a, np.ones(3))[0], TALL, "Incompatible dimensions"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_numpy(name):
    f, a, text = BAD[name]
    with pytest.raises(np.linalg.LinAlgError, match=text):
        f(a)
    with pytest.raises(np.linalg.LinAlgError, match=text) as caught:
        compile_grad(lambda x: np.sum(f(x))).grad(a)
    assert "test_linalg_factors.py" in str(caught.value)


def test_other_errors():
    for f, message in [
        (lambda a: np.linalg.norm(a, "abc"), "Invalid norm order for matrices."),
        (lambda a: np.linalg.norm(a, 2, axis=(0, 0)), "Duplicate axes given."),
        (lambda a: np.linalg.qr(a, "x"), "Unrecognized mode"),
        (lambda a: np.linalg.eigh(a @ a.T, "X"), "UPLO argument must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            f(TALL)
        with pytest.raises(ValueError, match=message):
            Traced(f, [TALL])
    assert np.isnan(Traced(np.linalg.eigvalsh, [NAN]).values[0]).all()


def test_nothing_in_it():
    for f in (np.linalg.svdvals, lambda a: np.linalg.svd(a)[2], lambda a: np.linalg.qr(a, "complete")[0]):
        check_value(f, [np.zeros((0, 3))])
    check_value(np.linalg.eigh, [np.zeros((2, 0, 0))])
    check_value(np.linalg.pinv, [np.zeros((3, 0))])
