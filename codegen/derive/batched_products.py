"""Matrix products of many rows at once: one product.

Where only one operand differs from row to row, the new axis is merged with an axis of the result that the other does
not have: ``X[b] @ W`` for all b is one product of more rows.  ``folded`` does so for all operations that the column
``axes`` says this of: solutions by factors that are the same in all rows are solutions for more right-hand sides.

A product with a vector is a multiplication and a sum (``tracer/ops/product.py``), which is a matrix product once there
are many vectors: ``sum_rows`` finds that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...tracer.ir.aval import Ints
from ...tracer.ir.graph import Atom, Node, Var, bind
from ...tracer.ir.primitive import Primitive
from ...tracer.ops.product import MATMUL, MATMULZ
from ...tracer.ops.shape import move_axis, reshape, transpose
from .batched_rows import StackedRows

_PRODUCTS = {"mul": MATMUL, "mulz": MATMULZ}
FEW = 8  # a matrix product in which an axis is no longer than that is as fast as a multiplication and a sum


def matmul_rows(node: Node, rows: StackedRows) -> Sequence[Atom]:
    x, y = node.inputs
    ta, tb = node.params["ta"], node.params["tb"]
    xs, ys = rows.of(x), rows.of(y)
    if xs is not None and ys is not None:
        return [bind(node.prim, xs, ys, ta=ta, tb=tb)]
    if xs is not None:
        return [_many(node.prim, xs, ta, rows.one(y), tb)]
    assert ys is not None
    found = _many(node.prim, ys, not tb, rows.one(x), not ta)  # of the transposes
    return [_swapped(found)]


def _many(prim: Primitive, xs: Atom, ta: bool, y: Atom, tb: bool) -> Atom:
    """The products of matrices *xs*, (n, ..., i, j), and *y*, (..., j, k), which has no axis n."""
    if ta:
        xs = _swapped(xs)
    rank, n = xs.aval.ndim, xs.aval.shape[0]
    xs = move_axis(xs, 0, rank - 3)
    *batch, _, i, j = xs.aval.shape
    found = bind(prim, reshape(xs, (*batch, n * i, j)), y, ta=False, tb=tb)
    return move_axis(reshape(found, (*batch, n, i, found.aval.shape[-1])), rank - 3, 0)


def _swapped(x: Atom) -> Atom:
    rank = x.aval.ndim
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def folded(node: Node, rows: StackedRows) -> Atom | None:
    """The rows of *node*, merged with an axis of its result which its operands that are the same in all rows do not
    have, and along which it is independent; None where there is no such axis."""
    given = rows.differ(node.inputs)
    if all(given) or set(node.params) & {"shape", "start", "step", "dims", "perm", "axes", "axis"}:
        return None
    axes, shape = node.axes, node.out.aval.shape
    for b in reversed(range(len(shape))):
        at = axes.at(b)
        if b not in axes.across and all((a is not None) == differs for a, differs in zip(at, given, strict=True)):
            operands = [_merged(rows.of(x), a, rows.one(x)) for x, a in zip(node.inputs, at, strict=True)]
            found = bind(node.prim, *operands, **node.params)
            return move_axis(reshape(found, (*shape[:b], rows.size, *shape[b:])), b, 0)
    return None


def _merged(xs: Atom | None, axis: int | None, x: Atom) -> Atom:
    """The rows *xs* with axis 0 merged into *axis* of one of them; *x* where there are none."""
    if xs is None or axis is None:
        return x
    moved = move_axis(xs, 0, axis)
    shape = moved.aval.shape
    return reshape(moved, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


# ---- sums of products ----------------------------------------------------------------------------------------------


class Factor(NamedTuple):
    """A factor of an elementwise product: *array*, whose axis k is axis ``dims[k]`` of the product."""

    array: Atom
    dims: Ints


def sum_rows(node: Node, rows: StackedRows) -> Sequence[Atom]:
    x = rows.whole(node.inputs[0])
    axes = tuple([a + 1 for a in node.params["axes"]])
    made = rows.producer(x)
    if made is not None and made.prim.name in _PRODUCTS and x.aval.is_float:
        factors = [_factor(a, rows) for a in made.inputs]
        if None not in factors:
            prim = _PRODUCTS[made.prim.name]
            found = _contracted(prim, factors[0], factors[1], x.aval.shape, axes)  # type: ignore[arg-type]
            if found is not None:
                return [found]
    return [bind(node.prim, x, axes=axes)]


def _factor(x: Atom, rows: StackedRows) -> Factor | None:
    """*x* without its views that stretch and move axes."""
    dims: Ints = tuple(range(x.aval.ndim))
    while (made := rows.producer(x)) is not None:
        source = made.inputs[0] if made.inputs else x
        name = made.prim.name
        if name == "broadcast" and isinstance(source, Var):
            dims = tuple([dims[d] for d in made.params["dims"]])
        elif name == "transpose":
            perm = made.params["perm"]
            dims = tuple([dims[perm.index(a)] for a in range(len(perm))])
        else:
            break
        x = source
    stretched = tuple([k for k, n in enumerate(x.aval.shape) if n == 1])
    if stretched and isinstance(x, Var):  # an axis of 1 may have been stretched: it has no index
        kept = [k for k in range(x.aval.ndim) if k not in stretched]
        x, dims = reshape(x, tuple([x.aval.shape[k] for k in kept])), tuple([dims[k] for k in kept])
    return Factor(x, dims) if dims and isinstance(x, Var) else None


def _contracted(prim: Primitive, x: Factor, y: Factor, shape: Ints, summed: Ints) -> Atom | None:
    """The sum of x * y over the axes *summed* as a matrix product; None where it is none, or where it is small."""
    if 0 not in x.dims:
        x, y = y, x
    if 0 not in x.dims or 0 in y.dims:
        return None
    long = {a for a, n in enumerate(shape) if n != 1}
    here, there = long.intersection(x.dims), long.intersection(y.dims)
    inner, batch = sorted((here & there).intersection(summed)), sorted((here & there).difference(summed))
    lines, columns = sorted(here - there), sorted(there - here)
    sizes = [math.prod([shape[a] for a in group]) for group in (lines, inner, columns)]
    if long - here - there or set(summed) & {*lines, *columns} or min(sizes) < FEW:
        return None
    left, ta = _matrices(x, batch, lines, inner, shape)
    right, tb = _matrices(y, batch, inner, columns, shape)
    found: Atom = bind(prim, left, right, ta=ta, tb=tb)
    order = [*batch, *lines, *columns]
    found = transpose(reshape(found, tuple([shape[a] for a in order])), tuple(order.index(a) for a in sorted(order)))
    return reshape(found, tuple([n for a, n in enumerate(shape) if a not in summed]))


def _matrices(x: Factor, batch: list[int], rows: list[int], columns: list[int], shape: Ints) -> tuple[Atom, bool]:
    """(*x* as matrices, whether they are stored transposed): as they lie in memory, where that is possible."""
    turned = list(x.dims) == [*batch, *columns, *rows]
    order = [*batch, *columns, *rows] if turned else [*batch, *rows, *columns]
    moved = transpose(x.array, tuple([x.dims.index(a) for a in order]))
    sides = [math.prod([shape[a] for a in group]) for group in (rows, columns)]
    return reshape(moved, (*[shape[a] for a in batch], *(sides[::-1] if turned else sides))), turned
