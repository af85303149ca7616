"""Elementwise functions of complex numbers as formulas of their lanes, by the textbook.

Signs of zeros decide on which side of a branch cut a number lies.  So a lane that is zero by construction (that of a
real operand, or of ``1j``) is left out of a formula only where it makes no such difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ir.graph import Atom, Lit, elementwise_by_name
from .elementwise import F, by_squaring, like

Lanes = tuple[Atom, Atom]


# ---- arithmetic in which lanes that are zero vanish ----------------------------------------------------------------


def is_zero(x: Atom) -> bool:
    return isinstance(x, Lit) and x.structural and bool(x.value == 0)


def _is_one(x: Atom) -> bool:
    return isinstance(x, Lit) and bool(x.value == 1) and (x.structural or x.aval.weak)


def zero_of(x: Atom) -> Lit:
    return Lit(0, x.aval.dtype, weak=x.aval.weak, structural=True)


def _times(x: Atom, y: Atom, name: str = "mul") -> Atom:
    if is_zero(x) or is_zero(y):
        return zero_of(x)
    return y if _is_one(x) else x if _is_one(y) else elementwise_by_name[name](x, y)


def plus(x: Atom, y: Atom) -> Atom:
    return y if is_zero(x) else x if is_zero(y) else F.add(x, y)


def minus(x: Atom, y: Atom) -> Atom:
    return x if is_zero(y) else F.neg(y) if is_zero(x) else F.sub(x, y)


def _choose(condition: Atom, x: Atom, y: Atom) -> Atom:
    return zero_of(x) if is_zero(x) and is_zero(y) else F.select(condition, x, y)


def _sign_of(x: Atom) -> Atom:
    """1 or -1 by the sign bit of *x*."""
    return F.copysign(like(1, x), x)


# ---- products ------------------------------------------------------------------------------------------------------


def _product(x: Lanes, y: Lanes, name: str = "mul") -> Lanes:
    (a, b), (c, d) = x, y
    re = minus(_times(a, c, name), _times(b, d, name))
    im = plus(_times(a, d, name), _times(b, c, name))
    if is_zero(b) and not is_zero(d):  # NumPy adds 0 * c
        im = im + F.copysign(zero_of(c), c)
    elif is_zero(d) and not is_zero(b):
        im = im + F.copysign(zero_of(a), a)
    return re, im


def _quotient(x: Lanes, y: Lanes) -> Lanes:
    """By Smith's formula, which does not leave the range of numbers on its way."""
    (a, b), (c, d) = x, y
    if is_zero(d):
        scale = 1 / c
        return _times(a, scale), _times(b, scale)
    first = F.ge(F.abs(c), F.abs(d))
    p, q = F.select(first, c, d), F.select(first, d, c)
    ratio = q / F.select(F.eq(p, like(0, p)), like(1, p), p)
    scale = 1 / (p + q * ratio)
    u, v = _choose(first, a, b), _choose(first, b, a)
    im = v - _times(u, ratio)
    return (u + _times(v, ratio)) * scale, F.select(first, im, -im) * scale


def _integer_power(x: Lanes, n: int) -> Lanes:
    if n == 0:
        return like(1, x[0]), zero_of(x[0])
    if n < 0:
        return _quotient((like(1, x[0]), zero_of(x[0])), _integer_power(x, -n))
    return by_squaring(x, n, _product)


def _power(x: Lanes, y: Lanes) -> Lanes:
    """exp(y log x); 0 to a power of positive real part is 0, with the slope of a real power there, and to 0 it is 1."""
    (a, b), (c, d) = x, y
    zero = F.logical_and(F.eq(a, like(0, a)), F.eq(b, like(0, b)))
    nothing = F.logical_and(F.eq(c, like(0, c)), F.eq(d, like(0, d)))
    base = F.select(zero, like(1, a), a), b
    re, im = _exp(_product(y, _log(base)))
    inside = F.logical_and(zero, F.logical_not(nothing))
    one = like(1, c)
    slope = F.select(F.eq(c, one), one, F.select(F.gt(c, one), like(0, c), like(math.inf, c)))
    valid, never = F.gt(c, like(0, c)), like(math.nan, c) * c
    at_zero = [F.select(valid, F.mulz(part, slope), never) for part in (a, b)]
    return F.select(inside, at_zero[0], re), F.select(inside, at_zero[1], im)


# ---- exponentials and logarithms -----------------------------------------------------------------------------------


def _exp(z: Lanes) -> Lanes:
    x, y = z
    if is_zero(x):
        return F.cos(y), F.sin(y)
    size = F.exp(x)
    if is_zero(y):
        return size, y
    return size * F.cos(y), F.select(F.logical_and(F.eq(y, like(0, y)), F.isinf(size)), y, size * F.sin(y))


