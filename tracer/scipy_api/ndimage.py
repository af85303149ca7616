"""scipy.ndimage: filters, and images at coordinates.

SciPy's Python is recorded; the functions below stand for those in C.  A filter is a sum of shifted parts of the padded
image, a point of an image a sum over the B-splines around it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_banded

from ..numpy_api.from_source import compiled
from ..numpy_api.hooks import hook_to_source, when_loaded
from ..numpy_api.shape import as_traced
from ..record.array import is_traced
from .signal import correlated

_NEAREST, _WRAP, _REFLECT, _MIRROR, _CONSTANT, _GRID_WRAP, _GRID_CONSTANT = range(7)  # SciPy's numbers of its modes
_PAD = {_NEAREST: "edge", _WRAP: "wrap", _REFLECT: "symmetric", _MIRROR: "reflect", _CONSTANT: "constant"}
_MOST_TAPS = 15  # that are added one by one, in the kernel

# ---- filters ---------------------------------------------------------------------------------------------------------


def _floats(x: Any) -> Any:
    return as_traced(x).astype(np.float64, copy=False)


def _padded(x: Any, sizes: Sequence[int], mode: int, cval: Any, origins: Sequence[int]) -> Any:
    """*x* with what lies around it, for windows of these sizes."""
    widths = [(n // 2 + o, (n - 1) // 2 - o) for n, o in zip(sizes, origins, strict=True)]
    pad: Any = np.pad
    return pad(x, widths, _PAD[mode], **({"constant_values": cval} if mode == _CONSTANT else {}))


def _shifts(x: Any, shape: Sequence[int], sizes: Sequence[int]) -> Any:
    """(offset, the part of the padded *x* at that offset) for each element of a window."""
    for offset in itertools.product(*map(range, sizes)):
        yield offset, x[tuple([slice(k, k + n) for k, n in zip(offset, shape, strict=True)])]


def _correlate(x: Any, weights: Any, output: Any, mode: int, cval: Any, origins: Sequence[int]) -> None:
    sizes, shape = weights.shape, x.shape
    around = _padded(_floats(x), sizes, mode, cval, origins)
    if weights.size > _MOST_TAPS:
        output[...] = correlated(around, _floats(weights))
        return
    total: Any = 0.0
    for offset, part in _shifts(around, shape, sizes):
        if is_traced(weights) or weights[offset]:
            total = total + part * weights[offset]
    output[...] = total


def _one_axis(axis: int, ndim: int, value: Any, other: Any) -> list[Any]:
    return [value if k == axis else other for k in range(ndim)]


def _correlate1d(x: Any, weights: Any, axis: int, output: Any, mode: int, cval: Any, origin: int) -> None:
    sizes = _one_axis(axis, x.ndim, len(weights), 1)
    _correlate(x, weights.reshape(sizes), output, mode, cval, _one_axis(axis, x.ndim, origin, 0))


def _uniform(x: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int) -> None:
    _correlate1d(x, np.full(size, 1.0 / size), axis, output, mode, cval, origin)


def _extreme(
    x: Any, footprint: Any, structure: Any, output: Any, mode: int, cval: Any, origins: Any, least: Any
) -> None:
    shape, sizes = x.shape, footprint.shape
    parts = []
    for offset, part in _shifts(_padded(_floats(x), sizes, mode, cval, origins), shape, sizes):
        if footprint[offset]:
            added: Any = 0.0 if structure is None else structure[offset]
            parts.append(part if structure is None else part - added if least else part + added)
    output[...] = (np.min if least else np.max)(np.stack(parts), axis=0)


def _extreme1d(x: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int, least: Any) -> None:
    window = np.ones(_one_axis(axis, x.ndim, size, 1), bool)
    _extreme(x, window, None, output, mode, cval, _one_axis(axis, x.ndim, origin, 0), least)


def _rank(x: Any, rank: int, footprint: Any, output: Any, mode: int, cval: Any, origins: Any) -> None:
    parts = _shifts(_padded(_floats(x), footprint.shape, mode, cval, origins), x.shape, footprint.shape)
    output[...] = np.sort(np.stack([part for offset, part in parts if footprint[offset]]), axis=0)[rank]


# ---- points of images ------------------------------------------------------------------------------------------------


def _spline_weights(u: Any, order: int) -> list[Any]:
    """The B-splines of this order over equal knots that are not zero at *u* between two of them."""
    found: list[Any] = [1.0 + 0.0 * u]
    for j in range(1, order + 1):
        saved: Any = 0.0
        for r in range(j):
            part = found[r] / j
            found[r] = saved + (r + 1 - u) * part
            saved = (u + (j - 1 - r)) * part
        found.append(saved)
    return found


def _folded(index: Any, n: int, mode: int) -> Any:
    """Positions beyond the ends as those within that stand for them."""
    if mode == _NEAREST or n == 1:
        return np.clip(index, 0, n - 1)
    if mode == _REFLECT:
        index = index % (2 * n)
        return np.minimum(index, 2 * n - 1 - index)
    if mode == _GRID_WRAP:
        return index % n
    index = index % (2 * n - 2)
    return np.minimum(index, 2 * n - 2 - index)


def _mapped(at: Any, n: int, mode: int) -> tuple[Any, Any]:
    """(coordinates within the image that stand for *at*, whether there is one; None: for each)."""
    last = n - 1
    if mode in (_NEAREST, _CONSTANT, _GRID_CONSTANT):
        return at, (at >= 0) & (at <= last) if mode == _CONSTANT else None
    if mode == _REFLECT:
        turned = (at + 0.5) % (2 * n)
        return np.where((at < 0) | (at > last), np.minimum(turned, 2 * n - turned) - 0.5, at), None
    if mode == _MIRROR:
        turned = at % (2 * last) if last else at * 0.0
        return np.where((at < 0) | (at > last), np.minimum(turned, 2 * last - turned), at), None
    size = last if mode == _WRAP else n
    return np.where((at < 0) | (at > last), at % size if size else at * 0.0, at), None


def _at_points(image: Any, points: Sequence[Any], output: Any, order: int, mode: int, cval: Any, pad: int) -> None:
    """The image at *points*, coordinates along each axis that broadcast to the output's shape."""
    x, shape = _floats(image), image.shape
    edges = mode if mode in (_NEAREST, _REFLECT, _GRID_WRAP) else _MIRROR
    inside: Any = None
    axes = []
    for at, n in zip(points, shape, strict=True):
        at, known = _mapped(_floats(at) + pad, n, mode)
        if known is not None:
            inside = known if inside is None else inside & known
        cell = np.floor(at if order & 1 else at + 0.5)
        weights = _spline_weights(at - cell + (0.0 if order & 1 else 0.5), order)
        first = np.where(np.isfinite(cell), cell, 0.0).astype(np.int64) - order // 2
        beside = []
        for k, weight in enumerate(weights):
            place = first + k
            within = (place >= 0) & (place < n) if mode == _GRID_CONSTANT else None
            beside.append((_folded(place, n, edges), weight, within))
        axes.append(beside)
    strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    flat, total = x.reshape(-1), 0.0
    for corner in itertools.product(*axes):
        value = flat[sum(place * step for (place, _, _), step in zip(corner, strides, strict=True))]
        for _, _, within in corner:
            value = value if within is None else np.where(within, value, cval)
        for _, weight, _ in corner:
            value = value * weight
        total = total + value
    output[...] = total if inside is None else np.where(inside, total, cval)


