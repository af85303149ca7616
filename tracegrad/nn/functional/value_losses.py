"""Losses: of numbers against numbers, of probabilities and logits against labels.  Those of scores against classes are
in ``class_losses.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensors.apply import apply
from ...tensors.arguments import real_argument, tensor_argument
from ...tensors.dtypes import scalar_name
from ...tensors.op import EagerOp
from ...tensors.ops_basic import meet
from ...tensors.tensor import Tensor, raw
from ...tracer.ir.site import warn_at_site
from ...tracer.ops import scipy_ufuncs as sp
from ...tracer.record.autocast import may_meet
from .arrays import OptionalOp, reduced, softplus


def reduction_of(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The name of the reduction; the older flags decide where they are given."""
    if size_average is not None or reduce is not None:
        return "none" if reduce is False else "sum" if size_average is False else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def arrays_of(name: str, input: Tensor, target: Tensor) -> tuple[Any, Any]:
    """The arrays of two tensors, neither of which is complex."""
    return raw(real_argument(name, input)), raw(real_argument(name, target, "target", 2))


# ---- numbers against numbers -----------------------------------------------------------------------------------------


def _difference(name: str, loss: Any) -> OptionalOp:
    """A loss of the elements of x - y as an operation: ``fn(x, y, weight, reduction, *statics)``."""

    def fn(x: Any, y: Any, weight: Any, reduction: str, *statics: Any) -> Any:
        found = loss(x - y, *statics)
        if weight is None:
            return reduced(found, reduction)
        found = found * weight
        if reduction != "mean":
            return reduced(found, reduction)
        return found.sum() / np.broadcast_to(weight, found.shape).sum()

    return OptionalOp(name, fn)


def _smooth(d: Any, beta: float) -> Any:
    size = np.abs(d)
    return np.where(size < beta, 0.5 * d * d / beta, size - 0.5 * beta) if beta else size


def _huber(d: Any, delta: float) -> Any:
    size = np.abs(d)
    return np.where(size <= delta, 0.5 * d * d, delta * (size - 0.5 * delta))


MSE = _difference("MseLoss", lambda d: d * d)
L1 = {reduction: _difference(name, np.abs) for reduction, name in (("none", "Abs"), ("mean", "Mean"), ("sum", "Sum"))}
SMOOTH_L1 = _difference("SmoothL1Loss", _smooth)
HUBER = _difference("HuberLoss", _huber)


def _of_difference(
    op: OptionalOp, name: str, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, *statics: Any
) -> Tensor:
    read = tensor_argument if name == "l1_loss" else real_argument  # a size is real
    x, y = raw(read(name, input)), raw(read(name, target, "target", 2))
    if x.shape != y.shape:
        warn_at_site(
            f"Using a target size (torch.{target.shape}) that is different to the input size (torch.{input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        )
    if x.dtype != y.dtype:
        input, target = meet(input, target)
    return op.of((input, target), (weight,), reduction, *statics)


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """(x - y)², averaged, summed, or (*reduction* "none") element by element.

    :param input: any shape, as *target*.
    :param weight: of each element; the mean is then a weighted one.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    return _of_difference(MSE, "mse_loss", input, target, weight, reduction)


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """\\|x - y\\|; arguments as those of ``mse_loss``."""
    reduction = reduction_of(reduction, size_average, reduce)
    return _of_difference(L1[reduction], "l1_loss", input, target, weight, reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """(x - y)² / (2 · beta) where \\|x - y\\| is below *beta*, \\|x - y\\| - beta / 2 elsewhere."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    reduction = reduction_of(reduction, size_average, reduce)
    return _of_difference(SMOOTH_L1, "smooth_l1_loss", input, target, None, reduction, float(beta))


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """(x - y)² / 2 where \\|x - y\\| is up to *delta*, delta · (\\|x - y\\| - delta / 2) elsewhere."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    reduction = reduction_of(reduction, None, None)
    return _of_difference(HUBER, "huber_loss", input, target, weight, reduction, float(delta))


# ---- probabilities and logits against labels -------------------------------------------------------------------------


def _log_of(p: Any) -> Any:
    return np.maximum(np.log(p), -100.0)  # so that a certain prediction that is wrong costs 100, as in PyTorch


def _bce(x: Any, y: Any, weight: Any, reduction: str) -> Any:
    loss = -(y * _log_of(x) + (1.0 - y) * np.maximum(np.log1p(-x), -100.0))
    return reduced(loss if weight is None else loss * weight, reduction)


def _bce_with_logits(x: Any, y: Any, weight: Any, pos_weight: Any, reduction: str) -> Any:
    below = softplus(-x)  # -log sigmoid(x)
    if pos_weight is not None:
        below = below * (1.0 + (pos_weight - 1.0) * y)
    loss = (1.0 - y) * x + below
    return reduced(loss if weight is None else loss * weight, reduction)


BCE = OptionalOp("BinaryCrossEntropy", _bce)
BCE_WITH_LOGITS = OptionalOp("BinaryCrossEntropyWithLogits", _bce_with_logits)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-(y · log x + (1 - y) · log(1 - x)) for probabilities x; the logarithms are not let below -100.

    :param input: any shape, as *target*.
    :param weight: of each element, broadcast.
    """
    x, y = arrays_of("binary_cross_entropy", input, target)
    reduction = reduction_of(reduction, size_average, reduce)
    if x.shape != y.shape:
        raise ValueError(
            f"Using a target size (torch.{target.shape}) that is different to the input size (torch.{input.shape}) is "
            "deprecated. Please ensure they have the same size."
        )
    if not bool(((x >= 0) & (x <= 1)).all()):
        raise RuntimeError("all elements of input should be between 0 and 1")
    if not bool(((y >= 0) & (y <= 1)).all()):
        raise RuntimeError("all elements of target should be between 0 and 1")
    if not may_meet(x.dtype, y.dtype):
        raise RuntimeError(f"Found dtype {scalar_name(y.dtype)} but expected {scalar_name(x.dtype)}")
    return BCE.of((input, target), (weight,), reduction)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``binary_cross_entropy`` of sigmoid(x), stable far from 0.

    :param input: any shape, as *target*.
    :param weight: of each element, broadcast.
    :param pos_weight: of the positive labels, broadcast.
    """
    x, y = arrays_of("binary_cross_entropy_with_logits", input, target)
    reduction = reduction_of(reduction, size_average, reduce)
    if x.shape != y.shape:
        raise ValueError(f"Target size (torch.{target.shape}) must be the same as input size (torch.{input.shape})")
    if x.dtype != y.dtype:
        input, target = meet(input, target)
    return BCE_WITH_LOGITS.of((input, target), (weight, pos_weight), reduction)


def _kl_div(x: Any, y: Any, log_target: bool, reduction: str) -> Any:
    terms = np.exp(y) * (y - x) if log_target else sp.xlogy(y, y) - y * x
    return terms.sum() / x.shape[0] if reduction == "batchmean" else reduced(terms, reduction)


KL_DIV = EagerOp("KlDiv", _kl_div)


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """y · (log y - x) for log-probabilities x and probabilities y (with *log_target*, their logarithms).

    :param input: any shape, as *target*.
    :param reduction: also "batchmean": the sum, divided by the size of the first axis.
    """
    arrays_of("kl_div", input, target)
    if reduction != "batchmean":
        reduction = reduction_of(reduction, size_average, reduce)
    a, b = meet(input, target)
    return apply(KL_DIV, (a, b), (bool(log_target), reduction))


__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "smooth_l1_loss",
]
