"""numpy.linalg."""

from __future__ import annotations

import numpy as np

from .case import Case

V = np.array([0.3, -1.2, 2.1])
M = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4]])
S = np.array([[2.3, -0.2, 0.1], [0.7, 1.6, -0.4], [0.2, 0.5, 3.1]])
P = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 1.5]])  # positive definite
STACK = np.stack([S, S.T + 1])
B = np.array([[0.5, 1.0], [-1.0, 0.2], [0.4, 0.9]])
EYE = np.eye(3)


def _sym(x: np.ndarray) -> np.ndarray:
    return (x + x.T) / 2


def _solved(part):  # type: ignore[no-untyped-def]
    """A complex system made of *part*."""
    return part + 1j * EYE


CASES = [
    Case("numpy.linalg.norm", np.linalg.norm, [V]),
    *[
        Case("numpy.linalg.norm", lambda x, o=o: np.linalg.norm(x, o), [V], label=f"vector-{o}")
        for o in (1, 2, 3, np.inf, -np.inf, 0.5)
    ],
    *[
        Case("numpy.linalg.norm", lambda x, o=o: np.linalg.norm(x, o), [S], label=f"matrix-{o}")
        for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    ],
    Case("numpy.linalg.norm", lambda x: np.linalg.norm(x, axis=-1, keepdims=True), [M], label="axis"),
    Case("numpy.linalg.norm", lambda x: np.linalg.norm(x, "fro", axis=(0, 1)), [STACK], label="axes"),
    Case("numpy.linalg.norm", lambda x: np.linalg.norm(x + 1j), [V], label="complex"),
    Case("numpy.linalg.matrix_norm", np.linalg.matrix_norm, [STACK]),
    Case("numpy.linalg.matrix_norm", lambda x: np.linalg.matrix_norm(x, ord="nuc"), [S], label="nuc"),
    Case("numpy.linalg.vector_norm", lambda x: np.linalg.vector_norm(x, axis=0), [M]),
    Case("numpy.linalg.vector_norm", lambda x: np.linalg.vector_norm(x, ord=3), [M], label="ord"),
    Case("numpy.linalg.inv", np.linalg.inv, [STACK]),
    Case("numpy.linalg.pinv", np.linalg.pinv, [M]),
    Case("numpy.linalg.pinv", lambda x: np.linalg.pinv(_sym(x), hermitian=True), [S], label="hermitian"),
    Case("numpy.linalg.det", np.linalg.det, [STACK]),
    Case("numpy.linalg.slogdet", lambda x: tuple(np.linalg.slogdet(x)), [STACK]),
    Case("numpy.linalg.solve", np.linalg.solve, [S, B]),
    Case("numpy.linalg.solve", np.linalg.solve, [S, V], label="vector"),
    Case("numpy.linalg.solve", lambda x, b: np.linalg.solve(_solved(x), b), [S, V], label="complex"),
    Case("numpy.linalg.lstsq", lambda x, b: np.linalg.lstsq(x, b)[0], [M.T, V]),
    Case("numpy.linalg.lstsq", lambda x, b: np.linalg.lstsq(x, b, rcond=None)[1], [M.T, V], label="residuals"),
    Case("numpy.linalg.cholesky", lambda x: np.linalg.cholesky(_sym(x)), [P]),
    Case("numpy.linalg.cholesky", lambda x: np.linalg.cholesky(_sym(x), upper=True), [P], label="upper"),
    Case("numpy.linalg.qr", np.linalg.qr, [B]),
    Case("numpy.linalg.qr", lambda x: np.linalg.qr(x, mode="r"), [B], label="r"),
    Case("numpy.linalg.eigh", lambda x: np.linalg.eigh(_sym(x))[0], [P]),
    Case("numpy.linalg.eigh", lambda x: np.linalg.eigh(_sym(x), UPLO="U").eigenvectors ** 2, [P], label="vectors"),
    Case("numpy.linalg.eigvalsh", lambda x: np.linalg.eigvalsh(_sym(x)), [P]),
    Case("numpy.linalg.eig", lambda x: np.linalg.eig(x)[0], [S]),
    Case("numpy.linalg.eigvals", np.linalg.eigvals, [S]),
    Case("numpy.linalg.svd", lambda x: np.linalg.svd(x, full_matrices=False)[1], [M]),
    Case("numpy.linalg.svd", lambda x: np.linalg.svd(x, compute_uv=False), [M], label="values"),
    Case("numpy.linalg.svdvals", np.linalg.svdvals, [M]),
    Case("numpy.linalg.cond", np.linalg.cond, [S]),
    Case("numpy.linalg.cond", lambda x: np.linalg.cond(x, 1), [S], label="1"),
    Case("numpy.linalg.matrix_power", lambda x: np.linalg.matrix_power(x, 3), [S]),
    Case("numpy.linalg.matrix_power", lambda x: np.linalg.matrix_power(x, -2), [S], label="negative"),
    Case("numpy.linalg.multi_dot", lambda x, y, z: np.linalg.multi_dot([x, y, z]), [M, S, B]),
    Case("numpy.linalg.tensorsolve", lambda x, b: np.linalg.tensorsolve(x.reshape(3, 3, 1), b), [S, V]),
    Case("numpy.linalg.tensorinv", lambda x: np.linalg.tensorinv(x.reshape(3, 3, 1), ind=1), [S]),
    Case("numpy.linalg.matrix_rank", np.linalg.matrix_rank, [S], 0),
    Case("numpy.linalg.trace", lambda x: np.linalg.trace(x, offset=1), [STACK]),
    Case("numpy.linalg.diagonal", np.linalg.diagonal, [STACK]),
    Case("numpy.linalg.matrix_transpose", np.linalg.matrix_transpose, [STACK]),
    Case("numpy.linalg.matmul", np.linalg.matmul, [M, S]),
    Case("numpy.linalg.outer", np.linalg.outer, [V, V + 1]),
    Case("numpy.linalg.cross", lambda x, y: np.linalg.cross(x, y), [M, M + V]),
    Case("numpy.linalg.tensordot", lambda x, y: np.linalg.tensordot(x, y, axes=1), [M, S]),
    Case("numpy.linalg.vecdot", np.linalg.vecdot, [M, V]),
]
