"""math and cmath, of numbers."""

from __future__ import annotations

import cmath
import math

import numpy as np

from .case import Case

X, Y, LARGE, SMALL = np.array(0.7), np.array(1.9), np.array(1.4), np.array(-0.4)

_UNARY = (
    "sin cos tan asin atan sinh cosh tanh asinh atanh exp exp2 expm1 log log2 log10 log1p sqrt cbrt fabs degrees "
    "radians gamma lgamma erf erfc acos"
)
_OF_COMPLEX = "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp log log10 sqrt"


def _unary(name: str) -> Case:
    return Case(f"math.{name}", eval(f"lambda x: math.{name}(x)"), [X])


def _of_complex(name: str) -> Case:
    return Case(f"cmath.{name}", eval(f"lambda x, y: cmath.{name}(complex(x, y))"), [X, Y])


def _data(name: str, arguments: str) -> Case:
    return Case(name, eval(f"lambda x: x * {name}({arguments})"), [X], 0)


CASES = [
    *[_unary(name) for name in _UNARY.split()],
    *[_of_complex(name) for name in _OF_COMPLEX.split()],
    Case("math.acosh", lambda x: math.acosh(x), [LARGE]),
    Case("math.log", lambda x, y: math.log(x, y), [X, Y], label="base"),
    Case("math.pow", lambda x, y: math.pow(x, y), [X, Y]),
    Case("math.atan2", lambda x, y: math.atan2(x, y), [X, Y]),
    Case("math.hypot", lambda x, y: math.hypot(x, y, 2.0), [X, Y]),
    Case("math.copysign", lambda x, y: math.copysign(x, y), [X, SMALL]),
    Case("math.fmod", lambda x, y: math.fmod(y, x), [X, Y]),
    Case("math.remainder", lambda x, y: math.remainder(y, x), [X, Y]),
    Case("math.nextafter", lambda x, y: math.nextafter(x, y), [X, Y]),
    Case("math.ldexp", lambda x: math.ldexp(x, 3), [X]),
    Case("math.modf", lambda x: math.modf(x), [Y]),
    Case("math.frexp", lambda x: math.frexp(x)[0], [Y]),
    Case("math.dist", lambda x, y: math.dist([x, 1.0], [y, x * y]), [X, Y]),
    Case("math.fsum", lambda x, y: math.fsum([x, y, x * y]), [X, Y]),
    Case("math.prod", lambda x, y: math.prod([x, y, x * y], start=2), [X, Y]),
    *[_data(f"math.{name}", "x") for name in "floor ceil isnan isinf isfinite".split()],
    _data("math.trunc", "x[()]"),
    _data("math.ulp", "1.0"),
    *[_data(f"math.{name}", "6, 4") for name in "comb perm gcd lcm".split()],
    *[_data(f"math.{name}", "6") for name in "factorial isqrt".split()],
    *[_data(f"cmath.{name}", "1j * x") for name in "isnan isinf isfinite".split()],
    _data("math.isclose", "x, 0.7"),
    _data("cmath.isclose", "1j * x, 0.7j"),
    Case("cmath.phase", lambda x, y: cmath.phase(complex(x, y)), [X, Y]),
    Case("cmath.polar", lambda x, y: cmath.polar(complex(x, y)), [X, Y]),
    Case("cmath.rect", lambda x, y: cmath.rect(x, y), [X, Y]),
    Case("cmath.log", lambda x, y: cmath.log(complex(x, y), 2.0), [X, Y], label="base"),
]
