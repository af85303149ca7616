"""The pseudo-inverse, by singular values; its derivative needs no differences of them.

    dP = -P dA P + P P' dA' (1 - A P) + (1 - P A) dA' P' P

as long as the rank stays what it is.  G. H. Golub, V. Pereyra: The differentiation of pseudo-inverses and nonlinear
least squares problems whose variables separate (1973).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import VIEW, Primitive, register
from .elementwise import F, like
from .linalg import matrix_axes
from .linalg_gaps import along_rows
from .linalg_svd import Sides, as_packed, cut, of_matrix, packed_svd
from .product import matmul
from .reduce import expand, reduce


def _plain(packed: Atom, m: int, n: int) -> tuple[Atom, Atom, Atom]:
    """U', V and s as plain values."""
    sides = Sides(m, n, False)
    ut, v, s = cut(packed, sides.ut, sides.v, (sides.k,))
    return ut, v, s


# ---- A again -----------------------------------------------------------------------------------------------------


def _product(packed: Atom, m: int, n: int) -> Atom:
    ut, v, s = _plain(packed, m, n)
    return matmul(ut, F.mul(v, along_rows(s, v.aval.shape)), True, True)


def _product_impl(packed: np.ndarray, m: int, n: int) -> Any:
    ut, v, s = cut(packed, *_shapes(m, n))
    return ut.swapaxes(-1, -2) @ (v * s[..., None, :]).swapaxes(-1, -2)


def _shapes(m: int, n: int) -> tuple[tuple[int, ...], ...]:
    sides = Sides(m, n, False)
    return sides.ut, sides.v, (sides.k,)


SVD_MATRIX = register(
    Primitive(
        "svd_matrix", VIEW, _product_impl, lambda packed, m, n: Aval(packed.dtype, (*packed.shape[:-1], m, n)),
        vjp=lambda ct, out, packed, m, n: (as_packed(ct, Sides(m, n, False)),),
        jvp=lambda tangents, out, packed, m, n: of_matrix(tangents[0], Sides(m, n, False)),
        axes=matrix_axes("p", "mn"), lower=_product, domain=((-3.0, 3.0),),
        test={
            "shapes": ((2, 24),), "params": {"m": 4, "n": 3},
            "of": {0: lambda x: packed_svd(of_matrix(x, Sides(4, 3, False)))},
        },
    )
)  # fmt: skip


# ---- its pseudo-inverse ------------------------------------------------------------------------------------------


def above(s: Atom, cutoff: Atom) -> Atom:
    """The mask of singular values greater than *cutoff*, a number for all or each matrix, times the largest."""
    shape = s.aval.shape
    least = F.mul(reduce("max", s, (len(shape) - 1,)), cutoff)
    return F.gt(s, expand(least, shape, (len(shape) - 1,)))


def _lower(packed: Atom, cutoff: Atom, m: int, n: int) -> Atom:
    ut, v, s = _plain(packed, m, n)
    kept = above(s, cutoff)
    inverse = F.select(kept, F.div(like(1, s), F.select(kept, s, like(1, s))), like(0, s))
    return matmul(F.mul(v, along_rows(inverse, v.aval.shape)), ut)


def _pinv_impl(packed: np.ndarray, cutoff: np.ndarray, m: int, n: int) -> Any:
    ut, v, s = cut(packed, *_shapes(m, n))
    kept = s > (s.max(-1) * cutoff)[..., None]
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(s.dtype)
    return (v * inverse[..., None, :]) @ ut


def _vjp(ct: Atom, out: Var, packed: Atom, cutoff: Atom, m: int, n: int) -> tuple[Atom, None]:
    a = bind(SVD_MATRIX, packed, m=m, n=n)
    back = F.neg(matmul(matmul(out, ct, True, False), out, False, True))
    left = matmul(ct, out, True, False)  # G' P
    left = F.sub(left, matmul(a, matmul(out, left)))
    right = matmul(out, ct, False, True)  # P G'
    right = F.sub(right, matmul(matmul(right, out), a))
    outer = F.add(matmul(left, out, False, True), matmul(out, right, True, False))
    return as_packed(F.add(back, outer), Sides(m, n, False)), None


def _jvp(tangents: Any, out: Var, packed: Atom, cutoff: Atom, m: int, n: int) -> Atom | None:
    if tangents[0] is None:
        return None
    a, moved = bind(SVD_MATRIX, packed, m=m, n=n), of_matrix(tangents[0], Sides(m, n, False))
    back = F.neg(matmul(matmul(out, moved), out))
    left = matmul(moved, out, True, True)  # dA' P'
    left = F.sub(left, matmul(out, matmul(a, left)))
    right = matmul(out, moved, True, True)  # P' dA'
    right = F.sub(right, matmul(matmul(right, a), out))
    return F.add(back, F.add(matmul(left, out), matmul(out, right)))


PINV = register(
    Primitive(
        "pinv", VIEW, _pinv_impl, lambda packed, cutoff, m, n: Aval(packed.dtype, (*packed.shape[:-1], n, m)),
        vjp=_vjp, jvp=_jvp, axes=matrix_axes("p", "", "nm"), lower=_lower,
        domain=((-3.0, 3.0), (1e-9, 2e-9)),
        test={
            "shapes": ((2, 24), (2,)), "params": {"m": 4, "n": 3},
            "of": {0: lambda x: packed_svd(of_matrix(x, Sides(4, 3, False)))},
        },
    )
)  # fmt: skip


def pinv(packed: Atom, m: int, n: int, cutoff: Atom) -> Atom:
    """The pseudo-inverses of the matrices (..., m, n) with these factors, without singular values of at most *cutoff*
    (...,) times the largest."""
    return bind(PINV, packed, cutoff, m=m, n=n)
