"""NumPy on traced arrays: the ufuncs.

An elementwise primitive whose implementation is a ufunc is found by itself (``row_ufuncs.py``); only those composed of
several primitives are spelled out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import BOOL, COMPLEX, FLOAT, INT, finfo
from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Lit, elementwise_by_name, structural
from ..ir.site import at_site
from ..ops.complex import by_lane, conjugate
from ..ops.elementwise import F, cast, fits, like, promote
from ..ops.reduce import reduce
from ..ops.shape import full, reshape
from ..record.array import DIRECT, UFUNC_METHODS, UFUNCS, WIDE, TracedArray, to_atom, wrap_as
from ..record.autocast import IN_FLOAT32, on_wide
from ..record.recorder import require_recorder
from .protocols import call_ufunc
from .registry import implements, into, reject
from .row_ufuncs import as_floating, loop_dtypes, register_ufuncs

INT32 = np.dtype("int32")

register_ufuncs()
del DIRECT[np.power]  # has cheaper forms for some exponents
for _name in ("isnan", "isinf", "isfinite"):
    UFUNCS[getattr(np, _name)] = lambda x, name=_name: elementwise_by_name[name](*promote(x, floating=True))


# ---- powers --------------------------------------------------------------------------------------------------------

_typed_power = UFUNCS[np.power]


def _power(x: Atom, y: Atom) -> Atom:
    """x ** y.  Small constant integer exponents and one half have their own, cheaper primitives."""
    n = _whole(y)
    if n is not None:
        if n == 2 and y.aval.weak and not x.aval.is_inexact:
            return UFUNCS[np.square](x)
        if x.aval.is_complex:
            return F.integer_pow(promote(x, y)[0], n=n)
        if (
            x.aval.is_float
            and not y.aval.is_complex
            and not isinstance(x, Lit)
            and (y.aval.weak or y.aval.dtype == x.aval.dtype)
        ):
            return F.square(x) if n == 2 else x if n == 1 else F.reciprocal(x) if n == -1 else F.integer_pow(x, n=n)
    if isinstance(y, Lit) and x.aval.is_inexact and y.value == 0.5 and (y.aval.weak or y.aval.dtype == x.aval.dtype):
        return F.sqrt(x)
    if y.aval.dtype.kind == "i" and x.aval.dtype.kind in "biu" and not (x.aval.weak and y.aval.weak):
        y = _exponents(x, y)
    return _typed_power(x, y)


def _whole(y: Atom) -> int | None:
    """The small constant integer that the exponent *y* is."""
    if not isinstance(y, Lit) or not np.isfinite(y.value) or y.value.imag != 0 or not -16 <= y.value.real <= 16:
        return None
    return int(y.value.real) if y.value.real == int(y.value.real) else None


def _exponents(x: Atom, y: Atom) -> Atom:
    """The integers *y*, none of them negative where NumPy refuses that: a guard, which a kernel computes beside the
    power, for which NumPy's own loop would set an exception."""
    recorder = require_recorder("an integer power")
    known = recorder.range_of(y)
    if loop_dtypes(np.power, (x, y))[0].kind == "f" or (known is not None and known[0] >= 0):
        return y
    least = structural(0, y.aval.dtype)
    fits = F.ge(y, least)
    if not recorder.guard(reduce("all", fits, tuple(range(len(fits.aval.shape)))), "bool"):
        raise ValueError(at_site("Integers to negative integer powers are not allowed."))
    return y if isinstance(y, Lit) else F.maximum(y, least)


UFUNCS[np.power] = _power


def _float_power(x: Atom, y: Atom) -> Atom:
    dtype = WIDE if x.aval.is_complex or y.aval.is_complex else FLOAT
    return _power(cast(x, dtype), cast(y, dtype))


UFUNCS[np.float_power] = _float_power


# ---- comparisons of integers with Python numbers -------------------------------------------------------------------


