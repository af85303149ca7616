"""scipy.special: functions in Python, and ufuncs whose rows are beside NumPy's (``tracer/ops/elementwise.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp

from .case import Case

X = np.array([0.3, 0.7, 1.2])
INSIDE = 0.5 * X
ANGLE = np.array(0.6)
SIGNED = np.array([1.0, -2.0, 1.0])
NEAR = np.array([-0.7, 0.4, 1.3])

_ONE = "cbrt entr erf erfc exp2 expm1 gamma gammaln log1p log_expit psi expit"
_UNIT = "erfinv logit ndtri"
_TWO = "betaln huber kl_div pseudo_huber rel_entr xlogy xlog1py"


def _case(name: str, call: Callable[..., Any], *args: np.ndarray, label: str = "") -> Case:
    return Case(f"scipy.special.{name}", call, args, label=label)


CASES = [
    *[_case(name, getattr(sp, name), X) for name in _ONE.split()],
    *[_case(name, getattr(sp, name), INSIDE + 0.2) for name in _UNIT.split()],
    *[_case(name, getattr(sp, name), X, X[::-1] + 0.1) for name in _TWO.split()],
    _case("logsumexp", sp.logsumexp, X),
    _case("logsumexp", lambda x, b: sp.logsumexp(x, b=b), X, X, label="b"),
    _case("logsumexp", lambda x: sp.logsumexp(x, b=SIGNED, return_sign=True), X, label="return_sign"),
    _case("softmax", sp.softmax, X),
    _case("log_softmax", sp.log_softmax, X),
    _case("softplus", sp.softplus, X),
    _case("multigammaln", lambda a: sp.multigammaln(a, 2), ANGLE + 2),
    _case("polygamma", lambda x: sp.polygamma(2, x), X),
    _case("polygamma", lambda x: sp.polygamma(np.array([0, 1, 2]), x), X, label="orders"),
    _case("zeta", lambda q: sp.zeta(2.5, q), X),
    _case("lambertw", lambda x: sp.lambertw(x).real, X),
    _case("sinc", sp.sinc, X),
    _case("diric", lambda x: sp.diric(x, 5), X),
    _case("diric", lambda x: sp.diric(x, 5), np.array(0.0), label="origin"),
    _case("comb", lambda n: sp.comb(n, 2.5), X + 4),
    _case("comb", lambda n: sp.comb(n, 2, repetition=True), X + 4, label="repetition"),
    _case("perm", lambda n: sp.perm(n, 2.5), X + 4),
    _case("factorial", sp.factorial, X),
    _case("assoc_laguerre", lambda x: sp.assoc_laguerre(x, 2, 0.5), X),
    *[_case(name, lambda x, f=name: getattr(sp, f)(1.5, x), X) for name in ("jvp", "yvp", "ivp", "kvp")],
    *[_case(name, lambda x, f=name: getattr(sp, f)(1, x, 2), X) for name in ("h1vp", "h2vp")],
    *[
        _case(f"spherical_{kind}", lambda x, f=f"spherical_{kind}": getattr(sp, f)(2, x), X)
        for kind in ("jn", "yn", "in", "kn")
    ],
    _case("spherical_jn", lambda x: sp.spherical_jn(np.arange(3), x, derivative=True), NEAR, label="derivative"),
    _case("spherical_kn", lambda x: sp.spherical_kn(1, x), NEAR, label="negative"),
    _case("legendre_p", lambda x: sp.legendre_p(3, x, diff_n=2), INSIDE),
    _case("legendre_p", lambda x: sp.legendre_p(np.array([[0], [2]]), x), INSIDE, label="degrees"),
    _case("legendre_p_all", lambda x: sp.legendre_p_all(3, x, diff_n=1), INSIDE),
    _case("assoc_legendre_p", lambda x: sp.assoc_legendre_p(3, -2, x, norm=True), INSIDE),
    _case("assoc_legendre_p_all", lambda x: sp.assoc_legendre_p_all(3, 2, x), INSIDE),
    _case("sph_legendre_p", lambda t: sp.sph_legendre_p(3, 1, t, diff_n=2), NEAR),
    _case("sph_legendre_p_all", lambda t: sp.sph_legendre_p_all(3, 2, t, diff_n=1), X),
    _case("sph_harm_y", lambda t, p: sp.sph_harm_y(np.array([2, 3, 1]), np.array([-2, 1, 0]), t, p), X, NEAR),
    _case("sph_harm_y_all", lambda t, p: sp.sph_harm_y_all(3, 2, t, p), ANGLE, ANGLE),
    *[
        _case(name, lambda x, f=name, a=parameters: getattr(sp, f)(3, *a)(x), X)
        for name, parameters in (
            ("jacobi", (0.5, 0.5)), ("sh_jacobi", (2, 1.0)), ("genlaguerre", (0.5,)), ("gegenbauer", (0.5,)),
        )
    ],
]  # fmt: skip
