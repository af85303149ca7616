"""scipy.interpolate: piecewise polynomials and splines, of traced points, values and knots.

SciPy makes its objects in Python, which is recorded (``hook_class``), and evaluates them in C.  The functions below
stand for those: a search among the knots, coefficients by ``gather``, and a formula for each point.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from ..ir.aval import FLOAT, INT
from ..ir.errors import ShapeError
from ..ir.graph import Atom, Lit
from ..numpy_api.from_source import compiled, source_of
from ..numpy_api.hooks import hook_class, when_loaded
from ..numpy_api.shape import as_traced
from ..numpy_api.sort import search
from ..ops.elementwise import F, broadcast_to, cast, like
from ..ops.indexing import gather
from ..ops.reduce import expand, reduce
from ..ops.shape import reshape, slice_axis
from ..record.array import is_traced, to_atom, wrap, wrap_array
from ..record.recorder import require_recorder

# ---- piecewise polynomials -------------------------------------------------------------------------------------------


def interval(knots: Atom, at: Atom, first: int = 0, last: int | None = None) -> Atom:
    """The k, first <= k < last, of knots[k] <= at < knots[k + 1] for each point of *at*; outside the nearest one."""
    last = knots.aval.size - 1 if last is None else last
    if last <= first + 1:
        return broadcast_to(Lit(first, INT), at.aval.shape)
    found = search(slice_axis(knots, 0, first + 1, last - first - 1), at, "right")
    return F.add(found, Lit(first, INT)) if first else found


def _interval_of(spline: Any, knots: Atom, at: Atom) -> Atom:
    """The interval of each point of *at*; the breakpoints of a plain ``PPoly`` may fall."""
    if type(spline).__name__ != "PPoly" or bool(wrap(knots)[0] <= wrap(knots)[-1]):
        return interval(knots, at)
    falling = slice_axis(knots, 0, knots.aval.size - 1, knots.aval.size, -1)
    return F.sub(Lit(knots.aval.size - 2, INT), interval(F.neg(falling), F.neg(at)))


def _within(low: Any, high: Any, at: Atom, value: Any) -> Any:
    """*value*, NaN where *at* is not between these bounds; *at* is that of its first axes."""
    points = wrap(at)
    inside = ((points >= low) & (points <= high))[(...,) + (None,) * (value.ndim - at.aval.ndim)]
    return np.where(inside, value, np.nan)


def array_of(spline: Any, name: str) -> Any:
    """The array *name* of a spline of SciPy's; from SciPy 1.18 on it is in the object that the spline delegates to."""
    spline = getattr(spline, "_delegate_to", None) or spline
    found = getattr(spline, f"_{name}", None)
    return getattr(spline, name) if found is None else found


def _at(spline: Any, at: Atom, nu: int, extrapolate: bool) -> Any:
    """The derivative of order *nu* of a piecewise polynomial, of shape ``at.shape + c.shape[2:]``."""
    c, knots = to_atom(array_of(spline, "c")), to_atom(array_of(spline, "x"))
    (order, pieces), rest = c.aval.shape[:2], c.aval.shape[2:]
    place = _interval_of(spline, knots, at)
    s = F.sub(at, gather(knots, place))
    if rest:
        s = expand(s, (*s.aval.shape, *rest), tuple(range(at.aval.ndim, at.aval.ndim + len(rest))))
    rows = reshape(c, (order * pieces, *rest))
    value: Any = None
    for k in range(order - nu):
        term = gather(rows, F.add(place, Lit(k * pieces, INT)) if k else place)
        factor = math.perm(order - 1 - k, nu)
        term = term if factor == 1 else F.mul(term, like(factor, term))
        value = term if value is None else F.add(F.mul(value, s), term)
    if value is None:
        value = F.mul(s, like(0, s))
    found = wrap_array(value)
    if extrapolate:
        return found if order - nu > 1 else np.where(wrap(s) == wrap(s), found, np.nan)
    ends = wrap_array(knots)[0], wrap_array(knots)[-1]
    return _within(np.minimum(*ends), np.maximum(*ends), at, found)


def points(x: Any) -> Atom:
    """*x* as float64."""
    return cast(to_atom(as_traced(x)), FLOAT)