def _expm1(z: Lanes) -> Lanes:
    x, y = z
    half = F.sin(y * 0.5)
    return F.expm1(x) * F.cos(y) - 2 * half * half, F.exp(x) * F.sin(y)


def _log_of_size(x: Atom, y: Atom) -> Atom:
    """log |x + iy|, exact where that is near 1.  Signs stay, since the second derivative of |y|**2 at 0 is not 0."""
    first = F.ge(F.abs(x), F.abs(y))
    p, q = F.select(first, x, y), F.select(first, y, x)
    size = F.abs(p)
    near = F.logical_and(F.logical_and(F.gt(size, like(0.5, p)), F.lt(size, like(2, p))), F.le(F.abs(q), like(2, q)))
    p, q = F.select(near, p, like(1, p)), F.select(near, q, like(0, q))
    return F.select(near, 0.5 * F.log1p((p - 1) * (p + 1) + q * q), F.log(F.hypot(x, y)))


def _log(z: Lanes) -> Lanes:
    x, y = z
    return _log_of_size(x, y), F.arctan2(y, x)


def _log1p(z: Lanes) -> Lanes:
    x, y = z
    return _log_of_size(x + 1, y) if is_zero(y) else _log1p_of_size(x, y), F.arctan2(y, x + 1)


def _log1p_of_size(x: Atom, y: Atom) -> Atom:
    more = x * (2 + x) + y * y
    near = F.lt(F.abs(more), like(0.5, more))
    return F.select(near, 0.5 * F.log1p(F.select(near, more, like(0, more))), _log_of_size(x + 1, y))


def _scaled(formula: Callable[[Lanes], Lanes], before: float, after: float) -> Callable[[Lanes], Lanes]:
    def apply(z: Lanes) -> Lanes:
        x, y = formula((_times(z[0], like(before, z[0])), _times(z[1], like(before, z[1]))))
        return _times(x, like(after, x)), _times(y, like(after, y))

    return apply


def _sqrt(z: Lanes) -> Lanes:
    x, y = z
    right = F.ge(x, like(0, x))
    p, sign = F.select(right, x, -x), _sign_of(y)
    size = F.sqrt(0.5 * p + 0.5 * F.hypot(x, y))
    double = 2 * F.select(F.eq(size, like(0, size)), like(1, size), size)
    q = y * sign
    small = F.select(F.isinf(q), q, q / double)
    return F.select(right, size, small), sign * F.select(right, small, F.select(F.isinf(q), q, size))


# ---- trigonometric and hyperbolic ----------------------------------------------------------------------------------


def _sin(z: Lanes) -> Lanes:
    x, y = z
    return F.sin(x) * F.cosh(y), F.cos(x) * F.sinh(y)


def _cos(z: Lanes) -> Lanes:
    x, y = z
    return F.cos(x) * F.cosh(y), -(F.sin(x) * F.sinh(y))


def _sinh(z: Lanes) -> Lanes:
    x, y = z
    return F.sinh(x) * F.cos(y), F.cosh(x) * F.sin(y)


def _cosh(z: Lanes) -> Lanes:
    x, y = z
    return F.cosh(x) * F.cos(y), F.sinh(x) * F.sin(y)


def _tanh(z: Lanes) -> Lanes:
    """By Kahan's formula; far from the imaginary axis by its limit."""
    x, y = z
    far = F.gt(F.abs(x), like(20 if x.aval.dtype.itemsize == 8 else 9, x))
    near = F.select(far, like(0, x), x)
    tangent, s = F.tan(y), F.sinh(near)
    beta = 1 + tangent * tangent
    below = 1 + beta * s * s
    rest = 4 * F.sin(y) * F.cos(y) * F.exp(-2 * F.abs(x))
    return F.select(far, _sign_of(x), beta * F.cosh(near) * s / below), F.select(far, rest, tangent / below)


def _arcsin(z: Lanes) -> Lanes:
    """By Kahan's formula, which keeps to NumPy's sides of the branch cuts."""
    x, y = z
    (a, b), (c, d) = _sqrt((1 - x, -y)), _sqrt((1 + x, y))
    return F.arctan2(x, a * c - b * d), F.arcsinh(a * d - b * c)


def _arccos(z: Lanes) -> Lanes:
    x, y = z
    (a, b), (c, d) = _sqrt((1 - x, -y)), _sqrt((1 + x, y))
    return 2 * F.arctan2(a, c), F.arcsinh(b * c - a * d)


def _arccosh(z: Lanes) -> Lanes:
    x, y = z
    (a, b), (c, d) = _sqrt((x - 1, y)), _sqrt((x + 1, y))
    return F.arcsinh(a * c + b * d), 2 * F.arctan2(b, c)


