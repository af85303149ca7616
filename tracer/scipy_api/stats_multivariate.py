"""scipy.stats: multivariate distributions, recorded through SciPy's source.

SciPy factorises a covariance by its eigenvalues (``_PSD``).  Here it is Cholesky's factor wherever all eigenvalues
count, whose derivatives need no gaps between eigenvalues; that they count is a guard, by a bound which costs no
eigenvalues.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from ..ir.errors import LinAlgError, UnsupportedError
from ..ir.site import at_site
from ..numpy_api.hooks import hook, when_loaded
from ..numpy_api.linalg import squares
from ..numpy_api.linalg_factors import eigh_of, question
from ..numpy_api.shape import as_traced
from ..ops.elementwise import F, like
from ..ops.linalg import diagonal, solve_triangular, transposed
from ..ops.linalg_cholesky import cholesky
from ..ops.linalg_eigen import hermitian
from ..ops.reduce import reduce
from ..record.array import is_traced, wrap
from .linalg import matrix
from .stats_formulas import record_sources

_FACTOR = "_tracegrad_factor"  # attribute of a _PSD whose matrix is the product of this lower factor and its transpose


def _psd(
    self: Any, M: Any, cond: Any = None, rcond: Any = None, lower: bool = True, check_finite: bool = True,
    allow_singular: bool = True,
) -> None:  # fmt: skip
    x = matrix(M, check_finite)
    n = squares(x)
    x = x if lower else hermitian(x, False)
    self._M, self._pinv = wrap(x), None
    cutoff = next((c for c in (rcond, cond) if c not in (None, -1)), _cutoff(x.aval.dtype))
    factor = cholesky(x)
    inverse = solve_triangular(factor, as_traced(np.eye(n, dtype=x.aval.dtype)).atom, True)
    # the least eigenvalue is at least 1 / sum(1 / eigenvalues), the largest at most their sum; NaN without a factor
    bounds = F.mul(_total(F.square(inverse)), _total(F.square(factor)))
    if question(F.lt(F.mul(like(cutoff, bounds), bounds), like(1, bounds))):
        setattr(self, _FACTOR, wrap(factor))
        self.rank, self.eps, self.V = n, 0.0, np.zeros((n, 0))
        self.U, self.log_pdet = wrap(transposed(inverse)), 2 * np.sum(np.log(wrap(diagonal(factor))))
        return
    s, u = map(wrap, eigh_of(x, lower))
    size = np.max(np.abs(wrap(F.stop_gradient(s.atom))))
    if (s < -cutoff * size).any():
        raise ValueError(at_site("The input matrix must be symmetric positive semidefinite."))
    self.rank = question(np.sum(s > cutoff * size).atom)
    if self.rank < n and not allow_singular:
        raise LinAlgError.here("When `allow_singular is False`, the input matrix must be symmetric positive definite.")
    null, self.eps = n - self.rank, 1e3 * cutoff * size
    self.V, self.log_pdet = u[:, :null], np.sum(np.log(s[null:]))
    self.U = np.concatenate([0 * u[:, :null], u[:, null:] / np.sqrt(s[null:])], axis=1)


def _cutoff(dtype: np.dtype) -> float:
    return float((1e3 if dtype.itemsize == 4 else 1e6) * np.finfo(dtype).eps)


def _total(x: Any) -> Any:
    return reduce("sum", F.stop_gradient(x), (0, 1))


def _whiten(self: Any, x: Any) -> Any:
    factor = getattr(self._psd, _FACTOR, None)
    points = as_traced(x)
    if factor is None or points.shape[-1] != factor.shape[-1]:
        return points @ self._LP
    found = solve_triangular(factor.atom, points.reshape(-1, points.shape[-1]).atom, True, True, right=True)
    return wrap(found).reshape(points.shape)


# ---- multinomial ----------------------------------------------------------------------------------------------------


def _multinomial_parameters(self: Any, n: Any, p: Any) -> Any:
    p = as_traced(p).astype(np.float64)
    others = 1.0 - np.sum(p[..., :-1], axis=-1)
    adjusted = np.abs(1 - np.sum(p, axis=-1)) > np.finfo(np.float64).eps * 10
    if adjusted.any():  # SciPy puts the last one right
        p = np.concatenate([p[..., :-1], np.where(adjusted, others, p[..., -1])[..., np.newaxis]], axis=-1)
    n = np.array(n, dtype=int)
    return n, p, (n < 0) | np.any(p < 0, axis=-1) | np.any(p > 1, axis=-1)


def _checked(self: Any, result: Any, cond: Any, bad_value: float) -> Any:
    """*result*, with the *bad_value* where *cond* holds."""
    if not is_traced(cond) and not np.any(cond):
        return result
    axes = (np.newaxis,) * (np.ndim(result) - np.ndim(cond))
    return np.where(as_traced(cond)[(..., *axes)], bad_value, result)


def _invwishart_logpdf(self: Any, x: Any, dim: int, df: Any, log_det_scale: Any, C: Any) -> Any:
    traces, log_dets = [], []
    for i in range(x.shape[-1]):
        root, log_det = self._cholesky_logdet(x[:, :, i])
        traces.append(np.sum(scipy.linalg.solve_triangular(root, C, lower=True) ** 2))
        log_dets.append(log_det)
    trace, log_det_x = np.stack(traces), np.stack(log_dets)
    return (
        (0.5 * df * log_det_scale - 0.5 * trace)
        - (0.5 * df * dim * math.log(2) + 0.5 * (df + dim + 1) * log_det_x)
        - scipy.special.multigammaln(0.5 * df, dim)
    )


def _no_cdf(self: Any, *args: Any, **kwargs: Any) -> Any:
    name = type(self).__name__.removesuffix("_gen")
    raise UnsupportedError.here(
        f"scipy.stats.{name}.cdf is an integral that SciPy estimates from random points, and is not recorded; compute "
        "it outside of the function, and pass the result in"
    )


@when_loaded("scipy.stats", "multivariate_normal")
def _install(stats: Any) -> None:
    multivariate, covariance = (sys.modules[f"scipy.stats.{name}"] for name in ("_multivariate", "_covariance"))
    hook(multivariate._PSD.__init__, _psd)
    hook(
        covariance.CovViaPSD._whiten,
        _whiten,
        lambda args, kwargs: is_traced(args[1:]) or hasattr(args[0]._psd, _FACTOR),
    )
    log_pdet = covariance.Covariance.log_pdet.fget
    hook(log_pdet, lambda self: self._log_pdet, lambda args, kwargs: is_traced(args[0]._log_pdet))
    hook(multivariate.invwishart_gen._logpdf, _invwishart_logpdf)
    hook(multivariate.multinomial_gen._process_parameters, _multinomial_parameters)
    hook(multivariate.multinomial_gen._checkresult, _checked)
    for cls in (multivariate.multivariate_normal_gen, multivariate.multivariate_t_gen):
        hook(vars(cls)["_cdf"], _no_cdf)
    record_sources(multivariate, "asarray", "array", "zeros", "empty")
    record_sources(covariance, "asarray", "array", "zeros", "empty")
