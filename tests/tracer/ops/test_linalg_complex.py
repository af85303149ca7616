"""Factors, determinants and vectors of complex matrices: values, derivatives of both orders, NumPy's errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl
from agreement import complex_gradient, numerical_gradient

from tracegrad import compile_grad

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
    "scipy eigh": (lambda a: (sl.eigh(a, positive(a)), sl.eigh(a, positive(a), lower=False)), A),
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
    "wide svd": (lambda a: tuple(np.linalg.svd(a, False)), numbers(2, 5)),
    "whole svd": (
        lambda a: (lambda u, s, vh: (u[:, :2], s, vh, u[:, 2:] @ adjoint(u[:, 2:])))(*np.linalg.svd(a)),
        numbers(4, 2),
    ),
    "svd of a row, a column, a number": (
        lambda a: (np.linalg.svd(a[:1], False)[2], np.linalg.svd(a[:, :1], False)[0], np.linalg.svd(a[:1, :1])[0]),
        A,
    ),
    "polar": (sl.polar, A),
    "wide qr": (lambda a: (*np.linalg.qr(a[:2]), np.linalg.qr(a[:1, :1], "r"), *sl.qr(a)), A),
    "complete qr": (
        lambda a: (lambda q, r: (q[:, :2], r, q[:, 2:] @ adjoint(q[:, 2:])))(*np.linalg.qr(a, "complete")),
        numbers(4, 2),
    ),
    "eig": (lambda a: (np.linalg.eig(a), np.linalg.eigvals(a), sl.eig(a[0]), np.linalg.pinv(a)), PAIR),
    "lu": (
        lambda a: (sl.lu(a), sl.lu_factor(a)[0], [sl.lu_solve(sl.lu_factor(a), a[0], trans=k) for k in range(3)]),
        A,
    ),
    "bands": (
        lambda a: (
            sl.solve_banded((1, 1), a, a[0]), sl.solveh_banded(np.stack([9 + np.abs(a[0]), a[1]]), a[2], lower=True),
            sl.eigvals_banded(np.stack([a[1], np.abs(a[0])])),
        ),
        A,
    ),
    "spaces": (
        lambda a: (
            (lambda n: n @ adjoint(n))(sl.null_space(a[:2])), sl.subspace_angles(a[:, :1], a[:, 1:2]),
            sl.orthogonal_procrustes(a, a**2), sl.rq(a), sl.expm_frechet(a, a.T),
        ),
        A,
    ),
    "norms": (
        lambda a: (
            np.linalg.norm(a, 2), np.linalg.norm(a, -2), np.linalg.norm(a, "nuc"), np.linalg.cond(a),
            np.linalg.matrix_rank(a) * a[0], np.linalg.matrix_power(a, -3), np.linalg.multi_dot([a, a, a[0]]),
            np.linalg.tensorsolve(a, a[0]), np.linalg.tensorinv(a.reshape(3, 3, 1), 1),
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
QUICK = ("cholesky",)  # the registry has quick cases of the others; and what it does not have is derived twice here
TWICE_DERIVED = (
    "cholesky",
    "det",
    "upper eigh",
    "solve_triangular",
    "wide svd",
    "complete qr",
)  # what it does not have


def parts(found: Any) -> tuple[Any, ...]:
    return sum(map(parts, found), ()) if isinstance(found, (tuple, list)) else (found,)


@pytest.mark.parametrize("name", [pytest.param(c, marks=() if c in QUICK else SLOW) for c in CASES])
def test_values_and_derivatives(name: str) -> None:
    f, z = CASES[name]
    compiled = compile_grad(f)
    singles = [(z.astype(np.complex64), 2e-3)] if name in TWICE_DERIVED else []
    for x, limit in ((z, 1e-11), *singles):
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
    if name not in TWICE_DERIVED:
        return
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


def weighted(x: Any) -> Any:
    """A sum that depends on each element of *x* in another way."""
    k = np.arange(x.size).reshape(x.shape)
    return np.sum(np.sin(x.real + k) + np.cos(2 * x.imag - k))


def of_eigenvalues(f: Any) -> Any:
    def run(a: Any) -> Any:
        w, v = np.linalg.eigh((a + adjoint(a)) / 2)
        return weighted((v * f(w)) @ adjoint(v))

    return run


def of_singular_values(f: Any, count: int = 3) -> Any:
    def run(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return weighted((u * f(s))[:, :count] @ vh[:count])

    return run


def by_eig(a: Any) -> Any:
    w, v = np.linalg.eig(a)
    return weighted((v * np.exp(w)) @ np.linalg.inv(v))


LEFT, RIGHT = np.linalg.qr(numbers(4, 3))[0], np.linalg.qr(A)[0]
TWICE, ZERO = RIGHT @ np.diag([2, 2, 5]) @ adjoint(RIGHT), np.zeros((3, 3), complex)
INVARIANT: dict[str, tuple[Any, list[Any]]] = {
    "exponential": (of_eigenvalues(np.exp), [TWICE, np.eye(3) + 0j, ZERO]),
    "projector": (of_eigenvalues(lambda w: w < 3), [TWICE]),
    "itself": (of_singular_values(lambda s: s), [TWICE, ZERO]),
    "polar factor": (of_singular_values(np.ones_like), [TWICE @ RIGHT, LEFT]),
    "truncated": (of_singular_values(lambda s: s, 2), [LEFT @ np.diag([5, 5, 1]) @ RIGHT]),
    "by eig": (by_eig, [1j * TWICE, np.diag([1, 1, 1 + 1j])]),
}


@SLOW
@pytest.mark.parametrize("name", INVARIANT)
def test_what_does_not_depend_on_the_choice_of_vectors(name: str) -> None:
    f, points = INVARIANT[name]
    judge = (lambda a: weighted(sl.expm(a))) if name == "by eig" else f  # eig has no differences near equal eigenvalues
    compiled = compile_grad(f)
    for a in points:
        np.testing.assert_allclose(compiled.grad(a), complex_gradient(judge, a), rtol=3e-6, atol=3e-6)


@SLOW
def test_what_depends_on_the_choice_of_vectors_has_no_finite_derivative() -> None:
    for f in (
        lambda a: np.abs(np.linalg.eigh(a)[1][0, 0]) ** 2, lambda a: weighted(np.linalg.svd(a)[0]),
        lambda a: weighted(np.linalg.eig(a)[1]),
    ):  # fmt: skip
        compiled = compile_grad(f)
        for a in (np.eye(3) + 0j, np.diag([1, 1, 2 + 0j]), ZERO):
            assert not np.isfinite(compiled.grad(a)).all()
    for f in (lambda a: weighted(np.linalg.qr(a, "complete")[0]), lambda a: weighted(np.linalg.svd(a)[0])):
        assert np.isnan(compile_grad(f).grad(numbers(5, 3))).any()


def truncated_often(theta: Any, matrix: Any) -> Any:
    """As a chain of quantum states that is cut to two Schmidt values in each step."""
    total = 0.0
    for k in range(5):
        matrix = (np.eye(3) + theta * np.array([[0, 1, 0], [1, 0, 2], [0, 2, 1]])) @ matrix
        u, s, vh = np.linalg.svd(matrix)
        u, s, vh = u[:, :2], s[:2] / np.sqrt(np.sum(s[:2] ** 2)), vh[:2]
        matrix = u @ np.diag(s) @ vh
        total = total + (k + 1) * np.sum(np.abs(matrix[0]) ** 2)
    return total


def self_consistent(theta: Any, field: Any) -> Any:
    """The energy of one occupied state, the others of which are equal."""
    density, energy = np.zeros((3, 3)), 0.0
    for k in range(5):
        v = np.linalg.eigh(field + theta * np.diag(np.diag(density).real * [1, 0, 0]))[1][:, :1]
        density = 0.5 * density + 0.5 * v @ adjoint(v)
        energy = energy + (k + 1) * np.sum(density * field).real
    return energy


def evolved(theta: Any, field: Any) -> Any:
    state = np.array([1, 0, 0], complex)
    for k in range(5):
        w, v = np.linalg.eigh(field + theta * k * np.diag([1, 2, 4]))
        state = v @ (np.exp(-0.3j * w) * (v.conj().T @ state))
        state = np.linalg.solve(np.eye(3) + 0.1j * field, state)
    return np.abs(state[1]) ** 2


@pytest.mark.parametrize("f", [self_consistent, *[pytest.param(f, marks=SLOW) for f in (truncated_often, evolved)]])
@pytest.mark.slow
def test_rolled_loops(f: Any) -> None:
    """Also where vectors that are left out have equal values, or 0."""
    field = np.array([[-2, 0.3 + 0.2j, 0], [0.3 - 0.2j, 3, 0], [0, 0, 3.1]])
    field[1, 1] = 3.1 + np.abs(field[0, 1]) ** 2 / -5.1
    compiled = compile_grad(f)
    for matrix in (field, field.real) if f is self_consistent else (field,):
        expected = numerical_gradient(lambda t, matrix=matrix: f(t, matrix), (np.asarray(0.3),))
        np.testing.assert_allclose(compiled.grad(0.3, matrix), expected, rtol=1e-6)


@pytest.mark.slow
def test_decompositions_of_odd_matrices() -> None:
    """Without elements, singular, with NaN."""
    for f in (np.linalg.svd, np.linalg.qr, np.linalg.eig, np.linalg.eigvals, np.linalg.pinv):
        compiled = compile_grad(lambda a, f=f: f(a))
        for shape in ((0, 0), (2, 0, 0)):
            empty = np.empty(shape, complex)
            for ours, theirs in zip(parts(compiled(empty)), parts(f(empty)), strict=True):
                assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        singular = np.ones((3, 3)) * 1j
        for ours, theirs in zip(parts(compiled(singular)), parts(f(singular)), strict=True):
            np.testing.assert_allclose(np.abs(ours[..., 0]), np.abs(theirs[..., 0]), atol=1e-7)
    lost = np.full((3, 3), np.nan + 0j)
    for f in (np.linalg.svd, np.linalg.eig):
        with pytest.raises(np.linalg.LinAlgError):
            f(lost)
        with pytest.raises(np.linalg.LinAlgError):
            compile_grad(lambda a, f=f: f(a))(lost)


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


@pytest.mark.slow
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
        (sl.cholesky, np.diag([1, -1, 2 + 0j]), r"2-th leading minor|potrf return info = \[2\]"),
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
