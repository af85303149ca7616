"""scipy.special: Bessel functions and their relatives (Airy, Kelvin, Struve, parabolic cylinder, Mathieu, spheroidal).

Derivatives by recurrences between neighbouring orders, and by the companion output; that one's derivative by the
differential equation.  SciPy has none by orders that are real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy.special import _ufuncs

from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, current_builder
from . import scipy_ufuncs as sp
from .elementwise import F, like
from .special import Missing, special, turned

V, N = Missing("v"), Missing("n")
ORDER, WHOLE = (0.3, 3.0), (0, 4)
ARGUMENT = (0.5, 6.0)
_ORDERED: Any = (ORDER, ARGUMENT)

# ---- of orders 0 and 1 -----------------------------------------------------------------------------------------------

_LINE: Any = (ARGUMENT,)
_NARROW: Any = {"domain": _LINE, "narrow": True}
special(sp.j0, lambda o, x: -F.j1(x), domain=_LINE)
special(sp.j1, lambda o, x: 0.5 * (F.j0(x) - F.jv(2, x)), domain=_LINE)
special(sp.y0, lambda o, x: -F.y1(x), domain=_LINE)
special(sp.y1, lambda o, x: 0.5 * (F.y0(x) - F.yv(2, x)), domain=_LINE)
special(sp.i0, lambda o, x: F.i1(x), domain=_LINE)
special(sp.i1, lambda o, x: 0.5 * (F.i0(x) + F.iv(2, x)), domain=_LINE)
special(sp.i0e, lambda o, x: F.i1e(x), domain=_LINE, damped=(0, 0))
special(sp.i1e, lambda o, x: 0.5 * (F.i0e(x) + F.ive(2, x)), domain=_LINE, damped=(0, 0))
special(sp.k0, lambda o, x: -F.k1(x), domain=_LINE)
special(sp.k1, lambda o, x: -0.5 * (F.k0(x) + F.kv(2, x)), domain=_LINE)
special(sp.k0e, lambda o, x: o - F.k1e(x), domain=_LINE)
special(sp.k1e, lambda o, x: o - 0.5 * (F.k0e(x) + F.kve(2, x)), domain=_LINE)

# ---- of any order ----------------------------------------------------------------------------------------------------


def _by_orders(name: str, below: float, above: float, more: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """(below f(v - 1) + above f(v + 1)) / 2, and what is *more*."""

    def partial(o: Atom, v: Atom, z: Atom) -> Atom:
        function = getattr(F, name)
        low, high = function(v - 1, z), function(v + 1, z)
        sum_ = low - high if above < 0 else low + high
        half = 0.5 * sum_ if below > 0 else -0.5 * sum_
        return half if more is None else half + more(o)

    return partial


special(sp.jv, V, _by_orders("jv", 1, -1), domain=_ORDERED, cost=150)
special(sp.yv, V, _by_orders("yv", 1, -1), domain=_ORDERED, cost=150)
special(sp.iv, V, _by_orders("iv", 1, 1), domain=_ORDERED, cost=150)
special(sp.kv, V, _by_orders("kv", -1, 1), domain=_ORDERED, cost=150)
special(sp.yn, N, _by_orders("yn", 1, -1), domain=(WHOLE, ARGUMENT), kinds="if", cost=100)
special(sp.kn, N, _by_orders("kn", -1, 1), domain=(WHOLE, ARGUMENT), kinds="if", cost=100)
special(sp.jve, V, _by_orders("jve", 1, -1), domain=_ORDERED, damped=(1, 1), cost=150)
special(sp.yve, V, _by_orders("yve", 1, -1), domain=_ORDERED, damped=(1, 1), cost=150)
special(sp.ive, V, _by_orders("ive", 1, 1), domain=_ORDERED, damped=(1, 0), cost=150)
special(sp.kve, V, _by_orders("kve", -1, 1, lambda o: o), domain=_ORDERED, cost=150)
special(sp.hankel1, V, _by_orders("hankel1", 1, -1), domain=_ORDERED, cost=300)
special(sp.hankel2, V, _by_orders("hankel2", 1, -1), domain=_ORDERED, cost=300)
special(sp.hankel1e, V, _by_orders("hankel1e", 1, -1, lambda o: -turned(o)), domain=_ORDERED, cost=300)
special(sp.hankel2e, V, _by_orders("hankel2e", 1, -1, lambda o: turned(o)), domain=_ORDERED, cost=300)


def _spherical(name: str, sign: float, whole: float = 1) -> None:
    """whole (n f(n - 1) + sign (n + 1) f(n + 1)) / (2n + 1) for a function and for its derivative."""

    def partial(by: str) -> Callable[..., Atom]:
        def of(o: Atom, n: Atom, z: Atom) -> Atom:
            function = getattr(F, by)
            below = n * function(F.maximum(n - 1, like(0, n)), z)
            above = (n + 1) * function(n + 1, z)
            return (below - above if sign < 0 else below + above) / (whole * (2 * n + 1))

        return of

    for function in (getattr(_ufuncs, name), getattr(_ufuncs, f"{name}_d")):
        special(function, N, partial(f"{name}_d" if function.__name__.endswith("_d") else name),
                domain=(WHOLE, ARGUMENT), kinds="if", cost=100)  # fmt: skip


_spherical("_spherical_jn", -1)
_spherical("_spherical_yn", -1)
_spherical("_spherical_in", 1)
_spherical("_spherical_kn", 1, -1)

# ---- Airy ------------------------------------------------------------------------------------------------------------


def _root(z: Atom) -> Atom:
    """The square root; of a negative number 0, where a scaled function is not scaled."""
    if z.aval.is_complex:
        return F.sqrt(z)
    return F.sqrt(F.maximum(z, like(0, z)))


def _scaled_bi(partial: Callable[[Atom], Atom]) -> Callable[..., Atom]:
    def of(o: Atom, z: Atom) -> Atom:
        if z.aval.is_complex:
            raise UnsupportedError.here(
                "scipy.special.airye has no complex derivative of its outputs eBi and eBip, which are not holomorphic: "
                "write scipy.special.airy and scale the result",
                current_builder().site_override,
            )
        return partial(z) - _root(z) * o

    return of


special(
    sp.airy, domain=((-3.0, 3.0),), cost=150,
    outputs=[
        [lambda o, z: F.airy(z)[1]], [lambda o, z: z * F.airy(z)[0]],
        [lambda o, z: F.airy(z)[3]], [lambda o, z: z * F.airy(z)[2]],
    ],
)  # fmt: skip
special(
    sp.airye, domain=((0.3, 3.0),), cost=150,
    outputs=[
        [lambda o, z: F.airye(z)[1] + F.sqrt(z) * o], [lambda o, z: z * F.airye(z)[0] + F.sqrt(z) * o],
        [_scaled_bi(lambda z: F.airye(z)[3])], [_scaled_bi(lambda z: z * F.airye(z)[2])],
    ],
)  # fmt: skip
special(
    sp.itairy, domain=((-3.0, 3.0),), narrow=True, cost=150,
    outputs=[
        [lambda o, x: F.airy(x)[0]], [lambda o, x: F.airy(x)[2]],
        [lambda o, x: F.airy(-x)[0]], [lambda o, x: F.airy(-x)[2]],
    ],
)  # fmt: skip

# ---- Kelvin ----------------------------------------------------------------------------------------------------------


def _kelvin_slope(w: Atom, slope: Atom, x: Atom) -> Atom:
    """*w* - *slope* / x, of which the half is left at 0."""
    origin = F.eq(x, like(0, x))
    return F.select(origin, 0.5 * w, w - slope / F.select(origin, like(1, x), x))


special(sp.ber, lambda o, x: F.berp(x), **_NARROW)
special(sp.bei, lambda o, x: F.beip(x), **_NARROW)
special(sp.ker, lambda o, x: F.kerp(x), **_NARROW)
special(sp.kei, lambda o, x: F.keip(x), **_NARROW)
special(sp.berp, lambda o, x: _kelvin_slope(-F.bei(x), o, x), **_NARROW)
special(sp.beip, lambda o, x: _kelvin_slope(F.ber(x), o, x), **_NARROW)
special(sp.kerp, lambda o, x: -F.kei(x) - o / x, **_NARROW)
special(sp.keip, lambda o, x: F.ker(x) - o / x, **_NARROW)
special(
    sp.kelvin, **_NARROW, cost=150,
    outputs=[
        [lambda o, x: F.kelvin(x)[2]], [lambda o, x: F.kelvin(x)[3]],
        [lambda o, x: _kelvin_slope(turned(F.kelvin(x)[0]), o, x)], [lambda o, x: turned(F.kelvin(x)[1]) - o / x],
    ],
)  # fmt: skip

# ---- Struve, integrals -----------------------------------------------------------------------------------------------


def _struve_term(v: Atom, x: Atom) -> Atom:
    """(x / 2)**v / (sqrt(pi) gamma(v + 3/2))"""
    return F.pow(0.5 * x, v) * F.rgamma(v + 1.5) / math.sqrt(math.pi)


special(
    sp.struve, V, lambda o, v, x: 0.5 * (F.struve(v - 1, x) - F.struve(v + 1, x) + _struve_term(v, x)),
    domain=_ORDERED, cost=200,
)  # fmt: skip
special(
    sp.modstruve, V, lambda o, v, x: 0.5 * (F.modstruve(v - 1, x) + F.modstruve(v + 1, x) + _struve_term(v, x)),
    domain=_ORDERED, cost=200,
)  # fmt: skip
special(sp.itstruve0, lambda o, x: F.struve(0, x), domain=_LINE, cost=150)
special(sp.itmodstruve0, lambda o, x: F.modstruve(0, x), domain=_LINE, cost=150)
special(sp.it2struve0, lambda o, x: -F.struve(0, x) / x, domain=_LINE, cost=150)


def _without_one(x: Atom, sign: float, whole: Callable[[Atom], Atom]) -> Atom:
    """(whole(x) - 1) / x for the Bessel functions of order 0, sum of (sign x**2 / 4)**k / k!**2; near 0 by that."""
    near = F.lt(F.abs(x), like(1, x))
    small, large = F.select(near, x, like(0, x)), F.select(near, like(1, x), x)
    t = (0.25 * sign) * small * small
    total = t / 81.0
    for k in range(8, 1, -1):
        total = (1 + total) * t / float(k * k)
    return F.select(near, (0.25 * sign) * small * (1 + total), (whole(large) - 1) / large)


special(sp.itj0y0, **_NARROW, cost=150, outputs=[[lambda o, x: F.j0(x)], [lambda o, x: F.y0(x)]])
special(sp.iti0k0, **_NARROW, cost=150, outputs=[[lambda o, x: F.i0(x)], [lambda o, x: F.k0(x)]])
special(
    sp.it2j0y0, **_NARROW, cost=150,
    outputs=[[lambda o, x: -_without_one(x, -1, F.j0)], [lambda o, x: -F.y0(x) / x]],
)  # fmt: skip
special(
    sp.it2i0k0, **_NARROW, cost=150,
    outputs=[[lambda o, x: _without_one(x, 1, F.i0)], [lambda o, x: -F.k0(x) / x]],
)  # fmt: skip
special(
    sp.besselpoly,
    lambda o, a, lmb, nu: F.besselpoly(a, lmb + 1, nu - 1) - F.besselpoly(a, lmb + 1, nu + 1),
    Missing("lmb"), Missing("nu"), domain=((0.3, 3.0), (0.5, 3.0), (1.3, 3.0)), cost=200,
)  # fmt: skip

# ---- parabolic cylinder functions ------------------------------------------------------------------------------------


def _with_slope(
    function: Any, second: Callable[..., Atom], missing: list[Missing], scale: float = 1, **more: Any
) -> None:
    """A ufunc of two outputs, a function and its derivative by the last argument, and the *second* derivative by that
    of (function, derivative, *arguments); *scale*: of the argument's unit."""
    name = function.__name__

    def slope(o: Atom, *x: Atom) -> Atom:
        found = getattr(F, name)(*x)[1]
        return found if scale == 1 else scale * found

    def bend(o: Atom, *x: Atom) -> Atom:
        found = second(getattr(F, name)(*x)[0], o, *x)
        return found if scale == 1 else scale * found

    special(function, outputs=[[*missing, slope], [*missing, bend]], **more)


