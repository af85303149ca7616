"""Tensors that an optimizer keeps for a parameter, as they begin.

They stand apart from the optimizers, whose code is converted where a step is recorded: these functions run as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensors import dtypes
from ..tensors.on_device import filled
from ..tensors.tensor import Tensor, make, raw


def zeros_like(p: Tensor) -> Tensor:
    """State of the shape of a parameter."""
    data = raw(p)
    return make(np.zeros_like(data) if type(data) is np.ndarray else filled(0, data.shape, data.dtype, data))


def new_count() -> Tensor:
    """A count of steps: a 0-d tensor of the default dtype, or of float32 where that is narrower, as PyTorch's."""
    dtype = dtypes.get_default_dtype()
    return make(np.zeros((), dtype if dtype == np.float64 else np.float32))


def count_of(value: Any) -> Tensor:
    """A count of steps as a tensor, where older state dicts have a number."""
    if isinstance(value, Tensor):
        return value
    count = new_count()
    count._data[...] = float(value)
    return count