def _call(self: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    """``PPoly.__call__``."""
    extrapolate = self.extrapolate if extrapolate is None else extrapolate
    at = points(x)
    if extrapolate == "periodic":
        knots = array_of(self, "x")
        at, extrapolate = to_atom(knots[0] + (wrap(at) - knots[0]) % (knots[-1] - knots[0])), False
    return _to_axis(_at(self, at, nu, bool(extrapolate)), at.aval.ndim, self.axis)


def _to_axis(found: Any, ndim: int, axis: int) -> Any:
    """*found* with its *ndim* first axes at *axis*."""
    return np.moveaxis(found, tuple(range(ndim)), tuple(range(axis, axis + ndim))) if axis else found


def _fix_continuity(c: Any, x: Any, order: int) -> None:
    """Let each polynomial begin with the value, and *order* derivatives, with which the one before ends."""
    width, top = np.diff(x)[:-1, None], len(c) - 1
    for k in range(order, -1, -1):
        end = sum(math.comb(j, k) * c[top - j, :-1] * width ** (j - k) for j in range(k + 1, top + 1))
        c[top - k, 1:] = c[top - k, :1] + np.cumsum(end, axis=0)


def _integrate(self: Any, a: Any, b: Any, extrapolate: Any = None) -> Any:
    extrapolate = self.extrapolate if extrapolate is None else extrapolate
    sums = self.antiderivative()
    if extrapolate != "periodic":
        return _at(sums, points(b), 0, bool(extrapolate)) - _at(sums, points(a), 0, bool(extrapolate))
    knots = array_of(self, "x")
    first, period = knots[0], knots[-1] - knots[0]
    total = _at(sums, points(knots[-1]), 0, True)

    def up_to(end: Any) -> Any:
        turns = (as_traced(end) - first) // period
        return turns * total + _at(sums, points(end - turns * period), 0, True)

    return up_to(b) - up_to(a)


# ---- interp1d --------------------------------------------------------------------------------------------------------


def _in_bounds(at: Atom, outside: Atom, side: str, end: Any) -> None:
    """Raise SciPy's ValueError where one of *at* is *outside*."""

    def error() -> ShapeError:
        value, limit = (np.asarray(require_recorder("interp1d").value(x)) for x in (at, to_atom(end)))
        worst, name = (np.nanmin(value), "minimum") if side == "below" else (np.nanmax(value), "maximum")
        return ShapeError.here(
            f"A value ({worst}) in x_new is {side} the interpolation range's {name} value ({limit})."
        )

    axes = tuple(range(at.aval.ndim))
    require_recorder("interp1d").rely(reduce("all", F.logical_not(outside), axes), error)


def _interp1d(self: Any, x: Any) -> Any:
    """``interp1d.__call__``."""
    kind, at = self._kind, points(x)
    knots, rows = points(self.x), points(self._y)
    value: Any
    if kind == "spline":
        value = self._call(self, wrap(at)).reshape(*at.aval.shape, -1)
    else:
        n = knots.aval.size
        if kind == "linear":
            place, weight = interval(knots, at), None
        elif "nearest" in kind:
            place = search(points(self.x_bds), at, self._side)
        else:
            place = F.add(search(points(self._x_shift), at, self._side), Lit(self._ind - 1, INT))
            place = F.maximum(F.minimum(place, Lit(n - 1, INT)), Lit(0, INT))
        low = gather(rows, place)
        if kind == "linear":
            start, following = gather(knots, place), F.add(place, Lit(1, INT))
            width, s = F.sub(gather(knots, following), start), F.sub(at, start)
            weight = [expand(z, low.aval.shape, (at.aval.ndim,)) for z in (width, s)]
            low = F.add(F.mul(F.div(F.sub(gather(rows, following), low), weight[0]), weight[1]), low)
        value = wrap_array(low)
    if not self._extrapolate:
        ends = wrap_array(knots)[0], wrap_array(knots)[-1]
        for side, end, ahead in (("below", ends[0], F.lt), ("above", ends[1], F.gt)):
            outside = ahead(at, broadcast_to(to_atom(end), at.aval.shape))
            if self.bounds_error:
                _in_bounds(at, outside, side, end)
            else:
                fill = self._fill_value_below if side == "below" else self._fill_value_above
                value = np.where(wrap_array(outside)[..., None], fill, value)
    return _to_axis(value.reshape(*at.aval.shape, *self._y_extra_shape), at.aval.ndim, self._y_axis)


# ---- hooks -----------------------------------------------------------------------------------------------------------


def _unchanged(self: Any) -> None:
    """``_ensure_c_contiguous``, for C."""


def over_constants(cls: type) -> Any:
    """The source of the ``__call__`` of *cls*, over an object whose arrays are traced: plain ones take no traced
    index."""
    own = source_of(vars(cls)["__call__"])

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not is_traced(value):
                setattr(made, name, wrap_array(to_atom(value)))
        return own(made, *args, **kwargs)

    return call


def _for(cls: type, call: Any, base: type) -> Any:
    """*call* for instances of *cls*, and the ``__call__`` of *base* for others."""
    others = over_constants(base)
    return lambda self, *args, **kwargs: (call if isinstance(self, cls) else others)(self, *args, **kwargs)


@when_loaded("scipy.interpolate", "RBFInterpolator")
def _install(module: Any) -> None:
    polynomials = module._interpolate
    compiled(polynomials._ppoly, "fix_continuity")(_fix_continuity)
    own = source_of(vars(polynomials._PPolyBase)["__call__"])
    by_powers = getattr(polynomials, "_PPoly", module.PPoly)  # from SciPy 1.18 on what PPoly delegates to
    hook_class(
        polynomials._PPolyBase,
        __call__=lambda self, *args, **kwargs: (_call if isinstance(self, by_powers) else own)(self, *args, **kwargs),
        _ensure_c_contiguous=_unchanged,
    )
    hook_class(module.PPoly, integrate=_integrate)
    if by_powers is not module.PPoly:
        hook_class(by_powers)
    for name in ("CubicHermiteSpline", "PchipInterpolator", "Akima1DInterpolator", "CubicSpline"):
        hook_class(getattr(module, name))
    hook_class(module.interp1d)
    base = module._polyint._Interpolator1D
    hook_class(base, __call__=_for(module.interp1d, _interp1d, base))
