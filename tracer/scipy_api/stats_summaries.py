"""scipy.stats: descriptive statistics, correlations and transformations of samples, recorded through SciPy's source."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from ..ir.errors import UnsupportedError
from ..ir.site import at_site
from ..numpy_api.from_source import compiled, source_of
from ..numpy_api.hooks import copy_of, hook, hook_to_source, when_loaded
from ..numpy_api.shape import as_traced
from ..record.array import TracedArray, is_traced

_OF_SAMPLES = """
    gmean hmean pmean skew kurtosis moment sem variation entropy iqr median_abs_deviation tmean tvar tstd tsem kstat
    kstatvar ttest_1samp ttest_ind ttest_rel f_oneway differential_entropy expectile lmoment circmean circvar circstd
    wasserstein_distance energy_distance trim_mean gstd
    zscore gzscore zmap describe linregress pearsonr boxcox boxcox_llf yeojohnson yeojohnson_llf
    directional_stats power_divergence chisquare quantile bartlett jarque_bera theilslopes
""".split()


def _of_axes(name: str, function: FunctionType) -> Callable[..., Any]:
    """*function* without the code in which SciPy wraps most: it drops NaN, and calls them along the last axis."""
    plain, signature = function, inspect.signature(function)
    while hasattr(plain, "__wrapped__"):
        plain = plain.__wrapped__
    wrapped, plain = plain is not function, copy_of(plain)
    inner, takes = source_of(plain), inspect.signature(plain).parameters
    many = [k for k, v in takes.items() if v.kind is inspect.Parameter.VAR_POSITIONAL]

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("_no_deco", None)
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        if values.get("nan_policy", "propagate") != "propagate":
            raise UnsupportedError.here(
                f"scipy.stats.{name} of traced arrays with nan_policy={values['nan_policy']!r} is not supported; "
                "choose the numbers by np.where, or drop NaN outside of the function"
            )
        if values.get("lmbda", 0) is None:
            raise UnsupportedError.here(
                f"scipy.stats.{name} of traced arrays without lmbda is a search: find lmbda outside, and pass it in"
            )
        keepdims, axis = wrapped and values.pop("keepdims", False), values.get("axis", 0)
        reduced: Any = axis
        if wrapped and "axis" in values:
            if axis is None:
                reduced = tuple(range(max(np.ndim(v) for v in values.values() if _is_array(v))))
            along = lambda v: np.ravel(v) if axis is None else np.moveaxis(v, axis, -1)  # noqa: E731
            values.update({k: along(v) for k, v in values.items() if _is_array(v)}, axis=-1)
        samples = [v for k in many for v in values.pop(k)]
        found = inner(*samples, **{k: v for k, v in values.items() if k in takes})
        return np.expand_dims(found, reduced) if keepdims else found

    return call


def _is_array(value: Any) -> bool:
    return isinstance(value, TracedArray | np.ndarray) and value.ndim > 0


def _log_var(logx: Any, *options: Any) -> Any:
    """The logarithm of the variance of ``exp(logx)`` along the axis among the *options*, or the first one."""
    axis = next((option for option in options if isinstance(option, int)), 0)
    top = np.max(logx, axis=axis, keepdims=True)
    return np.log(np.var(np.exp(logx - top), axis=axis)) + 2 * np.squeeze(top, axis)


def _power(y: Any, p: Any) -> Any:
    """((1 + y) ** p - 1) / p"""
    log = np.log1p(y)
    if abs(p) < np.finfo(np.float64).eps:
        return log + p * log * log / 2  # the second term is there for the derivative by p
    return np.expm1(p * log) / p


def _yeojohnson(x: Any, lmbda: Any, xp: Any = None) -> Any:
    positive = x >= 0
    above, below = _power(np.where(positive, x, 0.0), lmbda), _power(np.where(positive, 0.0, -x), 2 - lmbda)
    return np.where(positive, above, -below)


def _install_distances(module: Any) -> None:
    validate = source_of(module._validate_distribution)

    @compiled(module, "_validate_distribution")
    def _(values: Any, weights: Any) -> Any:
        """Traced ones, whose order and sums are no questions."""
        return tuple([None if x is None else as_traced(x) for x in validate(values, weights)])


# ---- densities from samples -----------------------------------------------------------------------------------------


def _terms(kde: Any, points: Any) -> tuple[Any, Any]:
    """(squared distances of the *points*, in rows, from those of the sample, logarithm of the top of a kernel)"""
    at = np.atleast_2d(as_traced(points))
    d, m = at.shape
    if d != kde.d:
        if d != 1 or m != kde.d:
            raise ValueError(at_site(f"points have dimension {d}, dataset has dimension {kde.d}"))
        at = np.reshape(at, (kde.d, 1))
    white = [scipy.linalg.solve_triangular(kde.cho_cov, x, lower=True) for x in (at, kde.dataset)]
    squares = np.sum((white[0][:, :, np.newaxis] - white[1][:, np.newaxis, :]) ** 2, axis=0)
    return squares, -0.5 * kde.d * math.log(2 * math.pi) - np.sum(np.log(np.diag(kde.cho_cov)))


def _kde_evaluate(self: Any, points: Any) -> Any:
    squares, top = _terms(self, points)
    return np.sum(np.exp(-squares / 2) * self.weights, axis=1) * np.exp(top)


def _kde_logpdf(self: Any, x: Any) -> Any:
    squares, top = _terms(self, x)
    return scipy.special.logsumexp(-squares / 2, b=np.broadcast_to(self.weights, squares.shape), axis=1) + top


def _install_densities(gaussian_kde: Any) -> None:
    traced = lambda args, kwargs: is_traced([*args, *kwargs.values(), args[0].dataset, args[0].cho_cov])  # noqa: E731
    hook_to_source(gaussian_kde.__init__)
    hook(gaussian_kde.evaluate, _kde_evaluate, traced)
    hook(gaussian_kde.logpdf, _kde_logpdf, traced)


@when_loaded("scipy.stats", "norm", "wasserstein_distance")
def _install(stats: Any) -> None:
    for name in _OF_SAMPLES:
        function = getattr(stats, name, None)
        if isinstance(function, FunctionType):
            recorded = _of_axes(name, function)
            compiled(stats, name)(recorded)  # for those that call it
            hook(function, recorded)
    for helper, ours in (("_log_var", _log_var), ("_yeojohnson_transform", _yeojohnson)):
        compiled(sys.modules["scipy.stats._morestats"], helper)(ours)
    _install_distances(sys.modules["scipy.stats._stats_py"])
    hook_to_source(stats.norm.nnlf.__func__)
    _install_densities(stats.gaussian_kde)
