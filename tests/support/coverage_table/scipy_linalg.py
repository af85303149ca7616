"""scipy.linalg."""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl

from .case import Case

V = np.array([0.3, -1.2, 2.1])
M = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4]])
S = np.array([[2.3, -0.2, 0.1], [0.7, 1.6, -0.4], [0.2, 0.5, 3.1]])
P = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 1.5]])  # positive definite
B = np.array([[0.5, 1.0], [-1.0, 0.2], [0.4, 0.9]])
D, E = np.array([2.0, 3.0, 2.5]), np.array([0.3, -0.4])  # of a tridiagonal matrix
BANDS = np.array([[0.0, 0.3, -0.4], [2.0, 3.0, 2.5], [0.2, -0.1, 0.0]])
PLANE = np.array([[0.5, 1.0], [-1.0, 0.2], [0.4, 0.9], [0.3, -1.2]])
UPPER = np.array([[0.0, 0.3, -0.4], [2.0, 3.0, 2.5]])
REAL = np.array([[2.0, 0.3, 0.1], [0.4, 1.0, -0.2], [0.1, 0.2, 1.5]])  # with real eigenvalues
STABLE = np.array([[-2.3, 0.2, 0.1], [0.7, -1.6, 0.4], [0.2, -0.5, -3.1]])
SMALL = STABLE / 5
C, R = np.array([2.0, 0.3, -0.4]), np.array([2.0, 0.1, 0.5])


def _sym(x: np.ndarray) -> np.ndarray:
    return (x + x.T) / 2