_CYLINDER: Any = ((-1.5, 2.5), (-2.0, 3.0))
for _function in (sp.pbdv, sp.pbvv):
    _with_slope(_function, lambda d, dp, v, x: (0.25 * x * x - v - 0.5) * d, [V], domain=_CYLINDER, cost=300)
_with_slope(
    sp.pbwa, lambda w, wp, a, x: (a - 0.25 * x * x) * w, [Missing("a")], domain=_CYLINDER, narrow=True, cost=300
)

# ---- Mathieu ---------------------------------------------------------------------------------------------------------

_M, _Q = Missing("m"), Missing("q")
_DEGREE = math.pi / 180
for _function, _value in ((sp.mathieu_cem, "mathieu_a"), (sp.mathieu_sem, "mathieu_b")):
    _with_slope(
        _function,
        lambda y, yp, m, q, x, value=_value: (2 * q * F.cos(2 * _DEGREE * x) - getattr(F, value)(m, q)) * y,
        [_M, _Q], _DEGREE, domain=((1, 3), (0.5, 2.0), (10.0, 80.0)), kinds="nff", cost=1000,
    )  # fmt: skip
for _function, _value in (
    (sp.mathieu_modcem1, "mathieu_a"), (sp.mathieu_modcem2, "mathieu_a"),
    (sp.mathieu_modsem1, "mathieu_b"), (sp.mathieu_modsem2, "mathieu_b"),
):  # fmt: skip
    _with_slope(
        _function, lambda y, yp, m, q, x, value=_value: (getattr(F, value)(m, q) - 2 * q * F.cosh(2 * x)) * y,
        [_M, _Q], domain=((1, 3), (0.5, 2.0), (0.3, 1.2)), kinds="nff", cost=1000,
    )  # fmt: skip
