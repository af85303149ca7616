"""scipy.special: distribution functions, their inverses, and the incomplete gamma and beta functions behind them.

A partial by the point is the density there, and that of an inverse function one over it.  For most parameters SciPy has
no derivative.
"""

from __future__ import annotations

import math
from typing import Any

from scipy.special import _ufuncs

from ..ir.graph import Atom
from . import scipy_ufuncs as sp
from .elementwise import F, like
from .special import Missing, number, special
from .special_elementary import power_slope

POSITIVE = (0.4, 4.0)
PROBABILITY = (0.05, 0.95)
NORMAL = math.sqrt(2 * math.pi)


# ---- densities -----------------------------------------------------------------------------------------------------


def _from_zero(x: Atom, k: Atom, rest: Atom, elsewhere: Atom) -> Atom:
    """x**k e**rest where x is 0, *elsewhere* at other points: there a logarithm has no derivative, a power has."""
    border = F.pow(x, k) * F.exp(F.minimum(rest, like(700, rest)))
    return F.select(F.eq(x, like(0, x)), border, elsewhere)


def gamma_density(a: Atom, x: Atom) -> Atom:
    """x**(a - 1) e**-x / gamma(a)"""
    rest = -x - F.gammaln(a)
    return _from_zero(x, a - 1, rest, F.exp(F.xlogy(a - 1, x) + rest))


def beta_density(a: Atom, b: Atom, x: Atom) -> Atom:
    """x**(a - 1) (1 - x)**(b - 1) / beta(a, b)"""
    y, whole = 1 - x, -F.betaln(a, b)
    of_x, of_y = F.xlogy(a - 1, x) + whole, F.xlog1py(b - 1, -x) + whole
    at_end = _from_zero(y, b - 1, of_x, F.exp(of_x + of_y - whole))
    return _from_zero(x, a - 1, of_y, at_end)


def t_density(df: Atom, t: Atom) -> Atom:
    return F.exp(-0.5 * (df + 1) * F.log1p(t * t / df) - F.betaln(number(0.5), 0.5 * df)) / F.sqrt(df)


def f_density(dfn: Atom, dfd: Atom, x: Atom) -> Atom:
    """By beta's, of y = dfn x / (dfd + dfn x)."""
    whole = dfd + dfn * x
    return beta_density(0.5 * dfn, 0.5 * dfd, dfn * x / whole) * dfn * dfd / (whole * whole)


def chi2_density(df: Atom, x: Atom) -> Atom:
    return 0.5 * gamma_density(0.5 * df, 0.5 * x)


# ---- gamma ---------------------------------------------------------------------------------------------------------

_A = Missing("a")
special(sp.gammainc, _A, lambda o, a, x: gamma_density(a, x), domain=(POSITIVE, POSITIVE))
special(sp.gammaincc, _A, lambda o, a, x: -gamma_density(a, x), domain=(POSITIVE, POSITIVE))
special(sp.gammaincinv, _A, lambda o, a, y: 1 / gamma_density(a, o), domain=(POSITIVE, PROBABILITY), cost=200)
special(sp.gammainccinv, _A, lambda o, a, y: -1 / gamma_density(a, o), domain=(POSITIVE, PROBABILITY), cost=200)
_B = Missing("b")
_GDTR: Any = (POSITIVE, POSITIVE, POSITIVE)
special(
    sp.gdtr, lambda o, a, b, x: x * gamma_density(b, a * x), _B, lambda o, a, b, x: a * gamma_density(b, a * x),
    domain=_GDTR,
)  # fmt: skip
special(
    sp.gdtrc, lambda o, a, b, x: -x * gamma_density(b, a * x), _B, lambda o, a, b, x: -a * gamma_density(b, a * x),
    domain=_GDTR,
)  # fmt: skip
special(
    sp.gdtria, lambda o, p, b, x: 1 / (x * gamma_density(b, o * x)), _B, lambda o, p, b, x: -o / x,
    domain=(PROBABILITY, POSITIVE, POSITIVE), cost=200,
)  # fmt: skip
special(
    sp.gdtrix, lambda o, a, b, p: -o / a, _B, lambda o, a, b, p: 1 / (a * gamma_density(b, a * o)),
    domain=(POSITIVE, POSITIVE, PROBABILITY), cost=200,
)  # fmt: skip
_V = Missing("v")
special(sp.chdtr, _V, lambda o, v, x: chi2_density(v, x), domain=(POSITIVE, POSITIVE))
special(sp.chdtrc, _V, lambda o, v, x: -chi2_density(v, x), domain=(POSITIVE, POSITIVE))
special(sp.chdtri, _V, lambda o, v, p: -1 / chi2_density(v, o), domain=(POSITIVE, PROBABILITY), cost=200)

