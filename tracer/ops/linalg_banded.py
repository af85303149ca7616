"""Banded matrices: solutions by LAPACK, in time in proportion to the number of rows.

A matrix with *below* diagonals under the main one and *above* over it is given by its diagonals, as for
scipy.linalg.solve_banded: element (i, j) is ``bands[above + i - j, j]``.  Right-hand sides are rows, (..., k, n).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.errors import GraphError
from ..ir.graph import Atom, Builder, Graph, Var, bind, building
from ..ir.primitive import LAPACK, Primitive, register
from .control import loop
from .elementwise import F, like
from .linalg import lapack, matrix_axes, per_matrix, routine
from .product import matmul
from .reduce import expand, reduce
from .shape import PAD, concat, full, reshape, slice_axis, transpose


def _infer(bands: Aval, b: Aval, below: int, above: int, trans: bool) -> Aval:
    if bands.shape[-2] != below + above + 1 or b.shape[-1] != bands.shape[-1] or b.shape[:-2] != bands.shape[:-2]:
        raise GraphError(f"solution of {b} by bands {bands}")
    return Aval(b.dtype, b.shape)


def _solve(bands: np.ndarray, b: np.ndarray, below: int, above: int, trans: bool) -> Any:
    room = np.vstack([np.zeros((below, bands.shape[1]), bands.dtype), bands])
    factors, pivots, info = routine(lapack, "gbtrf", b.dtype)(room, below, above)
    if info:
        return np.full_like(b, -np.inf)
    return routine(lapack, "gbtrs", b.dtype)(factors, below, above, b.T, pivots, trans=int(trans))[0].T


def shifted(x: Atom, offset: int) -> Atom:
    """x[..., j + offset], with zeros beside."""
    shape, n = x.aval.shape, x.aval.shape[-1]
    length = max(n - abs(offset), 0)
    if not offset or not length:
        return x if length else F.mul(x, like(0, x))
    taken = slice_axis(x, len(shape) - 1, max(offset, 0), length)
    start = (*[0] * (len(shape) - 1), max(-offset, 0))
    return bind(PAD, taken, start=start, step=(1,) * len(shape), shape=shape)


def _products(rows: Atom, columns: Atom, below: int, above: int) -> Atom:
    """The diagonals of the sum over k of rows[k, i] columns[k, j]."""
    axis = rows.aval.ndim - 2
    found = []
    for offset in range(-above, below + 1):
        one = reduce("sum", F.mul(shifted(rows, offset), columns), (axis,))
        found.append(reshape(one, (*one.aval.shape[:-1], 1, one.aval.shape[-1])))
    return concat(found, axis)


def banded_times(bands: Atom, x: Atom, below: int, above: int, trans: bool) -> Atom:
    """The products of the banded matrix, or its transpose, with the rows of *x*."""
    axis, shape = bands.aval.ndim - 2, x.aval.shape
    total: Atom | None = None
    for k, offset in enumerate(range(-above, below + 1)):
        band = slice_axis(bands, axis, k, 1)
        band = expand(reshape(band, (*shape[:-2], shape[-1])), shape, (axis,))
        term = F.mul(band, shifted(x, offset)) if trans else shifted(F.mul(band, x), -offset)
        total = term if total is None else F.add(total, term)
    assert total is not None
    return total


def _vjp(ct: Atom, out: Var, bands: Atom, b: Atom, below: int, above: int, trans: bool) -> tuple[Atom, Var]:
    w = solve_banded(bands, ct, below, above, not trans)
    rows, columns = (out, w) if trans else (w, out)
    return F.neg(_products(rows, columns, below, above)), w


def _jvp(tangents: Any, out: Var, bands: Atom, b: Atom, below: int, above: int, trans: bool) -> Var:
    of_bands, of_b = tangents
    if of_bands is not None:
        moved = banded_times(of_bands, out, below, above, trans)
        of_b = F.neg(moved) if of_b is None else F.sub(of_b, moved)
    return solve_banded(bands, of_b, below, above, trans)


SOLVE_BANDED: Primitive = register(
    Primitive(
        "solve_banded", LAPACK, per_matrix(_solve, _infer), _infer, vjp=_vjp, jvp=_jvp,
        axes=matrix_axes("di", "ki", "ki"), masking=True, domain=((1.0, 3.0), (-3.0, 3.0)),
        test={"shapes": ((2, 3, 5), (2, 2, 5)), "params": {"below": 1, "above": 1, "trans": True}},
    )
)  # fmt: skip


def solve_banded(bands: Atom, b: Atom, below: int, above: int, trans: bool = False) -> Var:
    """The solutions for the rows of *b*; all -inf where a matrix is singular."""
    return bind(SOLVE_BANDED, bands, b, below=below, above=above, trans=trans)


# ---- L L.T = A ---------------------------------------------------------------------------------------------------


def cholesky_of_bands(bands: Atom) -> Atom:
    """The diagonals of L, from the main one down, of those of a symmetric matrix, (below + 1, n); from a minor on that
    is not positive definite without meaning, and there NaN or 0.

    A loop over columns carries the lower triangle of what is left, of as many rows as have an element there.
    """
    width, n = bands.aval.shape
    rows = [reshape(slice_axis(bands, 0, k, 1), (n,)) for k in range(width)]
    coming = [reshape(shifted(rows[width - 1 - k], k + 1), (1, n)) for k in range(width)]
    start = []
    for i in range(width):  # element (i, k) is rows[i - k][k]
        row = [slice_axis(rows[i - k], 0, k, 1) if k < n else full(like(0, bands), (1,)) for k in range(i + 1)]
        row.append(full(like(0, bands), (width - i - 1,)))
        start.append(reshape(concat(row, 0), (1, width)))
    with building(Builder()) as body:
        left, entering = Var(Aval(bands.aval.dtype, (width, width))), Var(Aval(bands.aval.dtype, (width,)))
        column = slice_axis(left, 1, 0, 1)
        root = F.sqrt(slice_axis(column, 0, 0, 1))
        column = F.div(column, expand(reshape(root, ()), (width, 1), (0, 1)))
        rest = F.sub(left, matmul(column, column, False, True))
        rest = slice_axis(slice_axis(rest, 0, 1, width - 1), 1, 1, width - 1)
        rest = concat([rest, full(like(0, rest), (width - 1, 1))], 1)
        following = concat([rest, reshape(entering, (1, width))], 0)
        found = reshape(column, (width,))
    graph = Graph([left, entering], body.nodes, [following, found])
    return transpose(loop(graph, [], [concat(start, 0)], [transpose(concat(coming, 0), (1, 0))], n)[1], (1, 0))
