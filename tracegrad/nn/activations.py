"""Activations as modules.  All are elementwise, of any shape, but ``Softmax`` and ``LogSoftmax``."""

from __future__ import annotations

from ..tensors.tensor import Tensor
from .functional import basic
from .module import Module


class _InPlace(Module):
    """An activation without settings; with *inplace* it overwrites its argument."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0)"""

    def forward(self, input: Tensor) -> Tensor:
        return basic.relu(input, self.inplace)


class ReLU6(_InPlace):
    """x between 0 and 6."""

    def forward(self, input: Tensor) -> Tensor:
        return basic.relu6(input, self.inplace)


class SELU(_InPlace):
    """Scaled ELU."""

    def forward(self, input: Tensor) -> Tensor:
        return basic.selu(input, self.inplace)


class SiLU(_InPlace):
    """x · sigmoid(x)"""

    def forward(self, input: Tensor) -> Tensor:
        return basic.silu(input, self.inplace)


class Mish(_InPlace):
    """x · tanh(softplus(x))"""

    def forward(self, input: Tensor) -> Tensor:
        return basic.mish(input, self.inplace)


class LeakyReLU(Module):
    """x where positive, *negative_slope* · x elsewhere."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return basic.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{', inplace=True' if self.inplace else ''}"


class ELU(Module):
    """x where positive, *alpha* · (exp(x) - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return basic.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{', inplace=True' if self.inplace else ''}"


class Hardtanh(Module):
    """x between *min_val* and *max_val*."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if max_val <= min_val:
            raise AssertionError("max_val must be larger than min_val")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        return basic.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{', inplace=True' if self.inplace else ''}"


class GELU(Module):
    """x · Φ(x); with *approximate* "tanh", Φ by a tanh."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return basic.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta · x)) / beta; x itself where beta · x is above *threshold*."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return basic.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        return basic.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))"""

    def forward(self, input: Tensor) -> Tensor:
        return basic.sigmoid(input)


class LogSigmoid(Module):
    """log(sigmoid(x))"""

    def forward(self, input: Tensor) -> Tensor:
        return basic.logsigmoid(input)


class Softsign(Module):
    """x / (1 + \\|x\\|)"""

    def forward(self, input: Tensor) -> Tensor:
        return basic.softsign(input)


class Softmax(Module):
    """exp(x) along *dim*, divided by its sum there."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return basic.softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of ``Softmax``."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return basic.log_softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


__all__ = [
    "ELU", "GELU", "SELU", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "ReLU", "ReLU6", "SiLU",
    "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh",
]  # fmt: skip