# ---- beta, and what is made of it ------------------------------------------------------------------------------------

_BETA: Any = (POSITIVE, POSITIVE, PROBABILITY)
special(sp.betainc, _A, _B, lambda o, a, b, x: beta_density(a, b, x), domain=_BETA, cost=100)
special(sp.betaincc, _A, _B, lambda o, a, b, x: -beta_density(a, b, x), domain=_BETA, cost=100)
special(sp.betaincinv, _A, _B, lambda o, a, b, y: 1 / beta_density(a, b, o), domain=_BETA, cost=300)
special(sp.betainccinv, _A, _B, lambda o, a, b, y: -1 / beta_density(a, b, o), domain=_BETA, cost=300)
_DF = Missing("df")
special(sp.stdtr, _DF, lambda o, df, t: t_density(df, t), domain=(POSITIVE, (-3.0, 3.0)), cost=100)
special(sp.stdtrit, _DF, lambda o, df, p: 1 / t_density(df, o), domain=((1.0, 4.0), PROBABILITY), cost=300)
_F: Any = (Missing("dfn"), Missing("dfd"))
_F_DOMAIN: Any = ((1.0, 6.0), (1.0, 6.0), POSITIVE)
special(sp.fdtr, *_F, lambda o, dfn, dfd, x: f_density(dfn, dfd, x), domain=_F_DOMAIN, cost=100)
special(sp.fdtrc, *_F, lambda o, dfn, dfd, x: -f_density(dfn, dfd, x), domain=_F_DOMAIN, cost=100)
special(
    sp.fdtri, *_F, lambda o, dfn, dfd, p: 1 / f_density(dfn, dfd, o), domain=(*_F_DOMAIN[:2], PROBABILITY), cost=300
)

# ---- of counts: constant between whole numbers of events -------------------------------------------------------------


def _binomial(k: Atom, n: Atom, p: Atom) -> Atom:
    """The derivative of bdtrc by p."""
    k = F.floor(k)
    inside = F.lt(k, n)
    n = F.select(inside, n, k + 1)
    density = beta_density(k + 1, n - k, p)
    return F.select(inside, density, like(0, density))


def _negative_binomial(k: Atom, n: Atom, p: Atom) -> Atom:
    """The derivative of nbdtr by p."""
    return beta_density(n, k + 1, p)


def _poisson(k: Atom, m: Atom) -> Atom:
    """The derivative of pdtrc by m."""
    return gamma_density(F.floor(k) + 1, m)


