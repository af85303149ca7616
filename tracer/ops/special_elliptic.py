"""scipy.special: elliptic integrals and functions, the arithmetic-geometric mean, hypergeometric functions.

The derivatives of Legendre's integrals are Carlson's, which stay accurate where the textbook's formulas cancel.
"""

from __future__ import annotations

import math
from typing import Any

from ..ir.graph import Atom
from . import scipy_ufuncs as sp
from .elementwise import F, like
from .special import Missing, number, special

POSITIVE = (0.3, 3.0)
MODULUS = (-1.0, 0.8)

# ---- Legendre's integrals --------------------------------------------------------------------------------------------


def _k_slope(rest: Atom) -> Atom:
    """dK/dm, *rest* = 1 - m."""
    return F.elliprd(0, 1, rest) / 6


special(sp.ellipk, lambda o, m: _k_slope(1 - m), domain=(MODULUS,))
special(sp.ellipkm1, lambda o, p: -_k_slope(p), domain=((0.2, 1.8),))
special(sp.ellipe, lambda o, m: F.elliprd(0, 1 - m, 1) / -6, domain=(MODULUS,))


def _reduced(phi: Atom) -> tuple[Atom, Atom]:
    """(sin(phi), k) for the angle phi - k pi next to 0."""
    turns = F.rint(phi / math.pi)
    return F.sin(phi - turns * math.pi), turns


def _kinc_slope(phi: Atom, m: Atom) -> Atom:
    s, turns = _reduced(phi)
    return s * s * s * F.elliprd(1 - s * s, 1, 1 - m * s * s) / 6 + 2 * turns * _k_slope(1 - m)


def _einc_slope(phi: Atom, m: Atom) -> Atom:
    s, turns = _reduced(phi)
    whole = 2 * turns * F.elliprd(0, 1 - m, 1)
    return (s * s * s * F.elliprd(1 - s * s, 1 - m * s * s, 1) + whole) / -6


def _delta(phi: Atom, m: Atom) -> Atom:
    s = F.sin(phi)
    return F.sqrt(1 - m * s * s)


_INCOMPLETE: Any = ((-2.0, 2.5), MODULUS)
special(sp.ellipkinc, lambda o, p, m: 1 / _delta(p, m), lambda o, p, m: _kinc_slope(p, m), domain=_INCOMPLETE, cost=100)
special(sp.ellipeinc, lambda o, p, m: _delta(p, m), lambda o, p, m: _einc_slope(p, m), domain=_INCOMPLETE, cost=100)


def _amplitude_slope(u: Atom, m: Atom) -> Atom:
    """d ph / d m: the integral of the amplitude is u."""
    _, _, dn, ph = F.ellipj(u, m)
    return -_kinc_slope(ph, m) * dn


def _dn_slope(o: Atom, u: Atom, m: Atom) -> Atom:
    sn, cn, _, _ = F.ellipj(u, m)
    return -(0.5 * sn * sn + m * sn * cn * _amplitude_slope(u, m)) / o


special(
    sp.ellipj, domain=((0.3, 2.0), (0.1, 0.8)), cost=200,
    outputs=[
        [lambda o, u, m: F.ellipj(u, m)[1] * F.ellipj(u, m)[2],
         lambda o, u, m: F.ellipj(u, m)[1] * _amplitude_slope(u, m)],
        [lambda o, u, m: -F.ellipj(u, m)[0] * F.ellipj(u, m)[2],
         lambda o, u, m: -F.ellipj(u, m)[0] * _amplitude_slope(u, m)],
        [lambda o, u, m: -m * F.ellipj(u, m)[0] * F.ellipj(u, m)[1], _dn_slope],
        [lambda o, u, m: F.ellipj(u, m)[2], lambda o, u, m: _amplitude_slope(u, m)],
    ],
)  # fmt: skip

# ---- Carlson's -------------------------------------------------------------------------------------------------------


def _rd_slope(o: Atom, x: Atom, y: Atom, z: Atom) -> Atom:
    """dR_D/dx, which cancels where x and z are close: there by a series in their distance."""
    middle, half = 0.5 * (x + z), 0.5 * (z - x)
    near = F.lt(F.abs(half), 0.02 * F.abs(middle))
    apart = F.select(near, like(1, half), half)
    far = 0.25 * (o - F.elliprd(y, z, x)) / apart
    base = F.select(near, middle, like(1, middle))
    ratio = F.square(F.select(near, half, like(0, half)) / base)
    rest = 1 - F.select(near, y, like(1, y)) / base
    total: Atom = number(0.0)
    for k, factor in ((3, 35 / 16), (2, 15 / 8), (1, 3 / 2), (0, 1.0)):
        n = 3 + 2 * k  # the integral of (t + middle)**-n (t + y)**-1/2
        term = (factor / (n - 0.5)) * F.hyp2f1(0.5, n - 0.5, n + 0.5, rest)
        total = term if k == 3 else term + ratio * total
    return F.select(near, -0.75 * total * F.exp(-2.5 * F.log(base)), far)


