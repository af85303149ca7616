"""The pseudo-inverse, by singular values; its derivative needs no differences of them.

    dP = -P dA P + P P' dA' (1 - A P) + (1 - P A) dA' P' P

as long as the rank stays what it is.  G. H. Golub, V. Pereyra: The differentiation of pseudo-inverses and nonlinear
least squares problems whose variables separate (1973).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import VIEW, Primitive, register
from .complex import conjugate
from .elementwise import F, like
from .linalg import matrix_axes, times
from .linalg_numbers import Field, by_numbers, numbers_of
from .linalg_phases import scaled
from .linalg_svd import Sides, as_packed, of_matrix, packed_svd
from .reduce import expand, reduce
from .shape import slice_axis


def _plain(packed: Any, m: int, n: int, numbers: Field) -> tuple[Any, Any, Any]:
    """U', V and s as plain values, or arrays."""
    sides = Sides(m, n, False)
    ut, vht = numbers.cut(packed, sides.ut, sides.v)
    if isinstance(packed, Var):
        return conjugate(ut), conjugate(vht), slice_axis(packed, packed.aval.ndim - 1, sides.vectors(numbers), sides.k)
    return ut.conj(), vht.conj(), packed[..., sides.vectors(numbers) :]


def _test(numbers: Field) -> dict[str, Any]:
    sides = Sides(4, 3, False)
    return {
        "shapes": ((2, sides.size(numbers)), (2,)), "params": {"m": 4, "n": 3},
        "of": {0: lambda x: packed_svd(of_matrix(x, sides, numbers))},
    }  # fmt: skip


def _infer(numbers: Field, packed: Aval, m: int, n: int) -> Aval:
    return Aval(packed.dtype, (*packed.shape[:-1], m, n * numbers.parts))


# ---- A again -----------------------------------------------------------------------------------------------------


def _product(numbers: Field, packed: Atom, m: int, n: int) -> Atom:
    uh, v, s = _plain(packed, m, n, numbers)
    return numbers.store(times(uh, scaled(v, s), True, True))


def _product_impl(numbers: Field, packed: np.ndarray, m: int, n: int) -> Any:
    uh, v, s = _plain(packed, m, n, numbers)
    return numbers.raw((uh.swapaxes(-1, -2) @ (v * s[..., None, :]).swapaxes(-1, -2)).conj())


SVD_MATRIX = by_numbers(
    lambda numbers: register(
        Primitive(
            f"{numbers.prefix}svd_matrix", VIEW, partial(_product_impl, numbers), partial(_infer, numbers),
            vjp=lambda ct, out, packed, m, n: (as_packed(numbers.load(ct), Sides(m, n, False)),),
            jvp=lambda tangents, out, packed, m, n: numbers.store(
                of_matrix(tangents[0], Sides(m, n, False), numbers)
            ),
            axes=matrix_axes("p", "mn"), lower=partial(_product, numbers), domain=((-3.0, 3.0),),
            test={**_test(numbers), "shapes": _test(numbers)["shapes"][:1]},
        )
    )
)  # fmt: skip


# ---- its pseudo-inverse ------------------------------------------------------------------------------------------


def above(s: Atom, cutoff: Atom) -> Atom:
    """The mask of singular values greater than *cutoff*, a number for all or each matrix, times the largest."""
    shape = s.aval.shape
    least = F.mul(reduce("max", s, (len(shape) - 1,)), cutoff)
    return F.gt(s, expand(least, shape, (len(shape) - 1,)))


def _lower(numbers: Field, packed: Atom, cutoff: Atom, m: int, n: int) -> Atom:
    uh, v, s = _plain(packed, m, n, numbers)
    kept = above(s, cutoff)
    inverse = F.select(kept, F.div(like(1, s), F.select(kept, s, like(1, s))), like(0, s))
    return numbers.store(times(scaled(v, inverse), uh))


def _pinv_impl(numbers: Field, packed: np.ndarray, cutoff: np.ndarray, m: int, n: int) -> Any:
    uh, v, s = _plain(packed, m, n, numbers)
    kept = s > (s.max(-1) * cutoff)[..., None]
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(s.dtype)
    return numbers.raw((v * inverse[..., None, :]) @ uh)


def _vjp(numbers: Field, ct: Atom, out: Var, packed: Atom, cutoff: Atom, m: int, n: int) -> tuple[Atom, None]:
    a = numbers.load(bind(SVD_MATRIX[numbers.parts - 1], packed, m=m, n=n))
    p, g = numbers.load(out), numbers.load(ct)
    back = F.neg(times(times(p, g, True), p, False, True))
    left = times(g, p, True)  # G' P
    left = F.sub(left, times(a, times(p, left)))
    right = times(p, g, False, True)  # P G'
    right = F.sub(right, times(times(right, p), a))
    outer = F.add(times(left, p, False, True), times(p, right, True))
    return as_packed(F.add(back, outer), Sides(m, n, False)), None


def _jvp(numbers: Field, tangents: Any, out: Var, packed: Atom, cutoff: Atom, m: int, n: int) -> Atom | None:
    if tangents[0] is None:
        return None
    a = numbers.load(bind(SVD_MATRIX[numbers.parts - 1], packed, m=m, n=n))
    p, moved = numbers.load(out), of_matrix(tangents[0], Sides(m, n, False), numbers)
    back = F.neg(times(times(p, moved), p))
    left = times(moved, p, True, True)  # dA' P'
    left = F.sub(left, times(p, times(a, left)))
    right = times(p, moved, True, True)  # P' dA'
    right = F.sub(right, times(times(right, a), p))
    return numbers.store(F.add(back, F.add(times(left, p), times(p, right))))


PINV = by_numbers(
    lambda numbers: register(
        Primitive(
            f"{numbers.prefix}pinv", VIEW, partial(_pinv_impl, numbers),
            lambda packed, cutoff, m, n: _infer(numbers, packed, n, m),
            vjp=partial(_vjp, numbers), jvp=partial(_jvp, numbers), axes=matrix_axes("p", "", "nm"),
            lower=partial(_lower, numbers), domain=((-3.0, 3.0), (1e-9, 2e-9)), test=_test(numbers),
        )
    )
)  # fmt: skip


def pinv(a: Atom, cutoff: Atom) -> Atom:
    """The pseudo-inverses of the matrices *a*, without singular values of at most *cutoff* (...,) times the largest."""
    numbers, (m, n) = numbers_of(a), a.aval.shape[-2:]
    return numbers.load(bind(PINV[a.aval.is_complex], packed_svd(a), cutoff, m=m, n=n))
