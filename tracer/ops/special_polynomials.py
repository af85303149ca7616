"""scipy.special: orthogonal polynomials. A derivative is a polynomial of the next lower degree of another family."""

from __future__ import annotations

from typing import Any

from ..ir.graph import Atom
from . import scipy_ufuncs as sp
from .elementwise import F, like
from .special import Missing, number, special

N = Missing("n", "pass an integer")
DEGREE, INSIDE = (0, 5), (-0.9, 0.9)
_LINE: dict[str, Any] = {"domain": (DEGREE, INSIDE), "kinds": "if", "cost": 100}


def _lower(family: str, n: Atom, *rest: Any) -> Atom:
    """The polynomial of degree n - 1, that of -1 being 0."""
    constant = F.eq(n, like(0, n))
    found = getattr(F, f"eval_{family}")(F.select(constant, n, n - 1), *rest)
    return F.select(constant, like(0, found), found)


special(sp.eval_legendre, N, lambda o, n, x: _lower("gegenbauer", n, 1.5, x), **_LINE)
special(sp.eval_sh_legendre, N, lambda o, n, x: 2 * _lower("gegenbauer", n, 1.5, 2 * x - 1), **_LINE)
special(sp.eval_chebyt, N, lambda o, n, x: n * _lower("chebyu", n, x), **_LINE)
special(sp.eval_chebyu, N, lambda o, n, x: 2 * _lower("gegenbauer", n, 2, x), **_LINE)
special(sp.eval_chebyc, N, lambda o, n, x: n * _lower("chebys", n, x), **_LINE)
special(sp.eval_chebys, N, lambda o, n, x: _lower("gegenbauer", n, 2, 0.5 * x), **_LINE)
special(sp.eval_sh_chebyt, N, lambda o, n, x: 2 * n * _lower("sh_chebyu", n, x), **_LINE)
special(sp.eval_sh_chebyu, N, lambda o, n, x: 4 * _lower("gegenbauer", n, 2, 2 * x - 1), **_LINE)
special(sp.eval_laguerre, N, lambda o, n, x: -_lower("genlaguerre", n, 1, x), **_LINE)
special(sp.eval_hermite, N, lambda o, n, x: 2 * n * _lower("hermite", n, x), **_LINE)
special(sp.eval_hermitenorm, N, lambda o, n, x: n * _lower("hermitenorm", n, x), **_LINE)

_OF_TWO: dict[str, Any] = {"domain": (DEGREE, (0.3, 2.0), INSIDE), "kinds": "iff", "cost": 100}
_ALPHA = Missing("alpha")
special(sp.eval_gegenbauer, N, _ALPHA, lambda o, n, a, x: 2 * a * _lower("gegenbauer", n, a + 1, x), **_OF_TWO)
special(sp.eval_genlaguerre, N, _ALPHA, lambda o, n, a, x: -_lower("genlaguerre", n, a + 1, x), **_OF_TWO)
_OF_THREE: dict[str, Any] = {"domain": (DEGREE, (1.3, 2.0), (0.3, 1.0), INSIDE), "kinds": "ifff", "cost": 100}
special(
    sp.eval_jacobi, N, _ALPHA, Missing("beta"),
    lambda o, n, a, b, x: 0.5 * (n + a + b + 1) * _lower("jacobi", n, a + 1, b + 1, x), **_OF_THREE,
)  # fmt: skip


def _shifted_jacobi(o: Atom, n: Atom, p: Atom, q: Atom, x: Atom) -> Atom:
    below = _lower("jacobi", n, p - q + 1, q, 2 * x - 1)
    return (n + p) * below / F.binom(2 * n + p - 1, n)


special(sp.eval_sh_jacobi, N, Missing("p"), Missing("q"), _shifted_jacobi, **_OF_THREE)
special(
    sp.lpmv, Missing("m", "pass an integer"), Missing("v"),
    lambda o, m, v, x: (v * x * o - (v + m) * F.lpmv(m, v - 1, x)) / (x * x - number(1)),
    domain=((0, 2), (2.3, 4.0), INSIDE), kinds="nff", cost=150,
)  # fmt: skip
