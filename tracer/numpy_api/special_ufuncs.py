"""The ufuncs of scipy.special on traced arrays. ``registry.handler_of`` imports this when one is asked for."""

from __future__ import annotations

import math

import numpy as np

from ..ir.graph import Atom
from ..ops import scipy_ufuncs as sp
from ..ops import special_tables  # noqa: F401  (fills the registry)
from ..ops.elementwise import F, like, promote
from ..ops.special import SPECIAL
from ..record.array import UFUNCS
from ..record.autocast import on_wide
from .row_ufuncs import as_floating, register_ufuncs

register_ufuncs({sp.expit: "expit"})  # whose row is needed without SciPy
UFUNCS.update(SPECIAL)

# ---- what is composed of other rows --------------------------------------------------------------------------------


def _log_expit(x: Atom) -> Atom:
    x = as_floating(x)
    return -F.logaddexp(like(0, x), -x)


def _entr(x: Atom) -> Atom:
    x = as_floating(x)
    return F.select(F.lt(x, like(0, x)), like(-math.inf, x), F.xlogy(-x, x))


def _kl_div(x: Atom, y: Atom) -> Atom:
    x, y = promote(x, y, floating=True)
    zero, one = like(0, x), like(1, x)
    inside = F.logical_and(F.gt(x, zero), F.gt(y, zero))
    a, b = F.select(inside, x, one), F.select(inside, y, one)
    # SciPy computes float32 in float64, where the ratio and the difference of two float32 are numbers
    wide = x.aval.dtype.itemsize == 8
    distance = a * F.log(a / b) - a + b if wide else F.rel_entr(a, b) - (a - b)
    edge = F.select(F.logical_and(F.eq(x, zero), F.ge(y, zero)), y, like(math.inf, x))
    value = F.select(inside, distance, edge)
    return F.select(F.logical_or(F.ne(x, x), F.ne(y, y)), x + y, value)


def _huber(delta: Atom, r: Atom) -> Atom:
    delta, r = promote(delta, r, floating=True)
    size = F.abs(r)
    inner, outer = like(0.5, r) * r * r, delta * (size - like(0.5, r) * delta)
    return F.select(F.lt(delta, like(0, r)), like(math.inf, r), F.select(F.le(size, delta), inner, outer))


UFUNCS[sp.log_expit] = _log_expit
UFUNCS[sp.entr] = _entr
UFUNCS[sp.kl_div] = _kl_div
UFUNCS[sp.huber] = _huber
for _name in ("cbrt", "exp2", "expm1", "log1p"):  # NumPy's under another name
    UFUNCS[getattr(sp, _name)] = UFUNCS[getattr(np, _name)]

# as IN_FLOAT32 of record/autocast.py
for _delicate in (sp.erfinv, sp.logit, sp.log_expit, sp.xlogy, sp.xlog1py, sp.gammaln, sp.psi):
    UFUNCS[_delicate] = on_wide(UFUNCS[_delicate])
