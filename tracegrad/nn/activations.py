"""Activations as modules.  All are elementwise, of any shape, but ``Softmax`` and ``LogSoftmax``."""

from __future__ import annotations

from typing import Any

from .function_module import FunctionModule
from .functional import basic


class ReLU(FunctionModule, function=basic.relu):
    """max(x, 0)"""


class ReLU6(FunctionModule, function=basic.relu6):
    """x between 0 and 6."""


class SELU(FunctionModule, function=basic.selu):
    """Scaled ELU."""


class SiLU(FunctionModule, function=basic.silu):
    """x · sigmoid(x)"""


class Mish(FunctionModule, function=basic.mish):
    """x · tanh(softplus(x))"""


class LeakyReLU(FunctionModule, function=basic.leaky_relu):
    """x where positive, *negative_slope* · x elsewhere."""


class ELU(FunctionModule, function=basic.elu):
    """x where positive, *alpha* · (exp(x) - 1) elsewhere."""


class Hardtanh(FunctionModule, function=basic.hardtanh):
    """x between *min_val* and *max_val*."""

    def _settle(self, **settings: Any) -> None:
        if settings["max_val"] <= settings["min_val"]:
            raise AssertionError("max_val must be larger than min_val")
        super()._settle(**settings)


class GELU(FunctionModule, function=basic.gelu):
    """x · Φ(x); with *approximate* "tanh", Φ by a tanh."""


class Softplus(FunctionModule, function=basic.softplus):
    """log(1 + exp(beta · x)) / beta; x itself where beta · x is above *threshold*."""


class Tanh(FunctionModule, function=basic.tanh):
    """The hyperbolic tangent."""


class Sigmoid(FunctionModule, function=basic.sigmoid):
    """1 / (1 + exp(-x))"""


class LogSigmoid(FunctionModule, function=basic.logsigmoid):
    """log(sigmoid(x))"""


class Softsign(FunctionModule, function=basic.softsign):
    """x / (1 + \\|x\\|)"""


class Softmax(FunctionModule, function=basic.softmax, without=("_stacklevel", "dtype")):
    """exp(x) along *dim*, divided by its sum there."""


class LogSoftmax(FunctionModule, function=basic.log_softmax, without=("_stacklevel", "dtype")):
    """The logarithm of ``Softmax``."""


__all__ = [
    "ELU", "GELU", "SELU", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "ReLU", "ReLU6", "SiLU",
    "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh",
]  # fmt: skip
