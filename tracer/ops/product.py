"""Matrix products.

``matmul`` is a batch of matrix-matrix products with optional transposes, done by BLAS.  Products with a vector are
written as a multiplication and a reduction, so that they fuse: ``X @ w`` and the ``X.T @ r`` after it share one pass
over X.
"""

from __future__ import annotations

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


def _vjp(ct: Var, out: Var, x: Atom, y: Atom, ta: bool, tb: bool) -> tuple[Var, Var]:
    dx = matmul(y, ct, tb, True) if ta else matmul(ct, y, False, not tb)
    dy = matmul(ct, x, True, ta) if tb else matmul(x, ct, not ta, False)
    return dx, dy


def _jvp(tangents: Any, out: Var, x: Atom, y: Atom, ta: bool, tb: bool) -> Var:
    tx, ty = tangents
    first = None if tx is None else matmul(tx, y, ta, tb)
    second = None if ty is None else matmul(x, ty, ta, tb)
    return second if first is None else first if second is None else first + second  # type: ignore[return-value]


MATMUL = register(
    Primitive(
        "matmul", PRODUCT, lambda x, y, ta, tb, xp=np: xp.matmul(_swap(x, ta), _swap(y, tb)), _infer,
        vjp=_vjp, jvp=_jvp, axes=_axes,
        domain=((-3.0, 3.0),) * 2, test={"params": {"ta": False, "tb": False}, "shapes": ((2, 3), (3, 4))},
    )
)  # fmt: skip


def contract_last(x: Atom, y: Atom) -> Var:
    """sum(x * y, axis=-1) for x of shape (..., n) and y of shape (n,)."""
    shape = x.aval.shape
    wide = y if len(shape) == 1 else bind(BROADCAST, y, shape=shape, dims=(len(shape) - 1,))
    return bind(REDUCE_SUM, x * wide, axes=(len(shape) - 1,))
