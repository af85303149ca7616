"""The standard's extension of linear algebra: NumPy's functions of matrices and of stacks of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensors.apply import apply
from ..tensors.ops_reduce import named_result
from . import functions  # noqa: F401  (the products are of both namespaces)
from .rows import LINALG, eager, row, written

_np: Any = np.linalg


def _of_matrices(signature: str, answer: Any = None, result: Any = None) -> None:
    row(signature, answer, space=np.linalg, table=LINALG, result=result)


_of_matrices("cholesky(x, /, *, upper=False)")
_of_matrices("det(x, /)")
_of_matrices("diagonal(x, /, *, offset=0)")
_of_matrices("eigh(x, /)", result=named_result("eigh_result", "eigenvalues", "eigenvectors"))
_of_matrices("eigvalsh(x, /)")
_of_matrices("inv(x, /)")
_of_matrices("matrix_norm(x, /, *, keepdims=False, ord='fro')")
_of_matrices("matrix_power(x, n, /)", lambda x, n: _np.matrix_power(x, n))
_of_matrices("matrix_rank(x, /, *, rtol=None)")
_of_matrices("pinv(x, /, *, rtol=None)")
_of_matrices("qr(x, /, *, mode='reduced')", result=named_result("qr_result", "Q", "R"))
_of_matrices("slogdet(x, /)", result=named_result("slogdet_result", "sign", "logabsdet"))
_of_matrices("solve(x1, x2, /)")
_of_matrices("svd(x, /, *, full_matrices=True)", result=named_result("svd_result", "U", "S", "Vh"))
_of_matrices("svdvals(x, /)")
_of_matrices("trace(x, /, *, offset=0, dtype=None)")
_of_matrices("vector_norm(x, /, *, axis=None, keepdims=False, ord=2)")

_CROSS, _OUTER = eager("linalg_cross", np.cross, ("x1", "x2"), ("axis",)), eager("outer", np.outer, ("x1", "x2"))


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Vector products along *axis*, of size 3."""
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross() takes axes of size 3, and there are {x1.shape[axis]} and {x2.shape[axis]}")
    return apply(_CROSS, (x1, x2), (axis,))


def outer(x1: Any, x2: Any, /) -> Any:
    """All products of the elements of two vectors."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer() takes vectors, and there are {x1.ndim} and {x2.ndim} axes")
    return apply(_OUTER, (x1, x2))


for _function in (cross, outer):
    written(_function, space=np.linalg, table=LINALG)
globals().update(LINALG)
__all__ = [*LINALG]
