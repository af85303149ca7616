"""Determinants by the factors P L U = A, and their derivatives, which singular matrices have, too.

A determinant changes by its adjugate, det(A) inv(A), and that is made of products of pivots, without a division.  The
adjugate itself changes, for A = U diag(s) V', by det(U) det(V) V K U' with, of E = U' dA V,

    K[i, i] = sum over k != i of m[i, k] E[k, k],   K[i, j] = -m[i, j] E[i, j]

where m[i, j] is the product of the singular values but s[i] and s[j].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, VIEW, Primitive, register
from .elementwise import F, like
from .linalg import (
    OF_FACTORS,
    blas,
    diagonal,
    infer_inverse,
    inner_product,
    lu,
    matrix_axes,
    of_factors,
    of_matrix,
    over_matrices,
    part,
    per_matrix,
    routine,
    scaled,
    sign_of,
    transposed,
    triangle,
    unpacked,
)
from .linalg_gaps import along_columns, along_rows, diagonal_mask, diagonal_matrix
from .linalg_lu import lu_permutation
from .linalg_svd import svd
from .product import matmul
from .reduce import expand, reduce
from .shape import full, iota, reshape

_ANY = ((-3.0, 3.0),)
_NOTHING = 1e-30  # in place of singular values that are zero


def _infer_det(factors: Aval) -> Aval:
    return Aval(factors.dtype, factors.shape[:-2])


def _det(factors: np.ndarray) -> Any:
    return np.multiply.reduce(np.diagonal(factors), initial=sign_of(factors))


LU_DET: Primitive = register(
    Primitive(
        "lu_det", LAPACK, per_matrix(_det, _infer_det), _infer_det,
        vjp=lambda ct, out, factors: (of_factors(scaled(ct, transposed(lu_adjugate(factors)))),),
        jvp=lambda tangents, out, factors: inner_product(of_matrix(tangents[0]), transposed(lu_adjugate(factors))),
        axes=matrix_axes("pi", ""), domain=_ANY, test=OF_FACTORS,
    )
)  # fmt: skip


def lu_det(factors: Atom) -> Var:
    """The determinants of the matrices with these factors."""
    return bind(LU_DET, factors)


def _adjugate(factors: np.ndarray) -> Any:
    """det(A) inv(A), by which a determinant changes, for singular matrices too: without a division.

    Of U it is Pre[i] Post[j] c[i, j] for i <= j, where Pre and Post are products of pivots before i and after j, and c
    is minus the sum of u[i, k] u[i + 1] ... u[k - 1] c[k, j] over k from i + 1 to j.
    """
    (packed, interchanges), n = unpacked(factors), factors.shape[1]
    upper, u = np.triu(packed), np.diagonal(packed)
    c = np.eye(n, dtype=packed.dtype)
    for i in range(n - 2, -1, -1):
        between = np.multiply.accumulate([1, *u[i + 1 : -1]])
        c[i, i + 1 :] = -((upper[i, i + 1 :] * between) @ c[i + 1 :, i + 1 :])
    before, after = np.multiply.accumulate([1, *u[:-1]]), np.multiply.accumulate([1, *u[:0:-1]])[::-1]
    found = sign_of(factors) * before[:, None] * after * c
    found = routine(blas, "trsm", packed.dtype)(1, packed, found, side=1, lower=1, diag=1)  # times inv(L)
    for i in range(n - 1, -1, -1):  # times P.T
        found[:, [i, interchanges[i]]] = found[:, [interchanges[i], i]]
    return found


LU_ADJUGATE: Primitive = register(
    Primitive(
        "lu_adjugate", LAPACK, per_matrix(_adjugate, infer_inverse), infer_inverse,
        vjp=lambda ct, out, factors: (of_factors(_adjugate_change(lu_matrix(factors), ct, True)),),
        jvp=lambda tangents, out, factors: _adjugate_change(lu_matrix(factors), of_matrix(tangents[0]), False),
        axes=matrix_axes("pi", "ji"), domain=_ANY,
        test=OF_FACTORS,
    )
)  # fmt: skip


def lu_adjugate(factors: Atom) -> Var:
    """det(A) inv(A) of the matrices with these factors, singular ones too."""
    return bind(LU_ADJUGATE, factors)


# ---- the derivative of the adjugate --------------------------------------------------------------------------------


def _unit(x: Atom) -> Atom:
    """Unit matrices of the shape of *x*."""
    return F.select(diagonal_mask(x.aval.shape), full(like(1, x), x.aval.shape), like(0, x))


def _again(factors: Atom) -> Atom:
    packed = transposed(of_matrix(factors))
    lower = F.add(triangle(packed, True, False), _unit(packed))
    return matmul(lu_permutation(factors), matmul(lower, triangle(packed, False)))


def _again_impl(factors: np.ndarray) -> Any:
    packed, interchanges = unpacked(factors)
    found = (np.tril(packed, -1) + np.eye(len(packed), dtype=packed.dtype)) @ np.triu(packed)
    for i in range(len(packed) - 1, -1, -1):
        found[[i, interchanges[i]]] = found[[interchanges[i], i]]
    return found


LU_MATRIX: Primitive = register(
    Primitive(
        "lu_matrix", VIEW, per_matrix(_again_impl, infer_inverse), infer_inverse,
        vjp=lambda ct, out, factors: (of_factors(ct),), jvp=lambda tangents, out, factors: of_matrix(tangents[0]),
        axes=matrix_axes("pi", "ij"), lower=_again, domain=_ANY, test=OF_FACTORS,
    )
)  # fmt: skip


def lu_matrix(factors: Atom) -> Var:
    """A again."""
    return bind(LU_MATRIX, factors)


def _adjugate_change(a: Atom, x: Atom, trans: bool) -> Atom:
    """The change of the adjugates of *a* with them, in direction *x*; with *trans* the transpose of that map."""
    n = a.aval.shape[-1]
    if n <= 2:
        return F.sub(scaled(_trace(x), _unit(x)), x) if n == 2 else F.mul(x, like(0, x))
    if n == 3:
        return _change_of_three(transposed(a) if trans else a, x)
    u, s, vh = svd(a)
    if trans:  # of the transposes
        u, vh = transposed(vh), transposed(u)
    others = _products_of_others(s, x.aval.shape)
    inner = matmul(matmul(u, x, True, False), vh, False, True)
    own = diagonal(inner)
    own = reshape(matmul(others, reshape(own, (*own.aval.shape, 1))), own.aval.shape)
    turns = F.stop_gradient(F.mul(lu_det(lu(u)), lu_det(lu(vh))))
    found = matmul(matmul(vh, F.sub(diagonal_matrix(own), F.mul(others, inner)), True, False), u, False, True)
    return scaled(turns, found)


def _products_of_others(s: Atom, shape: tuple[int, ...]) -> Atom:
    """m[..., i, j], the products of all of *s* but s[i] and s[j]; 0 where i = j.

    The last two, which may be zero, are factors; logarithms of the others are added up.
    """
    n, axis = shape[-1], len(shape) - 2
    place = expand(iota(n), s.aval.shape, tuple(range(axis)))
    large = F.lt(place, like(n - 2, place))
    logs = F.log(F.add(s, F.select(F.lt(s, like(_NOTHING, s)), like(_NOTHING, s), like(0, s))))
    logs = F.select(large, logs, like(0, logs))
    total = over_matrices(reduce("sum", logs, (axis,)), shape)
    found = F.exp(F.sub(total, F.add(along_rows(logs, shape), along_columns(logs, shape))))
    for k in (n - 2, n - 1):
        own = F.eq(place, like(k, place))
        taken = F.logical_or(along_rows(own, shape), along_columns(own, shape))
        found = F.mul(found, F.select(taken, like(1, found), over_matrices(part(s, k), shape)))
    return F.select(diagonal_mask(shape), like(0, found), found)


def _trace(x: Atom) -> Atom:
    return reduce("sum", diagonal(x), (x.aval.ndim - 2,))


def _change_of_three(a: Atom, x: Atom) -> Atom:
    """By Cayley and Hamilton: the adjugate is A A - tr(A) A + (tr(A)^2 - tr(A A)) / 2."""
    found = F.add(matmul(a, x), matmul(x, a))
    found = F.sub(found, F.add(scaled(_trace(a), x), scaled(_trace(x), a)))
    rest = F.sub(F.mul(_trace(a), _trace(x)), inner_product(a, transposed(x)))
    return F.add(found, scaled(rest, _unit(a)))
