"""The factors of P L U = A as values that are not opaque, and back (``linalg.py``).

``lu_packed`` gives L below the diagonal and U from it on in one matrix, as LAPACK and SciPy have them; its derivative
is that of L and U.  ``lu_repacked`` takes such a matrix back.  ``complex_lu`` gives those of complex matrices in rows 0
to n - 1 of (..., n + 1, 2 n), by the same rules; its last row begins with the interchanges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.axes import JOINED, PART, Axes, Params, Shape, Shapes
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from .complex import by_lane, conjugate
from .elementwise import F, like
from .linalg import (
    factors_of,
    lapack,
    lu,
    lu_inverse,
    lu_solve,
    matrix_axes,
    of_factors,
    of_matrix,
    per_matrix,
    routine,
    solve_triangular,
    times,
    transposed,
    triangle,
)
from .linalg_numbers import COMPLEX
from .product import matmul
from .shape import concat, full, slice_axis

_ANY = ((-3.0, 3.0),)


def _infer(factors: Aval) -> Aval:
    *batch, _, n = factors.shape
    return Aval(factors.dtype, (*batch, n, n))


def _join(below: Atom, above: Atom) -> Atom:
    """The triangles of two matrices: strictly below the diagonal, and from it on."""
    return F.add(triangle(below, True, False), triangle(above, False))


def _unit_times(lu: Atom, x: Atom, by_adjoint: bool) -> Atom:
    """L x, or L' x."""
    return F.add(x, times(triangle(lu, True, False), x, by_adjoint))


def permuted(permutation: Atom, x: Atom, back: bool = False) -> Atom:
    """P x, or P' x."""
    return by_lane(lambda v: matmul(permutation, v, back, False), x)


def _of_a(lu: Atom, permutation: Atom, x: Atom) -> Atom:
    """The cotangent of A for one *x* of the packed L and U."""
    upper, turned = triangle(lu, False), conjugate(lu)
    inner = _join(_unit_times(lu, triangle(x, True, False), True), times(triangle(x, False), upper, False, True))
    inner = solve_triangular(turned, inner, True, True, True)
    return permuted(permutation, solve_triangular(turned, inner, False, True, False, True))


def _to_a(lu: Atom, permutation: Atom, x: Atom) -> Atom:
    """The tangent of A for one *x* of the packed L and U."""
    moved = _unit_times(lu, triangle(x, False), False)
    return matmul(permutation, F.add(matmul(triangle(x, True, False), triangle(lu, False)), moved))


def _from_a(lu: Atom, permutation: Atom, x: Atom) -> Atom:
    """The tangent of the packed L and U for one *x* of A."""
    inner = solve_triangular(lu, permuted(permutation, x, True), True, False, True)
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


def _infer_complex(a: Aval) -> Aval:
    n = COMPLEX.order(a, "lu")
    return Aval(a.dtype, (*a.shape[:-2], n + 1, 2 * n))


def _complex(a: np.ndarray) -> Any:
    found = np.zeros((len(a) + 1, a.shape[1]), a.dtype)
    factors, interchanges, _ = routine(lapack, "getrf", COMPLEX.array(a).dtype)(COMPLEX.array(a))
    found[:-1], found[-1, : len(a)] = COMPLEX.raw(factors), interchanges
    return found


COMPLEX_LU: Primitive = register(
    Primitive(
        "complex_lu", LAPACK, per_matrix(_complex, _infer_complex), _infer_complex,
        vjp=lambda ct, out, a: (
            COMPLEX.store(_of_a(_lu_of(out), lu_permutation(_first_half(out)), _lu_of(ct))),
        ),
        jvp=lambda tangents, out, a: of_factors(
            COMPLEX.store(_from_a(_lu_of(out), lu_permutation(_first_half(out)), COMPLEX.load(tangents[0])))
        ),
        axes=matrix_axes("ij", "pj"), masking=True, domain=_ANY, test={"shapes": ((2, 3, 6),)},
    )
)  # fmt: skip


def _lu_of(packed: Atom) -> Atom:
    return COMPLEX.load(of_matrix(packed))


def _first_half(packed: Atom) -> Atom:
    """The columns that have the interchanges, as factors of real matrices have them."""
    return slice_axis(F.stop_gradient(packed), packed.aval.ndim - 1, 0, packed.aval.shape[-1] // 2)


def lu_parts(a: Atom) -> tuple[Atom, Atom, Atom]:
    """L and U in one matrix, the interchanges (..., 1, n) and P, of real or complex matrices."""
    if a.aval.is_complex:
        packed = bind(COMPLEX_LU, COMPLEX.store(a))
        factors, found = _first_half(packed), _lu_of(packed)
    else:
        factors = lu(a)
        found = lu_packed(factors)
    n = a.aval.shape[-1]
    last = slice_axis(F.stop_gradient(factors), factors.aval.ndim - 2, n, 1)
    return found, last, lu_permutation(factors)


def solve_by_lu(packed: Atom, interchanges: Atom, b: Atom, trans: bool) -> Atom:
    """The solutions of A x = b, or A.T x = b, for L and U in one matrix and the *interchanges* (..., 1, n)."""
    if not packed.aval.is_complex:
        return lu_solve(lu_repacked(packed, interchanges), b, trans)
    *batch, n, _ = packed.aval.shape
    permutation = lu_permutation(
        concat([full(like(0, interchanges), (*batch, n, n)), F.stop_gradient(interchanges)], len(batch))
    )
    if trans:
        return permuted(permutation, _by_both(packed, b, (False, True), True))
    return _by_both(packed, permuted(permutation, b, True), (True, False), False)


def _by_both(packed: Atom, b: Atom, lower: tuple[bool, bool], trans: bool) -> Atom:
    for below in lower:
        b = solve_triangular(packed, b, below, trans, below)
    return b


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
