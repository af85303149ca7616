"""Losses as modules: the functions of ``value_losses.py`` and ``class_losses.py``, with their settings."""

from __future__ import annotations

from typing import Any

from ..tensors.tensor import Tensor
from .function_module import FunctionModule
from .functional import class_losses, value_losses


class _Loss(FunctionModule):
    """A loss of an input and a target; *reduction* is "mean", "sum" or "none".  Weights are buffers."""

    _folded = ("size_average", "reduce")
    weight: Tensor | None
    pos_weight: Tensor | None

    def _settle(self, **settings: Any) -> None:
        legacy = [settings.pop(name, None) for name in self._folded]
        if legacy != [None, None]:
            settings["reduction"] = value_losses.reduction_of(settings["reduction"], *legacy)
        for name in ("weight", "pos_weight"):
            if name in settings:
                self.register_buffer(name, settings.pop(name))
        super()._settle(**settings)

    def extra_repr(self) -> str:
        return ""


class MSELoss(_Loss, function=value_losses.mse_loss, inputs=2, without=("weight",)):
    """(x - y)²; input and target of one shape."""


class L1Loss(_Loss, function=value_losses.l1_loss, inputs=2, without=("weight",)):
    """\\|x - y\\|; input and target of one shape."""


class SmoothL1Loss(_Loss, function=value_losses.smooth_l1_loss, inputs=2):
    """(x - y)² / (2 · beta) where \\|x - y\\| is below *beta*, \\|x - y\\| - beta / 2 elsewhere."""


class HuberLoss(_Loss, function=value_losses.huber_loss, inputs=2, without=("weight",)):
    """(x - y)² / 2 where \\|x - y\\| is up to *delta*, delta · (\\|x - y\\| - delta / 2) elsewhere."""


class KLDivLoss(_Loss, function=value_losses.kl_div, inputs=2):
    """y · (log y - x) for log-probabilities x and probabilities y; *reduction* may also be "batchmean"."""


class CrossEntropyLoss(_Loss, function=class_losses.cross_entropy, inputs=2):
    """-log softmax(scores) at the right class.

    Scores have shape (n, classes), (classes,) or (n, classes, ...); the target holds class numbers, without the axis of
    classes, or probabilities in the shape of the scores.  *weight* has shape (classes,).
    """


class NLLLoss(_Loss, function=class_losses.nll_loss, inputs=2):
    """Minus the log-probability of the right class; shapes as in ``CrossEntropyLoss``."""


class BCELoss(_Loss, function=value_losses.binary_cross_entropy, inputs=2):
    """-(y · log x + (1 - y) · log(1 - x)) for probabilities x; input and target of one shape."""


class BCEWithLogitsLoss(_Loss, function=value_losses.binary_cross_entropy_with_logits, inputs=2):
    """``BCELoss`` of sigmoid(x), stable far from 0; *weight* and *pos_weight* (of positive labels) are broadcast."""


__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "NLLLoss",
    "SmoothL1Loss",
]  # fmt: skip
