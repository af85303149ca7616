"""Signs and logarithms of the determinants of complex matrices, as LAPACK and NumPy have them.

With t = tr(inv(A) dA):  d log|det A| = Re t,  d sign = i sign Im t.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.graph import Atom, Pair, Var, bind, lanes
from ..ir.primitive import LAPACK, Primitive, register
from .complex import conjugate, from_blocks
from .elementwise import F
from .linalg import inner_product, lu, lu_inverse, matrix_axes, over_matrices, part, transposed
from .linalg_numbers import COMPLEX
from .shape import concat, reshape


def _infer(a: Aval) -> Aval:
    COMPLEX.order(a, "complex_slogdet")
    return Aval(a.dtype, (*a.shape[:-2], 3))


def _slogdet(a: Any) -> Any:
    sign, log = np.linalg.slogdet(COMPLEX.array(np.asarray(a)))
    return np.stack([sign.real, sign.imag, log], axis=-1)


def _inverse(a: Atom) -> Atom:
    """The transposes of the inverses."""
    z = COMPLEX.load(a)
    return transposed(from_blocks(lu_inverse(lu(z)), z.aval.dtype))


def _vjp(ct: Atom, out: Var, a: Atom) -> tuple[Atom]:
    along, across = part(ct, 2), F.sub(F.mul(part(ct, 1), part(out, 0)), F.mul(part(ct, 0), part(out, 1)))
    inverse = conjugate(_inverse(a))
    re, im = (over_matrices(x, inverse.aval.shape) for x in (along, across))
    return (COMPLEX.store(F.mul(Pair(re, im, inverse.aval.dtype), inverse)),)


def _jvp(tangents: Any, out: Var, a: Atom) -> Atom:
    re, im = lanes(inner_product(_inverse(a), COMPLEX.load(tangents[0])))
    found = (F.neg(F.mul(part(out, 1), im)), F.mul(part(out, 0), im), re)
    return concat([reshape(x, (*x.aval.shape, 1)) for x in found], out.aval.ndim - 1)


COMPLEX_SLOGDET = register(
    Primitive(
        "complex_slogdet", LAPACK, _slogdet, _infer, vjp=_vjp, jvp=_jvp, axes=matrix_axes("ij", "s"),
        domain=((-3.0, 3.0),), test={"shapes": ((2, 3, 6),)},
    )
)  # fmt: skip


def complex_slogdet(z: Atom) -> tuple[Pair, Atom]:
    """The signs and the logarithms of the sizes of the determinants of the complex matrices *z*."""
    found = bind(COMPLEX_SLOGDET, COMPLEX.store(z))
    return Pair(part(found, 0), part(found, 1), z.aval.dtype), part(found, 2)
