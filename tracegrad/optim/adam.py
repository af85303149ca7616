"""Adam, with AMSGrad, and AdamW."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..tensors.tensor import Tensor
from ..tensors.update import fused_update
from .optimizer import (
    FusedOptimizer,
    Group,
    Params,
    check_flags,
    check_learning_rate,
    check_not_negative,
    check_option,
    descended,
    options,
)


class Adam(FusedOptimizer):
    r"""Adam.

    .. math::
        g &\leftarrow \nabla f(\theta) + \lambda \theta \\
        m &\leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
        \theta &\leftarrow \theta - \frac{\gamma}{1 - \beta_1^t} \, m \Big/
            \left(\sqrt{v} / \sqrt{1 - \beta_2^t} + \epsilon\right)

    with learning rate γ (*lr*), β (*betas*), ε (*eps*), λ (*weight_decay*).  With *amsgrad* the largest v so far takes
    the place of v; *maximize* ascends; with *decoupled_weight_decay* it is AdamW.  D. P. Kingma and J. Ba, "Adam: a
    method for stochastic optimization", ICLR 2015; S. Reddi et al., "On the convergence of Adam and beyond", ICLR 2018.
    """

    _later: ClassVar[dict[str, Any]] = {
        "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False, "fused": None,
    }  # fmt: skip

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_not_negative(epsilon=eps)
        given = options(locals())
        for k in (0, 1):
            check_option(f"beta parameter at index {k}", betas[k], bool(betas[k] >= 0.0) and bool(betas[k] < 1.0))
        check_not_negative(weight_decay=weight_decay)
        if not (all(isinstance(b, float) for b in betas) or all(isinstance(b, Tensor) for b in betas)):
            raise ValueError("betas must be either both floats or both Tensors")
        check_flags(fused, foreach)
        super().__init__(params, given | {"betas": tuple([float(b) for b in betas])})

    def _update(self, group: Group) -> None:
        names = ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        rows = self._rows(group, names if group["amsgrad"] else names[:3])
        hyper = (group, "lr"), (group, "betas", 0), (group, "betas", 1), (group, "eps"), (group, "weight_decay")
        decay = ("decoupled" if group["decoupled_weight_decay"] else "added") if group["weight_decay"] != 0 else None
        fused_update(adam_rule, rows, hyper, (bool(group["maximize"]), decay, 1 - group["betas"][0] < 0.5))


class AdamW(Adam):
    r"""Adam with decoupled weight decay: θ shrinks by the factor 1 − γλ before each step, and λ is not in g.

    I. Loshchilov and F. Hutter, "Decoupled weight decay regularization", ICLR 2019.
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def lerp(start: Any, end: Any, weight: Any, small: bool) -> Any:
    """``start + weight * (end - start)``, from the nearer end; *small* says that weight is below 1/2."""
    return start + weight * (end - start) if small else end - (end - start) * (1 - weight)


def adam_rule(
    arrays: tuple[Any, ...], lr: Any, beta1: Any, beta2: Any, eps: Any, weight_decay: Any, maximize: bool,
    decay: str | None, small: bool,
) -> tuple[Any, ...]:  # fmt: skip
    p, g, step, m, v = arrays[:5]
    dtype = p.dtype
    g = descended(p, g, weight_decay, maximize, decay == "added")
    step = step + 1
    if decay == "decoupled":
        p = p * (1 - lr * weight_decay)
    m = lerp(m, g, 1 - beta1, small)
    v = v * beta2 + (1 - beta2) * g * g
    t = step.astype(np.float64)  # the numbers of a step are in double precision, whatever the parameters are
    size = (lr / (1 - beta1**t)).astype(dtype)
    root = np.sqrt(1 - beta2**t).astype(dtype)
    if len(arrays) == 5:
        return p - size * m / (np.sqrt(v) / root + eps), None, step, m, v
    largest = np.maximum(arrays[5], v)
    return p - size * m / (np.sqrt(largest) / root + eps), None, step, m, v, largest
