"""Views with more elements than their array: sliding windows, ``as_strided``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..ir.graph import Atom
from ..ops.complex import by_lane
from ..ops.elementwise import F
from ..ops.indexing import gather
from ..ops.reduce import expand
from ..ops.shape import iota, move_axis, reshape
from ..record.array import TracedArray, constant, unsupported
from ..record.buffers import ReadOnlyStep
from .hooks import hook
from .registry import implements, one_axis, reject, shape_of
from .shape import as_traced


@implements(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> TracedArray:
    reject("sliding_window_view", "write into the array itself", writeable=writeable)
    found: Any = as_traced(x)
    sizes = shape_of(window_shape)
    axes = (
        range(found.ndim) if axis is None else [one_axis(a, found.ndim, "sliding_window_view") for a in _listed(axis)]
    )
    if len(sizes) != len(axes):
        raise ValueError("Must provide matching length window_shape and axis")
    if any(n < 0 for n in sizes):
        raise ValueError("`window_shape` cannot contain negative values")
    for size, at in zip(sizes, axes, strict=True):
        if found.shape[at] < size:
            raise ValueError("window shape cannot be larger than input array shape")

    def windows(atom: Atom) -> Atom:
        for size, at in zip(sizes, axes, strict=True):
            shape = (atom.aval.shape[at] - size + 1, size)
            places = F.add(expand(iota(shape[0]), shape, (1,)), expand(iota(size), shape, (0,)))
            taken = by_lane(partial(gather, index=places), move_axis(atom, at, 0))
            atom = move_axis(move_axis(taken, 1, taken.aval.ndim - 1), 0, at)
        return atom

    return found.view(ReadOnlyStep("sliding_window_view", windows))


def _as_strided(
    x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True, **kwargs: Any
) -> TracedArray:
    """The positions in a C-contiguous array, as NumPy finds them."""
    array = as_traced(x)
    if not array.known_c_order() or kwargs:
        raise unsupported("np.lib.stride_tricks.as_strided")
    sizes = array.shape if shape is None else shape_of(shape)
    steps = np.array(array.strides if strides is None else strides, dtype=int)
    if steps.size != len(sizes):
        raise ValueError("mismatch in length of strides and shape")
    at = np.zeros(sizes, int)
    for k, n in enumerate(sizes):
        at += (np.arange(n) * steps[k]).reshape(-1, *[1] * (len(sizes) - k - 1))
    if at.size and (at.min() < 0 or at.max() >= array.nbytes or (at % array.itemsize).any()):
        raise unsupported("np.lib.stride_tricks.as_strided beyond the array")
    places = at // array.itemsize
    return array.view(
        ReadOnlyStep("as_strided", lambda atom: gather(reshape(atom, (atom.aval.size,)), constant(places)))
    )


def _listed(axis: Any) -> Any:
    return axis if isinstance(axis, (tuple, list)) else (axis,)


hook(np.lib.stride_tricks.as_strided, _as_strided)
