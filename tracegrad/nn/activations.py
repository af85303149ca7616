"""Activations as modules.  All are elementwise, of any shape, but ``Softmax`` and ``LogSoftmax``."""

from __future__ import annotations

from ..tensors.tensor import Tensor
from .functional import basic
from .module import Module


class _InPlace(Module):
    """An activation that overwrites its argument with *inplace*."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return ", ".join(filter(None, (super().extra_repr(), "inplace=True" if self.inplace else "")))


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


class LeakyReLU(_InPlace):
    """x where positive, *negative_slope* · x elsewhere."""

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return basic.leaky_relu(input, self.negative_slope, self.inplace)


class ELU(_InPlace):
    """x where positive, *alpha* · (exp(x) - 1) elsewhere."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return basic.elu(input, self.alpha, self.inplace)


class Hardtanh(_InPlace):
    """x between *min_val* and *max_val*."""

    _shown = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        if max_val <= min_val:
            raise AssertionError("max_val must be larger than min_val")
        self.min_val, self.max_val = min_val, max_val

    def forward(self, input: Tensor) -> Tensor:
        return basic.hardtanh(input, self.min_val, self.max_val, self.inplace)


class GELU(Module):
    """x · Φ(x); with *approximate* "tanh", Φ by a tanh."""

    _shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return basic.gelu(input, self.approximate)


class Softplus(Module):
    """log(1 + exp(beta · x)) / beta; x itself where beta · x is above *threshold*."""

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return basic.softplus(input, self.beta, self.threshold)


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


class _Along(Module):
    """A function along *dim*."""

    _shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax(_Along):
    """exp(x) along *dim*, divided by its sum there."""

    def forward(self, input: Tensor) -> Tensor:
        return basic.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_Along):
    """The logarithm of ``Softmax``."""

    def forward(self, input: Tensor) -> Tensor:
        return basic.log_softmax(input, self.dim, _stacklevel=5)


__all__ = [
    "ELU", "GELU", "SELU", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "ReLU", "ReLU6", "SiLU",
    "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh",
]  # fmt: skip