_BINOMIAL: dict[str, Any] = {"domain": ((0, 4), (5, 9), PROBABILITY), "kinds": "nif", "cost": 100}
special(sp.bdtr, None, None, lambda o, k, n, p: -_binomial(k, n, p), **_BINOMIAL)
special(sp.bdtrc, None, None, lambda o, k, n, p: _binomial(k, n, p), **_BINOMIAL)
special(
    sp.bdtri, None, None, lambda o, k, n, y: -1 / _binomial(k, n, o), domain=((0, 4), (5, 9), (0.3, 0.7)), kinds="nif",
    cost=300,
)  # fmt: skip
_NEGATIVE: dict[str, Any] = {"domain": ((0, 4), (1, 5), PROBABILITY), "kinds": "iif", "cost": 100}
special(sp.nbdtr, None, None, lambda o, k, n, p: _negative_binomial(k, n, p), **_NEGATIVE)
special(sp.nbdtrc, None, None, lambda o, k, n, p: -_negative_binomial(k, n, p), **_NEGATIVE)
special(sp.nbdtri, None, None, lambda o, k, n, y: 1 / _negative_binomial(k, n, o), **_NEGATIVE)
_COUNT: Any = ((0.0, 5.0), POSITIVE)
special(sp.pdtr, None, lambda o, k, m: -_poisson(k, m), domain=_COUNT)
special(sp.pdtrc, None, lambda o, k, m: _poisson(k, m), domain=_COUNT)
special(sp.pdtri, None, lambda o, k, y: -1 / _poisson(k, o), domain=((0, 4), PROBABILITY), kinds="if", cost=200)

# ---- noncentral distributions ----------------------------------------------------------------------------------------


def _ncx2_density(x: Atom, df: Atom, nc: Atom) -> Atom:
    """By Bessel's function, where its argument is not small; else by the hypergeometric function."""
    order = 0.5 * df - 1
    near = F.lt(x * nc, like(1, x))
    a = F.select(near, like(1, x), x)
    b = F.select(near, like(1, nc), nc)
    rest = F.sqrt(a) - F.sqrt(b)
    far = 0.5 * F.exp(-0.5 * rest * rest) * F.pow(a / b, 0.5 * order) * F.ive(order, F.sqrt(a * b))
    small = F.select(near, 0.25 * x * nc, like(0, x))
    return F.select(near, chi2_density(df, x) * F.exp(-0.5 * nc) * F.hyp0f1(0.5 * df, small), far)


_NC = Missing("nc")
_NCX2: Any = (POSITIVE, (1.0, 5.0), POSITIVE)
special(
    sp.chndtr, lambda o, x, df, nc: _ncx2_density(x, df, nc), _DF, lambda o, x, df, nc: -_ncx2_density(x, df + 2, nc),
    domain=_NCX2, cost=300,
)  # fmt: skip
special(
    sp.chndtrix, lambda o, p, df, nc: 1 / _ncx2_density(o, df, nc), _DF,
    lambda o, p, df, nc: _ncx2_density(o, df + 2, nc) / _ncx2_density(o, df, nc),
    domain=(PROBABILITY, (1.0, 5.0), POSITIVE), cost=3000,
)  # fmt: skip
special(
    sp.chndtrinc, lambda o, x, df, p: _ncx2_density(x, df, o) / _ncx2_density(x, df + 2, o), _DF,
    lambda o, x, df, p: -1 / _ncx2_density(x, df + 2, o), domain=((6.0, 9.0), (1.0, 3.0), (0.2, 0.5)), cost=3000,
)  # fmt: skip


def _ncf_density(dfn: Atom, dfd: Atom, nc: Atom, f: Atom) -> Atom:
    y = dfn * f / (dfd + dfn * f)
    mixed = F.exp(-0.5 * nc) * F.hyp1f1(0.5 * (dfn + dfd), 0.5 * dfn, 0.5 * nc * y)
    return f_density(dfn, dfd, f) * mixed


def _ncf_by_nc(dfn: Atom, dfd: Atom, nc: Atom, f: Atom) -> Atom:
    """The derivative of ncfdtr by nc."""
    a, b, whole = 0.5 * dfn, 0.5 * dfd, dfd + dfn * f
    y = dfn * f / whole
    size = F.exp(F.xlogy(a, y) + F.xlogy(b, dfd / whole) - F.betaln(a, b) - 0.5 * nc) / a
    return -0.5 * size * F.hyp1f1(a + b, a + 1, 0.5 * nc * y)


