"""scipy.special: error functions, gamma and zeta functions, exponential integrals, transformations of data."""

from __future__ import annotations

import math
from typing import Any

from scipy.special import _ufuncs

from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Pair, lanes
from ..ir.primitive import PRIMITIVES
from . import scipy_ufuncs as sp
from . import special_lowered  # noqa: F401  (its rows are for real numbers)
from .complex_formulas import FORMULAS, Lanes
from .elementwise import F, like
from .special import COMPLEX_OF, Missing, number, special, turned

POSITIVE = (0.3, 3.0)
REAL = (-3.0, 3.0)
SQRT_PI = math.sqrt(math.pi)
_LINE: Any = (REAL,)

# ---- error functions -------------------------------------------------------------------------------------------------

for _name in ("erf", "erfc", "ndtr", "gamma", "psi", "xlogy", "xlog1py"):
    _row = PRIMITIVES[_name]
    special(_row.impl, *_row.partials, domain=_row.domain, real=_row, narrow=_name == "xlog1py")
special(sp.erfcx, lambda o, x: 2 * x * o - 2 / SQRT_PI, domain=_LINE)
special(sp.erfi, lambda o, x: F.exp(x * x) * (2 / SQRT_PI), domain=_LINE)
special(sp.erfcinv, lambda o, x: F.exp(o * o) * (-SQRT_PI / 2), domain=((0.1, 1.9),))
special(sp.dawsn, lambda o, x: 1 - 2 * x * o, domain=_LINE)


def _faddeeva_slope(w: Atom, z: Atom) -> Atom:
    """-2 z w + 2i / sqrt(pi)"""
    re, im = lanes(-2 * z * w)
    return Pair(re, im + 2 / SQRT_PI, w.aval.dtype)


special(sp.wofz, lambda o, z: _faddeeva_slope(o, z), domain=_LINE)


def _voigt(x: Atom, sigma: Atom, gamma: Atom) -> tuple[Atom, Atom, Atom]:
    """(the argument of Faddeeva's function, the derivative by that argument / (2 pi)**0.5 sigma: both lanes)"""
    scale = math.sqrt(2) * sigma
    z = Pair(x / scale, gamma / scale, COMPLEX_OF[x.aval.dtype])
    re, im = lanes(_faddeeva_slope(F.wofz(z), z))
    norm = 1 / (math.sqrt(2 * math.pi) * sigma)
    return scale, re * norm, im * norm


def _voigt_by_sigma(o: Atom, x: Atom, sigma: Atom, gamma: Atom) -> Atom:
    scale, re, im = _voigt(x, sigma, gamma)
    return -(o + (re * x - im * gamma) / scale) / sigma


special(
    sp.voigt_profile, lambda o, x, s, g: _voigt(x, s, g)[1] / _voigt(x, s, g)[0], _voigt_by_sigma,
    lambda o, x, s, g: -_voigt(x, s, g)[2] / _voigt(x, s, g)[0], domain=(REAL, POSITIVE, POSITIVE), cost=100,
)  # fmt: skip
special(
    sp.owens_t,
    lambda o, h, a: F.exp(-0.5 * h * h) * F.erf(a * h / math.sqrt(2)) * (-1 / math.sqrt(8 * math.pi)),
    lambda o, h, a: F.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a)), domain=(REAL, REAL),
)  # fmt: skip

# ---- gamma and zeta functions ----------------------------------------------------------------------------------------


def _complex_polygamma(z: Lanes, n: int) -> tuple[Atom, ...]:
    """psi'(z) of a complex *z*: by the asymptotic series 12 steps to the right, and left of 1/2 by reflection."""
    if n != 1:
        raise UnsupportedError.here(f"polygamma({n}, z) of complex numbers is not supported")
    whole = Pair(*z, COMPLEX_OF[z[0].aval.dtype])
    left = F.lt(z[0], like(0.5, z[0]))
    far = F.select(left, 1 - whole, whole)
    total = 1 / F.square(far)
    for k in range(1, 12):
        total = total + 1 / F.square(far + float(k))
    w = 1 / (far + 12.0)
    square = F.square(w)
    series: Atom = square * (-3617 / 510)
    for bernoulli in (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30):
        series = (series + bernoulli) * square
    total = total + w * (1 + w * (0.5 + w * (1 / 6 + series)))
    sine = F.sin(math.pi * F.select(left, whole, like(0.5, whole)))
    return lanes(F.select(left, F.square(math.pi / sine) - total, total))


