"""``GradScaler``: losses multiplied before ``backward``, so that small gradients of float16 values do not become 0.

Its state is the scale, the number of steps since it last changed, and, for each optimizer since the last ``update``,
whether its gradients have been divided by the scale, and whether they were all finite.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..tensors.modes import no_grad
from ..tensors.tensor import Tensor, raw
from ..tracer.ir.aval import FLOAT16
from ..tracer.ir.data_classes import dataclass
from .optimizer import Optimizer


@dataclass(slots=True)
class _Progress:
    unscaled: bool = False
    stepped: bool = False
    overflow: bool = False


class GradScaler:
    """Scales losses; the scale falls when a gradient overflows, and grows after *growth_interval* steps without that.

    With ``enabled=False`` every method passes on what it is given.  ValueError for factors that would not change the
    scale in their direction.
    """

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        if growth_factor <= 1.0:
            raise ValueError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise ValueError("The backoff factor must be < 1.0.")
        self._enabled = enabled
        self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._progress: dict[int, _Progress] = {}

    def scale(self, outputs: Any) -> Any:
        """*outputs*, a tensor or lists and tuples of tensors, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            return type(outputs)([self.scale(o) for o in outputs])
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the parameters of *optimizer* by the scale, as before clipping."""
        if not self._enabled:
            return
        progress = self._of(optimizer)
        if progress.unscaled:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if progress.stepped:
            raise RuntimeError("unscale_() is being called after step().")
        self._unscale(optimizer, progress)

    def _unscale(self, optimizer: Optimizer, progress: _Progress) -> None:
        factor = 1.0 / self._scale
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if p.grad.dtype == FLOAT16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    p.grad.mul_(factor)
                    if not np.isfinite(raw(p.grad)).all():
                        progress.overflow = True
        progress.unscaled = True

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()``, unless a gradient is infinite or NaN; first the gradients are divided by the scale."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or args:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        progress = self._of(optimizer)
        if progress.stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if not progress.unscaled:
            self._unscale(optimizer, progress)
        progress.stepped = True
        return None if progress.overflow else optimizer.step(**kwargs)

    def update(self, new_scale: float | None = None) -> None:
        """Adapt the scale to overflows in the steps since the last update, or set it."""
        if not self._enabled:
            return
        seen = [p for p in self._progress.values() if p.unscaled]
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not seen:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(p.overflow for p in seen):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._progress.clear()

    def _of(self, optimizer: Optimizer) -> _Progress:
        return self._progress.setdefault(id(optimizer), _Progress())

    # ---- what it holds -------------------------------------------------------------------------------------------

    def is_enabled(self) -> bool:
        return self._enabled

    def get_scale(self) -> float:
        return self._scale if self._enabled else 1.0

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it changes; empty where the scaler is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