CASES = [
    # equations
    Case("scipy.linalg.solve", sl.solve, [S, B]),
    Case("scipy.linalg.solve", lambda a, b: sl.solve(_sym(a), b, assume_a="pos"), [P, V], label="pos"),
    Case("scipy.linalg.solve", lambda a, b: sl.solve(a, b, transposed=True), [S, V], label="transposed"),
    Case("scipy.linalg.solve_triangular", lambda a, b: sl.solve_triangular(a, b, lower=True), [S, B]),
    Case("scipy.linalg.solve_triangular", lambda a, b: sl.solve_triangular(a, b, trans=1), [S, V], label="trans"),
    Case("scipy.linalg.solve_banded", lambda a, b: sl.solve_banded((1, 1), a, b), [BANDS, V]),
    Case("scipy.linalg.solveh_banded", sl.solveh_banded, [UPPER, B]),
    Case("scipy.linalg.solve_toeplitz", lambda c, r, b: sl.solve_toeplitz((c, r), b), [C, R, B]),
    Case("scipy.linalg.solve_circulant", sl.solve_circulant, [C, V]),
    Case("scipy.linalg.matmul_toeplitz", lambda c, r, x: sl.matmul_toeplitz((c, r), x), [C, R, V]),
    Case("scipy.linalg.solve_sylvester", sl.solve_sylvester, [S, P, S + 1]),
    Case("scipy.linalg.solve_lyapunov", lambda a, q: sl.solve_lyapunov(a, _sym(q)), [STABLE, P]),
    Case("scipy.linalg.solve_continuous_lyapunov", lambda a, q: sl.solve_continuous_lyapunov(a, q), [STABLE, P]),
    Case("scipy.linalg.solve_discrete_lyapunov", lambda a, q: sl.solve_discrete_lyapunov(a, q), [SMALL, P]),
    Case(
        "scipy.linalg.solve_continuous_are",
        lambda a, b, q, r: sl.solve_continuous_are(a, b, _sym(q), _sym(r)),
        [STABLE, B, P, P[:2, :2]],
    ),
    Case(
        "scipy.linalg.solve_discrete_are",
        lambda a, b, q, r: sl.solve_discrete_are(a, b, _sym(q), _sym(r)),
        [SMALL, B, P, P[:2, :2]],
    ),
    Case("scipy.linalg.lstsq", lambda a, b: sl.lstsq(a, b)[0], [B, V]),
    Case("scipy.linalg.inv", sl.inv, [S]),
    Case("scipy.linalg.pinv", sl.pinv, [M]),
    Case("scipy.linalg.pinvh", lambda a: sl.pinvh(_sym(a)), [P]),
    Case("scipy.linalg.det", sl.det, [S]),
    Case("scipy.linalg.norm", sl.norm, [M]),
    Case("scipy.linalg.norm", lambda a: sl.norm(a, "nuc", axis=(0, 1)), [M], label="nuc"),
    # factors
    Case("scipy.linalg.cholesky", lambda a: sl.cholesky(_sym(a)), [P]),
    Case("scipy.linalg.cholesky", lambda a: sl.cholesky(_sym(a), lower=True), [P], label="lower"),
    Case("scipy.linalg.cho_factor", lambda a: np.triu(sl.cho_factor(_sym(a))[0]), [P]),
    Case("scipy.linalg.cho_solve", lambda a, b: sl.cho_solve(sl.cho_factor(_sym(a)), b), [P, V]),
    Case("scipy.linalg.cholesky_banded", lambda a: sl.cholesky_banded(a)[1], [UPPER]),
    Case(
        "scipy.linalg.cho_solve_banded", lambda a, b: sl.cho_solve_banded((sl.cholesky_banded(a), False), b), [UPPER, V]
    ),
    Case("scipy.linalg.lu", lambda a: sl.lu(a)[1:], [S]),
    Case("scipy.linalg.lu", lambda a: sl.lu(a, permute_l=True), [S], label="permuted"),
    Case("scipy.linalg.lu_factor", lambda a: sl.lu_factor(a)[0], [S]),
    Case("scipy.linalg.lu_solve", lambda a, b: sl.lu_solve(sl.lu_factor(a), b), [S, V]),
    Case("scipy.linalg.qr", lambda a: sl.qr(a, mode="economic"), [B]),
    Case("scipy.linalg.qr_multiply", sl.qr_multiply, [B, M]),
    Case("scipy.linalg.qr_multiply", lambda a, c: sl.qr_multiply(a, c, mode="left"), [B, V[:2]], label="left"),
    Case("scipy.linalg.rq", lambda a: sl.rq(a, mode="economic"), [M]),
    Case("scipy.linalg.svd", lambda a: sl.svd(a, full_matrices=False)[1], [M]),
    Case("scipy.linalg.svdvals", sl.svdvals, [M]),
    Case("scipy.linalg.polar", sl.polar, [B]),
    Case("scipy.linalg.orth", lambda a: sl.orth(a) ** 2, [B]),
    Case("scipy.linalg.null_space", lambda a: sl.null_space(a) ** 2, [M]),
    Case("scipy.linalg.orthogonal_procrustes", lambda a, b: sl.orthogonal_procrustes(a, b), [S, P]),
    Case("scipy.linalg.subspace_angles", sl.subspace_angles, [PLANE, PLANE[::-1] * [1.0, -2.0] + 0.3]),
    # eigenvalues
    Case("scipy.linalg.eigh", lambda a: sl.eigh(_sym(a))[0], [P]),
    Case("scipy.linalg.eigh", lambda a, b: sl.eigh(_sym(a), _sym(b), eigvals_only=True), [S, P], label="generalised"),
    Case("scipy.linalg.eigh", lambda a: sl.eigh(_sym(a), subset_by_index=[0, 1])[1] ** 2, [P], label="subset"),
    Case("scipy.linalg.eigvalsh", lambda a: sl.eigvalsh(_sym(a)), [P]),
    Case("scipy.linalg.eig", lambda a: sl.eig(a)[0], [S]),
    Case("scipy.linalg.eigvals", sl.eigvals, [S]),
    Case("scipy.linalg.eig_banded", lambda a: sl.eig_banded(a)[1] ** 2, [UPPER]),
    Case("scipy.linalg.eigvals_banded", sl.eigvals_banded, [UPPER]),
    Case("scipy.linalg.eigh_tridiagonal", lambda d, e: sl.eigh_tridiagonal(d, e)[0], [D, E]),
    Case("scipy.linalg.eigvalsh_tridiagonal", sl.eigvalsh_tridiagonal, [D, E]),
    # functions of matrices
    *[
        Case(f"scipy.linalg.{name}", lambda a, f=getattr(sl, name): f(a), [SMALL])
        for name in "expm sinm cosm tanm sinhm coshm tanhm".split()
    ],
    Case("scipy.linalg.expm_frechet", lambda a, e: sl.expm_frechet(a, e), [SMALL, S]),
    Case("scipy.linalg.logm", sl.logm, [S]),
    Case("scipy.linalg.sqrtm", sl.sqrtm, [S]),
    Case("scipy.linalg.signm", sl.signm, [S - 2 * np.eye(3)], tol=1e-5),
    Case("scipy.linalg.fractional_matrix_power", lambda a: sl.fractional_matrix_power(a, 0.5), [REAL]),
    Case("scipy.linalg.schur", lambda a: sl.schur(a)[0], [REAL]),
    Case("scipy.linalg.schur", lambda a: sl.schur(a)[1], [REAL], label="vectors"),
    # matrices of a structure
    Case("scipy.linalg.block_diag", sl.block_diag, [M, B]),
    Case("scipy.linalg.circulant", sl.circulant, [C]),
    Case("scipy.linalg.companion", sl.companion, [C]),
    Case("scipy.linalg.convolution_matrix", lambda a: sl.convolution_matrix(a, 4, mode="same"), [C]),
    Case("scipy.linalg.diagsvd", lambda s: sl.diagsvd(s, 3, 5), [C]),
    Case("scipy.linalg.diagsvd", lambda s: sl.diagsvd(s, 4, 3), [C], label="tall"),
    Case("scipy.linalg.fiedler_companion", sl.fiedler_companion, [np.array([2.0, 0.3, -0.4, 1.1, 0.6])]),
    Case("scipy.linalg.fiedler", sl.fiedler, [C]),
    Case("scipy.linalg.hankel", sl.hankel, [C, R]),
    Case("scipy.linalg.khatri_rao", sl.khatri_rao, [M, S]),
    Case("scipy.linalg.leslie", sl.leslie, [C, E]),
    Case("scipy.linalg.toeplitz", sl.toeplitz, [C, R]),
]
