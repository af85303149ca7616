"""CuPy implementations of primitives, and those that must differ from NumPy's.

A primitive's ``impl`` serves both (``tracer/ir/primitive.py``): a ufunc is CuPy's of the same name, a function gets
CuPy as its *xp*.  Whatever has neither is done by NumPy on the host, which ``cupy_backend.py`` counts and ``explain()``
tells.  ``EXCEPTIONS`` holds the rest, from the name of a primitive to a function of ``(Modules, *arrays of the device,
**params)``; each says why it is here.

Nothing here, and no ``impl``, reads a value of the device, so none waits for it; and every function gives the same bits
for the same operands.  CuPy's own indexed writes don't: where several elements go to one position, atomics decide who
is last, or in which order they are added.  Here they are sorted by position first.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tracer.ir.primitive import Primitive
from ...tracer.ops.threefry import rounds

_INT64_MIN = -(2**63)


@dataclass(frozen=True, slots=True)
class Modules:
    """The array library of the device: ``cupy`` as *xp*, ``cupyx.scipy.special`` as *special*."""

    xp: Any
    special: Any

    def array(self, x: Any) -> Any:
        """A number as a 0-d array; an array of the device as it is."""
        return x if isinstance(x, self.xp.ndarray) else self.xp.asarray(x)


Function = Callable[..., Any]
EXCEPTIONS: dict[str, Function] = {}


def device_function(modules: Modules, prim: Primitive) -> Function | None:
    """The device implementation of *prim*, a function of operands and params; None where there is none."""
    exception = EXCEPTIONS.get(prim.name)
    if exception is not None:
        return lambda *operands, **params: exception(modules, *[modules.array(x) for x in operands], **params)
    if not isinstance(prim.impl, np.ufunc):
        shared = "xp" in inspect.signature(prim.impl).parameters
        return functools.partial(prim.impl, xp=modules.xp) if shared else None
    name = prim.impl.__name__
    for ours, theirs in ((np, modules.xp), (sys.modules.get("scipy.special"), modules.special)):
        if getattr(ours, name, None) is prim.impl:
            return getattr(theirs, name, None)
    return None


def _exception(function: Function) -> Function:
    EXCEPTIONS[function.__name__.strip("_")] = function
    return function


# ---- elementwise: other numbers than CuPy's ----------------------------------------------------------------------


def _divmod(m: Modules, x: Any, y: Any) -> tuple[Any, Any]:
    """NumPy's floor_divide and remainder of floats.  CuPy's are floor(x / y) and x - y floor(x / y): 1.0 // 0.1 would
    be 10, and 1 % inf NaN."""
    xp = m.xp
    rest = xp.fmod(x, y)
    wrong = (rest != 0) & ((y < 0) != (rest < 0))
    quotient = (x - rest) / y
    quotient = xp.where(wrong, quotient - 1, quotient)
    whole = xp.floor(quotient)
    whole = xp.where(quotient - whole > 0.5, whole + 1, whole)
    whole = xp.where(quotient == 0, xp.copysign(xp.zeros_like(quotient), x / y), whole)
    rest = xp.where(wrong, rest + y, xp.where(rest == 0, xp.copysign(xp.zeros_like(rest), y), rest))
    return xp.where(y == 0, x / y, whole), xp.where(y == 0, xp.fmod(x, y), rest)


@_exception
def _floor_divide(m: Modules, x: Any, y: Any) -> Any:
    return _divmod(m, x, y)[0] if x.dtype.kind == "f" else m.xp.floor_divide(x, y)


@_exception
def _remainder(m: Modules, x: Any, y: Any) -> Any:
    return _divmod(m, x, y)[1] if x.dtype.kind == "f" else m.xp.remainder(x, y)


@_exception
def _fmod(m: Modules, x: Any, y: Any) -> Any:
    """CuPy's, of integers, goes through float64."""
    if x.dtype.kind == "f":
        return m.xp.fmod(x, y)
    rest = m.xp.remainder(x, y)
    return m.xp.where((rest != 0) & ((x < 0) != (y < 0)), rest - y, rest)


@_exception
def _left_shift(m: Modules, x: Any, n: Any) -> Any:
    """NumPy's shift.  CuPy's is C++, which leaves shifts undefined that are negative or as wide as the number.  (An
    H100 agrees with NumPy.)"""
    fits = (n >= 0) & (n < 8 * x.dtype.itemsize)
    return m.xp.where(fits, m.xp.left_shift(x, m.xp.where(fits, n, n.dtype.type(0))), x.dtype.type(0))


@_exception
def _right_shift(m: Modules, x: Any, n: Any) -> Any:
    """As ``_left_shift``."""
    width = 8 * x.dtype.itemsize
    fits = (n >= 0) & (n < width)
    shifted = m.xp.right_shift(x, m.xp.where(fits, n, n.dtype.type(width - 1)))
    return shifted if x.dtype.kind == "i" else m.xp.where(fits, shifted, x.dtype.type(0))


@_exception
def _xlog1py(m: Modules, x: Any, y: Any) -> Any:
    """CuPy's gives 0 for (0, NaN)."""
    return m.xp.where((x == 0) & ~m.xp.isnan(y), x.dtype.type(0), x * m.xp.log1p(y))


