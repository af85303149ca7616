"""NumPy's errors in PyTorch's words, and texts that several files need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def misfit(error: ValueError, arrays: Sequence[Any]) -> Exception:
    """The error in place of *error*, which NumPy raised for operands of shapes that do not broadcast: PyTorch's where
    it is about two operands, otherwise *error* itself."""
    shapes = [a.shape for a in arrays if getattr(a, "shape", ())]
    if type(error) is not ValueError or "broadcast" not in str(error) or len(shapes) < 2:
        return error
    a = shapes[0]
    for b in shapes[1:]:
        ndim = max(len(a), len(b))
        for d in reversed(range(ndim)):
            n, m = (s[d - ndim] if ndim - d <= len(s) else 1 for s in (a, b))
            if n != m and n != 1 and m != 1:
                return RuntimeError(
                    f"The size of tensor a ({n}) must match the size of tensor b ({m}) at non-singleton dimension {d}"
                )
    return RuntimeError(str(error))


def not_complex(op: Any, error: TypeError, arrays: Sequence[Any]) -> Exception:
    """The error in place of *error*, which NumPy raised for operands of an *op*: that there is no complex form of it,
    where one is complex, otherwise *error* itself."""
    if not any(getattr(getattr(a, "dtype", None), "kind", "") == "c" for a in arrays):
        return error
    return only_real(op.fn.__name__ if isinstance(op.fn, np.ufunc) else op.name.partition("Backward")[0].lower())


def only_real(name: str) -> NotImplementedError:
    """The error for a function that has no complex form."""
    return NotImplementedError(
        f'"{name}" not implemented for complex tensors: compose it from functions that are, or of x.real and x.imag'
    )


READ_ONLY = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation."
)
INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
)
