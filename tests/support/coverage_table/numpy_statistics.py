"""NumPy's reductions, cumulative functions, statistics and histograms."""

from __future__ import annotations

import numpy as np

from .case import Case

V = np.array([0.3, -1.2, 2.1, 0.7])
M = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4]])
T = np.array([0.9, 0.1, 1.7, 0.4, -0.3, 1.2, -1.1, 0.6]).reshape(2, 2, 2)
W = np.array([0.9, 2.4, 1.7])
CHOSEN = M < 1.0

_REDUCTIONS = "sum mean prod max min amax amin std var ptp median"
_NAN = "nansum nanmean nanprod nanmax nanmin nanstd nanvar nanmedian"
_METHODS = (
    "linear lower higher midpoint nearest hazen weibull median_unbiased normal_unbiased inverted_cdf "
    "averaged_inverted_cdf closest_observation interpolated_inverted_cdf"
)


def _holed(x: np.ndarray) -> np.ndarray:
    """*x* with NaN where it is about 0.3 or 1.6."""
    return np.where((np.abs(x - 0.3) < 0.05) | (np.abs(x - 1.6) < 0.05), np.nan, x)


def _reduction(name: str) -> list[Case]:
    f = getattr(np, name)
    return [
        Case(f"numpy.{name}", f, [M]),
        Case(f"numpy.{name}", lambda x: f(x, axis=-1, keepdims=True), [M], label="keepdims"),
        Case(f"numpy.{name}", lambda x: f(x, axis=(0, -1)), [T], label="axes"),
        Case(f"numpy.{name}", lambda x: f(x, axis=0, out=np.empty(3)), [M], label="out"),
    ]


def _of_holes(name: str) -> list[Case]:
    f = getattr(np, name)
    return [
        Case(f"numpy.{name}", lambda x: f(_holed(x)), [M]),
        Case(f"numpy.{name}", lambda x: f(_holed(x), axis=1, keepdims=True), [M], label="keepdims"),
        Case(f"numpy.{name}", lambda x: f(_holed(x), axis=0), [M], label="axis"),
    ]