def _geometric(
    image: Any, mapping: Any, coordinates: Any, matrix: Any, shift: Any, output: Any, order: int, mode: int, cval: Any,
    pad: int, arguments: Any, keywords: Any,
) -> None:  # fmt: skip
    shape = output.shape
    if mapping is not None:
        found = [mapping(index, *arguments, **keywords) for index in np.ndindex(*shape)]
        points = [np.array([p[k] for p in found]).reshape(shape) for k in range(image.ndim)]
    elif coordinates is not None:
        points = [coordinates[k] for k in range(image.ndim)]
    else:
        grid = np.meshgrid(*[np.arange(float(n)) for n in shape], indexing="ij")
        points = [sum(matrix[k, j] * grid[j] for j in range(len(shape))) + shift[k] for k in range(image.ndim)]
    _at_points(image, points, output, order, mode, cval, pad)


def _zoom_shift(
    image: Any, zoom: Any, shift: Any, output: Any, order: int, mode: int, cval: Any, pad: int, grid: bool
) -> None:
    points = []
    for k, n in enumerate(output.shape):
        at: Any = np.arange(float(n)).reshape(_one_axis(k, output.ndim, n, 1))
        at = at if shift is None else at + shift[k]
        if zoom is not None:
            at = (at + 0.5) * zoom[k] - 0.5 if grid else at * zoom[k]
        points.append(at)
    _at_points(image, points, output, order, mode, cval, pad)


_FEW = 48  # points on an axis, up to which the filter is a matrix: SciPy's rounds what the ends contribute


def _spline_filter(in_c: Any, x: Any, order: int, axis: int, output: Any, mode: int) -> None:
    """Coefficients of the spline through the points of *x*: a banded system, with rows of its own at the ends."""
    values = np.moveaxis(_floats(x), axis, 0)
    n = len(values)
    if n <= _FEW:
        matrix = np.empty((n, n))
        in_c(np.eye(n), order, 0, matrix, mode)
        found = np.tensordot(matrix, values, 1)
    else:
        around = _FEW // 2 if mode == _GRID_WRAP else 0
        if around:
            values = np.concatenate([values[-around:], values, values[:around]])
        edges, size, width = _REFLECT if mode in (_NEAREST, _REFLECT) else _MIRROR, n + 2 * around, order // 2
        weights = _spline_weights(np.array(0.0 if order & 1 else 0.5), order)
        rows, bands = np.arange(size), np.zeros((2 * width + 1, size))
        for k in range(-width, width + 1):
            columns = _folded(rows + k, size, edges)
            np.add.at(bands, (width + rows - columns, columns), float(weights[k + width]))
        found = solve_banded((width, width), bands, values.reshape(size, -1)).reshape(values.shape)
        found = found[around : around + n]
    output[...] = np.moveaxis(found, 0, axis)


# ---- hooks -----------------------------------------------------------------------------------------------------------

_IN_C = {
    "correlate": _correlate, "correlate1d": _correlate1d, "uniform_filter1d": _uniform, "rank_filter": _rank,
    "min_or_max_filter": _extreme, "min_or_max_filter1d": _extreme1d, "geometric_transform": _geometric,
    "zoom_shift": _zoom_shift,
}  # fmt: skip


@when_loaded("scipy.ndimage", "zoom")
def _install(module: Any) -> None:
    for name, ours in _IN_C.items():
        compiled(module._filters._nd_image, name)(ours)
    in_c = module._filters._nd_image.spline_filter1d
    compiled(module._filters._nd_image, "spline_filter1d")(partial(_spline_filter, in_c))
    for part in (module._filters, module._interpolation):
        for name in part.__all__:
            hook_to_source(getattr(part, name))
