"""``autocast``: mixed precision inside a ``with`` statement or a decorated function.

The setting itself lies lower (``tracer/ir/settings.py``), where recorded NumPy code reads it.  Operations on
tensors are looked up in two lists by the names that ``grad_fn`` shows, or say it themselves (``EagerOp.mixed``):
products have their float32 operands cast to the setting's dtype, numerically delicate operations their operands of
half precision to float32.  The casts are operations like any other, so gradients of float32 parameters are float32.
All else runs in the dtype in which its operands meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tracer.ir.aval import BFLOAT16, FLOAT16, FLOAT32, HALF
from ..tracer.ir.settings import AUTOCAST, AUTOCAST_USE
from . import tensor as core
from .dtypes import as_dtype
from .modes import _Mode
from .op import EagerOp
from .ops_basic import to_dtype
from .tensor import Tensor

PRODUCTS = frozenset("Mm Mv Dot Vdot Bmm Addmm Addmv Addr Baddbmm Convolution".split())
IN_FLOAT32 = frozenset(
    """Acos Asin BinaryCrossEntropy BinaryCrossEntropyWithLogits Cosh Cumprod Cumsum Erfinv Exp Exp2 Expm1 FusedRmsNorm
    HuberLoss KlDiv LinalgVectorNorm Log Log10 Log1P Log2 LogSigmoid LogSoftmax Logaddexp Logaddexp2 Logsumexp Mean
    MseLoss NativeGroupNorm NativeLayerNorm NllLoss Nansum Pow Prod Reciprocal Rsqrt Sinh SmoothL1Loss Softmax Softplus
    Std StdMean Sum Tan Var VarMean""".split()
)


class autocast(_Mode):  # noqa: N801
    """Mixed precision: matrix products and convolutions of float32 operands in *dtype* ("float16" or "bfloat16"), with
    float32 inside; sums, norms, exponentials, softmax and losses in float32; all else in the dtype of its operands.

    Parameters stay float32, and so do their gradients.  float64 operands are left alone.  ``enabled=False`` switches an
    outer one off.  For NumPy code that is being compiled and for tensors alike; a compiled function keeps kernels for
    each setting.  TypeError for any other dtype.
    """

    _state = AUTOCAST
    _names = ("dtype",)

    def __init__(self, dtype: Any = BFLOAT16, enabled: bool = True) -> None:
        super().__init__()
        self._enabled = bool(enabled)
        wanted = as_dtype(dtype)
        if wanted not in HALF:
            raise TypeError(f"autocast computes in float16 or bfloat16, not in {wanted}")
        self._dtype = FLOAT16 if wanted == FLOAT16 else BFLOAT16  # one object each: settings are compared by identity

    def _values(self) -> tuple[Any, ...]:
        return (self._dtype if self._enabled else None,)

    def clone(self) -> autocast:
        return type(self)(self._dtype, self._enabled)

    def __enter__(self) -> Any:
        if not AUTOCAST_USE.begun:
            AUTOCAST_USE.begin()
        return super().__enter__()


def operands_of(op: EagerOp, operands: tuple[Any, ...], dtype: np.dtype) -> tuple[Any, ...]:
    """*operands* of *op* in the dtypes that the setting *dtype* asks for."""
    name = op.name.partition("Backward")[0]
    if op.mixed == "product" or op.fn is np.matmul or name in PRODUCTS:
        tensors = [t.dtype for t in operands if isinstance(t, Tensor)]
        if all(d in HALF or d == FLOAT32 for d in tensors):
            return tuple([to_dtype(t, dtype) if isinstance(t, Tensor) else t for t in operands])
    elif op.mixed == "float32" or name in IN_FLOAT32:
        return tuple([
            to_dtype(t, FLOAT32) if isinstance(t, Tensor) and t.dtype in HALF else t for t in operands
        ])  # fmt: skip
    return operands


core._ENGINE.update(autocast=operands_of)
