"""The distributions of ``tracegrad.random``, as functions of random bits.

Every number is a function of the key, its position in the array and the parameters; no two positions share bits, and
every number takes one block of Threefry, so nothing depends on what else is drawn.  They are written as NumPy
expressions over ``random.blocks``, and run on plain and traced arrays alike.  Continuous ones are made by inverting
their distribution function (L. Devroye: Non-Uniform Random Variate Generation, 1986, section II.2): smooth functions of
their parameters, through which gradients flow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.aval import FLOATS, SUPPORTED, Ints
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.late_modules import LateModule
from ..ir.site import at_site
from ..numpy_api.registry import one_axis
from ..record.array import TracedArray, is_traced, to_atom, wrap
from .keys import as_shape, blocks, check_key, in_long_rows, words

sp: Any = LateModule("scipy.special")

_LOWER_HALF, _ALL_BUT_SIGN = 2**32 - 1, 2**63 - 1


# ---- arguments -----------------------------------------------------------------------------------------------------


def _float_dtype(dtype: Any) -> np.dtype:
    kind = np.dtype(dtype)
    if kind not in FLOATS:
        raise UnsupportedError.here(f"such random numbers are float64 or float32, not {kind}")
    return kind


def _parameter(value: Any, kind: np.dtype, name: str) -> Any:
    """A parameter as an array or scalar of dtype *kind*."""
    if is_traced(value):
        return (value if isinstance(value, TracedArray) else wrap(to_atom(value))).astype(kind)
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise UnsupportedError.here(f"{name} must be a number or an array of numbers, not {value!r}")
    return array.astype(kind)[()]


def _common_shape(shape: Any, **parameters: Any) -> Ints:
    """*shape*, to which all parameters must broadcast; where it is None, the shape that they broadcast to."""
    shapes = [np.shape(value) for value in parameters.values()]
    try:
        broadcast = np.broadcast_shapes(*shapes)
        sizes = broadcast if shape is None else as_shape(shape)
        fits = np.broadcast_shapes(broadcast, sizes) == sizes
    except ValueError as error:
        if isinstance(error, ShapeError):
            raise
        fits = False
    if not fits:
        given = ", ".join(f"{name} {s}" for name, s in zip(parameters, shapes, strict=True))
        wanted = "" if shape is None else f" to {shape}"
        raise ShapeError.here(f"the shapes of the parameters do not broadcast{wanted}: {given}")
    return sizes


# ---- numbers between 0 and 1 ---------------------------------------------------------------------------------------


def _unit(key: Any, shape: Ints, kind: np.dtype) -> Any:
    """k / 2**53 (float64) or k / 2**24 (float32), 0 <= k < 2**53 or 2**24: in [0, 1)."""
    if kind.itemsize == 8:
        return (blocks(key, shape) >> 11).astype(kind) * 2.0**-53
    return (words(blocks(key, shape)) >> 8).astype(kind) * np.float32(2.0**-24)


def _positive_unit(key: Any, shape: Ints, kind: np.dtype) -> Any:
    """In (0, 1], of all 64 or 32 bits: small numbers have full relative precision, down to 2**-65 (2**-33)."""
    if kind.itemsize == 8:
        return (blocks(key, shape).astype(kind) + 0.5) * 2.0**-64
    return (words(blocks(key, shape)).astype(kind) + np.float32(0.5)) * np.float32(2.0**-32)


def uniform(key: Any, shape: Any = None, dtype: Any = float, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Uniform on [minval, maxval): minval + u * (maxval - minval), u a multiple of 2**-53 (float32: 2**-24)."""
    kind = _float_dtype(dtype)
    sizes = _common_shape(shape, minval=minval, maxval=maxval)
    unit = in_long_rows(sizes, lambda sizes: _unit(key, sizes, kind))
    if _is_number(minval, 0) and _is_number(maxval, 1):
        return unit
    low, high = _parameter(minval, kind, "minval"), _parameter(maxval, kind, "maxval")
    return low + unit * (high - low)


