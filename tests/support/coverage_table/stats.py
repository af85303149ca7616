"""scipy.stats: each distribution's methods, of traced values and parameters, with positional loc and scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from .case import Case

_DENSITIES = "pdf logpdf"
_TAILS = "cdf logcdf sf logsf"
_QUANTILES = "ppf isf"
_STATISTICS = "mean var std median entropy stats moment support interval"
_OF_TAILS = f"{_TAILS} {_QUANTILES} median interval".split()
_OF_NO_MEAN = ("mean", "var", "std", "stats", "moment")  # of Cauchy's distribution: NaN
_Q = np.array([0.12, 0.55, 0.9])


def _statistic(method: str, distribution: Any, *parameters: Any) -> Any:
    """A statistic of the *distribution* as arrays: ends of a support that are infinite have no differences."""
    if method == "moment":
        return distribution.moment(3, *parameters)
    if method == "interval":
        return distribution.interval(0.8, *parameters)
    found = getattr(distribution, method)(*parameters)
    return [x for x in found if np.isfinite(x)] if method == "support" else found


def _continuous(name: str, x: Sequence[float], *shapes: float, tails: bool = True) -> list[Case]:
    """Cases of a continuous distribution: *x* in its support moved by 0.2 and scaled by 1.3.  *tails*: whether
    probabilities and quantiles have derivatives by the shapes, too."""
    distribution, cases = getattr(stats, name), []
    for method in f"{_DENSITIES} {_TAILS} {_QUANTILES} {_STATISTICS}".split():
        given: list[Any] = [_Q] if method in _QUANTILES else [np.asarray(x)] if method not in _STATISTICS else []
        traced = [*shapes, 0.2, 1.3] if tails or method not in _OF_TAILS else [0.2, 1.3]
        fixed = shapes[: len(shapes) + 2 - len(traced)]

        def call(*values: Any, method: str = method, given: int = len(given), fixed: Any = fixed) -> Any:
            return _value(distribution, method, values[:given], *fixed, *values[given:])

        cases.append(Case(f"scipy.stats.{name}.{method}", call, [*given, *traced], step=2e-4, tol=1e-5))
    return cases


def _discrete(name: str, k: Sequence[int], p: float, *sizes: int) -> list[Case]:
    """Cases of a discrete distribution with the parameters *sizes*, integers, and *p*."""
    distribution, cases = getattr(stats, name), []
    for method in f"pmf logpmf {_TAILS} {_QUANTILES} {_STATISTICS}".split():
        first = [_Q] if method in _QUANTILES else [np.asarray(k)] if method not in _STATISTICS else []

        def call(p: Any, method: str = method, first: Any = first) -> Any:
            return _value(distribution, method, first, *sizes, p, 1)

        order = 0 if method in "ppf isf median interval support".split() else 2
        cases.append(Case(f"scipy.stats.{name}.{method}", call, [p], order=order, step=2e-4, tol=1e-5, rtol=1e-8))
    return cases


def _value(distribution: Any, method: str, first: Sequence[Any], *parameters: Any) -> Any:
    """Ends of a support that are infinite have no differences."""
    first = {"moment": [3], "interval": [0.8]}.get(method, first)
    found = getattr(distribution, method)(*first, *parameters)
    return [x for x in found if np.isfinite(x)] if method == "support" else found


_C = np.array([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 1.1]])
_M, _X = np.array([0.3, -0.2, 1.1]), np.array([[0.1, 0.9, -0.3], [1.2, -0.7, 0.4]])
_A, _K, _DF = np.array([1.5, 2.0, 3.0]), np.array([[2, 3, 1], [1, 1, 4]]), np.array(5.5)


def _symmetric(c: Any) -> Any:
    """Covariances whose differences stay symmetric."""
    return (c + c.T) / 2


def _simplex(t: Any) -> Any:
    return np.exp(t) / np.sum(np.exp(t))


def _multivariate(name: str, cases: dict[str, tuple[Callable[..., Any], Sequence[Any]]]) -> list[Case]:
    """Cases by the methods' names; a word behind one tells two of a method apart."""
    parts = [(method.partition(" "), case) for method, case in cases.items()]
    return [Case(f"scipy.stats.{name}.{m}", call, args, label=label) for (m, _, label), (call, args) in parts]


