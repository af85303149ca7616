"""What CuPy does for each primitive.

One data structure: ``ROWS``, from the name of a primitive to a function of ``(Modules, *operands, **params)`` over
arrays on the device.  A primitive whose implementation is a NumPy or SciPy ufunc needs no row: CuPy's ufunc of the same
name does it (``device_function``), unless it gives other numbers than NumPy's, which is why some are spelled out here.
What has neither is done by NumPy on the host, which ``cupy_backend.py`` counts and ``explain()`` tells.

Every row gives the same bits for the same operands.  CuPy's own indexed writes don't: where several elements go to one
position, atomics decide who is last, or in which order they are added.  Here they are sorted by position first.
No row reads a value back, so none waits for the device.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from ...tracer.ir.primitive import Primitive
from ...tracer.ops.elementwise import by_squaring
from ...tracer.ops.shape import python_slices
from ...tracer.ops.threefry import GROUPS, PARITY, ROTATIONS

Ints = tuple[int, ...]
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
ROWS: dict[str, Function] = {}


def _row(name: str) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        ROWS[name] = function
        return function

    return add


def device_function(modules: Modules, prim: Primitive) -> Function | None:
    """What computes *prim* on the device, as a function of operands and params; None where nothing does."""
    found = ROWS.get(prim.name)
    if found is not None:
        return lambda *operands, **params: found(modules, *operands, **params)
    if isinstance(prim.impl, np.ufunc):
        name = prim.impl.__name__
        if getattr(np, name, None) is prim.impl:
            return getattr(modules.xp, name, None)
        if getattr(scipy.special, name, None) is prim.impl:
            return getattr(modules.special, name, None)
    return None


# ---- elementwise: other formulas than CuPy's ---------------------------------------------------------------------


def _divmod(m: Modules, x: Any, y: Any) -> tuple[Any, Any]:
    """NumPy's floor_divide and remainder of floats.  CuPy's are floor(x / y) and what that leaves: 1.0 // 0.1 would be
    10, and 1 % inf NaN."""
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


@_row("floor_divide")
def _floor_divide(m: Modules, x: Any, y: Any) -> Any:
    x, y = m.array(x), m.array(y)
    return _divmod(m, x, y)[0] if x.dtype.kind == "f" else m.xp.floor_divide(x, y)


@_row("remainder")
def _remainder(m: Modules, x: Any, y: Any) -> Any:
    x, y = m.array(x), m.array(y)
    return _divmod(m, x, y)[1] if x.dtype.kind == "f" else m.xp.remainder(x, y)


@_row("fmod")
def _fmod(m: Modules, x: Any, y: Any) -> Any:
    x, y = m.array(x), m.array(y)
    if x.dtype.kind == "f":
        return m.xp.fmod(x, y)
    rest = m.xp.remainder(x, y)  # CuPy's fmod of integers goes through float64
    return m.xp.where((rest != 0) & ((x < 0) != (y < 0)), rest - y, rest)


@_row("left_shift")
def _left_shift(m: Modules, x: Any, n: Any) -> Any:
    x, n = m.array(x), m.array(n)
    fits = (n >= 0) & (n < 8 * x.dtype.itemsize)  # CUDA leaves the others undefined
    return m.xp.where(fits, m.xp.left_shift(x, m.xp.where(fits, n, n.dtype.type(0))), x.dtype.type(0))


@_row("right_shift")
def _right_shift(m: Modules, x: Any, n: Any) -> Any:
    x, n = m.array(x), m.array(n)
    width = 8 * x.dtype.itemsize
    fits = (n >= 0) & (n < width)
    shifted = m.xp.right_shift(x, m.xp.where(fits, n, n.dtype.type(width - 1)))
    return shifted if x.dtype.kind == "i" else m.xp.where(fits, shifted, x.dtype.type(0))


@_row("integer_pow")
def _integer_pow(m: Modules, x: Any, n: int) -> Any:
    x = m.array(x)
    if n < 0:
        return 1 / _integer_pow(m, x, -n)
    return by_squaring(x, n, operator.mul) if n else m.xp.ones_like(x)


@_row("select")
def _select(m: Modules, c: Any, a: Any, b: Any) -> Any:
    return m.xp.where(m.array(c), a, b)


@_row("mulz")
def _mulz(m: Modules, x: Any, y: Any) -> Any:
    x, y = m.array(x), m.array(y)
    product = x * y
    return m.xp.where((x == 0) | (y == 0), product.dtype.type(0), product)


@_row("xlog1py")
def _xlog1py(m: Modules, x: Any, y: Any) -> Any:
    x, y = m.array(x), m.array(y)  # CuPy's gives 0 for (0, NaN)
    return m.xp.where((x == 0) & ~m.xp.isnan(y), x.dtype.type(0), x * m.xp.log1p(y))


@_row("polygamma")
def _polygamma(m: Modules, x: Any, n: int) -> Any:
    x = m.array(x)
    wide = x.astype(np.float64)
    zeta = m.special.zeta(m.xp.full_like(wide, n + 1), wide)
    return ((-1.0) ** (n + 1) * math.factorial(n) * zeta).astype(x.dtype)


@_row("alias")
@_row("stop_gradient")
def _identity(m: Modules, x: Any) -> Any:
    return x


@_row("cast")
def _cast(m: Modules, x: Any, dtype: np.dtype) -> Any:
    """As NumPy on this hardware, and the kernels for the CPU: floats become integers by way of int64, whose minimum
    stands for NaN and whatever does not fit.  CUDA's own conversion gives the nearest number that fits."""
    x = m.array(x)
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


