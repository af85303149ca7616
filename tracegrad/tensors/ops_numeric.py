"""Differences, areas, quantiles, covariances; searching in sorted vectors, distinct elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS
from .apply import apply
from .arguments import FUNCTIONS, common_dtype, dtype_name
from .on_device import by_the_host
from .op import EagerOp
from .ops_basic import floating, to_dtype
from .ops_join import cat
from .ops_norm import vector_norm
from .ops_parts import narrow
from .ops_reduce import mean, plain, sum
from .signature import Dim, Real, function, method
from .tensor import METHODS, Tensor, make, raw, seen

DIFF = EagerOp("Sub", lambda x, n, dim: np.diff(x, n=n, axis=dim))
QUANTILE = EagerOp("Quantile", lambda x, q, dim, keepdim: np.quantile(x, q, axis=dim, keepdims=keepdim).astype(x.dtype))


@method
def diff(input: Tensor, n: int = 1, dim: Dim = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences between neighbours along *dim*, *n* times over."""
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    parts = [t for t in (prepend, input, append) if t is not None]
    return apply(DIFF, (cat(parts, dim) if len(parts) > 1 else input,), (int(n), dim))


@function
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: Dim = -1) -> Tensor:
    """The area under *y* along *dim* by the trapezoidal rule, at the points *x* or in steps of *dx*."""
    count = max(y.shape[dim] - 1, 0)
    heights = (narrow(y, dim, 1, count) + narrow(y, dim, 0, count)) * 0.5
    if x is None:
        return sum(heights, dim) * dx
    widths = diff(x, dim=dim if x.ndim > 1 else 0)
    if x.ndim == 1:
        widths = METHODS["reshape"](widths, [-1 if d == dim else 1 for d in range(y.ndim)])
    return sum(heights * widths, dim)


@method
def quantile(
    input: Tensor, q: Any, dim: Dim | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The elements below which the shares *q* (a number or a vector of them) of all lie, interpolated."""
    if input.dtype.kind not in FLOAT_KINDS:
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if interpolation != "linear":
        raise NotImplementedError(f"quantile with interpolation={interpolation!r} is not supported; there is 'linear'")
    if isinstance(q, Tensor):
        shares: Any = seen(raw(q), "asks for the quantiles that a tensor names")
        q = tuple(shares.tolist()) if shares.ndim else float(shares)
    if not all(0 <= share <= 1 for share in (q if isinstance(q, tuple) else (q,))):
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    return apply(QUANTILE, (input,), (q if isinstance(q, tuple) else float(q), dim, bool(keepdim)))


@method
def cov(input: Tensor, *, correction: int = 1) -> Tensor:
    """The covariances of the rows."""
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    rows = METHODS["reshape"](floating(input), (1, -1)) if input.ndim < 2 else floating(input)
    centered = rows - mean(rows, 1, True)
    found = METHODS["mm"](centered, METHODS["conj"](METHODS["t"](centered))) / max(rows.shape[1] - correction, 0)
    return METHODS["squeeze"](found) if input.ndim < 2 else found


@method
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The *p*-norm of the difference."""
    return vector_norm(input - other, p)


# ---- without derivatives -------------------------------------------------------------------------------------------


@function
def searchsorted(
    sorted_sequence: Real, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None
) -> Tensor:
    """The positions at which elements would be inserted into a sorted vector to keep it sorted."""
    if sorted_sequence.ndim != 1:
        raise NotImplementedError("searchsorted in several rows is not supported; search row by row")
    values = raw(input) if isinstance(input, Tensor) else np.asarray(input)
    place: Any = side or ("right" if right else "left")
    found = np.searchsorted(raw(sorted_sequence), values, side=place)
    return plain(found.astype(np.int32) if out_int32 else found)


@function
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The numbers of the intervals between sorted *boundaries* in which elements lie."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@method
def isin(elements: Tensor, test_elements: Tensor, *, invert: bool = False) -> Tensor:
    """Whether each of *elements* is among *test_elements*, as bools."""
    found = (raw(elements)[..., None] == raw(test_elements).reshape(-1)).any(axis=-1)
    return plain(~found if invert else found)


@method
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Dim | None = None,
) -> Any:
    """The distinct elements in order; with their places in *input* and their counts where asked for."""
    data = seen(raw(input), "looks for distinct elements")
    output, inverse, counts = np.unique(data, return_inverse=True, return_counts=True, axis=dim)
    inverse = inverse.reshape(data.shape if dim is None else -1)
    wanted = [output, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    given = [make(by_the_host("unique", array, input._data)) for array in wanted]
    return given[0] if len(given) == 1 else tuple(given)


@function
def result_type(tensor1: Any, tensor2: Any) -> np.dtype:
    """The dtype in which two tensors or numbers meet."""
    return common_dtype(tensor1, tensor2)


@method
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts of elements in *bins* equal intervals from *min* to *max* (where equal, of the elements)."""
    if input.dtype.kind not in FLOAT_KINDS:
        raise RuntimeError(f"\"histogram_cpu\" not implemented for '{dtype_name(input)}'")
    data = seen(raw(input), "counts elements")
    low, high = (min, max) if min != max else (float(data.min()), float(data.max())) if data.size else (0.0, 1.0)
    if low == high:
        low, high = low - 1, high + 1
    counted = by_the_host("histc", np.histogram(data, bins, (low, high))[0], input._data)
    return to_dtype(make(counted), input.dtype)


FUNCTIONS["trapz"] = trapezoid