@_exception
def _betaln(m: Modules, a: Any, b: Any) -> Any:
    """CuPy's gives NaN at the poles of gamma(a + b), where the beta function is 0."""
    floor, total = m.xp.floor, a + b
    pole = (total <= 0) & (total == floor(total)) & (a != floor(a)) & (b != floor(b))
    return m.xp.where(pole, a.dtype.type(-np.inf), m.special.betaln(a, b))


@_exception
def _polygamma(m: Modules, x: Any, n: int) -> Any:
    """The row calls a ufunc that SciPy has under a private name."""
    wide = x.astype(np.float64)
    zeta = m.special.zeta(m.xp.full_like(wide, n + 1), wide)
    return ((-1.0) ** (n + 1) * math.factorial(n) * zeta).astype(x.dtype)


@_exception
def _cast(m: Modules, x: Any, dtype: np.dtype, weak: bool = False) -> Any:
    """As NumPy on this hardware, and the kernels for the CPU: floats become integers by way of int64, whose minimum
    stands for NaN and whatever does not fit.  CUDA's own conversion gives the nearest number that fits."""
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return x.astype(dtype)
    xp, wide = m.xp, x.astype(np.float64)
    upper = (wide >= 2.0**63) & (wide < 2.0**64)
    if dtype == np.uint64:
        wide = xp.where(upper, wide - 2.0**63, wide)
    fits = (wide >= -(2.0**63)) & (wide < 2.0**63)
    whole = xp.where(fits, xp.where(fits, wide, 0.0).astype(np.int64), np.int64(_INT64_MIN))
    if dtype == np.uint64:
        whole = xp.where(upper, whole ^ np.int64(_INT64_MIN), whole)
    return whole.astype(dtype)


@_exception
def _threefry2x32(m: Modules, key0: Any, key1: Any, high: Any, low: Any) -> Any:
    """All blocks at once: NumPy takes them by pieces that stay in the cache, and few of them as Python integers."""
    shape = np.broadcast_shapes(key0.shape, key1.shape, high.shape, low.shape)
    first, second = rounds(key0, key1, high, low, shape, m.xp)
    return (first.astype(np.uint64) << np.uint64(32)) | second.astype(np.uint64)


# ---- indexed writes: the same bits every time --------------------------------------------------------------------


@_exception
def _scatter_add(m: Modules, x: Any, index: Any, v: Any) -> Any:
    if not v.size:
        return x.copy()
    xp, count = m.xp, index.size
    order, last, written = _by_position(m, index, x.shape[0])
    keys = index.reshape(-1)[order]
    sums = v.reshape(count, -1)[order]
    step = 1
    while step < count:  # each element takes in those before it that go to the same position, twice as many each time
        same = (keys[step:] == keys[:-step])[:, None]
        sums = xp.concatenate([sums[:step], sums[step:] + xp.where(same, sums[:-step], sums.dtype.type(0))])
        step *= 2
    flat = x.reshape(x.shape[0], -1)
    return xp.where(written[:, None], flat + sums[last], flat).reshape(x.shape)


def _extremes(m: Modules, x: Any, index: Any, v: Any, pick: Any) -> Any:
    if not v.size:
        return x.copy()
    xp, count = m.xp, index.size
    order, last, written = _by_position(m, index, x.shape[0])
    keys = index.reshape(-1)[order]
    found = v.reshape(count, -1)[order]
    step = 1
    while step < count:  # as above
        same = (keys[step:] == keys[:-step])[:, None]
        found = xp.concatenate([found[:step], xp.where(same, pick(found[step:], found[:-step]), found[step:])])
        step *= 2
    flat = x.reshape(x.shape[0], -1)
    return xp.where(written[:, None], pick(flat, found[last]), flat).reshape(x.shape)


@_exception
def _scatter_max(m: Modules, x: Any, index: Any, v: Any) -> Any:
    return _extremes(m, x, index, v, m.xp.maximum)


@_exception
def _scatter_min(m: Modules, x: Any, index: Any, v: Any) -> Any:
    return _extremes(m, x, index, v, m.xp.minimum)


@_exception
def _scatter(m: Modules, x: Any, index: Any, v: Any) -> Any:
    if not v.size:
        return x.copy()
    order, last, written = _by_position(m, index, x.shape[0])
    flat = x.reshape(x.shape[0], -1)
    return m.xp.where(written[:, None], v.reshape(index.size, -1)[order[last]], flat).reshape(x.shape)


def _by_position(m: Modules, index: Any, rows: int) -> tuple[Any, Any, Any]:
    """(the writes in order of position, for each position the last of its writes in that order, whether it has any)"""
    xp, flat = m.xp, index.reshape(-1)
    order = xp.argsort(flat)  # CuPy's is stable
    keys, positions = flat[order], xp.arange(rows, dtype=np.int64)
    ends = xp.searchsorted(keys, positions, side="right")
    written = ends > xp.searchsorted(keys, positions, side="left")
    return order, xp.where(written, ends - 1, 0), written


# ---- results whose size the values decide ------------------------------------------------------------------------


@_exception
def _nonzero(m: Modules, mask: Any, count: int) -> Any:
    """Flat positions of the first *count* True elements.  How many there are is a guard; asking here, as CuPy's does,
    would wait."""
    mask = mask.reshape(-1)
    if not mask.size or not count:
        return m.xp.zeros(count, np.int64)
    order = m.xp.argsort(~mask)
    return m.xp.take(order, m.xp.remainder(m.xp.arange(count, dtype=np.int64), np.int64(mask.size)), axis=0)