_NCF: Any = ((1.0, 6.0), (1.0, 6.0), POSITIVE, POSITIVE)
special(
    sp.ncfdtr, *_F, lambda o, dfn, dfd, nc, f: _ncf_by_nc(dfn, dfd, nc, f),
    lambda o, dfn, dfd, nc, f: _ncf_density(dfn, dfd, nc, f), domain=_NCF, cost=500,
)  # fmt: skip
special(
    sp.ncfdtri, *_F, lambda o, dfn, dfd, nc, p: -_ncf_by_nc(dfn, dfd, nc, o) / _ncf_density(dfn, dfd, nc, o),
    lambda o, dfn, dfd, nc, p: 1 / _ncf_density(dfn, dfd, nc, o), domain=(*_NCF[:3], (0.2, 0.8)), cost=3000,
)  # fmt: skip
special(
    sp.ncfdtrinc, *_F, lambda o, dfn, dfd, p, f: 1 / _ncf_by_nc(dfn, dfd, o, f),
    lambda o, dfn, dfd, p, f: -_ncf_density(dfn, dfd, o, f) / _ncf_by_nc(dfn, dfd, o, f),
    domain=(*_NCF[:2], (0.2, 0.4), (3.0, 5.0)), cost=3000,
)  # fmt: skip


def _nct_term(df: Atom, nc: Atom, t: Atom, more: int) -> Atom:
    """The mean of s**more phi(t s - nc) over s = (chi2(df) / df)**0.5, by the parabolic cylinder function."""
    width = F.sqrt(1 + t * t / df)
    z = -t * nc / (F.sqrt(df) * width)
    n = df + float(more)
    log = F.gammaln(n) - F.gammaln(0.5 * df) + (1 - 0.5 * df) * math.log(2) - n * F.log(width) - 0.5 * nc * nc
    log = log + 0.25 * z * z - (0.5 * more) * F.log(df)
    return F.exp(log) * F.pbdv(-n, z)[0] / NORMAL


_NCT: Any = ((1.3, 5.0), (0.2, 2.0), (-1.0, 3.0))
special(
    sp.nctdtr, _DF, lambda o, df, nc, t: -_nct_term(df, nc, t, 0), lambda o, df, nc, t: _nct_term(df, nc, t, 1),
    domain=_NCT, cost=500,
)  # fmt: skip
special(
    sp.nctdtrit, _DF, lambda o, df, nc, p: _nct_term(df, nc, o, 0) / _nct_term(df, nc, o, 1),
    lambda o, df, nc, p: 1 / _nct_term(df, nc, o, 1), domain=(*_NCT[:2], (0.2, 0.8)), cost=3000,
)  # fmt: skip
special(
    sp.nctdtrinc, _DF, lambda o, df, p, t: -1 / _nct_term(df, o, t, 0),
    lambda o, df, p, t: _nct_term(df, o, t, 1) / _nct_term(df, o, t, 0),
    domain=((1.3, 5.0), (0.2, 0.5), (1.5, 3.0)), cost=3000,
)  # fmt: skip

# ---- normal ----------------------------------------------------------------------------------------------------------

special(sp.log_ndtr, lambda o, x: F.exp(-0.5 * x * x - o) / NORMAL, domain=((-3.0, 3.0),))
special(sp.ndtri_exp, lambda o, y: F.exp(0.5 * o * o + y) * NORMAL, domain=((-6.0, -0.1),), cost=100)
special(
    sp.nrdtrimn, lambda o, p, std, x: -std * NORMAL * F.exp(0.5 * F.square((x - o) / std)),
    lambda o, p, std, x: (o - x) / std, lambda o, p, std, x: like(1, o),
    domain=(PROBABILITY, POSITIVE, (-3.0, 3.0)), cost=100,
)  # fmt: skip
special(
    sp.nrdtrisd, lambda o, mn, p, x: o / (mn - x),
    lambda o, mn, p, x: o * o / (mn - x) * NORMAL * F.exp(0.5 * F.square((x - mn) / o)),
    lambda o, mn, p, x: o / (x - mn), domain=((-1.0, 1.0), (0.6, 0.9), (2.0, 3.0)), cost=100,
)  # fmt: skip

