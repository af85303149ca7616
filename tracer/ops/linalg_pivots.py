"""Orders in which LAPACK takes the columns of matrices for QR (geqp3), and their rows for L U (getrf).

They have no derivative; decompositions of the matrices in that order need no interchanges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, Primitive, register
from .linalg import lapack, matrix_axes, per_matrix, routine


def _infer(a: Aval, by: str) -> Aval:
    return Aval(a.dtype, (*a.shape[:-2], a.shape[-1 if by == "geqp3" else -2]))


def _pivots(a: np.ndarray, by: str) -> Any:
    if by == "geqp3":
        return routine(lapack, by, a.dtype)(a)[1] - 1
    order = np.arange(len(a))
    for i, other in enumerate(routine(lapack, by, a.dtype)(a)[1]):
        order[[i, other]] = order[[other, i]]
    return order


PIVOTS = register(
    Primitive(
        "pivots", LAPACK, per_matrix(_pivots, _infer), _infer, axes=matrix_axes("ij", "p"), domain=((-3.0, 3.0),),
        test={"shapes": ((2, 4, 3),), "params": {"by": "geqp3"}},
    )
)  # fmt: skip


def pivots(a: Atom, by: str) -> Var:
    """The numbers of columns (by geqp3) or rows (by getrf) of *a*, (..., m, n), in order, as floats."""
    return bind(PIVOTS, a, by=by)