CASES = [
    *[case for name in _REDUCTIONS.split() for case in _reduction(name)],
    *[case for name in _NAN.split() for case in _of_holes(name)],
    *[
        Case(f"numpy.{name}", lambda x, f=getattr(np, name): f(x, axis=1, where=CHOSEN), [M], label="where")
        for name in ("sum", "mean", "prod", "std", "var")
    ],
    *[
        Case(f"numpy.{name}", lambda x, f=getattr(np, name): f(x, initial=0.5, where=CHOSEN), [M], label="initial")
        for name in ("sum", "prod", "max", "min")
    ],
    *[
        Case(f"numpy.{name}", lambda x, f=getattr(np, name): f(x, axis=0, ddof=1), [V], label="ddof")
        for name in ("std", "var", "nanstd", "nanvar")
    ],
    Case("numpy.var", lambda x: np.var(x, correction=1), [V], label="correction"),
    Case("numpy.var", lambda x: np.var(x, axis=1, mean=np.mean(x, axis=1, keepdims=True)), [M], label="mean"),
    Case("numpy.sum", lambda x: np.sum(x, dtype=np.float64), [M], label="dtype"),
    Case("numpy.sum", lambda x: np.sum(x + 1j * x**2, axis=0), [M], label="complex"),
    Case("numpy.mean", lambda x: np.mean(x + 1j * x**2, axis=0), [M], label="complex"),
    Case("numpy.sum", lambda x: np.sum([x, x**2]), [V], label="list"),
    Case("numpy.nanmean", lambda x: np.nanmean(_holed(x), axis=1, where=CHOSEN), [M], label="where"),
    Case("numpy.nanstd", lambda x: np.nanstd(_holed(x), axis=1, where=[True, False, True]), [M], label="where"),
    Case("numpy.corrcoef", lambda x: np.corrcoef([x, x**2]), [V], label="list"),
    Case("numpy.nancumsum", lambda x: np.nancumsum([x[0], x[1] ** 2]), [V], label="list"),
    # cumulative
    Case("numpy.cumsum", np.cumsum, [M]),
    Case("numpy.cumsum", lambda x: np.cumsum(x, axis=1), [M], label="axis"),
    Case("numpy.cumprod", np.cumprod, [V]),
    Case("numpy.cumprod", lambda x: np.cumprod(x, axis=0), [M], label="axis"),
    Case("numpy.cumulative_sum", lambda x: np.cumulative_sum(x, axis=1, include_initial=True), [M]),
    Case("numpy.cumulative_prod", lambda x: np.cumulative_prod(x, include_initial=True), [V]),
    Case("numpy.nancumsum", lambda x: np.nancumsum(_holed(x), axis=1), [M]),
    Case("numpy.nancumsum", lambda x: np.nancumsum(_holed(x)), [M], label="flat"),
    Case("numpy.nancumprod", lambda x: np.nancumprod(_holed(x), axis=0), [M]),
    # order statistics
    *[
        Case(f"numpy.{name}", lambda x, f=getattr(np, name), q=q, m=m: f(x, q, method=m), [V], label=m)
        for name, q in (("quantile", 0.3), ("percentile", 40.0))
        for m in _METHODS.split()
        if m != "averaged_inverted_cdf" or np.__version__ >= "2.2"
    ],
    Case("numpy.quantile", lambda x: np.quantile(x, [0.2, 0.5], axis=1), [M], label="several"),
    Case("numpy.quantile", lambda x, q: np.quantile(x, q), [V, np.array(0.35)], label="of-q"),
    Case(
        "numpy.quantile",
        lambda x: np.quantile(x, 0.4, weights=[1, 2, 1, 3], method="inverted_cdf"),
        [V],
        label="weights",
    ),
    Case("numpy.percentile", lambda x: np.percentile(x, [20, 70], axis=0, keepdims=True), [M], label="several"),
    Case("numpy.percentile", lambda x: np.percentile(x, 40, axis=(0, 2)), [T], label="axes"),
    Case(
        "numpy.percentile",
        lambda x: np.percentile(x, 40, weights=[1, 2, 1, 3], method="inverted_cdf"),
        [V],
        label="weights",
    ),
    Case("numpy.nanquantile", lambda x: np.nanquantile(_holed(x), 0.3), [M]),
    Case("numpy.nanquantile", lambda x: np.nanquantile(_holed(x), [0.3, 0.8], axis=1), [M], label="axis"),
    Case("numpy.nanpercentile", lambda x: np.nanpercentile(_holed(x), 30), [M]),
    Case("numpy.nanpercentile", lambda x: np.nanpercentile(_holed(x), 30, axis=0, keepdims=True), [M], label="axis"),
    # averages, covariances
    Case("numpy.average", lambda x: np.average(x, axis=0), [M]),
    Case("numpy.average", lambda x, w: np.average(x, axis=1, weights=w), [M, W], label="weights"),
    Case("numpy.average", lambda x, w: np.average(x, weights=w, axis=1, returned=True), [M, W], label="returned"),
    Case("numpy.average", lambda x: np.average(x, weights=x**2, keepdims=True), [M], label="own-weights"),
    Case("numpy.cov", np.cov, [M]),
    Case("numpy.cov", lambda x, y: np.cov(x, y), [V, V**2], label="two"),
    Case("numpy.cov", lambda x: np.cov(x, rowvar=False, ddof=0), [M], label="columns"),
    Case("numpy.cov", lambda x: np.cov(x, bias=True), [M], label="bias"),
    Case("numpy.cov", lambda x, w: np.cov(x, aweights=w), [M, W], label="aweights"),
    Case("numpy.cov", lambda x: np.cov(x, fweights=[1, 2, 1]), [M], label="fweights"),
    Case("numpy.corrcoef", np.corrcoef, [M]),
    Case("numpy.corrcoef", lambda x, y: np.corrcoef(x, y)[0, 1], [V, V**2], label="two"),
    Case("numpy.corrcoef", lambda x: np.corrcoef(x, rowvar=False), [np.vstack([M, W])], label="columns"),
    # along axes
    Case("numpy.apply_along_axis", lambda x: np.apply_along_axis(lambda r: r[0] * r[-1], 1, x), [M]),
    Case("numpy.apply_along_axis", lambda x: np.apply_along_axis(np.sort, 0, x), [M], label="arrays"),
    Case("numpy.apply_over_axes", lambda x: np.apply_over_axes(np.sum, x**2, [0, 2]), [T]),
    # counting
    Case("numpy.bincount", lambda w: np.bincount([0, 2, 2, 1], weights=w, minlength=4), [V]),
    Case("numpy.histogram", lambda x: np.histogram(x, bins=3)[1], [V], label="edges"),
    Case("numpy.histogram", lambda w: np.histogram(V, bins=3, weights=w), [V**2], label="weights"),
    Case(
        "numpy.histogram",
        lambda w: np.histogram(V, bins=[-2, 0, 1, 3], weights=w, density=True),
        [V**2],
        label="density",
    ),
    Case("numpy.histogram", lambda x: np.histogram(x, bins=[-2.0, 0.0, 1.0, 3.0])[0], [V], 0, label="counts"),
    Case("numpy.histogram_bin_edges", lambda x: np.histogram_bin_edges(x, bins=4), [V]),
    Case("numpy.histogram2d", lambda w: np.histogram2d(V, V**2, bins=2, weights=w)[0], [W.sum() + V]),
    Case("numpy.histogramdd", lambda w: np.histogramdd(np.stack([V, V**2], 1), bins=2, weights=w)[0], [W.sum() + V]),
]
