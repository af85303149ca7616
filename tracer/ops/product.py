"""Matrix products.

``matmul`` is a batch of matrix-matrix products with optional transposes, done by BLAS.  Products with a vector are
written as a multiplication and a reduction, so that they fuse: ``X @ w`` and the ``X.T @ r`` after it share one pass
over X.

``matmulz`` is the product in which zero times anything is zero, as in ``mulz``: many such products with vectors at once
are one (``codegen/derive/batched_products.py``).  It is a product by BLAS, of which what is NaN is computed again.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.axes import Axes, Params, Shape, Shapes
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import PRODUCT, Primitive, register
from .elementwise import BROADCAST
from .reduce import REDUCE_SUM


def _swap(x: Any, flag: bool) -> Any:
    return x.swapaxes(-1, -2) if flag else x


def _sides(shape: tuple[int, ...], flag: bool) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if flag else (shape[-2], shape[-1])


def _infer(x: Aval, y: Aval, ta: bool, tb: bool) -> Aval:
    rows, inner = _sides(x.shape, ta)
    inner2, columns = _sides(y.shape, tb)
    if inner != inner2 or x.shape[:-2] != y.shape[:-2] or x.dtype != y.dtype:
        raise GraphError(f"matmul of {x} and {y} with ta={ta}, tb={tb}")
    return Aval(x.dtype, (*x.shape[:-2], rows, columns))


def _axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    rows, columns, inner = range(len(shape) - 2, len(shape) + 1)
    batch = range(rows)
    x, y = (rows, inner), (inner, columns)
    return Axes(((*batch, *(x[::-1] if params["ta"] else x)), (*batch, *(y[::-1] if params["tb"] else y))))


def matmul(x: Atom, y: Atom, ta: bool = False, tb: bool = False) -> Var:
    """x @ y over the last two axes; the batch axes before them are equal; ta, tb: that operand is stored transposed."""
    return bind(MATMUL, x, y, ta=ta, tb=tb)


def matmulz(x: Atom, y: Atom, ta: bool = False, tb: bool = False) -> Var:
    """As ``matmul``, with zero times anything zero."""
    return bind(MATMULZ, x, y, ta=ta, tb=tb)


def _vjp(times: Any, ct: Var, out: Var, x: Atom, y: Atom, ta: bool, tb: bool) -> tuple[Var, Var]:
    dx = times(y, ct, tb, True) if ta else times(ct, y, False, not tb)
    dy = times(ct, x, True, ta) if tb else times(x, ct, not ta, False)
    return dx, dy


def _jvp(times: Any, tangents: Any, out: Var, x: Atom, y: Atom, ta: bool, tb: bool) -> Var:
    tx, ty = tangents
    first = None if tx is None else times(tx, y, ta, tb)
    second = None if ty is None else times(x, ty, ta, tb)
    return second if first is None else first if second is None else first + second  # type: ignore[return-value]


def _matmulz(x: Any, y: Any, ta: bool, tb: bool, xp: Any = np) -> Any:
    x, y = _swap(x, ta), _swap(y, tb)
    found = xp.matmul(x, y)
    if xp is np and not np.isnan(found).any():
        return found
    return xp.where(xp.isnan(found), _by_kinds(x, y, xp), found)


def _by_kinds(x: Any, y: Any, xp: Any) -> Any:
    """x @ y with zero times anything zero: sums of finite terms, and numbers of the terms of the other kinds."""

    def count(left: Any, right: Any) -> Any:
        return sum(xp.matmul(a.astype(x.dtype), b.astype(x.dtype)) for a, b in zip(left, right, strict=True))

    def finite(z: Any) -> Any:
        return xp.where(xp.isfinite(z), z, z.dtype.type(0))

    inf, ways = np.inf, (x == np.inf, x == -np.inf, finite(x) > 0, finite(x) < 0)
    up = count(ways, (y > 0, y < 0, y == inf, y == -inf))
    down = count(ways, (y < 0, y > 0, y == -inf, y == inf))
    none = count((xp.isnan(x), (x != 0) & ~xp.isnan(x)), ((y != 0), xp.isnan(y)))
    number = x.dtype.type
    found = xp.where(up > 0, number(inf), xp.where(down > 0, number(-inf), xp.matmul(finite(x), finite(y))))
    return xp.where((none > 0) | ((up > 0) & (down > 0)), number(np.nan), found)


_TEST: Any = {"params": {"ta": False, "tb": False}, "shapes": ((2, 3), (3, 4))}

MATMUL = register(
    Primitive(
        "matmul", PRODUCT, lambda x, y, ta, tb, xp=np: xp.matmul(_swap(x, ta), _swap(y, tb)), _infer,
        vjp=partial(_vjp, matmul), jvp=partial(_jvp, matmul), axes=_axes, domain=((-3.0, 3.0),) * 2, test=_TEST,
    )
)  # fmt: skip

MATMULZ = register(
    Primitive(
        "matmulz", PRODUCT, _matmulz, _infer, vjp=partial(_vjp, matmulz), jvp=partial(_jvp, matmulz), axes=_axes,
        masking=True, domain=((-3.0, 3.0),) * 2, test=_TEST,
    )
)  # fmt: skip


def contract_last(x: Atom, y: Atom) -> Var:
    """sum(x * y, axis=-1) for x of shape (..., n) and y of shape (n,)."""
    shape = x.aval.shape
    wide = y if len(shape) == 1 else bind(BROADCAST, y, shape=shape, dims=(len(shape) - 1,))
    return bind(REDUCE_SUM, x * wide, axes=(len(shape) - 1,))
