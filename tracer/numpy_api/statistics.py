"""Means, variances, weighted means, and the reductions that pass over NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import FLOAT, canonical_axes, promote_types
from ..ir.errors import ShapeError
from ..ir.graph import Atom, Lit
from ..ops.complex import square_of_size
from ..ops.elementwise import F, cast, like, promote, root
from ..ops.reduce import expand, reduce
from ..ops.shape import concat, full, reshape, transpose
from ..record.array import wrap
from .reduce import INITIAL, as_given, extreme, prod_of, reduction, sum_of, without_dtype
from .registry import atom_of, float_atom, implements, into, reject

# ---- statistics ---------------------------------------------------------------------------------------------------


def mean_of(x: Atom, axes: tuple[int, ...], keepdims: bool) -> Atom:
    """The mean of a float atom.  The count is data: another batch size finds the same kernel."""
    count = math.prod(x.aval.shape[a] for a in axes)
    return F.div(reduce("sum", x, axes, keepdims), Lit(count, x.aval.dtype))


_BY_HAND = "write np.sum(np.where(mask, x, 0)) / np.sum(mask)"
implements(np.mean, method="mean")(reduction("np.mean", float_atom, mean_of, where_hint=_BY_HAND))


def variance_of(x: Atom, axes: tuple[int, ...], ddof: Any, keepdims: bool, mean: Any = None) -> Atom:
    count = math.prod(x.aval.shape[a] for a in axes)
    center = mean_of(x, axes, True) if mean is None else atom_of(mean)
    total = reduce("sum", square_of_size(F.sub(x, center)), axes, keepdims)
    return F.div(total, Lit(max(count - ddof, 0), total.aval.dtype))


def _spread(name: str) -> None:
    def apply(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = None, mean: Any = None, correction: Any = None,
    ) -> Any:  # fmt: skip
        reject(f"np.{name}", "write it with np.where and np.sum", where=None if where is True else where)
        x = float_atom(a, dtype)
        ddof = correction if correction is not None and correction is not np._NoValue else ddof
        mean = None if mean is np._NoValue else mean
        found = variance_of(x, canonical_axes(axis, x.aval.ndim, f"np.{name}"), ddof, bool(keepdims), mean)
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

    return without_dtype(reduction(f"np.nan{name}", as_given, compute, where_hint=INITIAL))


implements(np.nansum)(_total_without_nan(sum_of, 0))
implements(np.nanprod)(_total_without_nan(prod_of, 1))
implements(np.nanmean)(reduction("np.nanmean", float_atom, _nanmean_of))
implements(np.nanmax)(_nan_extreme("max", -math.inf))
implements(np.nanmin)(_nan_extreme("min", math.inf))