def _is_number(value: Any, number: int) -> bool:
    return type(value) in (int, float) and value == number


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
    """True with probability *p* (in steps of 2**-53; of 2**-24 where p is float32)."""
    sizes = _common_shape(shape, p=p)
    kind = np.dtype(np.float32 if getattr(p, "dtype", None) == np.float32 else float)
    return in_long_rows(sizes, lambda sizes: _unit(key, sizes, kind)) < _parameter(p, kind, "p")


# ---- continuous distributions --------------------------------------------------------------------------------------


def normal(key: Any, shape: Any = None, dtype: Any = float, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """loc + scale * z, z standard normal: one bit is its sign, the others the probability of its tail, inverted.

    The tail has 63 bits (float32: 31), so |z| is at most 9.2 (6.3), and as dense there as the dtype allows.
    """
    kind = _float_dtype(dtype)
    sizes = _common_shape(shape, loc=loc, scale=scale)
    z = in_long_rows(sizes, lambda sizes: _standard_normal(key, sizes, kind))
    if _is_number(loc, 0) and _is_number(scale, 1):
        return z
    return _parameter(loc, kind, "loc") + _parameter(scale, kind, "scale") * z


def _standard_normal(key: Any, shape: Ints, kind: np.dtype) -> Any:
    random = blocks(key, shape)
    if kind.itemsize == 8:
        negative = random > _ALL_BUT_SIGN
        tail = ((random & _ALL_BUT_SIGN).astype(kind) + 0.5) * 2.0**-64
    else:
        random = words(random)
        negative = random > _ALL_BUT_SIGN >> 32
        tail = ((random & (_ALL_BUT_SIGN >> 32)).astype(kind) + np.float32(0.5)) * np.float32(2.0**-32)
    below = sp.ndtri(tail)
    return np.where(negative, below, -below)[()]


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = float) -> Any:
    """Standard normal, given that lower <= z <= upper.  Gradients flow to the bounds."""
    kind = _float_dtype(dtype)
    sizes = _common_shape(shape, lower=lower, upper=upper)
    low, high = _parameter(lower, kind, "lower"), _parameter(upper, kind, "upper")
    mirrored = low > 0  # then both probabilities are close to 1; those of -z are not
    first, last = sp.ndtr(np.where(mirrored, -high, low)), sp.ndtr(np.where(mirrored, -low, high))
    half = kind.type(2.0**-54 if kind.itemsize == 8 else 2.0**-25)  # keeps the argument of ndtri off 0
    unit = in_long_rows(sizes, lambda sizes: _unit(key, sizes, kind) + half)
    z = sp.ndtri(first + unit * (last - first))
    return np.clip(np.where(mirrored, -z, z), low, high)[()]


def exponential(key: Any, shape: Any = None, dtype: Any = float, scale: Any = 1.0) -> Any:
    """scale * -log(u), u in (0, 1]: at most 45 (float32: 23) times the scale, which is the mean."""
    kind = _float_dtype(dtype)
    sizes = _common_shape(shape, scale=scale)
    drawn = in_long_rows(sizes, lambda sizes: 0.0 - np.log(_positive_unit(key, sizes, kind)))
    return drawn if _is_number(scale, 1) else _parameter(scale, kind, "scale") * drawn


# ---- integers ------------------------------------------------------------------------------------------------------


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = int) -> Any:
    """Integers, minval <= k < maxval: the upper half of 64 random bits times the number of choices.

    D. Lemire: Fast random integer generation in an interval (2019), without the rejection: the probability of each
    choice is off by at most 2**-64.
    """
    kind = np.dtype(dtype)
    if kind.kind not in "iu" or kind not in SUPPORTED:
        raise UnsupportedError.here(f"random integers are of an integer dtype, not {kind}")
    sizes = _common_shape(shape, minval=minval, maxval=maxval)
    low, high = _bound(minval, kind, "minval", 0), _bound(maxval, kind, "maxval", 1)
    with np.errstate(over="ignore"):
        count = high - low
        if is_traced((minval, maxval)):  # no error can depend on a traced value: an empty range gives minval
            count = np.where(np.less_equal(maxval, minval), np.uint64(1), count)
        elif np.any(np.less_equal(maxval, minval)):
            raise ValueError(at_site(f"randint needs minval < maxval, not {minval!r} and {maxval!r}"))
        random = in_long_rows(sizes, lambda sizes: blocks(key, sizes))
        whole = isinstance(minval, int) and isinstance(maxval, int) and maxval - minval == 2**64
        return ((random if whole else _times_fraction(count, random)) + low).astype(kind)