@_row("threefry2x32")
def _threefry(m: Modules, key0: Any, key1: Any, high: Any, low: Any) -> Any:
    number = np.uint32
    key0, key1, high, low = (m.array(x) for x in (key0, key1, high, low))
    keys = (key0, key1, key0 ^ key1 ^ number(PARITY))
    first, second = high + key0, low + key1
    for group in range(GROUPS):
        for turn in ROTATIONS[group % 2]:
            first = first + second
            second = ((second << number(turn)) | (second >> number(32 - turn))) ^ first
        first = first + keys[(group + 1) % 3]
        second = second + (keys[(group + 2) % 3] + number(group + 1))
    return (first.astype(np.uint64) << np.uint64(32)) | second.astype(np.uint64)


# ---- views and assemblies --------------------------------------------------------------------------------------


@_row("broadcast")
def _broadcast(m: Modules, x: Any, shape: Ints, dims: Ints) -> Any:
    x = m.array(x)
    expanded = [1] * len(shape)
    for axis, dim in enumerate(dims):
        expanded[dim] = x.shape[axis]
    return m.xp.broadcast_to(x.reshape(expanded), shape)


@_row("reshape")
def _reshape(m: Modules, x: Any, shape: Ints) -> Any:
    return m.array(x).reshape(shape)


@_row("transpose")
def _transpose(m: Modules, x: Any, perm: Ints) -> Any:
    return m.array(x).transpose(perm)


@_row("slice")
def _slice(m: Modules, x: Any, start: Ints, step: Ints, shape: Ints) -> Any:
    return m.array(x)[python_slices(start, step, shape)]


@_row("pad")
def _pad(m: Modules, x: Any, start: Ints, step: Ints, shape: Ints) -> Any:
    x = m.array(x)
    result = m.xp.zeros(shape, x.dtype)
    result[python_slices(start, step, x.shape)] = x
    return result


@_row("update")
def _update(m: Modules, x: Any, v: Any, start: Ints, step: Ints) -> Any:
    v = m.array(v)
    result = m.array(x).copy()
    result[python_slices(start, step, v.shape)] = v
    return result


@_row("concat")
def _concat(m: Modules, *xs: Any, axis: int) -> Any:
    return m.xp.concatenate([m.array(x) for x in xs], axis=axis)


