"""Initial values of parameters.  Each function fills a tensor in place, without a trace of it in any graph, and gives
the tensor back.  Random numbers come from the generator given, or from the default one (``manual_seed``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensors import create, random
from ..tensors.modes import no_grad
from ..tensors.ops_basic import copy_, fill_
from ..tensors.tensor import METHODS, Tensor, make
from ..tracer.ir.tracebacks import shorten_all
from ..tracer.ops import scipy_ufuncs as sp

_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
_LINEAR = ("linear", "sigmoid", *(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)))


_Draw = Callable[[np.random.Generator], Any]


def _fill(tensor: Tensor, draw: _Draw, generator: Any = None) -> Tensor:
    if tensor.is_complex():
        raise NotImplementedError(
            "this function of nn.init does not fill complex tensors: fill t.real and t.imag, or use normal_ or uniform_"
        )
    with no_grad():
        return copy_(tensor, make(random.drawn(lambda stream: draw(stream).astype(tensor.dtype), generator)))


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor of the standard deviation of weights with which a *nonlinearity* keeps the variance."""
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, int | float) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


# ---- one distribution for all elements -------------------------------------------------------------------------------


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform numbers in [a, b)."""
    if tensor.is_complex():
        with no_grad():
            return METHODS["uniform_"](tensor, a, b, generator=generator)
    return _fill(tensor, lambda stream: stream.uniform(a, b, tensor.shape), generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal numbers."""
    if tensor.is_complex():
        with no_grad():
            return METHODS["normal_"](tensor, mean, std, generator=generator)
    return _fill(tensor, lambda stream: stream.normal(mean, std, tensor.shape), generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Normal numbers, of which only those in [a, b] are taken."""
    low, high = sp.ndtr((a - mean) / std), sp.ndtr((b - mean) / std)

    def draw(stream: np.random.Generator) -> Any:
        return np.clip(sp.ndtri(stream.uniform(low, high, tensor.shape)) * std + mean, a, b)

    return _fill(tensor, draw, generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """*val* everywhere."""
    with no_grad():
        return fill_(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0.0)


# ---- by the sizes of a weight ----------------------------------------------------------------------------------------


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform, with variance gain² · 2 / (fan in + fan out)."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal, with variance gain² · 2 / (fan in + fan out)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def _kaiming(fill: Callable[[float], Tensor], tensor: Tensor, a: float, mode: str, nonlinearity: str) -> Tensor:
    """*fill* by the standard deviation with which the variance is kept; an empty tensor is left alone."""
    if not math.prod(tensor.shape):
        return tensor
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fill(calculate_gain(nonlinearity, a) / math.sqrt(fan_in if mode == "fan_in" else fan_out))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform, with variance gain² / fan."""
    bound = math.sqrt(3.0)
    return _kaiming(lambda std: uniform_(tensor, -bound * std, bound * std, generator), tensor, a, mode, nonlinearity)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal, with variance gain² / fan."""
    return _kaiming(lambda std: normal_(tensor, 0.0, std, generator), tensor, a, mode, nonlinearity)


# ---- matrices of a certain form --------------------------------------------------------------------------------------


def eye_(tensor: Tensor) -> Tensor:
    """The identity, of two axes."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        return copy_(tensor, create.eye(*tensor.shape, dtype=tensor.dtype))


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A matrix with orthonormal rows or columns, times *gain*; further axes count as columns."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    rows = tensor.shape[0]
    columns = math.prod(tensor.shape[1:])

    def draw(stream: np.random.Generator) -> Any:
        q, r = np.linalg.qr(stream.standard_normal((max(rows, columns), min(rows, columns))))
        q *= np.sign(np.diagonal(r))
        return gain * (q.T if rows < columns else q).reshape(tensor.shape)

    return _fill(tensor, draw, generator)


__all__ = [
    "calculate_gain", "constant_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_",
    "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

shorten_all(globals(), __all__)
