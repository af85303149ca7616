"""Linear algebra: factorisations, and solutions, inverses and determinants that are made of them.

All work on the last two axes, for each matrix of a batch.  A matrix is factorised once: derivatives of what is made of
its factors are made of the same factors.

``lu`` packs the factors P L U = A into one value of shape (..., n + 1, n): row j < n is column j of L and U as LAPACK
lays them out, the last row has the interchanges, counted from 0.  That value is opaque.  Only the functions here read
it, and its cotangents and tangents are those of A, in rows 0 to n - 1: A and its factors determine each other, so this
is a choice of coordinates.  So the derivative of a solution does not go through the factors.

Right-hand sides are matrices, (..., n, k); that of a vector has k = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.axes import UNKNOWN, Axes, AxesRule, Params, Shape, Shapes
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.late_modules import LateModule
from ..ir.primitive import LAPACK, Primitive, register
from .complex import conjugate
from .elementwise import BROADCAST, F, like
from .product import matmul
from .reduce import expand, reduce
from .shape import PAD, RESHAPE, SLICE, iota, reshape, transpose

blas: Any = LateModule("scipy.linalg.blas")
lapack: Any = LateModule("scipy.linalg.lapack")

_ANY = ((-3.0, 3.0),)


def order(x: Aval, what: str) -> int:
    """The order n of the matrices *x*, (..., n, n)."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise GraphError(f"{what} of {x}")
    return x.shape[-1]


def matrix_axes(*sides: str) -> AxesRule:
    """The rule of an operation on each matrix of a batch.  *sides* has a letter for each axis of a matrix, for each
    operand and then the result; axes of one letter are equally long.  Along k, right-hand sides are independent."""

    def rule(shapes: Shapes, shape: Shape, params: Params) -> Axes:
        rank = len(shape)
        batch = range(rank - len(sides[-1]))
        known = {name: len(batch) + k for k, name in enumerate(sides[-1])}
        inner = iter(range(rank, rank + 9))
        operands = [
            (*batch, *[known[name] if name in known else known.setdefault(name, next(inner)) for name in side])
            for side in sides[:-1]
        ]
        return Axes(tuple(operands), {b: UNKNOWN for name, b in known.items() if b < rank and name != "k"})

    return rule


def per_matrix(function: Callable[..., Any], infer: Callable[..., Aval]) -> Callable[..., Any]:
    """*function* of matrices as one of batches of them."""

    def impl(*operands: Any, **params: Any) -> Any:
        arrays = [np.asarray(x) for x in operands]
        out = infer(*[Aval(x.dtype, x.shape) for x in arrays], **params)
        result = np.zeros(out.shape, out.dtype)
        if result.size:
            for at in np.ndindex(arrays[0].shape[:-2]):
                result[at] = function(*[x[at] for x in arrays], **params)
        return result

    return impl


def routine(module: Any, name: str, dtype: np.dtype) -> Any:
    """LAPACK's or BLAS's *name* for *dtype*."""
    return getattr(module, {"f": "s", "d": "d", "F": "c", "D": "z"}[dtype.char] + name)


def transposed(x: Atom) -> Atom:
    """The transposes of the matrices *x*."""
    n = x.aval.ndim
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def adjoint(x: Atom) -> Atom:
    """The conjugates of the transposes."""
    return conjugate(transposed(x))


def times(x: Atom, y: Atom, adjoint_x: bool = False, adjoint_y: bool = False) -> Atom:
    """x @ y, or with their adjoints."""
    return matmul(conjugate(x) if adjoint_x else x, conjugate(y) if adjoint_y else y, adjoint_x, adjoint_y)


def symmetric_part(x: Atom) -> Atom:
    return F.mul(like(0.5, x), F.add(x, transposed(x)))


def hermitian_part(x: Atom) -> Atom:
    """(x + x') / 2"""
    return F.mul(like(0.5, x), F.add(x, adjoint(x)))


def skew_part(x: Atom) -> Atom:
    """(x - x') / 2"""
    return F.mul(like(0.5, x), F.sub(x, adjoint(x)))


