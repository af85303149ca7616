"""Losses of scores against classes: ``cross_entropy`` and ``nll_loss``.

The score of the right class is found by comparing with all class numbers (``is_class``), which stays within the loops
of the softmax.  The targets are checked before, outside of the operation; in a compiled step that is a guard.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensors.dtypes import scalar_name
from ...tensors.ops_reduce import log_softmax_of
from ...tensors.tensor import Tensor, raw
from ...tracer.ir.aval import FLOAT_KINDS
from ...tracer.record.autocast import may_meet
from .arrays import OptionalOp, all_within, is_class, reduced
from .value_losses import arrays_of, reduction_of


def _axis_of_classes(x: Any) -> int:
    return 0 if len(x.shape) == 1 else 1


def _along(vector: Any, x: Any, axis: int) -> Any:
    """A vector over the classes in a shape that broadcasts with x."""
    return vector.reshape(*[-1 if k == axis else 1 for k in range(len(x.shape))])


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


def _cross_entropy(x: Any, target: Any, weight: Any, ignored: int | None, smoothing: float, reduction: str) -> Any:
    if type(x) is np.ndarray and x.ndim == 2 and weight is None and ignored is None and not smoothing:
        return _looked_up(x, target, reduction)
    return _at_target(log_softmax_of(x, _axis_of_classes(x)), target, weight, ignored, smoothing, reduction)


def _looked_up(x: np.ndarray, target: np.ndarray, reduction: str) -> Any:
    """The loss without options, by indexing arrays: half of the time of small losses is spent here."""
    shifted = x - np.maximum.reduce(x, axis=1, keepdims=True)
    picked = shifted[np.arange(len(x)), target]
    return reduced(np.log(np.add.reduce(np.exp(shifted), axis=1)) - picked, reduction)


def _cross_entropy_of_shares(x: Any, target: Any, weight: Any, smoothing: float, reduction: str) -> Any:
    axis = _axis_of_classes(x)
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / x.shape[axis]
    terms = target * log_softmax_of(x, axis)
    if weight is not None:
        terms = terms * _along(weight, x, axis)
    if reduction == "mean":
        return -terms.sum() / (x.size // x.shape[axis])
    return reduced(-terms.sum(axis=axis), reduction)


CROSS_ENTROPY = OptionalOp("NllLoss", _cross_entropy)
CROSS_ENTROPY_OF_SHARES = OptionalOp("DivBackward1", _cross_entropy_of_shares, mixed="float32")
NLL = OptionalOp("NllLoss", _at_target)


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
    x, y = arrays_of("cross_entropy_loss", input, target)
    reduction = reduction_of(reduction, size_average, reduce)
    smoothing = float(label_smoothing)
    if not 0.0 <= smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if not x.shape:
        raise RuntimeError("cross_entropy: the scores need an axis of classes")
    _check_weight(weight, x)
    if x.shape == y.shape and y.dtype.kind in FLOAT_KINDS:
        return CROSS_ENTROPY_OF_SHARES.of((input, target), (weight,), smoothing, reduction)
    ignored = _check_targets(input, target, ignore_index)
    return CROSS_ENTROPY.of((input, target), (weight,), ignored, smoothing, reduction)


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus the log-probability of the right class; arguments as those of ``cross_entropy``, with log-probabilities
    for scores."""
    x, _ = arrays_of("nll_loss_nd", input, target)
    reduction = reduction_of(reduction, size_average, reduce)
    _check_weight(weight, x)
    return NLL.of((input, target), (weight,), _check_targets(input, target, ignore_index), 0.0, reduction)


def _check_weight(weight: Tensor | None, x: Any) -> None:
    classes = x.shape[_axis_of_classes(x)]
    if weight is not None and raw(weight).shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(raw(weight).shape)}"
        )
    if weight is not None and not may_meet(raw(weight).dtype, x.dtype):
        raise RuntimeError(f"expected scalar type {scalar_name(x.dtype)} but found {scalar_name(raw(weight).dtype)}")


def _check_targets(input: Tensor, target: Tensor, ignore_index: int) -> int | None:
    """The number to ignore; None where no target has it."""
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


__all__ = ["cross_entropy", "nll_loss"]
