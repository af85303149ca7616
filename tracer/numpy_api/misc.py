"""Differences, interpolation, convolution; comparisons of whole arrays (they are guards); facts about arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import Aval, promote_dtypes
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom, Lit, Var, literal
from ..ir.refusals import Refusal
from ..ir.site import at_site
from ..ops.elementwise import F, broadcast_to, like, promote
from ..ops.filters import among_zeros, correlate
from ..ops.indexing import gather
from ..ops.shape import concat, reshape, slice_axis, zeros
from ..record.array import TracedArray, unsupported, wrap
from ..record.buffers import Storage
from ..record.recorder import Recorder, require_recorder
from .assemble import concatenate_atoms
from .hooks import when_loaded
from .registry import atom_of, implements, one_axis
from .shape import as_traced
from .sort import search

# ---- interpolation ------------------------------------------------------------------------------------------------


@implements(np.interp)
def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    if period is not None:
        return _interp_periodic(x, xp, fp, period)
    zero = Lit(0.0, np.dtype(float))
    (at, knots, _), (heights, _) = promote(atom_of(x), atom_of(xp), zero), promote(atom_of(fp), zero)
    if at.aval.is_complex:
        raise TypeError(at_site("Cannot cast array data from dtype('complex128') to dtype('float64')"))
    if knots.aval.ndim != 1 or knots.aval.shape != heights.aval.shape or not knots.aval.size:
        raise ShapeError.here("np.interp: xp and fp must be 1-dimensional and of the same, positive length")
    n = knots.aval.size
    int_lit = lambda value: Lit(value, np.dtype("int64"))  # noqa: E731
    below = F.minimum(F.maximum(F.sub(search(knots, at, "right"), int_lit(1)), int_lit(0)), int_lit(max(n - 2, 0)))
    above = F.minimum(F.add(below, int_lit(1)), int_lit(n - 1))
    x0, x1, y0, y1 = gather(knots, below), gather(knots, above), gather(heights, below), gather(heights, above)
    width = F.sub(x1, x0)
    slope = F.div(F.sub(y1, y0), F.select(F.eq(width, like(0, width)), like(1, width), width))
    inside = F.add(F.mul(slope, F.sub(at, x0)), y0)
    # where heights are infinite, as NumPy: the knot's own height, or what the other end gives
    other = F.select(F.eq(y0, y1), y0, F.add(F.mul(slope, F.sub(at, x1)), y1))
    other = F.stop_gradient(F.select(F.eq(at, x0), y0, other))
    inside = F.select(F.ne(inside, inside), other, inside)
    ends = [
        broadcast_to(atom_of(v), at.aval.shape)
        for v in (wrap(heights)[0] if left is None else left, wrap(heights)[n - 1] if right is None else right)
    ]
    low, high = slice_axis(knots, 0, 0, 1), slice_axis(knots, 0, n - 1, 1)
    low, high = wrap(low)[0].atom, wrap(high)[0].atom
    result = F.select(F.lt(at, low), ends[0], F.select(F.gt(at, high), ends[1], inside))
    # NumPy returns the last height at the last knot, and the only one there is at NaN, too
    last = gather(heights, broadcast_to(int_lit(n - 1), at.aval.shape))
    result = F.select(F.eq(at, high), last, result)
    return wrap(F.select(F.ne(at, at), at if n > 1 else last, result))


def _interp_periodic(x: Any, xp: Any, fp: Any, period: Any) -> Any:
    """All within one period, whose ends are continued."""
    if isinstance(period, (int, float)) and period == 0:
        raise ValueError("period must be a non-zero value")
    period = abs(period)
    knots, heights = as_traced(xp) % period, as_traced(fp)
    order = np.argsort(knots)
    knots, heights = knots[order], heights[order]
    knots = np.concatenate([knots[-1:] - period, knots, knots[:1] + period])
    return _interp(as_traced(x) % period, knots, np.concatenate([heights[-1:], heights, heights[:1]]))


@implements(np.polymul)
def _polymul(a1: Any, a2: Any) -> Any:
    """Leading zeros are dropped, which is a question."""
    if any(isinstance(p, np.poly1d) for p in (a1, a2)):
        raise unsupported("np.polymul of np.poly1d")
    factors = []
    for given in (a1, a2):
        p: Any = np.atleast_1d(as_traced(given))
        zeros = 0
        while zeros < p.size - 1 and bool(p[zeros] == 0):
            zeros += 1
        factors.append(p[zeros:])
    return _convolve(*factors)


@when_loaded("numpy.polynomial", "Polynomial", "set_default_printstyle")
def _implement_polyvalnd(package: Any) -> None:
    if hasattr(package.polynomial, "polyvalnd"):  # from NumPy 2.5 on
        value = package.polynomial.polyval
        implements(package.polynomial.polyvalnd)(lambda pts, c: package.polyutils._valnd(value, c, *pts))


@implements(np.polyval)
def _polyval(p: Any, x: Any) -> Any:
    coefficients = as_traced(p)
    result = np.zeros_like(as_traced(x))
    for i in range(coefficients.size):
        result = result * x + coefficients[i]
    return result


# ---- differences and sums along an axis ---------------------------------------------------------------------------


@implements(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Any:
    x = atom_of(a)
    if not x.aval.ndim:
        raise ShapeError.here("diff requires input that is at least one dimensional")
    axis = one_axis(axis, x.aval.ndim, "np.diff")
    edge = tuple(1 if i == axis else size for i, size in enumerate(x.aval.shape))
    parts = [
        x if v is None else broadcast_to(atom_of(v), edge) if not np.ndim(v) else atom_of(v)
        for v in (prepend, None, append)
        if v is not np._NoValue
    ]
    x = concatenate_atoms(parts, axis, "np.diff")
    if n < 0:
        raise ShapeError.here(f"np.diff: order must be non-negative but got {n}")
    for _ in range(n):
        length = x.aval.shape[axis]
        if length == 0:
            break
        after, before = slice_axis(x, axis, 1, length - 1), slice_axis(x, axis, 0, length - 1)
        x = F.ne(after, before) if x.aval.dtype == bool else F.sub(after, before)
    return wrap(x)


@implements(np.ediff1d)
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    middle = _diff(np.ravel(as_traced(ary)))
    begin, end = ([] if x is None else [np.ravel(as_traced(x)).astype(middle.dtype)] for x in (to_begin, to_end))
    return np.concatenate([*begin, middle, *end])


def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = as_traced(y)
    axis = one_axis(axis, y.ndim, "np.trapezoid")
    n = y.shape[axis]
    if x is None:
        width = dx
    else:
        width = np.diff(as_traced(x), axis=axis if np.ndim(x) > 1 else -1)
        if np.ndim(x) == 1:
            width = width.reshape([n - 1 if i == axis else 1 for i in range(y.ndim)])
    after, before = (wrap(slice_axis(y.atom, axis, i, max(n - 1, 0))) for i in (1 if n > 1 else 0, 0))
    return np.sum(width * (after + before) / 2.0, axis=axis)


for _name in ("trapezoid", "trapz"):
    if hasattr(np, _name):
        implements(getattr(np, _name))(_trapezoid)


@implements(np.gradient)
def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    array = as_traced(f)
    listed = range(array.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(one_axis(a, array.ndim, "np.gradient") for a in listed)
    steps = list(varargs) or [1.0]
    steps = steps * len(axes) if len(steps) == 1 else steps
    if edge_order != 1 or any(np.ndim(s) for s in steps) or len(steps) != len(axes):
        raise UnsupportedError.here(
            "np.gradient is supported for equal spacings and edge_order=1; write the differences with slices"
        )
    if any(array.shape[a] < 2 for a in axes):
        raise ShapeError.here(
            "Shape of array too small to calculate a numerical gradient, at least 2 elements are required."
        )
    found = [_central(array, a, h) for a, h in zip(axes, steps, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _central(array: TracedArray, axis: int, step: Any) -> Any:
    x, n = promote(array.atom, floating=True)[0], array.shape[axis]

    def part(start: int, length: int) -> TracedArray:
        return wrap(slice_axis(x, axis, start, length))

    first = (part(1, 1) - part(0, 1)) / step
    last = (part(n - 1, 1) - part(n - 2, 1)) / step
    inner = (part(2, n - 2) - part(0, n - 2)) / (2.0 * step) if n > 2 else None
    return np.concatenate([p for p in (first, inner, last) if p is not None], axis=axis)


# ---- convolution --------------------------------------------------------------------------------------------------


_FEW = 8  # shifted copies


def _slide(a: Any, v: Any, mode: str) -> Any:
    """Sum of shifted copies of the longer operand, one for each element of the shorter; v is not turned around.  Where
    they are many, the sums are one operation."""
    x, w = promote(atom_of(a), atom_of(v))
    if x.aval.ndim != 1 or w.aval.ndim != 1 or not x.aval.size or not w.aval.size:
        raise ShapeError.here("np.convolve needs two non-empty 1-dimensional arrays")
    n, k = x.aval.size, w.aval.size
    if k > _FEW and x.aval.is_float:
        x, w = (reshape(v, (1, v.aval.size)) for v in (x, w))
        more = {"full": (k - 1, k - 1), "same": (k // 2, (k - 1) // 2), "valid": (0, 0)}[mode]
        return reshape(correlate(among_zeros(x, 0, *more), w), (n + sum(more) - k + 1,))
    total = None
    for i in range(k):
        term = F.mul(x, wrap(slice_axis(w, 0, i, 1))[0].atom)
        before, after = (zeros((size,), x.aval.dtype) for size in (k - 1 - i, i))
        term = concat([before, term, after], 0)  # no zero is multiplied by what may be infinite
        total = term if total is None else F.add(total, term)
    assert total is not None
    if mode == "same":
        return slice_axis(total, 0, (k - 1) // 2, n)
    return slice_axis(total, 0, k - 1, n - k + 1) if mode == "valid" else total


def _check_mode(mode: Any) -> None:
    if mode not in ("full", "same", "valid"):
        raise UnsupportedError.here(f"mode must be 'full', 'same' or 'valid', not {mode!r}")


@implements(np.convolve)
def _convolve(a: Any, v: Any, mode: str = "full") -> Any:
    _check_mode(mode)
    x, w = as_traced(a), as_traced(v)
    if w.size > x.size:
        x, w = w, x
    return wrap(_slide(x, w[::-1], mode))


@implements(np.correlate)
def _correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    _check_mode(mode)
    x, w = as_traced(a), as_traced(v).conj()
    if w.size <= x.size:
        return wrap(_slide(x, w, mode))
    # with the operands exchanged the result runs the other way
    return wrap(_slide(w, x, mode))[::-1]


# ---- whole-array comparisons: plain bools, so guards ---------------------------------------------------------------


@implements(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    x, y = as_traced(a1), as_traced(a2)
    if x.shape != y.shape:
        return False
    same = x == y
    if equal_nan:
        same = np.logical_or(same, np.logical_and(np.isnan(x), np.isnan(y)))
    return bool(np.all(same))


@implements(np.array_equiv)
def _array_equiv(a1: Any, a2: Any) -> bool:
    x, y = as_traced(a1), as_traced(a2)
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return bool(np.all(x == y))


@implements(np.allclose)
def _allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    return bool(np.all(np.isclose(as_traced(a), b, rtol=rtol, atol=atol, equal_nan=equal_nan)))


# ---- facts --------------------------------------------------------------------------------------------------------


implements(np.shape)(lambda a: as_traced(a).shape)
implements(np.ndim)(lambda a: as_traced(a).ndim)


@implements(np.size)
def _size(a: Any, axis: Any = None) -> int:
    shape = as_traced(a).shape
    return math.prod(shape if axis is None else [shape[i] for i in np.atleast_1d(axis)])


@implements(np.result_type)
def _result_type(*arrays_and_dtypes: Any) -> np.dtype:
    return promote_dtypes(*[_aval_of(a) for a in arrays_and_dtypes])[0]


def _aval_of(x: Any) -> Aval:
    """The aval of an array, a number or a dtype for dtype promotion (0-d for dtypes)."""
    if isinstance(x, TracedArray):
        return x.aval
    if isinstance(x, (bool, int, float, complex)):
        return literal(x).aval
    return Aval(x.dtype if hasattr(x, "dtype") and not isinstance(x, type) else np.dtype(x), ())


@implements(np.min_scalar_type)
def _min_scalar_type(a: Any, /) -> np.dtype:
    return a.dtype if a.ndim else np.min_scalar_type(a.item())


@implements(np.can_cast)
def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    from_ = from_.dtype if isinstance(from_, TracedArray) else from_
    return np.can_cast(from_, to.dtype if isinstance(to, TracedArray) else to, casting)


implements(np.common_type)(lambda *arrays: np.common_type(*[np.empty(0, a.dtype) for a in map(as_traced, arrays)]))
implements(np.iscomplexobj)(lambda x: as_traced(x).aval.is_complex)
implements(np.isrealobj)(lambda x: not as_traced(x).aval.is_complex)


@implements(np.isreal)
def _isreal(x: Any) -> Any:
    x = as_traced(x)
    if x.aval.is_complex:
        return x.imag == 0
    if x._atom.aval.shape:
        return np.ones_like(x, dtype=bool)
    return True if x._atom.aval.weak else np.True_


@implements(np.iscomplex)
def _iscomplex(x: Any) -> Any:
    x = as_traced(x)
    if x.aval.is_complex:
        return x.imag != 0
    return np.zeros_like(x, dtype=bool) if x._atom.aval.shape else np.False_


def _text(function: Any) -> Any:
    """*function* of the value, with a guard."""
    return lambda a, *args, **kwargs: function(np.asarray(a.shown()), *args, **kwargs)


for _function in (np.array_repr, np.array_str, np.array2string):
    implements(_function)(_text(_function))


@implements(np.shares_memory)
def _shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    return _overlap(a, b, np.intersect1d, "np.shares_memory")


@implements(np.may_share_memory)
def _may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    def common(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.arange(max(x.min(), y.min()), min(x.max(), y.max()) + 1)

    return _overlap(a, b, common, "np.may_share_memory")


def _overlap(a: Any, b: Any, common: Callable[..., np.ndarray], name: str) -> bool:
    """Whether two arrays have elements in *common*; two that the caller owns may lie elsewhere in the next call."""
    recorder = require_recorder(name)
    stores = [x._storage if isinstance(x, TracedArray) else x for x in (a, b)]
    if stores[0] is stores[1]:
        x, y = (_places(x, recorder) for x in (a, b))
        return bool(x.size and y.size and common(x, y).size)
    first, second = (_memory(s, recorder) for s in stores)
    if not (isinstance(first, np.ndarray) and isinstance(second, np.ndarray)):
        return False  # one of them was made in this run
    recorder.unrepeatable(Refusal.CALLS_MEMORY, what=name)
    if any(isinstance(x, TracedArray) and x._steps for x in (a, b)) and np.may_share_memory(first, second):
        raise UnsupportedError.here(f"{name} of views of arguments that overlap in memory: pass copies")
    return bool(np.shares_memory(first, second))


def _memory(store: Any, recorder: Recorder) -> Any:
    """The array behind the storage of an argument; anything else itself."""
    if isinstance(store, Storage) and store.owner is not None and isinstance(store.atom, Var):
        return recorder.env.get(store.atom)
    return store


def _places(x: TracedArray, recorder: Recorder) -> np.ndarray:
    """The positions in its storage of the elements of *x*."""
    whole = x._storage.atom.aval
    atom: Atom = recorder.const(np.arange(whole.size).reshape(whole.shape))
    for step, _ in x._steps:
        atom = step.apply(atom)
    return np.ravel(recorder.value(atom))