def _arctanh(z: Lanes) -> Lanes:
    x, y = z
    sign = _sign_of(x)
    p = sign * x
    re = 0.25 * F.log1p(4 * p / ((1 - p) * (1 - p) + y * y))
    return sign * re, 0.5 * F.arctan2(2 * y, (1 - x) * (1 + x) - y * y)


def _turned(formula: Callable[[Lanes], Lanes]) -> Callable[[Lanes], Lanes]:
    """-i f(iz), which is the trigonometric function of a hyperbolic one, and the other way round."""

    def apply(z: Lanes) -> Lanes:
        x, y = formula((-z[1], z[0]))
        return y, -x

    return apply


# ---- other elementwise functions -----------------------------------------------------------------------------------


def _sign(z: Lanes) -> Lanes:
    size = F.hypot(*z)
    size = F.select(F.eq(size, like(0, size)), like(1, size), size)
    return z[0] / size, z[1] / size


def _reciprocal(z: Lanes) -> Lanes:
    return _quotient((like(1, z[0]), zero_of(z[0])), z)


def _before(name: str) -> Callable[[Lanes, Lanes], Atom]:
    """A comparison, which NumPy makes in lexicographic order."""
    strict = {"le": "lt", "ge": "gt"}.get(name, name)

    def apply(x: Lanes, y: Lanes) -> Atom:
        equal = F.logical_and(F.eq(x[0], y[0]), elementwise_by_name[name](x[1], y[1]))
        return F.logical_or(elementwise_by_name[strict](x[0], y[0]), equal)

    return apply


def _winner(wins: str, skips_nan: bool) -> Callable[[Lanes, Lanes], Lanes]:
    def apply(x: Lanes, y: Lanes) -> Lanes:
        mine = F.logical_or(_before(wins)(x, y), _is_nan(y if skips_nan else x))
        return F.select(mine, x[0], y[0]), F.select(mine, x[1], y[1])

    return apply


def _is_nan(z: Lanes) -> Atom:
    return F.logical_or(F.isnan(z[0]), F.isnan(z[1]))


def _by_parts(name: str) -> Callable[..., Lanes]:
    front = elementwise_by_name[name]
    return lambda *values: (front(*[z[0] for z in values]), front(*[z[1] for z in values]))


# name -> the lanes of the result (or the one real result) from those of the operands
FORMULAS: dict[str, Callable[..., Any]] = {
    **{name: _by_parts(name) for name in ("neg", "rint", "alias", "stop_gradient")},
    "add": lambda x, y: (_add(x[0], y[0]), _add(x[1], y[1])),
    "sub": lambda x, y: (_sub(x[0], y[0]), _sub(x[1], y[1])),
    "mul": _product, "mulz": lambda x, y: _product(x, y, "mulz"), "div": _quotient, "pow": _power,
    "square": lambda z: _product(z, z), "reciprocal": _reciprocal, "integer_pow": lambda z, n: _integer_power(z, n),
    "abs": lambda z: F.hypot(*z), "sign": _sign, "exp": _exp, "expm1": _expm1, "exp2": _scaled(_exp, math.log(2), 1),
    "log": _log, "log1p": _log1p, "log2": _scaled(_log, 1, 1 / math.log(2)),
    "log10": _scaled(_log, 1, 1 / math.log(10)), "sqrt": _sqrt, "sin": _sin, "cos": _cos, "tan": _turned(_tanh),
    "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "arcsin": _arcsin, "arccos": _arccos, "arctan": _turned(_arctanh),
    "arcsinh": _turned(_arcsin), "arccosh": _arccosh, "arctanh": _arctanh,
    "eq": lambda x, y: F.logical_and(F.eq(x[0], y[0]), F.eq(x[1], y[1])),
    "ne": lambda x, y: F.logical_or(F.ne(x[0], y[0]), F.ne(x[1], y[1])),
    **{name: _before(name) for name in ("lt", "le", "gt", "ge")},
    "maximum": _winner("ge", False), "minimum": _winner("le", False),
    "fmax": _winner("ge", True), "fmin": _winner("le", True),
    "isnan": _is_nan, "isinf": lambda z: F.logical_or(F.isinf(z[0]), F.isinf(z[1])),
    "isfinite": lambda z: F.logical_and(F.isfinite(z[0]), F.isfinite(z[1])),
}  # fmt: skip


def _add(x: Atom, y: Atom) -> Atom:
    return x if is_zero(x) and is_zero(y) else F.add(x, y)


def _sub(x: Atom, y: Atom) -> Atom:
    return x if is_zero(x) and is_zero(y) else F.sub(x, y)