_NORMAL = stats.multivariate_normal
_MULTIVARIATE = [
    *_multivariate("multivariate_normal", {
        "logpdf": (lambda x, m, c: _NORMAL.logpdf(x, m, _symmetric(c)), (_X, _M, _C)),
        "logpdf equal-eigenvalues": (lambda x, c: _NORMAL.logpdf(x, cov=_symmetric(c)), (_X, np.eye(3))),
        "logpdf variances": (lambda x, m, c: _NORMAL(m, c).logpdf(x), (_X, _M, _A)),
        "logpdf covariance-object": (
            lambda x, r: _NORMAL.logpdf(x, None, stats.Covariance.from_cholesky(np.tril(r))), (_X, _C),
        ),
        "pdf": (lambda x, m, c: _NORMAL(m, _symmetric(c)).pdf(x), (_X[0], _M, _C)),
        "entropy": (lambda c: _NORMAL.entropy(cov=_symmetric(c)), (_C,)),
    }),
    *_multivariate("multivariate_t", {
        "logpdf": (lambda x, m, c, df: stats.multivariate_t.logpdf(x, m, _symmetric(c), df), (_X, _M, _C, _DF)),
    }),
    *_multivariate("matrix_normal", {
        "logpdf": (
            lambda x, m, r, c: stats.matrix_normal.logpdf(x, m, _symmetric(r), _symmetric(c)),
            (_X, 2 * _X, _C[:2, :2], _C),
        ),
    }),
    *_multivariate("wishart", {
        "logpdf": (lambda x, c, df: stats.wishart.logpdf(_symmetric(x), df[()], _symmetric(c)), (_C, _C + 1, _DF)),
    }),
    *_multivariate("invwishart", {
        "logpdf": (lambda x, c, df: stats.invwishart.logpdf(_symmetric(x), df[()], _symmetric(c)), (_C, _C + 1, _DF)),
    }),
    *_multivariate("dirichlet", {
        "logpdf": (lambda t, a: stats.dirichlet.logpdf(_simplex(t), a), (_M, _A)),
        "pdf": (lambda x, a: stats.dirichlet(a).pdf(x), (np.array([0.2, 0.3]), _A)),
        "mean": (stats.dirichlet.mean, (_A,)),
        "var": (stats.dirichlet.var, (_A,)),
        "cov": (stats.dirichlet.cov, (_A,)),
        "entropy": (stats.dirichlet.entropy, (_A,)),
    }),
    *_multivariate("multinomial", {
        "logpmf": (lambda t: stats.multinomial.logpmf(_K, 6, _simplex(t)), (_M,)),
        "pmf": (lambda t: stats.multinomial(6, _simplex(t)).pmf(_K[0]), (_M,)),
        "mean": (lambda t: stats.multinomial.mean(6, _simplex(t)), (_M,)),
        "cov": (lambda t: stats.multinomial.cov(6, _simplex(t)), (_M,)),
        "entropy": (lambda t: stats.multinomial.entropy(4, _simplex(t)), (_M,)),
    }),
    *_multivariate("dirichlet_multinomial", {
        "logpmf": (lambda a: stats.dirichlet_multinomial.logpmf(_K, a, 6), (_A,)),
    }),
]  # fmt: skip

