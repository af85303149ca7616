"""Functions that rules of users' primitives are written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def metadata(x: Any) -> tuple[tuple[int, ...], int, Any, bool]:
    """(shape, number of axes, dtype, whether it is complex)."""
    return np.shape(x), np.ndim(x), np.result_type(x), np.iscomplexobj(x)


def unbroadcast(g: Any, target_meta: Any, broadcast_idx: int = 0) -> Any:
    """*g* summed over the axes that an argument with *target_meta* was broadcast along."""
    shape, ndim, _, is_complex = target_meta
    while np.ndim(g) > ndim:
        g = np.sum(g, axis=broadcast_idx)
    for axis, size in enumerate(shape):
        if size == 1:
            g = np.sum(g, axis=axis, keepdims=True)
    return np.real(g) if np.iscomplexobj(g) and not is_complex else g


def unbroadcast_f(target: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """*f*, which gives gradients of *target*, with ``unbroadcast`` behind it."""
    target_meta = metadata(target)
    return lambda g: unbroadcast(f(g), target_meta)


def replace_zero(x: Any, val: Any) -> Any:
    """*x* with *val* in place of zeros."""
    return np.where(x, x, val)


def repeat_to_match_shape(g: Any, shape: Any, dtype: Any, axis: Any, keepdims: bool) -> tuple[Any, Any]:
    """(*g*, the gradient of a reduction over *axis*, for each element of its operand; how many had been reduced to
    one)."""
    if shape == ():
        return g, 1
    axes = list(axis) if isinstance(axis, tuple) else axis
    new_shape = np.array(shape)
    new_shape[axes] = 1
    return np.reshape(g, new_shape.tolist()) + np.zeros(shape, dtype=dtype), np.prod(np.array(shape)[axes])