# ---- others ----------------------------------------------------------------------------------------------------------


def _tukey_by_x(o: Atom, x: Atom, lmbda: Atom) -> Atom:
    inside = F.logical_and(F.gt(o, like(0, o)), F.lt(o, like(1, o)))
    p = F.select(inside, o, like(0.5, o))
    return F.select(inside, 1 / (F.pow(p, lmbda - 1) + F.pow(1 - p, lmbda - 1)), like(0, o))


def _tukey_by_lambda(o: Atom, x: Atom, lmbda: Atom) -> Atom:
    inside = F.logical_and(F.gt(o, like(0, o)), F.lt(o, like(1, o)))
    p = F.select(inside, o, like(0.5, o))
    moved = power_slope(F.log(p), lmbda) - power_slope(F.log1p(-p), lmbda)
    return -moved * _tukey_by_x(o, x, lmbda)


special(sp.tklmbda, _tukey_by_x, _tukey_by_lambda, domain=((-0.8, 0.8), (0.2, 1.0)), cost=300)


def _kolmogorov_slope(x: Atom) -> Atom:
    """The derivative of kolmogorov, by the theta function's series for small or for large *x*."""
    small = F.lt(x, like(0.9, x))
    y = F.select(small, like(1, x), x)
    large: Atom = -8 * y * F.exp(-2 * y * y)
    for k in range(2, 6):
        large = large + (8.0 * k * k * (-1) ** k) * y * F.exp((-2.0 * k * k) * y * y)
    positive = F.logical_and(small, F.gt(x, like(0, x)))
    y = F.select(positive, x, like(1, x))
    total: Atom = like(0, x)
    for k in (1, 3, 5):
        c = (k * math.pi) ** 2 / 8
        total = total - NORMAL * F.exp(-c / (y * y)) * (2 * c / (y * y) - 1) / (y * y)
    return F.select(small, F.select(positive, total, like(0, x)), large)


special(sp.kolmogorov, lambda o, x: _kolmogorov_slope(x), domain=((0.3, 2.0),), cost=100)
special(sp.kolmogi, lambda o, p: 1 / _kolmogorov_slope(o), domain=(PROBABILITY,), cost=500)
special(_ufuncs._smirnovp, None, Missing("d"), domain=((1, 5), PROBABILITY), kinds="if", cost=200)
special(sp.smirnov, None, lambda o, n, d: F._smirnovp(n, d), domain=((1, 5), PROBABILITY), kinds="if", cost=200)
special(sp.smirnovi, None, lambda o, n, p: 1 / F._smirnovp(n, o), domain=((1, 5), PROBABILITY), kinds="if", cost=500)

# ---- inverses for a parameter, of which SciPy has no derivative ------------------------------------------------------

for _name, _names in (
    ("btdtria", "p b x"), ("btdtrib", "a p x"), ("bdtrik", "y n p"), ("bdtrin", "k y p"), ("chdtriv", "p x"),
    ("chndtridf", "x p nc"), ("fdtridfd", "dfn p x"), ("gdtrib", "a p x"), ("nbdtrik", "y n p"), ("nbdtrin", "k y p"),
    ("ncfdtridfd", "dfn p nc f"), ("ncfdtridfn", "p dfd nc f"), ("nctdtridf", "p nc t"), ("pdtrik", "p m"),
    ("stdtridf", "p t"),
):  # fmt: skip
    special(getattr(sp, _name), *map(Missing, _names.split()), domain=(POSITIVE,) * len(_names.split()), cost=500)
