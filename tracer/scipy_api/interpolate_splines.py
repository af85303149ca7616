"""scipy.interpolate: splines of B-splines, on lines and grids; interpolation on regular grids, by radial functions.

SciPy's Python is recorded.  Its C and FITPACK are replaced by formulas over the B-splines that are not zero at a point.
FITPACK chooses no knots here: it interpolates, or fits at knots that are given.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from ..ir.aval import INT
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom, Lit
from ..numpy_api.from_source import as_recorded, compiled
from ..numpy_api.hooks import hook, hook_class, hook_to_source, when_loaded
from ..numpy_api.shape import as_traced
from ..ops.elementwise import F, broadcast_to, like
from ..ops.indexing import gather
from ..ops.reduce import reduce
from ..ops.shape import reshape, slice_axis
from ..record.array import is_traced, to_atom, wrap, wrap_array
from ..record.constants import by_numpy
from ..record.recorder import require_recorder
from .interpolate import _unchanged, array_of, interval, over_constants, points

# ---- B-splines -------------------------------------------------------------------------------------------------------


def _cell(t: Any, k: int, x: Atom) -> Atom:
    """The interval of the knots *t* in which each of *x* lies, or the nearest one on which the B-splines are full."""
    return interval(points(t), x, k, len(t) - k - 1)


def _basis(t: Any, k: int, x: Atom, cell: Atom, nu: int = 0) -> list[Any]:
    """The derivatives of order *nu* of the k + 1 B-splines that are not zero in the *cell* of each of *x*."""
    knots, place, at = points(t), wrap(cell), wrap(x)
    near = {j: wrap(gather(knots, to_atom(place + j))) for j in range(1 - k, k + 1)}
    found: list[Any] = [1.0 + 0.0 * at]
    for j in range(1, k + 1):
        saved: Any = 0.0
        for r in range(j):
            right, left = near[r + 1], near[r + 1 - j]
            part = found[r] / (right - left)
            if j <= k - nu:
                found[r], saved = saved + part * (right - at), part * (at - left)
            else:
                found[r], saved = saved - j * part, j * part
        found.append(saved)
    return found if nu <= k else [0.0 * h for h in found]


def _evaluate(t: Any, c: Any, k: int, x: Any, nu: int = 0, extrapolate: bool = True) -> Any:
    """``_dierckx.evaluate_spline``: (points, columns of *c*)."""
    at, rows = points(x), to_atom(as_traced(c))
    cell = _cell(t, k, at)
    beside = (slice(None),) + (None,) * (rows.aval.ndim - 1)
    total: Any = 0.0
    for j, weight in enumerate(_basis(t, k, at, cell, nu)):
        total = total + weight[beside] * wrap_array(gather(rows, to_atom(wrap(cell) + (j - k))))
    return total if extrapolate else np.where(_inside(t, k, at)[beside], total, np.nan)


def _inside(t: Any, k: int, at: Atom) -> Any:
    return (wrap(at) >= t[k]) & (wrap(at) <= t[len(t) - k - 1])


def _collocated(in_c: Any) -> Callable[..., None]:
    """``_dierckx._coloc``: B-splines at *x*, as rows of a banded matrix whose transpose is *bands*."""

    def fill(x: Any, t: Any, k: int, bands: Any, offset: int = 0) -> None:
        if not is_traced((x, t, bands)):
            in_c(np.asarray(x), np.asarray(t), k, bands.view(np.ndarray), offset)
            return
        at = points(x)
        cell, rows = wrap(_cell(t, k, at)), np.arange(at.aval.size) + offset
        for j, weight in enumerate(_basis(t, k, at, to_atom(cell))):
            column = cell - k + j
            bands[column, 2 * k + rows - column] = weight

    return fill


def _find_interval(t: Any, k: int, x: Any, left: int, extrapolate: bool) -> Any:
    return wrap(_cell(t, k, points(x)))


def _all_at(t: Any, k: int, x: Any, left: Any, nu: int = 0) -> Any:
    return np.stack([wrap(to_atom(h)) for h in _basis(t, k, points(x), to_atom(left), nu)])


def _lapack(names: Sequence[str], arrays: Sequence[Any] = (), *args: Any, **kwargs: Any) -> Any:
    """``get_lapack_funcs``, where splines ask for the solution of a banded system."""
    if tuple(names) != ("gbsv",) or not is_traced(tuple(arrays)):
        return scipy.linalg.get_lapack_funcs(names, arrays, *args, **kwargs)
    return (lambda kl, ku, ab, rhs, **_: (None, None, scipy.linalg.solve_banded((kl, ku), ab[kl:], rhs), 0),)


def _design(t: Any, k: int, x: Any) -> Any:
    """The values of the B-splines at *x*, (points, B-splines)."""
    at = points(x)
    cell, rows = wrap(_cell(t, k, at)), np.arange(at.aval.size)
    found: Any = np.zeros_like(as_traced(x), shape=(at.aval.size, len(t) - k - 1), dtype=np.float64)
    for j, weight in enumerate(_basis(t, k, at, to_atom(cell))):
        found[rows, cell - k + j] = weight
    return found


def _least_squares(x: Any, y: Any, t: Any, k: int, w: Any) -> Any:
    """Coefficients of the spline at the knots *t* that fits *y*."""
    weights = as_traced(w)[:, None]
    columns = as_traced(y).reshape(len(x), -1)
    return np.linalg.lstsq(_design(t, k, x) * weights, columns * weights, rcond=None)[0]


# ---- FITPACK ---------------------------------------------------------------------------------------------------------


def _splev(t: Any, c: Any, k: int, x: Any, ext: int = 0, nu: int = 0) -> tuple[Any, int]:
    at = points(x)
    first, last = t[k], t[len(t) - k - 1]
    inside = _inside(t, k, at)
    if ext == 2 and not bool(np.all(inside)):
        return None, 1
    held = to_atom(np.clip(wrap(at), first, last)) if ext == 3 else at
    found = _evaluate(t, as_traced(c), k, wrap(held), nu)
    return np.where(inside, found, 0.0) if ext == 1 else found, 0


def _splder(t: Any, c: Any, k: int, x: Any, nu: int, ext: int = 0) -> tuple[Any, int]:
    return _splev(t, c, k, x, ext, nu)


_REPEATED = "The spline has internal repeated knots and is not differentiable {} times"


def _derivative(tck: Any, n: int = 1) -> Any:
    """``splder``, whose division by zero is a condition."""
    t, c, k = tck
    if n > k:
        raise ValueError(f"Order of derivative (n = {n!r}) must be <= order of spline (k = {k!r})")
    c = as_traced(c)
    for _ in range(n):
        width = as_traced(t[k + 1 : -1] - t[1 : -k - 1])
        parted = reduce("all", F.ne(width.atom, like(0, width.atom)), (0,))
        require_recorder("splder").rely(parted, lambda: ShapeError.here(_REPEATED.format(n)))
        slope = (c[1 : -1 - k] - c[: -2 - k]) * k / width[(slice(None),) + (None,) * (c.ndim - 1)]
        c, t, k = np.concatenate([slope, np.zeros((k, *c.shape[1:]))]), t[1:-1], k - 1
    return t, c, k


def _refuse(name: str, *arrays: Any) -> Any:
    """Refuse a spline through these *arrays*, unless they are data, whose contents can be known."""
    error = UnsupportedError.here(
        f"{name} of traced values: FITPACK chooses the knots by them; use s=0, or knots of yours (make_lsq_spline)"
    )
    for x in arrays:
        error = require_recorder(name).refused(to_atom(x), error) if is_traced(x) else error
    raise error


def _two(tx: Any, ty: Any, c: Any, kx: int, ky: int, x: Any, y: Any, nu: tuple[int, int], grid: bool) -> Any:
    """A spline of two variables on the grid of *x* and *y*, or at pairs of them."""
    x, y = as_traced(x).ravel(), as_traced(y).ravel()
    parts = []
    for t, k, at, order in ((tx, kx, x, nu[0]), (ty, ky, y, nu[1])):
        held = to_atom(np.clip(np.atleast_1d(wrap(points(at))), t[k], t[len(t) - k - 1]))
        cell = _cell(t, k, held)
        parts.append((wrap(cell) - k, _basis(t, k, held, cell, order)))
    (rows, across), (columns, down) = parts
    if grid:
        rows, across = rows[:, None], [h[:, None] for h in across]
    width, flat = len(ty) - ky - 1, to_atom(as_traced(c))
    total: Any = 0.0
    for (i, a), (j, b) in itertools.product(enumerate(across), enumerate(down)):
        total = total + a * b * wrap_array(gather(flat, to_atom((rows + i) * width + columns + j)))
    return total, 0


# ---- grids -----------------------------------------------------------------------------------------------------------


def _coordinates(found: Any, ndim: Any = None) -> Any:
    """``_ndim_coords_from_arrays``."""
    if isinstance(found, tuple) and len(found) == 1:
        found = found[0]
    if isinstance(found, tuple):
        return np.stack(np.broadcast_arrays(*map(as_traced, found)), axis=-1)
    array = as_traced(found)
    return array.reshape(-1, 1 if ndim is None else ndim) if array.ndim == 1 else array


def _on_grid(self: Any, xi: Any, method: Any = None, *, nu: Any = None) -> Any:
    """``RegularGridInterpolator.__call__``: linear, or of the nearest point, which are called in loops."""
    method = self.method if method is None else method
    values, count = as_traced(self._values), len(self._grid)
    at = _coordinates(xi, count)
    if at.shape[-1] != count:
        raise ValueError(
            f"The requested sample points xi have dimension {at.shape[-1]} but this RegularGridInterpolator has "
            f"dimension {count}"
        )
    flat, outside = points(at.reshape(-1, count)), None
    size, rest = flat.aval.shape[0], values.shape[count:]
    axes: list[list[tuple[Atom, Atom | None]]] = []
    for d, grid in enumerate(self._grid):
        x, knots = reshape(slice_axis(flat, 1, d, 1), (size,)), points(grid)
        low, high = (broadcast_to(reshape(slice_axis(knots, 0, k, 1), ()), (size,)) for k in (0, len(grid) - 1))
        beyond = F.logical_or(F.lt(x, low), F.gt(x, high))
        if self.bounds_error:  # NaN is out of bounds, and else NaN
            words = f"One of the requested xi is out of bounds in dimension {d}"
            within = reduce("all", F.logical_and(F.ge(x, low), F.le(x, high)), (0,))
            require_recorder("interpn").rely(within, partial(ShapeError.here, words))
        outside = beyond if outside is None else F.logical_or(outside, beyond)
        cell = interval(knots, x)
        following = F.add(cell, Lit(1, INT))
        start = gather(knots, cell)
        part = F.div(F.sub(x, start), F.sub(gather(knots, following), start))
        if method == "nearest":
            axes.append([(F.select(F.gt(part, like(0.5, part)), following, cell), None)])
        else:
            axes.append([(cell, F.sub(like(1, part), part)), (following, part)])
    rows = to_atom(values.reshape(-1, *rest))
    total: Any = None
    for corner in itertools.product(*axes):
        place: Any = None
        weight: Any = None
        for (index, part_of), n in zip(corner, values.shape, strict=False):
            place = index if place is None else F.add(F.mul(place, Lit(n, INT)), index)
            weight = part_of if weight is None or part_of is None else F.mul(weight, part_of)
        term = wrap_array(gather(rows, place))
        beside = (slice(None),) + (None,) * len(rest)
        term = term if weight is None else term * wrap(weight)[beside]
        total = term if total is None else total + term
    if not self.bounds_error and self.fill_value is not None:
        total = np.where(wrap(to_atom(outside))[(slice(None),) + (None,) * len(rest)], self.fill_value, total)
    if method == "nearest":
        total = np.where(np.any(np.isnan(wrap(flat)), axis=1)[(slice(None),) + (None,) * len(rest)], np.nan, total)
    return total.reshape(*at.shape[:-1], *rest)


def _ndbspline(self: Any, xi: Any, *, nu: Any = None, extrapolate: Any = None) -> Any:
    """``NdBSpline.__call__``."""
    extrapolate = self.extrapolate if extrapolate is None else bool(extrapolate)
    knots = [self._t[d, : int(self._len_t[d])] for d in range(len(self._len_t))]
    at = as_traced(xi)
    flat = at.reshape(-1, at.shape[-1])
    c, rest = as_traced(self._c), self._c.shape[len(knots) :]
    rows = to_atom(c.reshape(-1, *rest))
    inside: Any = True
    axes = []
    for d, (t, k) in enumerate(zip(knots, map(int, self._k), strict=True)):
        x = points(flat[:, d])
        cell = _cell(t, k, x)
        inside = inside & _inside(t, k, x)
        axes.append(list(enumerate(_basis(t, k, x, cell, 0 if nu is None else int(nu[d])), start=0)))
        axes[-1] = [(wrap(cell) - k + j, weight) for j, weight in axes[-1]]
    total: Any = 0.0
    for corner in itertools.product(*axes):
        place: Any = 0
        weight: Any = 1.0
        for (at_axis, part), n in zip(corner, c.shape, strict=False):
            place, weight = place * n + at_axis, weight * part
        total = total + weight[(slice(None),) + (None,) * len(rest)] * wrap_array(gather(rows, to_atom(place)))
    if not extrapolate:
        total = np.where(inside[(slice(None),) + (None,) * len(rest)], total, np.nan)
    return total.reshape(*at.shape[:-1], *rest)


# ---- hooks -----------------------------------------------------------------------------------------------------------


def _install_fitpack(module: Any) -> None:
    # From SciPy 1.18 on there is one module in C, with Python around it that does as the routines in Fortran did.
    in_fortran = hasattr(module._fitpack_impl, "dfitpack")
    fitpack = module._fitpack_impl.dfitpack if in_fortran else module._fitpack_impl._fitpack

    def interpolated(x: Any, y: Any, k: int, low: Any, high: Any) -> tuple[Any, Any]:
        """(knots, coefficients and as many zeros as FITPACK adds)."""
        if low is not None or high is not None:
            _refuse("a spline with ends (bbox=, xb=, xe=)", x, y)
        spline = module.make_interp_spline(x, y, k=k)
        return array_of(spline, "t"), np.concatenate([array_of(spline, "c"), np.zeros(k + 1)])

    @compiled(fitpack, "fpcurf0")
    def _fpcurf0(x: Any, y: Any, k: int, w: Any = None, xb: Any = None, xe: Any = None, s: Any = None) -> Any:
        if s is None or s != 0:
            _refuse("UnivariateSpline", x, y, w)
        t, c = interpolated(x, y, k, xb, xe)
        return x, y, w, x[0], x[-1], k, s, len(t), t, c, 0.0, None, None, -1

    @compiled(fitpack, "fpcurfm1")
    def _fpcurfm1(x: Any, y: Any, k: int, t: Any, w: Any = None, xb: Any = None, xe: Any = None) -> Any:
        c = _least_squares(x, y, t, k, np.ones(len(x)) if w is None else w)[:, 0]
        c = np.concatenate([c, np.zeros(k + 1)])
        return x, y, w, xb, xe, k, -1, len(t), t, c, None, None, None, -2

    @compiled(module._fitpack2, "_curfit")
    def _curfit(
        x: Any, y: Any, k: int, w: Any = None, xb: Any = None, xe: Any = None, s: Any = None, nest: Any = None,
        iopt: int = 0, t: Any = None, **others: Any,
    ) -> Any:  # fmt: skip
        return _fpcurfm1(x, y, k, t, w, xb, xe) if iopt == -1 else _fpcurf0(x, y, k, w, xb, xe, s)

    def splrep(
        x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0, s: Any = None,
        t: Any = None, full_output: Any = 0, per: Any = 0, quiet: Any = 1,
    ) -> Any:  # fmt: skip
        chosen = (s is None and w is not None) or (s is not None and s != 0)
        if task == 1 or per or full_output or t is not None or chosen:
            _refuse("splrep", x, y, w, t)
        return (*interpolated(as_traced(x), as_traced(y), k, xb, xe), k)

    @compiled(module._fitpack2, "_regrid_smth")
    @compiled(fitpack, "regrid_smth")
    def _grid(x: Any, y: Any, z: Any, xb: Any, xe: Any, yb: Any, ye: Any, kx: int, ky: int, s: Any, *rest: Any) -> Any:
        if s != 0 or any(end is not None for end in (xb, xe, yb, ye)):
            _refuse("RectBivariateSpline", x, y, z)
        first = module.make_interp_spline(x, z.reshape(len(x), len(y)), k=kx)
        second = module.make_interp_spline(y, array_of(first, "c").T, k=ky)
        tx, ty = array_of(first, "t"), array_of(second, "t")
        return len(tx), tx, len(ty), ty, array_of(second, "c").T.reshape(-1), 0.0, 0

    compiled(fitpack, "splev")(_splev)
    compiled(fitpack, "splder")(_splder if in_fortran else lambda t, c, k, nu, x, ext=0: _splev(t, c, k, x, ext, nu))
    compiled(fitpack, "bispev")(lambda tx, ty, c, kx, ky, x, y: _two(tx, ty, c, kx, ky, x, y, (0, 0), True))
    compiled(fitpack, "bispeu")(lambda tx, ty, c, kx, ky, x, y: _two(tx, ty, c, kx, ky, x, y, (0, 0), False))
    compiled(fitpack, "parder")(lambda tx, ty, c, kx, ky, a, b, x, y: _two(tx, ty, c, kx, ky, x, y, (a, b), True))
    compiled(fitpack, "pardeu")(lambda tx, ty, c, kx, ky, a, b, x, y: _two(tx, ty, c, kx, ky, x, y, (a, b), False))

    @compiled(fitpack, "splint")
    def _splint(t: Any, c: Any, k: int, a: Any, b: Any) -> Any:
        rows = as_traced(c)
        sums = module._fitpack_impl.splantider((t, np.concatenate([rows, np.zeros(len(t) - len(rows))]), k))
        ends = np.clip(np.stack([as_traced(b), as_traced(a)]), t[k], t[len(t) - k - 1])
        found = _evaluate(sums[0], sums[1], sums[2], ends)
        return (found[0] - found[1], None) if in_fortran else found[0] - found[1]

    hook(module._fitpack_impl.splrep, splrep)
    hook(module._fitpack_impl.splder, lambda tck, n=1, xp=None: _derivative(tck, n))
    for part in (module._fitpack_impl, module._fitpack_py):
        for name in ("splrep", "splev", "splint", "splder", "splantider"):
            hook_to_source(getattr(part, name))


@when_loaded("scipy.interpolate", "RBFInterpolator")
def _install(module: Any) -> None:
    splines = module._bsplines
    in_c = splines._dierckx
    compiled(in_c, "evaluate_spline")(_evaluate)
    compiled(in_c, "_coloc")(_collocated(in_c._coloc))
    compiled(in_c, "find_interval")(_find_interval)
    compiled(in_c, "evaluate_all_bspl")(_all_at)
    compiled(splines, "get_lapack_funcs")(_lapack)
    compiled(splines, "_lsq_solve_qr")(lambda x, y, t, k, w: (None, None, _least_squares(x, y, t, k, w), None, None))
    for cls in {module.BSpline, getattr(splines, "_BSpline", module.BSpline)}:  # what it delegates to
        hook_class(cls, _ensure_c_contiguous=_unchanged)
    for name in ("make_interp_spline", "make_lsq_spline", "interpn"):
        hook_to_source(getattr(module, name))
    _install_fitpack(module)
    univariate = ("UnivariateSpline", "InterpolatedUnivariateSpline", "LSQUnivariateSpline")
    for cls in (
        *[getattr(module, name) for name in univariate], module._fitpack2._BivariateSplineBase, module.BivariateSpline,
        module.RectBivariateSpline, module.RBFInterpolator,
    ):  # fmt: skip
        hook_class(cls)
    others = over_constants(module.RegularGridInterpolator)

    def on_grid(self: Any, xi: Any, method: Any = None, *, nu: Any = None) -> Any:
        quick = (self.method if method is None else method) in ("linear", "nearest") and nu is None
        return (_on_grid if quick else others)(self, xi, method, nu=nu)

    hook_class(module.RegularGridInterpolator, __call__=on_grid)
    for name in ("KroghInterpolator", "BarycentricInterpolator"):
        hook_class(getattr(module, name))
    hook_class(module._polyint._Interpolator1DWithDerivatives)
    hook_class(module.NdBSpline, __call__=_ndbspline)
    compiled(module._rgi, "_ndim_coords_from_arrays")(_coordinates)
    compiled(module._rbfinterp, "_get_backend")(lambda xp: as_recorded(module._rbfinterp._rbfinterp_xp))
    for name, instead in _REFUSED.items():
        hook(getattr(module, name), partial(_not_supported, getattr(module, name), instead))


_REFUSED = {
    "griddata": "give values on a regular grid to RegularGridInterpolator, or use RBFInterpolator",
    "make_smoothing_spline": "use make_lsq_spline with knots of yours", "splprep": "use make_interp_spline of columns",
    "bisplrep": "use RectBivariateSpline", "bisplev": "use RectBivariateSpline",
}  # fmt: skip


def _not_supported(function: Any, instead: str, *args: Any, **kwargs: Any) -> Any:
    """The result of data alone."""
    error = UnsupportedError.here(f"scipy.interpolate.{function.__name__} is not supported on traced arrays: {instead}")
    return by_numpy(error, function, args, kwargs)
