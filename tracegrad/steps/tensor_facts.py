"""The facts that recordings of steps rely on about tensors from outside.

A tensor counts by its identity, with the facts about it; changes of these count in ``tensors/tensor.py`` (``epoch``),
and a slot whose epoch has moved on asks again.  Its contents are read anew when a recording runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensors.device import on_cuda
from ..tensors.hooks import at_leaf, end_of
from ..tensors.tensor import Tensor

_OWN = Tensor.__annotations__.keys() | vars(Tensor).keys()


def tensor_facts(t: Tensor) -> tuple[Any, ...]:
    """The facts that a recording relies on about a tensor from outside, contents aside."""
    data = t._data
    flags = (t._requires, t._node is None, bool(t._hooks), bool(t._after), end_of(t) is not None, on_cuda(data))
    return (id(t), *flags, data.shape, data.dtype.char)


def held_facts(t: Any) -> Any:
    """The facts about a tensor that is an input, whichever it is; None where its identity counts: it has history,
    attributes, or memory that is not its own."""
    if type(t) is not Tensor or t._requires or t._node is not None or t._base is not None or t._grad is not None:
        return None
    data = t._data
    on_device = on_cuda(data)
    if not (type(data) is np.ndarray or on_device) or at_leaf(t) or not t.__dict__.keys() <= _OWN:
        return None
    return data.dtype, data.shape, on_device, t._inference, data.flags.c_contiguous or data.strides
