"""Mixed precision, in PyTorch's spelling."""

from .runtime.eager.autocast import autocast
from .runtime.optim.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
