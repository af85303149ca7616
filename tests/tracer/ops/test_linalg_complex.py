"""Factors, determinants and vectors of complex matrices: values, derivatives of both orders, NumPy's errors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl
from agreement import complex_gradient

from tracegrad import UnsupportedError, compile_grad

RNG = np.random.default_rng(0)
SLOW = pytest.mark.slow


def numbers(*shape: int) -> Any:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def positive(a: Any) -> Any:
    return a @ adjoint(a) + np.eye(a.shape[-1])


A, PAIR = numbers(3, 3) + 2 * np.eye(3), numbers(2, 3, 3)
CASES: dict[str, tuple[Any, Any]] = {
    "cholesky": (lambda a: np.linalg.cholesky(positive(a)), PAIR),
    "slogdet": (lambda a: tuple(np.linalg.slogdet(a)), numbers(2, 4, 4)),
    "det": (lambda a: (np.linalg.det(a), sl.det(a)), numbers(4, 4)),
    "eigh": (lambda a: tuple(np.linalg.eigh(a)), PAIR + adjoint(PAIR)),
    "upper eigh": (lambda a: tuple(np.linalg.eigh(a + adjoint(a), "U")), A),
    "Hermitian svd": (lambda a: tuple(np.linalg.svd(a + adjoint(a), hermitian=True)), A),
    "eigvalsh": (lambda a: (np.linalg.eigvalsh(a), sl.eigvalsh(a)), A),
    "scipy eigh": (lambda a: sl.eigh(a, positive(a)), A),
    "scipy cholesky": (lambda a: (sl.cholesky(positive(a)), sl.cholesky(positive(a), lower=True)), A),
    "cho_solve": (
        lambda a: (
            sl.cho_solve(sl.cho_factor(positive(a)), a[:, :2]),
            sl.cho_solve(sl.cho_factor(positive(a), lower=True), a[0]),
        ),
        A,
    ),
    "solve": (
        lambda a: (
            sl.solve(a, a[0]), sl.solve(positive(a), a[:, 1:], assume_a="pos"), sl.inv(a),
            sl.solve(a + a.T, a[0], assume_a="sym"), sl.solve(a + adjoint(a), a[0], assume_a="her"),
        ),
        A,
    ),
    "solve_triangular": (
        lambda a: (
            sl.solve_triangular(a, a[0]), sl.solve_triangular(a, a[:, 1:], trans="T", lower=True),
            sl.solve_triangular(a, a[:, 1:], trans="C"),
            sl.solve_triangular(a, a[0], lower=True, unit_diagonal=True, trans=2),
        ),
        A,
    ),
}  # fmt: skip
QUICK = ("cholesky",)  # the registry has quick cases of the others


def parts(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


@pytest.mark.parametrize("name", [pytest.param(c, marks=() if c in QUICK else SLOW) for c in CASES])
def test_values_and_derivatives(name: str) -> None:
    f, z = CASES[name]
    compiled = compile_grad(f)
    for x, limit in ((z, 1e-11), (z.astype(np.complex64), 2e-3)):
        for _ in range(3):
            for ours, theirs in zip(parts(compiled(x)), parts(f(x)), strict=True):
                assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
                np.testing.assert_allclose(ours, theirs, rtol=limit, atol=limit)

    def loss(z: Any) -> Any:
        """Depends on phases."""
        found = [x * (1 + np.arange(x.size)).reshape(x.shape) + 0.5j for x in parts(f(z))]
        return sum(np.sum(np.abs(x) ** 2 + np.sin(x.real)) for x in found)

    first = compile_grad(loss)
    gradient = first.grad(z)
    scale = np.max(np.abs(gradient))
    np.testing.assert_allclose(gradient, complex_gradient(loss, z), rtol=1e-6, atol=1e-7 * scale)
    single = first.grad(z.astype(np.complex64))
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, gradient, rtol=5e-2, atol=5e-3 * scale)

    def length(z: Any) -> Any:
        return np.sum(np.abs(first.grad(z)) ** 2)

    second = compile_grad(length).grad(z)
    np.testing.assert_allclose(second, complex_gradient(length, z), rtol=1e-5, atol=1e-6 * np.max(np.abs(second)))


def test_one_triangle_is_read() -> None:
    """And no imaginary part of the diagonal; the gradient is Hermitian."""
    z = np.tril(positive(A)) + 1j * np.eye(3) + np.triu(PAIR[0], 1)
    np.testing.assert_allclose(compile_grad(np.linalg.cholesky)(z), np.linalg.cholesky(z), rtol=1e-12)
    gradient = compile_grad(lambda z: np.sum(np.abs(np.linalg.cholesky(z)[:, 0]))).grad(z)
    np.testing.assert_allclose(gradient, adjoint(gradient), rtol=1e-12)


@SLOW
def test_vectors_with_zeros_and_equal_eigenvalues() -> None:
    """Functions that do not depend on phases have derivatives where the first elements of vectors are 0; those through
    vectors of equal eigenvalues are not finite, those of the values are."""
    blocks = np.zeros((4, 4), complex)
    blocks[:2, :2], blocks[2:, 2:] = [[1, 2j], [-2j, 0]], [[5, 1 - 1j], [1 + 1j, -6]]

    def projector(z: Any) -> Any:
        v = np.linalg.eigh(z)[1][:, 0]
        found = np.outer(v, v.conj()) @ (np.arange(16).reshape(4, 4) + 1j)
        return np.sum(found.real**2 + found.imag**2)

    first = compile_grad(projector)
    np.testing.assert_allclose(first.grad(blocks), complex_gradient(projector, blocks), rtol=1e-6, atol=1e-5)
    phase = compile_grad(lambda z: np.sum(np.linalg.eigh(z)[1].imag * np.arange(16).reshape(4, 4)))
    assert not np.all(np.isfinite(phase.grad(blocks)))

    def length(z: Any) -> Any:
        return np.sum(first.grad(z).real ** 2 + first.grad(z).imag ** 2)

    expected = complex_gradient(length, blocks, 1e-4)
    for z in (blocks, blocks + 1e-7):
        np.testing.assert_allclose(compile_grad(length).grad(z), expected, rtol=1e-4, atol=1e-2)
    equal = 2.0 * np.eye(3) + 0j
    mixed = compile_grad(lambda z: np.sum(np.sin(np.linalg.eigh(z)[1].real + np.arange(9).reshape(3, 3))))
    assert not np.any(np.isfinite(mixed.grad(equal)[np.tril_indices(3, -1)]))
    trace = compile_grad(lambda z: np.sum(np.linalg.eigh(z)[0] ** 2))
    np.testing.assert_allclose(trace.grad(equal), 4.0 * np.eye(3), atol=1e-14)


def test_determinants_without_an_inverse() -> None:
    """Of singular matrices, large ones and empty ones."""
    singular = np.ones((4, 4)) * 1j
    for z in (np.stack([singular, np.eye(4)]), numbers(20, 20), numbers(0, 0), numbers(2, 0, 0).astype(np.complex64)):
        for f in (np.linalg.det, lambda a: tuple(np.linalg.slogdet(a))):
            for ours, theirs in zip(parts(compile_grad(f)(z)), parts(f(z)), strict=True):
                assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
                np.testing.assert_allclose(ours, theirs, rtol=1e-11)
    # small ones have a gradient, others NaN
    size = compile_grad(lambda z: np.linalg.det(z).imag)
    np.testing.assert_allclose(size.grad(singular[:2, :2] + 1), [[1 - 1j, -1 + 1j], [-1 + 1j, 1 - 1j]])
    assert np.all(np.isnan(size.grad(singular)))


def test_errors() -> None:
    for f, z, message in [
        (np.linalg.cholesky, -positive(PAIR), "Matrix is not positive definite"),
        (sl.cholesky, np.diag([1, -1, 2 + 0j]), "2-th leading minor"),
        (
            lambda a: sl.solve_triangular(a, a[0]),
            np.diag([1, 0, 1j]),
            "singular matrix: resolution failed at diagonal 1",
        ),
        (np.linalg.eigh, numbers(2, 3), "must be square"),
        (sl.inv, np.ones((2, 2)) * 1j, "ingular"),
    ]:
        with pytest.raises(np.linalg.LinAlgError, match=message):
            f(z)
        compiled = compile_grad(lambda a, f=f: f(a))
        with pytest.raises(np.linalg.LinAlgError, match=message):
            compiled(z)
    with pytest.raises(UnsupportedError, match="of complex matrices"):
        compile_grad(lambda a: operator.itemgetter(0)(sl.lu_factor(a)))(A)
