"""scipy.special: functions that kernels compute in code of their own, many elements at a time, and gamma functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special._ufuncs import _zeta  # the Hurwitz zeta ufunc behind scipy.special.zeta, which is no ufunc

from ..ir.graph import Atom, Var
from . import scipy_ufuncs as sp
from .elementwise import POSITIVE, PROBABILITY, REAL, UNIT, F, libm, like, row
from .quantile import lower_ndtri

_SQRT_PI = math.sqrt(math.pi)

row("erf", sp.erf, lambda o, x: like(2 / _SQRT_PI, x) * F.exp(-x * x), lower=libm("erf"), cost=25)
row("erfc", sp.erfc, lambda o, x: like(-2 / _SQRT_PI, x) * F.exp(-x * x), lower=libm("erfc"), cost=25)
row("erfinv", sp.erfinv, lambda o, x: like(_SQRT_PI / 2, x) * F.exp(o * o), domain=UNIT, cost=40)
row(
    "ndtr", sp.ndtr, lambda o, x: like(1 / math.sqrt(2 * math.pi), x) * F.exp(like(-0.5, x) * (x * x)),
    lower=lambda s, x: s.mul(s.const(0.5), s.call("erfc", s.mul(s.neg(x), s.const(math.sqrt(0.5))))), cost=30,
)  # fmt: skip
row(
    "ndtri", sp.ndtri, lambda o, x: like(math.sqrt(2 * math.pi), x) * F.exp(like(0.5, x) * (o * o)),
    lower=lower_ndtri, domain=PROBABILITY, cost=80,
)  # fmt: skip


def _lower_logit(s: Any, x: Any) -> Any:
    rest = s.sub(s.const(1), x)
    middle = s.call("log1p", s.div(s.sub(s.add(x, x), s.const(1)), rest))  # exact where the logarithm crosses zero
    near = s.both(s.cmp(">", x, s.const(0.3)), s.cmp("<", x, s.const(0.65)))
    return s.select(near, middle, s.call("log", s.div(x, rest)))


row("logit", sp.logit, lambda o, x: 1 / (x * (1 - x)), lower=_lower_logit, domain=PROBABILITY, cost=45)
row("gammaln", sp.gammaln, lambda o, x: F.psi(x), domain=POSITIVE, cost=50)
row("gamma", sp.gamma, lambda o, x: o * F.psi(x), domain=POSITIVE, cost=50)
row("psi", sp.psi, lambda o, x: F.polygamma(x, n=1), domain=POSITIVE, cost=50)


def _polygamma(x: Any, n: int) -> Any:
    # psi^(n)(x) = (-1)^(n+1) n! zeta(n+1, x)   (DLMF 25.11.12)
    return ((-1.0) ** (n + 1) * math.factorial(n) * _zeta(np.float64(n + 1), x)).astype(x.dtype)


row(
    "polygamma", _polygamma, lambda o, x, n: F.polygamma(x, n=n + 1),
    lower=lambda s, x, n: s.mul(s.const((-1.0) ** (n + 1) * math.factorial(n)), s.ufunc(_zeta, s.const(n + 1), x)),
    domain=POSITIVE, cost=80, test={"params": {"n": 1}},
)  # fmt: skip


row(
    "betaln", sp.betaln, lambda o, a, b: F.psi(a) - F.psi(a + b), lambda o, a, b: F.psi(b) - F.psi(a + b),
    domain=POSITIVE * 2, cost=100,
)  # fmt: skip


def _lower_xlog(name: str) -> Callable[..., Any]:
    """x times the function *name* of y: 0 where x is, unless y is NaN."""

    def lower(s: Any, x: Any, y: Any) -> Any:
        vanishes = s.both(s.cmp("==", x, s.const(0)), s.invert(s.isnan(y)))
        return s.select(vanishes, s.const(0), s.mul(x, s.call(name, y)))

    return lower


row(
    "xlogy", sp.xlogy, lambda o, x, y: F.log(y), lambda o, x, y: F.mulz(x, 1 / y),
    lower=_lower_xlog("log"), domain=POSITIVE * 2, singular=True, cost=25,
)  # fmt: skip
row(
    "xlog1py", sp.xlog1py, lambda o, x, y: F.log1p(y), lambda o, x, y: F.mulz(x, 1 / (1 + y)),
    lower=_lower_xlog("log1p"), domain=POSITIVE * 2, singular=True, cost=25,
)  # fmt: skip


def _both_positive(x: Atom, y: Atom) -> Var:
    return F.logical_and(F.gt(x, like(0, x)), F.gt(y, like(0, y)))


def _rel_entr_by_x(o: Atom, x: Atom, y: Atom) -> Var:
    inside = _both_positive(x, y)
    return F.select(inside, like(1, x) + o / F.select(inside, x, like(1, x)), like(0, x))


def _rel_entr_by_y(o: Atom, x: Atom, y: Atom) -> Var:
    inside = _both_positive(x, y)
    return F.select(inside, -x / F.select(inside, y, like(1, y)), like(0, y))


def _lower_rel_entr(s: Any, x: Any, y: Any) -> Any:
    zero, ratio = s.const(0), s.div(x, y)
    near = s.both(s.cmp(">", ratio, s.const(0.5)), s.cmp("<", ratio, s.const(2)))
    distance = s.sub(s.call("log", x), s.call("log", y))  # x / y may leave the range of numbers
    value = s.mul(x, s.select(near, s.call("log1p", s.div(s.sub(x, y), y)), distance))
    edge = s.select(s.both(s.cmp("==", x, zero), s.cmp(">=", y, zero)), zero, s.const(math.inf))
    value = s.select(s.both(s.cmp(">", x, zero), s.cmp(">", y, zero)), value, edge)
    return s.select(s.either(s.isnan(x), s.isnan(y)), s.add(x, y), value)


row(
    "rel_entr", sp.rel_entr, _rel_entr_by_x, _rel_entr_by_y,
    lower=_lower_rel_entr, domain=POSITIVE * 2, singular=True, cost=75,
)  # fmt: skip


def _slope(delta: Atom, r: Atom) -> tuple[Var, Var, Var]:
    """(whether the partials of pseudo_huber are not 0, r / delta, sqrt(1 + (r / delta)**2))"""
    inside = F.gt(delta, like(0, delta))
    ratio = r / F.select(inside, delta, like(1, delta))
    return inside, ratio, F.hypot(like(1, r), ratio)


def _pseudo_huber_by_delta(o: Atom, delta: Atom, r: Atom) -> Var:
    inside, ratio, root = _slope(delta, r)
    over = ratio * (ratio / (like(1, r) + root))  # root - 1
    return F.select(inside, delta * over * (over / root), like(0, r))


def _pseudo_huber_by_r(o: Atom, delta: Atom, r: Atom) -> Var:
    inside, _, root = _slope(delta, r)
    return F.select(inside, r / root, like(0, r))


def _lower_pseudo_huber(s: Any, delta: Any, r: Any) -> Any:
    zero, one, ratio = s.const(0), s.const(1), s.div(r, delta)
    if s.dtype.itemsize == 8:
        over = s.call("expm1", s.mul(s.const(0.5), s.call("log1p", s.mul(ratio, ratio))))  # sqrt(1 + ratio**2) - 1
        value = s.mul(s.mul(delta, delta), over)
    else:  # SciPy computes it in float64, where no square of a float32 leaves the range of numbers
        value = s.mul(r, s.div(r, s.add(one, s.call("hypot", one, ratio))))
        value = s.select(s.isinf(ratio), s.mul(delta, s.abs(r)), value)
        value = s.add(value, s.sub(delta, delta))  # NaN at an infinite delta
    value = s.select(s.either(s.cmp("==", delta, zero), s.cmp("==", r, zero)), zero, value)
    return s.select(s.cmp("<", delta, zero), s.const(math.inf), value)


row(
    "pseudo_huber", sp.pseudo_huber, _pseudo_huber_by_delta, _pseudo_huber_by_r,
    lower=_lower_pseudo_huber, domain=(*POSITIVE, *REAL), cost=50,
)  # fmt: skip
