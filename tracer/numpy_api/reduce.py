"""Reductions: sums, extremes, statistics, norms, cumulative sums and products.

Result dtypes are NumPy's: sums of bools and small integers are int64, means of integers float64, float32 stays float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..ir.aval import BOOL, INT, Ints, broadcast_shapes, canonical_axes
from ..ir.errors import ShapeError
from ..ir.graph import Atom, Lit
from ..ir.site import at_site
from ..ops.elementwise import F, broadcast_to, cast, cast_with_warning, like, to_bool
from ..ops.reduce import cumprod, cumsum, reduce
from ..ops.shape import concat, full, reshape
from ..record.array import UFUNC_METHODS, to_atom, wrap, wrap_as
from ..record.autocast import widened
from .registry import atom_of, float_atom, implements, into, one_axis, reject

_UINT = np.dtype("uint64")
WHERE = "write np.where(mask, x, neutral) inside, with the neutral element of the reduction"
INITIAL = "combine the result with the initial value afterwards"


def accumulator(x: Atom, dtype: Any) -> Atom:
    """*x* in the dtype in which NumPy adds it up."""
    if dtype is not None:
        return cast_with_warning(x, np.dtype(dtype))
    x = widened(x)
    kind, size = x.aval.dtype.kind, x.aval.dtype.itemsize
    if kind == "b" or (kind == "i" and size < 8):
        return cast(x, INT)
    return cast(x, _UINT) if kind == "u" and size < 8 else x


def keep(x: Atom, shape: Ints, axes: Ints, keepdims: bool) -> Atom:
    """The reduction *x* of an array of *shape*, with the reduced axes kept as size 1 where asked."""
    return reshape(x, tuple(1 if a in axes else n for a, n in enumerate(shape))) if keepdims else x


def dropped(x: Atom, axes: Ints) -> Ints:
    """The shape of *x* without *axes*."""
    return tuple(n for a, n in enumerate(x.aval.shape) if a not in axes)


# ---- the arguments that reductions share ---------------------------------------------------------------------------


def is_given(value: Any) -> bool:
    """Whether an argument ``initial=`` or ``where=`` says something."""
    return value is not None and value is not True and value is not np._NoValue


def masked(x: Atom, where: Any, other: Atom) -> Atom:
    """*x* where the mask *where* is True, else *other*."""
    mask = to_bool(atom_of(where))
    shape = broadcast_shapes(x.aval.shape, mask.aval.shape)
    return F.select(broadcast_to(mask, shape), broadcast_to(x, shape), broadcast_to(other, shape))


def reduction(
    name: str, read: Callable[[Any, Any], Atom], compute: Callable[[Atom, Ints, bool], Atom],
    where_hint: str = WHERE, *, neutral: float | None = None,
    combine: Callable[..., Atom] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The function *name* of NumPy: ``compute(x, axes, keepdims)`` of ``x = read(a, dtype)``.  *neutral*: the value of
    elements that ``where=`` leaves out (else ``initial=``); *combine*: the operation with ``initial=``."""

    def apply(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
        where: Any = None,
    ) -> Any:  # fmt: skip
        if combine is None:
            reject(name, INITIAL, initial=initial)
        if combine is None and neutral is None:
            reject(name, where_hint, where=None if where is True else where)
        x = read(a, dtype)
        first = cast(to_atom(initial), x.aval.dtype) if is_given(initial) else None
        if is_given(where):
            other = first if neutral is None else Lit(neutral, x.aval.dtype)
            if other is None:
                raise ValueError(
                    at_site(f"{name} has no identity, so to use a where mask one has to specify 'initial'")
                )
            x = masked(x, where, other)
        axes = canonical_axes(axis, x.aval.ndim, name)
        if first is None or combine is None:
            return into(wrap_as(compute(x, axes, bool(keepdims)), a, where), out)
        if neutral is None and not all(x.aval.shape[k] for k in axes):
            x = full(first, tuple(1 if k in axes else n for k, n in enumerate(x.aval.shape)))
        return into(wrap_as(combine(compute(x, axes, bool(keepdims)), first), a, where), out)

    return apply


def without_dtype(of: Callable[..., Any]) -> Callable[..., Any]:
    """The reduction *of* for a function that takes no dtype, as NumPy orders its arguments."""

    def apply(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None
    ) -> Any:
        return of(a, axis, None, out, keepdims, initial, where)

    return apply


def as_given(a: Any, dtype: Any) -> Atom:
    """The array of a reduction that is in its dtype."""
    return atom_of(a)


# ---- sums, products, truth ----------------------------------------------------------------------------------------


def _total(name: str) -> Callable[..., Any]:
    neutral, combine = (0, F.add) if name == "sum" else (1, F.mul)
    read = lambda a, dtype: accumulator(atom_of(a), dtype)  # noqa: E731
    run = reduction(f"np.{name}", read, partial(reduce, name), neutral=neutral, combine=combine)
    return implements(getattr(np, name), method=name)(run)


def _truth(name: str) -> Callable[..., Any]:
    read = lambda a, dtype: to_bool(atom_of(a))  # noqa: E731
    run = without_dtype(reduction(f"np.{name}", read, partial(reduce, name), neutral=name == "all"))
    return implements(getattr(np, name), method=name)(run)


sum_of, prod_of, _any, _all = _total("sum"), _total("prod"), _truth("any"), _truth("all")
implements(np.count_nonzero)(
    without_dtype(
        reduction("np.count_nonzero", lambda a, dtype: cast(to_bool(atom_of(a)), INT), partial(reduce, "sum"))
    )
)


# ---- extremes -----------------------------------------------------------------------------------------------------


