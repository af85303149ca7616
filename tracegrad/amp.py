"""Mixed precision, in PyTorch's spelling."""

from .optim.grad_scaler import GradScaler
from .tensors.autocast import autocast

__all__ = ["GradScaler", "autocast"]