_U, _V = np.array([0.3, 1.2, 2.7, 0.9, 1.8]), np.array([1.1, 0.2, 2.2, 1.9, 2.8])
_W, _T, _LAM = np.array([0.6, 0.9, 0.7, 0.8, 0.5]), np.array([[0.3, 1.2, 2.7], [1.9, 0.8, 1.1]]), np.array(0.4)
_SUMMARIES: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("zscore", lambda x: stats.zscore(x, axis=1, ddof=1), (_T,)),
    ("gzscore", stats.gzscore, (_U,)),
    ("zmap", stats.zmap, (_U, _V)),
    ("gmean", lambda x, w: stats.gmean(x, weights=w), (_U, _W)),
    ("gmean axis", lambda x: stats.gmean(x, axis=1, keepdims=True), (_T,)),
    ("hmean", lambda x: stats.hmean(x, axis=None), (_T,)),
    ("pmean", lambda x: stats.pmean(x, 3), (_U,)),
    ("skew", lambda x: stats.skew(x, axis=1, bias=False), (_T,)),
    ("kurtosis", lambda x: stats.kurtosis(x, fisher=False), (_U,)),
    ("kurtosis bias", lambda x: stats.kurtosis(x, bias=False), (_U,)),
    ("moment", lambda x: stats.moment(x, [2, 3, 4]), (_U,)),
    ("moment center", lambda x: stats.moment(x, 2, axis=1, center=0.3), (_T,)),
    ("sem", lambda x: stats.sem(x, axis=None, ddof=0), (_T,)),
    ("variation", stats.variation, (_U,)),
    ("describe", lambda x: stats.describe(x)[2:], (_U,)),
    ("kstat", lambda x: stats.kstat(x, 3), (_U,)),
    ("tmean", lambda x: stats.tmean(x, (0.5, 2.5)), (_U,)),
    ("tvar", lambda x: stats.tvar(x, (0.5, 2.5)), (_U,)),
    ("tstd", stats.tstd, (_U,)),
    ("trim_mean", lambda x: stats.trim_mean(x, 0.2), (_U,)),
    ("iqr", lambda x: stats.iqr(x, axis=1), (_T,)),
    ("median_abs_deviation", stats.median_abs_deviation, (_V,)),
    ("entropy", stats.entropy, (_U,)),
    ("entropy relative", lambda p, q: stats.entropy(p, q, base=2), (_U, _V)),
    ("differential_entropy", stats.differential_entropy, (_U,)),
    ("circmean", stats.circmean, (_U,)),
    ("circvar", stats.circvar, (_U,)),
    ("circstd", stats.circstd, (_U,)),
    ("lmoment", stats.lmoment, (_U,)),
    ("yeojohnson", stats.yeojohnson, (_U - 1, _LAM)),
    ("yeojohnson_llf", lambda lam, x: stats.yeojohnson_llf(lam, x), (_LAM, _U)),
    ("boxcox_llf", lambda lam, x: stats.boxcox_llf(lam, x), (_LAM, _U)),
    ("wasserstein_distance", stats.wasserstein_distance, (_U, _V)),
    ("wasserstein_distance weights", lambda u, w: stats.wasserstein_distance(u, _V, w, 2 * _W), (_U, _W)),
    ("energy_distance", stats.energy_distance, (_U, _V)),
    ("gaussian_kde.evaluate", lambda x, y: stats.gaussian_kde(x)(y), (_U, _V)),
    ("gaussian_kde.logpdf", lambda y: stats.gaussian_kde(_T, weights=_W[:3]).logpdf(y), (_T[:, :2],)),
    ("gaussian_kde.pdf", lambda x: stats.gaussian_kde(x, bw_method=0.4).pdf(_V), (_U,)),
    ("boxcox", lambda x, lam: stats.boxcox(x, lam), (_U, _LAM)),
    ("linregress", lambda x, y: stats.linregress(x, y)[:5], (_U, _V)),
    ("pearsonr", lambda x, y: [*stats.pearsonr(x, y)], (_U, _V)),
    ("ttest_1samp", lambda x, m: [*stats.ttest_1samp(x, m)], (_U, _LAM)),
    ("ttest_ind", lambda x, y: [*stats.ttest_ind(x, y)], (_U, _V)),
    ("f_oneway", lambda x, y: [*stats.f_oneway(x, y)], (_U, _V)),
    ("chisquare", lambda x: [*stats.chisquare(x, np.sum(x) * _W / np.sum(_W))], (_U,)),
    ("quantile", lambda x: stats.quantile(x, 0.3), (_U,)),
    ("uniform.expect", lambda m, s: stats.uniform(m, s).expect(np.cos), (_LAM, _DF)),
    ("binom.expect", lambda p: stats.binom(7, p).expect(np.log1p), (_LAM,)),
    ("norm.nnlf", lambda m, s, x: stats.norm.nnlf((m, s), x), (_LAM, _DF, _U)),
]