def triangle(x: Atom, lower: bool, diagonal: bool = True) -> Atom:
    """The matrices *x* with zeros above (or below) the diagonal, or from it on."""
    shape = x.aval.shape
    rank = len(shape)
    rows = expand(iota(shape[-2]), shape[-2:], (1,))
    columns = expand(iota(shape[-1]), shape[-2:], (0,))
    kept = {(True, True): F.ge, (True, False): F.gt, (False, True): F.le, (False, False): F.lt}[lower, diagonal]
    mask = kept(rows, columns)
    if rank > 2:
        mask = expand(mask, shape, tuple(range(rank - 2)))
    return F.select(mask, x, like(0, x))


def over_matrices(x: Atom, shape: tuple[int, ...]) -> Var:
    """A number for each matrix, stretched over the matrices of *shape*."""
    return bind(BROADCAST, x, shape=shape, dims=tuple(range(len(shape) - 2)))


def inner_product(x: Atom, y: Atom) -> Atom:
    """The sum of x * y over each matrix."""
    n = x.aval.ndim
    return reduce("sum", F.mul(x, y), (n - 2, n - 1))


# ---- P L U = A ---------------------------------------------------------------------------------------------------


def _infer_lu(a: Aval) -> Aval:
    n = order(a, "lu")
    return Aval(a.dtype, (*a.shape[:-2], n + 1, n))


def _factorise(a: np.ndarray) -> np.ndarray:
    factors, pivots, _ = routine(lapack, "getrf", a.dtype)(a)
    return np.vstack([factors.T, pivots])


def _factorise_all(a: Any) -> Any:
    """As ``_factorise``, of many small matrices at once."""
    a = np.asarray(a)
    n = a.shape[-1]
    count = a[..., 0, 0].size if n else 0
    if n > 8 or count < 16:
        return _factorise_each(a)
    rows = a.reshape(count, n, n).copy()
    found = np.empty((count, n + 1, n), a.dtype)
    each = np.arange(count)
    with np.errstate(all="ignore"):
        for k in range(n):
            best = np.argmax(np.abs(rows[:, k:, k]), axis=1) + k
            chosen = rows[each, best]
            rows[each, best] = rows[:, k]
            rows[:, k] = chosen
            found[:, n, k] = best
            pivot = rows[:, k, k]
            rows[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)[:, None]
            rows[:, k + 1 :, k + 1 :] -= rows[:, k + 1 :, k, None] * rows[:, k, None, k + 1 :]
    found[:, :n] = rows.swapaxes(-1, -2)
    return found.reshape(*a.shape[:-2], n + 1, n)


_factorise_each = per_matrix(_factorise, _infer_lu)


