"""RMSprop, plain, centered, with momentum."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..tensors.update import fused_update
from .adam import lerp
from .optimizer import FusedOptimizer, Group, Params, check_learning_rate, check_not_negative, descended, options


class RMSprop(FusedOptimizer):
    r"""RMSprop.

    .. math::
        g &\leftarrow \nabla f(\theta) + \lambda \theta \\
        v &\leftarrow \alpha v + (1 - \alpha) g^2, \quad \bar g \leftarrow \alpha \bar g + (1 - \alpha) g \\
        b &\leftarrow \mu b + g \big/ \left(\sqrt{v - \bar g^2} + \epsilon\right) \\
        \theta &\leftarrow \theta - \gamma b

    with learning rate γ (*lr*), α (*alpha*), ε (*eps*), λ (*weight_decay*), μ (*momentum*); the mean ḡ is there only if
    *centered*.  *maximize* ascends.  T. Tieleman and G. Hinton, lecture 6.5 of "Neural networks for machine learning",
    2012; centered: A. Graves, "Generating sequences with recurrent neural networks", 2013.
    """

    _later: ClassVar[dict[str, Any]] = {
        "momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False,
        "capturable": False,
    }  # fmt: skip

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_not_negative(epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, options(locals()))

    def _update(self, group: Group) -> None:
        moves, centered = group["momentum"] > 0, bool(group["centered"])
        names = ["step", "square_avg", *["momentum_buffer"] * moves, *["grad_avg"] * centered]
        hyper = (group, "lr"), (group, "alpha"), (group, "eps"), (group, "weight_decay"), (group, "momentum")
        statics = (bool(group["maximize"]), bool(group["weight_decay"] != 0), moves, centered, 1 - group["alpha"] < 0.5)
        fused_update(rmsprop_rule, self._rows(group, names), hyper, statics)


def rmsprop_rule(
    arrays: tuple[Any, ...], lr: Any, alpha: Any, eps: Any, weight_decay: Any, momentum: Any, maximize: bool,
    decays: bool, moves: bool, centered: bool, small: bool,
) -> tuple[Any, ...]:  # fmt: skip
    p, g, step, square = arrays[:4]
    g = descended(p, g, weight_decay, maximize, decays)
    square = square * alpha + (1 - alpha) * g * g
    results: list[Any] = [None, None, step + 1, square]
    if centered:
        mean = lerp(arrays[-1], g, 1 - alpha, small)
        scale = np.sqrt(square - mean * mean) + eps
    else:
        scale = np.sqrt(square) + eps
    if moves:
        buffer = arrays[4] * momentum + g / scale
        results += [buffer]
        results[0] = p - lr * buffer
    else:
        results[0] = p - lr * g / scale
    if centered:
        results += [mean]
    return tuple(results)