for _function in (sp.mathieu_a, sp.mathieu_b):
    special(_function, _M, _Q, domain=((1, 3), (0.5, 2.0)), kinds="nf", cost=500)

# ---- spheroidal wave functions ---------------------------------------------------------------------------------------

_C = Missing("c")


def _spheroidal(sign: float, radial: bool, given: bool) -> Callable[..., Atom]:
    """The second derivative by the equation: *sign* 1 of prolate functions, -1 of oblate ones; *given*: the
    characteristic value is an argument."""

    def second(s: Atom, slope: Atom, m: Atom, n: Atom, c: Atom, *rest: Atom) -> Atom:
        x = rest[-1]
        value = rest[0] if given else F.pro_cv(m, n, c) if sign > 0 else F.obl_cv(m, n, c)
        if sign < 0 and radial:
            width = 1 + x * x
            return ((value - c * c * x * x - m * m / width) * s - 2 * x * slope) / width
        width = 1 - x * x
        return (2 * x * slope - (value - sign * c * c * x * x - m * m / width) * s) / width

    return second


for _kind, _sign, _span in (("pro", 1, (1.6, 2.0)), ("obl", -1, (1.7, 2.0))):
    special(getattr(sp, f"{_kind}_cv"), _M, N, _C, domain=((1, 1), (3, 3), (0.8, 1.6)), kinds="nnf", cost=1000)
    for _part in ("ang1", "rad1", "rad2"):
        _where = (-0.8, 0.8) if _part == "ang1" else _span
        _with_slope(
            getattr(sp, f"{_kind}_{_part}"), _spheroidal(_sign, _part != "ang1", False), [_M, N, _C],
            domain=((1, 1), (3, 3), (0.8, 1.6), _where), kinds="nnff", cost=2000,
        )  # fmt: skip
        _with_slope(
            getattr(sp, f"{_kind}_{_part}_cv"), _spheroidal(_sign, _part != "ang1", True),
            [_M, N, _C, Missing("cv")],
            domain=((1, 1), (3, 3), (0.8, 1.6), (2.0, 4.0), _where), kinds="nnfff", cost=2000,
        )  # fmt: skip
