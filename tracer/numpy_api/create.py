"""New arrays by rule: zeros_like, full_like, linspace, meshgrid, diagonal and triangular matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.aval import INT, Ints, check_dtype
from ..ir.errors import ShapeError
from ..ir.graph import Atom, Lit, literal
from ..ops.elementwise import F, bind, broadcast_to, cast, cast_with_warning, promote
from ..ops.shape import PAD, concat, full, iota, move_axis, reshape, slice_axis
from ..record.array import TracedArray, made_in_c_order, to_atom, wrap, wrap_array, wrap_as
from .registry import atom_of, implements, one_axis, shape_of
from .shape import as_traced

# ---- filling ------------------------------------------------------------------------------------------------------


def filled(value: Any, shape: Ints, dtype: Any, *, c_order: bool = True) -> TracedArray:
    """A traced array of *shape* full of *value*."""
    atom = to_atom(value)
    if dtype is not None:
        atom = cast_with_warning(atom, check_dtype(np.dtype(dtype), "the array"))
    elif atom.aval.weak:
        atom = cast(atom, atom.aval.dtype)
    sizes = atom.aval.shape
    lost = max(len(sizes) - len(shape), 0)
    known = zip(reversed(sizes), reversed(shape), strict=False)
    if sizes[:lost] != (1,) * lost or any(size not in (1, to) for size, to in known):
        raise ShapeError.here(f"could not broadcast input array from shape {sizes} into shape {tuple(shape)}")
    if lost:
        atom = reshape(atom, sizes[lost:])
    return wrap_array(broadcast_to(atom, shape), c_order=c_order)


@implements(np.full_like)
def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    aval = to_atom(a).aval
    sizes = aval.shape if shape is None else shape_of(shape)
    c_order = made_in_c_order(order, *[] if shape is not None else [a])
    return filled(fill_value, sizes, aval.dtype if dtype is None else dtype, c_order=c_order)


def _like(value: float) -> Any:
    return lambda a, *args, **kwargs: _full_like(a, Lit(value, np.dtype(float), structural=True), *args, **kwargs)


implements(np.zeros_like, np.empty_like)(_like(0))
implements(np.ones_like)(_like(1))


def linspace_atom(
    start: Any, stop: Any, num: int, endpoint: bool = True, axis: int = 0, dtype: Any = None
) -> tuple[Atom, Atom]:
    """(the points, the step), in NumPy's order of operations."""
    low, high = (
        cast(v, v.aval.dtype) if v.aval.weak else v for v in promote(to_atom(start), to_atom(stop), floating=True)
    )
    shape = broadcast_to(F.sub(high, low), np.broadcast_shapes(low.aval.shape, high.aval.shape)).aval.shape
    low, high = broadcast_to(low, shape), broadcast_to(high, shape)
    parts = max(num - 1 if endpoint else num, 0)
    delta = F.sub(high, low)
    positions = reshape(cast(iota(num), low.aval.dtype), (num, *[1] * len(shape)))
    step = F.div(delta, Lit(parts, low.aval.dtype)) if parts else full(Lit(math.nan, low.aval.dtype), shape)
    points = F.add(F.mul(positions, step), low) if parts else F.add(F.mul(positions, delta), low)
    if endpoint and num > 1:
        points = concat([slice_axis(points, 0, 0, num - 1), reshape(high, (1, *shape))], 0)
    if dtype is not None:
        to = np.dtype(dtype)
        points = cast(F.floor(points) if to.kind in "iu" else points, to)
    return move_axis(points, 0, one_axis(axis, len(shape) + 1, "np.linspace")), step


@implements(np.linspace)
def _linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
    axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    points, step = linspace_atom(start, stop, int(num), endpoint, axis, dtype)
    return (wrap_array(points), wrap(step)) if retstep else wrap_array(points)


@implements(np.logspace)
def _logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    points = wrap(linspace_atom(start, stop, int(num), endpoint, axis)[0])
    return np.power(base, points) if dtype is None else np.power(base, points).astype(dtype)


@implements(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    atoms = [atom_of(x) for x in xi]
    count = len(atoms)
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[0], order[1] = 1, 0
    shape = [0] * count
    for k, atom in enumerate(atoms):
        shape[order[k]] = atom.aval.size
    result = []
    for k, atom in enumerate(atoms):
        thin = reshape(atom, tuple(atom.aval.size if i == order[k] else 1 for i in range(count)))
        result.append(wrap_array(thin if sparse else broadcast_to(thin, tuple(shape))))
    return tuple(result)


# ---- diagonals and triangles --------------------------------------------------------------------------------------


@implements(np.diag)
def _diag(v: Any, k: int = 0) -> Any:
    array = as_traced(v)
    if array.ndim == 2:
        return np.diagonal(array, k)
    if array.ndim != 1:
        raise ShapeError.here("np.diag: input must be 1- or 2-d")
    n, k = array.size, int(k)
    side = n + abs(k)
    first = (k if k >= 0 else -k * side) if n else 0
    return wrap_array(
        reshape(
            bind(PAD, array.atom, start=(first,), step=(side + 1 if n > 1 else 1,), shape=(side * side,)), (side, side)
        )
    )


implements(np.diagflat)(lambda v, k=0: _diag(np.ravel(as_traced(v)), k))


def _triangle(m: Any, k: int, lower: bool) -> Any:
    x = atom_of(m)
    if x.aval.ndim < 2:  # NumPy broadcasts a vector to a square
        x = broadcast_to(x, (x.aval.size, x.aval.size))
    shape = x.aval.shape
    rows = broadcast_to(reshape(iota(shape[-2]), (shape[-2], 1)), shape)
    columns = broadcast_to(iota(shape[-1]), shape)
    inside = F.le(columns, rows + literal(int(k), INT)) if lower else F.ge(columns, rows + literal(int(k), INT))
    return wrap_as(F.select(inside, x, Lit(0, x.aval.dtype, structural=True)), m)


implements(np.tril)(lambda m, k=0: _triangle(m, k, True))
implements(np.triu)(lambda m, k=0: _triangle(m, k, False))


@implements(np.vander)
def _vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    array = as_traced(x)
    array = array.astype(np.promote_types(array.dtype, int), copy=False)
    powers = range(array.size if N is None else int(N))
    columns = [np.ones_like(array) if p == 0 else array**p for p in powers]
    return np.stack(columns if increasing else columns[::-1], axis=1)