_OTHERS: dict[str, tuple[float, ...]] = {  # distributions by their shapes
    "halfnorm": (), "halfcauchy": (), "rayleigh": (), "gumbel_r": (), "invgamma": (2.5,), "invgauss": (0.7,),
    "genextreme": (-0.2,), "genpareto": (0.3,), "vonmises": (1.3,), "truncnorm": (-1.0, 2.0), "skewnorm": (1.5,),
    "gengamma": (1.4, 0.8), "f": (3.5, 5.0), "exponnorm": (1.2,), "loggamma": (1.4,), "fisk": (1.8,),
}  # fmt: skip
CASES = [
    *_continuous("norm", [-1.3, 0.4, 2.9]),
    *_continuous("t", [-1.3, 0.4, 2.9], 5.5, tails=False),
    *_continuous("gamma", [0.5, 1.9, 4.0], 2.3, tails=False),
    *_continuous("beta", [0.3, 0.9, 1.4], 2.3, 1.6, tails=False),
    *_continuous("chi2", [0.5, 1.9, 4.0], 3.2, tails=False),
    *_continuous("expon", [0.5, 1.9, 4.0]),
    *_continuous("uniform", [0.3, 0.9, 1.4]),
    *_continuous("lognorm", [0.5, 1.9, 4.0], 0.6),
    *_continuous("laplace", [-1.3, 0.4, 2.9]),
    *_continuous("logistic", [-1.3, 0.4, 2.9]),
    *[
        replace(case, order=0 if case.name.endswith(_OF_NO_MEAN) else 2)
        for case in _continuous("cauchy", [-1.3, 0.4, 2.9])
    ],
    *_continuous("pareto", [1.8, 2.2, 5.1], 4.5),
    *_continuous("weibull_min", [0.5, 1.9, 3.0], 1.7),
    *_discrete("poisson", [1, 3, 5, 9], 3.4),
    *_discrete("binom", [1, 2, 5, 7], 0.37, 7),
    *_discrete("bernoulli", [1], 0.37),
    Case("scipy.stats.bernoulli.logpmf", lambda p: stats.bernoulli(p).logpmf([0, 1]), [0.37], label="frozen"),
    *_discrete("nbinom", [1, 3, 5, 9], 0.37, 4),
    Case("scipy.stats.foldnorm.ppf", stats.foldnorm.ppf, [_Q, 1.3, 0.2, 1.1], label="searched", tol=1e-5),
    *[
        Case(f"scipy.stats.{name}.logpdf", getattr(stats, name).logpdf, [[0.5, 0.9, 1.4], *shapes, 0.1, 1.3], tol=1e-5)
        for name, shapes in _OTHERS.items()
    ],
    Case("scipy.stats.burr.mean", stats.burr.mean, [3.5, 1.3], label="by-item"),
    Case("scipy.stats.geom.logpmf", lambda p: stats.geom.logpmf([1, 3], p), [0.3]),
    Case("scipy.stats.betabinom.logpmf", lambda a, b: stats.betabinom.logpmf([1, 3], 5, a, b), [1.3, 0.8]),
    *_MULTIVARIATE,
    *[
        Case(f"scipy.stats.{name.partition(' ')[0]}", call, args, label=name.partition(" ")[2], tol=1e-5, step=1e-4)
        for name, call, args in _SUMMARIES
    ],
]