def unpacked(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return factors[:-1].T, factors[-1].astype(np.int32)


def of_factors(x: Atom) -> Var:
    """A cotangent or tangent *x* of A as one of its factors."""
    shape = (*x.aval.shape[:-2], x.aval.shape[-2] + 1, x.aval.shape[-1])
    return bind(PAD, x, start=(0,) * len(shape), step=(1,) * len(shape), shape=shape)


def of_matrix(x: Atom) -> Var:
    """A cotangent or tangent *x* of the factors as one of A."""
    shape = (*x.aval.shape[:-2], x.aval.shape[-2] - 1, x.aval.shape[-1])
    return bind(SLICE, x, start=(0,) * len(shape), step=(1,) * len(shape), shape=shape)


LU: Primitive = register(
    Primitive(
        "lu", LAPACK, _factorise_all, _infer_lu, vjp=lambda ct, out, a: (of_matrix(ct),),
        jvp=lambda tangents, out, a: of_factors(tangents[0]), axes=matrix_axes("ij", "pj"),
        domain=_ANY, test={"shapes": ((2, 3, 3),), "then": lambda out: lu_inverse(out)},
    )
)  # fmt: skip


def lu(a: Atom) -> Var:
    """The factors of the matrices *a*, (..., n, n), packed: (..., n + 1, n)."""
    return bind(LU, a)


def pivots(factors: Atom) -> Atom:
    """The diagonals of U, (..., n): without a zero unless A is singular.  They have no derivative."""
    return diagonal(of_matrix(F.stop_gradient(factors)))


def diagonal(x: Atom) -> Atom:
    """The diagonals (..., n) of the matrices *x*."""
    *batch, n, _ = x.aval.shape
    rank = len(batch) + 1
    flat = bind(RESHAPE, x, shape=(*batch, n * n))
    step = n + 1 if n > 1 else 1
    return bind(SLICE, flat, start=(0,) * rank, step=(*[1] * len(batch), step), shape=(*batch, n))


def factors_of(carrier: Atom) -> Var:
    """The factors of the matrices in rows 0 to n - 1 of *carrier*, for tests."""
    return lu(of_matrix(carrier))


OF_FACTORS: dict[str, Any] = {"shapes": ((2, 4, 3),), "of": {0: factors_of}}


# ---- what is made of the factors ---------------------------------------------------------------------------------


def _infer_solve(factors: Aval, b: Aval, trans: bool) -> Aval:
    if b.shape[:-1] != (*factors.shape[:-2], factors.shape[-1]) or b.dtype != factors.dtype:
        raise GraphError(f"solution of {b} by {factors}")
    return Aval(b.dtype, b.shape)


def _solve(factors: np.ndarray, b: np.ndarray, trans: bool) -> Any:
    return routine(lapack, "getrs", b.dtype)(*unpacked(factors), b, trans=int(trans))[0]


def _solve_vjp(ct: Atom, out: Var, factors: Atom, b: Atom, trans: bool) -> tuple[Var, Var]:
    w = lu_solve(factors, ct, not trans)
    of_a = matmul(out, w, False, True) if trans else matmul(w, out, False, True)
    return of_factors(F.neg(of_a)), w


def _solve_jvp(tangents: Any, out: Var, factors: Atom, b: Atom, trans: bool) -> Var:
    of_factors, of_b = tangents
    moved = None if of_factors is None else matmul(of_matrix(of_factors), out, trans, False)
    return lu_solve(factors, F.neg(moved) if of_b is None else of_b if moved is None else of_b - moved, trans)


LU_SOLVE: Primitive = register(
    Primitive(
        "lu_solve", LAPACK, per_matrix(_solve, _infer_solve), _infer_solve, vjp=_solve_vjp, jvp=_solve_jvp,
        axes=matrix_axes("pi", "ik", "ik"), domain=_ANY * 2,
        test={"shapes": ((2, 4, 3), (2, 3, 2)), "params": {"trans": True}, "of": {0: factors_of}},
    )
)  # fmt: skip


def lu_solve(factors: Atom, b: Atom, trans: bool = False) -> Var:
    """The solutions X of A X = b, or A.T X = b with *trans*, for b of shape (..., n, k)."""
    return bind(LU_SOLVE, factors, b, trans=trans)


def infer_inverse(factors: Aval) -> Aval:
    *batch, _, n = factors.shape
    return Aval(factors.dtype, (*batch, n, n))


def _inverse(factors: np.ndarray) -> Any:
    return _solve(factors, np.eye(factors.shape[1], dtype=factors.dtype), False)


LU_INVERSE: Primitive = register(
    Primitive(
        "lu_inverse", LAPACK, per_matrix(_inverse, infer_inverse), infer_inverse,
        vjp=lambda ct, out, factors: (
            of_factors(F.neg(matmul(matmul(out, ct, True, False), out, False, True))),
        ),
        jvp=lambda tangents, out, factors: F.neg(matmul(matmul(out, of_matrix(tangents[0])), out)),
        axes=matrix_axes("pi", "ji"), domain=_ANY, test=OF_FACTORS,
    )
)  # fmt: skip


def lu_inverse(factors: Atom) -> Var:
    """The inverses of the matrices with these factors."""
    return bind(LU_INVERSE, factors)


def sign_of(factors: np.ndarray) -> Any:
    """The sign of the permutation."""
    n = factors.shape[1]
    return 1 - 2 * (np.count_nonzero(factors[n] != np.arange(n)) % 2)


def scaled(number: Atom, x: Atom) -> Atom:
    """The matrices *x*, each times a number."""
    return F.mul(over_matrices(number, x.aval.shape), x)


def _infer_slogdet(factors: Aval) -> Aval:
    return Aval(factors.dtype, (*factors.shape[:-2], 2))


def _slogdet(factors: np.ndarray) -> Any:
    u = np.diagonal(factors)
    with np.errstate(divide="ignore"):
        return np.multiply.reduce(np.sign(u), initial=sign_of(factors)), np.log(np.abs(u)).sum()


def part(x: Atom, k: int) -> Atom:
    """x[..., k]"""
    shape = x.aval.shape
    taken = bind(SLICE, x, start=(*[0] * (len(shape) - 1), k), step=(1,) * len(shape), shape=(*shape[:-1], 1))
    return reshape(taken, shape[:-1])


def _slogdet_vjp(ct: Atom, out: Var, factors: Atom) -> tuple[Var]:
    return (of_factors(scaled(part(ct, 1), transposed(lu_inverse(factors)))),)


def _slogdet_jvp(tangents: Any, out: Var, factors: Atom) -> Atom:
    of_log = inner_product(of_matrix(tangents[0]), transposed(lu_inverse(factors)))
    shape = (*of_log.aval.shape, 1)
    start = (*[0] * len(of_log.aval.shape), 1)
    return bind(PAD, reshape(of_log, shape), start=start, step=(1,) * len(shape), shape=out.aval.shape)


LU_SLOGDET: Primitive = register(
    Primitive(
        "lu_slogdet", LAPACK, per_matrix(_slogdet, _infer_slogdet), _infer_slogdet,
        vjp=_slogdet_vjp, jvp=_slogdet_jvp, axes=matrix_axes("pi", "s"), domain=_ANY,
        test=OF_FACTORS,
    )
)  # fmt: skip


def lu_slogdet(factors: Atom) -> Var:
    """The signs and the logarithms of the sizes of the determinants, (..., 2)."""
    return bind(LU_SLOGDET, factors)


# ---- triangular matrices -----------------------------------------------------------------------------------------


def _infer_triangular(a: Aval, b: Aval, lower: bool, trans: bool, unit: bool, right: bool) -> Aval:
    n = order(a, "solve_triangular")
    if b.shape[:-2] != a.shape[:-2] or b.shape[-1 if right else -2] != n or b.dtype != a.dtype:
        raise GraphError(f"solution of {b} by triangular {a}")
    return Aval(b.dtype, b.shape)


def _triangular(a: np.ndarray, b: np.ndarray, lower: bool, trans: bool, unit: bool, right: bool) -> Any:
    solve = routine(blas, "trsm", a.dtype)
    return solve(1, a, b, side=int(right), lower=int(lower), trans_a=int(trans), diag=int(unit))


def _triangular_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    return (_RIGHT if params["right"] else _LEFT)(shapes, shape, params)


_LEFT, _RIGHT = matrix_axes("ij", "ik", "ik"), matrix_axes("ij", "kj", "kj")


def _triangular_vjp(
    ct: Atom, out: Var, a: Atom, b: Atom, lower: bool, trans: bool, unit: bool, right: bool
) -> tuple[Atom, Atom]:
    w = solve_triangular(a, ct, lower, not trans, unit, right)
    first, second = (out, w) if trans != right else (w, out)
    of_a = matmul(first, second, right, not right)
    return triangle(F.neg(of_a), lower, not unit), w


def _triangular_jvp(
    tangents: Any, out: Var, a: Atom, b: Atom, lower: bool, trans: bool, unit: bool, right: bool
) -> Var:
    of_a, of_b = tangents
    if of_a is not None:
        of_a = triangle(of_a, lower, not unit)
        moved = matmul(out, of_a, False, trans) if right else matmul(of_a, out, trans, False)
        of_b = F.neg(moved) if of_b is None else of_b - moved
    return solve_triangular(a, of_b, lower, trans, unit, right)


SOLVE_TRIANGULAR: Primitive = register(
    Primitive(
        "solve_triangular", LAPACK, per_matrix(_triangular, _infer_triangular), _infer_triangular,
        vjp=_triangular_vjp, jvp=_triangular_jvp, axes=_triangular_axes, masking=True, domain=((1.0, 3.0), (-3.0, 3.0)),
        test={
            "shapes": ((2, 3, 3), (2, 3, 2)),
            "params": {"lower": True, "trans": False, "unit": False, "right": False},
        },
    )
)  # fmt: skip


def solve_triangular(
    a: Atom, b: Atom, lower: bool, trans: bool = False, unit: bool = False, right: bool = False
) -> Var:
    """The solutions X of T X = b, or of X T = b with *right*, where T is the lower or upper triangle of *a*, or its
    transpose; with *unit* its diagonal is 1."""
    return bind(SOLVE_TRIANGULAR, a, b, lower=lower, trans=trans, unit=unit, right=right)
