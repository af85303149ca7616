"""Means, variances, weighted means, and the reductions that pass over NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import FLOAT, Ints, canonical_axes, promote_types
from ..ir.errors import ShapeError
from ..ir.graph import Atom, Lit
from ..ir.site import at_site
from ..ops.complex import square_of_size
from ..ops.elementwise import F, broadcast_to, cast, like, promote, root, whole_lanes
from ..ops.reduce import expand, reduce
from ..ops.shape import concat, full, reshape, transpose
from ..record.array import FUNCTIONS, wrap
from ..record.recorder import current_recorder
from .reduce import as_given, extreme, is_given, keep, masked, prod_of, reduction, sum_of, without_dtype
from .registry import atom_of, float_atom, implements, into, reject

# ---- statistics ---------------------------------------------------------------------------------------------------


def mean_of(x: Atom, axes: tuple[int, ...], keepdims: bool) -> Atom:
    """The mean of a float atom.  The count is data: another batch size finds the same kernel."""
    count = math.prod(x.aval.shape[a] for a in axes)
    return F.div(reduce("sum", x, axes, keepdims), Lit(count, x.aval.dtype))


def _counted(x: Atom, where: Any, axes: tuple[int, ...]) -> tuple[Atom, Atom]:
    """(*x* with zeros where the mask *where* is False, the number of others along *axes*)."""
    x = masked(x, where, like(0, x))
    ones = masked(full(like(1, x), x.aval.shape), where, like(0, x))
    return x, reduce("sum", ones, axes, True)


@implements(np.mean, method="mean")
def _mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None
) -> Any:
    x = float_atom(a, dtype)
    axes = canonical_axes(axis, x.aval.ndim, "np.mean")
    if not is_given(where):
        return into(wrap(mean_of(x, axes, bool(keepdims))), out)
    x, count = _counted(x, where, axes)
    found = F.div(reduce("sum", x, axes, True), count)
    return into(wrap(keep(reshape(found, _left(x.aval.shape, axes)), x.aval.shape, axes, bool(keepdims))), out)


def variance_of(x: Atom, axes: tuple[int, ...], ddof: Any, keepdims: bool, mean: Any = None) -> Atom:
    count = math.prod(x.aval.shape[a] for a in axes)
    center = mean_of(x, axes, True) if mean is None else atom_of(mean)
    total = reduce("sum", square_of_size(F.sub(x, center)), axes, keepdims)
    return F.div(total, Lit(max(count - ddof, 0), total.aval.dtype))


def _variance_where(x: Atom, axes: Ints, ddof: Any, keepdims: bool, mean: Any, where: Any) -> Atom:
    filled, count = _counted(x, where, axes)
    center = F.div(reduce("sum", filled, axes, True), count) if mean is None else atom_of(mean)
    shape = filled.aval.shape
    off = masked(F.sub(broadcast_to(x, shape), broadcast_to(center, shape)), where, like(0, x))
    left = F.sub(whole_lanes(count)[0] if count.aval.is_complex else count, Lit(ddof, FLOAT, weak=True))
    known = F.gt(left, like(0, left))
    total = F.div(reduce("sum", square_of_size(off), axes, True), F.select(known, left, like(1, left)))
    return keep(reshape(F.select(known, total, like(math.nan, total)), _left(shape, axes)), shape, axes, keepdims)


def _spread(name: str) -> None:
    def apply(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = None, mean: Any = None, correction: Any = None,
    ) -> Any:  # fmt: skip
        x = float_atom(a, dtype)
        ddof = correction if correction is not None and correction is not np._NoValue else ddof
        mean = None if mean is np._NoValue else mean
        axes = canonical_axes(axis, x.aval.ndim, f"np.{name}")
        if is_given(where):
            found = _variance_where(x, axes, ddof, bool(keepdims), mean, where)
        else:
            found = variance_of(x, axes, ddof, bool(keepdims), mean)
        return into(wrap(root(found) if name == "std" else found), out)

    implements(getattr(np, name), method=name)(apply)


_spread("var")
_spread("std")


@implements(np.average)
def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    x = float_atom(a, None)
    axes = canonical_axes(axis, x.aval.ndim, "np.average")
    keepdims = bool(keepdims) and keepdims is not np._NoValue
    if weights is None:
        result = mean_of(x, axes, keepdims)
        scale: Atom = full(Lit(math.prod(x.aval.shape[i] for i in axes), x.aval.dtype), result.aval.shape)
    else:
        x, w = promote(x, atom_of(weights), floating=True)
        if w.aval.shape != x.aval.shape:
            order = (
                axes if axis is None or isinstance(axis, (int, np.integer)) else tuple(i % x.aval.ndim for i in axis)
            )
            if axis is None or w.aval.shape != tuple(x.aval.shape[i] for i in order):
                raise ShapeError.here(
                    f"np.average: weights of shape {w.aval.shape} do not fit an array of shape {x.aval.shape} "
                    f"along axis {axis}"
                )
            w = expand(
                transpose(w, tuple(int(i) for i in np.argsort(order))),
                x.aval.shape,
                tuple(i for i in range(x.aval.ndim) if i not in axes),
            )
        scale = reduce("sum", w, axes, keepdims)
        if (recorder := current_recorder()) is not None:
            some = reduce("all", F.ne(scale, like(0, scale)), tuple(range(scale.aval.ndim)))
            recorder.rely(some, lambda: ZeroDivisionError(at_site("Weights sum to zero, can't be normalized")))
        result = F.div(reduce("sum", F.mul(x, w), axes, keepdims), scale)
    return (wrap(result), wrap(scale)) if returned else wrap(result)


@implements(np.cov)
def _cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    reject("np.cov", "weight the rows yourself: (w * d) @ d.T / w.sum()", fweights=fweights, aweights=aweights)
    x = _as_rows(m, dtype, rowvar)
    x = cast(x, promote_types(x.aval.dtype, FLOAT)) if dtype is None else x
    if y is not None:
        x, other = promote(x, _as_rows(y, dtype, rowvar))
        x = concat([x, other], 0)
    count = x.aval.shape[1]
    ddof = (0 if bias else 1) if ddof is None else ddof
    centered = wrap(F.sub(x, mean_of(x, (1,), True)))
    return np.squeeze((centered @ centered.T.conj()) / float(max(count - ddof, 0)))


def _as_rows(m: Any, dtype: Any, rowvar: bool) -> Atom:
    x = float_atom(m, dtype)
    if x.aval.ndim > 2:
        raise ShapeError.here("np.cov needs at most 2 dimensions")
    if x.aval.ndim < 2:
        return reshape(x, (1, x.aval.size))
    return x if rowvar or x.aval.shape[0] == 1 else transpose(x, (1, 0))


# ---- reductions that pass over NaN --------------------------------------------------------------------------------


def _without_nan(x: Atom, fill: float) -> tuple[Atom, Atom]:
    """(x with NaNs replaced by *fill*, where they were)."""
    nan = F.ne(x, x)
    return (F.select(nan, like(fill, x), x) if x.aval.is_inexact else x), nan


def _total_without_nan(total: Callable[..., Any], fill: int) -> Callable[..., Any]:
    return lambda a, *args, **kwargs: total(wrap(_without_nan(atom_of(a), fill)[0]), *args, **kwargs)


def _nanmean_of(x: Atom, axes: tuple[int, ...], keepdims: bool) -> Atom:
    x, nan = _without_nan(x, 0)
    count = reduce("sum", cast(F.logical_not(nan), x.aval.dtype), axes, keepdims)
    return F.div(reduce("sum", x, axes, keepdims), count)


def _nan_extreme(name: str, fill: float) -> Callable[..., Any]:
    def compute(x: Atom, axes: tuple[int, ...], keepdims: bool) -> Atom:
        x, nan = _without_nan(x, fill)
        found = extreme(name, x, axes, keepdims)
        if x.aval.is_inexact:
            found = F.select(reduce("all", nan, axes, keepdims), like(math.nan, x), found)
        return found

    return without_dtype(reduction(f"np.nan{name}", as_given, compute))


def _nan_spread(name: str) -> Callable[..., Any]:
    """``np.nanvar`` or ``np.nanstd``: the elements that are no NaN are counted."""
    plain = FUNCTIONS[getattr(np, name.removeprefix("nan"))]

    def apply(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, **more: Any
    ) -> Any:
        array = wrap(float_atom(a, dtype))
        where: Any = more.get("where")
        reject(f"np.{name}", "write it with np.where", mean=more.get("mean"))
        known = ~np.isnan(array) if not is_given(where) else np.logical_and(~np.isnan(array), where)
        return plain(array, axis, None, out, ddof, keepdims, where=known, correction=more.get("correction"))

    return apply


def _left(shape: Ints, axes: Ints) -> Ints:
    return tuple([n for k, n in enumerate(shape) if k not in axes])


implements(np.nanvar)(_nan_spread("nanvar"))
implements(np.nanstd)(_nan_spread("nanstd"))


@implements(np.nanmedian)
def _nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    return into(np.nanquantile(a, 0.5, axis=axis, keepdims=bool(keepdims) and keepdims is not np._NoValue), out)


implements(np.nansum)(_total_without_nan(sum_of, 0))
implements(np.nanprod)(_total_without_nan(prod_of, 1))
_nanmean = reduction("np.nanmean", float_atom, _nanmean_of)


@implements(np.nanmean)
def _nanmean_where(a: Any, *args: Any, where: Any = True, **kwargs: Any) -> Any:
    return _nanmean(np.where(where, a, math.nan) if is_given(where) else a, *args, **kwargs)


implements(np.nanmax)(_nan_extreme("max", -math.inf))
implements(np.nanmin)(_nan_extreme("min", math.inf))
