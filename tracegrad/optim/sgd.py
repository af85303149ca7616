"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any, ClassVar

from ..tensors.modes import STATE
from ..tensors.update import fused_update
from ..tracer.ir.refusals import Refusal
from .optimizer import (
    FusedOptimizer,
    Group,
    Params,
    check_flags,
    check_learning_rate,
    check_not_negative,
    descended,
    options,
)
from .state import zeros_like


class SGD(FusedOptimizer):
    r"""Stochastic gradient descent.

    .. math::
        g &\leftarrow \nabla f(\theta) + \lambda \theta \\
        b &\leftarrow \mu b + (1 - \tau) g \quad (\text{at first } b = g) \\
        \theta &\leftarrow \theta - \gamma b \quad (\text{Nesterov: } \theta - \gamma (g + \mu b))

    with learning rate γ (*lr*), μ (*momentum*), τ (*dampening*), λ (*weight_decay*).  *maximize* ascends.  Momentum: I.
    Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013; the formula has
    PyTorch's conventions.
    """

    _later: ClassVar[dict[str, Any]] = {
        "nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False,
    }  # fmt: skip

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_learning_rate(lr)
        check_not_negative(momentum=momentum, weight_decay=weight_decay)
        check_flags(fused, foreach)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, options(locals()))

    def _update(self, group: Group) -> None:
        hyper = (group, "lr"), (group, "weight_decay"), (group, "momentum"), (group, "dampening")
        statics = bool(group["maximize"]), bool(group["weight_decay"] != 0)
        found = self._with_grads(group)
        if group["momentum"] == 0:
            fused_update(plain_rule, found, hyper[:2], statics)
            return
        rows, fresh = [], []
        for p, grad in found:
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = zeros_like(p)
                fresh.append((p, grad, buffer))
            else:
                rows.append((p, grad, buffer))
        dampened = bool(group["dampening"] != 0)
        if fresh and not dampened:  # without dampening a buffer of zeros becomes the gradient by itself
            rows, fresh = [*rows, *fresh] if rows else fresh, []
        if fresh and STATE.capture is not None:
            STATE.capture.refuse(Refusal.STEP_DAMPENING)
        for part, first in ((rows, False), (fresh, True)):
            fused_update(momentum_rule, part, hyper, (*statics, bool(group["nesterov"]), dampened, first))


def plain_rule(arrays: tuple[Any, ...], lr: Any, weight_decay: Any, maximize: bool, decays: bool) -> tuple[Any, ...]:
    p, g = arrays
    g = descended(p, g, weight_decay, maximize, decays)
    return p - lr * g, None


def momentum_rule(
    arrays: tuple[Any, ...], lr: Any, weight_decay: Any, momentum: Any, dampening: Any, maximize: bool, decays: bool,
    nesterov: bool, dampened: bool, first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    p, g, buffer = arrays
    g = descended(p, g, weight_decay, maximize, decays)
    if first:
        buffer = g
    else:
        buffer = momentum * buffer + ((1 - dampening) * g if dampened else g)
    direction = g + momentum * buffer if nesterov else buffer
    return p - lr * direction, None, buffer