def extreme(name: str, x: Atom, axes: Ints, keepdims: bool = False) -> Atom:
    """max or min of *x* over *axes*."""
    if any(x.aval.shape[a] == 0 for a in axes):
        raise ShapeError.here(f"zero-size array to reduction operation {name}imum which has no identity")
    if x.aval.dtype == BOOL:
        name = {"max": "any", "min": "all"}[name]
    return reduce(name, x, axes, keepdims)


def _extreme(name: str) -> Callable[..., Any]:
    combine = F.maximum if name == "max" else F.minimum
    run = without_dtype(reduction(f"np.{name}", as_given, partial(extreme, name), combine=combine))
    return implements(getattr(np, name), getattr(np, f"a{name}"), method=name)(run)


def _range(x: Atom, axes: Ints, keepdims: bool) -> Atom:
    return F.sub(extreme("max", x, axes, keepdims), extreme("min", x, axes, keepdims))


def _position(name: str) -> None:
    def compute(x: Atom, axes: Ints, keepdims: bool) -> Atom:
        shape = x.aval.shape
        if any(shape[i] == 0 for i in axes):
            raise ShapeError.here(f"attempt to get {name} of an empty sequence")
        if len(axes) == 1:
            return keep(reduce(name, x, axes), shape, axes, keepdims)
        return keep(reduce(name, reshape(x, (x.aval.size,)), (0,)), shape, axes, keepdims)

    implements(getattr(np, name), method=name)(without_dtype(reduction(f"np.{name}", as_given, compute)))


_max, _min = _extreme("max"), _extreme("min")
implements(np.ptp)(without_dtype(reduction("np.ptp", as_given, _range)))
_position("argmax")
_position("argmin")


# ---- cumulative ---------------------------------------------------------------------------------------------------


def _cumulative(name: str, run: Callable[..., Atom]) -> Callable[..., Any]:
    def apply(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = accumulator(atom_of(a), dtype)
        if axis is None:
            x, axis = reshape(x, (x.aval.size,)), 0
        elif not x.aval.ndim:
            x = reshape(x, (1,))
        return into(wrap(run(x, one_axis(axis, x.aval.ndim, name))), out)

    return apply


_cumsum = implements(np.cumsum, method="cumsum")(_cumulative("np.cumsum", cumsum))
_cumprod = implements(np.cumprod, method="cumprod")(_cumulative("np.cumprod", cumprod))


def _cumulative_with_initial(name: str, run: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    def apply(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Any:
        atom = atom_of(x)
        if axis is None and atom.aval.ndim != 1:
            raise ShapeError.here(f"{name} of an array that is not 1-dimensional needs axis=")
        found = run(x, 0 if axis is None else axis, dtype).atom
        if include_initial:
            at = one_axis(0 if axis is None else axis, found.aval.ndim, name)
            first = full(like(neutral, found), tuple(1 if i == at else n for i, n in enumerate(found.aval.shape)))
            found = concat([first, found], at)
        return into(wrap(found), out)

    return apply


implements(np.cumulative_sum)(_cumulative_with_initial("np.cumulative_sum", _cumsum, 0))
implements(np.cumulative_prod)(_cumulative_with_initial("np.cumulative_prod", _cumprod, 1))


# ---- np.add.reduce and its relatives ------------------------------------------------------------------------------


def _as_reduce(function: Callable[..., Any], takes_dtype: bool) -> Callable[..., Any]:
    def apply(
        ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, keepdims: Any = False, initial: Any = None,
        where: Any = None,
    ) -> Any:  # fmt: skip
        name, more = f"np.{ufunc.__name__}.reduce", {"dtype": dtype} if takes_dtype else {}
        reject(name, "convert the array before", dtype=None if takes_dtype else dtype)
        return function(array, axis=axis, keepdims=keepdims, initial=initial, where=where, **more)

    return apply


def _as_accumulate(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda ufunc, array, axis=0, dtype=None: function(array, axis=axis, dtype=dtype)


for _ufunc, _function, _takes_dtype in (
    (np.add, sum_of, True),
    (np.multiply, prod_of, True),
    (np.maximum, _max, False),
    (np.minimum, _min, False),
    (np.logical_and, _all, False),
    (np.logical_or, _any, False),
):
    UFUNC_METHODS[_ufunc, "reduce"] = _as_reduce(_function, _takes_dtype)
UFUNC_METHODS[np.add, "accumulate"] = _as_accumulate(_cumsum)
UFUNC_METHODS[np.multiply, "accumulate"] = _as_accumulate(_cumprod)


def logsumexp_of(x: Atom, axes: Ints, keepdims: bool, weights: Atom | None = None) -> Atom:
    """log(sum(exp(x))), shifted by the maximum.  The value does not depend on the shift, so its derivatives do not
    either."""
    shape = x.aval.shape
    if not math.prod(shape[a] for a in axes):
        empty = full(like(-math.inf, x), tuple(n for a, n in enumerate(shape) if a not in axes))
        return keep(empty, shape, axes, keepdims)
    top = extreme("max", x, axes, True)
    top = F.stop_gradient(F.select(F.isfinite(top), top, like(0, top)))
    terms = F.exp(F.sub(x, top))
    if weights is not None:
        terms = F.mulz(weights, terms)
    total = reduce("sum", terms, axes, True)
    # a row of -inf alone: the logarithm of 0 is taken aside, so that its infinite slope meets no zero
    nothing = F.eq(total, like(0, total))
    logs = F.select(nothing, like(-math.inf, total), F.log(F.select(nothing, like(1, total), total)))
    return keep(reshape(F.add(logs, top), dropped(x, axes)), shape, axes, keepdims)


_logsumexp = reduction("np.logaddexp.reduce", lambda a, dtype: float_atom(a), logsumexp_of, INITIAL)
UFUNC_METHODS[np.logaddexp, "reduce"] = _as_reduce(_logsumexp, False)