def _comparing(ufunc: Any) -> Callable[[Atom, Atom], Atom]:
    """A comparison; an integer array lies wholly to one side of a Python integer that its dtype does not hold."""
    typed = UFUNCS[ufunc]

    def apply(x: Atom, y: Atom) -> Atom:
        for number, other, pair in ((y, x, lambda v: (0, v)), (x, y, lambda v: (v, 0))):
            if not isinstance(number, Lit) or not number.aval.weak or number.aval.dtype.kind not in "iu":
                continue
            if not other.aval.weak and not fits(number, other.aval.dtype):
                return full(structural(ufunc(*pair(int(number.value))), BOOL), other.aval.shape)
        return typed(x, y)

    return apply


for _ufunc in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
    UFUNCS[_ufunc] = _comparing(_ufunc)


# ---- shifts --------------------------------------------------------------------------------------------------------


def _shift(ufunc: Any) -> Callable[[Atom, Atom], Atom]:
    """A shift; a count that is a Python number is part of the program, as an axis is: shifts are cheap where it is
    known."""
    typed = UFUNCS[ufunc]

    def apply(x: Atom, n: Atom) -> Atom:
        if isinstance(n, Lit) and n.aval.weak and n.aval.dtype.kind == "i":
            n = Lit(n.value, n.aval.dtype, weak=True, structural=True)
        return typed(x, n)

    return apply


UFUNCS[np.left_shift] = _shift(np.left_shift)
UFUNCS[np.right_shift] = _shift(np.right_shift)


# ---- composed ufuncs -----------------------------------------------------------------------------------------------


def _heaviside(x: Atom, at_zero: Atom) -> Atom:
    x, at_zero = promote(x, at_zero, floating=True)
    one_sided = F.select(F.lt(x, like(0, x)), like(0, x), F.select(F.eq(x, like(0, x)), at_zero, like(1, x)))
    return F.select(F.ne(x, x), x, one_sided)


def _signbit(x: Atom) -> Atom:
    if not x.aval.is_float:
        return F.lt(x, structural(0, x.aval.dtype)) if x.aval.dtype != BOOL else F.logical_and(x, F.logical_not(x))
    return F.lt(F.copysign(like(1, x), x), like(0, x))


def _divmod(x: Atom, y: Atom) -> tuple[Atom, Atom]:
    return UFUNCS[np.floor_divide](x, y), UFUNCS[np.remainder](x, y)


def _modf(x: Atom) -> tuple[Atom, Atom]:
    x = as_floating(x)
    return F.fraction(x), F.trunc(x)


def _frexp(x: Atom) -> tuple[Atom, Atom]:
    x = as_floating(x)
    usual = F.logical_and(F.isfinite(x), F.ne(x, like(0, x)))
    safe = F.select(usual, x, like(1, x))
    exponent = cast(F.floor(F.log2(F.abs(safe))), INT)
    size = F.abs(F.ldexp(safe, -exponent))  # about 1 to 2: the logarithm is rounded
    exponent = exponent + cast(F.ge(size, like(1, x)), INT) + cast(F.ge(size, like(2, x)), INT)
    mantissa = F.select(usual, F.ldexp(safe, -exponent), x)
    return mantissa, cast(F.select(usual, exponent, Lit(0, INT)), INT32)


def _scaled(factor: float) -> Callable[[Atom], Atom]:
    def apply(x: Atom) -> Atom:
        x = as_floating(x)
        return x * like(factor, x)

    return apply


UFUNCS[np.fabs] = lambda x: F.abs(as_floating(x))
UFUNCS[np.positive] = lambda x: x
UFUNCS[np.conjugate] = conjugate
UFUNCS[np.heaviside] = _heaviside
UFUNCS[np.signbit] = _signbit
UFUNCS[np.divmod] = _divmod
UFUNCS[np.modf] = _modf
UFUNCS[np.ldexp] = F.ldexp
UFUNCS[np.frexp] = _frexp
UFUNCS[np.deg2rad] = UFUNCS[np.radians] = _scaled(math.pi / 180)
UFUNCS[np.rad2deg] = UFUNCS[np.degrees] = _scaled(180 / math.pi)


# ---- ufunc methods ---------------------------------------------------------------------------------------------------


def _outer(ufunc: Any, *operands: Any, **kwargs: Any) -> Any:
    x, y = map(to_atom, operands)
    wide = (*x.aval.shape, *[1] * y.aval.ndim)
    order = kwargs.pop("order", "K")
    return wrap_as(call_ufunc(ufunc, (reshape(x, wide), y), kwargs).atom, *operands, order=order)


