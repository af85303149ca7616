"""Trees of numbers and arrays as one vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Flattens any nesting of tuples, lists, or dicts, with numpy arrays or
    scalars inside. Returns 1D numpy array and an unflatten function.
    Doesn't preserve mixed numeric types (e.g. floats and ints). Assumes dict
    keys are sortable."""
    leaves, structure = optree.tree_flatten(value)  # the keys of dicts in order
    shapes = [np.shape(leaf) for leaf in leaves]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes]).tolist()
    flat = np.concatenate([np.ravel(leaf) for leaf in leaves]) if leaves else np.array([])

    def unflatten(vector: Any) -> Any:
        parts = [
            np.reshape(vector[end - int(np.prod(shape)) : end], shape) if shape else vector[end - 1]
            for end, shape in zip(ends, shapes, strict=True)
        ]
        return optree.tree_unflatten(structure, parts)

    return flat, unflatten


def flatten_func(func: Callable[..., Any], example: Any) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """(*func* of a vector in place of its first argument, which is like *example*, and giving one; unflatten; the
    example as a vector)."""
    flat, unflatten = flatten(example)
    return (lambda x, *args: flatten(func(unflatten(x), *args))[0]), unflatten, flat
