"""scipy.special: distribution functions, their inverses, and the incomplete gamma and beta functions behind them.

A partial by the point is the density there, and that of an inverse function one over it.  For most parameters SciPy has
no derivative.
"""

from __future__ import annotations

import math
from typing import Any

import scipy.special as sp

from ..ir.graph import Atom
from .elementwise import F
from .special import Missing, special

POSITIVE = (0.4, 4.0)
PROBABILITY = (0.05, 0.95)
NORMAL = math.sqrt(2 * math.pi)


# ---- densities -----------------------------------------------------------------------------------------------------


def gamma_density(a: Atom, x: Atom) -> Atom:
    """x**(a - 1) e**-x / gamma(a)"""
    return F.exp(F.xlogy(a - 1, x) - x - F.gammaln(a))


def beta_density(a: Atom, b: Atom, x: Atom) -> Atom:
    return F.exp(F.xlogy(a - 1, x) + F.xlog1py(b - 1, -x) - F.betaln(a, b))


def t_density(df: Atom, t: Atom) -> Atom:
    return F.exp(-0.5 * (df + 1) * F.log1p(t * t / df) - F.betaln(0.5, 0.5 * df)) / F.sqrt(df)


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

# ---- normal ----------------------------------------------------------------------------------------------------------

special(sp.log_ndtr, lambda o, x: F.exp(-0.5 * x * x - o) / NORMAL, domain=((-3.0, 3.0),))
special(sp.ndtri_exp, lambda o, y: F.exp(0.5 * o * o + y) * NORMAL, domain=((-6.0, -0.1),), cost=100)
