"""The factors of P L U = A as values that are not opaque, and back (``linalg.py``).

``lu_packed`` gives L below the diagonal and U from it on in one matrix, as LAPACK and SciPy have them; its derivative
is that of L and U.  ``lu_repacked`` takes such a matrix back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.axes import JOINED, PART, Axes, Params, Shape, Shapes
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from .elementwise import F
from .linalg import (
    factors_of,
    lu_inverse,
    matrix_axes,
    of_factors,
    of_matrix,
    per_matrix,
    solve_triangular,
    transposed,
    triangle,
)
from .product import matmul
from .shape import concat

_ANY = ((-3.0, 3.0),)


def _infer(factors: Aval) -> Aval:
    *batch, _, n = factors.shape
    return Aval(factors.dtype, (*batch, n, n))


def _join(below: Atom, above: Atom) -> Atom:
    """The triangles of two matrices: strictly below the diagonal, and from it on."""
    return F.add(triangle(below, True, False), triangle(above, False))


def _unit_times(lu: Atom, x: Atom, trans: bool) -> Atom:
    """L x, or L.T x."""
    return F.add(x, matmul(triangle(lu, True, False), x, trans, False))


def _of_a(lu: Atom, permutation: Atom, x: Atom) -> Atom:
    """The cotangent of A for one *x* of the packed L and U."""
    upper = triangle(lu, False)
    inner = _join(_unit_times(lu, triangle(x, True, False), True), matmul(triangle(x, False), upper, False, True))
    inner = solve_triangular(lu, inner, True, True, True)
    return matmul(permutation, solve_triangular(lu, inner, False, True, False, True))


def _to_a(lu: Atom, permutation: Atom, x: Atom) -> Atom:
    """The tangent of A for one *x* of the packed L and U."""
    moved = _unit_times(lu, triangle(x, False), False)
    return matmul(permutation, F.add(matmul(triangle(x, True, False), triangle(lu, False)), moved))


def _from_a(lu: Atom, permutation: Atom, x: Atom) -> Atom:
    """The tangent of the packed L and U for one *x* of A."""
    inner = solve_triangular(lu, matmul(permutation, x, True, False), True, False, True)
    inner = solve_triangular(lu, inner, False, False, False, True)
    return _join(
        _unit_times(lu, triangle(inner, True, False), False), matmul(triangle(inner, False), triangle(lu, False))
    )


def _to_packed(lu: Atom, permutation: Atom, x: Atom) -> Atom:
    """The cotangent of the packed L and U for one *x* of A."""
    x = matmul(permutation, x, True, False)
    return _join(matmul(x, triangle(lu, False), False, True), _unit_times(lu, x, True))


def _packed_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    column = len(shape) - 1
    return Axes(((*range(column - 1), None, column - 1),), {column: PART})


def _repacked_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    row, batch = len(shape) - 1, range(len(shape) - 2)
    return Axes(((*batch, row, None), (*batch, None, row)), {row - 1: JOINED})


LU_PACKED: Primitive = register(
    Primitive(
        "lu_packed", VIEW, lambda factors, xp=np: factors[..., :-1, :].swapaxes(-1, -2), _infer,
        vjp=lambda ct, out, factors: (of_factors(_of_a(out, lu_permutation(factors), ct)),),
        jvp=lambda tangents, out, factors: _from_a(out, lu_permutation(factors), of_matrix(tangents[0])),
        axes=_packed_axes, masking=True, lower=lambda factors: transposed(of_matrix(factors)),
        domain=_ANY, test={"shapes": ((2, 4, 3),), "of": {0: factors_of}},
    )
)  # fmt: skip


def lu_packed(factors: Atom) -> Var:
    """L and U in one matrix, (..., n, n)."""
    return bind(LU_PACKED, factors)


def _permutation(factors: np.ndarray) -> Any:
    n = factors.shape[1]
    rows = np.arange(n)
    for i, other in enumerate(factors[-1].astype(int)):
        rows[[i, other]] = rows[[other, i]]
    return np.arange(n)[:, None] == rows


LU_PERMUTATION: Primitive = register(
    Primitive(
        "lu_permutation", LAPACK, per_matrix(_permutation, _infer), _infer, axes=matrix_axes("pi", "ij"), domain=_ANY,
        test={"shapes": ((2, 4, 3),), "of": {0: factors_of}},
    )
)  # fmt: skip


def lu_permutation(factors: Atom) -> Var:
    """P as a matrix, (..., n, n)."""
    return bind(LU_PERMUTATION, factors)


def _infer_repacked(lu: Aval, interchanges: Aval) -> Aval:
    *batch, n, _ = lu.shape
    if interchanges.shape != (*batch, 1, n) or interchanges.dtype != lu.dtype:
        raise GraphError(f"factors of {lu} and {interchanges}")
    return Aval(lu.dtype, (*batch, n + 1, n))


LU_REPACKED: Primitive = register(
    Primitive(
        "lu_repacked", VIEW, lambda lu, last, xp=np: xp.concatenate([lu.swapaxes(-1, -2), last], axis=-2),
        _infer_repacked, lower=lambda lu, last: concat([transposed(lu), last], lu.aval.ndim - 2),
        vjp=lambda ct, out, lu, last: (_to_packed(lu, lu_permutation(out), of_matrix(ct)), None),
        jvp=lambda tangents, out, lu, last: of_factors(_to_a(lu, lu_permutation(out), tangents[0])),
        axes=_repacked_axes, masking=True, domain=((1.0, 3.0), (2.5, 2.5)),
        test={"shapes": ((2, 3, 3), (2, 1, 3)), "then": lu_inverse},
    )
)  # fmt: skip


def lu_repacked(lu: Atom, interchanges: Atom) -> Var:
    """The opaque factors of what ``lu_packed`` gives and the *interchanges* (..., 1, n), counted from 0."""
    return bind(LU_REPACKED, lu, interchanges)