FORMULAS["polygamma"] = _complex_polygamma
special(sp.loggamma, lambda o, z: F.psi(z), domain=(POSITIVE,))


def _reciprocal_gamma(o: Atom, z: Atom) -> Atom:
    """To the left of 1/2 by reflection, since the poles of psi are no poles of it."""
    if z.aval.is_complex:
        return -o * F.psi(z)
    left = F.lt(z, like(0.5, z))
    far = F.select(left, 1 - z, z)
    angle = F.select(left, math.pi * z, like(0, z))
    reflected = F.gamma(F.select(left, far, like(1, z))) * (F.cos(angle) - F.psi(far) * F.sin(angle) / math.pi)
    return F.select(left, reflected, -F.rgamma(far) * F.psi(far))


special(sp.rgamma, _reciprocal_gamma, domain=(REAL,))
special(sp.gammasgn, None, domain=(POSITIVE,))
special(
    sp.beta, lambda o, a, b: o * (F.psi(a) - F.psi(a + b)), lambda o, a, b: o * (F.psi(b) - F.psi(a + b)),
    domain=(POSITIVE, POSITIVE),
)  # fmt: skip
special(
    sp.binom, lambda o, n, k: o * (F.psi(n + 1) - F.psi(n - k + 1)),
    lambda o, n, k: o * (F.psi(n - k + 1) - F.psi(k + 1)), domain=((3.2, 6.0), POSITIVE),
)  # fmt: skip
special(
    sp.poch, lambda o, z, m: o * (F.psi(z + m) - F.psi(z)), lambda o, z, m: o * F.psi(z + m),
    domain=(POSITIVE, POSITIVE),
)  # fmt: skip
_S = Missing("x")
special(_ufuncs._zeta, _S, lambda o, x, q: -x * F._zeta(x + 1, q), domain=((1.5, 4.0), POSITIVE))
special(_ufuncs._riemann_zeta, _S, domain=((1.5, 4.0),))
special(sp.zetac, _S, domain=((1.5, 4.0),))

# ---- exponential integrals -------------------------------------------------------------------------------------------


def _sine_over(z: Atom, sign: int = 1) -> Atom:
    """sin(z) / z, or with -1 sinh(z) / z, with all derivatives at 0."""
    near = F.lt(F.abs(z), number(1.0))
    small, large = F.select(near, z, like(0, z)), F.select(near, like(1, z), z)
    far = (F.sin(large) if sign > 0 else F.sinh(large)) / large
    return F.select(near, F.hyp0f1(1.5, (-0.25 * sign) * small * small), far)


def _log_over(z: Atom) -> Atom:
    """log(z) / (1 - z), with all derivatives at 1."""
    rest = 1 - z
    near = F.lt(F.abs(rest), number(0.25))
    small, far = F.select(near, rest, like(0, z)), F.select(near, like(2, z), z)
    return F.select(near, -F.hyp2f1(1, 1, 2, small), F.log(far) / (1 - far))


def _expn_slope(o: Atom, n: Atom, x: Atom) -> Atom:
    zero = F.lt(n, like(1, n))
    below = F.expn(F.maximum(n - 1, like(0, n)), x)
    return -F.select(zero, (F.exp(-x) + o) / x, below)


special(sp.exp1, lambda o, x: -F.exp(-x) / x, domain=(POSITIVE,))
special(sp.expi, lambda o, x: F.exp(x) / x, domain=(POSITIVE,))
special(sp.expn, None, _expn_slope, domain=((0, 4), POSITIVE), kinds="if", cost=100)
special(sp.sici, domain=(POSITIVE,), outputs=[[lambda o, x: _sine_over(x)], [lambda o, x: F.cos(x) / x]])
special(sp.shichi, domain=(POSITIVE,), outputs=[[lambda o, x: _sine_over(x, -1)], [lambda o, x: F.cosh(x) / x]])
special(sp.spence, lambda o, z: _log_over(z), domain=(POSITIVE,))
_QUARTER = math.pi / 2
special(
    sp.fresnel, domain=_LINE,
    outputs=[[lambda o, z: F.sin(_QUARTER * z * z)], [lambda o, z: F.cos(_QUARTER * z * z)]],
)  # fmt: skip