UFUNC_METHODS[None, "outer"] = _outer


# ---- functions that are ufuncs in spirit -----------------------------------------------------------------------------


@implements(np.clip, method="clip")
def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **kwargs: Any
) -> Any:
    reject("np.clip", "apply np.where to the result", where=kwargs.get("where"))
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    result = a if isinstance(a, TracedArray) else np.maximum(a, low) if low is not None else np.minimum(a, high)
    if low is not None:
        result = call_ufunc(np.maximum, (result, low), {})
    if high is not None:
        result = call_ufunc(np.minimum, (result, high), {})
    if low is None and high is None:
        result = call_ufunc(np.positive, (a,), {})
    return into(result, out)


_clip_ufunc = getattr(getattr(np, "_core", None), "umath", np).clip  # what ndarray.clip calls
UFUNCS[_clip_ufunc] = lambda x, low, high: UFUNCS[np.minimum](UFUNCS[np.maximum](x, low), high)


@implements(np.round, np.around, method="round")
def _round(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    x, places = to_atom(a), int(decimals)
    if not x.aval.is_inexact:
        if places < 0:
            raise UnsupportedError.here(
                "np.round of integers to negative decimals is not supported; write x // 10**n * 10**n"
            )
        result = call_ufunc(np.rint if x.aval.dtype == BOOL else np.positive, (a,), {})
    elif places == 0:
        result = call_ufunc(np.rint, (a,), {})
    else:
        scale = Lit(10.0 ** abs(places), COMPLEX.get(x.aval.dtype, x.aval.dtype))
        up, down = (np.multiply, np.true_divide) if places > 0 else (np.true_divide, np.multiply)
        result = call_ufunc(down, (call_ufunc(np.rint, (call_ufunc(up, (a, scale), {}),), {}), scale), {})
    return into(result, out)


@implements(np.fix)
def _fix(x: Any, out: Any = None) -> Any:
    result = call_ufunc(np.trunc, (x,), {})
    return into(result, out)


@implements(np.sinc)
def _sinc(x: Any) -> Any:
    given, x = x, call_ufunc(np.multiply, (as_floating(to_atom(x)), math.pi), {}).atom
    small = F.lt(call_ufunc(np.absolute, (x,), {}).atom, Lit(0.5, finfo(x.aval.dtype).dtype))
    # near 0 the quotient's derivatives would cancel
    series, square = like(0, x), F.select(small, x * x, like(0, x))
    for k in range(17, 0, -2):
        series = like(1, x) - series * square / like((k + 1) * (k + 2), x)
    safe = F.select(small, like(1, x), x)
    return wrap_as(F.select(small, series, F.sin(safe) / safe), given)


@implements(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    given, x = x, to_atom(x)
    if not x.aval.is_inexact:
        return wrap_as(x, given)

    def finite(x: Atom) -> Atom:
        limits = finfo(x.aval.dtype)
        high = Lit(limits.max if posinf is None else posinf, x.aval.dtype)
        low = Lit(limits.min if neginf is None else neginf, x.aval.dtype)
        found = F.select(F.eq(x, like(math.inf, x)), high, F.select(F.eq(x, like(-math.inf, x)), low, x))
        return F.select(F.ne(x, x), Lit(nan, x.aval.dtype), found)

    return wrap_as(by_lane(finite, x), given)


implements(np.real)(lambda val: val.real)


@implements(np.isclose)
def _isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    x, y = promote(to_atom(a), to_atom(b), floating=True)
    size = F.abs(y)
    near = F.le(F.abs(x - y), Lit(atol, size.aval.dtype) + Lit(rtol, size.aval.dtype) * size)
    result = F.logical_or(F.logical_and(near, F.isfinite(y)), F.eq(x, y))
    if equal_nan:
        result = F.logical_or(result, F.logical_and(F.ne(x, x), F.ne(y, y)))
    return wrap_as(result, a, b)


# ---- mixed precision -----------------------------------------------------------------------------------------------

for _delicate in IN_FLOAT32:
    UFUNCS[_delicate] = on_wide(UFUNCS[_delicate])
