"""``Parameter``: a tensor that becomes one of a module's parameters where it is assigned to an attribute of it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..tensors import create, dtypes
from ..tensors.modes import STATE
from ..tensors.tensor import Tensor, raw
from ..tracer.ir.refusals import Refusal


class Parameter(Tensor):
    """A leaf of any shape over the memory of *data*, which requires gradients by default.

    :param data: a Tensor, whose history is left behind; without it the parameter is empty.
    """

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        if STATE.capture is not None:
            STATE.capture.refuse(Refusal.STEP_PARAMETER)
        if data is None:
            self._data = np.empty((0,), dtypes.get_default_dtype())
        elif isinstance(data, Tensor):
            self._data, self._counter = raw(data), data._counter
        else:
            raise TypeError(f"the data of a Parameter has to be a Tensor, not {type(data).__name__}")
        self._inference = STATE.inference
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> str:
        return self._text("Parameter containing:\n", sys._getframe(1))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of the values.  The gradient is not copied, as in PyTorch."""
        known = memo.get(id(self))
        if known is None:
            known = memo[id(self)] = self._copied()
        return known


def add_parameters(module: Any, dtype: Any, device: Any, **shapes: Any) -> None:
    """Give *module* parameters of these *shapes*, by name, None where there is no shape, with their initial values."""
    for name, shape in shapes.items():
        made = None if shape is None else Parameter(create.empty(shape, dtype=dtype, device=device))
        module.register_parameter(name, made)
    module.reset_parameters()


__all__ = ["Parameter"]