def _modfresnel(function: Any, sign: int) -> None:
    """The integral of exp(+-i t**2) from x on, and that times exp(-+i (x**2 + pi / 4)) / sqrt(pi)."""

    def integrand(o: Atom, x: Atom) -> Atom:
        return Pair(-F.cos(x * x), -sign * F.sin(x * x), o.aval.dtype)

    def scaled(o: Atom, x: Atom) -> Atom:
        re, im = lanes(turned(o))
        step = math.sqrt(0.5 / math.pi)
        return Pair((-2 * sign) * x * re - step, (-2 * sign) * x * im + sign * step, o.aval.dtype)

    special(function, domain=(POSITIVE,), outputs=[[integrand], [scaled]], narrow=True)


_modfresnel(sp.modfresnelp, 1)
_modfresnel(sp.modfresnelm, -1)
special(sp.wrightomega, lambda o, z: o / (1 + o), domain=(REAL,))
special(
    _ufuncs._lambertw, lambda o, z, k, tol: F.exp(-o) / (1 + o), None, None,
    domain=(POSITIVE, (0, 1), (1e-8, 1e-8)), kinds="fif",
)  # fmt: skip

# ---- exponentials, trigonometry in degrees ---------------------------------------------------------------------------

_DEGREE = math.pi / 180
special(sp.exp10, lambda o, x: o * math.log(10), domain=_LINE)
special(sp.exprel, lambda o, x: 0.5 * F.hyp1f1(2, 3, x), domain=_LINE)
special(sp.powm1, lambda o, x, y: y * F.pow(x, y - 1), lambda o, x, y: (o + 1) * F.log(x), domain=(POSITIVE, REAL))
special(sp.cosm1, lambda o, x: -F.sin(x), domain=_LINE)
special(sp.sindg, lambda o, x: F.cosdg(x) * _DEGREE, domain=((10.0, 80.0),))
special(sp.cosdg, lambda o, x: F.sindg(x) * -_DEGREE, domain=((10.0, 80.0),))
special(sp.tandg, lambda o, x: (1 + o * o) * _DEGREE, domain=((10.0, 80.0),))
special(sp.cotdg, lambda o, x: (1 + o * o) * -_DEGREE, domain=((10.0, 80.0),))
special(
    sp.radian, lambda o, d, m, s: like(_DEGREE, o), lambda o, d, m, s: like(_DEGREE / 60, o),
    lambda o, d, m, s: like(_DEGREE / 3600, o), domain=_LINE * 3,
)  # fmt: skip
special(sp.round, None, domain=_LINE)

# ---- transformations of Box and Cox ----------------------------------------------------------------------------------


def power_slope(log: Atom, lmbda: Atom) -> Atom:
    """The derivative of (e**(lmbda log) - 1) / lmbda by lmbda."""
    return log * log * (0.5 * F.hyp1f1(2, 3, lmbda * log))


special(sp.boxcox, lambda o, x, p: F.pow(x, p - 1), lambda o, x, p: power_slope(F.log(x), p), domain=(POSITIVE, REAL))
special(
    sp.boxcox1p, lambda o, x, p: F.pow(1 + x, p - 1), lambda o, x, p: power_slope(F.log1p(x), p),
    domain=(POSITIVE, REAL),
)  # fmt: skip
special(
    sp.inv_boxcox, lambda o, y, p: F.pow(o, 1 - p), lambda o, y, p: -F.pow(o, 1 - p) * power_slope(F.log(o), p),
    domain=((-0.3, 0.5), (-1.0, 1.5)),
)  # fmt: skip
special(
    sp.inv_boxcox1p, lambda o, y, p: F.pow(1 + o, 1 - p),
    lambda o, y, p: -F.pow(1 + o, 1 - p) * power_slope(F.log1p(o), p), domain=((-0.3, 0.5), (-1.0, 1.5)),
)  # fmt: skip
