"""Sparse Jacobians and Hessians, as users call them: ``sparse_jacobian``, ``sparse_hessian``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..declare import positions
from ..record.sparse_arrays import csr_array
from ..wrapper import P
from .transform import Transform, TransformRule, rule_of, transformed


@dataclass(frozen=True, eq=False)
class SparseJacobian(TransformRule):
    """The Jacobian as a sparse matrix: a row for each element of the result, a column for each of the arguments."""

    argnums: int | tuple[int, ...]
    name = "sparse_jacobian"


@dataclass(frozen=True, eq=False)
class SparseHessian(TransformRule):
    """The Hessian of a scalar as a sparse matrix: rows and columns for the elements of the arguments."""

    argnums: int | tuple[int, ...]
    name = "sparse_hessian"


# ---- what users call ---------------------------------------------------------------------------------------------


def sparse_jacobian(fn: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Transform[P, Any]:
    """The Jacobian of *fn* as a ``scipy.sparse.csr_array`` with a fixed pattern.

    It has a row for each element of the result and a column for each element of the arguments *argnums*, one array
    after the other in C order.  The pattern is found in the recorded program and misses no entry; an entry that is
    there may be zero.  ``indices`` and ``indptr`` are read-only and shared by the results of one pattern.  Columns (or
    rows) that have no row (column) in common are computed together, by one product; ``explain`` says how many there
    are.

        least_squares(f, x0, jac=sparse_jacobian(f), tr_solver="lsmr")

    :raises DifferentiationError: where an argument or a result is not a real floating-point one, or where the matrix is
        large and nothing is known to be zero.
    """
    csr_array()  # SciPy is not to be loaded in the course of a recording
    return transformed(rule_of(SparseJacobian, positions(argnums)), fn)


def sparse_hessian(fn: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Transform[P, Any]:
    """The Hessian of *fn*, which returns a real scalar, as a symmetric ``scipy.sparse.csr_array`` with a fixed pattern.

    Rows and columns are the elements of the arguments *argnums*, as in :func:`sparse_jacobian`.  Columns are told apart
    by a star colouring, which uses the symmetry.

        minimize(f.value_and_grad, x0, jac=True, hess=sparse_hessian(f), method="trust-constr")

    :raises DifferentiationError: where the result is no scalar, an argument is not a real floating-point one, or where
        the matrix is large and nothing is known to be zero.
    """
    csr_array()
    return transformed(rule_of(SparseHessian, positions(argnums)), fn)