def _bound(value: Any, kind: np.dtype, name: str, beyond: int) -> Any:
    """A bound as uint64, modulo 2**64."""
    if is_traced(value):
        if value.dtype.kind not in "iu":
            raise UnsupportedError.here(f"{name} must be an integer, not {value.dtype}")
        return value.astype(np.uint64)
    number = type(value) is int
    array = np.asarray(0 if number else value)
    if array.dtype.kind not in "iu":
        raise UnsupportedError.here(f"{name} must be an integer or an array of integers, not {value!r}")
    least, most = (value, value) if number else (int(array.min()), int(array.max())) if array.size else (0, 0)
    if least < np.iinfo(kind).min or most > np.iinfo(kind).max + beyond:
        raise ValueError(at_site(f"{name}={value!r} is out of bounds for {kind}"))
    return np.uint64(value % 2**64) if number else array.astype(np.uint64)[()]


def _times_fraction(count: Any, fraction: Any) -> Any:
    """floor(count * fraction / 2**64) of uint64: the upper half of the product, from four products of halves."""
    a, b = fraction >> 32, fraction & _LOWER_HALF
    c, d = count >> 32, count & _LOWER_HALF
    middle = a * d + (b * d >> 32)
    return a * c + (middle >> 32) + ((b * c + (middle & _LOWER_HALF)) >> 32)


def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The integers below *x* in random order, or the array *x* so shuffled along *axis*: by sorting 64 random bits.

    Sorting is done by NumPy, between the kernels of a compiled function.
    """
    if _is_array(x):
        place = one_axis(axis, np.ndim(x), "permutation")
        return _taken(x, permutation(key, np.shape(x)[place]), place)
    (count,) = as_shape(x)
    return np.argsort(blocks(key, (count,)), kind="stable")


def _taken(x: Any, index: Any, axis: int) -> Any:
    if isinstance(index, TracedArray) and not isinstance(x, TracedArray):
        x = wrap(to_atom(x))  # np.take does not ask its indices whose they are
    return np.take(x, index, axis=axis)


def _is_array(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        raise UnsupportedError.here("give an array, not a list: np.array(...)")
    return bool(np.ndim(x))


def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0) -> Any:
    """Random elements of the array *a* along *axis*, or of range(a): with probabilities *p*, or all alike.

    Without replacement and with p the elements are those whose exponential waiting times, of rates p, end first
    (P. Efraimidis, P. Spirakis: Weighted random sampling with a reservoir, 2006): one after the other, each with
    the probability that p gives it among those that are left.
    """
    check_key(key)
    place = one_axis(axis, np.ndim(a), "choice") if _is_array(a) else 0
    (count,) = (np.shape(a)[place],) if _is_array(a) else as_shape(a)
    sizes = as_shape(shape)
    wanted = math.prod(sizes)
    if p is not None and np.shape(p) != (count,):
        raise ShapeError.here(f"p must have one probability for each of the {count} choices, not shape {np.shape(p)}")
    if wanted > (count if not replace else wanted if count else 0):
        raise ValueError(at_site(f"{wanted} elements cannot be taken of {count}" + ("" if replace else ", each once")))
    if not replace:
        if p is None:
            index = permutation(key, count)[:wanted].reshape(sizes)
        else:
            with np.errstate(divide="ignore"):
                waiting = exponential(key, (count,)) / _parameter(p, FLOATS[0], "p")
            index = np.argsort(waiting, kind="stable")[:wanted].reshape(sizes)
    elif p is None:
        index = randint(key, sizes, 0, max(count, 1))
    else:
        total = np.cumsum(_parameter(p, FLOATS[0], "p"))
        index = np.searchsorted(total, total[-1] * (1.0 - uniform(key, sizes))) if wanted else randint(key, sizes, 0, 1)
    return _taken(a, index, place) if _is_array(a) else index
