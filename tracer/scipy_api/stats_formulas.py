"""Formulas of scipy.stats' distributions that cannot be recorded as SciPy writes them.

The others are NumPy and scipy.special, and record by themselves.  ``_lazyselect``, by which SciPy computes each branch
of a formula for the elements that need it, is a ``where`` here.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..ir.aval import FLOAT, Aval
from ..ir.errors import UnsupportedError
from ..numpy_api.from_source import source_of
from ..numpy_api.hooks import copy_of, hook, hook_to_source, when_loaded
from ..numpy_api.registry import float_atom
from ..ops import scipy_ufuncs as sp
from ..ops.elementwise import F
from ..ops.host_call import HostFunction, host_call
from ..record.array import is_traced, wrap
from .stats_distributions import choose

# ---- choices by element ---------------------------------------------------------------------------------------------


def _lazyselect(condlist: Any, choicelist: Any, arrays: Any, default: Any = 0) -> Any:
    return choose(default, *[(c, f(*arrays)) for c, f in zip(condlist, choicelist, strict=False)])


@when_loaded("scipy._lib._util", "getfullargspec_no_self")
def _hook_choices(util: Any) -> None:
    hook(getattr(util, "_lazyselect", None), _lazyselect)


# ---- continuous -----------------------------------------------------------------------------------------------------


def _logcdf(self: Any, x: Any, *args: Any) -> Any:
    """From the smaller of both tails."""
    p = self._cdf(x, *args)
    return np.where(p < 0.5, np.log(p), np.log1p(-self._sf(x, *args)))


def _logsf(self: Any, x: Any, *args: Any) -> Any:
    p = self._sf(x, *args)
    return np.where(p < 0.5, np.log(p), np.log1p(-self._cdf(x, *args)))


def _quantiles(self: Any, q: Any, *args: Any) -> Any:
    """Quantiles for which SciPy searches, between kernels; two of Newton's steps, which move nothing, have their
    first and second derivatives."""
    if not type(self).__module__.startswith("scipy.stats."):
        raise UnsupportedError.here(
            f"{self.name} has no formula for its quantiles, for which SciPy would search: define _ppf in its class"
        )
    operands = [float_atom(x) for x in (q, *args)]
    shape = np.broadcast_shapes(*[x.aval.shape for x in operands])
    search = HostFunction(
        lambda *plain: np.asarray(self.ppf(*plain)), [Aval(FLOAT, shape)], f"{self.name}.ppf", key=(type(self), "ppf")
    )
    found = x = wrap(F.stop_gradient(host_call(search, operands)[0]))
    if hasattr(self, "_pmf"):
        return found
    for _ in range(2):
        x = x - (self._cdf(x, *args) - q) / self._pdf(x, *args)
    step = x - _constant(x)
    return found + np.where(np.isfinite(step), step, 0.0)


def _cauchy_logpdf(self: Any, x: Any) -> Any:
    size = np.where(x < 0, -x, x)  # differentiable at 0, where it is an even function of this
    near = -math.log(math.pi) - np.log1p(size**2)
    return np.where(size < 1, near, -math.log(math.pi) - (2 * np.log(size) + np.log1p((1 / size) ** 2)))


def _logistic_logpdf(self: Any, x: Any) -> Any:
    y = np.where(x < 0, x, -x)
    return y - 2.0 * np.log1p(np.exp(y))


def _pareto_stats(self: Any, b: Any, moments: str = "mv") -> Any:
    formulas = {
        "m": lambda: np.where(b > 1, b / (b - 1.0), math.inf),
        "v": lambda: np.where(b > 2, b / (b - 2.0) / (b - 1.0) ** 2, math.inf),
        "s": lambda: np.where(b > 3, 2 * (b + 1.0) * np.sqrt(b - 2.0) / ((b - 3.0) * np.sqrt(b)), math.nan),
        "k": lambda: np.where(b > 4, 6.0 * (b**3 + b**2 - 6 * b - 2) / (b * (b - 3.0) * (b - 4.0)), math.nan),
    }
    return [formula() if letter in moments else None for letter, formula in formulas.items()]


def _munp(self: Any, n: Any, *args: Any) -> Any:
    """E[X**n] of a distribution without a formula for it, which SciPy integrates or sums."""
    if type(self).__name__ == "pareto_gen":
        return np.where(args[0] > n, args[0] / (args[0] - n), math.inf)
    if not hasattr(self, "_pmf"):
        return self.generic_moment(n, *args)
    moment = sys.modules["scipy.stats._distn_infrastructure"]._drv2_moment
    return np.vectorize(lambda *each: moment(self, n, *each), otypes="d")(*args)


def _t_logpdf(self: Any, x: Any, df: Any) -> Any:
    student = -sp.betaln(df / 2, 0.5) - 0.5 * np.log(df) - (df + 1) / 2 * np.log1p(x * x / df)
    return choose(student, (df == math.inf, -x * x / 2 - 0.5 * math.log(2 * math.pi)))


def _t_entropy(self: Any, df: Any) -> Any:
    half, half1 = df / 2, (df + 1) / 2
    near = half1 * (sp.digamma(half1) - sp.digamma(half)) + 0.5 * np.log(df) + sp.betaln(half, 0.5)
    normal, r = 0.5 * (math.log(2 * math.pi) + 1), 1 / df
    far = normal + r * (1 + r * (1 / 4 + r * (-1 / 6 + r * (-1 / 8 + r * (3 / 10 + r / 4)))))
    return np.where(df >= 100, far, near)


# ---- formulas that SciPy takes from Boost ---------------------------------------------------------------------------


def _cauchy_ppf(self: Any, q: Any) -> Any:
    return np.where(q < 0.5, -1 / np.tan(math.pi * q), 1 / np.tan(math.pi * (1 - q)))


def _from_log(name: str) -> Callable[..., Any]:
    return lambda self, *args: np.exp(getattr(self, name)(*args))


def _least(tail: Callable[..., Any], quantile: Callable[..., Any], upper: bool = False) -> Callable[..., Any]:
    """The least integer at which the lower *tail* is at least q, or the *upper* one at most, near the *quantile*."""

    def method(self: Any, q: Any, *args: Any) -> Any:
        above = np.ceil(quantile(1 - q if upper else q, *args))
        below = np.maximum(above - 1, 0)
        found = tail(self, below, *args)
        return np.where(found <= q if upper else found >= q, below, above)

    return method


def _binom_cdf(self: Any, x: Any, n: Any, p: Any) -> Any:
    return sp.betaincc(np.floor(x) + 1, n - np.floor(x), p)


def _binom_sf(self: Any, x: Any, n: Any, p: Any) -> Any:
    return sp.betainc(np.floor(x) + 1, n - np.floor(x), p)


def _nbinom_cdf(self: Any, x: Any, n: Any, p: Any) -> Any:
    return sp.betainc(n, np.floor(x) + 1, p)


def _nbinom_sf(self: Any, x: Any, n: Any, p: Any) -> Any:
    return sp.betaincc(n, np.floor(x) + 1, p)


def _nbinom_logcdf(self: Any, x: Any, n: Any, p: Any) -> Any:
    cdf = _nbinom_cdf(self, x, n, p)
    return np.where(cdf > 0.5, np.log1p(-_nbinom_sf(self, x, n, p)), np.log(cdf))


def _nbinom_stats(self: Any, n: Any, p: Any) -> Any:
    rest = 1 - p
    return n * rest / p, n * rest / p**2, (2 - p) / np.sqrt(n * rest), 6 / n + p**2 / (n * rest)


# ---- expected values ------------------------------------------------------------------------------------------------


def _expectation(
    self: Any, func: Any = None, args: Any = (), loc: Any = 0, scale: Any = 1, lb: Any = None, ub: Any = None,
    conditional: bool = False, **kwds: Any,
) -> Any:  # fmt: skip
    """As SciPy, by three integrals: of both tails of 5%, and of what is between them."""
    ends = [
        loc + end * scale if bound is None and (is_traced(end) or np.isfinite(end)) else end if bound is None else bound
        for end, bound in zip(self._get_support(*args), (lb, ub), strict=True)
    ]
    low, high = (self.cdf(end, *args, loc=loc, scale=scale) for end in ends)
    parts = [_constant(self.ppf(low + (high - low) * share, *args, loc=loc, scale=scale)) for share in (0.05, 0.95)]
    quad = sys.modules["scipy.integrate"].quad

    def density(x: Any) -> Any:
        return (x if func is None else func(x)) * self.pdf(x, *args, loc=loc, scale=scale)

    found = sum(quad(density, *part, **kwds)[0] for part in itertools.pairwise([ends[0], *parts, ends[1]]))
    return found / (high - low) if conditional else found


def _constant(x: Any) -> Any:
    return wrap(F.stop_gradient(x.atom)) if is_traced(x) else x


# ---- sums over a support --------------------------------------------------------------------------------------------

_MOST = 1 << 20  # terms of a sum


def _expect(
    fun: Any, lb: Any, ub: Any, x0: Any, inc: int, maxcount: int = 1000, tolerance: float = 1e-10, chunksize: int = 32
) -> Any:
    """The sum of *fun* over the support, by pieces of which each is twice the one before, past the median *x0*, until
    one of them is small."""
    low, high = (float(end) if np.isinf(end) else int(end) for end in (lb, ub))
    if high - low <= 32 * chunksize:
        return np.sum(fun(np.arange(low, high + 1, inc)))
    if low == -math.inf:
        start = min(high, 0)
        above = _expect(fun, start, ub, x0, inc) if high > start else 0.0
        return above + _expect(lambda k: fun(-k), 1 - start, math.inf, -x0, inc)
    total, size = 0.0, 2 * chunksize
    while low <= high and size <= _MOST:
        piece = np.sum(fun(np.arange(low, min(low + size * inc, high + 1), inc)))
        total, low = total + piece, low + size * inc
        if (low > x0) & (np.abs(piece) < tolerance * size):
            break
        size *= 2
    return total


def _sum_entropy(self: Any, *args: Any) -> Any:
    """By logarithms, whose derivatives are finite where the probabilities are too small for a number."""
    a, b = self._get_support(*args)

    def terms(k: Any) -> Any:
        log = self._logpmf(k, *args)
        return np.where(log > -math.inf, -np.exp(log) * log, 0.0)

    return _expect(terms, a, b, self._ppf(0.5, *args), self.inc)


_GENERIC: dict[str, dict[str, Callable[..., Any]]] = {
    "rv_generic": {"_munp": _munp, "_ppf": _quantiles},
    "rv_continuous": {"_logcdf": _logcdf, "_logsf": _logsf},
    "rv_discrete": {"_entropy": _sum_entropy},
}
_CONTINUOUS: dict[str, dict[str, Callable[..., Any]]] = {
    "beta_gen": {"_pdf": _from_log("_logpdf"), "_ppf": lambda self, q, a, b: sp.betaincinv(a, b, q)},
    "cauchy_gen": {"_logpdf": _cauchy_logpdf, "_ppf": _cauchy_ppf, "_isf": lambda self, q: -_cauchy_ppf(self, q)},
    "logistic_gen": {"_logpdf": _logistic_logpdf},
    "pareto_gen": {"_stats": _pareto_stats},
    "t_gen": {"_logpdf": _t_logpdf, "_entropy": _t_entropy},
}
_DISCRETE: dict[str, dict[str, Callable[..., Any]]] = {
    "binom_gen": {
        "_pmf": _from_log("_logpmf"), "_cdf": _binom_cdf, "_sf": _binom_sf, "_ppf": _least(_binom_cdf, sp.bdtrik),
        "_isf": _least(_binom_sf, sp.bdtrik, True),
    },
    "nbinom_gen": {
        "_pmf": _from_log("_logpmf"), "_cdf": _nbinom_cdf, "_sf": _nbinom_sf, "_logcdf": _nbinom_logcdf,
        "_stats": _nbinom_stats, "_ppf": _least(_nbinom_cdf, sp.nbdtrik),
        "_isf": _least(_nbinom_sf, sp.nbdtrik, True),
    },
}  # fmt: skip


def _replace(module: Any, table: dict[str, dict[str, Callable[..., Any]]]) -> None:
    for name, methods in table.items():
        for method, implementation in methods.items():
            formula = vars(getattr(module, name, object)).get(method)
            if formula is not None:
                hook(formula, implementation)


def record_sources(module: Any, *names: str) -> None:
    """Record the functions and methods of the *module* that use one of these *names*, which give plain arrays, through
    their source."""
    own = [x for x in vars(module).values() if getattr(x, "__module__", None) == module.__name__]
    spaces = [vars(x) for x in own if isinstance(x, type)]
    for function in [*own, *(f for space in spaces for f in space.values())]:
        if isinstance(function, FunctionType) and not set(names).isdisjoint(function.__code__.co_names):
            hook_to_source(function)


@when_loaded("scipy.stats", "norm", "binom")
def _install(stats: Any) -> None:
    infrastructure = sys.modules["scipy.stats._distn_infrastructure"]
    _replace(infrastructure, _GENERIC)
    hook(infrastructure._expect, _expect)
    always = lambda args, kwargs: True  # noqa: E731  (the function may be of traced values, where no parameter is one)
    hook(infrastructure.rv_continuous.expect, _expectation, always)
    hook(infrastructure.rv_discrete.expect, source_of(copy_of(infrastructure.rv_discrete.expect)), always)
    for name, table in (("continuous", _CONTINUOUS), ("discrete", _DISCRETE)):
        module = sys.modules[f"scipy.stats._{name}_distns"]
        _replace(module, table)
        record_sources(module, "asarray")