def _rj_slope(o: Atom, x: Atom, y: Atom, z: Atom, p: Atom) -> Atom:
    """dR_J/dx"""
    return 0.5 * (o - F.elliprd(y, z, x)) / (p - x)


def _rd_last(o: Atom, x: Atom, y: Atom, z: Atom) -> Atom:
    """dR_D/dz: R_D is homogeneous of degree -3/2."""
    return -(1.5 * o + F.mulz(x, _rd_slope(o, x, y, z)) + F.mulz(y, _rd_slope(o, y, x, z))) / z


def _rj_last(o: Atom, x: Atom, y: Atom, z: Atom, p: Atom) -> Atom:
    turns = ((x, y, z), (y, z, x), (z, x, y))
    first, second, third = (F.mulz(a, _rj_slope(o, a, b, c, p)) for a, b, c in turns)
    return -(1.5 * o + first + second + third) / p


_TWO, _THREE, _FOUR = (POSITIVE,) * 2, (POSITIVE,) * 3, (POSITIVE,) * 4
special(sp.elliprc, lambda o, x, y: F.elliprd(y, y, x) / -6, lambda o, x, y: F.elliprd(x, y, y) / -3, domain=_TWO)
special(
    sp.elliprf, lambda o, x, y, z: F.elliprd(y, z, x) / -6, lambda o, x, y, z: F.elliprd(x, z, y) / -6,
    lambda o, x, y, z: F.elliprd(x, y, z) / -6, domain=_THREE,
)  # fmt: skip
special(
    sp.elliprd, _rd_slope, lambda o, x, y, z: _rd_slope(o, y, x, z), _rd_last,
    domain=((0.3, 1.0), (1.2, 2.0), (2.2, 3.0)),
)  # fmt: skip


def _rg_slope(x: Atom, y: Atom, z: Atom) -> Atom:
    return 0.25 * F.elliprf(x, y, z) - x * F.elliprd(y, z, x) / 12


special(
    sp.elliprg, lambda o, x, y, z: _rg_slope(x, y, z), lambda o, x, y, z: _rg_slope(y, z, x),
    lambda o, x, y, z: _rg_slope(z, x, y), domain=_THREE,
)  # fmt: skip
special(
    sp.elliprj, _rj_slope, lambda o, x, y, z, p: _rj_slope(o, y, z, x, p),
    lambda o, x, y, z, p: _rj_slope(o, z, x, y, p), _rj_last, cost=150,
    domain=((0.3, 0.9), (1.0, 1.8), (2.0, 2.6), (3.0, 4.0)),
)  # fmt: skip


def _agm_slope(o: Atom, a: Atom, b: Atom) -> Atom:
    """dM/da by 1 / M = 2 / pi R_F(0, a**2, b**2)."""
    return o * o * F.abs(a) * F.elliprd(0, b * b, a * a) * (2 / (3 * math.pi))


special(sp.agm, _agm_slope, lambda o, a, b: _agm_slope(o, b, a), domain=_TWO)

# ---- hypergeometric functions ----------------------------------------------------------------------------------------

_A, _B, _C = Missing("a"), Missing("b"), Missing("c")
special(sp.hyp0f1, Missing("v"), lambda o, v, z: F.hyp0f1(v + 1, z) / v, domain=(POSITIVE, (-2.0, 2.0)), cost=100)
special(
    sp.hyp1f1, _A, _B, lambda o, a, b, x: a / b * F.hyp1f1(a + 1, b + 1, x),
    domain=(POSITIVE, POSITIVE, (-2.0, 2.0)), cost=100,
)  # fmt: skip
special(
    sp.hyp2f1, _A, _B, _C, lambda o, a, b, c, z: a * b / c * F.hyp2f1(a + 1, b + 1, c + 1, z),
    domain=(POSITIVE, POSITIVE, POSITIVE, (-0.8, 0.8)), plane=((0.1, 0.4),), cost=150,
)  # fmt: skip
special(
    sp.hyperu,
    _A,
    _B,
    lambda o, a, b, x: -a * F.hyperu(a + 1, b + 1, x),
    domain=(POSITIVE, POSITIVE, POSITIVE),
    cost=200,
)
special(
    sp.wright_bessel, _A, _B, lambda o, a, b, x: F.wright_bessel(a, a + b, x),
    domain=(POSITIVE, POSITIVE, POSITIVE), cost=200,
)  # fmt: skip
special(
    sp.log_wright_bessel, _A, _B, lambda o, a, b, x: F.exp(F.log_wright_bessel(a, a + b, x) - o),
    domain=(POSITIVE, POSITIVE, POSITIVE), cost=200,
)  # fmt: skip
