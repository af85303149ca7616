"""Losses: of numbers against numbers, of scores against classes, of probabilities and logits against labels.

The losses of classes look up the score of the right class by comparing with all class numbers, which stays within the
loops of the softmax; whether the targets are classes at all is looked at before (``all_within``).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.special as sp

from ..eager.arguments import tensor_argument
from ..eager.dtypes import scalar_name
from ..eager.op import Op
from ..eager.ops_basic import meet
from ..eager.tensor import Tensor, apply, raw
from .arrays import all_within, held, is_class, reduced


def _reduction(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The name of the reduction; the older flags decide where they are given."""
    if size_average is not None or reduce is not None:
        return "none" if reduce is False else "sum" if size_average is False else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _arrays(name: str, input: Tensor, target: Tensor) -> tuple[Any, Any]:
    return raw(tensor_argument(name, input)), raw(tensor_argument(name, target, "target", 2))


# ---- numbers against numbers -----------------------------------------------------------------------------------------


def _difference(name: str, loss: Any) -> Op:
    """``fn(x, y, weight?, *statics, weighted, reduction)`` of the elements of x - y."""

    def fn(x: Any, y: Any, *rest: Any) -> Any:
        *statics, weighted, reduction = rest
        weight = statics.pop(0) if weighted else None
        found = loss(x - y, *statics)
        if weight is None:
            return reduced(found, reduction)
        found = found * weight
        if reduction != "mean":
            return reduced(found, reduction)
        return found.sum() / np.broadcast_to(weight, found.shape).sum()

    return Op(name, fn)


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
    op: Op, name: str, input: Tensor, target: Tensor, weight: Tensor | None, statics: tuple[Any, ...], reduction: str
) -> Tensor:
    x, y = _arrays(name, input, target)
    if x.shape != y.shape:
        warnings.warn(
            f"Using a target size (torch.{target.shape}) that is different to the input size (torch.{input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
    if x.dtype != y.dtype:
        input, target = meet(input, target)
    operands = (input, target) if weight is None else (input, target, weight)
    return apply(op, operands, (*statics, weight is not None, reduction))


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """(x - y)², averaged, summed, or (*reduction* "none") element by element.

    :param input: any shape, as *target*.
    :param weight: of each element; the mean is then a weighted one.
    """
    reduction = _reduction(reduction, size_average, reduce)
    return _of_difference(MSE, "mse_loss", input, target, weight, (), reduction)


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """\\|x - y\\|; arguments as those of ``mse_loss``."""
    reduction = _reduction(reduction, size_average, reduce)
    return _of_difference(L1[reduction], "l1_loss", input, target, weight, (), reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """(x - y)² / (2 · beta) where \\|x - y\\| is below *beta*, \\|x - y\\| - beta / 2 elsewhere."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    reduction = _reduction(reduction, size_average, reduce)
    return _of_difference(SMOOTH_L1, "smooth_l1_loss", input, target, None, (float(beta),), reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """(x - y)² / 2 where \\|x - y\\| is up to *delta*, delta · (\\|x - y\\| - delta / 2) elsewhere."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    reduction = _reduction(reduction, None, None)
    return _of_difference(HUBER, "huber_loss", input, target, weight, (float(delta),), reduction)


# ---- scores against classes ------------------------------------------------------------------------------------------


def _axis_of_classes(x: Any) -> int:
    return 0 if len(x.shape) == 1 else 1


def _along(vector: Any, x: Any, axis: int) -> Any:
    """A vector over the classes, as it meets x."""
    return vector.reshape(*[-1 if k == axis else 1 for k in range(len(x.shape))])


def _log_probabilities(x: Any, axis: int) -> Any:
    shifted = x - held(x.max(axis=axis, keepdims=True))
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _at_target(log_p: Any, target: Any, weight: Any, ignored: int | None, smoothing: float, reduction: str) -> Any:
    """The loss where *target* holds class numbers.  *ignored* is None where every target counts."""
    axis = _axis_of_classes(log_p)
    classes = log_p.shape[axis]
    right = is_class(target, classes, axis)
    counts = None if ignored is None else target != ignored
    if counts is not None:
        right = right & np.expand_dims(counts, axis)
    weights = None  # of the targets
    if weight is not None:
        per_class = _along(weight, log_p, axis)
        weights = np.where(right, per_class, 0).sum(axis=axis)
    elif counts is not None:
        weights = counts.astype(log_p.dtype)
    picked = np.where(right, log_p, 0).sum(axis=axis)
    loss = -picked if weight is None else -picked * weights
    total = None
    if reduction == "mean":
        total = loss.sum() / (weights.sum() if weights is not None else target.size)
    if smoothing:
        spread = -(log_p if weight is None else log_p * per_class).sum(axis=axis)
        if counts is not None:
            spread = np.where(counts, spread, 0)
        share = smoothing / classes
        if total is not None:
            number = weights.sum() if weights is not None else target.size
            return (1.0 - smoothing) * total + share * (spread.sum() / number)
        loss = (1.0 - smoothing) * loss + share * spread
    return total if total is not None else reduced(loss, reduction)


def _cross_entropy(x: Any, target: Any, *rest: Any) -> Any:
    *weight, ignored, smoothing, reduction = rest
    log_p = _log_probabilities(x, _axis_of_classes(x))
    return _at_target(log_p, target, weight[0] if weight else None, ignored, smoothing, reduction)


def _nll(log_p: Any, target: Any, *rest: Any) -> Any:
    *weight, ignored, reduction = rest
    return _at_target(log_p, target, weight[0] if weight else None, ignored, 0.0, reduction)


def _cross_entropy_of_shares(x: Any, target: Any, *rest: Any) -> Any:
    *weight, smoothing, reduction = rest
    axis = _axis_of_classes(x)
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / x.shape[axis]
    terms = target * _log_probabilities(x, axis)
    if weight:
        terms = terms * _along(weight[0], x, axis)
    if reduction == "mean":
        return -terms.sum() / (x.size // x.shape[axis])
    return reduced(-terms.sum(axis=axis), reduction)


CROSS_ENTROPY = Op("NllLoss", _cross_entropy)
CROSS_ENTROPY_OF_SHARES = Op("DivBackward1", _cross_entropy_of_shares)
NLL = Op("NllLoss", _nll)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-log softmax(scores) at the right class.

    :param input: scores, shape (n, classes), (classes,), or (n, classes, ...).
    :param target: class numbers, shape (n,), () or (n, ...); or probabilities, in the shape of *input*.
    :param weight: of each class, shape (classes,).
    :param ignore_index: a target that does not count.
    :param label_smoothing: the share of each target that is spread over all classes.
    """
    x, y = _arrays("cross_entropy_loss", input, target)
    reduction = _reduction(reduction, size_average, reduce)
    smoothing = float(label_smoothing)
    if not 0.0 <= smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if not x.shape:
        raise RuntimeError("cross_entropy: the scores need an axis of classes")
    _check_weight(weight, x)
    if x.shape == y.shape and y.dtype.kind == "f":
        operands = (input, target) if weight is None else (input, target, weight)
        return apply(CROSS_ENTROPY_OF_SHARES, operands, (smoothing, reduction))
    ignored = _check_targets(input, target, ignore_index)
    operands = (input, target) if weight is None else (input, target, weight)
    return apply(CROSS_ENTROPY, operands, (ignored, smoothing, reduction))


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus the log-probability of the right class; arguments as those of ``cross_entropy``, with log-probabilities
    for scores."""
    x, _ = _arrays("nll_loss_nd", input, target)
    reduction = _reduction(reduction, size_average, reduce)
    _check_weight(weight, x)
    ignored = _check_targets(input, target, ignore_index)
    operands = (input, target) if weight is None else (input, target, weight)
    return apply(NLL, operands, (ignored, reduction))


def _check_weight(weight: Tensor | None, x: Any) -> None:
    classes = x.shape[_axis_of_classes(x)]
    if weight is not None and raw(weight).shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(raw(weight).shape)}"
        )
    if weight is not None and raw(weight).dtype != x.dtype:
        raise RuntimeError(f"expected scalar type {scalar_name(x.dtype)} but found {scalar_name(raw(weight).dtype)}")


def _check_targets(input: Tensor, target: Tensor, ignore_index: int) -> int | None:
    """What number to ignore; None where no target has it."""
    x, y = raw(input), raw(target)
    axis = _axis_of_classes(x)
    if y.dtype.kind not in "iu":
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {scalar_name(y.dtype)}")
    wanted = x.shape[:axis] + x.shape[axis + 1 :]
    if y.shape != wanted:
        if axis < len(x.shape) and x.shape[:1] != y.shape[:1] and len(y.shape) == len(wanted) == 1:
            raise ValueError(f"Expected input batch_size ({x.shape[0]}) to match target batch_size ({y.shape[0]}).")
        if len(x.shape) <= 2:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        raise ValueError(f"Expected target size {list(wanted)}, got {list(y.shape)}")
    if not y.size:
        return None
    classes = x.shape[axis]
    if all_within(target, classes):
        return ignore_index if 0 <= ignore_index < classes else None
    if not all_within(target, classes, ignore_index):
        wrong = np.where(((y >= 0) & (y < classes)) | (y == ignore_index), 0, y)
        raise IndexError(f"Target {int(wrong.max()) or int(wrong.min())} is out of bounds.")
    return ignore_index


# ---- probabilities and logits against labels -------------------------------------------------------------------------


def _log_of(p: Any) -> Any:
    return np.maximum(np.log(p), -100.0)  # so that a certain prediction that is wrong costs 100, as in PyTorch


def _bce(x: Any, y: Any, *rest: Any) -> Any:
    *weight, reduction = rest
    loss = -(y * _log_of(x) + (1.0 - y) * np.maximum(np.log1p(-x), -100.0))
    return reduced(loss * weight[0] if weight else loss, reduction)


def _bce_with_logits(x: Any, y: Any, *rest: Any) -> Any:
    *given, has_weight, has_pos_weight, reduction = rest
    below = np.logaddexp(0.0, -x)  # -log sigmoid(x)
    if has_pos_weight:
        below = below * (1.0 + (given[-1] - 1.0) * y)
    loss = (1.0 - y) * x + below
    return reduced(loss * given[0] if has_weight else loss, reduction)


BCE = Op("BinaryCrossEntropy", _bce)
BCE_WITH_LOGITS = Op("BinaryCrossEntropyWithLogits", _bce_with_logits)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-(y · log x + (1 - y) · log(1 - x)) for probabilities x; the logarithms are not let below -100.

    :param input: any shape, as *target*.
    :param weight: of each element, broadcast.
    """
    x, y = _arrays("binary_cross_entropy", input, target)
    reduction = _reduction(reduction, size_average, reduce)
    if x.shape != y.shape:
        raise ValueError(
            f"Using a target size (torch.{target.shape}) that is different to the input size (torch.{input.shape}) is "
            "deprecated. Please ensure they have the same size."
        )
    if not bool(((x >= 0) & (x <= 1)).all()):
        raise RuntimeError("all elements of input should be between 0 and 1")
    if not bool(((y >= 0) & (y <= 1)).all()):
        raise RuntimeError("all elements of target should be between 0 and 1")
    if x.dtype != y.dtype:
        raise RuntimeError(f"Found dtype {scalar_name(y.dtype)} but expected {scalar_name(x.dtype)}")
    operands = (input, target) if weight is None else (input, target, weight)
    return apply(BCE, operands, (reduction,))


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``binary_cross_entropy`` of sigmoid(x), stable far from 0.

    :param input: any shape, as *target*.
    :param weight: of each element, broadcast.
    :param pos_weight: of the positive labels, broadcast.
    """
    x, y = _arrays("binary_cross_entropy_with_logits", input, target)
    reduction = _reduction(reduction, size_average, reduce)
    if x.shape != y.shape:
        raise ValueError(f"Target size (torch.{target.shape}) must be the same as input size (torch.{input.shape})")
    if x.dtype != y.dtype:
        input, target = meet(input, target)
    given = tuple([t for t in (weight, pos_weight) if t is not None])
    return apply(BCE_WITH_LOGITS, (input, target, *given), (weight is not None, pos_weight is not None, reduction))


def _kl_div(x: Any, y: Any, log_target: bool, reduction: str) -> Any:
    terms = np.exp(y) * (y - x) if log_target else sp.xlogy(y, y) - y * x
    return terms.sum() / x.shape[0] if reduction == "batchmean" else reduced(terms, reduction)


KL_DIV = Op("KlDiv", _kl_div)


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """y · (log y - x) for log-probabilities x and probabilities y (with *log_target*, their logarithms).

    :param input: any shape, as *target*.
    :param reduction: also "batchmean": the sum, divided by the size of the first axis.
    """
    _arrays("kl_div", input, target)
    if reduction != "batchmean":
        reduction = _reduction(reduction, size_average, reduce)
    a, b = meet(input, target)
    return apply(KL_DIV, (a, b), (bool(log_target), reduction))


__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "kl_div", "l1_loss",
    "mse_loss", "nll_loss", "smooth_l1_loss",
]  # fmt: skip