@_row("iota")
def _iota(m: Modules, size: int, dtype: np.dtype) -> Any:
    return m.xp.arange(size, dtype=dtype)


# ---- reductions, recurrences, products -------------------------------------------------------------------------


def _reduction(name: str, typed: bool = False) -> Function:
    def reduce(m: Modules, x: Any, axes: Ints) -> Any:
        x = m.array(x)
        if not axes:
            return x
        more = {"dtype": x.dtype} if typed else {}
        return getattr(m.xp, name)(x, axis=axes, **more)

    return reduce


ROWS["reduce_sum"] = _reduction("sum", typed=True)
ROWS["reduce_prod"] = _reduction("prod", typed=True)
ROWS["reduce_max"] = _reduction("amax")
ROWS["reduce_min"] = _reduction("amin")
ROWS["reduce_or"] = _reduction("any")
ROWS["reduce_and"] = _reduction("all")


@_row("argmax")
def _argmax(m: Modules, x: Any, axes: Ints) -> Any:
    return m.xp.argmax(m.array(x), axis=axes[0])


@_row("argmin")
def _argmin(m: Modules, x: Any, axes: Ints) -> Any:
    return m.xp.argmin(m.array(x), axis=axes[0])


@_row("linrec")
def _linrec(m: Modules, a: Any, b: Any, reverse: bool) -> Any:
    """A step for each element of the last axis; a running sum (*a* is the number 1) is one operation."""
    xp, b = m.xp, m.array(b)
    length = b.shape[-1]
    if isinstance(a, np.generic) and a == 1:
        flip = (..., slice(None, None, -1)) if reverse else (...,)
        return xp.cumsum(b[flip], axis=-1, dtype=b.dtype)[flip]
    a = xp.broadcast_to(m.array(a), b.shape)
    out = xp.empty(b.shape, b.dtype)
    carry = xp.zeros(b.shape[:-1], b.dtype)
    for t in range(length - 1, -1, -1) if reverse else range(length):
        carry = a[..., t] * carry + b[..., t]
        out[..., t] = carry
    return out


@_row("matmul")
def _matmul(m: Modules, x: Any, y: Any, ta: bool, tb: bool) -> Any:
    x, y = m.array(x), m.array(y)
    return m.xp.matmul(x.swapaxes(-1, -2) if ta else x, y.swapaxes(-1, -2) if tb else y)


# ---- indexing, sorting, searching ------------------------------------------------------------------------------


@_row("gather")
def _gather(m: Modules, x: Any, index: Any) -> Any:
    return m.xp.take(m.array(x), m.array(index), axis=0)


@_row("scatter_add")
def _scatter_add(m: Modules, x: Any, index: Any, v: Any) -> Any:
    x, index, v = (m.array(a) for a in (x, index, v))
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


@_row("scatter")
def _scatter(m: Modules, x: Any, index: Any, v: Any) -> Any:
    x, index, v = (m.array(a) for a in (x, index, v))
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


@_row("argsort")
def _argsort(m: Modules, x: Any, stable: bool) -> Any:
    return m.xp.argsort(m.array(x), axis=-1)


@_row("searchsorted")
def _searchsorted(m: Modules, a: Any, v: Any, side: str) -> Any:
    return m.xp.searchsorted(m.array(a), m.array(v), side=side)


@_row("nonzero")
def _nonzero(m: Modules, mask: Any, count: int) -> Any:
    """Flat positions of the first *count* True elements.  How many there are is a guard; asking here would wait."""
    mask = m.array(mask).reshape(-1)
    if not mask.size or not count:
        return m.xp.zeros(count, np.int64)
    order = m.xp.argsort(~mask)
    return m.xp.take(order, m.xp.remainder(m.xp.arange(count, dtype=np.int64), np.int64(mask.size)), axis=0)


__all__ = ["ROWS", "Modules", "device_function"]
